"""What memories say, handed to the index of texts by the batch."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from bede.projections import text
from bede.projections.memory import text_of, texts_after
from bede.projections.rows import KINDS
from bede.records import Event


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
        """Let them wait in the log; see `gather`."""

    def gather(self, connection: sqlite3.Connection) -> tuple[int, int, text.Batch] | None:
        """Make ready what waits, when it is worth a batch."""
        before = text.upto(connection)
        if not text.is_due(connection, before):
            return None
        last, rows = texts_after(connection, before, text.CHUNK)
        return before, last, text.prepare(connection, rows.items())

    def settle(self, connection: sqlite3.Connection, gathered: tuple[int, int, text.Batch]) -> bool:
        """Index what was made ready, unless another writer was faster; tell whether it was done."""
        before, last, batch = gathered
        is_first = text.upto(connection) == before
        if is_first:
            text.add(connection, batch, last)
        return is_first

    def forget(self, connection: sqlite3.Connection, events: Sequence[Event]) -> None:
        """Take the words of these events out of the index."""
        said = ((event.seq, text_of(event.body)) for event in events if event.kind in KINDS and event.body)
        text.remove(connection, said)
