"""Which folders were made for files of ours: the one thing that no file's text can tell.

One small file for each folder, in the user's own data. Without it a folder that was made stays, empty; nothing else
depends on a receipt.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path


def note(place: Path, made: Sequence[Path]) -> None:
    """Remember folders that were made. Never fails."""
    for folder in made:
        with suppress(OSError, ValueError):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(_receipt(place, folder), os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
            with open(handle, "wb") as out:
                out.write(os.fsencode(folder) + b"\n")


def clear(place: Path, file: Path) -> list[Path]:
    """Delete the folders above a file that were made for ours and are empty by now, and return them. Never fails."""
    gone: list[Path] = []
    for folder in file.parents:
        receipt = _receipt(place, folder)
        try:
            if receipt.read_bytes() != os.fsencode(folder) + b"\n":
                break
            folder.rmdir()
            receipt.unlink()
        except (OSError, ValueError):
            break
        gone.append(folder)
    with suppress(OSError):
        place.rmdir()
        place.parent.rmdir()
    return gone


def _receipt(place: Path, folder: Path) -> Path:
    return place / hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]
