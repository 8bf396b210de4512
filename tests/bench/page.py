"""`python -m bench.page RESULT.json`: the tables of docs/benchmarks.md, from a run's own output.

`--again FILE` puts parts that were measured again in their place, and marks them; `--coding`, `--locomo` and `--truth`
are what `scripts/eval … --json` printed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

Row = tuple[str, str, str, bool | None, str]


#: What a result says of itself, which is no part.
_ABOUT = ("schema", "machine", "quick", "peers")
#: A part that was measured again, in another run.
_AGAIN = "¹"


def main() -> int:
    """Print the page of a run."""
    parser = argparse.ArgumentParser(prog="python -m bench.page", description=__doc__)
    parser.add_argument("result", type=Path)
    for name in ("again", "coding", "locomo", "truth"):
        parser.add_argument(f"--{name}", type=Path)
    asked = parser.parse_args()
    found, again = _read(asked.result), _read(asked.again)
    now = {**found, **{part: value for part, value in again.items() if part not in _ABOUT}}
    first = set(rows(found, found.get("peers", {})))
    print(_HEAD.format(**found["machine"], before=found["machine"]["load"]))
    _table("peers, same run", rows(now, found.get("peers", {})), lambda row: row not in first)
    if again:
        print(_ON_AGAIN)
    if asked.coding or asked.locomo or asked.truth:
        print(_ON_TRUTH)
        evaluated = rows_of_truth(_read(asked.truth), _read(asked.coding), _read(asked.locomo))
        _table("for comparison", evaluated, lambda row: False)
    print(_FOOT)
    return 0


def _read(path: Path | None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path else {}
    return found


def _table(last: str, found: Iterable[Row], is_again: Callable[[Row], bool]) -> None:
    print(f"| what | aim | measured | holds | {last} |\n|---|---|---|---|---|")
    for row in found:
        what, aim, value, holds, other = row
        word = "–" if holds is None else "yes" if holds else "**no**"
        print(f"| {what}{_AGAIN if is_again(row) else ''} | {aim} | {value} | {word} | {other or '–'} |")


def rows_of_truth(truth: dict[str, Any], coding: dict[str, Any], locomo: dict[str, Any]) -> Iterator[Row]:
    """Yield what is read of transcripts whose truth is known, and what is found of what was asked."""
    for item in [truth["all"]] if truth else []:
        said = f"{item['passed']} checks passed, {item['failed']} failed, {item['skipped']} could not run"
        what = f"counts, texts, calls, edits, ids, times of {item['files']} published and {item['runs']} real sessions"
        what, fine = f"{what} and {item['traps']} hand-made traps", not item["failed"]
        yield what, "all equal", said, fine, "raw-rag misreads 4 of 5 agents"
    if locomo:
        item, theirs = locomo["all"], "BM25 windows {} %, raw-rag {} %"
        yield _share("LoCoMo, gold turns in the first 10 passages", item["R@10 passages"], 92, theirs.format(89.6, 48))
        yield _share("LoCoMo, within 1,000 tokens", item["R<=1000"], 86, theirs.format(81.8, 47))
    if coding:
        item = coding["all"]
        yield _share("coding, gold turns in the first 5", item["R@5"], 86, "BM25 windows 76 %")
        yield _share("coding, in the first 15", item["R@15"], 93, "BM25 windows 80 %")
        yield _share("coding, within 2,000 tokens", item["R<=2000"], 86, "BM25 windows 76 %")
        yield _share("coding, not in English, in the first 5", coding["non-english"]["R@5"], 85, "BM25 windows 43 %")
        nothing = coding["unanswerable: nothing"]["R@1"]
        yield _share("coding, unanswerable: answered with nothing", nothing, 60, "BM25 windows 12 %")


def _share(what: str, share: float, aim: int, other: str) -> Row:
    return what, f"≥ {aim} %", f"{share:.1%}".replace("%", " %"), share >= aim / 100, other


def rows(found: dict[str, Any], peers: dict[str, Any]) -> Iterator[Row]:
    """Yield what was promised, what was measured, and whether it holds."""
    kernel, graph = peers.get("memkernel-mcp", {}), peers.get("remagraph", {})
    yield from _writing(found, kernel, graph)
    yield from _branching(found, kernel)
    yield from _searching(found, graph)
    yield from _ingesting(found)
    yield from _finding(found)
    yield from _leasing(found)
    yield from _faces(found, kernel, graph)
    yield from _reducing(found, kernel)


def _ms(value: Any, key: str = "p50_ms") -> str:
    return f"{value[key]:.2f} ms" if isinstance(value, dict) and key in value else "not run"


def _writing(found: dict[str, Any], kernel: dict[str, Any], graph: dict[str, Any]) -> Iterator[Row]:
    item = found["append"]
    least, most = item["ratios"][0], item["ratios"][-1]
    said = f"{item['ratio_p50']:.2f} ({_ms(item['append'])} against {_ms(item['bare'])}; mean {item['ratio_mean']:.2f};"
    said += f" the middle of {len(item['ratios'])} rounds, {least:.2f} to {most:.2f})"
    peer = kernel.get("append", {}).get("full_without_compaction", {}).get("ratio_p50", "not run")
    fine = item["ratio_p50"] <= 2
    yield "append with projections, FULL, p50 of a bare commit", "≤ 2", said, fine, f"MemKernel {peer}"
    item = found["writers"]
    said = f"{item['events_per_s']}/s, lost {item['lost']}, failed {item['failed']}, least/most {item['least_of_most']}"
    fine = item["events_per_s"] >= 3000 and not item["lost"] and not item["failed"] and item["least_of_most"] >= 0.4
    theirs = kernel.get("writers", {}).get("full_without_compaction", {})
    peer = f"MemKernel {theirs.get('events_per_s')}/s, least/most {theirs.get('least_of_most')}"
    yield "8 processes appending", "≥ 3,000/s, 0 lost, 0 failed, ≥ 0.4", said, fine, peer
    item = found["verify"]
    theirs = next((each for each in kernel.get("branching", []) if each["events"] == item["events"]), {})
    fine, peer = item["p50_ms"] <= 500, _peer(theirs, "verify")
    yield f"verify {item['events']:,} events, p50", "≤ 500 ms", _ms(item), fine, peer
    peer = f"RemaGraph {graph.get('bytes_per_memory')} B, MemKernel {kernel.get('bytes_per_memory')} B a note"
    for item in found["disk"]:
        fine = item["mb_per_1k"] <= 1.2
        yield f"disk, {item['memories']:,} memories of 300 B", "≤ 1.2 MB per 1k", f"{item['mb_per_1k']} MB", fine, peer


def _leasing(found: dict[str, Any]) -> Iterator[Row]:
    item = found["leases"]
    names = {
        "acquire": ("lease acquire in process", 3),
        "release": ("lease release in process", 3),
        "verb_acquire": ("the verb lease acquire, finding the project included", None),
        "verb_release": ("the verb lease release, finding the project included", None),
        "door": ("the hook's claim, opening the file included", None),
    }
    for name, (what, aim) in names.items():
        ratio = item[f"{name}_ratio"]
        said = f"{ratio:.2f} ({_ms(item[name])} against {_ms(item['bare'])})"
        yield f"{what}, p50 of a bare FULL commit", f"≤ {aim}" if aim else "–", said, ratio <= aim if aim else None, ""


def _branching(found: dict[str, Any], kernel: dict[str, Any]) -> Iterator[Row]:
    theirs = {item["events"]: item for item in kernel.get("branching", [])}
    first = found["branching"][0]
    for item in found["branching"]:
        count, peer = item["events"], theirs.get(item["events"], {})
        for name in ("fork_head", "fork_anywhere", "rollback_5", "rollback_all", "diff"):
            ratio = item[name]["p50_ms"] / first[name]["p50_ms"]
            fine = item[name]["p50_ms"] <= 5 and ratio <= 2
            said = f"{_ms(item[name])} ({ratio:.2f}× 1k)"
            yield f"{name.replace('_', ' ')}, {count:,} events, p50", "≤ 5 ms, flat", said, fine, _peer(peer, name)
        for name in ("context", "context_after_fork", "context_after_rollback"):
            fine = item[name]["p50_ms"] <= 10
            said = f"{_ms(item[name])} (p95 {_ms(item[name], 'p95_ms')})"
            yield f"{name.replace('_', ' ')}, {count:,} events, p50", "≤ 10 ms", said, fine, _peer(peer, name)


def _peer(peer: dict[str, Any], name: str) -> str:
    value = peer.get(name)
    return f"MemKernel {_ms(value) if isinstance(value, dict) else str(value).split(':')[0]}" if value else ""


def _searching(found: dict[str, Any], graph: dict[str, Any]) -> Iterator[Row]:
    aims = {100_000: {"rare": 5, "commonest": 60}, 1_000_000: {"rare": 20, "commonest": 150}}
    theirs = {item["memories"]: item for item in graph.get("searching", [])}
    for item in found["searching"]:
        count = item["memories"]
        for name in ("rare", "commonest", "one_rare", "one_common", "nothing"):
            aim = aims.get(count, {}).get(name)
            said = f"{_ms(item[name], 'p95_ms')} (p50 {_ms(item[name])})"
            peer = theirs.get(count, {}).get(name)
            told = f"RemaGraph {_ms(peer, 'p95_ms')}" if isinstance(peer, dict) else ""
            fine = None if aim is None else item[name]["p95_ms"] <= aim
            yield f"search {name}, {count:,}, p95", f"≤ {aim} ms" if aim else "–", said, fine, told


def _finding(found: dict[str, Any]) -> Iterator[Row]:
    item = found["finding"]
    for name in ("rare", "mixed", "commonest", "nothing"):
        said = f"{_ms(item[name], 'p95_ms')} (p50 {_ms(item[name])})"
        what = f"search in sessions, {name}, {item['windows']:,} windows, p95"
        yield what, "≤ 60 ms", said, item[name]["p95_ms"] <= 60, ""
    yield "the same, peak memory", "≤ 300 MB", f"{item['peak_mb']} MB", item["peak_mb"] <= 300, ""
    vectors = item.get("vectors")
    if isinstance(vectors, dict):
        for name in ("rare", "mixed", "commonest", "nothing"):
            said = f"{_ms(vectors[name], 'p95_ms')} (p50 {_ms(vectors[name])})"
            yield f"the same with static vectors, {name}, p95", "≤ 120 ms", said, vectors[name]["p95_ms"] <= 120, ""
        yield "the same, peak memory", "≤ 300 MB", f"{vectors['peak_mb']} MB", vectors["peak_mb"] <= 300, ""


def _ingesting(found: dict[str, Any]) -> Iterator[Row]:
    item = found["ingest"]
    what, plain = f"ingest a Claude Code session of {item['megabytes']:.0f} MB", item["plain_mb_per_cpu_s"]
    said = f"{item['mb_per_cpu_s']} MB/s (parsing its JSON alone: {plain} MB/s)"
    yield f"{what}, of a CPU second", "≥ 15 MB/s", said, item["mb_per_cpu_s"] >= 15, ""
    yield f"{what}, peak memory", "≤ 200 MB", f"{item['peak_mb']} MB", item["peak_mb"] <= 200, ""
    said = f"{item['disk_of_kept']}× ({item['disk_of_text']}× the turns' text alone)"
    yield f"{what}, disk of the text that is kept", "≤ 1.6×", said, item["disk_of_kept"] <= 1.6, ""
    least = found["ingest_append"][0]["append"]["p50_ms"]
    for item in found["ingest_append"]:
        value, flat = item["append"]["p50_ms"], item["append"]["p50_ms"] / least
        said = f"{value:.0f} ms ({flat:.2f}× the smallest, {item['of_typer']}× minimal Typer)"
        what = f"`bede ingest` of one turn more, {item['megabytes']} MB session, whole process"
        yield what, "≤ 150 ms, flat", said, value <= 150 and flat <= 1.3, ""


def _faces(found: dict[str, Any], kernel: dict[str, Any], graph: dict[str, Any]) -> Iterator[Row]:
    for name in ("status", "search", "store"):
        value = found["commands"][name]["of_typer"]
        peer = ", ".join(
            f"{who} {data['commands'][name]['of_typer']}×"
            for who, data in (("RemaGraph", graph), ("MemKernel", kernel))
            if name in data.get("commands", {})
        )
        yield f"`bede {name}`, whole process", "≤ 1.3× minimal Typer", f"{value}×", value <= 1.3, peer
    for name, said in (("claim", "before an edit"), ("refuse", "before one it refuses"), ("renew", "after an edit")):
        item = found["hook"][name]
        times = f"{item['of_bare_p95']}× at p95, {item['of_bare_p50']}× at p50 ({_ms(item)})"
        yield f"hook {said}, whole process", "p95 ≤ 2.5× bare Python", times, item["of_bare_p95"] <= 2.5, ""
    value = found["server"]["ratio"]
    peer = f"MemKernel {kernel.get('server', {}).get('ratio')}×, RemaGraph {graph.get('server', {}).get('ratio')}×"
    yield "MCP spawn to `initialize` answered", "≤ 1.1× smallest server", f"{value}×", value <= 1.1, peer
    value, whole = found["tools"]["tokens"], found["tools"]["tokens_with_output_schemas"]
    peer = f"MemKernel {kernel.get('tools', {}).get('tokens')}, RemaGraph {graph.get('tools', {}).get('tokens')}"
    what = "tokens of names, descriptions and input schemas in the default `tools/list`"
    yield what, "≤ 1,800", f"{value} (with output schemas {whole:,})", value <= 1800, peer


def _reducing(found: dict[str, Any], kernel: dict[str, Any]) -> Iterator[Row]:
    theirs = {item["workload"]: item for item in kernel.get("reductions", []) if isinstance(item, dict)}
    for item in found["reductions"]:
        fine = item["reduction"] >= 0.93 and item["within_budget"] and item["state_equal"]
        said = f"{item['reduction']:.1%} ({item['raw_tokens']:,} → {item['context_tokens']:,}), state equal"
        peer = theirs.get(item["workload"], {}).get("reduction")
        yield f"context, {item['workload']}", "≥ 93 %", said, fine, f"MemKernel {peer:.1%}" if peer else ""


_HEAD = """# Benchmarks

One run of `scripts/bench --peers`, written down by `python -m bench.page`. Machine: {system} {machine}, {processors}
processors, Python {python}, SQLite {sqlite}, load at the start {before}. The processors were shared with other work:
read ratios, not times. What each figure means, and what cannot be compared, stands in
[the method](records/benchmarks.md).
"""
_ON_AGAIN = """
¹ Measured again in a run of its own, because the machine was slower than usual while this part of the first one ran;
the peers' figures beside it are those of the first."""
_ON_TRUTH = """
## What is read, and what is found of it

`scripts/eval truth`, `scripts/eval locomo` and `scripts/eval coding`, over sessions and questions that are no part of
this project; [how the questions are judged](records/finding.md).
"""
_FOOT = """
A **no** is a miss. Times of the peers are of the same run and the same data where the packages allow it; "not run"
says where they do not (the method tells why).
"""

if __name__ == "__main__":
    raise SystemExit(main())
