"""What guests need from the machine: whether a package is installed, and where a model lies and what it is.

Models come from the hub's cache or a folder, as they are; nothing here ever fetches one. No package is imported to find
out that it is there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bede.errors import BedeError, Unavailable, UsageError, cause

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Model", "cached", "folder", "guest", "need", "settings", "sound"]

_LARGEST = 64 << 20  # bytes of a file of settings
LEDGER = "digests.json"


@dataclass(frozen=True, slots=True)
class Model:
    """A model on disk. `name` says which, and which state of it: the hub's revision, or a hash of the folder."""

    folder: Path
    name: str


def need(extra: str, *packages: str) -> None:
    """See that packages are installed.

    Raises:
        Unavailable: one is not; the hint names the extra that brings it.
    """
    from importlib.util import find_spec

    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise Unavailable(f"not installed: {', '.join(missing)}", hint=f"pip install 'bede[{extra}]'", reason="package")


@contextmanager
def guest(what: str) -> Iterator[None]:
    """Let a guest's library work; whatever it raises is its failure, not Bede's.

    Raises:
        Unavailable: it failed.
    """
    try:
        yield
    except BedeError:
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:300] or type(error).__name__
        hint = "check the model, or choose another"
        raise Unavailable(f"{what} failed: {said}", hint=hint, reason="guest") from error


def sound(what: str, values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a guest's numbers, if they are numbers.

    Raises:
        Unavailable: some are not; the model is damaged.
    """
    import numpy as np

    if not np.isfinite(values).all():
        raise Unavailable(f"{what} failed: what it gives is no number", hint="put the model there anew", reason="guest")
    return values


def cached(repository: str, environment: Mapping[str, str]) -> Model | None:
    """Return a model of the hub's cache, in its main revision or else the one there is."""
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", repository) or ".." in repository:
        raise UsageError(f"not a model's name: {repository!r}", hint="give OWNER/NAME as on the hub, or a folder")
    home = _cache(environment) / f"models--{repository.replace('/', '--')}"
    with suppress(OSError, UnicodeDecodeError):
        revisions = sorted(path.name for path in (home / "snapshots").iterdir() if path.is_dir())
        main = home / "refs/main"
        wanted = main.read_text("utf-8").strip() if main.is_file() else ""
        for revision in (wanted, *reversed(revisions)):
            if revision in revisions:
                return Model(home / "snapshots" / revision, f"{repository}@{revision[:16]}")
    return None


def _cache(environment: Mapping[str, str]) -> Path:
    """Return where the hub's client keeps models; asked in its own order."""
    for variable, below in (("HF_HUB_CACHE", ""), ("HF_HOME", "hub"), ("XDG_CACHE_HOME", "huggingface/hub")):
        if value := environment.get(variable):
            return Path(value).expanduser() / below
    return Path(environment.get("HOME") or Path.home()) / ".cache/huggingface/hub"


def folder(path: Path, cache: Path, *patterns: str) -> Model:
    """Return the model in a folder, named after a hash of the files that fit the patterns.

    The hash is of whole files, and remembered in the cache by their size, time and place.

    Raises:
        Unavailable: there is no such folder, nothing in it fits, or it cannot be read.
    """
    try:
        path = path.expanduser().absolute()
        files = sorted({file for pattern in patterns for file in path.glob(pattern) if file.is_file()})
        if not files:
            raise Unavailable(f"no model in {path}", hint=f"put its files there: {', '.join(patterns)}", reason="model")
        return Model(path, f"{path.name}@{_digest(path, files, cache)[:16]}")
    except (OSError, ValueError, RuntimeError) as error:
        raise Unavailable(f"cannot read {path}: {cause(error)}", hint="check the path and its permissions") from error


def _digest(path: Path, files: Sequence[Path], cache: Path) -> str:
    ledger = settings(cache / LEDGER)
    states = [(str(file.relative_to(path)), file.stat()) for file in files]
    seen = [[name, state.st_size, state.st_mtime_ns, state.st_ino] for name, state in states]
    known = ledger.get(str(path))
    if isinstance(known, dict) and known.get("files") == seen and isinstance(known.get("sha256"), str):
        return str(known["sha256"])
    whole = hashlib.sha256()
    for name, file in zip((name for name, _ in states), files, strict=True):
        with file.open("rb") as stream:
            whole.update(name.encode("utf-8", "surrogateescape") + hashlib.file_digest(stream, "sha256").digest())
    _remember(cache, ledger | {str(path): {"files": seen, "sha256": whole.hexdigest()}})
    return whole.hexdigest()


def _remember(cache: Path, ledger: Mapping[str, Any]) -> None:
    """Keep what was worked out; where that cannot be, it is worked out again."""
    with suppress(OSError, UnicodeEncodeError):
        cache.mkdir(parents=True, exist_ok=True)
        new = cache / f"{LEDGER}.{os.getpid()}"
        new.write_text(json.dumps(ledger), "utf-8")
        new.replace(cache / LEDGER)


def settings(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; an empty one where there is no such file, or something else in it."""
    with suppress(OSError, ValueError, RecursionError):
        if path.stat().st_size <= _LARGEST and isinstance(found := json.loads(path.read_bytes()), dict):
            return found
    return {}
