"""The folded state in words: which sections a context has, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bede.answers.brief import Section, sentence
from bede.projections.state import State
from bede.records import Event, Place
from bede.repository import Reading

#: Most lines prepared of one section; a budget never takes more.
MOST = 80


def sections(reading: Reading, state: State, place: Place, recent: int) -> list[Section]:
    """Return the folded state at a place, what an agent must not miss first."""
    groups: list[tuple[str, Sequence[int], bool]] = [
        ("Blockers (commands that fail)", _newest(entry[1] for entry in state["blockers"].values()), False),
        ("Decisions", _newest(entry[0] for entry in state["decisions"].values()), False),
        ("Constraints", _newest(int(seq) for seq in state["constraints"]), False),
        (
            "Tasks, newest status",
            _newest(entry[1] or entry[2] or entry[0] for entry in state["tasks"].values()),
            False,
        ),
        ("Hand-offs", _newest(entry[2] for entry in state["tasks"].values() if entry[2]), False),
        ("Facts", _newest(entry[0] for entry in state["facts"].values()), False),
        ("Fleet", _newest(state["fleet"].values()), True),
        ("Commands, latest outcome", _newest(entry[2] for entry in state["runs"].values()), True),
    ]
    wanted = [seq for _, seqs, _ in groups for seq in seqs[:MOST]]
    overruled = list(reversed(state["overruled"]))
    wanted += [seq for pair in overruled[:MOST] for seq in pair]
    events = reading.load(sorted(set(wanted)))
    found = [
        Section(title, [sentence(events[seq], short=short) for seq in seqs[:MOST] if seq in events], len(seqs))
        for title, seqs, short in groups
    ]
    lines = [_overruled(events, *pair) for pair in overruled[:MOST]]
    found.insert(6, Section("Overruled assumptions", [line for line in lines if line], len(overruled)))
    return [*found, _recent(reading, place, recent, set(wanted))]


def _newest(seqs: Iterable[int]) -> list[int]:
    return sorted(set(seqs), reverse=True)


def _overruled(events: dict[int, Event], old: int, new: int) -> str:
    if old not in events or new not in events:
        return ""
    before, after = events[old].body or {}, events[new].body or {}
    note = f"{before.get('key')} was {before.get('value')}, is {after.get('value')}"
    return sentence(_with_summary(events[new], note), short=True)


def _with_summary(event: Event, summary: str) -> Event:
    from dataclasses import replace

    return replace(event, kind="note", body={"summary": summary})


def _recent(reading: Reading, place: Place, limit: int, known: set[int]) -> Section:
    """Return the newest events that no other section shows."""
    found: list[Event] = []
    for event in reading.walk(reading.spans(place)):
        if len(found) >= limit or event.kind == "project":
            break
        if event.seq not in known:
            found.append(event)
    return Section("Recent events", [sentence(event, short=True) for event in found], len(found))
