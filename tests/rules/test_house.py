"""The shape of the code: where SQL may stand, who may print, what a function may weigh, what has to be said.

Each rule is shown a sample that breaks it and one that only looks so, since a rule that sees nothing always
passes.
"""

from __future__ import annotations

import ast
import math
import re
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rules.conftest import MakeModule, Module

Function = ast.FunctionDef | ast.AsyncFunctionDef
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
#: `foreign` reads other programs' databases; no statement about our own file stands in it.
SQL_ROOMS = ("bede.repository", "bede.projections", "bede.leases", "bede.sources.foreign")

#: Imported inside the function that needs them, never with their module: an import is paid by every call.
HEAVY = {
    "asyncio", "click", "httpx", "importlib.metadata", "mcp", "mcp_types", "mlx", "numpy", "onnxruntime",
    "platformdirs", "pydantic", "requests", "rich", "sentence_transformers", "tiktoken", "tokenizers",
    "tomlkit", "torch", "transformers", "typer",
}  # fmt: skip
#: Guests that only some rooms may let in at all; in the rest of the house nobody knows them.
GUESTS = {
    "click": ("bede_cli.",),
    "cryptography": ("bede.signing",),
    "mcp": ("bede_cli.serve",),
    "mcp_types": ("bede_cli.serve",),
    "mlx": ("bede.engines.qwen",),
    "onnxruntime": ("bede.engines.others",),
    "rich": ("bede_cli.",),
    "sentence_transformers": ("bede.engines.others",),
    "tiktoken": ("bede.engines",),
    "tokenizers": ("bede.engines",),
    "torch": ("bede.engines.others",),
    "transformers": ("bede.engines.others",),
    "typer": ("bede_cli.",),
}
#: Where a fault of any kind must not go on upwards, and why. A handler that raises again needs no entry.
BROAD = {
    "bede_cli.parser": "Typer's parser has no public name for its errors; what is none of them is raised again",
    "bede_cli.exits": "a bug becomes exit 70 and a log file here, and nowhere else",
    "bede_cli.hook": "an agent's tool call goes on whatever happens inside",
    "bede_cli.serve": "every call over MCP is answered",
    "bede.engines.hub": "whatever a guest's library raises is its failure, and becomes one kind of error",
    "bede.operations.auto": "a failed recording is a warning, never a failed build",
    "bede.operations.doctor": "a check that breaks is a finding",
}


# SQL


#: What a statement begins with, and must go on with, so that an English sentence is not taken for one.
STATEMENT = re.compile(
    r"""\s*(
        SELECT\s.*\bFROM\b | SELECT\s+(\d|\w+\() | INSERT\s+(OR\s+\w+\s+)?INTO\s | REPLACE\s+INTO\s
        | UPDATE\s+(OR\s+\w+\s+)?[\w{}"]+\s+SET\s | DELETE\s+FROM\s
        | WITH\s+(RECURSIVE\s+)?\w+\s*(\(.*?\)\s*)?AS\s*\(
        | (CREATE|DROP)\s+(\w+\s+)?(TABLE|INDEX|TRIGGER|VIEW)\s | ALTER\s+TABLE\s | PRAGMA\s+\w
        | VACUUM\b | ATTACH\s | BEGIN\s+(IMMEDIATE|EXCLUSIVE|DEFERRED) | SAVEPOINT\s | ROLLBACK\s+TO\s
    )""",
    re.VERBOSE | re.DOTALL,
)
SMALL = re.compile(
    r"\s*(select\s[\w\s,.*()]+\sfrom\s+\w+(\s+(where|join|order|group|limit)\b|\s*;?\s*$)|"
    r"insert\s+into\s+\w+|"
    r"delete\s+from\s+\w+(\s+where\b|\s*;?\s*$)|update\s+\w+\s+set\s+\w+\s*=|"
    r"(create|drop|alter)\s+table\s+\w+|pragma\s+\w+)",
    re.DOTALL,
)


def sql(module: Module) -> Iterator[str]:
    """Yield the statements in a module, and the calls that run one."""
    described = {id(text) for node in ast.walk(module.tree) for text in _docstring(node)}
    for node in ast.walk(module.tree):
        text = "" if id(node) in described else _text(node)
        if STATEMENT.match(text) or SMALL.match(text):
            yield f"{module.path.name}:{node.lineno}: {' '.join(text.split())[:60]!r}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in RUNS:
            yield f"{module.path.name}:{node.lineno}: .{node.func.attr}(…)"


RUNS = {"execute", "executemany", "executescript"}


def _docstring(node: ast.AST) -> Iterator[ast.expr]:
    body = getattr(node, "body", None)
    if isinstance(node, (ast.Module, *SCOPES)) and body and isinstance(body[0], ast.Expr):
        yield body[0].value


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def test_sql_stands_in_two_rooms_only(modules: tuple[Module, ...]) -> None:
    found = [where for module in modules if not {module.room, module.name} & set(SQL_ROOMS) for where in sql(module)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        "x = 'SELECT id\\n  FROM event'",
        "x = 'SELECT count(*)'",
        "x = f'UPDATE {table} SET a = 1'",
        "x = 'INSERT OR IGNORE INTO ref VALUES (?)'",
        "x = 'WITH RECURSIVE up(n) AS (SELECT 1)'",
        "x = 'CREATE VIRTUAL TABLE words USING fts5(body)'",
        "x = 'PRAGMA ' 'user_version'",
        "x = 'select id from event where id = 1'",
        "x = 'delete from ref'",
        "connection.execute(statement)",
        "rows.connection.executemany(statement, rows)",
    ],
)
def test_the_rule_sees_sql(module_of: MakeModule, line: str) -> None:
    assert len(list(sql(module_of("bede.operations.search", line)))) == 1


@pytest.mark.parametrize(
    "line",
    [
        "def f():\n    'SELECT x FROM y stands in the docstring only.'",
        "x = 'select one from the list'",
        "x = 'Select a branch from those above'",
        "x = 'update the branch, then set it'",
        "x = 'create a table of contents'",
        "x = 'delete from here on'",
        "x = 'begin'",
        "x = 'with a plan as (far as) possible'",
    ],
)
def test_the_rule_takes_no_sentence_for_sql(module_of: MakeModule, line: str) -> None:
    assert list(sql(module_of("bede.operations.search", line))) == []


# Streams and guests


def prints(module: Module) -> Iterator[str]:
    """Yield where a module writes to the terminal."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Name) and node.id in CALLS and isinstance(node.ctx, ast.Load):
            yield f"{module.path.name}:{node.lineno}: {node.id}"
        if isinstance(node, ast.Attribute) and node.attr in STREAMS and ast.unparse(node.value) == "sys":
            yield f"{module.path.name}:{node.lineno}: sys.{node.attr}"
        if isinstance(node, ast.ImportFrom) and node.module == "sys":
            named = (alias.name for alias in node.names if alias.name in STREAMS)
            yield from (f"{module.path.name}:{node.lineno}: sys.{name}" for name in named)


CALLS = {"print", "input", "breakpoint"}
STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__"}


def test_the_library_never_prints(modules: tuple[Module, ...]) -> None:
    found = [where for module in modules if module.name.startswith("bede.") for where in prints(module)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "line", ["print('x')", "say = print", "sys.stderr.write('x')", "from sys import stdout"]
)
def test_the_rule_sees_a_print(module_of: MakeModule, line: str) -> None:
    assert len(list(prints(module_of("bede.config", line)))) == 1


def unbounded(module: Module) -> Iterator[str]:
    """Yield where JSON is read as deep as this Python's parser goes."""
    if not module.name.startswith("bede.sources.") or module.name in PARSERS:
        return
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and node.attr in DECODERS and ast.unparse(node.value) == "json":
            yield f"{module.path.name}:{node.lineno}: json.{node.attr}"
        if isinstance(node, ast.ImportFrom) and node.module == "json":
            named = (alias.name for alias in node.names if alias.name in DECODERS)
            yield from (f"{module.path.name}:{node.lineno}: json.{name}" for name in named)


DECODERS = {"load", "loads", "JSONDecoder"}
#: These hold what they read against one limit.
PARSERS = {"bede.sources.parsed", "bede.sources.jsonl"}


def test_sources_read_json_to_one_depth(modules: tuple[Module, ...]) -> None:
    found = [where for module in modules for where in unbounded(module)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "line", ["json.loads('1')", "read = json.load", "json.JSONDecoder()", "from json import loads"]
)
def test_the_rule_sees_an_unbounded_parser(module_of: MakeModule, line: str) -> None:
    assert len(list(unbounded(module_of("bede.sources.codex", line)))) == 1


def foreign(module: Module) -> Iterator[tuple[int, str, bool]]:
    """Yield line and name of every module imported, and whether it is imported together with this one."""
    work: list[tuple[ast.AST, bool]] = [(module.tree, True)]
    while work:
        node, early = work.pop()
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, early) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "importlib":
            yield from ((node.lineno, f"importlib.{alias.name}", early) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.lineno, node.module or "", early
        below = early and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        work += [(child, below and not _types_only(node, child)) for child in ast.iter_child_nodes(node)]


def _types_only(node: ast.AST, child: ast.AST) -> bool:
    """Say whether a child stands under `if TYPE_CHECKING:`, where the interpreter never comes."""
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test) and child in node.body


def guests(module: Module) -> Iterator[str]:
    """Yield the imports that this room must not make, or not so early."""
    for line, name, early in foreign(module):
        top, where = name.split(".")[0], f"{module.path.name}:{line}: {module.name} imports {name}"
        if not module.name.startswith(GUESTS.get(top, ("",))):
            yield f"{where}, a guest of {' and '.join(GUESTS[top])} alone"
        elif early and HEAVY & {top, name} and module.name.startswith("bede."):
            yield f"{where} with itself: import it in the function that needs it"
        elif top in ("core", "cli"):
            yield f"{where}: a shelf is no package"


def test_guests_stay_in_their_rooms_and_come_late(modules: tuple[Module, ...]) -> None:
    found = [where for module in modules for where in guests(module)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("bede.config", "import tomlkit"),
        ("bede.config", "from importlib import metadata"),
        ("bede.config", "if True:\n    import asyncio"),
        ("bede.config", "class A:\n    import requests"),
        ("bede.engines.qwen", "import mlx.core as mx"),
        ("bede.operations.log", "def late():\n    import mlx.core"),
        ("bede.operations.log", "def late():\n    import typer"),
        ("bede.operations.log", "def late():\n    from mcp import types"),
        ("bede_cli.app", "def late():\n    import mcp"),
        ("bede_cli.app", "from core.bede import config"),
    ],
)
def test_the_rule_sees_a_guest(module_of: MakeModule, name: str, line: str) -> None:
    assert [found.split(":")[0] for found in guests(module_of(name, line))] == ["sample.py"]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("bede.config", "def late():\n    import tomlkit"),
        ("bede.config", "if TYPE_CHECKING:\n    import numpy"),
        ("bede_cli.serve", "def late():\n    import mcp"),
        ("bede_cli.app", "import typer"),
        ("bede_cli.app", "from bede.config import core"),
    ],
)
def test_the_rule_lets_a_late_guest_pass(module_of: MakeModule, name: str, line: str) -> None:
    assert list(guests(module_of(name, line))) == []


def test_nobody_imports_the_shelves(files: tuple[Path, ...], root: Path) -> None:
    pattern = re.compile(r"^\s*(from|import)\s+(core|cli)(\s|\.|,|$)", re.MULTILINE)
    own = {"tests/rules/test_house.py"}
    python = [path for path in files if path.suffix == ".py" and path.relative_to(root).as_posix() not in own]
    assert python
    assert [path.name for path in python if pattern.search(path.read_text(encoding="utf-8"))] == []


# Words


def functions(module: Module) -> Iterator[Function]:
    """Yield every function of a module, those inside others too."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return (node for node in ast.walk(module.tree) if isinstance(node, kinds))


def public(node: ast.AST) -> Iterator[Function]:
    """Yield the functions and methods that anyone may call."""
    for child in getattr(node, "body", []):
        if isinstance(child, SCOPES) and not child.name.startswith("_"):
            if isinstance(child, ast.ClassDef):
                yield from public(child)
            else:
                yield child


def test_every_module_says_what_it_holds(modules: tuple[Module, ...]) -> None:
    silent = [module.name for module in modules if not ast.get_docstring(module.tree)]
    assert not silent, silent


def test_public_functions_say_what_they_do(modules: tuple[Module, ...]) -> None:
    every = [(module, function) for module in modules for function in public(module.tree)]
    silent = [f"{module.name}.{node.name}" for module, node in every if not ast.get_docstring(node)]
    assert len(silent) <= 0.15 * len(every), silent


def test_docstrings_begin_with_one_whole_line(modules: tuple[Module, ...]) -> None:
    spoken = [
        (f"{module.name}.{function.name}", [*text.split("\n"), ""])
        for module in modules
        for function in public(module.tree)
        if (text := ast.get_docstring(function))
    ]
    found = [name for name, lines in spoken if not lines[0].endswith((".", ":", "?", "`")) or lines[1]]
    assert not found, found


def test_no_class_is_named_after_nothing(modules: tuple[Module, ...]) -> None:
    empty = re.compile(r"(Manager|Service|Handler|Helper|Utils?|Factory)$")
    classes = [node for module in modules for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)]
    found = [node.name for node in classes if empty.search(node.name)]
    assert not found, found


def test_module_names_are_one_word(modules: tuple[Module, ...]) -> None:
    names = [module.name.rpartition(".")[2].strip("_") for module in modules]
    long = [name for name in names if "_" in name and name != "bede_cli"]
    assert len(long) <= 0.1 * len(names), long


# Weights


def weight(function: Function) -> int:
    """Return a function's lines, signature included, docstring and decorators left out."""
    spoken = [text for text in _docstring(function) if isinstance(text, ast.Constant)]
    text = spoken[0] if spoken else None
    described = text.end_lineno - text.lineno + 1 if text and isinstance(text.value, str) else 0
    return function.end_lineno - function.lineno + 1 - described


def test_functions_are_short(modules: tuple[Module, ...]) -> None:
    weights = sorted(
        (weight(function), f"{module.name}.{function.name}")
        for module in modules
        for function in functions(module)
    )
    lines = [lines for lines, _ in weights]
    assert weights[-1][0] <= 60, [entry for entry in weights if entry[0] > 60]
    assert lines[math.ceil(len(lines) * 0.9) - 1] <= 25, weights[-len(weights) // 10 :]
    assert statistics.median(lines) <= 8


def test_files_are_short(modules: tuple[Module, ...]) -> None:
    long = {module.name: lines for module in modules if (lines := len(module.text.splitlines())) > 500}
    assert not long, long


BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)


def depth(node: ast.AST, above: int = 0) -> int:
    """Return how deep a function's blocks lie; an elif lies no deeper, an inner function counts alone."""
    deepest = above
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, SCOPES):
            chained = isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]
            deepest = max(deepest, depth(child, above + (isinstance(child, BLOCKS) and not chained)))
    return deepest


def test_blocks_lie_at_most_three_deep(modules: tuple[Module, ...]) -> None:
    every = [(module, function) for module in modules for function in functions(module)]
    deep = [f"{module.name}.{function.name}" for module, function in every if depth(function) > 3]
    assert len(deep) <= 0.015 * len(every), deep


# Faults


def broad(module: Module) -> Iterator[str]:
    """Yield the handlers that take any exception and keep it."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ExceptHandler) and _takes_all(node.type) and not _raises_again(node):
            yield f"{module.path.name}:{node.lineno}"
        if isinstance(node, ast.Call) and _called(node) == "suppress" and any(map(_takes_all, node.args)):
            yield f"{module.path.name}:{node.lineno}"


def _takes_all(kind: ast.expr | None) -> bool:
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(item is None or getattr(item, "id", "") in ("Exception", "BaseException") for item in kinds)


def _raises_again(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def test_only_named_places_take_every_fault(modules: tuple[Module, ...]) -> None:
    found = [where for module in modules if module.name not in BROAD for where in broad(module)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "try: f()\nexcept Exception: pass",
        "try: f()\nexcept: pass",
        "try: f()\nexcept (OSError, BaseException) as e: g(e)",
        "try: f()\nexcept Exception as e: raise ValueError from e",
        "with suppress(Exception): f()",
    ],
)
def test_the_rule_sees_a_broad_handler(module_of: MakeModule, text: str) -> None:
    assert len(list(broad(module_of("bede.config", text)))) == 1


@pytest.mark.parametrize(
    "text", ["try: f()\nexcept BaseException:\n    g()\n    raise", "try: f()\nexcept OSError: pass"]
)
def test_the_rule_lets_a_narrow_handler_pass(module_of: MakeModule, text: str) -> None:
    assert list(broad(module_of("bede.config", text))) == []
