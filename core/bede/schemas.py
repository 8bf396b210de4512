"""What an operation takes and gives, as JSON Schema, and the door through which foreign arguments come in.

The schemas are echoes of the declaration: nothing is said in them that the function does not say. They are written
short, since a model reads them with every session. What is bound fits its schema, or is refused with a sentence that
names the argument and what was expected; nothing is ever coerced. Pydantic is imported when first needed.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

from bede.errors import UsageError
from bede.operation import Field, Operation, Parameter
from bede.records import Record

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic.json_schema import GenerateJsonSchema

#: The error object that every face shows (`BedeError.to_json`).
ERROR: dict[str, Any] = {
    "type": "object",
    "properties": {
        "schema": {"const": "error/1"},
        "code": {"type": "string"},
        "message": {"type": "string"},
        "reason": {"type": "string"},
        "hint": {"type": "string"},
        "retryable": {"type": "boolean"},
        "exit_status": {"type": "integer"},
        "details": {"type": "object"},
    },
    "required": ["schema", "code", "message", "hint", "retryable", "exit_status"],
}
#: JSON types that no sparse record leaves out, since none of their values counts as empty.
_NEVER_EMPTY = ("integer", "number", "boolean")
#: How many faults of one call are told.
_TOLD = 5


def input_schema(operation: Operation) -> dict[str, Any]:
    """Return the JSON Schema of an operation's arguments, without those that only a command line can give."""
    written = _arguments(operation).json_schema(schema_generator=_writer())
    order = ("type", "properties", "required", "additionalProperties", "$defs")
    return {key: written[key] for key in order if key in written}


def output_schema(operation: Operation) -> dict[str, Any]:
    """Return the JSON Schema of an operation's result. Keys may be added to results without notice, so it is open."""
    from pydantic import TypeAdapter

    return TypeAdapter(operation.result()).json_schema(mode="serialization", schema_generator=_writer())


def bind(operation: Operation, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return foreign arguments as the keyword arguments of an operation's function.

    A null stands for an argument that was not given, where the function has a None for that.

    Raises:
        UsageError: an argument is unknown, missing, of the wrong type or out of its bounds.
    """
    from pydantic import ValidationError

    known = {_key(item): item for item in operation.parameters() if not item.field.cli_only}
    if not isinstance(arguments, Mapping):
        raise _refusal(operation, known, [f"the arguments must be an object, not {_shown(arguments)}"])
    if unknown := [key for key in arguments if key not in known]:
        raise _refusal(operation, known, (f"no argument {_shown(key)}" for key in unknown))
    given = {key: value for key, value in arguments.items() if value is not None or not _takes_none(known[key].type)}
    try:
        bound = _arguments(operation).validate_python(given)
    except ValidationError as error:
        raise _refusal(operation, known, _sentences(input_schema(operation), error.errors())) from None
    return {known[key].name: value for key, value in bound.items()}


@cache
def _arguments(operation: Operation) -> TypeAdapter[Any]:
    """Return what validates the arguments: a dict of the given ones only, so that defaults stay the function's."""
    import typing_extensions
    from pydantic import ConfigDict, TypeAdapter

    fields: dict[str, Any] = {}
    for parameter in operation.parameters():
        if not parameter.field.cli_only:
            hint = _described(parameter)
            fields[_key(parameter)] = hint if parameter.required else typing.NotRequired[hint]
    # Pydantic takes the TypedDict of `typing` from Python 3.12 on only, and no checker knows one made at run time.
    make: Any = typing_extensions.TypedDict
    shape = make(operation.name, fields)
    shape.__pydantic_config__ = ConfigDict(extra="forbid", strict=True, regex_engine="python-re")
    return TypeAdapter(shape)


def _key(parameter: Parameter) -> str:
    return parameter.name.rstrip("_")


def _described(parameter: Parameter) -> Any:
    """Return a parameter's type with what its field says, and the default where that tells something."""
    from pydantic import Field as Said

    default = parameter.default
    telling = isinstance(default, (int, float, str)) and default not in ("", False)
    extra: Any = {"default": default} if telling else None
    said = Said(description=parameter.field.description or None, json_schema_extra=extra)
    return Annotated[_bounded(parameter.type, parameter.field), said]


def _takes_none(hint: Any) -> bool:
    return types.NoneType in typing.get_args(hint)


def _bounded(hint: Any, field: Field) -> Any:
    """Return a type without its None, and with its bounds where they belong: on the single value inside of a list.

    A tuple comes as an array, too. One wrong element of an array is enough to refuse it: there may be a million.
    """
    from pydantic import FailFast
    from pydantic import Field as Said

    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        some = tuple(_bounded(part, field) for part in parts if part is not types.NoneType)
        return some[0] if len(some) == 1 else typing.Union[some]  # noqa: UP007
    if origin in (list, tuple):
        return Annotated[list[_bounded(parts[0], field)], FailFast()]  # type: ignore[misc]
    if hint in (int, float) and (field.ge, field.le) != (None, None):
        return Annotated[hint, Said(ge=field.ge, le=field.le)]
    return Annotated[hint, Said(pattern=field.pattern)] if hint is str and field.pattern else hint


@cache
def _writer() -> type[GenerateJsonSchema]:
    """Return pydantic's writer of schemas with our manners: no titles, and records as they write themselves."""
    from pydantic.json_schema import GenerateJsonSchema

    class Writer(GenerateJsonSchema):
        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

        def default_schema(self, schema: Any) -> dict[str, Any]:
            if self.mode == "serialization":
                return self.generate_inner(schema["schema"])
            return super().default_schema(schema)

        def dataclass_schema(self, schema: Any) -> dict[str, Any]:
            body = super().dataclass_schema(schema)
            return _record(body, schema["cls"]) if issubclass(schema["cls"], Record) else body

    return Writer


def _record(body: dict[str, Any], record: type[Record]) -> dict[str, Any]:
    """Rewrite the schema of a dataclass as that of the object its `to_json` makes."""
    properties = {name.rstrip("_"): value for name, value in body.get("properties", {}).items()}
    required = [name for name, value in properties.items() if not record.SPARSE or _always_there(value)]
    if record.SCHEMA:
        properties = {"schema": {"const": record.SCHEMA}, **properties}
        required.insert(0, "schema")
    return {"type": "object", "properties": properties, "required": required}


def _always_there(schema: dict[str, Any]) -> bool:
    return "$ref" in schema or schema.get("type") in _NEVER_EMPTY


def _refusal(operation: Operation, names: Iterable[str], faults: Iterable[str]) -> UsageError:
    """Return the error that tells the first faults of the arguments, and which arguments there are."""
    told = "; ".join(islice(dict.fromkeys(islice(faults, 2 * _TOLD)), _TOLD))
    takes = ", ".join(names) or "no arguments"
    return UsageError(f"{operation.name}: {told}", hint=f"{operation.name} takes {takes}")


def _sentences(schema: dict[str, Any], faults: list[Any]) -> Iterator[str]:
    for fault in faults:
        name, expected = _at(schema, fault["loc"])
        if fault["type"] == "missing":
            yield f"{name} is missing"
        else:
            yield f"{name} must be {_expected(expected)}, not {_shown(fault['input'])}"


def _at(schema: dict[str, Any], where: tuple[int | str, ...]) -> tuple[str, dict[str, Any]]:
    """Return how a place in the arguments is called, `tags[1]`, and the schema of what belongs there."""
    name = ""
    for step in where:
        if isinstance(step, int):
            name, schema = f"{name}[{step}]", schema.get("items", {})
        else:
            name, schema = f"{name}.{step}" if name else step, schema.get("properties", {}).get(step, {})
    return name, schema


def _expected(schema: dict[str, Any]) -> str:
    """Say what a schema asks for, in words."""
    if "enum" in schema:
        return "one of " + ", ".join(map(str, schema["enum"]))
    kind = str(schema.get("type", "something else"))
    if kind == "array":
        return f"an array, each element {_expected(schema.get('items', {}))}"
    words = {"string": "a string", "integer": "a whole number", "number": "a number", "boolean": "true or false"}
    said = words.get(kind, "an object" if kind == "object" else kind)
    if "pattern" in schema:
        said += f" that matches {schema['pattern']}"
    return said + _bounds(schema.get("minimum"), schema.get("maximum"))


def _bounds(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f" from {low:g} to {high:g}"
    return f" of at least {low:g}" if low is not None else f" of at most {high:g}" if high is not None else ""


def _shown(value: Any) -> str:
    """Name a foreign value without repeating much of it: it may be megabytes, or nested without end."""
    if isinstance(value, str):
        return repr(value) if len(value) <= 40 else f"{value[:40]!r}…"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return f"{value:.15g}" if abs(value) < 1e300 else "a number that large"
    return "an array" if isinstance(value, list) else "an object"
