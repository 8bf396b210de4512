"""launchd, the Mac's own: one property list among the user's agents.

A job is never started while it still runs, and a time missed in sleep is made up for once on waking.
"""

from __future__ import annotations

import os
from pathlib import Path

from bede.timers.machine import Machine
from bede.timers.port import Found, Job, Step
from bede.timers.sheet import lay, lift, look

LABEL = "bede.ingest"


def text(job: Job) -> str:
    """Return the property list; the escaping is plistlib's."""
    import plistlib

    body = {
        "Label": LABEL,
        "ProgramArguments": list(job.command),
        "EnvironmentVariables": dict(job.variables),
        "WorkingDirectory": "/",
        "StartInterval": job.every * 60,
        "RunAtLoad": True,
        "ProcessType": "Background",
        "LowPriorityIO": True,
        "Nice": 10,
    }
    return plistlib.dumps(body, sort_keys=False).decode()


class Launchd:
    """The user's agents. They run while the user is logged in at the screen."""

    name = "launchd"

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    @property
    def _path(self) -> Path:
        return self._machine.home / "Library/LaunchAgents" / f"{LABEL}.plist"

    def missing(self) -> str:
        """Return why it cannot be used here; nothing where it can."""
        if self._machine.platform != "darwin":
            return "launchd is the Mac's alone"
        return "" if self._machine.program("launchctl") else "there is no launchctl on PATH"

    def found(self, now: int) -> Found | None:
        """Return what stands. When launchd will run next it tells nobody."""
        sheet = look(self._path)
        if not sheet.there:
            return None
        note = sheet.note or {"every": 0, "command": []}
        theirs = (str(self._path),) if sheet.theirs else ()
        return Found(note["every"], tuple(note["command"]), self._is_loaded(), theirs, sheet.since)

    def put(self, job: Job) -> list[Step]:
        """Plan to write the agent and load it in the place of the one before."""
        steps = list(lay(self._path, text(job), job, mode=0o644, xml=True))
        loaded = self._is_loaded()
        if steps and loaded:
            steps.append(self._unload())
        if steps or not loaded:
            steps.append(Step(command=("launchctl", "bootstrap", _domain(), str(self._path))))
        return steps

    def take(self) -> list[Step]:
        """Plan to unload the agent and to delete its file."""
        there = look(self._path).there
        return [*([self._unload()] if there and self._is_loaded() else []), *lift(self._path)]

    def _unload(self) -> Step:
        # It returns before the job is gone, and loading in that moment fails.
        return Step(command=("launchctl", "bootout", _target()), until=("launchctl", "print", _target()))

    def _is_loaded(self) -> bool:
        return not self.missing() and self._machine.call(("launchctl", "print", _target())).status == 0


def _domain() -> str:
    return f"gui/{os.getuid()}"


def _target() -> str:
    return f"{_domain()}/{LABEL}"
