"""`bede status`: where things stand."""

from __future__ import annotations

import sqlite3
import sys
from typing import Annotated, ClassVar

import bede
from bede.answers.views import Memory, memories
from bede.context import Context
from bede.identity import counted, timestamp
from bede.operation import Field, operation
from bede.projections.state import State, state_at
from bede.quick import dataclass
from bede.records import Record
from bede.repository import Reading
from bede.repository.schema import FORMAT


@dataclass(frozen=True, slots=True)
class Versions(Record):
    """Who may use this file: told before a write fails."""

    bede: str
    python: str
    sqlite: str
    code_format: int
    file_format: int
    min_reader_version: int
    min_writer_version: int
    upgrade_hint: str
    access: str


@dataclass(frozen=True, slots=True)
class Session(Record):
    """A session of an agent, and when the last of it that is here was said; empty where its agent wrote no time."""

    agent: str
    session: str
    at: str


@dataclass(frozen=True, slots=True)
class StatusResult(Record):
    """The newest active status of each task, newest first, and the memory's health in one line.

    Of a task without a status there is its hand-off, else the task itself. `sessions` counts agents' sessions that were
    taken in; `newest_session` is the one that was at work last.
    """

    SCHEMA: ClassVar[str] = "status/1"

    project_id: str
    name: str
    root: str
    branch: str
    head: str
    health: str
    tasks: tuple[Memory, ...]
    more: bool
    blockers: tuple[Memory, ...]
    events: int
    operations: int
    branches: int
    versions: Versions
    sessions: int = 0
    newest_session: Session | None = None


@operation(effect="read", toolset="memory")
def status(
    context: Context,
    *,
    limit: Annotated[int, Field("Most tasks", ge=1, le=100, short="-n")] = 20,
    at: Annotated[str | None, Field("Branch or event to look from")] = None,
) -> StatusResult:
    """Tell where things stand: each task's newest active status, failing commands, health, versions."""
    with context.repository.snapshot() as reading:
        place = context.look(reading, at)
        seen = reading.spans(place)
        state = state_at(reading.connection, place.line, place.position)
        newest = sorted({entry[1] or entry[2] or entry[0] for entry in state["tasks"].values()}, reverse=True)
        failing = sorted((entry[1] for entry in state["blockers"].values()), reverse=True)
        project, counts = reading.project(), reading.counts()
        # Each is a ref, so that the room about sessions is entered only where there are some.
        sessions = sum(ref.startswith("sessions/") for ref in reading.refs())
        return StatusResult(
            project_id=project["uuid"],
            name=context.project.root.name,
            root=str(context.project.root),
            branch=at or context.branch(reading),
            head=place.id,
            health=_health(reading, state, counts["events"]),
            tasks=memories(reading, newest[:limit], seen),
            more=len(newest) > limit,
            blockers=memories(reading, failing[:limit], seen),
            events=counts["events"],
            operations=counts["operations"],
            branches=counts["refs"],
            versions=_versions(project, context.repository.read_only),
            sessions=sessions,
            newest_session=_newest(reading) if sessions else None,
        )


def _newest(reading: Reading) -> Session | None:
    from bede.projections import sessions

    found = sessions.latest(reading.connection)
    if found is None:
        return None
    agent, name, last = found
    return Session(agent, name, timestamp(last) if last is not None else "")


def _health(reading: Reading, state: State, events: int) -> str:
    number, value = reading.head()
    failing = len(state["blockers"])
    trouble = f"{counted(failing, 'command')} failing" if failing else "nothing failing"
    size = f"{counted(events, 'event')} in {counted(number, 'operation')}"
    return f"{size}, head {value[:12]}, {trouble}"


def _versions(project: dict[str, object], read_only: bool) -> Versions:
    newer = max(int(str(project[name])) for name in ("format_version", "min_writer_version")) > FORMAT
    return Versions(
        bede=bede.__version__,
        python=sys.version.split()[0],
        sqlite=sqlite3.sqlite_version,
        code_format=FORMAT,
        file_format=int(str(project["format_version"])),
        min_reader_version=int(str(project["min_reader_version"])),
        min_writer_version=int(str(project["min_writer_version"])),
        upgrade_hint=str(project["upgrade_hint"]) if newer else "",
        access="read_only" if read_only else "full",
    )
