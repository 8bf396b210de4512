"""What a session is called: one name for what an agent's hook tells of and for what its transcript holds.

The readers of transcripts and the agents' hooks ask here, so that a lock and the words of whoever holds it meet under
one id. Knows the agents' file names and opens none of the files; imports no more than a hook can afford.
"""

from __future__ import annotations

import re

#: Longest id that is believed, and longest name of a file.
LONGEST, LONGEST_NAME = 200, 255

#: Patterns are compiled when they are needed first, since most calls need none.
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
#: A folder that pi names after a session: its time, and its id.
_RUN = r"\d{4}-\d\d-\d\dT[\d-]+Z?_(.+)"
#: The logs of a conversation of Antigravity's.
_LOGS = ("transcript_full.jsonl", "transcript.jsonl", "overview.txt")


def session_of(agent: str, transcript: str, told: str = "") -> str:
    """Return the id of a session; '' where neither an id nor a file tells one.

    What the agent itself calls the session weighs more than the name of its file, which not all of its hooks tell.
    Paths of every system are understood on every system. A sub-agent's file is a session of its own, but for Claude,
    which keeps those below the session that they belong to.
    """
    if 0 < len(told) <= LONGEST:
        return told
    if not transcript:
        return ""
    return _NAMES.get(agent, _stem)(_parts(transcript))[:LONGEST_NAME]


def parent_of(agent: str, transcript: str) -> str:
    """Return the session whose sub-agent wrote a transcript, where its place tells that; '' where not."""
    folders = _parts(transcript)[:-1]
    if agent in ("pi", "omp"):
        return next((found[1] for folder in reversed(folders) if (found := re.fullmatch(_RUN, folder))), "")
    return folders[-2] if agent == "cursor" and folders[-1:] == ["subagents"] and len(folders) > 1 else ""


def _parts(path: str) -> list[str]:
    return path.replace("\\", "/").split("/")


def _stem(parts: list[str]) -> str:
    return parts[-1].rpartition(".")[0] or parts[-1]


def _claude(parts: list[str]) -> str:
    """Return the session that a sub-agent's file lies below, or what the file itself is called."""
    if parts[-1].startswith("agent-") and "subagents" in parts[1:]:
        return parts[parts.index("subagents", 1) - 1]
    return _stem(parts)


def _codex(parts: list[str]) -> str:
    """Return the UUID in a rollout's name, or all of it before its first dot."""
    found = re.findall(_UUID, parts[-1])
    return found[-1] if found else parts[-1].partition(".")[0]


def _copilot(parts: list[str]) -> str:
    """Return the folder that holds the events of one session, or the name of a file of them."""
    return parts[-2] if parts[-1] == "events.jsonl" and len(parts) > 1 else _stem(parts)


def _antigravity(parts: list[str]) -> str:
    """Return the folder of the conversation that a log lies in."""
    if parts[-1] not in _LOGS or len(parts) < 2:
        return _stem(parts)
    return parts[-4] if len(parts) > 3 and parts[-3] == ".system_generated" else parts[-2]


def _pi(parts: list[str]) -> str:
    """Return what stands behind the time in a file's name."""
    name = parts[-1].removesuffix(".jsonl")
    return name.rpartition("_")[2] or name


def _opencode(parts: list[str]) -> str:
    """Return the session in the name of a file of the old tree; a database holds many."""
    return _stem(parts) if parts[-1].endswith(".json") else ""


_NAMES = {
    "claude-code": _claude,
    "codex": _codex,
    "copilot": _copilot,
    "vscode": _copilot,
    "antigravity": _antigravity,
    "pi": _pi,
    "omp": _pi,
    "opencode": _opencode,
}
