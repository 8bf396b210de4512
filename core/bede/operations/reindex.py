"""`bede reindex`: build everything derived again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bede.context import Context
from bede.operation import operation
from bede.projections import PROJECTIONS
from bede.records import Record


@dataclass(frozen=True, slots=True)
class ReindexResult(Record):
    """Which projections were built, and from how many events."""

    SCHEMA: ClassVar[str] = "reindex/1"

    events: int
    projections: tuple[str, ...]


@operation(effect="host", idempotent=True)
def reindex(context: Context) -> ReindexResult:
    """Drop every table that is derived from the log, and build it again.

    Always safe: all of it happens in one transaction, and nothing that was written is touched.
    """
    events = context.repository.reindex()
    return ReindexResult(events, tuple(projection.name for projection in PROJECTIONS))
