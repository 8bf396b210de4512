"""No checksum of what was said before its secrets went: not in a key, not in an origin, not in a cursor.

Whoever has the rest of a text, and such a checksum, tries all passwords until one fits. So two sessions that differ in
nothing but a secret give the same turns, but for the salts of their events.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bede.errors import BadSource
from bede.intake.running import Report, Run, recognise
from bede.projections import PROJECTIONS
from bede.repository import Repository, cursors, log

SHELF = Path(__file__).resolve().parents[3] / "shared"
SHELVES = (SHELF / "transcripts-live", SHELF / "transcripts")
ABSENT = "the sample transcripts are not beside this checkout"
#: Secrets of two kinds, each as long as the other: how long a file is, is no secret.
PAIRS = [("password=hunter2sunshine", "password=correcthorse999"), ("ghp_" + "aB3d" * 9, "ghp_" + "Zy8x" * 9)]
#: Not longer than this, so that the test stays quick.
SIZE = 150_000


def samples() -> dict[str, Path]:
    """Return a file for each sort of transcript that is text, some for each agent."""
    found: dict[str, Path] = {}
    for path in sorted(path for shelf in SHELVES for path in shelf.rglob("*")):
        if path.suffix in (".jsonl", ".json", ".txt") and path.is_file() and 300 < path.stat().st_size < SIZE:
            try:
                agent = recognise(path)
            except BadSource:
                continue
            if agent:
                found.setdefault(f"{agent}{path.suffix}-{path.parent.parent.name[:12]}", path)
    return found


def told(value: Any, secret: str) -> Any:
    """Return a value in which every text of several words ends with a secret."""
    if isinstance(value, str):
        return f"{value} {secret} ok" if " " in value and not value.lstrip().startswith(("<", "{", "[")) else value
    if isinstance(value, dict):
        return {name: told(item, secret) for name, item in value.items()}
    return [told(item, secret) for item in value] if isinstance(value, list) else value


def written(data: bytes, secret: str) -> bytes:
    """Return a transcript with a secret in every text of it."""
    try:
        return json.dumps(told(json.loads(data), secret)).encode()
    except ValueError:
        pass
    lines = []
    for line in data.splitlines():
        try:
            lines.append(json.dumps(told(json.loads(line), secret)).encode())
        except ValueError:
            lines.append(line + f" {secret} ok".encode() if b" " in line else line)
    return b"\n".join(lines) + b"\n"


def turns(folder: Path, place: Path) -> tuple[list[Any], dict[str, Any]]:
    """Return the bodies of a file's turns, read anew, and what its cursor says of its bytes and its turns."""
    with closing(Repository.create(folder / "bede.db", PROJECTIONS, actor="test", at=1)) as repository:
        run = Run(repository, 1, Report(), None)
        run.take(recognise(place), place)
        run.finish()
        assert not run.report.failed
        with repository.snapshot() as reading:
            rows = reading.connection.execute("SELECT e.body FROM turn t JOIN event e USING (seq) ORDER BY t.n")
            bodies = [log.body(row) for (row,) in rows]
            cursor = cursors.find(reading.connection, place)
    assert cursor is not None
    marks = {name: cursor.mark.get(name) for name in ("head", "tail")}
    return bodies, {**marks, **cursor.state}


@pytest.mark.skipif(not SHELF.is_dir(), reason=ABSENT)
@pytest.mark.parametrize("pair", PAIRS, ids=["password", "token"])
@pytest.mark.parametrize("name", samples())
def test_two_sessions_that_differ_in_a_secret_are_told_alike(name: str, pair: tuple[str, str], tmp_path: Path) -> None:
    path, results = samples()[name], []
    for number, secret in enumerate(pair):
        folder = tmp_path / str(number)
        place = folder.joinpath("home", *path.parts[-6:])
        shutil.copytree(path.parent, place.parent)
        place.write_bytes(written(path.read_bytes(), secret))
        os.utime(place, ns=(1, 1))
        results.append(turns(folder, place))
    assert results[0] == results[1]
    if not results[0][0]:
        pytest.skip("nobody says anything in it")
    assert not any(secret in str(results) for secret in pair)
