"""What is derived, built once more beside the file and held against what the file has.

It is built in a nameless database that only this process sees, in which all else is the file's, in one unchanging view.
So each projection builds what it always builds, and nothing is written to the file. Not compared are vectors, which an
engine makes, and where inside of a turn a window begins: only cutting all of them again could tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from bede.projections import PROJECTIONS, state, text
from bede.projections.memory import Memory, texts_after
from bede.projections.windows import STEP
from bede.quick import dataclass
from bede.records import Event
from bede.repository import Reading, log
from bede.repository.connection import Connection, beside

#: What is compared of each table; of the index of words how long each text is.
_COLUMNS = {
    "memory": "*",
    "ending": "*",
    "label": "*",
    "session": "*",
    "turn": "id, session, n, key, origin, seq, by, at, size, side, rewound",
    "touched": "*",
    "notice": "*",
    "notice_clearing": "*",
    "exchange_step": "*",
    "text_words_docsize": "*",
    "text_state": "rows, chars",
}
#: How far tables say they go, which is never further than the log.
_REACHES = (
    ("projection", "SELECT count(*) FROM told.projection WHERE seq NOT BETWEEN 0 AND ?"),
    ("text_state", "SELECT count(*) FROM told.text_state WHERE upto NOT BETWEEN 0 AND ?"),
)
_HOLDS = "EXISTS (SELECT 1 FROM told.turn t WHERE t.session = p.session AND {} BETWEEN t.start AND t.start + t.tokens)"
#: Rows of windows that do not hang together: turns that do not follow one another, windows that do not, or hold others.
_LOOSE = (
    (
        "turn",
        "SELECT count(*) FROM (SELECT tokens, start - coalesce(sum(tokens) OVER (PARTITION BY session ORDER BY n ROWS"
        " BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS gap FROM told.turn WHERE waits = 0)"
        " WHERE gap <> 0 OR tokens < 1",
    ),
    (
        "pane",
        "SELECT count(*) FROM (SELECT p.*, row_number() OVER (PARTITION BY session ORDER BY start) - 1 AS k"
        f" FROM told.pane p) p WHERE start <> k * {STEP} OR id NOT IN (SELECT id FROM told.pane_words_docsize)"
        f" OR NOT {_HOLDS.format('t.n = p.first AND p.start')}"
        f" OR NOT {_HOLDS.format('t.n = p.last AND p.start + p.tokens')}",
    ),
    ("pane_words_docsize", "SELECT count(*) FROM told.pane_words_docsize WHERE id NOT IN (SELECT id FROM told.pane)"),
    ("pane_state", "SELECT (SELECT count(*) FROM told.pane) IS NOT (SELECT rows FROM told.pane_state)"),
)


@dataclass(frozen=True, slots=True)
class Difference:
    """How many rows a table lacks, and how many it has that do not follow from the log."""

    table: str
    lacking: int
    strange: int


def differences(connection: Connection) -> Iterator[Difference]:
    """Yield the tables that do not hold what the log says, as far as they say that they hold it.

    Raises:
        Corrupt: a part is missing, or cannot be read at all.
    """
    with beside(connection) as scratch:
        _build(scratch)
        found = [_compared(scratch, table, columns) for table, columns in _COLUMNS.items()]
        found += _words(scratch)
        found.append(Difference("snapshot", 0, state.strays(scratch, scratch.execute("SELECT * FROM told.snapshot"))))
        last = log.last(scratch)
        found += [Difference(name, 0, _count(scratch, query, last)) for name, query in _REACHES]
        found += [Difference(name, 0, _count(scratch, query)) for name, query in _LOOSE]
    yield from (one for one in found if one.lacking or one.strange)


def _count(scratch: Connection, query: str, *values: int) -> int:
    return int(scratch.execute(query, values).fetchone()[0])


def _build(scratch: Connection) -> None:
    """Build what follows the log; memories and their words as far as the file's go, since the rest of them waits."""
    scratch.execute("CREATE TABLE projection (name TEXT PRIMARY KEY, version INTEGER, seq INTEGER)")
    for projection in PROJECTIONS:
        projection.create(scratch)
        scratch.execute("INSERT INTO projection VALUES (?, ?, 0)", (projection.name, projection.version))
    reach = "SELECT max((SELECT coalesce(max(seq), 0) FROM told.memory), coalesce(max(seq), 0)) FROM told.projection"
    kept = _count(scratch, f"{reach} WHERE name = 'memory'")
    for batch in _batches(Reading(scratch).replay()):
        Memory().follow(scratch, [event for event in batch if event.seq <= kept])
        for projection in PROJECTIONS:
            if projection.kinds:
                projection.follow(scratch, batch)
    _index(scratch)


def _batches(events: Iterator[Event]) -> Iterator[list[Event]]:
    while batch := list(islice(events, text.CHUNK)):
        yield batch


def _index(scratch: Connection) -> None:
    before, last = 0, min(_count(scratch, "SELECT coalesce(max(upto), 0) FROM told.text_state"), log.last(scratch))
    while before < last:
        before, said = texts_after(scratch, before, min(text.CHUNK, last - before))
        text.add(scratch, text.prepare(scratch, said.items()), before)


def _compared(scratch: Connection, table: str, columns: str) -> Difference:
    """Compare a table as built here with the file's; one that is not there has no rows."""
    places = [place for place in ("main", "told") if _is_there(scratch, place, table)]
    if len(places) < 2:
        rows = [_count(scratch, f"SELECT count(*) FROM {place}.{table}") for place in places]
        return Difference(table, sum(rows) if places == ["main"] else 0, sum(rows) if places == ["told"] else 0)
    return Difference(table, *_apart(scratch, f"SELECT {columns} FROM {{}}.{table}"))


def _is_there(scratch: Connection, place: str, table: str) -> bool:
    query = f"SELECT 1 FROM {place}.sqlite_master WHERE type = 'table' AND name = ?"
    return scratch.execute(query, (table,)).fetchone() is not None


def _apart(scratch: Connection, query: str) -> tuple[int, int]:
    """Return how many rows of a query the file lacks, and how many it has besides."""
    ours, theirs = query.format("main"), query.format("told")
    pairs = ((ours, theirs), (theirs, ours))
    lacking, strange = (_count(scratch, f"SELECT count(*) FROM ({one} EXCEPT {other})") for one, other in pairs)
    return lacking, strange


def _words(scratch: Connection) -> Iterator[Difference]:
    """Compare how often each word stands in the index; a purge may leave terms."""
    for place in ("main", "told"):
        scratch.execute(f"CREATE VIRTUAL TABLE temp.{place}_words USING fts5vocab ('{place}', 'text_words', 'row')")
    yield Difference("text_words", *_apart(scratch, "SELECT * FROM {}_words"))
    yield Difference("text_term", _apart(scratch, "SELECT term FROM {}.text_term")[0], 0)
