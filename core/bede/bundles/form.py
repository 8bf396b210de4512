"""The form of a bundle: a line that says what it is, a header, packed events, a signature.

Written out for others in docs/bundles.md. There is one way to spell each part, so that whatever is spelt differently
is refused before its meaning is looked at.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from bede.errors import BadSource, BedeError
from bede.identity import SALT, canonical, check_agent, check_branch, digest, event_id
from bede.repository.log import LARGEST
from bede.repository.refs import COORDINATION
from bede.repository.union import Foreign
from bede.signing import check_name

MAGIC = b"bede bundle "
VERSION = 1
FIRST = MAGIC + b"%d\n" % VERSION
#: Most bytes of a header, and of an event's line: those of the largest payload, and room for its fields.
HEADER, LINE = 64 * 1024 * 1024, LARGEST + 64 * 1024
#: How many times its size a bundle may unpack to, and so many bytes more.
RATIO, SLACK = 1000, 16 * 1024 * 1024
#: Bytes that no event's line can do without.
LEAST = 200
#: Years 1 to 9999, in microseconds since 1970: what a calendar has.
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999

_HEX = re.compile(r"[0-9a-f]{64}")
_KIND = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
_SALT = re.compile(rf"[0-9a-f]{{{SALT * 2}}}")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}(?:/[A-Za-z0-9][A-Za-z0-9._-]{0,99})*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_HOLDS = ("all", "refs", "range")


@dataclass(frozen=True, slots=True)
class Header:
    """What a bundle says of itself: whose it is, who made it, what it holds, and what it needs."""

    project: str
    made_at: int
    key: str
    holds: str
    refs: dict[str, str]
    events: int
    #: Events that have to be there already: parents of what it holds, and heads that it does not hold.
    prerequisites: tuple[str, ...]
    #: Size and SHA-256 of the packed events as they lie in the file, and their size unpacked.
    packed: int
    sha256: str
    plain: int
    #: The project's secret in hex digits, where its owner put it in.
    secret: str = ""

    def line(self) -> bytes:
        """Return the header as it lies in the file."""
        body: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        if not self.secret:
            del body["secret"]
        return canonical(body) + b"\n"


def refuse(reason: str, message: str, hint: str = "get the file anew from who made it") -> BadSource:
    """Return the error for a bundle that is not as it should be."""
    return BadSource(message, hint=hint, reason=reason)


def header_of(line: bytes) -> Header:
    """Read a header.

    Raises:
        BadSource: it is not one, or is spelt in another way than ours.
    """
    said = _object(line, "header")
    try:
        found = Header(**{**said, "prerequisites": tuple(said["prerequisites"])})
        whole = _is_plausible(found) and found.line() == line
    except (TypeError, LookupError, ValueError, AttributeError):
        whole = False
    except BedeError as error:
        raise refuse("bad_header", f"the bundle's header cannot be right: {error.message}") from error
    if not whole:
        raise refuse("bad_header", "the bundle's header is not as Bede writes it")
    return found


def _object(line: bytes, what: str) -> dict[str, Any]:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise refuse(f"bad_{what}", f"a bundle's {what} is not JSON") from error
    if not isinstance(said, dict):
        raise refuse(f"bad_{what}", f"a bundle's {what} is not a JSON object")
    return said


def _is_plausible(header: Header) -> bool:
    """Tell whether each field has the type and shape that it must have; raises where a name is malformed."""
    check_name(header.key)
    numbers = (header.made_at, header.events, header.packed, header.plain)
    if not all(type(number) is int and 0 <= number < 2**63 for number in numbers):
        return False
    for name in header.refs:
        check_ref(name)
    digests = (*header.refs.values(), *header.prerequisites, header.sha256)
    return (
        header.made_at <= _LAST
        and all(_HEX.fullmatch(value) for value in digests)
        and list(header.prerequisites) == sorted(set(header.prerequisites))
        and bool(_UUID.fullmatch(header.project))
        and (header.secret == "" or bool(_HEX.fullmatch(header.secret)))
        and header.holds in _HOLDS
    )


def check_ref(name: str) -> str:
    """Return the name of a ref as one machine may tell it another: a branch, a session's ref, or `coordination`.

    Raises:
        UsageError: it is malformed, or reserved.
    """
    if name == COORDINATION:
        return name
    if name.startswith("sessions/"):
        _, agent, session = (*name.split("/", 2), "", "")[:3]
        if len(name) <= 500 and ".." not in name and _SESSION.fullmatch(session):
            check_agent(agent)
            return name
    return check_branch(name)


def line_of(event: Foreign) -> bytes:
    """Return an event as its line: canonical JSON, its body as the log holds it."""
    before = b'{"actor":' + canonical(event.actor)
    middle = b',"happened_at":%d,"id":"%s","kind":%s' % (
        event.happened_at, event.id.encode(), canonical(event.kind),
    )  # fmt: skip
    parents, source = canonical(event.parents), canonical(event.source)
    if not event.form:
        gone = b',"digest":"%s"' % event.digest.hex().encode()
        after = b',"left":%s,"parents":%s,"source":%s}\n' % (canonical(event.told), parents, source)
        return before + gone + middle + after
    salt = event.salt.hex().encode()
    after = b',"parents":%s,"salt":"%s","source":%s}\n' % (parents, salt, source)
    return b"".join((before, b',"body":', event.form, middle, after))


def event_of(line: bytes, number: int) -> Foreign:
    """Read an event's line and recompute its id from what it says; `number` counts the lines, for the error.

    Raises:
        BadSource: it is malformed, spelt in another way than ours, or not what its id says.
    """
    said = _object(line, "event")
    try:
        found = _foreign(said)
        whole = _is_sound(found) and line_of(found) == line
    except (TypeError, LookupError, ValueError, AttributeError):
        whole = False
    except BedeError as error:
        raise refuse("bad_event", f"event {number} of the bundle cannot be right: {error.message}") from error
    if not whole:
        raise refuse("bad_event", f"event {number} of the bundle is not as Bede writes it")
    named = event_id(found.kind, found.parents, found.actor, found.source, found.happened_at, found.digest)
    if named.hex() != found.id:
        raise refuse("bad_id", f"event {number} of the bundle is not what its id says")
    return found


def again(line: bytes, _number: int) -> Foreign:
    """Read the line of an event that was checked before.

    Raises:
        BadSource: it is another line by now, and not even an event's.
    """
    try:
        return _foreign(json.loads(line))
    except (TypeError, LookupError, ValueError, AttributeError, RecursionError, BedeError) as error:
        raise refuse("bad_hash", "the bundle's events are not those that were signed") from error


def _foreign(said: dict[str, Any]) -> Foreign:
    if "body" not in said:
        payload, salt, form, told = bytes.fromhex(said["digest"]), b"", b"", said["left"]
    else:
        told, form = said["body"], canonical(said["body"])
        salt = bytes.fromhex(said["salt"]) if _SALT.fullmatch(said["salt"]) else b""
        payload = digest(salt, form)
    parents, at = tuple(said["parents"]), said["happened_at"]
    return Foreign(said["id"], said["kind"], parents, said["actor"], said["source"], at, payload, salt, form, told)


def _is_sound(event: Foreign) -> bool:
    """Tell whether each field has the shape that it must have; raises where the actor's name is malformed."""
    check_agent(event.actor)
    return (
        bool(_KIND.fullmatch(event.kind))
        and all(_HEX.fullmatch(name) for name in (event.id, *event.parents))
        and len(set(event.parents)) == len(event.parents) <= 2
        and len(event.source) <= 4096
        and not _CONTROL.search(event.source)
        and type(event.happened_at) is int
        and _FIRST <= event.happened_at <= _LAST
        and isinstance(event.told, dict)
        and len(event.digest) == 32
        and bool(event.salt) == bool(event.form)
    )
