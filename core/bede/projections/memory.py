"""Memories and runs as rows: what they are about, and what ended them.

A memory's status is nowhere stored. It is *active* in a view when no event visible there ends it, so a rollback that
hides the ending brings it back and a fork sees its own truth.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from bede.projections import rows
from bede.projections.rows import KINDS, Row, Waiting, waiting
from bede.quick import dataclass
from bede.records import Event, Spans
from bede.repository import log

#: Memories that wait before they are taken in together, and most at once.
BATCH, CHUNK = 64, 1000
#: What the letters say that `memory.ends` has.
_HOW = {"s": "superseded", "i": "invalidated"}

_TABLES = (
    """CREATE TABLE memory (      -- derived: one row a memory or run
  seq INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  task TEXT NOT NULL,           -- task id, '' for none
  key TEXT NOT NULL,            -- what decisions and facts are about; a run's command
  outcome TEXT NOT NULL,        -- a run's exit status; a digest of a decision's or fact's value
  ends TEXT NOT NULL            -- seqs it ends, each behind s (superseded) or i (invalidated)
) STRICT""",
    "CREATE INDEX memory_task ON memory (task)",  # and, as every index, by seq
    "CREATE INDEX memory_key ON memory (key) WHERE key <> ''",
    """CREATE TABLE ending (      -- derived: which event ended which
  target INTEGER NOT NULL,
  ender INTEGER NOT NULL,
  how TEXT NOT NULL,
  PRIMARY KEY (target, ender)
) STRICT, WITHOUT ROWID""",
    """CREATE TABLE label (       -- derived: '#tag' and 'namespace:value'
  name TEXT NOT NULL,
  seq INTEGER NOT NULL,
  PRIMARY KEY (name, seq)
) STRICT, WITHOUT ROWID""",
)


@dataclass(frozen=True, slots=True)
class Filter:
    """What a search is narrowed to. Empty fields ask for nothing, but a task of '' for memories of no task."""

    kinds: tuple[str, ...] = ()
    task: str | None = None
    agent: str = ""
    tags: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None
    status: str = "active"
    before: int | None = None

    @property
    def narrows(self) -> bool:
        """Whether anything at all is asked for."""
        named = self.kinds or self.task or self.agent or self.tags or self.labels
        return bool(named) or self.since is not None or self.until is not None


class Memory:
    """The projection of memories. They wait in the log until they are worth a batch; see `rows.waiting`."""

    name = "memory"
    version = 3
    kinds: frozenset[str] = frozenset()

    def create(self, connection: sqlite3.Connection) -> None:
        """Lay the empty tables."""
        for statement in _TABLES:
            connection.execute(statement)

    def drop(self, connection: sqlite3.Connection) -> None:
        """Remove the tables."""
        for table in ("memory", "ending", "label"):
            connection.execute(f"DROP TABLE IF EXISTS {table}")

    def follow(self, connection: sqlite3.Connection, events: Sequence[Event]) -> None:
        """Take in the memories among these events, and before them those that wait."""
        if events:
            self.catch_up(connection, events[0].seq - 1)
            made = [
                rows.row_of(connection, event.seq, event.kind, event.body or {})
                for event in events
                if rows.has_row(event.kind, event.body)
            ]
            _take(connection, made, events[-1].seq)

    def catch_up(self, connection: sqlite3.Connection, last: int) -> None:
        """Take in what waits up to an event."""
        while (start := rows.upto(connection)) < last:
            end = min(start + CHUNK, last)
            _take(connection, [one.row for one in rows.between(connection, start + 1, end)], end)

    def gather(self, connection: sqlite3.Connection) -> tuple[int, int, list[Row]] | None:
        """Make ready what waits, when it is worth a batch."""
        start = rows.upto(connection)
        end = min(start + CHUNK, log.last(connection))
        if end - start < BATCH:
            return None
        return start, end, [one.row for one in rows.between(connection, start + 1, end)]

    def settle(self, connection: sqlite3.Connection, gathered: tuple[int, int, list[Row]]) -> bool:
        """Take in what was made ready, unless another writer was faster; tell whether it was done."""
        start, end, made = gathered
        is_first = rows.upto(connection) == start
        if is_first:
            _take(connection, made, end)
        return is_first

    def forget(self, connection: sqlite3.Connection, events: Sequence[Event]) -> None:
        """Remove what these events said; that they were, and what they ended, stays."""
        self.catch_up(connection, log.last(connection))
        for event in events:
            connection.execute("UPDATE memory SET task = '', key = '', outcome = '' WHERE seq = ?", (event.seq,))
            connection.execute("DELETE FROM label WHERE seq = ?", (event.seq,))


def _take(connection: sqlite3.Connection, made: Sequence[Row], last: int) -> None:
    """Write rows to their tables, and how far they go."""
    told = [(row.seq, row.kind, row.task, row.key, row.outcome, row.spelled()) for row in reversed(made)]
    ended = [(target, row.seq, how) for row in made for target, how in row.ends]
    named = [(name, row.seq) for row in made for name in row.labels]
    connection.executemany("INSERT INTO memory VALUES (?, ?, ?, ?, ?, ?)", told)
    connection.executemany("INSERT OR IGNORE INTO ending VALUES (?, ?, ?)", ended)
    connection.executemany("INSERT OR IGNORE INTO label VALUES (?, ?)", named)
    connection.execute("UPDATE projection SET seq = ? WHERE name = 'memory'", (last,))


def text_of(body: dict[str, Any]) -> str:
    """Return everything of a memory that search finds it by."""
    parts: list[Any] = [body.get("summary"), *body.get("learnings", ()), body.get("handoff_note")]
    parts += [body.get("key"), body.get("value"), body.get("rationale"), body.get("task_id")]
    parts += [
        *body.get("tags", ()),
        *body.get("labels", ()),
        " ".join(body.get("command", ())),
        body.get("output"),
    ]
    return "\n".join(str(part) for part in parts if part not in ("", None))


def texts_after(connection: sqlite3.Connection, seq: int, limit: int = -1) -> tuple[int, dict[int, str]]:
    """Return what memories say that arrived after an event: the last seq that was looked at, and text by seq.

    At most `limit` events are looked at; -1 for all of them.

    Raises:
        Corrupt: a payload is not what was written.
    """
    marks = ",".join("?" * len(KINDS))
    rows = connection.execute(
        f"SELECT seq, CASE WHEN kind IN ({marks}) THEN body END FROM event WHERE seq > ? ORDER BY seq LIMIT ?",
        (*KINDS, seq, limit),
    )
    found: dict[int, str] = {}
    for seq, stored in rows:
        if stored is not None and (said := text_of(log.body(stored) or {})):
            found[seq] = said
    return seq, found


def endings(connection: sqlite3.Connection, seqs: Sequence[int], seen: Spans) -> dict[int, tuple[str, int]]:
    """Return how each of these ended in a view, and by which event; the active ones are left out."""
    found: dict[int, tuple[str, int]] = {}
    for part in _parts(seqs):
        ended = connection.execute(
            "SELECT n.target, n.how, n.ender, e.line, e.position FROM ending n JOIN event e ON e.seq = n.ender "
            f"WHERE n.target IN ({','.join('?' * len(part))})",
            part,
        )
        for target, how, ender, line, position in ended:
            if position <= seen.get(line, 0):
                found[target] = (_HOW[how], ender)
    asked = set(seqs)
    for one in reversed(_visible(waiting(connection), seen)):
        ends = reversed(one.row.ends)  # Of two ways to end one thing the first counts, as in the table.
        found.update((target, (_HOW[how], one.row.seq)) for target, how in ends if target in asked)
    return found


def admit(connection: sqlite3.Connection, seqs: Sequence[int], seen: Spans, wanted: Filter) -> set[int]:
    """Return those of these memories that a view sees and a filter lets through."""
    asked = set(seqs)
    fresh = [one for one in waiting(connection) if one.row.seq in asked and _lets(wanted, one)]
    visible = [one.row.seq for one in _visible(fresh, seen)]
    clause, values = _where(wanted)
    for part in _parts(seqs):
        found = connection.execute(
            "SELECT e.seq, e.line, e.position FROM event e JOIN memory m USING (seq) "
            f"WHERE e.seq IN ({','.join('?' * len(part))}){clause}",
            (*part, *values),
        )
        visible += [seq for seq, line, position in found if position <= seen.get(line, 0)]
    return set(_of_status(connection, visible, seen, wanted.status))


def newest(connection: sqlite3.Connection, seen: Spans, wanted: Filter, limit: int) -> list[int]:
    """Return the newest memories that a view sees and a filter lets through, newest first."""
    fresh = [one for one in waiting(connection) if one.row.kind != "merge" and _lets(wanted, one)]
    found = _of_status(connection, [one.row.seq for one in _visible(fresh, seen)], seen, wanted.status)
    clause, values = _where(wanted)
    there = connection.execute(
        "SELECT e.seq, e.line, e.position FROM memory m CROSS JOIN event e USING (seq) "
        f"WHERE m.kind <> 'merge'{clause} ORDER BY m.seq DESC",
        values,
    )
    while len(found) < limit and (batch := there.fetchmany(max(64, limit * 2))):
        visible = [seq for seq, line, position in batch if position <= seen.get(line, 0)]
        found += _of_status(connection, visible, seen, wanted.status)
    return found[:limit]


def holders(connection: sqlite3.Connection, seen: Spans, kind: str, key: str) -> list[int]:
    """Return the active decisions or facts of a key in a view, newest first; one, or more after a merge."""
    if not key:
        return []
    fresh = [one for one in waiting(connection) if (one.row.kind, one.row.key) == (kind, key)]
    found = connection.execute(
        "SELECT e.seq, e.line, e.position FROM memory m JOIN event e USING (seq) "
        "WHERE m.key = ? AND m.kind = ? AND m.key <> '' ORDER BY m.seq DESC",
        (key, kind),
    )
    visible = [one.row.seq for one in _visible(fresh, seen)]
    visible += [seq for seq, line, position in found if position <= seen.get(line, 0)]
    return _of_status(connection, visible, seen, "active")


def _visible(fresh: Sequence[Waiting], seen: Spans) -> list[Waiting]:
    return [one for one in fresh if one.position <= seen.get(one.line, 0)]


def _of_status(connection: sqlite3.Connection, seqs: list[int], seen: Spans, status: str) -> list[int]:
    if status == "all" or not seqs:
        return seqs
    ended = endings(connection, seqs, seen)
    if status == "active":
        return [seq for seq in seqs if seq not in ended]
    return [seq for seq in seqs if seq in ended and ended[seq][0] == status]


def _where(wanted: Filter) -> tuple[str, list[Any]]:
    clause, values = "", list[Any]()
    if wanted.kinds:
        clause += f" AND m.kind IN ({','.join('?' * len(wanted.kinds))})"
        values += wanted.kinds
    bounds = (
        ("m.task = ?", wanted.task),
        ("e.actor = ?", wanted.agent or None),
        ("e.happened_at >= ?", wanted.since),
        ("e.happened_at < ?", wanted.until),
        ("e.seq < ?", wanted.before),
    )
    for column, bound in bounds:
        if bound is not None:
            clause += f" AND {column}"
            values.append(bound)
    for name in (*(f"#{tag}" for tag in wanted.tags), *wanted.labels):
        clause += " AND EXISTS (SELECT 1 FROM label l WHERE l.name = ? AND l.seq = m.seq)"
        values.append(name)
    return clause, values


def _lets(wanted: Filter, one: Waiting) -> bool:
    """Tell whether a filter lets through one that waits: the same as `_where` asks of the tables."""
    row, names = one.row, (*(f"#{tag}" for tag in wanted.tags), *wanted.labels)
    return (
        (not wanted.kinds or row.kind in wanted.kinds)
        and wanted.task in (None, row.task)
        and wanted.agent in ("", one.actor)
        and (wanted.since is None or one.happened_at >= wanted.since)
        and (wanted.until is None or one.happened_at < wanted.until)
        and (wanted.before is None or row.seq < wanted.before)
        and all(name in row.labels for name in names)
    )


def _parts(seqs: Sequence[int], size: int = 500) -> Iterable[Sequence[int]]:
    return (seqs[start : start + size] for start in range(0, len(seqs), size))
