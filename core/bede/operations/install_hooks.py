"""`bede install-hooks`: have coding agents, and git, tell Bede of their moments."""

from __future__ import annotations

from typing import Annotated, ClassVar

from bede.agents.wiring import Scope
from bede.context import Context
from bede.installing import Installed, each, exits, is_nobody, job, passing, repository
from bede.operation import Field, operation
from bede.quick import dataclass
from bede.records import Record


@dataclass(frozen=True, slots=True)
class InstallHooksResult(Record):
    """What became of each agent, and the command that their hooks call.

    An agent's outcome is `installed`, `changed`, `already`, `refused`, `absent` where it has no such place, or
    `skipped` where all were asked for and it is not on this machine; `reason` says why.
    """

    SCHEMA: ClassVar[str] = "install-hooks/1"

    scope: str
    command: tuple[str, ...]
    agents: tuple[Installed, ...]
    dry_run: bool
    warnings: tuple[str, ...]

    @property
    def exits(self) -> int:
        """30 where an agent's file, or the git hook, was refused; the others were done."""
        return exits(self.agents)


@operation(effect="host", idempotent=True)
def install_hooks(
    context: Context,
    *,
    agent: Annotated[list[str] | None, Field("Only these agents; by default those found on this machine")] = None,
    git: Annotated[bool, Field("Install this repository's post-commit hook; alone, no agent's hooks")] = False,
    scope: Annotated[Scope, Field("Where: in the user's own settings, or in files of this project")] = "user",
    portable: Annotated[bool, Field("Write 'bede' and no path of this machine: for files that a team shares")] = False,
    dry_run: Annotated[bool, Field("Show the exact differences, and write nothing")] = False,
) -> InstallHooksResult:
    """Have coding agents call Bede at the start, at prompts, before and after edits, and at the end.

    At those moments Bede hands over what memory has, claims the files about to be edited, or refuses with the
    holder's intent. In a project without memory a hook does nothing. With `--git`, each commit of this repository is
    noted too, in the background; a hook that is there goes on working, and where lefthook or pre-commit make the
    hooks, what to add to their settings is told. Files are edited as `attach` does it, and `uninstall-hooks` gives back
    what was there before. Safe to repeat: then it says `already`.
    """
    task = job(context, "hooks", install=True, dry_run=dry_run, scope=scope, portable=portable)
    found = each(task, agent or [], "installed") if agent or not git else ()
    found += (repository(task, "installed"),) if git else ()
    command = task.wishes[0].command
    nobody = ("no agent was found on this machine; name one with --agent",) if is_nobody(found) else ()
    return InstallHooksResult(scope, tuple(command), found, dry_run, (*passing(command), *nobody))
