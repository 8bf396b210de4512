"""How a verb is declared once, so that every face can be derived from it.

An operation is a plain typed function `verb(context, argument, *, option=…) -> Result`. Parameters before `*`
are arguments, those after it options; a default makes one optional; `Annotated[T, Field("…", bounds)]` describes
it. The docstring is help, manual text and tool description. The result is a frozen record whose class says its
schema name. This room never runs anything and knows no face.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from bede.quick import dataclass

Effect = Literal["read", "append", "host"]
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Field:
    """What help, man page and JSON Schema say of one parameter, and the bounds it keeps."""

    description: str
    ge: float | None = None
    le: float | None = None
    pattern: str | None = None
    short: str | None = None
    metavar: str | None = None
    #: Left out of help and manual.
    hidden: bool = False
    #: Not offered over MCP: what only means something on this machine (paths, streams).
    cli_only: bool = False


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an operation, read from its signature."""

    name: str
    type: Any
    field: Field
    default: Any
    required: bool
    argument: bool
    variadic: bool

    @property
    def flag(self) -> str:
        """The option as it is typed, `--task-id`."""
        return "--" + self.name.rstrip("_").replace("_", "-")


@dataclass(frozen=True, slots=True)
class Operation:
    """A verb: its function and the few words that decide how the faces offer it."""

    name: str
    function: Callable[..., Any]
    effect: Effect
    toolset: str
    destructive: bool
    idempotent: bool

    @property
    def summary(self) -> str:
        """The first line of the docstring, without its full stop."""
        return self.description.split("\n", 1)[0].rstrip(".")

    @property
    def description(self) -> str:
        """The whole docstring, dedented."""
        import inspect

        return inspect.getdoc(self.function) or ""

    def parameters(self) -> tuple[Parameter, ...]:
        """Read the parameters from the signature, in the order of declaration."""
        code, hints = self.function.__code__, self.hints()
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        defaults = dict(zip(names[: code.co_argcount][::-1], (self.function.__defaults__ or ())[::-1], strict=False))
        defaults |= self.function.__kwdefaults__ or {}
        return tuple(
            _parameter(name, hints[name], number < code.co_argcount, defaults)
            for number, name in enumerate(names)
            if number
        )

    def hints(self) -> dict[str, Any]:
        """Return the types of parameters and result, with what is said of them."""
        # What `typing` would do with them, but for its detour over a syntax tree, which costs a thousandth of a second.
        known, hints = self.function.__globals__, self.function.__annotations__
        return {name: eval(hint, known) if isinstance(hint, str) else hint for name, hint in hints.items()}

    def result(self) -> type:
        """Return the class of the result record."""
        found: type = self.hints()["return"]
        return found


def _parameter(name: str, hint: Any, is_argument: bool, defaults: dict[str, Any]) -> Parameter:
    import typing

    field = None
    if typing.get_origin(hint) is typing.Annotated:
        hint, *extras = typing.get_args(hint)
        field = next((extra for extra in extras if isinstance(extra, Field)), None)
    return Parameter(
        name=name,
        type=hint,
        field=field or Field(""),
        default=defaults.get(name),
        required=name not in defaults,
        argument=is_argument,
        variadic=is_argument and typing.get_origin(hint) in (list, tuple),
    )


def operation(
    *,
    effect: Effect,
    toolset: str = "",
    destructive: bool = False,
    idempotent: bool | None = None,
    name: str = "",
) -> Callable[[Function], Function]:
    """Declare a function as a verb.

    `effect` decides the transaction, the MCP annotations and whether MCP offers it at all (`host` never).
    `toolset` names the group of tools it belongs to; an empty one is not offered over MCP.
    """

    def declare(function: Function) -> Function:
        function.operation = Operation(  # type: ignore[attr-defined]
            name=name or function.__name__.rstrip("_").replace("_", "-"),
            function=function,
            effect=effect,
            toolset=toolset,
            destructive=destructive,
            idempotent=effect == "read" if idempotent is None else idempotent,
        )
        return function

    return declare
