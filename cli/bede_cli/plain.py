"""The words of an everyday call, split without a parser: Typer's takes longer to load than most verbs take to run.

What is typed is nearly always plain: whole flags, each with its value behind it, and arguments. At anything else this
room gives up and says nothing, so that Typer alone decides what is right, what is wrong, and in which words. Promises
that whatever it does split, Typer splits the same; a law holds it to that. Never reads a value, prints, or raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bede_cli.grammar import Word

#: What was typed, as it was typed, by the name of its Word, in the order in which each was typed last.
Typed = dict[str, Any]


def split(words: Sequence[Word], arguments: Sequence[str]) -> Typed | None:
    """Return what was typed after a verb; None where that takes a parser to tell."""
    if any(item.passes for item in words):
        return None
    known = {flag: (item, True) for item in words for flag in (*item.flags, *item.aliases)}
    known.update((flag, (item, False)) for item in words for flag in item.off)
    given: Typed = {}
    loose: list[str] = []
    rest = iter(arguments)
    for typed in rest:
        if not typed.startswith("-"):
            loose.append(typed)
        elif not _option(known, typed, rest, given):
            return None
    return given if _arguments([item for item in words if not item.flags], loose, given) else None


def _option(known: Mapping[str, tuple[Word, bool]], typed: str, rest: Iterator[str], given: Typed) -> bool:
    """Take an option with its value; tell whether it is a plain one."""
    flag, equals, value = typed.partition("=")
    item, is_on = known.get(flag, (None, True))
    if item is None or item.name == "call_help" or (equals and (item.is_flag or not flag.startswith("--"))):
        return False
    if item.is_flag:
        given.pop(item.name, None)
        given[item.name] = is_on
        return True
    value = value if equals else next(rest, "-")
    if value.startswith("-"):
        return False
    before = given.pop(item.name, ())
    given[item.name] = [*before, value] if item.many else value
    return True


def _arguments(items: Sequence[Word], loose: Sequence[str], given: Typed) -> bool:
    """Lay the words that belong to no flag upon the arguments; tell whether each has its place."""
    if items and items[-1].many and len(loose) >= len(items):
        first = len(items) - 1
        given[items[-1].name] = list(loose[first:])
        items, loose = items[:-1], loose[:first]
    if len(loose) > len(items) or any(item.many for item in items[: len(loose)]):
        return False
    given.update((item.name, value) for item, value in zip(items, loose, strict=False))
    return True
