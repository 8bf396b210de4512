"""The folded state in words: which sections a context has, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any

from bede.answers.brief import Section, notice_line, sentence
from bede.projections import notices as board
from bede.projections.memory import endings
from bede.projections.state import State
from bede.quick import replace
from bede.records import Place
from bede.repository import Reading

#: Events that are looked through for recent ones, and loaded at once for one section.
_LOOKED, _CHUNK = 200, 24
#: Microseconds after which a stale notice is not told any more: a week.
_FORGOTTEN = 7 * 86_400_000_000


class Lines(Sequence[str]):
    """The lines of some items, a few rendered when they are asked for: a budget takes only the first of many."""

    def __init__(self, items: Sequence[Any], render: Callable[[Sequence[Any]], list[str]]) -> None:
        self._items, self._render = items, render
        self._made: list[str] = []

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:
        end = index.stop if isinstance(index, slice) else index + 1
        while len(self._made) < min(len(self._items), end):
            self._made += self._render(self._items[len(self._made) : len(self._made) + _CHUNK])
        return self._made[index]


def _memories(reading: Reading, short: bool, seqs: Sequence[int]) -> list[str]:
    events = reading.load(seqs)
    return [sentence(events[seq], short=short) for seq in seqs]


def sections(reading: Reading, state: State, place: Place, recent: int, now: int) -> list[Section]:
    """Return the folded state at a place, what an agent must not miss first; notices are the same at every place."""
    failing = {entry[1] for entry in state["blockers"].values()}
    groups: list[tuple[str, Sequence[int], bool]] = [
        ("Blockers (commands that fail)", _newest(failing), False),
        ("Decisions", _newest(entry[0] for entry in state["decisions"].values()), False),
        ("Constraints", _newest(int(seq) for seq in state["constraints"]), False),
        ("Tasks, newest status", _newest(entry[1] or entry[2] or entry[0] for entry in state["tasks"].values()),
        False), ("Hand-offs", _newest(entry[2] for entry in state["tasks"].values() if entry[1] and entry[2]), False),
        ("Facts", _newest(entry[0] for entry in state["facts"].values()), False),
        ("Fleet", _newest(state["fleet"].values()), True),
        ("Commands, latest outcome", _newest({entry[2] for entry in state["runs"].values()} - failing), True),
    ]
    found = [
        Section(title, Lines(seqs, partial(_memories, reading, short)), len(seqs)) for title, seqs, short in groups
    ]
    found.insert(6, _overruled(reading, list(reversed(state["overruled"]))))
    known = {seq for _, seqs, _ in groups for seq in seqs}
    found.insert(1, notices(reading, now))
    return [*found, _recent(reading, place, recent, known)]


def notices(reading: Reading, now: int) -> Section:
    """Return what agents and people told everybody and did not clear: what holds first, then what is stale.

    What has been stale for a week is nobody's concern any more; a list shows it.
    """
    listed = [item for item in board.posted(reading.connection) if now - item.expires_at < _FORGOTTEN]
    order = sorted(listed, key=lambda item: (item.expires_at <= now, -item.created_at, item.id))
    return Section("Notices to everybody", Lines(order, partial(_notices, reading, now)), len(order))


def _notices(reading: Reading, now: int, items: Sequence[board.Posted]) -> list[str]:
    events, brought = reading.load([item.seq for item in items]), board.brought(reading.connection, items)
    lines = []
    for item in items:
        origin = " (from elsewhere, unverified)" if item.id in brought else f"@{item.peer}" if item.peer else ""
        message = str((events[item.seq].body or {}).get("message", ""))
        lines.append(notice_line(item.with_message(message), origin, now))
    return lines


def _newest(seqs: Iterable[int]) -> list[int]:
    return sorted(set(seqs), reverse=True)


def _overruled(reading: Reading, pairs: Sequence[list[int]]) -> Section:
    """Return what no longer holds, the newest of each key first: what holds instead stands under decisions and
    facts."""
    older, pairs = max(0, len(pairs) - _CHUNK), pairs[:_CHUNK]
    events = reading.load([seq for pair in pairs for seq in pair])
    lines: dict[str, str] = {}
    for old, new in pairs:
        if old in events and new in events:
            body = events[old].body or {}
            key = str(body.get("key"))
            if key not in lines:
                note = {"summary": f"{key} is not {body.get('value')} any more"}
                lines[key] = sentence(replace(events[new], kind="note", body=note), short=True)
    return Section("Overruled assumptions", list(lines.values()), len(lines) + older)


def _recent(reading: Reading, place: Place, limit: int, known: set[int]) -> Section:
    """Return the newest events that no other section shows and that still hold."""
    seen = reading.spans(place)
    # A run that is not its command's latest says nothing that still holds.
    fresh = [
        seq
        for seq, kind in islice(reading.kinds_of(seen), _LOOKED)
        if seq not in known and kind not in ("run", "project")
    ]
    ended = endings(reading.connection, fresh, seen)
    found = [seq for seq in fresh if seq not in ended][: limit * 2]
    events = [event for seq, event in sorted(reading.load(found).items(), reverse=True) if event.body is not None]
    return Section("Recent events", [sentence(event, short=True) for event in events[:limit]], len(events[:limit]))
