"""`config`: settings in layers, each with where it comes from; files are changed in one place only."""

from __future__ import annotations

import os
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bede.config import SETTINGS
from bede.context import Context
from bede.errors import BedeError, Unavailable, UsageError
from bede.operations import load
from bede.operations.config import config
from bede.operations.store import store


@pytest.fixture
def layers(home: Path, project: Path) -> dict[str, Path]:
    """The two files."""
    return {"user": home / ".config/bede/config.toml", "project": project / ".bede/config.toml"}


def _ask(key: str = "", value: str | None = None, *, environment: dict[str, str] | None = None, **options: Any) -> Any:
    with closing(Context(environment={**os.environ, **(environment or {})})) as context:
        return config(context, key, value, **options)


def _one(key: str, **environment: str) -> tuple[Any, str]:
    (found,) = _ask(key, environment=environment).settings
    return found.value, found.layer


def test_every_setting_is_listed_with_its_default(project):
    found = _ask()
    assert [item.key for item in found.settings] == [item.key for item in SETTINGS]
    assert {item.layer for item in found.settings} == {"default"}
    assert all(item.description and item.variable.startswith("BEDE_") for item in found.settings)


def test_the_nearer_layer_wins(layers):
    assert _one("recall.top_k") == (5, "default")
    _ask("recall.top_k", "6", user=True)
    assert _one("recall.top_k") == (6, "user")
    _ask("recall.top_k", "7")
    assert _one("recall.top_k") == (7, "project")
    assert _one("recall.top_k", BEDE_RECALL_TOP_K="8") == (8, "environment")
    _ask("recall.top_k", unset=True)
    assert _one("recall.top_k") == (6, "user")
    _ask("recall.top_k", unset=True, user=True)
    assert _one("recall.top_k") == (5, "default")
    _ask("recall.top_k", unset=True)


def test_the_origin_is_told(layers):
    _ask("agent.id", "ada")
    (found,) = _ask("agent.id").settings
    assert (found.value, found.layer, found.origin) == ("ada", "project", str(layers["project"]))
    (found,) = _ask("agent.id", environment={"BEDE_AGENT_ID": "bob"}).settings
    assert (found.value, found.origin) == ("bob", "BEDE_AGENT_ID")


def test_what_was_set_is_what_counts(layers, clock):
    _ask("agent.id", "ada")
    with closing(Context(clock=clock)) as context:
        assert store(context, summary="one").stored[0].agent_id == "ada"


def test_the_answer_shows_the_new_value(layers):
    result = _ask("store.wait", "3")
    assert (result.written, result.settings[0].value) == (str(layers["project"]), 3.0)
    result = _ask("store.wait", unset=True)
    assert result.settings[0].layer == "default"


def test_a_named_project_is_the_one_that_is_changed(layers, project):
    with closing(Context(directory=Path("/"), project=project.name)) as context:
        result = config(context, "store.wait", "3")
    assert (result.written, result.settings[0].layer) == (str(layers["project"]), "project")


def test_comments_and_everything_else_stay(layers):
    text = '# mine\n[recall]\ntop_k = 3 # three\n\n[other]\nx = "y"\n'
    layers["project"].write_text(text)
    _ask("store.wait", "3")
    _ask("store.wait", unset=True)
    changed = layers["project"].read_text()
    assert changed.startswith(text)
    _ask("recall.top_k", "4")
    assert "# mine" in layers["project"].read_text()
    assert "[other]" in layers["project"].read_text()
    assert _one("recall.top_k") == (4, "project")


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX's")
def test_a_file_is_made_private_and_whole(layers):
    _ask("store.wait", "3", user=True)
    _ask("store.wait", "4")
    for file in layers.values():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not [path for path in layers["user"].parent.iterdir() if path != layers["user"]]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("recall.top_k", "0"),
        ("recall.top_k", "x"),
        ("recall.top_k", "1.5"),
        ("recall.top_k", ""),
        ("recall.top_k", "9" * 5000),
        ("store.wait", "-1"),
        ("store.wait", "nan"),
        ("store.wait", "inf"),
        ("store.wait", "4000"),
        ("nonsense", "1"),
        ("recall", "1"),
        ("", "1"),
        ("recall.top_k.x", "1"),
    ],
)
def test_a_value_or_key_that_is_none_is_refused(layers, key, value):
    for options in ({}, {"user": True}):
        with pytest.raises(UsageError):
            _ask(key, value, **options)
    assert not any(file.exists() for file in layers.values())


@pytest.mark.parametrize("key", ["recall.top_k", "hooks.recall", "store.wait"])
def test_what_is_no_number_is_refused_in_words_for_people(layers, key):
    with pytest.raises(UsageError) as refused:
        _ask(key, "abc")
    assert "must be a" in refused.value.message and "literal" not in refused.value.message
    assert "convert" not in refused.value.message


@pytest.mark.parametrize("value", ["x", "0", "", "\udcff"])
def test_a_variable_that_is_none_is_refused_where_it_is_needed(layers, value):
    with pytest.raises(UsageError) as refused:
        _ask("recall.top_k", environment={"BEDE_RECALL_TOP_K": value})
    assert "BEDE_RECALL_TOP_K" in refused.value.message


BROKEN = [
    b"[recall",
    b"\xff\xfe",
    b"x = " + b"[" * 100_000,
    b"[a" + b".a" * 20_000 + b"]\n",
    b"recall = 5",
    b"[recall]\ntop_k = []",
    b"[recall]\ntop_k = 'x'",
    b"[recall.top_k]\nx = 1",
    b"\0",
]


@pytest.mark.parametrize("data", BROKEN, ids=lambda data: repr(data[:16]))
@pytest.mark.parametrize("layer", ["user", "project"])
def test_a_broken_file_is_an_error_that_names_it(layers, layer, data):
    layers[layer].parent.mkdir(parents=True, exist_ok=True)
    layers[layer].write_bytes(data)
    try:
        _ask()
    except BedeError as error:
        assert str(layers[layer]) in error.message
        assert len(error.message) < 2000
    try:
        _ask("recall.top_k", "3", user=layer == "user")
    except BedeError as error:
        assert str(layers[layer]) in error.message
        assert layers[layer].read_bytes() == data
    else:
        assert _one("recall.top_k") == (3, layer)


def test_a_file_that_cannot_be_written_is_an_error(layers):
    layers["user"].parent.parent.mkdir(parents=True, exist_ok=True)
    layers["user"].parent.write_text("a file where a folder should be")
    with pytest.raises((Unavailable, UsageError)):
        _ask("store.wait", "3", user=True)


def test_without_a_project_only_the_users_file_is_there(tmp_path):
    (tmp_path / "bare").mkdir()
    with closing(Context(directory=tmp_path / "bare")) as context:
        assert config(context, "store.wait").settings[0].layer == "default"
        with pytest.raises(UsageError):
            config(context, "store.wait", "3")
        assert config(context, "store.wait", "3", user=True).settings[0].layer == "user"


def test_exit_statuses(bede, project):
    assert bede("config", cwd=project).json()["schema"] == "config/1"
    assert bede("config", "recall.top_k", "9", cwd=project).json()["settings"][0]["value"] == 9
    assert bede("config", "recall.top_k", "0", cwd=project).status == 2
    assert bede("config", "nonsense", cwd=project).status == 2
    (project / ".bede/config.toml").write_text("[")
    assert bede("search", "x", cwd=project).status == 2
    assert bede("config", cwd=project).error()["code"] == "usage"


def test_a_page_names_the_file_only_when_it_is_asked_for(bede, project):
    bede("config", "agent.id", "ada")
    short, long = (bede("config", "agent.id", "--pretty", *words).out for words in ((), ("--origin",)))
    assert "(project)" in short
    assert "config.toml" not in short
    assert "config.toml" in "".join(long.split())


def test_a_setting_keeps_the_bounds_of_its_flag(layers):
    for key, verb, flag in (
        ("context.budget", "context", "budget"),
        ("recall.top_k", "auto", "top_k"),
        ("recall.budget", "brief", "budget"),  # What is told of a task to a child, as of files to an agent.
    ):
        field = next(item.field for item in load(verb).parameters() if item.name == flag)
        low, high = int(field.ge or 0), int(field.le or 0)
        for value in (low, high):
            assert _ask(key, str(value)).settings[0].value == value
        for value in (low - 1, high + 1):
            with pytest.raises(UsageError, match=f"between {low} and {high}"):
                _ask(key, str(value))
        assert _one(key) == (high, "project")


@pytest.mark.parametrize(("key", "value"), [("context.budget", 1), ("hooks.brief", 2001), ("recall.budget", 99)])
def test_a_value_out_of_bounds_in_a_file_is_refused_where_it_is_needed_and_can_be_taken_out(layers, key, value):
    section, name = key.split(".")
    layers["project"].write_text(f"[{section}]\n{name} = {value}\n")
    with pytest.raises(UsageError) as refused:
        _ask(key)
    assert all(part in refused.value.message for part in (key, str(layers["project"]), str(value), "between"))
    assert _ask(key, unset=True).settings[0].layer == "default"
    assert layers["project"].read_text() == ""


def test_what_looks_like_a_secret_is_no_setting(layers):
    with pytest.raises(UsageError) as refused:
        _ask("agent.id", "ghp_AbCdEf0123456789AbCdEf0123456789AbCd", user=True)
    assert "ghp_" not in str(refused.value.to_json())
    assert not layers["user"].exists()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[context]\nbudget = 400\n", ""),
        ("[context]\nbudget = 400\nx = 1\n", "[context]\nx = 1\n"),
        ("[a]\nx = 1\n\n# of context\n[context]\nbudget = 400\n", "[a]\nx = 1\n\n# of context\n"),
        ("[context]\n# inside\nbudget = 400 # why\n\n[z]\nq = 1\n", "[context]\n# inside\n# why\n\n[z]\nq = 1\n"),
        ("[context] # mine\nbudget = 400\n", "[context] # mine\n"),
        ("[context]\r\nbudget = 400\r\n\r\n[z]\r\nq = 1\r\n", "[z]\r\nq = 1\r\n"),
        ("context.budget = 400 # why\ncontext.x = 1\n", "context.x = 1\n# why\n"),
        ("context = {budget = 400}\n", ""),
    ],
)
def test_unset_takes_out_a_setting_and_a_section_that_has_nothing_else_and_no_word_of_the_user(layers, before, after):
    layers["project"].write_bytes(before.encode())
    assert _ask("context.budget", unset=True).written == str(layers["project"])
    assert layers["project"].read_bytes().decode() == after


@pytest.mark.parametrize("text", [None, "", "[search]\n", "[context]\nx = 1\n", "# mine\n"])
def test_unset_writes_nothing_where_nothing_is_set_and_says_so(bede, layers, text):
    if text is not None:
        layers["project"].write_text(text)
    found = bede("config", "--unset", "search.engine")
    assert found.json()["written"] == ""
    assert "search.engine is not set in" in found.err
    assert (layers["project"].read_text() if layers["project"].exists() else None) == text


def test_the_same_value_again_writes_nothing(layers):
    assert _ask("context.budget", "500").written
    assert _ask("context.budget", "500").written == ""
    assert _one("context.budget") == (500, "project")
