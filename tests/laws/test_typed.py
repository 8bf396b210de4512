"""Commands held as lists of words hide no password, in whatever form they are written down."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bede.redact import redact, redact_value

TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3
PASSWORD = "hunter2sun"
MARK = re.compile(r"\[redacted:[a-z0-9-]+\]")

COMMANDS = [
    ["curl", "-u", f"ann:{PASSWORD}", "https://x.io"],
    ["curl", "--user", f"ann:{PASSWORD}"],
    ["mysql", "-uroot", f"-p{PASSWORD}", "shop"],
    ["sudo", "mysql", "-u", "root", f"-p{PASSWORD}"],
    ["sshpass", "-p", PASSWORD, "ssh", "x"],
    ["redis-cli", "-a", PASSWORD, "ping"],
    ["smbclient", "-U", f"me%{PASSWORD}"],
    ["docker", "login", "-u", "me", "-p", PASSWORD],
]
#: Commands without a password, some of which look like one with it.
PLAIN = [
    ["docker", "run", "-p", "80:80"],
    ["git", "log", "-p", "src"],
    ["mysql", "-p", "shop"],
    ["ssh", "-p", "2222", "h"],
    ["curl", "-sSf", "-u", "$USER:$PASS"],
    ["curl", "-u", "${U}:${P}", "x"],
    ["sort", "-u", "a:b"],
    ["mkdir", "-p", "/var/lib/mysql"],
    ["mysqldump", "-port", "3306"],
    ["tar", "-pxf", "mysql.tar"],
    ["-u", "a:b", "c"],
]


def parted(command: list[str]) -> dict[str, object]:
    return {"command": command[0], "args": command[1:]}


WRITTEN: dict[str, Callable[[list[str]], str]] = {
    "typed": " ".join,
    "json": json.dumps,
    "dense": lambda command: json.dumps(command, separators=(",", ":")),
    "over lines": lambda command: json.dumps(command, indent=2),
    "text in json": lambda command: json.dumps(json.dumps({"command": command})),
    "text in text in json": lambda command: json.dumps(json.dumps(json.dumps({"command": command}))),
    "arguments": lambda command: json.dumps(parted(command)),
    "arguments over lines": lambda command: json.dumps([parted(command)], indent=4).replace("args", "arguments"),
    "python": lambda command: f"subprocess.run({command!r}, check=True)",
    "tuple": lambda command: repr(tuple(command)),
    "javascript": lambda command: f"spawn('{command[0]}', {json.dumps(command[1:])})",
}


@pytest.mark.parametrize("form", WRITTEN)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_written_command_keeps_all_but_its_password(command: list[str], form: str) -> None:
    text = WRITTEN[form](command)
    safe = redact(text)
    assert MARK.sub(PASSWORD, safe) == text != safe
    assert redact(safe) is safe


@pytest.mark.parametrize("form", WRITTEN)
@pytest.mark.parametrize("command", PLAIN, ids=" ".join)
def test_a_written_command_without_one_stays(command: list[str], form: str) -> None:
    text = WRITTEN[form](command)
    assert redact(text) is text
    assert redact_value({"command": command})["command"] is command


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_list_of_words_keeps_all_but_its_password(command: list[str]) -> None:
    for kind in (list, tuple):
        words = kind(command)
        once = redact_value(words)
        assert type(once) is kind
        assert once != words
        assert [MARK.sub(PASSWORD, word) for word in once] == command
        assert redact_value([once, {"command": once}]) == [once, {"command": once}]
        assert redact_value(once) is once


@pytest.mark.parametrize(("command", "safe"), [
    (["sshpass", "-p", "hunter2 sun", "ssh"], ["sshpass", "-p", "[redacted:command-password]", "ssh"]),
    (["curl", "-u", "ann:hunter2 sun curl -u b:c d"], ["curl", "-u", "ann:[redacted:command-password]"]),
    (["x", "--token=" + TOKEN, "y"], ["x", "--token=[redacted:github-token]", "y"]),
    (["-H", "Authorization:", "Bearer", PASSWORD * 2], ["-H", "Authorization:", "Bearer", "[redacted:bearer-token]"]),
])  # fmt: skip
def test_what_was_put_in_quotes_goes_whole(command: list[str], safe: list[str]) -> None:
    assert redact_value(command) == safe
    assert redact_value(safe) is safe


def test_what_stands_under_command_is_typed_without_an_option_too() -> None:
    command = ("echo", "Authorization:", "Bearer", PASSWORD * 2)
    assert redact_value(command) is command
    once = redact_value({"command": command, "x": command})
    assert once == {"command": (*command[:3], "[redacted:bearer-token]"), "x": command}
    assert redact_value(once) is once


@pytest.mark.parametrize("names", [("command", "args"), ("program", "arguments"), ("cmd", "argv")])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_arguments_are_judged_with_their_program(command: list[str], names: tuple[str, str]) -> None:
    for order in (1, -1):
        value = dict([(names[0], command[0]), (names[1], command[1:])][::order])
        once = redact_value(value)
        assert PASSWORD not in json.dumps(once)
        assert [*once] == [*value] and once[names[0]] == command[0]
        assert [MARK.sub(PASSWORD, word) for word in once[names[1]]] == command[1:]
        assert redact_value(once) is once


@pytest.mark.parametrize("value", [{"command": 7}, {"command": "ls -p"}, {"args": []}, ["-p", 7, "mysql", "-px1y"]])
def test_what_is_no_list_of_words_stays(value: object) -> None:
    assert redact_value(value) is value


WORDS = st.one_of(
    st.sampled_from([*"xy", "mysql", "curl", "-u", "-p", "-H", "a:" + PASSWORD, "-p" + PASSWORD, "Authorization:"]),
    st.sampled_from(["Bearer", "token=", "x y", TOKEN, PASSWORD * 2, "sshpass", "hunter2 sun", "[redacted:secret]"]),
    st.text(max_size=6),
)


@given(st.lists(WORDS, max_size=9))
@example(["sshpass", "-p", "hunter2 sun sshpass -p x y", "-p", "z"])
def test_no_typed_command_holds_a_secret(command: list[str]) -> None:
    once = redact_value({"command": command})["command"]
    typed = " ".join(once)
    assert len(once) == len(command)
    assert redact(typed) is typed
    assert redact_value({"command": once})["command"] is once
