"""What the house rules read: every module of the two packages, parsed, never imported."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Module:
    """One parsed file."""

    name: str
    path: Path
    package: bool
    text: str
    tree: ast.Module

    @property
    def room(self) -> str:
        """The part of its package that the module stands in: `bede.repository` for `bede.repository.log`."""
        return ".".join(self.name.split(".")[:2])


MakeModule = Callable[[str, str], Module]


def read(path: Path, shelf: Path) -> Module:
    """Parse one file that lies under a shelf."""
    parts = list(path.relative_to(shelf).with_suffix("").parts)
    package = parts[-1] == "__init__"
    text = path.read_text(encoding="utf-8")
    return Module(".".join(parts[:-1] if package else parts), path, package, text, ast.parse(text, str(path)))


@pytest.fixture(scope="session")
def modules(root: Path) -> tuple[Module, ...]:
    """Every module of `bede` and `bede_cli`."""
    found = tuple(
        read(path, root / shelf)
        for shelf, package in (("core", "bede"), ("cli", "bede_cli"))
        for path in sorted((root / shelf / package).rglob("*.py"))
    )
    assert {module.name.split(".")[0] for module in found} == {"bede", "bede_cli"}
    return found


@pytest.fixture(scope="session")
def files(root: Path) -> tuple[Path, ...]:
    """Every file that is tracked or would be with the next commit; in an unpacked sdist, every file."""
    return sources(root)


def sources(root: Path) -> tuple[Path, ...]:
    """Return what git would take of a folder, else what is no rest of a run; nothing of a virtual environment."""
    listed = _listed(root)
    if listed is None:
        listed = [path for path in sorted(root.rglob("*")) if _shipped(path.relative_to(root))]
    bare = _Bare(root)
    return tuple(path for path in listed if path.is_file() and bare[path.parent])


def _listed(root: Path) -> list[Path] | None:
    """Return every file that git tracks, or would; None where there is no git, or no checkout."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root, capture_output=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return None
    return [root / name for name in sorted(set(listed.stdout.decode().split("\0")) - {""})]


class _Bare(dict[Path, bool]):
    """Whether a folder under the root lies in no virtual environment, each looked at once."""

    def __init__(self, root: Path) -> None:
        super().__init__({root: True})

    def __missing__(self, folder: Path) -> bool:
        bare = self[folder] = self[folder.parent] and not (folder / "pyvenv.cfg").exists()
        return bare


def _shipped(path: Path) -> bool:
    """Say whether a path is source, and not what running, testing or building leaves behind."""
    first = path.parts[0]
    left = first in ("build", "dist") or "__pycache__" in path.parts
    return not left and (not first.startswith(".") or first in (".ci", ".gitignore"))


@pytest.fixture(scope="session")
def module_of() -> MakeModule:
    """Make a module of a line of code, to show a rule what it must see and what it must let pass."""

    def make(name: str, text: str) -> Module:
        return Module(name, Path("sample.py"), False, text, ast.parse(text))

    return make
