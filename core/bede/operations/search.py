"""`bede search`: find what was learned."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from bede.answers.ranking import find
from bede.answers.said import Passage
from bede.answers.views import Memory, memories, shortened
from bede.context import Context
from bede.errors import UsageError
from bede.identity import instant
from bede.operation import Field, operation
from bede.projections import sessions
from bede.projections.memory import Filter, newest
from bede.projections.rows import KINDS, Kind
from bede.projections.sessions import Wanted
from bede.quick import dataclass, replace
from bede.records import Record, Spans
from bede.repository import Reading

if TYPE_CHECKING:
    from bede.answers.meaning import Guests

#: Characters of a query: the answer repeats it.
_LONGEST = 10_000
Status = Literal["active", "superseded", "invalidated", "all"]
Where = Literal["memory", "turns", "all"]
Order = Literal["time", "rank"]
#: Most results where no number is given, and most tokens of passages where no budget is.
MEMORIES, PASSAGES, BUDGET = 10, 15, 4200
#: Fewest tokens that a budget may have: what an answer has around its results, and a part of the query.
LEAST = 150
#: As long as any cursor is.
_CURSOR = "9" * 24
#: Passages that a reranker reads, where one is asked for.
READ = 30


@dataclass(frozen=True, slots=True)
class SearchResult(Record):
    """Memories, best first, or newest first without a query; and passages of sessions. None is an answer too.

    `cursor` goes on where this page of memories ends: there is one whenever there is `more`. `left_out` and
    `passages_left_out` count what the budget had no room for, and a long query is repeated only so far as it has.
    `engine` tells whose vectors took part, "" for words alone; `warnings` why an engine of the settings did
    not, or not wholly.
    """

    SCHEMA: ClassVar[str] = "search/1"

    query: str
    branch: str
    head: str
    results: tuple[Memory, ...]
    more: bool
    cursor: str
    left_out: int
    passages: tuple[Passage, ...] = ()
    passages_left_out: int = 0
    engine: str = ""
    warnings: tuple[str, ...] = ()


@operation(effect="read", toolset="memory")
def search(
    context: Context,
    query: Annotated[str, Field("Words, a question, or any literal text")] = "",
    *,
    kind: Annotated[list[Kind] | None, Field("Only these kinds")] = None,
    status: Annotated[Status, Field("Whether it still holds")] = "active",
    task_id: Annotated[str, Field("Only this task's")] = "",
    agent: Annotated[str, Field("Only this agent's")] = "",
    agent_id: Annotated[str, Field("The same as --agent", hidden=True)] = "",
    tags: Annotated[list[str] | None, Field("Only with all these tags")] = None,
    labels: Annotated[list[str] | None, Field("Only with all these labels")] = None,
    since: Annotated[str, Field("Not older than a date, time, or age such as 3d")] = "",
    until: Annotated[str, Field("Older than")] = "",
    at: Annotated[str | None, Field("Branch or event to look from")] = None,
    in_: Annotated[Where, Field("Memories, passages of agents' sessions, or both")] = "all",
    session: Annotated[str, Field("Only passages of this session, by its name or a unique beginning")] = "",
    file: Annotated[str, Field("Only passages whose turns changed this file")] = "",
    git_branch: Annotated[str, Field("Only passages of sessions on this git branch")] = "",
    order: Annotated[Order, Field("Passages by time, or best first")] = "time",
    top_k: Annotated[int | None, Field("Most results (memories 10, passages 15)", ge=1, le=100)] = None,
    cursor: Annotated[str, Field("Cursor of the page before")] = "",
    budget: Annotated[int | None, Field("Most tokens of the answer", ge=LEAST, le=200_000)] = None,
    engine: Annotated[
        str, Field("Look for passages by meaning too: static, mlx:4b, st:NAME, onnx:/folder; or lexical", cli_only=True)
    ] = "",
    reranker: Annotated[
        str, Field("Let this read the best passages and order them: mlx:4b, st:NAME, onnx:/folder", cli_only=True)
    ] = "",
) -> SearchResult:
    """Search memories and runs by text, or list them by filters; and what was said in agents' sessions.

    The query is data, never syntax: any literal that was stored is found, and questions work. What was superseded
    stays out unless --status asks for it. Of sessions whole turns come back, in order of time; nothing where nothing is
    relevant.
    """
    now = context.now()
    agent = _either(agent, agent_id)
    wanted = Filter(
        kinds=tuple(kind or ()),
        task=task_id or None,
        agent=agent,
        tags=tuple(tags or ()),
        labels=tuple(labels or ()),
        since=instant(since, now) if since else None,
        until=instant(until, now) if until else None,
        status=status,
    )
    sought = Wanted(agent, session, git_branch, file, wanted.since, wanted.until, with_rewound=status == "all")
    only = bool(session or file or git_branch)
    _check(wanted, only, in_)
    if len(query) > _LONGEST:
        raise UsageError(f"the query has {len(query):,} characters, at most {_LONGEST:,} fit", hint="shorten it")
    if not query.strip() and not wanted.narrows and status == "active" and not only:
        raise UsageError("nothing to search for", hint=f"give words or a filter, such as --kind {KINDS[2]}")
    with context.repository.snapshot() as reading:
        sought = _meant(reading, sought)
        head, start = _continued(cursor)
        place = reading.place(head) if head else context.look(reading, at)
        seen = reading.spans(place)
        result = _asked(SearchResult(query, at or context.branch(reading), place.id, (), False, "", 0), budget)
        if in_ != "turns" and not only:
            result = _page(reading, result, seen, query, wanted, top_k or MEMORIES, start, place.seq, now, budget)
        if in_ != "memory" and not cursor and not _is_about_memories(wanted) and sessions.are_any(reading.connection):
            called = _guests(context, engine, reranker)
            result = _talk(reading, result, query, sought, top_k or PASSAGES, budget, order, called)
        return result


def _asked(empty: SearchResult, budget: int | None) -> SearchResult:
    """Return an answer that repeats the query: of one that takes over a quarter of a budget only the beginning."""
    if not budget or not empty.query:
        return empty
    from bede.engines import tokens

    told, size = empty, len(empty.query)
    while size and not (
        tokens.fits(json.dumps(told.query, ensure_ascii=False), budget // 4)
        and _fits(replace(told, cursor=_CURSOR), budget)
    ):
        size = size * 3 // 4
        told = replace(empty, query=empty.query[:size] + "…")
    return told


def _guests(context: Context, engine: str, reranker: str) -> Guests | None:
    """Return the engines that the call or the settings name; who searches by words alone pays nothing for them."""
    if (engine or context.config["search.engine"]) == "lexical" and not (reranker or context.config["search.reranker"]):
        return None
    from bede.answers.meaning import guests

    return guests(context.config, context.environment, engine, reranker)


def _is_about_memories(wanted: Filter) -> bool:
    """Tell whether a filter asks for something that only memories have."""
    return bool(wanted.kinds or wanted.task or wanted.tags or wanted.labels)


def _either(agent: str, other: str) -> str:
    """Return an agent's name, which may be given in two ways, but not as two names."""
    if agent and other and agent != other:
        raise UsageError("--agent and --agent-id name two agents", hint="give one of them")
    return agent or other


def _check(wanted: Filter, only: bool, where: str) -> None:
    """Refuse filters that leave nothing to search: what only memories have together with what only passages have."""
    if _is_about_memories(wanted) and (only or where == "turns"):
        asked = "--session, --file and --git-branch" if only else "--in turns"
        raise UsageError(
            f"--kind, --task-id, --tags and --labels ask for memories, {asked} for what was said in sessions",
            hint="leave out one or the other",
        )
    if only and where == "memory":
        raise UsageError(
            "--session, --file and --git-branch ask for what was said in sessions, --in memory for none of it",
            hint="leave out --in memory",
        )


def _meant(reading: Reading, wanted: Wanted) -> Wanted:
    if not (wanted.agent or wanted.session):
        return wanted
    from bede.answers import talk

    return talk.meant(reading.connection, wanted)


def _talk(
    reading: Reading,
    result: SearchResult,
    query: str,
    wanted: Wanted,
    limit: int,
    budget: int | None,
    order: str,
    called: Guests | None,
) -> SearchResult:
    """Add the passages that answer, within what the memories have left of the budget."""
    from bede.answers import said, talk

    near = called.near(reading.connection, query) if called and query.strip() else None
    room = max(0, budget - _around(result, called)) if budget else BUDGET
    if not query.strip():
        return _listed(reading, result, wanted, limit, room)
    many = max(limit, READ) if called and called.ranks else limit
    found = talk.find(reading.connection, query, wanted, many, min(talk.PASSAGE, room // limit), near)
    shown = said.passages(reading.connection, found)
    shown = called.reranked(query, shown)[:limit] if called else shown
    tell = talk.telling(reading.connection, query)
    kept, missing = said.fitting(shown, room, tell)
    if order == "time":
        kept.sort(key=lambda one: (one.turns[0].at, one.session, one.turns[0].turn))
    return replace(
        result,
        passages=tuple(kept),
        passages_left_out=missing,
        engine=called.used if called and near else "",
        warnings=tuple(called.warnings) if called else (),
    )


def _around(result: SearchResult, called: Guests | None) -> int:
    """Count an answer without its passages, and what is to come: which engine it was, and how many had no room."""
    from bede.engines import tokens

    warned = replace(result, warnings=tuple(called.warnings)) if called else result
    return tokens.count(json.dumps(warned.to_json(), ensure_ascii=False)) + 40


def _listed(reading: Reading, result: SearchResult, wanted: Wanted, limit: int, room: int) -> SearchResult:
    """Without words: the newest turns that the filters let through, each by itself."""
    from bede.answers import said, talk

    numbers = sessions.newest(reading.connection, wanted, limit)
    found = [talk.Found((number,), number, 0.0, 0) for number in numbers]
    tell = talk.telling(reading.connection, "")
    kept, missing = said.fitting(said.passages(reading.connection, found), room, tell)
    return replace(result, passages=tuple(reversed(kept)), passages_left_out=missing)


def _page(
    reading: Reading,
    result: SearchResult,
    seen: Spans,
    query: str,
    wanted: Filter,
    most: int,
    start: int,
    head: int,
    now: int,
    budget: int | None,
) -> SearchResult:
    """Add a page of memories, as many as the budget has room for, and the cursor of the next one.

    A memory of which there is not even room for the beginning is passed over: whoever goes on comes to an end.
    """
    seqs, scores = _found(reading, seen, query, wanted, most + 1, start, now)
    result = replace(result, results=memories(reading, seqs[:most], seen, scores))
    kept = _within(result, budget) if budget else result
    count = max(1, len(kept.results))
    if len(seqs) <= count:
        return kept
    rest = start + count if query.strip() else seqs[count - 1]
    return replace(kept, more=True, cursor=f"{head}.{rest}")


def _continued(cursor: str) -> tuple[int, int]:
    """Read a cursor: the event that the first page looked from, and where this one goes on; zeros for none."""
    if not cursor:
        return 0, 0
    if not re.fullmatch(r"[1-9][0-9]{0,17}\.[1-9][0-9]{0,17}", cursor):
        raise UsageError(f"not a cursor: {cursor[:80]!r}", hint="use the cursor of the page before as it is")
    head, start = cursor.split(".")
    return int(head), int(start)


def _found(
    reading: Reading, seen: Spans, query: str, wanted: Filter, limit: int, start: int, now: int
) -> tuple[list[int], dict[int, float] | None]:
    """Return a page's memories: from an offset into a ranking, or from a place in the log, newest first."""
    if query.strip():
        scores = find(reading, seen, query, wanted, start + limit, now)
        return list(scores)[start : start + limit], scores
    return newest(reading.connection, seen, replace(wanted, before=start or None), limit), None


def _within(result: SearchResult, budget: int) -> SearchResult:
    """Keep as many results as the budget has room for, counted on the whole answer with the longest cursor.

    Of one alone that does not fit the beginning is kept, if there is room for that.
    """
    kept = replace(result, cursor=_CURSOR)
    while kept.results and not _fits(kept, budget):
        shorter = kept.results[:-1]
        kept = replace(kept, results=shorter, left_out=len(result.results) - len(shorter))
    if result.results and not kept.results:
        kept = replace(kept, results=_first(result.results[0], kept, budget))
    return replace(kept, cursor="", left_out=len(result.results) - len(kept.results))


def _first(memory: Memory, empty: SearchResult, budget: int) -> tuple[Memory, ...]:
    """Return the beginning of the first memory, or nothing where an answer has no room for it."""
    from bede.engines import tokens

    room = budget - tokens.count(json.dumps(empty.to_json(), ensure_ascii=False)) - 2
    short = shortened(memory, room)
    return (short,) if short else ()


def _fits(result: SearchResult, budget: int) -> bool:
    from bede.engines import tokens

    return tokens.fits(json.dumps(result.to_json(), ensure_ascii=False), budget)
