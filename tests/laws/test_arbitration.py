"""Laws of arbitration: every rule at its edge, each refusal with its reason."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bede.arbitration import (
    HANDOFF,
    IDEOGRAPHS,
    LARGEST,
    LETTERS,
    SAME,
    find_duplicate,
    is_statement,
    judge,
    overlap,
    same_outcome,
    trigrams,
)
from bede.errors import Rejected
from bede.projections.rows import KINDS

GOOD: dict[str, Any] = {
    "task_id": "T-1",
    "summary": "The parser now accepts nested lists",
    "learnings": ["recursion needs a bound"],
    "handoff_note": "write the test for depth next",
    "key": "parser.depth",
    "value": 64,
    "command": ["make", "test"],
    "exit_status": 0,
}
ARBITRATED = ("task_handoff", "status_update", "discovered_constraint", "fleet_member")


def _refusal(kind: str, agent: str = "ada", size: int = 100, **said: Any) -> str:
    """Return the reason why a memory is refused, '' when it is not. None takes a field out."""
    body = {name: value for name, value in {**GOOD, **said}.items() if value is not None}
    try:
        judge(kind, agent, body, size)
    except Rejected as refused:
        assert refused.message
        assert refused.exit_status == 3
        return refused.reason
    return ""


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_memory_is_let_in(kind):
    assert _refusal(kind) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_the_largest_memory_is_let_in_and_one_byte_more_is_not(kind):
    assert _refusal(kind, size=LARGEST) == ""
    assert _refusal(kind, size=LARGEST + 1) == "too_large"


@pytest.mark.parametrize(
    ("text", "enough"),
    [
        ("x" * LETTERS, True),
        ("x" * (LETTERS - 1), False),
        ("The login now works with SSO ok", True),
        ("x" * (LETTERS - 1) + " ", False),
        (" " * 40, False),
        ("-" * 40, False),
        ("x" * 14 + "-" * 16, False),
        ("x" * 15 + "-" * 15, True),
        ("é" * LETTERS, True),
        ("資" * IDEOGRAPHS, True),
        ("資" * (IDEOGRAPHS - 1), True),
        ("資" * 9, False),
        ("로그인이이제작동합니다네", True),
        ("ログインが動くようになった", True),
        ("ใช้งานได้แล้วนะครับผม", True),
        ("\U00020000" * IDEOGRAPHS, True),
        ("API 登录 fixed by 張", False),
        ("修复登录 API 的超时问题", True),
        ("", False),
    ],
)
def test_a_summary_is_a_statement(text, enough):
    assert is_statement(text) is enough
    for kind in ARBITRATED:
        assert _refusal(kind, summary=text) == ("" if enough else "summary_too_short")


@given(st.text(max_size=60), st.text("abc", min_size=LETTERS, max_size=60))
def test_more_words_never_make_a_statement_less(text, words):
    if is_statement(text):
        assert is_statement(f"{text.strip()}{words}")


@pytest.mark.parametrize("kind", ARBITRATED)
@pytest.mark.parametrize("learnings", [None, [], [""], ["  ", "\n\t"]])
def test_a_learning_is_needed(kind, learnings):
    assert _refusal(kind, learnings=learnings) == "learnings_empty"
    assert _refusal(kind, learnings=["", "one"]) == ""


@pytest.mark.parametrize("kind", ARBITRATED)
def test_a_task_is_needed(kind):
    assert _refusal(kind, task_id=None) == "task_id_missing"
    assert _refusal(kind, task_id="") == "task_id_missing"


def test_a_hand_off_needs_a_note_and_nothing_else_does():
    assert _refusal("task_handoff", handoff_note="x" * HANDOFF) == ""
    assert _refusal("task_handoff", handoff_note="x" * (HANDOFF - 1)) == "handoff_note_too_short"
    assert _refusal("task_handoff", handoff_note=" " * 30 + "x" * 19 + " " * 30) == "handoff_note_too_short"
    assert _refusal("task_handoff", handoff_note=None) == "handoff_note_too_short"
    for kind in KINDS[1:]:
        assert _refusal(kind, handoff_note=None) == ""


@pytest.mark.parametrize("kind", ["decision", "fact"])
def test_a_decision_or_fact_is_about_something_and_says_something(kind):
    assert _refusal(kind, key=None) == "key_missing"
    assert _refusal(kind, key="  ") == "key_missing"
    assert _refusal(kind, value=None) == "value_missing"
    for value in (0, False, 0.0, [], {}):
        assert _refusal(kind, value=value) == ""


def test_a_run_has_a_command_and_an_end():
    assert _refusal("run", command=None) == "command_missing"
    assert _refusal("run", command=[]) == "command_missing"
    assert _refusal("run", exit_status=None) == "exit_status_missing"
    assert _refusal("run", exit_status=-9) == ""


@pytest.mark.parametrize("kind", ["task", "note"])
def test_a_note_needs_words_and_no_more(kind):
    assert _refusal(kind, summary="x", task_id=None, learnings=None) == ""
    for summary in (None, "", " \n"):
        assert _refusal(kind, summary=summary) == "summary_too_short"


@pytest.mark.parametrize("kind", KINDS)
def test_names_must_be_well_formed(kind):
    assert _refusal(kind, agent="a b") == "invalid_agent_id"
    assert _refusal(kind, task_id="a b") == "invalid_task_id"
    assert _refusal(kind, task_id="../x") == "invalid_task_id"
    assert _refusal(kind, labels=["dep:x", "nolabel"]) == "invalid_label"
    assert _refusal(kind, labels=["dep:" + "x" * 60]) == ""
    assert _refusal(kind, labels=["dep:" + "x" * 61]) == "invalid_label"


@pytest.mark.parametrize("kind", KINDS)
def test_only_a_constraint_ends_another(kind):
    expected = "" if kind == "discovered_constraint" else "invalidates_kind_mismatch"
    assert _refusal(kind, ends={"invalidates": ["0" * 64]}) == expected
    assert _refusal(kind, ends={"invalidates": []}) == ""


def test_the_size_is_judged_first_then_names_then_what_is_said():
    assert _refusal("task_handoff", agent="a b", size=LARGEST + 1, summary="") == "too_large"
    assert _refusal("task_handoff", agent="a b", summary="") == "invalid_agent_id"


def _duplicate(body: dict[str, Any], *others: dict[str, Any]) -> str:
    try:
        find_duplicate(body, [(f"{number:064x}", other) for number, other in enumerate(others)])
    except Rejected as refused:
        assert refused.reason == "duplicate_content"
        assert SAME <= refused.details["similarity"] <= 1
        return str(refused.details["duplicate_of"])
    return ""


SAID = {"summary": "the cache is cleared on every deploy of the service", "learnings": ["clear it by hand"]}


@pytest.mark.parametrize(
    "summary",
    [
        "the cache is cleared on every deploy of the service",
        "The  CACHE is cleared\non every deploy of the service ",
        "ｔｈｅ cache is cleared on every deploy of the service",
        "the cache is cleared on every deploy of the service.",
    ],
)
def test_the_same_in_other_dress_is_a_duplicate(summary):
    assert _duplicate({**SAID, "summary": summary}, {**SAID, "summary": "another matter"}, SAID) == f"{1:064x}"


@pytest.mark.parametrize(
    "changed",
    [
        {"learnings": ["clear it by script"]},
        {"learnings": []},
        {"handoff_note": "now do the other one too"},
        {"value": 1},
        {"rationale": "since it was stale"},
        {"exit_status": 1},
        {"labels": ["dep:redis"]},
        {"tags": ["x"]},
        {"ends": {"invalidates": ["a" * 64]}},
        {"summary": "the index is rebuilt on every start of the worker"},
    ],
)
def test_a_changed_outcome_is_no_duplicate(changed):
    assert _duplicate({**SAID, **changed}, SAID) == ""
    assert _duplicate(SAID, {**SAID, **changed}) == ""


@pytest.mark.parametrize(("one", "other"), [(1, True), (0, False), (1, "1"), ([1], [True]), (0, None)])
def test_values_that_only_python_takes_for_equal_are_different(one, other):
    assert not same_outcome({"value": one}, {"value": other})
    assert _duplicate({**SAID, "value": one}, {**SAID, "value": other}) == ""


def test_what_a_memory_superseded_does_not_make_it_another():
    """The stored one knows what it ended; the same said again does not yet."""
    stored = {**SAID, "ends": {"supersedes": ["b" * 64]}}
    assert _duplicate(SAID, stored) == f"{0:064x}"


@given(st.text(max_size=40), st.text(max_size=40))
def test_likeness_is_a_measure(one, other):
    left, right = trigrams(one), trigrams(other)
    assert overlap(left, left) == 1
    assert overlap(left, right) == overlap(right, left)
    assert 0 <= overlap(left, right) <= 1
    assert (overlap(left, right) == 1) == (left == right)


@given(st.text(max_size=60), st.text("ab ", max_size=60))
def test_whatever_is_said_twice_is_found(summary, learning):
    body = {"summary": summary, "learnings": [learning]}
    assert _duplicate(body, body) == f"{0:064x}"
