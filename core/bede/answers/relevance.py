"""From candidate windows to the turns that answer a question, best first, or none.

The second stage of the search in transcripts. The text index gives windows that share words with a question; this
room weighs the whole turns in them. A turn counts by its own words and, for less, by those of the turns around it,
as an answer seldom repeats its question; then by its session, by who speaks, and by what a question says of order.
Pure and deterministic: the order of the candidates does not matter. It never reads a file or a table, calls no model,
and never returns a turn of a question that names what no turn near the best ones knows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple

from bede.answers.terms import Corpus, Texts, literal, plain, sought
from bede.projections.words import fold

#: How a word counts in a turn: how soon more of it tells no more, and how much a long turn is held back.
SOON, HELD = 0.8, 0.75
#: What a turn gets of the words around it: the share of the next turn, and what is left of that a turn further on.
NEAR, FADE, REACH = 0.75, 0.65, 5
#: What a turn gets of the best turn of its session.
SESSION = 0.4
#: More or less for who speaks: whoever is named, a person who asks for his own words, and nobody.
NAMED, OWN, UNSAID = 0.3, 0.4, -0.3
#: Less for so many characters that an agent was given at once: they were pasted, or are an order that one agent gave
#: another, and what answers is what was made of them.
PASTED, PASTE = 1200, -0.2
#: More for a turn that did what a question asks after: ran a command, or changed a file.
DID = 0.2
#: How much of a turn's worth hangs on how much of the question is there or near.
COVER = 0.2
#: What is as good as said before: two texts of so many words or more that share so many of them. Only the best count.
SAME, WORDY, TWINS = 0.9, 20, 40
#: How much "first" and "last" count, and among how many of the best turns.
ORDER, ORDERED = 0.1, 30
#: No answer: at most this share of the names, and of all words, stands near one of the best turns.
NAMES, WORDS, CLOSE, BEST = 0.5, 0.5, 2, 15
#: Of a question without names so many must be there, by the square of its words: few words are meant as they stand,
#: a long question says in its own words what it remembers.
FEW = 2.0
#: What a turn gets that an engine puts so far above the rest, and from where on it gets a part of that: what stands
#: out less is as good as chance, and words order it better.
MEANT, FAR, OUT = 0.3, 6.0, 3.0
#: So much of a turn is looked at: its first characters.
LOOK = 20_000

_SHARES = (1.0, *(NEAR * FADE**far for far in range(REACH)))
_UNSAID = frozenset(("injected", "notification", "interrupt", "compact-summary"))
_GIVEN = frozenset(("human", "delegated"))
_ROLES = _UNSAID | {"human", "slash", "bang", "delegated", "assistant", ""}

_SAID = "asked|complained|did|insisted|objected|pasted|praised|proposed|requested|said|suggested|told|wanted|wrote"
_OWN = re.compile(rf"\b(my|did I|I ({_SAID}))\b")
_FIRST = re.compile(r"\b(first|initial|initially|originally|earliest)\b", re.I)
_LAST = re.compile(r"\b(last|latest|newest|final|finally|in the end|most recent|eventually)\b", re.I)
_COMMAND = re.compile(
    r"\bcommands?\b|\bhow (?:was|were|did|do|does|is|are|can|to)\b.{0,200}"
    r"\b(?:run|start|build|built|install|deploy|launch|publish|test)",
    re.I,
)
_CHANGE = re.compile(
    r"\b(?:which|what|where)\b.{0,200}\b(?:files?|modules?|functions?|class|methods?|scripts?"
    r"|add(?:ed)?|chang\w+|edit\w*|fix(?:ed)?|implement\w*|wrote|written)\b",
    re.I,
)
# By the lines of calls as a turn's text has them, or by what an agent without calls shows to be copied.
_RAN = re.compile(r"\(exit \d+\)|^[ \t]*(?:```(?:ba|z|power)?sh\b|\$ )", re.M)
_CHANGED = re.compile(
    r"^(?:\[(?:(?!todo)(?:\w{0,40}(?:edit|write|replace|patch)|create)\w{0,40}\]|\w{1,40}\] apply_patch\b)"
    r"|[ \t]*```\w{1,20}:\S)",
    re.M | re.I,
)
_DEEDS = ((_COMMAND, _RAN), (_CHANGE, _CHANGED))
_SPOKEN = re.compile(r"(?:\[[^\]\n]{1,40}\] ?)?(\w[\w'.-]{0,30}): ")


#: By how many standard deviations the windows of a turn are nearer to a question than windows are, as an engine has it.
Meant = Mapping[int, float]


class Turn(NamedTuple):
    """A whole turn; `place` is its number within its session, `size` its length in the unit of passages."""

    id: int
    session: int
    place: int
    text: str
    by: str = ""
    size: int = 0


class Ranked(NamedTuple):
    """A turn that answers, and how well; of equals the earlier one of the earlier session comes first."""

    turn: Turn
    score: float


class Passage(NamedTuple):
    """Turns of one session in order, the one that answers, and what speaks for it."""

    turns: tuple[Turn, ...]
    best: Turn
    score: float


def rank(asked: str, turns: Iterable[Turn], corpus: Corpus, limit: int = 15) -> list[Ranked]:
    """Return those of the candidate turns that answer a question, best first, at most `limit`; none if nothing does.

    The score has no unit, and compares turns of one question only.
    """
    found = _Weighed(asked, turns, corpus)
    return found.best()[:limit] if found.is_known() else []


def passages(
    asked: str,
    turns: Iterable[Turn],
    corpus: Corpus,
    limit: int = 15,
    size: int | Sequence[int] = 256,
    meant: Meant | None = None,
) -> list[Passage]:
    """Return the best turns with what stands around them, in order, until each has `size`; no turn is there twice.

    There may be a size for each rank. A passage grows at the end where the better turn stands, within its session, and
    is cut nowhere.
    """
    found = _Weighed(asked, turns, corpus, meant)
    sizes = [size] * limit if isinstance(size, int) else size
    return list(found.grown(sizes[:limit])) if found.is_known() else []


class _Weighed:
    """The turns of the candidates by session and place, and what each is worth."""

    def __init__(self, asked: str, turns: Iterable[Turn], corpus: Corpus, meant: Meant | None = None) -> None:
        self.asked, self.meant = asked, meant or {}
        known = {turn.id: turn for turn in turns}
        self.turns = sorted(known.values(), key=lambda turn: (turn.session, turn.place, turn.id))
        self.sought = list(sought(asked, corpus))
        self.speakers = _speakers(self.turns)
        self.named = _named(self.asked, set(self.speakers))
        self.is_own = bool(_OWN.search(asked))
        self.deeds = [deed for asks, deed in _DEEDS if asks.search(asked, 0, LOOK)]
        # One word or name by itself, and no sentence of a script without spaces.
        self.is_one = len(asked.split()) == 1 and (len(self.sought) == 1 or fold(asked).isascii())
        self.full = sum(one.weight for one in self.sought) or 1.0
        text = Texts([turn.text[:LOOK] for turn in self.turns])
        self.lengths = text.lengths
        self.usual = corpus.usual or sum(self.lengths) / max(1, len(self.turns)) or 1.0
        self.hits = [text.counts(one.forms, is_whole=one.is_whole) for one in self.sought]
        #: Which turns hold the one name that is asked for, as it stands.
        self.name = literal(asked)
        self.literal = text.held(self.name) if self.name else []
        self.masks = [0] * len(self.turns)  # which of the sought are in each turn, a bit each
        for number, hits in enumerate(self.hits):
            for spot in hits:
                self.masks[spot] |= 1 << number
        self.holds = self._holding()
        self.scores = self._scores()
        self.order = self._order()
        self.kept = frozenset(self.order)

    def best(self) -> list[Ranked]:
        return [Ranked(self.turns[spot], self.scores[spot]) for spot in self.order]

    def grown(self, sizes: Sequence[int]) -> Iterator[Passage]:
        taken: set[int] = set()
        left = iter(sizes)
        for spot in self.order:
            if spot not in taken:
                if (size := next(left, None)) is None:
                    return
                best, places = self._around(spot, size, taken)
                taken.update(places)
                turns = tuple(self.turns[place] for place in places)
                yield Passage(turns, self.turns[best], self.scores[spot])

    def is_known(self) -> bool:
        """Tell whether enough of what the question names stands at or near one of the best turns."""
        order = self.order[:BEST]
        best = [self._near(spot) for spot in order]
        plain = [(1 << number, one) for number, one in enumerate(self.sought) if one.is_word]
        names = [(bit, one.weight) for bit, one in plain if one.is_name]
        # Instructions that were laid into a session hold an everyday word of nearly any question.
        is_said = any(self.masks[spot] and self.turns[spot].by != "injected" for spot in order)
        if not plain or (is_said and self.named):
            return bool(best)
        is_named = bool(names) and _share(best, names) >= NAMES
        enough = min(WORDS, FEW / len(plain) ** 2) if is_said and not names else WORDS
        return is_named or _share(best, [(bit, one.weight) for bit, one in plain]) >= enough

    def _holding(self) -> list[bool]:
        """Tell of each turn whether it holds what is asked, or an engine speaks for it: not only what is near.

        Of one thing by itself it has to hold all, if any turn does: a part of a name is not what was looked for. What
        is little but signs, such as `c++`, has no parts that tell anything.
        """
        whole = self._whole() if self.is_one else 0
        held = self.literal
        if not any(held) and (not self.name or sum(map(str.isalnum, self.name)) > 1):
            held = [bool(mask) and mask & whole == whole for mask in self.masks]
            held = held if any(held) else list(map(bool, self.masks))
        return [one or self.meant.get(turn.id, 0.0) > OUT for one, turn in zip(held, self.turns, strict=True)]

    def _whole(self) -> int:
        """Return the bits of the words of a question as they stand; of a single one, of the signs at it too: `c++`."""
        is_single = sum(one.is_word for one in self.sought) < 2
        kept = (one.is_word or (is_single and not one.forms[0].stem) for one in self.sought)
        return sum(1 << number for number, is_kept in enumerate(kept) if is_kept)

    def _order(self) -> list[int]:
        """Return the places of what anything speaks for, best first, and of texts that say the same only the best.

        To one word by itself only what holds it is an answer; the rest is what stands around that.
        """
        best: dict[str, int] = {}
        for spot in sorted(range(len(self.scores)), key=lambda spot: -self.scores[spot]):
            if self.scores[spot] > 0 and (self.holds[spot] or not self.is_one):
                best.setdefault(self.turns[spot].text, spot)
        found = list(best.values())
        twins = set(_twins([self.turns[spot].text[:LOOK] for spot in found[:TWINS]]))
        return [spot for number, spot in enumerate(found) if number not in twins]

    def _grow(self, spot: int, size: int, taken: Collection[int]) -> tuple[int, int]:
        low = high = spot
        have = self.turns[spot].size
        while have < size:
            ends = [end for end in (low - 1, high + 1) if end not in taken and self._is_beside(end, spot)]
            if not ends:
                break
            best = max(ends, key=lambda end: (self.scores[end], end))
            have += self.turns[best].size
            low, high = min(low, best), max(high, best)
        return low, high

    def _around(self, spot: int, size: int, taken: Collection[int]) -> tuple[int, range]:
        """Return which turn answers in the passage of one that was found, and the places of all turns in it."""
        low, high = self._grow(start := self._root(spot, taken), size, taken)
        if not low <= spot <= high:
            low, high = self._grow(start := spot, size, taken)
        places = range(low, high + 1)
        return self._answering(start, places), places

    def _root(self, spot: int, taken: Collection[int]) -> int:
        """Return the turn from which a passage shows why it is there: one that was found, or the text that led to it.

        That is a text left out for one that says the same elsewhere, where nothing else speaks for what stands by it.
        """
        around = (other for other in range(spot - REACH, spot + REACH + 1) if self._is_beside(other, spot))
        roots = [other for other in around if self.holds[other]]
        if self.holds[spot] or not self.kept.isdisjoint(roots):
            return spot
        return max((other for other in roots if other not in taken), key=lambda other: self.scores[other], default=spot)

    def _answering(self, spot: int, places: range) -> int:
        """Return which turn of a passage answers.

        One that holds nothing of the question does where who speaks or what it did tells for it, or where no other
        holds all of what is near: then it stands between those that hold a part each.
        """
        if self.holds[spot] or self._factor(spot) > 1:
            return spot
        near = self._near(spot)
        telling = [other for other in places if self.holds[other] and self.masks[other] & near == near]
        return max(telling, key=lambda other: self.scores[other], default=spot)

    def _is_beside(self, spot: int, other: int) -> bool:
        """Tell whether a place is in the same session, with every turn between them at hand."""
        if not 0 <= spot < len(self.turns):
            return False
        one, two = self.turns[spot], self.turns[other]
        return one.session == two.session and one.place - two.place == spot - other

    def _near(self, spot: int) -> int:
        around = range(spot - CLOSE, spot + CLOSE + 1)
        return reduce(or_, (self.masks[other] for other in around if self._is_beside(other, spot)))

    def _scores(self) -> list[float]:
        own, words = [0.0] * len(self.turns), [0.0] * len(self.turns)
        for one, hits in zip(self.sought, self.hits, strict=True):
            alone = {spot: self._told(spot, count) for spot, count in hits.items()}
            near = self._spread(alone)
            for spot, worth in alone.items():
                own[spot] += one.weight * worth / self.full
            for spot in near.keys() | alone.keys():
                here, there = alone.get(spot, 0.0), near.get(spot, 0.0)
                words[spot] += one.weight * (here + there - here * there) / self.full
        session: dict[int, float] = {}
        for turn, worth in zip(self.turns, own, strict=True):
            session[turn.session] = max(worth, session.get(turn.session, 0.0))
        for spot, turn in enumerate(self.turns):
            if (far := self.meant.get(turn.id, 0.0)) > OUT:
                words[spot] += MEANT * min(1.0, (far - OUT) / (FAR - OUT))
            if words[spot]:
                words[spot] = (words[spot] + SESSION * session[turn.session]) * self._factor(spot)
                words[spot] *= 1 - COVER + COVER * self._covered(spot)
        return self._ordered(words)

    def _covered(self, spot: int) -> float:
        """Return how much of the question, by weight, stands at or near a turn."""
        near = self._near(spot)
        return sum(one.weight for number, one in enumerate(self.sought) if near >> number & 1) / self.full

    def _told(self, spot: int, count: int) -> float:
        """Return how much a word tells that stands so often in a turn, between 0 and 1."""
        return count / (count + SOON * (1 - HELD + HELD * self.lengths[spot] / self.usual))

    def _spread(self, alone: Mapping[int, float]) -> dict[int, float]:
        """Hand on what a word tells in a turn to the turns around it; of several, the best counts."""
        near: dict[int, float] = {}
        turns = self.turns
        for spot, worth in alone.items():
            session, place = turns[spot].session, turns[spot].place
            for step in (1, -1):
                other = spot + step
                while 0 <= other < len(turns) and turns[other].session == session:
                    far = abs(turns[other].place - place)
                    if far > REACH:
                        break
                    if (share := worth * _SHARES[far]) > near.get(other, 0.0):
                        near[other] = share
                    other += step
        return near

    def _factor(self, spot: int) -> float:
        """Return what who speaks makes of a turn."""
        turn = self.turns[spot]
        named = NAMED if self.named and self.speakers[spot] == self.named else 0.0
        is_paste = turn.by in _GIVEN and not self.named and len(turn.text) > PASTED
        own = OWN if self.is_own and turn.by == "human" else PASTE if is_paste else 0.0
        deeds = self.deeds if turn.by == "assistant" else ()
        did = DID * sum(bool(deed.search(turn.text, 0, LOOK)) for deed in deeds)
        return 1 + named + own + did + (UNSAID if turn.by in _UNSAID else 0.0)

    def _ordered(self, scores: list[float]) -> list[float]:
        """Move early turns up for a question about the first of something, and late ones for the last."""
        sign = bool(_LAST.search(self.asked)) - bool(_FIRST.search(self.asked))
        if not sign or not scores or len(self.sought) < 2:  # The word by itself asks for no order of anything.
            return scores
        best = sorted(range(len(scores)), key=lambda spot: -scores[spot])
        session = self.turns[best[0]].session
        among = sorted(spot for spot in best[:ORDERED] if self.turns[spot].session == session)
        for number, spot in enumerate(among):
            scores[spot] *= 1 + ORDER * sign * (2 * number / max(1, len(among) - 1) - 1)
        return scores


def _twins(texts: Sequence[str]) -> Iterator[int]:
    """Yield the places of texts that say nearly the same as an earlier one."""
    kept: list[set[str]] = []
    for spot, text in enumerate(texts):
        said = set(text.split())
        if len(said) < WORDY:
            continue
        if any(len(said & other) >= SAME * max(len(said), len(other)) for other in kept):
            yield spot
        else:
            kept.append(said)


def _speakers(turns: Sequence[Turn]) -> list[str]:
    """Return who speaks by name: as the turns say, or where nearly all of them begin with a name and a colon."""
    told = [fold(turn.by) if turn.by not in _ROLES else "" for turn in turns]
    if any(told):
        return told
    found = [_SPOKEN.match(turn.text) for turn in turns]
    return [fold(one[1]) if one else "" for one in found] if sum(map(bool, found)) * 10 > len(turns) * 9 else told


def _named(asked: str, speakers: set[str]) -> str:
    """Return the one speaker whom a question names."""
    said = set(plain(asked))
    found = [speaker for speaker in speakers if speaker and said.intersection(plain(speaker))]
    return found[0] if len(found) == 1 else ""


def _share(masks: Sequence[int], weights: Sequence[tuple[int, float]]) -> float:
    """Return the largest share of some weights that one mask has."""
    full = sum(weight for _, weight in weights) or 1.0
    return max((sum(weight for bit, weight in weights if mask & bit) / full for mask in masks), default=0.0)
