"""Oh My Pi: as pi is, in folders of its own. It also takes up what stands in other agents' files for MCP servers."""

from __future__ import annotations

from bede.agents.pi import MOMENTS, TOOLS, foreign, neutral, tell, write
from bede.agents.port import Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bede.agents.wiring import Machine, Wish
    from bede.splice import Target

__all__ = [
    "MOMENTS",
    "NAME",
    "NOTES",
    "TITLE",
    "TOOLS",
    "foreign",
    "found",
    "hooks",
    "neutral",
    "read",
    "server",
    "write",
]

NAME, TITLE = "omp", "Oh My Pi"
NOTES = {
    "server": "Oh My Pi reads it when it starts.",
    "hooks": "Oh My Pi loads extensions when it starts.",
}


def read(event: str, payload: object, environment: Mapping[str, str]) -> Call:
    """Return what a call tells."""
    return tell(NAME, event, payload)


def found(machine: Machine) -> list[str]:
    """Return the evidence that it is here."""
    return machine.evidence(("omp",), machine.home / ".omp")


def server(machine: Machine, wish: Wish) -> list[Target]:
    """Return its entry."""
    from bede.agents import placing

    if not placing.is_wanted(_home(machine), wish):
        return []
    file = placing.at(_home(machine) / "mcp.json", wish, ".omp", "mcp.json")
    value = {"type": "stdio", **placing.entry(wish, NAME)}
    kept = ("env", "enabled", "timeout", "enabledTools", "disabledTools")
    return [placing.server(file, "json", value, "mcpServers", kept=kept)]


def hooks(machine: Machine, wish: Wish) -> list[Target]:
    """Return the extension."""
    from bede.agents import placing

    if not placing.is_wanted(_home(machine), wish):
        return []
    file = placing.at(_home(machine) / "extensions" / "bede.ts", wish, ".omp", "extensions", "bede.ts")
    return [placing.plugin(file, "extension.ts", wish, NAME)]


def _home(machine: Machine) -> Path:
    """Return its folder; a variable that moves pi's moves this one too."""
    name = "OMP_CODING_AGENT_DIR" if machine.environment.get("OMP_CODING_AGENT_DIR") else "PI_CODING_AGENT_DIR"
    return machine.place(name, ".omp", "agent")
