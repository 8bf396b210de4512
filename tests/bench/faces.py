"""Whole processes against a minimal Typer command, the server against the SDK's smallest, and what its tools cost."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from threading import Timer
from typing import Any

from bench.measure import interleaved, percentiles, processes, project

TYPER = """
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
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def bede() -> list[str]:
    """Return the command as a user has it, else as a module."""
    script = Path(sys.executable).with_name("bede")
    return [str(script)] if script.exists() else [sys.executable, "-m", "bede_cli"]


def commands(rounds: int) -> dict[str, Any]:
    """Time `status`, `search` and `store` as processes, in turn with a minimal Typer command."""
    with project() as folder:
        (folder / "minimal.py").write_text(TYPER)
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
        return answering("bede", [*bede(), "serve"], folder, rounds)


def answering(
    name: str, command: list[str], folder: Path, rounds: int, environment: dict[str, str] | None = None
) -> dict[str, Any]:
    """Time a server from its start to its first answer, in turn with the smallest one; `ratio` is of the two."""
    (folder / "smallest.py").write_text(_SMALLEST)
    known = {name: command, "smallest": [sys.executable, "smallest.py"]}

    def once(asked: str, _number: int) -> None:
        greet(known[asked], folder, (), environment)

    acts: dict[str, Callable[[int], Any]] = {asked: partial(once, asked) for asked in known}
    interleaved(acts, 1)
    found: dict[str, Any] = {asked: percentiles(times) for asked, times in interleaved(acts, rounds).items()}
    found["ratio"] = round(found[name]["p50_ms"] / found["smallest"]["p50_ms"], 3)
    return found


def greet(
    command: Sequence[str],
    folder: Path,
    more: tuple[dict[str, Any], ...] = (),
    environment: dict[str, str] | None = None,
    seconds: float = 60,
) -> list[Any]:
    """Start an MCP server, send it `initialize` and more, and return its answer to each; None to what has no id.

    Raises:
        RuntimeError: the server ended, or was still silent after so many seconds.
    """
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(command, cwd=folder, env=environment, stderr=said, **pipes) as process,
    ):
        patience = Timer(seconds, process.kill)
        patience.start()
        try:
            return [_told(process, message) for message in (_HELLO, *more)]
        except (OSError, ValueError) as fault:
            said.seek(0)
            raise RuntimeError(f"{command[-1]} gave no answer: {said.read()[-500:]}") from fault
        finally:
            patience.cancel()
            process.kill()


def _told(process: subprocess.Popen[str], message: dict[str, Any]) -> Any:
    process.stdin.write(json.dumps(message) + "\n")  # type: ignore[union-attr]
    process.stdin.flush()  # type: ignore[union-attr]
    return json.loads(process.stdout.readline()) if "id" in message else None  # type: ignore[union-attr]


def tools() -> dict[str, Any]:
    """Count the tokens of names, descriptions and input schemas in the default list of tools."""
    with project() as folder:
        began = time.monotonic()
        found = listed([*bede(), "serve"], folder)
        took = time.monotonic() - began
    return {**found, "listed_after_s": round(took, 2)}


def listed(command: Sequence[str], folder: Path, environment: dict[str, str] | None = None) -> dict[str, Any]:
    """Ask a server for its tools, and weigh the answer."""
    from bede.engines import tokens

    ask = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    offered = greet(command, folder, (READY, ask), environment)[-1]["result"]["tools"]
    spoken = [[item["name"], item.get("description"), item["inputSchema"]] for item in offered]
    text = json.dumps(spoken, separators=(",", ":"))
    whole = json.dumps(offered, separators=(",", ":"))
    return {
        "tools": len(offered),
        "tokens": tokens.count(text),
        "bytes": len(text),
        "tokens_with_output_schemas": tokens.count(whole),
    }
