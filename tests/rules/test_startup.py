"""What an everyday call may load: every call pays, and names of modules tell surer than a stopwatch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import surroundings

#: Each of these costs more than a whole everyday call may.
HEAVY = {
    "asyncio",
    "bede_cli.serve",
    "importlib.metadata",
    "mcp",
    "mcp_types",
    "numpy",
    "platformdirs",
    "pydantic",
    "requests",
    "rich",
    "ssl",
    "tiktoken",
    "tomlkit",
}

#: Runs the command in this very interpreter, and tells on the last line of stderr what was loaded on the way.
PROBE = """
import sys
before = set(sys.modules)
from bede_cli.__main__ import main
sys.argv = ["bede", *sys.argv[1:]]
try:
    status = main()
except SystemExit as end:
    status = end.code
import json
print(json.dumps([status or 0, sorted(set(sys.modules) - before)]), file=sys.stderr)
"""


def loaded(*arguments: str) -> set[str]:
    """Run a command, and return the names of the modules that it brought in."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROBE, *arguments],
        env=surroundings(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *said, last = done.stderr.splitlines()
    status, names = json.loads(last)
    assert status == 0, "\n".join(said)
    return set(names)


def verbs(names: set[str]) -> set[str]:
    """Return the verbs among the names of modules."""
    return {name.rpartition(".")[2] for name in names if name.startswith("bede.operations.")}


def test_the_probe_sees_what_is_loaded() -> None:
    names = loaded("--version")
    assert {"bede", "bede_cli.__main__"} <= names


def test_version_loads_nothing_heavy_and_no_repository() -> None:
    names = loaded("--version")
    assert sorted(names & (HEAVY | {"sqlite3", "typer"})) == []
    assert not verbs(names)


STORE = ("store", "--task-id", "T-1", "--agent-id", "ada", "--kind", "note", "--summary")
SUMMARY = "The parser keeps comments in front of the first section"


#: What no everyday call needs, nor what it needs: a few thousandths of a second each, or a whole room of the library.
NEEDLESS = HEAVY | {
    "ast",
    "base64",
    "copy",
    "dataclasses",
    "decimal",
    "difflib",
    "inspect",
    "locale",
    "platform",
    "random",
    "shutil",
    "signal",
    "subprocess",
    "tempfile",
    "textwrap",
    "tomllib",
    "uuid",
}
#: The verb that starts another program, and tells of it.
RUNS = ("auto", "--task-id", "T-1", "--agent-id", "ada", "--", sys.executable, "-c", "")


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("status", ("status",)),
        ("search", ("search", "parser")),
        ("log", ("log",)),
        ("fork", ("fork", "idea")),
        ("store", (*STORE, SUMMARY, "--learnings", "A blank line ends a comment")),
        ("ingest", ("ingest",)),
        ("auto", RUNS),
    ],
)
def test_a_verb_loads_itself_and_nothing_heavy(project: Path, verb: str, arguments: tuple[str, ...]) -> None:
    names = loaded(*arguments)
    heavy = sorted(names & (HEAVY if verb == "auto" else NEEDLESS))
    assert not heavy, heavy
    assert verbs(names) == {verb}


#: What need not be loaded at the end of a turn: parsers, manuals, and whatever only another call is for. A room stands
#: for all in it.
UNNEEDED = NEEDLESS | {
    "bede.engines",
    "bede.intake.escrow",
    "bede.repository.registry",
    "bede.repository.verify",
    "bede.schemas",
    "bede_cli.manual",
    "bede_cli.pages",
    "bede_cli.parser",
    "click",
    "lzma",
    "typer",
    "zstandard",
}


def test_ingesting_a_turn_loads_its_own_format_and_no_parser(project: Path, home: Path) -> None:
    folder = home / ".claude" / "projects" / "p"
    folder.mkdir(parents=True)
    said = {"type": "user", "sessionId": "s-1", "uuid": "u-1", "cwd": str(project), "timestamp": "2026-11-30T09:00:00Z"}
    said["message"] = {"role": "user", "content": "keep the comments"}  # type: ignore[assignment]
    (folder / "s-1.jsonl").write_text(json.dumps(said) + "\n", encoding="utf-8")
    names = loaded("ingest", "--quiet")
    slow = sorted(name for name in names if any(name == one or name.startswith(one + ".") for one in UNNEEDED))
    assert slow == []
    formats = {name.split(".")[2] for name in names if name.startswith("bede.sources.")}
    assert formats == {"claude", "homes", "jsonl", "kept", "parsed", "port", "turns"}
    assert {"typer", "bede_cli.parser"} <= loaded("ingest", "--help")
