"""Bytes of raw copies: no secret is in them however it is written or cut, and their reader finds the same in them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bede.intake import sifting
from bede.intake.joined import judged
from bede.intake.sifting import Sieve
from bede.redact import redact, redact_value
from bede.sources import jsonl
from bede.sources.port import Tally

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
HEAD, TAIL = "-----BEGIN " + "RSA PRIVATE KEY-----", "-----END " + "RSA PRIVATE KEY-----"


def _key(lines: int = 8) -> list[str]:
    """Return the lines of a private key, no two alike."""
    return [HEAD, *(f"MII{number:05}{'aB3dE6gH' * 7}" for number in range(lines)), TAIL]


def _lines(data: bytes) -> bytes:
    return b"".join(Sieve().lines(io.BytesIO(data), len(data)))


def _value(data: bytes) -> bytes:
    return b"".join(Sieve().value(io.BytesIO(data)))


def _records(data: bytes) -> list[tuple[str, Any]]:
    found = jsonl.records(io.BytesIO(data), Path(), jsonl.Cursor(), Tally())
    return [(spot.place, value) for spot, value in found]


def _dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


ESCAPED = "".join(f"\\u{ord(letter):04x}" for letter in TOKEN)
SAID = _dumped({"type": "user", "text": "use #"})
PEM = "\\n".join(_key())


@pytest.mark.parametrize(
    "line",
    [
        b'{"note":"' + TOKEN.encode() + b'","note":"x"}',
        b'{"note":"' + ESCAPED.encode() + b'","note":"x"}',
        SAID.replace(b"#", ESCAPED.encode()) + SAID,
        b'{"type":"us' + SAID.replace(b"#", ESCAPED.encode()),
        b'{"type":"' + ESCAPED.encode() + b'","n":',
        b'{"type":"us' + SAID + b'{"type":"' + ESCAPED.encode(),
        SAID.replace(b"#", PEM.replace("\\n", "\n").encode()),
        SAID.replace(b"#", PEM.encode()) + b"\xff",
        b'{"type":"torn ' + PEM.replace("\\n", "\n").encode(),
        b'{"type":"torn ' + PEM.replace("\\n", "\n\n").encode(),
    ],
)
def test_no_line_holds_a_secret_however_it_is_written(line):
    data = SAID + b"\n" + line + b"\n" + SAID + b"\n"
    seen = _lines(data)
    assert not any(each in seen for each in (TOKEN.encode(), ESCAPED[:60].encode(), b"aB3dE6gH"))
    assert [(place, redact_value(value)) for place, value in _records(data)] == _records(seen)
    assert seen.count(b"\n") == data.count(b"\n")


PIECES = {
    "lines of a patch": {"structuredPatch": [{"lines": [f"+{line}" for line in ("a", *_key(), "b")]}]},
    "several hunks": {"lines": [f" {line}" for line in _key()], "other": ["+a", "+b"]},
    "texts of blocks": {"content": [{"type": "text", "text": line} for line in _key()]},
    "pieces of a reply": {
        "response": [{"value": "key " + TOKEN[:20]}, {"kind": "undo"}, {"value": TOKEN[20:] + " end"}]
    },
    "pieces as texts": {"response": ["key " + TOKEN[:20], TOKEN[20:30], TOKEN[30:] + " end"]},
    "values in pieces": {"parts": [{"content": {"value": TOKEN[:9]}}, {"content": {"value": TOKEN[9:]}}]},
    "groups of edits": {"edits": [[{"text": line + "\n"}] for line in _key()]},
    "words of a command": {"command": ["mysql", "-u", "root", "-phunter2Xk93", "shop"]},
    "a mutation by its path": {"kind": 1, "k": ["inputState", "password"], "v": "hunter2Xk93pQz"},
    "lists in lists": {"all": [["a", [TOKEN[:8]]], [[TOKEN[8:]], "b"]]},
}


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in inner for text in _texts(each)]


@pytest.mark.parametrize("value", PIECES.values(), ids=PIECES.keys())
def test_what_is_a_secret_once_it_is_joined_goes_from_its_pieces(value):
    seen, has_met = judged(json.loads(json.dumps(value)))
    assert has_met
    told = json.dumps(seen)
    assert not any(each in told for each in ("aB3dE6gH", TOKEN[:20], TOKEN[20:], TOKEN[9:], "hunter2"))
    assert "[redacted:" in told
    if "command" not in value:  # A mark in a word names, to whoever judges values, the word behind it.
        assert judged(json.loads(told)) == (seen, False)


@pytest.mark.parametrize("by", ["", "\n"])
@given(data=st.data())
def test_joined_again_pieces_are_the_text_without_its_secrets(by, data):
    """So what is built again of a copy says what was said."""
    whole = ["one", "two " + TOKEN + " and", "+" + "\n+".join(_key(3)) + " three", "it's " + TOKEN]
    text = "\n".join(data.draw(st.permutations(whole)))
    if by:
        pieces = text.split(by)
    else:
        cuts = sorted(data.draw(st.sets(st.integers(1, len(text) - 1), min_size=1, max_size=12)))
        pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    if by:
        seen, _ = judged(list(pieces), by)
        assert by.join(seen) == redact(text)
    else:
        blocks, _ = judged([{"text": piece} for piece in pieces], by)
        assert "".join(block["text"] for block in blocks) == redact(text)
        assert len(blocks) == len(pieces), "places tell something"


@pytest.mark.parametrize("by", ["", "\n"])
@given(data=st.data())
def test_whatever_its_reader_joins_it_with_no_secret_stays_in_pieces(by, data):
    text = f"one {TOKEN}\ntwo\n" + "\n".join(_key(3)) + "\nthree"
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text) - 1), min_size=1, max_size=12)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    for value in (pieces, [{"text": piece} for piece in pieces]):
        seen, _ = judged(value, by)
        told = "".join(_texts(seen))
        assert not any(part in told for part in (TOKEN[4:12], "E6gHaB3d"))


def test_what_ends_a_line_does_not_take_the_next_one_along():
    lines = ["+aws_secret_access_key=" + "aB3dE6gH" * 5, "+password=hunter2Xk93", "+user = one", " " + TOKEN, "two"]
    assert judged(list(lines))[0] == redact("\n".join(lines)).split("\n")


def test_signs_that_nobody_sees_shield_nothing():
    pieces = ["\u2060\u2061\u2060", TOKEN[:10], "\u2060\u2062\u2060", TOKEN[10:]]
    seen, has_met = judged(list(pieces))
    assert has_met
    assert not any(piece in "".join(seen) for piece in (TOKEN[:10], TOKEN[10:]))


def test_what_holds_no_secret_stays_as_it_is():
    value = {"lines": ["+a", "-b", " c"], "content": [{"text": "x"}, {"text": "y"}], "k": ["a"], "v": "x"}
    assert judged(value) == (value, False)
    data = b"\xef\xbb\xbf" + SAID + b"\n\n" + SAID + SAID + b'\n{"to\nrn\n' + SAID[:9] + b"\n" + SAID[9:] + b"\nlast"
    assert _lines(data) == data
    assert _value(data) == data


RECORD = st.sampled_from(
    [{"a": 1}, {"text": "two\nlines"}, {"text": TOKEN}, {"lines": _key(2)}, {"password": "hunter2Xk9"}]
)
ODD = [b"", b" ", b"\0\0", b"word", TOKEN.encode(), b"{", b'"', b"}", b"12", b"\xff", "\n".join(_key(2)).encode()]
PIECE = st.one_of(
    RECORD.map(_dumped),
    RECORD.map(lambda value: _dumped(value).replace(b"\\n", b"\n")),
    RECORD.map(lambda value: _dumped(value)[:-3]),
    st.sampled_from(ODD),
)


@given(st.lists(st.tuples(PIECE, st.sampled_from([b"\n", b"\n", b"\n", b"", b"\r\n", b" "])), max_size=12))
def test_its_reader_finds_the_same_records_in_the_same_places(pieces):
    data = b"".join(piece + end for piece, end in pieces)
    seen = _lines(data)
    assert [(place, judged(value)[0]) for place, value in _records(data)] == _records(seen)
    assert TOKEN.encode() not in seen
    assert b"aB3dE6gH" not in seen
    assert _lines(seen) == seen


@pytest.mark.parametrize("before", range(0, 3000, 331))
def test_a_key_over_lines_of_a_text_is_never_cut(before, monkeypatch):
    """A text is judged a stretch at a time; a key that is longer than one makes it longer."""
    monkeypatch.setattr(sifting, "WINDOW", 1000)
    monkeypatch.setattr(sifting, "_NEAR", 100)
    text = "user:\n" + "word\n" * (before // 5) + "\n".join(_key(60)) + "\nmore\n" * 900
    assert _value(text.encode()) == redact(text).encode()


def test_lines_that_are_no_records_are_judged_a_stretch_at_a_time(monkeypatch):
    monkeypatch.setattr(sifting, "RUN", 4000)
    text = "\n".join(line for number in range(200) for line in (*["{torn"] * (number % 7), *_key(number % 90)))
    seen = _lines(SAID + b"\n" + text.encode() + b"\n" + SAID + b"\n")
    assert b"aB3dE6gH" not in seen
    assert seen.count(b"\n") == text.count("\n") + 3
    assert seen.startswith(SAID + b"\n")
    assert seen.endswith(b"\n" + SAID + b"\n")


@pytest.mark.parametrize(
    "data", [b'{"a": "' + ESCAPED.encode() + b'", ', b"[" + TOKEN.encode(), b'{"a":"\\n' + PEM.encode()]
)
def test_of_a_value_that_is_not_whole_no_escape_hides_a_secret(data):
    seen = _value(data)
    assert b"[redacted:" in seen
    assert not any(each in seen for each in (TOKEN.encode(), ESCAPED[:60].encode(), b"aB3dE6gH"))


def test_a_value_keeps_how_it_lies():
    """By its first line a reader tells one document from lines."""
    value = {"a": {"text": TOKEN}, "b": ["ü", 1.5, None]}
    assert _value(_dumped(value)).count(b"\n") == 0
    assert _value(json.dumps(value, indent=2).encode()).startswith(b"{\n")
    assert json.loads(_value(_dumped(value))) == redact_value(value)
