"""Random work of a team through the verbs themselves, and the plain reading of what then holds.

The reading knows nothing of lines, spans, caches or tables: it walks every edge and looks at every body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from laws.histories import AGENTS, AT, Step, ancestors, catch_up, parents

from bede.context import Context
from bede.errors import Conflict, NotFound, Rejected
from bede.operations.fork import fork
from bede.operations.merge import merge
from bede.operations.rollback import rollback
from bede.operations.store import store
from bede.operations.undo import undo
from bede.projections.rows import KINDS
from bede.records import Event
from bede.repository import Repository
from bede.repository.refs import is_branch

#: Three of a sort are enough to collide, and few enough to meet again.
_NAMES = ("one", "two", "three")
_WORK = ("decide", "decide", "say", "status", "hand", "bind", "free", "run", "run", "join", "plan", "note")
LINEAR = ("sweep", "sweep", *_WORK)
BRANCHING = (*LINEAR, "fork", "fork", "rollback", "merge", "merge", "merge", "undo")


class Team:
    """Takes steps by calling verbs, each on a branch that exists."""

    def __init__(self, repositories: Sequence[Repository]) -> None:
        self.repositories = repositories
        self.count = 0

    def take(self, taken: Sequence[Step]) -> None:
        """Take all the steps; what the verbs refuse is refused."""
        for action, one, two, other in taken:
            self.count += 1
            repository = self.repositories[other % len(self.repositories)]
            with repository.snapshot() as reading:
                names = [name for name in reading.refs() if is_branch(name)]
            context = self.context(repository, names[one % len(names)])
            with suppress(Rejected, Conflict, NotFound):
                getattr(self, f"_{action}")(context, one, two)

    def context(self, repository: Repository, branch: str) -> Context:
        """Return the window of one call on a branch."""
        return Context(
            directory=Path("/"),
            branch=branch,
            agent=AGENTS[self.count % len(AGENTS)],
            environment={},
            clock=lambda: AT + self.count,
            repository=repository,
        )

    def _store(self, context: Context, kind: str, number: int, **said: Any) -> None:
        store(
            context,
            kind=kind,
            summary=f"statement number {self.count} of the whole team says something",
            task_id=f"T-{_NAMES[number % 3]}",
            learnings=[f"learnt {self.count} so far"],
            **said,
        )

    def _decide(self, context: Context, one: int, two: int) -> None:
        self._store(context, "decision", one, key=_NAMES[two % 3], value=str(two // 3 % 3))

    def _say(self, context: Context, one: int, two: int) -> None:
        self._store(context, "fact", one, key=_NAMES[two % 3], value=str(two // 3 % 3))

    def _status(self, context: Context, one: int, two: int) -> None:
        self._store(context, "status_update", two)

    def _hand(self, context: Context, one: int, two: int) -> None:
        self._store(context, "task_handoff", two, handoff_note=f"go on from number {self.count} then")

    def _join(self, context: Context, one: int, two: int) -> None:
        self._store(context, "fleet_member", two)

    def _plan(self, context: Context, one: int, two: int) -> None:
        self._store(context, "task", two)

    def _note(self, context: Context, one: int, two: int) -> None:
        self._store(context, "note", two, tags=[_NAMES[one % 3]], labels=[f"about:{_NAMES[two % 3]}"])

    def _bind(self, context: Context, one: int, two: int) -> None:
        self._store(context, "discovered_constraint", two)

    def _sweep(self, context: Context, one: int, two: int) -> None:
        """Let no memory wait any longer, or cache what is worth it by now; those that come afterwards wait."""
        if two % 2:
            catch_up(context.repository)
        else:
            context.repository.ripen()

    def _free(self, context: Context, one: int, two: int) -> None:
        with context.repository.snapshot() as reading:
            rows = reading.connection.execute("SELECT id FROM event WHERE kind = 'discovered_constraint'").fetchall()
        if rows:
            named = rows[two % len(rows)][0].hex()
            self._store(context, "discovered_constraint", one, invalidates=[named])

    def _run(self, context: Context, one: int, two: int) -> None:
        store(context, kind="run", command=f"make {_NAMES[two % 3]}", exit_status=two // 3 % 2)

    def _fork(self, context: Context, one: int, two: int) -> None:
        with context.repository.snapshot() as reading:
            place = reading.place(two % reading.counts()["events"] + 1)
        fork(context, f"b{self.count}", at=place.id)

    def _rollback(self, context: Context, one: int, two: int) -> None:
        with context.repository.snapshot() as reading:
            known = sorted(ancestors(parents(context.repository), reading.tip(context.branch(reading)).seq))
            place = reading.place(known[two % len(known)])
        rollback(context, place.id, include_others=True)

    def _merge(self, context: Context, one: int, two: int) -> None:
        with context.repository.snapshot() as reading:
            names = [name for name in reading.refs() if is_branch(name)]
        source = names[two % len(names)]
        try:
            merge(context, source)
        except Conflict as error:
            keys = {item["key"] for item in error.details["conflicts"]}
            way = (one + two) % 3
            values = [f"{key}=settled {self.count}" for key in keys] if way == 2 else None
            merge(context, source, ours=way == 0, theirs=way == 1, set_=values)

    def _undo(self, context: Context, one: int, two: int) -> None:
        undo(context, include_others=True)


@dataclass
class Truth:
    """What holds in a view, read from the bodies of all events that it sees."""

    active: dict[int, Event] = field(default_factory=dict)
    ended: dict[int, str] = field(default_factory=dict)
    visible: list[Event] = field(default_factory=list)

    def of(self, kind: str) -> Iterator[Event]:
        """Yield the active memories of a kind, oldest first."""
        return (event for event in self.active.values() if event.kind == kind)

    def newest(self, kind: str, about: str) -> dict[str, int]:
        """Return the newest active memory of a kind for each thing that a field names."""
        return {said(event)[about]: event.seq for event in self.of(kind)}

    def runs(self) -> dict[str, list[tuple[int, int]]]:
        """Return (seq, exit status) of every visible run, by command, in order of arrival."""
        found: dict[str, list[tuple[int, int]]] = {}
        for event in self.visible:
            if event.kind == "run":
                command = " ".join(said(event)["command"])
                found.setdefault(command, []).append((event.seq, said(event)["exit_status"]))
        return found


def said(event: Event) -> dict[str, Any]:
    """Return an event's body, which was not purged."""
    assert event.body is not None
    return event.body


def readings(repository: Repository, purged: dict[int, dict[str, Any]] | None = None) -> Callable[[int], Truth]:
    """Return what reads the truth at any event; `purged` are bodies that are gone, as far as they ended something."""
    graph = parents(repository)
    with repository.snapshot() as reading:
        events = reading.load(list(graph))

    def read(seq: int) -> Truth:
        truth = Truth(visible=[events[item] for item in sorted(ancestors(graph, seq))])
        for event in truth.visible:
            body = event.body if event.body is not None else (purged or {}).get(event.seq, {})
            for word, targets in body.get("ends", {}).items():
                truth.ended.update((int_of(events, target), word) for target in targets)
        truth.active = {
            event.seq: event for event in truth.visible if event.kind in KINDS and event.seq not in truth.ended
        }
        return truth

    return read


def int_of(events: dict[int, Event], identity: str) -> int:
    """Return the arrival number of an id."""
    return next(seq for seq, event in events.items() if event.id == identity)
