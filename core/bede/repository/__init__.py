"""The Repository: the one file, the only door to its canonical rows, and a narrow one.

Reading goes through `snapshot`, writing through `write`; both give a transaction on which everything else hangs.
An append is one `BEGIN IMMEDIATE`: payloads, events, ref, journal row and the projections that were handed in. What
was acknowledged is on disk. A second Repository, on another database, has to offer just what this file offers.
"""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from bede.errors import Busy, Conflict, NotFound, TooNew, UsageError
from bede.records import Draft, Entry, Event, Move, Place, Spans, Verdict
from bede.repository import connection as door
from bede.repository import journal, lines, log, refs, schema
from bede.repository.connection import WAIT, Connection

__all__ = ["Projection", "Reading", "Repository", "Writing"]


class Projection(Protocol):
    """A table derived from events: it follows the log, and may be dropped and built again at any moment."""

    name: str
    version: int

    def create(self, connection: sqlite3.Connection) -> None:
        """Lay the empty tables."""

    def drop(self, connection: sqlite3.Connection) -> None:
        """Remove the tables, also where only some of them exist."""

    def follow(self, connection: sqlite3.Connection, events: Sequence[Event]) -> None:
        """Take in events in order of arrival, inside the transaction that brought them."""

    def forget(self, connection: sqlite3.Connection, events: Sequence[Event]) -> None:
        """Remove every trace of these events' payloads."""


class Reading:
    """One unchanging view of the file."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def refs(self) -> dict[str, int]:
        """Return every ref and the arrival number of its event."""
        return refs.all_refs(self.connection)

    def tip(self, ref: str) -> Place:
        """Return where a ref's event lies; NotFound where there is no such ref."""
        return log.place(self.connection, refs.tip(self.connection, ref))

    def place(self, seq: int) -> Place:
        """Return where the event of an arrival number lies."""
        return log.place(self.connection, seq)

    def resolve(self, text: str) -> Place:
        """Return the event that a ref, `REF~N` or a unique prefix of an id names.

        Raises:
            NotFound: nothing or several things fit, or the history does not go back so many steps.
            UsageError: the text can be none of these.
        """
        name, tilde, steps = text.partition("~")
        if tilde and steps and not (steps.isdecimal() and len(steps) < 19):
            raise UsageError(f"not an event: {text!r}", hint="write a branch, BRANCH~N, or an event id")
        seq = refs.find(self.connection, name)
        if seq:
            found = log.place(self.connection, seq)
        elif len(name) >= 4 and len(name) <= 64 and all(digit in "0123456789abcdef" for digit in name.lower()):
            found = log.find(self.connection, name.lower())
        else:
            raise NotFound(
                f"no branch or event {name!r}",
                hint="'bede branches' and 'bede log' list them; of an id at least 4 digits are needed",
            )
        return self.back(found, int(steps or 1)) if tilde else found

    def back(self, place: Place, steps: int) -> Place:
        """Return the event `steps` before a place, along first parents."""
        connection = self.connection
        while steps >= place.position:
            steps -= place.position
            row = connection.execute("SELECT parent, at FROM line WHERE line = ?", (place.line,)).fetchone()
            if row[0] is None:
                raise NotFound("the history does not go back that far", hint="'bede log' shows how far it goes")
            place = self.at(*row)
        return self.at(place.line, place.position - steps)

    def at(self, line: int, position: int) -> Place:
        """Return the event at a position of a line."""
        row = self.connection.execute(
            "SELECT seq, id FROM event WHERE line = ? AND position = ?", (line, position)
        ).fetchone()
        return Place(row[0], row[1].hex(), line, position)

    def meeting(self, one: Spans, other: Spans) -> Place:
        """Return the newest event that two views share: where two branches parted.

        Raises:
            UsageError: they share none.
        """
        ends = [self.at(line, position) for line, position in lines.common(one, other).items()]
        if not ends:
            raise UsageError("the two share no event", hint="compare branches that were forked from one another")
        return max(ends, key=lambda place: place.seq)

    def spans(self, place: Place) -> Spans:
        """Return what the event at a place can see."""
        return lines.spans(self.connection, place.line, place.position)

    def load(self, seqs: Sequence[int]) -> dict[int, Event]:
        """Return events by arrival number."""
        return log.load(self.connection, seqs)

    def walk(self, seen: Spans, kinds: Sequence[str] = ()) -> Iterator[Event]:
        """Yield what a view sees, newest first."""
        return log.walk(self.connection, seen, kinds=kinds)

    def between(self, ranges: Sequence[tuple[int, int, int]]) -> Iterator[Event]:
        """Yield the events of ranges (line, from, to), range by range, oldest first in each."""
        for line, start, end in ranges:
            yield from log.between(self.connection, line, start, end)

    def journal(self) -> Iterator[Entry]:
        """Yield the operations, newest first."""
        return journal.backwards(self.connection)

    def entry(self, number: int) -> Entry:
        """Return one operation; NotFound where there is none."""
        return journal.entry(self.connection, number)

    def head(self) -> tuple[int, str]:
        """Return number and hash of the newest operation."""
        return journal.head(self.connection)

    def current(self, worktree: str) -> str:
        """Return the branch that a worktree is on."""
        return refs.current(self.connection, worktree)

    def is_checked_out(self, branch: str) -> bool:
        """Tell whether any worktree is on a branch."""
        return refs.is_checked_out(self.connection, branch)

    def project(self) -> dict[str, Any]:
        """Return who this memory is and who may use the file."""
        cursor = self.connection.execute(
            "SELECT uuid, created_at, min_reader_version, min_writer_version, upgrade_hint FROM project"
        )
        names = [column[0] for column in cursor.description]
        row: dict[str, Any] = dict(zip(names, cursor.fetchone(), strict=True))
        row["format_version"] = self.connection.execute("PRAGMA user_version").fetchone()[0]
        return row

    def counts(self) -> dict[str, int]:
        """Return how many events, operations and refs there are."""
        return {
            "events": log.last(self.connection),
            "operations": journal.head(self.connection)[0],
            "refs": len(refs.all_refs(self.connection)),
        }


class Head:
    """The newest rows, remembered between the writes of one connection for as long as nobody else wrote."""

    __slots__ = ("ends", "hash", "last", "number", "tips", "version")

    def __init__(self, connection: Connection) -> None:
        self.version = _version(connection)
        self.number, self.hash = journal.head(connection)
        self.last = log.last(connection)
        self.tips: dict[str, Place] = {}
        self.ends: dict[int, int] = {}


class Writing(Reading):
    """The one write transaction: it gathers events and moves, and ends as one operation."""

    def __init__(
        self, connection: Connection, head: Head, projections: Sequence[Projection], note: dict[str, Any]
    ) -> None:
        super().__init__(connection)
        self._note = note
        self._head = head
        self._projections = projections
        self._events: list[Event] = []
        self._moves: dict[str, tuple[Place | None, Place | None]] = {}

    def find(self, ref: str) -> Place | None:
        """Return where a ref's event lies, None where there is no such ref."""
        known = self._head.tips.get(ref)
        if known is None:
            seq = refs.find(self.connection, ref)
            known = log.place(self.connection, seq) if seq else None
        return known

    def append(self, ref: str, drafts: Sequence[Draft], *, merged: Place | None = None) -> list[Event]:
        """Append events to a ref, in order; the last of them becomes its tip.

        `merged` is the second parent of the first one. A draft whose source is already in the log is left out.
        """
        parent, events = self.find(ref), []
        for draft in drafts:
            if draft.source and log.by_source(self.connection, draft.source):
                continue
            parents = [place for place in (parent, merged) if place]
            event = log.insert(self.connection, self._head.ends, draft, log.prepare(draft), parents)
            parent, merged = Place(event.seq, event.id, event.line, event.position), None
            events.append(event)
        if events:
            self.move(ref, parent)
            self._head.last = events[-1].seq
            self._events += events
            for projection in self._projections:
                projection.follow(self.connection, events)
        return events

    def move(self, ref: str, new: Place | None) -> None:
        """Let a ref name another event, making it where it is new; None deletes it."""
        old = self.find(ref)
        if old == new:
            return
        refs.put(self.connection, ref, new.seq if new else 0)
        self._moves[ref] = (self._moves.get(ref, (old, None))[0], new)
        self._head.tips.pop(ref, None)
        if new:
            self._head.tips[ref] = new

    def check_out(self, worktree: str, branch: str) -> None:
        """Remember which branch a worktree is on."""
        refs.check_out(self.connection, worktree, branch)

    def purge(self, seqs: Sequence[int]) -> int:
        """Destroy payloads, here and in every projection; the history still verifies.

        The operation notes which they were, for `verify`, and what they ended, since that stays ended. Its verb must
        be `purge`.
        """
        events = [event for event in log.load(self.connection, seqs).values() if event.body is not None]
        for projection in self._projections:
            projection.forget(self.connection, events)
        if events:
            ends = {str(event.seq): event.body["ends"] for event in events if event.body and "ends" in event.body}
            self._note["seqs"] = [*self._note.get("seqs", ()), *(event.seq for event in events)]
            self._note["ends"] = {**self._note.get("ends", {}), **ends}
        return log.purge(self.connection, [event.seq for event in events])

    def close(self, verb: str, actor: str, at: int) -> None:
        """End the transaction as one operation of the journal; as none where nothing changed."""
        names, moves = {0: "-"}, []
        for ref, (old, new) in self._moves.items():
            names.update({place.seq: place.id for place in (old, new) if place})
            if old != new:
                moves.append(Move(ref, old.seq if old else 0, new.seq if new else 0))
        if not (moves or self._events or self._note):
            return
        head = self._head
        row = Entry(head.number + 1, verb, actor, at, self._note, tuple(moves), head.last, "")
        head.hash = journal.append(self.connection, row, head.hash, names, [event.id for event in self._events])
        head.number += 1


def _version(connection: Connection) -> int:
    """Return SQLite's counter of other connections' commits."""
    return int(connection.execute("PRAGMA data_version").fetchone()[0])


class Repository:
    """One open database file."""

    def __init__(
        self, connection: Connection, projections: Sequence[Projection], *, read_only: bool, wait: float
    ) -> None:
        self.connection = connection
        self.path = connection.path
        self.read_only = read_only
        self._projections = projections
        self._wait = wait
        self._head: Head | None = None

    @classmethod
    def open(
        cls,
        path: Path,
        projections: Sequence[Projection] = (),
        *,
        read_only: bool = False,
        wait: float = WAIT,
    ) -> Repository:
        """Open an existing file, and bring its projections up to this version of the code.

        Raises:
            RepositoryNotFound, TooNew, Corrupt, Unavailable, Busy: see `connection.connect`.
        """
        connection = door.connect(path, read_only=read_only, wait=wait)
        repository = cls(connection, projections, read_only=read_only or connection.refusal is not None, wait=wait)
        try:
            if not repository.read_only and repository._stale():
                repository.reindex()
        except BaseException:
            repository.close()
            raise
        return repository

    @classmethod
    def create(cls, path: Path, projections: Sequence[Projection], *, actor: str, at: int) -> Repository:
        """Make the file, readable by its owner alone, with a project's identity and its first event.

        It appears under its name when it is whole, so that nobody meets half of it, whenever this process ends.

        Raises:
            Conflict: there is a file already.
            Unavailable: the system refuses.
        """
        draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
        with door.translated(path):
            try:
                os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
                draft.chmod(0o600)
                _lay(draft, actor, at)
                with closing(cls.open(draft, projections)) as repository:
                    # All of it has to be in the one file: closing would try as much, and be silent if that failed.
                    door.retry(repository._truncate, WAIT)
                _publish(draft, path)
            finally:
                for end in ("", "-wal", "-shm", "-journal"):
                    draft.with_name(draft.name + end).unlink(missing_ok=True)
        return cls.open(path, projections)

    def close(self) -> None:
        """Close the file. Nothing is pending: what was acknowledged is on disk."""
        self.connection.close()

    @contextmanager
    def snapshot(self) -> Iterator[Reading]:
        """Hold one unchanging view."""
        with door.snapshot(self.connection, self._wait):
            yield Reading(self.connection)

    @contextmanager
    def write(self, verb: str, actor: str, at: int, note: dict[str, Any] | None = None) -> Iterator[Writing]:
        """Hold the one write transaction; what it did becomes one operation of the journal.

        A `note` given here may be filled until the end. All or nothing: an exception inside leaves no trace.

        Raises:
            TooNew: the file is open for reading only.
            Busy: another writer held it past the deadline.
        """
        self._check_writable()
        with door.immediate(self.connection, self._wait):
            head, self._head = self._head, None
            if head is None or head.version != _version(self.connection):
                head = Head(self.connection)
                self._agree()
            writing = Writing(self.connection, head, self._projections, {} if note is None else note)
            yield writing
            writing.close(verb, actor, at)
        self._head = head

    def _check_writable(self) -> None:
        if self.connection.refusal:
            raise self.connection.refusal
        if self.read_only:
            raise TooNew("this store is open for reading only", hint="start without --read-only to write")

    def verify(self, anchor: tuple[int, str] | None = None) -> Verdict:
        """Recompute the whole history; see `verify.verify`."""
        from bede.repository.verify import verify

        with self.snapshot():
            return verify(self.connection, anchor)

    def integrity(self) -> list[str]:
        """Return what SQLite's own integrity check says; `["ok"]` when all is well."""
        with self.snapshot():
            return [str(row[0]) for row in self.connection.execute("PRAGMA integrity_check(20)")]

    def reindex(self) -> int:
        """Drop every projection and build it again from the log; return how many events it read."""
        self._check_writable()
        with door.immediate(self.connection, self._wait):
            return self._rebuild()

    def _rebuild(self) -> int:
        """Build the projections again, inside the caller's transaction."""
        count = 0
        for projection in self._projections:
            projection.drop(self.connection)
            projection.create(self.connection)
        batch: list[Event] = []
        left = journal.purged(self.connection)
        for event in log.after(self.connection, 0):
            batch.append(event if event.body is not None else replace(event, body=left.get(event.seq, {})))
            if len(batch) == 1000:
                self._follow(batch)
                count, batch = count + len(batch), []
        self._follow(batch)
        self.connection.execute("DELETE FROM projection")
        seq = log.last(self.connection)
        for projection in self._projections:
            row = (projection.name, projection.version, seq)
            self.connection.execute("INSERT INTO projection VALUES (?, ?, ?)", row)
        return count + len(batch)

    def wipe(self) -> None:
        """Rewrite the file without its free pages and empty the write-ahead log, so that nothing purged is left in it.

        Raises:
            Busy: other connections read from the log; the purge itself is done.
        """
        with door.translated(self.path):
            door.retry(lambda: self.connection.execute("VACUUM"), self._wait)
            door.retry(self._truncate, self._wait)

    def _truncate(self) -> None:
        busy, *_ = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise Busy(
                "another process still reads the write-ahead log",
                hint="run 'bede purge' again when it is done",
            )

    def _follow(self, events: list[Event]) -> None:
        for projection in self._projections:
            projection.follow(self.connection, events)

    def _stale(self) -> bool:
        with self.snapshot():
            stored = self._versions()
        return any(stored.get(item.name) != item.version for item in self._projections)

    def _versions(self) -> dict[str, int]:
        return dict(self.connection.execute("SELECT name, version FROM projection"))

    def _agree(self) -> None:
        """Make sure that who writes now follows with every projection there is; those it does not know become stale.

        Looked at again only after somebody else wrote, so that an append need not pay for it.
        """
        stored, ours = self._versions(), {item.name: item.version for item in self._projections}
        if any(stored.get(name) != version for name, version in ours.items()):
            self._rebuild()
        for name in stored.keys() - ours.keys():
            self.connection.execute("UPDATE projection SET version = 0 WHERE name = ?", (name,))


def _publish(draft: Path, path: Path) -> None:
    """Let a whole file appear under its name, unless there is one."""
    try:
        try:
            os.link(draft, path)
        except FileExistsError:
            raise
        except OSError:  # A file system without hard links.
            if path.exists():
                raise FileExistsError from None
            draft.rename(path)
    except FileExistsError as error:
        raise Conflict(f"there is a database already: {path}") from error


def _lay(path: Path, actor: str, at: int) -> None:
    connection = sqlite3.connect(path, isolation_level=None, factory=Connection)
    try:
        connection.execute(f"PRAGMA page_size = {schema.PAGE_SIZE}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        schema.create(connection)
        secret = os.urandom(32)
        row = (str(uuid.uuid4()), secret, at, schema.MIN_READER, schema.MIN_WRITER, schema.UPGRADE_HINT)
        connection.execute("INSERT INTO project VALUES (?, ?, ?, ?, ?, ?)", row)
        writing = Writing(connection, Head(connection), (), {})
        writing.append(refs.MAIN, [Draft("project", schema.declare(schema.FORMAT, *row), actor, at)])
        writing.close("init", actor, at)
        connection.execute("COMMIT")
    finally:
        connection.close()
