"""`bede checkout`: go on with another branch."""

from __future__ import annotations

from typing import Annotated, ClassVar

from bede.context import Context
from bede.errors import UsageError
from bede.operation import Field, operation
from bede.quick import dataclass
from bede.records import Record
from bede.repository.refs import is_branch


@dataclass(frozen=True, slots=True)
class CheckoutResult(Record):
    """The branch this worktree is on now, and the one before."""

    SCHEMA: ClassVar[str] = "checkout/1"

    branch: str
    before: str
    head: str
    worktree: str
    outcome: str
    overridden_by: str


@operation(effect="append", toolset="branches", idempotent=True)
def checkout(
    context: Context,
    branch: Annotated[str, Field("Branch to work on")],
    *,
    agent_id: Annotated[str, Field("Who does it")] = "",
) -> CheckoutResult:
    """Let this worktree work on another branch.

    Each git worktree has its own, and everyone who works in this one moves with it, unless `BEDE_BRANCH` or --branch
    says otherwise.
    """
    if not is_branch(branch):
        raise UsageError(f"{branch!r} is a record of what was observed", hint="'bede branches' lists the branches")
    worktree = context.project.worktree
    note: dict[str, str] = {}
    with context.repository.write("checkout", context.actor(agent_id), context.now(), note) as writing:
        before, place = writing.current(worktree), writing.tip(branch)
        if before != branch:
            writing.check_out(worktree, branch)
            note.update(worktree=worktree, branch=branch)
    override = context.environment.get("BEDE_BRANCH", "")
    return CheckoutResult(
        branch=branch,
        before=before,
        head=place.id,
        worktree=worktree,
        outcome="unchanged" if before == branch else "switched",
        overridden_by=f"BEDE_BRANCH={override}" if override and override != branch else "",
    )
