"""Copies of the raw records, so that all can be built again after an agent has deleted its files.

One compressed file a transcript, with a frame for each time something new was read. Secrets are taken out first, as
they are from everything that reaches the disk; a record without one is kept byte for byte, and one with is filled up
with blanks where it got shorter, so that all stands where it stood. `bede ingest --path` reads such a copy like the
file it was made of: the small files that tell where a session belongs, and those that hold the rest of it, lie beside
the copy as they lay beside the file. What a rewritten file no longer holds stays, in an earlier copy beside it. Of a
database each session of the project is copied by itself, into a small database with what the big one has of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from bede.intake import files
from bede.intake.running import companions
from bede.redact import redact, redact_value
from bede.sources import source
from bede.sources.foreign import excerpt
from bede.sources.jsonl import LONGEST

#: A text that is one value is read whole; of a bigger one, which no format reads, no more is copied.
LARGEST = 256 * 1024 * 1024


class Escrow:
    """The folder of copies."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def place(self, agent: str, path: Path, session: str = "") -> Path:
        """Return where the copy of a transcript lies, or of one session of a database, apart from all others.

        It lies under the names that tell its format.
        """
        told = os.fsencode(path) + (b"\0" + session.encode() if session else b"")
        short = hashlib.sha256(told).hexdigest()[:12]
        *folders, name = files.plain(path).absolute().parts[-files.NAMES :]
        return Path(self.folder, agent, short, *(each.strip("/\\:") or "_" for each in folders), name + ".zst")

    def keep(self, agent: str, path: Path, start: int, end: int, sessions: Collection[str]) -> int:
        """Add what was read between two offsets of a file of lines; of any other text (`end` 0), keep all as it is now.

        Returns the offset up to which the copy reaches; -1 for a database of a format that cannot tell its rows.
        Without a copy so far, or from offset 0, all is copied. Of a database only these sessions are, each by itself,
        so that what is deleted from it stays in its copy.

        Raises:
            OSError, BadSource, Unavailable: the copy cannot be made.
        """
        if files.is_database(path):
            if not hasattr(source(agent), "rows"):
                return -1
            self._excerpts(agent, path, sessions)
            return 0
        place = self.place(agent, path)
        start = start if place.exists() else 0
        self._folders(place)
        draft = place.with_name(place.name + ".new")
        draft.unlink(missing_ok=True)
        if start:
            shutil.copyfile(place, draft)
        with files.opened(path) as file:
            file.seek(start)
            is_value = not end and files.plain(path).suffix != ".jsonl"
            _pack(file, draft, None if is_value else (end or sys.maxsize) - start)
        if not start and end and place.exists() and not _begins(draft, place):
            self._put_by(place)
        draft.chmod(0o600)
        draft.replace(place)
        self._accompany(agent, path, place)
        return end

    def _excerpts(self, agent: str, path: Path, sessions: Collection[str]) -> None:
        """Keep what a database has of some sessions; what only files beside it have, as copies of those files."""
        module = source(agent)
        for session in sorted(sessions):
            place = self.place(agent, path, session)
            self._folders(place)
            plain, draft = place.with_name(place.name + ".db"), place.with_name(place.name + ".new")
            for each in (plain, draft):
                each.unlink(missing_ok=True)
            os.close(os.open(plain, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600))
            try:
                tables = module.rows(path, session)  # type: ignore[attr-defined]
                if excerpt(plain, ((table, names, map(_bare, rows)) for table, names, rows in tables)):
                    with plain.open("rb") as file:
                        _compress(iter(lambda: file.read(1 << 20), b""), draft)
                    draft.replace(place)
                    self._accompany(agent, path, place)
            finally:
                plain.unlink(missing_ok=True)
        for file_ in getattr(module, "outside", lambda *_: ())(path, sessions):
            self.keep(agent, file_, 0, 0, ())

    def _accompany(self, agent: str, path: Path, place: Path) -> None:
        """Keep the files that are read together with a transcript, beside its copy."""
        root = Path(self.folder, *place.relative_to(self.folder).parts[:2])
        for each, other in files.moved(files.plain(path), companions(source(agent), path), place, root):
            self._copy(each, other)

    def _copy(self, path: Path, place: Path) -> None:
        """Keep a file that is read together with a transcript, unless it is kept as it is now."""
        at = path.stat().st_mtime_ns
        if place.exists() and place.stat().st_mtime_ns == at:
            return
        self._folders(place)
        draft = place.with_name(place.name + ".new")
        draft.unlink(missing_ok=True)
        with files.opened(path) as file, os.fdopen(os.open(draft, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as out:
            out.writelines(_value(file))
        os.utime(draft, ns=(at, at))
        draft.replace(place)

    def _folders(self, place: Path) -> None:
        """Make the folders of a copy, each for its owner alone."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        folder = self.folder
        for name in place.relative_to(self.folder).parts[:-1]:
            folder /= name
            folder.mkdir(mode=0o700, exist_ok=True)

    def _put_by(self, place: Path) -> None:
        """Move a copy of what is no longer in its file out of the way, under a number of its own."""
        number = 1
        while (other := self._numbered(place, number)).exists():
            number += 1
        self._folders(other)
        place.rename(other)

    def _numbered(self, place: Path, number: int) -> Path:
        agent, short, *names = place.relative_to(self.folder).parts
        return Path(self.folder, agent, f"{short}.{number}", *names)


def _pack(file: BinaryIO, draft: Path, left: int | None) -> None:
    """Write so many bytes of an open file, or its one value, without secrets, as a frame of a compressed one."""
    _compress(_value(file) if left is None else map(_clean, _some(file, left)), draft)


def _compress(pieces: Iterable[bytes], draft: Path) -> None:
    """Add pieces to a file, as a frame."""
    import zstandard

    handle = os.open(draft, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    with os.fdopen(handle, "ab") as packed:
        writer = zstandard.ZstdCompressor(level=9).stream_writer(packed, closefd=False)
        with writer as out:
            for piece in pieces:
                out.write(piece)


def _bare(row: Sequence[Any]) -> list[Any]:
    """Return a row without secrets, its texts as any encoding can store them."""
    return [_bare_value(value) for value in row]


def _bare_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return _clean(value)
    if isinstance(value, str):
        return _clean(value.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")
    return value


def _begins(long: Path, short: Path) -> bool:
    """Tell whether one compressed file begins with all that another holds."""
    with files.opened(long) as one, files.opened(short) as other:
        while piece := other.read(1 << 20):
            if one.read(len(piece)) != piece:
                return False
    return True


def _some(file: BinaryIO, left: int) -> Iterator[bytes]:
    """Yield so many bytes, line by line; of a line that is too long to be read only its end."""
    is_over = False
    while left > 0 and (piece := file.readline(min(left, LONGEST + 1))):
        left -= len(piece)
        is_over = is_over or len(piece) > LONGEST
        if not is_over:
            yield piece
        elif piece.endswith(b"\n"):
            is_over = False
            yield b"\n"


def _value(file: BinaryIO) -> Iterator[bytes]:
    """Yield a text that is one value, without secrets; one that is none as the lines that it has."""
    data = file.read(LARGEST)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        yield from (_clean(line + b"\n") for line in data.removesuffix(b"\n").split(b"\n"))
        return
    seen = redact_value(value)
    yield data if seen is value else json.dumps(seen, indent=1).encode()


def _clean(line: bytes) -> bytes:
    """Return a line without secrets, of the same length where that can be."""
    body = line.rstrip(b"\r\n")
    end = line[len(body) :]
    try:
        value = json.loads(body)
        seen = redact_value(value)
        if seen is value:
            return line
        new = json.dumps(seen, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "backslashreplace")
    except (ValueError, RecursionError):
        text = body.decode("utf-8", "surrogateescape")
        if (clean := redact(text)) == text:
            return line
        new = clean.encode("utf-8", "surrogateescape")
    return new.ljust(len(body)) + end
