"""``python -m mcpproxy.otel.live TRACE URL``: send the spans of a recording while it is made.

``live_process.py`` starts it. It reads from standard input, which ends with the recording, and writes lines
for the user to standard output. The spans that wait for a slow collector are few: as long as it does not take
them, the recording is not read on. So no span is lost during a session, however long the collector is away;
those that it has not taken at the end are counted, and ``mcpproxy export otlp`` can send them later.
"""

import argparse
import os
import shlex
import threading
import time
from typing import TYPE_CHECKING, Final

from mcpproxy.base.visible import visible
from mcpproxy.errors import McpProxyError, TraceError
from mcpproxy.otel.live_process import LAST_S
from mcpproxy.relay import priority

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from mcpproxy.otel.collector import Collector
    from mcpproxy.otel.span_reader import SpanReader
    from mcpproxy.view.view import View

POLL_S: Final = 0.5
QUIET_S: Final = 1.0
"""How long nothing was recorded until findings about the last calls are not waited for any longer."""
LONGEST_PAUSE_S: Final = 30.0
"""The longest time between two attempts to reach a collector."""
GIVE_UP_S: Final = 5.0
"""How long the last spans are sent after the end of the session."""
MAX_WAITING: Final = 2048
"""How many spans wait for the collector; one more line of the recording may add a few."""
_LINES: Final = 512
"""How many lines of the recording are read before spans are sent."""


class LiveExport:
    """Sends the spans of ``trace`` to the collector at ``url`` until the recording ends."""

    def __init__(self, trace: str, url: str, *, content: bool) -> None:
        self._trace: Final = trace
        self._url: Final = url
        self._content: Final = content
        self._recording_ended: Final = threading.Event()
        self._done: Final = threading.Event()
        self._waiting: list[ReadableSpan] = []
        self._is_failing = False
        self._pause_s = 0.0
        self._next_attempt_s = 0.0
        self._changed_s = 0.0

    def run(self) -> None:
        """Send until the recording has ended, and for a short time after it."""
        threading.Thread(target=self._watch, daemon=True).start()
        priority.lower()
        try:
            self._run()
        except (McpProxyError, OSError) as fault:
            say(f"no more spans are sent: {fault}; to send them all: {self._later}")
        self._done.set()

    def _watch(self) -> None:
        """Wait for the end of the recording, then see to it that the process ends, too."""
        while os.read(0, 4096):
            pass
        self._recording_ended.set()
        if not self._done.wait(LAST_S * 0.8):
            say(f"spans are still being sent; if they do not arrive: {self._later}")
            self._done.wait(GIVE_UP_S)
            os._exit(0)

    @property
    def _later(self) -> str:
        """Return the command that sends the spans again."""
        return f"mcpproxy export otlp {shlex.quote(self._trace)} {self._url or 'URL'}"

    def _run(self) -> None:
        # Imported late, because the end of the recording must be noticed meanwhile.
        from mcpproxy.otel.collector import Collector
        from mcpproxy.otel.span_reader import SpanReader

        if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
            say("no spans are sent: OTEL_SDK_DISABLED is set")
            return
        collector = Collector(self._url)
        view = self._open()
        with view:
            reader = SpanReader(view, content=self._content)
            while not self._recording_ended.is_set():
                if self._step(view, reader):
                    continue
                self._send(collector)
                self._recording_ended.wait(POLL_S)
            self._last(view, reader, collector)

    def _open(self) -> "View":
        """Open the recording as soon as its recorder has begun."""
        from mcpproxy.view.view import open_view

        while True:
            is_last = self._recording_ended.is_set()
            try:
                return open_view(self._trace)
            except TraceError:
                if is_last:
                    raise
            self._recording_ended.wait(POLL_S / 5)

    def _step(self, view: "View", reader: "SpanReader") -> bool:
        """Read a part of what was recorded, if there is room for its spans. Return whether there is more."""
        if len(self._waiting) >= MAX_WAITING:
            return False
        has_more = view.columns.lines > reader.next_line
        if not has_more:
            if view.refresh().rebuilt:
                reader.restart()
            has_more = view.columns.lines > reader.next_line
        now_s = time.monotonic()
        if has_more:
            self._changed_s = now_s
            self._waiting += reader.read(_LINES)
        elif now_s - self._changed_s >= QUIET_S:
            self._waiting += reader.settle()
        return view.columns.lines > reader.next_line and len(self._waiting) < MAX_WAITING

    def _send(self, collector: "Collector") -> None:
        """Send what waits, unless the last attempt was a moment ago and failed."""
        if time.monotonic() < self._next_attempt_s:
            return
        try:
            while self._waiting:
                collector.send(self._waiting[: collector.BATCH])
                del self._waiting[: collector.BATCH]
        except McpProxyError as fault:
            if not self._is_failing:
                say(f"spans wait: {fault}")
            self._is_failing = True
            self._pause_s = min(max(1.0, 2 * self._pause_s), LONGEST_PAUSE_S)
            self._next_attempt_s = time.monotonic() + self._pause_s
            return
        if self._is_failing:
            say("spans are sent again")
        self._is_failing, self._pause_s = False, 0.0

    def _last(self, view: "View", reader: "SpanReader", collector: "Collector") -> None:
        """Send all that is left, as far as the collector takes it."""
        if view.refresh().rebuilt:
            reader.restart()
        while view.columns.lines > reader.next_line:
            self._waiting += reader.read(_LINES)
            self._next_attempt_s = 0.0
            self._send(collector)
            if self._is_failing:
                break
        left = sum(1 for _ in reader.read())
        self._waiting += reader.settle() if view.running else reader.finish()
        self._next_attempt_s = 0.0
        if not self._is_failing or not left:
            self._send(collector)
        if left := left + len(self._waiting):
            say(f"{left} spans were not sent; to send them: {self._later}")
        elif reader.not_sampled:
            say(f"{reader.not_sampled} calls have no span, because their callers do not sample them")


def say(text: str) -> None:
    """Write one line for the user."""
    try:
        os.write(1, f"mcpproxy: {visible(text)}\n".encode())
    except OSError:
        pass  # the recorder, which passes the lines on, is gone


def main() -> None:
    parser = argparse.ArgumentParser(prog="mcpproxy.otel.live")
    parser.add_argument("trace")
    parser.add_argument("url")
    parser.add_argument("--content", action="store_true")
    options = parser.parse_args()
    LiveExport(options.trace, options.url, content=options.content).run()


if __name__ == "__main__":
    main()
