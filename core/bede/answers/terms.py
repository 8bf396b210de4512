"""What a question asks for, weighed by how rare it is, and which texts hold it.

Words count by their stem, with the forms that no stem brings together; identifiers as a whole and in their parts; what
is no word as it stands. Pure: it never reads a file or a table. `relevance` makes answers of what is found here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from bede.projections.words import STOP, Term, fold, question, stem

#: Weights of terms: of everyday words, of parts of an identifier, of a literal beside its words.
EVERYDAY, PART, LITERAL = 0.7, 0.6, 0.3

_EVERYDAY = (
    "able actually again ago along already also although always another answer anyone anything ask back become"
    " better call certain come currently day describe different discuss each early either else end even ever every"
    " everyone everything find first get give go good happen instead keep kind know last late later like likely list"
    " long look lot make many maybe mean mention month much need neither never new next nothing often ok okay old part"
    " people person place please point put question really recently right same say see seem set show since someone"
    " something soon sort start still sure take talk tell thing think though time try turn two type use various want"
    " way week well whether whichever within without work year yes yet"
)
# Words that a stem does not bring together: irregular forms, and spellings.
_ALIKE = (
    "go went gone|give gave given|take took taken|make made|get got gotten|buy bought|bring brought|think thought"
    "|teach taught|catch caught|see saw seen|say said|tell told|find found|feel felt|keep kept|leave left|lose lost"
    "|meet met|pay paid|sell sold|send sent|spend spent|stand stood|win won|write wrote written|run ran"
    "|begin began begun|break broke broken|choose chose chosen|come came|become became|drive drove driven"
    "|eat ate eaten|fall fell fallen|fly flew flown|forget forgot forgotten|grow grew grown|hear heard|hold held"
    "|know knew known|lead led|build built|sleep slept|speak spoke spoken|swim swam swum|throw threw thrown"
    "|wear wore worn|wake woke woken|sing sang sung|draw drew drawn|hide hid hidden|ride rode ridden|rise rose risen"
    "|show shown|sit sat|understand understood|fight fought|freeze froze frozen|child children|man men|woman women"
    "|person people|foot feet|mouse mice|life lives|wife wives|shelf shelves|leaf leaves|bad worse worst"
    "|good better best|colour color|behaviour behavior|favourite favorite|favour favor|honour honor|neighbour neighbor"
    "|centre center|theatre theater|licence license|grey gray|catalogue catalog|dialogue dialog|programme program"
    "|cancelled canceled|labelled labeled|travelling traveling|defence defense|organise organize|analyse analyze"
    "|initialise initialize|optimise optimize|serialise serialize|normalise normalize|customise customize"
    "|recognise recognize|realise realize|summarise summarize|authorise authorize|mum mom"
)


def _kin(groups: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for group in groups.split("|"):
        stems = dict.fromkeys(map(stem, group.split()))
        for one in stems:
            found[one] = (*found.get(one, ()), *(other for other in stems if other != one))
    return found


EVERYDAY_STEMS = frozenset(map(stem, _EVERYDAY.split()))
KIN = _kin(_ALIKE)

_SENTENCE = re.compile(r"(?<=[.?!:;])\s+|\n")
_WORD = re.compile(r"[A-Za-z0-9]\w*", re.ASCII)
#: One thing that is more than a word: signs or digits in it, or a capital behind a small letter.
_NAMED = re.compile(r"(?=[\x21-\x7e]*?(?:[^A-Za-z]|[a-z][A-Z]))[\x21-\x7e]+")
_ALONE = re.compile(r"[a-z0-9]+")
_HUMP = re.compile(r"[A-Z](?:(?<=[a-z0-9][A-Z])|(?=[a-z])(?<=[A-Z][A-Z]))")
_ALNUM = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_END, _CUT = "\x02", "\x01"
_FOREIGN = re.compile(r"([^\x00-\x7f]+)")


class Corpus(NamedTuple):
    """What is searched: how many rows the index has, how many of them hold a term, and a turn's usual length.

    `usual` is in characters; 0 takes it from the turns at hand.
    """

    rows: int
    count: Callable[[Term], int]
    usual: float = 0.0


def forms(term: Term) -> tuple[Term, ...]:
    """Return a term and the words that mean the same: all of them are to be looked for in the index."""
    return (term, *(Term(other, other, (other,)) for other in KIN.get(term.stem, ()) if term.stem))


class Sought(NamedTuple):
    """A term with all its forms, what it weighs, and whether it is a word, a name, and an identifier of parts."""

    forms: tuple[Term, ...]
    weight: float
    is_word: bool
    is_name: bool
    is_whole: bool


def telling(asked: str, corpus: Corpus) -> Callable[[Sequence[str]], list[float]]:
    """Return what tells of pieces of text how much of a question, by weight, each of them holds."""
    terms, name = list(sought(asked, corpus)), literal(asked)
    full = sum(one.weight for one in terms) or 1.0

    def tell(pieces: Sequence[str]) -> list[float]:
        text = Texts(pieces)
        told = [full * is_held for is_held in text.held(name)] if name else [0.0] * len(pieces)
        for one in terms:
            for spot in text.counts(one.forms, is_whole=one.is_whole):
                told[spot] += one.weight
        return told

    return tell


def literal(asked: str) -> str:
    """Return a query that is one name, path or sign, folded; nothing for a word or a question."""
    bare = asked.strip().rstrip("?!.,;:")
    return fold(bare) if _NAMED.fullmatch(bare) else ""


def plain(text: str) -> list[str]:
    """Return the words of a text, folded, as they stand in it."""
    return _ALONE.findall(fold(text))


class Texts:
    """Many texts as one, folded, in which a term is looked for once: as they stand, and with identifiers in parts."""

    def __init__(self, texts: Sequence[str]) -> None:
        joined = _END.join(text.replace(_END, " ").replace(_CUT, " ") for text in texts)
        cuts = [found.start() for found in _HUMP.finditer(joined)]
        marked = _folded(_CUT.join(joined[start:end] for start, end in pairwise((0, *cuts, len(joined)))))
        self.plain, self.parted = marked.replace(_CUT, ""), marked.replace(_CUT, " ")
        self.lengths = [len(text) for text in self.plain.split(_END)] if texts else []

    def held(self, literal: str) -> list[bool]:
        """Tell of each text whether it holds something folded as it stands."""
        return [literal in text for text in self.plain.split(_END)] if self.lengths else []

    def counts(self, terms: Iterable[Term], *, is_whole: bool) -> dict[int, int]:
        """Return which texts hold a term, and how often; `is_whole` is for an identifier, not a word of one."""
        found: dict[int, int] = {}
        joined, other = (self.plain, self.parted) if is_whole else (self.parted, self.plain)
        for term in terms:
            if term.stem:
                seen = _sums(joined, _words(term.stem, joined)) or _sums(other, _words(term.stem, other))
            else:
                seen = _sums(self.plain, (at.start() for at in re.finditer(re.escape(term.text), self.plain)))
            for spot, count in seen.items():
                found[spot] = found.get(spot, 0) + count
        return found


def _sums(joined: str, places: Iterable[int]) -> dict[int, int]:
    """Return how many of some places, in order, are in each text."""
    found: dict[int, int] = {}
    spot, start = 0, 0
    for place in places:
        spot += joined.count(_END, start, place)
        start = place
        found[spot] = found.get(spot, 0) + 1
    return found


def _words(root: str, joined: str) -> Iterator[int]:
    """Yield where the words of a stem begin. All of them begin with it, but for a last letter that it changed."""
    start = root[:-1] if len(root) > 1 and root[-1] in "ie" else root
    at = joined.find(start)
    while at >= 0:
        if not at or joined[at - 1] not in _ALNUM:
            found = _ALONE.match(joined, at)
            if found and stem(found[0]) == root:
                yield at
        at = joined.find(start, at + len(start))


_fold_few = lru_cache(maxsize=4096)(fold)


def _folded(text: str) -> str:
    """Fold a long text; the little in it that is not ASCII is dear to fold, and much the same everywhere."""
    return (
        fold(text)
        if text.isascii()
        else "".join(_fold_few(part) if len(part) < 9 else fold(part) for part in _FOREIGN.split(text))
    )


def sought(asked: str, corpus: Corpus) -> Iterator[Sought]:
    """Weigh the terms of a question by how few rows hold them."""
    read = question(asked)
    names, whole = _names(asked), set(read.tokens)
    jointed = {fold(word) for word in _WORD.findall(asked) if _HUMP.search(word)}
    for term in read.terms:
        found = forms(term)
        rows = min(corpus.rows, sum(map(corpus.count, found)))
        weight = math.log1p((corpus.rows - rows + 0.5) / (rows + 0.5))
        is_part = bool(term.stem) and term.text not in whole
        if term.stem:
            weight *= (EVERYDAY if term.stem in EVERYDAY_STEMS else 1.0) * (PART if is_part else 1.0)
        elif term.text.isascii():
            weight *= LITERAL
        if weight > 0:
            yield Sought(found, weight, bool(term.stem) and not is_part, term.text in names, term.text in jointed)


def _names(asked: str) -> set[str]:
    """Return the words that a question writes as names: with a capital where no sentence begins, or inside."""
    found: set[str] = set()
    for sentence in _SENTENCE.split(asked):
        for number, word in enumerate(_WORD.findall(sentence)):
            if word != "I" and ((number and word[0].isupper()) or word[1:] != word[1:].lower()):
                found.update(_ALONE.findall(word.lower()))
    return found - STOP
