"""The command as a process: its streams, its reader, its terminal, and the signals it gets."""

from __future__ import annotations

import errno
import io
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import COMMAND, Ran, surroundings

from bede_cli.__main__ import main

Run = Callable[..., Ran]
POSIX = pytest.mark.skipif(os.name == "nt", reason="needs POSIX streams and signals")


@POSIX
def test_auto_leaves_stdout_to_its_command(project: Path, bede: Run) -> None:
    script = "echo out; echo err >&2; exit 4"
    ran = bede("auto", "--task-id", "T-1", "--agent-id", "ada", "--json", "--", "sh", "-c", script)
    assert (ran.status, ran.out) == (4, "out\n")
    assert ran.error()["schema"] == "auto/1" and ran.error()["exit_status"] == 4
    quiet = bede("auto", "--task-id", "T-1", "--quiet", "--", "echo", "--json", "-C", "x")
    assert (quiet.status, quiet.out, quiet.err) == (0, "--json -C x\n", "")
    recalled = bede("auto", "--task-id", "T-1", "--recall-only", "--pretty")
    assert recalled.status == 0 and "exit 4" in recalled.out


@pytest.fixture
def long(project: Path) -> Path:
    """A project whose log is longer than a pipe holds."""
    noise = random.Random(1)
    texts = ["".join(noise.choices("abcdefghijklmnopqrstuvwxyz    ", k=8000)) for _ in range(40)]
    lines = [json.dumps({"kind": "note", "summary": text, "learnings": [text[::-1]]}) for text in texts]
    stdin = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO("\n".join(lines).encode()))
    try:
        assert main(["store", "-"]) == 0
    finally:
        sys.stdin = stdin
    return project


def process(*words: str, unbuffered: str = "", **streams: Any) -> subprocess.Popen[bytes]:
    streams = {"stdin": subprocess.DEVNULL, **streams}
    return subprocess.Popen([*COMMAND, *words], env=surroundings({"PYTHONUNBUFFERED": unbuffered}), **streams)


@POSIX
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("form", ["--json", "--pretty"])
def test_a_reader_that_goes_away_ends_it_silently(long: Path, form: str, unbuffered: str) -> None:
    pipe = subprocess.PIPE
    running = process("log", "--limit", "1000", form, unbuffered=unbuffered, stdout=pipe, stderr=pipe)
    assert running.stdout and running.stderr
    assert len(running.stdout.read(1)) == 1
    running.stdout.close()
    assert running.stderr.read() == b""
    assert running.wait(60) == 141
    running.stderr.close()


@POSIX
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_pipe_that_does_not_block_gets_all_of_it(long: Path, unbuffered: str) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    running = process("log", "--limit", "1000", unbuffered=unbuffered, stdout=writing)
    os.close(writing)
    with open(reading, "rb") as stream:
        assert len(json.loads(stream.read())["events"]) == 41
    assert running.wait(60) == 0


@POSIX
@pytest.mark.parametrize("words", ["log", "log --pretty", "--version", "help", "log --help"])
def test_a_closed_stdout_is_no_traceback(project: Path, words: str) -> None:
    running = process(*words.split(), stderr=subprocess.PIPE, preexec_fn=lambda: os.close(1))
    assert running.communicate(timeout=60)[1] == b""
    assert running.returncode == 141


@POSIX
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize("words", ["log", "log --pretty", "--version", "log --help"])
def test_a_result_that_cannot_be_written_is_an_error(project: Path, words: str) -> None:
    with open("/dev/full", "wb") as full:
        running = process(*words.split(), stdout=full, stderr=subprocess.PIPE)
        err = running.communicate(timeout=60)[1]
    assert running.returncode == 40
    assert b"No space left on device" in err and b"Traceback" not in err and b"Exception" not in err


@POSIX
def test_a_closed_stderr_changes_nothing(project: Path) -> None:
    running = process("lgo", stdout=subprocess.PIPE, preexec_fn=lambda: os.close(2))
    assert running.communicate(timeout=60)[0] == b""
    assert running.returncode == 2


@POSIX
def test_an_interrupt_is_silent(project: Path) -> None:
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    # A test that runs in the background may have been started with interrupts switched off, and hands that on.
    running = process("store", "-", **pipes, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    assert running.stdin
    # It has read this much only when it stands in the verb, waiting for the rest.
    running.stdin.write(b" " * 1_000_000)
    running.stdin.flush()
    for _ in range(60):
        running.send_signal(signal.SIGINT)
        # Python notices an interrupt that comes just before it waits only with the next one.
        with suppress(subprocess.TimeoutExpired):
            running.wait(1)
            break
    assert running.returncode == 130
    assert running.stdout and running.stderr
    assert (running.stdout.read(), running.stderr.read()) == (b"", b"")
    for stream in (running.stdin, running.stdout, running.stderr):
        stream.close()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-16"])
def test_json_is_utf_8_whatever_the_locale(project: Path, bede: Run, encoding: str) -> None:
    text = "Überall 資料 é 🙂 und noch ein paar Worte dazu"
    assert bede("store", "-", stdin=json.dumps({"summary": text, "learnings": ["é"]})).status == 0
    found = bede("search", "--kind", "note", env={"PYTHONIOENCODING": encoding, "LC_ALL": "C"})
    assert found.json()["results"][0]["summary"] == text
    assert text in found.out


@pytest.fixture
def terminal(project: Path) -> Iterator[Callable[..., tuple[int, str]]]:
    """Run the command on a terminal of its own; stdout and stderr are the same there."""
    pty = pytest.importorskip("pty")

    def run(*words: str, **environment: str) -> tuple[int, str]:
        mine, theirs = pty.openpty()
        env = surroundings({"TERM": "xterm-256color", "COLUMNS": "100", **environment})
        running = subprocess.Popen([*COMMAND, *words], env=env, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        seen = b""
        try:
            while chunk := os.read(mine, 65536):
                seen += chunk
        except OSError as error:
            assert error.errno == errno.EIO  # how a terminal says that nobody is left
        os.close(mine)
        return running.wait(60), seen.decode().replace("\r\n", "\n")

    return run


def test_a_person_gets_a_page_in_colour(terminal: Callable[..., tuple[int, str]]) -> None:
    status, seen = terminal("log")
    assert status == 0 and "\x1b[" in seen and "the memory begins" in seen and "{" not in seen
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}, {}):
        status, seen = terminal("log", *([] if environment else ["--no-color"]), **environment)
        assert status == 0 and "\x1b" not in seen and "the memory begins" in seen
    status, seen = terminal("log", "--json")
    assert json.loads(seen)["schema"] == "log/1"


def test_a_person_gets_errors_in_words(terminal: Callable[..., tuple[int, str]]) -> None:
    status, seen = terminal("lgo", "--no-color")
    assert (status, seen) == (2, "error: no verb 'lgo'\nhint: did you mean 'log'? 'bede help' lists the verbs\n")
    assert terminal("lgo")[1].startswith("\x1b[1;31merror:\x1b[0m no verb")
    status, seen = terminal("lgo", "--json")
    assert json.loads(seen)["code"] == "usage"


def test_help_on_a_terminal_is_as_wide_as_it(terminal: Callable[..., tuple[int, str]]) -> None:
    status, seen = terminal("store", "--help", NO_COLOR="1")
    assert status == 0 and 80 < max(map(len, seen.splitlines())) <= 100
