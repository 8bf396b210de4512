"""What a hook before an edit may load, by name: an agent waits for it, and every module is waited for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import surroundings
from faces.hooking import AFTER, BEFORE, EVENTS, leases, telling
from rules.test_startup import HEAVY

#: Each costs more than the hook has time for, or brings something along that does. A room stands for all in it.
SLOW = HEAVY | {
    "argparse",
    "ast",
    "bede.answers",
    "bede.config",
    "bede.context",
    "bede.identity",
    "bede.operation",
    "bede.operations",
    "bede.projections",
    "bede.records",
    "bede.redact",
    "bede.repository",
    "bede.splice",
    "bede_cli.app",
    "bede_cli.exits",
    "click",
    "cryptography",
    "dataclasses",
    "hashlib",
    "inspect",
    "logging",
    "pathlib",
    "signal",
    "subprocess",
    "threading",
    "tomllib",
    "typer",
    "typing",
    "urllib",
    "zstandard",
}

#: Runs the command in this very interpreter, and writes into a file what was loaded on the way.
PROBE = """
import sys
before = set(sys.modules)
from bede_cli.__main__ import main
status = main(sys.argv[2:])
loaded = sorted(set(sys.modules) - before)
import json
with open(sys.argv[1], "w") as file:
    json.dump([status, loaded], file)
"""


def loaded(tmp_path: Path, words: list[str], body: str) -> tuple[set[str], str]:
    """Tell the hook of something, and return the modules that it brought in, and what it said."""
    told = tmp_path / "loaded.json"
    command = [sys.executable, "-P", "-S", "-c", PROBE, str(told), "hook", *words]
    env = surroundings({"BEDE_HOOK_PATIENCE": "60"})
    done = subprocess.run(command, input=body.encode(), env=env, capture_output=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    status, names = json.loads(told.read_text())
    assert status == 0
    return set(names), done.stdout.decode()


def slow(names: set[str]) -> list[str]:
    """Return those modules that are too slow, or in a room that is."""
    return sorted(name for name in names if any(name == one or name.startswith(one + ".") for one in SLOW))


@pytest.mark.parametrize("agent", EVENTS)
def test_a_hook_before_an_edit_loads_nothing_slow(agent: str, project: Path, tmp_path: Path) -> None:
    names, out = loaded(tmp_path, *telling(agent, BEFORE, "s1", project))
    assert slow(names) == []
    assert {"bede.hooks.claiming", "sqlite3"} <= names and leases(project)[0][1] == "s1"
    others = {f"bede.agents.{each}" for each in ("claude", "codex", "cursor", "copilot", "gemini", "opencode")}
    assert len(names & others) <= 1
    names, out = loaded(tmp_path, *telling(agent, BEFORE, "s2", project))
    assert slow(names) == [] and "held by" in out


def test_nor_does_one_after_it_or_outside_of_any_project(project: Path, tmp_path: Path) -> None:
    names, out = loaded(tmp_path, *telling("claude-code", AFTER, "s1", project))
    assert slow(names) == [] and "bede.leases.door" in names
    names, out = loaded(tmp_path, *telling("claude-code", BEFORE, "s1", tmp_path))
    assert slow(names) == [] and "sqlite3" not in names and out == ""


def test_the_probe_sees_what_is_slow(project: Path, tmp_path: Path) -> None:
    words, body = telling("claude-code", "prompt", "s1", project)
    names, _ = loaded(tmp_path, words, body)
    assert {"bede.repository", "pathlib"} <= set(slow(names))
    assert not names & {"typer", "click", "rich", "pydantic", "mcp", "numpy", "tiktoken"}


def test_what_is_said_twice_says_the_same() -> None:
    from bede import config, places
    from bede.hooks import ground, switches
    from bede.leases import door
    from bede.repository import schema

    assert (ground.FOLDER, ground.DATABASE) == (places.FOLDER, places.DATABASE)
    claims = config.declared("hooks.claims")
    assert (switches.VARIABLE, switches.OFF, claims.default) == (claims.variable, config.OFF, True)
    file = config.user_file({"HOME": "/home/ada"})
    folders = switches._folders(ground.Project("/p", "/p/.bede", "/p", "/p"), {"HOME": "/home/ada"})
    assert [Path(folder) / switches.FILE for folder in folders] == [Path("/p/.bede/config.toml"), file]
    assert (door.APPLICATION_ID, door.FORMAT) == (schema.APPLICATION_ID, schema.FORMAT)
