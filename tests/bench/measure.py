"""Clocks, percentiles, seeded texts and scratch projects: what every measurement shares."""

from __future__ import annotations

import random
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

from bede.context import Context
from bede.operations import load
from bede.projections import PROJECTIONS
from bede.records import Draft
from bede.repository import Repository

SEED = 20261130
KEYS = 100


def timed(act: Callable[[], Any]) -> float:
    """Return how many seconds one call took."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return p50, p95 and the worst in milliseconds, and how many there were."""
    ordered = sorted(seconds)
    return {
        "p50_ms": round(statistics.median(ordered) * 1e3, 4),
        "p95_ms": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))] * 1e3, 4),
        "worst_ms": round(ordered[-1] * 1e3, 4),
        "runs": len(ordered),
    }


def interleaved(acts: dict[str, Callable[[int], Any]], rounds: int) -> dict[str, list[float]]:
    """Time several things in turn, so that a busy machine is busy for all of them."""
    found: dict[str, list[float]] = {name: [] for name in acts}
    for number in range(rounds):
        for name, act in acts.items():
            began = time.perf_counter()
            act(number)
            found[name].append(time.perf_counter() - began)
    return found


class Words:
    """Seeded English-like text with the frequencies of real text: the n-th word comes 1/n as often."""

    def __init__(self, seed: int = SEED, size: int = 20_000) -> None:
        self.random = random.Random(seed)
        syllables = [a + b for a in "bcdfglmnprstvz" for b in "aeiou"]
        made: dict[str, None] = {}
        while len(made) < size:
            made["".join(self.random.choices(syllables, k=self.random.randint(1, 4)))] = None
        self.words = list(made)
        self.weights = [1 / (rank + 2) for rank in range(size)]
        self.sums = list(accumulate(self.weights))

    def text(self, length: int) -> str:
        """Return words until about `length` characters are full."""
        found: list[str] = []
        size = 0
        while size < length:
            part = self.random.choices(self.words, cum_weights=self.sums, k=8)
            found += part
            size += sum(len(word) + 1 for word in part)
        return " ".join(found)[:length]


def memory(words: Words, number: int, length: int = 300) -> Draft:
    """Return a memory of about `length` bytes of text."""
    summary = words.text(length // 2)
    body = {
        "task_id": f"task-{number % 997}",
        "summary": summary,
        "learnings": [words.text(length - len(summary))],
        "handoff_note": "",
    }
    return Draft("task_handoff", {name: value for name, value in body.items() if value}, "bench", number + 1)


def mixed(words: Words, number: int) -> Draft:
    """Return an event of the mix that the peers were measured with: a tenth decisions, half runs, the rest notes."""
    kind = number % 10
    if kind == 0:
        value = words.text(40)
        body: dict[str, Any] = {"key": f"key-{number // 10 % KEYS}", "value": value, "summary": f"decided {value}"}
        return Draft("decision", body, "bench", number + 1)
    if kind < 6:
        command = ["make", f"check-{number % 37}"]
        return Draft(
            "run",
            {"command": command, "exit_status": int(number % 29 == 0), "output": words.text(130), "task_id": "bench"},
            "bench",
            number + 1,
        )
    return Draft("note", {"summary": words.text(130)}, "bench", number + 1)


@contextmanager
def project(root: Path | None = None) -> Iterator[Path]:
    """Give a scratch project's folder, and take it away again."""
    folder = Path(tempfile.mkdtemp(prefix="bede-bench-", dir=root))
    try:
        context = Context(directory=folder, environment=ambient(folder))
        load("init").function(context, here=True)
        context.close()
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def ambient(folder: Path) -> dict[str, str]:
    """Return an environment in which nothing of the user's is touched."""
    return {"HOME": str(folder / ".home"), "USER": "bench", "PATH": "/usr/bin:/bin"}


def repository(folder: Path) -> Repository:
    """Open a scratch project's repository for writing."""
    return Repository.open(folder / ".bede" / "bede.db", PROJECTIONS)


def fill(store: Repository, make: Callable[[Words, int], Draft], count: int, batch: int = 1000) -> None:
    """Append many events, a batch a transaction."""
    words = Words()
    for start in range(0, count, batch):
        drafts = [make(words, number) for number in range(start, min(start + batch, count))]
        with store.write("fill", "bench", start + 1) as writing:
            writing.append("main", drafts)


def call(folder: Path, store: Repository, verb: str, *arguments: Any, **options: Any) -> Any:
    """Call a verb in process, on an open repository."""
    context = Context(directory=folder, environment=ambient(folder), repository=store, agent="bench")
    return load(verb).function(context, *arguments, **options)


def processes(commands: dict[str, Sequence[str]], rounds: int, **options: Any) -> dict[str, dict[str, float]]:
    """Time whole processes in turn; a first round is not counted, and must succeed.

    Raises:
        RuntimeError: a command failed, so that its time would say nothing.
    """

    def run(command: Sequence[str]) -> Callable[[int], Any]:
        return lambda _number: subprocess.run(command, capture_output=True, check=False, **options)

    acts = {name: run(command) for name, command in commands.items()}
    for name, act in acts.items():
        if (first := act(0)).returncode:
            raise RuntimeError(f"{name} exited {first.returncode}: {first.stderr[-500:]!r}")
    return {name: percentiles(times) for name, times in interleaved(acts, rounds).items()}
