"""One run over transcripts: which files there are, which have something new, whose it is, and what came of each.

A file costs what is new in it. What cannot be read costs itself: it is counted, with the reason, and the run goes on.
Stopped at any moment, it goes on where it was: each file's cursor is written with the turns it stands behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from bede.errors import BadSource, BedeError, Corrupt, Unavailable
from bede.intake import files
from bede.intake.belonging import Roots
from bede.intake.cleaning import name
from bede.intake.reading import FAULTS, Reader, form
from bede.intake.sorting import Sorting, outcome
from bede.intake.writing import Writer
from bede.projections import sessions
from bede.quick import dataclass, field
from bede.repository import Repository, cursors
from bede.sources import AGENTS, guests, source
from bede.sources.homes import is_absent
from bede.sources.port import Source, Tally, World

#: So many cursors of files that had nothing for the project are written in one transaction.
CURSORS = 500
#: After so many nanoseconds without a change a file is held to be done with.
_RESTING = 86_400 * 1_000_000_000
#: What a mark holds to read on in a file.
_ONWARD = ("offset", "line", "part", "head", "tail")

Keep = Callable[[str, Path, int, int, Collection[str]], int]
"""Copies what was read of a file between two offsets, of a database some sessions; returns how far it goes, or -1."""

Lack = Callable[[str, Path, Collection[str], Collection[str]], set[str]]
"""Returns which of a database's sessions, but for some, have no copy; of any other file "", if it has none."""


@dataclass(slots=True)
class Report:
    """What a run met, and what came of it."""

    verdicts: dict[Path, str] = field(default_factory=dict)
    turns: Counter[str] = field(default_factory=Counter)  # new, revised, repeated, replayed
    records: Counter[str] = field(default_factory=Counter)  # types of records, over all agents
    problems: Counter[str] = field(default_factory=Counter)
    failed: list[tuple[Path, str, str]] = field(default_factory=list)  # path, code, message
    sessions: set[tuple[str, str]] = field(default_factory=set)
    refused: dict[Path, str] = field(default_factory=dict)  # folders that may not be looked into, and why
    #: Of files whose sessions all tell a folder: what the file looked like, and the folders.
    folders: dict[Path, tuple[files.Mark, frozenset[str]]] = field(default_factory=dict)
    _counted: set[Path] = field(default_factory=set)

    @property
    def files(self) -> Counter[str]:
        """How many files came to what."""
        return Counter(self.verdicts.values())

    def note(self, path: Path, verdict: str, tally: Tally) -> None:
        """Note what came of a file; of a file that several projects look at, the best of it, and its records once."""
        known = self.verdicts.get(path)
        if known is None or _BEST.index(verdict) < _BEST.index(known):
            self.verdicts[path] = verdict
        if path not in self._counted and (tally.types or tally.problems):
            self._counted.add(path)
            self.records.update(tally.types)
            self.problems.update(tally.problems)

    def fail(self, path: Path, error: Exception) -> None:
        """Note that a file cannot be read, why, and what to do."""
        code, hint = (error.code, error.hint) if isinstance(error, BedeError) else (BadSource.code, "")
        if not any(known == path for known, *_ in self.failed):
            self.failed.append((path, code, f"{error}; {hint}" if hint else str(error)))


_BEST = ("unreadable", "read", "unchanged", "foreign", "unplaced", "empty")


def transcripts(agents: Iterable[str], world: World) -> Iterator[tuple[str, Path]]:
    """Yield what agents left, oldest change first: where one is a copy of another, the first is its owner."""
    found: list[tuple[int, str, Path]] = []
    for agent in agents:
        for path in () if is_absent(agent, world) else source(agent).find(world):
            try:
                found.append((path.stat().st_mtime_ns, agent, path))
            except (OSError, ValueError):
                found.append((0, agent, path))
    for _, agent, path in sorted(found, key=lambda item: (item[0], item[1], str(item[2]))):
        yield agent, path


def recognise(path: Path) -> str:
    """Return whose transcript a file is, by its name and its first bytes; "" where nothing is in it yet.

    Raises:
        BadSource: it is nobody's, or cannot be read, as one that is compressed without its end.
        Unavailable: it is compressed, and the library for that is missing.
    """
    try:
        head = files.head(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise BadSource(f"cannot read {path}: {reason}", hint="check the path") from error
    known = (*AGENTS, *guests())
    for agent in known:
        if source(agent).accepts(files.plain(path), head):
            return agent
    for agent in known:  # A raw copy of what was found by its place alone.
        if path.suffix == ".zst" and f"/raw/{agent}/" in path.absolute().as_posix():
            return agent
    if files.is_blank(head):
        return ""
    with suppress(OSError), files.opened(path, is_whole=True):  # It may well be somebody's once it has its end.
        pass
    raise BadSource(f"no agent's transcript: {path}", hint=f"known are those of {', '.join(sorted(AGENTS))}")


def companions(module: Source, path: Path) -> list[Path]:
    """Return the files that a format reads together with a transcript, and that are there."""
    beside: Callable[[Path], Iterable[Path]] = getattr(module, "beside", lambda _path: ())
    return [each for each in beside(files.plain(path)) if each.is_file()]


@dataclass(slots=True)
class Run:
    """A run for one project, which is `name` among the roots; without roots it takes every session."""

    repository: Repository
    now: int
    report: Report
    roots: Roots | None
    name: str = ""
    keeps_thoughts: bool = False
    is_dry: bool = False
    is_again: bool = False
    keep: Keep | None = None
    lack: Lack = lambda *_: set()
    #: Files with sessions that tell no folder, but which session they came out of.
    _waiting: dict[Path, tuple[str, frozenset[str]]] = field(default_factory=dict)
    _cursors: list[tuple[Path, cursors.Cursor]] = field(default_factory=list)
    _is_writing: bool = False
    _secret: bytes = b""

    def take(self, agent: str, path: Path) -> None:
        """Read on in one file, and write what is new in it."""
        tally = Tally()
        try:
            verdict = self._file(agent, path, tally)
        except (BadSource, Unavailable, OSError, *FAULTS) as error:
            if self._is_writing:  # It is not the file that fails.
                raise
            if _is_blank(path):  # As agents leave some that were begun and never written.
                verdict, tally = "empty", Tally()
            else:
                self.report.fail(path, error)
                verdict = "unreadable"
        self.report.note(path, verdict, tally)

    def finish(self) -> None:
        """Take the files that waited for the sessions theirs came out of, and write what is left to be written."""
        self._put_cursors()
        is_better = True
        while is_better:
            ready = [path for path, (agent, names) in self._waiting.items() if self._has_any(agent, names)]
            is_better = bool(ready)
            for path in ready:
                agent, names = self._waiting.pop(path)
                self.take(agent, path)
                if self._waiting.get(path) == (agent, names):
                    del self._waiting[path]
        self._put_cursors()

    def has(self, agent: str, session: str) -> bool:
        """Tell whether a session is the project's."""
        if (agent, session) in self.report.sessions:
            return True
        with self.repository.snapshot() as reading:
            return sessions.find(reading.connection, agent, session) is not None

    def holds(self, cwd: str) -> bool:
        """Tell whether a folder is the project's."""
        return self.roots is None or (self.roots.holder(cwd) == self.name)

    def _has_any(self, agent: str, names: Iterable[str]) -> bool:
        return any(self.has(agent, name) for name in names if name)

    def _file(self, agent: str, path: Path, tally: Tally) -> str:
        module, seen = source(agent), files.look(path)
        known: cursors.Cursor | None = None
        with self.repository.snapshot() as reading, suppress(Corrupt):  # What cannot be read is read anew.
            known = cursors.find(reading.connection, path)
            known = known if known and known.agent == agent and not self.is_again else None
        is_whole = form(module, path) == "document" and module.FORM == "document"
        is_packed = is_whole and files.is_packed(path)
        if is_whole and not is_packed:
            seen["stamp"] = module.stamp(path)  # type: ignore[attr-defined]
        if known and self._is_moot(agent, known.mark):
            known = None
        if known and _is_unchanged(known.mark, seen):
            self._learn(path, seen, known.mark)
            self._wait(agent, path, known.mark.get("waits", {}).values())
            if any(known.mark.get("places", {}).values()):
                self._keep(path, known, known.mark, tally)
            elif (known.state or "offset" in known.mark) and self._rests(known.mark):
                self._later(path, self._cursor(agent, known.mark, known.state))
            verdict = outcome(known.mark.get("places", {}), known.mark.get("waits", {}))
            return "unchanged" if verdict == "read" else verdict
        if known is None and self._is_elsewhere(path, seen):
            return "foreign" if self.report.folders[path][1] else "empty"
        with files.together(path, companions(module, path)) if is_packed else nullcontext(path) as place:
            return self._read(module, path, place, known, seen, tally)

    def _is_moot(self, agent: str, mark: files.Mark) -> bool:
        """Tell whether what was decided about a file's sessions would be decided otherwise now."""
        if self.roots is None:
            return bool(mark.get("waits")) or not all(mark.get("places", {}).values())
        away = (cwd for cwd, is_ours in mark.get("folders", {}).items() if not is_ours)
        return any(map(self.holds, away)) or self._has_any(agent, mark.get("waits", {}).values())

    def _is_elsewhere(self, path: Path, seen: files.Mark) -> bool:
        """Tell whether it is known from another project's run that a file has nothing for this one."""
        look, folders = self.report.folders.get(path, ({}, frozenset()))
        return self.roots is not None and look == seen and not any(map(self.holds, folders))

    def _learn(self, path: Path, seen: files.Mark, mark: files.Mark) -> None:
        if mark.get("is_placed"):
            self.report.folders[path] = (seen, frozenset(mark["folders"]))

    def _read(
        self, module: Source, path: Path, place: Path, known: cursors.Cursor | None, seen: files.Mark, tally: Tally
    ) -> str:
        """Read on in a file, where it lies or at the place to which it was unpacked."""
        reader, stamps = self._reader(module, place, known, tally)
        goes_on = known is not None and (_resume(reader, known, seen) or reader.only is not None)
        is_document = reader.form == "document"
        writer = Writer(self.repository, module.AGENT, path, self.now, not goes_on and not is_document, is_document)
        writer.keeps_thoughts = self.keeps_thoughts
        start = reader.cursor.offset
        sorting = self._sorted(reader, writer, Sorting(self, module.AGENT, known.mark if known and goes_on else {}))
        if sorting.is_short:  # What had no room while it was not known whose it is.
            reader, _ = self._reader(module, place, None, tally)
            start, sorting = 0, self._sorted(reader, writer, Sorting(self, module.AGENT, sorting.mark(), is_sure=True))
        mark = {**seen, **reader.mark(), **sorting.mark(), **({"stamps": stamps} if stamps else {})}
        if goes_on and known and "kept" in known.mark:
            mark["kept"] = known.mark["kept"]
        cursor = self._cursor(module.AGENT, mark, {} if sorting.waits else reader.dump())
        self._end(writer, sorting, cursor)
        self._learn(path, seen, mark)
        self._wait(module.AGENT, path, sorting.waits.values())
        self.report.turns.update(writer.counts)
        self.report.sessions.update((module.AGENT, name) for name, is_ours in sorting.places.items() if is_ours)
        if sorting.verdict() == "read":
            changed = None
            if mark.get("kept") and reader.only is not None:
                changed = {name(each, reader.secret) for each in reader.only}
            is_on = start or reader.form == "document"
            self._keep(path, cursor, mark if is_on else {**mark, "kept": None}, tally, changed)
        return sorting.verdict()

    def _cursor(self, agent: str, mark: files.Mark, state: dict[str, Any]) -> cursors.Cursor:
        """Return the cursor of a file: all it takes to go on, but of others' sessions no turn that is open.

        Of a file that rests and has nothing for the project, only what it looks like: it is read anew if it changes.
        """
        places = mark.get("places", {})
        if not any(places.values()) and self._rests(mark):
            return cursors.Cursor(agent, {name: mark[name] for name in mark if name not in _ONWARD}, {})
        for told in ("turns", "latest"):
            if told in state:
                state = {**state, told: {name: state[told][name] for name in state[told] if places.get(name, True)}}
        return cursors.Cursor(agent, mark, state)

    def _rests(self, mark: files.Mark) -> bool:
        return bool(mark["mtime"] < self.now * 1000 - _RESTING) and not mark.get("waits")

    def _reader(
        self, module: Source, path: Path, known: cursors.Cursor | None, tally: Tally
    ) -> tuple[Reader, dict[str, str]]:
        """Return the reader of a file, of a database only for what changed in it, and stamps of its sessions."""
        reader = Reader(module, path, tally, self.secret(), self.keeps_thoughts)
        stamps: dict[str, str] = {}
        if module.FORM == "document" and hasattr(module, "sessions") and files.is_database(path):
            with suppress(BadSource):  # Then all that can be read of it is.
                stamps = dict(module.sessions(path))
            if stamps and known and "stamps" in known.mark:
                before = known.mark["stamps"]
                reader.only = {each for each in stamps if before.get(name(each, reader.secret)) != stamps[each]}
        return reader, {name(each, reader.secret): stamp for each, stamp in stamps.items()}

    def secret(self) -> bytes:
        """Return the project's secret, asked for once."""
        if not self._secret:
            with self.repository.snapshot() as reading:
                self._secret = reading.secret()
        return self._secret

    def _sorted(self, reader: Reader, writer: Writer, sorting: Sorting) -> Sorting:
        """Read to the end, writing what is the project's whenever there is enough of it."""
        try:
            for told in reader.told():
                sorting.take(told)
                if sorting.is_full():
                    mark = {"partial": True, **reader.mark(), **sorting.mark()}
                    is_sound = not (sorting.waits or sorting.is_short or reader.form == "document")
                    self._write(
                        writer, sorting, cursors.Cursor(writer.agent, mark, reader.dump()) if is_sound else None
                    )
        except (BadSource, Unavailable, OSError):
            if not self._is_writing:  # What could be read before is kept.
                self._write(writer, sorting, None)
            raise
        return sorting

    def _write(self, writer: Writer, sorting: Sorting, cursor: cursors.Cursor | None) -> None:
        told = sorting.flush()
        if self.is_dry:
            with self.repository.snapshot() as reading:
                writer.foresee(reading, told)
            return
        self._is_writing = True
        writer.write(told, cursor)
        self._is_writing = False

    def _end(self, writer: Writer, sorting: Sorting, cursor: cursors.Cursor) -> None:
        """Write the last of a file; the cursors of files with nothing to write wait for one another."""
        if sorting.is_empty() and not self.is_dry:
            self._later(writer.path, cursor)
        else:
            self._write(writer, sorting, cursor)

    def _later(self, path: Path, cursor: cursors.Cursor) -> None:
        self._cursors.append((path, cursor))
        if len(self._cursors) >= CURSORS:
            self._put_cursors()

    def _put_cursors(self) -> None:
        if self._cursors and not self.is_dry:
            self._is_writing = True
            with self.repository.write("ingest", "bede", self.now) as writing:
                for path, cursor in self._cursors:
                    cursors.put(writing.connection, path, cursor)
            self._is_writing = False
        self._cursors.clear()

    def _wait(self, agent: str, path: Path, waits: Iterable[str]) -> None:
        if names := frozenset(filter(None, waits)):
            self._waiting[path] = (agent, names)

    def _keep(
        self,
        path: Path,
        cursor: cursors.Cursor,
        mark: files.Mark,
        tally: Tally,
        changed: Collection[str] | None = None,
    ) -> None:
        """Copy what the copy of a file does not have yet, and remember how far it reaches.

        Of a database that was copied before, only sessions that `changed`, and those whose copy is gone. Sessions of
        which it has nothing by itself are `bare`: they never have a copy of their own.
        """
        if not self.keep:
            return
        now: dict[str, Any] = {name: mark[name] for name in ("mtime", "stamp") if name in mark}
        now["to"] = int(mark.get("offset", 0))
        ours = {name for name, is_ours in mark.get("places", {}).items() if is_ours}
        kept = mark.get("kept") or {"to": 0}
        lost = self.lack(cursor.agent, path, ours, kept.get("bare", ()))
        if now.items() <= kept.items():
            if not lost:
                return
            changed = ()
        sessions = ours if changed is None else {*ours.intersection(changed), *lost}
        reach = self.keep(cursor.agent, path, kept["to"], now["to"], sessions)
        if reach < 0:
            tally.bad("no raw copy of a database")
            return
        bare = sorted(self.lack(cursor.agent, path, ours, ()))
        cursor.mark["kept"] = {**now, "to": reach, **({"bare": bare} if bare else {})}
        self._later(path, cursor)


def _is_blank(path: Path) -> bool:
    try:
        return files.is_blank(files.head(path))
    except (OSError, BedeError):
        return False


def _is_unchanged(mark: files.Mark, seen: files.Mark) -> bool:
    if mark.get("partial"):
        return False
    if "stamp" in seen:
        return bool(mark.get("stamp") == seen["stamp"])
    return files.is_same(mark, seen)


def _resume(reader: Reader, known: cursors.Cursor, seen: files.Mark) -> bool:
    """Let a reader go on where the file was left, if what was read still stands there.

    A file that was written to and did not grow was written over, and one that another took the place of may have been.
    """
    mark = known.mark
    if reader.form != "stream" or "offset" not in mark or mark.get("waits"):
        return False
    if "file" in mark and mark["file"][1:] != seen["file"][1:]:  # Its number; that of the disk changes with a restart.
        return False
    if "mtime" in mark and seen["size"] <= mark["size"] and seen["mtime"] != mark["mtime"]:
        return False
    with files.opened(reader.path) as file:
        cursor = files.resume(file, mark)
    if cursor is None:
        return False
    reader.cursor = cursor
    reader.load(known.state)
    return True
