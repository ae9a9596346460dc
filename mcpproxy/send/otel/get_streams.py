"""The streams that clients open with GET: for messages that belong to no call, or to resume a stream."""

from dataclasses import dataclass, field
from typing import Final

from opentelemetry.sdk.trace import Event as SpanEvent
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util import BoundedList
from opentelemetry.trace import Link, SpanContext

from mcpproxy.judge.session.frame import SERVER, Event, ExchangeEnd, Frame, RequestHead, ResponseHead
from mcpproxy.send.otel import attributes, trace_context
from mcpproxy.send.otel.attributes import Attributes
from mcpproxy.send.otel.links import Links, link
from mcpproxy.send.otel.open_call import CarryingExchange, events
from mcpproxy.send.otel.span_source import SCOPE, SpanSource


@dataclass(slots=True)
class OpenStream:
    """A response to GET that is an event stream. Times are nanoseconds since the start of the recording.

    ``row`` is the row of its exchange in the index of the view. ``findings`` counts the findings about it,
    and ``messages`` the server's messages in it. ``was_cut`` is whether it was cut off.
    """

    row: int
    exchange: CarryingExchange
    links: list[Link] = field(default_factory=list[Link])
    events: "BoundedList[SpanEvent]" = field(default_factory=events)
    findings: int = 0
    messages: int = 0
    ended_ns: int = 0
    was_cut: bool = False


class Streams:
    """The open streams of the recording ``source``; ``links`` remembers the streams that they may resume."""

    def __init__(self, source: SpanSource, links: Links) -> None:
        self._source: Final = source
        self._links: Final = links
        self._open: Final[dict[int, OpenStream]] = {}
        """Number of an exchange -> its stream."""

    def begin_stream(self, exchange: CarryingExchange, row: int) -> None:
        """Open a stream if ``exchange`` is a GET whose response is one; ``row`` is the exchange's row."""
        if exchange.request.method != "GET" or not exchange.is_stream:
            return
        stream = self._open[exchange.request.exchange] = OpenStream(row, exchange)
        if (http_context := trace_context.of_fields(exchange.fields)) is not None:
            stream.links.append(link(http_context, "http"))
        last_event = exchange.fields.get("last-event-id")
        session = self._source.view.columns.session[row]
        if last_event and (earlier := self._links.of_event(session, last_event)):
            stream.links.append(link(earlier, "stream"))

    def add_frame(self, frame: Frame) -> OpenStream | None:
        """Return the open stream in which the server sent a frame; ``None`` if it sent it in none.

        The frame is counted, unless it is empty, and the id of its event is remembered for a request that
        resumes the stream.
        """
        stream = self._open.get(frame.exchange) if frame.sender == SERVER else None
        if stream is not None:
            stream.messages += bool(frame.raw)
            if frame.event is not None and frame.event.id:
                session = self._source.view.columns.session[stream.row]
                self._links.remember_event(session, frame.event.id, self.context(stream))
        return stream

    def end(self, end: ExchangeEnd) -> OpenStream | None:
        """Close and return the stream that ends with an exchange; ``None`` if the exchange has none."""
        stream = self._open.pop(end.exchange, None)
        if stream is not None:
            stream.ended_ns, stream.was_cut = end.observed_at_ns, end.cut
        return stream

    def end_all(self) -> list[OpenStream]:
        """Return the streams that are still open at the end of the recording, as cut off."""
        for stream in self._open.values():
            stream.ended_ns, stream.was_cut = self._source.view.duration_ns, True
        return list(self._open.values())

    def of_event(self, event: Event) -> OpenStream | None:
        """Return the open stream to which a recorded event belongs; ``None`` if it belongs to none."""
        if isinstance(event, Frame | RequestHead | ResponseHead):
            return self._open.get(event.exchange)
        return None

    def context(self, stream: OpenStream) -> SpanContext:
        """Return the context of the span of a stream."""
        session_context = self._source.context_of_row(stream.row)
        id = trace_context.span_id(self._source.id, stream.exchange.request.seq, 0)
        return trace_context.local(session_context.trace_id, id)

    def span(self, stream: OpenStream) -> ReadableSpan:
        """Return the span of a stream that has ended."""
        source, head = self._source, stream.exchange.request
        values: Attributes = {
            "http.request.method": head.method,
            **attributes.of_transport(source.view.header),
            "network.protocol.version": head.version,
            **attributes.of_server(source.view.header),
            "mcpproxy.request.frame": head.seq,
            "mcpproxy.messages": stream.messages,
        }
        if name := source.texts.short(source.session_name(stream.row)):
            values["mcpproxy.session"] = name
        if attributes.resumes(stream.exchange):
            values["mcpproxy.resumes"] = True
        if stream.was_cut:
            values["mcpproxy.cut"] = True
        if stream.findings:
            values["mcpproxy.findings"] = stream.findings
        return ReadableSpan(
            f"{head.method} stream",
            self.context(stream),
            source.context_of_row(stream.row),
            source.resource,
            values,
            stream.events,
            stream.links,
            start_time=source.started_ns + head.observed_at_ns,
            end_time=source.started_ns + max(stream.ended_ns, head.observed_at_ns),
            instrumentation_scope=SCOPE,
        )
