"""Signals to this process while a child runs: held back, and handed over one by one.

Promises that none of them ends us before the child, that none is lost or handled twice, and that everything is as
before afterwards. A signal that was ignored when we were started stays ignored, for us and for the child
(`nohup`). Knows nothing of who should hear of them.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any

#: What is passed on to a child, where the system knows it.
PASSED = frozenset(
    getattr(signal, name)
    for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)


def noted(_signal: int, _frame: FrameType | None) -> None:
    """Do nothing: a signal that has a handler is neither ignored nor fatal."""


class Signals:
    """The signals of this process, blocked in it and in every thread that is started inside the `with`.

    `before` is the mask that a child must be given.
    """

    def __init__(self, others: Iterable[int] = ()) -> None:
        self._wished = {*PASSED, signal.SIGCHLD, *others}
        self._held: set[int] = set()
        self._handlers: dict[int, Any] = {}
        self.before: set[int] = set()

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            # Some systems drop what is ignored by default, even while it is blocked; and an ignored SIGCHLD,
            # inherited from whoever started us, would lose the child's status.
            self._handlers = {
                number: signal.signal(number, noted)
                for number in self._wished & {signal.SIGCHLD, signal.SIGWINCH}
            }
        self._held = {number for number in self._wished if signal.getsignal(number) is not signal.SIG_IGN}
        self.before = set(signal.pthread_sigmask(signal.SIG_BLOCK, self._held))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What came for the child after its end is no concern of ours either.
        while late := signal.sigpending() & self._held:
            signal.sigwait(late)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self.unblock()

    def unblock(self) -> None:
        """Let signals through as before: for a child, before it becomes its program."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self.before)

    def wait(self) -> tuple[int, bool]:
        """Wait for a signal; return it, and whether the terminal sent it, to all of the foreground group."""
        if hasattr(signal, "sigwaitinfo"):
            info = signal.sigwaitinfo(self._held)
            return info.si_signo, info.si_code > 0
        number = signal.sigwait(self._held)
        return number, number in (signal.SIGINT, signal.SIGQUIT) and _in_foreground()

    def stop(self, number: int) -> bool:
        """Stop this process and its group, as the terminal would have; return once it was woken.

        Where no shell could wake the group again, the system ignores this; then False is returned at once.
        """
        os.killpg(os.getpgrp(), number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        signal.pthread_sigmask(signal.SIG_BLOCK, {number})
        woken = signal.SIGCONT in signal.sigpending()
        if woken:
            signal.sigwait({signal.SIGCONT})
        return woken


def wake() -> None:
    """Wake the thread that waits for signals in this process."""
    os.kill(os.getpid(), signal.SIGCHLD)


def handle(numbers: Iterable[int], handler: Callable[[int, FrameType | None], None]) -> None:
    """Install a handler for signals, except for those that are ignored."""
    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _in_foreground() -> bool:
    with suppress(OSError):
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
        try:
            return os.tcgetpgrp(terminal) == os.getpgrp()
        finally:
            os.close(terminal)
    return False
