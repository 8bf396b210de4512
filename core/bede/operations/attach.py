"""`bede attach`: put Bede's MCP server into coding agents."""

from __future__ import annotations

from typing import Annotated, ClassVar

from bede.agents.wiring import Scope
from bede.context import Context
from bede.errors import UsageError
from bede.installing import Installed, each, exits, is_nobody, job, passing
from bede.operation import Field, operation
from bede.quick import dataclass
from bede.records import Record


@dataclass(frozen=True, slots=True)
class AttachResult(Record):
    """What became of each agent, and the command that they start.

    An agent's outcome is `attached`, `changed`, `already`, `refused`, `absent` where it has no such place, or
    `skipped` where all were asked for and it is not on this machine; `reason` says why.
    """

    SCHEMA: ClassVar[str] = "attach/1"

    scope: str
    command: tuple[str, ...]
    agents: tuple[Installed, ...]
    dry_run: bool
    warnings: tuple[str, ...]

    @property
    def exits(self) -> int:
        """30 where an agent's file was refused; the others were done."""
        return exits(self.agents)


@operation(effect="host", idempotent=True)
def attach(
    context: Context,
    agents: Annotated[list[str], Field("The agents, or 'all' for those found on this machine", metavar="AGENT")],
    *,
    scope: Annotated[Scope, Field("Where: in the user's own settings, or in files of this project")] = "user",
    portable: Annotated[bool, Field("Write 'bede' and no path of this machine: for files that a team shares")] = False,
    approve: Annotated[bool, Field("Let the agent use Bede's tools without asking, where it can be told so")] = False,
    toolset: Annotated[
        list[str] | None, Field("Tools that the agent is offered: memory (the default), coordination, …, or all")
    ] = None,
    dry_run: Annotated[bool, Field("Show the exact differences, and write nothing")] = False,
) -> AttachResult:
    """Put Bede's MCP server into coding agents' settings.

    An agent starts it by itself, and finds the memory of the project that it works in. With `user` that holds for
    every project and no file of any project is touched; `--scope project` writes into this project's files. Comments,
    order, layout and everything else in a file stay byte by byte, also your own `env` in Bede's entry; `detach` gives
    back what was there before. A file that cannot be read is refused, with what to put into it by hand, and the other
    agents are done all the same (status 30). With `--toolset memory --toolset coordination` it is offered leases and
    notices too. Safe to repeat: then it says `already`. Needs no project with `user`.
    """
    toolsets = _known(toolset or [])
    task = job(
        context, "server", install=True, dry_run=dry_run, scope=scope, portable=portable, approve=approve,
        toolsets=toolsets,
    )  # fmt: skip
    found = each(task, agents, "attached")
    command = task.wishes[0].command
    nobody = ("no agent was found on this machine; name one to attach it all the same",) if is_nobody(found) else ()
    return AttachResult(scope, tuple(command), found, dry_run, (*passing(command), *nobody))


def _known(toolsets: list[str]) -> list[str]:
    from bede.operations import load_all  # Only who names one has to know them all.

    known = {verb.toolset for verb in load_all()} - {""} | {"all"} if toolsets else set()
    for name in toolsets:
        if name not in known:
            raise UsageError(f"no toolset {name!r}", hint=f"there are {', '.join(sorted(known))}")
    return toolsets
