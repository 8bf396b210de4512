"""Dialogues between two people (LoCoMo): which turns of the evidence are found. No model is asked.

Each message is a turn, dated as its session, with its speaker's name in front. Tokens are those of `cl100k_base`.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bede.context import Context
from bede.engines import tokens
from bede.intake.reading import Told
from bede.intake.writing import Writer
from bede.repository.cursors import Cursor
from evaluating.asking import ask, fill, mean, project, texts

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
BUDGETS = (500, 1000, 2000)


def evaluate(data: Path, _transcripts: Path | None) -> dict[str, dict[str, Any]]:
    """Return recall of the evidence by category: in ten passages, and within so many tokens of turns."""
    judged: dict[str, list[dict[str, float]]] = defaultdict(list)
    for sample in json.loads(data.read_text("utf-8")):
        with project() as context:
            said = _fill(context, sample["conversation"])
            for question in sample["qa"]:
                gold = {found for item in question.get("evidence", ()) for found in re.findall(r"D\d+:\d+", item)}
                if gold := gold & said.keys():
                    row = _judge(gold, context, question["question"], said)
                    judged[CATEGORIES.get(question["category"], "other")].append(row)
    table = {category: _row(rows) for category, rows in sorted(judged.items())}
    table["all"] = _row([row for rows in judged.values() for row in rows])
    return table


def _fill(context: Context, conversation: dict[str, Any]) -> dict[str, str]:
    """Write a conversation as the turns of its sessions; return the messages' texts by their ids."""
    said: dict[str, str] = {}
    names = sorted((name for name in conversation if re.fullmatch(r"session_\d+", name)), key=lambda n: int(n[8:]))
    for name in names:
        at = _moment(conversation[f"{name}_date_time"])
        told = []
        for number, message in enumerate(conversation[name]):
            text = message["text"] + (f" [shares {message['blip_caption']}]" if message.get("blip_caption") else "")
            said[message["dia_id"]] = " ".join(f"{message['speaker']}: {text}".split())
            part = {"text": said[message["dia_id"]]}
            body = {
                "key": message["dia_id"],
                "by": "human",
                "at": at + number * 1_000_000,
                "line": number,
                "parts": [part],
            }
            told.append(Told(name, "turn", body))
        writer = Writer(context.repository, "dialogue", Path(name), at, is_again=False)
        writer.write(told, Cursor("dialogue", {}, {}))
    context.repository.ripen()
    fill(context)
    return said


def _moment(text: str) -> int:
    """Read `1:56 pm on 8 May, 2023` as microseconds since 1970, UTC."""
    moment = datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
    return int(moment.timestamp() * 1_000_000)


def _judge(gold: set[str], context: Context, question: str, said: dict[str, str]) -> dict[str, float]:
    ids = {text: name for name, text in said.items()}
    ten = {ids[turn.text] for passage in ask(context, question)[:10] for turn in passage.turns if turn.text in ids}
    row = {"R@10 passages": len(gold & ten) / len(gold)}
    for budget in BUDGETS:
        shown, left = set[str](), budget
        for line in (line for text in texts(context, question, budget) for line in text.split("\n")):
            left -= tokens.count(line)
            if left >= 0 and line in ids:
                shown.add(ids[line])
        row[f"R<={budget}"] = len(gold & shown) / len(gold)
    return row


def _row(rows: list[dict[str, float]]) -> dict[str, Any]:
    return {"n": len(rows)} | {name: mean([row[name] for row in rows]) for name in rows[0]}
