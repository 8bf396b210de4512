"""What Codex's tools were called for and how that ended, and what the requests cost, as items.

Events and the items of the history tell the same of a call; an event is believed first. Calls that a script made are
only told by events. Token counts stand there twice and more, and their totals may go back.
"""

from __future__ import annotations

from typing import Any

from bede.sources.codex import tools
from bede.sources.codex.state import Place, digest, give
from bede.sources.port import Call, Edit, Result, Usage, tail

#: How many of the latest calls are kept to know their ends.
CALLS = 48
#: Longer ids are told by their digest.
LONGEST = 128

_COUNTS = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens", "total_tokens")


def _identity(place: Place, *found: Any) -> str:
    """Return the id of a call; its place where it has none."""
    for value in found:
        if isinstance(value, str) and value:
            return value if len(value) <= LONGEST else digest(value)
    return f"@{place.where}"


def call(place: Place, payload: dict[str, Any]) -> None:
    """Take an item of the history that calls a tool."""
    asked = tools.asked(payload)
    if asked is None or not asked.tool:
        return place.tally.bad("no tool")
    identity = _identity(place, payload.get("call_id"), payload.get("id"))
    _called(place, identity, asked)
    if asked.tool == "exec":
        place.state["script"] = identity
    return None


def _called(place: Place, identity: str, asked: tools.Asked) -> dict[str, Any]:
    """Give a call, and remember it for its end; an id that comes again is told by its place."""
    calls: dict[str, dict[str, Any]] = place.state.setdefault("calls", {})
    name = f"{identity}@{place.where}" if calls.pop(identity, None) else identity
    key = give(place, Call(name, asked.tool, asked.target, asked.sort, asked.edits), mark=f"call:{name}")
    return _remember(place, identity, {"key": key, "call": name, "edits": bool(asked.edits)})


def _remember(place: Place, identity: str, entry: dict[str, Any]) -> dict[str, Any]:
    """Keep a call until it and enough others have ended: what runs in the background may end much later."""
    calls: dict[str, dict[str, Any]] = place.state.setdefault("calls", {})
    calls[identity] = entry
    if len(calls) > CALLS:
        over = (name for name, known in calls.items() if known.get("ended", [None])[0] is not None)
        del calls[next(over, next(iter(calls)))]
    return entry


def output(place: Place, payload: dict[str, Any]) -> None:
    """Take what a call put out."""
    identity = _identity(place, payload.get("call_id"))
    if place.state.get("script") == identity:
        del place.state["script"]
    entry = place.state.get("calls", {}).get(identity) or _stray(place, identity)
    _end(place, entry, tools.put_out(payload), (), first=False)


def ended(place: Place, item: dict[str, Any]) -> None:
    """Take an event about the end of a call; it tells the call as well where no item of the history does.

    That is so for what a script called, and in a paginated history.
    """
    identity = _identity(place, item.get("call_id"), item.get("callId"), item.get("id"))
    calls = place.state.get("calls", {})
    outcome, made = tools.told(item), tools.changes(item.get("changes"))
    entry, running = calls.get(identity), calls.get(place.state.get("script", ""))
    if entry is None and (running is not None or place.state.get("paged")):
        asked = tools.inside(item)
        entry = _called(place, identity, _without_edits(asked) if running and running["edits"] else asked)
        made = ()
    entry = entry or _stray(place, identity)
    if outcome.ok is not None or made:
        _end(place, entry, outcome, () if entry["edits"] else made, first=True)


def _without_edits(asked: tools.Asked) -> tools.Asked:
    """Leave out edits that the script has told already."""
    return tools.Asked(asked.tool, asked.target, asked.sort)


def _stray(place: Place, identity: str) -> dict[str, Any]:
    """Return what stands for a call that the file does not hold."""
    return _remember(place, identity, {"key": place.where, "call": identity, "edits": False})


def _end(place: Place, entry: dict[str, Any], outcome: tools.Outcome, made: tuple[Edit, ...], first: bool) -> None:
    """Give how a call ended, and again only if more is known; what an event tells goes `first`."""
    before: list[Any] | None = entry.get("ended")
    told, known = [outcome.ok, outcome.exit_status], before[:2] if before else [None, None]
    believed, other = (told, known) if first else (known, told)
    ok, status = (two if one is None else one for one, two in zip(believed, other, strict=True))
    denied = outcome.denied or (before is not None and before[2] is True)
    if before is not None and (before == [ok, status, denied] or entry.get("made")):
        return
    entry["ended"], entry["made"] = [ok, status, denied], bool(made)
    text = tail(outcome.text) if ok is False else ""
    give(
        place,
        Result(entry["call"], ok, status, denied, text, made),
        f"{entry['key']}:result",
        f"call:{entry['call']}:result",
    )


def token_count(place: Place, payload: dict[str, Any]) -> None:
    """Take an event about tokens; the first ones of a session often hold none."""
    info = payload.get("info")
    if isinstance(info, dict):
        _spend(place, info.get("total_token_usage"), info.get("last_token_usage"))


def token_record(place: Place, payload: dict[str, Any]) -> None:
    """Take a record of one request's tokens, unless it is another thread's."""
    if payload.get("thread_id") in (None, place.state.get("id")):
        _spend(place, payload.get("thread_token_usage"), payload.get("usage"))


def _spend(place: Place, total: Any, last: Any) -> None:
    """Give the tokens of a request, once for each new total; a total that goes back costs nothing by itself."""
    now, before = _counts(total), place.state.get("spent")
    if now is None or now == before:
        return
    place.state["spent"] = now
    used = _counts(last) or [max(0, new - old) for new, old in zip(now, before or [0] * 5, strict=True)]
    write = last.get("cache_write_input_tokens") if isinstance(last, dict) else 0
    give(
        place,
        Usage(
            place.state.get("session", {}).get("model", ""),
            max(0, used[0] - used[1]),
            used[2],
            used[1],
            _count(write),
            used[3],
            now[4] or now[0] + now[2],
        ),
        mark=f"usage:{digest(repr(now))}",
    )


def _counts(value: Any) -> list[int] | None:
    """Return the numbers of a usage; None where it has none of them."""
    if not isinstance(value, dict) or not any(name in value for name in _COUNTS):
        return None
    return [_count(value.get(name)) for name in _COUNTS]


def _count(value: Any) -> int:
    """Return a number of tokens; nothing where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else 0
