"""What is known of sessions already, asked by whoever is about to write more of them: this room only reads."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from bede.projections.sessions import FIELDS, short
from bede.repository import log
from bede.turns import text_of

#: Most values that one query looks for.
_BATCH = 500


def known(connection: sqlite3.Connection, session: int) -> dict[str, str]:
    """Return what a session tells of itself; nothing where there is none of that number."""
    row = connection.execute(f"SELECT {', '.join(FIELDS)} FROM session WHERE id = ?", (session,)).fetchone()
    return dict(zip(FIELDS, row, strict=True)) if row else {}


def events(connection: sqlite3.Connection, session: int, keys: Iterable[str]) -> dict[str, int]:
    """Return, of those turns that a session has among some keys, the arrival numbers of the events that tell them."""
    query = "SELECT key, seq FROM turn WHERE session = ? AND key IN"
    named = {key: short(key) for key in keys} if session else {}
    found: dict[bytes, int] = dict(_among(connection, query, session, list(named.values())))
    return {key: found[brief] for key, brief in named.items() if brief in found}


def elsewhere(connection: sqlite3.Connection, session: int, origins: Iterable[str]) -> set[str]:
    """Return those origins of which another session has a turn."""
    query = "SELECT origin FROM turn WHERE session <> ? AND origin IN"
    named = {origin: short(origin) for origin in origins}
    found = {origin for (origin,) in _among(connection, query, session, list(named.values()))}
    return {origin for origin, brief in named.items() if brief in found}


def _among(connection: sqlite3.Connection, query: str, session: int, values: list[bytes]) -> Iterator[tuple[Any, ...]]:
    """Yield what a query that ends with `IN` finds for a session and any of some values."""
    for start in range(0, len(values), _BATCH):
        part = values[start : start + _BATCH]
        yield from connection.execute(f"{query} ({','.join('?' * len(part))})", (session, *part))


def words_of(turn: dict[str, Any]) -> bytes:
    """Return what stands for what a turn says, whoever copied it and when."""
    return short(f"{turn['by']}\n{text_of(turn)}")


def copied(connection: sqlite3.Connection, agent: str, parent: str) -> Counter[bytes]:
    """Return what those sessions that came out of another one have copied of it: how often each thing.

    Of one thing that several of them copied, the most that one of them has.
    """
    found: Counter[bytes] = Counter()
    children = connection.execute("SELECT id FROM session WHERE agent = ? AND parent = ?", (agent, parent)).fetchall()
    for child in children:
        rows = connection.execute("SELECT e.body FROM turn t JOIN event e USING (seq) WHERE t.session = ?", child)
        bodies = (log.body(stored) for (stored,) in rows)
        found |= Counter(words_of(body) for body in bodies if body and body.get("replayed"))
    return found
