"""Whom this user takes bundles from: one line a key in a file of the user's own, `KEY NAME`.

The own key is always trusted. The name is what the refs of that machine are kept under.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from bede.arbitration import public
from bede.errors import BadSource, Rejected, Unavailable, UsageError, cause
from bede.exchange.folder import read
from bede.signing import check_name, load

#: No list of ours is larger.
_LARGEST = 1024 * 1024
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the caller says of a bundle's key: which one it expects, whether any will do, what to call its owner."""

    key: str = ""
    any: bool = False
    name: str = ""


def place(folder: Path) -> Path:
    """Return where the list lies below the user's settings folder."""
    return folder / "identity" / "trusted"


def trusted(folder: Path) -> dict[str, str]:
    """Return the keys on the list, each with the name of its owner.

    Raises:
        Unavailable: the list cannot be read, others may write it, or a line of it is malformed.
    """
    path = place(folder)
    try:
        text = (read(path, _LARGEST, follow=True) or b"").decode()
        if text and os.name != "nt" and path.stat().st_mode & 0o022:
            raise Unavailable(f"others may change {path}", hint=f"look at what it says, then 'chmod 600 {path}'")
    except (BadSource, OSError, UnicodeDecodeError) as error:
        raise Unavailable(f"cannot read {path}: {cause(error)}", hint="mend the file, or move it away") from error
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.startswith("#"):
            key, _, name = line.partition(" ")
            try:
                found[check_name(key)] = check_peer(name.strip() or default(key))
            except UsageError as error:
                raise Unavailable(f"line {number} of {path}: {error.message}", hint=error.hint) from error
    return found


def default(key: str) -> str:
    """Return the name of a key's owner where none was given."""
    return key[8:20]


def check_peer(name: str) -> str:
    """Return a well-formed name of another machine.

    Raises:
        UsageError: it is not 1 to 40 small letters, digits or hyphens, or looks like a secret.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"not a name for a machine: {name[:80]!r}", hint="use small letters, digits and -, at most 40")
    return public(name)


def admit(folder: Path, key: str, asked: Asked) -> str:
    """Return the name of the key's owner, if bundles of it are taken.

    Raises:
        Rejected: the key is not on the list, not the own one, and not the one that was asked for.
        UsageError: another machine has the name already.
    """
    known = trusted(folder)
    own = load(folder)
    if asked.key and check_name(asked.key) != key:
        raise Rejected(
            f"the bundle is signed by {key}, not by {asked.key}",
            hint="ask who sent it for the key that 'bede bundle key' shows there",
            reason="other_key",
        )
    if not (asked.key or asked.any or key in known or (own and own.id == key)):
        raise Rejected(
            f"the bundle is signed by a key that is not trusted here: {key}",
            hint="compare it with what 'bede bundle key' shows at its owner's, then add --trust KEY",
            reason="untrusted_key",
        )
    name = check_peer(asked.name) if asked.name else known.get(key, default(key))
    if any(other == name for other_key, other in known.items() if other_key != key):
        raise UsageError(f"another machine is called {name!r} already", hint="choose another name with --as")
    return name


def remember(folder: Path, key: str, name: str) -> None:
    """Put a key on the list, unless it is there under this name.

    Raises:
        Unavailable: the list cannot be written.
    """
    known = trusted(folder)
    if known.get(key) == name:
        return
    path = place(folder)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    text = "".join(f"{item} {called}\n" for item, called in {**known, key: name}.items())
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
                file.write(text)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise Unavailable(f"cannot write {path}: {error.strerror}", hint="check the permissions") from error
