"""Gemini CLI: hooks and MCP servers both in `settings.json`, which may hold comments. Its times are milliseconds.

What it fires before a compaction fires before every call of the model, so nothing is made of it.
"""

from __future__ import annotations

from bede.agents.loose import flag, mapping
from bede.agents.payload import document, moment_of, refusal, specific, told
from bede.agents.port import AFTER, BEFORE, END, PROMPT, START, STOP, Answer, Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bede.agents.wiring import Machine, Wish
    from bede.splice import Target

NAME, TITLE = "gemini-cli", "Gemini CLI"
NOTES = {
    "server": "In a project, Gemini starts servers once its folder is trusted.",
    "hooks": "Gemini warns once about hooks of a project that are new or were changed.",
}
TOOLS = ("write_file", "replace", "edit", "smart_edit")
MOMENTS = {
    "sessionstart": START,
    "beforeagent": PROMPT,
    "beforetool": BEFORE,
    "aftertool": AFTER,
    "afteragent": STOP,
    "sessionend": END,
}
INJECTS = ("SessionStart", "BeforeAgent", "AfterTool")


# For the hook


def read(event: str, payload: object, environment: Mapping[str, str]) -> Call:
    """Return what a call tells."""
    said = mapping(payload)
    result = mapping(said.get("tool_response")).get("error")
    failed = flag(result) or bool(mapping(result))
    return told(NAME, moment_of(MOMENTS, event, said), said, TOOLS, failed=failed)


def write(event: str, call: Call, answer: Answer) -> str:
    """Return an answer."""
    if reason := refusal(call, answer):
        return document({"decision": "deny", "reason": reason})
    return document(specific(event, call, answer, INJECTS))


def neutral(event: str) -> str:
    """Return what says nothing."""
    return "{}"


def foreign(payload: object, environment: Mapping[str, str]) -> str:
    """Return '': nobody else runs its hooks."""
    return ""


# For the installer


def found(machine: Machine) -> list[str]:
    """Return the evidence that it is here; its folder alone may be Antigravity's."""
    return machine.evidence(("gemini",), _home(machine) / "settings.json")


def server(machine: Machine, wish: Wish) -> list[Target]:
    """Return its entry."""
    from bede.agents import placing

    if not placing.is_wanted(_home(machine), wish):
        return []
    value = placing.entry(wish, NAME, **({"trust": True} if wish.approve else {}))
    kept = ("env", "cwd", "timeout", "includeTools", "excludeTools")
    return [placing.server(_settings(machine, wish), "jsonc", value, "mcpServers", kept=kept)]


def hooks(machine: Machine, wish: Wish) -> list[Target]:
    """Return its hooks."""
    from bede.agents import placing

    if not placing.is_wanted(_home(machine), wish):
        return []
    edits = "|".join(TOOLS)
    events = {
        "SessionStart": ("", 10),
        "BeforeAgent": ("", 5),
        "BeforeTool": (edits, 5),
        "AfterTool": (edits, 5),
        "AfterAgent": ("", 10),
        "SessionEnd": ("", 10),
    }
    pieces = placing.grouped(machine, wish, NAME, events, "hooks", factor=1000, name="bede")
    return [placing.target(_settings(machine, wish), "jsonc", pieces)]


def _home(machine: Machine) -> Path:
    return machine.place("GEMINI_CLI_HOME") / ".gemini"


def _settings(machine: Machine, wish: Wish) -> Path:
    from bede.agents import placing

    return placing.at(_home(machine) / "settings.json", wish, ".gemini", "settings.json")
