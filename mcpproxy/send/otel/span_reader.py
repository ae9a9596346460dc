"""One pass over a recording that makes spans: for each request, each stream of a GET, and each session.

A span is made when its call ends: with its answer, with the notification that cancels it, when its HTTP
exchange fails, or at the end of the recording. Its events are the notifications that belong to the call, the
arrival of its answer in a stream that resumes another, and the findings about its frames that are recorded
before the call ends or directly after its last record. Later findings, and findings that are about no call,
are events of the session's span. So a recording gives the same spans whether it is read while it grows or at
once.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, assert_never

from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util import BoundedList
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode

from mcpproxy.judge.session.frame import ExchangeEnd, Finding, Frame, RequestHead, ResponseHead, Signal
from mcpproxy.judge.session.outcomes import Kind, Outcome, outcome_of, status_outcome
from mcpproxy.protocol import acp
from mcpproxy.protocol.header_names import PROTOCOL_VERSION
from mcpproxy.protocol.jsonrpc import (
    Batch,
    ErrorResponse,
    JSONObject,
    Malformed,
    Notification,
    Request,
    Response,
    Single,
)
from mcpproxy.protocol.message_parts import singles
from mcpproxy.read.view.index.peers import VERSION_META
from mcpproxy.read.view.view import View
from mcpproxy.record.trace.records import Record
from mcpproxy.send.otel import attributes, trace_context
from mcpproxy.send.otel.attributes import Attributes
from mcpproxy.send.otel.get_streams import OpenStream, Streams
from mcpproxy.send.otel.links import Links, link
from mcpproxy.send.otel.open_call import CarryingExchange, Ending, OpenCall, events
from mcpproxy.send.otel.session_span import session_span
from mcpproxy.send.otel.span_source import SCOPE, SpanSource
from mcpproxy.send.otel.texts import Texts

_FINDING: Final = "mcpproxy.finding"
"""The name of the event of a finding."""


class SpanReader:
    """Makes the spans of ``view``, in the order in which their calls end.

    With ``content``, spans have the arguments of tools and prompts, and the results of tools. With ``masks``,
    secrets are masked in every text. ``not_sampled`` counts the calls that their callers do not sample, whose
    spans are not yielded. ``measure`` gets every span, even those. ``log`` gets the event of each finding,
    unless its call or stream has dropped it, and the context of its span.
    """

    def __init__(
        self,
        view: View,
        *,
        content: bool = False,
        masks: bool = True,
        measure: Callable[[ReadableSpan], None] | None = None,
        log: Callable[[Event, SpanContext], None] | None = None,
    ) -> None:
        self.not_sampled = 0
        self._view: Final = view
        self._content: Final = content
        self._measure: Final = measure or _ignore
        self._log: Final = log or _ignore
        self._texts: Final = Texts(masks=masks)
        self._source: Final = SpanSource(view, self._texts)
        self._links: Final = Links()
        self._made: Counter[str] = Counter()
        """How many spans and findings were made since the last start."""
        self._repeated: Counter[str] = Counter()
        """How many of them are not yielded again after ``restart``."""
        self._start()

    def restart(self) -> None:
        """Read from the beginning again, without yielding the same spans again.

        A longer recording has replaced this one, and its calls end in the same order.
        """
        self._repeated, self._made, self.not_sampled = self._made, Counter(), 0
        self._start()

    def _start(self) -> None:
        self.next_line = 1
        """The line of the recording that is read next."""
        self._row = 1
        """The row of the index that begins next."""
        self._open: dict[int, OpenCall] = {}
        self._streams = Streams(self._source, self._links)
        self._ended: dict[int, OpenCall | OpenStream] = {}
        """Calls and streams that have ended, for which findings may still follow."""
        self._exchanges: dict[int, CarryingExchange] = {}
        self._revisions: dict[int, str] = {}
        """Number of a session -> the protocol revision in the answer to its ``initialize``."""
        self._session_events: dict[int, BoundedList[Event]] = {}
        self._is_acp = False
        self._was_stopped = False

    def read(self, lines: int | None = None) -> Iterator[ReadableSpan]:
        """Read at most ``lines`` lines, and yield the spans of the calls that have ended since the last time.

        Calls that the last record ended are left for the next time, because findings about them may follow.
        Read the iterator to its end.
        """
        for line, record in islice(self._view.index.records(self.next_line), lines):
            self.next_line = line + 1
            if isinstance(record, Finding):
                self._add_finding(record)
                continue
            yield from self.settle()
            self._read_record(line, record)

    def settle(self) -> Iterator[ReadableSpan]:
        """Yield the spans of the calls and streams that ended last. Later findings are not in these spans."""
        ended, self._ended = self._ended, {}
        for item in ended.values():
            if isinstance(item, OpenStream):
                span, context = self._streams.span(item), self._streams.context(item)
            else:
                span, context = self._span(item), self._context(item)
            is_sampled = context.trace_flags.sampled
            self.not_sampled += not is_sampled
            if not self._is_new("spans"):
                continue
            self._measure(span)
            for event in span.events:
                if event.name == _FINDING:
                    self._log(event, context)
            if is_sampled:
                yield span

    def _is_new(self, kind: str) -> bool:
        """Count a span or finding; return whether it is beyond those that were made before ``restart``."""
        self._made[kind] += 1
        return self._made[kind] > self._repeated[kind]

    def finish(self) -> Iterator[ReadableSpan]:
        """Yield the remaining spans; the recording has ended, and ``read`` has read all of it."""
        yield from self.settle()
        view = self._view
        close = view.ended
        for call in list(self._open.values()):
            if close is None or close.ending == "cut":
                self._end_call(call, Ending(view.duration_ns, Outcome.UNANSWERED))
            else:
                self._end_call(call, Ending(view.duration_ns, Outcome.UNANSWERED, "connection_closed"))
        for stream in self._streams.end_all():
            self._ended[stream.row] = stream
        yield from self.settle()
        for session in view.sessions:
            name = view.index.session_name(session.number)
            span = session_span(
                view,
                session,
                self._source.session_context(name),
                resource=self._source.resource,
                scope=SCOPE,
                started_ns=self._source.started_ns,
                events=self._session_events.get(session.number, ()),
                was_stopped=self._was_stopped,
            )
            self._measure(span)
            yield span

    # Records

    def _read_record(self, line: int, record: Record) -> None:
        match record:
            case Frame():
                self._read_frame(line, record)
            case RequestHead(exchange=number):
                self._exchanges[number] = CarryingExchange(record)
            case ResponseHead(exchange=number) if record.status >= 200 and number in self._exchanges:
                self._exchanges[number].response = record
                self._streams.begin_stream(self._exchanges[number], self._view.columns.line_row[line])
            case ExchangeEnd(exchange=number) if number in self._exchanges:
                self._end_exchange(self._exchanges.pop(number), record)
                if stream := self._streams.end(record):
                    self._ended[stream.row] = stream
            case Signal():
                self._was_stopped = True
            case _:
                pass

    def _read_frame(self, line: int, frame: Frame) -> None:
        columns, message = self._view.columns, frame.message
        self._begin_calls(line, frame)
        stream = self._streams.add_frame(frame)
        if stream is None:
            self._remember_event(frame)
        if isinstance(message, Batch):
            for call in [call for row, call in self._open.items() if columns.answer_line[row] == line]:
                element = columns.answer_elements.get(call.row, 0)
                self._end_with_answer(call, frame, message.items[element])
        elif call := self._open.get(columns.line_row[line]):
            self._read_frame_of_call(call, line, frame, message)
        elif stream is not None and isinstance(message, Notification):
            self._add_notification(stream.events, frame, message)

    def _read_frame_of_call(self, call: OpenCall, line: int, frame: Frame, message: Single) -> None:
        if call.ended_ns is not None:  # a piece of its answer
            if not frame.continues:
                self._end_call(call, Ending(call.ended_ns, Outcome.OK, seq=frame.seq))
        elif self._view.columns.answer_line[call.row] == line:
            if frame.continues:
                call.ended_ns = frame.observed_at_ns
            else:
                self._end_with_answer(call, frame, message)
        elif isinstance(message, Notification):
            self._read_notification(call, frame, message)

    def _remember_event(self, frame: Frame) -> None:
        """Remember the call of a stream, for a request that resumes the stream after this event."""
        exchange = self._exchanges.get(frame.exchange)
        if frame.event is not None and frame.event.id and exchange is not None and exchange.calls:
            call = exchange.calls[0]
            session = self._view.columns.session[call.row]
            self._links.remember_event(session, frame.event.id, self._context(call))

    def _begin_calls(self, line: int, frame: Frame) -> None:
        """Begin the calls whose requests are in this frame."""
        columns = self._view.columns
        while self._row <= columns.rows and columns.first_line[self._row] <= line:
            row, self._row = self._row, self._row + 1
            if columns.first_line[row] == line and columns.kind_of(row) is Kind.REQUEST:
                self._begin_call(row, frame)

    def _begin_call(self, row: int, frame: Frame) -> None:
        columns, message = self._view.columns, frame.message
        element = columns.elements.get(row, 0)
        request = singles(message)[element]
        if not isinstance(request, Request):
            return
        call = OpenCall(
            row,
            frame.seq,
            element,
            frame.sender,
            request,
            self._view.index.reader.name(row)[1],
            frame.observed_at_ns,
            exchange=self._exchanges.get(frame.exchange),
        )
        self._open[row] = call
        if request.method == "initialize" and acp.is_initialize(request.params):
            self._is_acp = True
        call.caller = trace_context.remote(call.meta)
        if outer := columns.parent[row]:
            ended = self._ended.get(outer)
            call.outer = self._open.get(outer) or (ended if isinstance(ended, OpenCall) else None)
        if call.exchange is not None:
            call.exchange.calls.append(call)
            http_context = trace_context.of_fields(call.exchange.fields)
            if http_context is not None and http_context != call.caller:
                call.links.append(link(http_context, "http"))
        session = columns.session[row]
        call.links += self._links.of_request(session, request.method, call.target, call.params)

    def _end_with_answer(self, call: OpenCall, frame: Frame, message: Single) -> None:
        at_ns, seq, by_proxy = frame.observed_at_ns, frame.seq, frame.by_proxy
        match message:
            case ErrorResponse():
                outcome = Outcome.REFUSED if by_proxy else outcome_of(message, call.asked)
                error = attributes.error_code_text(message) or "_OTHER"
                error = "" if outcome is Outcome.DECLINED else error
                why = attributes.error_text(message)
                ending = Ending(at_ns, outcome, error, why, seq, message, by_proxy)
            case Response(result=result):
                members: JSONObject = result if isinstance(result, dict) else {}
                outcome = outcome_of(message, call.asked)
                ending = Ending(at_ns, outcome, seq=seq, message=message, by_proxy=by_proxy)
                if outcome is Outcome.TOOL_ERROR:
                    ending.error = "tool_error"
                elif outcome is Outcome.RPC_ERROR:
                    ending.error = attributes.error_code_text(message, call.request.method) or "_OTHER"
                self._remember_result(call, members)
            case Request() | Notification() | Malformed():
                ending = Ending(at_ns, Outcome.OK, seq=seq)
            case _:
                assert_never(message)
        exchange = self._exchanges.get(frame.exchange)
        if exchange is not None and exchange is not call.exchange and attributes.resumes(exchange):
            self._add_event(call.events, "mcpproxy.resumed", at_ns, {"mcpproxy.exchange": frame.exchange})
        self._end_call(call, ending)

    def _remember_result(self, call: OpenCall, result: JSONObject) -> None:
        session = self._view.columns.session[call.row]
        if call.request.method == "initialize" and isinstance(result.get("protocolVersion"), str):
            self._revisions[session] = str(result["protocolVersion"])
        self._links.remember_request(session, call.request.method, call.target, result, self._context(call))

    def _read_notification(self, call: OpenCall, frame: Frame, notification: Notification) -> None:
        if notification.method == "notifications/cancelled":
            # The receiver need not answer. In ACP it must, so a call continues after ``session/cancel``.
            self._end_call(call, Ending(frame.observed_at_ns, Outcome.CANCELLED, "cancelled"))
            return
        self._add_notification(call.events, frame, notification)

    def _add_notification(
        self, span_events: "BoundedList[Event]", frame: Frame, notification: Notification
    ) -> None:
        method, params = notification.method, notification.params
        members: JSONObject = params if isinstance(params, dict) else {}
        values: Attributes = {"mcpproxy.method": self._texts.short(method), "mcpproxy.frame": frame.seq}
        for name in ("progress", "total"):
            if isinstance(value := members.get(name), int | float) and not isinstance(value, bool):
                values[f"mcpproxy.{name}"] = float(value)
        if method == "notifications/message" and isinstance(level := members.get("level"), str):
            values["mcpproxy.level"] = self._texts.short(level)
        self._add_event(span_events, "mcpproxy.notification", frame.observed_at_ns, values)

    def _end_exchange(self, exchange: CarryingExchange, end: ExchangeEnd) -> None:
        outcomes = self._view.columns.outcome
        response = exchange.response
        for call in [call for call in exchange.calls if call.row in self._open]:
            if call.ended_ns is not None:
                self._end_call(call, Ending(call.ended_ns, Outcome.OK))
            elif response is not None and response.status >= 400:
                status, by_proxy = response.status, response.by_proxy
                outcome = status_outcome(call.asked, status, by_proxy=by_proxy)
                self._end_call(
                    call,
                    Ending(
                        response.observed_at_ns,
                        outcome,
                        "" if outcome is Outcome.DECLINED else str(status),
                        response.reason,
                        response.seq,
                        by_proxy=by_proxy,
                    ),
                )
            elif tuple(Outcome)[outcomes[call.row]] is Outcome.UNREADABLE:
                seq = response.seq if response is not None else None
                self._end_call(call, Ending(end.observed_at_ns, Outcome.UNREADABLE, seq=seq))
            elif end.cut and tuple(Outcome)[outcomes[call.row]] is Outcome.CANCELLED:
                self._end_call(call, Ending(end.observed_at_ns, Outcome.CANCELLED, "cancelled"))
            elif end.cut and not exchange.is_stream:
                self._end_call(call, Ending(end.observed_at_ns, Outcome.UNANSWERED, "connection_closed"))

    # Findings

    def _add_finding(self, finding: Finding) -> None:
        view = self._view
        row = view.columns.row_of(finding.frame) if finding.frame else 0
        owner = self._ended.get(row) or self._open.get(row)
        owner = owner or (self._streams.of_event(view.record(finding.frame)) if finding.frame else None)
        values: Attributes = {
            "mcpproxy.rule": finding.rule,
            "mcpproxy.severity": finding.severity,
            "mcpproxy.blame": finding.blame,
            "mcpproxy.message": self._texts.short(finding.message),
            "mcpproxy.requirement": finding.requirement,
            "mcpproxy.source": finding.source,
            "mcpproxy.frame": finding.frame,
        }
        event = Event(_FINDING, values, self._source.started_ns + self._time_of(finding.frame))
        if owner is not None:
            owner.findings += 1
            owner.events.append(event)
            return
        session = view.columns.session[row]
        self._session_events.setdefault(session, events()).append(event)
        if self._is_new("findings of sessions"):
            self._log(event, self._source.context_of_row(row))

    def _time_of(self, seq: int) -> int:
        """Return the time of a finding's frame, or of the last record if the finding has no frame."""
        return self._view.record(seq).observed_at_ns if seq else self._view.duration_ns

    def _add_event(
        self, span_events: "BoundedList[Event]", name: str, at_ns: int, values: Attributes
    ) -> None:
        span_events.append(Event(name, values, self._source.started_ns + at_ns))

    # Calls

    def _end_call(self, call: OpenCall, ending: Ending) -> None:
        del self._open[call.row]
        call.ending = ending
        self._ended[call.row] = call

    def _context(self, call: OpenCall) -> SpanContext:
        """Return the context of a call's span. The session of the call must be known."""
        if call.context is None:
            parent = self._parent(call)
            id = trace_context.span_id(self._source.id, call.seq, call.element)
            call.context = trace_context.local(parent.trace_id, id, parent)
        return call.context

    def _parent(self, call: OpenCall) -> SpanContext:
        """Return the context of the parent span: the one that a peer names, the outer call or the session."""
        if call.caller is not None:
            return call.caller
        if call.outer is not None:
            return self._context(call.outer)
        return self._source.context_of_row(call.row)

    def _span(self, call: OpenCall) -> ReadableSpan:
        view, texts, ending = self._view, self._texts, call.ending
        assert ending is not None
        columns = view.columns
        session = columns.session[call.row]
        name = view.index.session_name(session)
        context, links = self._context(call), list(call.links)
        session_context = self._source.session_context(name)
        if context.trace_id != session_context.trace_id:
            links.append(link(session_context, "session"))
        values = attributes.of_call(
            call,
            texts,
            view.header,
            revision=self._revision(call, session),
            is_acp=self._is_acp,
            content=self._content,
        )
        values |= attributes.of_ending(call, ending, texts, content=self._content)
        sizes = columns.request_bytes[call.row], columns.answer_bytes[call.row]
        values |= attributes.of_recording(call, ending, texts.short(name), *sizes)
        if ending.outcome == Outcome.UNANSWERED and not ending.error:
            values["mcpproxy.incomplete"] = True
        status = Status(StatusCode.ERROR, texts.short(ending.why) or None) if ending.error else Status()
        # Peers that trace themselves have client and server spans of the call, so ours must be neither.
        kind = SpanKind.CLIENT if call.caller is None else SpanKind.INTERNAL
        return ReadableSpan(
            attributes.name_of(call, texts),
            context,
            self._parent(call),
            self._source.resource,
            values,
            call.events,
            links,
            kind,
            status=status,
            start_time=self._source.started_ns + call.started_ns,
            end_time=self._source.started_ns + max(ending.at_ns, call.started_ns),
            instrumentation_scope=SCOPE,
        )

    def _revision(self, call: OpenCall, session: int) -> str:
        """Return the protocol revision of a request, which it or its session names; empty if unknown."""
        named = call.meta.get(VERSION_META)
        if not isinstance(named, str) and call.exchange is not None:
            named = call.exchange.fields.get(PROTOCOL_VERSION)
        return named if isinstance(named, str) else self._revisions.get(session, "")


def _ignore(*_: object) -> None:
    pass
