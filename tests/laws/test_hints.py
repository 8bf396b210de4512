"""Laws of what a wrong word was meant to be: near names are found, far ones never."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bede.errors import UsageError
from bede.hints import alike, asked, near, slips
from bede.sources import source

NAMES = ("log", "search", "status", "install-hooks", "uninstall-hooks", "claude-code", "recall.top_k", "--ours")


@pytest.mark.parametrize(
    ("word", "names"),
    [
        *(("lgo", ("log",)), ("serach", ("search",)), ("Status", ("status",)), ("claude", ("claude-code",))),
        *(("claud", ("claude-code",)), ("recall.topk", ("recall.top_k",))),
        ("hooks", ("install-hooks", "uninstall-hooks")),
        *(("-ours", ("--ours",)), ("--abort", ()), ("best", ()), ("", ()), ("-", ()), ("l", ()), ("x" * 10_000, ())),
    ],
)
def test_what_is_near_is_named_and_nothing_else(word: str, names: tuple[str, ...]) -> None:
    assert near(word, NAMES) == names


@pytest.mark.parametrize(
    ("word", "known", "names"),
    [
        ("--path", ("--file", "--branch"), ("--file",)),
        ("--limit", ("--top-k", "-n", "--in"), ("--top-k", "-n")),
        ("-n", ("--top-k",), ("--top-k",)),
        ("--After", ("--since", "--until"), ("--since",)),
        *(("--file", ("--kind",), ()), ("--", ("--file",), ()), ("--abort", ("--at",), ())),
    ],
)
def test_what_other_tools_call_an_option_is_named(word: str, known: tuple[str, ...], names: tuple[str, ...]) -> None:
    assert alike(word, known) == names


def test_more_than_three_are_none() -> None:
    assert near("recall", ["recall.a1", "recall.b1", "recall.c1", "recall.d1"]) == ()
    assert asked("zzz", NAMES) == ""
    assert asked("hooks", NAMES) == "did you mean 'install-hooks' or 'uninstall-hooks'? "


def test_an_agent_whose_transcripts_are_unknown_is_named_right() -> None:
    with pytest.raises(UsageError) as refused:
        source("claud")
    assert refused.value.hint.startswith("did you mean 'claude-code'? known are antigravity, claude-code, ")


@given(st.text(max_size=9), st.text(max_size=9), st.text(max_size=9))
def test_slips_are_a_distance(one: str, two: str, more: str) -> None:
    assert (slips(one, two) == 0) == (one == two)
    assert slips(one, two) == slips(two, one) <= max(len(one), len(two))
    assert slips(one, one + more) == len(more)


@given(st.text("abcdef", min_size=2, max_size=9), st.data())
def test_two_letters_swapped_are_one_slip(word: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(word) - 2))
    swapped = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    assert slips(word, swapped) == (swapped != word)
