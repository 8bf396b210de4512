"""The canonical tables, as a document: their comments are kept in the user's own file.

Canonical tables only ever grow by forward migrations, one function each, run once in one transaction. Derived
tables are none of this room's business: a projection that changed is dropped and built again.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from typing import Any

from bede.errors import Corrupt

#: "BEDE" in ASCII, so that `file` and other tools can tell the format.
APPLICATION_ID = 0x42454445
#: The format this code writes, and the oldest reader and writer that may use what it writes.
FORMAT = 3
MIN_READER = 3
MIN_WRITER = 3
UPGRADE_HINT = "install a newer bede: pip install --upgrade bede"

#: Small pages: one append dirties five of them, and each goes to the disk whole (measured: 0.3 of a commit).
PAGE_SIZE = 2048

EVENT = """
CREATE TABLE event (            -- an immutable fact, named by the hash of its canonical form
  seq INTEGER PRIMARY KEY,      -- order of arrival in this file; no part of the id
  id BLOB NOT NULL,             -- SHA-256 of kind, parents, actor, source, happened_at, digest
  kind TEXT NOT NULL,
  parent INTEGER,               -- seq of the event before; NULL for the first
  merged INTEGER,               -- seq of the second parent of a merge, else NULL
  actor TEXT NOT NULL,
  source TEXT NOT NULL,         -- '' or the key of the foreign record it came from
  happened_at INTEGER NOT NULL, -- microseconds since 1970, UTC
  digest BLOB,                  -- SHA-256 of the payload, salt and body, once they were purged; till then they tell it
  line INTEGER NOT NULL,        -- the maximal run of single-parent events it lies on
  position INTEGER NOT NULL,    -- its place on that line, from 1
  salt BLOB,                    -- the payload; both NULL once it was purged, and the history still verifies
  body BLOB                     -- canonical JSON, UTF-8; deflated (zlib) where that is shorter
) STRICT;
CREATE INDEX event_source ON event (source)  -- one record is one event, but for what bundles bring
  WHERE source <> '';
"""

#: What is filled by the batch, and may be laid anew from the rest.
INDEXED = """
CREATE TABLE event_key (        -- finds an event by the first 8 bytes of its id; filled by the batch, see indexed
  prefix BLOB NOT NULL,
  seq INTEGER NOT NULL,
  PRIMARY KEY (prefix, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE indexed (          -- one row: how far what is filled by the batch goes; later rows are looked through
  seq INTEGER NOT NULL,         -- up to which event event_key goes
  number INTEGER NOT NULL       -- after which operation ref was written
) STRICT;
INSERT INTO indexed VALUES (0, 0);
CREATE TABLE ref (              -- a name for an event, where the operation indexed.number had moved it
  name TEXT PRIMARY KEY,
  seq INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
"""

TABLES = """
CREATE TABLE project (          -- one row: who this memory is, and who may use the file
  uuid TEXT NOT NULL,           -- the project's identity, never its path or name
  secret BLOB NOT NULL,         -- 32 random bytes; salts of ingested records come from it
  created_at INTEGER NOT NULL,  -- microseconds since 1970, UTC
  min_reader_version INTEGER NOT NULL,
  min_writer_version INTEGER NOT NULL,
  upgrade_hint TEXT NOT NULL
) STRICT;
CREATE TABLE line (             -- where a run of events branched off
  line INTEGER PRIMARY KEY,
  parent INTEGER,               -- the line it left, NULL for the first
  at INTEGER,                   -- the position on it of the event it follows
  merged INTEGER,               -- the line of a merge's second parent, else NULL
  merged_at INTEGER
) STRICT;
CREATE TABLE stretch (          -- where a line goes on: its events from here arrived one after the other
  seq INTEGER PRIMARY KEY,
  line INTEGER NOT NULL,
  position INTEGER NOT NULL     -- of the first of them; an index of these does for one of all events
) STRICT;
CREATE UNIQUE INDEX stretch_place ON stretch (line, position);
CREATE TABLE operation (        -- every change of refs, chained by hash: reflog, audit log, tamper evidence
  number INTEGER PRIMARY KEY,   -- 1, 2, 3, …
  verb TEXT NOT NULL,
  actor TEXT NOT NULL,
  at INTEGER NOT NULL,          -- microseconds since 1970, UTC
  note TEXT NOT NULL,           -- '' or canonical JSON of what the verb needs to tell
  moves TEXT NOT NULL,          -- one line per ref: name, old seq, new seq; 0 is none
  last INTEGER NOT NULL,        -- seq of the newest event once it was done
  hash BLOB NOT NULL            -- SHA-256 of all this, the ids appended, and the hash before
) STRICT;
CREATE TABLE worktree (         -- which branch each git worktree is on; '' is the main one
  name TEXT PRIMARY KEY,
  branch TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE cursor (           -- how far each agent's transcript was read on this machine; no part of the history
  path BLOB PRIMARY KEY,        -- the file's absolute path, as the system spells it
  agent TEXT NOT NULL,
  mark TEXT NOT NULL,           -- '', or, in rows of before, the first half of state by itself
  state BLOB NOT NULL           -- JSON, deflated: what the file looked like, how far it is read; what it takes to go on
) STRICT, WITHOUT ROWID;
CREATE TABLE projection (       -- how far each derived table follows the log
  name TEXT PRIMARY KEY,
  version INTEGER NOT NULL,
  seq INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
"""

#: Who works on what on this machine, now: no part of the history. What came of it is told there, on `coordination`.
LEASES = """
CREATE TABLE lease (            -- a file, folder or pattern that one session alone may edit for a time
  resource TEXT NOT NULL,       -- the path from the project's root; see leases/keys.py
  scope TEXT NOT NULL,          -- file, folder or glob
  token INTEGER NOT NULL,       -- of the grant; rises, and is never given again
  agent TEXT NOT NULL,
  session TEXT NOT NULL,        -- '' where none is known: then only the token proves it
  purpose TEXT NOT NULL,
  since INTEGER NOT NULL,       -- microseconds since 1970, UTC, for people; so is until
  until INTEGER NOT NULL,
  boot TEXT NOT NULL,           -- which start of the machine the next one counts from
  ends INTEGER NOT NULL,        -- microseconds on the clock that nobody can set: this is what counts
  ttl INTEGER NOT NULL,         -- for how long it was given, in microseconds
  PRIMARY KEY (resource, scope)
) STRICT, WITHOUT ROWID;
-- No index: there are few leases at a time, and each index is one more page to every commit.
CREATE TABLE lease_waiter (     -- the queue for what is held
  ticket INTEGER PRIMARY KEY,   -- rises; the lowest living one is next
  agent TEXT NOT NULL,
  session TEXT NOT NULL,
  wanted TEXT NOT NULL,         -- JSON: [[resource, scope], …]
  purpose TEXT NOT NULL,
  since INTEGER NOT NULL,
  boot TEXT NOT NULL,
  alive INTEGER NOT NULL,       -- until when it counts as alive, on the boot's clock
  granted INTEGER NOT NULL      -- the token that was handed over to it, 0 while it waits
) STRICT;
CREATE TABLE lease_session (    -- what each agent's session is about
  agent TEXT NOT NULL,
  session TEXT NOT NULL,
  prompt TEXT NOT NULL,         -- the last that says something, redacted
  prompted INTEGER NOT NULL,    -- when that was; 0 for never
  cwd TEXT NOT NULL,
  transcript TEXT NOT NULL,     -- the file in which the agent writes it down
  started INTEGER NOT NULL,
  seen INTEGER NOT NULL,
  PRIMARY KEY (agent, session)
) STRICT, WITHOUT ROWID;
CREATE TABLE lease_touch (      -- which files each session has changed
  agent TEXT NOT NULL,
  session TEXT NOT NULL,
  resource TEXT NOT NULL,
  count INTEGER NOT NULL,
  first INTEGER NOT NULL,
  last INTEGER NOT NULL,
  PRIMARY KEY (agent, session, resource)
) STRICT, WITHOUT ROWID;
CREATE TABLE lease_outbox (     -- what happened and is not told in the log yet
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,           -- of the event to be
  agent TEXT NOT NULL,
  session TEXT NOT NULL,
  holder TEXT NOT NULL,         -- of a refusal: JSON of the holding agent and session; else ''
  resource TEXT NOT NULL,
  bucket INTEGER NOT NULL,      -- which ten seconds of the boot's clock it fell in
  count INTEGER NOT NULL,
  first INTEGER NOT NULL,
  last INTEGER NOT NULL,
  body TEXT NOT NULL            -- JSON: the rest of what the event says
) STRICT;
CREATE UNIQUE INDEX lease_contention ON lease_outbox (kind, agent, session, holder, resource, bucket)
  WHERE kind = 'lease_contended';
CREATE TABLE lease_counter (    -- one row: the newest token and the newest ticket
  token INTEGER NOT NULL,
  ticket INTEGER NOT NULL
) STRICT;
INSERT INTO lease_counter VALUES (0, 0);
"""


def create(connection: sqlite3.Connection) -> None:
    """Lay the canonical tables into an empty file, inside the caller's transaction."""
    _lay(connection, EVENT + INDEXED + TABLES + LEASES)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")


def _lay(connection: sqlite3.Connection, tables: str) -> None:
    for statement in tables.split(";\n"):
        if statement.strip():
            connection.execute(statement)


def is_canonical(table: str) -> bool:
    """Tell whether a table is one that nothing else tells of."""
    return f"CREATE TABLE {table} (" in EVENT + TABLES + LEASES


def lay_indexes(connection: sqlite3.Connection) -> None:
    """Lay what is filled by the batch anew, and empty: until it is filled the log and the journal tell all of it."""
    for table in ("event_key", "indexed", "ref"):
        connection.execute(f"DROP TABLE IF EXISTS {table}")
    _lay(connection, INDEXED)


def declare(
    version: int, uuid: str, secret: bytes, created_at: int, reader: int, writer: int, hint: str
) -> dict[str, Any]:
    """Return what a project's first event says of its row, so that `verify` can hold one against the other."""
    return {
        "project_id": uuid,
        "secret_digest": hashlib.sha256(secret).hexdigest(),
        "created_at": created_at,
        "format": version,
        "min_reader_version": reader,
        "min_writer_version": writer,
        "upgrade_hint": hint,
    }


def _second(connection: sqlite3.Connection) -> None:
    """Lay the tables for leases; let a record be more than one event, as bundles may bring it."""
    _lay(connection, LEASES)
    connection.execute("DROP INDEX event_source")
    connection.execute("CREATE INDEX event_source ON event (source) WHERE source <> ''")


def _third(connection: sqlite3.Connection) -> None:
    """Keep digests of purged payloads alone, and write refs down by the batch: readers of before would miss both."""
    if connection.execute("SELECT 1 FROM pragma_table_info('indexed') WHERE name = 'number'").fetchone():
        return  # It was done; only the number of the format is another one.
    connection.execute("DROP INDEX IF EXISTS lease_wide")
    connection.execute("DROP INDEX event_source")
    connection.execute("ALTER TABLE event RENAME TO event_before")
    _lay(connection, EVENT)
    connection.execute(
        "INSERT INTO event SELECT seq, id, kind, parent, merged, actor, source, happened_at,"
        " CASE WHEN body IS NULL THEN digest END, line, position, salt, body FROM event_before ORDER BY seq"
    )
    connection.execute("DROP TABLE event_before")
    lay_indexes(connection)
    connection.execute("UPDATE project SET min_reader_version = 3, min_writer_version = 3")


#: `MIGRATIONS[n]` brings a file of format n to n + 1.
MIGRATIONS: dict[int, Callable[[sqlite3.Connection], None]] = {1: _second, 2: _third}


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Bring an older file up to `FORMAT`, inside the caller's transaction; another process may have done it by now.

    Raises:
        Corrupt: there never was such a format.
    """
    version = max(version, *connection.execute("PRAGMA user_version").fetchone())
    for number in range(version, FORMAT):
        if number not in MIGRATIONS:
            raise Corrupt(f"there is no format {number}", hint="restore the file from a backup")
        MIGRATIONS[number](connection)
    if version < FORMAT:
        connection.execute(f"PRAGMA user_version = {FORMAT}")
