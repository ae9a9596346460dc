"""What all spans of a recording have in common: ids, resource, start."""

import os
from typing import Final

from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext

from mcpproxy import __version__
from mcpproxy.read.view.view import View
from mcpproxy.record.trace.records import Header
from mcpproxy.send.otel import trace_context
from mcpproxy.send.otel.attributes import SCHEMA_URL
from mcpproxy.send.otel.texts import Texts

SCOPE: Final = InstrumentationScope("mcpproxy", __version__, SCHEMA_URL)


class SpanSource:
    """The recording of ``view``, for its spans.

    ``id`` is the id of the recording. ``started_ns`` is when it began, in nanoseconds since 1970.
    """

    def __init__(self, view: View, texts: Texts) -> None:
        self.view: Final = view
        self.texts: Final = texts
        self.id: Final = trace_context.recording_id(view.header)
        self.resource: Final = resource(view.header, view.path)
        self.started_ns: Final = view.header.started_unix_ns

    def session_context(self, name: str) -> SpanContext:
        """Return the context of the span of the session ``name``."""
        id = trace_context.session_span_id(self.id, name)
        return trace_context.local(trace_context.trace_id(self.id, name), id)

    def session_name(self, row: int) -> str:
        """Return the name of the session to which a row belongs."""
        return self.view.index.session_name(self.view.columns.session[row])

    def context_of_row(self, row: int) -> SpanContext:
        """Return the context of the span of the session to which a row belongs."""
        return self.session_context(self.session_name(row))


def resource(header: Header, path: str) -> Resource:
    """Return the resource of the spans of a recording. ``OTEL_*`` variables take precedence."""
    recording: dict[str, str | int] = {
        "service.name": header.label or "mcpproxy",
        "service.instance.id": trace_context.recording_id(header),
        "process.pid": header.pid,
        "mcpproxy.recording": os.path.basename(path),
    }
    return Resource(recording).merge(OTELResourceDetector().detect())
