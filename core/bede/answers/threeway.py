"""Comparing two lines of thought key by key against where they parted. Pure."""

from __future__ import annotations

from bede.projections.state import State
from bede.quick import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """A decision or fact that differs between two places: seqs of what each says, 0 for nothing.

    It is a conflict when both sides changed it, and not to the same; else `side` is the one that changed it.
    """

    kind: str
    key: str
    base: int
    ours: int
    theirs: int
    conflict: bool
    side: str


def changes(base: State, ours: State, theirs: State) -> tuple[Change, ...]:
    """Return every decision and fact in which two states differ, by kind and key."""
    found = []
    for kind, table in (("decision", "decisions"), ("fact", "facts")):
        for key in sorted(ours[table].keys() | theirs[table].keys() | base[table].keys()):
            entries = [state[table].get(key) for state in (base, ours, theirs)]
            was, mine, other = [entry[1] if entry else None for entry in entries]
            if mine != other:
                seqs = [entry[0] if entry else 0 for entry in entries]
                side = "theirs" if mine == was else "ours" if other == was else ""
                found.append(Change(kind, key, seqs[0], seqs[1], seqs[2], not side, side))
    return tuple(found)
