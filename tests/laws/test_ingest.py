"""The law of ingestion: however a transcript grew, and however often it was read on the way, the same is known."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest

from bede.context import Context
from bede.intake import sorting
from bede.intake.escrow import Escrow
from bede.intake.reading import form
from bede.intake.running import Report, Run, recognise
from bede.intake.writing import Writer
from bede.operations.reindex import reindex
from bede.operations.verify import verify
from bede.projections import PROJECTIONS, panes, sessions
from bede.repository import Repository, log
from bede.sources import AGENTS, source
from bede.turns import text_of

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
SHELVES = [SHARED / "transcripts", SHARED / "transcripts-live"]
pytestmark = pytest.mark.skipif(not SHELVES[0].is_dir(), reason="the sample transcripts are not beside the checkout")

#: Files that are cut a thousand times, by the end of their names; one of each of two formats.
MANY = ("5c0375b4-57a5-4f26-b12d-d022ee4e51b7.jsonl", "codex/resume/home")
FEW, BIG = 12, 400_000


def _streams() -> Iterator[Path]:
    for shelf in SHELVES:
        for path in sorted(shelf.rglob("*.jsonl")):
            if "synthetic" not in path.parts and (agent := _agent(path)) and form(source(agent), path) == "stream":
                yield path


@cache
def _agent(path: Path) -> str:
    head = path.read_bytes()[:65536]
    return next((agent for agent in AGENTS if source(agent).accepts(path, head)), "")


def _name(path: Path) -> str:
    return "/".join(path.parts[-3:])


@pytest.fixture
def blank(tmp_path: Path) -> Iterator[tuple[Path, Repository]]:
    """A copy of a sample's folders to grow in, and a project."""
    place = tmp_path / "grown"
    with closing(Repository.create(tmp_path / "grown.db", PROJECTIONS, actor="me", at=1)) as repository:
        repository.connection.execute("PRAGMA synchronous = OFF")
        yield place, repository


def _twin(repository: Repository, path: Path) -> Repository:
    """Return a second database of the very same project."""
    other = path.with_name("once.db")
    repository.connection.execute("VACUUM INTO ?", (str(other),))
    twin = Repository.open(other, PROJECTIONS)
    twin.connection.execute("PRAGMA synchronous = OFF")
    return twin


def _take(repository: Repository, agent: str, path: Path) -> Report:
    report = Report()
    run = Run(repository, 1, report, None)
    run.take(agent, path)
    run.finish()
    assert not report.failed
    assert not [why for why in report.problems if why.startswith("fault")]
    return report


def _told(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> tuple[list[object], str]:
    """Return what each turn says and where the windows are, once nothing waits for a batch, and the digest of it."""
    with monkeypatch.context() as patch:
        patch.setattr(panes, "BATCH", 1)
        repository.ripen()
    waiting = repository.connection.execute("SELECT count(*) FROM turn WHERE waits = 1").fetchone()[0]
    assert waiting == 0
    turns = (
        "SELECT s.name, t.n, t.by, t.at, t.size, t.rewound, e.body FROM turn t"
        " JOIN session s ON s.id = t.session JOIN event e USING (seq)"
    )
    said = [(*row, log.body(body)) for *row, body in repository.connection.execute(f"{turns} ORDER BY 1, 2")]
    places = (
        "SELECT s.name, p.start, p.tokens, p.first, begin, p.last, end FROM pane p JOIN session s ON s.id = p.session"
    )
    windows = repository.connection.execute(f"{places} ORDER BY 1, 2").fetchall()
    fields = ", ".join(sessions.FIELDS)
    about = repository.connection.execute(f"SELECT name, {fields}, first, last, turns FROM session ORDER BY 1")
    return [*about, *said, *windows], sessions.digest(repository.connection)


def _ids(repository: Repository) -> list[str]:
    rows = repository.connection.execute("SELECT e.id FROM turn t JOIN event e USING (seq) ORDER BY t.session, t.n")
    return [identity.hex() for (identity,) in rows]


def _grow(path: Path, place: Path, data: bytes, cuts: list[int]) -> Iterator[Path]:
    grown = place.joinpath(*path.parts[-6:])
    grown.parent.mkdir(parents=True)
    for near in path.parent.glob("*.meta.json"):
        shutil.copy(near, grown.parent)
    with grown.open("ab") as out:
        for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            out.write(data[start:end])
            out.flush()
            yield grown


def _cuts(data: bytes, count: int, chance: random.Random) -> list[int]:
    """Return places anywhere, some within lines and some where a line ends."""
    places = chance.sample(range(1, len(data)), min(count, len(data) - 1))
    ends = [at for at in (data.find(b"\n", place) + 1 for place in places[: count // 3]) if 0 < at < len(data)]
    return sorted({*places[count // 3 :], *ends})


def _check(path: Path, count: int, blank: tuple[Path, Repository], monkeypatch: pytest.MonkeyPatch) -> None:
    place, repository = blank
    seed = os.environ.get("BEDE_SEED") or str(random.SystemRandom().randrange(10**9))
    agent, data = _agent(path), path.read_bytes()
    chance = random.Random(seed)
    with closing(_twin(repository, place)) as once:
        grown = place
        for number, grown in enumerate(_grow(path, place, data, _cuts(data, count, chance))):
            monkeypatch.setattr(sorting, "TURNS", chance.choice((1, 3, 256)))
            _take(repository, agent, grown)
            if number % 7 == 3:
                repository.ripen()
        monkeypatch.setattr(sorting, "TURNS", 256)
        first = _take(once, agent, grown)
        told, expected = _told(repository, monkeypatch), _told(once, monkeypatch)
        assert told == expected, f"BEDE_SEED={seed}"
        again = _take(once, agent, grown)
        assert again.files == ({"unchanged": 1} if first.files["read"] else first.files)
        assert not again.records
        assert sessions.digest(once.connection) == expected[1]
    assert repository.verify().findings == ()


@pytest.mark.parametrize("path", list(_streams()), ids=_name)
def test_growing_and_whole_are_the_same(path, blank, monkeypatch):
    size = path.stat().st_size
    if size > 1:
        _check(path, FEW if size < BIG else 4, blank, monkeypatch)


@pytest.mark.parametrize("name", MANY)
def test_a_thousand_appends_and_one_are_the_same(name, blank, monkeypatch):
    (path, *_) = [path for path in _streams() if name in str(path)]
    _check(path, 1000, blank, monkeypatch)


@pytest.mark.parametrize("name", MANY)
def test_stopped_at_every_write_and_whole_are_the_same(name, blank, monkeypatch):
    """Whatever moment a run is stopped at: the next goes on from what was written, with nothing lost and none twice."""
    (path, *_) = [path for path in _streams() if name in str(path)]
    place, repository = blank
    agent, data = _agent(path), path.read_bytes()
    (grown,) = _grow(path, place, data, [])
    with closing(_twin(repository, place)) as once:
        _take(once, agent, grown)
        expected = _told(once, monkeypatch)
        monkeypatch.setattr(sorting, "TURNS", 1)
        stops = 0
        while _is_stopped(repository, agent, grown, monkeypatch):
            stops += 1
        assert stops > 5
        assert _told(repository, monkeypatch) == expected


def _is_stopped(repository: Repository, agent: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Run until the second write, and stop before it; tell whether it came to that."""

    class Stopped(BaseException):
        pass

    writes = [0]
    whole = Writer.write

    def write(self, told, cursor):
        writes[0] += 1
        if writes[0] == 2:
            raise Stopped
        whole(self, told, cursor)

    with monkeypatch.context() as patch:
        patch.setattr(Writer, "write", write)
        try:
            _take(repository, agent, path)
        except Stopped:
            return True
    return False


@pytest.mark.parametrize("name", ["claude-code/start/home", "codex/start/home", "/pi/start/home", "omp/start/home"])
def test_between_turns_the_events_are_the_same(name, blank, monkeypatch):
    """A cut where a turn ends leaves no trace: not one event has another id."""
    (path, *_) = [path for path in _streams() if name in str(path)]
    place, repository = blank
    agent, data = _agent(path), path.read_bytes()
    with closing(_twin(repository, place)) as once:
        ends = _ends(agent, path, data, place.with_name("trial"))
        assert len(ends) > 3
        grown = place
        for grown in _grow(path, place, data, ends):
            _take(repository, agent, grown)
        _take(once, agent, grown)
        assert _ids(repository) == _ids(once)
        counts = [each.connection.execute("SELECT count(*) FROM event").fetchone() for each in (repository, once)]
        assert counts[0] == counts[1]


def _ends(agent: str, path: Path, data: bytes, trial: Path) -> list[int]:
    """Return where lines end at which no turn is open that grows later: found by reading line by line."""
    lines = data.splitlines(keepends=True)
    ends, at = [], 0
    whole = _keys(agent, path, data, trial)
    for line in lines[:-1]:
        at += len(line)
        turns = _keys(agent, path, data[:at], trial)
        if turns == whole[: len(turns)]:
            ends.append(at)
    return ends


def _keys(agent: str, path: Path, data: bytes, trial: Path) -> list[tuple[str, str]]:
    """Return the turns in a beginning of a file, as they are told at its end."""
    from bede.intake.reading import Reader
    from bede.sources.port import Tally

    place = trial.joinpath(*path.parts[-6:])
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    found: dict[str, str] = {}
    for told in Reader(source(agent), place, Tally(), bytes(32)).told():
        for item in told:
            if item.kind == "turn":
                found[item.body["key"]] = repr(item.body)
    return list(found.items())


def test_reading_in_any_order_of_runs_and_building_anew_are_the_same(project, context, clock, tmp_path):
    """What is derived is derived: `reindex` finds the same as the runs did."""
    from bede.operations.ingest import ingest

    paths = [path for path in _streams() if path.stat().st_size < BIG][::4]
    assert {_agent(path) for path in paths} >= {"claude-code", "codex"}
    first = ingest(context, path=paths)
    assert first.unreadable == ()
    before = _rows(context)
    reindex(context)
    assert _rows(context) == before
    again = ingest(context, path=paths, again=True)
    assert again.turns.keys() <= {"repeated", "replayed"}
    assert _rows(context) == before
    assert verify(context).ok


def _rows(context: Context) -> list[tuple[object, ...]]:
    columns = f"agent, name, {', '.join(sessions.FIELDS)}, first, last, turns"
    rows = context.repository.connection.execute(f"SELECT {columns} FROM session ORDER BY agent, name").fetchall()
    query = (
        "SELECT s.agent, s.name, t.n, t.by, t.at, t.size, t.rewound, t.seq FROM turn t"
        " JOIN session s ON s.id = t.session ORDER BY 1, 2, 3"
    )
    return [*rows, *context.repository.connection.execute(query).fetchall()]


def test_what_is_recognised_is_what_is_found():
    """The samples are read by the format that the command would choose."""
    for path in _streams():
        assert recognise(path) == _agent(path)


def _texts(place: Path) -> Iterator[Path]:
    """Yield copies of all samples that are no databases, in folders of their own, with what lies beside them."""
    for number, path in enumerate(path for shelf in SHELVES for path in sorted(shelf.rglob("*"))):
        is_sample = path.is_file() and "synthetic" not in path.parts and path.name != "expected.json"
        if is_sample and _agent(path) and not path.read_bytes().startswith(b"SQLite format 3\0"):
            copy = place / str(number) / Path(*path.parts[-5:])
            shutil.copytree(path.parent, copy.parent)
            yield copy


def _what(context: Context) -> list[tuple[object, ...]]:
    query = (
        "SELECT s.agent, s.name, t.n, t.by, t.at, e.source, e.body FROM turn t"
        " JOIN session s ON s.id = t.session JOIN event e USING (seq) ORDER BY 1, 2, 3"
    )
    rows = context.repository.connection.execute(query).fetchall()
    return [(*row, text_of(log.body(body) or {"parts": ()})) for *row, body in rows]


def test_from_copies_all_can_be_built_again(context, clock, tmp_path):
    """Every sample is read, copied and deleted; of the copies a new project makes the very same turns, keys and all."""
    pytest.importorskip("zstandard", reason="copies need zstandard")
    from bede.operations.ingest import ingest
    from bede.operations.init import init

    paths = list(_texts(tmp_path / "samples"))
    assert {_agent(path) for path in paths} >= {"claude-code", "codex", "copilot", "gemini-cli", "pi", "omp", "cursor"}
    for path in paths:
        assert ingest(context, path=[path], keep_raw=True).unreadable == ()
    shutil.rmtree(tmp_path / "samples")
    (tmp_path / "new").mkdir()
    with closing(Context(directory=tmp_path / "new", clock=clock, agent="other")) as other:
        init(other)
        for path in paths:
            copy = Escrow(context.project.folder / "raw").place(_agent(path), path)
            if copy.exists():  # Of what holds no conversation there is none.
                assert ingest(other, path=[copy]).unreadable == ()
        assert _what(other) == _what(context)
