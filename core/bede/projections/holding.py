"""What an index of words says it holds, what it does not know, and how it is let go, also where it is damaged.

All of it is derived: whatever is wrong here, `bede reindex` mends it, and nothing here stands in its way.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable

from bede.errors import Corrupt
from bede.projections import words

#: The least that FTS5 wants to find before it takes a table for its own: the newest layout, and no rows.
_LEAST = (
    "CREATE TABLE IF NOT EXISTS {table}_data (id INTEGER PRIMARY KEY, block BLOB)",
    "CREATE TABLE IF NOT EXISTS {table}_config (k PRIMARY KEY, v) WITHOUT ROWID",
    "INSERT OR REPLACE INTO {table}_data VALUES (1, x''), (10, x'00000000000000')",
    "INSERT OR REPLACE INTO {table}_config VALUES ('version', 4)",
)


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


def unknown(connection: sqlite3.Connection, used: Iterable[str], name: str) -> str:
    """Return those words among some tokens that the vocabulary does not know, in order, as a list in JSON."""
    found = sorted([token for token in used if (token.isascii() and token.isalnum()) or words.is_word(token)])
    query = f"SELECT json_group_array(value) FROM json_each(?) WHERE value NOT IN (SELECT term FROM {name}_term)"
    return str(connection.execute(query, (json.dumps(found),)).fetchone()[0])


def drop(connection: sqlite3.Connection, table: str) -> None:
    """Remove a table of FTS5. One that is damaged, which FTS5 does not even let go, is first made an empty one."""
    try:
        connection.execute(f"DROP TABLE IF EXISTS {table}")
    except sqlite3.DatabaseError:
        for statement in _LEAST:
            connection.execute(statement.format(table=table))
        connection.execute(f"DROP TABLE IF EXISTS {table}")
