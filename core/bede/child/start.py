"""The start of a program, and why one did not start.

Promises never to use a shell: the words reach the program as they are, also where they are not UTF-8. The child is
as without us: same working directory, descriptors above stderr, mask and dispositions of signals.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import Popen, SubprocessError

from bede.child.order import Order

#: What starting a program can raise.
FAULTS = (OSError, ValueError, SubprocessError)
#: Statuses as shells, `env` and `timeout` use them.
WRAPPER, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127

#: The machine's fault, not the command's.
_SCARCE = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE}


def start(
    order: Order, streams: Sequence[int | None], first: Callable[[], None] | None, group: int | None = None
) -> Popen[bytes]:
    """Start a program with these three streams (None is ours) and return it; `first` runs in it before.

    Raises:
        OSError, ValueError, SubprocessError: it cannot be started; `explain` says why.
    """
    return Popen(
        order.command,
        env=dict(order.environment),
        cwd=order.directory,
        stdin=streams[0],
        stdout=streams[1],
        stderr=streams[2],
        # Ours are closed by themselves; those inherited are meant for the child: a job server, <(a substitution).
        close_fds=os.name == "nt",
        preexec_fn=first,
        process_group=group,
    )


def explain(error: Exception, order: Order) -> tuple[int, str]:
    """Return the exit status that a shell would show for a program that did not start, and why it did not."""
    name = order.command[0]
    if not isinstance(error, OSError):
        return WRAPPER, f"cannot start {name!r}: {error}"
    if not os.access(order.directory, os.X_OK) or not order.directory.is_dir():
        return WRAPPER, f"cannot work in {order.directory}: {_reason_of_folder(order.directory)}"
    if error.errno in _SCARCE:
        return WRAPPER, f"cannot start {name!r}: {error.strerror}"
    found = _find(order)
    if found is None:
        return NOT_FOUND, f"command not found: {name}"
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        # Shells show this one as not found too; only their text tells the two apart.
        return NOT_FOUND, f"cannot run {found}: {_interpreter(found)}"
    return NOT_EXECUTABLE, f"cannot run {found}: {_reason(error, found)}"


def _find(order: Order) -> Path | None:
    """Return the file that a name means: a path as it is, or the first of that name on PATH."""
    name = order.command[0]
    if os.path.dirname(name):  # noqa: PTH120
        path = order.directory / name
        return path if path.exists() else None
    folders = os.get_exec_path(order.environment) if name else []
    paths = (order.directory / folder / name for folder in folders)
    return next((path for path in paths if _is_file(path)), None)


def _is_file(path: Path) -> bool:
    try:
        return not stat.S_ISDIR(path.stat().st_mode)
    except OSError:
        return False


def _reason_of_folder(folder: Path) -> str:
    if not folder.exists():
        return "there is no such folder"
    return "permission denied" if folder.is_dir() else "it is not a folder"


def _reason(error: OSError, found: Path) -> str:
    if found.is_dir():
        return "it is a folder"
    if error.errno == errno.EACCES and not os.access(found, os.X_OK):
        return "it is not executable; 'chmod +x' makes it so"
    if error.errno == errno.ENOEXEC:
        return "it is no program for this system; a script begins with a line like '#!/bin/sh'"
    return (error.strerror or str(error)).lower()


def _interpreter(found: Path) -> str:
    """Say what is missing for a file that is there, and yet was not found."""
    try:
        with found.open("rb") as file:
            first = file.readline(256)
    except OSError:
        first = b""
    if not first.startswith(b"#!"):
        return "the loader that it asks for is not there; it may be built for another system"
    name = first[2:].strip().split(b" ")[0].decode("utf-8", "replace")
    if first.endswith(b"\r\n"):
        return f"its first line ends like on Windows, so that {name!r} is not found"
    return f"its interpreter {name!r} is not there"
