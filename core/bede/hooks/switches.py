# ruff: noqa: PTH113, PTH118
"""Whether hooks claim files, as the user set it: `hooks.claims`, in the environment or in a file of settings.

Reading settings costs as much as a claim, so they are read only where there is a file of them at all.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bede.hooks.ground import Project

#: As in `bede.config`, which costs more to import than a hook has time; a test holds them together.
VARIABLE, FILE, OFF = "BEDE_HOOKS_CLAIMS", "config.toml", ("false", "0", "no", "off")


def claims(project: Project, environment: Mapping[str, str]) -> bool:
    """Tell whether files are claimed before edits; yes where the settings cannot be read."""
    if said := environment.get(VARIABLE, ""):
        return said.lower() not in OFF
    if not any(os.path.isfile(os.path.join(folder, FILE)) for folder in _folders(project, environment)):
        return True
    from pathlib import Path

    from bede.config import Config
    from bede.errors import UsageError

    try:
        return bool(Config(environment, project=Path(project.folder) / FILE)["hooks.claims"])
    except UsageError:
        return True


def _folders(project: Project, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield where settings may lie: the project's folder, and the user's on any system."""
    yield project.folder
    home = environment.get("HOME") or environment.get("USERPROFILE") or ""
    if named := environment.get("BEDE_CONFIG_DIR"):
        yield named
    elif sys.platform == "darwin":
        yield os.path.join(home, "Library", "Application Support", "bede")
    elif os.name == "nt":
        yield os.path.join(environment.get("LOCALAPPDATA", home), "bede")
    else:
        base = environment.get("XDG_CONFIG_HOME", "")
        yield os.path.join(base if base.startswith("/") else os.path.join(home, ".config"), "bede")
