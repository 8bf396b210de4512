"""The patch notation of `*** Begin Patch`: which files it adds, updates, deletes and moves.

Codex invented it, others took it over. It comes as a tool's input, in a shell's here-document, or in a string of a
script; models forget its first or its last line, and indent what may not be indented. What is no part of it is passed
over: nothing in here raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from bede.sources.port import Edit

BEGIN, END = "*** Begin Patch", "*** End Patch"

_HEADER = re.compile(r"\*\*\* (Add|Update|Delete) File: *(.*)")
_NAMED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: *([^\s][^\n]*)", re.MULTILINE)
_MOVE = re.compile(r"\*\*\* Move to: *(.*)")
#: Its last line stands at the beginning of one: with a sign before it, it is a line of the file that is patched.
_ENVELOPE = re.compile(
    r"\*\*\* Begin Patch[ \t]*\r?(?:\n|\\n)(?:.*?(?:^|\\n)\*\*\* End Patch|.*)", re.DOTALL | re.MULTILINE
)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r"}
_OPERATIONS: dict[str, Literal["create", "update", "delete"]] = {
    "Add": "create",
    "Update": "update",
    "Delete": "delete",
}


def edits(patch: str) -> tuple[Edit, ...]:
    """Return what a patch asks for, in its order, a file named twice twice.

    What is around its envelopes is passed over; a text without any is taken as the inside of one if a file's
    header is its first line. An added file is in `new`, hunks are in `patch` as they stand.
    """
    return tuple(edit for inside in _insides(patch) for edit in _sections(inside))


def shortened(text: str) -> str:
    """Return a text with the paths it touches in the place of each patch in it."""
    return _ENVELOPE.sub(lambda found: " ".join(dict.fromkeys(_paths(found.group()))) or found.group(), text)


def _paths(envelope: str) -> list[str]:
    return [found.strip() for found in _NAMED.findall(_plain(envelope))]


def _insides(text: str) -> list[str]:
    """Return what stands between the first and last lines of each envelope, escapes of a script undone."""
    found = [match.group() for match in _ENVELOPE.finditer(text)]
    if found:
        return [_plain(envelope) for envelope in found]
    bare = text.lstrip()
    return [bare] if _HEADER.match(bare) else []


def _plain(envelope: str) -> str:
    """Undo the escapes of a string in which a whole patch stands on one line."""
    if not envelope.startswith(BEGIN + "\\n"):
        return envelope
    return _ESCAPE.sub(lambda found: _character(found.group(1), found.group(2)), envelope)


def _character(number: str | None, letter: str | None) -> str:
    return chr(int(number, 16)) if number else _LETTERS.get(letter or "", letter or "")


def _sections(inside: str) -> Iterator[Edit]:
    """Yield the edits of one envelope; a section is a file's header and the lines to the next header."""
    header: tuple[str, str] | None = None
    body: list[str] = []
    for line in [*inside.split("\n"), END]:
        opened = _HEADER.match(line) if line[:3] == "***" else None
        if opened is None and (line[:3] != "***" or line.rstrip() not in (BEGIN, END)):
            body.append(line.removesuffix("\r"))
            continue
        if header is not None and header[1]:
            yield _edit(header[0], header[1], body)
        header, body = (opened.group(1), opened.group(2).strip()) if opened else None, []


def _edit(verb: str, path: str, body: list[str]) -> Edit:
    """Return the edit of one section."""
    while body and not body[-1]:
        body.pop()
    if verb == "Add":
        return Edit(path, "create", new="".join(line.removeprefix("+") + "\n" for line in body))
    if verb == "Delete":
        return Edit(path, "delete")
    moved = _MOVE.match(body[0]) if body else None
    if moved and moved.group(1).strip():
        return Edit(path, "move", patch="\n".join(body[1:]), moved_to=moved.group(1).strip())
    return Edit(path, _OPERATIONS[verb], patch="\n".join(body))
