"""Typer's parser: it splits the words of any call, says what is wrong with them, and knows when help is asked for.

A verb becomes a Typer command, made of Words. Typer's own conversion of values imports pydantic, which costs more than
the rest of a call, so the words are only split here, and `grammar` reads each. Imported where `plain` gives up.
"""

from __future__ import annotations

from collections.abc import Sequence
from inspect import Parameter, Signature
from itertools import pairwise
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from bede.errors import UsageError
from bede.hints import alike, near
from bede.operation import Operation
from bede_cli.grammar import Word, advice, meant
from bede_cli.plain import Typed


class Verb(TyperCommand):
    """A verb as Typer's parser sees it; `typed` is what its call was split into, `rest` what found no place."""

    typed: Typed
    rest: list[str]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Split the words, and leave them as they are."""
        found, rest, order = self.make_parser(ctx).parse_args(args=list(args))
        plain = {name: list(raw) if isinstance(raw, tuple) else raw for name, raw in found.items()}
        given = {name: raw for name, raw in plain.items() if isinstance(raw, (str, bool, list)) and raw != []}
        ordered = {item.name: None for item in reversed(order) if item.name in given}
        self.typed = {name: given[name] for name in (*reversed(ordered), *(given.keys() - ordered)) if name}
        self.rest = rest
        return []


def split(declared: Operation, words: Sequence[Word], arguments: Sequence[str]) -> Typed:
    """Return what was typed after a verb, as it was typed; with `call_help` also where it makes no other sense.

    Raises:
        UsageError: there is no such flag, or a value is missing, or a word too many.
    """
    made = command(declared, words)
    try:
        made.make_context(f"bede {declared.name}", list(arguments))
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        raise _usage_error(error, declared.name, words) from error
    if valueless := _valueless(words, made.typed, arguments):
        raise UsageError(f"{valueless} needs a value", hint=advice(declared.name))
    if made.rest and "call_help" not in made.typed:
        hint = _quoted(declared.name, words, made, list(arguments)) or advice(declared.name)
        raise UsageError(f"unexpected argument {made.rest[0]!r}", hint=hint)
    return made.typed


def _valueless(words: Sequence[Word], typed: Typed, arguments: Sequence[str]) -> str:
    """Return the option that took `--` for its value, as one does that was given none; '' where there is no such.

    A value of that name can still be had: `--flag=--`.
    """
    took = [item for item in words if not item.is_flag and "--" in _values(typed.get(item.name))]
    pairs = set(pairwise(arguments))
    flags = (flag for item in took for flag in (*item.flags, *item.aliases))
    return next((flag for flag in flags if (flag, "--") in pairs), "")


def _values(given: str | bool | list[str] | None) -> Sequence[object]:
    return given if isinstance(given, list) else [given]


def _quoted(verb: str, words: Sequence[Word], made: Verb, arguments: list[str]) -> str:
    """Return the call as it was meant where a text was typed without quotes; nothing where a verb takes no text.

    An argument that may be left out is a text; one that must be given is a name, and has no blanks.
    """
    import shlex

    taken = [item for item in words if not item.flags]
    if len(taken) != 1 or taken[0].required or taken[0].kind is not str or taken[0].choices:
        return ""
    loose = [str(made.typed[taken[0].name]), *made.rest]
    size = len(loose)
    start = next((at for at in range(len(arguments) - size, -1, -1) if arguments[at : at + size] == loose), None)
    before, after = ([], []) if start is None else (arguments[:start], arguments[start + size :])
    return f"put the words in quotes: {shlex.join(['bede', verb, *before, ' '.join(loose), *after])}"


def command(declared: Operation, words: Sequence[Word]) -> Verb:
    """Return the Typer command of a verb."""
    shape = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

    def perform(**_: Any) -> None:
        """Do nothing: who asked for the words performs the verb."""

    perform.__signature__ = Signature([_parameter(item) for item in words])  # type: ignore[attr-defined]
    shape.command(
        declared.name,
        cls=Verb,
        help=declared.summary,
        add_help_option=False,
        context_settings={"allow_interspersed_args": not any(item.passes for item in words)},
    )(perform)
    made = typer.main.get_command(shape)
    assert isinstance(made, Verb)
    return made


def _parameter(item: Word) -> Parameter:
    """Return a Word as Typer declares it. Its type is only what the parser needs to know; `grammar` reads the value."""
    text = item.help
    kind: Any = bool if item.is_flag else str
    if not item.flags:
        info: Any = typer.Argument(help=text, metavar=item.metavar, show_default=False)
    else:
        names = [f"{item.flags[0]}/{item.off[0]}" if item.off else item.flags[0], *item.flags[1:], *item.aliases]
        metavar = None if item.is_flag else item.metavar
        info = typer.Option(*names, help=text, metavar=metavar, show_default=False, hidden=item.field.hidden)
    annotation: Any = Annotated[list[str], info] if item.many else Annotated[kind, info]
    default = Parameter.empty if item.required else None
    return Parameter(item.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _usage_error(error: Any, verb: str, words: Sequence[Word]) -> UsageError:
    """Return what Typer's parser complains of as an error of our own."""
    text = str(error.message).rstrip(".")
    if not hasattr(error, "possibilities"):
        return UsageError(text[:1].lower() + text[1:], hint=advice(verb))
    typed = str(error.option_name)
    offered = [flag for item in words if not item.field.hidden for flag in (*item.flags, *item.off, *item.aliases)]
    offered += [item.by_name for item in words if item.by_name]
    hint = meant(near(typed, offered) or alike(typed, offered)) or advice(verb)
    if not typed.startswith("--"):
        hint += "; a word that begins with - goes after --"
    return UsageError(f"no such option {typed!r}", hint=hint)
