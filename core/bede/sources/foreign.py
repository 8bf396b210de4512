"""Another program's SQLite file, read without a trace: the one place among the sources where SQL is spoken.

The file may be open elsewhere and growing. It is read in one transaction, so that what is seen is one moment of it.
Nothing is ever written to it or laid beside it, no checkpoint is made, no lock of its owner is waited for longer than
`PATIENCE`. Where SQLite cannot read it in place without writing (a log without its index, a crashed owner, a read-only
disk), a private copy is read. Its schema is not trusted: only plain tables and stored columns are seen.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote_from_bytes

from bede.errors import BadSource, Unavailable, cause
from bede.sources.port import Table

#: Seconds that a lock of the owner is waited for, and tries to copy a file that is being written.
PATIENCE, TRIES = 5.0, 20
#: A longer value is given as None: memory is bounded, as for lines.
LONGEST = 256 * 1024 * 1024
#: Steps of SQLite's machine that one question may take for each byte of the file; a sound file needs far fewer.
STEPS = 100
#: Rows that one question may give even if the file is smaller: none has more rows than bytes, but one whose pages lead
#: in circles.
ROWS = 1 << 20

_MAGIC = b"SQLite format 3\x00"
#: Ends a rollback journal that names another file, which SQLite would delete in the end.
_JOURNAL_MAGIC = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
_BESIDE = ("-wal", "-journal")
_ELSEWHERE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_AUTH,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PROTOCOL,
}
_HAS_OCTETS = sqlite3.sqlite_version_info >= (3, 43)


class Foreign:
    """One moment of a foreign database."""

    __slots__ = ("_columns", "_connection", "_most", "_path", "_steps", "_tables", "_taken")

    def __init__(self, connection: sqlite3.Connection, path: Path, size: int) -> None:
        """Read from an open connection; errors name `path`."""
        self._connection = connection
        self._path = path
        self._tables: frozenset[str] | None = None
        self._columns: dict[str, tuple[str, ...]] = {}
        self._steps, self._taken = 50 + STEPS * size // 1_000_000, 0
        self._most = max(size, ROWS)
        connection.set_progress_handler(self._step, 1_000_000)

    def _step(self) -> int:
        self._taken += 1
        return int(self._taken > self._steps)

    def tables(self) -> frozenset[str]:
        """Return the names of the plain tables: no views, no virtual tables.

        Raises:
            BadSource: the schema is damaged.
            Unavailable: the file cannot be read now.
        """
        if self._tables is None:
            found = self._ask("SELECT name, sql FROM sqlite_master WHERE type = 'table' AND rootpage > 0", ())
            # What a table is tells the text, not the type beside it.
            self._tables = frozenset(
                name for name, sql in found if isinstance(name, str) and str(sql)[:13].upper() == "CREATE TABLE "
            )
        return self._tables

    def columns(self, table: str) -> tuple[str, ...]:
        """Return a table's stored columns, in their order; none where there is no such table.

        Raises:
            BadSource: the schema is damaged.
            Unavailable: the file cannot be read now.
        """
        if table not in self._columns:
            if table not in self.tables():
                return ()
            rows = self._ask(f"PRAGMA table_info({_quoted(table)})", ())
            self._columns[table] = tuple(row[1] for row in rows if isinstance(row[1], str))
        return self._columns[table]

    def rows(
        self,
        table: str,
        columns: Sequence[str],
        *,
        order: Sequence[str] = (),
        where: Mapping[str, str | int] = {},
    ) -> Iterator[tuple[Any, ...]]:
        """Yield rows, ordered by columns, of those where every column in `where` equals its value.

        Values are str, bytes, int, float or None, whatever the column was declared as; a value over `LONGEST` is None.

        Raises:
            BadSource: there is no such table or column, or the file is damaged.
            Unavailable: the file cannot be read now.
        """
        known = self.columns(table)
        for name in (*columns, *order, *where):
            if name not in known:
                raise BadSource(f"{self._path} has no column {name!r} in a table {table!r}")
        sql = f"SELECT {', '.join(map(_bounded, columns)) or 'NULL'} FROM {_quoted(table)}"
        values = tuple(map(_bound, where.values()))
        if None in values:
            return
        if where:
            sql += " WHERE " + " AND ".join(map(_equal, where, values))
        if order:
            sql += " ORDER BY " + ", ".join(map(_quoted, order))
        for row in self._ask(sql, values):
            yield row if _HAS_OCTETS else tuple(map(_short, row))

    def _ask(self, sql: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        self._taken = 0
        with _told(self._path):
            for number, row in enumerate(self._connection.execute(sql, values)):
                if number > self._most:
                    raise BadSource(f"{self._path} is damaged: it has more rows than bytes", reason="damaged")
                self._taken = 0
                yield row


@contextmanager
def opened(path: Path) -> Iterator[Foreign]:
    """Open another program's database for reading, as it is at this moment.

    The same file must not be open in this process already: closing it once drops every lock that the process has on it.

    Raises:
        BadSource: it is no SQLite database, or damaged.
        Unavailable: it cannot be read now: not there, no right to, locked, or changing all the time.
    """
    with ExitStack() as stack:
        file, size = _regular(path)
        # An empty file is an empty database. SQLite would delete a log that it finds beside one.
        connection = _memory() if size == 0 else _in_place(file) or _copied(file, stack)
        stack.callback(connection.close)
        yield Foreign(connection, path, size)


def excerpt(path: Path, tables: Iterable[Table]) -> bool:
    """Write a new database that holds some tables' rows, and tell whether there was any row.

    Raises:
        Unavailable: it cannot be written.
    """
    found = False
    with _told(path), closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("BEGIN")
        for table, columns, rows in tables:
            names = ", ".join(map(_quoted, columns))
            connection.execute(f"CREATE TABLE {_quoted(table)} ({names})")
            insert = f"INSERT INTO {_quoted(table)} VALUES ({', '.join('?' * len(columns))})"
            for row in rows:
                connection.execute(insert, row)
                found = True
        connection.execute("COMMIT")
    return found


def _regular(path: Path) -> tuple[Path, int]:
    """Return where a path leads and how big the file and its log are."""
    try:
        file = path.resolve(strict=True)
        found = file.stat()
    except (OSError, ValueError, RuntimeError) as error:
        raise Unavailable(f"{path} cannot be read: {cause(error)}", reason="file") from error
    if not stat.S_ISREG(found.st_mode):
        raise BadSource(f"{path} is no file", reason="file")
    log = _beside(file, "-wal")
    return file, found.st_size + (log.stat().st_size if found.st_size and log.is_file() else 0)


def _in_place(file: Path) -> sqlite3.Connection | None:
    """Open a database where it lies; None where that fails, or would leave a file beside it."""
    try:
        with file.open("rb") as opened:
            head = opened.read(20)
    except OSError as error:
        raise Unavailable(f"{file} cannot be read: {cause(error)}", reason="file") from error
    if not head.startswith(_MAGIC):
        raise BadSource(f"{file} is no SQLite database", reason="format")
    if head[18:] == b"\x02\x02" and not (_beside(file, "-wal").exists() and _beside(file, "-shm").exists()):
        return None
    try:
        return _connected(_uri(file) + "?mode=ro&readonly_shm=1")
    except sqlite3.DatabaseError as error:
        if _code(error) in _ELSEWHERE:
            return None
        raise _typed(error, file) from error


def _memory() -> sqlite3.Connection:
    """Return an empty database."""
    return sqlite3.connect(":memory:", check_same_thread=False)


def _connected(uri: str) -> sqlite3.Connection:
    """Open a database and begin the transaction in which all is read."""
    connection = sqlite3.connect(uri, timeout=PATIENCE, isolation_level=None, check_same_thread=False, uri=True)
    try:
        connection.text_factory = _text
        for pragma in ("query_only = 1", "trusted_schema = 0", "cell_size_check = 1", "mmap_size = 0"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _copied(file: Path, stack: ExitStack) -> sqlite3.Connection:
    """Open a private copy, which goes when the stack is left."""
    try:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bede-", ignore_cleanup_errors=True)))
        copy = folder / "copy.db"
        for attempt in range(TRIES):
            before = _state(file)
            if shutil.disk_usage(folder).free < sum(state[0] for state in before if state):
                raise Unavailable(f"there is no room in {folder.parent} for a copy of {file}", reason="disk")
            _copy(file, copy)
            if before == _state(file):
                return _connected(_uri(copy) + "?mode=rw")
            time.sleep(0.01 * attempt)
    except sqlite3.DatabaseError as error:
        raise _typed(error, file) from error
    except OSError as error:
        raise Unavailable(f"{file} cannot be copied: {cause(error)}", reason="file") from error
    raise Unavailable(f"{file} changes all the time", hint="try again later", reason="busy")


def _state(file: Path) -> tuple[tuple[int, int, int] | None, ...]:
    """Return sizes, times and identities of a database, its log and its journal."""
    states: list[tuple[int, int, int] | None] = []
    for each in (file, *(_beside(file, end) for end in _BESIDE)):
        try:
            found = each.stat()
            states.append((found.st_size, found.st_mtime_ns, found.st_ino))
        except FileNotFoundError:
            states.append(None)
    return tuple(states)


def _copy(file: Path, copy: Path) -> None:
    """Copy a database, and then what has to be read with it."""
    shutil.copyfile(file, copy)
    for end in _BESIDE:
        target = _beside(copy, end)
        target.unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            shutil.copyfile(_beside(file, end), target)
    journal = _beside(copy, "-journal")
    if journal.exists() and journal.read_bytes()[-8:] == _JOURNAL_MAGIC:
        raise BadSource(f"{file} was left in the middle of a change of several databases", reason="journal")


def _beside(file: Path, end: str) -> Path:
    return file.with_name(file.name + end)


def _uri(file: Path) -> str:
    """Return the URI of an absolute path, in the only form that SQLite takes on every system."""
    name = file.as_posix()
    return "file://" + ("" if name.startswith("/") else "/") + quote_from_bytes(os.fsencode(name), safe="/:")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _bound(value: str | int) -> int | bytes | None:
    """Return a value as it is asked for, text as its bytes, that need be no UTF-8; None where no row can have it."""
    if isinstance(value, int):
        return value if -(1 << 63) <= value < 1 << 63 else None
    try:
        raw = value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return None
    return raw


def _equal(name: str, value: Any) -> str:
    return f"{_quoted(name)} = {'CAST(? AS TEXT)' if isinstance(value, bytes) else '?'}"


def _bounded(name: str) -> str:
    quoted = _quoted(name)
    return f"CASE WHEN octet_length({quoted}) <= {LONGEST} THEN {quoted} END" if _HAS_OCTETS else quoted


def _short(value: Any) -> Any:
    return None if isinstance(value, (str, bytes)) and len(value) > LONGEST else value


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours, but for those of a caller who asks what is closed already."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise
    except sqlite3.Error as error:
        raise _typed(error, path) from error


def _typed(error: sqlite3.Error, path: Path) -> BadSource | Unavailable:
    """Return our error for one of SQLite's."""
    if _code(error) in _ELSEWHERE:
        return Unavailable(f"{path} cannot be read now: {error}", hint="try again later", reason="busy")
    return BadSource(f"{path} is damaged: {error}", reason="damaged")
