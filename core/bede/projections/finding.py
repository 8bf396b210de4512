"""From windows back to turns: which windows may answer at all, and which turns stand in them.

A turn that stands in no window yet is its own, under its number with a minus.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from bede.projections import holding, panes
from bede.projections.sessions import Wanted, where
from bede.repository import log
from bede.turns import text_of


def admit(connection: sqlite3.Connection, windows: Sequence[int], wanted: Wanted) -> set[int]:
    """Return those of these windows in which a wanted turn stands."""
    clause, values = where(wanted)
    found: set[int] = set()
    for start in range(0, len(windows), 400):
        part = windows[start : start + 400]
        marks = ",".join("?" * len(part))
        rows = connection.execute(
            "SELECT DISTINCT p.id FROM pane p JOIN turn t ON t.session = p.session AND t.n BETWEEN p.first AND p.last"
            f" JOIN session s ON s.id = t.session WHERE p.id IN ({marks}){clause}"
            f" UNION SELECT -t.id FROM turn t JOIN session s ON s.id = t.session WHERE t.id IN ({marks}){clause}",
            (*part, *values, *[-window for window in part], *values),
        )
        found.update(window for (window,) in rows)
    return found


def waiting(connection: sqlite3.Connection) -> dict[int, str]:
    """Return the texts of the turns that stand in no window yet, by their number with a minus."""
    return {-turn: said for _, _, turn, said in panes.waiting(connection)}


def read(connection: sqlite3.Connection, windows: Sequence[int]) -> dict[int, str]:
    """Return the texts of windows."""
    found = panes.read(connection, [window for window in windows if window > 0])
    return found | _alone(connection, [-window for window in windows if window < 0])


def _alone(connection: sqlite3.Connection, turns: Sequence[int]) -> dict[int, str]:
    marks = ",".join("?" * len(turns))
    rows = connection.execute(
        f"SELECT t.id, e.body FROM turn t JOIN event e USING (seq) WHERE t.id IN ({marks})", list(turns)
    )
    return {-turn: text_of(body) for turn, stored in rows if (body := log.body(stored))}


def turns(connection: sqlite3.Connection, windows: Sequence[int]) -> dict[int, list[tuple[Any, ...]]]:
    """Return the turns of each window in order: number, session, place, by, at, rewound, tokens, text."""
    spans = panes.spans(connection, [window for window in windows if window > 0])
    found: dict[int, list[tuple[Any, ...]]] = {}
    by_session = sorted((session, first, last, window) for window, (session, first, last) in spans.items())
    for session, part in groupby(by_session, lambda row: row[0]):
        ranges = [(first, last, window) for _, first, last, window in part]
        rows = _rows(connection, session, ranges)
        for first, last, window in ranges:
            found[window] = [rows[n] for n in range(first, last + 1) if n in rows]
    marks = ",".join("?" * len(windows))
    alone = [-window for window in windows if window < 0]
    query = f"{_COLUMNS} WHERE t.id IN ({','.join('?' * len(alone))})"
    found.update({-row[0]: [_row(row)] for row in connection.execute(query, alone)} if marks else {})
    return found


_COLUMNS = "SELECT t.id, t.session, t.n, t.by, t.at, t.rewound, t.tokens, e.body FROM turn t JOIN event e USING (seq)"


def _rows(
    connection: sqlite3.Connection, session: int, ranges: Sequence[tuple[int, int, int]]
) -> dict[int, tuple[Any, ...]]:
    """Return a session's turns in some ranges, by their place; each is read once."""
    wanted = sorted({n for first, last, _ in ranges for n in range(first, last + 1)})
    found: dict[int, tuple[Any, ...]] = {}
    for start in range(0, len(wanted), 500):
        part = wanted[start : start + 500]
        query = f"{_COLUMNS} WHERE t.session = ? AND t.n IN ({','.join('?' * len(part))})"
        found.update({row[2]: _row(row) for row in connection.execute(query, (session, *part))})
    return found


def _row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    body = log.body(row[7])
    said = text_of(body) if body else ""
    return (*row[:6], row[6] or len(said) // 4 + 1, said)


#: Most windows that are ranked by the index, and so many of the newest that hold a term are counted before the rest
#: is estimated: as for memories, see `text`.
RANKED, PROBE = 10_000, 2000


class Index:
    """The words of the windows, as the second stage of a search asks about them."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.rows, self.chars, self._oldest, self._newest, _ = holding.state(connection, panes.NAME)
        self._counts: dict[tuple[str, ...], int] = {}

    def count(self, tokens: tuple[str, ...]) -> int:
        """Return how many windows hold tokens side by side; past the probe, an estimate."""
        if tokens not in self._counts:
            count, last = self.connection.execute(
                "SELECT count(*), min(rowid) FROM"
                " (SELECT rowid FROM pane_words WHERE pane_words MATCH ? ORDER BY rowid DESC LIMIT ?)",
                (_phrase(tokens), PROBE),
            ).fetchone()
            if count == PROBE:
                span = self._newest - self._oldest + 1
                count = min(self.rows, count * span // max(1, self._newest - last + 1))
            self._counts[tokens] = int(count)
        return self._counts[tokens]

    def best(self, terms: Sequence[tuple[str, ...]], limit: int, wanted: Wanted) -> list[int]:
        """Return the windows that BM25 puts first, for terms that are not everywhere, and else the newest with all."""
        found = sorted((term for term in dict.fromkeys(terms) if self.count(term)), key=self.count)
        rare, total = list[tuple[str, ...]](), 0
        while len(rare) < len(found) and (total + self.count(found[len(rare)]) <= RANKED or not rare):
            total += self.count(found[len(rare)])
            rare.append(found[len(rare)])
        order = "rank, rowid" if total <= RANKED else "rowid DESC"
        match = " OR ".join(map(_phrase, rare)) if total <= RANKED else " AND ".join(map(_phrase, found[:6]))
        if not match:
            return []
        query = f"SELECT rowid FROM pane_words WHERE pane_words MATCH ? ORDER BY {order}"
        rows = self.connection.execute(query, (match,))
        kept: list[int] = []
        while len(kept) < limit and (batch := [row for (row,) in rows.fetchmany(max(limit, 256))]):
            let = admit(self.connection, batch, wanted)
            kept += [window for window in batch if window in let]
        return kept[:limit]


def _phrase(tokens: Sequence[str]) -> str:
    """Spell tokens as one FTS5 string, in which nothing is syntax."""
    return '"' + " ".join(tokens).replace('"', '""') + '"'


def usual(connection: sqlite3.Connection) -> float:
    """Return how many characters a turn usually has, judged by the newest thousand."""
    query = "SELECT avg(size) FROM (SELECT size FROM turn WHERE size > 0 ORDER BY id DESC LIMIT 1000)"
    return float(connection.execute(query).fetchone()[0] or 1.0)


#: Names that are told where none of them was meant.
TOLD = 8


def sessions_like(connection: sqlite3.Connection, prefix: str) -> list[str]:
    """Return the names of the sessions that are called so, or else of those whose name begins so; at most a few."""
    exact = connection.execute("SELECT 1 FROM session WHERE name = ? LIMIT 1", (prefix,)).fetchone()
    if exact:
        return [prefix]
    query = "SELECT DISTINCT name FROM session WHERE substr(name, 1, ?) = ? ORDER BY name LIMIT ?"
    return [name for (name,) in connection.execute(query, (len(prefix), prefix, TOLD))]


def agents(connection: sqlite3.Connection) -> list[str]:
    """Return the agents whose sessions are there."""
    query = "SELECT DISTINCT agent FROM session ORDER BY agent LIMIT ?"
    return [agent for (agent,) in connection.execute(query, (TOLD,))]


def is_known(connection: sqlite3.Connection, agent: str) -> bool:
    """Tell whether an agent has a session, or said anything that was recorded."""
    queries = ("SELECT 1 FROM session WHERE agent = ? LIMIT 1", "SELECT 1 FROM event WHERE actor = ? LIMIT 1")
    return any(connection.execute(query, (agent,)).fetchone() for query in queries)
