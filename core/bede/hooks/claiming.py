"""Before an edit: claim the files for the session, or refuse with what their holder is about. After it: note and renew.

Both are one short transaction. What may not be known in time is no reason to stop an agent: whoever calls lets an
error pass as "go on".
"""

from __future__ import annotations

import re
from contextlib import suppress

from bede.agents.port import Answer
from bede.errors import Busy, Conflict, Unavailable, UsageError
from bede.leases import claims, clock, door, intents, telling
from bede.leases.holding import Holder, public
from bede.leases.keys import Ground

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bede.agents.port import Call
    from bede.hooks.ground import Project
    from bede.leases.claims import Denial, Grant
    from bede.leases.holding import Lease

#: For how long a hook claims a file, in microseconds. Each edit renews it, and the end of a turn gives it back.
TTL = 15 * 60 * 1_000_000
#: Seconds that a hook waits for another writer.
PATIENCE = 0.6


def before(call: Call, project: Project) -> Answer:
    """Claim what an edit is about to write, all of it or nothing."""
    wanted = _wanted(call, project)
    if not (wanted and call.session):
        return Answer()
    now = clock.now()
    with open_(project) as connection:
        found = claims.acquire(connection, Holder(call.agent, call.session), wanted, TTL, "", now)
    if isinstance(found, claims.Denial):
        return Answer(reason=_refused(found, call, now))
    return Answer(context=_apart(found))


def after(call: Call, project: Project) -> Answer:
    """Note the files as touched, and let the session hold on to them."""
    wanted = _wanted(call, project)
    if not (wanted and call.session):
        return Answer()
    now, holder = clock.now(), Holder(call.agent, call.session)
    with open_(project) as connection:
        for resource, _scope in wanted if not call.failed else ():
            intents.note_touch(connection, call.agent, call.session, resource, now)
        # Where it ran out during the edit, whoever has it now was told by its own claim, and the next edit asks again.
        with suppress(Conflict):
            claims.renew(connection, holder, now, resources=wanted, ttl=TTL)
    return Answer()


def open_(project: Project) -> door.Door:
    """Open the project's file for one transaction, laying what an older Bede did not lay."""
    try:
        return door.open(project.database, PATIENCE)
    except door.Unlaid:
        from contextlib import closing
        from pathlib import Path

        from bede.projections import PROJECTIONS
        from bede.repository import Repository

        with closing(Repository.open(Path(project.database), PROJECTIONS)):
            pass
        return door.open(project.database, PATIENCE)


def _wanted(call: Call, project: Project) -> list[tuple[str, str]]:
    """Return the keys of the files that are the project's; what lies elsewhere is none of its business.

    Nor is a file whose name looks like a secret: it is edited, and nothing of that is written down.
    """
    ground = Ground(project.root, project.folder)
    found: dict[tuple[str, str], None] = {}
    for path in call.paths:
        try:
            resource, scope = ground.wanted(path, project.base)
            found[public(resource), scope] = None
        except UsageError:
            continue
    return list(found)


def is_own(lease: Lease) -> bool:
    """Tell whether the hook claimed it, and nobody took it on purpose."""
    return not lease.purpose and lease.ttl == TTL


def remember(call: Call, project: Project, said: str, now: clock.Now) -> None:
    """Note what a session was asked, and where it is written down; the prompt is redacted already.

    Where that cannot be written, what there is to tell is told all the same.
    """
    from bede.redact import redact

    with suppress(Busy, Unavailable), open_(project) as connection:
        where = {"cwd": redact(call.cwd), "transcript": redact(call.transcript)}
        intents.note_prompt(connection, call.agent, call.session, said, now, **where)


def _refused(denial: Denial, call: Call, now: clock.Now) -> str:
    name = _typed(denial.blocked[0].resource, "PATH")
    # With the session, what is waited for is this session's own, and its next edit goes through.
    own = f"--wait 60s --agent-id {call.agent} --session {_typed(call.session, 'ID')}"
    return (
        f"Bede: {telling.told(denial, now)} This edit was not made. Take other work that does not need this file, and "
        f"come back to it later; 'bede brief {name}' tells more, 'bede lease acquire {name} {own}' waits for it."
    )


def _typed(name: str, instead: str) -> str:
    """Return a name that an agent may type: it must not bring a command of its own along."""
    return name if re.fullmatch(r"[\w./@+][\w./@+-]*", name, re.ASCII) else instead


def _apart(grant: Grant) -> str:
    """Say, with the first claim, who edits the same file in another worktree: the two will meet in a merge."""
    if not (grant.is_new and grant.elsewhere):
        return ""
    said = [f"{telling.plain(one.resource)} by {telling.plain(one.agent, 80)}" for one in grant.elsewhere[:3]]
    return f"Bede: the same file is being edited in another worktree ({'; '.join(said)}). The two will meet in a merge."
