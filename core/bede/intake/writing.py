"""What a transcript told, into the log: each turn once, however often it is read, and the cursor with it.

A turn is named by a key that is made of agent, session, its own key and a digest of its content, and salted by that and
the project's secret: the same turn is the same event on every machine. What a file repeats is counted, not written;
what it no longer holds stays.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from binascii import b2a_base64
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bede.identity import SALT, canonical
from bede.intake.reading import Told
from bede.projections import copies, sessions
from bede.quick import dataclass, field, replace
from bede.records import Draft
from bede.repository import Reading, Repository, Writing, log
from bede.repository.cursors import Cursor, put
from bede.sources.turns import muted

#: What makes of base 64 what `base64` calls safe for URLs; to load that room for it costs every run.
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}(?:/[A-Za-z0-9][A-Za-z0-9._-]{0,99})*")


def ref_of(agent: str, session: str) -> str:
    """Return the ref of a session: `sessions/AGENT/ID`, the id by its hash where no ref could hold it."""
    plain = _NAME.fullmatch(session) and ".." not in session
    return (
        f"sessions/{agent}/{session if plain else hashlib.sha256(session.encode('utf-8', 'replace')).hexdigest()[:32]}"
    )


@dataclass(slots=True)
class Writer:
    """The writing of one file's turns into one project."""

    repository: Repository
    agent: str
    path: Path
    now: int
    is_again: bool  # the file is read from its beginning, though parts of it may be known under other keys
    is_document: bool = False
    keeps_thoughts: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    _said: dict[int, Counter[bytes]] = field(default_factory=dict)
    _foreseen: set[tuple[str, str]] = field(default_factory=set)
    _numbers: dict[str, int] = field(default_factory=dict)
    _copied: dict[str, Counter[bytes]] = field(default_factory=dict)
    #: Of the turns that are being written: the events that tell them already, and the origins that others have.
    _events: dict[str, int] = field(default_factory=dict)
    _elsewhere: set[str] = field(default_factory=set)
    #: Turns that were met and say nothing any more, by session: no cursor holds their words either.
    _purged: dict[str, set[str]] = field(default_factory=dict)

    def write(self, told: Sequence[Told], cursor: Cursor | None) -> None:
        """Write what was told, and how far the file is read then, in one transaction.

        Raises:
            Busy, Unavailable, Corrupt, TooNew: the store does not take it.
        """
        note: dict[str, Any] = {}
        with self.repository.write("ingest", self.agent, self.now, note) as writing:
            secret = writing.secret()
            for session, items in _by_session(told, self.keeps_thoughts).items():
                self._session(writing, secret, session, items)
            if cursor is not None:
                put(writing.connection, self.path, self._muted(cursor))

    def _muted(self, cursor: Cursor) -> Cursor:
        """Return a cursor without the words of turns that were purged."""
        folds = cursor.state.get("turns", {})
        meant = {name: muted(folds[name], keys) for name, keys in self._purged.items() if name in folds}
        return replace(cursor, state={**cursor.state, "turns": {**folds, **meant}}) if meant else cursor

    def foresee(self, reading: Reading, told: Sequence[Told]) -> None:
        """Count what writing this would do, and do nothing."""
        for session, items in _by_session(told, self.keeps_thoughts).items():
            self._ask(reading, session, items)
            for item in items:
                if item.kind == "turn" and (item.session, item.body["key"]) not in self._foreseen:
                    self._foreseen.add((item.session, item.body["key"]))
                    self._draft(reading, item)

    def _session(self, writing: Writing, secret: bytes, session: str, items: Sequence[Told]) -> None:
        """Write what was told of a session, each thing upon what was told before it."""
        ref, drafts = ref_of(self.agent, session), list[Draft]()
        self._ask(writing, session, items)
        for item in items:
            if item.kind != "turn":  # What it means depends on what is written already.
                writing.append(ref, drafts)
                drafts = []
            draft = self._draft(writing, item)
            if draft is not None:
                drafts.append(_salted(secret, draft))
            if item.kind == "session":  # What turns mean depends on it.
                writing.append(ref, drafts)
                drafts = []
        writing.append(ref, drafts)

    def _ask(self, reading: Reading, session: str, items: Sequence[Told]) -> None:
        """Find out for all turns of a session at once what is known of them: each of them is written once."""
        number, turns = self._number(reading, session), [item.body for item in items if item.kind == "turn"]
        origins = filter(None, map(sessions.origin_of, turns))
        self._events = copies.events(reading.connection, number, (turn["key"] for turn in turns))
        self._elsewhere = copies.elsewhere(reading.connection, number, origins)

    def _draft(self, reading: Reading, told: Told) -> Draft | None:
        body = {"session": told.session, **told.body}
        number = self._number(reading, told.session)
        if told.kind == "session":
            return self._told(reading, told, body, number)
        if told.kind == "rewind":
            return self._rewind(reading, told, body, number)
        seq = self._events.get(body["key"], 0)
        if self._is_replayed(reading, number, told.session, body, is_told=bool(seq)):
            self.counts["replayed"] += 1
            return None
        return self._turn(reading, told, body, number, seq)

    def _number(self, reading: Reading, session: str) -> int:
        """Return the number of a session, 0 while it has none; numbers stay, so they are looked up once."""
        found = self._numbers.get(session) or sessions.find(reading.connection, self.agent, session) or 0
        if found:
            self._numbers[session] = found
        return found

    def _told(self, reading: Reading, told: Told, body: dict[str, Any], session: int) -> Draft | None:
        """Return what a session tells of itself; where its file has no places, only what is not known."""
        if not self.is_document:
            return self._new(reading, told, body, f"session {told.place}")
        known = copies.known(reading.connection, session)
        if all(known.get(field) == value for field, value in told.body.items() if field in sessions.FIELDS):
            return None
        return self._new(reading, told, body, self._next("session", reading, told.session))

    def _next(self, kind: str, reading: Reading, session: str) -> str:
        """Return a key for what may become again what it was before."""
        tip = reading.find(ref_of(self.agent, session)) if isinstance(reading, Writing) else None
        return f"{kind} {tip.id if tip else ''}"

    def _turn(self, reading: Reading, told: Told, body: dict[str, Any], session: int, seq: int) -> Draft | None:
        old = log.load(reading.connection, [seq])[seq].body if seq else None
        if seq and old is None:
            self._purged.setdefault(told.session, set()).add(body["key"])
        if self.is_again:
            self._load(reading, session)
        if old is not None:
            _take(self._said.get(session), sessions.digest_of(old))
            body = _merged(body, old)
        draft = self._new(reading, told, body, body["key"], is_unknown=not seq)
        if draft is None or (seq and not self._is_more(old, body)):
            self.counts["repeated"] += 1
            return None
        said = self._said.get(session) if self.is_again else None
        if seq == 0 and said and _take(said, sessions.digest_of(body)):
            self.counts["repeated"] += 1
            return None
        self.counts["revised" if seq else "new"] += 1
        return draft

    def _new(
        self, reading: Reading, told: Told, body: dict[str, Any], key: str, *, is_unknown: bool = False
    ) -> Draft | None:
        """Return the draft of what is told, its salt still to come; None where the log has it already."""
        form = canonical(body)
        digest = hashlib.sha256(form).hexdigest()
        named = canonical([self.agent, told.session, told.kind, key, digest])
        short = b2a_base64(hashlib.sha256(named).digest()[:15], newline=False)
        source = short.translate(_URL_SAFE).decode()
        if not is_unknown and log.by_source(reading.connection, source):
            return None
        return Draft(told.kind, body, self.agent, told.at, source, form=form)

    def _rewind(self, reading: Reading, told: Told, body: dict[str, Any], session: int) -> Draft | None:
        there = [key for key in body["keys"] if sessions.event_of(reading.connection, session, key)]
        keys, known = {sessions.short(key) for key in there}, sessions.rewound(reading.connection, session)
        if keys == known or (keys <= known and not body["whole"]):
            return None
        key = self._next("rewind", reading, told.session) if body["whole"] else "rewind"
        return self._new(reading, told, body, key)

    def _is_replayed(
        self, reading: Reading, session: int, name: str, body: dict[str, Any], *, is_told: bool
    ) -> bool:
        """Tell whether another session has this turn: after a fork, a resumption, a hand-over."""
        connection = reading.connection
        if sessions.origin_of(body) in self._elsewhere:
            return True
        if body.get("replayed"):
            parent = sessions.parent_of(connection, session) if session else ""
            return bool(parent) and sessions.find(connection, self.agent, parent) is not None
        if is_told:
            return False
        if name not in self._copied:
            self._copied[name] = copies.copied(connection, self.agent, name)
        return bool(self._copied[name]) and _take(self._copied[name], copies.words_of(body))

    def _is_more(self, old: dict[str, Any] | None, body: dict[str, Any]) -> bool:
        """Tell whether a turn says something that its event does not; one that was purged stays so."""
        return old is not None and _says_more(body, old, self.keeps_thoughts)

    def _load(self, reading: Reading, session: int) -> None:
        """Learn what the session said before this file was read again."""
        if session not in self._said:
            self._said[session] = sessions.said(reading.connection, session) if session else Counter()


def _salted(secret: bytes, draft: Draft) -> Draft:
    """Return a draft with the salt that it has on every machine."""
    salt = hmac.digest(secret, draft.source.encode(), "sha256")[:SALT]
    return Draft(draft.kind, draft.body, draft.actor, draft.happened_at, draft.source, salt, draft.form)


def _take(counted: Counter[bytes] | None, digest: bytes) -> bool:
    """Take one from what was counted; tell whether there was one."""
    if not counted or counted[digest] <= 0:
        return False
    counted[digest] -= 1
    return True


def _says_more(new: dict[str, Any], old: dict[str, Any], with_thoughts: bool) -> bool:
    """Tell whether a turn as it is told now says something that it did not before."""
    mine, parts = new["parts"], old["parts"]
    if not with_thoughts:  # Those that were kept before stay.
        parts = [part for part in parts if "thought" not in part]
    return len(mine) > len(parts) or not (
        all(_is_within(one, other) for one, other in zip(mine, parts, strict=False))
        and _is_within(new.get("usage", {}), old.get("usage", {}), most=True)
        and new.get("until", 0) <= old.get("until", 0)
    )


def _merged(new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """Return a turn as it is told now, with the time that it had when it was told first."""
    if "at" not in old:
        return new
    first = old if old["at"] <= new.get("at", old["at"]) else new
    times = {"at": first["at"], "until": max(old.get("until", 0), new.get("until", 0))}
    return {**new, **times, "precision": first.get("precision", "")}


def _is_within(one: Any, other: Any, *, most: bool = False) -> bool:
    """Tell whether all that one thing says, another says as well; with `most`, of numbers as much or more."""
    if isinstance(one, dict) and isinstance(other, dict):
        return all(name in other and _is_within(value, other[name], most=most) for name, value in one.items())
    return bool(one == other or (most and isinstance(one, int) and isinstance(other, int) and one < other))


def _by_session(told: Sequence[Told], with_thoughts: bool) -> dict[str, list[Told]]:
    """Sort what was told by session, of each turn only what was told of it last, where it was told first."""
    found: dict[str, dict[tuple[str, str], Told]] = {}
    for number, item in enumerate(told):
        session = found.setdefault(item.session, {})
        name = (item.kind, item.body["key"] if item.kind == "turn" else str(number))
        if name not in session:
            session[name] = item
        elif _says_more(item.body, session[name].body, with_thoughts):
            body = _merged(item.body, session[name].body)
            session[name] = replace(item, body=body, at=body.get("at", item.at))
    return {session: list(items.values()) for session, items in found.items()}
