"""The one write transaction, and what has to follow it: the projections.

It gathers events and moves of refs, and ends as one operation of the journal.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Protocol

from bede.quick import replace
from bede.records import Draft, Event, Place
from bede.repository import journal, log, refs
from bede.repository.connection import Connection
from bede.repository.reading import Reading

#: What is left of a purged event of a session: no word of it, but its place.
LEFT = ("session", "key", "by", "at", "until", "side", "origin", "keys", "whole")
#: How many events arrive between two looks at whether a batch is ripe.
ROUND = 64


class Projection(Protocol):
    """A table derived from events: it follows the log, and may be dropped and built again at any moment."""

    name: str
    version: int
    #: Which kinds of events it follows as they are appended; whatever else concerns it waits in the log.
    kinds: frozenset[str]

    def create(self, connection: sqlite3.Connection) -> None:
        """Lay the empty tables."""

    def drop(self, connection: sqlite3.Connection) -> None:
        """Remove the tables, also where only some of them exist."""

    def follow(self, connection: sqlite3.Connection, events: Sequence[Event]) -> None:
        """Take in events in order of arrival, inside the transaction that brought them."""

    def forget(self, connection: sqlite3.Connection, events: Sequence[Event]) -> None:
        """Remove every trace of these events' payloads."""


class Ripening(Projection, Protocol):
    """A projection that takes events in later, by the batch; whoever reads it looks at the log for the rest."""

    def gather(self, connection: sqlite3.Connection) -> Any | None:
        """Make ready what waits, without the writer's lock; None while it is not worth it."""

    def settle(self, connection: sqlite3.Connection, gathered: Any) -> bool:
        """Take in what was made ready, inside a write transaction, unless another writer did; tell whether it was."""


class Head:
    """The newest rows, remembered between the writes of one connection for as long as nobody else wrote."""

    __slots__ = ("ends", "hash", "last", "number", "tips", "version")

    def __init__(self, connection: Connection, version: int = 0) -> None:
        self.version = version
        self.number, self.hash, self.last = journal.head(connection)
        self.tips: dict[str, Place] = {}
        self.ends: dict[int, int] = {}


class Writing(Reading):
    """The one write transaction: it gathers events and moves, and ends as one operation."""

    def __init__(
        self, connection: Connection, head: Head, projections: Sequence[Projection], note: dict[str, Any]
    ) -> None:
        super().__init__(connection)
        self._note = note
        self.newest = head
        self.before = head.last
        self._projections = projections
        self._events: list[Event] = []
        self._moves: dict[str, tuple[Place | None, Place | None]] = {}

    def find(self, ref: str) -> Place | None:
        """Return where a ref's event lies, None where there is no such ref."""
        known = self.newest.tips.get(ref)
        if known is None and (known := refs.place(self.connection, ref)):
            self.newest.tips[ref] = known
        return known

    def append(self, ref: str, drafts: Sequence[Draft], *, merged: Place | None = None) -> list[Event]:
        """Append events to a ref, in order; the last of them becomes its tip.

        `merged` is the second parent of the first one. A draft whose source is already in the log is left out.
        """
        parent, events = self.find(ref), []
        sources = [draft.source for draft in drafts if draft.source]
        known = log.sources_in(self.connection, sources) if sources else set()
        for draft in drafts:
            if draft.source in known:
                continue
            if draft.source:
                known.add(draft.source)
            parents = [place for place in (parent, merged) if place]
            event = log.insert(self.connection, self.newest.ends, draft, log.prepare(draft), parents)
            parent, merged = Place(event.seq, event.id, event.line, event.position), None
            events.append(event)
        if events:
            self.move(ref, parent)
            self.newest.last = events[-1].seq
            self._events += events
            kinds = {event.kind for event in events}
            for projection in self._projections:
                if not kinds.isdisjoint(projection.kinds):
                    projection.follow(self.connection, events)
        return events

    def adopt(self, events: Sequence[Event]) -> None:
        """Count events that `union` wrote to this operation, and let every projection follow them."""
        self.newest.last = events[-1].seq
        self._events += [replace(event, body=None) for event in events]
        for projection in self._projections:  # Also those that else would wait: only here their bodies are at hand.
            projection.follow(self.connection, events)

    def move(self, ref: str, new: Place | None) -> None:
        """Let a ref name another event, making it where it is new; None deletes it."""
        old, seq = self.find(ref), new.seq if new else 0
        if seq == (old.seq if old else 0):
            return
        refs.put(self.connection, ref, seq)
        self._moves[ref] = (self._moves[ref][0] if ref in self._moves else old, new)
        if new:
            self.newest.tips[ref] = new
        else:
            self.newest.tips.pop(ref, None)

    def check_out(self, worktree: str, branch: str) -> None:
        """Remember which branch a worktree is on."""
        refs.check_out(self.connection, worktree, branch)

    def purge(self, seqs: Sequence[int]) -> int:
        """Destroy payloads, here and in every projection; the history still verifies.

        The operation notes which they were, for `verify`; what they ended, since that stays ended; and which turn of
        which session they were, since that is never read again. Its verb must be `purge`.
        """
        events = [event for event in log.load(self.connection, seqs).values() if event.body is not None]
        for projection in self._projections:
            projection.forget(self.connection, events)
        if events:
            ends = {str(event.seq): event.body["ends"] for event in events if event.body and "ends" in event.body}
            turns = {
                str(event.seq): {name: event.body[name] for name in LEFT if name in event.body}
                for event in events
                if event.body and event.kind in ("session", "turn", "rewind")
            }
            if turns:
                self._note["turns"] = {**self._note.get("turns", {}), **turns}
            self._note["seqs"] = [*self._note.get("seqs", ()), *(event.seq for event in events)]
            self._note["ends"] = {**self._note.get("ends", {}), **ends}
        return log.purge(self.connection, [event.seq for event in events])

    def close(self, verb: str, actor: str, at: int) -> None:
        """End the transaction as one operation of the journal; as none where nothing changed."""
        ways = [(ref, old, new) for ref, (old, new) in self._moves.items() if (old and old.seq) != (new and new.seq)]
        if not (ways or self._events or self._note):
            return
        head, appended = self.newest, [event.id for event in self._events]
        head.number += 1
        head.hash = journal.append(
            self.connection, head.number, verb, actor, at, self._note, ways, head.last, head.hash, appended
        )
