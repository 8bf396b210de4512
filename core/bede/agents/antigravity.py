"""Antigravity: a named group in `hooks.json`, MCP servers in `mcp_config.json`.

Its payloads do not name the event, and it has neither a prompt's event nor a session's end: a turn begins with the
first call of the model in it. Both files have to be strict JSON.
"""

from __future__ import annotations

from bede.agents.loose import flag, mapping
from bede.agents.payload import clean, document, refusal, told
from bede.agents.port import AFTER, BEFORE, OTHER, PROMPT, START, STOP, Answer, Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bede.agents.wiring import Machine, Wish
    from bede.splice import Target

NAME, TITLE = "antigravity", "Antigravity"
NOTES = {
    "server": "Antigravity asks before each tool unless its settings allow it.",
    "hooks": "Antigravity has no hook for the end of a session: files are released when a turn ends.",
}
TOOLS = ("write_to_file", "replace_file_content", "multi_replace_file_content")
MOMENTS = {"PreToolUse": BEFORE, "PostToolUse": AFTER, "PreInvocation": PROMPT, "Stop": STOP}


# For the hook


def read(event: str, payload: object, environment: Mapping[str, str]) -> Call:
    """Return what a call tells."""
    said = mapping(payload)
    moment = MOMENTS.get(event, OTHER)
    if moment == PROMPT:
        moment = _begun(said)
    return told(NAME, moment, said, TOOLS, failed=flag(said.get("error")))


def _begun(said: dict[str, object]) -> str:
    """Return what a call of the model begins: the conversation, a turn, or nothing."""
    if said.get("invocationNum") != 0:
        return OTHER
    steps = said.get("initialNumSteps")
    return START if isinstance(steps, int) and steps <= 1 else PROMPT


def write(event: str, call: Call, answer: Answer) -> str:
    """Return an answer."""
    if reason := refusal(call, answer):
        return document({"decision": "deny", "reason": reason})
    if answer.context and event == "PreInvocation":
        return document({"injectSteps": [{"ephemeralMessage": clean(answer.context)}]})
    return neutral(event)


def neutral(event: str) -> str:
    """Return what says nothing."""
    return "{}"


def foreign(payload: object, environment: Mapping[str, str]) -> str:
    """Return '': nobody else runs its hooks."""
    return ""


# For the installer


def found(machine: Machine) -> list[str]:
    """Return the evidence that it is here."""
    names = ("config", "antigravity", "antigravity-cli", "antigravity-ide")
    return machine.evidence(("agy",), *(_home(machine) / name for name in names))


def server(machine: Machine, wish: Wish) -> list[Target]:
    """Return its entry."""
    from bede.agents import placing

    if not placing.is_wanted(_home(machine) / "config", wish):
        return []
    file = placing.at(_home(machine) / "config" / "mcp_config.json", wish, ".agents", "mcp_config.json")
    kept = ("env", "cwd", "disabled", "disabledTools")
    return [placing.server(file, "json", placing.entry(wish, NAME), "mcpServers", kept=kept)]


def hooks(machine: Machine, wish: Wish) -> list[Target]:
    """Return its hooks: one group with our name, which is ours as a whole."""
    from bede.agents import placing
    from bede.agents.wiring import SERVER
    from bede.splice import Member

    if not placing.is_wanted(_home(machine) / "config", wish):
        return []

    def calls(event: str, seconds: int) -> dict[str, object]:
        command = placing.command(machine, wish, event, NAME)
        return {"type": "command", "command": command, "timeout": seconds}

    edits = "|".join(TOOLS)
    group = {
        "enabled": True,
        "PreToolUse": [{"matcher": edits, "hooks": [calls("PreToolUse", 5)]}],
        "PostToolUse": [{"matcher": edits, "hooks": [calls("PostToolUse", 5)]}],
        "PreInvocation": [calls("PreInvocation", 5)],
        "Stop": [calls("Stop", 10)],
    }
    file = placing.at(_home(machine) / "config" / "hooks.json", wish, ".agents", "hooks.json")
    return [placing.target(file, "json", (Member((SERVER,), group, ("enabled",)),))]


def _home(machine: Machine) -> Path:
    return machine.place("GEMINI_CLI_HOME") / ".gemini"
