"""What one place of the log sees and another does not: what goes out of a branch's sight, or comes back into it."""

from __future__ import annotations

from bede.answers.views import Line, line
from bede.projections.state import state_at
from bede.quick import dataclass
from bede.records import Place, Record
from bede.repository import Reading
from bede.repository.lines import beyond

#: Events that are told of each.
NEWEST = 20


@dataclass(frozen=True, slots=True)
class Sight(Record):
    """How many events there are, whose, and the newest of them."""

    events: int
    by_agent: dict[str, int]
    newest: tuple[Line, ...]


def apart(reading: Reading, one: Place, other: Place) -> Sight:
    """Return what is seen from one place and not from the other."""
    ranges = beyond(reading.spans(one), reading.spans(other))
    last = [(at, max(start, end - NEWEST + 1), end) for at, start, end in ranges]
    newest = sorted(reading.between(last), key=lambda event: -event.seq)[:NEWEST]
    return Sight(
        sum(end - start + 1 for _, start, end in ranges),
        _by_agent(reading, one, other),
        tuple(line(event) for event in newest),
    )


def _by_agent(reading: Reading, one: Place, other: Place) -> dict[str, int]:
    """Count what is apart by agent: the difference of two folded states, however long the way between them is."""
    ours, theirs = (state_at(reading.connection, at.line, at.position)["agents"] for at in (one, other))
    counts = {agent: count - theirs.get(agent, 0) for agent, count in ours.items()}
    return {agent: count for agent, count in sorted(counts.items()) if count > 0}
