"""The signals of a wrapped session: which are forwarded to the server, and how the relay receives them.

Every signal that could be meant for the server is forwarded, unless the server has received it already with
the rest of the process group. The witness (``witness.py``), a process of ours in that group, shows that. Two
kinds are never forwarded: signals that report a fault of the relay's own process, and the job control signals
that a terminal sends to a process that reads or writes in the background.

*Blocked signals.* A host may start the relay with signals blocked. The server is started with the same
signals blocked, but the relay receives its signals in any case. They stay blocked until the last fork, so
that no child receives a signal that is meant for the relay.

*Ignored signals.* The server is started with the signals ignored that the host ignored (``nohup``, a job in
the background of a script), and may set handlers for them. So they are forwarded like all others. They stay
ignored until the server has started, because the server inherits that.
"""

from __future__ import annotations

import _thread
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterable, Iterator
    from typing import Final

    Compare = Callable[[bytes, Callable[[], bytes]], list[tuple[int, bool]]]
    """Type of ``Witness.compare``."""
else:
    import _signal as signal  # the module signal only adds enums, for 4 ms of start-up


def _existing_signals(*names: str) -> dict[int, str]:
    """Return the signals with these names, number -> name; those that the system lacks are left out."""
    return {getattr(signal, name): name for name in names if hasattr(signal, name)}


ENDING: Final = _existing_signals("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
"""The signals that ask a proxy to end, with their names in the recording."""

_OTHER_SIGNALS: Final = (
    *("SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGIO", "SIGPWR", "SIGURG"),
    *("SIGWINCH", "SIGTSTP", "SIGCONT", "SIGINFO", "SIGSTKFLT", "SIGABRT"),
)

FORWARDED: Final = {**ENDING, **_existing_signals(*_OTHER_SIGNALS)}
"""The signals that are forwarded to the server, with their names. Real-time signals are forwarded too, but
are not listed here."""

LEAVING: Final = (*ENDING, *_existing_signals("SIGQUIT", "SIGABRT"))
"""The signals that a host sends when it wants the server to exit."""


class Signals:
    """Receives signals. ``fd`` is readable when some have come.

    Attributes:
        numbers: the signals that are received.
        ignored: those of them that were ignored when the host started this process.
        have_come: whether some have come since ``read`` was called.
        blocked: the signals that were blocked when the host started this process.
        is_child_ignored: whether the host started this process with SIGCHLD ignored, as the server must be.
    """

    def __init__(self) -> None:
        self.fd, self._write_fd = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write_fd, False)
        self._compare: Compare | None = None
        self.is_child_ignored = signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN
        if self.is_child_ignored:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.numbers = {signal.SIGCHLD, *_forwarded_numbers()}
        self.ignored = {number for number in self.numbers if signal.getsignal(number) == signal.SIG_IGN}
        self.blocked: Iterable[int] = signal.pthread_sigmask(signal.SIG_BLOCK, self.numbers)
        self.have_come = False
        catch(self.numbers, self._write_fd, self._note_signal)

    def catch_ignored(self) -> None:
        """From now on receive the ignored signals, too, because the server has started."""
        for number in self.ignored:
            signal.signal(number, self._note_signal)

    def start(self, compare: Compare | None) -> None:
        """Begin to receive signals, after the last fork. ``compare`` is ``None`` without a witness."""
        self._compare = compare
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self.numbers)

    def read(self) -> list[tuple[int, bool]]:
        """Return the signals that have come: the number, and whether the server has received it already."""
        self.have_come = False
        own = self._read_numbers()
        if self._compare is None:
            return [(number, False) for number in own]
        return self._compare(own, self._read_numbers)

    def _note_signal(self, *_: object) -> None:
        self.have_come = True

    def _read_numbers(self) -> bytes:
        try:
            return os.read(self.fd, 1 << 16)
        except BlockingIOError:
            return b""


def _do_nothing(number: int, frame: object) -> None:
    """Do nothing: a handler for signals whose number, already written to the descriptor, is enough."""


def catch(
    numbers: Iterable[int], wakeup_fd: int, handler: Callable[[int, object], None] = _do_nothing
) -> None:
    """From now on, when one of these signals comes, its number is written to the descriptor ``wakeup_fd``.

    A signal that was ignored when the host started this process stays ignored."""
    signal.set_wakeup_fd(wakeup_fd, warn_on_full_buffer=False)
    for number in numbers:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


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


def _forwarded_numbers() -> Iterator[int]:
    yield from FORWARDED
    if hasattr(signal, "SIGRTMIN"):
        yield from range(signal.SIGRTMIN, signal.SIGRTMAX + 1)
