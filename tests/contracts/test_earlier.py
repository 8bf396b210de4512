"""What a document or a database no longer has of a session stays in an earlier copy, and only then there is one."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from contracts.test_escrow import _chat, _database, _put
from contracts.written import NAMES, take, texts

pytest.importorskip("zstandard", reason="compressed transcripts need zstandard")
Write = Callable[[Path, Path, int], None]


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """No agent's own variables lead anywhere else."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def _gemini(home: Path, project: Path, count: int) -> None:
    own = home / ".gemini/tmp/shop"
    _put(own / ".project_root", str(project).encode())
    at = "2026-01-01T00:00:00.000Z"
    said = [{"id": f"m{n}", "type": "user", "content": f"hello {n}", "timestamp": at} for n in range(count)]
    _put(own / "chats/session-1.json", _chat("g1") | {"messages": said})


def _code(home: Path, project: Path, count: int, *, is_log: bool = False) -> None:
    storage = home / ".config/Code/User/workspaceStorage/abc"
    _put(storage / "workspace.json", {"folder": project.as_uri()})
    asked = [
        {"requestId": f"r{n}", "message": {"text": f"ask {n}"}, "response": [{"value": f"told {n}"}]}
        for n in range(count)
    ]
    chat = {"version": 3, "sessionId": "v1", "creationDate": 1767323045000, "requests": asked}
    if is_log:
        _put(storage / "chatSessions/v1.jsonl", json.dumps({"kind": 0, "v": chat}).encode() + b"\n")
    else:
        _put(storage / "chatSessions/v1.json", chat)


def _log(home: Path, project: Path, count: int) -> None:
    _code(home, project, count, is_log=True)


def _opencode(home: Path, project: Path, count: int) -> None:
    path = home / ".local/share/opencode/opencode.db"
    path.unlink(missing_ok=True)
    at = {"time_created": 1767323046000, "time_updated": 1767323046000 + count}
    session = {"id": "ses_2", "directory": str(project), "title": "x", **at}
    found: dict[str, list[dict[str, Any]]] = {"session": [session]}
    for n in range(count):
        said = {"role": "user", "time": {"created": 1767323046000 + n}}
        part = {"type": "text", "text": f"said {n}"}
        names = {"session_id": "ses_2", **at}
        found.setdefault("message", []).append({"id": f"msg_{n}", **names, "data": said})
        found.setdefault("part", []).append({"id": f"prt_{n}", "message_id": f"msg_{n}", **names, "data": part})
    _database(path, found)


WRITERS: list[Write] = [_gemini, _code, _log, _opencode]
by_name = pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__.strip("_"))


def _copies(project: Path) -> list[Path]:
    return sorted((project / ".bede" / "raw").rglob("*.zst"))


@by_name
def test_all_that_was_ever_there_comes_back(write: Write, home: Path, project: Path, context, tmp_path: Path):
    for count in (6, 2, 4):
        write(home, project, count)
        take(context, keep_raw=True)
    told = texts(context)
    copies = _copies(project)
    assert len(copies) == 2
    context.close()
    for lost in (project / ".bede").glob("bede.db*"):
        lost.unlink()
    from bede.context import Context
    from bede.operations import load

    again = Context(directory=project)
    try:
        load("init").function(again)
        for copy in copies:
            take(again, path=[str(copy)])
        assert sorted(texts(again)) == sorted(told)
    finally:
        again.close()


@by_name
def test_what_only_grows_has_one_copy(write: Write, home: Path, project: Path, context):
    folders = set()
    for count in (1, 2, 5):
        write(home, project, count)
        take(context, keep_raw=True)
        assert len(_copies(project)) == 1
        folders.add(len([path for path in (project / ".bede" / "raw").rglob("*") if path.is_dir()]))
    assert len(folders) == 1, "nothing is left of a copy that was in the way"


def test_a_copy_that_cannot_be_read_makes_room(home: Path, project: Path, context):
    _gemini(home, project, 2)
    take(context, keep_raw=True)
    (copy,) = _copies(project)
    copy.write_bytes(b"no copy")
    _gemini(home, project, 3)
    take(context, keep_raw=True)
    assert _copies(project) == [copy]
    assert copy.read_bytes() != b"no copy"


def test_the_database_itself_is_only_read(home: Path, project: Path, context):
    _opencode(home, project, 3)
    take(context, keep_raw=True)
    path = home / ".local/share/opencode/opencode.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM message WHERE id = 'msg_1'")
        database.execute("UPDATE session SET time_updated = time_updated + 9")
    before = path.read_bytes()
    take(context, keep_raw=True)
    assert (path.read_bytes(), len(_copies(project))) == (before, 2)
