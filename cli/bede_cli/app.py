"""The command line: operations become Typer commands.

Promises to import the one verb that was typed and no other. The words are Typer's to split and `grammar`'s to read:
Typer's own conversion imports pydantic, which costs more than the rest of a call. Holds no policy.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from inspect import Parameter, Signature
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from bede import __version__
from bede.errors import UsageError
from bede.operation import Operation
from bede_cli import grammar, manual, terminal
from bede_cli.grammar import EVERYWHERE, Word
from bede_cli.verbs import SERVE, Call, find

if TYPE_CHECKING:
    from bede.records import Record
    from bede_cli.terminal import Form

_FORMS = ("call_json", "call_pretty")


def run(arguments: Sequence[str], serve: Callable[..., object]) -> int:
    """Answer a command line and return its exit status; `serve` begins to serve, where that is asked for.

    Raises:
        UsageError: there is no such verb, flag or value.
        BedeError: whatever the verb raises.
    """
    before, rest = _leading(list(arguments))
    if "--version" in before:
        return _print(f"bede {__version__}\n")
    verb, after = (rest[0], rest[1:]) if rest else ("help", [])
    if verb == "help":
        verb, before, after = (after[0] if after else "help"), [*before, "--help"], []
    if verb.startswith("-") or verb == "help":
        return _print(manual.contents(bold=terminal.has_colour(sys.stdout, os.environ)))
    declared = find(verb)
    return _answer(declared, before if "--help" in before else before + after, serve)


def _leading(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Split a command line into the options before the verb, as they are typed after it, and the rest."""
    known = {flag: item for item in EVERYWHERE for flag in item.flags}
    before: list[str] = []
    while arguments and arguments[0].startswith("-") and arguments[0] != "--":
        typed = arguments.pop(0)
        flag, equals, value = typed.partition("=") if typed.startswith("--") else (typed[:2], typed[2:], typed[2:])
        item = known.get(flag)
        if typed == "--version":
            before.append(typed)
        elif item is None or (item.is_flag and equals):
            near = get_close_matches(typed, [*known, "--version"], 1, 0.6)
            raise UsageError(f"no option {typed!r} before the verb", hint=_meant(near) or "'bede help' lists them")
        elif item.is_flag:
            before.append("--help" if flag == "-h" else flag)
        elif not equals and not arguments:
            raise UsageError(f"{flag} needs a value", hint=f"{flag} {item.metavar}")
        else:
            before += [flag, value if equals else arguments.pop(0)]
    return before, arguments[1:] if arguments[:1] == ["--"] else arguments


def _meant(near: Sequence[str]) -> str:
    return f"did you mean {' or '.join(near)}?" if near else ""


class Verb(TyperCommand):
    """A verb as Typer's parser sees it."""

    declared: Operation
    words: tuple[Word, ...] = ()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Split the words by Typer's parser, and read each by its own rule."""
        found, rest, order = self.make_parser(ctx).parse_args(args=list(args))
        given = {name: raw for name, raw in found.items() if isinstance(raw, (str, bool, list, tuple)) and raw != ()}
        if "call_help" in given:
            width = get_terminal_size().columns if terminal.is_terminal(sys.stdout) else 80
            bold = terminal.has_colour(sys.stdout, os.environ, refused="call_no_color" in given)
            _print(manual.page(self.declared, width=width, bold=bold))
            ctx.exit()
        if rest:
            raise UsageError(f"unexpected argument {rest[0]!r}", hint=_usage(self.name))
        missing = next((item for item in self.words if item.required and item.name not in given), None)
        if missing:
            raise UsageError(f"{missing.label} is missing", hint=_usage(self.name))
        forms = [item.name for item in order if item.name in _FORMS]
        ctx.params.update(self._values(given), **dict.fromkeys(forms[-1:], True))
        return []

    def _values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        folder = grammar.directory(given.get("call_directory", []))
        typed = [item for item in self.words if item.name in given and item.name not in (*_FORMS, "call_directory")]
        values = {item.name: grammar.read(item, given[item.name], folder) for item in typed}
        return values | {"call_directory": [folder]}


def command(declared: Operation, perform: Callable[..., int]) -> Verb:
    """Return the Typer command of a verb; `perform` is called with what was typed, by name."""
    shape = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    words = grammar.words(declared)
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
    made.declared, made.words = declared, words
    return made


def _parameter(item: Word) -> Parameter:
    """Return a Word as Typer declares it. Its type is only what the parser needs to know; `grammar` reads the value."""
    text = item.help
    kind: Any = bool if item.is_flag else str
    if not item.flags:
        info: Any = typer.Argument(help=text, metavar=item.metavar, show_default=False)
    else:
        names = [f"{item.flags[0]}/{item.off[0]}" if item.off else item.flags[0], *item.flags[1:]]
        metavar = None if item.is_flag else item.metavar
        info = typer.Option(*names, help=text, metavar=metavar, show_default=False, hidden=item.field.hidden)
    annotation: Any = Annotated[list[str], info] if item.many else Annotated[kind, info]
    default = Parameter.empty if item.required else None
    return Parameter(item.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _answer(declared: Operation, arguments: list[str], serve: Callable[..., object]) -> int:
    """Parse what was typed after a verb, run it, and show its result."""

    def perform(**given: Any) -> int:
        return _perform(declared, {name: value for name, value in given.items() if value is not None}, serve)

    made = command(declared, perform)
    try:
        parsed = made.make_context(f"bede {declared.name}", arguments)
    except typer.Exit as end:
        return end.exit_code
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        raise _usage_error(error, declared.name) from error
    return int(made.invoke(parsed))


def _usage_error(error: Any, verb: str) -> UsageError:
    """Return what Typer's parser complains of as an error of our own."""
    text = str(error.message).rstrip(".")
    if not hasattr(error, "possibilities"):
        return UsageError(text[:1].lower() + text[1:], hint=_usage(verb))
    typed = str(error.option_name)
    hint = _meant(list(error.possibilities or ())[:2]) or _usage(verb)
    if not typed.startswith("--"):
        hint += "; a word that begins with - goes after --"
    return UsageError(f"no such option {typed!r}", hint=hint)


def _print(text: str) -> int:
    terminal.say(sys.stdout, text)
    return 0


def _usage(verb: str | None) -> str:
    return f"'bede help {verb}' shows how it is used"


def _perform(declared: Operation, given: dict[str, Any], serve: Callable[..., object]) -> int:
    """Run a verb with the values that were typed, and show its result in the form that was asked for."""
    from bede.context import Context
    from bede_cli import output

    call = {item.name: given.pop(item.name, None) for item in EVERYWHERE}
    folder, project, branch = call["call_directory"][0], call["call_project"] or "", call["call_branch"] or ""
    if declared.name == SERVE:
        declared.function(Call(folder, project, branch, serve), **given)
        return 0
    flag: Form | None = "json" if call["call_json"] else "pretty" if call["call_pretty"] else None
    shown = output.Output.choose(flag, os.environ, no_colour=bool(call["call_no_color"]))
    stdin = getattr(sys.stdin, "buffer", None)
    context = Context(
        directory=folder,
        project=project,
        branch=branch,
        lease=call["call_lease"] or 0,
        stdin=stdin,
        say=terminal.speak,
        progress=terminal.Progress(),
    )
    try:
        result: Record = declared.function(context, **given)
    finally:
        context.close()
    return result.exits if context.is_silent and flag is None else shown.show(result)
