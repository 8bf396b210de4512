"""`attach` and `detach`: every agent, any home; three times equals once, and afterwards nothing ever happened."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import tomllib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bede import agents
from bede.context import Context
from bede.errors import RepositoryNotFound, UsageError
from bede.installing import command_of
from bede.operations import load
from bede_cli import grammar

posix = pytest.mark.skipif(os.name != "posix", reason="Windows has neither these modes nor links for everyone")

#: What leads an agent elsewhere; a test has a home of its own.
_LEADING = (
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "COPILOT_HOME",
    "PI_CODING_AGENT_DIR",
    "OPENCODE_CONFIG",
    "VSCODE_APPDATA",
)


@pytest.fixture(autouse=True)
def machine(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what the machine itself has of agents."""
    for name in _LEADING:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    (home / ".local/share").mkdir(parents=True)


def call(verb: str, *words: Any, **options: Any) -> Any:
    """Call a verb where the test works."""
    with closing(Context()) as context:
        return load(verb).function(context, *words, **options)


def everything(*roots: Path) -> dict[str, tuple[Any, ...]]:
    """Return all that lies below some folders: bytes, modes, links."""
    found: dict[str, tuple[Any, ...]] = {}
    for path in (path for root in roots for path in sorted(root.rglob("*"))):
        mode = stat.S_IMODE(path.lstat().st_mode)
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path)] = (mode, content)
    return found


def outcomes(result: Any) -> dict[str, str]:
    """Return what became of each agent."""
    return {item.agent: item.outcome for item in result.agents}


@pytest.mark.parametrize("name", agents.AGENTS)
@pytest.mark.parametrize("scope", ["user", "project"])
def test_three_times_equals_once_and_detach_leaves_no_trace(home: Path, name: str, scope: Any) -> None:
    (Path.cwd() / ".git").mkdir()
    before = everything(home, Path.cwd())
    first = call("attach", [name], scope=scope)
    once = everything(home, Path.cwd())
    [done] = first.agents
    assert first.exits == 0 and done.outcome in ("attached", "absent")
    assert (done.outcome == "attached") == (once != before) and bool(done.files) == (once != before)
    for _ in range(2):
        assert set(outcomes(call("attach", [name], scope=scope)).values()) <= {"already", "absent"}
    assert everything(home, Path.cwd()) == once
    gone = call("detach", [name])
    assert outcomes(gone) == {name: "removed" if done.outcome == "attached" else "absent"}
    assert everything(home, Path.cwd()) == before
    assert outcomes(call("detach", ["all"]))[name] == "absent"


def test_the_files_of_the_project_that_is_named_are_meant(home: Path, project: Path, tmp_path: Path) -> None:
    (elsewhere := tmp_path / "elsewhere" / ".git").mkdir(parents=True)
    with closing(Context(directory=elsewhere.parent, project=project.name)) as context:
        [done] = load("attach").function(context, ["claude-code"], scope="project").agents
    assert done.outcome == "attached" and all(Path(file.path).is_relative_to(project) for file in done.files)
    assert sorted(elsewhere.parent.iterdir()) == [elsewhere]


def here(result: Any) -> dict[str, str]:
    """Return what became of the agents that were not skipped."""
    return {name: outcome for name, outcome in outcomes(result).items() if outcome != "skipped"}


@pytest.mark.parametrize(("verb", "half"), [("attach", {"agents": ["all"]}), ("install-hooks", {})])
def test_who_is_not_here_is_told_and_why(home: Path, verb: str, half: dict[str, Any]) -> None:
    nobody = call(verb, **half)
    assert set(outcomes(nobody).values()) == {"skipped"} and [*outcomes(nobody)] == [*agents.AGENTS]
    assert nobody.warnings[-1].startswith("no agent was found") and nobody.exits == 0
    (home / ".gemini/antigravity").mkdir(parents=True)  # It is here, and never made the folder of its settings.
    result = call(verb, **half)
    [bare] = [item for item in result.agents if item.agent == "antigravity"]
    assert (bare.outcome, bare.reason) == ("skipped", "no folder of its own yet") and bare.found
    assert verb in bare.hint and "antigravity" in bare.hint
    assert not any("no agent was found" in said for said in result.warnings)
    missing = [item for item in result.agents if item.agent == "cursor"]
    assert [item.reason for item in missing] == ["no sign of it on this machine"]
    (home / ".gemini/antigravity").rmdir()
    (home / ".gemini/config").mkdir()
    done = call(verb, **half)
    assert outcomes(done)["antigravity"] in ("attached", "installed") and done.exits == 0


def test_all_is_those_that_are_here(home: Path) -> None:
    assert call("attach", ["all"]).warnings[-1].startswith("no agent was found")
    for folder in (".claude", ".codex"):
        (home / folder).mkdir()
    before = everything(home)
    assert here(call("attach", ["all"])) == {"claude-code": "attached", "codex": "attached"}
    (home / ".claude").rmdir()
    assert outcomes(call("detach", ["all"]))["claude-code"] == "removed"
    (home / ".claude").mkdir()
    assert everything(home) == before


def test_others_stay_and_what_a_user_added_stays(home: Path) -> None:
    file, table = home / ".claude.json", home / ".codex/config.toml"
    table.parent.mkdir()
    file.write_text('{"numStartups": 7, "mcpServers": {"other": {"command": "x"}}}')
    table.write_text('model = "m" # mine\n\n[mcp_servers.other]\ncommand = "x"')
    before = everything(home)
    call("attach", ["claude-code", "codex"])
    found = json.loads(file.read_text())
    assert found["mcpServers"]["other"] == {"command": "x"} and found["numStartups"] == 7
    assert found["mcpServers"]["bede"]["args"][-3:] == ["serve", "--agent-id", "claude-code"]
    found["mcpServers"]["bede"]["env"] = {"BEDE_BRANCH": "x"}
    file.write_text(json.dumps(found))
    assert outcomes(call("attach", ["claude-code"])) == {"claude-code": "already"}
    assert json.loads(file.read_text())["mcpServers"]["bede"]["env"] == {"BEDE_BRANCH": "x"}
    assert tomllib.loads(table.read_text())["mcp_servers"]["bede"]["args"][-1] == "codex"
    call("detach", ["all"])
    assert everything(home) == before


def test_a_stale_entry_is_changed(home: Path) -> None:
    (home / ".claude.json").write_text('{"mcpServers": {"bede": {"command": "/gone/bede", "env": {"A": "b"}}}}')
    [done] = call("attach", ["claude-code"]).agents
    entry = json.loads((home / ".claude.json").read_text())["mcpServers"]["bede"]
    assert done.outcome == "changed" and entry["env"] == {"A": "b"} and entry["command"] != "/gone/bede"


def test_one_refusal_does_not_stop_the_others(home: Path) -> None:
    (home / ".claude.json").write_text("{ broken")
    result = call("attach", ["claude-code", "cursor"])
    assert outcomes(result) == {"claude-code": "refused", "cursor": "attached"} and result.exits == 30
    assert ".claude.json" in result.agents[0].reason and '"mcpServers"' in result.agents[0].hint
    assert (home / ".claude.json").read_text() == "{ broken"
    gone = call("detach", ["all"])
    assert gone.exits == 0 and outcomes(gone)["claude-code"] == "absent", "a broken file without us needs no refusal"
    (home / ".claude.json").write_text('{ broken "bede"')
    assert outcomes(call("detach", ["claude-code"])) == {"claude-code": "refused"}


def test_a_dry_run_tells_and_does_nothing(home: Path) -> None:
    (home / ".claude.json").write_text('{\n  "a": "ghp_' + "Aa1" * 12 + '"\n}\n')
    before = everything(home)
    result = call("attach", ["claude-code", "codex"], dry_run=True)
    assert everything(home) == before and result.dry_run
    first, second = (item.files[0].diff for item in result.agents)
    assert '+    "bede": {\n' in first and "ghp_Aa1" not in first
    assert second.startswith("--- " + os.devnull) and "+[mcp_servers.bede]\n" in second
    call("attach", ["claude-code"])
    undo = call("detach", ["claude-code"], dry_run=True)
    assert '-    "bede": {\n' in undo.agents[0].files[0].diff and "bede" in (home / ".claude.json").read_text()


@posix
def test_a_link_into_somebodys_dotfiles_stays_a_link(home: Path) -> None:
    (home / "dotfiles").mkdir()
    (home / "dotfiles/claude.json").write_text("{}\n")
    (home / "dotfiles/claude.json").chmod(0o600)
    (home / ".claude.json").symlink_to("dotfiles/claude.json")
    before = everything(home)
    call("attach", ["claude-code"])
    assert (home / ".claude.json").is_symlink() and "bede" in (home / "dotfiles/claude.json").read_text()
    call("detach", ["claude-code"])
    assert everything(home) == before


def test_files_that_a_team_shares_have_no_path_of_this_machine(home: Path) -> None:
    (Path.cwd() / ".git").mkdir()
    below = Path.cwd() / "src"
    below.mkdir()
    with closing(Context(directory=below)) as context:
        done = load("attach").function(context, list(agents.AGENTS), scope="project", portable=True)
    written = [path for path in Path.cwd().rglob("*") if path.is_file()]
    assert written and done.command == ("bede",)
    assert not any(str(home.parent) in path.read_text() for path in written)
    assert not any(path.is_relative_to(below) for path in written), "the root of the checkout is the place"


def test_a_project_is_needed_only_for_its_files(home: Path) -> None:
    call("attach", ["claude-code"])
    with pytest.raises(RepositoryNotFound):
        call("attach", ["claude-code"], scope="project")


def test_an_unknown_agent_is_a_usage_error_before_anything_is_done(home: Path) -> None:
    before = everything(home)
    for verb in ("attach", "detach"):
        with pytest.raises(UsageError) as caught:
            call(verb, ["claude-code", "clod"])
        assert "claude-code" in caught.value.hint
    assert everything(home) == before
    assert outcomes(call("detach", ["copilot-cli"])) == {"copilot": "absent"}


def test_an_agent_that_is_not_here_is_attached_with_a_warning(home: Path) -> None:
    [done] = call("attach", ["codex"]).agents
    assert done.outcome == "attached" and done.notes and "no sign" in done.warnings[0]
    (home / ".cursor").mkdir()
    [done] = call("attach", ["cursor"]).agents
    assert done.warnings == () and done.found == (str(home / ".cursor"),)


@posix
def test_the_command_is_the_name_that_stays(home: Path, tmp_path: Path) -> None:
    import sys

    versioned = Path(sys.executable).parent / "bede"
    shim = home / ".local/bin/bede"
    shim.parent.mkdir()
    if versioned.exists():
        shim.symlink_to(versioned)
    else:
        shim.write_text("#!/bin/sh\n")
        shim.chmod(0o755)
    assert command_of({"HOME": str(home), "PATH": "/usr/bin"}) == [str(shim)]
    shim.unlink()
    lost = command_of({"HOME": str(home), "PATH": "relative:/nowhere"})
    assert lost == ([str(versioned)] if versioned.exists() else [sys.executable, "-m", "bede_cli"])


def test_the_entry_starts_a_server(home: Path, project: Path, bede: Callable[..., Any]) -> None:
    """What was written for Claude Code is started as Claude Code would, and answers."""
    call("attach", ["claude-code"])
    entry = json.loads((home / ".claude.json").read_text())["mcpServers"]["bede"]
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}) + "\n"
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'core'}{os.pathsep}{root / 'cli'}"}
    done = subprocess.run([entry["command"], *entry["args"]], input=line.encode(), cwd=project, env=environment,
                          capture_output=True, timeout=60)  # fmt: skip
    assert json.loads(done.stdout.splitlines()[0])["result"]["serverInfo"]["name"] == "bede"


@pytest.mark.parametrize("verb", ["attach", "detach", "install-hooks", "uninstall-hooks"])
def test_the_verbs_are_this_machines_alone(verb: str) -> None:
    declared = load(verb)
    assert declared.name == verb and declared.effect == "host" and not declared.toolset and declared.idempotent
    assert [word for word in grammar.words(declared) if "--dry-run" in word.flags]


def test_a_refusal_is_status_30_on_the_command_line(home: Path, bede: Callable[..., Any]) -> None:
    (home / ".claude.json").write_text("[]")
    done = bede("attach", "claude-code", "--json")
    assert done.status == 30 and done.json()["agents"][0]["outcome"] == "refused"
    shown = bede("attach", "claude-code", "codex", "--pretty", "--dry-run")
    assert "+[mcp_servers.bede]" in shown.out
