"""Tokens of the encoding `cl100k_base`: exact counts, and a bound that is cheap and never too low.

Counting is tiktoken's, over the ranks in this package: no network, ever. Special tokens are ordinary text
here, and a lone surrogate counts as U+FFFD. Importing this module loads nothing; `bound`, and a `fits` that
is plainly true or false, load a part of the ranks at most; the first other answer of a process loads
tiktoken. Threads may share it all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bede.errors import Corrupt, Unavailable

if TYPE_CHECKING:
    from tiktoken import Encoding

__all__ = ["bound", "count", "decode", "encode", "fits", "trim", "widths"]

#: The lengths of all tokens, a byte each, then the tokens, both in order of rank. See docs/records/tokens.md.
_RANKS = Path(__file__).with_name("cl100k_base.ranks.gz")
_SHA256 = "9b424153a6f7d8660fb781731fc3b362172b69ca4776dd70051bf8eced71a710"
_SIZE = 100_256
_WIDEST = 128  # bytes of the longest token

#: Where the encoding cuts a text before it merges bytes, in tiktoken's notation: what it publishes, but that the cuts
#: without a look ahead are one group, and greedy where it says possessive. They cut the same, in half the time.
_PLAIN = (
    r"'(?i:[sdmt]|ll|ve|re)",
    r"[^\r\n\p{L}\p{N}]?\p{L}+",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"\s+$",
    r"\s*[\r\n]",
)
_CUTS = (f"(?:{'|'.join(_PLAIN)})", r"\s+(?!\S)", r"\s")
#: What tiktoken takes for whitespace; Python's idea of it is wider.
_SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_STRIDE = 1 << 16  # longer whitespace is encoded apart
_STRETCH = 1 << 18  # so much of a longer text is encoded at once
#: Blanks; letters, signs and digits that all versions of Unicode know as such.
_BLANK, _LETTER = _SPACES.translate({10: None, 13: None}), r"A-Za-z\u3041-\u3096\u30A1-\u30FA\u4E00-\u9FA5\uAC00-\uD7A3"
_SIGN, _DIGIT = r"!-/:-@\[-`{-~\u3001\u3002\uFF01\uFF0C", "0-9"
#: Where no piece reaches across, nor looks: before a blank behind what is none; behind the last line break of
#: whitespace; behind a letter; on either side of a number.
_SEAM = "|".join(
    (
        rf"[^{_SPACES}](?=[{_BLANK}])",
        rf"[\r\n](?=[{_BLANK}]*+[^{_SPACES}])",
        rf"[{_LETTER}](?=[{_SIGN}{_DIGIT}])",
        rf"[{_DIGIT}](?=[{_LETTER}{_SIGN}])",
        rf"[{_SIGN}](?=[{_DIGIT}])",
    )
)
#: Characters of one piece, and of one piece still where it is cut behind the first of them.
_ALIKE = f"[{_LETTER}]{{3}}|[{_SIGN}]{{3}}|[{_DIGIT}]{{3}}"
_TRIES = 64

#: How many ranks `bound` reads: more is tighter, and slower to load.
_KNOWN = 30_000
_LONGEST = 256  # bytes of the longest piece that it merges
#: Stands for a character of which no table here knows how tiktoken's would class it.
_ODD = "\x80"
_AROUND = rf"{_ODD}[^\t-\r ]*+(?:[\t-\r ]++\Z|[\t-\r ]*[\r\n])?+"
#: The same cuts over shapes (see `_Shapes`); only what stands around an odd character becomes one long piece.
_PIECE = "|".join(
    (
        r"'(?:[sdmtSDMT]|[lL][lL]|[vV][eE]|[rR][eE])",
        rf"[^\r\nA-Za-z0-9{_ODD}]?+[A-Za-z]++(?:{_AROUND})?+",
        rf"[0-9]{{1,3}}+(?:{_AROUND})?+",
        rf" ?[^\t-\r A-Za-z0-9{_ODD}]++[\r\n]*+(?:{_AROUND})?+",
        r"[\t-\r ]++\Z",
        r"[\t-\r ]*[\r\n]",
        r"[\t-\r ]+(?![^\t-\r ])",
        rf"[\t-\r ](?:{_AROUND})?+",
        _AROUND,
    )
)


def count(text: str) -> int:
    """Return the exact number of tokens.

    Raises:
        Corrupt, Unavailable: see `encode`.
    """
    return sum(map(len, _encoded(text)))


def encode(text: str) -> list[int]:
    """Return the tokens of a text.

    Raises:
        Corrupt: the packaged ranks are damaged.
        Unavailable: the packaged ranks cannot be read, or tiktoken cannot be loaded.
    """
    return [token for part in _encoded(text) for token in part]


def widths(text: str) -> bytes:
    """Return how many bytes of UTF-8 each token of a text stands for, in order, a byte a token.

    Raises:
        Corrupt, Unavailable: see `encode`.
    """
    known = _widths()
    return b"".join([bytes([known[token] for token in part]) for part in _encoded(text)])


def decode(tokens: Sequence[int]) -> str:
    """Return the text of tokens; a character that is cut in two becomes U+FFFD.

    Raises:
        KeyError: there is no such token.
        Corrupt, Unavailable: see `encode`.
    """
    return _encoding().decode(tokens)


def bound(text: str) -> int:
    """Return a number that is never below `count`, without tiktoken.

    It counts what the first 30,000 merges leave, and bytes where a character is rare or a piece very long: a
    tenth too high in English, code and logs, by half in Chinese and Russian.

    Raises:
        Corrupt, Unavailable: see `encode`.
    """
    prices = _prices()
    if text.isascii():
        return sum(map(prices.__getitem__, re.findall(_PIECE, text)))
    total = 0
    for found in re.finditer(_PIECE, text.translate(_SHAPES)):
        piece = text[found.start() : found.end()]
        total += len(piece.encode("utf-8", "surrogatepass")) if _ODD in found[0] else prices[piece]
    return total


def fits(text: str, budget: int) -> bool:
    """Tell whether a text has at most `budget` tokens: exactly, by the cheapest way that can tell.

    Raises:
        Corrupt, Unavailable: see `encode`.
    """
    if len(text) > _WIDEST * budget:
        return False
    if 4 * len(text) <= budget:
        return True
    if not _encoding.cache_info().currsize and len(text) <= 6 * budget and bound(text) <= budget:
        return True
    return count(text) <= budget


def trim(text: str, budget: int) -> str:
    """Return the most whole lines from the start that have at most `budget` tokens together.

    A line keeps the blank lines after it. Where not one line fits, the cut is at a token. What fits is
    returned as it is; in what had to be cut, lone surrogates have become U+FFFD.

    Raises:
        Corrupt, Unavailable: see `encode`.
    """
    if fits(text, budget):
        return text
    if budget <= 0:
        return ""
    text, end, room = _clean(text), 0, budget
    for line in _lines(text):
        cost = count(line) if len(line) <= _WIDEST * room else room + 1
        if cost > room or end + len(line) == len(text):
            break
        end, room = end + len(line), room - cost
    return text[:end] if text[:end].strip() else _head(text, budget)


def _head(text: str, budget: int) -> str:
    """Cut at a token, and count again: a piece that ends early may have more tokens than it was cut after."""
    size = 8 * budget  # characters; more than they need, mostly
    while len(tokens := encode(text[:size])) <= budget and size < len(text):
        size *= 4
    for kept in range(min(budget, len(tokens)), 0, -1):
        head = _encoding().decode_bytes(tokens[:kept]).decode("utf-8", "ignore")
        if count(head) <= budget:
            return head
    return ""


def _lines(text: str) -> Iterator[str]:
    """Return the lines, each with the blank lines after it.

    A piece ends after the last line break of any whitespace, so the counts of lines add up. Only the
    whitespace that ends the text is one piece, line breaks and all.
    """
    line = rf"[^\r\n]*+(?:[\r\n](?:[{_SPACES}]*[\r\n])?+)?+"
    return (found[0] for found in re.finditer(line, text))


def _encoded(text: str) -> Iterator[list[int]]:
    """Yield the tokens of a text, part by part: as a list they are ten times as big as a text of millions."""
    encoding, text = _encoding(), _clean(text)
    if len(text) <= _STRIDE:
        yield encoding.encode_ordinary(text)
        return
    for stretch in _stretches(text):
        for part in _parts(stretch):
            yield from _steps(encoding, part)


def _stretches(text: str) -> Iterator[str]:
    """Cut a text where a piece ends whatever stands around it, once there is such a place and enough before it."""
    seam, done = re.compile(_SEAM), 0
    while found := seam.search(text, done + _STRETCH):
        yield text[done : found.end()]
        done = found.end()
    yield text[done:] if done else text


def _steps(encoding: Encoding, part: str) -> Iterator[list[int]]:
    """Yield the tokens of a part without a seam: what merges one piece of N bytes takes fifty times N.

    Tokens are those of a piece if each two neighbours are the tokens of what they stand for. So a piece may be cut
    before a token which is still the first one there when what is before it is gone.
    """
    tokens, at = encoding.encode_ordinary(part[: 2 * _STRETCH]), 0
    solid, alike = len(part.rstrip(_SPACES)), re.compile(_ALIKE)
    while at + 2 * _STRETCH < len(part):
        for kept in range(len(tokens) - _TRIES, max(len(tokens) - 2 * _TRIES, 0), -1):
            place = at + len(encoding.decode_bytes(tokens[:kept]).decode("utf-8", "replace"))
            if place > solid or alike.match(part, place - 1):
                ahead = encoding.encode_ordinary(part[place : place + 2 * _STRETCH])
                if ahead[0] == tokens[kept]:
                    break
        else:
            tokens = encoding.encode_ordinary(part[at:])
            break
        yield tokens[:kept]
        tokens, at = ahead, place
    yield tokens


def _clean(text: str) -> str:
    """Replace lone surrogates, and join two that are a pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _parts(text: str) -> Iterator[str]:
    """Cut long whitespace where a piece ends anyway; a million characters overflow tiktoken's matcher.

    Pieces end after the last line break of such a run, and before its last character. Where it ends the text
    it is one piece, and overflows nothing.
    """
    solid, done = re.compile(f"[^{_SPACES}]"), 0
    for at in range(_STRIDE, len(text), _STRIDE):
        found = solid.search(text, max(at, done))
        if found is None:
            break
        low, end = max(done, at - _STRIDE), found.start()
        start = low + len(text[low:at].rstrip(_SPACES))
        if end - start > _STRIDE:
            first = max(start, 1 + text.rfind("\n", start, end), 1 + text.rfind("\r", start, end))
            last = max(first, end - 1)
            yield from (text[done:first], text[first:last])
            done = last
    yield text[done:]


@cache
def _encoding() -> Encoding:
    try:
        from tiktoken import Encoding
    except ImportError as error:
        raise Unavailable(f"tiktoken cannot be loaded: {error}", hint="install bede again") from error
    return Encoding("cl100k_base", pat_str="|".join(_CUTS), mergeable_ranks=_ranks(_SIZE), special_tokens={})


@cache
def _widths() -> bytes:
    """Return how many bytes each token has, by its rank."""
    return _unpacked()[0]


def _ranks(limit: int) -> dict[bytes, int]:
    """Read the first tokens and their ranks."""
    import io

    lengths, stream, rest = _unpacked()
    tokens = io.BytesIO(stream.decompress(rest, sum(lengths[:limit])))
    return dict(zip(map(tokens.read, lengths[:limit]), range(limit), strict=True))


def _unpacked() -> tuple[bytes, Any, bytes]:
    """Read the lengths of all tokens, and what is to be unpacked further; the whole file's hash is checked first."""
    import hashlib
    import zlib

    try:
        packed = _RANKS.read_bytes()
    except OSError as error:
        raise Unavailable(f"cannot read {_RANKS}: {error.strerror}", hint="install bede again") from error
    if hashlib.sha256(packed).hexdigest() != _SHA256:
        raise Corrupt(f"the packaged token ranks are damaged: {_RANKS}", hint="install bede again")
    stream = zlib.decompressobj(wbits=31)
    return stream.decompress(packed, _SIZE), stream, stream.unconsumed_tail


@cache
def _prices() -> _Prices:
    return _Prices(_ranks(_KNOWN))


class _Prices(dict[str, int]):
    """The most tokens that a piece can have, worked out when first asked for.

    Merging takes the pair of lowest rank first. So it does all that is done here before it does anything
    else, and every merge after that makes one token less.
    """

    def __init__(self, ranks: dict[bytes, int]) -> None:
        super().__init__()
        self._ranks = ranks

    def __missing__(self, piece: str) -> int:
        data = piece.encode()
        price = 1 if data in self._ranks else _merge(data, self._ranks)
        if len(data) <= 32 and len(self) < 1 << 16:
            self[piece] = price
        return price


def _merge(data: bytes, ranks: dict[bytes, int]) -> int:
    """Join neighbours, lowest rank first, leftmost among equals, while any can be; return how many are left."""
    if len(data) > _LONGEST:
        return len(data)
    never = _SIZE
    ends = list(range(len(data) + 1))
    pairs = [ranks.get(data[at : at + 2], never) for at in ends[:-2]]
    while pairs and (lowest := min(pairs)) < never:
        at = pairs.index(lowest)
        del ends[at + 1], pairs[at]
        for near in range(max(at - 1, 0), min(at + 1, len(pairs))):
            pairs[near] = ranks.get(data[ends[near] : ends[near + 2]], never)
    return len(ends) - 1


class _Shapes(dict[int, str]):
    """For each character one of ASCII that the cuts treat alike; `_ODD` where versions of Unicode may differ.

    Trusted is what Python's newest table and that of 2002 class alike, and the blocks that hold but symbols.
    """

    def __missing__(self, code: int) -> str:
        shape = self[code] = _shape(code)
        return shape


def _shape(code: int) -> str:
    import unicodedata

    char = chr(code)
    if code < 0x80:
        return char
    if char in _SPACES:
        return "\t"
    if char == "ſ":  # the one letter elsewhere whose other case is an ASCII one of the contractions
        return "s"
    now, then = unicodedata.category(char), unicodedata.ucd_3_2_0.category(char)
    if now[0] not in "LN" and (0x2600 <= code < 0x27C0 or 0x1F300 <= code < 0x1FB00):
        return "!"
    if "Cn" in (now, then) or "Cs" in (now, then):
        return _ODD
    kinds = {{"L": "a", "N": "0", "Z": "?"}.get(name[0], "!") for name in (now, then)}
    return kinds.pop() if len(kinds) == 1 else _ODD


_SHAPES = _Shapes()
