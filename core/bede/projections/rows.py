"""Memories as rows: what each is about and what it ended, and those that no table has taken in yet.

To write them to their tables with each append would cost it a fifth more. So memories wait in the log as texts do,
and enter the tables by the batch; whoever asks the tables asks `waiting`, too.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

from bede.errors import Corrupt
from bede.quick import dataclass
from bede.repository import log
from bede.repository.connection import Connection

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
#: Events that have a row: memories, and merges for what they end.
ROWED = (*KINDS, "merge")

#: How a shell tells of a command that ended by Ctrl-C.
_INTERRUPTED = 130

#: How an event ends another, with the letter that stands for it in `memory.ends`.
ENDINGS = {"supersedes": "s", "invalidates": "i"}


@dataclass(frozen=True, slots=True)
class Row:
    """One memory or merge."""

    seq: int
    kind: str
    task: str
    key: str
    outcome: str
    ends: tuple[tuple[int, str], ...]  # seqs, each with s (superseded) or i (invalidated)
    labels: tuple[str, ...]  # `#tag` and `namespace:value`

    def spelled(self) -> str:
        """Return what it ends as the table has it."""
        return " ".join([f"{how}{target}" for target, how in self.ends])


@dataclass(frozen=True, slots=True)
class Waiting:
    """One that no table has taken in yet, with what a filter or a view asks of its event."""

    row: Row
    actor: str
    happened_at: int
    line: int
    position: int


def has_row(kind: str, body: dict[str, Any] | None) -> bool:
    """Tell whether an event has a row: a memory that was purged has none, but a merge."""
    return kind == "merge" or (kind in KINDS and body is not None)


def row_of(connection: sqlite3.Connection, seq: int, kind: str, body: dict[str, Any]) -> Row:
    """Return the row of an event."""
    ends = () if "ends" not in body else tuple(_ends(connection, body["ends"]))
    task, about = body.get("task_id", ""), key(kind, body)
    return Row(seq, kind, task, about, outcome(kind, body), ends, tuple(labels(body)))


def upto(connection: sqlite3.Connection) -> int:
    """Return the last event that the tables have taken in; what came after it waits.

    Raises:
        Corrupt: nothing says how far that is.
    """
    (found,) = connection.execute(
        "SELECT max((SELECT seq FROM projection WHERE name = 'memory'), (SELECT coalesce(max(seq), 0) FROM memory))"
    ).fetchone()
    if found is None:
        raise Corrupt("the tables of memories do not say what they hold", hint="run 'bede reindex'")
    return int(found)


def between(connection: sqlite3.Connection, first: int, last: int) -> list[Waiting]:
    """Return the rows of events from one to another, newest first.

    One whose payload is not what was written has none: `verify` finds it, and it must not stand in the way of others.
    """
    found = connection.execute(
        "SELECT seq, kind, actor, happened_at, line, position, body FROM event"
        f" WHERE seq BETWEEN ? AND ? AND kind IN ({','.join('?' * len(ROWED))}) ORDER BY seq DESC",
        (first, last, *ROWED),
    )
    made = []
    for seq, kind, actor, at, line, position, stored in found:
        try:
            body = log.body(stored)
            if has_row(kind, body):
                made.append(Waiting(row_of(connection, seq, kind, body or {}), actor, at, line, position))
        except (Corrupt, TypeError, ValueError, AttributeError):
            continue
    return made


def waiting(connection: sqlite3.Connection) -> Sequence[Waiting]:
    """Return those that no table has taken in yet, newest first; a few dozen but where many have just written.

    Kept by the connection until the log or the tables have gone on; the newest event's id stands for the log.
    """
    start = upto(connection)
    newest = connection.execute("SELECT seq, id FROM event ORDER BY seq DESC LIMIT 1").fetchone()
    if newest is None or newest[0] <= start:
        return ()
    if not isinstance(connection, Connection):
        return between(connection, start + 1, newest[0])
    if connection.waiting[0] != (start, *newest):
        connection.waiting = (start, *newest), between(connection, start + 1, newest[0])
    kept: list[Waiting] = connection.waiting[1]
    return kept


def among(fresh: Sequence[Waiting], first: int, last: int) -> dict[int, Waiting]:
    """Return those of some that wait, newest first, which are of events from one to another, by seq."""
    start = bisect_left(fresh, -last, key=lambda one: -one.row.seq)
    end = bisect_right(fresh, -first, key=lambda one: -one.row.seq)
    return {one.row.seq: one for one in fresh[start:end]}


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
        # A command that could not be started, or that somebody interrupted, says nothing of what it would have done.
        status = body.get("exit_status", "")
        return "" if status == _INTERRUPTED or (status in (126, 127) and body.get("failure")) else str(status)
    if kind in ("decision", "fact") and "value" in body:
        value = json.dumps(body.get("value"), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return ""


def _ends(connection: sqlite3.Connection, ends: dict[str, list[str]]) -> Iterator[tuple[int, str]]:
    for word, letter in ENDINGS.items():
        for identity in ends.get(word, ()):
            if seq := log.seq_of(connection, identity):
                yield seq, letter

