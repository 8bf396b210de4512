"""Files of ours in other programs' folders, and how they are known again.

Each carries one comment with what it was made for and the hash of all the rest. As long as the hash fits, the
file is as we wrote it, and may be replaced or deleted; once somebody has changed it, it is theirs and is
never touched.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bede.errors import Conflict, Unavailable, cause
from bede.timers.port import Job, Step

_MARK = re.compile(rb"^(?:# |<!-- )bede schedule (\{.*\}) ([0-9a-f]{64})(?: -->)?\n", re.MULTILINE)
#: No file of ours comes near; what is larger is not read.
_MOST = 4_000_000


@dataclass(frozen=True, slots=True)
class Sheet:
    """A file as it lies there; `note` is None where it is not ours, or not there."""

    path: Path
    there: bool
    data: bytes = b""
    note: dict[str, Any] | None = None
    since: int = 0

    @property
    def theirs(self) -> bool:
        """Whether somebody else's file lies there."""
        return self.there and self.note is None


def look(path: Path) -> Sheet:
    """Return what lies at a path; a link is somebody else's, wherever it leads.

    Raises:
        Unavailable: it may not be read.
    """
    try:
        about = path.lstat()
        if not stat.S_ISREG(about.st_mode) or about.st_size > _MOST:
            return Sheet(path, True)
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return Sheet(path, False)
    except (OSError, ValueError) as error:
        raise Unavailable(f"cannot read {path}: {cause(error)}", hint="check the permissions") from error
    return Sheet(path, True, data, read(data), about.st_mtime_ns // 1000)


def sign(body: str, note: dict[str, Any], *, xml: bool = False) -> bytes:
    """Return a file's bytes with the comment in them: as the first line, in XML as the second."""
    # Two hyphens would end an XML comment.
    packed = json.dumps(note, sort_keys=True, separators=(",", ":")).replace("-", "\\u002d")
    head, rest = body.split("\n", 1) if xml else ("", body)
    line = f"bede schedule {packed} {_hash(packed.encode(), body.encode())}"
    return (f"{head}\n<!-- {line} -->\n{rest}" if xml else f"# {line}\n{rest}").encode()


def read(data: bytes) -> dict[str, Any] | None:
    """Return the note of a file that is as we wrote it; None for any other."""
    mark = _MARK.search(data)
    if not mark or _hash(mark[1], data[: mark.start()] + data[mark.end() :]).encode() != mark[2]:
        return None
    try:
        note = json.loads(mark[1])
        every, command, folders = note["every"], note["command"], note["folders"]
    except (ValueError, KeyError, RecursionError):
        return None
    whole = type(every) is int and type(folders) is int and 1 <= every <= 1440 and 0 <= folders <= 99
    words = isinstance(command, list) and all(isinstance(word, str) for word in command)
    return note if whole and words else None


def _hash(note: bytes, body: bytes) -> str:
    return hashlib.sha256(note + b"\n" + body).hexdigest()


def lay(path: Path, body: str, job: Job, *, mode: int, xml: bool = False, **more: Any) -> Iterator[Step]:
    """Plan to write a file of ours, unless it lies there already.

    What `more` notes is kept as it was first noted.

    Raises:
        Conflict: somebody else's file lies there.
    """
    sheet = look(path)
    if sheet.theirs:
        raise Conflict(
            f"{path} is not as bede wrote it, or is not bede's",
            hint="move it away if nobody needs it, and try again",
        )
    first = {"folders": folders(path), **more}
    before = sheet.note or {}
    kept = {name: before.get(name, value) for name, value in first.items()}
    data = sign(body, {"every": job.every, "command": list(job.command), **kept}, xml=xml)
    if data != sheet.data:
        yield Step(path=path, data=data, mode=mode)


def lift(path: Path) -> Iterator[Step]:
    """Plan to delete a file if it is ours, and the folders made for it if nothing else is in them."""
    sheet = look(path)
    if sheet.note:
        yield Step(path=path, folders=sheet.note["folders"])


def folders(path: Path) -> int:
    """Return how many folders above a file are still to be made."""
    return sum(not os.path.lexists(folder) for folder in path.parents)
