"""A child on a POSIX system: signals are waited for, and threads carry the output.

Holds the loop that outlives the child, and the plain way to run one: in our own group, so that the terminal's
signals reach it by themselves, with pipes for the outputs that are no terminal. Promises to return once the child has
ended and its output was passed on, whoever else still holds the pipes.
"""

from __future__ import annotations

import os
import signal
from time import monotonic
from typing import Protocol

from bede.child import start
from bede.child.order import Order, Ran, Refused
from bede.child.relay import Relay, channels, let_go
from bede.child.signals import PASSED, Signals, wake
from bede.child.tail import Tail


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
    with Signals(way.others) as signals:
        try:
            begun = monotonic()
            way.start(signals)
            code, ended = _attend(way, signals)
        except Refused as refused:
            return Ran(refused.status, 0, 0.0, *tail.text(), refused.text)
        finally:
            way.close()
    text, cut = tail.text()
    failure = next((relay.failure for relay in way.relays if relay.failure), "")
    return Ran(
        exit_status=128 - code if code < 0 else code,
        signal=max(-code, 0),
        seconds=ended - begun,
        output=text,
        truncated=cut or not way.is_whole,
        failure=failure,
    )


def _occupy() -> None:
    """Put the null device where a standard stream is closed, lest a pipe of ours is taken for it."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def _way(order: Order, tail: Tail) -> Way:
    """Return how to run a command: on a terminal of its own where its output goes to one, else through pipes."""
    if os.isatty(1) or os.isatty(2):
        from bede.child import pseudo

        session = pseudo.session(order, tail)
        if session is not None:
            return session
    return Piped(order, tail)


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
            break  # a reader takes his time with the last of the output, and we are asked to go
    assert code is not None
    return code, ended


class Piped:
    """A child whose outputs go through pipes; one that is a terminal all the same is inherited, and not kept."""

    others: tuple[int, ...] = ()

    def __init__(self, order: Order, tail: Tail) -> None:
        self._order = order
        sinks = [fd for fd in (1, 2) if not os.isatty(fd)]
        self.is_whole = len(sinks) == 2
        self._ends, self.relays = channels(sinks, tail, wake)

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
