"""What a line of JSON is, whoever parses it: the parser of big files and the standard library's say the same."""

from __future__ import annotations

import json
import math
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from bede.sources import jsonl

_NUMBERS = st.one_of(st.integers(), st.floats(), st.integers(-(1 << 200), 1 << 200))
_SPELT = st.from_regex(r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)
_TEXTS = st.text(st.characters(codec=None), max_size=20)
_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), _NUMBERS, _TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_TEXTS, inner, max_size=4)),
    max_leaves=12,
)
_quick = jsonl.quick()


def same(one: Any, other: Any) -> bool:
    """Tell whether two values are the same to the type, the sign of a zero and the order of keys."""
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or (one, math.copysign(1, one)) == (
            other,
            math.copysign(1, other),
        )
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def agree(line: bytes) -> None:
    assert same(_quick(line), jsonl._plain(line))


@settings(max_examples=300)
@given(st.dictionaries(_TEXTS, _VALUES, max_size=5), st.booleans())
def test_both_parsers_agree_on_what_is_json(record, is_ascii):
    text = json.dumps(record, ensure_ascii=is_ascii)
    agree(text.encode("utf-8", "surrogatepass") + b"\n")


@settings(max_examples=300)
@given(_SPELT)
def test_both_parsers_agree_on_numbers_as_they_are_spelt(number):
    agree(b'{"a":' + number.encode() + b"}\n")


@settings(max_examples=300)
@given(st.binary(max_size=40))
@example(b'"a":1,"b":2,"a":3')
@example(b'"a":' + b"[" * 199 + b"[]" + b"]" * 199)
@example(b'"a":' + b"[" * 199 + b"1" + b"]" * 199)
@example(b'"a":' + b"[" * 200 + b"1" + b"]" * 200)
@example(b'"a":' + b'{"b":' * 199 + b"{}" + b"}" * 199)
@example(b'"a":' + b'{"b":' * 200 + b"{}" + b"}" * 200)
@example(b'"a":"' + b"[" * 500 + b'","b":[[{}]]')
@example(b'"a":"\\ud800"')
@example(b'"a":"\xed\xa0\x80"')
@example(b'"a":"\x01"')
@example(b'"a":-0, "b":-0.0, "c":1e999, "d":NaN, "e":-Infinity')
@example(b'"a":' + b"[" * 300 + b"]" * 300)
@example(b'"a":' + b"[" * 5000 + b"]" * 5000)
@example(b'"a":1},{"b":2')
def test_both_parsers_agree_on_what_is_none(inner):
    agree(b"{" + inner + b"}\n")
