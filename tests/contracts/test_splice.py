"""Files of others as people really keep them: whatever their layout, ours comes and goes without a trace.

Each corpus crosses documents with layouts; the files of a format are counted, so that none of it goes missing.
"""

from __future__ import annotations

import itertools
import json
import os
import stat
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bede.errors import BadSource, BedeError, Busy, Conflict, Unavailable
from bede.splice import Default, Items, Member, Section, Target, Whole, receipts
from bede.splice.plan import Change, apply, diff, edit, plan
from bede.splice.syntax import load

posix = pytest.mark.skipif(os.name != "posix", reason="Windows has neither these modes nor links for everyone")

SERVER = Member(
    ("mcpServers", "bede"), {"type": "stdio", "command": "/opt/a b/bin/bede", "args": ["serve"]}, kept=("env",)
)
TABLE = Member(
    ("mcp_servers", "bede"), {"command": "/opt/bede", "args": ["serve", "x"], "startup_timeout_sec": 20}, ("env",)
)


def is_ours(item: Any) -> bool:
    """Tell whether an item is a hook of ours."""
    return isinstance(item, dict) and "bede hook" in str(item.get("command"))


def group(event: str, matcher: str = "") -> dict[str, Any]:
    """Return a group of hooks in Claude's form with one of ours."""
    hook = {"type": "command", "command": f"/opt/bede hook {event} --agent x", "timeout": 5}
    return ({"matcher": matcher} if matcher else {}) | {"hooks": [hook]}


HOOKS = (
    Items(("hooks", "PreToolUse"), (group("PreToolUse", "Edit|Write"),), is_ours, "hooks"),
    Items(("hooks", "SessionStart"), (group("SessionStart"),), is_ours, "hooks"),
    Items(("hooks", "Stop"), (group("Stop"),), is_ours, "hooks"),
)
FLAT = (
    Default(("version",), 1),
    *(
        Items(("hooks", event), ({"command": f"/opt/bede hook {event} --agent x"},), is_ours)
        for event in ("preToolUse", "stop")
    ),
)
SECTION = Section("if true; then\n  :\nfi", "# bede begin {sha}", "# bede end", top=True, head="#!/bin/sh\n# made\n")

THEIRS = {"command": "npx", "args": ["-y", "other@1.2"], "env": {"TOKEN": "x"}}
DOCUMENTS: dict[str, Any] = {
    "nothing": {},
    "settings": {"theme": "dark", "nested": {"a": [1, 2.5, True, None], "b": {}}, "list": []},
    "another server": {"mcpServers": {"other": THEIRS}},
    "no server": {"mcpServers": {}, "after": "x"},
    "no server at all": {"mcpServers": None},
    "many": {
        "numStartups": 3,
        "mcpServers": {f"s{n}": THEIRS for n in range(5)},
        "projects": {"/a": {"mcpServers": {}}},
    },
    "unicode": {"名前": "値", "emoji": "🦉", 'escaped "quote"': "a\\b // no comment /* nor this */"},
    "deep": {"a": {"b": {"c": {"d": {"e": {"f": [[[[{"g": {}}]]]]}}}}}},
    "like ours": {"mcpServers": {"bede2": THEIRS, "Bede": THEIRS}},
}
HOOKED: dict[str, Any] = {
    "nothing": {},
    "no hooks": {"hooks": {}},
    "null": {"hooks": None},
    "null event": {"hooks": {"PreToolUse": None, "preToolUse": None}, "x": 1},
    "empty events": {"hooks": {"PreToolUse": [], "Stop": [], "preToolUse": [], "stop": []}},
    "others": {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "lint"}]}]}},
    "others flat": {
        "version": 1,
        "hooks": {"preToolUse": [{"command": "other hook"}], "afterFileEdit": [{"command": "fmt"}]},
    },
    "many": {"permissions": {"allow": ["x"]}, "hooks": {"Stop": [{"hooks": [{"command": "a"}, {"command": "b"}]}] * 3}},
    "odd items": {"hooks": {"PreToolUse": [None, 1, "bede hook", [], {"hooks": None}, {"hooks": "x"}, {"hooks": []}]}},
    "two": {"version": 2, "hooks": {"stop": [{"command": "x"}]}},
}
LAYOUTS = {
    "two blanks": lambda data: json.dumps(data, indent=2, ensure_ascii=False) + "\n",
    "four blanks, no end": lambda data: json.dumps(data, indent=4),
    "tabs": lambda data: json.dumps(data, indent="\t") + "\n",
    "one line": lambda data: json.dumps(data),
    "minified": lambda data: json.dumps(data, separators=(",", ":")),
    "windows": lambda data: json.dumps(data, indent=2).replace("\n", "\r\n") + "\r\n",
    "marked": lambda data: "\ufeff" + json.dumps(data, indent=2) + "\n\n",
    "blank lines": lambda data: "\n" + json.dumps(data, indent=2).replace(",\n", ",\n\n") + "\n",
    "colons apart": lambda data: json.dumps(data, indent=3, separators=(",", " : ")),
}
BARE = ["", " ", "\n", "\r\n\r\n", "\ufeff", "\ufeff\n", "{}", "{ }", "{\n}", "{\n}\n", "{}\n", "{\t}\r\n", "{\n\n}\n"]


def laid(documents: dict[str, Any]) -> Iterator[str]:
    """Yield every document in every layout, and files with nothing in them."""
    yield from BARE
    for layout, data in itertools.product(LAYOUTS.values(), documents.values()):
        yield layout(data)


COMMENTED = [
    "// Settings\n{NL}",
    '{\n  // first\n  "a": 1, // after a\n  /* before b */ "b": [1, 2,], // trailing\n}\n',
    '{\n  "mcpServers": {\n    // "off": {"command": "x"},\n  },\n}\n',
    '{\n  "mcpServers": {\n    "other": { "command": "x" }, // keep\n    // last words\n  },\n}\n',
    '{\n  "mcpServers": {\n    "other": { "command": "x" } // no comma\n  }\n}\n',
    '{\n\t"mcpServers": { "other": {"command": "x",}, /* c */ }, "hooks": {} // end\n}',
    '{ "hooks": { "PreToolUse": [ /* none yet */ ] } } // done',
    '{\n  "hooks": {\n    "PreToolUse": [\n      {"matcher": "Bash", "hooks": [{"command": "lint"}]}, // theirs\n    ],\n  },\n}\n',  # noqa: E501
    '{\n  "hooks": {\n    "PreToolUse": [ // here\n    ]\n  }\n}\n',
    "/* one */ { /* two */ } /* three */\n",
    '{ "url": "https://x//y", "glob": "/**/*.ts", }\n',
    '{\n    "mcpServers": null, // nothing\n    "hooks": /* what */ { }\n}\n',
    '{"a":1,/* tight */"mcpServers":{"x":{"command":"y"}}}',
]
TABLES = [
    "", "\n", "# only a remark\n", 'model = "gpt-5.5"\n', 'model = "x" # why\napproval_policy = "never"\n\n[tui]\ntheme = "d"\n',  # noqa: E501
    '[mcp_servers.other]\ncommand = "x"\nargs = ["a", # one\n  "b"]\n\n[mcp_servers.other.env]\nA = "b"\n',
    '[mcp_servers]\n', '[mcp_servers]\nother = { command = "x" }\n', 'mcp_servers.other.command = "x"\n',
    '[[rules]]\na = 1\n[[rules]]\nb = """\n[mcp_servers.bede]\ncommand = "not this"\n"""\n',
    "[projects.\"/home/dev/x y\"]\ntrust_level = 'trusted'\n", '[a]\n  [a.b]\n    c = 1\n\n\n',
    'd = 1979-05-27T07:32:00Z\nn = nan\nbig = 0xDEAD_BEEF\n', '[mcp_servers."bede x"]\ncommand = "y"\n[mcp_servers.bede2]\n',  # noqa: E501
    'notify = ["sh", "-c", """\necho '"'[x]'"' """]\n',
]  # fmt: skip
SCRIPTS = [
    "", "#!/bin/sh", "#!/bin/sh\n", "#!/bin/sh\nexec lint\n", "#!/usr/bin/env bash\nset -euo pipefail\n\nrun() {\n\texec x\n}\nrun\n",  # noqa: E501
    "#!/bin/sh\n# --- beads begin ---\nbd hook\n# --- beads end ---\nexit 0", "echo no first line\n", "#!/bin/sh\ncat <<'E'\n#!/x\nE\n",  # noqa: E501
    "#!/bin/bash -e\n\n\n", "#!/bin/sh\nif [ -x a ]; then\n  exec a\nelse\n  exit 1\nfi\n", "#!/bin/sh\necho 'é 🦉'\n",
    "#!/bin/zsh\n: \\\n  continued", "\n\n", " ", "# remark\n",
]  # fmt: skip


def corpora() -> dict[str, list[tuple[bytes, Target]]]:
    """Return the files of each format, with the targets that they are tried with."""
    ends: list[Callable[[str], str]] = [
        lambda text: text,
        lambda text: text.replace("\n", "\r\n").rstrip("\r\n"),
        lambda text: "\ufeff" + text + "\n\n",
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("\n", "\r\n"),
    ]
    comments = [text.replace("{NL}", nl) for text in COMMENTED for nl in ("", "{}\n")] + ["// no end", "/* a */"]
    sheets: dict[str, list[tuple[str, Target]]] = {
        "json": [(text, Target(Path("x"), "json", (SERVER,))) for text in laid(DOCUMENTS)],
        "hooks": [(text, Target(Path("x"), "json", pieces)) for text in laid(HOOKED) for pieces in (HOOKS, FLAT)],
        "jsonc": [(end(text), Target(Path("x"), "jsonc", pieces))
                  for text in comments for end in ends[:4] for pieces in ((SERVER,), HOOKS, (*FLAT, SERVER))],
        "toml": [(end(text), Target(Path("x"), "toml", (TABLE,))) for text in TABLES for end in ends],
        "shell": [(end(text), Target(Path("x"), "text", (SECTION,))) for text in SCRIPTS for end in ends],
    }  # fmt: skip
    counts = {name: len({text for text, _ in pairs}) for name, pairs in sheets.items()}
    assert min(counts.values()) >= 50, counts
    return {name: [(text.encode(), target) for text, target in pairs] for name, pairs in sheets.items()}


CORPORA = corpora()


@pytest.mark.parametrize("name", CORPORA)
def test_install_install_uninstall_is_nothing(name: str) -> None:
    for before, target in CORPORA[name]:
        once = edit(before, target, install=True)
        assert once is not None and once != before
        assert edit(once, target, install=True) == once, before
        assert edit(once, target, install=False) == before, before
        assert edit(before, target, install=False) == before


@pytest.mark.parametrize("name", ["json", "hooks", "jsonc"])
def test_what_was_there_is_there_with_ours(name: str) -> None:
    for before, target in CORPORA[name]:
        old, new = (load((side or b"").decode("utf-8-sig"), name == "jsonc") or {} for side in
                    (before, edit(before, target, install=True)))  # fmt: skip
        for key in old.keys() - {"mcpServers", "hooks"}:
            assert new[key] == old[key]
        for key in ("mcpServers", "hooks"):
            for inner, value in (old.get(key) or {}).items():
                kept = (
                    [item for item in new[key][inner] if item in value] if value and key == "hooks" else new[key][inner]
                )
                assert kept == value or (not value and key == "hooks")


def test_every_line_that_was_there_is_there_with_ours() -> None:
    for before, target in [*CORPORA["toml"], *CORPORA["shell"]]:
        old, new = (
            (side or b"").removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").split(b"\n")
            for side in (before, edit(before, target, install=True))
        )
        assert all(line in new for line in old if line), before


@pytest.mark.parametrize("target", [Target(Path("x"), "json", (SERVER,)), Target(Path("x"), "json", FLAT),
                                    Target(Path("x"), "toml", (TABLE,)), Target(Path("x"), "text", (SECTION,)),
                                    Target(Path("x"), "text", (Whole("// bede\nx\n", "// bede"),))])  # fmt: skip
def test_a_file_that_was_not_there_goes_again(target: Target) -> None:
    once = edit(None, target, install=True)
    assert once and edit(once, target, install=True) == once
    assert edit(once, target, install=False) is None


def test_layout_is_that_of_the_neighbours() -> None:
    tabs = edit(b'{\n\t"mcpServers": {\n\t\t"o": {}\n\t}\n}\n', Target(Path("x"), "json", (SERVER,)), install=True)
    assert b'\t\t"o": {},\n\t\t"bede": {\n\t\t\t"type": "stdio",\n' in (tabs or b"")
    tight = edit(b'{"mcpServers":{"o":{}}}', Target(Path("x"), "json", (SERVER,)), install=True)
    assert b'{"o":{},"bede":{"type":"stdio",' in (tight or b"") and b"\n" not in (tight or b"")
    windows = edit(b'{\r\n  "a": 1\r\n}', Target(Path("x"), "json", (SERVER,)), install=True)
    assert windows and windows.count(b"\n") == windows.count(b"\r\n")
    comma = edit(b'{\n  "a": 1, // c\n}\n', Target(Path("x"), "jsonc", (Member(("b",), 2),)), install=True)
    assert comma == b'{\n  "a": 1, // c\n  "b": 2,\n}\n'


def test_a_stale_entry_is_brought_up_to_date_and_its_env_kept() -> None:
    before = b"""{
  "mcpServers": {
    "bede": { // mine
      "command": "/old/bede", "timeout": 5,
      "env": {"BEDE_BRANCH": "x"}, // keep this
      "type": "stdio"
    },
    "other": {}
  }
}
"""
    target = Target(Path("x"), "jsonc", (SERVER,))
    once = edit(before, target, install=True)
    assert once and b'"env": {"BEDE_BRANCH": "x"}, // keep this\n' in once and b"timeout" not in once
    entry = load(once.decode(), True)["mcpServers"]["bede"]
    assert entry == {**SERVER.value, "env": {"BEDE_BRANCH": "x"}}
    assert edit(once, target, install=True) == once
    assert edit(once, target, install=False) == b'{\n  "mcpServers": {\n    "other": {}\n  }\n}\n'


def test_a_stale_table_is_brought_up_to_date_and_its_env_kept() -> None:
    before = b"""a = 1
[mcp_servers.bede] # mine
command = "/old/bede"
old = true
[mcp_servers.bede.env]
A = "b" # keep

# theirs
[mcp_servers.other]
command = "x"
"""
    target = Target(Path("x"), "toml", (TABLE,))
    once = edit(before, target, install=True)
    assert once and b'A = "b" # keep\n' in once and b"old = true" not in once
    assert tomllib.loads(once.decode())["mcp_servers"]["bede"] == {**TABLE.value, "env": {"A": "b"}}
    assert edit(once, target, install=True) == once
    assert edit(once, target, install=False) == b'a = 1\n\n# theirs\n[mcp_servers.other]\ncommand = "x"\n'


@pytest.mark.parametrize("before", ['[mcp_servers]\nbede = {command = "x", env = {A = "b"}}\nc = {}\n',
                                    '[mcp_servers]\nbede.command = "x"\nbede.env.A = "b"\nc = {}\n',
                                    'mcp_servers.bede.command = "x"\nmcp_servers.bede.env.A = "b"\nmcp_servers.c = {}\n'])  # fmt: skip  # noqa: E501
def test_a_table_in_another_notation_is_ours_too(before: str) -> None:
    target = Target(Path("x"), "toml", (TABLE,))
    once = edit(before.encode(), target, install=True)
    assert tomllib.loads((once or b"").decode())["mcp_servers"] == {"bede": {**TABLE.value, "env": {"A": "b"}}, "c": {}}
    left = edit(once, target, install=False)
    assert tomllib.loads((left or b"").decode())["mcp_servers"] == {"c": {}}


def test_stale_hooks_are_replaced_in_their_places_and_doubles_go() -> None:
    old = {"matcher": "Old", "hooks": [{"command": "/old/bede hook PreToolUse"}]}
    mixed = {"matcher": "M", "hooks": [{"command": "theirs"}, {"command": "bede hook x"}]}
    data = {"hooks": {"PreToolUse": [old, {"matcher": "B", "hooks": [{"command": "lint"}]}, mixed, old]}}
    target = Target(Path("x"), "json", HOOKS)
    once = edit(json.dumps(data, indent=2).encode(), target, install=True)
    found = json.loads(once or b"")["hooks"]["PreToolUse"]
    assert found == [
        group("PreToolUse", "Edit|Write"),
        data["hooks"]["PreToolUse"][1],
        {"matcher": "M", "hooks": [{"command": "theirs"}]},
    ]
    left = json.loads(edit(once, target, install=False) or b"")
    assert left == {"hooks": {"PreToolUse": found[1:]}}


def test_a_default_stays_where_others_need_it() -> None:
    target = Target(Path("x"), "json", FLAT)
    once = edit(None, target, install=True)
    assert edit(once, target, install=False) is None
    theirs = Target(
        Path("x"),
        "json",
        (Items(("hooks", "stop"), ({"command": "theirs"},), lambda item: item == {"command": "theirs"}),),
    )
    both = edit(once, theirs, install=True)
    assert json.loads(edit(both, target, install=False) or b"") == {
        "version": 1,
        "hooks": {"stop": [{"command": "theirs"}]},
    }


@pytest.mark.parametrize(("data", "form"), [
    (b"{", "json"), (b"[]", "json"), (b"1", "json"), (b"null", "json"), (b'{"a": 1,}', "json"), (b"{} // c", "json"), (b"{'a': 1}", "jsonc"),  # noqa: E501
    (b'{"a": NaN}', "json"), (b'{"mcpServers": []}', "json"), (b'{"mcpServers": "x"}', "json"), (b"{} {}", "json"),
    (b'{"mcpServers": {}, "mcpServers": {}}', "json"), (b'{"mcpServers": {"bede": 1, "bede": 2}}', "json"), (b'{,}', "jsonc"), (b'[,]', "jsonc"),  # noqa: E501
    (b'{"a": 1 "b": 2}', "json"), (b'{"a": "\n"}', "json"), (b"{/*", "jsonc"), (b'{"a', "jsonc"), (b'{"a":1,,}', "jsonc"),  # noqa: E501
    (b'{"x": ' + b"[" * 3000 + b"]" * 3000 + b"}", "json"), (b"[" * 100_000, "json"), (b'{"a": ' * 50_000, "jsonc"),
    ("{}".encode("utf-16"), "json"), (b"\xff\xfe{\0}\0", "json"), (b'{"a": "\xe9"}', "json"), (b"\0", "json"),
    (b"a = ", "toml"), (b"a = 1\na = 2\n", "toml"), (b"mcp_servers = 1\n", "toml"), (b"mcp_servers = {}\n", "toml"),
    (b"[[mcp_servers]]\n", "toml"), (b'mcp_servers = {bede = {command = "x"}}\n', "toml"), ("a = 1".encode("utf-16"), "toml"),  # noqa: E501
    (b"a = " + b"[" * 5000, "toml"),
])  # fmt: skip
def test_what_cannot_be_edited_is_refused_with_a_snippet(tmp_path: Path, data: bytes, form: Any) -> None:
    file = tmp_path / "file"
    file.write_bytes(data)
    with pytest.raises(BadSource) as caught:
        plan([Target(file, form, (TABLE if form == "toml" else SERVER,))], install=True)
    assert str(file) in caught.value.message and '"args"' in caught.value.hint.replace("args =", '"args"')
    assert file.read_bytes() == data


@pytest.mark.parametrize("text", ["mcp_servers = {}\n", 'mcp_servers = { a = { command = "x" } }\n'])
def test_a_table_in_braces_is_named_and_not_called_invalid(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(BadSource) as caught:
        plan([Target(file, "toml", (TABLE,))], install=True)
    assert "mcp_servers = …" in caught.value.message and "not valid" not in caught.value.message
    assert "[mcp_servers.NAME]" in caught.value.hint


@pytest.mark.parametrize("text", [
    "# bede begin 00000000\n", "# bede end\n", "x\n# bede begin 12345678\nx\n# bede end\n# bede begin 12345678\nx\n# bede end\n",  # noqa: E501
    "# bede end\nx\n# bede begin 12345678\n",
])  # fmt: skip
@pytest.mark.parametrize("install", [True, False])
def test_marks_that_do_not_pair_are_refused(text: str, install: bool) -> None:
    with pytest.raises(BadSource):
        edit(text.encode(), Target(Path("x"), "text", (SECTION,)), install=install)


@pytest.mark.parametrize("install", [True, False])
def test_a_block_that_somebody_changed_is_refused(install: bool) -> None:
    target = Target(Path("x"), "text", (SECTION,))
    once = edit(b"#!/bin/sh\nx\n", target, install=True) or b""
    with pytest.raises(Conflict):
        edit(once.replace(b"  :", b"  echo"), target, install=install)


def test_a_file_of_somebody_else_is_not_taken() -> None:
    target = Target(Path("x"), "text", (Whole("// bede\nx\n", "// bede"),))
    with pytest.raises(Conflict):
        edit(b"theirs", target, install=True)
    assert edit(b"theirs", target, install=False) == b"theirs"
    assert edit(b"// bede\nold\n", target, install=True) == b"// bede\nx\n"


# Files


@pytest.fixture
def folder() -> Path:
    """An empty folder."""
    return Path.cwd()


def swap(file: Path, piece: Any = SERVER, *, install: bool = True, **options: Any) -> list[Path]:
    """Plan and apply one target."""
    return apply(plan([Target(file, "json", (piece,), **options)], install=install))


@posix
def test_mode_and_link_are_kept(folder: Path) -> None:
    real, link = folder / "dotfiles" / "mcp.json", folder / "mcp.json"
    real.parent.mkdir()
    real.write_text("{}\n")
    real.chmod(0o640)
    link.symlink_to("dotfiles/mcp.json")
    swap(link)
    assert link.is_symlink() and stat.S_IMODE(real.stat().st_mode) == 0o640 and "bede" in real.read_text()
    swap(link, install=False)
    assert link.is_symlink() and stat.S_IMODE(real.stat().st_mode) == 0o640 and real.read_text() == "{}\n"
    assert [path.name for path in real.parent.iterdir()] == ["mcp.json"]


@posix
def test_two_names_of_one_file_are_one_file(folder: Path) -> None:
    (folder / "b").symlink_to("a")
    targets = [Target(folder / name, "json", (piece,)) for name, piece in (("a", SERVER), ("b", FLAT[1]))]
    changes = plan(targets, install=True)
    assert len(changes) == 1 and b"bede hook" in (changes[0].after or b"") and b"stdio" in (changes[0].after or b"")


@posix
def test_what_is_no_file_is_refused(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    (folder / "folder").mkdir()
    for name in ("pipe", "loop", "folder"):
        with pytest.raises((BadSource, Unavailable)):
            swap(folder / name)


def test_a_huge_file_is_refused(folder: Path) -> None:
    (folder / "x").write_bytes(b"{}" + b" " * 10_000_000)
    with pytest.raises(BadSource):
        swap(folder / "x")


def test_nothing_is_written_where_nothing_changes(folder: Path) -> None:
    file = folder / "x"
    swap(file)
    before = file.stat()
    assert swap(file) == []
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


def test_a_file_that_changes_in_between_is_not_touched(folder: Path) -> None:
    first, second = folder / "a", folder / "b"
    for file in (first, second):
        file.write_text("{}")
    changes = plan([Target(file, "json", (SERVER,)) for file in (first, second)], install=True)
    second.write_text('{"new": 1}')
    with pytest.raises(Busy):
        apply(changes)
    assert first.read_text() == "{}" and second.read_text() == '{"new": 1}'
    assert sorted(path.name for path in folder.iterdir()) == ["a", "b"]


def test_all_files_or_none(folder: Path) -> None:
    good, bad = folder / "new" / "a", folder / "file" / "b"
    (folder / "file").write_text("no folder")
    changes = [Change(good, good, None, b"x"), Change(bad, bad, None, b"y")]
    with pytest.raises(BedeError):
        apply(changes)
    assert [path.name for path in folder.iterdir()] == ["file"]


def test_folders_are_made_only_where_that_was_said(folder: Path) -> None:
    with pytest.raises(Unavailable):
        swap(folder / "none" / "x", folders=False)
    made = swap(folder / "one" / "two" / "x")
    assert made == [folder / "one", folder / "one" / "two"]
    receipts.note(folder / "data" / "receipts", made)
    swap(folder / "one" / "two" / "x", install=False)
    receipts.clear(folder / "data" / "receipts", folder / "one" / "two" / "x")
    assert list(folder.iterdir()) == []


@posix
@pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() == 0, reason="root may write everywhere")
def test_a_read_only_file_is_left_alone(folder: Path) -> None:
    file = folder / "x"
    file.write_text("{}")
    file.chmod(0o444)
    with pytest.raises(Unavailable):
        swap(file)
    assert file.read_text() == "{}"


@posix
def test_the_diff_is_exact(folder: Path) -> None:
    """What `patch` makes of the diff is what would have been written."""
    for number, (before, target) in enumerate(CORPORA["json"][::9] + CORPORA["toml"][::9]):
        file = folder / str(number)
        file.write_bytes(before)
        change = plan([Target(file, target.format, target.pieces)], install=True)[0]
        text = diff(change)
        if not before or b"\r" in before:
            continue
        done = subprocess.run(["git", "apply", "--unsafe-paths", "-p0", "-"], input=text.replace(f"{folder}/", "").encode(),  # noqa: E501
                              cwd=folder, capture_output=True)  # fmt: skip
        assert done.returncode == 0, (done.stderr, text)
        assert file.read_bytes() == change.after
