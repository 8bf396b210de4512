"""What a bundle brings is memory, and never a lease, a vote in the exchange, or another machine's word."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from contracts.machines import AT, HOUR, MINUTE, Machine, pair

from bede.errors import BadSource, Conflict
from bede.identity import timestamp
from bede.projections.notices import CLEARED, NOTICE, STEP
from bede.records import Draft
from bede.repository.refs import COORDINATION

ID = "00000000-0000-4000-8000-00000000000a"


@pytest.fixture
def machines(tmp_path: Path) -> tuple[Machine, Machine]:
    """Two machines that trust each other; nothing was exchanged yet."""
    return pair(tmp_path)


class Forger(Machine):
    """Somebody with a copy of a machine's project, whose bundles that machine takes."""

    def __init__(self, base: Path, victim: Machine) -> None:
        self.victim, self.bundle = victim, base / "all.bundle"
        base.mkdir(exist_ok=True)
        victim.call("bundle", "export", to=self.bundle, all_=True)
        super().__init__(base, "forger", "mallory", from_=self.bundle, trust_any=True)

    def tell(self, *drafts: Draft) -> dict[str, Any]:
        """Write events on `coordination`, and have the victim take them in and merge them."""
        with closing(self.context()) as context, context.repository.write("forge", "mallory", self.at) as writing:
            writing.append(COORDINATION, drafts)
        self.call("bundle", "export", to=self.bundle, all_=True)
        return self.victim.call("bundle", "import", [str(self.bundle)], trust_any=True, merge=True)


def notice(identity: str, **said: Any) -> Draft:
    body = {
        "notice_id": identity,
        "author": "alice",
        "resource": "service:auth",
        "message": "all is well",
        "created_at": timestamp(AT),
        "expires_at": timestamp(AT + HOUR),
    }
    return Draft(NOTICE, body | said, "mallory", AT, said.pop("source", f'{{"notice":"{identity}"}}'))


def clearing(identity: str, at: int) -> Draft:
    return Draft(CLEARED, {"notice_id": identity, "cleared_at": timestamp(at)}, "mallory", AT)


def step(self: str, peer: str, outcome: str, sequence: int = 0) -> Draft:
    said = {"self": self, "peer": peer, "outcome": outcome, "sequence": sequence, "digest": "", "sent_at": ""}
    return Draft(STEP, said, "mallory", AT)


def round_of(machine: Machine) -> list[str]:
    """Run a round, and return why something was refused in it."""
    return [item["reason"] for item in machine.exchange("run")["refusals"]]


def test_a_brought_step_neither_stops_nor_reopens_the_exchange(
    tmp_path: Path, machines: tuple[Machine, Machine]
) -> None:
    one, other = machines
    one.post("Changing login")
    for machine in (one, other):
        assert round_of(machine) == []
    old = one.file.read_bytes()
    Forger(tmp_path, other).tell(
        step("laptop-b", "laptop-a", "accepted", 2**63 - 1),
        step("laptop-b", "laptop-b", "published", 2**63 - 1),
        step("laptop-b", "laptop-a", "refused"),
    )
    one.at = other.at = AT + MINUTE
    one.post("Login is done")
    other.post("Seen")
    assert round_of(one) == []
    assert round_of(other) == []
    assert other.exchange("status")["peers"][0]["fault"] == ""
    assert len(other.notices()) == 3
    assert {item["outcome"] for item in other.exchange("audit")["steps"]} == {
        "began",
        "pinned",
        "published",
        "accepted",
    }
    Forger(tmp_path / "again", other).tell(step("laptop-b", "laptop-a", "pinned"))
    one.file.write_bytes(old)
    assert round_of(other) == ["replayed_sequence"]
    assert other.is_sound()


def test_a_brought_notice_is_nobodys_word(tmp_path: Path, machines: tuple[Machine, Machine]) -> None:
    one, other = machines
    Forger(tmp_path, one).tell(notice(f"laptop-a:{ID}"), notice(f"laptop-b:{ID}", author="bob", peer="laptop-b"))
    listed = one.notices()
    assert len(listed) == 2
    assert [(item.get("peer"), item["trusted"]) for item in listed.values()] == [(None, False)] * 2
    text = one.call("context")["text"]
    assert [text.count(f" {name} (from elsewhere, unverified) [") for name in ("alice", "bob")] == [1, 1]
    assert round_of(one) == []
    assert b"all is well" not in one.file.read_bytes()
    assert round_of(other) == []
    assert other.notices() == {}


def test_a_brought_notice_stands_in_no_signed_ones_way(tmp_path: Path, machines: tuple[Machine, Machine]) -> None:
    one, other = machines
    identity = one.post("Changing login")
    assert round_of(one) == []
    told = Forger(tmp_path, other)
    told.tell(
        notice(identity, message="nothing happens", resource="service:other"),
        clearing(identity, AT),
        notice(f"laptop-a:{ID}", message=7),
    )
    assert other.notices()[identity]["message"] == "nothing happens"
    assert round_of(other) == []
    seen = other.notices()[identity]
    assert (seen["message"], seen["status"], seen["trusted"]) == ("Changing login", "active", True)
    assert list(other.notices(resource="service:other")) == []
    one.at = other.at = AT + MINUTE
    told.tell(clearing(identity, AT + MINUTE))
    one.call("notice", "clear", [identity])
    assert (round_of(one), round_of(other)) == ([], [])
    assert other.notices()[identity]["cleared_at"] == timestamp(AT + MINUTE)
    assert other.call("reindex")
    assert other.notices()[identity]["cleared_at"] == timestamp(AT + MINUTE)


def test_our_own_notice_is_not_cleared_or_replaced_by_what_is_brought(
    tmp_path: Path, machines: tuple[Machine, Machine]
) -> None:
    one, other = machines
    identity = one.post("Changing login")
    forger = Forger(tmp_path, one)
    for number in range(8):
        forger.tell(notice(identity, message=f"lie {number}", source=f'{{"lie":{number}}}'))
    forger.tell(clearing(identity, AT + 1))
    seen = one.notices()[identity]
    assert (seen["message"], seen["status"]) == ("Changing login", "active")
    assert [item["id"] for item in one.call("notice", "list")["notices"]] == [identity]
    assert (round_of(one), round_of(other)) == ([], [])
    assert other.notices()[identity]["status"] == "active"


def test_what_a_bundle_says_in_a_local_authors_name_is_shown_as_from_elsewhere(
    tmp_path: Path, machines: tuple[Machine, Machine]
) -> None:
    one, other = machines
    one.call("notice", "post", resource="service:auth", message="no author of the exchange", agent_id="carol")
    Forger(tmp_path, one).tell(notice(ID), notice(f"laptop-a:{ID}", message="nor this"))
    trusted = {item["message"]: item.get("trusted") for item in one.notices().values()}
    assert trusted == {"no author of the exchange": None, "all is well": False, "nor this": False}
    assert one.call("context")["text"].count("alice (from elsewhere, unverified)") == 2
    assert (round_of(one), round_of(other)) == ([], [])
    assert other.notices() == {}


def test_a_plain_notice_travels_by_bundle_and_is_cleared_by_one(tmp_path: Path) -> None:
    one = Machine(tmp_path, "laptop-a", "alice")
    identity = one.post("Changing login")
    copy = Forger(tmp_path, one)
    assert copy.notices()[identity]["message"] == "Changing login"
    copy.tell(clearing(identity, AT + 1))
    assert one.notices()[identity]["status"] == "cleared"


def test_a_project_that_was_restored_from_a_bundle_goes_on_in_the_exchange(
    tmp_path: Path, machines: tuple[Machine, Machine]
) -> None:
    one, other = machines
    identity = one.post("Changing login")
    for machine in (one, other, one):
        assert round_of(machine) == []
    backup = tmp_path / "backup.bundle"
    one.call("bundle", "export", to=backup, all_=True)
    (one.root / ".bede").rename(tmp_path / "lost")
    one.call("init", from_=backup)
    one.at = other.at = AT + MINUTE
    second = one.post("Login is done")
    assert (round_of(one), round_of(other)) == ([], [])
    assert {item for item, seen in other.notices().items() if seen["status"] == "active"} == {identity, second}
    one.call("notice", "clear", [identity])
    assert (round_of(one), round_of(other)) == ([], [])
    assert other.notices()[identity]["status"] == "cleared"
    assert one.is_sound()


def test_a_brought_lease_holds_nothing(tmp_path: Path) -> None:
    one = Machine(tmp_path, "laptop-a", "alice")
    said = {"resources": ["a.py"], "token": 99, "session": "s", "until": AT + HOUR, "summary": "acquired a.py"}
    Forger(tmp_path, one).tell(Draft("lease_acquired", said, "mallory", AT))
    assert one.call("lease", "list")["leases"] == []
    assert one.call("lease", "acquire", ["a.py"], session="t")["token"] == 1
    with pytest.raises(Conflict) as caught:
        one.call("lease", "renew", ["99"], session="s")
    assert caught.value.reason == "unknown_token"


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("lease_contended", {"resources": ["a.py"], "count": "many"}),
        ("lease_contended", {"resources": 5}),
        ("lease_contended", {"count": 1}),
        ("lease_acquired", {"resources": ["a.py"], "until": 2**62}),
        ("commit", {"files": ["a.py"], "sessions": ["s"]}),
        ("commit", {"files": 5}),
    ],
)
def test_what_a_brief_would_stumble_over_does_not_come_in(tmp_path: Path, kind: str, said: dict[str, Any]) -> None:
    one = Machine(tmp_path, "laptop-a", "alice")
    forger = Forger(tmp_path, one)
    with pytest.raises(BadSource) as caught:
        forger.tell(Draft(kind, said, "mallory", AT))
    assert caught.value.reason == "bad_body"
    assert one.call("brief", ["a.py"])
    assert one.is_sound()


def test_what_hooks_and_leases_leave_travels(tmp_path: Path) -> None:
    one = Machine(tmp_path, "laptop-a", "alice")
    one.call("lease", "acquire", ["a.py", "b.py"], session="s", purpose="Changing login")
    with pytest.raises(Conflict):
        one.call("lease", "acquire", ["a.py"], session="t")
    one.call("lease", "handover", ["1"], session="s", to="bob/u")
    one.call("lease", "release", ["2"], session="u", agent_id="bob")
    copy = Forger(tmp_path, one)
    assert copy.call("lease", "list")["leases"] == []
    sessions = [{"agent": "claude-code", "session": "s"}]
    copy.tell(Draft("commit", {"commit": "0" * 40, "files": ["a.py"], "sessions": sessions}, "mallory", AT))
    assert "0" * 12 in str(one.call("brief", ["a.py"]))
