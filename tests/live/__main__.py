"""Run the agents and print what came of it: `python -m live`, which `scripts/live` calls."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from live import acts, apart, duet, packages, strangers
from live.agents import AGENTS, Agent, missing
from live.stage import Failed, Stage
from live.tools import Json

Act = Callable[[Stage], dict[str, str]]
#: Group of rows → its heading, and the checks of its rows.
GROUPS = {
    "agents": ("agent", acts.CHECKS),
    "pairs": ("two at once", duet.CHECKS),
    "strangers": ("another's hooks", strangers.CHECKS),
}
#: Pairs that run at once, where both are there.
PAIRS = (("codex", "claude-code"), ("claude-code", "claude-code"), ("opencode", "codex"))


def main() -> int:
    """Run what was asked for; 1 where a check failed."""
    options = _options()
    names = list(dict.fromkeys(options.agent)) or list(AGENTS)
    modules = Path(options.modules).absolute() if options.modules else None
    skipped: dict[str, str] = {}
    if modules is None:
        folder = packages.cache()
        _say(f"agents are installed in {folder}")
        skipped = packages.provide(names, folder)
        modules = folder / "node_modules"
    skipped |= {name: why for name in names if name not in skipped and (why := missing(AGENTS[name], modules))}
    if shutil.which("git") is None:
        skipped = dict.fromkeys(names, "git is not installed")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    open_ = apart.leave_network()
    apart.adopt()
    if open_:
        _say(f"not cut off from the network: {open_}; only the agents' own switches keep them offline")
    found = _all(names, skipped, modules, Path(options.keep).absolute() if options.keep else None)
    found["network"] = f"open: {open_}" if open_ else "cut off"
    print(json.dumps(found, indent=2) if options.json else _table(found))
    return 1 if any(row["failed"] for row in _rows(found)) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/live", description="Try Bede with real agents, offline.")
    parser.add_argument("agent", nargs="*", help=f"only these; by default all seven: {', '.join(AGENTS)}")
    modules = "the folder node_modules that has them (BEDE_LIVE_MODULES); without it npm installs them into a cache"
    parser.add_argument("--modules", default=os.environ.get("BEDE_LIVE_MODULES"), metavar="FOLDER", help=modules)
    parser.add_argument("--json", action="store_true", help="print JSON in place of a table")
    parser.add_argument("--keep", metavar="FOLDER", help="make the scratch places below this folder, and leave them")
    options = parser.parse_args()
    if unknown := set(options.agent) - set(AGENTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join(AGENTS)}")
    return options


def _all(names: Sequence[str], skipped: Json, modules: Path, keep: Path | None) -> Json:
    here = [name for name in names if name not in skipped]
    found: Json = {"agents": [], "pairs": [], "strangers": [], "skipped": skipped}

    def add(group: str, name: str, act: Act, checks: Json) -> None:
        found[group].append({"name": name, **_row(name, keep, modules, act, checks)})

    for name in here:
        add("agents", name, partial(_alone, kind=AGENTS[name]), acts.CHECKS)
    for first, second in PAIRS:
        if first in here and second in here:
            act = partial(duet.perform, first=AGENTS[first], second=AGENTS[second])
            add("pairs", f"{first} + {second}", act, duet.CHECKS)
    if "copilot-cli" in here:
        add("strangers", "copilot-cli with Claude's hooks", strangers.perform, strangers.CHECKS)
    return found


def _alone(stage: Stage, kind: type[Agent]) -> dict[str, str]:
    return acts.Act(stage, kind).run()


def _row(name: str, keep: Path | None, modules: Path, act: Act, checks: Json) -> Json:
    """Perform one act in a scratch place; a fault that ends it fails every check."""
    folder = keep / re.sub(r"\W+", "-", name) if keep else Path(tempfile.mkdtemp(prefix="bede-live-"))
    if keep and folder.exists():
        raise SystemExit(f"{folder} exists; name a new folder")
    began, version = time.monotonic(), ""
    stage: Stage | None = None
    try:
        stage = Stage(folder, modules)
        if name in AGENTS:
            agent = AGENTS[name](stage.home, stage.repo, "", modules)
            version = agent.version(stage.env(agent))
        faults = act(stage)
    except Failed as error:
        faults = {"run": str(error)} | dict.fromkeys(checks, "the run broke off")
    finally:
        if stage is not None:
            stage.close()
        left = apart.settle(5.0)
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    faults = {check: fault.replace(str(folder), "…") for check, fault in faults.items()}
    failed = {check: fault for check, fault in faults.items() if fault}
    if left:
        failed["processes"] = f"left behind: {'; '.join(left)}"
    seconds = round(time.monotonic() - began, 1)
    _say(f"{name}: {'ok' if not failed else 'FAILED ' + ', '.join(failed)} ({seconds} s)")
    passed = [check for check in checks if check not in failed]
    return {"version": version, "seconds": seconds, "passed": passed, "failed": failed}


def _table(found: Json) -> str:
    lines = []
    for group, (title, checks) in GROUPS.items():
        if found[group]:
            lines += [f"| {title} | {' | '.join(checks)} | s |", "|---" * (len(checks) + 2) + "|"]
            lines += [_line(row, checks) for row in found[group]] + [""]
    for row in _rows(found):
        lines += [f"FAILED {row['name']}, {check}: {fault}" for check, fault in row["failed"].items()]
    lines += [f"skipped {name}: {why}" for name, why in found["skipped"].items()]
    lines.append(f"network: {found['network']}")
    return "\n".join(lines if found["agents"] else [*lines, "nothing was tried"])


def _line(row: Json, checks: Json) -> str:
    marks = ["FAILED" if check in row["failed"] else "yes" for check in checks]
    return f"| {' | '.join([' '.join([row['name'], row['version']]).strip(), *marks])} | {row['seconds']:.0f} |"


def _rows(found: Json) -> list[Json]:
    return [row for group in GROUPS for row in found[group]]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
