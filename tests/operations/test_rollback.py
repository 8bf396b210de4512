"""`rollback` and `undo`: back to an earlier event with nothing lost, and back again."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest

from bede.context import Context
from bede.errors import BedeError, Conflict, NotFound, UsageError
from bede.operations.checkout import checkout
from bede.operations.fork import fork
from bede.operations.log import log
from bede.operations.merge import merge
from bede.operations.purge import purge
from bede.operations.rollback import rollback
from bede.operations.search import search
from bede.operations.store import store
from bede.operations.undo import undo
from bede.records import Draft


@pytest.fixture
def told(context: Context) -> Callable[..., list[str]]:
    """Return what the log of a branch says, oldest first, without the beginning."""

    def read(branch: str = "main") -> list[str]:
        return [line.summary for line in reversed(log(context, at=branch, limit=100).events)][1:]

    return read


@pytest.fixture
def three(context: Context) -> list[str]:
    """Three notes by three agents."""
    return [store(context, summary=f"by {agent}", agent_id=agent).id for agent in ("ada", "bob", "tester")]


def _refs(context: Context) -> dict[str, int]:
    with context.repository.snapshot() as reading:
        return reading.refs()


def test_what_goes_is_out_of_sight_and_not_lost(context, three, told):
    result = rollback(context, three[1])
    assert (result.outcome, result.head, result.before, result.events) == ("rolled_back", three[1], three[2], 1)
    assert (result.by_agent, result.others) == ({"tester": 1}, 0)
    assert [line.id for line in result.newest] == [three[2]]
    assert told() == ["by ada", "by bob"]
    assert fork(context, "saved", at=three[2]).head == three[2]
    assert told("saved") == ["by ada", "by bob", "by tester"]
    store(context, summary="and on")
    assert told() == ["by ada", "by bob", "and on"]
    assert context.repository.verify().findings == ()


@pytest.mark.parametrize("name", ["main~2", "ID", "PREFIX"])
def test_an_event_is_named_in_any_way(context, three, told, name):
    named = {"ID": three[0], "PREFIX": three[0][:8]}.get(name, name)
    assert rollback(context, named, include_others=True).head == three[0]
    assert told() == ["by ada"]


def test_others_work_is_not_buried(context, three):
    before = context.repository.verify()
    with pytest.raises(Conflict) as refused:
        rollback(context, three[0])
    assert refused.value.reason == "others_work"
    assert refused.value.details["by_agent"] == {"bob": 1, "tester": 1}
    assert "1 by bob" in refused.value.message
    assert context.repository.verify() == before
    with pytest.raises(Conflict):
        rollback(context, three[1], agent_id="ada")
    assert rollback(context, three[0], include_others=True).events == 2


def test_a_dry_run_shows_whose_work_it_is_and_does_nothing(context, three):
    before = context.repository.verify()
    result = rollback(context, "main~3", dry_run=True)
    assert (result.outcome, result.events, result.others) == ("planned", 3, 2)
    assert result.by_agent == {"ada": 1, "bob": 1, "tester": 1}
    assert [line.summary for line in result.newest] == ["by tester", "by bob", "by ada"]
    assert context.repository.verify() == before


def test_where_one_is_already_nothing_is_done(context, three):
    before = context.repository.verify()
    result = rollback(context, "main")
    assert (result.outcome, result.events, result.newest) == ("unchanged", 0, ())
    assert context.repository.verify() == before


def test_the_branch_must_be_where_it_is_expected(context, three):
    for expected in ("main~1", three[0]):
        with pytest.raises(Conflict):
            rollback(context, three[1], expect=expected)
    with pytest.raises(NotFound):
        rollback(context, three[1], expect="nowhere")
    assert rollback(context, three[1], expect=three[2][:10]).outcome == "rolled_back"


def test_one_goes_back_only_to_what_the_branch_sees(context, three):
    fork(context, "idea", at=three[0])
    there = Context(directory=context.directory, branch="idea", agent="tester", repository=context.repository)
    elsewhere = store(there, summary="elsewhere").id
    with pytest.raises(NotFound) as refused:
        rollback(context, elsewhere)
    assert "fork" in refused.value.hint
    with pytest.raises(NotFound):
        rollback(there, three[2])


@pytest.mark.parametrize("event", ["nowhere", "main~99", "", "0" * 10])
def test_there_must_be_such_an_event(context, three, event):
    with pytest.raises(BedeError) as refused:
        rollback(context, event)
    assert isinstance(refused.value, (NotFound, UsageError))


def test_a_merge_goes_back_to_either_of_its_sides(context, three):
    fork(context, "idea", at=three[0])
    there = Context(directory=context.directory, branch="idea", agent="tester", repository=context.repository)
    elsewhere = store(there, summary="elsewhere").id
    merge(context, "idea")
    result = rollback(context, elsewhere, dry_run=True)
    assert (result.events, result.by_agent) == (3, {"bob": 1, "tester": 2})
    result = rollback(context, three[2])
    assert (result.events, result.by_agent) == (2, {"tester": 2})


def test_what_was_ended_holds_again(context):
    store(context, kind="decision", key="db", value="sqlite")
    store(context, kind="decision", key="db", value="postgres")
    rollback(context, "main~1")
    assert [item.value for item in search(context, kind=["decision"]).results] == ["sqlite"]
    undo(context)
    assert [item.value for item in search(context, kind=["decision"]).results] == ["postgres"]


def test_the_newest_is_undone_and_again_the_one_before(context, three, told):
    for expected in (["by ada", "by bob"], ["by ada"], []):
        result = undo(context, include_others=True)
        assert (result.outcome, result.verb) == ("undone", "store")
        assert told() == expected
    with pytest.raises(NotFound):
        undo(context, include_others=True)
    assert context.repository.verify().findings == ()


def test_an_undo_is_undone_by_its_number(context, three, told):
    undo(context)
    with context.repository.snapshot() as reading:
        number = reading.head()[0]
    assert undo(context, number).verb == "undo"
    assert told() == ["by ada", "by bob", "by tester"]
    # What was undone and redone is the newest again.
    assert undo(context).operation == number - 1
    assert told() == ["by ada", "by bob"]


def test_an_operation_is_undone_only_while_its_branches_stand_there(context, three):
    with context.repository.snapshot() as reading:
        numbers = [entry.number for entry in reading.journal()]
    before = context.repository.verify()
    with pytest.raises(Conflict) as refused:
        undo(context, numbers[1], include_others=True)
    assert "has moved since" in refused.value.message
    assert context.repository.verify() == before


def test_another_branchs_operation_is_undone_on_its_own(context, three, told):
    fork(context, "idea")
    there = Context(directory=context.directory, branch="idea", agent="tester", repository=context.repository)
    store(there, summary="there")
    with context.repository.snapshot() as reading:
        number = reading.head()[0]
    store(context, summary="here")
    undo(context, number)
    assert told("idea") == ["by ada", "by bob", "by tester"]
    assert told() == ["by ada", "by bob", "by tester", "here"]


def test_others_operations_are_not_undone(context, three):
    store(context, summary="theirs", agent_id="bob")
    with pytest.raises(Conflict) as refused:
        undo(context)
    assert refused.value.reason == "others_work"
    assert undo(context, dry_run=True).agent_id == "bob"
    assert undo(context, agent_id="bob").outcome == "undone"


def test_what_an_undo_takes_out_of_sight_and_brings_back_is_told(context, three):
    rollback(context, three[0], include_others=True)
    for dry in (True, False):
        [item] = undo(context, dry_run=dry).restored
        assert (item.gone.events, item.gone.by_agent, item.gone.newest) == (0, {}, ())
        assert (item.back.events, item.back.by_agent) == (2, {"bob": 1, "tester": 1})
        assert [(line.id, line.summary) for line in item.back.newest] == [(three[2], "by tester"), (three[1], "by bob")]
    for dry in (True, False):
        [item] = undo(context, dry_run=dry).restored
        assert (item.gone.events, item.gone.by_agent, item.back.events) == (1, {"tester": 1}, 0)
        [line] = item.gone.newest
        assert (line.id, line.kind, line.summary, line.agent_id) == (three[2], "note", "by tester", "tester")
    fork(context, "aside")
    [item] = undo(context).restored
    assert (item.branch, item.head, item.gone.events, item.back.events) == ("aside", "", 0, 0)


def test_a_long_way_back_is_counted_whole_and_told_in_part(context):
    _given = [{"summary": f"note {number}"} for number in range(30)]
    context.stdin = BytesIO(json.dumps(_given).encode())
    store(context, "-")
    [item] = undo(context).restored
    assert (item.gone.events, item.gone.by_agent, len(item.gone.newest)) == (30, {"tester": 30}, 20)
    assert item.gone.newest[0].summary == "note 29"


def test_a_dry_run_tells_what_would_be_undone(context, three):
    before = context.repository.verify()
    result = undo(context, dry_run=True)
    assert (result.outcome, result.verb) == ("planned", "store")
    assert [(item.branch, item.head, item.before) for item in result.restored] == [("main", three[1], three[2])]
    assert context.repository.verify() == before


def test_what_moved_no_branch_is_passed_over_or_refused(context, three):
    fork(context, "idea")
    checkout(context, "idea")
    purge(context, [three[2]], yes=True)
    assert undo(context).verb == "fork"
    with context.repository.snapshot() as reading:
        numbers = {entry.verb: entry.number for entry in reading.journal()}
    for verb in ("init", "checkout", "purge"):
        with pytest.raises(Conflict):
            undo(context, numbers[verb])
    with pytest.raises(NotFound):
        undo(context, 10**6)


@pytest.mark.parametrize("ref", ["coordination", "sessions/codex/s1", "bundles/ada/main"])
def test_what_was_observed_is_never_taken_back(context, three, told, ref):
    with context.repository.write("notice", "tester", 5) as writing:
        seen = writing.append(ref, [Draft("notice", {"message": "login changes"}, "tester", 5)])[-1].seq
        number = writing.newest.number + 1
    with pytest.raises(Conflict):
        undo(context, number)
    assert undo(context).verb == "store"
    assert (told(), _refs(context)[ref]) == (["by ada", "by bob"], seen)
    assert context.repository.verify().findings == ()


def test_of_an_operation_that_did_both_the_branch_alone_goes_back(context, three, told):
    with context.repository.write("store", "tester", 5) as writing:
        writing.append("main", [Draft("note", {"summary": "on the branch"}, "tester", 5)])
        seen = writing.append("coordination", [Draft("notice", {"message": "told"}, "tester", 5)])[-1].seq
    assert [item.branch for item in undo(context).restored] == ["main"]
    assert (told(), _refs(context)["coordination"]) == (["by ada", "by bob", "by tester"], seen)


@pytest.mark.parametrize("do", ["rollback", "fork", "delete", "merge", "fast-forward"])
def test_every_move_is_undone(context, three, do):
    fork(context, "idea", at=three[1])
    there = Context(directory=context.directory, branch="idea", agent="tester", repository=context.repository)
    store(there, summary="there")
    if do == "fast-forward":
        rollback(context, three[1])
    before = _refs(context)
    moves: dict[str, Callable[[], Any]] = {
        "rollback": lambda: rollback(context, "main~3", include_others=True),
        "fork": lambda: fork(context, "new"),
        "delete": lambda: fork(context, "idea", delete=True, force=True),
        "merge": lambda: merge(context, "idea"),
        "fast-forward": lambda: merge(context, "idea"),
    }
    moves[do]()
    assert _refs(context) != before
    undo(context)
    assert _refs(context) == before
    assert context.repository.verify().findings == ()


def test_exit_statuses(bede, project):
    for agent in ("ada", "bob"):
        assert bede("store", "--summary", f"by {agent}", "--agent-id", agent, cwd=project).status == 0
    assert bede("rollback", "main~1", "--agent-id", "ada", cwd=project).status == 12
    assert bede("rollback", "main~1", "--expect", "main~1", cwd=project).status == 12
    assert bede("rollback", "main~9", cwd=project).status == 13
    assert bede("rollback", "0000000000", cwd=project).status == 13
    assert bede("rollback", "main~1", "--agent-id", "bob", cwd=project).json()["by_agent"] == {"bob": 1}
    assert bede("undo", "--agent-id", "bob", cwd=project).json()["verb"] == "rollback"
    assert bede("undo", "999", cwd=project).status == 13
