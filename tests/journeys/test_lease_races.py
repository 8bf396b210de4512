"""Many processes after the same few files: never two at once, nobody starves, and a kill does no harm.

The whole race is long: `python tests/journeys/racing.py FOLDER SEED 500 8 40`, with FOLDER an empty project.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import COMMAND, surroundings
from journeys.crowd import command
from journeys.crowd import surroundings as around

posix = pytest.mark.skipif(os.name != "posix", reason="needs signals")


@posix
@pytest.mark.parametrize(("races", "runners", "kills"), [(25, 5, 0), (15, 4, 6)])
def test_never_two_holders(project: Path, races: int, runners: int, kills: int) -> None:
    words = (project, 7, races, runners, kills)
    done = subprocess.run(
        command(Path(__file__).with_name("racing.py"), *words),
        env=around(), capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["shared"], found["clashes"], found["lapses"], found["tokens_twice"]) == (0, 0, 0, 0), found
    assert found["grants"] == [races] * runners
    assert (found["findings"], found["busy"]) == (0, 0)
    assert found["told"]["lease_acquired"] >= races * runners
    assert min(1, kills) <= found["killed"] <= kills  # as many as were still on the way when their time came


class Shell:
    """The command as a process in the background."""

    def __init__(self, *words: str, agent: str, cwd: Path) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "lease", *words, "--agent-id", agent, "--session", f"s-{agent}"],
            cwd=cwd, env=surroundings(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def end(self) -> tuple[int, dict[str, Any]]:
        """Wait for the end; return the status, and the result or the error."""
        out, err = self.process.communicate(timeout=120)
        return self.process.returncode, json.loads(out or err.splitlines()[-1])


def _queue(bede: Any, project: Path, length: int) -> list[str]:
    """Wait until so many are in the queue, and return who they are."""
    for _ in range(400):
        found = bede("lease", cwd=project).json()["queue"]
        if len(found) == length:
            return [one["agent_id"] for one in found]
        time.sleep(0.05)
    raise AssertionError(f"never {length} in the queue")


def test_who_waits_gets_it_in_order(project, bede):
    first = bede("lease", "acquire", "a.py", "--session", "s", "--agent-id", "ann", cwd=project).json()
    waiting = []
    for number, agent in enumerate(("bob", "eve"), start=1):
        waiting.append(Shell("acquire", "a.py", "--wait", "60s", "--purpose", "next", agent=agent, cwd=project))
        assert _queue(bede, project, number)[-1] == agent
    late = bede("lease", "acquire", "a.py", "--agent-id", "late", cwd=project)
    assert (late.status, late.error()["details"]["queue"]) == (12, 2)
    assert bede("lease", "release", "--session", "s", "--agent-id", "ann", cwd=project).json()["outcome"] == "released"
    status, got = waiting[0].end()
    assert (status, got["outcome"]) == (0, "acquired")
    assert got["token"] > first["token"]
    handed = bede("lease", "handover", "a.py", "--session", "s-bob", "--agent-id", "bob", cwd=project).json()
    assert (handed["outcome"], handed["leases"][0]["agent_id"]) == ("handed_over", "eve")
    status, last = waiting[1].end()
    assert (status, last["outcome"], last["token"]) == (0, "acquired", handed["token"])
    assert last["leases"][0]["seconds_left"] > 800
    assert bede("verify", cwd=project).status == 0


@posix
def test_a_killed_waiter_holds_nobody_up(project, bede):
    bede("lease", "acquire", "a.py", "--session", "s", "--agent-id", "ann", cwd=project)
    waiter = Shell("acquire", "a.py", "--wait", "60s", agent="bob", cwd=project)
    _queue(bede, project, 1)
    os.kill(waiter.process.pid, signal.SIGKILL)
    waiter.process.communicate()
    next_ = Shell("acquire", "a.py", "--wait", "60s", agent="eve", cwd=project)
    bede("lease", "release", "--session", "s", "--agent-id", "ann", cwd=project)
    assert next_.end()[1]["leases"][0]["agent_id"] == "eve"


def test_a_killed_holder_is_over_when_its_time_is(project, bede):
    # The command that took it has ended, as a holder has that was killed; nobody will renew.
    bede("lease", "acquire", "a.py", "--ttl", "2s", "--session", "s", "--agent-id", "ann", cwd=project)
    status, got = Shell("acquire", "a.py", "--wait", "60s", agent="bob", cwd=project).end()
    assert (status, got["leases"][0]["agent_id"]) == (0, "bob")
    lost = bede("lease", "renew", "a.py", "--session", "s", "--agent-id", "ann", cwd=project)
    assert (lost.status, lost.error()["reason"]) == (12, "lease_lost")


def test_who_waited_in_vain_leaves_the_queue(project, bede):
    bede("lease", "acquire", "a.py", "--session", "s", "--agent-id", "ann", "--purpose", "long work", cwd=project)
    status, error = Shell("acquire", "a.py", "--wait", "1s", agent="bob", cwd=project).end()
    assert (status, error["code"], error["reason"]) == (12, "conflict", "held")
    assert error["details"]["purpose"] == "long work"
    assert bede("lease", cwd=project).json()["queue"] == []
