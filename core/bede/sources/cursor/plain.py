"""Cursor's transcripts as text, turned into the records that its lines of JSON would have held.

A line at the very left that is `user:` or `assistant:` begins a record, and nothing else does: what the assistant wrote
in such a line cannot be told from one. What a tool gave is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_SECTION = re.compile(r"^(user|assistant):[ \t]*\r?$", re.MULTILINE)
_MARK = re.compile(r"^\[(Thinking|Tool call|Tool result)\][ \t]*(.*?)\r?$", re.MULTILINE)
_ARGUMENT = re.compile(r"^ {2}([A-Za-z_]\w*):(?: (.*)|)$")


def sections(whole: str) -> Iterator[dict[str, Any]]:
    """Yield the records of a text; what is before the first of them is none."""
    parts = _SECTION.split(whole)
    for role, body in zip(parts[1::2], parts[2::2], strict=True):
        blocks = [{"type": "text", "text": body.strip("\r\n")}] if role == "user" else list(_marked(body))
        yield {"role": role, "message": {"content": blocks}}


def _marked(body: str) -> Iterator[dict[str, Any]]:
    """Yield the blocks of what the assistant said: text, thoughts of one line, and calls with their arguments."""
    parts = _MARK.split(body)
    if said := parts[0].strip("\r\n"):
        yield {"type": "text", "text": said}
    for mark, name, rest in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        if mark == "Thinking":
            yield {"type": "thinking", "thinking": name}
            if said := rest.strip("\r\n"):
                yield {"type": "text", "text": said}
        elif mark == "Tool call":
            yield {"type": "tool_use", "name": name.strip(), "input": _arguments(rest)}
        else:
            # What a tool gave is not kept; that it gave something is.
            yield {"type": "tool_end", "name": name.strip()}


def _arguments(rest: str) -> dict[str, str]:
    """Return the arguments of a call; a value goes on until the next name."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in rest.strip("\r\n").split("\n"):
        if match := _ARGUMENT.match(line.rstrip("\r")):
            name = match[1]
            found.setdefault(name, []).append(match[2] or "")
        elif name:
            found[name].append(line)
    return {name: "\n".join(lines) for name, lines in found.items()}
