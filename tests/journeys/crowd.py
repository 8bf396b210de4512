"""A crowd of processes on one memory: this file is run as a script, and forks its members when all is imported.

    python crowd.py FOLDER JOB COUNT [WORD …]

All members begin at once. Each prints one line of JSON: what its job returned, or the error it met. Run from
`together` below; a process of its own, because a test runner's threads and forks do not go together.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

Job = Callable[[Path, int, list[str]], object]


def command(script: Path, *words: object) -> list[str]:
    """Return the command that runs a script of the tests on this checkout."""
    return [sys.executable, "-P", str(script), *map(str, words)]


def surroundings() -> dict[str, str]:
    """Return the environment of such a script."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / shelf) for shelf in ("core", "cli"))}


def together(folder: Path, job: str, count: int, *words: object) -> list[dict[str, Any]]:
    """Let a crowd do a job at once; return what each member says, in no order."""
    done = subprocess.run(
        command(Path(__file__), folder, job, count, *words),
        env=surroundings(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == count, done.stderr
    return found


def _main(folder: Path, job: Job, count: int, words: list[str]) -> int:
    ready, go = os.pipe(), os.pipe()
    children = [_member(folder, job, number, words, ready, go) for number in range(count)]
    for _ in children:
        os.read(ready[0], 1)
    os.close(go[0])
    os.close(go[1])  # At the end of this pipe they all begin.
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


def _member(folder: Path, job: Job, number: int, words: list[str], ready: tuple[int, int], go: tuple[int, int]) -> int:
    child = os.fork()
    if child:
        return child
    from bede.errors import BedeError

    os.close(go[1])
    os.write(ready[1], b".")
    os.read(go[0], 1)
    try:
        told: dict[str, Any] = {"did": job(folder, number, words)}
    except BedeError as error:
        told = error.to_json()
    os.write(1, json.dumps({"member": number, **told}).encode() + b"\n")
    os._exit(0)


def _context(folder: Path, number: int = 0, branch: str = "") -> Any:
    from bede.context import Context

    return Context(directory=folder, agent=f"agent-{number}", branch=branch)


def init(folder: Path, number: int, words: list[str]) -> object:
    """Make the project."""
    from bede.operations.init import init

    with closing(_context(folder, number)) as context:
        return init(context).to_json()


def append(folder: Path, number: int, words: list[str]) -> object:
    """Append so many events, each in its own operation, and return their ids."""
    from bede.projections import PROJECTIONS
    from bede.records import Draft
    from bede.repository import Repository

    ids = []
    with closing(Repository.open(folder / ".bede" / "bede.db", PROJECTIONS)) as repository:
        for count in range(int(words[0])):
            said = {"summary": f"number {count} of {number}", "task_id": f"T-{count % 7}"}
            with repository.write("store", f"agent-{number}", 1) as writing:
                ids.append(writing.append("main", [Draft("note", said, f"agent-{number}", 1)])[0].id)
    return ids


def store(folder: Path, number: int, words: list[str]) -> object:
    """Store the very same memory."""
    from bede.operations.store import store

    with closing(_context(folder, number)) as context:
        return store(context, summary="the very same thing, said by everybody at once", task_id="T").id


def decide(folder: Path, number: int, words: list[str]) -> object:
    """Decide one key so many times."""
    from bede.operations.store import store

    with closing(_context(folder, number)) as context:
        values = [f"{number}.{count}" for count in range(int(words[0]))]
        return [store(context, kind="decision", key="k", value=value).id for value in values]


def ingest(folder: Path, number: int, words: list[str]) -> object:
    """Bring in the same foreign records."""
    from bede.projections import PROJECTIONS
    from bede.records import Draft
    from bede.repository import Repository

    drafts = [Draft("turn", {"text": str(n)}, "x", 1, json.dumps({"n": n}), bytes(16)) for n in range(20)]
    with closing(Repository.open(folder / ".bede" / "bede.db", PROJECTIONS)) as repository:
        count = 0
        for draft in drafts:
            with repository.write("ingest", "x", 1) as writing:
                count += len(writing.append("main", [draft]))
    return count


def fork(folder: Path, number: int, words: list[str]) -> object:
    """Begin a branch of one name, each at an event of its own where that is asked for."""
    from bede.operations.fork import fork

    with closing(_context(folder, number)) as context:
        at = f"main~{number}" if words[1:] else None
        return fork(context, words[0], at=at).outcome


def undo(folder: Path, number: int, words: list[str]) -> object:
    """Undo the newest operation."""
    from bede.operations.undo import undo

    with closing(_context(folder, number)) as context:
        return undo(context, include_others=True).operation


def look(folder: Path, number: int, words: list[str]) -> object:
    """Odd members write; even ones look again and again, and every view must hold in itself."""
    from bede.projections import PROJECTIONS
    from bede.projections.memory import Filter, newest
    from bede.repository import Repository
    from bede.repository.verify import verify

    if number % 2:
        return append(folder, number, words)
    with closing(Repository.open(folder / ".bede" / "bede.db", PROJECTIONS)) as repository:
        found, seen = set(), 0
        for _ in range(int(words[0])):
            with repository.snapshot() as reading:
                verdict = verify(reading.connection)
                found |= {finding.problem for finding in verdict.findings}
                assert verdict.events >= seen, "time went backwards"
                seen = verdict.events
                spans = reading.spans(reading.tip("main"))
                last = newest(reading.connection, spans, Filter(status="all"), 1)
                assert last == ([seen] if seen > 1 else []), "what is derived lies behind"
        return sorted(found)


def reopen(folder: Path, number: int, words: list[str]) -> object:
    """Open a memory whose derived tables are another version's, and look something up."""
    from bede.operations.search import search

    with closing(_context(folder, number)) as context:
        return len(search(context, "number", top_k=100).results)


if __name__ == "__main__":
    sys.exit(_main(Path(sys.argv[1]), globals()[sys.argv[2]], int(sys.argv[3]), sys.argv[4:]))
