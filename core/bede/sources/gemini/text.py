"""What one message of Gemini CLI says: prompts and what is laid around them, replies, thoughts, calls and results."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Literal

from bede.sources.kept import clean
from bede.sources.loose import dict_of, list_of, quoted, text_of
from bede.sources.port import Call, Edit, Prompt, Reply, Result, Sort, Speaker, Tally, Thought, Usage, tail

#: Most wrappers that are taken from before one text.
MOST = 100

#: Exact tool name → what it does, and the arguments of which the first that is there is its target.
_TOOLS: dict[str, tuple[Sort, tuple[str, ...]]] = {
    "run_shell_command": ("shell", ("command",)),
    "read_file": ("read", ("file_path", "absolute_path", "path")),
    "read_many_files": ("read", ("include", "paths")),
    "list_directory": ("read", ("dir_path", "path")),
    "glob": ("search", ("pattern",)),
    "grep_search": ("search", ("pattern",)),
    "search_file_content": ("search", ("pattern",)),
    "replace": ("edit", ("file_path",)),
    "write_file": ("create", ("file_path",)),
    "web_fetch": ("web", ("url", "prompt")),
    "google_web_search": ("web", ("query",)),
    "delegate_to_agent": ("task", ("objective", "agent_name")),
    "invoke_agent": ("task", ("prompt", "agent_name")),
    "codebase_investigator": ("task", ("objective",)),
    "generalist": ("task", ("request",)),
    "save_memory": ("other", ("fact",)),
    "update_topic": ("other", ("title",)),
    "activate_skill": ("other", ("name",)),
}

#: How a text begins that nobody typed, and who is behind it.
_OPENINGS: tuple[tuple[str, Speaker], ...] = (
    ("<session_context>", "injected"),
    ("<hook_context>", "injected"),
    ("This is the Gemini CLI. We are setting up the context for our chat.", "injected"),
    ("Here is the user's editor context", "injected"),
    ("Here is a summary of changes in the user's editor context", "injected"),
    ("<state_snapshot>", "compact-summary"),
    ("I ran the following shell command:\n```sh\n", "bang"),
)
_NUDGE = "System: Please continue."
_WRAPPERS = ("session_context", "hook_context")
_FILES = "\n--- Content from referenced files ---"
_FIELD = re.compile(r"(Error|Exit Code|Signal|Background PIDs|Process Group PGID): ?(.*)")
_REFUSED = re.compile(r"did not allow|denied|declined|rejected|Tool execution blocked", re.IGNORECASE)
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")

Part = tuple[str, Prompt | Reply | Thought | Call | Result | Usage, Any]
"""Key, item, and the time that it has of its own."""


def parts(message: dict[str, Any], name: str, is_side: bool, calls: dict[str, int], tally: Tally) -> Iterator[Part]:
    """Yield the items of a message, with their keys; `calls` counts the ids of the session."""
    kind, content = message["type"], message.get("content")
    if kind == "user":
        yield from _prompts(content, name, is_side)
    elif kind == "gemini":
        for number, thought in enumerate(list_of(message.get("thoughts"))):
            if text := _thought(thought):
                yield f"{name}:thought:{number}", Thought(text), thought.get("timestamp")
        if (text := "".join(texts(content))).strip():
            yield f"{name}:text", Reply(text, text_of(message.get("model"))), None
        for call in list_of(message.get("toolCalls")):
            yield from _call(call, name, calls, tally)
        if usage := _usage(message):
            yield f"{name}:usage", usage, None
    elif kind == "info" and "".join(texts(content)).strip() == "Request cancelled.":
        yield f"{name}:interrupt", Prompt("Request cancelled.", "interrupt"), None
    elif kind == "error" and (text := "".join(texts(content))):
        yield f"{name}:error", Reply(text, is_error=True), None


def _prompts(content: Any, name: str, is_side: bool) -> Iterator[Part]:
    """Yield what a person typed, and apart from it what was laid around it."""
    typed: list[str] = []
    around: list[str] = []
    speaker: Speaker = "delegated" if is_side else "human"
    other: Speaker = "injected"
    # Tools' answers lie in the user's role as well; the contents of files that a prompt names lie behind it.
    behind = any(isinstance(part, dict) and "functionResponse" in part for part in list_of(content))
    images = 0 if behind else sum(_is_image(part) for part in list_of(content))
    for text in texts(content):
        behind = behind or text.startswith(_FILES)
        rest = text if behind else _unwrapped(text, around)
        opening = next((who for start, who in _OPENINGS if rest.startswith(start)), None)
        if behind or opening or rest == _NUDGE:
            around.append(rest)
            other = opening or other
        elif rest:
            typed.append(rest)
    text = "".join(typed)
    if text.strip() or images:
        yield f"{name}:prompt", Prompt(text, speaker, images), None
    if around:
        yield f"{name}:around", Prompt("\n".join(around), other), None


def _unwrapped(text: str, around: list[str]) -> str:
    """Return a text without the wrappers before it, which go to the others."""
    for _ in range(MOST):
        wrapper = next((each for each in _WRAPPERS if text.startswith(f"<{each}>")), "")
        end = text.find(f"</{wrapper}>") if wrapper else -1
        if end < 0:
            break
        end += len(wrapper) + 3
        around.append(text[:end])
        text = text[end:].lstrip("\r\n")
    return text


def _is_image(part: Any) -> bool:
    data = part.get("inlineData") or part.get("fileData") if isinstance(part, dict) else None
    return isinstance(data, dict) and text_of(data.get("mimeType")).startswith("image/")


def _thought(thought: Any) -> str:
    if not isinstance(thought, dict):
        return ""
    return "\n".join(filter(None, (text_of(thought.get("subject")), text_of(thought.get("description")))))


def _call(call: Any, name: str, calls: dict[str, int], tally: Tally) -> Iterator[Part]:
    """Yield a call and, if it has ended, its result."""
    if not isinstance(call, dict) or not text_of(call.get("name")):
        tally.bad("no tool call")
        return
    identity, tool = clean(text_of(call.get("id"))) or f"{name}:{call['name']}", call["name"]
    identity = _own(identity, calls)
    arguments, display = dict_of(call.get("args")), dict_of(call.get("resultDisplay"))
    sort, target = _aim(tool, arguments)
    edits = _edits(tool, arguments, display)
    yield f"{name}:call:{quoted(identity)}", Call(identity, tool, target, sort, edits), None
    if result := _result(identity, call, sort, display):
        yield f"{name}:result:{quoted(identity)}", result, call.get("timestamp")


def _own(identity: str, calls: dict[str, int]) -> str:
    """Return an id that no call of the session has yet, and count it."""
    own, calls[identity] = identity, calls.get(identity, 0) + 1
    while calls[identity] > 1 and (own := f"{identity}#{calls[identity]}") in calls:
        calls[identity] += 1
    calls.setdefault(own, 1)
    return own


def _aim(tool: str, arguments: dict[str, Any]) -> tuple[Sort, str]:
    """Return what a tool does, and upon what."""
    if tool in _TOOLS:
        sort, names = _TOOLS[tool]
        values = [arguments.get(name) for name in names]
    else:
        sort = "mcp" if tool.startswith("mcp_") or "__" in tool else "other"
        values = [value for value in arguments.values() if isinstance(value, str)]
        values = values if len(values) == 1 else []
    value = next((value for value in values if value), "")
    return sort, " ".join(filter(None, map(text_of, value))) if isinstance(value, list) else text_of(value)


def _edits(tool: str, arguments: dict[str, Any], display: dict[str, Any]) -> tuple[Edit, ...]:
    path = text_of(arguments.get("file_path"))
    if tool == "replace" and path:
        return (Edit(path, old=text_of(arguments.get("old_string")), new=text_of(arguments.get("new_string"))),)
    if tool == "write_file" and path:
        operation: Literal["create", "update"] = "update" if display.get("isNewFile") is False else "create"
        return (Edit(path, operation, new=text_of(arguments.get("content"))),)
    return ()


def _result(identity: str, call: dict[str, Any], sort: Sort, display: dict[str, Any]) -> Result | None:
    """Return how a call ended; None while it has not."""
    status, output = call.get("status"), _output(call)
    if status not in ("success", "error", "cancelled"):
        return None
    exit_status = _exit(output, text_of(call.get("resultDisplay"))) if sort == "shell" else None
    is_stopped = sort == "shell" and output.startswith(("Command was cancelled", "Command was automatically cancelled"))
    ok = status == "success" and not exit_status and not is_stopped
    is_kept = status == "cancelled" or output.startswith(("Tool execution blocked", "Tool execution denied"))
    denied = not ok and is_kept and _REFUSED.search(output[:500]) is not None
    return Result(identity, ok, exit_status, denied, "" if ok else tail(output), () if not ok else _changed(display))


def _changed(display: dict[str, Any]) -> tuple[Edit, ...]:
    """Return the change that was made where a person altered it before it was."""
    counts = display.get("diffStat")
    if isinstance(counts, dict) and (counts.get("user_added_lines") or counts.get("user_removed_lines")):
        path, patch = text_of(display.get("filePath")), text_of(display.get("fileDiff"))
        return (Edit(path, patch=patch),) if path and patch else ()
    return ()


def _output(call: dict[str, Any]) -> str:
    """Return what a tool answered to the model, without what hooks added."""
    for part in list_of(call.get("result")):
        response = part.get("functionResponse") if isinstance(part, dict) else None
        response = response.get("response") if isinstance(response, dict) else None
        if isinstance(response, dict):
            return _bare(text_of(response.get("error")) or text_of(response.get("output")))
    return text_of(call.get("resultDisplay"))


def _bare(text: str) -> str:
    """Return an output without what hooks put behind it, and without its wrapper."""
    if text.endswith("</hook_context>") and (end := text.rfind("\n\n<hook_context>")) >= 0:
        text = text[:end]
    end = text.rfind("\n</untrusted_context>") if text.startswith("<untrusted_context>\n") else -1
    return text[20:end] if end >= 20 else text


def _exit(output: str, shown: str) -> int | None:
    """Return the exit status from the fields behind a command's output; a recent version leaves out a zero.

    What the command wrote itself, as it was shown to the person, is passed over where it is found.
    """
    start = output.find(f"Output: {shown}\n") if shown else -1
    behind = output[start + 9 + len(shown) :] if start >= 0 else output[-2000:]
    fields: dict[str, str] = {}
    for line in reversed(behind.split("\n")):
        matched = _FIELD.fullmatch(line)
        if not matched or matched[1] in fields:
            break
        fields[matched[1]] = matched[2]
    status = fields.get("Exit Code", "")
    if re.fullmatch(r"-?[0-9]{1,10}", status):
        return int(status)
    return 0 if "Process Group PGID" in fields and not {"Exit Code", "Signal", "Error"} & fields.keys() else None


def _usage(message: dict[str, Any]) -> Usage | None:
    tokens = message.get("tokens")
    if not isinstance(tokens, dict):
        return None
    given, taken, cached, thought = (_count(tokens.get(name)) for name in ("input", "output", "cached", "thoughts"))
    return Usage(text_of(message.get("model")), given, taken, cached, reasoning=thought)


def texts(content: Any) -> list[str]:
    """Return the texts of a content: a string, a part, or a list of both; no thoughts."""
    found: list[str] = []
    for part in content if isinstance(content, list) else [content]:
        text = part.get("text") if isinstance(part, dict) and not part.get("thought") else part
        if isinstance(text, str) and text:
            found.append(text)
    return found


def instant(value: Any) -> tuple[int | None, Literal["", "us", "ms", "s", "min"]]:
    """Return a time in microseconds, as exact as it is written; None where it is none."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) and len(value) < 64 else None
        delta = moment - _EPOCH if moment else None
    except (ValueError, TypeError, OverflowError):
        return None, ""
    if delta is None:
        return None, ""
    micros = (delta.days * 86400 + delta.seconds) * 1_000_000 + delta.microseconds
    fraction = re.search(r"\.([0-9]+)", value)
    return micros, "s" if not fraction else "ms" if len(fraction[1]) <= 3 else "us"


def _count(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 1 << 53 else 0
