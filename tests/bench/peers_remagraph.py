"""Drive the published `remagraph` over this project's work. Run by an interpreter that has it; see `peers.py`.

Prints one JSON array a line, `[name, value]`, as `peers_memkernel.py` does. Its writes need an embedding model of
half a gigabyte, which it downloads; here a stand-in of random word vectors lies where its loader looks first.
Imports nothing of this project.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

database: Any = import_module("remagraph.db")
dedup: Any = import_module("remagraph.dedup")
models: Any = import_module("remagraph.models")
search: Any = import_module("remagraph.search")
store: Any = import_module("remagraph.store")

DIMENSIONS = 256


def say(name: str, value: Any) -> None:
    """Print one figure."""
    print(json.dumps([name, value]), flush=True)


def attempt(name: str, act: Callable[[], Any]) -> None:
    """Say what `act` returns, or how it failed."""
    try:
        say(name, act())
    except Exception as fault:
        say(name, failure(fault))


def failure(fault: BaseException) -> str:
    """Put a failure into one short line."""
    return f"failed: {type(fault).__name__}: {' '.join(str(fault).split())[:200]}"


def model(words: list[str]) -> dict[str, Any]:
    """Lay down a stand-in for the embedding model: a random vector a word, saved in the format of the real one."""
    numpy, tokenizers, model2vec = (import_module(name) for name in ("numpy", "tokenizers", "model2vec"))
    numbers = {name: number for number, name in enumerate(dict.fromkeys(["[UNK]", "[PAD]", *words]))}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(numbers, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    chance = numpy.random.default_rng(1)
    vectors = chance.standard_normal((len(numbers), DIMENSIONS), dtype=numpy.float32)
    folder = Path(dedup.MODEL_NAME)
    model2vec.StaticModel(vectors, tokenizer, normalize=True).save_pretrained(folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {"words": len(numbers), "megabytes": round(size / 1e6, 1)}


def storing(job: dict[str, Any]) -> dict[str, Any]:
    """Store memories one by one, warm, with every rule of the package; the first call loads the model."""
    connection = database.connect(project_id="bench")
    outcomes: Counter[str] = Counter()
    times = []
    for number, body in enumerate(job["memories"][: job["stores"]]):
        # A constraint needs no handoff note and is never superseded: the text is the same 300 bytes.
        request = models.StoreRequest(
            project_id="bench", agent_id="bench", kind="discovered_constraint", task_id=f"bench-{number % 997}", **body
        )
        began = time.perf_counter()
        answer = store.process_store(request, connection)
        times.append(time.perf_counter() - began)
        outcomes[f"{answer.status} {answer.reason or ''}".strip()] += 1
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    folder = Path(os.environ["REMAGRAPH_STATE_DIR"])
    size = sum(path.stat().st_size for path in folder.iterdir())
    connection.close()
    say("bytes_per_memory", round(size / max(1, outcomes["stored"])))
    say("store_outcomes", outcomes)
    say("first_store", [times[0]])
    return {"times": times[1:]}


def filled(job: dict[str, Any], count: int) -> sqlite3.Connection:
    """Fill a database by its own schema and triggers, past its cap of 100 MB where that is needed."""
    connection: sqlite3.Connection = database.connect_at_state_dir(Path(f"rows-{count}"))
    connection.execute("PRAGMA max_page_count = 4294967294")
    connection.execute("PRAGMA synchronous = OFF")
    chance = random.Random(count)
    moment = "2026-01-01T00:00:00"
    names = "id, project_id, kind, task_id, agent_id, timestamp, summary, learnings, embedding, created_at, updated_at"
    rows = (
        (
            f"mem-20260101-{number + 1:06d}",
            "bench",
            "discovered_constraint",
            f"bench-{number % 997}",
            "bench",
            f"{moment}Z",
            body["summary"],
            json.dumps(body["learnings"]),
            chance.randbytes(4 * DIMENSIONS),
            f"{moment}.000Z",
            f"{moment}.000Z",
        )
        for number, body in enumerate(job["memories"][:count])
    )
    connection.execute("BEGIN")
    connection.executemany(f"INSERT INTO memories ({names}) VALUES ({', '.join('?' * 11)})", rows)
    connection.execute("COMMIT")
    # What its maintenance does by itself on a file of this size.
    connection.execute("INSERT INTO memories_fts(memories_fts) VALUES ('optimize')")
    connection.execute("ANALYZE")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return connection


def searching(job: dict[str, Any], count: int) -> None:
    """Time searches in process over `count` memories."""
    connection = filled(job, count)
    size = Path(f"rows-{count}", database.DB_FILENAME).stat().st_size
    say(f"searching.{count}.megabytes", round(size / 1e6, 1))
    for name, queries in job["queries"][str(count)].items():
        attempt(f"searching.{count}.{name}", partial(asked, connection, queries))
    connection.close()


def asked(connection: sqlite3.Connection, queries: list[str]) -> dict[str, Any]:
    """Ask each query once, after the first was asked to warm the cache."""

    def ask(query: str) -> int:
        request = models.SearchRequest(query=query, project_id="bench")
        return len(search.search_memories(connection, request).results)

    ask(queries[0])
    times, found = [], 0
    for query in queries:
        began = time.perf_counter()
        found += bool(ask(query))
        times.append(time.perf_counter() - began)
    return {"times": times, "answered": found}


def main() -> None:
    """Do everything that the job names."""
    job = json.loads(Path("job.json").read_text())
    say("versions", {name: metadata.version(name) for name in ("remagraph", "mcp", "pydantic", "model2vec")})
    attempt("stand_in_model", lambda: model(job["words"]))
    attempt("store", lambda: storing(job))
    for count in job["sizes"]:
        try:
            searching(job, count)
        except Exception as fault:
            say(f"searching.{count}.rows", failure(fault))


if __name__ == "__main__":
    main()
