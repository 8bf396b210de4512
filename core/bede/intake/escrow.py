"""Copies of the raw records, so that all can be built again after an agent has deleted its files.

One compressed file a transcript, with a frame for each time something new was read. Secrets are taken out first, as
they are from everything that reaches the disk. `bede ingest --path` reads such a copy like the file it was made of.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from bede.intake import files
from bede.redact import redact

_LINES = 4 * 1024 * 1024
_DATABASE = b"SQLite format 3\0"


class Escrow:
    """The folder of copies."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def place(self, agent: str, path: Path) -> Path:
        """Return where the copy of a transcript lies: under its own name, told apart by the hash of its path."""
        short = hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
        name = path.name.removesuffix(".zst")
        return self.folder / agent / short / (name + ".zst")

    def keep(self, agent: str, path: Path, start: int, end: int) -> bool:
        """Add what was read between two offsets of a file of lines; of any other text (`end` 0), keep all as it is now.

        Returns False for a database, of which no copy without secrets can be made.

        Raises:
            OSError, BadSource, Unavailable: the copy cannot be made.
        """
        import zstandard

        place = self.place(agent, path)
        with files.opened(path) as file:
            if file.read(16) == _DATABASE:
                return False
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft = place.with_name(place.name + ".new")
            draft.unlink(missing_ok=True)
            if start and place.exists():
                shutil.copyfile(place, draft)
            file.seek(start)
            with os.fdopen(os.open(draft, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), "ab") as packed:
                writer = zstandard.ZstdCompressor(level=9).stream_writer(packed, closefd=False)
                with writer as out:
                    for data in _pieces(file, end - start if end else None):
                        out.write(redact(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape"))
        draft.replace(place)
        return True


def _pieces(file: BinaryIO, left: int | None) -> Iterator[bytes]:
    """Yield whole lines, some megabytes at a time, up to so many bytes in all."""
    while left is None or left > 0:
        data = b"".join(file.readlines(_LINES if left is None else min(left, _LINES)))
        if not data:
            return
        yield data if left is None else data[:left]
        left = None if left is None else left - len(data)
