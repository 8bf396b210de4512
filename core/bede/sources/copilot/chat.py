"""Copilot's chats in VS Code: a whole session as one JSON file, or as the log of its mutations.

A log is replayed to the state that it leads to, and only that is read: what was said and taken back while a reply
streamed is no part of it. A log that lost its beginning gives what its later records hold.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from bede.errors import BadSource, cause
from bede.sessions import session_of
from bede.sources import jsonl
from bede.sources.port import (
    Call,
    Edit,
    Item,
    Prompt,
    Reply,
    Result,
    Session,
    Speaker,
    Tally,
    Thought,
    Usage,
    What,
    tail,
)
from bede.sources.vscode import (
    count,
    decoded,
    folder,
    instant,
    is_command,
    keyed,
    mapping,
    number,
    place,
    sequence,
    short,
    text,
)
from bede.sources.vscode.tools import COPILOT, SHOWN, Deed, deed

#: Longest session that is read: it has to be held in memory.
LONGEST = 512 * 1024 * 1024
#: How many elements of an array a log without its beginning may leave out.
GAP = 256

_NOTHING = object()
#: Kinds of mutations: the whole, a value set, a list cut and lengthened, a value taken out.
_KINDS = (0, 1, 2, 3)
#: What the fields of a request that hold what was said may be.
_SHAPES: dict[str, Any] = {"message": (dict, str), "response": list}
_FENCE = re.compile(r"\s*(?:`{3,}|~{3,})[\w-]*\s*")
#: How a person answered, of `isConfirmed.type`: refused, and skipped.
_REFUSED = (0, 5)


def load(path: Path, tally: Tally) -> Iterator[Item]:
    """Yield the items of a session, in the order of its requests.

    Raises:
        BadSource: nothing in it can be read.
    """
    state = _whole(path) if path.suffix == ".json" else replayed(path, tally)
    if not is_session(state):
        raise BadSource(f"{path} is no chat session", hint="name a file of `chatSessions`", reason="format")
    if path.suffix == ".json":
        tally.types["session"] += 1
    yield from _session(state, path, tally)


def _whole(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            found = file.read(LONGEST + 1)
    except OSError as error:
        raise BadSource(f"{path} cannot be read: {cause(error)}", reason="file") from error
    return None if len(found) > LONGEST else decoded(found.strip(b"\x00 \t\r\n"))


def replayed(path: Path, tally: Tally) -> Any:
    """Return the state that a log of mutations leads to; None where it holds none.

    Raises:
        BadSource: the file cannot be read.
    """
    state: Any = None
    try:
        with path.open("rb") as file:
            for _, record in jsonl.records(file, path, jsonl.Cursor(), tally):
                state = _mutated(state, record, tally)
    except OSError as error:
        raise BadSource(f"{path} cannot be read: {cause(error)}", reason="file") from error
    return state


def _mutated(state: Any, record: Any, tally: Tally) -> Any:
    """Return a state after one mutation; one that makes no sense is counted, and changes nothing."""
    kind = number(mapping(record).get("kind"))
    tally.types["" if kind is None else str(kind)] += 1
    if kind not in _KINDS:
        if kind is None:
            tally.bad("no mutation")
        return state
    steps, value = record.get("k", [] if kind == 0 else None), record.get("v")
    if not isinstance(steps, list) or not _fits(kind, steps, value):
        tally.bad("no mutation")
        return state
    if not steps:
        return value
    if state is None:
        tally.bad("no beginning")
        state = {}
    if not _put(state, steps, record, kind):
        tally.bad("leads nowhere")
    return state


def _fits(kind: int, steps: list[Any], value: Any) -> bool:
    """Tell whether a value can stand where a mutation puts it: a session, requests, what was said, more of a list."""
    if kind == 0 or not steps:
        return kind in (0, 1) and is_session(value)
    if kind == 2:
        return isinstance(value, list) or value is None
    if steps[0] != "requests" or len(steps) > 3 or kind == 3:
        return True
    shapes = list, dict, _SHAPES.get(text(steps[-1]), object)
    return isinstance(value, shapes[len(steps) - 1])


def is_session(value: Any) -> bool:
    """Tell whether a value is what a chat's file holds."""
    is_named = isinstance(value, dict) and ("requests" in value or "sessionId" in value or "creationDate" in value)
    return is_named and isinstance(value.get("requests", []), list)


def _put(state: Any, steps: list[Any], record: dict[str, Any], kind: int) -> bool:
    """Carry out one mutation; False where its path leads nowhere."""
    for step, following in pairwise(steps):
        state = _below(state, step, [] if isinstance(following, int) else {})
    last = steps[-1]
    if kind == 2:
        array = _below(state, last, [])
        if not isinstance(array, list):
            return False
        if (keep := number(record.get("i"))) is not None:
            del array[max(0, keep) :]
        array.extend(sequence(record.get("v")))
        return True
    if kind == 1:
        if _below(state, last, None) is _NOTHING:
            return False
        state[last] = record.get("v")
        return True
    if not isinstance(state, dict) or not isinstance(last, str):
        return isinstance(state, list) and _taken_out(state, last)
    state.pop(last, None)
    return True


def _taken_out(array: list[Any], step: Any) -> bool:
    there = isinstance(step, int) and 0 <= step < len(array)
    if there:
        array[step] = None
    return there


def _below(state: Any, step: Any, empty: Any) -> Any:
    """Return what lies under a step of a path, laid there where nothing does; `_NOTHING` where nothing can."""
    if isinstance(state, dict) and isinstance(step, str):
        if state.get(step) is None:
            state[step] = empty
        return state[step]
    if isinstance(state, list) and isinstance(step, int) and 0 <= step <= max(len(state), GAP):
        state.extend([None] * (step - len(state) + 1))
        if state[step] is None:
            state[step] = empty
        return state[step]
    return _NOTHING


def _session(state: dict[str, Any], path: Path, tally: Tally) -> Iterator[Item]:
    session = session_of("copilot", str(path), text(state.get("sessionId")))
    requests = list(map(mapping, sequence(state.get("requests"))))
    agents = [mapping(request.get("agent")) for request in requests]
    known = Session(
        agent="copilot",
        version=next((version for agent in reversed(agents) if (version := text(agent.get("extensionVersion")))), ""),
        model=next((model for request in reversed(requests) if (model := text(request.get("modelId")))), ""),
        cwd=folder(path.parent.parent),
        title=text(state.get("customTitle")),
    )
    at, precision = instant(state.get("creationDate"))
    yield Item(session, "session", known, at, precision, 1)
    seen: Counter[str] = Counter()
    for place_, request in enumerate(requests, 1):
        if not request:
            tally.bad("empty request")  # of no type that makes sense, or left out by a log without its beginning
            continue
        at, precision = instant(request.get("timestamp"))
        key = keyed(request.get("requestId")) or f"request{place_}-{short(request.get('message'))}"
        seen[key] += 1
        if seen[key] > 1:
            key += f"~{short(request.get('message'), request.get('response'))}"
        is_empty = True
        for name, what in _request(request, key, tally):
            is_empty = False
            yield Item(session, name, what, at, precision, place_)
        if is_empty:
            tally.bad("empty request")


def _request(request: dict[str, Any], key: str, tally: Tally) -> Iterator[tuple[str, What]]:
    """Yield what a request and its response hold, each with its key."""
    message = request.get("message")
    parts = [mapping(part) for part in sequence(mapping(message).get("parts"))]
    asked = text(message) or text(mapping(message).get("text")) or "".join(text(part.get("text")) for part in parts)
    variables = [mapping(each) for each in sequence(mapping(request.get("variableData")).get("variables"))]
    images = sum(each.get("kind") == "image" for each in variables)
    if asked or images:
        yield key, Prompt(asked, _speaker(request, asked), images)
    yield from _response(request, key, tally)
    spent = _usage(request)
    if spent:
        yield f"{key}:usage", spent


def _speaker(request: dict[str, Any], asked: str) -> Speaker:
    if request.get("isSystemInitiated") is True:
        return "notification"
    return "slash" if is_command(asked) else "human"


def _usage(request: dict[str, Any]) -> Usage | None:
    result = mapping(request.get("result"))
    told = mapping(result.get("usage")) or mapping(mapping(result.get("metadata")).get("usage")) or request
    given, made = (count(told.get(name)) or count(request.get(name)) for name in ("promptTokens", "completionTokens"))
    return Usage(text(request.get("modelId")), given, made) if given or made else None


def _response(request: dict[str, Any], key: str, tally: Tally) -> Iterator[tuple[str, What]]:
    """Yield replies, thoughts, calls and results, in the order of the response."""
    model = text(request.get("modelId"))
    parts = [{"value": part} if isinstance(part, str) else mapping(part) for part in sequence(request.get("response"))]
    deeds = _deeds(request, parts)
    changes = _changes(parts, deeds)
    said: list[str] = []
    begin = 0
    for place_, part in enumerate([*parts, {"kind": "end"}]):
        kind = _kind(part)
        if place_ < len(parts):
            tally.types[kind] += 1
            if not kind:
                tally.bad("no part")
        if kind in ("markdown", "inlineReference"):
            begin = begin if said else place_
            said.append(_markdown(part) if kind == "markdown" else f"`{_referred(part)}`")
            continue
        if kind not in ("thinking", "toolInvocationSerialized", "textEditGroup", "notebookEditGroup", "end"):
            continue
        if (whole := "".join(said)).strip():
            yield f"{key}:{begin}", Reply(whole, model)
        said = []
        yield from _deeds_of(part, kind, f"{key}:{place_}", deeds.get(place_), changes.get(place_, ()))
    failed = text(mapping(mapping(request.get("result")).get("errorDetails")).get("message"))
    if failed:
        yield f"{key}:error", Reply(failed, model, is_error=True)


def _kind(part: dict[str, Any]) -> str:
    kind = text(part.get("kind")) or ("markdown" if "value" in part else "")
    return "markdown" if kind in ("markdownContent", "markdownVuln") else kind


def _markdown(part: dict[str, Any]) -> str:
    """Return the text of a part; nothing for the bare fences that VS Code lays around an edit."""
    content = part.get("content")
    value = text(part.get("value")) or text(content) or text(mapping(content).get("value"))
    return "" if _FENCE.fullmatch(value) else value


def _referred(part: dict[str, Any]) -> str:
    """Return the name of a file or symbol that stands in a sentence."""
    target = mapping(part.get("inlineReference"))
    name = text(part.get("name")) or text(target.get("name"))
    return name or place(mapping(target.get("uri")) or target).replace("\\", "/").rstrip("/").rpartition("/")[2]


def _deeds_of(
    part: dict[str, Any], kind: str, key: str, known: Deed | None, changes: tuple[Edit, ...]
) -> Iterator[tuple[str, What]]:
    """Yield what a part of a response that is no text tells."""
    if kind == "thinking":
        value = part.get("value")
        thought = "\n".join(map(text, value)) if isinstance(value, list) else text(value)
        if thought.strip():
            yield key, Thought(thought)
    elif kind == "toolInvocationSerialized" and known:
        call = text(part.get("toolCallId")) or key
        # The place is part of the key: an id may come twice.
        target = known.target or (changes[0].path if changes else "")
        yield f"{key}:call", Call(call, text(part.get("toolId")), target, known.sort, known.edits)
        if result := _result(part, call, changes):
            yield f"{key}:result", result
    elif kind in ("textEditGroup", "notebookEditGroup") and changes:
        yield f"{key}:call", Call(key, kind, changes[0].path, "edit", changes)
        if isinstance(done := part.get("done"), bool):
            yield f"{key}:result", Result(key, done)


def _result(part: dict[str, Any], call: str, changes: tuple[Edit, ...]) -> Result | None:
    """Return how a call ended; None where it did not, or the session does not tell."""
    confirmed = part.get("isConfirmed")
    is_refused = confirmed is False or number(mapping(confirmed).get("type")) in _REFUSED
    specific = mapping(part.get("toolSpecificData"))
    details = mapping(part.get("resultDetails"))
    status = number(mapping(specific.get("terminalCommandState")).get("exitCode"))
    if part.get("isComplete") is not True and not is_refused and status is None:
        return None
    ok = not (is_refused or details.get("isError") is True or status)
    output = "" if ok else tail(text(mapping(specific.get("terminalCommandOutput")).get("text")) or _output(details))
    return Result(call, ok, status, is_refused, output, changes)


def _output(details: dict[str, Any]) -> str:
    output = details.get("output")
    return text(output) or "\n".join(text(mapping(each).get("value")) for each in sequence(output))


def _deeds(request: dict[str, Any], parts: list[dict[str, Any]]) -> dict[int, Deed]:
    """Return what each call of a response does, by the place of its part.

    VS Code keeps the arguments elsewhere, under other ids: they are told apart by the tool and their order, and only
    where there are as many of them as there are calls.
    """
    wanted: dict[str, list[Any]] = {}
    metadata = mapping(mapping(request.get("result")).get("metadata"))
    for round_ in sequence(metadata.get("toolCallRounds")):
        for asked in map(mapping, sequence(mapping(round_).get("toolCalls"))):
            wanted.setdefault(text(asked.get("name")), []).append(asked.get("arguments"))
    places: dict[str, list[int]] = {}
    for place_, part in enumerate(parts):
        if _kind(part) == "toolInvocationSerialized":
            tool = text(part.get("toolId"))
            places.setdefault(SHOWN.get(tool, tool), []).append(place_)
    found = {}
    for name, mine in places.items():
        given = wanted.get(name, [])
        for place_, arguments in zip(mine, given if len(given) == len(mine) else [None] * len(mine), strict=True):
            part = parts[place_]
            known = deed(COPILOT, text(part.get("toolId")), arguments, of_server=_is_of_server(part))
            found[place_] = _completed(known, part)
    return found


def _is_of_server(part: dict[str, Any]) -> bool:
    return text(mapping(part.get("source")).get("type")) == "mcp"


def _completed(known: Deed, part: dict[str, Any]) -> Deed:
    """Return what a call does, its target taken from what VS Code shows where its arguments do not tell."""
    if known.target:
        return known
    specific = mapping(part.get("toolSpecificData"))
    line = mapping(specific.get("commandLine"))
    target = text(line.get("userEdited")) or text(line.get("toolEdited")) or text(line.get("original"))
    target = target or text(specific.get("command")) or text(specific.get("description"))
    for name in ("invocationMessage", "pastTenseMessage"):
        message = mapping(part.get(name))
        target = target or next(map(place, mapping(message.get("uris"))), "")
        quoted = re.search(r"`([^`\n]+)`", text(message.get("value")))
        target = target or (quoted[1] if quoted else "")
    raw = mapping(specific.get("rawInput"))
    return known._replace(target=target or next((value for value in raw.values() if isinstance(value, str)), ""))


def _changes(parts: list[dict[str, Any]], deeds: dict[int, Deed]) -> dict[int, tuple[Edit, ...]]:
    """Return the edits that a response shows, by the place of the call that made them, or else by their own.

    What a call's arguments tell already, with its old text, is left out.
    """
    told = {edit.path for known in deeds.values() for edit in known.edits}
    found: dict[int, tuple[Edit, ...]] = {}
    caller: int | None = None
    for place_, part in enumerate(parts):
        kind = _kind(part)
        if place_ in deeds and deeds[place_].sort in ("edit", "create"):
            caller = place_
        if kind not in ("textEditGroup", "notebookEditGroup"):
            continue
        path = place(part.get("uri"))
        if path and path not in told:
            at = place_ if caller is None else caller
            found[at] = (*found.get(at, ()), Edit(path, new="\n".join(_texts(part.get("edits")))))
    return found


def _texts(edits: Any) -> Iterable[str]:
    for group in sequence(edits):
        for edit in group if isinstance(group, list) else [group]:
            if value := text(mapping(edit).get("text")):
                yield value
