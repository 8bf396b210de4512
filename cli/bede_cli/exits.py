"""How a call ends: every failure becomes a message, a JSON line and an exit status, here and nowhere else.

On a terminal `error: …` and `hint: …`; otherwise one JSON line, both on stderr. Promises that nothing a user can cause
shows a traceback: a bug writes it into a private file and names that file. Never touches what went well.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from bede.errors import BedeError, Internal, Unavailable
from bede_cli import terminal

INTERRUPTED, READER_GONE = 130, 141
#: How many reports of bugs are kept, and how many details of an error a person is shown.
_REPORTS, _LISTED = 20, 50


def run(action: Callable[[], int], arguments: list[str]) -> int:
    """Run a call to its end and return the exit status.

    An interrupt and a reader that went away end it silently; every other failure is told on stderr.
    """
    try:
        status = action()
        if sys.stdout is not None:
            terminal.write(sys.stdout, b"")
        return status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        terminal.deafen(sys.stdout)
        return READER_GONE
    except BedeError as error:
        return tell(bug(error) if isinstance(error, Internal) else error, arguments)
    except Exception as error:
        return tell(bug(error), arguments)


def tell(error: BedeError, arguments: list[str]) -> int:
    """Show an error on stderr in the form that the call asked for; return its exit status."""
    try:
        form = terminal.form(terminal.wish(arguments), os.environ, sys.stderr)
    except ValueError:
        form = "json" if not terminal.is_terminal(sys.stderr) else "pretty"
    with suppress(OSError, Unavailable):
        if form == "json":
            terminal.write(sys.stderr, _line(error))
        else:
            _show(error, arguments)
    return error.exit_status


def _line(error: BedeError) -> bytes:
    """Return an error as a line of JSON; details that JSON cannot hold are left out."""
    body = error.to_json()
    try:
        return terminal.line(body)
    except (TypeError, ValueError, RecursionError):
        return terminal.line({key: value for key, value in body.items() if key != "details"})


def _show(error: BedeError, arguments: list[str]) -> None:
    coloured = terminal.has_colour(sys.stderr, os.environ, refused="--no-color" in arguments)
    body = error.to_json()  # Without secrets.
    parts = (("error", "message", "31"), ("reason", "reason", "33"), ("hint", "hint", "36"))
    lines = [
        (f"\x1b[1;{colour}m{label}:\x1b[0m " if coloured else f"{label}: ") + terminal.visible(body[name])
        for label, name, colour in parts
        if body.get(name)
    ]
    lines += [f"  {terminal.visible(line)}" for line in _details(body.get("details", {}))]
    terminal.say(sys.stderr, "\n".join(lines) + "\n")


def _details(details: Mapping[str, object]) -> Iterator[str]:
    """Yield what an error lists: every conflict, every agent whose work is meant."""
    for name, value in details.items():
        if isinstance(value, dict):
            told = ", ".join(f"{key} {part}" for key, part in value.items() if part not in ("", None))
            yield f"{name.replace('_', ' ')}: {told}"
        for item in value[:_LISTED] if isinstance(value, (list, tuple)) else ():
            pairs = item.items() if isinstance(item, dict) else ()
            yield "- " + (", ".join(f"{key} {part}" for key, part in pairs) or str(item))


def bug(error: BaseException) -> BedeError:
    """Turn a bug into an error: its traceback goes into a file, or to stderr with `BEDE_DEBUG=1`."""
    what = str(error) if isinstance(error, Internal) else f"{type(error).__name__}: {error}".rstrip(": ")
    first = what.split("\n", 1)[0][:300]
    if os.environ.get("BEDE_DEBUG") == "1":
        import traceback

        from bede.redact import redact

        with suppress(Exception):
            terminal.speak(redact("".join(traceback.format_exception(error)).rstrip("\n")))
        return Internal(f"a bug in Bede: {first}", hint="please report it with the traceback above")
    with suppress(Exception):
        return Internal(f"a bug in Bede: {first}", hint=f"please report it; the details are in {_report(error)}")
    return Internal(f"a bug in Bede: {first}", hint="BEDE_DEBUG=1 shows where; no report could be written")


def _report(error: BaseException) -> Path:
    """Write the traceback where only the user can read it, and return the file."""
    import platform
    import time
    import traceback

    from bede import __version__
    from bede.config import user_folder
    from bede.redact import redact

    folder = user_folder(os.environ, "data") / "reports"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid()}.log"
    about = f"bede {__version__}, Python {platform.python_version()}, {platform.platform()}\n"
    text = about + redact("".join(traceback.format_exception(error)))
    with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file:
        file.write(text.encode("utf-8", "backslashreplace"))
    for old in sorted(folder.glob("*.log"))[:-_REPORTS]:
        old.unlink(missing_ok=True)
    return path
