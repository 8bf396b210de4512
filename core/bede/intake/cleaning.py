"""Items without secrets, and such as any encoding can store: the one door through which a transcript comes in."""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from bede.quick import replace
from bede.redact import redact
from bede.sources.kept import clean, storable
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


@lru_cache(maxsize=1024)  # A session's name comes with every item of it, and each key again as a parent.
def name(text: str, secret: bytes) -> str:
    """Return an id; in place of one that is or holds a secret, what stands for it in this project, and for no other.

    A bare hash of a short secret could be guessed: this one is made with the project's own.
    """
    if _PLAIN.fullmatch(text):
        return text
    seen = storable(text)
    return seen if redact(seen) == seen else "redacted-" + hmac.digest(secret, seen.encode(), "sha256").hex()[:24]


def scrubbed(state: Any) -> Any:
    """Return a state, which is JSON, without secrets; nothing else in it changes."""
    if isinstance(state, str):
        return state if len(state) < _SHORTEST or _PLAIN.fullmatch(state) else redact(state)
    if isinstance(state, dict):
        return {scrubbed(key): scrubbed(value) for key, value in state.items()}
    return [scrubbed(value) for value in state] if isinstance(state, list) else state


def cleaned(item: Item, keeps_thoughts: bool, secret: bytes) -> Item:
    """Return an item without secrets, under names made with the project's own where an id was one.

    Thoughts that are not kept stay as places where something was thought.
    """
    key, session, parent = name(item.key, secret), name(item.session, secret), name(item.parent, secret)
    origin = key if item.origin == item.key else name(item.origin, secret)
    at = item.at if item.at is not None and -_LAST < item.at < _LAST else None
    if isinstance(item.what, Thought) and not keeps_thoughts:
        what: What = _UNSAID
    else:
        what = _CLEANERS[type(item.what)](item.what, secret)
    is_same = what is item.what and key == item.key and session == item.session and at == item.at
    if is_same and parent == item.parent and origin == item.origin:
        return item  # as for nearly all
    return Item(session, key, what, at, item.precision, item.line, parent, origin, item.is_replayed, item.is_side)


# Each kind of item: the same object comes back where nothing in it changes, as for nearly all.


def _prompt(what: Prompt, _: bytes) -> Prompt:
    text = clean(what.text)
    return what if text is what.text else Prompt(text, what.speaker, what.images)


def _reply(what: Reply, _: bytes) -> Reply:
    text, model = clean(what.text), _short(what.model)
    return what if text is what.text and model == what.model else Reply(text, model, what.is_error)


def _thought(what: Thought, _: bytes) -> Thought:
    return Thought(clean(what.text))


def _call(what: Call, secret: bytes) -> Call:
    call, tool, target, edits = name(what.call, secret), _short(what.tool), clean(what.target), _edits(what.edits)
    is_same = call == what.call and tool == what.tool and target is what.target and edits is what.edits
    return what if is_same else Call(call, tool, target, what.sort, edits)


def _result(what: Result, secret: bytes) -> Result:
    call, output, edits = name(what.call, secret), clean(what.output), _edits(what.edits)
    is_same = call == what.call and output is what.output and edits is what.edits
    return what if is_same else Result(call, what.ok, what.exit_status, what.denied, output, edits)


def _usage(what: Usage, _: bytes) -> Usage:
    model = _short(what.model)
    return what if model == what.model else replace(what, model=model)


def _rewind(what: Rewind, secret: bytes) -> Rewind:
    return Rewind(tuple(name(key, secret) for key in what.keys))


def _session(what: Session, secret: bytes) -> Session:
    told: dict[str, Any] = {field: clean(value) for field, value in what.to_json().items() if isinstance(value, str)}
    return replace(what, **{**told, "parent": name(what.parent, secret)})


_CLEANERS: dict[type, Callable[[Any, bytes], What]] = {
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
