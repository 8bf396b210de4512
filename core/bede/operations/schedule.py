"""`bede schedule`: let this machine ingest by itself, every few minutes."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from bede import diary
from bede.context import Context
from bede.errors import BedeError, Unavailable, UsageError
from bede.identity import instant, timestamp
from bede.operation import Field, operation
from bede.quick import dataclass
from bede.records import Record
from bede.redact import redact
from bede.timers import timers
from bede.timers.machine import Machine, perform
from bede.timers.port import Found, Job, Step, Timer

Action = Literal["install", "status", "remove"]
Using = Literal["launchd", "systemd", "cron"]

_RUN = ("ingest", "--all", "--quiet")
_DAY = 24 * 60
#: Where the agents keep their transcripts, if not where they always do.
_HOMES = (
    "CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "PI_CODING_AGENT_DIR",
    "PI_CODING_AGENT_SESSION_DIR", "OMP_CODING_AGENT_DIR", "GEMINI_CLI_HOME", "COPILOT_HOME", "VSCODE_PORTABLE",
    "VSCODE_APPDATA", "CURSOR_DATA_DIR", "CURSOR_CONFIG_DIR",
)  # fmt: skip
#: The same, where a relative value means the same wherever a run begins.
_NAMED = ("OPENCODE_DB", "OMP_CONFIG_DIR", "PI_CONFIG_DIR")
#: What binds a call to one project or to one run; a schedule serves every project.
_OF_A_CALL = {"BEDE_DIR", "BEDE_BRANCH", "BEDE_TASK_ID", "BEDE_RUN_ID", "BEDE_CONTEXT_FILE"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_UNSAYABLE = re.compile(r"[\0-\x08\x0b-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Planned(Record):
    """One step: `write` or `delete` a file, or `run` a program.

    `text` is what goes into the file, or into the program.
    """

    does: str
    path: str
    command: str
    text: str


@dataclass(frozen=True, slots=True)
class ScheduleResult(Record):
    """What stands on this machine, and how the last run went; `steps` are those done, or to be done.

    `outcome` is `installed`, `changed`, `unchanged`, `removed` or `absent`; for `status`, `active` or
    `inactive` too. `last_run` is the log's newest line. `next_run_at` is empty where only the timer itself
    knows.
    """

    SCHEMA: ClassVar[str] = "schedule/1"

    outcome: str
    using: str
    every: str
    command: str
    command_found: bool
    last_run: dict[str, Any] | None
    next_run_at: str
    log: str
    steps: tuple[Planned, ...]
    dry_run: bool
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """A timer with what stands of ours in it."""

    timer: Timer
    found: Found


@operation(effect="host", idempotent=True)
def schedule(
    context: Context,
    action: Annotated[Action, Field("What to do")] = "status",
    *,
    every: Annotated[str, Field("How often: 15m, 2h, 1d; from a minute to a day", metavar="AGE")] = "15m",
    using: Annotated[Using | None, Field("The timer to use; by default the best one here")] = None,
    dry_run: Annotated[bool, Field("Show what would be written and run, and do nothing")] = False,
) -> ScheduleResult:
    """Let this machine run `bede ingest --all --quiet` every few minutes, tell how that goes, or end it.

    Uses a launchd agent on macOS, a systemd timer where one runs for the user, else a line in the crontab.
    The run gets PATH, the settings of `BEDE_*` and the agents' own home variables as they are now, and
    nothing else; what looks like a secret is left out. Installing again changes what has changed, else says
    `unchanged`. Removing gives back what was there before; a file that somebody has changed since is left
    alone, and told. A systemd timer and a launchd agent run while their user is logged in. Needs no project.
    """
    minutes = _minutes(every)
    machine = Machine(context.environment)
    known = timers(machine)
    standing = _standing(known, context)
    warnings: list[str] = []
    if action == "status":
        return _result(context, _state(standing), standing)
    if action == "install":
        timer, job = _choose(known, using, standing), _job(context, minutes, warnings)
        outcome, steps = _install(timer, standing, job)
        shown = [Standing(timer, Found(job.every, job.command, False))]
    else:
        shown = [item for item in standing if using in (None, item.timer.name)]
        outcome, steps = _remove(shown, warnings)
    if not dry_run:
        perform(machine, steps)
        shown = _standing(timers(machine), context)
    planned = tuple(_planned(step) for step in steps)
    return _result(context, outcome, shown, planned, tuple(warnings), dry_run)


def _install(timer: Timer, standing: list[Standing], job: Job) -> tuple[str, list[Step]]:
    """Plan that this timer has the job, and no other has."""
    steps = timer.put(job)
    for item in standing:
        if item.timer is not timer:
            steps += item.timer.take()
    before = any(item.timer is timer for item in standing)
    return "unchanged" if not steps else "changed" if before else "installed", steps


def _remove(standing: list[Standing], warnings: list[str]) -> tuple[str, list[Step]]:
    """Plan that what stands of ours is taken away."""
    for item in standing:
        kept = [path for path in item.found.theirs if path != "crontab"]
        warnings += [f"{path} was changed by hand and is left to you" for path in kept]
    steps = [step for item in standing for step in item.timer.take()]
    return "removed" if steps else "unchanged" if standing else "absent", steps


def _minutes(text: str) -> int:
    found = re.fullmatch(r"([1-9]\d{0,3})([mhd])", text.strip(), re.ASCII)
    minutes = int(found[1]) * {"m": 1, "h": 60, "d": _DAY}[found[2]] if found else 0
    if not 1 <= minutes <= _DAY:
        raise UsageError(f"--every cannot be {text[:40]!r}", hint="from 1m to 1d, such as 15m or 2h")
    return minutes


def _age(minutes: int) -> str:
    for unit, size in (("d", _DAY), ("h", 60)):
        if minutes and minutes % size == 0:
            return f"{minutes // size}{unit}"
    return f"{minutes}m" if minutes else ""


def _standing(known: tuple[Timer, ...], context: Context) -> list[Standing]:
    return [Standing(timer, found) for timer in known if (found := timer.found(context.now()))]


def _choose(known: tuple[Timer, ...], using: str | None, standing: list[Standing]) -> Timer:
    """Return the timer that was asked for, else the one that stands, else the best that is here.

    Raises:
        Unavailable: it is not here, or none is.
    """
    if using:
        timer = next(timer for timer in known if timer.name == using)
        if why := timer.missing():
            raise Unavailable(f"cannot use {using}: {why}", hint="leave out --using for the best one here")
        return timer
    here = [timer for timer in (*(item.timer for item in standing), *known) if not timer.missing()]
    if not here:
        hint = "install cron, or have 'bede ingest --all --quiet' run by other means"
        if os.name == "nt":
            line = f"schtasks /Create /TN bede /SC MINUTE /MO 15 /TR '{shlex.join((*_bede({}), *_RUN))}'"
            hint = f"make a task yourself: {line}"
        why = "; ".join(f"{timer.name}: {timer.missing()}" for timer in known)
        raise Unavailable(f"this machine has nothing to wake a command with ({why})", hint=hint)
    return here[0]


def _job(context: Context, every: int, warnings: list[str]) -> Job:
    """Return the job as this call would have it run.

    Raises:
        UsageError: a path or value has characters that no notation can carry.
    """
    environment = context.environment
    command = (*_bede(environment), *_RUN)
    variables: list[tuple[str, str]] = []
    for name, value in _carried(environment, context.directory):
        if redact(f"{name}={value}") != f"{name}={value}":
            warnings.append(f"{name} is left out, since it looks like a secret; a run goes without it")
        else:
            variables.append((name, value))
    for name, value in (("the path of bede", command[0]), *variables):
        if _UNSAYABLE.search(value) or (value == command[0] and "\n" in value):
            text = f"{name} has characters that no timer can carry: {value[:200]!r}"
            raise UsageError(text, hint="change or unset it")
    warnings += _elsewhere(environment)
    return Job(every, command, tuple(variables))


def _bede(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return how this installation is called, wherever one stands: its script, else its interpreter."""
    name = "bede.exe" if os.name == "nt" else "bede"
    folders = [str(Path(sys.executable).parent)]
    folders += _absolute(environment.get("PATH", ""))
    found = next((path for folder in folders if (path := shutil.which(name, path=folder))), "")
    return (found,) if found else (sys.executable, "-m", "bede_cli")


def _absolute(search: str) -> list[str]:
    return [folder for folder in search.split(os.pathsep) if os.path.isabs(folder)]  # noqa: PTH117


def _carried(environment: Mapping[str, str], directory: Path) -> Iterator[tuple[str, str]]:
    """Yield the variables that a run needs; a relative path would mean another folder there."""
    if folders := _absolute(environment.get("PATH", "")):
        yield "PATH", os.pathsep.join(folders)
    of_a_call = _OF_A_CALL | ({"BEDE_AGENT_ID"} if "BEDE_RUN_ID" in environment else set())
    for name, value in sorted(environment.items()):
        ours = name.startswith("BEDE_") and _NAME.fullmatch(name) and name not in of_a_call
        told = _placed(name, value, directory) if ours or name in _HOMES or name in _NAMED else ""
        if told:
            yield name, told


def _placed(name: str, value: str, directory: Path) -> str:
    """Return a variable's value as it means the same from any folder; '' where it means nothing."""
    if not value or not (name in _HOMES or name in ("BEDE_CONFIG_DIR", "BEDE_DATA_DIR")):
        return value
    if name.startswith("XDG_"):
        return value if value.startswith("/") else ""  # The rule is to ignore it.
    return value if name in _HOMES and value.startswith("~") else str(directory / value)


def _elsewhere(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning where the run will have another home than this call has."""
    try:
        import pwd

        real = pwd.getpwuid(os.getuid()).pw_dir
    except (ImportError, KeyError):
        return
    here = environment.get("HOME", "")
    if here and os.path.realpath(here) != os.path.realpath(real):
        yield f"HOME is {here}, but the run will have this user's own, {real}"


def _state(standing: list[Standing]) -> str:
    if not standing:
        return "absent"
    return "active" if standing[0].found.active else "inactive"


def _planned(step: Step) -> Planned:
    text = (step.data or b"").decode("utf-8", "backslashreplace")
    does = "run" if step.path is None else "delete" if step.data is None else "write"
    return Planned(does, str(step.path or ""), shlex.join(step.command), text)


def _result(
    context: Context,
    outcome: str,
    standing: list[Standing],
    steps: tuple[Planned, ...] = (),
    warnings: tuple[str, ...] = (),
    dry_run: bool = False,
) -> ScheduleResult:
    """Return what stands and how it goes, whatever was done before."""
    log = diary.place(context.environment)
    last = diary.last(log)
    found = standing[0].found if standing else Found(0, (), False)
    is_there = bool(found.command) and shutil.which(found.command[0]) is not None
    if outcome != "absent" and not dry_run:
        warnings += tuple(_concerns(standing, is_there, last, context.now()))
    return ScheduleResult(
        outcome=outcome,
        using=standing[0].timer.name if standing else "",
        every=_age(found.every),
        command=shlex.join(found.command),
        command_found=is_there,
        last_run=last,
        next_run_at=timestamp(found.next_at) if found.next_at else "",
        log=str(log),
        steps=steps,
        dry_run=dry_run,
        warnings=warnings,
    )


def _concerns(standing: list[Standing], is_there: bool, last: dict[str, Any] | None, now: int) -> Iterator[str]:
    """Yield what is not as it should be about a schedule that stands."""
    again = "'bede schedule install' mends it"
    for item in standing[1:]:
        yield f"{item.timer.name} has a schedule too; {again}"
    for item in standing[:1]:
        found = item.found
        if found.theirs:
            yield f"changed by hand: {', '.join(found.theirs)}"
        if found.command and not is_there:
            yield f"{found.command[0]} is gone; {again}"
        if not found.active:
            yield f"{item.timer.name} does not run it; {again}"
        elif found.every and now - max(found.since, _ran(last, now)) > (3 * found.every + 10) * 60_000_000:
            yield f"no run was logged for a while; look whether {item.timer.name} itself runs here"


def _ran(last: dict[str, Any] | None, now: int) -> int:
    """Return when the last run was, 0 where the log does not tell."""
    try:
        return instant(str((last or {}).get("at", "")), now)
    except BedeError:
        return 0
