"""A nursery of writers that are killed: this file is run as a script, and forks its writers when all is imported.

    python nursery.py FOLDER SEED ROUNDS WRITERS      # writers on one memory
    python nursery.py FOLDER SEED ROUNDS              # one `init` in a new folder each round

Writers do all that writes: appends, forks, rollbacks, purges, rebuilding. Each tells what was acknowledged to a
file of its own, one line for each, the moment it was. They are killed with SIGKILL at random moments, all of them,
round by round. After each round the memory must verify, hold all that was told, and take the next write at once.
The last line of output is a JSON object with what was seen.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from bede.context import Context
from bede.errors import BedeError
from bede.operations.fork import fork
from bede.operations.init import init
from bede.operations.purge import purge
from bede.operations.reindex import reindex
from bede.operations.rollback import rollback
from bede.operations.store import store
from bede.projections import PROJECTIONS
from bede.projections.memory import Memory
from bede.repository import Repository

Tell = Callable[..., None]


def _child(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
            os._exit(1)
        os._exit(0)
    return child


def _write(folder: Path, told: Path, seed: str) -> None:
    chance = random.Random(seed)
    handle = os.open(told, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def tell(*words: str) -> None:
        os.write(handle, (" ".join(words) + "\n").encode())

    context = Context(directory=folder, agent="ada")
    count = 0
    while True:
        count += 1
        action = chance.choices((_store, _several, _fork, _rollback, _purge, _rebuild), (60, 15, 10, 8, 4, 3))[0]
        try:
            action(context, f"{seed}.{count}", chance, tell)
        except BedeError as error:
            # There may be nothing yet to go back to, or another writer was there first; nothing else may go wrong.
            if error.code not in ("conflict", "not_found", "usage"):
                raise


def _store(context: Context, name: str, chance: random.Random, tell: Tell) -> None:
    kind = chance.choice(("decision", "fact"))
    tell("event", store(context, kind=kind, key=f"k{chance.randrange(5)}", value=name).id)


def _several(context: Context, name: str, chance: random.Random, tell: Tell) -> None:
    from bede.records import Draft

    with context.repository.write("store", "ada", 1) as writing:
        drafts = [Draft("note", {"summary": f"{name} {number}"}, "ada", 1) for number in range(5)]
        ids = [event.id for event in writing.append("main", drafts)]
    for identity in ids:
        tell("event", identity)


def _fork(context: Context, name: str, chance: random.Random, tell: Tell) -> None:
    fork(context, f"b.{name}")
    tell("branch", f"b.{name}")


def _rollback(context: Context, name: str, chance: random.Random, tell: Tell) -> None:
    result = rollback(context, "main~1")
    tell("event", result.before)


def _purge(context: Context, name: str, chance: random.Random, tell: Tell) -> None:
    identity = store(context, summary=f"to go {name} {chance.randbytes(20).hex()}").id
    tell("event", identity)
    purge(context, [identity], yes=True)
    tell("purged", identity)


def _rebuild(context: Context, name: str, chance: random.Random, tell: Tell) -> None:
    reindex(context)


def _check(folder: Path, told: set[tuple[str, str]]) -> None:
    """Everything that was acknowledged is there, all of it verifies, and the next write just works."""
    with closing(Repository.open(folder / ".bede" / "bede.db", PROJECTIONS, wait=2)) as repository:
        verdict = repository.verify()
        assert verdict.findings == (), verdict.findings
        assert repository.integrity() == ["ok"]
        with repository.write("store", "ada", 1) as writing:
            Memory().catch_up(writing.connection, writing.newest.last)
        with repository.snapshot() as reading:
            run = reading.connection.execute
            events = {row[0].hex() for row in run("SELECT id FROM event")}
            purged = {row[0].hex() for row in run("SELECT id FROM event WHERE body IS NULL")}
            there = {"event": events, "branch": set(reading.refs()), "purged": purged}
            rows = run("SELECT * FROM memory").fetchall(), run("SELECT * FROM ending").fetchall()
        lost = [item for item in told if item[1] not in there[item[0]]]
        assert not lost, f"acknowledged and lost: {lost[:5]}"
        repository.reindex()
        run = repository.connection.execute
        assert rows == (run("SELECT * FROM memory").fetchall(), run("SELECT * FROM ending").fetchall())
    with closing(Context(directory=folder, agent="ada")) as context:
        assert store(context, summary=f"the next one {os.urandom(20).hex()}").id


def _stop(children: list[int], longest: float) -> int:
    """Kill every child, each at a moment of its own; return how many were alive until then."""
    moments = sorted((random.uniform(0, longest), child) for child in children)
    began, statuses = time.monotonic(), []
    for moment, child in moments:
        time.sleep(max(0.0, began + moment - time.monotonic()))
        os.kill(child, signal.SIGKILL)
        statuses.append(os.waitpid(child, 0)[1])
    assert all(os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0 for status in statuses), "one failed by itself"
    return sum(map(os.WIFSIGNALED, statuses))


def _write_rounds(folder: Path, seed: str, rounds: int, writers: int) -> dict[str, Any]:
    init(Context(directory=folder))
    told: set[tuple[str, str]] = set()
    killed = 0
    for number in range(rounds):
        files = [folder / f"told.{number}.{writer}" for writer in range(writers)]
        children = [_child(partial(_write, folder, file, f"{seed}.{file.name}")) for file in files]
        killed += _stop(children, 0.25)
        for file in files:
            if file.exists():
                # A line that was cut short was not told whole.
                lines = file.read_text().split("\n")[:-1]
                told |= {(word, rest) for word, _, rest in (line.partition(" ") for line in lines)}
        _wait(_child(partial(_check, folder, told)))
    return {"killed": killed, "told": len(told)}


def _wait(child: int) -> None:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "see above"


def _init_rounds(folder: Path, rounds: int) -> dict[str, Any]:
    """Kill `init` on its way; the next one must make the project, or find it made."""
    killed, outcomes = 0, dict[str, int]()
    for number in range(rounds):
        place = folder / f"p{number}"
        place.mkdir()
        killed += _stop([_child(partial(_make, place))], 0.04)
        with closing(Context(directory=place, agent="ada")) as context:
            outcome = init(context).outcome
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
            assert store(context, summary="it works").id
            assert context.repository.verify().findings == ()
    return {"killed": killed, **outcomes}


def _make(place: Path) -> None:
    with closing(Context(directory=place)) as context:
        init(context)


if __name__ == "__main__":
    where, seed, times = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    random.seed(seed)
    crowd = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    print(json.dumps(_write_rounds(where, seed, times, crowd) if crowd else _init_rounds(where, times)))
