"""Decide when the recorder reads the journal (the relay's copy of the traffic): when the relay wakes it, but
not during a burst.

The relay must never wait for the recorder, and need not wake it for every record. A byte of shared memory
says whether the recorder sleeps; only then does the relay write to the wake pipe. Before it sleeps, the
recorder naps for some milliseconds. During a busy conversation it reads the journal once after each nap, and
the relay needs no system call to wake it. When nothing happens, the recorder sleeps until it is woken, so an
idle session costs nothing.

A recorder that cannot keep up with a burst would only take a processor from the peers that make the burst.
So it gives way: it sleeps until the burst is over, until the last record that it has read is older than
``LONGEST_BURST_NS``, or until the unread records have more than ``LARGEST_BURST_BYTES``. If it is late
nevertheless, it takes its full priority."""

import os
import sys
import time
from collections.abc import Callable
from typing import Final, Protocol

from mcpproxy.base.ready import is_readable
from mcpproxy.record.recorder.journal_reader import JournalReader
from mcpproxy.record.relay import journal, priority

NAP_S: Final = 0.002
LONGEST_NAP_S: Final = 0.016
"""The first nap, and the longest: while records keep coming, each nap is twice as long as the one before."""

LONGEST_BURST_NS: Final = 1_000_000_000
"""How old the last record that was read may be while the recorder gives way."""

LARGEST_BURST_BYTES: Final = journal.LIMIT_BYTES // 8
"""About how many bytes may be unread while it gives way, so that the journal has room for more."""

LATE_NS: Final = 2_000_000_000
"""If the last record that was read is older, the recorder takes its full priority, until it has caught up."""

_WINDOW_NS: Final = 5_000_000
"""Over this time the recorder compares the processor time that it needs with the time that passes."""

_BURST_NAP_S: Final = 0.01
"""If the journal does not grow for this long, the burst is over."""


class Flag(Protocol):
    """Memory shared with the relay. Its first byte is 1 while the recorder sleeps and must be woken."""

    def __setitem__(self, index: int, value: int, /) -> None: ...


class Wakeup:
    """The recorder's end of the wake pipe ``fd``.

    ``asleep`` has the shared byte; if it is ``None``, the relay writes into the pipe whenever there are
    records. ``await_more`` and ``pause`` return whether the relay is gone."""

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
        """Wait ``for_s`` seconds, or less if the relay exits or, without the shared byte, writes; on Windows
        never less."""
        if sys.platform == "win32":
            time.sleep(for_s)
            return self._is_ended()
        # While the shared byte is 0 the relay writes nothing. Without that byte, records end the wait too.
        return is_readable(self._fd, for_s) and self._read_pipe()

    def await_end(self) -> None:
        """Wait until the relay is gone."""
        while not self._read_pipe():
            pass

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


class Pace:
    """Decides whether the recorder that reads ``reader`` gives way to a burst, and with which priority it
    runs."""

    def __init__(self, reader: JournalReader) -> None:
        self._reader = reader
        self._end = (0, 0)
        """Where the journal ended at the last check."""
        self._read_ns = self._window_ns = self._window_used_ns = 0
        self._has_priority = False
        self.gives_way = False
        """Whether the recorder should ``await_end_of_burst``."""

    def may_continue(self, read_ns: int) -> bool:
        """Whether the recorder should continue to read at once. If not, ``gives_way`` is true.

        A recorder that is late takes its full priority here, until ``caught_up`` is called.

        ``read_ns`` is the time of the last record that was read, by ``time.monotonic_ns``, the relay's clock.
        """
        self._read_ns = read_ns
        if self._age_ns() > LATE_NS and not self._has_priority:
            self._has_priority = True
            priority.restore()
        passed_ns = read_ns - self._window_ns
        if passed_ns < _WINDOW_NS:
            return True
        used_ns = time.thread_time_ns() - self._window_used_ns
        self._window_ns, self._window_used_ns = read_ns, self._window_used_ns + used_ns
        self.gives_way = used_ns > passed_ns and self._may_give_way()
        return not self.gives_way

    def await_end_of_burst(self, pause: Callable[[float], bool]) -> bool:
        """Wait with ``Wakeup.pause`` until the burst is over. Return whether the relay is gone."""
        self.gives_way = False
        while not pause(_BURST_NAP_S):
            if not self._may_give_way():
                return False
        return True

    def caught_up(self) -> None:
        """Lower the priority again, because everything was read."""
        if self._has_priority:
            self._has_priority = False
            priority.lower()

    def _age_ns(self) -> int:
        return time.monotonic_ns() - self._read_ns

    def _may_give_way(self) -> bool:
        """Whether the journal has grown since the last call, and its unread part is neither old nor large."""
        before, self._end = self._end, self._reader.end_of_journal()
        unread_bytes = (self._end[0] - self._reader.segment) * journal.SEGMENT_BYTES
        is_small = unread_bytes < LARGEST_BURST_BYTES
        return self._end != before and is_small and self._age_ns() < LONGEST_BURST_NS
