"""Records that share a line: each is found, where it stands, whatever is between them and before them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bede.sources import jsonl
from bede.sources.port import Tally

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
VALUES = st.recursive(st.none() | st.integers() | TEXTS, lambda inner: st.lists(inner, max_size=2), max_leaves=4)
OBJECTS = st.dictionaries(TEXTS, VALUES, min_size=1, max_size=3)
GAPS = st.text(st.sampled_from("\x00 \t\r"), max_size=3)


def _read(data: bytes) -> tuple[list[tuple[int, Any]], Tally, jsonl.Cursor]:
    tally, cursor = Tally(), jsonl.Cursor()
    found = list(jsonl.records(io.BytesIO(data), Path("s.jsonl"), cursor, tally))
    return [(spot.offset, record) for spot, record in found], tally, cursor


@given(st.lists(st.tuples(OBJECTS, GAPS, st.booleans()), min_size=1, max_size=6), st.sampled_from(["", '{"torn": "x']))
def test_each_is_found_where_it_stands(items, torn):
    data, places = torn, []
    for value, gap, is_plain in items:
        places.append((len(data.encode()), value))
        data += json.dumps(value, ensure_ascii=is_plain) + gap
    found, tally, cursor = _read(data.encode() + b"\n")
    assert found == places
    assert tally.problems == ({"torn": 1} if torn else {})
    assert (cursor.offset, cursor.line) == (len(data.encode()) + 1, 2)


@pytest.mark.parametrize("between", ["", "\r", " \r\x00"])
def test_any_number_of_them(between):
    """As of a file whose lines end with a carriage return, of which all is one line."""
    pieces = [json.dumps({"n": number, "text": "漢 " + "x" * 500}, ensure_ascii=False) for number in range(20_000)]
    data = between.join(pieces).encode()
    found, tally, _ = _read(data + b"\n")
    assert [record["n"] for _, record in found] == list(range(20_000))
    assert all(data.startswith(b'{"n": %d,' % record["n"], offset) for offset, record in found[::1000])
    assert not tally.problems


def test_a_torn_line_of_many_objects_with_no_end_costs_itself():
    """Nothing behind it is lost, and none of its objects is taken for a record."""
    whole = json.dumps({"a": {"b": 1}}).encode()
    found, tally, _ = _read(b'{"torn": "x' + whole * 200_000 + b"!\n" + whole + b"\n" + whole + b"\n")
    assert [record for _, record in found] == [{"a": {"b": 1}}] * 2
    assert tally.problems == {"torn": 1}
