"""`bede exchange`: notices between machines, signed, through a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from bede import signing
from bede.config import user_folder
from bede.context import Context
from bede.errors import BedeError, Busy, Conflict, NotFound, Unavailable, UsageError
from bede.exchange import policy, running
from bede.exchange.policy import Policy
from bede.identity import timestamp
from bede.operation import Field, operation
from bede.places import registered
from bede.projections.notices import steps
from bede.quick import dataclass
from bede.records import Record
from bede.turnstile import held

Action = Literal["init", "trust", "revoke", "run", "status", "audit"]


@dataclass(frozen=True, slots=True)
class PeerView(Record):
    """A pinned peer. `status` is `never`, `fresh` or `stale`; `fault` is why its newest document was refused."""

    peer: str
    key: str
    agents: tuple[str, ...]
    status: str
    sequence: int
    sent_at: str
    received_at: str
    fault: str


@dataclass(frozen=True, slots=True)
class RefusalView(Record):
    """What was not taken in, or not published, and why."""

    peer: str
    reason: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class StepView(Record):
    """One step of the exchange, as the log has it."""

    id: str
    at: str
    agent_id: str
    peer: str
    outcome: str
    reason: str
    sequence: int
    changed: int


@dataclass(frozen=True, slots=True)
class ExchangeResult(Record):
    """Who this machine is in the exchange, how it stands with the others, and what a round did.

    `introduction` is what the others run to pin this machine. `changed` counts notices that came in or were
    cleared, `recovered` those of our own that came back from the folder, `left_out` those without room.
    """

    SCHEMA: ClassVar[str] = "exchange/1"

    action: str
    workspace: str
    peer: str
    key: str
    agents: tuple[str, ...]
    folder: str
    introduction: str
    peers: tuple[PeerView, ...]
    published: bool
    sequence: int
    changed: int
    recovered: int
    left_out: int
    waiting: tuple[str, ...]
    refusals: tuple[RefusalView, ...]
    steps: tuple[StepView, ...]
    warnings: tuple[str, ...]

    @property
    def exits(self) -> int:
        """1 where a document was refused, or ours not published."""
        return 1 if self.refusals else 0


@operation(effect="host", idempotent=True)
def exchange(
    context: Context,
    action: Annotated[Action, Field("What to do")] = "status",
    name: Annotated[str, Field("The peer to pin or to revoke", metavar="PEER")] = "",
    *,
    folder: Annotated[Path | None, Field("init: the folder that the machines share")] = None,
    workspace: Annotated[str, Field("init: the name that all of them give to this work")] = "",
    peer: Annotated[str, Field("init: the name of this machine there")] = "",
    key: Annotated[str, Field("trust: the key that the other machine showed", metavar="ed25519:HEX")] = "",
    agent: Annotated[list[str] | None, Field("Whom a machine speaks for; several times for several")] = None,
    replace: Annotated[bool, Field("trust: in place of the pinned one; run: write over a strange file")] = False,
    recover: Annotated[bool, Field("init: take over the peers of a project that is lost")] = False,
    limit: Annotated[int, Field("audit: how many steps", ge=1, le=1000)] = 50,
    agent_id: Annotated[str, Field("Who does it")] = "",
) -> ExchangeResult:
    """Exchange notices with other machines through a folder that all can reach: signed, and from pinned peers only.

    init names this machine and shows its key; trust pins another's, which its people told you; run publishes and takes
    in once, so let a timer do it; status and audit tell how it stands. See docs/exchange.md.
    """
    actor = context.actor(agent_id)
    if name and action not in ("trust", "revoke"):
        raise UsageError(f"'exchange {action}' takes no {name[:80]!r}", hint="it is about all peers at once")
    if action == "init":
        ours = _init(context, actor, folder, workspace, peer, agent or [], recover)
    elif action in ("trust", "revoke"):
        ours = (
            _pin(context, actor, name, key, agent or [], replace) if action == "trust" else _drop(context, actor, name)
        )
    else:
        ours = _policy(context)
    if action == "run":
        return _result(context, ours, action, _run(context, ours, actor, replace))
    return _result(context, ours, action, running.Outcome(), limit if action == "audit" else 0)


def _settings(context: Context) -> Path:
    return user_folder(context.environment, "config")


def _project(context: Context) -> str:
    with context.repository.snapshot() as reading:
        return str(reading.project()["uuid"])


def _policy(context: Context) -> Policy:
    found = policy.load(context.environment, _project(context))
    if found is None:
        raise NotFound(
            "this project takes part in no exchange",
            hint="run 'bede exchange init --folder DIR --workspace NAME --peer NAME'",
        )
    return found


def _key(context: Context) -> signing.Key:
    found = signing.load(_settings(context))
    if found is None:
        raise Unavailable(
            "this machine's key is gone", hint="put it back, or run 'bede exchange init' again and show the new one"
        )
    return found


def _init(
    context: Context,
    actor: str,
    folder: Path | None,
    workspace: str,
    peer: str,
    authors: Sequence[str],
    recover: bool,
) -> Policy:
    project, key = _project(context), signing.load_or_make(_settings(context))
    known = policy.load(context.environment, project)
    lost = _lost(context, project, workspace, peer, recover)
    before = known or lost
    if folder is None and before is None:
        raise UsageError("which folder?", hint="name the one that the machines share with --folder")
    place = _place(context, folder) if folder else before.folder if before else Path()
    made = Policy(
        project,
        policy.check_workspace(workspace or (before.workspace if before else "")),
        policy.check_peer(peer or (before.peer if before else "")),
        place,
        policy.check_authors(authors or (before.authors if before else [actor])),
        before.peers if before else (),
    )
    if known and (known.workspace, known.peer) != (made.workspace, made.peer):
        raise Conflict(
            f"this project takes part as {known.peer!r} in {known.workspace!r} already",
            hint="what was published cannot be taken back under another name",
            reason="already_there",
        )
    if made != known:
        _save(context, made, actor, made.peer, "began", key.id)
    if lost:
        policy.remove(context.environment, lost)
    return made


def _lost(context: Context, project: str, workspace: str, peer: str, recover: bool) -> Policy | None:
    """Return the policy of a lost project of the same name in the same workspace, if it is to be taken over.

    Raises:
        Conflict: there is one and nobody said so, or it is not lost.
    """
    found = [item for item in policy.others(context.environment, workspace, peer) if item.project != project]
    if not found:
        return None
    for item in found:
        try:
            root = registered(context.environment, item.project).root
        except BedeError:
            continue
        raise Conflict(
            f"{root} takes part as {peer!r} in {workspace!r} already",
            hint="choose another --peer for this one",
            reason="peer_in_use",
        )
    if not recover:
        raise Conflict(
            f"another project took part as {peer!r} in {workspace!r}, and is not there any more",
            hint="if its memory is lost, add --recover to go on with its peers",
            reason="peer_in_use",
        )
    return found[0]


def _place(context: Context, folder: Path) -> Path:
    """Return the folder between the machines.

    Raises:
        Unavailable: it is not there.
        UsageError: what must stay private is in it.
    """
    try:
        place = (context.directory / folder).resolve(strict=True)
    except (OSError, ValueError, RuntimeError) as error:
        raise Unavailable(f"no such folder: {folder}", hint="make it, or mount it, first") from error
    if not str(place).isprintable():
        raise UsageError(f"no folder of such a name can be shared: {str(place)!a}", hint="give it another name")
    if not place.is_dir():
        raise UsageError(f"not a folder: {folder}")
    for private in (context.project.folder, _settings(context)):
        inside = private.resolve()
        if inside.is_relative_to(place) or place.is_relative_to(inside):
            raise UsageError(f"{inside} must not be in what is shared: {place}", hint="share a folder of its own")
    return place


def _save(context: Context, made: Policy, actor: str, about: str, outcome: str, key: str) -> None:
    """Write a policy, and into the log that it changed: both, or neither."""
    with context.repository.write("exchange", actor, context.now()) as writing:
        running.record(writing, made, about, outcome, actor, context.now(), key=key)
        policy.save(context.environment, made)


def _pin(context: Context, actor: str, name: str, key: str, authors: Sequence[str], replacing: bool) -> Policy:
    ours, own = _policy(context), _key(context)
    if not name:
        raise UsageError("which peer?", hint="bede exchange trust PEER --key ed25519:HEX --agent NAME")
    peer = policy.sender(name, key, authors)
    if peer in ours.peers and not replacing:
        return ours
    made = policy.pin(ours, peer, own.id, replacing=replacing)
    _save(context, made, actor, name, "pinned", key)
    return made


def _drop(context: Context, actor: str, name: str) -> Policy:
    ours = _policy(context)
    if not name:
        raise UsageError("which peer?", hint="bede exchange revoke PEER; 'bede exchange status' lists them")
    key = ours.sender(name).key
    made = policy.drop(ours, name)
    _save(context, made, actor, name, "revoked", key)
    return made


def _run(context: Context, ours: Policy, actor: str, replacing: bool) -> running.Outcome:
    key, wait = _key(context), float(context.config["store.wait"])
    with held(context.project.folder / "exchange.lock", wait) as has_turn:
        if not has_turn:
            raise Busy("another process is exchanging just now", hint="try again")
        return running.Round(context.repository, ours, key, actor, context.now()).run(replacing=replacing)


def _result(context: Context, ours: Policy, action: str, outcome: running.Outcome, shown: int = 0) -> ExchangeResult:
    own = signing.load(_settings(context))
    key = own.id if own else ""
    agents = " ".join(f"--agent {name}" for name in ours.authors)
    return ExchangeResult(
        action=action,
        workspace=ours.workspace,
        peer=ours.peer,
        key=key,
        agents=ours.authors,
        folder=str(ours.folder),
        introduction=f"bede exchange trust {ours.peer} --key {key} {agents}" if key else "",
        peers=tuple(_peer(item) for item in running.standings(context.repository, ours, context.now())),
        published=outcome.published,
        sequence=outcome.sequence,
        changed=outcome.changed,
        recovered=outcome.recovered,
        left_out=outcome.left_out,
        waiting=tuple(outcome.waiting),
        refusals=tuple(RefusalView(item.peer, item.reason, item.message, item.hint) for item in outcome.refusals),
        steps=_steps(context, ours, shown) if shown else (),
        warnings=tuple(outcome.warnings),
    )


def _peer(item: running.Standing) -> PeerView:
    known = item.accepted
    return PeerView(
        item.peer.name,
        item.peer.key,
        tuple(sorted(item.peer.authors)),
        item.status,
        known.sequence if known else 0,
        timestamp(known.sent_at) if known else "",
        timestamp(known.at) if known else "",
        item.fault,
    )


def _steps(context: Context, ours: Policy, shown: int) -> tuple[StepView, ...]:
    with context.repository.snapshot() as reading:
        seqs = steps(reading.connection, ours.peer, shown)
        events = reading.load(seqs)
    found = []
    for event in (events[seq] for seq in seqs if seq in events):
        body: dict[str, Any] = event.body or {}
        peer, outcome, reason = (str(body.get(name, "")) for name in ("peer", "outcome", "reason"))
        sequence, changed = (int(body.get(name, 0)) for name in ("sequence", "changed"))
        when = timestamp(event.happened_at)
        found.append(StepView(event.id, when, event.actor, peer, outcome, reason, sequence, changed))
    return tuple(found)
