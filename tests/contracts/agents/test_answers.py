"""How every agent is answered: exactly in its own words, neutral where there is nothing to say, never half."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from contracts.agents.samples import AGENTS, INVENTED, needs_samples, payload

from bede import agents
from bede.agents.port import BEFORE, OTHER, PROMPT, START, Answer, Call

REASON = "That file is being edited in session sess-9999 (since 09:12). Ask or wait."
CONTEXT = "Recent note: parse_row was renamed on 2026-11-29 (see commit abc1234)."
#: Samples of what Bede never says: it neither asks a person nor keeps an agent from stopping, it refuses a tool before
#: a permission is asked for, and plugins act for it.
UNSAID = ("ask", "block", "continue", "followup", "allow", "permissionRequest")
PLUGINS = ("opencode", "pi", "omp")
EMPTY = {"claude-code": ""}


def samples() -> list[Any]:
    found = sorted(INVENTED.glob("*/outputs/*.json")) if INVENTED.is_dir() else []
    kept = [file for file in found if not set(file.name.split(".")) & set(UNSAID) and file.parts[-3] not in PLUGINS]
    return [pytest.param(file, id=f"{file.parts[-3]}-{file.stem}") for file in kept]


@needs_samples
@pytest.mark.parametrize("file", samples())
def test_answers_are_in_the_agents_words(file: Path) -> None:
    folder = file.parts[-3]
    name = AGENTS.get(folder, folder)
    event, _, kind = file.stem.partition(".")
    moment = BEFORE if kind == "deny" else START
    call = Call(moment, name, "s")
    answer = {"deny": Answer(reason=REASON), "context": Answer(context=CONTEXT)}.get(kind, Answer())
    expected = payload(file)
    if name == "vscode" and kind == "context":
        # To let the tool run because something was said about it would take the question from the user.
        expected["hookSpecificOutput"].pop("permissionDecision", None)
    assert json.loads(agents.load(name).write(event or "stop", call, answer) or "{}") == expected


@pytest.mark.parametrize("name", agents.AGENTS)
def test_nothing_to_say_is_neutral(name: str) -> None:
    agent = agents.load(name)
    for event in ("PreToolUse", "preToolUse", "Stop", "PreInvocation", "tool_call", "nonsense", ""):
        neutral = agent.neutral(event)
        assert neutral == EMPTY.get(name, "{}")
        for moment in (BEFORE, PROMPT, OTHER):
            assert agent.write(event, Call(moment, name, "s"), Answer()) == neutral


@pytest.mark.parametrize("name", agents.AGENTS)
def test_a_refusal_is_said_before_an_edit_only(name: str) -> None:
    agent = agents.load(name)
    for moment in (START, PROMPT, OTHER):
        assert REASON not in agent.write("PreToolUse", Call(moment, name, "s"), Answer(reason=REASON))
    denied = [
        agent.write(event, Call(BEFORE, name, "s"), Answer(reason=REASON)) for event in ("PreToolUse", "preToolUse")
    ]
    assert all(REASON in one and "\n" not in one for one in denied)


@pytest.mark.parametrize("name", agents.AGENTS)
def test_what_is_said_cannot_harm_whoever_shows_it(name: str) -> None:
    agent = agents.load(name)
    hostile = "\x1b[2J\x00held\u2028by \x9b31m\ud800 someone\n\t" + "x" * 50_000
    for answer in (Answer(reason=hostile), Answer(context=hostile)):
        event = {"antigravity": "PreInvocation", "cursor": "sessionStart", "copilot": "sessionStart"}.get(
            name, "SessionStart"
        )
        moment = BEFORE if answer.reason else START
        said = agent.write("PreToolUse" if answer.reason else event, Call(moment, name, "s"), answer)
        assert said.isascii() and len(said) < 15_000
        texts = [text for text in _texts(json.loads(said)) if "held" in text]
        assert texts
        for text in texts:
            assert not set(text) & set("\x1b\x00\x9b\u2028\ud800") and "\n\t" in text
            assert len(text) <= 6000 and text.endswith("…")


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for each in value.values() for text in _texts(each)]
    if isinstance(value, list):
        return [text for each in value for text in _texts(each)]
    return [value] if isinstance(value, str) else []


def test_codex_is_told_nothing_that_it_does_not_know() -> None:
    write = agents.load("codex").write
    call = Call(BEFORE, "codex", "s")
    assert json.loads(write("PreToolUse", call, Answer(reason=REASON))) == {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": REASON,
        }
    }
    for event in ("Stop", "SessionEnd", "Interrupt", "PreCompact", "PostCompact", "SubagentStop", "PermissionRequest"):
        assert write(event, Call(OTHER, "codex", "s"), Answer(context=CONTEXT)) == "{}"


def test_a_stranger_is_answered_in_both_tongues() -> None:
    refused = Answer(reason=REASON)
    cursor = json.loads(agents.load("cursor").write("PreToolUse", Call(BEFORE, "cursor", "s"), refused))
    assert (cursor["permission"], cursor["hookSpecificOutput"]["permissionDecision"]) == ("deny", "deny")
    copilot = json.loads(agents.load("copilot").write("PreToolUse", Call(BEFORE, "copilot", "s"), refused))
    assert (copilot["permissionDecision"], copilot["hookSpecificOutput"]["permissionDecision"]) == ("deny", "deny")
    vscode = json.loads(agents.load("vscode").write("preToolUse", Call(BEFORE, "vscode", "s"), refused))
    assert vscode["permissionDecision"] == "deny"
    assert vscode["hookSpecificOutput"] == {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": REASON,
    }
    told = json.loads(
        agents.load("copilot").write("SessionStart", Call(START, "copilot", "s"), Answer(context=CONTEXT))
    )
    assert told["additionalContext"] == told["hookSpecificOutput"]["additionalContext"] == CONTEXT


@pytest.mark.parametrize("name", PLUGINS)
def test_plugins_are_answered_in_our_own_form(name: str) -> None:
    write = agents.load(name).write
    assert json.loads(write("tool_call", Call(BEFORE, name, "s"), Answer(reason=REASON))) == {
        "deny": True,
        "reason": REASON,
    }
    assert json.loads(write("session_start", Call(START, name, "s"), Answer(context=CONTEXT))) == {"context": CONTEXT}
