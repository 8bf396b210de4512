"""JSON as values, to the same depth on every machine.

How deep the parser of the standard library goes is a matter of its version: up to Python 3.11 of what is on the stack
already, then of numbers of its own, ten times as high. A record must not be one on this machine and none on the next.
The limit here is that of the quick parser of big files, which counts what holds something.
"""

from __future__ import annotations

import json
from typing import Any

from bede.identity import DEEPEST, is_deeper


def parsed(text: str | bytes, *, strict: bool = True) -> Any:
    """Return the value that a text is; with raw line ends and tabs in its texts unless `strict`.

    Raises:
        ValueError: it is no JSON, or is nested deeper than `DEEPEST` levels.
    """
    try:
        return bounded(json.loads(text, strict=strict), text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def bounded(value: Any, text: str | bytes, at: int = 0, end: int | None = None) -> Any:
    """Return a value that was read from a part of a text.

    Raises:
        ValueError: it is nested deeper than `DEEPEST` levels.
    """
    marks: tuple[Any, Any] = (b"{", b"[") if isinstance(text, bytes) else ("{", "[")
    # As many brackets as levels at least: most values need no walk.
    if sum(text.count(mark, at, end) for mark in marks) > DEEPEST and is_deeper(value, DEEPEST):
        raise ValueError("it is nested too deeply")
    return value
