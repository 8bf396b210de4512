"""One run over transcripts: which files there are, which have something new, whose it is, and what came of each.

A file costs what is new in it. What cannot be read costs itself: it is counted, with the reason, and the run goes on.
Stopped at any moment, it goes on where it was: each file's cursor is written with the turns it stands behind.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bede.errors import BadSource, BedeError, Unavailable
from bede.intake import files
from bede.intake.belonging import Roots
from bede.intake.reading import Reader, Told
from bede.intake.writing import Writer
from bede.repository import Repository, cursors
from bede.sources import AGENTS, guests, source
from bede.sources.port import Source, Tally, World

#: So many turns, or characters of them, are written in one transaction.
TURNS, CHARACTERS = 256, 2_000_000


@dataclass(slots=True)
class Report:
    """What a run met, and what came of it."""

    files: Counter[str] = field(default_factory=Counter)  # read, unchanged, foreign, unplaced, empty, unreadable
    turns: Counter[str] = field(default_factory=Counter)  # new, revised, repeated, replayed
    records: Counter[str] = field(default_factory=Counter)  # types of records, over all agents
    problems: Counter[str] = field(default_factory=Counter)
    failed: list[tuple[Path, str, str]] = field(default_factory=list)  # path, code, message
    sessions: set[tuple[str, str]] = field(default_factory=set)


def transcripts(agents: Iterable[str], world: World) -> Iterator[tuple[str, Path]]:
    """Yield what agents left, oldest change first: where one is a copy of another, the first is its owner."""
    found: list[tuple[int, str, Path]] = []
    for agent in agents:
        for path in source(agent).find(world):
            try:
                found.append((path.stat().st_mtime_ns, agent, path))
            except OSError:
                found.append((0, agent, path))
    for _, agent, path in sorted(found, key=lambda item: (item[0], item[1], str(item[2]))):
        yield agent, path


def recognise(path: Path) -> str:
    """Return whose transcript a file is, by its name and its first bytes.

    Raises:
        BadSource: it is nobody's, or cannot be read.
    """
    try:
        head = files.head(path)
    except OSError as error:
        raise BadSource(f"cannot read {path}: {error.strerror or error}", hint="check the path") from error
    for agent in (*AGENTS, *guests()):
        if source(agent).accepts(path, head):
            return agent
    raise BadSource(f"no agent's transcript: {path}", hint=f"known are those of {', '.join(sorted(AGENTS))}")


@dataclass(slots=True)
class Run:
    """A run for one project. `holds` tells whether a folder is the project's; None takes every session."""

    repository: Repository
    now: int
    report: Report
    roots: Roots | None
    name: str = ""
    keeps_thoughts: bool = False
    is_dry: bool = False
    is_again: bool = False
    keep: Callable[[str, Path, int, int], bool] | None = None

    def take(self, agent: str, path: Path) -> None:
        """Read on in one file, and write what is new in it."""
        tally = Tally()
        try:
            verdict = self._file(agent, path, tally)
        except (BadSource, Unavailable, OSError) as error:
            if isinstance(error, Unavailable) and error.code != "unavailable":
                raise
            code = error.code if isinstance(error, BedeError) else BadSource.code
            self.report.failed.append((path, code, str(error)))
            verdict = "unreadable"
        self.report.files[verdict] += 1
        self.report.records.update(tally.types)
        self.report.problems.update(tally.problems)

    def _file(self, agent: str, path: Path, tally: Tally) -> str:
        module, seen = source(agent), files.look(path)
        with self.repository.snapshot() as reading:
            known = cursors.find(reading.connection, path)
        if module.FORM == "document":
            seen["stamp"] = module.stamp(path)  # type: ignore[attr-defined]
        if known and not self.is_again and known.agent == agent:
            if _is_unchanged(known.mark, seen):
                return "unchanged"
            if self.roots and known.mark.get("holder") is False and not self._holds(known.mark.get("cwd", "")):
                return "foreign"
        return self._read(module, path, known, seen, tally)

    def _read(self, module: Source, path: Path, known: cursors.Cursor | None, seen: files.Mark, tally: Tally) -> str:
        reader = Reader(module, path, tally, self.keeps_thoughts)
        goes_on = known is not None and not self.is_again and _resume(reader, known)
        writer = Writer(self.repository, module.AGENT, path, self.now, is_again=not goes_on and module.FORM == "stream")
        sorting = Sorting(self, dict(known.mark.get("places", {})) if known and goes_on else {})
        start = reader.cursor.offset
        for told in reader.told():
            sorting.take(told)
            if sorting.is_full() and not self.is_dry:
                writer.write(
                    sorting.flush(), cursors.Cursor(module.AGENT, {"partial": True, **_place(reader)}, reader.dump())
                )
        verdict = sorting.verdict()
        mark = {**seen, **_place(reader), "places": sorting.places, "holder": verdict not in ("foreign", "unplaced")}
        mark["cwd"] = sorting.cwd
        if not self.is_dry:
            writer.write(sorting.flush(), cursors.Cursor(module.AGENT, mark, reader.dump()))
            if self.keep and verdict == "read" and not self.keep(module.AGENT, path, start, reader.cursor.offset):
                tally.bad("no raw copy of a database")
        else:
            writer.counts["new"] += sum(item.kind == "turn" for item in sorting.flush())
        self.report.turns.update(writer.counts)
        self.report.sessions.update((module.AGENT, name) for name, is_ours in sorting.places.items() if is_ours)
        return verdict

    def _holds(self, cwd: str) -> bool:
        return self.roots is None or (self.roots.holder(cwd) == self.name)


def _is_unchanged(mark: files.Mark, seen: files.Mark) -> bool:
    if mark.get("partial"):
        return False
    if "stamp" in seen:
        return bool(mark.get("stamp") == seen["stamp"])
    return files.is_same(mark, seen)


def _resume(reader: Reader, known: cursors.Cursor) -> bool:
    """Let a reader go on where the file was left, if what was read still stands there."""
    if reader.source.FORM != "stream" or "offset" not in known.mark:
        return False
    with files.opened(reader.path) as file:
        cursor = files.resume(file, known.mark)
    if cursor is None:
        return False
    reader.cursor = cursor
    reader.load(known.state)
    return True


def _place(reader: Reader) -> dict[str, Any]:
    if reader.source.FORM != "stream":
        return {}
    with files.opened(reader.path) as file:
        return files.remember(file, reader.cursor)


class Sorting:
    """What was told, held back until it is known whose the session is."""

    def __init__(self, run: Run, places: dict[str, bool]) -> None:
        self.places = places
        self.cwd = ""
        self._run = run
        self._ready: list[Told] = []
        self._held: dict[str, list[Told]] = {}
        self._size = 0
        self._count = 0

    def take(self, told: list[Told]) -> None:
        """Sort what one record told."""
        for item in told:
            self._count += 1
            if item.session not in self.places:
                self._decide(item)
            is_ours = self.places.get(item.session)
            if is_ours is None:
                self._held.setdefault(item.session, []).append(item)
            elif is_ours:
                self._add(item)

    def _decide(self, item: Told) -> None:
        """Find out whose a session is: by the first folder that it tells, or by the session it came out of."""
        cwd = item.body.get("cwd", "") if item.kind == "session" else ""
        parent = item.body.get("parent", "") if item.kind == "session" else ""
        if self._run.roots is None:
            self.places[item.session] = True
        elif cwd:
            self.cwd = self.cwd or cwd
            self.places[item.session] = self._run._holds(cwd)
        elif parent and (parent in self.places or (self._run.report.sessions & {(self._agent, parent)})):
            self.places[item.session] = self.places.get(parent, True)
        else:
            return
        for held in self._held.pop(item.session, []):
            if self.places[item.session]:
                self._add(held)

    _agent = ""

    def _add(self, item: Told) -> None:
        self._ready.append(item)
        self._size += len(json.dumps(item.body)) if item.kind == "turn" else 0

    def is_full(self) -> bool:
        """Tell whether there is enough to write, and nothing of it is held back."""
        return (len(self._ready) >= TURNS or self._size >= CHARACTERS) and not self._held

    def flush(self) -> list[Told]:
        """Return what is to be written, and begin anew."""
        ready, self._ready, self._size = self._ready, [], 0
        return ready

    def verdict(self) -> str:
        """Return what came of a file: read, foreign, unplaced, or empty."""
        if any(self.places.values()):
            return "read"
        if self.places:
            return "foreign"
        return "unplaced" if self._count else "empty"
