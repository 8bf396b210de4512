"""Refs: the only thing in the log that moves.

A ref names one event. Every move is part of an operation, and the journal tells of it; so refs are written down by the
batch, and where they are is what was written down and what the journal has told since.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from bede.errors import NotFound
from bede.records import Place
from bede.repository.connection import Connection
from bede.repository.journal import parse

MAIN = "main"
#: Where leases and what came of them are told; it belongs to no branch of thought.
COORDINATION = "coordination"
#: Where the refs of other machines are kept, each below the name of the one it came from; no branches of ours.
TRACKED = "bundles/"
_LATE = "SELECT moves FROM operation WHERE number > ? ORDER BY number"


def tip(connection: sqlite3.Connection, name: str) -> int:
    """Return the arrival number of the event a ref names.

    Raises:
        NotFound: there is no such ref.
    """
    seq = find(connection, name)
    if not seq:
        raise NotFound(f"no branch {name!r}", hint="'bede branches' lists them, 'bede fork' makes one")
    return seq


def find(connection: sqlite3.Connection, name: str) -> int:
    """Return the arrival number of the event a ref names, 0 when there is no such ref."""
    if isinstance(connection, Connection) and name in connection.moved:
        return connection.moved[name]
    number = written(connection)
    for (moves,) in connection.execute(_LATE + " DESC", (number,)):  # Most often the newest has moved it.
        if f"\n{name} " in f"\n{moves}":
            return next(move.new for move in parse(moves) if move.ref == name)
    row = connection.execute("SELECT seq FROM ref WHERE name = ?", (name,)).fetchone() if number else None
    return int(row[0]) if row else 0


def place(connection: sqlite3.Connection, name: str) -> Place | None:
    """Return where the event lies that a ref names, None when there is no such ref."""
    query = "SELECT seq, id, line, position FROM event WHERE seq = ?"
    row = connection.execute(query, (find(connection, name),)).fetchone()
    return Place(row[0], row[1].hex(), row[2], row[3]) if row else None


def all_refs(connection: sqlite3.Connection) -> dict[str, int]:
    """Return every ref with the arrival number of its event, by name."""
    return _after(connection, connection.execute("SELECT name, seq FROM ref"))


def _after(connection: sqlite3.Connection, stored: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return what became of refs, by name, since they were written down."""
    number = written(connection)
    found = {**(dict(stored) if number else {}), **_moved(connection, number)}
    return {name: seq for name, seq in sorted(found.items()) if seq}


def _moved(connection: sqlite3.Connection, number: int) -> dict[str, int]:
    """Return the refs that moved after an operation, 0 for one that was deleted.

    The journal tells of it, and the connection of what the running transaction has not told the journal yet.
    """
    late = connection.execute(_LATE, (number,))
    found = {move.ref: move.new for (moves,) in late for move in parse(moves)}
    return {**found, **connection.moved} if isinstance(connection, Connection) else found


def written(connection: sqlite3.Connection) -> int:
    """Return after which operation the refs were written down; 0 where nothing says so, and the journal tells all."""
    try:
        row = connection.execute("SELECT number FROM indexed").fetchone()
    except sqlite3.OperationalError as error:
        if "no such column" not in str(error):
            raise
        # A file of the formats before the third, open for reading only: there each move was written down.
        row = connection.execute("SELECT max(number) FROM operation").fetchone()
    return int(row[0] or 0) if row else 0


def settle(connection: sqlite3.Connection) -> None:
    """Write down where the refs are by now, inside the caller's transaction."""
    number = written(connection)
    if not number:
        connection.execute("DELETE FROM ref")
    for name, seq in _moved(connection, number).items():
        if seq:
            connection.execute("INSERT OR REPLACE INTO ref VALUES (?, ?)", (name, seq))
        else:
            connection.execute("DELETE FROM ref WHERE name = ?", (name,))
    connection.execute("UPDATE indexed SET number = (SELECT coalesce(max(number), 0) FROM operation)")


def is_branch(name: str) -> bool:
    """Tell whether a ref is a branch of thought, and no record of what was observed."""
    return name != COORDINATION and not name.startswith(("sessions/", TRACKED))


def branches(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the refs that are branches of thought, by name.

    What agents' sessions left is none, nor is what came from other machines.
    """
    query = (
        "SELECT name, seq FROM ref WHERE name NOT BETWEEN 'sessions/' AND 'sessions0'"
        " AND name NOT BETWEEN 'bundles/' AND 'bundles0' AND name <> ?"
    )
    found = _after(connection, connection.execute(query, (COORDINATION,)))
    return {name: seq for name, seq in found.items() if is_branch(name)}


def put(connection: Connection, name: str, seq: int) -> None:
    """Let a ref name another event, making it where it is new; 0 deletes it, and who was on it is on `main` again.

    The operation that the transaction ends as is what tells of it; see `settle`.
    """
    connection.moved[name] = seq
    if not seq:
        connection.execute("DELETE FROM worktree WHERE branch = ?", (name,))


def current(connection: sqlite3.Connection, worktree: str) -> str:
    """Return the branch a worktree is on; `main` until it was told another."""
    row = connection.execute("SELECT branch FROM worktree WHERE name = ?", (worktree,)).fetchone()
    return str(row[0]) if row else MAIN


def is_checked_out(connection: sqlite3.Connection, branch: str) -> bool:
    """Tell whether any worktree is on a branch."""
    return connection.execute("SELECT 1 FROM worktree WHERE branch = ? LIMIT 1", (branch,)).fetchone() is not None


def check_out(connection: sqlite3.Connection, worktree: str, branch: str) -> None:
    """Remember which branch a worktree is on."""
    connection.execute("INSERT OR REPLACE INTO worktree VALUES (?, ?)", (worktree, branch))
