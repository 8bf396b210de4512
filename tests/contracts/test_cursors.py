"""How far files were read: rows that are small, whatever they are of, and those that were written before."""

from __future__ import annotations

import json
import os
import zlib
from contextlib import closing
from pathlib import Path

import pytest
from contracts.written import NAMES, heard, lines, place, said, session, states, take, texts, whole

from bede.context import Context
from bede.operations.init import init
from bede.repository import cursors

DAY = 86_400


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """No agent's own variables lead anywhere else."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def _at(path: Path, clock, days: float) -> None:
    """Let a file have been changed so many days ago."""
    os.utime(path, (clock.at / 1e6 - days * DAY,) * 2)


def _rows(context: Context) -> dict[str, int]:
    """Return the stem of each file that was read, and the bytes of its row."""
    with context.repository.snapshot() as reading:
        query = "SELECT path, length(path) + length(agent) + length(mark) + length(state) FROM cursor"
        return {Path(os.fsdecode(path)).stem: size for path, size in reading.connection.execute(query)}


def _known(context: Context, path: Path) -> cursors.Cursor:
    with context.repository.snapshot() as reading:
        found = cursors.find(reading.connection, path)
    assert found is not None
    return found


@pytest.mark.parametrize("count", [1, 4, 400])
def test_a_foreign_file_costs_its_path_and_what_it_looks_like(home, project, context, clock, count):
    """However long it is; four hundred bytes have room in a page with others of their kind."""
    for number in range(40):
        path = place(home, f"5721cb4c-1035-4e79-b977-{number:012}")
        path.write_bytes(session(path.stem, "/srv/somebody/elsewhere", count))
        _at(path, clock, 2)
    assert take(context).files == {"foreign": 40}
    assert max(_rows(context).values()) - len(str(path)) < 200
    assert take(context).files == {"unchanged": 40}
    assert "word 1" not in states(context)


def test_a_file_that_is_still_written_is_read_on_until_it_rests(home, project, context, clock):
    path = place(home, "s")
    path.write_bytes(session("s", "/somewhere/else", 40))
    _at(path, clock, 0.5)
    take(context)
    assert _known(context, path).mark["offset"] == path.stat().st_size
    assert not any(word in states(context) for word in ("word", "text")), "what others say is none of ours"
    with path.open("ab") as out:
        out.write(session("s", "/somewhere/else", 1, start=41))
    _at(path, clock, 0.25)
    assert take(context).records == 1
    clock.at += int(2 * DAY * 1e6)
    assert take(context).files == {"unchanged": 1}
    known = _known(context, path)
    assert (known.state, known.mark.keys() & {"offset", "head"}) == ({}, set())
    assert take(context).files == {"unchanged": 1}


def test_a_file_that_rested_is_read_anew_when_it_changes(home, project, context, clock):
    """And who has no project there yet, but makes one, gets what it says."""
    path, folder = place(home, "s"), project.parent / "later"
    folder.mkdir()
    path.write_bytes(session("s", folder, 4))
    _at(path, clock, 9)
    assert take(context).files == {"foreign": 1}
    with path.open("ab") as out:
        out.write(session("s", folder, 1, start=5) + session("t", project, 2))
    _at(path, clock, 8)
    assert take(context).turns == {"new": 2}
    assert texts(context) == heard("t", 1, 2)
    with closing(Context(directory=folder, clock=clock)) as there:
        init(there)
        assert take(there).turns == {"new": 5}


def test_rows_of_before_go_on_and_become_small(home, project, context, clock):
    ours, theirs = place(home, "ours"), place(home, "theirs")
    ours.write_bytes(session("ours", project, 4))
    theirs.write_bytes(session("theirs", "/somewhere/else", 4))
    take(context)
    with context.repository.write("ingest", "test", 1) as writing:
        for path in (ours, theirs):
            known = cursors.find(writing.connection, path)
            row = (json.dumps(known.mark), zlib.compress(json.dumps(known.state).encode(), 1), os.fsencode(path))
            writing.connection.execute("UPDATE cursor SET mark = ?, state = ? WHERE path = ?", row)
            assert cursors.find(writing.connection, path) == known
    assert take(context).files == {"unchanged": 2}
    with ours.open("ab") as out:
        out.write(session("ours", project, 1, start=5))
    before = _rows(context)["theirs"]
    clock.at = theirs.stat().st_mtime_ns // 1000 + 2 * DAY * 1_000_000
    result = take(context)
    assert (result.records, result.turns["new"]) == (1, 1)
    assert texts(context) == heard("ours", 1, 2, 3, 4, 5)
    assert _rows(context)["theirs"] < before / 2


@pytest.mark.parametrize(
    "damage",
    [b"", b"x", zlib.compress(b"[1]"), zlib.compress(b"7"), zlib.compress(b"[{}, {}, {}]"), zlib.compress(b"[1, 2]")],
)
def test_a_row_that_cannot_be_read_is_read_anew(home, project, context, damage):
    path = place(home, "s")
    path.write_bytes(session("s", project, 4))
    take(context)
    with context.repository.write("ingest", "test", 1) as writing:
        writing.connection.execute("UPDATE cursor SET state = ?", (damage,))
    result = take(context)
    assert (result.files, result.turns) == ({"read": 1}, {"repeated": 4})
    assert take(context).files == {"unchanged": 1}


def test_what_a_mixed_file_says_of_others_is_not_kept(home, project, context):
    """One file, two sessions: of the one that is ours the open turn waits, of the other nothing does."""
    mixed = [said("ours", 1, "mine is open", project), said("theirs", 1, "theirs is open", "/somewhere/else")]
    path = place(home, "mixed")
    path.write_bytes(lines(mixed))
    assert take(context).turns == {"new": 1}
    assert "theirs is open" not in states(context)
    with path.open("ab") as out:
        out.write(session("ours", project, 1, start=2) + session("theirs", "/somewhere/else", 1, start=2))
    assert take(context).turns["new"] == 1
    assert b"theirs is open" not in whole(context)
