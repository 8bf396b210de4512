"""`bede capabilities`: what this version can do, for programs."""

from __future__ import annotations

import platform
import sqlite3
from typing import Annotated, Any, ClassVar

import bede
from bede.config import SETTINGS
from bede.context import Context
from bede.errors import ERRORS
from bede.operation import Field, operation
from bede.projections import PROJECTIONS
from bede.projections.rows import KINDS
from bede.quick import dataclass
from bede.records import Record
from bede.repository.schema import FORMAT, MIN_READER, MIN_WRITER


@dataclass(frozen=True, slots=True)
class Verb(Record):
    """One verb: what it does to the store, where it is offered, and the schemas of both ends."""

    name: str
    summary: str
    effect: str
    toolset: str
    destructive: bool
    idempotent: bool
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Door(Record):
    """What can be called as a verb is, but is none: it speaks as others agreed, and has no schemas of ours."""

    name: str
    summary: str


#: A test holds them against the command line, which is not known here.
DOORS = (
    Door("serve", "Serve this project's memory to an agent over MCP, on standard input and output"),
    Door("hook", "Answer an agent's hook: its JSON on standard input, one JSON document back, exit status 0"),
)


@dataclass(frozen=True, slots=True)
class Exit(Record):
    """An exit status and what it means."""

    exit_status: int
    code: str
    retryable: bool
    meaning: str


@dataclass(frozen=True, slots=True)
class CapabilitiesResult(Record):
    """Everything a program needs to know before it calls.

    `doors` are called like verbs and have no schemas; `error_schema` is that of the object which every failure is told
    with.
    """

    SCHEMA: ClassVar[str] = "capabilities/1"

    versions: dict[str, str]
    formats: dict[str, int]
    kinds: tuple[str, ...]
    projections: dict[str, int]
    settings: dict[str, str]
    exit_statuses: tuple[Exit, ...]
    verbs: tuple[Verb, ...]
    doors: tuple[Door, ...]
    error_schema: dict[str, Any]


@operation(effect="host", idempotent=True)
def capabilities(
    context: Context,
    *,
    schemas: Annotated[bool, Field("Leave out the JSON Schemas with --no-schemas")] = True,
) -> CapabilitiesResult:
    """Tell what this version can do: verbs with their JSON Schemas, kinds, exit statuses, formats, settings.

    Needs no project.
    """
    from bede.schemas import ERROR

    return CapabilitiesResult(
        versions={
            "bede": bede.__version__,
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
        },
        formats={"code": FORMAT, "min_reader": MIN_READER, "min_writer": MIN_WRITER},
        kinds=KINDS,
        projections={item.name: item.version for item in PROJECTIONS},
        settings={item.variable: item.description for item in SETTINGS},
        exit_statuses=tuple(
            Exit(kind.exit_status, kind.code, kind.retryable, (kind.__doc__ or "").strip()) for kind in ERRORS
        ),
        verbs=_verbs(schemas),
        doors=DOORS,
        error_schema=ERROR if schemas else {},
    )


def _verbs(schemas: bool) -> tuple[Verb, ...]:
    from bede.operations import load_all
    from bede.schemas import input_schema, output_schema

    return tuple(
        Verb(
            name=item.name,
            summary=item.summary,
            effect=item.effect,
            toolset=item.toolset,
            destructive=item.destructive,
            idempotent=item.idempotent,
            input_schema=input_schema(item) if schemas else {},
            output_schema=output_schema(item) if schemas else {},
        )
        for item in load_all()
    )
