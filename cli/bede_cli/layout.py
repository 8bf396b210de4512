"""The building blocks of pages: text made harmless, ids made short, times made near, lists and tables without frames.

Everything stored passes through `text` on its way to a terminal. The generic page shows any result by its shape alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bede.identity import counted
from bede_cli.terminal import visible

Body = Mapping[str, Any]
#: Styles by what they are for.
ID, GOOD, BAD, QUIET, NAME, KIND = "yellow", "green", "bold red", "dim", "bold", "cyan"
SHORT = 10
_ID = re.compile(r"[0-9a-f]{64}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")
_STEPS = ((60, 1, "second"), (3600, 60, "minute"), (86400, 3600, "hour"), (14 * 86400, 86400, "day"))
#: Most columns and lines that a table of somebody else's records may have before each record becomes a block.
_COLUMNS, _LINES = 7, 3


def text(value: Any, style: str = "") -> Text:
    """Return any value as text that can do a terminal no harm."""
    return Text(visible(plain(value)), style=style)


def plain(value: Any) -> str:
    """Return a value as a person reads it: ids short, times near, truth as yes and no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    if isinstance(value, list):
        return ", ".join(plain(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{key}: {plain(item)}" for key, item in value.items())
    if not isinstance(value, str):
        return "" if value is None else str(value)
    if _ID.fullmatch(value):
        return value[:SHORT]
    return when(value) if _TIME.fullmatch(value) else value


def when(moment: str, now: datetime | None = None) -> str:
    """Return a moment as a person says it: how long ago within two weeks, before that the day in local time.

    What is yet to come is told to the minute, with how far local time is from UTC.
    """
    try:
        then = datetime.fromisoformat(moment)
        seconds = ((now or datetime.now(UTC)) - then).total_seconds()
        local = then.astimezone()
    except (ValueError, OverflowError, TypeError):
        return moment
    if 0 <= seconds < 5:
        return "just now"
    for limit, unit, name in _STEPS:
        if 0 <= seconds < limit:
            count = int(seconds // unit)
            return f"{counted(count, name)} ago"
    return f"{local:%Y-%m-%d}" if seconds > 0 else local.isoformat(" ", "minutes")


def whole(identity: str, style: str = "") -> Text:
    """Return an id in full length."""
    return Text(visible(identity), style=style)


def sentence(*parts: tuple[Any, str] | str | Text) -> Text:
    """Return a line made of words, of (value, style) pairs, and of texts that are harmless already."""
    line = Text()
    for part in parts:
        line.append_text(part if isinstance(part, Text) else text(part) if isinstance(part, str) else text(*part))
    return line


def unbroken(*parts: tuple[str, str] | str | Text) -> Text:
    """Return one line that is neither wrapped nor cut, made of texts, words and (words, style) pairs."""
    line = Text(no_wrap=True)
    for part in parts:
        said = (part, "") if isinstance(part, str) else part
        line.append_text(said if isinstance(said, Text) else flat(*said))
    return line


def flat(value: str, style: str = "") -> Text:
    """Return a text on one line: a name with a line break in it must not pass for two."""
    return whole(value.replace("\n", "\\n").replace("\t", "\\t"), style)


def indented(*lines: RenderableType, by: int = 4) -> Iterator[RenderableType]:
    """Yield things moved to the right."""
    for line in lines:
        yield Padding(line, (0, 0, 0, by))


def columns(rows: Iterable[Sequence[Text]], *, fixed: int | None = None) -> Table:
    """Return rows as columns two spaces apart; the first `fixed` keep their width, the others wrap."""
    rows = list(rows)
    table = Table.grid(padding=(0, 2, 0, 0))
    for index in range(max(map(len, rows), default=0)):
        table.add_column(no_wrap=fixed is not None and index < fixed, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def definitions(pairs: Iterable[tuple[str, Any]]) -> Table:
    """Return names and values, one pair a line."""
    return columns([(text(_spoken(name), "dim"), text(value)) for name, value in pairs], fixed=1)


def _spoken(name: str) -> str:
    """Return a key as words, unless it is a name that is typed as it stands: a variable, a flag."""
    return name if name.isupper() or name.startswith("-") else name.replace("_", " ")


def spent(body: Body) -> Text:
    """Return the line below a text for agents: what it cost, and how much was left out of what.

    A heading of several words is quoted, since there may be a comma in it.
    """
    named = ((name if name.isalpha() else f"'{name}'", count) for name, count in body["left_out"].items())
    left = ", ".join(f"{count} of {name}" for name, count in named if count)
    return text(f"{body['tokens']} of {body['budget']} tokens{'; left out: ' + left if left else ''}", QUIET)


def generic(body: Body) -> Iterator[RenderableType]:
    """Yield a page for any result: its plain values, then each list or group under its name."""
    filled = {key: value for key, value in body.items() if key != "schema" and value not in ("", None, [], {})}
    flat = {key: value for key, value in filled.items() if not _is_group(value)}
    if flat:
        yield definitions(flat.items())
    for key, value in filled.items():
        if key not in flat:
            yield Text()
            yield text(_spoken(key), "bold")
            yield from indented(*_group(value), by=2)
    if not filled:
        yield text("nothing", "dim")


def _is_group(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(item, dict) for item in value))


def _group(value: Any) -> Iterator[RenderableType]:
    records = value if isinstance(value, list) else [value]
    rows = [item if isinstance(item, dict) else {"value": item} for item in records]
    every = dict.fromkeys(key for row in rows for key in row)
    names = [name for name in every if any(_filled(row, name) for row in rows)]
    if isinstance(value, dict) or len(names) > _COLUMNS or any(_is_tall(row) for row in rows):
        for number, row in enumerate(rows):
            if number:
                yield Text()
            yield from generic(row)
    else:
        head = [text(_spoken(name), "dim") for name in names]
        yield columns([head, *([text(row.get(name)) for name in names] for row in rows)], fixed=0)


def _filled(row: Body, name: str) -> bool:
    return row.get(name) not in ("", None, [], {})


def _is_tall(row: Body) -> bool:
    return any(_is_group(value) or (isinstance(value, str) and value.count("\n") > _LINES) for value in row.values())
