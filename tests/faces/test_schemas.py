"""JSON Schemas of operations, and the door for foreign arguments: both say the same, and what the function says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bede import schemas
from bede.context import Context
from bede.errors import ERRORS, BedeError, UsageError
from bede.operation import Field, Operation, operation
from bede.operations import VERBS, load
from bede.records import Record


@dataclass(frozen=True, slots=True)
class Part(Record):
    """One part."""

    name: str
    from_: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Thin(Record):
    """A part that leaves its empty values out."""

    SPARSE: ClassVar[bool] = True

    count: int = 0
    sure: bool = False
    title: str = ""
    tags: tuple[str, ...] = ()
    value: Any = None
    part: Part | None = None


@dataclass(frozen=True, slots=True)
class Result(Record):
    """A result of every sort of value."""

    SCHEMA: ClassVar[str] = "sample/1"

    title: str
    ratio: float
    parts: tuple[Part, ...]
    thin: Thin
    note: dict[str, Any]
    at: str | None


@operation(effect="read", toolset="memory")
def sample(
    context: Context,
    title: Annotated[str, Field("What it is called")],
    paths: Annotated[tuple[str, ...], Field("Many")] = (),
    *,
    limit: Annotated[int, Field("Most of them", ge=1, le=100)] = 10,
    share: Annotated[float | None, Field("How much", ge=0)] = None,
    full: Annotated[bool, Field("All of it")] = False,
    kind: Annotated[Literal["red", "blue"], Field("Which")] = "red",
    kinds: Annotated[list[Literal["red", "blue"]] | None, Field("Which ones")] = None,
    labels: Annotated[list[str] | None, Field("name:value", pattern=r"^[a-z]+:[a-z]+\Z")] = None,
    sizes: Annotated[list[int] | None, Field("How big", ge=0, le=9)] = None,
    more: Annotated[dict[str, Any] | None, Field("Anything")] = None,
    from_: Annotated[str, Field("Where from")] = "",
    file: Annotated[Path | None, Field("A file", cli_only=True)] = None,
) -> Result:
    """Show every sort of parameter."""
    raise AssertionError


SAMPLE: Operation = sample.operation  # type: ignore[attr-defined]
SCHEMA = schemas.input_schema(SAMPLE)


def test_the_input_schema_says_what_the_signature_says() -> None:
    assert SCHEMA == {
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": "What it is called"},
            "paths": {"type": "array", "items": {"type": "string"}, "description": "Many"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 100, "description": "Most of them", "default": 10},
            "share": {"type": "number", "minimum": 0, "description": "How much"},
            "full": {"type": "boolean", "description": "All of it"},
            "kind": {"type": "string", "enum": ["red", "blue"], "description": "Which", "default": "red"},
            "kinds": {
                "type": "array",
                "items": {"type": "string", "enum": ["red", "blue"]},
                "description": "Which ones",
            },
            "labels": {
                "type": "array",
                "items": {"type": "string", "pattern": r"^[a-z]+:[a-z]+\Z"},
                "description": "name:value",
            },
            "sizes": {
                "type": "array",
                "items": {"type": "integer", "minimum": 0, "maximum": 9},
                "description": "How big",
            },
            "more": {"type": "object", "additionalProperties": True, "description": "Anything"},
            "from": {"type": "string", "description": "Where from"},
        },
        "required": ["title"],
        "additionalProperties": False,
    }


def test_bound_arguments_are_those_that_were_given() -> None:
    assert schemas.bind(SAMPLE, {"title": "x"}) == {"title": "x"}
    given = {
        "title": "x", "paths": ["a"], "limit": 100, "share": 1, "full": True, "kind": "blue", "kinds": ["red"],
        "labels": ["a:b"], "sizes": [0, 9], "more": {"deep": [None, {"er": 1}]}, "from": "here",
    }  # fmt: skip
    bound = schemas.bind(SAMPLE, given)
    assert bound.pop("from_") == given.pop("from")
    assert bound == given


def test_null_stands_for_not_given_where_the_function_has_a_none() -> None:
    assert schemas.bind(SAMPLE, {"title": "x", "share": None, "kinds": None, "more": None}) == {"title": "x"}
    with pytest.raises(UsageError, match=r"^sample: limit must be a whole number from 1 to 100, not null$"):
        schemas.bind(SAMPLE, {"title": "x", "limit": None})


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"title": 5}, "title must be a string, not 5"),
        ({"title": None}, "title must be a string, not null"),
        ({"title": ["x"]}, "title must be a string, not an array"),
        ({"title": {"x": 1}}, "title must be a string, not an object"),
        ({"paths": "a"}, "paths must be an array, each element a string, not 'a'"),
        ({"paths": ["a", 3, 4]}, "paths[1] must be a string, not 3"),
        ({"limit": "5"}, "limit must be a whole number from 1 to 100, not '5'"),
        ({"limit": True}, "limit must be a whole number from 1 to 100, not true"),
        ({"limit": 5.5}, "limit must be a whole number from 1 to 100, not 5.5"),
        ({"limit": 0}, "limit must be a whole number from 1 to 100, not 0"),
        ({"limit": 101}, "limit must be a whole number from 1 to 100, not 101"),
        ({"limit": 10**400}, "limit must be a whole number from 1 to 100, not a number that large"),
        ({"share": -0.5}, "share must be a number of at least 0, not -0.5"),
        ({"share": "1"}, "share must be a number of at least 0, not '1'"),
        ({"full": 1}, "full must be true or false, not 1"),
        ({"full": "true"}, "full must be true or false, not 'true'"),
        ({"kind": "green"}, "kind must be one of red, blue, not 'green'"),
        ({"kinds": ["red", "green"]}, "kinds[1] must be one of red, blue, not 'green'"),
        ({"labels": ["A"]}, r"labels[0] must be a string that matches ^[a-z]+:[a-z]+\Z, not 'A'"),
        ({"labels": ["a:b\n"]}, r"labels[0] must be a string that matches ^[a-z]+:[a-z]+\Z, not 'a:b\n'"),
        ({"sizes": [10]}, "sizes[0] must be a whole number from 0 to 9, not 10"),
        ({"more": [1]}, "more must be an object, not an array"),
        ({"nonsense": 1}, "no argument 'nonsense'"),
        ({"file": "x"}, "no argument 'file'"),
        ({"from_": "x"}, "no argument 'from_'"),
        ({"a": 1, "b": 2}, "no argument 'a'; no argument 'b'"),
        ({"title": 1, "limit": 0}, "title must be a string, not 1; limit must be a whole number from 1 to 100, not 0"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_by_name(arguments: dict[str, Any], fault: str) -> None:
    with pytest.raises(UsageError) as caught:
        schemas.bind(SAMPLE, {"title": "x", **arguments})
    assert caught.value.message == f"sample: {fault}"
    assert caught.value.hint.startswith("sample takes title, paths, limit, ")
    assert "pydantic" not in json.dumps(caught.value.to_json())


def test_a_missing_argument_is_named() -> None:
    with pytest.raises(UsageError, match=r"^sample: title is missing$"):
        schemas.bind(SAMPLE, {})


@pytest.mark.parametrize("arguments", [None, [], "title", 1])
def test_arguments_are_an_object(arguments: Any) -> None:
    with pytest.raises(UsageError, match="the arguments must be an object"):
        schemas.bind(SAMPLE, arguments)


def test_a_complaint_is_short_whatever_came_in() -> None:
    deep: Any = []
    for _ in range(10_000):
        deep = [deep]
    for hostile in (
        {"title": deep},
        {"title": "x", "sizes": ["no"] * 300_000},
        {"title": "x", "limit": "9" * 1_000_000},
        {"x" * 1_000_000: 1},
        {f"k{number}": 1 for number in range(100_000)},
    ):
        with pytest.raises(UsageError) as caught:
            schemas.bind(SAMPLE, hostile)
        assert len(json.dumps(caught.value.to_json())) < 1000


_SCALARS = st.none() | st.booleans() | st.integers(-3, 120) | st.sampled_from([0.5, -0.5, "", "red", "a:b", "x"])
_JSON = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from([*SCHEMA["properties"], "file", "other"]), _JSON, max_size=4), st.booleans())
def test_what_is_bound_is_what_fits_the_schema(arguments: dict[str, Any], titled: bool) -> None:
    arguments = {"title": "x", **arguments} if titled else arguments
    optional = ("share", "kinds", "labels", "sizes", "more")
    said = {key: value for key, value in arguments.items() if value is not None or key not in optional}
    fits = jsonschema.Draft202012Validator(SCHEMA).is_valid(said)
    try:
        bound = schemas.bind(SAMPLE, arguments)
    except UsageError:
        assert not fits
    else:
        assert fits
        assert {name.rstrip("_"): value for name, value in bound.items()} == said


# Results


def _result() -> Result:
    part = Part("a", "b", 2)
    return Result("t", 0.5, (part, part), Thin(count=1, tags=("x",), part=part), {"any": [1, None]}, None)


OUTPUT = jsonschema.Draft202012Validator(schemas.output_schema(SAMPLE))


def test_a_result_fits_its_schema() -> None:
    assert list(OUTPUT.iter_errors(_result().to_json())) == []
    assert OUTPUT.schema["properties"]["schema"] == {"const": "sample/1"}
    assert OUTPUT.schema["required"] == ["schema", "title", "ratio", "parts", "thin", "note", "at"]
    assert list(OUTPUT.schema["$defs"]["Part"]["properties"]) == ["name", "from", "weight"]


def test_what_a_sparse_record_leaves_out_is_not_required() -> None:
    empty = {**_result().to_json(), "thin": Thin().to_json()}
    assert empty["thin"] == {"count": 0, "sure": False}
    assert list(OUTPUT.iter_errors(empty)) == []
    assert OUTPUT.schema["$defs"]["Thin"]["required"] == ["count", "sure"]


@pytest.mark.parametrize(
    ("key", "value"),
    [("schema", "sample/2"), ("schema", None), ("title", 1), ("ratio", "1"), ("parts", [{}]), ("thin", {}), ("at", 3)],
)
def test_another_result_does_not_fit(key: str, value: Any) -> None:
    assert not OUTPUT.is_valid({**_result().to_json(), key: value})


def test_keys_may_be_added_but_not_taken_away() -> None:
    whole = _result().to_json()
    assert OUTPUT.is_valid({**whole, "new": 1})
    for key in whole:
        assert not OUTPUT.is_valid({name: value for name, value in whole.items() if name != key})


@pytest.mark.parametrize("kind", ERRORS)
def test_every_error_fits_the_schema_of_errors(kind: type[BedeError]) -> None:
    errors = jsonschema.Draft202012Validator(schemas.ERROR)
    assert list(errors.iter_errors(kind("what", hint="how").to_json())) == []
    assert list(errors.iter_errors(kind("what", reason="why", hint="how", head="abc").to_json())) == []
    assert not errors.is_valid(_result().to_json())


# The house


@pytest.fixture(params=VERBS)
def verb(request: pytest.FixtureRequest) -> Operation:
    """Every operation of the house."""
    return load(request.param)


def _subschemas(schema: Any, place: str = "$") -> Any:
    if isinstance(schema, list):
        for item in schema:
            yield from _subschemas(item, place)
    elif isinstance(schema, dict):
        yield place, schema
        for key, value in schema.items():
            if key in ("properties", "$defs"):
                for name, inner in value.items():
                    yield from _subschemas(inner, f"{place}.{name}")
            elif key in ("items", "additionalProperties", "anyOf"):
                yield from _subschemas(value, place)


def test_every_operation_has_schemas(verb: Operation) -> None:
    arguments, result = schemas.input_schema(verb), schemas.output_schema(verb)
    for schema in (arguments, result):
        jsonschema.Draft202012Validator.check_schema(schema)
        assert [place for place, part in _subschemas(schema) if "title" in part] == []
    assert arguments["type"] == result["type"] == "object"
    assert arguments["additionalProperties"] is False
    assert all(part.get("description") for part in arguments["properties"].values())
    assert [place for place, part in _subschemas(arguments) if part.get("type") == "null" or "anyOf" in part] == []
    assert result["properties"]["schema"]["const"].startswith(f"{verb.name}/")


def test_every_operation_refuses_what_it_does_not_know(verb: Operation) -> None:
    with pytest.raises(UsageError, match=f"^{verb.name}: no argument 'nonsense'$"):
        schemas.bind(verb, {"nonsense": 1})
