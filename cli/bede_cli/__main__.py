"""The front door: `bede …` and `python -m bede_cli …`.

Promises to import no more than the call needs: `--version` needs nothing, a verb its own module and the parser, the
server the SDK. What answers within a deadline gets a narrower door here, before the parser is imported.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def main(arguments: list[str] | None = None) -> int:
    """Answer one command line and return its exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["hook"]:  # The narrow door: agents wait for it, and it knows neither parser nor output.
        from bede_cli import hook

        return hook.run(words[1:])
    with _silence():
        from bede_cli import exits

    return exits.run(lambda: _answer(words), words)


@contextmanager
def _silence() -> Iterator[None]:
    """Let an interrupt end the process at once while nothing has begun, instead of with Python's own traceback."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    yield
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, before)


def _answer(words: list[str]) -> int:
    if words == ["--version"]:
        from bede import __version__
        from bede_cli import terminal

        terminal.say(sys.stdout, f"bede {__version__}\n")
        return 0
    from bede_cli import app

    return app.run(words, _serve)


def _serve(**call: object) -> None:
    from bede_cli.serve import serve

    serve(**call)  # type: ignore[arg-type]


if __name__ == "__main__":
    sys.exit(main())
