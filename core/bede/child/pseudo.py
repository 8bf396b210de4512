"""A terminal for the child, between it and the real one, so that its output can be kept while a person looks.

Holds the pseudo-terminal, the real terminal's mode while keys go to the child, and both directions of the traffic.
Promises that the child finds what it would without us: a terminal where there was one, with its size and modes,
keys as they are typed, job control (Ctrl-C, Ctrl-Z, `fg`, `bg`); and that the real terminal's mode is restored, however
it ends. The real terminal is touched only while it is ours and the child wants it. For POSIX only, like `monitor`.
"""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import termios
from collections.abc import Iterator
from contextlib import suppress
from threading import Thread
from typing import Any, NoReturn

from bede.child import monitor
from bede.child.monitor import REPORT, Post
from bede.child.order import Order, Refused
from bede.child.relay import Bell, Relay, channels, let_go, same, wait
from bede.child.signals import Signals, wake
from bede.child.start import WRAPPER
from bede.child.tail import Tail

#: What a terminal would tell the whole foreground group; the rest is for the child alone.
_OF_A_GROUP = {
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP, signal.SIGWINCH,
}  # fmt: skip

#: Seconds that output may take to be shown before we stop.
_PATIENCE = 0.5


class Real:
    """The terminal that the person has before him: where keys are read, where output is shown."""

    def __init__(self, keys: int, screen: int, *, owned: bool = False) -> None:
        self.keys = keys
        self.screen = screen
        self.modes = termios.tcgetattr(keys)
        self.is_raw = False
        self._owned = owned

    def is_ours(self) -> bool:
        """Tell whether we are in its foreground; nobody is in that of a terminal without a session."""
        try:
            return os.tcgetpgrp(self.keys) == os.getpgrp()
        except OSError:
            return True

    def has_jobs(self) -> bool:
        """Tell whether there is a shell that could wake us again."""
        with suppress(OSError):
            return os.tcgetpgrp(self.keys) > 0
        return False

    def size(self) -> bytes:
        """Return rows, columns and pixels as the system writes them."""
        return fcntl.ioctl(self.screen, termios.TIOCGWINSZ, bytes(8))

    def go_raw(self) -> None:
        """Hand every key through as it is typed; what was typed ahead is kept."""
        if not self.is_raw:
            with suppress(OSError, termios.error):
                self.modes = termios.tcgetattr(self.keys)
                termios.tcsetattr(self.keys, termios.TCSADRAIN, _raw(self.modes))
                self.is_raw = True

    def restore(self) -> None:
        """Give the terminal back as it was, unless somebody else has taken it and made it his."""
        if self.is_raw and self.is_ours():
            with suppress(OSError, termios.error):
                termios.tcsetattr(self.keys, termios.TCSADRAIN, self.modes)
        self.is_raw = False

    def close(self) -> None:
        """Let go of what was opened for it."""
        if self._owned:
            os.close(self.keys)


def _raw(modes: list[Any]) -> list[Any]:
    """Return a terminal's modes with all processing switched off."""
    inward, outward, control, local, *speeds, characters = modes
    inward &= ~(
        termios.IGNBRK | termios.BRKINT | termios.PARMRK | termios.ISTRIP
        | termios.INLCR | termios.IGNCR | termios.ICRNL | termios.IXON
    )  # fmt: skip
    local &= ~(termios.ECHO | termios.ECHONL | termios.ICANON | termios.ISIG | termios.IEXTEN)
    control = control & ~(termios.CSIZE | termios.PARENB) | termios.CS8
    characters = list(characters)
    characters[termios.VMIN], characters[termios.VTIME] = 1, 0
    return [inward, outward & ~termios.OPOST, control, local, *speeds, characters]


def channel(sink: int) -> tuple[int, int]:
    """Make a way to an output; return where it is read, and the end for the child: a terminal, if the output is one.

    That terminal only shows: it has no keys, belongs to no session, and leaves all processing to the real one.
    """
    if not os.isatty(sink):
        return os.pipe()
    master, slave = os.openpty()
    with suppress(OSError, termios.error):
        modes = termios.tcgetattr(sink)
        modes[1] &= ~termios.OPOST
        termios.tcsetattr(slave, termios.TCSANOW, modes)
        fcntl.ioctl(master, termios.TIOCSWINSZ, fcntl.ioctl(sink, termios.TIOCGWINSZ, bytes(8)))
    return master, slave


def find() -> Real | None:
    """Return the terminal that our output goes to, if it is our session's, or at least our keys come from it."""
    screen = next((fd for fd in (1, 2) if os.isatty(fd)), None)
    if screen is None:
        return None
    with suppress(OSError, termios.error):
        if os.isatty(0) and same(0, screen):
            return Real(0, screen)
        os.tcgetpgrp(screen)  # fails unless it is the terminal of our session
        return Real(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY), screen, owned=True)
    return None


class Keys:
    """What is typed, on its way to the child, while the child has the terminal."""

    def __init__(self, real: Real, sink: int) -> None:
        self._real = real
        self._sink = sink
        self._left = b""
        self._bell: Bell | None = None
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin to read keys, or go on."""
        if self._thread is None or not self._thread.is_alive():
            self.stop()
            self._bell = Bell()
            self._thread = Thread(target=self._run, args=(self._bell.heard,), name="keys", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Read no more; what was read and not yet passed on waits for the next start."""
        if self._bell is not None and self._thread is not None:
            self._bell.ring()
            self._thread.join()
            self._bell.close()
            self._bell = None

    def _run(self, bell: int) -> None:
        while self._pass_on(bell) and bell not in wait(self._real.keys, bell):
            if not self._real.is_ours():
                return
            try:
                self._left = os.read(self._real.keys, 4096)
            except OSError:
                self._left = b""
            if not self._left:
                if self._real.is_ours():
                    _hang_up()  # without us, the child would hear of it now
                return

    def _pass_on(self, bell: int) -> bool:
        """Pass on what was read; tell whether to read more."""
        while self._left:
            if bell in wait(bell, writable=self._sink):
                return False
            with suppress(BlockingIOError):
                self._left = self._left[os.write(self._sink, self._left) :]
        return True


def session(order: Order, tail: Tail) -> Session | None:
    """Return a session for a command; None where there is no terminal to be had, real or not."""
    with suppress(OSError, termios.error):
        real = find()
        return None if real is None else Session(real, order, tail)
    return None


class Session:
    """A child on a terminal of its own.

    It is given the real terminal's keys from the start, unless it is one of several in a pipeline, which may want
    them too; then it gets them when it first asks, by reading from its terminal or by changing its mode.

    Raises:
        OSError, termios.error: there is no pseudo-terminal to be had.
    """

    others: tuple[int, ...] = (
        signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGCONT, signal.SIGWINCH,
    )  # fmt: skip

    def __init__(self, real: Real, order: Order, tail: Tail) -> None:
        self._real = real
        self._order = order
        self._wanted = not any(_is_pipe(fd) for fd in (0, 1, 2))
        self._master, self._slave = os.openpty()
        self._processing = 0
        termios.tcsetattr(self._slave, termios.TCSANOW, real.modes)
        self._resize()
        self._keys = Keys(real, self._master)
        others = [fd for fd in (1, 2) if not self._is_screen(fd)]
        self._ends, self.relays = channels(others, tail, wake, channel)
        self.relays.append(Relay(self._master, real.screen, tail, done=wake, gone=_hang_up))
        self.is_whole = len(self._ends) == len(others)
        self._monitor = self._child = 0
        self._reports = self._dismiss = -1

    def start(self, signals: Signals) -> None:
        """Start the child.

        Raises:
            Refused: it cannot be started.
        """
        self._signals = signals
        self._resize()  # once more: until now, nobody told us of a change
        front = self._wanted and self._real.is_ours()
        self._plain(not front)
        if front:
            self._real.go_raw()
        self._split(signals, front)
        kind, number, text = next(self._heard(), (monitor.REFUSED, WRAPPER, b""))
        if kind == monitor.REFUSED:
            raise Refused(number, text.decode("utf-8", "replace"))
        self._child = number
        os.set_blocking(self._reports, False)
        for relay in self.relays:
            relay.start()
        if front:
            self._keys.start()

    def _split(self, signals: Signals, front: bool) -> None:
        """Make the monitor, which starts the child."""
        self._reports, report = os.pipe()
        leave, self._dismiss = os.pipe()
        post = Post(self._slave, report, leave, frozenset(signals.before), front)
        try:
            self._monitor = os.fork()
            if not self._monitor:
                self._become(post)
        except OSError as error:
            raise Refused(WRAPPER, f"cannot start a process: {error.strerror}") from error
        finally:
            let_go({**self._ends, -1: report, -2: leave})

    def _become(self, post: Post) -> NoReturn:
        """Be the monitor, and end as nothing else."""
        try:
            for fd in (self._reports, self._dismiss, *(relay.source for relay in self.relays)):
                os.close(fd)
            monitor.watch(post, self._order, [self._stream(fd) for fd in (0, 1, 2)], set(self._ends.values()))
        finally:
            os._exit(0)

    def _stream(self, fd: int) -> int | None:
        return self._slave if self._is_screen(fd) else self._ends.get(fd)

    def _is_screen(self, fd: int) -> bool:
        return os.isatty(fd) and same(fd, self._real.screen)

    def reap(self) -> int | None:
        """Look at what became of the child; return its exit code once it has ended.

        Raises:
            Refused: the process between us and the child is gone, and nobody will ever know.
        """
        for kind, number, _ in self._heard():
            if kind == monitor.ENDED:
                return os.waitstatus_to_exitcode(number)
            self._stopped(number)
        return None

    def _heard(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield the monitor's reports that are there."""
        while True:
            try:
                head = os.read(self._reports, REPORT.size)
            except BlockingIOError:
                return
            if not head:
                raise Refused(WRAPPER, "the process that held the command's terminal was killed", ran=True)
            kind, number, length = REPORT.unpack(head)
            yield kind, number, os.read(self._reports, length) if length else b""

    def _stopped(self, number: int) -> None:
        """Let the child go on with the terminal, if that was why it stopped; else stop as it did, until woken."""
        asked = number in (signal.SIGTTIN, signal.SIGTTOU)
        self._wanted = self._wanted or asked
        if asked and self._real.is_ours() and not self._real.is_raw:
            self._go_on()
            return
        self._keys.stop()
        for relay in self.relays:
            relay.settle(_PATIENCE)
        self._real.restore()
        # Not SIGSTOP: where nobody could wake us, we must not sleep.
        stopper = signal.SIGTSTP if number == signal.SIGSTOP else number
        woken = self._real.has_jobs() and self._signals.stop(stopper)
        if not woken and number == signal.SIGSTOP:
            self._take()  # whoever stopped the child may wake it
            return
        if not woken and asked and not self._real.is_ours():
            # What becomes of those who are stopped for ever.
            self.forward(signal.SIGHUP, False)
        self._go_on()

    def _go_on(self) -> None:
        """Let the child go on, in the foreground if we are there and it wants to be."""
        with suppress(OSError):
            os.kill(self._monitor, monitor.FRONT if self._take() else monitor.BACK)

    def _take(self) -> bool:
        """Take the real terminal for the child, if it is ours to take and the child wants it; else leave it."""
        self._resize()
        taken = self._wanted and self._real.is_ours()
        self._plain(not taken)
        if taken:
            self._real.go_raw()
            self._keys.start()
        else:
            self._keys.stop()
            self._real.restore()
        return taken

    def _plain(self, plain: bool) -> None:
        """Let output be processed once: by the real terminal while that is not raw, else by the child's."""
        with suppress(OSError, termios.error):
            modes = termios.tcgetattr(self._slave)
            if plain:
                self._processing |= modes[1] & termios.OPOST
                modes[1] &= ~termios.OPOST
            else:
                modes[1] |= self._processing
                self._processing = 0
            termios.tcsetattr(self._slave, termios.TCSANOW, modes)

    def _resize(self) -> None:
        with suppress(OSError):
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, self._real.size())

    def forward(self, number: int, from_terminal: bool) -> None:
        """Let the child know of a signal; its group never hears of one by itself."""
        if number == signal.SIGCONT:
            self._go_on()
            return
        if number == signal.SIGWINCH:
            self._resize()
            if self._real.is_raw:
                return  # the child's terminal told it
        with suppress(OSError):
            (os.killpg if number in _OF_A_GROUP else os.kill)(self._child, number)

    def close(self) -> None:
        """Give the real terminal back, and let the session end; all output was passed on before."""
        self._keys.stop()
        self._real.restore()
        let_go({1: self._dismiss, 2: self._reports})
        if self._monitor:
            with suppress(ChildProcessError):
                os.waitpid(self._monitor, 0)
        for relay in self.relays:
            relay.close()
        os.close(self._slave)
        if self.relays[-1].is_done:
            os.close(self._master)
        self._real.close()


def _is_pipe(fd: int) -> bool:
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _hang_up() -> None:
    os.kill(os.getpid(), signal.SIGHUP)
