"""One transcript, read from where one stopped: items, folded into turns, without secrets, as what is to be written.

Nothing here knows the database. The same bytes give the same turns, however they were cut on the way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bede.intake import files
from bede.redact import redact
from bede.sources import jsonl
from bede.sources.port import Document, Item, Rewind, Session, Source, Stream, Tally
from bede.sources.turns import Turn, Turns


@dataclass(frozen=True, slots=True)
class Told:
    """Something to be written: of which session, what sort of event, and its body."""

    session: str
    kind: str
    body: dict[str, Any]


@dataclass(slots=True)
class Reader:
    """The reading of one file; `state` and `cursor` are where it stands, behind what was yielded last."""

    source: Source
    path: Path
    tally: Tally
    keeps_thoughts: bool = False
    cursor: jsonl.Cursor = field(default_factory=jsonl.Cursor)
    state: dict[str, Any] = field(default_factory=dict)
    folds: dict[str, Turns] = field(default_factory=dict)

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a state that `dump` returned."""
        self.state = state.get("source", {})
        self.folds = {name: Turns(fold) for name, fold in state.get("turns", {}).items()}

    def dump(self) -> dict[str, Any]:
        """Return all that has to be known to go on, as JSON; nothing for a file that is always read whole."""
        if self.source.FORM == "document":
            return {}
        return {"source": self.state, "turns": {name: fold.state for name, fold in self.folds.items()}}

    def told(self) -> Iterator[list[Told]]:
        """Yield what each record, and at last the end of the file as it is now, has to tell.

        Raises:
            OSError, BadSource, Unavailable: it cannot be read on.
        """
        if self.source.FORM == "stream":
            yield from self._stream(self.source)  # type: ignore[arg-type]
        else:
            yield from self._document(self.source)  # type: ignore[arg-type]
        turns = [(name, fold.open()) for name, fold in self.folds.items()]
        yield [told for name, turn in turns if turn for told in self._written(name, turn)]

    def _stream(self, source: Stream) -> Iterator[list[Told]]:
        with files.opened(self.path) as file:
            for spot, record in jsonl.records(file, self.path, self.cursor, self.tally):
                items = source.take(record, spot, self.state, self.tally)
                yield [told for item in items for told in self._tell(item)]

    def _document(self, source: Document) -> Iterator[list[Told]]:
        for item in source.load(self.path, self.tally):
            yield list(self._tell(item))

    def _tell(self, item: Item) -> Iterator[Told]:
        what = item.what
        if isinstance(what, Session):
            body = {name: _clean(value) for name, value in what.to_json().items() if name != "agent" and value}
            yield Told(item.session, "session", body)
        elif isinstance(what, Rewind):
            yield Told(item.session, "rewind", {"keys": sorted(what.keys), "whole": self.source.FORM == "document"})
        else:
            fold = self.folds.setdefault(item.session, Turns())
            for turn in fold.take(item):
                yield from self._written(item.session, turn)

    def _written(self, session: str, turn: Turn) -> Iterator[Told]:
        """Yield a turn without secrets, and without what only the fold needs; none where nothing is left of it."""
        parts = [_part(part) for part in turn["parts"] if self.keeps_thoughts or "thought" not in part]
        if parts:
            body: Turn = {**turn, "parts": parts}
            if turn.get("origin") == turn["key"]:
                body["origin"] = "="
            if "usage" in turn:
                body["usage"] = {_short(key): tokens for key, tokens in turn["usage"].items()}
            yield Told(session, "turn", body)


#: What an agent, a person or a program said, as against names and numbers.
_TEXTS = ("text", "thought", "target", "output")
_EDITS = ("path", "old", "new", "patch", "moved_to")
#: What only the fold needs.
_INNER = ("key", "done")


def _short(key: str) -> str:
    """Return what tells the requests of a session apart."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:8]


def _part(part: dict[str, Any]) -> dict[str, Any]:
    clean = {name: _clean(value) if name in _TEXTS else value for name, value in part.items() if name not in _INNER}
    for name in ("edits", "changed"):
        if name in part:
            clean[name] = [
                {key: _clean(value) if key in _EDITS else value for key, value in edit.items()} for edit in part[name]
            ]
    return clean


def _clean(text: Any) -> Any:
    """Return a text without secrets, and such as any encoding can store."""
    if not isinstance(text, str):
        return text
    return redact(text if text.isascii() else text.encode("utf-8", "replace").decode())
