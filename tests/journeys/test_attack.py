"""What an attacker found once, with the right answer."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

TOKEN = "ghp_" + "aB3" * 12


def on_disk(project: Path) -> bytes:
    return b"".join(path.read_bytes() for path in (project / ".bede").iterdir())


@pytest.mark.parametrize(
    "words",
    [
        ("fork", f"x-{TOKEN}"),
        ("fork", "fine", "--agent-id", TOKEN),
        ("store", "--agent-id", TOKEN, "--summary", "a note like any other"),
        ("store", "--task-id", TOKEN, "--summary", "a note like any other"),
        ("rollback", "main", "--agent-id", TOKEN),
    ],
)
def test_a_secret_in_a_name_never_reaches_the_disk(bede, project, words):
    ran = bede(*words)
    assert ran.status in (2, 3), ran.err
    assert TOKEN not in ran.err
    assert TOKEN.encode() not in on_disk(project)


def test_a_lost_table_is_named_with_its_cure(bede, project):
    bede("store", "the ledger is big")
    with sqlite3.connect(project / ".bede" / "bede.db") as connection:
        connection.execute("DROP TABLE memory")
    ran = bede("status")
    assert (ran.status, "bede reindex" in ran.error()["hint"]) == (20, True)
    checks = {check["name"]: check for check in bede("doctor").json()["checks"]}
    assert checks["indexes"]["outcome"] == "fail"
    assert "reindex" in checks["indexes"]["hint"]
    assert bede("reindex").status == 0
    assert bede("search", "ledger").json()["results"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"kind": "note", "kind": "task", "summary": "x"}', "twice"),
        ('{"kind": "run", "command": "ls", "exit_status": 99999999999999999999}', "32 bits"),
    ],
)
def test_json_that_could_be_lost_or_overflow_is_refused(bede, project, text, said):
    Path("in.json").write_text(text)
    ran = bede("store", "--from", "in.json")
    assert (ran.status, said in ran.error()["message"]) == (2, True), ran.err


def test_a_byte_order_mark_is_no_part_of_the_json(bede, project):
    Path("in.json").write_bytes(b'\xef\xbb\xbf{"summary": "written by another system"}')
    assert bede("store", "--from", "in.json").status == 0


def test_a_command_that_kills_bede_leaves_no_recall_behind_for_long(bede, project):
    if os.name != "posix":
        pytest.skip("asks for processes as POSIX does")
    bede("store", "--kind", "note", "--task-id", "T", "--summary", "the ledger is big")
    bede("auto", "--task-id", "T", "--", "sh", "-c", "kill -9 $PPID")
    assert list((project / ".bede").glob("recall-*"))
    bede("auto", "--task-id", "T", "--", sys.executable, "-c", "pass")
    assert not list((project / ".bede").glob("recall-*"))


def test_a_server_stays_with_its_project(bede, project):
    words = [sys.executable, "-m", "bede_cli", "serve"]
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "core"), str(root / "cli")])}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as server:

        def ask(identity: int, method: str, params: dict) -> dict:
            message = {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}
            server.stdin.write(json.dumps(message) + "\n")
            server.stdin.flush()
            return json.loads(server.stdout.readline())

        client = {"name": "test", "version": "1"}
        ask(1, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        note = {"name": "store", "arguments": {"summary": "for the first project only"}}
        assert not ask(2, "tools/call", note)["result"].get("isError")
        for path in (project / ".bede").iterdir():
            path.unlink()
        assert bede("init").json()["outcome"] == "created"
        for identity in (3, 4):
            answer = ask(identity, "tools/call", note)["result"]
            assert answer["isError"], answer
            assert answer["structuredContent"]["code"] == "conflict"
        server.stdin.close()
    assert bede("search", "first project").json()["results"] == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_server_that_cannot_answer_says_so(project):
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "core"), str(root / "cli")])}
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "bede_cli", "serve"],
            input="{}\n",
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            check=False,
        )
    assert (ran.returncode, json.loads(ran.stderr)["code"]) == (40, "unavailable")
