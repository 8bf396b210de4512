"""What is known of a Codex session while its records are read: which it is, whose turn it is, what was given.

All of it is a small JSON object, so that reading can stop after any record and go on another day.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Literal

from bede.quick import dataclass, field
from bede.sources.kept import clean
from bede.sources.port import Item, Prompt, Rewind, Session, Tally, Usage, What

AGENT = "codex"

#: How many of the latest turns, and of their keys, a rollback may name.
TURNS, KEYS = 32, 512
#: Records of a copied beginning are written in one go; a turn that begins later than this after the last is new.
PAUSE = 1_000_000
#: Longer ids, folders and names are none; state stays small.
SHORT = 1024

UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Precision = Literal["", "us", "ms", "s", "min"]


@dataclass(slots=True)
class Place:
    """A record that is being read: where it stands, when it was written, what it gave so far."""

    state: dict[str, Any]
    tally: Tally
    where: str
    line: int
    fallback: str  # the session's id, where the file tells none
    at: int | None = None
    precision: Precision = ""
    given: list[Item] = field(default_factory=list)


def short(value: Any) -> str:
    """Return a text that is kept; nothing where it is none, or no honest one."""
    return value if isinstance(value, str) and len(value) <= SHORT else ""


def digest(text: str) -> str:
    """Return what stands for a text, as it is kept, where only its sameness matters."""
    return hashlib.blake2b(clean(text).strip().encode(), digest_size=6).hexdigest()


def give(place: Place, what: What, key: str = "", mark: str = "") -> str:
    """Add an item, and return its key; `mark` is what names it within its turn, in a copy as well."""
    state = place.state
    key = key or f"{place.where}:{len(place.given)}"
    turn = state.get("turn", "")
    origin = f"{turn}:{mark}" if mark and UUID.fullmatch(turn) else ""
    place.given.append(
        Item(
            state.get("id") or place.fallback,
            key,
            what,
            place.at,
            place.precision,
            place.line,
            origin=origin,
            is_replayed="copied" in state or bool(state.get("replayed")),
            is_side=bool(state.get("side")),
        )
    )
    if not isinstance(what, Session | Usage | Rewind):
        _trail(state, key, isinstance(what, Prompt) and what.speaker in ("human", "delegated"))
    return key


def _trail(state: dict[str, Any], key: str, begins: bool) -> None:
    """Keep the keys of the latest turns, in case that they are rolled back."""
    trail: list[list[str]] = state.setdefault("trail", [])
    if begins or not trail:
        trail.append([])
        del trail[:-TURNS]
    if key not in trail[-1]:
        trail[-1].append(key)
    del trail[-1][1 : 1 + len(trail[-1]) - KEYS]
    while len(trail) > 1 and sum(map(len, trail)) > KEYS:
        del trail[0]


def met(place: Place, payload: dict[str, Any]) -> None:
    """Take what a session says of itself: the first is this one, others are those it was copied from."""
    state, identity = place.state, short(payload.get("id")) or short(payload.get("session_id"))
    if "id" in state and identity != state["id"]:
        if not state.get("begun"):
            state["copied"] = place.at
        return
    state["id"] = identity or place.fallback
    source = payload.get("source")
    agent = source.get("subagent") if isinstance(source, dict) else None
    spawned = agent.get("thread_spawn") if isinstance(agent, dict) else None
    fork, parent = short(payload.get("forked_from_id")), short(payload.get("parent_thread_id"))
    if isinstance(spawned, dict):
        parent = parent or short(spawned.get("parent_thread_id"))
    state["forked"] = bool(fork)
    state["paged"] = payload.get("history_mode") == "paginated"
    state["side"] = agent is not None or payload.get("thread_source") == "subagent"
    git = payload.get("git")
    know(
        place,
        version=short(payload.get("cli_version")) or short(payload.get("version")),
        model=short(payload.get("model")),
        cwd=short(payload.get("cwd")),
        branch=short(git.get("branch")) if isinstance(git, dict) else "",
        parent=parent or fork if state["side"] else fork or parent,
        origin="subagent" if state["side"] else "fork" if fork else "",
    )


def know(place: Place, **told: str) -> None:
    """Give the session where something new is told of it."""
    known = place.state.get("session")
    new = {**(known or {}), **{name: value for name, value in told.items() if value}}
    if new != known:
        place.state["session"] = new
        give(place, Session(AGENT, **new), "session")


def turned(place: Place, payload: dict[str, Any]) -> None:
    """Take the beginning of a turn, by which a copied beginning is told from what is this session's own."""
    turn = short(payload.get("turn_id"))
    if turn and turn != place.state.get("turn"):
        place.state["turn"] = turn
        place.state.pop("said", None)
    own(place, turn)


def own(place: Place, turn: str) -> None:
    """Find out whether a turn is this session's own: it began after the session did, or after a pause."""
    state = place.state
    born, began = _minted(state.get("id", "")), _minted(turn)
    last = state.get("copied")
    replayed = False
    if born is not None and began is not None and ("copied" in state or state.get("forked")):
        replayed = began < born
    elif last is not None and place.at is not None:
        replayed = abs(last - place.at) < PAUSE
    if not replayed:
        state["begun"] = True
        state.pop("copied", None)
    state["replayed"] = replayed


def _minted(identity: str) -> int | None:
    """Return the milliseconds that an id of version 7 holds."""
    return int(identity[:8] + identity[9:13], 16) if UUID.fullmatch(identity) and identity[14] == "7" else None


def context(place: Place, payload: dict[str, Any]) -> None:
    """Take the settings of a turn: where it works, and with which model."""
    turned(place, payload)
    if not place.state.get("replayed"):
        know(place, cwd=short(payload.get("cwd")), model=short(payload.get("model")))


def renamed(place: Place, payload: dict[str, Any]) -> None:
    """Take the title that a session was given."""
    if not place.state.get("replayed"):
        know(place, title=short(payload.get("thread_name")))


def rolled_back(place: Place, payload: dict[str, Any]) -> None:
    """Take that the person went back behind some turns."""
    count, trail = payload.get("num_turns"), place.state.get("trail", [])
    if isinstance(count, int) and not isinstance(count, bool) and count > 0 and trail:
        keys = [key for turn in trail[-count:] for key in turn]
        del trail[-count:]
        give(place, Rewind(tuple(keys)))
