"""The pi family's sessions: JSON lines that make up a tree of entries, versions 1 to 3, shared by `pi` and `omp`.

Line 1 is the session's header (in omp after a slot of 256 bytes for the title). Every later line is an entry; from
version 2 on it has an id and names its parent: going back makes a branch, and nothing is lost. Version 1 is linear.

An entry's last item has the entry's id for its key, the ones before it that id and a number; where there is no id,
or it was used before, the key is made of the place behind the header. So the key of an entry's parent is known without
keeping much: only entries that are no items have to be remembered as links. Where a parent was lost with its line,
the entry hangs on the one before it. Nothing here decides which branch counts; `active` tells which one pi would show.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bede.quick import replace
from bede.sessions import parent_of, session_of
from bede.sources.kept import clean, named
from bede.sources.pi.entry import moment, tell
from bede.sources.pi.tools import string, table
from bede.sources.port import Call, Item, Result, Session, Spot, Tally, What

#: Ids remembered, to see one that is used twice and to follow links; older ones are forgotten.
REMEMBERED = 4096
#: Most characters of an id, a path or a title that are kept in the state.
LONGEST = 4096
#: Calls whose start is remembered until they end, and sessions that one file is seen to hold.
STARTED = 64

_ID = re.compile(r"(?!session$)[A-Za-z0-9_-]{1,80}")


def take(agent: str, record: Any, spot: Spot, state: dict[str, Any], tally: Tally) -> list[Item]:
    """Return the items of one record of the family, as `port.Stream.take` does."""
    kind = record.get("type") if isinstance(record, dict) else None
    if not isinstance(kind, str):
        tally.bad("no entry")
        return []
    message = table(record.get("message"))
    role = message.get("role") if kind == "message" else None
    tally.types[f"{kind}/{role}"[:80] if isinstance(role, str) else kind[:80]] += 1
    if kind == "title":
        state["title"] = clean(string(record.get("title")))[:LONGEST]
        return _told(agent, spot, state) if "id" in state else []
    if kind == "session":
        return _header(agent, record, spot, state)
    before = _told(agent, spot, state) if "id" not in state else []
    return [*before, *_entry(agent, kind, record, spot, state)]


def active(items: Iterable[Item]) -> set[str]:
    """Return the keys on the path that ends at the last item: what the agent would go on from.

    The session itself is always among them. Where a parent is not among the items, the path goes on with the item
    before: a lost line does not drop what stands above it.
    """
    order: list[str] = []
    parents: dict[str, str] = {}
    keys = set()
    for item in items:
        if isinstance(item.what, Session):
            keys.add(item.key)
            continue
        if item.key not in parents:
            order.append(item.key)
        parents[item.key] = item.parent
    place = {key: number for number, key in enumerate(order)}
    at = len(order) - 1
    while at >= 0 and order[at] not in keys:
        keys.add(order[at])
        parent = parents[order[at]]
        at = place.get(parent, at - 1) if parent else -1
    return keys


# The session


def _header(agent: str, record: dict[str, Any], spot: Spot, state: dict[str, Any]) -> list[Item]:
    """Begin a session, or take in what a repeated header says."""
    _enter(session_of(agent, spot.path.name, string(record.get("id"))), spot, state)
    parent = string(record.get("branchedFrom")) or string(record.get("parentSession"))
    at, precision = moment(record.get("timestamp"))
    if at is not None:
        state["since"] = [at, precision]
    if parent and at is not None:
        state["fork"] = at
    told = {
        "cwd": string(record.get("cwd")),
        "model": string(record.get("modelId")),
        "parent": session_of(agent, parent),
        "origin": "fork" if parent else "",
        "title": state.get("title") or string(record.get("title")),
    }
    return _told(agent, spot, state, **{key: value for key, value in told.items() if 0 < len(value) <= LONGEST})


def _enter(name: str, spot: Spot, state: dict[str, Any]) -> None:
    """Go on with a session; where a file holds several, each has ids of its own, also when it is come back to."""
    if state.get("id") == name:
        return
    for key in [key for key in state if key not in ("base", "title", "nodes", "met")]:
        del state[key]
    met: dict[str, str] = state.get("met", {})
    scope = met.get(name, f"{spot.place}/" if met else "")
    state["met"] = {**dict(list(met.items())[-STARTED:]), name: scope}
    state["id"], state["scope"] = name, scope


def _told(agent: str, spot: Spot, state: dict[str, Any], **more: str) -> list[Item]:
    """Return the session's item if anything in it is new."""
    if "id" not in state:
        _enter(session_of(agent, spot.path.name), spot, state)
    known = state.get("session")
    told = known if known is not None else _lineage(agent, spot.path, state)
    if told.get("origin") == "subagent":
        more = {name: value for name, value in more.items() if name not in ("parent", "origin")}
    told = {**told, **more}
    if state.get("title"):
        told["title"] = state["title"]
    if told == known:
        return []
    state["session"] = told
    at, precision = state.get("since", (None, ""))
    return [Item(state["id"], "session", Session(agent, **told), at, precision, spot.line)]


def _lineage(agent: str, path: Path, state: dict[str, Any]) -> dict[str, str]:
    """Return what the path tells: a session in the folder of another is one of its sub-agents."""
    parent = parent_of(agent, str(path))
    if not parent:
        return {}
    state["side"] = True
    state.pop("fork", None)
    return {"parent": parent, "origin": "subagent"}


# Entries and their tree


def _entry(agent: str, kind: str, record: dict[str, Any], spot: Spot, state: dict[str, Any]) -> list[Item]:
    """Return the items of an entry, each hanging on the one before, and remember where the entry leads to."""
    base = state.setdefault("base", spot.line)
    changes = _changes(kind, record, state)
    news = _told(agent, spot, state, **changes) if changes else []
    parts = list(tell(kind, record, state))
    nodes: dict[str, str] = state.setdefault("nodes", {})
    name = record.get("id")
    name = name if isinstance(name, str) and _ID.fullmatch(named(name)) else ""
    node = state["scope"] + name
    key = name if name and node not in nodes else f"@{spot.line - base}.{spot.part}"
    parent = _parent(record, state)
    if name:
        nodes.pop(node, None)
        nodes[node] = (key if key != name else "") if parts else f">{parent}"
        if len(nodes) > REMEMBERED:
            del nodes[next(iter(nodes))]
    if parts:
        state["last"] = key
    elif name or "parentId" in record:
        state["last"] = parent
    return [*news, *_chained(parts, key, parent, record, spot, state)]


def _parent(record: dict[str, Any], state: dict[str, Any]) -> str:
    """Return the key of the nearest item above an entry: its parent's, or, where that is not known, the one before."""
    last: str = state.get("last", "")
    if "parentId" not in record:
        return last
    above = record["parentId"]
    if above is None:
        return ""
    if not isinstance(above, str) or not _ID.fullmatch(named(above)):
        return last
    found: str | None = state["nodes"].get(state["scope"] + above)
    if found is None:
        return above if len(state["nodes"]) >= REMEMBERED else last
    return found[1:] if found.startswith(">") else found or above


def _chained(
    parts: list[tuple[str, What]], key: str, parent: str, record: dict[str, Any], spot: Spot, state: dict[str, Any]
) -> Iterator[Item]:
    """Yield the parts of an entry as items: the last one has the entry's key."""
    at, precision = moment(record.get("timestamp"))
    copied = f"{key}@{at}" if at is not None and key == record.get("id") else ""
    if at is None:
        at, precision = moment(table(record.get("message")).get("timestamp"))
    replayed = "fork" in state and at is not None and at < state["fork"]
    for number, (label, what) in enumerate(parts, 1):
        own = key if number == len(parts) else f"{key}:{label}"
        if isinstance(what, Call | Result) and not what.call and (number > 1 or isinstance(what, Call)):
            what = replace(what, call=own if isinstance(what, Call) else parent)
        yield Item(
            session=state["id"],
            key=own,
            what=what,
            at=at,
            precision=precision,
            line=spot.line,
            parent=parent,
            origin=f"{copied}:{label}" if copied else "",
            is_replayed=replayed,
            is_side=bool(state.get("side")),
        )
        parent = own


def _changes(kind: str, record: dict[str, Any], state: dict[str, Any]) -> dict[str, str]:
    """Return what an entry tells about the session, and note what later ones are read by."""
    changes: dict[str, str] = {}
    if kind == "model_change" and record.get("role") in (None, "default"):
        changes["model"] = string(record.get("modelId")) or string(record.get("model")).split("/", 1)[-1]
    elif kind in ("session_info", "title_change"):
        title = string(record.get("name")) or string(record.get("title"))
        changes["title"] = state["title"] = clean(title)[:LONGEST]
    elif kind == "session_init":
        state["side"] = True
        changes["origin"] = "subagent"
    elif kind == "custom" and record.get("customType") == "tool_execution_start":
        data = table(record.get("data"))
        started: dict[str, int] = state.setdefault("started", {})
        at, _ = moment(data.get("startedAt"))
        if at is not None and (call := string(data.get("toolCallId"))):
            started[call[:200]] = at
        if len(started) > STARTED:
            del started[next(iter(started))]
    elif kind == "message":
        message = table(record.get("message"))
        if message.get("role") == "assistant":
            state["timed"] = "durationMs" in message
            changes["model"] = string(message.get("model"))
    return {key: value for key, value in changes.items() if 0 < len(value) <= LONGEST}
