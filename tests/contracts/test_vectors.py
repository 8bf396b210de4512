"""What the projection of vectors promises: each by its model, none of what is gone, nothing without an engine."""

from __future__ import annotations

from contextlib import closing

import pytest
from contracts.tabled import installed
from contracts.test_sessions import AT, append, make, turn

from bede.errors import Corrupt, Unavailable
from bede.projections import panes, vectors


@pytest.fixture
def np():
    return installed("numpy")[0]


@pytest.fixture
def store(tmp_path):
    with closing(make(tmp_path)) as made:
        append(made, *(turn(number) for number in range(200)))
        yield made


def ids(store):
    return [row[0] for row in store.connection.execute("SELECT id FROM pane ORDER BY id")]


def put(store, name, rows, panes=None):
    """Keep vectors of all windows, or of some."""
    with store.write("ingest", "a", AT) as writing:
        vectors.lay(writing.connection)
        seen = vectors.stamp(writing.connection)
        return vectors.put(writing.connection, name, seen, ids(store) if panes is None else panes, rows)


def spread(np, count, dimensions=8, seed=1):
    """Return vectors of length 1, the same each time."""
    rows = np.random.default_rng(seed).standard_normal((count, dimensions)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def near(store, name, question, limit=1000, admit=set):
    with store.snapshot() as reading:
        found = vectors.near(reading.connection, name, question)
        return found and found.best(limit, admit)


def counted(store):
    with store.snapshot() as reading:
        return {(one.name, one.dimensions): one.windows for one in vectors.counts(reading.connection)}


def lacking(store, name, dimensions=8):
    with store.snapshot() as reading:
        return vectors.missing(reading.connection, name, dimensions)[1]


def test_the_nearest_come_first_as_whole_numbers_tell_them(store, np):
    rows = spread(np, len(ids(store)))
    assert put(store, "m@1", rows)
    for question in spread(np, 5, seed=2):
        exact = [pane for _, pane in sorted(zip(-(rows @ question), ids(store), strict=True))]
        assert near(store, "m@1", question)[:3] == exact[:3]
    some = set(ids(store)[::3])
    assert set(near(store, "m@1", rows[0], admit=lambda panes: some & set(panes))) == some
    assert near(store, "m@1", rows[4], 1) == [ids(store)[4]]


def test_how_near_a_window_is_counts_from_what_is_usual(store, np):
    rows = spread(np, len(ids(store)))
    put(store, "m@1", rows)
    with store.snapshot() as reading:
        found = vectors.near(reading.connection, "m@1", rows[3])
        worth = found.of([*ids(store), 10**9, 0])
    assert worth.keys() == set(ids(store))
    assert max(worth, key=worth.get) == ids(store)[3]
    assert sum(worth.values()) == pytest.approx(0, abs=1e-3)
    assert found.of([]) == {}


def test_vectors_of_two_models_never_meet(store, np):
    count = len(ids(store))
    put(store, "m@1", spread(np, count))
    assert near(store, "m@2", spread(np, 1)[0]) is None
    assert near(store, "m@1", spread(np, 1, 4)[0]) is None
    put(store, "m@2", spread(np, 2, seed=9), ids(store)[:2])
    put(store, "m@1", spread(np, 3, 4), ids(store)[:3])
    assert counted(store) == {("m@1", 8): count, ("m@2", 8): 2, ("m@1", 4): 3}
    assert set(near(store, "m@2", spread(np, 1)[0])) == set(ids(store)[:2])


def test_a_vector_of_nothing_is_there_and_near_to_nothing(store, np):
    rows = spread(np, len(ids(store)))
    rows[2] = 0
    put(store, "m@1", rows)
    assert lacking(store, "m@1") == []
    assert counted(store) == {("m@1", 8): len(rows)}


@pytest.mark.parametrize("harm", ["nan", "inf", "short", "flat"])
def test_what_is_no_vector_is_refused_and_nothing_is_kept(store, np, harm):
    rows = spread(np, len(ids(store)))
    if harm in ("nan", "inf"):
        rows[1, 1] = float(harm)
    with pytest.raises(Unavailable):
        put(store, "m@1", {"short": rows[:-1], "flat": rows[0]}.get(harm, rows))
    assert counted(store) == {}


def test_tables_that_nobody_needs_are_not_there(store, np):
    """A state that was seen before they were laid is none that vectors can belong to."""
    with store.snapshot() as reading:
        assert vectors.counts(reading.connection) == []
        assert near(store, "m@1", spread(np, 1)[0]) is None
        seen, todo = vectors.missing(reading.connection, "m@1", 8)
        assert seen == 0
        assert todo == ids(store)
        assert not reading.connection.execute("SELECT 1 FROM sqlite_master WHERE name LIKE 'vector%'").fetchone()
    with store.write("ingest", "a", AT) as writing:
        vectors.lay(writing.connection)
        assert vectors.put(writing.connection, "m@1", seen, todo, spread(np, len(todo))) is None
        assert vectors.stamp(writing.connection)


def test_vectors_made_of_what_was_there_before_are_not_kept(store, np):
    with store.write("ingest", "a", AT) as writing:
        vectors.lay(writing.connection)
    with store.snapshot() as reading:
        seen, todo = vectors.missing(reading.connection, "m@1", 8)
    append(store, turn(5, "said in another way", n=5))
    append(store, *(turn(number, "and more") for number in range(1000, 1080)))
    with store.write("ingest", "a", AT) as writing:
        assert vectors.put(writing.connection, "m@1", seen, todo, spread(np, len(todo))) is None
    assert counted(store) == {}


def test_a_window_that_goes_takes_its_vector_along(store, np):
    put(store, "m@1", spread(np, len(ids(store))))
    before = set(ids(store))
    with store.write("ingest", "a", AT) as writing:
        panes.cut(writing.connection, 1, 100)
    left = set(ids(store))
    assert left < before
    assert counted(store) == {("m@1", 8): len(left)}
    assert set(near(store, "m@1", spread(np, 1)[0])) == left
    # Their numbers are given to other windows, which have no vector yet.
    append(store, *(turn(number, "and more") for number in range(1000, 1080)))
    again = set(ids(store)) & (before - left)
    assert again
    assert set(lacking(store, "m@1")) == set(ids(store)) - left >= again
    put(store, "m@1", spread(np, len(ids(store)), seed=5))
    assert lacking(store, "m@1") == []
    assert set(near(store, "m@1", spread(np, 1)[0])) == set(ids(store))


def test_no_bit_is_left_of_what_was_purged(store, np):
    put(store, "m@1", np.tile(np.float32([1, -1, 0.5, 0.25, 1, 1, 1, 1]), (len(ids(store)), 1)))
    with store.snapshot() as reading:
        first, last, told = store.connection.execute("SELECT min(seq), max(seq), count(*) FROM turn").fetchone()
        assert (reading.counts()["events"], told) == (last, last - first + 1)
    with store.write("purge", "a", AT) as writing:
        writing.purge(range(first, last + 1))
    (data,) = store.connection.execute("SELECT data FROM vector").fetchone()
    assert data == bytes(len(data))
    assert counted(store) == {("m@1", 8): 0}
    assert near(store, "m@1", spread(np, 1)[0]) is None


def test_what_a_process_remembers_is_never_old(store, np):
    rows = spread(np, len(ids(store)))
    put(store, "m@1", rows)
    first = near(store, "m@1", rows[7], 1)
    assert first == near(store, "m@1", rows[7], 1) == [ids(store)[7]]
    put(store, "m@1", rows[::-1].copy())
    assert near(store, "m@1", rows[7], 1) == [ids(store)[-8]]
    store.reindex()
    assert near(store, "m@1", rows[7]) is None


def test_what_is_too_much_to_remember_is_read_each_time(store, np, monkeypatch):
    monkeypatch.setattr(vectors, "BLOCK", 4)  # Several blocks of few windows.
    monkeypatch.setattr(vectors, "KEPT", 100)
    rows = spread(np, len(ids(store)))
    put(store, "m@1", rows)
    vectors._lately.clear()
    assert [near(store, "m@1", rows[7], 1) for _ in range(2)] == [[ids(store)[7]]] * 2
    assert not vectors._lately
    monkeypatch.setattr(vectors, "KEPT", 1 << 20)
    assert [near(store, "m@1", rows[7], 1) for _ in range(2)] == [[ids(store)[7]]] * 2
    assert len(next(iter(vectors._lately.values()))) == len({pane // 4 for pane in ids(store)})


def test_the_rest_is_asked_only_where_the_nearest_are_not_wanted(store, np, monkeypatch):
    monkeypatch.setattr(vectors, "STEP", 4)
    rows = spread(np, len(ids(store)))
    put(store, "m@1", rows)
    exact = [pane for _, pane in sorted(zip(-(rows @ rows[3]), ids(store), strict=True))]
    asked = []

    def admit(panes):
        asked.append(len(panes))
        return set(panes) - set(exact[:6])

    found = near(store, "m@1", rows[3], 3, admit)
    assert not set(found) & set(exact[:6])
    assert len(found) == 3
    assert asked[0] == 4
    assert len(asked) < len(rows) // 4
    assert near(store, "m@1", rows[3])[0] == exact[0]
    assert sorted(near(store, "m@1", rows[3])) == ids(store)


def test_a_damaged_block_is_corrupt_and_reindex_mends_it(store, np):
    put(store, "m@1", spread(np, len(ids(store))))
    store.connection.execute("UPDATE vector SET data = x'00'")
    with pytest.raises(Corrupt, match="vectors of windows") as caught:
        near(store, "m@1", spread(np, 1)[0])
    assert "reindex" in caught.value.hint
    store.reindex()
    assert len(lacking(store, "m@1")) == len(ids(store))


def test_without_an_engine_nothing_is_written(store):
    append(store, *(turn(number, "and more") for number in range(1000, 1080)))
    assert not store.connection.execute("SELECT 1 FROM sqlite_master WHERE name LIKE 'vector%'").fetchone()
    with store.write("ingest", "a", AT) as writing:
        vectors.lay(writing.connection)
    append(store, *(turn(number, "and once more") for number in range(1000, 1080)))
    for name in ("vector", "vector_model", "vector_gone"):
        assert store.connection.execute(f"SELECT count(*) FROM {name}").fetchone() == (0,)
