"""Whole processes against a minimal Typer command, the server against the SDK's smallest, and what its tools cost."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.measure import interleaved, percentiles, processes, project

_TYPER = """
import typer
app = typer.Typer(add_completion=False)
@app.command()
def hello(name: str = "x"): print(name)
app()
"""
_SMALLEST = """
from mcp.server import MCPServer
server = MCPServer("smallest")
@server.tool()
def ping(word: str = "pong") -> str:
    "Answer with the same word."
    return word
server.run()
"""
_HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
}


def bede() -> list[str]:
    """Return the command as a user has it, else as a module."""
    script = Path(sys.executable).with_name("bede")
    return [str(script)] if script.exists() else [sys.executable, "-m", "bede_cli"]


def commands(rounds: int) -> dict[str, Any]:
    """Time `status`, `search` and `store` as processes, in turn with a minimal Typer command."""
    with project() as folder:
        (folder / "minimal.py").write_text(_TYPER)
        store = [*bede(), "store", "--task-id", "t1", "--agent-id", "bench", "--kind", "status_update", "--learnings"]
        summary = ["--summary", "The long-running migration of the ledger table is done on every shard"]
        subprocess.run([*store, '["first"]', *summary], cwd=folder, check=True, capture_output=True)
        times = processes(
            {
                "typer": [sys.executable, "minimal.py"],
                "status": [*bede(), "status"],
                "search": [*bede(), "search", "ledger migration"],
                "store": ["sh", "-c", 'exec "$@" "[\\"$(date +%s%N)\\"]" --summary "$0"', summary[1], *store],
                "version": [*bede(), "--version"],
            },
            rounds,
            cwd=folder,
        )
    typer = times["typer"]["p50_ms"]
    return {name: {**values, "of_typer": round(values["p50_ms"] / typer, 3)} for name, values in times.items()}


def server(rounds: int) -> dict[str, Any]:
    """Time spawn to the answer of `initialize`, in turn with the SDK's smallest server."""
    with project() as folder:
        (folder / "smallest.py").write_text(_SMALLEST)
        commands = {"bede": [*bede(), "serve"], "smallest": [sys.executable, "smallest.py"]}
        acts = {name: (lambda _n, command=command: _greet(command, folder)) for name, command in commands.items()}
        interleaved(acts, 1)
        found: dict[str, Any] = {name: percentiles(times) for name, times in interleaved(acts, rounds).items()}
    found["ratio"] = round(found["bede"]["p50_ms"] / found["smallest"]["p50_ms"], 3)
    return found


def _greet(command: list[str], folder: Path, more: tuple[dict[str, Any], ...] = ()) -> list[Any]:
    with subprocess.Popen(
        command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        answers = []
        for message in (_HELLO, *more):
            process.stdin.write(json.dumps(message) + "\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
            if "id" in message:
                answers.append(json.loads(process.stdout.readline()))  # type: ignore[union-attr]
        process.kill()
    return answers


def tools() -> dict[str, Any]:
    """Count the tokens of names, descriptions and input schemas in the default list of tools."""
    from bede.engines import tokens

    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    ask = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    with project() as folder:
        began = time.monotonic()
        listed = _greet([*bede(), "serve"], folder, (ready, ask))[1]["result"]["tools"]
        took = time.monotonic() - began
    spoken = [[item["name"], item.get("description"), item["inputSchema"]] for item in listed]
    text = json.dumps(spoken, separators=(",", ":"))
    whole = json.dumps(listed, separators=(",", ":"))
    return {
        "tools": len(listed),
        "tokens": tokens.count(text),
        "bytes": len(text),
        "tokens_with_output_schemas": tokens.count(whole),
        "listed_after_s": round(took, 2),
    }
