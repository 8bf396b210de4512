"""The clock that leases expire by: one that no one can set, and that goes on while the machine sleeps.

Promises that a jump of the wall clock neither ends nor prolongs a lease, and that one of before a restart is still
judged, by the wall clock then. Microseconds everywhere.
"""

# ruff: noqa: PTH115
# A Path costs the hook more milliseconds than it has.
from __future__ import annotations

import os
import sys
import time

#: Longest time a lease is given for at once, in microseconds.
DAY = 24 * 3600 * 1_000_000


class Now:
    """One moment on both clocks: `wall` is for people, `ticks` count since the start of `boot`."""

    __slots__ = ("boot", "ticks", "wall")

    def __init__(self, wall: int, ticks: int, boot: str) -> None:
        self.wall = wall
        self.ticks = ticks
        self.boot = boot


def now() -> Now:
    """Return this moment."""
    return Now(time.time_ns() // 1000, ticks(), boot())


def ticks() -> int:
    """Return microseconds on a clock that only rises and counts the machine's sleep.

    On Linux that is CLOCK_BOOTTIME, on macOS CLOCK_MONOTONIC; what `time.monotonic` reads on Windows counts sleep too.
    """
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
    if hasattr(time, "CLOCK_MONOTONIC"):
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    return time.monotonic_ns() // 1000


#: What `boot` found: no process outlives the start it was made in.
_KNOWN: list[str] = []


def boot() -> str:
    """Return what names the time since the machine was started; '' where the system does not tell.

    A container that has its own time namespace counts from elsewhere, so the namespace is part of the name.
    """
    if not _KNOWN:
        _KNOWN.append(_boot())
    return _KNOWN[0]


def _boot() -> str:
    if sys.platform == "darwin":
        return _session()
    if sys.platform == "win32":
        return _started()
    try:
        handle = os.open("/proc/sys/kernel/random/boot_id", os.O_RDONLY)
    except OSError:
        return ""
    try:
        name = os.read(handle, 64).decode("ascii", "replace").strip()
    finally:
        os.close(handle)
    try:
        return f"{name} {os.readlink('/proc/self/ns/time')}"
    except OSError:
        return name


def _session() -> str:
    """Ask macOS for the UUID of this boot."""
    import ctypes

    try:
        library, buffer, size = ctypes.CDLL(None), ctypes.create_string_buffer(64), ctypes.c_size_t(64)
        failed = library.sysctlbyname(b"kern.bootsessionuuid", buffer, ctypes.byref(size), None, 0)
    except (OSError, AttributeError):
        return ""
    return "" if failed else buffer.value.decode("ascii", "replace")


def _started() -> str:
    """Ask Windows how often it was started."""
    if sys.platform != "win32":
        return ""
    import winreg

    where = r"SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters"
    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, where) as key:
            return str(winreg.QueryValueEx(key, "BootId")[0])
    except OSError:
        return ""


def left(moment: Now, boot: str, ends: int, until: int, ttl: int) -> int:
    """Return how many microseconds remain of what ends at `ends` ticks of a boot; 0 or less when it is over.

    Of another boot the wall clock decides. Where the system names no boot, a remainder longer than the whole time was
    counted from an earlier start.
    """
    if boot == moment.boot and (found := ends - moment.ticks) <= ttl:
        return found
    return min(until - moment.wall, ttl)
