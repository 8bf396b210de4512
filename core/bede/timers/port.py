"""What a timer is: the job it runs, the steps it plans, and what it finds standing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Job:
    """A command to run every so many minutes, with the variables it is given; nothing else is inherited."""

    every: int
    command: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do: write a file, delete one, or run a program with `data` as its input.

    `folders` is how many empty folders to take away with a file. A program that `may_fail` is run for good
    order only; one with `until` has done its work once that other command fails.
    """

    path: Path | None = None
    data: bytes | None = None
    mode: int = 0o600
    folders: int = 0
    command: tuple[str, ...] = ()
    may_fail: bool = False
    until: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """A schedule of ours that stands here.

    `every` is 0 where somebody else set it; `theirs` are the files that were changed by hand. Times are
    microseconds since 1970, 0 where unknown.
    """

    every: int
    command: tuple[str, ...]
    active: bool
    theirs: tuple[str, ...] = ()
    since: int = 0
    next_at: int = 0


class Timer(Protocol):
    """One way to be woken. Looking changes nothing, and planning neither."""

    name: str

    def missing(self) -> str:
        """Return why it cannot be used here; nothing where it can."""

    def found(self, now: int) -> Found | None:
        """Return what stands of ours, at a time in microseconds; None where nothing does."""

    def put(self, job: Job) -> list[Step]:
        """Plan what makes this job the one that stands; no steps where it already is.

        Raises:
            Conflict: a file of that name is somebody else's.
            UsageError: the job cannot be said in this notation.
        """

    def take(self) -> list[Step]:
        """Plan what gives back the state before: all that is ours goes, and nothing else."""
