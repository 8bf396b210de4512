"""OpenCode: a database since February 2026, a tree of small JSON files before, and what `opencode export` writes.

The move to the database left the tree where it was, and did not always take all of it along. A database is therefore
read with the tree beside it: of what is in both the database counts, what is only in the tree is added. A database may
have hundreds of megabytes: it is read message by message, and `sessions` tells which of its sessions changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from heapq import merge
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from bede.errors import BadSource, Unavailable, cause
from bede.sessions import session_of
from bede.sources import homes, jsonl
from bede.sources.foreign import Foreign, opened
from bede.sources.loose import dict_of, list_of, text_of
from bede.sources.opencode.text import Message, items
from bede.sources.parsed import parsed
from bede.sources.port import Item, Table, Tally, World

AGENT = "opencode"
FORM: Literal["stream", "document"] = "document"

#: An export is read whole; a bigger one is refused.
LARGEST = 256 * 1024 * 1024

_MAGIC = b"SQLite format 3\x00"
#: Columns of a session → names in the tree's file of it.
_COLUMNS = {
    "id": "id",
    "parent_id": "parentID",
    "directory": "directory",
    "title": "title",
    "version": "version",
    "model": "model",
    "revert": "revert",
    "time_created": "time",
}
#: Tables of which a row tells that a session changed.
_CHANGING = ("session", "message", "part", "session_message")
#: What a part has to have.
_PART = ("id", "message_id", "data")

Tree = dict[str, Path]
"""Session → the file of the tree that tells of it."""


def find(world: World) -> Iterator[Path]:
    """Yield the databases, or the sessions of the tree where there is no database."""
    folder, *named = homes.opencode(world)
    databases = _databases(folder, world)
    databases += [place for place in named if place not in databases and homes.is_file(world, place)]
    yield from databases or sorted(_tree(folder, world).values())


def accepts(path: Path, head: bytes) -> bool:
    """Tell a database by its name or tables, a session of the tree by its place, an export by how it begins."""
    if head.startswith(_MAGIC):
        return path.name.startswith("opencode") or (b"message_id" in head and b"session_id" in head and b"part" in head)
    if path.suffix != ".json" or not head.lstrip().startswith(b"{"):
        return False
    return _folder(path) is not None or (b'"info"' in head and b'"messages"' in head and b'ID"' in head)


def beside(path: Path) -> list[Path]:
    """Return the messages of a session of the tree, and their parts; of an export or a database nothing."""
    if _folder(path) is None:
        return []
    messages, parts = _places(path)
    found = _inside(messages)
    return found + [each for message in found for place in parts(message.stem) for each in _inside(place)]


def stamp(path: Path) -> str:
    """Return what changes with a database or its log and the tree beside it, a session of the tree, or an export."""
    files = [path]
    if _folder(path) is not None:
        files += [_places(path)[0], *beside(path)]
    elif path.suffix != ".json":
        files += [path.with_name(path.name + "-wal")]
        if tree := _tree(path.parent):
            known = _known(path)
            files += [place for name, each in tree.items() for place in _lying(each, is_alone=name not in known)]
    return _stats(files)


def sessions(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the sessions of a database, and those of the tree beside it, each with what changes when it does.

    Raises:
        BadSource: it is no database of OpenCode, or damaged.
        Unavailable: it cannot be read now.
    """
    # Counts and sums: a row that is written over need not be the latest, nor later than it was.
    sums: dict[str, list[int]] = {}
    with opened(path) as database:
        _check(database, path)
        for table in _CHANGING:
            name = "id" if table == "session" else "session_id"
            if {name, "time_updated"} <= set(database.columns(table)):
                for session, updated in database.rows(table, (name, "time_updated")):
                    known = sums.setdefault(session, [0, 0]) if isinstance(session, str) else [0, 0]
                    known[0] += updated if isinstance(updated, int) else 0
                    known[1] += 1
    tree = _tree(path.parent)
    for session in sorted({*sums, *(tree if _leads(path) else ())}):
        total, count = sums.get(session, (0, 0))
        file = tree.get(session)
        lying = f" {_stats(_lying(file, is_alone=session not in sums))}" if file else ""
        yield session, f"{total} {count}{lying}"


def _known(path: Path) -> set[str]:
    """Return the sessions of a database; none where it cannot be read."""
    with suppress(BadSource, Unavailable), opened(path) as database:
        _check(database, path)
        return {session for (session,) in database.rows("session", ("id",))}
    return set()


def _lying(file: Path, *, is_alone: bool) -> list[Path]:
    """Return what changes with a session of the tree beside a database; all of its files where only the tree has it."""
    return [file, _places(file)[0], *(beside(file) if is_alone else ())]


def rows(path: Path, sessions: Iterable[str]) -> Iterator[tuple[str, Iterator[Table]]]:
    """Yield what a database has of each of some sessions, as it stands there, at one moment.

    Raises:
        BadSource: it is no database, or damaged.
        Unavailable: it cannot be read now.
    """
    with opened(path) as database:
        for session in sessions:
            yield session, _rows(database, session)


def _rows(database: Foreign, session: str) -> Iterator[Table]:
    for table in _CHANGING:
        columns, name = database.columns(table), "id" if table == "session" else "session_id"
        if name in columns:
            yield table, columns, database.rows(table, columns, where={name: session})


def outside(path: Path, sessions: Collection[str]) -> list[Path]:
    """Return the files of those sessions which only the tree beside a database has."""
    tree = _tree(path.parent)
    known = _known(path) if tree else set()
    return [file for session, file in tree.items() if session in sessions and session not in known]


def load(path: Path, tally: Tally, only: Collection[str] | None = None) -> Iterator[Item]:
    """Yield all items of a database with the tree beside it, of a session of the tree, or of an export.

    With `only`, the sessions of these ids. A session of the tree comes from the database where there is one.

    Raises:
        BadSource: nothing in it can be read.
        Unavailable: it cannot be read now.
    """
    if path.suffix != ".json":
        yield from _database(path, tally, only)
    elif (folder := _folder(path)) is None:
        yield from _export(path, tally, only)
    elif only is None or path.stem in only:
        databases = _databases(folder)
        if databases:
            yield from _database(databases[0], tally, (path.stem,))
        else:
            yield from _from_tree(path.stem, path, tally)


def _database(path: Path, tally: Tally, only: Collection[str] | None) -> Iterator[Item]:
    """Yield the items of a database and of the tree beside it, session by session."""
    tree = _tree(path.parent)
    found: set[str] = set()
    try:
        with opened(path) as database:
            _check(database, path)
            if not set(_PART) <= set(database.columns("part")):
                tally.bad("no table of parts")
            for session, info in _infos(database, tally):
                found.add(session)
                if only is None or session in only:
                    yield from _session(database, session, info, tree.get(session), tally)
    except BadSource:
        if not tree.keys() - found:
            raise
        tally.bad("damaged database")
    for session in sorted(tree.keys() - found) if _leads(path) else ():
        if only is None or session in only:
            yield from _from_tree(session, tree[session], tally)


def _session(database: Foreign, session: str, info: dict[str, Any], file: Path | None, tally: Tally) -> Iterator[Item]:
    """Yield the items of a session, as far as the database is sound where it lies."""
    try:
        yield from items(session, info, _messages(database, session, file, tally), tally)
    except BadSource:
        tally.bad("damaged session")


def _leads(path: Path) -> bool:
    """Tell whether a database is the one that the tree beside it belongs to."""
    return path in _databases(path.parent)[:1] or not path.name.startswith("opencode")


def _check(database: Foreign, path: Path) -> None:
    for table, columns in (("session", ("id",)), ("message", ("id", "session_id", "data"))):
        if not set(columns) <= set(database.columns(table)):
            raise BadSource(f"{path} is no database of OpenCode: it has no {table}s", reason="format")


def _infos(database: Foreign, tally: Tally) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the sessions of a database, each as the tree's file of it would be."""
    columns = [name for name in _COLUMNS if name in database.columns("session")]
    order = [name for name in ("time_created", "id") if name in columns]
    for row in list(database.rows("session", columns, order=order)):
        info = {_COLUMNS[name]: value for name, value in zip(columns, row, strict=True)}
        if not isinstance(info["id"], str):
            tally.bad("session without id")
            continue
        info["time"] = {"created": info.get("time")}
        for name in ("model", "revert"):
            info[name] = _parsed(info.get(name)) if isinstance(info.get(name), (str, bytes)) else None
        yield info["id"], info


def _messages(database: Foreign, session: str, file: Path | None, tally: Tally) -> Iterator[Message]:
    """Yield the messages of a session as they follow each other, those that are only in the tree among them."""
    columns = set(database.columns("message"))
    order = [name for name in ("time_created", "id") if name in columns]
    where = {"session_id": session}
    extra: list[tuple[int, str, Message | None]] = []
    if file is not None:
        known = {row[0] for row in database.rows("message", ("id",), where=where)}
        extra = [(*_order(message), (message, parts)) for message, parts in _read(file, tally, known)]
    rows = database.rows("message", ("id", order[0], "data"), order=order, where=where)
    kept: Iterator[tuple[int, str, Any]] = (
        (time if isinstance(time, int) else 0, text_of(identity), data) for identity, time, data in rows
    )
    for time, identity, what in merge(kept, extra, key=lambda each: each[:2]):
        if isinstance(what, tuple):
            yield what
        elif (message := _object(what, tally)) is not None:
            given = message.get("time") or {"created": time}
            parts = _parts(database, identity, tally) or _tree_parts(file, identity, tally)
            yield {**message, "id": identity, "time": given}, parts


def _parts(database: Foreign, message: str, tally: Tally) -> list[dict[str, Any]]:
    """Return the parts of a message."""
    if not set(_PART) <= set(database.columns("part")):
        return []
    found = []
    for identity, data in database.rows("part", ("id", "data"), order=("id",), where={"message_id": message}):
        if (part := _object(data, tally)) is not None:
            found.append({**part, "id": text_of(identity)})
    return found


def _object(data: Any, tally: Tally) -> dict[str, Any] | None:
    """Return the object that a text is; one that is none is counted."""
    value = _parsed(data)
    if not isinstance(value, dict):
        tally.bad("no object")
        return None
    return value


def _parsed(data: Any) -> Any:
    try:
        return parsed(data)
    except (ValueError, TypeError):
        return None


def _order(message: dict[str, Any]) -> tuple[int, str]:
    """Return what a message is ordered by."""
    created = dict_of(message.get("time")).get("created")
    return created if isinstance(created, int) else 0, text_of(message.get("id"))


def _databases(folder: Path, world: World | None = None) -> list[Path]:
    """Return the databases of a folder: the one of the released program first, it takes the tree along."""
    found = [each for each in _inside(folder, world) if each.name.startswith("opencode") and each.suffix == ".db"]
    return sorted(filter(_is_file, found), key=lambda each: (each.name != "opencode.db", each.name))


def _tree(folder: Path, world: World | None = None) -> Tree:
    """Return the sessions of both trees below a folder, the newer one first."""
    older = [each / "storage" / "session" / "info" for each in _inside(folder / "project", world)]
    newer = _inside(folder / "storage" / "session", world)
    found: Tree = {}
    for file in chain.from_iterable(_inside(each, world) for each in (*older, *newer)):
        if file.suffix == ".json":
            found[session_of(AGENT, file.name)] = file
    return found


def _folder(file: Path) -> Path | None:
    """Return the folder of OpenCode's data that a session of the tree lies in; None for another file."""
    above = [each.name for each in file.parents[:5]]
    if len(above) == 5 and above[:3] == ["info", "session", "storage"] and above[4] == "project":
        return file.parents[5] if len(file.parents) > 5 else None
    return file.parents[3] if above[1:3] == ["session", "storage"] and len(file.parents) > 3 else None


def _places(file: Path) -> tuple[Path, Any]:
    """Return where the messages of a session of the tree lie, and a function for the parts of one of them."""
    base = file.parent.parent if file.parent.name == "info" else file.parent.parent.parent
    places = base / "part" / file.stem, base / "part"
    return base / "message" / file.stem, lambda message: [place / message for place in places]


def _from_tree(session: str, file: Path, tally: Tally) -> Iterator[Item]:
    """Yield the items of a session of the tree."""
    if (info := _json(file, tally)) is None:
        raise BadSource(f"{file} holds nothing that can be read", reason="format")
    yield from items(text_of(info.get("id")) or session, info, _read(file, tally, ()), tally)


def _read(file: Path, tally: Tally, known: Collection[str]) -> Iterator[Message]:
    """Yield the messages of a session of the tree as they follow each other, but for those that are known."""
    infos: list[dict[str, Any]] = []
    for each in _inside(_places(file)[0]):
        if each.suffix == ".json" and each.stem not in known and (info := _json(each, tally)) is not None:
            infos.append({**info, "id": text_of(info.get("id")) or each.stem, "": each.stem})
    for info in sorted(infos, key=_order):
        yield info, _tree_parts(file, info.pop(""), tally) or list_of(info.get("parts"))


def _tree_parts(file: Path | None, message: str, tally: Tally) -> list[dict[str, Any]]:
    """Return the parts of a message of the tree; its name is one of a file there, or leads nowhere."""
    if file is None or message != Path(message).name:
        return []
    files = [each for place in _places(file)[1](message) for each in _inside(place) if each.suffix == ".json"]
    found = [({"id": each.stem} | part) for each in files if (part := _json(each, tally)) is not None]
    return sorted(found, key=lambda part: text_of(part.get("id")))


def _json(file: Path, tally: Tally) -> dict[str, Any] | None:
    """Return the object that a small file holds; one that holds none is counted."""
    try:
        text = _bytes(file, jsonl.LONGEST)
    except OSError:
        tally.bad("unreadable file")
        return None
    return _object(text, tally)


def _bytes(file: Path, most: int) -> bytes:
    """Return a file's bytes, none where it is no file or has more than allowed."""
    if not _is_file(file):
        return b""
    with file.open("rb") as stream:
        text = stream.read(most + 1)
    return text if len(text) <= most else b""


def _export(path: Path, tally: Tally, only: Collection[str] | None) -> Iterator[Item]:
    """Yield the items of what `opencode export` wrote."""
    try:
        if path.stat().st_size > LARGEST:
            raise BadSource(f"{path} is larger than {LARGEST} bytes", reason="size")
        value = _parsed(_bytes(path, LARGEST))
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {cause(error)}", reason="file") from error
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        raise BadSource(f"{path} is no export of OpenCode", reason="format")
    info = dict_of(value.get("info"))
    session = text_of(info.get("id")) or path.stem
    if only is None or session in only:
        yield from items(session, info, _exported(value["messages"], tally), tally)


def _exported(messages: Iterable[Any], tally: Tally) -> Iterator[Message]:
    for each in messages:
        message = each.get("info") if isinstance(each, dict) else None
        if isinstance(message, dict):
            yield message, list_of(each.get("parts"))
        else:
            tally.bad("no message")


def _inside(folder: Path, world: World | None = None) -> list[Path]:
    """Return what is in a folder; of a search, what may not be looked into is noted."""
    if world is not None:
        return homes.inside(world, folder)
    try:
        return sorted(folder.iterdir())
    except (OSError, ValueError):
        return []


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _stats(files: Iterable[Path]) -> str:
    return sha256("\n".join(map(_stat, files)).encode()).hexdigest()


def _stat(path: Path) -> str:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return "-"
    return f"{found.st_size}:{found.st_mtime_ns}:{found.st_ino}"
