"""`bede init`: give a project its memory."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated, ClassVar

from bede.bundles.trust import Asked
from bede.config import user_folder
from bede.context import Context
from bede.errors import BedeError, Conflict, RepositoryNotFound, Unavailable, UsageError
from bede.operation import Field, operation
from bede.places import DATABASE, FOLDER, Project, find_project, home_of
from bede.projections import PROJECTIONS
from bede.quick import dataclass
from bede.records import Record
from bede.repository import Repository, registry


@dataclass(frozen=True, slots=True)
class InitResult(Record):
    """Where the memory lies, whether this call made it, and whether --project finds it by its name."""

    SCHEMA: ClassVar[str] = "init/1"

    outcome: str
    project_id: str
    name: str
    root: str
    database: str
    branch: str
    registered: bool
    warning: str


@operation(effect="host", idempotent=True)
def init(
    context: Context,
    *,
    here: Annotated[bool, Field("Make the project in this very folder, not in the root of its git checkout")] = False,
    from_: Annotated[
        Path | None, Field("Make a copy of the project that this bundle holds", metavar="FILE", cli_only=True)
    ] = None,
    trust: Annotated[str, Field("With --from: take bundles of this key, now and later", metavar="KEY")] = "",
    trust_any: Annotated[bool, Field("With --from: take it whoever signed it")] = False,
) -> InitResult:
    """Give this project its memory.

    Makes `.bede/` in the root of the git checkout (else in this folder), readable by its owner alone and ignored by git
    through a file of its own, gives the project an identity, and registers it for `--project`. A linked
    worktree shares the main checkout's memory. Safe to repeat: the second time says `unchanged`. With --from it
    makes another machine's project here, from what `bede bundle export` wrote there. A project is called as its folder
    is; --project names one that is registered already, and makes none.
    """
    context.check()
    if context.is_named and (here or from_ is not None):
        raise UsageError("--project names a project that is there; --here and --from make one", hint="leave out either")
    if from_ is not None:
        project, made = _copy(context, here, context.directory / from_, Asked(trust, trust_any)), True
    elif trust or trust_any:
        raise UsageError("--trust and --trust-any mean nothing without --from")
    else:
        project, made = _find_or_make(context, here)
    repository = Repository.open(project.database, PROJECTIONS)
    try:
        with repository.snapshot() as reading:
            uuid, branch = reading.project()["uuid"], reading.current(project.worktree)
    finally:
        repository.close()
    registered, warning = _register(context, uuid, project.root, project.folder)
    return InitResult(
        outcome="created" if made else "unchanged",
        project_id=uuid,
        name=project.root.name,
        root=str(project.root),
        database=str(project.database),
        branch=branch,
        registered=registered,
        warning=warning,
    )


def _find_or_make(context: Context, here: bool) -> tuple[Project, bool]:
    try:
        # Asked anew, not of the context, which would take the project around for the one that is made in it.
        found = context.project if context.is_named else find_project(context.directory, context.environment)
        if not here or found.root == context.directory.resolve():
            _prepare(found.folder)
            return found, False
    except RepositoryNotFound:
        if not context.directory.is_dir():
            raise
    project = _place(context, here)
    _prepare(project.folder)
    try:
        Repository.create(project.database, PROJECTIONS, actor=context.actor(), at=context.now()).close()
    except Conflict:  # There is one already, or another process was faster.
        return project, False
    return project, True


def _copy(context: Context, here: bool, path: Path, asked: Asked) -> Project:
    """Make another machine's project here from its bundle; nothing is made before all of that was checked."""
    from bede.bundles import reading, taking, trust  # Almost nobody who begins a project has a bundle.

    project, folder = _place(context, here), user_folder(context.environment, "config")
    if project.database.exists():
        raise Conflict(f"there is a project already: {project.root}", hint="'bede bundle import FILE' adds to it")
    with reading.opened(path) as bundle:
        peer = trust.admit(folder, bundle.header.key, asked)
        fill = taking.copy_of(bundle, peer, context.actor(), context.now())
        reading.check(bundle, lambda _name: False, "")
        if asked.key:  # Before it counts: what is told as a failure has made no project.
            trust.remember(folder, bundle.header.key, peer)
        _prepare(project.folder)
        Repository.create(project.database, PROJECTIONS, actor="", at=0, fill=fill).close()
    return project


def _place(context: Context, here: bool) -> Project:
    if override := context.environment.get("BEDE_DIR"):
        folder = Path(override).absolute()
        return Project(folder.parent, folder)
    directory = context.directory.resolve()
    root, worktree = (directory, "") if here else home_of(directory)
    return Project(root, root / FOLDER, worktree)


def _prepare(folder: Path) -> None:
    """Make the folder and let it ignore itself, so that no file of the user's is touched; nobody else may look in."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _restrict(folder, 0o700)
        ignore = folder / ".gitignore"
        with suppress(FileExistsError):
            handle = os.open(ignore, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write("*\n")
        for path in (folder / DATABASE, ignore):
            _restrict(path, 0o600)
    except FileExistsError as error:
        raise Unavailable(f"cannot make {folder}: there is a file of that name", hint="move it away") from error
    except OSError as error:
        raise Unavailable(f"cannot make {folder}: {error.strerror}", hint="check the permissions") from error


def _restrict(path: Path, mode: int) -> None:
    """Give a path its mode; where it is right already nothing is touched, so that a read-only disk will do."""
    with suppress(FileNotFoundError):
        if path.stat().st_mode & 0o777 != mode:
            path.chmod(mode)


def _register(context: Context, uuid: str, root: Path, folder: Path) -> tuple[bool, str]:
    """Register the project, and tell whether it is; why not is a warning, since the memory works without it."""
    if folder != root / FOLDER:
        return False, f"not registered, since {folder} is not {root / FOLDER}: name it with BEDE_DIR"
    try:
        registry.note(context.environment, uuid, root, context.now())
    except BedeError as error:
        return False, error.message
    return True, ""
