"""Copilot's command line in a project that has Claude's hooks, which it runs too: nothing may happen twice."""

from __future__ import annotations

from live.acts import DECISION, HOLDER, INTENT, PURPOSE
from live.agents import CopilotCli
from live.stage import FILES, Ran, Stage
from live.tools import Json

CHECKS = {
    "once": "with hooks of its own, each context came once, each claim was its own, and each prompt was taken in once",
    "mapped": "without, Claude's hooks speak for it: a held file's edit was refused with the intent, in its own name",
}
FIRST = "Let the cart start its total at zero."
SECOND = "Let the cart start its total at one."


def perform(stage: Stage) -> dict[str, str]:
    """Run Copilot with both kinds of hooks, then with Claude's alone; return what is wrong with each check."""
    agent, model = stage.agent(CopilotCli)
    stage.install(agent)
    stage.bede("install-hooks", "--agent", "claude-code", "--scope", "project")
    stage.bede("store", f"Sales wants {DECISION}", "--kind", "decision", "--key", "discount", "--value", DECISION)
    both = stage.play(agent, model, FIRST, _steps("    return sum(prices, 0)"))
    faults = {"once": _once(stage, both)}
    stage.bede("uninstall-hooks", "--agent", "copilot", "--scope", "user", env=stage.env(agent))
    stage.reset()
    stage.hook("UserPromptSubmit", HOLDER[0], {"session_id": HOLDER[1], "prompt": INTENT})
    whose = ("--agent-id", HOLDER[0], "--session", HOLDER[1])
    stage.bede("lease", "acquire", "cart.py", "--purpose", PURPOSE, *whose)
    alone = stage.play(agent, model, SECOND, _steps("    return sum(prices, 1)"))
    stage.bede("lease", "release", "cart.py", *whose)
    faults["mapped"] = _mapped(stage, alone)
    return faults


def _steps(new: str) -> list[Json]:
    edit = {"path": "cart.py", "line": 5, "old": "    return sum(prices)", "new": new}
    return [
        {"text": "I read the cart first.", "calls": [{"read": "cart.py"}]},
        {"text": "I change it.", "calls": [{"edit": edit}]},
        {"text": "That is all."},
    ]


def _once(stage: Stage, ran: Ran) -> str:
    if fault := ran.fault() or ("" if "sum(prices, 0)" in stage.text("cart.py") else "the edit was not made"):
        return fault
    if (count := ran.script.main[0].text.count(DECISION)) != 1:
        return f"the decision came {count} times"
    for verb in ("acquire", "release"):  # which have what waits told in the log
        stage.bede("lease", verb, "README.md", "--session", "nobody")
    told = [(event.actor, event.kind, (event.body or {}).get("session")) for event in stage.events("coordination")]
    ours = [(actor, kind) for actor, kind, session in told if session == ran.session]
    if ours != [("copilot", "lease_acquired"), ("copilot", "lease_released")]:
        return f"told of leases: {told}"
    sessions = [ref for ref in stage.refs() if ref.startswith("sessions/")]
    return "" if sessions == [f"sessions/copilot/{ran.session}"] else f"sessions are {sessions}"


def _mapped(stage: Stage, ran: Ran) -> str:
    if fault := ran.fault() or ("" if stage.text("cart.py") == FILES["cart.py"] else "the file was changed"):
        return fault
    results = ran.script.main[-1].results
    if lacks := [text for text in (INTENT, PURPOSE) if text not in results]:
        return f"what the model read lacks {lacks}"
    if DECISION not in ran.script.main[0].text:
        return "the decision did not come"
    blocks = stage.bede("brief", "cart.py")["files"][0].get("blocks", [])
    whose = [(block["agent_id"], block["session"]) for block in blocks]
    return "" if whose == [("copilot", ran.session)] else f"refused are {whose}"
