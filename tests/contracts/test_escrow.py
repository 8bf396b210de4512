"""Copies of raw records: with them alone, all sessions come back, each to where it belongs."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from contracts.written import NAMES, codex, identity, lines, place, session, take, texts

from bede.intake import escrow
from bede.sources import foreign
from bede.sources.cursor import slug

pytest.importorskip("zstandard", reason="compressed transcripts need zstandard")
ROOT = Path(__file__).resolve().parents[2]
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """No agent's own variables lead anywhere else."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def _put(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return path


def _claude(home: Path, project: Path) -> None:
    place(home, "s").write_bytes(session("s", project / "deep", 4))


def _codex(home: Path, project: Path) -> None:
    _put(home / f".codex/sessions/rollout-2026-01-01T00-00-00-{identity('c')}.jsonl", codex("c", project, 4))


def _opencode(home: Path, project: Path) -> None:
    data = home / ".local/share/opencode/storage"
    _put(
        data / "session/prj/ses_1.json", {"id": "ses_1", "directory": str(project), "time": {"created": 1767323045000}}
    )
    for number, role in enumerate(("user", "assistant", "user"), 1):
        message = {
            "id": f"msg_{number}",
            "sessionID": "ses_1",
            "role": role,
            "time": {"created": 1767323045000 + number},
        }
        _put(data / f"message/ses_1/msg_{number}.json", message)
        part = {"id": f"prt_{number}", "messageID": f"msg_{number}", "type": "text", "text": f"part {number} {TOKEN}"}
        _put(data / f"part/msg_{number}/prt_{number}.json", part)


def _antigravity(home: Path, project: Path) -> None:
    logs = home / ".gemini/antigravity/brain/c1/.system_generated/logs"
    text = f"<USER_REQUEST>\nsay it\n</USER_REQUEST>\n[URI] -> [CorpusName]:\n{project} -> a/b"
    asked = {"step_index": 0, "source": "USER_EXPLICIT", "type": "USER_INPUT", "status": "DONE", "content": text}
    told = {"step_index": 1, "source": "MODEL", "type": "PLANNER_RESPONSE", "status": "DONE", "content": "only there"}
    at = {"created_at": "2026-07-01T06:00:00Z"}
    _put(logs / "transcript_full.jsonl", lines([asked | at, told | at]))
    _put(
        logs / "transcript.jsonl", lines([asked | at, told | at, told | at | {"step_index": 2, "content": "and here"}])
    )


def _cursor(home: Path, project: Path) -> None:
    name = slug(str(project))
    _put(home / ".config/Cursor/User/workspaceStorage/a/workspace.json", {"folder": project.as_uri()})
    record = {"role": "user", "message": {"content": [{"type": "text", "text": "<user_query>\nhello\n</user_query>"}]}}
    _put(home / f".cursor/projects/{name}/agent-transcripts/one.jsonl", lines([record]))
    _put(home / f".cursor/projects/{name}/agent-transcripts/two/two.jsonl", lines([record]))


def _command_line(home: Path, project: Path) -> None:
    own = home / ".copilot/session-state/s1"
    _put(own / "workspace.yaml", f"id: s1\ncwd: {project}\nname: of {TOKEN}\n".encode())
    at = {"timestamp": "2026-01-01T00:00:00.000Z", "parentId": None}
    said = {"type": "user.message", "id": "e2", "data": {"content": "hello line"}} | at
    _put(own / "events.jsonl", lines([{"type": "session.start", "id": "e1", "data": {"sessionId": "s1"}} | at, said]))


def _code(home: Path, project: Path) -> None:
    storage = home / ".config/Code/User/workspaceStorage/abc"
    _put(storage / "workspace.json", {"folder": project.as_uri()})
    request = {"requestId": "r1", "message": {"text": "hello code"}, "response": [{"value": "Hello."}]}
    chat = {"version": 3, "sessionId": "v1", "creationDate": 1767323045000, "requests": [request]}
    _put(storage / "chatSessions/v1.json", chat)
    _put(storage / "chatSessions/v2.jsonl", lines([{"kind": 0, "v": chat | {"sessionId": "v2"}}]))


def _chat(name: str) -> dict[str, Any]:
    message = {"id": "m1", "type": "user", "content": f"hello {name}", "timestamp": "2026-01-01T00:00:00.000Z"}
    return {"sessionId": name, "projectHash": "0" * 64, "startTime": "2026-01-01T00:00:00.000Z", "messages": [message]}


def _gemini(home: Path, project: Path) -> None:
    own = home / ".gemini/tmp/shop"
    _put(own / ".project_root", str(project).encode())
    _put(own / "chats/session-1.json", _chat("g1"))


def _gemini_listed(home: Path, project: Path) -> None:
    _put(home / ".gemini/projects.json", {"projects": {str(project): "shop"}})
    _put(home / ".gemini/tmp/shop/chats/session-1.json", _chat("g2"))


def _database(path: Path, tables: dict[str, list[dict[str, Any]]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as database, database:
        for table, rows in tables.items():
            database.execute(f"CREATE TABLE {table} ({', '.join(rows[0])})")
            for row in rows:
                held = [json.dumps(value) if isinstance(value, dict) else value for value in row.values()]
                database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", held)


def _opencode_database(home: Path, project: Path) -> None:
    """A database with a session of the project, one of somebody else's, and one that only the tree beside it has."""
    _opencode(home, project)
    found: dict[str, list[dict[str, Any]]] = {"session": [], "message": [], "part": []}
    for name, folder in (("ses_2", str(project)), ("ses_3", "/elsewhere")):
        at = {"time_created": 1767323046000, "time_updated": 1767323046000}
        found["session"].append({"id": name, "directory": folder, "title": f"of {TOKEN}", **at})
        said = {"role": "user", "time": {"created": 1767323046000}}
        found["message"].append({"id": f"msg_{name}", "session_id": name, **at, "data": said})
        part = {"type": "text", "text": f"said in {name} {TOKEN}"}
        row = {"id": f"prt_{name}", "message_id": f"msg_{name}", "session_id": name, **at, "data": part}
        found["part"].append(row)
    _database(home / ".local/share/opencode/opencode.db", found)


def _cursor_database(home: Path, project: Path) -> None:
    """Databases with conversations of the project and of somebody else's, as pairs and in the old values."""
    users = home / ".config/Cursor/User"
    pairs: list[dict[str, Any]] = []
    for name, folder in (("c1", project.as_uri()), ("c2", "file:///elsewhere")):
        headers = [{"bubbleId": "b1", "type": 1}]
        uri = {"uri": {"scheme": "file", "path": folder.removeprefix("file://")}}
        held = {"composerId": name, "fullConversationHeadersOnly": headers, "workspaceIdentifier": uri}
        pairs.append({"key": f"composerData:{name}", "value": held})
        bubble = {"bubbleId": "b1", "type": 1, "text": f"said in {name} {TOKEN}"}
        pairs.append({"key": f"bubbleId:{name}:b1", "value": bubble})
    _database(users / "globalStorage/state.vscdb", {"cursorDiskKV": pairs})
    tab = {"tabId": "t1", "bubbles": [{"id": "x", "type": "user", "text": f"an old chat {TOKEN}"}]}
    old = {"key": "workbench.panel.aichat.view.aichat.chatdata", "value": {"tabs": [tab]}}
    _database(users / "workspaceStorage/abc/state.vscdb", {"ItemTable": [old]})
    _put(users / "workspaceStorage/abc/workspace.json", {"folder": project.as_uri()})


LEFT: list[Callable[[Path, Path], None]] = [
    _claude, _codex, _opencode, _opencode_database, _antigravity, _cursor, _cursor_database, _command_line, _code,
    _gemini, _gemini_listed,
]  # fmt: skip


def _told(context) -> list[tuple[str, str, str, int]]:
    with context.repository.snapshot() as reading:
        query = "SELECT agent, name, cwd, turns FROM session ORDER BY agent, name"
        return reading.connection.execute(query).fetchall()


def _in_the_page() -> list[list[str]]:
    """Return the commands by which the page says that all is built again."""
    page = (ROOT / "docs" / "sources.md").read_text(encoding="utf-8")
    block = page.partition("## Raw copies")[2].partition("```sh\n")[2].partition("```")[0]
    return [shlex.split(line) for line in block.splitlines()]


@pytest.mark.skipif(shutil.which("find") is None or os.name != "posix", reason="the page's own command")
@pytest.mark.parametrize("leave", LEFT, ids=lambda leave: leave.__name__.strip("_"))
def test_what_the_page_says_brings_all_back(leave, home, project, context, tmp_path):
    leave(home, project)
    result = take(context, keep_raw=True)
    assert result.files.keys() == {"read"}
    assert (result.unreadable, result.problems) == ((), {})
    before, said = _told(context), texts(context)
    assert len(before) == result.sessions > 0
    assert {Path(cwd).is_relative_to(project) for _, _, cwd, _ in before} == {True}
    context.close()
    for agents in list(home.glob(".[!.]*")):
        shutil.rmtree(agents) if agents.is_dir() else agents.unlink()
    for lost in (project / ".bede").glob("bede.db*"):
        lost.unlink()
    tool = tmp_path / "bin" / "bede"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m bede_cli "$@"\n')
    tool.chmod(0o755)
    paths = os.pathsep.join(str(ROOT / folder) for folder in ("core", "cli"))
    environment = os.environ | {"PATH": f"{tool.parent}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": paths}
    commands = _in_the_page()
    assert [words[:2] for words in commands] == [["bede", "init"], ["find", ".bede/raw"]]
    for words in commands:
        done = subprocess.run(words, cwd=project, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert '"unreadable":1' not in done.stdout
    from bede.context import Context

    again = Context(directory=project)
    try:
        assert (_told(again), texts(again)) == (before, said)
    finally:
        again.close()


def _plain(path: Path) -> bytes:
    import zstandard

    whole = path.read_bytes()
    if path.suffix != ".zst":
        return whole
    return zstandard.ZstdDecompressor().stream_reader(whole, read_across_frames=True).read()


@pytest.mark.parametrize("leave", LEFT, ids=lambda leave: leave.__name__.strip("_"))
def test_what_lies_beside_a_copy_is_for_its_owner_and_holds_no_secret(leave, home, project, context):
    leave(home, project)
    take(context, keep_raw=True)
    raw = project / ".bede" / "raw"
    kept = [path for path in raw.rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (raw, *raw.rglob("*")) if path.is_dir()} == {0o700}
    assert not any(word in _plain(path) for path in kept for word in (TOKEN.encode(), b"elsewhere"))
    before = {path: path.stat().st_ino for path in kept}
    assert take(context, keep_raw=True).files.keys() == {"unchanged"}
    assert {path: path.stat().st_ino for path in raw.rglob("*") if path.is_file()} == before


def test_what_is_deleted_from_a_database_stays_in_its_copy(home, project, context):
    _opencode_database(home, project)
    take(context, keep_raw=True)
    path = home / ".local/share/opencode/opencode.db"
    kept = {place: place.read_bytes() for place in (project / ".bede" / "raw").rglob("*.db.zst")}
    assert len(kept) == 1
    with closing(sqlite3.connect(path)) as database, database:
        for table, name in (("session", "id"), ("message", "session_id"), ("part", "session_id")):
            database.execute(f"DELETE FROM {table} WHERE {name} = 'ses_2'")
    take(context, keep_raw=True)
    assert {place: place.read_bytes() for place in (project / ".bede" / "raw").rglob("*.db.zst")} == kept


def test_only_sessions_that_changed_are_copied_again(home, project, context):
    _opencode_database(home, project)
    path = home / ".local/share/opencode/opencode.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE session SET directory = ? WHERE id = 'ses_3'", (str(project),))
    take(context, keep_raw=True)
    raw = project / ".bede" / "raw"
    before = {place: place.stat().st_ino for place in raw.rglob("*.db.zst")}
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE part SET data = json_set(data, '$.text', 'now this'), time_updated = time_updated + 1"
                         " WHERE session_id = 'ses_3'")
    take(context, keep_raw=True)
    after = {place: place.stat().st_ino for place in raw.rglob("*.db.zst")}
    assert len(before) == 2
    changed = [place for place in after if after[place] != before[place]]
    assert [b"now this" in _plain(place) for place in changed] == [True]


def test_what_changes_beside_a_file_changes_beside_its_copy(home, project, context):
    _opencode(home, project)
    take(context, keep_raw=True)
    data = home / ".local/share/opencode/storage"
    told = json.loads((data / "part/msg_3/prt_3.json").read_text())
    _put(data / "part/msg_3/prt_4.json", told | {"id": "prt_4", "text": "it goes on"})
    take(context, keep_raw=True)
    raw = project / ".bede" / "raw"
    assert [json.loads(path.read_text())["text"] for path in raw.rglob("prt_4.json")] == ["it goes on"]
    assert not list(raw.rglob("*.new"))


def _held(raw: Path) -> dict[Path, bytes]:
    return {path.relative_to(raw): _plain(path) for path in raw.rglob("*") if path.is_file()}


@pytest.mark.parametrize("leave", LEFT, ids=lambda leave: leave.__name__.strip("_"))
def test_what_was_read_before_is_copied_when_that_is_asked_for(leave, home, project, context):
    """Of what was taken in without copies, and of what lost them: all, and nothing is read for it a second time."""
    leave(home, project)
    raw = project / ".bede" / "raw"
    take(context)
    assert not raw.exists()
    result = take(context, keep_raw=True)
    assert (result.files.keys(), result.turns, result.records) == ({"unchanged"}, {}, 0)
    first = _held(raw)
    shutil.rmtree(raw)
    take(context, keep_raw=True, again=True)
    assert _held(raw) == first != {}
    shutil.rmtree(raw)
    take(context)
    assert not raw.exists(), "nobody asked"
    assert take(context, keep_raw=True).files.keys() == {"unchanged"}
    assert _held(raw) == first


def test_the_copy_of_one_session_of_a_database_is_made_again_alone(home, project, context):
    _opencode_database(home, project)
    path = home / ".local/share/opencode/opencode.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE session SET directory = ? WHERE id = 'ses_3'", (str(project),))
    take(context, keep_raw=True)
    raw = project / ".bede" / "raw"
    first, (one, _) = _held(raw), sorted(raw.rglob("*.db.zst"))
    before = {place: place.stat().st_ino for place in raw.rglob("*") if place.is_file() and place != one}
    one.unlink()
    take(context, keep_raw=True)
    assert _held(raw) == first
    assert {place: place.stat().st_ino for place in before} == before


class _Killed(BaseException):
    """Ends a run as a signal does."""


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_run_that_is_stopped_right_after_a_copy_grew_doubles_nothing(agent, home, project, context, monkeypatch):
    """What tells how far a copy reaches is written with others' cursors, much later."""
    (_claude if agent == "claude" else _codex)(home, project)
    (path,) = (path for path in home.rglob("*.jsonl") if path.is_file())
    whole = path.read_bytes()
    at = whole.index(b"\n", len(whole) // 2) + 1
    path.write_bytes(whole[:at])
    take(context, keep_raw=True)
    path.write_bytes(whole)

    def killed(self, *asked):
        keep(self, *asked)
        raise _Killed

    keep = escrow.Escrow.keep
    with monkeypatch.context() as patch, pytest.raises(_Killed):
        patch.setattr(escrow.Escrow, "keep", killed)
        take(context, keep_raw=True)
    take(context, keep_raw=True)
    (copy,) = (project / ".bede" / "raw").rglob("*.zst")
    assert _plain(copy) == whole
    with path.open("ab") as file:
        file.write(whole[at:])
    take(context, keep_raw=True)
    assert _plain(copy) == whole + whole[at:]


@pytest.mark.parametrize("cut", [1, 30, 10_000])
def test_a_copy_that_lost_its_end_is_made_again(cut, home, project, context):
    _claude(home, project)
    (path,) = home.rglob("*.jsonl")
    take(context, keep_raw=True)
    (copy,) = (project / ".bede" / "raw").rglob("*.zst")
    copy.write_bytes(copy.read_bytes()[:-cut])
    with path.open("ab") as file:
        file.write(session("s", project, 2, start=9))
    take(context, keep_raw=True)
    assert _plain(copy) == path.read_bytes()


def test_of_a_secret_in_names_nothing_is_left_and_two_files_stay_two(home, project, context, tmp_path):
    folders = [f"-home-{TOKEN}-shop", f"-home-{TOKEN[:-1]}9-shop"]
    for number, folder in enumerate(folders):
        path = home / ".claude/projects" / folder / f"{number}.jsonl"
        _put(path, session(f"s{number}", project, 2))
    take(context, keep_raw=True)
    raw = project / ".bede" / "raw"
    assert not [path for path in raw.rglob("*") if "ghp_" in str(path)]
    own = escrow.Escrow(tmp_path, b"x" * 32)
    one, other = (own.place("claude-code", Path("/h", each, "s.jsonl")) for each in folders)
    assert one != other
    assert one.parts[-2:] == other.parts[-2:] == ("-home-_redacted_github-token_-shop", "s.jsonl.zst")
    assert one != escrow.Escrow(tmp_path, b"y" * 32).place("claude-code", Path("/h", folders[0], "s.jsonl"))
    assert escrow.Escrow(tmp_path).place("claude-code", Path("/h", TOKEN + ".jsonl")).name.endswith(".jsonl.zst")


@pytest.mark.parametrize("leave", [_opencode_database, _cursor_database])
def test_for_copies_of_its_sessions_a_database_is_opened_once(leave, home, project, context, monkeypatch):
    """One that lies at rest in its log's mode cannot be read in place."""
    leave(home, project)
    (path,) = (*home.rglob("opencode.db"), *home.rglob("globalStorage/state.vscdb"))
    copied: list[Path] = []
    monkeypatch.setattr(foreign, "_copy", lambda file, to, copy=foreign._copy: (copied.append(file), copy(file, to)))
    counts = []
    for more in range(3):
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("PRAGMA journal_mode = WAL")
            for table in ("session", "message", "part", "cursorDiskKV"):
                for row in database.execute("SELECT * FROM sqlite_master WHERE name = ?", (table,)).fetchall():
                    told = database.execute(f"SELECT * FROM {row[1]}").fetchall()
                    for each in told if more else ():
                        renamed = (str(held).replace("ses_2", f"ses_{more}2") for held in each)
                        values = [text.replace("c1", f"c1{more}") for text in renamed]
                        database.execute(f"INSERT INTO {row[1]} VALUES ({', '.join('?' * len(each))})", values)
        copied.clear()
        shutil.rmtree(project / ".bede" / "raw", ignore_errors=True)
        take(context, keep_raw=True, again=True)
        counts.append((copied.count(path), len(list((project / ".bede" / "raw").rglob("*db.zst")))))
    assert len({count for count, _ in counts}) == 1
    assert counts[0][0] > 0
    assert counts[0][1] < counts[2][1]


def _patched(home: Path, project: Path, lines_: list[str]) -> None:
    record = json.loads(session("s", project, 1).splitlines()[0])
    record["toolUseResult"] = {"structuredPatch": [{"lines": lines_}]}
    place(home, "s").write_bytes(session("s", project, 2, start=2) + lines([record]))


def _chatted(home: Path, project: Path, pieces: list[str]) -> None:
    _code(home, project)
    log = next(home.rglob("v2.jsonl"))
    added = [{"kind": 2, "k": ["requests", 0, "response"], "v": [{"value": piece}]} for piece in pieces]
    log.write_bytes(log.read_bytes() + lines(added))


def _typed(home: Path, project: Path, pieces: list[str]) -> None:
    said = "user:\n<user_query>\nhere\n" + "\n".join(pieces) + "\n</user_query>\n\nassistant:\nfine\n"
    _put(home / f".cursor/projects/{slug(str(project))}/agent-transcripts/one.txt", said.encode())
    _put(home / ".config/Cursor/User/workspaceStorage/a/workspace.json", {"folder": project.as_uri()})


_BODY = [f"MII{number}{'aB3dE6gH' * 7}" for number in range(6)]
KEY = ["-----BEGIN " + "RSA PRIVATE KEY-----", *_BODY, "-----END " + "RSA PRIVATE KEY-----"]


@pytest.mark.parametrize(
    ("leave", "pieces"),
    [
        (_patched, [f"+{line}" for line in KEY]),
        (_chatted, [f"{line}\n" for line in KEY]),
        (_chatted, ["key " + TOKEN[:20], TOKEN[20:] + " end"]),
        (_typed, KEY),
    ],
)
def test_what_is_a_secret_once_it_is_read_is_in_no_copy(leave, pieces, home, project, context, tmp_path, clock):
    """And what is built again of the copies says the same."""
    leave(home, project, pieces)
    take(context, keep_raw=True)
    raw = project / ".bede" / "raw"
    told = b"".join(_held(raw).values())
    assert not any(part in told for part in (b"aB3dE6gH", TOKEN[:20].encode(), TOKEN[20:].encode()))
    from bede.context import Context
    from bede.operations.ingest import ingest
    from bede.operations.init import init

    (tmp_path / "new").mkdir()
    with closing(Context(directory=tmp_path / "new", clock=clock, agent="other")) as other:
        init(other)
        assert ingest(other, path=list(raw.rglob("*.zst"))).unreadable == ()
        assert texts(other) == texts(context)
