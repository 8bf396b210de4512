"""Questions about coding work over agents' transcripts; each line of the data names its files and the pieces to find.

A piece is found when a passage holds it, case, punctuation and markup aside. A token is four characters.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from bede.context import Context
from bede.errors import BadSource
from bede.intake.running import recognise
from bede.operations.ingest import ingest
from evaluating.asking import ask, fill, mean, project, texts

BUDGETS = (1000, 2000, 4000)


def evaluate(data: Path, transcripts: Path | None) -> dict[str, dict[str, Any]]:
    """Return recall by category: in the first passages, and within so many tokens of them."""
    root = (transcripts or data.resolve().parent.parent / "transcripts").resolve()
    questions = [json.loads(line) for line in data.read_text("utf-8").splitlines() if line.strip()]
    by_files: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for question in questions:
        named = question["project_files"]
        by_files[("all",) if named == "all" else tuple(named)].append(question)
    judged: dict[str, list[dict[str, float]]] = defaultdict(list)
    empty: list[float] = []
    for files, part in by_files.items():
        with project() as context:
            _fill(context, root, files)
            for question in part:
                probes = [_plain(gold["text_probe"]) for gold in question["gold"]]
                if probes:
                    judged[question["category"]].append(_judge(probes, context, question["question"]))
                else:
                    empty.append(float(not ask(context, question["question"])))
    table = {category: _row(rows) for category, rows in sorted(judged.items())}
    table["all"] = _row([row for rows in judged.values() for row in rows])
    table["unanswerable: nothing"] = dict.fromkeys(table["all"], "") | {"n": len(empty), "R@1": mean(empty)}
    return table


def _fill(context: Context, root: Path, files: tuple[str, ...]) -> None:
    every = (path for path in sorted(root.rglob("*")) if path.is_file() and "synthetic" not in path.parts)
    paths = [path for path in (every if files == ("all",) else (root / name for name in files)) if _is_known(path)]
    if not ingest(context, path=paths).turns.get("new"):
        raise SystemExit(f"nothing to search in {root}: {', '.join(files)}")
    fill(context)


def _is_known(path: Path) -> bool:
    try:
        return bool(recognise(path))
    except BadSource:
        return False


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _judge(probes: list[str], context: Context, question: str) -> dict[str, float]:
    plain = [_plain("\n".join(turn.text for turn in one.turns)) for one in ask(context, question)]
    ranks = [next((rank for rank, text in enumerate(plain, 1) if probe in text), 0) for probe in probes]
    row = {f"R@{k}": mean([float(0 < rank <= k) for rank in ranks]) for k in (1, 5, 10, 15)}
    for budget in BUDGETS:
        shown = [_plain(text) for text in _within(texts(context, question, budget), budget * 4)]
        row[f"R<={budget}"] = mean([float(any(probe in text for text in shown)) for probe in probes])
    return row


def _within(found: list[str], room: int) -> list[str]:
    kept: list[str] = []
    for text in found:
        kept.append(text[: max(room, 0)])
        room -= len(text)
    return kept


def _row(rows: list[dict[str, float]]) -> dict[str, Any]:
    return {"n": len(rows)} | {name: mean([row[name] for row in rows]) for name in rows[0]}
