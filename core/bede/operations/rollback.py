"""`bede rollback`: go back to an earlier event, with nothing lost."""

from __future__ import annotations

from typing import Annotated, ClassVar

from bede.answers.sight import apart
from bede.answers.views import Line
from bede.context import Context
from bede.errors import Conflict, NotFound
from bede.operation import Field, operation
from bede.quick import dataclass
from bede.records import Record
from bede.repository import Reading


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
    if target.position > reading.spans(tip).get(target.line, 0):
        raise NotFound(
            f"event {target.id[:12]} is not on branch {branch!r}",
            hint=f"'bede fork NAME --at {target.id[:12]}' goes on from it",
        )
    gone = apart(reading, tip, target)
    return RollbackResult(
        outcome=word if gone.events else "unchanged",
        branch=branch,
        head=target.id,
        before=tip.id,
        events=gone.events,
        by_agent=gone.by_agent,
        others=sum(count for agent, count in gone.by_agent.items() if agent != actor),
        newest=gone.newest,
    )
