"""pi: an extension of ours tells of its moments, since it runs no commands; MCP servers in `mcp.json`.

What the extension sends and is answered is a form of our own, which Oh My Pi's shares.
"""

from __future__ import annotations

from bede.agents.loose import first, flag, mapping
from bede.agents.payload import own, told
from bede.agents.port import AFTER, BEFORE, COMPACTED, END, OTHER, PROMPT, START, STOP, Answer, Call
from bede.sessions import parent_of, session_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bede.agents.wiring import Machine, Wish
    from bede.splice import Target

NAME, TITLE = "pi", "pi"
NOTES = {
    "server": "pi reads it when it starts. Versions before 1.6 know no MCP servers.",
    "hooks": "pi loads extensions when it starts; /reload does it too. A project's are loaded once it is trusted.",
}
TOOLS = ("edit", "write", "apply_patch", "ast_edit", "multi_edit", "notebook")
MOMENTS = {
    "session_start": START,
    "session_compact": COMPACTED,
    "session.compacting": COMPACTED,
    "before_agent_start": PROMPT,
    "tool_call": BEFORE,
    "tool_result": AFTER,
    "agent_end": STOP,
    "session_shutdown": END,
}


# For the hook


def read(event: str, payload: object, environment: Mapping[str, str]) -> Call:
    """Return what a call tells."""
    return tell(NAME, event, payload)


def tell(agent: str, event: str, payload: object) -> Call:
    """Return what a call of this family tells; a session in the folder of another one is its sub-agent's."""
    said = mapping(payload)
    inner = mapping(said.get("event"))
    file = first(said, "session_file")
    session, parent = session_of(agent, file, first(said, "session_id")), parent_of(agent, file)
    result: dict[str, object] = {
        "session_id": parent or session,
        "agent_id": session if parent else "",
        "transcript_path": file,
        "cwd": first(said, "cwd"),
        "prompt": first(inner, "prompt"),
        "tool_name": first(inner, "toolName"),
        "tool_input": inner.get("input"),
    }
    moment = MOMENTS.get(event) or MOMENTS.get(first(said, "hook"), OTHER)
    return told(agent, moment, result, TOOLS, failed=flag(inner.get("isError")))


def write(event: str, call: Call, answer: Answer) -> str:
    """Return an answer in our own form, which the extension acts upon."""
    return own(call, answer)


def neutral(event: str) -> str:
    """Return what says nothing."""
    return "{}"


def foreign(payload: object, environment: Mapping[str, str]) -> str:
    """Return '': nobody else runs its hooks."""
    return ""


# For the installer


def found(machine: Machine) -> list[str]:
    """Return the evidence that it is here."""
    return machine.evidence(("pi",), machine.home / ".pi")


def server(machine: Machine, wish: Wish) -> list[Target]:
    """Return its entry; without `exposure` the model would have to write code to call a tool."""
    from bede.agents import placing

    if not placing.is_wanted(_home(machine), wish):
        return []
    file = placing.at(_home(machine) / "mcp.json", wish, ".pi", "mcp.json")
    value = placing.entry(wish, NAME, exposure="direct")
    return [placing.server(file, "json", value, "mcpServers", kept=("env", "enabled", "exposure", "timeout"))]


def hooks(machine: Machine, wish: Wish) -> list[Target]:
    """Return the extension."""
    from bede.agents import placing

    if not placing.is_wanted(_home(machine), wish):
        return []
    file = placing.at(_home(machine) / "extensions" / "bede.ts", wish, ".pi", "extensions", "bede.ts")
    return [placing.plugin(file, "extension.ts", wish, NAME)]


def _home(machine: Machine) -> Path:
    return machine.place("PI_CODING_AGENT_DIR", ".pi", "agent")
