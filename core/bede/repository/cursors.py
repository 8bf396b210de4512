"""How far each transcript was read on this machine: local knowledge, beside the history and no part of it.

Every project has a row for every transcript of the machine, so a row is small: most that it says stands in its own path
or in what all rows say, and deflate is given both beforehand. A path that holds a secret is not written down: a name
stands for it that is made with the project's own secret, as the salts of events are.
"""

from __future__ import annotations

import hmac
import json
import os
import sqlite3
import zlib
from functools import lru_cache
from pathlib import Path
from typing import Any

from bede.errors import Corrupt
from bede.quick import dataclass
from bede.redact import redact

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
    if row is None and (other := _name(connection, path)) != name:  # As it is never for nearly all.
        name = other
        row = connection.execute(query, (name,)).fetchone()
    if row is None:
        return None
    try:
        return _unpacked(name, *row)
    except (TypeError, ValueError, zlib.error) as error:
        raise Corrupt(f"the cursor of {path} cannot be read", hint="run 'bede ingest --again'") from error


def _unpacked(name: bytes, agent: str, mark: str, packed: bytes) -> Cursor:
    told = json.loads(zlib.decompressobj(zdict=_WORDS + name).decompress(packed, _MOST))
    found, state = (json.loads(mark), told) if mark else told
    return Cursor(agent, dict(found), dict(state))


def put(connection: sqlite3.Connection, path: Path, cursor: Cursor) -> None:
    """Remember how far a file was read, inside the caller's transaction."""
    name = _name(connection, path)
    if name != os.fsencode(path):  # As it was written before.
        connection.execute("DELETE FROM cursor WHERE path = ?", (os.fsencode(path),))
    packing = zlib.compressobj(1, zdict=_WORDS + name)
    told = json.dumps((cursor.mark, cursor.state), separators=(",", ":")).encode()
    packed = packing.compress(told) + packing.flush()
    connection.execute("INSERT OR REPLACE INTO cursor VALUES (?, ?, '', ?)", (name, cursor.agent, packed))


def _name(connection: sqlite3.Connection, path: Path) -> bytes:
    """Return what stands for a file in its row: its path, unless that holds a secret."""
    raw = os.fsencode(path)
    if not _has_secret(os.fsdecode(path)):
        return raw
    (secret,) = connection.execute("SELECT secret FROM project").fetchone()
    return b"redacted:" + hmac.digest(secret, raw, "sha256")[:16].hex().encode()


@lru_cache(1024)  # A file that is new is asked for, and written once some hundred others are read.
def _has_secret(path: str) -> bool:
    return redact(path) != path


def drop(connection: sqlite3.Connection, agent: str, session: str) -> None:
    """Forget how far those files were read whose state holds turns of a session, or cannot be read."""
    rows = connection.execute("SELECT path, agent, mark, state FROM cursor WHERE agent = ?", (agent,)).fetchall()
    for name, *row in rows:
        try:
            is_meant = session in _unpacked(name, *row).state.get("turns", {})
        except (TypeError, ValueError, zlib.error):
            is_meant = True
        if is_meant:
            connection.execute("DELETE FROM cursor WHERE path = ?", (name,))


def clear(connection: sqlite3.Connection) -> None:
    """Forget how far everything was read, so that all of it is read again."""
    connection.execute("DELETE FROM cursor")
