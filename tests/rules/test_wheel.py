"""What is shipped: a wheel of two packages, with types, data, manual pages and completions, and no shelves.

The wheel is built from this checkout, or named by the variable WHEEL, which is how `scripts/release` has its
own checked.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

#: Where shells look, under the environment's prefix: place in the checkout, place in the wheel's data.
SHARED = {
    "completions/bede.bash": "share/bash-completion/completions/bede",
    "completions/_bede": "share/zsh/site-functions/_bede",
    "completions/bede.fish": "share/fish/vendor_completions.d/bede.fish",
}


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without a network by the backend that is installed here."""
    if given := os.environ.get("WHEEL"):
        return Path(given)
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, root],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def contents(wheel: Path) -> dict[str, bytes]:
    """Every file in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}


@pytest.fixture(scope="module")
def stem(wheel: Path) -> str:
    """Name and version, as the wheel's own folders begin."""
    return "-".join(wheel.name.split("-")[:2])


def test_the_top_holds_the_two_packages_only(contents: dict[str, bytes], stem: str) -> None:
    assert {name.split("/")[0] for name in contents} == {
        "bede",
        "bede_cli",
        f"{stem}.dist-info",
        f"{stem}.data",
    }


def test_the_packages_are_whole(contents: dict[str, bytes], root: Path, files: tuple[Path, ...]) -> None:
    source = {
        path.relative_to(root / shelf).as_posix(): path.read_bytes()
        for shelf in ("core", "cli")
        for path in files
        if path.is_relative_to(root / shelf)
    }
    packed = {name: body for name, body in contents.items() if name.startswith(("bede/", "bede_cli/"))}
    assert packed == source


def test_the_packages_are_typed(contents: dict[str, bytes]) -> None:
    assert {"bede/py.typed", "bede_cli/py.typed"} <= contents.keys()


def test_completions_and_manual_are_installed(contents: dict[str, bytes], stem: str, root: Path) -> None:
    pages = {f"man/man1/{path.name}": f"share/man/man1/{path.name}" for path in (root / "man/man1").iterdir()}
    assert "man/man1/bede.1" in pages
    for source, target in (SHARED | pages).items():
        assert contents[f"{stem}.data/data/{target}"] == (root / source).read_bytes(), source


def test_the_licence_goes_along(contents: dict[str, bytes], stem: str, root: Path) -> None:
    for name in ("LICENSE", "NOTICE"):
        assert contents[f"{stem}.dist-info/licenses/{name}"] == (root / name).read_bytes()


def test_the_metadata_says_what_is_true(contents: dict[str, bytes], stem: str) -> None:
    from bede import __version__

    told = Parser().parsestr(contents[f"{stem}.dist-info/METADATA"].decode())
    assert (told["Name"], told["Version"], told["License-Expression"]) == ("bede", __version__, "Apache-2.0")
    assert told["Requires-Python"] == ">=3.11"
    assert told.get_payload().startswith("# ")
    assert b"bede = bede_cli.__main__:main" in contents[f"{stem}.dist-info/entry_points.txt"]


def test_an_installed_wheel_runs_and_the_shelves_are_no_packages(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    subprocess.run([*pip, "--target", target, wheel], check=True, timeout=300)
    find = "import bede, bede_cli; from importlib.util import find_spec as find; "
    look = find + "print(bede.__file__, find('core'), find('cli'))"
    environment = {**os.environ, "PYTHONPATH": str(target)}

    def python(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-P", *arguments],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        return done.stdout.strip()

    assert python("-c", look) == f"{target / 'bede' / '__init__.py'} None None"
    assert wheel.name.split("-")[1] in python("-m", "bede_cli", "--version")
