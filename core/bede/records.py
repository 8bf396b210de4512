"""The records that travel between rooms: events, drafts, refs, operations, and the base of every result.

All are frozen. Times are microseconds since 1970 (UTC) inside, RFC 3339 in JSON; ids are 64 hex digits. A record
that leaves through a face knows its schema name and becomes a plain JSON object by `to_json`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from bede.quick import dataclass, field


class Record:
    """The base of results and their parts: a frozen dataclass that can write itself as JSON."""

    __slots__ = ()
    #: `verb/number` for a result; empty for a part of one.
    SCHEMA: ClassVar[str] = ""
    #: Where the command line writes it; `auto` leaves stdout to its child.
    STREAM: ClassVar[str] = "stdout"
    #: Whether empty values ("", None, an empty array) are left out of the JSON, to spare its reader's tokens.
    SPARSE: ClassVar[bool] = False

    @property
    def exits(self) -> int:
        """The exit status this result asks for; 1 where a question was answered no."""
        return 0

    @property
    def aside(self) -> bool:
        """Whether stdout belongs to somebody else in this very case."""
        return self.STREAM == "stderr"

    def to_json(self) -> dict[str, Any]:
        """Return a plain JSON object, its schema first."""
        body: dict[str, Any] = {"schema": self.SCHEMA} if self.SCHEMA else {}
        names: tuple[str, ...] = self.__slots__  # the fields, in the order of their declaration
        for name in names:
            value = getattr(self, name)
            if not (self.SPARSE and (value is None or value == "" or value == () or value == {})):
                body[name.rstrip("_")] = plain(value)
        return body


def plain(value: Any) -> Any:
    """Return a value as JSON types: records as objects, tuples as arrays."""
    if isinstance(value, Record):
        return value.to_json()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return value


@dataclass(frozen=True, slots=True)
class Draft:
    """An event not yet in the log: what its author decides. The rest is the log's."""

    kind: str
    body: dict[str, Any]
    actor: str
    happened_at: int
    source: str = ""
    salt: bytes = b""
    form: bytes = b""  # the body's canonical form, where its author had to make it


@dataclass(frozen=True, slots=True)
class Event:
    """An immutable fact in the log.

    `seq` is its order of arrival in this file (followers use it; it is no part of the id). `line` and `position` say
    where it lies, so that what a ref sees is a handful of spans. `body` is None once its payload was purged.
    """

    seq: int
    id: str
    kind: str
    parents: tuple[int, ...]
    actor: str
    source: str
    happened_at: int
    line: int
    position: int
    body: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Place:
    """Where an event lies: its arrival number, its line and its position on it."""

    seq: int
    id: str
    line: int
    position: int


@dataclass(frozen=True, slots=True)
class Move:
    """One ref going from one event to another; 0 stands for none."""

    ref: str
    old: int
    new: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One operation of the journal."""

    number: int
    verb: str
    actor: str
    at: int
    note: dict[str, Any]
    moves: tuple[Move, ...]
    last: int
    hash: str


#: What a ref can see: for each line, the last position that is visible.
Spans = dict[int, int]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing `verify` holds against the file."""

    table: str
    row: int
    problem: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a walk over the whole history found."""

    events: int
    operations: int
    refs: int
    purged: int
    head: str
    findings: tuple[Finding, ...] = field(default=())
