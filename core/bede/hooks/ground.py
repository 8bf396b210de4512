# ruff: noqa: PTH100, PTH109, PTH112, PTH113, PTH116, PTH117, PTH118, PTH120
"""In which project a hook's call takes place: found as `bede.places` finds it, at a tenth of the price.

The plain case, a project here or above, takes a few looks at the disk. A linked git worktree, whose memory is its main
checkout's, goes the wide way.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from bede.agents.port import Call

#: As in `bede.places`, which costs more to import than a hook has time; a test holds them together.
FOLDER, DATABASE = ".bede", "bede.db"
#: Most folders of files that are looked at for a project.
MOST = 8


class Project:
    """Where a project lies; a folder in it, where the call took place; and what its relative paths begin at."""

    __slots__ = ("base", "cwd", "folder", "root")

    def __init__(self, root: str, folder: str, cwd: str, base: str) -> None:
        self.root = root
        self.folder = folder
        self.cwd = cwd
        self.base = base

    @property
    def database(self) -> str:
        """The one file."""
        return os.path.join(self.folder, DATABASE)


def find(call: Call, environment: Mapping[str, str]) -> Project | None:
    """Return the project of a call: that of its folder, else that of the first file it names; None for none.

    Raises:
        OSError: whether there is one may not be seen; the next one above would be the wrong one.
    """
    base = _base(call, environment)
    if named := environment.get("BEDE_DIR"):
        folder = os.path.abspath(named)
        root = os.path.dirname(folder)
        return Project(root, folder, base or root, base or root) if _is_there(folder) else None
    files = [os.path.dirname(os.path.join(base, path)) for path in call.paths if base or os.path.isabs(path)]
    for place in list(dict.fromkeys([base, *files]))[: 1 + MOST]:
        if place and (found := _above(_existing(place), base, environment)):
            return found
    return None


def _base(call: Call, environment: Mapping[str, str]) -> str:
    """Return the folder that a call tells, else the agent's variables, else where we are; '' where that is gone."""
    here = call.cwd or environment.get("CLAUDE_PROJECT_DIR") or environment.get("CURSOR_PROJECT_DIR")
    try:
        return os.path.realpath(here or os.getcwd())
    except OSError:
        return ""


def _existing(place: str) -> str:
    """Return a folder, else the next one above it that is there."""
    place = os.path.realpath(place)
    while not os.path.isdir(place) and (above := os.path.dirname(place)) != place:
        place = above
    return place


def _above(cwd: str, base: str, environment: Mapping[str, str]) -> Project | None:
    folder = cwd
    while True:
        memory = os.path.join(folder, FOLDER)
        if _is_there(memory):
            return Project(folder, memory, cwd, base or cwd)
        if os.path.isfile(os.path.join(folder, ".git")):
            return _linked(cwd, base, environment)
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def _linked(cwd: str, base: str, environment: Mapping[str, str]) -> Project | None:
    from pathlib import Path

    from bede.errors import RepositoryNotFound
    from bede.places import find_project

    try:
        found = find_project(Path(cwd), environment)
    except RepositoryNotFound:
        return None
    return Project(str(found.root), str(found.folder), cwd, base or cwd)


def _is_there(folder: str) -> bool:
    try:
        os.stat(os.path.join(folder, DATABASE))
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
