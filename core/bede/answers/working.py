"""Who works on what right now: the leases of this moment as dated, attributed lines, one a session."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from bede.answers.brief import safe
from bede.leases import holding, intents
from bede.leases.clock import Now
from bede.leases.holding import Lease
from bede.leases.telling import age

#: Files named of one session, and characters of what it was asked.
_FILES, _ASKED = 4, 160


def working(connection: sqlite3.Connection, now: Now, but: tuple[str, str] = ("", "")) -> list[str]:
    """Return a line for each session that holds something, the latest first; `but` is left out."""
    if not holding.is_laid(connection):
        return []  # An older Bede made the file, and nobody has written to it since.
    sessions: dict[tuple[str, str], list[Lease]] = {}
    for lease in holding.live(connection, now):
        if (lease.agent, lease.session) != but:
            sessions.setdefault((lease.agent, lease.session), []).append(lease)
    latest = sorted(sessions, key=lambda who: -max(lease.since for lease in sessions[who]))
    return [line(connection, *who, sessions[who], now) for who in latest]


def line(connection: sqlite3.Connection, agent: str, session: str, leases: Sequence[Lease], now: Now) -> str:
    """Return one session's line: which files, for how long still, and what it was last asked."""
    names = [safe(lease.resource) for lease in leases[:_FILES]]
    more = f" and {len(leases) - _FILES} more" if len(leases) > _FILES else ""
    left = age(max(lease.left(now) for lease in leases))
    who = safe(agent) + (f" (session {safe(session)[:12]})" if session else "")
    text = f"- {who} edits {', '.join(names)}{more}, for {left} more"
    purpose = next((lease.purpose for lease in leases if lease.purpose), "")
    prompt, asked = intents.prompt_of(connection, agent, session)
    if purpose:
        text += f"; purpose: {quoted(purpose, _ASKED)}"
    if prompt:
        text += f'; asked {age(now.wall - asked)} ago: "{quoted(prompt, _ASKED)}"'
    return text


def quoted(text: str, most: int) -> str:
    """Return a stored text that can stand between quotation marks, not longer than it may be."""
    return cut(safe(text).replace('"', "'"), most)


def cut(text: str, most: int) -> str:
    """Return a text that is not longer than it may be, and shows where it was."""
    return text if len(text) <= most else text[: most - 1] + "…"
