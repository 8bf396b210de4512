"""`init`, `projects`, and where a project is found: folders, worktrees, submodules, names; never a wrong one."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bede.context import Context
from bede.errors import BedeError, Conflict, NotFound, RepositoryNotFound, Unavailable, UsageError
from bede.operations.config import config
from bede.operations.init import InitResult, init
from bede.operations.projects import projects
from bede.operations.status import status
from bede.operations.store import store
from bede.places import find_project, home_of

posix = pytest.mark.skipif(os.name != "posix", reason="a matter of POSIX file systems")


def _init(folder: Path, *, here: bool = False, **environment: str) -> InitResult:
    with closing(Context(directory=folder, environment={**os.environ, **environment})) as context:
        return init(context, here=here)


def _git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A git checkout with one commit."""
    folder = tmp_path / "main checkout"
    folder.mkdir()
    _git(folder, "init", "-q", "-b", "main")
    _git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    return folder


def _root(folder: Path, **environment: str) -> str:
    """Return the root of the project that a call from a folder reaches, '' for none."""
    with closing(Context(directory=folder, environment={**os.environ, **environment})) as context:
        try:
            return status(context).root
        except RepositoryNotFound:
            return ""


def test_a_project_is_made_once(tmp_path):
    folder = tmp_path / "work"
    made = _init(folder)
    assert (made.outcome, made.name, made.root, made.branch) == ("created", "work", str(folder), "main")
    assert (made.registered, made.warning) == (True, "")
    again = _init(folder)
    assert (again.outcome, again.project_id, again.registered) == ("unchanged", made.project_id, True)
    assert sorted(path.name for path in (folder / ".bede").iterdir()) == [".gitignore", "bede.db"]
    assert (folder / ".bede" / ".gitignore").read_text() == "*\n"


def test_a_project_is_not_made_by_a_name(tmp_path):
    folder = tmp_path / "work"
    with closing(Context(directory=folder, project="myproject")) as context:
        for options in ({}, {"here": True}):
            with pytest.raises(NotFound, match="no registered project 'myproject'") as unknown:
                init(context, **options)
            assert "without --project" in unknown.value.hint
    assert not (folder / ".bede").exists()


def test_the_project_that_is_named_is_meant_wherever_one_is(tmp_path):
    (other := tmp_path / "other").mkdir()
    made = _init(other)
    with closing(Context(directory=tmp_path / "work", project="other")) as context:
        again = init(context)
        assert (again.outcome, again.root, again.registered) == ("unchanged", str(other), True)
        for options in ({"here": True}, {"from_": tmp_path / "some.bundle"}):
            with pytest.raises(UsageError, match="--project names a project that is there"):
                init(context, **options)
    assert again.project_id == made.project_id and not (tmp_path / "work" / ".bede").exists()
    shutil.rmtree(other / ".bede")
    with closing(Context(directory=tmp_path / "work", project="other")) as context:
        with pytest.raises(RepositoryNotFound) as gone:
            init(context)
        assert f"bede projects --forget {other}" in gone.value.hint


def test_no_setting_is_told_of_a_project_that_nobody_knows(project):
    with closing(Context(directory=project, project="nope")) as context, pytest.raises(NotFound):
        config(context)


@posix
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o277])
def test_only_the_owner_may_look_in(tmp_path, umask):
    old = os.umask(umask)
    try:
        _init(tmp_path / "work")
    finally:
        os.umask(old)
    folder = tmp_path / "work" / ".bede"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    # What was opened to others meanwhile is closed again.
    folder.chmod(0o755)
    (folder / "bede.db").chmod(0o644)
    _init(tmp_path / "work")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "bede.db").stat().st_mode) == 0o600


@posix
def test_a_file_that_somebody_laid_there_is_not_followed(tmp_path):
    folder = tmp_path / "work" / ".bede"
    folder.mkdir()
    (folder / ".gitignore").symlink_to(tmp_path / "elsewhere")
    _init(tmp_path / "work")
    assert not (tmp_path / "elsewhere").exists()


def test_git_does_not_see_it(checkout):
    _init(checkout)
    found = subprocess.run(["git", "status", "--porcelain"], cwd=checkout, check=True, capture_output=True)
    assert found.stdout == b""


NAMES = ["with spaces", "ünïcødé 資料", "new\nline", "per%cent?and#hash", "'quote\"", "-dash", "a&b;c", "x" * 200]


@posix
@pytest.mark.parametrize("name", NAMES)
def test_any_folder_will_do(tmp_path, name):
    folder = tmp_path / name / "deep er"
    folder.mkdir(parents=True)
    made = _init(folder.parent)
    assert made.outcome == "created"
    with closing(Context(directory=folder, agent="t")) as context:
        assert store(context, summary="one").id
        assert status(context).root == str(folder.parent) == made.root
    with closing(Context(project=name)) as context:
        assert status(context).events == 2


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has file names that are no text")
def test_a_folder_whose_name_is_no_text_will_do(tmp_path, bede):
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/no \xff text"))
    folder.mkdir()
    made = bede("init", cwd=folder)
    assert made.status == 0
    assert made.json()["warning"]
    assert bede("store", "--summary", "one", cwd=folder).status == 0
    assert bede("status", cwd=folder).json()["events"] == 2


def test_the_root_of_the_checkout_is_the_place(checkout):
    (checkout / "src" / "deep").mkdir(parents=True)
    made = _init(checkout / "src" / "deep")
    assert made.root == str(checkout)
    assert _root(checkout / "src") == str(checkout)
    own = _init(checkout / "src", here=True)
    assert (own.outcome, own.root) == ("created", str(checkout / "src"))
    assert _init(checkout / "src", here=True).outcome == "unchanged"
    assert _root(checkout / "src" / "deep") == str(checkout / "src")
    assert _root(checkout) == str(checkout)


def test_outside_of_git_the_folder_itself_is_the_place(tmp_path):
    (tmp_path / "work" / "sub").mkdir()
    assert _init(tmp_path / "work" / "sub").root == str(tmp_path / "work" / "sub")
    assert _root(tmp_path / "work") == ""


def test_a_linked_worktree_shares_the_main_checkouts_memory(checkout, tmp_path):
    _git(checkout, "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "side")
    made = _init(tmp_path / "linked")
    assert made.root == str(checkout)
    assert not (tmp_path / "linked" / ".bede").exists()
    (tmp_path / "linked" / "sub").mkdir()
    assert _root(tmp_path / "linked" / "sub") == _root(checkout) == str(checkout)
    assert find_project(tmp_path / "linked", {}).worktree == "linked"
    assert find_project(checkout, {}).worktree == ""
    _git(checkout, "worktree", "add", "-q", str(checkout / "inside"), "-b", "in")
    assert find_project(checkout / "inside", {}).worktree == "inside"
    _git(checkout, "worktree", "move", str(tmp_path / "linked"), str(tmp_path / "mo ved"))
    assert _root(tmp_path / "mo ved") == str(checkout)


def test_each_worktree_is_on_a_branch_of_its_own(checkout, tmp_path, bede):
    _git(checkout, "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "side")
    _init(checkout)
    assert bede("fork", "idea", "--checkout", cwd=tmp_path / "linked").status == 0
    assert bede("status", cwd=tmp_path / "linked").json()["branch"] == "idea"
    assert bede("status", cwd=checkout).json()["branch"] == "main"


def test_a_bare_repositorys_worktrees_share_one_memory(checkout, tmp_path):
    bare = tmp_path / "bare.git"
    _git(tmp_path, "clone", "-q", "--bare", str(checkout), str(bare))
    for name in ("one", "two"):
        _git(bare, "worktree", "add", "-q", str(tmp_path / name), "-b", name)
    made = _init(tmp_path / "one")
    assert made.root == str(bare)
    assert _root(tmp_path / "two") == str(bare)
    assert _init(tmp_path / "two").outcome == "unchanged"


def test_a_submodule_has_a_memory_of_its_own(checkout, tmp_path):
    outer = tmp_path / "outer"
    outer.mkdir()
    _git(outer, "init", "-q")
    _git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(checkout), "sub mod")
    _init(outer)
    assert (outer / "sub mod" / ".git").is_file()
    assert _root(outer / "sub mod") == ""
    made = _init(outer / "sub mod")
    assert (made.outcome, made.root) == ("created", str(outer / "sub mod"))
    assert _root(outer / "sub mod") == str(outer / "sub mod")
    assert _root(outer) == str(outer)


@pytest.mark.parametrize(
    "text", [b"", b"gitdir: /nowhere", b"nonsense", b"\xff\xfe", b"gitdir: \0", b"gitdir: " + b"x" * 9000]
)
def test_a_git_file_that_leads_nowhere_is_the_end(tmp_path, text):
    folder = tmp_path / "work"
    _init(folder)
    (folder / "sub").mkdir()
    (folder / "sub" / ".git").write_bytes(text)
    assert _root(folder / "sub") == ""
    assert home_of(folder / "sub") == (folder / "sub", "")
    assert _init(folder / "sub").root == str(folder / "sub")


@posix
def test_a_folder_reached_by_a_symbolic_link_is_the_folder(tmp_path, bede):
    _init(tmp_path / "work")
    (tmp_path / "work" / "sub").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "work" / "sub")
    assert _root(tmp_path / "link") == str(tmp_path / "work")
    assert bede("status", cwd=tmp_path / "link").json()["root"] == str(tmp_path / "work")


def test_a_variable_names_the_folder(tmp_path):
    folder = tmp_path / "elsewhere" / "mem"
    assert _root(tmp_path, BEDE_DIR=str(folder)) == ""
    made = _init(tmp_path / "work", BEDE_DIR=str(folder))
    assert (made.outcome, made.database) == ("created", str(folder / "bede.db"))
    assert (made.registered, bool(made.warning)) == (False, True)
    assert _root(tmp_path, BEDE_DIR=str(folder)) == str(folder.parent)
    assert _root(tmp_path / "work") == ""
    assert not (tmp_path / "work" / ".bede").exists()


@pytest.mark.parametrize("folder", ["/nonexistent/x", "x" * 5000, "\udcff", "a\nb"])
def test_a_variable_that_names_nothing_is_an_error(tmp_path, folder):
    _init(tmp_path / "work")
    with closing(Context(directory=tmp_path / "work", environment={"BEDE_DIR": folder})) as context:
        with pytest.raises(BedeError) as refused:
            status(context)
        assert isinstance(refused.value, (RepositoryNotFound, Unavailable))


def test_no_project_is_exit_10_with_a_hint(bede):
    for words in (("status",), ("store", "--summary", "x"), ("search", "x"), ("verify",), ("log",)):
        found = bede(*words)
        assert (found.status, found.out) == (10, "")
        assert found.error()["code"] == "repository_not_found"
        assert "bede init" in found.error()["hint"]
    assert list(Path.cwd().iterdir()) == []
    assert bede("-C", "nowhere", "status").status == 2
    assert bede("-C", "nowhere", "init").status == 2
    with closing(Context(directory=Path("nowhere"))) as context:
        for verb in (status, init):
            with pytest.raises(RepositoryNotFound):
                verb(context)


@posix
def test_a_folder_that_is_gone_is_an_error(tmp_path, monkeypatch, bede):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(RepositoryNotFound):
        Context()
    with closing(Context(directory=folder)) as context, pytest.raises(RepositoryNotFound):
        status(context)
    script = "import os, runpy, sys; os.rmdir(os.getcwd()); runpy.run_module('bede_cli', run_name='__main__')"
    path = os.pathsep.join(str(Path(__file__).parents[2] / shelf) for shelf in ("core", "cli"))
    for verb in ("status", "init"):
        folder.mkdir()
        command = [sys.executable, "-P", "-c", script, verb]
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, check=False
        )
        assert (done.returncode, done.stdout) == (2, b"")
        assert json.loads(done.stderr)["code"] == "usage"


BOUND = """
import ctypes, os, sys
if os.getuid() == 0:  # Without its capabilities even root is bound by file modes.
    header, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert ctypes.CDLL(None).capset(header, nothing) == 0
from pathlib import Path
from bede.context import Context
from bede.errors import BedeError
from bede.operations.status import status
from bede.operations.init import init
verb = {"status": status, "init": init}[sys.argv[2]]
try:
    verb(Context(directory=Path(sys.argv[1])))
except BedeError as error:
    print(error.code)
else:
    print("fine")
"""


def _bound(folder: Path, verb: str = "status") -> str:
    """Return the code of what a verb says to somebody whom file modes bind."""
    path = os.pathsep.join(str(Path(__file__).parents[2] / shelf) for shelf in ("core", "cli"))
    done = subprocess.run(
        [sys.executable, "-c", BOUND, str(folder), verb],
        cwd="/",
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.skipif(os.name != "posix" or (os.getuid() == 0 and sys.platform != "linux"), reason="modes must bind")
def test_what_may_not_be_seen_is_no_reason_to_take_another_project(tmp_path):
    """A memory that is closed lies nearer: the one above it would be the wrong one, and "none" is not true."""
    outer, inner = tmp_path / "work", tmp_path / "work" / "inner"
    inner.mkdir()
    _init(outer)
    assert _bound(inner) == "fine"
    _init(inner, here=True)
    assert _bound(inner) == "fine"
    (inner / ".bede").chmod(0o000)
    try:
        assert _bound(inner) == _bound(inner, "init") == "unavailable"
    finally:
        (inner / ".bede").chmod(0o700)
    (inner / ".bede" / "bede.db").chmod(0o000)
    assert _bound(inner) == "unavailable"
    inner.chmod(0o000)
    try:
        assert _bound(inner) in ("unavailable", "repository_not_found")
    finally:
        inner.chmod(0o700)


@pytest.mark.skipif(os.name != "posix" or (os.getuid() == 0 and sys.platform != "linux"), reason="modes must bind")
def test_a_folder_that_may_not_be_written_takes_no_project(tmp_path):
    folder = tmp_path / "work"
    folder.chmod(0o500)
    try:
        assert _bound(folder, "init") == "unavailable"
    finally:
        folder.chmod(0o700)
    assert list(folder.iterdir()) == []


def _known(**environment: str) -> dict[str, Any]:
    with closing(Context(environment={**os.environ, **environment})) as context:
        return {item.root: item for item in projects(context).projects}


def _named(name: str) -> str:
    with closing(Context(directory=Path("/"), project=name)) as context:
        return status(context).root


def test_projects_are_known_by_name_and_uuid(tmp_path):
    ids = {}
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        ids[name] = _init(tmp_path / name).project_id
    assert _known().keys() == {str(tmp_path / "one"), str(tmp_path / "two")}
    assert _named("one") == _named(ids["one"]) == _named(ids["one"].upper()) == str(tmp_path / "one")
    with pytest.raises(NotFound):
        _named("three")
    with pytest.raises(NotFound, match="no registered project") as refused:
        _named(str(tmp_path / "one"))
    assert "-C" in refused.value.hint
    with pytest.raises(NotFound):
        _named("ONE")


def test_a_name_that_fits_several_is_refused(tmp_path):
    for name in ("a/same", "b/same"):
        (tmp_path / name).mkdir(parents=True)
        _init(tmp_path / name)
    with pytest.raises(Conflict) as refused:
        _named("same")
    assert str(tmp_path / "a/same") in refused.value.message
    assert str(tmp_path / "b/same") in refused.value.message


def test_a_project_that_moved_is_found_where_it_is(tmp_path):
    (tmp_path / "one").mkdir()
    made = _init(tmp_path / "one")
    (tmp_path / "one").rename(tmp_path / "moved")
    for name in ("one", made.project_id):
        with pytest.raises(RepositoryNotFound):
            _named(name)
    (tmp_path / "moved").rename(tmp_path / "new place")
    again = _init(tmp_path / "new place")
    assert (again.outcome, again.project_id, again.registered) == ("unchanged", made.project_id, True)
    assert _named("new place") == _named(made.project_id) == str(tmp_path / "new place")
    known = _known()
    assert str(tmp_path / "one") not in known
    assert known[str(tmp_path / "new place")].found


def test_a_project_that_moved_under_its_own_name_is_found(tmp_path):
    (tmp_path / "a" / "same").mkdir(parents=True)
    _init(tmp_path / "a" / "same")
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "same").rename(tmp_path / "b" / "same")
    _init(tmp_path / "b" / "same")
    assert _named("same") == str(tmp_path / "b" / "same")


def test_a_copy_is_told_from_the_original(tmp_path):
    (tmp_path / "one").mkdir()
    made = _init(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    assert _init(tmp_path / "two").project_id == made.project_id
    assert _named("two") == str(tmp_path / "two")
    with pytest.raises(Conflict) as refused:
        _named(made.project_id)
    assert "-C PATH" in refused.value.hint
    assert "UUID" not in refused.value.hint


def test_another_project_in_the_place_of_a_named_one_is_not_taken_for_it(tmp_path):
    (tmp_path / "one").mkdir()
    made = _init(tmp_path / "one")
    shutil.rmtree(tmp_path / "one" / ".bede")
    with closing(
        Context(
            directory=tmp_path / "one", environment={**os.environ, "HOME": str(tmp_path / "h2"), "XDG_DATA_HOME": ""}
        )
    ) as other:
        stranger = init(other).project_id
    for name in ("one", made.project_id):
        with pytest.raises(RepositoryNotFound):
            _named(name)
    _init(tmp_path / "one")
    assert _named("one") == _named(stranger) == str(tmp_path / "one")
    with pytest.raises(NotFound):
        _named(made.project_id)


def test_a_root_is_taken_out_of_the_registry(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        _init(tmp_path / name)
    with closing(Context(directory=tmp_path)) as context:
        assert [item.name for item in projects(context, forget=Path("one")).projects] == ["two"]
        with pytest.raises(NotFound):
            projects(context, forget=Path("one"))
        assert projects(context, forget=Path("one/../two")).projects == ()
    assert (tmp_path / "one" / ".bede" / "bede.db").exists()


def test_a_registry_that_cannot_be_used_is_a_warning_only(tmp_path):
    (tmp_path / "file").write_text("no folder")
    made = _init(tmp_path / "work", BEDE_DATA_DIR=str(tmp_path / "file"))
    assert (made.outcome, made.registered) == ("created", False)
    assert "registry" in made.warning
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "registry.db").write_bytes(b"garbage" * 1000)
    assert _init(tmp_path / "work", BEDE_DATA_DIR=str(tmp_path / "data")).warning
    with pytest.raises(Unavailable):
        _known(BEDE_DATA_DIR=str(tmp_path / "data"))


@posix
def test_the_registry_is_private(tmp_path, home):
    _init(tmp_path / "work")
    file = home / ".local/share/bede/registry.db"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def _at_once(bede: Callable[..., Any], calls: list[tuple[tuple[str, ...], Path]]) -> list[Any]:
    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(lambda call: bede(*call[0], cwd=call[1]), calls))


def test_eight_at_once_make_one_project(tmp_path, bede):
    done = _at_once(bede, [(("init",), tmp_path / "work")] * 8)
    assert [item.status for item in done] == [0] * 8
    assert sorted(item.json()["outcome"] for item in done) == ["created", *["unchanged"] * 7]
    assert len({item.json()["project_id"] for item in done}) == 1
    assert sorted(path.name for path in (tmp_path / "work" / ".bede").iterdir()) == [".gitignore", "bede.db"]
    assert bede("verify", cwd=tmp_path / "work").json()["operations"] == 1


def test_eight_at_once_register_eight_projects(tmp_path, bede):
    folders = [tmp_path / f"p{number}" for number in range(8)]
    for folder in folders:
        folder.mkdir()
    done = _at_once(bede, [(("init",), folder) for folder in folders])
    assert [(item.status, item.json()["registered"], item.json()["warning"]) for item in done] == [(0, True, "")] * 8
    assert _known().keys() == set(map(str, folders))


def test_a_half_made_project_is_made_whole(tmp_path, bede):
    """A call that was killed on the way left its folder, and a file that was never given its name."""
    folder = tmp_path / "work" / ".bede"
    folder.mkdir()
    (folder / ".bede.db.1.2").write_bytes(b"half")
    assert bede("status", cwd=tmp_path / "work").status == 10
    assert bede("init", cwd=tmp_path / "work").json()["outcome"] == "created"
    assert bede("verify", cwd=tmp_path / "work").status == 0


def test_a_file_that_is_no_memory_is_not_overwritten(tmp_path, bede):
    folder = tmp_path / "work" / ".bede"
    folder.mkdir()
    for data in (b"", b"garbage" * 500):
        (folder / "bede.db").write_bytes(data)
        found = bede("init", cwd=tmp_path / "work")
        assert (found.status, found.error()["code"]) == (20, "corrupt")
        assert (folder / "bede.db").read_bytes() == data
    with closing(sqlite3.connect(folder / "other.db")) as connection, connection:
        connection.execute("CREATE TABLE t (x)")
    shutil.move(folder / "other.db", folder / "bede.db")
    assert bede("init", cwd=tmp_path / "work").status == 20


@posix
def test_a_folder_that_is_a_file_is_an_error(tmp_path, bede):
    (tmp_path / "work" / ".bede").write_text("a file")
    error = bede("init", cwd=tmp_path / "work").error()
    assert (error["code"], error["hint"]) == ("unavailable", "move it away")
    assert error["message"].endswith(".bede: there is a file of that name")
    assert bede("status", cwd=tmp_path / "work").status == 10


def test_the_result_over_the_shell_is_the_same(tmp_path, bede):
    made = bede("init", cwd=tmp_path / "work")
    assert (made.status, made.err) == (0, "")
    assert json.loads(made.out)["schema"] == "init/1"
    assert bede("projects", cwd="/").json()["projects"][0]["project_id"] == made.json()["project_id"]
    assert bede("status", "--project", "work", cwd="/").json()["project_id"] == made.json()["project_id"]
    assert bede("status", "--project", "nowhere", cwd="/").status == 13
