"""Watches the recordings of a scenario: what its client has done so far, and how long it has been quiet."""

import time
from typing import Final

from mcpproxy.peers.client_tests.seen import SeenClient, seen_in
from mcpproxy.peers.client_tests.served import growing_recordings, recorded_bytes


class Watch:
    """Reads the recordings with the name ``trace``, again only if they have grown."""

    def __init__(self, trace: str) -> None:
        self._trace: Final = trace
        self._size = recorded_bytes(trace)
        self._changed_s = time.monotonic()
        self._seen = SeenClient()

    def look(self) -> SeenClient:
        """Return what the client has done so far."""
        if (size := recorded_bytes(self._trace)) != self._size:
            self._size, self._changed_s = size, time.monotonic()
            self._seen = seen_in(growing_recordings(self._trace))
        return self._seen

    def has_sent(self, method: str) -> bool:
        """Whether the client has sent a message of this method so far; any message if ``method`` is empty."""
        seen = self.look()
        return seen.has_sent(method) if method else seen.messages > 0

    @property
    def rested_s(self) -> float:
        """How long ago a look last found something new; 0 before the client's first message.

        Only a look notices what was recorded, so look first.
        """
        return time.monotonic() - self._changed_s if self._seen.messages else 0
