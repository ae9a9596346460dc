"""``python -m mcpproxy.send.otel.live TRACE URL``: send the spans of a recording while it is being made.

``live_process.py`` starts it. Its standard input ends with the recording. Lines on standard output that begin
with ``mcpproxy:`` are for the user; the others have two numbers, of spans sent and spans that wait. Only a
limited number of spans waits for a slow collector; until it accepts them, no more of the recording is read.
So no span is lost during a session, however long the collector is away.
"""

import argparse
import os
import threading
import time
from typing import TYPE_CHECKING, Final

from mcpproxy.base.visible import visible
from mcpproxy.errors import McpProxyError
from mcpproxy.record.relay import priority
from mcpproxy.send.otel.live_process import GIVE_UP_S, resend_command

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

    from mcpproxy.read.view.view import View
    from mcpproxy.send.otel.durations import Durations
    from mcpproxy.send.otel.finding_logs import FindingLogs
    from mcpproxy.send.otel.outbox import Outbox
    from mcpproxy.send.otel.span_reader import SpanReader

POLL_S: Final = 0.5
"""The pause between two looks at the recording."""
QUIET_S: Final = 1.0
"""After this long without a new record, no more findings about the last calls are expected."""
_LINES: Final = 512
"""How many lines of the recording are read before spans are sent."""


class LiveExport:
    """Sends the spans of ``trace`` to the collector at ``url`` until the recording ends.

    With ``content``, spans have the arguments of tools and prompts, and the results of tools.
    """

    def __init__(self, trace: str, url: str, *, content: bool) -> None:
        self._trace: Final = trace
        self._url: Final = url
        self._content: Final = content
        self._recording_ended: Final = threading.Event()
        self._changed_s = 0.0

    def run(self) -> None:
        """Send spans until the recording has ended, and for at most ``GIVE_UP_S`` after it."""
        threading.Thread(target=self._wait_for_end, daemon=True).start()
        try:
            self._send_spans()
        except (McpProxyError, OSError) as fault:
            say(
                f"no more spans are sent: {fault}; to send them all: {resend_command(self._trace, self._url)}"
            )

    def _wait_for_end(self) -> None:
        while os.read(0, 4096):
            pass
        self._recording_ended.set()

    def _send_spans(self) -> None:
        if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
            say("no spans are sent: OTEL_SDK_DISABLED is set")
            return
        # Imported here, while a thread already waits for the end of the recording.
        from mcpproxy.send.otel.collector import Collector
        from mcpproxy.send.otel.outbox import Outbox
        from mcpproxy.send.otel.span_reader import SpanReader
        from mcpproxy.send.otel.span_source import resource

        outbox = Outbox(Collector(self._url).send, Collector.BATCH, say, report)
        with self._open_view() as view:
            about = resource(view.header, view.path)
            durations = self._durations(about) if _is_wanted("METRICS") else None
            logs = self._logs(about) if _is_wanted("LOGS") else None
            reader = SpanReader(
                view,
                content=self._content,
                measure=durations.measure if durations else None,
                log=logs.log if logs else None,
            )
            while not self._recording_ended.is_set():
                if outbox.is_full or not self._read_part(view, reader, outbox):
                    self._recording_ended.wait(POLL_S)
            ends_s = self._read_rest(view, reader, outbox)
        closing = [
            threading.Thread(target=export.close, daemon=True) for export in (durations, logs) if export
        ]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join(max(0, ends_s - time.monotonic()))
        outbox.drain(ends_s - time.monotonic())

    def _durations(self, about: "Resource") -> "Durations":
        from mcpproxy.send.otel.durations import Durations, collector_reader

        return Durations(collector_reader(self._url), about)

    def _logs(self, about: "Resource") -> "FindingLogs":
        from mcpproxy.send.otel.finding_logs import FindingLogs, collector_processor

        return FindingLogs(collector_processor(self._url), about)

    def _open_view(self) -> "View":
        """Open the recording as soon as its recorder has begun.

        Raises:
            TraceError: the recording has ended, and cannot be read.
        """
        from mcpproxy.read.opening import when_begun
        from mcpproxy.read.view.view import open_view

        return when_begun(
            lambda: open_view(self._trace),
            lambda: not self._recording_ended.is_set(),
            lambda: self._recording_ended.wait(POLL_S / 5),
        )

    def _read_part(self, view: "View", reader: "SpanReader", outbox: "Outbox") -> bool:
        """Read a part of the new records and queue their spans. Return whether there are more records.

        After ``QUIET_S`` without new ones, queue the spans that waited for findings.
        """
        if view.columns.lines <= reader.next_line:
            _refresh(view, reader)
        now_s = time.monotonic()
        if view.columns.lines > reader.next_line:
            self._changed_s = now_s
            outbox.put(reader.read(_LINES))
        elif now_s - self._changed_s >= QUIET_S:
            outbox.put(reader.settle())
        return view.columns.lines > reader.next_line

    def _read_rest(self, view: "View", reader: "SpanReader", outbox: "Outbox") -> float:
        """Read the rest, as far as the collector keeps up within ``GIVE_UP_S``.

        Return the end of that time, in seconds of the monotonic clock.
        """
        ends_s = time.monotonic() + GIVE_UP_S
        _refresh(view, reader)
        while view.columns.lines > reader.next_line:
            outbox.put(reader.read(_LINES))
            if outbox.is_full and not outbox.drain(ends_s - time.monotonic()):
                return ends_s
        outbox.put(reader.settle() if view.running else reader.finish())
        return ends_s


def _refresh(view: "View", reader: "SpanReader") -> None:
    if view.refresh().rebuilt:
        reader.restart()


def _is_wanted(signal: str) -> bool:
    """Whether a signal is not turned off. Spans cannot be turned off: ``--otlp`` asks for them."""
    return os.environ.get(f"OTEL_{signal}_EXPORTER", "").strip().lower() != "none"


def say(text: str) -> None:
    """Write one line for the user."""
    _write_line(f"mcpproxy: {visible(text)}\n")


def report(sent: int, waiting: int) -> None:
    """Tell the recorder how many spans were sent and how many wait. It tells the user at the end."""
    _write_line(f"{sent} {waiting}\n")


def _write_line(line: str) -> None:
    try:
        os.write(1, line.encode())
    except OSError:
        pass  # the recorder, which forwards the lines, is gone


def main() -> None:
    priority.lower()
    parser = argparse.ArgumentParser(prog="mcpproxy.send.otel.live")
    parser.add_argument("trace")
    parser.add_argument("url")
    parser.add_argument("--content", action="store_true")
    options = parser.parse_args()
    LiveExport(options.trace, options.url, content=options.content).run()
    os._exit(0)  # an attempt to send may still be under way


if __name__ == "__main__":
    main()
