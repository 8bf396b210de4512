"""Gemini CLI: one JSON document a session or, since 2026, JSON lines in which messages are repeated and taken back.

A message is written again under its id when its tools are done: the last writing counts, and what only an earlier one
told is kept. `$rewindTo` drops a message and all after it, `$set` with `messages` puts others in their place; what was
dropped is still yielded, and named in a `Rewind`. The directory is not in the file: it lies beside it, or in
`projects.json`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from bede.errors import BadSource, Unavailable, cause
from bede.quick import dataclass, field
from bede.sessions import session_of
from bede.sources import homes, jsonl
from bede.sources.gemini.text import instant, parts, texts
from bede.sources.kept import form, named
from bede.sources.loose import list_of, quoted, text_of
from bede.sources.parsed import parsed
from bede.sources.port import Item, Rewind, Session, Tally, World

AGENT = "gemini-cli"
FORM: Literal["stream", "document"] = "document"
#: What stands between the pieces of a text that is read as one.
BETWEEN = ""

#: A document that is not in lines is read whole; a bigger one is refused.
LARGEST = 256 * 1024 * 1024

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

Name = tuple[str, str]
"""A message's id and type: one name is one message, however often it is written."""


@dataclass(slots=True)
class _Chat:
    """What a file tells of one session."""

    header: dict[str, Any] = field(default_factory=dict)
    said: dict[Name, tuple[int, dict[str, Any]]] = field(default_factory=dict)  # line, message
    alive: dict[Name, None] = field(default_factory=dict)
    dropped: list[tuple[int, str, list[Name]]] = field(default_factory=list)  # line, key, messages


def find(world: World) -> Iterator[Path]:
    """Yield the chats of all projects, those of sub-agents among them."""
    for project in chain.from_iterable(homes.inside(world, home) for home in homes.gemini(world)):
        for chat in homes.inside(world, project / "chats"):
            for path in homes.inside(world, chat) if homes.is_folder(world, chat) else (chat,):
                if path.suffix in (".json", ".jsonl") and homes.is_file(world, path):
                    yield path


def accepts(path: Path, head: bytes) -> bool:
    """Tell a chat by its head, which names the session and a hash of its project."""
    start = head[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    return (
        path.suffix in (".json", ".jsonl")
        and start.startswith(b"{")
        and b'"sessionId"' in start
        and b'"projectHash"' in start
    )


def beside(path: Path) -> Iterator[Path]:
    """Yield the file that tells the directory of a chat: its project's own; the list of all where there is none."""
    tellers = _tellers(path)
    yield from [each for each in tellers if _small(each).strip("\r\n")][:1]


def stamp(path: Path) -> str:
    """Return size and time of a chat, and of what tells its directory."""
    return " ".join(_stat(each) for each in (path, *_tellers(path)))


def _stat(path: Path) -> str:
    try:
        found = path.stat()
    except OSError:
        return "-"
    return f"{found.st_size}:{found.st_mtime_ns}:{found.st_ino}"


def load(path: Path, tally: Tally) -> Iterator[Item]:
    """Yield all items of a chat, in order; two sessions in one file are both given.

    Raises:
        BadSource: nothing in it can be read.
        Unavailable: the file cannot be read.
    """
    chat, read = _Chat(), 0
    try:
        for line, place, record in _records(path, tally):
            read += 1
            if not isinstance(record, dict):
                tally.bad("no object")
                continue
            if (other := text_of(record.get("sessionId"))) and other != (chat.header.get("sessionId") or other):
                yield from _items(chat, path, tally)
                chat = _Chat()
            _take(chat, record, line, place, tally)
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {cause(error)}", reason="file") from error
    if not read:
        raise BadSource(f"{path} holds nothing that can be read", reason="format")
    yield from _items(chat, path, tally)


def _records(path: Path, tally: Tally) -> Iterator[tuple[int, str, Any]]:
    """Yield the records of a file, with line and place: those of its lines, or the one document that it is."""
    if path.exists() and not path.is_file():
        raise BadSource(f"{path} is no file", reason="file")
    with path.open("rb") as file:
        first = file.readline(jsonl.LONGEST)
        whole = None if _is_json(first) else _whole(file, path)
        if whole is not None:
            yield 0, "0", whole
            return
        if first.strip() == b"{":
            raise BadSource(f"{path} is not whole", hint="it may be in the middle of being written", reason="format")
        for spot, record in jsonl.records(file, path, jsonl.Cursor(), tally):
            yield spot.line, spot.place, record


def _is_json(line: bytes) -> bool:
    try:
        parsed(line)
    except ValueError:
        return False
    return True


def _whole(file: Any, path: Path) -> Any:
    """Return the document that a file is, None where it is none."""
    file.seek(0)
    text = file.read(LARGEST + 1)
    if len(text) > LARGEST:
        raise BadSource(f"{path} is larger than {LARGEST} bytes", reason="size")
    try:
        return parsed(text)
    except ValueError:
        return None


def _take(chat: _Chat, record: dict[str, Any], line: int, place: str, tally: Tally) -> None:
    """Take in one record: a header, a message, a change of either, or a way back."""
    if "$rewindTo" in record:
        tally.types["$rewindTo"] += 1
        names = list(chat.alive)
        start = next((at for at, name in enumerate(names) if name[0] == record["$rewindTo"]), 0)
        _drop(chat, names[start:], line, place)
    elif "$set" in record:
        tally.types["$set"] += 1
        values = record["$set"]
        if isinstance(values, dict):
            _set(chat, values, line, place, tally)
        else:
            tally.bad("$set without values")
    elif "sessionId" in record and "type" not in record:
        if line:
            tally.types["session"] += 1
        chat.header.update({name: value for name, value in record.items() if name != "messages"})
        if "messages" in record:
            _say(chat, record["messages"], line, place, tally)
    else:
        _say(chat, [record], line, place, tally)


def _set(chat: _Chat, values: dict[str, Any], line: int, place: str, tally: Tally) -> None:
    """Change the header, and put other messages in the place of all."""
    chat.header.update({name: value for name, value in values.items() if name != "messages"})
    if "messages" in values:
        before, chat.alive = chat.alive, {}
        if not _say(chat, values["messages"], line, place, tally):
            chat.alive = before
            return
        _drop(chat, [name for name in before if name not in chat.alive], line, place)


def _say(chat: _Chat, messages: Any, line: int, place: str, tally: Tally) -> bool:
    """Take in messages; tell whether they are a list of such."""
    if not isinstance(messages, list):
        tally.bad("messages are no list")
        return False
    for number, message in enumerate(messages, 1):
        if not isinstance(message, dict) or not isinstance(message.get("type"), str):
            tally.bad("no message")
            continue
        tally.types[message["type"]] += 1
        name = (named(text_of(message.get("id"))) or _made(message, place, number), message["type"])
        since, known = chat.said.get(name, (line or number, {}))
        chat.said[name] = since, _merged(known, message)
        chat.alive[name] = None
    return True


def _made(message: dict[str, Any], place: str, number: int) -> str:
    """Return an id for a message that has none."""
    return f"@{place}.{number}.{sha256(form(message)).hexdigest()[:12]}"


def _merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return a message as it was written last, with what only an earlier writing tells, of its calls too.

    When it was said its first writing tells: who resumes a session writes all of it anew, under the time of that.
    """
    merged = {**old, **new}
    if instant(old.get("timestamp"))[0] is not None:
        merged["timestamp"] = old["timestamp"]
    if old and isinstance(old.get("toolCalls"), list) and isinstance(new.get("toolCalls"), list):
        before = {call["id"]: call for call in old["toolCalls"] if isinstance(call, dict) and text_of(call.get("id"))}
        merged["toolCalls"] = [
            {**before.get(text_of(call.get("id")), {}), **call} if isinstance(call, dict) else call
            for call in new["toolCalls"]
        ]
    return merged


def _drop(chat: _Chat, names: list[Name], line: int, place: str) -> None:
    for name in names:
        chat.alive.pop(name, None)
    if names:
        chat.dropped.append((line, f"rewind:{place}", names))


def _items(chat: _Chat, path: Path, tally: Tally) -> Iterator[Item]:
    """Yield what a session tells, each message where it was first said."""
    header = chat.header
    session = session_of(AGENT, str(path), text_of(header.get("sessionId")))
    is_side = header.get("kind") == "subagent"
    told = Session(
        agent=AGENT,
        cwd=_cwd(chat, path),
        parent=path.parent.name if is_side and path.parent.parent.name == "chats" else "",
        origin="subagent" if is_side else "",
        title=text_of(header.get("summary")),
    )
    at, precision = instant(header.get("startTime"))
    if header or chat.said:
        yield Item(session, "session", told, at, precision, 1 if chat.said else 0)
    model, calls = "", dict[str, int]()
    keys: dict[Name, list[str]] = {}
    for name, (line, message) in chat.said.items():
        if (now := text_of(message.get("model"))) and now != model:
            model = now
            yield Item(session, "session", _with_model(told, model), at, precision, line)
        keys[name] = []
        for item in _said(session, name[0], message, line, is_side, calls, tally):
            keys[name].append(item.key)
            yield item
    for line, key, names in chat.dropped:
        gone = tuple(each for name in names if name not in chat.alive for each in keys[name])
        if gone:
            yield Item(session, key, Rewind(gone), line=line)


def _with_model(told: Session, model: str) -> Session:
    return Session(told.agent, told.version, model, told.cwd, told.branch, told.parent, told.origin, told.title)


def _said(
    session: str, name: str, message: dict[str, Any], line: int, is_side: bool, calls: dict[str, int], tally: Tally
) -> Iterator[Item]:
    """Yield the items of one message."""
    at, precision = instant(message.get("timestamp"))
    origin = name if _UUID.fullmatch(name) else ""
    name = quoted(name)
    for key, what, then in parts(message, name, is_side, calls, tally):
        when, exact = instant(then) if then else (None, precision)
        yield Item(
            session,
            key,
            what,
            at if when is None else when,
            precision if when is None else exact,
            line,
            origin=key if origin else "",
            is_side=is_side,
        )


def _tellers(path: Path) -> tuple[Path, ...]:
    """Return the files that tell the directory of a chat: its project's own, and the list of all."""
    chats = next((each for each in path.parents if each.name == "chats"), None)
    if chats is None:
        return ()
    return chats.parent / ".project_root", chats.parent.parent.parent / "projects.json"


def _cwd(chat: _Chat, path: Path) -> str:
    """Return the directory of a chat's project: as the files beside it say, or one it names whose hash it bears."""
    for teller in _tellers(path):
        text = _small(teller)
        if cwd := text.strip("\r\n") if teller.name == ".project_root" else _listed(text, teller, chat, path):
            return cwd
    return next((each for each in _named(chat) if _hashed(each) == chat.header.get("projectHash")), "")


def _small(path: Path) -> str:
    """Return the text of a small file, an empty one where there is none."""
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(1024 * 1024).decode("utf-8", "surrogateescape")
    except OSError:
        return ""


def _listed(text: str, teller: Path, chat: _Chat, path: Path) -> str:
    """Return the directory that the list of projects has for the folder that a chat lies in."""
    try:
        projects = parsed(text).get("projects")
        slug = path.relative_to(teller.parent / "tmp").parts[0]
    except (ValueError, AttributeError):
        return ""
    told = projects.items() if isinstance(projects, dict) else ()
    found = [cwd for cwd, name in told if name == slug or _hashed(cwd) == slug]
    return next((cwd for cwd in found if _hashed(cwd) == chat.header.get("projectHash")), found[0] if found else "")


def _named(chat: _Chat) -> Iterator[str]:
    """Yield the directories that a chat names: in its header, and in the context it begins with."""
    yield from filter(None, map(text_of, list_of(chat.header.get("directories"))))
    for _, message in list(chat.said.values())[:3]:
        for text in texts(message.get("content")):
            if text.startswith("<session_context>"):
                yield from (line[4:] for line in text[:65536].split("\n") if line.startswith("  - "))


def _hashed(cwd: str) -> str:
    return sha256(cwd.encode("utf-8", "surrogatepass")).hexdigest()
