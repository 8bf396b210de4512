"""Dataclasses that are frozen to whoever checks types, and cheap to whoever runs.

A frozen dataclass takes twice as long to declare as one that is not, and seven times as long to make, since each of its
fields is set behind its own back. Every call pays for the one, every record of a transcript for the other, and whoever
writes to a field is found by mypy. So what every call loads, or what is made by the ten thousand, takes this
`dataclass` at run time, and the standard library's where types are checked. Equality, hash and representation are the
same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar, cast

Kind = TypeVar("Kind", bound=type)


def dataclass(*, frozen: bool = False, slots: bool = False) -> Callable[[Kind], Kind]:
    """Make a class a dataclass, as the standard library would; only that nothing guards the fields of a frozen one."""

    def declare(kind: Kind) -> Kind:
        made: Any = dataclasses.dataclass(slots=slots, repr=False, eq=False)(kind)
        names = tuple(field.name for field in dataclasses.fields(made))
        told = attrgetter(*names) if names else lambda _: ()

        def is_equal(self: Any, other: Any) -> bool:
            return bool(told(self) == told(other)) if other.__class__ is self.__class__ else NotImplemented

        def show(self: Any) -> str:
            return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

        made.__eq__, made.__repr__ = is_equal, show
        made.__hash__ = (lambda self: hash(told(self))) if frozen else None
        return cast(Kind, made)

    return declare
