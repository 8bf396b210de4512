"""The records of Codex, by their names, as items: words, thoughts, calls, how they ended, and what they cost.

What a record means does not depend on which notation carries it: an item of the model's history, an event, and a
completed item of a turn say the same things, and what one of them has said the others only confirm.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from bede.sources.codex import calls, speech, tools
from bede.sources.codex import state as states
from bede.sources.codex.state import Place, digest, give, know, short
from bede.sources.port import Prompt, Reply, Thought

#: How many of the latest texts are kept to know them again, and how many of a turn to count them.
HEARD, SAID = 48, 512

_DIRECTORY = re.compile(r"<cwd>([^<\n]+)</cwd>|^Current working directory: ([^\n]+)", re.MULTILINE)
_PLAN = ("<proposed_plan>", "</proposed_plan>")
_BY_A_PERSON = ("user_shell", "userShell")

Handler = Callable[[Place, dict[str, Any]], None]
Block = tuple[str, str]
"""A text of a message, and its kind where it is told."""


def _say(place: Place, what: Prompt | Reply | Thought, channel: str) -> None:
    """Give a text, unless another channel has done so: `i` history, `e` event, `c` completed item."""
    role = what.speaker if isinstance(what, Prompt) else type(what).__name__
    mark = role if role == "interrupt" else f"{role}:{digest(what.text)}"
    heard: list[list[str]] = place.state.setdefault("heard", [])
    for entry in heard:
        if entry[0] == mark and channel not in entry[1]:
            entry[1] += channel
            return
    heard.append([mark, channel])
    del heard[:-HEARD]
    if role == "human" and "copied" in place.state and "turn" not in place.state:
        states.own(place, "")
    give(place, what, mark=_counted(place, mark))


def _counted(place: Place, mark: str) -> str:
    """Return what names a text within its turn: two that are the same have numbers."""
    said: dict[str, int] = place.state.setdefault("said", {})
    if "turn" not in place.state or (mark not in said and len(said) >= SAID):
        return ""
    said[mark] = said.get(mark, 0) + 1
    return f"{mark}:{said[mark]}"


def _prompt(place: Place, blocks: Iterable[Block], images: int, channel: str) -> None:
    """Give what stands in the user's role: what Codex added part by part, what a person said as one."""
    human: list[str] = []
    for text, kind in blocks:
        if images and speech.is_picture(text):
            continue
        speaker, said = speech.spoken(text, kind)
        if speaker == "human":
            human.append(said)
            continue
        _say(place, Prompt(said, speaker), channel)
        _look_for_folder(place, text)
    if "".join(human).strip() or images:
        speaker = "delegated" if place.state.get("side") else "human"
        _say(place, Prompt("".join(human), speaker, images), channel)


def _look_for_folder(place: Place, text: str) -> None:
    """Learn where a session works from what it told the model, if nothing else tells."""
    if not place.state.get("session", {}).get("cwd") and "environment_context" in text[:40].lower():
        found = _DIRECTORY.search(text)
        if found:
            know(place, cwd=short((found.group(1) or found.group(2)).strip()))


def _reply(place: Place, text: str, channel: str) -> None:
    """Give what the assistant said; a plan within it is a text of its own, as it is for events."""
    for part in _parts(text):
        if part.strip():
            _say(place, Reply(part, place.state.get("session", {}).get("model", "")), channel)


def _parts(text: str) -> list[str]:
    """Return a text in which no plan is marked as it is, else what is around the plan, and the plan."""
    before, opened, rest = text.partition(_PLAN[0])
    plan, closed, after = rest.partition(_PLAN[1])
    return [(before + after).strip(), plan.strip()] if opened and closed else [text]


def _message(place: Place, payload: dict[str, Any]) -> None:
    role, content = payload.get("role"), payload.get("content")
    blocks = content if isinstance(content, list) else [content]
    texts = list(zip(map(_said, blocks), _kinds(payload, len(blocks)), strict=True))
    if role == "assistant":
        for text, _ in texts:
            _reply(place, text, "i")
    elif role == "user":
        images = sum(isinstance(block, dict) and block.get("type") == "input_image" for block in blocks)
        _prompt(place, [block for block in texts if block[0]], images, "i")
    elif role in ("developer", "system"):
        for text, _ in texts:
            if text.strip():
                _say(place, Prompt(text, "injected"), "i")
    else:
        place.tally.bad("no role")


def _said(block: Any) -> str:
    """Return the text of one block of a message."""
    if not isinstance(block, dict):
        return block if isinstance(block, str) else ""
    text = block.get("refusal") if block.get("type") == "refusal" else block.get("text")
    return text if isinstance(text, str) else ""


def _kinds(payload: dict[str, Any], count: int) -> list[str]:
    """Return what each block of a message is, where newer versions tell it."""
    told = payload.get("internal_chat_message_metadata_passthrough")
    kinds = told.get("content_item_kinds") if isinstance(told, dict) else None
    known = [kind if isinstance(kind, str) else "" for kind in kinds] if isinstance(kinds, list) else []
    return known if len(known) == count else [""] * count


def _user_message(place: Place, payload: dict[str, Any]) -> None:
    pictures = [payload.get("images"), payload.get("local_images")]
    images = sum(len(found) for found in pictures if isinstance(found, list))
    kind = payload.get("kind")
    by_codex = kind if kind in ("environment_context", "user_instructions") else ""
    _prompt(place, [(_text(payload, "message"), by_codex)], images, "e")


def _between_agents(place: Place, payload: dict[str, Any]) -> None:
    """Give what one agent writes to another."""
    text = tools.joined(payload.get("content"))
    if text.strip():
        _say(place, Prompt(text, "delegated" if place.state.get("side") else "notification"), "i")


def _agent_message(place: Place, payload: dict[str, Any]) -> None:
    _reply(place, _text(payload, "message"), "e")


def _reasoning(place: Place, payload: dict[str, Any]) -> None:
    _think(place, [payload.get("summary"), payload.get("content")], "i")


def _agent_reasoning(place: Place, payload: dict[str, Any]) -> None:
    _think(place, [[payload.get("text")]], "e")


def _think(place: Place, lists: list[Any], channel: str) -> None:
    """Give the parts of a reasoning that can be read."""
    for parts in lists:
        for text in map(_said, parts if isinstance(parts, list) else []):
            if text.strip():
                _say(place, Thought(text), channel)


def _error(place: Place, payload: dict[str, Any]) -> None:
    inner = payload.get("error")
    text = _text(payload, "message") or (_text(inner, "message") if isinstance(inner, dict) else "")
    if text:
        give(place, Reply(text, is_error=True))


def _compacted(place: Place, payload: dict[str, Any]) -> None:
    """Give the summary; what it replaces was said before, and is not said again."""
    if _text(payload, "message").strip():
        give(place, Prompt(_text(payload, "message"), "compact-summary"))


def _aborted(place: Place, payload: dict[str, Any]) -> None:
    if payload.get("reason") == "interrupted":
        _say(place, Prompt("interrupted", "interrupt"), "e")


def _over(place: Place, _: dict[str, Any]) -> None:
    """Forget, at the end of a turn, what only its own records could confirm."""
    place.state.pop("heard", None)
    place.state.pop("script", None)


def _text(record: dict[str, Any], name: str) -> str:
    value = record.get(name)
    return value if isinstance(value, str) else ""


def _completed(place: Place, payload: dict[str, Any]) -> None:
    """Take an item of a turn that is done."""
    item = payload.get("item")
    if not isinstance(item, dict):
        return place.tally.bad("no item")
    kind, content = item.get("type"), item.get("content")
    blocks = content if isinstance(content, list) else []
    if kind == "UserMessage":
        images = sum(isinstance(block, dict) and "image" in str(block.get("type", "")).lower() for block in blocks)
        _prompt(place, [(text, "") for text in map(_said, blocks) if text], images, "c")
    elif kind == "AgentMessage":
        for text in map(_said, blocks):
            _reply(place, text, "c")
    elif kind == "Plan":
        _reply(place, _text(item, "text"), "c")
    elif kind == "Reasoning":
        _think(place, [item.get("summary_text"), item.get("raw_content")], "c")
    elif kind in ("CommandExecution", "FileChange", "McpToolCall"):
        _ended(place, item)
    return None


def _ended(place: Place, item: dict[str, Any]) -> None:
    """Take the end of a call, or a command that a person ran by hand."""
    if item.get("source") in _BY_A_PERSON:
        _say(place, Prompt(tools.script(item.get("command")), "bang"), "e")
    else:
        calls.ended(place, item)


RECORDS: dict[str, Handler] = {
    "session_meta": states.met,
    "turn_context": states.context,
    "compacted": _compacted,
    "token_usage_record": calls.token_record,
}
ITEMS: dict[str, Handler] = {
    "message": _message,
    "reasoning": _reasoning,
    "agent_message": _between_agents,
    **dict.fromkeys(
        (
            "function_call",
            "custom_tool_call",
            "local_shell_call",
            "web_search_call",
            "tool_search_call",
            "image_generation_call",
        ),
        calls.call,
    ),
    **dict.fromkeys(
        (
            "function_call_output",
            "custom_tool_call_output",
            "local_shell_call_output",
            "mcp_tool_call_output",
            "tool_search_output",
        ),
        calls.output,
    ),
}
EVENTS: dict[str, Handler] = {
    "user_message": _user_message,
    "agent_message": _agent_message,
    "agent_reasoning": _agent_reasoning,
    "agent_reasoning_raw_content": _agent_reasoning,
    "item_completed": _completed,
    "task_started": states.turned,
    "turn_started": states.turned,
    "task_complete": _over,
    "turn_complete": _over,
    "turn_aborted": _aborted,
    "thread_rolled_back": states.rolled_back,
    "thread_name_updated": states.renamed,
    "token_count": calls.token_count,
    "error": _error,
    "stream_error": _error,
    **dict.fromkeys(("exec_command_end", "patch_apply_end", "mcp_tool_call_end", "dynamic_tool_call_response"), _ended),
}
