"""A command that runs as if nobody stood between it and its caller, while the end of its output is kept.

Promises the truth: the status as a shell shows it, the signal that ended it, how long it took. The child has our
streams, terminal, signals, descriptors and environment, and no shell ever sees its words; it ends before we do.
Never writes anything of its own to a stream. How it is done, and what it cannot do: docs/records/auto.md.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bede.child.order import Order, Ran
from bede.child.start import WRAPPER
from bede.child.tail import Tail

__all__ = ["Ran", "run", "undisturbed"]


def run(
    command: Sequence[str], *, environment: Mapping[str, str], directory: Path, keep: int = 16_384
) -> Ran:
    """Run a command to its end and return what became of it; at most `keep` bytes of its output are kept.

    What was written to our own streams before must have been flushed. Signals that come meanwhile reach the child,
    and none of them ends us. Never raises for anything that the command is or does. For the main thread.
    """
    if not command:
        return Ran(WRAPPER, 0, 0.0, "", False, "there is no command to run")
    order = Order(tuple(command), environment, directory)
    if os.name == "nt":
        from bede.child import windows

        return windows.run(order, Tail(keep))
    from bede.child import posix

    return posix.run(order, Tail(keep))


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let a Ctrl-C wait for as long as a run that has ended is being recorded. For the main thread."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
