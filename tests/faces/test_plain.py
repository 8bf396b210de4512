"""Words split without a parser: the same as Typer splits them, and nothing said of what is not plain."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bede.operations import VERBS, load
from bede_cli import grammar, parser, plain
from bede_cli.grammar import Word

WORDS = {verb: grammar.words(load(verb)) for verb in VERBS}
FORMS = ("call_json", "call_pretty")
#: What else may be typed: arguments, numbers, and what a parser has its own ideas about.
LOOSE = ("a", "", "-", "--", "---", "7", "-7", "a b.py", '["x","y"]', "é", "-x", "-xy", "--none", "=", "--=x", "-C")


@st.composite
def lines(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Draw a verb and what is typed after it, mostly what the verb knows."""
    verb = draw(st.sampled_from(sorted(VERBS)))
    flags = [flag for item in WORDS[verb] for flag in (*item.flags, *item.off, *item.aliases)]
    word = st.sampled_from(LOOSE)
    flag = st.sampled_from(flags)
    joined = st.builds(lambda one, value: [f"{one}={value}"], flag, word)
    part = st.one_of(flag.map(lambda one: [one]), st.builds(lambda *both: [*both], flag, word), joined, st.lists(word))
    parts = draw(st.lists(part, max_size=6))
    return verb, [one for part in parts for one in part]


def last_form(typed: dict[str, Any]) -> list[str]:
    return [name for name in typed if name in FORMS][-1:]


@given(lines())
def test_what_is_split_typer_splits_the_same(line: tuple[str, list[str]]) -> None:
    verb, arguments = line
    typed = plain.split(WORDS[verb], arguments)
    if typed is not None:
        other = parser.split(load(verb), WORDS[verb], arguments)
        assert typed == other
        assert last_form(typed) == last_form(other)


@pytest.mark.parametrize(
    ("verb", "line", "expected"),
    [
        ("ingest", "", {}),
        ("ingest", "--quiet", {"quiet": True}),
        ("ingest", "-q --path a --path b --json", {"quiet": True, "path": ["a", "b"], "call_json": True}),
        ("search", "why --top-k 3", {"query": "why", "top_k": "3"}),
        ("search", "-C x why -C y --budget=7", {"query": "why", "call_directory": ["x", "y"], "budget": "7"}),
        ("status", "--pretty --json --pretty", {"call_json": True, "call_pretty": True}),
    ],
)
def test_an_everyday_line_needs_no_parser(verb: str, line: str, expected: dict[str, Any]) -> None:
    assert plain.split(WORDS[verb], line.split()) == expected


@pytest.mark.parametrize(
    ("verb", "line"),
    [
        ("ingest", "--help"),
        ("ingest", "-h"),
        ("ingest", "--quie"),
        ("ingest", "-qx"),
        ("ingest", "a"),
        ("ingest", "--path"),
        ("ingest", "--path --quiet"),
        ("ingest", "--quiet=1"),
        ("search", "-- --why"),
        ("auto", "--task-id T -- true"),
    ],
)
def test_anything_else_is_left_to_typer(verb: str, line: str) -> None:
    assert plain.split(WORDS[verb], line.split()) is None


def test_every_flag_of_every_verb_is_plain_but_help() -> None:
    def told(item: Word) -> list[str]:
        return [item.flags[0]] if item.is_flag else [item.flags[0], "1"]

    for verb, words in WORDS.items():
        if any(item.passes for item in words):
            continue
        flags = [item for item in words if item.flags and item.name != "call_help"]
        typed = plain.split(words, [word for item in flags for word in told(item)])
        assert typed is not None and typed.keys() == {item.name for item in flags}, verb
