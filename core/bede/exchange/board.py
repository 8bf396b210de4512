"""The board: notices into the log, and out of it again.

A notice and its clearing are events on the `coordination` ref. What a notice says never changes; clearing wins over
holding in whatever order both arrive, the earliest clearing counts, and that something is absent clears nothing.
Whatever is written here was redacted first.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bede.arbitration import public
from bede.errors import BedeError, Conflict, NotFound, Rejected, Unavailable, UsageError
from bede.exchange.document import refuse
from bede.identity import canonical, timestamp
from bede.projections.notices import (
    AUTHOR,
    CLEARED,
    ID,
    LONGEST,
    NOTICE,
    RESOURCE,
    Notice,
    Posted,
    body_of,
    by_ids,
    starting_with,
    told,
)
from bede.records import Draft
from bede.redact import redact
from bede.repository import Reading, Writing, journal, log
from bede.repository.refs import COORDINATION

#: How far ahead of this machine's clock a notice may have been made, in microseconds: a day, zones being what they are.
AHEAD = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Taken:
    """What a batch changed."""

    added: int
    cleared: int

    @property
    def changed(self) -> int:
        """How many notices are not as they were."""
        return self.added + self.cleared


def source(**key: str) -> str:
    """Return the key under which something is in the log once, however often it arrives."""
    return canonical(key).decode()


def post(writing: Writing, notice: Notice) -> str:
    """Write a new notice, and return the id of its event.

    Raises:
        Unavailable: no reader would take it for one: the clock is set to a time that no notice can have.
    """
    body = body_of(notice)
    if told(body) is None:
        hint = "set this machine's clock right"
        raise Unavailable(f"no notice can be made at {timestamp(notice.created_at)}", hint=hint)
    draft = Draft(NOTICE, body, notice.author, notice.created_at, source(notice=notice.id))
    return writing.append(COORDINATION, [draft])[0].id


def clear(writing: Writing, item: Posted, actor: str, now: int) -> bool:
    """Clear a notice, as of now; tell whether it held until then.

    A notice from a machine whose clock is ahead can be cleared as well: it is cleared when it was made.
    """
    if item.cleared_at is not None:
        return False
    writing.append(COORDINATION, [_clearing(item.id, max(now, item.created_at), actor, now)])
    return True


def _clearing(identity: str, at: int, actor: str, now: int, peer: str = "", *, unsigned: bool = False) -> Draft:
    when = timestamp(at)
    body: dict[str, Any] = {"notice_id": identity, "cleared_at": when, **({"unsigned": True} if unsigned else {})}
    key = {"notice": identity, "cleared": when, **({"signed": peer} if peer else {})}
    return Draft(CLEARED, body, actor, now, source(**key))


def _signed(writing: Writing, key: str, identity: str, peer: str) -> str:
    """Return the key of a signed notice: one of its own where something unsigned stands under the usual one."""
    seq = log.by_source(writing.connection, key)
    event = writing.load([seq]).get(seq) if seq else None
    if event is None or event.body is None:
        return key
    is_unsigned = event.body.get("unsigned") or journal.brought(writing.connection)(event.seq)
    return source(notice=identity, signed=peer) if is_unsigned else key


def merge(writing: Writing, notices: Sequence[Notice], actor: str, now: int, *, peer: str = "") -> Taken:
    """Bring notices from elsewhere together with those that are here: all of them, or none.

    `peer` is whose signature vouches for them: then it counts for nothing what a bundle or an unsigned file said in its
    name before. Without one they are marked as unsigned, for ever. What was purged here does not come back.

    Raises:
        Conflict: with the reason `notice_conflict`, where one is here already and says something else.
        BadSource: one was made in the future, or its names look like secrets.
    """
    there, secret = by_ids(writing.connection, [item.id for item in notices]), writing.secret()
    known = {identity: item for identity, item in there.items() if not (peer and item.brought)}
    fresh: list[Draft] = []
    for item in notices:
        clean = _clean(item, now)
        if item.id not in known:
            draft = _arrived(item, clean, secret, actor, now, peer)
            fresh.append(replace(draft, source=_signed(writing, draft.source, item.id, peer) if peer else draft.source))
        elif not _is_same(known[item.id], item, clean, secret):
            raise Conflict(
                f"notice {item.id} is here already and says something else: nothing was taken in",
                hint="ask its author: what a notice says never changes",
                reason="notice_conflict",
            )
    added = {str((event.body or {})["notice_id"]) for event in writing.append(COORDINATION, fresh)}
    drafts = [
        _clearing(item.id, item.cleared_at, actor, now, peer, unsigned=not peer)
        for item in notices
        if item.cleared_at is not None and _is_earlier(item, known.get(item.id), item.id in added, peer)
    ]
    writing.append(COORDINATION, drafts)
    return Taken(len(added), sum(draft.body["notice_id"] not in added for draft in drafts))


def _clean(item: Notice, now: int) -> Notice:
    """Return a notice without secrets.

    Raises:
        BadSource: it was made in the future, or a name in it looks like a secret.
    """
    if item.created_at > now + AHEAD:
        refuse("future_notice", f"notice {item.id} was made at {timestamp(item.created_at)}, which is yet to come")
    try:
        for name in (item.author, item.resource, item.id):
            public(name)
    except UsageError as error:
        refuse("secret_name", f"notice {item.id[:80]}: {error.message}")
    return replace(item, message=redact(item.message))


def mark(secret: bytes, item: Notice) -> str:
    """Return what stands for a notice's own words, which only this project can compare with others."""
    return hmac.digest(secret, item.digest(), hashlib.sha256).hex()


def _arrived(item: Notice, clean: Notice, secret: bytes, actor: str, now: int, peer: str) -> Draft:
    body: dict[str, Any] = {**body_of(clean), **({"peer": peer} if peer else {"unsigned": True})}
    if clean.message != item.message:
        body["mark"] = mark(secret, item)
    return Draft(NOTICE, body, actor, now, source(notice=item.id))


def _is_same(known: Posted, item: Notice, clean: Notice, secret: bytes) -> bool:
    """Tell whether a notice is the one that is here, whatever was taken out of it, and by which rules, then or now."""
    same = known.digest in (clean.digest(), item.digest())
    return same or bool(known.mark and hmac.compare_digest(known.mark, mark(secret, item)))


def _is_earlier(item: Notice, known: Posted | None, is_added: bool, peer: str) -> bool:
    if known is None or (known.is_vouched and not peer):  # What nobody signed clears nothing that somebody did.
        return is_added
    return item.cleared_at is not None and (known.cleared_at is None or item.cleared_at < known.cleared_at)


def whole(reading: Reading, items: Iterable[Posted]) -> list[Notice]:
    """Return notices with their words, in order; what was purged meanwhile is left out."""
    listed = list(items)
    events = reading.load([item.seq for item in listed])
    return [
        item.with_message(str((events[item.seq].body or {}).get("message", "")))
        for item in listed
        if item.seq in events and events[item.seq].body
    ]


def find(reading: Reading, text: str) -> Posted:
    """Return the notice that an id, or the beginning of one, names.

    Raises:
        NotFound: none does, or several do.
        UsageError: it can be no beginning of an id.
    """
    found = by_ids(reading.connection, [text])
    if found:
        return found[text]
    if ID.fullmatch(text) or len(text) < 4 or len(text) > 128:
        raise NotFound(f"no notice {text[:128]!r}", hint="'bede notice list --all' shows ids")
    ids = starting_with(reading.connection, text, 2)
    if len(ids) != 1:
        why = "several notices begin" if ids else "no notice begins"
        raise NotFound(f"{why} with {text!r}", hint="'bede notice list --all' shows ids")
    return by_ids(reading.connection, ids)[ids[0]]


def check(author: str, resource: str, message: str) -> None:
    """Make sure that these can stand in a notice that others read.

    Raises:
        UsageError: one is not of its shape.
        Rejected: the resource looks like a secret.
    """
    if not RESOURCE.fullmatch(resource):
        raise UsageError(
            f"not a resource: {resource[:80]!r}",
            hint="write kind:name, such as service:auth or repo:frontend/login; a path of one machine names nothing",
        )
    if not AUTHOR.fullmatch(author):
        raise UsageError(
            f"{author!r} cannot sign a notice",
            hint="other machines read it: use ASCII letters, digits and ._:@- (BEDE_AGENT_ID names who acts)",
        )
    if not message.strip() or len(message) > LONGEST:
        raise UsageError(f"a message has 1 to {LONGEST:,} characters, this has {len(message.strip()):,}")
    try:
        public(resource)
    except BedeError as error:
        raise Rejected(error.message, hint=error.hint, reason="secret_name") from error
