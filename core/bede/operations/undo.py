"""`bede undo`: take back what was done last."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from bede.answers.sight import Sight, apart
from bede.context import Context
from bede.errors import Conflict, NotFound
from bede.operation import Field, operation
from bede.quick import dataclass
from bede.records import Entry, Move, Record
from bede.repository import Reading, Writing
from bede.repository.refs import is_branch

#: What stays: the beginning. So does whatever was only observed, which is told by the ref it stands on.
_KEPT = frozenset({"init"})


@dataclass(frozen=True, slots=True)
class Restored(Record):
    """A branch that went back, an empty id stands for none; what went out of its sight, and what came back into it."""

    branch: str
    head: str
    before: str
    gone: Sight
    back: Sight


@dataclass(frozen=True, slots=True)
class UndoResult(Record):
    """The operation that was taken back."""

    SCHEMA: ClassVar[str] = "undo/1"

    outcome: str
    operation: int
    verb: str
    agent_id: str
    restored: tuple[Restored, ...]


@operation(effect="append", toolset="branches", destructive=True)
def undo(
    context: Context,
    number: Annotated[int, Field("Operation to take back, from `log --operations`; 0 is the newest", ge=0)] = 0,
    *,
    dry_run: Annotated[bool, Field("Only tell what would be taken back")] = False,
    include_others: Annotated[bool, Field("Also another agent's operation")] = False,
    agent_id: Annotated[str, Field("Who does it")] = "",
) -> UndoResult:
    """Take back the newest operation that moved a branch; again, and the one before goes too.

    Undoing is an operation of its own, so that it can be undone: name its number. An operation whose branches have
    moved since is refused.
    """
    actor = context.actor(agent_id)
    if dry_run:
        with context.repository.snapshot() as reading:
            return _result("planned", _target(reading, number), reading)
    note: dict[str, Any] = {}
    with context.repository.write("undo", actor, context.now(), note) as writing:
        entry = _target(writing, number)
        _check(writing, entry, actor, include_others)
        result = _result("undone", entry, writing)
        for move in _moves(entry):
            writing.move(move.ref, writing.place(move.old) if move.old else None)
        note["undoes"] = entry.number
        return result


def _target(reading: Reading, number: int) -> Entry:
    if number:
        return reading.entry(number)
    undone: set[int] = set()
    for entry in reading.journal():
        if entry.number in undone:
            continue
        if entry.verb == "undo":
            undone.add(int(entry.note["undoes"]))
        elif _moves(entry):
            return entry
    raise NotFound("there is nothing to undo")


def _moves(entry: Entry) -> list[Move]:
    """Return the moves of branches, which can go back; what was observed stays observed."""
    return [move for move in entry.moves if is_branch(move.ref)] if entry.verb not in _KEPT else []


def _check(writing: Writing, entry: Entry, actor: str, include_others: bool) -> None:
    if not _moves(entry):
        raise Conflict(f"operation {entry.number} ({entry.verb}) moved no branch that could go back")
    refs = writing.refs()
    for move in _moves(entry):
        if refs.get(move.ref, 0) != move.new:
            raise Conflict(
                f"branch {move.ref!r} has moved since operation {entry.number}",
                hint="undo what came after it first, or use 'bede rollback'",
            )
    if entry.actor != actor and not include_others:
        raise Conflict(
            f"operation {entry.number} ({entry.verb}) is {entry.actor}'s, not {actor}'s",
            hint="look with --dry-run, then add --include-others",
            reason="others_work",
        )


def _result(word: str, entry: Entry, reading: Reading) -> UndoResult:
    restored = tuple(_restored(reading, move) for move in _moves(entry))
    return UndoResult(word, entry.number, entry.verb, entry.actor, restored)


def _restored(reading: Reading, move: Move) -> Restored:
    """Tell of one branch; where it began or ended with the operation, no event is seen by fewer or more."""
    head, before = (reading.place(seq) if seq else None for seq in (move.old, move.new))
    nothing = Sight(0, {}, ())
    gone, back = (apart(reading, before, head), apart(reading, head, before)) if head and before else (nothing, nothing)
    return Restored(move.ref, head.id if head else "", before.id if before else "", gone, back)
