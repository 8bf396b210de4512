"""Lines: why fork, rollback and diff cost nothing.

Every event lies on a line, a maximal run of single-parent events, at a position. What an event can see is a short
list of spans (line, up to position), found by walking lines and never events. None of it depends on how long
the history is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from bede.records import Place, Spans


def place_next(
    connection: sqlite3.Connection, ends: dict[int, int], parent: Place | None, merged: Place | None
) -> tuple[int, int]:
    """Return line and position for an event that follows `parent`, opening a new line where one is needed.

    The event continues its parent's line only as its next position and without a second parent; else it begins a line
    that remembers where it left. `ends` holds the last positions that are known, and learns the new one.
    """
    if parent is not None and merged is None:
        end = ends.get(parent.line)
        if end is None:
            query = "SELECT max(position) FROM event WHERE line = ?"
            (end,) = connection.execute(query, (parent.line,)).fetchone()
        if end == parent.position:
            ends[parent.line] = end + 1
            return parent.line, end + 1
    (line,) = connection.execute("SELECT coalesce(max(line), 0) + 1 FROM line").fetchone()
    origin = (parent.line, parent.position) if parent else (None, None)
    second = (merged.line, merged.position) if merged else (None, None)
    connection.execute("INSERT INTO line VALUES (?, ?, ?, ?, ?)", (line, *origin, *second))
    ends[line] = 1
    return line, 1


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
