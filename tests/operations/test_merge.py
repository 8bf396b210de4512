"""`diff` and `merge`: three-way on the keys of decisions and facts, and nothing settled silently."""

from __future__ import annotations

from typing import Any

import pytest

from bede.context import Context
from bede.errors import BedeError, Conflict, NotFound, UsageError
from bede.operations.diff import diff
from bede.operations.fork import fork
from bede.operations.merge import merge
from bede.operations.search import search
from bede.operations.store import store
from bede.operations.undo import undo
from bede.projections.state import state_at


class Two:
    """Two branches of one memory, and the moves on them."""

    def __init__(self, context: Context) -> None:
        self.main = context
        store(context, summary="where both begin")

    def fork(self) -> None:
        """Begin the other branch here."""
        fork(self.main, "idea")
        self.idea = Context(
            directory=self.main.directory,
            branch="idea",
            agent="tester",
            environment={},
            clock=self.main.clock,
            repository=self.main.repository,
        )

    def decide(self, where: Context, key: str, value: str, kind: str = "decision") -> str:
        """Store a decision or fact."""
        return store(where, kind=kind, key=key, value=value).id

    def holds(self, where: Context, kind: str = "decision") -> dict[str, str]:
        """Return what a search finds to hold: exactly one value a key, or the test fails."""
        found: dict[str, str] = {}
        for item in search(where, kind=[kind]).results:
            assert found.setdefault(item.key, item.value) == item.value
        return found

    def folded(self, where: Context, kind: str = "decision") -> dict[str, str]:
        """Return what the folded state says."""
        with where.repository.snapshot() as reading:
            place = where.look(reading)
            table = state_at(reading.connection, place.line, place.position)[f"{kind}s"]
            events = reading.load([entry[0] for entry in table.values()])
            return {key: (events[entry[0]].body or {})["value"] for key, entry in table.items()}


@pytest.fixture
def two(context: Context) -> Two:
    """Two branches that are still one."""
    return Two(context)


def test_nothing_to_bring_in_is_nothing_done(two):
    two.fork()
    assert merge(two.main, "idea").outcome == "unchanged"
    store(two.main, summary="ahead")
    result = merge(two.main, "idea")
    assert (result.outcome, result.events, result.before) == ("unchanged", 0, result.head)


def test_a_branch_that_is_only_behind_goes_forward(two):
    two.fork()
    tip = two.decide(two.idea, "db", "sqlite")
    result = merge(two.main, "idea")
    assert (result.outcome, result.head, result.events) == ("fast-forward", tip, 1)
    assert two.holds(two.main) == {"db": "sqlite"}


@pytest.mark.parametrize("kind", ["decision", "fact"])
def test_what_one_side_changed_is_taken_from_it(two, kind):
    two.decide(two.main, "db", "sqlite", kind)
    two.decide(two.main, "os", "linux", kind)
    two.fork()
    two.decide(two.idea, "db", "postgres", kind)
    two.decide(two.idea, "new", "there", kind)
    two.decide(two.main, "os", "bsd", kind)
    two.decide(two.main, "own", "here", kind)
    result = merge(two.main, "idea")
    assert (result.outcome, result.taken, result.resolved) == ("merged", ("db", "new"), ())
    expected = {"db": "postgres", "os": "bsd", "new": "there", "own": "here"}
    assert two.holds(two.main, kind) == two.folded(two.main, kind) == expected
    assert two.holds(two.idea, kind) == {"db": "postgres", "os": "linux", "new": "there"}


def test_the_same_change_on_both_sides_is_no_conflict(two):
    two.decide(two.main, "db", "sqlite")
    two.fork()
    for side in (two.main, two.idea):
        two.decide(side, "db", "postgres")
    assert merge(two.main, "idea").outcome == "merged"
    assert two.holds(two.main) == two.folded(two.main) == {"db": "postgres"}


@pytest.mark.parametrize("first", ["main", "idea"])
@pytest.mark.parametrize("waverer", ["main", "idea"])
def test_who_went_back_to_where_both_began_changed_nothing(two, first, waverer):
    """One side changed its mind and changed it back; the other's change stands, whoever was later."""
    two.decide(two.main, "db", "old")
    two.fork()
    sides = {"main": two.main, "idea": two.idea}
    changer = "idea" if waverer == "main" else "main"
    for name in (first, "idea" if first == "main" else "main"):
        for value in ("tried", "old") if name == waverer else ("new",):
            two.decide(sides[name], "db", value)
    result = merge(two.main, "idea")
    assert result.taken == (("db",) if changer == "idea" else ())
    assert two.holds(two.main) == two.folded(two.main) == {"db": "new"}


def _conflict(two: Two, first: str = "main") -> dict[str, str]:
    two.decide(two.main, "db", "sqlite")
    two.decide(two.main, "db", "sqlite", "fact")
    two.fork()
    ids = {}
    for name in (first, "idea" if first == "main" else "main"):
        ids[name] = two.decide(two.main if name == "main" else two.idea, "db", f"{name}'s")
    return ids


def test_conflicts_are_listed_and_nothing_is_written(two):
    _conflict(two)
    two.decide(two.main, "x", "1", "fact")
    two.decide(two.idea, "x", "2", "fact")
    before = two.main.repository.verify()
    with pytest.raises(Conflict) as refused:
        merge(two.main, "idea")
    assert refused.value.reason == "merge_conflict"
    assert refused.value.details["conflicts"] == [
        {"kind": "decision", "key": "db", "ours": "main's", "theirs": "idea's"},
        {"kind": "fact", "key": "x", "ours": "1", "theirs": "2"},
    ]
    with pytest.raises(Conflict) as refused:
        merge(two.main, "idea", set_=["x=3"])
    assert [item["key"] for item in refused.value.details["conflicts"]] == ["db"]
    assert two.main.repository.verify() == before


@pytest.mark.parametrize("first", ["main", "idea"])
@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_a_conflict_is_settled_for_one_side(two, first, side):
    ids = _conflict(two, first)
    result = merge(two.main, "idea", ours=side == "ours", theirs=side == "theirs")
    winner, loser = ("main", "idea") if side == "ours" else ("idea", "main")
    assert [(item.key, item.taken, item.value) for item in result.resolved] == [("db", side, f"{winner}'s")]
    assert two.holds(two.main) == two.folded(two.main) == {"db": f"{winner}'s"}
    ended = {item.id: item.status for item in search(two.main, kind=["decision"], status="all").results}
    assert (ended[ids[winner]], ended[ids[loser]]) == ("active", "superseded")
    # Each side of the merge is as it was.
    assert two.holds(two.idea) == {"db": "idea's"}


def test_a_conflict_is_settled_with_a_value_of_its_own(two):
    _conflict(two)
    result = merge(two.main, "idea", set_=["db=a=b"])
    assert [(item.taken, item.value) for item in result.resolved] == [("set", "a=b")]
    assert two.holds(two.main) == two.folded(two.main) == {"db": "a=b"}
    assert two.holds(two.main, "fact") == {"db": "sqlite"}
    with two.main.repository.snapshot() as reading:
        assert reading.tip("main").id == result.head
        # Between the merge and the new value nothing of what was settled holds.
        place = reading.resolve("main~1")
        assert "db" not in state_at(reading.connection, place.line, place.position)["decisions"]


@pytest.mark.parametrize("round_", range(3))
def test_whoever_held_it_several_times_loses_all_of_it(two, round_):
    """Two branches that said the same were merged; what they said is then overruled as one."""
    two.decide(two.main, "db", "sqlite")
    two.fork()
    fork(two.main, "third")
    for side in (two.main, two.idea):
        two.decide(side, "db", "both's")
    merge(two.main, "idea")
    there = Context(
        directory=two.main.directory, branch="third", agent="t", environment={}, repository=two.main.repository
    )
    two.decide(there, "db", "third's")
    options: dict[str, Any] = ({"theirs": True}, {"ours": True}, {"set_": ["db=set"]})[round_]
    merge(two.main, "third", **options)
    expected = {"db": ("third's", "both's", "set")[round_]}
    assert two.holds(two.main) == two.folded(two.main) == expected


@pytest.mark.parametrize("words", [["db"], ["=x"], ["nothing=x"], ["db=x", "nothing=y"]])
def test_what_settles_nothing_is_refused(two, words):
    _conflict(two)
    before = two.main.repository.verify()
    with pytest.raises(UsageError):
        merge(two.main, "idea", set_=words)
    with pytest.raises(UsageError):
        merge(two.main, "idea", ours=True, theirs=True)
    assert two.main.repository.verify() == before


def test_a_dry_run_tells_what_a_merge_would_do_and_does_nothing(two):
    _conflict(two)
    before = two.main.repository.verify()
    told = merge(two.main, "idea", ours=True, dry_run=True)
    with pytest.raises(Conflict):
        merge(two.main, "idea", dry_run=True)
    assert two.main.repository.verify() == before
    done = merge(two.main, "idea", ours=True)
    assert told.resolved == done.resolved
    assert (told.dry_run, done.dry_run) == (True, False)
    assert (told.outcome, told.events, told.taken) == (done.outcome, done.events, done.taken)


def test_a_merge_can_be_undone(two):
    _conflict(two)
    before, state = two.holds(two.main), two.folded(two.main)
    merge(two.main, "idea", theirs=True)
    undo(two.main)
    assert (two.holds(two.main), two.folded(two.main)) == (before, state)
    assert two.main.repository.verify().findings == ()


@pytest.mark.parametrize("source", ["nowhere", "0" * 20, "", "main~99"])
def test_there_must_be_something_to_merge(two, source):
    with pytest.raises(BedeError) as refused:
        merge(two.main, source)
    assert isinstance(refused.value, (NotFound, UsageError))


def test_newest_statuses_and_failures_survive_a_merge_from_either_side(two):
    """What came later holds, whichever branch it came from."""
    two.fork()

    def run(where: Context, exit_status: int) -> None:
        store(where, kind="run", command="make test", exit_status=exit_status)

    def status(where: Context, text: str) -> str:
        learnings = [f"{text} was seen"]
        return store(
            where,
            kind="status_update",
            summary=f"{text} is how it stands with this task",
            learnings=learnings,
            task_id="T",
        ).id

    run(two.idea, 1)
    status(two.idea, "older there")
    run(two.main, 0)
    newest = status(two.main, "newer here")
    merge(two.main, "idea")
    with two.main.repository.snapshot() as reading:
        place = reading.tip("main")
        state = state_at(reading.connection, place.line, place.position)
        assert state["blockers"] == {}
        assert reading.place(state["tasks"]["T"][1]).id == newest
    run(two.idea, 1)
    merge(two.main, "idea")
    with two.main.repository.snapshot() as reading:
        place = reading.tip("main")
        assert list(state_at(reading.connection, place.line, place.position)["blockers"]) == ["make test"]


def test_a_diff_tells_both_sides(two):
    two.decide(two.main, "db", "sqlite")
    two.fork()
    two.decide(two.main, "os", "bsd")
    two.decide(two.idea, "db", "postgres")
    store(two.idea, summary="and a note there")
    result = diff(two.main, "main", "idea")
    assert (result.a.ref, result.a.events, result.b.ref, result.b.events) == ("main", 1, "idea", 2)
    assert [line.summary for line in result.b.newest] == ["and a note there", "db = postgres"]
    told = {item.key: (item.kind, item.base, item.a, item.b, item.conflict) for item in result.differences}
    assert told == {
        "db": ("decision", "sqlite", "sqlite", "postgres", False),
        "os": ("decision", None, "bsd", None, False),
    }
    assert (result.conflicts, result.equal) == (0, False)
    turned = diff(two.main, "idea")
    assert (turned.a.events, turned.b.events, turned.base) == (2, 1, result.base)


def test_a_diff_marks_conflicts(two):
    _conflict(two)
    result = diff(two.main, "main", "idea")
    assert result.conflicts == 1
    assert [item.conflict for item in result.differences] == [True]


def test_a_diff_of_one_and_the_same_is_equal(two):
    result = diff(two.main, "main", "main")
    assert (result.equal, result.differences, result.a.newest) == (True, (), ())


@pytest.mark.parametrize("limit", [0, 1, 3, 100])
def test_a_diff_lists_the_newest_only_but_counts_all(two, limit):
    two.fork()
    for number in range(5):
        store(two.idea, summary=f"note {number}")
    side = diff(two.main, "main", "idea", limit=limit).b
    assert side.events == 5
    assert [line.summary for line in side.newest] == [f"note {number}" for number in (4, 3, 2, 1, 0)[:limit]]


def test_what_shares_nothing_cannot_be_compared(two):
    with two.main.repository.write("ingest", "x", 1) as writing:
        from bede.records import Draft

        writing.append("sessions/x/1", [Draft("turn", {"text": "hi"}, "x", 1)])
    for verb in (diff, merge):
        with pytest.raises(UsageError):
            verb(two.main, "sessions/x/1")


def test_exit_statuses(bede, project):
    for words in (
        ("store", "--kind", "decision", "--key", "k", "--value", "1"),
        ("fork", "idea"),
        ("store", "--kind", "decision", "--key", "k", "--value", "2"),
        ("store", "--kind", "decision", "--key", "k", "--value", "3", "--branch", "idea"),
    ):
        assert bede(*words, cwd=project).status == 0
    refused = bede("merge", "idea", cwd=project)
    assert (refused.status, refused.error()["reason"]) == (12, "merge_conflict")
    assert refused.error()["details"]["conflicts"][0]["theirs"] == "3"
    assert bede("diff", "main", "idea", cwd=project).json()["conflicts"] == 1
    assert bede("merge", "idea", "--set", "nothing=1", "--theirs", cwd=project).status == 2
    assert bede("merge", "idea", "--theirs", cwd=project).json()["outcome"] == "merged"
    assert bede("merge", "nowhere", cwd=project).status == 13
