"""Copilot's command line: a file of hooks of our own, MCP servers in `mcp-config.json`.

A hook that ends with an error refuses the tool, so its command cannot fail, not even when Bede is gone. VS Code's
agent reads the same file of hooks and sends payloads of its own; `foreign` tells them apart.
"""

from __future__ import annotations

from bede.agents.loose import first, mapping
from bede.agents.payload import clean, document, moment_of, refusal, specific, stranger, told
from bede.agents.port import AFTER, BEFORE, END, OTHER, PROMPT, START, STOP, Answer, Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bede.agents.wiring import Machine, Wish
    from bede.splice import Target

NAME, TITLE = "copilot", "GitHub Copilot CLI"
NOTES = {
    "server": "A project's entry is read once its folder is trusted.",
    "hooks": "VS Code's agent reads the same file. A project's hooks run once its folder is trusted.",
}
TOOLS = ("edit", "create", "apply_patch", "str_replace_editor", "str_replace", "Edit", "Write", "MultiEdit")
MOMENTS = {
    "sessionstart": START,
    "userpromptsubmitted": PROMPT,
    "userpromptsubmit": PROMPT,
    "pretooluse": BEFORE,
    "posttooluse": AFTER,
    "posttoolusefailure": AFTER,
    "agentstop": STOP,
    "stop": STOP,
    "sessionend": END,
}
INJECTS = ("sessionStart", "userPromptSubmitted", "postToolUse")
_CLAUDES = ("SessionStart", "UserPromptSubmit", "PostToolUse")


# For the hook


def read(event: str, payload: object, environment: Mapping[str, str]) -> Call:
    """Return what a call tells; one tool both shows and edits."""
    said = mapping(payload)
    failed = mapping(said.get("toolResult")).get("resultType") in ("failure", "rejected", "denied")
    failed = failed or event.lower() == "posttoolusefailure"
    call = told(NAME, moment_of(MOMENTS, event, said), said, TOOLS, failed=failed)
    if call.tool == "str_replace_editor" and mapping(said.get("toolArgs")).get("command") == "view":
        call.moment, call.paths = OTHER, ()
    return call


def write(event: str, call: Call, answer: Answer) -> str:
    """Return an answer: at the top for its own hooks, in Claude's form too where it runs those."""
    said: dict[str, object] = {}
    if reason := refusal(call, answer):
        said = {"permissionDecision": "deny", "permissionDecisionReason": reason}
    elif answer.context and event in (*INJECTS, *_CLAUDES):
        said = {"additionalContext": clean(answer.context)}
    if event[:1].isupper():
        said |= specific(event, call, answer, _CLAUDES)
    return document(said)


def neutral(event: str) -> str:
    """Return what says nothing."""
    return "{}"


def foreign(payload: object, environment: Mapping[str, str]) -> str:
    """Return `vscode` where that one runs the file that both read."""
    said = mapping(payload)
    if "session-state" in first(said, "transcript_path", "transcriptPath"):
        return ""
    return "vscode" if stranger(said, environment) == "vscode" else ""


# For the installer


def found(machine: Machine) -> list[str]:
    """Return the evidence that it is here."""
    return machine.evidence(("copilot",), machine.place("COPILOT_HOME", ".copilot"))


def server(machine: Machine, wish: Wish) -> list[Target]:
    """Return its entry."""
    from bede.agents import placing

    home = machine.place("COPILOT_HOME", ".copilot")
    if not placing.is_wanted(home, wish):
        return []
    value = {"type": "local", **placing.entry(wish, NAME), "tools": ["*"]}
    file = placing.at(home / "mcp-config.json", wish, ".github", "mcp.json")
    return [placing.server(file, "json", value, "mcpServers", kept=("env", "tools"))]


def hooks(machine: Machine, wish: Wish) -> list[Target]:
    """Return its hooks, in a file of their own."""
    from bede.agents import placing

    home = machine.place("COPILOT_HOME", ".copilot")
    return shared(machine, wish) if placing.is_wanted(home, wish) else []


def shared(machine: Machine, wish: Wish) -> list[Target]:
    """Return the hooks that the command line and VS Code both read; a matcher counts for the first only."""
    from bede.agents import placing
    from bede.agents.vscode import TOOLS as THEIRS
    from bede.splice import Default, Items

    edits = "|".join(dict.fromkeys((*TOOLS, *THEIRS)))
    events = {
        "sessionStart": ("", 10),
        "userPromptSubmitted": ("", 5),
        "preToolUse": (edits, 5),
        "postToolUse": (edits, 5),
        "agentStop": ("", 10),
        "sessionEnd": ("", 10),
    }
    pieces: list[Default | Items] = [Default(("version",), 1)]
    for event, (matcher, seconds) in events.items():
        item = {"type": "command", **_commands(wish.hook(event, NAME)), "timeoutSec": seconds}
        item |= {"matcher": matcher} if matcher else {}
        pieces.append(Items(("hooks", event), (item,), placing.ours(NAME)))
    return [placing.target(_file(machine, wish), "json", pieces)]


def _commands(words: list[str]) -> dict[str, object]:
    """Return a command for both kinds of shells that ends well whatever happens."""
    from bede.agents.wiring import spoken

    quoted = " ".join("'" + word.replace("'", "''") + "'" for word in words[:1])
    return {
        "bash": spoken(words, "Linux") + " || true",
        "powershell": f"& {quoted} {' '.join(words[1:])}; exit 0",
    }


def _file(machine: Machine, wish: Wish) -> Path:
    from bede.agents import placing

    return placing.at(
        machine.place("COPILOT_HOME", ".copilot") / "hooks" / "bede.json", wish, ".github", "hooks", "bede.json"
    )
