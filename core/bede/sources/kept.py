"""Texts as they are kept: without secrets, and such as any encoding can store.

Whatever is made of a text for a key, a mark or a stamp is made of it as it is kept. A checksum of what stood there
before would tell a password to whoever tries all that there are, and would be another one once a session is built again
from copies, which hold no secrets either.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from bede.redact import redact, redact_value

#: Longest text that is remembered for the moment in which it is asked for twice: for its key, and to be kept.
_SHORT = 64 * 1024


def clean(text: str) -> str:
    """Return a text without secrets, and such as any encoding can store; the same object where nothing changes."""
    if not text:
        return text
    return _clean(text) if len(text) <= _SHORT else redact(storable(text))


@lru_cache(maxsize=64)
def _clean(text: str) -> str:
    return redact(storable(text))


def named(identity: str) -> str:
    """Return an id; nothing for one that holds a secret, so that its place names it, as it does in a copy without."""
    return "" if "[redacted:" in clean(identity) else identity


def storable(text: str) -> str:
    """Return a text without halves of characters, which no encoding has; the same object where there are none."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def form(value: Any) -> bytes:
    """Return a value of JSON, as it is kept, as bytes; one that lies too deep to be written as a word of its own."""
    try:
        return json.dumps(redact_value(value), sort_keys=True, default=repr).encode()
    except RecursionError:
        return b"deep"
