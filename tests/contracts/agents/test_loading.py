"""What the hook pays for: the table loads no agent, an agent's file no more than it needs, an installer comes late."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from conftest import surroundings

from bede import agents
from bede.errors import UsageError

#: Modules of ours that a hook may load for an agent, beside the agent's own file.
OURS = {
    "bede",
    "bede.agents",
    "bede.agents.edits",
    "bede.agents.loose",
    "bede.agents.native",
    "bede.agents.payload",
    "bede.agents.pi",
    "bede.agents.port",
    "bede.sessions",
}


def loaded(code: str) -> set[str]:
    """Return what a process that has `json` and `re` already loads more for some code."""
    more = "print(json.dumps(sorted(set(sys.modules) - before)))"
    probe = f"import sys, json, re, os\nbefore = set(sys.modules)\n{code}\n{more}"
    ran = subprocess.run(
        [sys.executable, "-S", "-c", probe], env=surroundings(), capture_output=True, check=True, text=True
    )
    return set(json.loads(ran.stdout))


def test_the_table_loads_no_agent() -> None:
    assert loaded("import bede.agents") - {"__future__"} == {"bede", "bede.agents"}


@pytest.mark.parametrize("name", agents.AGENTS)
def test_a_hook_loads_one_agent_and_little_else(name: str) -> None:
    code = (
        "import bede.agents, bede.agents.native\nfrom bede.agents.port import Answer\n"
        f"agent = bede.agents.load({name!r})\n"
        "call = agent.read('PreToolUse', {'tool_name': 'Edit', 'tool_input': {'file_path': '/a'}}, {})\n"
        "agent.write('PreToolUse', call, Answer(reason='r')), agent.foreign({}, {}), agent.neutral('')\n"
        "bede.agents.native.is_installed('cursor', '/', {})"
    )
    assert loaded(code) - {"__future__"} <= OURS | {agents.AGENTS[name]}


def test_names_and_other_spellings() -> None:
    assert agents.named("copilot-cli") == "copilot" and agents.load("copilot-cli") is agents.load("copilot")
    assert agents.named("nobody") == ""
    for name in agents.AGENTS:
        agent = agents.load(name)
        assert (agent.NAME, bool(agent.TITLE), set(agent.NOTES)) == (name, True, {"server", "hooks"})
    with pytest.raises(UsageError, match="nobody"):
        agents.load("nobody")
