"""What may leave the process, and how a terminal is told from a pipe.

Holds the escapes that make stored text harmless, the JSON line, and the few questions one asks a stream. Promises
that no control, bidirectional or invisible character from stored text leaves raw, in either form, and that the
JSON still parses to the very same value. Never decides what is said.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any, Literal, TextIO

from bede.errors import Unavailable

Form = Literal["json", "pretty"]

#: Controls (without tab and newline), soft hyphen, marks of direction, zero-width and other invisible
#: characters, tags, line separators, and halves of surrogate pairs.
_HOSTILE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff\ud800-\udfff"
)


@cache
def _hostile() -> re.Pattern[str]:
    """Return what finds them: plain text, which is most, never asks for it."""
    return re.compile(f"[{_HOSTILE}]")


def visible(text: str) -> str:
    """Return a text in which every character that a terminal might obey, or hide, is spelt out (`\\x1b`, `\\u202e`).

    Newlines and tabs stay; everything printable stays.
    """
    if text.isascii() and text.isprintable():
        return text
    return _hostile().sub(_spell, text)


def _spell(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def line(body: Mapping[str, Any]) -> bytes:
    """Return an object as one line of JSON in UTF-8, its hostile characters escaped.

    What is no character, as a byte of a file's name may be, becomes U+FFFD: many readers refuse half a character.

    Raises:
        ValueError: it holds a number that JSON cannot write (NaN, an infinity).
    """
    import json

    text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = text if text.isascii() and text.isprintable() else _hostile().sub(_escape, text)
    return text.encode() + b"\n"


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    if 0xD800 <= code < 0xE000:
        return "\\ufffd"
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def form(flag: Form | None, environment: Mapping[str, str], stream: TextIO | None) -> Form:
    """Return how to speak on a stream: the flag decides, then `BEDE_OUTPUT`, then whether a person is looking.

    Raises:
        ValueError: `BEDE_OUTPUT` is neither `json` nor `pretty`.
    """
    if flag:
        return flag
    asked = environment.get("BEDE_OUTPUT", "")
    if asked not in ("", "json", "pretty"):
        raise ValueError(asked)
    return "pretty" if asked == "pretty" or (not asked and is_terminal(stream)) else "json"


def is_terminal(stream: TextIO | None) -> bool:
    """Tell whether a person is looking at a stream; a closed one has no reader."""
    with suppress(OSError, ValueError):
        return stream is not None and stream.isatty()
    return False


def has_colour(stream: TextIO | None, environment: Mapping[str, str], *, refused: bool = False) -> bool:
    """Tell whether a stream may be coloured: a terminal, and nobody asked for none."""
    wanted = not refused and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
    # An old Windows console shows the codes themselves; those that obey them say who they are.
    able = sys.platform != "win32" or any(environment.get(name) for name in ("WT_SESSION", "TERM", "ANSICON"))
    return is_terminal(stream) and wanted and able


def wish(arguments: list[str]) -> Form | None:
    """Return the form that a command line asks for, without parsing it: the last flag before `--`."""
    asked: Form | None = None
    for word in arguments:
        if word == "--":
            break
        if word in ("--json", "--pretty"):
            asked = "json" if word == "--json" else "pretty"
    return asked


def write(stream: TextIO | None, data: bytes) -> None:
    """Write bytes to a stream, whatever its encoding, and see them off.

    Raises:
        BrokenPipeError: the reader went away, or there is no stream at all.
        Unavailable: the system refuses, and says why; what was buffered is dropped.
    """
    if stream is None:
        raise BrokenPipeError
    try:
        stream.flush()
        buffer = getattr(stream, "buffer", None)
        if buffer is None:
            stream.write(data.decode())
        else:
            _pour(getattr(buffer, "raw", buffer), data)
        stream.flush()
    except ValueError as error:
        raise BrokenPipeError from error
    except OSError as error:
        deafen(stream)
        # A pipe without a reader is an invalid argument to Windows.
        if isinstance(error, ConnectionError) or (sys.platform == "win32" and error.errno == errno.EINVAL):
            raise BrokenPipeError from error
        raise Unavailable(
            f"the answer cannot be written: {error.strerror or error}",
            hint="what the command did stands; only its answer is lost",
        ) from error


def _pour(raw: Any, data: bytes) -> None:
    """Write all of it below any buffer: one write may take a part only, or nothing where the stream does not block."""
    rest = memoryview(data)
    while rest:
        taken = raw.write(rest)
        if taken is None:
            import select

            select.select([], [raw], [])
        rest = rest[taken or 0 :]


def deafen(stream: TextIO | None) -> None:
    """Let whatever is still buffered for a stream go nowhere, so that the interpreter's last flush is silent."""
    with suppress(OSError, ValueError, AttributeError):
        handle, nowhere = stream.fileno(), os.open(os.devnull, os.O_WRONLY)  # type: ignore[union-attr]
        if nowhere != handle:
            os.dup2(nowhere, handle)
            os.close(nowhere)


def say(stream: TextIO | None, text: str) -> None:
    """Write text for a person, in an encoding that the terminal takes; what it cannot show is spelt out.

    Raises:
        BrokenPipeError, Unavailable: as `write`.
    """
    encoding = "utf-8"
    if stream is not None and is_terminal(stream) and sys.platform != "win32":
        encoding = stream.encoding or encoding
    write(stream, text.encode(encoding, "backslashreplace"))


def speak(text: str) -> None:
    """Show a line on stderr, harmless whatever it holds; a stderr that is gone is no error."""
    with suppress(OSError, Unavailable):
        say(sys.stderr, visible(text) + "\n")


class Progress:
    """A bar on stderr while something long is done, on a terminal only; it leaves nothing behind.

    Drawn at most ten times a second. Rich has a finer one, and takes longer to load than most of these runs.
    """

    WIDTH = 24

    def __init__(self) -> None:
        self._next = 0.0
        self._drawn = False

    def __call__(self, done: int, whole: int, name: str) -> None:
        """Show how far it is; at the end the line is cleared."""
        import time

        if not is_terminal(sys.stderr) or (not self._drawn and done == whole):
            return
        now = time.monotonic()
        if done < whole and now < self._next:
            return
        self._next, self._drawn = now + 0.1, done < whole
        with suppress(OSError, Unavailable):
            say(sys.stderr, self._line(done, whole, name) if done < whole else "\r\x1b[K")

    def _line(self, done: int, whole: int, name: str) -> str:
        filled = self.WIDTH * done // max(whole, 1)
        room = max(10, os.get_terminal_size(2).columns - self.WIDTH - 20)
        return f"\r\x1b[K{'#' * filled}{'-' * (self.WIDTH - filled)} {done} of {whole} {visible(name)[:room]}"
