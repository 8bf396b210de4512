"""Cursor's transcripts and databases: what is published and made by hand gives what is known of it, traps included."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bede.errors import BadSource, BedeError
from bede.sources import cursor
from bede.sources.port import Call, Edit, Item, Prompt, Reply, Result, Session, Tally, Thought, Usage, World

SAMPLES = Path(__file__).resolve().parents[4] / "shared" / "transcripts"
REAL = "cursor/git-ai-project__git-ai/tests/fixtures/cursor-session-simple.jsonl"
DATABASE = "cursor/slevin48__cursor-history/state.vscdb"
HAND = "cursor/projects/c-code-my-app/agent-transcripts"
LINES = f"{HAND}/88888888-8888-4888-8888-888888888888/88888888-8888-4888-8888-888888888888.jsonl"
CHILD = f"{HAND}/88888888-8888-4888-8888-888888888888/subagents/99999999-9999-4999-8999-999999999999.jsonl"
TEXT = f"{HAND}/aaaa0000-0000-4000-8000-000000000001.txt"


def sample(name: str) -> Path:
    path = SAMPLES / name
    if not path.exists():
        path = SAMPLES / "synthetic" / name
    if not path.exists():
        pytest.skip("the published transcripts are not beside this checkout")
    return path


def read(path: Path) -> tuple[list[Item], Tally]:
    tally = Tally()
    return list(cursor.load(path, tally)), tally


def of(items: list[Item], kind: type) -> list[Any]:
    return [
        item.what for item in {(item.session, item.key): item for item in items}.values() if isinstance(item.what, kind)
    ]


def human(items: list[Item]) -> list[str]:
    return [prompt.text for prompt in of(items, Prompt) if prompt.speaker == "human"]


def said(role: str, *blocks: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
    return {"role": role, "message": {"content": content}}


def written(path: Path, *records: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(record) for record in records))
    return path


def database(path: Path, pairs: dict[str, Any], items: dict[str, Any] | None = None, *, as_bytes: bool = False) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for table, rows in (("ItemTable", items or {}), ("cursorDiskKV", pairs)):
            db.execute(f"CREATE TABLE {table} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
            for key, value in rows.items():
                stored = value if value is None or isinstance(value, (str, bytes)) else json.dumps(value)
                stored = stored.encode() if as_bytes and isinstance(stored, str) else stored
                db.execute(f"INSERT INTO {table} VALUES (?, ?)", (key, stored))
    return path


def conversation(identity: str, *bubbles: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The values that a conversation has in a database for all."""
    headers = [{"bubbleId": bubble["bubbleId"], "type": bubble["type"]} for bubble in bubbles]
    pairs: dict[str, Any] = {
        f"composerData:{identity}": {"composerId": identity, "fullConversationHeadersOnly": headers, **more}
    }
    return pairs | {f"bubbleId:{identity}:{bubble['bubbleId']}": bubble for bubble in bubbles}


# -- what is published, and what was made by hand


def test_lines_give_what_is_known_of_them() -> None:
    """Every number of `expected.json` that follows from items."""
    path = sample(REAL)
    known = json.loads((SAMPLES / "expected.json").read_text())[REAL]
    items, tally = read(path)
    assert {role: tally.types[role] for role in known["roles"]} == known["roles"]
    assert {kind: tally.types[kind] for kind in known["block_types"]} == known["block_types"]
    assert sum(tally.problems.values()) == known["bad_lines"]
    assert human(items) == [known["first_prompt"]]
    assert len(of(items, Prompt)) == known["user_prompts"]
    assert len(of(items, Reply)) == known["assistant_text_blocks"]
    calls = of(items, Call)
    assert len(calls) == known["tool_calls"]
    assert dict(Counter(call.tool for call in calls)) == known["tool_calls_by_name"]
    assert len(of(items, Result)) == known["tool_results"]
    assert dict(Counter(call.tool for call in calls if call.edits)) == known["file_edit_calls"]
    assert len({edit.path for call in calls for edit in call.edits}) == known["distinct_files_targeted"]
    assert [item.at for item in items if item.at is not None] == []
    assert {item.session for item in items} == set(known["session_ids"])
    assert [(call.sort, call.target) for call in calls][1:3] == [
        ("web", "HBO original series 1990s list complete"),
        ("web", "https://en.wikipedia.org/wiki/List_of_programs_broadcast_by_HBO"),
    ]


def test_trap_of_lines() -> None:
    """No ids, no results, a time in the prompt alone, no final line feed."""
    path = sample(LINES)
    items, tally = read(path)
    assert not tally.problems
    assert {item.session for item in items} == {"88888888-8888-4888-8888-888888888888"}
    assert human(items) == ["add footer"]
    (prompt,) = (item for item in items if isinstance(item.what, Prompt))
    assert prompt.at == int(datetime(2026, 7, 1, 6, 0, tzinfo=UTC).timestamp()) * 1_000_000
    assert prompt.precision == "min"
    assert all(item.at is None and item.precision == "" for item in items if item is not prompt)
    assert len(of(items, Reply)) == 2
    edit, task = of(items, Call)
    assert edit.edits == (Edit("c:\\code\\my-app\\i.html", "update", "</body>", "<footer/></body>"),)
    assert (task.tool, task.sort, task.target) == ("Subagent", "task", "check css")
    assert not of(items, Result)


def test_trap_of_a_subagent() -> None:
    items, _ = read(sample(CHILD))
    assert [(prompt.text, prompt.speaker) for prompt in of(items, Prompt)] == [("check css", "delegated")]
    (session,) = of(items, Session)
    assert (session.parent, session.origin) == ("88888888-8888-4888-8888-888888888888", "subagent")
    assert all(item.is_side for item in items if not isinstance(item.what, Session))


def test_trap_of_text() -> None:
    """A `user:` that is indented begins nothing."""
    items, _ = read(sample(TEXT))
    assert human(items) == ["fix typo"]
    assert [reply.text for reply in of(items, Reply)] == [
        "I will fix it.",
        "Fixed. Note the literal text\n  user:\nabove is indented.",
    ]
    assert of(items, Thought) == [Thought("small")]
    (call,) = of(items, Call)
    assert call.edits == (Edit("/home/alice/app/r.md", "update", "teh", "the"),)
    assert of(items, Result) == [Result(call.call)]


def test_a_real_database_gives_what_it_holds() -> None:
    """Counted in its JSON by hand: 26 conversations and 5 chats, with all that was said in them."""
    path = sample(DATABASE)
    items, tally = read(path)
    with closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as db:
        held = {key: json.loads(value) for key, value in db.execute("SELECT key, value FROM ItemTable")}
    composers = held["composer.composerData"]["allComposers"]
    tabs = held["workbench.panel.aichat.view.aichat.chatdata"]["tabs"]
    bubbles = [bubble for composer in composers for bubble in composer["conversation"]]
    lines = [bubble for tab in tabs for bubble in tab["bubbles"] if bubble["text"].strip()]
    typed = [each["text"] for each in bubbles if each["type"] == 1] + [
        each["text"] for each in lines if each["type"] == "user"
    ]
    replied = [each["text"] for each in bubbles if each["type"] == 2] + [
        each["text"] for each in lines if each["type"] == "ai"
    ]
    assert not tally.problems
    assert sorted(human(items)) == sorted(typed)
    assert sorted(reply.text for reply in of(items, Reply)) == sorted(replied)
    assert (len(typed), len(replied), len({item.session for item in items})) == (63, 63, 31)
    assert Counter(reply.model for reply in of(items, Reply)) == {"": 41, "claude-3.5-sonnet": 22}
    assert {session.title for session in of(items, Session)} >= {tab["chatTitle"] for tab in tabs}
    proposed = {edit.path for call in of(items, Call) for edit in call.edits}
    assert "c:\\Users\\heidi\\Documents\\mobilechat\\src\\app\\app.routes.ts" in proposed
    answers = Counter((result.ok, result.denied) for result in of(items, Result))
    assert set(answers) == {(True, False), (False, True)}
    assert len({(item.session, item.key) for item in items}) == len(items)


# -- transcripts


def test_what_cursor_lays_around_a_prompt_is_not_typed(tmp_path: Path) -> None:
    laid = "<user_info>\nOS: linux\nWorkspace Path: /home/u/my app\n</user_info>"
    files = "<attached_files>\n<user_query>in a file</user_query>\n</attached_files>"
    path = written(
        tmp_path / "a.jsonl",
        said(
            "user", laid, "<rules>be brief</rules>", f"{files}\n<user_query>\n fix <rules>this</rules>\n</user_query>"
        ),
        said("user", "<system_reminder>plan mode</system_reminder>"),
        said("user", "plain words <b>here</b>\n\n<system_reminder>x</system_reminder>"),
        said("user", "<user_query>one</user_query>\n<user_query>two</user_query>"),
        said("user", "<user_query>never closed"),
        said("user", "<user_query>says </user_query> itself</user_query>"),
        said("user", "<user_query>/review now</user_query>"),
        {"role": "user", "message": {"content": "just a string"}},
    )
    items, _ = read(path)
    told = [(prompt.speaker, prompt.text) for prompt in of(items, Prompt)]
    assert told == [
        ("human", " fix <rules>this</rules>"),
        ("injected", "<system_reminder>plan mode</system_reminder>"),
        ("human", "plain words <b>here</b>"),
        ("human", "one\n\ntwo"),
        ("human", "never closed"),
        ("human", "says </user_query> itself"),
        ("slash", "/review now"),
        ("human", "just a string"),
    ]
    assert of(items, Session)[-1].cwd == "/home/u/my app"


@pytest.mark.parametrize(
    ("stamp", "at"),
    [
        ("Wednesday, Jul 1, 2026, 12:05 AM (UTC+5:30)", datetime(2026, 6, 30, 18, 35, tzinfo=UTC)),
        ("Thursday, December 31, 2026, 11:59 PM (UTC-8)", datetime(2027, 1, 1, 7, 59, tzinfo=UTC)),
        ("Friday, Jan 2, 2026, 12:00 PM (UTC)", datetime(2026, 1, 2, 12, 0, tzinfo=UTC)),
        ("Friday, Jan 42, 2026, 12:00 PM (UTC)", None),
        ("Freitag, 2. Januar 2026", None),
    ],
)
def test_the_time_of_a_prompt(tmp_path: Path, stamp: str, at: datetime | None) -> None:
    path = written(tmp_path / "a.jsonl", said("user", f"<timestamp>{stamp}</timestamp>\n<user_query>x</user_query>"))
    (prompt,) = (item for item in read(path)[0] if isinstance(item.what, Prompt))
    assert prompt.at == (int(at.timestamp()) * 1_000_000 if at else None)
    assert prompt.precision == ("min" if at else "")


def test_edits_of_every_age(tmp_path: Path) -> None:
    def call(name: str, **arguments: Any) -> dict[str, Any]:
        return {"type": "tool_use", "name": name, "input": arguments}

    patch = "*** Begin Patch\n*** Update File: e.py\n@@\n-a\n+b\n*** End Patch"
    calls = [
        (call("edit_file", target_file="a.py", code_edit="x"), [Edit("a.py", new="x")]),
        (call("search_replace", file_path="b.py", old_string="o", new_string="n"), [Edit("b.py", old="o", new="n")]),
        (call("write", file_path="c.py", contents="c"), [Edit("c.py", "create", new="c")]),
        (
            call("MultiEdit", file_path="d.py", edits=[{"old_string": "1", "new_string": "2"}, {"old_string": "3"}]),
            [Edit("d.py", old="1", new="2"), Edit("d.py", old="3")],
        ),
        ({"type": "tool_use", "name": "ApplyPatch", "input": patch}, [Edit("e.py", patch="@@\n-a\n+b")]),
        (
            call("EditNotebook", target_notebook="f.ipynb", old_string="o", new_string="n"),
            [Edit("f.ipynb", old="o", new="n")],
        ),
        (call("Delete", path="g.py"), [Edit("g.py", "delete")]),
        (call("Shell", command="ls"), []),
        (call("Unheard", only="this"), []),
        (call("Unheard", one="this", two="that"), []),
    ]
    items, _ = read(written(tmp_path / "a.jsonl", said("assistant", *(call for call, _ in calls))))
    told = of(items, Call)
    assert [list(each.edits) for each in told] == [edits for _, edits in calls]
    assert [each.target for each in told[-3:]] == ["ls", "this", ""]
    assert [each.target for each in told[:7]] == [
        f"{letter}.{'ipynb' if letter == 'f' else 'py'}" for letter in "abcdefg"
    ]


def test_equal_records_are_two_things(tmp_path: Path) -> None:
    again = said("assistant", "same", {"type": "tool_use", "name": "Read", "id": "x", "input": {"path": "p"}})
    items, _ = read(written(tmp_path / "a.jsonl", again, again))
    assert len(of(items, Reply)) == 2
    assert len({call.call for call in of(items, Call)}) == 2


def test_an_array_of_json(tmp_path: Path) -> None:
    records = [
        {"role": "user", "text": "<user_query>\nhi\n</user_query>"},
        {
            "role": "assistant",
            "text": "ok",
            "thinking": "hm",
            "toolCalls": [{"toolName": "read_file", "args": {"target_file": "a"}}],
        },
        {"role": "tool", "toolResult": {"toolName": "read_file"}},
        {"role": "tool", "toolResult": {"toolName": "read_file"}},
    ]
    path = tmp_path / "agent-transcripts" / "a.json"
    written(path, records)
    items, tally = read(path)
    assert cursor.accepts(path, path.read_bytes())
    assert tally.types["tool"] == 2
    assert human(items) == ["hi"]
    assert of(items, Thought) == [Thought("hm")]
    (call,) = of(items, Call)
    assert (call.target, of(items, Result)) == ("a", [Result(call.call)])


def test_values_over_lines_in_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(
        "user:\nhi\n\nassistant:\n[Tool call] Write\n  path: a.md\n"
        "  contents: one\n\ntwo\n  not: a name at two spaces?\n\n"
        "[Tool result] Write\nsecret content of a file\n\nassistant:\nfine\n"
    )
    items, _ = read(path)
    (call,) = of(items, Call)
    assert call.edits[0].new.startswith("one\n\ntwo")
    assert [reply.text for reply in of(items, Reply)] == ["fine"]
    assert "secret content" not in repr(items)


def test_a_stopped_turn(tmp_path: Path) -> None:
    items, tally = read(written(tmp_path / "a.jsonl", {"type": "turn_ended", "status": "aborted"}, {"type": "new"}))
    assert [prompt.speaker for prompt in of(items, Prompt)] == ["interrupt"]
    assert tally.types == {"turn_ended": 1, "new": 1}


@pytest.mark.parametrize(
    ("known", "cwd"),
    [
        (["file:///home/u/my.app"], "/home/u/my.app"),
        (["file:///home/u/my.app", "file:///home/u/my-app"], ""),
        (["file:///home/u/other"], ""),
        ([], ""),
    ],
)
def test_a_folder_is_told_only_where_just_one_has_its_name(tmp_path: Path, known: list[str], cwd: str) -> None:
    for number, uri in enumerate(known):
        written(tmp_path / ".config/Cursor/User/workspaceStorage" / str(number) / "workspace.json", {"folder": uri})
    path = tmp_path / ".cursor/projects/home-u-my-app/agent-transcripts/a/a.jsonl"
    (session,) = of(read(written(path, said("user", "hi")))[0], Session)
    assert session.cwd == cwd


@pytest.mark.parametrize(
    ("path", "slug"),
    [
        ("/home/u/my.app_x", "home-u-my-app-x"),
        ("C:\\Users\\a b\\c", "c-Users-a-b-c"),
        ("c:/code/my app", "c-code-my-app"),
    ],
)
def test_names_of_projects(path: str, slug: str) -> None:
    assert cursor.slug(path) == slug


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    for name, content in [("a.json", "{}"), ("b.json", "[1"), ("c.jsonl", "no\nlines\n"), ("d.vscdb", "no database")]:
        (tmp_path / name).write_text(content)
        with pytest.raises(BadSource):
            read(tmp_path / name)
    for missing in ("e.jsonl", "f.txt", "g.vscdb"):
        with pytest.raises(BedeError):
            read(tmp_path / missing)
    with pytest.raises(BadSource):
        with closing(sqlite3.connect(tmp_path / "other.vscdb")) as db:
            db.execute("CREATE TABLE t(x)")
        read(tmp_path / "other.vscdb")
    for empty in ("h.jsonl", "i.txt"):
        (tmp_path / empty).write_bytes(b"")
        assert [item for item in read(tmp_path / empty)[0] if not isinstance(item.what, Session)] == []


# -- databases


@pytest.mark.parametrize("as_bytes", [False, True])
def test_a_conversation_in_bubbles(tmp_path: Path, as_bytes: bool) -> None:
    shell = {
        "name": "run_terminal_command_v2",
        "toolCallId": "t1",
        "status": "completed",
        "params": json.dumps({"command": "make"}),
        "result": json.dumps({"output": "boom", "exitCode": 2}),
    }
    edit = {
        "name": "search_replace",
        "toolCallId": "t1",
        "status": "completed",
        "rawArgs": json.dumps({"file_path": "/w/a.py", "old_string": "o", "new_string": "n"}),
        "result": "{}",
    }
    refused = {**shell, "toolCallId": "t2", "userDecision": "rejected", "status": "cancelled", "result": "not run"}
    pairs = conversation(
        "c1",
        {"bubbleId": "b1", "type": 1, "text": "do it", "createdAt": "2026-07-01T06:00:00.123Z", "images": [{}]},
        {"bubbleId": "b2", "type": 2, "text": "", "thinking": {"text": "hm"}, "createdAt": None},
        {"bubbleId": "b3", "type": 2, "text": "Done.", "modelInfo": {"modelName": "m-1"},
         "tokenCount": {"inputTokens": 5, "outputTokens": 2}},
        {"bubbleId": "b4", "type": 2, "text": "", "toolFormerData": shell},
        {"bubbleId": "b5", "type": 2, "text": "", "toolFormerData": edit},
        {"bubbleId": "b6", "type": 2, "text": "", "toolFormerData": refused},
        {"bubbleId": "b7", "type": 2, "text": "", "toolFormerData": {**shell, "toolCallId": "t3", "status": "loading"}},
        name="A title", createdAt=1782885600000, createdOnBranch="dev",
        workspaceIdentifier={"uri": {"scheme": "file", "path": "/w"}},
    )  # fmt: skip
    pairs["bubbleId:c1:b2"] = pairs.pop("bubbleId:c1:b2")
    pairs["checkpointId:c1:x"], pairs["agentKv:blob"] = "{}", b"\xff\x00"
    items, tally = read(database(tmp_path / "state.vscdb", pairs, as_bytes=as_bytes))
    assert not tally.problems
    assert of(items, Session) == [Session("cursor", model="m-1", cwd="/w", branch="dev", title="A title")]
    assert of(items, Prompt) == [Prompt("do it", "human", 1)]
    assert of(items, Reply) == [Reply("Done.", "m-1")]
    assert of(items, Thought) == [Thought("hm")]
    assert of(items, Usage) == [Usage("m-1", 5, 2)]
    calls = of(items, Call)
    assert [(call.call, call.target) for call in calls] == [
        ("t1", "make"),
        ("t1~b5", "/w/a.py"),
        ("t2", "make"),
        ("t3", "make"),
    ]
    assert calls[1].edits == (Edit("/w/a.py", old="o", new="n"),)
    assert of(items, Result) == [
        Result("t1", False, 2, output="boom"),
        Result("t1~b5", True),
        Result("t2", False, None, True, "not run"),
    ]
    times = {item.key: (item.at, item.precision) for item in items}
    assert times["b1"] == (1782885600123000, "ms")
    assert times["b3"] == (None, "")


def test_null_and_empty_and_missing_values(tmp_path: Path) -> None:
    pairs = conversation("c1", {"bubbleId": "b1", "type": 1, "text": "a"}, {"bubbleId": "b2", "type": 2, "text": "b"},
                         {"bubbleId": "b3", "type": 2, "text": "c"},
                         {"bubbleId": "b4", "type": 2, "text": "d"})  # fmt: skip
    pairs |= {
        "bubbleId:c1:b2": None,
        "bubbleId:c1:b3": "",
        "composerData:c2": None,
        "composerData:c3": "{",
        "composerData:c4": "[]",
    }
    del pairs["bubbleId:c1:b4"]
    items, tally = read(database(tmp_path / "state.vscdb", pairs))
    assert human(items) == ["a"]
    assert tally.problems == {"missing bubble": 3, "empty conversation": 3}


@pytest.mark.parametrize("key", ["composer.composerData", "workbench.panel.aichat.view.aichat.chatdata"])
@pytest.mark.parametrize("value", [None, "not json", b"\xff", "[]", ""])
def test_conversations_in_a_value_that_is_no_object_are_counted(tmp_path: Path, key: str, value: Any) -> None:
    pairs = conversation("c1", {"bubbleId": "b1", "type": 1, "text": "a"})
    items, tally = read(database(tmp_path / "state.vscdb", pairs, {key: value}))
    assert human(items) == ["a"]
    assert tally.problems == {"no object": 1}


@pytest.mark.parametrize(
    ("key", "value", "count"),
    [
        ("composer.composerData", {"allComposers": None}, 1),
        ("composer.composerData", {"allComposers": [None, {}, 7]}, 2),
        ("composer.composerData", {"selectedComposerIds": []}, 0),
        ("workbench.panel.aichat.view.aichat.chatdata", {"tabs": 7}, 1),
        ("workbench.panel.aichat.view.aichat.chatdata", {"tabs": [[], {}]}, 1),
        ("workbench.panel.aichat.view.aichat.chatdata", {"tabs": []}, 0),
    ],
)
def test_a_conversation_that_is_no_object_is_counted(tmp_path: Path, key: str, value: Any, count: int) -> None:
    pairs = conversation("c1", {"bubbleId": "b1", "type": 1, "text": "a"})
    items, tally = read(database(tmp_path / "state.vscdb", pairs, {key: value}))
    assert human(items) == ["a"]
    assert tally.problems == ({"no object": count} if count else {})


def test_a_bubble_that_is_none_costs_itself(tmp_path: Path) -> None:
    odd = [None, 7, {"type": None, "text": "x"}]
    chat = {"tabId": "t", "bubbles": [{"type": "user", "text": "a"}, *odd, {"type": "ai", "text": "b"}]}
    held = {"composerId": "c", "conversation": [{"type": 1, "text": "c"}, *odd, {"type": 2, "text": "d"}]}
    values = {
        "workbench.panel.aichat.view.aichat.chatdata": {"tabs": [chat]},
        "composer.composerData": {"allComposers": [held]},
    }
    items, tally = read(database(tmp_path / "state.vscdb", {}, values))
    assert sorted(human(items)) == ["a", "c"]
    assert sorted(reply.text for reply in of(items, Reply)) == ["b", "d"]
    assert tally.problems == {"no bubble": 6}


@pytest.mark.parametrize(
    "line",
    [
        *("null", "7", "{}", '{"type": null}', '{"role": true, "message": {"content": "x"}}', '{"role": "user"}'),
        *('{"role": "user", "message": {"type": null}}', '{"role": "assistant", "message": {"content": 7}}'),
    ],
)
def test_a_line_that_makes_no_sense_is_counted(tmp_path: Path, line: str) -> None:
    whole = said("user", {"type": "text", "text": "a"}), said("assistant", {"type": "text", "text": "b"})
    path = written(tmp_path / "c.jsonl", *whole, said("assistant"))
    path.write_text(f"{path.read_text()}\n{line}\n")
    items, tally = read(path)
    assert (human(items), [reply.text for reply in of(items, Reply)]) == (["a"], ["b"])
    assert tally.problems == {"no record": 1}


def test_a_block_that_is_none_is_counted(tmp_path: Path) -> None:
    blocks = {"type": "text", "text": "a"}, 7, None, {"text": "x"}, {"type": "new"}
    items, tally = read(written(tmp_path / "c.jsonl", said("user", *blocks)))
    assert human(items) == ["a"]
    assert tally.problems == {"no block": 3}


def test_a_subconversation_is_said_between_agents(tmp_path: Path) -> None:
    pairs = conversation("p", {"bubbleId": "b1", "type": 1, "text": "go"}, subComposerIds=["k", "p"])
    pairs |= conversation("k", {"bubbleId": "b2", "type": 1, "text": "look"})
    items, _ = read(database(tmp_path / "state.vscdb", pairs))
    told = {item.session: item.what for item in items if isinstance(item.what, Session)}
    assert (told["k"].parent, told["k"].origin, told["p"].parent) == ("p", "subagent", "")
    assert [
        (item.what.speaker, item.is_side) for item in items if item.key == "b2" and isinstance(item.what, Prompt)
    ] == [("delegated", True)]


def test_a_conversation_is_told_once(tmp_path: Path) -> None:
    """In two databases and in three kinds of transcripts: by the database for all, else by the best transcript."""
    user, projects = tmp_path / ".config/Cursor/User", tmp_path / ".cursor/projects/home-u-app/agent-transcripts"
    bubble = {"bubbleId": "b1", "type": 1, "text": "new"}
    common = database(user / "globalStorage/state.vscdb", conversation("c1", bubble))
    own = {"composerId": "c1", "conversation": [{**bubble, "text": "old"}]}
    other = {"composerId": "c2", "conversation": [{"bubbleId": "b2", "type": 1, "text": "only here"}]}
    held = {"composer.composerData": {"allComposers": [own, other, {"composerId": "c3"}]}}
    local = database(user / "workspaceStorage/h/state.vscdb", {}, held)
    written(user / "workspaceStorage/h/workspace.json", {"folder": "file:///home/u/app"})
    for name in (
        "c1.txt",
        "c1/c1.jsonl",
        "c2.json",
        "c4.txt",
        "c4.json",
        "c4/c4.jsonl",
        "c5.txt",
        "c5.jsonl",
        "c6.json",
        "c6.txt",
    ):
        written(projects / name, said("user", name))
    written(projects / "c4/subagents/k1.jsonl", said("user", "child"))
    (projects / "loop").symlink_to(projects, target_is_directory=True)
    found = list(cursor.find(World({}, tmp_path, "linux")))
    names = [path.relative_to(projects).as_posix() for path in found[2:]]
    assert found[:2] == [common, local]
    assert sorted(names) == ["c4/c4.jsonl", "c4/subagents/k1.jsonl", "c5.jsonl", "c6.json"]
    items = [item for path in (common, local) for item in read(path)[0]]
    assert human(items) == ["new", "only here"]
    assert {item.session: item.what.cwd for item in items if isinstance(item.what, Session)} == {
        "c1": "/home/u/app",
        "c2": "/home/u/app",
    }


@pytest.mark.parametrize(
    ("system", "environment", "user"),
    [
        ("linux", {}, ".config/Cursor/User"),
        ("linux", {"XDG_CONFIG_HOME": "~/cfg"}, "cfg/Cursor/User"),
        ("darwin", {}, "Library/Application Support/Cursor/User"),
        ("win32", {}, "AppData/Roaming/Cursor/User"),
        ("win32", {"APPDATA": "~/R"}, "R/Cursor/User"),
    ],
)
def test_databases_are_found(tmp_path: Path, system: str, environment: dict[str, str], user: str) -> None:
    path = database(tmp_path / user / "globalStorage" / "state.vscdb", {})
    (tmp_path / user / "workspaceStorage" / "gone").mkdir(parents=True)
    assert list(cursor.find(World(environment, tmp_path, system))) == [path]


def test_a_database_that_cannot_be_read_hides_no_transcript(tmp_path: Path) -> None:
    broken = tmp_path / ".config/Cursor/User/globalStorage/state.vscdb"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"SQLite format 3\x00" + b"\xff" * 5000)
    path = written(tmp_path / ".cursor/projects/p/agent-transcripts/a.jsonl", said("user", "x"))
    assert list(cursor.find(World({}, tmp_path, "linux"))) == [broken, path]


def test_a_change_changes_the_stamp(tmp_path: Path) -> None:
    path = database(tmp_path / "state.vscdb", {})
    before = cursor.stamp(path)
    path.with_name("state.vscdb-wal").write_bytes(b"x")
    assert cursor.stamp(path) != before
    assert cursor.stamp(path) == cursor.stamp(path)
    assert cursor.stamp(tmp_path / "nothing.jsonl") == cursor.stamp(tmp_path / "nothing.jsonl")


def test_own_files_are_known_and_others_are_not() -> None:
    for name in (REAL, DATABASE, LINES, CHILD, TEXT):
        assert cursor.accepts(sample(name), sample(name).read_bytes()[:65536]), name
    others = [path for agent in ("claude", "codex", "copilot", "gemini", "pi", "omp", "antigravity", "opencode")
              for path in (SAMPLES / agent).rglob("*") if path.is_file()]  # fmt: skip
    assert others
    for path in others:
        with path.open("rb") as file:
            assert not cursor.accepts(path, file.read(65536)), path


# -- anything at all

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=20) | st.just("\ud83d"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FULL: list[Any] = [
    said("user", "<timestamp>Wednesday, Jul 1, 2026, 3:00 PM (UTC+9)</timestamp>\n<user_query>\nhi\n</user_query>"),
    said("assistant", "ok",
         {"type": "tool_use", "id": "i", "name": "MultiEdit",
          "input": {"file_path": "a", "edits": [{"old_string": "b"}]}},
         {"type": "tool_result", "tool_use_id": "i", "is_error": True, "content": "no"},
         {"type": "thinking", "thinking": "t"}),
    {"role": "assistant", "text": "a", "thinking": "b", "toolCalls": [{"toolName": "Read", "args": {"path": "p"}}]},
    {"role": "tool", "toolResult": {"toolName": "Read"}},
    {"type": "turn_ended", "status": "aborted"},
]  # fmt: skip
TOOL = {
    "name": "edit_file",
    "toolCallId": "t",
    "status": "error",
    "params": "{}",
    "rawArgs": '{"target_file": "a"}',
    "result": "{}",
}
BUBBLE = {
    "bubbleId": "b1", "type": 2, "text": "x", "thinking": {"text": "y"}, "toolFormerData": TOOL,
    "createdAt": "2026-07-01T06:00:00Z",
    "tokenCount": {"inputTokens": 1}, "modelInfo": {"modelName": "m"}, "workspaceUris": ["file:///w"],
    "codeBlocks": [{"uri": {"path": "/a", "external": "file:///a", "scheme": "file"}, "version": 0}],
}  # fmt: skip
OLD = {
    "composer.composerData": {
        "allComposers": [{"composerId": "o", "conversation": [{"type": 1, "bubbleId": "q", "text": "z"}]}]},
    "workbench.panel.aichat.view.aichat.chatdata": {
        "tabs": [{"tabId": "w", "bubbles": [{"type": "user", "id": "u", "text": "v"}]}]},
}  # fmt: skip


def spots(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(spot for key, each in inner for spot in spots(each, (*path, key)))]


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A JSON value with another value in one place."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(copy[path[0]], path[1:], new)
    return copy


def check(items: list[Item]) -> None:
    kinds: dict[tuple[str, str], set[type]] = {}
    for item in items:
        kinds.setdefault((item.session, item.key), set()).add(type(item.what))
        assert item.at is None or (isinstance(item.at, int) and item.precision)
    assert all(len(types) == 1 for types in kinds.values())


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_value_in_any_place_raises_nothing(tmp_path: Path, name: str, data: st.DataObject) -> None:
    records = FULL
    for _ in range(3):
        if found := spots(records):
            records = changed(records, data.draw(st.sampled_from(found)), data.draw(VALUES))
    listed = records if isinstance(records, list) else [records]
    path = written(tmp_path / name, *([listed] if name == "a.json" else listed))
    check(read(path)[0])


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_value_in_a_database_raises_nothing(tmp_path: Path, data: st.DataObject) -> None:
    pairs = conversation(
        "c", BUBBLE, codeBlockData={"file:///a": [{"version": 0, "status": "accepted"}]}, subComposerIds=["k"]
    )
    held: Any = {"pairs": pairs, "items": OLD}
    for _ in range(3):
        found = [spot for spot in spots(held) if len(spot) > 1]
        held = changed(held, data.draw(st.sampled_from(found)), data.draw(VALUES))
    path = tmp_path / "state.vscdb"
    path.unlink(missing_ok=True)
    check(read(database(path, *({key: json.dumps(value) for key, value in held[name].items()} for name in held)))[0])


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from(
            [
                "user:",
                "assistant:",
                "[Thinking] a",
                "[Tool call] Write",
                "  path: x",
                "[Tool result] Write",
                "",
                "b",
                "\r",
            ]
        )
    )
)
def test_any_text_raises_nothing(tmp_path: Path, lines: list[str]) -> None:
    path = tmp_path / "a.txt"
    path.write_text("\n".join(lines), newline="")
    check(read(path)[0])


def test_keys_do_not_depend_on_how_much_was_there(tmp_path: Path) -> None:
    """What was told of a part of the lines is told of the whole, under the same keys."""
    content = sample(REAL).read_bytes()
    path = tmp_path / sample(REAL).name
    shutil.copyfile(sample(REAL), path)
    told = {(item.key, item.what) for item in read(path)[0]}
    chance = random.Random(7)
    for _ in range(20):
        path.write_bytes(content[: chance.randrange(len(content))])
        assert {(item.key, item.what) for item in read(path)[0]} <= told


@pytest.mark.parametrize("depth", [500, 980, 50_000])
def test_what_lies_too_deep_costs_itself(tmp_path: Path, depth: int) -> None:
    block = '{"type": "text", "text": "a", "x": ' + "[" * depth + "]" * depth + "}"
    deep = '{"role": "assistant", "message": {"content": [' + block + "]}}"
    path = tmp_path / "a.jsonl"
    path.write_text(deep + "\n" + json.dumps(said("user", "b")) + "\n")
    assert human(read(path)[0]) == ["b"]


@pytest.mark.parametrize(
    "prompt",
    [
        "<user_query>" + "</user_query>" * 80_000,
        "</user_query>" * 40_000 + "<user_query>" * 40_000,
        "<rules>" * 100_000,
        "\n" * 1_000_000,
        "<rules>a</rules>" * 60_000,
        "x" + "<rules>a</rules>" * 60_000,
        "Workspace Path:" + " " * 1_000_000 + "x",
        "<timestamp>" * 90_000,
    ],
)
def test_a_megabyte_of_marks_is_read_in_one_go(tmp_path: Path, prompt: str) -> None:
    """No pattern looks at the same bytes again and again: the test would not end."""
    items, _ = read(written(tmp_path / "a.jsonl", said("user", prompt)))
    assert len(of(items, Prompt)) <= 1
    (tmp_path / "a.txt").write_text(f"user:\n{prompt}\nassistant:\n{prompt}\n[Tool call] a\n{prompt}\n")
    assert len(of(read(tmp_path / "a.txt")[0], Call)) == 1


def test_half_a_character_in_an_id_is_no_key(tmp_path: Path) -> None:
    """SQLite cannot be asked for it; what lies in the value itself is read all the same."""
    user = tmp_path / "Cursor" / "User"
    header = {"composerId": "c1", "fullConversationHeadersOnly": [{"bubbleId": "\ud83d", "type": 1}]}
    common = database(user / "globalStorage/state.vscdb", {"composerData:c1": header})
    inline = {"composerId": "\ud83d", "conversation": [{"bubbleId": "\ud83d", "type": 1, "text": "a\ud83d"}]}
    held = {"composer.composerData": {"allComposers": [inline]}}
    local = database(user / "workspaceStorage/h/state.vscdb", {}, held)
    assert read(common)[1].problems == {"missing bubble": 1}
    assert human(read(local)[0]) == ["a\ud83d"]
