"""A project to ask, and what it answers: the verb itself, in process, best passages first."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from bede.answers import talk
from bede.answers.meaning import Guests, guests
from bede.answers.said import Passage, Said, fitting, passages
from bede.context import Context
from bede.engines import tokens
from bede.operations.init import init
from bede.operations.search import search
from bede.projections.sessions import Wanted

#: Passages that are asked for, and the tokens that they may take: so many that none of them is cut for room.
RESULTS, ROOM = 15, 100_000
#: The engine that is asked too, as `--engine` names it; "" for words alone.
ENGINE = ""


@contextmanager
def project() -> Iterator[Context]:
    """Make a project in a scratch folder, with a home of its own."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        (Path(folder) / "project").mkdir()
        environment: Mapping[str, str] = {**os.environ, "HOME": str(home), "XDG_DATA_HOME": "", "XDG_CONFIG_HOME": ""}
        context = Context(directory=Path(folder) / "project", environment=environment, agent="eval")
        with closing(context):
            init(context)
            yield context


def ask(context: Context, question: str) -> tuple[Passage, ...]:
    """Return the passages that search gives for a question, best first."""
    found = search(context, question, in_="turns", order="rank", top_k=RESULTS, budget=ROOM, engine=ENGINE)
    return found.passages


def texts(context: Context, question: str, budget: int) -> list[str]:
    """Return the texts of the passages that are found where so many tokens of text are wanted, best first.

    They are cut to fit as `search --budget` cuts them; only what is said counts, and not who said it when.
    """
    with context.repository.snapshot() as reading:
        near = _guests(context).near(reading.connection, question)
        found = talk.find(reading.connection, question, Wanted(), RESULTS, min(talk.PASSAGE, budget // RESULTS), near)
        tell = talk.telling(reading.connection, question)
        said, _ = fitting(passages(reading.connection, found), budget, tell, _said)
    return ["\n".join(turn.text for turn in one.turns) for one in said]


def fill(context: Context) -> None:
    """Make the vectors of all windows, if an engine is asked."""
    _guests(context).fill(context.repository, lambda _done, _all, _name: None)


def _guests(context: Context) -> Guests:
    return guests(context.config, context.environment, ENGINE)


def _said(one: Passage | Said) -> int:
    return tokens.count(one.text) if isinstance(one, Said) else 0


def mean(values: list[float]) -> float:
    """Return the mean, 0 of nothing."""
    return sum(values) / len(values) if values else 0.0
