"""What a refused agent is told, in the words of one short paragraph: whose file it is, what for, since and until when.

Stored texts are data: each stands on one line, between quotation marks, without a character that acts on a screen, and
cut to a length.
"""

from __future__ import annotations

import re

from bede.leases.clock import Now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bede.leases.claims import Blocked, Denial

#: Characters told of a prompt or a purpose, and files told of those touched.
_LONGEST, _FILES, _TOLD = 240, 5, 5
_UNSAFE = "[\x00-\x20\x7f-\xa0\u2028\u2029\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]+"


def told(denial: Denial, now: Now) -> str:
    """Return a refusal as a paragraph a resource; of many resources the first few."""
    said = [_one(fact, now) for fact in denial.blocked[:_TOLD]]
    if len(denial.blocked) > _TOLD:
        said.append(f"And {len(denial.blocked) - _TOLD} more.")
    return " ".join(said)


def _one(fact: Blocked, now: Now) -> str:
    session = f" (session {plain(fact.session, 40)})" if fact.session else ""
    who = f"{plain(fact.agent, 80)}{session}"
    if fact.lease is None:
        return f"{plain(fact.resource)} is free, but {who} is next in a queue of {fact.queue}."
    is_same = fact.lease.resource == fact.resource
    held = "is held" if is_same else f"overlaps {plain(fact.lease.resource)}, held"
    parts = [f"{plain(fact.resource)} {held} by {who}"]
    parts.append(f"taken {age(now.wall - fact.since)} ago, for {remaining(fact.until - now.wall)} more")
    if fact.queue:
        parts.append(f"{fact.queue} waiting")
    text = ", ".join(parts) + "."
    if fact.purpose:
        text += f' Purpose: "{plain(fact.purpose)}".'
    if fact.prompt:
        text += f' What they were last asked ({age(now.wall - fact.prompted)} ago): "{plain(fact.prompt)}".'
    if fact.touched:
        text += f" Touched so far: {', '.join(plain(path, 120) for path in fact.touched[:_FILES])}."
    return text


def plain(text: str, longest: int = _LONGEST) -> str:
    """Return a stored text on one line, harmless and not too long; it cannot end the quotation it stands in."""
    line = re.sub(_UNSAFE, " ", text).strip().replace('"', "'")
    return line if len(line) <= longest else line[: longest - 1] + "…"


def age(microseconds: int) -> str:
    """Return a length of time as a person says it."""
    seconds = max(microseconds, 0) // 1_000_000
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {name}"
    return f"{seconds} s"


def second(moment: int) -> int:
    """Return when a lease ends as it is told: the clocks it is reckoned from are never read at quite the same time."""
    return (moment + 500_000) // 1_000_000 * 1_000_000


def remaining(microseconds: int) -> str:
    """Return what is left of a time, to the nearest unit: a quarter of an hour that has just begun is 15 min."""
    size = next((size for size in (86400, 3600, 60) if microseconds >= size * 1_000_000), 0)
    return age(microseconds + size * 500_000)
