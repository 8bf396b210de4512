"""Imports go down only, never sideways: read from the syntax, so late and type-only imports count too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rules.conftest import MakeModule, Module

#: The floor of every room. `errors` is the ground that its neighbours stand on too; the two packages as such
#: hold no more than a version. Between floors lie stairs: what several verbs share (5.1), and what the faces are
#: made of (from 6.1). `__main__` is the door in front of the three faces, and picks one.
FLOORS: dict[str, float] = {
    "bede": 0,
    "bede_cli": 0,
    "bede.errors": 0.1,
    "bede.quick": 0,
    "bede.hints": 0,
    "bede.identity": 1,
    "bede.redact": 0,
    "bede.records": 2,
    "bede.config": 2,
    "bede.arbitration": 2,
    "bede.turns": 2,
    "bede.sessions": 2,
    "bede.signing": 2,
    "bede.turnstile": 2,
    "bede.repository": 3,
    "bede.leases": 3,
    "bede.projections": 4,
    "bede.sources": 4,
    "bede.engines": 3.9,
    "bede.places": 4,
    "bede.diary": 4,
    "bede.timers": 4,
    "bede.splice": 4,
    "bede.child": 4,
    "bede.checkouts": 4,
    "bede.operation": 5,
    "bede.context": 5,
    "bede.answers": 5,
    "bede.intake": 5.1,
    "bede.schemas": 5.1,
    "bede.bundles": 5.15,
    "bede.exchange": 5.1,
    "bede.operations": 6,
    "bede.agents": 5,
    "bede.installing": 5.1,
    "bede.hooks": 5.1,
    "bede.examining": 5.2,
    "bede_cli.grammar": 6.1,
    "bede_cli.terminal": 6.1,
    "bede_cli.verbs": 6.1,
    "bede_cli.plain": 6.2,
    "bede_cli.parser": 6.3,
    "bede_cli.layout": 6.2,
    "bede_cli.manual": 6.2,
    "bede_cli.pipe": 6.2,
    "bede_cli.sittings": 6.25,
    "bede_cli.together": 6.25,
    "bede_cli.pages": 6.3,
    "bede_cli.output": 7,
    "bede_cli.exits": 7,
    "bede_cli.app": 8,
    "bede_cli.serve": 8,
    "bede_cli.hook": 8,
    "bede_cli.__main__": 9,
}
VERBS = "bede.operations"


def room(name: str) -> str:
    """Return the room a dotted name stands in."""
    return ".".join(name.split(".")[:2])


def imports(module: Module, known: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Yield line and full name of everything of ours that a module imports, anywhere in it."""
    for node in ast.walk(module.tree):
        for name in _names(node, module):
            if name.split(".")[0] in ("bede", "bede_cli"):
                yield node.lineno, _module(name, known)


def _names(node: ast.AST, module: Module) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = _base(node, module)
        yield from (f"{base}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__") and node.args:
        yield from _literal(node.args[0])


def _base(node: ast.ImportFrom, module: Module) -> str:
    parts = module.name.split(".")
    up = parts[: len(parts) - node.level + module.package] if node.level else []
    return ".".join([*up, *([node.module] if node.module else [])])


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _literal(node: ast.expr) -> Iterator[str]:
    """Yield the name in an `import_module("…")`; of an f-string what stands before its first gap."""
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]  # type: ignore[assignment]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value.rstrip(".")


def _module(name: str, known: frozenset[str]) -> str:
    """Cut a dotted name down to the module in it."""
    while name not in known and "." in name:
        name = name.rpartition(".")[0]
    return name


def faults(module: Module, known: frozenset[str]) -> Iterator[str]:
    """Yield what a module imports against the floors."""
    here = FLOORS.get(module.room, 99)
    for line, name in sorted(set(imports(module, known))):
        there, where = room(name), f"{module.path.name}:{line}: {module.name} imports {name}"
        if there != module.room and there not in FLOORS:
            yield f"{where}, which stands on no floor"
        elif there != module.room and FLOORS[there] >= here:
            yield f"{where}: from floor {here} to floor {FLOORS[there]}"
        elif there == module.room == VERBS and name not in (module.name, VERBS):
            yield f"{where}: verbs never import each other"


@pytest.fixture(scope="session")
def known(modules: tuple[Module, ...]) -> frozenset[str]:
    """The names of all modules."""
    return frozenset(module.name for module in modules)


def test_every_room_has_a_floor(modules: tuple[Module, ...]) -> None:
    lost = sorted({module.room for module in modules} - FLOORS.keys())
    assert not lost, lost


def test_imports_go_down_only(modules: tuple[Module, ...], known: frozenset[str]) -> None:
    found = [fault for module in modules for fault in faults(module, known)]
    assert not found, "\n".join(found)


KNOWN = frozenset(FLOORS) | {"bede.repository.log", "bede.operations.fork", "bede.operations.diff"}


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("bede.records", "from bede.repository import Repository"),
        ("bede.records", "from bede import config"),
        ("bede.repository.log", "import bede.projections"),
        ("bede.repository.log", "from ..context import Context"),
        ("bede.operation", "from bede.context import Context"),
        ("bede.sources", "def late():\n    from bede.projections import text"),
        ("bede.context", "if TYPE_CHECKING:\n    from bede.operations import load"),
        ("bede.operations.fork", "from bede.operations import diff"),
        ("bede.operations.fork", "from bede.operations.diff import diff"),
        ("bede.operations.fork", "from .diff import diff"),
        ("bede.operations.fork", "import_module('bede_cli.app')"),
        ("bede.context", "importlib.import_module(f'bede.operations.{verb}')"),
        ("bede_cli.serve", "from bede_cli.app import main"),
        ("bede.context", "import bede.attic"),
    ],
)
def test_the_rule_sees_every_way_up(module_of: MakeModule, name: str, line: str) -> None:
    assert len(list(faults(module_of(name, line), KNOWN | {"bede.attic"}))) == 1


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("bede.identity", "from bede.errors import UsageError"),
        ("bede.repository.log", "from bede.repository import lines"),
        ("bede.repository.log", "from .lines import spans"),
        ("bede.operations.fork", "from bede.operations import VERBS"),
        ("bede.operations.fork", "from bede.context import Context"),
        ("bede.context", "import json, bede.config"),
        ("bede_cli.app", "from bede import __version__"),
        ("bede_cli.__main__", "def late():\n    from bede_cli.serve import serve"),
    ],
)
def test_the_rule_lets_a_way_down_pass(module_of: MakeModule, name: str, line: str) -> None:
    assert list(faults(module_of(name, line), KNOWN)) == []
