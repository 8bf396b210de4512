"""Google Antigravity: a folder for each conversation, with up to three logs of the same steps, read as one.

`transcript_full.jsonl` has whole texts but may have lost its head; `transcript.jsonl` is cut, and writes every argument
as a string of JSON; the older `overview.txt` has all steps, many of them bare. A step is the same in all of them where
its number, its type and its second are; the number alone is used again after an undo. Each field is taken from
the best log that has it. What a step tells is read by `agysteps`.

The folder's name is the session. A sub-agent is a conversation of its own, and reports into the folder of the one it
works for. What lies only in `conversations/` (protobuf, enciphered where it is old) is counted as unreadable.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from bede.errors import BadSource
from bede.sessions import session_of
from bede.sources import homes, jsonl
from bede.sources.antigravity.steps import Step, Talk, read
from bede.sources.parsed import parsed
from bede.sources.port import Item, Session, Tally, World

AGENT = "antigravity"
FORM: Literal["document"] = "document"

#: The logs of a conversation, the best first, and the stores that cannot be read.
LOGS = ("transcript_full.jsonl", "transcript.jsonl", "overview.txt")
STORES = (".db", ".pb")
#: A longer message of one conversation to another is not looked at.
MESSAGE = 4 * 1024 * 1024

_WORKSPACE = re.compile(r"\[URI\] -> \[CorpusName\][^\n]*\n\s*(\S[^\n]*?) -> \S")


def find(world: World) -> Iterator[Path]:
    """Yield the best log of every conversation, and the store of one that has no log."""
    for home in homes.antigravity(world):
        for place in homes.inside(world, home):
            if "antigravity" in place.name:
                yield from _conversations(world, place)


def accepts(path: Path, head: bytes) -> bool:
    """Tell whether a file is a log of steps, or a store of Antigravity."""
    if path.suffix in STORES:
        return path.parent.name == "conversations" and any("antigravity" in part for part in path.parts)
    if path.name in LOGS and path.parent.parent.name == ".system_generated":
        return True
    line = next((line for line in head.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()), b"")
    return line.lstrip().startswith(b"{") and b'"step_index"' in line and b'"type"' in line


def beside(path: Path) -> list[Path]:
    """Return the other logs of a conversation, which are read with one."""
    return [path.with_name(name) for name in LOGS if path.name in LOGS and name != path.name]


def stamp(path: Path) -> str:
    """Return the sizes and times of the logs that are read with a path."""
    told = []
    for log in [path] if path.name not in LOGS else [path.with_name(name) for name in LOGS]:
        try:
            about = log.stat()
            told.append(f"{log.name}:{about.st_size}:{about.st_mtime_ns}")
        except OSError:
            continue
    return " ".join(told)


def load(path: Path, tally: Tally) -> Iterator[Item]:
    """Yield all items of a conversation, in order.

    Raises:
        BadSource: its logs cannot be opened, or hold bytes but no step.
    """
    if path.suffix in STORES:
        tally.bad("unreadable: protobuf")
        return
    steps = _steps(path, tally)
    if not steps:
        tally.bad("unreadable: protobuf" if _store(path) else "empty")
        return
    yield from _told(path, steps, tally)


# What there is


def _inside(folder: Path) -> list[Path]:
    """Return what is in a folder, in a fixed order; nothing where it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _conversations(world: World, place: Path) -> Iterator[Path]:
    logged = set()
    for folder in homes.inside(world, place / "brain"):
        logs = [log for name in LOGS if homes.is_file(world, log := folder / ".system_generated" / "logs" / name)]
        best = next((log for log in logs if _size(log)), None) or (logs[0] if logs else None)
        if best is not None:
            logged.add(folder.name)
            yield best
    for store in homes.inside(world, place / "conversations"):
        if store.suffix in STORES and store.stem not in logged and _size(store) is not None:
            logged.add(store.stem)
            yield store


def _size(path: Path) -> int | None:
    """Return the size of a file, None where there is none."""
    try:
        return path.stat().st_size if path.is_file() else None
    except OSError:
        return None


def _folder(path: Path) -> Path | None:
    """Return the folder of the conversation that a log belongs to, if it stands in one."""
    return path.parents[2] if path.name in LOGS and path.parent.parent.name == ".system_generated" else None


def _store(path: Path) -> Path | None:
    folder = _folder(path)
    if folder is None:
        return None
    stores = [folder.parent.parent / "conversations" / (folder.name + suffix) for suffix in STORES]
    return next((store for store in stores if _size(store)), None)


# The logs, read as one


def _steps(path: Path, tally: Tally) -> list[Step]:
    """Return the steps of all logs that belong to a path.

    Raises:
        BadSource: as for `load`.
    """
    merged: list[Step] = []
    opened = filled = False
    for log in [path] if path.name not in LOGS else [path.with_name(name) for name in LOGS]:
        try:
            steps = _read(log, tally)
            opened, filled = True, filled or bool(_size(log))
        except FileNotFoundError:
            continue
        except OSError as error:
            tally.bad(f"unreadable: {error.strerror or type(error).__name__}")
            continue
        merged = _merged(merged, steps)
    if not merged and (filled or not opened):
        hint = "name a transcript.jsonl of Antigravity" if opened else "check that it is there and may be read"
        raise BadSource(f"no step can be read from {path}", hint=hint)
    return merged


def _read(log: Path, tally: Tally) -> list[Step]:
    """Return the steps of one log; a step that was written again while it ran stands once."""
    steps: dict[str, Step] = {}
    turns: Counter[str] = Counter()
    with log.open("rb") as file:
        for spot, record in jsonl.records(file, log, jsonl.Cursor(), tally):
            if not isinstance(record, dict) or not isinstance(record.get("type"), str):
                tally.bad("no step")
                continue
            found = read(record, spot.line, log.name == "transcript.jsonl")
            name = found.name
            known = steps.get(_nth(name, turns[name]))
            if known and known.is_same(found):
                found.fill(known)
            else:
                turns[name] += 1
            found.name = _nth(name, turns[name])
            steps[found.name] = found
    return list(steps.values())


def _nth(name: str, turn: int) -> str:
    return name if turn < 2 else f"{name}~{turn}"


def _merged(best: list[Step], more: list[Step]) -> list[Step]:
    """Return the steps of two logs in order: what only the second has stands behind what it follows there."""
    known = {step.name: step for step in best}
    lead: list[Step] = []
    behind: dict[str, list[Step]] = {}
    first = last = ""
    for step in more:
        if step.name in known:
            known[step.name].fill(step)
            first, last = first or step.name, step.name
        else:
            (behind.setdefault(last, []) if last else lead).append(step)
    if not first and lead and best and lead[0].order > best[0].order:
        return best + lead
    merged = [] if first else lead
    for step in best:
        merged = merged if step.name != first else merged + lead
        merged.append(step)
        merged.extend(behind.get(step.name, ()))
    return merged


# The session


def _told(path: Path, steps: list[Step], tally: Tally) -> Iterator[Item]:
    folder = _folder(path)
    name = session_of(AGENT, str(path))
    parent = _parent(folder, steps[0]) if folder else ""
    origin: Literal["", "subagent"] = "subagent" if parent else ""
    talk = Talk(name, bool(parent))
    session = Session(AGENT, cwd=_cwd(steps), parent=parent, origin=origin)
    yield Item(name, "session", session, steps[0].at, steps[0].precision, steps[0].line)
    for step in steps:
        tally.types[step.type[:80]] += 1
        if (model := talk.listen(step)) != session.model:
            session = Session(AGENT, model=model, cwd=session.cwd, parent=parent, origin=origin)
            yield Item(name, "session", session, steps[0].at, steps[0].precision, step.line)
        yield from talk.tell(step)


def _cwd(steps: list[Step]) -> str:
    """Return where most commands ran, or else the first workspace that the agent was told of."""
    places: Counter[str] = Counter()
    for step in steps:
        for call in step.calls:
            place = call[1].get("Cwd")
            if call[0] == "run_command" and isinstance(place, str) and place:
                places[place] += 1
    if places:
        return places.most_common(1)[0][0]
    texts = (step.text for step in steps if "[CorpusName]" in step.text)
    return next((found[1] for text in texts if (found := _WORKSPACE.search(text))), "")


def _parent(folder: Path, first: Step) -> str:
    """Return the conversation that this one reports to.

    Where two write to each other, the one that began first is the other's parent.
    """
    mine = set(_reports(folder))
    found = []
    for other in _inside(folder.parent):
        if other.name != folder.name and (folder.name, other.name) in _reports(other):
            began = _began(other) if (other.name, folder.name) in mine else ""
            if not began or (began, other.name) < (first.created, folder.name):
                found.append(other.name)
    return min(found, default="")


def _reports(folder: Path) -> frozenset[tuple[str, str]]:
    """Return who wrote to whom, by the messages in the folder of a conversation."""
    messages = folder / ".system_generated" / "messages"
    try:
        return _messages(messages, messages.stat().st_mtime_ns)
    except OSError:
        return frozenset()


@lru_cache(maxsize=4096)
def _messages(folder: Path, _changed: int) -> frozenset[tuple[str, str]]:
    found = set()
    for path in _inside(folder):
        if path.suffix != ".json" or (_size(path) or MESSAGE + 1) > MESSAGE:
            continue
        try:
            message: Any = parsed(path.read_bytes())
        except (OSError, ValueError):
            continue
        sender, recipient = (message.get("sender"), message.get("recipient")) if isinstance(message, dict) else ("", "")
        if isinstance(sender, str) and isinstance(recipient, str) and sender != recipient:
            found.add((sender, recipient))
    return frozenset(found)


def _began(folder: Path) -> str:
    """Return when a conversation began, by the first whole line of a log; '' where none tells."""
    for name in LOGS:
        try:
            with (folder / ".system_generated" / "logs" / name).open("rb") as file:
                record: Any = parsed(file.readline(1 << 20))
        except (OSError, ValueError):
            continue
        if isinstance(record, dict) and isinstance(record.get("created_at"), str):
            return str(record["created_at"])
    return ""
