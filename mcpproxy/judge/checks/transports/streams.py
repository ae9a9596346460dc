"""SSE streams: which messages belong on which stream, how streams end, and how they are resumed.

The order of messages on different streams is unknown. So each check looks at one stream, or compares ids of
requests or events. The *cursor* of a request is the event after which its client resumes a stream.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery
"""

from typing import Final

from mcpproxy.judge.checks.engine.context import Violation, Violations, shortened, spelled
from mcpproxy.judge.checks.engine.http_facts import (
    AFTER_ANSWERS,
    FIRST_EVENT,
    FOR_ONE_REQUEST,
    NAMED_EVENT,
    SEEN_BEFORE,
    STREAMING,
    UNANSWERED,
)
from mcpproxy.judge.checks.engine.rows import STATEFUL, STATELESS, STREAMABLE, HttpCheck, RuleFamily
from mcpproxy.judge.session.exchanges import HttpExchange, HttpHistory
from mcpproxy.judge.session.frame import CLIENT, SERVER, Frame
from mcpproxy.judge.session.history import SentRequest
from mcpproxy.protocol.header_names import PROTOCOL_VERSION
from mcpproxy.protocol.jsonrpc import ErrorResponse, Notification, Response
from mcpproxy.protocol.message_parts import member, well_formed
from mcpproxy.protocol.methods import LISTEN

LINGERING_NS: Final = 10_000_000_000
"""A stream that stays open for at least this long after its response is reported."""

EARLY_NS: Final = 50_000_000
"""How much too early a client may reconnect without being reported, because the network changes the times."""


def unanswered_stream(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a stream that the server ends without the response (HTTP-012), or interrupts without ``retry``
    (SSE-005).
    """
    session = exchange.session
    if session is None or not exchange.response_is_sse or exchange.cut or not exchange.succeeded:
        return
    if exchange.method != "POST" or exchange.initialize is not None or session.ended_seq is not None:
        return
    if not (unanswered := exchange.unanswered) or session.judge.history.server.sent_unreadable:
        return
    resumable = exchange.event_id_count > 0 and not session.stateless
    if resumable and session.revision not in ("2025-03-26", "2025-06-18"):
        stream = exchange.stream
        if stream is not None and stream.retry_ms is None:
            problem = "server closed an unfinished stream without saying when to reconnect"
            yield Violation("SSE-005", "R-084", problem, frame=exchange.request.seq)
        return
    if session.stateless and unanswered[0].method == LISTEN:
        return  # The stream of a subscription may end without a response.
    what = f"{shortened(unanswered[0].method)} ({spelled(unanswered[0].id)})"
    problem = f"server ended the stream without the response to {what}{unfinished(exchange)}"
    yield Violation("HTTP-012", "R-073", problem, frame=exchange.request.seq)


def unfinished(exchange: HttpExchange) -> str:
    """Return a clause about a response in an event that never ended; empty if there is no such event."""
    return "; no blank line ends the event with it, so clients discard it" if exchange.unfinished_seq else ""


def unfinished_event(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a response in an event that had not ended when its stream was cut (HTTP-012).

    The finding is an info only: a client that reads the response without waiting for the blank line may leave
    before that line, and a server whose connection breaks may have meant to write it.
    """
    if not exchange.unfinished_seq or not exchange.cut or exchange.ended_by not in (CLIENT, SERVER):
        return
    if exchange.ended_by == SERVER and exchange.event_id_count:
        return  # The client may resume the stream, where the event is sent again.
    how = "the client left" if exchange.ended_by == CLIENT else "the server cut its answer"
    problem = f"{how} before the event with the response had ended: the blank line after it is missing"
    related = (exchange.request.seq,)
    yield Violation(
        "HTTP-012", "R-073", problem, related=related, frame=exchange.unfinished_seq, at_most="info"
    )


def unrelated_message(exchange: HttpExchange, history: HttpHistory, frame: Frame) -> Violations:
    """Report a message whose id or progress token shows that it belongs on another stream (HTTP-013,
    HTTP-017).
    """
    session = exchange.session
    if frame.event is None or session is None or exchange.repeats_earlier_event or exchange.also_carried_by:
        return
    related = (exchange.request.seq,)
    for message in well_formed(frame.message):
        if isinstance(message, Response | ErrorResponse):
            stream = exchange.stream
            if stream is None or stream.number != exchange.number or not isinstance(message.id, int | str):
                continue  # This response may belong on a resumed stream.
            if not stream.posted:
                problem = f"server sent a response ({spelled(message.id)}) on a stream that a GET had opened"
                yield Violation("HTTP-017", "R-078", problem, pointer="/id", related=related)
            elif stream.excludes(message.id) and session.asked_for(message.id):
                problem = (
                    f"server sent the response to another request ({spelled(message.id)}) on this stream"
                )
                yield Violation("HTTP-013", "R-074", problem, pointer="/id", related=related)
        elif isinstance(message, Notification) and message.method == "notifications/progress":
            yield from _unrelated_progress(exchange, message)


def _unrelated_progress(exchange: HttpExchange, message: Notification) -> Violations:
    """Report progress whose token shows that it belongs on the stream of another request (HTTP-013)."""
    token, stream, session = member(message.params, "progressToken"), exchange.stream, exchange.session
    assert session is not None
    if stream is None or stream.number != exchange.number or not isinstance(token, int | str):
        return
    problem = ""
    if session.stateless:
        tokens = [member(request.params, "_meta", "progressToken") for request in exchange.requests]
        is_subscription = any(request.method == LISTEN for request in exchange.requests)
        if token not in tokens and tokens and not is_subscription:  # SUB-008 judges subscriptions.
            problem = (
                f"server reported progress under {spelled(token)} "
                "on the stream of a request with another token"
            )
    else:
        request = _request_with_token(exchange, token)
        if request is None or member(request.params, "task") is not None:
            return
        if stream.excludes(request.id):
            where = (
                "another request's stream" if stream.posted else "a stream that the client opened with GET"
            )
            what = f"{shortened(request.method)} ({spelled(request.id)})"
            problem = f"server reported the progress of {what} on {where}"
    if problem:
        yield Violation(
            "HTTP-013", "R-074", problem, pointer="/params/progressToken", related=(exchange.request.seq,)
        )


def _request_with_token(exchange: HttpExchange, token: int | str) -> SentRequest | None:
    """Return the request in flight that asked for progress under ``token``; ``None`` if there is none."""
    pending = exchange.session.judge.history.client.pending if exchange.session else {}
    for request in pending.values():
        request_token = member(request.params, "_meta", "progressToken")
        if request_token == token and type(request_token) is type(token):
            return request
    return None


def message_after_response(exchange: HttpExchange, history: HttpHistory, frame: Frame) -> Violations:
    """Report a message on a stream after the response that should have ended the stream (HTTP-014)."""
    if (
        exchange.answered_ns is None
        or frame.event is None
        or exchange.late_messages
        or exchange.repeats_earlier_event
    ):
        return
    if exchange.method == "POST" and well_formed(frame.message):
        problem = "server sent more on the stream after the response that ends it"
        yield Violation("HTTP-014", "R-075", problem, related=(exchange.request.seq,))


def lingering_stream(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a stream that stays open after its response (HTTP-014)."""
    if exchange.answered_ns is None or exchange.ended_ns is None or "HTTP-014" in exchange.broken_rules:
        return
    waited_ns = exchange.ended_ns - exchange.answered_ns
    if exchange.response_is_sse and waited_ns >= LINGERING_NS:
        problem = f"server left the stream open for {waited_ns / 1e9:.0f} s after the response"
        yield Violation("HTTP-014", "R-075", problem, frame=exchange.request.seq)


def message_on_two_streams(exchange: HttpExchange, history: HttpHistory, frame: Frame) -> Violations:
    """Report a message that was sent on two streams, unless this stream resumes another (HTTP-018)."""
    other_exchange = history.exchanges.get(exchange.also_carried_by)
    if other_exchange is not None and exchange.cursor is None and (frame.raw or exchange.earlier_event):
        problem = "server sent one message on two streams"
        yield Violation("HTTP-018", "R-079", problem, related=(other_exchange.request.seq,))


def event_id_reused(exchange: HttpExchange, history: HttpHistory, frame: Frame) -> Violations:
    """Report an event id that two different events have (SSE-001)."""
    if exchange.earlier_event is not None and not exchange.repeats_earlier_event and frame.event is not None:
        problem = f"server gave the event id {_quoted(frame.event.id)} to two different events"
        yield Violation("SSE-001", "R-080", problem)


def unknown_cursor(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a client that resumes after an event it never received (SSE-002)."""
    last_event_id, session = exchange.last_event_id, exchange.session
    if not last_event_id or session is None or session.joined_late or session.forgot_some or history.has_gap:
        return
    if exchange.cursor is None:
        yield Violation(
            "SSE-002",
            "R-081",
            f"client resumes after event {_quoted(last_event_id)}, which it never received",
        )


def foreign_replay(exchange: HttpExchange, history: HttpHistory, frame: Frame) -> Violations:
    """Report a resumed stream that repeats events of another stream or events already received, or that has
    the response to a request of another stream (SSE-003).
    """
    cursor, stream, earlier_event, session = (
        exchange.cursor,
        exchange.stream,
        exchange.earlier_event,
        exchange.session,
    )
    if cursor is None or stream is None or frame.event is None or session is None:
        return
    related = (exchange.request.seq,)
    if earlier_event is not None and exchange.repeats_earlier_event:
        if earlier_event.stream is not stream:
            problem = f"server replayed event {_quoted(frame.event.id)} of another stream"
            yield Violation("SSE-003", "R-082", problem, related=related)
        elif earlier_event.position <= cursor.position and earlier_event.exchange != exchange.number:
            problem = f"server replayed event {_quoted(frame.event.id)}, which the client has received"
            yield Violation("SSE-003", "R-082", problem, related=related, at_most="warning")
        return
    for message in well_formed(frame.message):
        if not isinstance(message, Response | ErrorResponse) or not isinstance(message.id, int | str):
            continue
        if stream.excludes(message.id) and session.asked_for(message.id):
            problem = f"server sent the response to {spelled(message.id)} on a stream of other requests"
            yield Violation("SSE-003", "R-082", problem, pointer="/id", related=related)


def missing_first_id(exchange: HttpExchange, history: HttpHistory, frame: Frame) -> Violations:
    """Report a stream of 2025-11-25 that does not begin with an empty event with an id, although this event
    or earlier ones of the session have ids (SSE-004).
    """
    event, session = frame.event, exchange.session
    if event is None or session is None or exchange.event_count != 1 or exchange.method != "POST":
        return
    if exchange.initialize is None and PROTOCOL_VERSION not in exchange.fields:
        return  # Without a version header the server may treat the request as one of 2025-03-26.
    if session.revision == "2025-11-25" and (event.id or session.events) and (frame.raw or not event.id):
        problem = "server began a stream without an empty event with an id, although its events have ids"
        yield Violation("SSE-004", "R-083", problem, related=(exchange.request.seq,))


def hasty_reconnect(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a client that reconnects sooner than ``retry`` allows (SSE-006)."""
    cursor, stream = exchange.cursor, exchange.stream
    if (
        cursor is None
        or stream is None
        or stream.retry_ms is None
        or stream.closed_ns is None
        or stream.left_by_client
    ):
        return
    waited_ns = exchange.request.observed_at_ns - stream.closed_ns
    if waited_ns < stream.retry_ms * 1_000_000 - EARLY_NS:
        waited = f"{max(waited_ns, 0) // 1_000_000} ms"
        problem = f"client reconnected after {waited}; the server asked for {stream.retry_ms} ms"
        yield Violation("SSE-006", "R-085", problem)


def event_name(exchange: HttpExchange, history: HttpHistory, frame: Frame) -> Violations:
    """Report a message in an event with a name other than message (SSE-007)."""
    event = frame.event
    if event is None or event.is_named_message:
        return
    if any("jsonrpc" in m.value for m in well_formed(frame.message)):
        problem = (
            f"server sent a message in an event named {shortened(event.name or '')}; "
            "many clients only read events named message"
        )
        yield Violation("SSE-007", "R-086", problem, related=(exchange.request.seq,))


def buffered_stream(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a stream without the header ``X-Accel-Buffering: no`` (SSE-008).

    Only servers that have shown that they support a stateless revision are judged.
    """
    if exchange.response_is_sse and exchange.server in history.modern_servers:
        values = [value.lower() for value in exchange.response_fields.all("x-accel-buffering")]
        if values != ["no"]:
            problem = "server began a stream without X-Accel-Buffering: no"
            yield Violation("SSE-008", "R-242", problem, related=(exchange.request.seq,))


def _quoted(id: str | None) -> str:
    return f'"{shortened(id or "")}"'


FAMILY: Final = RuleFamily(
    http=(
        HttpCheck(
            ("HTTP-012", "SSE-005"), unanswered_stream, ("end",), STREAMABLE, ("POST",), given=UNANSWERED
        ),
        HttpCheck(("HTTP-012",), unfinished_event, ("end",), STREAMABLE, ("POST",), given=UNANSWERED),
        HttpCheck(("HTTP-013", "HTTP-017"), unrelated_message, ("event",), STREAMABLE, given=FOR_ONE_REQUEST),
        HttpCheck(
            ("HTTP-014",), message_after_response, ("event",), STREAMABLE, ("POST",), given=AFTER_ANSWERS
        ),
        HttpCheck(("HTTP-014",), lingering_stream, ("end", "close"), STREAMABLE, ("POST",), given=STREAMING),
        HttpCheck(("HTTP-018",), message_on_two_streams, ("event",), STATEFUL, given=SEEN_BEFORE),
        HttpCheck(("SSE-001",), event_id_reused, ("event",), STATEFUL, given=SEEN_BEFORE),
        HttpCheck(("SSE-002",), unknown_cursor, ("request",), STATEFUL, ("GET",)),
        HttpCheck(("SSE-003",), foreign_replay, ("event",), STATEFUL, ("GET",)),
        HttpCheck(("SSE-004",), missing_first_id, ("event",), STATEFUL, ("POST",), given=FIRST_EVENT),
        HttpCheck(("SSE-006",), hasty_reconnect, ("request",), STATEFUL, ("GET",)),
        HttpCheck(("SSE-007",), event_name, ("event",), STREAMABLE, given=NAMED_EVENT),
        HttpCheck(("SSE-008",), buffered_stream, ("success",), STATELESS, ("POST",), given=STREAMING),
    ),
)
