"""What is known about a file, for somebody who is about to touch it: who is on it, why it changed, whom to ask.

Put together from leases, from what became of them, from memories that name the file, and from agents' sessions. Each
part is data with its time and its source; nothing is guessed but which prompt is behind a change: the last in the same
session before it that says something.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from bede.answers import ranking
from bede.answers.brief import Section, safe, sentence
from bede.answers.working import Work, quoted, sorted_by_session, who
from bede.identity import counted, timestamp
from bede.leases import holding, intents, outbox, scopes
from bede.leases.clock import Now
from bede.projections import sessions
from bede.projections.memory import Filter, text_of
from bede.quick import dataclass
from bede.records import Place, Record
from bede.repository import Reading
from bede.repository.refs import COORDINATION
from bede.turns import text_of as said_in

#: Events of coordination looked through for refusals, and entries of each part.
LOOKED, MOST = 2000, 10
_CHANGES = 200
#: Turns looked at behind a change for a prompt that says something, and characters shown of it.
_BACK, _SHOWN = 8, 300
_KINDS = ("decision", "discovered_constraint", "task_handoff", "fact")


@dataclass(frozen=True, slots=True)
class Block(Record):
    """A session that wanted the file and was refused, `count` times within ten seconds."""

    SPARSE = True

    at: str
    agent_id: str
    session: str
    holder: str
    holder_session: str
    count: int
    purpose: str = ""
    prompt: str = ""


@dataclass(frozen=True, slots=True)
class Change(Record):
    """A turn that changed the file, and the prompt behind it; both by the id of their event."""

    SPARSE = True

    at: str
    agent_id: str
    session: str
    turn: str
    prompt: str = ""
    prompt_id: str = ""


@dataclass(frozen=True, slots=True)
class Touch(Record):
    """A session that changed the file by a hook's account, which is there before its transcript is read."""

    SPARSE = True

    agent_id: str
    session: str
    edits: int
    last: str
    prompt: str = ""


@dataclass(frozen=True, slots=True)
class Committed(Record):
    """A git commit with the file in it, and the sessions that had changed its files."""

    SPARSE = True

    commit: str
    at: str
    subject: str
    author: str = ""
    sessions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Named(Record):
    """A memory that names the file."""

    id: str
    kind: str
    agent_id: str
    at: str
    text: str


@dataclass(frozen=True, slots=True)
class Knower(Record):
    """Somebody who knows the file: how many of its changes were theirs, in how many sessions, and when last."""

    agent_id: str
    changes: int
    sessions: int
    last: str


@dataclass(frozen=True, slots=True)
class Story(Record):
    """One file; what nothing is known of is left out."""

    SPARSE = True

    path: str
    holders: tuple[Work, ...]
    blocks: tuple[Block, ...]
    memories: tuple[Named, ...]
    changes: tuple[Change, ...]
    touched: tuple[Touch, ...]
    commits: tuple[Committed, ...]
    ask: tuple[Knower, ...]

    def short(self, most: int) -> Story:
        """Return it with so many entries of each part at most."""
        parts = (self.holders, self.blocks, self.memories, self.changes, self.touched, self.commits, self.ask)
        return Story(self.path, *(part[:most] for part in parts))  # type: ignore[arg-type]

    def sections(self) -> Iterator[Section]:
        """Yield the story in words, what matters before the next edit first."""
        name = safe(self.path)
        parts = (
            ("at work now", [work.line() for work in self.holders]),
            ("decided and found out", [memory.text for memory in self.memories]),
            ("touched lately", [_touched(touch) for touch in self.touched]),
            ("why it changed, newest first", [_changed(change) for change in self.changes]),
            ("commits", [_committed(commit) for commit in self.commits]),
            ("refused before", [_blocked(block) for block in self.blocks]),
            ("whom to ask", [_knower(one) for one in self.ask]),
        )
        yield from (Section(f"{name}, {title}", lines, len(lines)) for title, lines in parts)


def story(reading: Reading, place: Place, wanted: tuple[str, str], now: Now) -> Story:
    """Return what is known about a file or folder, which is named by its key and scope as a lease's."""
    path = scopes.tail(wanted[0])
    is_folder = wanted[1] == scopes.FOLDER
    changes = sessions.changes(reading.connection, path, _CHANGES, is_folder=is_folder)
    told = {(agent, name) for _, _, _, agent, name, _ in changes}
    return Story(
        path,
        tuple(_holders(reading, wanted, now)),
        tuple(islice(_blocks(reading, wanted), MOST)),
        tuple(_memories(reading, place, path, now)),
        tuple(_why(reading, changes)),
        tuple(touch for touch in _touches(reading, wanted) if (touch.agent_id, touch.session) not in told),
        tuple(islice(_commits(reading, path, is_folder), MOST)),
        tuple(_ask(changes)),
    )


def _holders(reading: Reading, wanted: tuple[str, str], now: Now) -> Iterator[Work]:
    """Yield who holds it, then who is on the same file in another worktree."""
    if not holding.is_laid(reading.connection):
        return
    held = [lease for lease in holding.overlapping(reading.connection, *wanted) if lease.left(now) > 0]
    yield from sorted_by_session(reading.connection, held, now)
    apart = holding.elsewhere(reading.connection, [wanted], now)
    yield from sorted_by_session(reading.connection, apart, now, elsewhere=True)


def _touches(reading: Reading, wanted: tuple[str, str]) -> Iterator[Touch]:
    """Yield the sessions that hooks saw changing the file, with what each was last asked."""
    if not holding.is_laid(reading.connection):
        return
    is_folder = wanted[1] == scopes.FOLDER
    for agent, session, count, last in intents.touches(reading.connection, wanted[0], MOST, is_folder=is_folder):
        prompt, _ = intents.prompt_of(reading.connection, agent, session)
        yield Touch(agent, session, count, timestamp(last), quoted(prompt, _SHOWN))


def _commits(reading: Reading, path: str, is_folder: bool) -> Iterator[Committed]:
    """Yield the commits that git's hook told of, newest first, with the file or something below the folder in them."""
    if COORDINATION not in reading.refs():
        return
    events = reading.walk(reading.spans(reading.tip(COORDINATION)), ("commit",))
    for event in islice(events, LOOKED):
        body = event.body or {}
        files = [str(name) for name in body.get("files", ())]
        if path in files or (is_folder and any(path == "." or name.startswith(f"{path}/") for name in files)):
            sessions_ = tuple(who(str(one.get("agent")), str(one.get("session"))) for one in body.get("sessions", ()))
            subject = quoted(str(body.get("summary", "")).partition(": ")[2], _SHOWN)
            commit, author = str(body.get("commit", "")), str(body.get("author", ""))
            yield Committed(commit, timestamp(event.happened_at), subject, author, sessions_)


def _blocks(reading: Reading, wanted: tuple[str, str]) -> Iterator[Block]:
    """Yield refusals over the file, newest first: those not yet told in the log, then those that are."""
    waiting = outbox.waiting(reading.connection) if holding.is_laid(reading.connection) else []
    for told in reversed(waiting):
        if told["kind"] == outbox.CONTENDED and _is_over(told["body"], wanted):
            yield _block(told["agent"], told["at"], told["body"])
    if COORDINATION not in reading.refs():
        return
    events = reading.walk(reading.spans(reading.tip(COORDINATION)), (outbox.CONTENDED,))
    for event in islice(events, LOOKED):
        if event.body and _is_over(event.body, wanted):
            yield _block(event.actor, event.happened_at, event.body)


def _is_over(body: dict[str, Any], wanted: tuple[str, str]) -> bool:
    """Tell whether a refusal was about the file, something below the folder, or something that holds the file.

    In which worktree does not matter. An event does not tell the scope of what was refused: its name has to.
    """
    path, scope = scopes.tail(wanted[0]), wanted[1]
    refused = [body["about"]] if body.get("about") else body.get("resources", ())
    for resource in map(scopes.tail, map(str, refused)):
        wide = scopes.GLOB if scopes.is_magic(resource) else scopes.FOLDER
        if resource == path or scopes.overlap(path, scope, resource, wide):
            return True
    return False


def _block(agent: str, at: int, body: dict[str, Any]) -> Block:
    return Block(
        timestamp(at),
        agent,
        str(body.get("session", "")),
        str(body.get("holder", "")),
        str(body.get("holder_session", "")),
        int(body.get("count", 1)),
        str(body.get("purpose", "")),
        str(body.get("prompt", "")),
    )


def _memories(reading: Reading, place: Place, path: str, now: Now) -> Iterator[Named]:
    """Yield the active memories that name the file: by its whole path first, then by its name alone."""
    name = path.rpartition("/")[2]
    if path == ".":
        return  # All of them are about the project.
    seen, found = reading.spans(place), dict[int, float]()
    for query in dict.fromkeys((path, name)):
        found |= ranking.find(reading, seen, query, Filter(kinds=_KINDS), MOST, now.wall)
    events = reading.load(list(found))
    about = [event for event in events.values() if _names(text_of(event.body or {}), path)]
    about.sort(key=lambda event: (path not in text_of(event.body or {}), -event.happened_at))
    for event in about[:MOST]:
        yield Named(event.id, event.kind, event.actor, timestamp(event.happened_at), sentence(event))


def _names(text: str, path: str) -> bool:
    """Tell whether a text names a file: by its path, the end of it, or a longer path with it at its end."""
    if _standing(text, path):
        return True
    name, own = path.rpartition("/")[2], f"/{path.casefold()}"
    for found in islice(_standing(text, name), _CHANGES):
        before = re.split(r"[^\w./\\@-]", text[max(0, found.start() - _SHOWN) : found.start()])[-1]
        said = re.sub(r"^(?:\.{0,2}/)+", "", (before + found[0]).replace("\\", "/").casefold())
        if own.endswith(f"/{said}"):
            return True
    return False


def _standing(text: str, words: str) -> list[re.Match[str]]:
    """Return where words stand by themselves in a text, in whatever case."""
    return list(re.finditer(rf"(?<![\w-]){re.escape(words)}(?![\w-])", text, re.IGNORECASE))


def _why(reading: Reading, changes: Sequence[tuple[Any, ...]]) -> Iterator[Change]:
    """Yield the newest changes, one for each prompt behind them."""
    known: set[int] = set()
    told = 0
    for turn, session, n, agent, name, at in changes:
        prompt, text = _prompt(reading, session, n)
        if prompt and prompt in known:
            continue
        known.add(prompt)
        rows = {row[0]: row[1].hex() for row in sessions.rows(reading.connection, [turn, prompt])}
        when = timestamp(at) if at is not None else ""
        yield Change(when, agent, name, rows.get(turn, ""), text, rows.get(prompt, ""))
        told += 1
        if told >= MOST:
            return


def _prompt(reading: Reading, session: int, n: int) -> tuple[int, str]:
    """Return the turn with the last prompt before a place that says something, and what it says; (0, '') for none."""
    turns = sessions.asked_before(reading.connection, session, n, _BACK)
    said = sessions.bodies(reading.connection, turns)
    texts = [(turn, said_in(said[turn])) for turn in turns if turn in said]
    found = next(((turn, text) for turn, text in texts if not intents.filler(text)), texts[0] if texts else (0, ""))
    return found[0], quoted(found[1], _SHOWN)


def _ask(changes: Sequence[tuple[Any, ...]]) -> Iterator[Knower]:
    counts = Counter(agent for _, _, _, agent, _, _ in changes)
    for agent, count in counts.most_common(5):
        theirs = [row for row in changes if row[3] == agent]
        times = [row[5] for row in theirs if row[5] is not None]
        yield Knower(agent, count, len({row[4] for row in theirs}), timestamp(max(times)) if times else "")


def _changed(change: Change) -> str:
    asked = f'asked: "{change.prompt}"' if change.prompt else "no prompt is known"
    return f"- {_when(change.at)} {who(change.agent_id, change.session)} [{change.turn[:8]}] {asked}"


def _touched(touch: Touch) -> str:
    times = "once" if touch.edits == 1 else f"{touch.edits} times"
    asked = f', asked: "{touch.prompt}"' if touch.prompt else ""
    return f"- {_when(touch.last)} {who(touch.agent_id, touch.session)} {times}{asked}"


def _committed(commit: Committed) -> str:
    by = f", after {', '.join(commit.sessions[:3])}" if commit.sessions else ""
    return f"- {_when(commit.at)} {commit.commit[:12]} by {safe(commit.author)}{by}: {commit.subject}"


def _blocked(block: Block) -> str:
    times = f", {block.count} times" if block.count > 1 else ""
    about = block.purpose or block.prompt
    why = f', who was at: "{quoted(about, _SHOWN)}"' if about else ""
    wanting, holder = who(block.agent_id, block.session), who(block.holder, block.holder_session)
    return f"- {_when(block.at)} {wanting} was refused{times}: held by {holder}{why}"


def _knower(one: Knower) -> str:
    last = f", last {_when(one.last)}" if one.last else ""
    return f"- {safe(one.agent_id)}: {counted(one.changes, 'change')} in {counted(one.sessions, 'session')}{last}"


def _when(text: str) -> str:
    return text[:16].replace("T", " ") or "some day"
