"""What became of leases, told in the log: the rows of the outbox become events of `coordination`.

The hook leaves rows, since it has no time for more; the next verb settles them. Never loses one: a row goes in the
transaction that appends its event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bede.errors import UsageError
from bede.identity import check_agent
from bede.leases import intents, outbox
from bede.records import Draft
from bede.redact import redact, redact_value
from bede.repository import Repository, Writing
from bede.repository.refs import COORDINATION

if TYPE_CHECKING:
    from bede.leases.clock import Now

#: Whose event it is where the name is none that an event can have.
_NOBODY = "unknown"


def settle(writing: Writing, now: Now) -> int:
    """Append an event for everything that may be told by now, and return how many there were."""
    drafts = [
        Draft(told["kind"], _clean(told["body"]), _actor(told["agent"]), told["at"])
        for told in outbox.drafts(writing.connection, now)
    ]
    if drafts:
        writing.append(COORDINATION, drafts)
        intents.forget(writing.connection, now)
    return len(drafts)


def catch_up(repository: Repository, actor: str, now: Now) -> int:
    """Settle what waits, in an operation of its own where there is something; return how many events that were.

    For what hands on what happened, such as an export, or comes by at the end of an agent's turn, as `ingest` does.
    Does nothing where nothing may be written.
    """
    if repository.read_only or repository.connection.refusal:
        return 0
    with repository.snapshot() as reading:
        if not outbox.is_due(reading.connection, now):
            return 0
    with repository.write("lease", actor, now.wall) as writing:
        return settle(writing, now)


def _clean(body: dict[str, Any]) -> dict[str, Any]:
    """Return a body without secrets. Who filled the outbox took them out of texts; a path may still hold one."""
    texts = "\n".join([*body["resources"], *(text for text in body.values() if isinstance(text, str))])
    if redact(texts) == texts:
        return body
    found: dict[str, Any] = redact_value(body)
    return found


def _actor(name: str) -> str:
    try:
        return check_agent(name)
    except UsageError:
        return _NOBODY
