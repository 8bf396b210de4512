"""Where things stand in JSON text: tokens, and the entries of one object or array with the places around them.

Comments and trailing commas are read where they are allowed, and refused elsewhere. What was read was checked as a
whole by `load` first, so `box` need not doubt it. Nothing here changes a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NoReturn

from bede.errors import BadSource
from bede.identity import DEEPEST, is_deeper

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
    | (?P<string>"[^"\\]*(?:\\.[^"\\]*)*")
    | (?P<line>//[^\r\n]*)
    | (?P<block>/\*.*?\*/)
    | (?P<mark>[{}\[\]:,])
    | (?P<word>[^ \t\r\n{}\[\]:,"/]+)""",
    re.VERBOSE | re.DOTALL,
)
REMARKS = ("line", "block")

Token = tuple[str, int, int]


@dataclass(slots=True)
class Entry:
    """A member or an item: `before` is where the token in front of it ends, `comma` its own comma's place or -1."""

    before: int
    start: int
    value: int = -1
    end: int = -1
    comma: int = -1
    key: str | None = None
    #: Whether the token in front is a comment that goes to the end of its line.
    below_remark: bool = False


@dataclass(slots=True)
class Box:
    """An object or array from its opening mark to `end`, where the closing one stands; `last` ends its last token."""

    start: int
    end: int = -1
    last: int = -1
    has_remarks: bool = False
    ends_in_line: bool = False
    entries: list[Entry] = field(default_factory=list)

    def find(self, key: str | int) -> Entry | None:
        """Return the entry of a name or at an index.

        Raises:
            BadSource: the name stands there twice, so nobody knows which one is meant.
        """
        if isinstance(key, int):
            return self.entries[key] if key < len(self.entries) else None
        found = [entry for entry in self.entries if entry.key == key]
        if len(found) > 1:
            raise BadSource(f"{key[:80]!r} stands there twice", hint="keep the right one of them")
        return found[0] if found else None


def tokens(text: str, at: int = 0) -> Iterator[Token]:
    """Yield kind, start and end of every token from a place on; marks are their own kind, blanks are left out.

    Raises:
        BadSource: something is no token.
    """
    while at < len(text):
        found = _TOKEN.match(text, at)
        if not found:
            raise BadSource(f"it cannot be read at {where(text, at)}")
        kind, start, at = found.lastgroup or "", at, found.end()
        if kind != "space":
            yield text[start] if kind == "mark" else kind, start, at


def where(text: str, at: int) -> str:
    """Return a place as people count it."""
    line = text.count("\n", 0, at) + 1
    return f"line {line}, column {at - text.rfind(chr(10), 0, at)}"


def load(text: str, lax: bool) -> Any:
    """Return the data of a text; None where there is nothing but blanks and, if `lax`, comments.

    Raises:
        BadSource: it is not JSON, or is nested too deeply; comments and trailing commas only where `lax`.
        RecursionError: it is nested much too deeply.
    """
    plain = _plain(text) if lax else text
    try:
        found = json.loads(plain, parse_constant=_no_number) if plain.strip(" \t\r\n") else None
    except json.JSONDecodeError as error:
        raise BadSource(f"it is not valid JSON: {error.msg} at {where(text, error.pos)}") from error
    except ValueError as error:
        raise BadSource(f"it is not valid JSON: {str(error)[:200]}") from error
    if is_deeper(found, DEEPEST):
        raise BadSource("it is nested too deeply")
    return found


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


def _plain(text: str) -> str:
    """Return the text with blanks for comments and trailing commas, so that every place stays where it is."""
    blank: list[tuple[int, int]] = []
    last, prior = ("", -1, -1), ""
    for token in tokens(text):
        kind = token[0]
        if kind in REMARKS:
            blank.append(token[1:])
            continue
        if kind in "}]" and last[0] == "," and prior not in ("{", "[", ",", ":", ""):
            blank.append(last[1:])
        last, prior = token, last[0]
    return _blanked(text, sorted(blank))


def _blanked(text: str, spans: list[tuple[int, int]]) -> str:
    parts, at = [], 0
    for start, end in spans:
        parts += [text[at:start], re.sub(r"[^\r\n]", " ", text[start:end])]
        at = end
    return "".join((*parts, text[at:]))


def root(text: str) -> int:
    """Return where the one value of a text begins; -1 where there is none."""
    return next((start for kind, start, _ in tokens(text) if kind not in REMARKS), -1)


@lru_cache(maxsize=8)  # One edit asks for the same few boxes of one text again and again.
def box(text: str, start: int) -> Box:
    """Return the object or array that begins at a place of a text that was checked. Nobody may change it."""
    here = Box(start, last=start + 1)
    is_object, depth, entry = text[start] == "{", 0, None
    for kind, begin, end in tokens(text, start + 1):
        if depth:
            depth += (kind in "{[") - (kind in "}]")
        elif kind in "}]":
            here.end = begin
            break
        else:
            entry = _read(text, here, entry, (kind, begin, end), is_object)
            depth = int(kind in "{[")
        if not depth:
            here.last, here.ends_in_line = end, kind == "line"
            if entry and kind not in (*REMARKS, ":"):
                entry.end = end
    return here


def _read(text: str, here: Box, entry: Entry | None, token: Token, is_object: bool) -> Entry | None:
    """Take one token of a box's own and return the entry that is still open."""
    kind, begin, end = token
    if kind in REMARKS:
        here.has_remarks = True
    elif kind == ",":
        here.entries[-1].comma = begin
        return None
    elif entry is None:
        entry = Entry(here.last, begin, below_remark=here.ends_in_line)
        entry.key, entry.value = (json.loads(text[begin:end]), -1) if is_object else (None, begin)
        here.entries.append(entry)
    elif kind != ":" and entry.value < 0:
        entry.value = begin
    return entry
