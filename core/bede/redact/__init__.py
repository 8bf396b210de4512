"""Secrets, and how they are kept off the disk.

Every string that is about to be hashed, indexed or written passes through `redact`. A secret leaves as
`[redacted:kind]`; everything around it stays as it was. Three signs are believed: a shape that only a
vendor's credential has (`shapes`), a place where only a credential stands (`places`), and a fitting value
beside a key-like name (`names`, `values`). Entropy alone is no sign: a log is made of hashes and ids.

It promises the same answer on every machine, linear time on any input, and that redacting twice is
redacting once. It never asks the network whether a secret is alive, reads no file and no setting, and
raises on no string. What it cannot see is listed in docs/records/redaction.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from operator import is_

from bede.redact import names, places, shapes
from bede.redact.places import Span
from bede.redact.values import rx

__all__ = ["KINDS", "redact", "redact_value"]

TYPE_CHECKING = False  # read by type checkers as true: `typing` itself takes longer than all of this room
if TYPE_CHECKING:
    from typing import TypeVar

    #: A JSON-like value; redacting keeps its type.
    Value = TypeVar("Value")

KINDS: tuple[str, ...] = tuple(sorted(shapes.KINDS | places.KINDS | names.KINDS))

_PASSES = 8
_LONGEST = 4096  # of a value judged by its field's name
_MARK = rb"\[redacted:([a-z0-9-]{2,32})\]"
_FOLDED = {"：": ":", "＝": "=", "“": '"', "”": '"', "‘": "'", "’": "'", "\xa0": " ", "\u3000": " "}
#: Under what names a command in words stands, or its arguments, and its program then.
_LISTS, _PROGRAMS = frozenset(("command", "cmd", "argv", "args", "arguments")), ("command", "program", "cmd")
_GAPS = (
    "\0\x1b\xad\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e"
    "\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\ufe0e\ufe0f\ufeff"
)
# Most text holds no secret, and looking for every stem in it would cost more than all the rest. So letters are
# folded until several stems look alike: `token` and `key` both hold three of A, `pass` and `pwd` a B and two C.
# Quotes are blanks.
_FOLD = bytes.maketrans(b"okeyOKEYpaPAwsdWSD\"'", b"AAAAAAAABBBBCCCCCC  ")
_FOLDS = bytes(_FOLD[c | 32 if 65 <= c <= 90 else c] for c in range(256))
# A clue in the folded text, and what to look for then.
_FINDERS: tuple[tuple[bytes, tuple[tuple[bytes, Callable[[bytes, bytes, bytes, bytes], Iterable[Span]]], ...]], ...] = (
    (b"@", ((b"@", places.urls),)),
    (b" -", ((b" -", places.commands), (b'"-', places.listed), (b"'-", places.listed))),
    (b"&", ((b"sig=", places.signed), (b"signature=", places.signed))),
    (b"BCC", ((b"pass", names.named), (b"pwd", names.named))),
    (
        b"AAA",
        (
            (b"token", names.named),
            (b"key", names.named),
            (b"private key", places.keys),
            (b"private-lines:", places.putty),
        ),
    ),
    (b"crA", ((b"secret", names.named), (b"cred", names.named))),
    (b"Buth", ((b"auth", names.named),)),
    (b"identified by".translate(_FOLDS), ((b"identified by", names.named),)),
)


def redact(text: str) -> str:
    """Return the text with every secret replaced by `[redacted:kind]`.

    Returns the very same object when there is nothing to hide. Idempotent, linear in the length, the same on
    every machine. Text that still changes after eight rounds was built to deceive and is hidden whole.
    """
    for _ in range(_PASSES):
        spans = _spans(text)
        if not spans:
            return text
        text = _cut(text, spans)
    return "[redacted:secret]" if _spans(text) else text


def redact_value(value: Value) -> Value:
    """Return a JSON-like value with every string in it redacted, keys too.

    A string under a key-like name is judged by that name, as `redact` judges JSON text; a command in words, which is
    a list under `command` or `args` or one with an option in it, also as it would be typed. Containers without a
    secret come back as the same objects; the others are copied, never changed. Any depth will do. Keys that become
    equal are told apart by a number.
    """
    if isinstance(value, str):
        return redact(value)  # type: ignore[return-value]
    done: dict[int, object] = {}
    opened: set[int] = set()
    stack: list[object] = [value]
    while stack:
        node = stack[-1]
        inner = [] if id(node) in opened else [child for child in _children(node) if _is_container(child)]
        opened.add(id(node))
        stack.extend(child for child in inner if id(child) not in opened)
        if stack[-1] is node:
            stack.pop()
            done.setdefault(id(node), _rebuilt(node, done))
    return done[id(value)]  # type: ignore[return-value]


def _is_container(value: object) -> bool:
    return isinstance(value, dict | list | tuple)


def _children(node: object) -> Iterable[object]:
    if isinstance(node, dict):
        return node.values()
    return node if isinstance(node, list | tuple) else ()


def _rebuilt(node: object, done: dict[int, object]) -> object:
    if isinstance(node, dict):
        return _rebuilt_dict(node, done)
    if not isinstance(node, list | tuple):
        return node
    flags = (None, *map(_flag, node))
    items = [_leaf(flag, item, done) for flag, item in zip(flags, node, strict=False)]
    items = _typed(items) if any(flags) else items
    return node if all(map(is_, items, node)) else _like(node, items)


def _like(node: list[object] | tuple[object, ...], items: list[object]) -> object:
    return items if isinstance(node, list) else tuple(items)


def _command(words: object, program: object) -> object:
    """Return a list that is a command, or the arguments of a program, judged as it would be typed."""
    if not isinstance(words, list | tuple):
        return words
    before = [program] if isinstance(program, str) else []
    typed = _typed(items := [*before, *words])
    return words if typed is items else _like(words, typed[len(before) :])


def _typed(words: list[object]) -> list[object]:
    """Return the words of a command without what is a secret once they are typed: `curl -u ann:…`, `mysql -p…`."""
    texts = [word for word in words if isinstance(word, str)]
    spans = _spans(" ".join(texts)) if len(texts) == len(words) else []
    if not spans:
        return words
    for _ in range(_PASSES):
        texts = list(_parted(texts, spans))
        if not (spans := _spans(" ".join(texts))):
            return [*texts]
    return ["[redacted:secret]"] * len(words)


def _parted(words: list[str], spans: list[Span]) -> Iterator[str]:
    """Yield words, without those spans of the text that they are with a blank between each two.

    A span that a blank ends goes on to the end of its word: somebody had put it in quotes.
    """
    at, number = 0, 0
    for word in words:
        end, inner = at + len(word), list[Span]()
        while number < len(spans) and spans[number][0] < end:
            start, stop, kind = spans[number]
            if max(at, start) < min(end, stop):
                last = min(end, stop) - at
                inner.append((max(at, start) - at, len(word) if word[last : last + 1].isspace() else last, kind))
            if stop > end:
                break  # It reaches into the next word.
            number += 1
        yield _cut(word, _merged(inner)) if inner else word
        at = end + 1


def _flag(item: object) -> object:
    """Return an option by which the word behind it is judged."""
    return _bare(redact(item)) if isinstance(item, str) and item.startswith("-") else None


def _bare(name: object) -> object:
    """Return a name without what stands in it for a secret: that judges nothing."""
    return re.sub(_MARK.decode(), "", name) if isinstance(name, str) and "[redacted:" in name else name


def _rebuilt_dict(node: dict[object, object], done: dict[int, object]) -> object:
    named, twins = node.get("name", node.get("Name")), 0
    fresh: dict[object, object] = {}
    for key, item in node.items():
        safe = base = redact(key) if isinstance(key, str) else key
        name = redact(named) if key in ("value", "Value") and isinstance(named, str) else safe
        while safe in fresh:
            twins += 1
            safe = f"{base}+{twins}"
        fresh[safe] = _leaf(_bare(name), item, done)
        if key in _LISTS:
            fresh[safe] = _command(fresh[safe], next((node[one] for one in _PROGRAMS if one in node), None))
    same = all(a is c and b is d for (a, b), (c, d) in zip(fresh.items(), node.items(), strict=True))
    return node if same else fresh


def _leaf(name: object, item: object, done: dict[int, object]) -> object:
    if not isinstance(item, str):
        return done.get(id(item), item)
    safe = redact(item)
    if isinstance(name, str) and len(name) <= 64 and len(item) <= _LONGEST:
        kind = names.judge(name.encode("ascii", "replace"), _seen(item).encode("ascii", "replace").strip())
        if kind and not rx(_MARK).fullmatch(safe.encode("ascii", "replace")):
            return f"[redacted:{kind}]"
    return safe


def _spans(text: str) -> list[Span]:
    """Return where the secrets stand, in order, apart from each other."""
    seen = _seen(text)
    raw = seen.encode("ascii", "replace")  # one byte a character: offsets stay
    if b"[redacted:" in raw:
        raw = rx(_MARK).sub(_walled, raw)
    found = _found(raw)
    if not found:
        return found
    found = _merged(found)
    if len(seen) != len(text):
        found = list(_placed(text, found))
    return found


def _seen(text: str) -> str:
    """Return the text as a reader sees it: what splits a word without showing is gone."""
    if text.isascii() and "\x1b" not in text and "\0" not in text:
        return text
    for wide, plain in _FOLDED.items():
        text = text.replace(wide, plain)
    return _unseen().sub("", text) if any(gap in text for gap in _GAPS) else text


def _placed(text: str, found: list[Span]) -> Iterator[Span]:
    """Yield spans of what is seen, in order and apart from each other, as spans of the text with its gaps."""
    gaps = _unseen().finditer(text)
    gap, hidden = next(gaps, None), 0

    def place(seen: int) -> int:
        nonlocal gap, hidden
        while gap and gap.start() - hidden <= seen:
            hidden += gap.end() - gap.start()
            gap = next(gaps, None)
        return seen + hidden

    for start, end, kind in found:
        yield place(start), place(end - 1) + 1, kind


@cache
def _unseen() -> re.Pattern[str]:
    return re.compile(rf"\x1b\[[0-?]*[ -/]*[@-~]|[{_GAPS}]")


def _walled(mark: re.Match[bytes]) -> bytes:
    # A marker becomes NULs, which no rule touches or looks past: so redacting twice changes nothing.
    return b"\0" * len(mark[0]) if mark[1].decode() in KINDS else mark[0]


def _found(raw: bytes) -> list[Span]:
    shape = shapes.outline(raw)
    found = list(shapes.shaped(raw, shape)) if shapes.RUN in shape else []
    low = raw.translate(_FOLDS)
    hinted = [row for clue, rows in _FINDERS if clue in low for row in rows]
    if hinted:
        low = raw.lower()  # In place of what was folded: a text may be long.
        for needle, finder in hinted:
            if needle in low:
                found.extend(finder(needle, raw, low, shape))
    return found


def _merged(found: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end, kind in sorted(found, key=lambda span: span[0]):
        if merged and start < merged[-1][1]:
            first, last, kind = merged.pop()
            start, end = first, max(last, end)
        merged.append((start, end, kind))
    return merged


def _cut(text: str, spans: list[Span]) -> str:
    pieces, last = [], 0
    for start, end, kind in spans:
        pieces += [text[last:start], f"[redacted:{kind}]"]
        last = end
    return "".join(pieces) + text[last:]
