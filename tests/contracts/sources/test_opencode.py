"""OpenCode: the same session from the database, from the tree, from an export, and from two of them at once."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bede.errors import BadSource
from bede.sources import opencode, source
from bede.sources.port import Call, Item, Prompt, Reply, Result, Rewind, Session, Tally, Thought, Usage, World

SHARED = Path(__file__).resolve().parents[4] / "shared"
SAMPLES = SHARED / "transcripts"
LIVE = SHARED / "transcripts-live" / "opencode"
HANDMADE = SAMPLES / "synthetic" / "opencode"
FIXTURES = SAMPLES / "opencode" / "git-ai-project__git-ai" / "tests" / "fixtures"
needs_samples = pytest.mark.skipif(not SAMPLES.exists(), reason="the sample transcripts are not beside this checkout")
needs_live = pytest.mark.skipif(not LIVE.exists(), reason="the transcripts of real runs are not beside this checkout")


def read(path: Path, only: Iterable[str] | None = None) -> tuple[list[Item], Tally]:
    tally = Tally()
    items = list(opencode.load(path, tally, None if only is None else set(only)))
    keys = Counter((item.session, item.key) for item in items if item.key != "session")
    assert not keys or max(keys.values()) == 1
    assert all(item.precision == ("" if item.at is None else "ms") for item in items)
    return items, tally


def of(items: list[Item], kind: type, session: str = "") -> list[Any]:
    return [item.what for item in items if isinstance(item.what, kind) and session in ("", item.session)]


def human(items: list[Item], session: str = "") -> list[str]:
    return [prompt.text for prompt in of(items, Prompt, session) if prompt.speaker == "human"]


def said(items: list[Item], session: str = "") -> list[str]:
    return [reply.text for reply in of(items, Reply, session)]


def edited(items: list[Item], session: str, ok: bool = False) -> set[str]:
    results = {result.call: result.ok for result in of(items, Result, session)}
    calls = [call for call in of(items, Call, session) if not ok or results.get(call.call)]
    return {edit.path for call in calls for edit in call.edits}


def database(path: Path, messages: list[dict[str, Any]], session: dict[str, Any] | None = None) -> Path:
    """Write messages, each with `parts`, as OpenCode lays them down."""
    values = {"id": "ses_1", "directory": "/p", "title": "t", "version": "1", "time_created": 1, "time_updated": 1}
    values |= session or {}
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"CREATE TABLE session({', '.join(values)})")
        db.execute(f"INSERT INTO session VALUES ({', '.join('?' * len(values))})", tuple(values.values()))
        db.execute("CREATE TABLE message(id, session_id, time_created, time_updated, data)")
        db.execute("CREATE TABLE part(id, message_id, session_id, time_created, time_updated, data)")
        for number, message in enumerate(messages, 1):
            message = {"id": f"msg_{number}", **message}
            for count, part in enumerate(message.pop("parts", []), 1):
                part = {"id": f"prt_{number}_{count}", **part}
                row = (part.pop("id"), message["id"], values["id"], number, number, json.dumps(part))
                db.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", row)
            row = (message.pop("id"), values["id"], number, number, json.dumps(message))
            db.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", row)
    return path


def tool(name: str, state: dict[str, Any], call: str = "c1") -> dict[str, Any]:
    return {"role": "assistant", "parts": [{"type": "tool", "tool": name, "callID": call, "state": state}]}


def text(content: str, role: str = "user", **more: Any) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "text": content, **more}]}


def test_it_is_the_format_of_its_agent() -> None:
    assert source("opencode") is opencode  # type: ignore[comparison-overlap]
    assert (opencode.AGENT, opencode.FORM) == ("opencode", "document")


@needs_samples
def test_the_published_database_gives_all_that_is_expected() -> None:
    path = FIXTURES / "opencode-sqlite" / "opencode.db"
    expected = json.loads((SAMPLES / "expected.json").read_text())[str(path.relative_to(SAMPLES))]
    items, tally = read(path)
    assert {item.session for item in items} == set(expected["sessions"])
    for name, told in expected["sessions"].items():
        check(items, name, told)
        assert {kind: tally.types[kind] for kind in told["part_types"]} == told["part_types"]
        assert {role: tally.types[role] for role in told["messages"]} == told["messages"]
        assert not tally.problems


def check(items: list[Item], name: str, told: dict[str, Any]) -> None:
    """Compare a session with its counts."""
    session, calls, results = of(items, Session, name)[-1], of(items, Call, name), of(items, Result, name)
    assert ([session.cwd], [session.version], session.parent or None) == (
        told["cwd"],
        told["agent_versions"],
        told["parent_id"],
    )
    assert len(of(items, Thought, name)) == told["reasoning_parts"]
    assert len(said(items, name)) == told["assistant_texts"]
    prompts = [each.text for each in of(items, Prompt, name) if each.speaker in ("human", "delegated")]
    assert (len(prompts), prompts[0][: len(told["first_prompt"])]) == (told["user_prompts"], told["first_prompt"])
    assert Counter(call.tool for call in calls) == told["tool_calls_by_name"]
    assert len(calls) == told["tool_calls"]
    assert Counter("completed" if each.ok else "error" for each in results) == told["tool_status"]
    assert Counter(str(each.exit_status) for each in results if each.exit_status is not None) == told["bash_exit"]
    assert Counter(call.tool for call in calls if call.edits) == told["file_edit_calls"]
    assert len(edited(items, name)) == told["distinct_files_targeted"]
    assert len(edited(items, name, ok=True)) == told["distinct_files_edited_ok"]
    assert Counter(usage.model for usage in of(items, Usage, name)) == told["models"]
    sums = {field: sum(getattr(each, field) for each in of(items, Usage, name)) for field in told["tokens"]}
    assert sums == told["tokens"]
    times = [item.at // 1000 for item in items if item.session == name and item.at is not None]
    assert (min(times), max(times)) == (told["first_timestamp"], told["last_timestamp"])


@needs_live
@pytest.mark.parametrize("scenario", ["start", "resume", "deny", "inject"])
def test_a_real_session_is_told_as_it_was_played(scenario: str) -> None:
    expected = json.loads((LIVE / scenario / "expected.json").read_text())
    items, tally = read(LIVE / scenario / expected["files"][0])
    name = expected["session_id"]
    assert {item.session for item in items} == {name, *expected["other_sessions_in_same_file"]}
    session = of(items, Session, name)[-1]
    assert (session.version, session.cwd, session.model) == (
        expected["agent_version"],
        expected["cwd"],
        "scripted/scripted-model",
    )
    turns = expected["turns"]
    assert human(items, name) == [turn["prompt_as_stored"] for turn in turns]
    assert said(items, name) == [reply for turn in turns for reply in turn["assistant_texts"]]
    compare_calls(items, name, [call for turn in turns for call in turn["tool_calls"]])
    assert edited(items, name, ok=True) == {
        f"{expected['cwd']}/{path}" for turn in turns for path in turn["edited_files"]
    }
    spoken = " ".join([*human(items), *said(items)])
    assert not any(injected in spoken for turn in turns for injected in turn["injected_by_hooks"])
    assert all(any(started <= each.at <= ended for started, ended in map(span, turns)) for each in timed(items, name))
    assert not tally.problems


def span(turn: dict[str, Any]) -> tuple[float, float]:
    started, ended = (datetime.fromisoformat(turn[name]).timestamp() for name in ("started", "ended"))
    return (started - 1) * 1e6, (ended + 1) * 1e6


def timed(items: list[Item], name: str) -> list[Any]:
    return [item for item in items if item.session == name and item.at is not None]


def compare_calls(items: list[Item], name: str, told: list[dict[str, Any]]) -> None:
    calls, results = of(items, Call, name), {each.call: each for each in of(items, Result, name)}
    assert [(call.call, call.tool) for call in calls] == [(each["id"], each["tool"]) for each in told]
    for call, each in zip(calls, told, strict=True):
        result = results[call.call]
        assert (result.ok, result.exit_status, result.denied) == (each["ok"], each["exit_code"], each["denied"]), call
        assert call.sort == each["kind"]
        assert call.target in each["args"].values()
        if each["tool"] == "edit":
            assert (call.edits[0].old, call.edits[0].new) == (each["args"]["oldString"], each["args"]["newString"])
        if each["tool"] == "write":
            assert (call.edits[0].operation, call.edits[0].new) == ("create", each["args"]["content"])
        assert bool(result.output) == (not each["ok"])


@needs_samples
def test_the_handmade_database_and_tree_are_one() -> None:
    items, tally = read(HANDMADE / "opencode.db")
    told = json.loads((SAMPLES / "synthetic" / "expected_handmade.json").read_text())["opencode/opencode.db"]
    assert len(human(items)) == told["user_prompts"]
    assert len(said(items)) == told["assistant_texts"]
    assert len(of(items, Call)) == told["tool_calls"]
    sessions = {item.session: item.what for item in items if isinstance(item.what, Session)}
    assert len(sessions) == told["sessions"]
    assert {name: each.parent for name, each in sessions.items() if each.parent} == told["child_of"]
    assert sessions["ses_demo0002"].origin == "subagent"
    assert not tally.problems
    assert set(opencode.find(world(SAMPLES / "synthetic"))) == {HANDMADE / "opencode.db"}
    by_hand, _ = read(HANDMADE / "storage" / "session" / "prj1" / "ses_demo0001.json")
    assert by_hand == [item for item in items if item.session == "ses_demo0001"]


def world(data: Path, **more: str) -> World:
    return World({"XDG_DATA_HOME": str(data), **more}, Path("/nowhere"), "linux")


@needs_samples
def test_the_tree_alone_gives_the_same_items_as_the_database(tmp_path: Path) -> None:
    shutil.copytree(HANDMADE / "storage", tmp_path / "opencode" / "storage")
    (path,) = opencode.find(world(tmp_path))
    assert path.name == "ses_demo0001.json"
    items, tally = read(path)
    told = json.loads((SAMPLES / "synthetic" / "expected_handmade.json").read_text())
    told = told["opencode/storage/session/prj1/ses_demo0001.json"]
    assert len(human(items)) == told["user_prompts"]
    assert len(said(items)) == told["assistant_texts"]
    assert len(of(items, Call)) == told["tool_calls"]
    assert len(edited(items, "ses_demo0001")) == told["distinct_files_targeted"]
    assert len(edited(items, "ses_demo0001", ok=True)) == told["distinct_files_edited_ok"]
    assert [each.exit_status for each in of(items, Result) if each.exit_status is not None] == [told["bash_exit"]]
    both = {item.key: item for item in read(HANDMADE / "opencode.db")[0] if item.session == "ses_demo0001"}
    assert all(both[item.key] == item for item in items if item.key != "session")
    assert of(items, Session)[-1] == both["session"].what
    assert not tally.problems


@needs_samples
def test_messages_that_were_left_behind_in_the_tree_are_added_in_their_place(tmp_path: Path) -> None:
    shutil.copytree(HANDMADE, tmp_path / "opencode", dirs_exist_ok=True)
    path = tmp_path / "opencode" / "opencode.db"
    path.chmod(0o644)
    whole, _ = read(path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DELETE FROM message WHERE id = 'msg_demo0002'")
        db.execute("DELETE FROM part WHERE message_id = 'msg_demo0002'")
        db.execute("UPDATE part SET data = json_set(data, '$.text', 'changed') WHERE id = 'prt_1'")
    items, _ = read(path)
    assert [item.key for item in items] == [item.key for item in whole]
    assert human(items)[0] == "changed"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DELETE FROM session WHERE id = 'ses_demo0001'")
    tree, _ = read(path)
    assert human(tree, "ses_demo0001") == ["run the tests"]
    assert {name for name, _ in opencode.sessions(path)} == {"ses_demo0001", "ses_demo0002"}


@needs_samples
def test_the_published_tree_fills_up_the_published_database(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "opencode-storage", tmp_path / "storage")
    shutil.copy(FIXTURES / "opencode-sqlite" / "opencode.db", tmp_path)
    (tmp_path / "storage" / "session" / "p").mkdir(parents=True)
    info = {"id": "test-session-123", "directory": "/elsewhere"}
    (tmp_path / "storage" / "session" / "p" / "test-session-123.json").write_text(json.dumps(info))
    items, _ = read(tmp_path / "opencode.db")
    assert of(items, Session)[-1].cwd == "/Users/test/project"
    assert [(each.speaker, each.text) for each in of(items, Prompt)] == [
        ("delegated", "Update the comment in index.ts to say 'Hello World'"),
        ("delegated", "Please update index.ts using sqlite transcript data"),
    ]
    assert len(said(items)) == 4
    shutil.move(tmp_path / "opencode.db", tmp_path / "away")
    items, tally = read(tmp_path / "storage" / "session" / "p" / "test-session-123.json")
    assert human(items) == ["Update the comment in index.ts to say 'Hello World'"]
    assert len(said(items)) == 2
    assert [(call.target, call.edits[0].new) for call in of(items, Call)] == [
        ("/Users/test/project/index.ts", "// Hello World\nconsole.log('test');")
    ]
    assert not tally.problems


def test_the_oldest_tree_is_found_and_read(tmp_path: Path) -> None:
    base = tmp_path / "opencode" / "project" / "home-u-p" / "storage" / "session"
    write(base / "info" / "ses_a.json", {"id": "ses_a", "version": "0.1", "title": "old", "time": {"created": 5}})
    write(base / "message" / "ses_a" / "msg_1.json", {"id": "msg_1", "role": "user", "time": {"created": 6}})
    answer = {"id": "msg_2", "role": "assistant", "time": {"created": 7}, "path": {"cwd": "/home/u/p"}, "modelID": "m"}
    write(base / "message" / "ses_a" / "msg_2.json", answer)
    write(base / "part" / "ses_a" / "msg_1" / "prt_1.json", {"id": "prt_1", "type": "text", "text": "hello"})
    write(base / "part" / "ses_a" / "msg_2" / "prt_2.json", {"id": "prt_2", "type": "text", "text": "hi"})
    (path,) = opencode.find(world(tmp_path))
    stamp = opencode.stamp(path)
    items, _ = read(path)
    assert (human(items), said(items)) == (["hello"], ["hi"])
    assert of(items, Session)[-1] == Session("opencode", "0.1", "m", "/home/u/p", title="old")
    assert items[1].at == 6000
    write(base / "part" / "ses_a" / "msg_2" / "prt_2.json", {"id": "prt_2", "type": "text", "text": "hi there"})
    assert opencode.stamp(path) != stamp


def write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


@needs_samples
def test_an_export_gives_the_same_items(tmp_path: Path) -> None:
    with closing(sqlite3.connect(f"file:{HANDMADE / 'opencode.db'}?immutable=1", uri=True)) as db:
        messages = []
        for name, data in db.execute("SELECT id, data FROM message WHERE session_id = 'ses_demo0001' ORDER BY id"):
            parts = db.execute("SELECT id, data FROM part WHERE message_id = ? ORDER BY id", (name,)).fetchall()
            parts = [{"id": part, "messageID": name, **json.loads(data)} for part, data in parts]
            messages.append({"info": {"id": name, "sessionID": "ses_demo0001", **json.loads(data)}, "parts": parts})
    info = json.loads((HANDMADE / "storage" / "session" / "prj1" / "ses_demo0001.json").read_text())
    path = tmp_path / "export.json"
    path.write_text(json.dumps({"info": info, "messages": messages}))
    assert opencode.accepts(path, path.read_bytes()[:65536])
    items, tally = read(path)
    assert items == [item for item in read(HANDMADE / "opencode.db")[0] if item.session == "ses_demo0001"]
    assert not tally.problems
    assert read(path, {"other"})[0] == []


@needs_live
def test_only_what_changed_has_to_be_read_again(tmp_path: Path) -> None:
    shutil.copy(next(LIVE.glob("inject/home/.local/share/opencode/*.db")), path := tmp_path / "opencode.db")
    path.chmod(0o644)
    before, stamp = dict(opencode.sessions(path)), opencode.stamp(path)
    chosen = sorted(before)[0]
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE part SET time_updated = 9e15 WHERE session_id = ?", (chosen,))
    after = dict(opencode.sessions(path))
    assert {name for name in after if after[name] != before[name]} == {chosen}
    assert opencode.stamp(path) != stamp
    everything, _ = read(path)
    assert read(path, {chosen})[0] == [item for item in everything if item.session == chosen]


@pytest.mark.parametrize("later", [-3_600_000, -1, 1, 5_000])
@pytest.mark.parametrize("table", ["message", "part"])
def test_a_row_that_is_written_over_is_seen_whatever_its_time(tmp_path: Path, table: str, later: int) -> None:
    path = database(tmp_path / "opencode.db", [text("one"), text("two"), text("three")], {"time_updated": 10**13})
    before = dict(opencode.sessions(path))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"UPDATE {table} SET time_updated = time_updated + ? WHERE id LIKE '%2%'", (later,))
    assert dict(opencode.sessions(path)).keys() == before.keys()
    assert dict(opencode.sessions(path)) != before


@needs_samples
@pytest.mark.parametrize("name", ["prt_1.json", "prt_9.json"])
def test_a_part_that_changes_or_comes_is_seen_where_only_the_tree_has_its_session(tmp_path: Path, name: str) -> None:
    shutil.copytree(HANDMADE / "storage", tmp_path / "storage")
    path = database(tmp_path / "opencode.db", [text("elsewhere")])
    before, stamp = dict(opencode.sessions(path)), opencode.stamp(path)
    place = tmp_path / "storage" / "part" / "msg_demo0001" / name
    place.parent.chmod(0o755)
    place.unlink(missing_ok=True)
    place.write_text(json.dumps({"id": place.stem, "type": "text", "text": "said later"}))
    after = dict(opencode.sessions(path))
    assert {session for session in after if after[session] != before[session]} == {"ses_demo0001"}
    assert opencode.stamp(path) != stamp
    assert "said later" in "".join(human(read(path, {"ses_demo0001"})[0]))


def test_a_database_without_parts_says_so(tmp_path: Path) -> None:
    path = database(tmp_path / "opencode.db", [text("one"), text("two")])
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP TABLE part")
    assert read(path)[1].problems == {"no table of parts": 1}


def test_places_by_environment_and_system(tmp_path: Path) -> None:
    for name in ("opencode.db", "opencode-dev.db"):
        (tmp_path / ".local" / "share" / "opencode").mkdir(parents=True, exist_ok=True)
        database(tmp_path / ".local" / "share" / "opencode" / name, [])
    database(tmp_path / "own.db", [])
    home = tmp_path / ".local" / "share" / "opencode"
    for system in ("linux", "darwin", "win32"):
        found = list(opencode.find(World({}, tmp_path, system)))
        assert found == [home / "opencode.db", home / "opencode-dev.db"]
    named = World({"OPENCODE_DB": str(tmp_path / "own.db")}, tmp_path, "linux")
    assert list(opencode.find(named))[-1] == tmp_path / "own.db"
    assert list(opencode.find(World({}, tmp_path / "nothing", "linux"))) == []


def test_what_is_another_program_s_is_not_accepted(tmp_path: Path) -> None:
    other = tmp_path / "state.vscdb"
    with closing(sqlite3.connect(other)) as db, db:
        db.execute("CREATE TABLE ItemTable(key, value)")
    assert not opencode.accepts(other, other.read_bytes()[:65536])
    with pytest.raises(BadSource):
        read(other)
    mine = database(tmp_path / "renamed.sqlite", [text("hi")])
    assert opencode.accepts(mine, mine.read_bytes()[:65536])
    assert human(read(mine)[0]) == ["hi"]
    assert not opencode.accepts(tmp_path / "a.json", b'{"sessionId": "x", "messages": []}')
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(BadSource):
        read(tmp_path / "a.json")


def test_who_speaks(tmp_path: Path) -> None:
    first = [
        {"type": "text", "text": "look at this"},
        {"type": "text", "text": "Called the Read tool", "synthetic": True},
        {"type": "text", "text": "a notice", "ignored": True},
        {"type": "file", "mime": "image/png", "url": "data:..."},
        {"type": "subtask", "prompt": "review it", "command": "review", "agent": "general"},
    ]
    ran = {"status": "completed", "input": {"command": "ls"}, "output": "", "metadata": {"exit": 0}}
    messages = [
        {"role": "user", "parts": first},
        text("The following tool was executed by the user", synthetic=True),
        {**tool("bash", ran), "parentID": "msg_2"},
        {"role": "user", "parts": [{"type": "compaction", "auto": True}]},
        {**text("what was done", "assistant"), "summary": True},
        {"role": "assistant", "error": {"name": "MessageAbortedError", "data": {"message": "aborted"}}},
        {"role": "assistant", "error": {"name": "APIError", "data": {"message": "overloaded"}}},
    ]
    items, _ = read(database(tmp_path / "opencode.db", messages))
    assert [(each.speaker, each.text, each.images) for each in of(items, Prompt)] == [
        ("human", "look at this", 1),
        ("injected", "Called the Read tool", 0),
        ("injected", "a notice", 0),
        ("slash", "review it", 0),
        ("bang", "ls", 0),
        ("compact-summary", "what was done", 0),
        ("interrupt", "aborted", 0),
    ]
    assert of(items, Reply) == [Reply("overloaded", is_error=True)]
    child, _ = read(database(tmp_path / "child.db", [text("find it")], {"parent_id": "ses_0"}))
    assert [(each.speaker, each.text) for each in of(child, Prompt)] == [("delegated", "find it")]
    assert all(item.is_side for item in child if not isinstance(item.what, Session))


def ended(path: Path, name: str, state: dict[str, Any]) -> Result | None:
    path.unlink(missing_ok=True)
    found = of(read(database(path, [tool(name, state)]))[0], Result)
    return found[0] if found else None


def test_how_calls_end(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    for status in ("pending", "running", "unheard of", None, 7):
        assert ended(path, "bash", {"status": status, "input": {"command": "x"}}) is None
    done: dict[str, Any] = {"status": "completed", "input": {"command": "x"}, "output": "why"}
    assert ended(path, "bash", {**done, "metadata": {"exit": 101}}) == Result("c1", False, 101, output="why")
    assert ended(path, "bash", {**done, "metadata": {"exit": None}}) == Result("c1", None)
    assert ended(path, "bash", {**done, "metadata": {"exit": True}}) == Result("c1", None)
    assert ended(path, "invalid", {**done, "input": {"tool": "nix"}}) == Result("c1", False, output="why")
    for error, denied in (
        ("The user rejected permission to use this specific tool call.", True),
        ("Error: The user has specified a rule which prevents you from using this specific tool call.", True),
        ("DENIED-BY-HOOK: ask the owner first.", True),
        ("oldString not found in content", False),
        ("EACCES: permission denied, open '/etc/shadow'", False),
        ("Tool execution aborted", False),
    ):
        assert ended(path, "edit", {"status": "error", "error": error}) == Result(
            "c1", False, denied=denied, output=error
        )


def test_what_tools_change(tmp_path: Path) -> None:
    patch = "*** Begin Patch\n*** Add File: a.py\n+x\n*** Update File: b.py\n*** Move to: c.py\n@@\n-y\n+z\n"
    patch += "*** Delete File: d.py\n*** End Patch"
    states: list[tuple[str, dict[str, Any]]] = [
        ("write", {"input": {"filePath": "/p/a", "content": "new"}, "metadata": {"exists": True}}),
        ("write", {"input": {"filePath": "/p/b", "content": "new"}, "metadata": {"exists": False}}),
        (
            "multiedit",
            {"input": {"filePath": "/p/c", "edits": [{"oldString": "1", "newString": "2"}, 7, {"oldString": "3"}]}},
        ),
        ("apply_patch", {"input": {"patchText": patch}}),
        ("read", {"input": {"filePath": "/p/d"}}),
        ("shop_remember", {"input": {"text": "it"}}),
        ("mystery", {"input": {"a": "1", "b": "2"}}),
    ]
    messages = [tool(name, {"status": "running", **state}, f"c{number}") for number, (name, state) in enumerate(states)]
    calls = of(read(database(tmp_path / "opencode.db", messages))[0], Call)
    assert [(each.path, each.operation, each.old, each.new) for call in calls[:3] for each in call.edits] == [
        ("/p/a", "update", "", "new"),
        ("/p/b", "create", "", "new"),
        ("/p/c", "update", "1", "2"),
        ("/p/c", "update", "", ""),
        ("/p/c", "update", "3", ""),
    ]
    assert [(each.path, each.operation, each.moved_to) for each in calls[3].edits] == [
        ("a.py", "create", ""),
        ("b.py", "move", "c.py"),
        ("d.py", "delete", ""),
    ]
    assert [(call.sort, call.target) for call in calls[3:]] == [
        ("edit", "a.py b.py d.py"),
        ("read", "/p/d"),
        ("mcp", "it"),
        ("other", ""),
    ]


def test_what_was_reverted_is_kept_and_named(tmp_path: Path) -> None:
    messages = [text("one"), text("done", "assistant"), text("two"), text("done too", "assistant")]
    revert = {"revert": json.dumps({"messageID": "msg_3"})}
    items, _ = read(database(tmp_path / "opencode.db", messages, revert))
    assert of(items, Rewind) == [Rewind(("msg_3", "msg_4:prt_4_1"))]
    assert human(items) == ["one", "two"]


def test_an_id_that_comes_twice_names_two_things(tmp_path: Path) -> None:
    same = [tool("bash", {"status": "completed", "input": {"command": name}}, "c") for name in ("a", "b")]
    items, _ = read(database(tmp_path / "opencode.db", [*same, *same]))
    assert [call.target for call in of(items, Call)] == ["a", "b", "a", "b"]
    assert len({call.call for call in of(items, Call)}) == 4
    assert [call.call for call in of(items, Call)] == [each.call for each in of(items, Result)]
    reserved = [{"id": name, **text(name)} for name in ("rewind", "session")]
    keys = [item.key for item in read(database(tmp_path / "reserved.db", reserved))[0]]
    assert keys == ["session", "rewind#2", "session#2"]
    path = tmp_path / "export.json"
    message = {"info": {"id": "m", "role": "user"}, "parts": [{"id": "p", "type": "text", "text": "x"}]}
    other = {"info": {"id": "m", "role": "user"}, "parts": [{"id": "p", "type": "text", "text": "y"}]}
    path.write_text(json.dumps({"info": {"id": "s"}, "messages": [message, message, other]}))
    assert human(read(path)[0]) == ["x", "y"]


def test_a_row_that_makes_no_sense_costs_itself(tmp_path: Path) -> None:
    path = database(tmp_path / "opencode.db", [text("one"), text("two"), text("three")])
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE message SET data = x'ff00' WHERE id = 'msg_2'")
        db.execute("UPDATE part SET data = CAST(data AS BLOB) WHERE message_id = 'msg_3'")
        db.execute("INSERT INTO message VALUES (NULL, 'ses_1', 'x', NULL, NULL), (7, 'ses_1', 3.5, 1, '[]')")
        db.execute(
            "INSERT INTO part VALUES ('p', 'msg_1', 'ses_1', 1, 1, '{\"type\": \"text\", \"text\": \"\\ud83d\"}')"
        )
        db.execute("INSERT INTO session VALUES (NULL, 1, 2, 3, 4, 5), (9, 1, 2, 3, 4, 5)")
    items, tally = read(path)
    assert human(items) == ["\ud83d\none", "three"]
    assert tally.problems == {"no object": 3, "session without id": 2}
    assert [name for name, _ in opencode.sessions(path)] == ["ses_1"]


@needs_samples
def test_a_database_that_is_no_longer_one_does_not_hide_the_tree(tmp_path: Path) -> None:
    shutil.copytree(HANDMADE / "storage", tmp_path / "storage")
    (tmp_path / "opencode.db").write_bytes(b"nothing of the kind" * 100)
    items, tally = read(tmp_path / "opencode.db")
    assert human(items) == ["run the tests"]
    assert tally.problems == {"damaged database": 1}
    shutil.rmtree(tmp_path / "storage")
    with pytest.raises(BadSource):
        read(tmp_path / "opencode.db")


FIELDS = "id type text role time start end created parts info state tool callID input output metadata exit status error"
FIELDS += " data message edits filePath patchText summary synthetic tokens cache path cwd model revert"
NAMES = st.sampled_from(FIELDS.split())
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8)
KNOWN = st.sampled_from(
    ["user", "assistant", "text", "tool", "file", "subtask", "reasoning", "completed", "error", "edit", "bash"]
)
VALUES = st.recursive(
    SCALARS | KNOWN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5)
)


def replaced(value: Any, data: st.DataObject) -> Any:
    """Return a value of which something, somewhere, is anything else."""
    inner = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    if not inner or data.draw(st.integers(0, 5)) == 0:
        return data.draw(VALUES)
    name, chosen = data.draw(st.sampled_from(inner))
    changed = dict(value) if isinstance(value, dict) else list(value)
    changed[name] = replaced(chosen, data)
    return changed


EDITED = {"filePath": "f", "edits": [{"oldString": "a", "newString": "b"}]}
DONE = {"status": "completed", "input": EDITED, "output": "o", "metadata": {"exit": 1}, "time": {"start": 1, "end": 2}}
FAILED = {"status": "error", "input": {"patchText": "*** Begin Patch\n*** Add File: a\n+b"}, "error": "e"}
ASKED = {"id": "m1", "role": "user", "time": {"created": 1}}
ANSWERED = {
    "id": "m2",
    "role": "assistant",
    "parentID": "m1",
    "tokens": {"input": 1, "cache": {"read": 2}},
    "error": {"name": "E", "data": {"message": "x"}},
}
PARTS = [
    {"id": "p2", "type": "reasoning", "text": "b", "time": {"start": 2}},
    {"id": "p3", "type": "tool", "tool": "multiedit", "callID": "c", "state": DONE},
    {"id": "p4", "type": "tool", "tool": "apply_patch", "callID": "c", "state": FAILED},
]
WHOLE = {
    "info": {
        "id": "s",
        "directory": "/p",
        "model": {"providerID": "p", "id": "m"},
        "revert": {"messageID": "m2", "partID": "p3"},
    },
    "messages": [
        {"info": ASKED, "parts": [{"id": "p1", "type": "text", "text": "a"}]},
        {"info": ANSWERED, "parts": PARTS},
    ],
}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_value_in_any_field_of_an_export_is_no_error(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "export.json"
    changed = replaced(WHOLE, data)
    changed = replaced(changed, data)
    path.write_text(json.dumps(changed))
    is_export = isinstance(changed, dict) and isinstance(changed.get("messages"), list)
    try:
        items, _ = read(path)
    except BadSource:
        assert not is_export
        return
    assert is_export
    json.dumps([item.what.to_json() for item in items])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_value_in_any_column_is_no_error(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "opencode.db"
    path.unlink(missing_ok=True)
    database(path, [text("a"), tool("bash", {"status": "completed"}), text("b")])
    cells = st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.binary(max_size=9)
    cells = cells | st.text(st.characters(codec="utf-8"), max_size=9) | VALUES.map(json.dumps)
    with closing(sqlite3.connect(path)) as db, db:
        for _ in range(data.draw(st.integers(1, 4))):
            table = data.draw(st.sampled_from(["session", "message", "part"]))
            names = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            name, row = data.draw(st.sampled_from(names)), data.draw(st.integers(1, 3))
            db.execute(f"UPDATE {table} SET {name} = ? WHERE rowid = ?", (data.draw(cells), row))
    read(path)
    assert dict(opencode.sessions(path)).keys() >= {item.session for item in read(path)[0]}


WRITER = """
import json, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA journal_mode = wal")
for number in range(1, 1 << 30):
    db.execute("BEGIN")
    for each in ("a", "b"):
        name = f"live_{number:09}_{each}"
        data = json.dumps({"role": "user", "time": {"created": number + 1000}})
        db.execute("INSERT INTO message VALUES (?, 'ses_1', ?, ?, ?)", (name, number + 1000, number, data))
        part = json.dumps({"type": "text", "text": str(number)})
        db.execute("INSERT INTO part VALUES (?, ?, 'ses_1', ?, ?, ?)", (f"prt_{name}", name, number, number, part))
    db.execute("COMMIT")
    if number == 20:
        print("ready", flush=True)
"""


def test_a_database_that_opencode_is_writing_gives_whole_messages_only(tmp_path: Path) -> None:
    path = database(tmp_path / "opencode.db", [text("first")])
    seen: list[Item] = []
    with subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE) as writer:
        try:
            assert writer.stdout
            assert writer.stdout.readline() == b"ready\n"
            for _ in range(3):
                items, tally = read(path)
                prompts = human(items)[1:]
                assert prompts[::2] == prompts[1::2] == [str(number) for number in range(1, len(prompts) // 2 + 1)]
                assert items[: len(seen)] == seen
                assert not tally.problems
                seen = items
        finally:
            writer.kill()
    assert len(human(read(path)[0])) >= len(human(seen))
