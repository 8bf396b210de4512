"""`bede anchor`: write down the newest hash, to be kept elsewhere."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated, ClassVar

from bede.context import Context
from bede.errors import Unavailable, cause
from bede.identity import timestamp
from bede.operation import Field, operation
from bede.quick import dataclass
from bede.records import Record


@dataclass(frozen=True, slots=True)
class AnchorResult(Record):
    """The newest operation and its hash; whoever keeps it can prove what came before."""

    SCHEMA: ClassVar[str] = "anchor/1"

    project_id: str
    operation: int
    hash: str
    events: int
    at: str


@operation(effect="host")
def anchor(
    context: Context,
    *,
    write: Annotated[Path | None, Field("Also write it into a file, replacing it whole", metavar="FILE")] = None,
) -> AnchorResult:
    """Write down the newest operation's hash, to be kept in git, in a log, or with somebody else.

    `bede verify --anchor FILE` then finds a history that was cut short or rewritten as a whole, which no check inside
    one file can.
    """
    with context.repository.snapshot() as reading:
        number, value = reading.head()
        result = AnchorResult(
            project_id=reading.project()["uuid"],
            operation=number,
            hash=value,
            events=reading.counts()["events"],
            at=timestamp(context.now()),
        )
    if write:
        _replace(context.directory / write, json.dumps(result.to_json()) + "\n")
    return result


def _replace(path: Path, text: str) -> None:
    try:
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(path)
        except BaseException:
            with suppress(OSError, ValueError):
                temporary.unlink()
            raise
    except (OSError, ValueError) as error:
        raise Unavailable(f"cannot write {path}: {cause(error)}", hint="check the folder and the disk") from error
