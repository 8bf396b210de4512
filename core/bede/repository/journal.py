"""The journal: every operation once, chained by hash.

It is the reflog, the audit log and the tamper evidence in one. A row tells verb, actor, time, every ref it moved
and, through its hash, the id of every event it appended. Undoing something is one more operation.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bede.errors import Corrupt, Internal, NotFound
from bede.identity import ZERO, canonical, operation_hash
from bede.records import Entry, Move, Place

_COLUMNS = "number, verb, actor, at, note, moves, last, hash"
#: The verbs whose notes may tell of payloads that are gone: what was purged elsewhere comes in as it is.
PURGING = frozenset({"purge", "bundle", "init"})
_PURGING = tuple(sorted(PURGING))  # as SQL spells a list, too


#: A ref's way from one event to another, neither or one of which may be none.
Way = tuple[str, Place | None, Place | None]


def append(
    connection: sqlite3.Connection,
    number: int,
    verb: str,
    actor: str,
    at: int,
    note: Mapping[str, Any],
    ways: Sequence[Way],
    last: int,
    before: str,
    events: Sequence[str],
) -> str:
    """Write one operation and return its hex hash.

    `before` is the hash of the operation before it, `last` the newest event's arrival number, `events` the hex ids of
    those it appended, in order of arrival.

    Raises:
        Internal: a name does not fit on its line, so that the hash would prove nothing.
    """
    text, named, moves = canonical(note).decode() if note else "", "", ""
    for ref, old, new in ways:
        named += f"{ref} {old.id if old else '-'} {new.id if new else '-'}\n"
        moves += f"{ref} {old.seq if old else 0} {new.seq if new else 0}\n"
    if "\n" in verb + actor or moves.count(" ") != 2 * len(ways) or moves.count("\n") != len(ways):
        raise Internal(f"operation {number} has a name with a space or a line feed")
    value = operation_hash(before, number, verb, actor, at, text, named, events)
    row = (number, verb, actor, at, text, moves, last, value)
    connection.execute("INSERT INTO operation VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    return value.hex()


def head(connection: sqlite3.Connection) -> tuple[int, str, int]:
    """Return number and hex hash of the newest operation, and the newest event then; 0 and zeros before the first."""
    row = connection.execute("SELECT number, hash, last FROM operation ORDER BY number DESC LIMIT 1").fetchone()
    return (row[0], row[1].hex(), row[2]) if row else (0, ZERO, 0)


def entry(connection: sqlite3.Connection, number: int) -> Entry:
    """Return one operation.

    Raises:
        NotFound: there is none of that number.
    """
    row = connection.execute(f"SELECT {_COLUMNS} FROM operation WHERE number = ?", (number,)).fetchone()
    if row is None:
        raise NotFound(f"no operation {number}", hint="'bede log --operations' lists them")
    return _entry(row)


def backwards(connection: sqlite3.Connection) -> Iterator[Entry]:
    """Yield the operations, newest first."""
    yield from map(_entry, connection.execute(f"SELECT {_COLUMNS} FROM operation ORDER BY number DESC"))


def purged(connection: sqlite3.Connection) -> dict[int, dict[str, Any]]:
    """Return what is left of purged bodies, by arrival number: what they ended, and of which turn they told."""
    left: dict[int, dict[str, Any]] = {}
    query = f"SELECT note FROM operation WHERE verb IN {_PURGING} AND note <> ''"
    for (note,) in connection.execute(query):
        try:
            told = json.loads(note)
            left.update((int(seq), {"ends": ends}) for seq, ends in told.get("ends", {}).items())
            left.update((int(seq), {**rest, "parts": []}) for seq, rest in told.get("turns", {}).items())
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise Corrupt("the note of a purge is unreadable", hint="run 'bede verify'") from error
    return left


def has_purged(connection: sqlite3.Connection, number: int) -> bool:
    """Tell whether an operation after this one destroyed payloads."""
    query = f"SELECT 1 FROM operation WHERE number > ? AND verb IN {_PURGING} LIMIT 1"
    return connection.execute(query, (number,)).fetchone() is not None


def brought(connection: sqlite3.Connection) -> Callable[[int], bool]:
    """Return what tells, of an event's arrival number, whether it came from another machine, in a bundle.

    It looks operations up by their number, so it costs a few reads however long the journal is.
    """
    newest, known = head(connection)[0], [0, 0, False]

    def is_brought(seq: int) -> bool:
        if not known[0] < seq <= known[1]:
            known[:] = _arrival(connection, seq, newest)
        return bool(known[2])

    return is_brought


def _arrival(connection: sqlite3.Connection, seq: int, newest: int) -> tuple[int, int, bool]:
    """Return between which arrival numbers the operation lies that brought an event, and whether a bundle did.

    What no operation has yet is of the one that is being written.
    """
    low, high = 0, newest + 1
    while high - low > 1:
        middle = (low + high) // 2
        if _ended(connection, middle)[0] < seq:
            low = middle
        else:
            high = middle
    before = _ended(connection, low)[0] if low else 0
    if high > newest:
        return before, seq, False
    last, verb, note = _ended(connection, high)
    return before, last, verb == "bundle" or (verb == "init" and note != "")


def _ended(connection: sqlite3.Connection, number: int) -> tuple[int, str, str]:
    row = connection.execute("SELECT last, verb, note FROM operation WHERE number = ?", (number,)).fetchone()
    if row is None:
        raise Corrupt(f"operation {number} is missing", hint="run 'bede verify'")
    return row[0], row[1], row[2]


def parse(text: str) -> tuple[Move, ...]:
    """Read moves back from their lines.

    Raises:
        Corrupt: a line has another shape.
    """
    try:
        fields = [line.split(" ") for line in text.split("\n")[:-1]]
        return tuple(Move(ref, int(old), int(new)) for ref, old, new in fields)
    except ValueError as error:
        raise Corrupt("an operation's moves cannot be read", hint="run 'bede verify'") from error


def _entry(row: tuple[Any, ...]) -> Entry:
    number, verb, actor, at, note, moves, last, value = row
    try:
        told = json.loads(note) if note else {}
    except ValueError as error:
        raise Corrupt(f"operation {number} has an unreadable note", hint="run 'bede verify'") from error
    return Entry(number, verb, actor, at, told, parse(moves), last, value.hex())
