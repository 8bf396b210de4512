"""`bede diff`: what two lines of thought do not share."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from bede.answers.threeway import Change, changes
from bede.answers.views import Line, line
from bede.context import Context
from bede.operation import Field, operation
from bede.projections.state import state_at
from bede.quick import dataclass
from bede.records import Event, Place, Record, Spans
from bede.repository import Reading
from bede.repository.lines import beyond


@dataclass(frozen=True, slots=True)
class Side(Record):
    """What one side has and the other has not; the newest events of it."""

    ref: str
    head: str
    events: int
    newest: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Difference(Record):
    """A decision or fact in which they differ. `conflict` when both changed it since they parted."""

    kind: str
    key: str
    base: Any
    a: Any
    b: Any
    conflict: bool


@dataclass(frozen=True, slots=True)
class DiffResult(Record):
    """Two places compared against the newest event that both see."""

    SCHEMA: ClassVar[str] = "diff/1"

    base: str
    a: Side
    b: Side
    differences: tuple[Difference, ...]
    conflicts: int
    equal: bool


@operation(effect="read", toolset="branches")
def diff(
    context: Context,
    a: Annotated[str, Field("Branch or event")],
    b: Annotated[str, Field("Branch or event; the current branch by default")] = "",
    *,
    limit: Annotated[int, Field("Most events listed of each side", ge=0, le=1000, short="-n")] = 20,
) -> DiffResult:
    """Compare two branches or events: what only one of them saw, and where their decisions and facts differ."""
    with context.repository.snapshot() as reading:
        second = b or context.branch(reading)
        ours, theirs = reading.resolve(a), reading.resolve(second)
        left, right = reading.spans(ours), reading.spans(theirs)
        base = reading.meeting(left, right)
        states = [state_at(reading.connection, place.line, place.position) for place in (base, ours, theirs)]
        found = changes(*states)
        events = reading.load([seq for change in found for seq in (change.base, change.ours, change.theirs) if seq])
        return DiffResult(
            base=base.id,
            a=_side(reading, a, ours, left, right, limit),
            b=_side(reading, second, theirs, right, left, limit),
            differences=tuple(_difference(change, events) for change in found),
            conflicts=sum(change.conflict for change in found),
            equal=left == right,
        )


def _side(reading: Reading, ref: str, place: Place, one: Spans, other: Spans, limit: int) -> Side:
    ranges = beyond(one, other)
    count = sum(end - start + 1 for _, start, end in ranges)
    newest = sorted(
        (event for span in ranges for event in reading.between([_last(span, limit)])),
        key=lambda event: -event.seq,
    )
    return Side(ref, place.id, count, tuple(line(event) for event in newest[:limit]))


def _last(span: tuple[int, int, int], limit: int) -> tuple[int, int, int]:
    line_, start, end = span
    return line_, max(start, end - limit + 1), end


def _difference(change: Change, events: dict[int, Event]) -> Difference:
    base, ours, theirs = (_value(events.get(seq)) for seq in (change.base, change.ours, change.theirs))
    return Difference(change.kind, change.key, base, ours, theirs, change.conflict)


def _value(event: Event | None) -> Any:
    return (event.body or {}).get("value") if event else None
