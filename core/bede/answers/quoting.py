"""What is shown of texts that do not all fit: each gets a fair share of the room, and the pieces that tell most.

Pure functions. A text that fits its share is whole; what a short one leaves over goes to the long ones. Of a long one
the pieces come, in order, that hold most of what was asked, with what stands beside them. Never more than the room.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

#: Tells of pieces of text how much of what was asked each holds.
Telling = Callable[[Sequence[str]], Sequence[float]]
#: Most characters of a piece, and what stands for the ones between two.
PIECE, GAP = 300, "\n[…]\n"
#: What a piece gets of the better one beside it, and how much the first counts by itself: it often says what follows.
#: A call that went well tells least.
BESIDE, OPENING, CALL = 0.5, 0.3, 0.5

_END = re.compile(r"\n+|(?<=[.!?])\s+|(?<=[。！？])")
_CALL = re.compile(r"\[[^\]\n]{1,60}\](?: .*)?\s*")


def shares(needs: Sequence[int], weights: Sequence[float], room: int) -> list[int]:
    """Divide a room: nobody gets more than he needs, and of what is scarce each gets by his weight."""
    given = [0] * len(needs)
    open_ = set(range(len(needs)))
    left = max(0, room)
    while open_ and left > 0:
        unit = left / sum(weights[one] for one in open_)
        content = {one for one in open_ if needs[one] <= unit * weights[one]}
        for one in content or open_:
            given[one] = needs[one] if content else int(unit * weights[one])
        if not content:
            break
        left -= sum(needs[one] for one in content)
        open_ -= content
    return given


def quote(text: str, telling: Telling, room: int) -> tuple[str, int]:
    """Return a text, or of one with more characters than the room the pieces that tell most; and how many are missing.

    The text that comes back is never longer than the room.
    """
    if len(text) <= room:
        return text, 0
    spans = list(_pieces(text))
    parts = [text[start:end] for start, end in spans]
    told = [worth * (CALL if _is_call(part) else 1.0) for part, worth in zip(parts, telling(parts), strict=True)]
    kept = _kept(spans, _worth(told), room)
    shown = _joined(text, [spans[one] for one in kept])
    return shown, len(text) - sum(spans[one][1] - spans[one][0] for one in kept)


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Cut a text into sentences and lines, a very long one where it stands."""
    start = 0
    ends = [found.end() for found in _END.finditer(text)]
    for end in (*ends, len(text)):
        while end - start > PIECE:
            blank = text.rfind(" ", start + PIECE // 2, start + PIECE)
            middle = blank + 1 if blank > 0 else start + PIECE
            yield start, middle
            start = middle
        if end > start:
            yield start, end
            start = end


def _is_call(part: str) -> bool:
    return part.startswith("[") and not part.rstrip().endswith("(failed)") and bool(_CALL.fullmatch(part))


def _worth(told: Sequence[float]) -> list[float]:
    top = max(told, default=0.0) or 1.0
    around = [0.0, *told, 0.0]
    worth = [one + BESIDE * max(around[spot], around[spot + 2]) for spot, one in enumerate(told)]
    return [one + OPENING * top * (not spot) for spot, one in enumerate(worth)]


def _kept(spans: Sequence[tuple[int, int]], worth: Sequence[float], room: int) -> list[int]:
    """Choose pieces, the best first, while there is room for them and the gaps between."""
    kept = set[int]()
    used = 2 * len(GAP)
    for spot in sorted(range(len(spans)), key=lambda spot: (-worth[spot], spot)):
        gaps = len(GAP) * (1 - (spot - 1 in kept) - (spot + 1 in kept))
        size = spans[spot][1] - spans[spot][0] + gaps
        if used + size <= room:
            kept.add(spot)
            used += size
    return sorted(kept)


def _joined(text: str, spans: Sequence[tuple[int, int]]) -> str:
    made, last = list[str](), 0
    for start, end in spans:
        if start > last:
            made.append(GAP if made else GAP.lstrip())
        made.append(text[start:end])
        last = end
    if last < len(text):
        made.append(GAP.rstrip())
    return "".join(made)
