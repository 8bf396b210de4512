"""Ingesting as it happens: real homes of real agents, runs that are killed, runs at once, and writers beside them."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import COMMAND, surroundings
from contracts.written import NAMES, heard, names, place, session, take, texts

from bede.context import Context
from bede.errors import Busy
from bede.operations.ingest import ingest
from bede.operations.init import init
from bede.operations.store import store
from bede.operations.verify import verify
from bede.projections import sessions
from bede.repository import log
from bede.turns import text_of

LIVE = Path(__file__).resolve().parents[2].parent / "shared" / "transcripts-live"
RUNS = sorted(str(path.parent.relative_to(LIVE)) for path in LIVE.glob("*/*/expected.json"))
live = pytest.mark.skipif(not LIVE.is_dir(), reason="the transcripts of real runs are not beside the checkout")


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """No agent's own variables lead anywhere else."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


# Homes of real agents.


def _lay(run: str, home: Path, cwd: str, project: Path) -> None:
    """Lay a sample's home where this user's is, as if its agent had worked in the project."""
    shutil.copytree(LIVE / run / "home", home, dirs_exist_ok=True)
    for path in (path for path in home.rglob("*") if path.is_file()):
        data = path.read_bytes()
        if path.name == "opencode.db":
            with closing(sqlite3.connect(path)) as database, database:
                for table, column in (("session", "directory"), ("message", "data"), ("part", "data")):
                    database.execute(f"UPDATE {table} SET {column} = replace({column}, ?, ?)", (cwd, str(project)))
        elif path.suffix != ".db":
            path.write_bytes(data.replace(cwd.encode(), str(project).encode()))


def _bodies(context: Context, name: str) -> list[dict[str, Any]]:
    query = (
        "SELECT e.body FROM turn t JOIN session s ON s.id = t.session JOIN event e USING (seq)"
        " WHERE s.name = ? AND t.rewound = 0 ORDER BY t.n"
    )
    with context.repository.snapshot() as reading:
        rows = reading.connection.execute(query, (name,)).fetchall()
    return [body for (stored,) in rows if (body := log.body(stored)) is not None]


@live
@pytest.mark.parametrize("run", RUNS)
def test_what_a_real_session_said_and_did_is_what_is_known(run, home, project, context):
    known = json.loads((LIVE / run / "expected.json").read_text())
    _lay(run, home, known["cwd"], project)
    result = take(context)
    assert (result.exits, result.unreadable) == (0, ())
    bodies = _bodies(context, known["session_id"])
    turns = known["turns"]
    prompts = [text_of(body) for body in bodies if body["by"] == "human"]
    assert prompts == [turn["prompt_as_stored"] for turn in turns]
    answers = [part["text"] for body in bodies if body["by"] == "assistant" for part in body["parts"] if "text" in part]
    assert answers == [text for turn in turns for text in turn["assistant_texts"]]
    parts = [part for body in bodies for part in body["parts"] if "call" in part]
    expected = [call for turn in turns for call in turn["tool_calls"]]
    assert [_outcome(part, call) for part, call in zip(parts, expected, strict=True)] == [
        (call["id"], call["ok"], call["denied"]) for call in expected
    ]
    edited = {path.removeprefix(f"{project}/") for body in bodies for path in sessions.changed(body)}
    assert edited == {path for turn in turns for path in turn["edited_files"]}
    _check_injected(bodies, turns)
    assert take(context).turns == {}
    assert verify(context).ok


def _outcome(part: dict[str, Any], call: dict[str, Any]) -> tuple[str, bool, bool]:
    """Return a call's id, and how it ended, as the scenario spells it; check the exit status where one is told."""
    if "exit_status" in part and call["exit_code"] is not None:
        assert part["exit_status"] == call["exit_code"]
    identity = part["call"].split("|")[0]
    ended = call["ok"] if part.get("ok") is None else part["ok"]
    denied = call["denied"] and (part.get("denied", False) or part.get("ok") is False)
    return identity.rpartition("__")[2], ended, denied


def _check_injected(bodies: list[dict[str, Any]], turns: list[dict[str, Any]]) -> None:
    """What hooks laid in is nobody's word; that an edit was refused may stand as the end of a call."""
    for body in bodies:
        said = "\n".join(part.get("text", "") for part in body["parts"])
        if body["by"] in ("human", "assistant"):
            assert not [text for turn in turns for text in turn["injected_by_hooks"] if text in said]


@live
def test_all_homes_at_once_are_one_home(home, project, context):
    """Seven agents beside each other; their sessions of one name are theirs alone."""
    expected = 0
    for run in (run for run in RUNS if run.endswith("/resume")):
        known = json.loads((LIVE / run / "expected.json").read_text())
        _lay(run, home, known["cwd"], project)
        expected += len(known["turns"])
    result = take(context)
    assert (result.exits, {"read"} <= result.files.keys()) == (0, True)
    with context.repository.snapshot() as reading:
        agents = [agent for (agent,) in reading.connection.execute("SELECT DISTINCT agent FROM session ORDER BY 1")]
        count = reading.connection.execute("SELECT count(*) FROM turn WHERE by = 'human'").fetchone()[0]
    assert agents == ["claude-code", "codex", "copilot", "gemini-cli", "omp", "opencode", "pi"]
    assert count >= expected
    assert [row.agent for row in ingest(context, status=True).stored if row.turns] != []
    assert verify(context).ok


# Runs that are killed, and runs at once.


def _many(home: Path, project: Path, files: int, count: int) -> None:
    for number in range(files):
        path = place(home, f"s{number:03}")
        path.write_bytes(session(path.stem, project, count, word="x" * 200 + " word"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="SIGKILL is POSIX's")
def test_a_run_that_is_killed_again_and_again_ends_as_one_that_is_not(home, project, context, clock, tmp_path):
    """Killed at random moments of many files, some of them bigger than one transaction takes."""
    _many(home, project, 60, 20)
    place(home, "big").write_bytes(session("big", project, 1500, word="y" * 900 + " word"))
    seed = random.SystemRandom().randrange(10**9)
    chance, killed = random.Random(seed), 0
    while _is_killed(project, chance.uniform(0.1, 0.5 + killed / 10)):
        killed += 1
    assert take(context).turns.get("new", 0) == 0
    assert killed >= 1, seed
    assert verify(context).ok
    folder = tmp_path / "undisturbed"
    folder.mkdir()
    with closing(Context(directory=folder, clock=clock, agent="tester")) as other:
        init(other)
        take(other, path=sorted((home / ".claude").rglob("*.jsonl")))
        assert _known(other) == _known(context)
    assert len(texts(context)) == 60 * 20 + 1500


def _is_killed(project: Path, moment: float) -> bool:
    """Ingest in a process of its own, and kill it after so many seconds; tell whether it was still at it."""
    process = subprocess.Popen(
        [*COMMAND, "ingest", "--json"], cwd=project, env=surroundings(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        _, err = process.communicate(timeout=moment)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()
        return True
    assert process.returncode == 0, err
    return False


def _known(context: Context) -> list[tuple[Any, ...]]:
    """Return all that is known of sessions and turns, but for the order in which they came."""
    query = (
        "SELECT s.agent, s.name, s.model, s.cwd, s.first, s.last, t.n, t.by, t.at, e.source, e.body"
        " FROM turn t JOIN session s ON s.id = t.session JOIN event e USING (seq) ORDER BY s.name, t.n"
    )
    with context.repository.snapshot() as reading:
        return [(*row, log.body(body)) for *row, body in reading.connection.execute(query)]


def test_an_interrupted_run_goes_on_where_it_was(home, project, context, monkeypatch):
    """A person stops it: what was read is kept, and the next run reads only the rest."""
    _many(home, project, 10, 4)
    seen = []

    def progress(done: int, _all: int, _name: str) -> None:
        seen.append(done)
        if done == 5:
            raise KeyboardInterrupt

    with closing(Context(directory=project, progress=progress)) as other, pytest.raises(KeyboardInterrupt):
        ingest(other)
    assert len(names(context)) == 5
    result = take(context)
    assert (result.files, result.turns) == ({"read": 5, "unchanged": 5}, {"new": 20})
    assert texts(context, "s009") == [f"{'x' * 200} {text}" for text in heard("s009", 1, 2, 3, 4)]


def test_of_runs_at_once_one_does_it_and_the_others_say_so(home, project, context):
    """A lock keeps them apart; whoever comes when the first is done finds nothing to do."""
    _many(home, project, 40, 10)
    words = [*COMMAND, "ingest", "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = [subprocess.Popen(words, cwd=project, env=surroundings(), **pipes) for _ in range(4)]
    told = [process.communicate() for process in running]
    assert all("Traceback" not in err for _, err in told)
    done = [json.loads(out) for process, (out, _) in zip(running, told, strict=True) if process.returncode == 0]
    assert {process.returncode for process in running} <= {0, Busy.exit_status}
    assert sum(result["turns"].get("new", 0) for result in done) == 400
    assert take(context).turns == {}
    assert len(texts(context)) == 400
    assert verify(context).ok


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes that write")
def test_a_run_beside_writers_loses_nothing_of_either(home, project, context):
    _many(home, project, 60, 20)
    script = (
        "import sys; from pathlib import Path; from bede.context import Context;"
        "from bede.operations.store import store;"
        "c = Context(directory=Path(sys.argv[1]), agent='w' + sys.argv[2]);"
        "print(*[store(c, summary=f'writer {sys.argv[2]} says {n}').id for n in range(60)])"
    )
    words = [sys.executable, "-P", "-c", script, str(project)]
    writers = [
        subprocess.Popen([*words, str(number)], env=surroundings(), stdout=subprocess.PIPE, text=True)
        for number in range(4)
    ]
    result = take(context)
    told = [writer.communicate()[0].split() for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * 4
    assert result.turns == {"new": 1200}
    assert [len(ids) for ids in told] == [60] * 4
    with context.repository.snapshot() as reading:
        stored = {event.id for event in reading.walk(reading.spans(reading.tip("main")))}
    assert {identity for ids in told for identity in ids} <= stored
    assert len(texts(context)) == 1200
    assert store(context, summary="and the next one").id
    assert verify(context).ok


def test_a_home_that_grows_while_it_is_read(home, project, context):
    """An agent writes on while it is ingested again and again: in the end all is there, each once."""
    path = place(home, "s")
    path.write_bytes(b"")
    script = (
        "import sys, time; out = open(sys.argv[1], 'ab', buffering=0); data = sys.stdin.buffer.read()\n"
        "for start in range(0, len(data), 997): out.write(data[start:start + 997]); time.sleep(0.0005)"
    )
    data = session("s", project, 400)
    writer = subprocess.Popen([sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE)
    assert writer.stdin is not None
    writer.stdin.write(data)
    writer.stdin.close()
    runs, until = 0, time.monotonic() + 60
    while writer.poll() is None and time.monotonic() < until:
        take(context)
        runs += 1
    assert writer.wait() == 0
    take(context)
    assert texts(context) == heard("s", *range(1, 401))
    assert runs >= 1
