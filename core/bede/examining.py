"""How each coding agent on this machine stands with Bede: its entry, its hooks, whether the command really answers.

For `doctor`. Reads the agents' files as an installer would and runs Bede's own command; changes nothing. An agent that
has nothing of ours is a finding, not a fault: nobody has to use it.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bede import __version__, agents
from bede.agents.wiring import Machine
from bede.context import Context
from bede.errors import BedeError
from bede.installing import Half, Installed, Job, command_of, each, job
from bede.splice import Member, Target
from bede.splice.syntax import load

#: Seconds that the command may take to tell its version, and to answer as a hook.
_PATIENCE = 20.0
#: A hook's call in a folder without memory, in the words of whichever agent: all of them take what they know.
_CALL = {"session_id": "doctor", "sessionId": "doctor", "hook_event_name": "PreToolUse", "tool_name": "Edit"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One agent: `ok` or `warn` or `fail`, what was found, what to do."""

    agent: str
    outcome: str
    detail: str
    hint: str = ""


def examine(context: Context) -> Iterator[Finding]:
    """Yield a finding for the command, where any agent calls it, and one for each agent found on this machine."""
    tasks = {half: _jobs(context, half) for half in ("server", "hooks")}
    machine = tasks["server"][0].machine
    here = [name for name in agents.AGENTS if agents.load(name).found(machine)]
    stands = {half: {name: _stand(jobs, name) for name in here} for half, jobs in tasks.items()}
    if any(word == "already" for words in stands.values() for word in words.values()):
        yield _command(context.environment)
    for name in here:
        yield _agent(name, machine, stands["server"][name], stands["hooks"][name])


def _jobs(context: Context, half: Half) -> list[Job]:
    """Return rehearsals of an install: into the user's places, and into the project's where there is one around."""
    found = [job(context, half, install=True, dry_run=True)]
    if len(found[0].wishes) == 1:
        return found
    one = found[0]
    return [
        Job(one.context, one.machine, (wish,), one.half, one.install, one.dry_run) for wish in one.wishes
    ]


def _stand(jobs: list[Job], name: str) -> str:
    """Return how an agent's half stands, the best of its places: already, changed (outdated), refused, or missing."""
    words = [item.outcome for task in jobs for item in _rehearsed(task, name)]
    found = next((word for word in ("already", "changed", "refused") if word in words), "missing")
    return _written(jobs, name) if found == "changed" and jobs[0].half == "server" else found


def _written(jobs: list[Job], name: str) -> str:
    """Return how an entry stands that is not word for word ours: one with toolsets of its own is, too."""
    for task in jobs:
        for target in agents.load(name).server(task.machine, task.wishes[0]):
            words = entry(target)
            if words and not _starts(words[0], task.machine):
                return f"starts {words[0]!r}, which is not there"
            if words and _plain(words) == _plain(task.wishes[0].serve(name)):
                return "already"
    return "changed"


def entry(target: Target) -> list[str]:
    """Return the words of the command in our entry of a file, none where it has none that can be read."""
    member = next((piece for piece in target.pieces if isinstance(piece, Member)), None)
    try:
        text = target.file.read_text("utf-8-sig")
        found: object = tomllib.loads(text) if target.format == "toml" else load(text, True)
    except (OSError, ValueError, BedeError):
        return []
    for key in member.keys if member else ():
        found = found.get(key) if isinstance(found, dict) else None
    if not isinstance(found, dict):
        return []
    words = [found.get("command"), found.get("args")]
    listed = [each for word in words for each in (word if isinstance(word, list) else [word])]
    return [word for word in listed if isinstance(word, str)]


def _plain(words: list[str]) -> list[str]:
    """Return the words of a command without the toolsets it asks for."""
    picked = [number for number, word in enumerate(words) if word == "--toolset"]
    return [word for number, word in enumerate(words) if number not in picked and number - 1 not in picked]


def _starts(program: str, machine: Machine) -> bool:
    """Tell whether a program is there, by its path or on PATH."""
    return bool(machine.which(program) if Path(program).name == program else os.access(program, os.X_OK))


def _rehearsed(task: Job, name: str) -> tuple[Installed, ...]:
    try:
        return each(task, [name], "missing")
    except BedeError:
        return ()


def _agent(name: str, machine: Machine, server: str, hooks: str) -> Finding:
    said = f"server {_WORDS.get(server, server)}, hooks {_WORDS[hooks]}"
    if server not in _WORDS:
        return Finding(name, "fail", said, f"bede attach {name}")
    if "refused" in (server, hooks):
        return Finding(name, "fail", f"{said}: one of its files cannot be read", f"bede attach {name} --dry-run")
    if "changed" in (server, hooks):
        return Finding(name, "warn", said, f"bede attach {name} && bede install-hooks --agent {name}")
    if server == hooks == "missing":
        return Finding(name, "ok", f"{said}: not in use", f"bede attach {name} && bede install-hooks --agent {name}")
    todo = [f"bede attach {name}"] if server == "missing" else []
    todo += [f"bede install-hooks --agent {name}"] if hooks == "missing" else []
    todo += filter(None, [_approval(name, machine) if hooks == "already" else ""])
    return Finding(name, "warn" if todo else "ok", said, "; ".join(todo))


_WORDS = {"already": "in place", "changed": "outdated", "refused": "unreadable", "missing": "missing"}


def _approval(name: str, machine: Machine) -> str:
    """Return what a person still has to approve before the hooks do anything; '' for nothing that can be told."""
    if name != "codex":
        return ""
    state: object = {}
    with suppress(OSError, ValueError):
        config = tomllib.loads((machine.place("CODEX_HOME", ".codex") / "config.toml").read_text("utf-8"))
        state = config.get("hooks", {}).get("state", {})
    return "" if state else "Codex runs no hook before it is approved: start codex and approve Bede's in /hooks"


def _command(environment: Mapping[str, str]) -> Finding:
    """Run the command that agents call: does it start, is it this version, does it answer as a hook."""
    command = command_of(environment)
    shown = " ".join(command)
    try:
        version = _run([*command, "--version"], environment).strip()
        if version != f"bede {__version__}":
            return Finding("command", "fail", f"{shown} is {version!r}, this is {__version__}", "install one of them")
        began = time.monotonic()
        answered = _run([*command, "hook", "PreToolUse", "--agent", "claude-code"], environment, json.dumps(_CALL))
        took = time.monotonic() - began
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("command", "fail", f"{shown} does not start: {error}", "install bede again")
    if answered.strip() not in ("", "{}"):
        return Finding("command", "fail", f"as a hook it says {answered[:80]!r}", "look into the log of hooks")
    return Finding("command", "ok", f"{shown}, version {__version__}, answers as a hook in {took:.2f} s")


def _run(command: list[str], environment: Mapping[str, str], said: str = "") -> str:
    """Run a command in an empty folder and return what it says.

    Raises:
        OSError, subprocess.SubprocessError: it does not start, fails, or takes too long.
    """
    apart = {name: value for name, value in environment.items() if name not in ("BEDE_DIR", "CLAUDE_PROJECT_DIR")}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            command, input=said, capture_output=True, text=True, check=True, timeout=_PATIENCE, cwd=folder, env=apart
        )
    return done.stdout


def log_of_hooks(environment: Mapping[str, str]) -> tuple[Path, int]:
    """Return the file in which failures of hooks are written down, and how many lines it has."""
    from bede.hooks.failing import place

    path = place(environment)
    try:
        return path, path.read_bytes().count(b"\n") if os.path.exists(path) else 0  # noqa: PTH110
    except OSError:
        return path, 0
