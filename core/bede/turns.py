"""Turns of a session as they are stored, searched and shown; this room only reads them.

A turn is one contribution: something in the user's role, or one step of the assistant with the tools it called then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

#: Most characters of a call's target on its line.
LINE = 1000

Turn = dict[str, Any]
"""A turn as plain JSON.

    key        key of its first part, which names it within its session
    by         who really spoke: a speaker of `port.Speaker`, or "assistant"
    at, until  microseconds since 1970 (UTC) of its first and last part; left out where unknown
    precision  of these times
    line       place of its first record
    side       true for a side chain
    parent     key of the part it follows, where the agent keeps a tree
    origin     what is the same in a copy of it in another session; "=" where that is the key
    replayed   true where the format shows that it is such a copy
    parts      in order: {"text"}, {"thought"}, or {"call", "tool", "target", "sort", "edits", "ok", "exit_status",
               "denied", "output", "changed"}, what is unknown left out; in the fold also "key" and "done"
    model      of the assistant
    usage      tokens by request
"""


def text_of(turn: Turn) -> str:
    """Return a turn as it is searched and shown: what was said, each call as one line, of a failure the last lines."""
    return "\n".join(line for part in turn["parts"] for line in _lines(part))


def _lines(part: dict[str, Any]) -> Iterator[str]:
    if part.get("text"):
        yield part["text"]
    if "call" in part:
        target = " ".join(part["target"].split())
        cut = target if len(target) <= LINE else target[: LINE - 1] + "…"
        yield " ".join(word for word in (f"[{part['tool'] or 'result'}]", cut, _outcome(part)) if word)
    if part.get("output"):
        yield part["output"]


def _outcome(part: dict[str, Any]) -> str:
    if part.get("denied"):
        return "(denied)"
    if part.get("exit_status") is not None:
        return f"(exit {part['exit_status']})"
    return "(failed)" if part.get("ok") is False else ""
