"""Transcripts that are databases, documents, or worse."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from contracts.written import (
    NAMES,
    heard,
    identity,
    lines,
    place,
    said,
    session,
    take,
    texts,
    whole_again,
)

from bede.operations.ingest import ingest
from bede.sources import opencode


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """No agent's own variables lead anywhere else."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def _opencode(home: Path, cwd: Path | str, wanted: dict[str, int], start: int = 0) -> Path:
    """Lay a database of OpenCode, or add messages to it: so many for each session."""
    path = home / ".local" / "share" / "opencode" / "opencode.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(
            "CREATE TABLE IF NOT EXISTS session (id TEXT PRIMARY KEY, directory TEXT, title TEXT, version TEXT,"
            " time_created INTEGER, time_updated INTEGER);"
            "CREATE TABLE IF NOT EXISTS message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER,"
            " time_updated INTEGER, data TEXT);"
            "CREATE TABLE IF NOT EXISTS part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT,"
            " time_created INTEGER, time_updated INTEGER, data TEXT);"
        )
        for name, count in wanted.items():
            at = 1_767_000_000_000 + start
            row = (f"ses_{name}", str(cwd), "a title", "1.2.3", at, at)
            database.execute("INSERT OR IGNORE INTO session VALUES (?, ?, ?, ?, ?, ?)", row)
            for number in range(start, start + count):
                at, own = 1_767_000_000_000 + number, f"msg_{name}{number:04}"
                data = {"role": "user", "time": {"created": at}}
                database.execute(
                    "INSERT INTO message VALUES (?, ?, ?, ?, ?)", (own, f"ses_{name}", at, at, json.dumps(data))
                )
                part = {"type": "text", "text": f"{name} {number}"}
                row = (f"prt_{name}{number:04}", own, f"ses_{name}", at, at, json.dumps(part))
                database.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", row)
    return path


def test_of_a_big_database_only_what_changed_is_read(home, project, context):
    _opencode(home, project, {f"s{number:03}": 3 for number in range(150)})
    first = take(context)
    assert (first.turns["new"], first.sessions) == (450, 150)
    _opencode(home, project, {"s007": 1}, start=3)
    more = take(context)
    assert more.turns["new"] == 1
    assert more.records <= 10
    assert texts(context, "ses_s007") == [f"s007 {number}" for number in range(4)]
    assert len(texts(context)) == 451
    assert take(context).files == {"unchanged": 1}
    whole_again(context)


def test_a_session_of_ours_among_others_in_a_database_is_found_whenever_it_comes(home, project, context):
    _opencode(home, "/somewhere/else", {"theirs": 3})
    assert take(context).files == {"foreign": 1}
    _opencode(home, project, {"ours": 2}, start=10)
    assert take(context).turns["new"] == 2
    _opencode(home, "/somewhere/else", {"theirs": 1}, start=30)
    assert take(context).turns == {}
    _opencode(home, project, {"ours": 1}, start=40)
    assert take(context).turns["new"] == 1
    assert texts(context) == ["ours 10", "ours 11", "ours 40"]


def test_a_database_that_is_open_and_being_written(home, project, context):
    path = _opencode(home, project, {"one": 2})
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM part")
        assert take(context).turns["new"] == 2
        writer.execute("ROLLBACK")
        before = sorted(item.name for item in path.parent.iterdir())
        _opencode(home, project, {"one": 2}, start=2)  # stands in the log beside the file
        assert take(context).turns["new"] == 2
        assert sorted(item.name for item in path.parent.iterdir()) == before
    assert texts(context) == [f"one {number}" for number in range(4)]


def test_a_database_that_is_damaged_costs_itself(home, project, context):
    path = _opencode(home, project, {"one": 2})
    take(context)
    path.write_bytes(b"SQLite format 3\0" + os.urandom(5000))
    place(home, "s").write_bytes(session("s", project, 2))
    result = take(context)
    assert result.files == {"read": 1, "unreadable": 1}
    assert result.exits == 30
    assert texts(context, "ses_one") == ["one 0", "one 1"]


def test_a_title_that_comes_back_is_the_title(home, project, context):
    """What is told of a session may change and change back; the newest word counts."""
    path = _opencode(home, project, {"one": 1})
    for title in ("first", "second", "first"):
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("UPDATE session SET title = ?, time_updated = time_updated + 1", (title,))
        take(context)
        with context.repository.snapshot() as reading:
            assert reading.connection.execute("SELECT title FROM session").fetchall() == [(title,)]
    records = [said("s", number, f"{number}", project, by="assistant") for number in (1, 2, 3)]
    for record, model in zip(records, ("x", "y", "x"), strict=True):
        record["message"]["model"] = model
    place(home, "s").write_bytes(lines(records))
    take(context)
    with context.repository.snapshot() as reading:
        assert reading.connection.execute("SELECT model FROM session WHERE name = 's'").fetchall() == [("x",)]


def test_codex_of_the_first_generation_is_read_whole(home, project, context):
    folder = home / ".codex" / "sessions"
    folder.mkdir(parents=True)
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": f"{number}\n\n" * 90}]}
        for number in range(100)
    ]
    document = {
        "session": {"timestamp": "2025-04-01T00:00:00.000Z", "id": identity("g"), "instructions": ""},
        "items": items,
    }
    path = folder / f"rollout-2025-04-01-{identity('g')}.json"
    path.write_text(json.dumps(document, indent=2))
    assert take(context).files == {"unplaced": 1}
    assert take(context, path=[path]).turns["new"] == 100
    document["items"] = [
        *items,
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "101"}]},
    ]
    path.write_text(json.dumps(document, indent=2))
    assert take(context, path=[path]).turns["new"] == 1
    assert len(texts(context)) == 101


def test_a_format_that_breaks_costs_the_record(home, project, context, monkeypatch):
    """A guest's format that is not prepared for a record: the record is counted, all others are there."""
    from bede.sources import claude

    whole_take = claude.take

    def broken(record, spot, state, tally):
        if spot.line == 2:
            raise KeyError("surprise")
        return whole_take(record, spot, state, tally)

    monkeypatch.setattr(claude, "take", broken)
    place(home, "s").write_bytes(session("s", project, 4))
    result = ingest(context)
    assert result.problems == {"fault: KeyError": 1}
    assert texts(context) == heard("s", 1, 3, 4)


def test_a_cursor_that_cannot_be_read_is_read_anew(home, project, context):
    place(home, "s").write_bytes(session("s", project, 4))
    take(context)
    with context.repository.write("ingest", "me", 1) as writing:
        writing.connection.execute("UPDATE cursor SET state = x'00', mark = 'nonsense'")
    assert take(context).turns == {"repeated": 4}
    assert take(context).files == {"unchanged": 1}


def test_no_copy_of_a_database_is_made_where_its_format_tells_no_rows_and_that_is_said(
    home, project, context, monkeypatch
):
    monkeypatch.delattr(opencode, "rows")
    _opencode(home, project, {"one": 2})
    result = take(context, keep_raw=True)
    assert result.turns["new"] == 2
    assert result.problems == {"no raw copy of a database": 1}
    assert not list((project / ".bede").rglob("*.zst"))
