"""The narrow door: `bede hook EVENT --agent NAME`, JSON on stdin, one JSON document on stdout, exit status 0.

Agents wait for it before every edit, so it loads neither parser nor output, and answers within a deadline whatever
happens inside: a fault, a held store, a stdin that never ends become the agent's neutral answer ("go on") and a line
in a log file. Only stdout counts for the agent; stderr stays empty, since some agents show it to the model.
"""

from __future__ import annotations

import json
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: Most bytes of a call, and brackets in it: while JSON is parsed nothing else can run, not even the watchman.
LARGEST, OPENED = 64 * 1024 * 1024, 500_000
#: Seconds until the neutral answer goes out, where the moment has no deadline of its own; how long one may be written.
PATIENCE, WRITING = 1.0, 0.5
#: The same after a commit, where the hook runs in the background.
COMMITTING = 60.0
#: Times as long as usual, where a user's machine is that slow and the agent's own limits were raised.
SLOWER = "BEDE_HOOK_PATIENCE"
#: What lets any agent go on, where nothing better is known.
NEUTRAL = "{}"


def run(words: Sequence[str]) -> int:
    """Answer one call and return 0, whatever it was."""
    if "--help" in words or "-h" in words:
        from bede_cli import manual

        _write(manual.door())
        return 0
    _fill()
    event, name = _named(words)
    once = _Once(name, event)
    try:
        answer = _answer(name, event, once)
    except BaseException as error:
        once.note(error)
        answer = once.neutral
    once.say(answer)
    return 0


def _fill() -> None:
    """Open the three streams where they are closed, so that no file of ours takes the place of stdout."""
    try:
        while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(handle)
    except OSError:
        return  # As good as it gets where there is no such thing.


def _named(words: Sequence[str]) -> tuple[str, str]:
    """Return event and agent as they were typed, each '' where it is missing."""
    rest, name = list(words), ""
    for spot, word in enumerate(rest):
        if word == "--agent":
            name = rest[spot + 1] if spot + 1 < len(rest) else ""
            del rest[spot : spot + 2]
            break
        if word.startswith("--agent="):
            name = word.partition("=")[2]
            del rest[spot]
            break
    return (rest[0] if rest else ""), name


def _answer(name: str, event: str, once: _Once) -> str:
    once.watch(COMMITTING if name == "git" else PATIENCE)
    if name == "git":
        return _committed()
    once.prepare()
    payload = _payload()
    from bede import hooks

    return hooks.attend(name, event, payload, os.environ, once.watch)


def _committed() -> str:
    """Write down a commit; git waits for nobody here, so there is time."""
    from pathlib import Path

    from bede.hooks.committing import committed

    committed(Path.cwd(), os.environ)
    return ""


def _payload() -> object:
    """Read the call from stdin, to its end also where it is too large: an agent may fall over a pipe that breaks.

    Raises:
        ValueError: it is too large, or no JSON.
    """
    said, size = [], 0
    while part := os.read(0, 1 << 20):
        size += len(part)
        if size <= LARGEST:
            said.append(part)
        else:
            said.clear()
    if size > LARGEST:
        raise ValueError(f"the call has {size} bytes, more than {LARGEST}")
    text = b"".join(said)
    if text.count(b"{") + text.count(b"[") > OPENED:
        raise ValueError(f"the call opens more than {OPENED} brackets")
    payload: object = json.loads(text.decode("utf-8-sig", "replace"))
    return payload


class _Once:
    """The one answer of a call: whoever is first says it, the call or the watchman."""

    def __init__(self, name: str, event: str) -> None:
        import _thread

        self._name, self._event = name, event
        self._began = self._deadline = time.monotonic()
        self._said = _thread.allocate_lock()
        self._watched = False
        #: What lets this agent go on, as far as it is known by now.
        self.neutral = "" if name == "git" else NEUTRAL

    def watch(self, seconds: float) -> None:
        """Let the neutral answer go out, and the process end, so many seconds after the beginning."""
        import _thread

        self._deadline = self._began + seconds * _factor()
        if not self._watched:
            self._watched = True
            _thread.start_new_thread(self._wait, ())

    def _wait(self) -> None:
        while (left := self._deadline - time.monotonic()) > 0:
            time.sleep(min(left, 0.05))
        try:
            if self._said.acquire(blocking=False):
                self._end()
            else:  # It is answered already, to somebody who does not read.
                time.sleep(WRITING * _factor())
        finally:
            os._exit(0)

    def _end(self) -> None:
        """Answer, and write down why, as far as that can be done while the call is stuck somewhere."""
        import _thread

        self._give(self.neutral)
        done = _thread.allocate_lock()
        done.acquire()

        def write() -> None:
            self.note(TimeoutError(f"no answer within {self._deadline - self._began:g} s"))
            done.release()

        _thread.start_new_thread(write, ())
        done.acquire(timeout=WRITING * _factor())

    def say(self, answer: str) -> None:
        """Give the answer, unless the watchman was faster: then wait for the end that it makes."""
        if self._said.acquire(blocking=False):
            self._give(answer)
            return
        while True:
            time.sleep(1)

    def _give(self, answer: str) -> None:
        if answer:
            _write(answer + "\n")

    def prepare(self) -> None:
        """Learn what lets this agent go on, before anything can get stuck."""
        from bede import agents

        if agents.named(self._name):
            self.neutral = agents.load(self._name).neutral(self._event)

    def note(self, error: BaseException) -> None:
        """Write down a failure, if that can be done."""
        try:
            from bede.hooks.failing import note

            note(self._name, self._event, error, os.environ)
        except BaseException:
            return


def _factor() -> float:
    """Return how many times as long as usual a call may take."""
    try:
        return min(max(float(os.environ.get(SLOWER, "1")), 1.0), 60.0)
    except ValueError:
        return 1.0


def _write(text: str) -> None:
    """Write to stdout, all of it; a reader that went away misses nothing that anybody waits for."""
    data = memoryview(text.encode("utf-8", "replace"))
    while data:
        try:
            data = data[os.write(1, data) :]
        except BlockingIOError:
            time.sleep(0.005)  # The pipe is full, and does not say so by waiting.
        except OSError:
            return
