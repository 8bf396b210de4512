"""Writing a bundle: the events of one snapshot, streamed, compressed and signed; the file appears when it is whole."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, cast

from bede.bundles.form import FIRST, MAGIC, Header, check_ref, line_of
from bede.errors import BadSource, Conflict, Unavailable, UsageError
from bede.exchange import folder
from bede.records import Place, Spans
from bede.repository import Reading
from bede.repository.lines import beyond
from bede.repository.refs import TRACKED
from bede.repository.union import Ranges, holds, outgoing, ranges
from bede.signing import Key

#: How hard zstd tries: three quarters of the time goes into hashing and JSON anyway.
LEVEL = 9


@dataclass(frozen=True, slots=True)
class Pick:
    """What goes into a bundle: events, by where they are, and the refs that name some of them."""

    holds: str
    refs: dict[str, Place]
    events: Ranges


@dataclass(frozen=True, slots=True)
class Packed:
    """What went into a bundle."""

    header: Header
    purged: int
    bytes: int


def everything(reading: Reading) -> Pick:
    """Pick every event there is, also those that no ref sees any more, and every ref of this machine's own."""
    names = [name for name in reading.refs() if not name.startswith(TRACKED)]
    last = reading.counts()["events"]
    return Pick("all", {name: reading.tip(name) for name in names}, [(1, last)])


def seen_from(reading: Reading, names: list[str]) -> Pick:
    """Pick what refs see.

    Raises:
        NotFound: there is no such ref.
        UsageError: the name is another machine's ref.
    """
    refs = {_own(name): reading.tip(name) for name in names}
    parts = [(line, 1, upto) for place in refs.values() for line, upto in reading.spans(place).items()]
    return Pick("refs", refs, ranges(reading, parts))


def between(reading: Reading, start: str, end: str) -> Pick:
    """Pick what the ref `end` sees and the event `start` does not.

    Raises:
        NotFound: there is no such ref or event.
        UsageError: `end` is another machine's ref.
    """
    there: Spans = reading.spans(reading.resolve(start))
    tip = reading.tip(_own(end))
    return Pick("range", {end: tip}, ranges(reading, beyond(reading.spans(tip), there)))


def _own(name: str) -> str:
    if name.startswith(TRACKED):
        raise UsageError(f"{name!r} is another machine's", hint="merge it, then export the branch of your own")
    return check_ref(name)


def pack(reading: Reading, pick: Pick, key: Key, at: int, path: Path, secret: bytes = b"") -> Packed:
    """Write a bundle of what was picked to a file readable by its owner alone, all or nothing.

    Raises:
        Conflict: something that is no bundle lies there.
        Corrupt: an event is not what its id says.
        Unavailable: the system refuses.
    """
    _check_target(path)
    try:
        with tempfile.TemporaryFile(dir=path.parent) as spool:
            told = _spool(reading, pick, spool)
            header = Header(
                project=reading.project()["uuid"], made_at=at, key=key.id, holds=pick.holds,
                refs={name: place.id for name, place in pick.refs.items()}, secret=secret.hex(), **told["header"],
            )  # fmt: skip
            return Packed(header, told["purged"], _publish(path, header, spool, key))
    except OSError as error:
        raise Unavailable(f"cannot write {path}: {error.strerror}", hint="check the disk and the folder") from error


def _check_target(path: Path) -> None:
    try:
        if folder.beginning(path, len(MAGIC), follow=True) in (None, MAGIC):
            return
    except BadSource as error:
        raise Unavailable(f"cannot write there: {error.message}", hint="check the path given with --to") from error
    raise Conflict(f"{path} is there already, and is no bundle", hint="move it away, or write to another file")


def _spool(reading: Reading, pick: Pick, spool: BinaryIO) -> dict[str, Any]:
    """Pack the events into a file, and return what the header has to say of them."""
    import zstandard

    counts = {"events": 0, "plain": 0, "purged": 0}
    needed = {place.id for place in pick.refs.values() if not holds(pick.events, place.seq)}
    with zstandard.ZstdCompressor(level=LEVEL).stream_writer(spool, closefd=False) as writer:
        for line, outside in _lines(reading, pick, counts):
            writer.write(line)
            needed.update(outside)
    size = spool.tell()
    spool.seek(0)
    sha256 = hashlib.file_digest(cast(BytesIO, spool), "sha256").hexdigest()
    purged = counts.pop("purged")
    return {"header": {**counts, "prerequisites": tuple(sorted(needed)), "packed": size, "sha256": sha256},
            "purged": purged}  # fmt: skip


def _lines(reading: Reading, pick: Pick, counts: dict[str, int]) -> Iterator[tuple[bytes, list[str]]]:
    for event, outside in outgoing(reading, pick.events):
        line = line_of(event)
        counts["events"] += 1
        counts["plain"] += len(line)
        counts["purged"] += not event.form
        yield line, outside


def _publish(path: Path, header: Header, spool: BinaryIO, key: Key) -> int:
    """Let the whole file appear under its name, and return its size."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    head = FIRST + header.line()
    try:
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(head)
            spool.seek(0)
            shutil.copyfileobj(spool, file, 1024 * 1024)
            file.write(key.sign(head))
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return size
