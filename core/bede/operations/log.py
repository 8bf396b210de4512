"""`bede log`: what happened, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Annotated, Any, ClassVar

from bede.answers.views import Line, line
from bede.context import Context
from bede.errors import UsageError
from bede.identity import timestamp
from bede.operation import Field, operation
from bede.projections.rows import KINDS
from bede.quick import dataclass
from bede.records import Entry, Record, Spans
from bede.repository import Reading

#: What sorts of event there are: memories, how a branch came about, what agents' sessions left, and what was observed.
EVENTS = (
    *KINDS,
    *("project", "merge", "session", "turn", "rewind", "commit"),
    *("lease_acquired", "lease_released", "lease_expired", "lease_handed_over", "lease_contended"),
    *("notice", "notice_cleared", "exchange"),
)


@dataclass(frozen=True, slots=True)
class Moved(Record):
    """One ref that an operation moved; an empty id stands for none."""

    ref: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Done(Record):
    """One operation of the journal."""

    operation: int
    verb: str
    agent_id: str
    at: str
    moves: tuple[Moved, ...]
    note: dict[str, Any]
    hash: str


@dataclass(frozen=True, slots=True)
class LogResult(Record):
    """Events that a branch sees, or operations; `cursor` goes on where this page ends."""

    SCHEMA: ClassVar[str] = "log/1"

    branch: str
    head: str
    events: tuple[Line, ...]
    operations: tuple[Done, ...]
    cursor: str


@operation(effect="read", toolset="history")
def log(
    context: Context,
    *,
    limit: Annotated[int, Field("Most entries", ge=1, le=1000, short="-n")] = 20,
    kind: Annotated[list[str] | None, Field("Only events of these kinds")] = None,
    at: Annotated[str | None, Field("Look from this branch or event")] = None,
    cursor: Annotated[str, Field("Go on where an earlier page ended")] = "",
    operations: Annotated[bool, Field("List operations (every change of a branch) instead")] = False,
) -> LogResult:
    """List what a branch sees, newest first; with --operations, everything that was ever done."""
    if cursor and not (cursor.isdecimal() and len(cursor) < 19):
        raise UsageError(f"not a cursor: {cursor!r}", hint="use the cursor of an earlier page as it is")
    before = int(cursor) if cursor else 0
    with context.repository.snapshot() as reading:
        place = context.look(reading, at)
        branch = at or context.branch(reading)
        if operations:
            entries = (entry for entry in reading.journal() if not before or entry.number < before)
            page = list(islice(entries, limit))
            more = page and page[-1].number > 1
            done = tuple(_done(reading, entry) for entry in page)
            return LogResult(branch, place.id, (), done, str(page[-1].number) if more else "")
        seen = reading.spans(place)
        _check(reading, seen, kind or ())
        walked = reading.walk(seen, kind or ())
        events = (event for event in walked if not before or event.seq < before)
        found = list(islice(events, limit + 1))
        rest = str(found[limit - 1].seq) if len(found) > limit else ""
        return LogResult(branch, place.id, tuple(line(event) for event in found[:limit]), (), rest)


def _check(reading: Reading, seen: Spans, kinds: Sequence[str]) -> None:
    """Refuse a kind that no event has; one that a newer version wrote here is known by its events."""
    for kind in kinds:
        if kind not in EVENTS and next(reading.walk(seen, [kind]), None) is None:
            from bede.hints import asked

            raise UsageError(f"--kind: no kind {kind!r}", hint=f"{asked(kind, EVENTS)}one of {', '.join(EVENTS)}")


def _done(reading: Reading, entry: Entry) -> Done:
    ids = {0: ""}
    for move in entry.moves:
        for seq in (move.old, move.new):
            if seq not in ids:
                ids[seq] = reading.place(seq).id
    moves = tuple(Moved(move.ref, ids[move.old], ids[move.new]) for move in entry.moves)
    return Done(entry.number, entry.verb, entry.actor, timestamp(entry.at), moves, entry.note, entry.hash)
