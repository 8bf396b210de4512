"""One agent a file: how it calls our hook and is told an answer, and what an installer puts where for it.

This table is all that is loaded to know the agents; a file is imported when its agent is asked for. A hook reads one
agent's file within a deadline, so what only an installer needs is imported by the functions that need it.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from bede.agents.port import Agent

#: Agent, as everyone spells it → its file.
AGENTS = {
    "claude-code": "bede.agents.claude",
    "codex": "bede.agents.codex",
    "cursor": "bede.agents.cursor",
    "copilot": "bede.agents.copilot",
    "vscode": "bede.agents.vscode",
    "antigravity": "bede.agents.antigravity",
    "gemini-cli": "bede.agents.gemini",
    "opencode": "bede.agents.opencode",
    "pi": "bede.agents.pi",
    "omp": "bede.agents.omp",
}
#: Other spellings that people use.
ALIASES = {"copilot-cli": "copilot"}
#: Agents whose transcripts are read under another one's name.
TRANSCRIPTS = {"vscode": "copilot"}


def named(name: str) -> str:
    """Return an agent's name as everyone spells it; '' for none of ours."""
    name = ALIASES.get(name, name)
    return name if name in AGENTS else ""


def load(name: str) -> Agent:
    """Return the file of an agent.

    Raises:
        UsageError: there is no such agent.
    """
    module = AGENTS.get(named(name))
    if module is None:
        from bede.errors import UsageError
        from bede.hints import asked

        hint = f"{asked(name, AGENTS)}known are {', '.join(AGENTS)}"
        raise UsageError(f"no agent {name!r} is known", hint=hint)
    __import__(module)  # `importlib` would cost a hook more than all of this room
    agent: Any = sys.modules[module]
    found: Agent = agent
    return found
