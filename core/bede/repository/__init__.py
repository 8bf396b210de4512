"""The Repository: the one file, the only door to its canonical rows, and a narrow one.

Reading goes through `snapshot`, writing through `write`; both give a transaction on which everything else hangs.
An append is one `BEGIN IMMEDIATE`: payloads, events, the journal's row, and those projections that wait for no batch.
What was acknowledged is on disk. A second Repository, on another database, has to offer just what this file offers.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from bede.errors import BedeError, Busy, Conflict, TooNew, Unavailable
from bede.records import Draft, Event, Verdict
from bede.repository import connection as door
from bede.repository import journal, lines, log, refs, schema
from bede.repository.connection import WAIT, Connection
from bede.repository.reading import Reading
from bede.repository.writing import ROUND, Head, Projection, Ripening, Writing

__all__ = ["Projection", "Reading", "Repository", "Ripening", "Writing"]


#: So many events that wait are more than one process takes in while others write: who has its lock may hang.
OVERDUE = 20_000


def _version(connection: Connection) -> int:
    """Return SQLite's counter of other connections' commits."""
    return int(connection.execute("PRAGMA data_version").fetchone()[0])


class _Write:
    """One write transaction, to be used with `with`. A class, since every append comes by: see `Immediate`."""

    __slots__ = ("_fence", "_journal", "_note", "_repository", "_transaction", "_writing")

    def __init__(self, repository: Repository, verb: str, actor: str, at: int, note: dict[str, Any]) -> None:
        self._repository, self._journal, self._note = repository, (verb, actor, at), note

    def __enter__(self) -> Writing:
        repository = self._repository
        self._transaction = door.Immediate(repository.connection, repository._wait)
        self._transaction.__enter__()
        try:
            self._writing = repository._begin(self._note)
            self._fence = repository.guard(repository.connection, self._journal[1]) if repository.guard else None
        except BaseException as error:
            self._transaction.__exit__(type(error), error, None)
            raise
        return self._writing

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            try:
                if self._fence and (self._writing._events or self._writing._moves or self._note):
                    self._note["lease"] = self._fence
                self._writing.close(*self._journal)
            except BaseException as failure:
                self._transaction.__exit__(type(failure), failure, None)
                raise
        self._transaction.__exit__(kind, error, trace)
        if error is None:
            self._repository._done(self._writing)


class Repository:
    """One open database file."""

    def __init__(
        self, connection: Connection, projections: Sequence[Projection], *, read_only: bool, wait: float
    ) -> None:
        self.connection = connection
        self.path = connection.path
        self.read_only = read_only
        #: Asked at the beginning of every write, with its actor: it raises, or returns what the operation notes of it.
        self.guard: Callable[[Connection, str], dict[str, Any]] | None = None
        self._projections = projections
        self._wait = wait
        self._head: Head | None = None

    @classmethod
    def open(
        cls,
        path: Path,
        projections: Sequence[Projection] = (),
        *,
        read_only: bool = False,
        wait: float = WAIT,
    ) -> Repository:
        """Open an existing file, and bring its projections up to this version of the code.

        Raises:
            RepositoryNotFound, TooNew, Corrupt, Unavailable, Busy: see `connection.connect`.
        """
        connection = door.connect(path, read_only=read_only, wait=wait)
        repository = cls(connection, projections, read_only=read_only or connection.refusal is not None, wait=wait)
        try:
            if not repository.read_only and repository._stale():
                repository.reindex()
        except BaseException:
            repository.close()
            raise
        return repository

    @classmethod
    def create(
        cls,
        path: Path,
        projections: Sequence[Projection],
        *,
        actor: str,
        at: int,
        fill: Callable[[Connection], None] | None = None,
    ) -> Repository:
        """Make the file, readable by its owner alone, with a project's identity and its first event.

        `fill` writes these instead, where the project is a copy of another. It appears under its name when it is whole,
        so that nobody meets half of it, whenever this process ends.

        Raises:
            Conflict: there is a file already.
            Unavailable: the system refuses.
        """
        draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
        with door.translated(path):
            try:
                os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
                draft.chmod(0o600)
                _lay(draft, fill or (lambda connection: _begin(connection, actor, at)))
                with closing(cls.open(draft, projections)) as repository:
                    # All of it has to be in the one file: closing would try as much, and be silent if that failed.
                    door.retry(repository._truncate, WAIT)
                _publish(draft, path)
            finally:
                for end in ("", "-wal", "-shm", "-journal"):
                    draft.with_name(draft.name + end).unlink(missing_ok=True)
        return cls.open(path, projections)

    def close(self) -> None:
        """Close the file. Nothing is pending: what was acknowledged is on disk."""
        self.connection.close()

    @contextmanager
    def snapshot(self) -> Iterator[Reading]:
        """Hold one unchanging view."""
        with door.snapshot(self.connection, self._wait):
            yield Reading(self.connection)

    def write(self, verb: str, actor: str, at: int, note: dict[str, Any] | None = None) -> _Write:
        """Hold the one write transaction; what it did becomes one operation of the journal.

        A `note` given here may be filled until the end. All or nothing: an exception inside leaves no trace.

        Raises:
            TooNew: the file is open for reading only.
            Busy: another writer held it past the deadline.
        """
        self._check_writable()
        return _Write(self, verb, actor, at, {} if note is None else note)

    def _begin(self, note: dict[str, Any]) -> Writing:
        """Return what the transaction that has just begun writes with; the newest rows may be known already."""
        head, self._head = self._head, None
        version = _version(self.connection)
        if head is None or head.version != version:
            head = Head(self.connection, version)
            self._agree()
        return Writing(self.connection, head, self._projections, note)

    def _done(self, writing: Writing) -> None:
        """Remember the newest rows of a transaction that was committed, and ripen what is worth it by now."""
        self._head = writing.newest
        if writing.newest.last // ROUND > writing.before // ROUND:
            # What was written is there, whatever comes of this; the next writer can do it as well.
            with suppress(BedeError, KeyboardInterrupt):
                self._ripen_alone()

    def ripen(self) -> None:
        """Let the index of ids, and the projections that wait, take in all that is worth a batch by now."""
        while self._ripen():
            pass

    def _ripen_alone(self) -> None:
        """Take in a batch, unless another process does: what it makes ready would be made ready in vain.

        A batch and no more: where many write, there is always another, and who took them all would do nothing else.
        """
        from bede.turnstile import held

        with ExitStack() as stack:
            try:
                is_alone = stack.enter_context(held(self.path.with_name("ripening.lock")))
            except Unavailable:  # A disk without locks: then each does what may turn out to be done.
                is_alone = True
            if is_alone or log.unindexed(self.connection) > OVERDUE:
                self._ripen()

    def _ripen(self) -> bool:
        """Take in a batch; tell whether there may be another."""
        with door.snapshot(self.connection, self._wait):
            number, is_due = journal.head(self.connection)[0], log.unindexed(self.connection) >= ROUND
            gathered = self._gather()
        if not (is_due or gathered):
            return False
        with door.Immediate(self.connection, self._wait):
            log.index(self.connection)
            refs.settle(self.connection)
            if journal.has_purged(self.connection, number):  # What was gathered may hold what is not to be any more.
                return bool(gathered)
            taken = [projection.settle(self.connection, ready) for projection, ready in gathered]
        return bool(taken) and all(taken)

    def _gather(self) -> list[tuple[Ripening, Any]]:
        # Asked by name: to ask by type loads `inspect` from Python 3.12 on, which takes as long as all the rest.
        waiting = [cast(Ripening, each) for each in self._projections if hasattr(each, "gather")]
        made = [(each, each.gather(self.connection)) for each in waiting]
        return [(each, ready) for each, ready in made if ready is not None]

    def _check_writable(self) -> None:
        if self.connection.refusal:
            raise self.connection.refusal
        if self.read_only:
            raise TooNew("this store is open for reading only", hint="start without --read-only to write")

    def verify(self, anchor: tuple[int, str] | None = None) -> Verdict:
        """Recompute the whole history; see `verify.verify`."""
        from bede.repository.verify import verify

        with self.snapshot():
            return verify(self.connection, anchor)

    def integrity(self) -> list[str]:
        """Return what SQLite's own integrity check says; `["ok"]` when all is well."""
        with self.snapshot():
            return [str(row[0]) for row in self.connection.execute("PRAGMA integrity_check(20)")]

    def reindex(self) -> int:
        """Drop every projection and build it again from the log; return how many events it read."""
        self._check_writable()
        with door.Immediate(self.connection, self._wait):
            count = self._rebuild()
        self.ripen()
        return count

    def _rebuild(self) -> int:
        """Build the projections again, inside the caller's transaction."""
        count = 0
        lines.lay(self.connection)
        schema.lay_indexes(self.connection)
        log.index(self.connection)
        refs.settle(self.connection)
        self.connection.execute("DELETE FROM projection")
        for projection in self._projections:
            projection.drop(self.connection)
            projection.create(self.connection)
            row = (projection.name, projection.version, 0)
            self.connection.execute("INSERT INTO projection VALUES (?, ?, ?)", row)
        batch: list[Event] = []
        for event in Reading(self.connection).replay():
            batch.append(event)
            if len(batch) == 1000:
                self._follow(batch)
                count, batch = count + len(batch), []
        self._follow(batch)
        self.connection.execute("UPDATE projection SET seq = ?", (log.last(self.connection),))
        return count + len(batch)

    def _follow(self, events: list[Event]) -> None:
        for projection in self._projections:
            projection.follow(self.connection, events)

    def wipe(self) -> None:
        """Rewrite the file without its free pages and empty the write-ahead log, so that nothing purged is left in it.

        Raises:
            Busy: other connections read from the log; the purge itself is done.
        """
        with door.translated(self.path):
            door.retry(lambda: self.connection.execute("VACUUM"), self._wait)
            door.retry(self._truncate, self._wait)

    def _truncate(self) -> None:
        busy, *_ = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise Busy(
                "another process still reads the write-ahead log",
                hint="run 'bede purge' again when it is done",
            )

    def _stale(self) -> bool:
        with self.snapshot():
            stored = self._versions()
        return any(stored.get(item.name) != item.version for item in self._projections)

    def _versions(self) -> dict[str, int]:
        return dict(self.connection.execute("SELECT name, version FROM projection"))

    def _agree(self) -> None:
        """Make sure that who writes now follows with every projection there is; those it does not know become stale.

        Looked at again only after somebody else wrote, so that an append need not pay for it.
        """
        door.admit(self.connection, to_write=True)
        stored, ours = self._versions(), {item.name: item.version for item in self._projections}
        if any(stored.get(name) != version for name, version in ours.items()):
            self._rebuild()
        for name in stored.keys() - ours.keys():
            self.connection.execute("UPDATE projection SET version = 0 WHERE name = ?", (name,))


def _publish(draft: Path, path: Path) -> None:
    """Let a whole file appear under its name, unless there is one."""
    try:
        try:
            os.link(draft, path)
        except FileExistsError:
            raise
        except OSError:  # A file system without hard links.
            if path.exists():
                raise FileExistsError from None
            draft.rename(path)
    except FileExistsError as error:
        raise Conflict(f"there is a database already: {path}") from error


def _lay(path: Path, fill: Callable[[Connection], None]) -> None:
    connection = sqlite3.connect(path, isolation_level=None, factory=Connection)
    try:
        connection.execute(f"PRAGMA page_size = {schema.PAGE_SIZE}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        schema.create(connection)
        fill(connection)
        connection.execute("COMMIT")
    finally:
        connection.close()


def _begin(connection: Connection, actor: str, at: int) -> None:
    """Give a new project its identity and its first event."""
    import uuid  # Only a new project needs it.

    row = (str(uuid.uuid4()), os.urandom(32), at, schema.MIN_READER, schema.MIN_WRITER, schema.UPGRADE_HINT)
    connection.execute("INSERT INTO project VALUES (?, ?, ?, ?, ?, ?)", row)
    writing = Writing(connection, Head(connection), (), {})
    writing.append(refs.MAIN, [Draft("project", schema.declare(schema.FORMAT, *row), actor, at)])
    writing.close("init", actor, at)
