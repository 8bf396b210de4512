"""Names of things: canonical forms, hashes, ids, and the shapes that names must have.

An event's id is the SHA-256 of its canonical form; an operation's hash is the SHA-256 of its own form, which holds
the hash of the operation before. Both forms are lines of text, `word value`, so that anyone can recompute them
with a few lines of any language. Nothing here reads a clock or touches a file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from json import JSONEncoder
from typing import Any

from bede.errors import Corrupt, UsageError

ZERO = "0" * 64
#: Most levels of lists and objects in a payload, and in JSON that others wrote: parsers have limits of their own.
DEPTH, DEEPEST = 64, 200
#: Bytes of a payload's salt. The length is fixed, so that no byte can be counted to the body instead.
SALT = 16

#: A value that holds itself is refused for its depth, as any other that never ends.
_ENCODE = JSONEncoder(
    check_circular=False, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
).encode
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_AGENT = r"[^\W_][\w.@:+-]{0,127}"
_TASK = r"[^\W_][\w./@:#+-]{0,127}"
_LABEL = r"[a-z][a-z0-9_-]*:[\w./@#+-]+"
_BRANCH = r"[^\W_][\w.+-]*(/[^\W_][\w.+-]*)*"
_RESERVED = frozenset({"head", "sessions", "coordination", "worktrees", "bundles"})


def canonical(value: Any) -> bytes:
    """Return the one JSON form of a value: sorted keys, no spaces, UTF-8.

    Raises:
        UsageError: the value has no such form (NaN, a lone surrogate, nesting over 64 levels, a foreign type).
    """
    try:
        text = _ENCODE(value)
        # As many brackets as levels at least: most values need no walk.
        if text.count("{") + text.count("[") > DEPTH:
            _check_depth(value)
        return text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            "text holds a lone surrogate, which no encoding can store",
            hint="replace the broken character and try again",
        ) from error
    except (ValueError, TypeError, RecursionError) as error:
        _check_depth(value)
        raise UsageError(f"value cannot be written as JSON: {error}") from error


def _check_depth(value: Any) -> None:
    if is_deeper(value, DEPTH):
        raise UsageError(f"value is nested deeper than {DEPTH} levels")


def is_deeper(value: Any, levels: int) -> bool:
    """Tell whether lists and objects that hold something lie in each other at more than so many levels.

    Walks level by level, so that hostile nesting cannot exhaust the stack; what holds itself is deeper than any number.
    """
    level = [value]
    for _ in range(levels + 1):
        level = [item for item in level if item and isinstance(item, (dict, list, tuple))]
        if not level:
            return False
        level = [child for item in level for child in (item.values() if isinstance(item, dict) else item)]
    return True


def digest(salt: bytes, body: bytes) -> bytes:
    """Return what an event commits to: `SHA-256(salt ‖ body)`."""
    return hashlib.sha256(salt + body).digest()


def event_id(kind: str, parents: Sequence[str], actor: str, source: str, happened_at: int, payload: bytes) -> bytes:
    """Return the SHA-256 of an event's canonical form.

    `parents` are hex ids, `happened_at` is in microseconds since 1970 (UTC), `payload` is the 32-byte digest.
    No field may hold a line feed; `source` is empty or a JSON object on one line.
    """
    ancestry = "".join([f"parent {parent}\n" for parent in parents])
    form = (
        f"bede event 1\nkind {kind}\n{ancestry}actor {actor}\nsource {source}\n"
        f"happened {happened_at}\npayload {payload.hex()}\n"
    )
    return hashlib.sha256(form.encode()).digest()


def operation_hash(
    before: str, number: int, verb: str, actor: str, at: int, note: str, moves: str, events: Sequence[str]
) -> bytes:
    """Return the SHA-256 of an operation's canonical form.

    `before` is the hex hash of the operation before (64 zeros for the first); `moves` are lines `REF OLD NEW`
    with hex ids or `-`; `events` are the hex ids it appended, in order of arrival.
    """
    listed = "".join([f"event {event}\n" for event in events])
    form = (
        f"bede operation 1\nbefore {before}\nnumber {number}\nverb {verb}\nactor {actor}\nat {at}\n"
        f"note {note}\n{moves}{listed}"
    )
    return hashlib.sha256(form.encode()).digest()


def counted(number: int, noun: str) -> str:
    """Return a number of things in words."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def timestamp(microseconds: int) -> str:
    """Return RFC 3339 UTC, `2026-11-30T09:15:00.123456Z`.

    Raises:
        Corrupt: no calendar has such a time.
    """
    try:
        moment = _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError as error:
        raise Corrupt(f"no time: {microseconds} microseconds since 1970", hint="run 'bede verify'") from error
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def instant(text: str, now: int) -> int:
    """Read a moment: RFC 3339, a date, or an age such as `90m`, `12h`, `3d`, `2w` before `now`.

    Returns microseconds since 1970 (UTC); a time without a zone is UTC.

    Raises:
        UsageError: the text is none of these.
    """
    age = re.fullmatch(r"(\d{1,9})([smhdw])", text.strip())
    if age:
        seconds = int(age[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}[age[2]]
        return max(now - seconds * 1_000_000, _FIRST)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise UsageError(
            f"not a time: {text!r}", hint="write 2026-11-30, 2026-11-30T09:15:00Z, or an age such as 3d"
        ) from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def check_agent(text: str) -> str:
    """Return a well-formed agent id.

    Raises:
        UsageError: it is not 1 to 128 letters, digits or `._@:+-`, the first a letter or digit.
    """
    return _check(_AGENT, text, "agent id", "letters, digits and ._@:+-, at most 128, starting with a letter or digit")


def check_task(text: str) -> str:
    """Return a well-formed task id.

    Raises:
        UsageError: it is not 1 to 128 letters, digits or `._/@:#+-`, the first a letter or digit.
    """
    return _check(_TASK, text, "task id", "letters, digits and ._/@:#+-, at most 128, starting with a letter or digit")


def check_label(text: str) -> str:
    """Return a well-formed label, `namespace:value`.

    Raises:
        UsageError: it has another shape, or more than 64 characters.
    """
    _check(_LABEL, text, "label", "namespace:value, such as dep:sqlite, the namespace in lower case")
    if len(text) > 64:
        raise UsageError(f"label has {len(text)} characters, at most 64 are allowed: {text[:40]}…")
    return text


def check_branch(text: str) -> str:
    """Return a well-formed branch name, as git would take it.

    Raises:
        UsageError: it is reserved, looks like an event id or an escape from its folder, or is malformed.
    """
    _check(_BRANCH, text, "branch name", "words of letters, digits and ._+-, joined by /")
    first = text.split("/", 1)[0].lower()
    if first in _RESERVED or ".." in text or text.endswith((".lock", ".")) or len(text) > 128:
        raise UsageError(f"not a branch name: {text!r}", hint="reserved, too long, or not a name git would take")
    if re.fullmatch(r"[0-9a-f]{4,64}", text):
        raise UsageError(f"not a branch name: {text!r}", hint="it could be mistaken for an event id")
    return text


def _check(pattern: str, text: str, what: str, hint: str) -> str:
    if not re.fullmatch(pattern, text):
        raise UsageError(f"malformed {what}: {text[:80]!r}", hint=f"use {hint}")
    return text
