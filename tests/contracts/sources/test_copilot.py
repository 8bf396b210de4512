"""Copilot's events and chats: what is published of real sessions gives just what is known of them, traps included."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bede.errors import BadSource
from bede.sources import copilot
from bede.sources.port import Call, Edit, Item, Prompt, Reply, Result, Session, Tally, Thought, Usage, World

SHARED = Path(__file__).resolve().parents[4] / "shared"
SAMPLES, LIVE = SHARED / "transcripts", SHARED / "transcripts-live" / "copilot-cli"
GIT_AI = "copilot/git-ai-project__git-ai/tests/fixtures"
FILES = [
    "copilot/Mai0313__VibeCodingTracker/tests/fixtures/sessions/copilot.jsonl",
    "copilot/jazzyalex__agent-sessions/Resources/Fixtures/stage0/agents/copilot/small.jsonl",
    f"{GIT_AI}/copilot_cli_session_events.jsonl",
    f"{GIT_AI}/copilot_vscode_event_stream.jsonl",
    f"{GIT_AI}/copilot_session_simple.json",
    f"{GIT_AI}/copilot_session_simple.jsonl",
    f"{GIT_AI}/copilot_session_multiline.jsonl",
    f"{GIT_AI}/copilot_session_empty_then_patched.jsonl",
]
EVENTS, CHATS = FILES[:4], FILES[4:]
CLI = "synthetic/copilot-cli/session-state/44444444-4444-4444-8444-444444444444/events.jsonl"
CHAT = "synthetic/copilot-vscode/workspaceStorage/abc/chatSessions/55555555-5555-4555-8555-555555555555.jsonl"
SCENARIOS = ["start", "resume", "deny", "deny-exit2", "broken-hook", "inject"]


def sample(name: str) -> Path:
    path = SAMPLES / name
    if not path.exists():
        pytest.skip("the published transcripts are not beside this checkout")
    return path


def expected(name: str) -> dict[str, Any]:
    sample(name)
    return json.loads((SAMPLES / "expected.json").read_text())[name]


def read(path: Path) -> tuple[list[Item], Tally]:
    tally = Tally()
    return list(copilot.load(path, tally)), tally


def last(items: list[Item]) -> dict[str, Item]:
    """The items as they stand in the end: of one key the last."""
    return {item.key: item for item in items}


def of(items: list[Item], kind: type) -> list[Any]:
    return [item.what for item in last(items).values() if isinstance(item.what, kind)]


def prompts(items: list[Item], *speakers: str) -> list[Prompt]:
    return [prompt for prompt in of(items, Prompt) if prompt.speaker in speakers]


def edited(items: list[Item], *, well: bool = False) -> set[str]:
    """Paths of the files whose change was asked for, or, `well`, made."""
    ended = {result.call: result for result in of(items, Result)}
    paths = set()
    for call in of(items, Call):
        result = ended.get(call.call)
        if not well or (result and result.ok):
            paths |= {edit.path for edit in (*call.edits, *(result.edits if result else ()))}
    return paths


def micros(value: Any) -> int | None:
    if isinstance(value, int):
        return value * 1000
    try:
        return round(datetime.fromisoformat(value).timestamp() * 1000) * 1000
    except ValueError:
        return None


def written(path: Path, *records: Any, tail: bytes = b"") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(json.dumps(record).encode() + b"\n" for record in records) + tail)
    return path


def event(kind: str, identity: str, second: int = 0, **data: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "data": data,
        "id": identity,
        "timestamp": f"2026-05-01T07:00:{second:02}.000Z",
        "parentId": None,
    }


# -- what is published


@pytest.mark.parametrize("name", EVENTS)
def test_events_give_what_is_known_of_them(name: str) -> None:
    """Every number of `expected.json` that follows from items."""
    known = expected(name)
    items, tally = read(sample(name))
    assert dict(tally.types) == known["record_types"]
    assert sum(tally.problems.values()) == known["bad_lines"]
    sessions = [item.what for item in items if isinstance(item.what, Session)]
    assert {item.session for item in items} == set(known["session_ids"])
    assert {session.version for session in sessions} == set(known["agent_versions"])
    assert {session.cwd for session in sessions} - {"[trimmed for fixture]"} - {""} == set(known["cwd"])
    assert {session.branch for session in sessions} - {"[trimmed for fixture]"} - {""} == set(known["git_branches"])
    models = {session.model for session in sessions} | {reply.model for reply in of(items, Reply)}
    assert models - {"[trimmed for fixture]", ""} == set(known["models"])
    human = prompts(items, "human")
    assert len(human) == known["user_prompts"]
    assert human[0].text.startswith(known["first_prompt"])
    assert len(prompts(items, "injected")) == known["injected_user_messages"]
    assert len(prompts(items, "interrupt")) == known["aborts"]
    assert len([reply for reply in of(items, Reply) if not reply.is_error]) == known["assistant_texts"]
    assert len(of(items, Thought)) == known["assistant_reasoning"]
    check_calls(items, known)
    spent = [usage for usage in of(items, Usage) if not usage.total]
    assert sum(usage.output for usage in spent) == known["output_tokens_sum"]
    times = [item.at for item in items if item.at is not None]
    assert min(times) == micros(known["first_timestamp"])
    if micros(known["last_timestamp"]):
        assert max(times) == micros(known["last_timestamp"])
    assert {item.precision for item in items if item.at is not None} == {"ms"}
    assert {item.precision for item in items if item.at is None} <= {""}


def check_calls(items: list[Item], known: dict[str, Any]) -> None:
    calls = of(items, Call)
    assert len(calls) == known["tool_calls"]
    assert dict(Counter(call.tool for call in calls)) == known["tool_calls_by_name"]
    results = {result.call: result for result in of(items, Result)}
    assert len(results) == known["tool_results"]
    assert sum(result.ok is False for result in results.values()) == known["tool_errors"]
    assert sum(call.call not in results for call in calls) == known["tool_calls_without_result"]
    changing = Counter(call.tool for call in calls if call.sort in ("edit", "create"))
    assert dict(changing) == known["file_edit_calls"]


def test_what_expected_counts_cannot_see_is_told_nevertheless() -> None:
    """A patch names its file; `result_type` is an older way to say that a call went well."""
    items, _ = read(sample(EVENTS[3]))
    assert edited(items, well=True) == {"/Users/test/project/src/main.ts"}
    assert [edit.patch.count("+// Entry point") for call in of(items, Call) for edit in call.edits] == [1]
    items, _ = read(sample(EVENTS[2]))
    assert edited(items, well=True) == {"/Users/test/project/hello.py"}
    assert [call.edits for call in of(items, Call)] == [
        (Edit("/Users/test/project/hello.py", "create", new="print('hello world')\n"),)
    ]


def test_totals_of_a_session_are_those_of_its_end() -> None:
    items, _ = read(sample(EVENTS[0]))
    totals = [usage for usage in of(items, Usage) if usage.total]
    assert totals == [Usage("claude-sonnet-4.6", 186809, 2848, 151738, 0, 1024, 186809 + 2848)]


@pytest.mark.parametrize("name", CHATS)
def test_chats_give_what_is_known_of_them(name: str) -> None:
    """Every number of `expected.json` that follows from items."""
    known = expected(name)
    items, tally = read(sample(name))
    kinds = {kind: number for kind, number in tally.types.items() if kind.isalpha() and kind != "session"}
    assert kinds == known["response_part_kinds"]
    if known["mutation_kinds"]:
        assert {kind: number for kind, number in tally.types.items() if kind.isdigit()} == known["mutation_kinds"]
    assert not tally.problems
    assert {item.session for item in items} == {known["session_ids"][0] or sample(name).stem}
    session = of(items, Session)[0]
    assert session.title == (known["title"] or "")
    assert session.model in known["models"] or "null" in known["models"]
    human = prompts(items, "human")
    assert len(human) == known["user_prompts"] == known["requests"]
    assert human[0].text == known["first_prompt"]
    answered = {item.key.partition(":")[0] for item in items if isinstance(item.what, Reply)}
    assert len(answered) == known["requests_with_assistant_markdown"]
    calls = of(items, Call)
    assert len(calls) == known["tool_calls"]
    assert dict(Counter(call.tool for call in calls)) == known["tool_calls_by_name"]
    assert len(edited(items)) == known["distinct_files_edited"]
    times = [item.at for item in items if not isinstance(item.what, Session)]
    assert (min(times), max(times)) == (micros(known["first_timestamp"]), micros(known["last_timestamp"]))
    assert items[0].at == micros(known["creationDate"])


def test_a_log_and_a_file_of_one_session_say_the_same() -> None:
    as_file, _ = read(sample(CHATS[0]))
    as_log, _ = read(sample(CHATS[1]))
    assert as_file == as_log


def test_arguments_of_a_chats_calls_are_found() -> None:
    """VS Code keeps them under other ids; they tell the old text, which the edit it shows does not."""
    items, _ = read(sample(CHATS[0]))
    replaced, searched = of(items, Call)
    assert replaced.edits[0].old.endswith("console.log('Bonjour World');")
    assert replaced.edits[0].new.endswith("console.log('hello world');")
    assert (searched.sort, searched.target) == ("search", "Bonjour")
    said = [reply.text for reply in of(items, Reply)]
    assert said[2] == 'Done! I\'ve changed "Bonjour World" to "hello world" in line 10 of your `index.ts` file.'


# -- traps made by hand


def test_trap_of_the_command_line() -> None:
    """U+2028 in a line, NUL at the end, a resume elsewhere, a nudge without content, a call without an end."""
    items, tally = read(sample(CLI))
    known = json.loads((SAMPLES / "synthetic" / "expected_handmade.json").read_text())[CLI.removeprefix("synthetic/")]
    assert not tally.problems
    assert [prompt.text for prompt in prompts(items, "human")] == ["add a test\u2028please"]
    assert len(prompts(items, "injected")) == known["injected_user_messages"]
    assert len(of(items, Reply)) == known["assistant_texts"]
    ended = {result.call for result in of(items, Result)}
    calls = of(items, Call)
    assert len(calls) == known["tool_calls"]
    assert [call.call for call in calls if call.call not in ended] == ["t2"]
    folders = [item.what.cwd for item in items if isinstance(item.what, Session)]
    assert (folders[0], folders[-1]) == (known["cwd_first"], known["cwd_last"])


def test_trap_of_a_log() -> None:
    """A splice takes the place of what had streamed, and a mutation deletes."""
    items, tally = read(sample(CHAT))
    known = json.loads((SAMPLES / "synthetic" / "expected_handmade.json").read_text())[CHAT.removeprefix("synthetic/")]
    assert not tally.problems
    assert len(prompts(items, "human")) == known["user_prompts"]
    assert [call.call for call in of(items, Call)] == ["v1"]
    assert edited(items, well=True) == {"c:/code/my app/p.html"}
    assert [reply.text for reply in of(items, Reply)] == ["Working on it."]
    assert of(items, Session) == [Session("copilot", model="copilot/auto", cwd="c:/code/my app", title="Page")]
    assert [usage.output for usage in of(items, Usage)] == [39]


# -- real runs


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_real_run_gives_what_its_scenario_was(scenario: str) -> None:
    """Prompts, texts in order, calls with their arguments, ids, exit statuses, refusals, edited files."""
    folder = LIVE / scenario
    if not folder.exists():
        pytest.skip("the transcripts of real runs are not beside this checkout")
    known = json.loads((folder / "expected.json").read_text())
    (path,) = (folder / file for file in known["files"] if file.endswith("events.jsonl"))
    items, tally = read(path)
    assert not tally.problems
    assert {item.session for item in items} == {known["session_id"]}
    assert {session.cwd for session in of(items, Session)} == {known["cwd"]}
    assert all(session.version in known["agent_version"] for session in of(items, Session))
    turns = known["turns"]
    assert [prompt.text for prompt in prompts(items, "human")] == [turn["prompt_as_stored"] for turn in turns]
    assert [reply.text for reply in of(items, Reply)] == [text for turn in turns for text in turn["assistant_texts"]]
    check_wire(items, [call for turn in turns for call in turn["tool_calls"]])
    wanted = {f"{known['cwd']}/{path}" for turn in turns for path in turn["edited_files"]}
    assert edited(items, well=True) == wanted
    injected = [text for turn in turns for text in turn["injected_by_hooks"]]
    assert [prompt.text for prompt in prompts(items, "injected")] == injected
    said = [what.text for kind in (Reply, Thought) for what in of(items, kind)]
    said += [prompt.text for prompt in prompts(items, "human")]
    said += [result.output for result in of(items, Result)]
    assert not any(text in each for text in injected for each in said)
    first, end = micros(turns[0]["started"]) or 0, micros(turns[-1]["ended"]) or 0
    assert all(first - 1_000_000 <= (item.at or 0) <= end + 1_000_000 for item in items)


def check_wire(items: list[Item], wire: list[dict[str, Any]]) -> None:
    results = {result.call: result for result in of(items, Result)}
    calls = of(items, Call)
    assert [(call.call, call.tool) for call in calls] == [(call["id"], call["tool"]) for call in wire]
    for call, known in zip(calls, wire, strict=True):
        result = results[call.call]
        assert (result.ok, result.denied, result.exit_status) == (known["ok"], known["denied"], known["exit_code"])
        assert call.target == next(iter(known["args"].values()))
        assert call.sort == known["kind"]
        if known["kind"] in ("create", "edit"):
            (edit,) = call.edits
            assert edit.new == known["args"].get("file_text", known["args"].get("new_str"))
            assert edit.old == known["args"].get("old_str", "")
        assert bool(result.output) == (not known["ok"])


def test_a_refusal_says_why() -> None:
    path = next(iter(LIVE.glob("deny/home/.copilot/session-state/*/events.jsonl")), None)
    if path is None:
        pytest.skip("the transcripts of real runs are not beside this checkout")
    (refused,) = [result for result in of(read(path)[0], Result) if result.denied]
    assert "DENIED-BY-HOOK: the discount rate was decided on purpose" in refused.output


# -- faults that other readers have


def test_a_torn_event_does_not_take_the_next_one_with_it(tmp_path: Path) -> None:
    whole = json.dumps(event("user.message", "e1", content="still here"))
    path = tmp_path / "events.jsonl"
    path.write_text(
        '{"type":"assistant.message","da' + whole + "\n" + json.dumps(event("user.message", "e2", content="x"))
    )
    items, tally = read(path)
    assert [prompt.text for prompt in prompts(items, "human")] == ["still here", "x"]
    assert tally.problems == {"torn": 1}


def test_nul_at_the_end_is_nothing(tmp_path: Path) -> None:
    items, tally = read(written(tmp_path / "e.jsonl", event("user.message", "e1", content="a"), tail=b"\x00" * 1728))
    assert [prompt.text for prompt in of(items, Prompt)] == ["a"]
    assert not tally.problems


def test_half_a_line_waits(tmp_path: Path) -> None:
    items, tally = read(written(tmp_path / "e.jsonl", event("user.message", "e1", content="a"), tail=b'{"type":"us'))
    assert [prompt.text for prompt in of(items, Prompt)] == ["a"]
    assert tally.problems == {"unfinished": 1}


def test_a_lone_surrogate_stays(tmp_path: Path) -> None:
    items, _ = read(written(tmp_path / "e.jsonl", event("user.message", "e1", content="a\ud83d")))
    assert prompts(items, "human")[0].text == "a\ud83d"


def test_a_log_without_its_beginning_gives_what_it_holds(tmp_path: Path) -> None:
    path = written(
        tmp_path / "chatSessions" / "s.jsonl",
        {"kind": 1, "k": ["requests", 1, "result"], "v": {}},
        {"kind": 2, "k": ["requests"], "v": [{"requestId": "r2", "message": {"text": "go on"}, "response": []}]},
        {"kind": 2, "k": ["requests", 2, "response"], "v": [{"value": "Going."}]},
        {"kind": 1, "k": ["requests", 10**9, "x"], "v": 1},
    )
    items, tally = read(path)
    assert {item.session for item in items} == {"s"}
    assert [prompt.text for prompt in prompts(items, "human")] == ["go on"]
    assert [reply.text for reply in of(items, Reply)] == ["Going."]
    assert (tally.problems["no beginning"], tally.problems["leads nowhere"]) == (1, 1)


@pytest.mark.parametrize(
    "line",
    [
        *("null", "[]", "7", '{"kind": [], "k": {}}', "{}", '{"kind": 0}', '{"kind": 0, "v": null}'),
        *('{"kind": 0, "v": {}}', '{"kind": 1, "k": null, "v": 3}', '{"kind": 1, "v": {}}'),
        *('{"kind": 1, "k": [], "v": null}', '{"kind": 2, "k": [], "v": [1]}', '{"kind": 3, "k": []}'),
        *('{"kind": 1, "k": ["requests"], "v": null}', '{"kind": 1, "k": ["requests", 0], "v": null}'),
        *('{"kind": 2, "k": ["requests"], "v": 7}', '{"kind": 0, "v": {"sessionId": "t", "requests": "none"}}'),
        *('{"kind": 1, "k": ["requests", 0, "message"], "v": 7}', '{"kind": 1, "k": ["requests", 0, "response"]}'),
    ],
)
def test_a_mutation_that_makes_no_sense_costs_itself(tmp_path: Path, line: str) -> None:
    request = {"requestId": "r1", "message": {"text": "go on"}, "response": [{"value": "Going."}]}
    path = written(tmp_path / "chatSessions" / "s.jsonl", {"kind": 0, "v": {"sessionId": "s", "requests": [request]}})
    whole = read(path)[0]
    path.write_text(f"{path.read_text()}\n{line}\n")
    items, tally = read(path)
    assert items == whole
    assert [reply.text for reply in of(items, Reply)] == ["Going."]
    assert tally.problems == {"no mutation": 1}


@pytest.mark.parametrize(
    "line", ["null", "7", '{"kind": 0}', '{"kind": 0, "v": -1}', '{"kind": 0, "v": {"requests": 1}}']
)
def test_a_beginning_that_makes_no_sense_costs_itself(tmp_path: Path, line: str) -> None:
    request = {"requestId": "r1", "message": {"text": "go on"}, "response": [{"value": "Going."}]}
    path = written(tmp_path / "chatSessions" / "s.jsonl", {"kind": 2, "k": ["requests"], "v": [request]})
    path.write_text(f"{line}\n{path.read_text()}")
    items, tally = read(path)
    assert [prompt.text for prompt in prompts(items, "human")] == ["go on"]
    assert [reply.text for reply in of(items, Reply)] == ["Going."]
    assert tally.problems == {"no mutation": 1, "no beginning": 1}
    assert copilot.accepts(path, path.read_bytes()) == line.startswith("{")
    assert not copilot.accepts(tmp_path / "s.jsonl", b'{"kind": 0}')


def test_a_part_of_a_response_that_is_none_costs_itself(tmp_path: Path) -> None:
    parts = [{"value": "One. "}, None, {}, 7, {"value": "Two."}, {"kind": "unknown"}]
    path = tmp_path / "chatSessions" / "s.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"sessionId": "s", "requests": [{"message": {"text": "go"}, "response": parts}]}))
    items, tally = read(path)
    assert "".join(reply.text for reply in of(items, Reply)) == "One. Two."
    assert tally.problems == {"no part": 3}


def test_a_request_out_of_which_nothing_comes_is_counted(tmp_path: Path) -> None:
    requests = [{"message": {"text": "go on"}}, {"type": None}, None, {"message": {"text": "stop"}}]
    path = tmp_path / "chatSessions" / "s.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"sessionId": "s", "requests": requests}))
    items, tally = read(path)
    assert [prompt.text for prompt in prompts(items, "human")] == ["go on", "stop"]
    assert tally.problems == {"empty request": 2}


def test_a_log_is_replayed_and_not_read_by_lines(tmp_path: Path) -> None:
    """A stub, what it became, its tokens, and the log that VS Code compacted behind it."""
    path = written(
        tmp_path / "s.jsonl",
        {"kind": 0, "v": {"sessionId": "s", "requests": []}},
        {"kind": 2, "k": ["requests"], "v": [{"requestId": "r1", "message": {"text": "old"}, "response": []}]},
        {"kind": 1, "k": ["requests", 0, "result"], "v": {"usage": {"promptTokens": 7, "completionTokens": 3}}},
        {"kind": 1, "k": ["requests", 0, "message", "text"], "v": "new"},
    )
    items, _ = read(path)
    assert [prompt.text for prompt in prompts(items, "human")] == ["new"]
    assert of(items, Usage) == [Usage("", 7, 3)]
    with path.open("a") as file:
        file.write(json.dumps({"kind": 0, "v": {"sessionId": "s", "requests": []}}) + "\n")
    assert not of(read(path)[0], Prompt)


def test_a_person_may_refuse_or_skip_a_call_of_a_chat(tmp_path: Path) -> None:
    part = {"kind": "toolInvocationSerialized", "toolId": "run_in_terminal", "isComplete": True}
    shell = {"commandLine": {"original": "rm -r x"}, "terminalCommandState": {"exitCode": 3}}
    parts = [
        {**part, "toolCallId": "a", "isConfirmed": {"type": 0}},
        {**part, "toolCallId": "b", "isConfirmed": False},
        {**part, "toolCallId": "c", "isConfirmed": {"type": 4}, "toolSpecificData": shell},
        {**part, "toolCallId": "d", "isComplete": False},
    ]
    request = {"requestId": "r", "message": "go", "response": parts}
    items, _ = read(written(tmp_path / "s.jsonl", {"kind": 0, "v": {"sessionId": "s", "requests": [request]}}))
    assert [(call.call, call.target) for call in of(items, Call)] == [("a", ""), ("b", ""), ("c", "rm -r x"), ("d", "")]
    told = [(result.call, result.ok, result.denied, result.exit_status) for result in of(items, Result)]
    assert told == [("a", False, True, None), ("b", False, True, None), ("c", False, False, 3)]


def test_who_is_behind_a_users_message(tmp_path: Path) -> None:
    """`parentAgentTaskId` is there for all of them; content that begins like a path is no command."""
    said = [
        ("human", {"content": "hi", "parentAgentTaskId": "x"}),
        ("human", {"content": "/etc/hosts is wrong"}),
        ("slash", {"content": "/init"}),
        ("bang", {"content": "ls", "agentMode": "shell"}),
        ("injected", {"content": "# Skill", "source": "skill-pdf"}),
        ("injected", {"content": "go on", "isAutopilotContinuation": True}),
        ("delegated", {"content": "do", "source": "agent-7"}),
        ("delegated", {"content": "do", "parentToolCallId": "c"}),
        ("injected", {"content": "", "transformedContent": "You have not yet marked"}),
        ("human", {"content": "", "attachments": [{"type": "file", "path": "a.PNG"}]}),
    ]
    path = written(tmp_path / "e.jsonl", *(event("user.message", f"e{n}", **data) for n, (_, data) in enumerate(said)))
    items, _ = read(path)
    assert [prompt.speaker for prompt in of(items, Prompt)] == [speaker for speaker, _ in said]
    assert of(items, Prompt)[-1].images == 1
    assert [item.is_side for item in items].count(True) == 1


def test_an_id_that_comes_twice_is_two_things(tmp_path: Path) -> None:
    def run(number: int, command: str, status: int) -> list[dict[str, Any]]:
        asked = [{"toolCallId": "call_0", "name": "bash", "arguments": {"command": command}}]
        return [
            event("assistant.message", f"m{number}", content="", toolRequests=asked),
            event(
                "tool.execution_start",
                f"s{number}",
                toolCallId="call_0",
                toolName="bash",
                arguments={"command": command},
            ),
            event(
                "tool.execution_complete",
                f"c{number}",
                toolCallId="call_0",
                success=True,
                shellExecution={"exitCode": status},
            ),
        ]

    again = [event("user.message", "same", content="one"), event("user.message", "same", content="two")]
    items, _ = read(written(tmp_path / "e.jsonl", *run(1, "true", 0), *run(2, "false", 1), *again, again[0]))
    assert [(call.target, call.call == "call_0") for call in of(items, Call)] == [("true", True), ("false", False)]
    ended = {result.call: result.exit_status for result in of(items, Result)}
    assert [ended[call.call] for call in of(items, Call)] == [0, 1]
    assert [prompt.text for prompt in of(items, Prompt)] == ["one", "two"]


def test_what_a_tool_was_given_may_be_one_text(tmp_path: Path) -> None:
    patch = "*** Begin Patch\n*** Add File: a.py\n+x\n*** Delete File: b.py\n*** End Patch"
    begun = event("tool.execution_start", "s", toolCallId="t", toolName="apply_patch", arguments=patch)
    (call,) = of(read(written(tmp_path / "e.jsonl", begun))[0], Call)
    assert [(edit.path, edit.operation) for edit in call.edits] == [("a.py", "create"), ("b.py", "delete")]
    assert call.target == "a.py"


def test_exit_statuses_in_the_text(tmp_path: Path) -> None:
    def end(number: int, tool: str, content: str) -> list[dict[str, Any]]:
        return [
            event("tool.execution_start", f"s{number}", toolCallId=f"t{number}", toolName=tool, arguments={}),
            event(
                "tool.execution_complete",
                f"c{number}",
                toolCallId=f"t{number}",
                success=True,
                result={"content": content},
            ),
        ]

    records = [
        *end(1, "bash", "no\n<exited with exit code 4>"),
        *end(2, "powershell", "<shellId: 3 completed with exit code 0>\n"),
        *end(3, "view", "1. <exited with exit code 4>"),
        *end(4, "bash", "<exited with exit code 4>\nand it is still running"),
    ]
    results = of(read(written(tmp_path / "e.jsonl", *records))[0], Result)
    assert [(result.exit_status, result.ok) for result in results] == [
        (4, False),
        (0, True),
        (None, True),
        (None, True),
    ]
    assert results[0].output == "no\n<exited with exit code 4>"


def test_a_permission_that_was_refused(tmp_path: Path) -> None:
    records = [
        event("tool.execution_start", "s", toolCallId="t", toolName="bash", arguments={"command": "rm x"}),
        event("permission.requested", "p", requestId="r", permissionRequest={"kind": "shell", "toolCallId": "t"}),
        event("permission.completed", "q", requestId="r", result={"kind": "denied-interactively-by-user"}),
        event("tool.execution_complete", "c", toolCallId="t", success=False, error={"message": "no"}),
    ]
    (result,) = of(read(written(tmp_path / "e.jsonl", *records))[0], Result)
    assert result == Result("t", False, None, True, "no")


def test_a_thought_that_is_told_twice_is_one(tmp_path: Path) -> None:
    records = [
        event("assistant.reasoning", "a", content="hm"),
        event("assistant.message", "b", content="x", reasoningText="hm"),
        event("assistant.message", "c", content="y", reasoningText="ah"),
        event("assistant.reasoning", "d", content="ah"),
    ]
    assert [thought.text for thought in of(read(written(tmp_path / "e.jsonl", *records))[0], Thought)] == ["hm", "ah"]


def test_two_sessions_in_one_file_stay_two(tmp_path: Path) -> None:
    records = [
        event("session.start", "a", sessionId="one", context={"cwd": "/1"}),
        event("user.message", "b", content="x"),
        event("session.start", "c", sessionId="two", context={"cwd": "/2"}),
        event("user.message", "d", content="y"),
    ]
    items, _ = read(written(tmp_path / "e.jsonl", *records))
    told = [(item.session, getattr(item.what, "cwd", "")) for item in items]
    assert told == [("one", "/1"), ("one", ""), ("two", "/2"), ("two", "")]


def test_what_lies_beside_tells_what_events_do_not(tmp_path: Path) -> None:
    path = written(tmp_path / "s1" / "events.jsonl", event("user.message", "e", content="x"))
    path.with_name("workspace.yaml").write_text('id: s1\ncwd: /w/app\nbranch: main\nname: "a \\"b\\""\n')
    before = copilot.stamp(path)
    items, _ = read(path)
    assert items[-1].what == Session("copilot", cwd="/w/app", branch="main", title='a "b"')
    assert {item.session for item in items} == {"s1"}
    path.with_name("workspace.yaml").write_text("id: s1\n")
    assert copilot.stamp(path) != before
    storage = tmp_path / "workspaceStorage" / "h"
    path = written(storage / "GitHub.copilot-chat" / "transcripts" / "t.jsonl", event("user.message", "e", content="x"))
    (storage / "workspace.json").write_text('{"folder": "vscode-remote://wsl%2Bubuntu/home/u/my%20app"}')
    assert read(path)[0][-1].what == Session("copilot", cwd="/home/u/my app")


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\x00" * 50])
def test_an_empty_file_is_no_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(content)
    assert read(path) == ([], Tally())


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    for name, content in [("a.json", "{}"), ("b.json", "[1"), ("c.jsonl", "no\nevents\n"), ("d.json", "")]:
        (tmp_path / name).write_text(content)
        with pytest.raises(BadSource):
            read(tmp_path / name)
    for missing in ("e.jsonl", "f.json"):
        with pytest.raises(BadSource):
            read(tmp_path / missing)


# -- where they lie


@pytest.mark.parametrize(
    ("system", "environment", "user"),
    [
        ("linux", {}, ".config/Code/User"),
        ("linux", {"XDG_CONFIG_HOME": "~/cfg"}, "cfg/VSCodium/User"),
        ("darwin", {}, "Library/Application Support/Code - Insiders/User"),
        ("win32", {}, "AppData/Roaming/Code/User"),
        ("linux", {}, ".vscode-server/data/User"),
        ("linux", {"VSCODE_PORTABLE": "~/p"}, "p/user-data/User"),
    ],
)
def test_sessions_are_found(tmp_path: Path, system: str, environment: dict[str, str], user: str) -> None:
    """Of one that is there twice, the better one; folders of sessions that were never used are none."""
    here = tmp_path / ".copilot" / "session-state"
    wanted = [
        written(here / "s1" / "events.jsonl"),
        written(here / "s3.jsonl"),
        written(tmp_path / user / "workspaceStorage" / "h" / "chatSessions" / "a.jsonl"),
        written(tmp_path / user / "workspaceStorage" / "h" / "chatSessions" / "b.json"),
        written(tmp_path / user / "workspaceStorage" / "h" / "GitHub.copilot-chat" / "transcripts" / "c.jsonl"),
        written(tmp_path / user / "globalStorage" / "emptyWindowChatSessions" / "d.json"),
    ]
    written(here / "s1.jsonl")
    written(here / "s2" / "workspace.yaml")
    written(tmp_path / user / "workspaceStorage" / "h" / "chatSessions" / "a.json")
    written(tmp_path / user / "workspaceStorage" / "h" / "GitHub.copilot-chat" / "transcripts" / "a.jsonl")
    (here / "loop").symlink_to(here, target_is_directory=True)
    (here / "gone").symlink_to(here / "nowhere")
    world = World(environment, tmp_path, system)
    assert list(copilot.find(world)) == wanted


def test_the_command_line_may_live_elsewhere(tmp_path: Path) -> None:
    path = written(tmp_path / "moved" / "session-state" / "s" / "events.jsonl")
    assert list(copilot.find(World({"COPILOT_HOME": str(tmp_path / "moved")}, tmp_path / "home", "linux"))) == [path]
    assert list(copilot.find(World({}, tmp_path / "nothing", "linux"))) == []


def test_own_files_are_known_and_others_are_not() -> None:
    for name in [*FILES, CLI, CHAT]:
        assert copilot.accepts(sample(name), sample(name).read_bytes()[:65536]), name
    others = [
        path
        for agent in ("claude", "codex", "cursor", "gemini", "pi", "omp", "antigravity", "opencode")
        for path in (SAMPLES / agent).rglob("*")
        if path.is_file()
    ]
    assert others
    for path in others:
        with path.open("rb") as file:
            assert not copilot.accepts(path, file.read(65536)), path


# -- anything at all

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=20) | st.just("\ud83d"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


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


def whole(key: str, items: list[Item]) -> bool:
    return len({type(item.what) for item in items if item.key == key}) == 1


@pytest.mark.parametrize("name", [EVENTS[1], EVENTS[2], CHATS[2], CHATS[3], CLI, CHAT])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_value_in_any_place_raises_nothing(tmp_path: Path, name: str, data: st.DataObject) -> None:
    lines = [json.loads(line) for line in sample(name).read_bytes().split(b"\n") if line.strip(b"\x00 \r")]
    for _ in range(3):
        number = data.draw(st.integers(0, len(lines) - 1))
        lines[number] = changed(lines[number], data.draw(st.sampled_from(spots(lines[number]))), data.draw(VALUES))
    try:
        items, _ = read(written(tmp_path / "chatSessions" / "x.jsonl", *lines))
    except BadSource:
        return
    for key in {item.key for item in items}:
        assert whole(key, items), key
    for item in items:
        assert isinstance(item.session, str)
        assert item.at is None or (isinstance(item.at, int) and item.precision)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(VALUES | st.fixed_dictionaries({"kind": st.integers(0, 3), "k": VALUES | st.lists(VALUES), "v": VALUES}))
)
def test_any_records_raise_nothing(tmp_path: Path, records: list[Any]) -> None:
    for path in (tmp_path / "events.jsonl", tmp_path / "chatSessions" / "x.jsonl"):
        try:
            read(written(path, *records))
        except BadSource:
            continue


@pytest.mark.parametrize("name", [EVENTS[0], EVENTS[1], CLI])
def test_keys_do_not_depend_on_how_much_was_there(tmp_path: Path, name: str) -> None:
    """What was told of a part of the file is told of the whole: same keys, and the same behind them at the end."""
    content = sample(name).read_bytes()
    whole_items = read(sample(name))[0]
    told = {(item.key, item.what) for item in whole_items}
    chance = random.Random(7)
    for _ in range(12):
        path = tmp_path / "events.jsonl"
        path.write_bytes(content[: chance.randrange(len(content))])
        items = [item for item in read(path)[0] if not isinstance(item.what, Session)]
        assert {(item.key, item.what) for item in items} <= told


def test_a_copy_of_an_event_is_known_by_its_origin() -> None:
    """Only ids that are unique in the world are given: a fork bears them, another session does not."""
    items, _ = read(sample(EVENTS[0]))
    origins = [item.origin for item in items if not isinstance(item.what, Session)]
    assert all(origins)
    assert len(set(origins)) == len(origins)
    assert not any(item.origin for item in read(sample(EVENTS[1]))[0])


@pytest.mark.parametrize(("depth", "is_read"), [(190, True), (210, False), (500, False), (980, False), (50_000, False)])
def test_what_lies_too_deep_costs_itself(tmp_path: Path, depth: int, is_read: bool) -> None:
    deep = json.dumps(event("user.message", "a", content="a", deep="@")).replace('"@"', "[" * depth + "]" * depth)
    path = tmp_path / "events.jsonl"
    path.write_text(deep + "\n" + json.dumps(event("user.message", "b", content="b")) + "\n")
    assert human_text(path) == (["a", "b"] if is_read else ["b"])
    log = tmp_path / "s.jsonl"
    log.write_text(
        '{"kind":0,"v":{"sessionId":"s","requests":[{"message":{"text":"x"},"y":' + "[" * depth + "]" * depth + "}]}}\n"
    )
    if is_read:
        assert human_text(log) == ["x"]
    else:
        with pytest.raises(BadSource):
            human_text(log)


def human_text(path: Path) -> list[str]:
    return [prompt.text for prompt in prompts(read(path)[0], "human")]
