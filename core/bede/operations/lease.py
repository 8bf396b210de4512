"""`bede lease`: say which files you work on, so that no two agents edit one at once without knowing it."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from bede.answers.tidings import settle
from bede.context import Context
from bede.errors import Conflict, NotFound, UsageError
from bede.errors import Held as HeldByOthers
from bede.identity import check_agent, timestamp
from bede.leases import claims, holding, intents, scopes, waiters
from bede.leases.claims import Blocked, Denial, Grant
from bede.leases.clock import Now
from bede.leases.holding import Holder, Lease
from bede.leases.keys import Ground
from bede.leases.telling import second, told
from bede.operation import Field, operation
from bede.quick import dataclass
from bede.records import Record
from bede.redact import redact
from bede.repository import Reading

Action = Literal["acquire", "renew", "release", "handover", "list"]

_SECOND = 1_000_000
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
#: Between two looks of a waiter, in seconds.
_PAUSE = (0.03, 0.1)


@dataclass(frozen=True, slots=True)
class Held(Record):
    """One file, folder or pattern that somebody holds. Empty fields are left out of the JSON."""

    SPARSE: ClassVar[bool] = True

    resource: str
    scope: str
    token: int
    agent_id: str
    session: str
    purpose: str
    since: str
    until: str
    seconds_left: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Waiting(Record):
    """One place in the queue. Empty fields are left out of the JSON."""

    SPARSE: ClassVar[bool] = True

    ticket: int
    agent_id: str
    session: str
    wanted: tuple[str, ...]
    purpose: str
    since: str


@dataclass(frozen=True, slots=True)
class LeaseResult(Record):
    """What was done, and to which leases; `token` proves a grant, with --lease on any verb that writes.

    `outcome` is `acquired`, `extended` (nothing was added), `renewed`, `released`, `absent` (it was gone already),
    `handed_over` or `listed`. `elsewhere` are leases of the same paths in other git worktrees.
    """

    SCHEMA: ClassVar[str] = "lease/1"

    outcome: str
    token: int
    leases: tuple[Held, ...]
    queue: tuple[Waiting, ...]
    elsewhere: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class _Asked:
    """Who asks, for what, until when, and what for."""

    holder: Holder
    wanted: tuple[tuple[str, str], ...]
    ttl: int
    purpose: str


@operation(effect="append", toolset="coordination")
def lease(
    context: Context,
    action: Annotated[Action, Field("What to do")] = "list",
    paths: Annotated[list[str] | None, Field("Files or folders, or a token", metavar="PATH|TOKEN")] = None,
    *,
    purpose: Annotated[str, Field("What you want them for, in a few words")] = "",
    ttl: Annotated[str, Field("For how long: 90s, 15m, 2h", metavar="TIME")] = "",
    wait: Annotated[str, Field("Wait so long in the queue if they are held", metavar="TIME")] = "",
    glob: Annotated[bool, Field("The paths are patterns, such as src/**/*.py")] = False,
    to: Annotated[str, Field("For handover: SESSION or AGENT/SESSION; else the next in the queue")] = "",
    session: Annotated[str, Field("Whose session it is")] = "",
    agent_id: Annotated[str, Field("Who asks")] = "",
) -> LeaseResult:
    """Hold files for yourself while you edit them: acquire, renew, release or hand over a lease; or list them all.

    Take all paths or none. Who is refused is told who has them, what for and until when. A lease ends after its time
    (15 minutes) unless renewed. The same session may acquire again; without a session the token is the proof.
    """
    if to and action != "handover":
        raise UsageError(f"--to means nothing to 'lease {action}'", hint="'lease handover TOKEN --to SESSION' does it")
    agent, known = context.holder(agent_id, session)
    holder = Holder(agent, known)
    ground, cwd = Ground(str(context.project.root), str(context.project.folder)), str(context.directory)
    token, words = _words(action, paths or [])
    wanted = tuple(ground.wanted(word, cwd, is_glob=glob) for word in words)
    span = _span("--ttl", ttl, claims.SHORTEST) if ttl else 0
    if action == "list":
        return _list(context, wanted)
    if action == "acquire":
        said = " ".join(redact(purpose).split())[: claims.PURPOSE]
        asked = _Asked(holder, wanted, span or 900 * _SECOND, said)
        # Who serves others meanwhile has less patience than who asks.
        return _acquire(context, asked, min(_span("--wait", wait, 0) / _SECOND, context.patience) if wait else 0)
    return _change(context, action, holder, token, wanted, span, to)


def _words(action: str, words: list[str]) -> tuple[int, list[str]]:
    """Return the token that was typed, 0 for none, and the paths; a number is a token wherever one makes sense."""
    tokens = [word for word in words if re.fullmatch(r"[0-9]+", word)]
    if action in ("acquire", "list") or not tokens:
        return 0, words
    if len(words) > 1:
        raise UsageError("give one token, or paths", hint="a file that is named by a number is ./NUMBER")
    if not re.fullmatch(r"0*[1-9][0-9]{0,17}", tokens[0]):
        raise UsageError(f"no token is {tokens[0][:40]}", hint="a file that is named by a number is ./NUMBER")
    return int(tokens[0]), []


def _span(flag: str, text: str, least: int) -> int:
    """Read a length of time, in microseconds."""
    found = re.fullmatch(r"([0-9]{1,7})([smhd]?)", text.strip())
    size = int(found[1]) * _UNITS[found[2]] * _SECOND if found else -1
    if not least <= size <= claims.LONGEST:
        bounds = "1 second" if least else "0"
        raise UsageError(f"{flag} cannot be {text[:40]!r}", hint=f"from {bounds} to 24 hours, such as 30s, 15m or 2h")
    return size


def _acquire(context: Context, asked: _Asked, wait: float) -> LeaseResult:
    """Take what is wanted, at once or when it is this caller's turn.

    Raises:
        Conflict: somebody holds some of it, or came first.
    """
    tried = _attempt(context, asked, 0, wait > 0)
    if ticket := tried.ticket:
        tried = _wait(context, asked, ticket, time.monotonic() + wait) or tried
    got, queue, now = tried.got, tried.queue, context.moment()
    if isinstance(got, Denial):
        raise _refusal(got, now, wait, asked.holder)
    return LeaseResult(
        "acquired" if got.is_new or ticket else "extended",
        got.token,
        _held(got.leases, queue, now),
        _waiting(_of(queue, got.leases)),
        _held(got.elsewhere, queue, now),
    )


@dataclass(frozen=True, slots=True)
class _Tried:
    """What an attempt came to, the ticket of who waits now, and who waits at all."""

    got: Grant | Denial
    ticket: int
    queue: list[waiters.Waiter]


def _attempt(context: Context, asked: _Asked, ticket: int, waits: bool) -> _Tried:
    """Try once, in a transaction of its own; who waits has a place in the queue afterwards, unless it was granted."""
    now, holder = context.moment(), asked.holder
    with context.repository.write("lease", holder.agent, now.wall) as writing:
        connection = writing.connection
        place = waiters.find(connection, ticket) if ticket else None
        got = claims.acquire(
            connection,
            holder,
            asked.wanted,
            asked.ttl,
            asked.purpose,
            now,
            proof=place.granted if place else 0,
            ticket=ticket,
        )
        if waits and isinstance(got, Denial):
            if ticket:
                waiters.stay(connection, ticket, holder, asked.wanted, asked.purpose, now)
            else:
                ticket = waiters.join(connection, holder, asked.wanted, asked.purpose, now)
        settle(writing, now)
        return _Tried(got, ticket, waiters.queue(connection, now))


def _wait(context: Context, asked: _Asked, ticket: int, deadline: float) -> _Tried | None:
    """Look from time to time, without the writer's lock, and try when it is time; leave the queue in any case."""
    tried: _Tried | None = None
    signed = time.monotonic()
    try:
        while time.monotonic() < deadline and not (tried and isinstance(tried.got, Grant)):
            time.sleep(random.uniform(*_PAUSE))
            with context.repository.snapshot() as reading:
                is_turn = claims.is_turn(reading.connection, asked.holder, asked.wanted, ticket, context.moment())
            if is_turn or time.monotonic() - signed > waiters.SIGN / _SECOND:
                tried = _attempt(context, asked, ticket, True)
                signed = time.monotonic()
    finally:
        if not (tried and isinstance(tried.got, Grant)):
            now = context.moment()
            with context.repository.write("lease", asked.holder.agent, now.wall) as writing:
                waiters.leave(writing.connection, ticket)
    return tried


def _refusal(denial: Denial, now: Now, wait: float, asker: Holder) -> Conflict:
    """Return the error that tells everything about who is in the way; that may be the asker, who told no session."""
    facts = [_fact(fact, now) for fact in denial.blocked]
    details: dict[str, Any] = {key: value for key, value in facts[0].items() if key != "resource"}
    if len(facts) > 1:
        details["blocked"] = facts
    hint, first = "take other work first" + ("" if wait else ", or wait for it with --wait 30s"), denial.blocked[0]
    if first.lease and not first.session and first.agent == asker.agent:
        hint += f"; if it is your own, 'bede lease renew {first.lease.token}' or 'release {first.lease.token}'"
    return HeldByOthers(
        told(denial, now),
        hint=hint,
        reason="held" if first.lease else "queued",
        **details,
    )


def _fact(fact: Blocked, now: Now) -> dict[str, Any]:
    return {
        "resource": fact.resource,
        "holder": {"agent_id": fact.agent, "session": fact.session},
        "purpose": fact.purpose,
        "prompt": fact.prompt,
        "prompt_age": (now.wall - fact.prompted) // _SECOND if fact.prompted else None,
        "since": timestamp(fact.since),
        "until": timestamp(second(fact.until)) if fact.until else "",
        "queue": fact.queue,
        "touched": fact.touched,
    }


def _change(
    context: Context,
    action: str,
    holder: Holder,
    token: int,
    wanted: Sequence[tuple[str, str]],
    ttl: int,
    to: str,
) -> LeaseResult:
    """Renew, give back or hand over, in one transaction."""
    now = context.moment()
    with context.repository.write("lease", holder.agent, now.wall) as writing:
        connection = writing.connection
        if action == "renew":
            leases = claims.renew(connection, holder, now, token=token, resources=wanted, ttl=ttl)
            outcome = "renewed"
        elif action == "release":
            leases = claims.release(connection, holder, now, token=token, resources=wanted)
            outcome = "released" if leases else "absent"
        else:
            token = token or _only_token(writing, holder, wanted)
            whom = _receiver(writing, to) if to else None
            _, leases = claims.handover(connection, holder, token, now, whom)
            outcome = "handed_over"
        settle(writing, now)
        queue = waiters.queue(connection, now)
    newest = max((lease.token for lease in leases), default=0)
    return LeaseResult(outcome, newest, _held(leases, queue, now), _waiting(_of(queue, leases)), ())


def _only_token(reading: Reading, holder: Holder, wanted: Sequence[tuple[str, str]]) -> int:
    """Return the one token of the session's leases, of those that cover what was named."""
    leases = [
        lease
        for lease in holding.of_session(reading.connection, holder)
        if not wanted or any(scopes.covers(lease.resource, lease.scope, *item) for item in wanted)
    ]
    tokens = {lease.token for lease in leases}
    hint = "give the token of one; 'bede lease list' shows them, and whose they are"
    if len(tokens) > 1:
        raise UsageError(f"those are {len(tokens)} grants, not one", hint=hint)
    if not tokens:
        whose = "this session holds nothing" if holder.session else "there is no token, nor a session that holds one"
        raise UsageError(whose + (" that covers these paths" if wanted else ""), hint=hint)
    return tokens.pop()


def _receiver(reading: Reading, to: str) -> Holder:
    agent, slash, session = to.partition("/")
    if slash:
        return Holder(check_agent(agent), session)
    if found := intents.agent_of(reading.connection, to):
        return Holder(found, to)
    raise NotFound(f"no session {to[:80]!r} is known, or several are", hint="write --to AGENT/SESSION")


def _list(context: Context, wanted: Sequence[tuple[str, str]]) -> LeaseResult:
    now = context.moment()
    with context.repository.snapshot() as reading:
        connection = reading.connection
        if not holding.is_laid(connection):
            return LeaseResult("listed", 0, (), (), ())
        leases, queue = holding.live(connection, now), waiters.queue(connection, now)
    if wanted:
        # What lies in a folder is meant too, where there is none of that name yet.
        wanted = [(path, scopes.FOLDER if scope == scopes.FILE else scope) for path, scope in wanted]
        touching = scopes.overlap
        leases = [one for one in leases if any(touching(one.resource, one.scope, *item) for item in wanted)]
        queue = [waiter for waiter in queue if waiter.wants(wanted)]
    return LeaseResult("listed", 0, _held(leases, queue, now), _waiting(queue), ())


def _of(queue: Sequence[waiters.Waiter], leases: Sequence[Lease]) -> list[waiters.Waiter]:
    named = [(lease.resource, lease.scope) for lease in leases]
    return [waiter for waiter in queue if waiter.wants(named)]


def _held(leases: Sequence[Lease], queue: Sequence[waiters.Waiter], now: Now) -> tuple[Held, ...]:
    return tuple(
        Held(
            resource=lease.resource,
            scope=lease.scope,
            token=lease.token,
            agent_id=lease.agent,
            session=lease.session,
            purpose=lease.purpose,
            since=timestamp(lease.since),
            # By the clock of now, so that it is true also after that was set.
            until=timestamp(second(now.wall + lease.left(now))),
            seconds_left=max(0, lease.left(now)) // _SECOND,
            waiting=sum(waiter.wants([(lease.resource, lease.scope)]) for waiter in queue),
        )
        for lease in leases
    )


def _waiting(queue: Sequence[waiters.Waiter]) -> tuple[Waiting, ...]:
    return tuple(
        Waiting(
            ticket=waiter.ticket,
            agent_id=waiter.agent,
            session=waiter.session,
            wanted=tuple(resource for resource, _ in waiter.wanted),
            purpose=waiter.purpose,
            since=timestamp(waiter.since),
        )
        for waiter in queue
    )
