# ruff: noqa: PTH113
"""At the end of a turn, and of a session: give back what it holds, and have its new turns taken in.

A turn gives back what the hook itself claimed; what was taken with a purpose or for another time stays until the
session ends, or the time is over.

Reading a transcript takes longer than an agent waits, so it is started beside the hook and outlives it. Runs that meet
wait for each other (`bede.turnstile`).
"""

from __future__ import annotations

import os
import sys

from bede.agents import TRANSCRIPTS
from bede.agents.port import END, Answer
from bede.hooks.claiming import is_own, open_
from bede.leases import claims, clock, intents
from bede.leases.holding import Holder, of_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from bede.agents.port import Call
    from bede.hooks.ground import Project


def leave(call: Call, project: Project, environment: Mapping[str, str]) -> Answer:
    """Give back, and start the reading, which nothing that goes wrong with the other prevents."""
    known = ""
    try:
        # A sub-agent that ends holds nothing of its own: its session goes on.
        if call.session and not call.child:
            known = _give_back(call, project)
    finally:
        ingest(call, call.transcript or known, project, environment)
    return Answer()


def _give_back(call: Call, project: Project) -> str:
    """Let go of what a session holds, and return where it is written down, as far as that was ever told."""
    holder, now = Holder(call.agent, call.session), clock.now()
    with open_(project) as connection:
        if call.moment == END:
            claims.release(connection, holder, now)
        elif own := [(lease.resource, lease.scope) for lease in of_session(connection, holder) if is_own(lease)]:
            claims.release(connection, holder, now, resources=own)
        return intents.transcript_of(connection, call.agent, call.session)


def ingest(call: Call, transcript: str, project: Project, environment: Mapping[str, str]) -> None:
    """Start taking in the session's new turns; where no file is known, whatever is new of its agent."""
    if environment.get("BEDE_HOOK_INGEST", "1") in ("0", "false", "no", "off"):
        return
    what = ["--agent", TRANSCRIPTS.get(call.agent, call.agent)]
    if transcript and os.path.isfile(transcript):
        what = ["--own", "--path", transcript]
    spawn(["-C", project.cwd, "ingest", *what, "--quiet"], project, environment)


def spawn(words: list[str], project: Project, environment: Mapping[str, str]) -> None:
    """Start a command of ours that goes on when the hook is over and the agent ends."""
    from subprocess import DEVNULL, Popen

    apart = {"creationflags": 0x00000208} if os.name == "nt" else {"start_new_session": True}  # detached, own group
    Popen(
        [sys.executable, "-P", "-m", "bede_cli", *words],  # -P: no module of the project's is taken for one of ours
        cwd=project.root,
        env=dict(environment),
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=DEVNULL,
        **apart,
    )
