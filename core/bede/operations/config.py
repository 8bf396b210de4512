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
        setting = declared(key)
        if value is not None:
            _check(setting.read, key, value)
        if setting.is_personal and not user and not unset:
            raise UsageError(f"{key} is never read from a project's file", hint="write it with --user")
        written = str(_write(context.config.file("user" if user else "project"), key, None if unset else value))
        context.config.reread()
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


def _check(read: Any, key: str, value: str) -> None:
    try:
        read(value)
    except ValueError as error:
        raise UsageError(f"{key} cannot be {value!r}: {error}") from error


def _write(path: Path, key: str, value: str | None) -> Path:
    """Change one key of a TOML file, and nothing else in it."""
    import tomlkit

    try:
        document = tomlkit.parse(path.read_text(encoding="utf-8")) if path.exists() else tomlkit.document()
        *sections, name = key.split(".")
        table: Any = document
        for section in sections:
            table = table.setdefault(section, tomlkit.table())
            if not hasattr(table, "setdefault"):
                raise ValueError(f"{section!r} is no section there")
        if value is None:
            table.pop(name, None)
        else:
            table[name] = value
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        with os.fdopen(os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(tomlkit.dumps(document))
        temporary.replace(path)
    except OSError as error:
        raise Unavailable(f"cannot write {path}: {error.strerror}", hint="check the folder and the disk") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"cannot change {path}: {error}", hint="mend the file, or move it away") from error
    return path
