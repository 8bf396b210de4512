"""What every test stands on: a home of its own, a clock that stands still, a project, and the real command.

No test sees the user's files, settings or git configuration, and none works in the checkout. Nothing here
replaces a part of Bede: `bede` runs this checkout in a process of its own, and `init` makes `project`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from bede.context import Context

ROOT = Path(__file__).resolve().parents[1]

#: A law holds or it does not; how long an example took says something about the machine only.
settings.register_profile(
    "bede",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("bede")

#: A shell lets what it runs in the background ignore these, and every process inherits that from us.
for _name in ("SIGINT", "SIGQUIT"):
    if (_number := getattr(signal, _name, None)) and signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _name == "SIGINT" else signal.SIG_DFL)


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home for this test alone, where the environment points; the test works in a scratch folder."""
    home = tmp_path / "home"
    work = tmp_path / "work"
    for folder in (home, work):
        folder.mkdir()
    for name in list(os.environ):
        if name.startswith(("BEDE_", "GIT_", "XDG_")) or name in ("NO_COLOR", "FORCE_COLOR"):
            monkeypatch.delenv(name)
    for name, folder in _folders(home).items():
        monkeypatch.setenv(name, str(folder))
    for name, value in _GIT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(work)
    return home


_GIT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_TERMINAL_PROMPT": "0",
}


def _folders(home: Path) -> dict[str, Path]:
    return {
        "HOME": home,
        "USERPROFILE": home,
        "APPDATA": home / "appdata",
        "LOCALAPPDATA": home / "localappdata",
        "XDG_CONFIG_HOME": home / ".config",
        "XDG_DATA_HOME": home / ".local/share",
        "XDG_STATE_HOME": home / ".local/state",
        "XDG_CACHE_HOME": home / ".cache",
    }


class Clock:
    """A clock that stands still until it is told to go on; microseconds since 1970, UTC."""

    def __init__(self, at: int = 1_767_323_045_000_000) -> None:
        self.at = at

    def __call__(self) -> int:
        """Return the time."""
        return self.at

    def tick(self, seconds: float = 1) -> None:
        """Let time pass."""
        self.at += round(seconds * 1_000_000)


@pytest.fixture
def clock() -> Clock:
    """A clock at 2026-01-02T03:04:05Z that moves only by `clock.tick(seconds)`."""
    return Clock()


@pytest.fixture
def project(home: Path, clock: Clock) -> Path:
    """The root of a project that `init` made, in a scratch folder; the test's working directory is in it."""
    from bede.context import Context
    from bede.operations import load

    folder = Path.cwd()
    context = Context(directory=folder, clock=clock)
    try:
        load("init").function(context)
    finally:
        context.close()
    return folder


@pytest.fixture
def context(project: Path, clock: Clock) -> Iterator[Context]:
    """The window of one call on the project, with the frozen clock and an agent named `tester`."""
    from bede.context import Context

    context = Context(directory=project, clock=clock, agent="tester")
    yield context
    context.close()


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    status: int
    out: str
    err: str

    def json(self) -> dict[str, Any]:
        """Return the one JSON object on stdout."""
        found = json.loads(self.out)
        assert isinstance(found, dict), self.out
        return found

    def error(self) -> dict[str, Any]:
        """Return the error object, the last line on stderr."""
        found = json.loads(self.err.splitlines()[-1])
        assert isinstance(found, dict), self.err
        return found


def surroundings(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a process that imports this checkout, and no other Bede."""
    path = os.pathsep.join(str(ROOT / shelf) for shelf in ("core", "cli"))
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **(extra or {})}


#: The command, as a list to put arguments behind; the working directory is not on its import path.
COMMAND = (sys.executable, "-P", "-m", "bede_cli")


@pytest.fixture
def bede(home: Path) -> Callable[..., Ran]:
    """Run the command line as a process: `bede("search", "word", cwd=…, stdin="…", env={…})`."""

    def run(
        *arguments: str | Path,
        cwd: Path | None = None,
        stdin: str | bytes | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 120,
    ) -> Ran:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            [*COMMAND, *map(str, arguments)],
            cwd=cwd or Path.cwd(),
            env=surroundings(env),
            capture_output=True,
            timeout=timeout,
            check=False,
            **({"stdin": subprocess.DEVNULL} if given is None else {"input": given}),
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run
