"""Opening the file and holding its transactions.

A write is one `BEGIN IMMEDIATE` with our own jittered retry, because SQLite's built-in wait starves writers; a
read is one snapshot. Every fault of the file below becomes one of our own errors here and nowhere else.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bede.errors import (
    BedeError,
    Busy,
    Conflict,
    Corrupt,
    RepositoryNotFound,
    TooNew,
    Unavailable,
    UsageError,
)
from bede.repository import schema

#: How long a writer waits for another before it gives up, in seconds.
WAIT = 10.0
#: The first wait of a writer that finds the file held, in seconds; later ones are up to eight times as long. So long
#: that who holds it writes several times in one go, which costs half as much as taking turns with cold caches. Who has
#: waited for `TURN` seconds looks twice as often as at first, and so comes next.
PAUSE, TURN = 0.003, 0.1


class Connection(sqlite3.Connection):
    """A connection that remembers which file it opened."""

    path: Path
    name: str
    inode: tuple[int, int]
    #: Why nothing may be written here though reading works, or None.
    refusal: BedeError | None = None
    #: Tells what is derived and does not follow from the log; who opens the file knows how, where anybody does.
    derived: Callable[[Connection], Iterable[object]] = staticmethod(lambda _connection: ())
    #: What `projections.rows` has read of the log, and what for.
    waiting: tuple[Any, Any] = (None, ())
    #: Where the running transaction has moved refs, 0 for none: the journal is told at its end.
    moved: dict[str, int]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.moved = {}


def connect(path: Path, *, read_only: bool = False, wait: float = WAIT) -> Connection:
    """Open an existing database file and check that this code may use it.

    A file that asks for a newer writer, or lies where nothing can be written, is opened for reading, and the
    connection knows the `refusal`.

    Raises:
        RepositoryNotFound: there is no such file.
        TooNew: the file asks for a newer reader.
        Corrupt: the file is not a Bede database.
        Unavailable: the system refuses to open it.
        Busy: another process is recovering the file.
    """
    with translated(path):
        try:
            path.stat()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise RepositoryNotFound(f"no database at {path}", hint="run 'bede init' in the project's root") from error
        connection = _open(path, "ro" if read_only else "rw")
        try:
            try:
                retry(lambda: _tune(connection, read_only), wait)
            except sqlite3.OperationalError as error:
                if not _is_still(path):
                    raise
                connection.close()
                connection = _open_still(path, error)
            _admit(connection, read_only)
        except BaseException:
            connection.close()
            raise
    return connection


def _is_still(path: Path) -> bool:
    """Tell whether a file lies where nothing can be written, and nobody is in the middle of something."""
    beside = (path.with_name(path.name + end) for end in ("-wal", "-shm"))
    return not os.access(path.parent, os.W_OK) and not any(os.path.exists(item) for item in beside)  # noqa: PTH110


def _open_still(path: Path, error: sqlite3.Error) -> Connection:
    """Open a file on a read-only disk: SQLite would else want to write beside it also for reading."""
    connection = _open(path, "ro&immutable=1")
    connection.refusal = Unavailable(
        f"nothing can be written in {path.parent}: {error}; reading works", hint="check the permissions and the disk"
    )
    _tune(connection, True)
    return connection


def _open(path: Path, mode: str) -> Connection:
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(
        uri, uri=True, isolation_level=None, timeout=0, check_same_thread=False, factory=Connection
    )
    found = path.stat()
    connection.path, connection.name, connection.inode = path, str(path), (found.st_dev, found.st_ino)
    return connection


def _tune(connection: Connection, read_only: bool) -> None:
    """Set what every connection needs; the journal mode is a property of the file and set at creation."""
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cache_size = -8000")
    # Twice SQLite's own: the same few pages are written again and again, and each checkpoint costs two syncs. No more,
    # since a commit that lengthens the write-ahead log takes twice as long as one that writes over what is there.
    connection.execute("PRAGMA wal_autocheckpoint = 2000")
    if sys.platform == "darwin":
        connection.execute("PRAGMA fullfsync = ON")
    if read_only:
        connection.execute("PRAGMA query_only = ON")
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()


def _admit(connection: Connection, read_only: bool) -> None:
    path = connection.path
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != schema.APPLICATION_ID:
        raise Corrupt(
            f"not a Bede database: {path}",
            hint="restore it from a backup, or move it away and run 'bede init'",
        )
    _compare_formats(connection)
    if version < schema.FORMAT and not read_only and not connection.refusal:
        with Immediate(connection):
            schema.migrate(connection, version)


def _compare_formats(connection: Connection) -> None:
    """Let the file's own numbers decide: full use, reading only, or refusal."""
    path = connection.path
    row = connection.execute("SELECT min_reader_version, min_writer_version, upgrade_hint FROM project").fetchone()
    if row is None:
        raise Corrupt(f"the database does not say whose it is: {path}", hint="restore it from a backup")
    reader, writer, hint = row
    if reader > schema.FORMAT:
        raise TooNew(f"{path} needs a bede that reads format {reader}, this one reads {schema.FORMAT}", hint=hint)
    if writer > schema.FORMAT:
        connection.execute("PRAGMA query_only = ON")
        connection.refusal = TooNew(
            f"{path} needs a bede that writes format {writer}, this one writes {schema.FORMAT}; reading works",
            hint=hint,
        )


def admit(connection: Connection, *, to_write: bool) -> None:
    """Refuse a file that a newer version has brought up since it was opened.

    Raises:
        TooNew: it asks for a newer reader, or writer.
    """
    column, does = ("min_writer_version", "writes") if to_write else ("min_reader_version", "reads")
    row = connection.execute(f"SELECT {column}, upgrade_hint FROM project").fetchone()
    if row and row[0] > schema.FORMAT:
        raise TooNew(f"{connection.path} needs a bede that {does} format {row[0]} by now", hint=row[1])


def retry(act: Callable[[], object], wait: float) -> None:
    """Do `act` again, with jitter, while another connection holds the file; it may say so itself by raising Busy.

    Raises:
        Busy: it was still held after `wait` seconds.
    """
    began, pause = time.monotonic(), PAUSE
    while True:
        told: Busy | None = None
        try:
            act()
        except sqlite3.OperationalError as error:
            if not _is_busy(error):
                raise
        except Busy as error:
            told = error
        else:
            return
        waited = time.monotonic() - began
        if waited > wait:
            raise told or Busy(
                f"another process has held the store for {wait:g} s",
                hint="try again; 'bede doctor' shows what holds it",
            )
        import random  # Few calls ever wait.

        time.sleep(random.uniform(pause / 4, pause))
        pause = min(pause * 1.5, 8 * PAUSE) if waited < TURN else PAUSE / 2


class Immediate:
    """The one write transaction, to be used with `with`: everything inside is committed, or nothing is.

    The file is looked at after the commit, so that an acknowledgement is never given for a file that was removed or
    replaced meanwhile. A class, since every append comes by, and a generator costs three times as much.
    """

    __slots__ = ("connection", "wait")

    def __init__(self, connection: Connection, wait: float = WAIT) -> None:
        self.connection, self.wait = connection, wait

    def __enter__(self) -> None:
        try:
            try:
                self.connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if not _is_busy(error):
                    raise
                retry(self._begin, self.wait)
        except BaseException as error:
            self._fail(error)
            raise

    def _begin(self) -> None:
        self.connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._fail(error)
            return
        try:
            self.connection.execute("COMMIT")
            self.connection.moved.clear()
            same_file(self.connection)
        except BaseException as failure:
            self._fail(failure)
            raise

    def _fail(self, error: BaseException) -> None:
        """Take everything back, and raise what SQLite or a damaged file has to tell as an error of ours."""
        connection = self.connection
        connection.moved.clear()
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        if isinstance(error, _FAULTS) and (told := _explain(connection, error)):
            raise told from error


@contextmanager
def snapshot(connection: Connection, wait: float = WAIT) -> Iterator[None]:
    """Hold one unchanging view; inside another transaction it is that transaction's own."""
    if connection.in_transaction:
        yield
        return
    try:
        retry(lambda: _begin_reading(connection), wait)
        same_file(connection)
        yield
    except _FAULTS as error:
        if told := _explain(connection, error):
            raise told from error
        raise
    finally:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")


def _begin_reading(connection: Connection) -> None:
    connection.execute("BEGIN")
    try:
        admit(connection, to_write=False)
    except (sqlite3.Error, TooNew):
        connection.execute("ROLLBACK")
        raise


@contextmanager
def beside(connection: Connection) -> Iterator[Connection]:
    """Hold a nameless database, this process's own; what it lacks is the file's, `told`, in one unchanging view."""
    apart = sqlite3.connect("", uri=True, isolation_level=None, factory=Connection)
    try:
        with translated(connection.path):
            apart.execute("PRAGMA trusted_schema = OFF")
            mode = "ro&immutable=1" if isinstance(connection.refusal, Unavailable) else "ro"
            apart.execute("ATTACH ? AS told", (f"{connection.path.absolute().as_uri()}?mode={mode}",))
            apart.execute("BEGIN")
            yield apart
    finally:
        apart.close()


def same_file(connection: Connection) -> None:
    """Compare the file that is open with the one its path names now.

    Raises:
        RepositoryNotFound: the file was removed while in use.
        Conflict: another file lies there.
    """
    try:
        found = os.stat(connection.name)  # noqa: PTH116 (a Path costs more, and every append comes by)
    except OSError as error:
        raise RepositoryNotFound(
            f"the database was removed while in use: {connection.name}",
            hint="restore it, or run 'bede init' for a new one",
        ) from error
    if connection.inode != (found.st_dev, found.st_ino):
        raise Conflict(f"the database was replaced while in use: {connection.name}", hint="run the command again")


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn SQLite's and the system's complaints about the file into errors of ours."""
    try:
        yield
    except BedeError:
        raise
    except sqlite3.Error as error:
        raise _translate(error, path) from error
    except UnicodeDecodeError as error:  # SQLite's own complaint quotes what stands in a damaged schema.
        raise Corrupt(f"the database is damaged: {path}", hint=_RESTORE) from error
    except OSError as error:
        raise Unavailable(
            f"cannot use {path}: {error.strerror or error}", hint="check the disk and the permissions"
        ) from error


#: What is raised by code that meets values which nobody wrote: a NULL where none can be, a body of another shape.
_SENSELESS = (TypeError, ValueError, AttributeError, LookupError)
_FAULTS = (sqlite3.Error, *_SENSELESS)
_RESTORE = "run 'bede verify', then restore a backup"


def _explain(connection: Connection, error: Exception) -> BedeError | None:
    """Return what a fault of SQLite's or of our code says of the file; None where it holds, and the code is wrong."""
    if isinstance(error, UnicodeEncodeError) or (isinstance(error, sqlite3.Error) and not _is_corrupt(error)):
        return _translate(error, connection.path)
    try:
        return _damage(connection) or (_translate(error, connection.path) if _is_corrupt(error) else None)
    except sqlite3.Error:
        return Corrupt(f"the database is damaged: {connection.path}", hint=_RESTORE)


def _is_corrupt(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_CORRUPT


def _damage(connection: Connection) -> Corrupt | None:
    """Return what of the file does not hold and what mends it, the history before what is derived from it."""
    from bede.repository.verify import is_laid_anew, verify

    if found := verify(connection).findings:
        first, hint = found[0], "run 'bede reindex'" if is_laid_anew(found) else _RESTORE
        return Corrupt(
            f"the database is damaged: {connection.path}: {first.table} {first.row}: {first.problem}", hint=hint
        )
    if _has_strayed(connection):
        return Corrupt(f"what is derived from the log is damaged: {connection.path}", hint="run 'bede reindex'")
    (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    return None if said == "ok" else Corrupt(f"the database is damaged: {connection.path}: {said}", hint=_RESTORE)


def _has_strayed(connection: Connection) -> bool:
    """Tell whether what is derived does not follow from the log, or cannot even be read."""
    try:
        return any(connection.derived(connection))
    except (sqlite3.Error, Corrupt):
        return True


#: What passes when one waits; PROTOCOL is a race for the write-ahead log that was lost too often.
_PASSING = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)


def _is_busy(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _PASSING


def _translate(error: Exception, path: Path) -> BedeError:
    if isinstance(error, UnicodeEncodeError):
        return UsageError(
            f"a lone surrogate is in no name and no stored text: {error.object[:40]!a}",
            hint="replace the broken character and try again",
        )
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    text = f"{path}: {error}"
    if _is_busy(error):
        return Busy(f"another process holds the store: {text}", hint="try again")
    if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_CORRUPT_VTAB or "vtable" in text or "fts5" in text:
        return Corrupt(f"an index is damaged: {text}", hint="run 'bede reindex', then 'bede verify'")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return Corrupt(f"the database is damaged: {text}", hint=_RESTORE)
    if code == sqlite3.SQLITE_FULL:
        return Unavailable(f"the disk is full, nothing was written: {text}", hint="free some space and try again")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        return Unavailable(f"the database cannot be written: {text}", hint="check the permissions and the disk")
    if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN):
        return Unavailable(f"the database cannot be reached: {text}", hint="check the disk, then run 'bede doctor'")
    if schema.is_canonical(str(error).removeprefix("no such table: ")):
        return Corrupt(f"the database lacks a part: {text}", hint="restore a backup")
    if "no such table" in text or "no such column" in text:
        return Corrupt(f"the database lacks a part: {text}", hint="run 'bede reindex', then 'bede verify'")
    return Corrupt(f"the database does not answer as it should: {text}", hint="run 'bede verify'")


def has_text_search() -> bool:
    """Tell whether this Python's SQLite was built with FTS5."""
    memory = sqlite3.connect(":memory:")
    try:
        return ("ENABLE_FTS5",) in memory.execute("PRAGMA compile_options").fetchall()
    finally:
        memory.close()
