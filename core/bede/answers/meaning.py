"""Engines at work for a search: which is asked for, the vectors it makes, what is near a question, who reads again.

An engine is a guest. One that a call names must work, or the call says why it cannot. One that only a setting names
never stands in the way: without it the search goes by words, and a warning says so. Windows without a vector are found
by their words. Nothing here is loaded while no engine is wanted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from bede.config import Config, user_folder
from bede.engines import embedding
from bede.errors import BedeError, Unavailable
from bede.projections import panes, vectors
from bede.quick import dataclass, field, replace
from bede.repository import Repository
from bede.turnstile import held

if TYPE_CHECKING:
    from bede.answers.said import Passage
    from bede.projections.vectors import Near
    from bede.repository.connection import Connection

T = TypeVar("T")
#: What stands for no engine, in settings and options.
LEXICAL = "lexical"
#: The settings that name them.
EMBEDDER, RERANKER = "search.engine", "search.reranker"
#: Windows whose vectors are made and written at once.
BATCH = 128
#: How often is begun again where windows change faster than their vectors are made.
TRIES = 5
#: Who fills; a second one at the same time would do the same work.
LOCK = "vectors.lock"
#: Characters of a passage that a reranker reads.
LONGEST = 4000


def engine(config: Config, asked: str = "", key: str = EMBEDDER) -> str:
    """Return how the engine of a call is named: as it says, else as the setting does; '' for none."""
    found = asked.strip() or str(config[key])
    return "" if found == LEXICAL else found


def folder(environment: Mapping[str, str]) -> Path:
    """Return the user's folder for what engines need: the table of static vectors, and digests of models."""
    return user_folder(environment, "data") / "engines"


@dataclass(slots=True)
class Guests:
    """The engines of one call. `embeds` and `ranks` name them, '' for none; `must` says which the call itself named.

    `warnings` gathers why one that only a setting names did not take part.
    """

    environment: Mapping[str, str]
    embeds: str = ""
    ranks: str = ""
    must: frozenset[str] = frozenset()
    warnings: list[str] = field(default_factory=list)
    used: str = ""  # whose vectors took part

    def embedder(self) -> embedding.Embedder | None:
        """Return the embedder, if there is one.

        Raises:
            UsageError, Unavailable, Corrupt: it was asked for, and cannot be had.
        """
        return self._try(self.embeds, lambda: _embedder(self.embeds, folder(self.environment), _hub(self.environment)))

    def _ranker(self) -> embedding.Reranker:
        return _reranker(self.ranks, folder(self.environment), _hub(self.environment))

    def check(self) -> None:
        """See that the engines which were asked for can be had, as far as that is told without loading one.

        Raises:
            UsageError, Unavailable, Corrupt: one cannot.
        """
        self.embedder()
        self._try(self.ranks, self._ranker)

    def lacking(self, repository: Repository) -> int:
        """Return how many windows have no vector of the embedder; 0 without one."""
        guest = self.embedder()
        if guest is None:
            return 0
        with repository.snapshot() as reading:
            return len(vectors.missing(reading.connection, guest.name, guest.dimensions)[1])

    def near(self, connection: Connection, question: str) -> Near | None:
        """Return how near a question the windows are; None without an engine, or where no window has its vector.

        Raises:
            UsageError, Unavailable, Corrupt: it was asked for, and does not work.
        """
        found = self._try(self.embeds, lambda: self._near(connection, question)) if self.embeds else None
        if found and (lacking := vectors.windows(connection) - len(found)) > 0:
            self._warn(f"{lacking:,} windows have no vector of {self.used} yet: 'bede ingest' makes them")
        return found

    def _near(self, connection: Connection, question: str) -> Near | None:
        guest = self.embedder()
        if guest is None:
            return None
        found = vectors.near(connection, guest.name, guest.embed([question], "query")[0])
        self.used = guest.name
        if found is None and vectors.windows(connection):
            raise Unavailable(
                f"no window has a vector of {guest.name}",
                hint=f"run 'bede ingest --engine {self.embeds}'",
                reason="vectors",
            )
        return found

    def reranked(self, question: str, found: Sequence[Passage]) -> list[Passage]:
        """Return passages in the order, and with the scores, that a reranker gives them; as they are without one.

        Raises:
            UsageError, Unavailable, Corrupt: it was asked for, and does not work.
        """
        scores = self._try(self.ranks, lambda: self._scores(question, found)) if self.ranks and found else None
        if scores is None:
            return list(found)
        order = sorted(range(len(found)), key=lambda spot: (-scores[spot], spot))
        return [replace(found[spot], rank=rank, score=round(scores[spot], 4)) for rank, spot in enumerate(order, 1)]

    def _scores(self, question: str, found: Sequence[Passage]) -> list[float]:
        guest = self._ranker()
        texts = ["\n".join(turn.text for turn in one.turns)[:LONGEST] for one in found]
        return guest.score(question, texts)

    def fill(self, repository: Repository, tell: Callable[[int, int, str], None], least: int = 1) -> int:
        """Make the vectors that windows lack, see `fill`, if there are so many; return how many, 0 without an engine.

        Raises:
            UsageError, Unavailable, Corrupt: the engine was asked for, and does not work.
            Busy, TooNew: the store does not take them.
        """
        return self._try(self.embeds, lambda: self._fill(repository, tell, least)) or 0

    def _fill(self, repository: Repository, tell: Callable[[int, int, str], None], least: int) -> int:
        guest = self.embedder()
        return fill(repository, guest, tell) if guest and self.lacking(repository) >= least else 0

    def _try(self, spec: str, work: Callable[[], T]) -> T | None:
        """Let an engine work; one that nobody but a setting asked for may fail."""
        if not spec:
            return None
        try:
            return work()
        except (BedeError, sqlite3.Error) as error:
            if spec in self.must:
                raise
            hint = error.hint if isinstance(error, BedeError) else ""
            self._warn(f"done without {spec}: {error}" + (f" ({hint})" if hint else ""))
            return None

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)


def guests(config: Config, environment: Mapping[str, str], embeds: str = "", ranks: str = "") -> Guests:
    """Return the engines of a call, given what it names itself; the settings name the rest."""
    found = engine(config, embeds), engine(config, ranks, RERANKER)
    return Guests(environment, *found, must=frozenset(name.strip() for name in (embeds, ranks) if name))


def fill(repository: Repository, guest: embedding.Embedder, tell: Callable[[int, int, str], None]) -> int:
    """Make the vectors that windows lack, batch by batch, each written by itself; return how many.

    The store is open to others meanwhile. Where another process is at it, nothing is done. It may be stopped at any
    moment, and goes on where it was.

    Raises:
        Unavailable: the engine fails.
        Busy, Corrupt, TooNew: the store does not take them.
    """
    with held(repository.path.with_name(LOCK)) as is_mine:
        made, tries = 0, TRIES if is_mine else 0
        with repository.write("ingest", "bede", 0) as writing:
            vectors.lay(writing.connection)
        while tries:
            with repository.snapshot() as reading:
                seen, lacking = vectors.missing(reading.connection, guest.name, guest.dimensions)
            done = _fill(repository, guest, seen, lacking, tell)
            made += done
            tries = 0 if done == len(lacking) else tries - 1 if not done else TRIES
        return made


def _fill(
    repository: Repository,
    guest: embedding.Embedder,
    seen: int,
    lacking: Sequence[int],
    tell: Callable[[int, int, str], None],
) -> int:
    """Make vectors of windows for as long as no window changes; return of how many."""
    for start in range(0, len(lacking), BATCH):
        tell(start, len(lacking), guest.name)
        part = lacking[start : start + BATCH]
        with repository.snapshot() as reading:
            if vectors.stamp(reading.connection) != seen:
                return start
            said = panes.read(reading.connection, part)
        rows = guest.embed([said.get(pane, "") for pane in part], "passage")
        with repository.write("ingest", "bede", 0) as writing:
            after = vectors.put(writing.connection, guest.name, seen, part, rows)
        if after is None:
            return start
        seen = after
    tell(len(lacking), len(lacking), "")
    return len(lacking)


def _hub(environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return what of an environment says where models are."""
    names = ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME")
    return tuple((name, environment[name]) for name in names if name in environment)


# A server asks many times; a model is loaded once.
@lru_cache(maxsize=2)
def _embedder(spec: str, folder: Path, environment: tuple[tuple[str, str], ...]) -> embedding.Embedder:
    return embedding.embedder(spec, folder, dict(environment))


@lru_cache(maxsize=2)
def _reranker(spec: str, folder: Path, environment: tuple[tuple[str, str], ...]) -> embedding.Reranker:
    return embedding.reranker(spec, folder, dict(environment))
