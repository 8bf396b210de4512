"""What goes wrong below: the disk, the file, its pages. Each fault has its own error, and nothing is half-written.

Where a fault needs rights or a kernel that are not there, the test says so and is skipped.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from journeys.crowd import command, surroundings

from bede.context import Context
from bede.errors import BedeError, Conflict, Corrupt, RepositoryNotFound, TooNew, Unavailable
from bede.operations.init import init
from bede.operations.reindex import reindex
from bede.operations.search import search
from bede.operations.show import show
from bede.operations.status import status
from bede.operations.store import store
from bede.operations.verify import verify
from bede.projections import PROJECTIONS
from bede.records import Draft
from bede.repository import Repository
from bede.repository.schema import FORMAT

posix = pytest.mark.skipif(os.name != "posix", reason="a matter of POSIX file systems")


def _note(text: str) -> Draft:
    return Draft("note", {"summary": text}, "ada", 1)


def _append(repository: Repository, text: str) -> str:
    with repository.write("store", "ada", 1) as writing:
        return writing.append("main", [_note(text)])[0].id


@pytest.fixture
def database(project: Path) -> Path:
    """A database with some history, closed and whole in its one file."""
    with closing(Context(directory=project, agent="ada")) as context:
        for number in range(40):
            store(context, kind="decision", key=f"k{number % 9}", value=f"value {number} " + "x" * number * 10)
            store(context, summary=f"note {number} " + "y" * number * 20, tags=[f"t{number % 5}"])
    return project / ".bede" / "bede.db"


@pytest.fixture
def used(database: Path) -> Iterator[Repository]:
    """The database, open and in use."""
    with closing(Repository.open(database, PROJECTIONS, wait=1)) as repository:
        _append(repository, "the last before the fault")
        yield repository


def _everything(project: Path) -> dict[str, Any]:
    """Try all sorts of verbs on a project, each in a call of its own; return what each came to."""
    verbs: dict[str, Callable[[Context], object]] = {
        "status": status,
        "search": lambda context: search(context, "note 7"),
        "list": lambda context: search(context, kind=["decision"]),
        "show": lambda context: show(context, "main~3"),
        "store": lambda context: store(context, summary="after the fault"),
        "verify": verify,
        "integrity": lambda context: context.history().integrity(),
        "reindex": reindex,
        "init": init,
    }
    found: dict[str, Any] = {}
    for name, verb in verbs.items():
        with closing(Context(directory=project, agent="ada")) as context:
            try:
                found[name] = verb(context)
            except BedeError as error:
                assert error.message
                found[name] = error
    return found


def _errors(found: dict[str, Any]) -> set[type]:
    return {type(item) for item in found.values() if isinstance(item, BedeError)}


# The disk.


def _namespace() -> list[str]:
    """Return what runs a shell in mounts of its own; skip where that is not allowed."""
    if sys.platform != "linux" or not shutil.which("unshare"):
        pytest.skip("mounts of one's own need Linux and unshare")
    words = ["unshare", "--mount"] if os.getuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    if subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        pytest.skip("mounts of one's own are not allowed here")
    return words


def _on_small_disk(tmp_path: Path, script: str, *, size: str = "1600k") -> list[Any]:
    """Run a script in an empty disk of its own; return the lines of JSON that it prints."""
    disk = tmp_path / "disk"
    disk.mkdir()
    shell = f'mount -t tmpfs -o size={size},mode=700 none "$0" || exit 99; cd "$0"; exec "$@"'
    done = subprocess.run(
        [*_namespace(), "sh", "-c", shell, str(disk), *command(Path("-c"), _PRELUDE + script)],
        env=surroundings(),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    if done.returncode == 99:
        pytest.skip(f"no disk could be mounted: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


_PRELUDE = """
import json, os, subprocess, sys
from contextlib import closing
from pathlib import Path
from bede.context import Context
from bede.errors import BedeError
from bede.operations.init import init
from bede.operations.purge import purge
from bede.operations.reindex import reindex
from bede.operations.search import search
from bede.operations.status import status
from bede.operations.store import store
from bede.operations.verify import verify

def call(verb, *words, **options):
    with closing(Context(directory=Path.cwd(), agent="ada")) as context:
        try:
            return verb(context, *words, **options).to_json()
        except BedeError as error:
            return error.to_json()

def tell(value):
    print(json.dumps(value), flush=True)

def stored():
    with closing(Context(directory=Path.cwd(), agent="ada")) as context:
        with context.repository.snapshot() as reading:
            return {event.id for event in reading.walk(reading.spans(reading.tip("main")))}

def fill(size):
    ids = []
    while True:  # What repeats would be packed, and never fill a disk.
        told = call(store, summary=f"{len(ids)} {os.urandom(size // 2).hex()}")
        if "id" not in told:
            return ids, told
        ids.append(told["id"])
"""


def test_a_full_disk_loses_nothing_and_goes_on_when_there_is_room(tmp_path):
    script = """
call(init)
Path("ballast").write_bytes(b"x" * 1_000_000)
ids, told = fill(2000)
tell(told)
tell([len(ids), set(ids) <= stored(), call(verify)["ok"]])
tell(call(status)["schema"])
words = [sys.executable, "-P", "-m", "bede_cli", "store", "--summary", os.urandom(1500).hex()]
shell = subprocess.run(words, capture_output=True)
tell([shell.returncode, shell.stderr.decode()])
tell(call(purge, [ids[0]], yes=True)["code"])
tell([call(verify)["ok"], set(ids) <= stored()])
Path("ballast").unlink()
tell([call(store, summary="room again")["schema"], call(verify)["ok"], call(purge, [ids[0]], yes=True)["schema"]])
"""
    told, kept, looked, shell, purged, whole, again = _on_small_disk(tmp_path, script)
    assert (told["code"], told["exit_status"]) == ("unavailable", 40)
    assert "full" in told["message"]
    assert kept[0] > 10
    assert kept[1:] == [True, True]
    assert looked == "status/1"
    assert shell[0] == 40
    assert json.loads(shell[1])["code"] == "unavailable"
    assert purged == "unavailable"
    assert whole == [True, True]
    assert again == ["store/1", True, "purge/1"]


@pytest.mark.parametrize("room", [0, 4, 20, 60, 120])
def test_a_project_that_does_not_fit_is_not_half_made(tmp_path, room):
    script = f"""
free = os.statvfs(".")
Path("ballast").write_bytes(b"x" * (free.f_bavail * free.f_frsize - {room} * 1024))
told = call(init)
tell(told.get("code", told.get("outcome")))
tell(sorted(path.name for path in Path(".bede").iterdir()) if Path(".bede").exists() else [])
Path("ballast").unlink()
tell([call(init)["outcome"], call(verify)["ok"]])
"""
    told, left, again = _on_small_disk(tmp_path, script)
    if told == "created":
        assert again == ["unchanged", True]
    else:
        assert told == "unavailable"
        assert "bede.db" not in left
        assert not [name for name in left if name.startswith(".bede.db")]
        assert again == ["created", True]


def test_a_disk_too_full_to_build_tables_again_keeps_the_old_ones(tmp_path):
    script = """
call(init)
for number in range(60):
    call(store, summary=f"note {number} " + "words of many kinds %d " % number * 40)
free = os.statvfs(".")
Path("ballast").write_bytes(b"x" * (free.f_bavail * free.f_frsize - 90_000))
before = call(search, "many kinds", top_k=50)["results"]
tell(call(reindex).get("code", "fine"))
tell([call(search, "many kinds", top_k=50)["results"] == before, call(verify)["ok"], len(before)])
"""
    told, kept = _on_small_disk(tmp_path, script)
    assert told in ("unavailable", "fine")
    assert kept == [True, True, 50]


def test_a_read_only_disk_is_read_and_not_written(tmp_path):
    script = """
call(init)
ids = [call(store, summary=f"note {n}")["id"] for n in range(3)]
tell(subprocess.run(["mount", "-o", "remount,ro", os.getcwd()]).returncode)
os.chdir("..")
os.chdir("disk")
tell([call(status).get("schema"), call(verify).get("ok"), len(call(search, "note")["results"])])
tell([call(store, summary="x"), call(reindex), call(init)])
for verb, *words in (["status"], ["search", "note"], ["store", "--summary", "x"]):
    done = subprocess.run([sys.executable, "-P", "-m", "bede_cli", verb, *words], capture_output=True)
    tell([verb, done.returncode, b"Traceback" in done.stderr])
tell(sorted(path.name for path in Path(".bede").iterdir()))
"""
    remounted, read, written, *shell, left = _on_small_disk(tmp_path, script)
    if remounted:
        pytest.skip("the disk could not be made read-only")
    assert read == ["status/1", True, 3]
    assert [item.get("code") for item in written[:2]] == ["unavailable", "unavailable"]
    assert written[2].get("outcome") == "unchanged"
    assert shell == [["status", 0, False], ["search", 0, False], ["store", 40, False]]
    assert left == [".gitignore", "bede.db"]


_BOUND = """
import ctypes
if os.getuid() == 0:  # Without its capabilities even root is bound by file modes.
    header, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert ctypes.CDLL(None).capset(header, nothing) == 0
"""


@pytest.mark.skipif(os.name != "posix" or (os.getuid() == 0 and sys.platform != "linux"), reason="modes must bind")
def test_a_folder_that_may_not_be_written_is_read_and_not_written(project, database):
    def told(mode: int, file_mode: int) -> list[Any]:
        script = """
tell([call(status).get("schema"), call(verify).get("ok"), call(search, "note 7").get("schema")])
tell(call(store, summary="x").get("code"))
"""
        database.chmod(file_mode)
        database.parent.chmod(mode)
        try:
            done = subprocess.run(
                command(Path("-c"), _PRELUDE + _BOUND + script),
                cwd=project,
                env=surroundings(),
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            database.parent.chmod(0o700)
            database.chmod(0o600)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    assert told(0o500, 0o400) == [["status/1", True, "search/1"], "unavailable"]
    assert told(0o700, 0o400) == [["status/1", True, "search/1"], "unavailable"]
    assert told(0o700, 0o600)[0] == ["status/1", True, "search/1"]


@posix
def test_a_limit_on_the_size_of_files_is_a_full_disk(project, database):
    script = """
import resource
limit = os.path.getsize(".bede/bede.db") + 200_000
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
before = stored()
ids, told = fill(20_000)
tell([told["code"], len(ids), before | set(ids) == stored(), call(verify)["ok"]])
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
tell([call(store, summary="room again")["schema"], call(verify)["ok"]])
"""
    done = subprocess.run(
        command(Path("-c"), _PRELUDE + script),
        cwd=project,
        env=surroundings(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told, again = [json.loads(line) for line in done.stdout.splitlines()]
    assert told[0] == "unavailable"
    assert told[1] >= 1
    assert told[2:] == [True, True]
    assert again == ["store/1", True]


# The file, while it is in use.


def _both_refuse(repository: Repository, kind: type[BedeError]) -> None:
    """Neither reading nor writing goes on as if nothing had happened."""
    with pytest.raises(kind), repository.snapshot():
        pytest.fail("a ghost was read")
    with pytest.raises(kind):
        _append(repository, "to nobody")
    with pytest.raises(kind):
        repository.verify()


@posix
def test_a_database_that_is_removed_takes_no_more(used, bede, project):
    for path in used.path.parent.glob("bede.db*"):
        path.unlink()
    _both_refuse(used, RepositoryNotFound)
    assert bede("status", cwd=project).status == 10
    assert not used.path.exists()


@posix
def test_a_project_that_is_removed_takes_no_more(used):
    shutil.rmtree(used.path.parent)
    _both_refuse(used, RepositoryNotFound)


@posix
def test_a_database_that_is_replaced_takes_no_more(used, tmp_path):
    other = Repository.create(tmp_path / "other.db", PROJECTIONS, actor="eve", at=1)
    other.close()
    before = (tmp_path / "other.db").read_bytes()
    for end in ("-wal", "-shm"):
        used.path.with_name(used.path.name + end).unlink()
    (tmp_path / "other.db").replace(used.path)
    _both_refuse(used, Conflict)
    assert used.path.read_bytes() == before


@posix
def test_what_is_removed_in_the_middle_of_a_write_was_not_acknowledged(used):
    with pytest.raises(RepositoryNotFound), used.write("store", "ada", 1) as writing:
        writing.append("main", [_note("into the void")])
        for path in used.path.parent.glob("bede.db*"):
            path.unlink()


@posix
@pytest.mark.parametrize("share", [0, 0.01, 0.3, 0.7, 0.99])
def test_a_database_that_is_cut_short_while_in_use(used, share):
    used.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    used.connection.execute("PRAGMA cache_size = 1")
    os.truncate(used.path, int(used.path.stat().st_size * share))
    told: set[type] = set()
    for act in (used.verify, lambda: _append(used, "onto nothing"), used.integrity):
        try:
            found = act()
            if act == used.integrity and found != ["ok"]:
                told.add(Corrupt)
        except BedeError as error:
            told.add(type(error))
    assert told
    assert told <= {Corrupt, Unavailable}
    used.close()
    found = _everything(used.path.parent.parent)
    assert _errors(found) <= {Corrupt, Unavailable}
    assert _errors(found) or found["integrity"] != ["ok"]


# The file, met as it is.


@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * 4096, b"garbage" * 3000, b"SQLite format 3\0", b"SQLite format 3\0" + b"\xff" * 8000, b"{}\n"],
    ids=["empty", "zeros", "garbage", "magic", "magic and garbage", "json"],
)
def test_a_file_that_is_no_database(project, bede, data):
    path = project / ".bede" / "bede.db"
    path.write_bytes(data)
    found = _everything(project)
    assert _errors(found) == {Corrupt}
    assert all(isinstance(item, Corrupt) for item in found.values())
    assert path.read_bytes() == data
    assert bede("status", cwd=project).error()["code"] == "corrupt"


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE t (x)"],
        ["PRAGMA application_id = 0x42454445"],
        ["PRAGMA application_id = 0x42454445", "PRAGMA user_version = 1", "CREATE TABLE project (x)"],
        ["PRAGMA application_id = 0x42454445", "PRAGMA user_version = 99"],
    ],
)
def test_a_database_of_somebody_else(project, statements):
    path = project / ".bede" / "bede.db"
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    assert all(isinstance(item, Corrupt) for item in _everything(project).values())


@posix
@pytest.mark.parametrize("kind", ["folder", "fifo", "device", "loop"])
def test_something_that_is_no_file(project, bede, kind):
    path = project / ".bede" / "bede.db"
    path.unlink()
    make: dict[str, Callable[[], object]] = {
        "folder": path.mkdir,
        "fifo": lambda: os.mkfifo(path),
        "device": lambda: path.symlink_to("/dev/zero"),
        "loop": lambda: path.symlink_to(path),
    }
    make[kind]()
    for words in (("status",), ("store", "--summary", "x"), ("verify",)):
        found = bede(*words, cwd=project, timeout=30)
        assert (found.status, found.out) in ((20, ""), (40, ""), (10, ""))
        assert "Traceback" not in found.err


@pytest.mark.parametrize(
    ("reader", "writer", "reads", "writes"),
    [(FORMAT, FORMAT, True, True), (FORMAT, FORMAT + 1, True, False), (FORMAT + 1, FORMAT + 1, False, False)],
)
@pytest.mark.parametrize("version", [FORMAT, FORMAT + 1, 2**31 - 1])
def test_a_newer_file_is_used_read_or_refused_as_it_says(
    project, database, bede, reader, writer, reads, writes, version
):
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(
            "UPDATE project SET min_reader_version = ?, min_writer_version = ?, upgrade_hint = 'get the new one'",
            (reader, writer),
        )
        connection.execute(f"PRAGMA user_version = {version}")
    found = _everything(project)
    refused = {name for name, item in found.items() if isinstance(item, TooNew)}
    written = {"store", "reindex"}
    assert refused == (set() if writes else written if reads else found.keys())
    assert all(found[name].hint == "get the new one" for name in refused)
    assert _errors(found) <= {TooNew}
    if reads:
        versions = found["status"].versions
        assert versions.access == ("full" if writes else "read_only")
        assert versions.file_format == version
        assert versions.upgrade_hint == ("get the new one" if version > FORMAT or not writes else "")
    shell = bede("store", "--summary", "one more", cwd=project)
    assert (shell.status == 0) == writes
    if not writes:
        assert (shell.status, shell.error()["hint"]) == (21, "get the new one")


@pytest.mark.parametrize("version", [0, -1])
def test_an_older_format_that_never_was_is_damage(project, database, version):
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    assert _errors(_everything(project)) == {Corrupt}


def _owners(database: Path) -> dict[int, str]:
    """Return which table or index each page belongs to."""
    with closing(sqlite3.connect(database)) as connection:
        try:
            return {number: name for name, number in connection.execute("SELECT name, pageno FROM dbstat")}
        except sqlite3.OperationalError:
            pytest.skip("this SQLite cannot tell whose a page is")


_HISTORY = ("project", "event", "line", "stretch", "ref", "operation")


def _rows(database: Path, table: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(f"SELECT * FROM {table}").fetchall()


@pytest.mark.parametrize("damage", ["zeros", "ones", "noise", "bits", "swap"])
def test_a_damaged_page_is_found_and_never_a_traceback(project, database, damage):
    """Each page in turn; what belongs to the history must be found, by verify or by every verb's refusal."""
    chance, owners = random.Random(damage), _owners(database)
    whole = database.read_bytes()
    size = 2048
    assert len(whole) // size > 60
    pages = sorted({1, *chance.sample(sorted(owners), 12)})
    kept = {table: _rows(database, table) for table in _HISTORY}
    missed = []
    for number in pages:
        spoilt = bytearray(whole)
        page = slice((number - 1) * size, number * size)
        spoilt[page] = _spoil(bytes(whole[page]), damage, chance, whole)
        if spoilt == whole:
            continue
        database.write_bytes(spoilt)
        with closing(Context(directory=project, agent="ada")) as context:
            try:
                sound = verify(context).ok and context.repository.integrity() == ["ok"]
            except BedeError as error:
                assert isinstance(error, (Corrupt, Unavailable, TooNew))
                sound = False
        # Bits that are flipped where no row stands change nothing.
        if sound and owners[number] in _HISTORY and _rows(database, owners[number]) != kept[owners[number]]:
            missed.append((number, owners[number]))
        assert _errors(_everything(project)) <= {Corrupt, Unavailable, TooNew}
        for path in database.parent.glob("bede.db-*"):
            path.unlink()
    assert not missed


def _spoil(page: bytes, damage: str, chance: random.Random, whole: bytes) -> bytes:
    if damage == "zeros":
        return bytes(len(page))
    if damage == "ones":
        return b"\xff" * len(page)
    if damage == "noise":
        return chance.randbytes(len(page))
    if damage == "swap":
        start = chance.randrange(len(whole) // len(page)) * len(page)
        return whole[start : start + len(page)]
    flipped = bytearray(page)
    for _ in range(8):
        flipped[chance.randrange(len(page))] ^= 1 << chance.randrange(8)
    return bytes(flipped)


@pytest.mark.parametrize(
    "body",
    [
        {"ends": 5},
        {"ends": {"supersedes": ["no id"]}},
        {"ends": {"supersedes": 7}},
        {"ends": {"supersedes": [None]}},
        {"tags": 3, "learnings": 4, "labels": {}},
        {"summary": ["x"], "task_id": {}, "key": [], "value": {"a": 1}},
        {"command": 7, "exit_status": "x", "output": []},
        {"summary": None, "handoff_note": 1, "rationale": 2},
        {"tags": [[]], "learnings": [None, {}], "labels": [1]},
    ],
    ids=lambda body: "+".join(body),
)
def test_a_body_of_a_shape_that_nobody_wrote(project, database, body):
    """The rows are whole and the JSON parses; only the hash knows better, and nothing may stumble over it."""
    with closing(sqlite3.connect(database)) as connection, connection:
        text = json.dumps(body).encode()
        connection.execute("UPDATE event SET body = ? WHERE seq > 1 AND seq % 3 = 0", (text,))
        connection.execute("UPDATE projection SET version = 0")
    found = _everything(project)
    assert _errors(found) <= {Corrupt}
    # Where nothing derived can be built, the history is still looked at.
    assert found["verify"].problems


def test_damage_to_what_is_derived_leaves_the_history_whole(project, database):
    """Whoever has the history can build the rest again; who asks meanwhile is told of the damage."""
    with closing(Context(directory=project, agent="ada")) as context:
        reindex(context)  # Nothing waits in the log.
        context.repository.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    owners = _owners(database)
    whole = bytearray(database.read_bytes())
    pages = [number for number, name in owners.items() if name in ("memory", "ending", "snapshot", "memory_key")]
    assert len(pages) >= 4
    for number in pages:
        whole[(number - 1) * 2048 + 8 : number * 2048] = bytes(2040)
    database.write_bytes(whole)
    with closing(Context(directory=project, agent="ada")) as context:
        assert verify(context).ok
        with pytest.raises(Corrupt):
            search(context, kind=["decision"])
        with pytest.raises(Corrupt):
            store(context, kind="decision", key="k3", value="new")
        assert verify(context).ok


def test_a_cached_state_that_was_spoilt_says_what_mends_it(project, database):
    with closing(sqlite3.connect(database)) as connection, connection:
        # As much as makes a state worth caching was not stored; so one is laid there.
        connection.execute("INSERT OR REPLACE INTO snapshot VALUES (1, 50, x'00ff')")
    with closing(Context(directory=project, agent="ada")) as context:
        with pytest.raises(Corrupt) as refused:
            status(context)
        assert "reindex" in refused.value.hint
        reindex(context)
        assert status(context).events == 81


# What lies beside the file.


@pytest.fixture
def beside(project: Path) -> Path:
    """A database whose newest events stand in its write-ahead log alone, since their writer was killed."""
    script = """
from bede.projections import PROJECTIONS
from bede.records import Draft
from bede.repository import Repository
import signal
repository = Repository.open(Path(".bede/bede.db"), PROJECTIONS)
repository.connection.execute("PRAGMA wal_autocheckpoint = 0")
for number in range(20):
    with repository.write("store", "ada", 1) as writing:
        tell(writing.append("main", [Draft("note", {"summary": f"note {number}"}, "ada", 1)])[0].id)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        command(Path("-c"), _PRELUDE + script), cwd=project, env=surroundings(), capture_output=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    database = project / ".bede" / "bede.db"
    assert database.with_name("bede.db-wal").stat().st_size > 20_000
    return database


def _count(project: Path) -> int:
    with closing(Context(directory=project, agent="ada")) as context:
        result = verify(context)
        assert result.ok, result.problems
        assert context.repository.integrity() == ["ok"]
        assert len(search(context, "note", top_k=100).results) == result.events - 1
        return result.events


@posix
def test_what_stands_in_the_log_alone_is_there(project, beside):
    assert _count(project) == 21


@posix
@pytest.mark.parametrize("junk", [b"", b"\0" * 32768, b"\xff" * 32768, b"junk" * 9000, b"short"])
def test_an_index_of_the_log_that_is_junk_does_no_harm(project, beside, junk):
    beside.with_name("bede.db-shm").write_bytes(junk)
    assert _count(project) == 21
    beside.with_name("bede.db-shm").unlink(missing_ok=True)
    assert _count(project) == 21


@posix
def test_without_the_log_the_memory_is_an_earlier_whole_and_an_anchor_tells(project, beside):
    with closing(Repository.open(beside, PROJECTIONS, read_only=True)) as repository, repository.snapshot() as reading:
        anchor = reading.head()
    assert anchor[0] == 21
    copy = project / "copy" / ".bede"
    copy.mkdir(parents=True)
    shutil.copy(beside, copy / "bede.db")
    with closing(Repository.open(copy / "bede.db", PROJECTIONS)) as repository:
        assert repository.verify().findings == ()
        assert repository.verify(anchor).findings
        _append(repository, "and on")
        assert repository.verify().findings == ()


@posix
@pytest.mark.parametrize("where", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("harm", ["cut", "noise"])
def test_a_log_that_is_harmed_ends_where_the_harm_is(project, beside, where, harm):
    log = beside.with_name("bede.db-wal")
    data = bytearray(log.read_bytes())
    spot = int(len(data) * where)
    if harm == "cut":
        del data[spot:]
    else:
        data[spot : spot + 64] = random.Random(spot).randbytes(64)
    log.write_bytes(data)
    with suppress(FileNotFoundError):
        beside.with_name("bede.db-shm").unlink()
    count = _count(project)
    assert 1 <= count < 21
    with closing(Context(directory=project, agent="ada")) as context:
        assert store(context, summary="one more note").id
    assert _count(project) == count + 1
