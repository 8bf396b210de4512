"""`bede rollback`: go back to an earlier event, with nothing lost."""

from __future__ import annotations

from typing import Annotated, ClassVar

from bede.answers.views import Line, line
from bede.context import Context
from bede.errors import Conflict, NotFound
from bede.operation import Field, operation
from bede.projections.state import state_at
from bede.quick import dataclass
from bede.records import Place, Record
from bede.repository import Reading
from bede.repository.lines import beyond


@dataclass(frozen=True, slots=True)
class RollbackResult(Record):
    """What goes out of the branch's sight, and whose it was."""

    SCHEMA: ClassVar[str] = "rollback/1"

    outcome: str
    branch: str
    head: str
    before: str
    events: int
    by_agent: dict[str, int]
    others: int
    newest: tuple[Line, ...]


@operation(effect="append", toolset="branches", destructive=True)
def rollback(
    context: Context,
    event: Annotated[str, Field("Event to go back to: an id, a prefix, or BRANCH~N")],
    *,
    dry_run: Annotated[bool, Field("Only show what would go, and whose it was")] = False,
    include_others: Annotated[bool, Field("Also when other agents' work goes out of sight")] = False,
    expect: Annotated[str, Field("Refuse unless the branch is at this event", metavar="HEAD")] = "",
    agent_id: Annotated[str, Field("Who does it")] = "",
) -> RollbackResult:
    """Let the branch go back to one of its earlier events.

    Nothing is deleted: what goes out of sight stays in the log, can be forked from, and `undo` brings it back. Work
    of other agents is not buried unless --include-others says so.
    """
    actor, repository = context.actor(agent_id), context.repository
    if dry_run:
        with repository.snapshot() as reading:
            return _plan(reading, context.branch(reading), event, expect, actor, "planned")
    with repository.write("rollback", actor, context.now()) as writing:
        branch = context.branch(writing)
        result = _plan(writing, branch, event, expect, actor, "rolled_back")
        if result.others and not include_others:
            whose = ", ".join(f"{count} by {agent}" for agent, count in result.by_agent.items() if agent != actor)
            raise Conflict(
                f"that would bury other agents' work: {whose}",
                hint="look with --dry-run, then add --include-others",
                reason="others_work",
                by_agent=result.by_agent,
            )
        writing.move(branch, writing.resolve(result.head))
        return result


def _plan(reading: Reading, branch: str, event: str, expect: str, actor: str, word: str) -> RollbackResult:
    tip, target = reading.tip(branch), reading.resolve(event)
    if expect and reading.resolve(expect) != tip:
        raise Conflict(f"branch {branch!r} is at {tip.id[:12]}, not at {expect}", hint="look again with 'bede log'")
    seen = reading.spans(tip)
    if target.position > seen.get(target.line, 0):
        raise NotFound(
            f"event {target.id[:12]} is not on branch {branch!r}",
            hint=f"'bede fork NAME --at {target.id[:12]}' goes on from it",
        )
    gone = beyond(seen, reading.spans(target))
    by_agent = _by_agent(reading, tip, target)
    newest = sorted(
        reading.between([(at, max(start, end - 19), end) for at, start, end in gone]),
        key=lambda found: -found.seq,
    )
    return RollbackResult(
        outcome=word if gone else "unchanged",
        branch=branch,
        head=target.id,
        before=tip.id,
        events=sum(end - start + 1 for _, start, end in gone),
        by_agent=by_agent,
        others=sum(count for agent, count in by_agent.items() if agent != actor),
        newest=tuple(line(item) for item in newest[:20]),
    )


def _by_agent(reading: Reading, tip: Place, target: Place) -> dict[str, int]:
    """Count what goes by agent: the difference of two folded states, however long the way between them is."""
    after, before = (state_at(reading.connection, at.line, at.position)["agents"] for at in (tip, target))
    counts = {agent: count - before.get(agent, 0) for agent, count in after.items()}
    return {agent: count for agent, count in sorted(counts.items()) if count > 0}
