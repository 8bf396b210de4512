"""What is handed to an agent: dated, attributed facts inside a fence, within a budget of tokens.

Stored text is data. Every memory becomes one line, without control characters, and the fence's mark is a hash of
what it holds, so that no stored text can close it. What did not fit is said.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence

from bede.answers.views import gist
from bede.identity import timestamp
from bede.projections.notices import Notice
from bede.quick import dataclass
from bede.records import Event

#: Longest line of one memory, in characters.
LONGEST = 1200
#: What a line says that tells why something failed.
_TROUBLE = re.compile(r"error|fail|fatal|panic|exception|traceback|denied|not found|undefined|cannot", re.IGNORECASE)
#: Control, bidi and zero-width characters, and every line break: nothing of them reaches an agent.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]+")


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and its lines, most important first; `total` counts also those never rendered."""

    title: str
    lines: Sequence[str]
    total: int


@dataclass(frozen=True, slots=True)
class Brief:
    """The text, what it costs, and how many lines of each section were left out."""

    text: str
    cost: int
    left_out: dict[str, int]


def safe(text: str) -> str:
    """Return a text on one line, without anything that could act on its reader's screen."""
    return " ".join(_UNSAFE.sub(" ", text).split())


def sentence(event: Event, *, short: bool = False) -> str:
    """Return a memory as one dated, attributed line."""
    body = event.body or {}
    parts = [gist(event)]
    if event.kind in ("decision", "fact"):
        parts = [f"{body.get('key')} = {_plain(body.get('value'))}"]
    if body.get("rationale"):
        parts.append(f"because {body['rationale']}")
    if not short:
        parts += [str(item) for item in body.get("learnings", ())]
        parts += [f"next: {body['handoff_note']}"] if body.get("handoff_note") else []
        parts += [telling(body["output"])] if body.get("output") and body.get("exit_status") else []
    task = f" {body['task_id']}" if body.get("task_id") else ""
    text = safe("; ".join(part for part in parts if part))
    text = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    when = timestamp(event.happened_at)[:16].replace("T", " ")
    return f"- {when} {event.actor}{task} [{event.id[:8]}] {text}"


def notice_line(notice: Notice, peer: str, now: int) -> str:
    """Return a notice as one dated, attributed line that says until when it holds."""
    text = safe(notice.message)
    text = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    when, until = (timestamp(at)[:16].replace("T", " ") for at in (notice.created_at, notice.expires_at))
    who = f"{notice.author}@{peer}" if peer else notice.author
    holds = f"until {until}" if notice.status(now) == "active" else f"stale since {until}: ask {notice.author}"
    return f"- {when} {who} [{notice.id.rpartition(':')[2][:8]}] {notice.resource}: {text} ({holds})"


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def telling(output: str) -> str:
    """Return the line of a failed command's output that tells most: the last that names an error, else the last."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    named = [line for line in lines if _TROUBLE.search(line)]
    return (named or lines or [""])[-1][:160]


def compose(head: str, sections: Iterable[Section], budget: int, count: Callable[[str], int]) -> Brief:
    """Fill a fence with as many lines as fit into `budget`, counted by `count` on the whole text.

    Sections take turns, line by line, so that a long one cannot crowd out the others. Each line is counted for itself,
    which comes to what the whole turns out to have, but for a token here and there.
    """
    wanted = [section for section in sections if section.total]
    chosen = [0] * len(wanted)
    text = _fenced(head, wanted, chosen)
    if (cost := count(text)) < budget:
        chosen = _choose(wanted, budget - cost, count)
        text = _fenced(head, wanted, chosen)
        cost = count(text)
    while cost > budget and any(chosen):
        longest = max(range(len(chosen)), key=lambda index: chosen[index])
        chosen[longest] = max(0, chosen[longest] - max(1, chosen[longest] * (cost - budget) // cost))
        text = _fenced(head, wanted, chosen)
        cost = count(text)
    if cost > budget:
        return _nothing(wanted, count)
    left = {item.title: item.total - taken for item, taken in zip(wanted, chosen, strict=True) if item.total > taken}
    return Brief(text, cost, left)


def _nothing(wanted: list[Section], count: Callable[[str], int]) -> Brief:
    """Return what is said when there is no room even for what was left out, section by section."""
    total = sum(section.total for section in wanted)
    text = f"({total} lines left out: the budget is too small)"
    return Brief(text, count(text), {"everything": total})


def _choose(sections: list[Section], room: int, count: Callable[[str], int]) -> list[int]:
    """Return how many lines of each section fit into `room` tokens when they take turns."""
    chosen = [0] * len(sections)
    open_ = list(range(len(sections)))
    while open_:
        for index in tuple(open_):
            lines, title = sections[index].lines, "" if chosen[index] else f"{sections[index].title}:\n"
            cost = count(f"{title}{lines[chosen[index]]}\n") if chosen[index] < len(lines) else room + 1
            if cost > room:
                open_.remove(index)
            else:
                chosen[index] += 1
                room -= cost
    return chosen


def _fenced(head: str, sections: list[Section], chosen: list[int]) -> str:
    blocks = [head]
    for section, taken in zip(sections, chosen, strict=True):
        missing = section.total - taken
        if taken:
            blocks.append("\n".join([f"{section.title}:", *section.lines[:taken]]))
        if missing:
            blocks.append(f"({missing} of {section.total} under '{section.title}' left out)")
    inside = "\n".join(blocks)
    mark = hashlib.sha256(inside.encode()).hexdigest()[:12]
    return f"<bede-memory {mark}>\n{inside}\n</bede-memory {mark}>"
