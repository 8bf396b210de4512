"""Cursor: the transcripts of its agents, as JSON lines, JSON or text; its databases are in `cursor_vscdb`.

Several sources may hold one conversation, under one id: the database tells most, then the lines, then JSON, then text,
and only the best of them is found. A transcript tells no time but in its prompts, no results, and no folder but in what
was laid around a prompt; where nothing there tells it, the folder is the one that Cursor knows under the name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Literal

from bede.errors import BadSource, BedeError, cause
from bede.quick import dataclass, field, replace
from bede.sessions import parent_of, session_of
from bede.sources import homes, jsonl
from bede.sources.cursor import vscdb
from bede.sources.cursor.plain import sections
from bede.sources.port import (
    Call,
    Item,
    Prompt,
    Reply,
    Result,
    Session,
    Speaker,
    Table,
    Tally,
    Thought,
    What,
    World,
    tail,
)
from bede.sources.vscode import (
    decoded,
    first,
    folder,
    inside,
    is_command,
    is_foreign,
    mapping,
    sequence,
    short,
    stamps,
    text,
)
from bede.sources.vscode.tools import CURSOR, deed

AGENT = "cursor"
FORM: Literal["document"] = "document"

#: Kinds of transcripts, the best first.
KINDS = (".jsonl", ".json", ".txt")
#: Most blocks behind a prompt that are looked for.
LAYERS = 50
LONGEST = 256 * 1024 * 1024

_LINE = re.compile(rb'\{\s*"role"\s*:\s*"(?:user|assistant)"\s*,\s*"message"\s*:\s*\{')
_ARRAY = re.compile(rb'\[\s*\{\s*"role"\s*:\s*"(?:user|assistant|tool)"\s*,\s*"(?:text|thinking|toolCalls|toolResult)"')
_TEXT = re.compile(rb"(?:user|assistant):[ \t]*\r?\n")
_STAMP = re.compile(
    r"<timestamp>\s*\w+,\s+(\w{3})\w*\s+(\d{1,2}),\s+(\d{4}),\s+(\d{1,2}):(\d\d)\s*([AP]M)\s*"
    r"\((?:UTC|GMT)(?:([+-])(\d{1,2})(?::?(\d\d))?)?\)\s*</timestamp>"
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
#: What Cursor lays around a prompt; none of it was typed.
_LAID = re.compile(
    r"\s*<(timestamp|attached_files|git_diff_from_branch_to_main|git_status|open_and_recently_viewed_files|system_reminder"
    r"|system-reminder|user_info|rules|agent_skills|agent_transcripts|project_layout|additional_data|current_file"
    r"|terminal_files_information|mcp_file_system|linter_errors|image_files|always_applied_workspace_rules"
    r"|available_skills|manually_attached_skills|cursor_commands|external_links)\b[^>]*>.*?</\1>\s*",
    re.DOTALL,
)
_FOLDER = re.compile(r"^[ \t]*Workspace Paths?:(.*)$", re.MULTILINE)
_STOPPED = ("aborted", "cancelled", "canceled", "interrupted")


def find(world: World) -> Iterator[Path]:
    """Yield databases, then the transcripts of conversations that none of them holds, the best one of each."""
    databases = [path for path in _databases(world) if homes.is_file(world, path)]
    yield from databases
    best: dict[str, tuple[int, Path]] = {}
    for path, rank in _transcripts(world):
        name = session_of(AGENT, str(path))
        if name not in best or rank < best[name][0]:
            best[name] = rank, path
    if best:
        known = _known(databases)
        yield from (path for name, (_, path) in best.items() if name not in known)


def _databases(world: World) -> Iterator[Path]:
    for user in homes.users(world, homes.CURSOR):
        yield user / "globalStorage" / "state.vscdb"
        for storage in homes.inside(world, user / "workspaceStorage"):
            yield storage / "state.vscdb"


def _known(databases: list[Path]) -> set[str]:
    """Return the conversations that databases hold; one that cannot be read now holds none."""
    known: set[str] = set()
    for path in databases:
        try:
            known |= vscdb.conversations(path)
        except BedeError:
            continue
    return known


def _transcripts(world: World) -> Iterator[tuple[Path, int]]:
    """Yield transcripts with their rank: 0 is the best."""
    for home in homes.cursor(world):
        for project in homes.inside(world, home / "projects"):
            for entry in homes.inside(world, project / "agent-transcripts"):
                if entry.suffix in KINDS and homes.is_file(world, entry):
                    yield entry, 1 + KINDS.index(entry.suffix)
                    continue
                if entry.suffix:
                    continue
                for name in (entry / f"{entry.name}{kind}" for kind in KINDS):
                    if homes.is_file(world, name):
                        yield name, 2 * KINDS.index(name.suffix)
                for child in homes.inside(world, entry / "subagents"):
                    if child.suffix in KINDS and homes.is_file(world, child):
                        yield child, 2 * KINDS.index(child.suffix)


def accepts(path: Path, head: bytes) -> bool:
    """Tell whether a file is one of Cursor's, by its name and its first 64 KB."""
    begin = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if path.suffix == ".vscdb":
        return head.startswith(b"SQLite format 3\x00")
    is_placed = "agent-transcripts" in path.parts
    if path.suffix == ".jsonl":
        return bool(_LINE.match(begin)) or (is_placed and begin.startswith(b"{"))
    if path.suffix == ".json":
        return bool(_ARRAY.match(begin)) or (is_placed and begin.startswith(b"["))
    return path.suffix == ".txt" and bool(_TEXT.match(begin)) and (is_placed or b"<user_query>" in head)


def beside(path: Path) -> list[Path]:
    """Return the file by which an editor tells the folder of a transcript or of its database, if there is one."""
    if path.suffix == ".vscdb":
        return [path.with_name("workspace.json")]
    return [storage / "workspace.json" for storage in _storages(path)][:1] if _folder(path) else []


def stamp(path: Path) -> str:
    """Return sizes and times of a transcript, or of a database, its log and the file that names its folder."""
    if path.suffix == ".vscdb":
        return stamps(path, path.with_name(path.name + "-wal"), path.with_name("workspace.json"))
    return stamps(path)


def rows(path: Path, sessions: Collection[str]) -> Iterator[tuple[str, Iterator[Table]]]:
    """Yield what a database has of each of some conversations; see `vscdb.rows`."""
    return vscdb.rows(path, sessions)


def load(path: Path, tally: Tally) -> Iterator[Item]:
    """Yield all items of a transcript, or of all conversations in a database, in order.

    Raises:
        BadSource: nothing in it can be read.
        Unavailable: it is a database that cannot be read now.
    """
    if path.suffix == ".vscdb":
        return vscdb.load(path, tally)
    return _transcript(path, tally)


@dataclass(slots=True)
class _Reading:
    """A transcript while it is read."""

    session: Session
    is_side: bool
    at: int | None = None  # as the last prompt tells
    calls: set[str] = field(default_factory=set)
    open: dict[str, list[tuple[str, str]]] = field(
        default_factory=dict
    )  # tool → keys and ids of calls without a result


def _transcript(path: Path, tally: Tally) -> Iterator[Item]:
    session, parent = session_of(AGENT, str(path)), parent_of(AGENT, str(path))
    known = Session(AGENT, cwd=_folder(path), parent=parent, origin="subagent" if parent else "")
    reading = _Reading(known, bool(parent))
    given: Session | None = None
    for line, key, record in _records(path, tally):
        items = list(_items(record, key, reading, tally))
        if reading.session != given:
            given = reading.session
            yield Item(session, "session", given, line=line)
        for name, what in items:
            at = reading.at if isinstance(what, Prompt) else None
            yield Item(session, name, what, at, "min" if at is not None else "", line, is_side=reading.is_side)


def _records(path: Path, tally: Tally) -> Iterator[tuple[int, str, Any]]:
    """Yield the records of a transcript, whatever its kind, with their places and keys."""
    try:
        with path.open("rb") as file:
            if path.suffix == ".jsonl":
                begin, place = file.read(4096), 0
                for place, (spot, record) in enumerate(jsonl.records(file, path, jsonl.Cursor(), tally), 1):
                    yield spot.line, f"{place - 1}:{short(record)}", record
                if not place and (tally.problems["torn"] or is_foreign(begin)):
                    raise BadSource(f"{path} holds no record that can be read", reason="format")
                return
            whole = file.read(LONGEST + 1)
    except OSError as error:
        raise BadSource(f"{path} cannot be read: {cause(error)}", reason="file") from error
    if len(whole) > LONGEST:
        raise BadSource(f"{path} is too long", reason="size")
    if path.suffix == ".json":
        records = decoded(whole.strip(b"\x00 \t\r\n"))
        if not isinstance(records, list):
            raise BadSource(f"{path} is no transcript of Cursor", reason="format")
    else:
        records = list(sections(whole.decode("utf-8-sig", "replace")))
    for place, record in enumerate(records):
        yield place + 1, f"{place}:{short(record)}", record


def _items(record: Any, key: str, reading: _Reading, tally: Tally) -> Iterator[tuple[str, What]]:
    """Yield what a record tells, each with its key."""
    values = mapping(record)
    role = text(values.get("role"))
    tally.types[role or text(values.get("type"))] += 1
    if not role:
        status = text(values.get("status"))
        if not status and not text(values.get("type")):
            tally.bad("no record")
        elif status in _STOPPED:
            yield key, Prompt(status, "interrupt")
        return
    blocks = _blocks(values)
    tally.types.update(text(block.get("type"))[:100] for block in blocks)
    if role in ("user", "assistant") and not blocks and not isinstance(_content(values), list):
        tally.bad("no record")
    tally.problems.update("no block" for block in blocks if not text(block.get("type")))
    if role == "user":
        yield from _prompt(blocks, key, reading)
    elif role == "tool":
        yield from _ended(text(mapping(values.get("toolResult")).get("toolName")), reading)
    elif role == "assistant":
        for place, block in enumerate(blocks):
            yield from _block(block, f"{key}.{place}", reading)


def _content(values: dict[str, Any]) -> Any:
    return mapping(values.get("message")).get("content", values.get("content"))


def _blocks(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the contents of a record, of either kind, as blocks."""
    content = _content(values)
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    blocks = [
        {"type": "text", "text": block} if isinstance(block, str) else mapping(block) for block in sequence(content)
    ]
    if thought := text(values.get("thinking")):
        blocks.append({"type": "thinking", "thinking": thought})
    if said := text(values.get("text")):
        blocks.append({"type": "text", "text": said})
    for call in map(mapping, sequence(values.get("toolCalls"))):
        blocks.append({"type": "tool_use", "name": call.get("toolName"), "input": call.get("args")})
    return blocks


def _block(block: dict[str, Any], key: str, reading: _Reading) -> Iterator[tuple[str, What]]:
    kind = block.get("type")
    if kind == "text" and (said := text(block.get("text"))).strip():
        yield key, Reply(said)
    elif kind == "thinking" and (thought := first(block, ("thinking", "text"))).strip():
        yield key, Thought(thought)
    elif kind == "tool_use":
        tool, call = text(block.get("name")), text(block.get("id")) or key
        call = f"{call}~{key}" if call in reading.calls else call
        reading.calls.add(call)
        reading.open.setdefault(tool, []).append((key, call))
        done = deed(CURSOR, tool, block.get("input"), of_server=tool.startswith("mcp"))
        yield key, Call(call, tool, done.target, done.sort, done.edits)
    elif kind == "tool_end":
        yield from _ended(text(block.get("name")), reading)
    elif kind == "tool_result" and (call := first(block, ("tool_use_id", "id"))):
        failed = block.get("is_error")
        output = tail(text(block.get("content"))) if failed is True else ""
        yield f"{key}:result", Result(call, not failed if isinstance(failed, bool) else None, output=output)


def _ended(tool: str, reading: _Reading) -> Iterator[tuple[str, What]]:
    """Yield the end of the first call of a tool that has none; how it ended is not told."""
    if waiting := reading.open.get(tool):
        key, call = waiting.pop(0)
        yield f"{key}:result", Result(call)


def _prompt(blocks: list[dict[str, Any]], key: str, reading: _Reading) -> Iterator[tuple[str, What]]:
    """Yield what a person typed, without what Cursor laid around it."""
    whole = "\n".join(text(block.get("text")) for block in blocks if block.get("type") == "text")
    images = sum(block.get("type") in ("image", "image_url") for block in blocks)
    reading.at = _at(whole)
    if not reading.session.cwd and (found := _FOLDER.search(whole)):
        reading.session = replace(reading.session, cwd=found[1].strip())
    typed = _typed(whole)
    if typed.strip() or images:
        yield key, Prompt(typed, _speaker(typed, reading), images)
    elif whole.strip():
        yield key, Prompt(whole, "injected")


def _typed(whole: str) -> str:
    """Return what a person typed: what stands in `user_query`, else all but what Cursor is known to lay around it."""
    at = 0
    while found := _LAID.match(whole, at):
        at = found.end()
    begin = whole.find("<user_query>", at)
    if begin >= 0:
        end = whole.rfind("</user_query>")
        inner = whole[begin + 12 : end if end > begin else None]
        *others, query = inner.split("<user_query>")
        queries = [other.rpartition("</user_query>")[0] or other for other in others]
        return "\n\n".join(each.removeprefix("\n").removesuffix("\n") for each in (*queries, query))
    rest = whole[at:].rstrip()
    for _ in range(LAYERS):
        begin = rest.rfind(f"<{rest[rest.rfind('</') + 2 : -1]}") if rest.endswith(">") else -1
        if begin < 0 or not _LAID.fullmatch(rest, begin):
            break
        rest = rest[:begin].rstrip()
    return rest.strip("\n")


def _speaker(typed: str, reading: _Reading) -> Speaker:
    if reading.is_side:
        return "delegated"
    return "slash" if is_command(typed) else "human"


def _at(whole: str) -> int | None:
    """Return the time that Cursor lays before a prompt, in microseconds; it is told to the minute."""
    found = _STAMP.search(whole)
    if not found or found[1] not in _MONTHS:
        return None
    hour = int(found[4]) % 12 + (12 if found[6] == "PM" else 0)
    ahead = timedelta(hours=int(found[8] or 0), minutes=int(found[9] or 0))
    try:
        zone = timezone(-ahead if found[7] == "-" else ahead)
        local = datetime(int(found[3]), _MONTHS.index(found[1]) + 1, int(found[2]), hour, int(found[5]), tzinfo=zone)
        return int(local.timestamp()) * 1_000_000
    except (ValueError, OverflowError):
        return None


def slug(path: str) -> str:
    """Return the name under which Cursor keeps the transcripts of a folder; many folders may have one name."""
    windows = re.fullmatch(r"([A-Za-z]):[\\/]?(.*)", path, re.DOTALL)
    plain = f"{windows[1].lower()}-{windows[2]}" if windows else path.lstrip("/\\")
    return re.sub(r"[^A-Za-z0-9]+", "-", plain).strip("-")


def _folder(path: Path) -> str:
    """Return the folder that a transcript belongs to, if Cursor knows just one of that name; '' otherwise."""
    mine = {folder(storage) for storage in _storages(path)}
    return mine.pop() if len(mine) == 1 else ""


def _storages(path: Path) -> Iterator[Path]:
    """Yield what editors keep of the folders that a transcript may belong to, by the name of the folder it lies in."""
    parts = path.parts
    if "agent-transcripts" not in parts:
        return
    project = Path(*parts[: parts.index("agent-transcripts")])
    for system in ("linux", "darwin", "win32"):
        for user in homes.users(World({}, project.parent.parent.parent, system), homes.CURSOR):
            for storage in inside(user / "workspaceStorage"):
                if (cwd := folder(storage)) and slug(cwd) == project.name:
                    yield storage
