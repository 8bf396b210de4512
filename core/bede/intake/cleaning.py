"""Items without secrets, and such as any encoding can store: the one door through which a transcript comes in."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from bede.quick import replace
from bede.redact import redact
from bede.sources.port import Call, Edit, Item, Prompt, Reply, Result, Rewind, Session, Thought, Usage, What

#: Ids of shapes that no secret has; asking for each of them would cost more than all the rest.
_PLAIN = re.compile(
    r"(?:usage:)?(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|@?[0-9.]{0,24}"
    r"|(?:toolu|srvtoolu|msg|call|prt|ses)_[0-9A-Za-z]{4,48})"
    r"(?:[:/#](?:(?:req|msg|toolu)_[0-9A-Za-z]{4,48}|[a-z]{0,8}[0-9a-f.]{0,12})){0,5}"
)
#: No secret is shorter.
_SHORTEST = 8
#: Times beyond these are none: SQLite's integers end there.
_LAST = 1 << 62


def clean(text: str) -> str:
    """Return a text without secrets, and such as any encoding can store."""
    return redact(_storable(text)) if text else text


def _storable(text: str) -> str:
    """Return a text without halves of characters, which no encoding has; the same object where there are none."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


@lru_cache(maxsize=1024)  # A session's name comes with every item of it, and each key again as a parent.
def name(text: str) -> str:
    """Return an id; in place of one that is or holds a secret, something that stands for it."""
    if _PLAIN.fullmatch(text):
        return text
    seen = _storable(text)
    return seen if redact(seen) == seen else "redacted-" + hashlib.sha256(seen.encode()).hexdigest()[:24]


def scrubbed(state: Any) -> Any:
    """Return a state, which is JSON, without secrets; nothing else in it changes."""
    if isinstance(state, str):
        return state if len(state) < _SHORTEST or _PLAIN.fullmatch(state) else redact(state)
    if isinstance(state, dict):
        return {scrubbed(key): scrubbed(value) for key, value in state.items()}
    return [scrubbed(value) for value in state] if isinstance(state, list) else state


def cleaned(item: Item, keeps_thoughts: bool) -> Item:
    """Return an item without secrets. Thoughts that are not kept stay as places where something was thought."""
    key, session, parent = name(item.key), name(item.session), name(item.parent)
    origin = key if item.origin == item.key else name(item.origin)
    at = item.at if item.at is not None and -_LAST < item.at < _LAST else None
    if isinstance(item.what, Thought) and not keeps_thoughts:
        what: What = _UNSAID
    else:
        what = _CLEANERS[type(item.what)](item.what)
    is_same = what is item.what and key == item.key and session == item.session and at == item.at
    if is_same and parent == item.parent and origin == item.origin:
        return item  # as for nearly all
    return Item(session, key, what, at, item.precision, item.line, parent, origin, item.is_replayed, item.is_side)


# Each kind of item: the same object comes back where nothing in it changes, as for nearly all.


def _prompt(what: Prompt) -> Prompt:
    text = clean(what.text)
    return what if text is what.text else Prompt(text, what.speaker, what.images)


def _reply(what: Reply) -> Reply:
    text, model = clean(what.text), _short(what.model)
    return what if text is what.text and model == what.model else Reply(text, model, what.is_error)


def _thought(what: Thought) -> Thought:
    return Thought(clean(what.text))


def _call(what: Call) -> Call:
    call, tool, target, edits = name(what.call), _short(what.tool), clean(what.target), _edits(what.edits)
    is_same = call == what.call and tool == what.tool and target is what.target and edits is what.edits
    return what if is_same else Call(call, tool, target, what.sort, edits)


def _result(what: Result) -> Result:
    call, output, edits = name(what.call), clean(what.output), _edits(what.edits)
    is_same = call == what.call and output is what.output and edits is what.edits
    return what if is_same else Result(call, what.ok, what.exit_status, what.denied, output, edits)


def _usage(what: Usage) -> Usage:
    model = _short(what.model)
    return what if model == what.model else replace(what, model=model)


def _rewind(what: Rewind) -> Rewind:
    return Rewind(tuple(map(name, what.keys)))


def _session(what: Session) -> Session:
    told: dict[str, Any] = {field: clean(value) for field, value in what.to_json().items() if isinstance(value, str)}
    return replace(what, **{**told, "parent": name(what.parent)})


_CLEANERS: dict[type, Callable[[Any], What]] = {
    Prompt: _prompt,
    Reply: _reply,
    Thought: _thought,
    Call: _call,
    Result: _result,
    Usage: _usage,
    Rewind: _rewind,
    Session: _session,
}
_UNSAID = Thought("")


def _edits(edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
    seen = tuple(map(_edit, edits)) if edits else edits
    return edits if seen == edits else seen


def _edit(edit: Edit) -> Edit:
    path, old, new, patch, moved_to = map(clean, (edit.path, edit.old, edit.new, edit.patch, edit.moved_to))
    is_same = path is edit.path and old is edit.old and new is edit.new
    if is_same and patch is edit.patch and moved_to is edit.moved_to:
        return edit
    return Edit(path, edit.operation, old, new, patch, moved_to)


@lru_cache(maxsize=512)  # There are few, and they come again and again.
def _short(text: str) -> str:
    """Return a model's or tool's name without secrets."""
    return clean(text)
