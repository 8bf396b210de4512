"""`install-hooks` and `uninstall-hooks`: agents' hooks without a trace, and git's beside whatever is there.

The repositories are real, and so is git.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bede import agents
from bede.context import Context
from bede.operations import load

pytestmark = pytest.mark.skipif(os.name != "posix", reason="git's hooks are run by a shell of its own on Windows")


@pytest.fixture(autouse=True)
def machine(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the machine git, a `bede` that writes down how it was called, and no agents."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "PI_CODING_AGENT_DIR", "OPENCODE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin:/usr/local/bin")
    (home / ".local/share").mkdir(parents=True)


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the hook call a program that writes its words down, and return the file it writes."""
    folder = tmp_path / "pro grams"
    folder.mkdir()
    told = tmp_path / "told"
    program = folder / "bede"
    program.write_text(f"#!/bin/sh\necho \"$@ in $(pwd)\" >> '{told}'\n")
    program.chmod(0o755)
    monkeypatch.setattr("bede.installing.command_of", lambda _environment: [str(program)])
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin:/usr/local/bin")
    return told


def call(verb: str, folder: Path | None = None, **options: Any) -> Any:
    """Call a verb in a folder."""
    with closing(Context(directory=folder)) as context:
        return load(verb).function(context, **options)


def one(verb: str, folder: Path, **options: Any) -> Any:
    """Call a verb for git alone, and return what became of it."""
    [done] = call(verb, folder, git=True, **options).agents
    assert done.agent == "git"
    return done


def git(folder: Path, *words: str) -> str:
    """Run git and return what it says."""
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, check=True)
    return done.stdout.decode().strip()


def commit(folder: Path, *words: str) -> None:
    """Make an empty commit."""
    git(folder, "commit", "-q", "--allow-empty", "-m", "x", *words)


def heard(told: Path, times: int) -> list[str]:
    """Return what the hook told, once it was told so many times."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        lines = told.read_text().splitlines() if told.exists() else []
        if len(lines) >= times:
            return lines
        time.sleep(0.01)
    raise AssertionError(f"{told} was not written {times} times")


@pytest.fixture
def repository() -> Path:
    """A git repository without hooks."""
    folder = Path.cwd() / "re po"
    folder.mkdir()
    git(folder, "init", "-q", "--template=", "-b", "main")
    return folder


def everything(*roots: Path) -> dict[str, tuple[Any, ...]]:
    """Return all that lies below some folders: bytes, modes, links."""
    found: dict[str, tuple[Any, ...]] = {}
    for path in (path for root in roots for path in sorted(root.rglob("*"))):
        mode = stat.S_IMODE(path.lstat().st_mode)
        found[str(path)] = (
            mode,
            os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else "",
        )
    return found


# Agents


@pytest.mark.parametrize("name", agents.AGENTS)
@pytest.mark.parametrize("scope", ["user", "project"])
def test_three_times_equals_once_and_uninstall_leaves_no_trace(home: Path, name: str, scope: Any) -> None:
    (Path.cwd() / ".git").mkdir()
    before = everything(home, Path.cwd())
    [done] = call("install-hooks", agent=[name], scope=scope).agents
    once = everything(home, Path.cwd())
    assert done.outcome in ("installed", "absent") and (done.outcome == "installed") == (once != before)
    for _ in range(2):
        assert call("install-hooks", agent=[name], scope=scope).agents[0].outcome in ("already", "absent")
    assert everything(home, Path.cwd()) == once
    [gone] = call("uninstall-hooks", agent=[name]).agents
    assert gone.outcome == ("removed" if done.outcome == "installed" else "absent")
    assert everything(home, Path.cwd()) == before


def test_server_and_hooks_of_one_file_do_not_disturb_each_other(home: Path) -> None:
    settings = home / ".gemini/settings.json"
    settings.parent.mkdir()
    settings.write_text('{\n  // mine\n  "hooks": {"BeforeTool": [{"hooks": [{"command": "lint"}]}]},\n}\n')
    before = everything(home)
    with closing(Context()) as context:
        load("attach").function(context, ["gemini-cli"])
    server = everything(home)
    call("install-hooks", agent=["gemini-cli"])
    assert '"command": "lint"' in settings.read_text() and "bede" in settings.read_text()
    call("uninstall-hooks")
    assert everything(home) == server
    call("install-hooks", agent=["gemini-cli"])
    for verb in ("detach", "uninstall-hooks"):
        with closing(Context()) as context:
            load(verb).function(context, **({"agents": ["all"]} if verb == "detach" else {}))
    assert everything(home) == before


def test_a_refused_file_stops_no_other(home: Path) -> None:
    (home / ".codex").mkdir()
    (home / ".codex/hooks.json").write_text("[]")
    result = call("install-hooks", agent=["codex", "cursor"])
    assert [item.outcome for item in result.agents] == ["refused", "installed"] and result.exits == 30
    assert "PreToolUse" in result.agents[0].hint


# Git


def test_a_commit_is_told_in_the_background(repository: Path, told: Path) -> None:
    before = everything(repository)
    done = one("install-hooks", repository)
    assert done.outcome == "installed" and done.files[0].path.endswith("post-commit")
    assert one("install-hooks", repository).outcome == "already"
    commit(repository)
    assert heard(told, 1) == [f"hook post-commit --agent git in {repository}"]
    assert one("uninstall-hooks", repository).outcome == "removed"
    assert one("uninstall-hooks", repository).outcome == "absent"
    assert "hooks" not in {path.name for path in (repository / ".git").iterdir()}
    assert not any("post-commit" in name for name in everything(repository).keys() - before.keys())


def test_a_hook_that_fails_or_hangs_never_touches_the_commit(repository: Path, told: Path) -> None:
    program = told.with_name("pro grams") / "bede"
    one("install-hooks", repository)
    for text in ("#!/bin/sh\nsleep 30\n", "#!/bin/sh\nexit 1\n", "not a program\0"):
        program.write_text(text)
        began = time.monotonic()
        commit(repository)
        assert time.monotonic() - began < 20
    program.unlink()
    commit(repository)
    assert git(repository, "rev-list", "--count", "HEAD") == "4"


@pytest.mark.parametrize(
    "text",
    [
        "#!/bin/sh\necho theirs >> ../theirs\n",
        "#!/bin/sh\necho theirs >> ../theirs\nexec true",
        "#!/usr/bin/env bash\nset -euo pipefail\necho theirs >> ../theirs\nexit 0\n",
        "#!/bin/sh\nif true; then\n  echo theirs >> ../theirs\n  exec true\nfi\n",
        "echo theirs >> ../theirs\n",
        "#!/bin/sh\n# caf\xe9\necho theirs >> ../theirs\n",
    ],
)
def test_a_script_that_is_there_goes_on_and_comes_back(repository: Path, told: Path, text: str) -> None:
    hook = repository / ".git/hooks/post-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_bytes(text.encode("latin-1"))
    hook.chmod(0o755)
    before = everything(repository / ".git/hooks")
    assert one("install-hooks", repository).outcome == "installed"
    assert one("install-hooks", repository).outcome == "already"
    commit(repository)
    assert len(heard(told, 1)) == 1 and (repository.parent / "theirs").read_text() == "theirs\n"
    one("uninstall-hooks", repository)
    assert everything(repository / ".git/hooks") == before


@pytest.mark.parametrize(
    ("text", "mode", "runs"),
    [
        (b"#!/usr/bin/env python3\nopen('../theirs', 'a').write('theirs\\n')\n", 0o755, True),
        (b"#!/usr/bin/perl\nexit 1;\n", 0o700, False),
        (b"\x7fELF\0\0", 0o755, False),
        (b"#!/bin/sh\necho theirs >> ../theirs\n", 0o644, False),
    ],
)
def test_another_hook_is_moved_aside_called_and_put_back(
    repository: Path, told: Path, text: bytes, mode: int, runs: bool
) -> None:
    hook = repository / ".git/hooks/post-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_bytes(text)
    hook.chmod(mode)
    before = everything(repository / ".git/hooks")
    assert one("install-hooks", repository).outcome == "installed"
    assert (hook.with_name("post-commit.pre-bede").read_bytes(), stat.S_IMODE(hook.stat().st_mode)) == (text, 0o755)
    assert one("install-hooks", repository).outcome == "already"
    commit(repository)
    assert len(heard(told, 1)) == 1
    assert (repository.parent / "theirs").exists() == runs
    one("uninstall-hooks", repository)
    assert everything(repository / ".git/hooks") == before


def test_what_somebody_did_to_our_hook_is_not_overwritten(repository: Path, told: Path) -> None:
    one("install-hooks", repository)
    hook = repository / ".git/hooks/post-commit"
    hook.write_text(hook.read_text().replace("then", "then\n  echo mine"))
    before = everything(repository / ".git/hooks")
    for verb in ("install-hooks", "uninstall-hooks"):
        done = one(verb, repository)
        assert done.outcome == "refused" and "changed" in done.reason
    assert everything(repository / ".git/hooks") == before


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("#!/bin/sh\ncall_lefthook run post-commit\n", "lefthook.yml"),
        (
            "#!/usr/bin/env bash\n# File generated by pre-commit: https://pre-commit.com\nexec pre-commit\n",
            "stages: [post-commit]",
        ),
    ],
)
def test_what_a_manager_makes_is_not_edited(repository: Path, told: Path, text: str, entry: str) -> None:
    hook = repository / ".git/hooks/post-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(text)
    hook.chmod(0o755)
    done = one("install-hooks", repository)
    assert done.outcome == "refused" and entry in done.hint and "bede hook post-commit" in done.hint
    assert hook.read_text() == text


@pytest.mark.parametrize("name", ["lefthook.yml", ".lefthook.yaml", ".pre-commit-config.yaml"])
def test_a_manager_without_a_hook_of_its_own_is_told_of(repository: Path, told: Path, name: str) -> None:
    (repository / name).write_text("pre-commit: {}\n")
    done = one("install-hooks", repository)
    assert done.outcome == "installed" and done.warnings[0].startswith(f"{name} is there")
    assert "bede hook post-commit --agent git" in done.warnings[0]


def test_husky_has_the_line_in_its_own_script(repository: Path, told: Path) -> None:
    """What husky 9 makes: `core.hooksPath` leads to stubs that give the tracked script to `sh -e`."""
    stub = repository / ".husky/_/post-commit"
    stub.parent.mkdir(parents=True)
    stub.write_text('#!/usr/bin/env sh\ns=".husky/post-commit"\n[ ! -f "$s" ] || sh -e "$s" "$@"\n')
    stub.chmod(0o755)
    git(repository, "config", "core.hooksPath", ".husky/_")
    before = everything(repository)
    (repository / "below").mkdir()
    done = one("install-hooks", repository / "below")
    (repository / "below").rmdir()
    assert done.files[0].path == str(repository / ".husky/post-commit") and "commit it" in done.warnings[0]
    script = repository / ".husky/post-commit"
    assert "command -v bede " in script.read_text(), "no path of this machine in the team's file"
    commit(repository)
    heard(told, 1)
    one("uninstall-hooks", repository)
    assert not script.exists() and set(before) <= set(everything(repository))
    script.write_text("npm test")
    one("install-hooks", repository)
    one("uninstall-hooks", repository)
    assert script.read_text() == "npm test"


def test_a_path_for_all_repositories_is_not_written_to(
    repository: Path, told: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one("install-hooks", repository)
    (tmp_path / "all").mkdir()
    (tmp_path / "gitconfig").write_text(f'[core]\nhooksPath = "{tmp_path}/all"\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    done = one("install-hooks", repository)
    assert done.outcome == "refused" and str(tmp_path / "all") in done.reason and "bede hook" in done.hint
    assert list((tmp_path / "all").iterdir()) == []
    assert one("uninstall-hooks", repository).outcome == "removed", "what was put there before still goes"


def test_a_linked_worktree_a_submodule_and_a_bare_repository(repository: Path, told: Path, tmp_path: Path) -> None:
    commit(repository)
    linked = tmp_path / "linked"
    git(repository, "worktree", "add", "-q", str(linked))
    assert one("install-hooks", linked).files[0].path == str(repository / ".git/hooks/post-commit")
    commit(linked)
    assert heard(told, 1) == [f"hook post-commit --agent git in {linked}"]
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q", "--template=")
    commit(other)
    git(repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "sub")
    assert one("install-hooks", repository / "sub").files[0].path == str(
        repository / ".git/modules/sub/hooks/post-commit"
    )
    commit(repository / "sub")
    assert heard(told, 2)[1] == f"hook post-commit --agent git in {repository / 'sub'}"
    bare = tmp_path / "bare.git"
    git(tmp_path, "init", "-q", "--bare", str(bare))
    done = one("install-hooks", bare)
    assert done.outcome == "installed" and done.files[0].path == str(bare / "hooks/post-commit") and not done.warnings
    for folder in (linked, repository / "sub", bare):
        assert one("uninstall-hooks", folder).outcome == "removed"


def test_a_link_is_not_written_through(repository: Path, told: Path) -> None:
    (repository / "hook.sh").write_text("#!/bin/sh\n")
    (repository / ".git/hooks").mkdir(exist_ok=True)
    (repository / ".git/hooks/post-commit").symlink_to("../../hook.sh")
    done = one("install-hooks", repository)
    assert done.outcome == "refused" and "hook post-commit --agent git" in done.hint
    assert (repository / "hook.sh").read_text() == "#!/bin/sh\n"


def test_where_there_is_no_repository_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    result = call("install-hooks", tmp_path / "none", git=True)
    assert result.agents[0].outcome == "refused" and "no git repository" in result.agents[0].reason


def test_the_hook_notes_a_commit_for_good(repository: Path, home: Path) -> None:
    """With the real command, a commit of a project with memory goes through and nobody waits for the hook."""
    done = one("install-hooks", repository)
    commit(repository)
    assert done.outcome == "installed" and git(repository, "log", "--format=%s") == "x"


def test_a_dry_run_shows_the_hook_and_writes_nothing(repository: Path, told: Path) -> None:
    before = everything(repository)
    done = one("install-hooks", repository, dry_run=True)
    assert "+# bede begin " in done.files[0].diff and everything(repository) == before
    assert json.loads(json.dumps(done.to_json()))["agent"] == "git"


def test_the_repository_of_the_project_that_is_named_is_meant(project: Path, tmp_path: Path) -> None:
    (elsewhere := tmp_path / "elsewhere").mkdir()
    for folder in (project, elsewhere):
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    with closing(Context(directory=elsewhere, project=project.name)) as context:
        [done] = load("install-hooks").function(context, git=True).agents
    assert done.outcome == "installed"
    assert [(folder / ".git/hooks/post-commit").exists() for folder in (project, elsewhere)] == [True, False]
