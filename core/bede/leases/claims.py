"""Claims on files: taking, renewing, giving back, handing over, and proving a lease by its token.

Each function decides inside the one transaction of its caller, so two sessions never hold what has a file in common.
A grant has one token for all that was new in it. Tokens only rise, over the whole project, so that of two holders of a
file the later one has the greater token. What is renewed never ends sooner than it would have.
"""

from __future__ import annotations

from bede.errors import Conflict, UsageError
from bede.leases import intents, outbox, scopes, waiters
from bede.leases.clock import DAY, Now
from bede.leases.holding import (
    Holder,
    Lease,
    delete,
    elsewhere,
    extend,
    insert,
    last_token,
    next_token,
    of_session,
    of_token,
    overlapping,
    public,
    sweep,
    tell,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

Wanted = tuple[str, str]
#: Shortest and longest time of a lease, in microseconds; characters of a purpose; resources of one call.
SHORTEST, LONGEST, PURPOSE, MOST = 1_000_000, DAY, 500, 256


class Grant:
    """What a session has now: `token` proves it, `is_new` tells whether anything was added.

    `elsewhere` are leases of the same paths in other worktrees, which will meet these in a merge.
    """

    __slots__ = ("elsewhere", "is_new", "leases", "token")

    def __init__(self, token: int, leases: list[Lease], is_new: bool, apart: list[Lease]) -> None:
        self.token = token
        self.leases = leases
        self.is_new = is_new
        self.elsewhere = apart


class Blocked:
    """One resource that was refused: whose it is, what they are about, and what they touched so far.

    Where it is free but others wait for it, `lease` is None and the names are those of the first of them.
    """

    __slots__ = (
        "agent",
        "lease",
        "prompt",
        "prompted",
        "purpose",
        "queue",
        "resource",
        "session",
        "since",
        "touched",
        "until",
    )

    def __init__(self, resource: str, by: Lease | waiters.Waiter, queue: int, until: int) -> None:
        self.resource = resource
        self.lease = by if isinstance(by, Lease) else None
        self.agent, self.session, self.purpose, self.since = by.agent, by.session, by.purpose, by.since
        #: On the wall clock of now, so that it is true also after that was set.
        self.until = until
        self.queue = queue
        self.prompt, self.prompted = "", 0
        self.touched: list[str] = []


class Denial:
    """Why nothing was granted."""

    __slots__ = ("blocked",)

    def __init__(self, blocked: list[Blocked]) -> None:
        self.blocked = blocked


def acquire(
    connection: sqlite3.Connection,
    holder: Holder,
    wanted: Sequence[Wanted],
    ttl: int,
    purpose: str,
    now: Now,
    *,
    proof: int = 0,
    ticket: int = 0,
) -> Grant | Denial:
    """Take all that is wanted, or nothing.

    What the session has already is renewed and keeps its token; `proof` is a token that makes a lease its own too.
    `ticket` is the caller's place in the queue; without one it is a newcomer, and its refusal is left word of.

    Raises:
        UsageError: nothing or too much is wanted, or for too short or long a time, or a name looks like a secret.
    """
    _check(wanted, ttl)
    sweep(connection, now)
    waiters.sweep(connection, now)
    fresh, kept, blocked = _sort(connection, holder, wanted, proof)
    others = waiters.ahead(connection, fresh, holder, ticket, now) if fresh else []
    if blocked or others:
        return _deny(connection, holder, fresh, blocked, others, purpose, ticket, now)
    if ticket:
        waiters.leave(connection, ticket)
    extend(connection, [lease.token for lease in kept], ttl, now)
    token = max((lease.token for lease in kept), default=0)
    if fresh:
        token = _give(connection, holder, fresh, ttl, purpose, now)
    tokens = {token, *(lease.token for lease in kept)}
    held = [lease for one in sorted(tokens) for lease in of_token(connection, one)]
    asked = [lease for lease in held if any(scopes.covers(lease.resource, lease.scope, *item) for item in wanted)]
    return Grant(token, asked, bool(fresh), elsewhere(connection, wanted, now))


def _check(wanted: Sequence[Wanted], ttl: int) -> None:
    if not wanted or len(wanted) > MOST:
        raise UsageError(f"a lease is for 1 to {MOST} paths, not {len(wanted)}", hint="name a folder, or use a pattern")
    if not SHORTEST <= ttl <= LONGEST:
        raise UsageError("a lease is for 1 second to 24 hours", hint="such as 30s, 15m or 2h")
    for resource, _scope in wanted:
        public(resource)


def _sort(
    connection: sqlite3.Connection, holder: Holder, wanted: Sequence[Wanted], proof: int
) -> tuple[list[Wanted], list[Lease], list[tuple[Wanted, Lease]]]:
    """Return what is free, what is the holder's already, and what somebody else has."""
    fresh: list[Wanted] = []
    kept: list[Lease] = []
    blocked: list[tuple[Wanted, Lease]] = []
    for item in dict.fromkeys(wanted):
        found = overlapping(connection, *item)
        theirs = [lease for lease in found if not lease.belongs(holder, proof)]
        ours = [lease for lease in found if scopes.covers(lease.resource, lease.scope, *item)]
        if theirs:
            blocked.append((item, theirs[0]))
        elif ours:
            kept += ours
        else:
            fresh.append(item)
    return fresh, kept, blocked


def _give(
    connection: sqlite3.Connection, holder: Holder, fresh: Sequence[Wanted], ttl: int, purpose: str, now: Now
) -> int:
    """Write down new leases under one new token, leave word, and return the token."""
    token = next_token(connection)
    leases = _grant(connection, holder, fresh, token, ttl, purpose, now)
    tell(connection, "lease_acquired", leases, now, token=token, until=now.wall + ttl)
    return token


def _grant(
    connection: sqlite3.Connection,
    holder: Holder,
    fresh: Sequence[Wanted],
    token: int,
    ttl: int,
    purpose: str,
    now: Now,
) -> list[Lease]:
    leases = []
    for resource, scope in fresh:
        when = (now.wall, now.wall + ttl, now.boot, now.ticks + ttl, ttl)
        lease = Lease((resource, scope, token, holder.agent, holder.session, purpose[:PURPOSE], *when))
        insert(connection, lease)
        leases.append(lease)
    return leases


def _deny(
    connection: sqlite3.Connection,
    holder: Holder,
    fresh: Sequence[Wanted],
    blocked: Sequence[tuple[Wanted, Lease]],
    others: Sequence[waiters.Waiter],
    purpose: str,
    ticket: int,
    now: Now,
) -> Denial:
    """Gather what the refused has to know, and leave word of it once."""
    queue = waiters.queue(connection, now)
    facts = []
    for item, lease in blocked:
        waiting = sum(waiter.ticket != ticket and waiter.wants([item]) for waiter in queue)
        facts.append(Blocked(item[0], lease, waiting, now.wall + lease.left(now)))
    for item in fresh if not blocked else ():
        first = next((waiter for waiter in others if waiter.wants([item])), None)
        if first:
            waiting = sum(waiter.wants([item]) for waiter in others)
            facts.append(Blocked(item[0], first, waiting, 0))
    for fact in facts:
        fact.prompt, fact.prompted = intents.prompt_of(connection, fact.agent, fact.session)
        fact.touched = intents.touched(connection, fact.agent, fact.session)
        if not ticket:
            told = {"purpose": fact.purpose, "prompt": fact.prompt, "wanted_for": purpose[:PURPOSE]}
            told["token"] = fact.lease.token if fact.lease else 0  # type: ignore[assignment]
            if fact.lease and fact.lease.scope == scopes.FILE:
                told["about"] = fact.lease.resource  # Who wanted a whole folder was refused over this one file.
            who, whose = (holder.agent, holder.session), (fact.agent, fact.session)
            outbox.contend(connection, who, whose, fact.resource, now, told)
    return Denial(facts)


def is_turn(
    connection: sqlite3.Connection, holder: Holder, wanted: Sequence[Wanted], ticket: int, now: Now
) -> bool:
    """Tell, without changing anything, whether a waiter had better try again."""
    waiter = waiters.find(connection, ticket)
    if waiter is None or waiter.granted:
        return True
    for item in wanted:
        for lease in overlapping(connection, *item):
            if lease.left(now) > 0 and not lease.belongs(holder):
                return False
    return not waiters.ahead(connection, wanted, holder, ticket, now)


def renew(
    connection: sqlite3.Connection,
    holder: Holder,
    now: Now,
    *,
    token: int = 0,
    resources: Sequence[Wanted] = (),
    ttl: int = 0,
) -> list[Lease]:
    """Let leases hold on: those of a token, those of the session that cover these resources, or all of the session.

    Without a `ttl` each is renewed for as long as it was given for.

    Raises:
        Conflict: one is not held any more, or is somebody else's; then none is renewed.
        UsageError: a session without a name has no leases but by their token.
    """
    sweep(connection, now)
    if token:
        leases = check(connection, token, holder, now)
    else:
        leases = _own(connection, holder, resources, _lose)
        if not leases:
            raise Conflict("this session holds no lease", hint=_AGAIN, reason="lease_lost")
    for each in {lease.token: lease for lease in leases}.values():
        extend(connection, [each.token], ttl or each.ttl, now)
    tokens = sorted({lease.token for lease in leases})
    return [lease for each in tokens for lease in of_token(connection, each)]


_AGAIN = "run 'bede lease acquire' before the next edit, and look at what changed meanwhile"


def _lose(resource: str) -> None:
    raise Conflict(f"the lease of {resource} is lost", hint=_AGAIN, reason="lease_lost", resource=resource)


def _own(
    connection: sqlite3.Connection,
    holder: Holder,
    resources: Sequence[Wanted],
    missing: Callable[[str], None] = lambda _resource: None,
) -> list[Lease]:
    """Return the session's leases that cover these resources, or all of them; `missing` hears of what none covers."""
    if not holder.session:
        raise UsageError(
            "nothing tells which session this is, so only a token proves a lease",
            hint="give the token that 'acquire' returned, or --session",
        )
    held = of_session(connection, holder)
    if not resources:
        return held
    found: dict[Wanted, Lease] = {}
    for item in resources:
        fitting = [lease for lease in held if scopes.covers(lease.resource, lease.scope, *item)]
        found.update({(lease.resource, lease.scope): lease for lease in fitting})
        if not fitting:
            missing(item[0])
    return list(found.values())


def release(
    connection: sqlite3.Connection,
    holder: Holder,
    now: Now,
    *,
    token: int = 0,
    resources: Sequence[Wanted] = (),
) -> list[Lease]:
    """Give back leases: those of a token, those of the session that cover these resources, or all of the session.

    Returns what was given back; nothing where it was gone already.

    Raises:
        Conflict: the token is somebody else's, or was never given.
        UsageError: a session without a name has no leases but by their token.
    """
    sweep(connection, now)
    named = check(connection, token, holder, now, is_lax=True) if token else None
    leases = _own(connection, holder, resources) if named is None else named
    if leases:
        delete(connection, leases)
        tell(connection, "lease_released", leases, now, token=max(lease.token for lease in leases))
    return leases


def handover(
    connection: sqlite3.Connection, holder: Holder, token: int, now: Now, to: Holder | None = None
) -> tuple[Holder, list[Lease]]:
    """Pass what a token holds to a session that is named, with the time that is left, or to the next in the queue.

    The next gets all that it waits for, as soon as it looks; if some of that is still somebody else's, it keeps its
    place before all who come later. The receiver has a new token, and the old one is worth nothing any more.

    Raises:
        Conflict: the token holds nothing, is somebody else's, or nobody waits; or its session would go on holding some
            of the same files by another grant.
    """
    sweep(connection, now)
    waiters.sweep(connection, now)
    leases = check(connection, token, holder, now)
    _check_whole(connection, leases)
    if to:
        taken, fresh = _pass_to(connection, leases, to, now)
    else:
        to, taken, fresh = _pass_on(connection, leases, now)
    names = {"to": to.agent, "to_session": to.session, "to_token": fresh[0].token if fresh else 0}
    tell(connection, "lease_handed_over", taken, now, token=token, **names)
    return to, fresh


def _check_whole(connection: sqlite3.Connection, leases: Sequence[Lease]) -> None:
    giver = Holder(leases[0].agent, leases[0].session)
    for other in of_session(connection, giver):
        same = any(scopes.overlap(other.resource, other.scope, one.resource, one.scope) for one in leases)
        if same and other.token != leases[0].token:
            raise Conflict(
                f"the same session holds {other.resource} by token {other.token}, with files of this one in it",
                hint=f"release token {other.token} first, or hand that over",
                reason="overlaps",
                token=other.token,
            )


def _pass_to(
    connection: sqlite3.Connection, leases: Sequence[Lease], to: Holder, now: Now
) -> tuple[Sequence[Lease], list[Lease]]:
    delete(connection, leases)
    token = next_token(connection)
    fresh = [
        Lease((old.resource, old.scope, token, to.agent, to.session, old.purpose, now.wall, *_when(old, now)))
        for old in leases
    ]
    for lease in fresh:
        insert(connection, lease)
    return leases, fresh


def _when(old: Lease, now: Now) -> tuple[int, str, int, int]:
    left = old.left(now)
    return now.wall + left, now.boot, now.ticks + left, old.ttl


def _pass_on(
    connection: sqlite3.Connection, leases: Sequence[Lease], now: Now
) -> tuple[Holder, list[Lease], list[Lease]]:
    named = [(lease.resource, lease.scope) for lease in leases]
    waiter = next((one for one in waiters.queue(connection, now) if not one.granted and one.wants(named)), None)
    if waiter is None:
        raise Conflict("nobody waits for it", hint="'bede lease release' gives it back", reason="nobody_waits")
    to = Holder(waiter.agent, waiter.session)
    taken = [lease for lease in leases if waiter.wants([(lease.resource, lease.scope)])]
    delete(connection, taken)
    fresh, _, blocked = _sort(connection, to, waiter.wanted, 0)
    if blocked or not fresh or waiters.ahead(connection, fresh, to, waiter.ticket, now):
        return to, taken, []
    token = next_token(connection)
    # Held for it no longer than it can be silent: it may have been killed a moment ago.
    given = _grant(connection, to, fresh, token, waiters.ALIVE, waiter.purpose, now)
    waiters.grant(connection, waiter.ticket, token)
    return to, taken, given


def check(
    connection: sqlite3.Connection, token: int, holder: Holder, now: Now, *, is_lax: bool = False
) -> list[Lease]:
    """Return what a token holds for this holder now; the proof of a fenced append.

    Where both sessions are known they must be one, else the agents must be. With `is_lax` a lease that is over is no
    fault, and nothing is returned.

    Raises:
        Conflict: with the reason `unknown_token`, `lease_lost` or `not_holder`.
    """
    leases = [lease for lease in of_token(connection, token) if lease.left(now) > 0]
    if not leases:
        if not 0 < token <= last_token(connection):
            raise Conflict(f"no lease was ever given token {token}", hint=_LIST, reason="unknown_token")
        if is_lax:
            return []
        raise Conflict(f"the lease of token {token} is lost", hint=_AGAIN, reason="lease_lost", token=token)
    first = leases[0]
    is_known = bool(holder.session and first.session)
    if holder.session != first.session if is_known else holder.agent != first.agent:
        whose = {"agent_id": first.agent, "session": first.session}
        raise Conflict(f"token {token} is {first.agent}'s", hint=_LIST, reason="not_holder", holder=whose)
    return leases


_LIST = "'bede lease list' shows who holds what"
