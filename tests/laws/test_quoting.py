"""What is shown of texts that do not fit: laws of shares and of quotes."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from bede.answers.quoting import GAP, Telling, quote, shares


def about(word: str) -> Telling:
    """Return what tells of pieces how often a word stands in them."""

    def tell(pieces: Sequence[str]) -> list[float]:
        return [float(piece.count(word)) for piece in pieces]

    return tell


@given(st.lists(st.tuples(st.integers(0, 500), st.floats(0.05, 1.0)), max_size=20), st.integers(0, 3000))
@settings(max_examples=200, deadline=None)
def test_shares_fill_the_room_and_no_more_and_nobody_gets_more_than_he_needs(
    pairs: list[tuple[int, float]], room: int
) -> None:
    needs = [need for need, _ in pairs]
    given_ = shares(needs, [weight for _, weight in pairs], room)
    assert all(0 <= got <= need for got, need in zip(given_, needs, strict=True))
    assert sum(given_) <= room
    assert sum(given_) >= min(sum(needs), room) - len(needs)  # Whole units are rounded down.


def test_the_short_are_whole_before_the_long_are_cut_and_the_heavier_get_more() -> None:
    assert shares([10, 500, 500], [1.0, 1.0, 1.0], 210) == [10, 100, 100]
    assert shares([500, 500], [1.0, 0.5], 300) == [200, 100]


@given(st.text(alphabet="ab. \n設!", max_size=600), st.integers(0, 700))
@settings(max_examples=200, deadline=None)
def test_a_quote_keeps_to_its_room_and_says_how_much_is_missing(text: str, room: int) -> None:
    shown, missing = quote(text, about("a"), room)
    assert len(shown) <= max(room, 2 * len(GAP))
    assert (shown, missing) == (text, 0) if len(text) <= room else missing > 0
    pieces = shown.split(GAP.strip()) if missing else [shown]
    assert all(piece.strip() in text for piece in pieces)


def test_of_a_long_text_the_lines_come_that_tell_most_with_their_neighbours() -> None:
    lines = [f"Line {number} says nothing of note here." for number in range(60)]
    lines[41] = "The ribbon is magenta."
    shown, missing = quote("\n".join(lines), about("magenta"), 220)
    assert lines[41] in shown
    assert lines[40] in shown or lines[42] in shown
    assert lines[20] not in shown
    assert missing == len("\n".join(lines)) - len(shown.replace(GAP, "").replace(GAP.lstrip(), "").replace("\n[…]", ""))


def test_a_call_that_went_well_gives_way_to_one_that_failed_and_to_prose() -> None:
    calls = "\n".join(f"[bash] run magenta {number} (exit 0)" for number in range(30))
    text = f"{calls}\n[bash] run magenta (exit 1)\nprinter out of magenta"
    shown, _ = quote(text, about("magenta"), 120)
    assert "printer out of magenta" in shown
