"""What an installer knows when an agent's file says what it wants: the machine, and the wish.

Nothing ambient comes in another way, so that a test can give an agent any home and any system. An agent's file
answers with targets (`bede.splice`); it neither reads nor writes a file that it asks to have changed. The hook
never imports this module.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from bede.splice import Target

System = Literal["Linux", "Darwin", "Windows"]
Scope = Literal["user", "project"]

#: The name of our server in every agent's configuration.
SERVER = "bede"


@dataclass(frozen=True, slots=True)
class Machine:
    """One user's home on one machine; `which` finds a program on PATH, None where there is none."""

    home: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    system: System = "Linux"
    which: Callable[[str], str | None] = lambda _name: None

    def place(self, variable: str, *usual: str) -> Path:
        """Return the folder that a variable names, else the usual one below the home."""
        named = self.environment.get(variable, "") if variable else ""
        if named.startswith("~"):
            named = str(self.home) + named[1:]
        return Path(named).absolute() if named else self.home.joinpath(*usual)

    def evidence(self, programs: tuple[str, ...], *folders: Path) -> list[str]:
        """Return what speaks for an agent being here: its programs on PATH, and folders or files of its own."""
        programs_here = [path for name in programs if (path := self.which(name))]
        return programs_here + [str(path) for path in folders if os.path.exists(path)]  # noqa: PTH110


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user asked for.

    `command` is Bede's program and the arguments that always follow it; `root` is the project's root, always there
    where `scope` is `project`. `portable` means that the files are shared, so that no path of this machine may stand
    in them (`command` is then `["bede"]` already). `approve` asks that the agent runs Bede's tools without a question.
    `toolsets` names the groups of tools that the server offers, none for the usual one. `named` says that the user
    named this agent, and did not say `all`: only then a folder of its own may be made.
    """

    command: list[str]
    scope: Scope = "user"
    root: Path | None = None
    portable: bool = False
    approve: bool = False
    named: bool = True
    toolsets: tuple[str, ...] = ()

    def serve(self, agent: str = "") -> list[str]:
        """Return the words that start our server, for an agent or, without one, for whoever reads the file."""
        named = ["--agent-id", agent] if agent else []
        return [*self.command, "serve", *named, *(word for name in self.toolsets for word in ("--toolset", name))]

    def hook(self, event: str, agent: str) -> list[str]:
        """Return the words that tell us of an agent's event."""
        return [*self.command, "hook", event, "--agent", agent]


class Agent(Protocol):
    """What the installing half of every agent's file answers.

    `NOTES` holds what a user must do afterwards, by `server` and `hooks`.
    """

    NAME: str
    TITLE: str
    NOTES: dict[str, str]

    def found(self, machine: Machine) -> list[str]:
        """Return the evidence that the agent is on this machine; nothing where it is not."""

    def server(self, machine: Machine, wish: Wish) -> list[Target]:
        """Return what is to stand where so that the agent starts our MCP server."""

    def hooks(self, machine: Machine, wish: Wish) -> list[Target]:
        """Return what is to stand where so that the agent tells us of its moments."""


def here(environment: Mapping[str, str]) -> Machine:
    """Return this machine as the environment describes it."""
    system: System = "Windows" if os.name == "nt" else "Darwin" if sys.platform == "darwin" else "Linux"
    home = environment.get("USERPROFILE" if os.name == "nt" else "HOME", "")
    search = environment.get("PATH", os.defpath)

    def which(name: str) -> str | None:
        found = shutil.which(name, path=search)
        return found if found and os.path.isabs(found) else None  # noqa: PTH117

    return Machine(Path(home) if home else Path.home(), environment, system, which)


def spoken(words: list[str], system: System) -> str:
    """Return a command as one line for the shell that agents give it to.

    On Windows an agent may use cmd, PowerShell or Git's sh. A program without blanks, written with forward slashes, is
    the same word to all three; one with blanks is quoted, which PowerShell takes for a text.
    """
    if system != "Windows":
        return shlex.join(words)
    return " ".join(f'"{word}"' if set(word) & set(" &()^;,=") else word for word in _slashed(words))


def _slashed(words: list[str]) -> list[str]:
    return [words[0].replace("\\", "/"), *words[1:]] if words else []
