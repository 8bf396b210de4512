"""Pieces in a JSON file: which edits put them in, which take them out, and the proof that nothing else changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from bede.errors import BadSource
from bede.splice import Default, Items, Member, Piece
from bede.splice.jsonc import NULL, Keys, Missing, add, find, get, put, start, style, take
from bede.splice.proof import ours, prove
from bede.splice.syntax import box, load, root

#: How a `Default` of ours is told from a user's own: by the blanks before its value. One that came into an empty
#: object stays as long as others need it; one that was missing among others goes in any case.
_OURS, _ADDED = ":  ", ":   "


def install(text: str | None, pieces: Sequence[Piece], lax: bool) -> str:
    """Return a JSON text with all pieces in it; `text` is None where there is no file.

    Raises:
        BadSource: it cannot be read, or something else stands where ours must.
    """
    before = None if text is None else load(text, lax)
    if text is not None and root(text) >= 0 and not isinstance(before, dict):
        raise BadSource("it holds no object")
    for piece in pieces:
        if text is None or root(text) < 0:
            text = start(text, *_whole(piece), _OURS if isinstance(piece, Default) else "")
        elif isinstance(piece, Member):
            text = _member(text, piece, lax)
        elif isinstance(piece, Items):
            text = _items(text, piece, lax)
        elif isinstance(piece, Default) and get(text, piece.keys, lax) is Missing:
            has_others = bool(get(text, piece.keys[:-1], lax) if piece.keys[1:] else before)
            text = put(text, piece.keys, piece.value, _ADDED if has_others else _OURS)
    assert text is not None, "a target has pieces"
    prove(before, load(text, lax), pieces, there=True)
    return text


def remove(text: str, pieces: Sequence[Piece], lax: bool) -> str | None:
    """Return a JSON text without the pieces; None where no file is left.

    Raises:
        BadSource: it cannot be read.
    """
    before = load(text, lax)
    left: str | None = text
    for piece in pieces:
        if left is not None and isinstance(piece, Member):
            left = take(left, piece.keys)
        elif left is not None and isinstance(piece, Items):
            left = _clear(left, piece, lax)
    if left != text:
        left = _defaults(left, [piece for piece in pieces if isinstance(piece, Default)], lax)
    prove(before, None if left is None else load(left, lax), pieces, there=False)
    return left


def _whole(piece: Piece) -> tuple[Keys, Any]:
    assert isinstance(piece, (Member, Items, Default)), "the others are for text"
    return piece.keys, list(piece.values) if isinstance(piece, Items) else piece.value


def same(one: Any, other: Any) -> bool:
    """Tell whether two values are one in JSON, where 1 is not true."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def merged(found: Any, piece: Member) -> Any:
    """Return a member's value with what a user keeps in the one that stands there."""
    if not isinstance(found, dict) or not isinstance(piece.value, dict):
        return piece.value
    return {**piece.value, **{name: found[name] for name in piece.kept if name in found}}


def _member(text: str, piece: Member, lax: bool) -> str:
    """Put a member, touching only those parts of one that stands there which are not as they should be."""
    found = get(text, piece.keys, lax)
    wanted = merged(found, piece)
    if found is not Missing and same(found, wanted):
        return text
    if not (isinstance(found, dict) and isinstance(wanted, dict) and wanted):
        return put(text, piece.keys, wanted)
    for name, value in wanted.items():
        if name not in found or not same(found[name], value):
            text = put(text, (*piece.keys, name), value)
    for name in found.keys() - wanted.keys():
        text = take(text, (*piece.keys, name)) or text
    return text


def _items(text: str, piece: Items, lax: bool) -> str:
    """Put items: those of ours that stand there are brought up to date in their places, the others come last."""
    found = get(text, piece.keys, lax)
    if found is Missing or found is None or (found == [] and not piece.values):
        return _array(text, piece) if piece.values else text
    if not isinstance(found, list):
        raise BadSource(f"{'.'.join(piece.keys)!r} is not an array")
    mine = list(ours(found, piece))
    if len(mine) == len(piece.values) and all(
        len(at) == 1 and same(found[at[0]], value) for at, value in zip(mine, piece.values, strict=True)
    ):
        return text
    whole = [at[0] for at in mine if len(at) == 1]
    for index, value in zip(whole, piece.values, strict=False):
        if not same(found[index], value):
            text = put(text, (*piece.keys, index), value)
    spare = [at for at in mine if len(at) == 2 or at[0] in whole[len(piece.values) :]]
    for at in sorted(spare, reverse=True):
        text = take(text, _place(piece, at)) or text
    for value in piece.values[len(whole) :]:
        path = find(text, piece.keys)
        assert path, "the array stands there"
        text = add(text, box(text, path[-1][1].value), style(text), value)
    return text


def _array(text: str, piece: Items) -> str:
    """Put an array of ours where there is none, or a null."""
    path = find(text, piece.keys)
    if not path:
        return put(text, piece.keys, list(piece.values))
    at = path[-1][1].value
    text = text[:at] + "[]" + text[at + 4 :]
    for value in piece.values:
        here = box(text, at)
        text = add(text, here, style(text), value, mark="" if here.entries else NULL)
    return text


def _place(piece: Items, at: tuple[int, ...]) -> Keys:
    return (*piece.keys, at[0]) if len(at) == 1 else (*piece.keys, at[0], piece.inner, at[1])


def _clear(text: str, piece: Items, lax: bool) -> str | None:
    """Take out all items of ours, the last first, so that the places of the others stay."""
    found = get(text, piece.keys, lax)
    left: str | None = text
    for at in reversed(list(ours(found, piece))):
        left = take(left, _place(piece, at)) if left is not None else None
    return left


def _defaults(text: str | None, pieces: Sequence[Default], lax: bool) -> str | None:
    """Take out the defaults that came with ours, now that nothing else of ours is there."""
    for piece in pieces:
        path = find(text, piece.keys) if text is not None else None
        if text is None or not path or not same(get(text, piece.keys, lax), piece.value):
            continue
        here, entry = path[-1]
        colon = text[entry.start : entry.value].removeprefix(json.dumps(entry.key, ensure_ascii=False))
        if colon == _ADDED or (colon == _OURS and len(here.entries) == 1):
            text = take(text, piece.keys)
    return text
