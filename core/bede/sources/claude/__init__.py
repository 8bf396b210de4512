"""Claude Code: `projects/<slug>/<session>.jsonl`, its sub-agents, and what all its generations write there.

One record holds one block, in newer builds; several share a message id, and its usage. Records are copied into other
files when a session is forked, so an origin is made of the record's uuid, the number of its block and a checksum of
what it says: a uuid that is used twice for different things costs neither. A sub-agent is a session of its own,
`<session>/<agent>`, wherever its records stand. A prompt that waited in the queue keeps the key it got there when it
shows up again, so that it is never there twice. All that is kept between records is bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from bede.sources.claude import tools
from bede.sources.claude.frame import (
    AGENT,
    RANK,
    TITLE,
    TOLD,
    Frame,
    State,
    bare,
    begin,
    bound,
    digest,
    framed,
    identity,
    is_global,
    item,
    remember,
    session_of,
    tell,
)
from bede.sources.claude.places import ENVELOPE, accepts, find
from bede.sources.claude.prompts import parts, queued, spoken
from bede.sources.kept import clean
from bede.sources.port import Item, Prompt, Reply, Result, Rewind, Spot, Tally, Thought, Usage, What

__all__ = ["AGENT", "FORM", "accepts", "find", "take"]

FORM: Literal["stream"] = "stream"

#: Most requests to the model, and queued prompts, that are remembered while a file is read.
REQUESTS, QUEUE = 32, 16
#: Most types of records that are counted by their names.
NAMES = 500
#: Shortest signature of a thought that is one: nobody guesses so many characters.
SIGNATURE = 64

_MOST = 1 << 53
_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


# From one record to its items.


def take(record: Any, spot: Spot, state: State, tally: Tally) -> list[Item]:
    """Return the items of one decoded record, of any JSON type; what makes no sense is counted."""
    if not isinstance(record, dict):
        tally.bad("not an object")
        return []
    kind = record.get("type")
    if not isinstance(kind, str):
        tally.types["None"] += 1
        return []
    name = _name(kind, record)
    tally.types[name if len(tally.types) < NAMES or name in tally.types else "other"] += 1
    reader = _READERS.get(kind)
    if reader is None:
        return []
    if not state:
        begin(spot, state)
    if kind not in ENVELOPE:
        return reader(record, bare(record, spot, state), state, tally)
    frame, news = framed(record, spot, state)
    items = reader(record, frame, state, tally)
    remember(frame, items, state)
    return [*news, *items] if news else items


def _name(kind: str, record: dict[str, Any]) -> str:
    """Return the name under which a record is counted."""
    inner: Any = None
    if kind == "system":
        inner = record.get("subtype")
    elif kind == "attachment" and isinstance(attachment := record.get("attachment"), dict):
        inner = attachment.get("type")
    return f"{kind}/{inner[:64]}" if isinstance(inner, str) else kind[:64]


def _title(record: dict[str, Any], frame: Frame, state: State, _: Tally) -> list[Item]:
    """Take a title; one that a person gave goes before one that was made."""
    name, rank = ("customTitle", 2) if record["type"] == "custom-title" else ("aiTitle", 1)
    title, known = record.get(name), session_of(frame.session, state)
    if not isinstance(title, str) or rank < known[RANK] or (title := clean(title)[:1000]) == known[TITLE]:
        return []
    known[TITLE], known[RANK] = title, rank
    return [tell(frame, known)] if known[TOLD] else []


# Records in the user's role.


def _user(record: dict[str, Any], frame: Frame, state: State, tally: Tally) -> list[Item]:
    """Take a record in the user's role: results of calls, and what somebody or something says."""
    message = record.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    found = parts(content)
    if found is None:
        tally.bad("user without content")
        return []
    items: list[Item] = []
    if isinstance(content, list):
        for number, block in enumerate(content):
            if isinstance(block, dict) and block.get("type") == "tool_result":
                call = identity(block.get("tool_use_id"))
                made = tools.result(call or f"{frame.uuid or frame.spot.place}:{number}", block, record)
                what, mark, key = _ended(made, call)
                items.append(item(frame, number, mark, what, key))
    said = _prompt(record, found, frame, bool(items))
    if said is not None:
        return [*items, _placed(said, frame, len(items), state)]
    if not items:
        tally.bad("user without text")
    return items


def _prompt(record: dict[str, Any], found: tuple[list[str], int], frame: Frame, beside: bool) -> Prompt | None:
    """Return what is said in a record; beside results, nobody says it."""
    said = spoken(*found)
    if said is None:
        return None
    speaker, text = said
    if record.get("isCompactSummary") is True:
        speaker = "compact-summary"
    elif speaker == "human" or record.get("isMeta") is True:
        origin = record.get("origin")
        if speaker == "notification" or (isinstance(origin, dict) and _is_report(origin)):
            speaker = "notification"
        elif record.get("isMeta") is True or beside or record.get("promptSource") == "system":
            speaker = "injected"
        elif frame.is_side:
            speaker = "delegated"
    return Prompt(text, speaker, found[1])


def _is_report(origin: dict[str, Any]) -> bool:
    """Tell whether what is said comes from a task or another agent."""
    return origin.get("kind") == "task-notification" or isinstance(origin.get("senderTaskId"), str)


def _placed(said: Prompt, frame: Frame, number: int, state: State) -> Item:
    """Return a prompt, under the key it got in the queue if it waited there."""
    mark = digest(said.text)
    key = "" if frame.is_side or said.speaker in ("injected", "compact-summary") else _unqueue(frame, mark, state)
    return item(frame, number, _tag(said, mark), said, key)


def _tag(said: Prompt, mark: str) -> str:
    """Return what tells a prompt from others of its record's uuid."""
    return f"{said.speaker[:3]}{said.images or ''}:{mark}"


# What waits in the queue: [session, key, checksum, how far it is], the last being 0 waiting, 1 taken out, 2 seen since.


def _queue(record: dict[str, Any], frame: Frame, state: State, _: Tally) -> list[Item]:
    """Take what goes into the queue and comes out of it; what a person pulled back to change was never said."""
    operation, queue = record.get("operation"), state["queue"]
    if operation == "enqueue":
        return _enqueue(record, frame, queue)
    mine = [entry for entry in queue if entry[0] == frame.session]
    if operation == "popAll":
        keys = tuple(entry[1] for entry in mine if entry[3] == 0)
        state["queue"] = [entry for entry in queue if entry[0] != frame.session]
        return [item(frame, 0, "rewind", Rewind(keys))] if keys else []
    if operation in ("dequeue", "remove"):
        done = [entry for entry in mine if entry[3] == 2]
        if done:
            queue.remove(done[0])
        elif waiting := [entry for entry in mine if entry[3] == 0]:
            waiting[0][3] = 1
    return []


def _enqueue(record: dict[str, Any], frame: Frame, queue: list[Any]) -> list[Item]:
    """Take what goes into the queue; it is said, unless it is pulled back."""
    found = parts(record.get("content"))
    said = queued(*found) if found else None
    if found is None or said is None:
        return []
    mark = digest(said[1])
    waiting = item(frame, 0, f"q{mark}", Prompt(said[1], said[0], found[1]))
    queue.append([frame.session, waiting.key, mark, 0])
    del queue[:-QUEUE]
    return [waiting]


def _unqueue(frame: Frame, mark: str, state: State, is_attached: bool = False) -> str:
    """Return the key under which a prompt waited; nothing, and no more waiting for the others, if it did not."""
    queue = state["queue"]
    if not queue:
        return ""
    for entry in queue:
        if entry[0] == frame.session and entry[2] == mark and entry[3] != 2:
            if is_attached and entry[3] == 0:
                entry[3] = 2
            else:
                queue.remove(entry)
            return str(entry[1])
    state["queue"] = [entry for entry in queue if entry[3] == 0 or entry[0] != frame.session]
    return ""


def _attachment(record: dict[str, Any], frame: Frame, state: State, tally: Tally) -> list[Item]:
    """Take what is laid into the conversation: of all kinds, what waited in the queue and what hooks say."""
    attachment = record.get("attachment")
    if not isinstance(attachment, dict):
        tally.bad("attachment without content")
        return []
    kind = attachment.get("type")
    if kind == "queued_command" and (found := parts(attachment.get("prompt"))):
        said = queued(*found, attachment.get("commandMode"))
        if said is None:
            return []
        speaker, text, mark = *said, digest(said[1])
        origin = attachment.get("origin")
        if speaker == "human" and isinstance(origin, dict) and _is_report(origin):
            speaker = "notification"
        key = "" if frame.is_side else _unqueue(frame, mark, state, True)
        what = Prompt(text, speaker, found[1])
        return [item(frame, 0, _tag(what, mark), what, key)]
    if kind == "hook_additional_context":
        content = attachment.get("content")
        texts = content if isinstance(content, list) else [content]
        what = Prompt("\n".join(text for text in texts if isinstance(text, str)), "injected")
        return [item(frame, 0, _tag(what, digest(what.text)), what)] if what.text.strip() else []
    return []


# Records of the assistant.


def _assistant(record: dict[str, Any], frame: Frame, state: State, tally: Tally) -> list[Item]:
    """Take what the model said, thought and called, and what that cost; and what of it is taken back."""
    message = record.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(message, dict) or not isinstance(content, (list, str)):
        tally.bad("assistant without content")
        return []
    model = message.get("model")
    is_error = record.get("isApiErrorMessage") is True or model == "<synthetic>"
    name = model if isinstance(model, str) and not is_error else ""
    request, is_known = _request(record, message)
    items, place = [], frame.uuid or frame.spot.place
    for number, block in enumerate([{"type": "text", "text": content}] if isinstance(content, str) else content):
        if isinstance(block, dict) and (made := _block(block, f"{place}:{number}", name, is_error)):
            what, mark, key = made
            items.append(item(frame, number, mark, what, key or (f"{request}:{mark}" if is_known else "")))
    usage = _usage(message, name, frame, request, state)
    return [*items, *usage, *_rewind(record.get("supersedesUuids"), frame, state)]


def _request(record: dict[str, Any], message: dict[str, Any]) -> tuple[str, bool]:
    """Return the id of a request to the model, and whether there is no other of that id."""
    name = identity(message.get("id"))
    reference = identity(record.get("requestId")) or identity(record.get("requestRef"))
    return f"{name}:{reference}" if name or reference else "", bool(reference) and is_global(name)


def _block(block: dict[str, Any], place: str, model: str, is_error: bool) -> tuple[What, str, str] | None:
    """Return what one block of a message is, its mark, and its key where it has one of its own."""
    kind = block.get("type")
    if kind == "text" or kind == "thinking":
        text = block.get(kind)
        if not isinstance(text, str) or not text.strip():
            return None
        if kind == "text":
            return Reply(text, model, is_error), f"t{digest(text)}", ""
        return Thought(text), f"h{_sealed(block, text)}", ""
    if kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
        name, tool = identity(block.get("id")), block.get("name")
        call = tools.call(name or place, tool if isinstance(tool, str) else "", block.get("input"))
        said = (text for edit in call.edits for text in (edit.path, edit.old, edit.new))
        is_known = is_global(name)
        mark = f"c{digest(call.target, *said, about=(name if is_known else clean(name)) + clean(call.tool))}"
        return call, mark, f"{name}:{mark}" if is_known else ""
    if isinstance(kind, str) and kind.endswith("_tool_result"):
        name = identity(block.get("tool_use_id"))
        return _ended(tools.server_result(name or place, block), name)
    return None


def _sealed(block: dict[str, Any], thought: str) -> str:
    """Return a checksum for a thought: of the signature beside it, which is not kept and spares it to be redacted."""
    signature = block.get("signature")
    if isinstance(signature, str) and len(signature) >= SIGNATURE:
        return digest(about=signature)
    return digest(thought)


def _ended(result: Result, call: str) -> tuple[Result, str, str]:
    """Return how a call ended, with its mark and its key: results of one call that differ are different things."""
    is_known = is_global(call)
    about = (call if is_known else clean(call)) + repr((result.ok, result.exit_status, result.denied))
    mark = f"r{digest(result.output, about=about)}"
    return result, mark, f"{call}:result:{mark}" if is_known else ""


def _usage(message: dict[str, Any], model: str, frame: Frame, request: str, state: State) -> list[Item]:
    """Return what a request cost, where that is more than was known: it is repeated, and grows while it is streamed."""
    told = message.get("usage")
    if not isinstance(told, dict):
        return []
    details = told.get("output_tokens_details")
    seen = [told.get(name) for name in _COUNTS]
    seen.append(details.get("thinking_tokens") if isinstance(details, dict) else 0)
    key = f"usage:{request or frame.uuid or frame.spot.place}"
    requests, name = state["requests"], f"{frame.session}/{key}"
    before = requests.pop(name, None)
    if before == seen:  # as for nearly all records of a request but its first
        requests[name] = before
        return []
    counts = [_count(value) for value in seen]
    if before is not None:
        counts = [max(pair) for pair in zip(before, counts, strict=True)]
    requests[name] = counts
    bound(requests, REQUESTS)
    return [item(frame, 0, "usage", Usage(model, *counts), key)] if counts != before and any(counts) else []


def _count(value: Any) -> int:
    """Return a number of tokens; 0 where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MOST else 0


def _rewind(value: Any, frame: Frame, state: State) -> list[Item]:
    """Return what is taken back, of the records that were there lately."""
    if not isinstance(value, list):
        return []
    recent = state["recent"]
    keys = tuple(recent[name] for name in value if isinstance(name, str) and recent.get(name))
    return [item(frame, 0, "rewind", Rewind(keys))] if keys else []


def _system(record: dict[str, Any], frame: Frame, state: State, _: Tally) -> list[Item]:
    """Take what the agent notes: of all of it, that a reply was taken back."""
    return _rewind(record.get("retractedMessageUuids"), frame, state)


def _progress(*_: Any) -> list[Item]:
    """Take a sign of life, which tells nothing but its place in the tree."""
    return []


_READERS: dict[str, Callable[[dict[str, Any], Frame, State, Tally], list[Item]]] = {
    "user": _user,
    "assistant": _assistant,
    "system": _system,
    "attachment": _attachment,
    "progress": _progress,
    "queue-operation": _queue,
    "custom-title": _title,
    "ai-title": _title,
}
