"""Who speaks where Codex says "user": a person, a shell command of theirs, another agent, or Codex itself.

Codex lays instructions, the environment, skills and notes of hooks into the user's role, and editors wrap what a
person typed. What is wrapped is unwrapped; what is left when all that Codex added is taken away, a person said.
"""

from __future__ import annotations

import re

from bede.sources.port import Speaker

#: Elements that Codex adds; a text that is nothing else is nobody's.
_ELEMENTS: dict[str, Speaker] = {
    "environment_context": "injected",
    "user_instructions": "injected",
    "permissions instructions": "injected",
    "skill": "injected",
    "skills_instructions": "injected",
    "apps_instructions": "injected",
    "plugins_instructions": "injected",
    "recommended_plugins": "injected",
    "collaboration_mode": "injected",
    "multi_agent_mode": "injected",
    "personality_spec": "injected",
    "model_switch": "injected",
    "realtime_conversation": "injected",
    "goal_context": "injected",
    "codex_internal_context": "injected",
    "token_budget": "injected",
    "hook_prompt": "injected",
    "user_action": "injected",
    "instructions": "injected",
    "turn_aborted": "interrupt",
    "subagent_notification": "notification",
    "user_shell_command": "bang",
}
_OPENED = re.compile(rf"\s*<({'|'.join(_ELEMENTS)})\b[^>]*>", re.IGNORECASE)
_MANUAL = re.compile(r"\s*# AGENTS\.md instructions(?: for [^\n]*)?\s*(?=<INSTRUCTIONS>)")
_EDITOR = re.compile(
    r"\s*# (?:Context from my IDE setup|[A-Z][\w ]* mentioned by the user|In app browser)\b[^\n]*:\s*\n"
)
_REQUEST = re.compile(r"^## My request for Codex:[ \t]*\n?", re.MULTILINE)
_WARNING = re.compile(r"Warning: (?:apply_patch was requested via|The maximum number of unified exec)")
_PICTURE = re.compile(r"\s*(?:<image\b[^>]*>|</image>)\s*\Z")


def spoken(text: str, kind: str = "") -> tuple[Speaker, str]:
    """Return who speaks in a text of the user's role, and what they said.

    `kind` is what newer versions write of a part of a message (`user.text`, `hooks.additional_context`), if they do.
    """
    speaker, rest = _left(text)
    if speaker == "bang":
        command, closed, _ = text.partition("<command>")[2].partition("</command>")
        return "bang", command.strip("\n") if closed else text
    if speaker is not None and not rest.strip():
        return speaker, text
    if kind and kind != "unknown" and not kind.startswith("user."):
        return speaker or "injected", text
    if speaker is None and _WARNING.match(text):
        return "injected", text
    return "human", _unwrapped(rest.lstrip() if speaker else rest)


def is_picture(text: str) -> bool:
    """Tell whether a text is only the mark that Codex sets around an attached image."""
    return _PICTURE.match(text) is not None


def _left(text: str) -> tuple[Speaker | None, str]:
    """Return whose the first element is that stands at the beginning, and the text without all of them."""
    first: Speaker | None = None
    while True:
        manual = _MANUAL.match(text)
        opened = _OPENED.match(text, manual.end() if manual else 0)
        if opened is None:
            return first, text
        name = opened.group(1)
        end = text.rfind(f"</{name}>")
        if end < opened.end():
            return first, text
        first = first or _ELEMENTS[name.lower()]
        text = text[end + len(name) + 3 :]


def _unwrapped(text: str) -> str:
    """Take away what an editor puts around a request."""
    request = _REQUEST.search(text) if _EDITOR.match(text) else None
    return text[request.end() :] if request else text
