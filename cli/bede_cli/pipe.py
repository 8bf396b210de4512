"""Standard input and output, as an MCP server needs them: nobody else's, and never silent.

A line that is no message is answered here with what is wrong about it. A request that opens a conversation is
answered here too, at once: a client may wait no longer than a second or two for that, and the SDK takes half of one to
import. All else waits in order for whoever takes it. Knows JSON-RPC and the two openings of MCP, nothing of tools.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, BinaryIO, NoReturn

from bede.errors import Unavailable, UsageError
from bede.identity import canonical
from bede_cli import terminal

Message = dict[str, Any]

#: The protocol versions that open with `initialize`, and those whose requests each carry their own envelope. An
#: opening that asks for any other is left to the SDK, which may be newer than this list.
HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
ENVELOPES = ("2026-07-28",)
_RESERVED = "io.modelcontextprotocol/"
_VERSION = _RESERVED + "protocolVersion"

PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS = -32700, -32600, -32602
#: The longest line that is read: 10 MB of text, each character spelt `\u0000`, and some.
LONGEST = 64 * 2**20
#: How long a line that is being written may hold up the end, in seconds.
_PATIENCE = 1.0
#: Never answered while the connection lives, so that nobody waits for it at the end.
_ENDLESS = ("subscriptions/listen",)


class Malformed(Exception):
    """A line that cannot be served: what is wrong, as JSON-RPC says it, and the id where it can be read."""

    def __init__(self, code: int, message: str, identity: int | str | None = None) -> None:
        super().__init__(message)
        self.answer: Message = {"jsonrpc": "2.0", "id": identity, "error": {"code": code, "message": message}}


@dataclass(frozen=True, slots=True)
class Greeting:
    """How a server introduces itself."""

    name: str
    title: str
    version: str
    instructions: str

    def answer(self, message: Message) -> Message | None:
        """Return the answer to a request that opens a conversation; None where the SDK has to find it.

        `server/discover` asks what is spoken here, so it is answered also where its own envelope is not complete.
        """
        params = message.get("params") or {}
        result: Message | None = None
        if message["method"] == "initialize" and _is_plain_handshake(params):
            result = self._initialized(params["protocolVersion"])
        elif message["method"] == "server/discover" and _envelope(params).get(_VERSION) in (None, *ENVELOPES):
            result = self._discovered()
        return result and {"jsonrpc": "2.0", "id": message["id"], "result": result}

    def _initialized(self, version: str) -> Message:
        return {
            "protocolVersion": version,
            "capabilities": {"tools": {"listChanged": False}},
            "serverInfo": self._about(),
            "instructions": self.instructions,
        }

    def _discovered(self) -> Message:
        return {
            "supportedVersions": list(ENVELOPES),
            "capabilities": {"tools": {"listChanged": True}},
            "instructions": self.instructions,
            "resultType": "complete",
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {_RESERVED + "serverInfo": self._about()},
        }

    def _about(self) -> Message:
        return {"name": self.name, "title": self.title, "version": self.version}


def _is_plain_handshake(params: Message) -> bool:
    who = params.get("clientInfo")
    return (
        params.get("protocolVersion") in HANDSHAKES
        and isinstance(params.get("capabilities"), dict)
        and isinstance(who, dict)
        and isinstance(who.get("name"), str)
        and isinstance(who.get("version"), str)
    )


def _envelope(params: Any) -> Message:
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta if isinstance(meta, dict) else {}


def is_enveloped(message: Message) -> bool:
    """Tell whether a request carries its own protocol version, as all but `initialize` do since 2026-07-28."""
    return message["method"] != "initialize" and _VERSION in _envelope(message.get("params"))


def understand(line: bytes) -> Message:
    """Return the message in a line: a request, a notification or an answer, of the right shape.

    Raises:
        Malformed: it is none.
    """
    try:
        message = json.loads(line.decode(), parse_constant=_refuse)
    except UnicodeDecodeError as error:
        raise Malformed(PARSE_ERROR, f"not UTF-8: byte {error.start} of the line", _plain_id(line)) from error
    except RecursionError as error:
        raise Malformed(PARSE_ERROR, "nested too deep", _plain_id(line)) from error
    except _NoNumber as error:
        raise Malformed(PARSE_ERROR, f"not JSON: {error}", _plain_id(line)) from error
    except json.JSONDecodeError as error:
        raise Malformed(PARSE_ERROR, f"not JSON: {error}") from error
    except ValueError as error:  # JSON sets numbers no limit, Python does.
        raise Malformed(PARSE_ERROR, "a number has too many digits", _plain_id(line)) from error
    if not isinstance(message, dict):
        raise Malformed(INVALID_REQUEST, "a message is one JSON object on one line; batches are not served")
    _check_shape(message)
    try:
        canonical(message)
    except UsageError as error:
        raise Malformed(INVALID_PARAMS, error.message, _id(message)) from error
    return message


class _NoNumber(ValueError):
    """A name that some write in place of a number, in a line that is JSON otherwise."""


def _refuse(name: str) -> NoReturn:
    raise _NoNumber(f"{name} is no JSON number")


def _check_shape(message: Message) -> None:
    identity = _id(message)
    if message.get("jsonrpc") != "2.0":
        raise Malformed(INVALID_REQUEST, 'jsonrpc must be "2.0"', identity)
    if "method" not in message and ("result" in message or "error" in message):
        return
    if not isinstance(message.get("method"), str):
        raise Malformed(INVALID_REQUEST, "method must be a string", identity)
    if "id" in message and identity is None:
        raise Malformed(INVALID_REQUEST, "id must be a string or a whole number")
    if not isinstance(message.get("params"), (dict, type(None))):
        raise Malformed(INVALID_PARAMS, "params must be an object", identity)


def _id(message: Message) -> int | str | None:
    """Return a message's id if it is one that can be given back."""
    identity = message.get("id")
    if isinstance(identity, str):
        return identity if identity == identity.encode(errors="replace").decode() else None
    return identity if isinstance(identity, int) and not isinstance(identity, bool) else None


#: A string, whole or cut off; a mark; anything else. Possessive, so that no line can make it go back and forth.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[{}\[\]:,]|[^\s{}\[\]:,"]++', re.DOTALL)


def _plain_id(line: bytes) -> int | str | None:
    """Return the id of a message that cannot be read whole, so that whoever waits for its answer gets one."""
    depth, last = 0, (b"", b"")
    for found in _TOKEN.finditer(line):
        token = found.group()
        if depth == 1 and last == (b'"id"', b":"):
            with suppress(ValueError):
                return _id({"id": json.loads(token)})
        depth += (token in (b"{", b"[")) - (token in (b"}", b"]"))
        last = (last[1], token)
    return None


class Pipe:
    """The conversation with one client, over two descriptors.

    `listen` is for a thread of its own, `take` and `send` for whoever serves. When the input has ended and nothing is
    owed any more, or at `leave`, the process ends with status 0: clients end a server unasked, and that is no fault.
    """

    def __init__(self, source: BinaryIO, sink: int, greeting: Greeting) -> None:
        self._source = source
        self._sink = sink
        self._greeting = greeting
        self._waiting: SimpleQueue[Message] = SimpleQueue()
        self._writing = threading.RLock()
        self._books = threading.Lock()
        self._owed: Counter[int | str | None] = Counter()
        self._over = False
        #: The id under which the SDK is told of an `initialize` that was answered already; no client can guess it.
        self._told = f"greeted-{os.urandom(8).hex()}"
        #: What is to be put away before the process ends.
        self.farewell: Callable[[], None] = lambda: None

    @classmethod
    def claim(cls, greeting: Greeting) -> Pipe:
        """Take standard input and output for the conversation alone.

        Whoever reads standard input from now on, a child process too, finds its end; what is printed goes to stderr.

        Raises:
            Unavailable: one of them is closed.
        """
        try:
            source, sink = os.dup(0), os.dup(1)
        except OSError as error:
            raise Unavailable("standard input or output is closed", hint="an MCP client starts 'bede serve'") from error
        with suppress(OSError, AttributeError):
            os.set_blocking(source, True)
            os.set_blocking(sink, True)
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        try:
            os.dup2(2, 1)
        except OSError:
            os.dup2(nowhere, 1)
        os.close(nowhere)
        return cls(os.fdopen(source, "rb"), sink, greeting)

    def listen(self) -> None:
        """Take in lines until there are no more."""
        for line in self._lines():
            try:
                message = understand(line)
            except Malformed as fault:
                self._write(fault.answer)
            else:
                self._hear(message)
        with self._books:
            self._over = True
        self._end_when_done()

    def _lines(self) -> Iterator[bytes]:
        """Yield the lines that say anything; of one that is too long, say so."""
        with suppress(OSError):
            while line := self._source.readline(LONGEST):
                if len(line) == LONGEST and not line.endswith(b"\n"):
                    while (rest := self._source.readline(LONGEST)) and not rest.endswith(b"\n"):
                        pass
                    fault = Malformed(PARSE_ERROR, f"the line is longer than {LONGEST} bytes", _plain_id(line))
                    self._write(fault.answer)
                elif line.strip():
                    yield line

    def _hear(self, message: Message) -> None:
        if "method" not in message:
            return  # An answer, and nothing is ever asked.
        answer = self._greeting.answer(message) if "id" in message else None
        if answer:
            self._write(answer)
            if message["method"] == "initialize":
                self._waiting.put(self._introduction(message["params"]))
            return
        with self._books:
            if "id" in message and message["method"] not in _ENDLESS:
                self._owed[message["id"]] += 1
            elif message["method"] == "notifications/cancelled":
                self._owed.pop(_id({"id": (message.get("params") or {}).get("requestId")}), None)
        self._waiting.put(message)

    def _introduction(self, params: Message) -> Message:
        """Return the `initialize` that the SDK hears: the least it needs, so that it refuses nothing we answered."""
        who = {"name": params["clientInfo"]["name"], "version": params["clientInfo"]["version"]}
        told = {"protocolVersion": params["protocolVersion"], "capabilities": {}, "clientInfo": who}
        return {"jsonrpc": "2.0", "id": self._told, "method": "initialize", "params": told}

    def take(self) -> Message:
        """Wait for the next message that is not answered yet, and return it."""
        return self._waiting.get()

    def send(self, message: Message) -> None:
        """Write a message of the server's. A client that is gone ends the process."""
        identity = message.get("id")
        if identity == self._told:
            return
        self._write(message)
        if "method" in message:
            return
        with self._books:
            left = self._owed.pop(identity, 0) - 1
            if left > 0:
                self._owed[identity] = left
        self._end_when_done()

    def _write(self, message: Message) -> None:
        data = memoryview(terminal.line(message))
        with self._writing:
            try:
                while data:
                    data = data[os.write(self._sink, data) :]
            except BrokenPipeError:
                self.leave()
            except OSError as error:
                # Nobody hears what is said here, but whoever looks for the reason finds it.
                fault = Unavailable(f"the answer could not be written: {error.strerror}", hint="check standard output")
                with suppress(OSError):
                    os.write(2, terminal.line(fault.to_json()))
                self.leave(fault.exit_status)

    def _end_when_done(self) -> None:
        with self._books:
            done = self._over and not self._owed
        if done:
            self.leave()

    def leave(self, status: int = 0) -> NoReturn:
        """End the process at once, though not in the middle of a line.

        Nothing is lost by that: what was acknowledged is on disk, and what was not is there as a whole or not at all.
        """
        self._writing.acquire(timeout=_PATIENCE)
        try:
            self.farewell()
        finally:
            os._exit(status)
