"""Memories and runs as rows: what they are about, and what ended them.

A memory's status is nowhere stored. It is *active* in a view when no event visible there ends it, so a rollback that
hides the ending brings it back and a fork sees its own truth.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args

from bede.quick import dataclass
from bede.records import Event, Spans
from bede.repository import log

#: What sorts of memory there are, in the order of help; `run` is what `auto` records.
Kind = Literal[
    "task_handoff",
    "status_update",
    "discovered_constraint",
    "fleet_member",
    "decision",
    "fact",
    "task",
    "note",
    "run",
]
KINDS: tuple[str, ...] = get_args(Kind)

#: How an event ends another, with the letter that stands for it in `memory.ends`.
ENDINGS = {"supersedes": "s", "invalidates": "i"}

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
    """The projection of memories."""

    name = "memory"
    version = 2
    kinds = frozenset((*KINDS, "merge"))

    def create(self, connection: sqlite3.Connection) -> None:
        """Lay the empty tables."""
        for statement in _TABLES:
            connection.execute(statement)

    def drop(self, connection: sqlite3.Connection) -> None:
        """Remove the tables."""
        for table in ("memory", "ending", "label"):
            connection.execute(f"DROP TABLE IF EXISTS {table}")

    def follow(self, connection: sqlite3.Connection, events: Sequence[Event]) -> None:
        """Take in the memories among these events."""
        for event in events:
            if event.kind == "merge" or (event.kind in self.kinds and event.body is not None):
                self._take(connection, event, event.body or {})

    def _take(self, connection: sqlite3.Connection, event: Event, body: dict[str, Any]) -> None:
        ends = [] if "ends" not in body else list(_ends(connection, body["ends"]))
        row = (
            event.seq,
            event.kind,
            body.get("task_id", ""),
            key(event.kind, body),
            outcome(event.kind, body),
        )
        spelled = " ".join(f"{how}{target}" for target, how in ends)
        connection.execute("INSERT INTO memory VALUES (?, ?, ?, ?, ?, ?)", (*row, spelled))
        for target, how in ends:
            connection.execute("INSERT OR IGNORE INTO ending VALUES (?, ?, ?)", (target, event.seq, how))
        for name in labels(body):
            connection.execute("INSERT OR IGNORE INTO label VALUES (?, ?)", (name, event.seq))

    def forget(self, connection: sqlite3.Connection, events: Sequence[Event]) -> None:
        """Remove what these events said; that they were, and what they ended, stays."""
        for event in events:
            connection.execute("UPDATE memory SET task = '', key = '', outcome = '' WHERE seq = ?", (event.seq,))
            connection.execute("DELETE FROM label WHERE seq = ?", (event.seq,))


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


def labels(body: dict[str, Any]) -> list[str]:
    """Return tags as `#tag`, and labels as they are."""
    return [f"#{tag}" for tag in body.get("tags", ())] + list(body.get("labels", ()))


def key(kind: str, body: dict[str, Any]) -> str:
    """Return what a memory is about: a decision's or fact's key, a run's command, else ''."""
    if kind == "run":
        return " ".join(body.get("command", ()))[:200]
    return str(body.get("key", ""))


def outcome(kind: str, body: dict[str, Any]) -> str:
    """Return what came out: a run's exit status, or a short digest of a value, else ''."""
    if kind == "run":
        # A command that could not even be started says nothing about what it would have done.
        never_ran = body.get("exit_status") in (126, 127) and body.get("failure")
        return "" if never_ran else str(body.get("exit_status", ""))
    if kind in ("decision", "fact") and "value" in body:
        value = json.dumps(body.get("value"), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return ""


def _ends(connection: sqlite3.Connection, ends: dict[str, list[str]]) -> Iterable[tuple[int, str]]:
    for word, letter in ENDINGS.items():
        for identity in ends.get(word, ()):
            if seq := log.seq_of(connection, identity):
                yield seq, letter


def endings(connection: sqlite3.Connection, seqs: Sequence[int], seen: Spans) -> dict[int, tuple[str, int]]:
    """Return how each of these ended in a view, and by which event; the active ones are left out."""
    found: dict[int, tuple[str, int]] = {}
    for part in _parts(seqs):
        rows = connection.execute(
            "SELECT n.target, n.how, n.ender, e.line, e.position FROM ending n JOIN event e ON e.seq = n.ender "
            f"WHERE n.target IN ({','.join('?' * len(part))})",
            part,
        )
        for target, how, ender, line, position in rows:
            if position <= seen.get(line, 0):
                found[target] = ("superseded" if how == "s" else "invalidated", ender)
    return found


def admit(connection: sqlite3.Connection, seqs: Sequence[int], seen: Spans, wanted: Filter) -> set[int]:
    """Return those of these memories that a view sees and a filter lets through."""
    rows: list[tuple[int, int, int]] = []
    clause, values = _where(wanted)
    for part in _parts(seqs):
        rows += connection.execute(
            "SELECT e.seq, e.line, e.position FROM event e JOIN memory m USING (seq) "
            f"WHERE e.seq IN ({','.join('?' * len(part))}){clause}",
            (*part, *values),
        )
    visible = [seq for seq, line, position in rows if position <= seen.get(line, 0)]
    return set(_of_status(connection, visible, seen, wanted.status))


def newest(connection: sqlite3.Connection, seen: Spans, wanted: Filter, limit: int) -> list[int]:
    """Return the newest memories that a view sees and a filter lets through, newest first."""
    clause, values = _where(wanted)
    rows = connection.execute(
        "SELECT e.seq, e.line, e.position FROM memory m CROSS JOIN event e USING (seq) "
        f"WHERE m.kind <> 'merge'{clause} ORDER BY m.seq DESC",
        values,
    )
    found: list[int] = []
    while len(found) < limit and (batch := rows.fetchmany(max(64, limit * 2))):
        visible = [seq for seq, line, position in batch if position <= seen.get(line, 0)]
        found += _of_status(connection, visible, seen, wanted.status)
    return found[:limit]


def holders(connection: sqlite3.Connection, seen: Spans, kind: str, key: str) -> list[int]:
    """Return the active decisions or facts of a key in a view, newest first; one, or more after a merge."""
    rows = connection.execute(
        "SELECT e.seq, e.line, e.position FROM memory m JOIN event e USING (seq) "
        "WHERE m.key = ? AND m.kind = ? AND m.key <> '' ORDER BY m.seq DESC",
        (key, kind),
    )
    visible = [seq for seq, line, position in rows if position <= seen.get(line, 0)]
    return _of_status(connection, visible, seen, "active")


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


def _parts(seqs: Sequence[int], size: int = 500) -> Iterable[Sequence[int]]:
    return (seqs[start : start + size] for start in range(0, len(seqs), size))
