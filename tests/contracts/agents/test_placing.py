"""What an installer puts where for every agent: read back as the agent would, and taken out again without a trace."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from bede import agents
from bede.agents import placing
from bede.agents.wiring import Machine, Scope, System, Wish
from bede.splice import plan

BEDE = "/home/dev/.local/bin/bede"
NAMES = list(agents.AGENTS)
#: Agent → file of its server, of its hooks; below the user's home, then below a project.
USER = {
    "claude-code": (".claude.json", ".claude/settings.json"),
    "codex": (".codex/config.toml", ".codex/hooks.json"),
    "cursor": (".cursor/mcp.json", ".cursor/hooks.json"),
    "copilot": (".copilot/mcp-config.json", ".copilot/hooks/bede.json"),
    "vscode": (".config/Code/User/mcp.json", ".copilot/hooks/bede.json"),
    "antigravity": (".gemini/config/mcp_config.json", ".gemini/config/hooks.json"),
    "gemini-cli": (".gemini/settings.json", ".gemini/settings.json"),
    "opencode": (".config/opencode/opencode.json", ".config/opencode/plugins/bede.js"),
    "pi": (".pi/agent/mcp.json", ".pi/agent/extensions/bede.ts"),
    "omp": (".omp/agent/mcp.json", ".omp/agent/extensions/bede.ts"),
}
PROJECT = {
    "claude-code": (".mcp.json", ".claude/settings.json"),
    "codex": (".codex/config.toml", ".codex/hooks.json"),
    "cursor": (".cursor/mcp.json", ".cursor/hooks.json"),
    "copilot": (".github/mcp.json", ".github/hooks/bede.json"),
    "vscode": (".vscode/mcp.json", ".github/hooks/bede.json"),
    "antigravity": (".agents/mcp_config.json", ".agents/hooks.json"),
    "gemini-cli": (".gemini/settings.json", ".gemini/settings.json"),
    "opencode": ("opencode.json", ".opencode/plugins/bede.js"),
    "pi": (".pi/mcp.json", ".pi/extensions/bede.ts"),
    "omp": (".omp/mcp.json", ".omp/extensions/bede.ts"),
}
ABOVE = {"codex": ("mcp_servers",), "vscode": ("servers",), "opencode": ("mcp",)}
PLUGINS = ("opencode", "pi", "omp")


def tree(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder."""
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def run(name: str, machine: Machine, wish: Wish, *, install: bool) -> None:
    """Install or uninstall an agent's server and hooks."""
    agent = agents.load(name)
    for targets in (agent.server(machine, wish), agent.hooks(machine, wish)):
        plan.apply(plan.plan(targets, install=install))


def keys(target: Any) -> tuple[str, ...]:
    """Return where a target's only piece stands."""
    (piece,) = target.pieces
    return tuple(piece.keys)


def held(file: Path) -> Any:
    """Return what a file of configuration says."""
    text = file.read_text(encoding="utf-8")
    return tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    home = tmp_path / "machine"
    home.mkdir()
    return Machine(home)


@pytest.mark.parametrize("scope", ["user", "project"])
@pytest.mark.parametrize("name", NAMES)
def test_three_installs_are_one_and_an_uninstall_leaves_nothing(
    name: str, scope: Scope, machine: Machine, tmp_path: Path
) -> None:
    root = tmp_path / "project"
    root.mkdir()
    wish = Wish([BEDE], scope, root)
    base = machine.home if scope == "user" else root
    run(name, machine, wish, install=True)
    once = tree(base)
    assert once.keys() == set((USER if scope == "user" else PROJECT)[name])
    run(name, machine, wish, install=True)
    run(name, machine, wish, install=True)
    assert tree(base) == once
    run(name, machine, wish, install=False)
    assert tree(base) == {}


@pytest.mark.parametrize("scope", ["user", "project"])
@pytest.mark.parametrize("name", NAMES)
def test_the_server_is_started_by_name(name: str, scope: Scope, machine: Machine, tmp_path: Path) -> None:
    wish = Wish([BEDE], scope, tmp_path)
    (target,) = agents.load(name).server(machine, wish)
    plan.apply(plan.plan([target], install=True))
    entry = held(target.file)
    for key in (*ABOVE.get(name, ("mcpServers",)), "bede"):
        entry = entry[key]
    words = entry["command"] if name == "opencode" else [entry["command"], *entry["args"]]
    if name == "claude-code" and scope == "project":
        assert words == [BEDE, "serve"], "others read this file too"
    else:
        assert words[:4] == [BEDE, "serve", "--agent-id", name]
    assert not {"trust", "alwaysAllow", "autoApprove", "default_tools_approval_mode"} & entry.keys()


@pytest.mark.parametrize("scope", ["user", "project"])
@pytest.mark.parametrize("name", [name for name in NAMES if name not in PLUGINS])
def test_every_hook_calls_us_for_a_moment_that_is_known(
    name: str, scope: Scope, machine: Machine, tmp_path: Path
) -> None:
    agent: Any = agents.load(name)
    targets = agent.hooks(machine, Wish(["/opt/some tools/bede"], scope, tmp_path))
    plan.apply(plan.plan(targets, install=True))
    said = held(targets[0].file)
    events = {
        key: value
        for key, value in (said["bede"] if name == "antigravity" else said["hooks"]).items()
        if value is not True
    }
    known = {event.lower() for event in agent.MOMENTS} | ({"sessionend"} if name == "vscode" else set())
    assert len(events) >= 4
    spelled = "copilot" if name == "vscode" else name
    for event, (group,) in events.items():
        assert event.lower() in known
        handlers = group.get("hooks", [group])
        for handler in handlers:
            line = handler.get("command") or handler["bash"].removesuffix(" || true")
            assert shlex.split(line) == ["/opt/some tools/bede", "hook", event, "--agent", spelled]
            seconds = (handler.get("timeout") or handler["timeoutSec"]) / (1000 if name == "gemini-cli" else 1)
            assert 1 <= seconds <= 10
        if "tool" in event.lower():
            for tool in agent.TOOLS:
                assert re.fullmatch(group["matcher"], tool), (event, tool)
        else:
            assert "matcher" not in group


def test_claude_takes_a_matcher_of_plain_names_for_a_list(machine: Machine) -> None:
    (target,) = agents.load("claude-code").hooks(machine, Wish([BEDE]))
    plan.apply(plan.plan([target], install=True))
    assert re.fullmatch(r"[\w|]+", held(target.file)["hooks"]["PreToolUse"][0]["matcher"])


@pytest.mark.parametrize("name", NAMES)
def test_no_folder_is_made_for_an_agent_that_nobody_named(name: str, machine: Machine) -> None:
    wish = Wish([BEDE], named=False)
    agent = agents.load(name)
    assert agent.found(machine) == []
    assert agent.hooks(machine, wish) == []
    for target in agent.server(machine, wish):
        assert target.file.parent == machine.home
    here = Machine(machine.home, {}, "Linux", lambda program: f"/usr/bin/{program}")
    assert agent.found(here)


@pytest.mark.parametrize(
    ("name", "around", "system", "files"),
    [
        ("claude-code", {"CLAUDE_CONFIG_DIR": "/c"}, "Linux", ("/c/.claude.json", "/c/settings.json")),
        ("codex", {"CODEX_HOME": "/c"}, "Linux", ("/c/config.toml", "/c/hooks.json")),
        ("copilot", {"COPILOT_HOME": "/c"}, "Linux", ("/c/mcp-config.json", "/c/hooks/bede.json")),
        ("vscode", {"XDG_CONFIG_HOME": "/c"}, "Linux", ("/c/Code/User/mcp.json",)),
        ("vscode", {}, "Darwin", ("~/Library/Application Support/Code/User/mcp.json",)),
        ("vscode", {"APPDATA": "/c"}, "Windows", ("/c/Code/User/mcp.json",)),
        ("gemini-cli", {"GEMINI_CLI_HOME": "/c"}, "Linux", ("/c/.gemini/settings.json",)),
        ("antigravity", {"GEMINI_CLI_HOME": "/c"}, "Linux", ("/c/.gemini/config/mcp_config.json",)),
        ("opencode", {"XDG_CONFIG_HOME": "/c"}, "Linux", ("/c/opencode/opencode.json", "/c/opencode/plugins/bede.js")),
        ("pi", {"PI_CODING_AGENT_DIR": "/c"}, "Linux", ("/c/mcp.json", "/c/extensions/bede.ts")),
        ("omp", {"OMP_CODING_AGENT_DIR": "/c"}, "Linux", ("/c/mcp.json", "/c/extensions/bede.ts")),
        ("omp", {"PI_CODING_AGENT_DIR": "~/c"}, "Linux", ("~/c/mcp.json", "~/c/extensions/bede.ts")),
    ],
)
def test_agents_that_were_moved(
    name: str, around: dict[str, str], system: System, files: tuple[str, ...], machine: Machine
) -> None:
    moved = Machine(machine.home, around, system)
    agent = agents.load(name)
    wish = Wish([BEDE])
    targets = [*agent.server(moved, wish), *agent.hooks(moved, wish)]
    wanted = [Path(file.replace("~", str(machine.home))) for file in files]
    assert [target.file for target in targets][: len(files)] == wanted


def test_each_edition_of_vscode_that_is_here(machine: Machine) -> None:
    for edition in ("Code - Insiders", "VSCodium"):
        (machine.home / ".config" / edition / "User").mkdir(parents=True)
    vscode = agents.load("vscode")
    assert len(vscode.found(machine)) == 2
    assert [target.file.parts[-3] for target in vscode.server(machine, Wish([BEDE]))] == ["Code - Insiders", "VSCodium"]


def test_opencodes_file_keeps_its_form_and_its_name(machine: Machine) -> None:
    folder = machine.home / ".config" / "opencode"
    folder.mkdir(parents=True)
    file = folder / "opencode.jsonc"
    newer = '{\n  // mine\n  "mcp": {\n    "servers": {"other": {"type": "local", "command": ["x"]}}\n  }\n}\n'
    older = '{\n  // mine\n  "mcp": {\n    "servers": {"type": "local", "command": ["a server of that name"]}\n  }\n}\n'
    for text, above in ((newer, ("mcp", "servers", "bede")), ('{"mcp": {"x": {"type": "local"}}}', ("mcp", "bede"))):
        file.write_text(text, encoding="utf-8")
        (target,) = agents.load("opencode").server(machine, Wish([BEDE]))
        assert (target.file, keys(target)) == (file, above)
        plan.apply(plan.plan([target], install=True))
        plan.apply(plan.plan([target], install=False))
        assert file.read_text(encoding="utf-8") == text
    file.write_text(older, encoding="utf-8")
    (target,) = agents.load("opencode").server(machine, Wish([BEDE]))
    assert keys(target) == ("mcp", "bede")


def test_nothing_is_approved_unless_asked_for_and_then_where_it_can_be(machine: Machine) -> None:
    wish = Wish([BEDE], approve=True)
    run("codex", machine, wish, install=True)
    assert held(machine.home / ".codex/config.toml")["mcp_servers"]["bede"]["default_tools_approval_mode"] == "approve"
    run("gemini-cli", machine, wish, install=True)
    assert held(machine.home / ".gemini/settings.json")["mcpServers"]["bede"]["trust"] is True
    run("claude-code", machine, wish, install=True)
    assert held(machine.home / ".claude/settings.json")["permissions"]["allow"] == ["mcp__bede"]
    for name in ("codex", "gemini-cli", "claude-code"):
        run(name, machine, wish, install=False)
    assert tree(machine.home) == {}


def test_a_users_own_variables_survive_in_our_entry(machine: Machine) -> None:
    run("claude-code", machine, Wish([BEDE]), install=True)
    file = machine.home / ".claude.json"
    said = held(file)
    said["mcpServers"]["bede"]["env"] = {"BEDE_DIR": "/x"}
    file.write_text(json.dumps(said), encoding="utf-8")
    run("claude-code", machine, Wish(["/new/place/bede"]), install=True)
    entry = held(file)["mcpServers"]["bede"]
    assert (entry["command"], entry["env"]) == ("/new/place/bede", {"BEDE_DIR": "/x"})


# Ours and theirs


@pytest.mark.parametrize(
    "line",
    [
        "bede hook Stop --agent codex",
        "/home/dev/.local/bin/bede hook Stop --agent codex",
        "'/opt/a b/bin/bede' hook Stop --agent codex",
        '"C:/Program Files/bede.exe" hook Stop --agent codex',
        "C:\\Users\\dev\\bede.EXE hook Stop --agent codex",
        "/usr/bin/python3 -m bede_cli hook Stop --agent codex || true",
        "& 'C:\\x\\bede.exe' hook Stop --agent codex; exit 0",
    ],
)
def test_our_hooks_are_known_again(line: str) -> None:
    is_ours = placing.ours("codex")
    assert is_ours({"type": "command", "command": line})
    assert is_ours({"hooks": [{"command": line}, {"bash": line, "powershell": line}]})
    assert not placing.ours("cursor")({"command": line})
    assert not is_ours({"hooks": [{"command": line}, {"command": "make test"}]})


@pytest.mark.parametrize(
    "item",
    [
        {"command": "notbede hook Stop --agent codex"},
        {"command": "bede hook Stop --agent codex-two"},
        {"command": "bede hook --agent codex"},
        {"command": "bede serve --agent-id codex"},
        {"command": "echo bede; hook Stop --agent codex"},
        {"command": 7},
        {"hooks": []},
        {"hooks": None},
        {},
        None,
        "bede hook Stop --agent codex",
    ],
)
def test_nothing_else_is_taken_for_ours(item: Any) -> None:
    assert not placing.ours("codex")(item)


def test_copilots_command_cannot_fail_and_hands_the_answer_on(machine: Machine, tmp_path: Path) -> None:
    gone = tmp_path / "it's gone" / "bede"
    (target,) = agents.load("copilot").hooks(machine, Wish([str(gone)]))
    plan.apply(plan.plan([target], install=True))
    line = held(target.file)["hooks"]["preToolUse"][0]["bash"]
    ran = subprocess.run(["sh", "-c", line], input=b"{}", capture_output=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, b"")
    gone.parent.mkdir()
    gone.write_text("#!/bin/sh\ncat\nexit 2\n", encoding="utf-8")
    gone.chmod(0o755)
    ran = subprocess.run(["sh", "-c", line], input=b'{"a": 1}', capture_output=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, b'{"a": 1}')
