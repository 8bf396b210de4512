"""Whom this machine trusts: one small file a project, in the user's own settings and never in the project.

A project's folder may be somebody else's gift, and its memory may travel; who may speak here is the user's own
decision. A policy names the workspace, the folder between the machines, as which peer this machine takes part, and the
key and authors of every other. It is read anew each time, so that a revocation counts at once.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bede import signing
from bede.arbitration import public
from bede.config import user_folder
from bede.errors import BadSource, Conflict, NotFound, Unavailable, UsageError
from bede.exchange import document, folder
from bede.exchange.envelope import Sender
from bede.projections.notices import AUTHOR

SCHEMA = "bede.exchange/1"
#: Bytes of a policy, pinned peers, and authors of each.
LARGEST, MOST_PEERS, MOST_AUTHORS = 1024 * 1024, 128, 64
_PEER = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_WORKSPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_DEVICES = {"con", "prn", "aux", "nul", *(f"{name}{n}" for name in ("com", "lpt") for n in range(10))}


@dataclass(frozen=True, slots=True)
class Policy:
    """What one project's exchange is: where, as whom, and with whom."""

    project: str
    workspace: str
    peer: str
    folder: Path
    authors: tuple[str, ...]
    peers: tuple[Sender, ...] = ()

    def sender(self, name: str) -> Sender:
        """Return a pinned peer.

        Raises:
            NotFound: there is none of that name.
        """
        for item in self.peers:
            if item.name == name:
                return item
        raise NotFound(f"no peer {name[:80]!r} is pinned", hint="'bede exchange status' lists them")


def load(environment: Mapping[str, str], project: str) -> Policy | None:
    """Return a project's policy, None where it has none.

    Raises:
        Unavailable: it cannot be read, others may write it, or it is damaged.
    """
    return _load(_path(environment, project))


def save(environment: Mapping[str, str], policy: Policy) -> None:
    """Write a project's policy, for its owner's eyes alone.

    Raises:
        Unavailable: it cannot be written.
    """
    path = _path(environment, policy.project)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.chmod(0o700)
    except OSError as error:
        raise Unavailable(f"cannot make the folder {path.parent}: {error.strerror}") from error
    peers = {item.name: {"key": item.key, "authors": sorted(item.authors)} for item in policy.peers}
    said = {
        "schema": SCHEMA,
        "project": policy.project,
        "workspace": policy.workspace,
        "peer": policy.peer,
        "folder": str(policy.folder),
        "authors": list(policy.authors),
        "peers": peers,
    }
    folder.write(path, json.dumps(said, indent=2).encode() + b"\n", folder.PRIVATE)


def remove(environment: Mapping[str, str], policy: Policy) -> None:
    """Remove a project's policy."""
    _path(environment, policy.project).unlink(missing_ok=True)


def others(environment: Mapping[str, str], workspace: str, peer: str) -> Iterator[Policy]:
    """Yield the policies of any project that takes part in a workspace as this peer."""
    place = _path(environment, "-").parent
    for path in sorted(place.glob("*.json")) if place.is_dir() else ():
        found = _load(path)
        if found and (found.workspace, found.peer) == (workspace, peer):
            yield found


def _path(environment: Mapping[str, str], project: str) -> Path:
    return user_folder(environment, "config") / "exchange" / f"{project}.json"


def _load(path: Path) -> Policy | None:
    try:
        data = folder.read(path, LARGEST, follow=True)
        if data is None:
            return None
        if os.name != "nt" and path.stat().st_mode & 0o022:
            raise Unavailable(f"others may change {path}", hint=f"look at what it says, then 'chmod 600 {path}'")
        return _policy(document.parse(data, LARGEST))
    except (BadSource, UsageError, KeyError, TypeError, AttributeError) as error:
        raise Unavailable(
            f"the exchange's settings {path} cannot be read: {error}", hint="mend the file, or move it away"
        ) from error


def _policy(said: dict[str, Any]) -> Policy:
    if said["schema"] != SCHEMA:
        raise UsageError(f"its schema is not {SCHEMA}")
    peers = tuple(sender(name, item["key"], item["authors"]) for name, item in said["peers"].items())
    policy = Policy(
        str(said["project"]),
        check_workspace(said["workspace"]),
        check_peer(said["peer"]),
        Path(said["folder"]),
        check_authors(said["authors"]),
        peers,
    )
    if not policy.folder.is_absolute() or "\0" in str(policy.folder):
        raise UsageError("its folder is no absolute path")
    return policy


def sender(name: str, key: str, authors: Sequence[str]) -> Sender:
    """Return a peer as it can be pinned; a key may be 64 hex digits alone, as MemKernel shows it.

    Raises:
        UsageError: its name, key or an author's is malformed.
    """
    spelled = f"ed25519:{key}" if len(key) == 64 else key
    return Sender(check_peer(name), signing.check_name(spelled), frozenset(check_authors(authors)))


def check_peer(name: str) -> str:
    """Return a name that can be a peer's and a file's on every system.

    Raises:
        UsageError: it cannot.
    """
    if not _PEER.fullmatch(name) or name in _DEVICES:
        raise UsageError(
            f"not a peer's name: {name[:80]!r}",
            hint="lower case letters, digits, - and _, at most 64, no device's name",
        )
    return public(name)


def check_workspace(name: str) -> str:
    """Return a workspace's name.

    Raises:
        UsageError: it is malformed.
    """
    if not _WORKSPACE.fullmatch(name):
        raise UsageError(f"not a workspace's name: {name[:80]!r}", hint="letters, digits and ._:-, at most 128")
    return public(name)


def check_authors(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of those whom a peer may speak for, each once.

    Raises:
        UsageError: there is none, there are too many, or one is malformed.
    """
    found = tuple(dict.fromkeys(names))
    if not 1 <= len(found) <= MOST_AUTHORS:
        raise UsageError(f"a peer speaks for 1 to {MOST_AUTHORS} authors", hint="name each with --agent")
    for name in found:
        if not AUTHOR.fullmatch(name):
            raise UsageError(f"not an author's name: {name[:80]!r}", hint="ASCII letters, digits and ._:@-")
    return found


def pin(policy: Policy, peer: Sender, own: str, *, replacing: bool) -> Policy:
    """Return the policy with one more peer.

    Raises:
        Conflict: that peer is pinned already and `replacing` is not said, or another has this key.
        UsageError: it is this machine itself, or there are too many.
    """
    if peer.name == policy.peer or peer.key == own:
        raise UsageError("that is this machine itself", hint="pin the name and key that the other one showed")
    rest = tuple(item for item in policy.peers if item.name != peer.name)
    if len(rest) < len(policy.peers) and not replacing:
        raise Conflict(
            f"a key is pinned for {peer.name!r} already",
            hint="ask the people there, then say --replace",
            reason="already_pinned",
        )
    if twin := next((item.name for item in rest if item.key == peer.key), ""):
        raise Conflict(f"that key is pinned for {twin!r}", hint="each machine has its own", reason="key_in_use")
    if len(rest) >= MOST_PEERS:
        raise UsageError(f"at most {MOST_PEERS} peers can be pinned")
    return replace(policy, peers=(*rest, peer))


def drop(policy: Policy, name: str) -> Policy:
    """Return the policy without a peer.

    Raises:
        NotFound: there is none of that name.
    """
    policy.sender(name)
    return replace(policy, peers=tuple(item for item in policy.peers if item.name != name))
