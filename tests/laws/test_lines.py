"""Laws of lines: spans say exactly what walking every event would say."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from laws.histories import Walker, ancestors, opened, parents, steps

from bede.errors import NotFound, UsageError
from bede.records import Place, Spans
from bede.repository import Reading
from bede.repository.lines import beyond, common

ACTIONS = ("append", "append", "append", "fork", "rollback", "merge", "undo", "delete")


def _places(reading: Reading, graph: dict[int, tuple[int, ...]]) -> dict[int, Place]:
    return {seq: reading.place(seq) for seq in graph}


def _members(places: dict[int, Place], seen: Spans) -> set[int]:
    return {seq for seq, place in places.items() if place.position <= seen.get(place.line, 0)}


def _within(places: dict[int, Place], ranges: list[tuple[int, int, int]]) -> set[int]:
    return {
        seq
        for seq, place in places.items()
        if any(place.line == line and start <= place.position <= end for line, start, end in ranges)
    }


@settings(max_examples=60)
@given(steps(ACTIONS))
def test_spans_are_the_ancestors(taken):
    with opened(2) as repositories:
        Walker(repositories).take(taken)
        with repositories[0].snapshot() as reading:
            graph = parents(repositories[0])
            places = _places(reading, graph)
            for seq, place in places.items():
                seen = reading.spans(place)
                assert _members(places, seen) == ancestors(graph, seq)
                assert sum(seen.values()) == len(ancestors(graph, seq))


@settings(max_examples=40)
@given(steps(ACTIONS))
def test_beyond_common_and_meeting_compare_sets(taken):
    with opened(2) as repositories:
        Walker(repositories).take(taken)
        with repositories[1].snapshot() as reading:
            graph = parents(repositories[1])
            places = _places(reading, graph)
            ends = sorted({*reading.refs().values(), *list(graph)[-4:]})
            for one, other in product(ends, ends):
                left, right = reading.spans(places[one]), reading.spans(places[other])
                mine, others = ancestors(graph, one), ancestors(graph, other)
                assert _within(places, beyond(left, right)) == mine - others
                assert _members(places, common(left, right)) == mine & others
                assert reading.meeting(left, right).seq == max(mine & others)


@settings(max_examples=40)
@given(steps(ACTIONS))
def test_a_walk_yields_what_is_seen_newest_first(taken):
    with opened(2) as repositories:
        Walker(repositories).take(taken)
        with repositories[0].snapshot() as reading:
            graph = parents(repositories[0])
            kinds = dict(reading.connection.execute("SELECT seq, kind FROM event"))
            for seq in reading.refs().values():
                seen = reading.spans(reading.place(seq))
                expected = sorted(ancestors(graph, seq), reverse=True)
                assert [event.seq for event in reading.walk(seen)] == expected
                merges = [item for item in expected if kinds[item] == "merge"]
                assert [event.seq for event in reading.walk(seen, ["merge"])] == merges


@settings(max_examples=40)
@given(steps(ACTIONS))
def test_going_back_follows_first_parents(taken):
    with opened(2) as repositories:
        Walker(repositories).take(taken)
        with repositories[0].snapshot() as reading:
            graph = parents(repositories[0])
            for ref, seq in reading.refs().items():
                chain = [seq]
                while graph[chain[-1]]:
                    chain.append(graph[chain[-1]][0])
                for number, expected in enumerate(chain):
                    assert reading.resolve(f"{ref}~{number}").seq == expected
                with pytest.raises(NotFound):
                    reading.resolve(f"{ref}~{len(chain)}")


@settings(max_examples=60)
@given(steps(ACTIONS))
def test_an_honest_history_verifies_against_each_of_its_operations(taken):
    with opened(2) as repositories:
        walker = Walker(repositories)
        anchors = []
        for step in taken:
            walker.take([step])
            with repositories[0].snapshot() as reading:
                anchors.append(reading.head())
        for anchor in (None, *anchors):
            verdict = repositories[0].verify(anchor)
            assert verdict.findings == ()
        with repositories[0].snapshot() as reading:
            assert (verdict.events, verdict.operations, verdict.refs) == tuple(reading.counts().values())
            assert verdict.head == reading.head()[1]


@settings(max_examples=40)
@given(steps(ACTIONS))
def test_a_line_is_a_run_of_single_parent_events(taken):
    with opened(2) as repositories:
        Walker(repositories).take(taken)
        with repositories[0].snapshot() as reading:
            graph = parents(repositories[0])
            places = _places(reading, graph)
            by_place = {(place.line, place.position): seq for seq, place in places.items()}
            assert len(by_place) == len(places)
            for seq, place in places.items():
                if place.position > 1:
                    assert graph[seq] == (by_place[place.line, place.position - 1],)


def test_a_second_root_shares_nothing(tmp_path):
    """A ref of its own root (a session, say) is honest, and comparing it with another is an error, not a bug."""
    with opened() as (repository,):
        walker = Walker([repository])
        with repository.write("ingest", "ada", 1) as writing:
            writing.append("sessions/x/1", [walker.draft(), walker.draft()])
        assert repository.verify().findings == ()
        with repository.snapshot() as reading:
            one, other = (reading.spans(reading.tip(ref)) for ref in ("main", "sessions/x/1"))
            assert sum(other.values()) == 2
            with pytest.raises(UsageError):
                reading.meeting(one, other)
