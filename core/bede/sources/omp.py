"""Oh My Pi: where its sessions are. What is in them is read by `branching`, whose they are is told by `pi`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from bede.sources import pi
from bede.sources.pi import branching
from bede.sources.port import Item, Spot, Tally, World

AGENT = "omp"
FORM: Literal["stream"] = "stream"


def find(world: World) -> Iterator[Path]:
    """Yield every session of omp in every profile; what pi wrote into a place that both share is pi's."""
    names = [world.environment.get(name, "").strip() for name in ("OMP_CONFIG_DIR", "PI_CONFIG_DIR")]
    own = []
    for name in dict.fromkeys([".omp", *(name for name in names if name and "\x00" not in name)]):
        root = world.home / name
        own += [root / "agent" / "sessions", *(each / "agent" / "sessions" for each in _profiles(root))]
    if world.system != "win32":
        for data in pi.told(world, "XDG_DATA_HOME"):
            own += [data / "omp" / "sessions", *(each / "sessions" for each in _profiles(data / "omp"))]
    shared = [folder / "sessions" for folder in pi.told(world, "OMP_CODING_AGENT_DIR", "PI_CODING_AGENT_DIR")]
    shared += pi.told(world, "PI_CODING_AGENT_SESSION_DIR")
    yield from pi.sessions(AGENT, own, shared)


def accepts(path: Path, head: bytes) -> bool:
    """Tell whether a file is a session of omp."""
    return pi.whose(path, head) == AGENT


def take(record: Any, spot: Spot, state: dict[str, Any], tally: Tally) -> list[Item]:
    """Return the items of one record."""
    return branching.take(AGENT, record, spot, state, tally)


def _profiles(root: Path) -> list[Path]:
    try:
        return sorted((root / "profiles").iterdir())
    except OSError:
        return []
