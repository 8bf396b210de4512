"""Hooks that are commands with a JSON object on stdin: what they have in common, and the answers in Claude's form.

The agents copied each other's hooks and kept the shape, each with names of its own. Everything is looked for under
all of these, since agents also run each other's hooks.
"""

from __future__ import annotations

import json

from bede.agents.edits import local, paths, scripted
from bede.agents.loose import first, mapping, sequence
from bede.agents.port import AFTER, BEFORE, COMPACTED, END, OTHER, START, STOP, Answer, Call
from bede.sessions import session_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

#: Most characters of what is laid into an agent's context, and of why it may not edit a file.
LONGEST, LONGEST_REASON = 6000, 2000

#: What is shown as a blank: control characters but for tabs and line ends, and what else begins a line.
_CONTROL = dict.fromkeys((*range(9), *range(11, 32), *range(127, 160), 0x2028, 0x2029), " ")


# What is told


def moment_of(moments: Mapping[str, str], event: str, said: dict[str, object]) -> str:
    """Return the moment of an event, whose name counts in any case; as the payload calls it where it has to."""
    names = (event, first(said, "hook_event_name", "hookEventName"))
    moment = next((moments[name.lower()] for name in names if name.lower() in moments), OTHER)
    return COMPACTED if moment == START and said.get("source") == "compact" else moment


def told(
    agent: str,
    moment: str,
    said: dict[str, object],
    tools: Collection[str],
    *,
    failed: bool = False,
) -> Call:
    """Return the call that a payload tells of.

    A tool that writes no file is of no moment, nor is the end of a sub-agent: its session goes on.
    """
    tool, given = _tool(said)
    child = first(said, "agent_id", "agentId", "subagent_id")
    transcript = first(said, "transcript_path", "transcriptPath")
    name = first(said, "session_id", "sessionId", "conversation_id", "conversationId")
    touched: tuple[str, ...] = ()
    if moment in (BEFORE, AFTER):
        touched = paths(given) if tool in tools else scripted(given)
        moment = moment if touched else OTHER
    elif child and moment in (STOP, END):
        moment = OTHER
    return Call(
        moment,
        agent,
        session_of(agent, transcript, name),
        cwd=_cwd(said),
        transcript=transcript,
        prompt=first(said, "prompt"),
        tool=tool,
        paths=touched,
        child=child,
        failed=failed,
    )


def _tool(said: dict[str, object]) -> tuple[str, object]:
    """Return a tool's name and input."""
    inner = mapping(said.get("toolCall"))
    name = first(said, "tool_name", "toolName") or first(inner, "name")
    given = next((said[key] for key in ("tool_input", "toolArgs", "toolInput") if key in said), inner.get("args"))
    return name.removeprefix("functions."), given


def _cwd(said: dict[str, object]) -> str:
    """Return the folder of a call: its own, or the first of the workspace."""
    folders = [*sequence(said.get("workspace_roots"))[:1], *sequence(said.get("workspacePaths"))[:1]]
    found = first(said, "cwd") or next((folder for folder in folders if isinstance(folder, str)), "")
    return local(found)


# What is answered


def document(answer: Mapping[str, object]) -> str:
    """Return an answer as one line of JSON that any parser takes."""
    return json.dumps(answer)


def clean(said: str, most: int = LONGEST) -> str:
    """Return a text that is safe to be shown: without control characters, and not longer than an agent takes."""
    said = said.encode("utf-8", "replace").decode().translate(_CONTROL)
    return said if len(said) <= most else said[: most - 1].rstrip() + "…"


def refusal(call: Call, answer: Answer) -> str:
    """Return why a tool may not run; '' where it may, and at every other moment."""
    return clean(answer.reason, LONGEST_REASON) if call.moment == BEFORE else ""


def specific(event: str, call: Call, answer: Answer, injects: Collection[str]) -> dict[str, object]:
    """Return an answer in Claude's form: a refusal, or context at an event that takes any; empty for nothing."""
    inner: dict[str, object] = {"hookEventName": event}
    if reason := refusal(call, answer):
        inner |= {"permissionDecision": "deny", "permissionDecisionReason": reason}
    elif answer.context and event in injects:
        inner["additionalContext"] = clean(answer.context)
    else:
        return {}
    return {"hookSpecificOutput": inner}


def own(call: Call, answer: Answer) -> str:
    """Return an answer in the form that our plugins act upon."""
    if reason := refusal(call, answer):
        return document({"deny": True, "reason": reason})
    return document({"context": clean(answer.context)} if answer.context else {})


# Whose it is


def stranger(said: dict[str, object], environment: Mapping[str, str]) -> str:
    """Return which agent runs a hook that was written for Claude or in its manner; '' where nothing tells.

    What is in the payload weighs more than the environment, which an agent that was started by another one inherits.
    """
    if "cursor_version" in said or ("conversation_id" in said and "generation_id" in said):
        return "cursor"
    if "conversationId" in said:
        return "antigravity"
    if "prompt_id" in said or "effort" in said:
        return ""
    if "sessionId" in said or "timestamp" in said:
        return _timed(said, environment)
    if environment.get("CURSOR_VERSION"):
        return "cursor"
    return "devin" if environment.get("DEVIN_PROJECT_DIR") else ""


def _timed(said: dict[str, object], environment: Mapping[str, str]) -> str:
    """Tell apart the agents that send a time: Gemini, Copilot and VS Code."""
    event, session = first(said, "hook_event_name"), first(said, "session_id")
    if event.startswith(("Before", "After")) or (session and session == environment.get("GEMINI_SESSION_ID")):
        return "gemini-cli"
    is_named = "hook_event_name" in said or "hookEventName" in said
    if environment.get("COPILOT_CLI") or not (is_named or isinstance(said.get("timestamp"), str)):
        return "copilot"
    if "tool_use_id" in said or "transcript_path" in said:
        return "vscode"
    return "copilot"
