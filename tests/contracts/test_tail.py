"""What is kept of an output: the end of it, as text, whatever it was."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bede.child.tail import Tail, clean

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
PIECES = st.lists(
    st.one_of(
        st.binary(max_size=40),
        st.sampled_from(
            [b"\x1b[31m", b"\x1b[", b"\x1b]0;", b"\x07", b"\r", b"\n", b"\b", b"\x1b[K", b"\x1b[?1049h", b"\x1b[?1049l"]
        ),
    ),
    max_size=60,
)


def tail(*pieces: bytes, keep: int = 1000) -> tuple[str, bool]:
    """Return what is kept of these pieces."""
    kept = Tail(keep)
    for piece in pieces:
        kept.add(memoryview(piece))
    return kept.text()


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", ""),
        (b"one\ntwo\n", "one\ntwo\n"),
        (b"one\r\ntwo\r\r\n", "one\ntwo\n"),
        (b"no newline", "no newline"),
        (b"tab\tstays\n", "tab\tstays\n"),
        (b"\x1b[1;31mred\x1b[0m \x1b[38;2;1;2;3mmore\x1b[m\n", "red more\n"),
        (b"\x1b]0;title\x07text\n", "text\n"),
        (b"\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\\n", "link\n"),
        (b"\x1bP1$r0m\x1b\\text\n", "text\n"),
        (b"\x1b]0;never closed\nnext\n", "\nnext\n"),
        (b"\x1b(B\x1b=\x1b7text\x1b8\n", "text\n"),
        ("\x9b31mred\x9b0m\n".encode(), "red\n"),
        (b"1%\r2%\r100%\n", "100%\n"),
        (b"1%\r2%\r100%\r\ndone\n", "100%\ndone\n"),
        (b"1%\r100%\r", "100%"),
        (b"working\r\x1b[Kdone\n", "done\n"),
        (b"working\r\x1b[K\nnext\n", "\nnext\n"),
        (b"working\x1b[2K\rdone\n", "done\n"),
        (b"spin |\b/\b-\bok\n", "spin ok\n"),
        (b"N\bNA\bAM\bME\bE _\bx\n", "NAME x\n"),
        (b"before\n\x1b[?1049h\x1b[Hdrawn\nscreen\x1b[?1049lafter\n", "before\nafter\n"),
        (b"before\n\x1b[?1049hdrawn and killed", "before\n"),
        (b"bell\x07 nul\x00 del\x7f\n", "bell nul del\n"),
        (b"caf\xc3\xa9 \xff\xfe \xe8\xb3\x87\n", "café \ufffd\ufffd 資\n"),
    ],
)
def test_what_is_left_of_an_output(raw: bytes, text: str) -> None:
    assert clean(raw) == text


def test_the_beginning_goes_first_and_a_line_is_kept_whole() -> None:
    lines = b"".join(b"line %d\n" % number for number in range(1000))
    text, cut = tail(lines, keep=100)
    assert cut
    assert text.encode() == b"".join(b"line %d\n" % number for number in range(989, 1000))


def test_a_line_that_just_fits_is_kept() -> None:
    assert tail(b"first\nsecond\n", keep=7) == ("second\n", True)
    assert tail(b"first\nsecond\n", keep=6) == ("econd\n", True)
    assert tail(b"first\nsecond\n", keep=13) == ("first\nsecond\n", False)


def test_one_endless_line_is_cut_between_characters() -> None:
    text, cut = tail("資".encode() * 100_000, keep=100)
    assert (text, cut) == ("資" * 33, True)


def test_progress_of_megabytes_leaves_the_lines_before_it() -> None:
    progress = b"".join(b"\r%d of 9999 \x1b[32m######\x1b[0m" % number for number in range(3000))
    text, _ = tail(b"start\n", progress, b"\nend\n", keep=16_384)
    assert text == "start\n2999 of 9999 ######\nend\n"


def test_a_screen_whose_beginning_is_gone_leaves_nothing() -> None:
    drawn = b"\x1b[?1049h" + b"\x1b[Hdrawn line\r\n" * 20_000 + b"\x1b[?1049l" + b"after\n"
    assert tail(drawn, keep=1000) == ("after\n", True)


def test_nothing_is_kept_where_nothing_is_wanted() -> None:
    assert tail(b"something\n", keep=0) == ("", True)
    assert tail(keep=0) == ("", False)


@given(PIECES, st.integers(0, 300))
def test_whatever_comes_the_text_is_short_and_harmless(pieces: list[bytes], keep: int) -> None:
    text, _ = tail(*pieces, keep=keep)
    assert len(text.encode()) <= keep
    assert not CONTROL.search(text)


@given(PIECES)
def test_how_it_was_cut_into_pieces_makes_no_difference(pieces: list[bytes]) -> None:
    assert tail(*pieces) == tail(b"".join(pieces))


@given(st.lists(st.text(st.characters(exclude_categories=["C", "Z"]), max_size=20), max_size=50), st.integers(1, 200))
def test_of_plain_lines_as_many_are_kept_as_fit(lines: list[str], keep: int) -> None:
    whole = "".join(line + "\n" for line in lines)
    text, cut = tail(whole.encode(), keep=keep)
    assert whole.endswith(text)
    assert cut == (text != whole)
    if cut and lines and len((lines[-1] + "\n").encode()) <= keep:
        left = whole[: len(whole) - len(text)]
        assert left.endswith("\n")
        assert len((left.splitlines(keepends=True)[-1] + text).encode()) > keep
