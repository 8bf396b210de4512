"""Tables derived from events, all of which may be dropped. Most take events in by the batch, some as they are appended.

Whoever asks a table that waits for its batch looks at the log for the rest, so that nothing is ever missing.

A projection that changed its shape raises its version: the next writer drops it and builds it again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, cast

from bede.projections.memory import Memory
from bede.projections.state import Snapshots
from bede.records import Event
from bede.repository import Projection, Ripening


class Late:
    """A projection whose room is entered when there is something for it to do: most commands never do."""

    def __init__(self, name: str, version: int, room: str, noun: str, kinds: tuple[str, ...]) -> None:
        """Name it, say where it is, and which kinds of events it follows."""
        self.name, self.version, self.kinds = name, version, frozenset(kinds)
        self._room, self._noun = room, noun

    def _own(self) -> Projection:
        from importlib import import_module

        return cast(Projection, getattr(import_module(f"bede.projections.{self._room}"), self._noun)())

    def create(self, connection: sqlite3.Connection) -> None:
        """Lay the empty tables."""
        self._own().create(connection)

    def drop(self, connection: sqlite3.Connection) -> None:
        """Remove the tables."""
        self._own().drop(connection)

    def follow(self, connection: sqlite3.Connection, events: Sequence[Event]) -> None:
        """Take in those of its kinds."""
        if not self.kinds.isdisjoint([event.kind for event in events]):
            self._own().follow(connection, events)

    def forget(self, connection: sqlite3.Connection, events: Sequence[Event]) -> None:
        """Remove every trace of these events' payloads."""
        self._own().forget(connection, events)


class Later(Late):
    """One that takes events in by the batch, besides."""

    def gather(self, connection: sqlite3.Connection) -> Any | None:
        """Make ready what waits."""
        return cast(Ripening, self._own()).gather(connection)

    def settle(self, connection: sqlite3.Connection, gathered: Any) -> bool:
        """Take in what was made ready."""
        return cast(Ripening, self._own()).settle(connection, gathered)


#: Every projection, in the order in which they follow. Texts wait in the log, so they follow nothing.
PROJECTIONS: tuple[Projection, ...] = (
    Memory(),
    Snapshots(),
    Later("text", 1, "texts", "Text", ()),
    Later("sessions", 1, "sessions", "Sessions", ("session", "turn", "rewind")),
    Late("notices", 3, "notices", "Notices", ("notice", "notice_cleared", "exchange")),
    Late("vectors", 2, "vectors", "Vectors", ()),
)
