"""Turns as a reader gets them: attributed, dated, whole where there is room, and never a wall of text."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from bede.answers.quoting import Telling, quote, shares
from bede.identity import timestamp
from bede.projections import sessions
from bede.quick import dataclass, replace
from bede.records import Record
from bede.turns import text_of

if TYPE_CHECKING:
    from bede.answers.talk import Found

#: Most characters of one turn that are shown; of a longer one the part around what was found, and its ends.
LONGEST = 6000
#: Characters shown of either end of a turn that is cut.
END = 300
#: Characters of its beginning below which a turn is not worth showing.
FEW = 20
#: Where room is scarce: passages of so many tokens are whole or not there; a longer one gets as many at least, a turn
#: beside an answer as many, and by its rank a passage as much less as the slope says.
SHORT, LEAST, QUOTED, SLOPE = 110, 70, 60, 0.8


@dataclass(frozen=True, slots=True)
class Turn(Record):
    """One turn of a session. `left_out` counts the characters that are not shown."""

    SPARSE = True

    id: str
    agent: str
    session: str
    turn: int
    by: str
    at: str
    text: str
    left_out: int | None = None
    branch: str = ""
    cwd: str = ""
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Said(Record):
    """One turn of a passage. `left_out` counts the characters that are not shown."""

    SPARSE = True

    id: str
    turn: int
    by: str
    at: str
    text: str
    files: tuple[str, ...] = ()
    left_out: int | None = None


@dataclass(frozen=True, slots=True)
class Passage(Record):
    """Turns of one session that answer together, in order: `best`, which was found, and what stands around it."""

    SPARSE = True

    rank: int
    score: float
    agent: str
    session: str
    best: int
    turns: tuple[Said, ...]
    branch: str = ""
    cwd: str = ""


def passages(connection: sqlite3.Connection, found: Sequence[Found]) -> list[Passage]:
    """Return what was found as a reader gets it, best first."""
    numbers = [turn for one in found for turn in one.turns]
    shown = dict(_numbered(connection, numbers, {one.best: one.spot for one in found}))
    made: list[Passage] = []
    for rank, one in enumerate(found, 1):
        inside = [(number, shown[number]) for number in one.turns if number in shown]
        if one.best in shown:
            best = shown[one.best]
            said = tuple(Said(t.id, t.turn, t.by, t.at, t.text, t.files, t.left_out) for _, t in inside)
            score = round(one.score, 4)
            made.append(Passage(rank, score, best.agent, best.session, best.turn, said, best.branch, best.cwd))
    return made


def _numbered(
    connection: sqlite3.Connection, numbers: Sequence[int], around: dict[int, int]
) -> Iterator[tuple[int, Turn]]:
    bodies = sessions.bodies(connection, numbers)
    for number, *row in sessions.rows(connection, list(bodies)):
        yield number, _turn(tuple(row), bodies[number], around.get(number, 0))


def turns(connection: sqlite3.Connection, numbers: Sequence[int]) -> list[Turn]:
    """Return turns by their numbers, in that order; those that were purged are left out."""
    found = dict(_numbered(connection, numbers, {}))
    return [found[number] for number in numbers if number in found]


def _turn(row: tuple[Any, ...], body: dict[str, Any], spot: int) -> Turn:
    identity, agent, session, n, by, at, branch, cwd = row
    text, left_out = cut(text_of(body), spot)
    when = timestamp(at) if at is not None else ""
    files = tuple(dict.fromkeys(sessions.changed(body)))[:20]
    return Turn(identity.hex(), agent, session, n, by, when, text, left_out or None, branch, cwd, files)


def cut(text: str, spot: int = 0, longest: int = LONGEST) -> tuple[str, int]:
    """Return a text, or of a long one both ends and what stands around a spot; and how many characters are missing."""
    if len(text) <= longest:
        return text, 0
    room = longest - 2 * END
    start = max(END, min(spot - room // 2, len(text) - END - room))
    pieces = [text[:END], text[start : start + room], text[-END:]]
    gaps = (start - END, len(text) - END - start - room)
    shown = pieces[0] + _gap(gaps[0]) + pieces[1] + _gap(gaps[1]) + pieces[2]
    return shown, sum(gaps)


def _gap(size: int) -> str:
    return f"\n[… {size:,} characters left out …]\n" if size else ""


def within(found: Sequence[Turn], budget: int, room: int = 40) -> tuple[list[Turn], int]:
    """Return as many of the turns, in order, as a budget of tokens has room for, and how many had none.

    The first that does not fit is cut to the room that is left, if there is enough of it to be of use. `room` is kept
    for what stands around them.
    """
    kept: list[Turn] = []
    left = budget - room
    for turn in found:
        cost = as_json(turn)
        if cost > left:
            short = _shortened(turn, left)
            if short is None:
                break
            turn, cost = short, left
        kept.append(turn)
        left -= cost
    return kept, len(found) - len(kept)


def _shortened(turn: Turn, room: int) -> Turn | None:
    """Return a turn cut to a room, or nothing where that is too little to be of use.

    Both ends and the middle are left of it, or its beginning; before that goes, where it was said and what it changed.
    """
    bare = replace(turn, text="", left_out=len(turn.text))
    bare = bare if as_json(bare) + LEAST <= room else replace(bare, files=(), branch="", cwd="")
    least, size = as_json(bare), len(turn.text)
    while size >= min(FEW, len(turn.text)) and least < room:
        text, missing = _begun(turn.text, size) if size < 3 * END else cut(turn.text, len(turn.text) // 2, size)
        short = replace(bare, text=text, left_out=(turn.left_out or 0) + missing or None)
        if (cost := as_json(short)) <= room:
            return short
        size = min(size - 1, size * (room - least) // (cost - least))
    return None


def _begun(text: str, size: int) -> tuple[str, int]:
    """Return the beginning of a text, which says that it is one, and how many characters are missing."""
    return (text, 0) if len(text) <= size else (text[:size] + "…", len(text) - size)


def as_json(one: Passage | Said | Turn) -> int:
    """Return what a passage, or a turn, costs in an answer."""
    from bede.engines import tokens

    return tokens.count(json.dumps(one.to_json(), ensure_ascii=False)) + 2


def fitting(
    found: Sequence[Passage], budget: int, tell: Telling, cost: Callable[[Passage | Said], int] = as_json
) -> tuple[list[Passage], int]:
    """Return as many passages, best first, as a budget has room for, and how many had none.

    Short ones are whole. Of what is left the long ones get their share, the better ones more, and show what tells most.
    """
    needs = [[cost(turn) for turn in one.turns] for one in found]
    heads = [cost(replace(one, turns=())) for one in found]
    bares = [
        head + cost(replace(turn, text=""))
        for one, head in zip(found, heads, strict=True)
        for turn in one.turns
        if turn.turn == one.best
    ]
    rooms = _rooms([head + sum(need) for head, need in zip(heads, needs, strict=True)], bares, budget)
    shown = (
        _shown(one, need, room - head, tell, cost)
        for one, need, head, room in zip(found, needs, heads, rooms, strict=False)
    )
    kept = [one for one in shown if one.turns]
    return kept, len(found) - len(kept)


def _rooms(needs: Sequence[int], bares: Sequence[int], budget: int) -> list[int]:
    """Return what each passage may cost: of the first ones, as many as get enough to be of use.

    `bares` is what each costs before the first word.
    """
    texts = [need - bare for need, bare in zip(needs, bares, strict=True)]
    weights = [1 / (1 + SLOPE * rank) for rank in range(len(needs))]
    for count in range(len(needs), 0, -1):
        rooms = shares(texts[:count], weights[:count], budget - sum(bares[:count]))
        if all(room >= (text if text <= SHORT else LEAST) for room, text in zip(rooms, texts, strict=False)):
            break
    else:
        return [budget] if needs else []
    found = [room + bare for room, bare in zip(rooms, bares, strict=False)]
    # What is left over is too little for one more, unless the turn that answers fits by itself.
    return [*found, budget - sum(found)] if count < len(needs) else found


def _shown(
    one: Passage, needs: Sequence[int], room: int, tell: Telling, cost: Callable[[Passage | Said], int]
) -> Passage:
    """Return the turns of a passage that a room holds: the one that answers first, then from there outwards."""
    at = next(spot for spot, turn in enumerate(one.turns) if turn.turn == one.best)
    kept: dict[int, Said] = {}
    for spot in sorted(range(len(needs)), key=lambda spot: (abs(spot - at), -spot)):
        if needs[spot] > room:
            short = _quoted(one.turns[spot], needs[spot], room, tell, cost)
            kept |= {spot: short} if short else {}
            break
        kept[spot] = one.turns[spot]
        room -= needs[spot]
    return replace(one, turns=tuple(kept[spot] for spot in sorted(kept)))


def _quoted(
    turn: Said, need: int, room: int, tell: Telling, cost: Callable[[Passage | Said], int]
) -> Said | None:
    """Return a turn cut to a room, or nothing where that is too little to be of use."""
    bare = cost(replace(turn, text=""))
    if room - bare < QUOTED:
        return None
    size = (room - bare) * len(turn.text) // max(1, need - bare)
    for part in (1.0, 0.85, 0.7):  # Pieces may hold more tokens by the character than the whole.
        text, missing = quote(turn.text, tell, int(size * part))
        short = replace(turn, text=text, left_out=(turn.left_out or 0) + missing or None)
        if text.strip() and cost(short) <= room:
            return short
    return None
