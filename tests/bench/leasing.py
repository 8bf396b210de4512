"""Taking and giving back a lease against a bare commit on the same disk: in a write, by the verb, by the hook."""

from __future__ import annotations

import sqlite3
from typing import Any

from bede.answers.tidings import settle
from bede.leases import claims, clock, door
from bede.leases.holding import Holder
from bench.measure import call, interleaved, percentiles, project, repository

_TTL = 60_000_000


def leases(rounds: int, runs: int = 1) -> dict[str, Any]:
    """Time acquire and release, in turn with one bare row; of several runs, the one in the middle."""
    found = sorted((_leases(rounds) for _ in range(runs)), key=lambda item: float(item["acquire_ratio"]))
    return {**found[runs // 2], "ratios": [item["acquire_ratio"] for item in found]}


def _leases(rounds: int) -> dict[str, Any]:
    with project() as folder:
        store, holder = repository(folder), Holder("bench", "s")
        database = str(folder / ".bede/bede.db")
        bare = sqlite3.connect(folder / "bare.db", isolation_level=None)
        for pragma in ("journal_mode = WAL", "synchronous = FULL"):
            bare.execute(f"PRAGMA {pragma}")
        bare.execute("CREATE TABLE row (id INTEGER PRIMARY KEY, text)")

        def row(_number: int) -> None:
            bare.execute("BEGIN IMMEDIATE")
            bare.execute("INSERT INTO row (text) VALUES (?)", ("x" * 300,))
            bare.execute("COMMIT")

        def acquire(number: int) -> None:
            now = clock.now()
            with store.write("lease", "bench", now.wall) as writing:
                wanted = [(f"src/{number % 50}.py", "file")]
                claims.acquire(writing.connection, holder, wanted, _TTL, "bench", now)
                settle(writing, now)

        def release(number: int) -> None:
            now = clock.now()
            with store.write("lease", "bench", now.wall) as writing:
                wanted = [(f"src/{number % 50}.py", "file")]
                claims.release(writing.connection, holder, now, resources=wanted)
                settle(writing, now)

        def verb_acquire(number: int) -> None:
            call(folder, store, "lease", "acquire", [f"src/{number % 50}.py"], purpose="bench", session="s")

        def verb_release(number: int) -> None:
            call(folder, store, "lease", "release", [f"src/{number % 50}.py"], session="s")

        def hooked(number: int) -> None:
            with door.open(database) as connection:
                wanted = [(f"lib/{number % 50}.py", "file")]
                claims.acquire(connection, holder, wanted, _TTL, "bench", clock.now())

        times = interleaved(
            {
                "bare": row,
                "acquire": acquire,
                "release": release,
                "verb_acquire": verb_acquire,
                "verb_release": verb_release,
            },
            rounds,
        )
        # Apart, since each writer makes the other one look anew at what is the newest.
        times["door"] = interleaved({"bare": row, "door": hooked}, rounds)["door"]
        store.close()
    found: dict[str, Any] = {name: percentiles(values) for name, values in times.items()}
    for name in ("acquire", "release", "verb_acquire", "verb_release", "door"):
        found[f"{name}_ratio"] = round(found[name]["p50_ms"] / found["bare"]["p50_ms"], 3)
    return found
