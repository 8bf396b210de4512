"""How two heads of one ref become one: the same event on every machine that does it, whoever was first.

The event that joins is made of nothing but the two heads: parents by id, the later time, a salt from their names, no
person. So machines that exchange bundles in any order end with one history. What only a person can settle is refused.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from bede.answers.threeway import Change, changes
from bede.errors import Conflict
from bede.identity import SALT, event_id
from bede.projections.memory import endings, holders
from bede.projections.state import empty, state_at
from bede.records import Draft, Event, Place, Spans
from bede.repository import Reading, Writing, log
from bede.repository.lines import beyond, common
from bede.repository.refs import COORDINATION
from bede.repository.union import lookup

#: Who joins: no agent, since it would be another one on every machine.
ACTOR = "bede"


@dataclass(frozen=True, slots=True)
class Joined:
    """What became of a ref: `created`, `fast-forward`, `merged` or `unchanged`."""

    outcome: str
    head: Place
    before: str


def bring(writing: Writing, ref: str, other: Place) -> Joined:
    """Let a ref see what another machine's head sees.

    Raises:
        Conflict: both sides changed a decision or fact, and not to the same.
    """
    mine = writing.find(ref)
    if mine is None:
        writing.move(ref, other)
        return Joined("created", other, "")
    left, right = writing.spans(mine), writing.spans(other)
    if not beyond(right, left):
        return Joined("unchanged", mine, mine.id)
    if not beyond(left, right):
        writing.move(ref, other)
        return Joined("fast-forward", other, mine.id)
    head = _join(writing, ref, *sorted((mine, other), key=lambda place: place.id))
    return Joined("merged", head, mine.id)


def _join(writing: Writing, ref: str, one: Place, two: Place) -> Place:
    draft = _draft(writing, ref, one, two)
    prepared = log.prepare(draft)
    named = event_id(draft.kind, (one.id, two.id), draft.actor, "", draft.happened_at, prepared[2]).hex()
    there = lookup(writing.connection, named)
    if there is not None:  # It was joined here or elsewhere before, and the ref went back since.
        writing.move(ref, there)
        return there
    writing.move(ref, one)
    writing.append(ref, [draft], merged=two)
    return writing.tip(ref)


def _draft(reading: Reading, ref: str, one: Place, two: Place) -> Draft:
    events = reading.load([one.seq, two.seq])
    body: dict[str, object] = {"branch": ref, "heads": [one.id, two.id]}
    is_thought = ref != COORDINATION and not ref.startswith("sessions/")
    if is_thought and (lost := _lost(reading, ref, one, two)):
        body["ends"] = {"supersedes": lost}
    salt = hashlib.sha256(f"bede join 1\n{ref}\n{one.id}\n{two.id}\n".encode()).digest()[:SALT]
    return Draft("merge", body, ACTOR, max(event.happened_at for event in events.values()), salt=salt)


def _lost(reading: Reading, ref: str, one: Place, two: Place) -> list[str]:
    """Return the ids of what no longer holds once the two are one.

    Raises:
        Conflict: both changed a key, and not to the same.
    """
    left, right = reading.spans(one), reading.spans(two)
    base = _base(reading, left, right)
    ours, theirs = (state_at(reading.connection, place.line, place.position) for place in (one, two))
    found = changes(state_at(reading.connection, base.line, base.position) if base else empty(), ours, theirs)
    if conflicts := [change for change in found if change.conflict]:
        raise _conflict(reading, ref, conflicts)
    lost: set[int] = set()
    for change in found:
        loser, winner = (right, left) if change.side == "ours" else (left, right)
        held = holders(reading.connection, loser, change.kind, change.key)
        lost.update(set(held) - endings(reading.connection, held, winner).keys())
    return sorted(event.id for event in reading.load(sorted(lost)).values())


def _base(reading: Reading, left: Spans, right: Spans) -> Place | None:
    """Return where the two parted: of several such events one that is the same on every machine; None for none."""
    ends = [reading.at(line, position) for line, position in common(left, right).items()]
    views = {end.seq: reading.spans(end) for end in ends}
    last = [
        end for end in ends
        if not any(other.seq != end.seq and end.position <= views[other.seq].get(end.line, 0) for other in ends)
    ]  # fmt: skip
    events = reading.load([end.seq for end in last])
    return max(last, key=lambda end: (events[end.seq].happened_at, end.id), default=None)


def _conflict(reading: Reading, ref: str, conflicts: list[Change]) -> Conflict:
    events = reading.load([seq for change in conflicts for seq in (change.ours, change.theirs) if seq])
    listed = [
        {"kind": item.kind, "key": item.key, "values": [_value(events, item.ours), _value(events, item.theirs)]}
        for item in conflicts
    ]
    return Conflict(
        f"both sides of {ref} changed " + ", ".join(f"{item.kind} {item.key!r}" for item in conflicts),
        reason="merge_conflict",
        conflicts=listed,
        branch=ref,
    )


def _value(events: dict[int, Event], seq: int) -> object:
    return (events[seq].body or {}).get("value") if seq else None
