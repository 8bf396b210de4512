"""The folded state: what holds now, as numbers of the events that say so.

State is a left fold over the events a place can see. It holds no text: each entry names the event that made it, so
it stays small and every statement has its provenance. Folds are cached at places along each line; a cache may be
dropped at any moment, and reading costs the events since the nearest one, also after a fork or a rollback.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bede.errors import Corrupt
from bede.projections import rows
from bede.records import Event, Spans
from bede.repository import log
from bede.repository.lines import beyond, ranges, spans

#: Events between two cached states of one line, and most events that are looked at together.
SPACING, CHUNK = 128, 1000
#: Most entries kept of each list that would otherwise only grow; the newest stay.
TASKS, BLOCKERS, RUNS, OVERRULED = 500, 50, 20, 50

#: Kinds of which no state is cached: sessions lie on lines of their own, and nobody asks what holds there.
_SPOKEN = ("session", "turn", "rewind")

State = dict[str, Any]
#: seq, kind, task, key, outcome, ends, actor; the kind of an event that is no memory is ''
Row = tuple[int, str, str, str, str, str, str]
#: line, position, and the state there, deflated
Cached = tuple[int, int, bytes]

_TABLE = """CREATE TABLE snapshot (   -- derived: cached folds
  line INTEGER NOT NULL,
  position INTEGER NOT NULL,
  state BLOB NOT NULL,          -- JSON, deflated
  PRIMARY KEY (line, position)
) STRICT"""


def empty() -> State:
    """Return the state before any event."""
    return {
        "tasks": {},  # task → [task, status, handoff]: seqs, 0 for none; newest last
        "decisions": {},  # key → [seq, outcome]
        "facts": {},  # key → [seq, outcome]
        "constraints": {},  # seq → 1
        "fleet": {},  # task and agent → seq
        "overruled": [],  # [old seq, new seq]
        "blockers": {},  # command → [first seq, last seq, occurrences]
        "runs": {},  # command → [runs, failed, last seq]
        "agents": {},  # agent → how many events are theirs
    }


def fold(state: State, rows: Iterable[Row]) -> State:
    """Apply memories to a state, in order, in place; return it."""
    agents = state["agents"]
    for row in rows:
        agents[row[6]] = agents.get(row[6], 0) + 1
        apply = _APPLY.get(row[1])
        if apply:
            apply(state, *row)
        for word in row[5].split():
            state["constraints"].pop(word[1:], None)
            # Status, fleet, decision and fact have just taken the place of what they supersede; a merge takes none,
            # nor does what was purged.
            if row[1] == "merge" or not (row[2] or row[3]):
                _end(state, int(word[1:]))
    return state


def _renew(table: dict[str, Any], key: str, value: Any, limit: int = 0) -> None:
    """Put an entry last, and let the oldest go when there are too many."""
    table.pop(key, None)
    table[key] = value
    if limit and len(table) > limit:
        del table[next(iter(table))]


def _task(state: State, seq: int, kind: str, task: str, *_rest: str) -> None:
    if not task:
        return
    entry = list(state["tasks"].get(task, (0, 0, 0)))
    spot = ("task", "status_update", "task_handoff").index(kind)
    entry[spot] = max(seq, entry[spot])  # A merge brings older ones in later.
    _renew(state["tasks"], task, entry, TASKS)


def _constraint(state: State, seq: int, *_rest: str) -> None:
    state["constraints"][str(seq)] = 1


def _fleet(state: State, seq: int, _kind: str, task: str, *_rest: str) -> None:
    _renew(state["fleet"], task, max(seq, state["fleet"].get(task, 0)), TASKS)


def _keyed(state: State, seq: int, kind: str, _task: str, key: str, outcome: str, *_rest: str) -> None:
    if not key:
        return
    table = state["decisions" if kind == "decision" else "facts"]
    old = table.get(key)
    if old and old[1] != outcome:
        state["overruled"] = [*state["overruled"], [old[0], seq]][-OVERRULED:]
    _renew(table, key, [seq, outcome])


def _run(state: State, seq: int, _kind: str, _task: str, command: str, outcome: str, *_rest: str) -> None:
    if not (command and outcome):
        return
    failed = outcome != "0"
    runs, failures, last = state["runs"].get(command, (0, 0, 0))
    _renew(state["runs"], command, [runs + 1, failures + failed, max(seq, last)], RUNS)
    if seq < last:  # A merge brought it in; what came out later still holds.
        return
    if failed:
        first, _, times = state["blockers"].get(command, (seq, seq, 0))
        _renew(state["blockers"], command, [first, seq, times + 1], BLOCKERS)
    else:
        state["blockers"].pop(command, None)


_APPLY: dict[str, Callable[..., None]] = {
    "task": _task,
    "status_update": _task,
    "task_handoff": _task,
    "discovered_constraint": _constraint,
    "fleet_member": _fleet,
    "decision": _keyed,
    "fact": _keyed,
    "run": _run,
}


def _end(state: State, target: int) -> None:
    """Take out whatever an event said that a merge decided against."""
    for table in ("decisions", "facts"):
        for key in [key for key, entry in state[table].items() if entry[0] == target]:
            del state[table][key]
    for task in [task for task, entry in state["tasks"].items() if target in entry]:
        entry = [0 if seq == target else seq for seq in state["tasks"][task]]
        state["tasks"][task] = entry
        if not any(entry):
            del state["tasks"][task]
    for name in [name for name, seq in state["fleet"].items() if seq == target]:
        del state["fleet"][name]


class Snapshots:
    """The projection of cached states."""

    name = "state"
    version = 2
    kinds: frozenset[str] = frozenset()

    def create(self, connection: sqlite3.Connection) -> None:
        """Lay the empty table."""
        connection.execute(_TABLE)

    def drop(self, connection: sqlite3.Connection) -> None:
        """Remove the table."""
        connection.execute("DROP TABLE IF EXISTS snapshot")

    def follow(self, connection: sqlite3.Connection, events: Sequence[Event]) -> None:
        """Cache the state at the first event of each line but sessions', and at every `SPACING`th."""
        for event in events:
            is_due = event.position % SPACING == 0 or (event.position == 1 and event.line > 1)
            if is_due and event.kind not in _SPOKEN:
                _lay(connection, _made(connection, event.line, event.position))

    def gather(self, connection: sqlite3.Connection) -> tuple[int, int, list[Cached]] | None:
        """Make the states to be cached since the last time, when there may be one."""
        start = _upto(connection)
        # No further than the memories that are taken in with them: to look at all that waits may cost too much.
        end = min(start + CHUNK, rows.upto(connection) + CHUNK, log.last(connection))
        if end - start < SPACING:
            return None
        query = (
            "SELECT line, position FROM event WHERE seq BETWEEN ? AND ?"
            f" AND (position % ? = 0 OR (position = 1 AND line > 1)) AND kind NOT IN {_SPOKEN} ORDER BY seq"
        )
        places = connection.execute(query, (start + 1, end, SPACING)).fetchall()
        return start, end, [one for place in places for one in _made(connection, *place)]

    def settle(self, connection: sqlite3.Connection, gathered: tuple[int, int, list[Cached]]) -> bool:
        """Cache what was made, unless another writer was faster; tell whether it was done."""
        start, end, made = gathered
        is_first = _upto(connection) == start
        if is_first:
            _lay(connection, made)
            connection.execute("UPDATE projection SET seq = ? WHERE name = 'state'", (end,))
        return is_first

    def forget(self, connection: sqlite3.Connection, events: Sequence[Event]) -> None:
        """Drop the caches: states name keys and commands."""
        if events:
            connection.execute("DELETE FROM snapshot")


def _upto(connection: sqlite3.Connection) -> int:
    """Return the last event at which it was seen to whether the state is cached."""
    row = connection.execute("SELECT seq FROM projection WHERE name = 'state'").fetchone()
    return int(row[0]) if row else 0


def _made(connection: sqlite3.Connection, line: int, position: int) -> list[Cached]:
    """Return the state at a place, ready to be cached; none where the one before is near and large."""
    row = connection.execute(
        "SELECT position, length(state) FROM snapshot WHERE line = ? AND position < ? ORDER BY position DESC LIMIT 1",
        (line, position),
    ).fetchone()
    if row and (position - row[0]) * 64 < row[1]:
        return []
    packed = zlib.compress(json.dumps(state_at(connection, line, position), separators=(",", ":")).encode(), 3)
    return [(line, position, packed)]


def _lay(connection: sqlite3.Connection, made: Sequence[Cached]) -> None:
    connection.executemany("INSERT OR REPLACE INTO snapshot VALUES (?, ?, ?)", made)


def state_at(connection: sqlite3.Connection, line: int, position: int) -> State:
    """Return the state at a place: the nearest cached one, and the events since."""
    steps: list[tuple[int, int, int]] = []
    while True:
        cached = connection.execute(
            "SELECT position, state FROM snapshot WHERE line = ? AND position <= ? ORDER BY position DESC LIMIT 1",
            (line, position),
        ).fetchone()
        steps.append((line, cached[0] + 1 if cached else 1, position))
        if cached:
            state = _unpack(cached[1])
            break
        parent, at, merged, merged_at = connection.execute(
            "SELECT parent, at, merged, merged_at FROM line WHERE line = ?", (line,)
        ).fetchone()
        if merged is not None:
            state = _merged(connection, line, (parent, at), (merged, merged_at))
            break
        if parent is None:
            state = empty()
            break
        line, position = parent, at
    for step in reversed(steps):
        fold(state, rows_between(connection, *step))
    return state


def strays(connection: sqlite3.Connection, cached: Iterable[Cached]) -> int:
    """Return how many cached states are not what the events say, and cache those that are.

    The tables of this connection have to be right, and no state cached in them.
    """
    ends = dict(connection.execute("SELECT line, max(position) FROM event GROUP BY line"))
    count = 0
    for line, position, packed in sorted(cached):
        is_right = 0 < position <= ends.get(line, 0) and _is(state_at(connection, line, position), packed)
        _lay(connection, [(line, position, packed)] if is_right else [])
        count += not is_right
    return count


def _is(state: State, cached: bytes) -> bool:
    try:
        return _unpack(cached) == state
    except Corrupt:
        return False


def _unpack(cached: bytes) -> State:
    try:
        state: State = json.loads(zlib.decompress(cached))
    except (zlib.error, ValueError) as error:
        raise Corrupt("a cached state cannot be read", hint="run 'bede reindex'") from error
    return state


def _merged(connection: sqlite3.Connection, line: int, ours: tuple[int, int], theirs: tuple[int, int]) -> State:
    """Return the state of a merge before its own event: ours, then what only theirs saw, in order of arrival.

    A decision or fact of theirs that something later in theirs, or the merge itself, ended must not take the place
    of ours.
    """
    rows = only(connection, spans(connection, *theirs), spans(connection, *ours))
    merge = rows_between(connection, line, 1, 1)
    ended = {int(word[1:]) for row in (*rows, *merge) for word in row[5].split()}
    lost = {row[0] for row in rows if row[1] in ("decision", "fact") and row[0] in ended}
    kept = [(*row[:1], "", *row[2:]) if row[0] in lost else row for row in rows]
    return fold(state_at(connection, *ours), kept)


def only(connection: sqlite3.Connection, one: Spans, other: Spans) -> list[Row]:
    """Return the memories that `one` sees and `other` does not, in order of arrival."""
    return sorted(row for part in beyond(one, other) for row in rows_between(connection, *part))


def rows_between(connection: sqlite3.Connection, line: int, start: int, end: int) -> Iterable[Row]:
    """Return the events on a stretch of one line, oldest first."""
    query = (
        "SELECT e.seq, coalesce(m.kind, ''), coalesce(m.task, ''), coalesce(m.key, ''), coalesce(m.outcome, ''), "
        "coalesce(m.ends, ''), e.actor FROM event e LEFT JOIN memory m USING (seq) "
        "WHERE e.seq BETWEEN ? AND ? ORDER BY e.seq"
    )
    parts = ranges(connection, line, start, end)
    late = rows.waiting(connection) if parts and parts[-1][1] > rows.upto(connection) else ()
    for first, last in parts:
        found, fresh = connection.execute(query, (first, last)), rows.among(late, first, last) if late else {}
        yield from (_row(fresh[row[0]]) if row[0] in fresh else row for row in found)


def _row(one: rows.Waiting) -> Row:
    row = one.row
    return row.seq, row.kind, row.task, row.key, row.outcome, row.spelled(), one.actor
