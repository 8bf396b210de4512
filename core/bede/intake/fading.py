"""Which transcripts their agent will delete soon, though nothing of them was taken in yet.

What may not be looked into is noted in the world that is asked. Claude Code removes what has not changed for
`cleanupPeriodDays` (30 unless its settings say another number). The other agents keep their sessions until a person
deletes them.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from bede.intake import files
from bede.repository import cursors
from bede.sources import source
from bede.sources.port import World

AGENT, DAYS = "claude-code", 30
#: So many days before the end a session is named.
NOTICE = 7
_DAY = 86_400 * 1_000_000_000


def fading(connection: sqlite3.Connection, world: World, now: int) -> tuple[list[Path], int]:
    """Return the transcripts that will be gone within a week and are not taken in, and after how many days they go.

    `now` is in microseconds since 1970 (UTC).
    """
    days = _days(world)
    limit = now * 1000 - (days - NOTICE) * _DAY
    found: list[Path] = []
    for path in source(AGENT).find(world):
        try:
            seen = files.look(path)
        except OSError:
            continue
        if seen["size"] and seen["mtime"] < limit:
            known = cursors.find(connection, path)
            if known is None or (known.mark.get("holder") and not files.is_same(known.mark, seen)):
                found.append(path)
    return found, days


def _days(world: World) -> int:
    folder = Path(world.environment.get("CLAUDE_CONFIG_DIR") or world.home / ".claude")
    try:
        told = json.loads((folder / "settings.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return DAYS
    days = told.get("cleanupPeriodDays") if isinstance(told, dict) else None
    return days if isinstance(days, int) and not isinstance(days, bool) and days > 0 else DAYS
