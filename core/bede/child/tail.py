"""The last of what a child said, as a reader of the record wants it.

Holds a window of raw bytes while the child runs, and makes text of it once, at the end. Promises bounded memory
whatever the child says, and text without escape sequences and controls: a line that was overwritten again and
again is there in its last form, a full-screen program leaves nothing. Never delays or changes what passes through.
"""

from __future__ import annotations

import re
from threading import Lock

#: How many raw bytes are held for one that is kept: progress bars say far more than they leave.
_RAW = 16
#: Stands for "the line is empty again" between the two passes over a text.
_ERASED = "\x18"

# What a full-screen program draws, between switching to the other screen and back, is no log.
_SCREEN = re.compile(r"\x1b\[\?(?:1049|1047|47)h.*?(?:\x1b\[\?(?:1049|1047|47)l|\Z)", re.DOTALL)
_SCREEN_END = re.compile(r"\x1b\[\?(?:1049|1047|47)([hl])")
_ERASE = re.compile(r"\r+(?:\x1b\[[0-9;]*m)*\x1b\[0?K|\x1b\[[12]K")
_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"  # titles, links, strings
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class Tail:
    """What was said last, by several streams in the order in which it was read."""

    def __init__(self, keep: int) -> None:
        self._keep = max(keep, 0)
        self._window = max(self._keep * _RAW, 4096)
        self._raw = bytearray()
        self._said = 0
        self._lock = Lock()

    def add(self, data: memoryview) -> None:
        """Take a piece that was just read; it is copied. May be called by several threads."""
        with self._lock:
            self._said += len(data)
            self._raw += data[-self._window :]
            if len(self._raw) > 2 * self._window:
                del self._raw[: -self._window]

    def text(self) -> tuple[str, bool]:
        """Return the end of the output, cut where a line begins, and whether anything before it is missing."""
        with self._lock:
            raw, said = bytes(self._raw[-self._window :]), self._said
        lost = said > len(raw)
        return _cut(clean(raw, lost), self._keep, lost)


def clean(raw: bytes, lost: bool = False) -> str:
    """Return the text that a terminal would have been left with, roughly; `lost` if the beginning is missing."""
    text = raw.decode("utf-8", "replace")
    if lost and (first := _SCREEN_END.search(text)) and first[1] == "l":
        text = text[first.end() :]
    text = _SCREEN.sub("", text)
    text = _ESCAPE.sub("", _ERASE.sub(_ERASED, text))
    if "\r" in text or "\b" in text or _ERASED in text:
        text = "\n".join(map(_last_form, text.split("\n")))
    return _CONTROL.sub("", text)


def _last_form(line: str) -> str:
    """Return what is left of a line that was written over."""
    if _ERASED in line:
        line = line.rpartition(_ERASED)[2]
    if "\r" in line:
        line = next((part for part in reversed(line.split("\r")) if part.strip("\b ")), "")
    return _rubbed(line) if "\b" in line else line


def _rubbed(line: str) -> str:
    left: list[str] = []
    for char in line:
        if char != "\b":
            left.append(char)
        elif left:
            left.pop()
    return "".join(left)


def _cut(text: str, keep: int, lost: bool) -> tuple[str, bool]:
    data = text.encode()
    if not lost and len(data) <= keep:
        return text, False
    whole = not lost and len(data) == keep
    if len(data) > keep:
        whole = data[len(data) - keep - 1 : len(data) - keep] == b"\n"
        data = data[len(data) - keep :]
    if not whole and b"\n" in data[:-1]:
        data = data[data.index(b"\n") + 1 :]
    return data.decode("utf-8", "ignore").lstrip("\ufffd"), True
