"""What each run did, one JSON object a line, newest last.

The file is private and stays small: past a megabyte its older half is dropped, in one step, so that a reader
or a crash meets the old file or the new one. A line is whole or it is not there; whatever else is found
between lines, torn, foreign or hostile, is passed over. A run's line says at least `at` (RFC 3339) and
`outcome`.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from bede.config import user_folder
from bede.errors import Unavailable, cause
from bede.redact import redact_value
from bede.turnstile import held

_MOST = 1_000_000
#: Of a line of ours, and of what is read to find the newest one.
_LINE, _TAIL = 16_000, 256_000
#: Seconds to wait for another writer. One that is stopped in the middle must not stop everybody.
_PATIENCE = 5.0
_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def place(environment: Mapping[str, str]) -> Path:
    """Return the file that tells of the user's scheduled runs."""
    return user_folder(environment, "data") / "ingest.log"


def write(path: Path, line: Mapping[str, Any]) -> None:
    """Append an object as one line, in ASCII and without secrets; of a very long one the longest values are left out.

    Which ones, `left_out` tells.

    Raises:
        Unavailable: the file cannot be written, or is none.
    """
    data = _packed(redact_value(dict(line)))
    try:
        with held(path.with_name(f".{path.name}.lock"), _PATIENCE) as alone:
            if alone and _length(path) + len(data) > _MOST:
                _halve(path)
            _append(path, data)
    except (OSError, ValueError) as error:
        raise Unavailable(f"cannot write {path}: {cause(error)}", hint="check the folder and the disk") from error


def last(path: Path) -> dict[str, Any] | None:
    """Return the newest object that can be read; None where there is none.

    Raises:
        Unavailable: the file may not be read.
    """
    try:
        lines = _tail(path).split(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise Unavailable(f"cannot read {path}: {cause(error)}", hint="check its permissions") from error
    return next((found for line in reversed(lines) if (found := _read(line)) is not None), None)


def _packed(line: Mapping[str, Any]) -> bytes:
    values = {str(name): _written(value) for name, value in line.items()}
    left_out: list[str] = []
    while values and sum(map(len, values.values())) + sum(map(len, values)) > _LINE:
        left_out.append(longest := max(values, key=lambda name: len(name) + len(values[name])))
        del values[longest]
    if left_out:
        values["left_out"] = json.dumps([name[:40] for name in left_out[:20]])
    pairs = ",".join(f"{json.dumps(name)}:{value}" for name, value in values.items())
    return f"{{{pairs}}}\n".encode("ascii")


def _written(value: Any) -> str:
    """Return a value as JSON; what JSON cannot say, as the name of its type."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return json.dumps(type(value).__name__)


def _length(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0


def _append(path: Path, data: bytes) -> None:
    """Write in one go at the end, behind what a crash may have torn."""
    handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND | _FLAGS, 0o600)
    try:
        size = _size(handle)
        if size and _at(handle, size - 1, 1) != b"\n":
            data = b"\n" + data
        if os.write(handle, data) != len(data):
            raise OSError("the disk is full")
    finally:
        os.close(handle)


def _size(handle: int) -> int:
    about = os.fstat(handle)
    if not stat.S_ISREG(about.st_mode):
        raise OSError("it is no ordinary file")
    return about.st_size


def _at(handle: int, offset: int, length: int) -> bytes:
    os.lseek(handle, offset, os.SEEK_SET)
    parts = []
    while length > 0 and (part := os.read(handle, length)):
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _tail(path: Path, most: int = _TAIL) -> bytes:
    """Return the end of a file, however large the file is."""
    handle = os.open(path, os.O_RDONLY | _FLAGS)
    try:
        size = _size(handle)
        return _at(handle, max(size - most, 0), most)
    finally:
        os.close(handle)


def _halve(path: Path) -> None:
    """Keep the newer half, from the beginning of a line on."""
    kept = _tail(path, _MOST // 2).partition(b"\n")[2]
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        handle = os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | _FLAGS, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(kept)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _read(line: bytes) -> dict[str, Any] | None:
    """Return a line's object, if it is one that can be written again."""
    try:
        found = json.loads(line.decode("utf-8"), parse_constant=_none, parse_float=_finite)
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _none(text)


def _none(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")
