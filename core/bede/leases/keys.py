"""One key for one file, however its path is written.

A key is the path from the project's root, `/` between its parts, symbolic links followed, in Unicode's composed form,
and without capitals where the file system takes both for one. Files that do not exist yet have keys as well. Two names
of one file by hard links have two.

A linked git worktree has files of its own: `src/a.py` there and in the main checkout can be written at once without
harm to either, so each is keyed apart, below `@worktree/NAME/`. That they will meet in a merge is told with a grant,
and is no reason to refuse it.
"""

# ruff: noqa: PTH112, PTH113, PTH114, PTH116, PTH118, PTH119, PTH120
# A Path costs the hook more milliseconds than it has.
from __future__ import annotations

import os
import sys

from bede.errors import UsageError
from bede.leases.scopes import FILE, FOLDER, GLOB, WORKTREE, is_magic

#: Bytes that a path may have, and parts that a pattern may have.
LONGEST, DEEPEST = 4096, 100


class Ground:
    """Where a project's files lie: what every key is relative to.

    `folder` is the project's own folder of memory, in which nobody edits anything. `folds` tells whether the file
    system takes `A` and `a` for one name; it is found out when first needed.
    """

    __slots__ = ("_folder", "_folds", "root")

    def __init__(self, root: str, folder: str = "", folds: bool | None = None) -> None:
        self.root = os.path.realpath(root)
        folder = folder or os.path.join(root, ".bede")
        is_plain = folder == os.path.join(self.root, ".bede") and not os.path.islink(folder)
        self._folder = folder if is_plain else os.path.realpath(folder)
        self._folds = folds

    @property
    def folds(self) -> bool:
        """Whether capitals make no other name here."""
        if self._folds is None:
            self._folds = _probe(self._folder) or _probe(self.root)
        return self._folds

    def wanted(self, path: str, cwd: str, *, is_glob: bool = False) -> tuple[str, str]:
        """Return key and scope of a path as it was typed in a folder; a folder stands for all below it.

        Raises:
            UsageError: it is empty or too long, lies outside the project, or is none that anybody edits.
        """
        _check(path)
        if is_glob:
            return self._pattern(path, cwd)
        whole = os.path.join(cwd, path)
        is_folder = path.endswith(("/", os.sep)) or os.path.isdir(whole)
        return self.key(path, cwd), FOLDER if is_folder else FILE

    def key(self, path: str, cwd: str) -> str:
        """Return the key of a path as it was typed in a folder.

        Raises:
            UsageError: see `wanted`.
        """
        _check(path)
        real = os.path.realpath(os.path.join(cwd, path))
        if self._inside(real, self._folder) is not None:
            raise UsageError(f"{_shown(path)} is Bede's own", hint="name a file of the project")
        worktree, parts = self._placed(real, path)
        key = "/".join(parts)
        if not worktree and parts and f"{parts[0]}/" == WORKTREE:
            key = f"./{key}"  # A folder of that very name in the main checkout.
        key = f"{WORKTREE}{worktree}/{key}".rstrip("/") if worktree else key
        return self._form(key or ".")

    def _pattern(self, path: str, cwd: str) -> tuple[str, str]:
        """Return a pattern with the part before its first wildcard made a key."""
        parts = path.replace(os.sep, "/").split("/")
        fixed = next((number for number, part in enumerate(parts) if is_magic(part)), len(parts))
        if fixed == len(parts):
            return self.wanted(path, cwd)
        rest = [part for part in parts[fixed:] if part not in ("", ".")]
        if ".." in rest or len(rest) > DEEPEST:
            raise UsageError(f"not a pattern: {_shown(path)}", hint="write one such as src/**/*.py")
        base = "/".join(parts[:fixed]) + ("/" if fixed else "")
        start = self.key(base or ".", cwd)
        joined = "/".join(rest if start == "." else [start, *rest])
        return self._form(joined), GLOB

    def _placed(self, real: str, path: str) -> tuple[str, list[str]]:
        """Return the worktree a real path is in, '' for the main checkout, and its parts from there."""
        inside = self._inside(real, self.root)
        folder = real
        while (folder != self.root and inside is not None) or inside is None:
            link = os.path.join(folder, ".git")
            if os.path.isfile(link) and (name := self._worktree(link)):
                return name, self._inside(real, folder) or []
            above = os.path.dirname(folder)
            if above == folder:
                break
            folder = above
        if inside is None:
            raise UsageError(f"{_shown(path)} is outside the project", hint=f"the project is {_shown(self.root)}")
        return "", inside

    def _worktree(self, link: str) -> str:
        """Return the name of the linked worktree that a `.git` file makes, if it is one of this project's."""
        try:
            private = os.path.join(os.path.dirname(link), _said(link).partition("gitdir: ")[2])
            common = os.path.realpath(os.path.join(private, _said(os.path.join(private, "commondir"))))
        except (OSError, ValueError):
            return ""
        main = os.path.dirname(common) if os.path.basename(common) == ".git" else common
        if main != self.root:
            return ""
        return os.path.basename(os.path.realpath(private)).replace("/", "-")

    def _inside(self, real: str, folder: str) -> list[str] | None:
        """Return the parts of a real path below a folder, None where it does not lie there."""
        parts, above = _split(real), _split(folder)
        count = len(above)
        same = parts[:count] == above or (self._folds_to(parts[:count], above))
        return parts[count:] if len(parts) >= count and same else None

    def _folds_to(self, one: list[str], other: list[str]) -> bool:
        """Tell whether two lists of names are one where capitals do not count."""
        alike = [part.casefold() for part in one] == [part.casefold() for part in other]
        return alike and (sys.platform == "win32" or self._folds is True or (self._folds is None and self.folds))

    def _form(self, key: str) -> str:
        """Return a key in the one form of Unicode, and of letters where they fold."""
        if not key.isascii():
            from unicodedata import normalize

            # A name that is no UTF-8 is spelt out, since no column of text could hold it.
            key = os.fsencode(key).decode("utf-8", "backslashreplace")
            key = normalize("NFC", key)
            return normalize("NFC", key.casefold()) if self.folds else key
        return key.lower() if self.folds else key


def _split(path: str) -> list[str]:
    return [part for part in path.replace(os.sep, "/").split("/") if part]


def _said(path: str) -> str:
    """Return the first bytes of one of git's small files."""
    handle = os.open(path, os.O_RDONLY)
    try:
        return os.fsdecode(os.read(handle, 8192)).rstrip("\r\n")
    finally:
        os.close(handle)


def _probe(path: str) -> bool:
    """Tell whether a name in other letters is the same file."""
    above, name = os.path.split(path)
    other = os.path.join(above, name.swapcase())
    try:
        return other != path and os.path.samestat(os.stat(path), os.stat(other))
    except OSError:
        return False


def _check(path: str) -> None:
    if not path or "\0" in path:
        raise UsageError("a path is empty or holds a NUL", hint="name a file of the project")
    try:
        size = len(os.fsencode(path))
    except UnicodeEncodeError as error:
        raise UsageError(f"no path has such characters: {_shown(path)}") from error
    if size > LONGEST:
        raise UsageError(f"a path of {size} bytes is too long", hint=f"at most {LONGEST}")


def _shown(path: str) -> str:
    return ascii(path[:200]) if not path.isprintable() else path[:200]
