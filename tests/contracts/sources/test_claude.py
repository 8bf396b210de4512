"""Claude Code's transcripts: every sample's counts, the traps that made other readers fail, and garbage."""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bede.sources import claude, jsonl
from bede.sources.port import Call, Item, Prompt, Reply, Result, Rewind, Session, Spot, Tally, Thought, Usage, World

SHARED = Path(__file__).resolve().parents[4] / "shared"
SAMPLES, LIVE = SHARED / "transcripts", SHARED / "transcripts-live" / "claude-code"
ABSENT = "the sample transcripts are not beside this checkout"

SESSION = "11111111-1111-4111-8111-111111111111"
EDITS = ("Edit", "MultiEdit", "Write", "NotebookEdit")

#: Counts of `expected.json` that cannot follow from items, and what follows instead.
OTHERWISE: dict[str, dict[str, Any]] = {
    # All thoughts of this session are empty in the file: the agent kept signatures only.
    "ef958aa1-0e93-49f0-bb71-150f63befcd1.jsonl": {"thinking_blocks": 0},
    # A prompt has the uuid of a broken record before it; it is a prompt all the same. Text beside no block is nobody's.
    "edge_cases.jsonl": {"user_prompts": 3, "ide_context_only": 0},
    # Its authors gave 45 different records one uuid: the count drops all but the first, items keep what differs.
    "small.jsonl": {
        "user_prompts": 4,
        "notifications": 1,
        "images": 1,
        "assistant_text_blocks": 5,
        "thinking_blocks": 3,
        "tool_calls": 3,
        "tool_calls_by_name": {"bash": 1, "Bash": 1, "[trimmed for fixture]": 1},
        "tool_calls_without_result": 2,
        "models": ["claude-fable-5", "claude-opus-4-8", "claude-opus-5", "claude-sonnet-5"],
        "session_ids": ["[trimmed for fixture]", "ses_stage0_small"],
    },
}


def expected(name: str) -> dict[str, dict[str, Any]]:
    """Return the ground truth of our agent's files; nothing where it is absent."""
    path = SAMPLES / name
    told = json.loads(path.read_text()) if path.exists() else {}
    return {key: value for key, value in told.items() if key.startswith("claude/") and key.endswith(".jsonl")}


def read(data: bytes, path: Path = Path(f"{SESSION}.jsonl"), cuts: tuple[int, ...] = ()) -> tuple[list[Item], Tally]:
    """Return all items of a file that grows at the given places, with its state through JSON at each."""
    cursor, state, tally, items = jsonl.Cursor(), "{}", Tally(), []
    for end in (*cuts, len(data)):
        at = json.loads(state)
        tally.problems.pop("unfinished", None)
        for spot, record in jsonl.records(io.BytesIO(data[:end]), path, cursor, tally):
            items.extend(claude.take(record, spot, at, tally))
        state = json.dumps(at)
    return items, tally


@cache
def sample(path: Path) -> tuple[tuple[Item, ...], tuple[Item, ...], Tally]:
    """Return the items of a sample, those of them that stand in the end, and the tally."""
    items, tally = read(path.read_bytes(), path)
    return tuple(items), tuple(final(items)), tally


def final(items: list[Item]) -> list[Item]:
    """Return the items that stand when later ones have taken the place of earlier ones of their key."""
    return list({(item.session, item.key): item for item in items}.values())


def lines(*records: Any) -> bytes:
    """Return records as the agent writes them."""
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def entry(kind: str, uuid: str, **more: Any) -> dict[str, Any]:
    """Return a record with an envelope."""
    base = {"type": kind, "uuid": uuid, "sessionId": SESSION, "timestamp": "2026-03-01T10:00:00.000Z", "cwd": "/p"}
    return {**base, "version": "2.1.200", "isSidechain": False, **more}


def user(uuid: str, content: Any, **more: Any) -> dict[str, Any]:
    """Return a record in the user's role."""
    return entry("user", uuid, message={"role": "user", "content": content}, **more)


def assistant(uuid: str, *blocks: Any, identity: str = "m", usage: Any = None, **more: Any) -> dict[str, Any]:
    """Return a record of the assistant."""
    message = {"id": identity, "role": "assistant", "model": "claude-x-1", "content": list(blocks), "usage": usage}
    return entry("assistant", uuid, message=message, **{"requestId": "req", **more})


def text(said: str) -> dict[str, Any]:
    """Return a block of text."""
    return {"type": "text", "text": said}


def tool(identity: str, name: str, **given: Any) -> dict[str, Any]:
    """Return a block that calls a tool."""
    return {"type": "tool_use", "id": identity, "name": name, "input": given}


def ended(uuid: str, call: str, content: Any, error: bool = False, **more: Any) -> dict[str, Any]:
    """Return a record with the result of a call."""
    block = {"type": "tool_result", "tool_use_id": call, "content": content, "is_error": error}
    return user(uuid, [block], **more)


def whats(items: Any, kind: type) -> list[Any]:
    """Return what the items of one kind are."""
    return [item.what for item in items if isinstance(item.what, kind)]


def prompts(items: Any) -> list[tuple[str, str]]:
    """Return who says what in the user's role."""
    return [(what.speaker, what.text) for what in whats(items, Prompt)]


def told(*records: Any, path: str = f"{SESSION}.jsonl") -> list[Item]:
    """Return the items that stand for some records."""
    return final(read(lines(*records), Path(path))[0])


# The samples.


def counts(path: Path) -> dict[str, Any]:
    """Return what can be counted in a sample's items, by the names of its ground truth."""
    items, kept, tally = sample(path)
    said = whats(kept, Prompt)
    speakers = Counter(what.speaker for what in said)
    calls, results, spent = whats(kept, Call), whats(kept, Result), whats(kept, Usage)
    edits = [call for call in calls if call.tool in EDITS]
    well = {result.call for result in results if result.ok}
    sessions = whats(items, Session)
    is_agent = path.name.startswith("agent-")
    return {
        "user_prompts": speakers["delegated"] + speakers["human"] if is_agent else speakers["human"],
        "slash_commands": speakers["slash"],
        "bang_commands": speakers["bang"],
        "interrupts": speakers["interrupt"],
        "notifications": speakers["notification"],
        "compact_summaries": speakers["compact-summary"],
        "images": sum(what.images for what in said),
        "assistant_text_blocks": sum(not what.is_error for what in whats(kept, Reply)),
        "thinking_blocks": len(whats(kept, Thought)),
        "tool_calls": len(calls),
        "tool_calls_by_name": dict(Counter(call.tool for call in calls)),
        "tool_results": len(results),
        "tool_errors": sum(result.ok is False for result in results),
        "tool_calls_without_result": len({call.call for call in calls} - {result.call for result in results}),
        "file_edit_calls": dict(Counter(call.tool for call in edits)),
        "file_edit_calls_failed": sum(result.call in {c.call for c in edits} and not result.ok for result in results),
        "multiedit_subedits": sum(len(call.edits) for call in edits if call.tool == "MultiEdit"),
        "distinct_files_targeted": len({call.target for call in edits}),
        "distinct_files_edited_ok": len({call.target for call in edits if call.call in well}),
        "usage_dedup": {
            "input": sum(usage.input for usage in spent),
            "output": sum(usage.output for usage in spent),
            "cache_read": sum(usage.cache_read for usage in spent),
            "cache_write": sum(usage.cache_write for usage in spent),
        },
        "session_ids": sorted({item.session.split("/")[0] for item in items}),
        "cwd": sorted({session.cwd for session in sessions} - {""}),
        "git_branches": sorted({session.branch for session in sessions} - {""}),
        "agent_versions": sorted({session.version for session in sessions} - {""}),
        "models": sorted({session.model for session in sessions} - {""}),
        "record_types": dict(tally.types),
        "bad_lines": sum(tally.problems[why] for why in ("torn", "unfinished", "not an object")),
        "injected": speakers["injected"],
    }


def injected(truth: dict[str, Any], path: Path) -> int:
    """Return how many items nobody said: what the truth counts under four names, and what hooks added."""
    kinds = ("meta_user_records", "local_command_outputs", "ide_context_only", "memory_inputs")
    hooks = truth["record_types"].get("attachment/hook_additional_context", 0)
    return sum(truth[kind] for kind in kinds) + int(hooks)


@pytest.mark.skipif(not expected("expected.json"), reason=ABSENT)
@pytest.mark.parametrize("key", expected("expected.json"))
def test_every_count_of_a_sample_is_the_one_that_is_known(key: str) -> None:
    truth = expected("expected.json")[key]
    path = SAMPLES / key
    truth = {**truth, **OTHERWISE.get(path.name, {})}
    truth["models"] = [name for name in truth["models"] if name not in ("null", "<synthetic>")]
    truth["injected"] = injected(truth, path)
    found = counts(path)
    for name, value in found.items():
        known = sorted(truth[name]) if isinstance(truth[name], list) else truth[name]
        assert value == known, name


@pytest.mark.skipif(not expected("expected.json"), reason=ABSENT)
@pytest.mark.parametrize("key", expected("expected.json"))
def test_a_sample_s_first_prompt_times_and_agents_are_the_ones_that_are_known(key: str) -> None:
    truth, path = expected("expected.json")[key], SAMPLES / key
    items, kept, _ = sample(path)
    spoken = [what.text for what in whats(kept, Prompt) if what.speaker in ("human", "delegated")]
    if truth["first_prompt"] and truth["user_prompts"]:
        assert any(said.startswith(truth["first_prompt"]) for said in spoken)
    times = {item.at for item in items if item.at is not None}
    if times:
        assert moment(truth["first_timestamp"]) <= min(times)
        assert truth["last_timestamp"][0] == "[" or max(times) <= moment(truth["last_timestamp"])
    agents = {item.session.partition("/")[2] for item in items} - {
        "",
        path.stem.removeprefix("agent-") if "test-hash" in path.stem else "",
    }
    assert agents <= set(truth["agent_ids"])
    assert truth["sidechain_records"] == 0 or not agents or agents == set(truth["agent_ids"])


def moment(written: str) -> int:
    """Return a time of the ground truth in microseconds."""
    return (datetime.fromisoformat(written) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@pytest.mark.skipif(not expected("expected.json"), reason=ABSENT)
def test_times_are_those_of_the_records_to_the_microsecond() -> None:
    for key in expected("expected.json"):
        raw = [line for line in (SAMPLES / key).read_bytes().split(b"\n") if line.strip()]
        items, _, tally = sample(SAMPLES / key)
        if tally.problems or len(raw) != sum(tally.types.values()):
            continue
        for item in items:
            written = json.loads(raw[item.line - 1]).get("timestamp")
            if item.at is not None:
                assert item.at == moment(written), (key, item.line)
                digits = len(written.partition(".")[2].rstrip("Z"))
                assert item.precision == {0: "s", 3: "ms", 6: "us"}[digits]
            else:
                assert written is None or written.startswith("["), (key, item.line)


@pytest.mark.skipif(not expected("expected.json"), reason=ABSENT)
def test_two_items_of_a_sample_share_a_key_only_where_a_later_one_takes_its_place() -> None:
    for key in expected("expected.json"):
        items, kept, _ = sample(SAMPLES / key)
        again = Counter((item.session, item.key) for item in items)
        for item in items:
            if again[item.session, item.key] > 1 and not isinstance(item.what, (Session, Usage)):
                twins = {repr(twin.what) for twin in items if (twin.session, twin.key) == (item.session, item.key)}
                assert len(twins) == 1 or item.key.startswith("@"), (key, item.key)
        assert len({(item.session, item.key) for item in kept}) == len(kept)


@pytest.mark.skipif(not expected("expected.json"), reason=ABSENT)
def test_the_tree_of_a_sample_has_its_parents() -> None:
    """What an item follows is an item before it."""
    path = next(SAMPLES / key for key in expected("expected.json") if "ef958aa1" in key and "subagents" not in key)
    items = sample(path)[0]
    seen: set[str] = set()
    for item in items:
        assert not item.parent or item.parent in seen
        seen.add(item.key)
    assert sum(bool(item.parent) for item in items) > len(items) * 3 // 4


@pytest.mark.skipif(not expected("expected.json"), reason=ABSENT)
@pytest.mark.parametrize("seed", range(4))
def test_wherever_a_file_is_cut_the_same_items_come_out(seed: int) -> None:
    chance = random.Random(seed)
    keys = [key for key in expected("expected.json") if (SAMPLES / key).stat().st_size < 400_000]
    extra = sorted((SAMPLES / "synthetic" / "claude").rglob("*.jsonl")) + sorted(LIVE.rglob("*.jsonl"))
    for path in [*(SAMPLES / key for key in chance.sample(keys, 12)), *chance.sample(extra, 4)]:
        data = path.read_bytes()
        cuts = tuple(sorted(chance.randrange(len(data) + 1) for _ in range(8)))
        items, tally = read(data, path, cuts)
        assert items == list(sample(path)[0]), path
        assert tally.types == sample(path)[2].types


# The traps that were made by hand.

MADE = SAMPLES / "synthetic" / "claude"
PROJECT = MADE / "projects" / "-home-alice-my-proj-x"
HANDMADE = expected("synthetic/expected_handmade.json")
CWD = HANDMADE.get(f"claude/projects/-home-alice-my-proj-x/{SESSION}.jsonl", {}).get("cwd", "")
OTHER = "22222222-2222-4222-8222-222222222222"
made = pytest.mark.skipif(not MADE.exists(), reason=ABSENT)


@made
def test_the_session_made_by_hand() -> None:
    items = sample(PROJECT / f"{SESSION}.jsonl")[1]
    assert prompts(items) == [("human", "Rename helper() to assist() in util.py")]
    assert [reply.text for reply in whats(items, Reply)] == ["I will rename it.", "Done: \U0001f680"]
    assert [call.target for call in whats(items, Call)] == [f"{CWD}/util.py"]
    assert [result.ok for result in whats(items, Result)] == [True]
    assert {item.session for item in items} == {SESSION}
    assert whats(items, Session)[0].cwd == CWD
    assert sorted(usage.output for usage in whats(items, Usage)) == [9, 55]


@made
def test_a_fork_made_by_hand_shows_what_it_copied_and_what_is_new() -> None:
    first = {item.origin for item in sample(PROJECT / f"{SESSION}.jsonl")[1] if item.origin}
    items, kept, tally = sample(PROJECT / f"{OTHER}.jsonl")
    copied = {item.origin.split(":")[0] for item in kept if item.origin in first}
    assert copied == {"u1", "a1", "a2", "a3", "r1"}
    assert {item.session for item in kept} == {OTHER}
    human = [item for item in kept if isinstance(item.what, Prompt) and item.what.speaker == "human"]
    assert [item.what.text for item in human if isinstance(item.what, Prompt)] == [
        "Rename helper() to assist() in util.py",
        "also fix the docs",
        "cut emoji \ud83d end",
    ]
    speakers = Counter(speaker for speaker, _ in prompts(kept))
    assert (speakers["slash"], speakers["interrupt"], speakers["compact-summary"]) == (1, 1, 1)
    assert ("slash", "/cost") in prompts(kept)
    assert [reply.text for reply in whats(kept, Reply) if reply.is_error] == ["API Error: overloaded"]
    assert tally.problems == {"unfinished": 1}
    assert f"{CWD}/.claude/worktrees/w1" in {what.cwd for what in whats(items, Session)}


@made
def test_a_sub_agent_made_by_hand_is_a_session_of_its_own() -> None:
    items = sample(PROJECT / SESSION / "subagents" / "agent-abc123.jsonl")[1]
    assert prompts(items) == [("delegated", "Find usages of helper")]
    assert {item.session for item in items} == {f"{SESSION}/abc123"}
    assert whats(items, Session)[0].parent == SESSION
    assert whats(items, Session)[0].origin == "subagent"
    assert all(item.is_side for item in items)


@made
def test_a_mark_at_the_start_carriage_returns_and_bytes_that_are_no_text_cost_nothing() -> None:
    items, tally = sample(MADE / "crlf_bom.jsonl")[1:]
    assert prompts(items) == [("human", "Rename helper() to assist() in util.py"), ("human", "bad byte � here")]
    assert not tally.problems


# Real runs.


def live() -> list[Path]:
    """Return the scenarios of real runs."""
    return sorted(LIVE.glob("*/expected.json"))


@pytest.mark.skipif(not live(), reason="the transcripts of real runs are not beside this checkout")
@pytest.mark.parametrize("path", live(), ids=lambda path: path.parent.name)
def test_a_real_run_reads_as_its_scenario_went(path: Path) -> None:
    truth = json.loads(path.read_text())
    items = [item for name in truth["files"] for item in sample(path.parent / name)[1]]
    turns = truth["turns"]
    assert {item.session for item in items} == {truth["session_id"]}
    assert [said for who, said in prompts(items) if who == "human"] == [turn["prompt_as_stored"] for turn in turns]
    assert [reply.text for reply in whats(items, Reply)] == [said for turn in turns for said in turn["assistant_texts"]]
    noise = [said for turn in turns for said in turn["injected_by_hooks"]]
    assert [said for who, said in prompts(items) if who == "injected"] == noise
    calls, results = whats(items, Call), {result.call: result for result in whats(items, Result)}
    known = [call for turn in turns for call in turn["tool_calls"]]
    assert [call.call for call in calls] == [call["id"] for call in known]
    kinds = {"shell": "shell", "create": "create", "edit": "edit", "read": "read", "mcp": "mcp", "search": "search"}
    for call, scene in zip(calls, known, strict=True):
        result = results[call.call]
        assert (call.tool, call.sort) == (scene["tool"], kinds[scene["kind"]])
        assert call.target in scene["args"].values()
        assert (result.ok, result.denied) == (scene["ok"], scene["denied"])
        assert result.exit_status == (None if scene["denied"] else scene["exit_code"])
        assert bool(result.output) != scene["ok"]
    changed = {edit.path for call in calls for edit in call.edits if results[call.call].ok}
    assert changed == {f"{truth['cwd']}/{name}" for turn in turns for name in turn["edited_files"]}
    between = [(moment(turn["started"]) - 1_000_000, moment(turn["ended"]) + 1_000_000) for turn in turns]
    assert all(any(low <= item.at <= high for low, high in between) for item in items if item.at is not None)
    session = [item.what for item in items if isinstance(item.what, Session)][-1]
    assert (session.cwd, session.branch) == (truth["cwd"], "main")
    assert truth["agent_version"].startswith(session.version)


@pytest.mark.skipif(not live(), reason="the transcripts of real runs are not beside this checkout")
def test_what_refused_an_edit_is_kept_with_its_reason() -> None:
    for run in ("deny", "deny-exit2"):
        path = LIVE / run / "expected.json"
        truth = json.loads(path.read_text())
        items = [item for name in truth["files"] for item in sample(path.parent / name)[1]]
        reasons = [reason for turn in truth["turns"] for reason in turn["refused_by_hooks"]]
        denied = [result.output for result in whats(items, Result) if result.denied]
        assert len(denied) == len(reasons)
        assert all(reason in output for reason, output in zip(reasons, denied, strict=True))


# Who speaks.


@pytest.mark.parametrize(
    ("content", "speaker", "said"),
    [
        ("  two\n\nlines ", "human", "  two\n\nlines "),
        ("<system-reminder>a</system-reminder>\n<ide_selection>b</ide_selection>\n  do it", "human", "do it"),
        ([text("<ide_opened_file>x</ide_opened_file>"), text("fix <b>this</b>")], "human", "fix <b>this</b>"),
        ([text("one"), text("two")], "human", "one\ntwo"),
        ("<div>why is this bold?</div>", "human", "<div>why is this bold?</div>"),
        ("[link](x) is dead", "human", "[link](x) is dead"),
        ("Caveat emptor, and fix it", "human", "Caveat emptor, and fix it"),
        ("<system-reminder>a</system-reminder>", "injected", "<system-reminder>a</system-reminder>"),
        ("<system-reminder>never closed", "injected", "<system-reminder>never closed"),
        ("<command-name>/x</command-name><command-args>a b</command-args>", "slash", "/x a b"),
        ("<command-message>x is…</command-message>\n<command-name>x</command-name>", "slash", "/x"),
        (
            [text("<system-reminder>r</system-reminder>"), text("<command-name>/compact</command-name>")],
            "slash",
            "/compact",
        ),
        ("<bash-input>ls -l</bash-input>", "bang", "ls -l"),
        ("<bash-stdout>x</bash-stdout><bash-stderr></bash-stderr>", "injected", None),
        ("<local-command-stdout></local-command-stdout>", "injected", None),
        ("Caveat: The messages below were generated", "injected", None),
        ("[Request interrupted by user for tool use]", "interrupt", None),
        ("<task-notification>\n<task-id>x</task-id></task-notification>", "notification", None),
        ("<agent-notification>x</agent-notification>", "notification", None),
        ('<teammate-message teammate_id="a">x</teammate-message>', "notification", None),
        ("<user-memory-input>always use tabs</user-memory-input>", "slash", "always use tabs"),
    ],
)
def test_who_speaks_is_told_from_how_a_text_begins(content: Any, speaker: str, said: str | None) -> None:
    assert prompts(told(user("u", content))) == [(speaker, content if said is None else said)]


def test_marks_of_the_record_go_before_the_text() -> None:
    assert prompts(told(user("a", "skill text", isMeta=True))) == [("injected", "skill text")]
    assert prompts(told(user("b", "so far…", isCompactSummary=True))) == [("compact-summary", "so far…")]
    assert prompts(told(user("c", "task", isSidechain=True))) == [("delegated", "task")]
    assert prompts(told(user("d", "tick", promptSource="system"))) == [("injected", "tick")]
    assert prompts(told(user("e", "x", origin={"kind": "task-notification"}))) == [("notification", "x")]
    agent = {"kind": "peer", "senderTaskId": "t1"}
    assert prompts(told(user("g", "x", origin=agent))) == [("notification", "x")]
    message = {"type": "queued_command", "prompt": "x", "commandMode": "prompt", "origin": agent}
    assert prompts(told(entry("attachment", "h", attachment=message))) == [("notification", "x")]
    result = {"type": "tool_result", "tool_use_id": "t", "content": "ok"}
    assert prompts(told(user("f", [result, text("laid in")]))) == [("injected", "laid in")]


def test_an_image_alone_is_a_prompt_and_an_empty_message_is_none() -> None:
    assert whats(told(user("u", [{"type": "image"}, {"type": "image"}])), Prompt) == [Prompt("", "human", 2)]
    items, tally = read(lines(user("v", "  "), user("w", [])))
    assert not whats(items, Prompt)
    assert tally.problems == {"user without text": 2}


# The queue.


def queue(operation: str, content: Any = None) -> dict[str, Any]:
    """Return an operation upon the queue."""
    record = {"type": "queue-operation", "operation": operation, "sessionId": SESSION}
    return {**record, "timestamp": "2026-03-01T10:00:00.000Z", **({} if content is None else {"content": content})}


def attached(uuid: str, prompt: Any, mode: str = "prompt") -> dict[str, Any]:
    """Return a queued prompt as it is laid into a turn that runs."""
    return entry("attachment", uuid, attachment={"type": "queued_command", "prompt": prompt, "commandMode": mode})


def test_a_queued_prompt_is_there_once_however_often_it_shows_up() -> None:
    editor = [queue("enqueue", [text("go on")]), queue("dequeue"), user("u", [text("go on")])]
    terminal = [queue("enqueue", "go on"), attached("q", "go on"), queue("remove")]
    late = [queue("enqueue", "go on"), queue("remove"), attached("q", "go on")]
    for records in (editor, terminal, late, terminal[:1], [attached("q", "go on")], terminal[:2]):
        assert prompts(told(*records)) == [("human", "go on")]
    wrapped = [text("<ide_selection>s</ide_selection>"), text("go on")]
    assert prompts(told(queue("enqueue", wrapped), queue("dequeue"), user("u", wrapped))) == [("human", "go on")]


def test_the_same_words_said_twice_are_said_twice() -> None:
    twice = [queue("enqueue", "yes"), queue("dequeue"), user("u", "yes"), user("v", "yes")]
    assert prompts(told(*twice)) == [("human", "yes")] * 2
    inside = [queue("enqueue", "yes"), attached("q", "yes"), queue("remove"), user("v", "yes")]
    assert prompts(told(*inside)) == [("human", "yes")] * 2
    both = [queue("enqueue", "yes"), queue("enqueue", "yes"), attached("q", "yes"), attached("r", "yes")]
    assert prompts(told(*both, queue("remove"), queue("remove"), user("v", "yes"))) == [("human", "yes")] * 3


def test_what_came_out_of_the_queue_and_never_showed_up_takes_no_later_prompt_s_place() -> None:
    items = told(queue("enqueue", "yes"), queue("dequeue"), user("u", "no"), user("v", "yes"))
    assert prompts(items) == [("human", "yes"), ("human", "no"), ("human", "yes")]


def test_two_that_wait_come_out_in_their_order() -> None:
    records = [queue("enqueue", "a"), queue("enqueue", "b"), attached("q", "a"), queue("remove")]
    assert prompts(told(*records, queue("dequeue"), user("u", "b"))) == [("human", "a"), ("human", "b")]


def test_a_command_that_waited_is_the_command_that_is_run() -> None:
    ran = user("u", "<command-message>init</command-message>\n<command-name>/init</command-name>")
    assert prompts(told(queue("enqueue", "/init"), queue("dequeue"), ran)) == [("slash", "/init")]
    assert prompts(told(queue("enqueue", "/var/x is full"))) == [("human", "/var/x is full")]
    assert prompts(told(attached("q", "ls", "bash"))) == [("bang", "ls")]
    assert prompts(told(attached("q", "done", "task-notification"))) == [("notification", "done")]


def test_what_is_pulled_back_out_of_the_queue_was_not_said() -> None:
    items = told(queue("enqueue", "a"), queue("enqueue", "b"), queue("popAll"), user("u", "a and b"))
    back = whats(items, Rewind)[0].keys
    assert [item.what.text for item in items if isinstance(item.what, Prompt) and item.key not in back] == ["a and b"]
    assert set(back) < {item.key for item in items}


# The traps of other readers.


def test_usage_is_counted_once_a_request_and_the_largest_wins() -> None:
    def cost(output: int) -> dict[str, Any]:
        return {"input_tokens": 10, "output_tokens": output, "cache_read_input_tokens": 5}

    part = [assistant(f"a{at}", text(f"t{at}"), usage=cost(output)) for at, output in enumerate((1, 631, 631, 2))]
    items = read(lines(*part))[0]
    assert whats(final(items), Usage) == [Usage("claude-x-1", 10, 631, 5)]
    assert [usage.output for usage in whats(items, Usage)] == [1, 631]
    other = assistant("b", text("x"), usage=cost(7), requestId="another")
    assert sum(usage.output for usage in whats(told(*part, other), Usage)) == 638
    thought = assistant("c", text("x"), usage={"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}})
    assert whats(told(thought), Usage) == [Usage("claude-x-1", output=9, reasoning=4)]


def test_records_of_one_message_do_not_hide_each_other() -> None:
    items = told(assistant("a", text("I look.")), assistant("b", tool("t1", "Bash", command="ls")))
    assert [type(item.what).__name__ for item in items] == ["Session", "Reply", "Call"]


def test_blocks_of_one_record_are_items_of_their_own() -> None:
    thought = {"type": "thinking", "thinking": "hm"}
    blocks = [thought, text("same"), text("same"), tool("", "LS", path="/"), tool("", "LS", path="/")]
    items = told(assistant("a", *blocks))
    assert len(items) == 6
    assert len({call.call for call in whats(items, Call)}) == 2


def test_a_record_that_is_appended_again_is_there_once() -> None:
    """As an editor does when it is opened again: same uuid, same time, another folder."""
    once = [user("u", "hi"), assistant("a", text("ho")), ended("r", "t", "done")]
    again = [{**record, "cwd": "/p/sub"} for record in once]
    assert [item.what for item in told(*once, *again)][1:] == [item.what for item in told(*once)][1:]


def test_a_reply_that_is_repeated_under_a_fresh_uuid_is_there_once_and_so_is_its_cost() -> None:
    identity, call = "msg_01ABCDEFGHIJKLMNOPQRSTUV", "toolu_01ABCDEFGHIJKLMNOPQRSTUV"
    usage = {"output_tokens": 5}

    def turn(mark: str) -> list[dict[str, Any]]:
        said = assistant(f"{mark}1", text("ho"), identity=identity, usage=usage)
        called = assistant(f"{mark}2", tool(call, "Bash", command="ls"), identity=identity, usage=usage)
        return [said, called, ended(f"{mark}3", call, "x")]

    items = told(*turn("a"), *turn("b"))
    assert Counter(type(item.what) for item in items) == {Session: 1, Reply: 1, Call: 1, Usage: 1, Result: 1}


def test_an_id_that_is_used_twice_for_different_things_hides_neither() -> None:
    first, second = user("same", "one"), user("same", "two")
    assert prompts(told(first, second)) == [("human", "one"), ("human", "two")]
    assert len({item.origin for item in told(first, second)} - {""}) == 2
    calls = [assistant("a", tool("t", "Bash", command="ls")), assistant("b", tool("t", "Bash", command="pwd"))]
    results = [ended("c", "t", "x"), ended("d", "t", "Exit code 3\nno", True)]
    items = told(*calls, *results)
    assert [call.target for call in whats(items, Call)] == ["ls", "pwd"]
    assert [result.exit_status for result in whats(items, Result)] == [None, 3]
    long = "toolu_01ABCDEFGHIJKLMNOPQRSTUV"
    twice = told(*(assistant(mark, tool(long, "Bash", command=mark)) for mark in "ab"))
    assert len(whats(twice, Call)) == 2


def test_two_sessions_in_one_file_stay_apart() -> None:
    items = told(user("a", "x"), user("b", "y", sessionId="other", cwd="/q"), user("c", "z"))
    assert [(item.session, item.what.text) for item in items if isinstance(item.what, Prompt)] == [
        (SESSION, "x"),
        ("other", "y"),
        (SESSION, "z"),
    ]
    assert {item.session: item.what.cwd for item in items if isinstance(item.what, Session)} == {
        SESSION: "/p",
        "other": "/q",
    }


def test_titles_of_other_sessions_are_not_ours_and_a_given_title_goes_before_a_made_one() -> None:
    made_up, given_ = {"type": "ai-title", "aiTitle": "made"}, {"type": "custom-title", "customTitle": "given"}
    other = {"type": "summary", "summary": "Old", "leafUuid": "z"}
    titles = [{**title, "sessionId": SESSION} for title in (made_up, given_, made_up)]
    assert whats(told(other, other, user("u", "x"), *titles), Session)[-1].title == "given"
    assert whats(told(titles[0], user("u", "x")), Session)[-1].title == "made"
    assert not told(other, *titles)


def test_a_session_is_told_again_only_when_it_changes() -> None:
    steps = [user("a", "1"), user("b", "2"), user("c", "3", gitBranch="dev"), user("d", "4", cwd="/q", gitBranch="")]
    found = whats(read(lines(*steps))[0], Session)
    assert [(session.cwd, session.branch) for session in found] == [("/p", ""), ("/p", "dev"), ("/q", "dev")]


@pytest.mark.parametrize(
    "cwd", ["C:\\Program Files\\Git", "c:/a_b", "\\\\?\\D:\\x", "/mnt/c/a.b", "/u/my_proj", "/u/a-b"]
)
def test_a_folder_is_told_as_the_agent_wrote_it_whatever_the_file_s_place(cwd: str) -> None:
    items = told(user("u", "x", cwd=cwd), path="/h/.claude/projects/E--A-B/s.jsonl")
    assert [session.cwd for session in whats(items, Session)] == [cwd]


def test_a_fork_that_names_its_source_is_one() -> None:
    items = told(user("a", "x", forkedFrom={"sessionId": "src", "messageUuid": "m"}), user("b", "y"))
    assert (whats(items, Session)[-1].parent, whats(items, Session)[-1].origin) == ("src", "fork")
    assert [item.is_replayed for item in items if isinstance(item.what, Prompt)] == [True, False]


def test_a_sub_agent_is_a_session_of_its_own_wherever_it_stands() -> None:
    inside = user("a", "task", isSidechain=True, agentId="ab")
    beside = user("a", "task", isSidechain=True)
    for items in (told(inside), told(beside, path="/h/.claude/projects/p/agent-ab.jsonl")):
        assert {item.session for item in items} == {f"{SESSION}/ab"}
        assert whats(items, Session) == [Session("claude-code", "2.1.200", "", "/p", "", SESSION, "subagent")]
    nameless = {"type": "user", "uuid": "a", "message": {"content": "task"}}
    path = "/h/.claude/projects/p/s1/subagents/workflows/wf_1/agent-cd.jsonl"
    assert {item.session for item in told(nameless, path=path)} == {"s1/cd"}
    assert [(item.session, item.is_side) for item in told(beside)] == [(SESSION, True)] * 2


def test_an_item_follows_the_one_before_it_in_the_tree_through_records_that_say_nothing() -> None:
    records = [
        user("a", "x"),
        entry("progress", "p", parentUuid="a"),
        entry("attachment", "q", parentUuid="p", attachment={"type": "todo_reminder"}),
        assistant("b", text("1"), text("2"), parentUuid="q"),
        user("c", "y", parentUuid="b"),
        entry("system", "s", parentUuid=None, logicalParentUuid="c", subtype="compact_boundary"),
        user("d", "so far", parentUuid="s", isCompactSummary=True),
        user("e", "another way", parentUuid="a"),
    ]
    by_text = {item.what.text: item for item in told(*records) if isinstance(item.what, (Prompt, Reply))}
    follows = {"1": "x", "2": "x", "y": "2", "so far": "y", "another way": "x"}
    assert {said: by_text[said].parent for said in follows} == {said: by_text[to].key for said, to in follows.items()}


def test_what_the_agent_takes_back_is_told() -> None:
    items = told(
        user("u", "x"), assistant("a", text("par")), assistant("b", text("whole"), supersedesUuids=["a", "zz", 4])
    )
    keys = {item.what.text: item.key for item in items if isinstance(item.what, Reply)}
    assert whats(items, Rewind) == [Rewind((keys["par"],))]
    gone = entry("system", "s", subtype="api_refusal", retractedMessageUuids=["b"])
    assert whats(told(assistant("b", text("x")), gone), Rewind)


def test_a_failed_request_is_the_agent_s_own_word() -> None:
    record = assistant("a", text("API Error: 529"), isApiErrorMessage=True)
    record["message"]["model"] = "<synthetic>"
    items = told(record)
    assert whats(items, Reply) == [Reply("API Error: 529", "", True)]
    assert whats(items, Session)[0].model == ""


# Tools.


@pytest.mark.parametrize(
    ("name", "given_", "target", "sort"),
    [
        ("Bash", {"command": "ls", "description": "d"}, "ls", "shell"),
        ("Read", {"file_path": "/a"}, "/a", "read"),
        ("Grep", {"pattern": "x", "path": "/p"}, "x", "search"),
        ("WebFetch", {"url": "http://a", "prompt": "p"}, "http://a", "web"),
        ("Agent", {"description": "find", "prompt": "long"}, "find", "task"),
        ("SendMessage", {"recipient": "bob", "content": "c"}, "bob", "task"),
        ("NotebookEdit", {"notebook_path": "/n.ipynb", "new_source": "x"}, "/n.ipynb", "edit"),
        ("mcp__shop__ping", {"word": "w", "n": 3}, "w", "mcp"),
        ("mcp__shop__pair", {"a": "1", "b": "2"}, "", "mcp"),
        ("bash", {"command": "ls"}, "ls", "other"),
        ("Bash", {"command": ["ls"]}, "", "shell"),
        ("Unheard", {}, "", "other"),
    ],
)
def test_what_a_call_is_upon(name: str, given_: dict[str, Any], target: str, sort: str) -> None:
    call = whats(told(assistant("a", tool("t", name, **given_))), Call)[0]
    assert (call.tool, call.target, call.sort) == (name, target, sort)


def test_what_a_call_would_change() -> None:
    def edits(name: str, **given_: Any) -> list[tuple[str, str, str, str]]:
        call = whats(told(assistant("a", tool("t", name, **given_))), Call)[0]
        return [(edit.path, edit.operation, edit.old, edit.new) for edit in call.edits]

    assert edits("Edit", file_path="/a", old_string="x", new_string="y") == [("/a", "update", "x", "y")]
    assert edits("Edit", file_path="/a", old_string="", new_string="y") == [("/a", "create", "", "y")]
    assert edits("Write", file_path="/a", content="y") == [("/a", "create", "", "y")]
    steps = [{"old_string": "1", "new_string": "2"}, "broken", {"old_string": "3", "new_string": "4"}]
    assert edits("MultiEdit", file_path="/a", edits=steps) == [("/a", "update", "1", "2"), ("/a", "update", "3", "4")]
    assert edits("MultiEdit", file_path="/a", edits="broken") == []
    assert edits("NotebookEdit", notebook_path="/n", new_source="y") == [("/n", "update", "", "y")]


def test_what_a_call_really_changed_where_only_the_result_tells() -> None:
    hunk = {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 2, "lines": [" a", "+b"]}
    detail = {"type": "update", "filePath": "/a", "content": "a\nb", "structuredPatch": [hunk, "broken"]}
    change = whats(told(ended("r", "t", "ok", toolUseResult=detail)), Result)[0].edits[0]
    assert (change.path, change.operation, change.patch) == ("/a", "update", "@@ -1,1 +1,2 @@\n a\n+b\n")
    plain = {"filePath": "/a", "structuredPatch": [hunk], "userModified": False}
    assert whats(told(ended("r", "t", "ok", toolUseResult=plain)), Result)[0].edits == ()
    assert whats(told(ended("r", "t", "ok", toolUseResult={**plain, "userModified": True})), Result)[0].edits


@pytest.mark.parametrize(
    ("content", "error", "detail", "status", "denied"),
    [
        ("out", False, {"stdout": "out", "stderr": ""}, 0, False),
        ("started", False, {"stdout": "", "backgroundTaskId": "b"}, None, False),
        ("none", False, {"stdout": "", "returnCodeInterpretation": "No matches found"}, None, False),
        ("cut", False, {"stdout": "", "interrupted": True}, None, False),
        ("text of a file", False, {"type": "text"}, None, False),
        ("Exit code 127\nno such", True, "Error: Exit code 127", 127, False),
        ("Exit code many", True, "Error", None, False),
        ("<persisted-output>\nFull output saved to: /x\n", True, "Error", None, False),
        ([text("Exit code 1"), text("blocked")], True, "Error", 1, False),
        ("The user doesn't want to proceed with this tool use. The tool…", True, "User rejected", None, True),
        ("The user doesn't want to take this action right now. STOP", True, "x", None, True),
        ("Claude requested permissions to use X, but you haven't granted it yet.", True, "x", None, True),
        ("PreToolUse:Edit hook error: no", True, "x", None, True),
        ("<tool_use_error>String to replace not found</tool_use_error>", True, "x", None, False),
        ("Exit code 1\nhook error in the user's own tool", True, "x", 1, False),
    ],
)
def test_how_a_call_ended(content: Any, error: bool, detail: Any, status: int | None, denied: bool) -> None:
    result = whats(told(ended("r", "t", content, error, toolUseResult=detail)), Result)[0]
    assert (result.ok, result.exit_status, result.denied) == (not error, status, denied)
    assert bool(result.output) is error


def test_a_field_that_tells_of_a_refusal_goes_before_the_text() -> None:
    for mark in ({"toolDenialKind": "user-rejected"}, {"permissionDecision": {"decision": "reject"}}):
        result = whats(told(ended("r", "t", "Exit code 2\nwhy", **mark)), Result)[0]
        assert (result.ok, result.exit_status, result.denied) == (False, None, True)


def test_a_failure_keeps_its_end_without_what_the_agent_set_into_it() -> None:
    output = "\n".join(map(str, range(40))) + "\n<system-reminder>be brief</system-reminder>"
    result = whats(told(ended("r", "t", f"<tool_use_error>{output}</tool_use_error>", True)), Result)[0]
    assert result.output == "\n".join(map(str, range(25, 40)))


def test_what_the_model_s_own_side_did_has_an_end_too() -> None:
    call = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
    good = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"type": "web_search_result"}]}
    items = told(assistant("a", call, good))
    assert (whats(items, Call)[0].target, whats(items, Call)[0].sort) == ("q", "web")
    assert whats(items, Result) == [Result("srvtoolu_1", True)]
    bad = {**good, "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}}
    assert whats(told(assistant("a", bad)), Result) == [Result("srvtoolu_1", False, output="max_uses_exceeded")]


# Garbage.

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
FULL = [
    user("u", [text("x"), {"type": "tool_result", "tool_use_id": "t", "content": [text("y")], "is_error": True}]),
    user(
        "v", "x", origin={"kind": "k"}, forkedFrom={"sessionId": "s"}, isMeta=True, permissionDecision={"decision": "x"}
    ),
    assistant(
        "a", text("x"), tool("t", "MultiEdit", file_path="/a", edits=[{"old_string": "1"}]), usage={"input_tokens": 1}
    ),
    assistant("b", {"type": "x_tool_result", "content": {"error_code": "e"}}, supersedesUuids=["a"]),
    ended("r", "t", "x", toolUseResult={"filePath": "/a", "type": "update", "structuredPatch": [{"lines": ["+x"]}]}),
    queue("enqueue", [text("x")]),
    queue("popAll"),
    attached("q", [text("x")]),
    entry("attachment", "h", attachment={"type": "hook_additional_context", "content": ["x"]}),
    entry("system", "s", subtype="api_refusal", retractedMessageUuids=["a"]),
    {"type": "custom-title", "customTitle": "t", "sessionId": SESSION},
]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return every place within a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(deep for key, each in inner for deep in places(each, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    """Return a value in which another stands at a place."""
    if not path:
        return other
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(copy[path[0]], path[1:], other)
    return copy


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_no_value_in_any_place_brings_it_down(data: st.DataObject) -> None:
    state: dict[str, Any] = {}
    tally = Tally()
    for number, record in enumerate(data.draw(st.permutations(FULL))):
        place = data.draw(st.sampled_from(places(record)))
        hostile = replaced(record, place, data.draw(JSON))
        for item in claude.take(hostile, Spot(Path("x.jsonl"), number + 1, number * 10), state, tally):
            assert isinstance(item.session, str) and item.session
            assert isinstance(item.key, str) and item.key
            assert isinstance(item.parent, str) and isinstance(item.origin, str)
            item.what.to_json()
        state = json.loads(json.dumps(state))
    assert sum(tally.types.values()) + tally.problems["not an object"] == len(FULL)


@pytest.mark.parametrize("other", [None, True, 0, -1, 1.5, "", "x" * 9999, [], {}, [[]], [{}], {"type": {}}, "\ud83d"])
def test_every_place_bears_every_type(other: Any) -> None:
    for record in FULL:
        for place in places(record):
            state: dict[str, Any] = {}
            for hostile in (record, replaced(record, place, other), record):
                items = claude.take(hostile, Spot(Path("x.jsonl"), 1, 0), state, Tally())
                assert all(item.key and isinstance(item.session, str) for item in items)
            json.dumps(state)


def test_unknown_records_are_counted_and_nothing_else() -> None:
    items, tally = read(lines({"type": "new-thing", "sessionId": SESSION}, {"x": 1}, 42, [1], "s", {"type": ["x"]}))
    assert not items
    assert tally.types == {"new-thing": 1, "None": 2}
    assert tally.problems == {"not an object": 3}


def test_what_is_kept_between_records_is_bounded() -> None:
    state: dict[str, Any] = {}
    for number in range(3000):
        wide = {"sessionId": f"s{number}", "uuid": f"u{number}" * 300, "cwd": "c" * 100_000, "parentUuid": "p" * 1000}
        record = {**FULL[number % len(FULL)], **wide, "requestId": f"r{number}"}
        claude.take(record, Spot(Path("x.jsonl"), number + 1, number), state, Tally())
    assert len(json.dumps(state)) < 80_000
    tally = Tally()
    for number in range(3000):
        claude.take({"type": f"t{number}"}, Spot(Path("x.jsonl"), number + 1, number), state, tally)
    assert len(tally.types) <= 501
    assert sum(tally.types.values()) == 3000


def test_times_have_the_precision_with_which_they_are_written() -> None:
    written = {
        "2026-03-01T10:00:00.123Z": (1_772_359_200_123_000, "ms"),
        "2026-03-01T10:00:00.123456+00:00": (1_772_359_200_123_456, "us"),
        "2026-03-01T10:00:00Z": (1_772_359_200_000_000, "s"),
        "2026-03-01T12:00:00+02:00": (1_772_359_200_000_000, "s"),
        "2026-03-01T10:00Z": (1_772_359_200_000_000, "min"),
        "[trimmed for fixture]": (None, ""),
        "0001-01-01T00:00:00+23:59": (-62_135_683_140_000_000, "s"),
    }
    for stamp, known in written.items():
        items = told(user("u", "x", timestamp=stamp))
        assert {(item.at, item.precision) for item in items} == {known}, stamp


# Where the files are.


def world(home: Path, system: str = "linux", **environment: str) -> World:
    """Return a world with nothing in it but a home and some variables."""
    return World(environment, home, system)


def put(path: Path, content: str = "") -> Path:
    """Make a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
def test_every_transcript_is_found_with_its_sub_agents_and_nothing_else(tmp_path: Path, system: str) -> None:
    folder = tmp_path / ".claude" / "projects" / "-p"
    ours = [
        put(folder / "a.jsonl"),
        put(folder / "a" / "subagents" / "agent-1.jsonl"),
        put(folder / "a" / "subagents" / "workflows" / "wf_1" / "agent-2.jsonl"),
        put(folder / "agent-3.jsonl"),
        put(tmp_path / ".config" / "claude" / "projects" / "-q" / "b.jsonl"),
    ]
    put(folder / "a" / "subagents" / "agent-1.meta.json")
    put(folder / "a" / "subagents" / "workflows" / "wf_1" / "journal.jsonl")
    put(folder / "a" / "tool-results" / "agent-x.jsonl")
    put(tmp_path / ".claude" / "history.jsonl")
    put(tmp_path / ".claude" / "projects" / "loose.jsonl")
    found = list(claude.find(world(tmp_path, system)))
    assert sorted(found) == sorted(ours)
    assert found == list(claude.find(world(tmp_path, system)))


def test_the_agent_s_variables_say_where(tmp_path: Path) -> None:
    put(tmp_path / ".claude" / "projects" / "-p" / "home.jsonl")
    one = put(tmp_path / "one" / "projects" / "-p" / "a.jsonl")
    two = put(tmp_path / "two" / "projects" / "-p" / "b.jsonl")
    general = put(tmp_path / "xdg" / "claude" / "projects" / "-p" / "c.jsonl")
    assert list(claude.find(world(tmp_path, CLAUDE_CONFIG_DIR=str(tmp_path / "one")))) == [one]
    assert list(claude.find(world(tmp_path, CLAUDE_CONFIG_DIR=f"~/one, {tmp_path / 'two'}"))) == [one, two]
    assert general in list(claude.find(world(tmp_path, XDG_CONFIG_HOME=str(tmp_path / "xdg"))))
    assert list(claude.find(world(tmp_path / "nowhere"))) == []


def test_circles_dangling_links_and_closed_folders_are_passed_by(tmp_path: Path) -> None:
    folder = tmp_path / ".claude" / "projects"
    kept = put(folder / "-p" / "a.jsonl")
    (folder / "-p" / "round").symlink_to(folder)
    (folder / "-p" / "gone.jsonl").symlink_to(tmp_path / "missing")
    (folder / "-q").symlink_to(folder / "-p")
    closed = put(folder / "-z" / "b.jsonl").parent
    closed.chmod(0)
    try:
        found = list(claude.find(world(tmp_path)))
    finally:
        closed.chmod(0o700)
    assert [path for path in found if path.parent != closed] == [kept]


def test_our_files_are_known_by_what_is_in_them() -> None:
    path = Path("anything.jsonl")
    assert claude.accepts(path, lines(user("u", "x")))
    assert claude.accepts(path, b"\xef\xbb\xbf" + lines(user("u", "x")))
    assert claude.accepts(path, lines({"type": "summary", "summary": "s", "leafUuid": "z"}))
    big = {"parentUuid": None, "type": "user", "message": {"content": "x" * 90_000}, "sessionId": SESSION}
    assert claude.accepts(path, lines(big)[:65_536])
    assert claude.accepts(Path("/h/.claude/projects/-p/a.jsonl"), b"")
    for head in (
        b"",
        b"\x00\x01",
        b"{}",
        b"[]\n42\n",
        b'{"type": 1}',
        b'{"type": "user", "message": "x"}',
        b"[" * 9999,
    ):
        assert not claude.accepts(path, head)


@pytest.mark.skipif(not SAMPLES.exists(), reason=ABSENT)
def test_no_other_agent_s_file_is_taken_for_ours_and_all_of_ours_are() -> None:
    files = [path for root in (SAMPLES, SHARED / "transcripts-live") for path in root.rglob("*") if path.is_file()]
    for path in files:
        with path.open("rb") as file:
            head = file.read(65_536)
        is_ours = path.suffix == ".jsonl" and bool({"claude", "claude-code"} & set(path.parts))
        if head:
            assert claude.accepts(path, head) is is_ours, path
