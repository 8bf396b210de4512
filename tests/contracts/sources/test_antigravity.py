"""Antigravity: the samples' counts, three logs read as one, steps that share a number, and hostile logs."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bede.errors import BadSource
from bede.sources import antigravity
from bede.sources.port import Call, Edit, Item, Prompt, Reply, Result, Session, Tally, Thought, World

SAMPLES = Path(__file__).resolve().parents[4] / "shared" / "transcripts"
present = pytest.mark.skipif(not SAMPLES.exists(), reason="the samples of transcripts are not beside this checkout")

CLI = "antigravity/jazzyalex__agent-sessions/Resources/Fixtures/stage0/agents/antigravity/cli_small.jsonl"
ID = "77777777-7777-4777-8777-777777777777"
MADE = f"antigravity/brain/{ID}/.system_generated/logs/"


def read(path: Path, tally: Tally | None = None) -> list[Item]:
    return list(antigravity.load(path, tally or Tally()))


def of(items: list[Item], kind: type) -> list[Any]:
    return [item.what for item in items if isinstance(item.what, kind)]


def said(items: list[Item], speaker: str = "human") -> list[str]:
    return [prompt.text for prompt in of(items, Prompt) if prompt.speaker == speaker]


def step(number: Any, kind: str, second: int = 0, **more: Any) -> dict[str, Any]:
    source = "USER_EXPLICIT" if kind == "USER_INPUT" else "MODEL"
    time = f"2026-07-01T06:{second // 60:02}:{second % 60:02}Z"
    return {"step_index": number, "source": source, "type": kind, "status": "DONE", "created_at": time, **more}


def plan(number: int, second: int, *calls: tuple[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    told = [{"name": name, "args": arguments} for name, arguments in calls]
    return step(number, "PLANNER_RESPONSE", second, tool_calls=told, **more)


def asked(number: int, second: int, text: str) -> dict[str, Any]:
    return step(number, "USER_INPUT", second, content=f"<USER_REQUEST>\n{text}\n</USER_REQUEST>")


def laid(root: Path, name: str = "transcript_full.jsonl", *steps: Any, session: str = "s1") -> Path:
    logs = root / "brain" / session / ".system_generated" / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    path = logs / name
    path.write_bytes(
        b"".join((each if isinstance(each, bytes) else json.dumps(each).encode()) + b"\n" for each in steps)
    )
    return path


def talk(root: Path, *steps: Any) -> list[Item]:
    return read(laid(root, "transcript_full.jsonl", *steps))


# Samples


@present
def test_all_counts_of_the_published_log_are_found() -> None:
    wanted = json.loads((SAMPLES / "expected.json").read_text())[CLI]
    path = SAMPLES / CLI
    tally = Tally()
    assert antigravity.accepts(path, path.read_bytes()[:65536])
    items = read(path, tally)
    calls = of(items, Call)
    assert dict(tally.types) == wanted["record_types"] and sum(tally.types.values()) == wanted["records"]
    assert sum(tally.problems.values()) == wanted["bad_lines"]
    assert len(said(items)) == wanted["user_prompts"] and said(items)[0] == wanted["first_prompt"]
    assert len(of(items, Reply)) == wanted["planner_texts"] and len(of(items, Thought)) == wanted["planner_thinking"]
    assert len(calls) == wanted["tool_calls"]
    assert Counter(call.tool for call in calls) == wanted["tool_calls_by_name"]
    assert [call.target for call in calls] == ["/tmp/repo", "/tmp/repo/notes.md"]
    assert sum(bool(call.edits) for call in calls) == len(wanted["file_edit_calls"])
    assert sum(result.ok is False for result in of(items, Result)) == wanted["error_steps"]
    assert [result.ok for result in of(items, Result)] == [True, True]
    assert of(items, Session)[-1] == Session("antigravity", model="Gemini 3.5 Flash (Medium)")
    assert items[0].at == 1782508576000000 and {item.precision for item in items} == {"s", ""}
    assert len({item.key for item in items if item.key != "session"}) == sum(item.key != "session" for item in items)


@present
def test_the_made_conversation() -> None:
    expected = json.loads((SAMPLES / "synthetic" / "expected_handmade.json").read_text())
    wanted = expected[MADE + "transcript_full.jsonl"]
    tally = Tally()
    items = read(SAMPLES / "synthetic" / MADE / "transcript_full.jsonl", tally)
    assert said(items) == ["make a.txt", "also b.txt"] and len(said(items)) == wanted["user_prompts"]
    assert [reply.text for reply in of(items, Reply)] == ["Done.", "Sure."]
    assert len(of(items, Reply)) == wanted["planner_texts"] and len(of(items, Call)) == wanted["tool_calls"]
    assert sum(tally.problems.values()) == wanted["bad_lines"]
    eighth = {item.key.split(":")[0] for item in items if item.key.startswith("8.")}
    assert len(eighth) - 1 == wanted["step_index_reused"]
    assert of(items, Session)[-1] == Session("antigravity", cwd=wanted["cwd"])
    assert {item.session for item in items} == {ID}
    assert of(items, Call)[0].edits == (Edit("c:\\w\\a.txt", "create", new="hi"),)
    assert [(result.ok, result.exit_status) for result in of(items, Result)] == [(True, None), (False, 1)]
    assert len(said(items, "injected")) == 1


@present
def test_a_late_log_alone_has_the_same_keys(tmp_path: Path) -> None:
    wanted = json.loads((SAMPLES / "synthetic" / "expected_handmade.json").read_text())[MADE + "transcript.jsonl"]
    source = SAMPLES / "synthetic" / MADE
    logs = tmp_path / MADE
    logs.mkdir(parents=True)
    shutil.copy(source / "transcript.jsonl", logs)
    late, whole = read(logs / "transcript.jsonl"), read(source / "transcript_full.jsonl")
    assert len(said(late)) == wanted["user_prompts"] and len(of(late, Call)) == wanted["tool_calls"]
    known = {item.key: item.what for item in whole}
    assert all(known[item.key] == item.what for item in late)
    assert read(source / "transcript.jsonl") == whole


@present
def test_the_made_home_is_found() -> None:
    place = SAMPLES / "synthetic" / "antigravity"
    found = list(antigravity._conversations(World({}, place, "linux"), place))
    assert found == [SAMPLES / "synthetic" / MADE / "transcript_full.jsonl"]


# Three logs


def test_each_field_comes_from_the_best_log_that_has_it(tmp_path: Path) -> None:
    full = [plan(7, 7, content="whole"), plan(8, 8, content="cut he", truncated_fields=["content"])]
    cut = [
        plan(6, 6, content="six"),
        plan(7, 7, content="who", truncated_fields=["content"]),
        plan(8, 8, content="cut here"),
    ]
    old = [asked(0, 0, "hi"), step(3, "PLANNER_RESPONSE", 3, status="CLEARED"), plan(6, 6), plan(7, 7, thinking="t")]
    path = laid(tmp_path, "transcript_full.jsonl", *full)
    laid(tmp_path, "transcript.jsonl", *cut)
    laid(tmp_path, "overview.txt", *old)
    tally = Tally()
    items = read(path, tally)
    assert [reply.text for reply in of(items, Reply)] == ["six", "whole", "cut here"]
    assert said(items) == ["hi"] and [thought.text for thought in of(items, Thought)] == ["t"]
    assert [item.key.split(".")[0] for item in items] == ["session", "0", "6", "7", "7", "8"]
    assert tally.types == {"USER_INPUT": 1, "PLANNER_RESPONSE": 4}


def test_a_log_that_has_nothing_in_common_stands_where_its_time_is(tmp_path: Path) -> None:
    path = laid(tmp_path, "transcript_full.jsonl", asked(5, 50, "late"))
    laid(tmp_path, "overview.txt", asked(0, 0, "early"))
    assert said(read(path)) == ["early", "late"]
    laid(tmp_path, "transcript_full.jsonl", asked(0, 0, "early"))
    laid(tmp_path, "overview.txt", asked(5, 50, "late"))
    assert said(read(path)) == ["early", "late"]


def test_an_overview_alone_is_read(tmp_path: Path) -> None:
    items = read(laid(tmp_path, "overview.txt", asked(0, 0, "old"), plan(1, 1, content="yes")))
    assert said(items) == ["old"] and [reply.text for reply in of(items, Reply)] == ["yes"]


def test_arguments_that_are_strings_of_json(tmp_path: Path) -> None:
    chunks = [{"TargetContent": "a", "ReplacementContent": "b"}, {"TargetContent": "c", "ReplacementContent": "d"}, 4]
    plain = {"TargetFile": "c:\\w\\x.py", "ReplacementChunks": chunks}
    coded = {name: json.dumps(value) for name, value in plain.items()}
    wanted = (Edit("c:\\w\\x.py", old="a", new="b"), Edit("c:\\w\\x.py", old="c", new="d"))
    twice = {"TargetFile": plain["TargetFile"], "ReplacementChunks": json.dumps(chunks)}
    for name, told in (("transcript_full.jsonl", plain), ("transcript.jsonl", coded), ("overview.txt", coded)):
        items = read(laid(tmp_path / name, name, plan(1, 1, ("multi_replace_file_content", told))))
        assert of(items, Call)[0].edits == wanted
    assert of(talk(tmp_path, plan(1, 1, ("multi_replace_file_content", twice))), Call)[0].edits == wanted
    quoted = {"CommandLine": '"C:\\x y.exe" true', "Cwd": "c:\\w"}
    assert of(talk(tmp_path, plan(1, 1, ("run_command", quoted))), Call)[0].target == quoted["CommandLine"]
    torn = {"CommandLine": '"echo \\"a\\" and', "Cwd": '"c:\\\\w"'}
    items = read(laid(tmp_path / "t", "transcript.jsonl", plan(1, 1, ("run_command", torn))))
    assert of(items, Call)[0].target == 'echo "a" and' and of(items, Session)[0].cwd == "c:\\w"


# Steps


def test_a_number_that_is_used_again_is_two_steps(tmp_path: Path) -> None:
    items = talk(
        tmp_path, asked(331, 0, "first"), plan(332, 1, content="a"), asked(331, 900, "second"), asked(331, 900, "x")
    )
    assert said(items) == ["first", "second", "x"] and len({item.key for item in items}) == len(items)
    listed = step(1159, "LIST_DIRECTORY", 5)
    items = talk(tmp_path, plan(1158, 4, ("list_dir", {})), listed, step(1159, "ERROR_MESSAGE", 5, content="quota"))
    assert of(items, Result)[0].ok is True and of(items, Reply) == [Reply("quota", is_error=True)]


def test_a_step_that_ran_and_is_written_again_stands_once(tmp_path: Path) -> None:
    command = plan(1, 1, ("run_command", {"CommandLine": "make", "Cwd": "/p"}))
    running = step(2, "RUN_COMMAND", 2, status="RUNNING", content="started")
    ended = step(2, "RUN_COMMAND", 2, content="Created At: x\nThe command failed with exit code: 7\nOutput:\nboom\n")
    assert of(talk(tmp_path, command, running), Result) == []
    for steps in ([running, ended], [running, plan(3, 3, content="meanwhile"), ended]):
        (result,) = of(talk(tmp_path, command, *steps), Result)
        assert (result.ok, result.exit_status) == (False, 7)
        assert result.output == "The command failed with exit code: 7\nOutput:\nboom"


def test_results_find_their_calls(tmp_path: Path) -> None:
    items = talk(
        tmp_path,
        plan(1, 1, ("view_file", {"AbsolutePath": "/a"}), ("run_command", {"CommandLine": "x"}), ("odd", {"a": "b"})),
        step(3, "RUN_COMMAND", 2, content="The command completed successfully.\nOutput:\nexit code 9 SECRET"),
        step(2, "VIEW_FILE", 2, content="SECRET"),
        step(4, "GENERIC", 2),
        plan(5, 3, ("view_file", {"AbsolutePath": "/b"})),
        step(6, "VIEW_FILE", 4, status="ERROR", content="Created At: 1\nCompleted At: 2\nno such file"),
        step(7, "VIEW_FILE", 4, content="of nobody"),
    )
    targets = {call.call: call.target for call in of(items, Call)}
    told = [(targets[result.call], result.ok, result.exit_status, result.output) for result in of(items, Result)]
    assert told == [
        ("x", True, 0, ""),
        ("/a", True, None, ""),
        ("b", True, None, ""),
        ("/b", False, None, "no such file"),
    ]
    assert "SECRET" not in repr(items)


def test_what_a_person_refused(tmp_path: Path) -> None:
    command = plan(1, 1, ("run_command", {"CommandLine": "rm -r x"}))
    (result,) = of(
        talk(tmp_path, command, step(2, "RUN_COMMAND", 2, status="ERROR", content="The user rejected it")), Result
    )
    assert (result.denied, result.ok, result.exit_status) == (True, False, None)
    words = "Output:\nuser denied"
    (result,) = of(talk(tmp_path, command, step(2, "RUN_COMMAND", 2, status="ERROR", content=words)), Result)
    assert not result.denied


def test_papers_about_the_task_are_no_project_files(tmp_path: Path) -> None:
    for path in ("c:\\Users\\x\\.gemini\\antigravity\\brain\\s1\\task.md", "/h/brain/s1/walkthrough.md"):
        (call,) = of(talk(tmp_path, plan(1, 1, ("write_to_file", {"TargetFile": path, "CodeContent": "x"}))), Call)
        assert (call.target, call.sort, call.edits) == (path, "other", ())
    (call,) = of(talk(tmp_path, plan(1, 1, ("write_to_file", {"TargetFile": "/p/brain/x.py"}))), Call)
    assert call.sort == "create" and len(call.edits) == 1
    swap = {"TargetFile": "a", "TargetContent": "1", "ReplacementContent": "2"}
    (call,) = of(talk(tmp_path, plan(1, 1, ("replace_file_content", swap))), Call)
    assert call.edits == (Edit("a", "update", "1", "2"),)


def test_the_persons_words_are_taken_out_of_what_is_around_them(tmp_path: Path) -> None:
    around = "<ADDITIONAL_METADATA>\r\nopen: x\r\n</ADDITIONAL_METADATA>\r\n"
    around += "<USER_SETTINGS_CHANGE>\r\nz\r\n</USER_SETTINGS_CHANGE>"

    def one(text: str, **more: Any) -> tuple[str, str]:
        (prompt,) = of(talk(tmp_path, step(0, "USER_INPUT", content=text, **more)), Prompt)
        return prompt.speaker, prompt.text

    assert one(f"<USER_REQUEST>\r\na\r\n\r\nb\u2028\r\n</USER_REQUEST>\r\n{around}") == ("human", "a\r\n\r\nb\u2028")
    nested = "why is </USER_REQUEST> here"
    assert one(f"<USER_REQUEST>\n{nested}\n</USER_REQUEST>\n{around}") == ("human", nested)
    assert one("<USER_REQUEST>\ncut off") == ("human", "cut off")
    assert one(f"bare words\n{around}") == ("human", "bare words")
    assert one(around)[0] == "injected"
    assert one("<USER_REQUEST>\nx\n</USER_REQUEST>", source="SYSTEM")[0] == "injected"
    items = talk(
        tmp_path,
        step(1, "SYSTEM_MESSAGE", content="The following is a <SYSTEM_MESSAGE> not actually sent by the user."),
        step(2, "SYSTEM_MESSAGE", content='Task id "s1/task-2" finished with result: x'),
        step(3, "CHECKPOINT", content="# summary"),
        step(4, "CONVERSATION_HISTORY"),
    )
    assert [prompt.speaker for prompt in of(items, Prompt)] == ["injected", "notification", "compact-summary"]


def test_the_folder_of_most_commands_is_the_sessions(tmp_path: Path) -> None:
    runs = [("run_command", {"CommandLine": "x", "Cwd": place}) for place in ("/a", "/b", "/b", "", 3)]
    assert of(talk(tmp_path, plan(1, 1, *runs)), Session)[0].cwd == "/b"
    told = "<user_information>\nmapping [URI] -> [CorpusName]:\ne:\\mcp dir -> e:/mcp\nf:\\x -> x\n</user_information>"
    assert of(talk(tmp_path, step(0, "USER_INPUT", content=told)), Session)[0].cwd == "e:\\mcp dir"
    assert of(talk(tmp_path, asked(0, 0, "a -> b")), Session)[0].cwd == ""


# Conversations


def message(root: Path, folder: str, name: str, body: Any) -> None:
    messages = root / "brain" / folder / ".system_generated" / "messages"
    messages.mkdir(parents=True, exist_ok=True)
    (messages / name).write_bytes(body if isinstance(body, bytes) else json.dumps(body).encode())


def test_a_conversation_that_reports_to_another_is_its_sub_agent(tmp_path: Path) -> None:
    child = laid(tmp_path, "transcript_full.jsonl", asked(0, 9, "part"), plan(1, 10, content="ok"), session="child")
    main = laid(tmp_path, "transcript_full.jsonl", asked(0, 0, "all"), session="main")
    message(tmp_path, "main", "1.json", {"sender": "child", "recipient": "main", "content": "done"})
    message(tmp_path, "main", "2.json", {"sender": "main", "recipient": "main"})
    message(tmp_path, "child", "3.json", {"sender": "main", "recipient": "child", "content": "more"})
    for number, body in enumerate([b"{torn", b"[" * 9999, [], 3, {"sender": 1, "recipient": "main"}, {}]):
        message(tmp_path, "main", f"x{number}.json", body)
    message(tmp_path, "main", "read.json", {"read": ["1"]})
    items = read(child)
    assert (of(items, Session)[0].parent, of(items, Session)[0].origin) == ("main", "subagent")
    assert said(items, "delegated") == ["part"] and all(item.is_side for item in items if item.key != "session")
    items = read(main)
    assert (of(items, Session)[0].parent, said(items)) == ("", ["all"])
    assert not any(item.is_side for item in items)


def test_what_cannot_be_read_is_counted(tmp_path: Path) -> None:
    store = tmp_path / "conversations"
    store.mkdir()
    path = laid(tmp_path, "transcript.jsonl")
    tally = Tally()
    assert read(path, tally) == [] and tally.problems == {"empty": 1}
    for name in ("s1.db", "s1.pb"):
        for old in store.iterdir():
            old.unlink()
        (store / name).write_bytes(b"\x0a\x00")
        for place in (path, store / name):
            tally = Tally()
            assert read(place, tally) == [] and tally.problems == {"unreadable: protobuf": 1}
    laid(tmp_path, "transcript.jsonl", b"\x00\xff no", b"[1]")
    with pytest.raises(BadSource):
        read(path)
    with pytest.raises(BadSource):
        read(tmp_path / "nowhere" / "transcript.jsonl")


def test_a_log_that_cannot_be_opened_does_not_hide_the_other(tmp_path: Path) -> None:
    path = laid(tmp_path, "transcript.jsonl", asked(1, 1, "open"))
    path.with_name("transcript_full.jsonl").mkdir()
    tally = Tally()
    assert said(read(path, tally)) == ["open"] and sum(tally.problems.values()) == 1
    assert said(read(path.with_name("transcript_full.jsonl"))) == ["open"]


@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
def test_places(tmp_path: Path, system: str) -> None:
    cli, ide = tmp_path / ".gemini" / "antigravity-cli", tmp_path / ".gemini" / "antigravity"
    one = laid(cli, "transcript.jsonl", asked(0, 0, "x"), session="a")
    laid(cli, "transcript_full.jsonl", session="a")  # no bytes in it
    two = laid(ide, "overview.txt", asked(0, 0, "x"), session="b")
    empty = laid(ide, "transcript.jsonl", session="c")
    (ide / "brain" / "d").mkdir()
    (ide / "brain" / "loop").symlink_to(ide)
    store = ide / "conversations"
    store.mkdir()
    for name in ("b.db", "c.pb", "e.db", "e.pb", "e.db-wal"):
        (store / name).write_bytes(b"x")
    elsewhere = laid(tmp_path / "g" / ".gemini" / "antigravity", "transcript.jsonl", asked(0, 0, "x"), session="f")
    world = World({"GEMINI_CLI_HOME": str(tmp_path / "g")}, tmp_path, system)
    found = list(antigravity.find(world))
    assert found == [two, empty, store / "e.db", one, elsewhere]
    assert all(antigravity.accepts(path, path.read_bytes()) for path in found)
    assert list(antigravity.find(World({}, tmp_path / "none", system))) == []
    for head in (b"", b"{}", b'{"type":"x"}', b"\xff"):
        assert not antigravity.accepts(tmp_path / "x.jsonl", head)


def test_the_stamp_follows_every_log(tmp_path: Path) -> None:
    path = laid(tmp_path, "transcript_full.jsonl", asked(0, 0, "x"))
    first = antigravity.stamp(path)
    laid(tmp_path, "overview.txt", asked(0, 0, "x"))
    second = antigravity.stamp(path)
    laid(tmp_path, "overview.txt", asked(0, 0, "x"), asked(1, 0, "y"))
    assert len({first, second, antigravity.stamp(path)}) == 3
    assert antigravity.stamp(tmp_path / "nowhere.jsonl") == ""


def test_growing_changes_no_key(tmp_path: Path) -> None:
    steps = [asked(0, 0, "a"), plan(1, 1, ("run_command", {"CommandLine": "x"})), step(2, "RUN_COMMAND", 1)]
    steps += [asked(0, 2, "b"), asked(0, 2, "c"), plan(1, 3, content="r", thinking="t")]
    whole = {item.key: item.what for item in talk(tmp_path, *steps)}
    for count in range(1, len(steps)):
        part = {item.key: item.what for item in talk(tmp_path, *steps[:count])}
        assert all(whole[key] == what for key, what in part.items() if key != "session")


# Anything at all

KINDS = ["USER_INPUT", "PLANNER_RESPONSE", "RUN_COMMAND", "VIEW_FILE", "GENERIC", "SYSTEM_MESSAGE", "CHECKPOINT", "NEW"]
FIELDS = [
    "step_index",
    "type",
    "status",
    "created_at",
    "content",
    "thinking",
    "tool_calls",
    "error",
    "truncated_fields",
]
FIELDS += ["name", "args", "source", "Cwd", "CommandLine", "TargetFile", "ReplacementChunks"]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.floats(),
    st.sampled_from([*KINDS, "RUNNING", "CLEARED", "ERROR", "run_command", "write_to_file", '"x', "content", "\ud83d"]),
    st.text(max_size=6),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=8),
    max_leaves=16,
)
CALLS = st.lists(st.fixed_dictionaries({"name": SCALARS, "args": VALUES}), max_size=3)
STEPS = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS), "step_index": st.integers(0, 2)},
    optional={"tool_calls": CALLS | VALUES, **dict.fromkeys(FIELDS[2:6] + FIELDS[7:9], VALUES)},
)


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(full=st.lists(STEPS | VALUES, max_size=6), cut=st.lists(STEPS, max_size=4), old=st.lists(STEPS, max_size=4))
def test_no_record_breaks_reading(tmp_path: Path, full: list[Any], cut: list[Any], old: list[Any]) -> None:
    path = laid(tmp_path, "transcript_full.jsonl", *full)
    laid(tmp_path, "transcript.jsonl", *cut)
    laid(tmp_path, "overview.txt", *old)
    try:
        items = read(path)
    except BadSource:
        return
    keys = [item.key for item in items if item.key != "session"]
    assert len(keys) == len(set(keys))
    assert items == read(path)


def test_many_steps_of_one_name_cost_no_more_than_others(tmp_path: Path) -> None:
    items = talk(tmp_path, *(asked(0, 0, str(number)) for number in range(5_000)))
    assert len(said(items)) == 5_000 == len({item.key for item in items}) - 1
