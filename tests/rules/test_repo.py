"""The repository as a reader finds it: nothing of one machine in it, and all explained that it names."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from rules.conftest import sources

#: Spelt in pieces, so that this file does not hold what it looks for.
#: People of the samples, and of tests: nobody's real home.
NOBODY = "[Aa][Dd][Aa]|alice|bob|carol|dave|erin|frank|grace|heidi|ivan|judy|mallory|niaj|olivia|peggy|dev|me|test|u|x"
MACHINE = re.compile(
    r"(?<![\w.~}>-])/(?:" + "|".join(("ho" "me", "ro" "ot", "wo" "rk", "Us" "ers")) + rf")/(?!(?:{NOBODY})\b)[\w.-]"
    rf"|[A-Z]:\\Us" rf"ers\\(?!(?:{NOBODY})\b)"
)  # fmt: skip
INDEX = re.compile(
    "|".join((r"\bpypi" r"\.", "python" r"hosted\.", "--(extra-)?index" "-url", "find-" "links", "/sim" "ple/"))
)  # fmt: skip
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)|^\[[^\]]+\]:\s*<?(\S+?)>?\s*$", re.MULTILINE)


def texts(files: tuple[Path, ...]) -> dict[Path, str]:
    """Return every file that is text."""
    found = {}
    for path in files:
        body = path.read_bytes()
        if b"\0" not in body[:8192]:
            found[path] = body.decode("utf-8")
    return found


@pytest.mark.parametrize("has_git", [True, False])
@pytest.mark.parametrize("name", ["v", "venv", "deep/env"])
def test_an_environment_in_the_checkout_is_nobodys_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_git: bool, name: str
) -> None:
    checkout = tmp_path / "checkout"
    library = checkout / name / "lib"
    library.mkdir(parents=True)
    (checkout / name / "pyvenv.cfg").write_text("version = 3.12\n")
    (library / "theirs.py").write_text("")
    (checkout / "ours.py").write_text("")
    if has_git:
        subprocess.run(["git", "init", "-q"], cwd=checkout, check=True)
    else:
        monkeypatch.setenv("PATH", str(tmp_path))
    assert sources(checkout) == (checkout / "ours.py",)


def seen(pattern: re.Pattern[str], files: tuple[Path, ...], root: Path) -> list[str]:
    """Return where a pattern is found, as `file:line: text`."""
    return [
        f"{path.relative_to(root).as_posix()}:{number}: {line.strip()[:100]}"
        for path, text in texts(files).items()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_file_names_a_place_on_somebodys_machine(files: tuple[Path, ...], root: Path) -> None:
    found = seen(MACHINE, files, root)
    assert not found, "\n".join(found)


def test_no_file_names_a_package_index(files: tuple[Path, ...], root: Path) -> None:
    found = seen(INDEX, files, root)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "line", ["cd /ho" "me/kim/x", "'/wo" "rk/main'", "C:\\Us" "ers\\kim", "=/ro" "ot/.cache"]
)
def test_the_rule_sees_a_place(line: str) -> None:
    assert MACHINE.search(line)


@pytest.mark.parametrize(
    "line", ["https://example.org/ho" "me/x", "~/wo" "rk/x", "src/wo" "rk/x", "/workshop/x"]
)
def test_the_rule_lets_other_paths_pass(line: str) -> None:
    assert not MACHINE.search(line)


def test_pins_are_plain_and_cover_what_is_asked_for(root: Path) -> None:
    import tomllib

    pins = [line for line in (root / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert [line for line in pins if not re.fullmatch(r"[a-z0-9-]+==[0-9][\w.+]*", line)] == []
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    asked = project["dependencies"] + project["optional-dependencies"]["dev"]
    names = {re.match(r"[\w.-]+", item)[0].lower().replace("_", "-") for item in asked}
    assert sorted(names - {line.partition("==")[0] for line in pins}) == []


def test_the_readme_fits_on_a_few_screens(root: Path) -> None:
    lines = (root / "README.md").read_text(encoding="utf-8").splitlines()
    assert 70 <= len(lines) <= 130


def test_the_readme_begins_with_the_two_commands(root: Path) -> None:
    readme = (root / "README.md").read_text(encoding="utf-8")
    assert 0 < readme.find("scripts/demo") < readme.find("scripts/test")
    for name in ("demo", "test"):
        assert (root / "scripts" / name).stat().st_mode & 0o111


def test_every_verb_is_in_the_reference(root: Path) -> None:
    from bede.operations import VERBS

    reference = (root / "docs/reference.md").read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", reference, re.MULTILINE)
    words = {word for heading in headings for word in re.findall(r"[\w-]+", heading)}
    missing = sorted(set(VERBS) - words)
    assert not missing, missing


def test_every_error_and_setting_is_documented(root: Path) -> None:
    from bede.config import SETTINGS
    from bede.errors import ERRORS

    docs = "\n".join(path.read_text(encoding="utf-8") for path in sorted((root / "docs").rglob("*.md")))
    names = {error.code for error in ERRORS} | {setting.key for setting in SETTINGS}
    words = set(re.findall(r"[\w.]*\w", docs))
    missing = sorted(names - words)
    assert not missing, missing


def test_links_lead_somewhere(files: tuple[Path, ...], root: Path) -> None:
    pages = [path for path in files if path.suffix == ".md"]
    assert root / "README.md" in pages
    found = [fault for page in pages for fault in dead(page, root)]
    assert not found, "\n".join(found)


def dead(page: Path, root: Path) -> list[str]:
    """Return a page's links to files or headings that are not there, or not in the repository."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    faults = []
    for match in LINK.finditer(text):
        target, _, anchor = (match[1] or match[2]).partition("#")
        there = (page.parent / target).resolve() if target else page
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        if not there.exists() or not there.is_relative_to(root):
            faults.append(f"{page.relative_to(root).as_posix()}: {target}")
        elif anchor and there.suffix == ".md" and anchor not in anchors(there):
            faults.append(f"{page.relative_to(root).as_posix()}: {target}#{anchor}")
    return faults


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as a forge makes them; a repeated heading gets a number."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    found: set[str] = set()
    for heading in re.findall(r"^#+\s+(.*?)\s*#*$", text, re.MULTILINE):
        bare = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", bare.lower()).replace(" ", "-")
        number = 1
        while (name if number == 1 else f"{name}-{number - 1}") in found:
            number += 1
        found.add(name if number == 1 else f"{name}-{number - 1}")
    return found


def test_the_rule_sees_a_dead_link(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Here\n\n## Here\n[a](page.md) [b](gone.md) [c](#here-1) [d](page.md#there) [e](https://example.org/x)\n"
        "[f]: ../out.md\n```\n[g](in-a-fence.md)\n```\n"
    )
    assert dead(page, tmp_path) == ["page.md: gone.md", "page.md: page.md#there", "page.md: ../out.md"]


def test_scripts_can_be_run_and_explain_themselves(files: tuple[Path, ...], root: Path) -> None:
    scripts = [path for path in files if path.parent == root / "scripts" or path == root / ".ci/run"]
    assert {"check", "demo", "generate", "release", "test", "run"} <= {path.name for path in scripts}
    for path in scripts:
        lines = path.read_text(encoding="utf-8").splitlines()
        if path.name.startswith("_"):
            assert lines[0].startswith("# "), f"{path.name}: say what it is"
        else:
            assert lines[0].startswith("#!") and lines[1].strip("#\"' "), f"{path.name}: say what it does"
            assert path.stat().st_mode & 0o111, f"{path.name}: not executable"


def test_shell_scripts_parse(files: tuple[Path, ...], root: Path) -> None:
    shells = 0
    for path in files:
        if path.parent == root / "scripts" or path == root / ".ci/run":
            first = path.read_text(encoding="utf-8").partition("\n")[0]
            if first.endswith("sh") or path.name == "_venv":
                shell = "bash" if first.endswith("bash") else "sh"
                subprocess.run([shell, "-n", path], check=True)
                shells += 1
    assert shells >= 4
