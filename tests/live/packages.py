"""The agents as npm packages: found in a folder, or installed into a cache at the versions of `package.json`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from live.agents import AGENTS, Agent, missing

_LISTED = Path(__file__).with_name("package.json").read_text(encoding="utf-8")
PINNED: dict[str, str] = json.loads(_LISTED)["dependencies"]
#: Seconds that npm may take for one agent.
PATIENCE = 240.0


def cache() -> Path:
    """Return the folder that agents are installed into."""
    if named := os.environ.get("BEDE_LIVE_CACHE"):
        return Path(named).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "bede" / "live"


def provide(names: Sequence[str], folder: Path) -> dict[str, str]:
    """Install what is missing of some agents, and return why others cannot be had."""
    lacking: dict[str, str] = {}
    for name in names:
        agent = AGENTS[name]
        if not _is_wanted(agent, folder):
            continue
        if shutil.which("npm") is None:
            lacking[name] = "npm is not installed"
        elif fault := _install(agent, folder):
            lacking[name] = fault
    return lacking


def _is_wanted(agent: type[Agent], folder: Path) -> bool:
    """Tell whether an agent is missing, or there in another version than the pinned one."""
    versions = {package: PINNED[package] for package in (agent.package, *agent.also)}
    return bool(missing(agent, folder / "node_modules")) or any(
        _version(folder, package) != version for package, version in versions.items()
    )


def _version(folder: Path, package: str) -> str:
    try:
        found = json.loads((folder / "node_modules" / package / "package.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return str(found.get("version", ""))


def _install(agent: type[Agent], folder: Path) -> str:
    """Install one agent beside those that are there; return why it did not work, '' where it did."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "package.json"
    kept = json.loads(file.read_text(encoding="utf-8")).get("dependencies", {}) if file.is_file() else {}
    wanted = {package: PINNED[package] for package in (agent.package, *agent.also)}
    body = {"name": "bede-live", "private": True, "dependencies": {**kept, **wanted}}
    file.write_text(json.dumps(body, indent=2) + "\n", encoding="utf-8")
    command = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", f"--cache={folder / 'npm'}"]
    try:
        done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired) as error:
        fault = f"npm: {error}"
    else:
        fault = missing(agent, folder / "node_modules") if done.returncode == 0 else _why(done.stderr)
    if fault:
        file.write_text(json.dumps({**body, "dependencies": kept}, indent=2) + "\n", encoding="utf-8")
    return fault


def _why(stderr: bytes) -> str:
    lines = [line for line in stderr.decode("utf-8", "replace").splitlines() if "error" in line.lower()]
    return f"npm failed: {' '.join(lines[:3])[:300]}"
