"""The verbs of the command line: every operation, and `serve`, which is a face and therefore no operation.

Promises to import the one verb that is asked for and no other.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from bede.errors import UsageError
from bede.operation import Field, Operation, operation
from bede.operations import VERBS, load
from bede.quick import dataclass

SERVE = "serve"
#: What agents call through a door of its own, which takes no options before it.
HOOK = "hook"
#: Every verb and the heading it stands under, in the order of the help page.
HEADINGS: dict[str, str] = {**VERBS, SERVE: "Serve"}


def find(verb: str) -> Operation:
    """Return a verb's declaration.

    Raises:
        UsageError: there is no such verb.
    """
    if verb == SERVE:
        declared: Operation = serve.operation  # type: ignore[attr-defined]
        return declared
    if verb not in VERBS:
        from bede.hints import asked

        hint = asked(verb, [*HEADINGS, HOOK, "help", "--version"]).replace("--version", "bede --version")
        raise UsageError(f"no verb {verb!r}", hint=hint + "'bede help' lists the verbs")
    return load(verb)


@dataclass(frozen=True, slots=True)
class Call:
    """Where a call was made from, and what begins to serve: for the one verb that makes Contexts of its own."""

    directory: Path
    project: str
    branch: str
    begin: Callable[..., object]


@operation(effect="host")
def serve(
    call: Call,
    *,
    read_only: Annotated[bool, Field("Open the memory for reading only, and offer no tool that writes")] = False,
    toolset: Annotated[list[str] | None, Field("Offer these groups of tools; 'all' stands for every one")] = None,
    agent_id: Annotated[str, Field("Who acts, where a tool is not told")] = "",
) -> None:
    """Serve this project's memory to an agent over MCP, on standard input and output.

    It is bound to one project: the one named with --project (a name, UUID or path), else that of the folder. Every
    note is on disk when its answer leaves, and the server ends when its client goes away.
    """
    call.begin(
        directory=call.directory,
        project=call.project,
        branch=call.branch,
        read_only=read_only,
        toolset=toolset,
        agent_id=agent_id,
    )
