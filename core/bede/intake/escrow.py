"""Copies of the raw records, so that all can be built again after an agent has deleted its files.

One compressed file a transcript, with a frame for each time something new was read, and behind it how far that was: so
a run that is stopped leaves nothing in doubt. Secrets are taken out first, as they are from everything that reaches the
disk, names of files and folders too; a record without one is kept byte for byte. `bede ingest --path` reads such a copy
like the file it was made of: the small files that tell where a session belongs, and those that hold the rest of it, lie
beside the copy as they lay beside the file. What a rewritten file no longer holds stays, in an earlier copy beside it.
Of a database each session of the project is copied by itself, into a small database with what the big one has of it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import shutil
import struct
import sys
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from bede.errors import BadSource, BedeError
from bede.intake import files
from bede.intake.reading import FAULTS
from bede.intake.running import companions
from bede.intake.sifting import Sieve
from bede.redact import redact
from bede.sources import source
from bede.sources.foreign import excerpt
from bede.sources.port import Source, Table, Tally

#: A frame that every reader of Zstandard skips: up to where in the transcript reaches what stands before it.
_REACH = struct.Struct("<II8sQ")
_SKIPPED, _TOLD = 0x184D2A50, b"reaches "
_MARK = re.compile(r"\[redacted:([a-z0-9-]+)\]")


class Escrow:
    """The folder of copies; `secret` is the project's own."""

    def __init__(self, folder: Path, secret: bytes = b"") -> None:
        self.folder = folder
        self.secret = secret

    def place(self, agent: str, path: Path, session: str = "") -> Path:
        """Return where the copy of a transcript lies, or of one session of a database, apart from all others.

        It lies under the names that tell its format. Where the path holds a secret, under what is left of them and a
        hash that only the project can make; without the project's secret, under a hash of what is left.
        """
        key = b"" if _is_plain(str(path)) else self.secret
        told = os.fsencode(path if key else redact(str(path))) + (b"\0" + session.encode() if session else b"")
        short = hmac.new(key, told, "sha256") if key else hashlib.sha256(told)
        *folders, name = _names(files.plain(path).absolute().parts[-files.NAMES :])
        folders = [each.strip("/\\:") or "_" for each in folders]
        return Path(self.folder, agent, short.hexdigest()[:12], *folders, name + ".zst")

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
        if not start or _reach(place) != start:  # A run that was stopped may have come further than it could tell.
            start = 0
        if not start or start < end:
            self._folders(place)
            draft = place.with_name(place.name + ".new")
            draft.unlink(missing_ok=True)
            if start:
                shutil.copyfile(place, draft)
            _pack(source(agent), path, draft, start, end)
            draft.chmod(0o600)
            if not end:
                self._renew(source(agent), draft, place)
            else:
                if not start and place.exists() and not _begins(draft, place):
                    self._put_by(place)
                draft.replace(place)
        self._accompany(agent, path, place)
        return end

    def _excerpts(self, agent: str, path: Path, sessions: Collection[str]) -> None:
        """Keep what a database has of some sessions; what only files beside it have, as copies of those files."""
        module = source(agent)
        for session, tables in module.rows(path, sorted(sessions)):  # type: ignore[attr-defined]
            self._excerpt(agent, path, session, tables)
        for file_ in getattr(module, "outside", lambda *_: ())(path, sessions):
            self.keep(agent, file_, 0, 0, ())

    def _excerpt(self, agent: str, path: Path, session: str, tables: Iterable[Table]) -> None:
        """Keep what a database has of one session, if it has anything."""
        place, bare = self.place(agent, path, session), _sieve(source(agent)).cell
        self._folders(place)
        plain, draft = place.with_name(place.name + ".db"), place.with_name(place.name + ".new")
        for each in (plain, draft):
            each.unlink(missing_ok=True)
        os.close(os.open(plain, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600))
        try:
            if excerpt(plain, ((table, names, ([*map(bare, row)] for row in rows)) for table, names, rows in tables)):
                with plain.open("rb") as file:
                    _compress(iter(lambda: file.read(1 << 20), b""), draft)
                self._renew(source(agent), draft, place)
                self._accompany(agent, path, place)
        finally:
            plain.unlink(missing_ok=True)

    def _accompany(self, agent: str, path: Path, place: Path) -> None:
        """Keep the files that are read together with a transcript, beside its copy."""
        root = Path(self.folder, *place.relative_to(self.folder).parts[:2])
        for each, other in files.moved(files.plain(path), companions(source(agent), path), place, root):
            self._copy(agent, each, root.joinpath(*_names(other.relative_to(root).parts)))

    def _copy(self, agent: str, path: Path, place: Path) -> None:
        """Keep a file that is read together with a transcript, unless it is kept as it is now."""
        at = path.stat().st_mtime_ns
        if place.exists() and place.stat().st_mtime_ns == at:
            return
        self._folders(place)
        draft = place.with_name(place.name + ".new")
        draft.unlink(missing_ok=True)
        with files.opened(path) as file, os.fdopen(os.open(draft, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as out:
            out.writelines(_sieve(source(agent)).value(file))
        os.utime(draft, ns=(at, at))
        draft.replace(place)

    def _folders(self, place: Path) -> None:
        """Make the folders of a copy, each for its owner alone."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        folder = self.folder
        for name in place.relative_to(self.folder).parts[:-1]:
            folder /= name
            folder.mkdir(mode=0o700, exist_ok=True)

    def _renew(self, module: Source, draft: Path, place: Path) -> None:
        """Put a copy in the place of an earlier one, which stays where it has a record that the new one has not."""
        before = self._put_by(place) if place.exists() else None
        draft.replace(place)
        if before and _keys(module, before) <= _keys(module, place):
            before.unlink()
            with suppress(OSError):
                os.removedirs(before.parent)

    def _put_by(self, place: Path) -> Path:
        """Move a copy of what is no longer in its file out of the way, under a number of its own."""
        number = 1
        while (other := self._numbered(place, number)).exists():
            number += 1
        self._folders(other)
        return place.rename(other)

    def _numbered(self, place: Path, number: int) -> Path:
        agent, short, *names = place.relative_to(self.folder).parts
        return Path(self.folder, agent, f"{short}.{number}", *names)


def _pack(module: Source, path: Path, draft: Path, start: int, end: int) -> None:
    """Write what stands between two offsets of a file, or all of it, without secrets, as a frame of a draft."""
    sieve = _sieve(module)
    with files.opened(path) as file:
        if end or files.plain(path).suffix == ".jsonl":
            file.seek(start)
            _compress(sieve.lines(file, (end or sys.maxsize) - start), draft)
        else:
            _compress(sieve.value(file), draft)
    if end:
        with draft.open("ab") as packed:
            packed.write(_REACH.pack(_SKIPPED, _REACH.size - 8, _TOLD, end))
    elif whole := _whole(module, path, sieve):
        draft.unlink()
        _compress([whole], draft)


def _whole(module: Source, path: Path, sieve: Sieve) -> bytes:
    """Return the record that stands for a log in which secrets were met, or are where it is put together; else nothing.

    What was taken back from it later may hold a half of one, which nothing tells.
    """
    if not hasattr(module, "settled"):
        return b""
    with files.together(path) as place:
        record = module.settled(place)
    return sieve.whole(record) if record is not None else b""


def _sieve(module: Source) -> Sieve:
    return Sieve(getattr(module, "BETWEEN", "\n"))


def _reach(place: Path) -> int:
    """Return up to where a copy reaches, as it tells itself; -1 where it does not."""
    with suppress(OSError), place.open("rb") as file:
        file.seek(-_REACH.size, os.SEEK_END)
        skipped, size, told, at = _REACH.unpack(file.read())
        if (skipped, size, told) == (_SKIPPED, _REACH.size - 8, _TOLD):
            return int(at)
    return -1


def _compress(pieces: Iterable[bytes], draft: Path) -> None:
    """Add pieces to a file, as a frame."""
    import zstandard

    handle = os.open(draft, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    with os.fdopen(handle, "ab") as packed:
        writer = zstandard.ZstdCompressor(level=9).stream_writer(packed, closefd=False)
        with writer as out:
            for piece in pieces:
                out.write(piece)


def _is_plain(text: str) -> bool:
    return redact(text) is text


def _names(parts: Sequence[str]) -> list[str]:
    """Return names of folders and a file without secrets, as any system can have them."""
    whole = "/".join(parts)
    if _is_plain(whole):
        return list(parts)
    names = [_MARK.sub(r"_redacted_\1_", name) for name in redact(whole).split("/")]
    suffix = Path(parts[-1]).suffix
    return names if names[-1].endswith(suffix) else [*names[:-1], names[-1] + suffix]


def _keys(module: Source, place: Path) -> set[str]:
    """Return what the records of a copy are known by; nothing of one that cannot be read."""
    found = set[str]()
    with suppress(BedeError, OSError, *FAULTS), files.together(place) as path:
        found.update(item.key for item in getattr(module, "load", lambda *_: ())(path, Tally()))
    return found


def _begins(long: Path, short: Path) -> bool:
    """Tell whether one compressed file begins with all that another holds; no where that cannot be read."""
    with suppress(BadSource), files.opened(long) as one, files.opened(short) as other:
        while piece := other.read(1 << 20):
            if one.read(len(piece)) != piece:
                return False
        return True
    return False
