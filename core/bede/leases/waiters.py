"""The queue for what is held: who came first goes first, as long as they are alive.

A waiter's ticket only rises. While it waits it shows that it lives; one that was killed or stopped is passed over after
a few seconds, and does not lose its ticket if it comes back. Nobody takes what an earlier living waiter wants.
"""

from __future__ import annotations

import json

from bede.leases import scopes
from bede.leases.clock import Now
from bede.leases.holding import Holder

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

#: How long a waiter counts as alive after its last sign, and how often it gives one, in microseconds.
ALIVE, SIGN = 3_000_000, 1_000_000
_COLUMNS = "ticket, agent, session, wanted, purpose, since, boot, alive, granted"


class Waiter:
    """One place in the queue; `granted` is the token that was handed over to it, 0 while it waits."""

    __slots__ = ("agent", "alive", "boot", "granted", "purpose", "session", "since", "ticket", "wanted")

    def __init__(self, row: tuple[int, str, str, str, str, int, str, int, int]) -> None:
        self.ticket, self.agent, self.session, wanted, self.purpose, self.since, self.boot, self.alive = row[:8]
        self.wanted: list[tuple[str, str]] = [(resource, scope) for resource, scope in json.loads(wanted)]
        self.granted = row[8]

    def lives(self, now: Now) -> bool:
        """Tell whether it gave a sign lately; nobody waits across a restart."""
        return self.boot == now.boot and 0 < self.alive - now.ticks <= ALIVE

    def wants(self, resources: Iterable[tuple[str, str]]) -> bool:
        """Tell whether it wants something that has a file in common with these."""
        return any(scopes.overlap(*own, *other) for other in resources for own in self.wanted)


def join(
    connection: sqlite3.Connection, holder: Holder, wanted: Sequence[tuple[str, str]], purpose: str, now: Now
) -> int:
    """Take the last place in the queue and return its ticket."""
    connection.execute("UPDATE lease_counter SET ticket = ticket + 1")
    (ticket,) = connection.execute("SELECT ticket FROM lease_counter").fetchone()
    stay(connection, int(ticket), holder, wanted, purpose, now)
    return int(ticket)


def stay(
    connection: sqlite3.Connection,
    ticket: int,
    holder: Holder,
    wanted: Sequence[tuple[str, str]],
    purpose: str,
    now: Now,
) -> None:
    """Give a sign of life; who was passed over meanwhile has its old place again."""
    connection.execute(
        f"INSERT INTO lease_waiter ({_COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0)"
        " ON CONFLICT (ticket) DO UPDATE SET alive = ?8, boot = ?7",
        (
            ticket,
            holder.agent,
            holder.session,
            json.dumps(wanted),
            purpose,
            now.wall,
            now.boot,
            now.ticks + ALIVE,
        ),
    )


def leave(connection: sqlite3.Connection, ticket: int) -> None:
    """Give up a place."""
    connection.execute("DELETE FROM lease_waiter WHERE ticket = ?", (ticket,))


def find(connection: sqlite3.Connection, ticket: int) -> Waiter | None:
    """Return the waiter of a ticket, None where it was passed over."""
    row = connection.execute(f"SELECT {_COLUMNS} FROM lease_waiter WHERE ticket = ?", (ticket,)).fetchone()
    return Waiter(row) if row else None


def queue(connection: sqlite3.Connection, now: Now) -> list[Waiter]:
    """Return the living waiters, the first first."""
    rows = connection.execute(f"SELECT {_COLUMNS} FROM lease_waiter ORDER BY ticket")
    return [waiter for waiter in map(Waiter, rows) if waiter.lives(now)]


def ahead(
    connection: sqlite3.Connection, wanted: Sequence[tuple[str, str]], holder: Holder, ticket: int, now: Now
) -> list[Waiter]:
    """Return the living waiters that come before a ticket, or before a newcomer, and want one of these."""
    return [
        waiter
        for waiter in queue(connection, now)
        if (not ticket or waiter.ticket < ticket)
        and not (holder.session and (waiter.agent, waiter.session) == (holder.agent, holder.session))
        and waiter.wants(wanted)
    ]


def sweep(connection: sqlite3.Connection, now: Now) -> None:
    """Take away the places of waiters that gave no sign for long."""
    connection.execute(
        "DELETE FROM lease_waiter WHERE boot <> ?1 OR alive <= ?2 OR alive > ?3",
        (now.boot, now.ticks, now.ticks + ALIVE),
    )


def grant(connection: sqlite3.Connection, ticket: int, token: int) -> None:
    """Let a waiter find, when it looks next, that it has what it waited for."""
    connection.execute("UPDATE lease_waiter SET granted = ? WHERE ticket = ?", (token, ticket))
