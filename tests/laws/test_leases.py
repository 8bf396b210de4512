"""Leases against a model: every interleaving of a small world, and many random schedules of a larger one.

The model is a dictionary that knows who has what until when. Whatever happens, a crash in the middle of anything and a
clock that is set included, the tables say the same, nobody shares a file, and tokens only rise.
"""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from contracts.leased import HOUR, SECOND, Hand, tables
from hypothesis import given
from hypothesis import strategies as st
from laws import redact_samples as samples

from bede.errors import Conflict
from bede.leases import claims, holding, outbox, scopes, waiters
from bede.leases.claims import Denial, Grant
from bede.leases.clock import Now
from bede.leases.holding import Holder
from bede.redact import redact

TTL = 60 * SECOND
#: How many acts follow one another in the small world; 7 take half a minute of a processor's time.
DEPTH = int(os.environ.get("LEASES_DEPTH", "5"))


#: What stands in names and paths, and beside secrets.
PIECES = (
    "token password pass pwd secret key api api_key auth authorization hunter2 a1B2c3D4e5F6 bearer Bearer sig hf_ "
    "glpat- sk- ghp_ AKIA private xoxb user name https cred credentials signature deadbeef0123 aws heroku npm_ basic "
    "dXNlcjpw abcdefghijklmnopqrstuvwxyz 01234567-89ab-cdef-0123-456789abcdef / / / . - _ @"
)


@given(st.lists(st.sampled_from(PIECES.split()), max_size=9).map("".join))
def test_what_is_called_plain_holds_no_secret(name: str) -> None:
    assert redact(name) == name or not holding._is_plain(name)


def test_no_secret_is_called_plain() -> None:
    for find in (samples.shaped, samples.named, samples.placed):
        for _, secret, text in find(1):
            for name in (secret, text, f"src/{secret}.py", f"src/x-{secret}", f"@worktree/{secret}/a"):
                assert redact(name) == name or not holding._is_plain(name)


def test_names_as_they_are_cost_a_hook_nothing() -> None:
    known = ("src/parsing/parser.py", "tests/laws/test_redact_lookalikes.py", "@worktree/blue/a.py", "claude-code", ".")
    for name in known:
        assert holding._is_plain(name)
    assert holding._is_plain("01987f3c-0000-7000-8000-00000000abcd")


class Crash(Exception):
    """The process ends here."""


class Fragile(sqlite3.Connection):
    """A connection that breaks before its n-th statement."""

    left = -1

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        """Run a statement, unless the time has come."""
        if self.left == 0:
            self.left = -1
            raise Crash
        self.left -= self.left > 0
        return super().execute(*arguments)


# Every interleaving of two agents on two files.


@dataclass(frozen=True)
class World:
    """What is true of each file: its holder, the token, what is left by this start's clock and by the wall clock.

    Of before a restart there is no count but the wall's. What is over stays until somebody decides something.
    """

    held: tuple[tuple[str, str, int, int | None, int], ...] = ()
    tokens: int = 0
    lives: tuple[int, int] = (0, 0)  # how often each agent crashed: its session's number

    def on(self, name: str) -> Row | None:
        return next((row for row in self.held if row[0] == name), None)

    def swept(self) -> World:
        """Return the world once somebody is about to decide: what is over is gone, one clock counts for the rest."""
        held = [(*row[:3], left(row), row[4] if row[3] is not None else left(row)) for row in self.held]
        return replace(self, held=tuple(row for row in held if row[3] > 0))

    def key(self) -> tuple[Any, ...]:
        """Return what tells this world from others, tokens by their order alone."""
        order = sorted(row[2] for row in self.held)
        return tuple((row[0], row[1], order.index(row[2]), *row[3:]) for row in self.held), self.lives


Row = tuple[str, str, int, int | None, int]


def left(row: Row) -> int:
    """Return what counts as left of a lease."""
    return min(row[4], TTL) if row[3] is None else row[3]


FILES, AGENTS = ("a", "b"), ("ann", "bob")
STEP = TTL // 2
Act = tuple[str, int, str]
ACTS: tuple[Act, ...] = (
    *(("acquire", agent, path) for agent in (0, 1) for path in (*FILES, "ab")),
    *(("renew", agent, "") for agent in (0, 1)),
    *(("release", agent, path) for agent in (0, 1) for path in FILES),
    *(("crash", agent, "") for agent in (0, 1)),
    ("tick", 0, ""),
    ("jump", 0, "+"),
    ("jump", 0, "-"),
    ("restart", 0, ""),
)


def session(world: World, agent: int) -> str:
    return f"{AGENTS[agent]}-{world.lives[agent]}"


def expected(world: World, act: Act) -> tuple[World, str]:
    """Return the world after an act, and what the act was answered, by plain reasoning."""
    kind, agent, names = act
    me = session(world, agent)
    if kind in ("acquire", "renew", "release"):
        world = world.swept()
    mine = [row for row in world.held if row[1] == me]
    if kind == "acquire":
        found = [world.on(name) for name in names]
        if any(row and row[1] != me for row in found):
            return world, "denied"
        kept = {row[2] for row in found if row}
        held = [row if row[2] not in kept else anew(row) for row in world.held]
        fresh = [name for name in names if not world.on(name)]
        token = world.tokens + bool(fresh)
        held += [(name, me, token, TTL, TTL) for name in fresh]
        return replace(world, held=tuple(sorted(held)), tokens=token), "granted"
    if kind == "renew":
        if not mine:
            return world, "lost"
        return replace(world, held=tuple(anew(row) if row[1] == me else row for row in world.held)), "renewed"
    if kind == "release":
        return replace(world, held=tuple(r for r in world.held if (r[0], r[1]) != (names, me))), "released"
    if kind == "crash":
        lives = list(world.lives)
        lives[agent] += 1
        return replace(world, lives=(lives[0], lives[1])), ""
    by = {"tick": STEP, "restart": STEP, "jump": HOUR if names == "+" else -HOUR}[kind]
    here = {"tick": STEP, "jump": 0}.get(kind)
    felt = [(*r[:3], None if here is None or r[3] is None else r[3] - here, r[4] - by) for r in world.held]
    return replace(world, held=tuple(felt)), ""


def anew(row: Row) -> Row:
    """Return a lease that was renewed; one that holds as long anyhow stays as it is."""
    return row if row[3] == TTL else (*row[:3], TTL, TTL)


def perform(rows: sqlite3.Connection, hand: Hand, world: World, act: Act) -> str:
    """Do an act for real, and return what it was answered."""
    kind, agent, names = act
    who = Holder(AGENTS[agent], session(world, agent))
    if kind == "acquire":
        got = claims.acquire(rows, who, [(name, "file") for name in names], TTL, "", hand())
        return "granted" if isinstance(got, Grant) else "denied"
    if kind == "renew":
        try:
            claims.renew(rows, who, hand(), ttl=TTL)
        except Conflict as lost:
            assert lost.reason == "lease_lost"
            return "lost"
        return "renewed"
    if kind == "release":
        claims.release(rows, who, hand(), resources=[(names, "file")])
        return "released"
    if kind == "tick":
        hand.tick(STEP / SECOND)
    elif kind == "restart":
        hand.restart(STEP / SECOND)
    elif kind == "jump":
        hand.jump((HOUR if names == "+" else -HOUR) / SECOND)
    return ""


def seen(rows: sqlite3.Connection, now: Now) -> list[tuple[str, str, int, int]]:
    """Return what holds, by the tables."""
    return [(x.resource, x.session, x.token, x.left(now)) for x in holding.live(rows, now)]


_TABLES = ("lease", "lease_counter")


def keep(rows: sqlite3.Connection) -> list[list[tuple[Any, ...]]]:
    return [sqlite3.Connection.execute(rows, f"SELECT * FROM {name}").fetchall() for name in _TABLES]


def put_back(rows: sqlite3.Connection, kept: list[list[tuple[Any, ...]]]) -> None:
    for name, found in zip(_TABLES, kept, strict=True):
        rows.execute(f"DELETE FROM {name}")
        for row in found:
            rows.execute(f"INSERT INTO {name} VALUES ({','.join('?' * len(row))})", row)
    rows.execute("DELETE FROM lease_outbox")


def crash_anywhere(rows: Fragile, hand: Hand, world: World, act: Act) -> None:
    """Break an act before each of its statements; nothing of it may be seen afterwards."""
    before = keep(rows)
    for count in range(100):
        rows.execute("BEGIN IMMEDIATE")
        rows.left = count
        try:
            perform(rows, hand, world, act)
        except Crash:
            broken = True
        else:
            broken = False
        rows.left = -1
        rows.execute("ROLLBACK")
        assert keep(rows) == before
        if not broken:
            return


def test_every_interleaving_of_two_agents_on_two_files() -> None:
    """Breadth first over all worlds that differ, each act in each of them."""
    depth, crashes = DEPTH, 2
    with closing(tables(factory=Fragile)) as rows:
        frontier = [(World(), Hand(), keep(rows))]
        known = {World().key()}
        acts = 0
        for level in range(depth):
            found = []
            for world, hand, kept in frontier:
                for act in ACTS:
                    put_back(rows, kept)
                    now = Hand()
                    now.wall, now.ticks, now.number = hand.wall, hand.ticks, hand.number
                    if level < crashes and act[0] in ("acquire", "renew", "release"):
                        crash_anywhere(rows, now, world, act)
                    after, answer = expected(world, act)
                    assert perform(rows, now, world, act) == answer, (world, act)
                    holds = [(*row[:3], left(row)) for row in after.held if left(row) > 0]
                    assert seen(rows, now()) == holds, (world, act)
                    assert holding.last_token(rows) == after.tokens
                    acts += 1
                    if max(after.lives) <= 2 and after.key() not in known:
                        known.add(after.key())
                        found.append((after, now, keep(rows)))
            frontier = found
    assert acts > 2_000 and len(known) > 200


# Random schedules of a larger world.


@dataclass
class Claim:
    """One grant as the model knows it."""

    agent: str
    session: str
    ends: int
    rows: set[tuple[str, str]] = field(default_factory=set)


RESOURCES = (
    ("src/a.py", "file"),
    ("src/b.py", "file"),
    ("doc/c.md", "file"),
    ("src", "folder"),
    (".", "folder"),
    ("src/*.py", "glob"),
    ("**/*.md", "glob"),
)
PEOPLE = tuple(Holder(agent, session) for agent in ("ann", "bob") for session in ("s1", "s2", ""))


class Schedule:
    """One random run: tables and model side by side."""

    def __init__(self, rows: sqlite3.Connection, seed: int) -> None:
        self.rows, self.chance, self.hand = rows, random.Random(seed), Hand()
        self.claims: dict[int, Claim] = {}
        self.newest: dict[tuple[str, str], int] = {}
        self.queue: dict[int, tuple[Holder, list[tuple[str, str]], int]] = {}
        self.last = 0
        self.seed = seed

    def run(self, steps: int) -> None:
        """Do so many acts, and look after each whether all is as it should be."""
        acts: tuple[Callable[[], None], ...] = (
            *(self.acquire,) * 5,
            self.renew,
            self.release,
            self.tick,
            self.jump,
            self.wait,
            self.again,
            self.hand_over,
            self.prove,
            self.crash,
        )
        for _ in range(steps):
            self.chance.choice(acts)()
            self.look()

    def drop_old(self) -> None:
        self.claims = {token: one for token, one in self.claims.items() if one.ends > self.hand.ticks and one.rows}

    def wanted(self) -> list[tuple[str, str]]:
        return self.chance.sample(RESOURCES, self.chance.choice((1, 1, 2)))

    def acquire(self, ticket: int = 0) -> None:
        who, wanted = self.queue[ticket][:2] if ticket else (self.chance.choice(PEOPLE), self.wanted())
        ttl = self.chance.randint(1, 120) * SECOND
        self.drop_old()
        theirs = any(
            scopes.overlap(*row, *item)
            for claim in self.claims.values()
            for row in claim.rows
            for item in wanted
            if not (who.session and (claim.agent, claim.session) == (who.agent, who.session))
        )
        got = claims.acquire(self.rows, who, wanted, ttl, "", self.hand(), ticket=ticket)
        if isinstance(got, Denial):
            assert theirs or any(fact.lease is None for fact in got.blocked), self.seed
            return
        assert not theirs, self.seed
        if ticket:
            self.queue.pop(ticket)
        for lease in got.leases:
            claim = self.claims.setdefault(lease.token, Claim(who.agent, who.session, 0))
            claim.rows.add((lease.resource, lease.scope))
            claim.ends = max(claim.ends, self.hand.ticks + ttl)
        if got.is_new:
            self.grew(got.token)

    def grew(self, token: int) -> None:
        """Hold a new token against every one before."""
        assert token == self.last + 1, self.seed
        self.last = token

    def pick(self) -> int:
        return self.chance.randint(1, self.last) if self.last else 1

    def renew(self) -> None:
        token, who, ttl = self.pick(), self.chance.choice(PEOPLE), self.chance.randint(1, 120) * SECOND
        self.drop_old()
        may = self.may(token, who)
        try:
            claims.renew(self.rows, who, self.hand(), token=token, ttl=ttl)
        except Conflict:
            assert not may, self.seed
        else:
            assert may, self.seed
            self.claims[token].ends = max(self.claims[token].ends, self.hand.ticks + ttl)

    def may(self, token: int, who: Holder) -> bool:
        claim = self.claims.get(token)
        if claim is None:
            return False
        if who.session and claim.session:
            return who.session == claim.session
        return who.agent == claim.agent

    def release(self) -> None:
        token, who = self.pick(), self.chance.choice(PEOPLE)
        self.drop_old()
        may = self.may(token, who)
        try:
            gone = claims.release(self.rows, who, self.hand(), token=token)
        except Conflict:
            assert not may, self.seed
        else:
            assert bool(gone) == (token in self.claims), self.seed
            self.claims.pop(token, None)

    def prove(self) -> None:
        token, who = self.pick(), self.chance.choice(PEOPLE)
        self.drop_old()
        try:
            claims.check(self.rows, token, who, self.hand())
        except Conflict:
            assert not self.may(token, who), self.seed
        else:
            assert self.may(token, who), self.seed

    def tick(self) -> None:
        self.hand.tick(self.chance.choice((0.5, 5, 40, 121)))

    def jump(self) -> None:
        self.hand.jump(self.chance.choice((3600, -3600)))

    def wait(self) -> None:
        who, wanted = self.chance.choice(PEOPLE), self.wanted()
        ticket = waiters.join(self.rows, who, wanted, "", self.hand())
        assert not self.queue or ticket > max(self.queue)
        self.queue[ticket] = (who, wanted, self.hand.ticks)

    def again(self) -> None:
        if self.queue:
            ticket = self.chance.choice(list(self.queue))
            place = waiters.find(self.rows, ticket)
            if place and place.granted:
                return
            waiters.stay(self.rows, ticket, *self.queue[ticket][:2], "", self.hand())
            self.acquire(ticket)

    def hand_over(self) -> None:
        token, who = self.pick(), self.chance.choice(PEOPLE)
        to = self.chance.choice((None, *PEOPLE))
        self.drop_old()
        try:
            whom, fresh = claims.handover(self.rows, who, token, self.hand(), to)
        except Conflict as refused:
            assert refused.reason in ("nobody_waits", "overlaps") or not self.may(token, who), self.seed
            return
        assert self.may(token, who), self.seed
        old = self.claims.pop(token)
        left = {(x.resource, x.scope) for x in holding.of_token(self.rows, token)}
        if left:
            self.claims[token] = replace(old, rows=left)
        if fresh:
            ends = old.ends if to else self.hand.ticks + waiters.ALIVE
            self.claims[fresh[0].token] = Claim(whom.agent, whom.session, ends, {(x.resource, x.scope) for x in fresh})
            self.grew(fresh[0].token)

    def crash(self) -> None:
        """Break something in the middle; the model knows nothing of it."""
        assert isinstance(self.rows, Fragile)
        self.rows.execute("SAVEPOINT here")
        self.rows.left = self.chance.randint(0, 12)
        try:
            who = self.chance.choice(PEOPLE)
            claims.acquire(self.rows, who, self.wanted(), 60 * SECOND, "", self.hand())
        except Crash:
            pass
        self.rows.left = -1
        self.rows.execute("ROLLBACK TO here")
        self.rows.execute("RELEASE here")

    def look(self) -> None:
        """Compare the tables with the model, and every two leases with one another."""
        self.drop_old()
        live = holding.live(self.rows, self.hand())
        held = {(x.resource, x.scope): (x.token, x.agent, x.session, x.ends) for x in live}
        model = {row: (t, c.agent, c.session, c.ends) for t, c in self.claims.items() for row in c.rows}
        assert held == model, self.seed
        for number, one in enumerate(live):
            for other in live[number + 1 :]:
                same = one.token == other.token or (one.session and one.belongs(Holder(other.agent, other.session)))
                assert same or not scopes.overlap(one.resource, one.scope, other.resource, other.scope), self.seed


@pytest.mark.parametrize("part", range(4))
def test_random_schedules(part: int) -> None:
    """Ten thousand of them in all."""
    with closing(tables(factory=Fragile)) as rows:
        for number in range(2_500):
            rows.execute("BEGIN")
            Schedule(rows, part * 2_500 + number).run(14)
            rows.execute("ROLLBACK")


def test_nothing_that_happened_is_lost_from_the_outbox() -> None:
    """Each grant's beginning and each one's end is told exactly once, whatever the order of telling."""
    for seed in range(60):
        with closing(tables(factory=Fragile)) as rows:
            schedule, told = Schedule(rows, seed), []
            for _ in range(30):
                schedule.run(1)
                if schedule.chance.random() < 0.3:
                    told += outbox.drafts(rows, schedule.hand())
            schedule.hand.tick(3600)
            holding.sweep(rows, schedule.hand())
            told += outbox.drafts(rows, schedule.hand())
            assert rows.execute("SELECT count(*) FROM lease_outbox").fetchone() == (0,)
            begun = [one["body"]["token"] for one in told if one["kind"] == "lease_acquired"]
            begun += [t for one in told if one["kind"] == "lease_handed_over" and (t := one["body"].get("to_token"))]
            assert sorted(begun) == list(range(1, schedule.last + 1)), seed
