"""What the installing verbs share: which agents, which places, which command, and one agent after the other.

An agent that refuses does not stop the others. What is written is planned by `splice`, and only there; this room
decides and tells.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from bede import agents
from bede.agents import git
from bede.agents.wiring import Machine, Scope, Wish, here
from bede.config import user_folder
from bede.context import Context
from bede.errors import BadSource, BedeError, Busy
from bede.records import Record
from bede.redact import redact
from bede.splice import Target, receipts
from bede.splice.plan import Change, apply, diff, plan, read, resolve

Half = Literal["server", "hooks"]
#: How often a file that somebody else writes at the same time is read again.
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Touched(Record):
    """A file, what became of it, or would, and of a dry run the difference; what looks like a secret is blanked."""

    path: str
    outcome: str
    diff: str


@dataclass(frozen=True, slots=True)
class Installed(Record):
    """What became of one agent.

    `outcome` is the verb's, `already`, `changed`, `absent`, `removed`, `refused` or `skipped`. `found` is the evidence
    that the agent is on this machine, `notes` what is left for a person to do. `reason` and `hint` tell why one was
    refused or skipped, and what to do then.
    """

    agent: str
    title: str
    outcome: str
    found: tuple[str, ...]
    files: tuple[Touched, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    reason: str
    hint: str


@dataclass(frozen=True, slots=True)
class Job:
    """One call of a verb: what is wanted of each agent, and whether it is done."""

    context: Context
    machine: Machine
    wishes: tuple[Wish, ...]
    half: Half
    install: bool
    dry_run: bool

    @property
    def receipts(self) -> Path:
        """Where it is remembered which folders were made."""
        return user_folder(self.machine.environment, "data") / "receipts"


def job(
    context: Context,
    half: Half,
    *,
    install: bool,
    dry_run: bool,
    scope: Scope | None = None,
    portable: bool = False,
    approve: bool = False,
    toolsets: Sequence[str] = (),
) -> Job:
    """Return a call as it was asked for; without a scope, both the user's places and those of a project around here.

    Raises:
        RepositoryNotFound: the scope is the project, and there is none.
    """
    command = ["bede"] if portable else command_of(context.environment)
    user = Wish(command, "user", None, portable, approve, toolsets=tuple(toolsets))
    wishes: list[Wish] = [] if scope == "project" else [user]
    if scope == "project" or scope is None:
        root = _root(context, needed=scope is not None)
        wishes += [replace(user, scope="project", root=root)] if root else []
    return Job(context, here(context.environment), tuple(wishes), half, install, dry_run)


def _root(context: Context, *, needed: bool) -> Path | None:
    """Return the root of the project that is named, else of the checkout or project around the working folder; of a
    linked worktree that is its own."""
    try:
        directory = context.around.resolve()
    except (OSError, RuntimeError):
        directory = context.directory
    for folder in (directory, *directory.parents):
        if any(os.path.exists(folder / name) for name in (".git", ".bede/bede.db")):  # noqa: PTH110
            return folder
    return context.project.root if needed else None


def command_of(environment: Mapping[str, str]) -> list[str]:
    """Return how this Bede is started from anywhere.

    That is the script in `~/.local/bin` or on PATH that leads to this very one, since its name stays when what it
    leads to is upgraded; else the one beside the interpreter; else the interpreter with our module.
    """
    name = "bede.exe" if os.name == "nt" else "bede"
    own = shutil.which(name, path=str(Path(sys.executable).parent))
    home = environment.get("HOME", "")
    folders = [os.path.join(home, ".local", "bin")] if home else []  # noqa: PTH118
    folders += [folder for folder in environment.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(folder)]  # noqa: PTH117
    for folder in folders:
        found = shutil.which(name, path=folder)
        if found and (own is None or os.path.realpath(found) == os.path.realpath(own)):
            return [found]
    return [own] if own else [sys.executable, "-m", "bede_cli"]


def passing(command: Sequence[str]) -> tuple[str, ...]:
    """Return a warning where the command lies in a place that will be cleared."""
    parts = Path(command[0]).parts
    if any(part in (".cache", "Caches", "cache", "archive-v0") for part in parts) or command[0].startswith("/tmp/"):
        return (f"{command[0]} lies in a folder that may be cleared; install bede for good, and run this again",)
    return ()


def chosen(names: Sequence[str], machine: Machine, *, install: bool) -> list[tuple[str, bool]]:
    """Return the agents that were named, and whether by their own names; `all` or none stands for every one.

    To be installed into, every one is each that is found on this machine; taken out it is from all.

    Raises:
        UsageError: there is no such agent.
    """
    for name in names:
        if name != "all":
            agents.load(name)
    own = dict.fromkeys(agents.named(name) for name in names if name != "all")
    if own and "all" not in names:
        return [(name, True) for name in own]
    every = [name for name in agents.AGENTS if not install or name in own or agents.load(name).found(machine)]
    return [(name, name in own or not install) for name in every]


def each(job: Job, names: Sequence[str], word: str) -> tuple[Installed, ...]:
    """Do for every agent what the job wants, and return what became of each; `word` says that ours is there now.

    Of all agents, those that are not on this machine are told too, as skipped.

    Raises:
        UsageError: there is no such agent; nothing was done then.
    """
    meant = dict(chosen(names, job.machine, install=job.install))
    every = agents.AGENTS if not names or "all" in names else meant
    return tuple(_agent(job, name, meant[name], word) if name in meant else _skipped(job, name) for name in every)


def _skipped(job: Job, name: str, found: tuple[str, ...] = ()) -> Installed:
    """Tell why an agent was left as it is where all were asked for: nothing is made for one that may not be here."""
    title = agents.load(name).TITLE
    reason = "no folder of its own yet" if found else "no sign of it on this machine"
    verb = f"bede attach {name}" if job.half == "server" else f"bede install-hooks --agent {name}"
    return Installed(name, title, "skipped", found, (), (), (), reason, f"'{verb}' does it all the same")


def is_nobody(found: Sequence[Installed]) -> bool:
    """Tell whether all were asked for, and none is on this machine."""
    return all(item.outcome == "skipped" and not item.found for item in found)


def _agent(job: Job, name: str, named: bool, word: str) -> Installed:
    agent = agents.load(name)
    found = tuple(agent.found(job.machine))
    ask = agent.server if job.half == "server" else agent.hooks

    def changes() -> tuple[list[Change], bool]:
        targets = [target for wish in job.wishes for target in ask(job.machine, replace(wish, named=named))]
        if not job.install:
            return plan([target for target in targets if _speaks_of_us(target)], install=False), True
        return plan(targets, install=True), _was_there(targets)

    done = _done(job, name, agent.TITLE, changes, word)
    if job.install and not named and done.outcome == "absent":
        return _skipped(job, name, found)
    is_news = job.install and done.outcome in (word, "changed")
    note = agent.NOTES.get(job.half, "") if is_news else ""
    lost = (f"there is no sign of {agent.TITLE} on this machine",) if is_news and not found else ()
    return replace(done, found=found, notes=(note,) if note else (), warnings=lost)


def repository(job: Job, word: str) -> Installed:
    """Do for this repository's `post-commit` hook what the job wants."""
    directory, environment = job.context.around, job.machine.environment
    wish = job.wishes[0]

    def changes() -> tuple[list[Change], bool]:
        found = git.changes(directory, job.machine, wish, install=job.install)
        was_there = any(change.before and b"# bede begin" in change.before for change in found)
        return found, was_there

    done = _done(job, git.NAME, git.TITLE, changes, word)
    is_news = job.install and done.outcome in (word, "changed")
    return replace(done, warnings=tuple(git.warnings(directory, environment)) if is_news else ())


def _speaks_of_us(target: Target) -> bool:
    """Tell whether there can be anything of ours in a file. One that cannot be read need not be refused then."""
    return b"bede" in (read(resolve(target.file)) or b"")


def _was_there(targets: Sequence[Target]) -> bool:
    try:
        return any(change.before != change.after for change in plan(targets, install=False))
    except BedeError:
        return False


def _done(
    job: Job, name: str, title: str, changes: Callable[[], tuple[list[Change], bool]], word: str
) -> Installed:
    """Plan one agent's changes, make them unless the run is dry, and tell."""
    try:
        planned, was_there = _made(job, changes)
    except BedeError as error:
        return Installed(name, title, "refused", (), (), (), (), error.message, error.hint)
    files = tuple(
        Touched(str(change.file), change.outcome, redact(diff(change)) if job.dry_run else "")
        for change in planned
        if job.install or change.before != change.after
    )
    news = any(change.before != change.after for change in planned)
    if not job.install:
        outcome = "removed" if news else "absent"
    else:
        outcome = ("changed" if was_there else word) if news else "already" if planned else "absent"
    return Installed(name, title, outcome, (), files, (), (), "", "")


def _made(job: Job, changes: Callable[[], tuple[list[Change], bool]]) -> tuple[list[Change], bool]:
    for left in reversed(range(_TRIES)):
        planned, was_there = changes()
        if job.dry_run:
            break
        try:
            receipts.note(job.receipts, apply(planned))
        except Busy:
            if not left:
                raise
            continue
        for change in planned:
            if change.after is None and change.before is not None:
                receipts.clear(job.receipts, change.real)
        break
    return planned, was_there


def exits(found: Sequence[Installed]) -> int:
    """Return the exit status of a call: 30 where an agent's file was refused; the others were done."""
    return BadSource.exit_status if any(item.outcome == "refused" for item in found) else 0
