"""Spans of a recording as a collector sees them: exported by the command, decoded by opentelemetry-proto."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1 import trace_pb2

from mcpproxy.cli.main import main

KINDS = {1: "INTERNAL", 3: "CLIENT"}
REMOTE = 0x200


@dataclass(frozen=True)
class Event:
    """An event of a span; ``at_ns`` is nanoseconds since 1970."""

    name: str
    at_ns: int
    said: dict[str, Any]


@dataclass(frozen=True)
class Span:
    """A decoded span. Ids are hexadecimal; ``links`` are pairs of what the link is and the id of its span."""

    trace_id: str
    id: str
    parent: str
    name: str
    kind: str
    started_ns: int
    ended_ns: int
    said: dict[str, Any]
    events: tuple[Event, ...]
    links: tuple[tuple[str, str], ...]
    error: bool
    why: str
    state: str
    has_remote_parent: bool
    resource: dict[str, Any]
    schema_url: str
    encoded: bytes

    def found(self) -> list[str]:
        """Return the rules of the findings among its events."""
        return [event.said["mcpproxy.rule"] for event in self.events if event.name == "mcpproxy.finding"]


def decoded(content: bytes) -> list[Span]:
    """Return the spans of a file or of a request to a collector."""
    request = ExportTraceServiceRequest.FromString(content)
    return [
        _span(span, values(of_resource.resource.attributes), of_scope.schema_url)
        for of_resource in request.resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    ]


def exported(trace: str, file: Path, *options: str) -> list[Span]:
    """Return the spans of a recording, exported to ``file``."""
    assert main(["export", "otlp", trace, "-o", str(file), *options]) == 0
    return decoded(file.read_bytes())


def _span(span: trace_pb2.Span, resource: dict[str, Any], schema_url: str) -> Span:
    return Span(
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.name,
        KINDS[span.kind],
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        values(span.attributes),
        tuple(Event(e.name, e.time_unix_nano, values(e.attributes)) for e in span.events),
        tuple((values(link.attributes)["mcpproxy.link"], link.span_id.hex()) for link in span.links),
        span.status.code == trace_pb2.Status.STATUS_CODE_ERROR,
        span.status.message,
        span.trace_state,
        bool(span.flags & REMOTE),
        resource,
        schema_url,
        span.SerializeToString(deterministic=True),
    )


def values(attributes: Any) -> dict[str, Any]:
    """Return decoded attributes."""
    return {attribute.key: _value(attribute.value) for attribute in attributes}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, kind or "string_value")
