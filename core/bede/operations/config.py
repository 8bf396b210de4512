"""`bede config`: see and change settings, and where each comes from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, ClassVar

from bede.config import SETTINGS, declared
from bede.context import Context
from bede.errors import Unavailable, UsageError
from bede.operation import Field, operation
from bede.quick import dataclass
from bede.records import Record
from bede.redact import redact


@dataclass(frozen=True, slots=True)
class SettingView(Record):
    """A setting's value, the layer and place it comes from, and what it means."""

    key: str
    value: Any
    layer: str
    origin: str
    variable: str
    description: str


@dataclass(frozen=True, slots=True)
class ConfigResult(Record):
    """The settings asked for; `written` names the file that was changed, `origins` whether a page shows them."""

    SCHEMA: ClassVar[str] = "config/1"

    settings: tuple[SettingView, ...]
    written: str
    origins: bool


@operation(effect="host")
def config(
    context: Context,
    key: Annotated[str, Field("Setting to show or change; all by default")] = "",
    value: Annotated[str | None, Field("New value")] = None,
    *,
    user: Annotated[bool, Field("Change the user's file; the project's by default")] = False,
    unset: Annotated[bool, Field("Remove the setting from the file")] = False,
    origin: Annotated[bool, Field("Show on a terminal where each value comes from")] = False,
) -> ConfigResult:
    """Show settings with the layer each comes from, or change one.

    Layers, lowest first: default, user file, project file, environment, argument. Comments in the files are kept.
    """
    written = ""
    if value is not None or unset:
        _check(key, None if unset else value, user)
        path = context.config.file("user" if user else "project")
        if _write(path, key, None if unset else value):
            written = str(path)
            context.config.reread()
        elif unset:
            context.say(f"nothing to take out: {key} is not set in {path}")
    settings = context.config.all() if not key else (context.config.value(key),)
    by_key = {setting.key: setting for setting in SETTINGS}
    views = tuple(
        SettingView(
            key=item.key,
            value=item.value,
            layer=item.layer,
            origin=item.origin,
            variable=by_key[item.key].variable,
            description=by_key[item.key].description,
        )
        for item in settings
    )
    return ConfigResult(views, written, origin)


def _check(key: str, value: str | None, user: bool) -> None:
    """Make sure that a setting may be written so; None takes it out, which is always right."""
    setting = declared(key)
    if value is None:
        return
    try:
        setting.read(value)
    except ValueError as error:
        raise UsageError(f"{key} cannot be {value!r}: {error}") from error
    if redact(value) != value:
        raise UsageError(f"{key} cannot be what looks like a secret", hint="settings lie on the disk as they are")
    if setting.is_personal and not user:
        raise UsageError(f"{key} is never read from a project's file", hint="write it with --user")


def _write(path: Path, key: str, value: str | None) -> bool:
    """Change one key of a TOML file and nothing else in it, None to take it out; tell whether there was anything to."""
    import tomlkit

    try:
        before = path.read_bytes().decode() if path.exists() else ""
        document = tomlkit.parse(before)
        section, name = key.split(".")
        if value is None:
            _take(document, section, name)
        else:
            _table(document, section)[name] = value
        after = tomlkit.dumps(document)
        if after == before:
            return False
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        with os.fdopen(os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file:
            file.write(after.encode())
        temporary.replace(path)
    except OSError as error:
        raise Unavailable(f"cannot write {path}: {error.strerror}", hint="check the folder and the disk") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"cannot change {path}: {error}", hint="mend the file, or move it away") from error
    return True


def _table(document: Any, section: str) -> Any:
    """Return a section, made where there is none.

    Raises:
        ValueError: what has its name is none.
    """
    import tomlkit

    table = document.setdefault(section, tomlkit.table())
    if not hasattr(table, "setdefault"):
        raise ValueError(f"{section!r} is no section there")
    return table


def _take(document: Any, section: str, name: str) -> None:
    """Take a setting out, and its section where nothing is left of that; comments stay, and where they were."""
    import tomlkit

    if section not in document or name not in (table := _table(document, section)):
        return
    lines = getattr(getattr(table, "value", None), "body", None) or document.body
    place = next((number for number, (key, _) in enumerate(lines) if key and key.key == name), len(lines))
    if words := table.pop(name).trivia.comment:
        lines[place : place + 1] = [(None, tomlkit.comment(words.removeprefix("#").strip()))]
    if not table and "#" not in table.as_string() + table.trivia.comment:
        document.remove(section)
