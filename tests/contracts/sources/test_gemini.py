"""Gemini CLI: documents and lines, messages that are written again, taken back, or put in the place of others."""

from __future__ import annotations

import json
import os
from collections import Counter
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bede.errors import BadSource, Unavailable
from bede.sources import gemini, source
from bede.sources.port import Call, Item, Prompt, Reply, Result, Rewind, Session, Tally, Thought, Usage, World

SHARED = Path(__file__).resolve().parents[4] / "shared"
SAMPLES = SHARED / "transcripts"
LIVE = SHARED / "transcripts-live" / "gemini-cli"
HANDMADE = SAMPLES / "synthetic" / "gemini" / "tmp" / "demo" / "chats" / "session-2026-06-01T10-00-66666666.jsonl"
needs_samples = pytest.mark.skipif(not SAMPLES.exists(), reason="the sample transcripts are not beside this checkout")
needs_live = pytest.mark.skipif(not LIVE.exists(), reason="the transcripts of real runs are not beside this checkout")
EXPECTED: dict[str, Any] = {}
if SAMPLES.exists():
    EXPECTED = {
        name: told
        for name, told in json.loads((SAMPLES / "expected.json").read_text()).items()
        if name.startswith("gemini/")
    }
SCENARIOS = sorted(each.name for each in LIVE.iterdir()) if LIVE.exists() else []
HEADER = {"sessionId": "s1", "projectHash": "0" * 64, "startTime": "2026-06-01T10:00:00.000Z", "kind": "main"}


def read(path: Path) -> tuple[list[Item], Tally]:
    tally = Tally()
    items = list(gemini.load(path, tally))
    keys = Counter((item.session, item.key) for item in items if item.key != "session")
    assert not keys or max(keys.values()) == 1
    assert all((item.at is None) == (item.precision == "") for item in items)
    return items, tally


def lines(path: Path, *records: Any, header: dict[str, Any] | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in (header or HEADER, *records)))
    return path


def of(items: list[Item], kind: type) -> list[Any]:
    return [item.what for item in items if isinstance(item.what, kind)]


def gone(items: list[Item]) -> set[str]:
    return {key for rewind in of(items, Rewind) for key in rewind.keys}


def human(items: list[Item]) -> list[str]:
    return [each.text for each in of(items, Prompt) if each.speaker == "human"]


def edited(items: list[Item], ok: bool = False) -> set[str]:
    results = {result.call: result.ok for result in of(items, Result)}
    return {edit.path for call in of(items, Call) if not ok or results.get(call.call) for edit in call.edits}


def user(name: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"id": name, "timestamp": "2026-06-01T10:00:01.000Z", "type": "user", "content": content, **more}


def model(name: str, content: Any = "", **more: Any) -> dict[str, Any]:
    return {"id": name, "timestamp": "2026-06-01T10:00:02.000Z", "type": "gemini", "content": content, **more}


def test_it_is_the_format_of_its_agent() -> None:
    assert source("gemini-cli") is gemini  # type: ignore[comparison-overlap]
    assert (gemini.AGENT, gemini.FORM) == ("gemini-cli", "document")


@needs_samples
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_published_chat_gives_all_that_is_expected(name: str) -> None:
    told = EXPECTED[name]
    path = SAMPLES / name
    assert gemini.accepts(path, path.read_bytes()[:65536])
    items, tally = read(path)
    assert {item.session for item in items} == set(told["session_ids"])
    compare_tally(told, tally)
    prompts = of(items, Prompt)
    assert len(human(items)) == told["user_prompts"]
    assert sum(each.speaker == "injected" for each in prompts) == told["injected_user_messages"]
    if told["first_prompt"]:
        assert human(items)[0].strip().startswith(told["first_prompt"])
    assert len([each for each in of(items, Reply) if not each.is_error]) == told["assistant_texts"]
    assert len(of(items, Thought)) == told["thoughts"]
    calls = of(items, Call)
    assert (len(calls), Counter(call.tool for call in calls)) == (told["tool_calls"], told["tool_calls_by_name"])
    assert Counter("success" if each.ok else "error" for each in of(items, Result)) == told["tool_status"]
    assert Counter(call.tool for call in calls if call.edits) == told["file_edit_calls"]
    assert len(edited(items)) == told["distinct_files_targeted"]
    assert len(edited(items, ok=True)) == told["distinct_files_edited_ok"]
    assert len(of(items, Rewind)) == told["rewinds"]
    compare_usage(told, of(items, Usage))
    assert of(items, Session)[-1].origin == ""
    compare_times(told, items)


def compare_tally(told: dict[str, Any], tally: Tally) -> None:
    assert sum(tally.problems.values()) == told["bad_lines"]
    assert sum(tally.types.values()) == told["records"]
    for kind, number in told["message_types"].items():
        assert tally.types[kind] == number + (told["rewritten_message_records"] if kind == "gemini" else 0)
    assert tally.types["$set"] == sum(told["set_keys"].values())


def compare_usage(told: dict[str, Any], usages: list[Usage]) -> None:
    assert Counter(each.model for each in usages) == told["models"]
    names = {"input": "input", "output": "output", "cached": "cache_read", "thoughts": "reasoning"}
    sums = {name: sum(getattr(each, field) for each in usages) for name, field in names.items()}
    assert sums == {name: told["tokens_sum"].get(name, 0) for name in names}
    assert told["tokens_sum"].get("total", 0) == sum(each.input + each.output + each.reasoning for each in usages)


def compare_times(told: dict[str, Any], items: list[Item]) -> None:
    first, last, started = (
        told[name] and micros(told[name]) for name in ("first_timestamp", "last_timestamp", "startTime")
    )
    (session, *_) = items
    assert (session.at, session.precision) == (started, "ms")
    times = [item.at for item in items if item.key != "session" and not isinstance(item.what, (Thought, Rewind))]
    if "info" not in told["message_types"] and "warning" not in told["message_types"]:
        assert (min(times), max(times)) == (first, last)  # type: ignore[type-var]
    assert all(first <= each <= last + 1_000_000 for each in times if each is not None)


def micros(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000) * 1000


@needs_live
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_real_chat_is_told_as_it_was_played(scenario: str) -> None:
    told = json.loads((LIVE / scenario / "expected.json").read_text())
    home = LIVE / scenario / "home"
    (path,) = gemini.find(World({}, home, "linux"))
    items, tally = read(path)
    assert {item.session for item in items} == {told["session_id"]}
    assert {each.cwd for each in of(items, Session)} == {told["cwd"]}
    turns = told["turns"]
    assert human(items) == [turn["prompt"] for turn in turns]
    assert [each.text for each in of(items, Reply)] == [text for turn in turns for text in turn["assistant_texts"]]
    compare_calls(items, [call for turn in turns for call in turn["tool_calls"]])
    assert edited(items, ok=True) == {f"{told['cwd']}/{each}" for turn in turns for each in turn["edited_files"]}
    spoken = " ".join([*human(items), *(each.text for each in of(items, Reply))])
    hooks = [text for turn in turns for text in turn["injected_by_hooks"]]
    assert not any(text in spoken for text in hooks)
    around = " ".join(each.text for each in of(items, Prompt) if each.speaker == "injected")
    assert all(text in around for text in hooks if "AFTER-TOOL" not in text)
    refusals = " ".join(each.output for each in of(items, Result) if each.denied)
    refused = [turn for turn in turns if any(each["denied"] for each in turn["tool_calls"])]
    assert all(text in refusals for turn in refused for text in turn["refused_by_hooks"])
    assert not any(text in each.output for each in of(items, Result) for text in hooks)
    begin, end = micros(turns[0]["started"]) - 1_000_000, micros(turns[-1]["ended"]) + 1_000_000
    assert all(begin <= item.at <= end for item in items if item.at is not None)
    assert not tally.problems
    assert not gone(items)


def compare_calls(items: list[Item], told: list[dict[str, Any]]) -> None:
    calls, results = of(items, Call), {each.call: each for each in of(items, Result)}
    assert [(call.tool, call.call) for call in calls] == [
        (each["tool"], f"{each['tool']}__{each['id']}") for each in told
    ]
    for call, each in zip(calls, told, strict=True):
        result = results[call.call]
        assert (result.ok, result.exit_status, result.denied) == (each["ok"], each["exit_code"], each["denied"]), call
        assert (call.sort, call.target in each["args"].values()) == (each["kind"], True)
        if each["tool"] == "replace":
            assert (call.edits[0].old, call.edits[0].new) == (each["args"]["old_string"], each["args"]["new_string"])
        if each["tool"] == "write_file":
            assert (call.edits[0].operation, call.edits[0].new) == ("create", each["args"]["content"])
        assert bool(result.output) == (not each["ok"])


@needs_samples
def test_what_was_taken_back_is_kept_and_named() -> None:
    items, tally = read(HANDMADE)
    told = json.loads((SAMPLES / "synthetic" / "expected_handmade.json").read_text())
    told = told["gemini/tmp/demo/chats/session-2026-06-01T10-00-66666666.jsonl"]
    assert human(items) == ["write hi", "never mind", "plain string content"]
    assert gone(items) == {"g0:around", "g3:prompt", "g4:text"}
    final = [item for item in items if item.key not in gone(items)]
    assert len(human(final)) == told["user_prompts_final"]
    assert len(of(final, Reply)) == told["assistant_texts_final"]
    assert len(of(final, Call)) == told["tool_calls"]
    assert of(items, Session)[-1].cwd == "C:\\code\\demo app"
    assert [(each.input, each.output) for each in of(items, Usage)] == [(10, 2)]
    assert [(each.call, each.ok) for each in of(items, Result)] == [("w1", True)]
    assert not tally.problems


@needs_samples
def test_two_states_of_one_chat_have_the_same_items_under_the_same_keys() -> None:
    early, late = (
        read(SAMPLES / f"gemini/entireio__cli/{name}/0/full.jsonl")[0] for name in ("9c/53780d06b7", "ab/2b9748b105")
    )
    later = {item.key: item for item in late}
    same = [item.key for item in early if later.get(item.key) == item]
    assert {item.key for item in early} <= set(later)
    assert len(same) >= len(early) - 3


def test_ways_back(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    one, two, three = user("u1", "one"), user("u2", "two"), user("u3", "three")
    assert gone(read(lines(path, one, two, {"$rewindTo": "u2"}, three))[0]) == {"u2:prompt"}
    assert gone(read(lines(path, one, two, {"$rewindTo": "nothing"}, three))[0]) == {"u1:prompt", "u2:prompt"}
    assert gone(read(lines(path, one, two, {"$rewindTo": ["u2"]}))[0]) == {"u1:prompt", "u2:prompt"}
    assert gone(read(lines(path, one, two, {"$set": {"messages": [two]}}))[0]) == {"u1:prompt"}
    assert gone(read(lines(path, one, two, {"$set": {"messages": 7}}))[0]) == set()
    assert gone(read(lines(path, one, two, {"$rewindTo": "u1"}, two))[0]) == {"u1:prompt"}
    items, _ = read(lines(path, one, {"$set": {"summary": "about it", "lastUpdated": "x"}}))
    assert of(items, Session)[-1].title == "about it"


def test_a_message_was_said_when_it_was_written_first(tmp_path: Path) -> None:
    later = "2026-06-01T11:00:00.000Z"
    first = [user("u1", "ask"), model("m1", "tell")]
    once, _ = read(lines(tmp_path / "a.jsonl", *first))
    again, _ = read(lines(tmp_path / "a.jsonl", *first, *({**each, "timestamp": later} for each in first)))
    assert [(item.key, item.at, item.line) for item in again] == [(item.key, item.at, item.line) for item in once]
    timeless = {name: value for name, value in first[0].items() if name != "timestamp"}
    late, _ = read(lines(tmp_path / "a.jsonl", timeless, {**first[0], "timestamp": later}))
    assert [item.at for item in late if isinstance(item.what, Prompt)] == [1780311600000000]


def test_a_message_that_is_written_again_keeps_what_only_its_first_writing_told(tmp_path: Path) -> None:
    running = {"id": "c", "name": "glob", "args": {"pattern": "*"}, "status": "executing"}
    path = lines(
        tmp_path / "a.jsonl",
        model("m", "text", tokens={"input": 5}, toolCalls=[running]),
        model("m", "longer text", toolCalls=[{"id": "c", "name": "glob", "status": "success"}]),
    )
    items, _ = read(path)
    assert of(items, Reply) == [Reply("longer text")]
    assert of(items, Call) == [Call("c", "glob", "*", "search")]
    assert of(items, Result) == [Result("c", True)]
    assert of(items, Usage) == [Usage(input=5)]
    assert [item.line for item in items if item.key != "session"] == [2, 2, 2, 2]


def speakers(path: Path, content: Any, **more: Any) -> list[tuple[str, str, int]]:
    items, _ = read(lines(path, user("u", content, **more)))
    return [(each.speaker, each.text, each.images) for each in of(items, Prompt)]


def test_who_speaks(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    image = {"inlineData": {"mimeType": "image/png", "data": "AA=="}}
    answer = {"functionResponse": {"id": "c", "name": "read_file", "response": {"output": "secret"}}}
    assert speakers(path, "  as typed\n") == [("human", "  as typed\n", 0)]
    assert speakers(path, [{"text": "see"}, image]) == [("human", "see", 1)]
    assert speakers(path, [image]) == [("human", "", 1)]
    assert speakers(path, [answer, image]) == []
    assert speakers(path, "System: Please continue.") == [("injected", "System: Please continue.", 0)]
    assert speakers(path, "System: Please continue. And then?")[0][0] == "human"
    assert speakers(path, "<session_context>\nx\n</session_context>")[0][0] == "injected"
    assert speakers(path, "<hook_context>a</hook_context>\n\n<hook_context>b</hook_context>\nwhy?") == [
        ("human", "why?", 0),
        ("injected", "<hook_context>a</hook_context>\n<hook_context>b</hook_context>", 0),
    ]
    assert speakers(path, "what does <hook_context>x</hook_context> mean?")[0][0] == "human"
    assert speakers(path, "<state_snapshot>so far</state_snapshot>")[0][0] == "compact-summary"
    assert speakers(path, "I ran the following shell command:\n```sh\nls\n```\n")[0][0] == "bang"
    files = [{"text": "explain @a.py"}, {"text": "\n--- Content from referenced files ---"}, {"text": "print(1)"}]
    assert speakers(path, files) == [
        ("human", "explain @a.py", 0),
        ("injected", "\n--- Content from referenced files ---\nprint(1)", 0),
    ]
    assert speakers(path, "") == speakers(path, None) == speakers(path, []) == speakers(path, " \n") == []


def test_what_the_program_says_itself(tmp_path: Path) -> None:
    said = [
        ("info", "Request cancelled."),
        ("info", "Update available"),
        ("warning", "hm"),
        ("error", "[API Error: 429]"),
    ]
    records = [{"id": f"i{number}", "type": kind, "content": text} for number, (kind, text) in enumerate(said)]
    items, tally = read(lines(tmp_path / "a.jsonl", *records, {"id": "x", "type": "of tomorrow"}))
    assert of(items, Prompt) == [Prompt("Request cancelled.", "interrupt")]
    assert of(items, Reply) == [Reply("[API Error: 429]", is_error=True)]
    assert tally.types == {"session": 1, "info": 2, "warning": 1, "error": 1, "of tomorrow": 1}


def ended(path: Path, name: str, status: Any, response: dict[str, Any], shown: Any = "") -> Result | None:
    result = [{"functionResponse": {"id": "c", "name": name, "response": response}}]
    call = {"id": "c", "name": name, "args": {}, "status": status, "result": result, "resultDisplay": shown}
    found = of(read(lines(path, model("m", toolCalls=[call])))[0], Result)
    return found[0] if found else None


def test_how_commands_end(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for output, shown, status in (
        (
            "Command: x\nDirectory: (root)\nOutput: no\nError: (none)\nExit Code: 3\nSignal: 0\nProcess Group PGID: 1",
            "no",
            3,
        ),
        ("Output: fine\nProcess Group PGID: 1", "fine", 0),
        ("Output: bad\nExit Code: 2\nProcess Group PGID: 1", "bad", 2),
        ("Output: (empty)\nExit Code: 127\nProcess Group PGID: 1", "", 127),
        ("Output: it printed\nExit Code: 7\nProcess Group PGID: 1", "it printed\nExit Code: 7", 0),
        ("Output: killed\nSignal: 9\nProcess Group PGID: 1", "killed", None),
        ("Command moved to background (PID: 5).", "", None),
        ("Output: x\nExit Code: (none)\nSignal: 9\nProcess Group PGID: 1", "x", None),
    ):
        for text in (output, f"<untrusted_context>\n{output}\n</untrusted_context>"):
            found = ended(path, "run_shell_command", "success", {"output": text}, shown)
            assert found is not None
            assert (found.exit_status, found.ok) == (status, not status), output
            assert found.output == ("" if found.ok else output)


def test_how_other_calls_end(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for status in ("executing", "scheduled", "awaiting_approval", None, 3):
        assert ended(path, "replace", status, {}) is None
    for status, error, denied in (
        ("error", "File not found", False),
        ("error", "Tool execution blocked: by policy of the house", True),
        ("error", "Tool execution denied by policy.", True),
        ("error", "Permission denied", False),
        ("cancelled", "[Operation Cancelled] Reason: User did not allow tool call", True),
        ("cancelled", "[Operation Cancelled] Reason: User cancelled the operation.", False),
    ):
        assert ended(path, "replace", status, {"error": error}) == Result("c", False, denied=denied, output=error)
    hooked = "no such file\n\n<hook_context>said by a hook</hook_context>"
    assert ended(path, "read_file", "error", {"error": hooked}) == Result("c", False, output="no such file")
    changed = {"fileDiff": "@@", "filePath": "/p/a", "diffStat": {"user_added_lines": 1}, "isNewFile": False}
    found = ended(path, "replace", "success", {"output": "ok"}, changed)
    assert found is not None
    assert [(each.path, each.patch) for each in found.edits] == [("/p/a", "@@")]


def test_the_directory_is_told_beside_the_chat(tmp_path: Path) -> None:
    home = tmp_path / "home" / ".gemini"
    told = "/home/u/prj"
    digest = sha256(told.encode()).hexdigest()
    header = {**HEADER, "projectHash": digest}
    by_slug = lines(home / "tmp" / "prj" / "chats" / "session-1.jsonl", user("u", "x"), header=header)
    by_hash = lines(home / "tmp" / digest / "chats" / "session-2.json", user("u", "x"), header=header)
    child = lines(
        home / "tmp" / "prj" / "chats" / "s1" / "kid.jsonl",
        user("u", "x"),
        header={**header, "sessionId": "k", "kind": "subagent"},
    )
    assert list(gemini.find(World({}, tmp_path / "home", "win32"))) == [by_hash, child, by_slug]
    assert list(gemini.find(World({"GEMINI_CLI_HOME": str(tmp_path / "home")}, Path("/none"), "linux"))) == [
        by_hash,
        child,
        by_slug,
    ]

    def cwd(path: Path) -> str:
        return of(read(path)[0], Session)[-1].cwd

    assert [cwd(path) for path in (by_slug, by_hash, child)] == ["", "", ""]
    stamp = gemini.stamp(by_slug)
    (home / "projects.json").write_text(json.dumps({"projects": {told: "prj", "/other": "other", "/older": "prj2"}}))
    assert gemini.stamp(by_slug) != stamp
    assert [cwd(path) for path in (by_slug, by_hash, child)] == [told, told, told]
    (home / "tmp" / "prj" / ".project_root").write_text("/moved/to")
    assert [cwd(path) for path in (by_slug, by_hash, child)] == ["/moved/to", told, "/moved/to"]
    for broken in ("[]", '{"projects": 7}', "{", "[" * 100_000):
        (home / "projects.json").write_text(broken)
        assert cwd(by_hash) == ""
    lone = lines(
        tmp_path / "lone.jsonl",
        user("u", f"<session_context>\n  - /tmp\n  - {told}\n</session_context>"),
        header=header,
    )
    assert cwd(lone) == told


def test_a_sub_agent_is_told_as_one(tmp_path: Path) -> None:
    header = {**HEADER, "sessionId": "kid", "kind": "subagent"}
    items, _ = read(lines(tmp_path / "chats" / "s1" / "kid.jsonl", user("u", "look for it"), header=header))
    session = of(items, Session)[-1]
    assert (session.parent, session.origin) == ("s1", "subagent")
    assert [(each.speaker, each.text) for each in of(items, Prompt)] == [("delegated", "look for it")]
    assert all(item.is_side for item in items if isinstance(item.what, Prompt))


def test_ids_that_are_missing_or_come_twice(tmp_path: Path) -> None:
    call = {"id": "c", "name": "glob", "args": {"pattern": "1"}, "status": "success"}
    nameless = {"type": "user", "content": "x"}
    path = lines(
        tmp_path / "a.jsonl",
        nameless,
        nameless,
        user("m", "mine"),
        model("m", "its", toolCalls=[call, {**call, "args": {"pattern": "2"}}]),
        model("n", toolCalls=[{**call, "args": {"pattern": "3"}}, {"name": "glob", "args": {"pattern": "4"}}]),
        model("o", toolCalls=[{**call, "id": "c#2", "args": {"pattern": "5"}}]),
    )
    items, _ = read(path)
    assert human(items) == ["x", "x", "mine"]
    assert [each.text for each in of(items, Reply)] == ["its"]
    assert [each.target for each in of(items, Call)] == ["1", "2", "3", "4", "5"]
    assert len({each.call for each in of(items, Call)}) == 5
    before = {item.key: item for item in items}
    with path.open("a") as file:
        file.write(json.dumps(user("later", "more")) + "\n")
    assert before.items() <= {item.key: item for item in read(path)[0]}.items()


def test_two_sessions_in_one_file_are_two(tmp_path: Path) -> None:
    second = {**HEADER, "sessionId": "s2"}
    items, _ = read(lines(tmp_path / "a.jsonl", user("u", "one"), second, user("u", "two")))
    assert [(item.session, item.what.text) for item in items if isinstance(item.what, Prompt)] == [
        ("s1", "one"),
        ("s2", "two"),
    ]


def test_torn_lines_cost_themselves(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    records = [
        json.dumps(each).encode()
        for each in (HEADER, user("a", "one \u2028 line"), user("b", "two"), user("c", "three"))
    ]
    path.write_bytes(
        b"\xef\xbb\xbf"
        + records[0]
        + b"\r\n"
        + records[1]
        + b"\n"
        + records[2][:40]
        + b"\n\n[1, 2]\n"
        + records[3]
        + b'\n{"id'
    )
    items, tally = read(path)
    assert human(items) == ["one \u2028 line", "three"]
    assert tally.problems == {"torn": 1, "no object": 1, "unfinished": 1}


def test_files_in_which_nothing_can_be_read(tmp_path: Path) -> None:
    torn = json.dumps({**HEADER, "messages": [user("u", "x"), user("v", "y")]}, indent=2).encode()[:-30]
    for content in (b"", b"\x00" * 100, b"no JSON", b"\xff\xfe", torn):
        (tmp_path / "a.json").write_bytes(content)
        with pytest.raises(BadSource):
            read(tmp_path / "a.json")
    with pytest.raises(Unavailable):
        read(tmp_path / "missing.json")
    with pytest.raises(BadSource):
        read(tmp_path)
    assert gemini.stamp(tmp_path / "missing.json") == "-"
    assert not gemini.accepts(tmp_path / "logs.json", b'[{"sessionId": "x", "messageId": 0}]')
    assert not gemini.accepts(tmp_path / "a.jsonl", b'{"sessionId": "x", "type": "user"}')
    assert list(gemini.find(World({}, tmp_path / "nothing", "linux"))) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    project = tmp_path / ".gemini" / "tmp" / "p"
    (project / "chats" / "folder.json").mkdir(parents=True)
    (project / "chats" / "loop").symlink_to(project / "chats", target_is_directory=True)
    (project / "chats" / "dangling.json").symlink_to(project / "nowhere")
    os.mkfifo(project / "chats" / "pipe.jsonl")
    os.mkfifo(project / ".project_root")
    path = lines(project / "chats" / "a.jsonl", user("u", "x"))
    assert list(gemini.find(World({}, tmp_path, "darwin"))) == [path, project / "chats" / "loop" / "a.jsonl"]
    assert of(read(path)[0], Session)[-1].cwd == ""
    with pytest.raises(BadSource):
        read(project / "chats" / "pipe.jsonl")


def test_times_are_as_exact_as_they_are_written(tmp_path: Path) -> None:
    stamps = [
        "2026-06-01T10:00:00Z",
        "2026-06-01T10:00:00.5Z",
        "2026-06-01T12:00:00.000001+02:00",
        "soon",
        5,
        None,
        "2026-06-01T10:00:00",
    ]
    records = [
        {"id": f"u{number}", "type": "user", "content": "x", "timestamp": each} for number, each in enumerate(stamps)
    ]
    items, _ = read(lines(tmp_path / "a.jsonl", *records))
    start = micros("2026-06-01T10:00:00Z")
    assert [(item.at, item.precision) for item in items if item.key != "session"] == [
        (start, "s"),
        (start + 500_000, "ms"),
        (start + 1, "us"),
        *[(None, "")] * 4,
    ]


FIELDS = (
    "id timestamp type content text thought thoughts subject description tokens input toolCalls name args file_path"
)
FIELDS += " content status result functionResponse response output resultDisplay diffStat sessionId $set $rewindTo"
FIELDS += " messages kind"
NAMES = st.sampled_from(FIELDS.split())
KNOWN = st.sampled_from(
    ["user", "gemini", "info", "error", "success", "cancelled", "replace", "run_shell_command", "m1"]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8) | KNOWN
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5), max_leaves=12
)
SHELL = {"functionResponse": {"response": {"output": "Output: x\nExit Code: 1\nProcess Group PGID: 1"}}}
CALLS = [
    {"id": "c", "name": "run_shell_command", "args": {"command": "x"}, "status": "success", "result": [SHELL]},
    {"id": "d", "name": "replace", "args": {"file_path": "f"}, "status": "success", "resultDisplay": {"diffStat": {}}},
]
WHOLE: list[Any] = [
    HEADER,
    user("u1", [{"text": "<hook_context>a</hook_context>b"}]),
    model("m1", [{"text": "a"}], thoughts=[{"subject": "s", "description": "d"}], tokens={"input": 1}, toolCalls=CALLS),
    {"$set": {"messages": [model("m1", "b", toolCalls=CALLS)], "directories": ["/p"]}},
    {"$rewindTo": "m1"},
]


def replaced(value: Any, data: st.DataObject) -> Any:
    """Return a value of which something, somewhere, is anything else."""
    inner = (
        list(value.items() if isinstance(value, dict) else enumerate(value)) if isinstance(value, (dict, list)) else []
    )
    if not inner or data.draw(st.integers(0, 5)) == 0:
        return data.draw(VALUES)
    name, chosen = data.draw(st.sampled_from(inner))
    changed = dict(value) if isinstance(value, dict) else list(value)
    changed[name] = replaced(chosen, data)
    return changed


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), is_document=st.booleans())
def test_any_value_in_any_field_is_no_error(tmp_path: Path, data: st.DataObject, is_document: bool) -> None:
    path = tmp_path / "a.jsonl"
    records = [replaced(each, data) if data.draw(st.booleans()) else each for each in WHOLE]
    if is_document:
        path.write_text(json.dumps({**HEADER, "messages": records}, indent=1))
    else:
        path.write_text("".join(json.dumps(each) + "\n" for each in records))
    items, _ = read(path)
    json.dumps([item.what.to_json() for item in items])
