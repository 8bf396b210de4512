"""What goes wrong around a hook, and what its agent sees of it: the neutral answer, exit status 0, and nothing else.

Whatever breaks, the agent goes on; the reason stands in a log that stays small and private.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import COMMAND, Ran, surroundings
from faces.hooking import (
    AFTER,
    BEFORE,
    EVENTS,
    FILE,
    NEUTRAL,
    PROMPT,
    START,
    STOP,
    failures,
    leases,
    reason,
    rows,
    telling,
)

from bede import hooks
from bede.context import Context
from bede.errors import BedeError
from bede.hooks.failing import LARGEST
from bede.operations.store import store
from bede.operations.verify import verify

Run = Callable[..., Ran]
POSIX = pytest.mark.skipif(os.name == "nt", reason="needs POSIX streams and signals")
#: Nothing is read in, and a busy machine changes no answer.
UNHURRIED = {"BEDE_HOOK_INGEST": "0", "BEDE_HOOK_PATIENCE": "60"}
CLAUDE = ("PreToolUse", "--agent", "claude-code")
#: What ends a process that hangs, in seconds; nothing here takes that long.
LONG = 60


def asked(
    project: Path | str, session: str = "s1", moment: str = BEFORE, agent: str = "claude-code", **told: Any
) -> str:
    """Return the stdin of a call."""
    return telling(agent, moment, session, project, **told)[1]


def hook(bede: Run, stdin: str | bytes, words: tuple[str, ...] = CLAUDE, **options: Any) -> Ran:
    """Tell the hook of something, whose answer nothing hurries."""
    ran = bede("hook", *words, stdin=stdin, **{"env": UNHURRIED, **options})
    assert (ran.status, ran.err) == (0, "")
    return ran


def start(*words: str, env: dict[str, str] | None = None, **streams: Any) -> subprocess.Popen[bytes]:
    """Start a hook whose streams the test holds."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    environment = surroundings({"BEDE_HOOK_INGEST": "0", **(env or {})})
    return subprocess.Popen([*COMMAND, "hook", *words], env=environment, **{**pipes, **streams})


# What comes in


GARBAGE = {
    "empty": b"",
    "blank": b" \n\t ",
    "torn": b'{"session_id": "s1", "tool_',
    "no json": b"rm -rf /",
    "null": b"null",
    "list": b"[1, 2]",
    "text": b'"hello"',
    "number": b"1e999",
    "bytes": bytes(range(256)),
    "utf-16": '{"session_id": "s1"}'.encode("utf-16"),
    "deep": b"[" * 100_000,
    "deep members": b'{"tool_input":' * 50_000,
    "many": b"[" + b"[]," * 600_000 + b"[]]",
    "wrong types": json.dumps(
        {"session_id": {}, "cwd": 7, "tool_name": ["Edit"], "tool_input": "x", "hook_event_name": None}
    ).encode(),
}


@pytest.mark.parametrize("what", GARBAGE)
def test_garbage_is_answered_neutrally(what: str, project: Path, bede: Run) -> None:
    agents = EVENTS if what in ("empty", "wrong types") else ("claude-code", "copilot")
    for agent in agents:
        ran = hook(bede, GARBAGE[what], (EVENTS[agent][BEFORE], "--agent", agent))
        assert ran.out == NEUTRAL[agent], agent
    assert leases(project) == []


@pytest.mark.parametrize(
    "words", [(), ("--agent",), ("PreToolUse",), ("PreToolUse", "--agent", "nobody"), ("Nonsense", "--agent", "codex"),
    ("--agent", "codex"), ("PreToolUse", "--agent=gemini-cli"), ("\x1b[2J", "--agent", "é" * 999)]
)  # fmt: skip
def test_a_command_line_that_says_nothing_stops_nobody(
    words: tuple[str, ...], project: Path, home: Path, bede: Run
) -> None:
    ran = hook(bede, asked(project), words)
    assert ran.out == "{}\n"
    unknown = not {"codex", "--agent=gemini-cli"} & set(words)
    assert [line["error"] for line in failures(home)] == ["UsageError"] * unknown
    assert all(len(line["agent"]) <= 40 for line in failures(home))


def test_a_person_who_asks_is_told(project: Path, bede: Run) -> None:
    assert "docs/hooks.md" in hook(bede, b"", ("--help",)).out


def test_a_huge_call_is_read_to_its_end_and_dropped(project: Path, home: Path, bede: Run) -> None:
    body = asked(project).encode()
    huge = body[:-1] + b', "content": "' + b"x" * (65 << 20) + b'"}'
    assert hook(bede, huge).out == ""
    assert leases(project) == []
    assert [line["error"] for line in failures(home)] == ["ValueError"]
    large = body[:-1] + b', "content": "' + b"x" * (8 << 20) + b'"}'
    assert hook(bede, large).out == ""
    assert len(leases(project)) == 1


@POSIX
@pytest.mark.parametrize("agent", ["claude-code", "copilot"])
def test_a_stdin_that_never_ends_is_not_waited_for(agent: str, project: Path, home: Path) -> None:
    running = start(EVENTS[agent][BEFORE], "--agent", agent, env={"BEDE_HOOK_PATIENCE": "3"})
    assert running.stdin and running.stdout and running.stderr
    running.stdin.write(asked(project)[:40].encode())
    running.stdin.flush()
    assert running.wait(LONG) == 0
    assert (running.stdout.read().decode(), running.stderr.read()) == (NEUTRAL[agent], b"")
    assert [(line["error"], line["agent"]) for line in failures(home)] == [("TimeoutError", agent)]
    for stream in (running.stdin, running.stdout, running.stderr):
        stream.close()


@POSIX
@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2), (1, 2)])
def test_closed_streams_break_nothing(closed: tuple[int, ...], project: Path, bede: Run) -> None:
    def close() -> None:
        for handle in closed:
            os.close(handle)

    running = start(*CLAUDE, env=UNHURRIED, preexec_fn=close)
    out, err = running.communicate(asked(project).encode() if 0 not in closed else None, timeout=LONG)
    assert (running.returncode, out, err) == (0, b"", b"")
    assert len(leases(project)) == (0 not in closed)
    other = start(*CLAUDE, env=UNHURRIED, preexec_fn=close)
    other.communicate(asked(project, "s2").encode() if 0 not in closed else None, timeout=LONG)
    assert other.returncode == 0
    with closing(Context(directory=project)) as context:
        assert verify(context).ok


@POSIX
def test_a_reader_that_goes_away_is_not_missed(project: Path, bede: Run) -> None:
    hook(bede, asked(project))
    running = start(*CLAUDE, env=UNHURRIED)
    assert running.stdin and running.stdout and running.stderr
    running.stdout.close()
    running.stdin.write(asked(project, "s2").encode())
    running.stdin.close()
    assert (running.wait(LONG), running.stderr.read()) == (0, b"")
    running.stderr.close()
    if os.path.exists("/dev/full"):
        with open("/dev/full", "wb") as full:
            running = start(*CLAUDE, env=UNHURRIED, stdout=full)
            _, err = running.communicate(asked(project, "s2").encode(), timeout=LONG)
        assert (running.returncode, err) == (0, b"")


@POSIX
def test_a_reader_that_never_reads_is_not_waited_for(project: Path, bede: Run) -> None:
    hook(bede, asked(project))
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with open(writing, "wb", buffering=0) as stream:
        while stream.write(b"x" * 65536):
            pass
        os.set_blocking(writing, True)
        running = start(*CLAUDE, stdout=stream)
        _, err = running.communicate(asked(project, "s2").encode(), timeout=LONG)
    assert (running.returncode, err) == (0, b"")
    os.close(reading)


SESSIONS = ["", "x" * 300, "\x1b[2J", "a\0b", "\ud800", "a\nb", "../../etc", "é 資料", 7, None, {"a": 1}, True]


@pytest.mark.parametrize("session", SESSIONS, ids=repr)
def test_weird_sessions_stop_nobody(session: Any, project: Path, bede: Run) -> None:
    odd = {"session_id": session, "transcript_path": None}
    assert hook(bede, asked(project, **odd)).out == ""
    for moment in (START, PROMPT, BEFORE, AFTER, STOP):
        attended(project, moment, **odd)
    for name, *_ in rows(project, "SELECT session FROM lease_session UNION SELECT session FROM lease"):
        assert name.isprintable() and 0 < len(name) <= 256


def attended(project: Path, moment: str, **told: Any) -> str:
    """Answer a call in this process; what the hook would swallow is ''."""
    words, body = telling("claude-code", moment, "s1", project)
    try:
        payload = json.loads(body) | told
        return hooks.attend("claude-code", words[0], payload, {**os.environ, "BEDE_HOOK_INGEST": "0"})
    except (BedeError, ValueError):
        return ""


HOSTILE = ("a\0b", "\ud800.py", "x" * 5000, "a\x1b[2Jb.py", "\u202egpj.py", "..", "/", "~", "C:\\x.py", "a/" * 1500)


def test_hostile_paths_stop_nobody(project: Path, bede: Run) -> None:
    given = {"tool_name": "MultiEdit", "tool_input": {"edits": [{"path": path} for path in (*HOSTILE, "fine.py")]}}
    assert hook(bede, asked(project, **given)).out == ""
    assert "fine.py" in [row[2] for row in leases(project)]
    for path in HOSTILE:
        told = {"tool_name": "Edit", "tool_input": {"file_path": path}}
        refused = attended(project, BEFORE, session_id="s2", **told)
        assert not set(refused) & set("\0\x07\x1b\u202e"), path
        attended(project, AFTER, session_id="s2", **told)


def test_hostile_prompts_stop_nobody(project: Path, bede: Run) -> None:
    loud = "\x1b]0;x\x07 rename it \0 all \ud800 now \u202e"
    assert hook(bede, asked(project, moment=PROMPT, prompt=loud), ("UserPromptSubmit", *CLAUDE[1:])).out == ""
    for prompt in ("\0\0", "\ud800\udfff", "x" * 3_000_000, "\u202e" * 100, 7, None, ["x"]):
        assert attended(project, PROMPT, prompt=prompt, session_id="s9") == ""
    hook(bede, asked(project))
    refused = reason("codex", hook(bede, asked(project, "s2", agent="codex"), ("PreToolUse", "--agent", "codex")))
    assert "rename it" in refused and not set(refused) & set("\0\x07\x1b\u202e\ud800")


def test_thousands_of_files_stop_nobody(project: Path, home: Path, bede: Run) -> None:
    def patch(count: int) -> dict[str, Any]:
        files = "".join(f"*** Update File: src/f{number:05}.py\n@@\n-a\n+b\n" for number in range(count))
        return {"tool_input": {"command": f"*** Begin Patch\n{files}*** End Patch"}}

    codex = ("PreToolUse", "--agent", "codex")
    assert hook(bede, asked(project, agent="codex", **patch(200)), codex).out == "{}\n"
    assert len(leases(project)) == 200
    refused = reason("codex", hook(bede, asked(project, "s2", agent="codex", **patch(150)), codex))
    assert "src/f00000.py is held" in refused and "And 145 more" in refused and len(refused) < 4000
    assert hook(bede, asked(project, agent="codex", **patch(5000)), codex).out == "{}\n"
    assert [line["error"] for line in failures(home)] == ["UsageError"]


# What it stands on


@contextmanager
def _held(project: Path, how: str) -> Iterator[None]:
    with closing(sqlite3.connect(project / ".bede" / "bede.db", isolation_level=None, timeout=0)) as connection:
        connection.execute(how)
        yield
        connection.execute("ROLLBACK")


@pytest.mark.parametrize("moment", [BEFORE, STOP, PROMPT])
def test_a_store_that_is_held_stops_nobody(moment: str, project: Path, home: Path, bede: Run) -> None:
    words, body = telling("cursor", moment, "s1", project)
    with _held(project, "BEGIN IMMEDIATE"):
        assert hook(bede, body, tuple(words)).out == "{}\n"
    assert leases(project) == []
    assert {line["error"] for line in failures(home)} <= {"Busy"}
    assert bool(failures(home)) is (moment != PROMPT)
    assert hook(bede, body, tuple(words)).out == "{}\n"


def test_what_is_known_is_told_while_somebody_writes(project: Path, bede: Run) -> None:
    with closing(Context(directory=project, agent="ada")) as context:
        store(context, kind="decision", key="ledger.lock", value="advisory", rationale="the exporter deadlocked")
    with _held(project, "BEGIN IMMEDIATE"):
        for moment in (START, PROMPT):
            words, body = telling("claude-code", moment, "s1", project, prompt="Which ledger lock is advisory?")
            assert "ledger.lock = advisory" in hook(bede, body, tuple(words)).out


def _newer(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("UPDATE project SET min_writer_version = 99, min_reader_version = 99")
        connection.execute("PRAGMA user_version = 99")
        connection.commit()


def _foreign(file: Path) -> None:
    file.unlink()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE project (x)")


def _without(file: Path) -> None:
    for each in file.parent.iterdir():
        if each.name.startswith("bede.db"):
            each.unlink()


BROKEN: dict[str, Callable[[Path], object]] = {
    "corrupt": lambda file: file.write_bytes(b"\xde\xad" * 5000),
    "corrupt inside": lambda file: file.write_bytes(file.read_bytes()[:4096] + b"\xde\xad" * 30_000),
    "truncated": lambda file: os.truncate(file, 3000),
    "empty": lambda file: os.truncate(file, 0),
    "newer": _newer,
    "foreign": _foreign,
    "missing": _without,
    "a folder": lambda file: (_without(file), file.mkdir()),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_store_stops_nobody(what: str, project: Path, home: Path, bede: Run) -> None:
    file = project / ".bede" / "bede.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    BROKEN[what](file)
    before = file.read_bytes() if file.is_file() else b""
    for moment in (START, BEFORE):
        words, body = telling("gemini-cli", moment, "s1", project)
        assert hook(bede, body, tuple(words)).out == "{}\n", moment
    assert (file.read_bytes() if file.is_file() else b"") == before
    errors = {line["error"] for line in failures(home)}
    expected = {"newer": {"TooNew"}, "missing": set()}.get(what)
    assert errors == expected if expected is not None else errors


def test_an_older_store_is_brought_up_to_date_on_the_way(project: Path, home: Path, bede: Run) -> None:
    with closing(sqlite3.connect(project / ".bede" / "bede.db", isolation_level=None)) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'lease*'")
        for (name,) in names.fetchall():
            connection.execute(f"DROP TABLE {name}")
        connection.execute("DROP INDEX event_source")
        connection.execute("CREATE UNIQUE INDEX event_source ON event (source) WHERE source <> ''")
        connection.execute("PRAGMA user_version = 1")
    assert hook(bede, asked(project)).out == ""
    assert leases(project) == [("claude-code", "s1", FILE)]
    assert "held" in reason("claude-code", hook(bede, asked(project, "s2")))
    assert failures(home) == []


@pytest.mark.parametrize("place", ["/dev/null", "/nonexistent/place"])
def test_a_home_that_cannot_be_written_stops_nobody(place: str, project: Path, bede: Run) -> None:
    nowhere = dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"), place)
    if place.startswith("/nonexistent") and os.access("/", os.W_OK):
        nowhere = dict.fromkeys(nowhere, "/proc/1/none")
    env = {**UNHURRIED, **nowhere}
    assert hook(bede, b"torn", env=env).out == ""
    assert hook(bede, asked(project), env=env).out == ""
    assert "held" in reason("claude-code", hook(bede, asked(project, "s2"), env=env))
    for moment in (START, PROMPT, STOP):
        words, body = telling("codex", moment, "s1", project)
        assert hook(bede, body, tuple(words), env=env).out in ("{}\n",) or moment == START


def test_without_a_home_it_goes_on(project: Path) -> None:
    kept = {name: value for name, value in surroundings(UNHURRIED).items() if name not in ("HOME", "USERPROFILE")}
    kept = {name: value for name, value in kept.items() if not name.startswith("XDG_")}
    kept["BEDE_DATA_DIR"] = str(project / "data")
    done = subprocess.run(
        [*COMMAND, "hook", *CLAUDE], input=asked(project).encode(), env=kept, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert len(leases(project)) == 1


@POSIX
def test_a_read_only_project_stops_nobody(project: Path, home: Path, bede: Run) -> None:
    if os.getuid() == 0:
        lines = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" || exit 99; exec "$@"'
        prefix = ["unshare", "--mount", "sh", "-c", lines, str(project)]
        if (
            not shutil.which("unshare")
            or subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode
        ):
            pytest.skip("mounts of one's own are not allowed here")
    else:
        prefix = []
        for each in (*(project / ".bede").iterdir(), project / ".bede"):
            each.chmod(0o500 if each.is_dir() else 0o400)
    for moment in (START, PROMPT, BEFORE, STOP):
        words, body = telling("claude-code", moment, "s1", project)
        command = [*prefix, *COMMAND, "hook", *words]
        done = subprocess.run(
            command, input=body.encode(), env=surroundings(UNHURRIED), capture_output=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    if not prefix:
        (project / ".bede").chmod(0o700)
    assert {line["error"] for line in failures(home)} <= {"Unavailable"} and failures(home)


@POSIX
def test_a_project_that_may_not_be_seen_is_not_passed_over(project: Path, home: Path, bede: Run) -> None:
    if os.getuid() == 0:
        pytest.skip("root sees everything")
    inner = project / "inner"
    (inner / ".bede").mkdir(parents=True)
    (inner / ".bede").chmod(0)
    assert hook(bede, asked(inner), cwd=inner).out == ""
    assert leases(project) == [] and [line["error"] for line in failures(home)] == ["PermissionError"]
    (inner / ".bede").chmod(0o700)


@POSIX
def test_a_folder_that_is_no_text_or_gone(project: Path, home: Path, bede: Run) -> None:
    told = json.loads(asked(project))
    del told["cwd"]
    odd = os.fsencode(project) + b"/caf\xe9"
    try:
        os.mkdir(odd)
    except OSError:
        pytest.skip("this file system takes no such name")
    assert hook(bede, json.dumps(told | {"tool_input": {"file_path": "a.py"}}), cwd=odd).out == ""
    assert [row[2] for row in leases(project)] == ["caf\\xe9/a.py"]
    script = 'mkdir gone && cd gone && rmdir ../gone && exec "$@"'
    for payload, files in ((told, 1), (told | {"tool_input": {"file_path": str(project / FILE)}}, 2)):
        done = subprocess.run(
            ["sh", "-c", script, "sh", *COMMAND, "hook", *CLAUDE], input=json.dumps(payload).encode(),
            cwd=project, env=surroundings(UNHURRIED), capture_output=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        assert len(leases(project)) == files
    assert failures(home) == []


def test_a_wall_clock_that_jumps_ends_no_lease_and_prolongs_none(project: Path, bede: Run) -> None:
    hook(bede, asked(project))
    hour = 3_600_000_000

    def change(what: str) -> None:
        with closing(sqlite3.connect(project / ".bede" / "bede.db", isolation_level=None)) as connection:
            connection.execute(f"UPDATE lease SET {what}")

    for jump in (-hour, 2 * hour):
        change(f"until = until + {jump}, since = since + {jump}")
        assert "held" in reason("claude-code", hook(bede, asked(project, "s2")))
    change(f"ends = ends - {hour}")
    assert hook(bede, asked(project, "s2")).out == ""
    assert leases(project) == [("claude-code", "s2", FILE)]


# Killed, and at once


@POSIX
def test_a_hook_that_is_killed_harms_nothing(project: Path, bede: Run) -> None:
    chance = random.Random(4)
    for number in range(12):
        running = start(*CLAUDE)
        assert running.stdin
        running.stdin.write(asked(project, f"s{number}", path=f"f{number}.py").encode())
        running.stdin.close()
        time.sleep(chance.uniform(0, 0.25))
        running.send_signal(signal.SIGKILL)
        running.wait(LONG)
        for stream in (running.stdout, running.stderr):
            assert stream
            stream.close()
    assert hook(bede, asked(project, "after")).out == ""
    assert ("claude-code", "after", FILE) in leases(project)
    with closing(Context(directory=project)) as context:
        assert verify(context).ok


@POSIX
def test_of_many_at_the_same_moment_one_goes_on(project: Path, home: Path) -> None:
    running = [start(*CLAUDE, env=UNHURRIED) for _ in range(6)]
    for number, each in enumerate(running):
        assert each.stdin
        each.stdin.write(asked(project, f"s{number}").encode())
        each.stdin.flush()
    for each in running:
        assert each.stdin
        each.stdin.close()
        each.stdin = None
    answers = [each.communicate(timeout=LONG) for each in running]
    assert [err for _, err in answers] == [b""] * 6
    refused = [out for out, _ in answers if out]
    assert len(refused) == 5 and len(leases(project)) == 1 and failures(home) == []
    holder = leases(project)[0][1]
    assert all(
        f"session {holder}" in json.loads(out)["hookSpecificOutput"]["permissionDecisionReason"] for out in refused
    )


# What is written down


def test_failures_are_written_down_and_stay_small_and_private(project: Path, home: Path, bede: Run) -> None:
    log = home / ".local/share/bede/hooks.log"
    secret = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    hook(bede, b"torn")
    hook(bede, b"{}", ("\x1b[2J" + "e" * 500, "--agent", f"{secret}"))
    first, second = failures(home)
    assert (first["agent"], first["event"], first["error"]) == ("claude-code", "PreToolUse", "JSONDecodeError")
    assert first["where"].startswith("decoder.py:") and first["at"].endswith("Z")
    assert second["error"] == "UsageError" and len(second["event"]) == 40
    said = log.read_text(encoding="utf-8")
    assert secret not in said and "\x1b" not in said
    if os.name != "nt":
        assert stat.S_IMODE(log.stat().st_mode) == 0o600
    log.write_bytes(b"x" * (LARGEST + 1))
    hook(bede, b"torn")
    assert len(failures(home)) == 1
    assert log.with_suffix(".old").stat().st_size == LARGEST + 1
    assert sorted(file.name for file in log.parent.glob("hooks*")) == ["hooks.log", "hooks.old"]


def test_nothing_runs_when_it_is_only_loaded(project: Path) -> None:
    command = [sys.executable, "-P", "-c", "import bede.hooks.leaving, bede_cli.hook"]
    done = subprocess.run(command, env=surroundings(), capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
