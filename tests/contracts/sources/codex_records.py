"""Records as Codex writes them, small ones made here and whole files beside the checkout, and how to read them."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from bede.sources import codex, jsonl
from bede.sources.port import Item, Prompt, Reply, Session, Spot, Tally

SHARED = Path(__file__).resolve().parents[4] / "shared"
SAMPLES = SHARED / "transcripts"
LIVE = SHARED / "transcripts-live" / "codex"
EXPECTED = SAMPLES / "expected.json"
CATALOGUE = "codex/jazzyalex__agent-sessions/Resources/Fixtures/stage0/agents/codex/small.jsonl"


def expected() -> dict[str, dict]:
    if not EXPECTED.exists():
        return {}
    found = json.loads(EXPECTED.read_text())
    return {name: counts for name, counts in found.items() if name.startswith("codex/")}


FILES = sorted(expected())
RUNS = sorted(path.parent.name for path in LIVE.glob("*/expected.json"))
here = pytest.mark.skipif(not FILES or not RUNS, reason="the sample transcripts are not beside this checkout")


def read(path: Path) -> tuple[list[Item], Tally]:
    """Read a file in one go."""
    items: list[Item] = []
    tally, state = Tally(), {}
    with path.open("rb") as file:
        for spot, record in jsonl.records(file, path, jsonl.Cursor(), tally):
            items += codex.take(record, spot, state, tally)
    return items, tally


def take(*records: object, name: str = "rollout-2026-01-01T00-00-00-x.jsonl") -> list[Item]:
    """Take records as if they stood in a file, each on a line."""
    state: dict = {}
    items: list[Item] = []
    offset = 0
    for line, record in enumerate(records, 1):
        items += codex.take(record, Spot(Path(name), line, offset), state, Tally())
        state = json.loads(json.dumps(state))
        offset += len(json.dumps(record)) + 1
    return items


def latest(items: list[Item]) -> list[Item]:
    """Leave of each key its last item, at the place of its first."""
    return list({item.key: item for item in items}.values())


def of(items: list[Item], kind: type) -> list:
    return [item.what for item in latest(items) if isinstance(item.what, kind)]


def said(items: list[Item], speaker: str = "human") -> list[str]:
    return [prompt.text for prompt in of(items, Prompt) if prompt.speaker == speaker]


def replies(items: list[Item]) -> list[str]:
    return [reply.text for reply in of(items, Reply) if not reply.is_error]


def sessions(items: list[Item], name: str) -> list[str]:
    told = [getattr(item.what, name) for item in items if isinstance(item.what, Session)]
    return list(dict.fromkeys(value for value in told if value))


def milliseconds(written: str) -> int:
    return round(datetime.fromisoformat(written).timestamp() * 1000)


def times(items: list[Item]) -> list[int]:
    """List the times in the order of the file, in milliseconds."""
    return [item.at // 1000 for item in sorted(items, key=lambda item: item.line) if item.at is not None]


def at(second: int, kind: str, payload: dict) -> dict:
    return {"timestamp": f"2026-04-01T08:00:{second:02}.000Z", "type": kind, "payload": payload}


def meta(identity: str = "s", **more: object) -> dict:
    return at(0, "session_meta", {"id": identity, "cwd": "/w", "cli_version": "0.1", **more})


def text(role: str, *texts: str, **more: object) -> dict:
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": part} for part in texts]
    return at(1, "response_item", {"type": "message", "role": role, "content": content, **more})


def event(kind: str, **more: object) -> dict:
    return at(1, "event_msg", {"type": kind, **more})


def done(kind: str, **more: object) -> dict:
    return event("item_completed", item={"type": kind, **more})


def user(message: str) -> tuple[dict, dict, dict]:
    parts = [{"type": "text", "text": message}]
    return text("user", message), event("user_message", message=message), done("UserMessage", content=parts)


def agent(message: str) -> tuple[dict, dict, dict]:
    parts = [{"type": "Text", "text": message}]
    return text("assistant", message), event("agent_message", message=message), done("AgentMessage", content=parts)


def called(name: str, arguments: object, call: str = "c", kind: str = "function_call") -> dict:
    field = "input" if kind == "custom_tool_call" else "arguments"
    told = json.dumps(arguments) if not isinstance(arguments, str) else arguments
    return at(2, "response_item", {"type": kind, "name": name, field: told, "call_id": call})


def output(told: object, call: str = "c", kind: str = "function_call_output") -> dict:
    return at(3, "response_item", {"type": kind, "call_id": call, "output": told})


PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** End Patch"


def count(total: int, last: int | None = None) -> dict:
    def numbers(value: int) -> dict:
        return {"input_tokens": value, "cached_input_tokens": value // 2, "output_tokens": 0, "total_tokens": value}

    info = {"total_token_usage": numbers(total), "last_token_usage": None if last is None else numbers(last)}
    return event("token_count", info=info)


BARE = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "list files"}]},
    {
        "type": "function_call",
        "id": "f",
        "name": "shell",
        "arguments": '{"command":["bash","-lc","ls"]}',
        "call_id": "k",
    },
    {"type": "function_call_output", "call_id": "k", "output": '{"output":"a","metadata":{"exit_code":0}}'},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
]
