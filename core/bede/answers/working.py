"""Who works on what right now: the leases of this moment, one entry a session, and each as one line."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence

from bede.answers.brief import Section, safe
from bede.identity import timestamp
from bede.leases import holding, intents
from bede.leases.clock import Now
from bede.leases.holding import Lease
from bede.leases.telling import remaining, second
from bede.quick import dataclass
from bede.records import Record

#: Files named of one session in its line, and in its entry; characters of what it was asked; sessions told of at once.
_FILES, _LISTED, _ASKED, _TOLD = 4, 20, 160, 24


@dataclass(frozen=True, slots=True)
class Work(Record):
    """What one session holds, until when, what for, and what it was last asked; of many files the first, and how many
    more. `elsewhere`: in another worktree."""

    SPARSE = True

    agent_id: str
    session: str
    files: tuple[str, ...]
    until: str
    seconds_left: int
    purpose: str = ""
    prompt: str = ""
    asked_at: str = ""
    elsewhere: bool | None = None
    more_files: int | None = None

    def line(self) -> str:
        """Return it as one line: which files, for how long still, and what about."""
        names = [safe(name) for name in self.files[:_FILES]]
        missing = len(self.files) + (self.more_files or 0) - len(names)
        more = f" and {missing} more" if missing else ""
        text = f"- {who(self.agent_id, self.session)} edits {', '.join(names)}{more}"
        text += f", for {remaining(self.seconds_left * 1_000_000)} more"
        if self.purpose:
            text += f"; purpose: {quoted(self.purpose, _ASKED)}"
        if self.prompt:
            text += f'; asked {self.asked_at[11:16]}: "{quoted(self.prompt, _ASKED)}"'
        return text + (", in another worktree" if self.elsewhere else "")


def working(connection: sqlite3.Connection, now: Now, but: tuple[str, str] = ("", "")) -> list[Work]:
    """Return an entry for each session that holds something, the latest first; `but` is left out."""
    if not holding.is_laid(connection):
        return []  # An older Bede made the file, and nobody has written to it since.
    held = [lease for lease in holding.live(connection, now) if (lease.agent, lease.session) != but]
    return sorted_by_session(connection, held, now)


def at_work(connection: sqlite3.Connection, now: Now, asker: Callable[[], tuple[str, str]]) -> Section:
    """Return who holds what as lines, a session each: the others first, the latest of them first, and the asker last.

    Who asks is only looked up where somebody holds something.
    """
    sessions = _sessions(holding.live(connection, now)) if holding.is_laid(connection) else {}
    own = asker() if sessions else ("", "")
    named = sorted(sessions, key=lambda name: name == own)
    lines = [
        _work(connection, *name, sessions[name], now, False).line() + (", your own" if name == own else "")
        for name in named[:_TOLD]
    ]
    return Section("At work now", lines, len(named))


def sorted_by_session(
    connection: sqlite3.Connection, leases: Iterable[Lease], now: Now, *, elsewhere: bool = False
) -> list[Work]:
    """Return leases by session, the one that took something last first."""
    return [_work(connection, *name, held, now, elsewhere) for name, held in _sessions(leases).items()]


def _sessions(leases: Iterable[Lease]) -> dict[tuple[str, str], list[Lease]]:
    sessions: dict[tuple[str, str], list[Lease]] = {}
    for lease in leases:
        sessions.setdefault((lease.agent, lease.session), []).append(lease)
    return dict(sorted(sessions.items(), key=lambda item: -max(lease.since for lease in item[1])))


def _work(
    connection: sqlite3.Connection, agent: str, session: str, leases: Sequence[Lease], now: Now, elsewhere: bool
) -> Work:
    left = max(lease.left(now) for lease in leases)
    prompt, asked = intents.prompt_of(connection, agent, session)
    return Work(
        agent,
        session,
        tuple(lease.resource for lease in leases[:_LISTED]),
        timestamp(second(now.wall + left)),
        left // 1_000_000,
        next((lease.purpose for lease in leases if lease.purpose), ""),
        prompt,
        timestamp(asked) if prompt else "",
        elsewhere or None,
        max(0, len(leases) - _LISTED) or None,
    )


def who(agent: str, session: str) -> str:
    """Return an agent in its session as a line names it."""
    return safe(agent) + (f" (session {safe(session)[:12]})" if session else "")


def quoted(text: str, most: int) -> str:
    """Return a stored text that can stand between quotation marks, not longer than it may be."""
    return cut(safe(text).replace('"', "'"), most)


def cut(text: str, most: int) -> str:
    """Return a text that is not longer than it may be, and shows where it was."""
    return text if len(text) <= most else text[: most - 1] + "…"
