"""For which projects a run is: the one of the call, or every registered one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from bede.context import Context
from bede.errors import BedeError, Busy
from bede.intake.belonging import Roots, worktrees
from bede.intake.running import Report, Run, recognise, transcripts
from bede.places import Project
from bede.repository import Repository, registry
from bede.sources.port import World
from bede.turnstile import held

LOCK = "ingest.lock"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a run is asked for. `since` is in microseconds since 1970 (UTC), 0 for ever."""

    agents: tuple[str, ...]
    since: int = 0
    paths: tuple[Path, ...] = ()
    keeps_thoughts: bool = False
    keeps_raw: bool = False
    is_again: bool = False
    is_dry: bool = False
    patience: float = 0.0


def here(context: Context, wanted: Wanted) -> Report:
    """Take in the sessions of the call's own project, or the files that are named.

    Raises:
        Busy: another run is at it.
    """
    roots = None if wanted.paths else _roots(context, (context.project,))
    report = Report()
    _project(context, context.repository, context.project, wanted, roots, report)
    return report


def everywhere(context: Context, wanted: Wanted) -> Report:
    """Take in the sessions of every registered project; one that cannot be used costs itself."""
    known = [
        item for item in registry.all_known(context.environment) if (Path(item.root) / ".bede" / "bede.db").exists()
    ]
    projects = {item.root: Project(Path(item.root), Path(item.root) / ".bede", uuid=item.uuid) for item in known}
    roots, report = _roots(context, tuple(projects.values())), Report()
    for project in projects.values():
        try:
            with closing(
                Context(directory=project.root, environment=context.environment, clock=context.clock)
            ) as other:
                _project(other, other.repository, project, wanted, roots, report)
        except BedeError as error:
            report.failed.append((project.root, error.code, error.message))
    return report


def _roots(context: Context, projects: tuple[Project, ...]) -> Roots:
    return Roots((str(project.root), worktrees(project.root)) for project in projects)


def _project(
    context: Context, repository: Repository, project: Project, wanted: Wanted, roots: Roots | None, report: Report
) -> None:
    with held(project.folder / LOCK, wanted.patience) as is_mine:
        if not is_mine:
            raise Busy("another run is taking in sessions", hint="wait for it, or look with 'bede ingest --status'")
        run = Run(repository, context.now(), report, roots, str(project.root), keep=_keeper(project, wanted))
        run.keeps_thoughts, run.is_dry, run.is_again = wanted.keeps_thoughts, wanted.is_dry, wanted.is_again
        files = [(recognise(path), path.absolute()) for path in wanted.paths] or _files(context, wanted)
        for number, (agent, path) in enumerate(files):
            context.progress(number, len(files), path.name)
            run.take(agent, path)
        context.progress(len(files), len(files), "")
        if not wanted.is_dry and run.report.turns["new"] + run.report.turns["revised"]:
            repository.ripen()


def _files(context: Context, wanted: Wanted) -> list[tuple[str, Path]]:
    world = World(context.environment, home(context), sys.platform)
    found = transcripts(wanted.agents, world)
    return [(agent, path) for agent, path in found if not wanted.since or _changed(path) >= wanted.since]


def home(context: Context) -> Path:
    """Return the user's home folder, as the environment of the call has it."""
    name = "USERPROFILE" if sys.platform == "win32" else "HOME"
    return Path(context.environment.get(name) or Path.home())


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns // 1000
    except OSError:
        return sys.maxsize


def _keeper(project: Project, wanted: Wanted) -> Callable[[str, Path, int, int], bool] | None:
    if not wanted.keeps_raw or wanted.is_dry:
        return None
    from bede.intake.escrow import Escrow

    return Escrow(project.folder / "raw").keep
