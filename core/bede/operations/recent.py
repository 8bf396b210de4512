"""`bede recent`: what was said last, at the start of a session or after a compaction."""

from __future__ import annotations

from typing import Annotated, ClassVar

from bede.answers.said import Turn, turns, within
from bede.context import Context
from bede.operation import Field, operation
from bede.projections import sessions
from bede.quick import dataclass
from bede.records import Record
from bede.repository import Reading


@dataclass(frozen=True, slots=True)
class RecentResult(Record):
    """The newest turns, oldest of them first. `left_out` counts those that the budget had no room for."""

    SCHEMA: ClassVar[str] = "recent/1"

    turns: tuple[Turn, ...]
    left_out: int


@operation(effect="read", toolset="memory")
def recent(
    context: Context,
    *,
    turns_: Annotated[int, Field("How many turns", ge=1, le=500, short="-n")] = 30,
    agent: Annotated[str, Field("Only this agent's sessions")] = "",
    session: Annotated[str, Field("Only this session, by its name or a unique beginning")] = "",
    budget: Annotated[int, Field("Most tokens of the answer", ge=200, le=200_000)] = 8000,
) -> RecentResult:
    """Show the newest turns of this project's sessions, whole and in order of time.

    For the start of a session, and for what a compaction took away. Turns that a session went back behind, and those
    said between agents, are left out.
    """
    with context.repository.snapshot() as reading:
        wanted = _meant(reading, sessions.Wanted(agent=agent, session=session, is_side=False))
        numbers = sessions.newest(reading.connection, wanted, turns_)
        found, missing = within(turns(reading.connection, numbers), budget)
        return RecentResult(tuple(reversed(found)), missing)


def _meant(reading: Reading, wanted: sessions.Wanted) -> sessions.Wanted:
    if not (wanted.agent or wanted.session):
        return wanted
    from bede.answers import talk  # Only who narrows pays for it.

    return talk.meant(reading.connection, wanted)
