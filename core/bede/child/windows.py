"""A child on Windows: a console is inherited, everything else goes through pipes.

There is no pseudo-terminal here, so what a child writes to a console is not kept. Ctrl-C reaches the child by
itself, and never ends us before it. A batch file is run by the system's command interpreter, which would take some
characters in its arguments for commands: such arguments are refused.
"""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from time import monotonic

from bede.child.order import Order, Ran
from bede.child.relay import Relay, channels, let_go
from bede.child.signals import noted
from bede.child.start import FAULTS, NOT_EXECUTABLE, NOT_FOUND, explain, start
from bede.child.tail import Tail

_BATCH = (".bat", ".cmd")
_COMMANDS = set('"%&|<>^!\r\n')
#: How long the rest of the output may stay away after the child's end, while somebody else holds the pipe.
_SILENCE = 0.1


def run(order: Order, tail: Tail) -> Ran:
    """Run a command to its end."""
    program = find(order)
    if not program:
        return _failed(NOT_FOUND, f"command not found: {order.command[0]}")
    if program.lower().endswith(_BATCH) and _COMMANDS & set("".join(order.command[1:])):
        return _failed(NOT_EXECUTABLE, f"cannot run {program}: its arguments hold what a batch file would obey")
    sinks = [fd for fd in (1, 2) if not os.isatty(fd)]
    ends, relays = channels(sinks, tail)
    handlers = {number: signal.signal(number, noted) for number in _interrupts()}
    try:
        begun = monotonic()
        code = _attend(replace(order, command=(program, *order.command[1:])), ends, relays)
        ended = monotonic()
        for relay in relays:
            _finish(relay)
    except FAULTS as error:
        return _failed(*explain(error, order))
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    text, cut = tail.text()
    failure = next((relay.failure for relay in relays if relay.failure), "")
    return Ran(code, 0, ended - begun, text, cut or len(sinks) < 2, failure)


def _attend(order: Order, ends: dict[int, int], relays: list[Relay]) -> int:
    """Start the child and return its exit code."""
    try:
        child = start(order, (None, ends.get(1), ends.get(2)), None)
    finally:
        let_go(ends)
    for relay in relays:
        relay.start()
    return child.wait()


def _failed(status: int, text: str) -> Ran:
    return Ran(status, 0, 0.0, "", False, text)


def _interrupts() -> list[int]:
    names = ("SIGINT", "SIGBREAK")
    return [getattr(signal, name) for name in names if hasattr(signal, name)]


def find(order: Order) -> str:
    """Return the file that a name means, with its ending; '' if there is none.

    The working directory is no part of the search, unless the name says so: it may be somebody else's.
    """
    name = order.command[0]
    upper = {key.upper(): value for key, value in order.environment.items()}
    endings = ["", *(ending for ending in upper.get("PATHEXT", ".COM;.EXE;.BAT;.CMD").split(os.pathsep) if ending)]
    if not Path(name).suffix:
        endings = [*endings[1:], ""]
    named = bool(set("/\\:") & set(name))
    folders = [order.directory] if named else [Path(part) for part in upper.get("PATH", "").split(os.pathsep) if part]
    paths = (folder / (name + ending) for folder in folders if named or folder.is_absolute() for ending in endings)
    return next((str(path) for path in paths if name and path.is_file()), "")


def _finish(relay: Relay) -> None:
    """Let the rest of the output pass, for as long as there is some."""
    passed = -1
    while not relay.is_done and (relay.passed > passed or not relay.is_reading):
        passed = relay.passed
        relay.join(_SILENCE)
