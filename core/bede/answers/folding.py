"""The folded state in words: which sections a context has, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

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
    found.insert(6, _overruled(events, overruled[:MOST], len(overruled)))
    return [*found, _recent(reading, place, recent, set(wanted))]


def _newest(seqs: Iterable[int]) -> list[int]:
    return sorted(set(seqs), reverse=True)


def _overruled(events: dict[int, Event], pairs: Sequence[list[int]], total: int) -> Section:
    """Return what no longer holds, the newest of each key first: what holds instead stands under decisions and facts."""
    lines: dict[str, str] = {}
    for old, new in pairs:
        if old in events and new in events:
            body = events[old].body or {}
            key = str(body.get("key"))
            note = {"summary": f"{key} is not {body.get('value')} any more"}
            lines.setdefault(key, sentence(replace(events[new], kind="note", body=note), short=True))
    return Section("Overruled assumptions", list(lines.values()), total)


def _recent(reading: Reading, place: Place, limit: int, known: set[int]) -> Section:
    """Return the newest events that no other section shows."""
    found: list[Event] = []
    for event in reading.walk(reading.spans(place)):
        if len(found) >= limit or event.kind == "project":
            break
        # A run that is not its command's latest says nothing that still holds.
        if event.seq not in known and event.kind != "run":
            found.append(event)
    return Section("Recent events", [sentence(event, short=True) for event in found], len(found))
