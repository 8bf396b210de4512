"""Bytes to records: lines of JSON as agents really leave them.

Lines end with a line feed and with nothing else (U+2028 and its kin stand raw inside strings). A record that cannot be
read costs that record: it is counted, and reading goes on. Objects glued on one line are all found, one behind a torn
piece too, and one that raw line feeds have spread over lines. A last line that is not whole yet waits. Where a
record is found never depends on how much of the file was there when it was read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from bede.quick import dataclass
from bede.sources.parsed import bounded, parsed
from bede.sources.port import Spot, Tally

#: A longer line is counted and passed over, unread: no agent writes one, and memory is bounded.
LONGEST = 256 * 1024 * 1024
#: Most lines over which one object may be spread, and most bytes of a torn line that are searched for whole objects.
SPREAD, SEARCHED = 64, 4 * 1024 * 1024
TRIES = 200
#: Who has read so much, or one such line, loads a parser that is twice as quick as the standard library's, and agrees
#: with it.
BULK = 4 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"
_PADDING = b"\x00 \t\r\n"
_BLANKS = re.compile(r"[\x00 \t\r\n]*")
#: What is below `json.loads`, which guesses at the encoding for as long as a short record takes.
_SCAN = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
_LAX = json.JSONDecoder(strict=False)

Parse = Callable[[bytes], dict[str, Any] | None]
"""Returns the object that a whole line is; None for any other line."""

Found = list[tuple[int, Any]]
"""Records with the offsets at which they begin."""


@dataclass(slots=True)
class Cursor:
    """How far a file is read: all before `offset`, and `part` records of line `line` that end there."""

    offset: int = 0
    line: int = 1
    part: int = 0

    def pass_by(self, text: bytes, records: int) -> None:
        """Go behind some bytes that are done with."""
        self.offset += len(text)
        self.part += records
        if text.endswith(b"\n"):
            self.line, self.part = self.line + text.count(b"\n"), 0


def records(file: BinaryIO, path: Path, cursor: Cursor, tally: Tally) -> Iterator[tuple[Spot, Any]]:
    """Yield the records from a cursor on; the cursor is behind a line once the next one is asked for.

    What is torn at the end of the file is counted as `unfinished`, and the cursor stays before it.
    """
    file.seek(cursor.offset)
    held: list[bytes] = []  # lines that are no records: perhaps the pieces of one
    parse: Parse = _plain
    bulk = cursor.offset + BULK
    while line := file.readline(LONGEST + 1):
        if not held and (record := parse(line)) is not None:  # as for nearly all
            size, line = len(line), b""  # What it says may be long, and is held already.
            yield Spot(path, cursor.line, cursor.offset, cursor.part), record
            cursor.offset, cursor.line, cursor.part = cursor.offset + size, cursor.line + 1, 0
            if parse is _plain and cursor.offset > bulk:
                parse = quick()
            continue
        if len(line) > LONGEST:
            _give_up(held, cursor, tally)
            _pass_over(file, line, cursor, tally)
            continue
        text, found = _read(held, line, cursor.offset == 0)
        if found is None:
            held.append(line)
            if not line.endswith(b"\n"):
                break
            if len(held) == SPREAD or sum(map(len, held)) > SEARCHED:
                _give_up(held, cursor, tally)
            continue
        if text is line:
            _give_up(held, cursor, tally)
        if found and found[0][0] < 0:
            tally.bad("torn")
        for part, (at, value) in enumerate(found, cursor.part):
            yield Spot(path, cursor.line, cursor.offset + abs(at), part), value
        cursor.pass_by(text, len(found))
        held.clear()
    if held:
        tally.bad("unfinished")


def quick() -> Parse:
    """Return what parses the plain lines of a big file: what it makes of a line is what `json` makes of it, or nothing.

    It does not know halves of characters, nor deep nesting; such lines are left to `json`.
    """
    from pydantic_core import from_json  # takes 20 ms to load

    def parse(line: bytes) -> dict[str, Any] | None:
        if line[:1] != b"{" or line[-2:] != b"}\n" or len(line) > LONGEST:
            return None
        try:
            record: dict[str, Any] = from_json(line, cache_strings="keys")
        except ValueError:
            return _scanned(line)
        return record

    return parse


def _plain(line: bytes) -> dict[str, Any] | None:
    """Return the object that a whole line is, without a blank at either end; None for any other line."""
    if line[:1] != b"{" or line[-2:] != b"}\n":
        return None
    return _scanned(line) if len(line) <= BULK else quick()(line)


def _scanned(line: bytes) -> dict[str, Any] | None:
    """Return the object that a line in braces is, read by the standard library; None where it is something else."""
    try:
        text = line.decode("utf-8", "surrogatepass")
        record, end = _SCAN(text, 0)
        bounded(record, text)
    except (StopIteration, ValueError, RecursionError):
        return None
    return record if end == len(text) - 1 else None


def _give_up(held: list[bytes], cursor: Cursor, tally: Tally) -> None:
    """Count lines that turned out to be pieces of nothing, and go behind them."""
    for piece in held:
        tally.bad("torn")
        cursor.pass_by(piece, 0)
    held.clear()


def _pass_over(file: BinaryIO, line: bytes, cursor: Cursor, tally: Tally) -> None:
    """Go behind a line that is too long to be read."""
    tally.bad("too long")
    cursor.pass_by(line, 0)
    while not line.endswith(b"\n") and (line := file.readline(BULK)):
        cursor.pass_by(line, 0)


def _read(held: list[bytes], line: bytes, first: bool) -> tuple[bytes, Found | None]:
    """Return what was read, the line or all that was held with it, and its records; None where there is none yet.

    The offset of a record behind a torn piece is negative.
    """
    found = _whole(line, first and not held)
    if found is not None or not line.endswith(b"\n"):
        return line, found
    if held and (joined := _glued(text := b"".join(held) + line)) is not None:
        return text, joined
    return line, _behind_torn(line)


def _whole(line: bytes, first: bool) -> Found | None:
    """Return the records of a line that holds nothing else; blanks, padding and a mark at the start are no records."""
    text = line[3:] if first and line.startswith(_BOM) else line
    try:
        return [(len(line) - len(text), parsed(text.decode("utf-8", "surrogatepass")))]
    except ValueError:
        return _glued(line) if text.strip(_PADDING) else []


def _glued(line: bytes) -> Found | None:
    """Return the objects that make up a text, one behind the other; None where anything else is among them."""
    skipped = len(line) - len(line.lstrip(_PADDING + _BOM))
    return _objects(line[skipped:].rstrip(_PADDING).decode("utf-8", "replace"), 0, skipped, set())


def _objects(text: str, at: int, place: int, seen: set[int]) -> Found | None:
    """Return the objects that make up a text from `at` on, which is `place` bytes behind where offsets begin.

    Where one was `seen` before, something else came behind it: nobody reads the same twice. Each that is met is added.
    """
    found: Found = []
    try:
        while at < len(text):
            if at in seen:
                return None
            seen.add(at)
            value, end = _LAX.raw_decode(text, at)
            bounded(value, text, at, end)
            if not isinstance(value, dict):
                return None
            found.append((place, value))
            end = _BLANKS.match(text, end).end()  # type: ignore[union-attr]
            place, at = place + len(text[at:end].encode()), end
    except (ValueError, RecursionError):
        return None
    return found


def _behind_torn(line: bytes) -> Found | None:
    """Return the objects that make up the end of a line whose beginning is torn."""
    if len(line) > SEARCHED:
        return None
    text, place, at, seen = line.rstrip(_PADDING).decode("utf-8", "replace"), 0, 0, set[int]()
    for _ in range(TRIES):
        place, at = line.find(b'{"', place + 1), text.find('{"', at + 1)
        if at < 0:
            return None
        if found := _objects(text, at, place, seen):
            return [(-offset, value) for offset, value in found]
    return None
