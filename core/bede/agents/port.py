"""What every agent's file answers: which moment a hook tells of, and in which words the agent takes an answer.

The hook reads one agent's file and nothing else of this package, within a deadline of its own, so nothing here or
there may import more than a few modules of the standard library; what only an installer needs is imported late.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    from bede.agents import wiring

    class Agent(wiring.Agent, Protocol):
        """What an agent's file offers: to a hook the four below, to an installer what `wiring.Agent` names.

        Whatever JSON they are given, and whatever name for an event, none of the four raises.
        """

        def read(self, event: str, payload: object, environment: Mapping[str, str]) -> Call:
            """Return what a hook's call tells; one that says nothing to us is of the moment `OTHER`."""

        def write(self, event: str, call: Call, answer: Answer) -> str:
            """Return an answer as the one document that the agent takes; neutral where it can take none."""

        def neutral(self, event: str) -> str:
            """Return what lets the agent go on as if nobody had been asked."""

        def foreign(self, payload: object, environment: Mapping[str, str]) -> str:
            """Return which other agent really calls this one's hook; '' where it is this one.

            It may be one that has no file here: its call is dropped then.
            """


#: The moments Bede knows. `BEFORE` and `AFTER` are those of tools that edit files. `OTHER` is every event that has
#: nothing to say to it.
START, COMPACTED, PROMPT, BEFORE, AFTER, STOP, END, OTHER = (
    "start",
    "compacted",
    "prompt",
    "before",
    "after",
    "stop",
    "end",
    "other",
)


class Call:
    """One hook call, whatever agent it came from.

    `session` is the id that the same session has once its transcript was ingested. `paths` are the files an edit tool
    is about to write or wrote, absolute or relative to `cwd`, files inside patches included; empty for tools that edit
    nothing. `transcript` is the session's file where the agent tells it, `child` the sub-agent's id inside the session.
    """

    __slots__ = ("agent", "child", "cwd", "failed", "moment", "paths", "prompt", "session", "tool", "transcript")

    def __init__(
        self,
        moment: str,
        agent: str,
        session: str,
        *,
        cwd: str = "",
        transcript: str = "",
        prompt: str = "",
        tool: str = "",
        paths: tuple[str, ...] = (),
        child: str = "",
        failed: bool = False,
    ) -> None:
        self.moment = moment
        self.agent = agent
        self.session = session
        self.cwd = cwd
        self.transcript = transcript
        self.prompt = prompt
        self.tool = tool
        self.paths = paths
        self.child = child
        self.failed = failed


class Answer:
    """What Bede says to a call: nothing, some context, or a refusal with its reason."""

    __slots__ = ("context", "reason")

    def __init__(self, *, reason: str = "", context: str = "") -> None:
        self.reason = reason
        self.context = context
