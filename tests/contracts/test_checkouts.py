"""Two looks at a git checkout tell what was changed in between, and nothing that stands in it can make them do more."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bede import checkouts
from bede.checkouts import Changed, changed, look

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="there is no git")


def git(*words: str, at: Path | None = None) -> str:
    """Run git, and return what it says."""
    done = subprocess.run(["git", *words], cwd=at or Path.cwd(), capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(home: Path) -> Path:
    """A checkout with one commit, a folder, and a file that is ignored; the test works in it."""
    root = Path.cwd()
    git("init", "--quiet", "--initial-branch", "main")
    (root / "src").mkdir()
    write("kept.txt", "src/module.py", "gone.txt")
    Path(".gitignore").write_text("*.log\n/build/\n")
    commit("first")
    return root


def write(*names: str, text: str = "text\n") -> None:
    """Write files."""
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)


def commit(message: str) -> str:
    """Commit everything, and return the commit."""
    git("add", "--all")
    git("commit", "--quiet", "--allow-empty", "--message", message)
    return git("rev-parse", "HEAD")


def between(act: Callable[[], object], directory: Path | None = None, limit: int = 200) -> Changed:
    """Return what two looks tell about an action."""
    before = look(directory or Path.cwd())
    act()
    after = look(directory or Path.cwd())
    assert before and after
    return changed(before, after, limit)


# What a look sees


def test_a_look_knows_the_commit_and_the_branch(checkout: Path) -> None:
    seen = look(checkout / "src")
    assert seen
    assert (seen.root, seen.commit, seen.branch) == (checkout.resolve(), git("rev-parse", "HEAD"), "main")
    assert len(seen.commit) == 40
    git("checkout", "--quiet", "--detach")
    assert getattr(look(checkout), "branch", None) == ""


def test_before_the_first_commit_there_is_none() -> None:
    git("init", "--quiet", "--initial-branch", "main")
    write("one.txt", "two.txt")
    seen = look(Path.cwd())
    assert seen
    assert (seen.commit, seen.branch) == ("", "main")
    assert between(lambda: write("three.txt")).files == ("three.txt",)
    told = between(lambda: commit("first"))
    assert (told.before, told.after, told.files) == ("", git("rev-parse", "HEAD"), ("one.txt", "three.txt", "two.txt"))


def test_hashes_of_the_newer_sort_are_as_good() -> None:
    git("init", "--quiet", "--object-format", "sha256")
    write("one.txt")
    told = between(lambda: commit("first"))
    assert (len(told.after), told.files) == (64, ("one.txt",))


@pytest.mark.parametrize("kind", ["none", "empty", "missing", "bare", "broken"])
def test_where_there_is_no_checkout_there_is_no_look(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "folder"
    if kind == "bare":
        git("init", "--quiet", "--bare", str(folder))
    elif kind != "missing":
        folder.mkdir()
    if kind == "empty":
        (folder / ".git").mkdir()
    if kind == "broken":
        (folder / ".git").write_text("gitdir: nowhere\n")
    assert look(folder) is None


def test_an_empty_git_folder_does_not_lead_to_the_checkout_around_it(checkout: Path) -> None:
    (checkout / "inner" / ".git").mkdir(parents=True)
    assert look(checkout / "inner") is None


def test_without_git_there_is_no_look(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(checkout / "src"))
    assert look(checkout) is None


@pytest.mark.skipif(os.name != "posix", reason="a script stands in for git")
@pytest.mark.parametrize("script", ["exit 1", "kill -9 $$", "exec sleep 300", "echo '# branch.oid'; exit 2"])
def test_a_git_that_fails_or_hangs_is_no_look(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    (tmp_path / "git").write_text(f"#!/bin/sh\ncase \"$*\" in *status*) {script};; esac\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(checkouts, "_SECONDS", 0.3)
    assert look(checkout) is None


# What lies between two looks


def test_files_that_were_created_modified_and_deleted_are_found(checkout: Path) -> None:
    def act() -> None:
        write("new.txt", "new folder/資 é.txt")
        write("src/module.py", text="other\n")
        Path("gone.txt").unlink()
        write("noise.log", "build/out.o")

    told = between(act, checkout / "src")
    assert told.files == ("gone.txt", "new folder/資 é.txt", "new.txt", "src/module.py")
    assert (told.before, told.more) == (told.after, 0)


def test_what_did_not_change_is_not_told_however_dirty_it_is(checkout: Path) -> None:
    write("untracked.txt", "kept.txt", text="dirty before\n")
    Path("gone.txt").unlink()
    assert between(lambda: None).files == ()
    assert between(lambda: git("add", "--all")).files == ()
    assert between(lambda: write("untracked.txt", text="dirty again and longer\n")).files == ("untracked.txt",)
    assert between(lambda: git("checkout", "HEAD", "--", "gone.txt", "kept.txt")).files == ("gone.txt", "kept.txt")


def test_a_file_that_is_the_same_in_the_end_was_not_changed(checkout: Path) -> None:
    def act() -> None:
        write("kept.txt", text="for a moment\n")
        write("kept.txt")

    assert between(act).files == ()


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_a_mode_a_link_and_a_rename_are_changes(checkout: Path) -> None:
    def act() -> None:
        Path("kept.txt").chmod(0o755)
        Path("link").symlink_to("nowhere")
        git("mv", "src/module.py", "src/other.py")

    assert between(act).files == ("kept.txt", "link", "src/module.py", "src/other.py")


def test_commits_tell_their_files(checkout: Path) -> None:
    def act() -> None:
        write("one.txt")
        commit("second")
        git("mv", "kept.txt", "moved.txt")
        commit("third")
        write("two.txt")

    first = git("rev-parse", "HEAD")
    told = between(act)
    assert (told.before, told.after) == (first, git("rev-parse", "HEAD"))
    assert told.files == ("kept.txt", "moved.txt", "one.txt", "two.txt")
    assert between(lambda: git("reset", "--quiet", "--hard", first)).files == ("kept.txt", "moved.txt", "one.txt")


def test_another_branch_is_what_differs_on_it(checkout: Path) -> None:
    git("checkout", "--quiet", "-b", "side")
    write("side.txt")
    commit("on the side")
    assert between(lambda: git("checkout", "--quiet", "main")).files == ("side.txt",)
    assert set(between(lambda: git("checkout", "--quiet", "--orphan", "empty")).files) == {
        ".gitignore", "gone.txt", "kept.txt", "src/module.py",
    }  # fmt: skip


def test_bede_itself_is_never_told(checkout: Path) -> None:
    told = between(lambda: write(".bede/bede.db", "src/.bede/x", "src/.bedevilled", "x.bede/y"))
    assert told.files == ("src/.bedevilled", "x.bede/y")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names are text")
def test_any_name_is_told_as_text(checkout: Path) -> None:
    names = [b"new\nline", b"tab\tand \"quotes\"", b"-dash", b" space ", b"not utf-8 \xff", b"\xe2\x80\xae", b"a -> b"]

    def act() -> None:
        for name in names:
            Path(os.fsdecode(name)).write_text("x")

    assert between(act).files == tuple(sorted(name.decode("utf-8", "replace") for name in names))
    git("add", "--all")
    assert len(between(lambda: commit("strange")).files) == len(names)


def test_only_so_many_are_named(checkout: Path) -> None:
    told = between(lambda: write(*(f"{number:03}.txt" for number in range(30))), limit=10)
    assert told.files == tuple(f"{number:03}.txt" for number in range(10))
    assert told.more == 20


def test_a_tree_too_large_to_see_tells_only_what_is_certain(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkouts, "_FILES", 5)
    write(*(f"heap/{number}" for number in range(10, 30)))

    def act() -> None:
        write("heap/100", "heap/zzz")
        Path("heap/11").unlink()
        write("heap/12", text="longer than before\n")

    assert between(act).files == ("heap/100", "heap/11", "heap/12")
    monkeypatch.setattr(checkouts, "_BYTES", 200)
    seen = look(checkout)
    assert seen
    assert seen.horizon is not None
    assert 0 < len(seen.stamps) <= 5


def test_worktrees_submodules_and_repositories_inside(checkout: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    git("worktree", "add", "--quiet", "-b", "linked", str(linked))
    told = between(lambda: (linked / "here.txt").write_text("x"), linked)
    assert told.files == ("here.txt",)
    seen = look(linked)
    assert seen
    assert (seen.root, seen.branch) == (linked.resolve(), "linked")
    assert between(lambda: git("init", "--quiet", "inner")).files == ("inner/",)


# Whoever wrote the repository's configuration runs nothing


@pytest.mark.skipif(os.name != "posix", reason="the commands are for a POSIX shell")
def test_no_command_of_the_repository_is_run(checkout: Path, tmp_path: Path) -> None:
    sign = tmp_path / "sign"
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{sign}'\ncat\n")
    evil.chmod(0o755)
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for hook in ("post-index-change", "fsmonitor-watchman", "reference-transaction", "post-checkout"):
        shutil.copy(evil, hooks / hook)
    write("big.bin", text="x" * 100)
    Path(".gitattributes").write_text("*.bin filter=evil diff=evil\n*.txt filter=odd=name.x\n")
    first = commit("attributes")
    for key, value in {
        "core.fsmonitor": str(evil),
        "core.hooksPath": str(hooks),
        "core.sshCommand": str(evil),
        "core.pager": str(evil),
        "core.askPass": str(evil),
        "diff.external": str(evil),
        "diff.evil.command": str(evil),
        "diff.evil.textconv": str(evil),
        "filter.evil.clean": str(evil),
        "filter.evil.required": "true",
        "filter.odd=name.x.process": str(evil),
        "pager.status": str(evil),
        "alias.status": f"!{evil}",
        "remote.origin.url": f"ext::{evil} %S",
        "remote.origin.promisor": "true",
        "status.submoduleSummary": "true",
    }.items():
        git("config", key, value)

    def act() -> None:
        # Another time but the same size and text: git has to read the file to know, through its filters.
        for name in ("big.bin", "kept.txt"):
            os.utime(name, (1, 1))
        write("gone.txt", text="changed\n")

    told = between(act)
    assert not sign.exists(), sign.read_text()
    assert told.files == ("gone.txt",)
    # Git itself, asked plainly, would have run them: the trap is a real one.
    subprocess.run(["git", "status"], capture_output=True, check=False)
    assert sign.exists()
    git("-c", "core.fsmonitor=false", "update-ref", "HEAD", first)


@pytest.mark.skipif(os.name != "posix", reason="the commands are for a POSIX shell")
def test_a_submodule_is_not_asked(checkout: Path, tmp_path: Path) -> None:
    sign = tmp_path / "sign"
    inner = checkout / "inner"
    git("init", "--quiet", str(inner))
    (inner / "file").write_text("x")
    git("add", "--all", at=inner)
    git("commit", "--quiet", "--message", "inner", at=inner)
    git("-c", "advice.addEmbeddedRepo=false", "add", "inner")
    commit("with a submodule")
    git("config", "core.fsmonitor", f"touch '{sign}'; false", at=inner)
    assert between(lambda: (inner / "file").write_text("changed")).files == ()
    assert not sign.exists()


def test_missing_objects_are_not_fetched(checkout: Path, tmp_path: Path) -> None:
    first = git("rev-parse", "HEAD")
    write("src/deep/new.py")
    second = commit("second")
    tree = git("rev-parse", f"{second}:src/deep")
    git("config", "remote.origin.url", str(tmp_path / "nowhere"))
    git("config", "remote.origin.promisor", "true")
    before = look(checkout)
    (checkout / ".git/objects" / tree[:2] / tree[2:]).unlink()
    assert before
    old = checkouts.Look(before.root, first, "main", {})
    new = checkouts.Look(before.root, second, "main", {})
    assert changed(old, new) == Changed(first, second, (), 0)


def test_an_outer_git_does_not_lead_elsewhere(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    git("init", "--quiet", "--initial-branch", "elsewhere", str(other))
    for name, value in {
        "GIT_DIR": str(other / ".git"),
        "GIT_WORK_TREE": str(other),
        "GIT_INDEX_FILE": str(tmp_path / "index"),
        "GIT_OBJECT_DIRECTORY": str(other / ".git/objects"),
        "GIT_PREFIX": "src/",
        "GIT_CONFIG_PARAMETERS": "'core.worktree'='/'",
    }.items():
        monkeypatch.setenv(name, value)
    seen = look(checkout)
    assert seen
    assert (seen.root, seen.branch, dict(seen.stamps)) == (checkout.resolve(), "main", {})


def test_a_look_leaves_the_index_alone(checkout: Path) -> None:
    os.utime("kept.txt", (1, 1))
    index = checkout / ".git/index"
    before = (index.read_bytes(), index.stat().st_mtime_ns)
    assert look(checkout)
    assert (index.read_bytes(), index.stat().st_mtime_ns) == before


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give a folder away")
def test_somebody_elses_repository_is_not_looked_at(checkout: Path) -> None:
    for path in (checkout, checkout / ".git"):
        os.chown(path, 65_534, 65_534)
    assert look(checkout) is None
