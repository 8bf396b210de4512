"""`bede store`: write down what was learned, decided or found to hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, ClassVar, NoReturn

from bede.arbitration import find_duplicate, judge, refuse
from bede.context import Context
from bede.errors import BedeError, Rejected, UsageError, cause
from bede.identity import canonical
from bede.operation import Field, operation
from bede.projections.memory import Filter, endings, holders, newest
from bede.projections.rows import KINDS, Kind
from bede.quick import dataclass
from bede.records import Draft, Record, Spans
from bede.redact import redact_value
from bede.repository import Reading, Writing

_LISTS = ("learnings", "tags", "labels", "invalidates")
_TEXTS = ("task_id", "agent_id", "kind", "summary", "handoff_note", "key", "rationale", "command", "output")
_FIELDS = (*_TEXTS, *_LISTS, "value", "exit_status")
#: Bytes kept of a run's output: its end, where the failure is told.
_TAIL = 16_384
_REPLACING = ("status_update", "fleet_member")
_KEYED = ("decision", "fact")
#: Faults of one object that are told in words.
_TOLD = 6
#: A new memory is compared with so many of the newest of its kind and task.
_COMPARED = 200


@dataclass(frozen=True, slots=True)
class Stored(Record):
    """One memory that was stored, and what it ended."""

    id: str
    kind: str
    task_id: str
    agent_id: str
    superseded: tuple[str, ...]
    invalidated: tuple[str, ...]
    redacted: bool


@dataclass(frozen=True, slots=True)
class StoreResult(Record):
    """What was stored, in order; all of it, or the call was refused."""

    SCHEMA: ClassVar[str] = "store/1"

    id: str
    branch: str
    stored: tuple[Stored, ...]


@operation(effect="append", toolset="memory")
def store(
    context: Context,
    text: Annotated[str, Field("The summary; - reads JSON from stdin", metavar="[TEXT|-]", cli_only=True)] = "",
    *,
    kind: Annotated[Kind, Field("What sort of memory")] = "note",
    summary: Annotated[str, Field("One statement: what happened, to what, with what result")] = "",
    task_id: Annotated[str, Field("Task it belongs to")] = "",
    agent_id: Annotated[str, Field("Who says so")] = "",
    learnings: Annotated[list[str] | None, Field("What the next one should know")] = None,
    tags: Annotated[list[str] | None, Field("Free words to filter by")] = None,
    labels: Annotated[list[str] | None, Field("namespace:value")] = None,
    handoff_note: Annotated[str, Field("For task_handoff: what to do next")] = "",
    invalidates: Annotated[list[str] | None, Field("Ids of constraints that no longer hold")] = None,
    key: Annotated[str, Field("What a decision or fact is about")] = "",
    value: Annotated[str | None, Field("What was decided, or holds")] = None,
    rationale: Annotated[str, Field("Why")] = "",
    command: Annotated[str, Field("For run: the command, split as a shell would, or a JSON array")] = "",
    exit_status: Annotated[int | None, Field("For run: how it ended", ge=-(2**31), le=2**32 - 1)] = None,
    output: Annotated[str, Field("For run: the end of what it printed")] = "",
    from_: Annotated[Path | None, Field("Read JSON from a file, one object a line for many", cli_only=True)] = None,
) -> StoreResult:
    """Store a memory: a hand-off, status, constraint, decision, fact, task, note, or a run that was not under `auto`.

    A status_update supersedes the task's earlier one, a decision or fact the earlier value of its key; a
    discovered_constraint may invalidate others. Secrets are redacted first. A memory that says nothing new, or too
    little, is refused with a reason and nothing is written.
    """
    if text == "-" or from_:
        asked = _read(context, from_)
    elif text and summary:
        raise UsageError("the summary is given twice", hint="leave out --summary, or the argument")
    else:
        texts = (task_id, agent_id, kind, summary or text, handoff_note, key, rationale, command, output)
        lists = (learnings, tags, labels, invalidates)
        asked = [dict(zip(_FIELDS, (*texts, *lists, value, exit_status), strict=True))]
    return _store(context, list(_drafts(context, asked, agent_id)))


def _read(context: Context, path: Path | None) -> list[dict[str, Any]]:
    if path is None:
        text = context.lines_in()
    else:
        try:
            text = (context.directory / path).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            hint = "check the path; a file of JSON in UTF-8 is read, and - reads it from stdin"
            raise UsageError(f"cannot read {path}: {cause(error)}", hint=hint) from error
    return [_check_fields(item, number) for number, item in _objects(text)]


def _objects(text: str) -> Iterator[tuple[int, Any]]:
    """Yield the objects of a JSON document, or of JSON lines, each with its line."""
    try:
        whole = _parsed(text)
        yield from enumerate(whole if isinstance(whole, list) else [whole], start=1)
    except RecursionError as error:
        hint = "a memory is one object of texts, and of arrays of texts"
        raise UsageError("the JSON is nested too deep", hint=hint) from error
    except ValueError:
        for number, line in enumerate(text.splitlines(), start=1):
            if line.strip():
                try:
                    yield number, _parsed(line)
                except (ValueError, RecursionError) as error:
                    raise UsageError(f"line {number} is not JSON: {error}", hint="write one object a line") from error


def _parsed(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a key that is given twice: whichever won, the other would be lost without a word."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"the key {twice!r} is given twice in one object", hint="give each key once")
    return found


def _check_fields(item: Any, number: int) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise UsageError(f"object {number} is not a JSON object", hint="write one object a line, or an array of them")
    wrong = list(_wrong(item))
    if wrong:
        more = [f"and {len(wrong) - _TOLD} more"] if len(wrong) > _TOLD else []
        told = "; ".join([*(message for message, _ in wrong[:_TOLD]), *more])
        hints = dict.fromkeys(hint for _, hint in wrong[:_TOLD] if hint)
        raise UsageError(f"object {number}: {told}", hint="; ".join(hints))
    return item


def _wrong(item: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each thing that makes a JSON object no memory, and what would be right."""
    for name, value in item.items():
        words = isinstance(value, list) and all(isinstance(part, str) for part in value)
        if name not in _FIELDS:
            yield f"no key {name[:40]!r} is known", f"known: {', '.join(_FIELDS)}"
        elif name in _TEXTS and not isinstance(value, str) and not (name == "command" and words):
            yield f"{name} must be a string", ""
        elif name in _LISTS and not words:
            yield f"{name} must be an array of strings", ""
    status, kind = item.get("exit_status", 0), item.get("kind", "note")
    if not isinstance(status, int) or isinstance(status, bool) or not -(2**31) <= status < 2**32:
        yield "exit_status must be a whole number of 32 bits", ""
    if isinstance(kind, str) and kind not in KINDS:
        from bede.hints import asked

        yield f"no kind {kind[:40]!r}", f"{asked(kind, KINDS)}one of {', '.join(KINDS)}"


def _drafts(context: Context, asked: list[dict[str, Any]], agent: str) -> Iterator[tuple[Draft, bool]]:
    for number, item in enumerate(asked, start=1):
        with _numbered(number if len(asked) > 1 else 0):
            yield _clean(context, item, agent)


def _clean(context: Context, asked: dict[str, Any], agent: str) -> tuple[Draft, bool]:
    """Turn what was asked into a draft: redacted, without empty fields, judged by the rules that need no log.

    A reported run is written as `auto` writes its own.
    """
    said = {name: value for name, value in asked.items() if value not in (None, "", [])}
    invalidates = said.pop("invalidates", [])
    kind, actor = said.pop("kind", "note"), said.pop("agent_id", agent) or context.actor()
    if kind == "run" and isinstance(said.get("command"), str):
        said["command"] = _words(said["command"])
    body = redact_value(said)
    redacted = body is not said and body != said
    if "output" in body:  # As `auto` keeps it; cut after redacting, since nobody knows half a token.
        body["output"] = body["output"].encode("utf-8", "replace")[-_TAIL:].decode(errors="ignore")
    if kind in _KEYED and "key" in body and "summary" not in body:
        body["summary"] = f"{body['key']} = {_shown(body.get('value'))}"
    if invalidates:
        body["ends"] = {"invalidates": invalidates}
    judge(kind, actor, body, len(canonical(body)))
    return Draft(kind, body, actor, context.now()), redacted


def _words(command: str) -> list[str]:
    """Return a command's words: a JSON array as it is, else split as a shell would."""
    with suppress(ValueError, RecursionError):
        found = json.loads(command)
        if isinstance(found, list) and found and all(isinstance(word, str) for word in found):
            return found
    import shlex

    try:
        return shlex.split(command)
    except ValueError:
        return [command]


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _store(context: Context, drafts: list[tuple[Draft, bool]]) -> StoreResult:
    if not drafts:
        raise UsageError("there is nothing to store", hint="give one JSON object a line")
    first = drafts[0][0]
    with context.repository.write("store", first.actor, first.happened_at) as writing:
        branch = context.branch(writing)
        batch = _Batch(writing, branch)
        stored = []
        for number, (draft, redacted) in enumerate(drafts, start=1):
            with _numbered(number if len(drafts) > 1 else 0):
                stored.append(batch.store(draft, redacted))
    return StoreResult(stored[-1].id, branch, tuple(stored))


@contextmanager
def _numbered(number: int) -> Iterator[None]:
    """Let a refusal say which object of many it is about."""
    try:
        yield
    except Rejected as error:
        if number:
            error.message = f"object {number}: {error.message}"
            error.details["object"] = number
        raise


class _Batch:
    """The memories of one call, stored one after the other; what each is compared with is looked up once."""

    def __init__(self, writing: Writing, branch: str) -> None:
        self._writing = writing
        self._branch = branch
        self._seen = writing.spans(writing.tip(branch))
        self._rivals: dict[tuple[str, str], list[tuple[str, dict[str, Any]]]] = {}

    def store(self, draft: Draft, redacted: bool) -> Stored:
        """Apply the rules that look at the log, write into the draft what it ends, and append it."""
        body, ends = draft.body, draft.body.get("ends", {})
        if ends:
            found = [_constraint(self._writing, self._seen, name) for name in ends["invalidates"]]
            ends["invalidates"] = list(dict.fromkeys(found))
        rivals = self._of(draft)
        if draft.kind != "run":
            find_duplicate(body, rivals)
        replaces = draft.kind in _REPLACING or draft.kind in _KEYED
        if replaces and rivals:
            body["ends"] = {**ends, "supersedes": [identity for identity, _ in rivals]}
        event = self._writing.append(self._branch, [draft])[0]
        self._seen = self._writing.spans(self._writing.tip(self._branch))
        if replaces:
            rivals.clear()
        rivals.insert(0, (event.id, body))
        del rivals[_COMPARED:]
        said = body.get("ends", {})
        superseded, invalidated = tuple(said.get("supersedes", ())), tuple(said.get("invalidates", ()))
        return Stored(event.id, event.kind, body.get("task_id", ""), event.actor, superseded, invalidated, redacted)

    def _of(self, draft: Draft) -> list[tuple[str, dict[str, Any]]]:
        """Return the active memories of a kind about the same thing: the same key, or the same task or none."""
        about = str(draft.body["key"] if draft.kind in _KEYED else draft.body.get("task_id", ""))
        if (draft.kind, about) not in self._rivals:
            reading = self._writing
            if draft.kind in _KEYED:
                seqs = holders(reading.connection, self._seen, draft.kind, about)
            elif draft.kind == "run":
                seqs = []
            else:
                seqs = newest(reading.connection, self._seen, Filter(kinds=(draft.kind,), task=about), _COMPARED)
            events = reading.load(seqs)
            bodies = [(events[seq].id, events[seq].body or {}) for seq in seqs]
            same = [item for item in bodies if draft.kind in _KEYED or item[1].get("task_id", "") == about]
            self._rivals[draft.kind, about] = same
        return self._rivals[draft.kind, about]


def _constraint(reading: Reading, seen: Spans, name: str) -> str:
    try:
        place = reading.resolve(name)
    except BedeError as error:
        _refuse_missing(name, error.message)
    if place.position > seen.get(place.line, 0):
        _refuse_missing(name, "it is on another branch")
    event = reading.load([place.seq])[place.seq]
    if event.kind != "discovered_constraint":
        hint = "'bede search --kind discovered_constraint' shows their ids"
        refuse("invalidates_kind_mismatch", f"{name} is a {event.kind}, not a discovered_constraint", hint)
    if place.seq in endings(reading.connection, [place.seq], seen):
        refuse("invalidates_not_active", f"{name} does not hold any more already", "leave it out of 'invalidates'")
    return event.id


def _refuse_missing(name: str, why: str) -> NoReturn:
    refuse(
        "invalidates_not_found",
        f"there is no memory {name!r} to invalidate: {why}",
        "'bede search' shows ids",
    )
