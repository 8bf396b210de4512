"""`ingest`: what it takes in, what it tells of it, and what it is asked for."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from contracts.written import NAMES, codex, heard, identity, names, place, session, take, texts

from bede.context import Context
from bede.engines import tokens
from bede.errors import Busy, UsageError
from bede.intake.projects import LOCK
from bede.operations.ingest import ingest
from bede.operations.init import init
from bede.operations.recent import recent
from bede.operations.show import show
from bede.turnstile import held


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """No agent's own variables lead anywhere else."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def _rollout(home: Path, name: str, cwd: Path | str, count: int = 3) -> Path:
    path = home / ".codex" / "sessions" / f"rollout-2026-01-01T00-00-00-{identity(name)}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(codex(name, Path(cwd), count))
    return path


def _everything(context: Context) -> list[str]:
    """Return all that the database holds, as text."""
    with context.repository.snapshot() as reading:
        return list(reading.connection.iterdump())


def _files(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


def test_what_is_told_of_a_run(home, project, context):
    place(home, "ours").write_bytes(session("ours", project, 4))
    place(home, "theirs").write_bytes(session("theirs", "/somewhere/else", 4))
    place(home, "nobodys").write_bytes(session("nobodys", None, 4))
    place(home, "empty").write_bytes(b"")
    place(home, "bad").write_bytes(b"{ torn\n" + session("bad", project, 1))
    _rollout(home, "c", project)
    result = take(context)
    assert result.outcome == "ingested"
    assert result.project == str(project)
    assert result.files == {"empty": 1, "foreign": 1, "read": 3, "unplaced": 1}
    assert result.turns == {"new": 8}
    assert result.sessions == 3
    assert result.problems == {"torn": 1}
    assert result.records == 4 + 4 + 4 + 1 + 4
    assert (result.unreadable, result.stored, result.exits) == ((), (), 0)
    assert names(context) == sorted(["bad", "ours", identity("c")])


def test_what_is_nobodys_is_named_each_time(home, project, context, tmp_path):
    other, strange = tmp_path / "other", tmp_path / "strange"
    for folder in (other, strange):
        folder.mkdir()
    with closing(Context(directory=other)) as beside:
        init(beside)
    place(home, "theirs").write_bytes(session("theirs", other, 2))
    place(home, "nobodys").write_bytes(session("nobodys", None, 2))
    for number in range(5):
        path = place(home, f"s{number}")
        path.write_bytes(session(f"s{number}", strange, 2))
        os.utime(path, (number + 1, number + 1))
    for number in range(6):
        path = place(home, f"far{number}")
        path.write_bytes(session(f"far{number}", f"/far/{number}", 1))
        os.utime(path, (0, 0))
    result = take(context, dry_run=True)
    assert take(context).unclaimed == result.unclaimed
    for asked in ({}, {"dry_run": True}, {"since": "1969-01-01"}):
        again = take(context, **asked)
        assert (again.unclaimed, again.unclaimed_more) == (result.unclaimed, result.unclaimed_more)
        assert (again.files, again.records) == (result.files, 0), "by what is known of each, none is read again"
    told = {item.cwd: item for item in result.unclaimed}
    assert len(told) == 5 and result.unclaimed_more == 3, "of all folders so many only"
    assert str(other) not in told, "it is another project's"
    assert (told[""].files, told[""].paths) == (1, (str(place(home, "nobodys")),))
    newest = tuple(str(place(home, f"s{number}")) for number in (4, 3, 2))
    assert (told[str(strange)].files, told[str(strange)].paths) == (5, newest)
    with closing(Context(directory=strange)) as there:
        init(there)
        assert str(strange) not in {item.cwd for item in take(there).unclaimed}
    assert take(context, path=[place(home, "nobodys")]).unclaimed == ()
    left = take(context)
    assert left.files == {"foreign": 12, "unchanged": 1}
    assert {item.cwd for item in left.unclaimed} < {f"/far/{number}" for number in range(6)}
    assert left.unclaimed_more == 1
    assert take(context, status=True).unclaimed == ()


def test_what_was_decided_of_a_file_is_told_each_time(home, project, context, others):
    """To every project that meets it; what was read of it counts once."""
    place(home, "ours").write_bytes(session("ours", project, 4))
    place(home, "theirs").write_bytes(session("theirs", others[0], 4))
    place(home, "nobodys").write_bytes(session("nobodys", None, 4))
    place(home, "empty").write_bytes(b"")
    kinds = {"empty": 1, "foreign": 1, "unplaced": 1}
    assert (take(context).files, take(context).files) == (kinds | {"read": 1}, kinds | {"unchanged": 1})
    everywhere = take(context, all_=True)
    assert everywhere.files == {"empty": 1, "read": 1, "unchanged": 1, "unplaced": 1}
    assert (everywhere.records, everywhere.turns) == (12, {"new": 4}), "whoever reads it, of each file once"
    assert take(context, all_=True).files == {"empty": 1, "unchanged": 2, "unplaced": 1}


def test_the_log_of_a_scheduled_run_holds_no_secret(home, project, context):
    """Not in the name of what could not be read, either."""
    from bede import diary

    name = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    place(home, name).write_bytes(b"\x28\xb5\x2f\xfd" + b"nonsense" * 10)
    assert len(take(context, all_=True).unreadable) == 1
    last = diary.last(diary.place(context.environment))
    assert len(last["unreadable"]) == 1
    assert "a1B2c3D4" not in json.dumps(last)


def test_a_project_without_any_sessions_is_told_so(home, project, context):
    result = take(context)
    assert (result.outcome, result.files, result.turns, result.sessions) == ("ingested", {}, {}, 0)


def test_only_the_agents_that_are_named(home, project, context):
    place(home, "s").write_bytes(session("s", project, 4))
    _rollout(home, "c", project)
    assert take(context, agent=["codex"]).agents == ("codex",)
    assert names(context) == [identity("c")]
    assert take(context, agent=["claude-code", "codex", "codex"]).files == {"read": 1, "unchanged": 1}
    with pytest.raises(UsageError) as refused:
        ingest(context, agent=["nobody"])
    assert "claude-code" in str(refused.value.hint)


def test_only_what_changed_since(home, project, context, clock):
    old, new = place(home, "old"), place(home, "new")
    for path, days in ((old, 10), (new, 1)):
        path.write_bytes(session(path.stem, project, 2))
        at = clock.at / 1e6 - days * 86400
        os.utime(path, (at, at))
    assert take(context, since="3d").files == {"read": 1}
    assert names(context) == ["new"]
    assert take(context, since="2025-01-01").files == {"read": 1, "unchanged": 1}
    with pytest.raises(UsageError):
        ingest(context, since="some day")


def test_a_database_is_as_new_as_its_log(home, project, context, clock):
    """While a program has it open, its newest rows stand beside it."""
    path = home / ".local/share/opencode/opencode.db"
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE session (id TEXT)")
        database.execute("CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT)")
    log = path.with_name(path.name + "-wal")
    log.write_bytes(b"")
    os.utime(path, (1, 1))
    os.utime(log, (clock.at / 1e6, clock.at / 1e6))
    assert sum(take(context, since="1h").files.values()) == 1
    os.utime(log, (1, 1))
    assert take(context, since="1h").files == {}


def test_a_named_file_is_taken_whosever_it_is(home, project, context, tmp_path):
    theirs, nobodys = place(home, "theirs"), tmp_path / "elsewhere" / "nobodys.jsonl"
    theirs.write_bytes(session("theirs", "/somewhere/else", 2))
    nobodys.parent.mkdir()
    nobodys.write_bytes(session("nobodys", None, 2))
    assert take(context).files == {"foreign": 1}
    result = take(context, path=[theirs, nobodys])
    assert (result.files, result.turns) == ({"read": 2}, {"new": 4})
    assert take(context, path=[theirs, nobodys]).files == {"unchanged": 2}
    with theirs.open("ab") as out:
        out.write(session("theirs", "/somewhere/else", 1, start=3))
    assert take(context).turns == {"new": 1, "repeated": 1}
    assert texts(context, "theirs") == heard("theirs", 1, 2, 3)


@pytest.mark.parametrize("relative", [True, False])
def test_a_named_file_is_named_from_where_the_call_is(relative, home, project, context):
    path = project / "kept" / "s.jsonl"
    path.parent.mkdir()
    path.write_bytes(session("s", None, 2))
    assert take(context, path=[Path("kept/s.jsonl") if relative else path]).turns == {"new": 2}


def test_of_named_files_a_bad_one_costs_itself(home, project, context):
    good, bad, folder = place(home, "good"), project / "bad.txt", project / "folder"
    good.write_bytes(session("good", None, 2))
    bad.write_text("no transcript at all")
    folder.mkdir()
    result = take(context, path=[bad, project / "gone.jsonl", folder, good])
    assert result.exits == 30
    assert result.files == {"read": 1, "unreadable": 3}
    assert [item.code for item in result.unreadable] == ["bad_source"] * 3
    assert [Path(item.path).name for item in result.unreadable] == ["bad.txt", "gone.jsonl", "folder"]
    assert names(context) == ["good"]


def test_what_is_told_of_a_file_that_cannot_be_read_holds_no_secret(project, context, tmp_path):
    token = "ghp_" + "a1B2c3" * 6
    path = tmp_path / f"{token}.jsonl"
    path.write_text("no transcript\n", encoding="utf-8")
    (told,) = take(context, path=[str(path)]).unreadable
    assert token not in json.dumps(told.to_json())
    assert "[redacted:github-token].jsonl" in told.path and "[redacted:github-token].jsonl" in told.message


def test_named_files_are_named_alone(context):
    for asked in ({"all_": True}, {"agent": ["codex"]}):
        with pytest.raises(UsageError):
            ingest(context, path=[Path("x")], **asked)


def test_a_plan_writes_nothing(home, project, context):
    path = place(home, "s")
    path.write_bytes(session("s", project, 4))
    place(home, "t").write_bytes(session("t", "/somewhere/else", 4))
    before, there = _everything(context), _files(project)
    result = ingest(context, dry_run=True, keep_raw=True)
    assert result.outcome == "planned"
    assert (result.files, result.turns) == ({"foreign": 1, "read": 1}, {"new": 4})
    assert (_everything(context), _files(project)) == (before, there)
    take(context)
    with path.open("ab") as out:
        out.write(session("s", project, 2, start=5))
    before = _everything(context)
    assert ingest(context, dry_run=True).turns["new"] == 2
    assert ingest(context, dry_run=True, again=True).turns == {"new": 2, "repeated": 4}
    assert _everything(context) == before
    assert take(context).turns["new"] == 2


def test_status_tells_what_is_stored_and_reads_nothing(home, project, context):
    place(home, "s").write_bytes(session("s", project, 4))
    _rollout(home, "c", project)
    take(context)
    place(home, "t").write_bytes(session("t", project, 4))
    before = _everything(context)
    result = ingest(context, status=True)
    assert _everything(context) == before
    assert (result.outcome, result.files) == ("status", {})
    assert [(row.agent, row.model, row.sessions, row.turns) for row in result.stored] == [
        ("claude-code", "claude-x", 1, 4),
        ("codex", "", 1, 3),
    ]


def test_a_turn_is_shown_as_what_every_view_sees(home, project, context):
    place(home, "s").write_bytes(session("s", project, 2))
    take(context)
    shown = show(context, recent(context).turns[0].id)
    assert (shown.kind, shown.status) == ("turn", "active")


def test_status_tells_of_the_agents_that_are_named(home, project, context):
    place(home, "s").write_bytes(session("s", project, 4))
    _rollout(home, "c", project)
    take(context)
    assert [row.agent for row in ingest(context, status=True, agent=["codex"]).stored] == ["codex"]


def test_status_of_all_projects_is_their_sum(home, project, context, others):
    one, other = others
    for root in (project, one):
        place(home, root.name).write_bytes(session(root.name, root, 2))
    take(context, all_=True)
    result = ingest(context, status=True, all_=True)
    assert [(row.agent, row.model, row.sessions, row.turns) for row in result.stored] == [
        ("claude-code", "claude-x", 2, 4)
    ]
    assert other.is_dir()


@pytest.mark.parametrize("budget", [200, 300, 600, 2000])
def test_the_newest_turns_fill_a_budget_and_stay_within_it(budget, home, project, context):
    place(home, "s").write_bytes(session("s", project, 40))
    take(context)
    answer = recent(context, turns_=40, budget=budget)
    assert answer.turns and answer.turns[-1].text == heard("s", 40)[0]
    assert len(answer.turns) + answer.left_out == 40
    assert tokens.fits(json.dumps(answer.to_json(), ensure_ascii=False), budget)


def test_again_reads_all_and_says_nothing_twice(home, project, context):
    place(home, "s").write_bytes(session("s", project, 4))
    take(context)
    result = take(context, again=True)
    assert (result.files, result.turns, result.records) == ({"read": 1}, {"repeated": 4}, 4)
    assert texts(context) == heard("s", 1, 2, 3, 4)


def test_thoughts_are_kept_when_asked_for_and_then_stay(home, project, context):
    from contracts.written import lines, said

    record = said("s", 2, "", project, by="assistant")
    record["message"]["content"] = [
        {"type": "thinking", "thinking": "let me see", "signature": "x"},
        {"type": "text", "text": "here it is"},
    ]
    place(home, "s").write_bytes(lines([said("s", 1, "where is it", project), record]))
    take(context)
    assert _thoughts(context) == 0
    assert take(context, thoughts=True).files == {"unchanged": 1}
    assert take(context, thoughts=True, again=True).turns == {"repeated": 1, "revised": 1}
    assert _thoughts(context) == 1
    assert take(context, again=True).turns == {"repeated": 2}
    assert _thoughts(context) == 1


def _thoughts(context: Context) -> int:
    from bede.repository import log

    with context.repository.snapshot() as reading:
        rows = reading.connection.execute("SELECT e.body FROM turn t JOIN event e USING (seq)").fetchall()
    return sum("thought" in part for (stored,) in rows for part in (log.body(stored) or {"parts": ()})["parts"])


@pytest.fixture
def others(tmp_path: Path, clock: Callable[[], int]) -> tuple[Path, Path]:
    """Two more projects, registered as every project is."""
    roots = (tmp_path / "one", tmp_path / "other")
    for root in roots:
        root.mkdir()
        with closing(Context(directory=root, clock=clock, agent="tester")) as context:
            init(context)
    return roots


def test_all_serves_every_registered_project(home, project, context, others, clock):
    one, other = others
    for root in (project, *others):
        place(home, root.name, f"-{root.name}").write_bytes(session(root.name, root, 2))
    place(home, "both").write_bytes(session("x1", one, 2) + session("x2", other, 2))
    place(home, "nobodys").write_bytes(session("nobodys", "/somewhere/else", 2))
    result = take(context, all_=True)
    assert result.project == ""
    assert result.files == {"foreign": 1, "read": 4}
    assert (result.turns, result.sessions, result.records) == ({"new": 10}, 5, 12)
    assert names(context) == [project.name]
    for root, expected in ((one, ["one", "x1"]), (other, ["other", "x2"])):
        with closing(Context(directory=root, clock=clock)) as there:
            assert names(there) == expected
    again = take(context, all_=True)
    assert (again.turns, again.exits) == ({}, 0)
    with place(home, "both").open("ab") as out:
        out.write(session("x2", other, 1, start=3))
    assert take(context, all_=True).turns["new"] == 1


def test_all_goes_on_where_one_project_cannot_be_used(home, project, context, others):
    one, other = others
    (one / ".bede" / "bede.db").write_bytes(b"no database")
    for root in (project, *others):
        place(home, root.name).write_bytes(session(root.name, root, 2))
    with held(other / ".bede" / LOCK) as is_mine:
        assert is_mine
        result = take(context, all_=True)
    assert result.exits == 30
    assert {Path(item.path).name for item in result.unreadable} == {"one", "other"}
    assert {item.code for item in result.unreadable} >= {"busy"}
    assert names(context) == [project.name]


def test_all_needs_no_project_here(home, others, tmp_path, clock):
    place(home, "one").write_bytes(session("one", others[0], 2))
    (tmp_path / "bare").mkdir()
    with closing(Context(directory=tmp_path / "bare", clock=clock)) as context:
        assert ingest(context, all_=True).turns == {"new": 2}


def test_one_run_at_a_time(home, project, context):
    place(home, "s").write_bytes(session("s", project, 2))
    with held(project / ".bede" / LOCK) as is_mine:
        assert is_mine
        with pytest.raises(Busy):
            ingest(context)
        assert ingest(context, status=True).stored == ()
        assert ingest(context, dry_run=True).turns == {"new": 2}
    assert take(context).turns == {"new": 2}


def test_how_far_it_is_is_told(home, project, clock):
    told = []
    for number in range(3):
        place(home, f"s{number}").write_bytes(session(f"s{number}", project, 1))
    with closing(Context(directory=project, clock=clock, progress=lambda *words: told.append(words))) as context:
        ingest(context)
    assert [words[:2] for words in told] == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_the_command_says_it_as_json_and_by_its_exit_status(home, project, bede):
    place(home, "s").write_bytes(session("s", project, 4))
    found = bede("ingest", "--json", cwd=project)
    assert (found.status, found.err) == (0, "")
    assert found.json()["turns"] == {"new": 4}
    assert found.json()["files"] == {"read": 1}
    bad = project / "bad.jsonl"
    bad.write_text("nonsense")
    found = bede("ingest", "--path", bad, "--json", cwd=project)
    assert found.status == 30
    assert found.json()["unreadable"][0]["path"] == str(bad)
    assert "Traceback" not in found.err
    assert bede("ingest", "--agent", "nobody", cwd=project).status == 2


def test_what_will_be_deleted_soon_is_what_was_not_taken_in(home, project, context, clock):
    """`doctor` asks the same cursors: a file that was read is safe, one that grew since is not."""
    from bede.intake.fading import fading
    from bede.sources.port import World

    paths = [place(home, name) for name in ("taken", "grown", "never", "theirs")]
    for path in paths:
        path.write_bytes(session(path.stem, "/somewhere/else" if path.stem == "theirs" else project, 2))
    take(context, path=[paths[0], paths[1]])
    take(context, since="2999-01-01")
    with paths[1].open("ab") as out:
        out.write(session("grown", project, 1, start=3))
    old = clock.at / 1e6 - 29 * 86400
    for path in paths:
        os.utime(path, (old, old))
    world = World(os.environ, home, "linux")
    with context.repository.snapshot() as reading:
        found, days = fading(reading.connection, world, clock.at)
    assert days == 30
    assert {path.stem for path in found} >= {"grown", "never", "theirs"}
    take(context)
    with context.repository.snapshot() as reading:
        assert fading(reading.connection, world, clock.at)[0] == []


EMPTY = [
    ".claude/projects/x/a.jsonl",
    f".codex/sessions/rollout-2026-01-01T00-00-00-{identity('e')}.jsonl",
    f".codex/sessions/rollout-2025-01-01-{identity('e')}.json",
    ".local/share/opencode/storage/session/prj/ses_1.json",
    ".pi/agent/sessions/x/a.jsonl",
    ".omp/agent/sessions/x/a.jsonl",
    ".gemini/antigravity/brain/c/.system_generated/logs/transcript.jsonl",
    ".gemini/tmp/x/chats/a.json",
    ".gemini/tmp/x/chats/b.jsonl",
    ".cursor/projects/x/agent-transcripts/7.json",
    ".cursor/projects/x/agent-transcripts/8.jsonl",
    ".cursor/projects/x/agent-transcripts/9.txt",
    ".config/Cursor/User/globalStorage/state.vscdb",
    ".copilot/session-state/s/events.jsonl",
    ".config/Code/User/workspaceStorage/abc/chatSessions/5.json",
    ".config/Code/User/workspaceStorage/abc/chatSessions/6.jsonl",
    "anything.txt",
]


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf\r\n", b"\0" * 4096], ids=["nothing", "blank", "zeros"])
def test_an_empty_file_is_empty_whoever_s_it_is_and_however_it_is_met(home, project, context, content):
    """As one that an agent began and never wrote: nothing of it is lost, so nothing failed."""
    paths = [home / name for name in EMPTY]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    found = take(context)
    assert (found.exits, found.files, found.unreadable) == (0, {"empty": len(paths) - 1}, ())
    for path in paths:
        named = take(context, path=[path], again=True)
        assert (named.exits, named.files, named.unreadable, named.turns) == (0, {"empty": 1}, (), {}), path
    paths[0].write_bytes(session("a", project, 2))
    assert take(context).turns == {"new": 2}


def test_what_is_not_empty_and_nobodys_is_still_refused(home, project, context):
    path = home / "notes.txt"
    for content in (b"something", b" " * 70_000 + b"x"):
        path.write_bytes(content)
        assert take(context, path=[path]).exits == 30
    path.unlink()
    assert take(context, path=[path]).exits == 30


@pytest.mark.parametrize("leaves", ["git tells its whole path", "git tells it from there", "nothing tells it"])
def test_a_worktree_that_is_gone(home, project, context, leaves):
    """Its sessions are the project's while git tells of it; after that they are named, and come in by name."""
    gone = project.parent / "gone-tree"
    if leaves.startswith("git"):
        entry = project / ".git" / "worktrees" / "gone-tree"
        entry.mkdir(parents=True)
        (entry / "gitdir").write_text(f"{gone}/.git\n" if "whole" in leaves else "../../../../gone-tree/.git\n")
    path = place(home, "s")
    path.write_bytes(session("s", gone / "src", 4))
    place(home, "t").write_bytes(session("t", home, 2))
    told = {item.cwd: item for item in take(context).unclaimed}
    assert not told[str(home)].gone
    if leaves.startswith("git"):
        assert texts(context) == heard("s", 1, 2, 3, 4)
        return
    assert texts(context) == []
    assert (told[str(gone / "src")].gone, told[str(gone / "src")].paths) == (True, (str(path),))
    assert take(context, path=[Path(told[str(gone / "src")].paths[0])]).turns == {"new": 4}
    assert texts(context) == heard("s", 1, 2, 3, 4)
    assert take(context).files == {"foreign": 1, "unchanged": 1}
