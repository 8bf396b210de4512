"""Whose a session is: the project whose root, or one of whose worktrees, holds the folder it worked in.

Nothing is ever guessed: a session that tells no folder, or one that no known project holds, is nobody's.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

from bede.places import DATABASE, FOLDER

_DRIVE = r"^(?:\\\\\?\\)?([A-Za-z]):[\\/](.*)$"
_MOUNT = r"^/mnt/([a-z])(?:/(.*))?$"
_SHARE = r"^(?:[\\/]{2}|\\\\\?\\UNC\\)wsl(?:\$|\.localhost)[\\/][^\\/]+[\\/](.*)$"
_ROOTED = r"/|[A-Za-z]:/"
#: Whether names that differ in case are one file, as these systems have it.
_FOLDS = sys.platform in ("win32", "darwin")
#: No system has longer paths.
_LONGEST = 32768


def forms(path: str) -> Iterator[str]:
    """Yield the ways in which the systems of one machine name a folder, compared form first.

    Windows' drives under WSL and WSL's files under Windows are the same folders; `\\\\?\\` is only a spelling.
    """
    yield _compared(path)
    if path.startswith("\\\\?\\"):
        yield _compared(path[4:])
    if path.startswith("/") and not path.startswith(("/mnt/", "//")):
        return
    if drive := re.match(_DRIVE, path, re.DOTALL):
        rest = drive[2].replace("\\", "/")
        yield _compared(f"/mnt/{drive[1].lower()}/{rest}")
        yield _compared(f"{drive[1].lower()}:/{rest}")
    elif mount := re.match(_MOUNT, path, re.DOTALL):
        yield _compared(f"{mount[1]}:/{mount[2] or ''}")
    elif share := re.match(_SHARE, path, re.DOTALL | re.IGNORECASE):
        yield _compared("/" + share[1].replace("\\", "/"))


def _compared(path: str) -> str:
    """Return a path in the form in which it is compared: links resolved where it exists, no dots, no closing slash."""
    text = path
    if os.path.isabs(path):  # noqa: PTH117 (a path of another system has to stay as it is)
        try:
            text = os.path.realpath(path)
        except (OSError, ValueError):
            text = path
    if text[1:2] == ":" and re.match(r"^[A-Za-z]:[\\/]", text):
        text = text.replace("\\", "/").lower()
    text = os.path.normpath(text).replace("\\", "/") if text else ""
    return _folded(text) if _FOLDS else text


def _folded(text: str) -> str:
    """Return a path as systems see it to which case, and how an accent is spelled, make no difference."""
    import unicodedata

    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


class Roots:
    """The folders of some projects, and which of them holds another folder."""

    def __init__(self, projects: Iterable[tuple[str, Iterable[Path]]]) -> None:
        """Take projects, each with its root and its worktrees."""
        self._roots = {form: name for name, roots in projects for root in roots for form in forms(str(root))}
        self._known: dict[str, str | None] = {}

    def holder(self, cwd: str) -> str | None:
        """Return whose a folder is: the project nearest above it; None for nobody's."""
        if cwd not in self._known:
            self._known[cwd] = self._find(cwd)
        return self._known[cwd]

    def _find(self, cwd: str) -> str | None:
        if "\0" in cwd or not 0 < len(cwd) <= _LONGEST:
            return None
        for names in zip_longest(*map(_upwards, dict.fromkeys(forms(cwd))), fillvalue=""):
            for folder in filter(None, names):
                if folder in self._roots:
                    return self._roots[folder]
            if any(map(_is_other, filter(None, names))):
                return None
        return None


def _upwards(folder: str) -> Iterator[str]:
    """Yield a folder and those above it, the nearest first."""
    while folder:
        yield folder
        above, slash, _ = folder.rpartition("/")
        if not slash or folder == "/":
            return
        folder = above or "/"


def _is_other(folder: str) -> bool:
    """Tell whether a folder is the root of a project that is not among those asked for."""
    return os.path.isfile(os.path.join(folder, FOLDER, DATABASE))  # noqa: PTH113, PTH118


def worktrees(root: Path) -> Iterator[Path]:
    """Yield a project's root and the linked git worktrees of it, also such as are gone."""
    yield root
    try:
        entries = sorted((root / ".git" / "worktrees").iterdir())
    except OSError:
        return
    for entry in entries:
        try:
            link = os.fsdecode((entry / "gitdir").read_bytes()).strip()
        except OSError:
            continue
        if link:  # Relative to where it stands, as git writes it when it is told to; or absolute, on whichever system.
            yield (Path(link) if re.match(_ROOTED, link) else entry / link).parent
