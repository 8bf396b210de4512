"""`bede reindex`: build everything derived again."""

from __future__ import annotations

from typing import ClassVar

from bede.answers.meaning import guests
from bede.context import Context
from bede.operation import operation
from bede.projections import PROJECTIONS
from bede.quick import dataclass
from bede.records import Record


@dataclass(frozen=True, slots=True)
class ReindexResult(Record):
    """Which projections were built, and from how many events.

    `vectors` counts the windows that got one; `warnings` tells why an engine of the settings made none.
    """

    SCHEMA: ClassVar[str] = "reindex/1"

    events: int
    projections: tuple[str, ...]
    vectors: int = 0
    warnings: tuple[str, ...] = ()


@operation(effect="host", idempotent=True)
def reindex(context: Context) -> ReindexResult:
    """Drop every table that is derived from the log, and build it again.

    Always safe: all of it happens in one transaction, and nothing that was written is touched. Vectors are made
    afterwards, by the engine that the settings name.
    """
    events = context.repository.reindex()
    called = guests(context.config, context.environment)
    made = called.fill(context.repository, context.progress)
    names = tuple(projection.name for projection in PROJECTIONS)
    return ReindexResult(events, names, made, tuple(called.warnings))
