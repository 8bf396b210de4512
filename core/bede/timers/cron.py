"""cron, where nothing better is: one line at the top of the user's crontab, and the script it runs.

The line stands first, so that no variable set further down (a SHELL, a PATH) changes what it means, and
taking it away leaves every other byte as it was. Command and variables are in the script, since cron cuts a
line after 999 bytes.
"""

from __future__ import annotations

import re
import shlex
import time
from pathlib import Path

from bede.config import user_folder
from bede.errors import Unavailable, UsageError
from bede.timers.machine import Machine
from bede.timers.port import Found, Job, Step
from bede.timers.sheet import lay, lift, look

#: Bytes of a command that every cron takes.
_MOST = 999
#: How `crontab -l` says that there is none; the second is busybox's way.
_NONE = re.compile(r"no crontab for|No such file or directory", re.IGNORECASE)


def script(job: Job) -> str:
    """Return the script: the variables, then the command in its own place.

    What it says goes nowhere, since its log says it better, and cron would mail it.
    """
    variables = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in job.variables)
    return (
        "# cron runs this for 'bede schedule'; 'bede schedule remove' takes it away.\n"
        "renice -n 10 -p $$ >/dev/null 2>&1\n"
        f"cd /\n{variables}exec {shlex.join(job.command)} >/dev/null 2>&1\n"
    )


def fields(every: int) -> str:
    """Return the five fields that mean every so many minutes.

    Raises:
        UsageError: cron's clock starts anew with each hour and day, and this does not go into them.
    """
    if every < 60 and 60 % every == 0:
        return f"*/{every} * * * *" if every > 1 else "* * * * *"
    if every % 60 == 0 and 1440 % every == 0:
        return {1: "0 * * * *", 24: "0 0 * * *"}.get(every // 60, f"0 */{every // 60} * * *")
    fitting = [*(n for n in range(1, 60) if 60 % n == 0), *(60 * n for n in range(1, 25) if 24 % n == 0)]
    low, high = max(n for n in fitting if n < every), min(n for n in fitting if n > every)
    hint = f"use --every {low}m or --every {high}m"
    raise UsageError(f"cron cannot run every {every} minutes evenly", hint=hint)


def command(path: Path) -> bytes:
    """Return what the line runs.

    A percent sign ends a command, unless a backslash stands before it. Some crons take that backslash away
    and some leave it to the shell: outside of quotes both come to the same.

    Raises:
        UsageError: no line can name this path.
    """
    name = str(path)
    written = ("/bin/sh " + "\\%".join(shlex.quote(part) if part else "" for part in name.split("%"))).encode(
        "utf-8", "surrogateescape"
    )
    if len(written) > _MOST or "\\" in name or any(ord(char) < 32 for char in name):
        raise UsageError(f"a crontab cannot name {path}", hint="set BEDE_DATA_DIR to a plainer folder")
    return written


def with_line(text: bytes, line: bytes, own: bytes) -> bytes:
    """Return a crontab with our line in it once: where it stood before, else at the top."""
    lines = text.split(b"\n")
    at = next((number for number, old in enumerate(lines) if is_ours(old, own)), None)
    if at is None:
        return line + b"\n" + text
    kept = [old for old in lines[at + 1 :] if not is_ours(old, own)]
    return b"\n".join([*lines[:at], line, *kept])


def without(text: bytes, own: bytes) -> bytes:
    """Return a crontab without our line; every other byte stays."""
    return b"\n".join(line for line in text.split(b"\n") if not is_ours(line, own))


def is_ours(line: bytes, own: bytes) -> bool:
    """Tell whether a line runs our script, at whatever times."""
    times = rb"[ \t]*(?:@[a-z]+|\S+(?:[ \t]+\S+){4})[ \t]+"
    return bool(re.fullmatch(times + re.escape(own) + rb"[ \t\r]*", line))


def following(every: int, now: int) -> int:
    """Return when cron runs next, after a time in microseconds: by local clocks, as cron does."""
    second = now // 60_000_000 * 60 + 60
    for minute in range(second, second + 2 * 86400, 60):
        clock = time.localtime(minute)
        if (clock.tm_hour * 60 + clock.tm_min) % every == 0:
            return minute * 1_000_000
    return 0


class Cron:
    """The user's crontab."""

    name = "cron"

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    @property
    def _path(self) -> Path:
        return user_folder(self._machine.environment, "data") / "schedule.sh"

    def missing(self) -> str:
        """Return why it cannot be used here; nothing where it can."""
        return "" if self._machine.program("crontab") else "there is no crontab on PATH"

    def found(self, now: int) -> Found | None:
        """Return what stands: the line, the script, or both."""
        sheet = look(self._path)
        lines = self._lines()
        if not sheet.there and not lines:
            return None
        note = sheet.note or {"every": 0, "command": []}
        by_hand = bool(lines) and lines != [self._line(note["every"])]
        theirs = [str(self._path)] * sheet.theirs + ["crontab"] * by_hand
        every = 0 if by_hand else note["every"]
        next_at = following(every, now) if every and lines else 0
        active = bool(lines) and sheet.there
        return Found(every, tuple(note["command"]), active, tuple(theirs), sheet.since, next_at)

    def put(self, job: Job) -> list[Step]:
        """Plan to write the script, and to put the line into the crontab."""
        own = command(self._path)
        line = fields(job.every).encode() + b" " + own
        text = self._text()
        steps = list(lay(self._path, script(job), job, mode=0o600, crontab=text is not None))
        changed = with_line(text or b"", line, own)
        if changed != text:
            steps.append(Step(command=("crontab", "-"), data=changed))
        return steps

    def take(self) -> list[Step]:
        """Plan to take the line away, and the whole crontab where there was none before; then the script."""
        sheet = look(self._path)
        if not sheet.there and not self._lines():
            return []
        files = list(lift(self._path))
        text = b"" if self.missing() else self._text() or b""
        left = without(text, command(self._path))
        if left == text:
            return files
        if left or (sheet.note or {}).get("crontab", False):
            return [Step(command=("crontab", "-"), data=left), *files]
        return [Step(command=("crontab", "-r")), *files]

    def _line(self, every: int) -> bytes:
        return fields(every).encode() + b" " + command(self._path) if every else b""

    def _lines(self) -> list[bytes]:
        """Return the lines that run our script; none where the crontab cannot be looked at."""
        try:
            own = command(self._path)
            text = b"" if self.missing() else self._text() or b""
        except (UsageError, Unavailable):
            return []
        return [line for line in text.split(b"\n") if is_ours(line, own)]

    def _text(self) -> bytes | None:
        """Return the user's crontab; None where there is none.

        Raises:
            Unavailable: it may not be read. Nothing is ever written over what could not be read.
        """
        said = self._machine.call(("crontab", "-l"))
        if said.status == 0:
            return said.out
        if _NONE.search(said.err):
            return None
        raise Unavailable(
            f"crontab does not show the crontab: {said.err or f'status {said.status}'}",
            hint="ask whoever runs this machine whether you may use cron, or choose another way with --using",
        )
