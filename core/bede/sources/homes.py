"""Where each agent keeps its things, told by environment and system alone: known without loading the agent's format.

A format begins its search at these places and nowhere else, so whoever sees that none of them is there need not load
it: most machines have two or three of the agents, and a call pays for every module. What looks into folders is here
too: what may not be read is noted, what is not there is not.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bede.sources.port import World

_NOWHERE = (errno.ENAMETOOLONG, errno.ELOOP)
#: Names of an editor's products, and of the folders that its servers for remote work make.
CURSOR = ("Cursor", "Cursor Nightly")
CODE = ("Code", "Code - Insiders", "VSCodium", "VSCodium - Insiders", "Code - OSS")
SERVERS = (".vscode-server", ".vscode-server-insiders", ".vscodium-server", ".vscode-remote")


def is_absent(agent: str, world: World) -> bool:
    """Tell whether nothing of an agent is there; of one that another package knows, nobody can."""
    homes = HOMES.get(agent)
    return homes is not None and not any(map(_may_be, homes(world)))


def _may_be(place: Path) -> bool:
    """Tell whether something is at a place, or nobody may look."""
    try:
        place.stat()
    except (OSError, ValueError) as error:
        return isinstance(error, OSError) and not _is_nothing(error)
    return True


def _is_nothing(error: OSError) -> bool:
    """Tell whether what was looked for is not there, which is no news; a link that leads to itself leads nowhere."""
    return isinstance(error, (FileNotFoundError, NotADirectoryError)) or error.errno in _NOWHERE


def refuse(world: World, place: Path, error: Exception) -> None:
    """Note what cannot be looked at, and why: where that is forbidden, the folder above that forbids it."""
    if not isinstance(error, OSError) or _is_nothing(error):
        return
    if isinstance(error, PermissionError):
        place = next((each for each in (place, *place.parents) if os.path.lexists(each)), place)
    world.refused[place] = error.strerror or type(error).__name__


def inside(world: World, folder: Path) -> list[Path]:
    """Return what lies in a folder, by name; nothing where it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return [folder / name for name in sorted(entry.name for entry in entries)]
    except (OSError, ValueError) as error:
        refuse(world, folder, error)
        return []


def is_file(world: World, path: Path) -> bool:
    """Tell whether a path leads to a file; no where that cannot be told."""
    return stat.S_ISREG(_mode(world, path))


def is_folder(world: World, path: Path) -> bool:
    """Tell whether a path leads to a folder; no where that cannot be told."""
    return stat.S_ISDIR(_mode(world, path))


def _mode(world: World, path: Path) -> int:
    try:
        return path.stat().st_mode
    except (OSError, ValueError) as error:
        refuse(world, path, error)
        return 0


def claude(world: World) -> list[Path]:
    """Return Claude Code's folders: what its variable names, or both of its places."""
    named = [name.strip() for name in world.environment.get("CLAUDE_CONFIG_DIR", "").split(",")]
    if any(named):
        return [_expanded(name, world.home) for name in named if name]
    config = world.environment.get("XDG_CONFIG_HOME", "")
    general = _expanded(config, world.home) if config else world.home / ".config"
    return [world.home / ".claude", general / "claude"]


def _expanded(name: str, home: Path) -> Path:
    """Return a folder by its name, with the home where `~` stands."""
    return home / name[1:].lstrip("/\\") if name == "~" or name.startswith(("~/", "~\\")) else Path(name)


def codex(world: World) -> list[Path]:
    """Return the folders of Codex's sessions, and of those that were put by."""
    home = Path(world.environment.get("CODEX_HOME") or world.home / ".codex")
    return [home / "sessions", home / "archived_sessions"]


def opencode(world: World) -> list[Path]:
    """Return the folder of OpenCode's data, and the database that its variable names, where it does."""
    data = world.environment.get("XDG_DATA_HOME") or ""
    folder = (Path(data) if data else world.home / ".local" / "share") / "opencode"
    name = world.environment.get("OPENCODE_DB") or ""
    return [folder, folder / name] if name and name != ":memory:" else [folder]


def omp(world: World) -> list[tuple[Path, str]]:
    """Return the folders of Oh My Pi, each with where the sessions lie below it and below each of its profiles."""
    names = [world.environment.get(name, "").strip() for name in ("OMP_CONFIG_DIR", "PI_CONFIG_DIR")]
    plain = dict.fromkeys([".omp", *(name for name in names if name and "\x00" not in name)])
    found = [(world.home / name, "agent/sessions") for name in plain]
    moved = told(world, "XDG_DATA_HOME") if world.system != "win32" else []
    return found + [(data / "omp", "sessions") for data in moved]


def omp_shared(world: World) -> list[Path]:
    """Return the folders of sessions that Oh My Pi and pi may share, as the one has them."""
    shared = [folder / "sessions" for folder in told(world, "OMP_CODING_AGENT_DIR", "PI_CODING_AGENT_DIR")]
    return shared + told(world, "PI_CODING_AGENT_SESSION_DIR")


def pi(world: World) -> list[Path]:
    """Return the folder of pi's sessions."""
    return [world.home / ".pi" / "agent" / "sessions"]


def pi_shared(world: World) -> list[Path]:
    """Return the folders of sessions that pi and Oh My Pi may share, as the other has them."""
    shared = [folder / "sessions" for folder in told(world, "PI_CODING_AGENT_DIR")]
    return shared + told(world, "PI_CODING_AGENT_SESSION_DIR")


def told(world: World, *names: str) -> list[Path]:
    """Return the absolute folders that the environment tells, `~` being the home."""
    folders = []
    for name in names:
        value = world.environment.get(name, "").strip()
        inside = value.startswith(("~/", "~\\"))
        path = world.home / value[2:] if inside else world.home if value == "~" else Path(value)
        if value and "\x00" not in value and path.is_absolute():
            folders.append(path)
    return folders


def antigravity(world: World) -> list[Path]:
    """Return the folders in which Antigravity's own begin."""
    homes = [world.home]
    moved = world.environment.get("GEMINI_CLI_HOME", "").strip()
    if moved and "\x00" not in moved and Path(moved).is_absolute() and Path(moved) != world.home:
        homes.append(Path(moved))
    return [home / ".gemini" for home in homes]


def gemini(world: World) -> list[Path]:
    """Return the folder of Gemini CLI's projects."""
    home = world.environment.get("GEMINI_CLI_HOME") or ""
    return [(Path(home) if home else world.home) / ".gemini" / "tmp"]


def cursor(world: World) -> list[Path]:
    """Return the folders in which Cursor's agents keep their transcripts."""
    homes = (named(world, "CURSOR_DATA_DIR"), named(world, "CURSOR_CONFIG_DIR"), world.home / ".cursor")
    return list(dict.fromkeys(home for home in homes if home))


def copilot(world: World) -> list[Path]:
    """Return where Copilot's command line may keep its things."""
    own = named(world, "COPILOT_HOME")
    bases = [base for variable in ("XDG_STATE_HOME", "XDG_CONFIG_HOME") if (base := named(world, variable))]
    inner = [base / name for base in bases for name in (".copilot", "copilot")]
    return [*([own] if own else []), *inner, world.home / ".copilot"]


def code(world: World) -> Iterator[Path]:
    """Yield the folders in which VS Code and its kin keep a user's things, whether they are there or not."""
    if portable := named(world, "VSCODE_PORTABLE"):
        yield portable / "user-data" / "User"
    if moved := named(world, "VSCODE_APPDATA"):
        yield from (moved / product / "User" for product in CODE)
    yield from users(world, CODE)
    for server in SERVERS:
        yield world.home / server / "data" / "User"


def users(world: World, products: Iterable[str]) -> Iterator[Path]:
    """Yield the folders in which editors keep a user's things, whether they are there or not."""
    for product in products:
        yield roaming(world) / product / "User"


def roaming(world: World) -> Path:
    """Return the folder in which the programs of a user keep their things, on each system."""
    if world.system == "darwin":
        return world.home / "Library" / "Application Support"
    if world.system == "win32":
        return named(world, "APPDATA") or world.home / "AppData" / "Roaming"
    return named(world, "XDG_CONFIG_HOME") or world.home / ".config"


def named(world: World, variable: str) -> Path | None:
    """Return the folder that an environment variable names; None where it names none."""
    value = world.environment.get(variable, "")
    if value == "~" or value.startswith(("~/", "~\\")):
        return world.home / value[2:]
    return Path(value) if value and "\0" not in value else None


#: Agent → the places below which all lies that it left.
HOMES: dict[str, Callable[[World], Iterable[Path]]] = {
    "claude-code": claude,
    "codex": codex,
    "opencode": opencode,
    "omp": lambda world: [*(folder for folder, _ in omp(world)), *omp_shared(world)],
    "pi": lambda world: [*pi(world), *pi_shared(world)],
    "antigravity": antigravity,
    "cursor": lambda world: [*cursor(world), *users(world, CURSOR)],
    "copilot": lambda world: [*copilot(world), *code(world)],
    "gemini-cli": gemini,
}
