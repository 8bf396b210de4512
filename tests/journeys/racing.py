"""A race for a few files: this file is run as a script, and starts its runners as processes of their own.

    python racing.py FOLDER SEED RACES RUNNERS [KILLS]     # all of it; prints one JSON object
    python racing.py FOLDER SEED RACES run NUMBER          # one runner

Each runner wants one or two of five files, waits for its turn, holds them for a moment, renews now and then, and gives
them back. Its wall clock is an hour wrong now and then. Half go through the hook's door, half through the repository,
which tells the log. Some are killed with SIGKILL on the way, and start again. Every grant and its end is written
down with the clock that nobody can set, and beside that each holder makes a file that must not exist: from both it is
told afterwards whether two ever held one file.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from bede.answers.tidings import settle
from bede.errors import Busy, Conflict
from bede.leases import claims, clock, door, waiters
from bede.leases.clock import Now
from bede.leases.holding import Holder
from bede.projections import PROJECTIONS
from bede.repository import Repository

FILES = tuple(f"src/{name}.py" for name in "abcde")
TTL = 2_000_000
HOUR = 3_600_000_000


class Runner:
    """One process of the race."""

    def __init__(self, folder: Path, seed: int, number: int) -> None:
        self.folder, self.number = folder, number
        self.chance = random.Random(f"{seed} {number} {os.getpid()}")
        self.holder = Holder(f"agent-{number}", f"session-{number}-{os.getpid()}")
        self.database = folder / ".bede/bede.db"
        self.repository = Repository.open(self.database, PROJECTIONS) if number % 2 else None
        self.book = os.open(folder / f"book-{number}", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def now(self) -> Now:
        """Return this moment, by a wall clock that is set all the time."""
        true = clock.now()
        return Now(true.wall + self.chance.choice((0, 0, HOUR, -HOUR)), true.ticks, true.boot)

    @contextmanager
    def transaction(self) -> Iterator[tuple[Any, Now]]:
        """Hold one write transaction, by the way this runner goes, and the moment within it."""
        if self.repository:
            with self.repository.write("lease", self.holder.agent, time.time_ns() // 1000) as writing:
                now = self.now()
                yield writing.connection, now
                settle(writing, now)
        else:
            with door.open(str(self.database), wait=30) as connection:
                yield connection, self.now()

    def write(self, **told: Any) -> None:
        """Write a line into this runner's book."""
        os.write(self.book, json.dumps(told).encode() + b"\n")

    def race(self) -> None:
        """Want some files, wait, hold them, give them back."""
        files = self.chance.sample(FILES, self.chance.choice((1, 1, 2)))
        wanted = [(name, "file") for name in files]
        began, ticket = clock.ticks(), 0
        while True:
            with self.transaction() as (connection, now):
                got = claims.acquire(connection, self.holder, wanted, TTL, "race", now, ticket=ticket)
                if isinstance(got, claims.Grant):
                    break
                if ticket:
                    waiters.stay(connection, ticket, self.holder, wanted, "race", now)
                else:
                    ticket = waiters.join(connection, self.holder, wanted, "race", now)
            time.sleep(self.chance.uniform(0.002, 0.02))
        self.write(token=got.token, files=files, since=now.ticks, ends=now.ticks + TTL, waited=now.ticks - began)
        self.hold(got.token, files, now.ticks + TTL)

    def hold(self, token: int, files: list[str], ends: int) -> None:
        """Prove to be alone, renew now and then, give back."""
        marks = [self.folder / "held" / name.replace("/", "-") for name in files]
        for mark in marks:
            self.mark(mark, token, ends)
        time.sleep(self.chance.uniform(0, 0.003))
        for _ in range(self.chance.choice((0, 0, 1, 2))):
            with self.transaction() as (connection, now):
                try:
                    claims.renew(connection, self.holder, now, token=token)
                except Conflict:
                    self.write(lost=token, early=now.ticks < ends)
                    return
            ends = now.ticks + TTL
            self.write(token=token, renewed=now.ticks, ends=ends)
            for mark in marks:
                mark.write_text(f"{token} {ends}")
        with self.transaction() as (connection, now):
            try:
                claims.check(connection, token, self.holder, now)
            except Conflict:
                self.write(lost=token, early=now.ticks < ends)
                return
            for mark in marks:
                mark.unlink(missing_ok=True)
            self.write(token=token, until=now.ticks)
            claims.release(connection, self.holder, now, token=token)

    def mark(self, path: Path, token: int, ends: int) -> None:
        """Make the file that only a holder may make; what a killed one left is old by its own words."""
        try:
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            said = path.read_text().split()
            if len(said) == 2 and clock.ticks() < int(said[1]):
                self.write(clash=token, with_=int(said[0]))
            handle = os.open(path, os.O_WRONLY | os.O_TRUNC)
        os.write(handle, f"{token} {ends}".encode())
        os.close(handle)


def run(folder: Path, seed: int, races: int, number: int) -> None:
    """Race until so many were won, over all lives of this runner."""
    runner = Runner(folder, seed, number)
    while _won(folder, number) < races:
        try:
            runner.race()
        except Busy:
            runner.write(busy=1)


def _won(folder: Path, number: int) -> int:
    book = folder / f"book-{number}"
    return sum(b'"waited"' in line for line in book.read_bytes().splitlines()) if book.exists() else 0


def gather(folder: Path, seed: int, races: int, runners: int, kills: int) -> dict[str, Any]:
    """Start the runners, kill some of them on the way, and read their books when all are done."""
    (folder / "held").mkdir()
    chance, lives, began = random.Random(seed), 0, time.monotonic()
    #: How many races are won when the next one is killed: all of them before three quarters of the way.
    due = sorted(chance.uniform(0, 0.75) * races * runners for _ in range(kills))

    def start(number: int) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-P", __file__, str(folder), str(seed), str(races), "run", str(number)]
        return subprocess.Popen(words)

    running = {number: start(number) for number in range(runners)}
    while running:
        time.sleep(0.02)
        for number, process in list(running.items()):
            status = process.poll()
            if status == -signal.SIGKILL:
                running[number], lives = start(number), lives + 1
            elif status is not None:
                assert status == 0, status
                del running[number]
        if lives < kills and running and sum(_won(folder, number) for number in range(runners)) >= due[lives]:
            doomed = chance.choice(list(running.values()))
            doomed.kill()
            doomed.wait()
    return judge(folder, runners) | {"killed": lives, "seconds": round(time.monotonic() - began, 1)}


def judge(folder: Path, runners: int) -> dict[str, Any]:
    """Tell from the books whether two ever held one file, and what else was seen."""
    lines = [
        [json.loads(line) for line in (folder / f"book-{number}").read_bytes().splitlines() if line.endswith(b"}")]
        for number in range(runners)
    ]
    every = [one for book in lines for one in book]
    grants = {one["token"]: dict(one) for one in every if "since" in one}
    for one in every:
        if one.get("token") in grants and "renewed" in one:
            grants[one["token"]]["ends"] = max(one["ends"], grants[one["token"]]["ends"])
        elif one.get("token") in grants and "until" in one:
            grants[one["token"]]["until"] = one["until"]
    shared = sum(_shared(grants, name) for name in FILES)
    waits = sorted(one["waited"] for one in grants.values())
    with closing(Repository.open(folder / ".bede/bede.db", PROJECTIONS)) as repository:
        with repository.write("lease", "judge", 1) as writing:
            now = clock.now()
            settle(writing, Now(now.wall, now.ticks + HOUR, now.boot))
        findings = len(repository.verify().findings)
        with repository.snapshot() as reading:
            told = [event.kind for event in reading.walk(reading.spans(reading.tip("coordination")))]
    return {
        "grants": [sum("since" in one for one in book) for book in lines],
        "tokens_twice": sum("since" in one for one in every) - len(grants),
        "shared": shared,
        "clashes": sum("clash" in one for one in every),
        "lapses": sum(bool(one.get("early")) for one in every),
        "lost": sum("lost" in one for one in every),
        "busy": sum("busy" in one for one in every),
        "longest_wait": round(waits[-1] / 1e6, 2),
        "median_wait": round(waits[len(waits) // 2] / 1e6, 3),
        "findings": findings,
        "told": {kind: told.count(kind) for kind in sorted(set(told))},
    }


def _shared(grants: dict[int, dict[str, Any]], name: str) -> int:
    """Count the grants of a file that began before the one before had ended; by token, so that those rise too."""
    found = [grants[token] for token in sorted(grants) if name in grants[token]["files"]]
    ends = [one.get("until", one["ends"]) for one in found]
    return sum(later["since"] < end for end, later in zip(ends, found[1:], strict=False))


def main() -> int:
    """Be one runner, or start them all."""
    folder, seed, races = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    if sys.argv[4] == "run":
        run(folder, seed, races, int(sys.argv[5]))
    else:
        print(json.dumps(gather(folder, seed, races, int(sys.argv[4]), int(sys.argv[5]) if sys.argv[5:] else 0)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
