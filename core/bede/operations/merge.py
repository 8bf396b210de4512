"""`bede merge`: bring another line of thought into this one."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from bede.answers.threeway import Change, changes
from bede.context import Context
from bede.errors import Conflict, UsageError
from bede.operation import Field, operation
from bede.projections.memory import endings, holders
from bede.projections.state import state_at
from bede.quick import dataclass, replace
from bede.records import Draft, Event, Place, Record, Spans
from bede.redact import redact_value
from bede.repository import Reading, Writing
from bede.repository.lines import beyond


@dataclass(frozen=True, slots=True)
class Resolved(Record):
    """A decision or fact that both sides had changed, and which side it was settled for."""

    kind: str
    key: str
    ours: Any
    theirs: Any
    taken: str
    value: Any


@dataclass(frozen=True, slots=True)
class MergeResult(Record):
    """What the merge did, or on a dry run would do: `merged`, `fast-forward` or `unchanged`."""

    SCHEMA: ClassVar[str] = "merge/1"

    outcome: str
    branch: str
    head: str
    before: str
    merged: str
    events: int
    taken: tuple[str, ...]
    resolved: tuple[Resolved, ...]
    dry_run: bool = False


@operation(effect="append", toolset="branches")
def merge(
    context: Context,
    source: Annotated[str, Field("Branch or event to bring in")],
    *,
    ours: Annotated[bool, Field("Settle every conflict for this branch")] = False,
    theirs: Annotated[bool, Field("Settle every conflict for the other")] = False,
    set_: Annotated[list[str] | None, Field("Settle one conflict with a value of its own", metavar="KEY=VALUE")] = None,
    dry_run: Annotated[bool, Field("Only tell what would happen")] = False,
    agent_id: Annotated[str, Field("Who does it")] = "",
) -> MergeResult:
    """Merge a branch into the current one, three-way on the keys of decisions and facts.

    A key that only one side changed since they parted is taken from that side. A key that both changed is a conflict:
    all are listed, and nothing is written until each is settled with --ours, --theirs or --set.
    """
    if ours and theirs:
        raise UsageError("--ours and --theirs exclude each other")
    settle = _Settle("ours" if ours else "theirs" if theirs else "", _values(set_ or []))
    actor, now = context.actor(agent_id), context.now()
    if dry_run:
        with context.repository.snapshot() as reading:
            return replace(_plan(reading, context.branch(reading), source, settle)[0], dry_run=True)
    with context.repository.write("merge", actor, now) as writing:
        branch = context.branch(writing)
        result, drafts = _plan(writing, branch, source, settle)
        return _carry_out(writing, result, [Draft(kind, body, actor, now) for kind, body in drafts])


@dataclass(frozen=True, slots=True)
class _Settle:
    """How conflicts are settled: all for one side, some with values of their own."""

    side: str
    values: dict[str, str]


def _values(pairs: list[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise UsageError(f"--set {pair!r} is not KEY=VALUE")
        found[key] = str(redact_value(value))
    return found


def _plan(
    reading: Reading, branch: str, source: str, settle: _Settle
) -> tuple[MergeResult, list[tuple[str, dict[str, Any]]]]:
    """Decide what the merge is, and return it with the events it needs."""
    mine, other = reading.tip(branch), reading.resolve(source)
    left, right = reading.spans(mine), reading.spans(other)
    incoming = sum(end - start + 1 for _, start, end in beyond(right, left))
    if not incoming:
        return MergeResult("unchanged", branch, mine.id, mine.id, other.id, 0, (), ()), []
    if not beyond(left, right):
        return MergeResult("fast-forward", branch, other.id, mine.id, other.id, incoming, (), ()), []
    base = reading.meeting(left, right)
    states = [state_at(reading.connection, place.line, place.position) for place in (base, mine, other)]
    found = changes(*states)
    events = reading.load([seq for change in found for seq in (change.ours, change.theirs) if seq])
    conflicts = [change for change in found if change.conflict]
    resolved = tuple(_resolve(change, events, settle) for change in conflicts)
    _refuse_unknown(settle, resolved)
    _refuse_open(resolved, branch, source)
    taken = tuple(change.key for change in found if change.side == "theirs")
    result = MergeResult("merged", branch, "", mine.id, other.id, incoming, taken, resolved)
    settled = {(item.kind, item.key): item.taken for item in resolved}
    lost = {
        name: _lost(reading, change, settled.get(name, change.side), left, right)
        for change in found
        for name in [(change.kind, change.key)]
    }
    return result, _drafts(source, other, resolved, lost)


def _lost(reading: Reading, change: Change, side: str, ours: Spans, theirs: Spans) -> list[str]:
    """Return the ids of what no longer holds of a key: what the other side says of it, or what both do."""
    nothing: Spans = {}
    losing = {"ours": [(theirs, ours)], "theirs": [(ours, theirs)], "set": [(ours, nothing), (theirs, nothing)]}[side]
    lost: set[int] = set()
    for loser, winner in losing:
        held = holders(reading.connection, loser, change.kind, change.key)
        # What the winner has ended already needs no second end.
        lost.update(set(held) - endings(reading.connection, held, winner).keys())
    return [event.id for event in reading.load(sorted(lost)).values()]


def _resolve(change: Change, events: dict[int, Event], settle: _Settle) -> Resolved:
    mine, other = _value(events, change.ours), _value(events, change.theirs)
    if change.key in settle.values:
        return Resolved(change.kind, change.key, mine, other, "set", settle.values[change.key])
    value = {"ours": mine, "theirs": other}.get(settle.side)
    return Resolved(change.kind, change.key, mine, other, settle.side, value)


def _value(events: dict[int, Event], seq: int) -> Any:
    return (events[seq].body or {}).get("value") if seq else None


def _refuse_open(resolved: tuple[Resolved, ...], branch: str, source: str) -> None:
    unsettled = [item for item in resolved if not item.taken]
    if unsettled:
        raise Conflict(
            "both sides changed " + ", ".join(f"{item.kind} {item.key!r}" for item in unsettled),
            hint="settle each with --set KEY=VALUE, or all with --ours or --theirs",
            reason="merge_conflict",
            conflicts=[
                {"kind": item.kind, "key": item.key, "ours": item.ours, "theirs": item.theirs} for item in unsettled
            ],
            ours=branch,
            theirs=source,
        )


def _refuse_unknown(settle: _Settle, resolved: tuple[Resolved, ...]) -> None:
    unknown = settle.values.keys() - {item.key for item in resolved}
    if unknown:
        raise UsageError(f"--set names no conflict: {', '.join(sorted(unknown))}")


def _drafts(
    source: str, other: Place, resolved: tuple[Resolved, ...], lost: dict[tuple[str, str], list[str]]
) -> list[tuple[str, dict[str, Any]]]:
    """Return the merge event, which ends the losers, and a new decision or fact for each value that was set."""
    made: list[tuple[str, dict[str, Any]]] = []
    for item in resolved:
        if item.taken == "set":
            said = {"key": item.key, "value": item.value, "summary": f"{item.key} = {item.value}"}
            made.append((item.kind, {**said, "ends": {"supersedes": lost[item.kind, item.key]}}))
    losers = [identity for found in lost.values() for identity in found]
    body = {"branch": source, "head": other.id, "resolved": [item.taken for item in resolved]}
    return [("merge", {**body, "ends": {"supersedes": losers}} if losers else body), *made]


def _carry_out(writing: Writing, result: MergeResult, drafts: list[Draft]) -> MergeResult:
    other = writing.resolve(result.merged)
    if result.outcome == "fast-forward":
        writing.move(result.branch, other)
    if not drafts:
        return result
    events = writing.append(result.branch, drafts, merged=other)
    return replace(result, head=events[-1].id)
