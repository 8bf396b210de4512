"""`bede projects`: which projects this user has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, ClassVar

from bede.context import Context
from bede.errors import NotFound
from bede.identity import timestamp
from bede.operation import Field, operation
from bede.places import DATABASE, FOLDER
from bede.quick import dataclass
from bede.records import Record
from bede.repository import registry


@dataclass(frozen=True, slots=True)
class Listed(Record):
    """A registered project, and whether its memory is still there."""

    name: str
    project_id: str
    root: str
    found: bool
    first_seen_at: str
    last_seen_at: str


@dataclass(frozen=True, slots=True)
class ProjectsResult(Record):
    """All registered projects, by name."""

    SCHEMA: ClassVar[str] = "projects/1"

    projects: tuple[Listed, ...]
    forgotten: str


@operation(effect="host")
def projects(
    context: Context,
    *,
    forget: Annotated[Path | None, Field("Take a root out of the registry; its memory stays", metavar="ROOT")] = None,
) -> ProjectsResult:
    """List the projects that `bede init` registered for this user, for use with --project."""
    if forget and not _forget(context, context.directory / forget):
        raise NotFound(f"no registered project at {forget}", hint="'bede projects' lists their roots")
    listed = tuple(
        Listed(
            name=item.name,
            project_id=item.uuid,
            root=item.root,
            found=os.path.exists(Path(item.root) / FOLDER / DATABASE),  # noqa: PTH110 (a Path raises where it may not look)
            first_seen_at=timestamp(item.first_seen),
            last_seen_at=timestamp(item.last_seen),
        )
        for item in registry.all_known(context.environment)
    )
    return ProjectsResult(listed, str(forget or ""))


def _forget(context: Context, root: Path) -> bool:
    """Take out a root as it was typed, or as it is called in full."""
    return any(registry.forget(context.environment, name) for name in dict.fromkeys((root, root.resolve())))
