"""What the editors of the VS Code family have in common: how they write values.

Copilot's chats and Cursor lie in the same kind of folders and use the same URIs and times. Values are taken loosely:
whatever is not of the type that was hoped for counts as not there. Nothing here opens a transcript or a database.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from bede.sources.kept import form, named
from bede.sources.parsed import parsed

#: Longest `workspace.json` or the like that is read.
SMALL = 1024 * 1024

_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:?\d\d)")
_PLAIN = re.compile(r"[\w.-]{1,100}")
_COMMAND = re.compile(r"/[A-Za-z][\w.:-]*(?:\s|$)")
_YAML = re.compile(r"^(\w+):(.*)$", re.MULTILINE)
_DRIVE = re.compile(r"/[A-Za-z]:(?:/|$)")
#: Milliseconds that can be times: 2001 to 2100. What is smaller was written in seconds, or is none.
_EARLIEST, _LATEST = 978_307_200_000, 4_102_444_800_000
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def text(value: Any) -> str:
    """Return a string, or '' for anything else."""
    return value if isinstance(value, str) else ""


def mapping(value: Any) -> dict[str, Any]:
    """Return an object, or an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:
    """Return an array, or an empty one for anything else."""
    return value if isinstance(value, list) else []


def number(value: Any) -> int | None:
    """Return a whole number, also one written as 2.0; None for anything else."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None


def count(value: Any) -> int:
    """Return a number of tokens; 0 for anything that is none."""
    return max(0, number(value) or 0)


def decoded(value: Any) -> Any:
    """Return what a JSON text holds; anything that is no such text as it is."""
    if isinstance(value, bytes):
        value = value.decode("utf-8-sig", "replace")
    if not isinstance(value, str):
        return value
    try:
        return parsed(value, strict=False)
    except ValueError:
        return value


def first(values: Mapping[str, Any], names: Iterable[str]) -> str:
    """Return the first of some fields that is a string and not empty; a field of strings counts by its first."""
    for name in names:
        value = values.get(name)
        if isinstance(value, list) and value:
            value = value[0]
        if isinstance(value, str) and value:
            return value
    return ""


def short(*values: Any) -> str:
    """Return a short hash of values as they are kept, the same on every machine."""
    return hashlib.blake2b(form(values), digest_size=6).hexdigest()


def glance(value: Any) -> int:
    """Return what tells values apart while a file is read, their secrets too: nothing that may be kept."""
    try:
        return hash(json.dumps(value, sort_keys=True, default=str))
    except RecursionError:
        return 0


def keyed(value: Any) -> str:
    """Return an id in a form that can be part of a key: without the marks that keys are made with, and short.

    Nothing for one that holds a secret: two of that sort would be one.
    """
    identity = named(text(value))
    return identity if not identity or _PLAIN.fullmatch(identity) else f"#{short(identity)}"


def is_command(said: str) -> bool:
    """Tell whether a prompt is a slash command, and not a path."""
    return bool(_COMMAND.match(said))


def instant(value: Any) -> tuple[int | None, Any]:
    """Return microseconds and precision of a time: ISO with its zone, or milliseconds since 1970."""
    if isinstance(value, str):
        return _iso(value)
    whole = number(value)
    if whole is None or not _EARLIEST <= whole <= _LATEST:
        return None, ""
    return whole * 1000, "ms"


def _iso(value: str) -> tuple[int | None, Any]:
    found = _ISO.fullmatch(value)
    if not found:
        return None, ""
    digits = len(found[1] or "")
    try:
        delta = datetime.fromisoformat(value) - _EPOCH
    except (ValueError, OverflowError):
        return None, ""
    at = (delta.days * 86400 + delta.seconds) * 1_000_000 + delta.microseconds
    return at, "s" if not digits else "ms" if digits <= 3 else "us"


def place(uri: Any) -> str:
    """Return the path that a URI stands for, as a string or as the parts that VS Code writes; '' where it is no file's.

    A path without a scheme is returned as it is; `file:///c%3A/a` is `c:/a`; a remote URI gives the path there.
    """
    if isinstance(uri, dict):
        path = text(uri.get("path"))
        if text(uri.get("scheme")) in ("", "file") and (shown := text(uri.get("fsPath"))):
            return shown
    elif isinstance(uri, str):
        if "://" not in uri:
            return uri
        try:
            parts = urlsplit(uri)
        except ValueError:
            return ""
        if parts.scheme not in ("file", "vscode-remote", "vscode-notebook-cell"):
            return ""
        path = unquote(parts.path)
        if parts.scheme == "file" and parts.netloc:
            return f"//{parts.netloc}{path}"
    else:
        return ""
    return path[1:] if _DRIVE.match(path) else path


def folder(storage: Path) -> str:
    """Return the folder that a workspace's storage belongs to, as its `workspace.json` tells; '' where it does not."""
    return place(mapping(small(storage / "workspace.json")).get("folder"))


def small(path: Path) -> Any:
    """Return what a small JSON file holds; None where it cannot be read."""
    try:
        with path.open("rb") as file:
            return decoded(file.read(SMALL))
    except OSError:
        return None


def scalars(path: Path) -> dict[str, str]:
    """Return the texts that a YAML file holds at its top, one a line; nothing where it cannot be read."""
    try:
        with path.open("rb") as file:
            lines = file.read(SMALL).decode("utf-8-sig", "replace")
    except OSError:
        return {}
    return {name: _scalar(value.strip()) for name, value in _YAML.findall(lines)}


def _scalar(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] == "'":
        return value[1:-1].replace("''", "'")
    if len(value) > 1 and value[0] == value[-1] == '"':
        return value[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    return "" if value[:1] in ("|", ">", "&", "*", "[", "{") or value in ("null", "~") else value


def inside(folder: Path) -> list[Path]:
    """Return what lies in a folder, by name; nothing where it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return [folder / name for name in sorted(entry.name for entry in entries)]
    except (OSError, ValueError):
        return []


def is_file(path: Path) -> bool:
    """Tell whether a path leads to a file; no where that cannot be told."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Tell whether a path leads to a folder; no where that cannot be told."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def is_foreign(begin: bytes) -> bool:
    """Tell whether lines of JSON cannot be what a file begins with; a half-written one can, and nothing at all."""
    begin = begin.removeprefix(b"\xef\xbb\xbf").lstrip(b"\x00 \t\r\n")
    return bool(begin) and not begin.startswith(b"{")


def stamps(*paths: Path) -> str:
    """Return sizes and times of files, which change whenever one of them does."""
    found = []
    for path in paths:
        try:
            state = path.stat()
            found.append(f"{state.st_size}.{state.st_mtime_ns}.{state.st_ino}")
        except (OSError, ValueError):
            found.append("-")
    return "/".join(found)
