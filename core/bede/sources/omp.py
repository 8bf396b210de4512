"""Oh My Pi: where its sessions are. What is in them is read by `branching`, whose they are is told by `pi`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from bede.sources import homes, pi
from bede.sources.pi import branching
from bede.sources.port import Item, Spot, Tally, World

AGENT = "omp"
FORM: Literal["stream"] = "stream"


def find(world: World) -> Iterator[Path]:
    """Yield every session of omp in every profile; what pi wrote into a place that both share is pi's."""
    own = []
    for root, inner in homes.omp(world):
        own += [root / inner, *(each / inner for each in homes.inside(world, root / "profiles"))]
    yield from pi.sessions(world, AGENT, own, homes.omp_shared(world))


def accepts(path: Path, head: bytes) -> bool:
    """Tell whether a file is a session of omp."""
    return pi.whose(path, head) == AGENT


def take(record: Any, spot: Spot, state: dict[str, Any], tally: Tally) -> list[Item]:
    """Return the items of one record."""
    return branching.take(AGENT, record, spot, state, tally)
