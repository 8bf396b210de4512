"""What a Repository and a Projection promise, whatever stands behind them.

A second Repository, on another database, inherits `RepositoryContract` and has to pass it as it is.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from laws.histories import catch_up

from bede.errors import BedeError, Conflict, Internal, NotFound, RepositoryNotFound, TooNew, UsageError
from bede.identity import canonical
from bede.projections import PROJECTIONS
from bede.projections.memory import Filter, newest
from bede.records import Draft, Event
from bede.repository import Projection, Repository, log
from bede.turnstile import held

AT = 1_767_323_045_000_000


def note(text: str, **said: Any) -> Draft:
    """Return a small event to append."""
    return Draft("note", {"summary": text, **said}, "ada", AT)


def memories(store: Repository) -> list[int]:
    """Return every memory that `main` sees, newest first."""
    with store.snapshot() as reading:
        seen = reading.spans(reading.tip("main"))
        return newest(reading.connection, seen, Filter(status="all"), 100)


class RepositoryContract:
    """Reading, writing and refusing."""

    def make(self, folder: Path, projections: Sequence[Projection] = PROJECTIONS) -> Repository:
        """Make a new memory and return it open."""
        raise NotImplementedError

    def again(self, store: Repository, **options: Any) -> Repository:
        """Open the same memory once more."""
        raise NotImplementedError

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Repository]:
        """A new memory."""
        with closing(self.make(tmp_path)) as store:
            yield store

    @pytest.fixture
    def other(self, store: Repository) -> Iterator[Repository]:
        """The same memory, open a second time."""
        with closing(self.again(store)) as other:
            yield other

    def append(self, store: Repository, *texts: str, ref: str = "main") -> list[Event]:
        """Append notes in one operation."""
        with store.write("store", "ada", AT) as writing:
            return writing.append(ref, [note(text) for text in texts])

    def told(self, store: Repository, ref: str = "main") -> list[str]:
        """Return what the notes say that a ref sees, newest first."""
        with store.snapshot() as reading:
            events = reading.walk(reading.spans(reading.tip(ref)), ["note"])
            return [str((event.body or {})["summary"]) for event in events]

    def test_a_new_memory_knows_who_it_is(self, store):
        with store.snapshot() as reading:
            project, counts = reading.project(), reading.counts()
            first = reading.load([1])[1]
        assert counts == {"events": 1, "operations": 1, "refs": 1}
        assert first.kind == "project"
        assert first.body["project_id"] == project["uuid"]
        assert (project["format_version"], project["min_reader_version"], project["min_writer_version"]) == (3, 3, 3)
        assert "secret" not in project
        assert store.verify().findings == ()

    def test_two_memories_are_different(self, tmp_path):
        found = set()
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            with closing(self.make(tmp_path / name)) as store, store.snapshot() as reading:
                found |= {reading.project()["uuid"], reading.tip("main").id}
        assert len(found) == 4

    def test_what_was_appended_is_read_back(self, store, other):
        body = {"summary": "é\0\x1b[31m\u202e資料", "value": [1, 2.5, None, True, {"a": "b"}], "tags": []}
        source = json.dumps({"agent": "x", "record": 1})
        draft = Draft("note", body, "ada", AT, source, b"0123456789abcdef")
        with store.write("store", "ada", AT + 1) as writing:
            (event,) = writing.append("main", [draft])
        with other.snapshot() as reading:
            place = reading.tip("main")
            found = reading.load([place.seq])[place.seq]
            entry = reading.entry(2)
            assert reading.resolve(event.id) == reading.resolve(event.id[:8]) == place
        assert found == event
        assert (found.kind, found.body, found.actor, found.source) == ("note", body, "ada", source)
        assert found.happened_at == AT
        assert found.parents == (1,)
        assert (entry.verb, entry.actor, entry.at, entry.last) == ("store", "ada", AT + 1, event.seq)

    def test_the_same_facts_have_the_same_id(self, store):
        """Two machines that read one record give it one id, since its salt comes from the record."""
        ids = []
        for salt in (b"a" * 16, b"b" * 16, b"a" * 16):
            with pytest.raises(ZeroDivisionError), store.write("store", "ada", AT) as writing:
                ids.append(writing.append("main", [Draft("note", {"x": 1}, "ada", AT, "", salt)])[0].id)
                raise ZeroDivisionError
        assert ids[0] == ids[2] != ids[1]

    def test_several_events_are_one_operation_in_their_order(self, store):
        events = self.append(store, "one", "two", "three")
        assert self.told(store) == ["three", "two", "one"]
        with store.snapshot() as reading:
            head = reading.head()
            entry = reading.entry(head[0])
        assert [event.parents for event in events[1:]] == [(events[0].seq,), (events[1].seq,)]
        assert entry.moves[0].new == events[-1].seq
        assert head == (2, entry.hash)

    def test_nothing_done_is_no_operation(self, store):
        with store.write("store", "ada", AT) as writing:
            writing.move("main", writing.tip("main"))
            assert writing.append("main", []) == []
        with store.write("fork", "ada", AT) as writing:
            writing.move("side", writing.tip("main"))
            writing.move("side", None)
        with store.snapshot() as reading:
            assert reading.counts() == {"events": 1, "operations": 1, "refs": 1}

    def test_a_note_alone_is_an_operation(self, store):
        note_: dict[str, Any] = {}
        with store.write("checkout", "ada", AT, note_) as writing:
            writing.check_out("w", "main")
            note_["branch"] = "main"
        with store.snapshot() as reading:
            assert reading.entry(2).note == {"branch": "main"}
            assert reading.entry(2).moves == ()
        assert store.verify().findings == ()

    def test_a_failure_inside_leaves_no_trace(self, store, other):
        self.append(store, "kept")
        before = store.verify()
        for error in (ValueError, KeyboardInterrupt, Conflict("no")):
            with (
                pytest.raises(error if isinstance(error, type) else type(error)),
                store.write("x", "ada", AT) as writing,
            ):
                writing.append("main", [note("lost")])
                writing.append("side", [note("lost too")])
                writing.move("gone", writing.tip("main"))
                writing.check_out("w", "side")
                raise error
        assert store.verify() == other.verify() == before
        assert self.told(store) == ["kept"]
        self.append(other, "theirs")
        self.append(store, "ours")
        assert self.told(other) == ["ours", "theirs", "kept"]
        with store.snapshot() as reading:
            assert reading.current("w") == "main"

    @pytest.mark.parametrize("body", [{"x": float("nan")}, {"x": "\ud800"}, {"x": b""}], ids=["nan", "half", "bytes"])
    def test_a_body_without_a_form_is_refused_whole(self, store, body):
        with pytest.raises(UsageError), store.write("store", "ada", AT) as writing:
            writing.append("main", [note("first"), Draft("note", body, "ada", AT)])
        assert self.told(store) == []

    @pytest.mark.parametrize(
        "draft",
        [
            Draft("no\nte", {}, "ada", AT),
            Draft("note", {}, "a\nda", AT),
            Draft("note", {}, "ada", AT, "s\n"),
            Draft("note", {}, "ada", AT, "", b"short"),
        ],
        ids=["kind", "actor", "source", "salt"],
    )
    def test_a_field_that_would_make_an_id_ambiguous_is_refused(self, store, draft):
        with pytest.raises(Internal), store.write("store", "ada", AT) as writing:
            writing.append("main", [draft])
        assert store.verify().operations == 1

    @pytest.mark.parametrize(("verb", "actor", "ref"), [("a\nb", "ada", "x"), ("a", "b\nc", "x"), ("a", "b", "x y")])
    def test_a_name_that_would_make_an_operation_ambiguous_is_refused(self, store, verb, actor, ref):
        with pytest.raises(Internal), store.write(verb, actor, AT) as writing:
            writing.move(ref, writing.tip("main"))
        assert store.verify().operations == 1

    def test_a_record_from_outside_is_one_event_however_often_it_comes(self, store, other):
        draft = Draft("turn", {"text": "hi"}, "x", AT, "{}", b"s" * 16)
        for repository in (store, other, store):
            with repository.write("ingest", "x", AT) as writing:
                first = writing.append("main", [draft, draft])
                second = writing.append("side", [draft])
                assert len(first) == (repository is store and writing.counts()["operations"] == 1)
                assert second == []
        with store.snapshot() as reading:
            assert reading.counts() == {"events": 2, "operations": 2, "refs": 1}

    def test_a_snapshot_does_not_change(self, store, other):
        self.append(store, "one")
        with store.snapshot() as reading:
            before = reading.head(), reading.refs(), reading.tip("main")
            self.append(other, "two")
            assert (reading.head(), reading.refs(), reading.tip("main")) == before
            with store.snapshot() as inner:
                assert inner.head() == before[0]
        assert self.told(store) == ["two", "one"]

    def test_a_write_sees_what_it_did(self, store):
        with store.write("store", "ada", AT) as writing:
            (event,) = writing.append("main", [note("mine")])
            assert writing.tip("main").id == event.id
            assert writing.find("main") == writing.tip("main")
            writing.move("side", writing.tip("main"))
            assert writing.refs() == {"main": event.seq, "side": event.seq}
            writing.move("side", None)
            assert writing.find("side") is None
            with pytest.raises(NotFound):
                writing.tip("side")

    def test_writers_by_turns_do_not_disturb_each_other(self, store, other):
        for number in range(6):
            self.append((store, other)[number % 2], f"note {number}", ref=("main", "side")[number % 3 == 0])
        assert len(self.told(store)) + len(self.told(store, "side")) == 6
        assert store.verify().findings == ()

    def test_a_merge_has_two_parents_and_sees_both(self, store):
        self.append(store, "base")
        with store.write("fork", "ada", AT) as writing:
            writing.move("side", writing.tip("main"))
        self.append(store, "left")
        self.append(store, "right", ref="side")
        with store.write("merge", "ada", AT) as writing:
            events = writing.append("main", [note("merged"), note("and on")], merged=writing.tip("side"))
        assert [len(event.parents) for event in events] == [2, 1]
        assert self.told(store) == ["and on", "merged", "right", "left", "base"]
        assert self.told(store, "side") == ["right", "base"]
        assert store.verify().findings == ()

    def test_a_ref_of_its_own_begins_where_nothing_was(self, store):
        self.append(store, "elsewhere", ref="sessions/x/1")
        assert self.told(store, "sessions/x/1") == ["elsewhere"]
        assert self.told(store) == []
        assert store.verify().findings == ()

    def test_refs_move_and_the_journal_knows(self, store):
        events = self.append(store, "one", "two")
        with store.write("rollback", "bob", AT) as writing:
            writing.move("main", writing.place(events[0].seq))
            writing.move("side", writing.place(events[1].seq))
        with store.snapshot() as reading:
            newest = next(reading.journal())
        assert [(move.ref, move.old, move.new) for move in newest.moves] == [("main", 3, 2), ("side", 0, 3)]
        assert (newest.verb, newest.actor) == ("rollback", "bob")

    def test_the_journal_is_contiguous_newest_first(self, store):
        for number in range(4):
            self.append(store, str(number))
        with store.snapshot() as reading:
            entries = list(reading.journal())
            assert [entry.number for entry in entries] == [5, 4, 3, 2, 1]
            assert [reading.entry(entry.number) for entry in entries] == entries
            for number in (0, 6, -1):
                with pytest.raises(NotFound):
                    reading.entry(number)

    def test_names_of_events(self, store):
        events = self.append(store, "one", "two", "three")
        with store.snapshot() as reading:
            assert reading.resolve("main").id == events[2].id
            assert reading.resolve("main~").id == reading.resolve("main~1").id == events[1].id
            assert reading.resolve("main~0").id == events[2].id
            assert reading.resolve(events[1].id.upper()[:12]).id == events[1].id
            assert reading.resolve(f"{events[2].id[:9]}~2").id == events[0].id
            for text in (
                "nothing",
                "0" * 64,
                "",
                "abc",
                "g" * 8,
                events[0].id + "0",
                "~1",
                "Main",
                "\0",
                "main\0",
                "main~99",
                "main~4",
            ):
                with pytest.raises(NotFound):
                    reading.resolve(text)
            for text in ("main~x", "main~-1", "main~1~1", "main~²", f"main~{'9' * 5000}"):
                with pytest.raises(UsageError):
                    reading.resolve(text)

    def test_half_a_character_is_in_no_name(self, store):
        with pytest.raises(UsageError), store.snapshot() as reading:
            reading.resolve("\ud800")
        with pytest.raises(UsageError), store.write("x", "ada", AT) as writing:
            writing.move("a\udcff", writing.tip("main"))
        assert self.told(store) == []

    def test_an_ambiguous_prefix_lists_what_fits(self, store):
        ids: dict[str, str] = {}
        for number in range(2000):
            (event,) = self.append(store, str(number)) if number < 1 else self.append_quick(store, number)
            if (twin := ids.get(event.id[:4])) is not None:
                break
            ids[event.id[:4]] = event.id
        with store.snapshot() as reading, pytest.raises(NotFound) as told:
            reading.resolve(event.id[:4])
        assert twin[:12] in told.value.message
        assert event.id[:12] in told.value.message

    def append_quick(self, store: Repository, number: int) -> list[Event]:
        """Append without waiting for the disk: the test is about names."""
        store.connection.execute("PRAGMA synchronous = OFF")
        return self.append(store, str(number))

    def test_each_worktree_has_its_branch(self, store):
        with store.write("fork", "ada", AT) as writing:
            writing.move("side", writing.tip("main"))
            writing.check_out("w", "side")
            writing.check_out("", "side")
            writing.check_out("", "main")
        with store.snapshot() as reading:
            assert [reading.current(name) for name in ("", "w", "never seen")] == ["main", "side", "main"]
            assert reading.is_checked_out("side")
            assert not reading.is_checked_out("other")

    def test_who_was_on_a_deleted_branch_is_on_main_again(self, store):
        with store.write("fork", "ada", AT) as writing:
            writing.move("side", writing.tip("main"))
            writing.check_out("w", "side")
        with store.write("fork", "ada", AT) as writing:
            writing.move("side", None)
        with store.snapshot() as reading:
            assert reading.current("w") == "main"

    def test_what_is_purged_is_gone_for_good_and_the_history_verifies(self, store, other):
        events = self.append(store, "a secret to go", "and one to stay")
        with store.write("purge", "ada", AT) as writing:
            assert writing.purge([events[0].seq]) == 1
            assert writing.purge([events[0].seq, 10**9]) == 0
        other.close()
        store.wipe()
        with store.snapshot() as reading:
            found = reading.load([event.seq for event in events])
        assert found[events[0].seq].body is None
        assert found[events[1].seq].body == {"summary": "and one to stay"}
        verdict = store.verify()
        assert (verdict.findings, verdict.purged) == ((), 1)
        assert self.bytes_hold(store, b"and one to stay")
        assert not self.bytes_hold(store, b"secret to go")

    def bytes_hold(self, store: Repository, text: bytes) -> bool:
        """Tell whether a text is anywhere in the memory's files."""
        raise NotImplementedError

    def test_a_memory_open_for_reading_reads_and_writes_nothing(self, store):
        self.append(store, "one")
        with closing(self.again(store, read_only=True)) as reader:
            assert self.told(reader) == ["one"]
            assert reader.verify().findings == ()
            with pytest.raises(TooNew):
                self.append(reader, "two")
            self.append(store, "three")
            assert self.told(reader) == ["three", "one"]

    def test_a_payload_that_is_damaged_costs_only_itself(self, store):
        self.append(store, "one", "two", "three")
        for body in (b"{", b"[]", b'{"tags":5}', b"\xff"):
            store.connection.execute("UPDATE event SET body = ? WHERE seq = 3", (body,))
            assert memories(store) == [4, 2]
            assert store.verify().findings
        self.append(store, *(str(number) for number in range(64)))
        store.connection.execute("DELETE FROM event WHERE seq = 999")
        assert memories(store) == [*range(68, 3, -1), 2]

    def test_a_file_that_became_newer_while_it_was_open_is_refused(self, store, other):
        self.append(store, "one")
        other.connection.execute("UPDATE project SET min_writer_version = 99, upgrade_hint = 'get it'")
        with pytest.raises(TooNew, match="writes format 99"):
            self.append(store, "two")
        assert memories(store) == [2]
        other.connection.execute("UPDATE project SET min_reader_version = 99")
        with pytest.raises(TooNew, match="reads format 99"):
            memories(store)

    @pytest.mark.parametrize("table", ["indexed", "ref", "event_key"])
    def test_what_is_filled_by_the_batch_is_laid_anew(self, store, table):
        events = self.append(store, *(str(number) for number in range(100)))
        with store.write("fork", "ada", AT) as writing:
            writing.move("side", writing.resolve("main~3"))
        refs = {"main": 101, "side": 98}
        store.connection.execute(f"DROP TABLE {table}")
        store.reindex()
        with store.snapshot() as reading:
            assert reading.refs() == refs
            assert reading.resolve(events[5].id).seq == events[5].seq
        assert store.verify().findings == ()

    def test_a_number_that_was_set_back_brings_nothing_up_twice(self, store):
        self.append(store, *(str(number) for number in range(70)))
        store.connection.execute("PRAGMA user_version = 2")
        with closing(self.again(store)) as again, again.snapshot() as reading:
            assert reading.refs() == {"main": 71}
            assert again.verify().findings == ()

    def test_opening_again_builds_nothing_again(self, store, monkeypatch):
        self.append(store, "one")
        self.append(store, "two", "three")
        monkeypatch.setattr(Repository, "reindex", lambda _self: pytest.fail("what was followed is built again"))
        self.again(store).close()

    def test_what_others_did_not_follow_is_built_when_it_is_opened(self, store):
        self.append(store, "one")
        with closing(self.again(store, projections=())) as bare:
            self.append(bare, "two")
        self.append(store, "three")
        with closing(self.again(store)) as fresh:
            assert memories(fresh) == [4, 3, 2]

    def test_two_versions_that_write_by_turns_both_find_everything(self, store):
        """Each finds the other's tables, and builds its own before it writes into them."""

        class Newer(type(PROJECTIONS[0])):  # type: ignore[misc]
            version = PROJECTIONS[0].version + 1

        self.append(store, "old one")
        with closing(self.again(store, projections=[Newer(), *PROJECTIONS[1:]])) as newer:
            for repository, count in ((store, 2), (newer, 3), (newer, 4), (store, 5), (newer, 6)):
                self.append(repository, f"number {count}")
                assert memories(repository) == list(range(count + 1, 1, -1))
        assert store.verify().findings == ()

    def test_an_anchor_of_another_memory_does_not_hold(self, store, tmp_path):
        (tmp_path / "b").mkdir()
        with closing(self.make(tmp_path / "b")) as stranger, stranger.snapshot() as reading:
            anchor = reading.head()
        assert store.verify(anchor).findings


class TestSqlite(RepositoryContract):
    """The one file."""

    def make(self, folder, projections=PROJECTIONS):
        return Repository.create(folder / "bede.db", projections, actor="ada", at=AT)

    def again(self, store, projections=PROJECTIONS, **options):
        return Repository.open(store.path, projections, **options)

    def bytes_hold(self, store, text):
        return any(text in path.read_bytes() for path in store.path.parent.glob(f"{store.path.name}*"))

    def test_there_is_one_file_to_make(self, store):
        before = store.path.read_bytes()
        with pytest.raises(Conflict):
            self.make(store.path.parent)
        assert store.path.read_bytes() == before

    @pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX's")
    @pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
    def test_only_the_owner_may_read_it(self, tmp_path, umask):
        old = os.umask(umask)
        try:
            with closing(self.make(tmp_path)) as store:
                self.append(store, "one")
                modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("bede.db*")}
        finally:
            os.umask(old)
        assert modes == dict.fromkeys(("bede.db", "bede.db-wal", "bede.db-shm"), 0o600)

    def test_nothing_else_is_left_behind(self, tmp_path):
        folder = tmp_path / "new"
        folder.mkdir()
        self.make(folder).close()
        assert [path.name for path in folder.iterdir()] == ["bede.db"]

    def test_a_failure_on_the_way_leaves_no_file(self, tmp_path):
        class Broken:
            name, version = "broken", 1

            def create(self, connection):
                raise sqlite3.OperationalError("no")

            drop = follow = forget = lambda *_: None

        folder = tmp_path / "new"
        folder.mkdir()
        with pytest.raises(BedeError):
            self.make(folder, [Broken()])
        assert list(folder.iterdir()) == []

    def test_there_must_be_a_file_to_open(self, tmp_path):
        for path in (tmp_path / "no.db", tmp_path / "no" / "no.db", tmp_path / "file" / "no.db"):
            (tmp_path / "file").write_text("a file, no folder")
            with pytest.raises(RepositoryNotFound):
                Repository.open(path, PROJECTIONS)
            assert not path.exists()

    def test_sqlite_finds_nothing_wrong(self, store):
        self.append(store, "one")
        assert store.integrity() == ["ok"]

    def test_a_reader_does_not_hinder_a_writer_or_the_other_way_round(self, store, other):
        with other.snapshot() as reading:
            before = reading.head()
            self.append(store, "while somebody reads")
            with store.write("store", "ada", AT) as writing:
                writing.append("main", [note("not yet")])
                assert reading.head() == before


class ProjectionContract:
    """A projection follows the log and may be dropped at any moment."""

    projection: Projection

    @pytest.fixture
    def store(self, tmp_path):
        """A memory that only this projection follows, on top of those it reads from."""
        before = PROJECTIONS[: PROJECTIONS.index(self.projection)]
        with closing(Repository.create(tmp_path / "bede.db", [*before, self.projection], actor="a", at=AT)) as store:
            store.connection.execute("PRAGMA synchronous = OFF")
            yield store

    def fill(self, store, count=200, batch=1):
        """Append events of many sorts."""
        for start in range(0, count, batch):
            with store.write("store", "ada", AT) as writing:
                writing.append("main", [self.draft(number) for number in range(start, start + batch)])

    def draft(self, number):
        """Return the event of a number."""
        kind = ("note", "decision", "run", "status_update", "discovered_constraint", "turn")[number % 6]
        body = {"summary": f"word{number} is said here", "task_id": f"T-{number % 5}", "tags": [f"tag{number % 3}"]}
        extra = {
            "decision": {"key": f"k{number % 4}", "value": number % 7},
            "run": {"command": ["x"], "exit_status": 1},
        }
        return Draft(kind, {**body, **extra.get(kind, {})}, "ada", AT + number, "", number.to_bytes(16, "big"))

    def tables(self, store):
        """Return every row of every table that belongs to no one else."""
        run = store.connection.execute
        names = [
            row[0] for row in run("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 ORDER BY 1")
        ]
        canonical = {"project", "event", "event_key", "indexed", "line", "stretch"}
        canonical |= {"ref", "operation", "worktree", "cursor", "projection"}
        names = [name for name in names if not name.startswith("lease")]
        return {name: run(f'SELECT * FROM "{name}"').fetchall() for name in names if name not in canonical}

    def test_it_is_followed_event_by_event_as_it_is_built_at_once(self, store):
        self.fill(store)
        followed = self.meaning(store)
        assert store.reindex() == 201
        assert self.meaning(store) == followed

    def test_batches_do_not_matter(self, store, tmp_path):
        self.fill(store, batch=1)
        one = self.meaning(store)
        (tmp_path / "b").mkdir()
        before = PROJECTIONS[: PROJECTIONS.index(self.projection)]
        other = Repository.create(tmp_path / "b" / "bede.db", [*before, self.projection], actor="a", at=AT)
        with closing(other):
            self.fill(other, batch=50)
            assert self.meaning(other) == one

    def lay(self, store):
        """Lay tables that do not come with the rest."""

    def test_dropping_leaves_nothing_and_may_be_done_twice(self, store):
        self.lay(store)
        with_it = self.tables(store).keys()
        before = PROJECTIONS[: PROJECTIONS.index(self.projection)]
        with store.write("x", "a", AT):
            self.projection.drop(store.connection)
            self.projection.drop(store.connection)
            assert self.tables(store).keys() < with_it
            for item in before:
                item.drop(store.connection)
            assert not self.tables(store)
            for item in (*before, self.projection):
                item.create(store.connection)
            self.lay(store)
        assert self.tables(store).keys() == with_it

    def test_what_is_left_of_it_by_another_version_is_built_again(self, store):
        self.fill(store, 30)
        meaning = self.meaning(store)
        for harm in (
            "DELETE FROM projection",
            "UPDATE projection SET version = version + 1",
        ):
            store.connection.execute(harm)
            for table in ("memory", "label", "snapshot", "text_term", "text_words", "turn", "pane", "pane_words"):
                store.connection.execute(f"DROP TABLE IF EXISTS {table}")
            projections = [*PROJECTIONS[: PROJECTIONS.index(self.projection)], self.projection]
            with closing(Repository.open(store.path, projections)) as fresh:
                assert self.meaning(fresh) == meaning

    def test_what_it_is_told_to_forget_it_forgets(self, store):
        self.fill(store)
        with store.snapshot() as reading:
            gone = [seq for seq, event in reading.load(range(2, 201)).items() if "word77 " in event.body["summary"]]
        assert len(gone) == 1
        with store.write("purge", "ada", AT) as writing:
            writing.purge(gone)
        store.wipe()
        assert b"word77" not in store.path.read_bytes()
        meaning = self.meaning(store)
        store.reindex()
        assert self.meaning(store) == {**meaning, **self.rebuilt(store)}

    def meaning(self, store) -> dict[str, Any]:
        """Return what the tables say, without what depends on how they were filled."""
        catch_up(store)
        return {name: sorted(map(repr, rows)) for name, rows in self.tables(store).items()}

    def rebuilt(self, store) -> dict[str, Any]:
        """Return what building again may add to what following had dropped."""
        return {}


class TestMemory(ProjectionContract):
    """The projection of memories."""

    projection = PROJECTIONS[0]


class TestSnapshots(ProjectionContract):
    """The projection of cached states."""

    projection = PROJECTIONS[1]

    def meaning(self, store):
        """Return the states at some places; which of them are cached depends on batches."""
        from bede.projections.state import state_at

        store.ripen()
        places = store.connection.execute("SELECT line, position FROM event WHERE seq % 9 = 0").fetchall()
        return {place: state_at(store.connection, *place) for place in places}

    def test_states_are_cached(self, store):
        self.fill(store, 300)
        catch_up(store)
        store.ripen()
        assert self.tables(store)["snapshot"][0][:2] == (1, 128)


class TestText(ProjectionContract):
    """The text index, by what it finds."""

    projection = PROJECTIONS[2]

    def meaning(self, store):
        from bede.answers.ranking import find
        with store.snapshot() as reading:
            seen = reading.spans(reading.tip("main"))
            words = ("word7", "word77", "said here", "tag1", "T-3", "k2", "nowhere", "ord12")
            return {word: sorted(find(reading, seen, word, Filter(status="all"), 300, AT)) for word in words}


    def waiting(self, store):
        from bede.projections import text

        with store.snapshot() as reading:
            return store.connection.execute("SELECT max(seq) FROM event").fetchone()[0] - text.upto(reading.connection)

    def test_texts_that_another_makes_ready_are_left_to_it(self, store):
        with held(store.path.with_name("ripening.lock")) as is_mine:
            assert is_mine
            self.fill(store)
            assert self.waiting(store) == 201
            assert all(self.meaning(store)[word] for word in ("word7", "said here", "tag1"))
        self.fill(store, 64)
        assert self.waiting(store) < 64

    def test_a_text_that_is_purged_while_it_waits_never_comes_in(self, store):
        self.fill(store, 130)
        assert 0 < self.waiting(store) < 64
        with store.write("purge", "ada", AT) as writing:
            assert writing.purge([2, 130]) == 2
        self.fill(store, 64)
        assert self.waiting(store) < 64
        run = store.connection.execute
        assert run("SELECT rows FROM text_state").fetchone() == run(
            "SELECT count(*) FROM event WHERE kind IN ('note', 'decision', 'run', 'status_update',"
            " 'discovered_constraint') AND body IS NOT NULL AND seq <= (SELECT upto FROM text_state)"
        ).fetchone()
        run("INSERT INTO text_words (text_words) VALUES ('integrity-check')")

    def test_who_hangs_over_a_batch_does_not_stop_the_others_for_ever(self, store, monkeypatch):
        monkeypatch.setattr("bede.repository.OVERDUE", 100)
        with held(store.path.with_name("ripening.lock")):
            self.fill(store)
        assert self.waiting(store) < 100

    def test_texts_are_taken_in_on_a_disk_without_locks(self, store):
        store.path.with_name("ripening.lock").mkdir()
        self.fill(store)
        assert self.waiting(store) < 64

    def test_what_is_purged_between_making_ready_and_taking_in_stays_away(self, store, monkeypatch):
        secret = "xyzzyplugh"
        with held(store.path.with_name("ripening.lock")), store.write("store", "ada", AT) as writing:
            bodies = [{"summary": secret, "key": f"{secret}{number}", "value": number} for number in range(200)]
            drafts = [Draft("decision", body, "ada", AT) for body in bodies]
            seqs = [event.seq for event in writing.append("main", drafts)]
        gather = store._gather

        def purge(seqs):
            opened = Repository.open(store.path, store._projections)
            with closing(opened) as other, other.write("purge", "ada", AT) as writing:
                assert writing.purge(seqs) == 200

        def interrupted():
            made = gather()
            if seqs:
                purge(seqs)
                seqs.clear()
            return made

        monkeypatch.setattr(store, "_gather", interrupted)
        store.ripen()
        assert not seqs
        run = store.connection.execute
        for (table,) in run("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0").fetchall():
            cells = [cell for row in run(f'SELECT * FROM "{table}"') for cell in row]
            plain = [cell if isinstance(cell, bytes) else str(cell).encode() for cell in cells]
            assert not [cell for cell in plain if secret.encode() in cell]
        assert self.waiting(store) < 64

    def test_a_writer_takes_in_one_batch_and_goes_on(self, store, monkeypatch):
        """However much waits: else one of many that write would do nothing else."""
        from bede.projections import text

        with held(store.path.with_name("ripening.lock")):
            self.fill(store, 192)
        monkeypatch.setattr(text, "CHUNK", 70)
        before = self.waiting(store)
        self.fill(store, 64)
        assert self.waiting(store) == before + 64 - 70
        store.ripen()
        assert self.waiting(store) < 64


class TestSessions(ProjectionContract):
    """The projection of sessions; which turns wait for their windows depends on how they came."""

    projection = PROJECTIONS[3]

    def draft(self, number):
        body = {"session": f"s{number % 3}", "summary": f"word{number} ", "by": "human", "at": AT + number}
        if number % 50 == 49:
            body |= {"keys": [f"k{number - 3}"], "whole": False}
            return Draft("rewind", body, "codex", AT, "", number.to_bytes(16, "big"))
        if number % 20 == 19:
            body |= {"cwd": f"/src/{number}", "title": f"title{number}"}
            return Draft("session", body, "codex", AT, "", number.to_bytes(16, "big"))
        key = number - 6 if number % 7 == 6 and number > 6 else number
        call = {"call": "c", "tool": "Edit", "target": "a", "edits": [{"path": f"file{number}.py"}]}
        parts = [{"text": f"word{number} is said here " * (number % 13)}, call]
        body |= {"key": f"k{key}", "parts": parts}
        return Draft("turn", body, "codex", AT + number, "", number.to_bytes(16, "big"))

    def meaning(self, store):
        from bede.projections import sessions

        files = store.connection.execute("SELECT path, turn FROM touched ORDER BY path, turn").fetchall()
        with store.snapshot() as reading:
            return {"sessions": sessions.digest(reading.connection), "files": files}


class TestNotices(ProjectionContract):
    """The projection of notices and of their exchange."""

    projection = PROJECTIONS[4]

    def lay(self, store):
        from bede.projections.notices import Notices

        Notices().follow(store.connection, ())

    def draft(self, number):
        from bede.projections.notices import Notice, body_of

        name = f"00000000-0000-4000-8000-{number % 60:012d}"
        at, words = AT + number % 60, f"word{number} is said here"
        kind, body = "notice", body_of(Notice(name, "ada", f"service:s{number % 4}", words, at, at + 3_600_000_000))
        if number % 5 == 4:
            kind, body = "notice_cleared", {"notice_id": name, "cleared_at": body["expires_at"]}
        return Draft(kind, {**body, "summary": words}, "ada", AT + number, "", number.to_bytes(16, "big"))

    def meaning(self, store):
        own = ("notice", "notice_clearing", "exchange_step")
        return {name: rows for name, rows in super().meaning(store).items() if name in own}

    def test_rows_come_of_it(self, store):
        self.fill(store)
        assert {name: len(rows) for name, rows in self.tables(store).items() if name.startswith("notice")} == {
            "notice": 160,
            "notice_clearing": 40,
        }


class TestVectors(ProjectionContract):
    """The projection of vectors, with those of an engine that makes them of a text's letters."""

    projection = PROJECTIONS[5]

    def lay(self, store):
        from bede.projections import vectors

        vectors.lay(store.connection)

    @pytest.fixture(autouse=True)
    def no_waiting(self, monkeypatch):
        """Which turns wait for windows depends on how they came; here none does."""
        from bede.projections import panes

        monkeypatch.setattr(panes, "BATCH", 1)

    def draft(self, number):
        body = {"session": f"s{number % 3}", "key": f"k{number}", "by": "human", "at": AT + number}
        body |= {"summary": f"word{number} ", "parts": [{"text": f"word{number} is said here " * (number % 13)}]}
        return Draft("turn", body, "codex", AT + number, "", number.to_bytes(16, "big"))

    def meaning(self, store):
        """Return every window's vector, those that are missing being made."""
        np = pytest.importorskip("numpy", reason="needs numpy: the extra 'vectors' brings it")
        from bede.projections import panes, vectors

        store.ripen()
        with store.write("ingest", "a", AT) as writing:
            run = writing.connection
            vectors.lay(run)
            seen, lacking = vectors.missing(run, "letters@1", 26)
            texts = panes.read(run, lacking)
            rows = [[float(texts[pane].count(chr(97 + at))) for at in range(26)] for pane in lacking]
            vectors.put(run, "letters@1", seen, lacking, np.array(rows, np.float32).reshape(-1, 26))
            blocks = {block: data[1024:] for block, data in run.execute("SELECT block, data FROM vector")}
            said = panes.read(run, sorted(vectors._present(run, 1)))
            spots = {pane: (pane // 256, pane % 256 * 26) for pane in said}
            return {said[pane]: blocks[block][at : at + 26] for pane, (block, at) in spots.items()}

    def test_vectors_come_of_it(self, store):
        self.fill(store)
        assert len(self.meaning(store)) > 10
        assert self.tables(store)["vector"]


def test_every_projection_keeps_the_contract():
    kept = {cls.projection.name for cls in ProjectionContract.__subclasses__()}
    assert kept == {projection.name for projection in PROJECTIONS}


def test_a_payload_that_is_longer_than_what_is_unpacked_can_be_read(monkeypatch):
    monkeypatch.setattr(log, "LARGEST", 5000)
    for size in (100, 4980, 5000, 6000, 100_000):
        body = {"text": "a" * size}
        assert log.body(log.pack(canonical(body))) == body
