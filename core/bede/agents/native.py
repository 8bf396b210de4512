"""Whether an agent calls us through hooks of its own: then what it also calls through another agent's is dropped.

Several agents run Claude's hooks beside their own. A hook that finds itself called by such a stranger asks here, and
goes on in the stranger's name only where nobody else will.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Agent → the variable that moves its home, its home, our hooks below it, the same in a project, and the name in them.
PLACES = {
    "cursor": ("", ".cursor", "hooks.json", ".cursor/hooks.json", "cursor"),
    "copilot": ("COPILOT_HOME", ".copilot", "hooks/bede.json", ".github/hooks/bede.json", "copilot"),
    "vscode": ("COPILOT_HOME", ".copilot", "hooks/bede.json", ".github/hooks/bede.json", "copilot"),
    "gemini-cli": ("", ".gemini", "settings.json", ".gemini/settings.json", "gemini-cli"),
    "antigravity": ("", ".gemini", "config/hooks.json", ".agents/hooks.json", "antigravity"),
}
#: Longest file that is looked into, and most folders above the working one.
LARGEST, HIGHEST = 1 << 20, 32


def is_installed(agent: str, cwd: str, environment: Mapping[str, str]) -> bool:
    """Tell whether our hooks stand in a file of an agent's own; no where none can be read."""
    if agent not in PLACES:
        return False
    mark = f"--agent {PLACES[agent][4]}".encode()
    return any(mark in _read(file) for file in _files(agent, cwd, environment))


def _files(agent: str, cwd: str, environment: Mapping[str, str]) -> Iterator[str]:
    variable, usual, below, project, _ = PLACES[agent]
    home = environment.get("HOME") or environment.get("USERPROFILE") or ""
    yield os.path.join(environment.get(variable) or os.path.join(home, usual), below)  # noqa: PTH118
    folder = cwd if os.path.isabs(cwd) else ""  # noqa: PTH117
    for _ in range(HIGHEST):
        if not folder:
            return
        yield os.path.join(folder, project)  # noqa: PTH118
        above = os.path.dirname(folder)  # noqa: PTH120
        folder = above if above != folder else ""


def _read(file: str) -> bytes:
    try:
        with open(file, "rb") as stream:
            return stream.read(LARGEST)
    except (OSError, ValueError):
        return b""
