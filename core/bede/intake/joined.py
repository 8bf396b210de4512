"""Values without secrets, those too that stand in them in pieces and are read as one.

Agents write a patch as a list of its lines, a reply as the pieces in which it came, a command as its words. No piece
looks like a secret, and whoever joins them has one: so a list is judged as it is read, joined. What is found goes from
the pieces in such a way that, joined again, they are the text without it. Time is linear in the size of the value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from bede.redact import redact, redact_value

#: Signs that no reader sees, and that split no secret: they tell which pieces are left.
_SIGN, _DIGITS = "\u2060", "\u2061\u2062\u2063\u2064\u200b\u200c\u200d\u200e"
_SIGNS, _OCTAL = str.maketrans("01234567", _DIGITS), str.maketrans(_DIGITS, "01234567")
_BETWEEN = re.compile(f"{_SIGN}([{_DIGITS}]+){_SIGN}")
#: In place of what holds a secret that cannot be told from the rest.
HIDDEN = "[redacted:secret]"

_MARK, _WALL, _KEY = re.compile(r"\[redacted:[a-z0-9-]+\]"), "\0" * 9, "[redacted:private-key]"
#: How a text begins that may be the rest of a key, behind what was taken out of it and in a piece of its own.
_BEHIND, _BODY = re.compile(r"\W{0,4}[A-Za-z0-9+/=]{8}"), re.compile(r"\W{0,4}[A-Za-z0-9+/=]{2}")

Slot = tuple[Any, Any]
"""A list or an object, and where in it a text stands."""

Left = list[str | None]
"""What is left of pieces; of one that became part of another, None."""


def judged(value: Any, by: str = "\n") -> tuple[Any, bool]:
    """Return a value of JSON without secrets, and whether it held any; lists and objects in it may be changed.

    `by` is what its reader puts between pieces that are objects: nothing, or line ends, as between texts in a list.
    """
    has_met = isinstance(value, dict) and "k" in value and _set(value)
    stack: list[Any] = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            texts, objects = _pieces(node)
            for slots in texts:
                has_met |= len(slots) > 1 and _cut(slots, by)
            stack.extend(objects)
        elif isinstance(node, dict):
            stack.extend(each for each in node.values() if isinstance(each, dict | list))
    seen = redact_value(value)
    return seen, has_met or seen is not value


def _set(record: dict[str, Any]) -> bool:
    """Judge what a mutation sets by the name under which it does, the last step of its path; tell if it is a secret."""
    steps, value = record["k"], record.get("v")
    if not (isinstance(steps, list) and steps and isinstance(steps[-1], str) and isinstance(value, str)):
        return False
    (record["v"],) = redact_value({steps[-1]: value}).values()
    return record["v"] is not value


def _pieces(outer: list[Any]) -> tuple[Iterable[list[Slot]], list[Any]]:
    """Return where the pieces of a list stand, in order, also of lists within it, text by text; and all objects met.

    A thought, a call or an edit ends a text; what is between pieces and of another kind does not.
    """
    texts: dict[tuple[int, str], list[Slot]] = {}
    objects: list[Any] = []
    ended = 0
    stack: list[Slot] = [(outer, at) for at in reversed(range(len(outer)))]
    while stack:
        held, at = stack.pop()
        item = held[at]
        if isinstance(item, str):
            texts.setdefault((ended, ""), []).append((held, at))
        elif isinstance(item, list):
            stack.extend((item, at) for at in reversed(range(len(item))))
        elif isinstance(item, dict):
            objects.append(item)
            kind = str(item.get("kind") or "")
            ended += kind == "thinking" or "toolCallId" in item or "edits" in item
            if slot := _said(item):
                texts.setdefault((ended, "" if kind.startswith("markdown") else kind), []).append(slot)
    return texts.values(), objects


def _said(item: dict[str, Any]) -> Slot | None:
    """Return where an object that is a piece holds its text; a message, which tells its role, is none."""
    if "role" in item:
        return None
    for name in ("text", "value", "content"):
        held = item.get(name)
        if isinstance(held, str) and name != "content":
            return item, name
        if isinstance(held, dict) and isinstance(held.get("value"), str):
            return held, "value"
    return None


def _cut(slots: list[Slot], by: str) -> bool:
    """Take out what is a secret once pieces are joined, as their reader does or else; tell if there was one."""
    pieces = [held[at] for held, at in slots]
    ways = ["", "\n"] if by == "" and not all(isinstance(held, list) for held, _ in slots) else ["\n", ""]
    ways += [" "] if any(piece[:1] == "-" for piece in pieces) else []
    if all(redact(whole := way.join(pieces)) is whole for way in ways):
        return False
    left = _without(pieces, ways[0])
    for way in ways[1:]:
        there = [at for at, piece in enumerate(left) if piece is not None]
        for at, piece in zip(there, _without([str(left[at]) for at in there], way), strict=True):
            left[at] = piece
        _hide_rests(left, _without(pieces, way))
    whole = ways[0].join(piece for piece in left if piece is not None)
    _put(slots, left if redact(whole) is whole else _hidden(pieces))
    return True


def _without(pieces: list[str], by: str) -> Left:
    """Return pieces without the secrets in their whole: those that one reaches into become the first, the others go.

    Between them stand signs with their numbers: the pieces whose signs a secret swallows are those that are gone.
    """
    if any(_SIGN in piece for piece in pieces):
        return _hidden(pieces)
    signed = (f"{by}{_SIGN}{format(at, 'o').translate(_SIGNS)}{_SIGN}{piece}" for at, piece in enumerate(pieces))
    _, *found = _BETWEEN.split(redact("".join(signed)))
    places, texts = [int(each.translate(_OCTAL), 8) for each in found[::2]], found[1::2]
    left: Left = [None] * len(pieces)
    for at, text in zip(places, texts, strict=True):
        left[at] = text.removesuffix(by) if at != places[-1] else text
    return left


def _hide_rests(left: Left, other: Left) -> None:
    """Hide pieces in which there is more of a private key, in another way of joining, than was taken out."""
    starts = [at for at, piece in enumerate(other) if piece is not None]
    for at, end in zip(starts, [*starts[1:], len(other)], strict=True):
        if end > at + 1 and _KEY in str(other[at]):
            first, *texts = (_MARK.sub(_WALL, piece or "") for piece in left[at:end])
            _, is_cut, behind = first.rpartition(_WALL)
            if (is_cut and _BEHIND.match(behind)) or any(map(_BODY.match, texts)):
                left[at:end] = [HIDDEN, *other[at + 1 : end]]


def _hidden(pieces: list[str]) -> Left:
    """Return nothing of some pieces but that there was a secret."""
    return [HIDDEN, *[None] * (len(pieces) - 1)]


def _put(slots: list[Slot], left: Left) -> None:
    """Put what is left where it stood; of a list of texts alone what is gone goes, elsewhere places tell something."""
    lists: dict[int, tuple[list[Any], set[int]]] = {}
    for (held, at), piece in zip(slots, left, strict=True):
        held[at] = piece or ""
        if piece is None and isinstance(held, list):
            lists.setdefault(id(held), (held, set()))[1].add(at)
    for held, gone in lists.values():
        if all(isinstance(piece, str) for piece in held):
            held[:] = [piece for at, piece in enumerate(held) if at not in gone]
