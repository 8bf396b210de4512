"""Whatever JSON an agent's hook is given, and whatever it is called, an agent's file answers and never raises."""

from __future__ import annotations

import json
from typing import Any

import pytest
from contracts.agents.samples import INVENTED, LIVE, agent_of, event_of, files, needs_samples, payload
from hypothesis import given, settings
from hypothesis import strategies as st

from bede import agents
from bede.agents import edits
from bede.agents.port import AFTER, BEFORE, OTHER, Answer

KEYS = [
    "session_id", "sessionId", "conversation_id", "conversationId", "transcript_path", "transcriptPath",
    "cwd", "workspace_roots", "workspacePaths", "hook_event_name", "hookEventName", "prompt", "tool_name",
    "toolName", "tool_input", "toolArgs", "toolInput", "toolCall", "name", "args", "agent_id", "source",
    "invocationNum", "initialNumSteps", "error", "toolResult", "tool_response", "file_path", "path", "paths",
    "files", "edits", "replacements", "command", "input", "patchText", "uri", "session_file", "event", "hook",
    "output", "properties", "info", "sessionID", "action", "resources", "parts", "type", "text", "parent",
    "timestamp", "cursor_version", "prompt_id", "generation_id", "status",
]  # fmt: skip
WORDS = st.sampled_from(
    ["Edit", "edit", "Write", "apply_patch", "write_file", "write_to_file", "compact", "text", "/a"]
)
EVENTS = st.one_of(
    st.sampled_from(sorted({event for name in agents.AGENTS for event in vars(agents.load(name))["MOMENTS"]})),
    st.sampled_from(["PreToolUse", "preToolUse", "PreInvocation", "Stop", "event", ""]),
    st.text(max_size=20),
)
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=40), WORDS, WORDS.map(json.dumps)
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(KEYS), st.text(max_size=6)), inner, max_size=8),
        st.dictionaries(st.sampled_from(KEYS), inner, max_size=3).map(lambda value: json.dumps(value, default=str)),
    ),
    max_leaves=30,
)


def check(name: str, event: str, said: Any, environment: dict[str, str]) -> None:
    """Read a payload, answer it, and hold what is promised of both."""
    agent = agents.load(name)
    call = agent.read(event, said, environment)
    assert (call.moment in (BEFORE, AFTER)) == bool(call.paths)
    assert all(isinstance(path, str) and 0 < len(path) <= edits.LONGEST and "\0" not in path for path in call.paths)
    for told in (call.session, call.cwd, call.transcript, call.prompt, call.tool, call.child):
        assert isinstance(told, str)
    assert isinstance(call.failed, bool)
    assert isinstance(agent.foreign(said, environment), str)
    for answer in (Answer(), Answer(reason="no\ud800"), Answer(context="yes")):
        document = agent.write(event, call, answer)
        assert document == "" or isinstance(json.loads(document), dict)
        assert "\n" not in document


@settings(max_examples=150)
@given(name=st.sampled_from(list(agents.AGENTS)), event=EVENTS, said=JSON)
def test_any_json_is_answered(name: str, event: str, said: Any) -> None:
    check(name, event, said, {"GEMINI_SESSION_ID": "x", "CLAUDE_CODE_SESSION_ID": "y"})


@needs_samples
@pytest.mark.parametrize("base", [INVENTED, LIVE], ids=lambda base: str(base.name))
def test_real_payloads_with_any_part_missing_or_wrong_are_answered(base: Any) -> None:
    for folder in sorted(entry.name for entry in base.iterdir() if entry.is_dir()):
        for file in files(base, folder):
            said = payload(file)
            for changed in broken(said):
                check(agent_of(file), event_of(file, said), changed, {})


def broken(value: Any, depth: int = 0) -> list[Any]:
    """Return copies of an object, each with one member gone or of another type, inner objects included."""
    if not isinstance(value, dict) or depth > 2:
        return []
    found: list[Any] = []
    for key in value:
        rest = {name: each for name, each in value.items() if name != key}
        found += [rest, *({**rest, key: wrong} for wrong in (None, 7, [None], {"a": []}))]
        found += [{**rest, key: inner} for inner in broken(value[key], depth + 1)]
    return found


def test_deep_and_long_values_are_answered() -> None:
    deep = "[" * 20_000 + "]" * 20_000
    long: dict[str, Any] = {"file_path": "a" * 100_000, "files": ["f"] * 100_000, "edits": [{"path": "b"}] * 5000}
    for name in agents.AGENTS:
        agent = agents.load(name)
        for given_ in (deep, "{" + deep, long, json.dumps(long)):
            said = {"tool_name": "Edit", "toolName": "edit", "tool_input": given_, "toolArgs": given_, "prompt": deep}
            call = agent.read("PreToolUse", said, {})
            assert len(call.paths) <= 1000 and len(call.prompt) <= 20_000
            assert call.moment == OTHER or call.moment == BEFORE
