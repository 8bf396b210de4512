"""The proof that an edit changed nothing but ours: data before and after, compared without what is ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bede.errors import BadSource
from bede.splice import Default, Items, Member, Piece

_EMPTY: tuple[Any, ...] = (None, {}, [])


def prove(before: Any, after: Any, pieces: Sequence[Piece], *, there: bool) -> None:
    """Make sure that two states of a file differ in ours alone, and that ours is `there` afterwards, or is not.

    Raises:
        BadSource: they differ in something else, so the edit must not be made.
    """
    if repr(_bare(before, pieces)) != repr(_bare(after, pieces)):
        raise BadSource("an edit would change what is not bede's", hint="edit the file by hand")
    if any(_is_in(after, piece) != there for piece in pieces if not isinstance(piece, Default)):
        raise BadSource("an edit would not do what it should", hint="edit the file by hand")


def _is_in(data: Any, piece: Piece) -> bool:
    found = _at(data, piece.keys) if isinstance(piece, (Member, Items)) else None
    if isinstance(piece, Items):
        return any(True for _ in ours(found, piece)) if piece.values else False
    return found is not None


def _at(data: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def ours(items: Any, piece: Items) -> Iterator[tuple[int, ...]]:
    """Yield where items of ours stand in an array: the index, and inside a shared group the index there too."""
    for index, item in enumerate(items if isinstance(items, list) else []):
        inner = item.get(piece.inner) if piece.inner and isinstance(item, dict) else None
        if not piece.inner:
            yield from [(index,)] if piece.is_ours(item) else []
        elif isinstance(inner, list):
            mine = [at for at, one in enumerate(inner) if piece.is_ours(one)]
            yield from [(index,)] if mine and len(mine) == len(inner) else [(index, at) for at in mine]


def _bare(data: Any, pieces: Sequence[Piece]) -> Any:
    """Return data without ours, and without the empty containers that it may leave."""
    for piece in pieces:
        if isinstance(piece, (Member, Items, Default)):
            data = _without(data, piece.keys, piece)
    return data


def _without(data: Any, keys: Sequence[str], piece: Member | Items | Default) -> Any:
    if not keys:
        return _rest(data, piece)
    if not isinstance(data, dict) or keys[0] not in data:
        return None if data in _EMPTY else data
    inner = _without(data[keys[0]], keys[1:], piece)
    left = {key: inner if key == keys[0] else value for key, value in data.items()}
    if inner in _EMPTY:
        del left[keys[0]]
    return left or None


def _rest(data: Any, piece: Member | Items | Default) -> Any:
    """Return what is left of the value that a piece names."""
    if isinstance(piece, Member):
        return None
    if isinstance(piece, Default):
        return None if data == piece.value else data
    if not isinstance(data, list):
        return data
    gone = set(ours(data, piece))
    return [_group(item, index, gone, piece) for index, item in enumerate(data) if (index,) not in gone]


def _group(item: Any, index: int, gone: set[tuple[int, ...]], piece: Items) -> Any:
    mine = {at[1] for at in gone if at[0] == index}
    if not mine:
        return item
    return {
        key: [one for at, one in enumerate(value) if at not in mine] if key == piece.inner else value
        for key, value in item.items()
    }
