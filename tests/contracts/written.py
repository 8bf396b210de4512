"""Sessions as agents write them, made for a test: whole files, lines of them, and a home to lay them in."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bede.context import Context
from bede.operations.ingest import IngestResult, ingest

_SPACE = uuid.UUID("5d3e4c4e-7d6a-4f0e-9a63-2b9fc5a6d001")
NAMES = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "OPENCODE_DB", "GEMINI_CLI_HOME", "COPILOT_HOME", "PI_CODING_AGENT_DIR")


def identity(*words: object) -> str:
    """Return a UUID that is the same for the same words."""
    return str(uuid.uuid5(_SPACE, " ".join(map(str, words)).encode("utf-8", "replace").decode()))


def said(
    session: str, number: int, text: str, cwd: str | Path | None, *, by: str = "user", seed: str = "", **more: Any
) -> dict[str, Any]:
    """Return a record of Claude Code: what somebody said in a session, as its so-and-so-manieth."""
    own = identity(seed or session, number)
    content: Any = text if by == "user" else [{"type": "text", "text": text}]
    message = {"role": by, "content": content}
    if by != "user":
        message |= {"id": f"msg_{own.replace('-', '')[:24]}", "model": "claude-x", "type": "message"}
    record = {
        "parentUuid": identity(seed or session, number - 1) if number > 1 else None,
        "isSidechain": False,
        "userType": "external",
        "sessionId": session,
        "version": "2.1.0",
        "gitBranch": "main",
        "type": by,
        "message": message,
        "uuid": own,
        "timestamp": f"2026-01-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}.000Z",
    }
    return record | ({} if cwd is None else {"cwd": str(cwd)}) | more


def lines(records: Iterable[Any]) -> bytes:
    """Return records as the lines of a file."""
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def session(name: str, cwd: str | Path | None, count: int = 4, *, start: int = 1, word: str = "word") -> bytes:
    """Return the lines of a session in which people and the assistant take turns."""
    return lines(
        said(name, number, f"{word} {number} of {name}", cwd, by="user" if number % 2 else "assistant")
        for number in range(start, start + count)
    )


def place(home: Path, name: str, slug: str = "-work") -> Path:
    """Return where Claude Code keeps a session, its folder made."""
    path = home / ".claude" / "projects" / slug / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def texts(context: Context, name: str | None = None) -> list[str]:
    """Return what was said in all sessions, or in one, in order; the newest word on each turn."""
    from bede.repository import log
    from bede.turns import text_of

    query = (
        "SELECT s.name, e.body FROM turn t JOIN session s ON s.id = t.session JOIN event e USING (seq)"
        " ORDER BY s.name, t.n"
    )
    with context.repository.snapshot() as reading:
        rows = reading.connection.execute(query).fetchall()
    return [text_of(body) for found, stored in rows if name in (None, found) and (body := log.body(stored))]


def names(context: Context) -> list[str]:
    """Return the sessions that are known and have turns."""
    with context.repository.snapshot() as reading:
        rows = reading.connection.execute("SELECT name FROM session WHERE turns > 0 ORDER BY name").fetchall()
    return [name for (name,) in rows]


def take(context: Context, **asked: Any) -> IngestResult:
    """Ingest; no format may have been taken by surprise."""
    result = ingest(context, **asked)
    assert not [why for why in result.problems if why.startswith("fault")]
    return result


def whole(context: Context) -> bytes:
    """Return all bytes of the project's database, its log included."""
    context.repository.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return b"".join(path.read_bytes() for path in sorted(context.project.folder.iterdir()) if path.is_file())


def states(context: Context) -> str:
    """Return all cursors, unpacked: where reading goes on from."""
    from bede.repository import cursors

    with context.repository.snapshot() as reading:
        paths = [Path(os.fsdecode(path)) for (path,) in reading.connection.execute("SELECT path FROM cursor")]
        found = [cursors.find(reading.connection, path) for path in paths]
    return "\n".join(json.dumps([known.mark, known.state]) for known in found if known)


def heard(name: str, *numbers: int) -> list[str]:
    """Return what `session` lets these turns say."""
    return [f"word {number} of {name}" for number in numbers]


def codex(name: str, cwd: Path, count: int) -> bytes:
    """Return a rollout of Codex, its messages told apart by a number."""
    own = identity(name)
    meta = {"id": own, "timestamp": "2026-01-01T00:00:00.000Z", "cwd": str(cwd), "cli_version": "0.100.0"}
    records = [{"timestamp": "2026-01-01T00:00:00.000Z", "type": "session_meta", "payload": meta}]
    for number in range(1, count + 1):
        role, kind = ("user", "input_text") if number % 2 else ("assistant", "output_text")
        content = [{"type": kind, "text": f"codex {number}"}]
        payload = {"type": "message", "role": role, "content": content}
        records.append({"timestamp": f"2026-01-01T00:00:{number:02}.000Z", "type": "response_item", "payload": payload})
    return lines(records)


def whole_again(context: Context) -> None:
    """Check that the history holds, and that all of it can be built anew."""
    from bede.operations.reindex import reindex
    from bede.operations.verify import verify

    assert verify(context).ok
    before = texts(context)
    reindex(context)
    assert texts(context) == before
