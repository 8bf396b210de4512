"""Where Codex's rollouts are found, which files are taken for one, and what nonsense in them does: nothing."""

from __future__ import annotations

import json
from pathlib import Path

from contracts.sources.codex_records import (
    BARE,
    FILES,
    LIVE,
    PATCH,
    SAMPLES,
    SHARED,
    agent,
    at,
    called,
    count,
    done,
    event,
    here,
    meta,
    output,
    said,
    take,
    text,
    user,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from bede.sources import codex
from bede.sources.port import Spot, Tally, World

# --- where they are


def test_every_rollout_is_found_once(tmp_path: Path) -> None:
    home = tmp_path / ".codex"
    day = home / "sessions" / "2026" / "04" / "01"
    for name in ("rollout-b.jsonl", "rollout-a.jsonl", "rollout-a.jsonl.zst", "rollout-c.jsonl.zst", "notes.jsonl"):
        (day / name).parent.mkdir(parents=True, exist_ok=True)
        (day / name).write_text("")
    for name in (
        "archived_sessions/rollout-z.jsonl",
        "archived_sessions/rollout-y.jsonl.zst",
        "sessions/rollout-1.json",
        "history.jsonl",
    ):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("")
    (home / "sessions" / "loop").symlink_to(home / "sessions")
    (day / "rollout-gone.jsonl").symlink_to(tmp_path / "nowhere")
    found = [path.relative_to(home).as_posix() for path in codex.find(World({}, tmp_path, "linux"))]
    assert found == [
        "sessions/2026/04/01/rollout-a.jsonl",
        "sessions/2026/04/01/rollout-b.jsonl",
        "sessions/2026/04/01/rollout-c.jsonl.zst",
        "sessions/rollout-1.json",
        "archived_sessions/rollout-y.jsonl.zst",
        "archived_sessions/rollout-z.jsonl",
    ]
    for system in ("darwin", "win32"):
        assert len(list(codex.find(World({}, tmp_path, system)))) == 6
    elsewhere = World({"CODEX_HOME": str(home)}, tmp_path / "other", "linux")
    assert len(list(codex.find(elsewhere))) == 6
    assert list(codex.find(World({"CODEX_HOME": str(tmp_path / "none")}, tmp_path, "linux"))) == []


@here
def test_it_accepts_its_own_files_and_no_others() -> None:
    ours = [SAMPLES / name for name in FILES] + sorted((SAMPLES / "synthetic" / "codex").rglob("*.jsonl"))
    ours += sorted(LIVE.rglob("*.jsonl"))
    assert all(codex.accepts(path, path.read_bytes()[:65536]) for path in ours)
    others = [path for path in SHARED.glob("transcripts*/**/*.jsonl") if "codex" not in path.parts]
    assert len(others) > 50
    assert [path for path in others if codex.accepts(path, path.read_bytes()[:65536])] == []


def test_a_compressed_rollout_is_known_by_magic_and_name() -> None:
    assert codex.accepts(Path("rollout-x.jsonl.zst"), codex.ZSTD + b"\x00")
    assert not codex.accepts(Path("backup.tar.zst"), codex.ZSTD + b"\x00")
    assert not codex.accepts(Path("rollout-x.jsonl.zst"), b"\x00")
    assert not codex.accepts(Path("rollout-x.jsonl"), b"")


# --- garbage


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("\ud83d"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
RECORDS = [
    meta(forked_from_id="x", source={"subagent": {"thread_spawn": {"parent_thread_id": "p"}}}, git={"branch": "b"}),
    meta("other"),
    at(1, "turn_context", {"turn_id": "t", "cwd": "/w", "model": "m"}),
    *user("ask"),
    *agent("say"),
    text("user", "<environment_context><cwd>/w</cwd></environment_context>"),
    called("shell", {"command": ["bash", "-lc", "x"]}),
    called("apply_patch", PATCH, kind="custom_tool_call"),
    called("exec", "x", "e", "custom_tool_call"),
    at(1, "response_item", {"type": "web_search_call", "id": "w", "action": {"type": "search", "queries": ["a"]}}),
    output('{"output":"","metadata":{"exit_code":1}}'),
    output([{"type": "input_text", "text": "Exit code: 1"}]),
    event("exec_command_end", call_id="c", exit_code=1, aggregated_output="x", command=["ls"], source="agent"),
    event("patch_apply_end", call_id="n", success=True, changes={"a": {"type": "update", "unified_diff": "x"}}),
    event("mcp_tool_call_end", call_id="m", invocation={"server": "s", "tool": "t"}, result={"Ok": {"isError": True}}),
    done("CommandExecution", id="q", command=["ls"], exit_code=0, status="completed"),
    done("Reasoning", summary_text=["x"], raw_content=[]),
    count(10, 10),
    event("task_started", turn_id="t"),
    event("thread_rolled_back", num_turns=1),
    event("turn_aborted", reason="interrupted"),
    event("thread_name_updated", thread_name="n"),
    at(1, "compacted", {"message": "x"}),
    at(1, "token_usage_record", {"usage": {"input_tokens": 1}, "thread_token_usage": {"input_tokens": 1}}),
    {"session": {"id": "a", "timestamp": "x"}, "items": [*BARE, 1]},
    {"id": "b", "timestamp": "2025-07-01T12:00:00.000Z", "instructions": None},
    *BARE,
]


def places(value: object, path: tuple = ()) -> list[tuple]:
    """List the ways to everything within a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(way for key, part in inner for way in places(part, (*path, key)))]


def replaced(value: object, path: tuple, new: object) -> object:
    if not path:
        return new
    copy = value.copy()  # type: ignore[attr-defined]
    copy[path[0]] = replaced(copy[path[0]], path[1:], new)
    return copy


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_nothing_in_any_place_raises_and_the_state_stays_json(data: st.DataObject) -> None:
    records = data.draw(st.lists(st.sampled_from(RECORDS), min_size=1, max_size=6))
    spoilt = [
        replaced(record, data.draw(st.sampled_from(places(record))), data.draw(JSON))
        if data.draw(st.booleans())
        else record
        for record in records
    ]
    keys = [item.key for item in take(*spoilt, *RECORDS) if not item.key.endswith(("session", ":result"))]
    assert len(keys) == len(set(keys))


@given(JSON)
def test_any_value_is_a_record_that_costs_only_itself(value: object) -> None:
    take(value, {"payload": value}, {"type": value, "payload": {"type": value}}, {"session": {}, "items": [value]})


@given(JSON, st.booleans())
def test_any_head_is_accepted_or_not(value: object, named: bool) -> None:
    path = Path("rollout-x.jsonl" if named else "x.jsonl")
    for told in (value, {"type": value, "payload": value}, {"type": value}):
        line = json.dumps(told).encode("utf-8", "surrogatepass")
        for head in (line, line[: len(line) // 2], b"\xef\xbb\xbf" + line + b"\n"):
            assert codex.accepts(path, head) in (True, False)


def test_a_record_without_sense_is_counted() -> None:
    tally = Tally()
    for record in (1, None, [], {"payload": 1, "type": "x"}, {"payload": {}}, {"type": "event_msg", "payload": {}}, {}):
        assert codex.take(record, Spot(Path("x"), 1, 0), {}, tally) == []
    assert tally.problems.total() == 7
    assert codex.take(at(1, "from_tomorrow", {"a": 1}), Spot(Path("x"), 1, 0), {}, tally) == []
    assert tally.types == {"from_tomorrow": 1}


def test_texts_stay_as_they_are_and_state_stays_small() -> None:
    odd = "half \ud83d a\u2028b\x00"
    assert said(take(*user(odd))) == [odd]
    state: dict = {}
    long = "x" * 1_000_000
    for number in range(3000):
        for record in (
            *user(f"{number}"),
            called("shell", {"command": long[: number % 2 * 1000]}, f"c{number}"),
            output("Exit code: 0", f"c{number}"),
        ):
            codex.take(record, Spot(Path("x"), number, number * 10), state, Tally())
    codex.take(meta(cwd=long, cli_version=long), Spot(Path("x"), 1, 1), state, Tally())
    codex.take(called("shell", {}, long), Spot(Path("x"), 1, 2), state, Tally())
    assert len(json.dumps(state)) < 32_000


def test_a_file_without_a_beginning_is_named_by_its_name() -> None:
    name = "rollout-2026-04-01T10-00-00-019f0000-0000-7000-8000-00000000000a.jsonl.zst"
    assert {item.session for item in take(*user("x"), name=name)} == {"019f0000-0000-7000-8000-00000000000a"}
