"""What is asked for, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Order:
    """What to run, and where."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    directory: Path


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of a command.

    `exit_status` is what a shell shows: the command's own, 128 and the signal that ended it, 127 not found,
    126 not executable, 125 our own fault. `output` is the end of what it wrote, as text; `truncated` says that there
    was more, or that some of it was not to be had. `failure` is for the person: why nothing ran (then `seconds` is
    0), or what went wrong on the way.
    """

    exit_status: int
    signal: int
    seconds: float
    output: str
    truncated: bool
    failure: str


class Refused(Exception):
    """The command did not start, or it `ran` and nobody knows how it ended; the status to show, and why."""

    def __init__(self, status: int, text: str, *, ran: bool = False) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.ran = ran
