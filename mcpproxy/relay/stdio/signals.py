"""The signals of a wrapped session: which are forwarded to the server, and how the relay receives them.

Every signal that could be meant for the server is forwarded. Two kinds are not: signals that report a fault
of the relay's own process, and the job control signals that a terminal sends to a process that reads or
writes in the background.

*The sender* matters. A signal of a terminal (Ctrl-C, Ctrl-\\, Ctrl-Z, a new window size) goes to its whole
foreground process group, so the server has received it already. A signal that a process sends to the relay
alone has not reached the server. A signal handler does not learn the sender. Therefore, if there is a
terminal, the signals stay blocked, and a thread waits for them and writes number and sender of each into a
pipe.
Without a terminal there are handlers, because a second thread makes every system call of the first a little
slower. On systems where a thread does not learn the sender either, a signal that a terminal can send is
assumed to come from the terminal while the relay is in the terminal's foreground group.

*Blocked signals.* A host may start the relay with signals blocked. The server is started with the same
signals blocked, but the relay receives SIGCHLD in any case.
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
    import _signal as signal  # the module signal only adds enums, for 4 ms of start-up


def _existing(*names: str) -> dict[int, str]:
    """Return those of the signals that this system has."""
    return {getattr(signal, name): name for name in names if hasattr(signal, name)}


ENDING: Final = _existing("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
"""The signals that ask a proxy to end, with their names in the recording."""

_NAMES: Final = (
    *("SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGIO", "SIGPWR", "SIGURG"),
    *("SIGWINCH", "SIGTSTP", "SIGCONT", "SIGINFO"),
)

FORWARDED: Final = {**ENDING, **_existing(*_NAMES)}
"""The signals that are forwarded to the server, with their names. Real-time signals are forwarded too, but
are not listed here."""

LEAVING: Final = (*ENDING, *_existing("SIGQUIT"))
"""The signals that a host sends when it wants the server to exit."""

IGNORED: Final = tuple(_existing("SIGPIPE", "SIGXFSZ"))
"""The signals that Python ignores. The server must start with the default action for them."""

_GROUP_SIGNALS: Final = tuple(_existing("SIGINT", "SIGQUIT", "SIGTSTP", "SIGWINCH"))
"""The signals that a terminal sends to its whole foreground group."""

_SI_KERNEL: Final = 0x80  # the code of a signal that no process sent

_HAS_SENDER: Final = hasattr(signal, "sigwaitinfo")


class Signals:
    """Receives signals, from the call of ``start`` on. ``fd`` is readable when signals have come.

    Attributes:
        blocked: the signals that were blocked when the host started us.
        is_child_ignored: whether the host started us with SIGCHLD ignored; the server must ignore it too.
    """

    def __init__(self) -> None:
        self.fd, self._write_fd = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write_fd, False)
        self.is_child_ignored = signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN
        if self.is_child_ignored:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # A signal that was ignored when the host started us stays ignored.
        numbers = [number for number in _forwarded() if signal.getsignal(number) != signal.SIG_IGN]
        self._numbers = {signal.SIGCHLD, *numbers}
        self._knows_sender = False
        self.blocked: Iterable[int] = signal.pthread_sigmask(signal.SIG_BLOCK, self._numbers)

    def start(self) -> None:
        """Begin to receive signals. Call it after the last fork, because a fork does not copy the thread."""
        if _HAS_SENDER and _has_terminal():
            try:
                _thread.start_new_thread(self._receive, ())
                self._knows_sender = True
                return
            except RuntimeError:  # no more threads for this user
                pass
        catch(self._numbers, self._write_fd)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self._numbers)

    def read(self) -> Iterator[tuple[int, bool]]:
        """Yield the signals that have come: the number, and whether the server has received it already."""
        data = os.read(self.fd, 64)
        if self._knows_sender:
            for number, from_kernel in zip(data[::2], data[1::2], strict=True):
                yield number, bool(from_kernel) and number in _GROUP_SIGNALS
        else:
            for number in data:
                yield number, number in _GROUP_SIGNALS and _is_in_foreground()

    def _receive(self) -> None:
        while True:
            info = signal.sigwaitinfo(self._numbers)
            try:
                os.write(self._write_fd, bytes((info.si_signo, info.si_code == _SI_KERNEL)))
            except BlockingIOError:  # the pipe is full: thousands of signals wait in it
                pass


def catch(numbers: Iterable[int], wakeup_fd: int) -> None:
    """Have the number of each of these signals written to the descriptor ``wakeup_fd`` when it comes.

    A signal that was ignored when the host started us stays ignored."""
    signal.set_wakeup_fd(wakeup_fd, warn_on_full_buffer=False)
    for number in numbers:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _do_nothing)


def name_of(number: int) -> str:
    """Return the name of a signal in the recording."""
    return FORWARDED.get(number) or f"SIGRTMIN+{number - signal.SIGRTMIN}"


def stop() -> None:
    """Stop this process as Ctrl-Z would; return when it is continued."""
    handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTSTP,))
    signal.pthread_kill(_thread.get_ident(), signal.SIGTSTP)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    signal.signal(signal.SIGTSTP, handler)


def _forwarded() -> Iterator[int]:
    yield from FORWARDED
    if hasattr(signal, "SIGRTMIN"):
        yield from range(signal.SIGRTMIN, signal.SIGRTMAX + 1)


def _do_nothing(number: int, frame: object) -> None:
    """The handler of every signal. It does nothing, because the number is in the pipe already."""


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY))
    except OSError:
        return False
    return True


def _is_in_foreground() -> bool:
    """Whether this process, and so the server too, is in the foreground group of a terminal."""
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
