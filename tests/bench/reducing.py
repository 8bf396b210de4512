"""How much smaller a context is than the history it stands for, on three workloads of coding agents.

The workloads are named after the peer's published ones and rebuilt from their description: 73, 99 and 73 events of
test transcripts, lint lists, notes and decisions. The raw history is every event as the line of text an agent would
have kept.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from bede.projections.state import empty, fold, only, state_at
from bede.records import Draft
from bede.repository import Reading, Repository
from bench.measure import SEED, call, project, repository

Said = tuple[str, str, dict[str, Any]]


def reductions() -> list[dict[str, Any]]:
    """Measure each workload: tokens of the raw history and of the context, and whether the state is the full fold."""
    return [_measure(name, said) for name, said in workloads().items()]


def workloads() -> dict[str, list[Said]]:
    """Return the events of each workload: kind, agent, body."""
    return {name: list(make(random.Random(SEED))) for name, make in _WORKLOADS.items()}


def raw(said: list[Said]) -> str:
    """Return the history as the text an agent would have kept."""
    return "\n".join(
        f"[{number}] {agent} {kind} {json.dumps(body, ensure_ascii=False)}"
        for number, (kind, agent, body) in enumerate(said, start=1)
    )


def _measure(name: str, said: list[Said]) -> dict[str, Any]:
    from bede.engines import tokens

    with project() as folder:
        store = repository(folder)
        for number, (kind, agent, body) in enumerate(said, start=1):
            with store.write("store", agent, number) as writing:
                writing.append("main", [Draft(kind, body, agent, number * 1_000_000)])
        result = call(folder, store, "context")
        received = json.dumps(result.to_json(), ensure_ascii=False)
        equal = _is_equal(store)
        store.close()
    before, after = tokens.count(raw(said)), tokens.count(received)
    return {
        "workload": name,
        "events": len(said),
        "raw_tokens": before,
        "context_tokens": after,
        "reduction": round(1 - after / before, 4),
        "budget": result.budget,
        "within_budget": after <= result.budget,
        "left_out": result.left_out,
        "state_equal": equal,
    }


def _is_equal(store: Repository) -> bool:
    """Tell whether the cached state is the fold over everything, from the first event on."""
    with store.snapshot() as reading:
        place = Reading(store.connection).tip("main")
        full = fold(empty(), only(store.connection, reading.spans(place), {}))
        return full == state_at(store.connection, place.line, place.position)


def _pytest(chance: random.Random, failing: int) -> str:
    lines = ["============ test session starts ============\ncollected 28 items\n"]
    for case in range(28):
        word = "FAILED" if case < failing else "PASSED"
        lines.append(f"tests/test_ledger.py::test_case_{case} {word} [{case * 100 // 28:3d}%]")
    for case in range(failing):
        lines.append(f"______ test_case_{case} ______")
        lines.append(f"    def test_case_{case}(ledger, clock, rates):")
        lines += [f"        assert ledger.total({chance.randint(1, 99)}) == {chance.randint(1, 999)}" for _ in range(8)]
        lines.append(f"E   AssertionError: assert {chance.randint(1, 999)} == {chance.randint(1, 999)}")
    lines.append(f"===== {failing} failed, {28 - failing} passed in {chance.random() * 9:.2f}s =====")
    return "\n".join(lines)


def _lint(chance: random.Random, count: int) -> str:
    rows = (
        f"src/module_{chance.randint(1, 40)}.py:{chance.randint(1, 900)}:{chance.randint(1, 80)}: "
        f"E{chance.randint(100, 999)} {chance.choice(['line too long', 'unused import', 'undefined name'])} "
        f"'symbol_{chance.randint(1, 500)}'"
        for _ in range(count)
    )
    return "\n".join(rows)


def _run(agent: str, task: str, command: list[str], status: int, output: str) -> Said:
    body = {"task_id": task, "command": command, "exit_status": status, "seconds": 3.1, "output": output}
    return "run", agent, body


def _decision(agent: str, key: str, value: str) -> Said:
    body = {"key": key, "value": value, "rationale": f"measured twice, {value} wins", "summary": f"{key} = {value}"}
    return "decision", agent, body


def _single(chance: random.Random) -> Iterator[Said]:
    yield "task", "solo", {"task_id": "fix", "summary": "Make the ledger tests pass", "learnings": ["no new packages"]}
    for round_ in range(18):
        yield _run("solo", "fix", ["pytest", "-q"], int(round_ < 17), _pytest(chance, max(0, 14 - round_)))
        said = f"Round {round_}: the rounding of case {round_} is off by one"
        yield "note", "solo", {"task_id": "fix", "summary": said}
        yield _run("solo", "fix", ["git", "diff", "--stat"], 0, _lint(chance, 6))
        yield _decision("solo", f"rounding.{round_ % 5}", f"half-even after round {round_}")


def _team(chance: random.Random) -> Iterator[Said]:
    for agent in ("ann", "bob", "cyn"):
        yield "task", agent, {"task_id": f"part-{agent}", "summary": f"{agent} refactors the module of {agent}"}
    for round_ in range(24):
        agent = ("ann", "bob", "cyn")[round_ % 3]
        failing = int(round_ % 2 == 1) * 8
        yield _run(agent, f"part-{agent}", ["pytest", f"tests/{agent}"], int(failing > 0), _pytest(chance, failing))
        yield _decision(agent, f"api.{round_ % 8}", f"version {round_}")
        yield "note", agent, {"summary": f"{agent} moved function {round_} out of the old module"}
        moved = {"summary": f"Moved {round_} of 24 functions", "learnings": ["keep the names"]}
        yield "status_update", agent, {"task_id": f"part-{agent}", **moved}


def _linting(chance: random.Random) -> Iterator[Said]:
    yield "task", "solo", {"task_id": "lint", "summary": "Bring the linter's findings to zero"}
    for round_ in range(24):
        yield _run("solo", "lint", ["ruff", "check", f"src/{round_ % 6}"], 1, _lint(chance, chance.randint(24, 60)))
        yield "note", "solo", {"summary": f"Rule E{chance.randint(100, 999)} fires on generated files only"}
        yield "fact", "solo", {"key": f"findings.{round_ % 6}", "value": str(chance.randint(0, 40)), "summary": "count"}


_WORKLOADS = {
    "single-agent-test-fix": _single,
    "multi-agent-refactor": _team,
    "lint-heavy-exploration": _linting,
}
