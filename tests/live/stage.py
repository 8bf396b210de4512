"""The scratch place of a run: a home, a repository with a memory, a `bede` on PATH, and the model that is asked.

`bede` there is a link to the one under test, so that agents' settings name a program which a run can break.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bede.projections import PROJECTIONS
from bede.records import Event
from bede.repository import Repository
from live import apart
from live.agents import Agent
from live.model import Model
from live.script import Meeting, Script
from live.tools import Json

FILES = {
    "README.md": "# Shop\n\nA tiny shop.\n",
    "cart.py": '"""Cart totals."""\n\n\ndef total(prices):\n    return sum(prices)\n',
    "price.py": '"""Prices."""\n\n\ndef net(gross):\n    return gross / 1.2\n',
}
#: Seconds that one run of an agent may take.
PATIENCE = 150.0


class Failed(Exception):
    """A step that everything else stands on did not work."""


@dataclass(frozen=True)
class Ran:
    """What came of one run of an agent: its status, the session it told of, and what the model was asked."""

    code: int | None
    session: str
    script: Script
    stderr: str

    def fault(self) -> str:
        """Return what went wrong with the run itself, '' for nothing."""
        if self.code != 0:
            return f"the agent ended with {self.code}: {self.stderr[-300:].strip()}"
        if self.script.problems:
            return "; ".join(self.script.problems)
        missing = len(self.script.steps) - self.script.played
        return f"{missing} steps were not played" if missing else ""


class Stage:
    """One scratch home and repository. Everything in it is made anew."""

    def __init__(self, folder: Path, modules: Path) -> None:
        self.folder, self.modules = folder, modules
        self.home, self.repo, self.tools = folder / "home", folder / "shop", folder / "bin"
        #: What a broken `bede` was asked.
        self.crashes = folder / "crashes"
        self._models: list[Model] = []
        self._runs = 0
        for each in (self.home, self.repo, self.tools):
            each.mkdir(parents=True)
        self.mend_program()
        for name, text in FILES.items():
            (self.repo / name).write_text(text, encoding="utf-8")
        self._git("init", "-q", "-b", "main")
        self._git("add", "-A")
        self._git("commit", "-q", "-m", "Start the shop")
        self.bede("init")

    def close(self) -> None:
        """Stop the models."""
        for model in self._models:
            model.close()

    # Agents

    def agent(self, kind: type[Agent]) -> tuple[Agent, Model]:
        """Set an agent up, with a model of its own."""
        model = Model()
        self._models.append(model)
        agent = kind(self.home, self.repo, model.url, self.modules)
        agent.configure()
        return agent, model

    def env(self, agent: Agent | None = None) -> dict[str, str]:
        """Return the environment of an agent, or of a person in this home."""
        return (agent or Agent(self.home, self.repo, "", self.modules)).env(str(self.tools))

    def install(self, agent: Agent) -> None:
        """Put Bede into an agent as its user would."""
        self.bede("attach", agent.name, env=self.env(agent))
        self.bede("install-hooks", "--agent", agent.name, env=self.env(agent))

    def play(self, agent: Agent, model: Model, prompt: str, steps: Sequence[Json], session: str = "") -> Ran:
        """Run an agent with one prompt, in a session that is there or a new one, and wait for all that was started."""
        (ran,) = self.play_together([(agent, model, prompt, steps)], session)
        return ran

    def play_together(self, parts: Sequence[tuple[Agent, Model, str, Sequence[Json]]], session: str = "") -> list[Ran]:
        """Run agents at once, and wait for everything that they and their hooks started."""
        meeting, begun = Meeting(), list[subprocess.Popen[bytes]]()
        logs = [self._logs(agent) for agent, _, _, _ in parts]
        try:
            for (agent, model, prompt, steps), folder in zip(parts, logs, strict=True):
                model.script = Script(steps, str(self.repo), meeting)
                begun.append(apart.start(agent.command(prompt, session), self.repo, self.env(agent), folder))
            codes = [apart.finish(process, PATIENCE) for process in begun]
        finally:
            for process in begun:
                apart.finish(process, 0.0)
            left = apart.settle()
        if left:
            raise Failed(f"processes were left behind and had to be ended: {'; '.join(left)}")
        whole = zip(parts, logs, codes, strict=True)
        return [self._ran(agent, model.script, folder, code) for (agent, model, _, _), folder, code in whole]

    def _logs(self, agent: Agent) -> Path:
        self._runs += 1
        folder = self.folder / "logs" / f"{self._runs}-{agent.name}"
        folder.mkdir(parents=True)
        return folder

    def _ran(self, agent: Agent, script: Script, logs: Path, code: int | None) -> Ran:
        """Return what came of a run, and write down what the model was asked, for whoever looks for a fault."""
        files = (logs / "stdout.txt", logs / "stderr.txt")
        out, err = (file.read_text(encoding="utf-8", errors="replace") for file in files)
        asked = [{"main": one.is_main, "messages": one.messages} for one in script.requests]
        (logs / "requests.json").write_text(json.dumps(asked, indent=1, ensure_ascii=False), encoding="utf-8")
        return Ran(code, agent.session(out), script, err)

    # Bede

    def bede(self, *words: str, stdin: str = "", env: dict[str, str] | None = None) -> Json:
        """Run a verb in the repository and return what it tells.

        Raises:
            Failed: it does not end well.
        """
        done = subprocess.run(
            [str(self.tools / "bede"), *words, "--json"],
            cwd=self.repo,
            env=env or self.env(),
            input=stdin.encode(),
            capture_output=True,
            timeout=120,
        )
        if done.returncode != 0:
            said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
            raise Failed(f"bede {' '.join(words)} ended with {done.returncode}: {said[-400:]}")
        found: Json = json.loads(done.stdout)
        return found

    def hook(self, event: str, agent: str, payload: Json) -> None:
        """Tell Bede of a moment of somebody else's session."""
        subprocess.run(
            [str(self.tools / "bede"), "hook", event, "--agent", agent],
            cwd=self.repo,
            env=self.env(),
            input=json.dumps({"cwd": str(self.repo), "hook_event_name": event, **payload}).encode(),
            check=True,
            capture_output=True,
            timeout=60,
        )

    def refs(self) -> list[str]:
        """Return the names of all refs."""
        with self._repository() as repository, repository.snapshot() as reading:
            return list(reading.refs())

    def events(self, ref: str) -> list[Event]:
        """Return what a ref sees, the oldest first; nothing where there is no such ref."""
        with self._repository() as repository, repository.snapshot() as reading:
            if ref not in reading.refs():
                return []
            return list(reading.walk(reading.spans(reading.tip(ref))))[::-1]

    @contextmanager
    def _repository(self) -> Iterator[Repository]:
        with closing(Repository.open(self.repo / ".bede" / "bede.db", PROJECTIONS, read_only=True)) as repository:
            yield repository

    def failures(self) -> list[str]:
        """Return what our hooks wrote down as failures so far, and forget it."""
        file = self.home / ".local" / "share" / "bede" / "hooks.log"
        if not file.is_file():
            return []
        lines = file.read_text(encoding="utf-8").splitlines()
        file.unlink()
        return lines

    # Breaking things

    @contextmanager
    def broken_store(self) -> Iterator[None]:
        """Have garbage in place of the memory."""
        kept = {path: path.read_bytes() for path in (self.repo / ".bede").glob("bede.db*")}
        for path in kept:
            path.unlink()
        (self.repo / ".bede" / "bede.db").write_bytes(b"this is no database\n" * 999)
        try:
            yield
        finally:
            for path in (self.repo / ".bede").glob("bede.db*"):
                path.unlink()
            for path, data in kept.items():
                path.write_bytes(data)

    @contextmanager
    def broken_program(self) -> Iterator[None]:
        """Have a `bede` that notes what it is asked and crashes."""
        program, noted = self.tools / "bede", shlex.quote(str(self.crashes))
        program.unlink()
        crash = f"echo \"$*\" >> {noted}\necho 'Traceback (most recent call last):' >&2\nexit 1\n"
        program.write_text(f"#!/bin/sh\n{crash}", encoding="utf-8")
        program.chmod(0o755)
        try:
            yield
        finally:
            self.mend_program()

    def mend_program(self) -> None:
        """Have the `bede` under test on PATH.

        Raises:
            Failed: it is not installed beside this interpreter.
        """
        program = self.tools / "bede"
        program.unlink(missing_ok=True)
        real = shutil.which("bede", path=os.path.dirname(sys.executable))
        if real is None:
            raise Failed("no 'bede' is installed beside this Python; scripts/live does that")
        program.symlink_to(real)

    # The repository

    def text(self, name: str) -> str:
        """Return a file of the repository."""
        return (self.repo / name).read_text(encoding="utf-8")

    def reset(self) -> None:
        """Give the files of the repository their first content again."""
        for name, text in FILES.items():
            (self.repo / name).write_text(text, encoding="utf-8")

    def _git(self, *words: str) -> None:
        who = ["-c", "user.name=Dev", "-c", "user.email=dev@example.invalid"]
        subprocess.run(["git", *who, *words], cwd=self.repo, env=self.env(), check=True, capture_output=True)
