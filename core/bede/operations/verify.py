"""`bede verify`: prove that nothing was changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar

from bede.context import Context
from bede.errors import Corrupt, UsageError
from bede.operation import Field, operation
from bede.quick import dataclass
from bede.records import Finding, Record
from bede.repository.verify import is_laid_anew

#: What is left where not even the history can be read.
RESTORE = "restore a backup"
_HINT = "name the file that 'bede anchor --write FILE' wrote"


@dataclass(frozen=True, slots=True)
class Problem(Record):
    """One thing that does not hold: the table, the row's number, and what is wrong."""

    table: str
    row: int
    problem: str


@dataclass(frozen=True, slots=True)
class VerifyResult(Record):
    """What a walk over the history found; `branches` counts every ref. Exit status 1 when anything does not hold.

    `hint` tells what to do then.
    """

    SCHEMA: ClassVar[str] = "verify/1"

    ok: bool
    events: int
    operations: int
    branches: int
    purged: int
    head: str
    anchored: bool
    problems: tuple[Problem, ...]
    hint: str

    @property
    def exits(self) -> int:
        """1 when the history does not hold."""
        return 0 if self.ok else 1


@operation(effect="read", toolset="trust")
def verify(
    context: Context,
    *,
    anchor: Annotated[Path | None, Field("An anchor that was kept elsewhere", metavar="FILE", cli_only=True)] = None,
) -> VerifyResult:
    """Recompute the whole history and compare: every payload, event, line, operation and branch.

    Finds any row that was edited, deleted, reordered, inserted or swapped. With an anchor also a tail that was cut
    off, or a history that was rewritten as a whole.
    """
    expected = _read(context, anchor) if anchor else None
    try:
        repository = context.history()
        with repository.snapshot() as reading:
            if expected and expected[2] != reading.project()["uuid"]:
                raise UsageError(f"{anchor} is another project's anchor: {expected[2]}")
            verdict = repository.verify(expected[:2] if expected else None)
    except Corrupt as error:
        if "bede verify" in error.hint:  # Which is what was run.
            error.hint = RESTORE
        raise
    problems = tuple(Problem(item.table, item.row, item.problem) for item in verdict.findings)
    return VerifyResult(
        ok=not problems,
        events=verdict.events,
        operations=verdict.operations,
        branches=verdict.refs,
        purged=verdict.purged,
        head=verdict.head,
        anchored=expected is not None,
        problems=problems,
        hint=_remedy(verdict.findings),
    )


def _remedy(findings: Sequence[Finding]) -> str:
    if not findings:
        return ""
    return "run 'bede reindex'" if is_laid_anew(findings) else "restore a backup from before, and verify that"


def _read(context: Context, path: Path) -> tuple[int, str, str]:
    try:
        said = json.loads((context.directory / path).read_text(encoding="utf-8"))
        return int(said["operation"]), str(said["hash"]), str(said["project_id"])
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint=_HINT) from error
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise UsageError(f"{path} is no anchor: it does not hold what 'bede anchor' writes", hint=_HINT) from error
