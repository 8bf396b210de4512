"""Static vectors: a text's vector is the weighted mean of its tokens' vectors, read from a small table.

The table is made by scripts/distil. It is found where it is said to be, else in Bede's cache, else beside this module.
Tokens are BERT's: texts are cut here as that tokeniser cuts them, with the standard library. Vectors are the same bits
in every process: no sum is left to the processor's taste, and no row depends on the other texts. Threads may share an
embedder.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bede.engines import hub
from bede.errors import Corrupt, Unavailable, cause

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from bede.engines.embedding import Kind

__all__ = ["Pieces", "Static", "embedder"]

FILE = "static.safetensors"
FORMAT = "bede-static/1"

_LARGEST = 1 << 30  # bytes of a table
#: What lies behind so many characters of a text does not count: the mean of a whole log says little anyway.
_LONGEST = 1 << 20
_STRIDE = 1024  # tokens that are summed at once, so that memory is bounded
_WIDEST = 100  # characters of a word that is still cut into pieces, as in BERT
_REMEMBERED = 1 << 16  # words, and characters


def embedder(cache: Path, place: Path | None = None) -> Static:
    """Return the embedder over the table in a place, a folder or the file; else in the cache, else in the package.

    Raises:
        Unavailable: there is no table, or no numpy.
        Corrupt: the table is damaged.
    """
    hub.need("vectors", "numpy")
    for path in (cache / FILE, Path(__file__).with_name(FILE)) if place is None else _inside(place):
        try:
            return _checked(_bytes(path), path)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            continue
        except (OSError, ValueError) as error:
            hint = "check the path and its permissions"
            raise Unavailable(f"cannot read {path}: {cause(error)}", hint=hint) from error
    where = cache / FILE if place is None else place
    raise Unavailable(
        f"there is no table of static vectors at {where}",
        hint=f"make it with scripts/distil and put it at {where}, or choose another embedder",
    )


def _inside(place: Path) -> tuple[Path, ...]:
    try:
        found = place.expanduser()
    except RuntimeError:  # A home that nobody has.
        found = place
    return (found / FILE, found)


def _bytes(path: Path) -> bytes:
    if path.stat().st_size > _LARGEST:
        raise ValueError(f"it is larger than {_LARGEST >> 20} MB")
    return path.read_bytes()


class Static:
    """An embedder over one table."""

    def __init__(self, name: str, words: Sequence[str], rows: NDArray[np.int8], scales: NDArray[np.float32]) -> None:
        self.name = name
        self.dimensions: int = rows.shape[1]
        self._pieces = Pieces({word: at for at, word in enumerate(words)})
        self._rows = rows
        self._scales = scales

    def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        """Return the vectors; a text without any known token has the zero vector. Kinds are all one here."""
        import numpy as np

        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            ids = np.array(self._pieces.of(text), np.intp)
            for at in range(0, len(ids), _STRIDE):
                part = ids[at : at + _STRIDE]
                # Rows are added one after the other; a matrix product would add as the processor likes.
                row += (self._rows[part] * self._scales[part]).sum(0)
            length = np.sqrt((row * row).sum())
            if length > 0:
                row /= length
        return vectors


# The table


def _checked(data: bytes, path: Path) -> Static:
    """Return the embedder over a file of which nothing is believed."""
    try:
        return _read(data)
    except (KeyError, TypeError, ValueError) as error:
        raise Corrupt(
            f"the table of static vectors is damaged: {path}: {error}",
            hint="make it again with scripts/distil, or install bede again",
        ) from error


def _read(data: bytes) -> Static:
    import numpy as np

    header, body = _header(data)
    about = header.pop("__metadata__", {})
    if about["format"] != FORMAT or not re.fullmatch(r"[\w.-]{1,80}", about["model"]):
        raise ValueError(f"its format is not {FORMAT}, or its model has no name")
    words = bytes(_tensor(header, body, "words", "U8", 1)).decode().split("\n")
    count, dimensions = header["rows"]["shape"]
    rows = np.frombuffer(_tensor(header, body, "rows", "I8", 2), np.int8).reshape(count, dimensions)
    scales = np.frombuffer(_tensor(header, body, "scales", "F32", 1), "<f4").astype(np.float32)
    if not len(words) == count == len(scales) or not dimensions:
        raise ValueError("words, rows and scales do not agree")
    if not (np.abs(scales) < 1e6).all():
        raise ValueError("a scale is out of range")
    digest = hashlib.sha256(data).hexdigest()[:16]
    return Static(f"static:{about['model']}@{digest}", words, rows, scales[:, None])


def _header(data: bytes) -> tuple[dict[str, Any], memoryview]:
    """Return the header of a safetensors file, and what follows it."""
    size = int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8 : 8 + size]) if 8 + size <= len(data) else None
    except RecursionError as error:
        raise ValueError("its header is too deep") from error
    if not isinstance(header, dict):
        raise ValueError("it has no header")
    return header, memoryview(data)[8 + size :]


def _tensor(header: Mapping[str, Any], body: memoryview, name: str, kind: str, rank: int) -> memoryview:
    entry = header[name]
    (start, end), shape = entry["data_offsets"], entry["shape"]
    width = {"F32": 4}.get(kind, 1)
    if entry["dtype"] != kind or len(shape) != rank or not all(isinstance(size, int) and size >= 0 for size in shape):
        raise ValueError(f"{name} is of another kind")
    if not 0 <= start <= end <= len(body) or end - start != prod(shape) * width:
        raise ValueError(f"{name} is not whole")
    return body[start:end]


# Tokens


class Pieces:
    """A vocabulary that texts are cut by: words at blanks and signs, and words into the longest pieces from the left.

    Case and accents do not count. A word that cannot be cut into known pieces, or has more than 100 characters, is
    left out.
    """

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self._words = _Words(vocabulary)

    def of(self, text: str) -> list[int]:
        """Return the numbers of the known pieces, in order."""
        return list(chain.from_iterable(map(self._words.__getitem__, _split(text[:_LONGEST]))))


class _Words(dict[str, tuple[int, ...]]):
    """For each word its pieces, worked out when first asked for."""

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        super().__init__()
        self._vocabulary = vocabulary

    def __missing__(self, word: str) -> tuple[int, ...]:
        pieces = tuple(self._cut(word)) if len(word) <= _WIDEST else ()
        if len(self) < _REMEMBERED:
            self[word] = pieces = () if -1 in pieces else pieces
        return () if -1 in pieces else pieces

    def _cut(self, word: str) -> Iterator[int]:
        """Yield the pieces; -1 where there is none, and an end."""
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            found = ((end, self._vocabulary.get(prefix + word[start:end])) for end in range(len(word), start, -1))
            start, piece = next(((end, at) for end, at in found if at is not None), (len(word), -1))
            yield piece


def _split(text: str) -> list[str]:
    if text.isascii():
        return _ASCII.findall(text.encode().translate(_LOWER, _CONTROL).decode())
    return text.translate(_SIGNS).split(" ")


_CONTROL = bytes(code for code in (*range(0x20), 0x7F) if code not in b"\t\n\r")
_LOWER = bytes(range(128)).lower() + bytes(range(128, 256))
_ASCII = re.compile(r"[a-z0-9]+|[!-/:-@\[-`{-~]")


class _Signs(dict[int, str]):
    """For each character what BERT makes of it: lower case without accents, apart where it is a sign, or nothing."""

    def __missing__(self, code: int) -> str:
        text = _sign(code)
        if len(self) < _REMEMBERED:
            self[code] = text
        return text


def _sign(code: int) -> str:
    import unicodedata

    char = chr(code)
    if char in "\t\n\r" or unicodedata.category(char)[0] == "Z":
        return " "
    if unicodedata.category(char) in ("Cc", "Cf", "Co", "Cs") or char == "\ufffd":
        return ""  # what is not assigned, though, is a letter
    plain = "".join(part for part in unicodedata.normalize("NFD", char) if unicodedata.category(part) != "Mn").lower()
    parts = (f" {part} " if unicodedata.category(part)[0] == "P" or _is_sign(part) else part for part in plain)
    return f" {plain} " if any(low <= code <= high for low, high in _HAN) else "".join(parts)


def _is_sign(char: str) -> bool:
    return char.isascii() and not char.isalnum() and char != " "


#: The ideographs that BERT takes for words of their own; Hangul and kana are not among them.
_HAN = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)
_SIGNS = _Signs()
