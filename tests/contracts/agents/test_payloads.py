"""What every agent's hook tells, sample by sample: the moment, the session, the files, whose it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from contracts.agents.samples import INVENTED, LIVE, SEEN, agent_of, event_of, files, needs_samples, payload

from bede import agents
from bede.agents.port import AFTER, BEFORE, COMPACTED, END, OTHER, PROMPT, START, STOP

HOME = "/home/dev/demo-app/"
LOADER, NOTES, SHOP = (HOME + "src/loader.py",), (HOME + "docs/notes.md",), ("/home/dev/shop/discount.py",)
PATCH = ("src/loader.py", "docs/notes.md", "src/old_name.py", "src/new_name.py", "src/unused.py")
Moments = dict[str, tuple[Any, ...]]

#: Folder → session, and of each file that is of a moment that moment and the files written; all others are of none.
TOLD: dict[Path, dict[str, tuple[str, Moments]]] = {
    INVENTED: {
        "claude-code": (
            "11111111-2222-4333-8444-555555555555",
            {
                "SessionStart": (START,),
                "SessionStart.resume": (START,),
                "SessionStart.compact": (COMPACTED,),
                "UserPromptSubmit": (PROMPT,),
                "PreToolUse.Edit": (BEFORE, LOADER),
                "PreToolUse.Edit.windows": (BEFORE, ("C:\\Users\\dev\\demo-app\\src\\loader.py",)),
                "PreToolUse.MultiEdit": (BEFORE, LOADER),
                "PreToolUse.Write": (BEFORE, NOTES),
                "PreToolUse.NotebookEdit": (BEFORE, (HOME + "explore.ipynb",)),
                "PreToolUse.subagent": (BEFORE, (HOME + "src/cli.py",)),
                "PostToolUse.Edit": (AFTER, LOADER),
                "PostToolUse.Write": (AFTER, NOTES),
                "Stop": (STOP,),
                "SessionEnd": (END,),
            },
        ),
        "codex": (
            "01999999-0000-7000-8000-000000000001",
            {
                "SessionStart": (START,),
                "SessionStart.null-transcript": (START,),
                "SessionStart.compact": (COMPACTED,),
                "UserPromptSubmit": (PROMPT,),
                "PreToolUse.apply_patch": (BEFORE, PATCH),
                "PostToolUse.apply_patch": (AFTER, PATCH),
                "Stop": (STOP,),
                "Interrupt": (STOP,),
                "SessionEnd": (END,),
            },
        ),
        "cursor": (
            "22222222-3333-4444-8555-666666666666",
            {
                "sessionStart": (START,),
                "beforeSubmitPrompt": (PROMPT,),
                "preToolUse.Write": (BEFORE, NOTES),
                "preToolUse.StrReplace": (BEFORE, LOADER),
                "postToolUse.Write": (AFTER, NOTES),
                "afterFileEdit": (AFTER, LOADER),
                "stop": (STOP,),
                "sessionEnd": (END,),
            },
        ),
        "copilot-cli": (
            "44444444-5555-4666-8777-888888888888",
            {
                "sessionStart": (START,),
                "pascal.SessionStart": (START,),
                "userPromptSubmitted": (PROMPT,),
                "pascal.UserPromptSubmit": (PROMPT,),
                "preToolUse.edit": (BEFORE, LOADER),
                "preToolUse.create": (BEFORE, NOTES),
                "pascal.PreToolUse.Edit": (BEFORE, LOADER),
                "pascal.PreToolUse.Edit-patch-string": (BEFORE, ("src/loader.py",)),
                "postToolUse.edit": (AFTER, LOADER),
                "agentStop": (STOP,),
                "pascal.Stop": (STOP,),
                "sessionEnd": (END,),
                "pascal.SessionEnd": (END,),
            },
        ),
        "vscode-local": (
            "vsc-sess-0001",
            {
                "SessionStart": (START,),
                "SessionStart.camel-base": (START,),
                "UserPromptSubmit": (PROMPT,),
                "PreToolUse.apply_patch": (BEFORE, LOADER),
                "PreToolUse.create_file": (BEFORE, NOTES),
                "PreToolUse.editFiles-doc-example": (BEFORE, ("src/loader.py",)),
                "PreToolUse.replace_string_in_file": (BEFORE, LOADER),
                "PreToolUse.multi_replace_string_in_file": (BEFORE, (*LOADER, HOME + "src/cli.py")),
                "PostToolUse.create_file": (AFTER, NOTES),
                "Stop": (STOP,),
            },
        ),
        "antigravity": (
            "55555555-6666-4777-8888-999999999999",
            {
                "PreInvocation.first": (START,),
                "PreToolUse.write_to_file": (BEFORE, NOTES),
                "PreToolUse.replace_file_content": (BEFORE, LOADER),
                "PostToolUse": (AFTER, NOTES),
                "Stop": (STOP,),
            },
        ),
        "gemini-cli": (
            "66666666-7777-4888-8999-aaaaaaaaaaaa",
            {
                "SessionStart": (START,),
                "BeforeAgent": (PROMPT,),
                "BeforeTool.replace": (BEFORE, LOADER),
                "BeforeTool.write_file": (BEFORE, NOTES),
                "AfterTool.write_file": (AFTER, NOTES),
                "AfterAgent": (STOP,),
                "SessionEnd": (END,),
            },
        ),
        "opencode": (
            "ses_0001",
            {
                "v1.experimental.chat.system.transform": (START,),
                "v2.session.context": (START,),
                "v1.chat.message": (PROMPT,),
                "v2.session.prompt": (PROMPT,),
                "v1.tool.execute.before.edit": (BEFORE, LOADER),
                "v1.tool.execute.before.write": (BEFORE, NOTES),
                "v1.tool.execute.before.apply_patch": (BEFORE, ("src/loader.py",)),
                "v2.tool.execute.before": (BEFORE, LOADER),
                "v2.permission.evaluate": (BEFORE, ("src/loader.py",)),
                "v1.tool.execute.after.write": (AFTER, NOTES),
                "v2.tool.execute.after": (AFTER, LOADER),
                "v1.event.file.edited": (AFTER, LOADER, ""),
                "v1.event.session.compacted": (COMPACTED,),
                "v1.event.session.idle": (STOP,),
                "v1.event.session.deleted": (END,),
            },
        ),
        "pi": (
            "sess-0001",
            {
                "session_start": (START,),
                "session_start.resume": (START,),
                "before_agent_start": (PROMPT,),
                "tool_call.edit": (BEFORE, ("src/loader.py",)),
                "tool_call.write": (BEFORE, NOTES),
                "tool_result.write": (AFTER, NOTES),
                "session_shutdown": (END,),
            },
        ),
        "omp": (
            "sess-0001",
            {
                "session_start": (START,),
                "session.compacting": (COMPACTED,),
                "before_agent_start": (PROMPT,),
                "tool_call.edit": (BEFORE, ("src/loader.py",)),
                "tool_call.write": (BEFORE, NOTES),
                "tool_result.write": (AFTER, NOTES),
                "session_shutdown": (END,),
            },
        ),
    },
    LIVE: {
        "claude-code": (
            "b16c73f0-b219-44fd-950b-413dab07b870",
            {
                "SessionStart.startup": (START,),
                "SessionStart.resume": (START,),
                "UserPromptSubmit": (PROMPT,),
                "PreToolUse.Write": (BEFORE, SHOP),
                "PreToolUse.Edit": (BEFORE, SHOP),
                "PostToolUse.Write": (AFTER, SHOP),
                "PostToolUse.Edit": (AFTER, SHOP),
                "Stop": (STOP,),
                "SessionEnd": (END,),
            },
        ),
        "codex": (
            "01a22c24-466f-7f20-811f-46fa6563e3e2",
            {
                "SessionStart.startup": (START,),
                "SessionStart.resume": (START,),
                "UserPromptSubmit": (PROMPT,),
                "PreToolUse.apply_patch": (BEFORE, ("discount.py",)),
                "PostToolUse.apply_patch": (AFTER, ("discount.py",)),
                "Stop": (STOP,),
                "SessionEnd": (END,),
            },
        ),
        "copilot-cli": (
            "91d99593-9276-46f3-9249-41b2ac154134",
            {
                "sessionStart.new": (START,),
                "sessionStart.resume": (START,),
                "claude-file.SessionStart": (START, (), "a12a643b-694c-48d7-9f8b-1de9d49df795"),
                "userPromptSubmitted": (PROMPT,),
                "preToolUse.create": (BEFORE, SHOP),
                "preToolUse.edit": (BEFORE, SHOP),
                "claude-file.PreToolUse.Write": (BEFORE, SHOP, "a12a643b-694c-48d7-9f8b-1de9d49df795"),
                "claude-file.PreToolUse.Edit": (BEFORE, SHOP, "a12a643b-694c-48d7-9f8b-1de9d49df795"),
                "postToolUse.create": (AFTER, SHOP),
                "postToolUse.edit": (AFTER, SHOP),
                "agentStop": (STOP,),
                "sessionEnd": (END,),
            },
        ),
        "gemini-cli": (
            "0240513c-59cd-448e-a0a3-5a852205b533",
            {
                "SessionStart.startup": (START,),
                "SessionStart.resume": (START,),
                "BeforeAgent": (PROMPT,),
                "BeforeTool.write_file": (BEFORE, SHOP),
                "BeforeTool.replace": (BEFORE, SHOP),
                "AfterTool.write_file": (AFTER, SHOP),
                "AfterTool.replace": (AFTER, SHOP),
                "AfterAgent": (STOP,),
                "SessionEnd": (END,),
            },
        ),
        "opencode": (
            "ses_dd3db66a0ffe862ah3iABgR5H8",
            {
                "experimental.chat.system.transform": (START,),
                "chat.message": (PROMPT,),
                "tool.execute.before.write": (BEFORE, SHOP),
                "tool.execute.before.edit": (BEFORE, SHOP),
                "tool.execute.after.write": (AFTER, SHOP),
                "tool.execute.after.edit": (AFTER, SHOP),
                "event.file-edited": (AFTER, SHOP, ""),
                "event.session-idle": (STOP,),
            },
        ),
        "pi": (
            "01a22c27-80f0-730f-8964-5c224c7f9d81",
            {
                "session_start.startup": (START,),
                "before_agent_start": (PROMPT,),
                "tool_call.write": (BEFORE, SHOP),
                "tool_call.edit": (BEFORE, SHOP),
                "tool_result.write": (AFTER, SHOP),
                "tool_result.edit": (AFTER, SHOP),
                "agent_end": (STOP,),
                "session_shutdown.quit": (END,),
            },
        ),
        "omp": (
            "01a22c28-0a39-73a4-b4aa-133600dcb243",
            {
                "session_start": (START,),
                "before_agent_start": (PROMPT,),
                "tool_call.write": (BEFORE, SHOP),
                "tool_call.edit": (BEFORE, ("discount.py",)),
                "tool_result.write": (AFTER, SHOP),
                "tool_result.edit": (AFTER, ("discount.py",)),
                "agent_end": (STOP,),
                "session_shutdown": (END,),
            },
        ),
    },
}
FOLDERS = [pytest.param(base, folder, id=f"{base.name}-{folder}") for base in TOLD for folder in TOLD[base]]


def read(file: Path) -> Any:
    said = payload(file)
    agent = agent_of(file)
    return agents.load(agent).read(event_of(file, said), said, SEEN.get(agent, {}))


@needs_samples
@pytest.mark.parametrize(("base", "folder"), FOLDERS)
def test_each_sample_is_of_its_moment(base: Path, folder: str) -> None:
    session, moments = TOLD[base][folder]
    met = {file.name.removesuffix(".json"): read(file) for file in files(base, folder)}
    assert {name: call.moment for name, call in met.items() if call.moment != OTHER} == {
        name: told[0] for name, told in moments.items()
    }
    for name, told in moments.items():
        call = met[name]
        assert call.paths == (told[1] if len(told) > 1 else ()), name
        assert call.session == (told[2] if len(told) > 2 else session), name
        assert call.agent == agents.named(folder) or folder == "vscode-local"
        assert bool(call.prompt) == (call.moment == PROMPT) or call.moment in (STOP, PROMPT), name
        assert call.cwd in (HOME.rstrip("/"), "/home/dev/shop", "C:\\Users\\dev\\demo-app"), name


@needs_samples
@pytest.mark.parametrize("base", [INVENTED, LIVE], ids=lambda base: str(base.name))
def test_no_folder_of_samples_is_left_out(base: Path) -> None:
    assert {entry.name for entry in base.iterdir() if entry.is_dir()} == set(TOLD[base])


@needs_samples
def test_a_sub_agent_keeps_its_session_and_has_a_name_of_its_own() -> None:
    claude = read(INVENTED / "claude-code" / "PreToolUse.subagent.json")
    assert (claude.session, claude.child) == ("11111111-2222-4333-8444-555555555555", "agent-0a1b")
    codex = agents.load("codex").read(
        "PreToolUse",
        {
            "session_id": "01999999-0000-7000-8000-000000000001",
            "transcript_path": "/x/rollout-2026-11-30T09-00-00-01999999-0000-7000-8000-000000000002.jsonl",
            "tool_name": "apply_patch",
            "tool_input": {"command": "*** Begin Patch\n*** Add File: a\n+b\n*** End Patch"},
        },
        {},
    )
    assert codex.session == "01999999-0000-7000-8000-000000000001"
    assert codex.child == "01999999-0000-7000-8000-000000000002"
    pi = agents.load("pi").read(
        "agent_end",
        {"session_file": "/s/2026-11-30T11-12-31-290Z_mother/2026-11-30T11-13-00-000Z_child.jsonl", "event": {}},
        {},
    )
    assert (pi.session, pi.child, pi.moment) == ("mother", "child", OTHER), "its end is not the session's"
    part = {"parent": "ses_mother", "input": {"event": {"type": "session.idle", "properties": {"sessionID": "ses_c"}}}}
    opencode = agents.load("opencode").read("session.idle", part, {})
    assert (opencode.session, opencode.child, opencode.moment) == ("ses_mother", "ses_c", OTHER)


@needs_samples
def test_failed_edits_are_told_from_others() -> None:
    assert not read(LIVE / "omp" / "tool_result.edit.json").failed
    wrong = payload(LIVE / "omp" / "tool_result.edit.json")
    wrong["event"]["isError"] = True
    assert agents.load("omp").read("tool_result", wrong, {}).failed
    claude = payload(LIVE / "claude-code" / "PreToolUse.Edit.json") | {"error": "no such text"}
    call = agents.load("claude-code").read("PostToolUseFailure", claude, {})
    assert (call.moment, call.failed) == (AFTER, True)


@needs_samples
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("claude-code/PreToolUse.Edit.json", "tool_input"),
        ("codex/PreToolUse.apply_patch.json", "tool_input"),
        ("copilot-cli/preToolUse.edit.json", "toolArgs"),
        ("cursor/preToolUse.Write.json", "tool_input"),
        ("vscode-local/PreToolUse.multi_replace_string_in_file.json", "tool_input"),
        ("gemini-cli/BeforeTool.replace.json", "tool_input"),
    ],
)
def test_an_input_may_be_json_in_a_string(name: str, change: str) -> None:
    said = payload(INVENTED / name)
    agent = agents.load(agent_of(INVENTED / name))
    event = event_of(INVENTED / name, said)
    plain = agent.read(event, said, {})
    for wrapped in (json.dumps(said[change]), "\ufeff" + json.dumps(said[change])):
        assert agent.read(event, said | {change: wrapped}, {}).paths == plain.paths != ()


def test_a_patch_may_be_the_whole_input_or_come_through_the_shell() -> None:
    patch = (
        "*** Begin Patch\n*** Update File: a b.py\n@@\n-x\n+*** Add File: no\n*** Move to: c.py  \n*** End Patch\r\n"
    )
    for name, event, said in (
        ("codex", "PreToolUse", {"tool_name": "functions.apply_patch", "tool_input": patch}),
        ("codex", "PreToolUse", {"tool_name": "Bash", "tool_input": {"command": f"apply_patch <<'E'\n{patch}\nE"}}),
        ("copilot", "preToolUse", {"toolName": "apply_patch", "toolArgs": patch}),
        ("cursor", "preToolUse", {"tool_name": "ApplyPatch", "tool_input": {"patch": patch}}),
        ("opencode", "tool.execute.before", {"input": {"tool": "patch"}, "output": {"args": {"patchText": patch}}}),
        ("vscode", "PreToolUse", {"tool_name": "apply_patch", "tool_input": {"input": patch.replace("\n", "\\n")}}),
    ):
        call = agents.load(name).read(event, said, {})
        assert (call.moment, call.paths) == (BEFORE, ("a b.py", "c.py")), name


def test_what_is_no_file_is_no_path() -> None:
    read = agents.load("omp").read
    for path in ("xd://mcp__notes_add", "", "a\0b", "https://example.org/x", 7, None, ["a"], "x" * 5000):
        call = read("tool_call", {"event": {"toolName": "write", "input": {"path": path}}}, {})
        assert (call.moment, call.paths) == (OTHER, ()), path
    uri = {"event": {"toolName": "write", "input": {"path": "file:///home/dev/a%20b.py"}}}
    assert read("tool_call", uri, {}).paths == ("/home/dev/a b.py",)
    drive = {"event": {"toolName": "write", "input": {"path": "file:///C:/x/a.py"}}}
    assert read("tool_call", drive, {}).paths == ("C:/x/a.py",)
    anchored = {"event": {"toolName": "edit", "input": {"input": "[a.py#A069]\nPUT 3.=3:\n+x\n[b/c.py#0EBD]\nDEL 1\n"}}}
    assert read("tool_call", anchored, {}).paths == ("a.py", "b/c.py")


def test_a_tool_that_only_shows_is_of_no_moment() -> None:
    said = {"toolName": "str_replace_editor", "toolArgs": {"command": "view", "path": "/a"}}
    assert agents.load("copilot").read("preToolUse", said, {}).moment == OTHER
    said["toolArgs"] = {"command": "str_replace", "path": "/a"}
    assert agents.load("copilot").read("preToolUse", said, {}).paths == ("/a",)


# Whose call it is


@needs_samples
@pytest.mark.parametrize(("base", "folder"), FOLDERS)
def test_a_stranger_in_claudes_hooks_is_recognised(base: Path, folder: str) -> None:
    claude = agents.load("claude-code")
    for file in files(base, folder):
        agent = agent_of(file)
        if agent in ("codex", "opencode", "pi", "omp"):
            continue  # They do not run them.
        said = payload(file)
        seen = SEEN.get(agent, {}) | ({"GEMINI_SESSION_ID": said["session_id"]} if agent == "gemini-cli" else {})
        assert claude.foreign(said, seen) == ("" if agent == "claude-code" else agent), file.name
        own = agents.load(agent)
        assert own.foreign(said, seen) == "", file.name


@needs_samples
def test_vscode_is_recognised_in_the_file_that_it_shares_with_copilot() -> None:
    copilot = agents.load("copilot")
    for file in files(INVENTED, "vscode-local"):
        assert copilot.foreign(payload(file), {}) == "vscode", file.name
    for name in ("preToolUse.edit", "agentStop", "sessionStart", "preCompact", "subagentStop", "pascal.Stop"):
        assert copilot.foreign(payload(INVENTED / "copilot-cli" / f"{name}.json"), {}) == "", name


def test_an_inherited_environment_makes_nobody_a_stranger() -> None:
    said = {"session_id": "s1", "transcript_path": "/x/s1.jsonl", "cwd": "/x", "hook_event_name": "SessionStart"}
    claude = agents.load("claude-code")
    around = {"CURSOR_VERSION": "3", "GEMINI_SESSION_ID": "other", "COPILOT_CLI": "1", "DEVIN_PROJECT_DIR": "/x"}
    assert claude.foreign(said, around | {"CLAUDE_CODE_SESSION_ID": "s1"}) == ""
    assert claude.foreign(said | {"prompt_id": "p"}, around) == ""
    assert claude.foreign(said, around) == "cursor"
    assert claude.foreign(said, {"DEVIN_PROJECT_DIR": "/x"}) not in agents.AGENTS


@needs_samples
def test_a_stranger_is_read_and_answered_as_what_it_is() -> None:
    said = payload(INVENTED / "cursor" / "preToolUse.Write.json")
    cursor = agents.load(agents.load("claude-code").foreign(said, {}))
    call = cursor.read("PreToolUse", said, {})
    assert (call.moment, call.agent, call.paths) == (BEFORE, "cursor", NOTES)
    said = payload(LIVE / "copilot-cli" / "claude-file.PreToolUse.Write.json")
    copilot = agents.load(agents.load("claude-code").foreign(said, {"COPILOT_CLI": "1"}))
    call = copilot.read("PreToolUse", said, {})
    assert (call.moment, call.agent, call.paths) == (BEFORE, "copilot", SHOP)
