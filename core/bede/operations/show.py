"""`bede show`: one event, whole."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from bede.answers.views import told_at
from bede.context import Context
from bede.operation import Field, operation
from bede.projections.memory import endings
from bede.quick import dataclass
from bede.records import Record
from bede.repository import Reading

#: What was said in sessions belongs to no branch: every view sees it.
_EVERYWHERE = ("session", "turn", "rewind")


@dataclass(frozen=True, slots=True)
class ShowResult(Record):
    """An event with all it says, where it lies, and what became of it on the branch.

    `at` is when it happened, and empty where nobody told: a time that an agent did not write is no time.
    """

    SCHEMA: ClassVar[str] = "show/1"

    id: str
    kind: str
    agent_id: str
    at: str
    parents: tuple[str, ...]
    branches: tuple[str, ...]
    status: str
    ended_by: str
    source: str
    purged: bool
    body: dict[str, Any]


@operation(effect="read", toolset="memory")
def show(
    context: Context,
    id: Annotated[str, Field("Event id, any unique prefix of one, or a branch")],
    *,
    at: Annotated[str | None, Field("Judge its status from this branch or event")] = None,
) -> ShowResult:
    """Show one event whole: what it says, who said so and when, and whether it still holds."""
    with context.repository.snapshot() as reading:
        place = reading.resolve(id)
        event = reading.load([place.seq])[place.seq]
        parents = reading.load(event.parents)
        is_seen = event.kind in _EVERYWHERE
        status, ender = ("active", "") if is_seen else _status(context, reading, place.seq, at)
        return ShowResult(
            id=event.id,
            kind=event.kind,
            agent_id=event.actor,
            at=told_at(event),
            parents=tuple(parents[seq].id for seq in event.parents),
            branches=_seen_by(reading, place.line, place.position),
            status=status,
            ended_by=ender,
            source=event.source,
            purged=event.body is None,
            body=event.body or {},
        )


def _status(context: Context, reading: Reading, seq: int, at: str | None) -> tuple[str, str]:
    """Tell whether the event holds in a view: active, superseded, invalidated, or not visible there."""
    seen = reading.spans(context.look(reading, at))
    place = reading.place(seq)
    if place.position > seen.get(place.line, 0):
        return "not_visible", ""
    how, ender = endings(reading.connection, [seq], seen).get(seq, ("active", 0))
    return how, reading.place(ender).id if ender else ""


def _seen_by(reading: Reading, line: int, position: int) -> tuple[str, ...]:
    return tuple(
        name for name, seq in reading.branches().items() if position <= reading.spans(reading.place(seq)).get(line, 0)
    )
