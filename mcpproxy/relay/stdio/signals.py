"""The signals of a wrapped session: which are passed on to the server, and how the relay hears them.

What the server does when it gets a signal is its own affair, so whatever could be meant for it is passed on.
The exceptions are signals that report a fault of ours, and those of job control that the terminal sends to
a process that reads or writes from the background.

*Who sent it* matters. What a terminal sends (Ctrl-C, Ctrl-\\, Ctrl-Z, a new window size) goes to its whole
foreground group, so the server has it already; what somebody sends to our process alone it has not. A signal
handler is not told. Therefore, where there is a terminal, the signals stay blocked, and a thread waits for
them and writes what it learns into a pipe. Without a terminal there are handlers: a second thread makes every
system call of the first a little slower. Where a thread is not told either, a signal that a terminal may have
sent is taken for the terminal's while we are in its foreground.

*Blocked signals.* A host may start us with signals blocked. The server is started with the same ones blocked;
the relay needs to hear of its children all the same.
"""

from __future__ import annotations

import _thread
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Iterable, Iterator
    from typing import Final
else:
    import _signal as signal  # what the module signal adds are enums, at 4 ms of start-up

ENDING: Final[dict[int, str]] = {
    signal.SIGINT: "SIGINT",
    signal.SIGTERM: "SIGTERM",
    signal.SIGHUP: "SIGHUP",
}
"""The signals by which a proxy is told to end, with the names they are recorded by."""

_NAMES: Final = (
    *("SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGIO", "SIGPWR", "SIGURG"),
    *("SIGWINCH", "SIGTSTP", "SIGCONT", "SIGINFO"),
)

FORWARDED: Final[dict[int, str]] = {
    **ENDING,
    **{getattr(signal, name): name for name in _NAMES if hasattr(signal, name)},
}
"""The signals that are passed on to the server, but for real-time ones, with their names."""

LEAVING: Final = (*ENDING, signal.SIGQUIT)
"""What a host sends when it wants the server to leave."""

IGNORED: Final = (signal.SIGPIPE, signal.SIGXFSZ)
"""What Python ignores; the server must not."""

_GROUPS: Final = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGWINCH)
"""What a terminal sends to its whole foreground group."""

_SI_KERNEL: Final = 0x80  # the sender of a signal that no process sent

_HAS_SENDER: Final = hasattr(signal, "sigwaitinfo")


class Signals:
    """Hears signals from now on. ``fd`` is readable when some have come.

    Attributes:
        given: which signals were blocked when we were started.
        is_child_ignored: whether the host has its children ignored, and so the server's.
    """

    def __init__(self) -> None:
        self.fd, self._written = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._written, False)
        self.is_child_ignored = signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN
        if self.is_child_ignored:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # One that the host has us ignore stays ignored.
        numbers = [number for number in _forwarded() if signal.getsignal(number) != signal.SIG_IGN]
        self._numbers = {signal.SIGCHLD, *numbers}
        self._tells_sender = False
        self.given: Iterable[int] = signal.pthread_sigmask(signal.SIG_BLOCK, self._numbers)

    def start(self) -> None:
        """Have them reported. To be called when all is forked: no thread goes along."""
        if _HAS_SENDER and _has_terminal():
            try:
                _thread.start_new_thread(self._hear, ())
                self._tells_sender = True
                return
            except RuntimeError:  # no more threads for this user
                pass
        signal.set_wakeup_fd(self._written, warn_on_full_buffer=False)
        for number in self._numbers:
            signal.signal(number, _noted)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self._numbers)

    def read(self) -> Iterator[tuple[int, bool]]:
        """What has come: the number, and whether the server has it already."""
        data = os.read(self.fd, 64)
        if self._tells_sender:
            for number, is_kernels in zip(data[::2], data[1::2], strict=True):
                yield number, bool(is_kernels) and number in _GROUPS
        else:
            for number in data:
                yield number, number in _GROUPS and _is_in_foreground()

    def _hear(self) -> None:
        while True:
            heard = signal.sigwaitinfo(self._numbers)
            try:
                os.write(self._written, bytes((heard.si_signo, heard.si_code == _SI_KERNEL)))
            except BlockingIOError:  # thousands were not looked at yet
                pass


def name_of(number: int) -> str:
    """The name that a signal is recorded by."""
    return FORWARDED.get(number) or f"SIGRTMIN+{number - signal.SIGRTMIN}"


def stop() -> None:
    """Stop this process as Ctrl-Z stops one; returns when it is continued."""
    handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTSTP,))
    signal.pthread_kill(_thread.get_ident(), signal.SIGTSTP)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    signal.signal(signal.SIGTSTP, handler)


def _forwarded() -> Iterator[int]:
    yield from FORWARDED
    if hasattr(signal, "SIGRTMIN"):
        yield from range(signal.SIGRTMIN, signal.SIGRTMAX + 1)


def _noted(number: int, frame: object) -> None:
    """The handler of every signal: its number is in the pipe already."""


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY))
    except OSError:
        return False
    return True


def _is_in_foreground() -> bool:
    """Whether a terminal's signals would reach us, and the server with us."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
