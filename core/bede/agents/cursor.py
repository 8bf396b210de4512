"""Cursor, the editor and its command line: hooks in `hooks.json`, MCP servers in `mcp.json`.

It runs Claude's hooks as well, with payloads of its own; such a call is answered in both tongues.
"""

from __future__ import annotations

from bede.agents.loose import first, mapping
from bede.agents.payload import clean, document, moment_of, refusal, specific, told
from bede.agents.port import AFTER, BEFORE, END, PROMPT, START, STOP, Answer, Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from bede.agents.wiring import Machine, Wish
    from bede.splice import Target

NAME, TITLE = "cursor", "Cursor"
NOTES = {
    "server": "Cursor asks once whether the server may start, and before each tool unless its settings allow it.",
    "hooks": "A project's hooks run in a trusted workspace only.",
}
TOOLS = (
    "Write",
    "StrReplace",
    "ApplyPatch",
    "Delete",
    "EditNotebook",
    "MultiEdit",
    "Edit",
    "edit_file",
    "edit_file_v2",
    "search_replace",
    "delete_file",
    "edit_notebook",
    "apply_patch",
)
MOMENTS = {
    "sessionstart": START,
    "beforesubmitprompt": PROMPT,
    "userpromptsubmit": PROMPT,
    "pretooluse": BEFORE,
    "posttooluse": AFTER,
    "posttoolusefailure": AFTER,
    "afterfileedit": AFTER,
    "stop": STOP,
    "sessionend": END,
}
INJECTS = ("sessionStart", "beforeSubmitPrompt", "postToolUse")
_CLAUDES = ("SessionStart", "UserPromptSubmit", "PostToolUse")


# For the hook


def read(event: str, payload: object, environment: Mapping[str, str]) -> Call:
    """Return what a call tells; an edit that was noticed in the file is one of a tool of that name."""
    said = mapping(payload)
    if event.lower() == "afterfileedit" and "tool_name" not in said:
        said = {**said, "tool_name": "Edit", "tool_input": {"file_path": said.get("file_path")}}
    failed = "error_message" in said or event == "postToolUseFailure"
    call = told(NAME, moment_of(MOMENTS, event, said), said, TOOLS, failed=failed)
    if parent := first(said, "parent_conversation_id"):
        call.child, call.session = call.child or call.session, parent
    return call


def write(event: str, call: Call, answer: Answer) -> str:
    """Return an answer; whatever is no JSON would stop the tool."""
    said: dict[str, object] = {}
    if reason := refusal(call, answer):
        said = {"permission": "deny", "user_message": reason, "agent_message": reason}
    elif answer.context and event in (*INJECTS, *_CLAUDES):
        said = {"additional_context": clean(answer.context)}
    if event[:1].isupper():
        said |= specific(event, call, answer, _CLAUDES)
    return document(said)


def neutral(event: str) -> str:
    """Return what says nothing."""
    return "{}"


def foreign(payload: object, environment: Mapping[str, str]) -> str:
    """Return '': nobody else runs its hooks."""
    return ""


# For the installer


def found(machine: Machine) -> list[str]:
    """Return the evidence that it is here."""
    return machine.evidence(("cursor", "cursor-agent"), machine.home / ".cursor")


def server(machine: Machine, wish: Wish) -> list[Target]:
    """Return its entry. Its servers start elsewhere, so the project is told by a variable that it fills in."""
    from bede.agents import placing

    if not placing.is_wanted(machine.home / ".cursor", wish):
        return []
    value = placing.entry(wish, NAME, "--project", "${workspaceFolder}")
    file = placing.at(machine.home / ".cursor" / "mcp.json", wish, ".cursor", "mcp.json")
    return [placing.server(file, "jsonc", {"type": "stdio", **value}, "mcpServers", kept=("env", "envFile"))]


def hooks(machine: Machine, wish: Wish) -> list[Target]:
    """Return its hooks: flat lists, and a version without which it takes none."""
    from bede.agents import placing
    from bede.splice import Default, Items

    if not placing.is_wanted(machine.home / ".cursor", wish):
        return []
    edits = "|".join(TOOLS)
    events = {
        "sessionStart": ("", 10),
        "beforeSubmitPrompt": ("", 5),
        "preToolUse": (edits, 5),
        "postToolUse": (edits, 5),
        "postToolUseFailure": (edits, 5),
        "stop": ("", 10),
        "sessionEnd": ("", 10),
    }
    pieces: list[Default | Items] = [Default(("version",), 1)]
    for event, (matcher, seconds) in events.items():
        item: dict[str, object] = {"command": placing.command(machine, wish, event, NAME)}
        item |= {"matcher": matcher} if matcher else {}
        pieces.append(Items(("hooks", event), ({**item, "timeout": seconds},), placing.ours(NAME)))
    file = placing.at(machine.home / ".cursor" / "hooks.json", wish, ".cursor", "hooks.json")
    return [placing.target(file, "jsonc", pieces)]
