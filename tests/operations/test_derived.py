"""What is derived held against the log, and what is said of rows that were changed by hand."""

from __future__ import annotations

import sqlite3
from contextlib import closing, nullcontext, suppress

import pytest
from contracts.written import place, session, take

from bede.context import Context
from bede.errors import Corrupt
from bede.operations.context import context as context_of
from bede.operations.doctor import doctor
from bede.operations.fork import fork
from bede.operations.log import log
from bede.operations.merge import merge
from bede.operations.notice import notice
from bede.operations.purge import purge
from bede.operations.reindex import reindex
from bede.operations.search import search
from bede.operations.store import store
from bede.operations.verify import verify
from bede.projections.aside import differences

# What is derived, against the log


@pytest.fixture
def many(home, project, clock):
    """A project in which every derived table has rows; batches were taken in, and a few memories wait."""
    with closing(Context(directory=project, agent="tester", clock=clock)) as context:
        for number in range(90):
            clock.tick()
            tags, labels = ["odd" if number % 2 else "even"], [f"n:{number % 3}"]
            store(context, summary=f"walrus number {number} on the ice", tags=tags, labels=labels, learnings=["cold"])
            if number % 9 == 0:
                store(context, kind="decision", key=f"k{number % 4}", value=f"v{number}", rationale="so it is")
            if number == 40:
                fork(context, "side")
        with closing(Context(directory=project, agent="tester", branch="side", clock=clock)) as side:
            store(side, summary="beside it, something else")
        merge(context, "side")
        purge(context, [store(context, summary="said too much").id], yes=True)
        for name in ("s1", "s2"):
            place(home, name).write_bytes(session(name, project, 80, word="gadget"))
        take(context)
        notice(context, "post", resource="service:auth", message="the service is down today")
        for number in range(70):
            store(context, summary=f"seal number {number} on the ice", tags=["seal"])
        yield context


#: What differs by when a batch was taken in, serves estimates alone, or takes the cutting of windows to tell.
_FREE = {
    "turn": {"start", "tokens", "waits"},
    "text_state": {"oldest", "newest"},
    "pane": {"begin", "end", "tokens"},
    "pane_state": {"chars", "oldest", "newest", "upto"},
    "pane_words_docsize": {"sz"},
}
_DERIVED = (
    *("memory", "ending", "label", "snapshot", "session", "turn", "notice"),
    *("text_state", "text_words_docsize", "pane", "pane_state", "pane_words_docsize"),
)


def test_what_is_derived_is_what_the_log_says(many):
    connection = many.repository.connection
    assert list(differences(connection)) == []
    assert all(connection.execute(f"SELECT 1 FROM {table}").fetchone() for table in _DERIVED)
    reindex(many)
    assert list(differences(connection)) == []


def test_each_value_of_what_is_derived_counts(many):
    missed, tried = [], 0
    connection = many.repository.connection
    for table in _DERIVED:
        columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
        chosen = connection.execute(f"SELECT {columns[0][1]} FROM {table} ORDER BY 1 LIMIT 1 OFFSET 1").fetchone()
        chosen = chosen or connection.execute(f"SELECT {columns[0][1]} FROM {table}").fetchone()
        other = {"INTEGER": "coalesce({0}, 0) + 1000000", "TEXT": "{0} || 'x'", "BLOB": "x'0011'"}
        changes = [
            f"UPDATE OR IGNORE {table} SET {name} = {other.get(kind, other['INTEGER']).format(name)}"
            for _, name, kind, *_ in columns
            if name not in _FREE.get(table, ())
        ]
        gone = [f"DELETE FROM {table}"] if table != "snapshot" else []  # Fewer cached states are no other answer.
        for change in (*changes, *gone):
            done = _spoilt(many, f"{change} WHERE {columns[0][1]} = ?", chosen[0])
            tried += bool(done)
            missed += [] if done != "unseen" else [change]
    assert not missed
    assert tried > 50


def _spoilt(context: Context, statement: str, *values: object) -> str:
    """Change something, look, and take the change back; tell whether it was seen."""
    connection = context.repository.connection
    kept = context.project.database.with_name("kept.db")
    with closing(sqlite3.connect(kept)) as copy:
        connection.backup(copy)
        changed = connection.execute(statement, values).rowcount
        try:
            found = bool(changed) and any(differences(connection))
        except Corrupt as error:
            found = "reindex" in error.hint
        copy.backup(connection)
    return "" if not changed else "seen" if found else "unseen"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE projection SET seq = 9999 WHERE name = 'memory'",
        "UPDATE projection SET seq = (SELECT max(seq) FROM event) WHERE name = 'memory'",
        "UPDATE text_state SET upto = 9999",
        "INSERT INTO memory SELECT 9999, kind, task, key, outcome, ends FROM memory LIMIT 1",
        "DELETE FROM memory WHERE seq = (SELECT max(seq) FROM memory)",
        "DELETE FROM ending",
        "DELETE FROM label",
        "DROP TABLE notice",
        "UPDATE pane SET session = session + 5 WHERE id = 1",
    ],
)
def test_doctor_says_that_what_is_derived_strayed_and_reindex_mends_it(many, statement):
    def answers() -> list[object]:
        listed = [search(many, kind=["note", "decision"], top_k=100, status=status) for status in ("active", "all")]
        return [*(item.results for item in listed), notice(many, "list").notices, context_of(many).text]

    before = answers()
    many.repository.connection.execute(statement)
    checks = {check.name: check for check in doctor(many).checks}
    assert "bede reindex" in checks.get("derived", checks["history"]).hint
    reindex(many)
    assert answers() == before
    assert {check.name: check for check in doctor(many).checks}["derived"].outcome == "ok"


@pytest.mark.parametrize("far", [9999, -1])
def test_verify_sees_a_projection_that_says_it_is_further_than_the_log(many, far):
    many.repository.connection.execute("UPDATE projection SET seq = ? WHERE name = 'memory'", (far,))
    result = verify(many)
    assert (result.ok, result.hint) == (False, "run 'bede reindex'")
    assert [(problem.table, problem.row) for problem in result.problems] == [("projection", far)]
    assert "memory says" in result.problems[0].problem
    reindex(many)
    assert verify(many).ok


# What is said of a row that was changed by hand

_BACKUP = "restore a backup from before, and verify that"


@pytest.mark.parametrize(
    ("statement", "told", "hint"),
    [
        ("DELETE FROM event WHERE seq = (SELECT max(seq) FROM event)", "which is not there", _BACKUP),
        ("DELETE FROM event WHERE seq = 5", "missing", _BACKUP),
        ("UPDATE operation SET moves = 'junk\n' WHERE number = 9", "none that are ever written", _BACKUP),
        ("UPDATE operation SET moves = 'main 7 -3\n' WHERE number = 9", "which is not there", _BACKUP),
        ("DELETE FROM operation WHERE number = 9", "gap", _BACKUP),
        ("UPDATE line SET at = 3 WHERE line = 2", "its first event", _BACKUP),
        ("DELETE FROM stretch WHERE seq = 1", "events of its line", "run 'bede reindex'"),
        ("UPDATE ref SET seq = 3 WHERE name = 'side'", "where the journal left it", "run 'bede reindex'"),
    ],
)
def test_a_changed_row_is_told_in_words_and_what_is_advised_helps(many, statement, told, hint):
    many.repository.connection.execute(statement)
    result = verify(many)
    assert any(told in problem.problem for problem in result.problems)
    assert result.hint == hint
    assert not any(word in str(result.problems) for word in ("index out of range", "unpack", "NoneType", "zip()"))
    with closing(Context(directory=many.directory, agent="tester")) as fresh:
        with nullcontext() if "reindex" in hint else suppress(Corrupt):
            reindex(fresh)
        assert verify(fresh).ok == ("reindex" in hint)


@pytest.mark.parametrize(
    ("statement", "hint"),
    [
        ("DELETE FROM stretch WHERE seq = 1", "run 'bede reindex'"),
        ("UPDATE ending SET how = 'x'", "run 'bede reindex'"),
        ("UPDATE line SET parent = 0 WHERE line = 3", "run 'bede verify', then restore a backup"),
        ("DROP TABLE event", "restore a backup"),
        ("DROP TABLE memory", "run 'bede reindex', then 'bede verify'"),
    ],
)
def test_a_verb_that_meets_such_a_row_says_what_mends_it(many, statement, hint):
    many.repository.connection.execute(statement)
    with pytest.raises(Corrupt) as refused:
        log(many, limit=200)
        search(many, kind=["decision"])
    assert refused.value.hint == hint
    if "reindex" in hint:
        with closing(Context(directory=many.directory, agent="tester")) as fresh:
            reindex(fresh)
            assert search(fresh, kind=["decision"]).results


def test_what_leads_to_other_events_is_no_answer(many):
    before = log(many, limit=500).events
    many.repository.connection.execute("DELETE FROM stretch WHERE seq = (SELECT max(seq) FROM stretch)")
    with pytest.raises(Corrupt, match="does not lead to its events"):
        log(many, limit=500)
    assert verify(many).hint == "run 'bede reindex'"
    reindex(many)
    assert log(many, limit=500).events == before
