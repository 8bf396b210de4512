"""What a record of Claude Code brings beside what it says: session, place in the tree, time, and keys for its items.

Of what was read before, only a bounded part is kept, all of it JSON: sessions, the keys of the last records, the
requests to the model that are under way, and the prompts that wait.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Literal
from zlib import crc32

from bede import sessions
from bede.quick import dataclass
from bede.sources.kept import clean
from bede.sources.port import Item, Rewind, Session, Spot, Usage, What

AGENT = "claude-code"

State = dict[str, Any]
Precision = Literal["", "us", "ms", "s", "min"]

#: Most sessions, and records, that are remembered while a file is read.
SESSIONS, RECENT = 8, 64

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LONGEST_ID, _LONGEST_TEXT = 200, 4096

#: Where in what is known of a session the parts of it stand.
_VERSION, _MODEL, _CWD, _BRANCH, _PARENT, _ORIGIN, TITLE, RANK, TOLD = range(9)


@dataclass(frozen=True, slots=True)
class Frame:
    """What all items of one record share."""

    session: str
    uuid: str
    at: int | None
    precision: Precision
    spot: Spot
    parent: str
    is_side: bool
    is_replayed: bool


def begin(spot: Spot, state: State) -> None:
    """Make an empty state one in which nothing is known yet but whether the file is a sub-agent's."""
    stem = spot.path.stem
    state.update(agent=stem[6:] if stem.startswith("agent-") else "", now="")
    state.update(sessions={}, recent={}, requests={}, queue=[])


def _session(record: dict[str, Any], spot: Spot, state: State, is_side: bool) -> tuple[str, str]:
    """Return the session a record belongs to and, for a sub-agent's, the session that made it."""
    session = identity(record.get("sessionId")) or state.get("now") or sessions.session_of(AGENT, str(spot.path))
    state["now"] = session
    if (agent := state["agent"]) or is_side:
        agent = identity(record.get("agentId")) or agent
        return (f"{session}/{agent}", session) if agent else (session, "")
    return session, ""


def bare(record: dict[str, Any], spot: Spot, state: State) -> Frame:
    """Return what the items of a record share that has neither uuid nor place in the tree."""
    session, _ = _session(record, spot, state, False)
    return Frame(session, "", *moment(record.get("timestamp")), spot, "", bool(state["agent"]), False)


def framed(record: dict[str, Any], spot: Spot, state: State) -> tuple[Frame, list[Item]]:
    """Return what the items of a record share, and the news that it brings of its session."""
    is_side = record.get("isSidechain") is True or bool(state["agent"])
    session, parent = _session(record, spot, state, is_side)
    forked = record.get("forkedFrom")
    source = identity(forked.get("sessionId")) if isinstance(forked, dict) else ""
    source = source if source != session else ""
    before = record.get("parentUuid") or record.get("logicalParentUuid")
    follows = state["recent"].get(identity(before), "")
    at, precision = moment(record.get("timestamp"))
    frame = Frame(session, identity(record.get("uuid")), at, precision, spot, follows, is_side, bool(source))
    kin = (parent, "subagent") if parent else (source, "fork") if source else ("", "")
    return frame, news(record, frame, kin, state)


def remember(frame: Frame, items: list[Item], state: State) -> None:
    """Keep under which key a record's last item is found, or that of the record before where it has none."""
    if not frame.uuid:
        return
    recent = state["recent"]
    recent.pop(frame.uuid, None)
    last = frame.parent
    for each in items:
        if not isinstance(each.what, (Usage, Rewind)):
            last = each.key
    recent[frame.uuid] = last
    bound(recent, RECENT)


def bound(kept: dict[str, Any], most: int) -> None:
    """Forget the oldest."""
    while len(kept) > most:
        del kept[next(iter(kept))]


def moment(value: Any) -> tuple[int | None, Precision]:
    """Return a time in microseconds since 1970 and how exactly it is written; None where it is no time."""
    if not isinstance(value, str) or not 16 <= len(value) <= 40:
        return None, ""
    try:
        when = datetime.fromisoformat(value)
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        at = (when - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError):
        return None, ""
    if len(value) == 24 and value[19] == "." and value[23] == "Z":  # as nearly all are written
        return at, "ms"
    if value[19:20] in (".", ","):
        digits = len(value[20:].rstrip("Z").partition("+")[0].partition("-")[0])
        return at, "ms" if digits <= 3 else "us"
    return at, "s" if value[16:17] == ":" else "min"


def session_of(session: str, state: State) -> list[Any]:
    """Return what is known of a session so far, to be changed in place."""
    known: list[Any] | None = state["sessions"].get(session)
    if known is None:
        known = state["sessions"][session] = ["", "", "", "", "", "", "", 0, False]
        bound(state["sessions"], SESSIONS)
    return known


def news(record: dict[str, Any], frame: Frame, kin: tuple[str, str], state: State) -> list[Item]:
    """Return the session, where a record tells more of it than was known."""
    known = session_of(frame.session, state)
    model: Any = ""
    if record.get("type") == "assistant" and isinstance(message := record.get("message"), dict):
        model = message.get("model")
    told = (record.get("version"), model, record.get("cwd"), record.get("gitBranch"), *kin)
    if known[TOLD] and told == (
        known[_VERSION],
        model and known[_MODEL],
        known[_CWD],
        known[_BRANCH],
        known[_PARENT],
        known[_ORIGIN],
    ):
        return []  # as for nearly all records
    changed = not known[TOLD]
    for place, value in enumerate(told):
        if value and value != known[place] and isinstance(value, str) and value != "<synthetic>":
            known[place], changed = value[:_LONGEST_TEXT], True
    known[TOLD] = True
    return [tell(frame, known)] if changed else []


def tell(frame: Frame, known: list[Any]) -> Item:
    """Return the item that tells what is known of a session."""
    version, model, cwd, branch, parent, origin, title, _, _ = known
    what = Session(AGENT, version, model, cwd, branch, parent, origin, title)
    return Item(frame.session, "session", what, frame.at, frame.precision, frame.spot.line, is_side=frame.is_side)


def identity(value: Any) -> str:
    """Return an id that is short enough to be one; nothing where there is none."""
    if not isinstance(value, str):
        return ""
    return value if len(value) <= _LONGEST_ID else sha256(clean(value).encode()).hexdigest()


def digest(*texts: str, about: str = "") -> str:
    """Return a checksum of what an item says, as it is kept, and of something about it that holds no secret."""
    total = crc32(about.encode("utf-8", "surrogatepass"))
    for text in texts:
        total = crc32(clean(text).encode(), total)
    return f"{total:08x}"


def is_global(identity: str) -> bool:
    """Tell whether an id is one of those that the maker of the model gives, and only once."""
    is_shaped = len(identity) >= 20 and identity.startswith(("toolu_", "srvtoolu_", "msg_"))
    return is_shaped and identity.replace("_", "").isalnum()


def item(frame: Frame, number: int, tag: str, what: What, key: str = "") -> Item:
    """Return an item with its key, made of its record's uuid where no better is given, or of its place."""
    spot = frame.spot
    origin = f"{frame.uuid}:{number}:{tag}" if frame.uuid else ""
    return Item(
        frame.session,
        key or origin or f"@{spot.place}:{number}:{tag}",
        what,
        frame.at,
        frame.precision,
        spot.line,
        frame.parent,
        origin,
        frame.is_replayed,
        frame.is_side,
    )
