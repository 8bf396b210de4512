"""Text to index tokens, and a query to what is looked for.

This room holds pure functions only: folding (case, accents, forms), tokens, stems, and the reading of a query.
It promises that folding keeps every substring a substring, and that where text is cut into tokens depends on
neighbouring characters alone, so that the tokens of a substring are the tokens of the text but for its two ends.
It never touches a database, and never treats a query as syntax.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

from bede.quick import dataclass

WIDEST = 64
"""A longer word is indexed by its first 64 characters, and its row is marked with LONG."""

LONG = "\u2026"
"""The mark of a row that holds a longer word. Folding turns this character into dots, so no text can claim it."""

PHRASE = 12
"""A longer phrase is looked for by its first 12 tokens, and then checked in the text itself."""

_READ = 8192
_TERMS = 40
_RUN = 24
_CACHED = 8192

# Left out by folding: accents and vowel points that a searcher leaves out, and what has no width.
_DROPPED = (
    (0x00AD, 0x00AD), (0x0300, 0x036F), (0x0483, 0x0487), (0x0591, 0x05BD), (0x05BF, 0x05C7), (0x064B, 0x065F),
    (0x0670, 0x0670), (0x06D6, 0x06DC), (0x06DF, 0x06E8), (0x180B, 0x180F), (0x1AB0, 0x1AFF), (0x1DC0, 0x1DFF),
    (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x20D0, 0x20FF), (0xFE00, 0xFE0F), (0xFE20, 0xFE2F),
    (0xFEFF, 0xFEFF), (0xE0100, 0xE01EF),
)  # fmt: skip

# Scripts written without spaces: every character is a token, and a word is a phrase of them.
_SPACELESS = (
    (0x0E00, 0x0EFF), (0x0F00, 0x109F), (0x1780, 0x17FF), (0x1950, 0x19DF), (0x1A20, 0x1AAF), (0x2E80, 0x2FDF),
    (0x3005, 0x3007), (0x3021, 0x3029), (0x3031, 0x3035), (0x3100, 0x312F), (0x31A0, 0x31BF), (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF), (0xA000, 0xA4CF), (0xA9E0, 0xA9FF), (0xAA60, 0xAA7F), (0xF900, 0xFAFF), (0x20000, 0x3FFFF),
)  # fmt: skip
_KANA = ((0x3041, 0x3096), (0x309D, 0x30FA), (0x30FC, 0x30FF), (0x31F0, 0x31FF), (0x1B000, 0x1B16F))
_JAMO = (
    ("L", 0x1100, 0x115F), ("L", 0xA960, 0xA97C), ("V", 0x1160, 0x11A7), ("V", 0xD7B0, 0xD7C6),
    ("T", 0x11A8, 0x11FF), ("T", 0xD7CB, 0xD7FB),
)  # fmt: skip

_ALNUM = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_PLAIN = r"[a-z0-9]+"
_HARD = frozenset("#$%&*+<=>@[\\]^{|}~")
_PUNCT = r"[!-/:-@\[-`{-~]"
_ASCII = rf"[a-z0-9]+|[#$%&*+<=>@\[\\\]^{{|}}~]|{_PUNCT}(?:(?={_PUNCT})|(?<={_PUNCT}{{2}}))"
_MARKS = tuple(map(chr, (*range(0x21, 0x30), *range(0x3A, 0x41), *range(0x5B, 0x61), *range(0x7B, 0x7F))))
_LONE = rf"[!\"'(),\-./:;?_`](?<!{_PUNCT}.)(?!{_PUNCT})"
_CLASSES = r"w+|c|kd?|d|(?=[LVT])L?V?T?|h|s(?=[sh])|(?<=[sh])s"
_CAPITAL = r"[A-Z](?<=[A-Za-z0-9][A-Z])"
_HUMPS = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+"

_STOP = (
    "a about after all also am an and any are aren as at be because been before being but by can could"
    " couldn d did didn do does doesn doing don done each few for from had has hasn have haven having he"
    " her here hers him his how i if in into is isn it its just ll m may me might more most must my no nor"
    " not of off on once only or other our ours out own re s same shall she should shouldn so some such t"
    " than that the their theirs them then there these they this those to too under until up upon us ve"
    " very was wasn we were weren what when where which while who whom whose why will with won would wouldn"
    " you your yours"
)
STOP = frozenset(_STOP.split())
"""Words that find nothing by themselves unless a query has no others."""


@dataclass(frozen=True, slots=True)
class Term:
    """One thing to look for: a word by its stem, or a piece of text exactly as it stands when stem is empty."""

    text: str
    stem: str
    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A query as it is looked for: whole (needle, and its tokens) and in parts (terms).

    The needle is empty when folding leaves nothing, as for a lone accent; then raw is all there is.
    """

    raw: str
    needle: str
    tokens: tuple[str, ...]
    terms: tuple[Term, ...]


def _within(code: int, ranges: tuple[tuple[int, int], ...]) -> bool:
    return any(low <= code <= high for low, high in ranges)


class _Folds(dict[int, str]):
    """What each character folds to, worked out when it is first met."""

    def __missing__(self, code: int) -> str:
        folded = _fold(code)
        if len(self) < _CACHED:
            self[code] = folded
        return folded


class _Kinds(dict[int, str]):
    """The class of each folded character, one letter each, worked out when it is first met."""

    def __missing__(self, code: int) -> str:
        kind = _kind(code)
        if len(self) < _CACHED:
            self[code] = kind
        return kind


def _fold(code: int) -> str:
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", chr(code)).casefold())
    kept = (" " if char.isspace() else char for char in plain if not _within(ord(char), _DROPPED))
    return "".join(kept)


def _kind(code: int) -> str:
    if 0x3099 <= code <= 0x309A:
        return "d"
    for letter, low, high in _JAMO:
        if low <= code <= high:
            return letter
    category = unicodedata.category(chr(code))
    if category[0] == "Z" or category == "Cc":
        return " "
    if _within(code, _KANA):
        return "k"
    if category[0] == "P" or category[0] == "S":
        return "s" if (category[0] == "P" and chr(code) not in _HARD) or chr(code) == "`" else "h"
    if _within(code, _SPACELESS):
        return "c"
    return "w" if category[0] in "LNM" or category == "Co" else "h"


_FOLDS = _Folds()
_KINDS = _Kinds()
_CONTROLS = dict.fromkeys((*range(0x20), 0x7F), " ")
_BLANKS = dict.fromkeys((9, 10, 11, 12, 13, 28, 29, 30, 31), " ")


def fold(text: str) -> str:
    """Return text without what a search disregards: case, accents, compatibility and composed forms, line breaks.

    Works character by character: fold(a + b) == fold(a) + fold(b), and folding twice changes nothing.
    """
    if text.isascii():
        return text.lower() if text.isprintable() else text.lower().translate(_BLANKS)
    return text.translate(_FOLDS)


def pieces(folded: str) -> list[str]:
    """Return the tokens of folded text in order: words, and single characters of spaceless scripts and symbols.

    Punctuation counts only where two stand together, so that prose pays nothing for it and `->` is found.
    """
    if folded.isascii():
        return re.findall(_ASCII, folded)
    kinds = folded.translate(_KINDS)
    return [folded[found.start() : found.end()] for found in re.finditer(_CLASSES, kinds)]


def is_word(token: str) -> bool:
    """Tell a word, which may be part of a longer one, from a token of a single character."""
    return _KINDS[ord(token[0])] == "w"


def is_open(token: str) -> bool:
    """Tell whether a token at the end of a query may be only a part of the token that stands in the text."""
    return _KINDS[ord(token[0])] in "wkdLVT"


def humps(text: str) -> list[str]:
    """Return the parts of every camelCase word of a text as it was written, folded."""
    return [
        part.lower()
        for name in _names(text)
        if not (name.istitle() or name.isupper())
        for part in re.findall(_HUMPS, name)
        if 1 < len(part) < len(name)
    ]


def _names(text: str) -> Iterator[str]:
    """Yield the words with a capital that is not their first letter, without a look at the many others."""
    capital, rest = re.compile(_CAPITAL), re.compile(r"[A-Za-z0-9]+")
    end = 0
    while found := capital.search(text, end):
        start = found.start()
        while start and text[start - 1].lower() in _ALNUM:
            start -= 1
        name = rest.match(text, start)
        end = name.end() if name else found.end()
        yield text[start:end]


def tokens(text: str) -> list[str]:
    """Return everything a text is indexed by: its pieces in order, then camelCase parts and the LONG mark."""
    return indexed(text)[0].split()


def indexed(text: str) -> tuple[str, set[str]]:
    """Return everything a text is indexed by with blanks between, and all that is among it."""
    body = _spaced(fold(text))
    known = set(body.split())
    if max(map(len, known), default=0) > WIDEST:
        body = " ".join([*(token[:WIDEST] for token in body.split()), LONG])
        known = set(body.split())
    parts = [part[:WIDEST] for part in dict.fromkeys(humps(text)) if part not in known]
    known.update(parts)
    return " ".join([body, *parts]), known


def _spaced(folded: str) -> str:
    """Return the pieces of folded text with blanks between: of ASCII, much sooner than they could be listed."""
    if not folded.isascii():
        return " ".join(pieces(folded))
    if not folded.isprintable():
        folded = folded.translate(_CONTROLS)
    spaced = re.sub(_LONE, " ", folded)
    for mark in _MARKS:
        if mark in spaced:
            spaced = spaced.replace(mark, f" {mark} ")
    return spaced


def around(part: str, folded: str) -> list[str]:
    """Return the plain words in a text that hold a part, which is itself letters and digits."""
    if part not in folded:
        return []
    return [word for word in re.findall(_PLAIN, folded) if part in word]


def is_near(word: str, other: str) -> bool:
    """Tell whether one letter added, left out, mistaken or swapped with its neighbour makes one of the other."""
    if abs(len(word) - len(other)) > 1:
        return False
    start = 0
    while start < min(len(word), len(other)) and word[start] == other[start]:
        start += 1
    end = 0
    while end < min(len(word), len(other)) - start and word[-1 - end] == other[-1 - end]:
        end += 1
    left, right = word[start : len(word) - end], other[start : len(other) - end]
    return max(len(left), len(right)) < 2 or (len(left) == 2 and left == right[::-1])


def question(query: str) -> Question:
    """Read a query: as a whole, and as the words, runs of spaceless script, identifiers and symbols in it.

    Never fails, whatever the query holds. Of a very long one the first few thousand characters and 40 terms count.
    """
    raw = query.strip()
    needle = fold(raw).strip()
    head = needle if len(needle) <= _READ else needle[:_READ].rpartition(" ")[0] or needle[:_READ]
    found = tuple(token[:WIDEST] for token in pieces(head))
    named = [*(token for token in found if is_word(token)), *humps(raw[:_READ])]
    terms = {term.stem or term.text: term for term in map(_word, dict.fromkeys(named)) if term.text not in STOP}
    terms |= {term.text: term for term in (*_runs(head), *_compounds(head)) if term.text not in terms}
    return Question(raw, needle, found, tuple(terms.values())[:_TERMS])


def _word(token: str) -> Term:
    return Term(token, stem(token) if token.isascii() else "", (token,))


def _runs(folded: str) -> Iterator[Term]:
    """Cut spaceless script into overlapping pairs, or threes where a character is only a sound."""
    if folded.isascii():
        return
    for run in re.finditer(r"[ckdLVT]+", folded.translate(_KINDS)):
        found = pieces(folded[run.start() : run.end()])
        size = 3 if 0x0E00 <= ord(found[0][0]) < 0x1100 or 0x1780 <= ord(found[0][0]) < 0x1AB0 else 2
        for start in range(min(max(1, len(found) - size + 1), _RUN)):
            part = tuple(found[start : start + size])
            yield Term("".join(part), "", part)


def _compounds(folded: str) -> Iterator[Term]:
    """Take what stands between spaces as one thing where it is more than a word: `src/auth.ts:42`, `c++`, `->`."""
    for chunk in folded.split():
        found = pieces(chunk)
        core = _trimmed(found)
        if len(core) > 1 or (core and not is_open(core[0])):
            text = chunk[chunk.find(core[0]) : chunk.rfind(core[-1]) + len(core[-1])]
            if text.translate(_KINDS).strip("ckdLVT"):
                yield Term(text, "", tuple(token[:WIDEST] for token in core[:PHRASE]))


def _trimmed(found: list[str]) -> list[str]:
    """Leave out the punctuation of prose around words; symbols by themselves stay as they are."""
    kinds = [_KINDS[ord(token[0])] for token in found]
    if not set(kinds) - {"s", "h"}:
        return found
    kept = [place for place, kind in enumerate(kinds) if kind != "s"]
    return found[kept[0] : kept[-1] + 1]


class Sought:
    """A term with the spellings that stand for it, how many rows hold it, and what it weighs."""

    __slots__ = ("count", "share", "spellings", "term", "weight")

    def __init__(self, term: Term) -> None:
        self.term = term
        self.spellings: tuple[tuple[str, ...], ...] = (term.tokens,)
        self.share = 1.0
        self.count = 0
        self.weight = 0.0

    def respell(self, others: Sequence[str]) -> None:
        """Let other words stand for a word that no row holds, at half its weight."""
        self.spellings = tuple((word,) for word in others)
        self.share = 0.5

    def forms(self) -> tuple[set[str], tuple[str, ...]]:
        """Return what to look for in a text: stems of words, and pieces as they stand."""
        plain = self.term.text if not self.term.stem else ""
        if self.share == 1.0:
            return ({self.term.stem}, ()) if self.term.stem else (set(), (plain,))
        found = [spelling[0] for spelling in self.spellings]
        return {stem(word) for word in found if word.isascii()}, tuple(word for word in found if not word.isascii())


class Scale:
    """Counts what is sought in a text, and weighs the text by BM25 between 0 and 1."""

    def __init__(self, sought: Sequence[Sought], usual: float = 1.0) -> None:
        self.sought, self.usual = sought, max(usual, 1.0)
        self.full = sum(one.weight / one.share for one in sought) or 1.0
        forms = [one.forms() for one in sought]
        self._pieces = [pieces for _, pieces in forms]
        # A stem but for its last letter begins every word of that stem, and most texts hold not even that.
        self._roots: dict[str, dict[str, int]] = {}
        for place, (roots, _) in enumerate(forms):
            for root in roots:
                self._roots.setdefault(root[:-1] or root, {})[root] = place

    def counts(self, text: str, folded: str) -> list[int]:
        """Return how often each of the sought stands in a text, given both as it is and folded."""
        counts = [sum(map(folded.count, pieces)) if pieces else 0 for pieces in self._pieces]
        parts: list[str] | None = None
        for start, places in self._roots.items():
            if start in folded:
                parts = humps(text) if parts is None else parts
                for word in (*_beginning(start, folded), *parts):
                    place = places.get(stem(word[:WIDEST]))
                    if place is not None:
                        counts[place] += 1
        return counts

    def weigh(self, text: str, folded: str) -> float:
        """Return how much of what is sought a text holds: the rare counts most, a long text for less."""
        counts = self.counts(text, folded)
        if not any(counts):
            return 0.0
        damp = 1.2 * (0.25 + 0.75 * len(folded) / self.usual)
        return sum(one.weight * n / (n + damp) for one, n in zip(self.sought, counts, strict=True) if n) / self.full


def _beginning(start: str, folded: str) -> Iterator[str]:
    """Yield the words of a text that begin so; found by hand, as a pattern for each query costs more than its use."""
    at = folded.find(start)
    while at >= 0:
        if not at or folded[at - 1] not in _ALNUM:
            found = re.match(_PLAIN, folded[at : at + WIDEST])
            yield found[0] if found else start
        at = folded.find(start, at + len(start))


# Porter's rules (1980), as SQLite's `porter` tokenizer applies them: ranking must agree with what the index matched.
_STEP2 = {
    "a": (("ational", "ate"), ("tional", "tion")), "c": (("enci", "ence"), ("anci", "ance")), "e": (("izer", "ize"),),
    "g": (("logi", "log"),), "l": (("bli", "ble"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous")),
    "o": (("ization", "ize"), ("ation", "ate"), ("ator", "ate")),
    "s": (("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous")),
    "t": (("aliti", "al"), ("iviti", "ive"), ("biliti", "ble")),
}  # fmt: skip
_STEP3 = {
    "a": (("ical", "ic"),), "s": (("ness", ""),), "t": (("icate", "ic"), ("iciti", "ic")), "u": (("ful", ""),),
    "v": (("ative", ""),), "z": (("alize", "al"),),
}  # fmt: skip
_STEP4 = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
    "ous", "ive", "ize",
)  # fmt: skip


def _shape(stem: str) -> str:
    """Write a stem as vowels (v) and consonants (c); y is a vowel after a consonant."""
    shape = ""
    for letter in stem:
        vowel = letter in "aeiou" or (letter == "y" and shape[-1:] == "c")
        shape += "v" if vowel else "c"
    return shape


def _measure(stem: str) -> int:
    return _shape(stem).count("vc")


def _is_short(stem: str) -> bool:
    return stem[-1:] not in ("w", "x", "y") and _shape(stem)[-3:] == "cvc"


def _has_vowel(stem: str) -> bool:
    return any(letter in "aeiou" or (letter == "y" and place) for place, letter in enumerate(stem))


def _plural(word: str) -> str:
    if not word.endswith("s"):
        return word
    if word.endswith("es"):
        cut = (word.endswith("sses") and len(word) > 4) or (word[-3] == "i" and len(word) > 3)
        return word[:-2] if cut else word[:-1]
    return word if word.endswith("ss") else word[:-1]


def _past(word: str) -> str:
    if word.endswith("eed") and len(word) > 3:
        return word[:-1] if _measure(word[:-3]) else word
    cut = word[:-2] if word.endswith("ed") else word[:-3] if word.endswith("ing") else ""
    if not cut or not _has_vowel(cut):
        return word
    if cut.endswith(("at", "bl", "iz")) and len(cut) > 2:
        return cut + "e"
    if len(cut) > 1 and cut[-1] == cut[-2] and cut[-1] not in "aeioulsz":
        return cut[:-1]
    return cut + "e" if _measure(cut) == 1 and _is_short(cut) else cut


def _swap(word: str, rules: tuple[tuple[str, str], ...]) -> str:
    for ending, other in rules:
        if word.endswith(ending) and len(word) > len(ending):
            rest = word[: -len(ending)]
            return rest + other if _measure(rest) else word
    return word


def _strip(word: str) -> str:
    for ending in _STEP4:
        if word.endswith(ending) and len(word) > len(ending):
            rest = word[: -len(ending)]
            kept = _measure(rest) < 2 or (ending == "ion" and rest[-1] not in "st")
            return word if kept else rest
    return word


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """Return the stem by which the index knows a folded word of ASCII letters and digits."""
    if not 2 < len(word) <= WIDEST:
        return word
    word = _past(_plural(word))
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    word = _swap(word, _STEP2.get(word[-2:-1], ()))
    word = _swap(word, _STEP3.get(word[-2:-1], ()))
    word = _strip(word)
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _is_short(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word
