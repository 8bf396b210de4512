"""One walk over the whole history that recomputes everything it claims.

Found are edited, deleted, reordered, inserted and swapped rows of every canonical table: payloads by their digest,
events by their id, places and lines by laying them anew, operations by the chain, refs by replaying their moves. What
a walk alone cannot find, a cut tail or a history rewritten as a whole, an anchor kept elsewhere shows.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

from bede.errors import Corrupt
from bede.identity import SALT, ZERO, digest, event_id, operation_hash
from bede.records import Finding, Verdict
from bede.repository.journal import PURGING
from bede.repository.log import DEFLATED, unpack
from bede.repository.refs import written
from bede.repository.schema import declare

_LIMIT = 100
_DEFLATED = frozenset(mark[0] for mark in DEFLATED)
#: A wider gap in the numbers of arrival ends the walk over events: one edited number must not cost a day.
_WIDEST = 1000
#: What `bede reindex` lays anew from events and operations.
_LAID = frozenset({"stretch", "ref", "indexed", "projection"})
#: What is raised on the way by a row whose values make no sense.
_SENSELESS = (TypeError, ValueError, LookupError, AttributeError, RecursionError, Corrupt)


def is_laid_anew(findings: Sequence[Finding]) -> bool:
    """Tell whether `bede reindex` mends all that was found: what it lays anew is wrong, and nothing of the history."""
    return all(finding.table in _LAID for finding in findings)


def verify(connection: sqlite3.Connection, anchor: tuple[int, str] | None = None) -> Verdict:
    """Recompute the whole history and return what does not hold; never raises for what it finds.

    `anchor` is the number and hex hash of an operation that the history must contain.
    """
    try:
        return _verify(connection, anchor)
    except sqlite3.OperationalError as error:
        if "decode" not in str(error):
            raise
    plain, connection.text_factory = connection.text_factory, _decode
    try:
        return _verify(connection, anchor)
    finally:
        connection.text_factory = plain


def _unreadable(error: Exception) -> str:
    """Return what is said of a row at which the walk stumbled; what stumbled is no reader's business."""
    return error.message if isinstance(error, Corrupt) else "its values are none that are ever written"


def _decode(text: bytes) -> str:
    """Read text that is no UTF-8 so that its row can be named; a hash over it never holds."""
    return text.decode("utf-8", "surrogateescape")


def _verify(connection: sqlite3.Connection, anchor: tuple[int, str] | None) -> Verdict:
    walk = _Walk(connection, anchor[0] if anchor else 0)
    for check in (walk.events, walk.lines, walk.operations, walk.refs, walk.project, walk.strays, walk.reaches):
        check()
    if anchor:
        walk.anchored(*anchor)
    return Verdict(
        events=len(walk.ids) - 1,
        operations=walk.count,
        refs=len(walk.tips),
        purged=len(walk.purged),
        head=walk.head,
        findings=tuple(walk.findings[:_LIMIT]),
    )


class _Walk:
    """The state of one verification; each step trusts only what the steps before recomputed."""

    def __init__(self, connection: sqlite3.Connection, anchor: int) -> None:
        self.connection, self.anchor = connection, anchor
        #: After which operation the refs were written down, and where they were then.
        self.written = written(connection)
        self.laid: dict[str, int] = {}
        self.findings: list[Finding] = []
        #: Hex ids by arrival number; the first stands for none.
        self.ids: list[str] = ["-"]
        self.places: list[tuple[int, int]] = [(0, 0)]
        self.origins: dict[int, tuple[int | None, ...]] = {}
        self.stretches: dict[int, tuple[int, int]] = {}
        self.tips: dict[str, int] = {}
        self.missing: set[int] = set()
        self.purged: set[int] = set()
        #: The hash of the operation that is to be held against an anchor.
        self.witness: str | None = None
        self.head = ZERO
        self.count = 0
        self.arrived = 0
        #: What a copy of a project says of its own secret, where it was not given the project's.
        self.own: dict[str, Any] = {}

    def hold(self, table: str, row: Any, problem: str) -> None:
        """Write down one finding."""
        if len(self.findings) < _LIMIT:
            self.findings.append(Finding(table, row if isinstance(row, int) else 0, problem))

    def events(self) -> None:
        """Recompute every payload digest, event id and place, in order of arrival."""
        rows = self.connection.execute(
            "SELECT seq, id, kind, parent, merged, actor, source, happened_at, digest, line, position, salt, body "
            "FROM event ORDER BY seq"
        )
        ends: dict[int, int] = {}
        while (row := self._plain(rows, ends)) is not None:
            if row[0] > len(self.ids) + _WIDEST:
                self.hold("event", row[0], "a wide gap in the numbers of arrival lies before it")
                return
            try:
                self._event(row, ends)
            except _SENSELESS as error:
                self.hold("event", row[0], _unreadable(error))
                self.ids.append("?")
                self.places.append((0, 0))

    def _plain(self, rows: Iterator[tuple[Any, ...]], ends: dict[int, int]) -> tuple[Any, ...] | None:
        """Take in rows of the common sort, that continue their parent's line, up to the first that is not or is wrong.

        Written for speed, since a history is almost nothing else; what it returns has to go the long way.
        """
        ids, places = self.ids, self.places
        newest, before, (on, at) = len(ids) - 1, ids[-1], places[-1]
        row: tuple[Any, ...]
        for row in rows:
            seq, identity, kind, parent, merged, actor, source, moment, left, line, position, salt, body = row
            try:
                if merged is not None or left is not None or seq != newest + 1 or len(salt) != SALT or "\n" in kind:
                    return row
                if parent != newest:
                    if type(parent) is not int or not 0 < parent < seq:
                        return row
                    before, (on, at) = ids[parent], places[parent]
                if line != on or position != at + 1 or ends[line] != at:
                    return row
                payload = sha256(salt + (unpack(body) if body[0] in _DEFLATED else body)).hexdigest()
                form = (
                    f"bede event 1\nkind {kind}\nparent {before}\nactor {actor}\nsource {source}\n"
                    f"happened {moment}\npayload {payload}\n"
                )
                if sha256(form.encode()).digest() != identity:
                    return row
            except _SENSELESS:
                return row
            if parent != newest:
                self.stretches[seq] = (line, position)
            newest, before, on, at = seq, identity.hex(), line, position
            ids.append(before)
            places.append((line, position))
            ends[line] = position
        return None

    def _event(self, row: tuple[Any, ...], ends: dict[int, int]) -> None:
        (
            seq,
            identity,
            kind,
            parent,
            merged,
            actor,
            source,
            happened_at,
            payload,
            line,
            position,
            salt,
            body,
        ) = row
        while len(self.ids) < seq:
            self.hold("event", len(self.ids), "missing: the numbers of arrival have a gap")
            self.ids.append("?")
            self.places.append((0, 0))
        payload = self._payload(seq, payload, salt, body)
        if "\n" in kind + actor + source:
            self.hold("event", seq, "a field holds a line feed, so that the id proves nothing")
        parents = [item for item in (parent, merged) if item is not None]
        if any(not 0 < item < seq for item in parents) or (parent is None and merged is not None):
            self.hold("event", seq, "its parents are not events before it")
            parents = []
        if event_id(kind, [self.ids[item] for item in parents], actor, source, happened_at, payload) != identity:
            self.hold("event", seq, "the id is not the hash of its fields and its payload")
        if parents != [seq - 1] or self.places[-1] != (line, position - 1):
            self.stretches[seq] = (line, position)
        self.ids.append(identity.hex())
        self.places.append((line, position))
        if (line, position) != self._place(parents, ends):
            self.hold("event", seq, "it does not lie where its parents put it")
        ends[line] = max(position, ends.get(line, 0))

    def _payload(self, seq: int, payload: bytes | None, salt: bytes | None, body: bytes | None) -> bytes:
        """Return the digest of a payload; where it was purged that is what is left of it."""
        if body is None and salt is None:
            self.missing.add(seq)
            return payload or b""
        if body is None or salt is None or len(salt) != SALT:
            self.hold("event", seq, "half of the payload is missing, so that the id proves nothing")
            return payload or b""
        found = digest(salt, self._unpacked(seq, body))
        # The formats before the third kept the digest beside the payload.
        if payload not in (None, found):
            self.hold("event", seq, "the digest is not that of its payload")
        return found

    def _unpacked(self, seq: int, body: bytes) -> bytes:
        """Return a body as it was written; where it cannot be unpacked, nothing that any digest fits."""
        try:
            return unpack(body)
        except Corrupt:
            self.hold("event", seq, "the body cannot be unpacked")
            return b""

    def _place(self, parents: list[int], ends: dict[int, int]) -> tuple[int, int]:
        """Lay an event as an append does, and remember where a new line left."""
        if len(parents) == 1:
            line, position = self.places[parents[0]]
            if ends.get(line) == position:
                return line, position + 1
        opened = len(self.origins) + 1
        origin = self.places[parents[0]] if parents else (None, None)
        second = self.places[parents[1]] if len(parents) > 1 else (None, None)
        self.origins[opened] = (*origin, *second)
        return opened, 1

    def lines(self) -> None:
        """Compare the lines, and the stretches they consist of, with those that the events lay."""
        stored = {
            row[0]: tuple(row[1:])
            for row in self.connection.execute("SELECT line, parent, at, merged, merged_at FROM line")
        }
        for line in stored.keys() | self.origins.keys():
            if stored.get(line) != self.origins.get(line):
                self.hold("line", line, "it is not where its first event puts it")
        laid = {row[0]: row[1:] for row in self.connection.execute("SELECT seq, line, position FROM stretch")}
        for seq in laid.keys() | self.stretches.keys():
            if laid.get(seq) != self.stretches.get(seq):
                self.hold("stretch", seq, "it is not where the events of its line are")

    def operations(self) -> None:
        """Recompute the chain, and replay every move of a ref on the way."""
        rows = self.connection.execute(
            "SELECT number, verb, actor, at, note, moves, last, hash FROM operation ORDER BY number"
        )
        arrived = 0
        while (row := self._appends(rows, arrived)) is not None:
            arrived = self.arrived
            self.count += 1
            try:
                arrived = self._operation(row, arrived)
            except _SENSELESS as error:
                self.hold("operation", row[0], _unreadable(error))
        if self.arrived != len(self.ids) - 1:
            self.hold("operation", self.count, "events arrived that no operation appended")

    def _appends(self, rows: Iterator[tuple[Any, ...]], arrived: int) -> tuple[Any, ...] | None:
        """Take in operations of the common sort, one event appended to one ref, up to the first other or wrong one.

        Written for speed as `_plain` is.
        """
        ids, tips, head, count = self.ids, self.tips, self.head, self.count
        stops = {self.anchor, self.written}
        found: tuple[Any, ...] | None = None
        for row in rows:
            number, verb, actor, at, note, moves, last, stored = row
            try:
                ref, _, rest = moves.partition(" ")
                tip = tips.get(ref, 0)
                if last != arrived + 1 or number != count + 1 or rest != f"{tip} {last}\n" or verb in PURGING:
                    found = row
                    break
                new = ids[last]
                form = (
                    f"bede operation 1\nbefore {head}\nnumber {number}\nverb {verb}\nactor {actor}\nat {at}\n"
                    f"note {note}\n{ref} {ids[tip]} {new}\nevent {new}\n"
                )
                if "\n" in note or sha256(form.encode()).digest() != stored:
                    found = row
                    break
            except _SENSELESS:
                found = row
                break
            tips[ref] = arrived = last
            count, head = number, stored.hex()
            if number in stops:
                self.head = head
                self._look(number)
        self.head, self.count, self.arrived = head, count, arrived
        return found

    def _operation(self, row: tuple[Any, ...], arrived: int) -> int:
        number, verb, actor, at, note, moves, last, stored = row
        if number != self.count:
            self.hold("operation", number, "the numbers have a gap")
            self.count = number
        if "\n" in verb + actor + note or moves[-1:] not in ("", "\n"):
            self.hold("operation", number, "a line feed is added or missing, so that the hash proves nothing")
        spelled = "".join(self._replay(number, text) for text in moves.split("\n")[:-1])
        if not arrived <= last < len(self.ids):
            self.hold("operation", number, "it names events that are not there")
            last = arrived
        value = operation_hash(
            self.head, number, verb, actor, at, note, spelled, self.ids[arrived + 1 : last + 1]
        ).hex()
        if value != stored.hex():
            self.hold("operation", number, "the hash does not follow from the row and the one before")
        self.head = stored.hex()
        self._look(number)
        if verb in PURGING and note:
            told = json.loads(note)
            self.purged.update(seq for seq in told.get("seqs", ()) if type(seq) is int)
            if number == 1 and "own" in told:
                self.own = {"secret_digest": told["own"]["secret_digest"]}
        return int(last)

    def _replay(self, number: int, text: str) -> str:
        ref, old, new = text.split(" ")
        if self.tips.get(ref, 0) != int(old):
            self.hold("operation", number, f"{ref} was not where the move starts")
        if text != f"{ref} {int(old)} {int(new)}" or int(new) < 0:
            self.hold("operation", number, f"the move of {ref} is not spelt as it was written")
        self.tips[ref] = int(new)
        if not int(new):
            del self.tips[ref]
        return f"{ref} {self._named(number, ref, int(old))} {self._named(number, ref, int(new))}\n"

    def _named(self, number: int, ref: str, seq: int) -> str:
        """Return the id of an event that an operation moves a ref from or to."""
        if 0 <= seq < len(self.ids):
            return self.ids[seq]
        self.hold("operation", number, f"it moves {ref} from or to event {seq}, which is not there")
        return "?"

    def _look(self, number: int) -> None:
        """Remember of an operation what is held against something else later on."""
        if number == self.anchor:
            self.witness = self.head
        if number == self.written:
            self.laid = dict(self.tips)

    def refs(self) -> None:
        """Compare the refs with where the journal had left them when they were written down."""
        if not 0 <= self.written <= self.count:
            self.hold("indexed", self.written, "the refs were written down after an operation that is not there")
        if not self.written:  # Then nobody reads them.
            return
        stored = dict(self.connection.execute("SELECT name, seq FROM ref"))
        for name in stored.keys() | self.laid.keys():
            if stored.get(name) != self.laid.get(name):
                self.hold("ref", stored.get(name, 0), f"{name} is not where the journal left it")

    def project(self) -> None:
        """Compare the project's identity with what its first event says."""
        rows = self.connection.execute(
            "SELECT uuid, secret, created_at, min_reader_version, min_writer_version, upgrade_hint FROM project"
        ).fetchall()
        if len(rows) != 1:
            self.hold("project", len(rows), "there must be exactly one row")
            return
        first = self.connection.execute("SELECT body FROM event WHERE seq = 1").fetchone()
        (version,) = self.connection.execute("PRAGMA user_version").fetchone()
        try:
            said, found = json.loads(unpack(first[0])) | self.own, declare(version, *rows[0])
            # A newer format may have raised the compatibility numbers; who the project is never changes.
            names = found if said["format"] == version else ("project_id", "secret_digest", "created_at")
            same = all(found[name] == said[name] for name in names)
        except _SENSELESS:
            same = False
        if not same:
            self.hold("project", 1, "the identity is not what the first event says")

    def strays(self) -> None:
        """Find payloads that are gone without a purge, and such as are there again."""
        for seq in sorted(self.missing - self.purged):
            self.hold("event", seq, "the payload is missing, and no purge tells of it")
        for seq in sorted(self.purged - self.missing):
            self.hold("event", seq, "the payload is there again, though it was purged")

    def reaches(self) -> None:
        """Find what is derived and says that it has followed more than there is; the rest of it is `doctor`'s."""
        last = len(self.ids) - 1
        rows = self.connection.execute("SELECT name, seq FROM projection WHERE seq NOT BETWEEN 0 AND ?", (last,))
        for name, seq in rows:
            self.hold("projection", seq, f"{name} says that it has followed {seq} events, and there are {last}")

    def anchored(self, number: int, value: str) -> None:
        """Hold the history against an operation that was written down elsewhere."""
        if self.witness is None:
            self.hold("operation", number, "the anchored operation is gone: the history was cut or replaced")
        elif self.witness != value:
            self.hold("operation", number, "the anchored hash differs: the history was rewritten")
