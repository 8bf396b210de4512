"""OpenCode: a plugin of ours tells of its moments, since it runs no commands; MCP servers in `opencode.json(c)`.

The plugin works in both generations of OpenCode. What it sends and is answered is a form of our own.
"""

from __future__ import annotations

from bede.agents.loose import first, mapping, sequence, text
from bede.agents.payload import own, told
from bede.agents.port import AFTER, BEFORE, COMPACTED, END, OTHER, PROMPT, START, STOP, Answer, Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bede.agents.wiring import Machine, Wish
    from bede.splice import Target

NAME, TITLE = "opencode", "OpenCode"
NOTES = {
    "server": "OpenCode reads its configuration when it starts: start it anew.",
    "hooks": "OpenCode loads plugins when it starts: start it anew.",
}
TOOLS = ("edit", "write", "multiedit", "patch", "apply_patch")
MOMENTS = {
    "experimental.chat.system.transform": START,
    "session.context": START,
    "chat.message": PROMPT,
    "session.prompt": PROMPT,
    "tool.execute.before": BEFORE,
    "permission.evaluate": BEFORE,
    "tool.execute.after": AFTER,
    "session.compacted": COMPACTED,
    "session.idle": STOP,
    "session.deleted": END,
    "file.edited": AFTER,
}


# For the hook


def read(event: str, payload: object, environment: Mapping[str, str]) -> Call:
    """Return what a call tells."""
    said = mapping(payload)
    given, made = mapping(said.get("input")), mapping(said.get("output"))
    happened = mapping(given.get("event")) or (given if "properties" in given else {})
    facts = mapping(happened.get("properties")) or mapping(happened.get("data"))
    session = first(given, "sessionID") or first(facts, "sessionID") or first(mapping(facts.get("info")), "id")
    parent = first(said, "parent")
    tool, wanted = _asked(given, made, facts)
    result: dict[str, object] = {
        "session_id": parent or session,
        "agent_id": session if parent else "",
        "cwd": first(said, "directory", "worktree"),
        "prompt": _prompt(given, made),
        "tool_name": tool,
        "tool_input": wanted,
    }
    failed = first(given, "status") in ("error", "failed")
    moment = MOMENTS.get(first(happened, "type") or event) or MOMENTS.get(first(said, "hook"), OTHER)
    return told(NAME, moment, result, TOOLS, failed=failed)


def _asked(given: dict[str, object], made: dict[str, object], facts: dict[str, object]) -> tuple[str, object]:
    """Return the tool of a call and what it is given, whichever generation tells it."""
    if action := first(given, "action"):
        return action, {"resources": given.get("resources")}
    if file := first(facts, "file"):
        return "edit", {"filePath": file}
    wanted = made.get("args") or given.get("args") or given.get("input")
    return first(given, "tool"), wanted


def _prompt(given: dict[str, object], made: dict[str, object]) -> str:
    """Return what a person wrote, without what was laid beside it."""
    if whole := first(mapping(given.get("prompt")), "text"):
        return whole
    parts = [mapping(part) for part in sequence(made.get("parts"))]
    typed = [part for part in parts if part.get("type") == "text" and part.get("synthetic") is not True]
    return text("\n".join(text(part.get("text")) for part in typed))


def write(event: str, call: Call, answer: Answer) -> str:
    """Return an answer in our own form, which the plugin acts upon."""
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
    return machine.evidence(("opencode",), _home(machine))


def server(machine: Machine, wish: Wish) -> list[Target]:
    """Return its entry, in the generation's form that the file is written in.

    The newer generation reads the older one's form, but not both in one file.
    """
    from bede.agents import placing

    if not placing.is_wanted(_home(machine), wish):
        return []
    file = _file(machine, wish)
    value: dict[str, object] = {"type": "local", "command": wish.serve(NAME)}
    if _is_newer(file):
        return [placing.server(file, "jsonc", value, "mcp", "servers", kept=("environment", "disabled", "timeout"))]
    value["enabled"] = True
    return [placing.server(file, "jsonc", value, "mcp", kept=("environment", "enabled", "timeout"))]


def hooks(machine: Machine, wish: Wish) -> list[Target]:
    """Return the plugin."""
    from bede.agents import placing

    if not placing.is_wanted(_home(machine), wish):
        return []
    file = placing.at(_home(machine) / "plugins" / "bede.js", wish, ".opencode", "plugins", "bede.js")
    return [placing.plugin(file, "opencode.js", wish)]


def _home(machine: Machine) -> Path:
    return machine.place("XDG_CONFIG_HOME", ".config") / "opencode"


def _file(machine: Machine, wish: Wish) -> Path:
    """Return the file of its configuration: the first that is there, `.jsonc` before `.json`."""
    folders = [_home(machine)]
    if wish.scope == "project" and wish.root is not None:
        folders = [wish.root, wish.root / ".opencode"]
    files = [folder / name for folder in folders for name in ("opencode.jsonc", "opencode.json")]
    return next((file for file in files if file.is_file()), files[1])


def _is_newer(file: Path) -> bool:
    """Tell whether a configuration is written in the form of the second generation."""
    import re

    try:
        body = file.read_bytes()[:1_000_000].decode("utf-8", "replace")
    except OSError:
        return False
    found = re.search(r'"mcp"\s*:\s*\{[^{}]*"servers"\s*:\s*\{[^{}:]*(?:\}|:\s*(.))', body)
    return found is not None and found[1] in (None, "{")  # else it is a server of that name
