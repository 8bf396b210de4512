"""JSON of others is read to one depth, whatever the parser of this Python could do."""

from __future__ import annotations

import json

import pytest

from bede.identity import DEEPEST, is_deeper
from bede.sources.parsed import bounded, parsed


def nested(levels: int, leaf: str = "1", opening: str = "[", closing: str = "]") -> str:
    return opening * levels + leaf + closing * levels


@pytest.mark.parametrize("text", [
    nested(DEEPEST), nested(DEEPEST, "[]"), nested(DEEPEST, "{}"), nested(DEEPEST, "1", '{"a":', "}"),
    "[" + "[]," * 500 + "1]", json.dumps("[" * 500), json.dumps({"a": "{" * 500, "b": [[1]]}), "1", '"x"', "null", "{}",
])  # fmt: skip
def test_what_is_nested_as_deep_as_may_be_is_read(text: str) -> None:
    assert parsed(text) == parsed(text.encode()) == parsed(text, strict=False) == json.loads(text)


@pytest.mark.parametrize("levels", [DEEPEST + 1, 2 * DEEPEST, 900, 3000, 20_000, 200_000])
@pytest.mark.parametrize("pair", [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_what_is_nested_deeper_is_no_value(levels: int, pair: tuple[str, str]) -> None:
    for text in (nested(levels, "1", *pair), nested(levels, "1", *pair).encode()):
        with pytest.raises(ValueError, match="nested too deeply"):
            parsed(text)


@pytest.mark.parametrize("text", ["", "{", "[1,]", "nope", b"\xff", '"\n"'])
def test_what_is_no_json_is_no_value(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parsed(text)


def test_raw_line_ends_in_texts_are_read_where_that_is_asked_for() -> None:
    assert parsed('"a\nb"', strict=False) == "a\nb"


def test_only_the_part_that_was_read_is_judged() -> None:
    deep = json.loads(nested(DEEPEST + 1))
    text = nested(DEEPEST + 1) + "[1]"
    assert bounded([1], text, len(text) - 3) == [1]
    with pytest.raises(ValueError, match="nested too deeply"):
        bounded(deep, text, 0, len(text) - 3)


def test_what_holds_itself_is_deeper_than_any_number() -> None:
    ring: list[object] = []
    ring.append(ring)
    assert is_deeper(ring, 10_000)
    assert not is_deeper([[[]]], 2)
    assert is_deeper([[[1]]], 2)
    assert is_deeper({"a": ({"b": 1},)}, 2)
