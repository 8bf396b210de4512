"""A lock's session and its transcript's session are one: what a hook reads is what the transcript's reader says.

The seven agents that were really run left both behind; of the others, transcripts in their format are read and the
hook is told of the same files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from contracts.agents.samples import AGENTS, LIVE, SHARED, event_of, files, needs_samples, payload

from bede import agents
from bede.agents.port import OTHER
from bede.sessions import parent_of, session_of
from bede.sources import jsonl, source
from bede.sources.port import Item, Session, Spot, Tally

RUNS, MADE = SHARED / "transcripts-live", SHARED / "transcripts" / "synthetic"
needs_transcripts = pytest.mark.skipif(
    not RUNS.is_dir() or not MADE.is_dir(), reason="the samples of transcripts are not beside this checkout"
)
#: Agent → where its transcripts of a run lie below the home.
PLACES = {
    "claude-code": ".claude/projects/*/*.jsonl",
    "codex": ".codex/sessions/**/*.jsonl",
    "copilot-cli": ".copilot/session-state/*/events.jsonl",
    "gemini-cli": ".gemini/tmp/*/chats/*.jsonl",
    "opencode": ".local/share/opencode/opencode.db",
    "pi": ".pi/agent/sessions/*/*.jsonl",
    "omp": ".omp/agent/sessions/*/*.jsonl",
}


def items(agent: str, file: Path) -> list[Item]:
    """Return what the agent's reader makes of a transcript."""
    reader: Any = source(agents.TRANSCRIPTS.get(agent, agent))
    if reader.FORM == "document":
        return list(reader.load(file, Tally()))
    found: list[Item] = []
    state: dict[str, Any] = {}
    with file.open("rb") as stream:
        for spot, record in jsonl.records(stream, file, jsonl.Cursor(), Tally()):
            found += reader.take(record, spot, state, Tally())
    return found


def sessions(agent: str, file: Path) -> dict[str, str]:
    """Return the sessions of a transcript, each with the one that it came out of as a sub-agent."""
    told = [(item.session, item.what) for item in items(agent, file) if isinstance(item.what, Session)]
    return {name: what.parent if what.origin == "subagent" else "" for name, what in told}


@needs_samples
@needs_transcripts
@pytest.mark.parametrize("folder", PLACES)
def test_the_hooks_of_a_real_run_name_the_session_of_its_transcript(folder: str) -> None:
    agent = AGENTS.get(folder, folder)
    transcripts = [file for file in RUNS.glob(f"{folder}/*/home/{PLACES[folder]}") if file.is_file()]
    known = {name for file in transcripts for name in sessions(agent, file)}
    assert known
    named = set()
    for file in files(LIVE, folder):
        said = payload(file)
        call = agents.load(agent).read(event_of(file, said), said, {})
        if call.moment != OTHER and not file.name.startswith(("claude-file", "event.file-edited")):
            named.add(call.session)
    assert named and named <= known


@needs_samples
@needs_transcripts
@pytest.mark.parametrize("folder", [name for name in PLACES if name not in ("opencode", "gemini-cli")])
def test_the_file_alone_names_the_same_session(folder: str) -> None:
    """OpenCode keeps all sessions in one file, and Gemini's bears a part of the id: both always tell the id."""
    agent = AGENTS.get(folder, folder)
    for file in RUNS.glob(f"{folder}/*/home/{PLACES[folder]}"):
        for path in (str(file), "C:\\Users\\dev\\" + str(file).replace("/", "\\")):
            assert {session_of(agent, path)} == sessions(agent, file).keys()


MADE_FILES = [
    ("cursor", "cursor/projects/*/agent-transcripts/8*/8*.jsonl", "preToolUse.Write", "conversation_id"),
    ("antigravity", "antigravity/brain/*/.system_generated/logs/*.jsonl", "PreToolUse.write_to_file", "conversationId"),
    ("vscode", "copilot-vscode/workspaceStorage/*/chatSessions/*.jsonl", "PreToolUse.create_file", "session_id"),
]


@needs_samples
@needs_transcripts
@pytest.mark.parametrize(("agent", "pattern", "sample", "key"), MADE_FILES)
def test_agents_that_could_not_be_run(agent: str, pattern: str, sample: str, key: str) -> None:
    folder = "vscode-local" if agent == "vscode" else agent
    said = payload(SHARED / "hook-payloads" / folder / f"{sample}.json")
    transcripts = list(MADE.glob(pattern))
    assert transcripts
    for file in transcripts:
        (session,) = sessions(agent, file)
        told = said | {key: session, "session_id": session, "transcript_path": None, "transcriptPath": None}
        read = agents.load(agent).read
        assert read(sample.split(".")[0], told, {}).session == session
        bare = {name: value for name, value in said.items() if name not in (key, "session_id")}
        bare |= {"transcript_path": str(file), "transcriptPath": str(file)}
        assert read(sample.split(".")[0], bare, {}).session == session


@needs_transcripts
def test_a_sub_agent_of_cursors_is_known_by_its_place() -> None:
    (file,) = MADE.glob("cursor/projects/*/agent-transcripts/8*/subagents/9*.jsonl")
    ((session, parent),) = sessions("cursor", file).items()
    assert (session, parent) == (session_of("cursor", str(file)), parent_of("cursor", str(file)))
    assert parent == file.parent.parent.name


def test_one_sub_agent_of_pis_under_the_run_of_another() -> None:
    file = "/home/dev/.omp/agent/sessions/-x/2026-11-30T11-12-31-290Z_mother/2026-11-30T11-13-00-000Z_child.jsonl"
    for agent in ("pi", "omp"):
        assert (session_of(agent, file), parent_of(agent, file)) == ("child", "mother")
        assert parent_of(agent, file.replace("2026-11-30T11-12-31-290Z_mother", "plain_folder")) == ""


@pytest.mark.parametrize(
    ("agent", "path", "session"),
    [
        ("claude-code", "/p/s1.jsonl", "s1"),
        ("claude-code", "/p/s1/subagents/agent-7.jsonl", "s1"),
        ("claude-code", "/p/s1/subagents/workflows/wf/agent-7.jsonl", "s1"),
        ("claude-code", "agent-7.jsonl", "agent-7"),
        (
            "codex",
            "/s/rollout-2026-11-30T09-00-00-01999999-0000-7000-8000-000000000001.jsonl.zst",
            "01999999-0000-7000-8000-000000000001",
        ),
        ("codex", "/s/rollout-old.jsonl", "rollout-old"),
        ("copilot", "/state/abc/events.jsonl", "abc"),
        ("vscode", "/w/transcripts/abc.jsonl", "abc"),
        ("antigravity", "/b/c1/.system_generated/logs/transcript_full.jsonl", "c1"),
        ("antigravity", "/conversations/c1.db", "c1"),
        ("opencode", "/share/opencode/opencode.db", ""),
        ("opencode", "/storage/session/p/ses_1.json", "ses_1"),
        ("gemini-cli", "/chats/session-1.jsonl", "session-1"),
        ("nobody", "/x/y.z.jsonl", "y.z"),
        ("pi", "", ""),
        ("pi", "/", ""),
    ],
)
def test_names_of_files(agent: str, path: str, session: str) -> None:
    assert session_of(agent, path) == session
    assert session_of(agent, path.replace("/", "\\")) == session
    assert session_of(agent, path, "told") == "told"
    assert session_of(agent, path, "x" * 5000) == session


def test_a_transcript_without_ids_is_named_by_its_file() -> None:
    claude: Any = source("claude-code")
    path = Path("/p/s1/subagents/agent-7.jsonl")
    record = {"type": "user", "message": {"role": "user", "content": "do it"}, "uuid": "u", "isSidechain": True}
    found = claude.take(record, Spot(path, 1, 0), {}, Tally())
    assert {item.session for item in found} == {"s1/7"}
