"""Calls in Codex's rollouts: upon what, how they ended, what they changed, and what it cost."""

from __future__ import annotations

import json

import pytest
from contracts.sources.codex_records import (
    PATCH,
    agent,
    at,
    called,
    count,
    done,
    event,
    meta,
    of,
    output,
    replies,
    said,
    take,
    user,
)

from bede.sources import patch
from bede.sources.port import Call, Result, Usage

ENDS = [
    ('{"output":"a\\n","metadata":{"exit_code":0,"duration_seconds":0.1}}', True, 0, False, ""),
    ('{"output":"no such\\n","metadata":{"exit_code":127}}', False, 127, False, "no such"),
    ("Exit code: 1\nWall time: 0.1 seconds\nOutput:\nbad\n", False, 1, False, "bad"),
    ("Chunk ID: 1\nWall time: 0.0 seconds\nProcess exited with code 2\nOutput:\nls: x\n", False, 2, False, "ls: x"),
    ("Wall time: 0.1 seconds\nOutput:\nExit code: 9\nProcess exited with code 9\n", None, None, False, ""),
    ("Chunk ID: 1\nWall time: 10 seconds\nProcess running with session ID 7\nOutput:\n", None, None, False, ""),
    ("Exit code: 0\nWall time: 0 seconds\nOutput:\nExit code: 3\n", True, 0, False, ""),
    (
        "failed in sandbox LinuxSeccomp with execution error: sandbox denied exec error, exit code: 2",
        False,
        None,
        False,
        None,
    ),
    ("execution error: Io", False, None, False, None),
    ("apply_patch verification failed: no lines", False, None, False, None),
    ("Command blocked by PreToolUse hook: no. Command: ls", False, None, True, None),
    ("exec command rejected by user", False, None, True, None),
    ("aborted by user after 2.3s", False, None, False, None),
    ({"content": "x", "success": False}, False, None, False, "x"),
    ({"content": "x", "success": True}, True, None, False, ""),
    ([{"type": "input_text", "text": "Script completed\nWall time 1\nOutput:\n"}], True, None, False, ""),
    (
        [{"type": "input_text", "text": "Exit code: 4\nOutput:\n"}, {"type": "input_text", "text": "e"}],
        False,
        4,
        False,
        "e",
    ),
    ("free text with Exit code: 5 in it", None, None, False, ""),
    ('{"exit_code": 3}', None, None, False, ""),
    (None, None, None, False, ""),
]


@pytest.mark.parametrize(("told", "ok", "status", "denied", "left"), ENDS)
def test_an_output_tells_how_a_call_ended(told: object, ok: object, status: object, denied: bool, left: object) -> None:
    result = of(take(called("shell", {"command": ["bash", "-lc", "x"]}), output(told)), Result)[0]
    assert (result.ok, result.exit_status, result.denied) == (ok, status, denied)
    assert result.output == (told if left is None else left)


def test_the_event_of_an_end_counts_before_the_output_and_after_it() -> None:
    call = called("exec_command", {"cmd": "cargo build"})
    ended = event("exec_command_end", call_id="c", exit_code=101, aggregated_output="error[E1]\n", status="failed")
    for records in ((call, ended, output("free text")), (call, output("free text"), ended)):
        results = of(take(*records), Result)
        assert results == [Result("c", False, 101, False, "error[E1]")]
    declined = event("exec_command_end", call_id="c", exit_code=-1, status="declined")
    assert of(take(call, declined), Result)[0].denied
    broken = event("mcp_tool_call_end", call_id="c", result={"Err": "user rejected MCP tool call"})
    assert of(take(call, broken), Result) == [Result("c", False, None, True, "user rejected MCP tool call")]


def test_only_the_end_of_a_failures_output_is_kept_and_nothing_of_a_success() -> None:
    lines = "\n".join(f"line {number}" for number in range(100))
    failed = take(called("shell", {"command": "x"}), output(f"Exit code: 1\nOutput:\n{lines}"))
    assert of(failed, Result)[0].output.split("\n") == [f"line {number}" for number in range(85, 100)]
    assert (
        of(take(called("shell", {"command": "x"}), output(f"Exit code: 0\nOutput:\n{lines}")), Result)[0].output == ""
    )


TARGETS = [
    ("shell", {"command": ["bash", "-lc", "ls -l"], "workdir": "/w"}, "ls -l", "shell"),
    ("shell", {"command": ["git", "log", "a b"]}, "git log 'a b'", "shell"),
    ("shell", {"command": [r"C:\bin\powershell.exe", "-Command", "dir"]}, "dir", "shell"),
    ("shell_command", {"command": "false"}, "false", "shell"),
    ("exec_command", {"cmd": "cat a"}, "cat a", "shell"),
    ("container.exec", {"cmd": ["ls"]}, "ls", "shell"),
    ("view_image", {"path": "a.png"}, "a.png", "read"),
    ("read_file", {"file_path": "/a", "offset": 1}, "/a", "read"),
    ("grep_files", {"pattern": "x+", "path": "src"}, "x+", "search"),
    ("spawn_agent", {"message": "do it"}, "do it", "task"),
    ("update_plan", {"plan": [], "explanation": "why"}, "", "other"),
    ("mcp__s__t", {"query": "q", "limit": 3}, "q", "mcp"),
    ("mcp__s__t", {"a": "q", "b": "r"}, "", "mcp"),
    ("never_seen", {"one": "x"}, "x", "other"),
    ("shell", "not json", "not json", "shell"),
]


@pytest.mark.parametrize(("tool", "arguments", "target", "sort"), TARGETS)
def test_a_call_tells_its_target(tool: str, arguments: object, target: str, sort: str) -> None:
    assert of(take(called(tool, arguments)), Call) == [Call("c", tool, target, sort)]


def test_calls_without_a_name_of_their_own() -> None:
    shell = {"type": "local_shell_call", "call_id": "a", "action": {"type": "exec", "command": ["bash", "-lc", "ls"]}}
    opened = {"type": "web_search_call", "id": "w", "action": {"type": "open_page", "url": "https://x.example"}}
    items = take(at(1, "response_item", shell), at(1, "response_item", opened))
    assert of(items, Call) == [
        Call("a", "local_shell", "ls", "shell"),
        Call("w", "web_search_call", "https://x.example", "web"),
    ]


@pytest.mark.parametrize(
    ("record", "target"),
    [
        (called("apply_patch", PATCH, kind="custom_tool_call"), "a.py"),
        (called("apply_patch", {"input": PATCH}), "a.py"),
        (called("shell", {"command": ["apply_patch", PATCH]}), "apply_patch a.py"),
        (
            called("shell", {"command": ["bash", "-lc", f"cd /w && applypatch << 'P'\n{PATCH}\nP\nmake"]}),
            "cd /w && applypatch << 'P'\na.py\nP\nmake",
        ),
        (called("exec_command", {"cmd": f"apply_patch <<'P'\n{PATCH}\nP"}), "apply_patch <<'P'\na.py\nP"),
        (
            called("exec", f"await tools.apply_patch({json.dumps(PATCH)});", kind="custom_tool_call"),
            'await tools.apply_patch("a.py");',
        ),
    ],
)
def test_a_patch_is_an_edit_however_it_is_handed_over(record: dict, target: str) -> None:
    call = of(take(record), Call)[0]
    assert call.edits == patch.edits(PATCH)
    assert call.target == target


def test_a_patch_that_is_only_shown_is_no_edit() -> None:
    assert (
        of(take(called("shell", {"command": ["bash", "-lc", f"cat > p.txt << 'P'\n{PATCH}\nP"]})), Call)[0].edits == ()
    )


def test_calls_from_within_a_script_are_known_by_their_events() -> None:
    changes = {"/w/a.py": {"type": "update", "unified_diff": "@@\n-x\n+y\n", "move_path": None}}
    items = take(
        called("exec", "await tools.exec_command({cmd}); await tools.apply_patch(p)", "e", "custom_tool_call"),
        done("CommandExecution", id="n1", command=["bash", "-lc", "make"], exit_code=2, aggregated_output="no rule"),
        done("FileChange", id="n2", changes=changes, status="completed"),
        done("McpToolCall", id="n3", server="s", tool="t", arguments={"q": "x"}, result={"isError": False}),
        output([{"type": "input_text", "text": "Script completed\nOutput:\n"}], "e", "custom_tool_call_output"),
    )
    calls = of(items, Call)
    assert [(call.tool, call.target) for call in calls[1:]] == [
        ("exec_command", "make"),
        ("apply_patch", "/w/a.py"),
        ("mcp__s.t", "x"),
    ]
    assert [edit.path for edit in calls[2].edits] == ["/w/a.py"]
    assert [(result.call, result.ok) for result in of(items, Result)] == [
        ("n1", False),
        ("n2", True),
        ("n3", True),
        ("e", True),
    ]


def test_changes_without_a_call_are_told_by_their_result() -> None:
    changes = {
        "a": {"type": "add", "content": "x\n"},
        "b": {"delete": {"content": "y"}},
        "c": {"type": "update", "move_path": "d"},
    }
    result = of(take(event("patch_apply_end", call_id="z", success=True, changes=changes)), Result)[0]
    assert [(edit.path, edit.operation, edit.moved_to) for edit in result.edits] == [
        ("a", "create", ""),
        ("b", "delete", ""),
        ("c", "move", "d"),
    ]


def test_an_id_that_is_used_twice_is_two_calls() -> None:
    items = take(
        called("shell", {"command": "a"}),
        output("Exit code: 0\n"),
        called("shell", {"command": "b"}),
        output("Exit code: 1\n"),
    )
    calls, results = of(items, Call), of(items, Result)
    assert [call.target for call in calls] == ["a", "b"]
    assert [result.call for result in results] == [call.call for call in calls]
    assert [result.exit_status for result in results] == [0, 1]


# --- tokens


def test_a_total_that_is_repeated_costs_nothing() -> None:
    spent = of(take(event("token_count", info=None), count(10, 10), count(10, 10), count(16, 6)), Usage)
    assert [(usage.input, usage.cache_read, usage.total) for usage in spent] == [(5, 5, 10), (3, 3, 16)]


def test_a_total_that_goes_back_makes_no_huge_or_negative_numbers() -> None:
    spent = of(take(count(1000), count(400), count(1200)), Usage)
    assert [usage.input + usage.cache_read for usage in spent] == [1000, 0, 800]
    assert [usage.total for usage in spent] == [1000, 400, 1200]
    told = of(take(count(1000, 1000), count(400, 400), count(1200, 800)), Usage)
    assert [usage.input + usage.cache_read for usage in told] == [1000, 400, 800]


def test_both_records_of_one_request_are_one_request() -> None:
    numbers = {"input_tokens": 120, "cached_input_tokens": 20, "output_tokens": 24, "total_tokens": 144}
    record = at(1, "token_usage_record", {"thread_id": "s", "usage": numbers, "thread_token_usage": numbers})
    again = event("token_count", info={"total_token_usage": numbers, "last_token_usage": numbers})
    assert of(take(meta(), record, again), Usage) == [Usage("", 100, 24, 20, 0, 0, 144)]


def test_a_paginated_history_may_hold_its_calls_only_as_completed_items() -> None:
    changes = {"/w/a.py": {"type": "add", "content": "x\n"}}
    items = take(
        meta(history_mode="paginated"),
        user("make it")[2],
        done("CommandExecution", id="n1", command=["bash", "-lc", "make"], exit_code=0, status="completed"),
        done("FileChange", id="n2", changes=changes, status="failed", stderr="refused"),
        agent("made")[2],
    )
    assert (said(items), replies(items)) == (["make it"], ["made"])
    assert [(call.call, call.tool, call.target) for call in of(items, Call)] == [
        ("n1", "exec_command", "make"),
        ("n2", "apply_patch", "/w/a.py"),
    ]
    assert of(items, Result) == [Result("n1", True, 0), Result("n2", False, output="refused")]


def test_what_runs_in_the_background_is_known_when_it_ends_much_later() -> None:
    running = output("Chunk ID: 1\nProcess running with session ID 7\nOutput:\n", "server")
    others = [
        record
        for number in range(200)
        for record in (called("shell", {"command": "x"}, f"c{number}"), output("Exit code: 0\n", f"c{number}"))
    ]
    ended = done("CommandExecution", id="server", command=["serve"], exit_code=143, status="failed")
    items = take(
        meta(history_mode="paginated"), called("exec_command", {"cmd": "serve"}, "server"), running, *others, ended
    )
    assert len(of(items, Call)) == 201
    assert [result.exit_status for result in of(items, Result) if result.call == "server"] == [143]
