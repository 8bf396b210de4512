"""The script that the model plays: steps in order, one for each request that could do something.

A step is {"text", "calls"}, and may say {"tell": NAME} and {"await": NAME}: with `tell` others may go on as soon as its
request is there, with `await` it is answered when somebody told that name. So two agents meet without a clock.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from live import tools
from live.requests import messages
from live.tools import Call, Json, Tool

AUXILIARY = "Shop work"
#: Seconds that one agent waits for another.
PATIENCE = 90.0
#: How often a tool is looked for that is not there yet, and seconds between.
MOST, PAUSE = 40, 0.5


class Meeting:
    """Names that agents tell each other."""

    def __init__(self) -> None:
        self._told: dict[str, threading.Event] = defaultdict(threading.Event)

    def tell(self, name: str) -> None:
        """Let go on who waits for a name."""
        self._told[name].set()

    def wait(self, name: str) -> bool:
        """Wait until a name was told; tell whether it was."""
        return self._told[name].wait(PATIENCE)


@dataclass(frozen=True)
class Asked:
    """One request: what the client sent, and whether it was the agent's own work (no title, no classifier)."""

    messages: list[Json]
    is_main: bool
    tools: list[str]

    @property
    def text(self) -> str:
        """All of it."""
        return "\n".join(each["text"] for each in self.messages)

    @property
    def results(self) -> str:
        """What its tools answered, all of them."""
        return "\n".join(each["text"] for each in self.messages if each["role"] == "tool_result")


@dataclass
class Script:
    """Steps for one agent. A request that is repeated byte by byte gets the same step again. Thread-safe."""

    steps: Sequence[Json] = ()
    cwd: str = "/"
    meeting: Meeting = field(default_factory=Meeting)
    played: int = 0
    requests: list[Asked] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _calls: int = 0
    _looks: int = 0
    _seen: dict[str, tuple[str, list[Call]]] = field(default_factory=dict)
    _looked_up: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def main(self) -> list[Asked]:
        """The requests that took a step."""
        return [asked for asked in self.requests if asked.is_main]

    def answer(self, api: str, body: Json) -> tuple[str, list[Call]]:
        """Return what the model says to a request: a text, and calls of tools."""
        offered, said = tools.declared(api, body), messages(api, body)
        is_main = tools.find(offered, *tools.SHELL) is not None
        digest = hashlib.sha256(json.dumps([api, body], sort_keys=True).encode()).hexdigest()
        with self._lock:
            self.requests.append(Asked(said, is_main, [tool.full_name for tool in offered]))
            if not is_main:
                return auxiliary(api, body), []
            if digest in self._seen:
                return self._seen[digest]
            step = self._next(offered, said)
        if "tell" in step:
            self.meeting.tell(step["tell"])
        if "await" in step and not self.meeting.wait(step["await"]):
            self.problems.append(f"nobody told {step['await']!r} within {PATIENCE:g} s")
        with self._lock:
            answer = step.get("text", ""), self._resolved(api, step, offered, said)
            self._seen[digest] = answer
            return answer

    def _next(self, offered: Sequence[Tool], said: Sequence[Json]) -> Json:
        if self.played >= len(self.steps):
            self.problems.append("a request after the last step")
            return {"text": "The script has no further step."}
        step = self.steps[self.played]
        if lookup := self._lookup(step, offered, said):
            return lookup
        self.played += 1
        return step

    def _lookup(self, step: Json, offered: Sequence[Tool], said: Sequence[Json]) -> Json:
        """Return a step that looks a hidden MCP tool up first, {} where that is not needed.

        Several agents do not wait for their servers, so one that is not there yet is looked for again.
        """
        for call in step.get("calls") or []:
            name = (call.get("mcp") or {}).get("tool")
            if not name or self._looks >= MOST or tools.resolve(call, offered, self.cwd, "", said):
                continue
            full = tools.deferred(name, said)
            if full and name in self._looked_up:
                continue
            if self._looks:
                time.sleep(PAUSE)
            self._looks += 1
            self._looked_up |= {name} if full else set()
            if tools.find(offered, *tools.SEARCH):
                return {"calls": [{"search": f"select:{full}" if full else f"{tools.SERVER} {name}"}]}
            return {"calls": [{"shell": f"echo waiting {self._looks}"}]}
        return {}

    def _resolved(self, api: str, step: Json, offered: Sequence[Tool], said: Sequence[Json]) -> list[Call]:
        found = []
        for call in step.get("calls") or []:
            self._calls += 1
            name = ("toolu_" if api == "anthropic" else "call_") + f"live_{self._calls:03d}"
            made = tools.resolve(call, offered, self.cwd, name, said)
            if made is None and "mcp" in call and (full := tools.deferred(call["mcp"]["tool"], said)):
                made = Call(Tool(full), call["mcp"].get("args") or {}, name)
            if made is None:
                self.problems.append(f"no declared tool for {json.dumps(call)[:120]}")
            else:
                found.append(made)
        return found


def auxiliary(api: str, body: Json) -> str:
    """Return a short text, or a minimal object where the request asks for JSON of a schema."""
    schema = _schema(api, body)
    return json.dumps(_sample(schema)) if schema else AUXILIARY


def _schema(api: str, body: Json) -> Any:
    if api == "gemini":
        config = body.get("generationConfig") or {}
        return config.get("responseJsonSchema") or config.get("responseSchema")
    if api == "responses":
        return ((body.get("text") or {}).get("format") or {}).get("schema")
    if api == "chat":
        return ((body.get("response_format") or {}).get("json_schema") or {}).get("schema")
    form = body.get("output_format") or (body.get("output_config") or {}).get("format") or {}
    return form.get("schema")


def _sample(node: Json) -> Any:
    kind = node.get("type")
    kind = str(kind[0] if isinstance(kind, list) and kind else kind or "string").lower()
    if node.get("enum"):
        return "user" if "user" in node["enum"] else node["enum"][0]
    if kind == "object":
        return {key: _sample(value) for key, value in (node.get("properties") or {}).items()}
    return {"array": [], "boolean": False, "number": 1, "integer": 1}.get(kind, AUXILIARY)
