"""How a result leaves: one line of JSON, or a page for a person.

Promises that JSON is the same whatever the terminal, the locale and the user's settings; that a result that could not
be written is an error; and that Rich is imported only when a person looks. Never decides anything about a result.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from bede.errors import UsageError
from bede.quick import dataclass
from bede.records import Record
from bede_cli import terminal
from bede_cli.terminal import Form


@dataclass(frozen=True, slots=True)
class Output:
    """The form of one call's result: JSON or a page, coloured or not, and whether JSON was asked for by a flag."""

    form: Form
    asked: bool
    coloured: bool

    @classmethod
    def choose(cls, flag: Form | None, environment: Mapping[str, str], *, no_colour: bool) -> Output:
        """Return how to speak: the flag beats `BEDE_OUTPUT`, which beats the terminal.

        Raises:
            UsageError: `BEDE_OUTPUT` is neither `json` nor `pretty`.
        """
        try:
            form = terminal.form(flag, environment, sys.stdout)
        except ValueError as error:
            raise UsageError(f"BEDE_OUTPUT is {str(error)!r}", hint="set it to json or pretty, or unset it") from error
        return cls(form, flag == "json", terminal.has_colour(sys.stdout, environment, refused=no_colour))

    def show(self, result: Record) -> int:
        """Write a result and return the exit status it asks for.

        A result that leaves stdout to somebody else goes to stderr, and only where JSON was asked for by its flag.

        Raises:
            Unavailable: the system refuses the bytes.
            BrokenPipeError: the reader went away.
        """
        if result.aside:
            if self.asked:
                terminal.write(sys.stderr, terminal.line(result.to_json()))
        elif self.form == "json":
            terminal.write(sys.stdout, terminal.line(result.to_json()))
        else:
            from bede_cli import pages

            terminal.say(sys.stdout, pages.render(result.to_json(), width=_width(), coloured=self.coloured))
        return result.exits


def _width() -> int | None:
    """Return how wide a page is: None lets the terminal say."""
    return None if terminal.is_terminal(sys.stdout) or "COLUMNS" in os.environ else 100
