"""The windows over sessions' turns, and their index.

A turn waits until there is a batch; then its session's windows are cut from where the last full one ended, and what was
a short window at the end makes room. Turns that wait are looked at by whoever searches. `windows` knows how to cut,
`text` how to find.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, groupby
from typing import Any

from bede.projections import text
from bede.projections.windows import SIZE, Stream, Window, shown
from bede.quick import dataclass
from bede.repository import log
from bede.turns import text_of

#: The index's name, how many turns or characters wait for one another, and most turns and characters at once.
NAME = "pane"
BATCH, CHARACTERS, CHUNK, MOST = 64, 64 * 1024, 512, 4 * 1024 * 1024
#: Most characters of a text that is kept in mind until it is cut.
KEPT = 16 * 1024
#: Texts by the id of their event. An id is made of what is said, so none of them can be wrong.
_lately: dict[str, str] = {}

_TABLES = (
    """CREATE TABLE pane (        -- derived: a window over a session
  id INTEGER PRIMARY KEY,
  session INTEGER NOT NULL,
  start INTEGER NOT NULL,       -- token of the session at which it begins
  tokens INTEGER NOT NULL,
  first INTEGER NOT NULL,       -- place in the session of its first and last turn
  begin INTEGER NOT NULL,       -- character of the first turn
  last INTEGER NOT NULL,
  end INTEGER NOT NULL,         -- behind its last character of the last turn
  UNIQUE (session, start)
) STRICT""",
)


@dataclass(frozen=True, slots=True)
class Part:
    """The windows that one session gets."""

    session: int
    n: int  # place of the first turn that waits
    turns: list[tuple[int, int, int, int, int]]  # id, seq, size, start, tokens
    after: int  # windows that end behind this token make room
    windows: list[Window]  # their turns by place in the session


@dataclass(frozen=True, slots=True)
class Gathered:
    """Windows made ready to be indexed."""

    parts: list[Part]
    next: int  # number of the first new window
    batch: text.Batch


def create(connection: sqlite3.Connection) -> None:
    """Lay the empty tables."""
    for statement in _TABLES:
        connection.execute(statement)
    text.create(connection, NAME)


def drop(connection: sqlite3.Connection) -> None:
    """Remove the tables."""
    text.drop(connection, NAME)
    connection.execute("DROP TABLE IF EXISTS pane")


def cut(connection: sqlite3.Connection, session: int, n: int, *, thoroughly: bool = False) -> None:
    """Take out the windows in which a turn, or one behind it, stands; those turns wait again."""
    query = "SELECT id, first, begin, last, end FROM pane WHERE session = ? AND last >= ?"
    _take_out(connection, session, connection.execute(query, (session, n)).fetchall(), thoroughly)
    connection.execute("UPDATE turn SET waits = 1 WHERE session = ? AND n >= ?", (session, n))


def _take_out(connection: sqlite3.Connection, session: int, rows: Sequence[Sequence[int]], thoroughly: bool) -> None:
    if rows:
        gone = list(_texts(connection, session, rows))
        text.remove(connection, gone, NAME, thoroughly=thoroughly)
        connection.executemany("DELETE FROM pane WHERE id = ?", [row[:1] for row in rows])


def _texts(connection: sqlite3.Connection, session: int, rows: Iterable[Sequence[int]]) -> Iterable[tuple[int, str]]:
    """Yield windows' texts, from id, first, begin, last, end."""
    rows = list(rows)
    low, high = min(row[1] for row in rows), max(row[3] for row in rows)
    said = turns(connection, session, low, high)
    for pane, first, begin, last, end in rows:
        window = Window(0, 0, first, begin, last, end)
        yield pane, shown([said.get(n, "") for n in range(first, last + 1)], window)


def remember(event: str, said: str) -> None:
    """Keep in mind what a turn says, by the id of its event, for who cuts it into windows in a moment."""
    if len(said) <= KEPT:
        if len(_lately) >= 2 * CHUNK:
            _lately.clear()
        _lately[event] = said


def turns(connection: sqlite3.Connection, session: int, low: int, high: int) -> dict[int, str]:
    """Return the texts of a session's turns by their place, from one to another; of purged ones none."""
    rows = connection.execute(
        "SELECT t.n, e.seq, e.id FROM turn t JOIN event e USING (seq)"
        " WHERE t.session = ? AND t.n BETWEEN ? AND ? AND e.body IS NOT NULL",
        (session, low, high),
    ).fetchall()
    said = {n: _lately.get(identity.hex()) for n, _, identity in rows}
    unknown = [(n, seq) for n, seq, _ in rows if said[n] is None]
    for n, seq in unknown:
        (stored,) = connection.execute("SELECT body FROM event WHERE seq = ?", (seq,)).fetchone()
        said[n] = text_of(log.body(stored) or {"parts": ()})
    return {n: text for n, text in said.items() if text is not None}


def gather(connection: sqlite3.Connection) -> Gathered | None:
    """Cut what waits into windows, most of a batch's work; None while too little waits."""
    count, size = connection.execute(
        "SELECT count(*), coalesce(sum(size), 0) FROM (SELECT size FROM turn WHERE waits = 1 LIMIT 1000)"
    ).fetchone()
    if count < BATCH and size < CHARACTERS:
        return None
    rows = connection.execute(
        "SELECT session, n, id, seq, size FROM turn WHERE waits = 1 ORDER BY session, n LIMIT ?", (CHUNK,)
    ).fetchall()
    totals = accumulate(row[4] for row in rows)
    rows = [row for row, total in zip(rows, totals, strict=True) if total <= MOST] or rows[:1]
    parts, texts = [], list[Iterator[str]]()
    (number,) = connection.execute("SELECT coalesce(max(id), 0) + 1 FROM pane").fetchone()
    for session, waiting in groupby(rows, lambda row: row[0]):
        part, said = _part(connection, session, list(waiting))
        parts.append(part)
        texts.append(said)
    bodies = enumerate(chain.from_iterable(texts), number)
    return Gathered(parts, number, text.prepare(connection, bodies, NAME))


def _part(connection: sqlite3.Connection, session: int, rows: list[Sequence[int]]) -> tuple[Part, Iterator[str]]:
    """Cut the windows that a session gets for the turns that wait, which follow one another; their texts one by one."""
    n = rows[0][1]
    before = connection.execute(
        "SELECT n, start, tokens FROM turn WHERE session = ? AND n < ? ORDER BY n DESC LIMIT ?", (session, n, SIZE)
    ).fetchall()
    after = before[0][1] + before[0][2] if before else 0
    low, start = n, after
    for earlier, begins, _ in before:  # as far back as the first window reaches
        if start <= max(0, after - SIZE):
            break
        low, start = earlier, begins
    from bede.engines import tokens  # Only who cuts windows pays for it.

    said = turns(connection, session, low, rows[-1][1])
    texts = [said.get(place, "") for place in range(low, rows[-1][1] + 1)]
    stream = Stream(texts, start, tokens.widths)
    windows = [
        Window(one.start, one.tokens, one.first + low, one.begin, one.last + low, one.end)
        for one in stream.windows(after)
    ]
    found = (shown(texts[one.first - low : one.last - low + 1], one) for one in windows)
    starts = stream.starts[n - low :]
    placed = [
        (turn, seq, size, starts[spot], starts[spot + 1] - starts[spot])
        for spot, (_, _, turn, seq, size) in enumerate(rows)
    ]
    return Part(session, n, placed, after, windows), found


def settle(connection: sqlite3.Connection, gathered: Gathered) -> bool:
    """Index windows that were made ready, unless turns changed meanwhile or another writer was faster."""
    (number,) = connection.execute("SELECT coalesce(max(id), 0) + 1 FROM pane").fetchone()
    if number != gathered.next or not all(_is_same(connection, part) for part in gathered.parts):
        return False
    for part in gathered.parts:
        query = "SELECT id, first, begin, last, end FROM pane WHERE session = ? AND start > ?"
        rows = connection.execute(query, (part.session, part.after - SIZE)).fetchall()
        _take_out(connection, part.session, rows, False)
        update = "UPDATE turn SET start = ?, tokens = ?, waits = 0 WHERE id = ?"
        connection.executemany(update, [(start, size, turn) for turn, _, _, start, size in part.turns])
        for one in part.windows:
            row = (number, part.session, one.start, one.tokens, one.first, one.begin, one.last, one.end)
            connection.execute("INSERT INTO pane VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            number += 1
    text.add(connection, gathered.batch, name=NAME)
    return True


def _is_same(connection: sqlite3.Connection, part: Part) -> bool:
    """Tell whether the same turns wait that were cut, say what they said, and no earlier one waits again.

    One that was told anew has another event, one that was purged has no size.
    """
    marks = ",".join("?" * len(part.turns))
    query = f"SELECT id, seq, size FROM turn WHERE waits = 1 AND id IN ({marks})"
    now = {row[0]: row[1:] for row in connection.execute(query, [turn[0] for turn in part.turns])}
    earlier = "SELECT 1 FROM turn WHERE session = ? AND waits = 1 AND n < ? LIMIT 1"
    return (
        now == {turn[0]: turn[1:3] for turn in part.turns}
        and connection.execute(earlier, (part.session, part.n)).fetchone() is None
    )


def layout(connection: sqlite3.Connection, session: int) -> list[tuple[int, ...]]:
    """Return the windows of a session, those included that its waiting turns will get: start to end, as in a row."""
    rows = connection.execute(
        "SELECT session, n, id, seq, size FROM turn WHERE session = ? AND waits = 1 ORDER BY n", (session,)
    ).fetchall()
    query = "SELECT start, tokens, first, begin, last, end FROM pane WHERE session = ? ORDER BY start"
    stand: list[tuple[int, ...]] = connection.execute(query, (session,)).fetchall()
    if not rows:
        return stand
    part, _ = _part(connection, session, rows)
    kept = [row for row in stand if row[0] <= part.after - SIZE]
    return kept + [(one.start, one.tokens, one.first, one.begin, one.last, one.end) for one in part.windows]


def waiting(connection: sqlite3.Connection) -> list[tuple[int, int, int, str]]:
    """Return the turns that stand in no window yet: session, place, number, text."""
    rows = connection.execute(
        "SELECT t.session, t.n, t.id, e.body FROM turn t JOIN event e USING (seq) WHERE t.waits = 1"
    )
    return [(*row, text_of(body)) for *row, stored in rows if (body := log.body(stored))]


def read(connection: sqlite3.Connection, panes: Sequence[int]) -> dict[int, str]:
    """Return the texts of windows."""
    found: dict[int, str] = {}
    rows = connection.execute(
        f"SELECT session, id, first, begin, last, end FROM pane WHERE id IN ({','.join('?' * len(panes))})"
        " ORDER BY session",
        list(panes),
    ).fetchall()
    for session, part in groupby(rows, lambda row: row[0]):
        found.update(_texts(connection, session, [row[1:] for row in part]))
    return found


def spans(connection: sqlite3.Connection, panes: Sequence[int]) -> dict[int, tuple[Any, ...]]:
    """Return session, first and last turn of windows, by their number."""
    rows = connection.execute(
        f"SELECT id, session, first, last FROM pane WHERE id IN ({','.join('?' * len(panes))})", list(panes)
    )
    return {row[0]: row[1:] for row in rows}
