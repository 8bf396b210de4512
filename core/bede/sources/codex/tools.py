"""What Codex's tools were called upon, by their exact names, and how that ended, in all notations it has had.

Pure functions from parts of records to parts of items. Every part may be of any JSON type; what makes no sense says
nothing, and nothing in here raises.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

from bede.quick import dataclass
from bede.sources import patch
from bede.sources.parsed import parsed
from bede.sources.port import Edit, Sort

#: Tool → what it does, and the arguments of which the first one that is there is its target.
TOOLS: dict[str, tuple[Sort, tuple[str, ...]]] = {
    "shell": ("shell", ("command",)),
    "shell_command": ("shell", ("command",)),
    "local_shell": ("shell", ("command",)),
    "container.exec": ("shell", ("cmd", "command")),
    "exec_command": ("shell", ("cmd", "command")),
    "unified_exec": ("shell", ("input",)),
    "write_stdin": ("shell", ("chars",)),
    "exec": ("other", ("input",)),
    "js_repl": ("other", ("input", "code")),
    "apply_patch": ("edit", ("path",)),
    "read_file": ("read", ("file_path", "path")),
    "view_image": ("read", ("path",)),
    "list_dir": ("search", ("dir_path", "path")),
    "grep_files": ("search", ("pattern",)),
    "tool_search_call": ("search", ("query",)),
    "web_search_call": ("web", ("query", "queries", "url", "pattern")),
    "web_search": ("web", ("query", "url")),
    "image_generation_call": ("other", ("revised_prompt",)),
    "read_mcp_resource": ("mcp", ("uri",)),
    "list_mcp_resources": ("mcp", ("server",)),
    "list_mcp_resource_templates": ("mcp", ("server",)),
    "spawn_agent": ("task", ("message", "prompt")),
    "send_input": ("task", ("message",)),
    "send_message": ("task", ("message",)),
    "followup_task": ("task", ("message",)),
    "wait_agent": ("task", ()),
    "wait": ("task", ()),
    "close_agent": ("task", ("target", "id")),
    "resume_agent": ("task", ("id",)),
    "update_plan": ("other", ()),
    "request_user_input": ("other", ()),
}
#: Shells, by the end of their path, whose last argument is the script.
_SHELLS = ("bash", "sh", "zsh", "bash.exe", "pwsh", "powershell", "powershell.exe", "cmd.exe", "cmd")
_PATCHER = re.compile(r"(?:^|[\s;&|(.\"'`])(?:apply_?patch|applyPatch)\b")

_HEADER = re.compile(r"(?:Exit code:|Chunk ID:|Wall time|Process |Script |Total output lines:|Command:)")
_EXIT = re.compile(r"^(?:Exit code: |Process exited with code )(-?\d{1,12})\s*$", re.MULTILINE)
_FAILED = re.compile(
    r"(?:failed (?:in sandbox |to )|error:|execution error|exec_command failed|write_stdin failed|unsupported call|"
    r"apply_patch (?:verification|handler) |aborted|Script failed|command timed out)",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"(?:Command|Tool call|Tool) blocked by \w+ hook|(?:(?:exec )?command|patch) rejected by user|rejected by user|"
    r"user (?:rejected|cancelled) |This action was rejected",
    re.IGNORECASE,
)
_DONE = re.compile(r"Success\. Updated|Script completed|Plan updated\Z|Done!\s*\Z")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a call asks for."""

    tool: str
    target: str = ""
    sort: Sort = "other"
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended, as far as one record tells; `text` is what it put out."""

    ok: bool | None = None
    exit_status: int | None = None
    denied: bool = False
    text: str = ""


def asked(payload: dict[str, Any]) -> Asked | None:
    """Return what an item of a call asks for; None where it is no call."""
    kind = payload.get("type")
    if kind == "function_call":
        name, space = _text(payload.get("name")), _text(payload.get("namespace"))
        full = f"{space}.{name}" if space.startswith("mcp__") and not name.startswith("mcp__") else name
        return _asked(full, _decoded(payload.get("arguments")))
    if kind == "custom_tool_call":
        return _asked(_text(payload.get("name")), _decoded(payload.get("input")))
    if kind in ("local_shell_call", "web_search_call"):
        return _asked("local_shell" if kind == "local_shell_call" else kind, payload.get("action"))
    if kind in ("tool_search_call", "image_generation_call"):
        return _asked(kind, payload.get("arguments", payload))
    return None


def inside(item: dict[str, Any]) -> Asked:
    """Return what a call from within a script asked for, told by the record of its end."""
    told_of = item.get("invocation")
    call = told_of if isinstance(told_of, dict) else item
    if item.get("type") in ("exec_command_end", "CommandExecution"):
        return _asked("exec_command", {"cmd": item.get("command")})
    if item.get("type") in ("patch_apply_end", "FileChange"):
        made = changes(item.get("changes"))
        return Asked("apply_patch", " ".join(edit.path for edit in made), "edit", made)
    server, name = _text(call.get("server")), _text(call.get("tool"))
    return _asked(f"mcp__{server}.{name}" if server else name, call.get("arguments"))


def script(command: Any) -> str:
    """Return a command as one would type it: the script that a shell is given, or the words quoted."""
    if isinstance(command, str):
        return command
    words = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
    program = re.split(r"[\\/]", words[0])[-1].lower() if words else ""
    if len(words) > 2 and program in _SHELLS and words[1][:1] in ("-", "/"):
        return words[-1]
    return shlex.join(words)


def _asked(tool: str, arguments: Any) -> Asked:
    """Return what a tool of some name is asked for."""
    sort: Sort = "mcp" if tool.startswith("mcp__") else "other"
    names: tuple[str, ...] | None = None
    if tool in TOOLS:
        sort, names = TOOLS[tool]
    if isinstance(arguments, str):
        target = arguments
    elif isinstance(arguments, dict):
        target = _patch_itself(arguments.get("command")) or _target(arguments, names)
    else:
        target = ""
    made = patch.edits(target) if _carries_patch(tool, target) else ()
    if not made:
        return Asked(tool, target, sort)
    paths = " ".join(dict.fromkeys(edit.path for edit in made))
    if sort == "edit":
        return Asked(tool, paths, "create" if all(edit.operation == "create" for edit in made) else "edit", made)
    return Asked(tool, patch.shortened(target), sort, made)


def _patch_itself(command: Any) -> str:
    """Return the call of the patcher where it is the program itself, its patch unquoted."""
    if isinstance(command, list) and len(command) == 2 and command[0] in ("apply_patch", "applypatch"):
        return f"{command[0]} {_text(command[1])}"
    return ""


def _carries_patch(tool: str, target: str) -> bool:
    """Tell whether a text hands a patch to the patcher, and does not merely hold one."""
    if tool == "apply_patch":
        return True
    before, found, _ = target.partition(patch.BEGIN)
    return bool(found) and _PATCHER.search(before) is not None


def _target(arguments: dict[str, Any], names: tuple[str, ...] | None) -> str:
    """Return the target by the names of a known tool, or the only text that an unknown one is given."""
    if names is None:
        texts = [value for value in arguments.values() if isinstance(value, str)]
        return texts[0] if len(texts) == 1 else ""
    for name in [*names, "input"] if names else ():
        if name in arguments and (value := script(arguments[name])):
            return value
    return ""


def _decoded(arguments: Any) -> Any:
    """Return the arguments of a call: JSON in a string as a rule, else as they stand."""
    if not isinstance(arguments, str) or not arguments.lstrip().startswith("{"):
        return arguments
    try:
        return parsed(arguments, strict=False)
    except ValueError:
        return arguments


def put_out(payload: dict[str, Any]) -> Outcome:
    """Return how a call ended by the item of its output."""
    if payload.get("type") == "tool_search_output":
        return Outcome(ok=payload.get("status") == "completed")
    output = payload.get("output", payload.get("result"))
    told = output.get("success") if isinstance(output, dict) else None
    text = joined(output.get("content") if isinstance(output, dict) and "content" in output else output)
    found = _structured(text) or _noted(text)
    return Outcome(told, found.exit_status, found.denied, found.text) if isinstance(told, bool) else found


def _structured(text: str) -> Outcome | None:
    """Read the notation of JSON in the output, `{"output", "metadata": {"exit_code"}}`."""
    if not text.startswith("{"):
        return None
    value = _decoded(text)
    metadata = value.get("metadata") if isinstance(value, dict) else None
    if not isinstance(metadata, dict):
        return None
    status = _status(metadata.get("exit_code"))
    return Outcome(None if status is None else status == 0, status, text=_text(value.get("output")))


def _noted(text: str) -> Outcome:
    """Read the notations of plain text; what the program itself put out is no notation."""
    if _DENIED.match(text):
        return Outcome(ok=False, denied=True, text=text)
    if not _HEADER.match(text):
        ok = False if _FAILED.match(text) else True if _DONE.match(text) else None
        return Outcome(ok, text=text)
    head, divided, body = text[:2000].partition("\nOutput:")
    head = head if divided else text.partition("\n")[0]
    body = text[len(head) + len("\nOutput:") :].removeprefix("\n") if divided else text
    if found := _EXIT.search(head):
        return Outcome(int(found.group(1)) == 0, int(found.group(1)), text=body)
    return Outcome(True if _DONE.match(head) else False if _FAILED.match(head) else None, text=body)


def told(item: dict[str, Any]) -> Outcome:
    """Return how a call ended by an event or a completed item about it."""
    status = _status(item.get("exit_code"))
    denied = item.get("status") in ("declined", "denied")
    text = _text(item.get("aggregated_output")) or _text(item.get("stdout")) + _text(item.get("stderr"))
    success = item.get("success")
    if status is not None:
        return Outcome(status == 0 and not denied, status, denied, text)
    if isinstance(success, bool):
        return Outcome(success and not denied, None, denied, text)
    if "result" in item or "error" in item:
        return _answered(item)
    state = item.get("status")
    return Outcome(state == "completed" if state in ("completed", "failed", "declined") else None, None, denied, text)


def _answered(item: dict[str, Any]) -> Outcome:
    """Return how the call of a server's tool ended: `{"Ok": …}`, `{"Err": …}`, or the result itself."""
    result, error = item.get("result"), item.get("error")
    if isinstance(result, dict) and "Err" in result:
        error = result["Err"]
    if error:
        text = joined(error.get("message") if isinstance(error, dict) else error)
        return Outcome(False, None, _DENIED.match(text) is not None, text)
    value = result.get("Ok", result) if isinstance(result, dict) else None
    if not isinstance(value, dict):
        return Outcome()
    failed = value.get("isError") is True or value.get("is_error") is True
    return Outcome(not failed, text=joined(value.get("content")) if failed else "")


def changes(found: Any) -> tuple[Edit, ...]:
    """Return the edits that a record of changes tells, path by path."""
    return tuple(_change(path, change) for path, change in found.items()) if isinstance(found, dict) else ()


def _change(path: str, change: Any) -> Edit:
    """Return the edit of one path: `{"type": "add", …}`, or `{"add": {…}}` as it once was."""
    body = change if isinstance(change, dict) else {}
    kind = body.get("type")
    if kind is None and len(body) == 1:
        kind, body = next((key, value if isinstance(value, dict) else {}) for key, value in body.items())
    diff, content, target = (_text(body.get(name)) for name in ("unified_diff", "content", "move_path"))
    if kind == "add":
        return Edit(path, "create", new=content, patch=diff)
    if kind == "delete":
        return Edit(path, "delete", old=content, patch=diff)
    return Edit(path, "move" if target else "update", patch=diff, moved_to=target)


def joined(content: Any) -> str:
    """Return the text of a content: a string, one block, or the texts of many."""
    if isinstance(content, dict):
        return _text(content.get("text"))
    if isinstance(content, list):
        return "".join(_text(block.get("text")) if isinstance(block, dict) else _text(block) for block in content)
    return _text(content)


def _status(value: Any) -> int | None:
    """Return an exit status, where it is one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**40 else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
