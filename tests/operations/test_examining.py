"""What `doctor` says of the coding agents on a machine: entry, hooks, approvals, and the command they call."""

from __future__ import annotations

import os
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bede import __version__, examining
from bede.context import Context
from bede.examining import examine, log_of_hooks
from bede.hooks.failing import note
from bede.operations import load

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the command is played by a shell script")


@pytest.fixture
def command(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `bede` that agents would call: it tells this version, and as a hook says what its file says."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    found = home / "bin" / "bede"
    found.parent.mkdir()
    said = f'case $1 in --version) echo "bede {__version__}";; hook) cat >/dev/null; echo "{{}}";; esac\n'
    found.write_text("#!/bin/sh\n" + said)
    found.chmod(0o755)
    monkeypatch.setattr(examining, "command_of", lambda _environment: [str(found)])
    return found


def found() -> dict[str, examining.Finding]:
    """Return the findings where the test works, by agent."""
    with closing(Context()) as context:
        return {item.agent: item for item in examine(context)}


def call(verb: str, *words: Any, **options: Any) -> None:
    with closing(Context()) as context:
        load(verb).function(context, *words, **options)


def test_an_agent_that_is_not_here_is_none_of_its_business(command: Path) -> None:
    assert found() == {}


def test_an_agent_without_anything_of_ours_is_told_how_and_is_no_fault(home: Path, command: Path) -> None:
    (home / ".claude").mkdir()
    item = found()["claude-code"]
    assert (item.outcome, item.detail) == ("ok", "server missing, hooks missing: not in use")
    assert "bede attach claude-code" in item.hint


def test_half_of_it_is_a_warning_and_all_of_it_is_fine(home: Path, command: Path) -> None:
    (home / ".claude").mkdir()
    call("attach", ["claude-code"])
    half = found()["claude-code"]
    assert (half.outcome, half.hint) == ("warn", "bede install-hooks --agent claude-code")
    call("install-hooks", agent=["claude-code"])
    whole = found()
    assert (whole["claude-code"].outcome, whole["claude-code"].detail) == ("ok", "server in place, hooks in place")
    assert whole["command"].outcome == "ok" and __version__ in whole["command"].detail


def test_what_was_written_by_another_command_is_outdated(home: Path, command: Path) -> None:
    (home / ".claude").mkdir()
    call("attach", ["claude-code"])
    settings = home / ".claude.json"
    text = settings.read_text()
    assert '"serve"' in text
    settings.write_text(text.replace('"serve"', '"mcp"'))
    item = found()["claude-code"]
    assert (item.outcome, item.detail) == ("warn", "server outdated, hooks missing")


def test_an_entry_with_toolsets_of_its_own_is_fine(home: Path, command: Path) -> None:
    for agent, folder in (("claude-code", ".claude"), ("codex", ".codex"), ("opencode", ".config/opencode")):
        (home / folder).mkdir(parents=True)
        call("attach", [agent], toolset=["memory", "coordination"])
        assert found()[agent].detail.startswith("server in place"), agent
    assert '"coordination"' in (home / ".claude.json").read_text()


@pytest.mark.parametrize(("agent", "file"), [("claude-code", ".claude.json"), ("codex", ".codex/config.toml")])
def test_an_entry_that_starts_nothing_is_a_fault(home: Path, command: Path, agent: str, file: str) -> None:
    (home / f".{agent.partition('-')[0]}").mkdir()
    call("attach", [agent])
    with closing(Context()) as context:
        (started,) = load("attach").function(context, [agent]).command[:1]
    text = (home / file).read_text()
    assert started in text
    (home / file).write_text(text.replace(started, "/opt/gone/bede"))
    item = found()[agent]
    assert (item.outcome, item.hint) == ("fail", f"bede attach {agent}")
    assert "'/opt/gone/bede', which is not there" in item.detail


def test_a_file_that_cannot_be_read_is_a_fault(home: Path, command: Path) -> None:
    (home / ".claude").mkdir()
    (home / ".claude.json").write_text('{"mcpServers": ')
    assert found()["claude-code"].outcome == "fail"


def test_codex_says_what_is_still_to_be_approved(home: Path, command: Path) -> None:
    (home / ".codex").mkdir()
    call("install-hooks", agent=["codex"])
    hint = found()["codex"].hint
    assert hint.startswith("bede attach codex; ") and "/hooks" in hint
    call("attach", ["codex"])
    assert found()["codex"].hint.startswith("Codex runs no hook") and found()["codex"].outcome == "warn"
    config = home / ".codex/config.toml"
    config.write_text(config.read_text() + '\n[hooks.state."hooks.json"]\ntrusted_hash = "sha256:00"\n')
    assert found()["codex"].outcome == "ok"


@pytest.mark.parametrize(
    ("script", "detail"),
    [
        ("exit 3", "does not start"),
        ("echo bede 0.0.1", "0.0.1"),
        (f"case $1 in --version) echo bede {__version__};; *) echo a traceback;; esac", "as a hook it says"),
    ],
)
def test_a_command_that_does_not_do_is_a_fault(home: Path, command: Path, script: str, detail: str) -> None:
    (home / ".claude").mkdir()
    call("attach", ["claude-code"])
    command.write_text(f"#!/bin/sh\n{script}\n")
    item = found()["command"]
    assert item.outcome == "fail" and detail in item.detail and item.hint


def test_failures_of_hooks_are_counted_and_their_file_is_named(project: Path, command: Path) -> None:
    assert log_of_hooks(os.environ)[1] == 0
    note("codex", "PreToolUse", ValueError("no JSON"), os.environ)
    path, count = log_of_hooks(os.environ)
    assert (count, stat.S_IMODE(path.stat().st_mode)) == (1, 0o600)
    with closing(Context()) as context:
        checks = {item.name: item for item in load("doctor").function(context).checks}
    assert checks["hooks"].outcome == "warn" and str(path) in checks["hooks"].hint
