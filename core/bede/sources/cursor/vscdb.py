"""Cursor's databases, `state.vscdb`: one for each workspace, and one for all.

They are tables of keys and values. The old ones hold whole conversations in two values, the newer ones a value for
each conversation and one for each of its bubbles. A conversation lies in the database for all or in that of a
workspace, or in both when it was moved: then it is told by the one for all, and by no other.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from bede.errors import BadSource, BedeError
from bede.quick import dataclass, field
from bede.sources.foreign import Foreign, opened
from bede.sources.port import (
    Call,
    Edit,
    Item,
    Prompt,
    Reply,
    Result,
    Session,
    Speaker,
    Table,
    Tally,
    Thought,
    Usage,
    What,
    tail,
)
from bede.sources.vscode import (
    count,
    decoded,
    first,
    folder,
    inside,
    instant,
    is_command,
    is_file,
    keyed,
    mapping,
    number,
    place,
    sequence,
    short,
    text,
)
from bede.sources.vscode.tools import CURSOR, deed

ITEMS, PAIRS = "ItemTable", "cursorDiskKV"
COMPOSERS, CHATS = "composer.composerData", "workbench.panel.aichat.view.aichat.chatdata"

_ENDED = {"completed": True, "success": True, "error": False, "failed": False, "cancelled": False, "canceled": False}
#: What a person said to an edit that was proposed in a reply.
_ANSWERS = {"accepted": True, "rejected": False}


def conversations(path: Path) -> frozenset[str]:
    """Return the ids of the conversations of which a database holds anything that was said.

    Raises:
        BadSource: it is no such database, or damaged.
        Unavailable: it cannot be read now.
    """
    with opened(path) as database:
        found = {key.split(":")[1] for key in _keys(database) if key.startswith("bubbleId:")}
        found |= {text(composer.get("composerId")) for composer in _inline(database)}
        found |= {text(tab.get("tabId")) for tab in _tabs(database)}
    return frozenset(found - {""})


def load(path: Path, tally: Tally) -> Iterator[Item]:
    """Yield the items of every conversation in a database, one conversation after the other.

    Raises:
        BadSource: it is no such database, or damaged.
        Unavailable: it cannot be read now.
    """
    cwd = folder(path.parent)
    moved = frozenset() if path.parent.name == "globalStorage" else _moved(path)
    folders = _Folders(path, cwd)
    with opened(path) as database:
        if not {ITEMS, PAIRS} & database.tables():
            raise BadSource(f"{path} is no database of Cursor", reason="format")
        told: set[str] = set()
        keys = [key for key in _keys(database) if key.startswith("composerData:")]
        parents = _parents(database, keys)
        for composer in _composers(database, keys, tally):
            identity = text(composer.get("composerId"))
            if not identity or identity in told or identity in moved:
                continue
            told.add(identity)
            yield from _conversation(composer, identity, _Context(database, folders, parents.get(identity, "")), tally)
        _check(database, tally)
        for tab in _tabs(database):
            identity = text(tab.get("tabId"))
            if identity and identity not in told:
                told.add(identity)
                yield from _chat(tab, identity, cwd, tally)


def rows(path: Path, sessions: Collection[str]) -> Iterator[tuple[str, Iterator[Table]]]:
    """Yield what a database has of each of some conversations: its pairs as they stand, and its part of the old values.

    Raises:
        BadSource: it is no such database, or damaged.
        Unavailable: it cannot be read now.
    """
    with opened(path) as database:
        keys: dict[str, list[str]] = {session: [] for session in sessions}
        for key in _keys(database):
            keys.get(key.partition(":")[2].partition(":")[0], []).append(key)
        shares = _shares(database, sessions)
        for session in sessions:
            found = (row for key in keys[session] for row in database.rows(PAIRS, ["key", "value"], where={"key": key}))
            yield session, iter(((PAIRS, ("key", "value"), found), (ITEMS, ("key", "value"), shares[session])))


def _shares(database: Foreign, sessions: Collection[str]) -> dict[str, list[tuple[str, str]]]:
    """Return what each of some conversations has of the two values that hold many."""
    shares: dict[str, list[tuple[str, str]]] = {session: [] for session in sessions}
    for key, name, identity in ((COMPOSERS, "allComposers", "composerId"), (CHATS, "tabs", "tabId")):
        mine: dict[str, list[Any]] = {}
        for each in map(mapping, sequence(mapping(_value(database, ITEMS, key)).get(name))):
            mine.setdefault(text(each.get(identity)), []).append(each)
        for session in mine.keys() & shares.keys():
            shares[session].append((key, json.dumps({name: mine[session]})))
    return shares


def _moved(path: Path) -> frozenset[str]:
    """Return which of a workspace's conversations are in the database for all."""
    with opened(path) as database:
        mine = [text(composer.get("composerId")) for composer in _inline(database)]
    common = path.parent.parent.parent / "globalStorage" / "state.vscdb"
    found = set()
    if mine and is_file(common):
        with suppress(BedeError), opened(common) as database:
            for identity in mine:
                composer = mapping(_value(database, PAIRS, f"composerData:{identity}"))
                if _headers(composer) or sequence(composer.get("conversation")):
                    found.add(identity)
    return frozenset(found)


@dataclass(slots=True)
class _Folders:
    """Which workspace a conversation of the database for all belongs to; looked up when first asked."""

    path: Path
    own: str
    known: dict[str, str] | None = None

    def of(self, identity: str) -> str:
        if self.own or self.path.parent.name != "globalStorage":
            return self.own
        if self.known is None:
            self.known = {}
            for storage in inside(self.path.parent.parent / "workspaceStorage"):
                database = storage / "state.vscdb"
                if (cwd := folder(storage)) and is_file(database):
                    self._note(database, cwd)
        return self.known.get(identity, "")

    def _note(self, path: Path, cwd: str) -> None:
        with suppress(BedeError), opened(path) as database:
            for composer in sequence(mapping(_value(database, ITEMS, COMPOSERS)).get("allComposers")):
                if self.known is not None:
                    self.known.setdefault(text(mapping(composer).get("composerId")), cwd)


@dataclass(slots=True)
class _Context:
    """Where a conversation is read from."""

    database: Foreign
    folders: _Folders
    parent: str
    calls: set[str] = field(default_factory=set)


def _value(database: Foreign, table: str, key: str) -> Any:
    """Return what one key holds, decoded; None where it is not there, or can be no key."""
    if not {"key", "value"} <= set(database.columns(table)) or not _is_whole(key):
        return None
    for (value,) in database.rows(table, ["value"], where={"key": key}):
        return decoded(value)
    return None


def _check(database: Foreign, tally: Tally) -> None:
    """Count what cannot be read of the two values that hold many conversations."""
    for key, name in ((COMPOSERS, "allComposers"), (CHATS, "tabs")):
        value = _value(database, ITEMS, key)
        listed = value.get(name, []) if isinstance(value, dict) else [None] if _has(database, key) else []
        each = listed if isinstance(listed, list) else [None]
        tally.problems.update("no object" for one in each if not isinstance(one, dict))


def _has(database: Foreign, key: str) -> bool:
    """Tell whether a key is there, whatever it holds."""
    is_table = {"key", "value"} <= set(database.columns(ITEMS))
    return is_table and any(True for _ in database.rows(ITEMS, ["key"], where={"key": key}))


def _is_whole(key: str) -> bool:
    """Tell whether a text has no half of a character in it, which SQLite refuses."""
    return key.isascii() or not any("\ud800" <= character <= "\udfff" for character in key)


def _keys(database: Foreign) -> Iterator[str]:
    """Yield the keys of the table of pairs, in order."""
    if {"key", "value"} <= set(database.columns(PAIRS)):
        yield from (key for (key,) in database.rows(PAIRS, ["key"], order=["key"]) if isinstance(key, str))


def _composers(database: Foreign, keys: list[str], tally: Tally) -> Iterator[dict[str, Any]]:
    """Yield conversations, the newer kind first."""
    for key in keys:
        composer = mapping(_value(database, PAIRS, key))
        if not composer:
            tally.bad("empty conversation")
        elif _headers(composer) or sequence(composer.get("conversation")):
            yield {"composerId": key.partition(":")[2], **composer}
    yield from _inline(database)


def _inline(database: Foreign) -> Iterator[dict[str, Any]]:
    """Yield the conversations that are held whole in one value."""
    for composer in map(mapping, sequence(mapping(_value(database, ITEMS, COMPOSERS)).get("allComposers"))):
        if sequence(composer.get("conversation")):
            yield composer


def _tabs(database: Foreign) -> Iterator[dict[str, Any]]:
    """Yield the chats of the old panel in which anything was said."""
    for tab in map(mapping, sequence(mapping(_value(database, ITEMS, CHATS)).get("tabs"))):
        if any(text(mapping(bubble).get("text")) for bubble in sequence(tab.get("bubbles"))):
            yield tab


def _headers(composer: dict[str, Any]) -> list[Any]:
    return sequence(composer.get("fullConversationHeadersOnly"))


def _parents(database: Foreign, keys: list[str]) -> dict[str, str]:
    """Return the conversation that each sub-conversation came out of."""
    found: dict[str, str] = {}
    for key in keys:
        composer, identity = mapping(_value(database, PAIRS, key)), key.partition(":")[2]
        for child in [*sequence(composer.get("subComposerIds")), *sequence(composer.get("subagentComposerIds"))]:
            if text(child) and child != identity:
                found.setdefault(child, identity)
    return found


def _conversation(composer: dict[str, Any], identity: str, context: _Context, tally: Tally) -> Iterator[Item]:
    """Yield the items of one conversation."""
    bubbles = list(_bubbles(composer, identity, context.database, tally))
    info = mapping(composer.get("subagentInfo"))
    parent = context.parent or text(info.get("parentComposerId"))
    parent = "" if parent == identity else parent
    session = Session(
        "cursor",
        model=_model(mapping(composer.get("modelConfig"))) or _model_of(bubbles),
        cwd=_cwd(composer, bubbles) or context.folders.of(identity),
        branch=text(composer.get("createdOnBranch")) or text(mapping(composer.get("activeBranch")).get("branchName")),
        parent=parent,
        origin="subagent" if parent else "",
        title=text(composer.get("name")),
    )
    at, precision = instant(composer.get("createdAt"))
    yield Item(identity, "session", session, at, precision)
    for line, (key, bubble) in enumerate(bubbles, 1):
        at, precision = instant(bubble.get("createdAt"))
        for name, what in _told(bubble, key, bool(parent), composer, context, tally):
            yield Item(identity, name, what, at, precision, line, is_side=bool(parent))


def _bubbles(
    composer: dict[str, Any], identity: str, database: Foreign, tally: Tally
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield bubbles with their keys, in the order of the conversation, each once."""
    inline = sequence(composer.get("conversation"))
    mapped = mapping(composer.get("conversationMap"))
    seen: set[str] = set()
    for index, header in enumerate(map(mapping, _headers(composer) or inline)):
        bubble_id = text(header.get("bubbleId"))
        bubble = header
        if not inline or _headers(composer):
            found = _value(database, PAIRS, f"bubbleId:{identity}:{bubble_id}") or mapped.get(bubble_id)
            bubble = {**header, **mapping(found)}
            if not mapping(found):
                tally.bad("missing bubble")
                continue
        key = keyed(bubble_id) or f"{index}:{short(bubble)}"
        if key in seen:
            if inline and not _headers(composer):
                key = f"{key}~{short(bubble)}"
            if key in seen:
                continue
        seen.add(key)
        yield key, bubble


def _model(values: dict[str, Any]) -> str:
    name = first(values, ("modelName", "name"))
    return "" if name == "default" else name


def _model_of(bubbles: list[tuple[str, dict[str, Any]]]) -> str:
    return next((model for _, bubble in reversed(bubbles) if (model := _model(mapping(bubble.get("modelInfo"))))), "")


def _cwd(composer: dict[str, Any], bubbles: list[tuple[str, dict[str, Any]]]) -> str:
    """Return the folder that a conversation tells itself: of several, none."""
    own = mapping(mapping(composer.get("workspaceIdentifier")).get("uri"))
    if own:
        return place(own)
    found = {place(uri) for _, bubble in bubbles for uri in sequence(bubble.get("workspaceUris"))} - {""}
    return found.pop() if len(found) == 1 else ""


def _told(
    bubble: dict[str, Any], key: str, is_side: bool, composer: dict[str, Any], context: _Context, tally: Tally
) -> Iterator[tuple[str, What]]:
    """Yield what a bubble tells, each with its key."""
    kind = number(bubble.get("type"))
    said = text(bubble.get("text"))
    tally.types[{1: "user", 2: "assistant"}.get(kind or 0, str(kind))] += 1
    if kind is None:
        tally.bad("no bubble")
    if kind == 1:
        images = sequence(bubble.get("images")) or sequence(mapping(bubble.get("context")).get("selectedImages"))
        if said.strip() or images:
            yield key, Prompt(said, _speaker(said, is_side), len(images))
        return
    if kind != 2:
        return
    if thought := text(mapping(bubble.get("thinking")).get("text")) or text(bubble.get("thinking")):
        yield f"{key}:thought", Thought(thought)
    if said.strip():
        yield key, Reply(said, _model(mapping(bubble.get("modelInfo"))))
    if tool := mapping(bubble.get("toolFormerData")):
        yield from _tool(tool, key, context)
    yield from _proposed(bubble, key, composer)
    tokens = mapping(bubble.get("tokenCount"))
    given, made = count(tokens.get("inputTokens")), count(tokens.get("outputTokens"))
    if given or made:
        yield f"{key}:usage", Usage(_model(mapping(bubble.get("modelInfo"))), given, made)


def _speaker(said: str, is_side: bool) -> Speaker:
    if is_side:
        return "delegated"
    return "slash" if is_command(said) else "human"


def _tool(tool: dict[str, Any], key: str, context: _Context) -> Iterator[tuple[str, What]]:
    """Yield a call and, where it has ended, its result."""
    name = text(tool.get("name"))
    if not name:
        return
    # An id may come twice in a conversation; the bubble is there once.
    call = text(tool.get("toolCallId")) or key
    call = f"{call}~{key}" if call in context.calls else call
    context.calls.add(call)
    raw = decoded(tool.get("rawArgs"))
    given = {**mapping(decoded(tool.get("params"))), **mapping(raw), **({"input": raw} if text(raw) else {})}
    done = deed(CURSOR, name, given, of_server=name.startswith("mcp"))
    yield f"{key}:call", Call(call, name, done.target, done.sort, done.edits)
    result = decoded(tool.get("result"))
    values = mapping(result)
    is_denied = tool.get("userDecision") == "rejected" or values.get("rejected") is True
    ok = False if is_denied else _ENDED.get(text(tool.get("status")))
    if ok is None:
        return
    status = next((number(values.get(name)) for name in ("exitCode", "exitCodeV2") if name in values), None)
    ok = ok and not status
    error = decoded(tool.get("error"))
    output = first(mapping(error), ("clientVisibleErrorMessage", "modelVisibleErrorMessage", "message"))
    output = output or first(values, ("output", "stderr", "error", "message")) or text(result) or text(error)
    yield f"{key}:result", Result(call, ok, status, is_denied, "" if ok else tail(output))


def _proposed(bubble: dict[str, Any], key: str, composer: dict[str, Any]) -> Iterator[tuple[str, What]]:
    """Yield the files that an old reply proposed, each as a call that a person let run or did not."""
    data = mapping(composer.get("codeBlockData"))
    for index, block in enumerate(map(mapping, sequence(bubble.get("codeBlocks")))):
        uri = mapping(block.get("uri"))
        path = place(uri)
        version = number(block.get("version"))
        versions = data.get(text(uri.get("external")))
        known = versions if isinstance(versions, list) else list(mapping(versions).values())
        own = next((each for each in map(mapping, known) if number(each.get("version")) == version), {})
        if not path or not own:
            continue
        call = f"{key}:block{index}"
        yield call, Call(call, "codeBlock", path, "edit", (Edit(path, new=text(own.get("content"))),))
        ok = _ANSWERS.get(text(own.get("status")))
        if ok is not None:
            yield f"{call}:result", Result(call, ok, denied=not ok)


def _chat(tab: dict[str, Any], identity: str, cwd: str, tally: Tally) -> Iterator[Item]:
    """Yield the items of a chat of the old panel."""
    bubbles = [mapping(bubble) for bubble in sequence(tab.get("bubbles"))]
    model = next((name for bubble in reversed(bubbles) if (name := text(bubble.get("modelType")))), "")
    yield Item(identity, "session", Session("cursor", model=model, cwd=cwd, title=text(tab.get("chatTitle"))))
    seen: set[str] = set()
    for line, bubble in enumerate(bubbles, 1):
        kind, said = text(bubble.get("type")), text(bubble.get("text"))
        tally.types[{"ai": "assistant"}.get(kind, kind)] += 1
        if not kind:
            tally.bad("no bubble")
        key = keyed(bubble.get("id")) or f"{line}:{short(bubble)}"
        key = f"{key}~{short(bubble)}" if key in seen else key
        if not said.strip() or key in seen or kind not in ("user", "ai"):
            continue
        seen.add(key)
        if kind == "ai":
            yield Item(identity, key, Reply(said, text(bubble.get("modelType"))), line=line)
        else:
            images = len(sequence(bubble.get("selectedImages")))
            yield Item(identity, key, Prompt(said, _speaker(said, is_side=False), images), line=line)
