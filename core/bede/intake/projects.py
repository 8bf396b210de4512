"""For which projects a run is: the one of the call, or every registered one."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from contextlib import closing, nullcontext, suppress
from pathlib import Path

from bede.answers.tidings import catch_up
from bede.context import Context
from bede.errors import BadSource, BedeError, Busy, Unavailable
from bede.intake import files
from bede.intake.belonging import Roots, worktrees
from bede.intake.running import Report, Run, recognise, transcripts
from bede.places import DATABASE, FOLDER, Project
from bede.projections.sessions import tally
from bede.quick import dataclass
from bede.repository import Repository
from bede.sources.port import Tally, World
from bede.turnstile import held

LOCK = "ingest.lock"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a run is asked for. `since` is in microseconds since 1970 (UTC), 0 for ever.

    Files in `paths` are taken whosever they are, unless `is_own` asks for the project's own sessions in them.
    """

    agents: tuple[str, ...]
    since: int = 0
    paths: tuple[Path, ...] = ()
    is_own: bool = False
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
    roots = None if wanted.paths and not wanted.is_own else _roots(context, (context.project,))
    report = Report()
    _project(context, context.repository, context.project, wanted, roots, report)
    return report


def everywhere(context: Context, wanted: Wanted) -> Report:
    """Take in the sessions of every registered project; one that cannot be used costs itself."""
    projects = _registered(context)
    roots, report = _roots(context, projects), Report()
    for project in projects:
        try:
            with closing(_beside(context, project)) as other:
                _project(other, other.repository, project, wanted, roots, report)
        except BedeError as error:
            report.fail(project.root, error)
    return report


def tallies(context: Context) -> list[tuple[str, str, int, int, int, int]]:
    """Return agent, model, and how many sessions, turns, windows and waiting turns of them all projects have."""
    found: dict[tuple[str, str], list[int]] = {}
    for project in _registered(context):
        with suppress(BedeError), closing(_beside(context, project)) as other, other.repository.snapshot() as reading:
            for agent, model, *counts in tally(reading.connection):
                known = found.get((agent, model), [0, 0, 0, 0])
                found[agent, model] = [one + more for one, more in zip(known, counts, strict=True)]
    return [(*name, counts[0], counts[1], counts[2], counts[3]) for name, counts in sorted(found.items())]


def _registered(context: Context) -> tuple[Project, ...]:
    from bede.repository import registry  # Only who serves every project pays for it.

    known = [item for item in registry.all_known(context.environment) if _is_there(item.root)]
    projects = {item.root: Project(Path(item.root), Path(item.root) / FOLDER, uuid=item.uuid) for item in known}
    return tuple(projects.values())


def _beside(context: Context, project: Project) -> Context:
    """Return a call like this one, in another project."""
    return Context(
        directory=project.root, environment=context.environment, clock=context.clock, progress=context.progress
    )


def _is_there(root: str) -> bool:
    return os.path.isfile(os.path.join(root, FOLDER, DATABASE))  # noqa: PTH113, PTH118 (a Path raises where it may not look)


def _roots(context: Context, projects: tuple[Project, ...]) -> Roots:
    return Roots((str(project.root), worktrees(project.root)) for project in projects)


def _project(
    context: Context, repository: Repository, project: Project, wanted: Wanted, roots: Roots | None, report: Report
) -> None:
    """Take in what is a project's; who only looks asks for no lock, and leaves none behind."""
    with nullcontext(True) if wanted.is_dry else held(project.folder / LOCK, wanted.patience) as is_mine:
        if not is_mine:
            raise Busy("another run is taking in sessions", hint="wait for it, or look with 'bede ingest --status'")
        run = Run(repository, context.now(), report, roots, str(project.root))
        if wanted.keeps_raw and not wanted.is_dry:
            _keep_raw(run, project)
        run.keeps_thoughts, run.is_dry, run.is_again = wanted.keeps_thoughts, wanted.is_dry, wanted.is_again
        found = _named(wanted, report) if wanted.paths else _files(context, wanted, report)
        for number, (agent, path) in enumerate(found):
            context.progress(number, len(found), path.name)
            run.take(agent, path)
        run.finish()
        context.progress(len(found), len(found), "")
        if not wanted.is_dry:  # What hooks had no time to tell; each turn of an agent ends with a run.
            catch_up(repository, "bede", context.moment())
        if not wanted.is_dry and run.report.turns["new"] + run.report.turns["revised"]:
            repository.ripen()


def _named(wanted: Wanted, report: Report) -> list[tuple[str, Path]]:
    """Return the files that are named, and whose they are; what is nobody's costs itself, what is empty is told so."""
    found = []
    for path in wanted.paths:
        try:
            if agent := recognise(path):
                found.append((agent, path.absolute()))
            else:
                report.note(path, "empty", Tally())
        except (BadSource, Unavailable) as error:
            report.fail(path, error)
            report.note(path, "unreadable", Tally())
    return found


def _files(context: Context, wanted: Wanted, report: Report) -> list[tuple[str, Path]]:
    world = World(context.environment, home(context), sys.platform)
    found = list(transcripts(wanted.agents, world))
    report.refused |= world.refused
    return [(agent, path) for agent, path in found if not wanted.since or _changed(path) >= wanted.since]


def home(context: Context) -> Path:
    """Return the user's home folder, as the environment of the call has it."""
    name = "USERPROFILE" if sys.platform == "win32" else "HOME"
    return Path(context.environment.get(name) or Path.home())


def _changed(path: Path) -> int:
    """Return when a file, or a database's log beside it, was changed last, in microseconds since 1970."""
    latest = 0
    for each in (path, path.with_name(path.name + "-wal")):
        with suppress(OSError, ValueError):
            latest = max(latest, each.stat().st_mtime_ns // 1000)
    return latest or sys.maxsize


def _keep_raw(run: Run, project: Project) -> None:
    """Let a run keep copies, also of what was read before and has none."""
    from bede.intake.escrow import Escrow

    escrow = Escrow(project.folder / "raw", run.secret())

    def lack(agent: str, path: Path, sessions: Collection[str], bare: Collection[str]) -> set[str]:
        names = sessions if files.is_database(path) else ("",)
        gone = {name for name in names if not escrow.place(agent, path, name).exists()}
        return gone.difference(bare) if (escrow.folder / agent).exists() else gone

    run.keep, run.lack = escrow.keep, lack
