"""Folders of agents that this user may not look into: told, with the reason, wherever they are; absent ones are not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from contracts.written import NAMES, place, session, take

from bede.intake.running import transcripts
from bede.sources import AGENTS
from bede.sources.port import World

ROOT = Path(__file__).resolve().parents[2]
IS_ROOT = getattr(os, "geteuid", lambda: 1)() == 0
#: Root may look everywhere, but without these two powers.
HUMBLE = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if IS_ROOT else []

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's"),
    pytest.mark.skipif(IS_ROOT and shutil.which("setpriv") is None, reason="root may look everywhere"),
]
#: What is closed, and whose it is.
CLOSED = [
    ("claude-code", ".claude"),
    ("claude-code", ".claude/projects/y"),
    ("claude-code", ".config/claude"),
    ("codex", ".codex"),
    ("codex", ".codex/sessions/2026/01"),
    ("codex", ".codex/archived_sessions"),
    ("opencode", ".local/share/opencode"),
    ("opencode", ".local/share/opencode/storage/session/prj"),
    ("opencode", ".local/share/opencode/project"),
    ("omp", ".omp"),
    ("omp", ".omp/profiles"),
    ("omp", ".omp/agent/sessions/x"),
    ("pi", ".pi/agent"),
    ("pi", ".pi/agent/sessions/x"),
    ("antigravity", ".gemini"),
    ("antigravity", ".gemini/antigravity/brain"),
    ("antigravity", ".gemini/antigravity/brain/c1"),
    ("cursor", ".cursor/projects"),
    ("cursor", ".cursor/projects/x/agent-transcripts/one"),
    ("cursor", ".config/Cursor/User/globalStorage"),
    ("copilot", ".copilot"),
    ("copilot", ".copilot/session-state/s"),
    ("copilot", ".config/Code/User/workspaceStorage/abc/chatSessions"),
    ("gemini-cli", ".gemini/tmp"),
    ("gemini-cli", ".gemini/tmp/x/chats/c"),
]
SCRIPT = """
import json, os, sys
from pathlib import Path
from bede.intake.running import transcripts
from bede.sources.port import World
home, found = Path(sys.argv[1]), []
for agent, name in json.load(sys.stdin):
    folder, world = home / name, World({}, home, "linux")
    folder.chmod(0)
    try:
        paths = [str(path) for _, path in transcripts([agent], world)]
    finally:
        folder.chmod(0o700)
    found.append([paths, {str(place): reason for place, reason in world.refused.items()}])
print(json.dumps(found))
"""


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """No agent's own variables lead anywhere else."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def _run(words: list[str], **more) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(str(ROOT / name) for name in ("core", "cli"))
    told = {"env": os.environ | {"PYTHONPATH": path}, "capture_output": True, "text": True, "timeout": 120}
    return subprocess.run([*HUMBLE, sys.executable, *words], check=False, **told, **more)


def test_each_agents_closed_folders_are_told(home):
    for _, name in CLOSED:
        (home / name).mkdir(parents=True, exist_ok=True)
    done = _run(["-c", SCRIPT, str(home)], input=json.dumps(CLOSED))
    assert done.returncode == 0, done.stderr
    told = dict(zip(map(tuple, CLOSED), json.loads(done.stdout), strict=True))
    assert told == {(agent, name): [[], {str(home / name): "Permission denied"}] for agent, name in CLOSED}


def test_what_is_open_or_not_there_is_not_told(home, tmp_path):
    for _, name in CLOSED:
        (home / name).mkdir(parents=True, exist_ok=True)
    (home / ".claude" / "projects" / "loop").symlink_to(home / ".claude" / "projects" / "loop")
    (home / ".gemini" / "tmp" / "gone").symlink_to(tmp_path / "nowhere")
    (home / ".pi" / "agent" / "sessions" / "loop").symlink_to(home / ".pi" / "agent" / "sessions" / "loop")
    odd = {"CODEX_HOME": "/" + "x" * 5000, "CLAUDE_CONFIG_DIR": "\0", "COPILOT_HOME": str(home / ".claude" / "a" / "b")}
    for world in (World({}, home, "linux"), World(odd, home, "linux"), World({}, tmp_path / "no", "darwin")):
        assert list(transcripts(AGENTS, world)) == []
        assert world.refused == {}


def test_a_run_tells_closed_folders_as_it_tells_files(home, project, context):
    place(home, "s").write_bytes(session("s", project, 2))
    closed = place(home, "t", "-closed").parent
    place(home, "t", "-closed").write_bytes(session("t", project, 2))
    context.close()
    closed.chmod(0)
    try:
        done = _run(["-m", "bede_cli", "ingest", "--json"], cwd=project)
        told = json.loads(done.stdout)
        assert (done.returncode, told["files"], told["warnings"]) == (30, {"read": 1}, [])
        message = f"cannot look into {closed}: Permission denied"
        assert told["unreadable"] == [{"path": str(closed), "code": "bad_source", "message": message}]
        quiet = _run(["-m", "bede_cli", "ingest", "--quiet"], cwd=project)
        assert (quiet.returncode, quiet.stdout) == (30, "")
        everywhere = json.loads(_run(["-m", "bede_cli", "ingest", "--all", "--json"], cwd=project).stdout)
        assert [item["path"] for item in everywhere["unreadable"]] == [str(closed)]
        checks = json.loads(_run(["-m", "bede_cli", "doctor", "--json"], cwd=project).stdout)["checks"]
        looked = [(each["outcome"], each["detail"]) for each in checks if each["name"] == "transcripts"]
        assert looked == [("warn", f"cannot look into {closed}: Permission denied")]
    finally:
        closed.chmod(0o700)
    done = _run(["-m", "bede_cli", "ingest", "--json"], cwd=project)
    assert (done.returncode, json.loads(done.stdout)["files"]) == (0, {"read": 1, "unchanged": 1})


def test_of_many_closed_folders_the_first_are_told_and_the_others_counted(home, project, context):
    place(home, "s").write_bytes(session("s", project, 2))
    context.close()
    closed = [home / ".claude" / "projects" / f"closed-{number:03}" for number in range(50)]
    for folder in closed:
        folder.mkdir(mode=0)
    try:
        done = _run(["-m", "bede_cli", "ingest", "--json"], cwd=project)
    finally:
        for folder in closed:
            folder.chmod(0o700)
    told = json.loads(done.stdout)
    assert [item["path"] for item in told["unreadable"]] == [str(folder) for folder in closed[:20]]
    assert (done.returncode, told["warnings"]) == (30, ["30 more folders cannot be looked into"])
    assert take(context).files == {"unchanged": 1}
