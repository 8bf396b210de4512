"""Somebody else's package, run in an environment of its own: made once, driven by a script, timed as processes.

Nothing of the user's is touched: environments lie in the user's cache folder, and HOME is a scratch folder. A figure
that cannot be had is a string that says why, and names no address.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from bench.faces import TYPER
from bench.measure import interleaved, percentiles

#: An argument list, or what makes one for each round.
Command = Sequence[str] | Callable[[int], Sequence[str]]


def cache() -> Path:
    """Return the folder that is kept between runs."""
    from platformdirs import user_cache_path

    return user_cache_path("bede-bench")


def environment(package: str) -> Path:
    """Return the folder of commands of an environment that holds the package; made where there is none.

    Raises:
        RuntimeError: it could not be made, as without a package index.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = cache() / f"{package}-python{version}"
    binaries = folder / ("Scripts" if os.name == "nt" else "bin")
    if not (stamp := folder / ".complete").exists():
        _checked([sys.executable, "-m", "venv", "--clear", str(folder)])
        quiet = ["-qq", "--no-input", "--disable-pip-version-check"]
        _checked([str(binaries / "python"), "-m", "pip", "install", *quiet, package])
        stamp.touch()
    return binaries


def _checked(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or [done.stderr]
        raise RuntimeError(lines[-1])


def failure(fault: BaseException) -> str:
    """Put a failure into one line."""
    words = " ".join(re.sub(r"\w+://\S+", "…", str(fault)).split())
    return f"failed: {type(fault).__name__}: {words[-300:]}"


def tried(act: Callable[[], Any]) -> Any:
    """Return what `act` returns, or how it failed."""
    try:
        return act()
    except Exception as fault:
        return failure(fault)


@contextmanager
def scratch() -> Iterator[Path]:
    """Give an empty folder, and take it away again."""
    folder = Path(tempfile.mkdtemp(prefix="bede-bench-")).resolve()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def surroundings(folder: Path, **more: str) -> dict[str, str]:
    """Return the environment variables of a user who has nothing."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    return {"HOME": str(home), "USER": "bench", "PATH": "/usr/bin:/bin", **more}


def play(script: str, binaries: Path, folder: Path, job: dict[str, Any], limit: float, env: dict[str, str]) -> Any:
    """Run a script beside this file with a package's interpreter, and return the figures that it printed.

    It reads `job.json`, and prints one `[name, value]` a line. What it said before it failed or time was up is kept.
    """
    (folder / "job.json").write_text(json.dumps(job))
    command = [str(binaries / "python"), "-P", str(Path(__file__).with_name(script))]
    found: dict[str, Any] = {}
    with (folder / "said").open("w+") as said, (folder / "complained").open("w+") as complained:
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": said, "stderr": complained}
        process = subprocess.Popen(command, cwd=folder, env=env, start_new_session=True, **pipes)
        try:
            if process.wait(limit):
                complained.seek(0)
                found["ended"] = failure(RuntimeError(complained.read()))
        except subprocess.TimeoutExpired:
            found["ended"] = f"stopped after {limit:g} s: what is missing was not reached"
        finally:
            _stop(process)
        said.seek(0)
        found.update(json.loads(line) for line in said if line.endswith("]\n"))
    return nested(found)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a script, and the processes that it may have left."""
    with suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def nested(found: dict[str, Any]) -> dict[str, Any]:
    """Turn names with dots into objects in objects, and lists of seconds into percentiles."""
    made: dict[str, Any] = {}
    for name, value in found.items():
        *outer, last = name.split(".")
        place = made
        for part in outer:
            place = place.setdefault(part, {})
        place[last] = _figures(value)
    return made


def _figures(value: Any) -> Any:
    if isinstance(value, list):
        return percentiles(value) if value and all(isinstance(item, float) for item in value) else value
    if not isinstance(value, dict):
        return value
    rest = {name: _figures(item) for name, item in value.items() if name != "times"}
    return {**percentiles(value["times"]), **rest} if value.get("times") else rest


def commands(asked: dict[str, Command], folder: Path, env: dict[str, str], rounds: int) -> dict[str, Any]:
    """Time whole processes in turn with a bare interpreter and a minimal Typer command, and count what failed."""
    (folder / "minimal.py").write_text(TYPER)
    known = {"python": [sys.executable, "-c", "pass"], "typer": [sys.executable, "minimal.py"], **asked}
    failed = dict.fromkeys(known, 0)

    def once(name: str, number: int) -> None:
        command = known[name]
        arguments = command(number) if callable(command) else command
        done = subprocess.run(arguments, cwd=folder, env=env, capture_output=True, timeout=120, check=False)
        # One of them refuses, or fails to store, with exit status 0.
        refused = re.search(rb'"status": "(rejected|error)"', done.stdout)
        failed[name] += done.returncode != 0 or refused is not None

    def later(name: str, number: int) -> None:
        once(name, number + 1)

    for name in known:
        once(name, 0)
    times = interleaved({name: partial(later, name) for name in known}, rounds)
    typer = percentiles(times["typer"])["p50_ms"]
    return {
        name: {**(said := percentiles(values)), "of_typer": round(said["p50_ms"] / typer, 3), "failed": failed[name]}
        for name, values in times.items()
    }
