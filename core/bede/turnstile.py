"""One process at a time: a lock that its holder cannot forget to give back.

The lock is the kernel's, on an open file, so it ends with the process that holds it, however that ends: none
is ever stale, and no process id is believed. The file itself is empty, stays, and says nothing.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bede.errors import Unavailable, cause

#: How the systems say that somebody else has it.
_TAKEN = {getattr(errno, name, 0) for name in ("EACCES", "EAGAIN", "EDEADLK", "EDEADLOCK", "EWOULDBLOCK")}
_PAUSE = 0.01


@contextmanager
def held(path: Path, patience: float = 0.0) -> Iterator[bool]:
    """Take the lock of a file for the block, and yield whether it was to be had within `patience` seconds.

    Also two holders within one process exclude each other. Who got False has to go without.

    Raises:
        Unavailable: the file cannot be opened, or its disk knows no locks.
    """
    try:
        handle = _open(path)
    except (OSError, ValueError) as error:
        raise Unavailable(f"cannot lock {path}: {cause(error)}", hint="check the permissions") from error
    try:
        yield _taken(handle, path, time.monotonic() + patience)
    finally:
        os.close(handle)


def _open(path: Path) -> int:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    return os.open(path, flags, 0o600)


def _taken(handle: int, path: Path, until: float) -> bool:
    while True:
        try:
            _lock(handle)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise Unavailable(f"cannot lock {path}: {cause(error)}", hint="its disk may have none") from error
        else:
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(_PAUSE)


if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        os.lseek(handle, 0, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(handle: int) -> None:
        # Of the two kinds of lock this one belongs to the open file: a record lock would let a process lock
        # twice.
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
