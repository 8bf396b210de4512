"""Editing files that belong to others: what is put in, how it is recognised again, and how it is taken out.

An installer says what it wants as a list of pieces; this room turns a file's bytes into the bytes with them, or
without. Everything else in the file stays as it was: comments, order, indentation, BOM, line ends, mode, links. A
file that cannot be parsed is refused, never mended. Nothing here knows an agent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Format = Literal["json", "jsonc", "toml", "text"]


@dataclass(frozen=True, slots=True)
class Member:
    """One named member of an object: `keys` leads to it, its last name is ours.

    Members of it named in `kept` are a user's own where they stand already, and survive an install; any other that is
    not in `value` goes.
    """

    keys: tuple[str, ...]
    value: Any
    kept: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Items:
    """Items of one array, found again by what they look like: `is_ours` tells it of any item there.

    Where `inner` names a member, an item is a group, an object that holds an array under that name, and `is_ours` is
    asked about what is in that array. A group is ours if all in it is; of one that somebody else has joined, only
    what is ours goes.
    """

    keys: tuple[str, ...]
    values: tuple[Any, ...]
    is_ours: Callable[[Any], bool]
    inner: str = ""


@dataclass(frozen=True, slots=True)
class Default:
    """A member that the format asks for (`"version": 1`): put where it is missing, taken out with the last of ours."""

    keys: tuple[str, ...]
    value: Any


@dataclass(frozen=True, slots=True)
class Whole:
    """A file that is ours from first to last byte; `mark` is a line that proves it."""

    text: str
    mark: str


@dataclass(frozen=True, slots=True)
class Section:
    """A marked block of lines inside somebody's text, `begin` and `end` being whole lines.

    A `{sha}` in `begin` stands for a hash of the lines between, which tells whether somebody has changed them since.
    The block comes last, or with `top` first, below a `#!` line only: there it runs whatever a script does later, and
    stands above any `exec`. `head` is what a file begins with that was not there before; one with nothing else left in
    it is deleted.
    """

    text: str
    begin: str
    end: str
    top: bool = False
    head: str = ""


Piece = Member | Items | Default | Whole | Section


@dataclass(frozen=True, slots=True)
class Target:
    """One file and what is to stand in it.

    `folders` says whether missing folders above it may be made; without, a file whose folder is missing is refused.
    """

    file: Path
    format: Format
    pieces: tuple[Piece, ...]
    folders: bool = True
    executable: bool = False
