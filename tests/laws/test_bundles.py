"""Machines that exchange bundles, in any order and at any time, end with one history and one view of it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from laws.histories import AT, canonical_rows, derived, opened
from laws.team import BRANCHING, LINEAR, Team

from bede.context import Context
from bede.errors import Conflict
from bede.operations.bundle import bundle
from bede.operations.merge import merge
from bede.operations.store import store
from bede.projections import PROJECTIONS
from bede.projections.memory import Filter, newest
from bede.projections.state import state_at
from bede.records import Draft
from bede.repository import Repository

_NUMBER = st.integers(0, 200)
#: A step of one machine's team, or the machine whose bundle it takes in.
Move = tuple[int, str, int, int]


def moves(actions: Sequence[str], machines: int) -> st.SearchStrategy[list[Move]]:
    names = st.sampled_from([*actions, *["import"] * (len(actions) // 3)])
    return st.lists(st.tuples(st.integers(0, machines - 1), names, _NUMBER, _NUMBER), max_size=20)


class Machine:
    """One machine with a copy of the project, its own key, and a folder for what it sends."""

    def __init__(self, number: int, folder: Path, repository: Repository) -> None:
        self.name, self.folder, self.repository = f"m{number}", folder, repository
        self.team = Team([repository])
        self.others: list[Machine] = []
        self.sent = self.calls = 0

    def context(self, branch: str = "main") -> Context:
        self.calls += 1
        return Context(
            directory=self.folder,
            branch=branch,
            agent=self.name,
            environment={"BEDE_CONFIG_DIR": str(self.folder)},
            clock=lambda: AT + self.team.count + self.calls,
            repository=self.repository,
        )

    def export(self) -> Path:
        self.sent += 1
        path = self.folder / f"{self.sent}.bundle"
        bundle(self.context(), "export", all_=True, to=path)
        return path

    def take(self, other: Machine) -> None:
        """Take in all of another, settling by hand what only a person can."""
        path = other.export()
        while True:
            try:
                self._import(path, other, merge=True)
                return
            except Conflict as error:
                branch = error.details["branch"]
                self._import(path, other, merge=False)
                merge(self.context(branch), f"bundles/{other.name}/{branch}", ours=True)

    def _import(self, path: Path, other: Machine, **options: bool) -> Any:
        return bundle(self.context(), "import", [str(path)], trust_any=True, as_=other.name, **options)

    def again(self, other: Machine) -> Any:
        """Take the newest bundle of another in once more."""
        return self._import(other.folder / f"{other.sent}.bundle", other, merge=True)

    def heads(self) -> dict[str, str]:
        """Return the refs that are this machine's own, each with the id of its event."""
        with self.repository.snapshot() as reading:
            return {name: reading.place(seq).id for name, seq in reading.refs().items() if "bundles/" not in name}

    def ids(self) -> set[bytes]:
        return {row[0] for row in self.repository.connection.execute("SELECT id FROM event")}

    def view(self, ref: str) -> dict[str, Any]:
        """Return what holds on a branch: the active memories, and the value of each decision and fact."""
        with self.repository.snapshot() as reading:
            place = reading.tip(ref)
            active = newest(reading.connection, reading.spans(place), Filter(), 10_000)
            state = state_at(reading.connection, place.line, place.position)
            events = reading.load([*active, *(entry[0] for kind in _KEYED for entry in state[kind].values())])
            values = {
                (kind, key): (events[entry[0]].body or {})["value"]
                for kind in _KEYED
                for key, entry in state[kind].items()
            }
            constraints = sorted(events[int(seq)].id for seq in state["constraints"])
            return {"active": {events[seq].id for seq in active}, "values": values, "constraints": constraints}


_KEYED = ("decisions", "facts")


@contextmanager
def machines(count: int) -> Iterator[list[Machine]]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        blank = stack.enter_context(opened())[0]
        found = []
        for number in range(count):
            place = Path(folder) / str(number)
            place.mkdir()
            (place / "bede.db").write_bytes(blank.path.read_bytes())
            repository = Repository.open(place / "bede.db", PROJECTIONS)
            stack.callback(repository.close)
            repository.connection.execute("PRAGMA synchronous = OFF")
            found.append(Machine(number, place, repository))
        yield found


def play(team: list[Machine], taken: Sequence[Move]) -> None:
    for number, action, one, two in taken:
        machine = team[number]
        if action == "import":
            machine.take(team[(number + 1 + one % (len(team) - 1)) % len(team)])
        else:
            machine.team.take([(action, one, two, False)])


def settle(team: list[Machine]) -> None:
    """Let everyone take in what the next one has, round by round, until nothing is new to anybody."""
    for _ in range(2 * len(team)):
        if all(one.heads() == team[0].heads() and one.ids() == team[0].ids() for one in team):
            return
        for number, machine in enumerate(team):
            machine.take(team[number - 1])
    raise AssertionError("they went on and on")


def check(team: list[Machine]) -> None:
    first = team[0]
    for machine in team:
        assert machine.repository.verify().findings == ()
        assert machine.ids() == first.ids()
        assert machine.heads() == first.heads()
        for ref in machine.heads():
            assert machine.view(ref) == first.view(ref)
        rows = derived(machine.repository)
        machine.repository.reindex()
        again = derived(machine.repository)
        assert {name: rows[name] for name in _FOLLOWING} == {name: again[name] for name in _FOLLOWING}


_FOLLOWING = ("memory", "ending", "label")


@settings(max_examples=25)
@given(taken=moves(BRANCHING, 2))
def test_two_machines_end_with_one_history(taken: list[Move]) -> None:
    with machines(2) as team:
        play(team, taken)
        settle(team)
        check(team)


@settings(max_examples=25)
@given(taken=moves(LINEAR, 3))
def test_three_machines_end_with_one_history(taken: list[Move]) -> None:
    with machines(3) as team:
        play(team, taken)
        settle(team)
        check(team)


@settings(max_examples=20)
@given(counts=st.tuples(st.integers(1, 4), st.integers(1, 4)), first=st.booleans())
def test_whoever_joins_first_makes_the_same_event(counts: tuple[int, int], first: bool) -> None:
    with machines(2) as team:
        for machine, count in zip(team, counts, strict=True):
            for number in range(count):
                store(machine.context(), kind="fact", key=f"{machine.name} {number}", value=str(number))
        sent = [machine.export() for machine in team]
        for number in (0, 1) if first else (1, 0):
            other = team[1 - number]
            team[number]._import(sent[1 - number], other, merge=True)
        assert team[0].heads() == team[1].heads()
        check(team)


@settings(max_examples=20)
@given(taken=moves(BRANCHING, 2))
def test_taking_the_same_in_again_changes_nothing(taken: list[Move]) -> None:
    with machines(2) as team:
        play(team, taken)
        team[0].take(team[1])
        before = canonical_rows(team[0].repository)
        assert team[0].again(team[1]).outcome == "unchanged"
        assert canonical_rows(team[0].repository) == before


@settings(max_examples=20)
@given(taken=moves(BRANCHING, 2))
def test_without_merge_no_ref_of_ours_moves(taken: list[Move]) -> None:
    with machines(2) as team:
        play(team, taken)
        before, ids = team[0].heads(), team[0].ids()
        team[0]._import(team[1].export(), team[1], merge=False)
        assert team[0].heads() == before
        assert team[0].ids() == ids | team[1].ids()
        assert team[0].repository.verify().findings == ()


@settings(max_examples=20)
@given(counts=st.tuples(st.integers(0, 3), st.integers(0, 3)))
def test_observations_are_joined_without_a_person(counts: tuple[int, int]) -> None:
    ref = "sessions/codex/s1"
    with machines(2) as team:
        for machine, count in zip(team, counts, strict=True):
            for number in range(count):
                with machine.repository.write("ingest", "codex", AT) as writing:
                    body = {"session": "s1", "key": f"{machine.name}-{number}", "by": "user", "parts": [{"text": "hi"}]}
                    writing.append(ref, [Draft("turn", body, "codex", AT + number, f"{number}")])
                    writing.append("coordination", [Draft("told", {"n": number}, machine.name, AT + number)])
        settle(team)
        check(team)
        turns = [
            machine.repository.connection.execute("SELECT key FROM turn ORDER BY key").fetchall() for machine in team
        ]
        assert turns[0] == turns[1]
        assert len(turns[0]) == sum(counts)
