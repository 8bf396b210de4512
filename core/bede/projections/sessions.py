"""Agents' sessions as rows: whose they are, their turns in order, and which files a turn changed.

A turn's text stays in its event; a row says where. A turn that was still open when it was read is told again by a later
event of the same key, which takes its place. Sessions belong to no branch of thought: every view sees them.
The windows over the turns are `panes`' business.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from bede.projections import panes
from bede.quick import dataclass
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
        taking = _Taking(connection)
        for event in events:
            if event.kind in _TAKE and event.body and "session" in event.body:
                if event.kind != "turn":
                    taking.settle()
                _TAKE[event.kind](taking, event, event.body)
        taking.settle()

    def forget(self, connection: sqlite3.Connection, events: Sequence[Event]) -> None:
        """Take what these events said out of rows and windows; that they were stays."""
        gone = {event.seq for event in events}
        for event in events:
            if event.kind == "session" and event.body:
                _retell(connection, event.actor, str(event.body.get("session", "")), gone)
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


class _Taking:
    """The taking in of some events: new turns are gathered and written together, a dozen statements for hundreds."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._numbers: dict[tuple[str, str], int] = {}
        self._counts: dict[int, int] = {}  # turns of a session, those that are gathered included
        self._spans: dict[int, tuple[int | None, int | None]] = {}
        self._new: dict[tuple[int, bytes], tuple[Any, ...]] = {}
        self._touched: list[tuple[str, int]] = []
        self._next = 0

    def number(self, agent: str, name: str) -> int:
        """Return the number of a session."""
        known = self._numbers.get((agent, name))
        if known is None:
            known = self._numbers[agent, name] = number(self.connection, agent, name)
        return known

    def take(self, event: Event, body: dict[str, Any]) -> None:
        """Take in a turn."""
        session, key, said = self.number(event.actor, body["session"]), short(body["key"]), text_of(body)
        panes.remember(event.id, said)
        if (session, key) in self._new:
            self.settle()
        query = "SELECT id, n FROM turn WHERE session = ? AND key = ?"
        row = self.connection.execute(query, (session, key)).fetchone()
        self._span(session, body.get("at"), body.get("until", body.get("at")))
        if row:
            self._again(event, body, len(said), session, *row)
        else:
            self._gather(event, body, len(said), session, key)

    def _again(self, event: Event, body: dict[str, Any], size: int, session: int, turn: int, n: int) -> None:
        """Put a turn in the place of what was told of it before."""
        self.settle()
        panes.cut(self.connection, session, n)
        query = "UPDATE turn SET seq = ?, at = ?, size = ? WHERE id = ?"
        self.connection.execute(query, (event.seq, body.get("at"), size, turn))
        self.connection.execute("DELETE FROM touched WHERE turn = ?", (turn,))
        self._touched += [(path, turn) for path in changed(body)]

    def _gather(self, event: Event, body: dict[str, Any], size: int, session: int, key: bytes) -> None:
        if not self._next:
            (self._next,) = self.connection.execute("SELECT coalesce(max(id), 0) + 1 FROM turn").fetchone()
        if session not in self._counts:
            row = self.connection.execute("SELECT turns FROM session WHERE id = ?", (session,)).fetchone()
            self._counts[session] = row[0]
        n = self._counts[session] = self._counts[session] + 1
        origin = short(origin_of(body)) if body.get("origin") else None
        side = int(bool(body.get("side")))
        row = (self._next, session, n, key, origin, event.seq, body["by"], body.get("at"), size, side)
        self._new[session, key] = row
        self._touched += [(path, self._next) for path in changed(body)]
        self._next += 1

    def _span(self, session: int, at: int | None, until: int | None) -> None:
        first, last = self._spans.get(session, (None, None))
        if at is not None and until is not None:
            first = at if first is None else min(at, first)
            last = until if last is None else max(until, last)
        self._spans[session] = (first, last)

    def settle(self) -> None:
        """Write what is gathered."""
        run = self.connection
        if self._new:
            insert = "INSERT INTO turn VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, ?, 1, 0)"
            run.executemany(insert, self._new.values())
        for session, (first, last) in self._spans.items():
            run.execute(
                "UPDATE session SET turns = coalesce(?1, turns), first = coalesce(min(coalesce(first, ?2), ?2), first),"
                " last = coalesce(max(coalesce(last, ?3), ?3), last) WHERE id = ?4",
                (self._counts.get(session), first, last, session),
            )
        if self._touched:
            run.executemany("INSERT OR IGNORE INTO touched VALUES (?, ?)", self._touched)
        self._new, self._touched, self._spans, self._counts, self._next = {}, [], {}, {}, 0


def _session(taking: _Taking, event: Event, body: dict[str, Any]) -> None:
    _tell(taking.connection, taking.number(event.actor, body["session"]), body)


def _tell(connection: sqlite3.Connection, session: int, body: dict[str, Any]) -> None:
    told = {name: str(body[name]) for name in FIELDS if body.get(name)}
    for name in ("cwd", "branch", "parent", "origin"):  # Where it began stays; where it went later is in its turns.
        if name in told:
            query = f"UPDATE session SET {name} = ? WHERE id = ? AND {name} = ''"
            connection.execute(query, (told.pop(name), session))
    if told:
        names = ", ".join(f"{name} = ?" for name in told)
        connection.execute(f"UPDATE session SET {names} WHERE id = ?", (*told.values(), session))


def _retell(connection: sqlite3.Connection, agent: str, name: str, gone: set[int]) -> None:
    """Tell a session again without some of what was told of it."""
    blank = ", ".join(f"{field} = ''" for field in FIELDS)
    connection.execute(f"UPDATE session SET {blank} WHERE agent = ? AND name = ?", (agent, name))
    told = connection.execute("SELECT seq FROM event WHERE kind = 'session' AND actor = ? ORDER BY seq", (agent,))
    for event in log.load(connection, [seq for (seq,) in told if seq not in gone]).values():
        if event.body and event.body.get("session") == name:
            _tell(connection, number(connection, agent, name), event.body)


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


def _rewind(taking: _Taking, event: Event, body: dict[str, Any]) -> None:
    connection, session = taking.connection, taking.number(event.actor, body["session"])
    if body.get("whole"):
        connection.execute("UPDATE turn SET rewound = 0 WHERE session = ?", (session,))
    rows = [(session, short(key)) for key in body.get("keys", ())]
    connection.executemany("UPDATE turn SET rewound = 1 WHERE session = ? AND key = ?", rows)


_TAKE = {"session": _session, "turn": _Taking.take, "rewind": _rewind}


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


def where(wanted: Wanted) -> tuple[str, list[Any]]:
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
        spelt = "replace('/' || s.cwd || '/' || c.path, char(92), '/')"
        clause += " AND EXISTS (SELECT 1 FROM touched c WHERE c.turn = t.id AND (c.path = ?"
        clause += f" OR substr({spelt}, -length(?)) = ?))"
        end = "/" + wanted.path.replace("\\", "/").removeprefix("./").lstrip("/")
        values += (wanted.path, end, end)
    return clause, values


def newest(connection: sqlite3.Connection, wanted: Wanted, limit: int) -> list[int]:
    """Return the newest turns, newest first; those without a time count as old as their session's last.

    Time tells where turns of each session stand, and how many; the session tells which ones, and in what order.
    """
    clause, values = where(wanted)
    found = f"FROM turn t JOIN session s ON s.id = t.session WHERE t.size > 0{clause}"
    rows = connection.execute(
        f"SELECT t.session {found} ORDER BY coalesce(t.at, s.last, 0) DESC, t.session DESC, t.n DESC LIMIT ?",
        (*values, limit),
    )
    places = [session for (session,) in rows]
    last = f"SELECT t.id {found} AND t.session = ? ORDER BY t.n DESC LIMIT ?"
    own = {
        session: iter(connection.execute(last, (*values, session, count)).fetchall())
        for session, count in Counter(places).items()
    }
    return [next(own[session])[0] for session in places]


def latest(connection: sqlite3.Connection) -> tuple[str, str, int | None] | None:
    """Return agent, name and last time of the session that was at work last; those that tell no time come last."""
    query = "SELECT agent, name, last FROM session ORDER BY last DESC, id DESC LIMIT 1"
    found: tuple[str, str, int | None] | None = connection.execute(query).fetchone()
    return found


def changes(
    connection: sqlite3.Connection, path: str, limit: int, *, is_folder: bool = False
) -> list[tuple[int, int, int, str, str, int | None]]:
    """Return the newest turns that changed a file: turn, number of the session, place in it, agent, session, time.

    `path` is the file's from the project's root; agents spell it from there, from where they were, or whole. Of a
    folder the changes of every file below it count, of `.` all.
    """
    end = "/" + path.replace("\\", "/").removeprefix("./").strip("/")
    spelt = "replace('/' || s.cwd || '/' || c.path, char(92), '/')"
    might = f"instr({spelt}, ?1 || '/')" if is_folder else f"substr({spelt}, -length(?1)) = ?1"
    found: dict[int, tuple[int, int, int, str, str, int | None]] = {}
    for *turn, cwd, spelled in connection.execute(
        "SELECT t.id, t.session, t.n, s.agent, s.name, t.at, s.cwd, c.path FROM touched c JOIN turn t ON t.id = c.turn"
        f" JOIN session s ON s.id = t.session WHERE t.rewound = 0 AND ({might} OR ?1 = '/.')"
        " ORDER BY coalesce(t.at, s.last, 0) DESC, t.session DESC, t.n DESC",
        (end,),
    ):
        if end == "/." or _is_meant(cwd, spelled, end, is_folder):
            found[turn[0]] = tuple(turn)
        if len(found) == limit:
            break
    return list(found.values())


def _is_meant(cwd: str, spelled: str, end: str, is_folder: bool) -> bool:
    """Tell whether what an agent in some folder called a file ends so, and the project's root is what stands before it.

    The root is not known, as a session may have come from elsewhere, but it holds the folder where the agent was: in
    `/src/shop` its `src/a.py` is no `a.py`. Where the two are spelt in different ways, the end has to do.
    """
    here, whole = (_plain(text) for text in (cwd, spelled))
    if not whole.startswith("/") and whole[1:2] != ":":
        whole = _plain(f"{here}/{whole}")
    if not here or (whole[1:2] == ":") != (here[1:2] == ":"):
        return True
    whole, end = (whole + "/", end + "/") if is_folder else (whole, end)
    spots = [at for at in range(len(whole)) if whole.startswith(end, at) and (is_folder or at + len(end) == len(whole))]
    return any(f"{here}/".startswith(f"{whole[:at]}/") for at in spots)


def _plain(path: str) -> str:
    """Return a path with strokes one way, and none that mean nothing."""
    return re.sub(r"/(\./)+|//+", "/", path.replace("\\", "/")).removeprefix("./").rstrip("/")


def asked_before(connection: sqlite3.Connection, session: int, n: int, limit: int) -> list[int]:
    """Return the turns before a place in a session in which a person spoke, the nearest first."""
    query = (
        "SELECT id FROM turn WHERE session = ? AND n <= ? AND by = 'human' AND size > 0 AND rewound = 0"
        " ORDER BY n DESC LIMIT ?"
    )
    return [turn for (turn,) in connection.execute(query, (session, n, limit))]


def admitted(connection: sqlite3.Connection, turns: Sequence[int], wanted: Wanted) -> set[int]:
    """Return those of these turns that are wanted."""
    clause, values = where(wanted)
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


def are_any(connection: sqlite3.Connection) -> bool:
    """Tell whether there is any turn at all."""
    return connection.execute("SELECT 1 FROM turn LIMIT 1").fetchone() is not None


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


def tally(connection: sqlite3.Connection) -> list[tuple[str, str, int, int, int, int]]:
    """Return agent, model, and how many sessions, turns and windows there are of them, and turns still in none."""
    return connection.execute(
        "SELECT s.agent, s.model, count(*), sum(s.turns), sum((SELECT count(*) FROM pane p WHERE p.session = s.id)),"
        " sum((SELECT count(*) FROM turn t WHERE t.session = s.id AND t.waits = 1))"
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
        found.update(json.dumps(panes.layout(connection, session)).encode())
    return found.hexdigest()
