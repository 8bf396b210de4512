"""Machines that share nothing but a folder: each has its own project, settings, key and clock."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from bede import signing
from bede.context import Context
from bede.identity import canonical, timestamp
from bede.operations import load

#: When every clock begins: 2026-01-02T03:04:05Z.
AT = 1_767_323_045_000_000
MINUTE, HOUR, DAY = 60_000_000, 3_600_000_000, 86_400_000_000


class Machine:
    """One machine: `call` runs a verb there, as its own process would, and returns the JSON it answers."""

    def __init__(self, base: Path, peer: str, author: str, **made: Any) -> None:
        """Make it in a folder; `made` says how its project is made, if not anew."""
        self.peer = peer
        self.author = author
        self.root = base / peer / "project"
        self.share = base / "share"
        self.at = AT
        self.environment = {
            "BEDE_CONFIG_DIR": str(base / peer / "config"),
            "BEDE_DATA_DIR": str(base / peer / "data"),
            "HOME": str(base / peer),
        }
        for folder in (self.root, self.share):
            folder.mkdir(parents=True, exist_ok=True)
        self.call("init", **made)

    @property
    def config(self) -> Path:
        """The user's settings folder."""
        return Path(self.environment["BEDE_CONFIG_DIR"])

    @property
    def file(self) -> Path:
        """What this machine publishes."""
        return self.share / f"{self.peer}.json"

    def context(self) -> Context:
        """A window on this machine's project."""
        return Context(
            directory=self.root, environment=self.environment, clock=lambda: self.at, agent=self.author
        )

    def call(self, verb: str, *arguments: Any, **options: Any) -> dict[str, Any]:
        """Run a verb; `from_` and the like keep their underscore."""
        with closing(self.context()) as context:
            result: dict[str, Any] = load(verb).function(context, *arguments, **options).to_json()
            return result

    def exchange(self, action: str, *arguments: Any, **options: Any) -> dict[str, Any]:
        """Run `bede exchange`."""
        return self.call("exchange", action, *arguments, **options)

    def join(self, workspace: str = "shop", **options: Any) -> dict[str, Any]:
        """Take part in the exchange through the shared folder."""
        return self.exchange("init", folder=self.share, workspace=workspace, peer=self.peer, **options)

    def trust(self, *others: Machine, **options: Any) -> None:
        """Pin other machines for what their authors say."""
        for other in others:
            self.exchange("trust", other.peer, key=other.key.id, agent=[other.author], **options)

    @property
    def key(self) -> signing.Key:
        """This machine's own key."""
        return signing.load_or_make(self.config)

    def post(self, message: str, resource: str = "service:auth", **options: Any) -> str:
        """Post a notice, and return its id."""
        (view,) = self.call("notice", "post", resource=resource, message=message, **options)["notices"]
        return str(view["id"])

    def notices(self, **options: Any) -> dict[str, dict[str, Any]]:
        """Return all notices, cleared ones too, by id."""
        listed = self.call("notice", "list", all_=True, budget=32_768, **options)["notices"]
        return {item["id"]: item for item in listed}

    def count(self) -> tuple[int, int]:
        """Return how many events and operations there are."""
        with closing(self.context()) as context, context.repository.snapshot() as reading:
            counts = reading.counts()
            return counts["events"], counts["operations"]

    def is_sound(self) -> bool:
        """Tell whether the history verifies."""
        return bool(self.call("verify")["ok"])

    def sign(self, notices: Sequence[Any] = (), key: signing.Key | None = None, **said: Any) -> bytes:
        """Return a document as this machine would sign it, with some fields said otherwise."""
        body = {
            "schema": "memkernel.signed-notices/v1",
            "workspace_id": "shop",
            "peer_id": self.peer,
            "sequence": 2**40,
            "sent_at": timestamp(self.at),
            "notices": list(notices),
            **said,
        }
        return canonical({**body, "signature": (key or self.key).sign(canonical(body)).hex()})

    def wire(self, number: int = 1, **said: Any) -> dict[str, Any]:
        """Return a notice of this machine as it stands in a document."""
        return {
            "notice_id": f"{self.peer}:00000000-0000-4000-8000-{number:012x}",
            "author": self.author,
            "resource": "service:auth",
            "message": f"number {number}",
            "created_at": timestamp(self.at),
            "expires_at": timestamp(self.at + HOUR),
            "cleared_at": None,
            **said,
        }


def pair(base: Path) -> tuple[Machine, Machine]:
    """Return two machines that trust each other."""
    one, other = Machine(base, "laptop-a", "alice"), Machine(base, "laptop-b", "bob")
    for machine in (one, other):
        machine.join()
    one.trust(other)
    other.trust(one)
    return one, other


def changed(data: bytes, change: Callable[[dict[str, Any]], Any]) -> bytes:
    """Return a document with something in it changed, its signature as it was."""
    said = json.loads(data)
    change(said)
    return canonical(said)
