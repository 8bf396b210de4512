"""A clock in the hand and an empty set of lease tables: what the tests of leases stand on."""

from __future__ import annotations

import sqlite3

from bede.leases.clock import Now
from bede.repository import schema

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


class Hand:
    """Both clocks, moved by hand: time passes on both, a jump is the wall's alone, a restart begins the other anew."""

    def __init__(self) -> None:
        self.wall = 1_767_323_045 * SECOND
        self.ticks = 5_000 * SECOND
        self.number = 1

    def __call__(self) -> Now:
        """Return this moment."""
        return Now(self.wall, self.ticks, f"boot-{self.number}")

    def tick(self, seconds: float) -> None:
        """Let time pass."""
        self.wall += round(seconds * SECOND)
        self.ticks += round(seconds * SECOND)

    def jump(self, seconds: float) -> None:
        """Set the wall clock."""
        self.wall += round(seconds * SECOND)

    def restart(self, seconds: float = 30) -> None:
        """Start the machine again."""
        self.wall += round(seconds * SECOND)
        self.ticks = 10 * SECOND
        self.number += 1


def tables(path: str = ":memory:", factory: type[sqlite3.Connection] = sqlite3.Connection) -> sqlite3.Connection:
    """Return a connection to a file with the tables of leases and nothing else."""
    connection = sqlite3.connect(path, isolation_level=None, factory=factory)
    schema._lay(connection, schema.LEASES)
    return connection
