"""`bede purge`: destroy what an event says, provably, while the history still verifies."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Annotated, ClassVar

from bede.context import Context
from bede.errors import Busy, Conflict, Unavailable, UsageError
from bede.leases import intents, outbox
from bede.operation import Field, operation
from bede.quick import dataclass
from bede.records import Event, Record
from bede.repository import Reading, cursors
from bede.repository.refs import COORDINATION


@dataclass(frozen=True, slots=True)
class PurgeResult(Record):
    """Which events say nothing any more; `warning` tells where their text may stand still."""

    SCHEMA: ClassVar[str] = "purge/1"

    outcome: str
    purged: tuple[str, ...]
    already: tuple[str, ...]
    warning: str = ""


@operation(effect="host", destructive=True)
def purge(
    context: Context,
    ids: Annotated[list[str], Field("Events whose payloads to destroy")],
    *,
    yes: Annotated[bool, Field("Really do it: this cannot be undone")] = False,
    include_others: Annotated[bool, Field("Also what other agents wrote")] = False,
    agent_id: Annotated[str, Field("Who does it")] = "",
) -> PurgeResult:
    """Destroy the payloads of events for good: text, salt, index entries and caches.

    The events stay as hashes and `verify` still passes. Free pages and the write-ahead log are wiped too; copies of the
    file elsewhere, and of transcripts, are not in reach. The names of an agent's turns stay, which are checksums of
    what they said: whoever has the file can try guesses at a short text. Without --yes it only tells what would go.
    """
    actor = context.actor(agent_id)
    with context.repository.snapshot() as reading:
        places = [reading.resolve(name) for name in ids]
        events = reading.load([place.seq for place in places])
    if any(event.kind == "project" for event in events.values()):
        raise UsageError("the first event is the project's identity and cannot be purged")
    others = sorted({event.actor for event in events.values()} - {actor})
    if others and not include_others:
        raise Conflict(
            f"some of it was written by {', '.join(others)}",
            hint="add --include-others",
            reason="others_work",
        )
    gone = [event for event in events.values() if event.body is not None]
    if yes and gone:
        with context.repository.write("purge", actor, context.now()) as writing:
            writing.purge([event.seq for event in gone])
            for agent, session in _sessions(gone):
                intents.unsay(writing.connection, session)
                outbox.unsay(writing.connection, session)
                cursors.drop(writing.connection, agent, session)
    if yes:  # Also again: the call before may have been stopped on its way.
        _wipe(context)
    already = tuple(event.id for event in events.values() if event.body is None)
    word = "unchanged" if not gone else "purged" if yes else "planned"
    return PurgeResult(word, tuple(event.id for event in gone), already, _warning(context, events.values()))


def _sessions(events: Iterable[Event]) -> set[tuple[str, str]]:
    """Return the sessions that turns were said in, each behind its agent."""
    return {(event.actor, str(event.body["session"])) for event in events if event.kind == "turn" and event.body}


def _warning(context: Context, events: Collection[Event]) -> str:
    """Tell where the text may stand still: in copies of transcripts, and in what the refused were told of a session."""
    told, raw = [], context.project.folder / "raw"
    if raw.exists() and any(event.kind == "turn" for event in events):
        told.append(f"copies of the transcripts, kept by 'ingest --keep-raw', are not touched: {raw}")
    with context.repository.snapshot() as reading:
        ids = _quoting(reading, {session for _, session in _sessions(events)}) - {event.id for event in events}
    if ids:
        told.append(f"what a session was asked stands in refusals too, purge them as well: {' '.join(sorted(ids))}")
    return "; ".join(told)


def _quoting(reading: Reading, sessions: set[str]) -> set[str]:
    """Return the refusals that tell what one of these sessions was asked."""
    if not sessions or COORDINATION not in reading.refs():
        return set()
    refusals = reading.walk(reading.spans(reading.tip(COORDINATION)), (outbox.CONTENDED,))
    bodies = ((event.id, event.body or {}) for event in refusals)
    return {name for name, body in bodies if body.get("prompt") and body.get("holder_session") in sessions}


def _wipe(context: Context) -> None:
    """Wipe what the purged text left in free pages; that it was purged is a fact already, whatever happens here."""
    try:
        context.repository.wipe()
    except (Busy, Unavailable) as error:
        raise Unavailable(
            f"the payloads are destroyed, but free pages and the write-ahead log could not be wiped: {error.message}",
            hint="free some space, let other readers end, and run 'bede purge' once more",
        ) from error
