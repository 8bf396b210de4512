"""`bede uninstall-hooks`: have coding agents, and git, tell Bede of nothing any more."""

from __future__ import annotations

from typing import Annotated, ClassVar

from bede.agents.wiring import Scope
from bede.context import Context
from bede.installing import Installed, each, exits, job, repository
from bede.operation import Field, operation
from bede.quick import dataclass
from bede.records import Record


@dataclass(frozen=True, slots=True)
class UninstallHooksResult(Record):
    """What became of each agent: `removed`, `absent` where nothing of ours was there, or `refused`."""

    SCHEMA: ClassVar[str] = "uninstall-hooks/1"

    agents: tuple[Installed, ...]
    dry_run: bool

    @property
    def exits(self) -> int:
        """30 where an agent's file, or the git hook, was refused; the others were done."""
        return exits(self.agents)


@operation(effect="host", idempotent=True)
def uninstall_hooks(
    context: Context,
    *,
    agent: Annotated[list[str] | None, Field("Only these agents; by default every one")] = None,
    git: Annotated[bool, Field("Take out this repository's post-commit hook; alone, no agent's hooks")] = False,
    scope: Annotated[Scope | None, Field("Only here: the user's own settings, or this project's files")] = None,
    dry_run: Annotated[bool, Field("Show the exact differences, and write nothing")] = False,
) -> UninstallHooksResult:
    """Take Bede's hooks out of coding agents' settings, and with `--git` out of this repository.

    Looks into the user's own settings and into the files of a project around here, also where an agent itself is no
    longer found. A file is as it was before `install-hooks`, byte by byte; what somebody has changed elsewhere in it
    since stays changed. Files and folders that were made for Bede alone go, and a git hook that was moved aside comes
    back. Safe to repeat: then it says `absent`.
    """
    task = job(context, "hooks", install=False, dry_run=dry_run, scope=scope)
    found = each(task, agent or [], "") if agent or not git else ()
    found += (repository(task, ""),) if git else ()
    return UninstallHooksResult(found, dry_run)
