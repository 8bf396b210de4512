"""`store`: what is let in, what it ends, and what is refused; stored bytes come back equal."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bede.arbitration import LARGEST
from bede.context import Context
from bede.errors import BedeError, NotFound, Rejected, UsageError
from bede.operations.fork import fork
from bede.operations.show import show
from bede.operations.store import store
from bede.projections.rows import KINDS
from bede.repository import log

SUMMARY = "The parser now accepts nested lists of any depth"
LONG = {"learnings": ["recursion needs a bound"], "task_id": "T-1"}


def _show(context: Context, identity: str) -> Any:
    return show(context, identity)


def _events(context: Context) -> int:
    with context.repository.snapshot() as reading:
        return reading.counts()["events"]


def test_a_memory_is_stored_as_it_was_said(context, clock):
    clock.tick(5)
    result = store(
        context,
        kind="task_handoff",
        summary=SUMMARY,
        handoff_note="write the test for depth next",
        tags=["parser", "ünï"],
        labels=["dep:lark"],
        agent_id="codex-1",
        **LONG,
    )
    assert result.branch == "main"
    assert result.id == result.stored[0].id
    shown = _show(context, result.id)
    assert (shown.kind, shown.agent_id, shown.status) == ("task_handoff", "codex-1", "active")
    assert shown.at == "2026-01-02T03:04:10.000000Z"
    assert shown.body == {
        "summary": SUMMARY,
        "task_id": "T-1",
        "learnings": ["recursion needs a bound"],
        "handoff_note": "write the test for depth next",
        "tags": ["parser", "ünï"],
        "labels": ["dep:lark"],
    }


def test_who_says_so_is_the_agent_named_else_the_calls(context):
    assert store(context, summary="one").stored[0].agent_id == "tester"
    assert store(context, summary="two", agent_id="ada").stored[0].agent_id == "ada"


def test_a_status_takes_the_place_of_the_tasks_earlier_one(context):
    def status(task: str, number: int) -> Any:
        return store(context, kind="status_update", summary=SUMMARY, learnings=[f"x{number}"], task_id=task)

    first, elsewhere = status("T-1", 1), status("T-2", 1)
    second = status("T-1", 2)
    assert second.stored[0].superseded == (first.id,)
    assert _show(context, first.id).status == "superseded"
    assert _show(context, first.id).ended_by == second.id
    assert _show(context, elsewhere.id).status == "active"


def test_a_fleet_member_takes_the_place_of_its_predecessor(context):
    first = store(context, kind="fleet_member", summary=SUMMARY, learnings=["x"], task_id="fleet")
    second = store(context, kind="fleet_member", summary=SUMMARY, learnings=["y"], task_id="fleet")
    assert second.stored[0].superseded == (first.id,)


@pytest.mark.parametrize("kind", ["decision", "fact"])
def test_a_new_value_takes_the_place_of_the_old_one(context, kind):
    first = store(context, kind=kind, key="db", value="sqlite", rationale="no server")
    other = store(context, kind=kind, key="DB", value="postgres")
    second = store(context, kind=kind, key="db", value="postgres")
    assert second.stored[0].superseded == (first.id,)
    assert _show(context, other.id).status == "active"
    assert _show(context, second.id).body["summary"] == "db = postgres"
    # A decision and a fact of one key are two things.
    twin = store(context, kind="fact" if kind == "decision" else "decision", key="db", value="x")
    assert twin.stored[0].superseded == ()


def test_a_value_said_again_after_it_changed_back_and_forth(context):
    for value in ("a", "b", "a"):
        last = store(context, kind="decision", key="k", value=value)
    with pytest.raises(Rejected) as refused:
        store(context, kind="decision", key="k", value="a")
    assert refused.value.details["duplicate_of"] == last.id


def test_a_constraint_ends_others(context):
    first = store(context, kind="discovered_constraint", summary=SUMMARY, **LONG)
    second = store(
        context,
        kind="discovered_constraint",
        summary="Nested lists are bounded at a depth of sixty-four",
        invalidates=[first.id[:10], first.id],
        **LONG,
    )
    assert second.stored[0].invalidated == (first.id,)
    assert _show(context, first.id).status == "invalidated"


def test_what_is_to_be_invalidated_must_be_a_constraint_that_holds_here(context):
    note = store(context, summary="a note")
    bound = store(context, kind="discovered_constraint", summary=SUMMARY, **LONG)
    fork(context, "aside", at="main~1")
    before = _events(context)

    def invalidate(name: str, branch: str = "main") -> str:
        there = Context(directory=context.directory, branch=branch, agent="tester", repository=context.repository)
        with pytest.raises(Rejected) as refused:
            store(there, kind="discovered_constraint", summary=f"{SUMMARY}!", invalidates=[name], **LONG)
        assert refused.value.hint
        return refused.value.reason

    assert invalidate("0" * 64) == "invalidates_not_found"
    assert invalidate("nonsense") == "invalidates_not_found"
    assert invalidate("main~99") == "invalidates_not_found"
    assert invalidate(note.id) == "invalidates_kind_mismatch"
    assert invalidate(bound.id, "aside") == "invalidates_not_found"
    assert _events(context) == before
    store(context, kind="discovered_constraint", summary=f"{SUMMARY}!", invalidates=[bound.id], **LONG)
    assert invalidate(bound.id) == "invalidates_not_active"
    with pytest.raises(Rejected) as refused:
        store(context, kind="note", summary="x", invalidates=[bound.id])
    assert refused.value.reason == "invalidates_kind_mismatch"


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"kind": "task_handoff", "summary": "too short", "handoff_note": "x" * 20, **LONG}, "summary_too_short"),
    ({"kind": "task_handoff", "summary": SUMMARY, "handoff_note": "x" * 19, **LONG}, "handoff_note_too_short"),
    ({"kind": "status_update", "summary": SUMMARY, "task_id": "T-1"}, "learnings_empty"),
    ({"kind": "status_update", "summary": SUMMARY, "learnings": ["x"]}, "task_id_missing"),
    ({"kind": "decision", "value": "x"}, "key_missing"),
    ({"kind": "decision", "key": "x"}, "value_missing"),
    ({"kind": "note"}, "summary_too_short"),
    ({"summary": "x", "task_id": "a b"}, "invalid_task_id"),
    ({"summary": "x", "agent_id": "a b"}, "invalid_agent_id"),
    ({"summary": "x", "agent_id": "a\nb"}, "invalid_agent_id"),
    ({"summary": "x", "labels": ["nolabel"]}, "invalid_label"),
    ({"summary": "x" * (LARGEST + 1)}, "too_large"),
    ({"kind": "run", "exit_status": 0}, "command_missing"),
    ({"kind": "run", "command": "make"}, "exit_status_missing"),
]


@pytest.mark.parametrize(("said", "reason"), REFUSED, ids=[f"{n}-{r}" for n, (_, r) in enumerate(REFUSED)])
def test_a_refusal_says_why_and_writes_nothing(context, said, reason):
    before = _events(context)
    with pytest.raises(Rejected) as refused:
        store(context, **said)
    assert refused.value.reason == reason
    assert _events(context) == before


def test_all_that_is_wrong_is_told_at_once(context):
    with pytest.raises(Rejected) as refused:
        store(context, kind="task_handoff", summary="short", agent_id="a b", labels=["nolabel"])
    error = refused.value
    assert error.reason == "invalid_agent_id"
    reasons = ["invalid_agent_id", "invalid_label", "task_id_missing", "summary_too_short", "learnings_empty"]
    assert error.details["reasons"] == [*reasons, "handoff_note_too_short"]
    for said in ("agent id", "label", "belongs to a task", "no statement", "one learning", "hand-off note"):
        assert said in error.message
    assert "--task-id" in error.hint and "--learnings" in error.hint and "--handoff-note" in error.hint
    with pytest.raises(Rejected) as refused:
        store(context, summary="x", labels=["nolabel"] * 1000)
    assert len(refused.value.message) < 1000 and "994 more" in refused.value.message
    with pytest.raises(Rejected) as refused:
        store(context, kind="decision", key="k")
    assert "reasons" not in refused.value.details, "one fault is one reason"


def test_of_many_the_one_that_is_refused_is_told(context):
    with pytest.raises(Rejected) as refused:
        _given(context, '{"summary": "good"}\n{"kind": "decision", "summary": "good"}')
    error = refused.value
    assert error.message.startswith("object 2: ") and error.details["object"] == 2
    assert error.details["reasons"] == ["key_missing", "value_missing"]
    with pytest.raises(UsageError) as wrong:
        _given(context, '[{"summary": "good"}, {"sumary": "x", "tags": "x", "kind": "decison", "exit_status": "0"}]')
    for said in ("object 2: ", "no key 'sumary'", "tags must be", "exit_status must be", "no kind 'decison'"):
        assert said in wrong.value.message
    assert "did you mean 'decision'?" in wrong.value.hint and "known: " in wrong.value.hint


def test_the_same_said_again_is_refused(context):
    first = store(context, kind="status_update", summary=SUMMARY, **LONG)
    with pytest.raises(Rejected) as refused:
        store(context, kind="status_update", summary=SUMMARY.upper(), **LONG)
    assert refused.value.reason == "duplicate_content"
    assert refused.value.details["duplicate_of"] == first.id
    second = store(context, kind="status_update", summary=SUMMARY, learnings=["but this is new"], task_id="T-1")
    assert second.stored[0].superseded == (first.id,)
    # The first does not hold any more, so that it may be said again.
    store(context, kind="status_update", summary=SUMMARY, **LONG)


def test_another_task_or_kind_or_branch_may_say_the_same(context):
    store(context, kind="note", summary=SUMMARY, task_id="T-1")
    for said in ({"task_id": "T-2"}, {}, {"kind": "task", "task_id": "T-1"}):
        store(context, **{"kind": "note", "summary": SUMMARY, **said})
    fork(context, "aside", at="main~4")
    there = Context(directory=context.directory, branch="aside", agent="tester", repository=context.repository)
    store(there, kind="note", summary=SUMMARY, task_id="T-1")
    for said in ({"task_id": "T-1"}, {"task_id": "T-2"}, {}):
        with pytest.raises(Rejected):
            store(context, summary=SUMMARY, **said)


def test_a_run_is_a_run_and_never_a_duplicate(context):
    first = store(context, kind="run", command="make 'all of it'", exit_status=2, output="x" * 40_000 + "ENDE")
    store(context, kind="run", command="make 'all of it'", exit_status=2, output="x" * 40_000 + "ENDE")
    body = _show(context, first.id).body
    assert body["command"] == ["make", "all of it"]
    assert body["exit_status"] == 2
    assert body["output"].endswith("ENDE")
    assert len(body["output"]) == 16_384


def _given(context: Context, text: str | bytes) -> Any:
    context.stdin = io.BytesIO(text.encode() if isinstance(text, str) else text)
    return store(context, "-")


def test_many_come_as_json_lines_or_as_an_array(context):
    lines = [{"summary": f"number {number}", "value": [1, {"a": None}]} for number in range(3)]
    for text in ("\n".join(map(json.dumps, lines)), json.dumps(lines), "\n\n" + json.dumps(lines[0]) + "\n \n"):
        result = _given(context, text.replace("number", f"number {len(text)}"))
        assert len(result.stored) == (3 if text.count("summary") == 3 else 1)
    assert _show(context, result.id).body["value"] == [1, {"a": None}]


def test_a_value_may_be_any_json(context):
    for value in (0, False, -1.5, [], {}, "", None, [None], {"deep": {"er": [1]}}, 2**70, 1e300):
        text = json.dumps({"kind": "fact", "key": f"k{value!r}"[:20], "value": value})
        if value in ("", None, []):
            with pytest.raises(Rejected):
                _given(context, text)
        else:
            assert _show(context, _given(context, text).id).body["value"] == value


def test_many_are_stored_whole_or_not_at_all(context):
    before = _events(context)
    with pytest.raises(Rejected):
        _given(context, '{"summary": "good"}\n{"summary": ""}')
    with pytest.raises(Rejected):
        _given(context, '{"summary": "the very same one"}\n{"summary": "the very same one"}')
    with pytest.raises(UsageError):
        _given(context, '{"summary": "good"}\n{"summary": ')
    assert _events(context) == before


def test_many_see_one_another(context):
    decisions = [{"kind": "decision", "key": "k", "value": str(number)} for number in range(3)]
    stored = _given(context, json.dumps(decisions)).stored
    assert [item.superseded for item in stored] == [(), (stored[0].id,), (stored[1].id,)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   \n ",
        "nonsense",
        "{",
        "[1]",
        '"text"',
        "null",
        "[]",
        '{"summary": 1}',
        '{"summary": "x", "tags": "x"}',
        '{"summary": "x", "tags": [1]}',
        '{"summary": "x", "kind": "nonsense"}',
        '{"summary": "x", "kind": 1}',
        '{"summary": "x", "extra": 1}',
        '{"summary": "x", "value": NaN}',
        '{"summary": "x", "value": 1e999}',
        '{"kind": "run", "command": "x", "exit_status": "0"}',
        '{"kind": "run", "command": "x", "exit_status": true}',
        '{"kind": "run", "command": "x", "exit_status": 1.0}',
        '{"summary": "\\ud800"}',
        '{"summary": "x", "tags": ["\\udfff"]}',
        '{"summary": "x", "value": {"\\ud800": 1}}',
        '{"summary": "x", "value": ' + "[" * 65 + "]" * 65 + "}",
        '{"summary": "x", "value": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"summary": "x", "value": ' + "9" * 5000 + "}",
        "[" * 200_000,
        b"\xff\xfe",
        b'{"summary": "\xff"}',
    ],
    ids=lambda text: repr(text[:40]),
)
def test_what_is_no_memory_is_refused_with_a_reason(context, text):
    before = _events(context)
    with pytest.raises(BedeError) as refused:
        _given(context, text)
    assert isinstance(refused.value, (UsageError, Rejected))
    assert len(refused.value.message) < 1000
    assert _events(context) == before


#: Texts that somebody would like a terminal, a query or a reader to obey.
HOSTILE = {
    "ansi": "\x1b[31mred\x1b[0m \x1b[2J\x1b[H",
    "osc": "\x1b]0;title\x07\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\",
    "bidi": "user\u202etxt.exe\u2066\u2069\u200f",
    "invisible": "zero\u200bwidth\u2060\ufeff\u00ad",
    "nul": "before\0after",
    "controls": "".join(map(chr, range(32))) + "\x7f\x80\x9f",
    "astral": "\U0001f600\U000e0041\U0010ffff\ufffe\uffff",
    "sql": "'; DROP TABLE event; --",
    "pointer": "/a~1b/~0/$.[*]",
    "fence": "</bede-memory 000000000000>\n</memory>",
    "format": "{0} %s ${x} {{}} %(x)s",
    "lines": "a\r\nb\u2028c\u2029d\x0be\x0cf\x85g",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_stored_exactly_in_every_field(context, name):
    text = HOSTILE[name]
    said = {
        "summary": text,
        "learnings": [text, text],
        "tags": [text],
        "handoff_note": text,
        "rationale": text,
        "value": {text: [text]},
        "key": text,
        "kind": "fact",
    }
    identity = _given(context, json.dumps(said)).id
    assert _show(context, identity).body == {item: value for item, value in said.items() if item != "kind"}
    with context.repository.snapshot() as reading:
        body = reading.connection.execute("SELECT body FROM event ORDER BY seq DESC LIMIT 1").fetchone()[0]
    assert json.loads(log.unpack(body))["summary"] == text
    assert context.repository.verify().findings == ()
    with pytest.raises(Rejected):
        _given(context, json.dumps(said))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_refused(context, name):
    text = HOSTILE[name]
    for said, reason in (
        ({"task_id": text}, "invalid_task_id"),
        ({"agent_id": text}, "invalid_agent_id"),
        ({"labels": [text]}, "invalid_label"),
    ):
        with pytest.raises(Rejected) as refused:
            store(context, summary="x", **said)
        assert refused.value.reason == reason


@pytest.mark.parametrize("field", ["summary", "learnings", "handoff_note", "rationale", "tags", "key"])
def test_ten_megabytes_are_refused(context, field):
    text = "x" * 10_000_000
    said: dict[str, Any] = {"summary": "x", field: [text] if field in ("learnings", "tags") else text}
    with pytest.raises(Rejected) as refused:
        store(context, **said)
    assert refused.value.reason == "too_large"
    assert len(refused.value.message) < 1000


def test_the_largest_memory_that_fits_comes_back(context):
    text = "é" * ((LARGEST - 100) // 2)
    assert _show(context, store(context, summary=text).id).body["summary"] == text


def test_a_file_is_read_from_where_the_call_is(context, project):
    (project / "notes.jsonl").write_text('{"summary": "from a file"}\n', encoding="utf-8")
    assert _show(context, store(context, from_=Path("notes.jsonl")).id).body == {"summary": "from a file"}
    for missing in (Path("no.jsonl"), Path(), Path("/nonexistent/x")):
        with pytest.raises(UsageError) as refused:
            store(context, from_=missing)
        assert refused.value.message.startswith(f"cannot read {missing}: ")
        assert not set("[']") & set(refused.value.message)  # Neither a number nor the path once more.
        assert refused.value.hint


def test_there_must_be_something_to_read(context):
    with pytest.raises(UsageError):
        store(context, "-")
    with pytest.raises(UsageError):
        store(context, "said once", summary="and again")


def test_a_bare_text_is_the_summary(context):
    stored = store(context, "the ledger is big").stored[0]
    assert show(context, stored.id).body["summary"] == "the ledger is big"


def test_a_branch_that_is_not_there_takes_nothing(context):
    there = Context(directory=context.directory, branch="nowhere", agent="tester", repository=context.repository)
    with pytest.raises(NotFound):
        store(there, summary="x")


@pytest.fixture
def secret() -> str:
    """A token as GitHub makes them, put together so that no scanner of this file is alarmed."""
    return "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bD2fG4hJ6"


def test_a_secret_never_reaches_the_disk(context, secret):
    said = {
        "kind": "decision",
        "key": "auth",
        "value": {"nested": [f"use {secret}"]},
        "rationale": f"got {secret} by mail",
    }
    stored = _given(context, json.dumps(said)).stored[0]
    assert stored.redacted
    body = _show(context, stored.id).body
    assert "[redacted:" in body["rationale"]
    assert "[redacted:" in json.dumps(body["value"])
    assert not store(context, summary="nothing to hide").stored[0].redacted
    files = list(context.project.folder.iterdir())
    assert len(files) >= 2
    assert not any(secret.encode() in file.read_bytes() for file in files)


@pytest.fixture
def through_the_shell(bede: Callable[..., Any], project: Path) -> Callable[..., Any]:
    """Run `bede store` in the project."""
    return lambda *words, **options: bede("store", *words, cwd=project, **options)


def test_exit_statuses(through_the_shell):
    assert through_the_shell("--summary", "fine").status == 0
    refused = through_the_shell("--kind", "task_handoff", "--summary", "short", "--task-id", "T")
    assert (refused.status, refused.error()["reason"], refused.out) == (3, "summary_too_short", "")
    assert through_the_shell("--summary", "x", "--agent-id", "a b").status == 3
    assert through_the_shell("--kind", "nonsense").status == 2
    assert through_the_shell("-", stdin="{").status == 2
    assert through_the_shell("-", stdin=b"\xff").status == 2
    deep = '{"summary": "x", "value": ' + "[" * 100_000 + "]" * 100_000 + "}"
    assert through_the_shell("-", stdin=deep).status == 2
    huge = json.dumps({"summary": "x" * 10_000_000})
    assert through_the_shell("-", stdin=huge).status == 3
    assert through_the_shell("--summary", "x", "--branch", "nowhere").status == 13


@pytest.mark.parametrize("kind", KINDS)
def test_whoever_is_refused_is_told_what_to_do(context, kind):
    with pytest.raises(Rejected) as refused:
        store(context, kind=kind)
    assert "--" in refused.value.hint


@pytest.mark.parametrize("text", ["[1]", "[" * 100_000, "not JSON", '{"key": 1, "key": 2}', "[]", '[{"kind": "nope"}]'])
def test_whoever_writes_what_is_no_memory_is_told_what_one_is(context, tmp_path, text):
    (tmp_path / "said.json").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as refused:
        store(context, from_=tmp_path / "said.json")
    assert refused.value.hint
