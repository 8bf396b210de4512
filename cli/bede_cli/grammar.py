"""What can be typed after a verb, and how a typed word becomes a value.

A Word is one argument or option of a verb, or one of the few options that every verb takes. The parser, the manual and
the completions are all made from Words. Reading is strict: what does not fit its type or bounds is a usage error
that names the flag. This room knows no parser and runs nothing.
"""

from __future__ import annotations

import json
import os
import types
import typing
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from bede.errors import UsageError
from bede.operation import Field, Operation, Parameter
from bede.quick import dataclass, replace

#: Two names for whom a verb is about: where it has one of them, the other means the same.
_TWINS = {"agent": "agent_id", "agent_id": "agent"}
#: What SQLite and other people's JSON readers can hold.
_MOST = 2**63 - 1
_METAVARS = {int: "N", float: "NUMBER", Path: "PATH", dict: "JSON"}


@dataclass(frozen=True, slots=True)
class Word:
    """One thing that can be typed: `flags` is empty for an argument; `many` takes several values."""

    name: str
    flags: tuple[str, ...]
    off: tuple[str, ...]
    kind: type
    many: bool
    choices: tuple[str, ...]
    field: Field
    default: Any
    required: bool
    everywhere: bool = False
    #: Flags that are taken too and never shown.
    aliases: tuple[str, ...] = ()
    #: Of an argument the flag that it may be given by, too, where no other has it: `--query`, as over MCP; never shown.
    by_name: str = ""

    @property
    def is_flag(self) -> bool:
        """Whether it is an option that takes no value."""
        return self.kind is bool

    @property
    def variadic(self) -> bool:
        """Whether it is an argument that takes all words that are left."""
        return self.many and not self.flags

    @property
    def passes(self) -> bool:
        """Whether it is a command to hand on: whatever follows its first word belongs to it, flags included."""
        return self.variadic and self.metavar.startswith("--")

    @property
    def label(self) -> str:
        """How messages call it: `--task-id`, or the argument's metavar."""
        return max(self.flags, key=len) if self.flags else self.metavar

    @property
    def metavar(self) -> str:
        """What stands for its value in help and manual."""
        if self.field.metavar:
            return self.field.metavar
        if not self.flags:
            return self.name.rstrip("_").upper()
        return "|".join(self.choices) or _METAVARS.get(self.kind, "TEXT")

    @property
    def help(self) -> str:
        """What it means, with default, bounds and manners."""
        notes = list(self.bounds())
        if self.default not in (None, "", False, True, [], ()):
            notes.append(f"default: {self.default}")
        if self.many and self.flags:
            notes.append("repeatable" if self.everywhere else "repeatable, or a JSON array")
        if self.required and self.flags:
            notes.append("required")
        return f"{self.field.description}  [{'; '.join(notes)}]" if notes else self.field.description

    def bounds(self) -> typing.Iterator[str]:
        low, high = self.field.ge, self.field.le
        if low is not None and high is not None:
            yield f"{low} to {high}"
        elif low is not None or high is not None:
            yield f"at least {low}" if low is not None else f"at most {high}"


def _everywhere(
    name: str, flags: tuple[str, ...], kind: type, text: str, metavar: str | None = None, ge: int | None = None
) -> Word:
    field = Field(text, metavar=metavar, ge=ge)
    return Word("call_" + name, flags, (), kind, name == "directory", (), field, None, False, everywhere=True)


#: The options of every verb, also before it. Their names differ from any parameter's: `checkout` has a `branch` too.
EVERYWHERE: tuple[Word, ...] = (
    _everywhere("directory", ("-C",), Path, "Run as if started in this folder", "PATH"),
    _everywhere("project", ("--project",), str, "Use a registered project, whatever the folder", "NAME|UUID"),
    _everywhere("branch", ("--branch",), str, "Use this branch instead of the current one", "NAME"),
    _everywhere("lease", ("--lease",), int, "Write only while this lease is held, and yours", "TOKEN", 1),
    _everywhere("json", ("--json",), bool, "Print one line of JSON, also on a terminal"),
    _everywhere("pretty", ("--pretty",), bool, "Print for people, also into a pipe"),
    _everywhere("no_color", ("--no-color",), bool, "Print without colour"),
    _everywhere("help", ("--help", "-h"), bool, "Show this help"),
)
_FLAGS = frozenset(flag for item in EVERYWHERE for flag in item.flags)


def words(operation: Operation) -> tuple[Word, ...]:
    """Return what can be typed after a verb: its own words first, in the order of declaration, then everybody's.

    A lease is only asked of what writes.
    """
    parameters = operation.parameters()
    names = {parameter.name for parameter in parameters}
    own = tuple(word(parameter, names) for parameter in parameters)
    taken = {flag for item in own for flag in item.flags} | ({"--lease"} if operation.effect == "read" else set())
    return own + tuple(item for item in EVERYWHERE if not taken.intersection(item.flags))


def spoken(known: Sequence[Word], arguments: Sequence[str]) -> Sequence[Word]:
    """Return the words of one call: an argument that is given by its name, `--query why`, is an option in it."""
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    typed = {text.partition("=")[0] for text in before if text.startswith("--")}
    return [replace(item, flags=(item.by_name,)) if item.by_name in typed else item for item in known]


def word(parameter: Parameter, names: Collection[str]) -> Word:
    """Return how one parameter of an operation is typed, of which all `names` are known."""
    kind, many, choices, optional = _shape(parameter.type)
    flags: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    if not parameter.argument:
        short = parameter.field.short
        flags = (parameter.flag, *(("-" + short.lstrip("-"),) if short else ()))
        if kind is bool and (optional or parameter.default is True):
            off = ("--no-" + parameter.flag[2:],)
    twin = _TWINS.get(parameter.name, "")
    aliases = ("--" + twin.replace("_", "-"),) if flags and twin and twin not in names else ()
    default, required = parameter.default, parameter.required
    made = Word(parameter.name, flags, off, kind, many, choices, parameter.field, default, required, aliases=aliases)
    return made if flags or made.passes or parameter.flag in _FLAGS else replace(made, by_name=parameter.flag)


def _shape(hint: Any) -> tuple[type, bool, tuple[str, ...], bool]:
    """Return a type's core: the kind of one value, whether there may be many, the choices, and whether None is one."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        rest = [part for part in parts if part is not types.NoneType]
        kind, many, choices, _ = _shape(rest[0]) if len(rest) == 1 else (str, False, (), False)
        return kind, many, choices, len(rest) < len(parts)
    if origin is typing.Annotated:
        return _shape(parts[0])
    if origin is typing.Literal:
        return str, False, tuple(str(part) for part in parts), False
    if origin in (list, tuple):
        kind, _, choices, _ = _shape(parts[0])
        return kind, True, choices, False
    return origin or (hint if isinstance(hint, type) else str), False, (), False


def read(item: Word, raw: Any, directory: Path) -> Any:
    """Return the value of what was typed; relative paths start at `directory`.

    Raises:
        UsageError: it is not of the word's type, or out of its bounds.
    """
    if item.is_flag:
        return raw
    if not item.many:
        return _one(item, raw, directory)
    if item.flags and not item.everywhere:
        raw = [part for text in raw for part in _array(item, text)]
    return [_one(item, part, directory) for part in raw]


def _array(item: Word, text: str) -> list[str]:
    """Return the elements of a JSON array; a text that is none is its own only element.

    `[wip] text` is a plain text; what looks like an array to its end, or begins one with a quote, has to be one.
    """
    bare = text.strip()
    if not bare.startswith("[") or not (bare.endswith("]") or bare[1:].lstrip().startswith('"')):
        return [text]
    try:
        found = json.loads(bare)
    except (ValueError, RecursionError) as error:
        hint = f"a text that only looks like one goes into an array: {item.label} '{json.dumps([text])}'"
        raise UsageError(f"{item.label}: not a JSON array: {text[:80]}", hint=hint) from error
    wrong = next((part for part in found if not isinstance(part, str)), None)
    if wrong is not None or None in found:
        raise UsageError(
            f"{item.label}: every element must be a string, not {json.dumps(wrong)[:40]}",
            hint=f"""write {item.label} '["a","b"]', or repeat the flag""",
        )
    return list(found)


def _one(item: Word, text: str, directory: Path) -> Any:
    if item.choices and text not in item.choices:
        from bede.hints import asked

        hint = f"{asked(text, item.choices)}one of {', '.join(item.choices)}"
        raise UsageError(f"{item.label}: no choice {text!r}", hint=hint)
    if item.field.pattern is not None:
        _match(item, text)
    if item.kind is Path:
        if not text:
            raise UsageError(f"{item.label}: the path is empty")
        return Path(text) if text == "-" else directory / text
    if item.kind in (int, float):
        return _number(item, text)
    return _object(item, text) if item.kind is dict else text


def _match(item: Word, text: str) -> None:
    import re

    if not re.search(item.field.pattern or "", text):
        raise UsageError(f"{item.label}: {text!r} is malformed", hint=item.field.description)


def _number(item: Word, text: str) -> int | float:
    low, high = item.field.ge, item.field.le
    try:
        value: int | float = int(text) if item.kind is int else float(text)
    except ValueError as error:
        kind = "whole number" if item.kind is int else "number"
        hint = f"it must be {'; '.join(item.bounds()) or f'a {kind}'}"
        raise UsageError(f"{item.label}: {text[:40]!r} is not a {kind}", hint=hint) from error
    low, high = (-_MOST if low is None else low), (_MOST if high is None else high)
    if not low <= value <= high:
        bounds = "; ".join(item.bounds()) or "a number of 64 bits"
        raise UsageError(f"{item.label}: {text[:40]} is out of bounds", hint=f"it must be {bounds}")
    return value


def _object(item: Word, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{item.label}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageError(f"{item.label}: not a JSON object: {text[:80]}")
    return value


def advice(verb: str) -> str:
    """Return what tells how a verb is used."""
    return f"'bede help {verb}' shows how it is used"


def meant(near: Sequence[str]) -> str:
    """Return a question after what was probably meant; nothing where nothing is near."""
    return f"did you mean {' or '.join(near)}?" if near else ""


def directory(given: list[str]) -> Path:
    """Return the folder of this call: each `-C` counts from the one before, as in git; an empty one changes nothing.

    Raises:
        UsageError: there is no such folder, or the current one is gone.
    """
    try:
        here = Path() if given and Path(given[0]).is_absolute() else Path.cwd()
    except OSError as error:
        raise UsageError("the current folder is gone", hint="change to one that exists") from error
    for step in given:
        here = here / step
        # Not Path.is_dir, which raises where a folder on the way may not be entered.
        if not os.path.isdir(here):  # noqa: PTH112
            raise UsageError(f"cannot change to {str(step)!r}: no such folder", hint="check the path given with -C")
    return here
