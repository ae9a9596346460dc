"""The span of a session: the root of its calls, with who took part and how it ended."""

from collections.abc import Sequence

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, Status, StatusCode

from mcpproxy.judge.session.frame import Close
from mcpproxy.read.view.calls import SessionSummary
from mcpproxy.read.view.view import View
from mcpproxy.send.otel import attributes
from mcpproxy.send.otel.attributes import Attributes


def session_span(
    view: View,
    session: SessionSummary,
    context: SpanContext,
    *,
    resource: Resource,
    scope: InstrumentationScope,
    started_ns: int,
    events: Sequence[Event],
    was_stopped: bool,
) -> ReadableSpan:
    """Return the span of a session of ``view``.

    ``started_ns`` is when the recording began, in nanoseconds since 1970. ``was_stopped`` is whether mcpproxy
    received a signal, so that the server did not end by itself.
    """
    values: Attributes = {}
    for name, text in (
        ("mcpproxy.protocol", session.protocol),
        ("mcpproxy.session", session.name),
        ("mcpproxy.client.name", session.client),
        ("mcpproxy.client.version", session.client_version),
        ("mcpproxy.server.name", session.server),
        ("mcpproxy.server.version", session.server_version),
        ("mcp.protocol.version", session.revision if session.protocol == "mcp" else ""),
    ):
        if text:
            values[name] = text
    values |= attributes.of_transport(view.header) | attributes.of_server(view.header)
    values["mcpproxy.errors"] = session.calls.failed
    values["mcpproxy.unanswered"] = session.calls.unanswered
    values["mcpproxy.findings"] = session.findings
    if notes := view.notes:
        values["mcpproxy.incomplete"] = True
        values["mcpproxy.notes"] = list(notes)
    status = Status()
    # Over HTTP the recorded end is that of mcpproxy.
    close = view.ended if view.header.transport == "stdio" else None
    if close is not None and close.exit_code is not None:
        values["process.exit.code"] = close.exit_code
    if close is not None and not was_stopped and (error := _error_type(close)):
        values["error.type"] = error
        status = Status(StatusCode.ERROR)
    return ReadableSpan(
        "mcp.session" if session.protocol == "mcp" else "acp.session",
        context,
        None,
        resource,
        values,
        events,
        status=status,
        start_time=started_ns + session.started_ns,
        end_time=started_ns + max(session.ended_ns, session.started_ns),
        instrumentation_scope=scope,
    )


def _error_type(close: Close) -> str:
    """Return how a server failed, as the value of ``error.type``; empty if it did not."""
    if close.ending == "signalled":
        return f"signal_{close.signal}"
    if close.ending == "not started":
        return "not_started"
    return f"exit_{close.exit_code}" if close.exit_code else ""
