"""Whose a session is, and whose a turn that stands in several of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from contracts.written import (
    NAMES,
    codex,
    heard,
    identity,
    lines,
    names,
    place,
    said,
    session,
    take,
    texts,
    whole_again,
)

from bede.context import Context
from bede.intake import belonging, sorting
from bede.intake.belonging import Roots, worktrees
from bede.operations.init import init


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """No agent's own variables lead anywhere else."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def test_an_id_that_is_used_twice_costs_neither(home, project, context):
    one, other = said("s", 1, "the first", project), said("s", 1, "the second", project)
    place(home, "s").write_bytes(lines([one, other, one]))
    take(context)
    assert texts(context) == ["the first", "the second"]


def test_two_sessions_in_one_file_are_two(home, project, context):
    both = zip(session("a", project, 4).splitlines(True), session("b", project, 4).splitlines(True), strict=True)
    place(home, "s").write_bytes(b"".join(line for pair in both for line in pair))
    take(context)
    assert texts(context, "a") == heard("a", 1, 2, 3, 4)
    assert texts(context, "b") == heard("b", 1, 2, 3, 4)


@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_of_two_sessions_in_one_file_only_ours_is_taken(first, home, project, context):
    """Also where the file was met, and put aside, before ours began."""
    ours, theirs = session("a", project, 4), session("b", "/somewhere/else", 4)
    path = place(home, "s")
    path.write_bytes(ours if first == "ours" else theirs)
    take(context)
    with path.open("ab") as out:
        out.write(theirs if first == "ours" else ours)
    take(context)
    assert texts(context) == heard("a", 1, 2, 3, 4)


@pytest.mark.parametrize("order", ["original first", "fork first"])
def test_a_fork_says_only_what_is_its_own(order, home, project, context):
    original = [said("a", number, f"said {number}", project) for number in range(1, 5)]
    copied = [record | {"sessionId": "b"} for record in original[:3]]
    own = [said("b", number, f"own {number}", project) for number in (4, 5)]
    files = [(place(home, "a"), lines(original)), (place(home, "b"), lines([*copied, *own]))]
    for path, data in files if order == "original first" else files[::-1]:
        path.write_bytes(data)
        take(context)
    assert sorted(texts(context)) == sorted([f"said {number}" for number in range(1, 5)] + ["own 4", "own 5"])
    before = texts(context)
    take(context, again=True)
    assert texts(context) == before
    whole_again(context)


@pytest.mark.parametrize("order", ["original first", "fork first"])
def test_a_codex_fork_with_other_times_says_only_what_is_its_own(order, home, project, context):
    """The copy has no ids and new times; that it is one, its place tells."""
    folder = home / ".codex" / "sessions"
    folder.mkdir(parents=True)
    parent, child = codex("p", project, 4), codex("p", project, 4).splitlines(True)
    meta = json.loads(codex("k", project, 0))
    meta["payload"]["forked_from_id"] = identity("p")
    copied = [json.loads(line) | {"timestamp": "2026-01-01T00:01:00.000Z"} for line in child]
    own = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "my own"}]}
    turn = {"turn_id": identity("t"), "cwd": str(project)}
    records = [
        meta,
        *copied,
        {"timestamp": "2026-01-01T00:05:00.000Z", "type": "turn_context", "payload": turn},
        {"timestamp": "2026-01-01T00:05:01.000Z", "type": "response_item", "payload": own},
    ]
    files = [("p", parent), ("k", lines(records))]
    for name, data in files if order == "original first" else files[::-1]:
        (folder / f"rollout-2026-01-01T00-00-00-{identity(name)}.jsonl").write_bytes(data)
        take(context)
    assert sorted(texts(context)) == [*(f"codex {number}" for number in range(1, 5)), "my own"]
    whole_again(context)


def test_a_resumed_session_in_a_new_file_goes_on(home, project, context):
    """The new file begins with all that was said before, under the old id, and goes on under its own."""
    before = [said("a", number, f"said {number}", project) for number in range(1, 4)]
    place(home, "a").write_bytes(lines(before))
    take(context)
    again = [record | {"sessionId": "b"} for record in before]
    place(home, "b").write_bytes(lines([*again, said("b", 4, "and on", project)]))
    assert take(context).turns == {"new": 1, "replayed": 3}
    assert texts(context, "b") == ["and on"]


def _agent_file(home: Path, parent: str, name: str, cwd: Path | str | None) -> Path:
    records = [
        said(parent, number, f"{name} {number}", cwd, seed=name, isSidechain=True, agentId=name) for number in (1, 2)
    ]
    path = place(home, parent).parent / parent / "subagents" / f"agent-{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lines(records))
    return path


@pytest.mark.parametrize("order", ["parent first", "child first", "child long before"])
def test_a_sub_agent_without_a_folder_is_its_parents(order, home, project, context):
    path = place(home, "p")
    child = _agent_file(home, "p", "kid", None)
    if order == "child long before":
        assert take(context).files == {"unplaced": 1}
    path.write_bytes(session("p", project, 2))
    os.utime(child, (9, 9) if order == "child first" else (2_000_000_000, 2_000_000_000))
    result = take(context)
    assert result.files == {"read": 2}
    assert texts(context, "p/kid") == ["kid 1", "kid 2"]
    with child.open("ab") as out:
        out.write(lines([said("p", 3, "kid 3", None, seed="kid", isSidechain=True, agentId="kid")]))
    take(context)
    assert texts(context, "p/kid") == ["kid 1", "kid 2", "kid 3"]
    whole_again(context)


def test_a_sub_agent_with_a_folder_of_its_own_is_where_it_worked(home, project, context):
    place(home, "p").write_bytes(session("p", project, 2))
    _agent_file(home, "p", "far", "/somewhere/else")
    place(home, "q").write_bytes(session("q", "/somewhere/else", 2))
    _agent_file(home, "q", "near", project / "deep")
    _agent_file(home, "q", "lost", None)
    take(context)
    assert names(context) == ["p", "q/near"]


def test_a_session_that_tells_its_folder_late_loses_nothing(home, project, context):
    path = place(home, "s")
    path.write_bytes(lines([said("s", 1, "before", None), said("s", 2, "still", None)]))
    assert take(context).files == {"unplaced": 1}
    assert texts(context) == []
    with path.open("ab") as out:
        out.write(lines([said("s", 3, "now", project)]))
    assert take(context).turns["new"] == 3
    assert texts(context) == ["before", "still", "now"]


def test_what_is_held_back_is_bounded(home, project, context, monkeypatch):
    """There is no room for what was said before the folder was told; it is read again, and nothing is lost."""
    monkeypatch.setattr(sorting, "HELD", 2000)
    records = [said("s", number, f"{number} " + "x" * 300, None) for number in range(1, 40)]
    place(home, "s").write_bytes(lines([*records, said("s", 40, "40 here", project)]))
    assert take(context).turns["new"] == 40
    assert [text.split()[0] for text in texts(context)] == [str(number) for number in range(1, 41)]
    place(home, "t").write_bytes(lines(record | {"sessionId": "t"} for record in records))
    assert take(context).files == {"unchanged": 1, "unplaced": 1}


def test_parents_in_a_circle_end(home, project, context):
    def meta(own: str, parent: str) -> dict[str, object]:
        payload = {"id": identity(own), "forked_from_id": identity(parent), "timestamp": "2026-01-01T00:00:00.000Z"}
        return {"timestamp": "2026-01-01T00:00:00.000Z", "type": "session_meta", "payload": payload}

    folder = home / ".codex" / "sessions"
    folder.mkdir(parents=True)
    for own, parent in (("a", "b"), ("b", "c"), ("c", "a"), ("d", "d")):
        data = lines([meta(own, parent)]) + b"".join(codex(own, project, 2).splitlines(True)[1:])
        (folder / f"rollout-2026-01-01T00-00-00-{identity(own)}.jsonl").write_bytes(data)
    assert take(context).files == {"unplaced": 4}
    named = take(context, path=sorted(folder.iterdir()))
    assert named.files == {"read": 4}
    assert len(names(context)) == 4
    whole_again(context)


# Folders as systems name them.


def _git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True)


@pytest.fixture
def checkout(project: Path) -> Path:
    """The project as a git checkout with one commit."""
    _git(project, "init", "-q")
    _git(project, "commit", "-q", "--allow-empty", "-m", "first")
    return project


def _placed(home: Path, context: Context, cwd: object) -> bool:
    place(home, "s").write_bytes(session("s", str(cwd), 2))
    take(context, again=True)
    return names(context) == ["s"]


@pytest.mark.parametrize("within", ["", "/", "//", "/.", "/deep", "/deep/../deep/", "/gone/and/away", "/deep/./x/.."])
def test_a_folder_within_is_the_projects(within, home, project, context):
    (project / "deep").mkdir()
    assert _placed(home, context, f"{project}{within}")


@pytest.mark.parametrize("beside", ["x", "/../other", "/..", "/deep/../..", " ", "/../work2"])
def test_a_folder_beside_is_not(beside, home, project, context):
    assert not _placed(home, context, f"{project}{beside}")


def test_a_project_behind_a_link_is_the_same_one(home, project, context, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(project)
    (project / "deep").mkdir()
    assert _placed(home, context, link / "deep")


def test_a_link_within_that_leads_away_leads_away(home, project, context, tmp_path):
    (tmp_path / "away").mkdir()
    (project / "link").symlink_to(tmp_path / "away")
    assert not _placed(home, context, project / "link" / "x")


def test_a_worktree_is_the_projects_also_when_it_is_gone(home, checkout, context, tmp_path):
    tree = tmp_path / "tree"
    _git(checkout, "worktree", "add", "-q", str(tree))
    assert _placed(home, context, tree / "deep")
    shutil.rmtree(tree)
    place(home, "t").write_bytes(session("t", tree, 2))
    take(context)
    assert names(context) == ["s", "t"]
    _git(checkout, "worktree", "prune")
    place(home, "u").write_bytes(session("u", tree, 2))
    take(context)
    assert names(context) == ["s", "t"]


@pytest.mark.parametrize(
    ("told", "cwd"),
    [
        ("../../../../tree/.git", "{above}/tree/src"),
        ("../../../../far/away/tree/.git", "{above}/far/away/tree"),
        ("../../../in/tree/.git", "{above}/work/in/tree"),
        ("{above}/tree/.git", "{above}/tree/src"),
        ("C:/code/tree/.git", "C:\\code\\tree\\src"),
        ("/mnt/c/code/tree/.git", "/mnt/c/code/tree/src"),
    ],
)
def test_a_worktree_is_where_git_says_from_where_it_says_it(told, cwd, tmp_path):
    """Git writes the path from its own folder on when it is told to."""
    entry = tmp_path / "work" / ".git" / "worktrees" / "tree"
    entry.mkdir(parents=True)
    (entry / "gitdir").write_text(told.format(above=tmp_path.as_posix()) + "\n")
    _, found = worktrees(tmp_path / "work")
    roots = Roots([("ours", [found])])
    assert roots.holder(cwd.format(above=tmp_path)) == "ours"
    assert roots.holder(str(tmp_path / "work" / "src")) is roots.holder(str(Path.cwd())) is None


def test_a_worktree_that_is_known_later_brings_what_was_put_aside(home, checkout, context, tmp_path):
    """The file does not change; whose it is does."""
    tree = tmp_path / "tree"
    place(home, "s").write_bytes(session("s", tree, 2))
    assert take(context).files == {"foreign": 1}
    again = take(context)
    assert (again.files, again.records) == ({"foreign": 1}, 0)
    _git(checkout, "worktree", "add", "-q", str(tree))
    assert take(context).turns == {"new": 2}
    assert texts(context) == heard("s", 1, 2)


def test_a_project_within_a_project_has_its_own(home, project, context, clock):
    inner = project / "inner"
    inner.mkdir()
    with closing(Context(directory=inner, clock=clock, agent="tester")) as other:
        init(other, here=True)
        place(home, "in").write_bytes(session("in", inner / "x", 2))
        place(home, "out").write_bytes(session("out", project / "x", 2))
        take(context)
        take(other)
        assert (names(context), names(other)) == (["out"], ["in"])


def _roots(*roots: str) -> Roots:
    return Roots((root, (Path(root),)) for root in roots)


@pytest.mark.parametrize(
    ("inner", "cwd"),
    [
        ("/mnt/c/proj/sub", "/mnt/c/proj/sub/x"),
        ("/mnt/c/proj/sub", r"C:\proj\sub"),
        ("/mnt/c/proj/sub", r"\\?\c:\proj\sub\x"),
        ("/mnt/c/proj/sub", "C:/proj/sub/x"),
    ],
)
def test_a_project_within_has_its_own_under_whatever_name(inner, cwd, monkeypatch):
    real = os.path.isfile
    found = f"{inner}/.bede/bede.db"
    monkeypatch.setattr("os.path.isfile", lambda path: str(path) == found or real(path))
    assert _roots("/mnt/c/proj").holder(cwd) is None
    assert _roots("/mnt/c/proj", inner).holder(cwd) == inner
    assert _roots("/mnt/c/proj").holder(cwd.replace("sub", "other")) == "/mnt/c/proj"


def test_the_root_of_the_disk_holds_everything_that_no_nearer_project_does():
    roots = _roots("/", "/home/ada/near")
    assert roots.holder("/home/ada/near/x") == "/home/ada/near"
    assert roots.holder("/home/ada") == "/"
    assert roots.holder("/") == "/"
    assert roots.holder("relative") is None


@pytest.mark.parametrize(
    ("root", "cwd"),
    [
        ("/mnt/c/Users/Ada/proj", r"C:\Users\Ada\proj"),
        ("/mnt/c/Users/Ada/proj", r"c:\users\ada\PROJ\deep"),
        ("/mnt/c/Users/Ada/proj", "C:/Users/Ada/proj/deep"),
        ("/mnt/c/Users/Ada/proj", r"\\?\C:\Users\Ada\proj"),
        ("/mnt/c/Users/Ada/proj", r"C:\Users\Ada\other\..\proj"),
        ("/mnt/c/Users/Ada/proj", "/mnt/c/Users/Ada/proj/"),
        ("/home/ada/proj", r"\\wsl$\Ubuntu\home\ada\proj"),
        ("/home/ada/proj", r"\\wsl.localhost\Ubuntu-24.04\home\ada\proj\deep"),
        ("/home/ada/proj", "//wsl$/Ubuntu/home/ada/proj"),
        ("/home/ada/proj", r"\\?\UNC\wsl.localhost\Ubuntu\home\ada\proj"),
        (r"C:\Program Files\Git", r"c:\program files\git\x"),
        (r"D:\a\b", "D:/a/b"),
        (r"\\server\share\proj", r"\\server\share\proj\deep"),
    ],
)
def test_one_folder_under_several_names(root, cwd):
    assert _roots(root).holder(cwd) == root


@pytest.mark.parametrize(
    ("root", "cwd"),
    [
        (r"E:\A_B", r"E:\A-B"),
        ("/u/my_proj", "/u/my-proj"),
        ("/u/a-b", "/u/a/b"),
        ("/u/x", "/u/x.claude"),
        ("/mnt/c/x", "/mnt/d/x"),
        ("/home/ada/proj", r"C:\home\ada\proj"),
        ("/home/ada/proj", "/home/ada/PROJ"),
        ("/home/ada/proj", "home/ada/proj"),
    ],
)
def test_two_folders_under_names_that_look_alike(root, cwd):
    assert _roots(root).holder(cwd) is None


def test_where_case_makes_no_difference_it_makes_none(monkeypatch):
    monkeypatch.setattr(belonging, "_FOLDS", True)
    roots = _roots("/Users/Ada/Pröj")
    assert roots.holder("/users/ada/PRO\u0308J/deep") == "/Users/Ada/Pröj"
    assert set(belonging.forms("/Users/ADA/x/")) & set(belonging.forms("/users/ada/X"))
    assert not set(belonging.forms("/users/ada/x")) & set(belonging.forms("/users/ada/y"))
