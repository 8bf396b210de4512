"""A quick dataclass is one of the standard library's in all but its guard."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

if TYPE_CHECKING:
    from dataclasses import dataclass as quick
else:
    from bede.quick import dataclass as quick


@quick(frozen=True, slots=True)
class Quick:
    KIND: ClassVar[str] = "kind"

    name: str
    size: int = 3
    parts: tuple[str, ...] = dataclasses.field(default=("a",))


@dataclasses.dataclass(frozen=True, slots=True)
class Slow:
    KIND: ClassVar[str] = "kind"

    name: str
    size: int = 3
    parts: tuple[str, ...] = dataclasses.field(default=("a",))


@quick(slots=True)
class Loose:
    names: list[str] = dataclasses.field(default_factory=list)


@quick(frozen=True)
class Empty:
    pass


def test_equality_hash_and_representation_are_the_same() -> None:
    one, same, other = Quick("n"), Quick("n", 3), Quick("n", 4)
    strangers: tuple[Any, ...] = (Slow("n"), ("n", 3, ("a",)))
    assert one == same and one != other and one not in strangers
    assert hash(one) == hash(same) == hash(Slow("n"))
    assert repr(one) == repr(Slow("n")).replace("Slow", "Quick")
    assert Empty() == Empty() and repr(Empty()) == "Empty()" and len({Empty(), Empty()}) == 1


def test_it_is_a_dataclass_to_everybody_else() -> None:
    assert [field.name for field in dataclasses.fields(Quick)] == ["name", "size", "parts"]
    assert Quick.__slots__ == Slow.__slots__
    assert dataclasses.replace(Quick("n"), size=7) == Quick("n", 7)
    assert dataclasses.asdict(Quick("n")) == dataclasses.asdict(Slow("n"))
    made: Any = Quick("n", 5)
    assert copy.deepcopy(made) == made == pickle.loads(pickle.dumps(made))
    with pytest.raises(AttributeError):
        made.no_such_field = 1


def test_what_may_change_is_in_no_set() -> None:
    assert Loose() == Loose() and Loose().names is not Loose().names
    with pytest.raises(TypeError):
        hash(Loose())
