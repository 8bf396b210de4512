"""Laws of state: what holds is what the visible events say, however it was cached, forked, merged or rebuilt."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws.histories import AGENTS, AT, canonical_rows, catch_up, derived, opened, parents, steps
from laws.team import BRANCHING, LINEAR, Team, Truth, readings, said

from bede.answers.views import memories
from bede.operations.search import search
from bede.projections import state as folding
from bede.projections.memory import Filter, admit, endings, holders, newest
from bede.projections.rows import KINDS
from bede.projections.state import State, state_at
from bede.records import Draft, Event, Spans
from bede.repository import Reading, Repository


@pytest.fixture(autouse=True, scope="module")
def near_caches():
    """Cache states every few events, so that short histories go through many of them."""
    patch = pytest.MonkeyPatch()
    patch.setattr(folding, "SPACING", 3)
    yield
    patch.undo()


def _state(reading: Reading, seq: int) -> State:
    place = reading.place(seq)
    return state_at(reading.connection, place.line, place.position)


def _check_state(state: State, truth: Truth) -> None:
    """Hold a folded state against what the bodies say."""
    for kind, table in (("decision", "decisions"), ("fact", "facts")):
        holding: dict[str, set[int]] = {}
        for event in truth.of(kind):
            holding.setdefault(said(event)["key"], set()).add(event.seq)
        assert state[table].keys() == holding.keys()
        for key, (seq, _outcome) in state[table].items():
            assert seq in holding[key]
            # Whatever was merged, one key never says two things.
            assert len({said(truth.active[item])["value"] for item in holding[key]}) == 1
    assert sorted(map(int, state["constraints"])) == [event.seq for event in truth.of("discovered_constraint")]
    _check_tasks(state, truth)
    _check_runs(state, truth)
    assert sum(state["agents"].values()) == len(truth.visible)
    for agent, count in state["agents"].items():
        assert count == sum(event.actor == agent for event in truth.visible)


def _check_tasks(state: State, truth: Truth) -> None:
    for spot, kind in enumerate(("task", "status_update", "task_handoff")):
        found = {task: entry[spot] for task, entry in state["tasks"].items() if entry[spot]}
        assert found == truth.newest(kind, "task_id")
    assert state["fleet"] == truth.newest("fleet_member", "task_id")


def _check_runs(state: State, truth: Truth) -> None:
    runs = truth.runs()
    expected = {
        command: [len(done), sum(status != 0 for _, status in done), done[-1][0]] for command, done in runs.items()
    }
    assert state["runs"] == expected
    failing = {command: done[-1][0] for command, done in runs.items() if done[-1][1]}
    assert {command: entry[1] for command, entry in state["blockers"].items()} == failing


@settings(max_examples=60)
@given(steps(BRANCHING, 40))
def test_the_folded_state_is_what_the_bodies_say(taken):
    with opened(2) as repositories:
        Team(repositories).take(taken)
        truth_at = readings(repositories[0])
        with repositories[0].snapshot() as reading:
            for seq in parents(repositories[0]):
                _check_state(_state(reading, seq), truth_at(seq))


@settings(max_examples=40)
@given(steps(BRANCHING, 40))
def test_a_state_does_not_depend_on_its_caches(taken):
    with opened() as (repository,):
        Team([repository]).take(taken)
        catch_up(repository)
        repository.ripen()
        with repository.write("test", "ada", AT) as writing:
            seqs = list(parents(repository))
            cached = [_state(writing, seq) for seq in seqs]
            run = writing.connection.execute
            assert run("SELECT count(*) FROM snapshot").fetchone()[0] >= (len(seqs) > 12)
            run("DELETE FROM snapshot WHERE (line + position) % 2")
            assert [_state(writing, seq) for seq in seqs] == cached
            run("DELETE FROM snapshot")
            assert [_state(writing, seq) for seq in seqs] == cached


@settings(max_examples=40)
@given(steps(BRANCHING, 40))
def test_a_memory_is_active_if_nothing_visible_ends_it(taken):
    with opened(2) as repositories:
        Team(repositories).take(taken)
        truth_at = readings(repositories[1])
        with repositories[1].snapshot() as reading:
            for seq in {*reading.refs().values(), *list(parents(repositories[1]))[::5]}:
                _check_status(reading, seq, truth_at(seq))


def _check_status(reading: Reading, seq: int, truth: Truth) -> None:
    seen = reading.spans(reading.place(seq))
    everything = list(parents_of(reading))
    expected = sorted(truth.active, reverse=True)
    assert newest(reading.connection, seen, Filter(), 1000) == expected
    assert newest(reading.connection, seen, Filter(), 3) == expected[:3]
    assert admit(reading.connection, everything, seen, Filter()) == set(expected)
    ended = {item: how for item, (how, _) in endings(reading.connection, everything, seen).items()}
    assert ended == {item: f"{word[:-1]}d" for item, word in truth.ended.items() if item in everything}
    for status in ("superseded", "invalidated"):
        found = newest(reading.connection, seen, Filter(status=status), 1000)
        assert found == sorted((item for item, how in ended.items() if how == status), reverse=True)
    for kind in ("decision", "fact"):
        for key in ("one", "two", "three", ""):
            held = sorted((e.seq for e in truth.of(kind) if said(e)["key"] == key), reverse=True)
            assert holders(reading.connection, seen, kind, key) == held
    for view in memories(reading, everything, seen):
        if view.status == "active":
            assert view.ended_by == ""
    _check_filters(reading, seen, everything, truth)


def _check_filters(reading: Reading, seen: Spans, everything: list[int], truth: Truth) -> None:
    """A filter lets through what its words say, whether the tables have it or it waits."""
    middle = sorted(truth.active)[len(truth.active) // 2] if truth.active else 1
    moment = AT + middle
    filters: list[tuple[Filter, Callable[[Event], bool]]] = [
        (Filter(kinds=("decision", "run")), lambda event: event.kind in ("decision", "run")),
        (Filter(task="T-two"), lambda event: said(event).get("task_id") == "T-two"),
        (Filter(task=""), lambda event: not said(event).get("task_id")),
        (Filter(agent=AGENTS[0]), lambda event: event.actor == AGENTS[0]),
        (Filter(since=moment), lambda event: event.happened_at >= moment),
        (Filter(until=moment), lambda event: event.happened_at < moment),
        (Filter(before=middle), lambda event: event.seq < middle),
        (Filter(tags=("one",)), lambda event: "one" in said(event).get("tags", ())),
        (Filter(labels=("about:two",)), lambda event: "about:two" in said(event).get("labels", ())),
    ]
    for wanted, lets in filters:
        expected = sorted((seq for seq, event in truth.active.items() if lets(event)), reverse=True)
        assert newest(reading.connection, seen, wanted, 1000) == expected, wanted
        assert admit(reading.connection, everything, seen, wanted) == set(expected), wanted


def parents_of(reading: Reading) -> list[int]:
    """Return every arrival number of a memory."""
    query = f"SELECT seq FROM event WHERE kind IN ({','.join('?' * len(KINDS))}) AND body IS NOT NULL"
    return [row[0] for row in reading.connection.execute(query, KINDS)]


@settings(max_examples=40)
@given(steps(LINEAR, 40))
def test_on_one_line_blockers_and_overruled_are_counted(taken):
    with opened() as (repository,):
        Team([repository]).take(taken)
        truth_at = readings(repository)
        with repository.snapshot() as reading:
            seq = reading.tip("main").seq
            state = _state(reading, seq)
        truth = truth_at(seq)
        blockers: dict[str, list[int]] = {}
        for command, done in truth.runs().items():
            since = [item for item, status in done if status]
            passed = max((item for item, status in done if not status), default=0)
            since = [item for item in since if item > passed]
            if since:
                blockers[command] = [since[0], since[-1], len(since)]
        assert state["blockers"] == blockers
        assert state["overruled"] == _overruled(truth)


def _overruled(truth: Truth) -> list[list[int]]:
    last: dict[tuple[str, str], Any] = {}
    found = []
    for event in truth.visible:
        if event.kind in ("decision", "fact"):
            name = event.kind, said(event)["key"]
            before = last.get(name)
            if before and said(before)["value"] != said(event)["value"]:
                found.append([before.seq, event.seq])
            last[name] = event
    return found


def _view(repository: Repository, ref: str = "main") -> tuple[Any, ...]:
    """Return everything that a reader of a branch can tell."""
    with repository.snapshot() as reading:
        place = reading.tip(ref)
        seen = reading.spans(place)
        shown = memories(reading, newest(reading.connection, seen, Filter(status="all"), 1000), seen)
        state = state_at(reading.connection, place.line, place.position)
        return place, seen, state, shown, [event.id for event in reading.walk(seen)]


@settings(max_examples=30)
@given(steps(BRANCHING, 25), steps(("rollback",), 4).filter(bool))
def test_rollback_and_undo_bring_the_same_view_back(taken, back):
    with opened() as (repository,):
        team = Team([repository])
        team.take(taken)
        refs = _refs(repository)
        views = {ref: _view(repository, ref) for ref in refs}
        before = _operations(repository)
        team.take(back)
        for _ in range(_operations(repository) - before):
            team.take([("undo", 0, 0, False)])
        assert _refs(repository) == refs
        assert {ref: _view(repository, ref) for ref in refs} == views
        assert repository.verify().findings == ()


def _refs(repository: Repository) -> dict[str, int]:
    with repository.snapshot() as reading:
        return reading.refs()


def _operations(repository: Repository) -> int:
    with repository.snapshot() as reading:
        return reading.counts()["operations"]


@settings(max_examples=30)
@given(steps(BRANCHING, 25), st.integers(0, 1000))
def test_a_fork_sees_what_was_there_and_nothing_that_comes_later(taken, number):
    with opened() as (repository,):
        team = Team([repository])
        team.take(taken)
        refs = sorted(_refs(repository))
        source = refs[number % len(refs)]
        view = _view(repository, source)
        with repository.write("fork", "ada", AT) as writing:
            writing.move("aside", writing.tip(source))
        assert _view(repository, "aside") == view
        team.count += 1
        team._status(team.context(repository, source), 0, number)
        team._decide(team.context(repository, source), 0, number)
        assert _view(repository, "aside") == view


def _comparable(repository: Repository) -> dict[str, Any]:
    """Return the derived tables; the text index, whose layout depends on batches, is asked instead.

    Which states are cached depends on batches, too; what they say is held against the bodies of events above.
    """
    found: dict[str, Any] = {
        table: rows for table, rows in derived(repository).items() if table in ("memory", "ending", "label")
    }
    context = Team([repository]).context(repository, "main")
    for word in ("statement", "whole team", "learnt", "make one", "T-two", "settled", "go on from number"):
        result = search(context, word, status="all", top_k=100)
        found[word] = sorted(item.id for item in result.results)
    return found


@settings(max_examples=25)
@given(steps(BRANCHING, 40))
def test_building_again_is_the_same_as_following(taken):
    with opened() as (repository,):
        Team([repository]).take(taken)
        rows, before = canonical_rows(repository), _comparable(repository)
        assert repository.reindex() == len(parents(repository))
        assert _comparable(repository) == before
        assert canonical_rows(repository) == rows


@settings(max_examples=25)
@given(steps(LINEAR, 30), st.lists(st.integers(0, 1000), min_size=1, max_size=4))
def test_a_purge_changes_nothing_but_what_the_purged_said(taken, chosen):
    """What a purged event ended stays ended, also after everything derived was built again."""
    with opened() as (repository,):
        Team([repository]).take([("decide", 0, 0, False), ("decide", 0, 3, False), *taken])
        seqs = [seq for seq in parents(repository) if seq > 1]
        gone = sorted({seqs[number % len(seqs)] for number in chosen})
        with repository.snapshot() as reading:
            bodies = {seq: event.body or {} for seq, event in reading.load(gone).items()}
        truth_at = readings(repository)
        before = truth_at(seqs[-1])
        with repository.write("purge", "ada", AT) as writing:
            assert writing.purge(gone) == len(gone)
            assert writing.purge(gone) == 0
        _check_purged(repository, before, bodies)
        followed = _comparable(repository)
        repository.reindex()
        _check_purged(repository, before, bodies)
        # A purge drops the cached states, since they name keys and commands; only then do the two differ.
        assert {**_comparable(repository), "snapshot": []} == {**followed, "snapshot": []}
        assert repository.verify().findings == ()
        for body in bodies.values():
            words = json.dumps(body.get("learnings", ["no such words"]))[2:-2]
            assert words not in repr(list(derived(repository).values()))


def _check_purged(repository: Repository, before: Truth, bodies: dict[int, Any]) -> None:
    with repository.snapshot() as reading:
        place = reading.tip("main")
        seen = reading.spans(place)
        assert newest(reading.connection, seen, Filter(), 1000) == sorted(before.active, reverse=True)
        state = state_at(reading.connection, place.line, place.position)
        for kind, table in (("decision", "decisions"), ("fact", "facts")):
            expected = {said(event)["key"]: event.seq for event in before.of(kind) if event.seq not in bodies}
            assert {key: entry[0] for key, entry in state[table].items()} == expected
        held = [event.seq for event in before.of("discovered_constraint")]
        assert sorted(map(int, state["constraints"])) == held
        for spot in range(3):
            known = {entry[spot] for entry in state["tasks"].values() if entry[spot]}
            assert not known & set(before.ended)
            assert not known & set(bodies)


def test_a_long_list_keeps_its_newest(monkeypatch):
    monkeypatch.setattr(folding, "TASKS", 5)
    monkeypatch.setattr(folding, "RUNS", 5)
    monkeypatch.setattr(folding, "BLOCKERS", 5)
    monkeypatch.setattr(folding, "OVERRULED", 5)
    with opened() as (repository,):
        with repository.write("store", "ada", AT) as writing:
            for number in range(20):
                said_ = {"summary": f"number {number}", "task_id": f"T-{number}"}
                writing.append("main", [Draft("task", said_, "ada", AT)])
                writing.append("main", [Draft("run", {"command": [f"c{number}"], "exit_status": 1}, "ada", AT)])
                writing.append("main", [Draft("fact", {"key": "k", "value": number}, "ada", AT)])
            state = _state(writing, writing.tip("main").seq)
        assert list(state["tasks"]) == [f"T-{number}" for number in range(15, 20)]
        assert list(state["runs"]) == list(state["blockers"]) == [f"c{number}" for number in range(15, 20)]
        assert len(state["overruled"]) == 5
