"""Who really speaks where Claude Code writes "user": a person, a command, a hook, another agent, or nobody.

The agent lays its own text around and in place of what a person typed. Here that is told apart by the tags with which
such a text begins, and what was typed is given back as it was typed. Nothing here knows records, files or state.
"""

from __future__ import annotations

import re
from typing import Any

from bede.sources.port import Speaker

#: Tags whose whole content the agent or the editor sets before what was typed.
WRAPPERS = (
    "system-reminder",
    "ide_opened_file",
    "ide_selection",
    "ide_diagnostics",
    "new-diagnostics",
    "user-prompt-submit-hook",
)

#: How a text begins that nobody typed as it stands, and who is behind it.
BEGINNINGS: tuple[tuple[str, Speaker], ...] = (
    ("<command-name>", "slash"),
    ("<command-message>", "slash"),
    ("<bash-input>", "bang"),
    ("<user-memory-input>", "slash"),
    ("<local-command-", "injected"),
    ("<bash-stdout>", "injected"),
    ("<bash-stderr>", "injected"),
    ("Caveat: The messages below", "injected"),
    ("[Request interrupted by user", "interrupt"),
    ("<task-notification>", "notification"),
    ("<agent-notification>", "notification"),
    ("<teammate-message", "notification"),
)

#: The modes of a queued command that say who is behind it; any other is told from its text.
MODES: dict[str, Speaker] = {
    "bash": "bang",
    "task-notification": "notification",
    "agent-notification": "notification",
    "orphaned-permission": "injected",
}

_INK = re.compile(r"\S")


def parts(content: Any) -> tuple[list[str], int] | None:
    """Return the texts of a message and how many images it holds; None where it is no message."""
    if isinstance(content, str):
        return [content], 0
    if not isinstance(content, list):
        return None
    texts, images = [], 0
    for block in content:
        if isinstance(block, dict):
            kind = block.get("type")
            if kind == "text" and isinstance(text := block.get("text"), str):
                texts.append(text)
            elif kind == "image":
                images += 1
    return texts, images


def bare(text: str) -> str:
    """Return a text without the wrappers before it; as it is, to the blank, where there are none."""
    at = start = _inked(text, 0)
    while text.startswith("<", start):
        name = text[start + 1 : start + 32].partition(">")[0]
        if name not in WRAPPERS:
            break
        end = text.find(f"</{name}>", start)
        if end < 0:
            return ""
        start = _inked(text, end + len(name) + 3)
    return text if start == at else text[start:]


def spoken(texts: list[str], images: int) -> tuple[Speaker, str] | None:
    """Return who says the texts of one message, and what; None where nothing is said.

    Texts that are wrappers and nothing else are injected, and whole.
    """
    kept = [text for text in map(bare, texts) if text and not text.isspace()]
    if kept:
        return told("\n".join(kept))
    if images:
        return "human", ""
    whole = "\n".join(texts)
    return ("injected", whole) if whole.strip() else None


def told(text: str) -> tuple[Speaker, str]:
    """Return who says a text that no wrapper precedes, and what was typed: of a command, name and arguments."""
    start = _inked(text, 0)
    if text[start : start + 1] not in "<[C":
        return "human", text
    for beginning, speaker in BEGINNINGS:
        if text.startswith(beginning, start):
            return speaker, _typed(text, speaker)
    return "human", text


def queued(texts: list[str], images: int, mode: Any = None) -> tuple[Speaker, str] | None:
    """Return who says what waits in the queue, where commands stand as they were typed."""
    found = spoken(texts, images)
    if found is None:
        return None
    if isinstance(mode, str) and mode in MODES:
        return MODES[mode], found[1]
    return ("slash", found[1]) if found[0] == "human" and _is_command(found[1]) else found


def _inked(text: str, start: int) -> int:
    """Return where the next character stands that is no blank."""
    found = _INK.search(text, start)
    return found.start() if found else len(text)


def _typed(text: str, speaker: Speaker) -> str:
    """Return what a person typed to bring a tagged text about; the text itself where no person did."""
    if speaker == "bang":
        return _inside(text, "bash-input")
    if speaker != "slash":
        return text
    if name := _inside(text, "command-name").strip():
        arguments = _inside(text, "command-args").strip()
        return f"{'' if name.startswith('/') else '/'}{name}{' ' if arguments else ''}{arguments}"
    return _inside(text, "user-memory-input") or text


def _inside(text: str, tag: str) -> str:
    """Return what stands between a tag and its end; nothing where either is missing."""
    start = text.find(f"<{tag}>")
    end = text.find(f"</{tag}>", start)
    return text[start + len(tag) + 2 : end] if 0 <= start < end else ""


def _is_command(text: str) -> bool:
    """Tell whether a text is a slash command, not a path."""
    name = text[1:80].split(None, 1)[0] if text[:1] == "/" and text[1:2].isalpha() else ""
    return bool(name) and name.replace("-", "").replace("_", "").replace(":", "").isalnum()
