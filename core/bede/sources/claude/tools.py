"""The tools of Claude Code: what a call is upon, which files it changes, and how it ended.

Tools are known by their exact names. A refusal and an exit status are read where the agent writes them: in fields of
the record where there are any, else in the sentence with which its text begins. What a tool read is never kept.
"""

from __future__ import annotations

from typing import Any

from bede.sources.port import Call, Edit, Result, Sort, tail

#: Tool → what it does, and the argument that tells upon what. The rest are unknown.
TOOLS: dict[str, tuple[Sort, str]] = {
    "Bash": ("shell", "command"),
    "PowerShell": ("shell", "command"),
    "Monitor": ("shell", "command"),
    "BashOutput": ("shell", "bash_id"),
    "KillShell": ("shell", "shell_id"),
    "KillBash": ("shell", "shell_id"),
    "Read": ("read", "file_path"),
    "NotebookRead": ("read", "notebook_path"),
    "ReadMcpResourceTool": ("mcp", "uri"),
    "ReadMcpResourceDirTool": ("mcp", "uri"),
    "ListMcpResourcesTool": ("mcp", "server"),
    "LS": ("search", "path"),
    "Glob": ("search", "pattern"),
    "Grep": ("search", "pattern"),
    "ToolSearch": ("search", "query"),
    "LSP": ("search", "filePath"),
    "Edit": ("edit", "file_path"),
    "MultiEdit": ("edit", "file_path"),
    "NotebookEdit": ("edit", "notebook_path"),
    "Write": ("create", "file_path"),
    "WebFetch": ("web", "url"),
    "WebSearch": ("web", "query"),
    "web_search": ("web", "query"),
    "web_fetch": ("web", "url"),
    "Task": ("task", "description"),
    "Agent": ("task", "description"),
    "TaskOutput": ("task", "task_id"),
    "TaskStop": ("task", "task_id"),
    "AgentOutputTool": ("task", "agentId"),
    "SendMessage": ("task", "to"),
    "TeamCreate": ("task", "team_name"),
    "TeamDelete": ("task", "team_name"),
    "Workflow": ("task", "name"),
    "TaskCreate": ("other", "subject"),
    "TaskUpdate": ("other", "taskId"),
    "TaskGet": ("other", "taskId"),
    "TaskList": ("other", ""),
    "TodoWrite": ("other", ""),
    "Skill": ("other", "skill"),
    "SlashCommand": ("other", "command"),
    "CronCreate": ("other", "cron"),
    "CronDelete": ("other", "id"),
    "CronList": ("other", ""),
    "ScheduleWakeup": ("other", "reason"),
    "EnterWorktree": ("other", "name"),
    "ExitWorktree": ("other", ""),
    "EnterPlanMode": ("other", ""),
    "ExitPlanMode": ("other", ""),
    "StructuredOutput": ("other", ""),
}

#: How a text begins by which the agent tells that somebody, or a rule somebody made, did not let a call run.
REFUSALS = (
    "The user doesn't want to proceed with this tool use",
    "The user doesn't want to take this action right now",
    "Claude requested permissions to ",
    "Permission to use ",
    "This command requires approval",
    "Permission for this action has been denied",
    "PreToolUse:",
)
#: What stands in the first line of such a text, in other builds.
MARKS = ("operation blocked by hook", "The following part requires approval", "was blocked. For security")

_STATUS = "Exit code "
_SEARCHED = 64 * 1024
_REMINDER, _REMINDED = "<system-reminder>", "</system-reminder>"


def call(identity: str, tool: str, given: Any) -> Call:
    """Return the call of a tool with what it was given, of any type."""
    arguments = given if isinstance(given, dict) else {}
    known = TOOLS.get(tool)
    if known is None:
        texts = [value for value in arguments.values() if isinstance(value, str)]
        sort: Sort = "mcp" if tool.startswith("mcp__") else "other"
        return Call(identity, tool, texts[0] if len(texts) == 1 else "", sort)
    sort, name = known
    target = arguments.get(name)
    if tool == "SendMessage" and not isinstance(target, str):
        target = arguments.get("recipient")
    target = target if isinstance(target, str) else ""
    return Call(identity, tool, target, sort, _edits(tool, target, arguments) if sort in ("edit", "create") else ())


def _edits(tool: str, path: str, given: dict[str, Any]) -> tuple[Edit, ...]:
    """Return the changes that a call asks for."""
    if tool == "Write":
        return (Edit(path, "create", new=_text(given, "content")),)
    if tool == "NotebookEdit":
        return (Edit(path, new=_text(given, "new_source")),)
    steps = given.get("edits") if tool == "MultiEdit" else [given]
    return tuple(_edit(path, step) for step in steps if isinstance(step, dict)) if isinstance(steps, list) else ()


def _edit(path: str, step: dict[str, Any]) -> Edit:
    """Return one replacement; of nothing, it makes the file."""
    old, new = _text(step, "old_string"), _text(step, "new_string")
    return Edit(path, "update" if old else "create", old, new)


def _text(given: dict[str, Any], name: str) -> str:
    """Return an argument that is a text; nothing where it is none."""
    value = given.get(name)
    return value if isinstance(value, str) else ""


def result(identity: str, block: dict[str, Any], record: dict[str, Any]) -> Result:
    """Return how a call ended, by its block of a record and what else that record tells."""
    told = record.get("toolUseResult")
    detail = told if isinstance(told, dict) else {}
    if block.get("is_error") is not True and not _is_refused(record):
        return Result(identity, True, _success(detail), edits=_really(detail) if "structuredPatch" in detail else ())
    text = _said(block.get("content"))
    denied = _is_refused(record) or text.startswith(REFUSALS) or _is_marked(text)
    return Result(identity, False, None if denied else _status(text), denied, tail(_without_reminders(text)))


def server_result(identity: str, block: dict[str, Any]) -> Result:
    """Return how a call ended that the model's own side made; an error has a code."""
    content = block.get("content")
    failed = block.get("is_error") is True or (isinstance(content, dict) and "error_code" in content)
    code = content.get("error_code") if isinstance(content, dict) else ""
    said = code if isinstance(code, str) and code else _said(content)
    return Result(identity, not failed, output=tail(said) if failed else "")


def _is_refused(record: dict[str, Any]) -> bool:
    """Tell whether the record has a field that says the call was not let run."""
    if isinstance(record.get("toolDenialKind"), str):
        return True
    decision = record.get("permissionDecision")
    return isinstance(decision, dict) and decision.get("decision") == "reject"


def _is_marked(text: str) -> bool:
    """Tell whether the first line of a failure says that a hook or a rule refused."""
    first = text[:400].partition("\n")[0]
    return not first.startswith(_STATUS) and any(mark in first for mark in MARKS)


def _success(detail: dict[str, Any]) -> int | None:
    """Return 0 for a shell command that is known to have ended so: any other end is an error, but for these."""
    if "stdout" not in detail or detail.get("interrupted") is True:
        return None
    return None if detail.get("backgroundTaskId") or detail.get("returnCodeInterpretation") else 0


def _status(text: str) -> int | None:
    """Return the exit status with which a failure begins, in newer builds."""
    digits = text[len(_STATUS) : 24].partition("\n")[0].strip() if text.startswith(_STATUS) else ""
    return int(digits) if digits.isascii() and digits.isdigit() else None


def _said(content: Any) -> str:
    """Return the text of a result, which is a string or blocks."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _without_reminders(text: str) -> str:
    """Return a failure's text without what the agent sets into it for the model, and without its tag of errors."""
    text = text[-_SEARCHED:]
    while (start := text.rfind(_REMINDER)) >= 0:
        end = text.find(_REMINDED, start)
        if end < 0:
            break
        text = text[:start].rstrip() + text[end + len(_REMINDED) :]
    return text.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>")


def _really(detail: dict[str, Any]) -> tuple[Edit, ...]:
    """Return what a call changed where that is not what it asked for: a file written over, a text the user altered."""
    path, hunks = detail.get("filePath"), detail.get("structuredPatch")
    if not isinstance(path, str) or not isinstance(hunks, list):
        return ()
    if detail.get("type") != "update" and detail.get("userModified") is not True:
        return ()
    return (Edit(path, patch="".join(_hunk(hunk) for hunk in hunks if isinstance(hunk, dict))),)


def _hunk(hunk: dict[str, Any]) -> str:
    """Return one hunk as a unified diff writes it."""
    places = [hunk.get(name) for name in ("oldStart", "oldLines", "newStart", "newLines")]
    lines = hunk.get("lines")
    if not isinstance(lines, list) or not all(isinstance(place, int) for place in places):
        return ""
    head = "@@ -{},{} +{},{} @@\n".format(*places)
    return head + "".join(f"{line}\n" for line in lines if isinstance(line, str))
