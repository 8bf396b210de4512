"""What one step of Antigravity tells, and the tools that it calls.

The person's own words are what stands inside `<USER_REQUEST>`; around it are the time, open files and settings. Calls
have no ids: a result is that of the first open call of its kind in the newest batch. What a tool read is never given
on.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any, Literal

from bede.quick import dataclass, field
from bede.sources.kept import clean, form
from bede.sources.parsed import parsed
from bede.sources.pi.entry import moment
from bede.sources.pi.tools import string
from bede.sources.port import Call, Edit, Item, Prompt, Reply, Result, Sort, Thought, What, tail

#: Tool → what it does, the arguments that tell what it is called upon, and the type of the step that ends it.
TOOLS: dict[str, tuple[Sort, tuple[str, ...], str]] = {
    "run_command": ("shell", ("CommandLine",), "RUN_COMMAND"),
    "view_file": ("read", ("AbsolutePath",), "VIEW_FILE"),
    "view_file_outline": ("read", ("AbsolutePath",), "VIEW_FILE_OUTLINE"),
    "view_code_item": ("read", ("File", "AbsolutePath"), "VIEW_CODE_ITEM"),
    "list_dir": ("read", ("DirectoryPath",), "LIST_DIRECTORY"),
    "grep_search": ("search", ("Query",), "GREP_SEARCH"),
    "find_by_name": ("search", ("Pattern",), "FIND"),
    "codebase_search": ("search", ("Query",), "CODEBASE_SEARCH"),
    "search_web": ("web", ("query", "Query"), "SEARCH_WEB"),
    "read_url_content": ("web", ("Url",), "READ_URL_CONTENT"),
    "write_to_file": ("create", ("TargetFile",), "CODE_ACTION"),
    "replace_file_content": ("edit", ("TargetFile",), "CODE_ACTION"),
    "multi_replace_file_content": ("edit", ("TargetFile",), "CODE_ACTION"),
    "generate_image": ("other", ("ImageName", "Prompt"), "GENERATE_IMAGE"),
    "ask_question": ("other", ("Question",), "ASK_QUESTION"),
    "invoke_subagent": ("task", ("TaskName", "Task", "Prompt"), "INVOKE_SUBAGENT"),
    "browser_subagent": ("task", ("TaskName", "Task"), "BROWSER_SUBAGENT"),
    "call_mcp_tool": ("mcp", ("ToolName",), "MCP_TOOL"),
    "send_command_input": ("shell", ("CommandId", "Input"), "SEND_COMMAND_INPUT"),
    "command_status": ("other", ("CommandId",), "COMMAND_STATUS"),
}
#: Arguments of every tool that tell nothing of what it is called upon.
ASIDE = ("toolAction", "toolSummary", "waitForPreviousTools")
UNENDED = ("RUNNING", "PENDING", "GENERATING", "QUEUED", "WAITING")
FAILED = ("ERROR", "CANCELED", "CANCELLED", "REJECTED", "DENIED")
#: Steps that end no call.
SPOKEN = ("USER_INPUT", "PLANNER_RESPONSE", "SYSTEM_MESSAGE", "CONVERSATION_HISTORY", "CHECKPOINT", "ERROR_MESSAGE")
#: Batches of calls whose results are waited for.
OPEN = 64

_FIELDS = ("content", "thinking", "tool_calls", "error")
_ENDS = {step for _, _, step in TOOLS.values()}
_MODEL = re.compile(r"changed setting `Model Selection` from [^\n]{0,200}? to ([^\n]{1,200}?)\.?\s*(?:\n|<|$)")
_STATUS = re.compile(r"The command (?:failed with exit|exited with) code:? (-?\d{1,10})\b")
_ANY_STATUS = re.compile(r"\bexit(?:ed with)? code:? (-?\d{1,10})\b")
_DENIED = re.compile(
    r"\b[Uu]ser (?:has )?(?:rejected|denied|declined|did not (?:approve|allow))"
    r"|\b(?:rejected|denied|blocked) by (?:the |a )?(?:user|hook)"
)
_FINISHED = re.compile(r'[Tt]ask id "[^"\n]+" finished|background task')
_TIMES = re.compile(r"\A(?:(?:Created|Completed) At: [^\n]*\n\s*)+")
_AROUND = ("ADDITIONAL_METADATA", "USER_SETTINGS_CHANGE", "EPHEMERAL_MESSAGE")


@dataclass(slots=True)
class Step:
    """A step, with its arguments in one form whatever log it comes from."""

    name: str  # the same in every log
    type: str
    line: int
    order: tuple[str, int]  # time and number, for what has nothing else in common
    record: dict[str, Any]
    calls: list[tuple[str, dict[str, Any]]]
    cut: set[str] = field(default_factory=set)

    @property
    def text(self) -> str:
        """The content, '' where there is none."""
        return string(self.record.get("content"))

    @property
    def status(self) -> str:
        """The status, '' where there is none."""
        return string(self.record.get("status"))

    @property
    def created(self) -> str:
        """The time as it is written."""
        return self.order[0]

    @property
    def at(self) -> int | None:
        """The time in microseconds."""
        return moment(self.created)[0]

    @property
    def precision(self) -> Literal["", "us", "ms", "s"]:
        """How exact the time is written."""
        return moment(self.created)[1]

    def is_same(self, later: Step) -> bool:
        """Tell whether a later step of the same name is this one, written again."""
        same = self.cut == later.cut and (self.record == later.record or form(self.record) == form(later.record))
        return same or self.status in (*UNENDED, "CLEARED") or later.status == "CLEARED"

    def fill(self, other: Step) -> None:
        """Take from another copy of the step what is missing or cut here."""
        for name in _FIELDS:
            theirs = other.record.get(name)
            if not theirs or (self.record.get(name) and (name not in self.cut or name in other.cut)):
                continue
            self.record[name] = theirs
            self.cut = (self.cut - {name}) | ({name} & other.cut)
            if name == "tool_calls":
                self.calls = other.calls
        if self.status in ("", "CLEARED") and other.status:
            self.record["status"] = other.status


def read(record: dict[str, Any], line: int, is_encoded: bool) -> Step:
    """Return a record as a step; `is_encoded` where its log writes arguments as strings of JSON."""
    number, created = record.get("step_index"), string(record.get("created_at"))
    number = number if isinstance(number, int) and not isinstance(number, bool) and abs(number) < 2**53 else -1
    at, _ = moment(created)
    mark = str(at // 1_000_000) if at is not None else _short(created)
    kind = record["type"]
    cut = record.get("truncated_fields")
    return Step(
        f"{number}.{clean(kind) if len(kind) < 80 else _short(kind)}.{mark}",
        kind,
        line,
        (created, number),
        {name: record.get(name) for name in (*_FIELDS, "status", "source")},
        _calls(record.get("tool_calls"), is_encoded),
        {name for name in cut if isinstance(name, str)} if isinstance(cut, list) else set(),
    )


def _short(text: str) -> str:
    return hashlib.sha256(clean(text).encode()).hexdigest()[:12]


def _calls(told: Any, is_encoded: bool) -> list[tuple[str, dict[str, Any]]]:
    told = _decoded(told) if isinstance(told, str) else told
    calls = []
    for call in told if isinstance(told, list) else []:
        if isinstance(call, dict):
            arguments = call.get("args")
            arguments = _decoded(arguments) if isinstance(arguments, str) else arguments
            arguments = arguments if isinstance(arguments, dict) else {}
            if is_encoded or _is_encoded(arguments):
                arguments = {name: _decoded(value) for name, value in arguments.items()}
            calls.append((string(call.get("name")), arguments))
    return calls


def _is_encoded(arguments: dict[str, Any]) -> bool:
    """Tell whether all values are strings of JSON, as a log that was copied under another name has them."""
    values = list(arguments.values())
    if not all(isinstance(value, str) for value in values) or not any(value.startswith('"') for value in values):
        return False
    return all(value.startswith('"') or _decoded(value) is not value for value in values)


def _decoded(value: Any) -> Any:
    """Return what a string of JSON stands for; of one that was cut, what is left of it."""
    if not isinstance(value, str):
        return value
    for text in (value, value + '"') if value.startswith('"') else (value,):
        try:
            return parsed(text, strict=False)
        except ValueError:
            continue
    return value[1:] if value.startswith('"') else value


class Talk:
    """A conversation as its steps are gone through: the model in use, and the calls that have not ended."""

    __slots__ = ("_is_side", "_model", "_name", "_open")

    def __init__(self, name: str, is_side: bool) -> None:
        """Begin a conversation; `is_side` where it is a sub-agent's."""
        self._name = name
        self._is_side = is_side
        self._model = ""
        self._open: list[list[tuple[str, str]]] = []

    def listen(self, step: Step) -> str:
        """Return the model that is in use from a step on."""
        if step.type == "USER_INPUT" and "<USER_SETTINGS_CHANGE>" in step.text:
            for found in _MODEL.finditer(step.text[step.text.rfind("<USER_SETTINGS_CHANGE>") :]):
                self._model = found[1]
        return self._model

    def tell(self, step: Step) -> Iterator[Item]:
        """Yield what a step tells."""
        if step.type == "PLANNER_RESPONSE":
            parts = self._planned(step)
        elif step.type in SPOKEN:
            parts = self._spoken(step)
        else:
            parts = self._ended(step)
        for key, what in parts:
            yield Item(self._name, key, what, step.at, step.precision, step.line, is_side=self._is_side)

    def _planned(self, step: Step) -> Iterator[tuple[str, What]]:
        if thought := string(step.record.get("thinking")):
            yield f"{step.name}:think", Thought(thought)
        if step.text:
            yield f"{step.name}:say", Reply(step.text, self._model)
        batch = []
        for number, (tool, arguments) in enumerate(step.calls):
            key = f"{step.name}:call{number}"
            batch.append((key, tool))
            yield key, _call(key, tool, arguments, self._name)
        if batch:
            self._open = [batch, *self._open[: OPEN - 1]]

    def _spoken(self, step: Step) -> Iterator[tuple[str, What]]:
        text = step.text
        if step.type == "USER_INPUT" and text:
            yield step.name, self._prompt(step)
        elif step.type == "SYSTEM_MESSAGE" and text:
            yield step.name, Prompt(text, "notification" if _FINISHED.search(text[:4000]) else "injected")
        elif step.type == "CHECKPOINT" and text:
            yield step.name, Prompt(text, "compact-summary")
        elif step.type == "ERROR_MESSAGE" and (why := text or string(step.record.get("error"))):
            yield step.name, Reply(why, self._model, is_error=True)

    def _prompt(self, step: Step) -> Prompt:
        text = _request(step.text)
        if self._is_side:
            return Prompt(text or step.text, "delegated")
        if step.record.get("source") == "USER_EXPLICIT" and text:
            return Prompt(text, "human")
        return Prompt(step.text, "injected")

    def _ended(self, step: Step) -> Iterator[tuple[str, What]]:
        if step.status in UNENDED or not (found := self._take(step.type)):
            return
        key, _ = found
        head = step.text.split("Output:", 1)[0][:2000]
        status = _exit(head, step.status) if step.type == "RUN_COMMAND" else None
        ok = False if step.status in FAILED else True if step.status == "DONE" else None
        ok = ok if status is None or ok is False else status == 0
        denied = ok is False and status is None and bool(_DENIED.search(head))
        said = _TIMES.sub("", step.text) or string(step.record.get("error"))
        yield f"{key}:result", Result(key, ok, status, denied, tail(said) if ok is False else "")

    def _take(self, kind: str) -> tuple[str, str] | None:
        """Return the open call that a step ends, and close it."""
        for batch in self._open:
            fitting = [call for call in batch if call[1] in TOOLS and TOOLS[call[1]][2] == kind]
            fitting = fitting or [call for call in batch if call[1] not in TOOLS]
            if not fitting and kind not in _ENDS:
                fitting = list(batch)
            if fitting:
                batch.remove(fitting[0])
                self._open = [batch for batch in self._open if batch]
                return fitting[0]
        return None


def _exit(head: str, status: str) -> int | None:
    """Return a command's exit status, in the agent's words; what else is said of it counts for a failed step only."""
    if "The command completed successfully" in head:
        return 0
    found = _STATUS.search(head) or (_ANY_STATUS.search(head) if status in FAILED else None)
    return int(found[1]) if found else None


def _request(text: str) -> str:
    """Return what the person wrote, without what the agent laid around it."""
    start = text.find("<USER_REQUEST>")
    if start >= 0:
        end = text.rfind("</USER_REQUEST>")
        inner = text[start + len("<USER_REQUEST>") : end if end > start else len(text)]
        return inner.strip("\r\n")
    for name in _AROUND:
        while (start := text.find(f"<{name}>")) >= 0:
            end = text.find(f"</{name}>", start)
            text = text[:start] + (text[end + len(name) + 3 :] if end >= 0 else "")
    return text.strip("\r\n")


def _call(key: str, tool: str, arguments: dict[str, Any], session: str) -> Call:
    sort: Sort = "mcp" if tool.startswith("mcp_") else "other"
    if tool not in TOOLS:
        texts = [value for name, value in arguments.items() if name not in ASIDE and isinstance(value, str)]
        return Call(key, tool, texts[0] if len(texts) == 1 else "", sort)
    sort, names, _ = TOOLS[tool]
    target = next((value for name in names if (value := string(arguments.get(name)))), "")
    if sort in ("create", "edit") and _is_artifact(target, session):
        return Call(key, tool, target)
    return Call(key, tool, target, sort, _edits(tool, target, arguments))


def _is_artifact(path: str, session: str) -> bool:
    """Tell whether a file is one of the agent's own papers about its task, no file of a project."""
    place = path.replace("\\", "/")
    return f"/brain/{session}/" in place or ("/.gemini/" in place and "/brain/" in place)


def _edits(tool: str, path: str, arguments: dict[str, Any]) -> tuple[Edit, ...]:
    if not path:
        return ()
    if tool == "write_to_file":
        return (Edit(path, "create", new=string(arguments.get("CodeContent"))),)
    if tool == "replace_file_content":
        return (_replaced(path, arguments),)
    if tool == "multi_replace_file_content":
        chunks = _decoded(arguments.get("ReplacementChunks"))
        parts = [part for part in chunks if isinstance(part, dict)] if isinstance(chunks, list) else []
        return tuple(_replaced(path, part) for part in parts)
    return ()


def _replaced(path: str, told: dict[str, Any]) -> Edit:
    return Edit(path, "update", string(told.get("TargetContent")), string(told.get("ReplacementContent")))
