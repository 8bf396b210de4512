"""What an index of words says it holds."""

from __future__ import annotations

import sqlite3

from bede.errors import Corrupt


def state(connection: sqlite3.Connection, name: str) -> tuple[int, int, int, int, int]:
    """Return what is indexed: rows, their characters, the oldest and newest, and the last event that was looked at.

    Raises:
        Corrupt: the one row that says so is gone.
    """
    row = connection.execute(f"SELECT rows, chars, oldest, newest, upto FROM {name}_state").fetchone()
    if row is None:
        raise Corrupt(f"the index {name!r} does not say what it holds", hint="run 'bede reindex'")
    rows, chars, oldest, newest, upto = row
    return rows, chars, oldest, newest, upto
