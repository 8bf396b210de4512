"""What Bede does when an agent tells it of a moment: claims, briefs, recalls, gives back.

The hook before an edit has to be done within a tenth of a second, so the way to it (`attend`, `ground`, `claiming`)
loads a few modules of the standard library and `bede.leases`; every other moment is a file of its own.
Nothing here writes to stdout or decides how an agent is answered: that is the agent's file.
"""

from __future__ import annotations

from bede import agents
from bede.agents.port import AFTER, BEFORE, COMPACTED, END, PROMPT, START, STOP, Answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bede.agents.port import Call
    from bede.hooks.ground import Project

#: Seconds that an answer may take, by the moment: well under what the strictest agent allows. Codex gives an end one.
DEADLINES = {START: 2.5, COMPACTED: 2.5, PROMPT: 1.5, BEFORE: 1.0, AFTER: 1.0, STOP: 0.8, END: 0.8}


def attend(
    name: str,
    event: str,
    payload: object,
    environment: Mapping[str, str],
    watch: Callable[[float], None] = lambda _seconds: None,
) -> str:
    """Return the one document that answers a hook's call, in the form that its agent takes.

    `watch` is told in how many seconds it has to be there. A call by another agent that runs this one's hooks is taken
    for what it is; where that agent has hooks of ours itself it is dropped, so that nothing happens twice.

    Raises:
        UsageError: there is no such agent.
        BedeError: the store cannot be used.
    """
    agent = agents.load(name)
    call = agent.read(event, payload, environment)
    if other := agent.foreign(payload, environment):
        from bede.agents.native import is_installed

        if not agents.named(other):
            return agent.neutral(event)
        agent = agents.load(other)
        if is_installed(other, call.cwd, environment):
            return agent.neutral(event)
        call = agent.read(event, payload, environment)
    watch(DEADLINES.get(call.moment, 1.0))
    return agent.write(event, call, answer(call, environment))


def answer(call: Call, environment: Mapping[str, str]) -> Answer:
    """Return what there is to say to a call; nothing where it is in no project.

    Raises:
        UsageError: the session has a name that none has.
        BedeError: see `attend`.
    """
    if call.moment not in DEADLINES:
        return Answer()
    from bede.hooks import ground

    project = ground.find(call, environment)
    if project is None:
        return Answer()
    from bede.leases.holding import Holder

    Holder(call.agent, call.session)  # Checks both names, before anything is written under them.
    return _moment(call, project, environment)


def _moment(call: Call, project: Project, environment: Mapping[str, str]) -> Answer:
    if call.moment in (BEFORE, AFTER):
        from bede.hooks import claiming, switches

        if not switches.claims(project, environment):
            return Answer()
        return claiming.before(call, project) if call.moment == BEFORE else claiming.after(call, project)
    if call.moment in (STOP, END):
        from bede.hooks import leaving

        return leaving.leave(call, project, environment)
    if call.moment == PROMPT:
        from bede.hooks import prompting

        return prompting.recall(call, project, environment)
    from bede.hooks import starting

    return starting.brief(call, project, environment)
