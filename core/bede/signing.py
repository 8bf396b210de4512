"""Who this machine is to other machines: one Ed25519 key of its user, and what it signs.

The key lies in a folder of its own below the user's settings, readable by its owner alone. A public key is named
by itself, `ed25519:` and 64 hex digits, so that who pins a name pins the key and nothing has to be looked up. This
room never decides whom to trust.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bede.errors import Unavailable, UsageError

#: Bytes of a signature.
SIGNATURE = 64
_NAME = re.compile(r"ed25519:[0-9a-f]{64}")
#: Points whose multiples are few, without their sign: of these as keys, a signature that anybody can make up holds.
_WEAK = frozenset(
    bytes.fromhex(point)
    for point in (
        "00" * 32,
        "01" + "00" * 31,
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        *(f"{low}{'ff' * 30}7f" for low in ("ec", "ed", "ee")),
    )
)
#: No key file of ours is larger.
_LARGEST = 4096


@dataclass(frozen=True, slots=True)
class Key:
    """This machine's key: its name can be handed to anybody, the rest stays here."""

    id: str
    _private: Any = field(repr=False)

    def sign(self, message: bytes) -> bytes:
        """Return the 64 bytes of a signature."""
        signature: bytes = self._private.sign(message)
        return signature


def place(folder: Path) -> Path:
    """Return where the key lies below the user's settings folder."""
    return folder / "identity" / "ed25519.pem"


def load_or_make(folder: Path) -> Key:
    """Return this machine's key, making it where there is none; of two that make it at once, both get the same.

    `folder` is the user's settings folder.

    Raises:
        Unavailable: it cannot be read or made, is no such key, or others may read it.
    """
    found = load(folder)
    if found is None:
        _make(place(folder))
        found = load(folder)
    if found is None:
        why = "is a link to nothing" if place(folder).is_symlink() else "vanished while it was read"
        raise Unavailable(f"the key {place(folder)} {why}", hint="move it away, and try again; a new key is made then")
    return found


def load(folder: Path) -> Key | None:
    """Return this machine's key, None where there is none.

    Raises:
        Unavailable: it cannot be read, is no such key, or others may read it.
    """
    path = place(folder)
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        _check_private(path, os.fstat(handle))  # First: a folder could be opened, but is no file to Python.
        return _key(path, os.read(handle, _LARGEST + 1))
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        os.close(handle)


def _unreadable(path: Path, error: OSError) -> Unavailable:
    return Unavailable(f"cannot read the key {path}: {error.strerror}", hint="check the permissions and the links")


def check_name(text: str) -> str:
    """Return a well-formed name of a public key.

    Raises:
        UsageError: it is not `ed25519:` and 64 hex digits, or a key that nobody has.
    """
    if not _NAME.fullmatch(text):
        raise UsageError(f"not the name of a key: {text[:80]!r}", hint="write ed25519: and 64 hex digits")
    if _is_weak(text):
        raise UsageError(f"anybody can sign for this key: {text}", hint="ask for the key that the machine shows")
    return text


def _is_weak(name: str) -> bool:
    point = bytearray.fromhex(name[8:])
    point[-1] &= 0x7F
    return bytes(point) in _WEAK


def is_signed(name: str, signature: bytes, message: bytes) -> bool:
    """Tell whether the key of this name signed these bytes; False also for a name or signature that is none."""
    if not _NAME.fullmatch(name) or len(signature) != SIGNATURE or _is_weak(name):
        return False
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(name[8:])).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def _check_private(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise Unavailable(f"the key {path} is not a file", hint="move it away; a new key is made then")
    if os.name != "nt" and status.st_mode & 0o077:
        raise Unavailable(
            f"others than its owner may read the key {path}",
            hint=f"run 'chmod 600 {path}', or remove it if somebody may have read it: a new key is made then",
        )


def _key(path: Path, text: bytes) -> Key:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        private = load_pem_private_key(text, None) if len(text) <= _LARGEST else None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        private = None
    if not isinstance(private, Ed25519PrivateKey):
        raise Unavailable(f"no Ed25519 key in {path}", hint="move the file away; a new key is made then")
    return Key("ed25519:" + private.public_key().public_bytes_raw().hex(), private)


def _make(path: Path) -> None:
    """Let a new key appear under its name when it is whole, unless somebody else's did before."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.chmod(0o700)
        try:
            _write(draft, _fresh())
            _publish(draft, path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        hint = f"{path.parent} must be a folder that you may write to"
        raise Unavailable(f"cannot make the key {path}: {error.strerror}", hint=hint) from error


def _fresh() -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write(path: Path, text: bytes) -> None:
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    path.chmod(0o600)


def _publish(draft: Path, path: Path) -> None:
    try:
        os.link(draft, path)
    except FileExistsError:
        return
    except OSError:  # A file system without hard links.
        if not path.exists():
            draft.rename(path)
