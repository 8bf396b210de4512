"""Bytes without secrets, for raw copies: whatever a reader may see in them is judged as the reader sees it.

A line that is one record is judged as its value, and so is a text that is one value; records that are glued, torn or
spread over lines are found as the reader finds them, and judged together with what lies around them. What nobody reads
as JSON is judged as text. Without a secret all stays byte for byte; with one there are as many lines as before, and the
same records, in the same places. Never more than a record, or a stretch of a text, is held.
"""

from __future__ import annotations

import io
import json
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from bede.intake.joined import HIDDEN, judged
from bede.redact import redact
from bede.sources import jsonl
from bede.sources.parsed import bounded
from bede.sources.port import Tally

#: A text that is one value is read whole; of a bigger one, which no format reads, no more is copied.
LARGEST = 256 * 1024 * 1024
#: Longest line that is copied: no longer one is read.
LONGEST = jsonl.LONGEST
#: Bytes of lines that are no records by themselves, and of a text, that are judged at once; more where a secret reaches
#: further.
RUN, WINDOW = 8 * 1024 * 1024, 1024 * 1024
#: Bytes behind the end of a stretch that tell whether a secret goes on there.
_NEAR = 32 * 1024

_PADDING = b"\x00 \t\r\n"
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_NAMED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class _Twice(Exception):
    """A name stands twice in an object: what a parser drops is not judged."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    held = dict(pairs)
    if len(held) < len(pairs):
        raise _Twice
    return held


#: For records as their reader takes them, and for values that their readers take with raw line ends in texts.
_STRICT = json.JSONDecoder(object_pairs_hook=_once), json.JSONDecoder()
_LAX = json.JSONDecoder(strict=False, object_pairs_hook=_once), json.JSONDecoder(strict=False)


class Sieve:
    """Takes the secrets out of bytes, and knows whether it met any; their reader lays `between` pieces of a text."""

    __slots__ = ("between", "has_met")

    def __init__(self, between: str = "\n") -> None:
        self.between = between
        self.has_met = False

    def lines(self, file: BinaryIO, left: int) -> Iterator[bytes]:
        """Yield so many bytes of an open file of lines; of a line that is too long to be read only its end."""
        held, most = bytearray(), RUN
        for line in _some(file, left):
            seen = self._record(line)
            if seen is None and (held or line.strip(_PADDING)):
                held += line
                if len(held) > most:
                    done, rest = _parted(bytes(held))
                    held, most = bytearray(rest), max(RUN, 2 * len(rest))
                    yield self._run(done)
                continue
            if held:
                yield self._run(bytes(held))
                held, most = bytearray(), RUN
            yield seen or line
        yield self._run(bytes(held))

    def value(self, file: BinaryIO) -> Iterator[bytes]:
        """Yield a text that is one value, or else is taken as text."""
        begin = file.read(256).removeprefix(b"\xef\xbb\xbf").lstrip(_PADDING)
        file.seek(0)
        if begin[:1] not in (b"{", b"[", b'"'):
            yield from self.text(file)
            return
        data = file.read(LARGEST)
        try:
            value, is_twice = _decoded(data.strip(_PADDING).decode("utf-8-sig", "replace"), _LAX)
            seen, has_met = judged(value, self.between)
            indent = 1 if b"\n" in data.strip(_PADDING) else None  # Lines tell a format.
            new = _dumped(seen, indent) if has_met or is_twice else data
        except (ValueError, RecursionError):
            new = self._unread(data)
        self.has_met |= new is not data
        yield new

    def text(self, file: BinaryIO) -> Iterator[bytes]:
        """Yield a text, a stretch at a time, cut where no secret reaches across."""
        held, left = b"", LARGEST
        while left > 0 and (piece := file.read(min(max(WINDOW, len(held)), left))):
            held, left = held + piece, left - len(piece)
            at = held.rfind(b"\n", 0, len(held) - _NEAR) + 1 if len(held) >= WINDOW else 0
            if at and _is_sound(held, at):
                yield self._plain(held[:at])
                held = held[at:]
        yield self._plain(held)

    def cell(self, value: Any) -> Any:
        """Return a value of a database, a text as any encoding can store it."""
        if isinstance(value, bytes):
            return b"".join(self.value(io.BytesIO(value)))
        if isinstance(value, str):
            raw = value.encode("utf-8", "surrogatepass")
            return b"".join(self.value(io.BytesIO(raw))).decode("utf-8", "replace")
        return value

    def whole(self, record: Any) -> bytes:
        """Return the line of a record that stands for all that was sifted; nothing where neither holds a secret."""
        seen, has_met = judged(record, self.between)
        self.has_met |= has_met
        try:
            return _dumped(seen) + b"\n" if self.has_met else b""
        except RecursionError:
            return HIDDEN.encode() + b"\n"

    def _record(self, line: bytes) -> bytes | None:
        """Return a line that is one value, of the same length where that can be; None for any other."""
        body = line.rstrip(b"\r\n")
        try:
            value, is_twice = _decoded(body.decode("utf-8", "surrogatepass"), _STRICT)
            seen, has_met = judged(value, self.between)
            if not (has_met or is_twice):
                return line
            new = _dumped(seen)
        except (ValueError, RecursionError):
            return None
        self.has_met = True
        return new.ljust(len(body)) + line[len(body) :]

    def _run(self, run: bytes) -> bytes:
        """Return lines that are no records by themselves: their text, its escapes and the records in it are judged."""
        found = [(text, [judged(value, self.between) for value in values]) for text, values in _stretches(run)]
        if not _tells(run) and not any(has_met for _, values in found for _, has_met in values):
            return run
        self.has_met = True
        return b"".join(self._rewritten(text, [value for value, _ in values]) for text, values in found)

    def _rewritten(self, text: bytes, values: list[Any]) -> bytes:
        """Return the records of a stretch, and nothing else of it; of one without records what can stay."""
        try:
            new = b"".join(map(_dumped, values))
            return new + b"\n" * text.count(b"\n") if new else self._torn(text)
        except RecursionError:
            return self._torn(text)

    def _torn(self, text: bytes) -> bytes:
        """Return what is no record, as many lines as before; its last one is as whole as it was."""
        new = self._unread(text)
        return b"\n" * (text.count(b"\n") - new.count(b"\n")) + new

    def _unread(self, data: bytes) -> bytes:
        """Return what is meant to be JSON and is none: without secrets, or nothing of it if its escapes hide one."""
        seen = self._plain(data)
        return HIDDEN.encode() + b"\n" * data.endswith(b"\n") if _tells(seen) else seen

    def _plain(self, data: bytes) -> bytes:
        text = data.decode("utf-8", "surrogateescape")
        if (seen := redact(text)) is text:
            return data
        self.has_met = True
        return seen.encode("utf-8", "surrogateescape")


def _some(file: BinaryIO, left: int) -> Iterator[bytes]:
    """Yield so many bytes, line by line; of a line that is too long to be read only its end."""
    is_over = False
    while left > 0 and (piece := file.readline(min(left, LONGEST + 1))):
        left -= len(piece)
        is_over = is_over or len(piece) > LONGEST
        if not is_over:
            yield piece
        elif piece.endswith(b"\n"):
            is_over = False
            yield b"\n"


def _stretches(run: bytes) -> Iterator[tuple[bytes, list[Any]]]:
    """Yield pieces of lines that make up the whole, each with the records that begin in it."""
    cursor, at, found = jsonl.Cursor(), 0, list[Any]()
    for _, value in jsonl.records(io.BytesIO(run), Path(), cursor, Tally()):
        if cursor.offset > at:
            yield run[at : cursor.offset], found
            at, found = cursor.offset, []
        found.append(value)
    yield run[at:], found


def _parted(run: bytes) -> tuple[bytes, bytes]:
    """Return lines that a reader is done with, whatever comes behind them, and those that it holds; or all as held."""
    cursor = jsonl.Cursor()
    deque(jsonl.records(io.BytesIO(run), Path(), cursor, Tally()), maxlen=0)
    at = cursor.offset
    is_apart = 0 < at < len(run) and (len(run) > LARGEST or _is_sound(run, at))
    return (run[:at], run[at:]) if is_apart else (b"", run)


def _is_sound(data: bytes, at: int) -> bool:
    """Tell whether a text may be cut: what is found in the whole is what is found in its parts."""
    whole, before, after = (each.decode("utf-8", "surrogateescape") for each in (data, data[:at], data[at:]))
    return redact(whole) == redact(before) + redact(after)


def _tells(data: bytes) -> bool:
    """Tell whether a text tells a secret, as it stands or with its escapes resolved."""
    text = data.decode("utf-8", "surrogateescape")
    plain = _ESCAPE.sub(_resolved, text) if "\\" in text else text
    return redact(text) is not text or (plain is not text and redact(plain) is not plain)


def _resolved(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16)) if escape[1] else _NAMED.get(escape[2], escape[2])


def _decoded(text: str, decoders: tuple[json.JSONDecoder, json.JSONDecoder]) -> tuple[Any, bool]:
    """Return the value that a text is, and whether a name stands twice in it."""
    try:
        return bounded(decoders[0].decode(text), text), False
    except _Twice:
        return bounded(decoders[1].decode(text), text), True


def _dumped(value: Any, indent: int | None = None) -> bytes:
    separators = (",", ": " if indent else ":")
    told = json.dumps(value, separators=separators, ensure_ascii=False, indent=indent)
    return told.encode("utf-8", "backslashreplace")
