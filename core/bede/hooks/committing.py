"""After a git commit: which files went into it, and whose sessions had changed them.

An event of the kind `commit` on the ref `coordination`, once for each commit however often git tells of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path

from bede import checkouts
from bede.answers.tidings import settle
from bede.context import Context
from bede.errors import UsageError
from bede.identity import canonical
from bede.leases import intents
from bede.leases.clock import DAY
from bede.leases.keys import Ground
from bede.records import Draft
from bede.redact import redact_value
from bede.repository.refs import COORDINATION

KIND = "commit"
#: How far back a session's edits count for a commit, in microseconds; sessions that one names.
_BACK, _SESSIONS = 7 * DAY, 20


def committed(directory: Path, environment: Mapping[str, str]) -> bool:
    """Write down the newest commit of the checkout around a folder; tell whether it was new.

    Raises:
        BedeError: there is no project, or its store cannot be used.
    """
    commit = checkouts.newest(directory)
    if commit is None:
        return False
    with closing(Context(directory=directory, environment=environment)) as context:
        ground, now = Ground(str(context.project.root), str(context.project.folder)), context.moment()
        with context.repository.write(KIND, context.actor(), now.wall) as writing:
            touched = intents.touchers(writing.connection, _keys(ground, directory, commit.files), now.wall - _BACK)
            settle(writing, now)
            body = {
                "commit": commit.hash,
                "parents": list(commit.parents),
                "author": commit.author,
                "branch": commit.branch,
                "files": list(commit.files),
                "more": commit.more,
                "sessions": [{"agent": agent, "session": session} for agent, session in touched[:_SESSIONS]],
                "summary": f"commit {commit.hash[:12]}: {commit.subject}",
            }
            said = redact_value({name: value for name, value in body.items() if value})
            source = canonical(["git", commit.hash]).decode()
            return bool(writing.append(COORDINATION, [Draft(KIND, said, context.actor(), now.wall, source)]))


def _keys(ground: Ground, directory: Path, files: tuple[str, ...]) -> list[str]:
    top = next((str(folder) for folder in (directory, *directory.parents) if (folder / ".git").exists()), "")
    keys = []
    for name in files:
        with suppress(UsageError):
            keys.append(ground.key(name, top))
    return keys
