"""Values of a hook's payload, taken loosely: what is not of the type that was hoped for counts as not there.

Nothing in here raises, whatever JSON it is given.
"""

from __future__ import annotations

import json

#: Longest text that is taken from a payload: prompts are the longest, and only their beginning is looked at.
LONGEST = 20_000


def text(value: object) -> str:
    """Return a string, its beginning where it is very long; '' for anything else."""
    return value[:LONGEST] if isinstance(value, str) else ""


def mapping(value: object) -> dict[str, object]:
    """Return an object, also one that is given as a JSON text; an empty one for anything else."""
    if isinstance(value, str):
        value = parsed(value)
    return value if isinstance(value, dict) else {}


def sequence(value: object) -> list[object]:
    """Return an array; an empty one for anything else."""
    return value if isinstance(value, list) else []


def parsed(value: str) -> object:
    """Return what a JSON text holds; None where it is none."""
    body = value.lstrip("\ufeff \t\r\n")
    if not body.startswith(("{", "[")):
        return None
    try:
        found: object = json.loads(body, strict=False)
    except (ValueError, RecursionError):
        return None
    return found


def first(values: dict[str, object], *names: str) -> str:
    """Return the first of some members that is a string and not empty; '' where none is."""
    for name in names:
        if found := text(values.get(name)):
            return found
    return ""


def flag(value: object) -> bool:
    """Tell whether a value says yes: true, or a text that is not empty, as errors are told."""
    return value is True or (isinstance(value, str) and bool(value))
