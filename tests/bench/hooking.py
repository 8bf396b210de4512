"""The hook before an edit as a whole process, in turn with an interpreter that only imports what it stands on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.faces import bede
from bench.measure import interleaved, percentiles, project


def hook(rounds: int) -> dict[str, Any]:
    """Time a claim, a refusal and a renewal; `of_bare` is each one's share of the bare interpreter's time.

    Raises:
        RuntimeError: an answer is not what it has to be, so that its time would say nothing.
    """
    with project() as folder:
        claim, wanted = _call(folder, "s1"), _call(folder, "s2")
        before, after = ("hook", "PreToolUse"), ("hook", "PostToolUse")
        acts: dict[str, Callable[[int], Any]] = {
            "bare": lambda _number: _run([sys.executable, "-c", "import sqlite3, json"], b""),
            "claim": lambda number: _told([*bede(), *before], _call(folder, "s1", f"f{number}.py"), b""),
            "renew": lambda _number: _told([*bede(), *after], claim, b""),
            "refuse": lambda _number: _told([*bede(), *before], wanted, b"is held by claude-code"),
        }
        _told([*bede(), *before], claim, b"")
        interleaved(acts, 2)
        times = interleaved(acts, rounds)
    found: dict[str, Any] = {name: percentiles(values) for name, values in times.items()}
    for name in ("claim", "renew", "refuse"):
        for part in ("p50", "p95"):
            found[name][f"of_bare_{part}"] = round(found[name][f"{part}_ms"] / found["bare"][f"{part}_ms"], 3)
    return found


def _call(folder: Path, session: str, file: str = "src/loader.py") -> bytes:
    """Return what Claude Code tells before an edit of a file of usual size."""
    told = {
        "session_id": session,
        "prompt_id": "p",
        "transcript_path": f"{folder}/none/{session}.jsonl",
        "cwd": str(folder),
        "tool_name": "Edit",
        "tool_input": {"file_path": str(folder / file), "old_string": "a" * 400, "new_string": "b" * 400},
    }
    return json.dumps(told).encode()


def _told(command: list[str], call: bytes, answer: bytes) -> None:
    said = _run([*command, "--agent", "claude-code"], call)
    if (answer not in said) if answer else said:
        raise RuntimeError(f"{command} answered {said[:200]!r}")


def _run(command: list[str], call: bytes) -> bytes:
    """Run a process as an agent does."""
    done = subprocess.run(command, input=call, capture_output=True, check=True)
    return done.stdout
