"""An answer of the model as each protocol says it: one object, or the events of a stream."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from live.tools import Call, Json

#: Name of the event ('' for none) and its data.
Stream = Iterator[tuple[str, Json]]
Whole = Callable[[Json, str, Sequence[Call], str], Json]
Events = Callable[[Json, str, Sequence[Call], str], Stream]
_IN, _OUT = 120, 24


def _halves(text: str) -> list[str]:
    middle = max(1, len(text) // 2)
    return [part for part in (text[:middle], text[middle:]) if part]


# OpenAI Responses


def _response(body: Json, text: str, calls: Sequence[Call], uid: str) -> Json:
    usage = {
        "input_tokens": _IN,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": _OUT,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": _IN + _OUT,
    }
    return {
        "id": f"resp_{uid}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed",
        "model": body.get("model", "scripted"),
        "output": [*_said(text, uid), *map(_item, calls)],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "usage": usage,
    }


def _said(text: str, uid: str) -> list[Json]:
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"type": "message", "id": f"msg_{uid}", "role": "assistant", "status": "completed", "content": [part]}
    return [message] if text else []


def _item(call: Call) -> Json:
    item: Json = {"call_id": call.id, "status": "completed"}
    if call.tool.kind == "tool_search":
        item |= {"type": "tool_search_call", "id": f"tsc_{call.id}", "execution": "client"}
        return item | {"arguments": call.args}
    item["name"] = call.tool.name
    if call.tool.kind == "custom":
        item |= {"type": "custom_tool_call", "id": f"ctc_{call.id}", "input": call.args_text}
    else:
        item |= {"type": "function_call", "id": f"fc_{call.id}", "arguments": call.args_text}
    return item | ({"namespace": call.tool.namespace} if call.tool.namespace else {})


def _response_stream(body: Json, text: str, calls: Sequence[Call], uid: str) -> Stream:
    for number, (kind, data) in enumerate(_response_events(_response(body, text, calls, uid)), 1):
        yield kind, {"type": kind, "sequence_number": number, **data}


def _response_events(final: Json) -> Stream:
    begun = {**final, "status": "in_progress", "output": [], "usage": None}
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for index, item in enumerate(final["output"]):
        where = {"item_id": item["id"], "output_index": index}
        yield from _message(item, where) if item["type"] == "message" else _called(item, where)
        yield "response.output_item.done", {"output_index": index, "item": item}
    yield "response.completed", {"response": final}


def _message(item: Json, where: Json) -> Stream:
    (part,) = item["content"]
    opened = {**item, "status": "in_progress", "content": []}
    yield "response.output_item.added", {"output_index": where["output_index"], "item": opened}
    where = {**where, "content_index": 0}
    yield "response.content_part.added", {**where, "part": {**part, "text": ""}}
    for piece in _halves(part["text"]):
        yield "response.output_text.delta", {**where, "delta": piece}
    yield "response.output_text.done", {**where, "text": part["text"]}
    yield "response.content_part.done", {**where, "part": part}


def _called(item: Json, where: Json) -> Stream:
    added = {"output_index": where["output_index"], "item": {**item, "status": "in_progress"}}
    if item["type"] == "tool_search_call":
        yield "response.output_item.added", added
        return
    given = "input" if item["type"] == "custom_tool_call" else "arguments"
    name = "response.custom_tool_call_input" if given == "input" else "response.function_call_arguments"
    added["item"][given] = ""
    yield "response.output_item.added", added
    yield f"{name}.delta", {**where, "delta": item[given]}
    yield f"{name}.done", {**where, given: item[given]}


# OpenAI Chat Completions


def _chat_calls(calls: Sequence[Call]) -> list[Json]:
    return [
        {"id": call.id, "type": "function", "function": {"name": call.tool.name, "arguments": call.args_text}}
        for call in calls
    ]


_CHAT_USAGE = {"prompt_tokens": _IN, "completion_tokens": _OUT, "total_tokens": _IN + _OUT}


def _chat_head(body: Json, uid: str, kind: str) -> Json:
    model = body.get("model", "scripted")
    return {"id": f"chatcmpl-{uid}", "object": kind, "created": int(time.time()), "model": model}


def _chat(body: Json, text: str, calls: Sequence[Call], uid: str) -> Json:
    message: Json = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = _chat_calls(calls)
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return {**_chat_head(body, uid, "chat.completion"), "usage": _CHAT_USAGE, "choices": [choice]}


def _chat_stream(body: Json, text: str, calls: Sequence[Call], uid: str) -> Stream:
    head = _chat_head(body, uid, "chat.completion.chunk")
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in _halves(text)]
    deltas += [{"tool_calls": [{"index": index, **call}]} for index, call in enumerate(_chat_calls(calls))]
    for delta in deltas:
        yield "", {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    last = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}
    yield "", {**head, "choices": [last]}
    yield "", {**head, "choices": [], "usage": _CHAT_USAGE}


# Anthropic Messages


def _anthropic(body: Json, text: str, calls: Sequence[Call], uid: str) -> Json:
    blocks: list[Json] = [{"type": "text", "text": text}] if text else []
    blocks += [{"type": "tool_use", "id": call.id, "name": call.tool.name, "input": call.args} for call in calls]
    return {
        "id": f"msg_{uid}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "scripted"),
        "content": blocks,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": _IN,
            "output_tokens": _OUT,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        },
    }


def _anthropic_stream(body: Json, text: str, calls: Sequence[Call], uid: str) -> Stream:
    for kind, data in _anthropic_events(_anthropic(body, text, calls, uid)):
        yield kind, {"type": kind, **data}


def _anthropic_events(final: Json) -> Stream:
    usage = {**final["usage"], "output_tokens": 1}
    yield "message_start", {"message": {**final, "content": [], "stop_reason": None, "usage": usage}}
    for index, block in enumerate(final["content"]):
        if block["type"] == "text":
            begun: Json = {"type": "text", "text": ""}
            deltas: list[Json] = [{"type": "text_delta", "text": piece} for piece in _halves(block["text"])]
        else:
            begun = {**block, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        yield "content_block_start", {"index": index, "content_block": begun}
        for delta in deltas:
            yield "content_block_delta", {"index": index, "delta": delta}
        yield "content_block_stop", {"index": index}
    reason = {"stop_reason": final["stop_reason"], "stop_sequence": None}
    yield "message_delta", {"delta": reason, "usage": {"output_tokens": _OUT}}
    yield "message_stop", {}


# Gemini


def _gemini(body: Json, text: str, calls: Sequence[Call], uid: str) -> Json:
    parts: list[Json] = [{"text": text}] if text else []
    for call in calls:
        args: Any = call.args if isinstance(call.args, dict) else {"input": call.args}
        parts.append({"functionCall": {"id": call.id, "name": call.tool.name, "args": args}})
    usage = {"promptTokenCount": _IN, "candidatesTokenCount": _OUT, "totalTokenCount": _IN + _OUT}
    found = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    return {"candidates": [found], "usageMetadata": usage, "modelVersion": "scripted", "responseId": uid}


def _gemini_stream(body: Json, text: str, calls: Sequence[Call], uid: str) -> Stream:
    yield "", _gemini(body, text, calls, uid)


#: Protocol → how it says an answer at once, and as a stream.
WIRES: dict[str, tuple[Whole, Events]] = {
    "responses": (_response, _response_stream),
    "chat": (_chat, _chat_stream),
    "anthropic": (_anthropic, _anthropic_stream),
    "gemini": (_gemini, _gemini_stream),
}
