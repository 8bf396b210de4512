"""Where a project lies: found by walking up, as git does, or by name in the user's registry.

Linked git worktrees share the main checkout's memory; `BEDE_DIR` overrides. A project is never made by a typo, and
there is no silent fallback to some other one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from bede.errors import RepositoryNotFound, Unavailable, cause
from bede.quick import dataclass

FOLDER = ".bede"
DATABASE = "bede.db"


@dataclass(frozen=True, slots=True)
class Project:
    """A project on disk: its root, its `.bede` folder, and the git worktree the call came from ('' is the main).

    `uuid` is whose memory it has to be, where that was asked for.
    """

    root: Path
    folder: Path
    worktree: str = ""
    uuid: str = ""

    @property
    def database(self) -> Path:
        """The one file."""
        return self.folder / DATABASE


def find_project(directory: Path, environment: Mapping[str, str]) -> Project:
    """Return the project that holds a folder.

    Raises:
        RepositoryNotFound: there is none here or above, or `BEDE_DIR` names none.
        Unavailable: whether there is one may not be seen.
    """
    if override := environment.get("BEDE_DIR"):
        folder = Path(override).absolute()
        if not _is_there(folder / DATABASE):
            raise RepositoryNotFound(f"no project at BEDE_DIR={folder}", hint="run 'bede init', or unset BEDE_DIR")
        return Project(folder.parent, folder)
    for candidate, worktree in candidates(directory):
        if _is_there(candidate / FOLDER / DATABASE):
            return Project(candidate, candidate / FOLDER, worktree)
    raise RepositoryNotFound(
        f"no project in {directory} or above",
        hint="run 'bede init' in the project's root, or name one with --project",
    )


def _is_there(path: Path) -> bool:
    """Tell whether a file exists. What may not be seen is an error: the next project above would be the wrong one."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as error:
        raise Unavailable(
            f"cannot look into {path.parent}: {cause(error)}",
            hint="check the permissions, or name a project with --project",
        ) from error
    return True


def home_of(directory: Path) -> tuple[Path, str]:
    """Return the root that a new project here should have, and the worktree's name: git's main checkout, else here."""
    for folder in (directory, *directory.parents):
        link = folder / ".git"
        if os.path.isdir(link):  # noqa: PTH112 (a Path raises where it may not look)
            return folder, ""
        if os.path.isfile(link):  # noqa: PTH113
            return _main_checkout(link) or (folder, "")
    return directory, ""


def candidates(directory: Path) -> Iterator[tuple[Path, str]]:
    """Yield the folders that may hold this folder's project, nearest first, with the worktree's name.

    A linked worktree ends at its main checkout; a submodule ends at itself, since it is a checkout of its own.
    """
    try:
        directory = directory.resolve(strict=True)
    except (OSError, ValueError) as error:
        raise RepositoryNotFound(f"no such folder: {directory}", hint="check the path given with -C") from error
    for folder in (directory, *directory.parents):
        yield folder, ""
        link = folder / ".git"
        if os.path.isfile(link):  # noqa: PTH113
            main = _main_checkout(link)
            if main:
                yield main
            return


def _main_checkout(link: Path) -> tuple[Path, str] | None:
    """Follow a linked worktree's `.git` file to the main checkout, through git's common directory.

    A submodule's `.git` file has no `commondir` beside its target: it is a checkout of its own.
    """
    try:
        target = os.fsdecode(link.read_bytes()).partition("gitdir: ")[2].rstrip("\r\n")
        private = (link.parent / target).resolve()
        common = (private / os.fsdecode((private / "commondir").read_bytes()).rstrip("\r\n")).resolve()
    except (OSError, ValueError):
        return None
    name = os.fsencode(private.name).decode("utf-8", "backslashreplace")
    return (common.parent if common.name == ".git" else common), name


def registered(environment: Mapping[str, str], name: str) -> Project:
    """Return a registered project by name or UUID; see `repository.registry`."""
    from bede.repository import registry

    known = registry.find(environment, name, lambda root: os.path.exists(os.path.join(root, FOLDER, DATABASE)))  # noqa: PTH110, PTH118
    project = Project(Path(known.root), Path(known.root) / FOLDER, uuid=known.uuid)
    if not _is_there(project.database):
        raise RepositoryNotFound(
            f"project {name!r} was registered at {known.root}, but its memory is not there",
            hint=f"run 'bede init' where it is now, or 'bede projects --forget {known.root}'",
        )
    return project
