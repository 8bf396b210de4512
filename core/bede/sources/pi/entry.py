"""What one entry of the pi family tells: who spoke, what was called, how it ended, what it cost.

Everything is judged by the entry alone, but for what `state` notes of the ones before it: whether the session is a
sub-agent's, and what is known of calls that have not ended. What a tool read is never given on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Literal

from bede.sources.pi import tools
from bede.sources.pi.tools import string, table
from bede.sources.port import Prompt, Reply, Result, Thought, Usage, What, tail

Parts = Iterator[tuple[str, What]]
"""What an entry tells, each with a name that is unique within the entry."""

_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.(\d{1,9}))?(?:Z|[+-]\d\d:?\d\d)")
_SKILL = re.compile(r'<skill name="([^"\n]{1,200})" location="[^"\n]*">\n')
_EXIT = re.compile(r"Command exited with code (-?\d{1,6})\s*\Z")
#: What the agent itself says of a call that a person, a hook or a rule did not let run.
_REFUSED = re.compile(
    r"Tool execution was blocked|Tool call denied by user: |Extension failed, blocking execution: "
    r'|Tool "[^"\n]*" (?:is blocked by (?:user|tool) policy|requires approval but )'
)
#: What the agent itself says of a call that came to nothing without anybody's will.
_FAILED = re.compile(
    r"Tool \S+ not found|Validation failed|Operation aborted|Skipped |Request was aborted|File not found|Error: "
    r'|Tool call "?\S+ was not executed|E[A-Z]{3,9}: |Tool "[^"\n]*" timed out'
)
_NOTICES = ("async-result", "irc:incoming")


def moment(value: Any) -> tuple[int | None, Literal["", "us", "ms", "s"]]:
    """Return microseconds and precision of an ISO time with its zone, or of whole milliseconds since 1970."""
    if isinstance(value, str) and len(value) < 40 and (found := _ISO.fullmatch(value)):
        digits = len(found[1] or "")
        try:
            delta = datetime.fromisoformat(value if digits <= 6 else value.replace(found[1], found[1][:6], 1)) - _EPOCH
        except (ValueError, OverflowError):
            return None, ""
        at = (delta.days * 86400 + delta.seconds) * 1_000_000 + delta.microseconds
        return at, "s" if not digits else "ms" if digits <= 3 else "us"
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 253_402_300_800_000:
        return value * 1000, "ms"
    return None, ""


def tell(kind: str, record: dict[str, Any], state: dict[str, Any]) -> Parts:
    """Yield what an entry of some type tells; nothing for a type that is not known."""
    if kind in _KINDS:
        yield from _KINDS[kind](record, state)


def _message(record: dict[str, Any], state: dict[str, Any]) -> Parts:
    message = table(record.get("message"))
    role = message.get("role")
    if isinstance(role, str) and role in _ROLES:
        yield from _ROLES[role](message, state)


def _user(message: dict[str, Any], state: dict[str, Any]) -> Parts:
    text, images = gather(message.get("content"))
    if state.get("side"):
        yield "0", Prompt(text, "delegated", images)
    elif message.get("attribution") == "agent" or message.get("synthetic") is True:
        yield "0", Prompt(text, "injected", images)
    elif text or images:
        yield "0", _typed(text, images)


def _typed(text: str, images: int) -> Prompt:
    """Return what a person typed, without the files and skills that the agent laid around it."""
    if (found := _SKILL.match(text)) and (end := text.find("\n</skill>", found.end())) >= 0:
        rest = text[end + len("\n</skill>") :].strip("\n")
        return Prompt(f"/skill:{found[1]} {rest}".rstrip(" "), "slash", images)
    rest = text
    for start, stop in (("<system-reminder>", "</system-reminder>"), ('<file name="', "</file>")):
        while rest.startswith(start) and (end := rest.find(stop)) >= 0:
            rest = rest[end + len(stop) :].lstrip("\n")
    return Prompt(rest, "human", images) if rest or not text else Prompt(text, "injected", images)


def _assistant(message: dict[str, Any], state: dict[str, Any]) -> Parts:
    model = string(message.get("model"))
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for number, block in enumerate(blocks if isinstance(blocks, list) else []):
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "text" and (text := string(block.get("text"))):
            yield str(number), Reply(text, model)
        elif kind == "thinking" and (text := string(block.get("thinking"))):
            yield str(number), Thought(text)
        elif kind == "toolCall":
            yield str(number), tools.call(block)
    why = string(message.get("errorMessage"))
    if message.get("stopReason") == "aborted":
        yield "end", Prompt(why or "aborted", "interrupt")
    elif message.get("stopReason") == "error":
        yield "end", Reply(why or "error", model, is_error=True)
    yield from _usage(message, state)


def _usage(message: dict[str, Any], _state: dict[str, Any]) -> Parts:
    told = table(message.get("usage"))
    reasoning = count(told.get("reasoning")) or count(told.get("reasoningTokens"))
    counts = [count(told.get(name)) for name in ("input", "output", "cacheRead", "cacheWrite")]
    if any(counts):
        yield "usage", Usage(string(message.get("model")), counts[0], counts[1], counts[2], counts[3], reasoning)


def _result(message: dict[str, Any], state: dict[str, Any]) -> Parts:
    text, _ = gather(message.get("content"))
    call, tool = string(message.get("toolCallId")), string(message.get("toolName"))
    started = state.get("started", {}).pop(call[:200], None)
    details = table(message.get("details"))
    failed = message.get("isError") if isinstance(message.get("isError"), bool) else None
    yield (
        "0",
        Result(
            call,
            ok=None if failed is None else not failed,
            exit_status=_status(details, message, failed) if tools.is_shell(tool) else None,
            denied=bool(failed) and _is_denied(message, text, started, state.get("timed") is True),
            output=tail(text) if failed else "",
            edits=() if failed else tools.done(details),
        ),
    )


def _status(details: dict[str, Any], message: dict[str, Any], failed: bool | None) -> int | None:
    """Return the exit status of a command: what omp notes, or what stands at the end of a failed one's output."""
    status = details.get("exitCode")
    if isinstance(status, int) and not isinstance(status, bool):
        return status
    if failed:
        content = message.get("content")  # in blocks: the tool's own is the first, what hooks add stands behind it
        output, _ = gather(content[:1] if isinstance(content, list) else content)
        found = _EXIT.search(output[-60:])
        return int(found[1]) if found else None
    return 0 if failed is False and "async" not in details else None


def _is_denied(message: dict[str, Any], text: str, started: int | None, timed: bool) -> bool:
    """Tell whether a failed call was not let run.

    Both agents write a hook's bare reason and empty details. In pi such a call has no duration though its request has
    one; omp writes the start of a call, and a refused one ends in the same millisecond.
    """
    if _REFUSED.match(text):
        return True
    if message.get("details") != {} or _FAILED.match(text):
        return False
    if started is not None:
        return bool((moment(message.get("timestamp"))[0] or 0) // 1000 == started // 1000)
    return timed and "durationMs" not in message


def _bang(message: dict[str, Any], _state: dict[str, Any]) -> Parts:
    """A command, or a piece of Python, that the person ran; its result names the prompt."""
    status = message.get("exitCode")
    status = status if isinstance(status, int) and not isinstance(status, bool) else None
    yield "0", Prompt(string(message.get("command")) or string(message.get("code")), "bang")
    if status is not None or message.get("cancelled") is True:
        output = tail(string(message.get("output"))) if status else ""
        yield "1", Result("", ok=status == 0, exit_status=status, output=output)


def _laid(message: dict[str, Any], _state: dict[str, Any]) -> Parts:
    """Text that an extension, a hook or the agent put into the context."""
    text, images = gather(message.get("content"))
    kind, details = string(message.get("customType")), table(message.get("details"))
    if kind == "skill-prompt" and message.get("attribution") == "user" and (name := string(details.get("name"))):
        yield "0", Prompt(f"/skill:{name} {string(details.get('args'))}".rstrip(" "), "slash", images)
    elif text or images:
        yield "0", Prompt(text, "notification" if kind in _NOTICES else "injected", images)


def _files(message: dict[str, Any], _state: dict[str, Any]) -> Parts:
    """Files that a prompt mentions: their names, not what is in them."""
    files = message.get("files")
    names = [string(file.get("path")) for file in files if isinstance(file, dict)] if isinstance(files, list) else []
    if any(names):
        yield "0", Prompt("\n".join(f"@{name}" for name in names if name), "injected")


def _summary(record: dict[str, Any], _state: dict[str, Any]) -> Parts:
    if text := string(record.get("summary")):
        yield "0", Prompt(text, "compact-summary")


_ROLES: dict[str, Callable[[dict[str, Any], dict[str, Any]], Parts]] = {
    "user": _user,
    "assistant": _assistant,
    "toolResult": _result,
    "bashExecution": _bang,
    "pythonExecution": _bang,
    "custom": _laid,
    "hookMessage": _laid,
    "developer": _laid,
    "fileMention": _files,
    "branchSummary": _summary,
    "compactionSummary": _summary,
}
_KINDS: dict[str, Callable[[dict[str, Any], dict[str, Any]], Parts]] = {
    "message": _message,
    "custom_message": _laid,
    "compaction": _summary,
    "branch_summary": _summary,
    "model_usage": _usage,
}


def count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**53 else 0


def gather(value: Any) -> tuple[str, int]:
    """Return the text of a message's content, and how many images are in it."""
    if isinstance(value, str):
        return value, 0
    blocks = [block for block in value if isinstance(block, dict)] if isinstance(value, list) else []
    texts = [string(block.get("text")) for block in blocks if block.get("type") == "text"]
    return "\n".join(text for text in texts if text), sum(block.get("type") == "image" for block in blocks)
