"""Lines: why fork, rollback and diff cost nothing.

Every event lies on a line, a maximal run of single-parent events, at a position. What an event can see is a short
list of spans (line, up to position), found by walking lines and never events. None of it depends on how long
the history is. Where a line's events are is told by stretches: one, as long as nobody writes on another line.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from bede.errors import Corrupt
from bede.records import Place, Spans


def place_next(
    connection: sqlite3.Connection, ends: dict[int, int], parent: Place | None, merged: Place | None
) -> tuple[int, int]:
    """Return line and position for an event that follows `parent`, opening a new line where one is needed.

    The event continues its parent's line only as its next position and without a second parent; else it begins a line
    that remembers where it left. `ends` holds the last positions that are known, and learns the new one.
    """
    if parent is not None and merged is None:
        last = ends.get(parent.line)
        if last is None:
            last = end(connection, parent.line)
        if last == parent.position:
            ends[parent.line] = last + 1
            return parent.line, last + 1
    (line,) = connection.execute("SELECT coalesce(max(line), 0) + 1 FROM line").fetchone()
    origin = (parent.line, parent.position) if parent else (None, None)
    second = (merged.line, merged.position) if merged else (None, None)
    connection.execute("INSERT INTO line VALUES (?, ?, ?, ?, ?)", (line, *origin, *second))
    ends[line] = 1
    return line, 1


def begin(connection: sqlite3.Connection, seq: int, line: int, position: int) -> None:
    """Begin a stretch with an event that does not follow the one which arrived before it on the same line."""
    connection.execute("INSERT INTO stretch VALUES (?, ?, ?)", (seq, line, position))


def lay(connection: sqlite3.Connection) -> None:
    """Lay all stretches anew, from the places of the events."""
    connection.execute("DELETE FROM stretch")
    connection.execute(
        "INSERT OR IGNORE INTO stretch SELECT e.seq, e.line, e.position FROM event e LEFT JOIN event b"
        " ON b.seq = e.seq - 1 AND b.seq = e.parent AND b.line = e.line WHERE b.seq IS NULL"
    )


def end(connection: sqlite3.Connection, line: int) -> int:
    """Return the position of a line's last event."""
    (position,) = connection.execute(
        "SELECT s.position - s.seq - 1 + coalesce((SELECT min(n.seq) FROM stretch n WHERE n.seq > s.seq),"
        " (SELECT max(seq) + 1 FROM event)) FROM stretch s WHERE s.line = ? ORDER BY s.position DESC LIMIT 1",
        (line,),
    ).fetchone()
    return int(position)


def ranges(connection: sqlite3.Connection, line: int, start: int, end: int) -> list[tuple[int, int]]:
    """Return where the events of a line from one position to another are: from seq to seq, in order.

    Raises:
        Corrupt: where they are said to be are others.
    """
    if start > end:
        return []
    rows = connection.execute(
        "SELECT seq, position FROM stretch WHERE line = ?1 AND position <= ?3 AND position >="
        " (SELECT max(position) FROM stretch WHERE line = ?1 AND position <= ?2) ORDER BY position",
        (line, start, end),
    ).fetchall()
    _check(connection, line, end, rows[-1] if rows else (0, 0))
    beyond = [position - 1 for _, position in rows[1:]] + [end]
    return [
        (seq + max(start - position, 0), seq + last - position)
        for (seq, position), last in zip(rows, beyond, strict=True)
    ]


def _check(connection: sqlite3.Connection, line: int, end: int, stretch: tuple[int, int]) -> None:
    """Make sure that a stretch leads to the event at a position: an answer must not be made of others silently."""
    seq, position = stretch
    query = "SELECT 1 FROM event WHERE seq = ? AND line = ? AND position = ?"
    if connection.execute(query, (seq + end - position, line, end)).fetchone() is None:
        raise Corrupt(f"line {line} does not lead to its events", hint="run 'bede verify'")


def spans(connection: sqlite3.Connection, line: int, position: int) -> Spans:
    """Return what the event at a place can see, itself included; the nearest lines first."""
    seen: Spans = {}
    open_ends = [(line, position)]
    while open_ends:
        at, upto = open_ends.pop()
        if upto > seen.get(at, 0):
            if at not in seen:
                open_ends.extend(_origins(connection, at))
            seen[at] = upto
    return seen


def _origins(connection: sqlite3.Connection, line: int) -> Iterator[tuple[int, int]]:
    row = connection.execute("SELECT parent, at, merged, merged_at FROM line WHERE line = ?", (line,)).fetchone()
    parent, at, merged, merged_at = row
    if merged is not None:
        yield merged, merged_at
    if parent is not None:
        yield parent, at


def common(one: Spans, other: Spans) -> Spans:
    """Return what both see."""
    return {line: min(upto, other[line]) for line, upto in one.items() if line in other}


def beyond(one: Spans, other: Spans) -> list[tuple[int, int, int]]:
    """Return the ranges (line, from, to) that `one` sees and `other` does not."""
    return [(line, other.get(line, 0) + 1, upto) for line, upto in one.items() if upto > other.get(line, 0)]
