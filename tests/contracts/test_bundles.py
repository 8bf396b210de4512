"""What a bundle promises: whatever was changed in it is found, each fault by its own name, and nothing is written."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from conftest import surroundings
from laws.histories import canonical_rows

from bede.bundles import form, reading
from bede.context import Context
from bede.errors import BadSource, BedeError, Conflict, NotFound, Rejected, TooNew, Unavailable
from bede.identity import canonical, event_id
from bede.operations.bundle import bundle
from bede.operations.init import init
from bede.operations.store import store
from bede.records import Draft
from bede.signing import Key, is_signed, load_or_make, place

Lines = list[dict[str, Any]]


class Team:
    """Two machines with one project: `ada` made it, `bob` has a copy and trusts her key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ada, self.bob = self.machine("ada"), self.machine("bob")
        self.file = folder / "ada.bundle"

    def begin(self) -> None:
        """Make the project, the copy, and the bundle with what has happened since."""
        init(self.ada)
        for number in range(3):
            store(self.ada, kind="decision", key=f"k{number}", value=str(number))
        first = self.folder / "first.bundle"
        bundle(self.ada, "export", all_=True, to=first)
        init(self.bob, from_=first, trust=self.key("ada").id)
        store(self.ada, summary="what only the first machine knows of", agent_id="ada")
        with self.ada.repository.write("ingest", "codex", self.ada.now()) as writing:
            body = {"session": "s", "key": "t1", "by": "user", "parts": [{"text": "hello there"}]}
            writing.append("sessions/codex/s", [Draft("turn", body, "codex", self.ada.now(), "source-1")])
        bundle(self.ada, "export", all_=True, to=self.file)

    def machine(self, name: str) -> Context:
        root = self.folder / name
        root.mkdir(exist_ok=True)
        return Context(directory=root, agent=name, environment=self.environment(name))

    def environment(self, name: str) -> dict[str, str]:
        return {"BEDE_CONFIG_DIR": str(self.folder / f"{name}.config"), "BEDE_DATA_DIR": str(self.folder / "data")}

    def key(self, name: str) -> Key:
        return load_or_make(self.folder / f"{name}.config")

    def refused(self, kind: type[BedeError], reason: str = "", path: Path | None = None, **options: Any) -> BedeError:
        """Let bob import a file, and make sure that it is refused for this reason and nothing is written."""
        before, size = canonical_rows(self.bob.repository), self.bob.project.database.stat().st_size
        with pytest.raises(kind) as caught:
            bundle(self.bob, "import", [str(path or self.file)], **options)
        assert caught.value.reason == reason
        assert canonical_rows(self.bob.repository) == before
        assert self.bob.project.database.stat().st_size == size
        assert self.bob.repository.verify().findings == ()
        return caught.value

    def forge(self, change: Callable[[Lines, dict[str, Any]], object], *, key: Key | None = None) -> None:
        """Write the file anew as its owner could: events and header changed, and everything signed."""
        header, lines = parts(self.file)
        change(lines, header)
        plain = b"".join(canonical(line) + b"\n" for line in lines)
        packed = zstandard.ZstdCompressor().compress(plain)
        sums = {"plain": len(plain), "packed": len(packed), "sha256": sha256(packed), "events": len(lines)}
        self.write({**header, **{name: sums[name] for name in sums if header[name] == self.said[name]}}, packed, key)

    @property
    def said(self) -> dict[str, Any]:
        return parts(self.file)[0]

    def write(self, header: dict[str, Any], packed: bytes, key: Key | None = None) -> None:
        head = form.FIRST + canonical(header) + b"\n"
        self.file.write_bytes(head + packed + (key or self.key("ada")).sign(head))


def sha256(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


def parts(path: Path) -> tuple[dict[str, Any], Lines]:
    """Return header and events, read with nothing of ours."""
    _, head, rest = path.read_bytes().split(b"\n", 2)
    header = json.loads(head)
    plain = zstandard.ZstdDecompressor().decompressobj().decompress(rest[: header["packed"]])
    return header, [json.loads(line) for line in plain.splitlines()]


def renamed(line: dict[str, Any]) -> dict[str, Any]:
    """Give an event the id that its fields have now."""
    form_ = canonical(line["body"])
    payload = bytes.fromhex(sha256(bytes.fromhex(line["salt"]) + form_))
    fields = (line["kind"], line["parents"], line["actor"], line["source"], line["happened_at"])
    line["id"] = event_id(*fields, payload).hex()
    return line


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two machines, to be copied: to make it takes longer than most tests."""
    team = Team(tmp_path_factory.mktemp("begun"))
    team.begin()
    team.ada.close()
    team.bob.close()
    return team.folder


@pytest.fixture
def team(tmp_path: Path, begun: Path) -> Iterator[Team]:
    team = Team(Path(shutil.copytree(begun, tmp_path / "machines")))
    yield team
    team.ada.close()
    team.bob.close()


# The form.


def test_a_bundle_can_be_read_by_what_the_document_says(team):
    header, lines = parts(team.file)
    head, size = b"\n".join(team.file.read_bytes().split(b"\n", 2)[:2]) + b"\n", team.file.stat().st_size
    assert is_signed(header["key"], team.file.read_bytes()[-64:], head)
    assert size == len(head) + header["packed"] + 64
    assert header["events"] == len(lines) == 6
    assert all(dict(line) == renamed(dict(line)) for line in lines)
    assert header["refs"] == {"main": lines[4]["id"], "sessions/codex/s": lines[5]["id"]}
    assert header["prerequisites"] == [] and "secret" not in header
    assert os.name == "nt" or team.file.stat().st_mode & 0o777 == 0o600


def test_what_is_not_there_is_told_as_needed(team):
    bundle(team.ada, "export", range_="main~1..main", to=team.file)
    header, lines = parts(team.file)
    assert (header["events"], header["prerequisites"]) == (1, lines[0]["parents"])
    assert bundle(team.bob, "import", [str(team.file)], merge=True).new == 1


# Files that are none, or not whole.


@pytest.mark.parametrize(
    "data", [b"", b"bede", b"\0" * 100, b"bede bundle 01\n{}\n", b"bede bundle x\n", b"SQLite format 3\0"]
)
def test_what_is_no_bundle_is_refused(team, data):
    team.file.write_bytes(data)
    team.refused(BadSource, "not_a_bundle")


def test_a_folder_a_pipe_and_nothing_are_no_bundles(team, tmp_path):
    team.refused(BadSource, "not_a_bundle" if os.name == "posix" else "unreadable", path=tmp_path)
    team.refused(BadSource, "unreadable", path=tmp_path / "a\0b")
    team.refused(BadSource, "unreadable", path=tmp_path / "nowhere")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        team.refused(BadSource, "not_a_bundle", path=tmp_path / "pipe")


def test_a_newer_version_is_told_as_such(team):
    data = team.file.read_bytes()
    team.file.write_bytes(data.replace(b"bede bundle 1\n", b"bede bundle 2\n", 1))
    team.refused(TooNew)


def test_cut_anywhere_it_is_refused(team):
    data = team.file.read_bytes()
    for size in {*range(0, len(data), 37), len(data) - 1}:
        team.file.write_bytes(data[:size])
        team.refused(BadSource, "not_a_bundle" if size < 14 else "truncated")
    team.file.write_bytes(data + b"\n")
    team.refused(BadSource, "truncated")


def test_any_byte_that_was_changed_is_found(team):
    data = team.file.read_bytes()
    reasons = set()
    for spot in range(0, len(data), 11):
        team.file.write_bytes(data[:spot] + bytes([data[spot] ^ 1]) + data[spot + 1 :])
        with pytest.raises(BedeError) as caught:
            bundle(team.bob, "import", [str(team.file)])
        assert isinstance(caught.value, (BadSource, TooNew, Rejected)), caught.value
        reasons.add(caught.value.reason)
    assert {"not_a_bundle", "bad_signature"} <= reasons
    assert reasons & {"bad_hash", "bad_packing", "bad_event", "bad_id"}
    team.file.write_bytes(data)
    assert bundle(team.bob, "import", [str(team.file)]).new == 2


# Whose it is.


def test_a_key_that_is_not_trusted_is_refused_until_it_is(team):
    eve = load_or_make(team.folder / "eve")
    team.forge(lambda lines, header: header.update(key=eve.id), key=eve)
    team.refused(Rejected, "untrusted_key")
    team.refused(Rejected, "other_key", trust=team.key("ada").id)
    assert bundle(team.bob, "import", [str(team.file)], trust_any=True).new == 2
    team.refused(Rejected, "untrusted_key")
    assert bundle(team.bob, "import", [str(team.file)], trust=eve.id, as_="eve").peer == "eve"
    assert bundle(team.bob, "import", [str(team.file)]).peer == "eve"


def test_a_signature_by_another_key_is_no_signature(team):
    team.forge(lambda lines, header: None, key=load_or_make(team.folder / "eve"))
    team.refused(BadSource, "bad_signature")


def test_another_project_is_refused(team):
    team.forge(lambda lines, header: header.update(project="00000000-0000-4000-8000-000000000000"))
    assert "init --from" in team.refused(Conflict, "other_project").hint


def test_a_key_that_others_may_read_is_not_used(team):
    if os.name == "nt":
        pytest.skip("file modes say nothing here")
    assert place(team.folder / "ada.config").stat().st_mode & 0o777 == 0o600
    place(team.folder / "ada.config").chmod(0o640)
    with pytest.raises(Unavailable, match="others"):
        bundle(team.ada, "export", to=team.file)


# A trusted owner who lies.

HEADERS: list[tuple[dict[str, Any], str]] = [
    ({"events": 10**30}, "bad_header"), ({"events": 10**12}, "bad_count"), ({"events": 5}, "bad_count"),
    ({"events": True}, "bad_header"), ({"events": "6"}, "bad_header"), ({"plain": 10**15}, "bomb"),
    ({"plain": 1500}, "bomb"), ({"sha256": "0" * 64}, "bad_hash"), ({"sha256": "x"}, "bad_header"),
    ({"packed": -1}, "bad_header"), ({"packed": 1}, "truncated"), ({"made_at": 2**62}, "bad_header"),
    ({"key": "rsa:1"}, "bad_header"), ({"project": "../../etc"}, "bad_header"), ({"holds": "some"}, "bad_header"),
    ({"refs": {"../x": "0" * 64}}, "bad_header"), ({"refs": {"a b": "0" * 64}}, "bad_header"),
    ({"refs": {"bundles/x/main": "0" * 64}}, "bad_header"), ({"refs": {"sessions/../../x": "0" * 64}}, "bad_header"),
    ({"refs": {"sessions/a": "0" * 64}}, "bad_header"), ({"refs": {"head": "0" * 64}}, "bad_header"),
    ({"refs": {"a\n": "0" * 64}}, "bad_header"), ({"refs": {"x": "0"}}, "bad_header"), ({"refs": []}, "bad_header"),
    ({"refs": {"x": "0" * 64}}, "bad_order"), ({"more": 1}, "bad_header"), ({"secret": "ab"}, "bad_header"),
    ({"prerequisites": ["0" * 64, "0" * 64]}, "bad_header"), ({"prerequisites": "0" * 64}, "bad_header"),
]  # fmt: skip


@pytest.mark.parametrize(("said", "reason"), HEADERS, ids=[str(said)[:40] for said, _ in HEADERS])
def test_a_header_that_lies_is_refused(team, said, reason):
    team.forge(lambda lines, header: header.update(said))
    team.refused(BadSource, reason)


def test_a_header_without_a_field_is_refused(team):
    for name in team.said:
        _, packed = team.file.read_bytes(), zstandard.ZstdCompressor().compress(b"")
        team.write({key: value for key, value in team.said.items() if key != name}, packed)
        team.refused(BadSource, "bad_header")
        bundle(team.ada, "export", all_=True, to=team.file)


FIELDS: list[tuple[str, Any]] = [
    ("kind", "Note"), ("kind", ""), ("kind", 1), ("kind", "a\nb"), ("actor", "a b"), ("actor", ""), ("actor", None),
    ("actor", "../x"), ("source", "a\nb"), ("source", 1), ("source", "x" * 5000), ("happened_at", True),
    ("happened_at", 1.5), ("happened_at", 2**62), ("happened_at", "1"), ("salt", "00"), ("salt", "0" * 33),
    ("salt", None), ("parents", "0" * 64), ("parents", ["x"]), ("parents", ["0" * 64] * 2), ("parents", None),
    ("body", []), ("body", "x"), ("body", None), ("id", "x"), ("id", "A" * 64), ("more", 1),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), FIELDS, ids=[f"{name}={value!r}"[:30] for name, value in FIELDS])
def test_a_malformed_field_is_refused(team, name, value):
    team.forge(lambda lines, header: lines[4].update({name: value}))
    team.refused(BadSource, "bad_event")


CHANGES: list[tuple[str, Any]] = [
    ("kind", "fact"), ("actor", "eve"), ("source", "other"), ("happened_at", 5), ("salt", "0" * 32),
    ("body", {"summary": "something else was said there"}), ("parents", []), ("id", "0" * 64),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), CHANGES, ids=[name for name, _ in CHANGES])
def test_a_changed_field_is_no_longer_what_the_id_says(team, name, value):
    team.forge(lambda lines, header: lines[4].update({name: value}))
    team.refused(BadSource, "bad_id")


def test_another_order_a_copy_and_a_gap_are_refused(team):
    team.forge(lambda lines, header: lines.insert(2, lines.pop(3)))
    team.refused(BadSource, "bad_order")
    bundle(team.ada, "export", all_=True, to=team.file)
    team.forge(lambda lines, header: lines.insert(2, lines[1]))
    team.refused(BadSource, "duplicate")
    bundle(team.ada, "export", all_=True, to=team.file)
    team.forge(lambda lines, header: lines.pop(2))
    team.refused(BadSource, "bad_order")


def test_what_goes_on_from_nowhere_is_refused(team):
    store(team.ada, summary="another one that only ada has seen")
    bundle(team.ada, "export", range_="main~1..main", to=team.file)
    assert team.refused(NotFound, "missing_events").details["missing"] == parts(team.file)[0]["prerequisites"]


def test_another_beginning_of_the_project_is_refused(team):
    def begin_anew(lines: Lines, header: dict[str, Any]) -> None:
        twin = renamed({**lines[0], "body": {**lines[0]["body"], "created_at": 7}})
        lines.append(twin)

    team.forge(begin_anew)
    team.refused(BadSource, "bad_root")


BODIES: list[tuple[str, dict[str, Any]]] = [
    ("note", {"summary": 1}), ("note", {"learnings": "x"}), ("note", {"tags": [1]}), ("run", {"command": [{}]}),
    ("run", {"exit_status": "0"}), ("decision", {"key": {}}), ("note", {"ends": []}),
    ("note", {"ends": {"supersedes": ["x"]}}), ("note", {"ends": {"kills": []}}), ("merge", {"ends": 1}),
    ("turn", {"session": "s"}), ("turn", {"session": "s", "key": "k", "by": "user", "parts": [1]}),
    ("turn", {"session": "s", "key": "k", "by": "user", "parts": [{"call": "x"}]}),
    ("turn", {"session": "s", "key": "k", "by": "user", "parts": [{"text": 1}]}),
    ("turn", {"session": "s", "key": "k", "by": "user", "parts": [{"edits": [{"path": 1}]}]}),
    ("turn", {"session": "s", "key": "k", "by": "user", "parts": [], "at": 2**63}),
    ("session", {"session": 1}), ("session", {}), ("rewind", {"session": "s", "keys": "x"}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "body"), BODIES, ids=[f"{kind} {body}"[:40] for kind, body in BODIES])
def test_a_body_that_nobody_writes_is_refused(team, kind, body):
    team.forge(lambda lines, header: lines.append(renamed({**lines[-1], "kind": kind, "body": body})))
    team.refused(BadSource, "bad_body")


def test_an_event_ends_only_what_comes_before_it(team):
    body = {"summary": "x", "ends": {"supersedes": ["0" * 64]}}
    team.forge(lambda lines, header: lines.append(renamed({**lines[-2], "body": body})))
    team.refused(BadSource, "bad_ends")


def test_a_purged_event_says_nothing_but_what_a_purge_leaves(team):
    def purge(lines: Lines, header: dict[str, Any]) -> None:
        line = lines[4]
        payload = sha256(bytes.fromhex(line.pop("salt")) + canonical(line.pop("body")))
        line.update(digest=payload, left={"summary": "slipped in beside the hash"})

    team.forge(purge)
    team.refused(BadSource, "bad_body")


def test_a_bomb_is_not_unpacked(team):
    header = team.said
    packed = zstandard.ZstdCompressor(level=19).compress(b"\0" * 300_000_000)
    sums = {"packed": len(packed), "sha256": sha256(packed)}
    team.write({**header, **sums, "plain": 300_000_000, "events": 1}, packed)
    team.refused(BadSource, "bomb")
    team.write({**header, **sums, "plain": 10_000_000, "events": 1}, packed)
    team.refused(BadSource, "bomb")


def test_no_more_memory_is_used_than_our_own_files_need(team):
    parameters = zstandard.ZstdCompressionParameters.from_level(19, window_log=27)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = stream.compress(b"x" * 1000) + stream.flush()
    team.write({**team.said, "packed": len(packed), "sha256": sha256(packed), "plain": 1000, "events": 1}, packed)
    team.refused(BadSource, "bad_packing")


def test_deep_nesting_and_odd_json_are_refused(team):
    header = team.said
    for line in (b"[" * 100_000, b'{"a":' * 5000, b"[]", b"nope", b'{"actor":NaN}', b"\xff"):
        packed = zstandard.ZstdCompressor().compress(line + b"\n")
        sums = {"packed": len(packed), "sha256": sha256(packed), "plain": len(line) + 1, "events": 0}
        team.write({**header, **sums, "refs": {}}, packed)
        team.refused(BadSource, "bad_event")


def test_a_file_that_changes_while_it_is_read_is_not_taken_in(team):
    with team.ada.repository.write("store", "ada", team.ada.now()) as writing:
        for _ in range(20):
            writing.append("main", [Draft("note", {"summary": os.urandom(4000).hex()}, "ada", 1)])
    bundle(team.ada, "export", all_=True, to=team.file)
    with reading.opened(team.file) as found:
        assert len(list(found.events())) == 26
        data = team.file.read_bytes()
        for spot in range(len(data) // 4, len(data) * 3 // 4, len(data) // 40):
            with team.file.open("r+b") as file:
                file.write(data)
                file.seek(spot)
                file.write(bytes([data[spot] ^ 255]))
            with pytest.raises(BadSource):
                list(found.events(again=True))


@pytest.mark.parametrize("line", [b"", b"[]", b'{"id":', b'{"body":{"a":"\xff"}}', b'{"body":"\\ud800"}', b"[" * 10**5])
def test_a_line_that_changed_since_it_was_checked_is_no_event(line):
    with pytest.raises(BadSource):
        form.again(line, 1)


# Other processes.


def test_an_export_beside_a_writer_is_one_moment(team):
    other = Context(directory=team.ada.directory, agent="eve", environment=team.environment("ada"))
    ended = threading.Event()

    def write() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            with other.repository.write("store", "eve", other.now()) as writing:
                writing.append("main", [Draft("note", {"summary": f"beside {number}"}, "eve", other.now())])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(5):
            bundle(team.ada, "export", all_=True, to=team.file)
            result = bundle(team.bob, "import", [str(team.file)], merge=True)
            assert {item.outcome for item in result.merged} <= {"fast-forward", "created", "unchanged"}
    finally:
        ended.set()
        writer.join()
        other.close()
    assert team.bob.repository.verify().findings == ()


def test_killed_at_any_moment_it_is_all_or_nothing(team):
    if not hasattr(signal, "SIGKILL"):
        pytest.skip("no such signal here")
    with team.ada.repository.write("store", "ada", team.ada.now()) as writing:
        writing.append("main", [Draft("note", {"summary": f"number {n}"}, "ada", n) for n in range(3000)])
    bundle(team.ada, "export", all_=True, to=team.file)
    with team.bob.repository.snapshot() as view:
        before = view.counts()["events"]
    command = [sys.executable, "-P", "-m", "bede_cli", "bundle", "import", str(team.file), "--merge"]
    environment = surroundings({**team.environment("bob"), "BEDE_AGENT_ID": "bob"})
    journal = team.bob.project.database.with_name("bede.db-wal")
    seen = set()
    for wanted in (1, 200_000, 600_000):
        size = journal.stat().st_size if journal.exists() else 0
        child = subprocess.Popen(command, cwd=team.bob.directory, env=environment, stdout=subprocess.DEVNULL)
        while child.poll() is None and (journal.stat().st_size if journal.exists() else 0) < size + wanted:
            time.sleep(0.001)
        child.kill()
        child.wait()
        with team.bob.repository.snapshot() as view:
            count = view.counts()["events"]
        assert count in (before, before + 3002)
        assert team.bob.repository.verify().findings == ()
        seen.add(count)
    bundle(team.bob, "import", [str(team.file)], merge=True)
    with team.bob.repository.snapshot() as view:
        assert view.counts()["events"] == before + 3002
