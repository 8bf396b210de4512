"""docs/hooks.md against what is so: its table of agents is made from their files, its figures from the code."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bede import agents, hooks
from bede.agents.port import AFTER, BEFORE, COMPACTED, END, OTHER, PROMPT, START, STOP, Answer, Call
from bede.agents.wiring import Machine, Wish
from bede.config import declared
from bede.hooks import claiming, failing
from bede.splice import Items, Member, Whole
from bede_cli import hook

#: Heading of a column → the moments in it.
COLUMNS = {"start": (START, COMPACTED), "prompt": (PROMPT,), "before": (BEFORE,), "after": (AFTER,), "end": (STOP, END)}
#: Of a turn's first call of the model, Antigravity's file makes a start or a prompt.
TWICE = {"PreInvocation": START}
#: How the page spells them.
SPELT = {
    "start of a session": (START, COMPACTED),
    "prompt": (PROMPT,),
    "before an edit": (BEFORE,),
    "after an edit": (AFTER,),
    "end of a turn or session": (STOP, END),
}
SAID = "What was said before"


@pytest.fixture
def page(root: Path) -> str:
    """The document."""
    return (root / "docs" / "hooks.md").read_text(encoding="utf-8")


def installed(name: str, tmp_path: Path) -> dict[str, float]:
    """Return the events that an installer has an agent tell us of, with the seconds that each may take; 0 untold."""
    wish = Wish(["bede"])
    found: dict[str, float] = {}
    for target in agents.load(name).hooks(Machine(tmp_path), wish):
        for piece in target.pieces:
            found |= dict(_events(name, piece))
    return found


def _events(name: str, piece: Any) -> Iterator[tuple[str, float]]:
    if isinstance(piece, Whole):
        moments = agents.load(name).MOMENTS  # type: ignore[attr-defined]
        limit = min(map(int, re.findall(r"\btimeout = (\d+)", piece.text))) / 1000
        yield from ((event, limit) for event in moments if f'"{event}"' in piece.text)
    elif isinstance(piece, Items):
        yield piece.keys[-1], min(_seconds(list(piece.values)))
    elif isinstance(piece, Member):
        yield from ((event, min(_seconds(groups))) for event, groups in piece.value.items() if event != "enabled")


def _seconds(value: Any) -> Iterator[float]:
    if isinstance(value, list):
        for each in value:
            yield from _seconds(each)
    elif isinstance(value, dict):
        for key, each in value.items():
            if key in ("timeout", "timeoutSec"):
                yield each / 1000 if each >= 1000 else each
            yield from _seconds(each)


def moment_of(name: str, event: str) -> str:
    """Return the moment of an event."""
    moments = agents.load(name).MOMENTS  # type: ignore[attr-defined]
    return str(TWICE.get(event) or moments.get(event) or moments.get(event.lower(), OTHER))


def table(tmp_path: Path) -> str:
    """Return the table: the events of each agent by moment, with a star where it takes what Bede knows."""
    lines = ["| agent | " + " | ".join(COLUMNS) + " |", "| --- |" + " --- |" * len(COLUMNS)]
    for name in agents.AGENTS:
        events = installed(name, tmp_path)
        cells = [", ".join(_cell(name, event, events) for event in events if moment_of(name, event) in moments)
                 for moments in COLUMNS.values()]  # fmt: skip
        lines.append(f"| {name} | " + " | ".join(cell or "–" for cell in cells) + " |")
    return "\n".join(lines)


def _cell(name: str, event: str, events: dict[str, float]) -> str:
    call = Call(moment_of(name, event), name, "s")
    taken = SAID in agents.load(name).write(event, call, Answer(context=SAID))
    return f"`{event}`" + ("*" if taken and call.moment in (START, COMPACTED, PROMPT) else "")


def test_the_table_of_agents_is_what_their_files_say(page: str, tmp_path: Path) -> None:
    assert table(tmp_path) in page


@pytest.mark.parametrize("name", agents.AGENTS)
def test_every_answer_comes_well_before_an_agent_stops_waiting(name: str, tmp_path: Path) -> None:
    for event, seconds in installed(name, tmp_path).items():
        moments = {moment_of(name, event), *((PROMPT,) if event in TWICE else ())}
        for moment in moments:
            assert hooks.DEADLINES.get(moment, 1.0) + 0.4 <= seconds, (event, seconds)
        assert seconds >= hook.PATIENCE + hook.WRITING


def test_the_figures_are_those_of_the_code(page: str) -> None:
    for words, moments in SPELT.items():
        for moment in moments:
            assert re.search(rf"\| {words} \| [^|\n]+ \| {hooks.DEADLINES[moment]:g} s \|", page), moment
    for key in ("hooks.brief", "hooks.recall"):
        assert f"at most {declared(key).default} tokens" in page and key in page
    assert f"{claiming.TTL // 60_000_000} minutes" in page
    assert f"{failing.LARGEST // 1024} KiB" in page and failing.NAME in page
    assert f"{hook.LARGEST >> 20} MiB" in page and hook.SLOWER in page


def test_what_it_shows_is_what_is_answered(page: str) -> None:
    samples = [json.loads(block) for block in re.findall(r"```json\n(.*?)\n```", page, re.DOTALL)]
    call, answer = samples
    read = agents.load("claude-code").read("PreToolUse", call, {})
    assert (read.moment, read.session, read.paths) == (BEFORE, "s2", ("src/loader.py",))
    reason = answer["hookSpecificOutput"]["permissionDecisionReason"]
    assert json.loads(agents.load("claude-code").write("PreToolUse", read, Answer(reason=reason))) == answer


def test_the_variables_that_it_names_are_read(page: str, root: Path) -> None:
    files = [file for shelf in ("core", "cli") for file in (root / shelf).rglob("*.py")]
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    for name in set(re.findall(r"BEDE_[A-Z_]+", page)):
        assert name in text or (name == "BEDE_DATA_DIR" and '"data"' in text), name
