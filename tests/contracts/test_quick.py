"""A quick dataclass is one of the standard library's in all but its guard."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any, ClassVar

import pytest

from bede import quick


@quick.dataclass(frozen=True, slots=True)
class Quick:
    KIND: ClassVar[str] = "kind"

    name: str
    size: int = 3
    parts: tuple[str, ...] = quick.field(default=("a",))


@dataclasses.dataclass(frozen=True, slots=True)
class Slow:
    KIND: ClassVar[str] = "kind"

    name: str
    size: int = 3
    parts: tuple[str, ...] = dataclasses.field(default=("a",))


@quick.dataclass(slots=True)
class Loose:
    names: list[str] = quick.field(default_factory=list)
    secret: str = quick.field(default="s", repr=False)
    first: str = quick.field(init=False)

    def __post_init__(self) -> None:
        self.first = self.names[0] if self.names else ""


@quick.dataclass(frozen=True, slots=True)
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


#: More than are filled before an `__init__` is written.
MANY = 200


def test_fields_are_filled_as_they_say() -> None:
    one: Any = Loose
    for _ in range(MANY):
        made = one(names=["a", "b"])
        assert (made.names, made.secret, made.first) == (["a", "b"], "s", "a")
        assert repr(made).endswith("Loose(names=['a', 'b'], first='a')")
        assert quick.replace(made, names=["c"]) == one(["c"]) == dataclasses.replace(made, names=["c"])
    assert one.__match_args__ == ("names", "secret")
    names = {field.name: (field.init, field.repr) for field in dataclasses.fields(one)}
    assert names == {"names": (True, True), "secret": (True, False), "first": (False, True)}


@pytest.mark.parametrize("values", [(), ("n", 3, (), "too many")])
@pytest.mark.parametrize("named", [{}, {"colour": "red"}, {"name": "twice"}])
def test_what_does_not_fit_is_told_as_ever(values: tuple[Any, ...], named: dict[str, Any]) -> None:
    if (values, named) == ((), {"name": "twice"}):
        assert Quick(**named) == Quick("twice")
        return
    with pytest.raises(TypeError) as slow:
        Slow(*values, **named)
    for _ in range(2):
        with pytest.raises(TypeError) as told:
            Quick(*values, **named)
        assert str(told.value) == str(slow.value).replace("Slow", "Quick")


def test_one_that_is_filled_slowly_is_like_one_that_is_filled_fast() -> None:
    @quick.dataclass(frozen=True, slots=True)
    class Fresh:
        name: str
        size: int = 3

    class Child(Fresh):
        """What a class without fields of its own makes of one."""

    made = [Fresh("n", size=number % 3) for number in range(MANY)]
    assert set(made) == {Fresh("n", 0), Fresh("n", 1), Fresh("n", 2)} and made[0] == made[198]
    assert (Child("c").name, Child("c").size) == ("c", 3)
