"""Branching, context and search in process, on histories of three sizes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from bede.repository import Repository, log
from bench.measure import SEED, call, mixed, percentiles, repository, timed
from bench.writing import filled


def branching(count: int, rounds: int = 15) -> dict[str, Any]:
    """Time fork, rollback and diff on a history of `count` events, each far back and near."""
    with filled(count, mixed) as folder:
        store = repository(folder)
        store.connection.execute("PRAGMA synchronous = FULL")
        store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        call(folder, store, "fork", "half", at=f"main~{count // 2}")
        _note(folder, store, "half")
        found: dict[str, list[float]] = {}
        for number in range(rounds):
            _round(folder, store, count, number, found)
        contexts = _contexts(folder, store, count, rounds)
        store.close()
    return {"events": count, **{name: percentiles(times) for name, times in {**found, **contexts}.items()}}


def _note(folder: Path, store: Repository, branch: str) -> None:
    with store.write("store", "bench", 1) as writing:
        from bede.records import Draft

        writing.append(branch, [Draft("decision", {"key": "key-1", "value": branch, "summary": branch}, "bench", 1)])


def _round(folder: Path, store: Repository, count: int, number: int, found: dict[str, list[float]]) -> None:
    def time(name: str, verb: str, *arguments: Any, **options: Any) -> None:
        found.setdefault(name, []).append(timed(lambda: call(folder, store, verb, *arguments, **options)))

    time("fork_head", "fork", f"head-{number}")
    time("fork_anywhere", "fork", f"any-{number}", at=f"main~{random.Random(number).randint(1, count - 1)}")
    time("diff", "diff", "main", "half")
    time("rollback_5", "rollback", "main~5")
    call(folder, store, "undo")
    time("rollback_all", "rollback", f"main~{count}")
    call(folder, store, "undo")


def _contexts(folder: Path, store: Repository, count: int, rounds: int) -> dict[str, list[float]]:
    """Time `context` warm, and right after a fork in the middle and after a rollback."""
    call(folder, store, "context")
    found: dict[str, list[float]] = {"context": [], "context_after_fork": [], "context_after_rollback": []}
    for number in range(rounds):
        found["context"].append(timed(lambda: call(folder, store, "context")))
        name = f"mid-{number}"
        call(folder, store, "fork", name, at=f"main~{count // 3 + number}")
        found["context_after_fork"].append(timed(partial(call, folder, store, "context", at=name)))
        call(folder, store, "rollback", f"main~{count // 2 + number}")
        found["context_after_rollback"].append(timed(lambda: call(folder, store, "context")))
        call(folder, store, "undo")
    return found


def searching(count: int, rounds: int = 60) -> dict[str, Any]:
    """Time searches for rare words, and for the commonest ones, over `count` memories."""
    with filled(count) as folder:
        store = repository(folder)
        rare, common = _vocabulary(store, count)
        chance = random.Random(SEED)
        queries = {
            "rare": [" ".join(chance.sample(rare, 3)) for _ in range(rounds)],
            "commonest": [" ".join(chance.sample(common, 3)) for _ in range(rounds)],
            "one_common": [chance.choice(common) for _ in range(rounds)],
            "nothing": [f"qqx{number}zzw" for number in range(rounds)],
            "one_rare": [chance.choice(rare) for _ in range(rounds)],
        }
        found = {}
        for name, asked in queries.items():
            call(folder, store, "search", asked[0])
            times = [timed(partial(call, folder, store, "search", query)) for query in asked]
            found[name] = percentiles(times)
        store.close()
    return {"memories": count, **found}


def _vocabulary(store: Repository, count: int) -> tuple[list[str], list[str]]:
    step = max(1, count // 5000)
    rows = store.connection.execute("SELECT body FROM event WHERE seq % ? = 0", (step,))
    return vocabulary(log.body(stored) or {} for (stored,) in rows)


def vocabulary(bodies: Iterable[dict[str, Any]], shortest: int = 1) -> tuple[list[str], list[str]]:
    """Return words that few of the texts hold, and the twenty of at least so many letters that most do."""
    seen: Counter[str] = Counter()
    for said in bodies:
        seen.update(set(" ".join([said.get("summary", ""), *said.get("learnings", [])]).split()))
    rare = [word for word, times in seen.items() if times == 1 and len(word) > 4]
    return rare, [word for word, _ in seen.most_common() if len(word) >= shortest][:20]
