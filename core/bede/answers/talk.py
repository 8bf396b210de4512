"""From a question to passages of agents' sessions: windows from the index, then whole turns, ranked.

Two stages. The index gives at most 128 windows that share words with the question; `relevance` weighs the whole turns
in them and says when none answers. What it finds comes back with what was said around it, each turn once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from bede.answers import relevance, terms
from bede.errors import NotFound
from bede.projections import finding, text, words
from bede.projections.sessions import Wanted
from bede.quick import dataclass, replace

if TYPE_CHECKING:
    from bede.projections.vectors import Near

#: Windows that the first stage hands on, and how many of them may be there for a literal in the middle of words.
CANDIDATES, LITERAL = 128, 32
#: Windows that an engine adds to them, and how many passages that words found stay before anything it speaks for.
NEAREST, SURE = 32, 5
#: A passage grows to so many tokens where the budget has room: ten of them take what ten windows and their rims do.
PASSAGE = 272
#: Where it has not: how much less the passages of lower ranks grow, and which part of an even share they do at least.
SLOPE, EVEN = 0.8, 0.85
#: Names of months and days, whatever the locale.
_NAMES = "January February March April May June July August September October November December"
MONTHS = tuple(_NAMES.split())
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True, slots=True)
class Found:
    """A passage: its turns by number, in order, which of them answers, and how well."""

    turns: tuple[int, ...]
    best: int
    score: float
    spot: int  # character of the best turn around which a long one is cut


def meant(connection: sqlite3.Connection, wanted: Wanted) -> Wanted:
    """Return what is wanted with the whole name of its session, of which a unique beginning is enough.

    Raises:
        NotFound: no such session, several whose names begin so, or an agent that nobody knows.
    """
    if wanted.agent and not finding.is_known(connection, wanted.agent):
        known = ", ".join(finding.agents(connection)) or "none has a session here; 'bede ingest' takes them in"
        raise NotFound(f"nothing here is of an agent {wanted.agent[:80]!r}", hint=f"agents with sessions: {known}")
    if not wanted.session:
        return wanted
    found = finding.sessions_like(connection, wanted.session)
    if len(found) == 1:
        return replace(wanted, session=found[0])
    if found:
        hint = f"give more of its name: {', '.join(found)}"
        raise NotFound(f"several sessions begin with {wanted.session[:80]!r}", hint=hint)
    hint = "'bede recent' tells the sessions of the last turns"
    raise NotFound(f"no session {wanted.session[:80]!r} here", hint=hint)


def find(
    connection: sqlite3.Connection,
    asked: str,
    wanted: Wanted,
    limit: int,
    size: int = PASSAGE,
    near: Near | None = None,
) -> list[Found]:
    """Return the passages that answer a question, best first, at most `limit`; none where nothing is relevant.

    Each grows around the turn that answers until it has `size` tokens. `near` tells which windows an engine finds near:
    what it speaks for comes behind the first few that words found.
    """
    read = words.question(asked)
    if not read.raw:
        return []
    asking = _Asking(connection, asked, wanted, limit, size)
    found = asking.by_words(read)
    return asking.by_meaning(found, near) if found and near else found


class _Asking:
    """One question, what it may find, and how much of it."""

    def __init__(self, connection: sqlite3.Connection, asked: str, wanted: Wanted, limit: int, size: int) -> None:
        self.connection, self.asked, self.wanted = connection, asked, wanted
        self.limit, self.sizes = limit, _sizes(limit, size)
        self.index, self.waiting = finding.Index(connection), finding.waiting(connection)
        self.corpus = _corpus(connection, self.index, len(self.waiting))
        self.known: dict[int, list[tuple[Any, ...]]] = {}

    def by_words(self, read: words.Question) -> list[Found]:
        sought = [form.tokens for term in read.terms for form in terms.forms(term)]
        windows = [*self.index.best(sought, CANDIDATES, self.wanted), *self._admit(list(self.waiting))]
        self.known = finding.turns(self.connection, windows)
        rows = self._rows(self.known)
        found = self._passages(rows)
        if found and " " in read.raw:
            return found
        # One thing by itself may be a part of a word, which the words of the windows do not tell.
        literal = _literal(self.connection, self.asked, self.wanted, self.waiting)
        if literal and (not found or terms.literal(self.asked)):
            rows |= self._rows(finding.turns(self.connection, literal))
            found = self._passages(rows)
        return found or _as_it_stands(read.needle, rows, self.limit)

    def by_meaning(self, found: Sequence[Found], near: Near) -> list[Found]:
        """Keep the first passages, and rank the rest together with what an engine finds near.

        Words put the first ones in better order than a small engine does, and miss what is said in other words.
        """
        more = [window for window in near.best(NEAREST, self._admit) if window not in self.known]
        known = self.known | finding.turns(self.connection, more)
        meant: dict[int, float] = {}
        for window, worth in near.of(list(known)).items():
            for row in known[window]:
                meant[row[0]] = max(worth, meant.get(row[0], worth))
        kept = list(found[:SURE])
        taken = {turn for one in kept for turn in one.turns}
        for one in self._passages(self._rows(known), meant):
            if taken.isdisjoint(one.turns):
                taken.update(one.turns)
                kept.append(one)
        return kept[: self.limit]

    def _admit(self, windows: Sequence[int]) -> set[int]:
        return finding.admit(self.connection, windows, self.wanted)

    def _rows(self, known: dict[int, list[tuple[Any, ...]]]) -> dict[int, tuple[Any, ...]]:
        """Return the turns of windows by their number, without those that the session went back behind."""
        with_all = self.wanted.with_rewound
        return {row[0]: row for rows in known.values() for row in rows if not row[5] or with_all}

    def _passages(self, rows: dict[int, tuple[Any, ...]], meant: relevance.Meant | None = None) -> list[Found]:
        turns = [_turn(row) for row in rows.values()]
        found = relevance.passages(self.asked, turns, self.corpus, self.limit, self.sizes, meant)
        return [
            Found(tuple(turn.id for turn in one.turns), one.best.id, one.score, _spot(rows[one.best.id][7], self.asked))
            for one in found
        ]


def telling(connection: sqlite3.Connection, asked: str) -> Callable[[Sequence[str]], list[float]]:
    """Return what tells of pieces of text how much of a question each of them holds, by the index's weights."""

    @cache
    def made() -> Callable[[Sequence[str]], list[float]]:
        index = finding.Index(connection)
        waiting = 0 if index.rows else len(finding.waiting(connection))
        return terms.telling(asked, _corpus(connection, index, waiting))

    return lambda pieces: made()(pieces)


def _corpus(connection: sqlite3.Connection, index: finding.Index, waiting: int) -> terms.Corpus:
    return terms.Corpus(index.rows or waiting, lambda term: index.count(term.tokens), finding.usual(connection))


def _sizes(limit: int, size: int) -> list[int]:
    """Return how far the passage of each rank grows: where room is scarce, the better ones further."""
    if size >= PASSAGE:
        return [size] * limit
    weights = [1 / (1 + SLOPE * rank) for rank in range(limit)]
    unit = size * limit / sum(weights)
    return [min(PASSAGE, max(int(size * EVEN), int(unit * weight))) for weight in weights]


def _literal(connection: sqlite3.Connection, asked: str, wanted: Wanted, waiting: dict[int, str]) -> list[int]:
    """Return windows in which the whole query stands, in the middle of words too."""
    hits = text.candidates(
        connection,
        asked,
        limit=LITERAL,
        read=lambda ids: finding.read(connection, ids),
        admit=lambda ids: finding.admit(connection, ids, wanted),
        waiting=waiting,
        name="pane",
    )
    return [hit.seq for hit in hits if hit.score > 1]


def _turn(row: tuple[Any, ...]) -> relevance.Turn:
    number, session, n, by, at, _, size, said = row
    return relevance.Turn(number, session, n, day(at) + said, by, size)


def day(at: int | None) -> str:
    """Return the day of a turn in words, as questions name it: `[8 May 2023, Monday] `; '' where it is unknown."""
    if at is None:
        return ""
    moment = datetime.fromtimestamp(at // 1_000_000, UTC)
    return f"[{moment.day} {MONTHS[moment.month - 1]} {moment.year}, {DAYS[moment.weekday()]}] "


def _as_it_stands(needle: str, rows: dict[int, tuple[Any, ...]], limit: int) -> list[Found]:
    """Return the newest turns that hold the query as it stands, where it is no question that anything answers."""
    spots = {turn: words.fold(row[7]).find(needle) for turn, row in rows.items()} if needle else {}
    held = sorted((turn for turn, spot in spots.items() if spot >= 0), key=lambda turn: (-(rows[turn][4] or 0), -turn))
    return [Found((turn,), turn, 0.0, spots[turn]) for turn in held[:limit]]


def _spot(said: str, asked: str) -> int:
    """Return about where in a turn a question stands as it is, or else the longest word of it."""
    read, lowered = words.question(asked), said.lower()
    if read.needle and (at := words.fold(said).find(read.needle)) >= 0:
        return at
    for word in sorted(read.tokens, key=len, reverse=True):
        if (at := lowered.find(word)) >= 0:
            return at
    return 0
