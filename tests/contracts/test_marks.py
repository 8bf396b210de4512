"""What a turn is known by tells nothing of a secret in it: keys and origins are made of texts as they are kept."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from contracts.written import identity, lines, said

from bede.intake.escrow import Escrow
from bede.intake.running import Report, Run
from bede.projections import PROJECTIONS, sessions
from bede.repository import Repository, cursors, log
from bede.sources.port import CHARACTERS, tail

pytest.importorskip("zstandard", reason="compressed transcripts need zstandard")

AT = "2026-01-01T00:00:00.000Z"
MS = 1767323045000
#: Two that are as long as each other and look alike once they are out; one that is shorter than what stands for it.
ONE, OTHER, SHORT = "password=" + "Sommer4821", "password=" + "Winter9377", "password=" + "hunter2"
#: What somebody says with one of them: in the middle of a line, and at its end.
SAID = "log in with {0} please", "it is {0}", "{0}"


def _claude(text: str) -> bytes:
    call = {"type": "tool_use", "id": "toolu_0123456789abcdefgh", "name": "Edit"}
    given = {"file_path": "/w/a", "old_string": text, "new_string": f"new {text}"}
    blocks = [{"type": "thinking", "thinking": text}, {"type": "text", "text": text}, {**call, "input": given}]
    failed = {"type": "tool_result", "tool_use_id": call["id"], "is_error": True, "content": f"refused: {text}"}
    records = [said("s", number, "", "/w", by="user" if number in (1, 3, 4) else "assistant") for number in range(1, 5)]
    contents = (text, blocks, [failed], f"<command-name>/x</command-name>{text}")
    for record, content in zip(records, contents, strict=True):
        record["message"]["content"] = content
    queued = {"type": "queue-operation", "operation": "enqueue", "sessionId": "s", "timestamp": AT, "content": text}
    laid = said("s", 5, "", "/w") | {"type": "attachment", "attachment": {"type": "queued_command", "prompt": text}}
    nameless = [{**record, "uuid": None} for record in records[:2]]
    return lines([*records, queued, laid, *nameless])


def _codex(text: str) -> bytes:
    own, turn = identity("codex"), identity("turn")
    failed = {"call_id": "c1", "output": f"Exit code: 1\nOutput:\n{text}"}
    called = {"call_id": "c1", "name": "shell", "arguments": '{"command":"x"}'}
    return lines(
        {"timestamp": AT, "type": kind, "payload": payload}
        for kind, payload in (
            ("session_meta", {"id": own, "cwd": "/w"}),
            ("turn_context", {"turn_id": turn, "cwd": "/w"}),
            ("response_item", {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}),
            ("event_msg", {"type": "user_message", "message": text}),
            ("response_item", {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}),
            ("event_msg", {"type": "agent_message", "message": f" {text}"}),
            ("response_item", {"type": "function_call", **called}),
            ("response_item", {"type": "function_call_output", **failed}),
            ("event_msg", {"type": "user_message", "message": f"again {text}"}),
        )
    )


def _pi(text: str, agent: str = "pi") -> bytes:
    model = {"modelId": "m"} if agent == "pi" else {"model": "p/m"}
    call = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": f"run {text}"}}
    failed = {"role": "toolResult", "toolCallId": "c1", "toolName": "bash", "isError": True}
    thought = {"type": "thinking", "thinking": text}
    messages = [
        {"role": "user", "content": text},
        {"role": "assistant", "content": [thought, {"type": "text", "text": text}, call]},
        {**failed, "content": [{"type": "text", "text": f"no: {text}"}]},
    ]
    records: list[dict[str, Any]] = [
        {"type": "session", "version": 3, "id": "p1", "cwd": "/w", "timestamp": AT},
        {"type": "model_change", "id": "00000000", "parentId": None, "timestamp": AT, **model},
    ]
    for number, message in enumerate(messages * 2, 1):
        about = {"type": "message", "timestamp": AT, "message": message}
        records.append(about | ({"id": f"0000000{number}", "parentId": f"0000000{number - 1}"} if number < 4 else {}))
    return lines(records)


def _omp(text: str) -> bytes:
    return _pi(text, "omp")


def _opencode(text: str) -> bytes:
    state = {"status": "error", "input": {"command": f"run {text}"}, "error": f"no: {text}"}
    tool = {"type": "tool", "tool": "bash", "callID": "c1", "state": state}
    parts = [[{"type": kind, "text": text} for kind in kinds] for kinds in (["text"], ["reasoning", "text"])]
    parts[1].append(tool)
    infos = [{"role": role, "sessionID": "ses_1", "time": {"created": MS}} for role in ("user", "assistant")]
    named = [{**info, "id": f"msg_{number}"} for number, info in enumerate(infos)]
    messages = [{"info": info, "parts": part} for info, part in zip(infos + named, parts * 2, strict=True)]
    return json.dumps({"info": {"id": "ses_1", "directory": "/w", "title": text}, "messages": messages}).encode()


def _antigravity(text: str) -> bytes:
    command = {"name": "run_command", "args": {"CommandLine": f"run {text}", "Cwd": "/w"}}
    steps = [
        {"type": "USER_INPUT", "source": "USER_EXPLICIT", "content": f"<USER_REQUEST>\n{text}\n</USER_REQUEST>"},
        {"type": "PLANNER_RESPONSE", "thinking": text, "content": text, "tool_calls": [command]},
        {"type": "RUN_COMMAND", "status": "ERROR", "content": f"Output:\n{text}"},
        {"type": "USER_INPUT", "source": "USER_EXPLICIT", "content": f"more {text}", "created_at": f"then: {text}"},
        {"type": f"NEW {text} {'x' * 80}", "content": text},
        {"type": "CHECKPOINT", "content": text},
    ]
    about = {"status": "DONE", "created_at": AT}
    return lines({"step_index": number, **about, **step} for number, step in enumerate(steps))


def _cursor(text: str) -> bytes:
    call = {"type": "tool_use", "name": "Shell", "input": {"command": f"run {text}"}}
    records = [
        {"role": "user", "message": {"content": [{"type": "text", "text": f"<user_query>\n{text}\n</user_query>"}]}},
        {"role": "assistant", "message": {"content": [{"type": "text", "text": text}, call]}},
    ]
    return lines(records * 2)


def _cursor_text(text: str) -> bytes:
    return f"user:\n<user_query>\n{text}\n</user_query>\n\nassistant:\nso {text}\n\n".encode() * 2


def _cursor_database(text: str) -> dict[str, list[tuple[str, Any]]]:
    bubbles: list[dict[str, Any]] = [{"type": 1, "text": text}, {"type": 2, "text": text, "thinking": {"text": text}}]
    held = {"composerId": "c1", "name": text, "conversation": bubbles * 2}
    tab = {"tabId": "t1", "bubbles": [{"type": "user", "text": text}, {"type": "ai", "text": text}]}
    old = "workbench.panel.aichat.view.aichat.chatdata"
    return {"cursorDiskKV": [("composerData:c1", held)], "ItemTable": [(old, {"tabs": [tab]})]}


def _copilot(text: str) -> bytes:
    asked = {"toolCallId": "c1", "name": "bash", "arguments": {"command": f"run {text}"}}
    ended = {"toolCallId": "c1", "success": False, "error": {"message": f"no: {text}"}}
    events = [
        ("session.start", {"sessionId": "e1", "context": {"cwd": "/w"}}),
        ("user.message", {"content": text}),
        ("assistant.message", {"content": text, "reasoningText": text, "toolRequests": [asked]}),
        ("tool.execution_complete", ended),
        ("session.error", {"message": text}),
    ]
    records = [{"type": kind, "timestamp": AT, "data": data} for kind, data in events]
    twice = [records[1] | {"id": "e", "data": {"content": f"{number} {text}"}} for number in range(3)]
    return lines([*records, *twice])


def _chat(text: str) -> bytes:
    request = {"message": {"text": text}, "response": [{"value": text}, {"kind": "thinking", "value": text}]}
    twice = [{**request, "requestId": "r1", "modelId": model} for model in ("m", "n")]
    return json.dumps({"version": 3, "sessionId": "v1", "creationDate": MS, "requests": [request, *twice]}).encode()


def _gemini(text: str) -> bytes:
    call = {"name": "run_shell_command", "args": {"command": f"run {text}"}, "status": "error", "resultDisplay": text}
    messages = [
        {"type": "user", "content": text, "timestamp": AT},
        {"type": "gemini", "content": text, "thoughts": [{"subject": text}], "toolCalls": [call], "timestamp": AT},
        {"type": "error", "content": text, "timestamp": AT},
    ]
    return lines([{"sessionId": "g1", "projectHash": "0" * 64, "startTime": AT}, *messages, {"$rewindTo": "x"}])


def _gemini_whole(text: str) -> bytes:
    header, *messages = (json.loads(line) for line in _gemini(text).splitlines()[:-1])
    return json.dumps({**header, "messages": messages}, indent=1).encode()


#: Where an agent lays a session, and what it writes there.
FORMS: list[tuple[str, str, Callable[[str], Any]]] = [
    ("claude-code", ".claude/projects/-w/s.jsonl", _claude),
    ("codex", f".codex/sessions/rollout-2026-01-01T00-00-00-{identity('codex')}.jsonl", _codex),
    ("pi", ".pi/agent/sessions/-w/2026-01-01T00-00-00_p1.jsonl", _pi),
    ("omp", ".omp/agent/sessions/-w/2026-01-01T00-00-00_p1.jsonl", _omp),
    ("opencode", "exports/session.json", _opencode),
    ("antigravity", ".gemini/antigravity/brain/c1/.system_generated/logs/transcript_full.jsonl", _antigravity),
    ("cursor", ".cursor/projects/w/agent-transcripts/one.jsonl", _cursor),
    ("cursor", ".cursor/projects/w/agent-transcripts/one.txt", _cursor_text),
    ("cursor", ".config/Cursor/User/globalStorage/state.vscdb", _cursor_database),
    ("copilot", ".copilot/session-state/e1/events.jsonl", _copilot),
    ("copilot", ".config/Code/User/workspaceStorage/a/chatSessions/v1.json", _chat),
    ("gemini-cli", ".gemini/tmp/w/chats/session-1.jsonl", _gemini),
    ("gemini-cli", ".gemini/tmp/w/chats/session-1.json", _gemini_whole),
]
forms = pytest.mark.parametrize(("agent", "place", "write"), FORMS, ids=[write.__name__[1:] for _, _, write in FORMS])


@pytest.fixture
def projects(tmp_path: Path) -> Iterator[Callable[[], Repository]]:
    """Makes projects, each with a secret of its own."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(_project(tmp_path / f"{os.urandom(4).hex()}.db")))


def _project(path: Path) -> Repository:
    repository = Repository.create(path, PROJECTIONS, actor="me", at=1)
    repository.connection.execute("PRAGMA synchronous = OFF")
    return repository


def _put(path: Path, held: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if isinstance(held, bytes):
        path.write_bytes(held)
        return path
    with closing(sqlite3.connect(path)) as database, database:
        for table, rows in held.items():
            database.execute(f"CREATE TABLE {table} (key TEXT, value TEXT)")
            told = [(key, json.dumps(value)) for key, value in rows]
            database.executemany(f"INSERT INTO {table} VALUES (?, ?)", told)
    return path


def _take(repository: Repository, agent: str, path: Path, raw: Path | None = None) -> None:
    report = Report()
    run = Run(repository, 1, report, None, keeps_thoughts=True, keep=Escrow(raw).keep if raw else None)
    run.take(agent, path)
    run.finish()
    repository.ripen()
    assert (report.failed, report.files) == ([], {"read": 1})


def _bodies(repository: Repository) -> list[Any]:
    rows = repository.connection.execute("SELECT kind, body FROM event ORDER BY seq").fetchall()
    return [log.body(stored) for kind, stored in rows if kind in ("turn", "session", "rewind")]


def _turns(repository: Repository) -> list[Any]:
    turns = [body for body in _bodies(repository) if "parts" in body]
    return sorted(turns, key=lambda turn: turn["session"])


def _state(repository: Repository, path: Path) -> Any:
    with repository.snapshot() as reading:
        known = cursors.find(reading.connection, path)
    assert known is not None
    return known.state


@pytest.mark.parametrize("words", SAID)
@forms
def test_what_is_stored_is_the_same_whatever_the_secret_was(agent, place, write, words, projects, tmp_path):
    """So nobody who holds it can try guesses at what was taken out."""
    told = []
    for secret in (ONE, OTHER):
        path, project = tmp_path / place, projects()
        _take(project, agent, _put(path, write(words.format(secret))))
        told.append((_bodies(project), _state(project, path)))
    assert told[0] == told[1]
    assert sum("parts" in body for body in told[0][0]) >= 2
    assert "[redacted:" in str(told[0][0])


@pytest.mark.parametrize("secret", [ONE, SHORT])
@pytest.mark.parametrize("words", SAID)
@forms
def test_what_is_built_again_from_copies_is_the_same(agent, place, write, words, secret, projects, tmp_path):
    path, first, again = _put(tmp_path / place, write(words.format(secret))), projects(), projects()
    _take(first, agent, path, tmp_path / "raw")
    copies = sorted((tmp_path / "raw").rglob("*.zst"))
    assert copies
    for copy in copies:
        _take(again, agent, copy)
    assert _turns(again) == _turns(first)
    assert sessions.digest(again.connection) == sessions.digest(first.connection)


TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.mark.parametrize("start", range(1, len(TOKEN) + 4, 4))
def test_no_secret_is_cut_before_it_is_known(start):
    """What is left of it would look like nothing."""
    output = f"{TOKEN}{' ' * start}{'x' * (CHARACTERS - len(TOKEN) - 4)}"
    for number in range(len(TOKEN)):
        assert TOKEN[number : number + 8] not in tail(output + "y" * number)
    assert tail(f"{TOKEN} then") == "[redacted:github-token] then"


def _pi_named(*ids: str) -> bytes:
    about = {"type": "message", "parentId": None, "timestamp": AT, "message": {"role": "user", "content": "yes"}}
    header = {"type": "session", "version": 3, "id": "p1", "cwd": "/w", "timestamp": AT}
    return lines([header, *({**about, "id": own} for own in ids)])


def _opencode_named(*ids: str) -> bytes:
    infos = [{"id": own, "role": "user", "time": {"created": MS}} for own in ids]
    messages = [{"info": info, "parts": [{"type": "text", "text": f"{n}"}]} for n, info in enumerate(infos)]
    return json.dumps({"info": {"id": "ses_1", "directory": "/w"}, "messages": messages}).encode()


def _copilot_named(*ids: str) -> bytes:
    return lines({"type": "user.message", "id": own, "timestamp": AT, "data": {"content": "yes"}} for own in ids)


def _chat_named(*ids: str) -> bytes:
    requests = [{"requestId": own, "message": {"text": f"{n}"}} for n, own in enumerate(ids)]
    return json.dumps({"version": 3, "sessionId": "v1", "creationDate": MS, "requests": requests}).encode()


def _gemini_named(*ids: str) -> bytes:
    said = ({"type": "user", "id": own, "content": "yes", "timestamp": AT} for own in ids)
    return lines([{"sessionId": "g1", "projectHash": "0" * 64, "startTime": AT}, *said])


#: Messages of one session, each with its id.
NAMED = {
    _pi: _pi_named,
    _opencode: _opencode_named,
    _copilot: _copilot_named,
    _chat: _chat_named,
    _gemini: _gemini_named,
}


@pytest.mark.parametrize("pair", [(ONE, OTHER), (TOKEN, TOKEN[:-1] + "9"), (f"{ONE} x", f"{OTHER}:x")])
@pytest.mark.parametrize(
    ("agent", "place", "write"), [(agent, place, NAMED[write]) for agent, place, write in FORMS if write in NAMED]
)
def test_ids_that_hold_secrets_name_two_turns_and_tell_neither(agent, place, write, pair, projects, tmp_path):
    path, first, again = _put(tmp_path / place, write(*pair)), projects(), projects()
    _take(first, agent, path, tmp_path / "raw")
    assert [len(_turns(first)), len({turn["key"] for turn in _turns(first)})] == [2, 2]
    assert not [secret for secret in pair if secret[9:] in str(_bodies(first))]
    for copy in (tmp_path / "raw").rglob("*.zst"):
        _take(again, agent, copy)
    assert _turns(again) == _turns(first)
