"""Changing JSON text: a member or an item is put in or taken out, and every other byte stays.

What is put in is laid out as its neighbours are. Taking out is the exact inverse, read from the text alone: a
container that was put in together with ours leaves with the last of ours, one that was there before is told by
blanks between the last entry and its closing mark:

    no blank          it came with ours
    one               it was empty, as in `{}`
    two, then S       it held the blanks S, which are those that would stand there anyway
    three, then S     it held the blanks S
    a blank and a tab there was a `null`

A root that was put into a file is followed by a line end where there was no file, by nothing where there was one
without any value, and by a blank where a comment had no line end. Where somebody's formatter has removed such blanks,
an empty container or file is removed instead of emptied; nothing else can differ.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from bede.errors import BadSource
from bede.splice.syntax import Box, Entry, box, load, root, tokens

Keys = tuple[str | int, ...]
#: A path of boxes, each with the entry that leads on.
Path = list[tuple[Box, Entry]]
#: What tells of a box that it was a null.
NULL = " \t"


class Missing:
    """What stands nowhere."""


@dataclass(frozen=True, slots=True)
class Style:
    """How a file is laid out."""

    newline: str
    unit: str
    colon: str
    wide: bool

    @property
    def comma(self) -> str:
        """What stands between two items on one line."""
        return ", " if self.colon.endswith(" ") else ","


def style(text: str) -> Style:
    """Return how a text is laid out, from its root and its first member."""
    line = re.search(r"\r\n|\n|\r", text)
    newline, at = line[0] if line else "\n", root(text)
    here = box(text, at) if at >= 0 and text[at] in "{[" else None
    if here is None or not here.entries:
        return Style(newline, "  ", ": ", True)
    first = here.entries[0]
    unit = _indent(text, first.start) or "  "
    spaced = first.key is None or text[first.value - 1] in " \t\r\n"
    wide = bool(re.search(r"[\r\n]", text[here.start : here.end]))
    return Style(newline, unit, ": " if spaced else ":", wide)


def _indent(text: str, at: int) -> str | None:
    """Return the blanks before a place that begins its line; None if something else stands there."""
    begin = max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1
    return text[begin:at] if begin and not text[begin:at].strip(" \t") else None


def _margin(text: str, at: int) -> str:
    """Return the blanks that the line of a place begins with."""
    begin = max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1
    found = re.compile(r"[ \t]*").match(text, begin)
    return found[0] if found else ""


# Finding


def find(text: str, keys: Keys) -> Path | None:
    """Return the boxes that lead to a place; None where one is missing or of another kind.

    Raises:
        BadSource: a name on the way stands there twice.
    """
    path: Path = []
    at = root(text)
    for key in keys:
        if at < 0 or text[at] != ("[" if isinstance(key, int) else "{"):
            return None
        here = box(text, at)
        entry = here.find(key)
        if entry is None:
            return None
        path.append((here, entry))
        at = entry.value
    return path


def get(text: str, keys: Keys, lax: bool) -> Any:
    """Return the data at a place, `Missing` where there is none."""
    path = find(text, keys)
    if not path:
        return Missing
    entry = path[-1][1]
    return load(text[entry.value : entry.end], lax)


# Putting


def put(text: str, keys: Keys, value: Any, colon: str = "") -> str:
    """Return the text with a value at a place, in place of the one that stands there.

    The objects on the way are made, a `null` counting as none. `colon` is what to write between a new last name and
    its value, if not what the file has.

    Raises:
        BadSource: something on the way is no object, or stands there twice.
    """
    laid, at = style(text), root(text)
    entry: Entry | None = None
    for depth, key in enumerate(keys):
        mark = ""
        if isinstance(key, int):
            entry = box(text, at).entries[key]
            at = entry.value
            continue
        if text.startswith("null", at):
            text, mark = text[:at] + "{}" + text[at + 4 :], NULL
        if text[at] != "{":
            raise BadSource(f"{_name(keys[:depth])} is not an object")
        here = box(text, at)
        entry = here.find(key)
        if entry is None:
            last = depth == len(keys) - 1
            inner = _nested(keys[depth + 1 :], value)
            return add(text, here, Style(laid.newline, laid.unit, colon, laid.wide) if last and colon else laid,
                       inner, str(key), mark)  # fmt: skip
        at = entry.value
    assert entry, "there is at least one key"
    return _replace(text, laid, entry, value)


def _name(keys: Keys) -> str:
    return repr(".".join(map(str, keys))[:80]) if keys else "the whole"


def _nested(keys: Keys, value: Any) -> Any:
    for key in reversed(keys):
        value = {key: value}
    return value


def _replace(text: str, laid: Style, entry: Entry, value: Any) -> str:
    wide = laid.wide and _indent(text, entry.start) is not None
    said = _said(value, laid, _margin(text, entry.start), wide)
    return text[: entry.value] + said + text[entry.end :]


def add(text: str, here: Box, laid: Style, value: Any, key: str | None = None, mark: str = "") -> str:
    """Return the text with one more entry at the end of a box; `mark` tells of the box what its blanks cannot."""
    last = here.entries[-1] if here.entries else None
    indent = _indent(text, last.start) if last else None
    wide = laid.wide if last is None else indent is not None
    if indent is None:
        indent = _margin(text, here.start) + laid.unit
    said = _said(value, laid, indent, wide)
    if key is not None:
        said = json.dumps(key, ensure_ascii=False) + laid.colon + said
    between = laid.newline + indent if wide or here.ends_in_line else laid.comma[1:] if last else ""
    if last is None:
        return _first(text, here, between + said, laid.newline + _margin(text, here.start) if wide else "", mark)
    if last.comma >= 0:
        return text[: here.last] + between + said + "," + text[here.last :]
    return text[: last.end] + "," + text[last.end : here.last] + between + said + text[here.last :]


def _first(text: str, here: Box, said: str, usual: str, mark: str) -> str:
    """Return the text with the first entry in a box, its blanks telling what was in it before."""
    if here.has_remarks:
        return text[: here.last] + said + text[here.last :]
    held = text[here.start + 1 : here.end]
    if mark:
        after = mark + usual
    elif not held:
        after = " " + usual
    else:
        after = ("  " if held == usual else "   ") + held
    return text[: here.start + 1] + said + after + text[here.end :]


def _said(value: Any, laid: Style, indent: str, wide: bool) -> str:
    if not wide:
        return json.dumps(value, ensure_ascii=False, separators=(laid.comma, laid.colon))
    said = json.dumps(value, ensure_ascii=False, indent=laid.unit, separators=(",", laid.colon))
    return said.replace("\n", laid.newline + indent)


def start(text: str | None, keys: Keys, value: Any, colon: str = "") -> str:
    """Return a text that has no value yet with a root around this one; `text` is None where there is no file."""
    laid = style(text or "")
    said = _said(_nested(keys, value), laid, "", True)
    if colon:
        said = colon.join(said.rsplit(laid.colon, 1))
    if text is None:
        return said + laid.newline
    final = [kind for kind, _, end in tokens(text) if end == len(text)]
    return text + laid.newline + said + " " if final == ["line"] else text + said


# Taking


def take(text: str, keys: Keys) -> str | None:
    """Return the text without what stands at a place, and without what came with it; None if that is the file."""
    path = find(text, keys)
    if not path:
        return text
    for here, entry in reversed(path):
        if len(here.entries) > 1 or here.has_remarks:
            return _cut(text, here, entry)
        after = text[(entry.comma + 1 or entry.end) : here.end]
        if after.startswith(NULL):
            return text[: here.start] + "null" + text[here.end + 1 :]
        held = _held(after)
        if held is not None:
            return text[: here.start + 1] + held + text[here.end :]
    return _rest(text[: path[0][0].start], text[path[0][0].end + 1 :])


def _held(after: str) -> str | None:
    """Return the blanks that a box held before; None if there was no box."""
    for mark in ("   ", "  "):
        if after.startswith(mark):
            return after[len(mark) :]
    return "" if after.startswith(" ") else None


def _cut(text: str, here: Box, entry: Entry) -> str:
    index = here.entries.index(entry)
    begin, commas = entry.before, [entry.comma]
    if entry.comma < 0 and index:
        commas = [here.entries[index - 1].comma]
    follows = text[(entry.comma + 1 or entry.end) :].lstrip(" \t")
    if entry.below_remark and follows[:1] not in ("\r", "\n"):
        begin = entry.start  # What comes next must not become part of the comment.
    spans = sorted([(begin, entry.end), *((comma, comma + 1) for comma in commas if comma >= 0)], reverse=True)
    for first, last in spans:
        text = text[:first] + text[last:]
    return text


def _rest(before: str, after: str) -> str | None:
    """Return what a file holds without its root; None where there was no file."""
    if after == "":
        return before
    if after == " ":
        return re.sub(r"(\r\n|\n|\r)\Z", "", before)
    return before + after if (before + after).strip() else None
