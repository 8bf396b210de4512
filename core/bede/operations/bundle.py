"""`bede bundle`: carry events from one machine to another, in one signed file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from bede.answers.tidings import catch_up
from bede.bundles import packing, reading, taking, trust
from bede.bundles.packing import Pick
from bede.config import user_folder
from bede.context import Context
from bede.errors import RepositoryNotFound, UsageError
from bede.identity import timestamp
from bede.operation import Field, operation
from bede.quick import dataclass
from bede.records import Record
from bede.repository import Reading
from bede.repository.union import lookup
from bede.signing import load_or_make

Action = Literal["export", "import", "key"]


@dataclass(frozen=True, slots=True)
class Ref(Record):
    """A ref, its head, and the head before. `outcome` is empty for an export."""

    ref: str
    head: str
    before: str
    outcome: str


@dataclass(frozen=True, slots=True)
class BundleResult(Record):
    """What went into the file or came out of it.

    `outcome` is `exported`, `imported`, `unchanged` (nothing in it was new), or `key`. `key` is whose
    signature it is. `new` events came in, `known` ones were here already; `purged` ones say nothing any more.
    `tracked` are the other machine's refs as they are kept here, `merged` our own.
    """

    SCHEMA: ClassVar[str] = "bundle/1"

    outcome: str
    file: str
    key: str
    peer: str
    project_id: str
    made_at: str
    holds: str
    events: int
    new: int
    known: int
    purged: int
    bytes: int
    prerequisites: tuple[str, ...]
    refs: tuple[Ref, ...]
    tracked: tuple[Ref, ...]
    merged: tuple[Ref, ...]
    dry_run: bool
    warnings: tuple[str, ...]


@operation(effect="host")
def bundle(
    context: Context,
    action: Annotated[Action, Field("What to do")],
    names: Annotated[
        list[str] | None, Field("For export: branches, by default this one; for import: the file", metavar="REF|FILE")
    ] = None,
    *,
    to: Annotated[Path | None, Field("For export: the file to write", metavar="FILE")] = None,
    range_: Annotated[str, Field("For export: what branch B sees and A does not", metavar="A..B")] = "",
    all_: Annotated[bool, Field("For export: every event and every ref")] = False,
    with_secret: Annotated[
        bool, Field("For export: put in the project's secret, readable by whoever has the file")
    ] = False,
    merge: Annotated[bool, Field("For import: merge each branch into ours of the same name")] = False,
    trust: Annotated[str, Field("For import: take bundles of this key, now and later", metavar="KEY")] = "",
    trust_any: Annotated[bool, Field("For import: take it whoever signed it")] = False,
    as_: Annotated[str, Field("For import: what to call the other machine", metavar="NAME")] = "",
    dry_run: Annotated[bool, Field("Only tell what would happen")] = False,
    agent_id: Annotated[str, Field("Who does it")] = "",
) -> BundleResult:
    """Carry events to another machine in one signed file: export writes it, import takes it in, key shows our key.

    An import is a union: all of the file is checked before anything is written, what is here stays as it is, and the
    other machine's branches are kept as `bundles/NAME/BRANCH`. With --merge ours see them too; a decision that both
    sides changed is a conflict, and then nothing is written. Only bundles of trusted keys are taken: the own one, and
    those named once with --trust. `bede init --from FILE` makes a copy of the project on another machine.
    """
    _check_options(action, to=to, range_=range_, all_=all_, with_secret=with_secret, merge=merge, trust=trust,
                   trust_any=trust_any, as_=as_)  # fmt: skip
    given = names or []
    if action == "key":
        return _key(context, given)
    if action == "export":
        return _export(context, given, to, _Wanted(range_, all_), with_secret, dry_run)
    if len(given) != 1:
        raise UsageError("name one file to import")
    return _import(context, context.directory / given[0], _asked(trust, trust_any, as_), merge, dry_run, agent_id)


#: What each option is for; `--dry-run` and `--agent-id` go with any.
_FOR = {
    "export": ("to", "range_", "all_", "with_secret"),
    "import": ("merge", "trust", "trust_any", "as_"),
    "key": (),
}


def _check_options(action: str, **given: Any) -> None:
    """Refuse an option that would do nothing, since whoever typed it expected something."""
    wrong = [name for name, value in given.items() if value and name not in _FOR[action]]
    if wrong:
        flag = "--" + wrong[0].rstrip("_").replace("_", "-")
        raise UsageError(f"{flag} means nothing to 'bede bundle {action}'", hint="see 'bede bundle --help'")


def _asked(key: str, any_: bool, name: str) -> trust.Asked:
    return trust.Asked(key, any_, name)


def _key(context: Context, names: list[str]) -> BundleResult:
    if names:
        raise UsageError("'bede bundle key' takes no name")
    key = load_or_make(user_folder(context.environment, "config"))
    return _result("key", key=key.id)


# Export.


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What to export besides the branches that are named."""

    range: str
    all: bool


def _export(
    context: Context, names: list[str], to: Path | None, wanted: _Wanted, with_secret: bool, dry_run: bool
) -> BundleResult:
    if to is None and not dry_run:
        raise UsageError("tell where to write the bundle", hint="add --to FILE")
    if bool(names) + bool(wanted.range) + wanted.all > 1:
        raise UsageError("name branches, or a --range, or --all")
    path = context.directory / (to or Path())
    if not dry_run:
        catch_up(context.repository, context.actor(), context.moment())
    with context.repository.snapshot() as view:
        pick = _pick(context, view, names, wanted)
        if dry_run:
            count = sum(end - start + 1 for start, end in pick.events)
            return _result("exported", file=str(path) if to else "", holds=pick.holds, events=count, refs=_refs(pick),
                           project_id=view.project()["uuid"], dry_run=True)  # fmt: skip
        key = load_or_make(user_folder(context.environment, "config"))
        packed = packing.pack(view, pick, key, context.now(), path, view.secret() if with_secret else b"")
    told = _header(packed.header)
    warnings = (_SECRET,) if with_secret else ()
    return _result("exported", file=str(path), refs=_refs(pick), purged=packed.purged, bytes=packed.bytes,
                   warnings=warnings, **told)  # fmt: skip


_SECRET = "the file holds the project's secret, not encrypted: with it, guesses at purged texts can be tested"


def _pick(context: Context, view: Reading, names: list[str], wanted: _Wanted) -> Pick:
    if wanted.all:
        return packing.everything(view)
    if wanted.range:
        start, dots, end = wanted.range.partition("..")
        if not (start and dots):
            raise UsageError(f"not a range: {wanted.range!r}", hint="write A..B: what branch B sees and A does not")
        return packing.between(view, start, end or context.branch(view))
    return packing.seen_from(view, names or [context.branch(view)])


def _refs(pick: Pick) -> tuple[Ref, ...]:
    return tuple(Ref(name, place.id, "", "") for name, place in pick.refs.items())


# Import.


class _Rehearsed(Exception):
    """Thrown at the end of a dry run, so that what was done is taken back."""


def _check_project(context: Context, path: Path) -> None:
    """Where there is no project, tell how a bundle makes one: what a plain `init` makes would take none of it."""
    try:
        _ = context.repository
    except RepositoryNotFound as error:
        hint = f"'bede init --from {path}' makes a copy of its project here"
        raise RepositoryNotFound(error.message, hint=hint) from error


def _import(
    context: Context, path: Path, asked: trust.Asked, merge: bool, dry_run: bool, agent: str
) -> BundleResult:
    _check_project(context, path)
    folder = user_folder(context.environment, "config")
    actor, note = context.actor(agent), dict[str, Any]()
    with reading.opened(path) as found:
        peer = trust.admit(folder, found.header.key, asked)
        with context.repository.snapshot() as view:
            taking.check_project(view, found.header)
            connection, root = view.connection, view.place(1).id
            reading.check(found, lambda name: lookup(connection, name) is not None, root)
        taken = taking.Taken(0, 0, 0, (), ())
        try:
            with context.repository.write("bundle", actor, context.now(), note) as writing:
                taken = taking.take_in(found, writing, note, peer, merge)
                if dry_run:
                    raise _Rehearsed
                if asked.key:  # Before it counts: what is told as a failure has changed nothing.
                    trust.remember(folder, found.header.key, peer)
        except _Rehearsed:
            pass
    return _result(
        "imported" if note else "unchanged",
        file=str(path),
        peer=peer,
        new=taken.new,
        known=taken.known,
        purged=taken.purged,
        bytes=path.stat().st_size,
        refs=tuple(Ref(name, head, "", "") for name, head in found.header.refs.items()),
        tracked=_brought(taken.tracked),
        merged=_brought(taken.merged),
        dry_run=dry_run,
        **_header(found.header),
    )


def _brought(refs: tuple[taking.Brought, ...]) -> tuple[Ref, ...]:
    return tuple(Ref(item.ref, item.head, item.before, item.outcome) for item in refs)


def _header(header: Any) -> dict[str, Any]:
    return {
        "key": header.key,
        "project_id": header.project,
        "made_at": timestamp(header.made_at),
        "holds": header.holds,
        "events": header.events,
        "prerequisites": header.prerequisites,
    }


def _result(outcome: str, **told: Any) -> BundleResult:
    empty: dict[str, Any] = {
        **dict.fromkeys(("file", "key", "peer", "project_id", "made_at", "holds"), ""),
        **dict.fromkeys(("events", "new", "known", "purged", "bytes"), 0),
        **dict.fromkeys(("prerequisites", "refs", "tracked", "merged", "warnings"), ()),
        "dry_run": False,
    }
    return BundleResult(outcome=outcome, **{**empty, **told})
