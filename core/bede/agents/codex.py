"""Codex: hooks in `hooks.json`, MCP servers in `config.toml`; files are edited by patches.

Its output is read strictly: a member that it does not know makes it drop the whole answer.
"""

from __future__ import annotations

from bede.agents.loose import first, mapping
from bede.agents.payload import document, moment_of, specific, told
from bede.agents.port import AFTER, BEFORE, END, PROMPT, START, STOP, Answer, Call
from bede.sessions import session_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from bede.agents.wiring import Machine, Wish
    from bede.splice import Target

NAME, TITLE = "codex", "Codex"
NOTES = {
    "server": "Sessions that are running do not know the server; start a new one. In a project, Codex has to trust it.",
    "hooks": "Codex runs no hook before you approve it: open /hooks in Codex and trust Bede's. "
    "When the command changes, it asks again.",
}
TOOLS = ("apply_patch", "Edit", "Write")
MOMENTS = {
    "sessionstart": START,
    "userpromptsubmit": PROMPT,
    "pretooluse": BEFORE,
    "posttooluse": AFTER,
    "stop": STOP,
    "interrupt": STOP,
    "sessionend": END,
}
INJECTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse")
#: Variables that tell where a user's and a project's things are; the server gets no other than those named.
FORWARDED = (
    "BEDE_DIR",
    "BEDE_CONFIG_DIR",
    "BEDE_DATA_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
)


# For the hook


def read(event: str, payload: object, environment: Mapping[str, str]) -> Call:
    """Return what a call tells; a sub-agent is known by its own rollout where no id tells it."""
    said = mapping(payload)
    call = told(NAME, moment_of(MOMENTS, event, said), said, TOOLS)
    thread = session_of(NAME, call.transcript)
    if not call.child and thread != call.session and first(said, "session_id"):
        call.child = thread
    return call


def write(event: str, call: Call, answer: Answer) -> str:
    """Return an answer."""
    return document(specific(event, call, answer, INJECTS))


def neutral(event: str) -> str:
    """Return what says nothing."""
    return "{}"


def foreign(payload: object, environment: Mapping[str, str]) -> str:
    """Return '': nobody else runs its hooks."""
    return ""


# For the installer


def found(machine: Machine) -> list[str]:
    """Return the evidence that it is here."""
    return machine.evidence(("codex",), machine.place("CODEX_HOME", ".codex"))


def server(machine: Machine, wish: Wish) -> list[Target]:
    """Return its entry."""
    from bede.agents import placing

    home = machine.place("CODEX_HOME", ".codex")
    if not placing.is_wanted(home, wish):
        return []
    value = placing.entry(wish, NAME, env_vars=list(FORWARDED))
    if wish.approve:
        value["default_tools_approval_mode"] = "approve"
    file = placing.at(home / "config.toml", wish, ".codex", "config.toml")
    return [placing.server(file, "toml", value, "mcp_servers", kept=("env", "enabled", "enabled_tools"))]


def hooks(machine: Machine, wish: Wish) -> list[Target]:
    """Return its hooks. A patch may also come through the shell, so that is watched too."""
    from bede.agents import placing

    home = machine.place("CODEX_HOME", ".codex")
    if not placing.is_wanted(home, wish):
        return []
    edits = "^(" + "|".join((*TOOLS, "Bash")) + ")$"
    events = {
        "SessionStart": ("", 10),
        "UserPromptSubmit": ("", 5),
        "PreToolUse": (edits, 5),
        "PostToolUse": (edits, 5),
        "Stop": ("", 10),
        "Interrupt": ("", 3),
        "SessionEnd": ("", 3),
    }
    file = placing.at(home / "hooks.json", wish, ".codex", "hooks.json")
    return [placing.target(file, "json", placing.grouped(machine, wish, NAME, events, "hooks"))]
