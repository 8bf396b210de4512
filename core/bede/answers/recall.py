"""What a run should know before it starts: the task's own memories, then what binds everybody and matches.

Reads only. Nothing is recalled by guess: a constraint or decision comes in when it shares words with the task, the
summary or the command, and each item says which of the three ways brought it.
"""

from __future__ import annotations

from collections.abc import Sequence

from bede.answers.brief import Brief, Section, compose, sentence
from bede.answers.ranking import find
from bede.projections.memory import Filter, newest
from bede.projections.rows import KINDS
from bede.quick import dataclass
from bede.records import Place, Spans
from bede.repository import Reading

#: How a task was left, and what is said of it besides what was run.
_LEFT = ("task_handoff", "status_update")
_SAID = tuple(kind for kind in KINDS if kind != "run")


@dataclass(frozen=True, slots=True)
class Recall:
    """The seqs that were recalled, by section, and the text that is handed over."""

    task: tuple[int, ...]
    constraints: tuple[int, ...]
    decisions: tuple[int, ...]
    brief: Brief

    @property
    def seqs(self) -> list[int]:
        """Everything recalled, in the order of the text."""
        return list(dict.fromkeys((*self.task, *self.constraints, *self.decisions)))


def recall(
    reading: Reading, place: Place, head: str, *, task: str, words: str, top_k: int, budget: int, now: int
) -> Recall:
    """Return what to hand to a run of this task; `words` are its summary and command."""
    from bede.engines.tokens import bound

    seen = reading.spans(place)
    own = _own(reading, seen, task, top_k)
    query = f"{task} {words}".strip()
    constraints = _matching(reading, seen, query, "discovered_constraint", top_k, now, task, own)
    decisions = _matching(reading, seen, query, "decision", top_k, now, task, own)
    events = reading.load([*own, *constraints, *decisions])
    groups = (
        (f"Task {task}", own),
        ("Constraints that match", constraints),
        ("Decisions that match", decisions),
    )
    parts = [Section(title, [sentence(events[seq]) for seq in seqs], len(seqs)) for title, seqs in groups]
    return Recall(tuple(own), tuple(constraints), tuple(decisions), compose(head, parts, budget, bound))


def _own(reading: Reading, seen: Spans, task: str, top_k: int) -> list[int]:
    """Return the task's own active memories, what one must not miss first.

    That is how it was left, the newest hand-off and status; commands that fail; what else was said, newest first; and
    of the commands that pass only as many as there is room for.
    """
    if not task:
        return []
    left = [seq for kind in _LEFT for seq in newest(reading.connection, seen, Filter(kinds=(kind,), task=task), 1)]
    said = newest(reading.connection, seen, Filter(kinds=_SAID, task=task), top_k)
    failed, passed = _runs(reading, seen, task, top_k)
    return list(dict.fromkeys((*left, *failed, *said, *passed)))[:top_k]


def _runs(reading: Reading, seen: Spans, task: str, top_k: int) -> tuple[list[int], list[int]]:
    """Return the latest run of each of a task's commands, those that failed and those that did not."""
    seqs = newest(reading.connection, seen, Filter(kinds=("run",), task=task), top_k * 8)
    events = reading.load(seqs)
    latest: dict[tuple[str, ...], int] = {}
    for seq in seqs:
        latest.setdefault(tuple((events[seq].body or {}).get("command", ())), seq)
    failed = [seq for seq in latest.values() if (events[seq].body or {}).get("exit_status")]
    return failed, [seq for seq in latest.values() if seq not in failed]


def _matching(
    reading: Reading,
    seen: Spans,
    query: str,
    kind: str,
    top_k: int,
    now: int,
    task: str,
    known: Sequence[int],
) -> list[int]:
    if not query:
        return []
    scores = find(reading, seen, query, Filter(kinds=(kind,)), top_k + len(known), now, task)
    return [seq for seq in scores if seq not in known][:top_k]
