"""What is handed to an agent: dated, attributed facts inside a fence, within a budget of tokens.

Stored text is data. Every memory becomes one line, without control characters, and the fence's mark is a hash of
what it holds, so that no stored text can close it. What did not fit is said.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from bede.answers.views import gist, told_at
from bede.identity import timestamp
from bede.projections.notices import Notice
from bede.quick import dataclass
from bede.records import Event

#: Longest line of one memory, in characters.
LONGEST = 1200
#: Lines looked at for one to begin a section with, and how many tokens and characters of one that is cut tell anything.
AHEAD, LEAST, SHORTEST = 4, 20, 80
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
    when = told_at(event)[:16].replace("T", " ") or "some day"
    return f"- {when} {event.actor}{task} [{event.id[:8]}] {text}"


def notice_line(notice: Notice, origin: str, now: int) -> str:
    """Return a notice as one dated, attributed line that says until when it holds; `origin` is told of its author."""
    text = safe(notice.message)
    text = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    when, until = (timestamp(at)[:16].replace("T", " ") for at in (notice.created_at, notice.expires_at))
    holds = f"until {until}" if notice.status(now) == "active" else f"stale since {until}: ask {notice.author}"
    return f"- {when} {notice.author}{origin} [{notice.id.rpartition(':')[2][:8]}] {notice.resource}: {text} ({holds})"


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def telling(output: str) -> str:
    """Return the line of a failed command's output that tells most: the last that names an error, else the last."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    named = [line for line in lines if _TROUBLE.search(line)]
    return (named or lines or [""])[-1][:160]


def inside(text: str) -> int:
    """Count the tokens of a text as it stands inside a JSON string, which is how an agent receives it."""
    from bede.engines import tokens

    return tokens.count(json.dumps(text, ensure_ascii=False)[1:-1])


def compose(head: str, sections: Iterable[Section], budget: int, count: Callable[[str], int]) -> Brief:
    """Fill a fence with as many lines as fit into `budget`, counted by `count` on the whole text.

    Sections take turns, line by line, so that a long one cannot crowd out the others. A first line that does not fit
    makes way for the next ones; where none of them does, it is cut. Each line is counted for itself, which comes to
    what the whole turns out to have, but for a token here and there.
    """
    wanted = [section for section in sections if section.total]
    chosen: list[list[str]] = [[] for _ in wanted]
    text = _fenced(head, wanted, chosen)
    # What was left out is told section by section; where there is no room for that, in one line.
    if is_brief := (cost := count(text)) > budget:
        text = _fenced(head, wanted, chosen, is_brief)
        cost = count(text)
    if cost < budget:
        chosen = _choose(wanted, budget - cost, count)
        text = _fenced(head, wanted, chosen, is_brief)
        cost = count(text)
    while cost > budget and any(chosen):
        longest = max(chosen, key=len)
        del longest[-max(1, len(longest) * (cost - budget) // cost) :]
        text = _fenced(head, wanted, chosen, is_brief)
        cost = count(text)
    if cost > budget:
        return _nothing(wanted, count)
    left = {one.title: one.total - len(taken) for one, taken in zip(wanted, chosen, strict=True)}
    return Brief(text, cost, {title: missing for title, missing in left.items() if missing})


def _nothing(wanted: list[Section], count: Callable[[str], int]) -> Brief:
    """Return what is said when there is no room even for how much was left out."""
    total = sum(section.total for section in wanted)
    text = f"({total} lines left out: the budget is too small)"
    return Brief(text, count(text), {"everything": total})


def _choose(sections: list[Section], room: int, count: Callable[[str], int]) -> list[list[str]]:
    """Return the lines of each section that fit into `room` tokens when they take turns."""
    chosen: list[list[str]] = [[] for _ in sections]
    rest = [iter(section.lines) for section in sections]
    open_ = list(range(len(sections)))
    while open_:
        for index in tuple(open_):
            title = "" if chosen[index] else f"{sections[index].title}:\n"
            line, cost = _fitting(title, rest[index], room, count)
            if line:
                chosen[index].append(line)
                room -= cost
            else:
                open_.remove(index)
    return chosen


def _fitting(title: str, lines: Iterator[str], room: int, count: Callable[[str], int]) -> tuple[str, int]:
    """Return the next line and its cost, if it fits; behind a title the next of a few that does, else the first cut."""
    looked: list[str] = []
    for line in islice(lines, AHEAD if title else 1):
        if (cost := count(f"{title}{line}\n")) <= room:
            return line, cost
        looked.append(line)
    return _cut(title, looked[0], room, count) if title and looked and room > LEAST else ("", 0)


def _cut(title: str, line: str, room: int, count: Callable[[str], int]) -> tuple[str, int]:
    """Return as much of a line as fits, and its cost; it says that it is cut. Nothing where that is too little."""
    size = len(line)
    while size > SHORTEST:
        short = f"{line[:size].rstrip()}… (cut)"
        if (cost := count(f"{title}{short}\n")) <= room:
            return short, cost
        size = min(size - 1, size * room // cost)
    return "", 0


def _fenced(head: str, sections: list[Section], chosen: list[list[str]], is_brief: bool = False) -> str:
    blocks, left = [head], 0
    for section, taken in zip(sections, chosen, strict=True):
        missing = section.total - len(taken)
        if taken:
            blocks.append("\n".join([f"{section.title}:", *taken]))
        if missing and not is_brief:
            blocks.append(f"({missing} of {section.total} under '{section.title}' left out)")
        left += missing
    if left and is_brief:
        blocks.append(f"({left} lines left out)")
    held = "\n".join(blocks)
    mark = hashlib.sha256(held.encode()).hexdigest()[:12]
    return f"<bede-memory {mark}>\n{held}\n</bede-memory {mark}>"
