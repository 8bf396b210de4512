"""One unchanging view of the file: refs, events, what a place can see, the journal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bede.errors import NotFound, UsageError
from bede.quick import replace
from bede.records import Entry, Event, Place, Spans
from bede.repository import journal, lines, log, refs
from bede.repository.connection import Connection


class Reading:
    """One unchanging view of the file."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def refs(self) -> dict[str, int]:
        """Return every ref and the arrival number of its event."""
        return refs.all_refs(self.connection)

    def branches(self) -> dict[str, int]:
        """Return the refs that are branches of thought, and the arrival number of each one's event."""
        return refs.branches(self.connection)

    def tip(self, ref: str) -> Place:
        """Return where a ref's event lies; NotFound where there is no such ref."""
        return log.place(self.connection, refs.tip(self.connection, ref))

    def is_indexed(self) -> bool:
        """Tell whether every event can be found by its id; looks at each of them."""
        return log.is_indexed(self.connection)

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
        ((seq, _),) = lines.ranges(self.connection, line, position, position)
        return log.place(self.connection, seq)

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

    def kinds_of(self, seen: Spans) -> Iterator[tuple[int, str]]:
        """Yield arrival number and kind of what a view sees, newest first."""
        return log.kinds_of(self.connection, seen)

    def walk(self, seen: Spans, kinds: Sequence[str] = ()) -> Iterator[Event]:
        """Yield what a view sees, newest first."""
        return log.walk(self.connection, seen, kinds=kinds)

    def between(self, ranges: Sequence[tuple[int, int, int]]) -> Iterator[Event]:
        """Yield the events of ranges (line, from, to), range by range, oldest first in each."""
        for line, start, end in ranges:
            yield from log.between(self.connection, line, start, end)

    def replay(self) -> Iterator[Event]:
        """Yield every event as projections are told of it, oldest first: of what was purged, what is left."""
        left = journal.purged(self.connection)
        for event in log.after(self.connection, 0):
            yield event if event.body is not None else replace(event, body=left.get(event.seq, {}))

    def journal(self) -> Iterator[Entry]:
        """Yield the operations, newest first."""
        return journal.backwards(self.connection)

    def entry(self, number: int) -> Entry:
        """Return one operation; NotFound where there is none."""
        return journal.entry(self.connection, number)

    def head(self) -> tuple[int, str]:
        """Return number and hash of the newest operation."""
        return journal.head(self.connection)[:2]

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

    def secret(self) -> bytes:
        """Return the project's own 32 bytes, from which the salts of ingested records come."""
        return bytes(self.connection.execute("SELECT secret FROM project").fetchone()[0])

    def counts(self) -> dict[str, int]:
        """Return how many events, operations and refs there are."""
        return {
            "events": log.last(self.connection),
            "operations": journal.head(self.connection)[0],
            "refs": len(refs.branches(self.connection)),
        }
