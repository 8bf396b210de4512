"""`verify`, `anchor`, `purge`, `reindex`: what is kept can be proved, and what is gone is gone."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from contracts.written import place, session, take, whole

from bede.answers.tidings import settle
from bede.context import Context
from bede.errors import BedeError, Conflict, Corrupt, NotFound, Unavailable, UsageError
from bede.leases import claims, intents
from bede.leases.clock import Now
from bede.leases.holding import Holder
from bede.operations.anchor import anchor
from bede.operations.checkout import checkout
from bede.operations.doctor import _LOOKS as LOOKS
from bede.operations.doctor import _derived as derived
from bede.operations.doctor import _guarded, doctor
from bede.operations.doctor import _indexes as indexes
from bede.operations.fork import fork
from bede.operations.purge import purge
from bede.operations.reindex import reindex
from bede.operations.search import search
from bede.operations.show import show
from bede.operations.store import store
from bede.operations.verify import verify
from bede.projections import PROJECTIONS
from bede.repository import Repository


def _change(context: Context, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(context.project.database)) as connection, connection:
        connection.execute(statement, values)


def test_an_honest_memory_verifies(context):
    store(context, summary="one")
    result = verify(context)
    assert (result.ok, result.exits, result.problems, result.anchored) == (True, 0, (), False)
    assert (result.events, result.operations, result.branches, result.purged) == (2, 2, 1, 0)


def test_a_changed_memory_does_not(context):
    store(context, summary="one")
    _change(context, "UPDATE event SET actor = 'eve' WHERE seq = 2")
    result = verify(context)
    assert (result.ok, result.exits) == (False, 1)
    assert ("event", 2) in {(problem.table, problem.row) for problem in result.problems}


def test_text_that_is_no_text_is_a_problem_and_no_failure(context):
    store(context, summary="one")
    _change(context, "UPDATE event SET actor = CAST(x'ff' AS TEXT) WHERE seq = 2")
    assert {(problem.table, problem.row) for problem in verify(context).problems} >= {("event", 2)}
    # Everything else goes on working, or says that the file is damaged.
    with pytest.raises(Corrupt):
        search(context, "one")
    assert verify(context).problems


def test_an_anchor_shows_a_cut_tail(context, project):
    store(context, summary="one")
    kept = project / "kept.json"
    written = anchor(context, write=Path("kept.json"))
    assert json.loads(kept.read_text()) == written.to_json()
    assert (written.operation, written.events) == (2, 2)
    store(context, summary="two")
    assert verify(context, anchor=Path("kept.json")).anchored
    assert verify(context, anchor=kept).ok
    for statement in (
        "DELETE FROM operation WHERE number > 1",
        "DELETE FROM event WHERE seq > 1",
        "DELETE FROM stretch WHERE seq > 1",
        "UPDATE ref SET seq = 1",
    ):
        _change(context, statement)
    assert verify(context).ok
    assert [problem.table for problem in verify(context, anchor=kept).problems] == ["operation"]


def test_an_anchor_is_replaced_whole_and_leaves_nothing_beside(context, project):
    (project / "kept.json").write_text("something longer than any anchor will ever be" * 20)
    anchor(context, write=project / "kept.json")
    assert json.loads((project / "kept.json").read_text())["schema"] == "anchor/1"
    assert sorted(path.name for path in project.iterdir()) == [".bede", "kept.json"]


@pytest.mark.parametrize("path", ["no/such/folder/x", ".", ".bede", "\0"])
def test_an_anchor_that_cannot_be_written_says_so(context, path):
    with pytest.raises(BedeError) as refused:
        anchor(context, write=Path(path))
    assert isinstance(refused.value, (Unavailable, UsageError))
    assert "Errno" not in refused.value.message and str(os.getpid()) not in refused.value.message
    assert [path.name for path in context.directory.iterdir()] == [".bede"]


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "null", "{}", '{"operation": 1}', '{"operation": "x", "hash": "", "project_id": ""}'),
        *("[" * 100_000, '{"operation": 1e999, "hash": "", "project_id": ""}', "\xff"),
    ],
    ids=lambda text: repr(text[:30]),
)
def test_what_is_no_anchor_is_refused(context, project, text):
    (project / "kept.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(BedeError) as refused:
        verify(context, anchor=Path("kept.json"))
    assert isinstance(refused.value, UsageError)
    assert refused.value.message.endswith("kept.json is no anchor: it does not hold what 'bede anchor' writes")
    assert "'bede anchor --write FILE'" in refused.value.hint


def test_another_projects_anchor_is_refused(context, project):
    body = {**anchor(context).to_json(), "project_id": "another"}
    (project / "kept.json").write_text(json.dumps(body))
    with pytest.raises(UsageError):
        verify(context, anchor=Path("kept.json"))
    with pytest.raises(UsageError) as refused:
        verify(context, anchor=Path("missing.json"))
    assert "'bede anchor --write FILE'" in refused.value.hint


def test_what_is_purged_is_gone_and_the_rest_verifies(context):
    gone = store(context, summary="an unfortunate name").id
    kept = store(context, summary="a fortunate name").id
    planned = purge(context, [gone])
    assert (planned.outcome, planned.purged) == ("planned", (gone,))
    assert len(search(context, "unfortunate").results) == 1
    done = purge(context, [gone[:10], gone], yes=True)
    assert (done.outcome, done.purged, done.already) == ("purged", (gone,), ())
    assert purge(context, [gone], yes=True).outcome == "unchanged"
    assert search(context, "unfortunate").results == ()
    assert [item.id for item in search(context, "fortunate").results] == [kept]
    result = verify(context)
    assert (result.ok, result.purged) == (True, 1)
    for path in context.project.folder.iterdir():
        assert b"unfortunate" not in path.read_bytes()


def test_a_purge_that_was_stopped_on_its_way_is_finished_by_the_next(context):
    gone = store(context, summary="an unfortunate name").id
    path = context.project.database
    with closing(Repository.open(path, PROJECTIONS, wait=0.1)) as hasty, closing(sqlite3.connect(path)) as reader:
        there = Context(directory=context.directory, agent="tester", repository=hasty)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM event").fetchone()
        with pytest.raises(Unavailable) as told:
            purge(there, [gone], yes=True)
        assert "once more" in told.value.hint
        assert verify(context).purged == 1
        reader.execute("ROLLBACK")
        assert purge(there, [gone], yes=True).outcome == "unchanged"
    for file in context.project.folder.iterdir():
        assert b"unfortunate" not in file.read_bytes()


def test_a_purged_ending_stays_one_also_after_a_rebuild(context):
    first = store(context, kind="decision", key="db", value="sqlite").id
    second = store(context, kind="decision", key="db", value="postgres").id
    purge(context, [second], yes=True)
    for _ in range(2):
        assert [item.id for item in search(context, kind=["decision"]).results] == [second]
        assert [item.id for item in search(context, kind=["decision"], status="superseded").results] == [first]
        reindex(context)
    third = store(context, kind="decision", key="db", value="third")
    assert third.stored[0].superseded == ()


def test_a_payload_that_is_taken_away_or_put_back_by_hand_is_found(context):
    gone = store(context, summary="one").id
    with closing(sqlite3.connect(context.project.database)) as connection:
        (row,) = connection.execute("SELECT salt, body FROM event WHERE seq = 2").fetchall()
    for half in ("salt", "body", "salt = NULL, body"):
        _change(context, f"UPDATE event SET {half} = NULL WHERE seq = 2")
        assert not verify(context).ok
        _change(context, "UPDATE event SET salt = ?, body = ? WHERE seq = 2", *row)
        assert verify(context).ok
    purge(context, [gone], yes=True)
    _change(context, "UPDATE event SET salt = ?, body = ? WHERE seq = 2", *row)
    assert not verify(context).ok


def test_the_beginning_and_others_work_are_not_purged(context):
    with context.repository.snapshot() as reading:
        first = reading.resolve("main").id
    with pytest.raises(UsageError):
        purge(context, [first], yes=True)
    theirs = store(context, summary="theirs", agent_id="ada").id
    with pytest.raises(Conflict) as refused:
        purge(context, [theirs], yes=True)
    assert refused.value.reason == "others_work"
    with pytest.raises(NotFound):
        purge(context, ["0" * 12], yes=True)
    assert verify(context).purged == 0
    assert purge(context, [theirs], yes=True, include_others=True).outcome == "purged"


def test_everything_derived_is_built_again(context):
    for number in range(3):
        store(context, kind="decision", key="k", value=str(number))
    before = search(context, "k").results
    reindex(context)
    for table in ("memory", "ending", "label", "snapshot", "text_term"):
        _change(context, f"DELETE FROM {table}")
    assert search(context, kind=["decision"]).results == ()
    result = reindex(context)
    assert (result.events, result.projections) == (4, ("memory", "state", "text", "sessions", "notices", "vectors"))
    assert search(context, "k").results == before
    assert verify(context).ok


@pytest.mark.parametrize("name", ["text", "pane"])
def test_an_index_that_does_not_say_what_it_holds_is_damage_that_reindex_mends(home, project, context, name):
    store(context, summary="a walrus on the ice")
    place(home, "ours").write_bytes(session("ours", project, 4))
    take(context)
    _change(context, f"DELETE FROM {name}_state")
    with pytest.raises(Corrupt) as refused:
        search(context, "walrus")
    assert "reindex" in refused.value.hint
    assert {check.name: check for check in doctor(context).checks}["indexes"].outcome == "fail"
    reindex(context)
    assert len(search(context, "walrus").results) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM text_words_data",
        "DELETE FROM text_words_config",
        "DROP TABLE text_words_data",
        "DROP TABLE text_words_config",
        "DROP TABLE text_words_idx",
        "UPDATE text_words_data SET block = x'ff'",
    ],
)
def test_an_index_that_sqlite_itself_cannot_open_is_built_again(context, statement):
    store(context, summary="a walrus on the ice")
    context.repository.close()
    _change(context, statement)
    with closing(Context(directory=context.directory, agent="tester")) as fresh:
        assert reindex(fresh).events == 2
        assert len(search(fresh, "walrus").results) == 1
        assert fresh.repository.integrity() == ["ok"]


@pytest.mark.parametrize("statement", ["DELETE FROM text_words_data", "DELETE FROM text_words_config"])
def test_of_a_damaged_index_it_is_said_that_no_backup_is_needed(context, statement):
    store(context, summary="a walrus on the ice")
    context.repository.close()
    _change(context, statement)
    with closing(Context(directory=context.directory, agent="tester")) as fresh:
        with pytest.raises(Corrupt) as refused:
            search(fresh, "walrus")
        assert "reindex" in refused.value.hint
        assert "backup" not in refused.value.hint
        assert verify(fresh).ok


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM event_key WHERE seq = 2",
        "UPDATE event_key SET prefix = x'0000000000000000' WHERE seq = 2",
        "DELETE FROM indexed",
        "UPDATE indexed SET seq = 9999",
    ],
)
def test_an_event_that_its_id_does_not_find_is_found_by_doctor(context, statement):
    first = store(context, summary="a walrus on the ice").id
    reindex(context)
    _change(context, statement)
    checks = {check.name: check for check in doctor(context).checks}
    assert (checks["indexes"].outcome, checks["history"].outcome) == ("fail", "ok")
    assert "reindex" in checks["indexes"].hint
    reindex(context)
    assert show(context, first[:16]).id == first
    assert {check.name: check for check in doctor(context).checks}["indexes"].outcome == "ok"


@pytest.mark.parametrize("statement", ["DELETE FROM stretch", "UPDATE stretch SET position = position + 1"])
def test_where_lines_go_on_is_laid_again(context, statement):
    ids = [store(context, summary="on the main branch").id]
    fork(context, "side")
    checkout(context, "side")
    ids.append(store(context, summary="beside it, something else").id)
    checkout(context, "main")
    ids.append(store(context, summary="back again with a third thing").id)
    before = [row.id for row in search(context, "main thing else branch", at="main").results]
    _change(context, statement)
    assert not verify(context).ok
    reindex(context)
    assert verify(context).ok
    assert [row.id for row in search(context, "main thing else branch", at="main").results] == before
    assert show(context, "main~1").id == ids[0]


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX's")
def test_a_purge_keeps_the_file_private(context):
    purge(context, [store(context, summary="one").id], yes=True)
    assert {path.stat().st_mode & 0o777 for path in context.project.folder.iterdir()} == {0o600}


def test_exit_statuses(bede, project):
    assert bede("verify", cwd=project).json()["ok"] is True
    written = bede("anchor", "--write", "kept.json", cwd=project)
    assert written.json()["operation"] == 1
    assert bede("verify", "--anchor", "kept.json", cwd=project).status == 0
    assert bede("verify", "--anchor", "missing.json", cwd=project).status == 2
    (project / "kept.json").write_text("{}")
    assert bede("verify", "--anchor", "kept.json", cwd=project).status == 2
    with closing(sqlite3.connect(project / ".bede/bede.db")) as connection, connection:
        connection.execute("UPDATE event SET body = x'7b7d' WHERE seq = 1")
    found = bede("verify", cwd=project)
    assert (found.status, found.json()["ok"], found.err) == (1, False, "")
    assert bede("reindex", cwd=project).json()["events"] == 1


def test_a_purged_turn_is_gone_from_what_the_refused_are_told(context, home, project):
    """What a session was last asked is kept beside its leases, and told to whom it keeps waiting."""
    place(home, "s").write_bytes(session("s", project, word="unfortunate"))
    take(context)
    holder, other = Holder("claude-code", "s"), Holder("codex", "t")

    def refuse(name: str) -> None:
        now = context.moment()
        with context.repository.write("lease", "codex", now.wall) as writing:
            intents.note_prompt(writing.connection, "claude-code", "s", "unfortunate 1 of s, with details", now)
            claims.acquire(writing.connection, holder, [(name, "file")], 10**9, "", now)
            claims.acquire(writing.connection, other, [(name, "file")], 10**9, "", now)
            settle(writing, Now(now.wall, now.ticks + 10**8, now.boot))

    refuse("a.py")
    with context.repository.snapshot() as reading:
        events = list(reading.walk(reading.spans(reading.tip("coordination")), ("lease_contended",)))
        turns = [event.id for event in reading.walk(reading.spans(reading.tip("sessions/claude-code/s")), ("turn",))]
    (told,) = [event.id for event in events]
    done = purge(context, turns, yes=True, include_others=True)
    assert told in done.warning
    assert purge(context, [told], yes=True, include_others=True).warning == ""
    assert b"unfortunate" not in whole(context)
    now = context.moment()
    with context.repository.write("lease", "codex", now.wall) as writing:
        denial = claims.acquire(writing.connection, other, [("a.py", "file")], 10**9, "", now)
    assert [(fact.agent, fact.prompt) for fact in denial.blocked] == [("claude-code", "")]
    assert verify(context).ok


def test_a_refusal_that_is_not_told_yet_forgets_as_well(context, home, project):
    place(home, "s").write_bytes(session("s", project, word="unfortunate"))
    take(context)
    now = context.moment()
    with context.repository.write("lease", "codex", now.wall) as writing:
        intents.note_prompt(writing.connection, "claude-code", "s", "unfortunate 1 of s, with details", now)
        for agent, name in (("claude-code", "s"), ("codex", "t")):
            claims.acquire(writing.connection, Holder(agent, name), [("a.py", "file")], 10**9, "", now)
    with context.repository.snapshot() as reading:
        turns = [event.id for event in reading.walk(reading.spans(reading.tip("sessions/claude-code/s")), ("turn",))]
    assert b"with details" in whole(context)
    purge(context, turns, yes=True, include_others=True)
    assert b"unfortunate" not in whole(context)


#: What each of them is called when it went well; there is one of the agents' for each agent.
NAMES = [look.__name__.strip("_") for look in (*LOOKS, indexes, derived)]


@pytest.mark.parametrize("look", [*LOOKS, indexes, derived], ids=NAMES)
def test_a_check_is_called_the_same_whether_it_can_be_made_or_not(context, monkeypatch, look):
    def broken(_context):
        raise Unavailable("it cannot be looked at", hint="look elsewhere")
        yield

    well = [check.name for check in _guarded(look, context)]
    broken.__name__ = look.__name__
    [ill] = _guarded(broken, context)
    assert (ill.outcome, ill.detail, ill.hint) == ("fail", "it cannot be looked at", "look elsewhere")
    assert set(well) <= {ill.name} or ill.name in ("agents", "history", "hooks")
    assert all(name.startswith("agent ") for name in well if ill.name == "agents")
    assert ill.name == "agents" or ill.name in {check.name for check in doctor(context).checks} | {"hooks"}


def test_who_verifies_is_not_told_to_verify(project, bede):
    store_at = project / ".bede" / "bede.db"
    store_at.write_bytes(b"garbage" * 3000)
    refused = bede("verify", cwd=project)
    assert (refused.status, refused.error()["hint"]) == (20, "restore a backup")
    assert bede("status", cwd=project).error()["hint"] == "run 'bede verify', then restore a backup"
