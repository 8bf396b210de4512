"""A stand-in for a model provider on 127.0.0.1 that plays a script over whichever protocol the client speaks.

OpenAI Responses, OpenAI Chat Completions, Anthropic Messages and Gemini, each as a stream or at once; listings of
models and counts of tokens besides. Anything else is answered with a harmless object.
"""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from live.script import Script
from live.tools import Json
from live.wires import WIRES

#: End of a path → protocol, and whether it says by itself that a stream is wanted.
_ENDS = {
    "/responses": ("responses", False),
    "/chat/completions": ("chat", False),
    "/messages": ("anthropic", False),
    ":streamGenerateContent": ("gemini", True),
    ":generateContent": ("gemini", False),
}


class Model(ThreadingHTTPServer):
    """The server; `script` may be exchanged between runs."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = Script()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def close(self) -> None:
        """Stop listening."""
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Let a client go that had what it needed."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Model

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        if urlsplit(self.path).path.rstrip("/").endswith("/models"):
            name = "scripted-model"
            self._json({"object": "list", "data": [{"id": name, "object": "model"}], "models": [{"name": name}]})
        else:
            self._json({"ok": True})

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        try:
            body = json.loads(self._body() or b"{}")
        except ValueError:
            self._json({"error": {"message": "the body is not JSON", "type": "invalid_request_error"}}, 400)
            return
        path = urlsplit(self.path).path.rstrip("/")
        if path.endswith(("/count_tokens", ":countTokens")):
            self._json({"input_tokens": 120, "totalTokens": 120})
            return
        found = next((wire for end, wire in _ENDS.items() if path.endswith(end)), None)
        if found is None:
            self._json({"ok": True})
            return
        self._play(found[0], body, found[1] or bool(body.get("stream")))

    def _play(self, api: str, body: Json, is_stream: bool) -> None:
        script = self.server.script
        text, calls = script.answer(api, body)
        uid = f"live{len(script.requests):04d}"
        whole, events = WIRES[api]
        if not is_stream:
            self._json(whole(body, text, calls, uid))
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        with suppress(OSError):
            for name, data in events(body, text, calls, uid):
                head = f"event: {name}\n" if name else ""
                self.wfile.write(f"{head}data: {json.dumps(data)}\n\n".encode())
                self.wfile.flush()
            if api == "chat":
                self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def _body(self) -> bytes:
        if "chunked" not in (self.headers.get("Transfer-Encoding") or "").lower():
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        data = b""
        while True:
            size = int(self.rfile.readline().split(b";")[0].strip() or b"0", 16)
            piece = self.rfile.read(size)
            self.rfile.readline()
            if size == 0:
                return data
            data += piece

    def _json(self, value: Json, status: int = 200) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
