"""Leases as rows: reading them, taking away those whose time is over, numbering grants.

A lease belongs to an agent's session. Where no session is known it belongs to whoever knows its token.
"""

from __future__ import annotations

from bede.errors import UsageError
from bede.leases import outbox, scopes
from bede.leases.clock import DAY, Now, left

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence
    from typing import Any

COLUMNS = "resource, scope, token, agent, session, purpose, since, until, boot, ends, ttl"
#: Characters that an agent's or a session's name may have.
LONGEST_NAME = 256
#: Marks in names beside letters and digits; how long a part of one may be that no secret is; what a UUID is made of.
_MARKS, _SHORT, _UUID = str.maketrans("", "", "/_.-@"), 19, frozenset("0123456789abcdef-")


def public(name: str) -> str:
    """Return a name of a session, an agent or a file that may lie on the disk as it is.

    Raises:
        UsageError: it looks like a secret.
    """
    if not _is_plain(name):
        from bede.redact import redact

        if (shown := redact(name)) != name:
            hint = "leases lie on the disk as they are: choose another"
            raise UsageError(f"a name that looks like a secret: {shown}", hint=hint)
    return name


def _is_plain(name: str) -> bool:
    """Tell whether a name is surely no secret, so that a hook need not load what knows them; a law holds it to that."""
    letters = name.translate(_MARKS)
    if not letters.isascii() or not (letters.isalnum() or not letters):
        return False
    if len(name) == 36 and name.count("-") == 4 and _UUID.issuperset(name):
        return True
    return all(len(part) <= _SHORT or _is_words(part) for part in name.replace("@", "/").split("/"))


def _is_words(part: str) -> bool:
    """Tell whether a part of a path is made of small letters alone; one vendor's secrets are, and begin so."""
    bare = part.translate(_MARKS)
    return bare.isalpha() and bare.islower() and not part.startswith(("hf_", "api_org_"))


class Holder:
    """An agent in one of its sessions; `session` is empty where none is known.

    Raises:
        UsageError: a name is missing, too long, has characters that no name has, or looks like a secret.
    """

    __slots__ = ("agent", "session")

    def __init__(self, agent: str, session: str = "") -> None:
        for what, name in (("agent", agent), ("session", session)):
            if len(name) > LONGEST_NAME or not name.isprintable() or (what == "agent" and not name):
                raise UsageError(f"no {what} has such a name: {name[:80]!a}", hint="use letters, digits and ._@:+-")
            public(name)
        self.agent = agent
        self.session = session


class Lease:
    """One resource that is held; times as in `clock`."""

    __slots__ = (
        "agent",
        "boot",
        "ends",
        "purpose",
        "resource",
        "scope",
        "session",
        "since",
        "token",
        "ttl",
        "until",
    )

    def __init__(self, row: tuple[Any, ...]) -> None:
        self.resource: str = row[0]
        self.scope: str = row[1]
        self.token: int = row[2]
        self.agent: str = row[3]
        self.session: str = row[4]
        self.purpose: str = row[5]
        self.since: int = row[6]
        self.until: int = row[7]
        self.boot: str = row[8]
        self.ends: int = row[9]
        self.ttl: int = row[10]

    def left(self, now: Now) -> int:
        """Return the microseconds that remain; 0 or less when it is over."""
        return left(now, self.boot, self.ends, self.until, self.ttl)

    def belongs(self, holder: Holder, proof: int = 0) -> bool:
        """Tell whether it is this very session's, or `proof` is its token."""
        if proof and self.token == proof:
            return True
        return bool(holder.session) and self.session == holder.session and self.agent == holder.agent


def is_laid(connection: sqlite3.Connection) -> bool:
    """Tell whether the file has the tables of this room; one that an older Bede made gets them from the next writer."""
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'lease_counter'"
    return connection.execute(query).fetchone() is not None


def live(connection: sqlite3.Connection, now: Now) -> list[Lease]:
    """Return every lease that holds now, by resource."""
    rows = connection.execute(f"SELECT {COLUMNS} FROM lease ORDER BY resource, scope")
    return [lease for lease in map(Lease, rows) if lease.left(now) > 0]


def of_token(connection: sqlite3.Connection, token: int) -> list[Lease]:
    """Return what was granted with a token and is still there."""
    return [Lease(row) for row in connection.execute(f"SELECT {COLUMNS} FROM lease WHERE token = ?", (token,))]


def of_session(connection: sqlite3.Connection, holder: Holder) -> list[Lease]:
    """Return what a session holds; nothing for one without a name."""
    if not holder.session:
        return []
    query = f"SELECT {COLUMNS} FROM lease WHERE session = ? AND agent = ?"
    return [Lease(row) for row in connection.execute(query, (holder.session, holder.agent))]


def overlapping(connection: sqlite3.Connection, resource: str, scope: str) -> list[Lease]:
    """Return the leases that may have a file in common with a resource."""
    start = scopes.stem(resource) if scope == scopes.GLOB else resource
    wide = f"SELECT {COLUMNS} FROM lease WHERE scope <> 'file'"
    if scope == scopes.FILE:
        query, values = f"{wide} UNION ALL SELECT {COLUMNS} FROM lease WHERE resource = ? AND scope = 'file'", (start,)
    elif start == ".":
        query, values = f"SELECT {COLUMNS} FROM lease", ()  # type: ignore[assignment]
    else:
        named = "scope = 'file' AND (resource = ? OR (resource > ? AND resource < ?))"
        query = f"{wide} UNION ALL SELECT {COLUMNS} FROM lease WHERE {named}"
        values = (start, f"{start}/", f"{start}0")  # type: ignore[assignment]
    found = map(Lease, connection.execute(query, values).fetchall())
    return [lease for lease in found if scopes.overlap(lease.resource, lease.scope, resource, scope)]


def elsewhere(connection: sqlite3.Connection, wanted: Iterable[tuple[str, str]], now: Now) -> list[Lease]:
    """Return who holds the same path in another worktree: no obstacle now, but a merge to come."""
    found: dict[tuple[str, str], Lease] = {}
    worktrees = f"SELECT {COLUMNS} FROM lease WHERE resource > '@worktree/' AND resource < '@worktree0'"
    apart = [Lease(row) for row in connection.execute(worktrees)]
    for resource, scope in wanted:
        same = scopes.tail(resource)
        if resource != same:
            apart += [lease for lease in overlapping(connection, same, scope) if lease.resource == same]
        for lease in apart:
            if lease.resource != resource and scopes.tail(lease.resource) == same and lease.left(now) > 0:
                found[lease.resource, lease.scope] = lease
    return list(found.values())


def insert(connection: sqlite3.Connection, lease: Lease) -> None:
    """Write down one resource as held."""
    row = [getattr(lease, name) for name in COLUMNS.split(", ")]
    connection.execute(f"INSERT INTO lease ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def extend(connection: sqlite3.Connection, tokens: Iterable[int], ttl: int, now: Now) -> None:
    """Let grants hold for `ttl` from now on, all their resources alike; a time that is longer anyhow stays."""
    ends = now.ticks + ttl
    for token in set(tokens):
        connection.execute(
            "UPDATE lease SET ends = ?, until = ?, ttl = ?, boot = ? WHERE token = ? AND (boot <> ? OR ends < ?)",
            (ends, now.wall + ttl, ttl, now.boot, token, now.boot, ends),
        )


def delete(connection: sqlite3.Connection, leases: Iterable[Lease]) -> None:
    """Take leases away."""
    named = [(lease.resource, lease.scope) for lease in leases]
    connection.executemany("DELETE FROM lease WHERE resource = ? AND scope = ?", named)


def sweep(connection: sqlite3.Connection, now: Now) -> None:
    """Take away what is over, and leave word of it; called by whatever is about to decide something.

    What is left of before a restart is counted by this start's clock from now on: the wall clock decides only once.
    """
    if now.boot:
        query = f"SELECT {COLUMNS} FROM lease WHERE boot <> ? OR ends <= ? OR ends > ?"
        rows = connection.execute(query, (now.boot, now.ticks, now.ticks + DAY)).fetchall()
    else:
        rows = connection.execute(f"SELECT {COLUMNS} FROM lease").fetchall()
    over: dict[int, list[Lease]] = {}
    for lease in map(Lease, rows):
        if (rest := lease.left(now)) <= 0:
            over.setdefault(lease.token, []).append(lease)
        elif lease.boot != now.boot or lease.ends > now.ticks + rest:
            _count_anew(connection, lease, rest, now)
    for token, leases in over.items():
        delete(connection, leases)
        tell(connection, "lease_expired", leases, now, token=token, until=leases[0].until)


def _count_anew(connection: sqlite3.Connection, lease: Lease, rest: int, now: Now) -> None:
    connection.execute(
        "UPDATE lease SET boot = ?, ends = ?, until = ? WHERE resource = ? AND scope = ?",
        (now.boot, now.ticks + rest, now.wall + rest, lease.resource, lease.scope),
    )


def tell(connection: sqlite3.Connection, kind: str, leases: Sequence[Lease], now: Now, **more: Any) -> None:
    """Leave word of what became of one holder's leases."""
    first = leases[0]
    body = {"resources": sorted(lease.resource for lease in leases), "purpose": first.purpose, **more}
    outbox.put(connection, kind, first.agent, first.session, now, body)


def last_token(connection: sqlite3.Connection) -> int:
    """Return the newest token that was ever given, 0 when none was."""
    row = connection.execute("SELECT token FROM lease_counter").fetchone()
    return int(row[0]) if row else 0


def next_token(connection: sqlite3.Connection) -> int:
    """Return a token greater than every one before it."""
    connection.execute("UPDATE lease_counter SET token = token + 1")
    return last_token(connection)
