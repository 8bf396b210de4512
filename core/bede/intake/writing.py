"""What a transcript told, into the log: each turn once, however often it is read, and the cursor with it.

A turn is named by a key that is made of agent, session, its own key and its content, under a salt from the project's
secret: the same turn is the same event on every machine. What a file repeats is counted, not written; what it no
longer holds stays.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bede.identity import SALT, canonical
from bede.intake.reading import Told
from bede.projections import sessions
from bede.records import Draft
from bede.repository import Repository, Writing, log
from bede.repository.cursors import Cursor, put
from bede.turns import text_of

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
    is_again: bool  # the file is read from its beginning, though parts of it were read before
    counts: Counter[str] = field(default_factory=Counter)
    _latest: dict[str, int] = field(default_factory=dict)

    def write(self, told: Sequence[Told], cursor: Cursor) -> None:
        """Write what was told, and how far the file is read then, in one transaction.

        Raises:
            Busy, Unavailable, Corrupt, TooNew: the store does not take it.
        """
        note: dict[str, Any] = {}
        with self.repository.write("ingest", self.agent, self.now, note) as writing:
            (secret,) = writing.connection.execute("SELECT secret FROM project").fetchone()
            for session, items in _by_session(told).items():
                drafts = [draft for item in items if (draft := self._draft(writing, secret, item)) is not None]
                if drafts:
                    writing.append(ref_of(self.agent, session), drafts)
            put(writing.connection, self.path, cursor)

    def _draft(self, writing: Writing, secret: bytes, told: Told) -> Draft | None:
        body = {"session": told.session, **told.body}
        if told.kind == "session":
            return self._new(writing, secret, told, body, "session")
        number = sessions.number(writing.connection, self.agent, told.session)
        if told.kind == "rewind":
            return self._rewind(writing, secret, told, body, number)
        if self._is_replayed(writing, number, body):
            self.counts["replayed"] += 1
            return None
        return self._turn(writing, secret, told, body, number)

    def _turn(self, writing: Writing, secret: bytes, told: Told, body: dict[str, Any], session: int) -> Draft | None:
        seq = sessions.event_of(writing.connection, session, body["key"])
        draft = self._new(writing, secret, told, body, body["key"])
        if draft is None or (seq and not self._is_more(writing, seq, body)):
            self.counts["repeated"] += 1
            return None
        if seq == 0 and self.is_again and self._is_there(writing, session, body):
            self.counts["repeated"] += 1
            return None
        self.counts["revised" if seq else "new"] += 1
        return draft

    def _new(self, writing: Writing, secret: bytes, told: Told, body: dict[str, Any], key: str) -> Draft | None:
        """Return the draft of what is told, None where the log has it already."""
        digest = hashlib.sha256(canonical(body)).hexdigest()
        named = canonical([self.agent, told.session, told.kind, key, digest])
        source = base64.urlsafe_b64encode(hashlib.sha256(named).digest()[:15]).decode()
        if log.by_source(writing.connection, source):
            return None
        salt = hmac.digest(secret, source.encode(), "sha256")[:SALT]
        at = body.get("at", self._latest.get(told.session, 0))
        self._latest[told.session] = at
        return Draft(told.kind, body, self.agent, at, source, salt)

    def _rewind(self, writing: Writing, secret: bytes, told: Told, body: dict[str, Any], session: int) -> Draft | None:
        keys = {sessions.short(key) for key in body["keys"]}
        known = sessions.rewound(writing.connection, session)
        if keys == known or (keys <= known and not body["whole"]):
            return None
        return self._new(writing, secret, told, body, "rewind")

    def _is_replayed(self, writing: Writing, session: int, body: dict[str, Any]) -> bool:
        """Tell whether another session has this turn: after a fork, a resumption, a hand-over."""
        origin = sessions.origin_of(body)
        if origin and sessions.elsewhere(writing.connection, session, origin):
            return True
        parent = sessions.parent_of(writing.connection, session) if body.get("replayed") else ""
        return bool(parent) and sessions.find(writing.connection, self.agent, parent) is not None

    def _is_more(self, writing: Writing, seq: int, body: dict[str, Any]) -> bool:
        """Tell whether a turn says something that its event does not: not so where the file was cut short."""
        old = log.load(writing.connection, [seq])[seq].body
        if old is None:  # It was purged, and stays so.
            return False
        mine, parts = body["parts"], old["parts"]
        return not (
            len(mine) < len(parts)
            and all(text_of({"parts": [a]}) == text_of({"parts": [b]}) for a, b in zip(mine, parts, strict=False))
        )

    def _is_there(self, writing: Writing, session: int, body: dict[str, Any]) -> bool:
        """Tell whether the session has this turn under another key, which a rewritten file gave it."""
        if session not in self._said:
            self._said[session] = sessions.said(writing.connection, session)
        known, digest = self._said[session], sessions.digest_of(body)
        if known[digest] > 0:
            known[digest] -= 1
            return True
        return False

    _said: dict[int, Counter[bytes]] = field(default_factory=dict)


def _by_session(told: Sequence[Told]) -> dict[str, list[Told]]:
    """Sort what was told by session, of each turn only what was told of it last, where it was told first."""
    found: dict[str, dict[tuple[str, str], Told]] = {}
    for number, item in enumerate(told):
        key = item.body["key"] if item.kind == "turn" else str(number)
        found.setdefault(item.session, {})[item.kind, key] = item
    return {session: list(items.values()) for session, items in found.items()}
