"""The process that stands between us and a child on a terminal of its own.

A terminal belongs to a session, and Ctrl-Z works only where somebody in that session, outside the child's group,
can wake it again. This process is that somebody: it leads the session, starts the child in a group of its own, hands
the terminal to and fro as it is told, and reports what becomes of the child. It is a fork of ours that never
returns. It writes to nobody's streams.
"""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import termios
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import FrameType

from bede.child import signals
from bede.child.order import Order
from bede.child.start import FAULTS, explain, start

#: A report: which, a number (process, status, signal), and how many bytes of text follow.
REPORT = struct.Struct("=iii")
STARTED, REFUSED, STOPPED, ENDED = range(4)
#: What we tell it: the terminal is the child's, or nobody's; either way the child goes on.
FRONT, BACK = signal.SIGUSR1, signal.SIGUSR2

_TEXT = 2000


@dataclass(frozen=True, slots=True)
class Post:
    """Where the monitor stands: the terminal it leads, where it reports to, what tells it that it may go."""

    terminal: int
    report: int
    leave: int
    mask: frozenset[int]
    front: bool


def watch(post: Post, order: Order, streams: Sequence[int | None], pipes: Iterable[int]) -> None:
    """Lead a session, run the child in it, report until it has ended, and wait to be dismissed.

    `pipes` are closed once the child has them.
    """
    child: list[int] = []
    _listen(post, child)
    os.setsid()
    fcntl.ioctl(post.terminal, termios.TIOCSCTTY, 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, post.mask)
    try:
        process = start(order, streams, partial(_come_forward, post), group=0)
    except FAULTS as error:
        status, text = explain(error, order)
        _report(post, REFUSED, status, text.encode("utf-8", "replace")[:_TEXT])
        return
    child.append(process.pid)
    for end in pipes:
        os.close(end)
    _report(post, STARTED, process.pid)
    status = _await(post, process.pid)
    process.returncode = os.waitstatus_to_exitcode(status)
    _report(post, ENDED, status)
    # Only when all output was read: the end of a session throws away what is still on its way.
    os.read(post.leave, 1)


def _listen(post: Post, child: list[int]) -> None:
    """Do as told, and die of nothing: whoever ends a whole tree of processes wants the child's end reported."""

    def front(_signal: int, _frame: FrameType | None) -> None:
        with suppress(OSError):
            _give(post.terminal, os.getpgid(child[0]))
        _tell(child, signal.SIGCONT)

    def back(_signal: int, _frame: FrameType | None) -> None:
        with suppress(OSError):
            _give(post.terminal, os.getpgrp())
        _tell(child, signal.SIGCONT)

    def hang_up(_signal: int, _frame: FrameType | None) -> None:
        # The other end of the terminal is gone, and that was us.
        _tell(child, signal.SIGHUP)
        _tell(child, signal.SIGCONT)

    quiet = {signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
    signals.handle(quiet, signals.noted)
    signals.handle({signal.SIGHUP}, hang_up)
    signal.signal(FRONT, front)
    signal.signal(BACK, back)


def _await(post: Post, child: int) -> int:
    """Return the child's status at its end; report each stop before."""
    while True:
        _, status = os.waitpid(child, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            break
        _report(post, STOPPED, os.WSTOPSIG(status))
    with suppress(OSError):
        # Whoever the child leaves behind shall not be hung up on when the session ends.
        _give(post.terminal, os.getpgrp())
    return status


def _come_forward(post: Post) -> None:
    """Take the terminal's foreground, if it is to be had; in the child, before it becomes its program."""
    if post.front:
        _give(post.terminal, os.getpid())


def _give(terminal: int, group: int) -> None:
    """Put a group in the foreground of a terminal, also from its background."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        os.tcsetpgrp(terminal, group)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _tell(child: list[int], number: int) -> None:
    with suppress(OSError, IndexError):
        os.killpg(child[0], number)


def _report(post: Post, kind: int, number: int, text: bytes = b"") -> None:
    with suppress(OSError):
        os.write(post.report, REPORT.pack(kind, number, len(text)) + text)
        os.kill(os.getppid(), signal.SIGCHLD)
