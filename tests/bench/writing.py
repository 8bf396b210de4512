"""Appending: against a bare commit on the same disk, by eight processes at once, and what it takes on disk."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.measure import Words, fill, interleaved, memory, percentiles, project, repository, timed


def append(rounds: int, runs: int = 1) -> dict[str, Any]:
    """Time one append with its projections against one bare row, in turn; of several runs, the one in the middle."""
    found = sorted((_append(rounds) for _ in range(runs)), key=lambda item: float(item["ratio_p50"]))
    return {**found[runs // 2], "ratios": [item["ratio_p50"] for item in found]}


def _append(rounds: int) -> dict[str, Any]:
    with project() as folder:
        store, words = repository(folder), Words()
        bare = sqlite3.connect(folder / "bare.db", isolation_level=None)
        for pragma in ("journal_mode = WAL", "synchronous = FULL"):
            bare.execute(f"PRAGMA {pragma}")
        bare.execute("CREATE TABLE row (id INTEGER PRIMARY KEY, text)")
        drafts = [memory(words, number) for number in range(rounds)]

        def one(number: int) -> None:
            with store.write("store", "bench", number + 1) as writing:
                writing.append("main", [drafts[number]])

        def row(number: int) -> None:
            bare.execute("BEGIN IMMEDIATE")
            bare.execute("INSERT INTO row (text) VALUES (?)", (drafts[number].body["summary"] * 2,))
            bare.execute("COMMIT")

        times = interleaved({"append": one, "bare": row}, rounds)
        store.close()
    found: dict[str, Any] = {name: percentiles(values) for name, values in times.items()}
    found["ratio_p50"] = round(found["append"]["p50_ms"] / found["bare"]["p50_ms"], 3)
    found["ratio_mean"] = round(sum(times["append"]) / sum(times["bare"]), 3)
    return found


_WRITER = """
import json, sys, time
from pathlib import Path
sys.path[:0] = {paths!r}
from bench.measure import Words, memory, repository
store, words = repository(Path({folder!r})), Words(seed={seed})
drafts = [memory(words, number) for number in range(200)]
print("ready", flush=True); sys.stdin.readline()
end, done, worst, failed = time.monotonic() + {seconds}, 0, 0.0, 0
while time.monotonic() < end:
    began = time.monotonic()
    try:
        with store.write("store", "w{seed}", done + 1) as writing:
            writing.append("main", [drafts[done % 200]])
        done += 1
    except Exception:
        failed += 1
    worst = max(worst, time.monotonic() - began)
print(json.dumps([done, worst, failed]))
"""


def writers(count: int, seconds: float) -> dict[str, Any]:
    """Let processes append as fast as they can, and count what is there afterwards."""
    with project() as folder:
        repository(folder).close()
        paths = [path for path in sys.path if path]
        running = [
            subprocess.Popen(
                [sys.executable, "-c", _WRITER.format(paths=paths, folder=str(folder), seed=number, seconds=seconds)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for number in range(count)
        ]
        for process in running:
            process.stdout.readline()  # type: ignore[union-attr]
        began = time.monotonic()
        for process in running:
            process.stdin.write("go\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
        said = [json.loads(process.communicate()[0]) for process in running]
        took = time.monotonic() - began
        store = repository(folder)
        verdict = store.verify()
        store.close()
    done = [item[0] for item in said]
    return {
        "processes": count,
        "events_per_s": round(sum(done) / took),
        "lost": sum(done) - (verdict.events - 1),
        "failed": sum(item[2] for item in said),
        "least_of_most": round(min(done) / max(done), 3),
        "worst_ms": round(max(item[1] for item in said) * 1e3, 1),
        "verified": not verdict.findings,
    }


def disk(count: int) -> dict[str, Any]:
    """Weigh memories of 300 bytes, indexes included."""
    with project() as folder:
        store, words = repository(folder), Words()
        for number in range(count):
            with store.write("store", "bench", number + 1) as writing:
                writing.append("main", [memory(words, number)])
        store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        store.close()
        size = sum(path.stat().st_size for path in Path(folder / ".bede").iterdir())
    return {"memories": count, "bytes_per_memory": round(size / count), "mb_per_1k": round(size / count / 1000, 3)}


def verify(count: int) -> dict[str, Any]:
    """Walk a whole history."""
    with project() as folder:
        store = repository(folder)
        words = Words()
        drafts = [memory(words, number) for number in range(500)]
        store.connection.execute("PRAGMA synchronous = OFF")
        for number in range(count):
            with store.write("store", "bench", number + 1) as writing:
                writing.append("main", [drafts[number % 500]])
        times = [timed(store.verify) for _ in range(5)]
        store.close()
    return {"events": count, **percentiles(times)}


def filled(count: int, make: Any = memory) -> Any:
    """Return a scratch project with many events, as a context manager."""
    from contextlib import contextmanager

    @contextmanager
    def made() -> Any:
        with project() as folder:
            store = repository(folder)
            store.connection.execute("PRAGMA synchronous = OFF")
            fill(store, make, count)
            store.close()
            yield folder

    return made()
