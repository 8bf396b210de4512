"""Bytes on their way from a child to where they belong, and a copy of the last of them.

Holds one thread for each stream, so that a reader who takes his time holds up that stream and nothing else. Promises
every byte in order and at once, bounded memory, and an end: when the child is gone, what it wrote is passed on,
and nobody waits for a grandchild that keeps the pipe open. Never looks into what passes.
"""

from __future__ import annotations

import errno
import os
import select
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Condition, Thread

from bede.child.tail import Tail

#: Bytes taken at once, and the most that is passed on after the child's end: no pipe holds more than that.
_PIECE, _REST = 1 << 17, 1 << 20
#: What a reader who went away looks like: a closed pipe or socket. A terminal that hung up is an input/output error.
_GONE = {errno.EPIPE, errno.ECONNRESET}


class Relay:
    """One stream: a thread that reads a source, keeps a copy and writes to a sink.

    `done` is called when the thread is about to end. When the sink takes no more, the source is closed, so that the
    child learns of it as it would without us; with `gone`, that is called instead, and what follows is dropped.
    """

    def __init__(
        self,
        source: int,
        sink: int,
        tail: Tail,
        *,
        done: Callable[[], None] = lambda: None,
        gone: Callable[[], None] | None = None,
    ) -> None:
        self.source = source
        self._stream = open(source, "rb", buffering=0, closefd=gone is None)  # noqa: SIM115
        self._sink = sink
        self._goes = {*_GONE, errno.EIO} if os.isatty(sink) else _GONE
        self._tail = tail
        self._done = done
        self._gone = gone
        self._deaf = False
        self._ended = False
        self._rest = _REST
        self._bell = Bell()
        self._asked = self._answered = 0
        self._settled = Condition()
        self._thread = Thread(target=self._run, name=f"relay to {sink}", daemon=True)
        self.is_done = False
        self.is_reading = False
        #: How many bytes came so far, and why the sink took no more, where that was no reader's choice.
        self.passed = 0
        self.failure = ""

    def start(self) -> None:
        """Begin to pass on."""
        if os.name == "posix":
            os.set_blocking(self.source, False)
        self._thread.start()

    def end(self) -> None:
        """Say that the child is gone: what it wrote is still passed on, then the thread ends."""
        self._ended = True
        self._bell.ring()

    def settle(self, seconds: float) -> None:
        """Wait until all that has come by now was passed on, for so long at most."""
        self._asked += 1
        asked = self._asked
        self._bell.ring()
        with self._settled:
            self._settled.wait_for(lambda: self._answered >= asked or self.is_done, seconds)

    def join(self, seconds: float | None = None) -> None:
        """Wait for the end of the thread, for so long at most."""
        self._thread.join(seconds)

    def close(self) -> None:
        """Give back what is held, if the thread has ended; one that is stuck keeps it."""
        if self._thread.ident is None:
            self._stream.close()
            self.is_done = True
        elif self.is_done:
            self.join()
        else:
            return
        self._bell.close()

    def _run(self) -> None:
        buffer = bytearray(_PIECE)
        view = memoryview(buffer)
        try:
            while count := self._read(buffer):
                self.passed += count
                self._tail.add(view[:count])
                if not self._deaf and not self._write(view[:count]):
                    break
        finally:
            self._stream.close()
            with self._settled:
                self.is_done = True
                self._settled.notify_all()
            self._done()

    def _read(self, buffer: bytearray) -> int:
        """Return how many bytes came; 0 at the end of the stream, or when child and output are both gone."""
        while True:
            ended, asked = self._ended, self._asked  # before reading: what they speak of is there by now
            self.is_reading = True
            try:
                count = self._stream.readinto(buffer)
            except OSError:
                return 0
            self.is_reading = False
            if count is None and not ended:
                self._rest_until_called(asked)
                continue
            self._rest -= (count or 0) if ended else 0
            return count or 0 if self._rest >= 0 else 0

    def _rest_until_called(self, asked: int) -> None:
        """Wait for more; all that was there when `asked` was read is passed on."""
        with self._settled:
            self._answered = asked
            self._settled.notify_all()
        if self._bell.heard in wait(self.source, self._bell.heard):
            self._bell.hush()

    def _write(self, piece: memoryview) -> bool:
        """Write a piece; tell whether to go on."""
        try:
            while piece:
                piece = piece[self._put(piece) :]
        except OSError as error:
            return self._lose(error)
        return True

    def _put(self, piece: memoryview) -> int:
        try:
            return os.write(self._sink, piece)
        except BlockingIOError:
            # Whoever gave us this stream made it non-blocking; others share it, so it stays as it is.
            wait(writable=self._sink)
            return 0

    def _lose(self, error: OSError) -> bool:
        # A pipe without a reader is an invalid argument to Windows.
        if error.errno not in self._goes and not (os.name == "nt" and error.errno == errno.EINVAL):
            self.failure = f"the output could not be passed on: {error.strerror or error}"
        if self._gone is None:
            return False
        self._deaf = True
        if not self._ended:
            self._gone()
        return True


class Bell:
    """Something to wake a thread with that waits for a descriptor: `heard` can be read while it rings."""

    def __init__(self) -> None:
        self.heard, self._rope = os.pipe()

    def ring(self) -> None:
        """Wake whoever waits, and who will, until it is hushed."""
        os.write(self._rope, b".")

    def hush(self) -> None:
        """Take one ring back."""
        os.read(self.heard, 1)

    def close(self) -> None:
        """Give both ends back; nobody may wait any more."""
        os.close(self._rope)
        os.close(self.heard)


def wait(*readable: int, writable: int = -1) -> set[int]:
    """Wait until one of these can be read or written, or has failed; return which."""
    writing = [writable] if writable >= 0 else []
    if sys.platform == "darwin":
        # There, poll cannot wait for a terminal.
        ready = select.select(readable, writing, [])
        return {*ready[0], *ready[1]}
    poll = select.poll()
    for fd in readable:
        poll.register(fd, select.POLLIN)
    for fd in writing:
        poll.register(fd, select.POLLOUT)
    return {fd for fd, _ in poll.poll()}


def same(one: int, other: int) -> bool:
    """Tell whether two descriptors lead to the same pipe, file or device."""
    try:
        a, b = os.fstat(one), os.fstat(other)
    except OSError:
        return False
    return (a.st_dev, a.st_ino, a.st_rdev) == (b.st_dev, b.st_ino, b.st_rdev) and a.st_ino != 0


def pipe(_sink: int) -> tuple[int, int]:
    """Make a way to an output; return where it is read, and the end for the child."""
    return os.pipe()


def channels(
    sinks: Sequence[int],
    tail: Tail,
    done: Callable[[], None] = lambda: None,
    make: Callable[[int], tuple[int, int]] = pipe,
) -> tuple[dict[int, int], list[Relay]]:
    """Make a way to each of these outputs; return the ends for the child, by output, and the relays.

    Outputs that lead to one place share one, so that the order between them holds. An output for which none can be made
    is left out, and so inherited. Nothing flows yet.
    """
    ends: dict[int, int] = {}
    relays: list[Relay] = []
    for sink in sinks:
        twin = next((other for other in ends if same(other, sink)), None)
        if twin is not None:
            ends[sink] = ends[twin]
            continue
        with suppress(OSError):
            source, ends[sink] = make(sink)
            relays.append(Relay(source, sink, tail, done=done))
    return ends, relays


def let_go(ends: dict[int, int]) -> None:
    """Close the child's ends of its pipes, once the child has them."""
    for end in set(ends.values()):
        with suppress(OSError):
            os.close(end)
