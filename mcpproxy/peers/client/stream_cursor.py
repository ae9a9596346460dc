"""How our clients resume an event stream that has ended too early: where, after how long, and how often.

A server may end a stream on purpose before the answer, so that no connection has to be held, and expect its
client to come back. Whoever reads a stream keeps a cursor of it, and asks the cursor.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports, sections Sending Messages
to the Server, and Resumability and Redelivery.
"""

from typing import Final

RETRY_S: Final = 1.0
"""How long to wait where the server does not say it."""

LONGEST_RETRY_S: Final = 30.0
"""The longest wait. A client has to wait as long as the server says; but no server may hold it for hours."""

MOST_IN_VAIN: Final = 5
"""How often in a row a stream is resumed for an answer without an event. A server that ends streams on
purpose sends an event with an id on each, so this counts only servers that have lost the stream."""


class StreamCursor:
    """Where a stream is to be resumed. ``last_id`` is the id of its last event, empty without one."""

    def __init__(self) -> None:
        self.last_id = ""
        self._retry_s = RETRY_S
        self._in_vain = 0

    def pass_over(self, id: str | None, retry_ms: int | None) -> None:
        """Note the fields of an event; ``None`` for one that it has not."""
        self._in_vain = 0
        if id is not None:
            self.last_id = id
        if retry_ms is not None:
            self._retry_s = min(retry_ms / 1000, LONGEST_RETRY_S)

    @property
    def headers(self) -> list[tuple[str, str]]:
        """The header that resumes the stream."""
        return [("Last-Event-ID", self.last_id)] if self.last_id else []

    @property
    def can_resume(self) -> bool:
        """Whether the stream has an id to resume it from, and has not been resumed in vain too often."""
        return bool(self.last_id) and self._in_vain < MOST_IN_VAIN

    def begin_attempt(self, *, endless: bool = False) -> float:
        """Count an attempt to resume the stream. Return how long to wait before it, in seconds.

        With ``endless`` attempts have no number: each that was in vain doubles the wait for the next.
        """
        doubled_s = self._retry_s * 2 ** min(self._in_vain, 16) if endless else 0
        self._in_vain += 1
        return max(self._retry_s, min(doubled_s, LONGEST_RETRY_S))
