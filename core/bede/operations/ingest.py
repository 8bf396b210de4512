"""`bede ingest`: take in what coding agents left on disk."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from bede.context import Context
from bede.errors import BadSource, BedeError, UsageError
from bede.identity import instant, timestamp
from bede.intake.running import Report
from bede.operation import Field, operation
from bede.projections.sessions import tally
from bede.records import Record
from bede.sources import AGENTS, guests

if TYPE_CHECKING:
    from bede.intake.projects import Wanted


@dataclass(frozen=True, slots=True)
class Unread(Record):
    """A file that could not be read, and why."""

    path: str
    code: str
    message: str


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
class IngestResult(Record):
    """What was met and what came of it. `files` by outcome, `turns` by outcome, `problems` by reason.

    Of files: `read` had something for this project, `unchanged` nothing new, `foreign` belong to other folders,
    `unplaced` tell no folder, `empty` no conversation, `unreadable` are listed. Of turns: `new`, `revised` (told again
    with more in them), `repeated` (known already), `replayed` (copies of another session's).
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

    @property
    def exits(self) -> int:
        """30 where a file could not be read; what could be read was kept."""
        return BadSource.exit_status if self.unreadable else 0


#: Seconds that a run which an agent's hook began waits for the one before.
_PATIENCE = 60.0


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
    keep_raw: Annotated[bool, Field("Keep a compressed copy of the records, without secrets", cli_only=True)] = False,
    again: Annotated[bool, Field("Read every file from its beginning")] = False,
    dry_run: Annotated[bool, Field("Only tell what would be read")] = False,
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
    if all_ and not (status or dry_run):
        return _noted(context, wanted)
    report = Report() if status else _run(context, wanted, all_)
    return _told(context, wanted, report, is_status=status, is_all=all_)


def _run(context: Context, wanted: Wanted, is_all: bool) -> Report:
    from bede.intake.projects import everywhere, here

    return everywhere(context, wanted) if is_all else here(context, wanted)


def _noted(context: Context, wanted: Wanted) -> IngestResult:
    """Run for every project, and note what came of it, however it ends."""
    from bede import diary

    line: dict[str, Any] = {"at": timestamp(context.now()), "outcome": "failed"}
    try:
        result = _told(context, wanted, _run(context, wanted, True), is_status=False, is_all=True)
        outcome = "failed" if result.unreadable and not result.files.get("read") else "done"
        line |= {"outcome": outcome, "sessions": result.sessions, "turns": result.turns, "files": result.files}
        line["unreadable"] = [item.to_json() for item in result.unreadable[:20]]
        return result
    except BedeError as error:
        line |= {"outcome": "busy" if error.code == "busy" else "failed", "message": error.message}
        raise
    finally:
        with suppress(BedeError):
            diary.write(diary.place(context.environment), line)


def _told(context: Context, wanted: Wanted, report: Report, *, is_status: bool, is_all: bool) -> IngestResult:
    rows = _stored(context, is_all) if is_status else []
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
        unreadable=tuple(Unread(str(file), code, message) for file, code, message in report.failed),
        stored=tuple(Stored(*row) for row in rows),
    )


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
            raise UsageError(f"no transcripts of {name!r} are known", hint=f"known are {', '.join(sorted(known))}")
    return tuple(dict.fromkeys(named)) if named else known
