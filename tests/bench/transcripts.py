"""Seeded sessions of Claude Code, of any size, in the shapes and proportions of real ones.

Words are tokens of the packaged encoding, the more frequent the earlier, so that a text has about as many tokens as a
real one of its length. Nine tenths of the bytes are what nobody keeps: results of tools, files read and files before
an edit, thoughts with their signatures, envelopes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any

from bede.engines import tokens
from bench.measure import SEED

Record = dict[str, Any]
_HEX = "0123456789abcdef"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_TOOLS = {"Bash": 118, "Edit": 79, "Read": 66, "TodoWrite": 51, "Grep": 17, "Glob": 14, "Task": 13, "Write": 12}
_CODE = (
    "    def {0}(self, {1}: {2}) -> {3}:",
    "        {0} = self.{1}.{2}({3}, {4})",
    "        if {0} is None or {1}.{2} > {5}:",
    '            raise {0}Error(f"{1} {2} {{{3}}}")',
    "        return [{0}({1}) for {1} in {2}.{3}()]",
    "        # {0} {1} {2} {3} {4}",
    "",
    "from {0}.{1} import {2}, {3}",
    '        self._{0} = {1}.get("{2}", {5})',
    "        for {0}, {1} in sorted({2}.items()):",
)


class Prose:
    """Text as people and models write it, and code with the names of one project."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        known = [token.decode("utf-8", "ignore") for token in tokens._ranks(60_000)]
        self.words = [word[1:] for word in known if word[:1] == " " and len(word) > 2 and word[1:].islower()][:8_000]
        self.words = [word for word in self.words if word.isascii() and word.isalpha()]
        self.sums = list(accumulate(1 / (rank + 3) for rank in range(len(self.words))))
        self.names = [self._name() for _ in range(4_000)]
        self.paths = [f"src/{self._word()}/{self._name()}.py" for _ in range(400)]
        self.files = [self.code(min(3000, int(chance.lognormvariate(3.7, 0.9)) + 20)) for _ in range(160)]

    def _word(self) -> str:
        return self.chance.choices(self.words, cum_weights=self.sums)[0]

    def _name(self) -> str:
        parts = self.chance.choices(self.words, cum_weights=self.sums, k=self.chance.randint(1, 3))
        return "".join(part.title() for part in parts) if self.chance.random() < 0.3 else "_".join(parts)

    def _phrase(self) -> str:
        return " ".join(self.chance.choices(self.words, cum_weights=self.sums, k=self.chance.randint(1, 3)))

    def text(self, length: int) -> str:
        """Return sentences of about so many characters, some of whose words are names, paths and numbers."""
        found: list[str] = []
        size = 0
        topic = [self._phrase() for _ in range(6 + length // 200)]
        names = self.chance.choices(self.names, k=2 + length // 400)
        while size < length:
            said = self.chance.choices(self.words, cum_weights=self.sums, k=self.chance.randint(2, 6))
            said += self.chance.choices(topic, k=self.chance.randint(2, 6))
            self.chance.shuffle(said)
            if self.chance.random() < 0.5:
                said[-2] = f"`{self.chance.choice(names)}`"
            if self.chance.random() < 0.2:
                said[-1] = self.chance.choice((self.chance.choice(self.paths), str(self.chance.randint(2, 9000))))
            said[0] = said[0].title()
            end = ".\n\n" if self.chance.random() < 0.15 else ":\n- " if self.chance.random() < 0.1 else ". "
            found.append(" ".join(said) + end)
            size += len(found[-1])
        return "".join(found).rstrip(" \n-:")

    def code(self, lines: int) -> list[str]:
        """Return so many lines of a program."""
        names = self.chance.choices(self.chance.choices(self.names, k=6 + lines // 3), k=lines * 5)
        shapes = self.chance.choices(_CODE, k=lines)
        return [
            shape.format(*names[5 * at : 5 * at + 5], self.chance.randint(0, 999)) for at, shape in enumerate(shapes)
        ]

    def random(self, letters: str, length: int) -> str:
        """Return so many letters."""
        return "".join(self.chance.choices(letters, k=length))


class Claude:
    """One session, told record by record."""

    def __init__(self, cwd: Path, seed: int = SEED) -> None:
        self.chance = random.Random(seed)
        self.prose = Prose(self.chance)
        self.session = self._uuid()
        self._common = {"isSidechain": False, "userType": "external", "cwd": str(cwd), "sessionId": self.session}
        self._common |= {"version": "2.1.7", "gitBranch": "main", "slug": "quiet-running-river"}
        self._parent: str | None = None
        self._usage: tuple[str, Record] = ("", {})
        self._now = datetime(2026, 1, 20, 9, tzinfo=UTC)

    def lines(self) -> Iterator[bytes]:
        """Yield lines without an end."""
        while True:
            for record in self.round():
                yield self._line(record)

    def turn(self) -> bytes:
        """Return the lines of one question and its answer."""
        said = [self._record("user", message={"role": "user", "content": self.prose.text(120)})]
        said.append(self._model([{"type": "text", "text": self.prose.text(400)}]))
        return b"".join(map(self._line, said))

    def round(self) -> Iterator[Record]:
        """Yield what one request of the person leads to."""
        yield self._snapshot()
        length = 6000 if self.chance.random() < 0.08 else int(self.chance.lognormvariate(5.6, 0.8))
        yield self._record("user", message={"role": "user", "content": self.prose.text(length)}, todos=[])
        if self.chance.random() < 0.3:
            hook = {"hookName": "UserPromptSubmit", "hookEvent": "UserPromptSubmit", "toolUseID": self._uuid()}
            said = {"type": "hook_additional_context", "content": [self.prose.text(200)], **hook}
            yield self._record("attachment", attachment=said)
        if self.chance.random() < 0.2:
            content = [{"content": self.prose.text(40), "status": "pending"} for _ in range(8)]
            yield self._record("attachment", attachment={"type": "task_reminder", "content": content})
        for _ in range(1 + int(self.chance.expovariate(1 / 9))):
            yield from self._step()
        yield self._model([{"type": "text", "text": self.prose.text(int(self.chance.lognormvariate(7.1, 0.8)))}])
        hooks = [{"command": "checks run --quiet"}]
        yield self._record("system", subtype="stop_hook_summary", hookCount=1, hookInfos=hooks, hookErrors=[])
        yield self._record("system", subtype="turn_duration", durationMs=self.chance.randint(1000, 400_000))

    def _step(self) -> Iterator[Record]:
        message = f"msg_01{self.prose.random(_LETTERS, 22)}"
        if self.chance.random() < 0.5:
            thought = {"type": "thinking", "thinking": self.prose.text(int(self.chance.lognormvariate(6.0, 0.9)))}
            length = self.chance.randint(300, 1200)
            yield self._model([{**thought, "signature": self.prose.random(_LETTERS, length)}], message)
        if self.chance.random() < 0.45:
            length = int(self.chance.lognormvariate(6.0, 0.9))
            yield self._model([{"type": "text", "text": self.prose.text(length)}], message)
        (tool,) = self.chance.choices(list(_TOOLS), weights=list(_TOOLS.values()))
        asked, said, detail = _MAKERS[tool](self)
        call = f"toolu_01{self.prose.random(_LETTERS, 22)}"
        model = self._model([{"type": "tool_use", "id": call, "name": tool, "input": asked}], message)
        yield model
        if self.chance.random() < 0.7:
            hook: Record = {"hookName": f"PreToolUse:{tool}", "hookEvent": "PreToolUse", "stdout": "", "stderr": ""}
            hook |= {"command": "checks guard", "toolUseID": call, "exitCode": 0, "durationMs": 31, "content": ""}
            yield self._record("attachment", attachment={"type": "hook_success", **hook})
        result = {"tool_use_id": call, "type": "tool_result", "content": said}
        if isinstance(detail, str):
            result["is_error"] = True
        message_of = {"role": "user", "content": [result]}
        source = model["uuid"]
        yield self._record("user", message=message_of, toolUseResult=detail, sourceToolAssistantUUID=source)

    # What tools are asked and answer: input, the result's content, and the agent's own record of it.

    def _bash(self) -> tuple[Record, str, Any]:
        names = self.chance.choices(self.prose.names, k=3)
        command = f"cd {self.chance.choice(self.prose.paths)} && {' '.join(names)} --{names[0]} 2>&1 | tail -40"
        output = "\n".join(self.prose.code(int(self.chance.lognormvariate(3.2, 1.0)) + 1))
        asked = {"command": command, "description": self.prose.text(40)}
        if self.chance.random() < 0.12:
            return asked, f"Exit code 1\n{output}", f"Error: Exit code 1\n{output}"
        return asked, output, {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}

    def _read(self) -> tuple[Record, str, Any]:
        lines, path = self.chance.choice(self.prose.files), self.chance.choice(self.prose.paths)
        start = self.chance.randrange(max(1, len(lines) - 50)) if self.chance.random() < 0.4 else 0
        part = lines[start : start + 800]
        said = "\n".join(f"{number:6}→{line}" for number, line in enumerate(part, start + 1))
        file = {"filePath": path, "content": "\n".join(part), "numLines": len(part), "startLine": start + 1}
        return {"file_path": path, "offset": start}, said, {"type": "text", "file": file | {"totalLines": len(lines)}}

    def _edit(self) -> tuple[Record, str, Any]:
        lines, path = self.chance.choice(self.prose.files), self.chance.choice(self.prose.paths)
        size = min(len(lines) - 1, 2 + int(self.chance.lognormvariate(2.0, 1.0)))
        at = self.chance.randrange(len(lines) - size)
        old, fresh = lines[at : at + size], self.prose.code(self.chance.randint(1, 1 + size // 2))
        new = [*old[: size // 2], *fresh, *old[size // 2 :]]
        asked = {"file_path": path, "old_string": "\n".join(old), "new_string": "\n".join(new), "replace_all": False}
        patch = [*(f" {line}" for line in old[: size // 2]), *(f"+{line}" for line in fresh)]
        hunk = {"oldStart": at, "oldLines": size, "newStart": at, "newLines": len(new), "lines": patch}
        detail = {"filePath": path, "oldString": asked["old_string"], "newString": asked["new_string"]}
        detail |= {"originalFile": "\n".join(lines), "structuredPatch": [hunk], "userModified": False}
        shown = "\n".join(f"{number:6}→{line}" for number, line in enumerate(new, at))
        return asked, f"The file {path} has been updated. Here's the result:\n{shown}", detail | {"replaceAll": False}

    def _write(self) -> tuple[Record, str, Any]:
        path = self.chance.choice(self.prose.paths)
        content = "\n".join(self.prose.code(self.chance.randint(10, 90)))
        detail = {"type": "create", "filePath": path, "content": content, "structuredPatch": []}
        return {"file_path": path, "content": content}, f"File created successfully at: {path}", detail

    def _todo(self) -> tuple[Record, str, Any]:
        todos = [{"content": self.prose.text(50), "status": "pending", "activeForm": "x"} for _ in range(5)]
        said = "Todos have been modified successfully. Ensure that you continue to use the todo list."
        return {"todos": todos}, said, {"oldTodos": todos, "newTodos": todos}

    def _grep(self) -> tuple[Record, str, Any]:
        lines = self.chance.choice(self.prose.files)[: self.chance.randint(1, 60)]
        said = "\n".join(f"{number * 7}:{line}" for number, line in enumerate(lines))
        asked = {"pattern": self.chance.choice(self.prose.names), "output_mode": "content", "-n": True}
        return asked, said, {"mode": "content", "numFiles": 0, "filenames": [], "content": said}

    def _glob(self) -> tuple[Record, str, Any]:
        names = self.chance.choices(self.prose.paths, k=self.chance.randint(1, 80))
        detail = {"filenames": names, "durationMs": 12, "numFiles": len(names), "truncated": False}
        return {"pattern": "src/**/*.py"}, "\n".join(names), detail

    def _task(self) -> tuple[Record, Any, Any]:
        prompt, report = self.prose.text(600), [{"type": "text", "text": self.prose.text(5000)}]
        detail = {"status": "completed", "prompt": prompt, "agentId": "af3bcee", "content": report}
        return {"subagent_type": "Explore", "prompt": prompt, "description": self.prose.text(30)}, report, detail

    # Records.

    def _model(self, content: list[Record], message: str = "") -> Record:
        message = message or f"msg_01{self.prose.random(_LETTERS, 22)}"
        usage = self._cost(message)
        said: Record = {"model": "claude-opus-4-5-20251101", "id": message}
        said |= {"type": "message", "role": "assistant", "content": content, "stop_reason": None}
        said |= {"stop_sequence": None, "usage": usage | {"service_tier": "standard"}}
        return self._record("assistant", message=said, requestId=f"req_011{said['id'][6:27]}")

    def _cost(self, message: str) -> Record:
        """Return what a request cost: every record of it tells the same, but one in five that what was said grew."""
        if self._usage[0] != message:
            usage: Record = {"input_tokens": self.chance.randint(2, 12), "cache_creation_input_tokens": 2511}
            usage |= {"cache_read_input_tokens": self.chance.randint(20_000, 180_000), "output_tokens": 24}
            usage |= {"cache_creation": {"ephemeral_5m_input_tokens": 2511, "ephemeral_1h_input_tokens": 0}}
            self._usage = (message, usage)
        elif self.chance.random() < 0.2:
            self._usage = (message, self._usage[1] | {"output_tokens": self.chance.randint(240, 900)})
        return self._usage[1]

    def _record(self, kind: str, **told: Any) -> Record:
        self._now += timedelta(milliseconds=self.chance.randint(5, 20_000))
        uuid = self._uuid()
        head = {"parentUuid": self._parent, **self._common, "type": kind, **told}
        self._parent = uuid
        return head | {"uuid": uuid, "timestamp": self._now.isoformat(timespec="milliseconds")[:-6] + "Z"}

    def _snapshot(self) -> Record:
        backups = {
            path: {"backupFileName": f"{self.prose.random(_HEX, 16)}@v1", "version": 1}
            for path in self.chance.choices(self.prose.paths, k=self.chance.randint(0, 8))
        }
        uuid = self._uuid()
        snapshot = {"messageId": uuid, "trackedFileBackups": backups, "timestamp": self._now.isoformat()}
        return {"type": "file-history-snapshot", "messageId": uuid, "snapshot": snapshot, "isSnapshotUpdate": False}

    def _uuid(self) -> str:
        found = f"{self.chance.getrandbits(128):032x}"
        return "-".join((found[:8], found[8:12], found[12:16], found[16:20], found[20:]))

    def _line(self, record: Record) -> bytes:
        return json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


_MAKERS: dict[str, Callable[[Claude], tuple[Record, Any, Any]]] = {
    "Bash": Claude._bash,
    "Edit": Claude._edit,
    "Read": Claude._read,
    "TodoWrite": Claude._todo,
    "Grep": Claude._grep,
    "Glob": Claude._glob,
    "Task": Claude._task,
    "Write": Claude._write,
}


def write(path: Path, cwd: Path, size: int, seed: int = SEED) -> Claude:
    """Write a session of about so many bytes; return who tells it, to go on."""
    told = Claude(cwd, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for line in told.lines():
            file.write(line)
            if file.tell() >= size:
                return told
    raise AssertionError("lines end")
