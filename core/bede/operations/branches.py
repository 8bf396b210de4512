"""`bede branches`: the lines of thought there are."""

from __future__ import annotations

from typing import Annotated, ClassVar

from bede.answers.views import gist, told_at
from bede.context import Context
from bede.operation import Field, operation
from bede.quick import dataclass
from bede.records import Record
from bede.repository.lines import beyond
from bede.repository.refs import TRACKED


@dataclass(frozen=True, slots=True)
class Branch(Record):
    """A branch, and how it stands to the current one."""

    name: str
    current: bool
    head: str
    events: int
    ahead: int
    behind: int
    at: str
    agent_id: str
    summary: str


@dataclass(frozen=True, slots=True)
class BranchesResult(Record):
    """All branches, by name."""

    SCHEMA: ClassVar[str] = "branches/1"

    current: str
    branches: tuple[Branch, ...]


@operation(effect="read", toolset="branches")
def branches(
    context: Context,
    *,
    all_: Annotated[bool, Field("Also what bundles brought: bundles/MACHINE/BRANCH")] = False,
) -> BranchesResult:
    """List the branches, with what each has that the current one has not, and the other way round.

    Where there is no current branch, as after it was deleted, each is told with all it has.
    """
    with context.repository.snapshot() as reading:
        current = context.branch(reading)
        brought = {name: seq for name, seq in reading.refs().items() if all_ and name.startswith(TRACKED)}
        refs = {**reading.branches(), **brought}
        here = reading.spans(reading.place(refs[current])) if current in refs else {}
        tips = reading.load(list(refs.values()))
        found = []
        for name, seq in refs.items():
            seen, tip = reading.spans(reading.place(seq)), tips[seq]
            found.append(
                Branch(
                    name=name,
                    current=name == current,
                    head=tip.id,
                    events=sum(seen.values()),
                    ahead=sum(end - start + 1 for _, start, end in beyond(seen, here)),
                    behind=sum(end - start + 1 for _, start, end in beyond(here, seen)),
                    at=told_at(tip),
                    agent_id=tip.actor,
                    summary=gist(tip),
                )
            )
        return BranchesResult(current, tuple(found))
