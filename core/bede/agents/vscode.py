"""VS Code's own agent: MCP servers in `mcp.json`; its hooks are those of Copilot's command line, in the same file.

It fires every hook for every tool, whatever the matcher says.
"""

from __future__ import annotations

from bede.agents.loose import mapping
from bede.agents.payload import clean, document, moment_of, refusal, specific, told
from bede.agents.port import AFTER, BEFORE, PROMPT, START, STOP, Answer, Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bede.agents.wiring import Machine, Wish
    from bede.splice import Target

NAME, TITLE = "vscode", "VS Code"
NOTES = {
    "server": "VS Code asks whether to trust the server when it starts first.",
    "hooks": "They stand in the file that Copilot's command line reads too. "
    "Project hooks need a trusted workspace, and the setting chat.useHooks, which is on.",
}
TOOLS = (
    "create_file",
    "create_new_jupyter_notebook",
    "replace_string_in_file",
    "multi_replace_string_in_file",
    "insert_edit_into_file",
    "edit_notebook_file",
    "apply_patch",
    "delete_file",
    "rename_file",
    "move_file",
    "editFiles",
    "copilot_createFile",
    "copilot_replaceString",
    "copilot_multiReplaceString",
    "copilot_insertEdit",
    "copilot_editNotebook",
    "copilot_applyPatch",
)
#: Tools of other agents, which it calls so when it runs their hooks.
_CLAUDES = ("Edit", "Write", "MultiEdit", "NotebookEdit", "edit", "create")
MOMENTS = {
    "sessionstart": START,
    "userpromptsubmit": PROMPT,
    "userpromptsubmitted": PROMPT,
    "pretooluse": BEFORE,
    "posttooluse": AFTER,
    "stop": STOP,
    "agentstop": STOP,
}
#: Event as Copilot spells it → as VS Code does.
_SPELLED = {
    "sessionStart": "SessionStart",
    "userPromptSubmitted": "UserPromptSubmit",
    "preToolUse": "PreToolUse",
    "postToolUse": "PostToolUse",
}
INJECTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse")
PRODUCTS = ("Code", "Code - Insiders", "VSCodium")


# For the hook


def read(event: str, payload: object, environment: Mapping[str, str]) -> Call:
    """Return what a call tells."""
    said = mapping(payload)
    return told(NAME, moment_of(MOMENTS, event, said), said, (*TOOLS, *_CLAUDES))


def write(event: str, call: Call, answer: Answer) -> str:
    """Return an answer: in Claude's form, and at the top too where the hook is spelled as Copilot does."""
    said = specific(_SPELLED.get(event, event), call, answer, INJECTS)
    if event in _SPELLED and said:
        if reason := refusal(call, answer):
            said |= {"permissionDecision": "deny", "permissionDecisionReason": reason}
        else:
            said["additionalContext"] = clean(answer.context)
    return document(said)


def neutral(event: str) -> str:
    """Return what says nothing."""
    return "{}"


def foreign(payload: object, environment: Mapping[str, str]) -> str:
    """Return '': a hook that names it is nobody else's."""
    return ""


# For the installer


def found(machine: Machine) -> list[str]:
    """Return the evidence that it is here."""
    return machine.evidence(("code", "code-insiders", "codium"), *_users(machine))


def server(machine: Machine, wish: Wish) -> list[Target]:
    """Return its entry: in the project, or for each of its editions that is here."""
    from bede.agents import placing

    value = {"type": "stdio", **placing.entry(wish, NAME, "--project", "${workspaceFolder}")}
    users = _users(machine)
    here = [user for user in users if user.is_dir()] or (users[:1] if wish.named else [])
    files = [user / "mcp.json" for user in here]
    if wish.scope == "project":
        files = [placing.at(users[0], wish, ".vscode", "mcp.json")]
    return [placing.server(file, "jsonc", value, "servers", kept=("env", "envFile", "cwd")) for file in files]


def hooks(machine: Machine, wish: Wish) -> list[Target]:
    """Return its hooks, which are Copilot's."""
    from bede.agents import placing
    from bede.agents.copilot import shared

    return shared(machine, wish) if placing.is_wanted(machine.place("COPILOT_HOME", ".copilot"), wish) else []


def _users(machine: Machine) -> list[Path]:
    """Return the folders in which its editions keep a user's things."""
    base = {
        "Darwin": machine.home / "Library" / "Application Support",
        "Windows": machine.place("APPDATA", "AppData", "Roaming"),
    }.get(machine.system) or machine.place("XDG_CONFIG_HOME", ".config")
    return [base / product / "User" for product in PRODUCTS]
