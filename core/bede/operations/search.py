"""`bede search`: find what was learned."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from bede.answers.ranking import find
from bede.answers.views import Memory, memories
from bede.context import Context
from bede.errors import UsageError
from bede.identity import instant
from bede.operation import Field, operation
from bede.projections.memory import KINDS, Filter
from bede.records import Record, Spans
from bede.repository import Reading

Kind = Literal[
    "task_handoff",
    "status_update",
    "discovered_constraint",
    "fleet_member",
    "decision",
    "fact",
    "task",
    "note",
    "run",
]
#: Characters of a query: the answer repeats it.
_LONGEST = 10_000
Status = Literal["active", "superseded", "invalidated", "all"]


@dataclass(frozen=True, slots=True)
class SearchResult(Record):
    """Memories, best first, or newest first without a query; none is an answer too.

    `cursor` goes on where this page ends. `left_out` counts the results that the budget had no room for.
    """

    SCHEMA: ClassVar[str] = "search/1"

    query: str
    branch: str
    head: str
    results: tuple[Memory, ...]
    more: bool
    cursor: str
    left_out: int


@operation(effect="read", toolset="memory")
def search(
    context: Context,
    query: Annotated[str, Field("Words, a question, or any literal text")] = "",
    *,
    kind: Annotated[list[Kind] | None, Field("Only these kinds")] = None,
    status: Annotated[Status, Field("Whether it still holds")] = "active",
    task_id: Annotated[str, Field("Only this task's")] = "",
    agent_id: Annotated[str, Field("Only this agent's")] = "",
    tags: Annotated[list[str] | None, Field("Only with all these tags")] = None,
    labels: Annotated[list[str] | None, Field("Only with all these labels")] = None,
    since: Annotated[str, Field("Not older than a date, time, or age such as 3d")] = "",
    until: Annotated[str, Field("Older than")] = "",
    at: Annotated[str | None, Field("Branch or event to look from")] = None,
    top_k: Annotated[int, Field("Most results", ge=1, le=100)] = 10,
    cursor: Annotated[str, Field("Cursor of the page before")] = "",
    budget: Annotated[int | None, Field("Most tokens of the answer", ge=100, le=200_000)] = None,
) -> SearchResult:
    """Search memories and runs by text, or list them by filters.

    The query is data, never syntax: any literal that was stored is found, and questions work. What was superseded
    stays out unless --status asks for it.
    """
    now = context.now()
    wanted = Filter(
        kinds=tuple(kind or ()),
        task=task_id or None,
        agent=agent_id,
        tags=tuple(tags or ()),
        labels=tuple(labels or ()),
        since=instant(since, now) if since else None,
        until=instant(until, now) if until else None,
        status=status,
    )
    if len(query) > _LONGEST:
        raise UsageError(f"the query has {len(query):,} characters, at most {_LONGEST:,} are searched for")
    if not query.strip() and not wanted.narrows and status == "active":
        raise UsageError("nothing to search for", hint=f"give words or a filter, such as --kind {KINDS[2]}")
    if cursor and not (cursor.isdecimal() and len(cursor) < 19):
        raise UsageError(f"not a cursor: {cursor!r}", hint="use the cursor of the page before as it is")
    with context.repository.snapshot() as reading:
        place = context.look(reading, at)
        seen = reading.spans(place)
        page, rest = _page(reading, seen, query, wanted, top_k, int(cursor or 0), now)
        result = SearchResult(query, at or context.branch(reading), place.id, page, bool(rest), rest, 0)
    return _within(result, budget) if budget else result


def _page(
    reading: Reading, seen: Spans, query: str, wanted: Filter, top_k: int, start: int, now: int
) -> tuple[tuple[Memory, ...], str]:
    """Return one page and the cursor of the next: an offset into a ranking, or a place in the log."""
    if query.strip():
        scores = find(reading, seen, query, wanted, start + top_k + 1, now)
        seqs = list(scores)[start : start + top_k + 1]
        rest = str(start + top_k)
    else:
        scores: dict[int, float] | None = None  # type: ignore[no-redef]
        wanted = replace(wanted, before=start or None)
        seqs = _newest(reading, seen, wanted, top_k + 1)
        rest = str(seqs[top_k - 1]) if len(seqs) > top_k else ""
    return memories(reading, seqs[:top_k], seen, scores), rest if len(seqs) > top_k else ""


def _newest(reading: Reading, seen: Spans, wanted: Filter, limit: int) -> list[int]:
    from bede.projections.memory import newest

    return newest(reading.connection, seen, wanted, limit)


def _within(result: SearchResult, budget: int) -> SearchResult:
    """Keep as many results as the budget has room for, counted on the whole answer."""
    from bede.engines import tokens

    kept = result
    while kept.results and not tokens.fits(json.dumps(kept.to_json(), ensure_ascii=False), budget):
        shorter = kept.results[:-1]
        kept = replace(kept, results=shorter, more=True, left_out=len(result.results) - len(shorter))
    return kept
