"""Many processes on one memory at once: nothing is lost, nobody is turned away, and every race has one winner."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from journeys.crowd import together
from laws.histories import catch_up

from bede.errors import Busy
from bede.projections import PROJECTIONS
from bede.records import Draft
from bede.repository import Repository

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a crowd is made by fork")

EIGHT = 8


@pytest.fixture
def memory(project: Path) -> Any:
    """The memory, open in this process too."""
    with closing(Repository.open(project / ".bede" / "bede.db", PROJECTIONS)) as repository:
        yield repository


def _check(memory: Repository, events: int, operations: int) -> None:
    """Everything is there once, the journal has no gap, and all of it verifies."""
    verdict = memory.verify()
    assert verdict.findings == ()
    assert (verdict.events, verdict.operations) == (events, operations)
    with memory.snapshot() as reading:
        assert [entry.number for entry in reading.journal()] == list(range(operations, 0, -1))
    assert memory.integrity() == ["ok"]


def test_eight_append_and_nothing_is_lost(project, memory):
    done = together(project, "append", EIGHT, 100)
    ids = [identity for member in done for identity in member["did"]]
    assert len(set(ids)) == len(ids) == EIGHT * 100
    with memory.snapshot() as reading:
        events = {event.id: event for event in reading.walk(reading.spans(reading.tip("main")))}
        assert set(ids) < events.keys()
        # One line, since nobody ever appended to anything but the tip.
        assert len(reading.spans(reading.tip("main"))) == 1
    for member in done:
        own = [events[identity].seq for identity in member["did"]]
        assert own == sorted(own)
    _check(memory, 801, 801)
    catch_up(memory)
    with closing(sqlite3.connect(project / ".bede" / "bede.db")) as connection:
        assert connection.execute("SELECT count(*) FROM memory").fetchone() == (800,)


def test_every_view_holds_in_itself_while_others_write(project, memory):
    done = together(project, "look", EIGHT, 40)
    assert [member["did"] for member in done if member["member"] % 2 == 0] == [[]] * 4
    _check(memory, 161, 161)


def test_of_those_who_say_the_same_one_is_heard(project, memory):
    done = together(project, "store", EIGHT)
    assert sum("did" in member for member in done) == 1
    assert {member["reason"] for member in done if "did" not in member} == {"duplicate_content"}
    _check(memory, 2, 2)


def test_of_decisions_in_a_race_one_holds(project, memory):
    done = together(project, "decide", EIGHT, 10)
    ids = [identity for member in done for identity in member["did"]]
    assert len(ids) == 80
    catch_up(memory)
    with closing(sqlite3.connect(project / ".bede" / "bede.db")) as connection:
        query = "SELECT count(*) FROM memory WHERE seq NOT IN (SELECT target FROM ending)"
        assert connection.execute(query).fetchone() == (1,)
        # Each but the last was ended once, by the very next.
        assert connection.execute(
            "SELECT count(*), min(ender - target), max(ender - target) FROM ending"
        ).fetchone() == (
            79,
            1,
            1,
        )
    _check(memory, 81, 81)


def test_a_foreign_record_comes_in_once(project, memory):
    done = together(project, "ingest", EIGHT)
    assert sum(member["did"] for member in done) == 20
    _check(memory, 21, 21)


def test_forks_of_one_name_and_place_all_succeed(project, memory):
    done = together(project, "fork", EIGHT, "idea")
    assert sorted(member["did"] for member in done) == ["created", *["unchanged"] * 7]
    _check(memory, 1, 2)


def test_forks_of_one_name_at_different_places_have_one_winner(project, memory):
    together(project, "append", 1, EIGHT)
    done = together(project, "fork", EIGHT, "idea", "apart")
    assert sum(member.get("did") == "created" for member in done) == 1
    assert sum(member.get("code") == "conflict" for member in done) == 7
    _check(memory, 9, 10)


def test_everybody_undoes_something_else(project, memory):
    together(project, "append", 1, 20)
    done = together(project, "undo", EIGHT)
    assert sorted(member["did"] for member in done) == list(range(14, 22))
    with memory.snapshot() as reading:
        assert len(list(reading.walk(reading.spans(reading.tip("main"))))) == 13
    _check(memory, 21, 29)


def test_eight_make_one_project(tmp_path):
    for number in range(5):
        folder = tmp_path / f"p{number}"
        folder.mkdir()
        done = [member["did"] for member in together(folder, "init", EIGHT)]
        assert sorted(item["outcome"] for item in done) == ["created", *["unchanged"] * 7]
        assert len({item["project_id"] for item in done}) == 1
        assert all(item["registered"] for item in done)
        assert {item["warning"] for item in done} == {""}
        assert sorted(path.name for path in (folder / ".bede").iterdir()) == [".gitignore", "bede.db"]


def test_eight_find_another_versions_tables_and_all_get_their_answer(project, memory):
    together(project, "append", 1, 30)
    with closing(sqlite3.connect(project / ".bede" / "bede.db")) as connection, connection:
        connection.execute("UPDATE projection SET version = 0")
        connection.execute("DROP TABLE memory")
    assert [member["did"] for member in together(project, "reopen", EIGHT)] == [30] * 8
    _check(memory, 31, 31)


def test_who_waits_too_long_is_told_to_try_again(project, memory, bede):
    path = project / ".bede" / "bede.db"
    with closing(Repository.open(path, PROJECTIONS, wait=0.1)) as other:
        with memory.write("store", "ada", 1) as writing:
            writing.append("main", [Draft("note", {"summary": "mine"}, "ada", 1)])
            with pytest.raises(Busy) as refused, other.write("store", "bob", 1):
                pytest.fail("two write at once")
            assert refused.value.retryable
            found = bede("store", "--summary", "theirs", cwd=project, env={"BEDE_STORE_WAIT": "0.1"})
            assert (found.status, found.error()["code"], found.error()["retryable"]) == (11, "busy", True)
            # Reading waits for nobody.
            assert bede("log", cwd=project).json()["events"][0]["kind"] == "project"
        with other.write("store", "bob", 1) as writing:
            writing.append("main", [Draft("note", {"summary": "now it works"}, "bob", 1)])
    _check(memory, 3, 3)
