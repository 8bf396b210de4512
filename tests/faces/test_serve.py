"""`bede serve`, as its clients meet it: the official one, in process and over a pipe, and the lines of real agents."""

from __future__ import annotations

import asyncio
import json
import os
import queue
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import COMMAND, Ran, surroundings
from hypothesis import given
from hypothesis import strategies as st

from bede import __version__, schemas
from bede.context import Context
from bede.operations import load, load_all
from bede_cli import pipe, serve
from bede_cli.serve import GREETING, Tools, listed, server

#: How long anything may take before a test gives up on it; nothing here is expected to take a second.
LONG = 60.0
HANDSHAKE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "probe", "version": "1"}}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "probe", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Wire:
    """A server in a process of its own, and both ends of its pipes."""

    def __init__(self, *arguments: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "serve", *arguments],
            cwd=cwd,
            env=surroundings(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self._next = 100

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(b"")

    def raw(self, *lines: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(b"".join(line + b"\n" for line in lines))
        self.process.stdin.flush()

    def say(self, method: str, params: Any = None, **more: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, **more}
        self.raw(json.dumps(message if params is None else {**message, "params": params}).encode())

    def hear(self) -> dict[str, Any]:
        """Return the next message; it has to be one whole line of JSON-RPC."""
        line = self.lines.get(timeout=LONG)
        assert line.endswith(b"\n"), line
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return message

    def ask(self, method: str, params: Any = None) -> dict[str, Any]:
        """Ask and return the answer, with the result or the error."""
        self._next += 1
        self.say(method, params, id=self._next)
        while (message := self.hear()).get("id") != self._next:
            assert "method" in message, message
        return message

    def open(self) -> Wire:
        """Shake hands in the old way."""
        assert self.ask("initialize", HANDSHAKE)["result"]["serverInfo"]["name"] == "bede"
        self.say("notifications/initialized")
        return self

    def call(self, tool: str, envelope: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
        params = {"name": tool, "arguments": arguments}
        answer = self.ask("tools/call", {**params, "_meta": envelope} if envelope else params)
        found: dict[str, Any] = answer["result"]
        assert json.loads(found["content"][0]["text"]) == found["structuredContent"]
        return found

    def end(self) -> tuple[int, list[bytes], bytes]:
        """Close the input and return the exit status, what else was said, and what stands on stderr."""
        assert self.process.stdin and self.process.stderr
        self.process.stdin.close()
        return self.ended()

    def stop(self) -> None:
        """Put the process away, whatever it does."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stderr):
            assert stream
            with suppress(OSError):
                stream.close()

    def ended(self) -> tuple[int, list[bytes], bytes]:
        assert self.process.stderr
        rest = list(iter(lambda: self.lines.get(timeout=LONG), b""))
        status = self.process.wait(timeout=LONG)
        return status, rest, self.process.stderr.read()


@pytest.fixture
def wire(project: Path) -> Iterator[Callable[..., Wire]]:
    """Start servers in the project."""
    started: list[Wire] = []

    def start(*arguments: str, **more: Any) -> Wire:
        started.append(Wire(*arguments, **more))
        return started[-1]

    yield start
    for item in started:
        item.stop()


def note(summary: str, **more: Any) -> dict[str, Any]:
    """Return the arguments of a note that the rules let pass."""
    return {"summary": summary, "learnings": ["it matters"], "task_id": "t1", **more}


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    """One server for all tests that neither start nor end one, in a project of its own."""
    home, folder = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("project")
    env = {name: value for name, value in surroundings().items() if not name.startswith(("BEDE_", "XDG_"))}
    env |= {"HOME": str(home), "USERPROFILE": str(home), "APPDATA": str(home), "LOCALAPPDATA": str(home)}
    subprocess.run([*COMMAND, "init"], cwd=folder, env=env, check=True, capture_output=True)
    server = Wire("--toolset", "all", cwd=folder, env=env).open()
    yield server
    server.stop()


# The handshake


@pytest.mark.parametrize("version", pipe.HANDSHAKES)
def test_every_version_is_shaken_hands_with(warm: Wire, version: str) -> None:
    result = warm.ask("initialize", {**HANDSHAKE, "protocolVersion": version})["result"]
    assert result["protocolVersion"] == version
    assert result["serverInfo"] == {"name": "bede", "title": "Bede", "version": __version__}
    warm.say("notifications/initialized")
    assert warm.ask("ping")["result"] == {}
    assert warm.call("status")["structuredContent"]["schema"] == "status/1"


@pytest.mark.parametrize("version", ["2026-07-28", "2031-01-01", "1.0"])
def test_a_version_without_a_handshake_is_offered_another(warm: Wire, version: str) -> None:
    assert (
        warm.ask("initialize", {**HANDSHAKE, "protocolVersion": version})["result"]["protocolVersion"] == "2025-11-25"
    )
    warm.say("notifications/initialized")
    assert "tools" in warm.ask("tools/list")["result"]


def test_a_client_may_discover_and_need_not_shake_hands(wire: Callable[..., Wire]) -> None:
    server = wire()
    found = server.ask("server/discover", {"_meta": ENVELOPE})["result"]
    assert found["supportedVersions"] == ["2026-07-28"]
    assert found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "bede"
    tools = server.ask("tools/list", {"_meta": ENVELOPE})["result"]["tools"]
    assert "search" in [tool["name"] for tool in tools]
    assert server.call("search", ENVELOPE, query="x")["isError"] is False
    assert server.end() == (0, [], b"")


def test_an_envelope_of_the_future_is_told_what_is_spoken_here(warm: Wire) -> None:
    meta = {**ENVELOPE, "io.modelcontextprotocol/protocolVersion": "2031-01-01"}
    for method in ("server/discover", "tools/list"):
        error = warm.ask(method, {"_meta": meta})["error"]
        assert error["data"] == {"supported": ["2026-07-28"], "requested": "2031-01-01"}


@pytest.mark.parametrize(
    "params", [None, {}, {"_meta": {}}, {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}]
)
def test_discovery_is_answered_whatever_its_envelope_lacks(warm: Wire, params: Any) -> None:
    assert warm.ask("server/discover", params)["result"]["supportedVersions"] == ["2026-07-28"]


@pytest.mark.parametrize("order", ["discover first", "initialize first"])
def test_both_openings_on_one_pipe(wire: Callable[..., Wire], order: str) -> None:
    """copilot-cli discovers, and shakes hands on the same pipe when that takes it too long."""
    server = wire()

    def discover() -> None:
        assert server.ask("server/discover", {"_meta": ENVELOPE})["result"]["capabilities"]
        assert server.ask("tools/list", {"_meta": ENVELOPE})["result"]["tools"]

    def initialize() -> None:
        assert server.ask("initialize", {**HANDSHAKE, "protocolVersion": "2025-11-25"})["result"]["capabilities"]
        server.say("notifications/initialized")
        assert server.ask("tools/list")["result"]["tools"]

    for step in (discover, initialize, discover) if order == "discover first" else (initialize, discover, initialize):
        step()
    stored = server.call("store", **note("said in the old way, with nothing in the request"))
    found = server.call("show", ENVELOPE, id=stored["structuredContent"]["id"])
    assert found["structuredContent"]["body"]["summary"] == "said in the old way, with nothing in the request"
    assert server.end() == (0, [], b"")


@pytest.mark.parametrize(
    "params", [{}, {"protocolVersion": 3}, {**HANDSHAKE, "clientInfo": "me"}, {**HANDSHAKE, "capabilities": []}]
)
def test_a_malformed_handshake_is_refused_and_may_be_tried_again(warm: Wire, params: Any) -> None:
    assert warm.ask("initialize", params)["error"]["code"] == -32602
    warm.open()
    assert warm.ask("tools/list")["result"]["tools"]


def window(project: Path, **more: Any) -> dict[str, Any]:
    """Return what binds tools to a project."""
    return {"directory": project, "environment": os.environ, "branch": "", "read_only": False, **more}


@pytest.fixture
def tools(project: Path) -> Iterator[Tools]:
    """Every tool there is, in the project."""
    made = Tools(window(project), {"all"})
    yield made
    made.close()


async def answer_of_the_sdk(made: Any, message: dict[str, Any]) -> dict[str, Any]:
    """Return what the SDK alone answers to the first message of a connection."""
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    feed, heard = anyio.create_memory_object_stream[Any](1)
    say, said = anyio.create_memory_object_stream[Any](1)
    async with anyio.create_task_group() as group:
        group.start_soon(made.run, heard, say, made.create_initialization_options())
        await feed.send(SessionMessage(jsonrpc_message_adapter.validate_python(message)))
        answer = await said.receive()
        group.cancel_scope.cancel()
    found: dict[str, Any] = answer.message.model_dump(by_alias=True, exclude_unset=True)
    return found


def test_what_is_answered_before_the_sdk_is_there_is_what_it_would_answer(tools: Tools) -> None:
    from mcp_types import version

    assert pipe.HANDSHAKES == version.HANDSHAKE_PROTOCOL_VERSIONS
    assert pipe.ENVELOPES == version.MODERN_PROTOCOL_VERSIONS
    openings: list[dict[str, Any]] = [
        {"method": "initialize", "params": {**HANDSHAKE, "protocolVersion": spoken}} for spoken in pipe.HANDSHAKES
    ]
    for opening in [*openings, {"method": "server/discover", "params": {"_meta": ENVELOPE}}]:
        message = {"jsonrpc": "2.0", "id": 7, **opening}
        assert GREETING.answer(message) == asyncio.run(answer_of_the_sdk(server(tools), message))


# What agents really send


#: How seven agents open, by their own traffic: protocol version, name, and what they ask before they call a tool.
LISTS = ("prompts/list", "resources/list", "resources/templates/list")
AGENTS = {
    "codex": ("2025-06-18", "codex-mcp-client", ["tools/list"]),
    "opencode": ("2025-11-25", "opencode", ["tools/list"]),
    "claude-code": ("2026-07-28", "claude-code", ["subscriptions/listen", "server/discover", *LISTS[:2], "tools/list"]),
    "gemini-cli": ("2025-06-18", "gemini-cli-mcp-client", [LISTS[0], "tools/list", LISTS[1]]),
    "pi": ("2025-11-25", "pi", ["tools/list"]),
    "omp": ("2025-11-25", "omp-coding-agent", ["tools/list", *LISTS[1:], LISTS[0]]),
    "copilot-cli": ("2026-07-28", "copilot-cli", ["subscriptions/listen", "tools/list"]),
}


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_opens_and_works(warm: Wire, agent: str) -> None:
    version, name, asked = AGENTS[agent]
    envelope: dict[str, Any] = {}
    if version in pipe.ENVELOPES:
        envelope = {"_meta": {**ENVELOPE, "io.modelcontextprotocol/clientInfo": {"name": name, "version": "1"}}}
        assert warm.ask("server/discover", envelope)["result"]["supportedVersions"] == [version]
    else:
        who = {"name": name, "title": name, "version": "1"}
        capabilities = {"roots": {"listChanged": True}, "elicitation": {"form": {}, "url": {}}}
        opening = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": who}
        assert warm.ask("initialize", opening)["result"]["protocolVersion"] == version
        warm.say("notifications/initialized")
    for method in asked:
        if method == "subscriptions/listen":
            warm.say(method, {**envelope, "notifications": {"toolsListChanged": True}}, id=f"listen:{agent}")
            assert warm.hear()["method"] == "notifications/subscriptions/acknowledged"
        else:
            answer = warm.ask(method, envelope or None)
            assert answer["error"]["code"] == -32601 if method in LISTS else answer["result"]
    stored = warm.call(
        "store", envelope.get("_meta"), **note("The discount is ten percent above a hundred", task_id=agent)
    )
    assert not stored["isError"], stored
    found = warm.call("search", envelope.get("_meta"), query="discount", task_id=agent)["structuredContent"]["results"]
    assert [item["agent_id"] for item in found] == [name]


RECORDED = Path(__file__).resolve().parents[3] / "shared" / "hook-payloads-live"


@pytest.mark.parametrize(("agent", "run"), [*((agent, "start") for agent in AGENTS), ("copilot-cli", "slow-mcp")])
def test_a_recorded_session_is_answered_to_its_end(warm: Wire, agent: str, run: str) -> None:
    """The requests of a real session, with two of its tools renamed to ours; each gets one answer, under its own id."""
    path = RECORDED / agent / "mcp-session.json"
    if not path.exists():
        pytest.skip("the recorded sessions of real agents are not beside this checkout")
    ours = {
        "remember": ("store", lambda old: note(old["text"], task_id=f"{agent}-{run}")),
        "ping": ("search", lambda old: {"query": old["word"]}),
    }
    for event in json.loads(path.read_text())[run]["events"]:
        if event["kind"] != "from_client":
            continue
        params, identity = event["params"], event["id"]
        if event["method"] == "tools/call":
            name, change = ours[params["name"]]
            params = {**params, "name": name, "arguments": change(params["arguments"])}
        warm.say(event["method"], params, **({} if identity is None else {"id": identity}))
        if identity is None:
            continue
        answer = warm.hear()
        if event["method"] == "subscriptions/listen":
            assert answer["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == identity
            continue
        assert answer["id"] == identity and type(answer["id"]) is type(identity)
        assert answer.get("error", {}).get("code") == (-32601 if event["method"] in LISTS else None)
        assert answer.get("result", {}).get("isError", False) is False, answer


# Malformed lines


def request(**more: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 5, "method": "ping", **more}).encode()


DEEP = b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"search","arguments":{"query":%s%s}}}'
MALFORMED: list[tuple[bytes, int, Any]] = [
    (b"garbage", -32700, None),
    (b'{"jsonrpc":"2.0","id":5,"method":"ping"', -32700, None),
    (b"\xff\xfe\x00", -32700, None),
    (b'{"jsonrpc":"2.0","id":5,"method":"ping","params":{"x":"\xff"}}', -32700, 5),
    (b'{"params":{"id":1,"x":"\xff"},"jsonrpc":"2.0","method":"ping","id":"a"}', -32700, "a"),
    (b'{"jsonrpc":"2.0","id":5,"method":"ping","params":{"x":NaN}}', -32700, 5),
    (b'{"jsonrpc":"2.0","id":5,"method":"ping","params":{"x":1e999}}', -32602, 5),
    (b'{"jsonrpc":"2.0","id":5,"method":"ping","params":{"x":' + b"9" * 5000 + b"}}", -32700, 5),
    (b'{"params":{"id":-Infinity},"jsonrpc":"2.0","method":"ping","id":"a"}', -32700, "a"),
    (b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}', -32700, None),
    (b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}', -32700, None),
    (b"[]", -32600, None),
    (b"[" + request() + b"," + request() + b"]", -32600, None),
    (b"null", -32600, None),
    (b"5", -32600, None),
    (b'"ping"', -32600, None),
    (b"{}", -32600, None),
    (request(jsonrpc="1.0"), -32600, 5),
    (request(jsonrpc=2), -32600, 5),
    (b'{"id":5,"method":"ping"}', -32600, 5),
    (b'{"jsonrpc":"2.0","id":5}', -32600, 5),
    (b'{"jsonrpc":"2.0"}', -32600, None),
    (request(method=5), -32600, 5),
    (request(method=None), -32600, 5),
    (request(id=None), -32600, None),
    (request(id=True), -32600, None),
    (request(id=1.5), -32600, None),
    (request(id=[1]), -32600, None),
    (request(id={"a": 1}), -32600, None),
    (request(id="\ud800"), -32600, None),
    (request(params=[1]), -32602, 5),
    (request(params="x"), -32602, 5),
    (request(params={"x": "\ud800"}), -32602, 5),
    (request(params={"\udfff": 1}), -32602, 5),
    (b'{"jsonrpc":"2.0","method":"notifications/initialized","params":[]}', -32602, None),
    (DEEP % (b"[" * 10_000, b"]" * 10_000), -32700, 5),
    (DEEP % (b'{"a":' * 5_000 + b"1", b"}" * 5_000), -32700, 5),
    (DEEP % (b"[" * 100, b"]" * 100), -32602, 5),
    (request(method="no/such/method"), -32601, 5),
    (request(method="tools/call"), -32602, 5),
    (request(method="tools/call", params={"name": 5}), -32602, 5),
    (request(method="tools/call", params={"name": "search", "arguments": "x"}), -32602, 5),
    (request(method="tools/call", params={"name": "search", "arguments": [1]}), -32602, 5),
]  # fmt: skip


@pytest.mark.parametrize(("line", "code", "identity"), MALFORMED, ids=range(len(MALFORMED)))
def test_a_malformed_line_gets_an_error_and_harms_nobody(warm: Wire, line: bytes, code: int, identity: Any) -> None:
    warm.raw(line)
    answer = warm.hear()
    deep = code == -32700 and line.count(b"[") + line.count(b"{") > 1000
    # How deep the interpreter itself can read differs from version to version; what it cannot is refused sooner.
    assert answer["error"]["code"] in ((code, -32602) if deep else (code,))
    assert answer["id"] == identity and type(answer["id"]) is type(identity)
    assert answer["error"]["message"] and len(answer["error"]["message"]) < 300
    assert warm.ask("ping")["result"] == {}


def test_what_needs_no_answer_gets_none(warm: Wire) -> None:
    warm.raw(
        b"", b"   ", b"\r",
        b'{"jsonrpc":"2.0","method":"notifications/whatever"}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":12345}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled"}',
        b'{"jsonrpc":"2.0","id":77,"result":{}}',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}',
        request() + b"\r",
    )  # fmt: skip
    assert warm.hear() == {"jsonrpc": "2.0", "id": 5, "result": {}}


_PIECES = st.sampled_from([*b'"{}[]:,\\', 0, 255, 53]).map(lambda byte: bytes([byte])) | st.sampled_from(
    [b"\\ud800", b"null", b'"id"', b'"2.0"', b'"method"']
)
_LINES = st.lists(_PIECES, max_size=12).map(b"".join) | st.binary(max_size=40) | st.builds(
    lambda at, piece: (whole := request(params={"a": [1]}))[:at] + piece + whole[at:], st.integers(0, 60), _PIECES
)  # fmt: skip


@given(_LINES)
def test_any_line_is_a_message_or_has_an_answer(line: bytes) -> None:
    try:
        message = pipe.understand(line)
    except pipe.Malformed as fault:
        assert fault.answer["error"]["code"] in (-32700, -32600, -32602)
        json.dumps(fault.answer).encode()
        assert isinstance(fault.answer["id"], (int, str, type(None)))
    else:
        assert isinstance(message.get("method", ""), str)
        json.dumps(message, ensure_ascii=False).encode()


def test_many_broken_lines_get_one_answer_each(warm: Wire) -> None:
    whole = request(id="x" * 3, params={"some": ["thing", 1.5, None, {"é": "ü"}]})
    broken = [whole[:cut] + whole[cut + 1 :] for cut in range(len(whole))]
    expected = 0
    for line in broken:
        with suppress(pipe.Malformed):
            if "id" not in pipe.understand(line):
                continue
        expected += bool(line.strip())
    warm.raw(*broken, request(id="last"))
    answers = 0
    while warm.hear()["id"] != "last":
        answers += 1
    assert answers == expected > 100


SCRIPT = """
import os, sys
from bede_cli import pipe
from bede_cli.serve import GREETING
pipe.LONGEST = 1000
ours = pipe.Pipe.claim(GREETING)
print("stray", flush=True)
sys.__stdout__.write("more\\n"); sys.__stdout__.flush()
os.system("echo child; cat")
ours.listen()
"""


def test_stdout_is_the_protocols_alone() -> None:
    opening = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "server/discover"}).encode()
    done = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT],
        input=opening + b"\n",
        env=surroundings(),
        capture_output=True,
        check=False,
    )
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1]
    assert done.stderr.split() == [b"stray", b"more", b"child"]
    assert done.returncode == 0


def test_a_line_without_end_is_told_so() -> None:
    long = request(id="long", params={"x": "y" * 5000})
    ends = [
        request(id=1, method="server/discover"),
        b"x" * 999,
        b"x" * 1000,
        long,
        b"x" * 2000,
        request(id=2, method="server/discover"),
    ]
    done = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT],
        input=b"\n".join(ends),
        env=surroundings(),
        capture_output=True,
        check=False,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(answer["id"], answer.get("error", {}).get("message")) for answer in answers] == [
        (1, None),
        (None, "not JSON: Expecting value: line 1 column 1 (char 0)"),
        (None, "the line is longer than 1000 bytes"),
        ("long", "the line is longer than 1000 bytes"),
        (None, "the line is longer than 1000 bytes"),
        (2, None),
    ]


def test_ten_megabytes_are_stored_or_refused_with_a_reason(warm: Wire) -> None:
    refused = warm.call("store", **note("word " * 2_000_000))
    assert refused["isError"] is False or refused["structuredContent"]["code"] == "rejected", refused
    unknown = warm.call("status", nonsense="\x00" * 10_000_000)
    assert unknown["structuredContent"]["message"] == "status: no argument 'nonsense'"
    assert len(json.dumps([refused, unknown])) < 10_000
    assert warm.ask("ping")["result"] == {}


# Tools


def test_every_tool_is_annotated_and_described(tools: Tools) -> None:
    expected = {verb.name for verb in load_all() if verb.effect != "host" and verb.toolset}
    found = {tool["name"]: tool for tool in map(listed, tools)}
    assert found.keys() == expected
    for verb in tools:
        tool = found[verb.name]
        assert tool["annotations"] == {
            "readOnlyHint": verb.effect == "read",
            "destructiveHint": verb.destructive,
            "idempotentHint": verb.idempotent,
            "openWorldHint": False,
        }
        assert tool["title"] and tool["description"]
        assert "Raises:" not in tool["description"] and "--" not in tool["description"]
        named = {flag.replace("-", "_") for flag in serve._FLAG.findall(verb.function.__doc__ or "")}
        assert named <= tool["inputSchema"]["properties"].keys(), "told of an argument that the tool has not"
        assert tool["inputSchema"]["type"] == tool["outputSchema"]["type"] == "object"


def test_what_an_agent_reads_with_every_session_is_short(project: Path) -> None:
    from bede.engines import tokens

    spoken = [
        [tool["name"], tool["description"], tool["inputSchema"]]
        for tool in map(listed, Tools(window(project), {"memory"}))
    ]
    assert tokens.count(json.dumps(spoken, separators=(",", ":"))) <= 1800
    assert len(json.dumps(spoken)) / 4 <= 1900
    assert tokens.count(GREETING.instructions) <= 120


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("search", {"query": "ledger table"}),
    ("search", {"kind": ["note"], "top_k": 3}),
    ("context", {"budget": 2000}),
    ("status", {}),
    ("show", {"id": "main"}),
    ("log", {"limit": 5}),
    ("branches", {}),
    ("diff", {"a": "main", "b": "main"}),
    ("verify", {}),
]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_gets_the_results_of_the_operations(
    project: Path, tools: Tools, bede: Callable[..., Ran], mode: Any
) -> None:
    from mcp import Client

    async def work() -> list[Any]:
        async with Client(server(tools), mode=mode) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == {verb.name for verb in tools}
            stored = await client.call_tool("store", note("The ledger table is locked while it is migrated"))
            assert stored.is_error is False
            # The client itself holds every result against the output schema.
            return [await client.call_tool(*call) for call in CALLS]

    answers = asyncio.run(work())
    for (verb, arguments), answer in zip(CALLS, answers, strict=True):
        assert answer.is_error is False, (verb, answer)
        assert json.loads(answer.content[0].text) == answer.structured_content
        result = load(verb).function(Context(directory=project), **arguments).to_json()
        assert _timeless(answer.structured_content) == _timeless(result)
    printed = bede("search", "ledger table", "--json").json()
    assert _timeless(printed) == _timeless(answers[0].structured_content) and printed["results"]


def _timeless(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result without scores: freshness counts in them, and a moment has passed."""
    found = json.loads(json.dumps(result))
    for item in found.get("results", ()):
        item.pop("score", None)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("name", "arguments", "code", "message"),
    [
        ("nonsense", {}, "usage", "no tool 'nonsense'"),
        ("init", {}, "usage", "no tool 'init'"),
        ("x" * 10_000, {}, "usage", f"no tool '{'x' * 80}'"),
        ("search", {"query": "x", "nonsense": 1}, "usage", "search: no argument 'nonsense'"),
        ("search", {"query": 5}, "usage", "search: query must be a string, not 5"),
        (
            "search",
            {"query": "x", "top_k": "3"},
            "usage",
            "search: top_k must be a whole number from 1 to 100, not '3'",
        ),
        ("search", {}, "usage", "nothing to search for"),
        ("show", {"id": "0000000000"}, "not_found", None),
        ("show", {}, "usage", "show: id is missing"),
        ("store", {"kind": "task_handoff", "summary": "short"}, "rejected", None),
        ("checkout", {"branch": "nowhere"}, "not_found", None),
    ],
)
def test_an_error_is_the_error_object(
    tools: Tools, name: str, arguments: dict[str, Any], code: str, message: str | None
) -> None:
    body, text, failed = tools.call(name, arguments)
    assert failed
    assert json.loads(text) == body
    assert body["schema"] == "error/1" and body["code"] == code
    assert message in (None, body["message"])
    assert body["hint"]


def test_an_error_reaches_a_client_that_holds_it_against_the_output_schema(tools: Tools) -> None:
    import jsonschema

    for verb in tools:
        body, _, failed = tools.call(verb.name, {"nonsense": 1})
        assert failed
        jsonschema.validate(body, listed(verb)["outputSchema"])


def test_a_bug_is_answered_too(
    tools: Tools, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("one by none")

    monkeypatch.setattr(schemas, "bind", broken)
    body, _, failed = tools.call("search", {"query": "x"})
    assert failed and body["code"] == "internal" and body["exit_status"] == 70
    said = capfd.readouterr()
    assert said.out == "" and json.loads(said.err)["code"] == "internal"
    monkeypatch.undo()
    assert tools.call("search", {"query": "x"})[2] is False


def test_bytes_in_a_path_that_are_no_text_harm_no_client() -> None:
    body, text = serve._written({"schema": "status/1", "root": os.fsdecode(b"/srv/caf\xe9"), "parts": ("a", None)})
    assert body == {"schema": "status/1", "root": "/srv/caf?", "parts": ["a", None]}
    assert json.loads(text.encode()) == body


@pytest.mark.parametrize(
    ("told", "client", "agent"),
    [
        ("", "claude-code", "claude-code"),
        ("reviewer", "claude-code", "reviewer"),
        ("", "Some Editor (beta) / 2", "Some-Editor-beta-2"),
        ("", "../../etc\n", "etc"),
        ("", "x" * 5000, "x" * 128),
    ],
)
def test_who_acts_is_the_one_that_was_named_or_else_the_client(
    project: Path, told: str, client: str, agent: str
) -> None:
    bound = Tools(window(project), {"memory"}, told)
    body, _, failed = bound.call("store", note("The agent's name is kept with what it says"), client)
    bound.close()
    assert not failed, body
    assert body["stored"][0]["agent_id"] == agent


def test_a_client_without_a_name_is_the_user(tools: Tools, context: Context) -> None:
    nobody = Context(directory=context.directory).actor()
    for number, client in enumerate(("", "///")):
        body, _, failed = tools.call(
            "store", note(f"Nobody in particular says number {number}, and it is kept"), client
        )
        assert not failed, body
        assert body["stored"][0]["agent_id"] == nobody


def test_a_removed_database_is_noticed_and_found_again(project: Path, tools: Tools) -> None:
    assert tools.call("status", {})[2] is False
    database = project / ".bede" / "bede.db"
    database.rename(project / "away.db")
    for _ in range(2):
        body, _, failed = tools.call("status", {})
        assert failed and body["code"] == "repository_not_found"
    (project / "away.db").rename(database)
    assert tools.call("status", {})[2] is False


def test_another_project_in_its_place_is_refused_until_it_is_back(project: Path, tools: Tools, clock: Any) -> None:
    before = tools.call("status", {})[0]["project_id"]
    database = project / ".bede" / "bede.db"
    database.rename(project / "away.db")
    for name in ("bede.db-wal", "bede.db-shm"):
        (project / ".bede" / name).unlink(missing_ok=True)
    load("init").function(Context(directory=project, clock=clock))
    body, _, failed = tools.call("store", note("This must not end in somebody else's memory unseen"))
    assert failed and body["code"] == "conflict"
    body, _, failed = tools.call("status", {})
    assert failed and body["code"] == "conflict"
    (project / "away.db").replace(database)
    for name in ("bede.db-wal", "bede.db-shm"):
        (project / ".bede" / name).unlink(missing_ok=True)
    after, _, failed = tools.call("status", {})
    assert not failed and after["project_id"] == before


def test_read_only_offers_no_tool_that_writes(project: Path, tools: Tools) -> None:
    assert tools.call("store", note("There is something to read in here now"))[2] is False
    reader = Tools(window(project, read_only=True), {"all"})
    assert {verb.effect for verb in reader} == {"read"}
    assert reader.call("store", note("This is never written by anybody at all"))[0]["message"] == "no tool 'store'"
    assert len(reader.call("search", {"query": "something"})[0]["results"]) == 1
    assert reader._repository is not None and reader._repository.read_only
    reader.close()


def test_toolsets_choose_the_tools(project: Path) -> None:
    names = {
        toolset: {verb.name for verb in Tools(window(project), {toolset})} for toolset in ("memory", "branches", "all")
    }
    assert {"search", "store", "context"} <= names["memory"]
    assert {"fork", "merge", "rollback"} <= names["branches"]
    assert not names["memory"] & names["branches"]
    assert names["memory"] | names["branches"] <= names["all"]


# The project


@pytest.mark.parametrize("arguments", [("--project", "."), ("--project", "elsewhere/deep")])
def test_without_the_project_that_was_named_it_does_not_start(
    wire: Callable[..., Wire], tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "empty" / "elsewhere" / "deep").mkdir(parents=True)
    server = wire(*arguments, cwd=tmp_path / "empty")
    status, said, told = server.ended()
    assert (status, said) == (10, [])
    error = json.loads(told)
    assert error["code"] == "repository_not_found" and error["hint"]


def test_in_no_project_it_waits_for_one(bede: Callable[..., Ran], tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "BEDE_DIR"}
    tools = Tools({"directory": folder, "environment": environment, "branch": "", "read_only": False}, {"memory"})
    body, _, failed = tools.call("status", {})
    assert failed and (body["code"], body["exit_status"]) == ("repository_not_found", 10)
    assert "bede init" in body["hint"]
    assert bede("-C", str(folder), "init", "--here").status == 0
    assert tools.call("store", note("It is kept as soon as there is a project to keep it in"))[2] is False
    tools.close()


def test_in_no_project_it_answers_and_every_call_says_what_is_missing(
    wire: Callable[..., Wire], tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    server = wire(cwd=tmp_path / "empty").open()
    assert {"search", "store"} <= {tool["name"] for tool in server.ask("tools/list")["result"]["tools"]}
    for tool in ("status", "context"):
        refused = server.call(tool)
        assert refused["isError"] and refused["structuredContent"]["code"] == "repository_not_found"


def test_only_in_no_project_one_line_on_stderr_says_so_and_what_to_do(
    bede: Callable[..., Ran], project: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    ran = bede("-C", str(tmp_path / "empty"), "serve", stdin=b"")
    assert (ran.status, ran.out) == (0, "")
    assert len(ran.err.splitlines()) == 1
    assert str(tmp_path / "empty") in ran.err and "bede init" in ran.err
    for words in (("serve",), ("serve", "--project", project.name), ("serve", "--project", str(project))):
        ran = bede(*words, stdin=b"")
        assert (ran.status, ran.out, ran.err) == (0, "", "")


def test_an_unknown_name_or_toolset_does_not_start(bede: Callable[..., Ran], project: Path) -> None:
    ran = bede("serve", "--project", "nowhere")
    assert (ran.status, ran.out, ran.error()["code"]) == (13, "", "not_found")
    ran = bede("serve", "--toolset", "memory,everything")
    assert (ran.status, ran.out, ran.error()["message"]) == (2, "", "no toolset 'everything'")
    assert "memory" in ran.error()["hint"]


def test_a_project_is_found_by_name_uuid_and_path(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = load("status").function(Context(directory=project)).to_json()
    (project / "deep" / "er").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    load("init").function(Context(directory=tmp_path / "other"))
    monkeypatch.setenv("BEDE_DIR", str(tmp_path / "other" / ".bede"))
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in (
        status["name"],
        status["project_id"],
        str(project),
        str(project / "deep" / "er"),
        f"../{project.name}",
    ):
        found = serve._window(outside, name, os.environ)
        bound = Tools({**found, "branch": "", "read_only": False}, {"memory"})
        assert bound.call("status", {})[0]["project_id"] == status["project_id"], name
        bound.close()
    assert Context(**serve._window(outside, "", os.environ)).project.root == tmp_path / "other"


def test_a_name_that_is_only_a_folder_is_that_folder(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "deep").mkdir()
    assert Context(**serve._window(project, "deep", os.environ)).project.root == project


# Beginning, waiting, ending


def test_the_official_client_over_a_pipe(project: Path) -> None:
    from mcp import Client, StdioServerParameters

    async def work() -> None:
        command = StdioServerParameters(
            command=COMMAND[0], args=[*COMMAND[1:], "serve"], env=surroundings(), cwd=project
        )
        async with Client(command) as client:
            assert [tool.name for tool in (await client.list_tools()).tools]
            stored = await client.call_tool("store", note("The official client said this over a pipe"))
            found = await client.call_tool("search", {"query": "official client pipe"})
            assert found.structured_content["results"][0]["id"] == stored.structured_content["id"]
            refused = await client.call_tool("search", {"query": "x", "nonsense": 1})
            assert refused.is_error and refused.structured_content["code"] == "usage"

    asyncio.run(work())


def test_everything_that_was_asked_is_answered_before_the_end(project: Path, bede: Callable[..., Ran]) -> None:
    lines = [json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HANDSHAKE})]
    lines.append('{"jsonrpc":"2.0","method":"notifications/initialized"}')
    for number in range(1, 21):
        said = note(f"Note number {number} of a long list of notes on the {number}th floor", task_id=f"t{number}")
        params = {"name": "store", "arguments": said}
        lines.append(json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}))
    listen = {"_meta": ENVELOPE, "notifications": {"toolsListChanged": True}}
    lines.append(json.dumps({"jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen", "params": listen}))
    ran = bede("serve", stdin="\n".join(lines))
    answers = [json.loads(line) for line in ran.out.splitlines()]
    assert (ran.status, ran.err) == (0, "")
    assert [answer["id"] for answer in answers if "result" in answer] == list(range(21))
    assert load("status").function(Context(directory=project)).events == 21


def test_nothing_asked_is_nothing_answered(bede: Callable[..., Ran], project: Path) -> None:
    ran = bede("serve")
    assert (ran.status, ran.out, ran.err) == (0, "", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, getattr(signal, "SIGHUP", signal.SIGTERM)])
def test_a_signal_ends_it_while_it_is_still_starting(wire: Callable[..., Wire], number: signal.Signals) -> None:
    server = wire()
    server.ask("server/discover")
    server.process.send_signal(number)
    assert server.ended() == (0, [], b"")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_when_it_has_nothing_to_do(wire: Callable[..., Wire], number: signal.Signals) -> None:
    server = wire().open()
    assert not server.call("store", **note("Something was written before the signal came"))["isError"]
    server.process.send_signal(number)
    assert server.ended() == (0, [], b"")


@pytest.mark.skipif(sys.platform == "win32", reason="a pipe without a reader is told otherwise there")
def test_a_client_that_is_gone_ends_it(project: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "serve"],
        cwd=project, env=surroundings(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin and process.stdout and process.stderr
    process.stdout.close()
    process.stdin.write(request(method="server/discover") + b"\n")
    process.stdin.flush()
    assert process.wait(timeout=LONG) == 0
    assert process.stderr.read() == b""
    process.stdin.close()
    process.stderr.close()


@pytest.mark.skipif(sys.platform == "win32", reason="asks a pipe how much is in it")
def test_a_signal_does_not_cut_a_line(project: Path) -> None:
    import fcntl
    import struct
    import termios

    long = json.dumps({"kind": "note", "summary": "long " * 50_000}).encode()
    subprocess.run([*COMMAND, "store", "-"], cwd=project, env=surroundings(), input=long, check=True)
    process = subprocess.Popen(
        [*COMMAND, "serve"], cwd=project, env=surroundings(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin and process.stdout
    call = {"name": "show", "arguments": {"id": "main"}, "_meta": ENVELOPE}
    process.stdin.write(
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode() + b"\n"
    )
    process.stdin.flush()
    waiting, end = 0, time.monotonic() + LONG
    while waiting < 60_000 and time.monotonic() < end:
        (waiting,) = struct.unpack("i", fcntl.ioctl(process.stdout, termios.FIONREAD, b"\0" * 4))
        time.sleep(0.001)
    process.send_signal(signal.SIGTERM)
    said = process.stdout.read()
    assert process.wait(timeout=LONG) == 0
    assert said.endswith(b"\n") and len(said) > 250_000
    assert [json.loads(line)["id"] for line in said.splitlines()] == [1]
    process.stdin.close()
    process.stdout.close()


def test_a_note_is_on_disk_when_its_answer_leaves(wire: Callable[..., Wire], bede: Callable[..., Ran]) -> None:
    server = wire().open()
    stored = server.call("store", **note("Whoever reads this knows that it was kept in time"))["structuredContent"]
    server.process.kill()
    server.process.wait()
    assert bede("show", stored["id"]).json()["body"]["summary"] == "Whoever reads this knows that it was kept in time"
    assert bede("verify").status == 0


def test_a_locked_store_keeps_nobody_waiting_but_the_writer(project: Path, wire: Callable[..., Wire]) -> None:
    other = sqlite3.connect(project / ".bede" / "bede.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    server = wire(env={"BEDE_STORE_WAIT": "1"}).open()
    params = {"name": "store", "arguments": note("This one has to wait for another writer")}
    server.say("tools/call", params, id="write")
    assert server.ask("ping")["result"] == {}
    assert server.ask("server/discover")["result"]
    assert server.ask("initialize", HANDSHAKE)["result"]
    assert server.ask("tools/list")["result"]["tools"]
    busy = server.hear()
    assert busy["id"] == "write"
    assert busy["result"]["structuredContent"]["code"] == "busy" and busy["result"]["structuredContent"]["retryable"]
    other.execute("ROLLBACK")
    other.close()
    assert server.call("store", **note("This one has to wait for another writer"))["isError"] is False
    assert server.end() == (0, [], b"")


def test_a_cancelled_call_is_not_answered_and_holds_up_no_end(project: Path, wire: Callable[..., Wire]) -> None:
    other = sqlite3.connect(project / ".bede" / "bede.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    server = wire(env={"BEDE_STORE_WAIT": "600"}).open()
    params = {"name": "store", "arguments": note("Nobody is waiting for this any more")}
    server.say("tools/call", params, id="write")
    assert server.ask("ping")["result"] == {}
    server.say("notifications/cancelled", {"requestId": "write", "reason": "the user pressed escape"})
    assert server.end() == (0, [], b"")
    other.execute("ROLLBACK")
    assert other.execute("SELECT count(*) FROM event").fetchone() == (1,)
    other.close()


def test_the_flags_reach_the_tools(wire: Callable[..., Wire], project: Path) -> None:
    server = wire("--read-only", "--toolset", "memory,branches", "--agent-id", "reviewer").open()
    tools = server.ask("tools/list")["result"]["tools"]
    assert {"search", "diff"} <= {tool["name"] for tool in tools}
    assert {tool["annotations"]["readOnlyHint"] for tool in tools} == {True}
    writer = wire("--agent-id", "reviewer", env={"BEDE_AGENT_ID": "other"}).open()
    stored = writer.call("store", **note("The reviewer says so, whatever the environment"))["structuredContent"]
    assert server.call("show", id=stored["id"])["structuredContent"]["agent_id"] == "reviewer"
    for item in (server, writer):
        assert item.end() == (0, [], b"")
