"""`schedule`: three installs equal one, removing leaves no trace, and status tells what is so.

No test reaches this machine's own timers: PATH leads to a played crontab alone, so that neither systemd nor
launchd is found. `tests/contracts/test_timers.py` runs the real ones.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bede import diary, sources
from bede.context import Context
from bede.errors import Conflict, Unavailable, UsageError
from bede.operations import load
from bede.operations.schedule import _HOMES, _NAMED, schedule
from bede.timers.machine import Machine
from bede_cli import grammar

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows is told how to make a task")

#: Behaves as Debian's, and as a laxer one where `any_end` lies beside the crontab.
CRONTAB = """#!/bin/sh
PATH=/usr/bin:/bin
at={at}
[ -f "$at.denied" ] && {{ echo "You (x) are not allowed to use this program (crontab)" >&2; exit 1; }}
case $1 in
-l) [ -f "$at" ] || {{ echo "no crontab for x" >&2; exit 1; }}; cat "$at" ;;
-r) [ -f "$at" ] || {{ echo "no crontab for x" >&2; exit 1; }}; rm "$at" ;;
-)
  cat > "$at.new"
  end=$(tail -c 1 "$at.new" | od -An -c | tr -d ' ')
  if [ -s "$at.new" ] && [ "$end" != '\\n' ] && [ ! -f "$at.any_end" ]; then
    echo "new crontab file is missing newline before EOF, can't install." >&2; exit 1
  fi
  mv "$at.new" "$at" ;;
*) exit 64 ;;
esac
"""


class Host:
    """A machine with a crontab and nothing else, a `bede` that is there, and the variables of a call."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self.home = home
        self.crontab = folder / "spool"
        self.data = home / ".local/share/bede"
        self.script = self.data / "schedule.sh"
        programs = folder / "my programs %"
        programs.mkdir()
        self.bede = programs / "bede"
        played = CRONTAB.format(at=shlex.quote(str(self.crontab)))
        for name, text in (("crontab", played), ("bede", "#!/bin/sh\n")):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        self.environment = {**os.environ, "PATH": str(programs)}
        for name in (*_HOMES, *_NAMED):
            if not name.startswith("XDG_"):
                self.environment.pop(name, None)

    def __call__(self, action: str, *, at: int = 0, **options: Any) -> Any:
        """Call the verb."""
        clock = {"clock": lambda: at} if at else {}
        with closing(Context(environment=self.environment, **clock)) as context:
            return schedule(context, action, **options)

    def everything(self) -> dict[str, bytes]:
        """Return the crontab and all files of the home."""
        files = {str(path): path.read_bytes() for path in self.home.rglob("*") if path.is_file()}
        folders = {str(path): b"" for path in self.home.rglob("*") if path.is_dir()}
        return files | folders | ({"crontab": self.crontab.read_bytes()} if self.crontab.exists() else {})


@pytest.fixture
def host(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A machine where cron is all there is; the interpreter has no `bede` beside it."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nowhere/python"))
    return Host(tmp_path, home)


CRONTABS = {
    "none": None,
    "empty": b"",
    "plain": b"# mine\nMAILTO=x@example.org\n\n5 4 * * * echo 50\\% done\n",
    "no end": b"1 2 * * * true",
    "windows": b"SHELL=/bin/bash\r\n1 2 * * * true\r\n\r\n",
    "bytes": b"# \xff\xfe \xc3\xa9\n\n\n\n",
    "like ours": b"#*/15 * * * * /bin/sh /x/bede/schedule.sh\n*/15 * * * * bede ingest --all --quiet\n",
}


@pytest.mark.parametrize("before", CRONTABS.values(), ids=CRONTABS)
def test_what_was_there_is_there_again(host, before):
    if before is not None:
        host.crontab.write_bytes(before)
    if before and not before.endswith(b"\n"):
        Path(f"{host.crontab}.any_end").touch()
    all_before = host.everything()
    assert host("install").outcome == "installed"
    assert host.crontab.read_bytes().endswith(b"schedule.sh\n" + (before or b""))
    once = host.everything()
    for _ in range(2):
        again = host("install")
        assert (again.outcome, again.steps) == ("unchanged", ())
        assert host.everything() == once
    assert host("install", every="1h").outcome == "changed"
    assert host("remove").outcome == "removed"
    assert host.everything() == all_before
    assert host("remove").outcome == "absent"
    assert host.everything() == all_before


def test_lines_that_came_later_stay(host):
    host("install")
    host.crontab.write_bytes(b"# first\n" + host.crontab.read_bytes() + b"# last\n")
    host("remove")
    assert host.crontab.read_bytes() == b"# first\n# last\n"


def test_status_tells_what_stands(host):
    result = host("status")
    assert (result.outcome, result.using, result.every, result.command) == ("absent", "", "", "")
    assert result.warnings == ()
    host("install", every="30m")
    result = host("status")
    assert (result.outcome, result.using, result.every) == ("active", "cron", "30m")
    assert shlex.split(result.command) == [str(host.bede), "ingest", "--all", "--quiet"]
    assert result.command_found
    assert result.next_run_at[14:19] in ("00:00", "30:00")
    assert (result.last_run, result.log) == (None, str(diary.place(host.environment)))


def test_status_tells_the_last_run(host):
    host("install")
    log = diary.place(host.environment)
    diary.write(log, {"at": "2026-01-02T03:04:05.000000Z", "outcome": "done", "turns": 3})
    assert host("status").last_run == {"at": "2026-01-02T03:04:05.000000Z", "outcome": "done", "turns": 3}
    with log.open("ab") as file:
        file.write(b'{"at": NaN}\n[]\n\xff{"torn')
    assert host("status").last_run["turns"] == 3
    log.write_bytes(b'{"at": {"no": "time"}}\n')
    assert host("status").outcome == "active"


def test_status_tells_when_the_command_is_gone(host):
    host("install")
    host.bede.unlink()
    result = host("status")
    assert not result.command_found
    assert any("is gone" in line for line in result.warnings)


def test_status_tells_when_nothing_wakes_it(host):
    host("install")
    since = host.script.stat().st_mtime_ns // 1000
    hour = 3_600_000_000
    assert host("status", at=since + hour // 4).warnings == ()
    assert any("no run was logged" in line for line in host("status", at=since + hour).warnings)
    diary.write(diary.place(host.environment), {"at": "2099-01-01T00:00:00Z", "outcome": "done"})
    assert host("status", at=since + hour).warnings == ()
    host.crontab.unlink()
    result = host("status")
    assert (result.outcome, result.next_run_at) == ("inactive", "")
    assert any("does not run it" in line for line in result.warnings)
    assert host("install").outcome == "changed"
    assert host("status").outcome == "active"


def test_a_dry_run_shows_what_is_then_done(host):
    host.crontab.write_bytes(b"# mine\n")
    before = host.everything()
    shown = host("install", dry_run=True)
    assert host.everything() == before
    assert (shown.outcome, shown.using, shown.every, shown.dry_run) == ("installed", "cron", "15m", True)
    done = host("install")
    assert shown.steps == done.steps
    write, run = done.steps
    assert (write.does, write.path, write.text) == ("write", str(host.script), host.script.read_text())
    assert (run.does, run.command, run.text) == ("run", "crontab -", host.crontab.read_text())
    stands = host.everything()
    shown = host("remove", dry_run=True)
    assert host.everything() == stands
    assert shown.steps == host("remove").steps
    assert host.everything() == before


def test_what_is_written_is_private_and_runs(host):
    said = shlex.quote(str(host.folder / "said"))
    host.bede.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" "$CODEX_HOME" > {said}\n')
    host.environment["CODEX_HOME"] = '/it\'s 100 % "there"'
    host("install")
    assert stat.S_IMODE(host.script.stat().st_mode) == 0o600
    line = host.crontab.read_text().rstrip("\n")
    assert line.startswith("*/15 * * * * ")
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(host.home)}
    subprocess.run(["/bin/sh", "-c", line.split(None, 5)[5]], env=bare, check=True)
    assert (host.folder / "said").read_text().split("\n")[:4] == [
        "ingest", "--all", "--quiet", "/it's 100 % \"there\"",
    ]  # fmt: skip


def _exported(host: Host) -> dict[str, str]:
    lines = [shlex.split(line) for line in host.script.read_text().splitlines() if line.startswith("export ")]
    return dict(words[1].split("=", 1) for words in lines)


def test_only_what_a_run_needs_is_carried(host):
    programs = host.environment["PATH"]
    host.environment |= {
        "PATH": f".::bin:{programs}:/usr/bin", "CODEX_HOME": "my codex", "CLAUDE_CONFIG_DIR": "/c",
        "COPILOT_HOME": "", "BEDE_STORE_WAIT": "3", "BEDE_DIR": "/one", "BEDE_BRANCH": "b",
        "BEDE_RUN_ID": "r", "BEDE_AGENT_ID": "ada",
        "BEDE_ODD-NAME": "x", "OPENAI_API_KEY": "x", "LD_PRELOAD": "/x", "XDG_CONFIG_HOME": "relative",
        "XDG_DATA_HOME": str(host.home / ".local/share"), "BEDE_API_KEY": "sk-ant-api03-" + "Ab3" * 30,
    }  # fmt: skip
    result = host("install")
    assert _exported(host) == {
        "PATH": f"{programs}:/usr/bin",
        "CODEX_HOME": str(Path.cwd() / "my codex"),
        "CLAUDE_CONFIG_DIR": "/c",
        "BEDE_STORE_WAIT": "3",
        "XDG_DATA_HOME": str(host.home / ".local/share"),
        "XDG_STATE_HOME": str(host.home / ".local/state"),
    }
    assert any("BEDE_API_KEY" in line for line in result.warnings)
    assert "Ab3Ab3" not in json.dumps(result.to_json())
    del host.environment["BEDE_RUN_ID"]
    assert host("install").outcome == "changed"
    assert _exported(host)["BEDE_AGENT_ID"] == "ada"


def test_a_name_below_another_folder_is_carried_as_it_stands(host):
    host.environment |= {"OPENCODE_DB": "team.db", "OMP_CONFIG_DIR": ".pi", "COPILOT_HOME": "~/copilot"}
    host("install")
    assert (
        _exported(host).items()
        >= {"OPENCODE_DB": "team.db", "OMP_CONFIG_DIR": ".pi", "COPILOT_HOME": "~/copilot"}.items()
    )


def test_whatever_moves_a_transcript_is_carried():
    """A run on a schedule finds what the same command finds by hand."""
    moved = re.compile(r'"([A-Z]+(?:_[A-Z]+)*_(?:HOME|DIR|DB|PORTABLE|APPDATA))"')
    texts = [path.read_text("utf-8") for path in Path(sources.__file__).parent.rglob("*.py")]
    assert {name for text in texts for name in moved.findall(text)} == {*_HOMES, *_NAMED}


@pytest.mark.parametrize("value", ["a\x1bb", "a\0b", "\udcff", "\r"])
def test_what_no_notation_carries_is_refused(host, value):
    host.environment["CODEX_HOME"] = "/" + value
    before = host.everything()
    with pytest.raises(UsageError) as refused:
        host("install")
    assert "CODEX_HOME" in refused.value.message
    assert host.everything() == before


def test_without_an_installed_bede_the_interpreter_is_named(host):
    host.bede.unlink()
    host("install")
    assert host("status").command == f"{sys.executable} -m bede_cli ingest --all --quiet"


def test_the_installation_that_speaks_is_the_one_that_runs(host, tmp_path):
    own = tmp_path / "nowhere/bede"
    own.parent.mkdir()
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    host("install")
    assert shlex.split(host("status").command)[0] == str(own)


def test_a_script_that_somebody_changed_is_theirs(host):
    host.crontab.write_bytes(b"# mine\n")
    host("install")
    changed = host.script.read_bytes() + b"# and mine\n"
    host.script.write_bytes(changed)
    assert any("changed by hand" in line for line in host("status").warnings)
    with pytest.raises(Conflict) as refused:
        host("install")
    assert str(host.script) in refused.value.message
    result = host("remove")
    assert any(str(host.script) in line for line in result.warnings)
    assert (host.script.read_bytes(), host.crontab.read_bytes()) == (changed, b"# mine\n")
    assert host("remove").outcome == "unchanged"


def test_times_that_somebody_changed_are_told_and_go_all_the_same(host):
    host.crontab.write_bytes(b"# mine\n")
    host("install")
    host.crontab.write_bytes(host.crontab.read_bytes().replace(b"*/15", b"7"))
    result = host("status")
    assert (result.outcome, result.every, result.next_run_at) == ("active", "", "")
    assert any("crontab" in line for line in result.warnings)
    host("remove")
    assert host.crontab.read_bytes() == b"# mine\n"
    assert not host.script.exists()


def test_who_may_not_use_cron_is_told_and_nothing_is_left(host):
    Path(f"{host.crontab}.denied").touch()
    before = host.everything()
    with pytest.raises(Unavailable) as refused:
        host("install")
    assert "not allowed" in refused.value.message
    assert refused.value.hint
    assert host.everything() == before
    assert host("status").outcome == "absent"
    assert host("remove").outcome == "absent"


def test_a_crontab_that_refuses_leaves_nothing(host):
    host.crontab.write_bytes(b"1 2 * * * true")
    before = host.everything()
    with pytest.raises(Unavailable) as refused:
        host("install")
    assert "missing newline" in refused.value.message
    assert host.everything() == before


@pytest.mark.parametrize("every", ["", "0m", "15", "15s", "-1m", "1.5h", "25h", "2d", "1441m", "٣m", "1m\n*", "99999m"])
def test_an_age_that_is_none_is_refused(host, every):
    for action in ("install", "status", "remove"):
        with pytest.raises(UsageError):
            host(action, every=every)
    assert not host.crontab.exists()


def test_cron_says_what_it_cannot(host):
    with pytest.raises(UsageError) as refused:
        host("install", every="7m")
    assert "--every 6m" in refused.value.hint
    assert not host.script.exists()


def test_without_any_timer_it_says_what_to_do(host):
    host.environment["PATH"] = str(host.folder / "nowhere")
    with pytest.raises(Unavailable) as refused:
        host("install")
    assert "cron" in refused.value.hint
    for name in ("launchd", "systemd", "cron"):
        with pytest.raises(Unavailable) as refused:
            host("install", using=name)
        assert name in refused.value.message
    assert host("status").outcome == "absent"


LAUNCHCTL = """#!/bin/sh
PATH=/usr/bin:/bin
case $1 in
print) [ -f {at} ] ;;
bootstrap) cp "$3" {at} ;;
bootout) rm {at} ;;
esac
"""


def test_one_timer_takes_over_from_another(host, monkeypatch):
    loaded = host.folder / "loaded"
    program = host.bede.with_name("launchctl")
    program.write_text(LAUNCHCTL.format(at=shlex.quote(str(loaded))))
    program.chmod(0o755)
    mac = partial(Machine, platform="darwin")
    monkeypatch.setattr("bede.operations.schedule.Machine", mac)
    host.crontab.write_bytes(b"# mine\n")
    before = host.everything()
    assert host("install", using="cron").using == "cron"
    kept = host("install")
    assert (kept.outcome, kept.using, loaded.exists()) == ("unchanged", "cron", False)
    moved = host("install", using="launchd")
    assert (moved.outcome, moved.using, moved.next_run_at) == ("installed", "launchd", "")
    assert host.crontab.read_bytes() == b"# mine\n"
    assert loaded.exists()
    assert host("remove", using="cron").outcome == "absent"
    assert host("remove").outcome == "removed"
    assert host.everything() == before
    assert host("install").using == "launchd"


def test_the_command_is_one_that_there_is():
    known = {flag for item in grammar.words(load("ingest")) for flag in item.flags}
    assert {"--all", "--quiet"} <= known


def test_it_is_for_the_command_line_alone():
    declared = load("schedule")
    assert (declared.effect, declared.toolset) == ("host", "")


def test_exit_statuses(bede, host):
    search = {"PATH": host.environment["PATH"]}
    assert bede("schedule", env=search).json()["outcome"] == "absent"
    made = bede("schedule", "install", "--every", "1h", "--json", env=search)
    assert (made.status, made.json()["schema"], made.json()["every"]) == (0, "schedule/1", "1h")
    assert bede("schedule", "frobnicate", env=search).status == 2
    assert bede("schedule", "install", "--every", "7m", env=search).error()["code"] == "usage"
    assert bede("schedule", "install", "--using", "systemd", env=search).error()["code"] == "unavailable"
    assert bede("schedule", "remove", env=search).json()["outcome"] == "removed"
    assert not host.crontab.exists()
