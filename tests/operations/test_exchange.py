"""`exchange`: two machines and a folder, what is lost and comes back, and nothing that is done for nothing."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from contracts.machines import AT, DAY, HOUR, MINUTE, Machine, pair

from bede import signing
from bede.errors import BedeError, Busy, Conflict, NotFound, Rejected, Unavailable, UsageError
from bede.identity import timestamp
from bede.turnstile import held

if TYPE_CHECKING:
    from conftest import Ran


@pytest.fixture
def machines(tmp_path: Path) -> tuple[Machine, Machine]:
    """Two machines that trust each other; nothing was exchanged yet."""
    return pair(tmp_path)


def clean(answer: dict[str, Any]) -> dict[str, Any]:
    """Return a round's answer, of which nothing was refused."""
    assert answer["refusals"] == []
    return answer


def test_what_one_posts_and_clears_the_other_sees(machines: tuple[Machine, Machine]) -> None:
    one, other = machines
    identity = one.post("Changing login")
    assert identity.startswith("laptop-a:")
    assert clean(one.exchange("run"))["waiting"] == ["laptop-b"]
    assert clean(other.exchange("run"))["changed"] == 1
    seen = other.notices()[identity]
    assert (seen["status"], seen["author"], seen["peer"], seen["trusted"]) == ("active", "alice", "laptop-a", True)
    assert "alice@laptop-a" in other.call("context")["text"]
    with pytest.raises(Rejected) as caught:
        other.call("notice", "clear", [identity], agent_id="alice")
    assert caught.value.reason == "other_machine"
    one.at += MINUTE
    one.call("notice", "clear", [identity])
    assert clean(one.exchange("run"))["published"]
    assert clean(other.exchange("run"))["changed"] == 1
    assert other.notices()[identity]["cleared_at"] == timestamp(AT + MINUTE)
    assert one.is_sound()
    assert other.is_sound()


def test_nothing_is_written_where_nothing_is_new(machines: tuple[Machine, Machine]) -> None:
    """The peer rewrites its file and adds a row at every poll."""
    one, other = machines
    one.post("Changing login")
    for machine in (one, other, one):
        clean(machine.exchange("run"))
    before = one.count(), other.count(), one.file.stat().st_mtime_ns, one.file.read_bytes()
    for _ in range(3):
        for machine in machines:
            machine.at += HOUR
            assert not clean(machine.exchange("run"))["published"]
    assert (one.count(), other.count(), one.file.stat().st_mtime_ns, one.file.read_bytes()) == before


def test_a_refusal_is_written_down_once(machines: tuple[Machine, Machine]) -> None:
    one, other = machines
    one.exchange("run")
    other.exchange("run")
    one.file.write_bytes(b"{}")
    answer = other.exchange("run")
    assert [item["reason"] for item in answer["refusals"]] == ["unsigned"]
    before = other.count()
    assert other.exchange("run")["refusals"]
    assert other.count() == before
    assert other.exchange("status")["peers"][0]["fault"] == "unsigned"
    one.file.write_bytes(b"{")
    assert other.exchange("run")["refusals"][0]["reason"] == "invalid_document"
    assert other.count()[0] == before[0] + 1
    one.exchange("run")
    clean(other.exchange("run"))
    assert other.exchange("status")["peers"][0]["fault"] == ""


def test_a_quiet_file_is_signed_anew_before_it_is_too_old(machines: tuple[Machine, Machine]) -> None:
    one, other = machines
    for machine in machines:
        clean(machine.exchange("run"))
    clean(one.exchange("run"))
    first = one.exchange("status")["peers"][0]
    assert first["status"] == "fresh"
    for machine in machines:
        machine.at += 4 * DAY
    assert clean(one.exchange("run"))["published"]
    other.at += 4 * DAY
    assert clean(other.exchange("run"))["changed"] == 0
    one.at += 8 * DAY
    assert one.exchange("status")["peers"][0]["status"] == "stale"


def test_a_lost_file_is_written_again(machines: tuple[Machine, Machine]) -> None:
    one, other = machines
    one.post("Changing login")
    for machine in machines:
        clean(machine.exchange("run"))
    shutil.rmtree(one.share)
    with pytest.raises(Unavailable, match="cannot look into"):
        one.exchange("run")
    one.share.mkdir()
    assert [item["reason"] for item in other.exchange("run")["refusals"]] == ["missing_file"]
    assert clean(one.exchange("run"))["published"]
    assert clean(other.exchange("run"))["changed"] == 0


def test_a_lost_database_gets_its_own_notices_back(machines: tuple[Machine, Machine]) -> None:
    """The peer drops them from its next file without a word, and their author cannot clear them any more."""
    one, other = machines
    identity, mine = one.post("Changing login"), other.post("Deploying")
    for machine in (one, other, one):
        clean(machine.exchange("run"))
    shutil.rmtree(one.root / ".bede")
    one.call("init")
    with pytest.raises(NotFound, match="no exchange"):
        one.exchange("run")
    answer = one.join(recover=True)
    assert [item["peer"] for item in answer["peers"]] == ["laptop-b"]
    one.at += MINUTE
    answer = clean(one.exchange("run"))
    assert (answer["recovered"], answer["changed"]) == (1, 1)
    assert set(one.notices()) == {identity, mine}
    one.call("notice", "clear", [identity])
    assert clean(one.exchange("run"))["published"]
    assert clean(other.exchange("run"))["changed"] == 1
    assert other.notices()[identity]["status"] == "cleared"


def test_a_lost_database_and_folder_do_not_silence_a_machine(machines: tuple[Machine, Machine]) -> None:
    """The peer's files are refused as replayed until its counter has caught up."""
    one, other = machines
    for _ in range(5):
        one.post("Changing login")
        clean(one.exchange("run"))
    clean(other.exchange("run"))
    shutil.rmtree(one.root / ".bede")
    one.file.unlink()
    one.at += MINUTE
    one.call("init")
    one.join(recover=True)
    one.post("Here again")
    clean(one.exchange("run"))
    assert clean(other.exchange("run"))["changed"] == 1


def test_a_peer_that_counts_anew_is_taken_once_it_is_pinned_anew(machines: tuple[Machine, Machine]) -> None:
    one, other = machines
    clean(one.exchange("run"))
    clean(other.exchange("run"))
    one.file.write_bytes(one.sign([one.wire()], sequence=1))
    assert [item["reason"] for item in other.exchange("run")["refusals"]] == ["replayed_sequence"]
    other.trust(one, replace=True)
    assert clean(other.exchange("run"))["changed"] == 1


def test_a_lost_key_is_replaced(machines: tuple[Machine, Machine]) -> None:
    one, other = machines
    identity = one.post("Changing login")
    for machine in machines:
        clean(machine.exchange("run"))
    signing.place(one.config).unlink()
    with pytest.raises(Unavailable, match="key is gone"):
        one.exchange("run")
    one.join()
    assert [item["reason"] for item in one.exchange("run")["refusals"]] == ["occupied"]
    one.at += MINUTE
    assert clean(one.exchange("run", replace=True))["published"]
    assert [item["reason"] for item in other.exchange("run")["refusals"]] == ["wrong_signature"]
    with pytest.raises(Conflict) as caught:
        other.trust(one)
    assert caught.value.reason == "already_pinned"
    other.trust(one, replace=True)
    clean(other.exchange("run"))
    one.call("notice", "clear", [identity])
    clean(one.exchange("run"))
    assert clean(other.exchange("run"))["changed"] == 1


def test_a_revoked_peer_is_not_heard_any_more(machines: tuple[Machine, Machine]) -> None:
    """The peer goes on until its servers are started again."""
    one, other = machines
    identity = one.post("Changing login")
    for machine in machines:
        clean(machine.exchange("run"))
    other.exchange("revoke", "laptop-a")
    one.post("And now signup")
    clean(one.exchange("run"))
    answer = clean(other.exchange("run"))
    assert "'laptop-a.json'" in answer["warnings"][0]
    assert [(item["id"], item["trusted"]) for item in other.notices().values()] == [(identity, False)]
    with pytest.raises(NotFound):
        other.exchange("revoke", "laptop-a")
    outcomes = [(step["peer"], step["outcome"]) for step in other.exchange("audit")["steps"]]
    assert ("laptop-a", "revoked") in outcomes
    assert outcomes[-1] == ("laptop-b", "began")


def test_one_author_may_work_on_two_machines(machines: tuple[Machine, Machine]) -> None:
    """The peer wants each agent on one machine only."""
    one, other = machines
    for machine, rest in ((one, other), (other, one)):
        machine.join(agent=[machine.author, "codex"])
        machine.exchange("trust", rest.peer, key=rest.key.id, agent=[rest.author, "codex"], replace=True)
    ids = {machine.post("by codex", agent_id="codex") for machine in machines}
    for machine in (one, other, one):
        clean(machine.exchange("run"))
    assert set(one.notices()) == set(other.notices()) == ids


def test_who_is_no_author_of_the_exchange_posts_here_alone(machines: tuple[Machine, Machine]) -> None:
    one, other = machines
    answer = one.call("notice", "post", resource="service:auth", message="m", agent_id="eve")
    assert "stays here" in answer["warnings"][0] and f"speaks for {one.author}" in answer["warnings"][0]
    clean(one.exchange("run"))
    assert clean(other.exchange("run"))["changed"] == 0
    assert len(one.notices()) == 1


def test_a_redacted_notice_of_a_peer_is_the_same_when_it_comes_again(machines: tuple[Machine, Machine]) -> None:
    one, other = machines
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    one.file.write_bytes(one.sign([one.wire(1, message=f"with {secret}")], sequence=5))
    assert clean(other.exchange("run"))["changed"] == 1
    one.file.write_bytes(one.sign([one.wire(1, message=f"with {secret}"), one.wire(2)], sequence=6))
    assert clean(other.exchange("run"))["changed"] == 1
    assert secret not in str(other.notices())


def test_two_rounds_at_once_wait_for_each_other(machines: tuple[Machine, Machine]) -> None:
    one, _ = machines
    one.environment["BEDE_STORE_WAIT"] = "0"
    with held(one.root / ".bede/exchange.lock") as has_turn:
        assert has_turn
        with pytest.raises(Busy):
            one.exchange("run")
    clean(one.exchange("run"))


def test_what_must_stay_private_is_not_shared(tmp_path: Path) -> None:
    one = Machine(tmp_path, "laptop-a", "alice")
    for folder in (one.root, one.root / ".bede", one.config.parent, one.root.parent):
        with pytest.raises(UsageError, match="must not be in"):
            one.exchange("init", folder=folder, workspace="shop", peer="laptop-a")
    for folder, kind in ((tmp_path / "gone", Unavailable), (one.root / ".bede/bede.db", UsageError)):
        with pytest.raises(kind):
            one.exchange("init", folder=folder, workspace="shop", peer="laptop-a")
    with pytest.raises(NotFound, match="no exchange"):
        one.exchange("status")


@pytest.mark.parametrize(
    "said",
    [
        {"peer": ""}, {"peer": "Laptop"}, {"peer": "../x"}, {"peer": "con"}, {"peer": "a" * 65}, {"peer": "a.b"},
        {"workspace": ""}, {"workspace": "a b"}, {"workspace": "x" * 129}, {"agent": ["a b"]}, {"agent": ["a", ""]},
        {"agent": [f"a{n}" for n in range(65)]}, {"folder": None},
    ],
    ids=str,
)  # fmt: skip
def test_a_malformed_beginning_is_refused(tmp_path: Path, said: dict[str, Any]) -> None:
    one = Machine(tmp_path, "laptop-a", "alice")
    with pytest.raises(UsageError):
        one.exchange("init", **{"folder": one.share, "workspace": "shop", "peer": "laptop-a", **said})
    assert not list(one.config.glob("exchange/*"))


def test_a_malformed_pin_is_refused(machines: tuple[Machine, Machine], tmp_path: Path) -> None:
    one, other = machines
    third = signing.load_or_make(tmp_path / "third").id
    before = one.exchange("status")["peers"], one.count()
    tries: list[tuple[str, dict[str, Any], type[BedeError]]] = [
        ("", {"key": third, "agent": ["x"]}, UsageError),
        ("laptop-c", {"key": "", "agent": ["x"]}, UsageError),
        ("laptop-c", {"key": third[:-1], "agent": ["x"]}, UsageError),
        ("laptop-c", {"key": third, "agent": []}, UsageError),
        ("laptop-c", {"key": third, "agent": ["a b"]}, UsageError),
        ("laptop-a", {"key": third, "agent": ["x"]}, UsageError),
        ("laptop-c", {"key": one.key.id, "agent": ["x"]}, UsageError),
        ("laptop-c", {"key": other.key.id, "agent": ["x"]}, Conflict),
        ("laptop-b", {"key": third, "agent": ["x"]}, Conflict),
    ]
    for name, said, kind in tries:
        with pytest.raises(kind):
            one.exchange("trust", name, **said)
    assert (one.exchange("status")["peers"], one.count()) == before
    one.exchange("trust", "laptop-c", key=third.removeprefix("ed25519:"), agent=["x"])
    assert one.exchange("status")["peers"][1]["key"] == third


def test_beginning_twice_changes_nothing_and_another_name_is_refused(machines: tuple[Machine, Machine]) -> None:
    one, _ = machines
    before = one.count()
    answer = one.join()
    assert one.count() == before
    assert answer["introduction"] == f"bede exchange trust laptop-a --key {one.key.id} --agent alice"
    for workspace, peer in (("bank", "laptop-a"), ("shop", "laptop-z")):
        with pytest.raises(Conflict) as caught:
            one.exchange("init", folder=one.share, workspace=workspace, peer=peer)
        assert caught.value.reason == "already_there"


def test_a_second_project_does_not_speak_as_the_first(machines: tuple[Machine, Machine], tmp_path: Path) -> None:
    one, _ = machines
    twin = Machine(tmp_path, "laptop-a", "alice")
    twin.root = tmp_path / "another"
    twin.root.mkdir()
    twin.call("init")
    for recover in (False, True):
        with pytest.raises(Conflict) as caught:
            twin.join(recover=recover)
        assert caught.value.reason == "peer_in_use"
    assert clean(one.exchange("run"))["published"]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"schema":"bede.exchange/1"}', '{"schema":"x"}', "null"])
def test_a_damaged_policy_is_told_and_nothing_is_done(machines: tuple[Machine, Machine], text: str) -> None:
    one, _ = machines
    (path,) = one.config.glob("exchange/*.json")
    path.write_text(text)
    with pytest.raises(Unavailable, match="cannot be read"):
        one.exchange("run")
    assert not one.file.exists()
    answer = one.call("notice", "list")
    assert (answer["notices"], len(answer["warnings"])) == ([], 1)


def test_a_round_that_was_killed_leaves_nothing_open(machines: tuple[Machine, Machine]) -> None:
    one, other = machines
    one.post("Changing login")
    clean(one.exchange("run"))
    (item,) = json.loads(one.file.read_bytes())["notices"]
    # The file was written, and the step not.
    one.file.write_bytes(one.sign([item]))
    left = one.share / f".{one.file.name}.1.0a0b0c0d.tmp"
    young = one.share / f".{one.file.name}.2.0a0b0c0d.tmp"
    theirs = one.share / ".laptop-b.json.1.0a0b0c0d.tmp"
    for path, age in ((left, 2 * 3600), (young, 60), (theirs, 2 * 3600)):
        path.touch()
        os.utime(path, (AT / 1e6 - age, AT / 1e6 - age))
    before = one.file.read_bytes()
    assert not clean(one.exchange("run"))["published"]
    assert one.file.read_bytes() == before
    counts = one.count()
    clean(one.exchange("run"))
    assert one.count() == counts
    one.post("And signup")
    assert clean(one.exchange("run"))["sequence"] == 2**40 + 1
    assert (left.exists(), young.exists(), theirs.exists()) == (False, True, True)
    assert clean(other.exchange("run"))["changed"] == 2


def test_a_purged_notice_is_not_published_again(machines: tuple[Machine, Machine]) -> None:
    one, other = machines
    identity = one.post("what nobody should know")
    for machine in machines:
        clean(machine.exchange("run"))
    for machine in machines:
        machine.call("purge", [machine.notices()[identity]["event"]], yes=True, include_others=True)
        machine.at += MINUTE
        clean(machine.exchange("run"))
        assert identity not in machine.notices()
    assert b"nobody" not in one.file.read_bytes()
    clean(other.exchange("run"))
    assert identity not in other.notices()
    with closing(other.context()) as context:
        assert context.repository.reindex()
    assert clean(other.exchange("run"))["changed"] == 0
    assert other.is_sound()


LINE = re.compile(r"^(laptop-[ab])\$ (bede .*)$", re.MULTILINE)


def test_the_walk_through_of_the_page_works_as_written(
    bede: Callable[..., Ran], root: Path, tmp_path: Path
) -> None:
    text = (root / "docs/exchange.md").read_text(encoding="utf-8")
    steps = LINE.findall(text)
    assert len(steps) >= 9
    (tmp_path / "share").mkdir()
    keys: dict[str, str] = {}
    said: list[dict[str, Any]] = []

    def run(machine: str, *words: str) -> dict[str, Any]:
        home = tmp_path / machine
        env = {
            "BEDE_CONFIG_DIR": str(home / "config"),
            "BEDE_DATA_DIR": str(home / "data"),
            "BEDE_AGENT_ID": {"laptop-a": "alice", "laptop-b": "bob"}[machine],
        }
        ran = bede(*words, cwd=home, env=env)
        assert ran.status == 0, ran.err
        return ran.json()

    for machine in ("laptop-a", "laptop-b"):
        (tmp_path / machine).mkdir()
        run(machine, "init", "--here")
    for machine, line in steps:
        words = [keys.get(word, word) for word in shlex.split(line)[1:]]
        said.append(run(machine, *words))
        if "init" in words:
            keys[f"KEY-OF-{machine[-1].upper()}"] = said[-1]["key"]
    (listed,) = [answer["notices"] for answer in said if answer.get("action") == "list"]
    assert [(item["author"], item["peer"], item["message"]) for item in listed] == [
        ("alice", "laptop-a", "Changing login")
    ]
    assert said[-1]["peers"][0]["status"] == "fresh"


def test_what_names_no_peer_or_no_folder_says_so(machines: tuple[Machine, Machine], tmp_path: Path) -> None:
    one, _ = machines
    for action in ("trust", "revoke"):
        with pytest.raises(UsageError, match="which peer") as caught:
            one.exchange(action)
        assert caught.value.hint
    (policy,) = (one.config / "exchange").glob("*.json")
    said = json.loads(policy.read_text())
    policy.write_text(json.dumps(said | {"folder": "/a\0b"}))
    with pytest.raises(Unavailable, match="no absolute path"):
        one.exchange("run")


@pytest.mark.skipif(os.name != "posix", reason="names are text there")
def test_a_folder_whose_name_no_settings_can_hold_is_refused(tmp_path: Path) -> None:
    """It was written down as what could not be read again, and nothing of the exchange worked any more."""
    machine = Machine(tmp_path, "laptop-a", "alice")
    try:
        os.mkdir(os.fsencode(tmp_path) + b"/shared\xff")
    except OSError:
        pytest.skip("this file system takes UTF-8 alone")
    with pytest.raises(UsageError, match="no folder of such a name"):
        machine.exchange("init", folder=tmp_path / "shared\udcff", workspace="shop", peer="laptop-a")
    with pytest.raises(NotFound):
        machine.exchange("status")


def test_a_clock_that_was_ahead_for_a_moment_silences_nobody(machines: tuple[Machine, Machine]) -> None:
    """One notice from the future, and the others refused all that its machine said until then."""
    one, other = machines
    kept, gone = one.post("Changing login"), one.post("Changing logout")
    for machine in (one, other):
        clean(machine.exchange("run"))
    one.at += DAY
    early = one.post("Made too early")
    one.call("notice", "clear", [gone])
    one.at -= DAY - MINUTE
    other.at = one.at
    later = one.post("Login is done")
    answer = clean(one.exchange("run"))
    assert "2 notices" in answer["warnings"][0]
    assert clean(other.exchange("run"))["changed"] == 1
    assert set(other.notices()) == {kept, gone, later}
    assert not clean(one.exchange("run"))["published"]
    for machine in machines:
        machine.at += DAY
    assert clean(one.exchange("run"))["warnings"] == []
    clean(other.exchange("run"))
    seen = other.notices()
    assert (set(seen), seen[gone]["status"]) == ({kept, gone, later, early}, "cleared")


@pytest.mark.parametrize("action", ["run", "status", "audit", "init"])
def test_a_peer_is_named_only_where_one_is_meant(machines: tuple[Machine, Machine], action: str) -> None:
    """`exchange run NAME` exchanged with everybody."""
    one, _ = machines
    with pytest.raises(UsageError, match="takes no 'laptop-b'"):
        one.exchange(action, "laptop-b")
    assert not one.file.exists()
