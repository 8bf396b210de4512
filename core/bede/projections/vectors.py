"""Vectors of windows: what an engine made of their texts, so that what means alike is found without its words.

Each belongs to one model, by its name, which holds a digest or revision, and its dimensions; vectors of two models
never meet. They come from whoever runs an engine, batch by batch, and never with an append: without an engine nothing
of this is touched. A vector is kept as whole numbers up to 127 and their scale, 256 windows in a block, since reading a
hundred thousand rows one by one takes longer than all the rest of a search.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from bede.errors import Corrupt, Unavailable
from bede.quick import dataclass
from bede.records import Event

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Windows in a block, and bytes of a scale.
BLOCK, SCALE = 256, 4
#: Most bytes of vectors that a process keeps between two searches.
KEPT = 192 << 20
#: The vectors that were read last: the state of the tables, the model, and its blocks by their number.
_lately: dict[tuple[int, int], list[tuple[int, bytes]]] = {}

_TABLES = (
    """CREATE TABLE vector_model (  -- derived: whose vectors there are
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,           -- model, and its revision or digest
  dimensions INTEGER NOT NULL,
  UNIQUE (name, dimensions)
) STRICT""",
    """CREATE TABLE vector (        -- derived: the vectors of 256 windows
  model INTEGER NOT NULL,
  block INTEGER NOT NULL,       -- its windows are those from 256 times this number on
  data BLOB NOT NULL,           -- their scales as float32, 0 where there is none; then their numbers as int8
  UNIQUE (model, block)
) STRICT""",
    # A window's number may be given again once it is gone, so its vector must not outlive it.
    "CREATE TABLE vector_gone (pane INTEGER PRIMARY KEY) STRICT",
    "CREATE TABLE vector_state (stamp INTEGER NOT NULL) STRICT",  # other whenever a vector came or a window went
    "INSERT INTO vector_state VALUES (random() | 1)",
    """CREATE TRIGGER vector_left AFTER DELETE ON pane BEGIN
  INSERT OR IGNORE INTO vector_gone SELECT old.id WHERE EXISTS (SELECT 1 FROM vector_model);
  UPDATE vector_state SET stamp = random() | 1;
END""",
)


class Vectors:
    """The projection of vectors. It follows no event; what a purge takes out of the windows, it forgets."""

    name = "vectors"
    version = 2

    def create(self, connection: sqlite3.Connection) -> None:
        """Leave it to whoever runs an engine, as most never do; see `lay`."""

    def drop(self, connection: sqlite3.Connection) -> None:
        """Remove the tables."""
        connection.execute("DROP TRIGGER IF EXISTS vector_left")
        for table in ("vector_model", "vector", "vector_gone", "vector_state"):
            connection.execute(f"DROP TABLE IF EXISTS {table}")

    def follow(self, connection: sqlite3.Connection, events: Sequence[Event]) -> None:
        """Leave it to whoever runs an engine."""

    def forget(self, connection: sqlite3.Connection, events: Sequence[Event]) -> None:
        """Take out the vectors of the windows that are gone by now."""
        _tidy(connection)


def lay(connection: sqlite3.Connection) -> None:
    """Lay the empty tables, unless they are there; those of the windows are."""
    if not _is_laid(connection):
        for statement in _TABLES:
            connection.execute(statement)


def _is_laid(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'vector_state'").fetchone() is not None


# What there is


@dataclass(frozen=True, slots=True)
class Count:
    """How many windows have a vector of a model."""

    name: str
    dimensions: int
    windows: int


def counts(connection: sqlite3.Connection) -> list[Count]:
    """Return how many windows have vectors of each model."""
    if not _is_laid(connection):
        return []
    rows = connection.execute("SELECT id, name, dimensions FROM vector_model ORDER BY name, dimensions").fetchall()
    return [Count(name, dimensions, len(_present(connection, model))) for model, name, dimensions in rows]


def windows(connection: sqlite3.Connection) -> int:
    """Return how many windows there are."""
    (count,) = connection.execute("SELECT count(*) FROM pane").fetchone()
    return int(count)


def missing(connection: sqlite3.Connection, name: str, dimensions: int) -> tuple[int, list[int]]:
    """Return the windows that have no vector of a model, and the state of the tables that was seen so."""
    model = _model(connection, name, dimensions)
    present = _present(connection, model) if model else set[int]()
    rows = connection.execute("SELECT id FROM pane ORDER BY id")
    return stamp(connection), [pane for (pane,) in rows if pane not in present]


def stamp(connection: sqlite3.Connection) -> int:
    """Return what stands for the state of the tables: another number whenever a vector came or a window went.

    None of those is 0, which stands for tables that are not laid.
    """
    if not _is_laid(connection):
        return 0
    (found,) = connection.execute("SELECT stamp FROM vector_state").fetchone()
    return int(found)


def _model(connection: sqlite3.Connection, name: str, dimensions: int) -> int:
    if not _is_laid(connection):
        return 0
    query = "SELECT id FROM vector_model WHERE name = ? AND dimensions = ?"
    row = connection.execute(query, (name, dimensions)).fetchone()
    return row[0] if row else 0


def _present(connection: sqlite3.Connection, model: int) -> set[int]:
    """Return the windows that have a vector, by the scales alone."""
    query = "SELECT block, substr(data, 1, ?) FROM vector WHERE model = ?"
    found = set[int]()
    for block, head in connection.execute(query, (BLOCK * SCALE, model)):
        found.update(block * BLOCK + spot for spot, scale in enumerate(array("f", head)) if scale)
    return found - _gone(connection)


def _gone(connection: sqlite3.Connection) -> set[int]:
    return {pane for (pane,) in connection.execute("SELECT pane FROM vector_gone")}


# What comes and goes


def put(
    connection: sqlite3.Connection,
    name: str,
    seen: int,
    panes: Sequence[int],
    rows: NDArray[np.float32],
) -> int | None:
    """Keep vectors of windows, unless something changed since the state that was seen; return the new state, else None.

    The tables must have been laid before that state was seen.

    Raises:
        Unavailable: what should be a vector is none.
    """
    scales, numbers = _small(rows, len(panes))
    if not seen or stamp(connection) != seen:
        return None
    _tidy(connection)
    dimensions = numbers.shape[1]
    connection.execute("INSERT OR IGNORE INTO vector_model (name, dimensions) VALUES (?, ?)", (name, dimensions))
    model = _model(connection, name, dimensions)
    for block, part in groupby(range(len(panes)), lambda at: panes[at] // BLOCK):
        data = _block(connection, model, block, dimensions)
        for at in part:
            spot = panes[at] % BLOCK
            _lay(data, spot, dimensions, scales[at].tobytes(), numbers[at].tobytes())
        _keep(connection, model, block, data)
    connection.execute("UPDATE vector_state SET stamp = random() | 1")
    return stamp(connection)


def _small(rows: NDArray[np.float32], count: int) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """Return vectors as whole numbers and their scales; a vector of zeros has the scale 1, since it is there."""
    import numpy as np

    if rows.ndim != 2 or len(rows) != count or not rows.shape[1] or not np.isfinite(rows).all():
        raise Unavailable("the engine gave something that is no vector", hint="put the model there anew")
    scales = (np.abs(rows).max(1) / 127).astype("<f4")
    scales[scales < 1e-30] = 1.0
    return scales, np.rint(rows / scales[:, None]).clip(-127, 127).astype(np.int8)


def _block(connection: sqlite3.Connection, model: int, block: int, dimensions: int) -> bytearray:
    query = "SELECT data FROM vector WHERE model = ? AND block = ?"
    row = connection.execute(query, (model, block)).fetchone()
    return bytearray(_whole(row[0], dimensions)) if row else bytearray(BLOCK * (SCALE + dimensions))


def _whole(data: bytes, dimensions: int) -> bytes:
    if len(data) != BLOCK * (SCALE + dimensions):
        raise Corrupt("the vectors of windows are damaged", hint="run 'bede reindex'")
    return data


def _lay(data: bytearray, spot: int, dimensions: int, scale: bytes, numbers: bytes) -> None:
    data[spot * SCALE : (spot + 1) * SCALE] = scale
    start = BLOCK * SCALE + spot * dimensions
    data[start : start + dimensions] = numbers


def _keep(connection: sqlite3.Connection, model: int, block: int, data: bytearray) -> None:
    upsert = "INSERT INTO vector VALUES (?, ?, ?) ON CONFLICT (model, block) DO UPDATE SET data = excluded.data"
    connection.execute(upsert, (model, block, bytes(data)))


def _tidy(connection: sqlite3.Connection) -> None:
    """Take out the vectors of windows that are gone."""
    gone = sorted(_gone(connection)) if _is_laid(connection) else []
    models = connection.execute("SELECT id, dimensions FROM vector_model").fetchall() if gone else []
    for model, dimensions in models:
        for block, part in groupby(gone, lambda pane: pane // BLOCK):
            data = _block(connection, model, block, dimensions)
            for pane in part:
                _lay(data, pane % BLOCK, dimensions, bytes(SCALE), bytes(dimensions))
            _keep(connection, model, block, data)
    if gone:
        connection.execute("DELETE FROM vector_gone")
        connection.execute("UPDATE vector_state SET stamp = random() | 1")


# What is near


class Near:
    """How near a question every window is that has a vector, by the cosine."""

    def __init__(self, panes: NDArray[np.int64], cosines: NDArray[np.float32]) -> None:
        self._panes, self._cosines = panes, cosines

    def __len__(self) -> int:
        """Return how many windows have one."""
        return len(self._panes)

    def of(self, panes: Sequence[int]) -> dict[int, float]:
        """Return by how many standard deviations windows are nearer than the mean; of some nothing is known."""
        import numpy as np

        mean, spread = float(self._cosines.mean()), float(self._cosines.std()) or 1.0
        spots = np.searchsorted(self._panes, list(panes)).clip(max=len(self._panes) - 1).tolist()
        return {
            pane: (float(self._cosines[spot]) - mean) / spread
            for pane, spot in zip(panes, spots, strict=True)
            if self._panes[spot] == pane
        }

    def best(self, limit: int, admit: Callable[[Sequence[int]], set[int]]) -> list[int]:
        """Return the nearest windows that are admitted, nearest first; of equals the older one."""
        kept: list[int] = []
        for batch in self._batches():
            let = admit(batch)
            kept += [pane for pane in batch if pane in let]
            if len(kept) >= limit:
                break
        return kept[:limit]

    def _batches(self) -> Iterator[list[int]]:
        """Yield windows, nearest first; all of them are put in order only where the first are not enough."""
        import numpy as np

        first = np.argpartition(-self._cosines, STEP)[:STEP] if len(self._panes) > STEP else np.arange(len(self._panes))
        order = first[np.lexsort((self._panes[first], -self._cosines[first]))]
        yield self._panes[order].tolist()
        if len(first) < len(self._panes):
            known = set(self._panes[order].tolist())
            every = self._panes[np.lexsort((self._panes, -self._cosines))].tolist()
            rest = [pane for pane in every if pane not in known]
            yield from (rest[start : start + STEP] for start in range(0, len(rest), STEP))


#: Windows that are asked about at once, whether they are admitted.
STEP = 256


def near(connection: sqlite3.Connection, name: str, question: NDArray[np.float32]) -> Near | None:
    """Return how near a question the windows are; None where none has a vector of that model.

    Raises:
        Corrupt: a block is damaged.
    """
    import numpy as np

    model = _model(connection, name, len(question))
    if not model:
        return None
    panes, cosines = [], []
    for block, data in _blocks(connection, model, len(question)):
        scales = np.frombuffer(data, "<f4", BLOCK)
        numbers = np.frombuffer(data, np.int8, offset=BLOCK * SCALE).reshape(BLOCK, len(question))
        there = np.flatnonzero(scales)
        # Block by block, so that the numbers as floats stay in the processor's cache.
        panes.append(there + block * BLOCK)
        cosines.append(((numbers.astype(np.float32) @ question) * scales)[there])
    return _known(connection, np.concatenate(panes), np.concatenate(cosines)) if panes else None


def _known(connection: sqlite3.Connection, panes: NDArray[np.int64], cosines: NDArray[np.float32]) -> Near | None:
    """Leave out the windows that are gone."""
    import numpy as np

    if gone := _gone(connection):
        there = ~np.isin(panes, list(gone))
        panes, cosines = panes[there], cosines[there]
    return Near(panes, cosines) if len(panes) else None


def _blocks(connection: sqlite3.Connection, model: int, dimensions: int) -> Iterator[tuple[int, bytes]]:
    """Yield the blocks of a model, from the process's memory if nothing changed since; many are not kept there."""
    state = (stamp(connection), model)
    if state in _lately:
        yield from _lately[state]
        return
    found, size = list[tuple[int, bytes]](), 0
    query = "SELECT block, data FROM vector WHERE model = ? ORDER BY block"
    for block, data in connection.execute(query, (model,)):
        size += len(data)
        if size <= KEPT:
            found.append((block, _whole(data, dimensions)))
        else:
            found.clear()
        yield block, _whole(data, dimensions)
    if size <= KEPT:
        _lately.clear()
        _lately[state] = found
