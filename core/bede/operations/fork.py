"""`bede fork`: begin another line of thought."""

from __future__ import annotations

from typing import Annotated, ClassVar

from bede.arbitration import public
from bede.context import Context
from bede.errors import Conflict, UsageError
from bede.identity import check_branch
from bede.operation import Field, operation
from bede.quick import dataclass
from bede.records import Record
from bede.repository import Reading
from bede.repository.refs import MAIN


@dataclass(frozen=True, slots=True)
class ForkResult(Record):
    """The branch and the event it begins at."""

    SCHEMA: ClassVar[str] = "fork/1"

    branch: str
    head: str
    outcome: str
    checked_out: bool


@operation(effect="append", toolset="branches")
def fork(
    context: Context,
    name: Annotated[str, Field("Name of the new branch")],
    *,
    at: Annotated[str | None, Field("Begin at this branch or event instead of here")] = None,
    checkout: Annotated[bool, Field("Go on to work on it")] = False,
    delete: Annotated[bool, Field("Delete the branch instead; `undo` brings it back")] = False,
    force: Annotated[bool, Field("Delete it even with work that no other branch sees")] = False,
    agent_id: Annotated[str, Field("Who does it")] = "",
) -> ForkResult:
    """Begin a new branch of memory here or at any event, at no cost.

    Nothing is copied. The branch sees all that its first event saw, and goes its own way from there.
    """
    public(check_branch(name))
    with context.repository.write("fork", context.actor(agent_id), context.now()) as writing:
        existing = writing.find(name)
        if delete:
            current = context.branch(writing)
            if name in (MAIN, current) or writing.is_checked_out(name):
                raise UsageError(f"branch {name!r} is in use", hint="check out another branch there first")
            place = writing.tip(name)
            _refuse_unmerged(writing, name, force)
            writing.move(name, None)
            return ForkResult(name, place.id, "deleted", False)
        place = context.look(writing, at)
        if existing and existing != place:
            raise Conflict(f"there is a branch {name!r} already, at {existing.id[:12]}", hint="choose another name")
        writing.move(name, place)
        if checkout:
            writing.check_out(context.project.worktree, name)
        return ForkResult(name, place.id, "unchanged" if existing else "created", checkout)


def _refuse_unmerged(reading: Reading, name: str, force: bool) -> None:
    """Refuse to hide work that no other branch sees, unless that is what is asked for."""
    alone = reading.spans(reading.tip(name))
    for other in reading.branches().keys() - {name}:
        seen = reading.spans(reading.tip(other))
        alone = {line: upto for line, upto in alone.items() if upto > seen.get(line, 0)}
    if alone and not force:
        raise Conflict(
            f"branch {name!r} has work that no other branch sees",
            hint="merge it first, or add --force",
            reason="unmerged",
        )
