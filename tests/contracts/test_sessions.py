"""What the projection of sessions promises: rows, windows and their index follow the log, and forget what is purged."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bede.projections import PROJECTIONS, panes, sessions, text
from bede.records import Draft
from bede.repository import Repository

AT = 1_767_323_045_000_000


def turn(number: int, said: str = "", *, session: str = "s1", **more) -> Draft:
    """Return a turn of a session, under the number's own key unless another is given."""
    parts = more.pop("parts", [{"text": said or f"word{number} is said here " * (number % 9)}])
    body = {"session": session, "key": f"k{number}", "by": "human", "at": AT + number, "parts": parts, **more}
    return Draft("turn", body, "claude-code", AT + number, "", number.to_bytes(16, "big"))


def told(kind: str, session: str = "s1", **body) -> Draft:
    """Return what else is told of a session."""
    return Draft(kind, {"session": session, **body}, "claude-code", AT, "", b"0" * 16)


def edit(path: str, **more):
    """Return a call that changes a file."""
    edits = [{"path": path, "old": "a", "new": "b"}]
    return {"call": "c", "tool": "Edit", "target": path, "sort": "edit", "edits": edits, **more}


@pytest.fixture
def store(tmp_path):
    with closing(make(tmp_path)) as made:
        yield made


def make(folder) -> Repository:
    """Return a new memory, quick to write to."""
    made = Repository.create(folder / "bede.db", PROJECTIONS, actor="a", at=AT)
    made.connection.execute("PRAGMA synchronous = OFF")
    return made


def append(store: Repository, *drafts: Draft, batch: int = 1000) -> None:
    """Append events of sessions, so many a transaction, and let what is worth a batch be cut."""
    for start in range(0, len(drafts), batch):
        with store.write("ingest", "a", AT) as writing:
            writing.append("sessions/claude-code/s1", drafts[start : start + batch])
        store.ripen()


def more() -> list[Draft]:
    """Return so many turns that nothing waits."""
    return [turn(number, "and more") for number in range(1000, 1080)]


def found(store: Repository, word: str) -> list[str]:
    """Return the texts of the windows that the index has for a word."""
    rows = store.connection.execute("SELECT rowid FROM pane_words WHERE pane_words MATCH ?", (word,)).fetchall()
    return list(panes.read(store.connection, [row[0] for row in rows]).values())


def rows(store: Repository, query: str):
    return store.connection.execute(query).fetchall()


def everything(store: Repository) -> bytes:
    """Return what is on disk."""
    store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return store.path.read_bytes()


class TestRows:
    """Sessions and turns as they are told."""

    def test_where_a_session_began_stays_and_what_it_became_is_the_newest(self, store):
        append(store, told("session", cwd="/a", branch="main", model="one"), turn(1))
        append(store, told("session", cwd="/b", branch="dev", model="two", title="T"))
        assert rows(store, "SELECT agent, name, cwd, branch, model, title, turns FROM session") == [
            ("claude-code", "s1", "/a", "main", "two", "T", 1)
        ]

    def test_turns_are_counted_and_their_times_span_the_session(self, store):
        append(store, turn(5, until=AT + 60), turn(2), turn(3, at=None))
        assert rows(store, "SELECT first, last, turns FROM session") == [(AT + 2, AT + 60, 3)]
        assert rows(store, "SELECT n, at FROM turn ORDER BY n") == [(1, AT + 5), (2, AT + 2), (3, None)]

    def test_a_session_whose_turns_tell_no_time_has_none(self, store):
        append(store, turn(1, at=None))
        assert rows(store, "SELECT first, last, turns FROM session") == [(None, None, 1)]

    def test_what_a_turn_changed_is_known_and_what_was_refused_is_not(self, store):
        calls = [edit("a.py"), edit("b.py", denied=True), edit("c.py", ok=False), edit("d.py", ok=True)]
        append(store, turn(1, parts=calls))
        assert rows(store, "SELECT path FROM touched ORDER BY path") == [("a.py",), ("d.py",)]

    @pytest.mark.parametrize("asked", ["a.py", "./a.py", "src/a.py", "/shop/src/a.py", "\\shop\\src\\a.py"])
    def test_a_changed_file_is_known_however_agent_and_reader_spell_it(self, store, asked):
        spelt = ["src/a.py", "/shop/src/a.py", "src\\a.py", "/other/ba.py"]
        append(store, told("session", cwd="/shop"), *(turn(n, parts=[edit(path)]) for n, path in enumerate(spelt)))
        assert len(sessions.newest(store.connection, sessions.Wanted(path=asked), 9)) == 3

    def test_a_turn_told_again_takes_the_place_of_the_first(self, store):
        drafts = [turn(number) for number in range(1, 80)]
        append(store, *drafts)
        append(store, turn(5, "rather otherwise", parts=[{"text": "rather otherwise"}, edit("z.py")]))
        assert rows(store, "SELECT turns FROM session") == [(79,)]
        assert rows(store, "SELECT n, size FROM turn WHERE n = 5")[0][1] == len("rather otherwise\n[Edit] z.py")
        assert rows(store, "SELECT path, t.n FROM touched JOIN turn t ON t.id = turn") == [("z.py", 5)]

    def test_turns_that_were_gone_back_behind_are_marked(self, store):
        append(store, turn(1), turn(2), turn(3), told("rewind", keys=["k2", "k3"], whole=False))
        assert rows(store, "SELECT n, rewound FROM turn ORDER BY n") == [(1, 0), (2, 1), (3, 1)]
        append(store, told("rewind", keys=["k3"], whole=True))
        assert rows(store, "SELECT n, rewound FROM turn ORDER BY n") == [(1, 0), (2, 0), (3, 1)]


class TestWindows:
    """Windows over turns, and their index."""

    def test_few_turns_wait_and_a_batch_is_cut(self, store):
        append(store, *(turn(number, "a few words") for number in range(panes.BATCH - 1)))
        assert not rows(store, "SELECT * FROM pane")
        append(store, turn(panes.BATCH, "a few words"))
        assert rows(store, "SELECT count(*) FROM turn WHERE waits") == [(0,)]
        assert found(store, "words")

    def test_a_long_turn_does_not_wait(self, store):
        append(store, turn(1, "long " * panes.CHARACTERS))
        assert rows(store, "SELECT count(*) FROM turn WHERE waits") == [(0,)]

    def test_what_is_gathered_at_once_is_bounded_and_all_of_it_is_cut(self, store, monkeypatch):
        monkeypatch.setattr(panes, "MOST", 10_000)
        append(store, *(turn(number, f"word{number} " * 400) for number in range(40)), turn(99, "last " * 14_000))
        assert rows(store, "SELECT count(*) FROM turn WHERE waits AND size > 0") == [(0,)]
        assert all(found(store, f"word{number}") for number in range(40))
        assert found(store, "last")

    def test_a_turn_told_again_is_found_by_its_new_words_only(self, store):
        append(store, *(turn(number, f"word{number} is said here") for number in range(100)))
        append(store, turn(7, "rather otherwise"), *(turn(number) for number in range(200, 300)))
        assert not found(store, "word7")
        assert any("rather otherwise" in shown for shown in found(store, "otherwise"))
        assert found(store, "word8") and found(store, "word6")

    def test_windows_are_not_indexed_when_a_turn_was_told_anew_meanwhile(self, store):
        append(store, *(turn(number, f"word{number} is said here") for number in range(60)))
        with store.write("ingest", "a", AT) as writing:
            writing.append("sessions/claude-code/s1", [turn(number, "more") for number in range(60, 80)])
            gathered = panes.gather(writing.connection)
        with store.write("ingest", "a", AT) as writing:
            writing.append("sessions/claude-code/s1", [turn(70, "rather otherwise")])
            assert not panes.settle(writing.connection, gathered)
        append(store, *more())
        assert found(store, "otherwise")

    @pytest.mark.parametrize("number", [10, 70], ids=["before what waits", "while it waits"])
    def test_windows_are_not_indexed_when_a_turn_was_purged_meanwhile(self, store, number):
        append(store, *(turn(each, f"word{each}x is said here") for each in range(64)))
        with store.write("ingest", "a", AT) as writing:
            writing.append("sessions/claude-code/s1", [turn(each, f"word{each}x") for each in range(64, 130)])
            gathered = panes.gather(writing.connection)
        (seq,) = rows(store, f"SELECT seq FROM turn WHERE n = {number + 1}")[0]
        with store.write("purge", "a", AT) as writing:
            writing.purge([seq])
            assert not panes.settle(writing.connection, gathered)
        append(store, *more())
        store.wipe()
        assert f"word{number}x".encode() not in everything(store)
        assert found(store, f"word{number + 1}x")


class TestForgetting:
    """A purge."""

    def test_no_word_of_a_purged_turn_stays_in_any_table(self, store):
        drafts = [turn(number, f"word{number} is said here " * 20) for number in range(100)]
        drafts[50] = turn(50, parts=[{"text": "the zebra sleeps"}, edit("quagga.py")])
        append(store, *drafts)
        assert found(store, "zebra")
        (seq,) = rows(store, "SELECT seq FROM turn WHERE n = 51")[0]
        with store.write("purge", "a", AT) as writing:
            writing.purge([seq])
        append(store, *more())
        store.wipe()
        assert not found(store, "zebra") and found(store, "word49") and found(store, "word51")
        left = everything(store)
        assert b"zebra" not in left and b"quagga" not in left
        assert rows(store, "SELECT turns FROM session") == [(180,)]
        known = sessions.digest(store.connection)
        store.reindex()
        assert sessions.digest(store.connection) == known
        assert rows(store, "SELECT turns FROM session") == [(180,)]
        assert rows(store, "SELECT path FROM touched") == []

    def test_what_a_purged_event_told_of_its_session_is_gone_and_the_rest_stays(self, store):
        append(store, told("session", cwd="/a", title="first"), turn(1), told("session", title="zebra", model="m"))
        (seq,) = rows(store, "SELECT max(seq) FROM event")[0]
        with store.write("purge", "a", AT) as writing:
            writing.purge([seq])
        store.wipe()
        assert rows(store, "SELECT cwd, title, model, turns FROM session") == [("/a", "first", "", 1)]
        assert b"zebra" not in everything(store)
        known = sessions.digest(store.connection)
        store.reindex()
        assert sessions.digest(store.connection) == known

    def test_a_purged_rewind_stays_done(self, store):
        append(store, turn(1), turn(2), told("rewind", keys=["k2"], whole=False))
        (seq,) = rows(store, "SELECT max(seq) FROM event")[0]
        with store.write("purge", "a", AT) as writing:
            writing.purge([seq])
        store.reindex()
        assert rows(store, "SELECT n, rewound FROM turn ORDER BY n") == [(1, 0), (2, 1)]


class TestSameness:
    """However events arrive, what is known of sessions in the end is the same."""

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.data())
    def test_one_transaction_or_many_or_built_anew(self, tmp_path_factory, data):
        texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60).map(lambda said: said * 7)
        size = data.draw(st.integers(1, 150))
        drafts = []
        for number in range(size):
            is_again = number and data.draw(st.integers(0, 9)) == 0
            key = data.draw(st.integers(0, number - 1)) if is_again else number
            drafts.append(turn(number, data.draw(texts) or "-", session=f"s{number % 2}", key=f"k{key}"))
        cuts = data.draw(st.sampled_from([1, 3, 50, 64, 150]))
        folder = tmp_path_factory.mktemp("same")
        (folder / "b").mkdir()
        with closing(make(folder)) as one, closing(make(folder / "b")) as other:
            append(one, *drafts)
            append(other, *drafts, batch=cuts)
            assert sessions.digest(one.connection) == sessions.digest(other.connection)
            known = sessions.digest(one.connection)
            one.reindex()
            assert sessions.digest(one.connection) == known
            for store in (one, other):
                assert indexed(store) == shown(store)


def indexed(store: Repository) -> set[tuple[str, int, int]]:
    """Return every word of the index, with its window and place in it."""
    return instances(store.connection, "pane_words")


def shown(store: Repository) -> set[tuple[str, int, int]]:
    """Return the same of a fresh index of the windows that stand."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        text.create(fresh)
        numbers = [row[0] for row in rows(store, "SELECT id FROM pane ORDER BY id")]
        if numbers:
            text.add(fresh, text.prepare(fresh, sorted(panes.read(store.connection, numbers).items())))
        return instances(fresh, "text_words")


def instances(connection: sqlite3.Connection, table: str) -> set[tuple[str, int, int]]:
    run = connection.execute
    run("DROP TABLE IF EXISTS temp.instance")
    run(f"CREATE VIRTUAL TABLE temp.instance USING fts5vocab(main, '{table}', 'instance')")
    found = set(run("SELECT term, doc, offset FROM temp.instance"))
    run("DROP TABLE temp.instance")
    return found


def test_the_index_of_windows_bears_its_own_name():
    assert panes.NAME != text.NAME


@pytest.mark.parametrize(
    ("cwd", "spelled", "path", "is_folder", "is_it"),
    [
        ("/src/shop", "a.py", "a.py", False, True),
        ("/src/shop", "/src/shop/a.py", "a.py", False, True),
        ("/src/shop", "src/a.py", "a.py", False, False),
        ("/src/shop", "/src/shop/src/a.py", "a.py", False, False),
        ("/src/shop", "/elsewhere/a.py", "a.py", False, False),
        ("/src/shop", "./src/a.py", "src/a.py", False, True),
        ("/src/shop/src", "a.py", "src/a.py", False, True),
        ("/src/shop/src", "/src/shop/a.py", "a.py", False, True),
        ("C:\\work", "C:\\work\\src\\a.py", "src/a.py", False, True),
        ("C:\\work", "src\\a.py", "a.py", False, False),
        ("/mnt/c/work", "C:\\work\\a.py", "a.py", False, True),
        ("", "/src/shop/src/a.py", "a.py", False, True),
        ("/src/shop", "docs/n.md", "docs", True, True),
        ("/src/shop", "src/docs/n.md", "docs", True, False),
        ("/src/shop", "src/docs/n.md", "src/docs", True, True),
        ("/src/shop", "src/docs/n.md", ".", True, True),
    ],
)
def test_whose_file_a_turn_changed(tmp_path, cwd, spelled, path, is_folder, is_it):
    """The root is not told, but it holds the folder where the agent was."""
    edit = {"call": "c", "tool": "Edit", "target": spelled, "edits": [{"path": spelled}]}
    with closing(make(tmp_path)) as store:
        told = Draft("session", {"session": "s", "by": "", "cwd": cwd}, "codex", AT, "", b"s" * 16)
        said = {"session": "s", "key": "k", "by": "assistant", "at": AT, "summary": "x", "parts": [edit]}
        append(store, told, Draft("turn", said, "codex", AT, "", b"t" * 16))
        found = sessions.changes(store.connection, path, 10, is_folder=is_folder)
    assert bool(found) == is_it
