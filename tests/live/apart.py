"""Processes of a run: without a network where the system allows that, and none of them left behind."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_SUBREAPER = 36


def leave_network() -> str:
    """Move this process, and all that it starts, to where there is nothing but 127.0.0.1; tell why not, '' if done.

    Needs Linux, and root or user namespaces. Has to be called before any thread is started.
    """
    if not sys.platform.startswith("linux"):
        return f"{sys.platform} has no network namespaces"
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(_NEW_NET) != 0:
        if libc.unshare(_NEW_USER | _NEW_NET) != 0:
            return f"no network namespace can be made here ({errno.errorcode.get(ctypes.get_errno(), '?')})"
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    _raise_loopback()
    return ""


def _raise_loopback() -> None:
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        asked = struct.pack("16sh14s", b"lo", 0, b"")
        flags = struct.unpack("16sh14s", fcntl.ioctl(sock, 0x8913, asked))[1]  # SIOCGIFFLAGS
        fcntl.ioctl(sock, 0x8914, struct.pack("16sh14s", b"lo", flags | 1, b""))  # SIOCSIFFLAGS, IFF_UP


def adopt() -> None:
    """Become the parent of what loses its own, so that `settle` sees it (Linux only)."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def start(argv: Sequence[str], cwd: Path, env: Mapping[str, str], logs: Path) -> subprocess.Popen[bytes]:
    """Start an agent in a process group of its own, without a terminal; what it says goes to files."""
    with (logs / "stdout.txt").open("wb") as out, (logs / "stderr.txt").open("wb") as err:
        return subprocess.Popen(
            argv, cwd=cwd, env=dict(env), stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        )


def finish(process: subprocess.Popen[bytes], patience: float) -> int | None:
    """Wait for an agent, and end what is left of its group; return its status, None where it took too long."""
    try:
        code: int | None = process.wait(timeout=patience)
    except subprocess.TimeoutExpired:
        code = None
    for number, pause in ((signal.SIGTERM, 3.0), (signal.SIGKILL, 3.0)):
        if not _is_group(process.pid):
            break
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        _until(lambda: not _is_group(process.pid), pause)
    process.wait()
    return code


def settle(patience: float = 60.0) -> list[str]:
    """Wait for what outlives its agent (Bede's reading of a session does); end and return what does not end itself.

    No process of ours may still be waited for elsewhere.
    """
    if not sys.platform.startswith("linux"):
        return []
    if _until(_reap, patience):
        return []
    left = _children()
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _until(_reap, 5.0)
    return list(left.values())


def _reap() -> bool:
    """Take leave of children that have ended; tell whether there is none any more."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return False
        except ChildProcessError:
            return True


def _children() -> dict[int, str]:
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            words = stat.read_text().rpartition(")")[2].split()
            if int(words[1]) == os.getpid():
                line = (stat.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                found[int(stat.parent.name)] = line.strip()[:200]
    return found


def _is_group(group: int) -> bool:
    """Tell whether a group has members; those that have ended and are ours to bury are none."""
    with suppress(ChildProcessError):
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _until(condition: Callable[[], bool], patience: float) -> bool:
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
