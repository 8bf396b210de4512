"""The pages about agents that share a project, and the list of verbs, which has to hold all their names.

What a command can bring about is brought about by the real command; what takes two machines or hours is made of the
very records that the verbs return.
"""

from __future__ import annotations

import io
import json
import re
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Ran
from hypothesis import given
from hypothesis import strategies as st

from bede.installing import Installed, Touched
from bede.operations.attach import AttachResult
from bede.operations.brief import BriefResult
from bede.operations.bundle import BundleResult, Ref
from bede.operations.detach import DetachResult
from bede.operations.exchange import ExchangeResult, PeerView, RefusalView, StepView
from bede.operations.lease import Held, LeaseResult, Waiting
from bede.operations.notice import NoticeResult, NoticeView
from bede_cli import manual, pages, verbs
from bede_cli.__main__ import main

#: One of every kind that a terminal may obey, hide, or end a line at.
HOSTILE = "a\x1b[31m\x9b2J\x00\r\x08\u202e\u200b\u2066\ufeff\u2028\U000e0041\tz"
LONG = "/a/path/that/is/longer/than/any/terminal/is/wide/and/has/no/place/to/be/broken/at/since/it/is/copied.json"
PAST = "2020-01-02T03:04:05Z"
NUMBER = "5aa0e7de-0000-4000-8000-000000000000"
KEY = "ed25519:" + "ab" * 32

Run = Callable[..., Ran]


@pytest.fixture
def bede(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run the command line in this process and return what it wrote; pages are 80 columns wide."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*words: str) -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        status = main(list(words))
        out, err = capfdbinary.readouterr()
        return Ran(status, out.decode(), err.decode())

    return run


def render(body: dict[str, Any], *, width: int = 80, coloured: bool = False) -> str:
    return pages.render(body, width=width, coloured=coloured)


def held(resource: str = "src/a.py", **other: Any) -> Held:
    told: dict[str, Any] = {
        "scope": "file", "token": 7, "agent_id": "ada", "session": "", "purpose": "", "since": PAST, "until": PAST,
        "seconds_left": 840, "waiting": 0,
    }  # fmt: skip
    return Held(resource, **{**told, **other})


def installed(outcome: str, *files: Touched, **other: Any) -> Installed:
    told: dict[str, Any] = {
        "agent": "codex", "title": "Codex", "found": (), "notes": (), "warnings": (), "reason": "", "hint": "",
    }  # fmt: skip
    return Installed(outcome=outcome, files=files, **{**told, **other})


def exchanged(action: str, **other: Any) -> dict[str, Any]:
    told: dict[str, Any] = {
        "workspace": "team", "peer": "lap", "key": KEY, "agents": ("ada",), "folder": LONG, "peers": (),
        "introduction": f"bede exchange trust lap --key {KEY} --agent ada", "published": False, "sequence": 0,
        "changed": 0, "recovered": 0, "left_out": 0, "waiting": (), "refusals": (), "steps": (), "warnings": (),
    }  # fmt: skip
    return ExchangeResult(action, **{**told, **other}).to_json()


def bundled(outcome: str, **other: Any) -> dict[str, Any]:
    told: dict[str, Any] = {
        "file": LONG, "key": KEY, "peer": "desk", "project_id": "p", "made_at": PAST, "holds": "refs", "events": 12,
        "new": 0, "known": 0, "purged": 0, "bytes": 0, "prerequisites": (), "refs": (), "tracked": (), "merged": (),
        "dry_run": False, "warnings": (),
    }  # fmt: skip
    return BundleResult(outcome, **{**told, **other}).to_json()


def told(status: str, **other: Any) -> NoticeView:
    return NoticeView(NUMBER, status, "service:auth", "ada", "down", PAST, PAST, **other)


def noticed(action: str, *notices: NoticeView, **other: Any) -> dict[str, Any]:
    rest: dict[str, Any] = {"changed": 0, "left_out": {}, "document": None, "written": "", "warnings": ()}
    return NoticeResult(action, notices, **{**rest, **other}).to_json()


# Leases.


def test_a_lease_is_one_line(project: Path, bede: Run) -> None:
    assert bede("lease", "--pretty").out == "nobody holds anything\n"
    taken = bede("lease", "acquire", "src/a.py", "--purpose", "make it right", "--agent-id", "ada", "--pretty")
    assert [re.split(" {2,}", line) for line in taken.out.splitlines()] == [
        ["acquired, token 1"],
        ["#1", "src/a.py", "ada", "15 min left", "make it right"],
    ]
    who = ("--agent-id", "bob", "--session", "01234567-89ab-cdef-0123-456789abcdef")
    assert bede("lease", "acquire", "docs/", *who).status == 0
    listed = bede("lease", "list", "--pretty").out.splitlines()
    assert [line.split()[1] for line in listed if line[0] == "#"] == ["docs/", "src/a.py"]
    assert listed[1].split("  ")[2:4] == [f"bob ({who[-1]})", "15 min left"], "a name is whole, to be typed again"
    assert bede("lease", "release", "docs/", *who, "--pretty").out == "released docs\n"
    assert bede("lease", "release", "docs/", *who, "--pretty").out == "nothing was held\n"


def test_a_path_is_never_broken_and_never_passes_for_two() -> None:
    several = (held(LONG), held("a\nb"))
    queue = (Waiting(3, "bob", "s-2", (LONG,), "the same " * 20, PAST),)
    page = render(LeaseResult("listed", 0, several, queue, (held("elsewhere.py"),)).to_json(), width=40)
    lines = page.splitlines()
    assert f"#7  {LONG}" in lines and "#7  a\\nb" in lines
    assert lines[lines.index("the same in other worktrees") + 1].startswith("#7  elsewhere.py  ada")
    after = lines[lines.index("waiting") + 1 :]
    assert after[0] == f"bob (s-2)  came 2020-01-02  {LONG}"
    assert len(after) > 2 and all(line.startswith("    ") and len(line) <= 40 for line in after[1:])


def test_a_lease_tells_how_many_wait() -> None:
    page = render(LeaseResult("renewed", 7, (held(waiting=2, session="s-1"),), (), ()).to_json())
    assert page.splitlines() == ["renewed, token 7", "#7  src/a.py  ada (s-1)  14 min left, 2 waiting"]


# Briefs.


def test_a_brief_is_the_text_without_its_fence(project: Path, bede: Run) -> None:
    bede("lease", "acquire", "src/a.py", "--agent-id", "ada", "--session", "s-1")
    found = bede("brief", "src/a.py").json()
    page = bede("brief", "src/a.py", "--pretty").out
    inside = found["text"].split("\n")[1:-1]
    assert "bede-memory" in found["text"] and "bede-memory" not in page
    assert page.splitlines() == [*inside, f"{found['tokens']} of 1200 tokens"]
    assert page.count("ada (session s-1)") == 1


def test_a_fence_that_is_none_stays() -> None:
    made = BriefResult("main", 100, 9, {"everything": 4}, "(4 lines left out)\n</bede-memory 12>", ())
    assert render(made.to_json()).splitlines() == [
        "(4 lines left out)",
        "</bede-memory 12>",
        "9 of 100 tokens; left out: 4 of everything",
    ]


def test_a_heading_that_lacks_lines_is_told_from_the_next() -> None:
    left = {"Facts": 2, "Tasks, newest status": 1, "Hand-offs": 0, "src/a.py, commits": 3}
    for schema in ("context/1", "brief/1"):
        page = render({"schema": schema, "text": "what holds", "tokens": 9, "budget": 10, "left_out": left})
        told = "9 of 10 tokens; left out: 2 of Facts, 1 of 'Tasks, newest status', 3 of 'src/a.py, commits'"
        assert " ".join(page.splitlines()[1:]) == told


# Notices.


def test_notices_from_the_post_to_the_clearing(project: Path, bede: Run, tmp_path: Path) -> None:
    words = ("--resource", "service:auth", "--message", "down for\nan hour", "--agent-id", "ada", "--pretty")
    posted = bede("notice", "post", *words).out.splitlines()
    assert posted[0] == "posted" and re.match(r"[0-9a-f]{8}  service:auth  ada  until 20.*  event ", posted[1])
    assert posted[2:] == ["    down for", "    an hour"]
    name = posted[1].split()[0]
    listed = bede("notice", "--pretty").out.splitlines()
    assert listed[0].startswith(f"{name}  service:auth  ada  until ") and len(listed) == 3
    assert json.loads(bede("notice", "export", "--pretty").out) == bede("notice", "export").json()["document"]
    path = tmp_path / "notices.json"
    assert bede("notice", "export", "--to", str(path), "--pretty").out == f"wrote {path}\n"
    assert bede("notice", "import", str(path), "--pretty").out == "nothing new\n"
    cleared = bede("notice", "clear", name, "--agent-id", "ada", "--pretty").out.splitlines()
    assert cleared[0] == "cleared" and " cleared " in cleared[1]
    assert bede("notice", "--pretty").out == "no notices\n"


def test_a_notice_tells_its_state_and_a_list_what_it_left_out() -> None:
    kept = told("stale", peer="desk", trusted=False), told("cleared", cleared_at=PAST)
    page = render(noticed("list", *kept, left_out={"count": 3, "tokens": 90}, warnings=("the policy is unreadable",)))
    assert page.splitlines() == [
        "5aa0e7de  service:auth  ada@desk  stale, expired 2020-01-02: ask ada  not trusted",
        "    down",
        "5aa0e7de  service:auth  ada  cleared 2020-01-02",
        "    down",
        "3 more notices left out; see --budget",
        "warning: the policy is unreadable",
    ]
    assert render(noticed("import", changed=1)) == "1 notice came in or changed\n"


# Between machines.


def test_an_exchange_from_its_start_to_its_log(project: Path, bede: Run, tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    words = ("--folder", str(folder), "--workspace", "team", "--peer", "lap", "--agent-id", "ada")
    began = bede("exchange", "init", *words, "--pretty").out.splitlines()
    told = bede("exchange").json()
    assert began[:2] == [f"lap in team through {folder.resolve()}", "speaks for ada"]
    assert began[-1] == told["introduction"]
    trusted = bede("exchange", "trust", "desk", "--key", KEY, "--agent", "bob", "--pretty").out.splitlines()
    assert trusted[2:] == ["desk  never heard  speaks for bob"]
    ran = bede("exchange", "run", "--pretty").out.splitlines()
    assert ran[2].startswith("published, number ") and ran[3] == "nothing there yet of desk"
    assert bede("exchange", "run", "--pretty").out.splitlines()[2].startswith("nothing of ours is new, number ")
    audit = bede("exchange", "audit", "--pretty").out.splitlines()[3:]
    assert [re.split(" {2,}", line)[3] for line in audit] == ["published", "pinned", "began"]


def test_a_round_tells_what_came_in_and_what_was_refused() -> None:
    peers = (PeerView("desk", KEY, ("bob", "eve"), "stale", 4, PAST, PAST, "its signature does not fit"),)
    refusals = (RefusalView("desk", "signature", "the document was changed", "ask desk to publish again"),)
    did = {"published": True, "sequence": 9, "changed": 1, "recovered": 2, "left_out": 3}
    page = render(exchanged("run", peers=peers, refusals=refusals, warnings=("odd file",), **did), width=60)
    assert page.splitlines() == [
        f"lap in team through {LONG}",
        "speaks for ada",
        "published, number 9",
        "1 notice came in or changed",
        "2 notices of our own came back from the folder",
        "3 notices of our own found no room",
        "desk  stale  speaks for bob, eve, sent 2020-01-02, number 4",
        "             refused: its signature does not fit",
        "refused desk: the document was changed",
        "hint: ask desk to publish again",
        "warning: odd file",
    ]


def test_a_bundle_goes_out_and_comes_in(project: Path, bede: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.bundle"
    key = bede("bundle", "key").json()["key"]
    head = bede("show", "main").json()["id"][:10]
    assert bede("bundle", "key", "--pretty").out.splitlines()[0] == key
    planned = bede("bundle", "export", "--to", str(path), "--dry-run", "--pretty").out.splitlines()
    assert planned == [f"would write 1 event to {path}", f"  main  {head}"]
    wrote = bede("bundle", "export", "--to", str(path), "--pretty").out.splitlines()
    assert wrote == [
        f"wrote 1 event to {path}, {path.stat().st_size} bytes",
        f"  main  {head}",
        f"signed by {key}",
    ]
    came = bede("bundle", "import", str(path), "--as", "desk", "--pretty").out.splitlines()
    assert came == ["took in 0 events from desk, 1 known", f"  bundles/desk/main  created  {head}"]
    assert bede("bundle", "import", str(path), "--as", "desk", "--pretty").out == "nothing new from desk, 1 known\n"


def test_a_bundle_tells_what_moved_and_what_it_builds_on() -> None:
    moved = Ref("bundles/desk/main", "b" * 64, "a" * 64, "moved")
    stays = Ref("bundles/desk/idea", "c" * 64, "c" * 64, "unchanged")
    page = render(bundled("imported", new=5, purged=1, tracked=(moved, stays), dry_run=True))
    assert page.splitlines() == [
        "would take in 5 events from desk, 1 purged",
        f"  bundles/desk/main  moved  {'a' * 10} → {'b' * 10}",
    ]
    wrote = render(bundled("exported", prerequisites=("d" * 64,), warnings=("it holds the secret",)), width=40)
    assert wrote.splitlines()[0] == f"wrote 12 events to {LONG}"
    assert "builds on 1 event that it does not hold:" in " ".join(wrote.split()) and "d" * 11 not in wrote
    assert f"signed by {KEY}" in wrote.splitlines() and "warning: it holds the secret" in wrote


# Installs.


def test_agents_are_one_line_each_and_a_difference_is_shown_as_it_is(bede: Run, home: Path) -> None:
    for folder in (".claude", ".codex"):
        (home / folder).mkdir()
    (home / ".codex/config.toml").write_text('model = "m"\n[features]\n\tx = "' + "long " * 30 + '"\n')
    words = ("claude-code", "codex", "--dry-run")
    exact = [file["diff"] for agent in bede("attach", *words).json()["agents"] for file in agent["files"]]
    page = bede("attach", *words, "--pretty").out
    assert len(exact) == 2 and f"would be attached  {home / '.codex/config.toml'} (changed)" in page
    for diff in exact:
        shown = "\n".join(line.rstrip().expandtabs() for line in diff.splitlines())
        assert f"\n{shown}\n" in page
    done = bede("attach", "claude-code", "codex", "--pretty").out.splitlines()
    assert f"Claude Code  attached  {home / '.claude.json'} (created)" in done
    assert f"Codex        attached  {home / '.codex/config.toml'} (changed)" in done
    assert not any(line.startswith(("+", "-", "@")) for line in done)
    again = bede("attach", "codex", "--pretty").out.splitlines()
    assert again[0] == f"Codex  already so  {home / '.codex/config.toml'}"
    gone = bede("detach", "all", "--pretty").out.splitlines()
    assert f"Codex               removed  {home / '.codex/config.toml'} (changed)" in gone
    assert "Cursor              has nothing of ours" in gone


def test_hooks_have_the_same_page(bede: Run, home: Path) -> None:
    (home / ".codex").mkdir()
    done = bede("install-hooks", "--agent", "codex", "--pretty").out
    assert done.startswith(f"Codex  installed  {home / '.codex/hooks.json'} (created)\n  note: ")
    gone = bede("uninstall-hooks", "--agent", "codex", "--pretty").out
    assert gone == f"Codex  removed  {home / '.codex/hooks.json'} (deleted)\n"


def test_a_refusal_shows_what_to_put_in_by_hand(bede: Run, home: Path) -> None:
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").write_text("{")
    ran = bede("attach", "cursor", "--pretty")
    assert ran.status == 30
    lines = ran.out.splitlines()
    assert lines[0] == "Cursor  refused" and lines[1].startswith("  error: ")
    snippet = ran.out[ran.out.index("\n{\n") : ran.out.index("\n}\n") + 2]
    assert json.loads(snippet)["mcpServers"]["bede"]["args"]
    assert any(line.startswith("  hint: mend it") for line in lines)


def test_what_is_too_long_for_a_line_is_left_to_the_terminal() -> None:
    files = Touched(LONG, "changed", ""), Touched("/other", "unchanged", "")
    item = installed("changed", *files, notes=(f"look into {LONG} first",), warnings=("short words only " * 5,))
    page = render(AttachResult("user", ("bede",), (item,), True, (f"{LONG} is new",)).to_json(), width=50)
    lines = page.splitlines()
    assert lines[:2] == [f"Codex  would be changed  {LONG} (changed)", "       /other"]
    assert f"  note: look into {LONG} first" in lines and f"warning: {LONG} is new" in lines
    wrapped = lines[2 : lines.index(f"  note: look into {LONG} first")]
    assert len(wrapped) > 1 and all(line.startswith("  ") and len(line) <= 50 for line in wrapped)


def test_no_agents_are_told_too() -> None:
    assert render(DetachResult((), False).to_json()) == "no agent was asked\n"
    nobody = AttachResult("user", ("bede",), (), False, ("none was found",))
    assert render(nobody.to_json()) == "warning: none was found\n"
    skipped = installed("skipped", reason="no sign of it on this machine", hint="'bede attach codex' does it")
    page = render(AttachResult("user", ("bede",), (skipped, installed("attached")), False, ()).to_json())
    assert page.splitlines() == [
        "Codex  skipped: no sign of it on this machine",
        "Codex  attached",
        "what is skipped is done all the same for an agent that is named",
    ]
    absent = AttachResult("project", ("bede",), (installed("absent"),), False, ())
    assert render(absent.to_json()) == "Codex  has no such place\n"


# All of them.

BODIES: dict[str, dict[str, Any]] = {
    "lease": LeaseResult("acquired", 7, (held(session="s", purpose="p"),), (Waiting(1, "b", "s", ("x",), "p", PAST),),
                         (held(LONG),)).to_json(),
    "released": LeaseResult("released", 7, (held(),), (), ()).to_json(),
    "brief": BriefResult("main", 100, 9, {"everything": 4}, "<bede-memory 12>\n- x\n</bede-memory 12>", ()).to_json(),
    "notice": noticed("list", told("active", peer="p", event="e"), told("stale"), told("cleared", cleared_at=PAST),
                      warnings=("w",), left_out={"count": 1}),
    "export": noticed("export", document={"a": ["b"]}, written="f"),
    "exchange": exchanged("run", peers=(PeerView("d", KEY, ("b",), "fresh", 4, PAST, PAST, "f"),), waiting=("w",),
                          refusals=(RefusalView("d", "r", "m", "h"),), warnings=("w",), published=True),
    "audit": exchanged("audit", steps=(StepView("i", PAST, "a", "p", "o", "r", 1, 1),)),
    "status": exchanged("status"),
    "bundle": bundled("exported", bytes=1, purged=1, prerequisites=("x",), refs=(Ref("r", "h", "", ""),)),
    "imported": bundled("imported", new=1, known=1, purged=1, tracked=(Ref("r", "h", "b", "moved"),), warnings=("w",)),
    "key": bundled("key"),
    "agents": AttachResult("user", ("c",), (installed("refused", reason="r", hint="h\nsnippet", notes=("n",)),
                           installed("attached", Touched("p", "changed", "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n z\n"),
                                     warnings=("w",))), True, ("w",)).to_json(),
}  # fmt: skip
#: What decides which page it is, and is a word of ours.
FIXED = ("schema", "action", "outcome", "status", "scope")


def poisoned(value: Any, text: str) -> Any:
    """Return a result in which every text of somebody else's is followed by another."""
    if isinstance(value, dict):
        return {key: item if key in FIXED else poisoned(item, text) for key, item in value.items()}
    if isinstance(value, list):
        return [poisoned(item, text) for item in value]
    return value + text if isinstance(value, str) and value else value


@pytest.mark.parametrize("name", BODIES)
@given(text=st.text(st.sampled_from(HOSTILE), max_size=20) | st.just(HOSTILE), width=st.integers(20, 120))
def test_no_text_acts_on_the_terminal(name: str, text: str, width: int) -> None:
    page = render(poisoned(BODIES[name], text), width=width)
    bad = {char for char in page if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    assert bad <= {"\n"}


@pytest.mark.parametrize("name", BODIES)
def test_colour_only_adds_colour(name: str) -> None:
    coloured, without = render(BODIES[name], coloured=True), render(BODIES[name])
    assert "\x1b[" in coloured and "\x1b" not in without
    assert re.sub("\x1b\\[[0-9;]*m", "", coloured).split() == without.split()


def test_a_difference_is_coloured_by_its_marks() -> None:
    lines = render(BODIES["agents"], coloured=True).splitlines()
    styled = {re.sub("\x1b\\[[0-9;]*m", "", line): line for line in lines}
    assert "\x1b[1m" in styled["--- a"] and "\x1b[1m" in styled["+++ b"]
    assert "\x1b[31m" in styled["-x"] and "\x1b[32m" in styled["+y"] and "\x1b[36m" in styled["@@ -1 +1 @@"]
    assert "\x1b" not in styled[" z"]


@pytest.mark.parametrize("verb", ["attach", "brief", "bundle", "detach", "exchange", "install-hooks", "lease", "notice",
                                  "uninstall-hooks"])  # fmt: skip
def test_every_such_verb_has_a_page(verb: str) -> None:
    schema = str(getattr(verbs.find(verb).result(), "SCHEMA", ""))
    assert schema.partition("/")[0] == verb and verb in pages.PAGES


# The list of verbs.


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_the_list_of_verbs_keeps_its_column_and_its_width(width: int) -> None:
    lines = manual.contents(width=width).splitlines()
    assert max(map(len, lines)) <= min(width, 100)
    entries = [line for line in lines[4:] if line.startswith("  ")]
    named = [line.split()[0] for line in entries if line[2] != " "]
    assert named == list(verbs.HEADINGS)
    column = max(map(len, verbs.HEADINGS)) + 4
    assert all(line[column - 2 : column] == "  " and line[column] != " " for line in entries)
