"""Whatever stands in a transcript: no format is taken by surprise, the history holds, and all can be built anew."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from bede.intake.running import Report, Run
from bede.projections import PROJECTIONS
from bede.repository import Repository
from bede.sources import AGENTS, source

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
SHELVES = [SHARED / "transcripts", SHARED / "transcripts-live"]
pytestmark = pytest.mark.skipif(not SHELVES[0].is_dir(), reason="the sample transcripts are not beside the checkout")

FILES, LARGEST = 250, 100_000
ODD: list[Any] = [
    *(None, 0, -1, 1.5, 1e308, 10**30, True, "", [], {}, "x" * 3000, "\ud83d", "\0", [[]], {"": {}}, ["a"]),
    *({"type": "text"}, "2026-01-01T00:00:00Z", float("nan"), "../..", "C:\\"),
]


@cache
def _samples() -> dict[Path, str]:
    """Return the samples that are texts and not too big, with whose they are."""
    found = {}
    for path in (path for shelf in SHELVES for path in sorted(shelf.rglob("*.*"))):
        if path.suffix in (".jsonl", ".json", ".txt") and path.is_file() and path.stat().st_size < LARGEST:
            head = path.read_bytes()[:65536]
            agent = next((agent for agent in AGENTS if source(agent).accepts(path, head)), "")
            if agent:
                found[path] = agent
    return found


def _changed(value: Any, chance: random.Random, often: float) -> Any:
    """Return a value in which some are gone, some are odd, and some are there twice."""
    if chance.random() < often:
        return chance.choice(ODD)
    if isinstance(value, dict):
        kept = {name: inner for name, inner in value.items() if chance.random() >= often / 2}
        return {name: _changed(inner, chance, often) for name, inner in kept.items()}
    if isinstance(value, list):
        found = [_changed(inner, chance, often) for inner in value]
        return [*found, chance.choice(found)] if found and chance.random() < often else found
    return value


def _spoilt(path: Path, chance: random.Random) -> bytes:
    data, often = path.read_bytes(), chance.choice((0.002, 0.01, 0.05))
    if path.suffix == ".txt" or chance.random() < 0.2:
        spoilt = bytearray(data)
        for _ in range(chance.randint(1, 20) if spoilt else 0):
            spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
        return bytes(spoilt[: chance.randrange(len(spoilt) + 1)])
    pieces = [data] if path.suffix == ".json" else data.splitlines()
    found = [_dumped(piece, chance, often) for piece in pieces]
    if chance.random() < 0.2:
        chance.shuffle(found)
    return b"\n".join(found) + b"\n"


def _dumped(piece: bytes, chance: random.Random, often: float) -> bytes:
    try:
        return json.dumps(_changed(json.loads(piece), chance, often)).encode()
    except ValueError:
        return piece


def _turns(repository: Repository) -> Iterator[tuple[Any, ...]]:
    query = (
        "SELECT s.agent, s.name, t.n, t.seq, t.size, t.rewound FROM turn t JOIN session s ON s.id = t.session"
        " ORDER BY 1, 2, 3"
    )
    yield from repository.connection.execute(query)


def test_spoilt_samples(tmp_path):
    """Samples with odd values, lost fields, shuffled lines, flipped bytes; each one over what stood there before."""
    seed = os.environ.get("BEDE_SEED") or str(random.SystemRandom().randrange(10**9))
    chance = random.Random(seed)
    with closing(Repository.create(tmp_path / "spoilt.db", PROJECTIONS, actor="me", at=1)) as repository:
        repository.connection.execute("PRAGMA synchronous = OFF")
        for _ in range(FILES):
            path, agent = chance.choice(list(_samples().items()))
            place = tmp_path.joinpath("home", *path.parts[-6:])
            shutil.copytree(path.parent, place.parent, dirs_exist_ok=True)
            place.write_bytes(_spoilt(path, chance))
            report = Report()
            run = Run(repository, 1, report, None, keeps_thoughts=chance.random() < 0.5)
            run.take(agent, place)
            run.finish()
            surprises = [why for why in report.problems if why.startswith("fault")]
            surprises += [message for *_, message in report.failed if "Error: " in message]
            assert not surprises, f"BEDE_SEED={seed}: {path}: {surprises}"
        repository.ripen()
        assert repository.verify().findings == (), f"BEDE_SEED={seed}"
        before = list(_turns(repository))
        assert len(before) > 100
        repository.reindex()
        assert list(_turns(repository)) == before, f"BEDE_SEED={seed}"
