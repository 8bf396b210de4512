"""The user's registry: which projects there are on this machine, by name and UUID.

It is a convenience, never the truth: a project is what its own file says. One small SQLite file in the user's data
folder, so that many processes may write at once.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bede.config import user_folder
from bede.errors import Conflict, NotFound, Unavailable
from bede.quick import dataclass

_TABLE = """
CREATE TABLE IF NOT EXISTS project (
  uuid TEXT NOT NULL, root TEXT NOT NULL, name TEXT NOT NULL,
  first_seen INTEGER NOT NULL, last_seen INTEGER NOT NULL,   -- microseconds since 1970, UTC
  PRIMARY KEY (uuid, root)
) STRICT, WITHOUT ROWID
"""


@dataclass(frozen=True, slots=True)
class Known:
    """A project as the registry knows it."""

    uuid: str
    root: str
    name: str
    first_seen: int
    last_seen: int


def path(environment: Mapping[str, str]) -> Path:
    """Return the registry's file."""
    return user_folder(environment, "data") / "registry.db"


def note(environment: Mapping[str, str], uuid: str, root: Path, at: int) -> None:
    """Register a project at its root, in the place of any other there.

    Raises:
        Unavailable: the registry cannot be written.
    """
    with _open(environment) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM project WHERE root = ? AND uuid <> ?", (str(root), uuid))
        connection.execute(
            "INSERT INTO project VALUES (?, ?, ?, ?, ?) ON CONFLICT (uuid, root) DO UPDATE SET last_seen = ?",
            (uuid, str(root), root.name, at, at, at),
        )
        # A project that moved is known where it is now, and no longer where it was.
        for (other,) in connection.execute("SELECT root FROM project WHERE uuid = ?", (uuid,)).fetchall():
            if not os.path.isdir(other):  # noqa: PTH112 (a Path raises where it may not look)
                connection.execute("DELETE FROM project WHERE uuid = ? AND root = ?", (uuid, other))


def forget(environment: Mapping[str, str], root: Path) -> bool:
    """Take a root out of the registry; tell whether it was there."""
    with _open(environment) as connection:
        return connection.execute("DELETE FROM project WHERE root = ?", (str(root),)).rowcount > 0


def all_known(environment: Mapping[str, str]) -> tuple[Known, ...]:
    """Return every registered project, by name; nothing where there is no registry."""
    if not os.path.exists(path(environment)):  # noqa: PTH110 (a Path raises where it may not look)
        return ()
    with _open(environment) as connection:
        return tuple(
            Known(*row)
            for row in connection.execute(
                "SELECT uuid, root, name, first_seen, last_seen FROM project ORDER BY name, root"
            )
        )


def find(environment: Mapping[str, str], name: str, is_there: Callable[[str], bool]) -> Known:
    """Return the one project with this name or UUID; of several, those count whose root `is_there`.

    Raises:
        NotFound: none is registered.
        Conflict: several are.
    """
    wanted = name.lower()
    found = [item for item in all_known(environment) if name == item.name or wanted == item.uuid]
    if len(found) > 1:
        found = [item for item in found if is_there(item.root)] or found
    if len(found) == 1:
        return found[0]
    if not found:
        folder = "; a folder is named with -C" if "/" in name or "\\" in name else ""
        hint = f"'bede projects' lists them; 'bede init' in a project's folder, without --project, adds it{folder}"
        raise NotFound(f"no registered project {name!r}", hint=hint)
    places = ", ".join(f"{item.uuid} at {item.root}" for item in found)
    copies = len({item.uuid for item in found}) == 1
    raise Conflict(
        f"project {name!r} is not unique: {places}", hint="use -C PATH" if copies else "use the UUID, or -C PATH"
    )


@contextmanager
def _open(environment: Mapping[str, str]) -> Iterator[sqlite3.Connection]:
    file = path(environment)
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not file.exists():
            os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
            file.chmod(0o600)
        connection = sqlite3.connect(file, timeout=10, isolation_level=None)
        try:
            with connection:
                connection.execute(_TABLE)
                yield connection
        finally:
            connection.close()
    except (OSError, sqlite3.Error, UnicodeError) as error:
        raise Unavailable(
            f"the registry of projects cannot be used: {file}: {error}", hint="check the folder's permissions"
        ) from error
