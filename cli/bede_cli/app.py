"""The command line: words become a call of an operation.

Promises to import the one verb that was typed and no other. The words are `plain`'s to split, Typer's (`parser`) where
they are not plain, and `grammar`'s to read. Holds no policy.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bede import __version__
from bede.errors import Unavailable, UsageError
from bede.operation import Operation
from bede_cli import grammar, plain, terminal
from bede_cli.grammar import EVERYWHERE, Word
from bede_cli.plain import Typed
from bede_cli.verbs import HOOK, SERVE, Call, find

if TYPE_CHECKING:
    from bede.records import Record
    from bede_cli.output import Output
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
        from bede_cli import manual

        return _print(manual.contents(width=_width(), bold=terminal.has_colour(sys.stdout, os.environ)))
    if verb == HOOK:
        return _door(is_help="--help" in before)
    declared = find(verb)
    return _answer(declared, before if "--help" in before else before + after, serve)


def _door(*, is_help: bool) -> int:
    """Explain what agents call through a door of its own, which nobody comes to with other words before it."""
    if not is_help:
        raise UsageError("'bede hook' takes no option before it", hint=grammar.advice(HOOK))
    from bede_cli import manual

    return _print(manual.door())


def _leading(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Split a command line into the options before the verb, as they are typed after it, and the rest."""
    known = {flag: item for item in EVERYWHERE for flag in item.flags}
    before: list[str] = []
    while arguments and arguments[0].startswith("-") and arguments[0] != "--":
        typed = arguments.pop(0)
        flag, equals, value = typed.partition("=") if typed.startswith("--") else (typed[:2], typed[2:], typed[2:])
        item = known.get(flag)
        if typed in ("--version", "-V"):
            before.append("--version")
        elif item is None or (item.is_flag and equals):
            from bede.hints import near as nearest

            near = grammar.meant(nearest(typed, [*known, "--version"]))
            raise UsageError(f"no option {typed!r} before the verb", hint=near or "'bede help' lists them")
        elif item.is_flag:
            before.append("--help" if flag == "-h" else flag)
        elif not equals and arguments[:1] in ([], ["--"]):
            raise UsageError(f"{flag} needs a value", hint=f"{flag} {item.metavar}")
        else:
            before += [flag, value if equals else arguments.pop(0)]
    return before, arguments[1:] if arguments[:1] == ["--"] else arguments


def _answer(declared: Operation, arguments: list[str], serve: Callable[..., object]) -> int:
    """Split what was typed after a verb, read it, run the verb, and show its result."""
    words = grammar.spoken(grammar.words(declared), arguments)
    typed = plain.split(words, arguments)
    if typed is None:
        from bede_cli import parser

        typed = parser.split(declared, words, arguments)
    if "call_help" in typed:
        from bede_cli import manual

        bold = terminal.has_colour(sys.stdout, os.environ, refused="call_no_color" in typed)
        return _print(manual.page(declared, width=_width(), bold=bold))
    return _perform(declared, _values(declared, words, typed), serve)


def _values(declared: Operation, words: Sequence[Word], typed: Typed) -> dict[str, Any]:
    """Return what the words mean, by name; of two forms the one that was typed last.

    Raises:
        UsageError: words are missing, or make no sense; all of them are told.
    """
    missing = [item.label for item in words if item.required and item.name not in typed]
    if missing:
        are = "are" if len(missing) > 1 else "is"
        raise UsageError(f"{' and '.join(missing)} {are} missing", hint=grammar.advice(declared.name))
    folder = grammar.directory(typed.get("call_directory", []))
    said = [item for item in words if item.name in typed and item.name not in (*_FORMS, "call_directory")]
    read = _read(said, typed, folder)
    values = {name: value for name, value in read.items() if value != []}
    forms = [name for name in typed if name in _FORMS]
    return {**values, "call_directory": folder, **dict.fromkeys(forms[-1:], True)}


def _read(said: Sequence[Word], typed: Typed, folder: Path) -> dict[str, Any]:
    """Return the value of each word.

    Raises:
        UsageError: some make no sense; all of them are told.
    """
    read: dict[str, Any] = {}
    wrong: list[UsageError] = []
    for item in said:
        try:
            read[item.name] = grammar.read(item, typed[item.name], folder)
        except UsageError as error:
            wrong.append(error)
    if len(wrong) > 1:
        hints = dict.fromkeys(error.hint for error in wrong if error.hint)
        raise UsageError("; ".join(error.message for error in wrong), hint="; ".join(hints))
    if wrong:
        raise wrong[0]
    return read


def _print(text: str) -> int:
    terminal.say(sys.stdout, text)
    return 0


def _width() -> int:
    """Return how wide a help page may be: on a terminal its width, at most, else 80 columns."""
    from shutil import get_terminal_size

    return get_terminal_size().columns if terminal.is_terminal(sys.stdout) else 80


def _perform(declared: Operation, given: dict[str, Any], serve: Callable[..., object]) -> int:
    """Run a verb with the values that were typed, and show its result in the form that was asked for."""
    from bede.context import Context
    from bede_cli import output

    call = {item.name: given.pop(item.name, None) for item in EVERYWHERE}
    folder, project, branch = call["call_directory"], call["call_project"] or "", call["call_branch"] or ""
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
        context.check()
        result: Record = declared.function(context, **given)
    finally:
        context.close()
    if context.is_silent and flag is None:
        return result.exits
    return _aside(result, shown) if result.aside else shown.show(result)


def _aside(result: Record, shown: Output) -> int:
    """Show what stands beside a command's own output; its status is the command's, whoever hears of the rest."""
    with suppress(KeyboardInterrupt, BrokenPipeError, Unavailable):
        shown.show(result)
    return result.exits
