"""Whether a stranger's call comes twice: it does where our hooks stand in the stranger's own files."""

from __future__ import annotations

from pathlib import Path

import pytest

from bede import agents
from bede.agents import native
from bede.agents.wiring import Machine, Wish
from bede.splice import plan


@pytest.mark.parametrize("name", native.PLACES)
@pytest.mark.parametrize("scope", ["user", "project"])
def test_hooks_that_were_installed_are_found_and_only_those(name: str, scope: str, tmp_path: Path) -> None:
    home, root = tmp_path / "home", tmp_path / "work"
    inner = root / "src" / "deep"
    inner.mkdir(parents=True)
    around = {"HOME": str(home)}
    wish = Wish([str(tmp_path / "bin" / "bede")], "project" if scope == "project" else "user", root)
    assert not native.is_installed(name, str(inner), around)
    plan.apply(plan.plan(agents.load(name).hooks(Machine(home, around), wish), install=True))
    assert native.is_installed(name, str(inner), around)
    assert native.is_installed(name, str(tmp_path), around) == (scope == "user")
    own = {name, *(("copilot", "vscode") if name in ("copilot", "vscode") else ())}
    assert not [other for other in native.PLACES if other not in own and native.is_installed(other, str(inner), around)]


@pytest.mark.parametrize("cwd", ["", "relative", "/nowhere/at/all", "/x\0y", "C:\\x"])
def test_a_folder_that_cannot_be_looked_at_holds_nothing(cwd: str, tmp_path: Path) -> None:
    assert not native.is_installed("cursor", cwd, {"HOME": str(tmp_path)})
    assert not native.is_installed("nobody", cwd, {})
