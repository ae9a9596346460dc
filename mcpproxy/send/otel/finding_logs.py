"""Findings as log records, for backends that raise alerts from logs.

Each record has the context of the span to which its finding belongs. The SDK collects and sends them. The
same findings are events of spans, so log records that a collector does not accept are dropped.
"""

from typing import Final, cast

# The log signal of OpenTelemetry is stable; its Python modules still have the names of a draft.
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider, LogRecordProcessor
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event
from opentelemetry.trace import NonRecordingSpan, SpanContext, set_span_in_context

from mcpproxy import __version__
from mcpproxy.send.otel.attributes import SCHEMA_URL
from mcpproxy.send.otel.collector import endpoint

_SEVERITIES: Final = {
    "error": SeverityNumber.ERROR,
    "warning": SeverityNumber.WARN,
    "info": SeverityNumber.INFO,
}


def collector_processor(url: str) -> LogRecordProcessor:
    """Return a processor that sends log records to the collector at ``url``.

    If ``url`` is empty, the ``OTEL_*`` variables name it.
    """
    return BatchLogRecordProcessor(OTLPLogExporter(endpoint(url, "/v1/logs") if url else None))


class FindingLogs:
    """Makes log records of findings in the recording that ``resource`` describes, for ``processor``."""

    def __init__(self, processor: LogRecordProcessor, resource: Resource) -> None:
        self._provider: Final = LoggerProvider(resource, shutdown_on_exit=False)
        self._provider.add_log_record_processor(processor)
        self._logger: Final = self._provider.get_logger("mcpproxy", __version__, SCHEMA_URL)

    def log(self, finding: Event, span: SpanContext) -> None:
        """Log the event of a finding that belongs to ``span``."""
        values = dict(finding.attributes or {})
        severity = cast("str", values["mcpproxy.severity"])
        self._logger.emit(
            LogRecord(
                timestamp=finding.timestamp,
                observed_timestamp=finding.timestamp,
                context=set_span_in_context(NonRecordingSpan(span)),
                severity_text=severity.upper(),
                severity_number=_SEVERITIES[severity],
                body=values.pop("mcpproxy.message"),
                attributes=values,
                event_name=finding.name,
            )
        )

    def close(self) -> None:
        """Send the records that wait, and stop."""
        self._provider.shutdown()
