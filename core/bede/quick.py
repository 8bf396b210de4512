"""Dataclasses that are frozen to whoever checks types, and cheap to whoever runs.

To load what the standard library makes dataclasses with takes a tenth of an everyday call, and to make the forty that
such a call meets, most of which it never fills, as long again. A frozen one takes seven times as long to fill, too,
since each of its fields is set behind its own back. So these three names are the standard library's where types are
checked, which finds whoever writes to a field. What runs is this: always slotted, `__init__` written when the first one
is filled, and the standard library's view of a class made when somebody asks for it. Equality, hash, representation,
patterns and what `dataclasses` can do with one are the same. A dataclass here inherits no fields.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

TYPE_CHECKING = False  # read by type checkers as true: hooks wait for this room, and `typing` takes longer than it
if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace
    from typing import Any, TypeVar

    Kind = TypeVar("Kind", bound=type)

__all__ = ["dataclass", "field", "replace"]

_NONE = object()
#: To write an `__init__` takes as long as to do without one for so many times; most classes are filled a few times.
_FEW = 60
#: What a class without slots brings along, and one with slots makes for itself.
_UNSLOTTED = ("__dict__", "__weakref__")


class _Field:
    """What is said of a field: its default, or what makes one, and whether it is a parameter and is shown."""

    __slots__ = ("default", "default_factory", "init", "repr")

    def __init__(
        self, *, default: Any = _NONE, default_factory: Any = _NONE, init: bool = True, repr: bool = True
    ) -> None:
        self.default, self.default_factory, self.init, self.repr = default, default_factory, init, repr

    def line(self, name: str, known: dict[str, Any]) -> tuple[str, str]:
        """Return the parameter and the statement of `__init__` that fill a field; '' for none."""
        known[f"_{name}_"] = self.default if self.default_factory is _NONE else self.default_factory
        made = f"_{name}_" if self.default_factory is _NONE else f"_{name}_()"
        if not self.init:
            return "", "" if known[f"_{name}_"] is _NONE else f"self.{name} = {made}"
        if self.default_factory is not _NONE:
            return f"{name}=_NONE", f"self.{name} = {made} if {name} is _NONE else {name}"
        return name if self.default is _NONE else f"{name}={made}", f"self.{name} = {name}"


class _View:
    """The standard library's view of a class: an attribute that is made when it is first looked at."""

    def __init__(self, kind: type, fields: dict[str, _Field]) -> None:
        self._kind, self._fields = kind, fields

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> Any:
        import dataclasses

        if self._name not in self._kind.__dict__:
            for name, one in self._fields.items():
                said = {each: given for each in one.__slots__ if (given := getattr(one, each)) is not _NONE}
                setattr(self._kind, name, dataclasses.field(**said))
            dataclasses.dataclass(init=False, repr=False, eq=False)(self._kind)
        return getattr(self._kind, self._name)


def _dataclass(*, frozen: bool = False, slots: bool = False) -> Callable[[Kind], Kind]:
    """Make a class a slotted dataclass, as the standard library would; only that nothing guards a frozen one."""

    def declare(kind: Kind) -> Kind:
        space = {name: value for name, value in kind.__dict__.items() if name not in _UNSLOTTED}
        names = [name for name, hint in space.get("__annotations__", {}).items() if hint[:9] != "ClassVar["]
        fields = {name: _field_of(space.pop(name, _NONE)) for name in names}
        space |= _methods(fields, frozen) | {"__qualname__": kind.__qualname__, "__slots__": tuple(names)}
        for name in ("__dataclass_fields__", "__dataclass_params__"):
            space[name] = _View(kind, fields)
        made: Any = type(kind)(kind.__name__, kind.__bases__, space)
        left = _FEW

        def fill(self: Any, *values: Any, **named: Any) -> None:
            nonlocal left
            left -= 1
            if left < 0 or not _fill(self, fields, values, named):
                made.__init__ = _filling(made, fields)
                made.__init__(self, *values, **named)

        made.__init__ = fill
        return made  # type: ignore[no-any-return]

    return declare


def _field_of(given: Any) -> _Field:
    return given if isinstance(given, _Field) else _Field(default=given)


def _methods(fields: dict[str, _Field], frozen: bool) -> dict[str, Any]:
    """Return what a dataclass can do but be filled."""
    told = attrgetter(*fields) if fields else lambda _: ()
    shown = [name for name, one in fields.items() if one.repr]

    def is_equal(self: Any, other: Any) -> bool:
        return bool(told(self) == told(other)) if other.__class__ is self.__class__ else NotImplemented

    def show(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    return {
        "__eq__": is_equal,
        "__repr__": show,
        "__hash__": (lambda self: hash(told(self))) if frozen else None,
        "__match_args__": tuple(name for name, one in fields.items() if one.init),
    }


def _fill(record: Any, fields: dict[str, _Field], values: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Fill a record, if every field gets a value and every value has its field; tell whether it was so."""
    given = dict(zip(record.__match_args__, values, strict=False)) | named
    if len(given) < len(values) + len(named):
        return False
    for name, one in fields.items():
        value = given.pop(name, _NONE) if one.init else _NONE
        if value is _NONE:
            value = one.default if one.default_factory is _NONE else one.default_factory()
        if value is not _NONE:
            setattr(record, name, value)
        elif one.init:
            return False
    if not given and hasattr(record, "__post_init__"):
        record.__post_init__()
    return not given


def _filling(kind: type, fields: dict[str, _Field]) -> Any:
    """Return the `__init__` of a class, as quick as one that was written by hand."""
    known: dict[str, Any] = {"_NONE": _NONE}
    pairs = [one.line(name, known) for name, one in fields.items()]
    words = ", ".join(["self", *(word for word, _ in pairs if word)])
    lines = [line for _, line in pairs if line] + ["self.__post_init__()"] * hasattr(kind, "__post_init__")
    exec(f"def __init__({words}):\n " + "\n ".join(lines or ["pass"]), known)
    made = known["__init__"]
    made.__qualname__ = f"{kind.__qualname__}.__init__"
    return made


def _replace(record: Any, **changes: Any) -> Any:
    """Return a record like another one, but for some of its fields."""
    return type(record)(**{name: getattr(record, name) for name in record.__match_args__} | changes)


if not TYPE_CHECKING:
    dataclass, field, replace = _dataclass, _Field, _replace
