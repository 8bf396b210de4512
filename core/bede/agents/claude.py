"""Claude Code: hooks in `settings.json`, MCP servers in `.claude.json` or the project's `.mcp.json`."""

from __future__ import annotations

from bede.agents.loose import first, mapping
from bede.agents.payload import document, moment_of, specific, stranger, told
from bede.agents.port import AFTER, BEFORE, END, PROMPT, START, STOP, Answer, Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bede.agents.wiring import Machine, Wish
    from bede.splice import Target

NAME, TITLE = "claude-code", "Claude Code"
NOTES = {
    "server": "Sessions that are running take it up after a restart; a project's entry is confirmed once by its user.",
    "hooks": "Sessions that are running take the hooks up by themselves.",
}
TOOLS = ("Edit", "Write", "MultiEdit", "NotebookEdit")
MOMENTS = {
    "sessionstart": START,
    "userpromptsubmit": PROMPT,
    "pretooluse": BEFORE,
    "posttooluse": AFTER,
    "posttoolusefailure": AFTER,
    "stop": STOP,
    "sessionend": END,
}
#: Where its output may lay something into the context. After a compaction that is the start that follows it.
INJECTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure")


# For the hook


def read(event: str, payload: object, environment: Mapping[str, str]) -> Call:
    """Return what a call tells."""
    said = mapping(payload)
    return told(
        NAME, moment_of(MOMENTS, event, said), said, TOOLS, failed=event == "PostToolUseFailure" or "error" in said
    )


def write(event: str, call: Call, answer: Answer) -> str:
    """Return an answer; nothing at all is neutral."""
    found = specific(event, call, answer, INJECTS)
    return document(found) if found else neutral(event)


def neutral(event: str) -> str:
    """Return what says nothing."""
    return ""


def foreign(payload: object, environment: Mapping[str, str]) -> str:
    """Return which other agent runs Claude's hooks; '' where it is Claude."""
    said = mapping(payload)
    if (session := environment.get("CLAUDE_CODE_SESSION_ID")) and session == first(said, "session_id"):
        return ""
    return stranger(said, environment)


# For the installer


def found(machine: Machine) -> list[str]:
    """Return the evidence that it is here."""
    return machine.evidence(("claude",), machine.place("CLAUDE_CONFIG_DIR", ".claude"))


def server(machine: Machine, wish: Wish) -> list[Target]:
    """Return its entries. Other agents read a project's `.mcp.json` too, so that one names no agent."""
    from bede.agents import placing
    from bede.splice import Items

    words = wish.serve(NAME if wish.scope == "user" else "")
    value = {"type": "stdio", "command": words[0], "args": words[1:]}
    moved = machine.environment.get("CLAUDE_CONFIG_DIR")
    home = machine.place("CLAUDE_CONFIG_DIR", ".claude")
    state = home / ".claude.json" if moved else machine.home / ".claude.json"
    targets = [placing.server(placing.at(state, wish, ".mcp.json"), "json", value, "mcpServers")]
    if wish.approve:
        allowed = Items(("permissions", "allow"), ("mcp__bede",), lambda item: item == "mcp__bede")
        targets += [placing.target(_settings(machine, wish), "json", (allowed,))]
    return targets


def hooks(machine: Machine, wish: Wish) -> list[Target]:
    """Return its hooks."""
    from bede.agents import placing

    if not placing.is_wanted(machine.place("CLAUDE_CONFIG_DIR", ".claude"), wish):
        return []
    edits = "|".join(TOOLS)
    events = {
        "SessionStart": ("", 10),
        "UserPromptSubmit": ("", 5),
        "PreToolUse": (edits, 5),
        "PostToolUse": (edits, 5),
        "PostToolUseFailure": (edits, 5),
        "Stop": ("", 10),
        "SessionEnd": ("", 5),
    }
    pieces = placing.grouped(machine, wish, NAME, events, "hooks")
    return [placing.target(_settings(machine, wish), "json", pieces)]


def _settings(machine: Machine, wish: Wish) -> Path:
    from bede.agents import placing

    home = machine.place("CLAUDE_CONFIG_DIR", ".claude")
    return placing.at(home / "settings.json", wish, ".claude", "settings.json")
