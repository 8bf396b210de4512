"""Reading a bundle: everything is checked before anything of it is used, and it is streamed, never held.

First what costs nothing (the first line, sizes, the signature, whose project), then each event. A bundle is read
twice, once to check it and once to take it in; the hash of the whole, taken both times, shows that it is the same.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from bede.bundles import form, shapes
from bede.bundles.form import Header, refuse
from bede.errors import BadSource, NotFound, TooNew
from bede.identity import counted
from bede.repository.union import Foreign
from bede.signing import SIGNATURE, is_signed

#: Most memory that a packed stream may ask for to be unpacked.
_WINDOW = 32 * 1024 * 1024
_STEP = 256 * 1024


class Bundle:
    """An open bundle whose header and signature hold."""

    def __init__(self, file: BinaryIO, header: Header, start: int) -> None:
        self.header = header
        self._file, self._start = file, start

    def events(self, *, again: bool = False) -> Iterator[Foreign]:
        """Yield the events, each checked by itself; at the end the whole has to be what the header says.

        With `again` only the whole is looked at, which is enough when each event was checked before.

        Raises:
            BadSource: an event, the count or the hash does not hold.
        """
        import zstandard

        self._file.seek(self._start)
        source = _Hashing(self._file, self.header.packed)
        unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
        count, size, read = 0, 0, form.again if again else form.event_of
        try:
            with unpacker.stream_reader(cast(IO[bytes], source), read_size=_STEP, closefd=False) as reader:
                for line in _split(reader, self.header.plain):
                    count, size = count + 1, size + len(line)
                    yield read(line, count)
        except zstandard.ZstdError as error:
            raise refuse("bad_packing", "the bundle's events cannot be unpacked") from error
        except OSError as error:
            raise refuse("unreadable", f"the bundle cannot be read on: {error.strerror}", "check the disk") from error
        source.finish()
        if source.sha256.hexdigest() != self.header.sha256:
            raise refuse("bad_hash", "the bundle's events are not those that were signed")
        if (count, size) != (self.header.events, self.header.plain):
            raise refuse("bad_count", f"the bundle says {self.header.events} events and holds {count}")


class _Hashing(io.RawIOBase):
    """A part of a file that hashes what is read of it."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.sha256 = hashlib.sha256()
        self._file, self._left = file, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(min(len(buffer), self._left))
        buffer[: len(data)] = data
        self.sha256.update(data)
        self._left -= len(data)
        return len(data)

    def finish(self) -> None:
        """Read what was not asked for, so that the hash is that of all."""
        while self.read(_STEP):
            pass


def _split(reader: Any, most: int) -> Iterator[bytes]:
    """Yield the lines of a stream that has `most` bytes at most, none longer than any event's."""
    pending, size = bytearray(), 0
    while chunk := reader.read(_STEP):
        size += len(chunk)
        if size > most:
            raise refuse("bomb", "the bundle unpacks to more than its header says")
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            yield bytes(pending) + line + b"\n"
            pending.clear()
        pending += rest
        if len(pending) > form.LINE:
            raise refuse("bad_event", "an event of the bundle is larger than any may be")
    if pending:
        raise refuse("truncated", "the bundle's last event is cut off")


@contextmanager
def opened(path: Path) -> Iterator[Bundle]:
    """Open a bundle and check its first line, sizes and signature.

    Raises:
        BadSource: it cannot be read, is no bundle, was cut or changed, or claims what no bundle can be.
        TooNew: a newer version of Bede wrote it.
    """
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise refuse("not_a_bundle", f"{path} is not a file", "name the file that 'bede bundle export' wrote")
    with os.fdopen(handle, "rb") as file:
        try:
            found = _admitted(file, path, status.st_size)
        except OSError as error:
            raise _unreadable(path, error) from error
        yield found


def _unreadable(path: Path, error: Exception) -> BadSource:
    why = error.strerror if isinstance(error, OSError) else error
    return refuse("unreadable", f"cannot read {path}: {why}", "check the path")


def _admitted(file: BinaryIO, path: Path, size: int) -> Bundle:
    first = file.readline(32)
    found = re.fullmatch(rb"bede bundle ([1-9][0-9]{0,8})\n", first)
    if not found:
        raise refuse("not_a_bundle", f"{path} is no bundle", "name the file that 'bede bundle export' wrote")
    if int(found[1]) > form.VERSION:
        raise TooNew(
            f"{path} is a bundle of version {int(found[1])}, this bede reads version {form.VERSION}",
            hint="install a newer bede: pip install --upgrade bede",
        )
    line = file.readline(form.HEADER + 1)
    if not line.endswith(b"\n"):
        raise refuse("truncated", f"{path} ends within its header, or that is too large")
    header, start = form.header_of(line), file.tell()
    if size != start + header.packed + SIGNATURE:
        word = "is cut off" if size < start + header.packed + SIGNATURE else "goes on behind its end"
        raise refuse("truncated", f"{path} {word}")
    _check_claims(header)
    file.seek(start + header.packed)
    if not is_signed(header.key, file.read(SIGNATURE), first + line):
        raise refuse("bad_signature", f"{path} is not signed by the key it names, {header.key}")
    return Bundle(file, header, start)


def _check_claims(header: Header) -> None:
    """Refuse what would unpack to more than events ever do."""
    if header.plain > header.packed * form.RATIO + form.SLACK:
        raise refuse("bomb", f"the bundle claims to unpack from {header.packed:,} to {header.plain:,} bytes")
    if header.events * form.LEAST > header.plain:
        raise refuse("bad_count", f"the bundle claims {header.events:,} events in {header.plain:,} bytes")


def check(bundle: Bundle, is_known: Callable[[str], bool], root: str) -> None:
    """Check every event of a bundle, and that each comes behind its parents; `root` is the project's first event.

    Of a `root` of '' the bundle itself has to begin with it.

    Raises:
        BadSource: something does not hold.
        NotFound: the bundle goes on from events that are not here.
    """
    header, seen, outside = bundle.header, set[bytes](), set[str]()
    _check_prerequisites(header, is_known)
    for event in bundle.events():
        identity = bytes.fromhex(event.id)
        if identity in seen:
            raise refuse("duplicate", f"event {event.id} comes twice in the bundle")
        if event.kind == "project" and root:
            _check_root(event.id == root)
        elif not seen and not root:
            _check_root(event.kind == "project" and event.told.get("project_id") == header.project)
        elif event.kind == "project":
            _check_root(False)
        outside.update(name for name in event.parents if bytes.fromhex(name) not in seen)
        shapes.check(event)
        _check_ends(event, lambda name: bytes.fromhex(name) in seen or is_known(name))
        seen.add(identity)
    outside.update(name for name in header.refs.values() if bytes.fromhex(name) not in seen)
    if outside != set(header.prerequisites):
        raise refuse("bad_order", "an event of the bundle does not come behind its parents, or a ref names none of it")


def _check_ends(event: Foreign, is_there: Callable[[str], bool]) -> None:
    """Let an event end only what came before it, as every event does that Bede wrote."""
    ended = event.told.get("ends", {}) if event.kind in shapes.ENDING else {}
    if not all(is_there(name) for names in ended.values() for name in names):
        raise refuse("bad_ends", f"event {event.id} ends what does not come before it")


def _check_root(is_right: bool) -> None:
    if not is_right:
        raise refuse("bad_root", "the bundle tells another beginning of the project than there is")


def _check_prerequisites(header: Header, is_known: Callable[[str], bool]) -> None:
    missing = [name for name in header.prerequisites if not is_known(name)]
    if missing:
        raise NotFound(
            f"the bundle goes on from {counted(len(missing), 'event')} not here, {missing[0][:12]} among them",
            hint="import what comes before first, or have it made without --range",
            reason="missing_events",
            missing=missing[:20],
        )
