"""The published packages of the field on the same work: `scripts/bench --peers`.

Each package has an environment of its own in the user's cache folder, made once, with what an install takes today: the
two want different major versions of the MCP SDK. `peers_memkernel.py` and `peers_remagraph.py` run there, on data that
is made here from the same seed; whole processes and servers are timed from here. A figure that cannot be had is the
string that says why. Nothing is raised, and nothing of the user's is touched: HOME is a scratch folder.
docs/records/benchmarks.md tells what may be compared with what.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import reducing
from bench.faces import READY, SMALLEST, TYPER, greet, listed
from bench.looking import vocabulary
from bench.measure import SEED, Words, interleaved, memory, mixed, percentiles

MEMKERNEL = "memkernel-mcp==0.3.0"
REMAGRAPH = "remagraph==0.7.1"
#: Where tiktoken looks for its ranks, named by the hash of where it would fetch them from.
_RANKS = hashlib.sha1(b"https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken").hexdigest()


def run(quick: bool) -> dict[str, Any]:
    """Run both peers, and return their figures by package; `unavailable` says why a package could not be had."""
    parts = {MEMKERNEL: _memkernel, REMAGRAPH: _remagraph}
    return {package.partition("==")[0]: _run(package, act, quick) for package, act in parts.items()}


def _run(package: str, act: Callable[[Path, Path, bool], dict[str, Any]], quick: bool) -> dict[str, Any]:
    began = time.monotonic()
    print(f"measuring {package} …", file=sys.stderr, flush=True)
    try:
        binaries = _environment(package)
        with _scratch() as folder:
            found = act(binaries, folder, quick)
    except Exception as fault:
        found = {"unavailable": _failure(fault)}
    print(f"  {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
    return found


def _failure(fault: BaseException) -> str:
    """Put a failure into one line that names no address."""
    words = re.sub(r"\w+://\S+", "…", str(fault))
    return f"failed: {type(fault).__name__}: {words[-300:].strip()}"


@contextmanager
def _scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="bede-bench-")).resolve()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _cache() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("bede-bench")


def _environment(package: str) -> Path:
    """Return the folder of commands of an environment that holds the package; made where there is none."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = _cache() / f"{package}-python{version}"
    binaries = folder / ("Scripts" if os.name == "nt" else "bin")
    stamp = folder / ".complete"
    if not stamp.exists():
        _checked([sys.executable, "-m", "venv", "--clear", str(folder)])
        quiet = ["-qq", "--no-input", "--disable-pip-version-check"]
        _checked([str(binaries / "python"), "-m", "pip", "install", *quiet, package])
        stamp.touch()
    return binaries


def _checked(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or [done.stderr]
        raise RuntimeError(lines[-1])


def _surroundings(folder: Path, **more: str) -> dict[str, str]:
    home = folder / "home"
    home.mkdir(exist_ok=True)
    return {"HOME": str(home), "USER": "bench", "PATH": "/usr/bin:/bin", **more}


def _play(script: str, binaries: Path, folder: Path, job: dict[str, Any], limit: float, env: dict[str, str]) -> Any:
    """Run a peer's script in its environment, and return the figures it printed until it ended or time was up."""
    (folder / "job.json").write_text(json.dumps(job))
    command = [str(binaries / "python"), "-P", str(Path(__file__).with_name(script))]
    found: dict[str, Any] = {}
    with (folder / "said").open("w+") as said, (folder / "complained").open("w+") as complained:
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": said, "stderr": complained}
        process = subprocess.Popen(command, cwd=folder, env=env, start_new_session=True, **pipes)
        try:
            if process.wait(limit):
                complained.seek(0)
                found["ended"] = _failure(RuntimeError(complained.read()))
        except subprocess.TimeoutExpired:
            found["ended"] = f"stopped after {limit:g} s: what is missing was not reached"
        finally:
            _stop(process)
        said.seek(0)
        found.update(json.loads(line) for line in said if line.endswith("]\n"))
    return found


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a script and the writers it may have left."""
    with_group = getattr(os, "killpg", None)
    try:
        with_group(process.pid, signal.SIGKILL) if with_group else process.kill()
    except ProcessLookupError:
        pass
    process.wait()


def _figures(value: Any) -> Any:
    """Turn lists of seconds into percentiles, wherever they are."""
    if isinstance(value, list) and value and all(isinstance(item, float) for item in value):
        return percentiles(value)
    if isinstance(value, dict):
        times = value.get("times")
        rest = {name: _figures(item) for name, item in value.items() if name != "times"}
        return {**percentiles(times), **rest} if times else rest
    return value


def _grouped(found: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Take `name.count.what` out of the figures, and return a row for each count."""
    rows: dict[int, dict[str, Any]] = {}
    for key in [key for key in found if key.startswith(f"{name}.")]:
        _, count, what = key.split(".", 2)
        rows.setdefault(int(count), {})[what] = _figures(found.pop(key))
    return [{"events" if name == "branching" else "memories": count, **row} for count, row in rows.items()]


# ---------------------------------------------------------------------------------------------------- memkernel-mcp


def _memkernel(binaries: Path, folder: Path, quick: bool) -> dict[str, Any]:
    words, sizes = Words(), [1_000, 10_000] if quick else [1_000, 50_000]
    drafts = [mixed(words, number) for number in range(sizes[-1])]
    texts = [memory(words, number).body for number in range(1_000)]
    job = {
        "events": [(draft.kind, draft.body) for draft in drafts],
        "memories": ["\n".join([body["summary"], *body["learnings"]]) for body in texts],
        "workloads": reducing.workloads(),
        "sizes": sizes,
        "appends": 200 if quick else 1_000,
        "rounds": 3 if quick else 5,
        "rollbacks": 1 if quick else 3,
        "writers": 8,
        "seconds": 2 if quick else 5,
    }
    env = _surroundings(folder, TIKTOKEN_CACHE_DIR=str(_ranks()))
    found = _play("peers_memkernel.py", binaries, folder, job, 200 if quick else 330, env)
    said: dict[str, Any] = {"versions": found.pop("versions", None), "branching": _grouped(found, "branching")}
    said["reductions"] = [
        {"workload": name, **_tried(lambda name=name, part=part: _reduced(binaries, folder, env, name, part))}
        for name in job["workloads"]
        for part in [found.pop(f"reduction.{name}", "not reached")]
    ]
    said.update({name: _figures(value) for name, value in found.items()})
    said["1M"] = "not run: filling, forking and comparing a history take time in proportion to its length"
    commands = {name: [str(binaries / "memkernel"), *rest] for name, rest in _STATUS.items()}
    said["commands"] = _tried(lambda: _commands(commands, folder, env, 3 if quick else 11))
    server = [str(binaries / "memkernel"), "serve"]
    said["server"] = _tried(lambda: _server(server, folder, env, 3 if quick else 9))
    said["tools"] = _tried(lambda: listed(server, folder, env))
    return said


_STATUS = {"version": ["--version"], "status": ["status"]}


def _ranks() -> Path:
    """Lay down tiktoken's own file of ranks, made from this project's copy, so that no run fetches it."""
    from bede.engines import tokens

    folder = _cache() / "tiktoken"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / _RANKS).exists():
        ranks = tokens._ranks(100_256).items()
        lines = (base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks)
        (folder / _RANKS).write_bytes(b"".join(lines))
    return folder


def _reduced(binaries: Path, folder: Path, env: dict[str, str], name: str, part: Any) -> dict[str, Any]:
    """Weigh a workload's history, its context, and what an agent receives when it asks the server."""
    from bede.engines import tokens

    if not isinstance(part, dict):
        raise RuntimeError(part)
    # The project whose status is asked for below has something in it.
    (folder / ".memkernel").mkdir(exist_ok=True)
    shutil.copy(part["database"], folder / ".memkernel" / "memkernel.db")
    ask = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "memkernel_query_state", "arguments": {}}}
    answer = greet([str(binaries / "memkernel"), "serve"], folder, (READY, ask), env)[-1]["result"]
    text = "".join(item["text"] for item in answer["content"])
    before = tokens.count(reducing.raw(reducing.workloads()[name]))
    own, context, received = (tokens.count(words) for words in (part["own_raw"], part["context"], text))
    return {
        "raw_tokens": before,
        "own_raw_tokens": own,
        "context_tokens": context,
        "received_tokens": received,
        "received_with_structured": tokens.count(json.dumps(answer, ensure_ascii=False)),
        "own_reduction": round(1 - context / own, 4),
        "reduction": round(1 - context / before, 4),
        "reduction_received": round(1 - received / before, 4),
        "within_budget": received <= 4_000,
        **{key: part[key] for key in ("own_count", "tokenizer", "compactions", "state_equal")},
    }


# -------------------------------------------------------------------------------------------------------- remagraph


def _remagraph(binaries: Path, folder: Path, quick: bool) -> dict[str, Any]:
    words, sizes = Words(), [10_000] if quick else [10_000, 100_000]
    bodies = [memory(words, number).body for number in range(sizes[-1])]
    kept = [{"summary": body["summary"], "learnings": body["learnings"]} for body in bodies]
    filler = (f"{first}{second}" for first, second in itertools.product(words.words, words.words[:2]))
    job = {
        "memories": kept,
        "words": [*words.words, *itertools.islice(filler, 40_000)],
        "queries": {size: _queries(kept[:size], 20 if quick else 30) for size in sizes},
        "sizes": sizes,
        "stores": 300 if quick else 1_000,
    }
    state = folder / "state"
    state.mkdir()
    offline = _surroundings(folder, HF_HUB_OFFLINE="1")
    env = {**offline, "REMAGRAPH_STATE_DIR": str(state), "REMAGRAPH_PROJECT": "bench"}
    found = _play("peers_remagraph.py", binaries, folder, job, 200 if quick else 330, env)
    said = {"versions": found.pop("versions", None), "searching": _grouped(found, "searching")}
    said.update({name: _figures(value) for name, value in found.items()})
    command = [str(binaries / "remagraph")]
    _tried(lambda: _checked_in(folder, offline, [*command, "init", "--project", "bench"]))
    env["REMAGRAPH_STATE_DIR"] = str(folder / "home" / ".local" / "state" / "remagraph-bench")
    said["commands"] = _tried(lambda: _commands(_verbs(command, kept), folder, env, 3 if quick else 11))
    server = [*command, "serve", "--project", "bench"]
    said["server"] = _tried(lambda: _server(server, folder, env, 3 if quick else 9))
    said["tools"] = _tried(lambda: listed(server, folder, env))
    return said


def _queries(bodies: list[dict[str, Any]], rounds: int) -> dict[str, list[str]]:
    """Return queries as this side asks them; words of fewer than three letters find nothing there, so none is asked."""
    import random

    chance = random.Random(SEED)
    rare, common = vocabulary(bodies[:: max(1, len(bodies) // 5000)], shortest=3)
    return {
        "one_rare": [chance.choice(rare) for _ in range(rounds)],
        "one_common": [chance.choice(common) for _ in range(rounds)],
        "three_rare": [" ".join(chance.sample(rare, 3)) for _ in range(rounds)],
        "commonest": [" ".join(chance.sample(common, 3)) for _ in range(rounds)],
        "nothing": [f"qqx{number}zzw" for number in range(rounds)],
    }


def _verbs(command: list[str], kept: list[dict[str, Any]]) -> dict[str, Callable[[int], list[str]]]:
    store = [*command, "store", "--task-id", "bench-1", "--agent-id", "bench", "--kind", "status_update"]

    def stored(number: int) -> list[str]:
        # Another text each time: one that is like an earlier one is refused.
        body = kept[number]
        return [*store, "--summary", body["summary"], "--learnings", json.dumps(body["learnings"])]

    words = kept[0]["summary"].split()
    return {
        "store": stored,
        "version": lambda _number: [*command, "--version"],
        "status": lambda _number: [*command, "status"],
        "search": lambda _number: [*command, "search", "--query", max(words, key=len)],
    }


# --------------------------------------------------------------------------------------------- processes and servers


def _tried(act: Callable[[], Any]) -> Any:
    try:
        return act()
    except Exception as fault:
        return {"failed": _failure(fault)}


def _checked_in(folder: Path, env: dict[str, str], command: Sequence[str]) -> None:
    subprocess.run(command, cwd=folder, env=env, capture_output=True, check=True, timeout=120)


def _commands(commands: dict[str, Any], folder: Path, env: dict[str, str], rounds: int) -> dict[str, Any]:
    """Time whole processes in turn with a bare interpreter and a minimal Typer command, and count those that failed."""
    (folder / "minimal.py").write_text(TYPER)
    known = {"python": [sys.executable, "-c", "pass"], "typer": [sys.executable, "minimal.py"], **commands}
    failed = dict.fromkeys(known, 0)

    def act(name: str) -> Callable[[int], None]:
        def once(number: int) -> None:
            command = known[name](number) if callable(known[name]) else known[name]
            done = subprocess.run(command, cwd=folder, env=env, capture_output=True, timeout=120, check=False)
            failed[name] += done.returncode != 0 or b'"status": "rejected"' in done.stdout

        return once

    acts = {name: act(name) for name in known}
    interleaved(acts, 1)
    # The numbers go on from those of the round that is not counted: no text is stored twice.
    times = interleaved({name: lambda number, once=once: once(number + 1) for name, once in acts.items()}, rounds)
    found: dict[str, Any] = {name: percentiles(values) for name, values in times.items()}
    typer = found["typer"]["p50_ms"]
    return {
        name: {**values, "of_typer": round(values["p50_ms"] / typer, 3), "failed": failed[name]}
        for name, values in found.items()
    }


def _server(command: list[str], folder: Path, env: dict[str, str], rounds: int) -> dict[str, Any]:
    """Time spawn to the answer of `initialize`, in turn with the smallest server of the SDK that this project has."""
    (folder / "smallest.py").write_text(SMALLEST)
    commands = {"peer": command, "smallest": [sys.executable, "smallest.py"]}
    acts = {name: (lambda _number, command=command: greet(command, folder, (), env)) for name, command in commands.items()}
    interleaved(acts, 1)
    found: dict[str, Any] = {name: percentiles(times) for name, times in interleaved(acts, rounds).items()}
    found["ratio"] = round(found["peer"]["p50_ms"] / found["smallest"]["p50_ms"], 3)
    return found
