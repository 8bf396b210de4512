"""Two agents at once on one repository: they meet at a file, one is refused and takes other work, and it is told.

Who comes first is made sure by the script, not by a clock: the second asks for the file when the first has edited it,
and the first ends its turn when the second was refused.
"""

from __future__ import annotations

from live.agents import Agent
from live.stage import Stage
from live.tools import Json

CHECKS = {
    "refused": "the second agent's edit was refused, and its model read what the first one had been asked",
    "both": "both ended well: the file is the first one's, and the second one did other work",
    "brief": "bede brief tells who was refused by whom, what the change was for, and whom to ask",
    "verify": "the history verifies, and nothing is held any more",
}
FIRST = "Let the cart give ten percent off above one hundred."
SECOND = "Let the cart refuse negative prices."
OTHER = "    return gross / 1.19"


def _edit(path: str, old: str, new: str) -> Json:
    return {"edit": {"path": path, "line": 5, "old": old, "new": new}}


def perform(stage: Stage, first: type[Agent], second: type[Agent]) -> dict[str, str]:
    """Run two agents, or one twice, at the same time; return what is wrong with each check.

    An agent that is to run twice must be told its model's address by its environment, since both share one home.
    """
    one, one_model = stage.agent(first)
    two, two_model = stage.agent(second)
    for agent in {one.name: one, two.name: two}.values():
        stage.install(agent)
    discounted = "    return sum(prices) * (0.9 if sum(prices) > 100 else 1)"
    line = "    return sum(prices)"
    steps_one: list[Json] = [
        {"text": "I read the cart.", "calls": [{"read": "cart.py"}]},
        {"text": "I change it.", "calls": [_edit("cart.py", line, discounted)]},
        {"tell": "edited", "await": "refused", "text": "I look once more.", "calls": [{"shell": "cat cart.py"}]},
        {"text": "The discount is in."},
    ]
    steps_two: list[Json] = [
        {"text": "I read the cart.", "calls": [{"read": "cart.py"}, {"read": "price.py"}]},
        {
            "await": "edited",
            "text": "I change it.",
            "calls": [_edit("cart.py", line, "    return sum(max(price, 0) for price in prices)")],
        },
        {
            "tell": "refused",
            "text": "Somebody is on it. I take the other file.",
            "calls": [_edit("price.py", "    return gross / 1.2", OTHER)],
        },
        {"text": "The cart is being worked on; I mended the price."},
    ]
    parts = [(one, one_model, FIRST, steps_one), (two, two_model, SECOND, steps_two)]
    ran_one, ran_two = stage.play_together(parts)
    faults = dict.fromkeys(CHECKS, "")
    results = "\n".join(asked.results for asked in ran_two.script.main)
    faults["refused"] = ran_two.fault() or ("" if FIRST in results else "its model never read the first one's prompt")
    texts = (discounted in stage.text("cart.py"), OTHER in stage.text("price.py"))
    faults["both"] = ran_one.fault() or ran_two.fault() or ("" if all(texts) else f"the edits are there: {texts}")
    faults["brief"] = _told(stage, one, two)
    faults["verify"] = _sound(stage)
    return faults


def _told(stage: Stage, one: Agent, two: Agent) -> str:
    stage.bede("ingest")
    told = stage.bede("brief", "cart.py")
    (file,) = told["files"]
    blocks = [(block["agent_id"], block["holder"]) for block in file.get("blocks", [])]
    prompts = [change.get("prompt", "") for change in file.get("changes", [])]
    askable = [who["agent_id"] for who in file.get("ask", [])]
    if (two.bede, one.bede) not in blocks:
        return f"refusals are {blocks}"
    if not any(FIRST in prompt for prompt in prompts):
        return f"the changes are for {prompts}"
    lacks = [text for text in (FIRST, "was refused") if text not in told["text"]]
    if lacks:
        return f"the text lacks {lacks}"
    return "" if one.bede in askable else f"to be asked are {askable}"


def _sound(stage: Stage) -> str:
    found = stage.bede("verify")
    held = stage.bede("lease", "list")["leases"]
    return f"verify says {found}" if found.get("findings") else f"still held: {held}" if held else ""
