"""Windows: stretches of 256 tokens of a session, each with 32 of the one before.

A session's turns, each with a line feed behind it, are one stream of tokens; each turn is cut by itself, so that no
token of a turn depends on its neighbours. Window k begins at token 224 k. So a window that is full never changes when
turns are appended. Pure: it knows no table, and is told how texts are cut.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

from bede.quick import dataclass

SIZE, STEP = 256, 224
#: Bytes of UTF-8 inside which no character begins.
_INSIDE = bytes(range(0x80, 0xC0))

#: So many tokens of a text are counted together: of one of millions, only those sums are kept as numbers.
_STRIDE = 256

#: Returns how many bytes each token of a text has.
Widths = Callable[[str], Sequence[int]]


@dataclass(frozen=True, slots=True)
class Window:
    """Where a window is: from a character of one turn to before a character of another, turns by their number."""

    start: int  # token of the session at which it begins
    tokens: int
    first: int
    begin: int  # character of the first turn
    last: int
    end: int  # behind the last character of the last turn


class Stream:
    """A part of a session's stream: consecutive turns, the first of which begins at a known token."""

    def __init__(self, texts: Sequence[str], start: int, widths: Widths) -> None:
        self.texts = texts
        self._cuts = [Cuts(text, widths(text + "\n")) for text in texts]
        sizes = [cuts.tokens for cuts in self._cuts]
        #: The token of the session at which each turn begins, and the one behind the last.
        self.starts = list(accumulate(sizes, initial=start))

    def windows(self, after: int) -> list[Window]:
        """Return the windows that end behind a token, all of which must begin within these turns.

        The last may be short; it is left out where the one before holds all of it.
        """
        end = self.starts[-1]
        first = max(0, -(-(after - SIZE + 1) // STEP)) if after >= SIZE else 0
        found: list[Window] = []
        start = first * STEP
        while start < end and (start == 0 or start + SIZE - STEP < end):
            stop = min(start + SIZE, end)
            left, begin = self._spot(start)
            right, close = self._spot(stop, is_end=True)
            found.append(Window(start, stop - start, left, begin, right, close))
            start += STEP
        return found

    def _spot(self, token: int, *, is_end: bool = False) -> tuple[int, int]:
        """Return in which of the turns, and at which of its characters, a token of the session begins."""
        at = min(bisect_right(self.starts, token - is_end) - 1, len(self.texts) - 1)
        return at, self._cuts[at].before(token - self.starts[at])


class Cuts:
    """Where the tokens of a text begin, the line feed behind it included; one may begin inside of a character."""

    __slots__ = ("_data", "_known", "_size", "_sums", "_widths", "tokens")

    def __init__(self, text: str, widths: Sequence[int]) -> None:
        self.tokens = len(widths)
        self._widths = widths
        strides = range(0, self.tokens, _STRIDE)
        self._sums = list(accumulate([sum(widths[at : at + _STRIDE]) for at in strides], initial=0))
        self._size = len(text)
        self._data = b"" if text.isascii() else text.encode("utf-8", "replace")
        self._known = (0, 0)

    def before(self, token: int) -> int:
        """Return how many characters of the text begin before a token.

        Characters are counted from the place that was asked for last, so that going through a text is linear.
        """
        behind = token % _STRIDE
        at = self._sums[token // _STRIDE] + sum(self._widths[token - behind : token])
        if self._data:
            place, count = self._known
            count += self._begun(place, at) if place <= at else -self._begun(at, place)
            self._known = (at, count)
            at = count
        return min(at, self._size)

    def _begun(self, start: int, end: int) -> int:
        return len(self._data[start:end].translate(None, _INSIDE))


def shown(texts: Sequence[str], window: Window) -> str:
    """Return a window's text, given the texts of its turns."""
    if len(texts) == 1:
        return texts[0][window.begin : window.end]
    return "\n".join((texts[0][window.begin :], *texts[1:-1], texts[-1][: window.end]))
