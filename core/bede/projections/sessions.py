"""Agents' sessions as rows: whose they are, their turns in order, and which files a turn changed.

A turn's text stays in its event; a row says where. A turn that was still open when it was read is told again by a later
event of the same key, which takes its place. Sessions belong to no branch of thought: every view sees them.
The windows over the turns are `panes`' business.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bede.projections import panes
from bede.records import Event
from bede.repository import log
from bede.turns import text_of

#: What a session event may tell; what it does not tell stays as it was.
FIELDS = ("version", "model", "cwd", "branch", "parent", "origin", "title")

_TABLES = (
    """CREATE TABLE session (     -- derived
  id INTEGER PRIMARY KEY,
  agent TEXT NOT NULL,
  name TEXT NOT NULL,           -- the session's id, as its agent spells it
  version TEXT NOT NULL DEFAULT '',
  model TEXT NOT NULL DEFAULT '',
  cwd TEXT NOT NULL DEFAULT '',
  branch TEXT NOT NULL DEFAULT '',
  parent TEXT NOT NULL DEFAULT '',
  origin TEXT NOT NULL DEFAULT '',
  title TEXT NOT NULL DEFAULT '',
  first INTEGER,                -- microseconds since 1970 (UTC) of its first and last turn; NULL where no time is told
  last INTEGER,
  turns INTEGER NOT NULL DEFAULT 0,
  UNIQUE (agent, name)
) STRICT""",
    """CREATE TABLE turn (        -- derived
  id INTEGER PRIMARY KEY,
  session INTEGER NOT NULL,
  n INTEGER NOT NULL,           -- its place in the session, from 1
  key BLOB NOT NULL,            -- 8 bytes of the hash of its key
  origin BLOB,                  -- the same of what is equal in a copy of it elsewhere
  seq INTEGER NOT NULL,         -- the event that tells it, the newest where several do
  by TEXT NOT NULL,             -- a speaker, or 'assistant'
  at INTEGER,                   -- microseconds since 1970 (UTC)
  size INTEGER NOT NULL,        -- characters
  start INTEGER NOT NULL,       -- token of the session at which it begins, once it stands in windows
  tokens INTEGER NOT NULL,
  side INTEGER NOT NULL,        -- 1 for what was said between agents
  waits INTEGER NOT NULL,       -- 1 until it stands in windows
  rewound INTEGER NOT NULL,     -- 1 where the session went back behind it
  UNIQUE (session, n)
) STRICT""",
    "CREATE UNIQUE INDEX turn_key ON turn (session, key)",
    "CREATE INDEX turn_origin ON turn (origin) WHERE origin IS NOT NULL",
    "CREATE INDEX turn_waits ON turn (session, n) WHERE waits = 1",
    """CREATE TABLE touched (     -- derived: which files a turn changed, as the agent spells them
  path TEXT NOT NULL,
  turn INTEGER NOT NULL,
  PRIMARY KEY (path, turn)
) STRICT, WITHOUT ROWID""",
)


def short(text: str) -> bytes:
    """Return what stands for a key in a row."""
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()[:8]


class Sessions:
    """The projection of sessions and turns."""

    name = "sessions"
    version = 1

    def create(self, connection: sqlite3.Connection) -> None:
        """Lay the empty tables."""
        for statement in _TABLES:
            connection.execute(statement)
        panes.create(connection)

    def drop(self, connection: sqlite3.Connection) -> None:
        """Remove the tables."""
        panes.drop(connection)
        for table in ("session", "turn", "touched"):
            connection.execute(f"DROP TABLE IF EXISTS {table}")

    def follow(self, connection: sqlite3.Connection, events: Sequence[Event]) -> None:
        """Take in what was said in sessions among these events."""
        for event in events:
            if event.kind in _TAKE and event.body and "session" in event.body:
                _TAKE[event.kind](connection, event, event.body)

    def forget(self, connection: sqlite3.Connection, events: Sequence[Event]) -> None:
        """Take what these turns said out of the windows; that they were stays."""
        for event in (event for event in events if event.kind == "turn"):
            row = connection.execute("SELECT id, session, n FROM turn WHERE seq = ?", (event.seq,)).fetchone()
            if row:
                panes.cut(connection, row[1], row[2], thoroughly=True)
                connection.execute("DELETE FROM touched WHERE turn = ?", row[:1])
                connection.execute("UPDATE turn SET size = 0 WHERE id = ?", row[:1])

    def gather(self, connection: sqlite3.Connection) -> panes.Gathered | None:
        """Cut what waits into windows, when it is worth a batch."""
        return panes.gather(connection)

    def settle(self, connection: sqlite3.Connection, gathered: panes.Gathered) -> bool:
        """Index the windows, unless something changed meanwhile; tell whether it was done."""
        return panes.settle(connection, gathered)


def number(connection: sqlite3.Connection, agent: str, name: str) -> int:
    """Return the number of a session, giving it one where it has none."""
    found = find(connection, agent, name)
    if found is None:
        insert = "INSERT INTO session (agent, name) VALUES (?, ?)"
        found = connection.execute(insert, (agent, name)).lastrowid or 0
    return found


def find(connection: sqlite3.Connection, agent: str, name: str) -> int | None:
    """Return the number of a session, None where it is unknown."""
    row = connection.execute("SELECT id FROM session WHERE agent = ? AND name = ?", (agent, name)).fetchone()
    return row[0] if row else None


def _session(connection: sqlite3.Connection, event: Event, body: dict[str, Any]) -> None:
    session = number(connection, event.actor, body["session"])
    told = {name: str(body[name]) for name in FIELDS if body.get(name)}
    for name in ("cwd", "branch", "parent", "origin"):  # Where it began stays; where it went later is in its turns.
        if name in told:
            query = f"UPDATE session SET {name} = ? WHERE id = ? AND {name} = ''"
            connection.execute(query, (told.pop(name), session))
    if told:
        names = ", ".join(f"{name} = ?" for name in told)
        connection.execute(f"UPDATE session SET {names} WHERE id = ?", (*told.values(), session))


def _turn(connection: sqlite3.Connection, event: Event, body: dict[str, Any]) -> None:
    session, key = number(connection, event.actor, body["session"]), short(body["key"])
    row = connection.execute("SELECT id, n FROM turn WHERE session = ? AND key = ?", (session, key)).fetchone()
    size, at = len(text_of(body)), body.get("at")
    if row:
        turn = row[0]
        panes.cut(connection, session, row[1])
        query = "UPDATE turn SET seq = ?, at = ?, size = ? WHERE id = ?"
        connection.execute(query, (event.seq, at, size, turn))
        connection.execute("DELETE FROM touched WHERE turn = ?", (turn,))
    else:
        origin = short(origin_of(body)) if body.get("origin") else None
        connection.execute("UPDATE session SET turns = turns + 1 WHERE id = ?", (session,))
        turn = connection.execute(
            "INSERT INTO turn (session, n, key, origin, seq, by, at, size, side, start, tokens, waits, rewound)"
            " SELECT id, turns, ?, ?, ?, ?, ?, ?, ?, 0, 0, 1, 0 FROM session WHERE id = ?",
            (key, origin, event.seq, body["by"], at, size, int(bool(body.get("side"))), session),
        ).lastrowid
    if at is not None:
        query = (
            "UPDATE session SET first = min(coalesce(first, ?1), ?1), last = max(coalesce(last, ?2), ?2) WHERE id = ?3"
        )
        connection.execute(query, (at, body.get("until", at), session))
    rows = [(path, turn) for path in changed(body)]
    connection.executemany("INSERT OR IGNORE INTO touched VALUES (?, ?)", rows)


def origin_of(turn: dict[str, Any]) -> str:
    """Return what is the same in a copy of a turn in another session, '' where nothing is."""
    origin = str(turn.get("origin", ""))
    return str(turn["key"]) if origin == "=" else origin


def changed(turn: dict[str, Any]) -> Iterable[str]:
    """Return the files that a turn's calls changed; what was refused or failed changed none."""
    for part in turn["parts"]:
        if part.get("ok") is not False and not part.get("denied"):
            for edit in (*part.get("edits", ()), *part.get("changed", ())):
                yield from (path for path in (edit.get("path"), edit.get("moved_to")) if path)


def _rewind(connection: sqlite3.Connection, event: Event, body: dict[str, Any]) -> None:
    session = number(connection, event.actor, body["session"])
    if body.get("whole"):
        connection.execute("UPDATE turn SET rewound = 0 WHERE session = ?", (session,))
    rows = [(session, short(key)) for key in body.get("keys", ())]
    connection.executemany("UPDATE turn SET rewound = 1 WHERE session = ? AND key = ?", rows)


_TAKE = {"session": _session, "turn": _turn, "rewind": _rewind}


def bodies(connection: sqlite3.Connection, turns: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Return what turns say, by their number; those that were purged are left out."""
    found: dict[int, dict[str, Any]] = {}
    for start in range(0, len(turns), 500):
        part = turns[start : start + 500]
        rows = connection.execute(
            f"SELECT t.id, e.body FROM turn t JOIN event e USING (seq) WHERE t.id IN ({','.join('?' * len(part))})",
            part,
        )
        found.update({turn: body for turn, stored in rows if (body := log.body(stored)) is not None})
    return found


@dataclass(frozen=True, slots=True)
class Wanted:
    """What turns are narrowed to; empty fields ask for nothing. `path` is the end of a changed file's path."""

    agent: str = ""
    session: str = ""
    branch: str = ""
    path: str = ""
    since: int | None = None
    until: int | None = None
    is_side: bool | None = None
    with_rewound: bool = False


def _where(wanted: Wanted) -> tuple[str, list[Any]]:
    clause, values = "", list[Any]()
    bounds: tuple[tuple[str, Any], ...] = (
        ("s.agent = ?", wanted.agent or None),
        ("s.name = ?", wanted.session or None),
        ("s.branch = ?", wanted.branch or None),
        ("t.at >= ?", wanted.since),
        ("t.at < ?", wanted.until),
        ("t.side = ?", wanted.is_side),
    )
    for column, bound in bounds:
        if bound is not None:
            clause += f" AND {column}"
            values.append(bound)
    if not wanted.with_rewound:
        clause += " AND t.rewound = 0"
    if wanted.path:
        clause += " AND EXISTS (SELECT 1 FROM touched c WHERE c.turn = t.id AND (c.path = ?"
        clause += " OR substr(replace(c.path, char(92), '/'), -length(?)) = ?))"
        end = "/" + wanted.path.replace("\\", "/").removeprefix("./").lstrip("/")
        values += (wanted.path, end, end)
    return clause, values


def newest(connection: sqlite3.Connection, wanted: Wanted, limit: int) -> list[int]:
    """Return the newest turns, newest first; those without a time count as old as their session's last."""
    clause, values = _where(wanted)
    rows = connection.execute(
        "SELECT t.id FROM turn t JOIN session s ON s.id = t.session"
        f" WHERE t.size > 0{clause} ORDER BY coalesce(t.at, s.last, 0) DESC, t.session DESC, t.n DESC LIMIT ?",
        (*values, limit),
    )
    return [turn for (turn,) in rows]


def admitted(connection: sqlite3.Connection, turns: Sequence[int], wanted: Wanted) -> set[int]:
    """Return those of these turns that are wanted."""
    clause, values = _where(wanted)
    found: set[int] = set()
    for start in range(0, len(turns), 500):
        part = turns[start : start + 500]
        rows = connection.execute(
            "SELECT t.id FROM turn t JOIN session s ON s.id = t.session"
            f" WHERE t.id IN ({','.join('?' * len(part))}){clause}",
            (*part, *values),
        )
        found.update(turn for (turn,) in rows)
    return found


def rows(connection: sqlite3.Connection, turns: Sequence[int]) -> list[tuple[Any, ...]]:
    """Return of turns: number, event id, agent, session, place, by, at, branch, cwd."""
    found: list[tuple[Any, ...]] = []
    for start in range(0, len(turns), 500):
        part = turns[start : start + 500]
        found += connection.execute(
            "SELECT t.id, e.id, s.agent, s.name, t.n, t.by, t.at, s.branch, s.cwd FROM turn t"
            " JOIN session s ON s.id = t.session JOIN event e USING (seq)"
            f" WHERE t.id IN ({','.join('?' * len(part))})",
            part,
        )
    return found


def event_of(connection: sqlite3.Connection, session: int, key: str) -> int:
    """Return the arrival number of the event that tells a turn, 0 where the session has no such turn."""
    row = connection.execute("SELECT seq FROM turn WHERE session = ? AND key = ?", (session, short(key))).fetchone()
    return row[0] if row else 0


def parent_of(connection: sqlite3.Connection, session: int) -> str:
    """Return the session that a session came out of, '' where it tells none."""
    return str(connection.execute("SELECT parent FROM session WHERE id = ?", (session,)).fetchone()[0])


def said(connection: sqlite3.Connection, session: int) -> Counter[bytes]:
    """Return what was said in a session: how often each thing."""
    rows = connection.execute("SELECT e.body FROM turn t JOIN event e USING (seq) WHERE t.session = ?", (session,))
    return Counter(digest_of(body) for (stored,) in rows if (body := log.body(stored)))


def digest_of(turn: dict[str, Any]) -> bytes:
    """Return what stands for what a turn says, whatever its key and place."""
    return short(f"{turn['by']}\n{turn.get('at', '')}\n{text_of(turn)}")


def elsewhere(connection: sqlite3.Connection, session: int, origin: str) -> bool:
    """Tell whether another session has the turn that this is a copy of."""
    query = "SELECT 1 FROM turn WHERE origin = ? AND session <> ? LIMIT 1"
    return connection.execute(query, (short(origin), session)).fetchone() is not None


def rewound(connection: sqlite3.Connection, session: int) -> set[bytes]:
    """Return the keys of the turns that a session went back behind."""
    return {key for (key,) in connection.execute("SELECT key FROM turn WHERE session = ? AND rewound", (session,))}


def tally(connection: sqlite3.Connection) -> list[tuple[str, str, int, int, int]]:
    """Return agent, model, and how many sessions, turns and windows there are of them."""
    return connection.execute(
        "SELECT s.agent, s.model, count(*), sum(s.turns), sum((SELECT count(*) FROM pane p WHERE p.session = s.id))"
        " FROM session s GROUP BY s.agent, s.model ORDER BY 1, 2"
    ).fetchall()


def digest(connection: sqlite3.Connection) -> str:
    """Return a hash of all that is known of sessions: the same however their transcripts came in."""
    found = hashlib.sha256()
    columns = f"id, agent, name, {', '.join(FIELDS)}, first, last, turns"
    for session, *told in connection.execute(f"SELECT {columns} FROM session ORDER BY agent, name").fetchall():
        found.update(json.dumps(told).encode())
        rows = connection.execute(
            "SELECT t.n, t.by, t.at, t.size, t.rewound, e.body FROM turn t JOIN event e USING (seq)"
            " WHERE t.session = ? ORDER BY t.n",
            (session,),
        )
        for *turn, stored in rows:
            found.update(json.dumps(turn).encode() + (log.unpack(stored) if stored else b""))
        panes_of = "SELECT start, tokens, first, begin, last, end FROM pane WHERE session = ? ORDER BY start"
        found.update(json.dumps(connection.execute(panes_of, (session,)).fetchall()).encode())
    return found.hexdigest()
