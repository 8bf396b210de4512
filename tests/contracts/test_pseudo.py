"""A wrapped command on a terminal: whoever types sees no difference, and the terminal is given back."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import surroundings
from contracts.wrapped import DEADLINE, Terminal, Wrapped, until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there are no pseudo-terminals here")

PYTHON = sys.executable
BASH = shutil.which("bash")

#: What a program can see of the terminal it is on.
VIEW = (
    "for fd in 0 1 2; do test -t $fd && echo tty $fd; done; stty -a; test -t 0 && stty size;"
    "ps -o stat= -p $$ | grep -c +; echo end"
)

#: Tells each signal that it is sent, until a line comes.
LISTENER = """
import signal, sys
def told(number, frame):
    print("got", int(number), flush=True)
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGWINCH):
    signal.signal(number, told)
print("ready", flush=True)
sys.stdin.readline()
print("end")
"""


@pytest.fixture
def wrapped(tmp_path: Path) -> Wrapped:
    """How the commands of these tests are run."""
    return Wrapped(tmp_path / "ran.json")


@pytest.fixture
def tool(tmp_path: Path, wrapped: Wrapped) -> Path:
    """Return a program that runs its arguments wrapped, to be typed in a shell."""
    path = tmp_path / "w"
    words = shlex.join(map(str, wrapped.argv()))
    path.write_text(f'#!/bin/sh\nrm -f {wrapped.file}\nexec {words} "$@"\n')
    path.chmod(0o755)
    return path


def alive(pid: int) -> bool:
    """Tell whether a process runs; one that waits to be buried does not."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")


# What the program sees


def test_a_program_sees_the_terminal_it_would_see_alone(wrapped: Wrapped) -> None:
    seen = []
    for argv in (["sh", "-c", VIEW], wrapped.argv("sh", "-c", VIEW)):
        with Terminal(argv, size=(17, 133)) as terminal:
            seen.append(terminal.rest())
    assert b"tty 0\r\ntty 1\r\ntty 2\r\n" in seen[0]
    assert b"17 133\r\n1\r\nend\r\n" in seen[0]
    assert seen[1] == seen[0]


@pytest.mark.parametrize("session", [True, False], ids=["session", "no session"])
@pytest.mark.parametrize("ours", ["0", "1", "2", "01", "02", "12", "012"])
def test_each_stream_is_a_terminal_or_not_as_before(
    wrapped: Wrapped, tmp_path: Path, ours: str, session: bool
) -> None:
    Path("in").write_bytes(b"given\n")
    look = "for fd in 0 1 2; do test -t $fd && echo tty $fd >> seen; done; : > looked"
    script = f"{look}; read x; echo out $x; echo err $x >&2"
    outcomes = []
    for argv in (["sh", "-c", script], wrapped.argv("sh", "-c", script)):
        for name in ("seen", "looked", "out", "err"):
            Path(name).unlink(missing_ok=True)
        elsewhere = {
            name: open(file, mode)  # noqa: SIM115
            for number, (name, file, mode) in enumerate(
                (("stdin", "in", "rb"), ("stdout", "out", "wb"), ("stderr", "err", "wb"))
            )
            if str(number) not in ours
        }
        # The leader takes its terminal from its standard input; without one there, it has none.
        with Terminal(argv, session=session and "0" in ours, **elsewhere) as terminal:
            until(Path("looked").exists)
            if "0" in ours:
                terminal.type(b"given\n")
            shown = terminal.rest()
        for file in elsewhere.values():
            file.close()
        files = [Path(name).read_bytes() for name in ("out", "err") if Path(name).exists()]
        outcomes.append((Path("seen").read_text(), sorted(shown.splitlines()), files))
    assert [line[-1] for line in outcomes[0][0].splitlines()] == list(ours)
    assert outcomes[1] == outcomes[0]
    assert {"out given", "err given"} <= set(wrapped.told()["output"].splitlines())


def test_output_is_what_the_program_wrote_to_the_byte(wrapped: Wrapped) -> None:
    talk = "import os; os.write(1, bytes(range(256)) * 300 + b'\\n' * 5000 + b'end')"
    seen = []
    for argv in ([PYTHON, "-c", talk], wrapped.argv(PYTHON, "-c", talk)):
        with Terminal(argv) as terminal:
            seen.append(terminal.rest())
    assert seen[0].endswith(b"\r\nend")
    assert seen[1] == seen[0]


def test_all_that_was_written_before_the_end_is_shown(wrapped: Wrapped) -> None:
    with Terminal(wrapped.argv("seq", "100000")) as terminal:
        assert terminal.rest() == "".join(f"{number}\r\n" for number in range(1, 100_001)).encode()
    told = wrapped.told()
    assert told["output"].endswith("\n99999\n100000\n")
    assert told["truncated"] is True


def test_keys_come_as_they_are_typed(wrapped: Wrapped) -> None:
    reader = (
        "import os, tty; tty.setraw(0); os.write(1, b'ready')\n"
        "while (key := os.read(0, 1)) != b'q': os.write(1, b'<%d>' % key[0])"
    )
    with Terminal(wrapped.argv(PYTHON, "-c", reader)) as terminal:
        terminal.until(b"ready")
        for key in (0x61, 0x03, 0x1A, 0x1C, 0x0D, 0x0A, 0x13, 0x11, 0x04, 0x7F, 0xFF, 0x00):
            terminal.type(bytes([key]))
            assert terminal.until(b"<%d>" % key) == b""
        terminal.type(b"q")
        assert terminal.status() == 0


def test_a_line_is_edited_and_echoed_as_ever(wrapped: Wrapped) -> None:
    with Terminal(wrapped.argv("sh", "-c", "echo ready; cat; echo status $?")) as terminal:
        terminal.until(b"ready\r\n")
        terminal.type(b"hellp\x7fo\n")
        assert terminal.until(b"hello\r\n") == b"hellp\b \bo\r\n"
        terminal.type(b"\x04")
        terminal.until(b"status 0\r\n")
        assert terminal.status() == 0
    assert wrapped.told()["output"] == "ready\nhello\nhello\nstatus 0\n"


def test_what_was_typed_ahead_is_not_lost(wrapped: Wrapped) -> None:
    with Terminal(wrapped.argv("head", "-n", "2"), typed=b"one\ntwo\n") as terminal:
        shown = terminal.rest()
    assert shown.replace(b"\r\n", b" ").split()[-2:] == [b"one", b"two"]


def test_more_is_typed_than_the_program_takes(wrapped: Wrapped) -> None:
    # Keys that nobody reads yet must hold up neither output nor signals.
    sleeper = "import os, signal, tty; tty.setraw(0); print('ready', flush=True); signal.pause()"
    with Terminal(wrapped.argv(PYTHON, "-c", sleeper)) as terminal:
        terminal.until(b"ready")
        os.set_blocking(terminal.master, False)
        sent = 0
        for _ in range(200):
            try:
                sent += os.write(terminal.master, b"x" * 512)
            except BlockingIOError:
                break
        os.set_blocking(terminal.master, True)
        assert sent >= 4096
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.status() == 143
    assert wrapped.told()["signal"] == signal.SIGTERM


def test_a_new_size_is_told(wrapped: Wrapped) -> None:
    teller = (
        "import os, signal, sys\n"
        "tell = lambda *_: print(tuple(os.get_terminal_size()), flush=True)\n"
        "signal.signal(signal.SIGWINCH, tell); tell(); sys.stdin.readline()"
    )
    with Terminal(wrapped.argv(PYTHON, "-c", teller), size=(20, 50)) as terminal:
        terminal.until(b"(50, 20)\r\n")
        terminal.resize(40, 120)
        terminal.until(b"(120, 40)\r\n")
        terminal.type(b"\n")
        assert terminal.status() == 0


# Signals


@pytest.mark.parametrize(("key", "number"), [(b"\x03", signal.SIGINT), (b"\x1c", signal.SIGQUIT)])
def test_the_keys_of_the_terminal_reach_the_program_once(wrapped: Wrapped, key: bytes, number: int) -> None:
    with Terminal(wrapped.argv(PYTHON, "-c", LISTENER)) as terminal:
        terminal.until(b"ready\r\n")
        terminal.type(key)
        terminal.until(b"got %d\r\n" % number)
        terminal.type(b"\n")
        assert b"got" not in terminal.until(b"end")
        assert terminal.status() == 0
    with Terminal(wrapped.argv("sh", "-c", "echo ready; exec sleep 300")) as terminal:
        terminal.until(b"ready")
        terminal.type(key)
        assert terminal.status() == 128 + number


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_to_us_reaches_the_program_once(wrapped: Wrapped, number: int) -> None:
    with Terminal(wrapped.argv(PYTHON, "-c", LISTENER)) as terminal:
        terminal.until(b"ready\r\n")
        terminal.process.send_signal(number)
        terminal.until(b"got %d\r\n" % number)
        terminal.type(b"\n")
        assert b"got" not in terminal.until(b"end")
        assert terminal.status() == 0


def test_a_key_in_front_of_a_pipe_reaches_the_program_once(wrapped: Wrapped) -> None:
    # Its output goes to a pipe, so it is in our group and hears of the terminal by itself.
    source, sink = os.pipe()
    with Terminal(wrapped.argv(PYTHON, "-c", LISTENER), stdout=sink, stderr=sink) as terminal:
        os.close(sink)
        with open(source, "rb") as out:
            assert out.readline() == b"ready\n"
            terminal.type(b"\x03")
            assert out.readline() == b"got 2\n"
            terminal.process.send_signal(signal.SIGINT)
            assert out.readline() == b"got 2\n"
            terminal.type(b"\n")
            assert out.read() == b"end\n"
        assert terminal.status() == 0


def test_a_terminal_that_hangs_up_tells_the_program(wrapped: Wrapped) -> None:
    with Terminal(wrapped.argv("sh", "-c", "echo $$; exec sleep 300")) as terminal:
        pid = int(terminal.until(b"\r\n"))
        terminal.close()
        assert terminal.process.wait(DEADLINE) == 128 + signal.SIGHUP
    assert (wrapped.told()["signal"], alive(pid)) == (signal.SIGHUP, False)


def test_a_program_outlives_the_terminal_if_it_wants_to(wrapped: Wrapped) -> None:
    script = "trap '' HUP; echo ready; until [ -e go ]; do echo talk; sleep 0.05; done; exit 9"
    with Terminal(wrapped.argv("sh", "-c", script)) as terminal:
        terminal.until(b"talk")
        terminal.close()
        Path("go").touch()
        assert terminal.process.wait(DEADLINE) == 9


def test_the_program_ends_with_us_when_we_are_killed(wrapped: Wrapped) -> None:
    with Terminal(wrapped.argv("sh", "-c", "echo $$; exec sleep 300")) as terminal:
        pid = int(terminal.until(b"\r\n"))
        terminal.process.kill()
        until(lambda: not alive(pid), "the program was left alone")


def test_whoever_ends_a_whole_tree_of_processes_gets_the_truth(wrapped: Wrapped) -> None:
    script = "echo $$ $PPID; trap 'exit 6' TERM; while :; do sleep 0.05; done"
    with Terminal(wrapped.argv("sh", "-c", script)) as terminal:
        program, between = map(int, terminal.until(b"\r\n").split())
        os.kill(between, signal.SIGTERM)
        assert alive(between)
        os.kill(program, signal.SIGTERM)
        assert terminal.status() == 6


def test_a_lost_end_is_not_made_up(wrapped: Wrapped) -> None:
    with Terminal(wrapped.argv("sh", "-c", "echo $PPID; exec sleep 300")) as terminal:
        os.kill(int(terminal.until(b"\r\n")), signal.SIGKILL)
        assert terminal.status() == 125
        told = wrapped.told()
        assert (told["exit_status"], "killed" in told["failure"], told["seconds"] > 0) == (125, True, True)


def test_a_grandchild_is_neither_waited_for_nor_hung_up_on(wrapped: Wrapped) -> None:
    with Terminal(wrapped.argv("sh", "-c", "sleep 300 & echo $!; exit 4")) as terminal:
        pid = int(terminal.until(b"\r\n"))
        until(lambda: terminal.process.poll() is not None)
        try:
            assert (terminal.process.returncode, alive(pid)) == (4, True)
        finally:
            os.kill(pid, signal.SIGKILL)


# The terminal is given back


ENDINGS: dict[str, tuple[str, ...]] = {
    "well": ("true",),
    "raw": ("stty", "raw", "-echo"),
    "killed": ("sh", "-c", "stty raw; kill -KILL $$"),
    "not found": ("no-such-command",),
    "not executable": ("./",),
}


@pytest.mark.parametrize("command", ENDINGS.values(), ids=list(ENDINGS))
def test_the_terminal_is_as_before(wrapped: Wrapped, command: tuple[str, ...]) -> None:
    with Terminal(wrapped.argv(*command)) as terminal:
        until(lambda: terminal.process.poll() is not None)
        assert terminal.modes() == terminal.first


def test_the_terminal_is_raw_while_the_program_runs_and_given_back_at_a_signal(wrapped: Wrapped) -> None:
    with Terminal(wrapped.argv("sh", "-c", "echo ready; exec sleep 300")) as terminal:
        terminal.until(b"ready")
        assert terminal.is_raw()
        terminal.process.send_signal(signal.SIGTERM)
        until(lambda: terminal.process.poll() is not None)
        assert terminal.modes() == terminal.first


# A shell with jobs


@pytest.fixture
def shell(tool: Path) -> Iterator[Terminal]:
    """An interactive shell; `w` runs a command wrapped."""
    if not BASH:
        pytest.skip("there is no bash")
    environment = {"PS1": "PROMPT$ ", "HISTFILE": "", "PATH": f"{tool.parent}:{os.environ['PATH']}"}
    with Terminal([BASH, "--norc", "--noprofile", "--noediting", "-i"], env=environment) as terminal:
        terminal.until(b"PROMPT$ ")
        yield terminal
        terminal.type(b"\x03\nkill -9 $(jobs -p); exit\n")


def shown(shell: Terminal, line: bytes) -> bytes:
    """Type a command that ends by itself, and return what it shows."""
    shell.type(line + b"\n")
    shell.until(line + b"\r\n")
    return shell.until(b"PROMPT$ ")


def test_a_job_is_stopped_and_goes_on_in_front_and_behind(shell: Terminal, wrapped: Wrapped) -> None:
    shell.type(b"w cat\n")
    until(shell.is_raw)
    shell.type(b"one\n")
    shell.until(b"one\r\none\r\n")
    shell.type(b"\x1a")
    assert b"Stopped" in shell.until(b"PROMPT$ ")
    assert not shell.is_raw()
    shell.type(b"fg\n")
    shell.until(b"w cat\r\n")
    until(shell.is_raw)
    shell.type(b"two\n")
    shell.until(b"two\r\ntwo\r\n")
    shell.type(b"\x1a")
    shell.until(b"PROMPT$ ")
    # Behind the shell it reads, and so it stops again, as it would alone.
    shown(shell, b"bg")
    until(lambda: b"Stopped" in shown(shell, b"jobs"))
    shell.type(b"fg\n")
    shell.until(b"w cat\r\n")
    until(shell.is_raw)
    shell.type(b"three\n\x04")
    shell.until(b"three\r\nthree\r\n")
    shell.until(b"PROMPT$ ")
    assert shown(shell, b"echo status $?") == b"status 0\r\n"
    assert wrapped.told()["output"].replace("^Z", "") == "one\none\ntwo\ntwo\nthree\nthree\n"


def test_a_job_behind_runs_and_is_fetched_when_it_wants_to_read(shell: Terminal, wrapped: Wrapped) -> None:
    shell.type(b"w sh -c 'echo talks; read x; echo got $x' &\n")
    shell.until(b"talks\r\n")
    until(lambda: b"Stopped" in shown(shell, b"jobs"))
    shell.type(b"fg\n")
    shell.until(b"w sh -c")
    until(shell.is_raw)
    shell.type(b"typed\n")
    shell.until(b"got typed\r\n")
    shell.until(b"PROMPT$ ")
    assert (wrapped.told()["exit_status"], shell.is_raw()) == (0, False)


def test_one_of_a_pipeline_takes_the_terminal_only_when_it_asks(shell: Terminal, wrapped: Wrapped) -> None:
    script = b"cat; until [ -e go ]; do sleep 0.05; done; read x </dev/tty; echo got $x"
    shell.type(b"echo piped | w sh -c '%s' | cat\n" % script)
    shell.until(b"| cat\r\n")
    shell.until(b"piped\r\n")
    assert not shell.is_raw()
    Path("go").touch()
    until(shell.is_raw)
    shell.type(b"typed\n")
    shell.until(b"got typed")
    shell.until(b"PROMPT$ ")
    assert not shell.is_raw()
    assert sorted(wrapped.told()["output"].splitlines()) == ["got typed", "piped", "typed"]


def test_a_pipeline_is_interrupted_and_stopped_as_a_whole(shell: Terminal, wrapped: Wrapped) -> None:
    shell.type(b"w sh -c 'echo on; exec sleep 300' 2>&1 | cat\n")
    shell.until(b"| cat\r\n")
    shell.until(b"on\r\n")
    shell.type(b"\x1a")
    assert b"Stopped" in shell.until(b"PROMPT$ ")
    shell.type(b"fg\n")
    until(lambda: shell.front() != shell.process.pid)
    shell.type(b"\x03")
    shell.until(b"PROMPT$ ")
    assert wrapped.told()["signal"] == signal.SIGINT


def test_a_shell_inside_has_jobs_of_its_own(shell: Terminal, wrapped: Wrapped) -> None:
    shell.type(b"w bash --norc --noprofile --noediting -i\n")
    shell.until(b"-i\r\n")
    shell.until(b"PROMPT$ ")
    shell.type(b"sh -c 'echo on; exec cat'\n")
    shell.until(b"\non\r\n")
    shell.type(b"\x1a")
    assert b"Stopped" in shell.until(b"PROMPT$ ")
    shell.type(b"fg\n")
    shell.until(b"exec cat'\r\n")
    shell.type(b"line\n")
    shell.until(b"line\r\nline\r\n")
    shell.type(b"\x04")
    shell.until(b"PROMPT$ ")
    shell.type(b"suspend\n")
    assert b"Stopped" in shell.until(b"PROMPT$ ")
    assert b"bash --norc" in shown(shell, b"jobs")
    shell.type(b"fg\n")
    shell.until(b"-i\r\n")
    shell.until(b"PROMPT$ ")
    shell.type(b"exit 3\n")
    shell.until(b"PROMPT$ ")
    assert shown(shell, b"echo status $?") == b"status 3\r\n"
    assert wrapped.told()["exit_status"] == 3


# Full-screen programs, in a terminal that draws


@pytest.fixture
def screen(tool: Path, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Return how to type into a terminal that draws, and what it shows."""
    if not (BASH and shutil.which("tmux")):
        pytest.skip("there is no tmux to draw a screen")
    environment = {**surroundings(), "PS1": "PROMPT$ ", "HISTFILE": "", "TERM": "xterm", "TMUX_TMPDIR": str(tmp_path)}
    environment["PATH"] = f"{tool.parent}:{environment['PATH']}"
    command = ["tmux", "-L", "bede", "-f", os.devnull]

    def tmux(*words: str) -> str:
        return subprocess.run([*command, *words], env=environment, capture_output=True, text=True, check=True).stdout

    def act(*keys: str, until_shown: str, size: tuple[int, int] | None = None) -> str:
        if keys:
            tmux("send-keys", *keys)
        if size:
            tmux("resize-window", "-x", str(size[1]), "-y", str(size[0]))
        return str(until(lambda: (found := tmux("capture-pane", "-p")) and until_shown in found and found, until_shown))

    tmux("new-session", "-d", "-x", "90", "-y", "24", "bash", "--norc", "--noprofile")
    try:
        yield act
    finally:
        subprocess.run([*command, "kill-server"], env=environment, capture_output=True, check=False)


@pytest.mark.skipif(not shutil.which("vim"), reason="there is no vim")
def test_an_editor_draws_follows_the_size_and_writes(screen: Callable[..., str], wrapped: Wrapped) -> None:
    Path("file.txt").write_text("first line\nsecond line\n")
    screen("w vim -u NONE -N file.txt", "Enter", until_shown="second line")
    screen("i", "edited ", "Escape", until_shown="edited first line")
    screen(until_shown="~", size=(12, 40))
    until(lambda: screen(until_shown="~").count("~") == 9)
    screen(":wq", "Enter", until_shown="PROMPT$")
    assert Path("file.txt").read_text() == "edited first line\nsecond line\n"
    told = wrapped.told()
    assert told["exit_status"] == 0
    assert "edited" not in told["output"]


@pytest.mark.skipif(not shutil.which("less"), reason="there is no less")
def test_a_pager_at_the_end_of_a_pipeline_reads_its_keys_from_the_terminal(
    screen: Callable[..., str], wrapped: Wrapped
) -> None:
    screen("seq -f 'line-%g' 500 | w less", "Enter", until_shown="line-23")
    screen("G", until_shown="line-500")
    screen("q", until_shown="PROMPT$")
    assert wrapped.told()["exit_status"] == 0
