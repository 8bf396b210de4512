"""Timers: three notations that carry any path, files that are known as ours, a lock that is never stale, a
small log.

Where a program of the real kind is here it is the judge: `sh` runs what a crontab line says, systemd's own
checker and systemd itself read the units. Nobody's own crontab, units or agents are touched.
"""

from __future__ import annotations

import json
import os
import plistlib
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import surroundings
from hypothesis import given
from hypothesis import strategies as st

from bede import diary
from bede.errors import Conflict, Unavailable, UsageError
from bede.timers import cron, launchd, sheet, systemd, timers
from bede.timers.machine import Machine, demand, perform
from bede.timers.port import Job, Step
from bede.turnstile import held

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows is told how to make a task")

#: What breaks notations: specifiers, variables, both quotes, backslashes, comments, other alphabets.
ODD = "50 %h %% $HOME ${x} $$ \"q\" 'a' ; # & | * ? [x] <é漢字> ]]> --"
WITNESS = """#!{python}
import json, os, sys
said = json.dumps({{"argv": sys.argv, "cwd": os.getcwd(), "env": dict(os.environ)}})
with open({said!r} + "~", "w") as file:
    file.write(said)
os.replace({said!r} + "~", {said!r})
"""


@pytest.fixture
def said(tmp_path: Path) -> Path:
    """Where the witness writes what it was called with."""
    return tmp_path / "said.json"


@pytest.fixture
def job(tmp_path: Path, said: Path) -> Job:
    """A job whose program lies in a folder with an awkward name, and tells how it was called."""
    folder = tmp_path / ODD.replace("/", "")
    folder.mkdir()
    program = folder / "bede \\n'$x"
    program.write_text(WITNESS.format(python=sys.executable, said=str(said)), encoding="utf-8")
    program.chmod(0o755)
    variables = {"PATH": "/usr/bin:/bin:" + ODD, "CODEX_HOME": "/a\\b\tc\nd " + ODD, "BEDE_EMPTY_IS": "=\\"}
    return Job(15, (str(program), "ingest", "--all", "--quiet"), tuple(variables.items()))


def told(said: Path, job: Job) -> None:
    """Check that the witness was called with exactly the job's command and variables."""
    found = json.loads(said.read_text(encoding="utf-8"))
    assert found["argv"] == list(job.command)
    assert {name: found["env"].get(name) for name, _ in job.variables} == dict(job.variables)
    assert found["cwd"] == "/"


# launchd


def test_a_property_list_says_what_was_meant(job):
    body = sheet.sign(launchd.text(job), {"every": 15, "command": list(job.command), "folders": 0}, xml=True)
    found = plistlib.loads(body)
    assert found["ProgramArguments"] == list(job.command)
    assert found["EnvironmentVariables"] == dict(job.variables)
    assert (found["StartInterval"], found["Label"]) == (900, "bede.ingest")
    assert sheet.read(body)["command"] == list(job.command)


LAUNCHCTL = """#!/bin/sh
# Keeps what is loaded in a file; like the real one, it is still there for a moment after it was booted out.
state=$LAUNCHD_STATE
echo "$@" >> "$state.log"
case $1 in
print)
  [ -f "$state.going" ] && { mv "$state.going" "$state.gone"; exit 0; }
  [ -f "$state" ] || { echo "Could not find service" >&2; exit 113; } ;;
bootstrap)
  [ -f "$state" ] || [ -f "$state.going" ] && { echo "Bootstrap failed: 5: Input/output error" >&2; exit 5; }
  [ -f "$3" ] && cp "$3" "$state" ;;
bootout)
  [ -f "$state" ] || { echo "Boot-out failed: 3: No such process" >&2; exit 3; }
  mv "$state" "$state.going" ;;
*) exit 64 ;;
esac
"""


@pytest.fixture
def mac(home: Path, tmp_path: Path) -> Machine:
    """A Mac whose launchctl is played."""
    folder = _program(tmp_path, "launchctl", LAUNCHCTL)
    search = f"{folder}:{os.environ['PATH']}"
    return Machine({**os.environ, "PATH": search, "LAUNCHD_STATE": str(tmp_path / "loaded")}, "darwin")


def _program(tmp_path: Path, name: str, text: str) -> Path:
    folder = tmp_path / "programs"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)
    return folder


def test_a_launchd_agent_comes_changes_and_goes(mac, home, job, tmp_path):
    agent = launchd.Launchd(mac)
    assert agent.missing() == ""
    assert agent.found(0) is None
    perform(mac, agent.put(job))
    path = home / "Library/LaunchAgents/bede.ingest.plist"
    assert plistlib.loads((tmp_path / "loaded").read_bytes()) == plistlib.loads(path.read_bytes())
    assert agent.put(job) == []
    found = agent.found(0)
    assert (found.every, found.command, found.active, found.theirs) == (15, job.command, True, ())
    perform(mac, agent.put(Job(30, job.command)))
    assert plistlib.loads((tmp_path / "loaded").read_bytes())["StartInterval"] == 1800
    perform(mac, agent.take())
    assert not (tmp_path / "loaded").exists()
    assert list(home.iterdir()) == []
    assert agent.take() == []


def test_an_agent_that_somebody_changed_is_unloaded_and_left(mac, home, job):
    agent = launchd.Launchd(mac)
    perform(mac, agent.put(job))
    path = home / "Library/LaunchAgents/bede.ingest.plist"
    changed = path.read_bytes().replace(b"<integer>900<", b"<integer>60<")
    path.write_bytes(changed)
    assert agent.found(0).theirs == (str(path),)
    with pytest.raises(Conflict):
        agent.put(job)
    perform(mac, agent.take())
    assert path.read_bytes() == changed
    assert not agent.found(0).active


def test_a_mac_without_a_session_gets_its_folder_back(mac, home, job):
    refusal = "#!/bin/sh\necho 'Domain does not support it' >&2\nexit 125\n"
    Path(mac.program("launchctl")).write_text(refusal)
    with pytest.raises(Unavailable) as refused:
        perform(mac, launchd.Launchd(mac).put(job))
    assert "Domain does not support it" in refused.value.message
    assert list(home.iterdir()) == []


# systemd


def _verify(folder: Path, job: Job) -> subprocess.CompletedProcess[str]:
    (folder / systemd.SERVICE).write_text(systemd.service(job), encoding="utf-8")
    (folder / systemd.TIMER).write_text(systemd.timer(job), encoding="utf-8")
    names = [str(folder / name) for name in (systemd.SERVICE, systemd.TIMER)]
    return subprocess.run(["systemd-analyze", "verify", *names], capture_output=True, text=True, check=False)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze")
def test_systemd_finds_no_fault_in_the_units(tmp_path, job):
    folder = tmp_path / "units"
    folder.mkdir()
    done = _verify(folder, job)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "bede" in line]) == (0, [])
    plain = Job(1, ("/bin/true", *job.command[1:]))
    assert _verify(folder, plain).returncode == 0
    assert 'ExecStart="/bin/true" "ingest"' in (folder / systemd.SERVICE).read_text()
    # It does see a program that is not there, so it has really read the name.
    assert _verify(folder, Job(1, ("/bin/no %h such", "x"))).returncode != 0


@pytest.fixture
def manager(home: Path):
    """The user's systemd, a real one for this test alone: its own runtime folder and home."""
    import tempfile

    places = ("/usr/lib/systemd/systemd", "/lib/systemd/systemd")
    program = next((path for path in places if os.path.exists(path)), "")
    if not program or not shutil.which("systemctl"):
        pytest.skip("there is no systemd")
    runtime = tempfile.mkdtemp(prefix="bede-")  # a socket's path must be short
    environment = {name: value for name, value in os.environ.items() if name != "DBUS_SESSION_BUS_ADDRESS"}
    environment |= {"XDG_RUNTIME_DIR": runtime, "SYSTEMD_LOG_TARGET": "console", "SYSTEMD_LOG_LEVEL": "err"}
    command = [program, "--user"]
    if not os.path.isdir("/run/systemd/system"):
        # It starts only where systemd runs the machine; so it is shown a /run of its own that says so.
        pretend = 'mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system && exec "$@"'
        command = ["unshare", "--mount", "sh", "-c", pretend, "sh", *command]
    machine = Machine(environment)
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 20
        while systemd.Systemd(machine).missing():
            if process.poll() is not None or time.monotonic() > until:
                pytest.skip("no systemd can be started here for one user")
            time.sleep(0.05)
        yield machine
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(runtime, ignore_errors=True)


def _tree(folder: Path) -> dict[str, bytes | None]:
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*")}
    return {name: None if path.is_dir() else path.read_bytes() for name, path in found.items()}


def _settled(home: Path) -> dict[str, bytes | None]:
    """Return what lies in the home, besides what the session's other services make."""
    return {name: data for name, data in _tree(home).items() if name.startswith(".config/systemd")}


def test_a_real_systemd_runs_the_job_and_forgets_it(manager, home, job, said):
    timer = systemd.Systemd(manager)
    before = _settled(home)
    perform(manager, timer.put(job))
    assert timer.put(job) == []
    found = timer.found(0)
    assert (found.every, found.command, found.active, found.theirs) == (15, job.command, True, ())
    version = int(demand(manager, ("systemctl", "--version")).out.split()[1])
    assert version < 249 or abs(found.next_at / 1e6 - time.time() - 60) < 120
    demand(manager, ("systemctl", "--user", "start", systemd.SERVICE))
    told(said, job)
    perform(manager, timer.put(Job(30, job.command)))
    assert timer.found(0).every == 30
    perform(manager, timer.take())
    assert timer.found(0) is None
    assert timer.take() == []
    assert _settled(home) == before
    listing = ("list-units", "--all", "--plain", "--no-legend", "bede*")
    assert demand(manager, ("systemctl", "--user", *listing)).out.strip() == b""


def test_a_unit_that_somebody_changed_stays(manager, home, job):
    timer = systemd.Systemd(manager)
    perform(manager, timer.put(job))
    path = home / ".config/systemd/user" / systemd.TIMER
    path.write_bytes(path.read_bytes().replace(b"15min", b"2min"))
    found = timer.found(0)
    assert (found.every, found.theirs, found.active) == (0, (str(path),), True)
    with pytest.raises(Conflict):
        timer.put(job)
    perform(manager, timer.take())
    assert [item.name for item in path.parent.iterdir() if item.is_file()] == [systemd.TIMER]
    assert not timer.found(0).active


def test_units_go_also_where_no_systemd_answers(home, job, monkeypatch, tmp_path):
    folder = home / ".config/systemd/user"
    (folder / "timers.target.wants").mkdir(parents=True)
    note = {"every": 15, "command": ["x"], "folders": 0}
    (folder / systemd.SERVICE).write_bytes(sheet.sign(systemd.service(job), note))
    (folder / systemd.TIMER).write_bytes(sheet.sign(systemd.timer(job), note))
    (folder / "timers.target.wants" / systemd.TIMER).symlink_to(folder / systemd.TIMER)
    (folder / "other.service").write_text("mine")
    machine = Machine({**os.environ, "PATH": str(tmp_path)})
    timer = systemd.Systemd(machine)
    assert "systemctl" in timer.missing()
    perform(machine, timer.take())
    assert _tree(folder) == {"other.service": b"mine"}


# cron


def runs(line: bytes, *, plain: bool) -> bytes:
    """Return what a cron hands to the shell; a `plain` one, like busybox's, knows no percent signs."""
    command = line.split(None, 5)[5].rstrip(b"\n")
    if plain:
        return command
    made, at = bytearray(), 0
    while at < len(command) and command[at : at + 1] != b"%":
        if command[at : at + 2] in (b"\\%", b"\\\\"):
            at += 1
        made += command[at : at + 1]
        at += 1
    return bytes(made)


@pytest.mark.parametrize("plain", [False, True])
def test_a_line_and_its_script_run_the_job_in_a_bare_environment(tmp_path, job, said, plain):
    folder = tmp_path / ("data " + ODD)
    folder.mkdir()
    path = folder / "schedule.sh"
    path.write_bytes(sheet.sign(cron.script(job), {"every": 15, "command": list(job.command), "folders": 0}))
    line = cron.fields(15).encode() + b" " + cron.command(path)
    bare = {"HOME": str(tmp_path), "LOGNAME": "x", "SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}
    command = ["/bin/sh", "-c", runs(line, plain=plain)]
    done = subprocess.run(command, env=bare, cwd=tmp_path, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    told(said, job)


def test_the_fields_mean_every_so_many_minutes():
    known = {1: "* * * * *", 15: "*/15 * * * *", 60: "0 * * * *", 120: "0 */2 * * *", 1440: "0 0 * * *"}
    assert {every: cron.fields(every) for every in known} == known
    for every in (7, 45, 90, 61, 1439, 59, 720 + 60):
        with pytest.raises(UsageError) as refused:
            cron.fields(every)
        low, high = map(int, re.findall(r"--every (\d+)m", refused.value.hint))
        assert low < every < high
        assert cron.fields(low) and cron.fields(high)


@pytest.mark.parametrize("every", [1, 15, 30, 60, 180, 1440])
def test_the_next_run_is_the_next_that_fits(every):
    now = 1_767_323_045_123_456
    found = cron.following(every, now)
    assert now < found <= now + every * 60_000_000
    clock = time.localtime(found / 1e6)
    assert (clock.tm_hour * 60 + clock.tm_min) % every == 0
    assert clock.tm_sec == 0


OWN = b"/bin/sh /x/schedule.sh"
LINES = st.lists(
    st.one_of(
        st.binary(max_size=30).filter(lambda data: b"\n" not in data and not cron.is_ours(data, OWN)),
        st.sampled_from(
            [
                *(b"", b"# */15 * * * * " + OWN, b"SHELL=/bin/fish", b"*/5 * * * * " + OWN + b".bak"),
                *(b"\xff\r", b"@daily x"),
            ]
        ),
    ),
    max_size=6,
)


@given(lines=LINES, ending=st.sampled_from([b"", b"\n"]), times=st.integers(1, 3))
def test_a_line_in_a_crontab_comes_and_goes_without_a_trace(lines, ending, times):
    before = b"\n".join(lines) + ending
    text = before
    for every in range(1, times + 1):
        text = cron.with_line(text, cron.fields(every).encode() + b" " + OWN, OWN)
    ours = [line for line in text.split(b"\n") if cron.is_ours(line, OWN)]
    assert ours == [cron.fields(times).encode() + b" " + OWN]
    assert cron.without(text, OWN) == before


def test_a_line_that_was_moved_or_timed_by_hand_is_still_the_one():
    text = b"MAILTO=a\n@hourly " + OWN + b"\n# end\n"
    assert cron.with_line(text, b"* * * * * " + OWN, OWN) == b"MAILTO=a\n* * * * * " + OWN + b"\n# end\n"
    assert cron.without(text, OWN) == b"MAILTO=a\n# end\n"


@pytest.mark.parametrize("name", ["a\\b", "a\nb", "x" * 1000])
def test_a_folder_that_no_line_can_name_is_refused(name):
    with pytest.raises(UsageError) as refused:
        cron.command(Path("/") / name)
    assert "BEDE_DATA_DIR" in refused.value.hint


# Files of ours


@given(text=st.text(), xml=st.booleans())
def test_a_file_is_ours_until_a_byte_of_it_changes(text, xml):
    note = {"every": 1, "command": ["--", text], "folders": 0}
    body = "<?xml?>\n" + text.encode("utf-8", "replace").decode() + "\n"
    signed = sheet.sign(body, note, xml=xml)
    assert sheet.read(signed) == note
    assert sheet.read(signed + b" ") is None
    assert sheet.read(signed.replace(b'"every":1', b'"every":2')) is None
    if xml:
        assert signed.startswith(b"<?xml?>\n<!-- ")
        assert b"--" not in signed.split(b"\n")[1][4:-3]


@pytest.mark.parametrize(
    "note",
    [
        {},
        {"every": "x"},
        {"every": 0, "command": [], "folders": 0},
        {"every": 1, "command": [1], "folders": 0},
        {"every": 1, "command": ["x"], "folders": 10**9},
        {"every": True, "command": ["x"], "folders": 0},
    ],
)
def test_a_note_that_makes_no_sense_makes_no_file_ours(note):
    assert sheet.read(sheet.sign("x\n", note)) is None


def test_a_link_and_a_folder_are_somebody_elses(tmp_path):
    real = tmp_path / "real"
    real.write_bytes(sheet.sign("x\n", {"every": 1, "command": ["x"], "folders": 0}))
    (tmp_path / "link").symlink_to(real)
    (tmp_path / "folder").mkdir()
    assert not sheet.look(real).theirs
    for name in ("link", "folder"):
        assert sheet.look(tmp_path / name).theirs
        assert list(sheet.lift(tmp_path / name)) == []
        with pytest.raises(Conflict):
            list(sheet.lay(tmp_path / name, "y\n", Job(1, ("y",)), mode=0o600))


# Programs


def test_a_program_that_fails_hangs_or_is_not_there_is_a_typed_error(tmp_path, monkeypatch):
    folder = _program(tmp_path, "fails", "#!/bin/sh\necho told >&2\nexit 3\n")
    _program(tmp_path, "hangs", "#!/bin/sh\nsleep 2 &\nwait\n")
    _program(tmp_path, "binary", "\x7fELF nonsense")
    machine = Machine({"PATH": f"{folder}:/usr/bin:/bin"})
    with pytest.raises(Unavailable, match="status 3: told"):
        demand(machine, ("fails", "x"))
    with pytest.raises(Unavailable, match="there is no missing"):
        machine.call(("missing",))
    with pytest.raises(Unavailable):
        demand(machine, ("binary",))
    monkeypatch.setattr("bede.timers.machine._DEADLINE", 0.2)
    with pytest.raises(Unavailable, match="did not end"):
        machine.call(("hangs",))


def test_no_program_is_taken_from_the_working_folder(tmp_path, monkeypatch):
    _program(tmp_path, "crontab", "#!/bin/sh\n")
    monkeypatch.chdir(tmp_path / "programs")
    assert Machine({"PATH": "."}).program("crontab") == ""


def test_a_step_that_fails_puts_every_file_back(tmp_path):
    machine = Machine(os.environ)
    old, gone, new = tmp_path / "old", tmp_path / "gone", tmp_path / "a/b/new"
    old.write_text("old")
    gone.write_text("gone")
    gone.chmod(0o640)
    steps = [
        Step(path=new, data=b"new"),
        Step(path=old, data=b"changed"),
        Step(path=gone),
        Step(command=("false",)),
    ]
    with pytest.raises(Unavailable):
        perform(machine, steps)
    assert (old.read_text(), gone.read_text(), new.exists()) == ("old", "gone", False)
    assert stat.S_IMODE(gone.stat().st_mode) == 0o640


def test_every_timer_says_why_it_is_not_here(home):
    bare = Machine({"PATH": "", "HOME": str(home)}, "linux")
    assert [timer.name for timer in timers(bare) if not timer.missing()] == []
    assert [timer.found(0) for timer in timers(bare)] == [None] * 3
    assert [timer.take() for timer in timers(bare)] == [[]] * 3


# The turnstile


def test_one_at_a_time_also_within_a_process(tmp_path):
    path = tmp_path / "new/ingest.lock"
    with held(path) as first, held(path) as second:
        assert (first, second) == (True, False)
    with held(path) as again:
        assert again
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_who_has_patience_gets_it(tmp_path):
    path = tmp_path / "lock"
    got: list[bool] = []

    def wait() -> None:
        with held(path, 30) as alone:
            got.append(alone)

    with held(path):
        thread = threading.Thread(target=wait)
        thread.start()
    thread.join()
    assert got == [True]


HOLDER = """
import sys
from pathlib import Path
from bede.turnstile import held
with held(Path(sys.argv[1])) as alone:
    print(alone, flush=True)
    sys.stdin.read()
"""


def test_a_killed_holder_leaves_no_lock(tmp_path):
    path = tmp_path / "lock"
    command = [sys.executable, "-P", "-c", HOLDER, str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=surroundings(), stdin=pipe, stdout=pipe) as process:
        assert process.stdout.readline() == b"True\n"
        with held(path) as alone:
            assert not alone
        process.send_signal(signal.SIGKILL)
        process.wait()
        with held(path) as alone:
            assert alone


def test_a_started_child_does_not_keep_the_lock(tmp_path):
    path = tmp_path / "lock"
    with held(path):
        command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
        child = subprocess.Popen(command, stdin=subprocess.PIPE)
    try:
        with held(path) as alone:
            assert alone
    finally:
        child.communicate()


def test_what_cannot_be_locked_is_a_typed_error(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for path in (tmp_path / "file/lock", tmp_path / "link", tmp_path, Path("/\0")):
        with pytest.raises(Unavailable), held(path):
            pass


# The diary


def test_lines_are_kept_and_the_newest_is_told(tmp_path):
    path = tmp_path / "new/log"
    assert diary.last(path) is None
    for number in range(3):
        diary.write(path, {"at": "2026-01-02T03:04:05Z", "outcome": "done", "number": number})
    assert diary.last(path) == {"at": "2026-01-02T03:04:05Z", "outcome": "done", "number": 2}
    assert len(path.read_bytes().splitlines()) == 3
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_it_stays_small_and_keeps_the_newest(tmp_path):
    path = tmp_path / "log"
    sizes = []
    for number in range(700):
        diary.write(path, {"number": number, "text": "x" * 3000})
        sizes.append(path.stat().st_size)
    assert max(sizes) <= 1_000_000
    kept = [json.loads(line)["number"] for line in path.read_bytes().splitlines()]
    assert kept == list(range(kept[0], 700))
    assert 100 < len(kept) < 400
    assert sorted(item.name for item in tmp_path.iterdir() if "log" in item.name) == [".log.lock", "log"]


WRITER = """
import sys
from pathlib import Path
from bede import diary
for number in range(60):
    diary.write(Path(sys.argv[1]), {"who": sys.argv[2], "number": number, "text": "x" * 9000})
"""


def test_many_writers_lose_nothing_but_the_oldest(tmp_path):
    path = tmp_path / "log"
    started = [
        subprocess.Popen([sys.executable, "-P", "-c", WRITER, str(path), str(who)], env=surroundings())
        for who in range(3)
    ]
    assert [process.wait() for process in started] == [0, 0, 0]
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert path.stat().st_size <= 1_000_000
    for who in "012":
        kept = [line["number"] for line in lines if line["who"] == who]
        assert kept == list(range(60))[-len(kept) :] if kept else True
    assert lines[-1]["number"] == 59


HOSTILE = [
    b"", b"\n\n\n", b"\xff\xfe\n", b"{\n", b"[1]\n", b'"x"\n', b"NaN\n", b'{"a": NaN}\n', b'{"a": 1e999}\n',
    b"[" * 100_000 + b"\n", b'{"a":' * 50_000 + b"\n", b"9" * 10_000 + b"\n", b'{"a": "\\ud800"}\n',
    b"\0" * 5000, b"x" * 1_000_000, b'{"at": "x", "torn',
]  # fmt: skip


@pytest.mark.parametrize("data", HOSTILE, ids=lambda data: repr(data[:12]))
def test_whatever_lies_in_it_is_passed_over(tmp_path, data):
    path = tmp_path / "log"
    path.write_bytes(data)
    assert diary.last(path) is None
    diary.write(path, {"outcome": "done"})
    assert diary.last(path) == {"outcome": "done"}
    path.write_bytes(b'{"outcome": "before"}\n' + data[:100_000])
    assert diary.last(path) == {"outcome": "before"}


def test_the_diary_holds_no_secret(tmp_path: Path) -> None:
    path, token = tmp_path / "log", "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    diary.write(path, {"outcome": "failed", "error": f"no file a/{token}", "projects": [{"name": token}], token: 1})
    assert token.encode() not in path.read_bytes()
    assert (diary.last(path) or {})["error"] == "no file a/[redacted:github-token]"


def test_whatever_is_written_becomes_one_line(tmp_path):
    path = tmp_path / "log"
    loop: list[object] = []
    loop.append(loop)
    odd = {"a\n\"b": "\udcff\u2028\x1b[31m\n", "nan": float("nan"), "loop": loop, "what": object()}
    diary.write(path, {**odd, "n": 10**400})
    diary.write(path, {"outcome": "done", "huge": "x" * 10**6, **{f"k{n}": "y" * 500 for n in range(200)}})
    first, second = path.read_bytes().splitlines()
    assert first.isascii() and second.isascii()
    assert json.loads(first)["nan"] == "float"
    assert diary.last(path)["outcome"] == "done"
    assert "huge" in diary.last(path)["left_out"]
    assert len(second) < 25_000


def test_what_is_no_file_is_a_typed_error(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("pipe", "link", "."):
        with pytest.raises(Unavailable):
            diary.write(tmp_path / name, {"a": 1})
    assert not (tmp_path / "elsewhere").exists()
    for name in ("pipe", "."):
        with pytest.raises(Unavailable):
            diary.last(tmp_path / name)
