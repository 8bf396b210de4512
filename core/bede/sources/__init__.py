"""Where coding agents leave their sessions, and how each of them writes: one format a file, behind one port.

This table is all that has to be loaded to know the formats; a module is imported when its agent is asked for. A
package may add a format through the entry point group `bede.sources`; `docs/sources.md` tells how.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from typing import cast

from bede.errors import UsageError
from bede.sources.port import Source

#: Agent, as everyone spells it → the module that reads what it leaves.
AGENTS: dict[str, str] = {
    "claude-code": "bede.sources.claude",
    "codex": "bede.sources.codex",
    "opencode": "bede.sources.opencode",
    "omp": "bede.sources.omp",
    "pi": "bede.sources.pi",
    "antigravity": "bede.sources.antigravity",
    "cursor": "bede.sources.cursor",
    "copilot": "bede.sources.copilot",
    "gemini-cli": "bede.sources.gemini",
}

GROUP = "bede.sources"


def guests() -> dict[str, str]:
    """Return the formats that other packages bring, agent to module; none may take the place of one of ours."""
    if not _any_guest():
        return {}
    from importlib.metadata import entry_points

    return {entry.name: entry.value for entry in entry_points(group=GROUP) if entry.name not in AGENTS}


@cache
def _any_guest() -> bool:
    """Tell whether any installed package brings a format: to load `importlib.metadata` takes longer than to look."""
    for folder in dict.fromkeys(sys.path):
        try:
            names = os.listdir(folder or ".")  # noqa: PTH208 (a Path of each costs more than looking)
        except NotADirectoryError:
            return True  # An archive: its packages are asked the long way.
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")) and not AGENTS.keys() >= set(_offered(folder, name)):
                return True
    return False


def _offered(folder: str, name: str) -> Iterator[str]:
    """Yield the agents whose formats a package offers, by what it was installed with."""
    try:
        place = os.path.join(folder, name, "entry_points.txt")  # noqa: PTH118
        with open(place, "rb", buffering=0) as file:
            found = file.read()
    except OSError:
        return
    section = ""
    for line in map(str.strip, found.decode("utf-8", "replace").splitlines()) if GROUP.encode() in found else ():
        if line.startswith("["):
            section = line.strip("[] ")
        elif section == GROUP and "=" in line and line[0] not in "#;":
            yield line.partition("=")[0].strip()


def unknown(agent: str, known: Iterable[str]) -> UsageError:
    """Return the error that an agent has no format here, with the name that is near and all there are."""
    from bede.hints import asked

    names = sorted(known)
    hint = f"{asked(agent, names)}known are {', '.join(names)}"
    return UsageError(f"no transcripts of {agent!r} are known", hint=hint)


def source(agent: str) -> Source:
    """Return the format of an agent.

    Raises:
        UsageError: no format has that name.
    """
    module = AGENTS.get(agent) or guests().get(agent)
    if module is None:
        raise unknown(agent, AGENTS)
    return cast(Source, importlib.import_module(module))
