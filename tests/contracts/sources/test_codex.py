"""Codex's rollouts against samples whose counts are known: real files, traps made by hand, real runs, and cuts."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest
from contracts.sources.codex_records import (
    CATALOGUE,
    FILES,
    LIVE,
    RUNS,
    SAMPLES,
    expected,
    here,
    latest,
    milliseconds,
    of,
    read,
    replies,
    said,
    sessions,
    times,
)

from bede.sources import codex, jsonl, patch
from bede.sources.codex.speech import spoken
from bede.sources.port import Call, Item, Prompt, Result, Session, Tally, Usage


@here
@pytest.mark.parametrize("name", FILES)
def test_records_are_counted_by_type(name: str) -> None:
    items, tally = read(SAMPLES / name)
    counts = expected()[name]
    assert tally.types == counts["record_types"]
    assert sum(tally.types.values()) == counts["records"]
    assert sum(tally.problems.values()) == counts["bad_lines"]
    assert tally.types["compacted"] == counts["compactions"]
    assert tally.types["event_msg/token_count"] == counts["token_count_events"]
    assert tally.types["response_item/reasoning"] == counts["reasoning_items"]
    assert len(said(items, "interrupt")) == counts["turn_aborted"]


@here
@pytest.mark.parametrize("name", FILES)
def test_a_session_says_who_it_is(name: str) -> None:
    items, _ = read(SAMPLES / name)
    counts = expected()[name]
    assert {item.session for item in items} == {counts["session_ids"][0]}
    assert sessions(items, "version") == [counts["cli_version"]]
    assert sessions(items, "cwd") == counts["cwd"]
    assert sessions(items, "branch") == counts["git_branches"]
    models = set(sessions(items, "model"))
    assert models == set(counts["models"])
    assert sessions(items, "parent") == ([counts["forked_from"]] if counts["forked_from"] else [])
    assert times(items)[0] == milliseconds(counts["first_timestamp"])
    if counts["real_session"]:
        # A last record that only confirms what the event before it said is no item of its own: a millisecond.
        assert 0 <= milliseconds(counts["last_timestamp"]) - times(items)[-1] <= 1


@here
@pytest.mark.parametrize("name", FILES)
def test_what_was_said_counts_once(name: str) -> None:
    items, _ = read(SAMPLES / name)
    counts = expected()[name]
    assert len(said(items)) == counts["user_prompts"]
    injected = {item.line for item in items if isinstance(item.what, Prompt) and item.what.speaker == "injected"}
    assert len(injected) == counts["injected_user_messages"] + counts["developer_messages"]
    # The catalogue of shapes has two answers and a plan more, as completed items only: a paginated history.
    assert len(replies(items)) == counts["assistant_texts"] + (3 if name == CATALOGUE else 0)
    if counts["first_prompt"]:
        assert said(items)[0].startswith(spoken(counts["first_prompt"])[1])


@here
@pytest.mark.parametrize("name", FILES)
def test_calls_results_and_exit_statuses(name: str) -> None:
    items, _ = read(SAMPLES / name)
    counts = expected()[name]
    calls = of(items, Call)
    # The catalogue uses one id for everything; its counts take calls of one id and tool for one.
    by_name = {(call.call.partition("@")[0], call.tool) for call in calls} if name == CATALOGUE else calls
    tools = Counter(call[1] if isinstance(call, tuple) else call.tool for call in by_name)
    assert tools == counts["tool_calls_by_name"]
    assert tools.total() == counts["tool_calls"]
    if name != CATALOGUE:
        names = {call.call for call in calls}
        results = [result for result in of(items, Result) if result.call in names]
        assert len(results) == counts["tool_outputs"]
        assert len(names) - len(results) == counts["tool_calls_without_output"]
        statuses = Counter(
            "none" if result.exit_status is None else "nonzero" if result.exit_status else "0" for result in results
        )
        assert statuses == counts["exit_codes"]
        assert all(result.ok is (result.exit_status == 0) for result in results if result.exit_status is not None)


@here
@pytest.mark.parametrize("name", FILES)
def test_edits_and_whether_they_were_applied(name: str) -> None:
    items, _ = read(SAMPLES / name)
    counts = expected()[name]
    ended = {result.call: result for result in of(items, Result)}
    patched = [call for call in of(items, Call) if call.edits or patch.BEGIN in call.target]
    asked = [(call.edits, ended[call.call].ok) for call in patched]
    assert len(asked) == counts["patch_calls"]
    assert sum(ok is True for _, ok in asked) == counts["patch_calls_ok"]
    words = {"create": "Add", "update": "Update", "delete": "Delete"}
    assert Counter(words[edit.operation] for edits, _ in asked for edit in edits) == counts["patch_file_ops"]
    made = [(result.edits, result.ok) for result in ended.values() if result.edits]
    assert [sum(ok is True for _, ok in made), sum(ok is False for _, ok in made)] == counts["patch_apply_end"]
    every = asked + made
    assert len({edit.path for edits, _ in every for edit in edits}) == counts["distinct_files_targeted"]
    assert len({edit.path for edits, ok in every if ok for edit in edits}) == counts["distinct_files_edited_ok"]


@here
@pytest.mark.parametrize("name", FILES)
def test_tokens_are_those_of_the_last_total(name: str) -> None:
    items, tally = read(SAMPLES / name)
    counts = expected()[name]
    spent, total = of(items, Usage), counts["usage_last_total"]
    assert bool(spent) == bool(total)
    if total:
        assert spent[-1].total == total["total_tokens"]
    if total and counts["real_session"]:
        assert sum(usage.input + usage.cache_read for usage in spent) == total["input_tokens"]
        assert sum(usage.cache_read for usage in spent) == total["cached_input_tokens"]
        assert sum(usage.output for usage in spent) == total["output_tokens"]
        assert sum(usage.reasoning for usage in spent) == total["reasoning_output_tokens"]
        assert len(spent) == tally.types["event_msg/token_count"] - counts["token_count_repeated_totals"]


# --- made by hand


@here
def test_the_handmade_traps() -> None:
    known = json.loads((SAMPLES / "synthetic" / "expected_handmade.json").read_text())
    names = [name for name in known if name.startswith("codex/")]
    assert len(names) == 3
    for name in names:
        counts = known[name]
        items, tally = read(SAMPLES / "synthetic" / name)
        assert not tally.problems
        assert {item.session for item in items} == {counts["session_id"]}
        own = [item for item in items if not item.is_replayed]
        prompts = said(items)
        assert len(prompts) == counts.get("user_prompts", counts.get("user_prompts_physical"))
        assert len(said(own)) == counts.get("user_prompts_own", len(prompts))
        assert sessions(items, "parent") == ([counts["forked_from"]] if "forked_from" in counts else [])
        if "assistant_texts" in counts:
            assert len(replies(items)) == counts["assistant_texts"]
            assert len(of(items, Call)) == counts["tool_calls"]
        if "cwd" in counts:
            assert sessions(items, "cwd") == [counts["cwd"]]
            assert len([call for call in of(items, Call) if call.edits]) == counts["patch_calls"]
            assert len(said(items, "compact-summary")) == counts["compactions"]
            statuses = Counter("nonzero" if result.exit_status else "zero" for result in of(items, Result))
            assert statuses == counts["exit_codes"]
            paths = {edit.path for call in of(items, Call) for edit in call.edits}
            assert len(paths) == counts["distinct_files_edited_ok"]
            assert of(items, Usage)[-1].total == counts["tokens_total"]
            assert sum(usage.input + usage.cache_read + usage.output for usage in of(items, Usage)) == 2100


# --- real runs, from their scenario


@here
@pytest.mark.parametrize("run", RUNS)
def test_a_real_run_is_what_its_scenario_was(run: str) -> None:
    known = json.loads((LIVE / run / "expected.json").read_text())
    items = [item for name in known["files"] for item in read(LIVE / run / name)[0]]
    turns = known["turns"]
    assert {item.session for item in items} == {known["session_id"]}
    assert sessions(items, "cwd") == [known["cwd"]]
    assert [f"codex-cli {version}" for version in sessions(items, "version")] == [known["agent_version"]]
    assert said(items) == [turn["prompt_as_stored"] for turn in turns]
    assert replies(items) == [text for turn in turns for text in turn["assistant_texts"]]
    for text in (text for turn in turns for text in turn["injected_by_hooks"]):
        assert text in said(items, "injected")
    calls = {call.call: call for call in of(items, Call)}
    ended = {result.call: result for result in of(items, Result)}
    wanted = [call for turn in turns for call in turn["tool_calls"]]
    assert list(calls) == [call["id"] for call in wanted]
    edited = set()
    for want in wanted:
        call, result = calls[want["id"]], ended[want["id"]]
        # A hidden tool's search has no name of its own in the file but the type of its record.
        assert call.tool.removesuffix("_call") == want["tool"]
        assert (result.ok, result.denied) == (want["ok"], want["denied"])
        if want["exit_code"] is not None:
            assert result.exit_status == want["exit_code"]
        if isinstance(want["args"], dict):
            assert call.target == next(iter(want["args"].values()))
        else:
            assert call.target == want["path"]
            assert call.edits == patch.edits(want["args"])
            edited |= {edit.path for edit in call.edits if result.ok}
        assert call.sort == ("shell" if want["tool"] == "exec_command" else want["kind"])
        assert bool(result.output) == (not want["ok"])
    assert edited == {path for turn in turns for path in turn["edited_files"]}
    for text in (text for turn in turns for text in turn["refused_by_hooks"] if run.startswith("deny")):
        assert any(text in result.output for result in ended.values() if result.denied)


@here
@pytest.mark.parametrize("run", RUNS)
def test_every_copy_in_another_session_would_be_known_and_nothing_else(run: str) -> None:
    items, _ = read(next((LIVE / run).rglob("rollout-*.jsonl")))
    marks = [item.origin for item in latest(items) if not isinstance(item.what, Session)]
    assert all(marks)
    assert len(marks) == len(set(marks))
    for other in RUNS:
        if other != run and {other, run} != {"start", "resume"}:
            others, _ = read(next((LIVE / other).rglob("rollout-*.jsonl")))
            assert not {item.origin for item in others if item.origin} & set(marks)


# --- cuts


def whole_files() -> list[Path]:
    names = [SAMPLES / name for name in FILES if expected()[name]["bytes"] < 200_000]
    return (
        names + sorted((SAMPLES / "synthetic" / "codex").rglob("*.jsonl")) + sorted(LIVE.glob("resume/home/**/*.jsonl"))
    )


@here
def test_however_a_file_is_cut_the_same_items_come_out(tmp_path: Path) -> None:
    chance = random.Random(7)
    for path in whole_files():
        data, (once, counted) = path.read_bytes(), read(path)
        for _ in range(3):
            cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randrange(1, 12)))
            growing = tmp_path / path.name
            items: list[Item] = []
            tally, cursor, state = Tally(), jsonl.Cursor(), "{}"
            for cut in [*cuts, len(data)]:
                growing.write_bytes(data[:cut])
                known = json.loads(state)
                with growing.open("rb") as file:
                    for spot, record in jsonl.records(file, growing, cursor, tally):
                        items += codex.take(record, spot, known, tally)
                state = json.dumps(known)
            assert items == once
            assert tally.types == counted.types
            keys = [item.key for item in items if not item.key.endswith(("session", ":result"))]
            assert len(keys) == len(set(keys))
