"""What a client sent to the model, in one shape for all protocols: a list of {role, text}."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]


def messages(api: str, body: Json) -> list[Json]:
    """Return a request as {role, text}; role is system, user, assistant, tool_call or tool_result."""
    return [{"role": role, "text": text} for role, text in _READERS[api](body) if text]


def _responses(body: Json) -> Iterator[tuple[str, str]]:
    yield "system", _text(body.get("instructions"))
    items = body.get("input")
    for item in [{"role": "user", "content": items}] if isinstance(items, str) else items or []:
        kind = item.get("type", "message")
        if kind == "message":
            role = item.get("role", "user")
            parts = item["content"] if isinstance(item.get("content"), list) else [item.get("content")]
            yield from (("system" if role in ("system", "developer") else role, _text(part)) for part in parts)
        elif kind.endswith("_call"):
            yield "tool_call", str(item.get("arguments") or item.get("input") or item.get("action"))
        elif kind.endswith("_output"):
            yield "tool_result", _text(item["output"] if "output" in item else json.dumps(item.get("tools")))


def _chat(body: Json) -> Iterator[tuple[str, str]]:
    for message in body.get("messages") or []:
        role = message.get("role", "")
        if role == "tool":
            yield "tool_result", _text(message.get("content"))
            continue
        yield "system" if role in ("system", "developer") else role, _text(message.get("content"))
        for call in message.get("tool_calls") or []:
            yield "tool_call", (call.get("function") or {}).get("arguments", "")


def _anthropic(body: Json) -> Iterator[tuple[str, str]]:
    yield "system", _text(body.get("system"))
    for message in body.get("messages") or []:
        content = message.get("content")
        for part in content if isinstance(content, list) else [{"type": "text", "text": content}]:
            if part.get("type") == "tool_use":
                yield "tool_call", json.dumps(part.get("input"), ensure_ascii=False)
            elif part.get("type") == "tool_result":
                yield "tool_result", _text(part.get("content"))
            else:
                yield message.get("role", "user"), _text(part)


def _gemini(body: Json) -> Iterator[tuple[str, str]]:
    yield "system", _text((body.get("systemInstruction") or {}).get("parts"))
    for message in body.get("contents") or []:
        for part in message.get("parts") or []:
            if "functionCall" in part:
                yield "tool_call", json.dumps(part["functionCall"].get("args"), ensure_ascii=False)
            elif "functionResponse" in part:
                yield "tool_result", json.dumps(part["functionResponse"].get("response"), ensure_ascii=False)
            else:
                yield "assistant" if message.get("role") == "model" else "user", _text(part)


_READERS = {"responses": _responses, "chat": _chat, "anthropic": _anthropic, "gemini": _gemini}


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list):
        return "\n".join(filter(None, map(_text, value)))
    if isinstance(value, dict):
        known = [key for key in ("text", "content", "output", "thinking", "input_text") if key in value]
        return _text(value[known[0]]) if known else json.dumps(value, ensure_ascii=False)
    return str(value)
