"""The text index: which memories a query is about, best first.

An inverted index of words (FTS5, contentless, Porter stems) and the *vocabulary*, in which parts of words are looked
for. Rows enter both by the batch, because a commit that touches FTS5 costs four times a bare one; those that still
wait are handed in by whoever searches. A query is data: every literal that is stored is found, in the middle of words
too. Never holds a text, never decides what a caller may see, never writes while searching.
`docs/records/search.md` has the reasons and the figures.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, product

from bede.projections import holding, words
from bede.projections.words import Scale, Sought
from bede.quick import dataclass

#: The index of memories; whoever keeps another says its name, which its tables begin with.
NAME = "text"
VERSION = 1

#: Rows that wait before they are indexed together, the length from which a text does not wait, and most rows at once.
BATCH = 64
LONG_TEXT = 4096
CHUNK = 1000
#: So many different words are looked up together.
WORDS = 50_000

#: How far a search goes; what each bound means for a caller is said in docs/records/search.md.
PROBE = 2000
RANKED = 10_000
RECENT = 200_000
CHECKED = 20_000
GLANCE = 1000
PHRASE_STEPS = 500_000
PART_STEPS = 100_000
POOL = 16
COMMON_POOL = 128
SPELLINGS = 32

_TABLES = (
    """CREATE VIRTUAL TABLE {name}_words USING fts5 (
  body, content='', tokenize = "porter unicode61 remove_diacritics 0 categories 'L* N* M* S* P* C*'"
)""",
    """CREATE TABLE {name}_term (   -- derived: every word of the indexed texts
  term TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID""",
    """CREATE TABLE {name}_state (  -- derived: one row, what is indexed
  rows INTEGER NOT NULL,
  chars INTEGER NOT NULL,
  oldest INTEGER NOT NULL,
  newest INTEGER NOT NULL,
  upto INTEGER NOT NULL         -- seq of the last event that was looked at
) STRICT""",
    "INSERT INTO {name}_state VALUES (0, 0, 0, 0, 0)",
    # Left to itself FTS5 now and then rewrites most of the index within one append; see `_merge`.
    "INSERT INTO {name}_words ({name}_words, rank) VALUES ('automerge', 0), ('crisismerge', 1000)",
)

Read = Callable[[Sequence[int]], Mapping[int, str]]
Admit = Callable[[Sequence[int]], set[int]]


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory that answers a query. Above 1 the query as a whole stands in it; at most 2."""

    seq: int
    score: float


def create(connection: sqlite3.Connection, name: str = NAME) -> None:
    """Lay the empty tables."""
    for statement in _TABLES:
        connection.execute(statement.format(name=name))


def drop(connection: sqlite3.Connection, name: str = NAME) -> None:
    """Remove the tables."""
    holding.drop(connection, f"{name}_words")
    for table in ("term", "state"):
        connection.execute(f"DROP TABLE IF EXISTS {name}_{table}")


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows made ready to be indexed: the dear part, which needs no lock."""

    bodies: list[tuple[int, str]]  # seq, and its tokens
    terms: list[str]  # what may be new in the vocabulary: lists in JSON, in which words take a tenth of the room
    chars: int


def upto(connection: sqlite3.Connection, name: str = NAME) -> int:
    """Return the seq of the last event that was looked at; what came after it waits."""
    return holding.state(connection, name)[4]


def is_due(connection: sqlite3.Connection, upto: int) -> bool:
    """Tell whether enough waits behind an event to be indexed together: many events, or a long one."""
    query = "SELECT count(*), coalesce(max(length(body)), 0) FROM event WHERE seq > ?"
    count, longest = connection.execute(query, (upto,)).fetchone()
    return bool(count >= BATCH or longest >= LONG_TEXT)


def prepare(connection: sqlite3.Connection, rows: Iterable[tuple[int, str]], name: str = NAME) -> Batch:
    """Cut rows, in order of their seqs, into tokens, and look up which words are new."""
    used: set[str] = set()
    bodies: list[tuple[int, str]] = []
    terms: list[str] = []
    chars = 0
    for seq, text in rows:
        body, found = words.indexed(_storable(text))
        used |= found
        bodies.append((seq, body))
        chars += len(text)
        if len(used) > WORDS:
            terms.append(holding.unknown(connection, used, name))
            used.clear()
    terms.append(holding.unknown(connection, used, name))
    return Batch(bodies, terms, chars)


def add(connection: sqlite3.Connection, batch: Batch, upto: int = 0, name: str = NAME) -> None:
    """Index rows, inside the caller's transaction; `upto` is the last event that was looked at for them."""
    connection.executemany(f"INSERT INTO {name}_words (rowid, body) VALUES (?, ?)", batch.bodies)
    insert = f"INSERT OR IGNORE INTO {name}_term SELECT value FROM json_each(?)"
    connection.executemany(insert, [(listed,) for listed in batch.terms])
    if batch.bodies:
        _count(connection, [seq for seq, _ in batch.bodies], batch.chars, 1, name)
        _merge(connection, len(batch.bodies), name)
    connection.execute(f"UPDATE {name}_state SET upto = max(upto, ?)", (upto,))


def remove(
    connection: sqlite3.Connection, rows: Iterable[tuple[int, str]], name: str = NAME, *, thoroughly: bool = True
) -> None:
    """Take out rows, given the same text as when they were added; rows that are not there are left alone.

    `thoroughly`, as a purge wants it, no word of theirs stays in the tables: that rewrites the whole index of words.
    """
    gone = [(seq, _storable(text)) for seq, text in rows if _is_indexed(connection, seq, name)]
    if not gone:
        return
    used: set[str] = set()
    for seq, text in gone:
        found = words.tokens(text)
        used.update(filter(words.is_word, found))
        connection.execute(
            f"INSERT INTO {name}_words ({name}_words, rowid, body) VALUES ('delete', ?, ?)", (seq, " ".join(found))
        )
    _count(connection, [seq for seq, _ in gone], sum(len(text) for _, text in gone), -1, name)
    if not thoroughly:
        return
    _forget(connection, used, name)
    connection.execute(f"INSERT INTO {name}_words ({name}_words) VALUES ('optimize')")


def candidates(
    connection: sqlite3.Connection,
    query: str,
    *,
    limit: int,
    read: Read,
    admit: Admit,
    waiting: Mapping[int, str] | None = None,
    name: str = NAME,
) -> list[Hit]:
    """Return the memories that a query is about, best first, at most `limit`.

    The query as a whole is looked for as a literal, and its words as a question; a literal hit stands above all
    others. `admit` says which rows the caller may see, `read` gives their texts, and `waiting` has the texts of those
    that are not indexed yet. Nothing relevant: an empty list.
    """
    asked = words.question(query)
    if limit < 1 or not asked.raw:
        return []
    return _Search(connection, asked, limit, read, admit, waiting or {}, name).run()


def _storable(text: str) -> str:
    return text if text.isascii() else text.encode(errors="replace").decode()


def _merge(connection: sqlite3.Connection, rows: int, name: str) -> None:
    """Do a small, steady share of merging: enough that segments stay few however many rows there will be."""
    pages = max(16, rows // 2)
    connection.execute(f"INSERT INTO {name}_words ({name}_words, rank) VALUES ('merge', ?)", (pages,))


def _count(connection: sqlite3.Connection, seqs: Sequence[int], chars: int, sign: int, name: str) -> None:
    """Keep the totals; the span of seqs only ever widens, as it serves estimates."""
    connection.execute(
        f"UPDATE {name}_state SET rows = rows + ?, chars = chars + ?,"
        " oldest = CASE newest WHEN 0 THEN ? ELSE min(oldest, ?) END, newest = max(newest, ?)",
        (sign * len(seqs), sign * chars, seqs[0], seqs[0], seqs[-1]),
    )


def _forget(connection: sqlite3.Connection, used: set[str], name: str) -> None:
    """Take out of the vocabulary what no indexed row holds any more; the index tells words by their stems."""
    roots = {words.stem(word) if word.isascii() else word: word for word in used}
    for root, word in roots.items():
        if next(_newest(connection, _phrase((word,)), name), None) is None:
            rows = connection.execute(
                f"SELECT term FROM {name}_term WHERE term >= ?1 AND term < ?1 || char(0x10ffff)", (root[:-1] or root,)
            ).fetchall()
            gone = [row for row in rows if row[0] == word or (row[0].isascii() and words.stem(row[0]) == root)]
            connection.executemany(f"DELETE FROM {name}_term WHERE term = ?", gone)


def _is_indexed(connection: sqlite3.Connection, seq: int, name: str) -> bool:
    return connection.execute(f"SELECT 1 FROM {name}_words WHERE rowid = ?", (seq,)).fetchone() is not None


def _phrase(tokens: Sequence[str]) -> str:
    """Spell tokens as one FTS5 string, in which nothing is syntax."""
    return '"' + " ".join(tokens).replace('"', '""') + '"'


def _any(matches: Iterable[str]) -> str:
    return " OR ".join(dict.fromkeys(matches))


def _newest(connection: sqlite3.Connection, match: str, name: str) -> Iterator[int]:
    """Yield the rows of a match, newest first; of an empty one, none."""
    if not match:
        return
    for (seq,) in connection.execute(
        f"SELECT rowid FROM {name}_words WHERE {name}_words MATCH ? ORDER BY rowid DESC", (match,)
    ):
        yield seq


def _side_by_side(groups: Sequence[Sequence[str]]) -> str:
    """Match one word of each group in a row, side by side; where there are too many ways, only all in one text."""
    if math.prod(map(len, groups)) <= SPELLINGS:
        return _any(map(_phrase, product(*groups)))
    return " AND ".join(f"({_any(_phrase((word,)) for word in group)})" for group in groups)


class _Search:
    """One search: what was asked, what was looked at, what was found."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        asked: words.Question,
        limit: int,
        read: Read,
        admit: Admit,
        waiting: Mapping[int, str],
        name: str,
    ) -> None:
        self.connection, self.asked, self.limit, self.read, self.admit = connection, asked, limit, read, admit
        self.name = name
        self.scores: dict[int, float] = {}
        self.whole: set[int] = set()
        self.passed: set[int] = set()
        self.rows, self.chars, self.oldest, self.newest, _ = holding.state(connection, name)
        self.fresh = {seq: (text, words.fold(text)) for seq, text in waiting.items()}
        self.total = self.rows + len(self.fresh)
        self.torn = False

    def run(self) -> list[Hit]:
        """Look in the cheap places first, and in the dear ones only while the query as a whole was not found."""
        self.scale = self._scale()
        self._look_at_fresh()
        self._by_age(self._by_rank())
        self._as_phrase()
        if not self.whole:
            self._as_part()
        return self._best()

    def _best(self) -> list[Hit]:
        order = sorted(self.scores, key=lambda seq: (-self.scores[seq], -seq))
        return [Hit(seq, self.scores[seq]) for seq in order[: self.limit]]

    # What was asked, weighed.

    def _scale(self) -> Scale:
        """Count every term, find other spellings for the missing words, and weigh them all."""
        sought = [Sought(term) for term in self.asked.terms]
        self._count(sought)
        missing = [one for one in sought if not one.count and one.term.stem]
        self.torn = bool(missing)
        self._count([one for one in missing[:4] if len(one.term.text) > 3 and self._respell(one)])
        telling = self.total >= BATCH and any(2 * one.count <= self.total for one in sought)
        for one in sought:
            ratio = (self.total - one.count + 0.5) / (one.count + 0.5)
            one.weight = one.share * (max(0.0, math.log(ratio)) if telling else math.log1p(ratio))
        chars = self.chars + sum(len(text) for text, _ in self.fresh.values())
        return Scale(sought, chars / max(self.total, 1))

    def _count(self, sought: Sequence[Sought]) -> None:
        """Count the rows of terms, those that wait included."""
        for one in sought:
            one.count = self._indexed(_any(map(_phrase, one.spellings)))
        counts = Scale(sought).counts
        for found in (counts(*row) for row in self.fresh.values()) if sought else ():
            for one, n in zip(sought, found, strict=True):
                one.count += n > 0

    def _indexed(self, match: str) -> int:
        """Count the indexed rows of a match; past the probe, estimate from how far back the probe had to go."""
        count, last = self.connection.execute(
            "SELECT count(*), min(rowid) FROM"
            f" (SELECT rowid FROM {self.name}_words WHERE {self.name}_words MATCH ? ORDER BY rowid DESC LIMIT ?)",
            (match, PROBE),
        ).fetchone()
        if count < PROBE:
            return int(count)
        span = self.newest - self.oldest + 1
        return int(min(self.rows, count * span // max(1, self.newest - last + 1)))

    def _respell(self, one: Sought) -> bool:
        """Find words that hold a missing word, or else such as are one slip away from it."""
        word = one.term.text
        waiting = "\n".join(folded for _, folded in self.fresh.values())
        found = words.around(word, waiting) + (self._spelled("holds", word) or [])
        if not found and len(word) > 4:
            found = [other for other in words.around("", waiting) + self._near(word) if words.is_near(word, other)]
        if found:
            nearest = sorted(set(found), key=lambda token: (not token.startswith(word), len(token), token))
            one.respell(nearest[:SPELLINGS])
        return bool(found)

    # Where to look.

    def _look_at_fresh(self) -> None:
        """Look at the rows that wait: there are few, and no index knows them."""
        found = [seq for seq, row in self.fresh.items() if self._is_whole(*row) or self.scale.weigh(*row)]
        self._take(found, whole=False, room=len(found))

    def _by_rank(self) -> list[Sought]:
        """Take the best rows of the rarer terms by BM25; return the terms that are too common for it."""
        found = sorted((one for one in self.scale.sought if one.count and one.weight), key=lambda one: one.count)
        rare: list[Sought] = []
        total = 0
        while len(rare) < len(found) and total + found[len(rare)].count <= RANKED:
            total += found[len(rare)].count
            rare.append(found[len(rare)])
        if rare:
            order = "ORDER BY rank" if total > POOL + self.limit else ""
            rows = self.connection.execute(
                f"SELECT rowid FROM {self.name}_words WHERE {self.name}_words MATCH ? {order}",
                (_any(_phrase(spelling) for one in rare for spelling in one.spellings),),
            )
            self._dig((seq for (seq,) in rows), want=POOL + self.limit, depth=RANKED)
        return found[len(rare) :]

    def _by_age(self, common: Sequence[Sought]) -> None:
        """Take the newest rows that hold all the common terms, then those with fewer, until there are enough."""
        parts = [f"({_any(map(_phrase, one.spellings))})" for one in common[:6]]
        for kept in range(len(parts), 0, -1):
            if kept < len(parts) and len(self.scores) >= self.limit:
                return
            rows = _newest(self.connection, " AND ".join(parts[:kept]), self.name)
            self._dig(rows, want=COMMON_POOL, depth=RANKED if kept > 1 else RECENT)

    def _as_phrase(self) -> None:
        """Take the newest rows in which the query stands as a whole, its words being whole words."""
        tokens = self.asked.tokens[: words.PHRASE]
        if tokens and (len(tokens) > 1 or not self.whole):
            self._look([[token] for token in tokens], PHRASE_STEPS)

    def _as_part(self) -> None:
        """Look for the query inside and across words: by the vocabulary, and where that knows too much, row by row."""
        groups = self._groups()
        if groups is None:
            checks = self._reads() if self.scores else RECENT
            seqs = self.connection.execute(f"SELECT rowid FROM {self.name}_words ORDER BY rowid DESC")
            self._dig((seq for (seq,) in seqs), want=self.limit, depth=checks, checks=checks)
        elif all(groups):
            self._look(groups, PART_STEPS)
        if not self.scores and any(map(words.is_word, self.asked.tokens)):
            self._look([[words.LONG]], PART_STEPS)

    def _look(self, groups: Sequence[Sequence[str]], steps: int) -> None:
        """Take the newest rows that hold the whole query, among those with one word of each group side by side.

        FTS5 walks all rows of a phrase's words before it answers. So while there are hits already, a phrase of
        nothing but common words is left at that: the newest rows with all of them were looked at.
        """
        if self._is_cheap(groups, steps):
            rows = _newest(self.connection, _side_by_side(groups), self.name)
            self._dig(rows, want=self.limit, depth=RECENT, checks=self._reads())

    def _is_cheap(self, groups: Sequence[Sequence[str]], steps: int) -> bool:
        """Tell whether FTS5 has at most so many rows to walk; if nothing was found yet, any number is few enough."""
        if not self.scores or self.torn:
            return True
        known = {one.term.text: one.count for one in self.scale.sought}
        ways = math.prod(map(len, groups)) * len(groups)
        rarest = min((known.get(group[0], self.rows) for group in groups if len(group) == 1), default=self.rows)
        if ways * rarest > steps:
            unknown = [group for group in groups if len(group) > 1 or group[0] not in known]
            counts = [self._indexed(_any(_phrase((word,)) for word in group)) for group in unknown]
            rarest = min([rarest, *counts])
        return bool(ways * rarest <= steps)

    def _groups(self) -> list[Sequence[str]] | None:
        """Return which words may stand at each place of the query when its ends are parts of words.

        An empty group: no row can hold it. None: the ends alone are known, and they say too little.
        """
        tokens = self.asked.tokens[: words.PHRASE]
        if len(tokens) < 2:
            only = [self._ends("holds", token) for token in tokens]
            return [group for group in only if group is not None] or None
        last = self._ends("starts", tokens[-1]) if len(tokens) == len(self.asked.tokens) else [tokens[-1]]
        first = self._ends("ends", tokens[0]) if self.torn else None
        groups = [*([token] for token in tokens[1:-1]), *([] if last is None else [last])]
        if first == [] or (len(tokens) > 2 and not self._is_possible(groups)):
            return [[]]
        first = first or self._ends("ends", tokens[0])
        return [*([] if first is None else [first]), *groups] or None

    def _is_possible(self, groups: Sequence[Sequence[str]]) -> bool:
        """Tell whether any row has one word of each group side by side, as far as that is cheap to ask."""
        return (
            self._is_cheap(groups, PART_STEPS)
            and next(_newest(self.connection, _side_by_side(groups), self.name), None) is not None
        )

    def _ends(self, how: str, token: str) -> Sequence[str] | None:
        if not words.is_open(token):
            return [token]
        return self._spelled(how, token) if words.is_word(token) else None

    def _spelled(self, how: str, part: str) -> list[str] | None:
        """Return the words of the vocabulary that start with, end with or hold a part; None for too many to tell.

        Ends and middles are looked for in every word there is: a tenth of a second for a million of them, and only
        where the whole query was not found.
        """
        if how == "starts":
            where = "term >= ?1 AND term < ?1 || char(0x10ffff)"
        elif len(part) < 3 and self.scores:
            return None
        else:
            where = "substr(term, -length(?1)) = ?1" if how == "ends" else "instr(term, ?1)"
        most = 4 * SPELLINGS if self.torn else SPELLINGS
        found = self.connection.execute(f"SELECT term FROM {self.name}_term WHERE {where} LIMIT {most + 1}", (part,))
        terms = [term for (term,) in found]
        return terms if len(terms) <= most else None

    def _near(self, word: str) -> list[str]:
        """Return words of the vocabulary that share half of a word, among them those one letter away."""
        half = len(word) // 2
        rows = self.connection.execute(
            f"SELECT term FROM {self.name}_term WHERE term >= ?1 AND term < ?1 || char(0x10ffff)"
            " AND length(term) BETWEEN ?2 - 1 AND ?2 + 1 LIMIT 2000",
            (word[:half], len(word)),
        )
        return [term for (term,) in rows] + (self._spelled("ends", word[half:]) or [])

    # Looking.

    def _reads(self) -> int:
        """Return how many texts may be read in search of the whole query: few, if there are hits and no torn word."""
        return CHECKED if self.torn or not self.scores else GLANCE

    def _dig(self, rows: Iterator[int], *, want: int, depth: int, checks: int | None = None) -> None:
        """Go through rows in order until `want` are taken, or `depth` were asked about.

        With `checks` only rows that hold the whole query are taken, and at most so many texts are read.
        """
        rows, size, taken, read = islice(rows, depth), POOL, 0, 0
        while taken < want and (checks is None or read < checks) and (batch := list(islice(rows, size))):
            room = want - taken if checks is None else min(size, checks - read)
            looked, kept = self._take(batch, whole=checks is not None, room=room)
            taken, read, size = taken + kept, read + looked, min(size * 2, PROBE)

    def _take(self, seqs: Sequence[int], *, whole: bool, room: int) -> tuple[int, int]:
        """Read those of some rows that are admitted and new; return how many were read, and how many kept."""
        new = [seq for seq in seqs if seq not in self.scores and seq not in self.passed]
        if not new:
            return 0, 0
        admitted = self.admit(new)
        self.passed.update(seq for seq in new if seq not in admitted)
        chosen = [seq for seq in new if seq in admitted][:room]
        kept = 0
        for seq, text in self.read(chosen).items() if chosen else ():
            is_whole = self._is_whole(text, folded := words.fold(text))
            score = is_whole + self.scale.weigh(text, folded) if is_whole or not whole else 0.0
            if score:
                self.scores[seq] = score
                self.whole.update([seq] if is_whole else [])
                kept += 1
            else:
                self.passed.add(seq)
        return len(chosen), kept

    def _is_whole(self, text: str, folded: str) -> bool:
        return self.asked.needle in folded if self.asked.needle else self.asked.raw in text
