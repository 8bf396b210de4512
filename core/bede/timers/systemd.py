"""systemd, where it runs for the user: one service and the timer that wakes it.

A service is never started while it still runs. The timer counts from the last start, so the machines of a
team do not all wake at once.
"""

from __future__ import annotations

import json
from pathlib import Path

from bede.errors import Unavailable
from bede.timers.machine import Machine
from bede.timers.port import Found, Job, Step
from bede.timers.sheet import lay, lift, look

SERVICE, TIMER = "bede-ingest.service", "bede-ingest.timer"
_CONTROL = ("systemctl", "--user")
_LINK = "timers.target.wants"
#: What systemd refuses in the path of a program, or would leave doubled, but takes in any other word.
_AWKWARD = set("$'\"\\\n\t*?[")


def service(job: Job) -> str:
    """Return the text of the service."""
    command = job.command
    if _AWKWARD & set(command[0]):
        command = ("/bin/sh", "-c", 'exec "$0" "$@"', *command)
    program, *words = command
    variables = "".join(f"Environment={quoted(f'{name}={value}')}\n" for name, value in job.variables)
    return (
        "[Unit]\nDescription=Read into Bede what coding agents did\n\n"
        "[Service]\nType=oneshot\nWorkingDirectory=/\nNice=10\nIOSchedulingClass=idle\nStandardOutput=null\n"
        f"{variables}"
        f"ExecStart={' '.join([quoted(program), *(quoted(word).replace('$', '$$') for word in words)])}\n"
    )


def timer(job: Job) -> str:
    """Return the text of the timer: a minute after it is started, and then every so many."""
    return (
        f"[Unit]\nDescription=Read into Bede what coding agents did, every {job.every} min\n\n"
        f"[Timer]\nOnActiveSec=1min\nOnUnitActiveSec={job.every}min\n\n"
        "[Install]\nWantedBy=timers.target\n"
    )


def quoted(text: str) -> str:
    """Return one word as systemd reads it: C's escapes inside double quotes, and no specifier in it."""
    for raw, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t"), ("%", "%%")):
        text = text.replace(raw, written)
    return f'"{text}"'


class Systemd:
    """The user's own systemd. It runs while the user is logged in, or always where lingering is enabled."""

    name = "systemd"

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._answer: str | None = None

    def missing(self) -> str:
        """Return why it cannot be used here; nothing where it can."""
        if not self._machine.program("systemctl"):
            return "there is no systemctl on PATH"
        return "" if self._folders() else "no systemd runs for this user"

    def found(self, now: int) -> Found | None:
        """Return what stands, and what systemd says of its next run."""
        looked = [look(folder / name) for folder in self._candidates() for name in (SERVICE, TIMER)]
        sheets = [sheet for sheet in looked if sheet.there]
        if not sheets:
            return None
        note = next((sheet.note for sheet in sheets if sheet.note), None) or {"every": 0, "command": []}
        theirs = tuple(str(sheet.path) for sheet in sheets if sheet.theirs)
        set_by_hand = any(Path(path).name == TIMER for path in theirs)
        since = max(sheet.since for sheet in sheets)
        active = self._is_active()
        next_at = self._next() if active else 0
        every = 0 if set_by_hand else note["every"]
        return Found(every, tuple(note["command"]), active, theirs, since, next_at)

    def put(self, job: Job) -> list[Step]:
        """Plan to write both units, and to start the timer with every login."""
        folder = self._folder()
        steps = [
            *lay(folder / SERVICE, service(job), job, mode=0o644),
            *lay(folder / TIMER, timer(job), job, mode=0o644),
        ]
        if steps:
            steps.append(Step(command=(*_CONTROL, "daemon-reload")))
        if any(step.path and step.path.name == TIMER for step in steps) or not self._is_active():
            # A running timer does not see its new times: it has to begin anew.
            steps.append(Step(command=(*_CONTROL, "enable", TIMER)))
            steps.append(Step(command=(*_CONTROL, "restart", TIMER)))
        return steps

    def take(self) -> list[Step]:
        """Plan to stop the timer and to delete both units; without a systemd to ask, the link too."""
        folders = [folder for folder in self._candidates() if self._stands_in(folder)]
        if not folders:
            return []
        files = [step for folder in folders for name in (TIMER, SERVICE) for step in lift(folder / name)]
        if self.missing():
            return [*files, *(step for folder in folders for step in _unlink(folder))]
        if not files and not self._is_active():
            return []
        steps = [Step(command=(*_CONTROL, "disable", "--now", TIMER)), *files]
        if files:
            steps.append(Step(command=(*_CONTROL, "daemon-reload")))
            steps.append(Step(command=(*_CONTROL, "reset-failed", SERVICE), may_fail=True))
        return steps

    def _stands_in(self, folder: Path) -> bool:
        return any(look(folder / name).there for name in (SERVICE, TIMER))

    def _candidates(self) -> list[Path]:
        """Return where the user's units may lie: systemd may have another idea than the shell has."""
        base = self._machine.environment.get("XDG_CONFIG_HOME", "")
        own = [Path(base)] if base.startswith("/") else []
        return [path / "systemd/user" for path in dict.fromkeys([*own, self._machine.home / ".config"])]

    def _folder(self) -> Path:
        """Return the folder to write into: the first that systemd looks into."""
        known = self._folders()
        found = self._candidates()
        return next((path for path in found if f" {path} " in f" {known} "), found[-1])

    def _folders(self) -> str:
        """Return the folders that the user's systemd looks into; nothing where it does not answer."""
        if self._answer is None:
            said = self._machine.call((*_CONTROL, "show", "--property=UnitPath", "--value"))
            self._answer = "" if said.status else said.out.decode("utf-8", "replace").strip()
        return self._answer

    def _is_active(self) -> bool:
        if self.missing():
            return False
        words = ("show", "--property=ActiveState", "--property=UnitFileState", TIMER)
        said = self._machine.call((*_CONTROL, *words)).out.split()
        return b"ActiveState=active" in said and b"UnitFileState=enabled" in said

    def _next(self) -> int:
        """Return when the timer elapses next, where this systemd can tell it as a number."""
        try:
            said = self._machine.call((*_CONTROL, "list-timers", "--all", "--output=json", TIMER))
            found = json.loads(said.out)[0]["next"]
        except (Unavailable, ValueError, LookupError, TypeError, RecursionError):
            return 0
        return found if type(found) is int and 0 < found < 2**62 else 0


def _unlink(folder: Path) -> list[Step]:
    link = folder / _LINK / TIMER
    return [Step(path=link, folders=1)] if link.is_symlink() else []
