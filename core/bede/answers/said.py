"""Turns as a reader gets them: attributed, dated, whole where there is room, and never a wall of text."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bede.identity import timestamp
from bede.projections import sessions
from bede.records import Record
from bede.turns import text_of

if TYPE_CHECKING:
    from bede.answers.talk import Found

#: Most characters of one turn that are shown; of a longer one the part around what was found, and its ends.
LONGEST = 6000
#: Characters shown of either end of a turn that is cut.
END = 300


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
    from bede.engines import tokens

    kept: list[Turn] = []
    left = budget - room
    for turn in found:
        cost = tokens.count(json.dumps(turn.to_json(), ensure_ascii=False)) + 2
        if cost > left:
            bare = tokens.count(json.dumps(replace(turn, text="").to_json(), ensure_ascii=False)) + 20
            if left - bare < 60:
                break
            short, missing = cut(turn.text, len(turn.text) // 2, max(2 * END + 100, (left - bare) * 2))
            if tokens.count(short) + bare > left:
                break
            turn, cost = replace(turn, text=short, left_out=(turn.left_out or 0) + missing), left
        kept.append(turn)
        left -= cost
    return kept, len(found) - len(kept)


def fitting(found: Sequence[Passage], budget: int) -> tuple[list[Passage], int]:
    """Return as many passages, best first, as a budget of tokens has room for, and how many had none.

    Of the first that does not fit, the turn that was found is kept, cut to the room that is left.
    """
    from bede.engines import tokens

    kept: list[Passage] = []
    left = budget
    for one in found:
        cost = tokens.count(json.dumps(one.to_json(), ensure_ascii=False)) + 2
        if cost > left:
            core = replace(one, turns=tuple(turn for turn in one.turns if turn.turn == one.best))
            room = left - tokens.count(json.dumps(replace(core, turns=()).to_json())) - 80
            if room < 80:
                break
            text, missing = cut(core.turns[0].text, len(core.turns[0].text) // 2, max(2 * END + 100, room * 2))
            said = replace(core.turns[0], text=text, left_out=(core.turns[0].left_out or 0) + missing or None)
            one = replace(core, turns=(said,))
            cost = tokens.count(json.dumps(one.to_json(), ensure_ascii=False)) + 2
            if cost > left:
                break
        kept.append(one)
        left -= cost
    return kept, len(found) - len(kept)
