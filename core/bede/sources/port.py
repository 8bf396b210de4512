"""The port of every transcript format: what a format must offer, and the items it yields.

A format turns the records that an agent wrote into *items*: who said what, which tool was called upon what, how that
ended, which files it changed. A format is a module with the names of `Stream` or of `Document`; it is pure but for
reading the file it is given. The same bytes give the same items, however they were cut on the way: nothing here
reads a clock, writes, or decides whose project a session is. Texts are given as they are, with their secrets; but what
a key or an origin is made of, and what is cut from a longer text, is `clean` before that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from bede.quick import dataclass, field
from bede.records import Record
from bede.sources.kept import clean

#: Who is behind a record that an agent keeps in the user's role.
Speaker = Literal[
    "human",  # a person typed it
    "slash",  # a slash command and its arguments
    "bang",  # a shell command that a person ran through the agent
    "injected",  # hooks, reminders, environment, files laid into the context
    "delegated",  # the task that one agent gives another
    "notification",  # a background task or another agent reports
    "interrupt",  # the mark that a person stopped the agent
    "compact-summary",  # what the agent's own summary put in place of the conversation
]

#: What a tool does, by its exact name.
Sort = Literal["shell", "read", "search", "edit", "create", "web", "mcp", "task", "other"]


@dataclass(frozen=True, slots=True)
class World:
    """Where to look: the environment, the user's home, and `sys.platform`.

    `refused` are the places that could not be looked into, and why: whoever looks adds to them.
    """

    environment: Mapping[str, str]
    home: Path
    system: str
    refused: dict[Path, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Edit(Record):
    """A change of one file, as the agent asked for it: old and new text, or a patch."""

    SPARSE = True

    path: str  # as the agent wrote it
    operation: Literal["create", "update", "delete", "move"] = "update"
    old: str = ""
    new: str = ""
    patch: str = ""
    moved_to: str = ""


@dataclass(frozen=True, slots=True)
class Session(Record):
    """What is known of a session; given again when more of it, or something else, becomes known. Empty: not told."""

    SPARSE = True

    agent: str
    version: str = ""
    model: str = ""
    cwd: str = ""
    branch: str = ""
    parent: str = ""  # the session it came out of
    origin: Literal["", "fork", "resume", "subagent"] = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Prompt(Record):
    """Something in the user's role, whole."""

    SPARSE = True

    text: str
    speaker: Speaker
    images: int = 0


@dataclass(frozen=True, slots=True)
class Reply(Record):
    """What the assistant said, whole."""

    SPARSE = True

    text: str
    model: str = ""
    is_error: bool = False  # the agent's own words about a failed request


@dataclass(frozen=True, slots=True)
class Thought(Record):
    """Reasoning that the agent kept in readable form."""

    SPARSE = True

    text: str


@dataclass(frozen=True, slots=True)
class Call(Record):
    """A tool that was called; its result, if there is one, names the same `call`."""

    SPARSE = True

    call: str  # the call's id; where an agent writes none, one made of its place
    tool: str  # the exact name
    target: str = ""  # command, path, pattern, URL: what one line can tell, not yet shortened
    sort: Sort = "other"
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True, slots=True)
class Result(Record):
    """How a call ended. `output` is kept for failures only, and only its end; see `tail`."""

    SPARSE = True

    call: str
    ok: bool | None = None  # None: the agent does not tell
    exit_status: int | None = None
    denied: bool = False  # a person or a hook did not let it run
    output: str = ""
    edits: tuple[Edit, ...] = ()  # what was really changed, where only the result tells


@dataclass(frozen=True, slots=True)
class Usage(Record):
    """Tokens of one request to the model, or, as `total`, of the session so far."""

    SPARSE = True

    model: str = ""
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class Rewind(Record):
    """Items, by key, that the person or the agent went back behind: real, but superseded."""

    keys: tuple[str, ...]


What = Session | Prompt | Reply | Thought | Call | Result | Usage | Rewind


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that a transcript tells.

    `key` names it within its session and stays the same however often and however far the file is read. A later item
    of the same key takes the place of an earlier one (a message that an agent rewrites when its tools are done). Two
    different things never share a key, also where the agent used an id twice.
    """

    session: str
    key: str
    what: What
    at: int | None = None  # microseconds since 1970 (UTC); None where the record tells no time
    precision: Literal["", "us", "ms", "s", "min"] = ""  # of `at`, as the agent writes it
    line: int = 0  # 1-based place of its record: physical line, or number in the document
    parent: str = ""  # key of the item it follows, where the agent keeps a tree
    origin: str = ""  # an id that is the same in a copy of the record in another session, as after a fork
    is_replayed: bool = False  # the format itself shows that it is a copy of another session's record
    is_side: bool = False  # a side chain: said between agents, not with the person


@dataclass(slots=True)
class Tally:
    """What was met while reading: record types, and what could not be read and why."""

    types: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)

    def bad(self, why: str) -> None:
        """Count one record that cannot be read."""
        self.problems[why] += 1


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a record stands."""

    path: Path
    line: int  # 1-based
    offset: int  # bytes before it; no key is made of them: without its secrets a record has other ones
    part: int = 0  # 0 for the first record of a line, 1 for one glued behind it

    @property
    def place(self) -> str:
        """What no other record of the file shares, and a copy of it without secrets does: line and part."""
        return f"{self.line}.{self.part}"


#: A table's name, its columns, and rows of it.
Table = tuple[str, Sequence[str], Iterable[Sequence[Any]]]


class Source(Protocol):
    """What every format offers."""

    AGENT: str
    #: "stream": JSON lines that only grow, read from where one stopped. "document": read whole when it changed.
    FORM: Literal["stream", "document"]

    def find(self, world: World) -> Iterator[Path]:
        """Yield every transcript there is, in a fixed order; places that cannot be read go into `world.refused`."""

    def accepts(self, path: Path, head: bytes) -> bool:
        """Tell whether a file that somebody names is of this format, by its name and its first 64 KB."""


class Stream(Source, Protocol):
    """A format of JSON lines that only grow."""

    def take(self, record: Any, spot: Spot, state: dict[str, Any], tally: Tally) -> Iterable[Item]:
        """Return the items of one decoded record, of any JSON type.

        `state` is all that is known from the records before, empty at the first; it is changed in place, holds JSON
        only, and stays small.
        """


class Document(Source, Protocol):
    """A format that is rewritten, or lies in a database."""

    def load(self, path: Path, tally: Tally) -> Iterator[Item]:
        """Yield all items of a transcript, in order.

        Raises:
            BadSource: nothing in it can be read.
        """

    def stamp(self, path: Path) -> str:
        """Return something that changes whenever the items may have: sizes, times, versions."""

    # And, where other files are read together with a transcript:
    # def beside(path: Path) -> Iterable[Path]: return them, whether they are there or not; a raw copy takes them along.
    # And, where it lies in a database, which is copied session by session:
    # def rows(path: Path, sessions: Collection[str]) -> Iterator[tuple[str, Iterator[Table]]]: yield what the database
    #     has of each of them, as it stands there; it is opened once.
    # def outside(path: Path, sessions: Collection[str]) -> list[Path]: return files that hold some in its place.
    # And, where its records say something only once they are put together, as mutations do:
    # def settled(path: Path) -> dict[str, Any] | None: return the one record that says what they lead to, if they do.
    # And, where pieces of a text, in objects of a list, are read as one with nothing between them:
    # BETWEEN: str = ""


#: Most lines of a failed call's output that are kept, and most characters of them.
LINES, CHARACTERS = 15, 4000


def tail(output: str) -> str:
    """Return the end of a failed call's output, as much of it as is kept, and clean: nobody knows half a secret."""
    kept = clean(output[-CHARACTERS * 16 :]).rstrip()[-CHARACTERS * 4 :]
    return "\n".join(kept.split("\n")[-LINES:])[-CHARACTERS:]
