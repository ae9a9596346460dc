"""When the recorder records: at once while it is quick enough, otherwise after the burst.

A recorder that needs most of a processor to keep up with a burst takes it from the peers that make the
burst. The journal has the traffic already, so the recorder gives way: it sleeps until the burst is over, or
what it has not recorded is older than ``LONGEST_BURST_NS`` or more than ``LARGEST_BURST_BYTES``. If it is
late nevertheless, it takes its full priority.
"""

import time
from collections.abc import Callable
from typing import Final

from mcpproxy.recorder.journal_reader import JournalReader
from mcpproxy.relay import priority
from mcpproxy.relay.journal import LIMIT_BYTES, SEGMENT_BYTES

LONGEST_BURST_NS: Final = 1_000_000_000
"""How old what was read last may be while the recorder gives way."""

LARGEST_BURST_BYTES: Final = LIMIT_BYTES // 8
"""About how much it may not have read while it gives way, so that the journal has room for more."""

LATE_NS: Final = 2_000_000_000
"""From this age on the recorder has its full priority, until it has caught up."""

_WINDOW_NS: Final = 5_000_000
"""Over this time the recorder compares the processor time that it needs with the time that passes."""

_NAP_S: Final = 0.01
"""If nothing comes for this long, the burst is over."""


class Pace:
    """The pace of the recorder that reads ``reader``."""

    def __init__(self, reader: JournalReader) -> None:
        self._reader = reader
        self._end = (0, 0)
        """Where the journal ended when that was asked last."""
        self._read_ns = self._window_ns = self._window_used_ns = 0
        self._has_priority = False
        self.gives_way = False
        """Whether the recorder should ``await_end_of_burst``."""

    def goes_on(self, read_ns: int) -> bool:
        """Whether to read on at once, after what the relay forwarded until ``read_ns`` was recorded.

        The time is by the relay's clock, which is ``time.monotonic_ns``.
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
        is_slow = 2 * used_ns > passed_ns
        self.gives_way = is_slow and self._has_grown() and self._may_wait()
        return not self.gives_way

    def await_end_of_burst(self, pause: Callable[[float], bool]) -> bool:
        """Wait until nothing comes any more, or too much has come. Return whether the relay is gone.

        ``pause`` waits for so many seconds, and returns whether the relay is gone.
        """
        self.gives_way = False
        while not pause(_NAP_S):
            if not (self._has_grown() and self._may_wait()):
                return False
        return True

    def caught_up(self) -> None:
        """Lower the priority again, because everything was read."""
        if self._has_priority:
            self._has_priority = False
            priority.lower()

    def _age_ns(self) -> int:
        return time.monotonic_ns() - self._read_ns

    def _may_wait(self) -> bool:
        unread_bytes = (self._end[0] - self._reader.segment) * SEGMENT_BYTES
        return unread_bytes < LARGEST_BURST_BYTES and self._age_ns() < LONGEST_BURST_NS

    def _has_grown(self) -> bool:
        """Whether the journal has grown since the last call."""
        before, self._end = self._end, self._reader.end_of_journal()
        return self._end != before
