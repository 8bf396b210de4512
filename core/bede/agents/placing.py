"""What the installing halves of the agents share: our entry, our hooks, and how both are known again.

Only installers load this. It says what is to stand in a file; the file is read and written by `bede.splice`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bede.agents.wiring import SERVER, Machine, Wish, spoken
from bede.splice import Format, Items, Member, Piece, Target, Whole

#: Event → the tools it is wanted for ('' for all, or where there are none), and seconds that it may take.
Events = Mapping[str, tuple[str, int]]


def at(usual: Path, wish: Wish, *project: str) -> Path:
    """Return where a file is to stand: the user's place, or the one in the project."""
    if wish.scope == "user" or wish.root is None:
        return usual
    return wish.root.joinpath(*project)


def is_wanted(home: Path, wish: Wish) -> bool:
    """Tell whether anything may stand in an agent's own folder: one is made only for an agent that was named."""
    return wish.scope == "project" or wish.named or home.is_dir()


def entry(wish: Wish, agent: str, *more: str, **members: Any) -> dict[str, Any]:
    """Return the usual form of a server's entry: the program and its words apart, then what the agent wants."""
    words = [*wish.serve(agent), *more]
    return {"command": words[0], "args": words[1:], **members}


def server(
    file: Path, form: Format, value: Any, *above: str, kept: tuple[str, ...] = ("env",), more: tuple[Any, ...] = ()
) -> Target:
    """Return the target that our entry stands in, below some names."""
    return Target(file, form, (*more, Member((*above, SERVER), value, kept)))


def target(file: Path, form: Format, pieces: Iterable[Piece]) -> Target:
    """Return the target that some pieces make of a file."""
    return Target(file, form, tuple(pieces))


def command(machine: Machine, wish: Wish, event: str, agent: str) -> str:
    """Return the command that tells us of an event, as a line for a shell."""
    return spoken(wish.hook(event, agent), machine.system)


def grouped(
    machine: Machine, wish: Wish, agent: str, events: Events, *above: str, factor: int = 1, **members: Any
) -> tuple[Items, ...]:
    """Return hooks in Claude's form: per event a list of groups, in each what it fits and a list of commands."""
    found = []
    for event, (matcher, seconds) in events.items():
        group: dict[str, Any] = {"matcher": matcher} if matcher else {}
        line = command(machine, wish, event, agent)
        group["hooks"] = [{"type": "command", **members, "command": line, "timeout": seconds * factor}]
        found.append(Items((*above, event), (group,), ours(agent), "hooks"))
    return tuple(found)


def plugin(file: Path, name: str, wish: Wish, agent: str = "") -> Target:
    """Return the target that one of our plugins is, a file of this folder, with the command in it."""
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    text = text.replace('const COMMAND = ["bede"];', f"const COMMAND = {json.dumps(wish.command)};")
    if agent:
        text = text.replace('const AGENT = "pi";', f"const AGENT = {json.dumps(agent)};")
    return Target(file, "text", (Whole(text, text.partition("\n")[0]),))


def ours(agent: str) -> Callable[[Any], bool]:
    """Return what tells our hooks of an agent: each of an item's commands calls us, and for that agent."""
    calls = re.compile(
        r"""(?:^|[\s/\\"'])bede(?:_cli|\.exe|\.cmd|\.bat)?["']?\s+hook\s+["']?[\w.-]+["']?\s+--agent\s+["']?"""
        + re.escape(agent)
        + r"(?![\w-])",
        re.IGNORECASE,
    )

    def is_ours(item: Any) -> bool:
        found = list(_commands(item))
        return bool(found) and all(calls.search(command) for command in found)

    return is_ours


def _commands(item: Any) -> Iterator[str]:
    """Yield the commands of one item, or of the group of them that it is."""
    yield from _named(item)
    if isinstance(item, dict) and isinstance(inner := item.get("hooks"), list):
        for each in inner:
            yield from _named(each)


def _named(item: Any) -> Iterator[str]:
    if isinstance(item, dict):
        for name in ("command", "commandWindows", "bash", "powershell", "windows", "linux", "osx"):
            if isinstance(command := item.get(name), str):
                yield command
