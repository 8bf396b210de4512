"""Files as they are met again: which one it is, whether what was read of it still stands there, and how it is opened.

A cursor knows a file by the bytes it has read: their first and last kilobytes are hashed. So a file that only grew is
read on, whatever its name or place on the disk; one that was rewritten, rotated or cut is read anew.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from bede.errors import BadSource, Unavailable
from bede.redact import redact
from bede.sources.jsonl import Cursor

#: Bytes at either end of what was read that are compared.
COMPARED = 4096
#: Characters at the edge of such a piece that count for nothing.
EDGE = 512
#: Most bytes that a compressed file is unpacked to: none that an agent wrote comes near.
UNPACKED = 8 << 30
#: Bytes by which a format is known.
HEAD = 65536
#: So many of the last names in a path say what its file is: formats look at the folders above it.
NAMES = 6
#: Bytes that are read at once: of lines of a few kilobytes, the usual eight hold only some.
_BUFFER = 128 * 1024
#: Packed bytes that are unpacked at once: no more than 32 MB comes out of so many.
_FED = 1024
#: Stands for the record that a compressed file without its end may go on with: it is counted as unfinished, and waits.
_TORN = b"{"
_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_DATABASE = b"SQLite format 3\0"
_PACKED = (".jsonl.zst", ".json.zst", ".txt.zst", ".db.zst", ".vscdb.zst")

Mark = dict[str, Any]


def look(path: Path) -> Mark:
    """Return what a file looks like from outside: size, times of its last change, and which one it is.

    Raises:
        OSError: the system does not say.
    """
    found = path.stat()
    times = {"mtime": found.st_mtime_ns, "ctime": found.st_ctime_ns}
    return {"size": found.st_size, **times, "file": [found.st_dev, found.st_ino]}


def is_same(mark: Mark, seen: Mark) -> bool:
    """Tell whether a file looks as it did when it was read."""
    return all(mark.get(name) == seen[name] for name in ("size", "mtime", "ctime", "file"))


def remember(file: BinaryIO, cursor: Cursor) -> Mark:
    """Return how far a file is read, and what the bytes at both ends of that are."""
    return {
        "offset": cursor.offset,
        "line": cursor.line,
        "part": cursor.part,
        **_ends(file, cursor.offset),
    }


def resume(file: BinaryIO, mark: Mark) -> Cursor | None:
    """Return the cursor to go on from, None where the bytes that were read are no longer there."""
    try:
        cursor = Cursor(int(mark["offset"]), int(mark["line"]), int(mark["part"]))
        ends = _ends(file, cursor.offset)
    except (KeyError, TypeError, ValueError):
        return None
    return cursor if ends.items() <= mark.items() else None


def _ends(file: BinaryIO, offset: int) -> dict[str, str]:
    """Return by what both ends of the bytes before an offset are known.

    A password could be guessed from a bare hash of what holds it: so it is one of what is left without secrets, and
    without the edge where the bytes are cut, since a secret may be cut there.
    """
    start = max(0, offset - COMPARED)
    head, tail = _seen(file, 0, min(offset, COMPARED)), _seen(file, start, offset)
    return {"head": _hash(head[:-EDGE] if start else head), "tail": _hash(tail[EDGE:] if start else tail)}


def _seen(file: BinaryIO, start: int, end: int) -> str:
    file.seek(start)
    found = file.read(end - start)
    return redact(found.decode("utf-8", "replace")) if len(found) == end - start else ""


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def plain(path: Path) -> Path:
    """Return a path under which a file would lie if it were not compressed."""
    return path.with_name(path.name.removesuffix(".zst")) if path.name.endswith(_PACKED) else path


def head(path: Path, size: int = HEAD) -> bytes:
    """Return the beginning of a file, unpacked.

    Raises:
        OSError, BadSource: it cannot be read.
    """
    with opened(path) as file:
        return file.read(size)


def is_blank(head: bytes) -> bool:
    """Tell whether a file of which this is the beginning holds nothing at all."""
    return len(head) < HEAD and not head.removeprefix(b"\xef\xbb\xbf").strip(b"\x00 \t\r\n")


def is_packed(path: Path) -> bool:
    """Tell whether a file is compressed with Zstandard, by its first bytes, however few of them are there."""
    with path.open("rb") as file:
        found = file.read(4)
    return found == _ZSTANDARD or (found != b"" and path.suffix == ".zst" and _ZSTANDARD.startswith(found))


def is_database(path: Path) -> bool:
    """Tell whether a file is a database of SQLite, by its first bytes."""
    with path.open("rb") as file:
        return file.read(16) == _DATABASE


@contextmanager
def opened(path: Path, *, is_whole: bool = False) -> Iterator[BinaryIO]:
    """Open a transcript for reading, unpacked where it is compressed; of one that has to be whole, not without its end.

    Raises:
        OSError, BadSource: it cannot be read.
        Unavailable: it is compressed, and the library for that is missing.
    """
    if not os.path.isfile(path):  # noqa: PTH113 (a pipe or device would never end)
        raise BadSource(f"not a file: {path}", hint="give the file of a transcript")
    if not is_packed(path):
        with path.open("rb", buffering=_BUFFER) as file:
            yield file
        return
    with _unpacked(path, is_whole) as unpacked:
        yield unpacked


@contextmanager
def together(path: Path, beside: Sequence[Path] = ()) -> Iterator[Path]:
    """Hold a file by whose path it can be read: itself, or unpacked under its names, with what is read beside it.

    One that is read at once says nothing of itself that is sure before its last byte, so it has to be whole.

    Raises:
        OSError, BadSource: it cannot be read.
        Unavailable: it is compressed, and the library for that is missing.
    """
    if not is_packed(path):
        yield path
        return
    import shutil
    import tempfile

    with tempfile.TemporaryDirectory(prefix="bede-", ignore_cleanup_errors=True) as folder:
        place = Path(folder, *plain(path).absolute().parts[-NAMES:])
        place.parent.mkdir(parents=True)
        with opened(path, is_whole=True) as file, place.open("wb") as out:
            shutil.copyfileobj(file, out)
        for each, other in moved(plain(path), beside, place, Path(folder)):
            other.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(each, other)
        yield place


def moved(path: Path, beside: Iterable[Path], place: Path, folder: Path) -> Iterator[tuple[Path, Path]]:
    """Yield files and where each lies to a copy as it does to the original; none that would lie outside a folder."""
    for each in beside:
        other = Path(os.path.normpath(place.parent / os.path.relpath(each.absolute(), path.absolute().parent)))
        if other.is_relative_to(folder):
            yield each, other


@contextmanager
def _unpacked(path: Path, has_to_be_whole: bool) -> Iterator[BinaryIO]:
    """Unpack into a file of its own, since a reader goes back and forth; it never holds the whole in memory."""
    import tempfile

    try:
        import zstandard
    except ImportError as error:
        raise Unavailable(
            f"{path.name} is compressed with Zstandard", hint="pip install zstandard, then read it again"
        ) from error
    with tempfile.TemporaryFile() as file, path.open("rb") as packed:
        try:
            is_whole = _unpack(packed, file)
        except (zstandard.ZstdError, MemoryError) as error:
            raise BadSource(
                f"cannot unpack {path}: {error}", hint="the file is damaged or still being written"
            ) from error
        if file.tell() > UNPACKED:
            raise BadSource(f"{path} unpacks to more than {UNPACKED} bytes", reason="size")
        if not is_whole and has_to_be_whole:
            hint = "it is taken once it is whole; if nobody writes it any more, copy or compress it again"
            raise BadSource(f"{path} is compressed, and its end is missing", hint=hint, reason="unfinished")
        if not is_whole and _is_after_line(file):  # What came out looks as if it were all.
            file.write(_TORN)
        file.seek(0)
        yield cast(BinaryIO, file)


def _unpack(packed: BinaryIO, file: IO[bytes]) -> bool:
    """Unpack frame after frame; False where the last of them has no end."""
    import zstandard

    unpack = zstandard.ZstdDecompressor()
    frame, is_whole = unpack.decompressobj(), True
    while file.tell() <= UNPACKED and (fed := packed.read(_FED)):
        while fed:
            file.write(frame.decompress(fed))
            is_whole = bool(frame.eof)
            fed, frame = (frame.unused_data, unpack.decompressobj()) if is_whole else (b"", frame)
    return is_whole


def _is_after_line(file: IO[bytes]) -> bool:
    """Tell whether what is written so far is nothing, or ends with a line."""
    if at := file.tell():
        file.seek(at - 1)
    return not at or file.read(1) == b"\n"
