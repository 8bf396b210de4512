"""From a question to the memories that answer it: text first, then what sort, whose task, and how fresh."""

from __future__ import annotations

from collections.abc import Sequence

from bede.projections import text
from bede.projections.memory import Filter, admit, text_of, texts_after
from bede.records import Event, Spans
from bede.repository import Reading

#: How much a memory's kind counts: what binds everybody, before what happened once.
_WEIGHTS = {"discovered_constraint": 1.15, "decision": 1.15, "task_handoff": 1.05, "run": 0.9}
#: A memory loses at most this share of its score by age, half of it in `_HALF` microseconds.
_AGEING, _HALF = 0.15, 30 * 86_400 * 1_000_000


def find(
    reading: Reading, seen: Spans, query: str, wanted: Filter, limit: int, now: int, task: str = ""
) -> dict[int, float]:
    """Return seqs of matching memories with their scores, best first; at most `limit`, none where nothing fits."""
    connection = reading.connection
    events: dict[int, Event] = {}

    def read(seqs: Sequence[int]) -> dict[int, str]:
        missing = [seq for seq in seqs if seq not in events]
        events.update(reading.load(missing))
        return {seq: text_of(events[seq].body or {}) for seq in seqs if seq in events}

    def let(seqs: Sequence[int]) -> set[int]:
        return admit(connection, seqs, seen, wanted)

    _, waiting = texts_after(connection, text.upto(connection))
    hits = text.candidates(connection, query, limit=max(limit, 30), read=read, admit=let, waiting=waiting)
    read([hit.seq for hit in hits])
    scores = {hit.seq: hit.score * _weight(events[hit.seq], task, now) for hit in hits if hit.seq in events}
    best = sorted(scores, key=lambda seq: (-scores[seq], -seq))
    return {seq: scores[seq] for seq in best[:limit]}


def _weight(event: Event, task: str, now: int) -> float:
    age = max(0, now - event.happened_at)
    weight = _WEIGHTS.get(event.kind, 1.0) * (1 - _AGEING * age / (age + _HALF))
    own = task and (event.body or {}).get("task_id") == task
    return weight * 1.25 if own else weight
