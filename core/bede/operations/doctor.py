"""`bede doctor`: prove that everything works here, or say what does not."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from bede.answers import talk
from bede.answers.ranking import find
from bede.context import Context
from bede.errors import BedeError, RepositoryNotFound
from bede.identity import counted
from bede.operation import operation
from bede.places import DATABASE, FOLDER
from bede.projections.memory import Filter, newest
from bede.projections.sessions import Wanted
from bede.projections.state import state_at
from bede.quick import dataclass
from bede.records import Record
from bede.repository import registry
from bede.repository.connection import has_text_search
from bede.repository.verify import is_laid_anew

if TYPE_CHECKING:
    from bede.projections.aside import Difference

#: Most events of which everything derived is built once more: some 75 microseconds each.
_COMPARED = 200_000
#: Below this many bytes of free space a warning is due; below a tenth of it, writes will soon fail.
_ROOM = 200_000_000
_BOOT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Check(Record):
    """One thing that was looked at: `ok`, `warn` or `fail`, what was found, and what to do."""

    name: str
    outcome: str
    detail: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class DoctorResult(Record):
    """Every check; exit status 1 when one failed."""

    SCHEMA: ClassVar[str] = "doctor/1"

    ok: bool
    checks: tuple[Check, ...]

    @property
    def exits(self) -> int:
        """1 when a check failed."""
        return 0 if self.ok else 1


@operation(effect="host", idempotent=True)
def doctor(context: Context) -> DoctorResult:
    """Check this installation and this project, and prove that the MCP server boots.

    Looks at Python and SQLite, the settings, the project's file modes, free space, SQLite's own integrity check,
    the whole history's hashes, what is derived from it (up to 200,000 events), the registry, engines that the
    settings name, transcripts that their agent will soon delete, and every coding agent found on this machine: its
    entry, its hooks, approvals that are missing, whether the command they call starts and answers. Starts
    `bede serve` to ask it for its tools. Changes nothing.
    """
    checks: list[Check] = []
    for look in _LOOKS:
        checks += _guarded(look, context)
    return DoctorResult(all(check.outcome != "fail" for check in checks), tuple(checks))


def _guarded(look: Callable[[Context], Iterator[Check]], context: Context) -> list[Check]:
    """Let one check's failure be a finding, under the name it has anyway, so that the others are still made."""
    try:
        return list(look(context))
    except RepositoryNotFound as error:
        missing = [Check("project", "fail", error.message, error.hint)]
        return missing if look is _project else []
    except (BedeError, sqlite3.Error, OSError) as error:
        hint = error.hint if isinstance(error, BedeError) else ""
        return [Check(look.__name__.strip("_"), "fail", str(error), hint)]


def _python(_context: Context) -> Iterator[Check]:
    version = ".".join(str(part) for part in sys.version_info[:3])
    fine = sys.version_info >= (3, 11)
    yield Check("python", "ok" if fine else "fail", version, "" if fine else "use Python 3.11 or newer")


def _sqlite(_context: Context) -> Iterator[Check]:
    searches = has_text_search()
    has = searches and sqlite3.sqlite_version_info >= (3, 38)
    yield Check(
        "sqlite",
        "ok" if has else "fail",
        f"{sqlite3.sqlite_version} {'with' if searches else 'without'} full-text search",
        "" if has else "use a Python whose SQLite is 3.38 or newer, with FTS5",
    )


def _settings(context: Context) -> Iterator[Check]:
    changed = [item.key for item in context.config.all() if item.layer != "default"]
    yield Check("settings", "ok", f"set: {', '.join(changed)}" if changed else "all defaults")


def _project(context: Context) -> Iterator[Check]:
    with context.repository.snapshot() as reading:
        counts = reading.counts()
    yield Check("project", "ok", f"{context.project.database}, {counted(counts['events'], 'event')}")


def _modes(context: Context) -> Iterator[Check]:
    if os.name != "posix":
        yield Check("modes", "ok", "this system keeps the folder private by other means")
        return
    folder = context.project.folder
    loose = [
        str(path)
        for path in (folder, *sorted(folder.iterdir()))
        if stat.S_IMODE(path.lstat().st_mode) & 0o077 and not path.is_symlink()
    ]
    hint = f"chmod -R go-rwx {folder}" if loose else ""
    yield Check(
        "modes",
        "warn" if loose else "ok",
        f"open to others: {', '.join(loose)}" if loose else "private",
        hint,
    )


def _space(context: Context) -> Iterator[Check]:
    free = shutil.disk_usage(context.project.folder).free
    outcome = "ok" if free > _ROOM else "warn" if free > _ROOM // 10 else "fail"
    log = Path(f"{context.project.database}-wal")
    size = log.stat().st_size if log.exists() else 0
    detail = f"{free / 1e9:.1f} GB free, write-ahead log {size / 1e6:.1f} MB"
    yield Check("space", outcome, detail, "" if outcome == "ok" else "free some space")


def _integrity(context: Context) -> Iterator[Check]:
    said = context.history().integrity()
    fine = said == ["ok"]
    yield Check("integrity", "ok" if fine else "fail", "; ".join(said[:5]), "" if fine else "restore a backup")


def _indexes(context: Context) -> Iterator[Check]:
    """Ask each projection something, as the everyday verbs do."""
    with context.repository.snapshot() as reading:
        place = context.look(reading)
        state_at(reading.connection, place.line, place.position)
        found = newest(reading.connection, reading.spans(place), Filter(status="all"), 1)
        find(reading, reading.spans(place), "bede", Filter(), 1, context.now())
        talk.find(reading.connection, "bede", Wanted(), 1)
        if not reading.is_indexed():
            yield Check("indexes", "fail", "not every event can be found by its id", "run 'bede reindex'")
            return
    yield Check("indexes", "ok", "all answer" if found else "all answer, and there is no memory yet")


def _derived(context: Context) -> Iterator[Check]:
    """Build everything derived once more, aside, and hold against it what the file has."""
    from bede.projections.aside import differences

    with context.repository.snapshot() as reading:
        events = reading.counts()["events"]
    if events > _COMPARED:
        told = f"not compared with the log, since {events:,} events would take minutes; 'bede reindex' lays it anew"
        yield Check("derived", "ok", told)
        return
    found = [_told(one) for one in differences(context.repository.connection)]
    hint = "run 'bede reindex'" if found else ""
    yield Check("derived", "fail" if found else "ok", "; ".join(found) or "follows from the log", hint)


def _told(one: Difference) -> str:
    parts = [f"lacks {counted(one.lacking, 'row')}"] if one.lacking else []
    parts += [f"has {counted(one.strange, 'row')} that the log does not tell of"] if one.strange else []
    return f"{one.table} {' and '.join(parts)}"


def _history(context: Context) -> Iterator[Check]:
    began = time.monotonic()
    verdict = context.history().verify()
    took = time.monotonic() - began
    if verdict.findings:
        first = verdict.findings[0]
        hint = "run 'bede reindex'" if is_laid_anew(verdict.findings) else "run 'bede verify', then restore a backup"
        yield Check("history", "fail", f"{first.table} {first.row}: {first.problem}", hint)
        return
    size = f"{counted(verdict.events, 'event')}, {counted(verdict.operations, 'operation')}"
    yield Check("history", "ok", f"{size}, in {took:.2f} s")
    for look in (_indexes, _derived):  # Nothing that is right follows from a history that is not.
        yield from _guarded(look, context)


def _registry(context: Context) -> Iterator[Check]:
    known = registry.all_known(context.environment)
    gone = [item.root for item in known if not (Path(item.root) / FOLDER / DATABASE).exists()]
    root = str(context.project.root)
    if root not in {item.root for item in known}:
        yield Check("registry", "warn", f"{root} is not registered", "run 'bede init' once more")
    elif gone:
        yield Check("registry", "warn", f"gone: {', '.join(gone)}", "bede projects --forget ROOT")
    else:
        yield Check("registry", "ok", f"{len(known)} known")


def _engines(context: Context) -> Iterator[Check]:
    """Look whether the engines that the settings name are there, and have made the vectors of every window."""
    from bede.answers.meaning import RERANKER, engine, guests

    named = engine(context.config), engine(context.config, key=RERANKER)
    if not any(named):
        yield Check("engines", "ok", "none is set: search goes by words")
        return
    called = guests(context.config, context.environment, *named)  # as a call would that names them itself
    try:
        called.check()
        lacking = called.lacking(context.repository)
    except BedeError as error:
        yield Check("engines", "warn", error.message, error.hint)
        return
    detail = f"{', '.join(filter(None, named))}: there, {lacking:,} windows without a vector"
    yield Check("engines", "warn" if lacking else "ok", detail, "run 'bede ingest'" if lacking else "")


def _transcripts(context: Context) -> Iterator[Check]:
    """Look for sessions that their agent will delete before anybody took them in."""
    from bede.intake.fading import fading
    from bede.intake.projects import home
    from bede.intake.running import transcripts
    from bede.sources import AGENTS
    from bede.sources.port import World

    world = World(context.environment, home(context), sys.platform)
    with context.repository.snapshot() as reading:
        found, days = fading(reading.connection, world, context.now())
    for _ in transcripts(AGENTS, world):  # Only what may not be looked into is of interest.
        pass
    if world.refused:
        named = ", ".join(f"{folder}: {reason}" for folder, reason in sorted(world.refused.items())[:3])
        more = " …" if len(world.refused) > 3 else ""
        yield Check("transcripts", "warn", f"cannot look into {named}{more}", "let this user read the folders")
    if found:
        named = ", ".join(str(path) for path in found[:3]) + (" …" if len(found) > 3 else "")
        detail = f"claude-code keeps sessions {days} days and will soon delete {len(found)} not taken in: {named}"
        yield Check("transcripts", "warn", detail, "run 'bede ingest', or 'bede ingest --all'")
    elif not world.refused:
        yield Check("transcripts", "ok", "none will be deleted soon without having been taken in")


def _agents(context: Context) -> Iterator[Check]:
    """Look at every coding agent on this machine."""
    from bede.examining import examine

    for found in examine(context):
        yield Check(f"agent {found.agent}", found.outcome, found.detail, found.hint)


def _hooks(context: Context) -> Iterator[Check]:
    """Look whether there was anything that hooks could not do."""
    from bede.examining import log_of_hooks

    path, count = log_of_hooks(context.environment)
    if count:
        yield Check("hooks", "warn", f"{count} calls could not be answered", f"look into {path}, then delete it")


def _server(context: Context) -> Iterator[Check]:
    """Boot the server as an agent would, and ask for its tools."""
    began = time.monotonic()
    try:
        tools = _ask_for_tools(context)
    except (OSError, ValueError, subprocess.SubprocessError, KeyError) as error:
        yield Check(
            "server",
            "fail",
            f"bede serve does not answer: {error!r}",
            "run 'bede serve' by hand and look at stderr",
        )
        return
    yield Check("server", "ok", f"{tools} tools (read-only) after {time.monotonic() - began:.2f} s")


def _ask_for_tools(context: Context) -> int:
    client = {"name": "bede-doctor", "version": "1"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    command = [sys.executable, "-m", "bede_cli", "serve", "--read-only"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=context.project.root,
        env=dict(context.environment),
        text=True,
        encoding="utf-8",
    ) as process:
        try:
            said, _ = process.communicate("".join(json.dumps(item) + "\n" for item in messages), _BOOT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    answers = {item.get("id"): item for item in map(json.loads, said.splitlines())}
    return len(answers[2]["result"]["tools"])


_LOOKS = (
    _python,
    _sqlite,
    _settings,
    _project,
    _modes,
    _space,
    _integrity,
    _history,
    _registry,
    _engines,
    _transcripts,
    _agents,
    _hooks,
    _server,
)
