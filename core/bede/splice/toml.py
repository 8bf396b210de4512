"""Changing TOML text: one table is put at the end or brought up to date, or taken out; every other byte stays.

Nothing is written anew, so order, comments and line ends are whatever they were. Taking out is the exact inverse,
read from the text alone: a table of ours has an empty line above it, none where the text had no final line end, and
none where there was no file. `tomllib` reads the text before and after, and what differs must be ours alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bede.errors import BadSource
from bede.splice import Member, Piece
from bede.splice.jsonc import Missing
from bede.splice.pieces import merged
from bede.splice.proof import prove

_BARE = r"[A-Za-z0-9_-]+"
_NAME = rf"""(?:{_BARE}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_KEY = re.compile(rf"{_NAME}(?:[ \t]*\.[ \t]*{_NAME})*")
_TOKEN = re.compile(
    r'''(?P<text>"""(?:[^"\\]|\\.|"{1,2}(?!"))*"""(?:"{0,2})
    | \'\'\'(?:[^']|'{1,2}(?!'))*\'\'\'(?:'{0,2})
    | "(?:[^"\\\n]|\\.)*" | '[^'\n]*')
    | (?P<remark>\#[^\n]*)
    | (?P<line>\n)
    | (?P<open>[\[{]) | (?P<close>[\]}])
    | (?P<space>[ \t\r]+)
    | (?P<word>[^\s"'\#\[\]{}]+)''',
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Statement:
    """A table's heading, or a key with its value: its full path, and where it and its lines lie."""

    path: tuple[str, ...]
    is_heading: bool
    begin: int
    value: int
    end: int
    after: int


def install(text: str | None, pieces: Sequence[Piece]) -> str:
    """Return a TOML text with all members in it; `text` is None where there is no file.

    Raises:
        BadSource: it cannot be read, or something else stands where ours must.
    """
    before = _load(text or "")
    for piece in pieces:
        text = _put(text, _member(piece))
    assert text is not None, "a target has pieces"
    prove(before, _load(text), pieces, there=True)
    return text


def remove(text: str, pieces: Sequence[Piece]) -> str | None:
    """Return a TOML text without the members; None where no file is left.

    Raises:
        BadSource: it cannot be read, or ours stands inside a value of somebody else's.
    """
    before, left = _load(text), text
    for piece in pieces:
        left = _cut(left, _member(piece).keys) if left is not None else None  # type: ignore[assignment]
    prove(before, _load(left or ""), pieces, there=False)
    return left


def _member(piece: Piece) -> Member:
    assert isinstance(piece, Member), "members are all that is put into TOML"
    return piece


def _load(text: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadSource(f"it is not valid TOML: {str(error)[:200]}") from error


# Reading


def statements(text: str) -> list[Statement]:
    """Return the headings and keys of a text that was checked, in its order."""
    found: list[Statement] = []
    heading: tuple[str, ...] = ()
    for begin, end, after in _lines(text):
        is_heading = text[begin] == "["
        key = _KEY.match(text, re.compile(r"[\[ \t]*").match(text, begin).end())  # type: ignore[union-attr]
        assert key, "the text was checked"
        path = _names(key[0])
        value = re.compile(r"[ \t]*=[ \t]*").match(text, key.end())
        heading = path if is_heading else heading
        found.append(
            Statement(path if is_heading else heading + path, is_heading, text.rfind("\n", 0, begin) + 1,
                      value.end() if value else end, end, after)
        )  # fmt: skip
    return found


def _names(key: str) -> tuple[str, ...]:
    found, names = _load(f"{key} = 0"), []
    while isinstance(found, dict):
        name, found = next(iter(found.items()))
        names.append(name)
    return tuple(names)


def _lines(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield begin and end of every statement, and where the line after it begins."""
    at, depth, begin, end = 0, 0, -1, -1
    while at < len(text):
        token = _TOKEN.match(text, at)
        if not token:
            raise BadSource("it cannot be read to its end")
        kind, at = token.lastgroup, token.end()
        depth += (kind == "open") - (kind == "close")
        if kind == "line" and not depth and begin >= 0:
            yield begin, end, at
            begin = -1
        elif kind not in ("line", "space", "remark"):
            begin, end = (token.start() if begin < 0 else begin), at
    if begin >= 0:
        yield begin, end, at


def _at(data: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        data = data.get(key, Missing) if isinstance(data, dict) else Missing
    return data


def _own(text: str, keys: tuple[str, ...]) -> list[Statement]:
    return [item for item in statements(text) if item.path[: len(keys)] == keys]


# Putting


def _put(text: str | None, piece: Member) -> str:
    found = _at(_load(text or ""), piece.keys)
    wanted = merged(found, piece)
    if isinstance(found, dict) and repr(sorted(found.items())) == repr(sorted(wanted.items())):
        return text or ""
    if found is Missing:
        _check_open(text or "", piece.keys)
        return _append(text, piece.keys, wanted)
    assert text is not None, "something stands in it"
    heading = [item for item in _own(text, piece.keys) if item.is_heading and item.path == piece.keys]
    if isinstance(found, dict) and len(heading) == 1:
        return _update(text, piece.keys, found, wanted)
    return _append(_cut(text, piece.keys), piece.keys, wanted)


def _check_open(text: str, keys: tuple[str, ...]) -> None:
    """Let nothing be put below what is written as a value, such as `mcp_servers = {}`: TOML closes it there.

    Raises:
        BadSource: it is.
    """
    for item in statements(text):
        if not item.is_heading and item.path == keys[: len(item.path)]:
            name = ".".join(map(_name, item.path))
            raise BadSource(f"nothing can be added to '{name} = …'", hint=f"write each entry below [{name}.NAME]")


def _append(text: str | None, keys: tuple[str, ...], value: dict[str, Any]) -> str:
    """Return the text with a table at its end, set off as `_cut` will read it."""
    newline = _newline(text)
    lines = [f"[{'.'.join(map(_name, keys))}]", *(f"{_name(key)} = {_said(one)}" for key, one in value.items())]
    return ("" if text is None else text + newline) + "".join(line + newline for line in lines)


def _newline(text: str | None) -> str:
    return "\r\n" if text and "\r\n" in text else "\n"


def _update(text: str, keys: tuple[str, ...], found: dict[str, Any], wanted: dict[str, Any]) -> str:
    """Change those keys of our table that are not as they should be."""
    for name in found.keys() - wanted.keys():
        text = _cut(text, (*keys, name)) or ""
    for name, value in wanted.items():
        if name in found and repr(found[name]) == repr(value):
            continue
        own = _own(text, (*keys, name))
        if len(own) == 1 and not own[0].is_heading and own[0].path == (*keys, name):
            text = text[: own[0].value] + _said(value) + text[own[0].end :]
        else:
            text = _line(_cut(text, (*keys, name)) or "", keys, f"{_name(name)} = {_said(value)}")
    return text


def _line(text: str, keys: tuple[str, ...], line: str) -> str:
    """Return the text with a line more below the last of our table's own."""
    every = statements(text)
    at = next(index for index, item in enumerate(every) if item.is_heading and item.path == keys)
    while at + 1 < len(every) and not every[at + 1].is_heading:
        at += 1
    after, newline = every[at].after, _newline(text)
    whole = text[:after].endswith("\n")
    return text[:after] + (line + newline if whole else newline + line) + text[after:]


def _name(name: str) -> str:
    return name if re.fullmatch(_BARE, name) else _said(name)


def _said(value: Any) -> str:
    """Return a value as TOML writes it, on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_name(key)} = {_said(one)}" for key, one in value.items()) + " }" if value else "{}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_said, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


# Taking


def _cut(text: str, keys: tuple[str, ...]) -> str | None:
    """Return the text without all statements below a path; None where no file is left."""
    if _at(_load(text), keys) is Missing:
        return text
    every = statements(text)
    own = [index for index, item in enumerate(every) if item.path[: len(keys)] == keys]
    if not own:
        raise BadSource(f"{'.'.join(keys)!r} stands inside another value", hint="take it out by hand")
    left: str | None = text
    for first, last in reversed(list(_runs(own))):
        assert left is not None, "the first run is cut last"
        left = _span(left, every[first], every[last].after)
    return left


def _runs(indices: list[int]) -> Iterator[tuple[int, int]]:
    """Yield first and last of numbers that follow each other."""
    first = indices[0]
    for index, following in zip(indices, [*indices[1:], -1], strict=True):
        if following != index + 1:
            yield first, index
            first = following


def _span(text: str, first: Statement, after: int) -> str | None:
    before, rest = text[: first.begin], text[after:]
    if not first.is_heading:
        return before + rest
    if not before and not rest:
        return None
    if blank := re.search(r"(?:^|(?<=\n))\r?\n\Z", before):
        return before[: blank.start()] + rest
    return before + rest if rest else re.sub(r"\r?\n\Z", "", before)
