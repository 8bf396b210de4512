"""What each agent tells its hook, made for a test: the shapes of the real ones, with a scratch project's paths in them.

`telling` makes a call, `reason` and `context` read an answer in the agent's own form.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from conftest import Ran

#: The moments that every agent has, and those of which some have none.
START, COMPACTED, PROMPT, BEFORE, AFTER, STOP, END = "start", "compacted", "prompt", "before", "after", "stop", "end"
ASKED = "Rename parse_row to parse_record in the loader"
FILE = "src/loader.py"

#: Agent → moment → the event on the hook's command line.
EVENTS: dict[str, dict[str, str]] = {
    "claude-code": {
        START: "SessionStart", COMPACTED: "SessionStart", PROMPT: "UserPromptSubmit", BEFORE: "PreToolUse",
        AFTER: "PostToolUse", STOP: "Stop", END: "SessionEnd",
    },
    "codex": {
        START: "SessionStart", COMPACTED: "SessionStart", PROMPT: "UserPromptSubmit", BEFORE: "PreToolUse",
        AFTER: "PostToolUse", STOP: "Stop", END: "SessionEnd",
    },
    "cursor": {
        START: "sessionStart", PROMPT: "beforeSubmitPrompt", BEFORE: "preToolUse", AFTER: "postToolUse",
        STOP: "stop", END: "sessionEnd",
    },
    "copilot": {
        START: "sessionStart", PROMPT: "userPromptSubmitted", BEFORE: "preToolUse", AFTER: "postToolUse",
        STOP: "agentStop", END: "sessionEnd",
    },
    "vscode": {
        START: "sessionStart", PROMPT: "userPromptSubmitted", BEFORE: "preToolUse", AFTER: "postToolUse",
        STOP: "agentStop",
    },
    "antigravity": {
        START: "PreInvocation", BEFORE: "PreToolUse", AFTER: "PostToolUse", STOP: "Stop",
    },
    "gemini-cli": {
        START: "SessionStart", PROMPT: "BeforeAgent", BEFORE: "BeforeTool", AFTER: "AfterTool", STOP: "AfterAgent",
        END: "SessionEnd",
    },
    "opencode": {
        START: "experimental.chat.system.transform", COMPACTED: "session.compacted", PROMPT: "chat.message",
        BEFORE: "tool.execute.before", AFTER: "tool.execute.after", STOP: "session.idle", END: "session.deleted",
    },
    "pi": {
        START: "session_start", COMPACTED: "session_compact", PROMPT: "before_agent_start", BEFORE: "tool_call",
        AFTER: "tool_result", STOP: "agent_end", END: "session_shutdown",
    },
    "omp": {
        START: "session_start", COMPACTED: "session_compact", PROMPT: "before_agent_start", BEFORE: "tool_call",
        AFTER: "tool_result", STOP: "agent_end", END: "session_shutdown",
    },
}  # fmt: skip
#: What says nothing.
NEUTRAL = {name: "" if name == "claude-code" else "{}\n" for name in EVENTS}


def telling(
    agent: str, moment: str, session: str, cwd: Path | str, *, path: str = FILE, prompt: str = ASKED, **more: Any
) -> tuple[list[str], str]:
    """Return the words and the stdin of one call. `more` is laid over the payload."""
    event = EVENTS[agent][moment]
    made = _MAKERS.get(agent, _claude)(agent, event, moment, session, str(cwd), path, prompt)
    return [event, "--agent", agent], json.dumps(made | more)


def _file(agent: str, session: str) -> str:
    return f"/home/dev/.{agent}/sessions/{session}.jsonl"


def _patch(path: str) -> str:
    return f"*** Begin Patch\n*** Update File: {path}\n@@\n-def parse_row(\n+def parse_record(\n*** End Patch\n"


def _claude(agent: str, event: str, moment: str, session: str, cwd: str, path: str, prompt: str) -> dict[str, Any]:
    """Return Claude's form, which several others took over with tools and members of their own."""
    tool, given = {
        "claude-code": ("Edit", {"file_path": path, "old_string": "parse_row", "new_string": "parse_record"}),
        "codex": ("apply_patch", {"command": _patch(path)}),
        "cursor": ("StrReplace", {"file_path": path, "old_string": "parse_row", "new_string": "parse_record"}),
        "vscode": ("apply_patch", {"input": _patch(path), "explanation": "rename"}),
        "gemini-cli": ("replace", {"file_path": path, "instruction": "rename", "old_string": "a", "new_string": "b"}),
    }[agent]
    said: dict[str, Any] = {"session_id": session, "transcript_path": _file(agent, session), "cwd": cwd}
    said |= _BESIDE.get(agent, lambda session, cwd: {})(session, cwd)
    said["hook_event_name"] = {"sessionStart": "SessionStart", "userPromptSubmitted": "UserPromptSubmit"}.get(
        event, event
    )
    if moment in (START, COMPACTED):
        said["source"] = "compact" if moment == COMPACTED else "startup"
    if moment == PROMPT:
        said["prompt"] = prompt
    if moment in (BEFORE, AFTER):
        said |= {"tool_name": tool, "tool_input": given, "tool_use_id": "tool-0001"}
    if moment == AFTER and agent != "cursor":
        said["tool_response"] = {"llmContent": "Done.", "error": None} if agent == "gemini-cli" else "Done."
    return said


_BESIDE: dict[str, Callable[[str, str], dict[str, Any]]] = {
    "claude-code": lambda session, cwd: {"prompt_id": "aaaaaaaa-0000-4000-8000-000000000001"},
    "codex": lambda session, cwd: {"model": "model-x", "permission_mode": "default", "turn_id": "turn-0001"},
    "cursor": lambda session, cwd: {
        "conversation_id": session, "generation_id": "g1", "cursor_version": "3.9.0", "workspace_roots": [cwd],
        "user_email": None,
    },
    "vscode": lambda session, cwd: {"timestamp": "2026-11-30T09:20:00.000Z"},
    "gemini-cli": lambda session, cwd: {"timestamp": "2026-11-30T09:20:00.000Z"},
}  # fmt: skip


def _copilot(agent: str, event: str, moment: str, session: str, cwd: str, path: str, prompt: str) -> dict[str, Any]:
    said: dict[str, Any] = {"sessionId": session, "timestamp": 1796032800000, "cwd": cwd}
    if moment == PROMPT:
        said["prompt"] = prompt
    if moment in (BEFORE, AFTER):
        said |= {"toolName": "edit", "toolArgs": {"path": path, "old_str": "parse_row", "new_str": "parse_record"}}
    if moment == AFTER:
        said["toolResult"] = {"resultType": "success", "textResultForLlm": "File updated."}
    return said


def _antigravity(agent: str, event: str, moment: str, session: str, cwd: str, path: str, prompt: str) -> dict[str, Any]:
    logs = f"/home/dev/.gemini/antigravity-cli/brain/{session}"
    said: dict[str, Any] = {
        "conversationId": session,
        "workspacePaths": [cwd],
        "transcriptPath": f"{logs}/.system_generated/logs/transcript.jsonl",
        "artifactDirectoryPath": logs,
        "modelName": "model-x",
    }
    if moment == START:
        said |= {"invocationNum": 0, "initialNumSteps": 1}
    if moment in (BEFORE, AFTER):
        given = {"TargetFile": path, "CodeContent": "x = 1\n", "Overwrite": True}
        said |= {"toolCall": {"name": "write_to_file", "args": given}, "stepIdx": 4}
    return said | ({"error": ""} if moment == AFTER else {})


def _opencode(agent: str, event: str, moment: str, session: str, cwd: str, path: str, prompt: str) -> dict[str, Any]:
    said: dict[str, Any] = {"agent": agent, "plugin_api": 1, "hook": event, "directory": cwd, "worktree": cwd}
    given = {"filePath": path, "oldString": "parse_row", "newString": "parse_record"}
    info = {"info": {"id": session, "directory": cwd}} if moment == END else {"sessionID": session}
    said["input"] = {
        PROMPT: {"sessionID": session, "messageID": "msg_1"},
        BEFORE: {"tool": "edit", "sessionID": session, "callID": "call_1"},
        AFTER: {"tool": "edit", "sessionID": session, "callID": "call_1", "args": given},
        START: {"sessionID": session},
    }.get(moment, {"event": {"type": event, "properties": info}})
    said["output"] = {PROMPT: {"parts": [{"type": "text", "text": prompt}]}, BEFORE: {"args": given}}.get(moment, {})
    return said


def _pi(agent: str, event: str, moment: str, session: str, cwd: str, path: str, prompt: str) -> dict[str, Any]:
    inner: dict[str, Any] = {"type": event}
    if moment == PROMPT:
        inner["prompt"] = prompt
    if moment in (BEFORE, AFTER):
        edits = [{"oldText": "parse_row", "newText": "parse_record"}]
        inner |= {"toolName": "edit", "toolCallId": "call_1", "input": {"path": path, "edits": edits}}
    if moment == AFTER:
        inner["isError"] = False
    file = f"/home/dev/.{agent}/agent/sessions/--p--/2026-11-30T09-20-00_{session}.jsonl"
    return {"agent": agent, "hook": event, "cwd": cwd, "session_file": file, "session_id": session, "event": inner}


_MAKERS = {"copilot": _copilot, "antigravity": _antigravity, "opencode": _opencode, "pi": _pi, "omp": _pi}


def answered(ran: Ran) -> dict[str, Any]:
    """Return the one document of an answer, empty where there is none; nothing else may have been said."""
    assert (ran.status, ran.err) == (0, "")
    if not ran.out:
        return {}
    assert ran.out.endswith("\n") and ran.out.count("\n") == 1
    found = json.loads(ran.out)
    assert isinstance(found, dict)
    return found


def reason(agent: str, ran: Ran) -> str:
    """Return why an edit was refused, read as the agent reads it; '' where it goes on."""
    said = answered(ran)
    inner = said.get("hookSpecificOutput", {})
    if agent in ("claude-code", "codex", "vscode"):
        return str(inner["permissionDecisionReason"]) if inner.get("permissionDecision") == "deny" else ""
    if agent == "cursor":
        return str(said["agent_message"]) if said.get("permission") == "deny" else ""
    if agent == "copilot":
        return str(said["permissionDecisionReason"]) if said.get("permissionDecision") == "deny" else ""
    if agent in ("antigravity", "gemini-cli"):
        return str(said["reason"]) if said.get("decision") == "deny" else ""
    return str(said["reason"]) if said.get("deny") is True else ""


def context(agent: str, ran: Ran) -> str:
    """Return what an answer lays into the agent's context, read as the agent reads it."""
    said = answered(ran)
    if agent in ("claude-code", "codex", "vscode", "gemini-cli"):
        return str(said.get("hookSpecificOutput", {}).get("additionalContext", ""))
    if agent == "antigravity":
        return "".join(step["ephemeralMessage"] for step in said.get("injectSteps", ()))
    return str(said.get({"cursor": "additional_context", "copilot": "additionalContext"}.get(agent, "context"), ""))


def rows(project: Path, query: str) -> list[tuple[Any, ...]]:
    """Ask the project's file."""
    with closing(sqlite3.connect(project / ".bede" / "bede.db", timeout=30)) as connection:
        return connection.execute(query).fetchall()


def leases(project: Path) -> list[tuple[str, str, str]]:
    """Return agent, session and file of everything that is held."""
    return rows(project, "SELECT agent, session, resource FROM lease ORDER BY resource")


def failures(home: Path) -> list[dict[str, Any]]:
    """Return what hooks wrote down of their failures."""
    file = home / ".local/share/bede/hooks.log"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []
