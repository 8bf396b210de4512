"""`fork`, `checkout`, `branches`: lines of thought begin anywhere, and each worktree is on its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bede.context import Context
from bede.errors import BedeError, Conflict, NotFound, UsageError
from bede.operations.branches import branches
from bede.operations.checkout import checkout
from bede.operations.fork import fork
from bede.operations.log import log
from bede.operations.store import store
from bede.operations.undo import undo
from bede.records import Draft


@pytest.fixture
def on(context: Context) -> Callable[..., Context]:
    """Return the window of a call on a branch, or from another worktree."""

    def window(branch: str = "", worktree: str = "", **environment: str) -> Context:
        there = Context(
            directory=context.directory,
            branch=branch,
            agent="tester",
            environment=environment,
            clock=context.clock,
            repository=context.repository,
        )
        there._project = replace(context.project, worktree=worktree)
        return there

    return window


def _note(context: Context, text: str) -> str:
    return store(context, summary=text).id


def _table(context: Context) -> dict[str, Any]:
    return {item.name: item for item in branches(context).branches}


def test_a_fork_begins_where_one_is_and_goes_its_own_way(context, on):
    first = _note(context, "before")
    result = fork(context, "idea")
    assert (result.branch, result.head, result.outcome, result.checked_out) == ("idea", first, "created", False)
    there = _note(on("idea"), "only there")
    here = _note(context, "only here")
    table = _table(context)
    assert (table["main"].head, table["idea"].head) == (here, there)
    assert (table["idea"].ahead, table["idea"].behind, table["idea"].events) == (1, 1, 3)
    assert (table["main"].ahead, table["main"].behind, table["main"].current) == (0, 0, True)
    assert table["idea"].summary == "only there"


@pytest.mark.parametrize("name", ["main~1", "ID", "PREFIX", "idea"])
def test_a_fork_begins_at_any_event(context, on, name):
    first, _second = _note(context, "one"), _note(context, "two")
    fork(context, "idea", at="main~1")
    at = {"ID": first, "PREFIX": first[:9]}.get(name, name)
    assert fork(context, "other", at=at).head == first


def test_a_fork_that_is_there_already_is_left_alone(context):
    _note(context, "one")
    head = fork(context, "idea").head
    again = fork(context, "idea")
    assert (again.outcome, again.head) == ("unchanged", head)
    _note(context, "two")
    with pytest.raises(Conflict):
        fork(context, "idea")
    assert _table(context)["idea"].head == head


@pytest.mark.parametrize("name", ["", "a b", "-x", "HEAD", "sessions/x", "dead", "a..b", "x.lock", "a\nb", "\ud800"])
def test_a_name_that_is_none_is_refused(context, name):
    with pytest.raises(UsageError):
        fork(context, name)
    assert set(_table(context)) == {"main"}


@pytest.mark.parametrize("at", ["nowhere", "0" * 12, "main~9"])
def test_a_fork_begins_at_something(context, at):
    with pytest.raises(BedeError) as refused:
        fork(context, "idea", at=at)
    assert isinstance(refused.value, (NotFound, UsageError))
    assert set(_table(context)) == {"main"}


def test_one_goes_on_with_the_branch_that_was_checked_out(context):
    assert checkout(context, "main").outcome == "unchanged"
    fork(context, "idea")
    result = checkout(context, "idea")
    assert (result.branch, result.before, result.outcome, result.overridden_by) == ("idea", "main", "switched", "")
    identity = _note(context, "on the idea")
    assert _table(context)["idea"].head == identity
    assert branches(context).current == "idea"
    assert fork(context, "third", checkout=True).checked_out
    assert branches(context).current == "third"
    with pytest.raises(NotFound):
        checkout(context, "nowhere")
    assert branches(context).current == "third"


def test_each_worktree_has_its_own_branch(context, on):
    fork(context, "idea")
    checkout(on(worktree="w"), "idea")
    assert branches(context).current == "main"
    assert branches(on(worktree="w")).current == "idea"
    _note(on(worktree="w"), "there")
    assert _table(context)["idea"].ahead == 1


def test_argument_goes_before_variable_and_variable_before_worktree(context, on):
    for name in ("one", "two", "three"):
        fork(context, name)
    checkout(context, "one")
    assert branches(on()).current == "one"
    assert branches(on(BEDE_BRANCH="two")).current == "two"
    assert branches(on("three", BEDE_BRANCH="two")).current == "three"
    assert checkout(on(BEDE_BRANCH="two"), "three").overridden_by == "BEDE_BRANCH=two"
    assert checkout(on(BEDE_BRANCH="three"), "three").overridden_by == ""


def test_branches_are_listed_also_from_one_that_is_not_there(context, on):
    """The hint of that error says to list them."""
    fork(context, "idea")
    for window in (on("nowhere"), on(BEDE_BRANCH="nowhere")):
        found = branches(window)
        assert [item.name for item in found.branches] == ["idea", "main"]
        assert not any(item.current for item in found.branches)


def test_a_branch_can_be_deleted_and_brought_back(context, on):
    fork(context, "idea")
    head = _note(on("idea"), "there")
    with pytest.raises(Conflict) as refused:
        fork(context, "idea", delete=True)
    assert refused.value.reason == "unmerged"
    result = fork(context, "idea", delete=True, force=True)
    assert (result.outcome, result.head) == ("deleted", head)
    assert set(_table(context)) == {"main"}
    with pytest.raises(NotFound):
        fork(context, "idea", delete=True)
    undo(context)
    assert _table(context)["idea"].head == head


def test_a_branch_in_use_is_not_deleted(context, on):
    fork(context, "idea")
    fork(context, "other")
    checkout(context, "idea")
    checkout(on(worktree="w"), "other")
    for name in ("main", "idea", "other"):
        with pytest.raises(UsageError):
            fork(context, name, delete=True)
    with pytest.raises(UsageError):
        fork(on("other"), "other", delete=True)
    assert set(_table(context)) == {"main", "idea", "other"}


def test_a_fork_that_is_undone_leaves_nobody_on_it(context):
    fork(context, "idea", checkout=True)
    undo(context)
    assert branches(context).current == "main"
    _note(context, "and on it goes")
    assert set(_table(context)) == {"main"}


def test_every_change_is_in_the_journal_and_verifies(context, on):
    fork(context, "idea", checkout=True)
    checkout(context, "main")
    checkout(on(worktree="w"), "idea")
    fork(context, "other")
    fork(context, "other", delete=True)
    with context.repository.snapshot() as reading:
        verbs = [entry.verb for entry in reading.journal()]
        notes = [entry.note for entry in reading.journal() if entry.verb == "checkout"]
    assert verbs == ["fork", "fork", "checkout", "checkout", "fork", "init"]
    assert notes == [{"worktree": "w", "branch": "idea"}, {"worktree": "", "branch": "main"}]
    assert context.repository.verify().findings == ()


def test_exit_statuses(bede, project):
    assert bede("fork", "idea", cwd=project).json()["outcome"] == "created"
    assert bede("fork", "idea", cwd=project).status == 0
    assert bede("store", "--summary", "x", cwd=project).status == 0
    assert bede("fork", "idea", cwd=project).status == 12
    assert bede("fork", "a b", cwd=project).status == 2
    assert bede("checkout", "nowhere", cwd=project).error()["code"] == "not_found"
    assert bede("checkout", "idea", cwd=project).json()["schema"] == "checkout/1"
    assert bede("branches", cwd=project, env={"BEDE_BRANCH": "nowhere"}).status == 0
    assert bede("status", "--branch", "nowhere", cwd=project).status == 13


@pytest.mark.parametrize("ref", ["coordination", "sessions/codex/s1", "bundles/ada/main"])
def test_a_record_of_what_was_observed_is_read_and_not_written_to(context, ref):
    with context.repository.write("notice", "tester", 5) as writing:
        seen = writing.append(ref, [Draft("notice", {"message": "login changes"}, "tester", 5)])[-1].seq
    there = Context(directory=context.directory, branch=ref, agent="tester", repository=context.repository)
    assert [line.kind for line in log(there).events] == ["notice"]
    for write in (lambda: store(there, summary="on a record"), lambda: checkout(context, ref)):
        with pytest.raises(UsageError, match="record of what was observed"):
            write()
    with context.repository.snapshot() as reading:
        assert (reading.refs()[ref], reading.current("")) == (seen, "main")


def test_what_bundles_brought_is_listed_where_it_is_asked_for(context):
    with context.repository.write("bundle", "tester", 5) as writing:
        writing.append("bundles/ada/main", [Draft("note", {"summary": "from afar"}, "ada", 5)])
        writing.append("coordination", [Draft("notice", {"message": "x"}, "tester", 5)])
    assert [item.name for item in branches(context).branches] == ["main"]
    assert [item.name for item in branches(context, all_=True).branches] == ["main", "bundles/ada/main"]
    assert branches(context, all_=True).branches[1].summary == "from afar"
