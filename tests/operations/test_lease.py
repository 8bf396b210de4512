"""`lease`: take files, keep them, give them back; what the refused is told; what the log says; fenced writing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from contracts.leased import HOUR, SECOND, Hand

from bede.answers import tidings as told_later
from bede.answers.tidings import settle
from bede.answers.working import working
from bede.context import Context
from bede.errors import Conflict, NotFound, TooNew, UsageError
from bede.leases import holding, intents, waiters
from bede.leases.holding import Holder
from bede.operations.fork import fork
from bede.operations.lease import LeaseResult, lease
from bede.operations.log import log
from bede.operations.search import search
from bede.operations.store import store
from bede_cli.serve import Tools

LONG = "The parser keeps comments in front of the first section"


@pytest.fixture
def hand() -> Hand:
    """A clock in the hand."""
    return Hand()


@pytest.fixture
def agent(project, hand) -> Iterator[Callable[..., Context]]:
    """Make the window of an agent's call: `agent("ann")`, its session `s-ann`, on the clock in the hand."""
    made: list[Context] = []

    def window(name: str, session: str | None = None, **more: Any) -> Context:
        told = {"BEDE_SESSION_ID": f"s-{name}" if session is None else session}
        clocks = {"clock": lambda: hand.wall, "ticks": lambda: hand.ticks}
        options = {"directory": project, "environment": {**os.environ, **told}, **clocks, **more}
        made.append(Context(agent=name, **options))
        return made[-1]

    yield window
    for item in made:
        item.close()


def names(result: LeaseResult) -> list[str]:
    return [held.resource for held in result.leases]


def catch_up(context: Context) -> int:
    """Let the log be told what waits."""
    return told_later.catch_up(context.repository, context.actor(), context.moment())


def tidings(context: Context) -> list[tuple[str, str, str]]:
    """Return what the log says of leases, oldest first."""
    return [(one.kind, one.agent_id, one.summary) for one in reversed(log(context, at="coordination").events)]


def test_take_keep_and_give_back(agent, hand):
    ann, bob = agent("ann"), agent("bob")
    got = lease(ann, "acquire", ["src/a.py", "./b.py"], purpose="fix  login\n")
    assert (got.outcome, got.token, names(got)) == ("acquired", 1, ["b.py", "src/a.py"])
    assert (got.leases[0].purpose, got.leases[0].seconds_left, got.leases[0].session) == ("fix login", 900, "s-ann")
    with pytest.raises(Conflict):
        lease(bob, "acquire", ["src/a.py"])
    hand.tick(600)
    assert lease(ann, "acquire", ["b.py"]).outcome == "extended"
    assert lease(ann, "renew", ["1"], ttl="1h").leases[0].seconds_left == 3600
    assert lease(ann, "renew", ["src/a.py"]).outcome == "renewed"
    assert lease(ann, "renew").outcome == "renewed"
    assert names(lease(ann, "release", ["b.py"])) == ["b.py"]
    assert names(lease(bob)) == ["src/a.py"]
    assert names(lease(bob, "list", ["src"])) == ["src/a.py"]
    assert names(lease(bob, "list", ["docs/"])) == []
    assert lease(ann, "release").outcome == "released"
    assert lease(ann, "release").outcome == "absent"
    assert lease(bob, "acquire", ["src/a.py"]).token == 2


def test_the_refused_is_told_everything(agent, hand):
    ann, bob = agent("ann"), agent("bob")
    lease(ann, "acquire", ["src"], purpose="sessions", ttl="10m")
    with ann.repository.write("lease", "ann", 1) as writing:
        intents.note_prompt(writing.connection, "ann", "s-ann", "Fix the login of guests", ann.moment())
        intents.note_touch(writing.connection, "ann", "s-ann", "src/db.ts", ann.moment())
    hand.tick(90)
    with pytest.raises(Conflict) as refusal:
        lease(bob, "acquire", ["src/", "docs/x.md"])
    error = refusal.value.to_json()
    assert (error["exit_status"], error["reason"], error["code"]) == (12, "held", "conflict")
    assert error["retryable"] is True
    told = error["details"]
    assert told["holder"] == {"agent_id": "ann", "session": "s-ann"}
    assert (told["purpose"], told["prompt"], told["prompt_age"]) == ("sessions", "Fix the login of guests", 90)
    assert (told["queue"], told["touched"]) == (0, ["src/db.ts"])
    assert told["since"] < told["until"]
    assert 'Purpose: "sessions"' in error["message"] and "for 9 min more" in error["message"]
    assert "--wait" in error["hint"]
    assert names(lease(bob)) == ["src"]


def test_who_told_no_session_and_meets_a_lease_of_the_same_name_is_told_its_token(agent):
    ann = agent("ann", "")
    token = lease(ann, "acquire", ["src"]).token
    for asker, is_told in ((ann, True), (agent("bob", ""), False), (agent("ann"), True)):
        with pytest.raises(Conflict) as refusal:
            lease(asker, "acquire", ["src"])
        assert (f"'bede lease renew {token}'" in refusal.value.hint) is is_told


def test_secrets_stay_out(agent):
    secret = "sk-ant-api03-" + "a1B2c3D4e5" * 9
    got = lease(agent("ann"), "acquire", ["a"], purpose=f"try {secret} out")
    assert secret not in json.dumps(got.to_json())
    for session, path, to in (
        (secret, "a", ""),
        (None, f"src/{secret}.py", ""),
        (None, f"{secret}/", ""),
        (None, f"postgres://ann:{secret}@host/x", ""),
        (None, "postgres://ann:hunter2sun@host/x", ""),
        (None, "a", secret),
        (None, "a", f"ann/{secret}"),
    ):
        window, action = agent("ann", session=session), "handover" if to else "acquire"
        with pytest.raises((UsageError, NotFound)) as refused:
            lease(window, action, [path], to=to)
        assert secret not in json.dumps(refused.value.to_json())
    with pytest.raises(UsageError, match="a name that looks like a secret"):
        lease(agent("ann"), "acquire", ["b", f"src/{secret}.py", f"src/{secret}/*.py"], glob=True)
    assert names(lease(agent("ann"))) == ["a"]
    for file in (agent("ann").project.folder).iterdir():
        assert secret.encode() not in file.read_bytes()
    assert "[redacted:" in got.leases[0].purpose
    assert "[redacted:" in tidings(agent("ann"))[0][2]


def test_the_log_tells_what_happened(agent, hand):
    ann, bob = agent("ann"), agent("bob")
    lease(ann, "acquire", ["a", "b"], purpose="login")
    for _ in range(40):
        with pytest.raises(Conflict):
            lease(bob, "acquire", ["a"])
    hand.tick(11)
    lease(ann, "handover", ["1"], to="bob/s-bob")
    lease(bob, "release", ["a"])
    hand.tick(HOUR / SECOND)
    assert catch_up(ann) == 0
    lease(ann, "acquire", ["c"])
    assert tidings(ann) == [
        ("lease_acquired", "ann", "acquired a, b for: login"),
        ("lease_contended", "bob", "refused a, held by ann for: login (40 times)"),
        ("lease_handed_over", "ann", "handed a, b over to bob for: login"),
        ("lease_released", "bob", "released a for: login"),
        ("lease_expired", "bob", "expired b for: login"),
        ("lease_acquired", "ann", "acquired c"),
    ]
    assert ann.repository.verify().findings == ()
    assert [item.summary for item in search(ann, "login").results] == []
    store(ann, summary=LONG)
    with ann.repository.snapshot() as reading:
        assert "coordination" not in reading.branches()
        (first, *_) = [entry for entry in reading.journal() if entry.verb == "lease"]
    assert first.note == {}
    ann.repository.reindex()
    assert ann.repository.verify().findings == ()


def test_what_the_hook_left_is_told_later(agent):
    from bede.leases import claims, door

    ann = agent("ann")
    with door.open(str(ann.project.database)) as connection:
        claims.acquire(connection, Holder("codex", "c-1"), [("a", "file")], 60 * SECOND, "edit", ann.moment())
    assert catch_up(ann) == 1
    assert catch_up(ann) == 0
    assert tidings(ann) == [("lease_acquired", "codex", "acquired a for: edit")]
    with door.open(str(ann.project.database)) as connection:
        claims.acquire(connection, Holder("two words", "c-1"), [("b", "file")], 60 * SECOND, "", ann.moment())
    assert catch_up(agent("reader", read_only=True)) == 0
    assert catch_up(ann) == 1
    assert tidings(ann)[-1][:2] == ("lease_acquired", "unknown")


def test_many_tidings_are_settled_in_rounds(agent):
    ann = agent("ann")
    with ann.repository.write("lease", "ann", 1) as writing:
        for number in range(1100):
            holding.tell(
                writing.connection,
                "lease_acquired",
                [holding.Lease((f"f{number}", "file", number, "ann", "s", "", 1, 2, "", 3, 4))],
                ann.moment(),
                token=number,
            )
        assert settle(writing, ann.moment()) == 1000
    assert catch_up(ann) == 100


# Whose session it is


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({}, ("tester", "")),
        ({"BEDE_SESSION_ID": "x"}, ("tester", "x")),
        ({"CLAUDE_CODE_SESSION_ID": "c"}, ("claude-code", "c")),
        ({"COPILOT_AGENT_SESSION_ID": "g"}, ("copilot", "g")),
        ({"BEDE_RUN_ID": "r"}, ("tester", "r")),
        ({"BEDE_RUN_ID": "r", "CLAUDE_CODE_SESSION_ID": "c", "BEDE_SESSION_ID": "x"}, ("tester", "x")),
    ],
)
def test_the_session_is_found(project, told, expected):
    environment = {name: value for name, value in os.environ.items() if "SESSION_ID" not in name} | told
    context = Context(directory=project, environment=environment, agent="tester")
    assert context.holder() == expected
    assert context.holder("else") == ("else", expected[1])
    assert context.holder("", "given") == ("tester", "given")
    context.close()


def test_without_a_session_only_the_token_counts(agent):
    nameless = agent("ann", "")
    got = lease(nameless, "acquire", ["a"])
    for act in (("renew",), ("release",), ("release", ["a"]), ("handover", ["a"])):
        with pytest.raises(UsageError):
            lease(nameless, *act)
    with pytest.raises(Conflict):
        lease(nameless, "acquire", ["a"])
    assert lease(nameless, "renew", [str(got.token)]).outcome == "renewed"
    with pytest.raises(Conflict) as refusal:
        lease(agent("bob", ""), "release", [str(got.token)])
    assert refusal.value.reason == "not_holder"
    assert lease(nameless, "release", [str(got.token)]).outcome == "released"


# What may be asked


@pytest.mark.parametrize(
    ("act", "more"),
    [
        (("acquire",), {}),
        (("acquire", [""]), {}),
        (("acquire", ["../x"]), {}),
        (("acquire", [".bede"]), {}),
        (("acquire", ["a"]), {"ttl": "0"}),
        (("acquire", ["a"]), {"ttl": "25h"}),
        (("acquire", ["a"]), {"ttl": "-5m"}),
        (("acquire", ["a"]), {"ttl": "1.5h"}),
        (("acquire", ["a"]), {"ttl": "٣m"}),
        (("acquire", ["a"]), {"wait": "soon"}),
        (("acquire", ["a"]), {"session": "x\ny"}),
        (("acquire", ["a"]), {"agent_id": "x y"}),
        (("acquire", ["a"]), {"purpose": "half \ud800 of a pair"}),
        (("acquire", ["x*"] * 300), {"glob": True}),
        (("renew", ["1", "2"]), {}),
        (("handover",), {}),
    ],
)
def test_what_is_refused(agent, act, more):
    ann = agent("ann")
    with pytest.raises(UsageError):
        lease(ann, *act, **more)
    assert lease(ann).leases == ()
    assert ann.repository.verify().operations == 1


@pytest.mark.parametrize(("ttl", "seconds"), [("90", 90), ("90s", 90), ("15m", 900), ("2h", 7200), ("1d", 86400)])
def test_times(agent, ttl, seconds):
    assert lease(agent("ann"), "acquire", ["a"], ttl=ttl).leases[0].seconds_left == seconds


def test_patterns_and_folders(agent, project):
    ann, bob = agent("ann"), agent("bob")
    (project / "lib").mkdir()
    got = lease(ann, "acquire", ["src/**/*.py"], glob=True)
    assert (got.leases[0].resource, got.leases[0].scope) == ("src/**/*.py", "glob")
    assert lease(bob, "acquire", ["lib"]).leases[0].scope == "folder"
    for path in ("src/x/y.py", "src"):
        with pytest.raises(Conflict):
            lease(bob, "acquire", [path + "/" if path == "src" else path])
    assert lease(bob, "acquire", ["src/x.js"]).outcome == "acquired"


def test_unknown_and_lost_tokens(agent, hand):
    ann = agent("ann")
    for act in ("renew", "release", "handover"):
        with pytest.raises(Conflict) as refusal:
            lease(ann, act, ["7"])
        assert refusal.value.reason == "unknown_token"
    lease(ann, "acquire", ["a"], ttl="1m")
    hand.tick(61)
    with pytest.raises(Conflict) as lost:
        lease(ann, "renew", ["1"])
    assert lost.value.reason == "lease_lost"
    assert lease(ann, "release", ["1"]).outcome == "absent"


def test_hand_over_to_whom(agent):
    ann = agent("ann")
    lease(ann, "acquire", ["a"])
    with pytest.raises(Conflict) as nobody:
        lease(ann, "handover")
    assert nobody.value.reason == "nobody_waits"
    with pytest.raises(NotFound):
        lease(ann, "handover", to="s-bob")
    with ann.repository.write("lease", "ann", 1) as writing:
        intents.note_prompt(writing.connection, "bob", "s-bob", "hello", ann.moment())
    got = lease(ann, "handover", to="s-bob")
    assert [(one.agent_id, one.session, one.token) for one in got.leases] == [("bob", "s-bob", 2)]
    lease(ann, "acquire", ["b", "c"])
    lease(ann, "acquire", ["d"])
    with pytest.raises(UsageError, match="2 grants, not one") as several:
        lease(ann, "handover", to="s-bob")
    assert "bede lease list" in several.value.hint
    with pytest.raises(UsageError, match="this session holds nothing that covers these paths"):
        lease(ann, "handover", ["nowhere"], to="s-bob")
    with pytest.raises(UsageError, match="there is no token, nor a session"):
        lease(agent("ann", session=""), "handover")
    # Part of what one holds by another token cannot go alone.
    lease(agent("bob"), "release")
    lease(ann, "acquire", ["."])
    with pytest.raises(Conflict) as whole:
        lease(ann, "handover", ["3"], to="s-bob")
    assert whole.value.reason == "overlaps"


def test_a_queue_is_listed(agent):
    ann = agent("ann")
    lease(ann, "acquire", ["a"])
    with ann.repository.write("lease", "ann", 1) as writing:
        waiters.join(writing.connection, Holder("bob", "s-bob"), [("a", "file")], "later", ann.moment())
    found = lease(ann)
    assert [(one.agent_id, one.wanted, one.purpose) for one in found.queue] == [("bob", ("a",), "later")]
    assert found.leases[0].waiting == 1
    assert lease(ann, "list", ["zzz"]).queue == ()


def test_a_wait_in_process_ends_with_a_grant_or_a_refusal(agent, project):
    import threading

    ann = agent("ann")
    lease(ann, "acquire", ["a"])
    got: list[Any] = []

    def wait() -> None:
        bob = Context(directory=project, agent="bob", environment={**os.environ, "BEDE_SESSION_ID": "s-bob"})
        bob._ticks = ann._ticks
        try:
            got.append(lease(bob, "acquire", ["a"], wait="30s"))
        finally:
            bob.close()

    thread = threading.Thread(target=wait)
    thread.start()
    while not lease(ann).queue:
        thread.join(0.02)
    lease(ann, "release")
    thread.join(30)
    assert (got[0].outcome, got[0].leases[0].agent_id) == ("acquired", "bob")
    assert lease(ann).queue == ()


def test_nobody_waits_longer_than_the_call_has_patience(agent):
    lease(agent("ann"), "acquire", ["a"])
    bob = agent("bob")
    bob.patience = 0.2
    with pytest.raises(Conflict) as refusal:
        lease(bob, "acquire", ["a"], wait="24h")
    assert refusal.value.retryable and lease(bob).queue == ()


def test_a_store_that_may_only_be_read(agent):
    lease(agent("ann"), "acquire", ["a"])
    reader = agent("reader", read_only=True)
    assert names(lease(reader)) == ["a"]
    with pytest.raises(TooNew):
        lease(reader, "acquire", ["b"])


# Writing under a lease


def test_what_is_written_under_a_lease_says_so(agent):
    lease(agent("ann"), "acquire", ["src/a.py", "b"])
    fenced = agent("ann", lease=1)
    store(fenced, summary=LONG)
    with fenced.repository.snapshot() as reading:
        entry = next(iter(reading.journal()))
    assert (entry.verb, entry.note) == ("store", {"lease": {"token": 1, "resources": ["b", "src/a.py"]}})
    assert fenced.repository.verify().findings == ()


@pytest.mark.parametrize("why", ["lease_lost", "not_holder", "unknown_token"])
def test_nothing_is_written_without_the_lease(agent, hand, why):
    lease(agent("ann"), "acquire", ["a"], ttl="1m")
    if why == "lease_lost":
        hand.tick(60)
    name, token = ("bob" if why == "not_holder" else "ann"), (9 if why == "unknown_token" else 1)
    fenced = agent(name, lease=token)
    before = fenced.repository.verify()
    for write in (lambda: store(fenced, summary=LONG), lambda: fork(fenced, "idea")):
        with pytest.raises(Conflict) as refusal:
            write()
        assert (refusal.value.reason, refusal.value.exit_status) == (why, 12)
    assert fenced.repository.verify() == before
    assert search(fenced, "parser").results == ()


def test_a_clock_that_was_set_lets_no_stale_write_pass(agent, hand):
    lease(agent("ann"), "acquire", ["a"], ttl="1m")
    hand.tick(61)
    hand.jump(-3600)
    with pytest.raises(Conflict):
        store(agent("ann", lease=1), summary=LONG)


def test_a_lease_is_for_one_call_of_a_shared_repository(agent):
    lease(agent("ann"), "acquire", ["a"])
    shared = agent("ann").repository
    store(agent("ann", lease=1, repository=shared), summary=LONG)
    with pytest.raises(Conflict):
        store(agent("bob", lease=1, repository=shared), summary=LONG + " indeed")
    store(agent("bob", repository=shared), summary=LONG + ", says bob")
    with shared.snapshot() as reading:
        entries = [entry for entry in reading.journal() if entry.verb == "store"]
    assert [entry.note for entry in entries] == [{}, {"lease": {"token": 1, "resources": ["a"]}}]


# At the doors


def test_on_the_command_line(bede, project):
    ann, bob = (("--session", f"s-{name}", "--agent-id", name) for name in ("ann", "bob"))
    got = bede("lease", "acquire", "a.py", "--purpose", "x", *ann, cwd=project).json()
    assert (got["schema"], got["outcome"], got["token"]) == ("lease/1", "acquired", 1)
    refused = bede("lease", "acquire", "./a.py", *bob, cwd=project)
    assert (refused.status, refused.out, refused.error()["reason"]) == (12, "", "held")
    assert "a.py" in bede("lease", "--pretty", cwd=project).out
    written = ("store", "--summary", LONG, "--agent-id")
    assert bede(*written, "bob", "--lease", "1", cwd=project).error()["reason"] == "not_holder"
    assert bede("--lease", "1", *written, "ann", cwd=project).status == 0
    for wrong in ("0", "x", "-1", str(2**63)):
        assert bede(*written, "ann", "--lease", wrong, cwd=project).status == 2
    assert bede("status", "--lease", "1", cwd=project).error()["code"] == "usage"
    assert bede("log", "--at", "coordination", "--pretty", cwd=project).out.count("lease_acquired") == 1
    assert bede("log", "--branch", "coordination", cwd=project).json()["events"][0]["kind"] == "lease_acquired"
    assert bede("verify", cwd=project).status == 0


def test_over_mcp(project):
    window = {"directory": project, "project": "", "environment": os.environ, "branch": "", "read_only": False}
    tools = Tools(window, {"all"})
    try:
        body, _, failed = tools.call("lease", {"action": "acquire", "paths": ["a.py"], "purpose": "x"}, "probe")
        assert (failed, body["outcome"], body["leases"][0]["agent_id"]) == (False, "acquired", "probe")
        body, text, failed = tools.call("lease", {"action": "acquire", "paths": ["a.py"]}, "other")
        assert (failed, body["code"], json.loads(text)) == (True, "conflict", body)
        said = {"summary": LONG, "lease": 1}
        assert tools.call("store", said, "other")[0]["reason"] == "not_holder"
        assert not tools.call("store", said, "probe")[2]
        assert not tools.call("fork", {"name": "idea", "lease": 1}, "probe")[2]
        for wrong in (0, "1", True, 1.0, 2**63, []):
            assert tools.call("store", {"summary": LONG + "!", "lease": wrong}, "probe")[0]["code"] == "usage"
        assert tools.call("status", {"lease": 1}, "probe")[0]["code"] == "usage"
        assert not tools.call("store", {"summary": LONG + ", and no lease is asked for", "lease": None}, "other")[2]
        assert not tools.call("lease", {"action": "release", "paths": ["1"]}, "probe")[2]
    finally:
        tools.close()


def test_only_what_writes_takes_a_lease_over_mcp(project):
    from bede_cli.serve import listed

    window = {"directory": project, "project": "", "environment": os.environ, "branch": "", "read_only": False}
    taken = {verb.name for verb in Tools(window, {"all"}) if "lease" in listed(verb)["inputSchema"]["properties"]}
    assert {"store", "fork", "merge", "rollback"} <= taken
    assert not {"lease", "search", "status", "context", "log"} & taken


def test_nothing_is_a_token_that_none_ever_was(agent):
    """`release 0` gave back everything that the session had."""
    context = agent("ann")
    got = lease(context, "acquire", ["a.py"])
    for word in ("0", "000", "9" * 19, "9" * 40):
        for action in ("renew", "release", "handover"):
            with pytest.raises(UsageError) as caught:
                lease(context, action, [word])
            assert "token" in caught.value.message
            assert caught.value.hint
    assert [held.token for held in lease(context).leases] == [got.token]


def test_a_session_of_no_name_is_refused_in_words(agent):
    context = agent("ann")
    with pytest.raises(UsageError) as caught:
        lease(context, "acquire", ["a.py"], session="s\u202e")
    assert caught.value.message == r"no session has such a name: 's\u202e'"


def test_who_is_to_get_it_is_told_to_a_handover_alone(agent):
    for action in ("acquire", "renew", "release", "list"):
        with pytest.raises(UsageError, match="--to means nothing") as caught:
            lease(agent("ann"), action, ["a.py"], to="s-bob")
        assert "handover" in caught.value.hint
    assert lease(agent("ann")).leases == ()


def test_when_a_lease_ends_is_told_the_same_however_often_one_asks(agent, hand):
    """The two clocks are never read at quite the same time."""
    ann, bob = agent("ann"), agent("bob")
    hand.tick(0.2)
    told = {lease(ann, "acquire", ["src"], ttl="10m").leases[0].until}
    for drift in (-3, 2, 90, -60):
        hand.wall += drift
        told.add(lease(bob).leases[0].until)
        with pytest.raises(Conflict) as refused:
            lease(bob, "acquire", ["src"])
        told.add(refused.value.to_json()["details"]["until"])
        with bob.repository.snapshot() as reading:
            told |= {work.until for work in working(reading.connection, bob.moment())}
    assert len(told) == 1 and told.pop().endswith(".000000Z")
