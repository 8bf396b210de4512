"""Events and payloads: appending them, and reading them back by place, by id and by arrival.

An append is part of its caller's one transaction. Nothing here updates or deletes an event, ever; only `purge`
destroys payloads.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from bede.errors import Corrupt, Internal, NotFound
from bede.identity import SALT, canonical, digest, event_id
from bede.records import Draft, Event, Place, Spans
from bede.repository import lines

_COLUMNS = "seq, id, kind, parent, merged, actor, source, happened_at, line, position, body"
_BATCH = 500
#: From how many bytes on a payload is deflated, what came from a foreign record sooner; and up to how many.
PACKED, RECORD, LARGEST = 1024, 128, 256 * 1024 * 1024
#: From how many bytes on a payload gets the largest window of deflate; a smaller one is quicker to lay out.
WIDE = 12 * 1024
#: `json.loads` without its guess at the encoding, which takes as long as a short payload itself.
_DECODE = json.JSONDecoder().decode
#: How zlib begins, with either window.
DEFLATED = (b"h", b"x")


def prepare(draft: Draft) -> tuple[bytes, bytes, bytes]:
    """Return salt, body and digest of a draft's payload: the part of an append that needs no lock.

    Raises:
        UsageError: the body has no canonical form.
        Internal: a field holds a line feed or the salt has another length, so that the id would prove nothing.
    """
    if "\n" in draft.kind + draft.actor + draft.source:
        raise Internal(f"a field of an event of kind {draft.kind[:40]!r} holds a line feed")
    body = draft.form or canonical(draft.body)
    salt = draft.salt or os.urandom(SALT)
    if len(salt) != SALT:
        raise Internal(f"a salt has {len(salt)} bytes, not {SALT}")
    return salt, body, digest(salt, body)


def insert(
    connection: sqlite3.Connection,
    ends: dict[int, int],
    draft: Draft,
    prepared: tuple[bytes, bytes, bytes],
    parents: Sequence[Place],
) -> Event:
    """Write one event behind its parents (none, one, or two for a merge) and return it.

    Without a salt it is one whose payload was purged elsewhere: of that its digest is left.
    """
    salt, body, payload = prepared
    parent, merged = (*parents, None, None)[:2]
    identity = event_id(
        draft.kind, [place.id for place in parents], draft.actor, draft.source, draft.happened_at, payload
    )
    line, position = lines.place_next(connection, ends, parent, merged)
    row = (
        identity,
        draft.kind,
        parent.seq if parent else None,
        merged.seq if merged else None,
        draft.actor,
        draft.source,
        draft.happened_at,
        None if salt else payload,
        line,
        position,
        salt or None,
        pack(body, RECORD if draft.source else PACKED) if salt else None,
    )
    cursor = connection.execute("INSERT INTO event VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    seq = cursor.lastrowid or 0
    if not parent or seq != parent.seq + 1 or line != parent.line:
        lines.begin(connection, seq, line, position)
    seqs = tuple(place.seq for place in parents)
    return Event(
        seq,
        identity.hex(),
        draft.kind,
        seqs,
        draft.actor,
        draft.source,
        draft.happened_at,
        line,
        position,
        draft.body,
    )


def load(connection: sqlite3.Connection, seqs: Sequence[int]) -> dict[int, Event]:
    """Return events by arrival number; those that do not exist are left out."""
    found: dict[int, Event] = {}
    for start in range(0, len(seqs), _BATCH):
        part = seqs[start : start + _BATCH]
        marks = ",".join("?" * len(part))
        rows = connection.execute(f"SELECT {_COLUMNS} FROM event WHERE seq IN ({marks})", part)
        found.update((event.seq, event) for event in map(_event, rows))
    return found


def place(connection: sqlite3.Connection, seq: int) -> Place:
    """Return where an event lies.

    Raises:
        Corrupt: something names an event that is not there.
    """
    row = connection.execute("SELECT seq, id, line, position FROM event WHERE seq = ?", (seq,)).fetchone()
    if row is None:
        raise Corrupt(f"event number {seq} is named but missing", hint="run 'bede verify'")
    return Place(row[0], row[1].hex(), row[2], row[3])


def find(connection: sqlite3.Connection, prefix: str) -> Place:
    """Return the one event whose id starts with `prefix` (hex, at least 4 digits).

    Raises:
        NotFound: no event or several do.
    """
    low = bytes.fromhex(prefix.ljust(64, "0"))
    high = bytes.fromhex(prefix.ljust(64, "f"))
    rows = connection.execute(
        "SELECT seq, id, line, position FROM event WHERE id BETWEEN ?2 AND ?4 AND"
        " (seq IN (SELECT seq FROM event_key WHERE prefix BETWEEN ?1 AND ?3) OR seq > (SELECT seq FROM indexed))"
        " LIMIT 5",
        (low[:8], low, high[:8], high),
    ).fetchall()
    if len(rows) == 1:
        seq, identity, line, position = rows[0]
        return Place(seq, identity.hex(), line, position)
    if not rows:
        raise NotFound(f"no event {prefix}", hint="'bede log' lists events")
    listed = ", ".join(row[1].hex()[:12] for row in rows)
    raise NotFound(f"event id {prefix} is ambiguous: {listed}", hint="type more of the id")


def seq_of(connection: sqlite3.Connection, identity: str) -> int:
    """Return the arrival number of the event of a whole id (64 hex digits), 0 when there is none."""
    named = bytes.fromhex(identity)
    row = connection.execute(
        "SELECT seq FROM event WHERE id = ?2 AND"
        " (seq IN (SELECT seq FROM event_key WHERE prefix = ?1) OR seq > (SELECT seq FROM indexed))",
        (named[:8], named),
    ).fetchone()
    return int(row[0]) if row else 0


def index(connection: sqlite3.Connection) -> None:
    """Take the ids of the events since the last time into `event_key`, inside the caller's transaction."""
    connection.execute(
        "INSERT INTO event_key SELECT substr(id, 1, 8), seq FROM event WHERE seq > (SELECT seq FROM indexed) ORDER BY 1"
    )
    connection.execute("UPDATE indexed SET seq = (SELECT max(seq) FROM event)")


def unindexed(connection: sqlite3.Connection) -> int:
    """Return how many events `event_key` has not taken in yet."""
    taken = connection.execute("SELECT coalesce((SELECT seq FROM indexed), 0)").fetchone()[0]
    return last(connection) - int(taken)


def is_indexed(connection: sqlite3.Connection) -> bool:
    """Tell whether every event can be found by its id; looks at each of them."""
    rows = connection.execute("SELECT seq FROM indexed").fetchall()
    if len(rows) != 1 or rows[0][0] > last(connection):
        return False
    lost = connection.execute(
        "SELECT 1 FROM event e WHERE seq <= ? AND NOT EXISTS"
        " (SELECT 1 FROM event_key k WHERE k.prefix = substr(e.id, 1, 8) AND k.seq = e.seq) LIMIT 1",
        rows[0],
    )
    return lost.fetchone() is None


def walk(connection: sqlite3.Connection, seen: Spans, *, kinds: Sequence[str] = ()) -> Iterator[Event]:
    """Yield what a view sees, newest first in order of arrival.

    Each line is read backwards in steps and only as far as is asked for, so the first events of a long history are
    cheap.
    """
    import heapq

    streams = [_backwards(connection, _COLUMNS, line, upto, kinds) for line, upto in seen.items()]
    yield from map(_event, heapq.merge(*streams, key=lambda row: -row[0]))


def kinds_of(connection: sqlite3.Connection, seen: Spans) -> Iterator[tuple[int, str]]:
    """Yield arrival number and kind of what a view sees, newest first: where few of many are wanted whole."""
    import heapq

    streams = [_backwards(connection, "seq, kind", line, upto, ()) for line, upto in seen.items()]
    yield from heapq.merge(*streams, key=lambda row: -row[0])


def _backwards(
    connection: sqlite3.Connection, columns: str, line: int, upto: int, kinds: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    marks = f" AND kind IN ({','.join('?' * len(kinds))})" if kinds else ""
    step = 32
    while upto > 0:
        for first, last in reversed(lines.ranges(connection, line, max(1, upto - step + 1), upto)):
            yield from connection.execute(
                f"SELECT {columns} FROM event WHERE seq BETWEEN ? AND ?{marks} ORDER BY seq DESC",
                (first, last, *kinds),
            ).fetchall()
        upto -= step
        step = min(step * 4, 4096)


def between(connection: sqlite3.Connection, line: int, start: int, end: int) -> Iterator[Event]:
    """Yield the events of one line from one position to another, oldest first."""
    query = f"SELECT {_COLUMNS} FROM event WHERE seq BETWEEN ? AND ? ORDER BY seq"
    for part in lines.ranges(connection, line, start, end):
        yield from map(_event, connection.execute(query, part))


def after(connection: sqlite3.Connection, seq: int) -> Iterator[Event]:
    """Yield all events that arrived after one, oldest first: what a follower reads."""
    rows = connection.execute(f"SELECT {_COLUMNS} FROM event WHERE seq > ? ORDER BY seq", (seq,))
    yield from map(_event, rows)


def by_source(connection: sqlite3.Connection, source: str) -> int:
    """Return the arrival number of the event that came from a foreign record, 0 when none did."""
    row = connection.execute("SELECT seq FROM event WHERE source = ? AND source <> ''", (source,)).fetchone()
    return int(row[0]) if row else 0


def sources_in(connection: sqlite3.Connection, sources: Sequence[str]) -> set[str]:
    """Return those foreign records from which an event came already."""
    found: set[str] = set()
    for start in range(0, len(sources), _BATCH):
        part = sources[start : start + _BATCH]
        query = f"SELECT source FROM event WHERE source IN ({','.join('?' * len(part))}) AND source <> ''"
        found.update(source for (source,) in connection.execute(query, part))
    return found


def last(connection: sqlite3.Connection) -> int:
    """Return the arrival number of the newest event."""
    return int(connection.execute("SELECT coalesce(max(seq), 0) FROM event").fetchone()[0])


def purge(connection: sqlite3.Connection, seqs: Iterable[int]) -> int:
    """Destroy payloads, body and salt, and keep their digests; return how many there were."""
    count = 0
    for seq in seqs:
        row = connection.execute("SELECT salt, body FROM event WHERE seq = ? AND body IS NOT NULL", (seq,)).fetchone()
        if row:
            payload = digest(row[0], unpack(row[1]))
            connection.execute("UPDATE event SET digest = ?, salt = NULL, body = NULL WHERE seq = ?", (payload, seq))
            count += 1
    return count


def _event(row: tuple[Any, ...]) -> Event:
    seq, identity, kind, parent, merged, actor, source, happened_at, line, position, stored = row
    parents = (parent,) if parent and merged is None else tuple(seq for seq in (parent, merged) if seq is not None)
    return Event(seq, identity.hex(), kind, parents, actor, source, happened_at, line, position, body(stored))


def pack(body: bytes, least: int = PACKED) -> bytes:
    """Return a payload as it is stored: deflated where that is shorter; canonical JSON never begins as zlib does.

    What is longer than anything that is unpacked stays as it is.
    """
    if not least <= len(body) <= LARGEST:
        return body
    stream = _deflater(15 if len(body) > WIDE else 14).copy()
    packed = stream.compress(body) + stream.flush()
    return packed if len(packed) < len(body) else body


@cache
def _deflater(window: int) -> Any:
    """Return what has read the common text already, to be copied: half the cost of a short payload is in that."""
    import zlib

    from bede.repository.common import COMMON

    return zlib.compressobj(6, wbits=window, zdict=COMMON)


def unpack(stored: bytes) -> bytes:
    """Return the payload that was stored.

    Raises:
        Corrupt: it was deflated, and does not unpack to what may have been deflated.
    """
    if stored[:1] not in DEFLATED:
        return stored
    import zlib

    from bede.repository.common import COMMON

    stream = zlib.decompressobj(zdict=COMMON)
    try:
        whole = stream.decompress(stored, LARGEST)
    except zlib.error as error:
        raise Corrupt("a payload cannot be unpacked", hint="run 'bede verify'") from error
    if stream.unconsumed_tail or not stream.eof or stream.unused_data:
        raise Corrupt("a payload cannot be unpacked", hint="run 'bede verify'")
    return whole


def body(stored: Any) -> dict[str, Any] | None:
    """Return what a payload says; None for one that was purged.

    Raises:
        Corrupt: it is not what was written.
    """
    if stored is None:
        return None
    try:
        told = _DECODE(unpack(stored).decode())
    except (ValueError, RecursionError) as error:
        raise Corrupt("a payload is not the JSON that was written", hint="run 'bede verify'") from error
    if not isinstance(told, dict):
        raise Corrupt("a payload is not the JSON that was written", hint="run 'bede verify'")
    return told
