"""`bede init`: give a project its memory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from bede.context import Context
from bede.errors import BedeError, RepositoryNotFound, Unavailable
from bede.operation import Field, operation
from bede.places import DATABASE, FOLDER, Project, find_project, home_of
from bede.projections import PROJECTIONS
from bede.records import Record
from bede.repository import Repository, registry


@dataclass(frozen=True, slots=True)
class InitResult(Record):
    """Where the memory lies, and whether this call made it."""

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
) -> InitResult:
    """Give this project its memory.

    Makes `.bede/` in the root of the git checkout (else in this folder), readable by its owner alone and ignored by git
    through a file of its own, gives the project an identity, and registers it for `--project`. A linked
    worktree shares the main checkout's memory. Safe to repeat: the second time says `unchanged`.
    """
    project, made = _find_or_make(context, here)
    _seal(project.folder)
    repository = Repository.open(project.database, PROJECTIONS)
    try:
        with repository.snapshot() as reading:
            uuid, branch = reading.project()["uuid"], reading.current(project.worktree)
    finally:
        repository.close()
    new, warning = _register(context, uuid, project.root)
    return InitResult(
        outcome="created" if made else "unchanged",
        project_id=uuid,
        name=project.root.name,
        root=str(project.root),
        database=str(project.database),
        branch=branch,
        registered=new,
        warning=warning,
    )


def _find_or_make(context: Context, here: bool) -> tuple[Project, bool]:
    try:
        found = find_project(context.directory, context.environment)
        if not here or found.root == context.directory.resolve():
            return found, False
    except RepositoryNotFound:
        if not context.directory.is_dir():
            raise
    project = _place(context, here)
    try:
        project.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        project.folder.chmod(0o700)
        _seal(project.folder)
    except OSError as error:
        raise Unavailable(f"cannot make {project.folder}: {error.strerror}", hint="check the permissions") from error
    if project.database.exists():
        return project, False
    Repository.create(project.database, PROJECTIONS, actor=context.actor(), at=context.now()).close()
    return project, True


def _place(context: Context, here: bool) -> Project:
    if override := context.environment.get("BEDE_DIR"):
        folder = Path(override).absolute()
        return Project(folder.parent, folder)
    directory = context.directory.resolve()
    root, worktree = (directory, "") if here else home_of(directory)
    return Project(root, root / FOLDER, worktree)


def _seal(folder: Path) -> None:
    """Let the folder ignore itself, so that no file of the user's is touched."""
    ignore = folder / ".gitignore"
    if not ignore.exists():
        handle = os.open(ignore, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write("*\n")
    for path in (folder / DATABASE, ignore):
        if path.exists():
            path.chmod(0o600)


def _register(context: Context, uuid: str, root: Path) -> tuple[bool, str]:
    """Register the project; a registry that cannot be written is a warning, since the memory works without it."""
    try:
        return registry.note(context.environment, uuid, root, context.now()), ""
    except BedeError as error:
        return False, error.message
