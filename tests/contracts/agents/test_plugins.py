"""The plugins of OpenCode, pi and Oh My Pi as they are installed, run by Node.js: what they send, what they act upon.

What they call reads and answers with the agents' own files, as the hook does; a table says what it answers at which
moment. The agents' side is played by a script that calls the handlers in the order in which the agents were seen to.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import surroundings

from bede import agents
from bede.agents.wiring import Machine, Wish
from bede.splice import plan

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="Node.js is not here")

DESK = """
import json, sys
from bede import agents
from bede.agents.port import Answer
event, name = sys.argv[2], sys.argv[4]
agent, payload = agents.load(name), json.load(sys.stdin)
call = agent.read(event, payload, {})
with open(PLACE + "/log", "a") as log:
    told = {key: getattr(call, key) for key in call.__slots__} | {"event": event, "words": sys.argv[1:]}
    log.write(json.dumps(told) + "\\n")
answers = json.load(open(PLACE + "/answers"))
print(agent.write(event, call, Answer(**answers.get(call.moment, {}))))
"""

PLAY = """
import { pathToFileURL } from "node:url";
const [file, script] = process.argv.slice(2);
const { default: play } = await import(pathToFileURL(script));
const plugin = await import(pathToFileURL(file));
console.log(JSON.stringify((await play(plugin)) ?? null));
"""

#: What both generations of a plugin are asked to call, as a function of the script: it returns what was thrown.
HELP = """
const trying = async (work) => {
  try { return { value: await work() } } catch (error) { return { threw: error.message } }
};
"""


class Desk:
    """One installed plugin, what it is answered, and what it told."""

    def __init__(self, name: str, folder: Path, command: list[str] | None = None) -> None:
        self.folder, self.name = folder, name
        desk = folder / "desk.py"
        desk.write_text(f"PLACE = {str(folder)!r}\n{DESK}", encoding="utf-8")
        wish = Wish(command or [sys.executable, str(desk)])
        (target,) = agents.load(name).hooks(Machine(folder), wish)
        plan.apply(plan.plan([target], install=True))
        self.text = target.file.read_text(encoding="utf-8")

    def play(self, script: str, answers: dict[str, dict[str, str]] | None = None, text: str = "") -> Any:
        """Run the agent's part against the plugin and return what it returns."""
        (self.folder / "answers").write_text(json.dumps(answers or {}), encoding="utf-8")
        (self.folder / "plugin.mjs").write_text(text or self.text, encoding="utf-8")
        (self.folder / "script.mjs").write_text(HELP + script, encoding="utf-8")
        (self.folder / "play.mjs").write_text(PLAY, encoding="utf-8")
        words = [str(NODE), *(str(self.folder / name) for name in ("play.mjs", "plugin.mjs", "script.mjs"))]
        ran = subprocess.run(words, env=surroundings(), capture_output=True, text=True, check=False, timeout=60)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    @property
    def told(self) -> list[dict[str, Any]]:
        """What was told so far."""
        log = self.folder / "log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


ANSWERS = {
    "start": {"context": "BRIEF"},
    "compacted": {"context": "BRIEF AGAIN"},
    "prompt": {"context": "HINT"},
    "before": {"reason": "held by ada"},
}

OLDER = """
export default async ({ default: { id, server, setup } }) => {
  const hooks = await server({ directory: "/w", worktree: "/w" });
  const happen = (type, properties) => hooks.event({ event: { type, properties } });
  const system = async (sessionID) => {
    const output = { system: ["You are"] };
    await hooks["experimental.chat.system.transform"]({ sessionID, model: {} }, output);
    return output.system;
  };
  const before = (tool, args, sessionID = "ses_1") =>
    trying(() => hooks["tool.execute.before"]({ tool, sessionID, callID: "c" }, { args }));
  await happen("session.created", { info: { id: "ses_1" } });
  await happen("session.created", { info: { id: "ses_2", parentID: "ses_1" } });
  // A message has a parent too, which is another message and no session.
  await happen("message.updated", { sessionID: "ses_1", info: { id: "msg_2", parentID: "msg_1", sessionID: "ses_1" } });
  const prompt = { message: { sessionID: "ses_1" }, parts: [{ type: "text", text: "do it", id: "prt_1" }] };
  await hooks["chat.message"]({ sessionID: "ses_1" }, prompt);
  const found = {
    id, setup: typeof setup, first: await system("ses_1"), second: await system("ses_1"), parts: prompt.parts,
    edit: await before("edit", { filePath: "a.py", oldString: "x".repeat(9000) }),
    child: await before("write", { filePath: "b.py", content: "y" }, "ses_2"),
    patch: await before("apply_patch", { patchText: "*** Begin Patch\\n*** Add File: c.py\\n+z\\n*** End Patch" }),
    read: await before("read", { filePath: "a.py" }),
    shell: await before("bash", { command: "ls" }),
  };
  const result = { output: "done" };
  await hooks["tool.execute.after"]({ tool: "write", sessionID: "ses_1", args: { filePath: "b.py" } }, result);
  await happen("session.compacted", { sessionID: "ses_1" });
  found.third = await system("ses_1");
  await happen("session.idle", { sessionID: "ses_2" });
  await happen("session.status", { sessionID: "ses_1", status: { type: "idle" } });
  await happen("session.idle", { sessionID: "ses_1" });
  await happen("session.status", { sessionID: "ses_1", status: { type: "busy" } });
  await happen("session.idle", { sessionID: "ses_1" });
  await happen("session.deleted", { info: { id: "ses_1" } });
  await happen("session.diff", {});
  return found;
};
"""


def test_opencodes_older_generation(tmp_path: Path) -> None:
    desk = Desk("opencode", tmp_path)
    found = desk.play(OLDER, ANSWERS)
    assert (found["id"], found["setup"]) == ("bede", "function")
    assert found["first"] == found["second"] == ["You are", "BRIEF"]
    assert found["third"] == ["You are", "BRIEF AGAIN"]
    assert found["parts"][1:] == [{"type": "text", "text": "HINT", "id": "prt_1bede", "synthetic": True}]
    assert [found[name] for name in ("edit", "child", "patch")] == [{"threw": "held by ada"}] * 3
    assert [found[name] for name in ("read", "shell")] == [{}] * 2
    told = [(each["moment"], each["session"], each["child"], tuple(each["paths"])) for each in desk.told]
    assert told == [
        ("prompt", "ses_1", "", ()),
        ("start", "ses_1", "", ()),
        ("before", "ses_1", "", ("a.py",)),
        ("before", "ses_1", "ses_2", ("b.py",)),
        ("before", "ses_1", "", ("c.py",)),
        ("after", "ses_1", "", ("b.py",)),
        ("compacted", "ses_1", "", ()),
        ("stop", "ses_1", "", ()),
        ("stop", "ses_1", "", ()),
        ("end", "ses_1", "", ()),
    ]
    assert {each["cwd"] for each in desk.told} == {"/w"}
    assert desk.told[0]["prompt"] == "do it"


NEWER = """
export default async ({ default: { setup } }) => {
  const hooks = {};
  const owner = (of) => ({ hook: async (name, work) => { hooks[`${of}.${name}`] = work } });
  const events = [
    { type: "session.created", properties: { info: { id: "ses_2", parentID: "ses_1" } } },
    { type: "session.idle", properties: { sessionID: "ses_1" } },
  ];
  const subscribe = async function* () { yield* events };
  const ctx = { location: { directory: "/w" }, permission: owner("permission"), session: owner("session"),
    tool: owner("tool"), event: { subscribe } };
  const leave = await setup(ctx);
  await new Promise((done) => setImmediate(done));
  const context = async () => {
    const event = { sessionID: "ses_1", system: [] };
    await hooks["session.context"](event);
    return event.system;
  };
  const evaluate = async (event) => { await hooks["permission.evaluate"](event); return event };
  const found = { first: await context() };
  await hooks["session.prompt"]({ sessionID: "ses_1", prompt: { text: "do it" } });
  found.second = await context();
  found.edit = await evaluate({ sessionID: "ses_1", action: "edit", resources: ["a.py"], effect: "allow" });
  found.shell = await evaluate({ sessionID: "ses_1", action: "bash", resources: ["ls"], effect: "ask" });
  found.denied = await evaluate({ sessionID: "ses_1", action: "edit", resources: ["a.py"], effect: "deny" });
  const after = { sessionID: "ses_2", tool: "edit", status: "completed", input: { filePath: "a.py" } };
  await hooks["tool.execute.after"](after);
  found.left = await trying(leave);
  found.bare = await trying(() => setup({}));
  return found;
};
"""


def test_opencodes_newer_generation(tmp_path: Path) -> None:
    desk = Desk("opencode", tmp_path)
    found = desk.play(NEWER, ANSWERS)
    assert found["first"] == [{"type": "text", "text": "BRIEF"}]
    assert found["second"] == [{"type": "text", "text": "BRIEF"}, {"type": "text", "text": "HINT"}]
    assert (found["edit"]["effect"], found["edit"]["message"]) == ("deny", "held by ada")
    assert (found["shell"]["effect"], found["denied"].get("message")) == ("ask", None)
    assert (found["left"], found["bare"]) == ({}, {})
    told = {(each["moment"], each["session"], each["child"], tuple(each["paths"])) for each in desk.told}
    assert told == {
        ("stop", "ses_1", "", ()),
        ("start", "ses_1", "", ()),
        ("prompt", "ses_1", "", ()),
        ("before", "ses_1", "", ("a.py",)),
        ("other", "ses_1", "", ()),
        ("after", "ses_1", "ses_2", ("a.py",)),
    }


FAMILY = """
export default async ({ default: extend }) => {
  const handlers = {};
  const ctx = { cwd: "/w", sessionManager: { getSessionFile: () => "/s/2026-11-30T11-11-56-145Z_s1.jsonl" } };
  extend({ on(name, work) { if (name === "session_compact") throw new Error("unknown"); handlers[name] = work } });
  const run = (name, event) => trying(() => handlers[name](event, ctx));
  const found = { names: Object.keys(handlers), start: await run("session_start", { reason: "startup" }) };
  found.prompt = await run("before_agent_start", { prompt: "do it", systemPrompt: "long" });
  found.next = await run("before_agent_start", { prompt: "more" });
  found.edit = await run("tool_call", { toolName: "edit", toolCallId: "c",
    input: { path: "a.py", input: "[a.py#A069]\\n" + "x".repeat(9000) + "\\n[b.py#0EBD]\\n" } });
  found.read = await run("tool_call", { toolName: "read", input: { path: "a.py" } });
  found.odd = await run("tool_call", undefined);
  const content = [{ type: "text", text: "ok" }];
  found.result = await run("tool_result", { toolName: "write", input: { path: "a.py" }, content, isError: true });
  found.ended = await run("agent_end", {});
  found.over = await run("session_shutdown", {});
  return found;
};
"""


@pytest.mark.parametrize("name", ["pi", "omp"])
def test_pi_and_its_kin(name: str, tmp_path: Path) -> None:
    desk = Desk(name, tmp_path)
    found = desk.play(FAMILY, ANSWERS)
    assert "session_compact" not in found["names"] and "tool_call" in found["names"]
    message = {"customType": "bede", "content": "BRIEF\n\nHINT", "display": False}
    assert found["prompt"] == {"value": {"message": message}}
    assert found["next"] == {"value": {"message": message | {"content": "HINT"}}}
    assert found["edit"] == {"value": {"block": True, "reason": "held by ada"}}
    assert all(found[other] == {} for other in ("start", "read", "odd", "result", "ended", "over"))
    told = [
        (each["moment"], each["agent"], each["session"], tuple(each["paths"]), each["failed"]) for each in desk.told
    ]
    assert told == [
        ("start", name, "s1", (), False),
        ("prompt", name, "s1", (), False),
        ("prompt", name, "s1", (), False),
        ("before", name, "s1", ("a.py", "b.py"), False),
        ("after", name, "s1", ("a.py",), True),
        ("stop", name, "s1", (), False),
        ("end", name, "s1", (), False),
    ]
    assert desk.told[3]["words"] == ["hook", "tool_call", "--agent", name]


BROKEN = {
    "gone": "",
    "fails": 'import sys; print(\'{"deny": true, "reason": "no"}\'); sys.exit(1)',
    "babbles": "print('Traceback: no JSON')",
    "null": "print('null')",
    "silent": "pass",
    "hangs": "import time; time.sleep(60)",
}


@pytest.mark.parametrize(
    ("name", "script", "how"),
    [
        *(pytest.param("opencode", OLDER, how, id=f"older-{how}") for how in BROKEN),
        *(pytest.param("opencode", NEWER, how, id=f"newer-{how}") for how in ("fails", "hangs")),
        *(pytest.param("pi", FAMILY, how, id=f"pi-{how}") for how in ("gone", "babbles", "hangs")),
    ],
)
def test_nothing_happens_when_bede_does_not_answer(name: str, script: str, how: str, tmp_path: Path) -> None:
    command = [sys.executable, "-S", "-c", BROKEN[how]] if how != "gone" else [str(tmp_path / "gone")]
    desk = Desk(name, tmp_path, command)
    found = desk.play(script, text=desk.text.replace("3000", "150").replace("10000", "150"))
    texts = json.dumps(found)
    assert "threw" not in texts and "block" not in texts and "BRIEF" not in texts
    if script is OLDER:
        assert found["first"] == ["You are"] and len(found["parts"]) == 1
    if script is NEWER:
        assert found["first"] == [] and found["edit"]["effect"] == "allow"


def test_the_command_may_hold_anything(tmp_path: Path) -> None:
    odd = '/opt/a "b" \\c/${x}\n/bede'
    desk = Desk("pi", tmp_path, [odd])
    line = next(line for line in desk.text.splitlines() if line.startswith("const COMMAND"))
    assert json.loads(line.removeprefix("const COMMAND = ").removesuffix(";")) == [odd]
    assert desk.play(FAMILY)["edit"] == {}
