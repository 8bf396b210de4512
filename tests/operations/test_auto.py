"""`auto`: the truth about a run, whatever the command and the store do."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import COMMAND, surroundings

EXIT = "import sys; sys.exit(int(open('code').read()))"


def recalled(bede, task="T1"):
    return bede("auto", "--recall-only", "--task-id", task, "--json").json()


@pytest.mark.parametrize("status", [0, 1, 7, 42, 255])
def test_the_commands_status_is_kept_and_recorded(bede, project, status):
    ran = bede("auto", "--task-id", "T1", "--json", "--", sys.executable, "-c", f"raise SystemExit({status})")
    assert ran.status == status
    result = json.loads(ran.err.splitlines()[-1])
    assert (result["schema"], result["exit_status"]) == ("auto/1", status)
    assert bede("show", result["recorded"]).json()["body"].get("exit_status") == status


def test_pass_then_fail_is_recalled_as_failed(bede, project):
    for status in (0, 7):
        Path("code").write_text(str(status))
        assert bede("auto", "--task-id", "T1", "--agent-id", "bot", "--", sys.executable, "-c", EXIT).status == status
    first = recalled(bede)["recalled"][0]
    assert (first["exit_status"], first["status"], first["agent_id"]) == (7, "active", "bot")
    assert [item["exit_status"] for item in bede("status").json()["blockers"]] == [7]
    Path("code").write_text("0")
    bede("auto", "--task-id", "T1", "--", sys.executable, "-c", EXIT)
    assert bede("status").json()["blockers"] == []
    for status in (130, 4):
        bede("auto", "--task-id", "T1", "--", sys.executable, "-c", f"raise SystemExit({status})")
        assert [item["exit_status"] for item in bede("status").json()["blockers"]] == [4] * (status == 4)


def test_the_child_gets_the_recall_and_the_ids(bede, project):
    bede("store", "--kind", "decision", "--key", "db", "--value", "sqlite", "--rationale", "one file for the ledger")
    bede("store", "--kind", "note", "--task-id", "T1", "--summary", "the ledger is big")
    code = (
        "import os; print(open(os.environ['BEDE_CONTEXT_FILE']).read(), "
        "os.environ['BEDE_TASK_ID'], os.environ['BEDE_RUN_ID'])"
    )
    summary = ["--summary", "move the ledger to another db"]
    ran = bede("auto", "--task-id", "T1", *summary, "--", sys.executable, "-c", code)
    assert "the ledger is big" in ran.out
    assert "db = sqlite" in ran.out
    assert " T1 " in ran.out
    quiet = bede("auto", "--task-id", "T1", "--no-recall", "--", sys.executable, "-c", code)
    assert "the ledger is big" not in quiet.out + quiet.err


def test_recall_only_writes_and_runs_nothing(bede, project):
    before = bede("status").json()["operations"]
    ran = bede("auto", "--task-id", "T1", "--recall-only", "--", sys.executable, "-c", "open('made', 'w')")
    assert ran.status == 0
    assert not Path("made").exists()
    assert bede("status").json()["operations"] == before


def test_a_store_that_cannot_be_read_is_a_warning_and_the_command_runs(bede, project):
    (project / ".bede" / "bede.db").write_bytes(b"junk" * 4096)
    ran = bede("auto", "--task-id", "T1", "--json", "--", sys.executable, "-c", "print('ran'); raise SystemExit(4)")
    assert (ran.status, ran.out.strip()) == (4, "ran")
    assert "nothing was recalled" in ran.err
    assert "was not recorded" in json.loads(ran.err.splitlines()[-1])["warning"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--task-id", "bad id"], "usage"),
        (["--task-id", "T1", "--branch", "nowhere"], "not_found"),
        (["--task-id", "T1", "--kind", "task_handoff"], "rejected"),
    ],
)
def test_what_fails_before_the_command_is_125(bede, project, words, code):
    ran = bede("auto", *words, "--", sys.executable, "-c", "open('made', 'w')")
    assert (ran.status, ran.error()["code"], ran.error()["exit_status"]) == (125, code, 125)
    assert not Path("made").exists()


def test_no_project_is_125_too(bede):
    ran = bede("auto", "--task-id", "T1", "--", sys.executable, "-c", "open('made', 'w')")
    assert (ran.status, ran.error()["code"]) == (125, "repository_not_found")
    assert not Path("made").exists()


def test_no_such_command_and_not_executable(bede, project):
    assert bede("auto", "--task-id", "T1", "--", "no-such-command-here").status == 127
    plain = Path("plain.txt")
    plain.write_text("text")
    plain.chmod(0o644)
    if os.name == "posix":
        assert bede("auto", "--task-id", "T1", "--", "./plain.txt").status == 126
    assert recalled(bede)["recalled"][0]["exit_status"] in (126, 127)
    assert bede("status").json()["blockers"] == [], "what never ran blocks nothing"


def test_a_secret_in_words_or_output_is_not_stored(bede, project):
    token = "ghp_" + "a1B2" * 9
    bede("auto", "--task-id", "T1", "--", sys.executable, "-c", f"print('token {token}'); raise SystemExit(1)")
    stored = b"".join(path.read_bytes() for path in (project / ".bede").iterdir())
    assert token.encode() not in stored


@pytest.mark.parametrize("command", [
    ["curl", "-u", "ann:hunter2sun", "https://x.io"], ["mysql", "-uroot", "-phunter2sun", "shop"],
    ["sshpass", "-p", "hunter2sun", "ssh", "x"], ["echo", "Authorization:", "Bearer", "hunter2sunhunter2sun"],
])  # fmt: skip
def test_a_secret_that_only_the_whole_command_shows_is_not_stored(bede, project, command):
    by_auto = bede("auto", "--task-id", "T1", "--report", "report.json", "--json", "--", *command)
    reported = ["--kind", "run", "--task-id", "T2", "--exit-status", "1"]
    by_hand = [bede("store", *reported, "--command", form) for form in (json.dumps(command), " ".join(command))]
    told = [bede(verb, "--json").out for verb in ("status", "context", "log")]
    told += [by_auto.err, *(ran.err for ran in by_hand)]
    kept = [path.read_bytes() for path in (project / ".bede").iterdir()] + [Path("report.json").read_bytes()]
    assert not [text for text in told if "hunter2sun" in text]
    assert not [data for data in kept if b"hunter2sun" in data]
    assert "[redacted:" in bede("search", "--kind", "run", "--json").out


def test_a_secret_is_in_no_report_either_nor_in_what_is_told(bede, project):
    token = "ghp_" + "a1B2" * 9
    code = f"open('{token}.txt', 'w'); raise SystemExit(3)"
    words = ["--report", "report.json", "--json", "--summary", f"with {token}", "--tags", token]
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    ran = bede("auto", "--task-id", "T1", *words, "--", sys.executable, "-c", code)
    report = json.loads(Path("report.json").read_text())
    assert (ran.status, report["exit_status"], report["command"][0]) == (3, 3, sys.executable)
    assert report["files"] == ["[redacted:github-token].txt"]
    assert report == json.loads(ran.err.splitlines()[-1])
    absent = bede("auto", "--task-id", "T1", "--report", "absent.json", "--", f"./{token}")
    assert absent.status == 127
    only = bede("auto", "--task-id", "T1", "--recall-only", "--json", "--", "mysql", f"-p{token}")
    told = [Path("report.json").read_text(), Path("absent.json").read_text(), ran.err, absent.err, only.out]
    assert [text for text in told if token in text] == []
    assert all("[redacted:github-token]" in text for text in told)
    refused = bede("auto", "--task-id", token, "--", sys.executable, "-c", "open('made', 'w')")
    assert (refused.status, Path("made").exists(), token in refused.err) == (125, False, False)


@pytest.mark.skipif(os.name != "posix", reason="descriptors are closed by a shell")
@pytest.mark.parametrize(
    "streams", ["2>&-", "2>/dev/full", "2> >(true)", ">&- 2>&-", "<&- >&- 2>&-", ">/dev/full", "--report /dev/full"]
)
@pytest.mark.parametrize("form", ["--json", "--pretty", "--quiet"])
def test_whoever_hears_of_it_the_commands_status_is_kept(bede, project, streams, form):
    if "/dev/full" in streams and not Path("/dev/full").exists():
        pytest.skip("no device here is always full")
    script = "sleep 0.1; exit 4"
    words = streams if streams.startswith("--") else ""
    call = f"{shlex.join(COMMAND)} auto --task-id T1 {form} {words} -- sh -c {shlex.quote(script)}"
    call += "" if words else f" {streams}"
    done = subprocess.run(["bash", "-c", call], env=surroundings(None), check=False, capture_output=True, timeout=120)
    assert done.returncode == 4
    assert [item["exit_status"] for item in recalled(bede)["recalled"]] == [4]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no file has such a name")
def test_a_name_that_is_no_utf8_costs_no_report(bede, project):
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    code = "open(b'a\\xffb', 'w')"
    assert bede("auto", "--task-id", "T1", "--report", "r.json", "--", sys.executable, "-c", code).status == 0
    report = json.loads(Path("r.json").read_text(encoding="utf-8"))
    assert report["warning"] == ""
    assert len(report["files"]) == 1


def test_report_and_the_companion_memory(bede, project):
    words = ["--kind", "status_update", "--tags", "nightly", "--report", "report.json"]
    words += ["--summary", "the nightly import"]
    for _ in range(2):
        assert bede("auto", "--task-id", "T1", *words, "--", sys.executable, "-c", "pass").status == 0
    report = json.loads(Path("report.json").read_text())
    assert (report["schema"], report["exit_status"], report["command"][0]) == ("auto/1", 0, sys.executable)
    found = bede("search", "--task-id", "T1", "--kind", "status_update", "--tags", "nightly").json()["results"]
    assert len(found) == 1, "the second status supersedes the first"
    assert found[0]["summary"].startswith("the nightly import: exit 0")


def test_how_a_task_was_left_and_what_fails_in_it_come_before_what_passes(bede, project):
    own = ["--task-id", "T1", "--learnings", "the orders table is done"]
    note = ["--summary", "all of the orders are migrated", "--handoff-note", "next come the invoices, then the mail"]
    assert bede("store", "--kind", "task_handoff", *own, *note).status == 0
    bede("store", "--kind", "status_update", *own, "--summary", "half of the tables are migrated")
    bede("auto", "-q", "--task-id", "T1", "--", sys.executable, "-c", "raise SystemExit(4)")
    bede("store", "--kind", "note", "--task-id", "T1", "--summary", "invoices have a trigger that has to go first")
    for number in range(6):
        bede("auto", "-q", "--task-id", "T1", "--", sys.executable, "-c", f"print({number})")
    kinds = [item["kind"] for item in recalled(bede)["recalled"]]
    assert kinds == ["task_handoff", "status_update", "run", "note", "run"]
    assert recalled(bede)["recalled"][2]["exit_status"] == 4
    assert [item["exit_status"] for item in recalled(bede)["recalled"] if item["kind"] == "run"] == [4, 0]
