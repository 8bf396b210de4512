"""What was told, sorted by whose it is; held back, as far as there is room, until that is known."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol

from bede.intake.reading import Told

#: So many turns, or characters of them, are written in one transaction.
TURNS, CHARACTERS = 512, 2_000_000
#: Most characters of a file that are held back; beyond that the file is read a second time, if it is the project's.
HELD = 16_000_000


class Owner(Protocol):
    """Who knows which folders and sessions are the project's."""

    roots: Any

    def holds(self, cwd: str) -> bool:
        """Tell whether a folder is the project's."""

    def has(self, agent: str, session: str) -> bool:
        """Tell whether a session is the project's."""


class Sorting:
    """What one file told. `mark` is what is known of its sessions; `is_sure` when nothing more will be found out."""

    def __init__(self, owner: Owner, agent: str, mark: dict[str, Any], *, is_sure: bool = False) -> None:
        self.places: dict[str, bool] = dict(mark.get("places", {}))
        self.folders: dict[str, bool] = dict(mark.get("folders", {}))
        self.is_placed: bool = mark.get("is_placed", True)
        self.is_short = False
        self._is_sure = is_sure
        self._owner = owner
        self._agent = agent
        self._ready: list[Told] = []
        self._held: dict[str, list[Told]] = {}
        self._parents: dict[str, str] = dict(mark.get("waits", {}))
        self._left = set(self._parents)
        self._size = self._held_size = 0
        self._has_told = False

    def mark(self) -> dict[str, Any]:
        """Return whose the sessions are, which folders they told, and what is not decided."""
        return {
            "places": self.places,
            "holder": any(self.places.values()),
            "folders": self.folders,
            "is_placed": self.is_placed and not self._undecided(),
            **({"waits": waits} if (waits := self.waits) else {}),
        }

    @property
    def waits(self) -> dict[str, str]:
        """The sessions of which it is not known whose they are, each with the one it came out of, or ''."""
        return {session: self._parents.get(session, "") for session in sorted(self._undecided())}

    def _undecided(self) -> set[str]:
        return {*self._held, *self._left} - self.places.keys()

    def take(self, told: Iterable[Told]) -> None:
        """Sort what was told."""
        for item in told:
            self._has_told = True
            if item.session not in self.places:
                self._decide(item)
            is_ours = self.places.get(item.session)
            if is_ours is None:
                self._hold(item)
            elif is_ours:
                self._add(item)

    def _decide(self, item: Told) -> None:
        """Find out whose a session is: by the first folder that it tells, or by the session it came out of."""
        if self._owner.roots is None:
            self.places[item.session] = True
        elif item.kind != "session":
            return
        elif item.cwd:
            is_ours, seen = self._owner.holds(item.cwd), item.body.get("cwd", "")
            self.folders[seen] = self.places[item.session] = is_ours
            self.is_placed = self.is_placed and seen == item.cwd
        elif parent := item.body.get("parent", ""):
            self._parents[item.session] = parent
            self.is_placed = False
            if parent in self.places or self._owner.has(self._agent, parent):
                self.places[item.session] = self.places.get(parent, True)
        if item.session in self.places:
            self._release(item.session)

    def _release(self, session: str) -> None:
        """Let go what was held back of a session, and of those that came out of it."""
        decided, is_ours = [session], self.places[session]
        for one in decided:
            self.is_short = self.is_short or (is_ours and one in self._left and not self._is_sure)
            for item in self._held.pop(one, []):
                self._held_size -= _size(item)
                if is_ours:
                    self._add(item)
            children = [each for each in self._undecided() if self._parents.get(each) == one]
            self.places.update(dict.fromkeys(children, is_ours))
            decided += children

    def _hold(self, item: Told) -> None:
        self._held_size += _size(item)
        self._held.setdefault(item.session, []).append(item)
        if self._held_size > HELD:
            self._left.update(self._held)
            self._held.clear()
            self._held_size = 0

    def _add(self, item: Told) -> None:
        self._ready.append(item)
        self._size += _size(item)

    def is_full(self) -> bool:
        """Tell whether there is enough to write."""
        return len(self._ready) >= TURNS or self._size >= CHARACTERS

    def is_empty(self) -> bool:
        """Tell whether there is nothing to write."""
        return not self._ready

    def flush(self) -> list[Told]:
        """Return what is to be written, and begin anew."""
        ready, self._ready, self._size = self._ready, [], 0
        return ready

    def verdict(self) -> str:
        """Return what came of a file: read, foreign, unplaced, or empty."""
        return outcome(self.places, self._undecided())


def outcome(places: Mapping[str, bool], waiting: Collection[str]) -> str:
    """Return what came of a file, by whose its sessions are, and those of which that is not known."""
    if any(places.values()):
        return "read"
    if waiting:
        return "unplaced"
    return "foreign" if places else "empty"


def _size(item: Told) -> int:
    """Return about how many characters an item has."""
    size = 200
    for part in item.body.get("parts", ()):
        for each in (part, *part.get("edits", ()), *part.get("changed", ())):
            size += sum([len(value) for value in each.values() if isinstance(value, str)])
    return size
