"""`bede ingest`: take in what coding agents left on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from bede.context import Context
from bede.errors import BadSource, BedeError, UsageError
from bede.identity import counted, instant, timestamp
from bede.intake.running import Report
from bede.operation import Field, operation
from bede.projections.sessions import tally
from bede.quick import dataclass, replace
from bede.records import Record
from bede.sources import AGENTS, guests, unknown

if TYPE_CHECKING:
    from bede.answers.meaning import Guests
    from bede.intake.projects import Wanted


@dataclass(frozen=True, slots=True)
class Unread(Record):
    """A file that could not be read, or a folder that may not be looked into, and why."""

    path: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Unclaimed(Record):
    """Transcripts that are nobody's: the folder that they tell, "" for none, how many, and the newest of them.

    Of a folder that is `gone`, as that of a worktree which was removed, nothing tells any more whose it was.
    """

    cwd: str
    files: int
    paths: tuple[str, ...]
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Stored(Record):
    """What the project has of one agent and model. `waiting` turns are found too: they stand in no window yet."""

    agent: str
    model: str
    sessions: int
    turns: int
    windows: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Vectors(Record):
    """How many of the project's windows have a vector of one model, of how many dimensions."""

    model: str
    dimensions: int
    windows: int


@dataclass(frozen=True, slots=True)
class IngestResult(Record):
    """What was met and what came of it. `files` by outcome, `turns` by outcome, `problems` by reason.

    Of files: `read` had something for this project, `unchanged` had and nothing new, `foreign` belong to other folders,
    `unplaced` tell no folder, `empty` no conversation, `unreadable` are listed, and so are folders that may not be
    looked into. Of turns: `new`, `revised` (told again with more in them), `repeated` (known already),
    `replayed` (copies of another session's). `embedded` counts windows that got a vector now, `vectors` those that
    have one, by model; `warnings` tells why an engine of the settings made none, and of how many such folders there
    are more. `unclaimed` names what tells no folder, or one that no registered project holds, newest first, and of how
    many folders more there are.
    """

    SCHEMA: ClassVar[str] = "ingest/1"

    outcome: str
    project: str
    agents: tuple[str, ...]
    sessions: int
    files: dict[str, int]
    turns: dict[str, int]
    records: int
    problems: dict[str, int]
    unreadable: tuple[Unread, ...]
    stored: tuple[Stored, ...]
    embedded: int = 0
    vectors: tuple[Vectors, ...] = ()
    warnings: tuple[str, ...] = ()
    unclaimed: tuple[Unclaimed, ...] = ()
    unclaimed_more: int = 0

    @property
    def exits(self) -> int:
        """30 where a file or folder could not be read; what could be read was kept."""
        return BadSource.exit_status if self.unreadable else 0


#: Seconds that a run which an agent's hook began waits for the one before.
_PATIENCE = 60.0
#: Windows without a vector for which such a run loads an engine.
_FEW = 64
#: Folders that may not be looked into of which each is told.
_CLOSED = 20
#: Folders of nobody's transcripts that are told, and files of each.
_FOLDERS, _NAMED = 5, 3


@operation(effect="append", toolset="sessions", idempotent=True)
def ingest(
    context: Context,
    *,
    agent: Annotated[list[str] | None, Field("Only these agents' sessions")] = None,
    since: Annotated[str, Field("Only files changed since a date, time, or age such as 3d")] = "",
    path: Annotated[list[Path] | None, Field("This transcript, whosever it is", cli_only=True)] = None,
    own: Annotated[bool, Field("With --path: only if it is this project's", cli_only=True, hidden=True)] = False,
    all_: Annotated[bool, Field("For every registered project, noted in the schedule's log", cli_only=True)] = False,
    status: Annotated[bool, Field("Only tell what is stored")] = False,
    thoughts: Annotated[bool, Field("Keep the models' readable reasoning too")] = False,
    keep_raw: Annotated[
        bool, Field("Keep compressed copies, without secrets, in .bede/raw; --path reads them again", cli_only=True)
    ] = False,
    again: Annotated[bool, Field("Read every file from its beginning")] = False,
    dry_run: Annotated[bool, Field("Only tell what would be read")] = False,
    engine: Annotated[
        str, Field("Make the windows' vectors with this: static, mlx:4b, st:NAME, onnx:/folder", cli_only=True)
    ] = "",
    quiet: Annotated[bool, Field("Answer by the exit status alone", short="-q", cli_only=True)] = False,
) -> IngestResult:
    """Take in what coding agents left on disk: the sessions that worked in this project, each turn once.

    Only what is new is read. A session belongs to the project that holds the folder it worked in; what tells no
    folder is left alone until somebody names its file. Secrets never reach the disk.
    """
    from bede.intake.projects import Wanted

    context.is_silent = quiet
    if path and (all_ or agent):
        raise UsageError("--path names files by itself", hint="leave out --all and --agent")
    agents = _agents(agent)
    wanted = Wanted(
        agents=agents,
        since=instant(since, context.now()) if since else 0,
        paths=tuple(context.directory / item for item in path or ()),
        is_own=own,
        patience=_PATIENCE if own else 0.0,
        keeps_thoughts=thoughts,
        keeps_raw=keep_raw,
        is_again=again,
        is_dry=dry_run,
    )
    called = None if status or dry_run else _guests(context, engine)
    if all_ and not (status or dry_run):
        return _noted(context, wanted, called)
    report = Report() if status else _run(context, wanted, all_)
    return _embedded(context, _told(context, wanted, report, is_status=status, is_all=all_), called, wanted, all_)


def _guests(context: Context, engine: str) -> Guests | None:
    """Return the engine that the call or the settings name; one that the call names must be there."""
    if (engine or context.config["search.engine"]) == "lexical":
        return None
    from bede.answers.meaning import guests

    called = guests(context.config, context.environment, engine)
    if engine:
        called.embedder()
    return called


def _embedded(
    context: Context, result: IngestResult, called: Guests | None, wanted: Wanted, is_all: bool
) -> IngestResult:
    """Make the vectors that windows lack. For a run that an agent's turn began, a few are no reason to load a model."""
    if called is None:
        return result
    made, least = 0, _FEW if wanted.is_own else 1
    for each in _everywhere(context) if is_all else (context,):
        made += called.fill(each.repository, context.progress, least)
    return replace(result, embedded=made, warnings=(*result.warnings, *called.warnings))


def _everywhere(context: Context) -> Iterator[Context]:
    """Yield a call like this one in every registered project that can be used."""
    from bede.repository import registry

    for known in registry.all_known(context.environment):
        place = Path(known.root)
        other = Context(directory=place, environment=context.environment, clock=context.clock)
        with suppress(BedeError), closing(other):
            if other.project.root == place:
                yield other


def _run(context: Context, wanted: Wanted, is_all: bool) -> Report:
    from bede.intake.projects import everywhere, here

    return everywhere(context, wanted) if is_all else here(context, wanted)


def _noted(context: Context, wanted: Wanted, called: Guests | None) -> IngestResult:
    """Run for every project, and note what came of it, however it ends."""
    from bede import diary
    from bede.redact import redact_value

    line: dict[str, Any] = {"at": timestamp(context.now()), "outcome": "failed"}
    try:
        result = _told(context, wanted, _run(context, wanted, True), is_status=False, is_all=True)
        result = _embedded(context, result, called, wanted, True)
        outcome = "failed" if result.unreadable and not result.files.get("read") else "done"
        line |= {"outcome": outcome, "sessions": result.sessions, "turns": result.turns, "files": result.files}
        line["unreadable"] = [item.to_json() for item in result.unreadable[:20]]
        return result
    except BedeError as error:
        line |= {"outcome": "busy" if error.code == "busy" else "failed", "message": error.message}
        raise
    finally:
        with suppress(BedeError):
            diary.write(diary.place(context.environment), redact_value(line))


def _told(context: Context, wanted: Wanted, report: Report, *, is_status: bool, is_all: bool) -> IngestResult:
    rows = _stored(context, is_all) if is_status else []
    nobodys = () if context.is_silent else _unclaimed(context, report)
    closed, more = _closed(report), len(report.refused) - _CLOSED
    if wanted.agents != _agents(None):
        rows = [row for row in rows if row[0] in wanted.agents]
    return IngestResult(
        outcome="status" if is_status else "planned" if wanted.is_dry else "ingested",
        project="" if is_all else str(context.project.root),
        agents=wanted.agents,
        sessions=sum(row[2] for row in rows) if is_status else len(report.sessions),
        files=dict(sorted(report.files.items())),
        turns={name: count for name, count in sorted(report.turns.items()) if count},
        records=report.records.total(),
        problems=dict(sorted(report.problems.items())),
        unreadable=_unread([*report.failed, *closed]),
        stored=tuple(Stored(*row) for row in rows),
        vectors=_vectors(context) if is_status and not is_all else (),
        warnings=(f"{counted(more, 'more folder')} cannot be looked into",) if more > 0 else (),
        unclaimed=tuple(replace(each, gone=_is_gone(each.cwd)) for each in nobodys[:_FOLDERS]),
        unclaimed_more=len(nobodys[_FOLDERS:]),
    )


def _unread(found: list[tuple[Path, str, str]]) -> tuple[Unread, ...]:
    """Return what could not be read and why, without secrets that stand in names."""
    if not found:
        return ()
    from bede.redact import redact

    return tuple(Unread(redact(str(file)), code, redact(message)) for file, code, message in found)


def _closed(report: Report) -> list[tuple[Path, str, str]]:
    """Return folders that may not be looked into, each as a file that failed, so many and no more."""
    refused = sorted(report.refused.items())[:_CLOSED]
    return [(folder, BadSource.code, f"cannot look into {folder}: {reason}") for folder, reason in refused]


def _unclaimed(context: Context, report: Report) -> tuple[Unclaimed, ...]:
    """Return what a run met that no registered project holds, by the folder that it tells, the newest first."""
    strange = [(path, verdict) for path, verdict in report.verdicts.items() if verdict in ("foreign", "unplaced")]
    if not strange:
        return ()
    from bede.intake.belonging import Roots, worktrees
    from bede.repository import registry  # Only who meets others' sessions pays for it.

    known = registry.all_known(context.environment)
    roots = Roots((each.root, worktrees(Path(each.root))) for each in known)
    found: dict[str, list[str]] = {}
    for path, verdict in reversed(strange):
        folders = report.folders[path][1] if path in report.folders else ()
        for cwd in ("",) if verdict == "unplaced" else sorted(folders):
            if not cwd or roots.holder(cwd) is None:
                found.setdefault(cwd, []).append(str(path))
    return tuple(Unclaimed(cwd, len(paths), tuple(paths[:_NAMED])) for cwd, paths in found.items())


def _is_gone(cwd: str) -> bool:
    """Tell whether a folder, by none of its names on this machine, is there."""
    from bede.intake.belonging import forms

    return bool(cwd) and not any(map(os.path.lexists, forms(cwd)))


def _vectors(context: Context) -> tuple[Vectors, ...]:
    from bede.projections import vectors

    with context.repository.snapshot() as reading:
        return tuple(Vectors(one.name, one.dimensions, one.windows) for one in vectors.counts(reading.connection))


def _stored(context: Context, is_all: bool) -> list[tuple[str, str, int, int, int, int]]:
    """Return how many sessions, turns and windows there are of each agent and model, here or in all projects."""
    if is_all:
        from bede.intake.projects import tallies

        return tallies(context)
    with context.repository.snapshot() as reading:
        return tally(reading.connection)


def _agents(named: list[str] | None) -> tuple[str, ...]:
    known = (*AGENTS, *guests())
    for name in named or ():
        if name not in known:
            raise unknown(name, known)
    return tuple(dict.fromkeys(named)) if named else known
