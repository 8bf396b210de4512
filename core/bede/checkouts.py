"""What a git checkout looks like, before and after something was run in it.

Two looks tell which files were created, modified, deleted or committed in between. Promises never to fail and never
to take long: without git, outside a checkout, or when git does not answer in time, there is no look. Only git's own
code runs: no hook, monitor, filter, diff driver or network that a repository's configuration names, and no variable
of an outer git call leads to another repository. Writes nothing, not even git's index.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bede.quick import dataclass

if TYPE_CHECKING:
    from subprocess import Popen

#: Seconds that one git process may take; bytes and files that are read from it.
_SECONDS, _BYTES, _FILES = 5.0, 1 << 23, 20_000

#: What a repository's own configuration must not decide.
_SETTINGS = (
    "core.fsmonitor=false",
    f"core.hooksPath={os.devnull}",
    "core.quotePath=false",
    "protocol.allow=never",
    "safe.bareRepository=explicit",
)
#: Variables by which an outer git (a hook, `git rebase --exec`) tells its children where to work.
_LEADING = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_CONFIG", "GIT_CONFIG_PARAMETERS", "GIT_DIR",
    "GIT_EXTERNAL_DIFF", "GIT_GRAFT_FILE", "GIT_IMPLICIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_NAMESPACE",
    "GIT_NO_REPLACE_OBJECTS", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_QUARANTINE_PATH", "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE", "GIT_WORK_TREE",
)  # fmt: skip
_QUIET = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "LC_ALL": "C",
}
_STATUS = (
    "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--ignored=no", "--no-renames",
    "--ignore-submodules=dirty",
)  # fmt: skip
_DIFF = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--no-ext-diff", "--no-textconv")
#: How many words stand before the name in each sort of entry.
_WORDS = {b"1": 8, b"2": 9, b"u": 10, b"?": 1}
#: The tree without files, by the length of a hash: what a branch without commits is compared with.
_NO_FILES = {
    40: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    64: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}

#: A file's mode, size and time of change, or nothing where there is no file.
Stamp = tuple[int, ...]
#: Whether a file is untracked, and its name: the order in which git lists them.
Key = tuple[bool, bytes]


@dataclass(frozen=True, slots=True)
class Look:
    """A checkout at one moment: where it is, its commit ('' before the first), its branch ('' when detached).

    `stamps` has every file that differs from the commit or is untracked, up to `horizon` if there were too many.
    """

    root: Path
    commit: str
    branch: str
    stamps: Mapping[Key, Stamp]
    horizon: Key | None = None


@dataclass(frozen=True, slots=True)
class Changed:
    """What happened between two looks: the commits, the first files in order of their names, and how many more."""

    before: str
    after: str
    files: tuple[str, ...]
    more: int


@dataclass(frozen=True, slots=True)
class Commit:
    """A checkout's newest commit: its hash and its parents', who made it, its first line, the branch, its files."""

    hash: str
    parents: tuple[str, ...]
    author: str
    subject: str
    branch: str
    files: tuple[str, ...]
    more: int


def newest(directory: Path, limit: int = 200) -> Commit | None:
    """Return the newest commit of the checkout around a folder, with `limit` of its files at most; None for none."""
    try:
        directory = directory.resolve()
        root = next((folder for folder in (directory, *directory.parents) if _is_there(folder / ".git")), None)
        told = root and _git(root, ("log", "-1", "--no-show-signature", "--format=%H%x00%P%x00%an%x00%s%x00%D", "-z"))
        if not (root and told):
            return None
        commit, parents, author, subject, names, *_ = _text(told).split("\0")
        listed = _git(root, (*_DIFF, "--root", "--no-commit-id", *(parents.split()[:1]), commit)) or b""
    except (OSError, ValueError):
        return None
    files = sorted({_text(name) for name in listed.split(b"\0") if name})
    branch = names.partition("HEAD -> ")[2].partition(",")[0]
    return Commit(commit, tuple(parents.split()), author, subject, branch, tuple(files[:limit]), len(files[limit:]))


def look(directory: Path) -> Look | None:
    """Return what the checkout around a folder looks like now; None where there is none, or git cannot tell."""
    try:
        directory = directory.resolve()
        root = next((folder for folder in (directory, *directory.parents) if _is_there(folder / ".git")), None)
        if root is None:
            return None
        filters = _git(root, ("config", "-z", "--show-scope", "--name-only", "--get-regexp", r"^filter\."), may=1)
        told = None if filters is None else _git(root, _STATUS, _without(filters))
        return None if told is None else _read(root, told)
    except (OSError, ValueError):
        return None


def changed(before: Look, after: Look, limit: int = 200) -> Changed:
    """Return what happened between two looks at one checkout; `limit` files are named, at most.

    Names are relative to the checkout's root, with slashes. Ignored files and Bede's own never count.
    """
    names = set(_differences(before, after)) | set(_committed(before, after))
    seen = sorted({_text(name) for name in names if b"/.bede/" not in b"/" + name + b"/"})
    return Changed(before.commit, after.commit, tuple(seen[:limit]), max(len(seen) - limit, 0))


def _is_there(path: Path) -> bool:
    try:
        path.lstat()
    except OSError:
        return False
    return True


def _text(name: bytes) -> str:
    return name.decode("utf-8", "replace")


def _differences(before: Look, after: Look) -> Iterator[bytes]:
    """Yield the files that differ from their commit in one look otherwise than in the other."""
    old = {name: stamp for (_, name), stamp in before.stamps.items()}
    new = {name: stamp for (_, name), stamp in after.stamps.items()}
    for mine, other, look_there in ((before, new, after), (after, old, before)):
        for key, stamp in mine.stamps.items():
            found = other.get(key[1])
            beyond = found is None and look_there.horizon is not None and key > look_there.horizon
            if found != stamp and not beyond:
                yield key[1]


def _committed(before: Look, after: Look) -> Iterator[bytes]:
    """Yield the files in which the two commits differ."""
    if before.commit == after.commit or before.root != after.root:
        return
    nothing = _NO_FILES.get(len(before.commit or after.commit), "")
    try:
        told = _git(after.root, (*_DIFF, before.commit or nothing, after.commit or nothing, "--"))
    except (OSError, ValueError):
        return
    yield from (name for name in (told or b"").split(b"\0")[:-1])


def _read(root: Path, told: bytes) -> Look:
    """Read what `git status` told."""
    commit = branch = ""
    keys: list[Key] = []
    entries = iter(told.split(b"\0")[:-1])
    for entry in entries:
        sort, _, rest = entry.partition(b" ")
        if sort == b"#":
            name, _, value = rest.partition(b" ")
            commit = _text(value) if name == b"branch.oid" and value != b"(initial)" else commit
            branch = _text(value) if name == b"branch.head" and value != b"(detached)" else branch
        elif sort in _WORDS:
            keys.append((sort == b"?", entry.split(b" ", _WORDS[sort])[-1]))
        if sort == b"2":
            next(entries, None)  # the name that the file had before
    horizon = keys[:_FILES][-1] if keys and (len(keys) > _FILES or len(told) >= _BYTES) else None
    top = os.fsencode(root)
    return Look(root, commit, branch, {key: _stamp(top, key[1]) for key in keys[:_FILES]}, horizon)


def _stamp(top: bytes, name: bytes) -> Stamp:
    try:
        found = os.lstat(os.path.join(top, name))  # noqa: PTH118
    except (OSError, ValueError):
        return ()
    if stat.S_ISDIR(found.st_mode):
        return (found.st_mode,)  # a repository inside this one
    return (found.st_mode, found.st_size, found.st_mtime_ns)


def _without(filters: bytes) -> dict[str, str]:
    """Return settings that switch off the filters which the repository itself defines: they are commands."""
    fields = filters.decode("utf-8", "surrogateescape").split("\0")
    keys = {
        key.rpartition(".")[0]
        for scope, key in zip(fields[::2], fields[1::2], strict=False)
        if scope in ("local", "worktree")
    }
    pairs = [
        (f"{key}.{word}", value)
        for key in sorted(keys)
        for word, value in (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
    ]
    count = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
    settings = {"GIT_CONFIG_COUNT": str(count + len(pairs))} if pairs else {}
    for number, (key, value) in enumerate(pairs, count):
        settings |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return settings


def _git(
    root: Path, words: Sequence[str], settings: Mapping[str, str] | None = None, *, may: int = 0
) -> bytes | None:
    """Return what git says, as far as it is kept; None if it failed or took too long.

    Raises:
        OSError: git cannot be started.
    """
    import subprocess
    from threading import Timer

    environment = {name: value for name, value in os.environ.items() if name not in _LEADING}
    environment |= {**_QUIET, "GIT_CEILING_DIRECTORIES": str(root.parent), **(settings or {})}
    overrides = [word for setting in _SETTINGS for word in ("-c", setting)]
    with subprocess.Popen(
        [_program(), "--no-pager", *overrides, *words],
        cwd=root,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        timer = Timer(_SECONDS, process.kill)
        timer.daemon = True
        timer.start()
        try:
            said = _said(process)
        finally:
            timer.cancel()
            timer.join()
    return said if len(said) == _BYTES or process.returncode in (0, may) else None


def _said(process: Popen[bytes]) -> bytes:
    """Return a process's output; one that says too much is ended."""
    assert process.stdout is not None
    said = process.stdout.read(_BYTES)
    if len(said) == _BYTES:
        process.kill()
    return said


def _program() -> str:
    """Return git; on Windows with its path, since a name alone would be looked for in the working directory too."""
    if os.name != "nt":
        return "git"
    folders = (Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder)
    paths = (folder / "git.exe" for folder in folders if folder.is_absolute())
    return next((str(path) for path in paths if path.is_file()), "")
