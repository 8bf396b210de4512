"""How results and errors leave: the JSON line, the pages, and text that would rather do something else."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Ran
from hypothesis import given
from hypothesis import strategies as st

from bede import schemas
from bede.errors import Unavailable, UsageError
from bede.operations import VERBS as OPERATIONS
from bede_cli import layout, pages, terminal
from bede_cli.__main__ import main
from bede_cli.output import Output
from bede_cli.verbs import HEADINGS, HOOK, SERVE, find

#: Everything a terminal may obey or hide, by what it is for.
HOSTILE = {
    "ansi": "\x1b[31mred\x1b[0m",
    "osc": "\x1b]0;title\x07\x1b]8;;http://x\x1b\\",
    "c1": "\x9b31m\x85",
    "nul": "a\x00b",
    "return": "safe\rEVIL",
    "backspace": "x\x08\x08y\x7f",
    "bidi": "\u202eexe.txt\u202c \u2066x\u2069",
    "marks": "\u200e\u200f\u061c",
    "zero width": "pass\u200bword\u200c\u200d\ufeff\u2060",
    "separators": "a\u2028b\u2029c",
    "tags": "".join(chr(0xE0000 + ord(char)) for char in "obey"),
}
RAW = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e0fff\ud800-\udfff]"
)
ANY_TEXT = st.text(st.characters(), max_size=40) | st.sampled_from(sorted(HOSTILE.values()))
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=12,
)


class Stream(io.TextIOWrapper):
    """A stream that says whether it is a terminal."""

    def __init__(self, *, terminal: bool, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding)
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    @property
    def written(self) -> bytes:
        self.flush()
        return self.buffer.getvalue()  # type: ignore[attr-defined, no-any-return]


# The JSON line.


@given(st.dictionaries(ANY_TEXT, ANY_JSON, max_size=5))
def test_a_line_is_one_line_of_utf_8_that_parses_to_the_same_value(body: dict[str, Any]) -> None:
    data = terminal.line(body)
    assert data.endswith(b"\n") and data.count(b"\n") == 1
    text = data.decode("utf-8")
    assert json.loads(text) == _whole(body)
    assert not RAW.search(text[:-1])


def _whole(value: Any) -> Any:
    """Return a value in which what is half a character is U+FFFD."""
    if isinstance(value, str):
        return value.translate(dict.fromkeys(range(0xD800, 0xE000), 0xFFFD))
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list) else value


def test_a_line_keeps_what_is_only_foreign() -> None:
    assert terminal.line({"a": "資料 é 🙂"}) == '{"a":"資料 é 🙂"}\n'.encode()


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_line_never_holds_what_is_no_json(number: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        terminal.line({"a": number})


def test_a_line_holds_no_half_of_a_character() -> None:
    assert terminal.line({"path": "a\udcffb\ud800"}) == b'{"path":"a\\ufffdb\\ufffd"}\n'


# Text for a terminal.


@given(ANY_TEXT)
def test_visible_text_does_nothing(text: str) -> None:
    assert not RAW.search(terminal.visible(text).replace("\t", ""))


@given(st.text(st.characters(categories=("L", "N", "P", "S", "Zs", "M"), max_codepoint=0x2FF)))
def test_visible_text_keeps_what_is_printable(text: str) -> None:
    assert terminal.visible(text) == text


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[31m", "\\x1b[31m"),
        ("\u202e", "\\u202e"),
        ("\x9b", "\\x9b"),
        ("\U000e0041", "\\U000e0041"),
        ("\udc80", "\\udc80"),
        ("one\n\ttwo", "one\n\ttwo"),
    ],
)
def test_hostile_characters_are_spelt_out(raw: str, shown: str) -> None:
    assert terminal.visible(raw) == shown


# Which form.


@pytest.mark.parametrize(
    ("flag", "variable", "person", "form"),
    [
        (None, None, False, "json"),
        (None, None, True, "pretty"),
        (None, "json", True, "json"),
        (None, "pretty", False, "pretty"),
        (None, "", True, "pretty"),
        ("json", "pretty", True, "json"),
        ("pretty", "json", False, "pretty"),
    ],
)
def test_flag_beats_environment_beats_terminal(
    flag: terminal.Form | None, variable: str | None, person: bool, form: str
) -> None:
    environment = {} if variable is None else {"BEDE_OUTPUT": variable}
    assert terminal.form(flag, environment, Stream(terminal=person)) == form


def test_a_wrong_variable_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="BEDE_OUTPUT is 'xml'"):
        Output.choose(None, {"BEDE_OUTPUT": "xml"}, no_colour=False)


@pytest.mark.parametrize(
    ("environment", "person", "refused", "coloured"),
    [
        ({"TERM": "xterm"}, True, False, True),
        ({"TERM": "xterm"}, False, False, False),
        ({"TERM": "dumb"}, True, False, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, False, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, False, True),
        ({"TERM": "xterm"}, True, True, False),
    ],
)
def test_colour_is_for_terminals_that_want_it(
    environment: Mapping[str, str], person: bool, refused: bool, coloured: bool
) -> None:
    assert terminal.has_colour(Stream(terminal=person), environment, refused=refused) is coloured


@pytest.mark.parametrize(
    ("words", "form"),
    [
        ([], None),
        (["log", "--json"], "json"),
        (["--json", "log", "--pretty"], "pretty"),
        (["auto", "--", "x", "--json"], None),
    ],
)
def test_the_wish_is_read_without_parsing(words: list[str], form: str | None) -> None:
    assert terminal.wish(words) == form


# Writing.


def test_a_closed_stream_has_no_reader() -> None:
    closed = Stream(terminal=False)
    closed.close()
    for stream in (None, closed):
        with pytest.raises(BrokenPipeError):
            terminal.write(stream, b"x")
        assert not terminal.is_terminal(stream)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_disk_is_told() -> None:
    with open("/dev/full", "w", encoding="utf-8") as stream, pytest.raises(Unavailable, match="No space left"):
        terminal.write(stream, b"x")


def test_a_person_gets_what_the_terminal_can_show() -> None:
    latin = Stream(terminal=True, encoding="latin-1")
    terminal.say(latin, "é 資\n")
    shown = "é 資\n".encode() if sys.platform == "win32" else b"\xe9 \\u8cc7\n"
    assert latin.written == shown
    pipe = Stream(terminal=False, encoding="ascii")
    terminal.say(pipe, "é 資\n")
    assert pipe.written == "é 資\n".encode()


# Pages.

NOW = datetime(2026, 1, 20, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("ago", "said"),
    [
        (timedelta(seconds=2), "just now"),
        (timedelta(seconds=59), "59 seconds ago"),
        (timedelta(minutes=1), "1 minute ago"),
        (timedelta(hours=5), "5 hours ago"),
        (timedelta(days=13), "13 days ago"),
        (timedelta(days=15), f"{(NOW - timedelta(days=15)).astimezone():%Y-%m-%d}"),
        (-timedelta(hours=2), (NOW + timedelta(hours=2)).astimezone().isoformat(" ", "minutes")),
    ],
)
def test_times_are_near(ago: timedelta, said: str) -> None:
    moment = (NOW - ago).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert layout.when(moment, NOW) == said


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="this system takes no zone from the environment")
@pytest.mark.parametrize(
    ("zone", "said"),
    [("UTC0", "2026-01-20 14:00+00:00"), ("IST-5:30", "2026-01-20 19:30+05:30"), ("NST3:30", "2026-01-20 10:30-03:30")],
)
def test_a_time_of_day_tells_its_zone(monkeypatch: pytest.MonkeyPatch, zone: str, said: str) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        assert layout.when("2026-01-20T14:00:00.000000Z", NOW) == said
    time.tzset()


def render(body: dict[str, Any], *, width: int = 80, coloured: bool = False) -> str:
    return pages.render(body, width=width, coloured=coloured)


def test_the_generic_page_shows_everything_that_is_there() -> None:
    page = render(
        {
            "schema": "trial/1",
            "name": "atlas",
            "ok": True,
            "empty": "",
            "id": "ab" * 32,
            "items": [{"key": "db", "value": "sqlite"}, {"key": "os", "value": None}],
            "versions": {"bede": "1", "deep": {"deeper": 2}},
            "words": ["one", "two"],
        }
    )
    assert "trial/1" not in page and "empty" not in page and "abababababab" not in page
    lines = [line.split() for line in page.splitlines()]
    for words in (["name", "atlas"], ["ok", "yes"], ["id", "ab" * 5], ["words", "one,", "two"]):
        assert words in lines
    assert ["key", "value"] in lines and ["db", "sqlite"] in lines and ["os"] in lines
    assert ["bede", "1"] in lines and ["deeper", "2"] in lines


def test_an_empty_result_says_so() -> None:
    assert render({"schema": "trial/1", "items": []}) == "nothing\n"


@given(ANY_JSON, st.integers(20, 120))
def test_no_page_lets_a_hostile_text_through(value: Any, width: int) -> None:
    page = render({"schema": "trial/1", "value": value, "items": [{"value": value, "other": value}]}, width=width)
    assert not RAW.search(page)


@given(ANY_TEXT)
def test_no_page_takes_text_for_markup(text: str) -> None:
    page = render({"schema": "trial/1", "value": f"[bold]{text}[/bold] :smile:"}, width=400)
    assert "[bold]" in page and "[/bold]" in page and ":smile:" in page


def test_colour_only_adds_colour() -> None:
    body = {"schema": "trial/1", "name": "atlas", "items": [{"a": 1, "b": "x"}]}
    coloured = render(body, coloured=True)
    assert "\x1b[" in coloured
    assert re.sub("\x1b\\[[0-9;]*m", "", coloured).split() == render(body).split()


Run = Callable[..., Ran]


@pytest.fixture
def bede(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run the command line in this process, its streams captured as bytes."""

    def run(*words: str, stdin: str = "") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        status = main(list(words))
        out, err = capfdbinary.readouterr()
        return Ran(status, out.decode(), err.decode())

    return run


@pytest.fixture
def memory(project: Path, bede: Run) -> Path:
    """A project with memories that say hostile things, on two branches that disagree."""
    stored = []
    for name, text in HOSTILE.items():
        summary = f"A note about {name} that is long enough: {text}"
        stored.append({"kind": "note", "summary": summary, "learnings": [text]})
    stored.append(_decision("sqlite\x1b[2J"))
    assert bede("store", "-", stdin="\n".join(map(json.dumps, stored))).status == 0
    assert bede("fork", "idea").status == 0
    assert bede("--branch", "idea", "store", "-", stdin=json.dumps(_decision("postgres\u202e"))).status == 0
    assert bede("store", "-", stdin=json.dumps(_decision("duckdb\u200b"))).status == 0
    return project


def _decision(value: str) -> dict[str, Any]:
    return {"kind": "decision", "key": "db", "value": value, "learnings": [f"{value} was measured against the others"]}


VERBS = [
    "log",
    "log --operations",
    "search note",
    "search --kind decision",
    "status",
    "context",
    "branches",
    "diff main idea",
    "show main",
    "config",
    "verify",
    "merge idea",
    "rollback main~3 --dry-run",
    "undo --dry-run",
    "purge main",
    "anchor",
    "auto --recall-only --task-id T-1",
]


def test_no_verb_lets_stored_text_act(memory: Path, bede: Run) -> None:
    for words in VERBS:
        for form in ("--pretty", "--json"):
            ran = bede(*words.split(), form)
            assert ran.status in (0, 12), ran.err
            assert not RAW.search(ran.out), (words, form)
            assert not RAW.search(ran.err), (words, form)
            assert ran.out or ran.err, words


def test_json_gives_stored_text_back_unchanged(memory: Path, bede: Run) -> None:
    found = bede("search", "--kind", "note", "--top-k", "100").json()["results"]
    said = {learning for item in found for learning in item["learnings"]}
    assert said == set(HOSTILE.values())


def test_pages_of_the_everyday_verbs(memory: Path, bede: Run) -> None:
    log = bede("log", "--pretty", "--limit", "1").out.splitlines()
    assert re.match(r"[0-9a-f]{10}  .+  decision  db = duckdb\\u200b$", log[0])
    diff = bede("diff", "main", "idea", "--pretty").out
    assert "decision db  CONFLICT" in diff and "<  duckdb" in diff and ">  postgres" in diff
    branches = bede("branches", "--pretty").out.splitlines()
    assert [line[:6] for line in branches] == ["  idea", "* main"] and "1 ahead, 1 behind" in branches[0]
    assert bede("verify", "--pretty").out.startswith("the history holds: ")
    assert "nothing found" in bede("search", "zzzzqqqq", "--pretty").out
    assert bede("anchor").json()["hash"] in bede("anchor", "--pretty").out
    refused = bede("merge", "idea", "--pretty")
    assert refused.status == 12 and not refused.out
    assert refused.err.startswith("error: both sides changed") and "- kind decision, key db, ours duckdb" in refused.err


def test_the_list_of_projects_has_a_line_each(memory: Path, bede: Run, tmp_path: Path) -> None:
    deep = tmp_path / ("a name that is long enough to break a table " * 3).strip()
    deep.mkdir()
    assert bede("-C", str(deep), "init").status == 0
    found = bede("projects").json()["projects"]
    lines = bede("projects", "--pretty").out.splitlines()
    assert len(lines) == len(found) == 2
    for line, item in zip(lines, found, strict=True):
        assert line.startswith(item["name"]) and f"  {item['project_id']}  {item['root']}  seen " in line
    (deep / ".bede" / "bede.db").unlink()
    assert any(line.endswith(f"{deep}  is gone") for line in bede("projects", "--pretty").out.splitlines())
    assert bede("projects", "--forget", str(deep), "--pretty").out.splitlines()[0] == f"forgot {deep}"


def test_capabilities_are_an_overview_for_a_person_and_whole_for_a_program(bede: Run) -> None:
    whole = bede("capabilities").json()
    page = bede("capabilities", "--pretty").out
    assert len(page.splitlines()) < 60 < len(whole["verbs"]) * 2 and "schema" not in page.replace("JSON Schemas", "")
    assert all(re.search(rf"\b{verb['name']}\b", page) for verb in whole["verbs"])
    assert all(item["code"] in page for item in whole["exit_statuses"]) and all(kind in page for kind in whole["kinds"])
    assert whole["verbs"][0]["input_schema"] and "all of this with JSON Schemas: --json" in page
    unbroken = " ".join(page.split())
    assert all(f"{door['name']} {door['summary']}" in unbroken for door in whole["doors"])


def test_capabilities_name_all_that_can_be_called_and_what_an_error_looks_like(bede: Run) -> None:
    whole = bede("capabilities").json()
    assert [verb["name"] for verb in whole["verbs"]] == list(OPERATIONS)
    assert {door["name"]: door["summary"] for door in whole["doors"]}[SERVE] == find(SERVE).summary
    assert {door["name"] for door in whole["doors"]} == {*HEADINGS, HOOK} - {*OPERATIONS}
    schema = whole["error_schema"]
    assert schema == schemas.ERROR == json.loads((ROOT / "docs/schemas.json").read_text(encoding="utf-8"))["error"]
    for words in (["show", "nowhere"], ["nonsense"], ["search", "x", "--limit", "0"]):
        told = bede(*words).error()
        assert set(schema["required"]) <= set(told) <= set(schema["properties"])
        assert told["schema"] == schema["properties"]["schema"]["const"]
    assert bede("capabilities", "--no-schemas").json()["error_schema"] == {}


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["search", "x", "--path", "a"], "did you mean --file?"),
        (["search", "x", "--limit", "3"], "did you mean --top-k?"),
        (["recent", "--top-k", "3"], "did you mean -n?"),
        (["context", "--max-tokens", "900"], "did you mean --budget?"),
        (["install-hooks", "--agent", "claude"], "did you mean 'claude-code'?"),
        (["ingest", "--agent", "gemini"], "did you mean 'gemini-cli'?"),
    ],
)
def test_what_other_tools_call_something_is_told_as_it_is_called_here(bede: Run, words: list[str], meant: str) -> None:
    told = bede(*words)
    assert told.status == 2 and told.error()["hint"].startswith(meant)


def test_status_tells_of_the_sessions(memory: Path, bede: Run, home: Path) -> None:
    assert (bede("status").json()["sessions"], bede("status").json()["newest_session"]) == (0, None)
    assert "no sessions; 'bede ingest'" in bede("status", "--pretty").out
    folder = home / ".claude" / "projects" / "p"
    folder.mkdir(parents=True)
    for number, name in enumerate(("older", "0198c0de-0000-7000-8000-000000000000")):
        said = {"type": "user", "sessionId": name, "uuid": f"u-{number}", "cwd": str(memory)}
        said |= {"timestamp": f"2026-01-0{number + 1}T09:00:00Z", "message": {"role": "user", "content": "go on"}}
        (folder / f"{name}.jsonl").write_text(json.dumps(said) + "\n", encoding="utf-8")
        os.utime(folder / f"{name}.jsonl", (number + 1, number + 1))
    assert bede("ingest").status == 0
    told = bede("status").json()
    newest = {"agent": "claude-code", "session": name, "at": "2026-01-02T09:00:00.000000Z"}
    assert (told["sessions"], told["newest_session"]) == (2, newest)
    assert f"2 sessions taken in, last claude-code  {name}  " in bede("status", "--pretty").out


def test_the_newest_session_is_the_one_at_work_last_whenever_it_was_read(memory: Path, bede: Run, home: Path) -> None:
    folder = home / ".claude" / "projects" / "p"
    folder.mkdir(parents=True)
    days = {"early": "2026-01-01", "late": "2026-01-03", "between": "2026-01-02", "untold": ""}
    for name, day in days.items():
        said = {"type": "user", "sessionId": name, "uuid": f"u-{name}", "cwd": str(memory)}
        said |= {"timestamp": f"{day}T09:00:00Z"} if day else {}
        told = said | {"message": {"role": "user", "content": "go on"}}
        (folder / f"{name}.jsonl").write_text(json.dumps(told) + "\n", encoding="utf-8")
        assert bede("ingest", "--path", str(folder / f"{name}.jsonl")).status == 0
    newest = {"agent": "claude-code", "session": "late", "at": "2026-01-03T09:00:00.000000Z"}
    assert bede("status").json()["newest_session"] == newest


def test_what_an_agent_gave_no_time_has_none_on_any_page(memory: Path, bede: Run, home: Path) -> None:
    """Cursor's transcripts tell none; such a turn is neither a fault nor of 1970."""
    file = home / "aaaa0000-0000-4000-8000-000000000001.txt"
    file.write_text("user:\n<user_query>\nfix the typo\n</user_query>\n\nassistant:\nIt is fixed.\n", encoding="utf-8")
    assert bede("ingest", "--path", str(file)).json()["turns"] == {"new": 2}
    turns = bede("recent").json()["turns"]
    assert len(turns) == 2 and not any("at" in turn for turn in turns)
    told, name = turns[-1]["id"], f"cursor  {file.stem}"
    assert bede("recent", "--pretty").out.splitlines()[0] == name
    assert f"{name}  #1\n" in bede("search", "fix the typo", "--in", "turns", "--pretty").out
    assert bede("search", "fix the typo", "--pretty").status == 0
    assert bede("status").json()["newest_session"] == {"agent": "cursor", "session": file.stem, "at": ""}
    assert f"last {name}\n" in bede("status", "--pretty").out
    assert (bede("show", told).json()["at"], bede("log", "--at", told).json()["events"][0]["at"]) == ("", "")
    assert bede("fork", "odd", "--at", told).status == 0
    for words in (f"show {told}", f"log --at {told}", f"context --at {told}", "branches", "log --operations"):
        for form in ("--pretty", "--json"):
            ran = bede(*words.split(), form)
            assert ran.status == 0 and "1970-" not in ran.out, words


def test_a_heading_tells_the_first_time_there_is() -> None:
    turns = [SESSION | _said(1, "human", "one"), SESSION | _said(2, "assistant", "two")]
    del turns[0]["at"]
    page = render({"schema": "recent/1", "turns": turns, "left_out": 0})
    assert page.splitlines()[0] == "codex  s-1  2020-01-02  on main"
    del turns[1]["at"]
    assert render({"schema": "recent/1", "turns": turns, "left_out": 0}).splitlines()[0] == "codex  s-1  on main"


def test_a_run_is_shown_as_it_was_typed(memory: Path, bede: Run) -> None:
    command = ["git", "commit", "-m", "one, two"]
    run = {"kind": "run", "task_id": "T", "command": command, "exit_status": 0}
    stored = bede("store", "-", stdin=json.dumps(run)).json()["id"]
    assert bede("show", stored).json()["body"]["command"] == command
    assert "    command      git commit -m 'one, two'\n" in bede("show", stored, "--pretty").out


def test_undo_shows_what_went(memory: Path, bede: Run) -> None:
    identity = bede("store", "--summary", "gone in a moment").json()["id"]
    did = bede("undo", "--pretty").out.splitlines()
    assert did[0].startswith("took back #") and did[2].strip().startswith("1 event went out of sight  (")
    assert did[3].split()[0] == identity[:10] and did[3].endswith("note  gone in a moment")
    number = bede("log", "--operations", "-n", "1").json()["operations"][0]["operation"]
    again = bede("undo", str(number), "--dry-run", "--pretty").out
    assert "1 event would come back" in again and "gone in a moment" in again


SESSION = {"agent": "codex", "session": "s-1", "branch": "main"}


def _said(turn: int, by: str, text: str) -> dict[str, Any]:
    return {"id": f"{turn:064x}", "turn": turn, "by": by, "at": "2020-01-02T03:04:05Z", "text": text}


def test_an_operation_tells_no_empty_parts(memory: Path, bede: Run) -> None:
    assert bede("checkout", "idea").status == 0
    newest = bede("log", "--operations", "-n", "1", "--pretty").out.splitlines()[0]
    assert newest.endswith("branch: idea")


def test_the_page_of_a_search_shows_what_was_said() -> None:
    turns = [_said(3, "human", "which port?"), _said(4, "assistant", "5433\n[Bash] psql (exit 0)")]
    passage = SESSION | {"rank": 2, "score": 1.0, "best": 4, "turns": turns}
    found = {"schema": "search/1", "results": [], "left_out": 0, "cursor": ""}
    lines = render(found | {"passages": [passage], "passages_left_out": 1}).splitlines()
    assert lines[0].split() == ["codex", "s-1", "2020-01-02", "on", "main", "#2"]
    assert [line.split() for line in lines[1:4]] == [
        ["3", "human", "which", "port?"],
        [">", "4", "assistant", "5433"],
        ["[Bash]", "psql", "(exit", "0)"],
    ]
    assert lines[4:] == ["1 more passage left out; see --budget"]
    assert render(found | {"passages": [], "passages_left_out": 0}) == "nothing found\n"
    small = render(found | {"passages": [], "passages_left_out": 14}).splitlines()
    assert small == ["the budget is too small for any of what was found", "14 more passages left out; see --budget"]


def test_the_page_of_a_search_says_what_a_memory_lacks() -> None:
    memory = {"id": "ab" * 32, "kind": "note", "status": "active", "agent_id": "ann", "at": "2020-01-02T03:04:05Z"}
    page = {"schema": "search/1", "results": [memory | {"summary": "The rate…", "left_out": 1234}], "left_out": 2}
    lines = render(page | {"cursor": "9.1"}).splitlines()
    assert [line.strip() for line in lines[1:]] == [
        "The rate…",
        "[1,234 characters left out by the budget; 'bede show' has them]",
        "2 more results left out by the budget",
        "more with --cursor 9.1",
    ]


def test_the_page_of_the_newest_turns_names_a_session_once() -> None:
    turns = [SESSION | _said(1, "human", "one"), SESSION | _said(2, "assistant", "two")]
    turns.append(SESSION | {"agent": "pi", "session": "s-2"} | _said(1, "human", "three"))
    page = render({"schema": "recent/1", "turns": turns, "left_out": 3})
    assert page.count("codex  s-1") == 1 and page.count("pi  s-2") == 1 and "3 older turns left out" in page
    assert page.index("one") < page.index("two") < page.index("pi  s-2") < page.index("three")
    assert "bede ingest" in render({"schema": "recent/1", "turns": [], "left_out": 0})


def test_the_page_of_an_ingest_tells_what_came_in_and_what_did_not() -> None:
    body = {
        "schema": "ingest/1", "outcome": "ingested", "project": "/shop", "agents": ["codex"], "sessions": 2,
        "records": 9, "files": {"read": 2}, "turns": {"new": 5, "repeated": 1}, "problems": {"no_json": 1},
        "unreadable": [{"path": "/x", "code": "bad_source", "message": "not a file: /x"}], "stored": [],
    }  # fmt: skip
    assert render(body).splitlines() == [
        "took in 2 sessions; turns: 5 new, 1 repeated",
        "files: 2 read",
        "skipped 1 record: no_json",
        "unreadable not a file: /x",
    ]
    long = "/a/home/with/a/name/that/is/far/too/long/for/any/line/of/a/terminal/that/is/eighty/wide/s.jsonl"
    apart = [{"cwd": "/far", "files": 4, "paths": [long, "/b"]}, {"cwd": "", "files": 1, "paths": ["/c"]}]
    assert render(body | {"unclaimed": apart, "unclaimed_more": 2}).splitlines()[4:] == [
        "4 files of /far, which no registered project holds",
        f"    {long}",
        "    /b",
        "    … and 2 older",
        "1 file without a folder: 'bede ingest --path FILE' takes one in here",
        "    /c",
        "and files of 2 more folders",
        "'bede init' and 'bede ingest' in such a folder, or above it, take them in",
    ]
    gone = [{"cwd": "/far", "files": 1, "paths": ["/b"], "gone": True}]
    assert render(body | {"unclaimed": gone}).splitlines()[4:] == [
        "1 file of /far, which is gone",
        "    /b",
        "'bede ingest --path FILE' takes one of a folder that is gone in here",
    ]
    nothing: dict[str, Any] = {"problems": {}, "unreadable": []}
    assert render(body | nothing | {"turns": {"repeated": 6}}).startswith("nothing new; turns: 6 repeated\n")
    assert render(body | nothing | {"turns": {}, "files": {}}).endswith("nothing to read of codex\n")
    status = body | {"outcome": "status"}
    row = {"agent": "codex", "model": "m", "sessions": 1, "turns": 2, "windows": 0, "waiting": 0}
    assert [line.split() for line in render(status | {"stored": [row]}).splitlines()] == [
        ["agent", "model", "sessions", "turns", "windows", "waiting"],
        ["codex", "m", "1", "2", "0", "0"],
    ]
    assert "no session is stored yet" in render(status)


def test_the_page_of_a_schedule_tells_each_step_and_the_last_run() -> None:
    body: dict[str, Any] = {
        "schema": "schedule/1", "outcome": "absent", "using": "", "every": "", "command": "", "command_found": False,
        "last_run": None, "next_run_at": "", "log": "/log", "steps": [], "dry_run": False, "warnings": [],
    }  # fmt: skip
    assert render(body).splitlines() == ["nothing is scheduled here; 'bede schedule install' does it", "log: /log"]
    step = {"does": "run", "path": "", "command": "crontab -", "text": "*/15 * * * * bede\n"}
    planned = render(body | {"steps": [step], "dry_run": True})
    assert planned.splitlines() == ["would do", "run crontab -", "    */15 * * * * bede", "log: /log"]
    about = {"outcome": "installed", "using": "cron", "every": "15m", "command": "bede ingest", "dry_run": True}
    assert render(body | about).startswith("would be installed: every 15m by cron: bede ingest\n")
    ran = {"at": "2020-01-02T03:04:05Z", "outcome": "done", "turns": {"new": 2}}
    stands = {"outcome": "inactive", "using": "cron", "every": "15m", "command": "bede ingest", "warnings": ["off"]}
    assert render(body | stands | {"last_run": ran}).splitlines() == [
        "inactive: every 15m by cron: bede ingest",
        "warning: off",
        "last run: 2020-01-02, done; turns: 2 new",
        "log: /log",
    ]


@given(ANY_TEXT, st.integers(40, 120))
def test_what_was_said_does_nothing_to_a_terminal(said: str, width: int) -> None:
    turn = SESSION | {"session": said, "branch": said} | _said(1, said, said)
    passage = turn | {"rank": 1, "best": 1, "turns": [turn]}
    found = {"schema": "search/1", "results": [], "passages": [passage], "left_out": 0, "cursor": ""}
    for body in (found, {"schema": "recent/1", "turns": [turn], "left_out": 0}):
        assert not RAW.search(render(body, width=width))
