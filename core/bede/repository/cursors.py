"""How far each transcript was read on this machine: local knowledge, beside the history and no part of it."""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bede.errors import Corrupt
from bede.quick import dataclass

#: A state unpacks to at most so many bytes; what claims more was not written by us.
_MOST = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Cursor:
    """Whose transcript a file is, what it looked like when it was read, and what it takes to go on."""

    agent: str
    mark: dict[str, Any]
    state: dict[str, Any]


def find(connection: sqlite3.Connection, path: Path) -> Cursor | None:
    """Return a file's cursor, None where it was never read.

    Raises:
        Corrupt: it is not what was written.
    """
    query = "SELECT agent, mark, state FROM cursor WHERE path = ?"
    row = connection.execute(query, (os.fsencode(path),)).fetchone()
    if row is None:
        return None
    try:
        unpacked = zlib.decompressobj()
        state = json.loads(unpacked.decompress(row[2], _MOST))
        return Cursor(row[0], json.loads(row[1]), state)
    except (ValueError, zlib.error) as error:
        raise Corrupt(f"the cursor of {path} cannot be read", hint="run 'bede ingest --again'") from error


def marks(connection: sqlite3.Connection) -> Iterator[tuple[Path, str, dict[str, Any]]]:
    """Yield path, agent and mark of every file that was read."""
    for path, agent, mark in connection.execute("SELECT path, agent, mark FROM cursor ORDER BY path"):
        try:
            yield Path(os.fsdecode(path)), agent, json.loads(mark)
        except ValueError:
            continue


def put(connection: sqlite3.Connection, path: Path, cursor: Cursor) -> None:
    """Remember how far a file was read, inside the caller's transaction."""
    state = zlib.compress(json.dumps(cursor.state, separators=(",", ":")).encode(), 1)
    mark = json.dumps(cursor.mark, separators=(",", ":"))
    connection.execute(
        "INSERT OR REPLACE INTO cursor VALUES (?, ?, ?, ?)", (os.fsencode(path), cursor.agent, mark, state)
    )


def clear(connection: sqlite3.Connection) -> None:
    """Forget how far everything was read, so that all of it is read again."""
    connection.execute("DELETE FROM cursor")
