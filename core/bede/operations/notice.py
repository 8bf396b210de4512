"""`bede notice`: tell everybody on this project, on whatever branch, and whoever gets the file."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from bede.context import Context
from bede.errors import BadSource, Conflict, Rejected, Unavailable, UsageError
from bede.exchange import board, document, folder, policy
from bede.exchange.running import ranked
from bede.identity import canonical, counted, timestamp
from bede.operation import Field, operation
from bede.projections.notices import Notice, Posted, brought, by_ids, posted
from bede.quick import dataclass, replace
from bede.records import Record
from bede.redact import redact
from bede.repository import Reading

Action = Literal["post", "clear", "list", "export", "import"]
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
#: Tokens of a list's frame: all of an answer but its notices.
_FRAME = 60
#: How every export begins.
_START = b'{"notices":['


@dataclass(frozen=True, slots=True)
class NoticeView(Record):
    """One notice. `stale` has expired: ask its author; `peer` is the machine it came from, `trusted` whether that is
    pinned now. What came in a bundle or an unsigned file has no peer, and is not trusted. `event` is told of one that
    was posted, and with --all: `purge` takes it."""

    SPARSE = True

    id: str
    status: str
    resource: str
    author: str
    message: str
    created_at: str
    expires_at: str
    cleared_at: str = ""
    peer: str = ""
    trusted: bool | None = None
    event: str = ""


@dataclass(frozen=True, slots=True)
class NoticeResult(Record):
    """The notices that were posted, cleared or listed, what holds first, the newest first.

    `changed` counts those that are not as they were, `left_out` those that found no room, with their tokens.
    """

    SCHEMA: ClassVar[str] = "notice/1"

    action: str
    notices: tuple[NoticeView, ...]
    changed: int
    left_out: dict[str, int]
    document: dict[str, Any] | None
    written: str
    warnings: tuple[str, ...]


@operation(effect="append", toolset="coordination")
def notice(
    context: Context,
    action: Annotated[Action, Field("What to do")] = "list",
    items: Annotated[
        list[str] | None, Field("Ids to clear or export; to import: a file, -, or the document itself", metavar="ITEM")
    ] = None,
    *,
    resource: Annotated[str, Field("What it is about, kind:name, as in service:auth")] = "",
    message: Annotated[str, Field("What to tell, at most 4096 characters")] = "",
    ttl: Annotated[str, Field("How long it holds, 1s to 7d", metavar="AGE")] = "1h",
    all_: Annotated[bool, Field("List cleared ones too")] = False,
    budget: Annotated[int, Field("Most tokens of a list", ge=200, le=32_768)] = 4000,
    to: Annotated[Path | None, Field("Write the exported document to this file", cli_only=True)] = None,
    agent_id: Annotated[str, Field("Who does it")] = "",
) -> NoticeResult:
    """Tell everybody what you are about to do, and see what others do: on every branch, until you clear it.

    A notice is advice and locks nothing. Past its time it is stale: ask its author, who alone clears it. export
    and import carry notices between machines as memkernel.notices/v1; clearing wins, whatever arrives first.
    """
    if items and action in ("post", "list"):
        hint = "write it as --message TEXT" if action == "post" else "--resource KIND:NAME lists those about one thing"
        raise UsageError(f"'notice {action}' takes no {items[0][:80]!r}", hint=hint)
    if action == "post":
        return _post(context, context.actor(agent_id), resource, message, _lasting(ttl))
    if action == "clear":
        return _clear(context, context.actor(agent_id), items or [])
    if action == "import":
        return _import(context, context.actor(agent_id), items or [])
    if action == "export":
        return _export(context, items or [], resource, to)
    return _list(context, resource, all_, budget)


def _lasting(text: str) -> int:
    """Return an age in microseconds.

    Raises:
        UsageError: it is none, or not from a second to seven days.
    """
    found = re.fullmatch(r"([1-9]\d{0,6})([smhdw])", text.strip(), re.ASCII)
    lasting = int(found[1]) * _UNITS[found[2]] * 1_000_000 if found else 0
    if not document.SHORTEST <= lasting <= document.LASTING:
        raise UsageError(f"--ttl cannot be {text[:40]!r}", hint="from 1s to 7d, such as 30m or 2h")
    return lasting


def _post(context: Context, actor: str, resource: str, message: str, lasting: int) -> NoticeResult:
    if not resource:
        raise UsageError("tell what the notice is about", hint="--resource service:auth, or repo:src/login.py")
    said = redact(message)
    board.check(actor, resource, said)
    now, warnings = context.now(), []
    with context.repository.write("notice", actor, now) as writing:
        identity = str(uuid.uuid4())
        ours = policy.load(context.environment, writing.project()["uuid"])
        if ours and actor in ours.authors:
            identity = f"{ours.peer}:{identity}"
        elif ours:
            known = f"this machine's exchange speaks for {', '.join(ours.authors)}; --agent-id tells who acts"
            warnings.append(f"{actor} is not among the authors of the exchange, so that the notice stays here: {known}")
        found = Notice(identity, actor, resource, said, now, now + lasting)
        view = replace(_view(found, "", None, now), event=board.post(writing, found))
    if said != message:
        warnings.append("what looked like a secret was taken out of the message")
    return NoticeResult("post", (view,), 1, {}, None, "", tuple(warnings))


def _clear(context: Context, actor: str, names: Sequence[str]) -> NoticeResult:
    if not names:
        raise UsageError("which notice?", hint="name its id: 'bede notice list' shows ids")
    now, changed = context.now(), 0
    with context.repository.write("notice", actor, now) as writing:
        ours = policy.load(context.environment, writing.project()["uuid"])
        found = list(dict.fromkeys(board.find(writing, name) for name in names))
        for item in found:
            _check_own(item, actor, ours)
            changed += board.clear(writing, item, actor, now)
        cleared = by_ids(writing.connection, [item.id for item in found])
        views = _views(writing, [cleared[item.id] for item in found], ours, now)
    return NoticeResult("clear", tuple(views), changed, {}, None, "", ())


def _check_own(item: Posted, actor: str, ours: policy.Policy | None) -> None:
    """Refuse to clear what somebody else has to clear.

    Raises:
        Rejected: with the reason `not_author` or `other_machine`.
    """
    if item.author != actor:
        raise Rejected(
            f"notice {item.id} is {item.author}'s, not {actor}'s",
            hint=f"ask {item.author}; who acts is told by --agent-id or BEDE_AGENT_ID",
            reason="not_author",
        )
    origin = item.id.rpartition(":")[0]
    if ours and origin and origin != ours.peer:
        raise Rejected(
            f"notice {item.id} was posted on {origin}: only there can it be cleared for all",
            hint=f"run 'bede notice clear' on {origin}; the exchange brings it here",
            reason="other_machine",
        )


def _import(context: Context, actor: str, items: Sequence[str]) -> NoticeResult:
    if len(items) != 1:
        raise UsageError("one document is imported at a time", hint="name a file, or - for standard input")
    found, now = document.read(_bytes(context, items[0])), context.now()
    with context.repository.write("notice", actor, now) as writing:
        if policy.load(context.environment, writing.project()["uuid"]):
            raise Conflict(
                "notices travel signed here, and nobody signed this document: nothing was taken in",
                hint="'bede exchange run' takes in what pinned peers signed; 'bede exchange trust' pins one",
                reason="signed_only",
            )
        taken = board.merge(writing, found, actor, now)
    return NoticeResult("import", (), taken.changed, {}, None, "", ())


def _bytes(context: Context, item: str) -> bytes:
    if item.lstrip().startswith("{"):
        return item.encode("utf-8", "surrogatepass")
    if item == "-":
        if context.stdin is None:
            raise UsageError("there is no standard input to read", hint="name a file")
        return context.stdin.read(document.LARGEST + 1)
    data = folder.read(context.directory / item, document.LARGEST, follow=True)
    if data is None:
        raise UsageError(f"no such file: {item[:200]!r}", hint="name a document that 'notice export' wrote")
    return data


def _export(context: Context, names: Sequence[str], resource: str, to: Path | None) -> NoticeResult:
    now, warnings = context.now(), []
    with context.repository.snapshot() as reading:
        if names:
            listed = list({item.id: item for item in (board.find(reading, name) for name in names)}.values())
        else:
            listed = posted(reading.connection, resource=resource, cleared=True)
        kept = ranked([item for item in listed if not item.mark], now)
        made, missing = document.export(board.whole(reading, kept))
    if altered := len(listed) - len(kept):
        warnings.append(
            f"{counted(altered, 'notice')} left out: a secret was taken out here, which others would refuse"
        )
    if missing:
        warnings.append(f"{counted(missing, 'notice')} found no room: export the rest by --resource, or by their ids")
    written = ""
    if to is not None:
        path = context.directory / to
        _check_target(path)
        folder.write(path, canonical(made) + b"\n")
        written = str(path)
    left = {"count": altered + missing} if altered + missing else {}
    return NoticeResult("export", (), 0, left, None if to else made, written, tuple(warnings))


def _check_target(path: Path) -> None:
    """Let nothing be written over but an earlier export.

    Raises:
        Conflict: something else lies there.
    """
    try:
        start = folder.beginning(path, len(_START), follow=True)
    except BadSource as error:
        raise Conflict(f"cannot write there: {error.message}", hint="name a file of its own with --to") from error
    if start not in (None, b"", _START):
        raise Conflict(f"{path} is there already, and is no export", hint="move it away, or write to another file")


def _list(context: Context, resource: str, all_: bool, budget: int) -> NoticeResult:
    from bede.engines import tokens

    now, warnings = context.now(), []
    with context.repository.snapshot() as reading:
        ours = None
        try:
            ours = policy.load(context.environment, reading.project()["uuid"])
        except Unavailable as error:  # Whom to trust is unknown then; what was told is not.
            warnings.append(error.message)
        listed = ranked(posted(reading.connection, resource=resource, cleared=all_), now)
        views = _views(reading, listed, ours, now)
        if all_:
            events = reading.load([item.seq for item in listed])
            told = {item.id: events[item.seq].id for item in listed if item.seq in events}
            views = [replace(view, event=told.get(view.id, "")) for view in views]
    costs = [tokens.count(json.dumps(view.to_json(), ensure_ascii=False)) + 2 for view in views]
    kept, left = 0, budget - _FRAME
    while kept < len(views) and costs[kept] <= left:
        left -= costs[kept]
        kept += 1
    missing = {"count": len(views) - kept, "tokens": sum(costs[kept:])} if kept < len(views) else {}
    return NoticeResult("list", tuple(views[:kept]), 0, missing, None, "", tuple(warnings))


def _views(reading: Reading, items: Sequence[Posted], ours: policy.Policy | None, now: int) -> list[NoticeView]:
    pinned = {peer.name for peer in ours.peers} | {ours.peer} if ours else set()
    peers, apart = {item.id: item.peer for item in items}, brought(reading.connection, items)
    trusted = {name: peer in pinned if peer else False if name in apart else None for name, peer in peers.items()}
    return [_view(item, peers[item.id], trusted[item.id], now) for item in board.whole(reading, items)]


def _view(item: Notice, peer: str, trusted: bool | None, now: int) -> NoticeView:
    view = NoticeView(
        item.id,
        item.status(now),
        item.resource,
        item.author,
        item.message,
        timestamp(item.created_at),
        timestamp(item.expires_at),
        peer=peer,
        trusted=trusted,
    )
    return view if item.cleared_at is None else replace(view, cleared_at=timestamp(item.cleared_at))
