"""The signed document of one machine: `memkernel.signed-notices/v1`, so that MemKernel can be on the other side.

A signature covers the canonical JSON of everything else. An envelope is opened step by step, and each thing that can be
wrong with it has a reason of its own; nothing of it is used before all of them held. Pure.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bede import signing
from bede.exchange import document
from bede.exchange.document import refuse
from bede.identity import canonical, timestamp
from bede.projections.notices import Notice

SCHEMA = "memkernel.signed-notices/v1"
#: Bytes and notices of one envelope.
LARGEST, MOST = 8 * 1024 * 1024, 10_000
#: Microseconds that a sender's clock may be ahead, and that an envelope is taken after it was sent. No notice holds
#: longer than that, so an older one could only bring back what is over.
AHEAD, WINDOW = 300_000_000, 7 * 86_400_000_000
_KEYS = {"schema", "workspace_id", "peer_id", "sequence", "sent_at", "notices", "signature"}
_SIGNATURE = re.compile(r"[0-9a-f]{128}")


@dataclass(frozen=True, slots=True)
class Sender:
    """Who an envelope must be from: the peer's name, its key, and the authors it may speak for."""

    name: str
    key: str
    authors: frozenset[str]


@dataclass(frozen=True, slots=True)
class Envelope:
    """An envelope whose signature holds."""

    sequence: int
    sent_at: int
    notices: tuple[Notice, ...]
    digest: str


def seal(key: signing.Key, workspace: str, peer: str, sequence: int, at: int, notices: Sequence[Any]) -> bytes:
    """Return a signed envelope of notices as they stand in a document."""
    said = {
        "schema": SCHEMA,
        "workspace_id": workspace,
        "peer_id": peer,
        "sequence": sequence,
        "sent_at": timestamp(at),
        "notices": list(notices),
    }
    return canonical({**said, "signature": key.sign(canonical(said)).hex()})


def open_(data: bytes, workspace: str, sender: Sender) -> Envelope:
    """Return what an envelope holds that a sender signed for a workspace.

    Raises:
        BadSource: with the reason `too_large`, `invalid_document`, `unsigned`, `wrong_schema`, `unknown_field`,
            `wrong_workspace`, `wrong_peer`, `invalid_sequence`, `invalid_sent_at`, `invalid_signature`,
            `wrong_signature`, or one of those of `document.notices`.
    """
    found = document.parse(data, LARGEST)
    _check_shape(found, workspace, sender)
    signature = bytes.fromhex(found.pop("signature"))
    signed = canonical(found)
    if not signing.is_signed(sender.key, signature, signed):
        refuse("wrong_signature", f"the document of {sender.name} is not signed by the key that is pinned for it")
    notices = tuple(document.notices(found["notices"], MOST))
    sent_at = document.moment(found["sent_at"]) or 0
    return Envelope(found["sequence"], sent_at, notices, hashlib.sha256(signed).hexdigest())


def _check_shape(found: dict[str, Any], workspace: str, sender: Sender) -> None:
    if found.get("schema") == document.SCHEMA or "signature" not in found:
        refuse("unsigned", f"the document of {sender.name} is not signed", "import it by hand if you trust its way")
    if found.get("schema") != SCHEMA:
        refuse("wrong_schema", f"the document of {sender.name} is of another schema than {SCHEMA}")
    if unknown := found.keys() - _KEYS:
        refuse("unknown_field", f"the document has a field that it may not have: {min(unknown)[:40]!r}")
    if found.get("workspace_id") != workspace:
        refuse("wrong_workspace", f"the document of {sender.name} is of another workspace than {workspace!r}")
    if found.get("peer_id") != sender.name:
        refuse("wrong_peer", f"the document in the place of {sender.name} says that it is another peer's")
    sequence = found.get("sequence")
    if type(sequence) is not int or not 1 <= sequence < 2**63:
        refuse("invalid_sequence", "the sequence is no number from 1 to 2^63 - 1")
    if document.moment(found.get("sent_at")) is None:
        refuse("invalid_sent_at", "the time of sending is no time with a zone")
    if not isinstance(found.get("notices"), list):
        refuse("invalid_notices", "the notices are no array")
    if not isinstance(found["signature"], str) or not _SIGNATURE.fullmatch(found["signature"]):
        refuse("invalid_signature", "the signature is not 128 hex digits")


def admit(envelope: Envelope, sender: Sender, now: int) -> None:
    """Make sure that what a sender signed is timely, and is its own to say.

    Raises:
        BadSource: with the reason `future_timestamp`, `too_old`, `unauthorized_author`, `unauthorized_origin` or
            `future_notice`.
    """
    if envelope.sent_at > now + AHEAD:
        refuse(
            "future_timestamp",
            f"the document of {sender.name} was sent at {timestamp(envelope.sent_at)}, which is yet to come",
            "set the clock of one of the two machines right",
        )
    if envelope.sent_at < now - WINDOW:
        refuse("too_old", f"the document of {sender.name} was sent at {timestamp(envelope.sent_at)}: too long ago")
    for item in envelope.notices:
        if item.author not in sender.authors:
            refuse("unauthorized_author", f"{sender.name} may not speak for {item.author!r}")
        if not item.id.startswith(sender.name + ":"):
            refuse("unauthorized_origin", f"{sender.name} tells a notice that began elsewhere: {item.id}")
        if max(item.created_at, item.cleared_at or 0) > envelope.sent_at + AHEAD:
            refuse("future_notice", f"notice {item.id} is younger than the document it came in")
