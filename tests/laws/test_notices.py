"""Replicas of a board converge: in whatever order, how often and in what pieces documents arrive."""

from __future__ import annotations

import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from contracts.machines import Machine
from hypothesis import given, settings
from hypothesis import strategies as st
from laws.histories import AT

from bede.exchange import board
from bede.identity import timestamp
from bede.projections import PROJECTIONS
from bede.projections.notices import CLEARED, NOTICE, Notice, body_of, posted
from bede.records import Draft
from bede.repository import Repository

#: Three notices, each as it may be told: holding, or cleared at one of two times.
BOARD = [
    Notice(f"00000000-0000-4000-8000-{number:012x}", "alice", "service:auth", f"number {number}", AT, AT + 60_000_000)
    for number in range(3)
]
CLEARINGS = (None, AT + 5, AT + 9)
#: A document is some of them, each told in one way.
documents = st.dictionaries(st.sampled_from(range(3)), st.sampled_from(CLEARINGS), min_size=1)
deliveries = st.lists(documents, min_size=1, max_size=5)


def told(said: dict[int, int | None]) -> list[Notice]:
    return [replace(BOARD[number], cleared_at=cleared) for number, cleared in said.items()]


def shown(repository: Repository) -> list[Notice]:
    with repository.snapshot() as reading:
        return board.whole(reading, posted(reading.connection, cleared=True))


@settings(max_examples=40)
@given(deliveries, st.data())
def test_any_order_of_imports_on_any_replica_converges(said: list[dict[int, int | None]], data: st.DataObject) -> None:
    expected = {
        number: min((doc[number] for doc in said if doc.get(number) is not None), default=None)  # type: ignore[type-var]
        for number in {number for doc in said for number in doc}
    }
    wanted = sorted(told(expected), key=lambda item: item.id)
    with tempfile.TemporaryDirectory() as folder:
        for replica in range(2):
            order = data.draw(st.permutations([*said, *data.draw(st.lists(st.sampled_from(said), max_size=2))]))
            path = Path(folder) / f"{replica}.db"
            with closing(Repository.create(path, PROJECTIONS, actor="ada", at=AT)) as repository:
                for doc in order:
                    before = shown(repository)
                    with repository.write("notice", "ada", AT) as writing:
                        taken = board.merge(writing, told(doc), "ada", AT)
                    after = shown(repository)
                    assert taken.changed == sum(item not in before for item in after)
                assert shown(repository) == wanted
                repository.reindex()
                assert shown(repository) == wanted
                assert repository.verify().findings == ()


@settings(max_examples=40)
@given(st.permutations(range(6)))
def test_the_order_in_which_events_arrive_makes_no_difference(order: list[int]) -> None:
    """As a bundle may bring them: two tellings of one notice, and clearings before what they clear."""
    drafts = [
        Draft(NOTICE, body_of(BOARD[0]), "ada", AT, "one", salt=b"1" * 16),
        Draft(NOTICE, body_of(replace(BOARD[0], message="told otherwise")), "bob", AT, "two", salt=b"2" * 16),
        *(
            Draft(CLEARED, {"notice_id": BOARD[n].id, "cleared_at": timestamp(AT + at)}, "ada", AT, f"{n} {at}")
            for n, at in ((0, 9), (0, 5), (1, 7))
        ),
        Draft(NOTICE, {"notice_id": 5, "message": ["none of ours"]}, "eve", AT, "three"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.db"
        with closing(Repository.create(path, PROJECTIONS, actor="ada", at=AT)) as repository:
            for number in order:
                with repository.write("bundle", "ada", AT) as writing:
                    # A ref of its own each, so that an event has the same parent, and id, whenever it comes.
                    writing.append(f"bundles/{number}", [drafts[number]])
            (found,) = shown(repository)
    assert found.cleared_at == AT + 5
    assert found.message == FIRST


DEEDS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(("post", "clear", "run", "run"))), max_size=14)


@settings(max_examples=6)
@given(DEEDS)
def test_machines_that_exchange_in_any_order_end_with_one_board(deeds: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        machines = {name: Machine(Path(folder), f"laptop-{name}", f"author-{name}") for name in "abc"}
        for machine in machines.values():
            machine.join()
        for name, machine in machines.items():
            machine.trust(*(other for key, other in machines.items() if key != name))
        mine: dict[str, list[str]] = {name: [] for name in machines}
        for name, deed in deeds:
            machine = machines[name]
            machine.at += 1_000_000
            if deed == "post":
                mine[name].append(machine.post(f"number {len(mine[name])}"))
            elif deed == "clear" and mine[name]:
                machine.call("notice", "clear", [mine[name][-1]])
            elif deed == "run":
                assert machine.exchange("run")["refusals"] == []
        for machine in [*machines.values()] * 2:
            assert machine.exchange("run")["refusals"] == []
        boards = [
            {(key, item["message"], item.get("cleared_at")) for key, item in machine.notices().items()}
            for machine in machines.values()
        ]
        assert boards[0] == boards[1] == boards[2]
        assert len(boards[0]) == sum(map(len, mine.values()))
        before = [machine.count() for machine in machines.values()]
        for machine in machines.values():
            machine.exchange("run")
        assert [machine.count() for machine in machines.values()] == before


def _first() -> str:
    """Return what the smaller of the two events says, by their ids alone."""
    from bede.identity import event_id
    from bede.repository.log import prepare

    tellings = []
    for message, actor, key, salt in (
        (BOARD[0].message, "ada", "one", b"1" * 16),
        ("told otherwise", "bob", "two", b"2" * 16),
    ):
        draft = Draft(NOTICE, body_of(replace(BOARD[0], message=message)), actor, AT, key, salt=salt)
        identity = event_id(NOTICE, [], actor, key, AT, prepare(draft)[2])
        tellings.append((identity, message))
    return min(tellings)[1]


FIRST = _first()
