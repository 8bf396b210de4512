"""How an event looks to its reader: the parts that several results share."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from bede.identity import timestamp
from bede.projections.memory import endings
from bede.quick import dataclass, replace
from bede.records import Event, Record, Spans
from bede.repository import Reading

#: Characters of a summary below which it is not worth showing.
SHORTEST = 20


@dataclass(frozen=True, slots=True)
class Memory(Record):
    """One memory or run. Empty fields are left out of the JSON.

    `left_out` counts the characters of its JSON that are not shown, where the budget has no room for all of it.
    """

    SPARSE: ClassVar[bool] = True

    id: str
    kind: str
    status: str
    task_id: str
    agent_id: str
    at: str
    summary: str
    learnings: tuple[str, ...] = ()
    handoff_note: str = ""
    tags: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    key: str = ""
    value: Any = None
    rationale: str = ""
    command: tuple[str, ...] = ()
    exit_status: int | None = None
    seconds: float | None = None
    output: str = ""
    ended_by: str = ""
    score: float | None = None
    left_out: int | None = None


@dataclass(frozen=True, slots=True)
class Line(Record):
    """One event in a list: who, when, what sort, and its gist. `at` is empty where nobody told a time."""

    id: str
    kind: str
    agent_id: str
    at: str
    task_id: str
    summary: str


def memories(
    reading: Reading, seqs: list[int], seen: Spans, scores: dict[int, float] | None = None
) -> tuple[Memory, ...]:
    """Return memories in the order asked for, each with its status in a view."""
    events = reading.load(seqs)
    ended = endings(reading.connection, seqs, seen)
    enders = reading.load([ender for _, ender in ended.values()])
    found = []
    for seq in seqs:
        if seq in events:
            how, ender = ended.get(seq, ("active", 0))
            score = scores.get(seq) if scores else None
            found.append(_memory(events[seq], how, enders[ender].id if ender else "", score))
    return tuple(found)


def _memory(event: Event, status: str, ender: str, score: float | None) -> Memory:
    body = event.body or {}
    return Memory(
        id=event.id,
        kind=event.kind,
        status=status,
        task_id=body.get("task_id", ""),
        agent_id=event.actor,
        at=timestamp(event.happened_at),
        summary=gist(event),
        learnings=tuple(body.get("learnings", ())),
        handoff_note=body.get("handoff_note", ""),
        tags=tuple(body.get("tags", ())),
        labels=tuple(body.get("labels", ())),
        key=body.get("key", ""),
        value=body.get("value"),
        rationale=body.get("rationale", ""),
        command=tuple(body.get("command", ())),
        exit_status=body.get("exit_status"),
        seconds=body.get("seconds"),
        output=body.get("output", ""),
        ended_by=ender,
        score=None if score is None else round(score, 4),
    )


def shortened(memory: Memory, room: int) -> Memory | None:
    """Return a memory of which no more than the beginning of its summary is left, so that its JSON fits a room.

    None where that is too little to be of use.
    """
    from bede.engines import tokens

    whole, size = _json(memory), len(memory.summary)
    bare = Memory(
        memory.id, memory.kind, memory.status, memory.task_id, memory.agent_id, memory.at, "", left_out=len(whole)
    )
    least = tokens.count(_json(bare))
    while size >= min(SHORTEST, len(memory.summary)) and least < room:
        text = memory.summary[:size] + ("…" if size < len(memory.summary) else "")
        short = replace(bare, summary=text)
        short = replace(short, left_out=len(whole) - len(_json(short)))
        if (cost := tokens.count(_json(short))) <= room:
            return short
        size = min(size - 1, size * (room - least) // (cost - least))
    return None


def _json(memory: Memory) -> str:
    return json.dumps(memory.to_json(), ensure_ascii=False)


def line(event: Event) -> Line:
    """Return an event as one line of a list."""
    task = (event.body or {}).get("task_id", "")
    return Line(event.id, event.kind, event.actor, told_at(event), task, gist(event))


def told_at(event: Event) -> str:
    """Return when an event happened; '' where nobody told, as an agent may not have of its turn."""
    is_untold = event.kind == "turn" and event.body is not None and "at" not in event.body
    return "" if is_untold or not event.happened_at else timestamp(event.happened_at)


def gist(event: Event) -> str:
    """Return what an event says in one statement."""
    if event.body is None:
        return "[purged]"
    body = event.body
    if event.kind == "run":
        return f"exit {body.get('exit_status')}: {' '.join(body.get('command', ()))}"
    if event.kind == "project":
        return "the memory begins"
    if event.kind == "merge":
        return f"merged {body.get('branch', '')}"
    return str(body.get("summary", ""))
