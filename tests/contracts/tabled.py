"""Tables of static vectors, made by hand: a real engine over a few words."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bede.engines import static


def installed(*modules):
    """Import guests, or skip; one that is installed for another machine fails to load, and counts as absent."""
    why = f"needs {', '.join(modules)}: the extras of pyproject.toml bring them"
    return [pytest.importorskip(module, reason=why, exc_type=ImportError) for module in modules]


def table(words, rows, scales, /, **changes):
    """Return a model file, made by hand."""
    parts = {
        "scales": ("F32", [len(scales)], struct.pack(f"<{len(scales)}f", *scales)),
        "rows": ("I8", [len(rows), len(rows[0])], bytes(number & 255 for row in rows for number in row)),
        "words": ("U8", [len("\n".join(words).encode())], "\n".join(words).encode()),
    }
    header, body = {"__metadata__": {"format": static.FORMAT, "model": "hand"}}, b""
    for name, (kind, shape, data) in parts.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    for name, change in changes.items():
        header[name] = {**header.get(name, {}), **change}
    head = json.dumps(header).encode()
    return struct.pack("<Q", len(head)) + head + body


def meanings(folder: Path, groups: Sequence[Sequence[str]], **changes: Mapping[str, object]) -> Path:
    """Write a table in which the words of a group mean the same, and those of two groups have nothing in common."""
    words = [word for group in groups for word in group]
    rows = [[100 * (at == axis) for axis in range(len(groups))] for at, group in enumerate(groups) for _ in group]
    folder.mkdir(exist_ok=True)
    (folder / static.FILE).write_bytes(table(words, rows, [1.0] * len(words), **changes))
    return folder
