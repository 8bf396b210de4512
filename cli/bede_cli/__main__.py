"""The front door: `bede …` and `python -m bede_cli …`.

Promises to import no more than the call needs: `--version` needs nothing, a verb its own module and the parser, the
server the SDK. What answers within a deadline gets a narrower door here, before the parser is imported.
"""

from __future__ import annotations

import gc
import sys

#: An everyday call makes some twenty thousand objects that stay, and a few hundred that go in rings. To look for those
#: after every seven hundred, as Python does, and among all there is at the end, would take a tenth of its time.
_OBJECTS = 50_000


def main(arguments: list[str] | None = None) -> int:
    """Answer one command line and return its exit status; without one, that of this process, which ends then."""
    if arguments is not None:
        return _run(arguments)
    gc.set_threshold(_OBJECTS)
    status = _run(sys.argv[1:])
    gc.freeze()
    return status


def _run(words: list[str]) -> int:
    try:
        if words[:1] == ["hook"]:  # The narrow door: agents wait for it, and it knows neither parser nor output.
            from bede_cli import hook

            return hook.run(words[1:])
        from bede_cli import exits
    except KeyboardInterrupt:  # Nothing has begun, or what an agent waits for is not wanted any more.
        return 130
    return exits.run(lambda: _answer(words), words)


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
