"""Sends spans to a collector over HTTP.

The exporter of OpenTelemetry encodes them, sends them, and tries again. The variables
``OTEL_EXPORTER_OTLP_*`` configure it; a URL that the user gives takes precedence over theirs.
"""

import logging
from collections.abc import Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from mcpproxy.errors import McpProxyError

_PATH: Final = "/v1/traces"


class NotExportedError(McpProxyError):
    """A collector did not take spans. The text says which collector, why, and what to do."""


class Collector:
    """The collector at ``url``; if that is empty, the collector that the ``OTEL_*`` variables name."""

    BATCH: Final = 512
    """How many spans are sent in one request."""

    def __init__(self, url: str = "") -> None:
        self._reasons: Final = _Reasons()
        logger = logging.getLogger("opentelemetry")
        logger.handlers[:], logger.propagate = [logging.NullHandler()], False  # stderr is for our lines
        # The exporter gives the reason of a failure only to its log.
        logging.getLogger(OTLPSpanExporter.__module__).handlers[:] = [self._reasons]
        self._exporter: Final = OTLPSpanExporter(endpoint(url, _PATH) if url else None)
        self.url: Final[str] = url or "the collector that the OTEL_* variables name"
        """The URL that the user gave, or words instead of it, for texts to the user."""

    def send(self, spans: Sequence[ReadableSpan]) -> None:
        """Send at most ``BATCH`` spans. By default this takes at most 10 s, the time-out of the exporter.

        Raises:
            NotExportedError: they did not arrive.
        """
        self._reasons.last = ""
        if self._exporter.export(spans) is not SpanExportResult.SUCCESS:
            why = self._reasons.last or "the spans were not sent"
            raise NotExportedError(f"{self.url}: {why}; is it a collector that takes OTLP over HTTP?")

    def close(self) -> None:
        """Stop sending, and give up an attempt that waits to be repeated."""
        self._exporter.shutdown()


def endpoint(url: str, path: str) -> str:
    """Return the URL for ``path``, such as ``/v1/traces``. ``url`` may end with ``/v1/traces`` already."""
    return url.rstrip("/").removesuffix(_PATH).rstrip("/") + path


class _Reasons(logging.Handler):
    """Keeps why the last request failed, in a few words."""

    def __init__(self) -> None:
        super().__init__()
        self.last = ""

    def emit(self, record: logging.LogRecord) -> None:
        args = record.args if isinstance(record.args, tuple) else ()
        status = next((arg for arg in args if type(arg) is int), None)
        fault = next((arg for arg in args if isinstance(arg, Exception)), None)
        if status is not None:
            reason = next((arg for arg in args[2:] if isinstance(arg, str)), "")
            self.last = f"it answered {status} {reason}".strip()
        elif fault is not None:
            has_timed_out = "Timeout" in type(fault).__name__
            self.last = "it does not answer" if has_timed_out else f"not reached ({type(fault).__name__})"
        elif not self.last:
            self.last = "not reached, or not in time"
