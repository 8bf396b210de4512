"""Help pages, made from the declarations: what a person reads after `--help`, and the list of the verbs.

Plain text with bold headings at most, in the manner of git. Nothing heavy is imported for it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from bede.operation import Operation
from bede_cli.grammar import EVERYWHERE, Word, words
from bede_cli.verbs import HEADINGS, find

#: Where descriptions begin, and how wide a page is at most.
_INDENT, _WIDEST = 26, 100
_DOOR = """usage: bede hook EVENT --agent NAME

Answer a moment of a coding agent. Agents call it, not people: it reads the
agent's JSON on stdin, answers in the agent's own form on stdout, and exits 0.

At the start of a session and at a prompt it hands over what the memory has.
Before an edit it claims the files, or refuses with what their holder is about;
after it, it notes what was changed. At the end of a turn it takes in what was
said, and gives the files back. In a project without memory, or where anything
fails or takes too long, the answer is to go on.

  EVENT         the moment, as the agent calls it: SessionStart, PreToolUse, ...
  --agent NAME  who calls: {agents};
                or git, after a commit

'bede install-hooks' puts it where each agent looks for it, 'bede doctor' tells
how that stands, BEDE_HOOK_PATIENCE=2 gives each call twice the time, and
docs/hooks.md tells what it does at which moment.
"""


def usage(declared: Operation) -> str:
    """Return how a verb is typed, on one line: `bede show [OPTIONS] ID`."""
    typed = [f"bede {declared.name}", "[OPTIONS]"]
    for item in words(declared):
        if not item.flags:
            name = item.metavar + ("..." if item.many else "")
            typed.append(name if item.required or name.startswith("[") else f"[{name}]")
    return " ".join(typed)


def page(declared: Operation, *, width: int = 80, bold: bool = False) -> str:
    """Return the help page of a verb."""
    width = min(width, _WIDEST)
    typed = words(declared)
    lines = [f"usage: {usage(declared)}", ""]
    for paragraph in paragraphs(declared.description):
        lines += [*(paragraph if paragraph[0].startswith(" ") else textwrap.wrap(" ".join(paragraph), width)), ""]
    groups = {
        "Arguments": [item for item in typed if not item.flags],
        "Options": [item for item in typed if item.flags and not item.everywhere],
        "Options of every verb": [item for item in typed if item.everywhere],
    }
    for title, members in groups.items():
        shown = [item for item in members if not item.field.hidden]
        if shown:
            lines += [heading(title, bold), *(line for item in shown for line in _entry(item, width)), ""]
    return "\n".join(lines)


def contents(*, width: int = 80, bold: bool = False) -> str:
    """Return the page that lists the verbs, each with its first sentence in a column of its own."""
    width = min(width, _WIDEST)
    options = " ".join(f"[{typed(item)}]" for item in EVERYWHERE if item.flags[0] not in ("--no-color", "--help"))
    lines = [*_hanging("usage: bede ", options + " VERB ...", width), "       bede --version"]
    column = max(map(len, HEADINGS)) + 4
    seen = ""
    for verb, group in HEADINGS.items():
        if group != seen:
            lines += ["", heading(group, bold)]
            seen = group
        lines += _hanging(f"  {verb:<{column - 2}}", find(verb).summary, width)
    told = "'bede help VERB' tells all about one. The options above may follow the verb as well."
    return "\n".join([*lines, "", *textwrap.wrap(told, width), ""])


def door() -> str:
    """Return the page of `bede hook`, which is no verb: agents call it through a door of its own."""
    from bede.agents import AGENTS

    names = ("\n" + " " * 16).join(textwrap.wrap(", ".join(AGENTS), 52))
    return _DOOR.format(agents=names)


def _hanging(label: str, told: str, width: int) -> Sequence[str]:
    """Return a label and what is told beside it, on as many lines as that needs."""
    room = max(width - len(label), 30)
    first, *rest = textwrap.wrap(told, room, break_on_hyphens=False) or [""]
    return [label + first, *(" " * len(label) + line for line in rest)]


def heading(title: str, bold: bool) -> str:
    """Return a heading, bold where that can be shown."""
    return f"\x1b[1m{title}\x1b[0m" if bold else title


def paragraphs(text: str) -> Iterator[list[str]]:
    """Yield the paragraphs of a docstring, each as its lines; one that begins indented is to be shown as it is."""
    for block in text.split("\n\n"):
        if lines := [line.rstrip() for line in block.split("\n") if line.strip()]:
            yield lines


def typed(item: Word) -> str:
    """Return how an option is typed, short form first, with what stands for its value: `-n, --limit N`."""
    flags = sorted(item.flags, key=len)
    named = ", ".join([*flags, *item.off])
    return named if item.is_flag else f"{named} {_placeholder(item)}"


def _placeholder(item: Word) -> str:
    """Return the metavar; many choices are listed below, not beside the flag."""
    if item.choices and len(item.metavar) > 20 and not item.field.metavar:
        return item.name.rstrip("_").upper()
    return item.metavar


def _entry(item: Word, width: int) -> Sequence[str]:
    label = typed(item) if item.flags else item.metavar
    indent = "" if not item.flags or not label.startswith("--") else "    "
    label = f"  {indent}{label}"
    told = textwrap.wrap(item.help, max(width - _INDENT, 30))
    if item.choices and _placeholder(item) != "|".join(item.choices):
        told += textwrap.wrap("one of " + ", ".join(item.choices), max(width - _INDENT, 30))
    if len(label) > _INDENT - 2:
        return [label, *(" " * _INDENT + line for line in told)]
    first, rest = (told or [""])[0], told[1:]
    return [f"{label:<{_INDENT}}{first}", *(" " * _INDENT + line for line in rest)]
