"""GitHub Copilot: the events of its command line and of its chats in VS Code.

The command line writes `session-state/<session>/events.jsonl`, and the chat extension writes transcripts of the same
events. The sessions that VS Code itself keeps are in `copilot_chat`. What a person typed is an event's `content`;
what Copilot made of it for the model, and what hooks added, is never taken for anybody's words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from bede.errors import BadSource, cause
from bede.sources import homes
from bede.sources.copilot import chat, events
from bede.sources.port import Item, Tally, World
from bede.sources.vscode import stamps

AGENT = "copilot"
FORM: Literal["document"] = "document"
#: What stands between the pieces of a text that is read as one.
BETWEEN = ""


_LOG = re.compile(rb'\{\s*"kind"\s*:\s*(?:0\s*,\s*"v"\s*:\s*\{|[123]\s*,\s*"k"\s*:\s*\[)')
_EVENT = re.compile(
    rb'"type"\s*:\s*"(?:session|user|assistant|tool|system|hook|permission|subagent|skill)\.[a-z_.]+"\s*,\s*"data"\s*:'
)


def find(world: World) -> Iterator[Path]:
    """Yield the sessions of the command line, then those of VS Code; of one that is there twice the better one.

    A log is newer than a file of the same session; what VS Code keeps itself is more than its extension's transcript.
    """
    seen: set[Path] = set()
    for path in (*_sessions(world), *_chats(world)):
        if path not in seen and homes.is_file(world, path):
            seen.add(path)
            yield path


def _sessions(world: World) -> Iterator[Path]:
    for home in homes.copilot(world):
        entries = homes.inside(world, home / "session-state")
        folders = {entry.name for entry in entries if homes.is_file(world, entry / "events.jsonl")}
        for entry in entries:
            if entry.name in folders:
                yield entry / "events.jsonl"
            elif entry.suffix == ".jsonl" and entry.stem not in folders:
                yield entry


def _chats(world: World) -> Iterator[Path]:
    for user in homes.code(world):
        for storage in homes.inside(world, user / "workspaceStorage"):
            kept = list(_kept(world, storage / "chatSessions"))
            yield from kept
            known = {path.stem for path in kept}
            for path in homes.inside(world, storage / "GitHub.copilot-chat" / "transcripts"):
                if path.suffix == ".jsonl" and path.stem not in known:
                    yield path
        yield from _kept(world, user / "globalStorage" / "emptyWindowChatSessions")


def _kept(world: World, folder: Path) -> Iterator[Path]:
    entries = homes.inside(world, folder)
    logs = {entry.stem for entry in entries if entry.suffix == ".jsonl"}
    for entry in entries:
        if entry.suffix == ".jsonl" or (entry.suffix == ".json" and entry.stem not in logs):
            yield entry


def accepts(path: Path, head: bytes) -> bool:
    """Tell whether a file is one of Copilot's, by its name and its first 64 KB."""
    begin = _begin(head)
    if path.suffix == ".jsonl":
        return bool(_LOG.match(begin) or _EVENT.search(head) or (_is_kept(path) and begin.startswith(b"{")))
    if path.suffix != ".json" or not begin.startswith(b"{"):
        return False
    named = b'"requests"' in head and (b'"responderUsername"' in head or b'"initialLocation"' in head)
    return named or _is_kept(path)


def _begin(head: bytes) -> bytes:
    return head.removeprefix(b"\xef\xbb\xbf").lstrip(b"\x00 \t\r\n")


def beside(path: Path) -> tuple[Path, ...]:
    """Return what lies beside a transcript and tells of it, its folder above all."""
    return path.with_name("workspace.yaml"), *(parent / "workspace.json" for parent in events.above(path))


def stamp(path: Path) -> str:
    """Return sizes and times of a transcript and of what lies beside it and tells of it."""
    return stamps(path, *beside(path))


def settled(path: Path) -> dict[str, Any] | None:
    """Return the one record that says what the log of a chat leads to; None where a file is no such log.

    Raises:
        BadSource: it cannot be read.
    """
    if path.suffix == ".json" or not _is_log(path):
        return None
    state = chat.replayed(path, Tally())
    return {"kind": 0, "v": state} if chat.is_session(state) else None


def load(path: Path, tally: Tally) -> Iterator[Item]:
    """Yield all items of a transcript, in order.

    Raises:
        BadSource: nothing in it can be read.
    """
    if path.suffix == ".json" or _is_log(path):
        return chat.load(path, tally)
    return events.load(path, tally)


def _is_log(path: Path) -> bool:
    """Tell whether lines are the log of a chat, and not events."""
    try:
        with path.open("rb") as file:
            head = file.read(65536)
    except OSError as error:
        raise BadSource(f"{path} cannot be read: {cause(error)}", reason="file") from error
    return bool(_LOG.match(_begin(head)) or (_is_kept(path) and not _EVENT.search(head)))


def _is_kept(path: Path) -> bool:
    return path.parent.name in ("chatSessions", "emptyWindowChatSessions")
