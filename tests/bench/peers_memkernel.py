"""Drive the published `memkernel-mcp` over this project's work. Run by an interpreter that has it; see `peers.py`.

Prints one JSON array a line, `[name, value]`: seconds of single calls, counts, or the words of a failure. Every
figure stands alone, so that what was measured before a fault, or before time ran out, is kept. Imports nothing of
this project.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing
from functools import partial
from importlib import import_module, metadata
from pathlib import Path
from statistics import median
from typing import Any

memkernel: Any = import_module("memkernel")
events: Any = import_module("memkernel.core.events")
view: Any = import_module("memkernel.memory.state_view")

#: As a user gets it, and as near as it comes to what this project promises of an append: on disk when it returns.
OPTIONS: dict[str, dict[str, Any]] = {
    "as_installed": {},
    "full_without_compaction": {"auto_gc": False, "synchronous": "FULL"},
}
#: Events that follow the last compaction, as they would in use.
TAIL = 10


def say(name: str, value: Any) -> None:
    """Print one figure."""
    print(json.dumps([name, value]), flush=True)


async def attempt(name: str, act: Callable[[], Awaitable[Any]]) -> None:
    """Say what `act` returns, or how it failed."""
    try:
        say(name, await act())
    except Exception as fault:
        say(name, failure(fault))


def failure(fault: BaseException) -> str:
    """Put a failure into one short line."""
    return f"failed: {type(fault).__name__}: {' '.join(str(fault).split())[:200]}"


async def timed(act: Callable[[], Awaitable[Any]]) -> float:
    """Return how many seconds one call took."""
    began = time.perf_counter()
    await act()
    return time.perf_counter() - began


@asynccontextmanager
async def opened(path: Path, **options: Any) -> Any:
    """Open a kernel on a file; it is closed even after a fault, else its thread keeps the process alive."""
    kernel = await memkernel.MemKernel.open(path, **options)
    try:
        yield kernel
    finally:
        await kernel.close()


def note(kernel: Any, text: str) -> Awaitable[Any]:
    """Append a note to main."""
    made: Awaitable[Any] = kernel.note(branch_id="main", agent_id="bench", note=text)
    return made


def payload(kind: str, body: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Turn one of this project's events into the nearest that the package has."""
    kinds = memkernel.EventType
    if kind == "decision":
        named = {"decision_key": body["key"], "decision_value": body["value"]}
        return kinds.ARCHITECTURAL_DECISION, {**named, "rationale": body.get("rationale", body["summary"])}
    if kind == "run":
        said = {"command": " ".join(body["command"]), "exit_code": body["exit_status"], "output": body["output"]}
        return kinds.TOOL_EXECUTION_LOG, said
    if kind == "fact":
        said = {"command": body["summary"], "exit_code": 0, "output": "", "facts": {body["key"]: body["value"]}}
        return kinds.TOOL_EXECUTION_LOG, said
    if kind == "task":
        return kinds.AGENT_TASK_INIT, {"directive": body["summary"], "constraints": body.get("learnings", [])}
    return kinds.AGENT_SCRATCHPAD, {"note": "\n".join([body["summary"], *body.get("learnings", [])])}


async def appending(job: dict[str, Any]) -> None:
    """Time one append a call, in turn with a bare row committed in full on the same disk."""
    bare = sqlite3.connect("bare.db", isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = FULL"):
        bare.execute(f"PRAGMA {pragma}")
    bare.execute("CREATE TABLE row (id INTEGER PRIMARY KEY, text)")

    async def variant(name: str) -> dict[str, Any]:
        times: dict[str, list[float]] = {"append": [], "bare": []}
        async with opened(Path(f"append-{name}.db"), **OPTIONS[name]) as kernel:
            await kernel.query_state()  # loads the tokenizer, which a process pays once
            for text in job["memories"][: job["appends"]]:
                times["append"].append(await timed(partial(note, kernel, text)))
                began = time.perf_counter()
                bare.execute("INSERT INTO row (text) VALUES (?)", (text,))
                times["bare"].append(time.perf_counter() - began)
        return {**times, "ratio_p50": round(median(times["append"]) / median(times["bare"]), 3)}

    for name in OPTIONS:
        await attempt(f"append.{name}", partial(variant, name))
    bare.close()


async def disk(job: dict[str, Any]) -> int:
    """Weigh the file that the appends left, per note: the compactions that came with them included."""
    size = Path("append-as_installed.db").stat().st_size
    return round(size / int(job["appends"]))


async def writers(job: dict[str, Any], name: str) -> dict[str, Any]:
    """Let processes append as fast as they can, and count what is there afterwards."""
    path = Path(f"writers-{name}.db")
    async with opened(path):
        pass
    command = [sys.executable, "-P", __file__, "write", str(path), name, str(job["seconds"])]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    running = [subprocess.Popen(command, **pipes) for _ in range(job["writers"])]
    for process in running:
        process.stdout.readline()  # type: ignore[union-attr]
    began = time.monotonic()
    for process in running:
        process.stdin.write("go\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
    said = [json.loads(process.communicate()[0]) for process in running]
    took = time.monotonic() - began
    async with opened(path) as kernel:
        problems = await kernel.verify()
    query = "SELECT COUNT(*) FROM events WHERE event_type = 'AGENT_SCRATCHPAD'"
    with closing(sqlite3.connect(path)) as connection:
        (rows,) = connection.execute(query).fetchone()
    done = [item["done"] for item in said]
    return {
        "processes": len(running),
        "events_per_s": round(sum(done) / took),
        "lost": sum(done) - rows,
        "failed": sum(item["failed"] for item in said),
        "first_failure": next((item["first_failure"] for item in said if item["first_failure"]), None),
        "least_of_most": round(min(done) / max(1, *done), 3),
        "worst_ms": round(max(item["worst"] for item in said) * 1e3, 1),
        "verified": not problems,
    }


async def write(path: str, name: str, seconds: float) -> dict[str, Any]:
    """Append until time is up: what one of the writers does."""
    texts = json.loads(Path("job.json").read_text())["memories"][:200]
    done, failed, worst, first = 0, 0, 0.0, None
    async with opened(Path(path), **OPTIONS[name]) as kernel:
        await kernel.query_state()
        print("ready", flush=True)
        sys.stdin.readline()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            began = time.monotonic()
            try:
                await note(kernel, texts[done % len(texts)])
                done += 1
            except Exception as fault:
                failed, first = failed + 1, first or failure(fault)
            worst = max(worst, time.monotonic() - began)
    return {"done": done, "failed": failed, "worst": worst, "first_failure": first}


async def history(job: dict[str, Any], count: int) -> list[int]:
    """Fill `base.db` with `count` events, a fork of the half, and a compaction shortly before the end."""
    made: list[int] = []
    drafts = job["events"][:count]
    Path("base.db").unlink(missing_ok=True)
    async with opened(Path("base.db"), auto_gc=False) as kernel:
        for batch in batches(drafts[:-TAIL], 1000):
            async with kernel.store.transaction(write=True) as connection:
                for kind, body in batch:
                    what, said = payload(kind, body)
                    event = events.new_event(what, branch_id="main", agent_id="bench", payload=said)
                    made.append((await kernel.store.append_in_transaction(connection, event)).event_id)
        forked = {"source_branch": "main", "new_branch": "half", "agent_id": "bench"}
        await kernel.fork(**forked, at_event_id=made[count // 2])
        await kernel.append_decision(branch_id="half", agent_id="bench", key="key-1", value="half", rationale="half")
        say(f"branching.{count}.compact", [await timed(partial(kernel.gc, force=True))])
        for kind, body in drafts[-TAIL:]:
            what, said = payload(kind, body)
            made.append((await kernel.record(what, branch_id="main", agent_id="bench", payload=said)).event_id)
    return made


def batches(items: list[Any], size: int) -> Iterator[list[Any]]:
    """Cut a list into pieces."""
    return (items[start : start + size] for start in range(0, len(items), size))


async def branching(job: dict[str, Any], count: int) -> None:
    """Time what reads and forks a long history, then, each on a fresh copy of it, what rolls it back."""
    made = await history(job, count)
    rounds = job["rounds"]
    async with opened(Path("base.db"), auto_gc=False) as kernel:

        def fork(name: str, **options: Any) -> Awaitable[Any]:
            forked: Awaitable[Any] = kernel.fork(source_branch="main", new_branch=name, agent_id="bench", **options)
            return forked

        acts: dict[str, Callable[[int], Awaitable[Any]]] = {
            "fork_head": lambda number: fork(f"head-{number}"),
            "fork_anywhere": lambda number: fork(f"any-{number}", at_event_id=made[-1 - count // 3 - number]),
            "context_after_fork": lambda number: kernel.context(f"any-{number}"),
            "diff": lambda _number: kernel.diff("main", "half"),
            "context": lambda _number: kernel.context(),
            "verify": lambda _number: kernel.verify(),
        }
        for name, act in acts.items():
            await attempt(f"branching.{count}.{name}", partial(repeated, act, rounds))
    targets = {"rollback_5": made[-6], "rollback_half": made[count // 2], "rollback_all": made[0]}
    for name, target in targets.items():
        await attempt(f"branching.{count}.{name}", partial(back, job, count, name, target))


async def repeated(act: Callable[[int], Awaitable[Any]], rounds: int) -> list[float]:
    """Time an act some times over."""
    return [await timed(partial(act, number)) for number in range(rounds)]


async def back(job: dict[str, Any], count: int, name: str, target: int) -> list[float]:
    """Roll back a copy of the history, and tell what reading and appending cost from then on."""
    times: list[float] = []
    for number in range(job["rollbacks"]):
        path = Path(f"copy-{name}-{number}.db")
        shutil.copy("base.db", path)
        async with opened(path) as kernel:
            rolled = {"branch_id": "main", "target_event_id": target, "agent_id": "bench"}
            times.append(await timed(partial(kernel.rollback, **rolled)))
            if number == 0:
                context = [await timed(kernel.context) for _ in range(3)]
                say(f"branching.{count}.context_after_{name}", context)
                appended = [await timed(partial(note, kernel, "one more")) for _ in range(3)]
                say(f"branching.{count}.append_after_{name}", appended)
        path.unlink()
    return times


async def reduction(said: list[Any], path: Path) -> dict[str, Any]:
    """Play a workload, and return the texts to be counted and whether the state is the fold over everything."""
    async with opened(path) as kernel:
        for kind, agent, body in said:
            what, told = payload(kind, body)
            await kernel.record(what, branch_id="main", agent_id=agent, payload=told)
        state = await kernel.query_state()
        context = await kernel.context()
        live = await kernel.store.read_live("main")
    plain = [event for event in live if event.event_type is not memkernel.EventType.SEMANTIC_SNAPSHOT]
    # Insights come from the notes that a compaction saw, not from the fold.
    whole = {name: value for name, value in view.materialize(plain).sections().items() if name != "insights"}
    kept = {name: value for name, value in state["state"].items() if name != "insights"}
    return {
        "database": str(path),
        "own_raw": "\n".join(view.render_event(event) for event in plain),
        "context": context,
        "own_count": state["context_tokens"],
        "tokenizer": state["tokenizer"],
        "compactions": len(live) - len(plain),
        "state_equal": whole == kept,
    }


async def main() -> None:
    """Do everything that the job names."""
    job = json.loads(Path("job.json").read_text())
    say("versions", {name: metadata.version(name) for name in ("memkernel-mcp", "mcp", "pydantic", "aiosqlite")})
    await appending(job)
    await attempt("bytes_per_memory", partial(disk, job))
    for name in OPTIONS:
        await attempt(f"writers.{name}", partial(writers, job, name))
    for name, said in job["workloads"].items():
        path = Path(f"reduction-{name}.db").absolute()
        await attempt(f"reduction.{name}", partial(reduction, said, path))
    for count in job["sizes"]:
        try:
            await branching(job, count)
        except Exception as fault:
            say(f"branching.{count}.history", failure(fault))


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        print(json.dumps(asyncio.run(write(sys.argv[2], sys.argv[3], float(sys.argv[4])))))
    else:
        asyncio.run(main())
