"""The hook's own way into the file: one connection, one transaction, one short deadline.

Gives the same promises as the repository's connection does: what was committed is on disk, a file that is not ours or
asks for a newer writer is not touched, and nothing that stands in its schema is trusted.
"""

# ruff: noqa: PTH100, PTH113
# A Path costs the hook more milliseconds than it has.
from __future__ import annotations

import os
import sqlite3
import sys
import time

from bede.errors import BedeError, Busy, Corrupt, RepositoryNotFound, TooNew, Unavailable
from bede.leases.holding import is_laid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: Both as in `bede.repository.schema`, which costs more to import than the hook has time; a test holds them together.
APPLICATION_ID, FORMAT = 0x42454445, 3
_SAFE = frozenset(b"/ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:")
_PASSING = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)


class Unlaid(Exception):
    """The file has no tables for leases yet: an older Bede made it. Opening it as a repository lays them."""


class Door:
    """The one transaction on an open file, to be used with `with`: all of it is committed, or nothing is."""

    __slots__ = ("connection", "deadline", "path")

    def __init__(self, connection: sqlite3.Connection, path: str, deadline: float) -> None:
        self.connection = connection
        self.path = path
        self.deadline = deadline

    def __enter__(self) -> sqlite3.Connection:
        try:
            self.patiently(lambda: self.connection.execute("BEGIN IMMEDIATE"))
        except sqlite3.Error as error:
            self.close()
            raise _translated(error, self.path) from error
        return self.connection

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                self.patiently(lambda: self.connection.execute("COMMIT"))
            elif self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
        except sqlite3.Error as fault:
            raise _translated(fault, self.path) from fault
        finally:
            self.close()
        if isinstance(error, sqlite3.Error):
            raise _translated(error, self.path) from error

    def patiently(self, act: Callable[[], object]) -> None:
        """Do something again, with jitter, while somebody else holds the file.

        Raises:
            Busy: the deadline has passed.
        """
        pause = 0.002
        while True:
            try:
                act()
                return
            except sqlite3.OperationalError as error:
                if not _is_busy(error):
                    raise
                if time.monotonic() + pause > self.deadline:
                    raise Busy("another process holds the store", hint="try again") from error
            time.sleep(pause * (0.25 + os.urandom(1)[0] / 340))
            pause = min(pause * 1.5, 0.02)

    def close(self) -> None:
        """Close the file; what was not committed is taken back."""
        self.connection.close()


def open(database: str, wait: float = 0.5) -> Door:
    """Open a project's file for one transaction that has to begin within `wait` seconds.

    Raises:
        RepositoryNotFound: there is no such file.
        Unlaid: it has no tables for leases yet.
        Corrupt, TooNew, Unavailable, Busy: it is not ours, newer, out of reach, or held.
    """
    if not os.path.isfile(database):
        raise RepositoryNotFound(f"no database at {database}", hint="run 'bede init' in the project's root")
    deadline = time.monotonic() + wait
    try:
        connection = sqlite3.connect(_uri(database), uri=True, isolation_level=None, timeout=0)
    except sqlite3.Error as error:
        raise _translated(error, database) from error
    door = Door(connection, database, deadline)
    try:
        door.patiently(lambda: _prepare(connection, database))
    except BaseException as error:
        door.close()
        if isinstance(error, sqlite3.Error):
            raise _translated(error, database) from error
        raise
    return door


def _uri(path: str) -> str:
    """Return a path as a URI, byte for byte; written out, since the library's own way costs milliseconds."""
    whole = os.path.abspath(path).replace(os.sep, "/")
    return "file://" + ("" if whole.startswith("/") else "/") + _quoted(whole) + "?mode=rw"


def _quoted(path: str) -> str:
    return "".join(chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in os.fsencode(path))


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    """Set what `bede.repository.connection` sets on every connection that writes, and look whose file it is."""
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA wal_autocheckpoint = 4000")
    if sys.platform == "darwin":
        connection.execute("PRAGMA fullfsync = ON")
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION_ID:
        raise Corrupt(f"not a Bede database: {path}", hint="restore it from a backup")
    row = connection.execute("SELECT max(min_reader_version, min_writer_version), upgrade_hint FROM project").fetchone()
    if row is None:
        raise Corrupt(f"the database does not say whose it is: {path}", hint="restore it from a backup")
    if row[0] > FORMAT:
        raise TooNew(f"{path} needs a newer bede", hint=row[1])
    if not is_laid(connection):
        raise Unlaid(path)


def _is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _PASSING


def _translated(error: sqlite3.Error, path: str) -> BedeError:
    """Return what SQLite complains of as an error of ours."""
    code, text = getattr(error, "sqlite_errorcode", 0) & 0xFF, f"{path}: {error}"
    if _is_busy(error):
        return Busy(f"another process holds the store: {text}", hint="try again")
    reach = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
    if code in (*reach, sqlite3.SQLITE_FULL, sqlite3.SQLITE_AUTH):
        return Unavailable(f"the database cannot be written: {text}", hint="check the permissions and the disk")
    return Corrupt(f"the database is damaged: {text}", hint="run 'bede verify', then restore a backup")
