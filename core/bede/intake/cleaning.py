"""Items without secrets, and such as any encoding can store: the one door through which a transcript comes in."""

from __future__ import annotations

import hashlib
import re
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
    if not text:
        return text
    return redact(text if text.isascii() else text.encode("utf-8", "replace").decode())


@lru_cache(maxsize=1024)  # A session's name comes with every item of it, and each key again as a parent.
def name(text: str) -> str:
    """Return an id; in place of one that is or holds a secret, something that stands for it."""
    if _PLAIN.fullmatch(text):
        return text
    seen = text if text.isascii() else text.encode("utf-8", "replace").decode()
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
    what = _what(item.what, keeps_thoughts)
    is_same = what is item.what and key == item.key and session == item.session and at == item.at
    if is_same and parent == item.parent and origin == item.origin:
        return item  # as for nearly all
    return Item(session, key, what, at, item.precision, item.line, parent, origin, item.is_replayed, item.is_side)


def _what(what: What, keeps_thoughts: bool) -> What:
    if isinstance(what, Prompt):
        text = clean(what.text)
        return what if text == what.text else Prompt(text, what.speaker, what.images)
    if isinstance(what, Reply):
        text, model = clean(what.text), _short(what.model)
        return what if (text, model) == (what.text, what.model) else Reply(text, model, what.is_error)
    if isinstance(what, Thought):
        return Thought(clean(what.text) if keeps_thoughts else "")
    if isinstance(what, Call):
        call, tool, target, edits = name(what.call), _short(what.tool), clean(what.target), _edits(what.edits)
        is_same = (call, tool, target, edits) == (what.call, what.tool, what.target, what.edits)
        return what if is_same else Call(call, tool, target, what.sort, edits)
    if isinstance(what, Result):
        call, output, edits = name(what.call), clean(what.output), _edits(what.edits)
        is_same = (call, output, edits) == (what.call, what.output, what.edits)
        return what if is_same else Result(call, what.ok, what.exit_status, what.denied, output, edits)
    return _rare(what)


def _rare(what: Session | Usage | Rewind) -> What:
    if isinstance(what, Usage):
        model = _short(what.model)
        return what if model == what.model else replace(what, model=model)
    if isinstance(what, Rewind):
        return Rewind(tuple(map(name, what.keys)))
    told: dict[str, Any] = {field: clean(value) for field, value in what.to_json().items() if isinstance(value, str)}
    return replace(what, **{**told, "parent": name(what.parent)})


def _edits(edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
    return tuple(map(_edit, edits)) if edits else edits


def _edit(edit: Edit) -> Edit:
    return replace(
        edit,
        path=clean(edit.path),
        old=clean(edit.old),
        new=clean(edit.new),
        patch=clean(edit.patch),
        moved_to=clean(edit.moved_to),
    )


@lru_cache(maxsize=512)  # There are few, and they come again and again.
def _short(text: str) -> str:
    """Return a model's or tool's name without secrets."""
    return clean(text)
