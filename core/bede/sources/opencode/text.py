"""What one session of OpenCode says, wherever it was kept: its messages and their parts, made into items."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any

from bede.quick import dataclass, field, replace
from bede.sources import patch
from bede.sources.kept import clean, form
from bede.sources.loose import dict_of, list_of, quoted, text_of
from bede.sources.port import (
    Call,
    Edit,
    Item,
    Prompt,
    Reply,
    Result,
    Rewind,
    Session,
    Sort,
    Speaker,
    Tally,
    Thought,
    Usage,
    tail,
)

Message = tuple[dict[str, Any], Sequence[Any]]
"""A message's own record, and its parts in their order."""

#: Exact tool name → what it does, and the arguments of which the first that is there is its target.
_TOOLS: dict[str, tuple[Sort, tuple[str, ...]]] = {
    "bash": ("shell", ("command",)),
    "read": ("read", ("filePath",)),
    "list": ("read", ("path",)),
    "glob": ("search", ("pattern",)),
    "grep": ("search", ("pattern",)),
    "codesearch": ("search", ("query",)),
    "lsp": ("search", ("filePath",)),
    "edit": ("edit", ("filePath",)),
    "multiedit": ("edit", ("filePath",)),
    "patch": ("edit", ()),
    "apply_patch": ("edit", ()),
    "write": ("create", ("filePath",)),
    "webfetch": ("web", ("url",)),
    "websearch": ("web", ("query",)),
    "task": ("task", ("description", "prompt")),
    "skill": ("other", ("name",)),
    "invalid": ("other", ("tool",)),
    "todowrite": ("other", ()),
    "todoread": ("other", ()),
    "question": ("other", ()),
    "batch": ("other", ()),
    "plan_enter": ("other", ()),
    "plan_exit": ("other", ()),
}

#: Stands in the user's role before a command that a person ran in the shell.
_RUN = "The following tool was executed by the user"
#: OpenCode's own words where a person or a rule refused.
_REFUSED = ("The user rejected permission", "The user has specified a rule", "The user dismissed this question")
#: What a plugin that stops a tool says is its own; the record does not tell it from a tool's failure.
_STOPPED = re.compile(r"\b(?:denied|blocked|refused|rejected|vetoed|not allowed)\b", re.IGNORECASE)
_ERRNO = re.compile(r"\bE[A-Z]{3,}\b")
_ID = re.compile(r"(?:msg|prt)_[0-9a-f]{12}[0-9A-Za-z]{14}")

Part = tuple[str, Prompt | Reply | Thought | Call | Result | Usage, Any]
"""Key, item, and the time that it has of its own."""


@dataclass(slots=True)
class _Told:
    """What is known of a session while it is gone through."""

    is_side: bool
    keys: dict[str, int] = field(default_factory=lambda: {"session": 1, "rewind": 1})
    said: set[tuple[str, int]] = field(default_factory=set)  # keys, with hashes of what they name
    calls: dict[str, int] = field(default_factory=dict)
    run: set[str] = field(default_factory=set)  # messages before a command that a person ran


def items(session: str, info: dict[str, Any], messages: Iterable[Message], tally: Tally) -> Iterator[Item]:
    """Yield the items of a session; only one message and the keys of all are held."""
    told = _Told(bool(text_of(info.get("parentID"))))
    about = _session(info)
    created = _times(info).get("created")
    yield _item(session, "session", about, created, 0)
    revert = dict_of(info.get("revert"))
    back, part = text_of(revert.get("messageID")), text_of(revert.get("partID"))
    gone: list[str] = []
    is_gone = False
    for number, (message, parts) in enumerate(messages, 1):
        if (known := _more(about, message)) != about:
            about = known
            yield _item(session, "session", about, created, number)
        name = quoted(clean(text_of(message.get("id"))) or _made(message, number))
        start = f"{name}:{quoted(clean(part))}" if part else name
        parent = quoted(clean(text_of(message.get("parentID"))))
        for key, what, at in _parts(name, message, parts, told, tally):
            if (own := _own(key, what, told)) is None:
                continue
            is_gone = is_gone or (bool(back) and back == message.get("id") and key.startswith(start))
            if is_gone:
                gone.append(own)
            origin = own if _ID.fullmatch(name) else ""
            after = parent if parent in told.keys else ""
            when = at if _time(at) is not None else _times(message).get("created")
            yield _item(session, own, what, when, number, after, origin, told.is_side)
    if gone:
        yield Item(session, "rewind", Rewind(tuple(gone)))


def _item(
    session: str,
    key: str,
    what: Session | Prompt | Reply | Thought | Call | Result | Usage,
    at: Any,
    line: int,
    parent: str = "",
    origin: str = "",
    is_side: bool = False,
) -> Item:
    when = _time(at)
    return Item(session, key, what, when, "" if when is None else "ms", line, parent, origin, is_side=is_side)


def _session(info: dict[str, Any]) -> Session:
    parent, model = text_of(info.get("parentID")), dict_of(info.get("model"))
    return Session(
        agent="opencode",
        version=text_of(info.get("version")),
        model=_model({"modelID": model.get("id"), **model}),
        cwd=text_of(info.get("directory")),
        parent=parent,
        origin="subagent" if parent else "",
        title=text_of(info.get("title")),
    )


def _more(about: Session, message: dict[str, Any]) -> Session:
    """Return what is known of a session when one of its messages is."""
    if message.get("role") != "assistant":
        return about
    cwd = about.cwd or text_of(dict_of(message.get("path")).get("cwd"))
    model = _model(message) or about.model
    return about if (cwd, model) == (about.cwd, about.model) else replace(about, cwd=cwd, model=model)


def _model(told: dict[str, Any]) -> str:
    """Return a model as `provider/model`."""
    return "/".join(filter(None, (text_of(told.get("providerID")), text_of(told.get("modelID")))))


def _made(record: Any, number: int) -> str:
    """Return an id for a record that has none."""
    return f"@{number}.{sha256(form(record)).hexdigest()[:12]}"


def _own(key: str, what: Any, told: _Told) -> str | None:
    """Return a key that nothing else of the session has; None where the very same was told under it."""
    if (same := (key, hash(what))) in told.said:
        return None
    told.said.add(same)
    return unused(key, told.keys)


def _parts(name: str, message: dict[str, Any], parts: Sequence[Any], told: _Told, tally: Tally) -> Iterator[Part]:
    """Yield the items of one message."""
    role = text_of(message.get("role"))
    tally.types[role or "unknown"] += 1
    whole: list[tuple[str, dict[str, Any]]] = []
    for number, part in enumerate(parts, 1):
        if isinstance(part, dict) and isinstance(part.get("type"), str):
            tally.types[part["type"]] += 1
            whole.append((f"{name}:{quoted(clean(text_of(part.get('id'))) or _made(part, number))}", part))
        else:
            tally.bad("no part")
    if role == "user":
        yield from _user(name, whole, told)
    elif role == "assistant":
        yield from _assistant(name, message, whole, told)
    else:
        tally.bad("no role")


def _user(name: str, parts: list[tuple[str, dict[str, Any]]], told: _Told) -> Iterator[Part]:
    """Yield what a person typed, whole, and then what was laid beside it."""
    typed: list[str] = []
    beside: list[Part] = []
    images, at = 0, None
    for key, part in parts:
        kind, text = part["type"], text_of(part.get("text"))
        if kind == "text" and text and not _is_made(part):
            at = at or _times(part).get("start")
            typed.append(text)
        elif kind == "text" and text == _RUN:
            told.run.add(name)
        elif kind == "text" and text.strip():
            beside.append((key, Prompt(text, "injected"), _times(part).get("start")))
        elif kind == "subtask" and (text := text_of(part.get("prompt"))):
            beside.append((key, Prompt(text, "slash"), None))
        elif kind == "file":
            images += text_of(part.get("mime")).startswith("image/")
    speaker: Speaker = "delegated" if told.is_side else "human"
    text = "\n".join(typed)
    if text.strip() or images:
        yield name, Prompt(text, speaker, images), at
    yield from beside


def _is_made(part: dict[str, Any]) -> bool:
    """Tell whether a text was made by OpenCode or a plugin."""
    return bool(part.get("synthetic") or part.get("ignored"))


def _assistant(
    name: str, message: dict[str, Any], parts: list[tuple[str, dict[str, Any]]], told: _Told
) -> Iterator[Part]:
    is_run = quoted(clean(text_of(message.get("parentID")))) in told.run
    for key, part in parts:
        kind, text, at = part["type"], text_of(part.get("text")), _times(part).get("start")
        if kind == "tool":
            yield from _tool(key, part, told, is_run)
        elif not text.strip():
            continue
        elif kind == "reasoning":
            yield key, Thought(text), at
        elif kind == "text" and _is_made(part):
            yield key, Prompt(text, "injected"), at
        elif kind == "text" and message.get("summary") is True:
            yield key, Prompt(text, "compact-summary"), at
        elif kind == "text":
            yield key, Reply(text, _model(message)), at
    completed = _times(message).get("completed")
    if usage := _usage(message):
        yield f"{name}::usage", usage, completed
    if isinstance(error := message.get("error"), dict):
        text = text_of(dict_of(error.get("data")).get("message")) or text_of(error.get("name"))
        is_stop = error.get("name") == "MessageAbortedError"
        told_as = Prompt(text, "interrupt") if is_stop else Reply(text, _model(message), is_error=True)
        yield f"{name}::error", told_as, completed


def _tool(key: str, part: dict[str, Any], told: _Told, is_run: bool) -> Iterator[Part]:
    """Yield a call and, if it has ended, its result."""
    tool, state = text_of(part.get("tool")), dict_of(part.get("state"))
    arguments, times = dict_of(state.get("input")), _times(state)
    call = unused(text_of(part.get("callID")) or key, told.calls)
    metadata = dict_of(state.get("metadata")) or dict_of(part.get("metadata"))
    edits = _edits(tool, arguments, metadata)
    sort, target = _aim(tool, arguments, edits)
    if is_run and sort == "shell":
        yield f"{key}:bang", Prompt(target, "bang"), times.get("start")
    yield key, Call(call, tool, target, sort, edits), times.get("start")
    if result := _result(call, tool, state, metadata):
        yield f"{key}:result", result, times.get("end")


def unused(name: str, names: dict[str, int]) -> str:
    """Return a name that is not among those given so far, and count it among them."""
    own, names[name] = name, names.get(name, 0) + 1
    while names[name] > 1 and (own := f"{name}#{names[name]}") in names:
        names[name] += 1
    names.setdefault(own, 1)
    return own


def _aim(tool: str, arguments: dict[str, Any], edits: tuple[Edit, ...]) -> tuple[Sort, str]:
    """Return what a tool does, and upon what."""
    if tool in _TOOLS:
        sort, names = _TOOLS[tool]
        values = [text_of(arguments.get(name)) for name in names]
        return sort, next(filter(None, values), "") or " ".join(dict.fromkeys(edit.path for edit in edits))
    values = [value for value in arguments.values() if isinstance(value, str)]
    return "mcp" if "_" in tool else "other", values[0] if len(values) == 1 else ""


def _edits(tool: str, arguments: dict[str, Any], metadata: dict[str, Any]) -> tuple[Edit, ...]:
    path = text_of(arguments.get("filePath"))
    if tool in ("patch", "apply_patch"):
        return patch.edits(text_of(arguments.get("patchText")))
    if tool == "write" and path:
        return (Edit(path, "update" if metadata.get("exists") is True else "create", new=_new(arguments)),)
    if tool == "edit" and path:
        return (Edit(path, old=text_of(arguments.get("oldString")), new=_new(arguments)),)
    if tool == "multiedit":
        each = [dict_of(edit) for edit in list_of(arguments.get("edits"))]
        paths = [text_of(edit.get("filePath")) or path for edit in each]
        return tuple(
            Edit(path, old=text_of(edit.get("oldString")), new=_new(edit))
            for path, edit in zip(paths, each, strict=True)
            if path
        )
    return ()


def _new(arguments: dict[str, Any]) -> str:
    return text_of(arguments.get("newString")) or text_of(arguments.get("content"))


def _result(call: str, tool: str, state: dict[str, Any], metadata: dict[str, Any]) -> Result | None:
    """Return how a call ended; None while it has not."""
    status = state.get("status")
    if status == "error":
        error = text_of(state.get("error"))
        return Result(call, False, _whole(metadata.get("exit")), _is_denied(tool, error), tail(error))
    if status != "completed":
        return None
    exit_status = _whole(metadata.get("exit"))
    # What plugins add to an output stands only in the one for the model.
    output = text_of(metadata.get("output")) or text_of(state.get("output"))
    ok: bool | None = tool != "invalid" and not exit_status
    if tool == "bash" and "exit" in metadata and exit_status is None:
        ok = None  # killed, or out of time: the record does not tell
    return Result(call, ok, exit_status, output=tail(output) if ok is False else "")


def _is_denied(tool: str, error: str) -> bool:
    """Tell whether a person, a rule or a plugin did not let a tool run."""
    if error.removeprefix("Error: ").startswith(_REFUSED):
        return True
    first = error[:500].partition("\n")[0]
    return tool in _TOOLS and _STOPPED.search(first) is not None and not _ERRNO.search(first)


def _usage(message: dict[str, Any]) -> Usage | None:
    tokens = message.get("tokens")
    if not isinstance(tokens, dict):
        return None
    cache = dict_of(tokens.get("cache"))
    usage = Usage(
        model=_model(message),
        input=_count(tokens.get("input")),
        output=_count(tokens.get("output")),
        cache_read=_count(cache.get("read")),
        cache_write=_count(cache.get("write")),
        reasoning=_count(tokens.get("reasoning")),
    )
    return usage if usage != Usage(model=usage.model) else None


def _times(record: dict[str, Any]) -> dict[str, Any]:
    return dict_of(record.get("time"))


def _time(value: Any) -> int | None:
    """Return microseconds for milliseconds."""
    return value * 1000 if type(value) is int and 0 < value < 1 << 48 else None


def _whole(value: Any) -> int | None:
    return value if type(value) is int and abs(value) < 1 << 53 else None


def _count(value: Any) -> int:
    return max(0, _whole(value) or 0)
