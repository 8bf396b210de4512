"""Pages for people, one a result: compact, in the manner of git. What has none of its own gets the generic page.

A page is made from the very object that is written as JSON, so that it can never tell anything else. Colour carries
meaning, never information: every page reads the same without it.
"""

from __future__ import annotations

import io
import shlex
from collections.abc import Callable, Iterator

from rich.cells import cell_len
from rich.console import Console, RenderableType, detect_legacy_windows
from rich.text import Text

from bede.identity import counted
from bede_cli import sittings, together
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
    flat,
    generic,
    indented,
    plain,
    sentence,
    spent,
    text,
    unbroken,
    whole,
)

Page = Callable[[Body], Iterator[RenderableType]]
#: Most lines shown of a failed command's output.
_TAIL = 5
_SHORT_KINDS = {
    "task_handoff": "handoff",
    "status_update": "status",
    "discovered_constraint": "constraint",
    "fleet_member": "fleet",
}


def render(body: Body, *, width: int | None, coloured: bool) -> str:
    """Return the page of a result, with colour codes only where they may be shown."""
    coloured = coloured and not detect_legacy_windows()
    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=width,
        force_terminal=coloured,
        no_color=not coloured,
        color_system="auto" if coloured else None,
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
    )
    page = PAGES.get(str(body.get("schema", "")).partition("/")[0], generic)
    for part in page(body):
        console.print(part, soft_wrap=isinstance(part, Text) and bool(part.no_wrap))
    return "".join(line.rstrip() + "\n" for line in buffer.getvalue().split("\n")[:-1])


def _kind(event: Body) -> Text:
    kind = str(event.get("kind", ""))
    return text(_SHORT_KINDS.get(kind, kind), KIND)


# Lists of events.


def _gist(event: Body) -> Text:
    task = event.get("task_id")
    return sentence(*([(f"{task}: ", QUIET)] if task else []), str(event.get("summary", "")))


def _events(events: list[Body]) -> Iterator[RenderableType]:
    """Yield events, one a line: id, time, agent, kind, task and gist."""
    rows = [
        (text(event["id"], ID), text(event["at"], QUIET), text(event["agent_id"]), _kind(event), _gist(event))
        for event in events
    ]
    if rows:
        yield columns(rows, fixed=4)


def log(body: Body) -> Iterator[RenderableType]:
    """Show events, or operations, one a line."""
    yield from _events(body["events"])
    if body["operations"]:
        yield columns([_operation(entry) for entry in body["operations"]], fixed=4)
    if body["cursor"]:
        yield text(f"more with --cursor {body['cursor']}", QUIET)


def _operation(entry: Body) -> tuple[Text, ...]:
    moves = Text("\n").join(
        sentence((move["ref"], NAME), " ", (move["old"] or "new", ID), " → ", (move["new"] or "deleted", ID))
        for move in entry["moves"]
    )
    told = {name: value for name, value in entry["note"].items() if value not in ("", None)}
    number, said = text(f"#{entry['operation']}", ID), moves or text(told, QUIET)
    return number, text(entry["at"], QUIET), text(entry["agent_id"]), text(entry["verb"], KIND), said


def search(body: Body) -> Iterator[RenderableType]:
    """Show each memory with all it says, then what was said in sessions, a blank line between two."""
    for number, memory in enumerate(body["results"]):
        if number:
            yield Text()
        yield from _memory(memory)
    if not body["results"] and not body.get("passages"):
        left = body["left_out"] or body.get("passages_left_out")
        yield text("the budget is too small for any of what was found" if left else "nothing found", QUIET)
    yield from sittings.passages(body)
    if body["left_out"]:
        yield text(f"{counted(body['left_out'], 'more result')} left out by the budget", QUIET)
    if body["cursor"]:
        yield text(f"more with --cursor {body['cursor']}", QUIET)
    yield from sittings.warnings(body)


def _memory(memory: Body) -> Iterator[RenderableType]:
    ended = memory["status"] != "active"
    state = [sentence("  ", (memory["status"], BAD))] if ended else []
    task = [sentence("  ", (memory["task_id"], NAME))] if memory.get("task_id") else []
    who = f"  {plain(memory['at'])} by {memory['agent_id']}"
    yield sentence((memory["id"], ID), "  ", _kind(memory), *task, *state, (who, QUIET))
    yield from indented(text(memory.get("summary", "")), *_details(memory))


def _details(memory: Body) -> Iterator[RenderableType]:
    """Yield what a memory says besides its summary."""
    if memory.get("rationale"):
        yield sentence(("because ", QUIET), memory["rationale"])
    yield from (sentence(("- ", QUIET), learning) for learning in memory.get("learnings", ()))
    if memory.get("handoff_note"):
        yield sentence(("next: ", QUIET), memory["handoff_note"])
    if memory.get("output") and memory.get("exit_status"):
        yield from (sentence(("| ", QUIET), line) for line in memory["output"].strip().split("\n")[-_TAIL:])
    if memory.get("left_out"):
        yield text(f"[{memory['left_out']:,} characters left out by the budget; 'bede show' has them]", QUIET)
    marks = [f"#{tag}" for tag in memory.get("tags", ())] + list(memory.get("labels", ()))
    if marks:
        yield text(" ".join(marks), KIND)


# Where things stand.


def status(body: Body) -> Iterator[RenderableType]:
    """Show the branch and the memory's health, what fails, and each task's newest status."""
    versions = body["versions"]
    yield sentence((body["name"], NAME), " on ", (body["branch"], GOOD), " at ", (body["head"], ID))
    yield text(body["health"], QUIET)
    yield _sessions(body["sessions"], body["newest_session"])
    if versions["access"] != "full" or versions["upgrade_hint"]:
        why = versions["upgrade_hint"] or "nothing may be written"
        yield sentence((versions["access"].replace("_", " "), BAD), f": {why}")
    for title, memories, style in (("failing", body["blockers"], BAD), ("tasks", body["tasks"], NAME)):
        if memories:
            yield from (Text(), text(title, style))
            yield from indented(columns([_standing(memory) for memory in memories], fixed=3), by=2)
    if body["more"]:
        yield text("there are more; see --limit", QUIET)


def _sessions(count: int, newest: Body | None) -> Text:
    """Tell how many sessions were taken in, and which was the last."""
    if newest is None:
        return text("no sessions; 'bede ingest' takes in what agents left on disk", QUIET)
    told = (f"{counted(count, 'session')} taken in, last ", QUIET)
    at = (f"  {plain(newest['at'])}", QUIET)
    return unbroken(told, (newest["agent"], NAME), "  ", (newest["session"], ID), at)


def _standing(memory: Body) -> tuple[Text, ...]:
    said = text(memory.get("summary", ""))
    if memory.get("handoff_note"):
        said.append_text(sentence(("\nnext: ", QUIET), memory["handoff_note"]))
    return text(memory.get("task_id", ""), NAME), text(memory["at"], QUIET), text(memory["agent_id"]), said


def context(body: Body) -> Iterator[RenderableType]:
    """Show the very text that an agent receives."""
    yield text(body["text"])
    yield spent(body)


def auto(body: Body) -> Iterator[RenderableType]:
    """Show what would be recalled."""
    yield text(body["recall"]) if body["recall"] else text("nothing to recall", QUIET)


def show(body: Body) -> Iterator[RenderableType]:
    """Show one event whole, in the manner of git."""
    state = body["status"].replace("_", " ")
    style = GOOD if state == "active" else BAD
    yield sentence(("event ", ID), whole(body["id"], ID), "  ", _kind(body), "  ", (state, style))
    time = f"{body['at']} ({plain(body['at'])})" if body["at"] else ""
    facts = {"agent": body["agent_id"], "time": time, "parents": body["parents"]}
    facts |= {"branches": body["branches"], "ended by": body["ended_by"], "source": body["source"]}
    yield definitions((name, value) for name, value in facts.items() if value)
    yield Text()
    if body["purged"]:
        yield text("what it said was purged", BAD)
    elif body["kind"] == "turn":
        yield from sittings.turn(body["body"])
    elif body["body"]:
        yield from indented(*generic(_typed(body["body"])))


def _typed(said: Body) -> Body:
    """Return what an event says with its command as one types it."""
    command = said.get("command")
    return {**said, "command": shlex.join(command)} if isinstance(command, list) else said


def doctor(body: Body) -> Iterator[RenderableType]:
    """Show one check a line, and below a bad one what to do."""
    styles = {"ok": GOOD, "warn": "yellow", "fail": BAD}
    rows = []
    for check in body["checks"]:
        said = text(check["detail"])
        if check["hint"]:
            said.append_text(sentence(("\nhint: ", KIND), check["hint"]))
        rows.append((text(check["outcome"], styles.get(check["outcome"], "")), text(check["name"], NAME), said))
    yield columns(rows, fixed=2)


def config(body: Body) -> Iterator[RenderableType]:
    """Show one setting a line and what it means, and on demand the file or variable that it comes from."""
    for item in body["settings"]:
        value = f" = {plain(item['value'])}" if item["value"] != "" else " is not set"
        origin = item["origin"] if body["origins"] and item["origin"] else item["layer"]
        yield sentence((item["key"], NAME), value, (f"  ({origin})", KIND))
        yield from indented(text(item["description"], QUIET))
    if body["written"]:
        yield sentence(("wrote ", QUIET), body["written"])


def projects(body: Body) -> Iterator[RenderableType]:
    """Show one project a line, with its UUID and its root as they are typed."""
    found = body["projects"]
    width = max((cell_len(item["name"]) for item in found), default=0)
    if body["forgotten"]:
        yield unbroken(("forgot ", QUIET), body["forgotten"])
    for item in found:
        name = flat(item["name"], NAME)
        name.pad_right(width - name.cell_len)
        seen = text(f"seen {plain(item['last_seen_at'])}", QUIET) if item["found"] else text("is gone", BAD)
        yield unbroken(name, "  ", (item["project_id"], ID), "  ", item["root"], "  ", seen)
    if not found:
        yield text("no project is registered; 'bede init' makes one", QUIET)


def capabilities(body: Body) -> Iterator[RenderableType]:
    """Show an overview: which versions, which verbs and for whom, kinds and exit statuses; no schema."""
    verbs: dict[str, list[str]] = {}
    for verb in body["verbs"]:
        verbs.setdefault(verb["toolset"] or "no tools", []).append(verb["name"])
    yield definitions({**body["versions"], **body["formats"]}.items())
    yield from (Text(), text("verbs, by the toolset that offers them over MCP", NAME))
    yield from indented(definitions((name, ", ".join(verbs[name])) for name in sorted(verbs)), by=2)
    yield from (Text(), text("called like verbs, and spoken with as others agreed", NAME))
    yield from indented(definitions((door["name"], door["summary"]) for door in body["doors"]), by=2)
    yield from (Text(), text("kinds of memory", NAME))
    yield from indented(text(", ".join(body["kinds"])), by=2)
    yield from (Text(), text("exit statuses", NAME))
    names = ("exit_status", "code", "meaning")
    rows = [[text(item[name]) for name in names] for item in body["exit_statuses"]]
    yield from indented(columns(rows, fixed=2), by=2)
    yield Text()
    many = f"{len(body['settings'])} settings: 'bede config'"
    yield text(f"{many}; all of this with JSON Schemas: --json; all about a verb: 'bede help VERB'", QUIET)


# Branches.


def branches(body: Body) -> Iterator[RenderableType]:
    """Show one branch a line, a star at the current one."""
    yield columns([_branch(branch) for branch in body["branches"]], fixed=4)


def _branch(branch: Body) -> tuple[Text, ...]:
    here = branch["current"]
    apart = ", ".join(f"{branch[word]} {word}" for word in ("ahead", "behind") if branch[word])
    name = sentence("* " if here else "  ", (branch["name"], GOOD if here else ""))
    notes = sentence((f"[{apart}] " if apart else "", KIND), branch["summary"])
    return name, text(branch["head"], ID), text(branch["at"], QUIET), text(branch["agent_id"]), notes


def diff(body: Body) -> Iterator[RenderableType]:
    """Show what each side has of its own, then where decisions and facts differ."""
    first, second = body["a"], body["b"]
    if body["equal"]:
        yield sentence((first["ref"], NAME), " and ", (second["ref"], NAME), " see the same")
        return
    yield sentence("parted at ", (body["base"], ID))
    for sign, side in (("<", first), (">", second)):
        own = f"  {counted(side['events'], 'event')} of its own"
        yield sentence((f"{sign} ", NAME), (side["ref"], NAME), " ", (side["head"], ID), own)
        more = side["events"] - len(side["newest"])
        rest = [text(f"… and {more} older", QUIET)] if more > 0 else []
        yield from indented(*_events(side["newest"]), *rest, by=2)
    for change in body["differences"]:
        yield from _difference(change)


def _difference(change: Body) -> Iterator[RenderableType]:
    clash = "  CONFLICT" if change["conflict"] else ""
    yield sentence((f"{change['kind']} ", KIND), (change["key"], NAME), (clash, BAD))
    sides = [(mark, change[side]) for mark, side in (("  =", "base"), ("  <", "a"), ("  >", "b"))]
    yield columns([(text(mark, QUIET), text(value)) for mark, value in sides if value is not None], fixed=1)


def merge(body: Body) -> Iterator[RenderableType]:
    """Show what came in, and how each conflict was settled."""
    branch = (body["branch"], NAME)
    if body["outcome"] == "unchanged":
        yield sentence(branch, " has all of ", (body["merged"], ID), " already")
        return
    came = f" {'would be ' if body['dry_run'] else ''}{body['outcome']}: {counted(body['events'], 'event')} of "
    reached = sentence(" to ", (body["head"], ID)) if body["head"] else ""
    yield sentence(branch, came, (body["merged"], ID), ", from ", (body["before"], ID), reached)
    if body["taken"]:
        yield sentence(("taken from it: ", QUIET), ", ".join(body["taken"]))
    for item in body["resolved"]:
        values = f" = {plain(item['value'])}"
        yield sentence((f"{item['kind']} ", KIND), (item["key"], NAME), values, (f"  settled: {item['taken']}", QUIET))


def rollback(body: Body) -> Iterator[RenderableType]:
    """Show what goes out of sight, and whose it was."""
    branch = (body["branch"], NAME)
    if body["outcome"] == "unchanged":
        yield sentence(branch, " is there already: ", (body["head"], ID))
        return
    planned = body["outcome"] == "planned"
    did, goes = (" would go back from ", "would go") if planned else (" went back from ", "went")
    yield sentence(branch, did, (body["before"], ID), " to ", (body["head"], ID))
    yield from _sight(body, f"{goes} out of sight")
    if not planned:
        yield text("'bede undo' brings them back", QUIET)


def _sight(sight: Body, does: str) -> Iterator[RenderableType]:
    """Tell how many events go out of sight or come back, whose they are, and the newest of them."""
    agents = ", ".join(f"{agent} {count}" for agent, count in sight["by_agent"].items())
    yield sentence(f"{counted(sight['events'], 'event')} {does}", (f"  ({agents})", QUIET))
    more = sight["events"] - len(sight["newest"])
    rest = [text(f"… and {more} older", QUIET)] if more > 0 else []
    yield from indented(*_events(sight["newest"]), *rest, by=2)


def undo(body: Body) -> Iterator[RenderableType]:
    """Show which operation was taken back, where each branch is now, and what it sees less or more for it."""
    planned = body["outcome"] == "planned"
    did = "would take back" if planned else "took back"
    goes = {"gone": "would go out of sight" if planned else "went out of sight"}
    goes |= {"back": "would come back" if planned else "came back"}
    yield sentence(f"{did} ", (f"#{body['operation']}", ID), f", {body['verb']} by {body['agent_id']}")
    for item in body["restored"]:
        before, head = (item["before"] or "none", ID), (item["head"] or "none", ID)
        yield sentence("  ", (item["branch"], NAME), " ", before, " → ", head)
        for side, does in goes.items():
            if item[side]["events"]:
                yield from indented(*_sight(item[side], does), by=2)


def fork(body: Body) -> Iterator[RenderableType]:
    """Tell where the branch begins."""
    words = {"created": " begins at ", "unchanged": " is there already, at ", "deleted": " is gone; it was at "}
    here = " and is checked out" if body["checked_out"] else ""
    yield sentence((body["branch"], NAME), words.get(body["outcome"], f" {body['outcome']} "), (body["head"], ID), here)


def checkout(body: Body) -> Iterator[RenderableType]:
    """Tell which branch this worktree is on."""
    before = f" (was {body['before']})" if body["outcome"] != "unchanged" else " already"
    yield sentence("on ", (body["branch"], GOOD), " at ", (body["head"], ID), (before, QUIET))
    if body["overridden_by"]:
        yield sentence(("but ", BAD), body["overridden_by"], " goes before it")


# What was done, and whether it holds.


def init(body: Body) -> Iterator[RenderableType]:
    """Tell where the memory lies."""
    made = "made its memory" if body["outcome"] == "created" else "has its memory already"
    yield sentence((body["name"], NAME), f" {made}: {body['database']}")
    if body["warning"]:
        yield sentence(("warning: ", "yellow"), body["warning"])


def store(body: Body) -> Iterator[RenderableType]:
    """Tell what was stored, one memory a line, and what each ended."""
    for item in body["stored"]:
        ends = "".join(f"; {word} {plain(list(item[word]))}" for word in ("superseded", "invalidated") if item[word])
        secret = "; secrets were redacted" if item["redacted"] else ""
        what = sentence("stored ", (item["id"], ID), " ", _kind(item), " ", (item["task_id"], NAME))
        what.rstrip()
        yield sentence(what, " on ", (body["branch"], GOOD), f"{ends}{secret}")


def anchor(body: Body) -> Iterator[RenderableType]:
    """Show the hash in full length, since it is there to be kept."""
    scope = f" with {counted(body['events'], 'event')}, project {body['project_id']}"
    yield sentence("operation ", (f"#{body['operation']}", ID), scope)
    yield whole(body["hash"], NAME)


def purge(body: Body) -> Iterator[RenderableType]:
    """Tell what says nothing any more, or would."""
    for word, ids in (("would purge", "purged"), ("purged already", "already")):
        told = "purged" if body["outcome"] == "purged" and ids == "purged" else word
        yield from (sentence(f"{told} ", (identity, ID)) for identity in body[ids])
    if body["outcome"] == "planned":
        yield text("nothing was destroyed: --yes does it, and cannot be undone", QUIET)


def verify(body: Body) -> Iterator[RenderableType]:
    """Show whether the history holds, and each thing that does not."""
    parts = [counted(body["events"], "event"), counted(body["operations"], "operation")]
    parts += [counted(body["branches"], "ref")]
    parts += [f"{body['purged']} purged"] if body["purged"] else []
    parts += ["the anchor fits"] if body["anchored"] and body["ok"] else []
    verdict = ("the history holds", GOOD) if body["ok"] else ("the history does NOT hold", BAD)
    yield sentence(verdict, f": {', '.join(parts)}; head ", (body["head"], ID))
    rows = [(text(item["table"], KIND), text(item["row"]), text(item["problem"], BAD)) for item in body["problems"]]
    if rows:
        yield columns(rows, fixed=2)
    if body["hint"]:
        yield text(body["hint"], QUIET)


#: A page for the results that have one; the others are generic.
PAGES: dict[str, Page] = {
    page.__name__: page
    for page in (
        anchor, auto, branches, capabilities, checkout, config, context, diff, doctor, fork, init, log, merge,
        projects, purge, rollback, search, show, status, store, undo, verify,
        sittings.ingest, sittings.recent, sittings.schedule,
        together.brief, together.bundle, together.exchange, together.lease, together.notice,
    )
}  # fmt: skip
PAGES |= dict.fromkeys(("attach", "detach", "install-hooks", "uninstall-hooks"), together.agents)
