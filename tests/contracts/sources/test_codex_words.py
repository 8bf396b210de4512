"""What is said in Codex's rollouts: once each, by whom, and in which session."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from contracts.sources.codex_records import (
    BARE,
    agent,
    at,
    called,
    done,
    event,
    meta,
    of,
    output,
    read,
    replies,
    said,
    sessions,
    take,
    text,
    user,
)
from hypothesis import given
from hypothesis import strategies as st

from bede.errors import BadSource
from bede.sources import codex
from bede.sources.codex.speech import spoken
from bede.sources.port import Call, Prompt, Reply, Result, Rewind, Session, Tally, Thought

# --- what is said twice


@given(st.lists(st.tuples(st.sampled_from("ab"), st.permutations([0, 1, 2]), st.integers(1, 3)), max_size=8))
def test_texts_count_once_whatever_tells_them_in_which_order(turns: list) -> None:
    """Within a file the same things tell all texts, so the number of them is that of the first turn."""
    records = [meta()]
    wanted: list[str] = []
    for words, order, count in turns:
        count = turns[0][2] if turns else count
        order = order if count == 3 else turns[0][1]
        records += [user(f"ask {words}")[which] for which in order[:count]]
        records += [agent(f"say {words}")[which] for which in order[:count]]
        wanted += [f"ask {words}", f"say {words}"]
    items = take(*records)
    assert [item.what.text for item in items if isinstance(item.what, Prompt | Reply)] == wanted


def test_a_text_that_only_one_of_them_tells_is_not_taken_for_an_earlier_one() -> None:
    items = take(meta(), *user("go on")[:2], event("task_complete", turn_id="1"), user("go on")[2])
    assert said(items) == ["go on", "go on"]


def test_reasoning_counts_once_and_part_by_part() -> None:
    summary = [{"type": "summary_text", "text": part} for part in ("**One**", "**Two**")]
    items = take(
        event("agent_reasoning", text="**One**"),
        event("agent_reasoning", text="**Two**"),
        at(1, "response_item", {"type": "reasoning", "summary": summary, "content": None, "encrypted_content": "x"}),
        done("Reasoning", summary_text=["**One**", "**Two**"], raw_content=[]),
    )
    assert [thought.text for thought in of(items, Thought)] == ["**One**", "**Two**"]


def test_a_plan_is_said_once() -> None:
    whole = "Here it is.\n<proposed_plan>\n1. do\n</proposed_plan>\n"
    items = take(
        done("AgentMessage", content=[{"type": "Text", "text": "Here it is.\n"}]),
        done("Plan", text="1. do"),
        text("assistant", whole),
    )
    assert [reply.strip() for reply in replies(items)] == ["Here it is.", "1. do"]


# --- who speaks


def test_what_codex_lays_into_the_users_role_is_nobodys() -> None:
    for injected in (
        "<environment_context>\n  <cwd>/w</cwd>\n</environment_context>",
        "<user_instructions>\nbe brief\n</user_instructions>",
        "# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>\nsay </INSTRUCTIONS> never\n</INSTRUCTIONS>",
        "<permissions instructions>\nx\n</permissions instructions>",
        "<skill>\n<name>x</name>\n</skill>",
        '<hook_prompt hook_run_id="1">stop</hook_prompt>',
        "Warning: apply_patch was requested via shell. Use the apply_patch tool instead.",
        "# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>\nx\n</INSTRUCTIONS>\n<skill>a</skill>",
    ):
        assert spoken(injected) == ("injected", injected)
    assert spoken("<subagent_notification>done</subagent_notification>")[0] == "notification"
    assert spoken("<turn_aborted>\nx\n</turn_aborted>")[0] == "interrupt"
    assert said(take(text("developer", "rules")), "injected") == ["rules"]


def test_what_is_left_when_the_wrappers_are_off_a_person_said() -> None:
    ide = "# Context from my IDE setup:\n\n## Active file: a.py\n\n## My request for Codex:\nfix it\n## and this"
    assert spoken(ide) == ("human", "fix it\n## and this")
    assert spoken("<environment_context>x</environment_context>\nfix it") == ("human", "fix it")
    assert spoken("<div>why?</div>") == ("human", "<div>why?</div>")
    assert spoken("# Title\n## My request for Codex:\nx")[1].startswith("# Title")
    assert said(take(*user(ide))) == ["fix it\n## and this"]
    mixed = take(text("user", "<environment_context>x</environment_context>", "fix ", "it"))
    assert (said(mixed), len(said(mixed, "injected"))) == (["fix it"], 1)


def test_newer_versions_tell_whose_a_text_is() -> None:
    told = {"content_item_kinds": ["hooks.additional_context", "user.text"]}
    items = take(text("user", "from a hook", "mine", internal_chat_message_metadata_passthrough=told))
    assert (said(items), said(items, "injected")) == (["mine"], ["from a hook"])


def test_a_command_run_by_hand_is_told_once_without_its_output() -> None:
    wrapped = "<user_shell_command>\n<command>\nls -la\n</command>\n<result>\nsecret\n</result>\n</user_shell_command>"
    ended = event("exec_command_end", call_id="u", source="user_shell", command=["bash", "-lc", "ls -la"], exit_code=0)
    items = take(ended, text("user", wrapped))
    assert (said(items, "bang"), of(items, Result)) == (["ls -la"], [])


def test_images_are_counted_and_their_marks_are_no_words() -> None:
    content = [
        {"type": "input_text", "text": "<image name=[Image #1]>"},
        {"type": "input_image", "image_url": "data:"},
        {"type": "input_text", "text": "</image>"},
        {"type": "input_text", "text": "what is this?"},
    ]
    message = at(1, "response_item", {"type": "message", "role": "user", "content": content})
    items = take(message, event("user_message", message="what is this?", images=[], local_images=["a.png"]))
    assert of(items, Prompt) == [Prompt("what is this?", "human", 1)]


def test_an_interrupt_is_one_interrupt_and_a_replaced_turn_is_none() -> None:
    marked = text("user", "<turn_aborted>\nThe user interrupted\n</turn_aborted>")
    assert len(said(take(marked, event("turn_aborted", reason="interrupted")), "interrupt")) == 1
    assert len(said(take(event("turn_aborted", reason="interrupted"), marked), "interrupt")) == 1
    assert said(take(event("turn_aborted", reason="replaced")), "interrupt") == []


def test_a_subagents_task_is_delegated_and_beside_the_conversation() -> None:
    source = {"subagent": {"thread_spawn": {"parent_thread_id": "p", "depth": 1}}}
    items = take(meta(source=source), *user("look into it"), agent("done")[0])
    assert said(items, "delegated") == ["look into it"]
    assert said(items) == []
    assert all(item.is_side for item in items)
    assert (of(items, Session)[-1].parent, of(items, Session)[-1].origin) == ("p", "subagent")


def test_a_failed_request_is_no_answer() -> None:
    items = take(event("error", message="quota"), event("error", error={"kind": "x", "message": "limit"}))
    assert of(items, Reply) == [Reply("quota", is_error=True), Reply("limit", is_error=True)]


def test_a_compaction_repeats_nothing() -> None:
    history = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]}]
    items = take(at(1, "compacted", {"message": "was done", "replacement_history": history}))
    assert (said(items, "compact-summary"), said(items)) == (["was done"], [])
    assert take(at(1, "compacted", {"message": "", "replacement_history": history})) == []


def test_a_rollback_names_what_was_gone_back_behind() -> None:
    items = take(
        *user("one"), *agent("1"), *user("two"), *agent("2"), event("thread_rolled_back", num_turns=1), *user("3")
    )
    keys = of(items, Rewind)[0].keys
    assert [item.what.text for item in items if item.key in keys] == ["two", "2"]
    again = take(*user("one"), *user("two"), *[event("thread_rolled_back", num_turns=1)] * 3)
    assert [len(rewind.keys) for rewind in of(again, Rewind)] == [1, 1]


# --- forks


def minted(milliseconds: int, number: int) -> str:
    head = f"{milliseconds:012x}"
    return f"{head[:8]}-{head[8:]}-7000-8000-{number:012x}"


def test_by_the_times_in_ids_a_copy_is_known_to_its_last_turn() -> None:
    """All records of such a file may be written within a moment, the copied ones and its own."""
    parent, child = minted(1000, 1), minted(5000, 2)
    items = take(
        meta(child, forked_from_id=parent),
        meta(parent),
        event("task_started", turn_id=minted(1500, 3)),
        *user("old"),
        event("task_complete", turn_id=minted(1500, 3)),
        event("task_started", turn_id=minted(5001, 4)),
        *user("new"),
    )
    assert [(item.what.text, item.is_replayed) for item in items if isinstance(item.what, Prompt)] == [
        ("old", True),
        ("new", False),
    ]
    assert {item.session for item in items} == {child}
    assert (of(items, Session)[-1].parent, of(items, Session)[-1].origin) == (parent, "fork")


def test_a_copy_has_the_origin_of_its_original() -> None:
    turn, parent, child = minted(1500, 3), minted(1000, 1), minted(5000, 2)
    records = [
        event("task_started", turn_id=turn),
        *user("old"),
        *agent("old"),
        called("shell", {"command": "x"}),
        output("Exit code: 0\n"),
    ]
    first = take(meta(parent), *records)
    copy = take(meta(child, forked_from_id=parent), meta(parent), *records)
    assert [item.origin for item in first[1:]] == [item.origin for item in copy[1:]]
    assert all(item.is_replayed for item in copy[1:])
    assert len({item.origin for item in first[1:]}) == 4


def test_later_sessions_in_a_file_change_nothing() -> None:
    items = take(meta("one"), event("task_started", turn_id="t"), *user("a"), meta("two", cwd="/other"), *user("b"))
    assert {item.session for item in items} == {"one"}
    assert sessions(items, "cwd") == ["/w"]
    assert not any(item.is_replayed for item in items)


def test_without_turns_a_pause_ends_the_copy() -> None:
    later = {**text("user", "new"), "timestamp": "2026-04-01T09:30:00.000Z"}
    items = take(meta("child"), meta("parent"), {**text("user", "old"), "timestamp": meta()["timestamp"]}, later)
    assert [(item.what.text, item.is_replayed) for item in items if isinstance(item.what, Prompt)] == [
        ("old", True),
        ("new", False),
    ]


# --- other generations


def test_the_first_generation_is_read_however_it_is_printed(tmp_path: Path) -> None:
    document = {
        "session": {"id": "first", "timestamp": "2025-04-20T10:00:00.000Z", "instructions": ""},
        "items": BARE * 30,
    }
    compact, pretty = tmp_path / "rollout-2025-04-20-first.json", tmp_path / "rollout-2025-04-20-pretty.json"
    compact.write_text(json.dumps(document))
    pretty.write_text(json.dumps(document, indent=2))
    streamed, _ = read(compact)
    assert streamed == list(codex.whole(compact, Tally())) == list(codex.whole(pretty, Tally()))
    assert {item.session for item in streamed} == {"first"}
    assert (len(said(streamed)), len(replies(streamed)), len(of(streamed, Call)), len(of(streamed, Result))) == (
        30,
        30,
        30,
        30,
    )
    assert len({item.key for item in streamed}) == 121
    assert [item.at is None for item in streamed[:2]] == [False, True]
    for path in (compact, pretty):
        assert codex.accepts(path, path.read_bytes()[:65536])


def test_a_whole_document_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rollout-x.json"
    with pytest.raises(BadSource):
        list(codex.whole(path, Tally()))
    path.write_text('{"session": {')
    with pytest.raises(BadSource):
        list(codex.whole(path, Tally()))
    path.write_text("[1]")
    tally = Tally()
    assert list(codex.whole(path, tally)) == []
    assert tally.problems.total() == 1


def test_bare_items_learn_their_folder_from_what_the_model_was_told() -> None:
    header = {"id": "b", "timestamp": "2025-07-01T12:00:00.000Z", "instructions": None, "git": {"branch": "main"}}
    told = "<environment_context>\n\nCurrent working directory: /w/old\n</environment_context>"
    context = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": told}]}
    items = take(header, {"record_type": "state"}, context, *BARE)
    assert of(items, Session) == [Session("codex", cwd="/w/old", branch="main")]
    assert [item.at for item in items if not isinstance(item.what, Session)] == [None] * 5


# --- times


@pytest.mark.parametrize(
    ("written", "at_", "precision"),
    [
        ("2026-04-01T08:00:00.123Z", 1775030400123000, "ms"),
        ("2026-04-01T08:00:00Z", 1775030400000000, "s"),
        ("2026-04-01T08:00:00.123456Z", 1775030400123456, "us"),
        ("2026-04-01T10:00:00.123+02:00", 1775030400123000, "ms"),
        ("9999-99-99T00:00:00Z", None, ""),
        ("[trimmed for fixture]", None, ""),
        (1775030400, None, ""),
        (None, None, ""),
    ],
)
def test_times_are_as_exact_as_they_were_written(written: object, at_: int | None, precision: str) -> None:
    item = take({**text("user", "x"), "timestamp": written})[0]
    assert (item.at, item.precision) == (at_, precision)
