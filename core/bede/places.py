"""Where a project lies: found by walking up, as git does, or by name in the user's registry.

Linked git worktrees share the main checkout's memory; `BEDE_DIR` overrides. A project is never made by a typo, and
there is no silent fallback to some other one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bede.errors import RepositoryNotFound

FOLDER = ".bede"
DATABASE = "bede.db"


@dataclass(frozen=True, slots=True)
class Project:
    """A project on disk: its root, its `.bede` folder, and the git worktree the call came from ('' is the main)."""

    root: Path
    folder: Path
    worktree: str = ""

    @property
    def database(self) -> Path:
        """The one file."""
        return self.folder / DATABASE


def find_project(directory: Path, environment: Mapping[str, str]) -> Project:
    """Return the project that holds a folder.

    Raises:
        RepositoryNotFound: there is none here or above, or `BEDE_DIR` names none.
    """
    if override := environment.get("BEDE_DIR"):
        folder = Path(override).absolute()
        if not (folder / DATABASE).exists():
            raise RepositoryNotFound(f"no project at BEDE_DIR={folder}", hint="run 'bede init', or unset BEDE_DIR")
        return Project(folder.parent, folder)
    for candidate, worktree in candidates(directory):
        if (candidate / FOLDER / DATABASE).exists():
            return Project(candidate, candidate / FOLDER, worktree)
    raise RepositoryNotFound(
        f"no project in {directory} or above",
        hint="run 'bede init' in the project's root, or name one with --project",
    )


def home_of(directory: Path) -> tuple[Path, str]:
    """Return the root that a new project here should have, and the worktree's name: git's main checkout, else here."""
    for folder in (directory, *directory.parents):
        link = folder / ".git"
        if link.is_dir():
            return folder, ""
        if link.is_file():
            return _main_checkout(link) or (folder, "")
    return directory, ""


def candidates(directory: Path) -> Iterator[tuple[Path, str]]:
    """Yield the folders that may hold this folder's project, nearest first, with the worktree's name."""
    try:
        directory = directory.resolve(strict=True)
    except OSError as error:
        raise RepositoryNotFound(f"no such folder: {directory}", hint="check the path given with -C") from error
    for folder in (directory, *directory.parents):
        yield folder, ""
        link = folder / ".git"
        if link.is_file() and (main := _main_checkout(link)):
            yield main
            return


def _main_checkout(link: Path) -> tuple[Path, str] | None:
    """Follow a linked worktree's `.git` file to the main checkout, through git's common directory.

    A submodule's `.git` file has no `commondir` beside its target: it is a checkout of its own.
    """
    try:
        target = link.read_text(encoding="utf-8").partition("gitdir:")[2].strip()
        private = (link.parent / target).resolve()
        common = (private / (private / "commondir").read_text(encoding="utf-8").strip()).resolve()
    except (OSError, ValueError):
        return None
    return (common.parent if common.name == ".git" else common), private.name


def registered(environment: Mapping[str, str], name: str) -> Project:
    """Return a registered project by name or UUID; see `repository.registry`."""
    from bede.repository import registry

    root = registry.find(environment, name)
    project = Project(Path(root), Path(root) / FOLDER)
    if not project.database.exists():
        raise RepositoryNotFound(
            f"project {name!r} was registered at {root}, but its memory is not there",
            hint="run 'bede doctor', or 'bede init' where the project is now",
        )
    return project
