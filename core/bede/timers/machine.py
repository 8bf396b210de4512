"""The machine as timers see it: one way to run its programs, and one to do planned steps.

A program is found on PATH, speaks English, gets a deadline, and never a terminal. Steps are done in order;
when one fails, the files are put back as they were.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bede.errors import Unavailable, cause
from bede.timers.port import Step
from bede.timers.sheet import folders

_DEADLINE = 30
_PAUSE = 0.05


@dataclass(frozen=True, slots=True)
class Said:
    """How a program ended and what it said."""

    status: int
    out: bytes
    err: str


class Machine:
    """Programs and folders of one user on one machine."""

    def __init__(self, environment: Mapping[str, str], platform: str = sys.platform) -> None:
        self.environment = environment
        self.platform = platform

    @property
    def home(self) -> Path:
        """The user's home."""
        return Path(self.environment.get("HOME") or Path.home())

    def program(self, name: str) -> str:
        """Return where a program lies; nothing where there is none. The working folder is not searched."""
        found = shutil.which(name, path=self.environment.get("PATH", os.defpath))
        return found if found and os.path.isabs(found) else ""  # noqa: PTH117

    def call(self, command: Sequence[str], data: bytes = b"") -> Said:
        """Run a program to its end.

        Raises:
            Unavailable: it is not there, cannot be started, or does not end in time.
        """
        name, *words = command
        program = self.program(name)
        if not program:
            raise Unavailable(f"there is no {name} here", hint=f"install {name}, or choose with --using")
        try:
            return self._run([program, *words], data)
        except subprocess.TimeoutExpired as error:
            hint = f"run '{' '.join(command)}' by hand and look what it waits for"
            raise Unavailable(f"{name} did not end within {_DEADLINE} seconds", hint=hint) from error
        except (OSError, ValueError) as error:
            raise Unavailable(f"cannot run {program}: {error}", hint="check the program") from error

    def _run(self, command: list[str], data: bytes) -> Said:
        # Files, not pipes: a program that leaves a child behind would keep a pipe open for as long as that
        # lives.
        file = tempfile.TemporaryFile
        with file() as put, file() as out, file() as err:
            put.write(data)
            put.seek(0)
            environment = {**self.environment, "LC_ALL": "C"}
            done = subprocess.run(
                command, stdin=put, stdout=out, stderr=err, env=environment, timeout=_DEADLINE, check=False
            )
            out.seek(0)
            err.seek(0)
            return Said(done.returncode, out.read(), err.read(4000).decode("utf-8", "replace").strip())


def demand(machine: Machine, command: Sequence[str], data: bytes = b"") -> Said:
    """Run a program that has to succeed.

    Raises:
        Unavailable: it did not; the message holds what it said.
    """
    said = machine.call(command, data)
    if said.status:
        why = said.err or said.out[:400].decode("utf-8", "replace").strip() or "it said nothing"
        raise Unavailable(
            f"'{' '.join(command)}' failed with status {said.status}: {why}",
            hint="mend what it complains of, or choose another way with --using",
        )
    return said


def perform(machine: Machine, steps: Iterable[Step]) -> None:
    """Do the steps in order.

    Raises:
        Unavailable: one failed; every file is again as it was before the first.
    """
    back: list[Step] = []
    try:
        for step in steps:
            # A link of ours goes last of all, so it never has to come back.
            if step.path and not step.path.is_symlink():
                back.append(_back(step.path))
            _do(machine, step)
    except BaseException:
        for step in reversed(back):
            with suppress(Unavailable):
                _do(machine, step)
        raise


def _back(path: Path) -> Step:
    """Return the step that makes a file again what it is now."""
    try:
        return Step(path=path, data=path.read_bytes(), mode=path.stat().st_mode & 0o777)
    except (FileNotFoundError, NotADirectoryError):
        return Step(path=path, folders=folders(path))
    except OSError as error:
        raise Unavailable(f"cannot read {path}: {cause(error)}", hint="check the permissions") from error


def _do(machine: Machine, step: Step) -> None:
    if step.path is None:
        if step.may_fail:
            with suppress(Unavailable):
                machine.call(step.command)
        else:
            demand(machine, step.command, step.data or b"")
        _wait(machine, step.until)
        return
    try:
        if step.data is not None:
            _write(step.path, step.data, step.mode)
        else:
            _delete(step.path, step.folders)
    except (OSError, ValueError) as error:
        what = "delete" if step.data is None else "write"
        hint = "check the folder and the disk"
        raise Unavailable(f"cannot {what} {step.path}: {cause(error)}", hint=hint) from error


def _wait(machine: Machine, command: Sequence[str]) -> None:
    """Wait until a command fails, since what it looks for is gone."""
    until = time.monotonic() + _DEADLINE
    while command and machine.call(command).status == 0:
        if time.monotonic() > until:
            raise Unavailable(f"'{' '.join(command)}' still finds it", hint="try again in a minute")
        time.sleep(_PAUSE)


def _write(path: Path, data: bytes, mode: int) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, mode), "wb") as file:
            file.write(data)
        temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _delete(path: Path, above: int) -> None:
    path.unlink(missing_ok=True)
    with suppress(OSError):
        for folder in list(path.parents)[:above]:
            folder.rmdir()
