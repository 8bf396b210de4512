"""pi: where its sessions are, and which files are its own. What is in them is read by `branching`.

omp came out of pi, writes the same records and follows the same variable, so one folder may hold sessions of both.
The first records tell whose a file is: the two name models in different ways, only omp has titles and attributions.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from bede.sources import homes
from bede.sources.parsed import parsed
from bede.sources.pi import branching
from bede.sources.port import Item, Spot, Tally, World

AGENT = "pi"
FORM: Literal["stream"] = "stream"
#: Bytes of a file that are looked at to tell whose it is, where a folder is shared.
HEAD = 64 * 1024
#: Folders that may lie in one another below the sessions.
DEPTH = 12

_OMP_ONLY = ("titleSource", "additionalDirectories", "previousSessionFiles", "providerPromptCacheKey")
_ENTRIES = ("message", "model_change", "thinking_level_change", "custom", "custom_message", "compaction")


def find(world: World) -> Iterator[Path]:
    """Yield every session of pi; what omp wrote into a place that both share is omp's."""
    yield from sessions(world, AGENT, homes.pi(world), homes.pi_shared(world))


def accepts(path: Path, head: bytes) -> bool:
    """Tell whether a file is a session of pi."""
    return whose(path, head) == AGENT


def take(record: Any, spot: Spot, state: dict[str, Any], tally: Tally) -> list[Item]:
    """Return the items of one record."""
    return branching.take(AGENT, record, spot, state, tally)


def sessions(world: World, agent: str, own: Iterable[Path], shared: Iterable[Path]) -> Iterator[Path]:
    """Yield the sessions below some folders, each file once; in shared ones only what that agent wrote."""
    seen: set[tuple[int, int]] = set()
    places = [(folder, False) for folder in own]
    for folder, is_shared in places + [(folder, True) for folder in shared]:
        for path in _lines(world, folder, seen, DEPTH):
            if not is_shared or whose(path, _head(world, path)) == agent:
                yield path


def whose(path: Path, head: bytes) -> str:
    """Return "pi" or "omp" for a session of the family, "" for any other file."""
    records = []
    for line in head.removeprefix(b"\xef\xbb\xbf").split(b"\n")[:50]:
        try:
            record = parsed(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            records.append(record)
    if not any(_is_ours(record) for record in records[:3]):
        return ""
    for record in records:
        if agent := _mark(record):
            return agent
    return "omp" if ".omp" in path.parts else AGENT


def _is_ours(record: dict[str, Any]) -> bool:
    kind = record.get("type")
    if kind == "session":
        return isinstance(record.get("id"), str) and isinstance(record.get("cwd"), str) and "timestamp" in record
    if kind == "title":
        return "pad" in record and "v" in record
    is_entry = kind in _ENTRIES and "id" in record and "parentId" in record
    return is_entry or (kind == "message" and isinstance(record.get("message"), dict) and "timestamp" in record)


def _mark(record: dict[str, Any]) -> str:
    """Return which agent a record can only be of."""
    kind, message = record.get("type"), record.get("message")
    if kind in ("title", "title_change", "session_init") or any(name in record for name in _OMP_ONLY):
        return "omp"
    if kind == "model_change":
        return AGENT if "modelId" in record else "omp" if "model" in record else ""
    if kind == "session" and "modelId" in record:
        return AGENT
    return "omp" if "attribution" in record or (isinstance(message, dict) and "attribution" in message) else ""


def _lines(world: World, folder: Path, seen: set[tuple[int, int]], depth: int) -> Iterator[Path]:
    """Yield the files of lines below a folder in a fixed order; what cannot be read is noted."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except (OSError, ValueError) as error:
        homes.refuse(world, folder, error)
        return
    for entry in entries:
        try:
            about = Path(entry.path).stat()
        except (OSError, ValueError) as error:
            homes.refuse(world, Path(entry.path), error)
            continue
        is_folder = stat.S_ISDIR(about.st_mode)
        wanted = depth > 0 if is_folder else stat.S_ISREG(about.st_mode) and entry.name.endswith(".jsonl")
        if not wanted or (about.st_dev, about.st_ino) in seen:
            continue
        seen.add((about.st_dev, about.st_ino))
        if is_folder:
            yield from _lines(world, Path(entry.path), seen, depth - 1)
        else:
            yield Path(entry.path)


def _head(world: World, path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(HEAD)
    except OSError as error:
        homes.refuse(world, path, error)
        return b""
