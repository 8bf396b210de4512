"""Taking a checked bundle in: its events as a union, its refs below their owner's name, and with `merge` into ours.

A ref of our own is moved by `merge` alone. What is written is one operation, and none where nothing was new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bede.bundles import joining
from bede.bundles.form import Header, refuse
from bede.bundles.reading import Bundle
from bede.errors import Conflict, TooNew
from bede.records import Place
from bede.repository import Reading, Writing, schema
from bede.repository.connection import Connection
from bede.repository.refs import MAIN, TRACKED
from bede.repository.union import Intake, Origin, begin_copy


@dataclass(frozen=True, slots=True)
class Brought:
    """What became of one ref of a bundle: the ref of ours, its head, and the one before, '' where there was none."""

    ref: str
    outcome: str
    head: str
    before: str


@dataclass(frozen=True, slots=True)
class Taken:
    """What came in."""

    new: int
    known: int
    purged: int
    tracked: tuple[Brought, ...]
    merged: tuple[Brought, ...]


def check_project(reading: Reading, header: Header) -> None:
    """Refuse a bundle of another project.

    Raises:
        Conflict: it is one.
    """
    here = reading.project()["uuid"]
    if header.project != here:
        raise Conflict(
            f"the bundle is of project {header.project}, this one is {here}",
            hint="'bede init --from FILE' in a folder of its own makes a copy of that project",
            reason="other_project",
        )


def take_in(bundle: Bundle, writing: Writing, note: dict[str, Any], peer: str, merge: bool) -> Taken:
    """Take in what a checked bundle holds.

    Raises:
        BadSource: the file changed since it was checked, or says what nothing here can follow.
        Conflict: with `merge`, both sides changed a decision or fact.
    """
    check_project(writing, bundle.header)
    intake = Intake(writing, note)
    with _following():
        for event in bundle.events(again=True):
            intake.take(event)
        intake.settle()
    heads = {name: _head(intake, identity) for name, identity in sorted(bundle.header.refs.items())}
    tracked = tuple(_track(writing, f"{TRACKED}{peer}/{name}", head) for name, head in heads.items())
    merged = tuple(_merge(writing, peer, name, head) for name, head in heads.items()) if merge else ()
    taken = Taken(intake.new, intake.known, intake.purged, tracked, merged)
    if intake.new or any(item.outcome != "unchanged" for item in (*tracked, *merged)):
        note["bundle"] = _told(bundle.header, peer, intake)
    return taken


def _told(header: Header, peer: str, intake: Intake) -> dict[str, Any]:
    return {"from": peer, "key": header.key, "made_at": header.made_at, "sha256": header.sha256, "events": intake.new}


@contextmanager
def _following() -> Iterator[None]:
    """A projection that stumbles over a foreign body is no fault of ours, and nothing is written."""
    try:
        yield
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise refuse("bad_body", f"an event of the bundle says what none of its kind does: {error!r}"[:300]) from error


def _head(intake: Intake, identity: str) -> Place:
    place = intake.find(identity)
    if place is None:
        raise refuse("bad_order", f"a ref of the bundle names event {identity}, which is nowhere")
    return place


def _track(writing: Writing, name: str, head: Place) -> Brought:
    before = writing.find(name)
    if before == head:
        return Brought(name, "unchanged", head.id, head.id)
    writing.move(name, head)
    return Brought(name, "moved" if before else "created", head.id, before.id if before else "")


def _merge(writing: Writing, peer: str, name: str, head: Place) -> Brought:
    try:
        joined = joining.bring(writing, name, head)
    except Conflict as error:
        there = f"'bede merge {TRACKED}{peer}/{name}' on {name}"
        error.hint = f"import without --merge, then settle it with {there}: --set, --ours or --theirs"
        raise
    return Brought(name, joined.outcome, joined.head.id, joined.before)


def copy_of(bundle: Bundle, peer: str, actor: str, at: int) -> Callable[[Connection], None]:
    """Return what fills an empty file with all that a checked bundle holds, its refs under their own names.

    Raises:
        Conflict: it does not begin at the project's beginning.
    """
    if bundle.header.prerequisites:
        raise Conflict(
            "the bundle does not hold the project from its beginning",
            hint="have it made with 'bede bundle export --all', or of a whole branch",
            reason="missing_events",
        )

    def fill(connection: Connection) -> None:
        events, note = bundle.events(again=True), dict[str, Any]()
        first = next(events)
        writing = begin_copy(connection, Origin(first.told, _secret(bundle.header, first.told)), note)
        intake = Intake(writing, note)
        intake.take(first)
        for event in events:
            intake.take(event)
        intake.settle()
        heads = {name: _head(intake, identity) for name, identity in sorted(bundle.header.refs.items())}
        for name, head in {MAIN: _head(intake, first.id), **heads}.items():
            writing.move(name, head)
        note["bundle"] = _told(bundle.header, peer, intake)
        writing.close("init", actor, at)

    return fill


def _secret(header: Header, said: dict[str, Any]) -> bytes:
    """Return the secret that came along, if it did."""
    if said["min_reader_version"] > schema.FORMAT or said["min_writer_version"] > schema.FORMAT:
        raise TooNew("the project needs a newer bede", hint=said["upgrade_hint"])
    secret = bytes.fromhex(header.secret)
    if secret and hashlib.sha256(secret).hexdigest() != said["secret_digest"]:
        raise refuse("bad_secret", "the secret in the bundle is not the project's")
    return secret
