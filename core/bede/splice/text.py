"""Blocks of marked lines in somebody's text, and files that are ours as a whole.

The block's last line ends as the text's last line did, so that taking it out gives back a text without a final line
end too. Bytes that are no UTF-8 pass through unchanged.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from bede.errors import BadSource, Conflict
from bede.splice import Piece, Section, Whole


def install(text: str | None, pieces: Sequence[Piece]) -> str:
    """Return a text with all pieces in it; `text` is None where there is no file.

    Raises:
        Conflict: a file that should be ours is somebody else's; somebody has changed a block of ours.
        BadSource: the marks of a block do not pair.
    """
    for piece in pieces:
        if isinstance(piece, Whole):
            _check(text, piece)
            text = piece.text
        elif isinstance(piece, Section):
            text = _put(text, piece)
    assert text is not None, "a target has pieces"
    return text


def remove(text: str, pieces: Sequence[Piece]) -> str | None:
    """Return a text without the pieces; None where no file is left. A file that is not ours stays.

    Raises:
        Conflict: somebody has changed a block of ours.
        BadSource: the marks of a block do not pair.
    """
    left: str | None = text
    for piece in pieces:
        if left is not None and isinstance(piece, Whole):
            left = None if piece.mark in left.splitlines() else left
        elif left is not None and isinstance(piece, Section):
            left = _take(left, piece)
    return left


def _check(text: str | None, piece: Whole) -> None:
    if text is not None and piece.mark not in text.splitlines():
        raise Conflict("a file that is not bede's lies there", hint="move it away if nobody needs it, and try again")


def _block(piece: Section, newline: str) -> str:
    """Return the block's lines, without the last line's end."""
    lines = piece.text.rstrip("\n").split("\n")
    begin = piece.begin.replace("{sha}", _hash(lines))
    return newline.join((begin, *lines, piece.end))


def _hash(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()[:8]


def _found(text: str, piece: Section) -> re.Match[str] | None:
    """Return the block as it stands there, with the end of its last line.

    Raises:
        BadSource: there is a mark without the other, or more than one pair.
        Conflict: its lines are not those it was written with.
    """
    begin = re.escape(piece.begin).replace(re.escape("{sha}"), "(?P<sha>[0-9a-f]{8})")
    end = re.escape(piece.end)
    begins = re.findall(rf"^{begin}\r?$", text, re.MULTILINE)
    ends = re.findall(rf"^{end}\r?$", text, re.MULTILINE)
    block = re.search(rf"^{begin}\r?\n(?P<lines>(?:.*\n)*?){end}(?:\r?\n|\Z)", text, re.MULTILINE)
    if not begins and not ends:
        return None
    if not block or len(begins) != 1 or len(ends) != 1:
        raise BadSource("bede's marks do not pair in it", hint=f"delete what stands between {piece.begin!r} "
                        f"and {piece.end!r}, with both lines, and try again")  # fmt: skip
    if "{sha}" in piece.begin and _hash(block["lines"].replace("\r\n", "\n")[:-1].split("\n")) != block["sha"]:
        raise Conflict("somebody has changed the lines between bede's marks", hint=f"delete them from {piece.begin!r} "
                       f"to {piece.end!r}, or leave them as they are")  # fmt: skip
    return block


def _put(text: str | None, piece: Section) -> str:
    if text is None:
        return piece.head + _block(piece, "\n") + "\n"
    block = _found(text, piece)
    newline = _newline(block[0] if block else text)
    lines = _block(piece, newline)
    if block:
        final = re.search(r"\r?\n\Z", block[0])
        return text[: block.start()] + lines + (final[0] if final else "") + text[block.end() :]
    first = re.match(r"#!.*(\n|\Z)", text)
    at = first.end() if piece.top and first else 0 if piece.top else len(text)
    before, after = text[:at], text[at:]
    if before and not before.endswith("\n"):
        return before + newline + lines
    return before + lines + (newline if before or after else "") + after


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _take(text: str, piece: Section) -> str | None:
    block = _found(text, piece)
    if not block:
        return text
    before, after = text[: block.start()], text[block.end() :]
    if not block[0].endswith("\n"):
        return before.removesuffix(_newline(block[0]))
    return None if before + after == piece.head else before + after
