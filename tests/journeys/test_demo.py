"""The README's first command, and the commands that the README shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(os.name == "nt", reason="scripts/demo is a POSIX shell script")
def test_demo_runs_to_its_end(tmp_path):
    if not list(Path(sys.prefix).glob(".installed-*")):
        pytest.skip("these tests do not run in an environment made by scripts/test, so the demo would install one")
    environment = {**os.environ, "VENV": sys.prefix, "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    ran = subprocess.run(
        [ROOT / "scripts" / "demo"], capture_output=True, text=True, timeout=300, env=environment, check=False
    )
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    for shown in ("exit status 1", "integer cents", "went back from", "tools:", "because floats lose cents"):
        assert shown in ran.stdout, (shown, ran.stdout)
    assert not (tmp_path / ".local").exists(), "the demo must leave the user's folders alone"


def readme_commands() -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"```console\n(.*?)```", text, re.DOTALL)
    assert block, "the README shows a first session"
    joined = block.group(1).replace("\\\n", " ")
    return [line[2:] for line in joined.splitlines() if line.startswith("$ bede ")]


def test_every_command_of_the_first_session_works(bede):
    Path("tests").mkdir()
    Path("tests/test_login.py").write_text("def test_login():\n    assert True\n")
    commands = readme_commands()
    assert len(commands) >= 10
    for command in commands:
        words = shlex.split(command, comments=True)[1:]
        if words[0] == "auto":
            words[words.index("pytest") : words.index("pytest") + 1] = [sys.executable, "-m", "pytest"]
        ran = bede(*words)
        assert ran.status == 0, (command, ran.out, ran.err)
