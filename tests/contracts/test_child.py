"""A wrapped command and the same command alone: whoever started it sees no difference, and the record is true."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import surroundings
from contracts.wrapped import DEADLINE, Wrapped, until

from bede.child.order import Order
from bede.child.start import explain
from bede.child.windows import find

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals, shells and pipes of POSIX")

PYTHON = sys.executable

#: Tells the signals that it was sent, in order, when it is told to end by a line on stdin.
LISTENER = """
import signal, sys
got = []
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, lambda number, frame: (got.append(int(number)), print("+", flush=True)))
print("ready", flush=True)
sys.stdin.readline()
print(sorted(got))
"""

#: Tells what a program inherits besides its streams.
HEIRLOOMS = """
import os, signal
ignored = [int(number) for number in sorted(signal.valid_signals()) if signal.getsignal(number) == signal.SIG_IGN]
print(ignored, [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())])
print(os.getcwd(), os.umask(0), os.getpgid(0) == os.getpgid(os.getppid()), os.getsid(0) == os.getsid(os.getppid()))
print(sorted(fd for fd in range(3, 64) if os.path.exists(f"/dev/fd/{fd}") and os.get_inheritable(fd)))
"""


@pytest.fixture
def wrapped(tmp_path: Path) -> Wrapped:
    """How the commands of these tests are run."""
    return Wrapped(tmp_path / "ran.json")


def alone(*command: str | bytes, given: bytes = b"", **more: object) -> tuple[int, bytes, bytes]:
    """Run a command without anything around it, and show its status as a shell would."""
    done = subprocess.run(
        command, input=given, capture_output=True, timeout=DEADLINE, check=False, env=surroundings(), **more
    )  # type: ignore[call-overload]
    return 128 - done.returncode if done.returncode < 0 else done.returncode, done.stdout, done.stderr


# Status, streams, words


@pytest.mark.parametrize(
    "command",
    [
        ("true",),
        ("false",),
        ("sh", "-c", "echo out; echo err >&2; exit 42"),
        ("sh", "-c", "exit 255"),
        ("sh", "-c", "kill -KILL $$"),
        ("sh", "-c", "kill -TERM $$"),
        ("sh", "-c", "kill -SEGV $$"),
        ("cat",),
        ("sh", "-c", "cat; exec 1>&-; echo closed >&2"),
        ("printf", "%s|", "", "two words", "*", "$HOME", '"', "'", "\\", "é資", "-n"),
        ("printf", "%s", b"not utf-8: \xff\xfe"),
        ("sh", "-c", "head -c 3000000 /dev/urandom | tee /dev/stderr | wc -c; exit 3"),
    ],
    ids=lambda command: " ".join(map(str, command))[:40],
)
def test_status_and_streams_are_those_of_the_command(wrapped: Wrapped, command: tuple[str, ...]) -> None:
    given = os.urandom(200_000)
    bare, seen = alone(*command, given=given), wrapped.run(*command, given=given)
    if "urandom" in str(command):
        bare, seen = (bare[0], bare[1], b""), (seen[0], seen[1], b"")
    assert seen == bare
    assert wrapped.told()["exit_status"] == bare[0]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGABRT, signal.SIGPIPE])
def test_a_signal_is_shown_as_a_shell_does(wrapped: Wrapped, number: signal.Signals) -> None:
    status, _, _ = wrapped.run("sh", "-c", f"echo before; kill -{int(number)} $$")
    told = wrapped.told()
    assert status == told["exit_status"] == 128 + number
    assert (told["signal"], told["output"], told["failure"]) == (number, "before\n", "")
    assert told["seconds"] > 0


def test_the_record_has_both_streams_as_text(wrapped: Wrapped) -> None:
    said = r"printf '\033[31mred\033[0m\n10%%\r100%%\n\377\n'; echo err >&2"
    _, out, err = wrapped.run("sh", "-c", said)
    assert (out, err) == (b"\x1b[31mred\x1b[0m\n10%\r100%\n\xff\n", b"err\n")
    told = wrapped.told()
    assert sorted(told["output"].splitlines()) == ["100%", "err", "red", "\ufffd"]
    assert told["truncated"] is False


def test_only_the_end_is_kept_and_memory_is_bounded(wrapped: Wrapped) -> None:
    with wrapped.start("sh", "-c", "head -c 200000000 /dev/zero; echo; seq 9999", env={"KEEP": "200"}) as process:
        count = 0
        while piece := os.read(process.stdout.fileno(), 1 << 20):
            count += len(piece)
    told = wrapped.told()
    assert count == 200_000_001 + len("".join(f"{number}\n" for number in range(1, 10_000)))
    assert told["output"] == "".join(f"{number}\n" for number in range(9960, 10_000))
    assert told["truncated"] is True
    assert told["memory"] < 120_000


def test_nothing_waits_for_a_line_or_a_full_buffer(wrapped: Wrapped) -> None:
    echo = "import os\nwhile piece := os.read(0, 1): os.write(1, piece); os.write(2, piece.upper())"
    with wrapped.start(PYTHON, "-c", echo, stdin=subprocess.PIPE, bufsize=0) as process:
        for letter in b"abc":
            process.stdin.write(bytes([letter]))
            assert process.stdout.read(1) == bytes([letter])
            assert process.stderr.read(1) == bytes([letter]).upper()
        process.stdin.close()
        assert process.wait(DEADLINE) == 0


@pytest.mark.parametrize("target", ["pipe", "file"])
def test_one_target_for_both_streams_keeps_their_order(wrapped: Wrapped, tmp_path: Path, target: str) -> None:
    talk = "import os\nfor i in range(2000): os.write(1 + i % 2, b'%d\\n' % i)"
    expected = b"".join(b"%d\n" % number for number in range(2000))
    if target == "pipe":
        assert wrapped.run(PYTHON, "-c", talk, stderr=subprocess.STDOUT)[1] == expected
    else:
        with (tmp_path / "log").open("ab") as log:
            wrapped.run(PYTHON, "-c", talk, stdout=log, stderr=log)
        assert (tmp_path / "log").read_bytes() == expected
    assert expected.decode().endswith(wrapped.told()["output"])


def test_a_slow_reader_holds_up_his_own_stream_only(wrapped: Wrapped) -> None:
    talk = (
        "import os, threading\n"
        "writer = threading.Thread(target=os.write, args=(1, b'x' * 10_000_000))\n"
        "writer.start(); os.write(2, b'err'); writer.join()"
    )
    with wrapped.start(PYTHON, "-c", talk, bufsize=0) as process:
        assert process.stderr.read(3) == b"err"
        assert len(process.stdout.read(10_000_000)) > 0
        while process.stdout.read(1 << 20):
            pass
        assert process.wait(DEADLINE) == 0


def test_a_stream_that_does_not_block_loses_nothing(wrapped: Wrapped) -> None:
    source, sink = os.pipe()
    os.set_blocking(sink, False)
    with wrapped.start("seq", "200000", stdout=sink):
        os.close(sink)
        with open(source, "rb") as file:
            assert file.read() == "".join(f"{number}\n" for number in range(1, 200_001)).encode()
    assert wrapped.told()["exit_status"] == 0


def test_an_endless_writer_ends_when_its_reader_goes(wrapped: Wrapped) -> None:
    with wrapped.start("yes") as process:
        assert os.read(process.stdout.fileno(), 2) == b"y\n"
        process.stdout.close()
        assert process.wait(DEADLINE) == 128 + signal.SIGPIPE
    assert wrapped.told()["signal"] == signal.SIGPIPE


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_output_that_cannot_be_written_is_told(wrapped: Wrapped) -> None:
    with open("/dev/full", "wb") as full:
        status, _, _ = wrapped.run("yes", stdout=full)
    assert status == 141
    assert os.strerror(errno.ENOSPC) in wrapped.told()["failure"]


def test_a_grandchild_that_keeps_the_pipe_holds_up_nobody(wrapped: Wrapped) -> None:
    status, out, _ = wrapped.run("sh", "-c", "sleep 300 & echo $!")
    left = int(out)
    try:
        assert (status, wrapped.told()["output"]) == (0, f"{left}\n")
        os.kill(left, 0)
    finally:
        os.kill(left, signal.SIGKILL)


def test_a_grandchild_that_never_stops_talking_holds_up_nobody(wrapped: Wrapped) -> None:
    status, out, _ = wrapped.run("sh", "-c", "yes & exec printf 'the end\\n'")
    assert status == 0
    assert b"the end\n" in out


def test_all_that_was_written_before_the_end_arrives(wrapped: Wrapped) -> None:
    _, out, err = wrapped.run("sh", "-c", "seq 60000 & seq 60000 >&2; wait")
    assert out == err == "".join(f"{number}\n" for number in range(1, 60_001)).encode()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_takes_no_part(wrapped: Wrapped, closed: str) -> None:
    words = [os.fsencode(word) for word in wrapped.argv("sh", "-c", "cat; echo out; echo err >&2; exit 5")]
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *words],
        stdin=subprocess.DEVNULL, capture_output=True, env=surroundings(), timeout=DEADLINE, check=False,
    )  # fmt: skip
    assert done.returncode == 5
    assert done.stdout == (b"" if ">&-" in closed.split() else b"out\n")
    assert done.stderr == (b"" if "2>&-" in closed else b"err\n")


# What a program inherits


def test_a_program_inherits_what_it_would_alone(wrapped: Wrapped) -> None:
    source, sink = os.pipe()
    try:
        command = (PYTHON, "-c", HEIRLOOMS)
        assert wrapped.run(*command, pass_fds=(source,))[1] == alone(*command, pass_fds=(source,))[1]
    finally:
        os.close(source)
        os.close(sink)


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="there is no bash to substitute processes")
def test_descriptors_of_the_caller_reach_the_command(wrapped: Wrapped) -> None:
    words = [os.fsencode(word) for word in wrapped.argv("cat", "/dev/fd/9")]
    script = 'exec "$@" 9< <(echo substituted)'
    done = subprocess.run(
        ["/bin/bash", "-c", script, "bash", *words],
        env=surroundings(), capture_output=True, timeout=DEADLINE, check=True,
    )  # fmt: skip
    assert done.stdout == b"substituted\n"


def test_a_signal_that_is_ignored_stays_so(wrapped: Wrapped) -> None:
    told = "import signal; print(*(signal.getsignal(n) == signal.SIG_IGN for n in (signal.SIGHUP, signal.SIGTERM)))"
    words = [os.fsencode(word) for word in wrapped.argv(PYTHON, "-c", told)]
    done = subprocess.run(
        ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *words],
        env=surroundings(), capture_output=True, timeout=DEADLINE, check=True,
    )  # fmt: skip
    assert done.stdout == b"True False\n"


def test_the_environment_and_the_folder_are_those_given(wrapped: Wrapped, tmp_path: Path) -> None:
    folder = tmp_path / "a folder, 資"
    folder.mkdir()
    tool = folder / "tool"
    tool.write_text("#!/bin/sh\necho here $MARK\n")
    tool.chmod(0o755)
    where = {"WHERE": str(folder), "MARK": "marked"}
    assert wrapped.run("./tool", env=where)[1] == b"here marked\n"
    assert wrapped.run("tool", env={**where, "PATH": f"nowhere:{folder}:{os.environ['PATH']}"})[1] == b"here marked\n"
    assert wrapped.run("pwd", env=where)[1] == os.fsencode(folder) + b"\n"


# Signals


@pytest.mark.parametrize("number", ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2"])
def test_a_signal_to_us_reaches_the_command_once(wrapped: Wrapped, number: str) -> None:
    sent = getattr(signal, number)
    with wrapped.start(PYTHON, "-c", LISTENER, stdin=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(sent)
        assert process.stdout.readline() == b"+\n"
        out, _ = process.communicate(b"\n", timeout=DEADLINE)
    assert (process.returncode, out) == (0, b"[%d]\n" % sent)


def test_a_command_that_ignores_a_signal_is_waited_for(wrapped: Wrapped) -> None:
    script = "trap '' TERM; trap 'echo asked' USR1; echo ready; read line; exit 7"
    with wrapped.start("sh", "-c", script, stdin=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.poll() is None
        process.communicate(b"\n", timeout=DEADLINE)
    assert process.returncode == wrapped.told()["exit_status"] == 7


def test_a_command_that_a_signal_ends_is_reported_as_such(wrapped: Wrapped) -> None:
    with wrapped.start("sh", "-c", "echo ready; exec sleep 300") as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE) == 143
    assert wrapped.told()["signal"] == signal.SIGTERM


def test_a_reader_who_sleeps_does_not_keep_us_for_ever(wrapped: Wrapped) -> None:
    source, sink = os.pipe()
    os.set_blocking(sink, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(sink, bytes(4096))
    os.set_blocking(sink, True)
    with wrapped.start("sh", "-c", "echo waits; : > ended", stdout=sink) as process:
        until(lambda: Path("ended").exists() and not _children(process.pid))
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE) == 0
    os.close(source)
    os.close(sink)
    told = wrapped.told()
    assert (told["exit_status"], told["output"]) == (0, "waits\n")


def _children(pid: int) -> list[int]:
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    return [int(child) for child, parent in map(str.split, listed.splitlines()) if int(parent) == pid]


# Commands that cannot be run


def script(folder: Path, name: str, text: str, mode: int = 0o755) -> str:
    """Write a file, and return how it is called."""
    (folder / name).write_text(text)
    (folder / name).chmod(mode)
    return f"./{name}"


def test_what_is_not_there_is_not_found(wrapped: Wrapped) -> None:
    folder = Path.cwd()
    (folder / "dangling").symlink_to("nowhere")
    script(folder, "file", "")
    for command in ("no-such-command", "./no-such-file", "./dangling", "", "./file/below"):
        status, out, _ = wrapped.run(command)
        told = wrapped.told()
        assert (status, out, told["exit_status"], told["seconds"]) == (127, b"", 127, 0)
        assert told["failure"] == f"command not found: {command}"


def test_a_missing_interpreter_is_told_from_a_missing_command(wrapped: Wrapped) -> None:
    folder = Path.cwd()
    cases = {
        script(folder, "gone", "#!/no/such/interpreter -x\n"): "'/no/such/interpreter' is not there",
        script(folder, "dos", "#!/bin/sh\r\necho\r\n"): "ends like on Windows",
    }
    for command, why in cases.items():
        assert wrapped.run(command)[0] == alone("sh", "-c", command)[0] == 127
        assert why in wrapped.told()["failure"]


def test_what_is_there_and_cannot_be_run_says_why(wrapped: Wrapped) -> None:
    folder = Path.cwd()
    (folder / "folder").mkdir()
    cases = {
        script(folder, "plain", "#!/bin/sh\n", 0o644): "chmod +x",
        script(folder, "nothing", "echo hi\n"): "#!/bin/sh",
        "./folder": "it is a folder",
    }
    for command, why in cases.items():
        assert wrapped.run(command)[0] == 126
        told = wrapped.told()
        assert (told["exit_status"], told["seconds"], told["output"]) == (126, 0, "")
        assert why in told["failure"]
    assert wrapped.run("plain", env={"PATH": str(folder)})[0] == 126
    assert wrapped.run("folder", env={"PATH": str(folder)})[0] == 127


def test_our_own_faults_are_told_from_the_commands(wrapped: Wrapped) -> None:
    script(Path.cwd(), "file", "")
    for where, why in (("nowhere", "there is no such folder"), ("file", "it is not a folder")):
        assert wrapped.run("true", env={"WHERE": where})[0] == 125
        assert why in wrapped.told()["failure"]
    assert wrapped.run()[0] == 125
    assert wrapped.told()["failure"] == "there is no command to run"


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (OSError(errno.EAGAIN, "try again"), 125),
        (OSError(errno.ENOMEM, "no memory"), 125),
        (ValueError("embedded null byte"), 125),
        (subprocess.SubprocessError("in preexec_fn"), 125),
        (OSError(errno.E2BIG, "too long"), 126),
        (OSError(errno.ETXTBSY, "busy"), 126),
        (OSError(errno.ENOENT, "none"), 127),
    ],
    ids=str,
)
def test_faults_of_the_machine_have_their_status(fault: Exception, status: int) -> None:
    found = explain(fault, Order(("sh",), os.environ, Path.cwd()))
    assert found[0] == status
    assert "sh" in found[1]


def test_words_and_variables_that_no_program_can_take_are_no_traceback(wrapped: Wrapped) -> None:
    code = (
        "import dataclasses, os; from pathlib import Path; from bede.child import run\n"
        "for words, more in (\n"
        "    (['echo', 'a\\0b'], {}), (['echo', '\\ud900'], {}), (['true'], {'A=B': '1'}), (['true'], {'A': '\\0'})\n"
        "):\n"
        "    ran = run(words, environment={**os.environ, **more}, directory=Path('.'))\n"
        "    print(ran.exit_status, bool(ran.failure))"
    )
    status, out, err = alone(PYTHON, "-c", code)
    assert (status, err) == (0, b"")
    assert out == b"125 True\n" * 4


def test_many_words_are_too_many_for_any_program(wrapped: Wrapped) -> None:
    code = (
        "import os; from pathlib import Path; from bede.child import run\n"
        "print(run(['true', *['x' * 100_000] * 500], environment=os.environ, directory=Path('.')).exit_status)"
    )
    assert alone(PYTHON, "-c", code)[1] == b"126\n"


# Afterwards


def test_signals_and_descriptors_are_as_before() -> None:
    code = """
import os, signal
from pathlib import Path
from bede.child import run
def state():
    handlers = [str(signal.getsignal(number)) for number in sorted(signal.valid_signals())]
    return handlers, signal.pthread_sigmask(signal.SIG_BLOCK, ()), sorted(os.listdir("/dev/fd"))
before = state()
for command in (["true"], ["no-such-command"], ["sh", "-c", "kill $$"], ["sh", "-c", "echo x; echo y >&2"]):
    run(command, environment=os.environ, directory=Path("."))
    assert state() == before, (command, before, state())
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""
    status, out, err = alone(PYTHON, "-c", code)
    assert (status, err) == (0, b"y\n"), err
    assert out == b"x\ninterrupted\n"


# Windows, as far as it can be told from here


def test_a_name_means_a_file_with_its_ending_but_never_one_here(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("npm.cmd", "git.exe"):
        (tools / name).write_text("")
    (Path.cwd() / "here.exe").write_text("")
    environment = {"Path": f"{tools}{os.pathsep}.", "PathExt": os.pathsep.join((".exe", ".cmd"))}

    def found(name: str) -> str:
        return find(Order((name,), environment, Path.cwd()))

    assert found("git") == str(tools / "git.exe")
    assert found("npm") == str(tools / "npm.cmd")
    assert found("npm.cmd") == str(tools / "npm.cmd")
    assert found("./here") == str(Path.cwd() / "./here.exe")
    assert (found("here"), found("nothing"), found("")) == ("", "", "")
