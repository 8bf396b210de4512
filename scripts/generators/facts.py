"""What the generated files say that no operation says: variables, exit statuses, and which words name a branch."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bede.agents import AGENTS
from bede.config import SETTINGS
from bede.errors import ERRORS
from bede.operation import Operation
from bede_cli import manual
from bede_cli.grammar import Word, words

#: Arguments that name a branch, by verb; `--at` and `--branch` name one everywhere.
BRANCH_ARGUMENTS = {"checkout": ("branch",), "merge": ("source",), "diff": ("a", "b"), "rollback": ("event",)}
#: Arguments that name a file, though they are no paths: of a worktree, as it is now or was.
FILE_ARGUMENTS = {"brief": ("paths",), "lease": ("paths",)}
#: Words whose values are known, though others may be typed.
KNOWN = {"attach": "agents", "detach": "agents", "install-hooks": "agent", "uninstall-hooks": "agent", "config": "key"}
#: Variables that are no settings.
VARIABLES = {
    "BEDE_DIR": "the project's `.bede` folder, instead of the one found by walking up",
    "BEDE_BRANCH": "the branch to work on, instead of the worktree's own; `--branch` goes before it",
    "BEDE_OUTPUT": "`json` or `pretty`: the form of results, whatever the terminal; a flag goes before it",
    "BEDE_CONFIG_DIR": "the folder of the user's `config.toml`",
    "BEDE_DATA_DIR": "the folder of the registry of projects and of reports of bugs",
    "BEDE_SESSION_ID": "the session that leases of this call are for, where the agent tells none itself",
    "BEDE_HOOK_INGEST": "`0`: the hook at the end of a turn does not take in the session's transcript",
    "BEDE_HOOK_PATIENCE": "how many times as long `bede hook` may take, on a slow machine: 1 to 60",
    "BEDE_DEBUG": "`1` shows the traceback of a bug instead of writing it into a report",
    "NO_COLOR": "anything: no colour",
}
#: Variables that `auto` sets for its command.
HANDED_OVER = {
    "BEDE_CONTEXT_FILE": "a file with what was recalled",
    "BEDE_TASK_ID": "the task",
    "BEDE_AGENT_ID": "who runs the command",
    "BEDE_RUN_ID": "the id of this run",
}
#: What is said of a verb's exit status before the list that holds for all.
EXIT_NOTES = {
    "auto": "That of the command, untouched; where there is none, 125 (Bede failed), 126 (it cannot be executed) "
    "or 127 (there is no such command). Before it is run:",
}
_FIRST = (("0", "", "Done; also when nothing was found, or all was so already"),)
_FIRST += (("1", "", "A question was answered no"),)
_LAST = (("130", "", "Interrupted"), ("141", "", "The reader of the output went away"))


def exits() -> list[tuple[str, str, str]]:
    """Return every exit status with its code and meaning."""
    known = [(str(error.exit_status), error.code, (error.__doc__ or "").rstrip(".")) for error in ERRORS]
    return [*_FIRST, *known, *_LAST]


def environment() -> dict[str, str]:
    """Return every variable that Bede reads."""
    return VARIABLES | {item.variable: f"{item.description} (`{item.key}`)" for item in SETTINGS}


def options(verb: Operation) -> list[Word]:
    """Return a verb's own options that are shown."""
    return [item for item in words(verb) if item.flags and not item.everywhere and not item.field.hidden]


def arguments(verb: Operation) -> list[Word]:
    """Return a verb's arguments."""
    return [item for item in words(verb) if not item.flags]


def names_branch(verb: str, item: Word) -> bool:
    """Tell whether a word's value may be a branch."""
    name = item.name.removeprefix("call_")
    return name in BRANCH_ARGUMENTS.get(verb, ()) or (bool(item.flags) and name in ("at", "branch"))


def names_file(verb: str, item: Word) -> bool:
    """Tell whether a word's value may be a file."""
    return item.kind is Path or item.name in FILE_ARGUMENTS.get(verb, ())


def offered(verb: str, item: Word) -> tuple[str, ...]:
    """Return the values that are offered for a word; none for free text."""
    if item.name != KNOWN.get(verb):
        return item.choices
    if verb == "config":
        return tuple(setting.key for setting in SETTINGS)
    return (*AGENTS, *(() if item.flags else ("all",)))


def about(item: Word) -> str:
    """Return what a word means, with its choices."""
    return f"{item.help}. One of {', '.join(item.choices)}" if item.choices else item.help


def described(items: Iterable[Word]) -> list[tuple[str, str]]:
    """Return words as they are typed, with what they mean."""
    return [(manual.typed(item) if item.flags else item.metavar, about(item)) for item in items]
