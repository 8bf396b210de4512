"""Tables derived from events. Each follows the log inside the append's own transaction; all may be dropped.

A projection that changed its shape raises its version: the next writer drops it and builds it again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from bede.projections import text
from bede.projections.memory import KINDS, Memory, text_of
from bede.projections.state import Snapshots
from bede.records import Event
from bede.repository import Projection


class Text:
    """The projection of what memories say: it hands their texts to the index."""

    name = text.NAME
    version = text.VERSION

    def create(self, connection: sqlite3.Connection) -> None:
        """Lay the empty index."""
        text.create(connection)

    def drop(self, connection: sqlite3.Connection) -> None:
        """Remove the index."""
        text.drop(connection)

    def follow(self, connection: sqlite3.Connection, events: Sequence[Event]) -> None:
        """Take in the texts of the memories among these events."""
        text.add(connection, _texts(events))

    def forget(self, connection: sqlite3.Connection, events: Sequence[Event]) -> None:
        """Take the words of these events out of the index."""
        text.remove(connection, _texts(events))


def _texts(events: Sequence[Event]) -> Iterator[tuple[int, str]]:
    for event in events:
        if event.kind in KINDS and event.body is not None and (said := text_of(event.body)):
            yield event.seq, said


#: Every projection, in the order in which they follow.
PROJECTIONS: tuple[Projection, ...] = (Memory(), Snapshots(), Text())
