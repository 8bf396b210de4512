"""How far each transcript was read on this machine: local knowledge, beside the history and no part of it.

Every project has a row for every transcript of the machine, so a row is small: most that it says stands in its own path
or in what all rows say, and deflate is given both beforehand.
"""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from pathlib import Path
from typing import Any

from bede.errors import Corrupt
from bede.quick import dataclass

#: A state unpacks to at most so many bytes; what claims more was not written by us. It holds the turn that is open.
_MOST = 1 << 30
#: What rows say again and again. One that was written with other words is read anew, as any that cannot be read.
_WORDS = (
    b'"kept":{"to":0,"mtime":"waits":{"partial":true,"stamp":"stamps":{"turns":{"open":{"key":"by":"assistant","line":'
    b'"parts":[{"text":"at":"until":"precision":"ms","origin":"model":"waiting":[]}},"latest":{"recent":{"requests":{},'
    b'"queue":[]},"sessions":{{"source":{"agent":"","now":""},"offset":,"line":,"part":0,"head":"","tail":""'
    b'[{"size":,"mtime":17,"ctime":17,"file":[],"places":{"":false},"holder":false,"folders":{"/home/":false,"/Users/'
    b'"is_placed":true},{}]'
)


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
    name = os.fsencode(path)
    row = connection.execute(query, (name,)).fetchone()
    if row is None:
        return None
    agent, mark, packed = row
    try:
        told = json.loads(zlib.decompressobj(zdict=_WORDS + name).decompress(packed, _MOST))
        mark, state = (json.loads(mark), told) if mark else told
        return Cursor(agent, dict(mark), dict(state))
    except (TypeError, ValueError, zlib.error) as error:
        raise Corrupt(f"the cursor of {path} cannot be read", hint="run 'bede ingest --again'") from error


def put(connection: sqlite3.Connection, path: Path, cursor: Cursor) -> None:
    """Remember how far a file was read, inside the caller's transaction."""
    name = os.fsencode(path)
    packing = zlib.compressobj(1, zdict=_WORDS + name)
    told = json.dumps((cursor.mark, cursor.state), separators=(",", ":")).encode()
    packed = packing.compress(told) + packing.flush()
    connection.execute("INSERT OR REPLACE INTO cursor VALUES (?, ?, '', ?)", (name, cursor.agent, packed))


def clear(connection: sqlite3.Connection) -> None:
    """Forget how far everything was read, so that all of it is read again."""
    connection.execute("DELETE FROM cursor")
