"""`log`, `show`, `status`: what happened, one event whole, and where things stand."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

import bede as package
from bede.context import Context
from bede.errors import BedeError, Corrupt, NotFound, UsageError
from bede.operations.context import context as context_
from bede.operations.fork import fork
from bede.operations.log import log
from bede.operations.merge import merge
from bede.operations.purge import purge
from bede.operations.rollback import rollback
from bede.operations.show import show
from bede.operations.status import status
from bede.operations.store import store
from bede.records import Draft

SUMMARY = "is how it stands with this task now, in one statement"


def _status(context: Context, task: str, text: str) -> str:
    said = {"kind": "status_update", "summary": f"{text} {SUMMARY}", "learnings": [f"{text} was seen"]}
    return store(context, task_id=task, **said).id


def _there(context: Context, branch: str) -> Context:
    return Context(
        directory=context.directory, branch=branch, agent="tester", clock=context.clock, repository=context.repository
    )


def test_a_log_is_newest_first_and_told_page_by_page(context, clock):
    ids = []
    for number in range(7):
        clock.tick()
        ids.append(store(context, summary=f"note {number}").id)
    whole = log(context, limit=100)
    assert [line.id for line in whole.events[:-1]] == ids[::-1]
    assert (whole.events[-1].kind, whole.cursor, whole.head) == ("project", "", ids[-1])
    assert whole.events[0].at == "2026-01-02T03:04:12.000000Z"
    found, cursor, pages = [], "", 0
    while pages == 0 or cursor:
        page = log(context, limit=3, cursor=cursor)
        found += page.events
        cursor, pages = page.cursor, pages + 1
    assert (tuple(found), pages) == (whole.events, 3)


def test_pages_do_not_shift_when_something_is_added(context):
    for number in range(6):
        store(context, summary=f"note {number}")
    first = log(context, limit=3)
    store(context, summary="in between")
    second = log(context, limit=3, cursor=first.cursor)
    assert [line.summary for line in second.events] == ["note 2", "note 1", "note 0"]


def test_a_log_looks_from_anywhere_and_for_kinds(context):
    store(context, summary="one")
    fork(context, "idea")
    store(context, summary="two")
    store(_there(context, "idea"), kind="decision", key="k", value="v")
    merge(context, "idea")
    assert [line.summary for line in log(context, at="idea").events][:-1] == ["k = v", "one"]
    assert [line.summary for line in log(context, at="main~1").events][:-1] == ["two", "one"]
    assert [line.kind for line in log(context, kind=["decision", "merge"]).events] == ["merge", "decision"]
    assert log(context, kind=["turn"]).events == ()
    with pytest.raises(NotFound):
        log(context, at="nowhere")


@pytest.mark.parametrize(
    ("kind", "hint"),
    [
        ("nonsense", "one of task_handoff, "),
        ("decison", "did you mean 'decision'? one of "),
        ("constraint", "did you mean 'discovered_constraint'? one of "),
    ],
)
def test_a_kind_that_no_event_has_is_refused(context, kind, hint):
    with pytest.raises(UsageError) as refused:
        log(context, kind=["note", kind])
    assert refused.value.message == f"--kind: no kind {kind!r}"
    assert refused.value.hint.startswith(hint) and "lease_acquired" in refused.value.hint


def test_a_kind_that_a_newer_version_wrote_is_listed(context):
    with context.repository.write("store", "a", context.now()) as writing:
        writing.append("main", [Draft("dream", {"summary": "of sheep"}, "a", context.now())])
    assert [line.kind for line in log(context, kind=["dream"]).events] == ["dream"]


@pytest.mark.parametrize("cursor", ["x", "-1", "²", "1.0", " 1", "9" * 5000])
@pytest.mark.parametrize("operations", [False, True])
def test_a_cursor_that_is_none_is_refused(context, cursor, operations):
    with pytest.raises(UsageError):
        log(context, cursor=cursor, operations=operations)


def test_operations_are_listed_with_what_they_moved(context):
    first = store(context, summary="one").id
    fork(context, "idea", agent_id="ada")
    fork(context, "idea", delete=True)
    page = log(context, operations=True, limit=3)
    assert [(done.verb, done.agent_id) for done in page.operations] == [
        ("fork", "tester"),
        ("fork", "ada"),
        ("store", "tester"),
    ]
    assert [(move.ref, move.old, move.new) for move in page.operations[0].moves] == [("idea", first, "")]
    rest = log(context, operations=True, limit=3, cursor=page.cursor)
    assert [done.verb for done in rest.operations] == ["init"]
    assert rest.cursor == ""
    assert len({done.hash for done in (*page.operations, *rest.operations)}) == 4


def test_one_event_is_shown_whole(context):
    identity = store(context, kind="decision", key="db", value="sqlite", rationale="no server").id
    fork(context, "idea", at="main~1")
    shown = show(context, identity[:7])
    assert (shown.id, shown.kind, shown.status, shown.purged) == (identity, "decision", "active", False)
    assert shown.body["rationale"] == "no server"
    assert shown.branches == ("main",)
    assert len(shown.parents) == 1
    assert show(context, shown.parents[0]).branches == ("idea", "main")
    assert show(context, "main").id == identity
    assert show(context, identity, at="idea").status == "not_visible"


def test_what_became_of_an_event_depends_on_where_one_stands(context):
    first = store(context, kind="decision", key="db", value="sqlite").id
    fork(context, "idea")
    second = store(context, kind="decision", key="db", value="postgres").id
    assert (show(context, first).status, show(context, first).ended_by) == ("superseded", second)
    assert show(context, first, at="idea").status == "active"
    rollback(context, first)
    assert show(context, first).status == "active"
    assert show(context, second).status == "not_visible"


@pytest.mark.parametrize("name", ["nowhere", "", "0" * 64, "zz", "main~99", "\0"])
def test_what_is_not_there_is_not_shown(context, name):
    with pytest.raises(BedeError) as refused:
        show(context, name)
    assert isinstance(refused.value, (NotFound, UsageError))


def test_status_tells_each_tasks_newest(context, clock):
    _status(context, "T-1", "an old one")
    newest = {}
    for task in ("T-1", "T-2", "T-3"):
        clock.tick()
        newest[task] = _status(context, task, f"the newest of {task}")
    found = status(context)
    assert [(item.task_id, item.id) for item in found.tasks] == sorted(newest.items(), reverse=True)
    assert (found.more, found.branch, found.blockers) == (False, "main", ())
    assert found.root == str(context.project.root)
    assert [item.task_id for item in status(context, limit=2).tasks] == ["T-3", "T-2"]
    assert status(context, limit=2).more


def test_status_tells_of_every_task_that_a_context_tells_of(context, clock):
    said = {"summary": f"a hand-off {SUMMARY}", "learnings": ["it was seen"], "handoff_note": "go on with the tests"}
    told = {"T-1": store(context, kind="task", task_id="T-1", summary="Write the docs").id}
    told["T-2"] = store(context, kind="task_handoff", task_id="T-2", **said).id
    store(context, kind="task", task_id="T-2", summary="Write the tests")
    store(context, kind="task", task_id="T-3", summary="Write the code")
    told["T-3"] = _status(context, "T-3", "the newest")
    assert {item.task_id: item.id for item in status(context).tasks} == told
    text = context_(context).text
    tasks = text[text.index("Tasks, newest status") :].partition("\nRecent events")[0]
    assert all(f"{task} [{identity[:8]}]" in tasks for task, identity in told.items())


def test_status_tells_what_fails(context):
    for command, exit_status in (("make a", 1), ("make b", 1), ("make a", 0)):
        store(context, kind="run", command=command, exit_status=exit_status)
    found = status(context)
    assert [item.command for item in found.blockers] == [("make", "b")]
    assert "1 command failing" in found.health
    store(context, kind="run", command="make b", exit_status=0)
    assert "nothing failing" in status(context).health


def test_status_looks_from_anywhere(context):
    _status(context, "T-1", "the first")
    fork(context, "idea")
    _status(context, "T-1", "the second")
    assert [item.summary[:9] for item in status(context, at="idea").tasks] == ["the first"]
    assert status(context, at="idea").branch == "idea"


def test_status_tells_versions_and_counts(context):
    assert status(context).health.startswith("1 event in 1 operation, head ")
    store(context, summary="one")
    found = status(context)
    assert found.health.startswith("2 events in 2 operations, head ")
    assert (found.events, found.operations, found.branches) == (2, 2, 1)
    versions = found.versions
    assert (versions.bede, versions.access, versions.upgrade_hint) == (package.__version__, "full", "")
    assert versions.code_format == versions.file_format == 3


def test_what_was_purged_is_said_to_be(context):
    identity = _status(context, "T-1", "something to go")
    purge(context, [identity], yes=True)
    shown = show(context, identity)
    assert (shown.purged, shown.body, shown.status) == (True, {}, "active")
    assert log(context).events[0].summary == "[purged]"
    assert status(context).tasks == ()


def test_a_time_that_was_tampered_with_is_damage(context):
    store(context, summary="one")
    with closing(sqlite3.connect(context.project.database)) as connection, connection:
        connection.execute(f"UPDATE event SET happened_at = {2**62} WHERE seq = 2")
    for verb in (lambda: log(context), lambda: show(context, "main")):
        with pytest.raises(Corrupt):
            verb()


def test_exit_statuses(bede, project):
    assert bede("log", cwd=project).json()["events"][0]["kind"] == "project"
    assert bede("log", "--cursor", "x", cwd=project).status == 2
    assert bede("log", "--limit", "0", cwd=project).status == 2
    assert bede("log", "--at", "nowhere", cwd=project).status == 13
    assert bede("show", "main", cwd=project).json()["kind"] == "project"
    assert bede("show", "0" * 12, cwd=project).status == 13
    assert bede("status", cwd=project).json()["schema"] == "status/1"


def test_what_no_longer_holds_is_not_recent(context):
    store(context, kind="decision", key="session.store", value="redis", summary="sessions are kept in redis by now")
    note = store(context, summary="a secret that nobody should have written down here")
    store(context, kind="decision", key="session.store", value="postgres", summary="sessions are kept in postgres now")
    store(context, summary="a note that still holds and is recent")
    purge(context, [note.id], yes=True)
    text = context_(context).text
    recent = text[text.index("Recent events") :]
    assert "still holds" in recent
    assert "redis" not in recent
    assert "purged" not in recent
