"""What was typed is repeated where something is wrong with it, and a log may keep that: no secret is in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Ran

from bede.errors import NotFound

SECRET = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
MARK = "[redacted:github-token]"
CALLS = [
    ["checkout", SECRET],
    ["show", SECRET],
    ["log", "--at", SECRET],
    ["store", "--kind", SECRET, "--summary", "The gate opens at seven"],
    ["search", "x", "--since", SECRET],
    ["config", SECRET],
    ["recent", "--session", SECRET],
    [f"--{SECRET}"],
]


URL = "postgres://ann:hunter2sun@host/x"


@pytest.mark.parametrize("words", [["store", "--from", URL], ["verify", "--anchor", URL], ["-C", URL, "status"]])
def test_nor_does_one_that_took_a_url_for_a_path(project: Path, bede: Callable[..., Ran], words: list[str]) -> None:
    done = bede(*words)
    assert done.status not in (0, 70)
    assert "hunter2sun" not in done.err and "postgres:" in done.err


@pytest.mark.parametrize("form", ["json", "pretty"])
@pytest.mark.parametrize("words", CALLS, ids=lambda words: words[0][:8])
def test_an_error_repeats_no_secret(project: Path, bede: Callable[..., Ran], words: list[str], form: str) -> None:
    done = bede(*words, env={"BEDE_OUTPUT": form})
    assert done.status not in (0, 70)
    assert SECRET not in done.err and MARK in done.err


def test_nor_do_its_details() -> None:
    body = NotFound("gone", hint=f"try {SECRET}", reason="x", missing=[SECRET], at={"path": f"a/{SECRET}"}).to_json()
    assert SECRET not in json.dumps(body)
    assert body["details"] == {"missing": [MARK], "at": {"path": f"a/{MARK}"}}
