"""`bede bundle` and `bede init --from`: memory that travels, is taken in once, and moves nothing by itself."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bede.context import Context
from bede.errors import BadSource, Conflict, NotFound, RepositoryNotFound, Unavailable, UsageError
from bede.operations.branches import branches
from bede.operations.bundle import bundle
from bede.operations.fork import fork
from bede.operations.init import init
from bede.operations.merge import merge
from bede.operations.purge import purge
from bede.operations.recent import recent
from bede.operations.search import search
from bede.operations.show import show
from bede.operations.store import store
from bede.operations.undo import undo
from bede.records import Draft
from bede.signing import load_or_make


class Machine:
    """A machine with a home of its own."""

    def __init__(self, root: Path, name: str) -> None:
        self.name, self.home = name, root / name
        work = self.home / "work"
        work.mkdir(parents=True)
        environment = {"BEDE_CONFIG_DIR": str(self.home / "config"), "BEDE_DATA_DIR": str(self.home / "data")}
        self.context = Context(directory=work, agent=name, environment=environment)

    @property
    def key(self) -> str:
        return load_or_make(self.home / "config").id

    def send(self, *refs: str, **options) -> Path:
        path = self.home / "out.bundle"
        bundle(self.context, "export", list(refs), to=path, **options)
        return path

    def take(self, path: Path, **options):
        return bundle(self.context, "import", [str(path)], trust_any=True, **options)

    def finds(self, word: str) -> list[str]:
        return [item.id for item in search(self.context, word).results]

    def is_sound(self) -> bool:
        return self.context.repository.verify().findings == ()


@pytest.fixture
def ada(tmp_path: Path) -> Iterator[Machine]:
    """The machine where the project was made."""
    machine = Machine(tmp_path, "ada")
    init(machine.context)
    yield machine
    machine.context.close()


@pytest.fixture
def bob(tmp_path: Path, ada: Machine) -> Iterator[Machine]:
    """Another one, with a copy of it."""
    machine = Machine(tmp_path, "bob")
    init(machine.context, from_=ada.send(all_=True), trust=ada.key)
    yield machine
    machine.context.close()


def test_where_there_is_no_project_an_import_tells_how_a_bundle_makes_one(ada, tmp_path):
    carol, path = Machine(tmp_path, "carol"), ada.send(all_=True)
    with pytest.raises(RepositoryNotFound) as caught:
        carol.take(path)
    assert f"bede init --from {path}" in caught.value.hint


def test_a_copy_is_the_project_with_all_its_branches(ada, tmp_path):
    told = store(ada.context, summary="the parser handles nested brackets now").id
    fork(ada.context, "idea")
    copy = Machine(tmp_path, "copy")
    result = init(copy.context, from_=ada.send(all_=True), trust_any=True)
    assert (result.outcome, result.project_id) == ("created", init(ada.context).project_id)
    assert copy.finds("brackets") == [told]
    assert [item.name for item in branches(copy.context).branches] == ["idea", "main"]
    assert copy.is_sound()
    with pytest.raises(Conflict, match="already"):
        init(copy.context, from_=ada.send(all_=True), trust_any=True)
    copy.context.close()


def test_nothing_is_made_of_a_bundle_that_does_not_hold(ada, tmp_path):
    store(ada.context, summary="another thing that happened here")
    part = ada.send(range_="main~1..main")
    copy = Machine(tmp_path, "copy")
    with pytest.raises(Conflict, match="beginning"):
        init(copy.context, from_=part, trust_any=True)
    whole = ada.send(all_=True)
    data = whole.read_bytes()
    whole.write_bytes(data[:-100] + b"x" + data[-99:])
    with pytest.raises(BadSource):
        init(copy.context, from_=whole, trust_any=True)
    assert not (copy.context.directory / ".bede").exists()


def test_the_secret_travels_only_when_it_is_asked_for(ada, bob, tmp_path):
    def secret(machine: Machine) -> bytes:
        with machine.context.repository.snapshot() as view:
            return view.secret()

    assert secret(bob) != secret(ada)
    path = ada.home / "secret.bundle"
    result = bundle(ada.context, "export", all_=True, to=path, with_secret=True)
    assert "secret" in result.warnings[0]
    assert secret(ada).hex().encode() in path.read_bytes()
    assert secret(ada).hex().encode() not in ada.send(all_=True).read_bytes()
    copy = Machine(tmp_path, "copy")
    init(copy.context, from_=path, trust_any=True)
    assert secret(copy) == secret(ada)
    assert copy.is_sound()
    assert bob.is_sound()
    copy.context.close()


def test_what_comes_in_is_seen_by_its_owners_name_and_moves_nothing(ada, bob):
    told = store(ada.context, summary="the cache is warmed at the start").id
    before = branches(bob.context)
    result = bob.take(ada.send(), as_="ada")
    assert (result.outcome, result.new, result.merged) == ("imported", 1, ())
    assert [(item.ref, item.head, item.outcome) for item in result.tracked] == [("bundles/ada/main", told, "created")]
    assert branches(bob.context) == before
    assert bob.finds("cache") == []
    assert merge(bob.context, "bundles/ada/main").outcome == "fast-forward"
    assert bob.finds("cache") == [told]
    assert bob.take(ada.send(), as_="ada").outcome == "unchanged"


def test_both_ways_ends_in_one_history(ada, bob):
    mine = store(ada.context, kind="decision", key="db", value="sqlite").id
    theirs = store(bob.context, kind="decision", key="os", value="linux").id
    one, other = ada.send(), bob.send()
    heads = {ada.take(other, merge=True).merged[0].head, bob.take(one, merge=True).merged[0].head}
    assert len(heads) == 1
    for machine in (ada, bob):
        assert {*machine.finds("sqlite"), *machine.finds("linux")} == {mine, theirs}
        assert machine.is_sound()
    assert show(ada.context, heads.pop()).agent_id == "bede"


def test_a_dry_run_tells_what_would_happen_and_does_nothing(ada, bob):
    store(ada.context, kind="decision", key="db", value="sqlite")
    store(bob.context, kind="decision", key="os", value="linux")
    path = ada.send()
    with bob.context.repository.snapshot() as view:
        before = view.head()
    planned = bob.take(path, merge=True, dry_run=True)
    with bob.context.repository.snapshot() as view:
        assert view.head() == before
    done = bob.take(path, merge=True)
    assert (planned.new, planned.merged, planned.dry_run) == (done.new, done.merged, True)


def test_what_both_decided_is_for_a_person_to_settle(ada, bob):
    store(ada.context, kind="decision", key="db", value="sqlite")
    store(bob.context, kind="decision", key="db", value="postgres")
    path = ada.send()
    with bob.context.repository.snapshot() as view:
        before = (view.head(), view.counts())
    with pytest.raises(Conflict) as caught:
        bob.take(path, merge=True, as_="ada")
    assert (caught.value.reason, caught.value.details["conflicts"][0]["key"]) == ("merge_conflict", "db")
    assert "bede merge bundles/ada/main" in caught.value.hint
    with bob.context.repository.snapshot() as view:
        assert (view.head(), view.counts()) == before
    bob.take(path, as_="ada")
    merge(bob.context, "bundles/ada/main", theirs=True)
    assert ada.take(bob.send(), merge=True).merged[0].outcome == "fast-forward"
    assert [item.value for item in search(ada.context, "db").results] == ["sqlite"]


def test_what_was_purged_there_comes_without_its_words(ada, bob):
    told = store(ada.context, kind="decision", key="db", value="sqlite").id
    later = store(ada.context, kind="decision", key="db", value="postgres").id
    purge(ada.context, [later], yes=True)
    result = bob.take(ada.send(), merge=True)
    assert (result.new, result.purged) == (2, 1)
    assert show(bob.context, later).purged
    assert show(bob.context, told).status == "superseded"
    assert bob.is_sound()
    bob.context.repository.reindex()
    assert show(bob.context, told).status == "superseded"


def test_what_was_purged_here_never_comes_back_nor_is_ours_purged_by_theirs(ada, bob):
    told = store(ada.context, summary="the password policy of the intranet").id
    full = ada.send(all_=True)
    kept = full.rename(full.with_name("kept.bundle"))
    bob.take(kept, merge=True)
    purge(bob.context, [told], yes=True, include_others=True)
    assert bob.take(kept, merge=True).outcome == "unchanged"
    assert show(bob.context, told).purged
    ada.take(bob.send(), merge=True)
    assert not show(ada.context, told).purged
    assert ada.is_sound()
    assert bob.is_sound()


def test_sessions_are_seen_at_once_by_every_branch(ada, bob):
    body = {"session": "s1", "key": "t1", "by": "user", "at": 5, "parts": [{"text": "why does the login fail"}]}
    with ada.context.repository.write("ingest", "codex", 5) as writing:
        writing.append("sessions/codex/s1", [Draft("turn", body, "codex", 5, "one record")])
    bob.take(ada.send(all_=True))
    assert "why does the login fail" in str(recent(bob.context).to_json())


def test_one_record_read_on_two_machines_is_two_events_of_one_turn(ada, bob):
    body = {"session": "s1", "key": "t1", "by": "user", "at": 5, "parts": [{"text": "why does the login fail"}]}
    for machine in (ada, bob):
        with machine.context.repository.write("ingest", "codex", 5) as writing:
            writing.append("sessions/codex/s1", [Draft("turn", body, "codex", 5, "one record")])
    assert bob.take(ada.send(all_=True), merge=True).new == 1
    assert ada.take(bob.send(all_=True), merge=True).new == 2
    for machine in (ada, bob):
        assert str(recent(machine.context).to_json()).count("why does the login fail") == 1
        assert machine.is_sound()


def test_an_import_can_be_undone(ada, bob):
    told = store(ada.context, summary="the cache is warmed at the start").id
    bob.take(ada.send(), merge=True)
    assert bob.finds("cache") == [told]
    undo(bob.context)
    assert bob.finds("cache") == []
    assert bob.is_sound()


def test_what_is_exported_is_what_was_asked_for(ada):
    first = store(ada.context, summary="what both branches can see of it").id
    fork(ada.context, "idea")
    told = store(ada.context, summary="what only the main branch can see").id
    path = ada.home / "x.bundle"
    assert [item.head for item in bundle(ada.context, "export", ["idea"], to=path).refs] == [first]
    result = bundle(ada.context, "export", range_="idea..", to=path)
    assert (result.holds, result.events, result.prerequisites) == ("range", 1, (first,))
    assert [(item.ref, item.head) for item in result.refs] == [("main", told)]
    with pytest.raises(NotFound):
        bundle(ada.context, "export", ["nowhere"], to=path)
    ada.take(path)
    with pytest.raises(UsageError, match="another machine's"):
        bundle(ada.context, "export", [f"bundles/{ada.key[8:20]}/main"], to=path)


def test_a_file_that_is_no_bundle_is_not_written_over(ada):
    path = ada.home / "notes.txt"
    path.write_text("mine")
    with pytest.raises(Conflict, match="no bundle"):
        bundle(ada.context, "export", to=path)
    assert path.read_text() == "mine"
    assert [item.name for item in ada.home.iterdir() if item.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("action", "names", "options"),
    [
        ("export", [], {}), ("export", [], {"to": Path("x"), "merge": True}), ("import", [], {}),
        ("export", ["main"], {"to": Path("x"), "all_": True}), ("export", [], {"to": Path("x"), "range_": "main"}),
        ("import", ["a", "b"], {}), ("import", ["a"], {"all_": True}), ("key", ["a"], {}), ("key", [], {"merge": True}),
        ("import", ["a"], {"with_secret": True}), ("key", [], {"trust": "x"}),
    ],
)  # fmt: skip
def test_what_makes_no_sense_together_is_said_to_be_so(ada, action, names, options):
    with pytest.raises(UsageError):
        bundle(ada.context, action, names, **options)


def test_two_machines_cannot_have_one_name(ada, bob):
    store(ada.context, summary="the cache is warmed at the start")
    bundle(bob.context, "import", [str(ada.send())], trust=ada.key, as_="ada")
    with pytest.raises(UsageError, match="called 'ada' already"):
        bob.take(bob.send(), as_="ada")
    with pytest.raises(UsageError, match="not a name"):
        bob.take(bob.send(), as_="../x")


def test_the_command_line_carries_a_project_to_another_folder(bede, project, tmp_path):
    assert bede("store", "the parser handles nested brackets now", cwd=project).status == 0
    key = bede("bundle", "key").json()["key"]
    assert bede("bundle", "export", "--all", "--to", tmp_path / "p.bundle", cwd=project).json()["outcome"] == "exported"
    other = tmp_path / "other"
    other.mkdir()
    env = {"BEDE_CONFIG_DIR": str(tmp_path / "config")}
    refused = bede("init", "--from", tmp_path / "p.bundle", cwd=other, env=env)
    assert (refused.status, refused.error()["reason"]) == (3, "untrusted_key")
    assert bede("init", "--from", tmp_path / "p.bundle", "--trust", key, cwd=other, env=env).status == 0
    taken = bede("bundle", "import", tmp_path / "p.bundle", cwd=other, env=env).json()
    assert [item["outcome"] for item in taken["tracked"]] == ["created"]
    page = bede("--pretty", "bundle", "import", tmp_path / "p.bundle", cwd=other, env=env)
    assert page.status == 0
    assert "nothing new" in page.out


@pytest.mark.skipif(os.name == "nt", reason="there are no pipes in the file system")
def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(ada, tmp_path):
    """Opened as any file, a pipe waits for ever for somebody at its other end."""
    file, pipe = ada.send(all_=True), tmp_path / "pipe"
    os.mkfifo(pipe)
    for place in (pipe, tmp_path, Path("/")):
        with pytest.raises(Unavailable) as caught:
            bundle(ada.context, "export", to=place)
        assert "--to" in caught.value.hint
    listed = ada.home / "config" / "identity" / "trusted"
    os.mkfifo(listed)
    with pytest.raises(Unavailable, match="no regular file"):
        bundle(ada.context, "import", [str(file)])
    listed.unlink()
    listed.write_bytes(b"# much\n" * 200_000)
    with pytest.raises(Unavailable, match="more than"):
        bundle(ada.context, "import", [str(file)])


@pytest.mark.skipif(os.name == "nt", reason="modes are not looked at there")
def test_a_list_of_trusted_keys_that_others_may_write_is_not_believed(ada, bob):
    file, listed = ada.send(all_=True), bob.home / "config" / "identity" / "trusted"
    assert bundle(bob.context, "import", [str(file)]).peer
    listed.chmod(0o622)
    with pytest.raises(Unavailable, match="others may change") as caught:
        bundle(bob.context, "import", [str(file)])
    assert "chmod" in caught.value.hint


def test_where_a_key_cannot_be_remembered_nothing_is_taken_in(ada, bob, tmp_path):
    store(ada.context, summary="the parser handles nested brackets now")
    file = ada.send(all_=True)
    for machine in (bob, Machine(tmp_path, "new")):
        identity = machine.home / "config" / "identity"
        shutil.rmtree(identity, ignore_errors=True)
        identity.parent.mkdir(exist_ok=True)
        identity.write_text("no folder")
    with pytest.raises(Unavailable):
        init(machine.context, from_=file, trust=ada.key)
    assert list((machine.home / "work").iterdir()) == []
    with pytest.raises(Unavailable):
        bundle(bob.context, "import", [str(file)], trust=ada.key)
    assert bob.finds("brackets") == []
