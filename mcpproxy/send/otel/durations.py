"""Measures how long calls and sessions of MCP take, in the histograms of the conventions.

The spans are measured, even those that are not sent because a caller does not sample them. Peers choose the
names of tools, so the number of series is limited: the SDK keeps 2,000 for each histogram, and all others
together as one with the label ``otel.metric.overflow``.

Source: https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md#metrics
"""

from typing import Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan

from mcpproxy import __version__
from mcpproxy.send.otel.attributes import SCHEMA_URL
from mcpproxy.send.otel.collector import endpoint

# The attributes of a session's span, and of a call's span, that become labels of its measurement.
_OF_SESSION: Final = (
    "error.type",
    "mcp.protocol.version",
    "network.protocol.name",
    "server.address",
    "server.port",
)
_OF_CALL: Final = (
    *_OF_SESSION,
    "gen_ai.operation.name",
    "gen_ai.prompt.name",
    "gen_ai.tool.name",
    "mcp.method.name",
    "network.protocol.version",
    "network.transport",
    "rpc.response.status_code",
)
_BOUNDARIES_S: Final = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]
"""The boundaries of the buckets of both histograms."""


def collector_reader(url: str) -> MetricReader:
    """Return a reader that sends the histograms to the collector at ``url`` at intervals.

    If ``url`` is empty, the ``OTEL_*`` variables name it. ``OTEL_METRIC_EXPORT_INTERVAL`` says how often.
    """
    return PeriodicExportingMetricReader(OTLPMetricExporter(endpoint(url, "/v1/metrics") if url else None))


class Durations:
    """Measures the spans of the recording that ``resource`` describes; ``reader`` gets the histograms."""

    def __init__(self, reader: MetricReader, resource: Resource) -> None:
        self._provider: Final = MeterProvider([reader], resource, shutdown_on_exit=False)
        meter = self._provider.get_meter("mcpproxy", __version__, SCHEMA_URL)
        self._calls: Final = meter.create_histogram(
            "mcp.client.operation.duration",
            "s",
            "From a request to its answer.",
            explicit_bucket_boundaries_advisory=_BOUNDARIES_S,
        )
        self._sessions: Final = meter.create_histogram(
            "mcp.client.session.duration",
            "s",
            "From the first message of a session to the last.",
            explicit_bucket_boundaries_advisory=_BOUNDARIES_S,
        )

    def measure(self, span: ReadableSpan) -> None:
        """Measure the span of a call or a session of MCP. Spans of streams and of ACP are left out."""
        values = span.attributes or {}
        took_s = ((span.end_time or 0) - (span.start_time or 0)) / 1e9
        if "mcp.method.name" in values:
            self._calls.record(took_s, {name: values[name] for name in _OF_CALL if name in values})
        elif span.name == "mcp.session":
            self._sessions.record(took_s, {name: values[name] for name in _OF_SESSION if name in values})

    def close(self) -> None:
        """Send the last measurements, and stop."""
        self._provider.shutdown()
