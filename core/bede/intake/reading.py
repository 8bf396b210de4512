"""One transcript, read from where one stopped: items without secrets, folded into turns, as what is to be written.

Nothing here knows the database. The same bytes give the same turns, however they were cut on the way. A secret is taken
out of an item before anything else happens to it, so that no state and no cursor ever holds one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from bede.errors import BadSource
from bede.intake import files
from bede.intake.cleaning import cleaned, scrubbed
from bede.quick import dataclass, field
from bede.sources import jsonl
from bede.sources.port import Document, Item, Rewind, Session, Source, Stream, Tally
from bede.sources.turns import Turn, Turns

#: What only the fold needs, of a part and of a turn.
_INNER = ("key", "done")
#: When a turn without a time was said at the earliest: beside the turn while it is open, never in its event.
_AFTER = "after"
#: What a record may break in a format that is not prepared for it; it costs the record, never the file.
FAULTS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Told:
    """Something to be written: of which session, what sort of event, and its body.

    `at` is when, as far as that is known, `place` names the record that tells it where its body does not, and `cwd` is
    the folder that a session tells, as it was written.
    """

    session: str
    kind: str
    body: dict[str, Any]
    at: int = 0
    place: str = ""
    cwd: str = ""


@dataclass(slots=True)
class Reader:
    """The reading of one file; `state` and `cursor` are where it stands, behind what was yielded last.

    `secret` is the project's own. With `only`, a database's sessions of these ids are read.
    """

    source: Source
    path: Path
    tally: Tally
    secret: bytes
    keeps_thoughts: bool = False
    only: Collection[str] | None = None
    cursor: jsonl.Cursor = field(default_factory=jsonl.Cursor)
    state: dict[str, Any] = field(default_factory=dict)
    folds: dict[str, Turns] = field(default_factory=dict)
    latest: dict[str, int] = field(default_factory=dict)
    _file: BinaryIO | None = None
    _mark: files.Mark = field(default_factory=dict)
    _gone: dict[str, set[str]] = field(default_factory=dict)
    #: How the file is read: whole where it is one document, also if its agent's later files are streams.
    form: Literal["stream", "document"] = field(init=False)

    def __post_init__(self) -> None:
        """Find out how the file is read."""
        self.form = form(self.source, self.path)

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a state that `dump` returned."""
        self.state = state.get("source", {})
        self.folds = {name: Turns(fold) for name, fold in state.get("turns", {}).items()}
        self.latest = state.get("latest", {})

    def dump(self) -> dict[str, Any]:
        """Return all that has to be known to go on, as JSON; nothing for a file that is always read whole."""
        if self.form == "document":
            return {}
        turns = {name: fold.state for name, fold in self.folds.items()}
        return {"source": scrubbed(self.state), "turns": turns, "latest": self.latest}

    def mark(self) -> files.Mark:
        """Return how far the file is read, and what stands there; nothing for a file that is always read whole."""
        if self._file is not None:
            at = self._file.tell()
            self._mark = files.remember(self._file, self.cursor)
            self._file.seek(at)
        return self._mark

    def told(self) -> Iterator[list[Told]]:
        """Yield what each line, and at last the end of the file as it is now, has to tell.

        Raises:
            OSError, BadSource, Unavailable: it cannot be read on.
        """
        if self.form == "stream":
            yield from self._stream(cast(Stream, self.source))
        else:
            yield from self._document(cast(Document, self.source))
        yield [told for name in self.folds for told in self._so_far(name)]

    def _stream(self, source: Stream) -> Iterator[list[Told]]:
        """Yield what a line told once the cursor is behind it, so that state and cursor always say the same."""
        path, told = files.plain(self.path), list[Told]()
        with files.opened(self.path) as file:
            self._file, at = file, self.cursor.offset
            for spot, record in jsonl.records(file, path, self.cursor, self.tally):
                if self.cursor.offset != at:
                    if told:
                        yield told
                        told = []
                    at = self.cursor.offset
                try:
                    items = source.take(record, spot, self.state, self.tally)
                    items = items if isinstance(items, list) else list(items)
                except FAULTS as error:
                    self.tally.bad(f"fault: {type(error).__name__}")
                    continue
                for item in items:
                    told += self._tell(item)
            self.mark()
            self._file = None
        yield told

    def _document(self, source: Document) -> Iterator[list[Told]]:
        with files.together(self.path) as path:
            try:
                for item in self._items(source, path):
                    yield self._tell(item)
            except FAULTS as error:
                raise BadSource(f"cannot read {self.path}: {type(error).__name__}: {error}", reason="format") from error
        yield [
            Told(session, "rewind", {"keys": sorted(keys), "whole": True}, self.latest.get(session, 0))
            for session, keys in self._gone.items()
        ]

    def _items(self, source: Document, path: Path) -> Iterator[Item]:
        if self.source.FORM == "stream":  # What its agent wrote before it wrote lines.
            return source.whole(path, self.tally)  # type: ignore[attr-defined, no-any-return]
        if self.only is not None:
            return source.load(path, self.tally, only=self.only)  # type: ignore[call-arg]
        return source.load(path, self.tally)

    def _tell(self, item: Item) -> list[Told]:
        seen, item = item.what, cleaned(item, self.keeps_thoughts, self.secret)
        what, session = item.what, item.session
        if item.at is not None:
            self.latest[session] = item.at
        at = self.latest.get(session, 0)
        if self.form == "document":
            self._gone.setdefault(session, set())
        if isinstance(what, Session):
            cwd = seen.cwd if isinstance(seen, Session) else ""
            body = {name: value for name, value in what.to_json().items() if name != "agent" and value}
            return [*self._so_far(session), Told(session, "session", body, at, str(item.line), cwd)]
        if not isinstance(what, Rewind):
            return self._fold(item, at)
        if self.form == "document":
            self._gone[session].update(what.keys)
            return []
        return [*self._so_far(session), Told(session, "rewind", {"keys": sorted(what.keys), "whole": False}, at)]

    def _so_far(self, session: str) -> list[Told]:
        """Return the turn that is open before something else is told: it stands there however the file was cut."""
        fold = self.folds.get(session)
        turn = fold.open() if fold is not None else None
        return self._written(session, [turn] if turn else [])

    def _fold(self, item: Item, at: int) -> list[Told]:
        fold = self.folds.get(item.session)
        if fold is None:
            fold = self.folds[item.session] = Turns()
        done = fold.take(item)
        if (turn := fold.open()) is not None and "at" not in turn:
            turn.setdefault(_AFTER, at)
        return self._written(item.session, done) if done else []

    def _written(self, session: str, turns: Iterable[Turn]) -> list[Told]:
        """Return turns without what only the fold needs; none of which nothing is left."""
        found = []
        for turn in turns:
            parts = [
                {name: value for name, value in part.items() if name not in _INNER}
                for part in turn["parts"]
                if self.keeps_thoughts or "thought" not in part
            ]
            if parts:
                body: Turn = {**turn, "parts": parts}
                after: int = body.pop(_AFTER, 0)
                if turn.get("origin") == turn["key"]:
                    body["origin"] = "="
                if "usage" in turn:
                    body["usage"] = {_short(key): tokens for key, tokens in turn["usage"].items()}
                found.append(Told(session, "turn", body, body.get("at", after)))
        return found


def form(source: Source, path: Path) -> Literal["stream", "document"]:
    """Return how a file is read: as lines that only grow, or whole."""
    return "document" if hasattr(source, "whole") and files.plain(path).suffix == ".json" else source.FORM


def _short(key: str) -> str:
    """Return what tells the requests of a session apart."""
    return hashlib.sha256(key.encode()).hexdigest()[:8]
