"""Files that strangers may have made, and files that others shall read.

Reading follows no link, opens nothing but regular files, and takes no more than it was told. Writing shows a whole file
or none under its name, whatever the umask says.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from bede.errors import Unavailable, cause
from bede.exchange.document import refuse

#: Readable by its owner and the folder's group; and by its owner alone.
SHARED, PRIVATE = 0o640, 0o600


def read(path: Path, largest: int, *, follow: bool = False) -> bytes | None:
    """Return a file's bytes, None where there is none.

    Raises:
        BadSource: it is a link (unless `follow`), no regular file, too large, or may not be read.
    """
    data = beginning(path, largest + 1, follow=follow)
    if data is not None and len(data) > largest:
        refuse("too_large", f"{path} has more than {largest:,} bytes")
    return data


def beginning(path: Path, count: int, *, follow: bool = False) -> bytes | None:
    """Return a file's first bytes, None where there is none.

    Raises:
        BadSource: it is a link (unless `follow`), no regular file, or may not be read.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        if not follow and stat.S_ISLNK(os.lstat(path).st_mode):
            refuse("unsafe_file", f"{path} is a link, which is not followed")
        handle = os.open(path, flags | (0 if follow else getattr(os, "O_NOFOLLOW", 0)))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        refuse("unreadable", f"cannot read {path}: {cause(error)}")
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            refuse("unsafe_file", f"{path} is no regular file")
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read(count)
    except OSError as error:
        refuse("unreadable", f"cannot read {path}: {cause(error)}")
    finally:
        os.close(handle)


def write(path: Path, data: bytes, mode: int | None = None) -> list[str]:
    """Put a whole file in its place, on disk when this returns; return what has to be told about it.

    A file that shall be shared gets the group of its folder; without a mode the umask decides.

    Raises:
        Unavailable: the system refuses; what was there before is there still.
    """
    try:
        draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
        try:
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
            with os.fdopen(os.open(draft, flags, 0o666 if mode is None else mode), "wb") as file:
                warnings = _share(file.fileno(), path.parent, mode)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        finally:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
        _settle(path.parent)
    except (OSError, ValueError) as error:
        raise Unavailable(f"cannot write {path}: {cause(error)}", hint="check the folder and the disk") from error
    return warnings


def sweep(path: Path, before: float) -> None:
    """Remove what a write of this very file left behind when it was killed, if that is from before a time."""
    for draft in path.parent.glob(f".{path.name}.*.tmp"):
        with suppress(OSError):
            if draft.lstat().st_mtime < before:
                draft.unlink()


def _share(handle: int, folder: Path, mode: int | None) -> list[str]:
    """Give an open file its mode, whatever the umask took away, and the group of its folder."""
    if os.name == "nt" or mode is None:
        return []
    warnings = []
    group = folder.stat().st_gid
    if mode == SHARED and os.fstat(handle).st_gid != group:
        try:
            os.fchown(handle, -1, group)
        except OSError as error:
            warnings = [f"the file cannot be given to the group of {folder} ({error.strerror}): others cannot read it"]
    os.fchmod(handle, mode)
    return warnings


def _settle(folder: Path) -> None:
    """Let the folder's own entry reach the disk, where the system can do that."""
    if os.name == "nt":
        return
    with suppress(OSError):  # Some network folders cannot; the file's own bytes are there.
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def names(folder: Path, most: int = 10_000) -> list[str]:
    """Return the names of what lies in a folder, but for hidden files.

    Raises:
        Unavailable: it is not there, or may not be looked into.
    """
    found: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.name.startswith(".") and len(found) < most:
                    found.append(entry.name)
    except OSError as error:
        raise Unavailable(
            f"cannot look into the folder {folder}: {error.strerror}", hint="is it there, and mounted?"
        ) from error
    return sorted(found)
