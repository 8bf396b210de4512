"""Refs: the only thing in the log that moves.

A ref names one event. Every move is part of an operation, so this room writes only what the journal is told in the
same transaction.
"""

from __future__ import annotations

import sqlite3

from bede.errors import NotFound
from bede.records import Place

MAIN = "main"
#: Where leases and what came of them are told; it belongs to no branch of thought.
COORDINATION = "coordination"
#: Where the refs of other machines are kept, each below the name of the one it came from; no branches of ours.
TRACKED = "bundles/"


def tip(connection: sqlite3.Connection, name: str) -> int:
    """Return the arrival number of the event a ref names.

    Raises:
        NotFound: there is no such ref.
    """
    row = connection.execute("SELECT seq FROM ref WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise NotFound(f"no branch {name!r}", hint="'bede branches' lists them, 'bede fork' makes one")
    return int(row[0])


def find(connection: sqlite3.Connection, name: str) -> int:
    """Return the arrival number of the event a ref names, 0 when there is no such ref."""
    row = connection.execute("SELECT seq FROM ref WHERE name = ?", (name,)).fetchone()
    return int(row[0]) if row else 0


def place(connection: sqlite3.Connection, name: str) -> Place | None:
    """Return where the event lies that a ref names, None when there is no such ref."""
    query = "SELECT e.seq, e.id, e.line, e.position FROM ref r JOIN event e ON e.seq = r.seq WHERE r.name = ?"
    row = connection.execute(query, (name,)).fetchone()
    return Place(row[0], row[1].hex(), row[2], row[3]) if row else None


def all_refs(connection: sqlite3.Connection) -> dict[str, int]:
    """Return every ref with the arrival number of its event, by name."""
    return dict(connection.execute("SELECT name, seq FROM ref ORDER BY name"))


def is_branch(name: str) -> bool:
    """Tell whether a ref is a branch of thought, and no record of what was observed."""
    return name != COORDINATION and not name.startswith(("sessions/", TRACKED))


def branches(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the refs that are branches of thought, by name.

    What agents' sessions left is none, nor is what came from other machines.
    """
    query = (
        "SELECT name, seq FROM ref WHERE name NOT BETWEEN 'sessions/' AND 'sessions0'"
        " AND name NOT BETWEEN 'bundles/' AND 'bundles0' AND name <> ? ORDER BY name"
    )
    return dict(connection.execute(query, (COORDINATION,)))


def put(connection: sqlite3.Connection, name: str, seq: int) -> None:
    """Let a ref name another event, making it where it is new; 0 deletes it, and who was on it is on `main` again."""
    if seq:
        connection.execute("INSERT OR REPLACE INTO ref VALUES (?, ?)", (name, seq))
    else:
        connection.execute("DELETE FROM ref WHERE name = ?", (name,))
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
