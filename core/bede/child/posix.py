"""A child on a POSIX system: signals are waited for, and threads carry the output.

Holds the loop that outlives the child, and the plain way to run one: in our own group, so that the terminal's
signals reach it by themselves, with pipes for its outputs. Promises to return once the child has
ended and its output was passed on, whoever else still holds the pipes.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from time import monotonic
from typing import Protocol

from bede.child import start
from bede.child.order import Order, Ran, Refused
from bede.child.relay import Relay, channels, let_go, pipe
from bede.child.signals import PASSED, Signals, wake
from bede.child.tail import Tail

#: Seconds that the rest of the output may take once somebody wants us gone.
_PATIENCE = 0.25


class Way(Protocol):
    """How a child is run: through pipes, or on a terminal of its own."""

    others: tuple[int, ...]
    relays: list[Relay]
    is_whole: bool

    def start(self, signals: Signals) -> None:
        """Start the child."""

    def reap(self) -> int | None:
        """Return the child's exit code once it has ended: its own, or a signal below zero."""

    def forward(self, number: int, from_terminal: bool) -> None:
        """Let the child know of a signal."""

    def close(self) -> None:
        """Give back everything."""


def run(order: Order, tail: Tail) -> Ran:
    """Run a command to its end."""
    _occupy()
    way = _way(order, tail)
    begun = ended = monotonic()
    with Signals(way.others) as signals:
        try:
            way.start(signals)
            code, ended = _attend(way, signals)
            status, failure = 128 - code if code < 0 else code, ""
        except Refused as refused:
            code, status, failure = 0, refused.status, refused.text
            ended = monotonic() if refused.ran else begun
            for relay in way.relays if refused.ran else ():
                relay.end()
                relay.join(_PATIENCE)
        finally:
            way.close()
    text, cut = tail.text()
    failure = failure or next((relay.failure for relay in way.relays if relay.failure), "")
    return Ran(status, max(-code, 0), ended - begun, text, cut or not way.is_whole, failure)


def _occupy() -> None:
    """Put the null device where a standard stream is closed, lest a pipe of ours is taken for it."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def _way(order: Order, tail: Tail) -> Way:
    """Return how to run a command: in a session of its own where its output goes to our terminal, else in ours."""
    if not (os.isatty(1) or os.isatty(2)):
        return Plain(order, tail, pipe)
    from bede.child import pseudo

    return pseudo.session(order, tail) or Plain(order, tail, pseudo.channel)


def _attend(way: Way, signals: Signals) -> tuple[int, float]:
    """Return the child's exit code and when it ended; until then, pass signals on."""
    code, ended = None, 0.0
    while code is None or not all(relay.is_done for relay in way.relays):
        number, from_terminal = signals.wait()
        if code is None and number != signal.SIGCHLD:
            way.forward(number, from_terminal)
        elif code is None:
            code, ended = way.reap(), monotonic()
            for relay in way.relays if code is not None else ():
                relay.end()
        elif number in PASSED:
            # A reader takes his time with the last of the output, and we are asked to go.
            for relay in way.relays:
                relay.join(_PATIENCE)
            break
    assert code is not None
    return code, ended


class Plain:
    """A child in our own session and group; its outputs go through what `make` makes."""

    others: tuple[int, ...] = ()

    def __init__(self, order: Order, tail: Tail, make: Callable[[int], tuple[int, int]]) -> None:
        self._order = order
        self._ends, self.relays = channels((1, 2), tail, wake, make)
        self.is_whole = len(self._ends) == 2

    def start(self, signals: Signals) -> None:
        """Start the child.

        Raises:
            Refused: it cannot be started.
        """
        streams = (None, self._ends.get(1), self._ends.get(2))
        try:
            self._child = start.start(self._order, streams, signals.unblock)
        except start.FAULTS as error:
            raise Refused(*start.explain(error, self._order)) from error
        finally:
            let_go(self._ends)
        for relay in self.relays:
            relay.start()

    def reap(self) -> int | None:
        """Return the child's exit code once it has ended."""
        return self._child.poll()

    def forward(self, number: int, from_terminal: bool) -> None:
        """Let the child know of a signal, unless the terminal told it too: it does, our whole group."""
        if not from_terminal or (number == signal.SIGHUP and os.getsid(0) == os.getpid()):
            self._child.send_signal(number)

    def close(self) -> None:
        """Give back the pipes."""
        for relay in self.relays:
            relay.close()
