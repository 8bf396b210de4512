"""Where agents keep their things: whoever finds none of it there need not load the format, and misses nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bede.sources import AGENTS, homes, source
from bede.sources.port import World

#: A file that each format takes for a transcript, below the home.
LEFT = {
    "claude-code": ".claude/projects/-p/7d2f0c1e-0000-4000-8000-000000000001.jsonl",
    "codex": ".codex/sessions/2026/11/30/rollout-2026-11-30T09-00-00-7d2f0c1e-0000-4000-8000-000000000001.jsonl",
    "opencode": ".local/share/opencode/opencode.db",
    "omp": ".omp/agent/sessions/-p/one.jsonl",
    "pi": ".pi/agent/sessions/-p/one.jsonl",
    "antigravity": ".gemini/antigravity/brain/7d2f0c1e-0000-4000-8000-000000000001/.system_generated/logs/overview.txt",
    "cursor": ".cursor/projects/p/agent-transcripts/7d2f0c1e-0000-4000-8000-000000000001.jsonl",
    "copilot": ".copilot/session-state/7d2f0c1e-0000-4000-8000-000000000001.jsonl",
    "gemini-cli": ".gemini/tmp/p/chats/session-2026-11-30T09-00-7d2f0c1e.json",
}


def world(home: Path, **environment: str) -> World:
    return World(environment, home, "linux")


def test_every_format_of_ours_says_where_its_agent_is_at_home() -> None:
    assert homes.HOMES.keys() == AGENTS.keys() == LEFT.keys()


@pytest.mark.parametrize("agent", AGENTS)
def test_where_nothing_is_left_nothing_is_found(agent: str, tmp_path: Path) -> None:
    assert homes.is_absent(agent, world(tmp_path))
    assert list(source(agent).find(world(tmp_path))) == []


@pytest.mark.parametrize("agent", AGENTS)
def test_what_is_found_was_not_absent(agent: str, tmp_path: Path) -> None:
    path = tmp_path / LEFT[agent]
    path.parent.mkdir(parents=True)
    path.write_bytes(b"{}\n")
    assert list(source(agent).find(world(tmp_path))) == [path]
    assert not homes.is_absent(agent, world(tmp_path))


@pytest.mark.parametrize(
    ("agent", "variable"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR"),
        ("codex", "CODEX_HOME"),
        ("opencode", "XDG_DATA_HOME"),
        ("omp", "XDG_DATA_HOME"),
        ("pi", "PI_CODING_AGENT_SESSION_DIR"),
        ("antigravity", "GEMINI_CLI_HOME"),
        ("cursor", "CURSOR_DATA_DIR"),
        ("copilot", "COPILOT_HOME"),
        ("copilot", "VSCODE_PORTABLE"),
        ("gemini-cli", "GEMINI_CLI_HOME"),
    ],
)
def test_a_place_that_a_variable_names_counts(agent: str, variable: str, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    named = world(tmp_path / "home", **{variable: str(elsewhere)})
    places = list(homes.HOMES[agent](named))
    assert homes.is_absent(agent, named)
    next(place for place in places if place.is_relative_to(elsewhere)).mkdir(parents=True)
    assert not homes.is_absent(agent, named)


def test_of_an_agent_that_another_package_knows_nobody_can_say(tmp_path: Path) -> None:
    assert not homes.is_absent("a-guest", world(tmp_path))


def test_a_name_that_no_file_can_have_is_no_place(tmp_path: Path) -> None:
    for agent in AGENTS:
        broken = dict.fromkeys(("CODEX_HOME", "CLAUDE_CONFIG_DIR", "XDG_DATA_HOME", "GEMINI_CLI_HOME"), "\x00")
        assert homes.is_absent(agent, World(broken, tmp_path, sys.platform))
