"""The command line: how words become values, where options may stand, and how a call ends.

Verbs made up for the purpose are put into the list of verbs and typed like any other; nothing in between is replaced.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pytest
from conftest import Ran
from hypothesis import given
from hypothesis import strategies as st

from bede import __version__
from bede.agents import AGENTS
from bede.context import Context
from bede.errors import ERRORS, BedeError, Internal, Rejected
from bede.operation import Field, operation
from bede.operations import VERBS
from bede.records import Record
from bede_cli import grammar, hook, manual, parser, plain, verbs
from bede_cli.__main__ import main

Run = Callable[..., Ran]
POSIX = pytest.mark.skipif(os.name == "nt", reason="needs POSIX streams and signals")


@dataclass(frozen=True, slots=True)
class TrialResult(Record):
    """What the function was given."""

    SCHEMA: ClassVar[str] = "trial/1"

    given: dict[str, Any]
    directory: str


@dataclass(frozen=True, slots=True)
class AsideResult(Record):
    """The same, for a verb that leaves stdout to somebody else."""

    SCHEMA: ClassVar[str] = "wrap/1"
    STREAM: ClassVar[str] = "stderr"

    given: dict[str, Any]

    @property
    def exits(self) -> int:
        """Three."""
        return 3


def result(context: Context, given: dict[str, Any]) -> TrialResult:
    return TrialResult({name: repr(value) for name, value in given.items()}, str(context.directory))


@operation(effect="read")
def trial(
    context: Context,
    first: Annotated[str, Field("What to try", metavar="THING")],
    second: Annotated[str, Field("What else")] = "-",
    *,
    number: Annotated[int, Field("How many", ge=1, le=10, short="-n")] = 3,
    big: Annotated[int | None, Field("Any number")] = None,
    ratio: Annotated[float, Field("How much", ge=0)] = 0.5,
    flag: Annotated[bool, Field("Do it", short="f")] = False,
    keep: Annotated[bool, Field("Keep it")] = True,
    maybe: Annotated[bool | None, Field("Perhaps")] = None,
    mode: Annotated[Literal["fast", "slow"], Field("How")] = "fast",
    modes: Annotated[list[Literal["x", "y"]] | None, Field("Which")] = None,
    tags: Annotated[list[str] | None, Field("Words")] = None,
    sizes: Annotated[list[int] | None, Field("Numbers", le=9)] = None,
    from_: Annotated[Path | None, Field("Read it")] = None,
    shape: Annotated[dict[str, Any] | None, Field("An object")] = None,
    code: Annotated[str, Field("Two letters", pattern="^[a-z]{2}$")] = "ab",
    secret: Annotated[str, Field("Not shown", hidden=True)] = "",
) -> TrialResult:
    """Try every sort of word.

    The second paragraph tells more, at a length that has to be broken somewhere, because it does not fit on one line.

        and a block
        kept as it is
    """
    given = dict(locals())
    return result(given.pop("context"), given)


@operation(effect="host")
def wrap(
    context: Context,
    command: Annotated[list[str], Field("Command to run", metavar="-- CMD")],
    *,
    task_id: Annotated[str, Field("The task")],
    limit: Annotated[int, Field("Most", short="-n")] = 1,
) -> AsideResult:
    """Hand a command on."""
    given = {"command": command, "task_id": task_id, "limit": limit}
    return AsideResult({name: repr(value) for name, value in given.items()})


@operation(effect="read")
def many(
    context: Context,
    ids: Annotated[list[str], Field("Which")],
    *,
    yes: Annotated[bool, Field("Really")] = False,
) -> TrialResult:
    """Take several."""
    return result(context, {"ids": ids, "yes": yes})


#: What `fail` raises next.
RAISED: list[BaseException] = []


@operation(effect="read")
def fail(context: Context) -> TrialResult:
    """Fail in a way of one's own."""
    raise RAISED.pop()


@pytest.fixture(autouse=True)
def trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the made-up verbs into the list."""
    for function in (trial, wrap, many, fail):
        module = types.ModuleType(f"bede.operations.{function.__name__}")
        setattr(module, function.__name__, function)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(VERBS, function.__name__, "Try")
        monkeypatch.setitem(verbs.HEADINGS, function.__name__, "Try")


@pytest.fixture
def typed(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Type a command line in this process."""

    def run(*words: str) -> Ran:
        status = main(list(words))
        out, err = capfdbinary.readouterr()
        return Ran(status, out.decode(), err.decode())

    return run


@pytest.fixture
def values(typed: Run) -> Callable[..., dict[str, Any]]:
    """Type a made-up verb, and return what its function was given beside the defaults."""

    def run(*words: str) -> dict[str, Any]:
        ran = typed(*words)
        assert ran.status == 0, ran.err
        given = {name: eval(text, vars(__import__("pathlib"))) for name, text in ran.json()["given"].items()}
        defaults = {item.name: item.default for item in grammar.words(trial.operation) if not item.everywhere}  # type: ignore[attr-defined]
        return {name: value for name, value in given.items() if value != defaults.get(name, ...)}

    return run


# Words and values.


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("a", {"first": "a"}),
        ("a b", {"first": "a", "second": "b"}),
        ("a --number 4", {"number": 4}),
        ("a --number=4", {"number": 4}),
        ("a -n 4", {"number": 4}),
        ("a -n4", {"number": 4}),
        ("-n 4 a", {"number": 4}),
        ("a --big -7", {"big": -7}),
        ("a --ratio 1e-3", {"ratio": 0.001}),
        ("a -f", {"flag": True}),
        ("a --no-keep", {"keep": False}),
        ("a --maybe", {"maybe": True}),
        ("a --no-maybe", {"maybe": False}),
        ("a --mode slow", {"mode": "slow"}),
        ("a --modes x --modes y", {"modes": ["x", "y"]}),
        ('a --modes ["x","y"]', {"modes": ["x", "y"]}),
        ("a --tags one --tags two", {"tags": ["one", "two"]}),
        ('a --tags ["one","two"] --tags three', {"tags": ["one", "two", "three"]}),
        ("a --tags []", {}),
        ("a --tags [wip]x", {"tags": ["[wip]x"]}),
        ("a --sizes 1 --sizes 2", {"sizes": [1, 2]}),
        ("a --code xy", {"code": "xy"}),
        ("a --secret s", {"secret": "s"}),
        ('a --shape {"k":[1]}', {"shape": {"k": [1]}}),
        ("a --from -", {"from_": Path("-")}),
        ("-- --number", {"first": "--number"}),
        ("- --", {"first": "-"}),
    ],
)
def test_words_become_values(values: Callable[..., dict[str, Any]], words: str, expected: dict[str, Any]) -> None:
    assert values("trial", *words.split()) == {"first": "a", **expected}


@given(st.lists(st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))))
def test_an_array_gives_the_same_as_repeating_the_flag(texts: list[str]) -> None:
    tags = next(item for item in grammar.words(trial.operation) if item.name == "tags")  # type: ignore[attr-defined]
    assert grammar.read(tags, [json.dumps(texts)], Path()) == texts
    plain = [text for text in texts if not text.strip().startswith("[")]
    assert grammar.read(tags, plain, Path()) == plain


def test_a_path_starts_at_the_folder_of_the_call(values: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    given = values("trial", "a", "-C", str(tmp_path), "-C", "there", "--from", "file")
    assert given["from_"] == tmp_path / "there" / "file"
    assert values("trial", "a", "--from", str(tmp_path))["from_"] == tmp_path


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ("trial", "THING is missing", "'bede help trial'"),
        ("wrap", "-- CMD and --task-id are missing", "'bede help wrap'"),
        ("trial a --number x --mode slwo", "'x' is not a whole number; --mode: no choice 'slwo'", "1 to 10; did you"),
        ("trial a b c", "unexpected argument 'c'", "'bede help trial'"),
        ("trial a --nubmer 1", "no such option '--nubmer'", "--number"),
        ("trial a --number", "option '--number' requires an argument", "'bede help trial'"),
        ("trial a --number x", "--number: 'x' is not a whole number", "1 to 10"),
        ("trial a --number 1.5", "--number: '1.5' is not a whole number", "1 to 10"),
        ("trial a --number 0", "--number: 0 is out of bounds", "1 to 10"),
        ("trial a -n 11", "--number: 11 is out of bounds", "1 to 10"),
        ("trial a --big 9223372036854775808", "--big: 9223372036854775808 is out of bounds", "64 bits"),
        ("trial a --big " + "9" * 5000, "--big: '99", "whole number"),
        ("trial a --ratio -0.1", "--ratio: -0.1 is out of bounds", "at least 0"),
        ("trial a --ratio nan", "--ratio: nan is out of bounds", "at least 0"),
        ("trial a --ratio inf", "--ratio: inf is out of bounds", "at least 0"),
        ("trial a --flag=yes", "does not take a value", ""),
        ("trial a --mode slwo", "--mode: no choice 'slwo'", "did you mean 'slow'? one of fast, slow"),
        ("store x --kind decison", "--kind: no choice 'decison'", "did you mean 'decision'? one of"),
        ("store x --kind constraint", "no choice 'constraint'", "did you mean 'discovered_constraint'? one of"),
        ("search x --kind handoff", "no choice 'handoff'", "did you mean 'task_handoff'? one of"),
        ("lease acqire", "ACTION: no choice 'acqire'", "did you mean 'acquire'? one of"),
        ("schedule instal", "ACTION: no choice 'instal'", "did you mean 'install'? one of"),
        ("attach claude", "no agent 'claude' is known", "did you mean 'claude-code'? known are"),
        ("config recall.topk", "no setting 'recall.topk'", "did you mean 'recall.top_k'? 'bede config'"),
        ("search login tests", "unexpected argument 'tests'", "in quotes: bede search 'login tests'"),
        (
            "store --kind decision use redis --key cache",
            "unexpected argument 'redis'",
            "in quotes: bede store --kind decision 'use redis' --key cache",
        ),
        ("search login --top-k 3 tests", "unexpected argument 'tests'", "in quotes: bede search 'login tests'"),
        ("merge idea --abort", "no such option '--abort'", "'bede help merge'"),
        ("fork new thing", "unexpected argument 'thing'", "'bede help fork'"),
        ("version", "no verb 'version'", "did you mean 'bede --version'?"),
        ("trial a --modes z", "--modes: no choice 'z'", "x, y"),
        ("trial a --tags [1]", "--tags: every element must be a string, not 1", "repeat the flag"),
        ("trial a --tags [null]", "--tags: every element must be a string, not null", "repeat the flag"),
        ('trial a --tags ["a"', "--tags: not a JSON array", "--tags '["),
        ("trial a --tags [a]", "--tags: not a JSON array", """--tags '["[a]"]'"""),
        ("trial a --sizes 1 --sizes 10", "--sizes: 10 is out of bounds", "at most 9"),
        ("trial a --code abc", "--code: 'abc' is malformed", "Two letters"),
        ("trial a --shape [1]", "--shape: not a JSON object", ""),
        ("trial a --shape {", "--shape: not JSON", ""),
        ("trial a --from=", "--from: the path is empty", ""),
        ("trial -O2", "no such option '-O'", "goes after --"),
        ("wrap x", "--task-id is missing", "'bede help wrap'"),
        ("wrap --task-id T", "-- CMD is missing", "'bede help wrap'"),
        ("tiral a", "no verb 'tiral'", "did you mean 'trial'?"),
        ("hlep", "no verb 'hlep'", "did you mean 'help'?"),
        ("zzz", "no verb 'zzz'", "'bede help'"),
        ("help zzz", "no verb 'zzz'", "'bede help'"),
        ("--jsno trial a", "no option '--jsno' before the verb", "--json"),
        ("--json=1 trial a", "no option '--json=1' before the verb", ""),
        ("--project", "--project needs a value", "NAME"),
        ("--project -- trial a", "--project needs a value", "NAME"),
        ("trial a --project --", "--project needs a value", "'bede help trial'"),
        ("trial --modes -- a", "--modes needs a value", "'bede help trial'"),
        ("trial --tags -- a", "--tags needs a value", "'bede help trial'"),
        ("wrap --task-id -- x", "--task-id needs a value", "'bede help wrap'"),
        ("-C /no/such/folder trial a", "cannot change to '/no/such/folder'", "-C"),
    ],
)
def test_a_wrong_word_is_a_usage_error(typed: Run, words: str, message: str, hint: str) -> None:
    ran = typed(*words.split())
    assert ran.status == 2 and not ran.out
    error = ran.error()
    assert (error["code"], error["exit_status"], error["retryable"]) == ("usage", 2, False)
    assert message in error["message"]
    assert hint in error["hint"]


@given(st.lists(st.text(st.characters(exclude_characters="\x00"), max_size=12), max_size=6))
def test_no_command_line_is_a_bug(words: list[str]) -> None:
    try:
        parsed = grammar.words(trial.operation)  # type: ignore[attr-defined]
        for item in parsed:
            if not item.is_flag and not item.everywhere:
                grammar.read(item, words if item.many else "".join(words), Path())
    except BedeError as error:
        assert error.code == "usage"
        json.dumps(error.to_json())


# What is handed on.


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("--task-id T -- ls -l --limit 3", ["ls", "-l", "--limit", "3"]),
        ("--task-id T ls -l --limit 3", ["ls", "-l", "--limit", "3"]),
        ("--task-id T -n 1 ls -- -n 4", ["ls", "--", "-n", "4"]),
        ("--task-id T -- -n 4 --json --help -C x", ["-n", "4", "--json", "--help", "-C", "x"]),
        ("--task-id T -- -- x", ["--", "x"]),
        ('--task-id T -- echo ["a"]', ["echo", '["a"]']),
    ],
)
def test_a_command_is_handed_on_whole(typed: Run, words: str, command: list[str]) -> None:
    ran = typed("--json", "wrap", *words.split())
    assert not ran.out
    assert json.loads(ran.err)["given"] == {"command": repr(command), "task_id": "'T'", "limit": "1"}
    assert ran.status == 3


def test_other_lists_leave_options_where_they_are(values: Callable[..., dict[str, Any]]) -> None:
    assert values("many", "a", "b", "--yes") == {"ids": ["a", "b"], "yes": True}
    assert values("many", "--yes", "a", "--", "--yes") == {"ids": ["a", "--yes"], "yes": True}


def test_a_result_aside_is_shown_only_where_json_was_asked_for(typed: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = typed("wrap", "--task-id", "T", "--", "x")
    assert (quiet.out, quiet.err, quiet.status) == ("", "", 3)
    monkeypatch.setenv("BEDE_OUTPUT", "json")
    assert typed("wrap", "--task-id", "T", "--", "x").err == ""


# Options of every verb.


@pytest.mark.parametrize("words", ["-C {} trial a", "trial a -C {}", "trial -C {} a", "-C{} trial a"])
def test_the_folder_may_be_named_before_and_after_the_verb(typed: Run, tmp_path: Path, words: str) -> None:
    (tmp_path / "there").mkdir()
    ran = typed(*words.format(tmp_path / "there").split())
    assert ran.json()["directory"] == str(tmp_path / "there")


def test_folders_add_up_as_in_git(typed: Run, tmp_path: Path) -> None:
    (tmp_path / "one" / "two").mkdir(parents=True)
    ran = typed("-C", str(tmp_path), "-C", "one", "trial", "a", "-C", "", "-C", "two")
    assert ran.json()["directory"] == str(tmp_path / "one" / "two")
    back = typed("-C", str(tmp_path / "one"), "-C", str(tmp_path), "trial", "a")
    assert back.json()["directory"] == str(tmp_path)


@POSIX
def test_a_folder_that_is_gone_is_told(typed: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert typed("trial", "a").error()["message"] == "the current folder is gone"
    assert typed("-C", str(tmp_path), "trial", "a").json()["directory"] == str(tmp_path)
    monkeypatch.chdir(tmp_path)


def test_the_last_form_counts(typed: Run) -> None:
    assert typed("--pretty", "trial", "a", "--json").out.startswith('{"schema":"trial/1"')
    assert typed("--json", "trial", "a", "--pretty").out.startswith("directory")


def test_project_and_branch_reach_the_verb(project: Path, typed: Run, tmp_path: Path) -> None:
    assert typed("fork", "idea").status == 0
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for words in ("--project work --branch idea log", "log --branch=idea --project=work"):
        assert typed("-C", str(elsewhere), *words.split()).json()["branch"] == "idea"
    assert typed("-C", str(elsewhere), "log").status == 10


def least(verb: str) -> list[str]:
    """Return the least that can be typed after a verb."""
    needed = [item for item in grammar.words(verbs.find(verb)) if item.required]
    values = [(item, item.choices[0] if item.choices else "x") for item in needed]
    options = [word for item, value in values if item.flags for word in (item.flags[0], value)]
    return [*options, "--", *(value for item, value in values if not item.flags)]


@pytest.mark.parametrize("verb", verbs.HEADINGS)
def test_a_project_that_nobody_knows_is_an_error_of_every_verb(typed: Run, verb: str) -> None:
    before = sorted(Path.cwd().parent.rglob("*"))
    ran = typed("--project", "nope", verb, *least(verb))
    assert (ran.status, ran.out) == (13, "")
    error = ran.error()
    assert (error["code"], error["message"]) == ("not_found", "no registered project 'nope'")
    assert "bede init" in error["hint"] and "bede projects" in error["hint"]
    assert sorted(Path.cwd().parent.rglob("*")) == before


def test_a_project_of_which_there_are_two_is_one_too(project: Path, typed: Run, tmp_path: Path) -> None:
    twin = tmp_path / "deep" / project.name
    twin.mkdir(parents=True)
    assert typed("-C", str(twin), "init").status == 0
    for verb in ("config", "capabilities", "projects"):
        assert typed(verb, "--project", project.name).error()["code"] == "conflict", verb


def test_an_argument_may_be_given_by_its_name(project: Path, typed: Run) -> None:
    assert typed("store", "--text", "a walrus on the ice", "--kind=note").status == 0
    for words in (["walrus"], ["--query", "walrus"], ["--top-k", "3", "--query=walrus"], ["-C", ".", "--query=walrus"]):
        assert [item["summary"] for item in typed("search", *words).json()["results"]] == ["a walrus on the ice"]
    taken = typed("lease", "--action", "acquire", "--paths", "a.py", "--paths", '["b.py","c.py"]').json()
    assert [item["resource"] for item in taken["leases"]] == ["a.py", "b.py", "c.py"]
    assert typed("config", "--key", "store.wait", "7").json()["settings"][0]["value"] == 7.0
    assert typed("search", "--query", "walrus", "ice").error()["message"] == "unexpected argument 'ice'"
    assert typed("search", "--qeury", "walrus").error()["hint"] == "did you mean --query?"
    assert typed("search", "--", "--query").json()["query"] == "--query"
    assert "--query" not in manual.page(verbs.find("search"))


@pytest.mark.parametrize("verb", verbs.HEADINGS)
def test_an_argument_by_its_name_is_the_argument_in_either_parser(verb: str) -> None:
    declared = verbs.find(verb)
    words = grammar.words(declared)
    named = [item for item in words if item.by_name]
    loose = [item for item in words if not item.flags and not item.by_name]
    values = {item.name: item.choices[0] if item.choices else "x" for item in named}
    told = [word for item in named for word in (item.by_name, values[item.name])]
    told += [word for item in words if item.required and item.flags for word in (item.flags[0], "x")]
    heard = grammar.spoken(words, told)
    for typed in (plain.split(heard, told), parser.split(declared, heard, told)) if named and not loose else ():
        assert typed is not None
        assert {item.name: typed[item.name] for item in named} == {
            item.name: [values[item.name]] if item.many else values[item.name] for item in named
        }


@pytest.mark.parametrize("flag", ["--agent-id ada", "--agent ada", "--agent=ada", "--agent bob --agent-id ada"])
def test_who_does_it_is_named_in_either_way(project: Path, typed: Run, flag: str) -> None:
    assert typed("store", "a note", *flag.split()).json()["stored"][0]["agent_id"] == "ada"
    listed = typed("search", "--kind", "note", *flag.split()[-2:])
    assert [item["agent_id"] for item in listed.json()["results"]] == ["ada"]
    assert "--agent " not in manual.page(verbs.find("store"))


def test_where_both_names_mean_something_neither_is_the_other() -> None:
    for verb in verbs.HEADINGS:
        words = {item.name: item for item in grammar.words(verbs.find(verb))}
        if {"agent", "agent_id"} <= words.keys():
            assert not words["agent"].aliases and not words["agent_id"].aliases, verb
        for name, other in (("agent", "--agent-id"), ("agent_id", "--agent")):
            if name in words and not {"agent", "agent_id"} <= words.keys():
                assert words[name].aliases == (other,), verb


def test_an_argument_may_be_called_like_an_option_of_every_verb(project: Path, typed: Run) -> None:
    assert typed("fork", "idea").status == 0
    assert typed("--branch", "main", "checkout", "idea").json()["branch"] == "idea"


def test_no_verb_takes_an_option_of_every_verb_for_itself() -> None:
    shared = {flag for item in grammar.EVERYWHERE for flag in item.flags} | {"--version"}
    for verb in verbs.HEADINGS:
        words = [item for item in grammar.words(verbs.find(verb)) if not item.everywhere]
        own = [flag for item in words for flag in (*item.flags, *item.off, *item.aliases)]
        own += [item.by_name for item in words if item.by_name]
        assert shared.isdisjoint(own), verb
        assert len(own) == len(set(own)), verb


# Help.


def test_help_tells_every_word(typed: Run) -> None:
    pages = [typed(*words).out for words in (["trial", "--help"], ["trial", "-h"], ["help", "trial"], ["-h", "trial"])]
    assert len(set(pages)) == 1
    page = pages[0]
    assert page.startswith("usage: bede trial [OPTIONS] THING [SECOND]\n\nTry every sort of word.\n\n")
    assert "\n    and a block\n    kept as it is\n" in page
    for text in ("-n, --number N", "[1 to 10; default: 3]", "--keep, --no-keep", "--mode fast|slow", "--from PATH"):
        assert text in page
    assert "secret" not in page
    assert all(len(line) <= 80 for line in page.splitlines())


def test_help_is_shown_whatever_else_is_wrong(typed: Run) -> None:
    ran = typed("trial", "--number", "x", "--help")
    assert ran.status == 0 and ran.out.startswith("usage: bede trial")


@pytest.mark.parametrize("words", [(), ("help",), ("--help",), ("-h",), ("help", "help")])
def test_the_list_of_verbs(typed: Run, words: tuple[str, ...]) -> None:
    ran = typed(*words)
    assert ran.status == 0 and not ran.err
    for verb in verbs.HEADINGS:
        assert f"\n  {verb} " in ran.out
    for heading in dict.fromkeys(verbs.HEADINGS.values()):
        assert f"\n{heading}\n" in ran.out


def test_every_verb_has_help_for_every_word() -> None:
    for verb in verbs.HEADINGS:
        declared = verbs.find(verb)
        assert declared.summary and manual.page(declared)
        for item in grammar.words(declared):
            assert item.field.description, f"{verb} {item.label}"


@pytest.mark.parametrize("words", [("help", "hook"), ("hook", "--help"), ("hook", "-h"), ("--help", "hook")])
def test_the_door_of_the_agents_explains_itself(typed: Run, words: tuple[str, ...]) -> None:
    ran = typed(*words)
    assert ran.status == 0 and not ran.err
    assert ran.out.startswith("usage: bede hook EVENT --agent NAME\n")
    assert all(re.search(rf"[ ]{name}[,;]", ran.out) for name in AGENTS), "every agent by its name"
    assert all(len(line) <= 80 for line in ran.out.splitlines()) and hook.SLOWER in ran.out


def test_nobody_comes_to_that_door_with_other_words(typed: Run) -> None:
    ran = typed("--json", "hook", "PreToolUse")
    assert (ran.status, ran.out) == (2, "") and "bede help hook" in ran.error()["hint"]
    assert "did you mean 'hook'?" in typed("hok").error()["hint"]


@pytest.mark.parametrize("words", [["--version"], ["-V"], ["--version", "log"], ["--no-color", "--version"]])
def test_version(typed: Run, words: list[str]) -> None:
    assert typed(*words) == Ran(0, f"bede {__version__}\n", "")


# How a call ends.


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.code)
def test_every_error_has_its_status_and_its_line(typed: Run, error: type[BedeError]) -> None:
    RAISED.append(error("it went wrong", hint="do this", reason="because", where=["x"]))
    ran = typed("fail")
    assert (ran.status, ran.out) == (error.exit_status, "")
    body = ran.error()
    assert (body["schema"], body["code"], body["exit_status"]) == ("error/1", error.code, error.exit_status)
    assert len(ran.err.splitlines()) == 1
    if error is not Internal:
        assert ran.err == json.dumps(body, ensure_ascii=False, separators=(",", ":")) + "\n"
        assert (body["message"], body["reason"], body["details"]) == ("it went wrong", "because", {"where": ["x"]})


def test_a_person_reads_error_reason_hint_and_details(typed: Run) -> None:
    listed = [{"key": "db", "ours": "a\x1b[0m"}]
    RAISED.append(Rejected("too\x1b[31m short", hint="say more", reason="summary_too_short", conflicts=listed))
    ran = typed("fail", "--pretty")
    told = "error: too\\x1b[31m short\nreason: summary_too_short\nhint: say more\n  - key db, ours a\\x1b[0m\n"
    assert (ran.status, ran.err) == (3, told)


def test_what_a_holder_has_not_is_not_told(typed: Run) -> None:
    RAISED.append(Rejected("held", holder={"agent_id": "ann", "session": ""}))
    assert typed("fail", "--pretty").err == "error: held\n  holder: agent_id ann\n"


def test_details_that_are_no_json_do_not_hide_the_error(typed: Run) -> None:
    RAISED.append(Rejected("no", odd=Path("x"), worse=float("nan")))
    ran = typed("fail")
    assert ran.status == 3 and ran.error()["message"] == "no"


BUGS = [ValueError("secret\x1b[31m"), RecursionError("deep"), MemoryError(), OSError(errno.EIO, "broken")]
BUGS += [UnicodeEncodeError("utf-8", "\udc80", 0, 1, "surrogates"), ExceptionGroup("several", [ValueError("one")])]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: type(bug).__name__)
def test_a_bug_leaves_a_private_report_and_no_traceback(typed: Run, home: Path, bug: Exception) -> None:
    RAISED.append(bug)
    ran = typed("fail", "--pretty")
    assert ran.status == 70 and "Traceback" not in ran.err and "\x1b" not in ran.err
    assert f"error: a bug in Bede: {type(bug).__name__}" in ran.err
    report = Path(ran.err.rpartition(" in ")[2].strip())
    assert report.is_relative_to(home)
    text = report.read_text(encoding="utf-8")
    assert "Traceback" in text and type(bug).__name__ in text and __version__ in text
    if os.name != "nt":
        assert report.stat().st_mode & 0o777 == 0o600
        assert report.parent.stat().st_mode & 0o077 == 0


def test_a_report_of_a_bug_holds_no_secret(typed: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    RAISED.append(ValueError(f"no value for {token}"))
    report = Path(typed("fail", "--pretty").err.rpartition(" in ")[2].strip())
    assert token not in report.read_text(encoding="utf-8")
    monkeypatch.setenv("BEDE_DEBUG", "1")
    RAISED.append(ValueError(f"no value for {token}"))
    ran = typed("fail")
    assert "Traceback" in ran.err and token not in ran.err


def test_a_traceback_is_shown_where_it_was_asked_for(typed: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEDE_DEBUG", "1")
    RAISED.append(ValueError("a bug"))
    ran = typed("fail", "--pretty")
    assert "Traceback" in ran.err and ran.err.endswith("hint: please report it with the traceback above\n")
    assert not list(home.rglob("*.log"))


def test_old_reports_go(typed: Run, home: Path) -> None:
    RAISED.append(ValueError("first"))
    folder = Path(typed("fail", "--pretty").err.rpartition(" in ")[2].strip()).parent
    for number in range(30):
        (folder / f"20200101T0000{number:02}Z-1.log").write_text("old", encoding="utf-8")
    RAISED.append(ValueError("last"))
    typed("fail")
    assert len(list(folder.glob("*.log"))) == 20


def test_a_report_that_cannot_be_written_is_no_second_error(typed: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEDE_DATA_DIR", "/dev/null/nowhere")
    RAISED.append(ValueError("a bug"))
    ran = typed("fail")
    assert ran.status == 70 and "BEDE_DEBUG=1" in ran.error()["hint"]


def test_an_interrupt_and_a_lost_reader_are_silent(typed: Run) -> None:
    RAISED.append(KeyboardInterrupt())
    assert typed("fail") == Ran(130, "", "")


def test_a_wrong_variable_fails_before_the_verb_runs(typed: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEDE_OUTPUT", "xml")
    RAISED.append(AssertionError("it ran"))
    assert typed("fail").error()["message"] == "BEDE_OUTPUT is 'xml'"
    RAISED.clear()
