"""`kill -9` at random moments: nothing acknowledged is lost, the memory verifies, and the next command just works."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from journeys.crowd import command, surroundings

from bede.operations.init import init

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="SIGKILL is POSIX's")

NURSERY = Path(__file__).with_name("nursery.py")


def _nursery(*words: object) -> dict[str, Any]:
    done = subprocess.run(
        command(NURSERY, *words), env=surroundings(), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"{words}: {done.stderr}"
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("half", range(2))
def test_eight_writers_are_killed_again_and_again(tmp_path, half):
    seed = f"{half}-{random.SystemRandom().randrange(10**6)}"
    seen = _nursery(tmp_path / "work", seed, 7, 8)
    assert seen["killed"] == 56, seed
    assert seen["told"] > 20, seed


def test_a_project_half_made_is_made_by_the_next(tmp_path):
    seed = random.SystemRandom().randrange(10**6)
    seen = _nursery(tmp_path / "work", seed, 30)
    assert seen.get("created", 0) + seen.get("unchanged", 0) == 30, seed
    assert seen["killed"] >= 1, seed


def test_whole_commands_are_killed(context, project, bede):
    """Eight `bede store` at once, each killed at a moment of its own; whoever printed an id has stored it."""
    chance = random.Random()
    acknowledged: set[str] = set()
    killed = 0
    for number in range(3):
        running = [_begin(project, f"{number}.{member}") for member in range(8)]
        began = time.monotonic()
        for moment, process in sorted(((chance.uniform(0, 1.0), p) for p in running), key=lambda item: item[0]):
            try:
                process.wait(max(0.0, began + moment - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
            out, err = process.communicate()
            assert b"Traceback" not in err
            killed += process.returncode == -9
            if process.returncode == 0:
                acknowledged.add(json.loads(out)["id"])
        found = bede("verify", cwd=project)
        assert (found.status, found.json()["ok"]) == (0, True)
    assert bede("store", "--summary", "the next one", cwd=project).status == 0
    with context.repository.snapshot() as reading:
        stored = {event.id for event in reading.walk(reading.spans(reading.tip("main")))}
    assert acknowledged <= stored
    assert killed >= 1


def _begin(project: Path, name: str) -> subprocess.Popen[bytes]:
    from conftest import COMMAND

    words = [*COMMAND, "store", "--summary", f"written by {name}", "--agent-id", "ada", "--json"]
    return subprocess.Popen(
        words, cwd=project, env=surroundings(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def test_a_writer_killed_between_write_and_commit_leaves_nothing(context, project):
    """The write stands in the log of the file, unfinished; nobody is kept from going on."""
    script = """
import os, signal, sys
from pathlib import Path
from bede.projections import PROJECTIONS
from bede.records import Draft
from bede.repository import Repository
repository = Repository.open(Path(sys.argv[1]), PROJECTIONS)
repository.connection.execute("PRAGMA cache_size = 1")  # So that unfinished pages are spilt to the disk.
with repository.write("store", "ada", 1) as writing:
    for number in range(200):
        writing.append("main", [Draft("note", {"summary": os.urandom(1500).hex() + str(number)}, "ada", 1)])
    print(os.path.getsize(sys.argv[1] + "-wal"), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    path = project / ".bede" / "bede.db"
    before = context.repository.verify()
    done = subprocess.run(
        [*command(Path("-c"), script), str(path)], env=surroundings(), capture_output=True, check=False
    )
    assert done.returncode == -9, done.stderr
    assert int(done.stdout) > 400_000
    assert context.repository.verify() == before
    assert init(context).outcome == "unchanged"
    with context.repository.write("store", "ada", 1) as writing:
        assert writing.counts() == {"events": 1, "operations": 1, "refs": 1}
