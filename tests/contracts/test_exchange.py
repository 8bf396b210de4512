"""The signed exchange: what a crafted document, file or clock can try, and what is told of each."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from contracts.machines import AT, DAY, HOUR, MINUTE, Machine, changed, pair

from bede import signing
from bede.errors import BadSource, Conflict, Unavailable, UsageError
from bede.exchange import envelope, folder
from bede.exchange.envelope import Sender
from bede.identity import timestamp

#: Signed by memkernel-mcp 0.3.0, as it lay in the folder, and the key it was signed with.
SIGNED = (
    '{"notices":[{"author":"alice","cleared_at":"2026-11-30T18:24:37.173199Z","created_at":"2026-11-30T18:24:32.46881'
    '0Z","expires_at":"2026-11-30T19:24:32.468810Z","message":"signed from memkernel ✓","notice_id":"laptop-m:1158f79'
    'f-c12b-4044-bf5c-b049d7e690be","resource":"service:auth"}],"peer_id":"laptop-m","schema":"memkernel.signed-notic'
    'es/v1","sent_at":"2026-11-30T18:24:39.733654+00:00","sequence":4,"signature":"51a8326277ace397cafe6925431ed65712d'
    'c07df88d89d729fb8518b53caaf6cbefc8e29b0bea779a5cc799715edb7fee3efdb3faf9849c83c724d6975a2c70d","workspace_id":"sh'
    'op"}'
)
SIGNER = "872c00bbb7fd7ed1f7ef5c8396f4e7632a2c899a8956b8aa59e6c6486ef4b07e"


@pytest.fixture
def machines(tmp_path: Path) -> tuple[Machine, Machine]:
    """Two machines that trust each other; nothing was exchanged yet."""
    return pair(tmp_path)


def unsigned(*notices: dict[str, Any]) -> str:
    """Return a document by hand, as anybody can write it."""
    return json.dumps({"schema": "memkernel.notices/v1", "notices": notices})


def refused(machine: Machine, peer: str) -> str:
    """Run a round there, and return why this peer's document was refused; '' where it was not."""
    before, notices = machine.count()[0], machine.notices()
    answer = machine.exchange("run")
    found = {item["peer"]: item["reason"] for item in answer["refusals"]}
    if peer in found:
        told = next(step for step in machine.exchange("audit")["steps"] if step["peer"] == peer)
        assert (told["peer"], told["outcome"], told["reason"]) == (peer, "refused", found[peer])
        if not answer["changed"]:
            assert machine.notices() == notices
            assert machine.count()[0] - before <= 1 + answer["published"]
    return str(found.get(peer, ""))


def test_what_the_other_package_signed_is_opened() -> None:
    sender = Sender("laptop-m", f"ed25519:{SIGNER}", frozenset({"alice"}))
    opened = envelope.open_(SIGNED.encode(), "shop", sender)
    assert (opened.sequence, len(opened.notices), opened.notices[0].message) == (4, 1, "signed from memkernel ✓")
    envelope.admit(opened, sender, opened.sent_at)
    with pytest.raises(BadSource) as caught:
        envelope.open_(SIGNED.replace("from memkernel", "from elsewhere").encode(), "shop", sender)
    assert caught.value.reason == "wrong_signature"


def test_every_byte_of_a_document_is_under_its_signature() -> None:
    sender, data = Sender("laptop-m", f"ed25519:{SIGNER}", frozenset({"alice"})), SIGNED.encode()
    for at in range(0, len(data), 7):
        with pytest.raises(BadSource):
            envelope.open_(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], "shop", sender)


#: How a field is changed on the way, without the key, and what is said of it.
ON_THE_WAY: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "schema": (lambda said: said.update(schema="memkernel.signed-notices/v2"), "wrong_schema"),
    "unsigned document": (lambda said: said.update(schema="memkernel.notices/v1"), "unsigned"),
    "no signature": (lambda said: said.pop("signature"), "unsigned"),
    "workspace": (lambda said: said.update(workspace_id="bank"), "wrong_workspace"),
    "no workspace": (lambda said: said.pop("workspace_id"), "wrong_workspace"),
    "peer": (lambda said: said.update(peer_id="laptop-b"), "wrong_peer"),
    "sequence": (lambda said: said.update(sequence=said["sequence"] + 1), "wrong_signature"),
    "sequence true": (lambda said: said.update(sequence=True), "invalid_sequence"),
    "sequence 0": (lambda said: said.update(sequence=0), "invalid_sequence"),
    "sequence huge": (lambda said: said.update(sequence=2**63), "invalid_sequence"),
    "sequence float": (lambda said: said.update(sequence=1.0), "invalid_sequence"),
    "sent later": (lambda said: said.update(sent_at=timestamp(AT + 1)), "wrong_signature"),
    "sent nowhere": (lambda said: said.update(sent_at="2026-01-02T03:04:05"), "invalid_sent_at"),
    "sent a number": (lambda said: said.update(sent_at=1), "invalid_sent_at"),
    "message": (lambda said: said["notices"][0].update(message="go ahead"), "wrong_signature"),
    "author": (lambda said: said["notices"][0].update(author="bob"), "wrong_signature"),
    "cleared": (lambda said: said["notices"][0].update(cleared_at=timestamp(AT)), "wrong_signature"),
    "notice gone": (lambda said: said["notices"].clear(), "wrong_signature"),
    "notices none": (lambda said: said.update(notices=None), "invalid_notices"),
    "signature short": (lambda said: said.update(signature=said["signature"][:-2]), "invalid_signature"),
    "signature upper": (lambda said: said.update(signature=said["signature"].upper()), "invalid_signature"),
    "signature of zeros": (lambda said: said.update(signature="0" * 128), "wrong_signature"),
    "signature a number": (lambda said: said.update(signature=1), "invalid_signature"),
    "more": (lambda said: said.update(more=1), "unknown_field"),
}


def test_each_field_changed_on_the_way_is_refused(machines: tuple[Machine, Machine]) -> None:
    one, other = machines
    one.post("Changing login")
    one.exchange("run")
    good = one.file.read_bytes()
    for what, (change, expected) in ON_THE_WAY.items():
        one.file.write_bytes(changed(good, change))
        assert (what, refused(other, "laptop-a")) == (what, expected)
    one.file.write_bytes(good)
    assert refused(other, "laptop-a") == ""
    assert len(other.notices()) == 1
    assert other.is_sound()


#: What a pinned peer itself may sign and nobody takes.
BY_ITS_KEY: dict[str, tuple[Callable[[Machine], bytes], str]] = {
    "from the future": (lambda one: one.sign(sent_at=timestamp(AT + 6 * MINUTE)), "future_timestamp"),
    "from the past": (lambda one: one.sign(sent_at=timestamp(AT - 8 * DAY)), "too_old"),
    "for another author": (lambda one: one.sign([one.wire(author="bob")]), "unauthorized_author"),
    "of another machine": (
        lambda one: one.sign([one.wire(notice_id="laptop-b:00000000-0000-4000-8000-000000000001")]),
        "unauthorized_origin",
    ),
    "of no machine": (
        lambda one: one.sign([one.wire(notice_id="00000000-0000-4000-8000-000000000001")]),
        "unauthorized_origin",
    ),
    "of a longer name": (
        lambda one: one.sign([one.wire(notice_id="laptop-ab:00000000-0000-4000-8000-000000000001")]),
        "unauthorized_origin",
    ),
    "younger than itself": (
        lambda one: one.sign([one.wire(created_at=timestamp(AT + HOUR), expires_at=timestamp(AT + 2 * HOUR))]),
        "future_notice",
    ),
    "cleared tomorrow": (lambda one: one.sign([one.wire(cleared_at=timestamp(AT + DAY))]), "future_notice"),
    "for ever": (lambda one: one.sign([one.wire(expires_at="2099-01-01T00:00:00Z")]), "invalid_notice"),
    "twice": (lambda one: one.sign([one.wire(), one.wire()]), "duplicate_notice"),
    "too many": (lambda one: one.sign(["x"] * 10_001), "too_many"),
    "with more": (lambda one: one.sign([one.wire(note="x")]), "unknown_field"),
    "for another workspace": (lambda one: one.sign(workspace_id="bank"), "wrong_workspace"),
}


def test_what_even_the_right_key_may_not_say_is_refused(machines: tuple[Machine, Machine]) -> None:
    one, other = machines
    for what, (make, expected) in BY_ITS_KEY.items():
        one.file.write_bytes(make(one))
        assert (what, refused(other, "laptop-a")) == (what, expected)
    assert not other.notices()


def test_another_key_of_the_same_name_is_refused(machines: tuple[Machine, Machine], tmp_path: Path) -> None:
    one, other = machines
    one.file.write_bytes(one.sign([one.wire()], key=signing.load_or_make(tmp_path / "eve")))
    assert refused(other, "laptop-a") == "wrong_signature"


def test_one_peer_cannot_lie_in_the_place_of_another(machines: tuple[Machine, Machine], tmp_path: Path) -> None:
    one, other = machines
    third = Machine(tmp_path, "laptop-c", "carol")
    third.join()
    other.trust(third)
    third.post("mine")
    third.exchange("run")
    one.file.write_bytes(third.file.read_bytes())
    assert refused(other, "laptop-a") == "wrong_peer"
    assert len(other.notices()) == 1  # Carol's own file was taken all the same.


def test_an_older_file_and_a_second_one_of_a_number_are_refused(machines: tuple[Machine, Machine]) -> None:
    one, other = machines
    one.file.write_bytes(one.sign([one.wire(1)], sequence=5))
    assert refused(other, "laptop-a") == ""
    one.file.write_bytes(one.sign([one.wire(1), one.wire(2)], sequence=4))
    assert refused(other, "laptop-a") == "replayed_sequence"
    one.file.write_bytes(one.sign([one.wire(1), one.wire(2)], sequence=5))
    assert refused(other, "laptop-a") == "sequence_conflict"
    one.file.write_bytes(one.sign([one.wire(1, message="said otherwise"), one.wire(2)], sequence=6))
    assert refused(other, "laptop-a") == "notice_conflict"
    assert len(other.notices()) == 1
    one.file.write_bytes(one.sign([one.wire(1), one.wire(2)], sequence=6))
    assert refused(other, "laptop-a") == ""
    assert len(other.notices()) == 2


def test_an_old_clearing_cannot_be_taken_back_by_a_replay(machines: tuple[Machine, Machine]) -> None:
    one, other = machines
    identity = one.post("Changing login")
    one.exchange("run")
    before = one.file.read_bytes()
    one.at += MINUTE
    one.call("notice", "clear", [identity])
    one.exchange("run")
    other.exchange("run")
    one.file.write_bytes(before)
    assert refused(other, "laptop-a") == "replayed_sequence"
    assert other.notices()[identity]["status"] == "cleared"


@pytest.mark.skipif(os.name == "nt", reason="links and pipes are POSIX's here")
def test_links_pipes_and_folders_are_not_read(machines: tuple[Machine, Machine], tmp_path: Path) -> None:
    one, other = machines
    one.post("Changing login")
    one.exchange("run")
    kept = one.file.rename(tmp_path / "kept.json")
    one.file.symlink_to(kept)
    assert refused(other, "laptop-a") == "unsafe_file"
    one.file.unlink()
    os.mkfifo(one.file)
    assert refused(other, "laptop-a") == "unsafe_file"
    one.file.unlink()
    one.file.mkdir()
    assert refused(other, "laptop-a") in ("unsafe_file", "unreadable")
    assert not other.notices()


def test_a_huge_file_is_not_read(machines: tuple[Machine, Machine]) -> None:
    one, other = machines
    with one.file.open("wb") as file:
        file.truncate(envelope.LARGEST + 1)
    assert refused(other, "laptop-a") == "too_large"


def test_what_is_no_document_is_refused(machines: tuple[Machine, Machine]) -> None:
    one, other = machines
    for data in (b"", b"{", b"[]", b"\xff", b"null", b'{"a":1,"a":2}', b"[" * 50_000):
        one.file.write_bytes(data)
        assert refused(other, "laptop-a") == "invalid_document"


def test_an_unsigned_export_in_the_folder_is_refused(machines: tuple[Machine, Machine]) -> None:
    one, other = machines
    one.post("Changing login")
    one.call("notice", "export", to=one.file)
    assert refused(other, "laptop-a") == "unsigned"


def test_a_signed_notice_cannot_be_changed_by_hand(machines: tuple[Machine, Machine]) -> None:
    one, other = machines
    identity = one.post("Changing login")
    one.exchange("run")
    other.exchange("run")
    (item,) = json.loads(one.file.read_bytes())["notices"]
    with pytest.raises(Conflict, match="travel signed") as caught:
        other.call("notice", "import", [unsigned({**item, "cleared_at": timestamp(AT + 1)})])
    assert caught.value.reason == "signed_only"
    assert other.notices()[identity]["status"] == "active"


@pytest.mark.parametrize("identity", ["", "laptop-a:", "laptop-b:", "stranger:"])
@pytest.mark.parametrize("author", ["alice", "bob", "mallory"])
def test_where_notices_travel_signed_nobody_speaks_by_a_file(
    machines: tuple[Machine, Machine], identity: str, author: str
) -> None:
    """It spoke as one of those whom the machine speaks for."""
    one, _ = machines
    before = one.count()
    name = identity + "00000000-0000-4000-8000-00000000000a"
    with pytest.raises(Conflict) as caught:
        one.call("notice", "import", [unsigned(one.wire(notice_id=name, author=author))])
    assert (caught.value.reason, bool(caught.value.hint)) == ("signed_only", True)
    assert (one.count(), one.notices()) == (before, {})


def test_a_file_that_was_taken_in_before_is_nobodys_word_in_the_exchange(tmp_path: Path) -> None:
    """It was published as this machine's own, and a forged one kept out all that its author had signed."""
    one, other = Machine(tmp_path, "laptop-a", "alice"), Machine(tmp_path, "laptop-b", "bob")
    mine = one.wire(1, message="never said")
    theirs = other.wire(2, message="never said", cleared_at=timestamp(AT + 1))
    assert one.call("notice", "import", [unsigned(mine, theirs, other.wire(3))])["changed"] == 3
    for machine in (one, other):
        machine.join()
    one.trust(other)
    other.trust(one)
    assert {item["trusted"] for item in one.notices().values()} == {False}
    assert " alice (from elsewhere, unverified) [" in one.call("context")["text"]
    other.file.write_bytes(other.sign([other.wire(2, message="Changing login")]))
    assert one.exchange("run")["refusals"] == []
    assert json.loads(one.file.read_bytes())["notices"] == []
    seen = one.notices()[theirs["notice_id"]]
    assert (seen["message"], seen["status"], seen["trusted"]) == ("Changing login", "active", True)
    assert one.call("reindex")
    assert one.notices()[theirs["notice_id"]] == seen
    assert one.is_sound()


def test_a_file_clears_nothing_that_is_signed_while_the_settings_are_lost(machines: tuple[Machine, Machine]) -> None:
    one, other = machines
    mine, theirs = one.post("Changing login"), other.post("Changing the schema")
    for machine in (one, other, one):
        assert machine.exchange("run")["refusals"] == []
    exported = one.call("notice", "export")["document"]["notices"]
    one.config.rename(one.config.with_name("away"))
    cleared = unsigned(*({**item, "cleared_at": timestamp(AT + 1)} for item in exported))
    assert one.call("notice", "import", [cleared])["changed"] == 0
    if one.config.exists():
        shutil.rmtree(one.config)
    one.config.with_name("away").rename(one.config)
    assert {one.notices()[name]["status"] for name in (mine, theirs)} == {"active"}
    for machine in (one, other, one):
        assert machine.exchange("run")["refusals"] == []
    assert {other.notices()[name]["status"] for name in (mine, theirs)} == {"active"}
    one.at += MINUTE
    one.call("notice", "clear", [mine])
    assert one.notices()[mine]["cleared_at"] == timestamp(AT + MINUTE)


@pytest.mark.skipif(os.name == "nt", reason="modes and groups are POSIX's")
def test_a_published_file_is_the_groups_to_read_whatever_the_umask(machines: tuple[Machine, Machine]) -> None:
    """The peer's files are 0600, so that another user of a shared folder cannot read them."""
    one, _ = machines
    for mask in (0o000, 0o027, 0o077):
        one.file.unlink(missing_ok=True)
        before = os.umask(mask)
        try:
            answer = one.exchange("run")
        finally:
            os.umask(before)
        assert answer["published"]
        status = one.file.stat()
        assert stat.S_IMODE(status.st_mode) == 0o640
        assert status.st_gid == one.share.stat().st_gid
    assert [path.name for path in one.share.iterdir()] == [one.file.name]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives folders to any group")
def test_a_published_file_gets_the_group_of_its_folder(machines: tuple[Machine, Machine]) -> None:
    one, _ = machines
    os.chown(one.share, -1, 4242)
    one.exchange("run")
    assert one.file.stat().st_gid == 4242


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX's")
def test_key_and_policy_are_the_users_alone(machines: tuple[Machine, Machine]) -> None:
    one, _ = machines
    private = [path for path in one.config.rglob("*") if path.is_file()]
    assert len(private) == 2
    for path in private:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    (policy,) = one.config.glob("exchange/*.json")
    policy.chmod(0o666)
    with pytest.raises(Exception, match="others may change") as caught:
        one.exchange("run")
    assert caught.value.code == "unavailable"  # type: ignore[attr-defined]


def test_nothing_is_left_of_a_file_that_could_not_be_written(machines: tuple[Machine, Machine]) -> None:
    one, _ = machines
    one.file.mkdir()
    (one.file / "inside").touch()
    answer = one.exchange("run", replace=True)
    assert [(item["peer"], item["reason"]) for item in answer["refusals"]] == [("laptop-a", "unavailable")]
    assert [path.name for path in one.share.iterdir()] == [one.file.name]
    assert one.exchange("status")["peers"][0]["status"] == "never"


def test_what_is_not_ours_in_our_place_is_not_written_over(machines: tuple[Machine, Machine]) -> None:
    one, _ = machines
    one.post("Changing login")
    for data in (b'{"theme": "dark"}', b"not json", one.sign(key=signing.load_or_make(one.config / "other"))):
        one.file.write_bytes(data)
        assert refused(one, "laptop-a") == "occupied"
        assert one.file.read_bytes() == data
    assert one.exchange("run", replace=True)["published"]
    assert refused(one, "laptop-a") == ""


@pytest.mark.skipif(os.name == "nt", reason="links are POSIX's here")
def test_a_link_in_our_place_is_never_written_through(machines: tuple[Machine, Machine], tmp_path: Path) -> None:
    one, _ = machines
    target = tmp_path / "target"
    target.write_bytes(b"precious")
    one.file.symlink_to(target)
    assert refused(one, "laptop-a") == "occupied"
    assert one.exchange("run", replace=True)["published"]
    assert target.read_bytes() == b"precious"
    assert not one.file.is_symlink()


def test_the_files_of_others_are_never_touched(machines: tuple[Machine, Machine]) -> None:
    one, other = machines
    other.exchange("run")
    stranger = one.share / "stranger.json"
    stranger.write_bytes(b"{}")
    (one.share / "notes.txt").write_bytes(b"x")
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in one.share.iterdir()}
    answer = one.exchange("run")
    assert "'stranger.json'" in answer["warnings"][0]
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in before} == before


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    folder.write(path, b"one", folder.PRIVATE)
    folder.write(path, b"two", folder.PRIVATE)
    assert path.read_bytes() == b"two"
    assert [item.name for item in tmp_path.iterdir() if item.is_file()] == ["x.json"]
    with pytest.raises(Exception, match="cannot write"):
        folder.write(tmp_path / "gone" / "x.json", b"three", folder.PRIVATE)


@pytest.mark.skipif(os.name == "nt", reason="there are no pipes in the file system, and links need a privilege")
def test_what_is_no_key_in_its_place_is_told(machines: tuple[Machine, Machine]) -> None:
    """A folder there was a bug's traceback."""
    one, _ = machines
    place = signing.place(one.config)
    place.unlink()
    for lay in (place.mkdir, lambda: os.mkfifo(place, 0o600), lambda: place.symlink_to("nothing"), place.touch):
        lay()
        for ask in (lambda: one.exchange("init"), lambda: one.call("bundle", "key")):
            with pytest.raises(Unavailable) as caught:
                ask()
            assert str(place) in caught.value.message
            assert "again" not in caught.value.message
            assert "move" in caught.value.hint or "chmod" in caught.value.hint
        place.rmdir() if place.is_dir() else place.unlink()
    assert one.call("bundle", "key")["key"].startswith("ed25519:")


#: The eight points of small order, as RFC 8032 spells them.
WEAK = (
    "00" * 32, "00" * 31 + "80", "01" + "00" * 31, "ec" + "ff" * 30 + "7f",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
)  # fmt: skip


@pytest.mark.parametrize("point", WEAK)
def test_a_key_that_anybody_can_sign_for_is_none(machines: tuple[Machine, Machine], point: str) -> None:
    """Of such a key a signature that was made up holds for every message, or for one of a few."""
    one, _ = machines
    name = f"ed25519:{point}"
    with pytest.raises(UsageError, match="anybody can sign"):
        one.exchange("trust", "laptop-c", key=name, agent=["eve"])
    made_up = [bytes.fromhex(other) + bytes(32) for other in WEAK]
    assert not any(signing.is_signed(name, text, b"%d" % n) for text in made_up for n in range(16))
