"""Items to turns: the units that are stored, searched and given back whole.

A turn is one contribution: something in the user's role, or one step of the assistant, that is what it said and the
tools it called then. The fold is deterministic and calls no model; it knows nothing of files, clocks and databases.
It may be stopped behind any item and goes on from its state, with the same turns as the result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from bede.sources.port import Call, Edit, Item, Prompt, Reply, Result, Thought, Usage
from bede.turns import Turn, text_of

__all__ = ["Turn", "Turns", "fold", "text_of"]

#: A step of the assistant is divided between two calls when it has so many parts or characters.
PARTS, CHARACTERS = 24, 6000
#: How many finished turns are kept in mind because a call of theirs has no result yet.
WAITING = 16
#: Where a part says something, and where it holds edits.
_SAID, _EDITS = ("text", "thought", "tool", "target", "output"), ("edits", "changed")
#: What a request to the model cost, and the model.
_COUNTS: tuple[str, ...] = Usage.__slots__


class Turns:
    """The fold over the items of one session. `state` is JSON, empty at the beginning."""

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        self.state: dict[str, Any] = state if state else {"open": None, "waiting": []}

    def take(self, item: Item) -> list[Turn]:
        """Take in an item; return the turns that it finished, and earlier ones, whole again, that it completed."""
        what = item.what
        if isinstance(what, Usage):
            self._usage(item, what)
        elif isinstance(what, (Thought, Call)):
            return self._add(item, what)
        elif isinstance(what, Result):
            return self._result(item, what)
        elif isinstance(what, Reply):
            return self._reply(item, what)
        elif isinstance(what, Prompt):
            done = self._begin(item, what.speaker, {"text": what.text})
            if what.images:
                self.state["open"]["images"] = what.images
            return done
        return []

    def open(self) -> Turn | None:
        """Return the turn that is not finished yet, as far as it goes."""
        turn: Turn | None = self.state["open"]
        return turn

    def _begin(self, item: Item, by: str, part: dict[str, Any]) -> list[Turn]:
        """Begin a turn; return the one before, which is finished."""
        done = self._close()
        turn = {"key": item.key, "by": by, "line": item.line, "parts": [{"key": item.key, **part}]}
        if item.at is not None:
            turn.update(at=item.at, until=item.at, precision=item.precision)
        if item.is_side:
            turn["side"] = True
        if item.parent:
            turn["parent"] = item.parent
        if item.origin:
            turn["origin"] = item.origin
        if item.is_replayed:
            turn["replayed"] = True
        self.state["open"] = turn
        return done

    def _close(self) -> list[Turn]:
        turn = self.state["open"]
        if turn is None:
            return []
        self.state["open"] = None
        if any(map(_is_pending, turn["parts"])):
            self.state["waiting"] = [*self.state["waiting"][1 - WAITING :], turn]
        return [turn]

    def _reply(self, item: Item, what: Reply) -> list[Turn]:
        turn, done = self.state["open"], list[Turn]()
        fits = turn is not None and turn["by"] == "assistant" and all("thought" in part for part in turn["parts"])
        if fits:
            self._append(item, {"text": what.text})
        else:
            done = self._begin(item, "assistant", {"text": what.text})
        if what.model:
            self.state["open"]["model"] = what.model
        if what.is_error:
            self.state["open"]["is_error"] = True
        return done

    def _add(self, item: Item, what: Thought | Call) -> list[Turn]:
        part = {"thought": what.text} if isinstance(what, Thought) else _call(what)
        turn = self.state["open"]
        is_next = isinstance(what, Thought) and turn and any("thought" not in known for known in turn["parts"])
        if turn is None or turn["by"] != "assistant" or is_next or _is_full(turn):
            return self._begin(item, "assistant", part)
        self._append(item, part)
        return []

    def _append(self, item: Item, part: dict[str, Any]) -> None:
        turn = self.state["open"]
        turn["parts"].append({"key": item.key, **part})
        if item.at is not None:
            turn.setdefault("at", item.at)
            turn.setdefault("precision", item.precision)
            turn["until"] = max(item.at, turn.get("until", item.at))

    def _result(self, item: Item, what: Result) -> list[Turn]:
        turn, done = self.state["open"], list[Turn]()
        if turn is not None and _settle(turn, item, what):
            return done
        for number, waiting in enumerate(reversed(self.state["waiting"]), 1):
            if _settle(waiting, item, what):
                if not any(map(_is_pending, waiting["parts"])):
                    del self.state["waiting"][-number]
                return [waiting]
        if what.edits or what.output:
            alone = {"call": what.call, "tool": "", "target": ""}
            if turn is None or turn["by"] != "assistant":
                done = self._begin(item, "assistant", alone)
            else:
                self._append(item, alone)
            _settle(self.state["open"], item, what)
        return done

    def _usage(self, item: Item, what: Usage) -> None:
        turn = self.state["open"] or (self.state["waiting"] or [None])[-1]
        if turn is not None:
            known = turn.setdefault("usage", {}).setdefault(item.key, {})
            for name in _COUNTS:
                if value := getattr(what, name):
                    known[name] = max(value, known.get(name, value)) if name != "model" else value


def muted(state: dict[str, Any], keys: Collection[str]) -> dict[str, Any]:
    """Return a fold's state in which some turns say nothing; what is still to come to them finds its place."""
    turn, waiting = state["open"], state["waiting"]
    return {
        "open": _muted(turn) if turn and turn["key"] in keys else turn,
        "waiting": [_muted(each) if each["key"] in keys else each for each in waiting],
    }


def _muted(turn: Turn) -> Turn:
    kept = ({name: part[name] for name in part if name not in _EDITS} for part in turn["parts"])
    return {**turn, "parts": [{name: "" if name in _SAID else part[name] for name in part} for part in kept]}


def _is_pending(part: dict[str, Any]) -> bool:
    return "call" in part and "done" not in part


def _is_full(turn: Turn) -> bool:
    parts = turn["parts"]
    if len(parts) < PARTS and sum(map(_size, parts)) < CHARACTERS:
        return False
    return not any(map(_is_pending, parts))


def _size(part: dict[str, Any]) -> int:
    return len(part.get("text", "")) + len(part.get("target", "")) + len(part.get("output", ""))


def _call(what: Call) -> dict[str, Any]:
    part: dict[str, Any] = {"call": what.call, "tool": what.tool, "target": what.target, "sort": what.sort}
    if what.edits:
        part["edits"] = [_edit(edit) for edit in what.edits]
    return part


def _edit(edit: Edit) -> dict[str, Any]:
    return {name: value for name, value in edit.to_json().items() if value}


def _settle(turn: Turn, item: Item, what: Result) -> bool:
    """Lay a result beside the newest call of its name in a turn; tell whether there is one."""
    for part in reversed(turn["parts"]):
        if part.get("call", part["key"] if turn["by"] == "bang" else None) == what.call:
            part["done"] = True
            if what.ok is not None:
                part["ok"] = what.ok
            if what.exit_status is not None:
                part["exit_status"] = what.exit_status
            if what.denied:
                part["denied"] = True
            if what.output:
                part["output"] = what.output
            if what.edits:
                part["changed"] = [_edit(edit) for edit in what.edits]
            if item.at is not None:
                turn["until"] = max(item.at, turn.get("until", item.at))
            return True
    return False


def fold(items: Iterable[Item]) -> Iterator[Turn]:
    """Yield the turns of one whole session, in the order in which they began."""
    turns = Turns()
    found: dict[str, Turn] = {}
    for item in items:
        for turn in turns.take(item):
            found[turn["key"]] = turn
    if (last := turns.open()) is not None:
        found[last["key"]] = last
    yield from found.values()
