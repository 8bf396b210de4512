"""The verbs, one file each: this list is the product's table of contents.

The order is that of the help page. A face imports the one verb that was typed and no other.
"""

from __future__ import annotations

from bede.operation import Operation

#: Verb and the heading it stands under.
VERBS: dict[str, str] = {
    "init": "Start",
    "auto": "Work",
    "store": "Work",
    "search": "Work",
    "context": "Work",
    "status": "Work",
    "ingest": "Sessions",
    "recent": "Sessions",
    "log": "Look",
    "show": "Look",
    "diff": "Look",
    "fork": "Branch",
    "checkout": "Branch",
    "branches": "Branch",
    "merge": "Branch",
    "rollback": "Branch",
    "undo": "Branch",
    "lease": "Together",
    "brief": "Together",
    "notice": "Together",
    "exchange": "Together",
    "attach": "Agents",
    "detach": "Agents",
    "install-hooks": "Agents",
    "uninstall-hooks": "Agents",
    "verify": "Trust",
    "anchor": "Trust",
    "purge": "Trust",
    "bundle": "Trust",
    "reindex": "Trust",
    "doctor": "Trust",
    "config": "Tell",
    "projects": "Tell",
    "schedule": "Tell",
    "capabilities": "Tell",
}


def load(verb: str) -> Operation:
    """Import one verb and return its declaration; KeyError where there is no such verb."""
    from importlib import import_module

    if verb not in VERBS:
        raise KeyError(verb)
    name = verb.replace("-", "_")
    module = import_module(f"bede.operations.{name}")
    found: Operation = getattr(module, name).operation
    return found


def load_all() -> tuple[Operation, ...]:
    """Import every verb, in the order of the help page."""
    return tuple(load(verb) for verb in VERBS)
