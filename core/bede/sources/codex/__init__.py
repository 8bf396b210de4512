"""Codex: the rollouts of its command line, its editors and its app, in the four notations they have had.

One file holds one session: `{session, items}` as one document (early 2025), bare items (mid 2025), and records of
`{timestamp, type, payload}` since. What is said stands there up to three times, as the item that went to the model, as
an event, and as a completed item of a turn; it counts once, from the first that comes. A session that was forked
begins with a copy of its parent, with new times; the copy is marked as one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from bede.errors import BadSource
from bede.sessions import session_of
from bede.sources import homes
from bede.sources.codex.items import EVENTS, ITEMS, RECORDS
from bede.sources.codex.state import AGENT, SHORT, Place, Precision, met
from bede.sources.jsonl import LONGEST
from bede.sources.parsed import parsed
from bede.sources.port import Item, Spot, Tally, World

__all__ = ["AGENT", "BETWEEN", "FORM", "accepts", "find", "take", "whole"]

FORM: Literal["stream"] = "stream"
#: What stands between the pieces of a text that is read as one.
BETWEEN = ""

ZSTD = b"\x28\xb5\x2f\xfd"

_NAME = re.compile(r"rollout-.*\.(?:jsonl|json)(?:\.zst)?", re.DOTALL)
_WRAPPED = re.compile(rb'"type"\s*:\s*"(?:session_meta|response_item|event_msg|turn_context)"')
_WHOLE = re.compile(rb'\s*\{\s*"session"\s*:\s*\{')
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def find(world: World) -> Iterator[Path]:
    """Yield every rollout, archived ones too; a compressed one only where the plain file is not beside it."""
    seen: set[tuple[int, int]] = set()
    for folder in homes.codex(world):
        yield from _below(world, folder, seen)


def _below(world: World, folder: Path, seen: set[tuple[int, int]]) -> Iterator[Path]:
    """Yield the rollouts of a folder and of those in it, none of them twice."""
    try:
        status = folder.stat()
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        if (status.st_dev, status.st_ino) in seen:
            return
        seen.add((status.st_dev, status.st_ino))
    except (OSError, ValueError) as error:
        homes.refuse(world, folder, error)
        return
    files = {entry.name for entry in entries if _NAME.fullmatch(entry.name) and _is(entry, os.DirEntry.is_file)}
    for entry in entries:
        if entry.name in files and entry.name.removesuffix(".zst") not in files - {entry.name}:
            yield folder / entry.name
        elif _is(entry, os.DirEntry.is_dir):
            yield from _below(world, folder / entry.name, seen)


def _is(entry: os.DirEntry[str], kind: Any) -> bool:
    """Tell whether an entry is of a kind; what cannot be asked is not."""
    try:
        return bool(kind(entry))
    except OSError:
        return False


def accepts(path: Path, head: bytes) -> bool:
    """Tell whether a file is a rollout: by its content; a compressed one by its name."""
    if head.startswith(ZSTD):
        return _NAME.fullmatch(path.name) is not None and path.name.endswith(".zst")
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if _WHOLE.match(text):
        return b'"items"' in head or _NAME.fullmatch(path.name) is not None
    return any(_is_ours(line, path) for line in text.split(b"\n")[:5])


def _is_ours(line: bytes, path: Path) -> bool:
    """Tell whether a line, perhaps cut off, is a record of a rollout."""
    try:
        record = parsed(line)
    except ValueError:
        return b'"payload"' in line and _WRAPPED.search(line[:400]) is not None
    if not isinstance(record, dict):
        return False
    if "payload" in record:
        return _WRAPPED.search(b'"type":"%s"' % str(record.get("type")).encode("utf-8", "replace")) is not None
    kind = record.get("type")
    if isinstance(kind, str):
        return kind in ITEMS and _NAME.fullmatch(path.name) is not None
    return "type" not in record and {"id", "timestamp", "instructions"} <= record.keys()


def whole(path: Path, tally: Tally) -> Iterator[Item]:
    """Yield the items of a rollout of the first generation, one document in a `.json` file, printed however it is.

    Raises:
        BadSource: it cannot be read, or is no JSON.
    """
    try:
        if path.stat().st_size > LONGEST:
            raise BadSource(f"{path} is too long to be read at once")
        text = path.read_bytes().removeprefix(b"\xef\xbb\xbf").strip(b"\x00 \t\r\n")
        record = parsed(text.decode("utf-8", "replace"), strict=False)
    except (OSError, ValueError) as error:
        raise BadSource(f"{path} holds no session that can be read: {error}") from None
    yield from take(record, Spot(path, 1, 0), {}, tally)


def take(record: Any, spot: Spot, state: dict[str, Any], tally: Tally) -> list[Item]:
    """Return the items of one decoded record, of any of the generations."""
    place = Place(state, tally, spot.place, spot.line, session_of(AGENT, spot.path.name))
    if not isinstance(record, dict):
        tally.bad("not an object")
    elif "payload" in record:
        _wrapped(place, record, tally)
    elif isinstance(record.get("session"), dict) and isinstance(record.get("items"), list):
        return _document(place, record["session"], record["items"], tally)
    else:
        _bare(place, record, tally)
    if "copied" in state:
        state["copied"] = place.at
    return place.given


def _wrapped(place: Place, record: dict[str, Any], tally: Tally) -> None:
    """Take a record of `{timestamp, type, payload}`."""
    kind, payload = record.get("type"), record["payload"]
    if not isinstance(kind, str) or len(kind) > SHORT or not isinstance(payload, dict):
        return tally.bad("no payload" if isinstance(kind, str) else "no type")
    place.at, place.precision = _time(record.get("timestamp"))
    if kind not in ("response_item", "event_msg"):
        tally.types[kind] += 1
        if kind in RECORDS:
            RECORDS[kind](place, payload)
        return None
    inner = payload.get("type")
    if not isinstance(inner, str) or len(inner) > SHORT:
        return tally.bad("no type")
    tally.types[f"{kind}/{inner}"] += 1
    known = ITEMS if kind == "response_item" else EVENTS
    if inner in known:
        known[inner](place, payload)
    return None


def _bare(place: Place, record: dict[str, Any], tally: Tally) -> None:
    """Take a record of mid 2025: a header, a state, or an item as it stands, without a time."""
    kind = record.get("type")
    if isinstance(kind, str):
        tally.types[kind] += 1
        if kind in ITEMS:
            place.at, place.precision = _time(record.get("timestamp"))
            ITEMS[kind](place, record)
    elif isinstance(record.get("record_type"), str):
        tally.types[record["record_type"]] += 1
    elif isinstance(record.get("id"), str):
        tally.types["header"] += 1
        place.at, place.precision = _time(record.get("timestamp"))
        met(place, record)
    else:
        tally.bad("no type")


def _document(place: Place, session: dict[str, Any], items: list[Any], tally: Tally) -> list[Item]:
    """Take a session of the first generation at once; its items have no times."""
    tally.types["session"] += 1
    given: list[Item] = []
    place.at, place.precision = _time(session.get("timestamp"))
    met(place, session)
    given += place.given
    for number, item in enumerate(items, 1):
        inner = Place(place.state, tally, f"{place.where}.{number}", number, place.fallback)
        if isinstance(item, dict):
            _bare(inner, item, tally)
        else:
            tally.bad("not an object")
        given += inner.given
    return given


def _time(value: Any) -> tuple[int | None, Precision]:
    """Return a time in microseconds and how exactly it was written; none where it is none."""
    if not isinstance(value, str) or len(value) > 40 or len(value) < 16:
        return None, ""
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        since = (moment - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError):
        return None, ""
    digits = len(re.split(r"[^0-9]", value.partition(".")[2], maxsplit=1)[0])
    return since, "us" if digits > 3 else "ms" if digits else "s"
