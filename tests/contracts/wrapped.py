"""A command run by `bede.child` in a process of its own, and a terminal to run it in; for the tests beside it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conftest import surroundings

#: Seconds after which something that has not happened will not.
DEADLINE = 30.0

#: Runs its arguments, tells what became of them in a file, and ends with the same status.
SCRIPT = """
import dataclasses, json, os, sys, resource
from pathlib import Path
from bede.child import run
keep = int(os.environ.get("KEEP", "16384"))
ran = run(sys.argv[2:], environment=os.environ, directory=Path(os.environ.get("WHERE", ".")), keep=keep)
# Linux lets a process inherit the peak of the one that it was forked from; its own stands elsewhere.
status = Path("/proc/self/status")
told = status.read_text().splitlines() if status.exists() else []
own = [line.split()[1] for line in told if line.startswith("VmHWM")]
memory = int(own[0]) if own else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
told = json.dumps({**dataclasses.asdict(ran), "memory": memory})
Path(sys.argv[1] + ".new").write_text(told)
os.rename(sys.argv[1] + ".new", sys.argv[1])
sys.exit(ran.exit_status)
"""

#: Makes its standard input the terminal of its session, and becomes its arguments.
LEADER = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"


def until(what: Callable[[], Any], why: str = "") -> Any:
    """Wait for something to be true, and return it."""
    end = time.monotonic() + DEADLINE
    while not (found := what()):
        assert time.monotonic() < end, why or "it never happened"
        time.sleep(0.01)
    return found


@dataclass(frozen=True)
class Wrapped:
    """How commands are run, and what was told of the last of them."""

    file: Path

    def argv(self, *command: str | bytes) -> list[str | bytes]:
        """Return the command line that runs a command."""
        self.file.unlink(missing_ok=True)
        return [sys.executable, "-P", "-c", SCRIPT, str(self.file), *command]

    def start(self, *command: str | bytes, env: dict[str, str] | None = None, **more: Any) -> subprocess.Popen[bytes]:
        """Start a command; stdin is empty, outputs are pipes, unless said otherwise."""
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(self.argv(*command), env=surroundings(env), **{**streams, **more})

    def run(
        self, *command: str | bytes, given: bytes | None = None, **more: Any
    ) -> tuple[int, bytes, bytes]:
        """Run a command; return its status and outputs."""
        if given is not None:
            more["stdin"] = subprocess.PIPE
        with self.start(*command, **more) as process:
            out, err = process.communicate(given, timeout=DEADLINE)
        return process.returncode, out, err

    def told(self) -> dict[str, Any]:
        """Return what became of the last command, once that is known."""
        until(self.file.exists, "the command never ended")
        found = json.loads(self.file.read_text())
        assert isinstance(found, dict)
        return found


class Terminal:
    """A terminal, and the process that leads its session."""

    def __init__(
        self,
        argv: Sequence[str | bytes],
        *,
        size: tuple[int, int] = (31, 97),
        env: dict[str, str] | None = None,
        typed: bytes = b"",
        session: bool = True,
        **streams: Any,
    ) -> None:
        import termios

        self.master, slave = os.openpty()
        self.resize(*size)
        # What is typed comes back with the output: the tests look for what is printed only.
        self.seen = b""
        if typed:
            os.write(self.master, typed)
        self.first = termios.tcgetattr(slave)
        leader = [sys.executable, "-S", "-c", LEADER] if session else []
        self.process = subprocess.Popen(
            [*leader, *argv],
            env=surroundings({"TERM": "xterm", **(env or {})}),
            start_new_session=session,
            **{"stdin": slave, "stdout": slave, "stderr": slave, **streams},
        )
        os.close(slave)

    def resize(self, rows: int, columns: int) -> None:
        """Give the terminal another size."""
        import termios

        termios.tcsetwinsize(self.master, (rows, columns))

    def modes(self) -> list[Any]:
        """Return the modes that the terminal has now."""
        import termios

        return termios.tcgetattr(self.master)

    def is_raw(self) -> bool:
        """Tell whether keys are handed through as they are typed."""
        import termios

        return not self.modes()[3] & termios.ICANON

    def front(self) -> int:
        """Return the group that the terminal listens to."""
        return os.tcgetpgrp(self.master)

    def type(self, keys: bytes) -> None:
        """Type on the terminal."""
        os.write(self.master, keys)

    def until(self, text: bytes) -> bytes:
        """Read until a text appears; return what came before it, and forget all of it."""
        end = time.monotonic() + DEADLINE
        while text not in self.seen:
            assert time.monotonic() < end and self._read(1.0), f"no {text!r} in {self.seen!r}"
        before, _, self.seen = self.seen.partition(text)
        return before

    def rest(self) -> bytes:
        """Read until everyone has left the terminal; return what came."""
        while self._read(DEADLINE):
            pass
        return self.seen

    def _read(self, seconds: float) -> bool:
        if not select.select([self.master], [], [], seconds)[0]:
            return True
        try:
            piece = os.read(self.master, 65536)
        except OSError:
            return False
        self.seen += piece
        return bool(piece)

    def status(self) -> int:
        """Return how the leader ended; its output is read meanwhile."""
        self.rest()
        return self.process.wait(DEADLINE)

    def close(self) -> None:
        """Hang up."""
        if self.master >= 0:
            os.close(self.master)
            self.master = -1

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
        self.process.kill()
        self.process.wait(DEADLINE)
