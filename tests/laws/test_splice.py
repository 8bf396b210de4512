"""Laws of editing others' files: what was put in and taken out again was never there, whatever the file looks like."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bede.errors import BadSource
from bede.splice import Default, Items, Member, Section, Target
from bede.splice.plan import edit
from bede.splice.syntax import load

SERVER = Member(("mcpServers", "bede"), {"command": "/bin/bede", "args": ["serve", "x"], "env": {}}, kept=("env",))
HOOK = {"matcher": "Edit", "hooks": [{"command": "bede hook a"}]}


def is_ours(item: Any) -> bool:
    """Tell whether an item is a hook of ours."""
    return isinstance(item, dict) and "bede hook" in str(item.get("command", ""))


HOOKS = Items(("hooks", "PreToolUse"), (HOOK, HOOK | {"matcher": "Write"}), is_ours, inner="hooks")
STOP = Items(("hooks", "Stop"), ({"command": "bede hook stop"},), is_ours)
VERSION = Default(("version",), 1)
PIECES = st.sampled_from([(SERVER,), (HOOKS,), (STOP, HOOKS), (VERSION, STOP), (VERSION, HOOKS, SERVER)])

#: Names that lead to where ours goes come often.
names = st.sampled_from(["mcpServers", "hooks", "PreToolUse", "Stop", "version", "other", 'é"\\', "bede "])
leaves = st.sampled_from(["1", "-2.5e+3", "true", "null", '"x"', '"a\\"b // no"', '""', "{}", "[]", '"/* no */"'])


PLAIN = ["", "", " ", "\n", "\r\n  ", "\t", "   ", " \t"]
REMARKED = [*PLAIN, "/* a, {b} */", ' // c " [d]\n', "// e\r\n", "/**/ ", "\n// f\n// g\n\n"]


def gaps(lax: bool) -> st.SearchStrategy[str]:
    """Return what may stand between two tokens."""
    return st.sampled_from(REMARKED if lax else PLAIN)


@st.composite
def values(draw: st.DrawFn, lax: bool, depth: int = 0) -> str:
    """Draw a JSON value as somebody might have typed it."""
    kind = draw(st.sampled_from(["leaf", "object", "object", "array"])) if 0 < depth < 4 else "object"
    if kind == "leaf" or depth >= 4:
        return draw(leaves)
    count = draw(st.integers(0, 3))
    keys = draw(st.lists(names, min_size=count, max_size=count, unique=True))
    gap = lambda: draw(gaps(lax))  # noqa: E731
    entries = []
    for key in keys:
        value = gap() + draw(values(lax, depth + 1)) + gap()
        entries.append(f"{gap()}{json.dumps(key, ensure_ascii=False)}{gap()}:{value}" if kind == "object" else value)
    last = "," + gap() if lax and entries and draw(st.booleans()) else ""
    inside = ",".join(entries) + last if entries else gap()
    return "{" + inside + "}" if kind == "object" else "[" + inside + "]"


@st.composite
def files(draw: st.DrawFn, lax: bool) -> bytes:
    """Draw a file: mostly an object, sometimes nothing but blanks and comments, with and without a mark in front."""
    text = draw(gaps(lax)) + draw(st.one_of(values(lax), st.just(""))) + draw(gaps(lax))
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n").replace("\r\r\n", "\r\n")
    return draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + text.encode()


def round_trip(before: bytes | None, target: Target) -> bytes:
    """Hold the law on one file, and return it as it is with ours in it."""
    try:
        once = edit(before, target, install=True)
    except BadSource as error:
        assume("not an object" not in error.message and "not an array" not in error.message)
        raise
    assert once is not None
    assert edit(once, target, install=True) == once
    assert edit(once, target, install=False) == before
    return once


@pytest.mark.parametrize("lax", [False, True])
@given(data=st.data(), pieces=PIECES)
def test_json_comes_back_byte_by_byte(data: st.DataObject, pieces: Any, lax: bool) -> None:
    before = data.draw(files(lax))
    once = round_trip(before, Target(Path("x"), "jsonc" if lax else "json", pieces))
    load(once.decode("utf-8-sig"), lax)


@given(data=st.data(), pieces=PIECES)
def test_what_somebody_adds_in_between_stays(data: st.DataObject, pieces: Any) -> None:
    before = data.draw(files(True))
    target = Target(Path("x"), "jsonc", pieces)
    once = round_trip(before, target)
    theirs = Target(Path("x"), "jsonc", (Member(("hooks", "Stop2"), [1]), Member(("added",), {"x": None})))
    try:
        both = edit(once, theirs, install=True)
    except BadSource:
        assume(False)
    left = edit(both, target, install=False)
    assert left is not None
    assert edit(left, theirs, install=True) == left
    found = load(left.decode("utf-8-sig"), True)
    assert found["added"] == {"x": None} and found["hooks"]["Stop2"] == [1]
    assert b"bede hook" not in left


@given(st.binary(max_size=60), st.sampled_from(["json", "jsonc", "toml", "text"]), st.booleans())
def test_any_bytes_are_edited_or_refused(before: bytes, format_: Any, install: bool) -> None:
    pieces: Any = {"text": (Section("a", "# <", "# >"),), "toml": (Member(("a", "bede"), {"b": 1}),)}
    target = Target(Path("x"), format_, pieces.get(format_, (SERVER, HOOKS)))
    try:
        once = edit(before, target, install=install)
    except BadSource:
        return
    assert edit(once, target, install=False) == before


lines = st.lists(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\n"), max_size=8), max_size=5)


@given(lines, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
def test_text_comes_back_byte_by_byte(rows: list[str], newline: str, final: bool, top: bool) -> None:
    before = (newline.join(rows) + (newline if final else "")).encode()
    section = Section("one\ntwo", "# bede {sha} <", "# bede >", top=top, head="#!/bin/sh\n# made\n")
    round_trip(before, Target(Path("x"), "text", (section,)))


tables = st.sampled_from([
    "", "\n", "a = 1", "# only a remark", "a = 1  # x", "b.c = [1,\n 2] # y", "[x]",
    "[x.y]\nz = '''\n[mcp_servers.bede]\n'''",
    "[[q]]\nr = {s = 1}", "[mcp_servers]", "[mcp_servers.other]\ncommand = \"c\"", '[mcp_servers."bede x"]\n', "  ",
    "when = 2026-01-01T00:00:00Z", 'n = nan', '["a\\"b".\'c]\']\nd = """x\n"""""',
])  # fmt: skip


@given(
    st.lists(tables, max_size=4),
    st.sampled_from(["\n", "\r\n", "\n\n"]),
    st.booleans(),
    st.sampled_from(["", "\ufeff"]),
)
def test_toml_comes_back_byte_by_byte(rows: list[str], newline: str, final: bool, mark: str) -> None:
    text = newline.join(rows).replace("\r\n", "\n").replace("\n", newline[:2] if "\r" in newline else "\n")
    text += newline if final else ""
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        assume(False)
    value = {"command": "/bin/bede \x7f", "args": ["a", "\t"], "env": {"A b": "c"}, "startup_timeout_sec": 20}
    round_trip((mark + text).encode(), Target(Path("x"), "toml", (Member(("mcp_servers", "bede"), value, ("env",)),)))
