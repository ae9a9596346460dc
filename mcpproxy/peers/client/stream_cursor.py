"""How our clients resume an event stream that has ended too early: where, after how long, and how often.

A server may end a stream on purpose before the answer, so that no connection is held open, and expect its
client to come back. The reader of a stream keeps a ``StreamCursor``, which knows where to resume.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports, sections Sending Messages
to the Server, and Resumability and Redelivery.
"""

from typing import Final

RETRY_S: Final = 1.0
"""How long to wait before a stream is resumed, unless the server says how long."""

LONGEST_RETRY_S: Final = 30.0
"""The longest wait. A client must wait as long as the server says, but we do not wait for hours."""

MOST_IN_VAIN: Final = 5
"""How often in a row a stream is resumed without getting an event. A server that ends streams on purpose
sends an event with an id on each, so only a server that has lost the stream reaches this limit."""


class StreamCursor:
    """Where to resume a stream. ``last_id`` is the last id that an event named; empty if none has."""

    def __init__(self) -> None:
        self.last_id = ""
        self._retry_s = RETRY_S
        self._in_vain = 0

    def note_event(self, id: str | None, retry_ms: int | None) -> None:
        """Note the ``id`` and ``retry`` fields of an event, ``None`` if it lacks them."""
        self._in_vain = 0
        if id is not None:
            self.last_id = id
        if retry_ms is not None:
            self._retry_s = min(retry_ms / 1000, LONGEST_RETRY_S)

    @property
    def headers(self) -> list[tuple[str, str]]:
        """The header that resumes the stream; none as long as no event had an id."""
        return [("Last-Event-ID", self.last_id)] if self.last_id else []

    @property
    def can_resume(self) -> bool:
        """Whether the stream has an id to resume it from, and has not been resumed in vain too often."""
        return bool(self.last_id) and self._in_vain < MOST_IN_VAIN

    def begin_attempt(self, *, endless: bool = False) -> float:
        """Count an attempt to resume the stream. Return how long to wait before it, in seconds.

        With ``endless``, ``MOST_IN_VAIN`` does not apply; each attempt in vain doubles the wait for the next,
        up to ``LONGEST_RETRY_S``.
        """
        doubled_s = self._retry_s * 2 ** min(self._in_vain, 16) if endless else 0
        self._in_vain += 1
        return max(self._retry_s, min(doubled_s, LONGEST_RETRY_S))
