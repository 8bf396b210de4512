"""The JSON that travels: strict to read, the same bytes for the same notices to write.

`memkernel.notices/v1` is the format of MemKernel, compatible both ways. Whatever comes from outside is refused as a
whole, with a reason of its own, before any of it is looked at further. Pure: no file, no clock, no log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from bede.errors import BadSource, UsageError
from bede.identity import canonical, timestamp
from bede.projections.notices import AUTHOR, ID, LONGEST, RESOURCE, Notice

SCHEMA = "memkernel.notices/v1"
#: Bytes and notices of one exported document.
LARGEST, MOST = 1024 * 1024, 1000
#: Microseconds that a notice may hold: a second at least, seven days at most.
SHORTEST, LASTING = 1_000_000, 7 * 86_400_000_000
_KEYS = {"notice_id", "author", "resource", "message", "created_at", "expires_at", "cleared_at"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Our own answer around a document, which is what `bede notice export > FILE` keeps.
_ANSWER = "notice/1"


def refuse(reason: str, message: str, hint: str = "") -> NoReturn:
    """Raise the refusal of something that came from outside."""
    raise BadSource(message, hint=hint or "nothing was taken in", reason=reason)


def parse(data: bytes, largest: int = LARGEST) -> dict[str, Any]:
    """Return the JSON object in these bytes.

    Raises:
        BadSource: they are too many, not UTF-8, not JSON, or no object; a key stands twice; a number is none.
    """
    if len(data) > largest:
        refuse("too_large", f"the document has more than {largest:,} bytes")
    try:
        found = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_once, parse_constant=_constant)
        canonical(found)
    except (ValueError, RecursionError, UsageError) as error:
        refuse("invalid_document", f"the document is not plain JSON in UTF-8: {str(error)[:200]}")
    if not isinstance(found, dict):
        refuse("invalid_document", "the document is not a JSON object")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is given twice in one object")
    return found


def _constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


def read(data: bytes) -> list[Notice]:
    """Return the notices of an exported document.

    Raises:
        BadSource: it is none, or anything about it is not as the format says.
    """
    found = parse(data)
    if found.get("schema") == _ANSWER and isinstance(found.get("document"), dict):
        found = found["document"]
    if found.get("schema") != SCHEMA:
        refuse("wrong_schema", f"the document is of another schema than {SCHEMA}", "export it with 'notice export'")
    if unknown := found.keys() - {"schema", "notices"}:
        refuse("unknown_field", f"the document has a field that it may not have: {min(unknown)[:40]!r}")
    return notices(found.get("notices"), MOST)


def notices(listed: object, most: int) -> list[Notice]:
    """Return the notices of a list.

    Raises:
        BadSource: they are too many, one is not as the format says, or an id stands twice.
    """
    if not isinstance(listed, list):
        refuse("invalid_notices", "the notices are no array")
    if len(listed) > most:
        refuse("too_many", f"there are {len(listed):,} notices, at most {most:,} are taken", "export fewer at a time")
    found = [notice(item, number) for number, item in enumerate(listed, 1)]
    if len({item.id for item in found}) < len(found):
        refuse("duplicate_notice", "an id stands twice among the notices")
    return found


def notice(item: object, number: int) -> Notice:
    """Return one notice as it stands in a document.

    Raises:
        BadSource: with the reason `invalid_notice`; the message names the field.
    """
    if not isinstance(item, dict):
        refuse("invalid_notice", f"notice {number} is not an object")
    if unknown := item.keys() - _KEYS:
        refuse("unknown_field", f"notice {number} has a field that it may not have: {min(unknown)[:40]!r}")
    identity, author = _shaped(item, "notice_id", ID, number), _shaped(item, "author", AUTHOR, number)
    resource, message = _shaped(item, "resource", RESOURCE, number), item.get("message")
    if not isinstance(message, str) or not message.strip() or len(message) > LONGEST:
        _wrong(number, "message")
    created, expires = moment(item.get("created_at")), moment(item.get("expires_at"))
    cleared = None if item.get("cleared_at") is None else moment(item["cleared_at"])
    if created is None:
        _wrong(number, "created_at")
    if expires is None or not SHORTEST <= expires - created <= LASTING:
        _wrong(number, "expires_at")
    if item.get("cleared_at") is not None and (cleared is None or cleared < created):
        _wrong(number, "cleared_at")
    return Notice(identity, author, resource, message, created, expires, cleared)


def _shaped(item: dict[str, Any], name: str, shape: re.Pattern[str], number: int) -> str:
    found = item.get(name)
    if not isinstance(found, str) or not shape.fullmatch(found):
        _wrong(number, name)
    return found


def _wrong(number: int, name: str) -> NoReturn:
    refuse("invalid_notice", f"notice {number}: its {name} is not as the format says")


def moment(text: object) -> int | None:
    """Return a moment with its zone as microseconds since 1970; None for anything else, and for times before that."""
    if not isinstance(text, str) or len(text) > 40:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    if found.tzinfo is None:
        return None
    at = (found - _EPOCH) // timedelta(microseconds=1)
    return at if 0 <= at <= 253_402_300_799_999_999 else None


def wire(item: Notice) -> dict[str, Any]:
    """Return a notice as it stands in a document."""
    cleared = None if item.cleared_at is None else timestamp(item.cleared_at)
    return {
        "notice_id": item.id,
        "author": item.author,
        "resource": item.resource,
        "message": item.message,
        "created_at": timestamp(item.created_at),
        "expires_at": timestamp(item.expires_at),
        "cleared_at": cleared,
    }


def export(items: Sequence[Notice]) -> tuple[dict[str, Any], int]:
    """Return a document with as many of these notices, in order, as the format has room for, and how many had none."""
    chosen = fitting([wire(item) for item in items], MOST, LARGEST - 64)
    return {"schema": SCHEMA, "notices": sorted(chosen, key=_id)}, len(items) - len(chosen)


def fitting(items: Sequence[dict[str, Any]], most: int, room: int) -> list[dict[str, Any]]:
    """Return as many of these, in order, as a number of them and their bytes allow."""
    chosen: list[dict[str, Any]] = []
    for item in items[:most]:
        room -= len(canonical(item)) + 1
        if room < 0:
            break
        chosen.append(item)
    return chosen


def ordered(items: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return notices in the order in which they are published."""
    return sorted(items, key=_id)


def _id(item: Mapping[str, Any]) -> str:
    return str(item["notice_id"])
