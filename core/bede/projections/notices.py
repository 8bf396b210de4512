"""Notices as rows, and how far the exchange of them with other machines has come.

A notice belongs to the whole project: no branch, fork or rollback touches it. Its words stay in its event; rows say
what it is about and until when it holds. Rows are kept for each event and brought together when they are read, so that
the order in which events arrive, here or out of somebody's bundle, makes no difference.

A bundle may say anything in anybody's name, and so may a file that nobody signed. What they brought is shown, as from
elsewhere, but it is no word of the exchange: it vouches for no machine, counts as no step, and changes nothing of a
machine's notice that came signed or was posted here.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import attrgetter
from typing import Any, Literal

from bede.errors import BedeError
from bede.identity import canonical, instant, timestamp
from bede.quick import dataclass, replace
from bede.records import Event
from bede.repository import journal

NOTICE, CLEARED, STEP = "notice", "notice_cleared", "exchange"
Status = Literal["active", "stale", "cleared"]

#: The shapes of `memkernel.notices/v1`, so that what is posted here can be read there.
ID = re.compile(r"(?:([a-z0-9][a-z0-9_-]{0,63}):)?[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
RESOURCE = re.compile(r"[a-z][a-z0-9_.-]{0,31}:[A-Za-z0-9][A-Za-z0-9._/-]{0,191}")
AUTHOR = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}")
#: Characters of a message.
LONGEST = 4096
#: The last moment that every reader's calendar has, in microseconds since 1970.
_LAST = 253_402_300_799_999_999
_BATCH = 500

_TABLES = (
    """CREATE TABLE IF NOT EXISTS notice (      -- derived: one row an event
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  author TEXT NOT NULL,
  resource TEXT NOT NULL,
  peer TEXT NOT NULL,           -- the machine whose signature brought it, '' for none
  created_at INTEGER NOT NULL,  -- microseconds since 1970, UTC
  expires_at INTEGER NOT NULL,
  digest BLOB NOT NULL,         -- of what never changes in it
  mark TEXT NOT NULL,           -- stands for the words it came with, where a secret was taken out; else ''
  unsigned INTEGER NOT NULL     -- 1 where a file brought it that nobody signed
) STRICT""",
    """CREATE TABLE IF NOT EXISTS notice_clearing (  -- derived: one row an event
  id TEXT NOT NULL,
  at INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  unsigned INTEGER NOT NULL,
  PRIMARY KEY (id, at, seq)
) STRICT, WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS exchange_step (    -- derived: one row an event
  seq INTEGER PRIMARY KEY,
  self TEXT NOT NULL,           -- as which peer this machine took part
  peer TEXT NOT NULL,           -- whom it was about
  outcome TEXT NOT NULL,
  reason TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  digest TEXT NOT NULL,         -- of the document
  sent_at INTEGER NOT NULL,     -- microseconds since 1970, UTC; 0 for none
  at INTEGER NOT NULL
) STRICT""",
)


@dataclass(frozen=True, slots=True)
class Notice:
    """What one notice says. All but `cleared_at` never changes; times are microseconds since 1970, UTC."""

    id: str
    author: str
    resource: str
    message: str
    created_at: int
    expires_at: int
    cleared_at: int | None = None

    def digest(self) -> bytes:
        """Return what stands for all that never changes."""
        said = [self.id, self.author, self.resource, self.message, self.created_at, self.expires_at]
        return hashlib.sha256(canonical(said)).digest()

    def status(self, now: int) -> Status:
        """Tell whether it holds; what expired is stale, which only its author can say more about."""
        return _status(self.cleared_at, self.expires_at, now)


@dataclass(frozen=True, slots=True)
class Posted:
    """A notice as its rows tell it; its words are in its event."""

    seq: int
    id: str
    author: str
    resource: str
    peer: str
    created_at: int
    expires_at: int
    digest: bytes
    mark: str
    cleared_at: int | None
    #: Whether a bundle or an unsigned file brought it, so that nobody here vouches for it. What no machine can have
    #: signed is not looked up in the journal for this: `brought` does.
    brought: bool = False

    @property
    def is_vouched(self) -> bool:
        """Whether it is a machine's word in the exchange: it came signed, or was posted here for it."""
        return ":" in self.id and not self.brought

    def with_message(self, message: str) -> Notice:
        """Return all of it."""
        return Notice(self.id, self.author, self.resource, message, self.created_at, self.expires_at, self.cleared_at)

    def status(self, now: int) -> Status:
        """Tell whether it holds."""
        return _status(self.cleared_at, self.expires_at, now)


def _status(cleared_at: int | None, expires_at: int, now: int) -> Status:
    if cleared_at is not None:
        return "cleared"
    return "stale" if expires_at <= now else "active"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an exchange: something published, accepted, refused, pinned or revoked."""

    seq: int
    outcome: str
    reason: str
    sequence: int
    digest: str
    sent_at: int
    at: int


class Notices:
    """The projection of notices and of the exchange."""

    name = "notices"
    version = 3

    def create(self, connection: sqlite3.Connection) -> None:
        """Leave it to the first notice, as most projects have none."""

    def drop(self, connection: sqlite3.Connection) -> None:
        """Remove the tables."""
        for table in ("notice", "notice_clearing", "exchange_step"):
            connection.execute(f"DROP TABLE IF EXISTS {table}")

    def follow(self, connection: sqlite3.Connection, events: Sequence[Event]) -> None:
        """Take in notices, clearings and steps; a body of another shape, which no verb here writes, says nothing."""
        for statement in _TABLES:
            connection.execute(statement)
        for event in events:
            take = _TAKE.get(event.kind)
            if take and event.body:
                take(connection, event, event.body)

    def forget(self, connection: sqlite3.Connection, events: Sequence[Event]) -> None:
        """Remove what these events said."""
        if not _is_laid(connection):
            return
        seqs = [(event.seq,) for event in events]
        for table in ("notice", "notice_clearing", "exchange_step"):
            connection.executemany(f"DELETE FROM {table} WHERE seq = ?", seqs)


def body_of(notice: Notice) -> dict[str, Any]:
    """Return what the event of a notice says."""
    return {
        "notice_id": notice.id,
        "author": notice.author,
        "resource": notice.resource,
        "message": notice.message,
        "created_at": timestamp(notice.created_at),
        "expires_at": timestamp(notice.expires_at),
    }


def told(body: Mapping[str, Any]) -> Notice | None:
    """Return the notice that an event's body tells, None where it is none of ours."""
    said = [body.get(name) for name in ("notice_id", "author", "resource", "message")]
    if not all(isinstance(text, str) for text in said):
        return None
    identity, author, resource, message = map(str, said)
    if not (ID.fullmatch(identity) and AUTHOR.fullmatch(author) and RESOURCE.fullmatch(resource)):
        return None
    created, expires = _moment(body.get("created_at")), _moment(body.get("expires_at"))
    if not 0 < len(message) <= LONGEST or created is None or expires is None or expires <= created:
        return None
    return Notice(identity, author, resource, message, created, expires)


def _moment(text: object) -> int | None:
    try:
        found = instant(text, 0) if isinstance(text, str) and len(text) <= 40 and "T" in text else -1
    except (BedeError, OverflowError):
        return None
    return found if 0 <= found <= _LAST else None


def _take_notice(connection: sqlite3.Connection, event: Event, body: dict[str, Any]) -> None:
    notice, peer, mark = told(body), body.get("peer", ""), body.get("mark", "")
    if notice is None or not isinstance(peer, str) or not isinstance(mark, str):
        return
    row = (
        event.seq,
        notice.id,
        notice.author,
        notice.resource,
        peer,
        notice.created_at,
        notice.expires_at,
        notice.digest(),
        mark,
        bool(body.get("unsigned")),
    )
    connection.execute("INSERT INTO notice VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def _take_clearing(connection: sqlite3.Connection, event: Event, body: dict[str, Any]) -> None:
    identity, at = body.get("notice_id"), _moment(body.get("cleared_at"))
    if isinstance(identity, str) and at is not None:
        row = (identity, at, event.seq, bool(body.get("unsigned")))
        connection.execute("INSERT INTO notice_clearing VALUES (?, ?, ?, ?)", row)


def _take_step(connection: sqlite3.Connection, event: Event, body: dict[str, Any]) -> None:
    texts = [body.get(name, "") for name in ("self", "peer", "outcome", "reason")]
    sequence, digest, sent_at = body.get("sequence", 0), body.get("digest", ""), body.get("sent_at", "")
    if not all(isinstance(text, str) for text in [*texts, digest, sent_at]):
        return
    if isinstance(sequence, int) and 0 <= sequence < 2**63:
        row = (event.seq, *texts, sequence, digest, _moment(sent_at) or 0, event.happened_at)
        connection.execute("INSERT INTO exchange_step VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


_TAKE = {NOTICE: _take_notice, CLEARED: _take_clearing, STEP: _take_step}

_SELECT = (
    "SELECT n.seq, n.id, n.author, n.resource, n.peer, n.created_at, n.expires_at, n.digest, n.mark,"
    " (SELECT min(c.at) FROM notice_clearing c WHERE c.id = n.id), n.unsigned"
    " FROM notice n JOIN event e USING (seq) WHERE "
)


def _is_laid(connection: sqlite3.Connection) -> bool:
    """Tell whether the file has these tables: one without notices has none, nor an older one, open for reading only."""
    query = (
        "SELECT 1 FROM projection p JOIN sqlite_master t ON t.name = 'notice' WHERE p.name = 'notices' AND version = ?"
    )
    return connection.execute(query, (Notices.version,)).fetchone() is not None


def posted(connection: sqlite3.Connection, *, resource: str = "", cleared: bool = False) -> list[Posted]:
    """Return the notices there are, in the order of their ids; cleared ones only where they are asked for."""
    if not _is_laid(connection):
        return []
    where = "n.id IN (SELECT id FROM notice WHERE resource = ?)" if resource else "1"
    if not cleared:  # Whose clearing counts of a machine's notice is seen below.
        where += " AND (instr(n.id, ':') OR NOT EXISTS (SELECT 1 FROM notice_clearing c WHERE c.id = n.id))"
    values = (resource,) if resource else ()
    found = _whole(connection, f"{_SELECT}{where} ORDER BY n.id, e.id", values)
    listed = [item for item in found if cleared or item.cleared_at is None]
    return [item for item in listed if item.resource == resource] if resource else listed


def by_ids(connection: sqlite3.Connection, ids: Iterable[str]) -> dict[str, Posted]:
    """Return those of these notices that there are."""
    wanted = list(dict.fromkeys(ids)) if _is_laid(connection) else []
    found: dict[str, Posted] = {}
    for start in range(0, len(wanted), _BATCH):
        part = wanted[start : start + _BATCH]
        query = f"{_SELECT}n.id IN ({','.join('?' * len(part))}) ORDER BY n.id, e.id"
        found.update((item.id, item) for item in _whole(connection, query, part))
    return found


def starting_with(connection: sqlite3.Connection, prefix: str, limit: int) -> list[str]:
    """Return at most `limit` ids that begin so, or whose part behind the peer's name does."""
    if not _is_laid(connection):
        return []
    query = (
        "SELECT DISTINCT id FROM notice WHERE substr(id, 1, ?) = ? OR substr(id, instr(id, ':') + 1, ?) = ?"
        " ORDER BY id LIMIT ?"
    )
    size = len(prefix)
    return [row[0] for row in connection.execute(query, (size, prefix, size, prefix, limit))]


def _whole(connection: sqlite3.Connection, query: str, values: Sequence[str]) -> Iterator[Posted]:
    """Yield one of each id: two machines may have told it, and what was told here counts, else the smaller event id."""
    is_brought = journal.brought(connection)
    rows = [Posted(*row) for row in connection.execute(query, values)]
    for identity, group in groupby(rows, attrgetter("id")):
        same = list(group)
        is_plain = ":" not in identity and len(same) == 1 and not same[0].peer
        if not is_plain:
            same = [
                replace(item, brought=True, peer="") if item.brought or is_brought(item.seq) else item for item in same
            ]
        found = min(same, key=attrgetter("brought"))
        if found.cleared_at is not None and found.is_vouched:
            query = "SELECT at, seq FROM notice_clearing WHERE id = ? AND NOT unsigned ORDER BY at"
            clearings = connection.execute(query, (identity,))
            found = replace(found, cleared_at=next((at for at, seq in clearings if not is_brought(seq)), None))
        yield found


def brought(connection: sqlite3.Connection, items: Iterable[Posted]) -> set[str]:
    """Return the ids of those that a bundle or an unsigned file brought, so that nobody here vouches for them."""
    is_brought = journal.brought(connection)
    return {item.id for item in items if item.brought or is_brought(item.seq)}


def accepted(connection: sqlite3.Connection, self: str, peer: str) -> Step | None:
    """Return the step with the highest sequence that was published or accepted since the peer was pinned last."""
    pinned = _step(connection, "outcome = 'pinned' ORDER BY seq DESC", self, peer)
    return _step(
        connection,
        "outcome IN ('published', 'accepted') AND sequence > 0 AND seq > ?3 ORDER BY sequence DESC, seq DESC",
        self,
        peer,
        pinned.seq if pinned else 0,
    )


def newest(connection: sqlite3.Connection, self: str, peer: str) -> Step | None:
    """Return the last step with a peer, whatever came of it."""
    return _step(connection, "1 ORDER BY seq DESC", self, peer)


def _step(connection: sqlite3.Connection, rest: str, *values: object) -> Step | None:
    """Return the first of the steps that were taken here; those that a bundle tells of were not."""
    if not _is_laid(connection):
        return None
    query = (
        "SELECT seq, outcome, reason, sequence, digest, sent_at, at FROM exchange_step"
        f" WHERE self = ?1 AND peer = ?2 AND {rest}"
    )
    is_brought = journal.brought(connection)
    rows = connection.execute(query, values)
    return next((Step(*row) for row in rows if not is_brought(row[0])), None)


def steps(connection: sqlite3.Connection, self: str, limit: int) -> list[int]:
    """Return the events of the newest steps that were taken here, newest first."""
    if not _is_laid(connection):
        return []
    query = "SELECT seq FROM exchange_step WHERE self = ? ORDER BY seq DESC"
    is_brought = journal.brought(connection)
    rows = connection.execute(query, (self,))
    return list(islice((row[0] for row in rows if not is_brought(row[0])), limit))
