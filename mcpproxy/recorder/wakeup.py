"""Wait until the relay wakes the recorder, or exits.

The relay must never wait for the recorder, and need not wake it for every record. A byte of shared memory
says whether the recorder sleeps; only then does the relay write to the wake pipe. Before it sleeps, the
recorder naps for some milliseconds. During a busy conversation it reads the journal once after each nap, and
the relay needs no system call to wake it. When nothing happens, the recorder sleeps until it is woken, so an
idle session costs nothing."""

import os
import select
import sys
import time
from collections.abc import Callable
from typing import Final, Protocol

from mcpproxy.relay import journal

NAP_S: Final = 0.002
LONGEST_NAP_S: Final = 0.016


class Flag(Protocol):
    """A byte shared with the relay: 1 while the recorder sleeps and must be woken."""

    def __setitem__(self, index: int, value: int, /) -> None: ...


class Wakeup:
    """The recorder's end of the wake pipe ``fd``.

    ``asleep`` is the shared byte; if it is ``None``, the relay writes into the pipe for every record.
    ``await_more`` and ``pause`` return whether the relay is gone."""

    def __init__(self, fd: int, asleep: Flag | None) -> None:
        self._fd = fd
        self._asleep = asleep
        self._nap_s = NAP_S
        self.unwritten: bytes | None = None
        """Journal records that the relay could not write and sent through the pipe when it exited."""

    def await_more(self, has_more: Callable[[], bool]) -> bool:
        """Nap. If ``has_more`` then says that there are no records yet, sleep until the relay writes."""
        if self.pause(self._nap_s):
            return True
        if has_more():
            self._nap_s = min(2 * self._nap_s, LONGEST_NAP_S)
            return False
        self._nap_s = NAP_S
        if self._asleep is None:
            return self._read_pipe()
        self._asleep[0] = 1
        try:
            # The relay may have read the byte just before it was set, so look once more.
            return not has_more() and self._read_pipe()
        finally:
            self._asleep[0] = 0

    def pause(self, for_s: float) -> bool:
        """Wait ``for_s`` seconds, or less if the relay exits."""
        if sys.platform == "win32":
            time.sleep(for_s)
            return self._is_ended()
        # While the shared byte is 0 the relay writes nothing. Without that byte, records end the wait too.
        ready, _, _ = select.select([self._fd], [], [], for_s)
        return bool(ready) and self._read_pipe()

    def _read_pipe(self) -> bool:
        """Read the pipe. Return whether the relay is gone."""
        data = os.read(self._fd, 64 << 10)
        if self.unwritten is not None:
            self.unwritten += data
        elif journal.UNWRITTEN in data:
            self.unwritten = data[data.index(journal.UNWRITTEN) + 1 :]
        return not data

    if sys.platform == "win32":

        def _is_ended(self) -> bool:
            """Whether the pipe is empty and has no writer."""
            import _winapi
            import msvcrt

            try:
                _winapi.PeekNamedPipe(msvcrt.get_osfhandle(self._fd), 0)
            except OSError:
                return True
            return False
