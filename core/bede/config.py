"""Settings in five layers, each value with the layer it came from.

Lowest first: default, user file, project file, environment, argument. A setting is declared once, below; a key that is
not declared is refused. Anything that would run a command is never read from the project's layer, since a
project's files may be somebody else's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bede.errors import UsageError, cause
from bede.identity import check_agent
from bede.quick import dataclass

#: How a switch is spelt.
ON, OFF = ("true", "1", "yes", "on"), ("false", "0", "no", "off")
#: What the name of an engine begins with.
ENGINES = ("lexical", "static", "mlx", "st", "onnx")
LAYERS = ("default", "user", "project", "environment", "argument")


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its key, default, the variable that overrides it, and what it means."""

    key: str
    default: Any
    read: Callable[[str], Any]
    description: str
    #: Never read from the project's layer, nor written there: its value leads to what runs on this machine.
    is_personal: bool = False

    @property
    def variable(self) -> str:
        """The environment variable of this setting, `BEDE_STORE_WAIT`."""
        return "BEDE_" + self.key.replace(".", "_").upper()


@dataclass(frozen=True, slots=True)
class Value:
    """A setting's value and where it came from."""

    key: str
    value: Any
    layer: str
    origin: str


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("must be a whole number") from None


@dataclass(frozen=True, slots=True)
class Bounds:
    """Between which two whole numbers a setting lies; the flag that it stands for declares the same."""

    least: int
    most: int

    def read(self, text: str) -> int:
        """Return the number that a text is.

        Raises:
            ValueError: it is none, or not between the two.
        """
        number = _whole(text)
        if not self.least <= number <= self.most:
            raise ValueError(f"must be between {self.least} and {self.most}")
        return number


#: Memories recalled of each sort, tokens handed to a child, tokens of a context, tokens that a hook tells.
RECALLED, RECALL, CONTEXT, TOLD = Bounds(1, 100), Bounds(100, 100_000), Bounds(400, 200_000), Bounds(0, 2000)


def _switch(text: str) -> bool:
    if text.lower() not in (*ON, *OFF):
        raise ValueError("must be true or false")
    return text.lower() in ON


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError("must be a number of seconds") from None
    if not 0 <= number <= 3600:
        raise ValueError("must be between 0 and 3600 seconds")
    return number


def _engine(text: str) -> str:
    spec = text.strip()
    if not spec.isprintable() or len(spec) > 1000:
        raise ValueError("must be one line, at most 1,000 characters")
    if spec and spec.partition(":")[0] not in ENGINES:
        raise ValueError(f"must begin with one of {', '.join(ENGINES)}")
    return spec


def _agent(text: str) -> str:
    try:
        return check_agent(text) if text else text
    except UsageError as error:
        raise ValueError(error.hint) from error


SETTINGS: tuple[Setting, ...] = (
    Setting("agent.id", "", _agent, "who acts when no --agent-id is given; the name of the system's user by default"),
    Setting("store.wait", 10.0, _seconds, "seconds a writer waits for another before it gives up"),
    Setting("recall.top_k", 5, RECALLED.read, "most memories that auto recalls of each sort"),
    Setting("recall.budget", 600, RECALL.read, "most tokens that auto hands to its child"),
    Setting("context.budget", 4000, CONTEXT.read, "most tokens of a context"),
    Setting(
        "search.engine",
        "lexical",
        _engine,
        "what search in sessions goes by besides words: lexical for nothing, static, mlx:4b, st:NAME or onnx:/folder",
        is_personal=True,
    ),
    Setting(
        "search.reranker",
        "",
        _engine,
        "what reads the best passages again and puts them in order: mlx:4b, st:NAME or onnx:/folder",
        is_personal=True,
    ),
    Setting("hooks.claims", True, _switch, "whether hooks claim files before edits, and refuse what others hold"),
    Setting("hooks.brief", 600, TOLD.read, "most tokens that a session is told at its start; 0 for nothing"),
    Setting("hooks.recall", 300, TOLD.read, "most tokens that are told with a prompt; 0 for nothing"),
)
_BY_KEY = {setting.key: setting for setting in SETTINGS}


class Config:
    """All settings of one call, looked up layer by layer when they are asked for."""

    def __init__(self, environment: Mapping[str, str], user: Path | None = None, project: Path | None = None) -> None:
        self._environment = environment
        self._files = {"user": user or user_file(environment), "project": project}
        self._tables: dict[str, dict[str, Any]] = {}

    def __getitem__(self, key: str) -> Any:
        return self.value(key).value

    def value(self, key: str) -> Value:
        """Return a setting's value with the layer and place it came from.

        Raises:
            UsageError: there is no such setting, or its value is not of its kind.
        """
        setting = declared(key)
        if setting.variable in self._environment:
            raw = self._environment[setting.variable]
            return Value(key, _read(setting, raw, setting.variable), "environment", setting.variable)
        for layer in ("user",) if setting.is_personal else ("project", "user"):
            path = self._files[layer]
            said = self._table(layer).get(key)
            if said is not None:
                return Value(key, _read(setting, str(said), str(path)), layer, str(path))
        return Value(key, setting.default, "default", "")

    def all(self) -> tuple[Value, ...]:
        """Return every setting's value, in the order of their declaration."""
        return tuple(self.value(setting.key) for setting in SETTINGS)

    def file(self, layer: str) -> Path:
        """Return the file of a layer, `user` or `project`.

        Raises:
            UsageError: there is no project here.
        """
        path = self._files[layer]
        if path is None:
            raise UsageError("there is no project here to configure", hint="run 'bede init', or write with --user")
        return path

    def reread(self) -> None:
        """Forget what the files said, since one was changed."""
        self._tables.clear()

    def _table(self, layer: str) -> dict[str, Any]:
        if layer not in self._tables:
            path = self._files[layer]
            self._tables[layer] = _flat(_load(path)) if path else {}
        return self._tables[layer]


def user_file(environment: Mapping[str, str]) -> Path:
    """Return the user's own settings file."""
    return user_folder(environment, "config") / "config.toml"


def user_folder(environment: Mapping[str, str], what: str) -> Path:
    """Return the user's folder for `config` or `data`.

    The rules are platformdirs'; on Linux they are two lines, so that the everyday call need not import it.
    """
    if override := environment.get(f"BEDE_{what.upper()}_DIR"):
        return Path(override)
    if sys.platform.startswith("linux"):
        variable, fallback = {
            "config": ("XDG_CONFIG_HOME", ".config"),
            "data": ("XDG_DATA_HOME", ".local/share"),
        }[what]
        base = environment.get(variable, "")
        home = Path(environment.get("HOME") or Path.home())
        return (Path(base) if base.startswith("/") else home / fallback) / "bede"
    import platformdirs

    found = platformdirs.user_config_path if what == "config" else platformdirs.user_data_path
    return found("bede", appauthor=False)


def declared(key: str) -> Setting:
    """Return the declaration of a setting.

    Raises:
        UsageError: there is no such setting.
    """
    if key not in _BY_KEY:
        from bede.hints import asked

        raise UsageError(f"no setting {key!r}", hint=f"{asked(key, _BY_KEY)}'bede config' lists them")
    return _BY_KEY[key]


def _read(setting: Setting, raw: str, origin: str) -> Any:
    try:
        return setting.read(raw)
    except ValueError as error:
        text = f"{setting.key} in {origin} is {raw!r}: {error}"
        raise UsageError(text, hint=f"change it there: {setting.description}") from error


def _load(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        import tomllib  # Most calls find no file.

        return tomllib.loads(text)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"cannot read {path}: {cause(error)}", hint="mend the file, or move it away") from error


def _flat(table: dict[str, Any]) -> dict[str, Any]:
    """Return `section.name` and value; nothing that lies deeper is a setting."""
    found: dict[str, Any] = {}
    for section, inside in table.items():
        if isinstance(inside, dict):
            found.update((f"{section}.{name}", value) for name, value in inside.items())
    return found
