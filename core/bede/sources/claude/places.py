"""Where Claude Code leaves its transcripts, and how a file of its is told from all others.

Folders are read, never followed in circles; what cannot be read is noted. No file is opened here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from bede.sources import homes
from bede.sources.parsed import parsed
from bede.sources.port import World

#: Types of records that are part of the conversation's tree.
ENVELOPE = frozenset(("user", "assistant", "system", "attachment", "progress"))
#: Types of records that are not, and name their session.
METADATA = frozenset(
    (
        "queue-operation",
        "mode",
        "permission-mode",
        "last-prompt",
        "custom-title",
        "ai-title",
        "agent-name",
        "pr-link",
        "worktree-state",
    )
)
#: Types of records that name none, and the field by which they are ours.
MARKED = {"summary": "leafUuid", "file-history-snapshot": "messageId", "started": "agentId", "result": "agentId"}
#: How deep sub-agents' folders are looked into.
DEEPEST = 32


def find(world: World) -> Iterator[Path]:
    """Yield every transcript there is, sub-agents' too, in a fixed order; places that cannot be read are noted."""
    seen: set[tuple[int, int]] = set()
    for root in homes.claude(world):
        yield from _walk(world, root / "projects", 0, seen)


def _walk(world: World, folder: Path, depth: int, seen: set[tuple[int, int]]) -> Iterator[Path]:
    """Yield the transcripts below a folder: sessions stand at depth 1, sub-agents there and below."""
    try:
        place = folder.stat()
        if (mark := (place.st_dev, place.st_ino)) in seen:
            return
        seen.add(mark)
        with os.scandir(folder) as entries:
            names = sorted((entry.name, _is_folder(entry), _is_file(entry)) for entry in entries)
    except (OSError, ValueError, RecursionError) as error:
        homes.refuse(world, folder, error)
        return
    for name, is_folder, is_file in names:
        if is_folder and name != "tool-results" and depth < DEEPEST:
            yield from _walk(world, folder / name, depth + 1, seen)
        elif is_file and name.endswith(".jsonl") and (depth == 1 or (depth > 1 and name.startswith("agent-"))):
            yield folder / name


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Tell whether an entry is a folder or leads to one; a dangling link is not."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Tell whether an entry is a plain file or leads to one."""
    try:
        return entry.is_file()
    except OSError:
        return False


def accepts(path: Path, head: bytes) -> bool:
    """Tell whether a file that somebody names is of this format, by its name and its first 64 KB."""
    if not head.strip(b"\x00 \t\r\n"):
        return path.suffix == ".jsonl" and "projects" in path.parts[-5:]
    lines = head.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if any(_is_ours(line) for line in lines[:64]):
        return True
    return len(lines) == 1 and lines[0].startswith(b'{"parentUuid":')  # one record, longer than what was read of it


def _is_ours(line: bytes) -> bool:
    """Tell whether a line is a record that no other agent writes."""
    try:
        record = parsed(line)
    except ValueError:
        return False
    kind = record.get("type") if isinstance(record, dict) else None
    if not isinstance(kind, str):
        return False
    if "sessionId" in record and (kind in METADATA or (kind in ENVELOPE and "uuid" in record)):
        return True
    return kind in MARKED and MARKED[kind] in record
