"""One agent and Bede: five runs, and what has to be true of each.

Every check is a name and what is wrong, '' for nothing; the names are `CHECKS`, in the order of the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bede.records import Event
from live.agents import Agent
from live.stage import FILES, Ran, Stage
from live.tools import Json

#: Check → what it shows.
CHECKS = {
    "server": "the MCP server was started, a tool of it read the memory, and one wrote into the log",
    "start": "a stored decision reached the model at the start of the session",
    "prompt": "a memory about the prompt reached the model with it",
    "claim": "the hooks around an edit claimed and noted the file; when the session was over nothing was held",
    "deny": "an edit of a held file was refused, the file is unchanged, and the model read what its holder is about",
    "crash": "with a memory that is garbage, and with a Bede that crashes, the edit was made all the same",
    "session": "the transcript was taken in when the turn ended, under the id that its locks have",
    "resume": "a session that was gone on with kept its id, and each of its turns was taken in once",
    "words": "of what was taken in as said by a person, all is a prompt of the run, and nothing is Bede's",
    "quiet": "none of our hooks failed or was late, but in the runs that broke them",
    "out": "after detach and uninstall-hooks the agent's settings are as before, byte by byte",
}

DECISION = "ten percent off above one hundred, as agreed with sales"
FACT = "half up to two digits, as the accountants want it"
NOTE = "The cart rounds its total to two digits now, so callers must not round again"
INTENT = "Move every total of the shop to integer cents before the release"
PURPOSE = "rewriting the totals for cents"
HOLDER = ("claude-code", "5f0c7a52-5d1e-4c1b-9f57-0a7d1c3e2b11")

WORK = "How are tax amounts of the cart rounded? Round the total likewise, and store what you did."
HELD = "Make the total of the cart add up the prices as floats."
AGAIN = "Which file did you change, and what was it about?"
CRASH = "Let the total of the cart start at zero."

_LINE = "    return sum(prices)"
_READ: Json = {"text": "I read the cart first.", "calls": [{"read": "cart.py"}]}


def _edit(new: str) -> Json:
    return {"text": "I change it.", "calls": [{"edit": {"path": "cart.py", "line": 5, "old": _LINE, "new": new}}]}


def _mcp(tool: str, args: Json) -> Json:
    return {"calls": [{"mcp": {"tool": tool, "args": args}}]}


class Act:
    """The runs of one agent, one after the other, in a stage of its own."""

    def __init__(self, stage: Stage, kind: type[Agent]) -> None:
        self.stage, self.faults = stage, dict.fromkeys(CHECKS, "")
        self.agent, self.model = stage.agent(kind)
        self.prompts: list[str] = []

    def run(self) -> dict[str, str]:
        """Do all of it and return what is wrong with each check."""
        stage = self.stage
        self._in_and_out()
        stage.bede("store", f"Sales wants {DECISION}", "--kind", "decision", "--key", "discount", "--value", DECISION)
        said = f"Tax amounts of the cart are rounded {FACT}"
        stage.bede("store", said, "--kind", "fact", "--key", "rounding of tax", "--value", FACT)
        work = self._work()
        sessions = [work, self._held()]
        self._again(work.session)
        self._note("quiet", "; ".join(stage.failures())[:400])
        self._story(sessions)
        self._crash()
        return self.faults

    def _note(self, check: str, *faults: str) -> None:
        """Write down what is wrong, the first that is told of a check."""
        self.faults[check] = self.faults[check] or next(filter(None, faults), "")

    def _in_and_out(self) -> None:
        """Install, take out again, compare, and install for good."""
        stage, agent = self.stage, self.agent
        before = _bytes(stage.home)
        stage.install(agent)
        stage.bede("uninstall-hooks", env=stage.env(agent))
        stage.bede("detach", agent.name, env=stage.env(agent))
        after = _bytes(stage.home)
        changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
        self._note("out", f"not as before: {', '.join(changed)}" if changed else "")
        stage.install(agent)

    def _play(self, prompt: str, steps: list[Json], session: str = "") -> Ran:
        self.stage.reset()
        self.prompts.append(self.agent.stored(prompt))
        return self.stage.play(self.agent, self.model, prompt, steps, session)

    def _work(self) -> Ran:
        stored = {"kind": "note", "summary": NOTE}
        ran = self._play(
            WORK,
            [
                _READ,
                _edit("    return round(sum(prices), 2)"),
                _mcp("search", {"query": "percent off", "in": "memory"}),
                _mcp("store", stored),
                {"text": "It is rounded, and stored."},
            ],
        )
        asked, fault = ran.script.main, ran.fault()
        first = asked[0].text if asked else ""
        notes = [event for event in self.stage.events("main") if NOTE in str(event.body)]
        by = notes[0].actor if notes else ""
        read = _lacks(asked[-1].results if asked else "", DECISION, "the answer of the tool search")
        wrote = "" if by == self.agent.bede else f"the note is not in the log, or is {by!r}'s"
        self._note("server", fault, read, wrote)
        self._note("start", fault, _lacks(first, DECISION, "the first request"))
        self._note("prompt", fault, _lacks(first, FACT, "the first request"))
        is_made = "round(sum(prices), 2)" in self.stage.text("cart.py")
        self._note("claim", fault, "" if is_made else "the edit was not made", self._unclaimed(ran), self._held_by_us())
        return ran

    def _unclaimed(self, ran: Ran) -> str:
        """Tell what is missing of the claim on the file that was edited."""
        for verb in ("acquire", "release"):  # which have what waits told in the log
            self.stage.bede("lease", verb, "README.md", "--session", "nobody")
        told = {event.kind for event in self._coordination() if (event.body or {}).get("session") == ran.session}
        return "" if {"lease_acquired", "lease_released"} <= told else f"of session {ran.session!r} is told: {told}"

    def _held_by_us(self) -> str:
        held = self.stage.bede("lease", "list")["leases"]
        return f"still held: {[one['resource'] for one in held]}" if held else ""

    def _coordination(self) -> Iterator[Event]:
        """Yield what is told of this agent's leases."""
        events = self.stage.events("coordination")
        ours = (event for event in events if event.actor == self.agent.bede and event.body)
        return (event for event in ours if (event.body or {}).get("session") != HOLDER[1])

    def _held(self) -> Ran:
        """Have somebody else hold the file."""
        stage, (agent, session) = self.stage, HOLDER
        stage.hook("UserPromptSubmit", agent, {"session_id": session, "prompt": INTENT})
        whose = ("--agent-id", agent, "--session", session)
        stage.bede("lease", "acquire", "cart.py", "--purpose", PURPOSE, *whose)
        ran = self._play(HELD, [_READ, _edit("    return sum(map(float, prices))"), {"text": "Refused; I stop."}])
        results = ran.script.main[-1].results if ran.script.main else ""
        self._note(
            "deny",
            ran.fault(),
            "" if stage.text("cart.py") == FILES["cart.py"] else "the file was changed",
            _lacks(results, INTENT, "what the model read"),
            _lacks(results, PURPOSE, "what the model read"),
        )
        stage.bede("lease", "release", "cart.py", *whose)
        return ran

    def _again(self, session: str) -> None:
        """Go on with the first session."""
        ref = f"sessions/{self.agent.bede}/{session}"
        before = [event.id for event in self.stage.events(ref)]
        ran = self._play(AGAIN, [{"text": "It was cart.py, which rounds now."}], session)
        said = list(self._said(ref))
        self._note(
            "resume",
            ran.fault(),
            "" if ran.session == session else f"it is {ran.session!r} now, and was {session!r}",
            "" if [event.id for event in self.stage.events(ref)][: len(before)] == before else "turns were told anew",
            "" if said == [self.agent.stored(text) for text in (WORK, AGAIN)] else f"said in it: {said}",
        )

    def _story(self, runs: list[Ran]) -> None:
        """Look at what is known of the sessions: first what the hooks had taken in, then all that there is."""
        told = [run.session for run in runs]
        fault = "" if all(told) else "the agent told no session"
        refs = {f"sessions/{self.agent.bede}/{session}" for session in told}
        missing = refs - set(self.stage.refs())
        self._note("session", fault, f"not taken in by the hooks: {sorted(missing)}" if missing else "")
        self.stage.bede("ingest", "--agent", self.agent.bede)
        ours = {ref for ref in self.stage.refs() if ref.startswith(f"sessions/{self.agent.bede}/")}
        self._note("session", f"sessions are {sorted(ours)}" if ours != refs else "")
        locks = {(event.body or {}).get("session") for event in self._coordination()}
        self._note("session", f"locks are of {locks}, sessions are {told}" if locks - set(told) or not locks else "")
        said = [text for ref in sorted(ours) for text in self._said(ref)]
        self._note("words", f"said: {said}" if sorted(said) != sorted(self.prompts) else "")

    def _said(self, ref: str) -> Iterator[str]:
        """Yield what a person said in a session."""
        for event in self.stage.events(ref):
            if event.kind == "turn" and event.body and event.body["by"] == "human":
                yield "\n".join(part["text"] for part in event.body["parts"] if part.get("text"))

    def _crash(self) -> None:
        for name, broken in (("memory", self.stage.broken_store), ("program", self.stage.broken_program)):
            with broken():
                ran = self._play(CRASH, [_READ, _edit("    return sum(prices, 0)"), {"text": "Done."}])
            is_made = "sum(prices, 0)" in self.stage.text("cart.py")
            fault = ran.fault() or ("" if is_made else "the edit was not made")
            self._note("crash", f"with a broken {name}: {fault}" if fault else "")
        asked = self.stage.crashes.read_text(encoding="utf-8") if self.stage.crashes.exists() else ""
        self._note("crash", "" if self.stage.failures() else "no hook wrote down that the memory is broken: none ran")
        self._note("crash", "" if "hook " in asked else "no hook called the program that crashes")


def _lacks(text: str, wanted: str, where: str) -> str:
    return "" if wanted in text else f"{where} lacks {wanted!r}"


def _bytes(folder: Path) -> dict[str, bytes]:
    """Return every file of an agent's settings, without what Bede keeps for itself."""
    found = (path for path in folder.rglob("*") if path.is_file() and "node_modules" not in path.parts)
    named = ((str(path.relative_to(folder)), path) for path in found)
    return {name: path.read_bytes() for name, path in named if not name.startswith((".local", ".config/bede"))}
