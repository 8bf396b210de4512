"""Engines beside words: asked for, set, missing; `ingest` makes vectors, `search` uses them; neither waits."""

from __future__ import annotations

import shutil
from contextlib import closing

import pytest
from contracts.tabled import installed, meanings
from contracts.written import NAMES, lines, place, said, take

from bede.answers import meaning
from bede.context import Context
from bede.engines import static
from bede.errors import Unavailable, UsageError
from bede.operations.config import config
from bede.operations.doctor import doctor
from bede.operations.ingest import ingest
from bede.operations.reindex import reindex
from bede.operations.search import search

GROUPS = (["ferry", "boat", "ship"], ["invoice", "bill"], ["river", "stream"])


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """No agent's own variables lead anywhere else, and no model that another test loaded is remembered."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    meaning._embedder.cache_clear()
    meaning._reranker.cache_clear()


@pytest.fixture
def sessions(home, project):
    """Two sessions of eighty turns: one of them about boats, in the middle of something else."""
    for name, odd in (("one", "the ferry leaves at noon from the northern pier"), ("two", "nothing new was said")):
        told = [f"turn {number} of {name} is about colours and cups {number * 7}" for number in range(80)]
        told[40] = odd
        records = [said(name, number, text, project) for number, text in enumerate(told, 1)]
        place(home, name).write_bytes(lines(records))


@pytest.fixture
def model(tmp_path):
    installed("numpy")
    return meanings(tmp_path / "model", GROUPS)


def fresh(**environment):
    """Return another call in the same project, as another process would make it."""
    import os

    return closing(Context(environment={**os.environ, **environment}, agent="tester"))


def set_engine(context, spec, key="search.engine"):
    config(context, key, spec, user=True)


def test_an_engine_is_the_users_own_business(context, project):
    with pytest.raises(UsageError, match="never read from a project") as caught:
        config(context, "search.engine", "static")
    assert "--user" in caught.value.hint
    (project / ".bede/config.toml").write_text('[search]\nengine = "st:somebody/else"\nreranker = "onnx:/evil"\n')
    context.config.reread()
    for key, value in (("search.engine", "lexical"), ("search.reranker", "")):
        assert config(context, key).settings[0].value == value
    set_engine(context, "static:/mine")
    assert config(context, "search.engine").settings[0].layer == "user"
    config(context, "search.engine", unset=True)  # What stands in the project's file may go.
    assert "somebody" not in (project / ".bede/config.toml").read_text()


@pytest.mark.parametrize("spec", ["gpt", "Static", "mlx;rm", "st:a\nb", "static:" + "x" * 2000])
def test_a_setting_that_names_no_engine_is_refused(context, spec):
    with pytest.raises(UsageError):
        set_engine(context, spec)


def test_words_alone_are_what_is_usual(sessions, context):
    result = take(context)
    assert (result.embedded, result.warnings) == (0, ())
    found = search(context, "when does the ferry leave?")
    assert (found.engine, found.warnings) == ("", ())
    assert found.passages
    assert ingest(context, status=True).vectors == ()
    assert reindex(context).vectors == 0


def test_vectors_are_made_once_and_told_by_model(sessions, context, model):
    spec = f"static:{model}"
    first = take(context, engine=spec)
    assert (first.embedded > 0, first.warnings) == (True, ())
    assert take(context, engine=spec).embedded == 0
    (told,) = ingest(context, status=True).vectors
    assert (told.dimensions, told.windows) == (3, first.embedded)
    assert told.model.startswith("static:hand@")
    assert take(context).embedded == 0


def test_what_an_engine_finds_near_comes_behind_what_words_found(sessions, context, model):
    take(context, engine=f"static:{model}")
    asked = "turn about a boat and cups, colours"
    plain = search(context, asked, order="rank", top_k=100, budget=200_000)
    found = search(context, asked, order="rank", top_k=100, budget=200_000, engine=f"static:{model}")
    assert found.engine.startswith("static:hand@")
    assert [one.turns for one in found.passages[:5]] == [one.turns for one in plain.passages[:5]]
    turns = [turn.id for one in found.passages for turn in one.turns]
    assert len(turns) == len(set(turns))


def test_an_honest_nothing_stays_one(sessions, context, model):
    take(context, engine=f"static:{model}")
    assert search(context, "Kubernetes namespaces of Terraform", engine=f"static:{model}").passages == ()


def test_filters_hold_for_what_an_engine_finds(sessions, context, model):
    take(context, engine=f"static:{model}")
    asked = "turn of two about colours and cups"
    found = search(context, asked, session="two", engine=f"static:{model}", top_k=100, budget=200_000)
    assert {one.session for one in found.passages} == {"two"}


def test_an_engine_that_is_asked_for_must_be_there(sessions, context, tmp_path):
    installed("numpy")
    with pytest.raises(Unavailable):
        ingest(context, engine=f"static:{tmp_path}/nowhere")
    assert ingest(context, status=True).sessions == 0  # Refused before anything was read.
    take(context)
    for asked in ({"engine": f"static:{tmp_path}/nowhere"}, {"reranker": "onnx:/nowhere/at/all"}):
        with pytest.raises(Unavailable) as caught:
            search(context, "when does the ferry leave?", **asked)
        assert caught.value.hint
    with pytest.raises(UsageError, match="no embedder is named"):
        search(context, "when does the ferry leave?", engine="gpt:4")


def test_an_engine_of_the_settings_that_is_gone_costs_a_warning(sessions, context, tmp_path):
    plain = search(context, "when does the ferry leave?") if take(context) else None
    set_engine(context, f"static:{tmp_path}/nowhere")
    set_engine(context, "onnx:/nowhere/at/all", "search.reranker")
    with fresh() as other:
        found = search(other, "when does the ferry leave?")
        assert found.passages == plain.passages
        assert len(found.warnings) == 2
        assert all(warning.startswith("done without ") for warning in found.warnings)
        assert ingest(other).warnings
        assert reindex(other).warnings
        checks = {check.name: check for check in doctor(other).checks}
    assert checks["engines"].outcome == "warn"
    with fresh(BEDE_SEARCH_ENGINE="lexical", BEDE_SEARCH_RERANKER="") as other:
        assert search(other, "when does the ferry leave?", engine="lexical").warnings == ()


def test_an_engine_without_vectors_says_how_they_are_made(sessions, context, model):
    take(context)
    with pytest.raises(Unavailable) as caught:
        search(context, "when does the ferry leave?", engine=f"static:{model}")
    assert f"bede ingest --engine static:{model}" in caught.value.hint
    set_engine(context, f"static:{model}")
    with fresh() as other:
        assert "bede ingest" in search(other, "when does the ferry leave?").warnings[0]
        checks = {check.name: check for check in doctor(other).checks}
        assert (checks["engines"].outcome, checks["engines"].hint) == ("warn", "run 'bede ingest'")
        assert ingest(other).embedded > 0
        found = search(other, "when does the ferry leave?")
        assert (found.warnings, bool(found.engine)) == ((), True)
        assert {check.name: check.outcome for check in doctor(other).checks}["engines"] == "ok"


def test_windows_without_a_vector_are_told_and_found_by_words(home, project, sessions, context, model):
    take(context, engine=f"static:{model}")
    records = [said("three", number, f"late words {number} about a ferry", project) for number in range(1, 81)]
    place(home, "three").write_bytes(lines(records))
    take(context)
    found = search(context, "late words about a ferry", engine=f"static:{model}")
    assert found.passages[0].session == "three"
    assert "have no vector" in found.warnings[0]


def test_another_model_begins_anew(sessions, context, model):
    first = take(context, engine=f"static:{model}").embedded
    (model / static.FILE).unlink()
    meanings(model, [*GROUPS, ["cup", "glass"]])
    meaning._embedder.cache_clear()
    with pytest.raises(Unavailable, match="no window has a vector"):
        search(context, "when does the ferry leave?", engine=f"static:{model}")
    assert take(context, engine=f"static:{model}").embedded == first
    assert sorted(one.dimensions for one in ingest(context, status=True).vectors) == [3, 4]


def test_reindex_makes_them_again_by_the_engine_of_the_settings(sessions, context, model):
    set_engine(context, f"static:{model}")
    with fresh() as other:
        made = take(other).embedded
        assert made > 0
        result = reindex(other)
        assert (result.vectors, result.warnings) == (made, ())
        assert "vectors" in result.projections


def test_a_run_for_every_project_makes_them_everywhere(sessions, context, model):
    assert take(context, all_=True, engine=f"static:{model}").embedded > 0
    assert ingest(context, status=True).vectors


def test_a_run_that_a_turn_began_loads_no_engine_for_a_few(home, project, sessions, context, model):
    set_engine(context, f"static:{model}")
    few = place(home, "one")
    with fresh() as other:
        made = ingest(other, path=[few], own=True).embedded
        assert made == 0
        assert ingest(other).embedded > 0


class Backwards:
    """A reranker that reads: the more often a passage says what was asked, the worse."""

    name = "backwards@1"

    def score(self, query, passages):
        return [1 / (1 + sum(passage.count(word) for word in query.split())) for passage in passages]


def test_a_reranker_orders_what_was_found(sessions, context, monkeypatch):
    take(context)
    monkeypatch.setattr(meaning, "_reranker", lambda *_: Backwards())
    asked = "turn about colours"
    plain = search(context, asked, order="rank", top_k=5)
    found = search(context, asked, order="rank", top_k=5, reranker="st:backwards")
    scores = [one.score for one in found.passages]
    assert scores == sorted(scores, reverse=True)
    assert [one.rank for one in found.passages] == list(range(1, len(scores) + 1))
    assert found.passages != plain.passages


class Broken:
    """An embedder whose guest gave up."""

    name, dimensions = "broken@1", 3

    def embed(self, texts, kind):
        raise Unavailable("broken@1 failed: out of memory", hint="choose another")


def test_an_engine_that_fails_at_work_blocks_nothing(sessions, context, monkeypatch):
    monkeypatch.setattr(meaning, "_embedder", lambda *_: Broken())
    set_engine(context, "st:broken")
    with fresh() as other:
        result = take(other)
        assert (result.turns["new"], result.embedded) == (160, 0)
        assert "out of memory" in result.warnings[0]
        found = search(other, "when does the ferry leave?")
        assert found.passages
        assert "out of memory" in found.warnings[0]
        with pytest.raises(Unavailable, match="out of memory"):
            search(other, "when does the ferry leave?", engine="st:broken")


def test_vectors_left_half_made_are_gone_on_with(sessions, context, model, monkeypatch):
    monkeypatch.setattr(meaning, "BATCH", 2)
    guest = meaning.embedding.embedder(f"static:{model}", model)

    class Stopped(type(guest)):
        """One that is stopped in its third batch."""

        left = 2

        def embed(self, texts, kind):
            if not self.left:
                raise KeyboardInterrupt
            self.left -= 1
            return super().embed(texts, kind)

    take(context)
    stopped = Stopped(guest.name, ["up"], guest._rows, guest._scales)
    with pytest.raises(KeyboardInterrupt):
        meaning.fill(context.repository, stopped, lambda *_: None)
    (told,) = ingest(context, status=True).vectors
    assert told.windows == 4
    left = meaning.fill(context.repository, guest, lambda *_: None)
    (told,) = ingest(context, status=True).vectors
    assert told.windows == 4 + left
    shutil.rmtree(model)
