"""What is made from the operations: fresh, complete, and understood by the programs it is made for."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import pytest
from conftest import COMMAND, ROOT, Ran, surroundings

from bede.context import Context
from bede.operation import Field, Operation, operation
from bede.records import Record
from bede_cli import grammar, verbs

sys.path.append(str(ROOT / "scripts"))
from generators import completions, facts, manpages, reference

Run = Callable[..., Ran]


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed")


def run(*words: str | Path, env: dict[str, str] | None = None, stdin: str = "") -> Ran:
    done = subprocess.run(
        list(map(str, words)),
        input=stdin.encode(),
        capture_output=True,
        env=surroundings(env),
        timeout=120,
        check=False,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


HOSTILE = "It's [a] 'quote', a \"double\", a `tick`, $(touch evil) `touch evil`; touch evil | a:b \\ \\n .x ~ ^ é"


@operation(effect="read")
def odd(
    context: Context,
    thing: Annotated[str, Field(HOSTILE, metavar="[THING]")] = "",
    *,
    option: Annotated[list[str] | None, Field(HOSTILE, metavar="a:b'c", short="o")] = None,
) -> Record:
    """It's [a] summary: with \\backslash, $(touch evil) and "quotes".

    .SH this is no macro
    'nor is this

        .block of text
        'as it \\fBis\\fR
    """
    raise AssertionError


ODD: Operation = odd.operation  # type: ignore[attr-defined]


@pytest.fixture
def odd_verbs(monkeypatch: pytest.MonkeyPatch) -> list[Operation]:
    """The verbs, and one whose texts would rather be code."""
    monkeypatch.setitem(verbs.HEADINGS, "odd", "Odd")
    return [*(verbs.find(verb) for verb in verbs.HEADINGS if verb != "odd"), ODD]


# Fresh.


def test_everything_committed_is_fresh() -> None:
    checked = run(sys.executable, ROOT / "scripts/generate", "--check")
    assert checked.status == 0, checked.err


def test_check_names_what_is_stale(tmp_path: Path) -> None:
    copy = tmp_path / "checkout"
    for shelf in ("core", "cli", "scripts"):
        shutil.copytree(ROOT / shelf, copy / shelf, ignore=shutil.ignore_patterns("__pycache__"))
    script = (sys.executable, "-P", copy / "scripts/generate")
    paths = os.pathsep.join(str(copy / shelf) for shelf in ("core", "cli"))
    env = {"PYTHONPATH": paths}

    nothing = run(*script, "--check", env=env)
    assert nothing.status == 1 and "stale: docs/reference.md" in nothing.err and not (copy / "docs").exists()
    made = run(*script, env=env)
    assert made.status == 0 and "wrote man/man1/bede.1" in made.out
    assert run(*script, "--check", env=env) == Ran(0, "", "")
    assert run(*script, env=env) == Ran(0, "", "")

    with (copy / "completions/_bede").open("a", encoding="utf-8") as file:
        file.write("# edited by hand\n")
    (copy / "man/man1/bede-log.1").unlink()
    (copy / "man/man1/bede-gone.1").write_text("", encoding="utf-8")
    stale = run(*script, "--check", env=env)
    assert stale.status == 1
    assert set(re.findall("stale: (.+)", stale.err)) == {
        "completions/_bede",
        "man/man1/bede-log.1",
        "man/man1/bede-gone.1",
    }
    assert run(*script, env=env).status == 0
    assert not (copy / "man/man1/bede-gone.1").exists()
    assert run(*script, "--chekc", env=env).status == 2


# Man pages.


@needs("groff")
def test_man_pages_are_sound_and_complete(tmp_path: Path) -> None:
    for verb in map(verbs.find, verbs.HEADINGS):
        shown = roff(manpages.page(verb))
        assert f"bede-{verb.name}" in shown and "EXIT STATUS" in shown
        for item in grammar.words(verb):
            for flag in (*item.flags, *item.off):
                assert item.field.hidden or re.search(rf"(?<![\w-]){flag}(?![\w-])", shown), (verb.name, flag)
    overview = roff(manpages.overview([verbs.find(verb) for verb in verbs.HEADINGS]))
    for verb_name in verbs.HEADINGS:
        assert f"bede-{verb_name}(1)" in overview


@needs("groff")
def test_no_text_is_taken_for_a_macro(odd_verbs: list[Operation]) -> None:
    shown = " ".join(roff(manpages.page(ODD)).split())
    assert r"""It's [a] summary: with \backslash, $(touch evil) and "quotes".""" in shown
    assert ".SH this is no macro 'nor is this" in shown
    assert r".block of text 'as it \fBis\fR" in shown
    assert HOSTILE.replace("`", "") in shown
    assert "a:b'c" in shown


def roff(page: str) -> str:
    """Return a man page as a terminal shows it, without its bold."""
    done = run("groff", "-ww", "-man", "-Tutf8", "-P-cbou", "-rLL=200n", stdin=page)
    assert (done.status, done.err) == (0, ""), page
    return done.out


# Completions.


@pytest.fixture
def shell(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bede: Run, odd_verbs: list[Operation]
) -> Path:
    """A folder with completions of the odd verbs; `bede` is this checkout's, in a project with two branches."""
    assert bede("fork", "idea").status == 0
    folder = tmp_path / "shell"
    (folder / "bin").mkdir(parents=True)
    command = folder / "bin" / "bede"
    command.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    for name, made in (("bash", completions.bash), ("_bede", completions.zsh), ("fish", completions.fish)):
        (folder / name).write_text(made(odd_verbs), encoding="utf-8")
    for name in ("mine.json", "our own.json"):
        (project / name).write_text("", encoding="utf-8")
    monkeypatch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return folder


#: A line up to the cursor, and what may follow.
LINES: dict[str, set[str]] = {
    "bede sto": {"store"},
    "bede verif": {"verify"},
    "bede -C . sto": {"store"},
    "bede --branch main --json sto": {"store"},
    "bede --ve": {"--version"},
    "bede log --oper": {"--operations"},
    "bede log --bra": {"--branch"},
    "bede store --kind deci": {"decision"},
    "bede checkout ": {"idea", "main"},
    "bede checkout i": {"idea"},
    "bede merge i": {"idea"},
    "bede diff main i": {"idea"},
    "bede log --at m": {"main"},
    "bede --branch i": {"idea"},
    "bede help roll": {"rollback"},
    "bede store --from mi": {"mine.json"},
    "bede store --from ou": {"our own.json"},
    "bede fork --at": {"--at"},
    "bede od": {"odd"},
    "bede odd --opt": {"--option"},
    "bede odd x": set(),
    "bede attach cop": {"copilot"},
    "bede detach al": {"all"},
    "bede install-hooks --agent gem": {"gemini-cli"},
    "bede config hooks.cl": {"hooks.claims"},
    "bede brief mi": {"mine.json"},
    "bede lease acquire mi": {"mine.json"},
    "bede lease acq": {"acquire"},
    "bede search x": set(),
}


#: What the shells print after the offers for one line.
MARK = "= = ="


def compare(done: Ran) -> None:
    """Compare what a shell printed, one offer a line and a mark after those for one line."""
    assert (done.status, done.err) == (0, "")
    *replies, rest = done.out.split(MARK + "\n")
    # A description follows after a tab; a blank may be quoted already.
    offers = [{line.split("\t")[0].strip().replace("\\ ", " ") for line in reply.splitlines()} for reply in replies]
    assert {line: offer - {""} for line, offer in zip(LINES, offers, strict=True)} == LINES
    assert not rest and not Path("evil").exists()


@needs("bash")
def test_bash_completes(shell: Path) -> None:
    script = ["source " + shlex.quote(str(shell / "bash"))]
    for line in LINES:
        words = line.split(" ")
        script += [f"COMP_WORDS=({shlex.join(words)}) COMP_CWORD={len(words) - 1}", "_bede"]
        script += ['for reply in ${COMPREPLY[@]+"${COMPREPLY[@]}"}; do', 'echo "${reply//$\'\\n\'/ BREAK }"', "done"]
        script += [f'echo "{MARK}"']
    compare(run("bash", "--norc", "-u", "-c", "\n".join(script)))


@needs("bash")
def test_bash_completes_after_an_equals_sign_and_after_dashes(shell: Path) -> None:
    script = f"""source {shlex.quote(str(shell / "bash"))}
        COMP_WORDS=(bede store --kind = deci) COMP_CWORD=4; _bede; echo "${{COMPREPLY[@]}}"
        COMP_WORDS=(bede store --kind =) COMP_CWORD=3; _bede; echo "${{#COMPREPLY[@]}}"
        COMP_WORDS=(bede auto --task-id T -- bas) COMP_CWORD=5; _bede; echo "${{COMPREPLY[@]}}"
    """
    kind, kinds, commands = run("bash", "--norc", "-c", script).out.splitlines()
    assert kind == "decision" and int(kinds) >= 8 and "bash" in commands.split()


@needs("fish")
def test_fish_completes(shell: Path) -> None:
    script = [f"source {shlex.quote(str(shell / 'fish'))}"]
    script += [f"complete -C {shlex.quote(line)}; echo '{MARK}'" for line in LINES]
    compare(run("fish", "--no-config", "-c", "\n".join(script)))


#: Types a line and a tab into an interactive zsh, and prints what it was offered; `compadd` tells on the way.
ZSH = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'PROMPT=; fpath=(%s $fpath); autoload -Uz compinit; compinit -u -D'
zpty -w shell 'compadd() { local -a hits; builtin compadd -O hits "$@"; print -rl -- "H""IT:"${^hits}
  builtin compadd "$@" }'
zpty -w shell 'tell() { zle complete-word; zle kill-whole-line; print END }; zle -N tell; bindkey "^I" tell'
zpty -w shell 'print REA""DY'
until_seen() { local line; while zpty -r shell line; do
  line=${line//[$'\r\n']/}
  [[ $line == *HIT:?* ]] && print -r -- "${line##*HIT:}"
  [[ $line == *$1* ]] && return
done }
until_seen READY
for line in "$@"; do
  zpty -w -n shell "$line"$'\t'
  until_seen END
  print -- "@MARK@"
done
"""


@needs("zsh")
def test_zsh_completes(shell: Path) -> None:
    assert run("zsh", "-n", shell / "_bede") == Ran(0, "", "")
    script = ZSH.replace("%s", str(shell)).replace("@MARK@", MARK)
    compare(run("zsh", "-f", "-c", script, "zsh", *LINES, env={"TERM": "dumb"}))


# The reference.


def test_the_reference_has_every_word_and_every_key() -> None:
    for verb in map(verbs.find, verbs.HEADINGS):
        text = reference.section(verb)
        for item in grammar.words(verb):
            if not item.everywhere and not item.field.hidden:
                assert all(f"{flag}" in text for flag in (*item.flags, *item.off)), (verb.name, item.name)
                assert item.field.description.replace("|", "\\|") in text
        if verb.name != verbs.SERVE:
            fields: Sequence[str] = list(verb.result().__dataclass_fields__)  # type: ignore[attr-defined]
            for name in fields:
                shown = f"\n| `{name.rstrip('_')}` |" in text
                assert shown or name in ("SCHEMA", "STREAM", "SPARSE"), (verb.name, name)
            assert f"| `schema` | `{verb.result().SCHEMA}` |" in text  # type: ignore[attr-defined]


def test_the_reference_goes_into_nested_records() -> None:
    text = reference.section(verbs.find("branches"))
    assert "| `branches` | array of object |\n| `branches[].name` | string |\n" in text
    assert "| `branches[].ahead` | integer |" in text


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "string"}, "string"),
        ({"const": "log/1"}, "`log/1`"),
        ({"enum": ["a", "b"]}, "`a` or `b`"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer or null"),
        ({"type": ["integer", "null"]}, "integer or null"),
        ({"type": "array", "items": {"$ref": "#/$defs/X"}}, "array of object"),
        ({}, "any"),
        (True, "any"),
    ],
)
def test_types_are_said_in_words(schema: Any, said: str) -> None:
    assert reference.kind(schema, {"$defs": {"X": {"type": "object"}}}) == said


def test_every_variable_that_is_read_is_documented() -> None:
    documented = {*facts.environment(), *facts.HANDED_OVER}
    read = set()
    for shelf in ("core", "cli"):
        for path in (ROOT / shelf).rglob("*.py"):
            read |= set(re.findall(r"\bBEDE_[A-Z_]*[A-Z]\b", path.read_text(encoding="utf-8")))
    assert read - documented == set()


def test_every_exit_status_is_documented() -> None:
    statuses = [status for status, _, _ in facts.exits()]
    assert statuses == sorted(set(statuses), key=int)
    assert {"0", "1", "2", "3", "10", "70", "130", "141"} <= set(statuses)
