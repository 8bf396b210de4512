"""Random histories for the laws, and the plain way of computing what they must show.

A history is a list of small steps, each with two numbers that choose among what there is, so that hypothesis can shrink
it. The steps are taken through two connections by turns, since what one remembers must not hide what the other did.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

from hypothesis import strategies as st

from bede.projections import PROJECTIONS
from bede.projections.memory import Memory
from bede.records import Draft, Place
from bede.repository import Repository
from bede.repository.refs import MAIN

AT = 1_767_323_045_000_000
AGENTS = ("ada", "bob", "cyd")

Step = tuple[str, int, int, bool]
_NUMBER = st.integers(0, 200)


def steps(actions: Sequence[str], most: int = 30) -> st.SearchStrategy[list[Step]]:
    """Return lists of steps: an action, two numbers that choose, and which connection takes it."""
    return st.lists(st.tuples(st.sampled_from(actions), _NUMBER, _NUMBER, st.booleans()), max_size=most)


@cache
def _blank() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bede.db"
        Repository.create(path, PROJECTIONS, actor="ada", at=AT).close()
        return path.read_bytes()


@contextmanager
def opened(count: int = 1) -> Iterator[list[Repository]]:
    """Open connections to a new file. Durability is no matter here, so the disk is not waited for."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder) / "bede.db"
        path.write_bytes(_blank())
        found = [Repository.open(path, PROJECTIONS) for _ in range(count)]
        for repository in found:
            stack.callback(repository.close)
            repository.connection.execute("PRAGMA synchronous = OFF")
        yield found


def parents(repository: Repository) -> dict[int, tuple[int, ...]]:
    """Return the parents of every event, as the rows say it."""
    rows = repository.connection.execute("SELECT seq, parent, merged FROM event ORDER BY seq")
    return {seq: tuple(item for item in both if item is not None) for seq, *both in rows}


def ancestors(graph: dict[int, tuple[int, ...]], seq: int) -> set[int]:
    """Return an event and all that came before it, by walking every edge."""
    found: set[int] = set()
    waiting = [seq]
    while waiting:
        item = waiting.pop()
        if item not in found:
            found.add(item)
            waiting += graph[item]
    return found


class Walker:
    """Takes steps on refs and events alone, below every verb."""

    def __init__(self, repositories: list[Repository]) -> None:
        self.repositories = repositories
        self.moves: list[tuple[str, Place | None]] = []
        self.count = 0

    def take(self, taken: Sequence[Step]) -> None:
        """Take all the steps."""
        for action, one, two, other in taken:
            repository = self.repositories[other % len(self.repositories)]
            getattr(self, f"_{action}")(repository, one, two)

    def _ref(self, repository: Repository, number: int) -> str:
        with repository.snapshot() as reading:
            names = sorted(reading.refs())
        return names[number % len(names)]

    def draft(self, kind: str = "note", **said: object) -> Draft:
        """Return an event to append, by one agent after the other."""
        self.count += 1
        body = {"summary": f"event {self.count}", **said}
        return Draft(kind, body, AGENTS[self.count % len(AGENTS)], AT + self.count)

    def _append(self, repository: Repository, one: int, two: int) -> None:
        ref = self._ref(repository, one)
        with repository.write("store", "ada", AT) as writing:
            writing.append(ref, [self.draft() for _ in range(two % 3 + 1)])

    def _fork(self, repository: Repository, one: int, two: int) -> None:
        self.count += 1
        with repository.write("fork", "ada", AT) as writing:
            last = writing.counts()["events"]
            self._move(writing, f"b{self.count}", writing.place(one % last + 1))

    def _rollback(self, repository: Repository, one: int, two: int) -> None:
        ref, graph = self._ref(repository, one), parents(repository)
        with repository.write("rollback", "ada", AT) as writing:
            known = sorted(ancestors(graph, writing.tip(ref).seq))
            self._move(writing, ref, writing.place(known[two % len(known)]))

    def _merge(self, repository: Repository, one: int, two: int) -> None:
        ref, source = self._ref(repository, one), self._ref(repository, two)
        with repository.write("merge", "ada", AT) as writing:
            writing.append(ref, [self.draft("merge", branch=source)], merged=writing.tip(source))

    def _undo(self, repository: Repository, one: int, two: int) -> None:
        if self.moves:
            ref, old = self.moves.pop()
            with repository.write("undo", "ada", AT) as writing:
                writing.move(ref, old)

    def _delete(self, repository: Repository, one: int, two: int) -> None:
        ref = self._ref(repository, one)
        if ref != MAIN:
            with repository.write("fork", "ada", AT) as writing:
                self._move(writing, ref, None)

    def _move(self, writing: object, ref: str, new: Place | None) -> None:
        old = writing.find(ref)  # type: ignore[attr-defined]
        writing.move(ref, new)  # type: ignore[attr-defined]
        if ref != MAIN or old:
            self.moves.append((ref, old))


def catch_up(repository: Repository) -> None:
    """Let the tables of memories take in what waits for a batch; the history gains nothing by it."""
    with repository.write("store", "ada", AT) as writing:
        Memory().catch_up(writing.connection, writing.newest.last)


def derived(repository: Repository) -> dict[str, list[tuple[object, ...]]]:
    """Return every row of every derived table, in order of its columns, once nothing waits for a batch."""
    catch_up(repository)
    canonical = {"project", "event", "event_key", "indexed", "line", "stretch"}
    canonical |= {"ref", "operation", "worktree", "cursor", "projection"}
    with repository.snapshot() as reading:
        run = reading.connection.execute
        tables = [
            row[0] for row in run("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 ORDER BY 1")
        ]
        return {
            table: sorted(run(f'SELECT * FROM "{table}"').fetchall(), key=repr)
            for table in tables
            if table not in canonical and not table.startswith("sqlite_")
        }


def canonical_rows(repository: Repository) -> str:
    """Return all canonical rows as text, to compare what must not have changed."""
    with repository.snapshot() as reading:
        run = reading.connection.execute
        tables = ("project", "event", "line", "stretch", "operation", "worktree")
        rows = [[repr(row) for row in run(f"SELECT * FROM {table}")] for table in tables]
        return json.dumps([*rows, [repr(item) for item in reading.refs().items()]])
