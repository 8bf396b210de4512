"""What the bodies of events must look like, so that nothing which reads them meets a shape that nobody writes.

Only what some reader relies on is looked at; more may be said. Kinds that this version does not know are kept as they
are, and only what they claim to end is checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from bede.bundles.form import refuse
from bede.leases.outbox import CONTENDED
from bede.projections.rows import ENDINGS, KINDS
from bede.projections.sessions import FIELDS
from bede.repository.union import Foreign

_HEX = re.compile(r"[0-9a-f]{64}")
_LAST = 253_402_300_799_999_999

#: The kinds of events that may end others.
ENDING = frozenset({*KINDS, "merge"})

Test = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_flag(value: Any) -> bool:
    return value is None or isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return value is None or (type(value) is int and abs(value) < 2**63)


def _is_amount(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**63)


def _is_time(value: Any) -> bool:
    return type(value) is int and abs(value) <= _LAST


def _is_ends(value: Any) -> bool:
    return isinstance(value, dict) and all(
        word in ENDINGS and _is_texts(ids) and all(_HEX.fullmatch(name) for name in ids) for word, ids in value.items()
    )


def _fits(shape: Mapping[str, Test], value: Any, *needed: str) -> bool:
    """Tell whether an object has what is needed, and everything of it that has a shape is of that shape."""
    if not isinstance(value, dict) or any(name not in value for name in needed):
        return False
    return all(is_right(value[name]) for name, is_right in shape.items() if name in value)


def _each(shape: Mapping[str, Test], *needed: str) -> Test:
    return lambda value: isinstance(value, list) and all(_fits(shape, item, *needed) for item in value)


def _is_part(value: Any) -> bool:
    needed = ("tool", "target") if isinstance(value, dict) and "call" in value else ()
    return _fits(_PART, value, *needed)


_EDIT: dict[str, Test] = {"path": _is_text, "moved_to": lambda value: value is None or isinstance(value, str)}
_PART: dict[str, Test] = {
    **dict.fromkeys(("text", "thought", "call", "target", "sort", "output"), _is_text),
    "tool": lambda value: value is None or isinstance(value, str),
    **dict.fromkeys(("ok", "denied"), _is_flag),
    "exit_status": _is_number,
    **dict.fromkeys(("edits", "changed"), _each(_EDIT)),
}
_MEMORY: dict[str, Test] = {
    **dict.fromkeys(("task_id", "summary", "handoff_note", "key", "rationale", "output", "failure"), _is_text),
    **dict.fromkeys(("learnings", "tags", "labels", "command", "files"), _is_texts),
    "exit_status": _is_number,
    "seconds": _is_amount,
}
_TURN: dict[str, Test] = {
    **dict.fromkeys(("session", "key", "by", "precision", "parent", "origin", "model"), _is_text),
    **dict.fromkeys(("at", "until"), _is_time),
    **dict.fromkeys(("side", "replayed"), _is_flag),
    "line": _is_number,
    "parts": lambda value: isinstance(value, list) and all(map(_is_part, value)),
    "usage": lambda value: isinstance(value, dict),
}
_PROJECT: dict[str, Test] = {
    **dict.fromkeys(("project_id", "secret_digest", "upgrade_hint"), _is_text),
    "created_at": _is_time,
    **dict.fromkeys(("format", "min_reader_version", "min_writer_version"), lambda value: type(value) is int),
}
_LEASE: dict[str, Test] = {
    "about": _is_text,
    **dict.fromkeys(("session", "purpose", "prompt", "wanted_for", "holder", "holder_session"), _is_text),
    **dict.fromkeys(("to", "to_session", "summary"), _is_text),
    "resources": _is_texts,
    **dict.fromkeys(("first", "last", "until", "token", "to_token", "count", "left_out"), _is_time),
}
_COMMIT: dict[str, Test] = {
    **dict.fromkeys(("commit", "author", "summary", "subject", "branch"), _is_text),
    "files": _is_texts,
    "sessions": _each(dict.fromkeys(("agent", "session"), _is_text)),
}
_LEASES = ("lease_acquired", "lease_released", "lease_expired", "lease_handed_over", CONTENDED)
_SHAPES: dict[str, tuple[dict[str, Test], tuple[str, ...]]] = {
    **dict.fromkeys(KINDS, (_MEMORY, ())),
    "merge": ({"branch": _is_text}, ()),
    "commit": (_COMMIT, ()),
    **dict.fromkeys(_LEASES, (_LEASE, ("resources",))),
    "project": (_PROJECT, tuple(_PROJECT)),
    "session": ({"session": _is_text, **dict.fromkeys(FIELDS, _is_text)}, ("session",)),
    "turn": (_TURN, ("session", "key", "by", "parts")),
    "rewind": ({"session": _is_text, "keys": _is_texts, "whole": _is_flag}, ("session",)),
}


def check(event: Foreign) -> None:
    """Check what an event says, or what is left of it.

    Raises:
        BadSource: no event of its kind says such a thing.
    """
    said = event.told
    if event.kind == "project" and not event.form:
        raise refuse("bad_body", f"event {event.id} is the project's beginning, and says nothing")
    shape, needed = _SHAPES.get(event.kind, ({}, ()))
    if not event.form:
        # What is left of it stands in no hash, so there is nothing in it but what `purge` leaves.
        needed = ()
        extra = said.keys() - {"ends", "session", "key", "by", "at", "until", "side", "origin", "keys", "whole"}
        if extra:
            raise refuse("bad_body", f"event {event.id} was purged, and yet says {sorted(extra)[0][:40]!r}")
        if event.kind in ("turn", "session", "rewind"):
            needed = ("session", "key", "by") if "key" in said and event.kind == "turn" else ()
    if not _fits({**shape, "ends": _is_ends}, said, *needed):
        raise refuse("bad_body", f"event {event.id} says what no event of kind {event.kind!r} does")
