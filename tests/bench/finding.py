"""Searching in sessions: questions over many windows, in process."""

from __future__ import annotations

import resource
from functools import partial
from pathlib import Path
from typing import Any

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
        store.close()
    found["peak_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return found


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
