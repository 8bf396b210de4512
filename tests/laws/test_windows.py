"""Windows over a session: where they are cut, that appending never moves them, and whose characters they show."""

from __future__ import annotations

import tracemalloc
from itertools import accumulate

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bede.engines import tokens
from bede.projections.windows import SIZE, STEP, Cuts, Stream, Window, shown

#: Any text that can be stored: no lone surrogate.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
LONG = st.builds(lambda text, times: text * times, TEXT, st.integers(1, 40))
TURNS = st.lists(st.one_of(TEXT, LONG), min_size=1, max_size=12)


def bytewise(text: str) -> list[int]:
    """Cut a text into its bytes: every character that is not ASCII is cut inside."""
    return [1] * len(text.encode())


def ragged(text: str) -> list[int]:
    """Cut a text into tokens of one, two, three … bytes, wherever a character may end."""
    left, found = len(text.encode()), list[int]()
    while left:
        found.append(min(left, 1 + len(found) % 5))
        left -= found[-1]
    return found


WIDTHS = (bytewise, ragged, tokens.widths)
each_way = pytest.mark.parametrize("widths", WIDTHS, ids=lambda widths: widths.__name__)


def spans(texts: list[str], widths) -> list[tuple[int, int]]:
    """Return of every token of the stream where it begins: the turn, and the characters that begin before it."""
    found = []
    for number, text in enumerate(texts):
        data = (text + "\n").encode()
        for start in accumulate(widths(text + "\n")[:-1], initial=0):
            found.append((number, sum(byte & 0xC0 != 0x80 for byte in data[:start])))
    return found


def whole(texts: list[str], widths) -> list[Window]:
    """Cut a whole session, by the definition."""
    begins, found, start = spans(texts, widths), [], 0
    while start < len(begins) and (not start or start + SIZE - STEP < len(begins)):
        stop = min(start + SIZE, len(begins))
        last = begins[stop - 1][0]
        end = begins[stop][1] if stop < len(begins) and begins[stop][0] == last else len(texts[last])
        first, begin = begins[start]
        begin, end = min(begin, len(texts[first])), min(end, len(texts[last]))
        found.append(Window(start, stop - start, first, begin, last, end))
        start += STEP
    return found


@each_way
@given(texts=TURNS)
@example(texts=["é" * 700, "", "日本語" * 90, "👩‍👩‍👧" * 50])
@example(texts=[""] * 300)
def test_a_session_is_cut_every_224_tokens_at_characters_of_its_turns(widths, texts):
    assert Stream(texts, 0, widths).windows(0) == whole(texts, widths)


@each_way
@given(texts=TURNS, data=st.data())
def test_what_is_appended_gives_the_same_windows_as_all_at_once(widths, texts, data):
    known = data.draw(st.integers(0, len(texts)), "turns that were cut before")
    fresh = Stream(texts, 0, widths).windows(0)
    before = Stream(texts[:known], 0, widths) if known else None
    after = before.starts[-1] if before else 0
    starts = list(accumulate([len(widths(text + "\n")) for text in texts], initial=0))
    low = max(number for number in range(known + 1) if starts[number] <= max(0, after - SIZE))
    later = (
        [
            Window(one.start, one.tokens, one.first + low, one.begin, one.last + low, one.end)
            for one in Stream(texts[low:], starts[low], widths).windows(after)
        ]
        if known < len(texts)
        else []
    )
    kept = [one for one in (before.windows(0) if before else []) if not later or one.start <= after - SIZE]
    assert kept + later == fresh


@each_way
@given(texts=TURNS, more=TURNS)
def test_a_full_window_never_changes(widths, texts, more):
    full = [one for one in Stream(texts, 0, widths).windows(0) if one.tokens == SIZE]
    assert Stream(texts + more, 0, widths).windows(0)[: len(full)] == full


@given(texts=TURNS)
def test_windows_show_every_character_and_nothing_else(texts):
    stream, joined, at = Stream(texts, 0, tokens.widths), "\n".join(texts), 0
    places = list(accumulate([len(text) + 1 for text in texts], initial=0))
    for one in stream.windows(0):
        start, end = places[one.first] + one.begin, places[one.last] + one.end
        assert shown(texts[one.first : one.last + 1], one) == joined[start:end]
        assert start <= at  # Nothing is left out between two.
        at = max(at, end)
    assert not joined[at:].strip("\n") and at <= len(joined)


@given(text=TEXT, data=st.data())
def test_characters_before_a_token_are_counted_from_any_place_to_any(text, data):
    cuts, places = Cuts(text, bytewise(text + "\n")), (text + "\n").encode()
    for token in data.draw(st.lists(st.integers(0, cuts.tokens), max_size=20)):
        begun = sum(byte & 0xC0 != 0x80 for byte in places[:token])
        assert cuts.before(token) == min(begun, len(text))


@given(text=LONG)
def test_widths_are_those_of_the_tokens(text):
    widths, data, at = tokens.widths(text), text.encode(), 0
    for token, width in zip(tokens.encode(text), widths, strict=True):
        assert tokens.decode([token]) == data[at : at + width].decode(errors="replace")
        at += width
    assert at == len(data)


def test_to_cut_a_long_text_takes_what_it_has_and_no_more_than_a_part_takes():
    tokens.widths("so that what it takes once is there")
    text = "".join(f"word{number} of many; " for number in range(100_000))
    tracemalloc.start()
    stream = Stream([text], 0, tokens.widths)
    peak = tracemalloc.get_traced_memory()[1]
    count = len(stream.windows(0))
    tracemalloc.stop()
    assert count == -(-(stream.starts[-1] - SIZE) // STEP) + 1
    assert peak < 8 * tokens._STRETCH * 4 + len(text)
