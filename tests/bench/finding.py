"""Searching in sessions: questions over many windows, in process."""

from __future__ import annotations

import json
import resource
import struct
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bede.answers.meaning import fill
from bede.engines import static
from bede.engines.embedding import embedder
from bede.intake.reading import Told
from bede.intake.writing import Writer
from bede.repository import Repository
from bede.repository.cursors import Cursor
from bench.measure import Words, call, percentiles, project, repository, timed

#: Turns of a session, and characters of a turn, most of them much shorter than the longest.
TURNS, LENGTHS = 200, (80, 200, 400, 900, 2500)


def finding(windows: int) -> dict[str, Any]:
    """Fill a project with sessions until it has so many windows, and ask sixty questions of each sort."""
    with project() as folder:
        store, words = repository(folder), Words()
        _fill(store, words, windows)
        (count,) = store.connection.execute("SELECT count(*) FROM pane").fetchone()
        found: dict[str, Any] = {"windows": count}
        rare, common = words.words[3000:15000], words.words[:40]
        sorts = {
            "rare": [" ".join(words.random.sample(rare, 3)) for _ in range(60)],
            "mixed": [" ".join([*words.random.sample(common, 4), words.random.choice(rare)]) for _ in range(60)],
            "commonest": [" ".join(words.random.sample(common, 3)) for _ in range(60)],
            "nothing": [f"zzq{number}qzz" for number in range(60)],
        }
        for name, asked in sorts.items():
            call(folder, store, "search", asked[0])
            times = [timed(partial(call, folder, store, "search", query)) for query in asked]
            found[name] = percentiles(times)
        found["peak_mb"] = _peak()
        found["vectors"] = _with_vectors(folder, store, words, sorts)
        store.close()
    return found


def _with_vectors(folder: Path, store: Repository, words: Words, sorts: dict[str, list[str]]) -> Any:
    """Make vectors of all windows with a table of static vectors, and ask the same questions with it."""
    if find_spec("numpy") is None:
        return "unavailable: numpy is not installed"
    spec = f"static:{_table(folder / 'table', words)}"
    guest = embedder(spec, folder)
    began = time.process_time()
    found: dict[str, Any] = {"windows": fill(store, guest, lambda _done, _all, _name: None)}
    found["made_per_cpu_s"] = round(found["windows"] / (time.process_time() - began))
    for name, asked in sorts.items():
        call(folder, store, "search", asked[0], engine=spec)
        found[name] = percentiles([timed(partial(call, folder, store, "search", one, engine=spec)) for one in asked])
    found["peak_mb"] = _peak()
    return found


def _table(folder: Path, words: Words) -> Path:
    """Write a table of the size of a real one: a vector of 256 numbers for each word, made from the seed."""
    rows = words.random.randbytes(len(words.words) * 256)
    scales = struct.pack(f"<{len(words.words)}f", *[1.0] * len(words.words))
    names = "\n".join(words.words).encode()
    header: dict[str, Any] = {"__metadata__": {"format": static.FORMAT, "model": "bench"}}
    body = b""
    parts = {
        "scales": ("F32", [len(words.words)], scales),
        "rows": ("I8", [len(words.words), 256], rows),
        "words": ("U8", [len(names)], names),
    }
    for name, (kind, shape, data) in parts.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    head = json.dumps(header).encode()
    folder.mkdir()
    (folder / static.FILE).write_bytes(struct.pack("<Q", len(head)) + head + body)
    return folder


def _peak() -> int:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def _fill(store: Repository, words: Words, windows: int) -> None:
    store.connection.execute("PRAGMA synchronous = OFF")
    (have,) = store.connection.execute("SELECT count(*) FROM pane").fetchone()
    number = 0
    while have < windows:
        writer = Writer(store, "codex", Path(f"/s{number}"), number + 1, is_again=False)
        told = []
        for turn in range(TURNS):
            by = "human" if turn % 5 == 0 else "assistant"
            text = words.text(words.random.choice(LENGTHS))
            at = 1_700_000_000_000_000 + (number * TURNS + turn) * 1_000_000
            told.append(Told(f"s{number}", "turn", {"key": f"k{turn}", "by": by, "at": at, "parts": [{"text": text}]}))
        writer.write(told, Cursor("codex", {}, {}))
        number += 1
        if number % 20 == 0:
            store.ripen()
            (have,) = store.connection.execute("SELECT count(*) FROM pane").fetchone()
