"""One round of the exchange: publish what is ours, take in what is the others', write down what came of it.

A round changes nothing where nothing changed: no file, no event. Each peer stands alone; what is wrong with one keeps
nobody else waiting. Every refusal is a step in the log, once for as long as it stays the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bede.errors import BadSource, BedeError, Conflict, Unavailable
from bede.exchange import board, document, envelope, folder
from bede.exchange.document import refuse
from bede.exchange.envelope import Envelope, Sender
from bede.exchange.policy import Policy
from bede.identity import canonical, counted, timestamp
from bede.projections import notices as rows
from bede.records import Draft
from bede.repository import Repository, Writing
from bede.repository.refs import COORDINATION
from bede.signing import Key

#: What is wrong with a document or its place; anything else ends the round.
_FAULTS = (BadSource, Conflict, Unavailable)
#: Seconds after which half a file was left by a process that is gone.
_LEFT = 3600
#: Room for an envelope's own fields.
_FRAME = 4096


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that was not taken in, or not published, and why."""

    peer: str
    reason: str
    message: str
    hint: str


@dataclass(slots=True)
class Outcome:
    """What came of one round."""

    published: bool = False
    sequence: int = 0
    recovered: int = 0
    left_out: int = 0
    changed: int = 0
    waiting: list[str] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def record(writing: Writing, policy: Policy, peer: str, outcome: str, actor: str, now: int, **said: Any) -> None:
    """Write one step down: what came of what, with whom; never a word of a notice."""
    body = {"self": policy.peer, "peer": peer, "outcome": outcome, **said}
    writing.append(COORDINATION, [Draft(rows.STEP, body, actor, now)])


class Round:
    """One round of one project's exchange, by the one process that has its turn."""

    def __init__(self, repository: Repository, policy: Policy, key: Key, actor: str, now: int) -> None:
        self._repository = repository
        self._policy = policy
        self._key = key
        self._actor = actor
        self._now = now
        self._own = Sender(policy.peer, key.id, frozenset(policy.authors))
        self.outcome = Outcome()

    def run(self, *, replacing: bool = False) -> Outcome:
        """Publish, then take in from every pinned peer; `replacing` overwrites a file in our place that is not ours.

        Raises:
            Unavailable: the folder is not there.
        """
        self._look_around(folder.names(self._policy.folder))
        try:
            self._publish(replacing)
        except _FAULTS as error:
            self._refuse(self._own.name, error, None)
        for peer in self._policy.peers:
            data = None
            try:
                data = folder.read(self._path(peer.name), envelope.LARGEST)
                self._receive(peer, data)
            except _FAULTS as error:
                self._refuse(peer.name, error, data)
        return self.outcome

    def _path(self, peer: str) -> Path:
        return self._policy.folder / f"{peer}.json"

    def _look_around(self, names: Sequence[str]) -> None:
        known = {f"{peer}.json" for peer in (self._own.name, *(item.name for item in self._policy.peers))}
        strangers = [name for name in names if name.endswith(".json") and name not in known]
        if strangers:
            shown = ", ".join(repr(name[:80]) for name in strangers[:5])
            more = f" and {len(strangers) - 5} more" if len(strangers) > 5 else ""
            self.outcome.warnings.append(f"left alone, since no pinned peer's: {shown}{more}")

    # What is ours.

    def _publish(self, replacing: bool) -> None:
        with self._repository.snapshot() as reading:
            last = rows.accepted(reading.connection, self._own.name, self._own.name)
        before = self._standing(last is not None, replacing)
        if before and (last is None or before.digest != last.digest):
            self._recover(before)
        wanted = self._wanted()
        if before and self._is_current(before, wanted, last.sequence if last else 0):
            self.outcome.sequence = before.sequence
            return
        known = max(last.sequence if last else 0, before.sequence if before else 0)
        # Seconds since 1970 as the least: also where database and folder are both lost, it only rises.
        sequence = max(known + 1, self._now // 1_000_000)
        data = envelope.seal(
            self._key, self._policy.workspace, self._own.name, sequence, self._now, document.ordered(wanted)
        )
        folder.sweep(self._path(self._own.name), self._now / 1_000_000 - _LEFT)
        self.outcome.warnings += folder.write(self._path(self._own.name), data, folder.SHARED)
        digest = envelope.open_(data, self._policy.workspace, self._own).digest
        self._record(self._own.name, "published", sequence=sequence, digest=digest, sent_at=timestamp(self._now))
        self.outcome.published, self.outcome.sequence = True, sequence

    def _standing(self, has_published: bool, replacing: bool) -> Envelope | None:
        """Return what stands in our place in the folder; None where that is to be written over.

        Raises:
            BadSource: something that is not ours stands there.
        """
        try:
            data = folder.read(self._path(self._own.name), envelope.LARGEST)
            return envelope.open_(data, self._policy.workspace, self._own) if data is not None else None
        except BadSource as error:
            # Torn by a copying tool, it may go; whatever somebody meant to put there may not.
            if replacing or (has_published and error.reason == "invalid_document"):
                return None
            refuse(
                "occupied",
                f"a file that this machine did not sign is in its place ({error.reason}): {error.message}",
                "look at it; 'bede exchange run --replace' writes over it",
            )

    def _recover(self, before: Envelope) -> None:
        """Take what we published and do not know any more, as after the loss of a database."""
        with self._repository.write("exchange", self._actor, self._now) as writing:
            taken = board.merge(writing, before.notices, self._actor, self._now, peer=self._own.name)
            record(
                writing, self._policy, self._own.name, "published", self._actor, self._now,
                reason="recovered", sequence=before.sequence, digest=before.digest,
                sent_at=timestamp(before.sent_at), changed=taken.changed,
            )  # fmt: skip
        self.outcome.recovered = taken.changed

    def _wanted(self) -> list[dict[str, Any]]:
        """Return what we have to say, as much of it as an envelope has room for, what holds first."""
        with self._repository.snapshot() as reading:
            ours = [item for item in rows.posted(reading.connection, cleared=True) if self._is_ours(item)]
            timely = [item for item in ours if max(item.created_at, item.cleared_at or 0) <= self._now + envelope.AHEAD]
            found = board.whole(reading, ranked(timely, self._now))
        if early := len(ours) - len(timely):  # One of them, and the others would refuse the whole document.
            made = f"{counted(early, 'notice')} made while this clock was ahead"
            self.outcome.warnings.append(f"{made}: held back until then")
        room = envelope.LARGEST - _FRAME
        chosen = document.fitting([document.wire(item) for item in found], envelope.MOST, room)
        self.outcome.left_out = len(found) - len(chosen)
        return chosen

    def _is_ours(self, item: rows.Posted) -> bool:
        is_named = item.id.startswith(self._own.name + ":") and item.author in self._own.authors
        return is_named and not item.mark and not item.brought

    def _is_current(self, before: Envelope, wanted: Sequence[dict[str, Any]], known: int) -> bool:
        """Tell whether what stands there says it all, and is young enough that others take it."""
        age = self._now - before.sent_at
        if before.sequence < known or not -envelope.AHEAD <= age <= envelope.WINDOW // 2:
            return False
        said = document.ordered([document.wire(item) for item in before.notices])
        return canonical(said) == canonical(document.ordered(wanted))

    # What is the others'.

    def _receive(self, peer: Sender, data: bytes | None) -> None:
        with self._repository.snapshot() as reading:
            known = rows.accepted(reading.connection, self._own.name, peer.name)
            newest = rows.newest(reading.connection, self._own.name, peer.name)
        if data is None:
            if known:
                refuse("missing_file", f"the file of {peer.name} is gone", "it is written again when that machine runs")
            self.outcome.waiting.append(peer.name)
            return
        opened = envelope.open_(data, self._policy.workspace, peer)
        if known and not _is_new(opened, known, peer.name):
            if newest and newest.outcome == "refused":
                self._record(peer.name, "accepted", reason="unchanged", sequence=opened.sequence,
                             digest=opened.digest, sent_at=timestamp(opened.sent_at))  # fmt: skip
            return
        envelope.admit(opened, peer, self._now)
        with self._repository.write("exchange", self._actor, self._now) as writing:
            taken = board.merge(writing, opened.notices, self._actor, self._now, peer=peer.name)
            record(
                writing, self._policy, peer.name, "accepted", self._actor, self._now, sequence=opened.sequence,
                digest=opened.digest, sent_at=timestamp(opened.sent_at), changed=taken.changed,
            )  # fmt: skip
        self.outcome.changed += taken.changed

    # What came of it.

    def _record(self, peer: str, outcome: str, **said: Any) -> None:
        with self._repository.write("exchange", self._actor, self._now) as writing:
            record(writing, self._policy, peer, outcome, self._actor, self._now, **said)

    def _refuse(self, peer: str, error: BedeError, data: bytes | None) -> None:
        reason = error.reason or "unavailable"
        self.outcome.refusals.append(Refusal(peer, reason, error.message, error.hint))
        digest = hashlib.sha256(data).hexdigest() if data is not None else ""
        with self._repository.snapshot() as reading:
            last = rows.newest(reading.connection, self._own.name, peer)
        if last is None or (last.outcome, last.reason, last.digest) != ("refused", reason, digest):
            self._record(peer, "refused", reason=reason, digest=digest)


def _is_new(opened: Envelope, known: rows.Step, name: str) -> bool:
    """Tell whether an envelope is newer than the last one that was accepted, or that very one.

    Raises:
        BadSource: it is older, or another one of the same number.
    """
    if opened.sequence < known.sequence:
        refuse(
            "replayed_sequence",
            f"the document of {name} has number {opened.sequence}, and {known.sequence} was accepted already",
            "an old file was put back; if that machine lost everything, pin it anew with 'trust --replace'",
        )
    if opened.sequence == known.sequence and opened.digest != known.digest:
        refuse("sequence_conflict", f"{name} signed two documents of number {known.sequence}")
    return opened.sequence > known.sequence


def ranked(items: Sequence[rows.Posted], now: int) -> list[rows.Posted]:
    """Return notices as a reader wants them: those that hold, the stale, the cleared; the newest of each first."""
    order = {"active": 0, "stale": 1, "cleared": 2}
    return sorted(items, key=lambda item: (order[item.status(now)], -item.created_at, item.id))


@dataclass(frozen=True, slots=True)
class Standing:
    """How it stands with one peer."""

    peer: Sender
    status: str
    accepted: rows.Step | None
    fault: str


def standings(repository: Repository, policy: Policy, now: int) -> Iterator[Standing]:
    """Yield how it stands with each pinned peer, as of the last round."""
    for peer in policy.peers:
        with repository.snapshot() as reading:
            known = rows.accepted(reading.connection, policy.peer, peer.name)
            newest = rows.newest(reading.connection, policy.peer, peer.name)
        old = known is not None and now - known.sent_at > envelope.WINDOW
        status = "never" if known is None else "stale" if old else "fresh"
        fault = newest.reason if newest and newest.outcome == "refused" else ""
        yield Standing(peer, status, known, fault)
