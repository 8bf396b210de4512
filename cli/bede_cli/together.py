"""Pages about agents that share a project: leases, briefs, notices, what travels between machines, and installs.

As in `pages`, nothing is shown that the JSON does not hold. A path, a key, a command or a line of a difference is
there to be copied: it is never broken, and where it is too long for the terminal, the terminal breaks it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from bede.identity import counted
from bede.leases.telling import remaining
from bede_cli.layout import (
    BAD,
    GOOD,
    ID,
    KIND,
    NAME,
    QUIET,
    Body,
    columns,
    flat,
    indented,
    plain,
    sentence,
    spent,
    text,
    unbroken,
    whole,
)

_WARN = "yellow"
#: Longest word that a paragraph may be broken around; a longer one would itself be broken.
_WORD = 40
#: Widest path, and widest name of an agent in its session, that has a column.
_PATH = 32
_FENCE = re.compile(r"<(bede-memory [0-9a-f]+)>\n(.*)\n</\1>", re.DOTALL)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _verbatim(value: str, style: str = "") -> Iterator[Text]:
    """Yield the lines of a text as they are."""
    yield from (unbroken(whole(line, style)) for line in value.removesuffix("\n").split("\n"))


def _told(mark: str, style: str, said: str, by: int = 0) -> RenderableType:
    """Return a marked text, moved to the right and wrapped between words, unless one of them would be broken."""
    line = sentence((mark, style), whole(said))
    if all(cell_len(word) <= _WORD for word in said.split()):
        return next(indented(line, by=by))
    return unbroken(" " * by, line)


def _warnings(body: Body) -> Iterator[RenderableType]:
    yield from (_told("warning: ", _WARN, warning) for warning in body["warnings"])


# Leases.


def lease(body: Body) -> Iterator[RenderableType]:
    """Show one lease a line: its token, the path, who, for how long still, how many wait, and what for."""
    outcome, leases = body["outcome"], body["leases"]
    if outcome == "released":
        yield from (unbroken(("released ", GOOD), item["resource"]) for item in leases)
    elif outcome == "absent":
        yield text("nothing was held", QUIET)
    else:
        if outcome != "listed":
            yield sentence((outcome.replace("_", " "), GOOD), ", token ", (str(body["token"]), ID))
        yield from _leases(leases)
    if outcome == "listed" and not leases:
        yield text("nobody holds anything", QUIET)
    if body["elsewhere"]:
        yield text("the same in other worktrees", NAME)
        yield from _leases(body["elsewhere"])
    if body["queue"]:
        yield text("waiting", NAME)
        yield from (part for item in body["queue"] for part in _waiter(item))


def _leases(leases: Sequence[Body]) -> Iterator[RenderableType]:
    """Yield leases as columns, or each below its path where a path or a session's name is too long for one."""
    rows = [_lease(item) for item in leases]
    if all(max(path.cell_len, who.cell_len) <= _PATH for _, path, who, *_ in rows):
        if rows:
            yield columns(rows, fixed=2)
        return
    for token, path, *rest in rows:
        yield unbroken(token, "  ", path)
        yield from indented(columns([rest], fixed=1))


def _lease(item: Body) -> tuple[Text, ...]:
    path = item["resource"] + ("/" if item["scope"] == "folder" and item["resource"] != "." else "")
    queue = f", {item['waiting']} waiting" if item["waiting"] else ""
    still = sentence((f"{remaining(item['seconds_left'] * 1_000_000)} left", QUIET), (queue, KIND))
    token = whole(f"#{item['token']}", ID)
    return token, flat(path, NAME), _who(item), still, flat(item.get("purpose", ""))


def _who(item: Body) -> Text:
    """Return an agent in its session, whose name is whole: it is there to be typed after `--session`."""
    session = item.get("session", "")
    return flat(f"{item['agent_id']} ({session})" if session else item["agent_id"])


def _waiter(item: Body) -> Iterator[RenderableType]:
    since = text(f"came {plain(item['since'])}", QUIET)
    yield unbroken(_who(item), "  ", since, "  ", (", ".join(item.get("wanted", ())), NAME))
    if item.get("purpose"):
        yield from indented(flat(item["purpose"]))


# What is known, and what is told.


def brief(body: Body) -> Iterator[RenderableType]:
    """Show the very text that an agent receives, without the fence that keeps it apart from other words."""
    fenced = _FENCE.fullmatch(body["text"])
    yield whole(fenced[2] if fenced else body["text"])
    yield spent(body)


def notice(body: Body) -> Iterator[RenderableType]:
    """Show each notice under its id, resource, author and time; or what came in, or the document that goes out."""
    action, changed, left = body["action"], body["changed"], body["left_out"]
    if action == "post" or (action == "clear" and changed):
        yield text("posted" if action == "post" else "cleared", GOOD)
    elif action == "import":
        yield text(f"{counted(changed, 'notice')} came in or changed" if changed else "nothing new")
    elif action != "export" and not body["notices"] and not left:
        yield text("no notices", QUIET)
    for item in body["notices"]:
        yield from _notice(item)
    if body["written"]:
        yield unbroken(("wrote ", GOOD), body["written"])
    if body["document"] is not None:
        yield from _verbatim(json.dumps(body["document"], indent=2))
    if action == "list" and left:
        yield text(f"{counted(left['count'], 'more notice')} left out; see --budget", QUIET)
    yield from _warnings(body)


def _notice(item: Body) -> Iterator[RenderableType]:
    who = f"{item['author']}@{item['peer']}" if item.get("peer") else item["author"]
    trust = "  not trusted" if item.get("trusted") is False else ""
    event = f"  event {plain(item['event'])}" if item.get("event") else ""
    about = (_short(item["id"]), ID), "  ", (item["resource"], NAME), f"  {who}  "
    yield unbroken(*about, _lasting(item), (trust, BAD), (event, QUIET))
    yield from indented(whole(item.get("message", "")))


def _short(identity: str) -> str:
    """Return an id as far as it is typed: only the beginning of a random one, all of one that somebody chose."""
    origin, colon, rest = identity.rpartition(":")
    return f"{origin}{colon}{rest[:8]}" if _UUID.fullmatch(rest) else identity


def _lasting(item: Body) -> Text:
    if item["status"] == "cleared":
        return text(f"cleared {plain(item.get('cleared_at', ''))}".rstrip(), QUIET)
    until = plain(item["expires_at"])
    if item["status"] == "stale":
        return sentence(("stale", _WARN), f", expired {until}: ask {item['author']}")
    return text(f"until {until}", QUIET)


# Between machines.


def exchange(body: Body) -> Iterator[RenderableType]:
    """Tell who this machine is there, what a round did, how its peers stand, and how others come to know it."""
    yield unbroken((body["peer"], NAME), " in ", (body["workspace"], NAME), f" through {body['folder']}")
    yield text(f"speaks for {plain(body['agents'])}", QUIET)
    if body["action"] == "run":
        yield from _round(body)
    if body["peers"]:
        yield columns([_peer(item) for item in body["peers"]], fixed=2)
    elif body["action"] != "audit":
        yield text("no peer is pinned; 'bede exchange trust' does it", QUIET)
    for item in body["refusals"]:
        about = f"{item['peer']}: " if item["peer"] else ""
        yield _told("refused ", BAD, f"{about}{item['message']}")
        if item["hint"]:
            yield _told("hint: ", KIND, item["hint"])
    if body["action"] in ("init", "status") and body["introduction"]:
        yield text("the others pin this machine with", QUIET)
        yield unbroken(body["introduction"])
    if body["steps"]:
        yield columns([_step(item) for item in body["steps"]], fixed=4)
    yield from _warnings(body)


def _round(body: Body) -> Iterator[Text]:
    state = ("published", GOOD) if body["published"] else ("nothing of ours is new", QUIET)
    yield sentence(state, (f", number {body['sequence']}" if body["sequence"] else "", QUIET))
    came = {
        "came in or changed": body["changed"],
        "of our own came back from the folder": body["recovered"],
        "of our own found no room": body["left_out"],
    }
    yield from (text(f"{counted(count, 'notice')} {words}") for words, count in came.items() if count)
    if body["waiting"]:
        yield text(f"nothing there yet of {plain(body['waiting'])}", QUIET)


def _peer(item: Body) -> tuple[Text, ...]:
    words = {"fresh": ("fresh", GOOD), "stale": ("stale", _WARN), "never": ("never heard", QUIET)}
    told = sentence(f"speaks for {plain(item['agents'])}")
    if item["sent_at"]:
        told.append_text(sentence((f", sent {plain(item['sent_at'])}, number {item['sequence']}", QUIET)))
    if item["fault"]:
        told.append_text(sentence(("\nrefused: ", BAD), item["fault"]))
    return text(item["peer"], NAME), text(*words.get(item["status"], (item["status"], ""))), told


def _step(item: Body) -> tuple[Text, ...]:
    number = f"number {item['sequence']}" if item["sequence"] else ""
    came = f"{item['changed']} changed" if item["changed"] else ""
    said = text(", ".join(part for part in (item["peer"], item["reason"], number, came) if part))
    about = text(item["id"], ID), text(item["at"], QUIET), text(item["agent_id"]), text(item["outcome"], KIND)
    return *about, said


def bundle(body: Body) -> Iterator[RenderableType]:
    """Tell what went into the file or came out of it, and where each ref is."""
    if body["outcome"] == "key":
        yield unbroken((body["key"], NAME))
        yield text("others take this machine's bundles with --trust and this key", QUIET)
    elif body["outcome"] == "exported":
        yield from _exported(body)
    else:
        yield from _imported(body)
    yield from _warnings(body)


def _exported(body: Body) -> Iterator[RenderableType]:
    size = f", {body['bytes']} bytes" if body["bytes"] else ""
    purged = f", {body['purged']} of them purged" if body["purged"] else ""
    to = f" to {body['file']}" if body["file"] else ""
    done = "would write " if body["dry_run"] else "wrote "
    yield unbroken((done, GOOD), f"{counted(body['events'], 'event')}{purged}{to}", (size, QUIET))
    yield from _refs(body["refs"])
    if body["prerequisites"]:
        needs = counted(len(body["prerequisites"]), "event")
        yield text(f"builds on {needs} that it does not hold: {plain(body['prerequisites'])}", QUIET)
    if body["key"]:
        yield unbroken(("signed by ", QUIET), (body["key"], QUIET))


def _imported(body: Body) -> Iterator[RenderableType]:
    known = f", {body['known']} known" if body["known"] else ""
    purged = f", {body['purged']} purged" if body["purged"] else ""
    if body["outcome"] == "unchanged":
        done = sentence(("nothing new", QUIET), f" from {body['peer']}{known}")
    else:
        did = "would take in " if body["dry_run"] else "took in "
        done = sentence((did, GOOD), f"{counted(body['new'], 'event')} from ", (body["peer"], NAME), f"{known}{purged}")
    yield done
    yield from _refs([item for item in (*body["tracked"], *body["merged"]) if item["outcome"] != "unchanged"])


def _refs(refs: Iterable[Body]) -> Iterator[RenderableType]:
    """Yield where each ref is, below one another."""
    for item in refs:
        outcome = f"  {item['outcome']}" if item["outcome"] else ""
        before = f"{plain(item['before'])} → " if item["before"] else ""
        yield unbroken("  ", (item["ref"], NAME), outcome, "  ", (before, QUIET), (plain(item["head"]), ID))


# Installs.


def agents(body: Body) -> Iterator[RenderableType]:
    """Show one agent a line with its files; below it what is refused, what is left to do, and what would change."""
    found = body["agents"]
    width = max((cell_len(item["title"]) for item in found), default=0)
    for item in found:
        yield from _agent(item, width, is_dry=body["dry_run"], is_install="command" in body)
    if any(item["outcome"] == "skipped" for item in found):
        yield text("what is skipped is done all the same for an agent that is named", QUIET)
    if "warnings" in body:
        yield from _warnings(body)
    if not found and not body.get("warnings"):
        yield text("no agent was asked", QUIET)


def _agent(item: Body, width: int, *, is_dry: bool, is_install: bool) -> Iterator[RenderableType]:
    title = flat(item["title"], NAME)
    title.pad_right(width - title.cell_len)
    files = [_file(file) for file in item["files"]]
    if item["outcome"] == "skipped":
        yield unbroken(title, "  ", ("skipped", QUIET), (f": {item['reason']}", QUIET))
        return
    yield unbroken(title, "  ", _became(item["outcome"], is_dry, is_install), "  ", files[0] if files else "")
    yield from (unbroken(" " * (width + 2), file) for file in files[1:])
    yield from _refused(item)
    yield from (line for file in item["files"] if file["diff"] for line in _difference(file["diff"]))
    yield from (_told("warning: ", _WARN, said, by=2) for said in item["warnings"])
    yield from (_told("note: ", KIND, said, by=2) for said in item["notes"])


def _became(outcome: str, is_dry: bool, is_install: bool) -> Text:
    """Return what became of an agent, or would."""
    if outcome == "refused":
        return text(outcome, BAD)
    if outcome == "already":
        return text("already so", QUIET)
    if outcome == "absent":
        return text("has no such place" if is_install else "has nothing of ours", QUIET)
    return text(f"would be {outcome}" if is_dry else outcome, GOOD)


def _file(file: Body) -> Text:
    became = "" if file["outcome"] == "unchanged" else f" ({file['outcome']})"
    return unbroken(file["path"], (became, QUIET))


def _refused(item: Body) -> Iterator[RenderableType]:
    """Yield why a file was refused, and what to put into it by hand."""
    if item["reason"]:
        yield _told("error: ", BAD, item["reason"], by=2)
    if item["hint"]:
        first, _, snippet = item["hint"].partition("\n")
        yield _told("hint: ", KIND, first, by=2)
        if snippet:
            yield from _verbatim(snippet)


def _difference(diff: str) -> Iterator[Text]:
    """Yield a unified difference as it is, its two lines of names apart from what is added and taken away."""
    styles = {"+": GOOD, "-": "red", "@": KIND}
    for number, line in enumerate(diff.removesuffix("\n").split("\n")):
        yield unbroken(whole(line, NAME if number < 2 else styles.get(line[:1], "")))
