"""`scripts/bench`: measure, and print one JSON object."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import sys
import time
from collections.abc import Callable
from typing import Any

from bench import faces, finding, hooking, ingesting, leasing, looking, reducing, writing


def main() -> int:
    """Run the measurements that were asked for."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes: a look, not a result")
    parser.add_argument("--peers", action="store_true", help="also run the published peers, from a venv of their own")
    parser.add_argument("--only", action="append", choices=sorted(_parts(False)), help="only this part; repeatable")
    asked = parser.parse_args()
    parts = _parts(asked.quick)
    found: dict[str, Any] = {"schema": "bench/1", "machine": machine(), "quick": asked.quick}
    for name in asked.only or parts:
        began = time.monotonic()
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        found[name] = parts[name]()
        print(f"  {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
    if asked.peers:
        from bench import peers

        found["peers"] = peers.run(asked.quick)
    print(json.dumps(found))
    return 0


def _parts(quick: bool) -> dict[str, Callable[[], Any]]:
    sizes = (1_000, 10_000) if quick else (1_000, 50_000, 1_000_000)
    return {
        "append": lambda: writing.append(500 if quick else 3_000, 1 if quick else 5),
        "writers": lambda: writing.writers(8, 2 if quick else 5),
        "verify": lambda: writing.verify(5_000 if quick else 50_000),
        "disk": lambda: [writing.disk(1_000), writing.disk(2_000 if quick else 10_000)],
        "branching": lambda: [looking.branching(size) for size in sizes],
        "searching": lambda: [looking.searching(size) for size in ((10_000,) if quick else (100_000, 1_000_000))],
        "ingest": lambda: ingesting.first(5 if quick else 50, 1 if quick else 3),
        "ingest_append": lambda: ingesting.appending((1, 5) if quick else (1, 10, 50), 3 if quick else 11),
        "finding": lambda: finding.finding(2_000 if quick else 100_000),
        "leases": lambda: leasing.leases(200 if quick else 1_000, 1 if quick else 3),
        "commands": lambda: faces.commands(5 if quick else 21),
        "hook": lambda: hooking.hook(10 if quick else 101),
        "server": lambda: faces.server(3 if quick else 11),
        "tools": faces.tools,
        "reductions": reducing.reductions,
    }


def machine() -> dict[str, Any]:
    """Tell what this ran on."""
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "load": [round(value, 2) for value in os.getloadavg()] if hasattr(os, "getloadavg") else [],
    }


if __name__ == "__main__":
    sys.exit(main())
