"""Taking in sessions: a big one at first, one turn more of it, and what it takes on disk."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from bede.projections import sessions
from bede.turns import text_of
from bench import transcripts
from bench.faces import TYPER, bede
from bench.measure import ambient, percentiles, project, repository

MEGABYTE = 1_000_000

#: A process of its own starts what is measured: what a big parent holds would count as its child's memory.
_LAUNCHER = """
import json, os, subprocess, sys, time
began = time.perf_counter()
with open(sys.argv[1], "wb") as out:
    process = subprocess.Popen(sys.argv[2:], stdout=out)
    _, status, used = os.wait4(process.pid, 0)
took = time.perf_counter() - began
print(json.dumps([os.waitstatus_to_exitcode(status), took, used.ru_utime + used.ru_stime, used.ru_maxrss]))
"""


def first(megabytes: int, rounds: int = 3) -> dict[str, Any]:
    """Take in a session as a process, into a new project each time; `plain` is parsing its lines as JSON."""
    _first(1)  # What is imported is compiled, as it is where it was installed.
    found = [_first(megabytes) for _ in range(rounds)]
    best = min(found, key=lambda item: item["cpu_s"])
    return {**best, "peak_mb": max(item["peak_mb"] for item in found), "rounds": rounds}


def _first(megabytes: int) -> dict[str, Any]:
    with _told(megabytes) as (folder, path, _):
        size = path.stat().st_size
        before = _plain(path)
        took, cpu, peak = _ingest(folder)
        plain = (before + _plain(path)) / 2
        weighed = _weighed(folder)
    return {
        "megabytes": round(size / MEGABYTE, 1),
        "took_s": round(took, 2),
        "cpu_s": round(cpu, 2),
        "mb_per_cpu_s": round(size / MEGABYTE / cpu, 2),
        "plain_mb_per_cpu_s": round(size / MEGABYTE / plain, 2),
        "of_plain": round(cpu / plain, 2),
        "peak_mb": round(peak / MEGABYTE, 1),
        **weighed,
    }


def appending(sizes: tuple[int, ...], rounds: int) -> list[dict[str, Any]]:
    """Add one turn to sessions of several sizes, and take it in by a whole process, in turn with a minimal command."""
    return [_appending(size, rounds) for size in sizes]


def _appending(megabytes: int, rounds: int) -> dict[str, Any]:
    with _told(megabytes) as (folder, path, told):
        (folder / "minimal.py").write_text(TYPER)
        _ingest(folder)
        times: dict[str, list[float]] = {"append": [], "typer": []}
        for number in range(rounds + 1):
            with path.open("ab") as file:
                file.write(told.turn())
            took = {"append": _ingest(folder, new=2)[0], "typer": _launch(folder, [sys.executable, "minimal.py"])[0]}
            for name, seconds in took.items() if number else ():  # The first one compiles.
                times[name].append(seconds)
    found: dict[str, Any] = {name: percentiles(values) for name, values in times.items()}
    found["of_typer"] = round(found["append"]["p50_ms"] / found["typer"]["p50_ms"], 3)
    return {"megabytes": megabytes, **found}


@contextmanager
def _told(megabytes: int) -> Iterator[tuple[Path, Path, transcripts.Claude]]:
    """Give a project, the one session in its user's home, and who goes on telling it."""
    with project() as folder:
        path = folder / ".home" / ".claude" / "projects" / "bench" / "session.jsonl"
        yield folder, path, transcripts.write(path, folder.resolve(), megabytes * MEGABYTE)


def _ingest(folder: Path, new: int = 1) -> tuple[float, float, float]:
    """Run `bede ingest` and return seconds, seconds of the processor, and bytes at the most.

    Raises:
        RuntimeError: it failed, or found fewer new turns than there must be.
    """
    measured = _launch(folder, [*bede(), "ingest", "--json"])
    said = json.loads((folder / "said.json").read_bytes())
    if said["turns"].get("new", 0) < new or said["unreadable"]:
        raise RuntimeError(f"not taken in: {said}")
    return measured


def _launch(folder: Path, command: list[str]) -> tuple[float, float, float]:
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {**ambient(folder), "PYTHONPATH": paths, "PYTHONPYCACHEPREFIX": _compiled()}
    launcher = [sys.executable, "-S", "-c", _LAUNCHER, str(folder / "said.json"), *command]
    done = subprocess.run(launcher, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"cannot start {command}: {done.stderr[-500:]}")
    status, took, cpu, peak = json.loads(done.stdout)
    if status:
        raise RuntimeError(f"{command} exited {status}: {done.stderr[-500:]}")
    return took, cpu, peak * (1 if sys.platform == "darwin" else 1024)


@cache
def _compiled() -> str:
    """Return a folder for compiled modules, whatever the environment says of them; gone when this process ends."""
    folder = tempfile.mkdtemp(prefix="bede-bench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _plain(path: Path) -> float:
    """Return how many seconds of the processor it takes to parse the lines of a file."""
    began = time.process_time()
    with path.open("rb") as file:
        for line in file:
            json.loads(line)
    return time.process_time() - began


def _weighed(folder: Path) -> dict[str, Any]:
    """Weigh everything in the project's folder against what was kept of the session."""
    store = repository(folder)
    store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    turns = [row[0] for row in store.connection.execute("SELECT id FROM turn")]
    said = sessions.bodies(store.connection, turns).values()
    windows = store.connection.execute("SELECT count(*) FROM pane").fetchone()[0]
    store.close()
    size = sum(path.stat().st_size for path in (folder / ".bede").rglob("*") if path.is_file())
    text = sum(len(text_of(body).encode()) for body in said)
    edits = sum(map(_edits, said))
    return {
        "turns": len(turns),
        "windows": windows,
        "text_bytes": text,
        "edit_bytes": edits,
        "disk_bytes": size,
        "disk_of_kept": round(size / (text + edits), 3),
        "disk_of_text": round(size / text, 3),
    }


def _edits(body: dict[str, Any]) -> int:
    """Return the bytes of old and new text and patches in a turn."""
    edits = (edit for part in body["parts"] for edit in (*part.get("edits", ()), *part.get("changed", ())))
    return sum(len(edit.get(name, "").encode()) for edit in edits for name in ("old", "new", "patch"))
