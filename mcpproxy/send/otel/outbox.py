"""Spans that wait to be sent, and the thread that sends them. ``put`` does not wait for a collector."""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from mcpproxy.errors import McpProxyError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

LONGEST_PAUSE_S: Final = 30.0
"""The longest time between two attempts to reach a collector."""
MAX_WAITING: Final = 2048
"""How many spans wait before the outbox is full. One ``put`` can exceed it."""


class Outbox:
    """Passes its spans to ``send``, at most ``batch`` at once, in order, each batch until ``send`` succeeds.

    ``send`` fails by ``McpProxyError`` or ``OSError``; any other error ends the thread. ``say`` gets a line
    for the user when the sending begins to fail, and when it succeeds again. ``report`` gets how many spans
    were sent and how many wait, whenever that changes.
    """

    def __init__(
        self,
        send: "Callable[[Sequence[ReadableSpan]], None]",
        batch: int,
        say: Callable[[str], None],
        report: Callable[[int, int], None],
    ) -> None:
        self._send: Final = send
        self._batch: Final = batch
        self._say: Final = say
        self._report: Final = report
        self._sent = 0
        self._waiting: list[ReadableSpan] = []
        self._changed: Final = threading.Condition()
        self._may_retry: Final = threading.Event()
        threading.Thread(target=self._send_waiting, daemon=True).start()

    @property
    def is_full(self) -> bool:
        """Whether callers should wait before they queue more spans."""
        return len(self._waiting) >= MAX_WAITING

    def put(self, spans: "Iterable[ReadableSpan]") -> None:
        """Queue ``spans`` for the thread that sends."""
        queued = list(spans)
        if queued:
            with self._changed:
                self._waiting += queued
                self._report(self._sent, len(self._waiting))
                self._changed.notify_all()

    def drain(self, timeout_s: float) -> bool:
        """Try again at once, and wait up to ``timeout_s`` until all are sent. Return whether they are."""
        self._may_retry.set()
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting, timeout_s)

    def _send_waiting(self) -> None:
        pause_s = 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                spans = self._waiting[: self._batch]
            try:
                self._send(spans)
            except (McpProxyError, OSError) as fault:
                if not pause_s:
                    self._say(f"spans wait: {fault}")
                pause_s = min(max(1.0, 2 * pause_s), LONGEST_PAUSE_S)
                self._may_retry.wait(pause_s)
                self._may_retry.clear()
                continue
            if pause_s:
                self._say("spans are sent again")
            pause_s = 0.0
            with self._changed:
                del self._waiting[: len(spans)]
                self._sent += len(spans)
                self._report(self._sent, len(self._waiting))
                self._changed.notify_all()
