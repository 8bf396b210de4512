"""Pages about agents' sessions: what was said in them, how they were taken in, and the schedule that does it.

A turn is one block: its place, who spoke, what was said; the turn that answers a question has a mark. As in `pages`,
nothing is shown that the JSON does not hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from rich.console import RenderableType
from rich.text import Text

from bede.identity import counted
from bede.turns import text_of
from bede_cli.layout import (
    BAD,
    GOOD,
    ID,
    KIND,
    NAME,
    QUIET,
    Body,
    columns,
    definitions,
    indented,
    plain,
    sentence,
    text,
    unbroken,
)

#: Who is not worth a colour: nobody said it.
_UNSAID = frozenset(("injected", "notification", "interrupt", "compact-summary"))


def passages(body: Body) -> Iterator[RenderableType]:
    """Yield what was found in sessions: each passage under its agent and session, the turn that answers marked."""
    for number, passage in enumerate(body.get("passages", ())):
        if number or body["results"]:
            yield Text()
        turns = passage["turns"]
        yield _heading(passage, turns, f"#{passage['rank']}")
        yield from _turns(turns, passage["best"])
    if body.get("passages_left_out"):
        yield text(f"{counted(body['passages_left_out'], 'more passage')} left out; see --budget", QUIET)


def recent(body: Body) -> Iterator[RenderableType]:
    """Show the newest turns, those that follow one another in a session under one heading."""
    runs = groupby(body["turns"], lambda turn: (turn["agent"], turn["session"]))
    for number, (_, run) in enumerate(runs):
        turns = list(run)
        if number:
            yield Text()
        yield _heading(turns[0], turns)
        yield from _turns(turns)
    if body["left_out"]:
        yield text(f"{counted(body['left_out'], 'older turn')} left out; see --budget", QUIET)
    elif not body["turns"]:
        yield text("no turns; 'bede ingest' takes them in, or tells whose there are", QUIET)


def _heading(told: Body, turns: Sequence[Body], *marks: str) -> Text:
    """Tell whose turns these are and since when, which is the first time among them: not every agent writes one."""
    at = next((plain(turn["at"]) for turn in turns if turn.get("at")), "")
    where = f"on {told['branch']}" if told.get("branch") else ""
    rest = "".join(f"  {part}" for part in (at, where, *marks) if part)
    return sentence((told["agent"], NAME), "  ", (told["session"], ID), (rest, QUIET))


def _turns(turns: Iterable[Body], best: int | None = None) -> Iterator[RenderableType]:
    rows = []
    for turn in turns:
        by = turn["by"]
        style = GOOD if by == "human" else QUIET if by in _UNSAID else KIND
        place = sentence((">" if turn["turn"] == best else " ", BAD), f"{turn['turn']:>4}")
        rows.append((place, text(by, style), text(turn["text"].strip("\n"), QUIET if by in _UNSAID else "")))
    if rows:
        yield columns(rows, fixed=2)


def ingest(body: Body) -> Iterator[RenderableType]:
    """Tell what came in and what did not; or what is stored."""
    if body["outcome"] == "status":
        yield from _stored(body)
        return
    did = "would read" if body["outcome"] == "planned" else "took in"
    turns = ", ".join(f"{count} {name}" for name, count in body["turns"].items())
    if body["turns"].keys() & {"new", "revised"}:
        yield sentence((f"{did} ", GOOD), f"{counted(body['sessions'], 'session')}; turns: {turns}")
    else:
        yield text(f"nothing new; turns: {turns}" if turns else "nothing new", QUIET)
    files = ", ".join(f"{count} {name}" for name, count in body["files"].items())
    yield text(f"files: {files}" if files else f"nothing to read of {plain(list(body['agents']))}", QUIET)
    for reason, count in body["problems"].items():
        yield _problem(reason, count)
    for item in body["unreadable"]:
        yield sentence(("unreadable ", BAD), item["message"])
    yield from _unclaimed(body)
    if body.get("embedded"):
        yield text(f"{counted(body['embedded'], 'window')} got a vector", QUIET)
    yield from warnings(body)


def _unclaimed(body: Body) -> Iterator[RenderableType]:
    """Tell which files are nobody's, and how each comes in; a path is there to be copied, and never broken."""
    for item in body.get("unclaimed", ()):
        files = counted(item["files"], "file")
        if item["cwd"]:
            why = ", which is gone" if item.get("gone") else ", which no registered project holds"
            yield unbroken((f"{files} of ", QUIET), (item["cwd"], NAME), (why, QUIET))
        else:
            yield text(f"{files} without a folder: 'bede ingest --path FILE' takes one in here", QUIET)
        yield from (unbroken("    ", path) for path in item["paths"])
        if more := item["files"] - len(item["paths"]):
            yield text(f"    … and {more} older", QUIET)
    if body.get("unclaimed_more"):
        yield text(f"and files of {counted(body['unclaimed_more'], 'more folder')}", QUIET)
    if any(item.get("gone") for item in body.get("unclaimed", ())):
        yield text("'bede ingest --path FILE' takes one of a folder that is gone in here", QUIET)
    if any(item["cwd"] and not item.get("gone") for item in body.get("unclaimed", ())):
        yield text("'bede init' and 'bede ingest' in such a folder, or above it, take them in", QUIET)


def warnings(body: Body) -> Iterator[RenderableType]:
    """Show what went without something, though nothing failed."""
    for line in body.get("warnings", ()):
        yield sentence(("warning ", "yellow"), line)


def _problem(reason: str, count: int) -> Text:
    """Tell what was not taken in; what has no raw copy was, and only cannot be read again once its file is gone."""
    if reason == "no raw copy of a database":
        return text(f"{counted(count, 'database')} read, but not copied: --keep-raw copies files of text", QUIET)
    return sentence(("skipped ", BAD), f"{counted(count, 'record')}: {reason}")


def turn(said: Body) -> Iterator[RenderableType]:
    """Show a turn as it is searched: who spoke, with which model, what was said and done."""
    facts = {"spoken by": said.get("by", ""), "model": said.get("model", "")}
    yield definitions((name, value) for name, value in facts.items() if value)
    yield Text()
    yield text(text_of(dict(said)).strip("\n"))


def _stored(body: Body) -> Iterator[RenderableType]:
    if not body["stored"]:
        yield text("no session is stored yet; 'bede ingest' takes the project's in, and tells of all others", QUIET)
        return
    names = ("agent", "model", "sessions", "turns", "windows", "waiting")
    head = [text(name, QUIET) for name in names]
    rows = [[text(row[name], NAME if name == "agent" else "") for name in names] for row in body["stored"]]
    yield columns([head, *rows], fixed=6)
    for item in body.get("vectors", ()):
        yield text(f"{counted(item['windows'], 'window')} with a vector of {item['model']}", QUIET)


def schedule(body: Body) -> Iterator[RenderableType]:
    """Tell what wakes `ingest` here, how the last run went, and each step that was or would be done."""
    if body["outcome"] == "absent" and not body["steps"]:
        yield text("nothing is scheduled here; 'bede schedule install' does it", QUIET)
    elif body["using"]:
        state = GOOD if body["outcome"] != "inactive" else BAD
        done = f"would be {body['outcome']}" if body["dry_run"] else body["outcome"]
        yield sentence((done, state), f": every {body['every']} by {body['using']}: {body['command']}")
    else:
        yield text("would do" if body["dry_run"] else body["outcome"], GOOD)
    for warning in body["warnings"]:
        yield sentence(("warning: ", "yellow"), warning)
    for step in body["steps"]:
        yield sentence((f"{step['does']} ", KIND), step["path"] or step["command"])
        if step["text"]:
            yield from indented(text(step["text"].rstrip("\n"), QUIET))
    if body["last_run"]:
        yield from _last(body["last_run"])
    if body["next_run_at"]:
        yield sentence(("next run: ", QUIET), plain(body["next_run_at"]))
    yield sentence(("log: ", QUIET), body["log"])


def _last(run: Body) -> Iterator[RenderableType]:
    turns = ", ".join(f"{count} {name}" for name, count in (run.get("turns") or {}).items()) or "nothing new"
    said = run.get("message") or f"turns: {turns}"
    yield sentence(("last run: ", QUIET), f"{plain(run.get('at', ''))}, {run.get('outcome', '')}; {said}")
