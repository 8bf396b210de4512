"""Copilot's events: what its command line writes down of a session, and its chat extension of a chat.

An event has an id, a time and a type; what is known of a session comes with the events that tell of it. A call is told
by the message that asks for it, by its beginning and by its end; any of them may be missing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bede.errors import BadSource, cause
from bede.quick import dataclass, field, replace
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
    Spot,
    Tally,
    Thought,
    Usage,
    What,
    tail,
)
from bede.sources.vscode import (
    count,
    first,
    folder,
    glance,
    instant,
    is_command,
    is_foreign,
    keyed,
    mapping,
    number,
    scalars,
    sequence,
    short,
    text,
)
from bede.sources.vscode.tools import COPILOT, deed

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_IMAGE = re.compile(r"\.(?:png|jpe?g|gif|webp|bmp|heic)", re.IGNORECASE)
#: How a shell's output ends, as Copilot writes it.
_EXIT = re.compile(r"<(?:exited|shellId: \S+ (?:completed|exited)) with exit code (-?\d{1,10})>\s*\Z")
_GUIDANCE = re.compile(r"\n\nTool \"[^\"\n]*\" (?:succeeded|failed)\. Additional guidance from ")
_DENIED = ("denied", "rejected")


def above(path: Path) -> tuple[Path, ...]:
    """Return the storage of the workspace that a file of VS Code is in."""
    if path.parent.name == "chatSessions":
        return (path.parent.parent,)
    if path.parent.name == "transcripts":
        return (path.parent.parent.parent,)
    return ()


@dataclass(slots=True)
class _Told:
    """What is known of a call from the records before."""

    call: str  # its id; with what sets it apart where that was used before
    by: str  # the record that told of it last
    paths: frozenset[str]
    is_shell: bool = False
    is_begun: bool = False
    given: Call | None = None  # as the message asked for it, until it begins


@dataclass(slots=True)
class _Reading:
    """A session while it is read."""

    session: str
    known: Session
    given: Session | None = None
    ids: dict[str, int] = field(default_factory=dict)  # id of an event → hash of the first that bore it
    calls: dict[str, _Told] = field(default_factory=dict)
    asked: dict[str, str] = field(default_factory=dict)  # request for a permission → call
    denied: set[str] = field(default_factory=set)
    announced: set[int] = field(default_factory=set)  # thoughts that an event of their own told
    thoughts: set[int] = field(default_factory=set)  # thoughts that a message told
    counted: set[str] = field(default_factory=set)  # requests to the model whose tokens a record of its own told


def load(path: Path, tally: Tally) -> Iterator[Item]:
    """Yield the items of a file of events, in order.

    Raises:
        BadSource: nothing in it can be read.
    """
    beside = scalars(path.with_name("workspace.yaml"))
    name = session_of("copilot", str(path))
    reading = _Reading(name, Session("copilot", title=beside.get("name") or beside.get("summary", "")))
    records = 0
    try:
        with path.open("rb") as file:
            begin = file.read(4096)
            for spot, record in jsonl.records(file, path, jsonl.Cursor(), tally):
                records += 1
                yield from _event(record, spot, reading, tally)
    except OSError as error:
        raise BadSource(f"{path} cannot be read: {cause(error)}", reason="file") from error
    if not records and (tally.problems["torn"] or is_foreign(begin)):
        raise BadSource(f"{path} holds no event that can be read", reason="format")
    cwd = beside.get("cwd", "") or next(map(folder, above(path)), "")
    if records and not reading.known.cwd and cwd:
        reading.known = replace(reading.known, cwd=cwd, branch=reading.known.branch or beside.get("branch", ""))
        yield Item(reading.session, "session", reading.known)


def _event(record: Any, spot: Spot, reading: _Reading, tally: Tally) -> Iterator[Item]:
    """Yield the items of one event."""
    event = mapping(record)
    kind = text(event.get("type"))
    if not kind:
        tally.bad("no event")
        return
    tally.types[kind] += 1
    data = mapping(event.get("data"))
    at, precision = instant(event.get("timestamp"))
    if told := _session(kind, data, reading):
        yield Item(reading.session, "session", told, at, precision, spot.line)
    take = _TAKERS.get(kind)
    if take is None:
        return
    identity = keyed(event.get("id"))
    key = _key(identity, event, spot, reading)
    is_side = bool(text(event.get("agentId")) or text(data.get("parentToolCallId")))
    origin = identity if _UUID.fullmatch(identity) and key == identity else ""
    for name, what in take(data, key, reading, is_side):
        copied = origin and f"{origin}/{name}"
        yield Item(reading.session, name, what, at, precision, spot.line, origin=copied, is_side=is_side)


def _key(identity: str, event: dict[str, Any], spot: Spot, reading: _Reading) -> str:
    """Return what names an event: its id, or its id and content where another event bore that id before."""
    if not identity:
        return f"@{spot.place}"
    content = glance(event)
    before = reading.ids.setdefault(identity, content)
    return identity if before == content else f"{identity}~{short(event)}"


def _session(kind: str, data: dict[str, Any], reading: _Reading) -> Session | None:
    """Return what is known of the session, if this event changes it."""
    if kind == "session.start" and (own := text(data.get("sessionId"))):
        if own != reading.session and reading.given:
            reading.given, reading.known = None, Session("copilot")
        reading.session = own
    if kind in ("session.start", "session.resume", "session.context_changed", "session.model_change"):
        context = mapping(data.get("context")) or data
        before = reading.known
        reading.known = replace(
            before,
            version=text(data.get("copilotVersion")) or before.version,
            model=first(data, ("newModel", "selectedModel")) or before.model,
            cwd=text(context.get("cwd")) or before.cwd,
            branch=text(context.get("branch")) or before.branch,
        )
    elif kind == "session.title_changed":
        reading.known = replace(reading.known, title=text(data.get("title")) or reading.known.title)
    elif kind == "assistant.message" and (model := text(data.get("model"))) and not reading.known.model:
        reading.known = replace(reading.known, model=model)
    if reading.known == reading.given:
        return None
    reading.given = reading.known
    return reading.known


Named = Iterable[tuple[str, What]]


def _user(data: dict[str, Any], key: str, reading: _Reading, is_side: bool) -> Named:
    attached = [mapping(each) for each in sequence(data.get("attachments"))]
    images = sum(map(_is_image, attached))
    content = text(data.get("content"))
    if content or images:
        return [(key, Prompt(content, _speaker(data, content, is_side), images))]
    made = text(data.get("transformedContent"))
    return [(key, Prompt(made, "injected"))] if made else []


def _is_image(attached: dict[str, Any]) -> bool:
    mime = text(attached.get("mimeType")) or text(attached.get("mediaType"))
    name = first(attached, ("path", "displayName", "filePath"))
    return attached.get("type") == "image" or mime.startswith("image/") or bool(_IMAGE.fullmatch(Path(name).suffix))


def _speaker(data: dict[str, Any], content: str, is_side: bool) -> Speaker:
    """Tell who is behind a user's message; `parentAgentTaskId` does not tell, it is there for all of them."""
    source = text(data.get("source")).lower()
    if is_side or source.startswith("agent-"):
        return "delegated"
    if data.get("isAutopilotContinuation") is True or source.startswith(
        ("skill", "autopilot", "system", "hook", "jit")
    ):
        return "injected"
    if data.get("agentMode") == "shell":
        return "bang"
    return "slash" if source == "command" or is_command(content) else "human"


def _assistant(data: dict[str, Any], key: str, reading: _Reading, is_side: bool) -> Named:
    model, said = text(data.get("model")), text(data.get("content"))
    if thought := _thought(text(data.get("reasoningText")), reading.announced, reading.thoughts):
        yield f"{key}:thought", thought
    if said.strip():
        yield key, Reply(said, model)
    seen: Counter[str] = Counter()
    for asked in map(mapping, sequence(data.get("toolRequests"))):
        call, tool = first(asked, ("toolCallId", "id")), text(asked.get("name"))
        seen[call] += 1
        if call or tool:
            again = f"~{seen[call]}" if seen[call] > 1 else ""
            yield from _call(call + again, tool, asked.get("arguments"), asked, key, reading, is_begun=False)
    request = text(data.get("apiCallId"))
    if (made := count(data.get("outputTokens"))) and request not in reading.counted:
        yield f"{key}:usage", Usage(model, output=made)
    reading.counted.discard(request)


def _reasoning(data: dict[str, Any], key: str, reading: _Reading, is_side: bool) -> Named:
    thought = _thought(text(data.get("content")), reading.thoughts, reading.announced)
    return [(f"{key}:thought", thought)] if thought else []


def _thought(thought: str, told: set[int], telling: set[int]) -> Thought | None:
    """Return a thought; None where there is none, or where the other kind of event, which may come first, told it."""
    content = glance(thought)
    if not thought.strip() or content in told:
        told.discard(content)
        return None
    telling.add(content)
    return Thought(thought)


def _begun(data: dict[str, Any], key: str, reading: _Reading, is_side: bool) -> Named:
    call = text(data.get("toolCallId"))
    return _call(call, text(data.get("toolName")), data.get("arguments"), data, key, reading, is_begun=True)


def _call(
    call: str, tool: str, arguments: Any, record: dict[str, Any], event: str, reading: _Reading, *, is_begun: bool
) -> Iterator[tuple[str, Call]]:
    """Yield a call with its key; the record that asks for it and the one that begins it are of one call.

    The second is left out where it tells nothing new. An id that is asked for or begun once more, by another record,
    is another call.
    """
    event = event.partition("~")[0]
    call = call or f"{event}:{tool}"
    told = reading.calls.get(call)
    is_another = told is not None and told.by != event and (told.is_begun or not is_begun)
    identity = call if told is None else f"{call}~{event}" if is_another else told.call
    before = None if told is None or is_another else told
    done = deed(COPILOT, tool, arguments, of_server=bool(text(record.get("mcpServerName"))))
    given = Call(identity, tool, done.target, done.sort, done.edits)
    reading.calls[call] = _Told(
        identity,
        event,
        frozenset(edit.path for edit in done.edits),
        done.sort == "shell",
        is_begun or (before is not None and before.is_begun),
        None if is_begun else given,
    )
    if before is None or before.given != given:
        yield _place(identity), given


def _place(call: str) -> str:
    identity, mark, rest = call.partition("~")
    return f"call/{keyed(identity) or short(identity)}{mark}{rest}"


def _ended(data: dict[str, Any], key: str, reading: _Reading, is_side: bool) -> Named:
    call = text(data.get("toolCallId"))
    told = reading.calls.get(call) or _Told(call or key, key, frozenset(), is_shell=True)
    result = mapping(data.get("result"))
    error = mapping(data.get("error"))
    verdict = first(result, ("result_type", "resultType"))
    is_denied = bool({text(error.get("code")), verdict} & set(_DENIED)) or call in reading.denied
    output = _output(result, error, is_shell=told.is_shell)
    status = _status(data, output) if told.is_shell else None
    success = data.get("success")
    if not isinstance(success, bool):
        success = {"success": True, "failure": False, "denied": False, "rejected": False}.get(verdict)
    ok = False if is_denied or status else success
    changed = () if ok is False else tuple(edit for edit in _changed(data) if edit.path not in told.paths)
    shown = tail(output) if ok is False else ""
    return [(f"{_place(told.call)}:result", Result(told.call, ok, status, is_denied, shown, changed))]


def _output(result: dict[str, Any], error: dict[str, Any], *, is_shell: bool) -> str:
    """Return what a call put out, without what hooks added behind it."""
    shown = text(result.get("detailedContent")) if is_shell else ""
    output = (
        text(error.get("message")) or shown or first(result, ("content", "text_result_for_llm", "textResultForLlm"))
    )
    return _GUIDANCE.split(output, maxsplit=1)[0]


def _status(data: dict[str, Any], output: str) -> int | None:
    status = number(mapping(data.get("shellExecution")).get("exitCode"))
    if status is None and (found := _EXIT.search(output[-200:])):
        status = int(found[1])
    return status


def _changed(data: dict[str, Any]) -> Iterator[Edit]:
    """Yield the files that a call is said to have changed."""
    for edit in map(mapping, sequence(data.get("fileEdits"))):
        if path := text(edit.get("path")):
            kind = text(edit.get("kind"))
            yield Edit(path, "create" if kind == "create" else "delete" if kind == "delete" else "update")


def _permission(data: dict[str, Any], key: str, reading: _Reading, is_side: bool) -> Named:
    """Remember what a person or a rule refused."""
    request = text(data.get("requestId"))
    asked = text(mapping(data.get("permissionRequest")).get("toolCallId")) or text(data.get("toolCallId"))
    if asked:
        reading.asked[request] = asked
    if request in reading.asked and text(mapping(data.get("result")).get("kind")).startswith("denied"):
        reading.denied.add(reading.asked[request])
    return []


def _usage(data: dict[str, Any], key: str, reading: _Reading, is_side: bool) -> Named:
    usage = mapping(data.get("usage"))
    if request := text(usage.get("apiCallId")):
        reading.counted.add(request)
    return [(f"{key}:usage", _spent(text(usage.get("model")), usage))] if usage else []


def _spent(model: str, usage: dict[str, Any], *, is_total: bool = False) -> Usage:
    names = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens")
    given, made, read, written, thought = (count(usage.get(name)) for name in names)
    return Usage(model, given, made, read, written, thought, given + made if is_total else 0)


def _shutdown(data: dict[str, Any], key: str, reading: _Reading, is_side: bool) -> Named:
    for model, metrics in mapping(data.get("modelMetrics")).items():
        if usage := mapping(mapping(metrics).get("usage")):
            yield f"{key}:total:{model}", _spent(model, usage, is_total=True)


def _notification(data: dict[str, Any], key: str, reading: _Reading, is_side: bool) -> Named:
    content = text(data.get("content"))
    return [(key, Prompt(content, "notification"))] if content else []


def _hook(data: dict[str, Any], key: str, reading: _Reading, is_side: bool) -> Named:
    added = text(mapping(data.get("output")).get("additionalContext"))
    return [(key, Prompt(added, "injected"))] if added else []


def _abort(data: dict[str, Any], key: str, reading: _Reading, is_side: bool) -> Named:
    return [(key, Prompt(text(data.get("reason")), "interrupt"))]


def _error(data: dict[str, Any], key: str, reading: _Reading, is_side: bool) -> Named:
    message = text(data.get("message"))
    return [(key, Reply(message, is_error=True))] if message else []


_TAKERS = {
    "user.message": _user,
    "assistant.message": _assistant,
    "assistant.reasoning": _reasoning,
    "tool.execution_start": _begun,
    "tool.execution_complete": _ended,
    "permission.requested": _permission,
    "permission.completed": _permission,
    "session.usage_record": _usage,
    "session.shutdown": _shutdown,
    "session.error": _error,
    "system.notification": _notification,
    "hook.end": _hook,
    "abort": _abort,
}
