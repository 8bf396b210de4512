"""Another program's SQLite file: it is read as it is at one moment, wherever it lies, and nothing of it is changed."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bede.errors import BadSource, Unavailable
from bede.sources import foreign
from bede.sources.foreign import opened

#: Writes pairs, each in one transaction, until it is ended; checkpoints come and go.
WRITER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA journal_mode = wal")
db.execute("PRAGMA wal_autocheckpoint = 20")
db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x TEXT)")
number = 0
while True:
    number += 1
    db.execute("BEGIN")
    db.executemany("INSERT INTO t(x) VALUES (?)", [(f"{number} " + "x" * 500,)] * 2)
    db.execute("COMMIT")
    if number == 20:
        print("ready", flush=True)
"""
#: Dies in the middle of a change that has reached the file.
CRASH = """
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA cache_size = 2")
db.execute("BEGIN")
db.execute("UPDATE t SET x = 'torn' || x")
os._exit(9)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with nothing in it."""
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


def made(path: Path, *statements: str, mode: str = "delete") -> Path:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"PRAGMA journal_mode = {mode}")
        for statement in statements or ("CREATE TABLE t(id INTEGER PRIMARY KEY, x TEXT)",):
            db.execute(statement)
        if not statements:
            db.execute("BEGIN")
            db.executemany("INSERT INTO t(x) VALUES (?)", [("y" * 500,)] * 200)
            db.execute("COMMIT")
    return path


def folder_of(path: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in path.parent.iterdir() if each.is_file()}


def count(path: Path) -> int:
    with opened(path) as db:
        return len(list(db.rows("t", ("id",))))


def test_a_database_that_another_process_writes_is_seen_at_one_moment_and_left_alone(place: Path) -> None:
    path = place / "live.db"
    with subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE) as writer:
        try:
            assert writer.stdout
            assert writer.stdout.readline() == b"ready\n"
            seen = []
            for _ in range(10):
                with opened(path) as db:
                    first = [row[0] for row in db.rows("t", ("x",), order=("id",))]
                    assert first == [row[0] for row in db.rows("t", ("x",), order=("id",))]
                assert len(first) % 2 == 0
                assert first[::2] == first[1::2]
                seen.append(len(first))
            assert seen == sorted(seen)
            assert set(os.listdir(place)) == {"live.db", "live.db-wal", "live.db-shm"}
            writer.send_signal(signal.SIGSTOP)
            before = folder_of(path)
            assert count(path) >= seen[-1]
            assert folder_of(path) == before
        finally:
            writer.kill()


def test_what_a_crashed_writer_left_in_its_log_is_read_with_and_without_the_index(place: Path) -> None:
    path = made(place / "a.db", mode="wal")
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("INSERT INTO t(x) VALUES ('only in the log')")
        for each in list(place.iterdir()):
            (place / "left").mkdir(exist_ok=True)
            shutil.copy(each, place / "left" / each.name)
    left = place / "left" / "a.db"
    before = folder_of(left)
    assert set(before) == {"a.db", "a.db-wal", "a.db-shm"}
    assert count(left) == 201
    assert folder_of(left) == before
    (place / "left" / "a.db-shm").unlink()
    assert count(left) == 201
    assert set(folder_of(left)) == {"a.db", "a.db-wal"}


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_folder_that_may_not_be_written_is_read_and_stays_as_it_was(place: Path, mode: str) -> None:
    folder = place / "readonly"
    folder.mkdir()
    path = made(folder / "a.db", mode=mode)
    path.chmod(0o444)
    folder.chmod(0o555)
    before = folder_of(path)
    try:
        assert count(path) == 200
        assert folder_of(path) == before
    finally:
        folder.chmod(0o755)


def test_a_hot_journal_is_rolled_back_in_the_copy_only(place: Path) -> None:
    path = made(place / "a.db")
    subprocess.run([sys.executable, "-c", CRASH, path], check=False)
    before = folder_of(path)
    assert set(before) == {"a.db", "a.db-journal"}
    with opened(path) as db:
        assert {row[0] for row in db.rows("t", ("x",))} == {"y" * 500}
    assert folder_of(path) == before


def test_a_journal_that_names_another_file_is_refused_and_the_file_stays(place: Path) -> None:
    path = made(place / "a.db")
    subprocess.run([sys.executable, "-c", CRASH, path], check=False)
    victim = place / "victim"
    victim.write_text("")
    name = os.fsencode(victim)
    page = (0x40000000 // 4096 + 1).to_bytes(4, "big")
    record = page + name + len(name).to_bytes(4, "big") + (sum(name) & 0xFFFFFFFF).to_bytes(4, "big")
    with (place / "a.db-journal").open("ab") as journal:
        journal.write(record + b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7")
    with pytest.raises(BadSource), opened(path):
        pass
    assert victim.exists()


def test_a_lock_that_is_not_given_back_is_read_around(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(place / "a.db")
    holder = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
    holder += "db.execute('BEGIN EXCLUSIVE'); print('ready', flush=True); sys.stdin.read()"
    monkeypatch.setattr(foreign, "PATIENCE", 0.05)
    with subprocess.Popen(
        [sys.executable, "-c", holder, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        assert count(path) == 200
        process.communicate(b"")


@pytest.mark.parametrize("name", ["a?mode=rwc.db", "a#b.db", "50%41.db", "ü ' \" ;.db", "a b.db"])
@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_names_that_mean_something_in_a_uri_are_names(place: Path, name: str, mode: str) -> None:
    path = made(place / name, mode=mode)
    assert count(path) == 200
    assert os.listdir(place) == [name]


def test_a_link_is_followed_to_the_log_of_its_file(place: Path) -> None:
    (place / "real").mkdir()
    path = made(place / "real" / "a.db", mode="wal")
    (place / "link.db").symlink_to(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("INSERT INTO t(x) VALUES ('new')")
        shown = subprocess.run(
            [sys.executable, "-c", COUNT, place / "link.db"],
            capture_output=True,
            text=True,
            check=True,
            env=ENVIRONMENT,
        )
    assert shown.stdout == "201\n"


COUNT = """
import sys
from pathlib import Path
from bede.sources.foreign import opened
with opened(Path(sys.argv[1])) as db:
    print(len(list(db.rows("t", ("id",)))))
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def test_only_plain_tables_and_stored_columns_are_seen(place: Path) -> None:
    path = made(
        place / "a.db",
        """CREATE TABLE "we""ird t"("a""b" TEXT, "select" INT, g AS ("select" * 2))""",
        """INSERT INTO "we""ird t" VALUES ('x', 1), ('y', 2), ('x', 3)""",
        "CREATE VIEW v AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n FROM r) SELECT n FROM r",
        "CREATE VIRTUAL TABLE f USING fts5(x)",
    )
    with opened(path) as db:
        assert 'we"ird t' in db.tables()
        assert not {"v", "f"} & db.tables()
        assert db.columns('we"ird t') == ('a"b', "select")
        assert db.columns("v") == db.columns("none") == ()
        assert list(db.rows('we"ird t', ("select",), order=('a"b', "select"), where={'a"b': "x"})) == [(1,), (3,)]
        assert list(db.rows('we"ird t', ('a"b',), where={"select": 2})) == [("y",)]
        for table, column in (("v", "n"), ('we"ird t', "g"), ('we"ird t', "nothing"), ("t; DROP TABLE t", "x")):
            with pytest.raises(BadSource):
                list(db.rows(table, (column,)))


@pytest.mark.parametrize("page", [0, 2])
def test_a_view_that_says_it_is_a_table_is_none(place: Path, page: int) -> None:
    path = made(place / "a.db", "CREATE TABLE t(x)", "CREATE VIEW v AS SELECT 1 AS x")
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA writable_schema = 1")
        db.execute("UPDATE sqlite_master SET type = 'table', rootpage = ? WHERE name = 'v'", (page,))
    try:
        with opened(path) as found:
            assert found.tables() == {"t"}
    except BadSource as error:  # a recent SQLite does not open it at all
        assert error.reason == "damaged"


def test_more_rows_than_bytes_are_damage(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "ROWS", 10)
    with closing(sqlite3.connect(made(place / "a.db"))) as db, pytest.raises(BadSource):
        list(foreign.Foreign(db, place / "a.db", 100).rows("t", ("id",)))


def test_a_question_that_never_ends_is_ended(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(place / "a.db")
    with opened(path) as found:
        monkeypatch.setattr(found, "_steps", -1)
        found._connection.set_progress_handler(found._step, 10)
        with pytest.raises(BadSource):
            list(found.rows("t", ("id",), order=("x",)))


def test_text_that_is_no_text_can_be_asked_for(place: Path) -> None:
    path = made(place / "a.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, x TEXT)")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("INSERT INTO t(x) VALUES (CAST(x'61ff' AS TEXT)), ('é'), ('1')")
    with opened(path) as found:
        for value in ("a\udcff", "é", "1"):
            assert list(found.rows("t", ("x",), where={"x": value})) == [(value,)]
        for nothing in ("\ud83d", "a", "é\x00"):
            assert list(found.rows("t", ("x",), where={"x": nothing})) == []
        assert list(found.rows("t", ("x",), where={"id": 1 << 70})) == []
        assert list(found.rows("t", ("x",), where={"id": "3"})) == [("1",)]


def test_values_come_as_they_are_stored(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(place / "a.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, x TEXT)")
    with closing(sqlite3.connect(path)) as db, db:
        db.executemany(
            "INSERT INTO t(x) VALUES (?)", [(None,), (b"\x00\xff",), ("",), ("é",), ("x" * 101,), (b"x" * 101,)]
        )
        db.execute("INSERT INTO t(x) VALUES (CAST(x'61ff' AS TEXT))")
    monkeypatch.setattr(foreign, "LONGEST", 100)
    with opened(path) as found:
        values = [row[0] for row in found.rows("t", ("x",), order=("id",))]
    assert values == [None, b"\x00\xff", "", "é", None, None, "a\udcff"]


def test_an_empty_file_is_an_empty_database_and_the_log_beside_it_stays(place: Path) -> None:
    (place / "a.db").write_bytes(b"")
    (place / "a.db-wal").write_bytes(b"somebody's")
    with opened(place / "a.db") as db:
        assert db.tables() == frozenset()
    assert (place / "a.db-wal").read_bytes() == b"somebody's"


def test_what_is_no_database_is_told(place: Path) -> None:
    (place / "text.db").write_text("not a database, but long enough to be looked at as one" * 20)
    (place / "short.db").write_bytes(b"SQLite format 3\x00")
    (place / "dangling").symlink_to(place / "nowhere")
    (place / "loop").symlink_to(place / "loop")
    for name in ("text.db", "short.db", "."):
        with pytest.raises(BadSource), opened(place / name):
            pass
    for name in ("missing.db", "dangling", "loop", "nul\x00.db"):
        with pytest.raises(Unavailable), opened(place / name):
            pass
    if hasattr(os, "mkfifo"):
        os.mkfifo(place / "fifo")
        with pytest.raises(BadSource), opened(place / "fifo"):
            pass


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_is_one_of_two_errors_or_none(place: Path, data: st.DataObject) -> None:
    path = place / "a.db"
    if not (good := place / "good.db").exists():
        made(good)
    content = bytearray(good.read_bytes())
    for _ in range(data.draw(st.integers(1, 20))):
        content[data.draw(st.integers(16, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(100, len(content)))])
    for beside in ("-wal", "-shm", "-journal"):
        if data.draw(st.booleans()):
            (place / f"a.db{beside}").write_bytes(data.draw(st.binary(max_size=100)))
        else:
            (place / f"a.db{beside}").unlink(missing_ok=True)
    before = folder_of(path)
    try:
        with opened(path) as db:
            for table in db.tables():
                list(db.rows(table, db.columns(table)))
    except (BadSource, Unavailable):
        pass
    assert folder_of(path) == before
