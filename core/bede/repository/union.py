"""Events of other machines: out of this log as they travel, and into it as a set union by id.

What comes in has been checked by whoever calls; what is here already stays exactly as it is, so that a payload which
was purged here never comes back, and one that was purged elsewhere stays. Nothing here names an event by a ref.
"""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any

from bede.errors import Corrupt, Internal
from bede.identity import digest, event_id
from bede.quick import dataclass, field, replace
from bede.records import Draft, Event, Place
from bede.repository import journal, lines, log, schema
from bede.repository.connection import Connection
from bede.repository.reading import Reading
from bede.repository.writing import LEFT, Head, Writing

#: How many events are taken in before the projections follow.
BATCH = 1000
#: Most places that are remembered; the parent of almost every event has just arrived.
_REMEMBERED = 20_000


@dataclass(frozen=True, slots=True)
class Foreign:
    """An event as it travels: all that its id is made of, its parents by id.

    `salt` and `form`, the body's canonical bytes, are empty once the payload was purged. What comes in has `told`, the
    body; of a purged one that is what the projections still have to know of it.
    """

    id: str
    kind: str
    parents: tuple[str, ...]
    actor: str
    source: str
    happened_at: int
    digest: bytes
    salt: bytes = b""
    form: bytes = b""
    told: dict[str, Any] = field(default_factory=dict)


Ranges = list[tuple[int, int]]


def ranges(reading: Reading, parts: Iterable[tuple[int, int, int]]) -> Ranges:
    """Return where the events of parts of lines (line, from, to) are: from seq to seq, in order of arrival."""
    upto: dict[int, list[tuple[int, int]]] = {}
    for line, start, end in parts:
        upto.setdefault(line, []).append((start, end))
    found = [
        part
        for line, spans in upto.items()
        for start, end in _joined(spans)
        for part in lines.ranges(reading.connection, line, start, end)
    ]
    return sorted(found)


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans that overlap as one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def holds(picked: Ranges, seq: int) -> bool:
    """Tell whether an event is among those picked."""
    spot = bisect_right(picked, (seq, 2**63)) - 1
    return spot >= 0 and picked[spot][0] <= seq <= picked[spot][1]


def outgoing(reading: Reading, picked: Ranges) -> Iterator[tuple[Foreign, list[str]]]:
    """Yield the events picked, each behind its parents, with the ids of those parents that were not picked.

    Raises:
        Corrupt: an event is not what its id says.
    """
    ids: dict[int, str] = {}
    left = journal.purged(reading.connection)
    for start, end in picked:
        rows = reading.connection.execute(
            "SELECT seq, id, kind, parent, merged, actor, source, happened_at, digest, salt, body FROM event"
            " WHERE seq BETWEEN ? AND ? ORDER BY seq",
            (start, end),
        )
        for row in rows:
            seqs = [seq for seq in row[3:5] if seq is not None]
            parents = tuple(_named(reading, ids, seq) for seq in seqs)
            found = _foreign(row, parents, left.get(row[0], {}))
            if len(ids) > _REMEMBERED:
                ids.clear()
            ids[row[0]] = found.id
            yield found, [name for seq, name in zip(seqs, parents, strict=True) if not holds(picked, seq)]


def _named(reading: Reading, ids: dict[int, str], seq: int) -> str:
    name = ids.get(seq)
    return reading.place(seq).id if name is None else name


def _foreign(row: tuple[Any, ...], parents: tuple[str, ...], left: dict[str, Any]) -> Foreign:
    seq, identity, kind, _, _, actor, source, happened_at, payload, salt, stored = row
    form = b"" if stored is None else log.unpack(stored)
    payload = payload if stored is None else digest(salt, form)
    if event_id(kind, parents, actor, source, happened_at, payload) != identity:
        raise Corrupt(f"event number {seq} is not what its id says", hint="run 'bede verify'")
    kept = {name: left[name] for name in ("ends", *LEFT) if name in left} if stored is None else {}
    return Foreign(identity.hex(), kind, parents, actor, source, happened_at, payload, salt or b"", form, kept)


def lookup(connection: Connection, identity: str) -> Place | None:
    """Return where the event of a whole id lies, None where there is none."""
    seq = log.seq_of(connection, identity)
    return log.place(connection, seq) if seq else None


class Intake:
    """The taking in of foreign events, in one write transaction; `note` is its operation's own.

    They come parents first, each checked by the caller.
    """

    def __init__(self, writing: Writing, note: dict[str, Any]) -> None:
        self.writing, self.note = writing, note
        self.new = self.known = self.purged = 0
        self._batch: list[Event] = []
        self._places: dict[str, Place] = {}
        loosen(writing.connection)
        if writing.newest.last:
            log.index(writing.connection)

    def take(self, foreign: Foreign) -> None:
        """Take in one, unless it is here already.

        Raises:
            Internal: a parent is missing, or the id is not that of the fields.
        """
        if self.find(foreign.id):
            self.known += 1
            return
        event = self._insert(foreign)
        if event.id != foreign.id:
            raise Internal(f"event {foreign.id} was written as {event.id}")
        self.new += 1
        self._remember(Place(event.seq, event.id, event.line, event.position))
        self._batch.append(event if foreign.salt else self._note_purged(event, foreign.told))
        if len(self._batch) >= BATCH:
            self.settle()

    def find(self, identity: str) -> Place | None:
        """Return where an event lies, also one that has just come in."""
        known = self._places.get(identity)
        if known is None:
            row = self.writing.connection.execute(
                "SELECT e.seq, e.line, e.position FROM event_key k JOIN event e USING (seq)"
                " WHERE k.prefix = ?1 AND e.id = ?2",
                (bytes.fromhex(identity)[:8], bytes.fromhex(identity)),
            ).fetchone()
            known = Place(row[0], identity, row[1], row[2]) if row else None
        return known

    def settle(self) -> None:
        """Let the index of ids and every projection follow what came in."""
        if self._batch:
            log.index(self.writing.connection)
            self.writing.adopt(self._batch)
            self._batch = []

    def _remember(self, place: Place) -> None:
        if len(self._places) >= _REMEMBERED:  # Whatever is older than the batch can be found by the index.
            for name in list(self._places)[:-BATCH]:
                del self._places[name]
        self._places[place.id] = place

    def _insert(self, foreign: Foreign) -> Event:
        parents = [self.find(name) for name in foreign.parents]
        if None in parents:
            raise Internal(f"a parent of event {foreign.id} is missing")
        draft = Draft(foreign.kind, foreign.told, foreign.actor, foreign.happened_at, foreign.source)
        prepared = (foreign.salt, foreign.form, foreign.digest)
        there = [place for place in parents if place]
        return log.insert(self.writing.connection, self.writing.newest.ends, draft, prepared, there)

    def _note_purged(self, event: Event, left: dict[str, Any]) -> Event:
        """Note of an event that was purged where it came from what `purge` notes, and return what is left of it."""
        self.purged += 1
        self.note.setdefault("seqs", []).append(event.seq)
        if "ends" in left:
            self.note.setdefault("ends", {})[str(event.seq)] = left["ends"]
        if turn := {name: left[name] for name in LEFT if name in left}:
            self.note.setdefault("turns", {})[str(event.seq)] = turn
            return replace(event, body={**turn, "parts": []})
        return event


def loosen(connection: Connection) -> None:
    """Let two events have one source: two machines that read one record in another order make two events of it."""
    is_unique = "SELECT 1 FROM pragma_index_list('event') WHERE name = 'event_source' AND \"unique\""
    if connection.execute(is_unique).fetchone():
        connection.execute("DROP INDEX event_source")
        connection.execute("CREATE INDEX event_source ON event (source) WHERE source <> ''")


@dataclass(frozen=True, slots=True)
class Origin:
    """What a copy of a project begins with: the body of its first event, and its secret where that came along."""

    said: dict[str, Any]
    secret: bytes = b""


def begin_copy(connection: Connection, origin: Origin, note: dict[str, Any]) -> Writing:
    """Give an empty file another project's identity, and return what its events are written with.

    Without the project's own secret the copy gets another, which the first operation notes for `verify`.

    Raises:
        Corrupt: the first event does not say who the project is.
    """
    said, secret = origin.said, origin.secret or os.urandom(32)
    try:
        row = [said[name] for name in ("project_id", "created_at", "min_reader_version", "min_writer_version")]
        hint = said["upgrade_hint"]
    except KeyError as error:
        raise Corrupt("the first event does not say who the project is") from error
    if not origin.secret:
        note["own"] = {"secret_digest": hashlib.sha256(secret).hexdigest()}
    connection.execute("INSERT INTO project VALUES (?, ?, ?, ?, ?, ?)", (row[0], secret, *row[1:], hint))
    connection.execute(f"PRAGMA user_version = {schema.FORMAT}")
    return Writing(connection, Head(connection), (), note)
