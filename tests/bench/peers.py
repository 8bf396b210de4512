"""The published packages of the field on the same work: `scripts/bench --peers`.

Each has an environment of its own, with what an install takes today: the two want different major versions of
the MCP SDK. `peers_memkernel.py` and `peers_remagraph.py` run there, on data made here from the same seed; whole
processes and servers are timed from here. Nothing is raised: a figure that cannot be had is a string that says why.
docs/records/benchmarks.md tells what may be compared with what.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import random
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import reducing
from bench.abroad import Command, cache, commands, environment, failure, play, scratch, surroundings, tried
from bench.faces import READY, answering, greet, listed
from bench.looking import vocabulary
from bench.measure import SEED, Words, memory, mixed

#: Where tiktoken keeps its ranks: a file named by the hash of where it would fetch them from.
_RANKS = hashlib.sha1(b"https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken").hexdigest()
#: Seconds that one peer's script may take, quick and full.
_LIMITS = (300, 200)


def run(quick: bool) -> dict[str, Any]:
    """Run both peers, and return their figures by package; `unavailable` says why a package could not be had."""
    parts = {"memkernel-mcp==0.3.0": _memkernel, "remagraph==0.7.1": _remagraph}
    return {package.partition("==")[0]: _run(package, act, quick) for package, act in parts.items()}


def _run(package: str, act: Callable[[Path, Path, bool], dict[str, Any]], quick: bool) -> dict[str, Any]:
    began = time.monotonic()
    print(f"measuring {package} …", file=sys.stderr, flush=True)
    try:
        binaries = environment(package)
        with scratch() as folder:
            found = act(binaries, folder, quick)
    except Exception as fault:
        found = {"unavailable": failure(fault)}
    print(f"  {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
    return found


def _rows(found: dict[str, Any], name: str, unit: str) -> list[dict[str, Any]]:
    """Turn figures by size into rows, as this project's own parts give them."""
    return [{unit: int(size), **row} for size, row in found.get(name, {}).items()]


# ----------------------------------------------------------------------------------------------- memkernel-mcp


def _memkernel(binaries: Path, folder: Path, quick: bool) -> dict[str, Any]:
    env = surroundings(folder, TIKTOKEN_CACHE_DIR=str(_ranks()))
    command = [str(binaries / "memkernel")]
    found: dict[str, Any] = play("peers_memkernel.py", binaries, folder, _events(quick), _LIMITS[quick], env)
    found["branching"] = _rows(found, "branching", "events")
    found["branching_at_1M"] = "not run: filling, forking and comparing take time in proportion to the history"
    played = found.pop("reduction", {})
    found["reductions"] = [
        {"workload": name, **_reduced([*command, "serve"], folder, env, name, played.get(name, "not reached"))}
        for name in reducing.workloads()
    ]
    rounds = (7, 3)[quick]
    verbs: dict[str, Command] = {"version": [*command, "--version"], "status": [*command, "status"]}
    found["commands"] = tried(lambda: commands(verbs, folder, env, rounds))
    found["server"] = tried(lambda: answering("peer", [*command, "serve"], folder, rounds, env))
    found["tools"] = tried(lambda: listed([*command, "serve"], folder, env))
    return found


def _events(quick: bool) -> dict[str, Any]:
    """Return what its script is to do: on the events of `looking.branching`, and the texts of `writing.append`."""
    words, sizes = Words(), (1_000, 10_000) if quick else (1_000, 50_000)
    drafts = [mixed(words, number) for number in range(sizes[-1])]
    words = Words()
    texts = [memory(words, number).body for number in range(1_000)]
    return {
        "events": [(draft.kind, draft.body) for draft in drafts],
        "memories": ["\n".join([body["summary"], *body["learnings"]]) for body in texts],
        "workloads": reducing.workloads(),
        "sizes": sizes,
        "appends": 200 if quick else 1_000,
        "rounds": 3 if quick else 5,
        "rollbacks": 1 if quick else 2,
        "writers": 8,
        "seconds": 2 if quick else 5,
    }


def _ranks() -> Path:
    """Lay down tiktoken's own file of ranks, made from this project's copy, so that no run fetches it."""
    from bede.engines import tokens

    folder = cache() / "tiktoken"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / _RANKS).exists():
        lines = (base64.b64encode(token) + b" %d\n" % rank for token, rank in tokens._ranks(100_256).items())
        (folder / _RANKS).write_bytes(b"".join(lines))
    return folder


def _reduced(serve: list[str], folder: Path, env: dict[str, str], name: str, part: Any) -> dict[str, Any]:
    """Weigh a workload's history, its context, and what an agent receives when it asks the server."""
    from bede.engines import tokens

    if not isinstance(part, dict):
        return {"failed": part}
    before = tokens.count(reducing.raw(reducing.workloads()[name]))
    own, context = tokens.count(part.pop("own_raw")), tokens.count(part.pop("context"))
    found = {
        "raw_tokens": before,
        "context_tokens": context,
        "reduction": round(1 - context / before, 4),
        "own_raw_tokens": own,
        "own_reduction": round(1 - context / own, 4),
    }
    received = tried(lambda: _received(serve, folder, {**env, "MEMKERNEL_DB": part["database"]}))
    if isinstance(received, dict):
        received["reduction_received"] = round(1 - received["received_tokens"] / before, 4)
        found.update(received)
    else:
        found["received"] = received
    # `memkernel status`, timed later, is to have something to tell.
    (folder / ".memkernel").mkdir(exist_ok=True)
    shutil.copy(part.pop("database"), folder / ".memkernel" / "memkernel.db")
    return {**found, **part}


def _received(serve: list[str], folder: Path, env: dict[str, str]) -> dict[str, Any]:
    """Ask the server for the state as an agent does, and count what comes."""
    from bede.engines import tokens

    params = {"name": "memkernel_query_state", "arguments": {}}
    ask = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
    answer = greet(serve, folder, (READY, ask), env)[-1]["result"]
    text = "".join(item["text"] for item in answer["content"])
    if answer.get("isError"):
        raise RuntimeError(text)
    count = tokens.count(text)
    whole = tokens.count(json.dumps(answer, ensure_ascii=False))
    return {"received_tokens": count, "received_with_structured": whole, "within_budget": count <= 4_000}


# --------------------------------------------------------------------------------------------------- remagraph


def _remagraph(binaries: Path, folder: Path, quick: bool) -> dict[str, Any]:
    job = _memories(quick)
    state = folder / "state"
    state.mkdir()
    # Its model would be looked for on the network by each process, even when it is there.
    env = surroundings(folder, HF_HUB_OFFLINE="1", REMAGRAPH_STATE_DIR=str(state), REMAGRAPH_PROJECT="bench")
    found: dict[str, Any] = play("peers_remagraph.py", binaries, folder, job, _LIMITS[quick], env)
    found["searching"] = _rows(found, "searching", "memories")
    # What it is to be asked for as a process is what this project is asked for: a project with a memory or a few.
    command = [str(binaries / "remagraph")]
    env["REMAGRAPH_STATE_DIR"] = str(folder / "few")
    (folder / "few").mkdir()
    rounds = (7, 3)[quick]
    found["commands"] = tried(lambda: commands(_verbs(command, job["memories"]), folder, env, rounds))
    serve = [*command, "serve", "--project", "bench"]
    found["server"] = tried(lambda: answering("peer", serve, folder, rounds, env))
    found["tools"] = tried(lambda: listed(serve, folder, env))
    return found


def _memories(quick: bool) -> dict[str, Any]:
    """Return what its script is to do: the same memories as `looking.searching`."""
    words, sizes = Words(), (10_000,) if quick else (10_000, 100_000)
    bodies = [memory(words, number).body for number in range(sizes[-1])]
    kept = [{"summary": body["summary"], "learnings": body["learnings"]} for body in bodies]
    filler = (f"{first}{second}" for first, second in itertools.product(words.words, words.words[:2]))
    return {
        "memories": kept,
        # As many words as make a stand-in of 61 MB; the real model has eight times as many.
        "words": [*words.words, *itertools.islice(filler, 40_000)],
        "queries": {size: _queries(kept[:size], 20 if quick else 30) for size in sizes},
        "sizes": sizes,
        "stores": 200 if quick else 1_000,
    }


def _queries(bodies: list[dict[str, Any]], rounds: int) -> dict[str, list[str]]:
    """Return queries as this project is asked; it finds no word of fewer than three letters, so none is asked."""
    chance = random.Random(SEED)
    rare, common = vocabulary(bodies[:: max(1, len(bodies) // 5000)], shortest=3)
    return {
        "one_rare": [chance.choice(rare) for _ in range(rounds)],
        "one_common": [chance.choice(common) for _ in range(rounds)],
        "rare": [" ".join(chance.sample(rare, 3)) for _ in range(rounds)],
        "commonest": [" ".join(chance.sample(common, 3)) for _ in range(rounds)],
        "nothing": [f"qqx{number}zzw" for number in range(rounds)],
    }


def _verbs(command: list[str], bodies: list[dict[str, Any]]) -> dict[str, Command]:
    store = [*command, "store", "--task-id", "bench-1", "--agent-id", "bench", "--kind", "status_update"]
    word = max(bodies[0]["summary"].split(), key=len)

    def stored(number: int) -> list[str]:
        # Another text each time: one that is like an earlier one is refused.
        body = bodies[number]
        return [*store, "--summary", body["summary"], "--learnings", json.dumps(body["learnings"])]

    return {
        "version": [*command, "--version"],
        "store": stored,
        "status": [*command, "status"],
        "search": [*command, "search", "--query", word],
    }
