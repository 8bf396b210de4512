"""Values of any JSON type, taken for what a format expects: nothing of theirs is ever an exception."""

from __future__ import annotations

from typing import Any


def text_of(value: Any) -> str:
    """Return a string, an empty one for anything else."""
    return value if isinstance(value, str) else ""


def dict_of(value: Any) -> dict[str, Any]:
    """Return an object, an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    """Return a list, an empty one for anything else."""
    return value if isinstance(value, list) else []


def quoted(name: str) -> str:
    """Return an id as a part of a key, so that its colons divide nothing."""
    return name.replace("%", "%25").replace(":", "%3A")
