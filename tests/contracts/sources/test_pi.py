"""pi and Oh My Pi: every count of the samples that follows from items, the tree, the traps, and hostile records."""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bede.sources import jsonl, omp, pi
from bede.sources.pi import branching
from bede.sources.port import Call, Item, Prompt, Reply, Result, Session, Spot, Tally, Thought, Usage, World

SHARED = Path(__file__).resolve().parents[4] / "shared"
SAMPLES, LIVE = SHARED / "transcripts", SHARED / "transcripts-live"
present = pytest.mark.skipif(not SAMPLES.exists(), reason="the samples of transcripts are not beside this checkout")
live = pytest.mark.skipif(not LIVE.exists(), reason="the recorded sessions are not beside this checkout")

LARGE = "pi/badlogic__pi-mono/packages/coding-agent/test/fixtures/large-session.jsonl"
SMALL = "pi/jazzyalex__agent-sessions/Resources/Fixtures/stage0/agents/pi/small.jsonl"
IDE = "omp/pinion05__agent-complex-task/sessions/04-awesome-agent-ide/session.jsonl"
TITLED = "synthetic/omp/sessions/-omp/2026-08-01T00-00-00-000Z_019f8888aaaabbbb.jsonl"


def read(path: Path, agent: ModuleType, tally: Tally | None = None) -> list[Item]:
    with path.open("rb") as file:
        return taken(file.read(), path, agent, tally or Tally())


def taken(text: bytes, path: Path, agent: ModuleType, tally: Tally, state: dict[str, Any] | None = None) -> list[Item]:
    state = {} if state is None else state
    items: list[Item] = []
    for spot, record in jsonl.records(io.BytesIO(text), path, jsonl.Cursor(), tally):
        items.extend(agent.take(record, spot, state, tally))
    return items


def lines(*records: Any) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def of(items: list[Item], kind: type) -> list[Any]:
    return [item.what for item in items if isinstance(item.what, kind)]


def said(items: list[Item], speaker: str = "human") -> list[str]:
    return [prompt.text for prompt in of(items, Prompt) if prompt.speaker == speaker]


def micro(text: str) -> int:
    at, _ = branching.moment(text)
    assert at is not None
    return at


HEADER = {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-05-01T00:00:00.000Z", "cwd": "/p"}


def entry(name: str | None, parent: str | None, text: str = "", **more: Any) -> dict[str, Any]:
    body = {"type": "message", "timestamp": "2026-05-01T00:00:01.000Z", "message": {"role": "user", "content": text}}
    return {**body, **({} if name is None else {"id": name, "parentId": parent}), **more}


def talk(*entries: Any, agent: ModuleType = pi) -> list[Item]:
    return taken(lines(HEADER, *entries), Path("2026-05-01T00-00-00-000Z_s1.jsonl"), agent, Tally())


# Samples


@present
@pytest.mark.parametrize(("name", "agent"), [(LARGE, pi), (SMALL, pi), (IDE, omp)])
def test_all_counts_of_a_real_session_are_found(name: str, agent: ModuleType) -> None:
    wanted = json.loads((SAMPLES / "expected.json").read_text())[name]
    tally = Tally()
    items = read(SAMPLES / name, agent, tally)
    calls, results, usages = of(items, Call), of(items, Result), of(items, Usage)
    replies = [reply for reply in of(items, Reply) if not reply.is_error]
    prompts = said(items)
    assert dict(tally.types) == wanted["record_types"]
    assert sum(tally.types.values()) == wanted["records"]
    assert sum(tally.problems.values()) == wanted["bad_lines"]
    assert [item.session for item in items if item.key == "session"][:1] == wanted["session_ids"]
    assert {item.session for item in items} == set(wanted["session_ids"])
    assert [of(items, Session)[-1].cwd] == wanted["cwd"]
    assert {session.parent for session in of(items, Session)} == {""}
    assert len(prompts) == wanted["user_prompts"] and prompts[0].startswith(wanted["first_prompt"])
    assert len(replies) == wanted["assistant_texts"]
    assert len(of(items, Thought)) == wanted["thinking_blocks"]
    assert Counter(call.tool for call in calls) == wanted["tool_calls_by_name"]
    assert len(calls) == wanted["tool_calls"] and len(results) == wanted["tool_results"]
    assert sum(result.ok is False for result in results) == wanted["tool_errors"]
    answered = {result.call for result in results}
    assert sum(call.call not in answered for call in calls) == wanted["tool_calls_without_result"]
    assert len(said(items, "bang")) == wanted["bash_executions"]
    stops = wanted["stop_reasons"]
    assert len(said(items, "interrupt")) == stops.get("aborted", 0)
    assert sum(reply.is_error for reply in of(items, Reply)) == stops.get("error", 0)
    totals = [
        sum(getattr(usage, name) for usage in usages) for name in ("input", "output", "cache_read", "cache_write")
    ]
    assert totals == [wanted["usage"][name] for name in ("input", "output", "cacheRead", "cacheWrite")]
    assert {usage.model for usage in usages} <= set(wanted["models"]) and {reply.model for reply in replies} <= set(
        wanted["models"]
    )
    times = [item.at for item in items if item.at is not None]
    assert min(times) == micro(wanted["first_timestamp"]) and max(times) == micro(wanted["last_timestamp"])
    assert {item.precision for item in items} == {"ms"}
    assert not any(result.denied for result in results)
    assert len({item.key for item in items if item.key != "session"}) == sum(item.key != "session" for item in items)


@present
@pytest.mark.parametrize(("name", "agent"), [(LARGE, pi), (SMALL, pi), (IDE, omp)])
def test_all_edits_of_a_real_session_are_found(name: str, agent: ModuleType) -> None:
    wanted = json.loads((SAMPLES / "expected.json").read_text())[name]
    items = read(SAMPLES / name, agent)
    edits = [call for call in of(items, Call) if call.sort in ("edit", "create")]
    fine = {result.call for result in of(items, Result) if result.ok}
    assert Counter(call.tool for call in edits) == wanted["file_edit_calls"]
    assert all(call.edits for call in edits)
    assert all(edit.path for call in edits for edit in call.edits)
    done = {edit.path for call in edits if call.call in fine for edit in call.edits}
    assert len(done) == wanted["distinct_files_edited_ok"]
    assert len({edit.path for call in edits for edit in call.edits}) == wanted["distinct_files_targeted"]
    assert sum(bool(edit.old) for call in edits for edit in call.edits if call.tool == "edit") == (
        146 if name == LARGE else 0
    )


@present
def test_exit_statuses_are_those_that_the_text_tells() -> None:
    items = read(SAMPLES / LARGE, pi)
    shells = {call.call for call in of(items, Call) if call.tool == "bash"}
    statuses = Counter(result.exit_status for result in of(items, Result) if result.call in shells)
    assert statuses == {0: 173, 1: 14, 2: 3, None: 2}  # None: two commands that a person aborted
    assert all(len(result.output.splitlines()) <= 15 for result in of(items, Result))
    assert not any(result.output for result in of(items, Result) if result.ok)


@present
def test_the_active_path_of_the_samples() -> None:
    expected = json.loads((SAMPLES / "expected.json").read_text())
    tally = Tally()
    items = read(SAMPLES / SMALL, pi, tally)
    entries = {item.key.split(":")[0] for item in items if item.key in branching.active(items)} - {"session"}
    links = tally.types["model_change"] + tally.types["thinking_level_change"]
    assert len(entries) + links == expected[SMALL]["entries_on_active_path"]
    items = read(SAMPLES / IDE, omp)
    path = branching.active(items)
    assert path == {item.key for item in items}  # nothing was abandoned; a lost line drops nothing above it
    lost = 44  # the line that its publisher broke; from there up its path cannot be followed by parents alone
    assert expected[IDE]["physical_lines"] - lost == expected[IDE]["entries_on_active_path"]
    below = next(item for item in items if item.line > lost)
    assert below.parent == [item.key for item in items if item.line < lost][-1]


@present
def test_the_made_session_with_a_title_slot_and_an_abandoned_branch() -> None:
    wanted = json.loads((SAMPLES / "synthetic" / "expected_handmade.json").read_text())[
        TITLED.removeprefix("synthetic/")
    ]
    path = SAMPLES / TITLED
    assert omp.accepts(path, path.read_bytes()) and not pi.accepts(path, path.read_bytes())
    items = read(path, omp)
    shown = [item for item in items if item.key in branching.active(items)]
    assert len(said(items)) == wanted["user_prompts_all"] and said(shown) == ["try B instead"]
    assert len(said(shown)) == wanted["user_prompts_active_path"]
    assert [reply.text for reply in of(items, Reply)] == ["A done", "B done"]
    assert len(of(items, Reply)) == wanted["assistant_texts_all"] and len(of(items, Call)) == wanted["tool_calls"]
    assert {item.session for item in items} == {wanted["session_id"]}
    heads = [item for item in items if not item.parent and item.key != "session"]
    assert len(heads) - 1 == wanted["fork_points"]
    assert said(items, "injected") == ["<system-reminder>tree</system-reminder>"]
    assert of(items, Session)[-1] == Session("omp", model="model-x", cwd="/home/alice/omp", title="Demo")


@live
@pytest.mark.parametrize("run", ["start", "resume", "deny", "inject"])
@pytest.mark.parametrize("agent", [pi, omp])
def test_a_recorded_session_is_told_as_it_was(agent: ModuleType, run: str) -> None:
    folder = LIVE / agent.AGENT / run
    wanted = json.loads((folder / "expected.json").read_text())
    (name,) = wanted["files"]
    path = folder / name
    assert list(agent.find(World({}, folder / "home", "linux"))) == [path]
    assert agent.accepts(path, path.read_bytes()[:65536])
    items = read(path, agent)
    turns = wanted["turns"]
    assert {item.session for item in items} == {wanted["session_id"]}
    assert of(items, Session)[-1] == Session(agent.AGENT, model="scripted-model", cwd=wanted["cwd"])
    assert said(items) == [turn["prompt_as_stored"] for turn in turns]
    assert [reply.text for reply in of(items, Reply)] == [text for turn in turns for text in turn["assistant_texts"]]
    results = {result.call: result for result in of(items, Result)}
    asked = [call for turn in turns for call in turn["tool_calls"]]
    assert [call.call for call in of(items, Call)] == [call["id"] for call in asked]
    for call, told in zip(of(items, Call), asked, strict=True):
        result = results[call.call]
        assert (call.tool, call.sort) == (told["tool"], told["kind"])
        assert (result.ok, result.denied, result.exit_status) == (told["ok"], told["denied"], told["exit_code"])
        assert call.target in (*told["args"].values(), told["path"])
        assert not told["denied"] or result.output in turns[0]["refused_by_hooks"]
    changed = {edit.path for call in of(items, Call) if results[call.call].ok for edit in call.edits}
    assert {path.removeprefix("/home/dev/shop/") for path in changed} == {
        name for turn in turns for name in turn["edited_files"]
    }
    spoken = "\n".join([*said(items), *(reply.text for reply in of(items, Reply))])
    hooked = [text for turn in turns for text in turn["injected_by_hooks"]]
    assert not any(text in spoken for text in hooked)
    assert all(text in "\n".join(said(items, "injected")) for text in hooked if "AFTER-TOOL" not in text)
    first, last = micro(turns[0]["started"]) - 1_000_000, micro(turns[-1]["ended"]) + 1_000_000
    assert all(item.at is not None and first <= item.at <= last for item in items)
    assert branching.active(items) == {item.key for item in items}


@live
def test_what_omp_changed_is_told_by_its_result() -> None:
    (path,) = (LIVE / "omp" / "start" / "home").rglob("*.jsonl")
    (done,) = [result.edits for result in of(read(path, omp), Result) if result.edits]
    assert (done[0].path, done[0].operation) == ("/home/dev/shop/discount.py", "update")
    assert "+3|RATE = 0.10" in done[0].patch


@present
@pytest.mark.parametrize(("name", "agent"), [(LARGE, pi), (SMALL, pi), (IDE, omp), (TITLED, omp)])
def test_wherever_the_file_is_cut_the_same_items_come_out(name: str, agent: ModuleType) -> None:
    path = SAMPLES / name
    text, whole = path.read_bytes(), read(path, agent)
    chance = random.Random(name)
    for _ in range(3):
        cuts = sorted(chance.randrange(len(text)) for _ in range(8))
        items: list[Item] = []
        cursor, state = jsonl.Cursor(), "{}"
        for cut in [*cuts, len(text)]:
            known = json.loads(state)
            for spot, record in jsonl.records(io.BytesIO(text[:cut]), path, cursor, Tally()):
                items.extend(agent.take(record, spot, known, Tally()))
            state = json.dumps(known)
        assert items == whole
        assert len(state) < 200_000


# The tree


def test_links_lead_to_the_nearest_item() -> None:
    link = {"type": "label", "id": "l1", "parentId": "a", "timestamp": "2026-05-01T00:00:02.000Z"}
    items = talk(entry("a", None, "one"), link, {**link, "id": "l2", "parentId": "l1"}, entry("b", "l2", "two"))
    assert [(item.key, item.parent) for item in items[1:]] == [("a", ""), ("b", "a")]


def test_a_branch_that_was_left_is_not_active_but_is_there() -> None:
    items = talk(entry("a", None, "1"), entry("b", "a", "2"), entry("c", "b", "3"), entry("d", "a", "4"))
    assert branching.active(items) == {"session", "a", "d"}
    assert said(items) == ["1", "2", "3", "4"]


def test_a_lost_parent_does_not_drop_what_stands_above() -> None:
    items = talk(entry("a", None, "1"), entry("c", "lost", "2"), entry("d", "c", "3"))
    assert branching.active(items) == {"session", "a", "c", "d"}
    assert branching.active(items[:1]) == {"session"} and branching.active([]) == set()
    assert branching.active([item for item in items if item.key != "c"]) == {"session", "a", "d"}


def test_version_1_is_one_line() -> None:
    items = talk(entry(None, None, "1"), {"type": "model_change", "modelId": "m"}, entry(None, None, "2"))
    first, second = (item for item in items if item.key != "session")
    assert second.parent == first.key and first.parent == ""
    assert branching.active(items) == {"session", first.key, second.key}


def test_an_id_that_is_used_twice_is_two_things() -> None:
    items = talk(entry("a", None, "1"), entry("a", "a", "2"), entry("b", "a", "3"), entry("b", "b", "4"))
    assert len({item.key for item in items}) == 5
    assert branching.active(items) == {item.key for item in items}


def test_cycles_and_loops_end() -> None:
    items = talk(entry("a", "a", "1"), entry("b", "c", "2"), entry("c", "b", "3"), entry("d", None, "4"))
    assert all(item.parent != item.key for item in items)
    ring = [Item("s", "x", Prompt("1", "human"), parent="y"), Item("s", "y", Prompt("2", "human"), parent="x")]
    assert branching.active(ring) == {"x", "y"}


def test_strange_ids_are_not_keys() -> None:
    for name in ("session", "a:0", "@1.0", "", "x" * 999, "\ud83d", 7, None, [], {}):
        items = talk(entry("a", None, "1"), {**entry("b", "a", "2"), "id": name})
        assert len({item.key for item in items}) == 3 and items[-1].parent == "a"
        assert items[-1].key.startswith("@")


def test_what_is_remembered_is_bounded() -> None:
    state: dict[str, Any] = {}
    for number in range(branching.REMEMBERED * 2):
        record = entry(f"{number:08x}", f"{number - 1:08x}" if number else None, "x")
        items = pi.take(record, Spot(Path("x.jsonl"), number + 1, number * 100), state, Tally())
        assert items[-1].parent == (f"{number - 1:08x}" if number else "")
    assert len(json.dumps(state)) < 100_000
    old = pi.take(entry("z", "00000001", "back"), Spot(Path("x.jsonl"), 1, 10**7), state, Tally())
    assert old[0].parent == "00000001"


# Rewriting


def test_the_title_slot_changes_nothing_else() -> None:
    slot = {"type": "title", "v": 1, "title": "", "updatedAt": "", "pad": " " * 150}
    body = [entry(None, None, "1"), entry("a", None, "2"), {**entry("a", "a", "3")}]
    path = Path("2026-05-01T00-00-00-000Z_s1.jsonl")
    keys = []
    for head in (
        [],
        [slot],
        [{**slot, "title": "Now", "pad": " " * 147}],
        [{**slot, "title": "Now", "pad": " " * 900}],
    ):
        items = taken(lines(*head, HEADER, *body), path, omp, Tally())
        keys.append([(item.key, item.parent) for item in items])
        assert of(items, Session)[-1].title == (head[0]["title"] if head else "")
    assert keys[0] == keys[1] == keys[2] == keys[3]


def test_the_slot_is_newer_than_the_header_and_a_change_newer_than_both() -> None:
    slot = {"type": "title", "v": 1, "title": "B", "pad": ""}
    change = {"type": "title_change", "id": "t", "parentId": None, "title": "C", "source": "user"}
    items = taken(lines(slot, {**HEADER, "title": "A"}, change), Path("s1.jsonl"), omp, Tally())
    assert [session.title for session in of(items, Session)] == ["B", "C"]
    named = talk({"type": "session_info", "id": "n", "parentId": None, "name": "Mine"})
    assert [session.title for session in of(named, Session)] == ["", "Mine"]


def test_keys_of_entries_with_ids_stay_when_a_file_is_migrated() -> None:
    hook = {"role": "hookMessage", "customType": "x", "content": "ctx"}
    reply = {"role": "assistant", "content": [{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "r"}]}
    second = [entry("a", None, "1"), entry("b", "a", message=hook), entry("c", "b", message=reply)]
    third = [second[0], entry("b", "a", message={**hook, "role": "custom"}), second[2]]
    old = taken(lines({**HEADER, "version": 2}, *second), Path("x.jsonl"), pi, Tally())
    new = taken(lines({**HEADER, "more": "x" * 300}, *third), Path("x.jsonl"), pi, Tally())
    assert [(item.key, item.parent, item.what) for item in old] == [(item.key, item.parent, item.what) for item in new]
    assert [item.key for item in old] == ["session", "a", "b", "c:0", "c"]


# Sessions


def test_a_fork_names_its_parent_and_marks_its_copies() -> None:
    for told in ("/x/2026-01-01T00-00-00-000Z_p1.jsonl", "C:\\x\\2026-01-01T00-00-00-000Z_p1.jsonl", "p1"):
        for field in ("branchedFrom", "parentSession"):
            old = entry("a", None, "old", timestamp="2026-04-01T00:00:00.000Z")
            items = taken(lines({**HEADER, field: told}, old, entry("b", "a", "new")), Path("x.jsonl"), pi, Tally())
            assert (of(items, Session)[0].parent, of(items, Session)[0].origin) == ("p1", "fork")
            assert [item.is_replayed for item in items] == [False, True, False]
    (parent,) = (item for item in talk(old) if item.key == "a")
    assert parent.origin == items[1].origin != "" and not parent.is_replayed


def test_a_session_in_the_folder_of_another_is_its_sub_agent() -> None:
    path = Path("/r/--p--/2026-05-01T00-00-00-000Z_main/0-Check.jsonl")
    items = taken(lines({**HEADER, "parentSession": "other"}, entry("a", None, "do it")), path, omp, Tally())
    assert (of(items, Session)[0].parent, of(items, Session)[0].origin) == ("main", "subagent")
    assert said(items, "delegated") == ["do it"] and items[-1].is_side
    begun = talk({"type": "session_init", "id": "i", "parentId": None, "task": "t"}, entry("a", "i", "t"), agent=omp)
    assert of(begun, Session)[-1].origin == "subagent" and said(begun, "delegated") == ["t"]


def test_without_a_header_the_name_tells_the_session() -> None:
    path = Path("2026-05-01T00-00-00-000Z_abc.jsonl")
    items = taken(lines(entry("b", "a", "tail")), path, pi, Tally())
    assert [item.session for item in items] == ["abc", "abc"] and items[0].what == Session("pi")
    assert items[1].parent == ""


def test_two_sessions_in_one_file_are_two() -> None:
    other = {**HEADER, "id": "s2", "cwd": "/q"}
    items = talk(entry("a", None, "1"), other, entry("a", None, "2"), entry("b", "a", "3"))
    assert [(item.session, item.key) for item in items] == [
        ("s1", "session"), ("s1", "a"), ("s2", "session"), ("s2", "a"), ("s2", "b"),
    ]  # fmt: skip
    assert [session.cwd for session in of(items, Session)] == ["/p", "/q"]


def test_a_session_that_goes_on_behind_another_shares_no_keys_with_itself() -> None:
    other = {**HEADER, "id": "s2"}
    first, second, third = (entry("a", None, text) for text in "123")
    items = talk(first, other, second, HEADER, third, other, entry("a", "a", "4"))
    keys = [(item.session, item.key) for item in items if item.key != "session"]
    assert [session for session, _ in keys] == ["s1", "s2", "s1", "s2"] and len(set(keys)) == 4
    assert items[-1].parent == "a"


# Who speaks


def test_speakers() -> None:
    def one(message: dict[str, Any]) -> tuple[str, str]:
        (prompt,) = of(talk(entry("a", None, message=message), agent=omp), Prompt)
        return prompt.speaker, prompt.text

    assert one({"role": "user", "content": "/mode"}) == ("human", "/mode")
    assert one({"role": "user", "content": "go", "attribution": "agent"}) == ("injected", "go")
    assert one({"role": "developer", "content": "rules"}) == ("injected", "rules")
    assert one({"role": "custom", "content": "ctx", "attribution": "user"}) == ("injected", "ctx")
    assert one({"role": "hookMessage", "content": [{"type": "text", "text": "ctx"}]}) == ("injected", "ctx")
    assert one({"role": "compactionSummary", "summary": "sum"}) == ("compact-summary", "sum")
    mentioned = {"role": "fileMention", "files": [{"path": "a.py", "content": "SECRET"}, 3]}
    assert one(mentioned) == ("injected", "@a.py")
    file = '<file name="/p/a.py">\nSECRET\n</file>\n'
    assert one({"role": "user", "content": file + "explain"}) == ("human", "explain")
    reminder = "<system-reminder>\nx\n</system-reminder>\n\n"
    assert one({"role": "user", "content": reminder + "hi"}) == ("human", "hi")
    assert one({"role": "user", "content": reminder})[0] == "injected"
    skill = '<skill name="x" location="/s/x.md">\nbody\n</skill>\n\nmy words'
    assert one({"role": "user", "content": skill}) == ("slash", "/skill:x my words")
    used = {"role": "custom", "customType": "skill-prompt", "content": "body", "attribution": "user"}
    assert one({**used, "details": {"name": "y", "args": "z"}}) == ("slash", "/skill:y z")
    assert of(talk(entry("a", None, message={"role": "system", "content": "you are"})), Prompt) == []


def test_texts_are_kept_whole() -> None:
    text = " \u2028 a\r\n\ud83d</file> " + "x" * 100_000
    assert said(talk(entry("a", None, text))) == [text]
    two = [{"type": "text", "text": "a"}, {"type": "image", "data": "…"}, {"type": "text", "text": "b"}]
    (prompt,) = of(talk(entry("a", None, message={"role": "user", "content": two})), Prompt)
    assert (prompt.text, prompt.images) == ("a\nb", 1)


def test_a_command_that_a_person_ran() -> None:
    ran = {"role": "bashExecution", "command": "ls x", "output": "no\nsuch", "exitCode": 2, "cancelled": False}
    items = talk(entry("a", None, message=ran))
    assert of(items, Prompt) == [Prompt("ls x", "bang")] and of(items, Call) == []
    (result,) = of(items, Result)
    assert (result.call, result.exit_status, result.ok, result.output) == (items[1].key, 2, False, "no\nsuch")


def failed(text: str, agent: ModuleType = pi, **more: Any) -> Result:
    called = {"role": "assistant", "content": [], "durationMs": 3}
    result = {"role": "toolResult", "toolCallId": "c", "toolName": "edit", "details": {}, "isError": True, **more}
    items = talk(entry("a", None, message=called), entry("b", "a", message={**result, "content": text}), agent=agent)
    (found,) = of(items, Result)
    assert isinstance(found, Result)
    return found


def test_what_was_refused_and_what_only_failed() -> None:
    assert failed("not in this house").denied
    assert not failed("Could not find the exact text", durationMs=2).denied
    for words in (
        "Tool x not found",
        'Validation failed for tool "edit":',
        "Operation aborted",
        "ENOENT: no such file",
    ):
        assert not failed(words).denied
    for words in ("Tool call denied by user: edit", 'Tool "edit" is blocked by user policy.\nTo allow: …'):
        assert failed(words, omp, durationMs=2).denied
    start = {"customType": "tool_execution_start", "data": {"toolCallId": "c", "startedAt": "2026-05-01T00:00:01.000Z"}}
    for ended, denied in ((1777593601000, True), (1777593601002, False)):
        told = {"role": "toolResult", "toolCallId": "c", "isError": True, "details": {}, "timestamp": ended}
        records = {"type": "custom", "id": "a", "parentId": None, **start}, entry("b", "a", message=told)
        assert [result.denied for result in of(talk(*records, agent=omp), Result)] == [denied]
    assert failed("x", isError=False).ok is True and failed("x", isError="yes").ok is None


def test_the_status_is_the_tools_own() -> None:
    blocks = [{"type": "text", "text": text} for text in ("no\n\nCommand exited with code 3", "a hook's words")]
    called = {"role": "toolResult", "toolCallId": "c", "toolName": "bash", "isError": True, "content": blocks}
    (result,) = of(talk(entry("a", None, message=called)), Result)
    assert result.exit_status == 3


def test_calls_without_an_id_and_unknown_tools() -> None:
    blocks = [
        {"type": "toolCall", "name": "bash", "arguments": {"command": "ls"}},
        {"type": "toolCall", "id": "k", "name": "mcp__s__t", "arguments": {"word": "w", "i": "why"}},
        {"type": "toolCall", "id": "l", "name": "new", "arguments": {"a": "1", "b": "2"}},
        {"type": "toolCall", "id": "m", "name": "bash", "arguments": "ls"},
        {"type": "toolCall"},
    ]
    items = talk(entry("a", None, message={"role": "assistant", "content": blocks}))
    calls = of(items, Call)
    assert [(call.target, call.sort) for call in calls] == [
        ("ls", "shell"), ("w", "mcp"), ("", "other"), ("", "shell"), ("", "other"),
    ]  # fmt: skip
    assert (calls[0].call, calls[4].call) == ("a:0", "a")


def test_every_notation_of_an_edit() -> None:
    def edits(name: str, **arguments: Any) -> list[tuple[str, str, str, str, str]]:
        block = {"type": "toolCall", "id": "k", "name": name, "arguments": arguments}
        (call,) = of(talk(entry("a", None, message={"role": "assistant", "content": [block]}), agent=omp), Call)
        return [(edit.path, edit.operation, edit.old, edit.new, edit.patch) for edit in call.edits]

    assert edits("edit", path="a", oldText="1", newText="2") == [("a", "update", "1", "2", "")]
    both = [{"oldText": "1", "newText": "2"}, {"oldText": "3", "newText": "4"}, 5]
    assert edits("edit", path="a", edits=both) == [("a", "update", "1", "2", ""), ("a", "update", "3", "4", "")]
    assert edits("write", path="a", content="x") == [("a", "create", "", "x", "")]
    assert edits("write", path="xd://mcp__s_t", content="{}") == []
    lined = "[a.py#A069]\nPUT 3.=3:\n+x\n[b.py#0EBD]\nDEL 1\n"
    assert [each[:2] + each[4:] for each in edits("edit", input=lined)] == [
        ("a.py", "update", "PUT 3.=3:\n+x\n"), ("b.py", "update", "DEL 1\n"),
    ]  # fmt: skip
    assert edits("edit", input="§README.md\n≔1hg..12hf\nx") == [("README.md", "update", "", "", "≔1hg..12hf\nx")]
    patch = "*** Begin Patch\n*** Add File: n\n+1\n*** Update File: o\n*** Move to: p\n@@\n*** Delete File: q\n"
    assert [each[:2] for each in edits("edit", input=patch)] == [("n", "create"), ("o", "move"), ("q", "delete")]
    assert edits("edit", path="a", input="@@ -1 +1") == [("a", "update", "", "", "@@ -1 +1")]


def test_times() -> None:
    def one(**more: Any) -> tuple[int | None, str]:
        item = talk(entry("a", None, "x", **more))[-1]
        return item.at, item.precision

    assert one(timestamp="2026-05-01T00:00:01Z") == (1777593601000000, "s")
    assert one(timestamp="2026-05-01T02:00:01.5+02:00") == (1777593601500000, "ms")
    assert one(timestamp="2026-05-01T00:00:01.123456789Z") == (1777593601123456, "us")
    message = {"role": "user", "content": "x", "timestamp": 1777593601002}
    assert one(timestamp=None, message=message) == (1777593601002000, "ms")
    for wrong in ("yesterday", "2026-13-01T00:00:00Z", 10**30, -1, True, "2026-05-01T00:00:01", [], float("nan")):
        assert one(timestamp=wrong) == (None, "")


# Places


def laid(path: Path, *records: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lines(*records))
    return path


THEIRS = ({"type": "title", "v": 1, "title": "", "pad": ""}, HEADER)
OURS = (HEADER, {"type": "model_change", "id": "a", "parentId": None, "provider": "p", "modelId": "m"})


@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
def test_places(tmp_path: Path, system: str) -> None:
    home, moved, data = tmp_path / "home", tmp_path / "moved", tmp_path / "data"
    mine = laid(home / ".pi/agent/sessions/--p--/a.jsonl", *OURS)
    theirs = laid(home / ".omp/agent/sessions/-p/b.jsonl", *THEIRS)
    child = laid(home / ".omp/agent/sessions/-p/b/0-x.jsonl", HEADER)
    work = laid(home / ".omp/profiles/shop/agent/sessions/-p/c.jsonl", *THEIRS)
    kept = laid(data / "omp/sessions/-p/d.jsonl", *THEIRS)
    both = [laid(moved / "sessions/x/e.jsonl", *OURS), laid(moved / "sessions/x/f.jsonl", *THEIRS)]
    laid(home / ".pi/agent/sessions/--p--/notes.txt", "no")
    (home / ".pi/agent/sessions/loop").symlink_to(home / ".pi")
    (home / ".pi/agent/sessions/gone.jsonl").symlink_to(home / "nowhere")
    environment = {"PI_CODING_AGENT_DIR": str(moved), "XDG_DATA_HOME": str(data), "OMP_CODING_AGENT_DIR": "rel\x00"}
    world = World(environment, home, system)
    assert list(pi.find(world)) == [mine, both[0]]
    xdg = [kept] if system != "win32" else []
    assert list(omp.find(world)) == [child, theirs, work, *xdg, both[1]]
    assert list(pi.find(World({"PI_CODING_AGENT_SESSION_DIR": "~/s"}, tmp_path / "none", system))) == []


def test_foreign_files_are_not_accepted() -> None:
    heads = [
        b"",
        b"{}",
        b"[1]\n",
        b'{"type":"session"}',
        b'{"type":"user","message":{},"uuid":"x"}',
        b"\xff\x00",
        b"[" * 9999,
    ]
    heads.append(b'{"type":"message","timestamp":"x"}')
    heads.append(b'{"timestamp":"x","type":"session_meta","payload":{"id":"a"}}')
    assert not any(agent.accepts(Path("x.jsonl"), head) for head in heads for agent in (pi, omp))


# Anything at all

FIELDS = ["type", "id", "parentId", "timestamp", "message", "role", "content", "text", "thinking", "name"]
FIELDS += ["arguments", "toolCallId", "toolName", "isError", "details", "usage", "input", "model", "modelId"]
FIELDS += ["customType", "data", "startedAt", "summary", "attribution", "stopReason", "errorMessage"]
FIELDS += ["version", "cwd", "title", "branchedFrom", "exitCode", "command", "files", "path", "edits", "op"]
FIELDS += ["diff", "oldText", "exitCode", "durationMs", "version", "args"]
WORDS = ["message", "session", "title", "custom", "custom_message", "compaction", "model_change", "user"]
WORDS += ["assistant", "toolResult", "bashExecution", "fileMention", "hookMessage", "text", "thinking"]
WORDS += ["toolCall", "image", "edit", "write", "bash", "aborted", "error", "tool_execution_start"]
WORDS += ["2026-05-01T00:00:00.000Z", "a", "b"]
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(WORDS), st.text(max_size=8), st.just("\ud83d")
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=8),
    max_leaves=20,
)


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    records=st.lists(VALUES | st.fixed_dictionaries({"type": st.sampled_from(WORDS), "message": VALUES}), max_size=8)
)
@pytest.mark.parametrize("agent", [pi, omp])
def test_no_record_breaks_reading(agent: ModuleType, records: list[Any]) -> None:
    state: dict[str, Any] = {}
    tally = Tally()
    items: list[Item] = []
    for number, record in enumerate(records):
        items.extend(agent.take(record, Spot(Path("x.jsonl"), number + 1, number), state, tally))
    assert sum(tally.types.values()) + sum(tally.problems.values()) == len(records)
    assert json.loads(json.dumps(state)) == state
    keys = [(item.session, item.key) for item in items if item.key != "session"]
    assert len(keys) == len(set(keys))
    assert branching.active(items) <= {item.key for item in items}


def test_any_value_in_any_field_of_a_whole_session() -> None:
    block = {"type": "toolCall", "id": "k", "name": "edit", "arguments": {"path": "a", "edits": [{"oldText": "1"}]}}
    told = {"role": "toolResult", "toolCallId": "k", "toolName": "bash", "content": [{"type": "text", "text": "x"}]}
    whole = [
        {**HEADER, "parentSession": "p"},
        entry(
            "a", None, message={"role": "assistant", "content": [block], "usage": {"input": 1}, "stopReason": "error"}
        ),
        entry("b", "a", message={**told, "isError": True, "details": {"exitCode": 1, "path": "p", "op": "update"}}),
        {
            "type": "custom",
            "id": "c",
            "parentId": "b",
            "customType": "tool_execution_start",
            "data": {"toolCallId": "k"},
        },
    ]
    strange: list[Any] = [
        None,
        True,
        -1,
        1.5,
        float("inf"),
        "",
        "\ud83d",
        "x" * 10_000,
        [],
        [[]],
        {},
        {"x": [None]},
        10**400,
    ]

    def spoiled(value: Any) -> Any:
        yield from strange
        for key, inner in (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        ):
            for worse in spoiled(inner):
                copy = value.copy()
                copy[key] = worse
                yield copy

    for number, record in enumerate(whole):
        for worse in spoiled(record):
            state: dict[str, Any] = {}
            for at, each in enumerate([*whole[:number], worse, *whole[number + 1 :]]):
                list(omp.take(each, Spot(Path("x.jsonl"), at + 1, at), state, Tally()))
            json.dumps(state)
