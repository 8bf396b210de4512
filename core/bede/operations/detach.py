"""`bede detach`: take Bede's MCP server out of coding agents again."""

from __future__ import annotations

from typing import Annotated, ClassVar

from bede.agents.wiring import Scope
from bede.context import Context
from bede.installing import Installed, each, exits, job
from bede.operation import Field, operation
from bede.quick import dataclass
from bede.records import Record


@dataclass(frozen=True, slots=True)
class DetachResult(Record):
    """What became of each agent: `removed`, `absent` where nothing of ours was there, or `refused`."""

    SCHEMA: ClassVar[str] = "detach/1"

    agents: tuple[Installed, ...]
    dry_run: bool

    @property
    def exits(self) -> int:
        """30 where an agent's file was refused; the others were done."""
        return exits(self.agents)


@operation(effect="host", idempotent=True)
def detach(
    context: Context,
    agents: Annotated[list[str], Field("The agents, or 'all'", metavar="AGENT")],
    *,
    scope: Annotated[Scope | None, Field("Only here: the user's own settings, or this project's files")] = None,
    dry_run: Annotated[bool, Field("Show the exact differences, and write nothing")] = False,
) -> DetachResult:
    """Take Bede's MCP server out of coding agents' settings.

    Looks into the user's own settings and into the files of a project around here, also where an agent itself is no
    longer found. A file is as it was before `attach`, byte by byte; what somebody has changed elsewhere in it since
    stays changed. Files and folders that were made for Bede alone go. Safe to repeat: then it says `absent`.
    """
    task = job(context, "server", install=False, dry_run=dry_run, scope=scope, approve=True)
    return DetachResult(each(task, agents, ""), dry_run)
