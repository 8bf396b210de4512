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
    again = take(context)
    assert (again.files, again.records) == ({"foreign": 40}, 0)
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
    assert take(context).records == 0
    known = _known(context, path)
    assert (known.state, known.mark.keys() & {"offset", "head"}) == ({}, set())
    again = take(context)
    assert (again.files, again.records) == ({"foreign": 1}, 0)


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
    again = take(context)
    assert (again.files, again.records) == ({"foreign": 1, "unchanged": 1}, 0)
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


SECRETS = [f"ghp_{number}a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R" for number in range(2)]


def _paths(context: Context) -> list[bytes]:
    with context.repository.snapshot() as reading:
        return [path for (path,) in reading.connection.execute("SELECT path FROM cursor ORDER BY path")]


@pytest.mark.parametrize("where", ["folder", "file"])
def test_a_secret_in_a_path_is_not_written_down(where, home, project, context):
    """Two that differ in nothing else are two, and each is read on where it was left."""
    names = [(f"s{n}", secret) if where == "folder" else (secret, "-w") for n, secret in enumerate(SECRETS)]
    files = [place(home, stem, slug) for stem, slug in names]
    for number, path in enumerate(files):
        path.write_bytes(session(f"s{number}", project, 2))
    assert take(context).turns == {"new": 4}
    again = take(context)
    assert (again.files, again.records) == ({"unchanged": 2}, 0)
    for number, path in enumerate(files):
        with path.open("ab") as out:
            out.write(session(f"s{number}", project, 1, start=3))
    assert (last := take(context)).records == 2 and last.turns["new"] == 2
    assert texts(context) == heard("s0", 1, 2, 3) + heard("s1", 1, 2, 3)
    assert len(_paths(context)) == 2
    assert not any(secret.encode() in whole(context) for secret in SECRETS)


def test_what_stands_for_a_path_is_each_projects_own(home, project, context, tmp_path):
    """Who has one project's rows and a guess cannot try it without that project's secret."""
    (tmp_path / "other").mkdir()
    place(home, SECRETS[0]).write_bytes(session("s", project, 2))
    take(context)
    with closing(Context(directory=tmp_path / "other")) as other:
        init(other)
        take(other)
        assert len(_paths(other)) == 1
        assert _paths(other) != _paths(context)


def test_a_row_of_before_that_tells_a_secret_goes_when_its_file_is_read_on(home, project, context):
    path = place(home, SECRETS[0])
    path.write_bytes(session("s", project, 2))
    take(context)
    with context.repository.write("ingest", "test", 1) as writing:
        known = cursors.find(writing.connection, path)
        row = (json.dumps(known.mark), zlib.compress(json.dumps(known.state).encode(), 1), os.fsencode(path))
        writing.connection.execute("UPDATE cursor SET mark = ?, state = ?, path = ?", row)
    assert take(context).files == {"unchanged": 1}
    with path.open("ab") as out:
        out.write(session("s", project, 1, start=3))
    assert take(context).records == 1
    assert texts(context) == heard("s", 1, 2, 3)
    assert len(_paths(context)) == 1
    assert os.fsencode(path) not in _paths(context)
