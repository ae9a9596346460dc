"""SSE streams: which messages belong on which, how they end, and how they are resumed.

There is no order across streams, so each check relies on one stream or on ids.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.checks.engine.context import Violation, member, shortened, spelled
from mcpproxy.checks.engine.http_facts import FIRST, LATE, NAMED, RELATED, STREAMING, TWICE, UNANSWERED
from mcpproxy.checks.engine.rows import STATEFUL, STATELESS, STREAMABLE, HttpCheck, RuleFamily
from mcpproxy.protocol.jsonrpc import ErrorResponse, Notification, Response
from mcpproxy.session.exchanges import VERSION, HttpExchange, HttpHistory, singles
from mcpproxy.session.frame import Frame
from mcpproxy.session.history import SentRequest

LISTEN: Final = "subscriptions/listen"

LINGERING_NS: Final = 10_000_000_000
"""A stream that is still open this long after its response was not closed by it."""

EARLY_NS: Final = 50_000_000
"""Clock and network differences may make a client that waited seem early by this much."""

Checked = Iterator[Violation]


def unanswered_stream(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """HTTP-012, SSE-005: the server ends a stream that still owes a response"""
    session = exchange.session
    if session is None or not exchange.streams or exchange.cut or not exchange.succeeded:
        return
    if exchange.method != "POST" or exchange.initialize is not None or session.ended_seq is not None:
        return
    if not (owed := exchange.unanswered) or session.judge.history.server.unreadable:
        return
    resumable = exchange.named_events > 0 and not session.stateless
    if resumable and session.revision not in ("2025-03-26", "2025-06-18"):
        stream = exchange.stream
        if stream is not None and stream.retry_ms is None:
            said = "server closed a stream that it has yet to finish, without saying when to come back"
            yield Violation("SSE-005", "R-084", said, frame=exchange.request.seq)
        return
    if session.stateless and owed[0].method == LISTEN:
        return  # Its stream carries a subscription, and ends with that.
    what = f"{shortened(owed[0].method)} ({spelled(owed[0].id)})"
    said = f"server ended the stream without the response to {what}"
    yield Violation("HTTP-012", "R-073", said, frame=exchange.request.seq)


def unrelated_message(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """HTTP-013, HTTP-017: what shows by its id or token that it belongs elsewhere"""
    assert frame is not None
    session = exchange.session
    if frame.event is None or session is None or exchange.replayed or exchange.elsewhere:
        return
    related = (exchange.request.seq,)
    for message in singles(frame)[0]:
        if isinstance(message, Response | ErrorResponse):
            stream = exchange.stream
            if stream is None or stream.number != exchange.number or not isinstance(message.id, int | str):
                continue  # A resumed stream may owe this response.
            if not stream.posted:
                said = f"server sent a response ({spelled(message.id)}) on a stream that a GET had opened"
                yield Violation("HTTP-017", "R-078", said, pointer="/id", related=related)
            elif message.id not in stream.asked and session.asked_for(message.id):
                said = f"server sent the response to another request ({spelled(message.id)}) on this stream"
                yield Violation("HTTP-013", "R-074", said, pointer="/id", related=related)
        elif isinstance(message, Notification) and message.method == "notifications/progress":
            yield from _unrelated_progress(exchange, message)


def _unrelated_progress(exchange: HttpExchange, message: Notification) -> Checked:
    token, stream, session = member(message.params, "progressToken"), exchange.stream, exchange.session
    assert session is not None
    if stream is None or stream.number != exchange.number or not isinstance(token, int | str):
        return
    said = ""
    if session.stateless:
        own = [member(request.params, "_meta", "progressToken") for request in exchange.requests]
        listens = any(request.method == "subscriptions/listen" for request in exchange.requests)
        if token not in own and own and not listens:  # SUB-008 covers messages that do not belong there.
            said = (
                f"server reported progress of something else ({spelled(token)}) on the stream of this request"
            )
    else:
        asked = _asked_with(exchange, token)
        if asked is None or member(asked.params, "task") is not None:
            return
        if asked.id not in stream.asked:
            where = (
                "another request's stream" if stream.posted else "a stream that the client opened with GET"
            )
            said = (
                f"server reported the progress of {shortened(asked.method)} ({spelled(asked.id)}) on {where}"
            )
    if said:
        yield Violation(
            "HTTP-013", "R-074", said, pointer="/params/progressToken", related=(exchange.request.seq,)
        )


def _asked_with(exchange: HttpExchange, token: int | str) -> SentRequest | None:
    """The request in flight that asked for progress under ``token``."""
    pending = exchange.session.judge.history.client.pending if exchange.session else {}
    for asked in pending.values():
        given = member(asked.params, "_meta", "progressToken")
        if given == token and type(given) is type(token):
            return asked
    return None


def message_after_response(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """HTTP-014: more on a stream that is through"""
    assert frame is not None
    if exchange.answered_ns is None or frame.event is None or exchange.late_messages or exchange.replayed:
        return
    if exchange.method == "POST" and singles(frame)[0]:
        said = "server sent more on the stream after the response that ends it"
        yield Violation("HTTP-014", "R-075", said, pointer=None, related=(exchange.request.seq,))


def lingering_stream(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """HTTP-014: a stream that stays open after its response"""
    if exchange.answered_ns is None or exchange.ended_ns is None or "HTTP-014" in exchange.reported:
        return
    waited_ns = exchange.ended_ns - exchange.answered_ns
    if exchange.streams and waited_ns >= LINGERING_NS:
        said = f"server left the stream open for {waited_ns / 1e9:.0f} s after the response"
        yield Violation("HTTP-014", "R-075", said, frame=exchange.request.seq)


def broadcast(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """HTTP-018"""
    assert frame is not None
    other = history.exchanges.get(exchange.elsewhere)
    if other is not None and exchange.cursor is None and (frame.raw or exchange.seen):
        said = "server sent one message on two streams at once"
        yield Violation("HTTP-018", "R-079", said, pointer=None, related=(other.request.seq,))


def event_id_reused(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """SSE-001"""
    assert frame is not None
    if exchange.seen is not None and not exchange.replayed and frame.event is not None:
        said = f"server gave the event id {_quoted(frame.event.id)} to two different events"
        yield Violation("SSE-001", "R-080", said)


def unknown_cursor(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """SSE-002"""
    last, session = exchange.last_event_id, exchange.session
    if not last or session is None or session.late or session.forgetful or history.blind:
        return
    if exchange.cursor is None:
        yield Violation(
            "SSE-002", "R-081", f"client resumes after event {_quoted(last)}, which it never received"
        )


def foreign_replay(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """SSE-003: what a resumed stream may not bring"""
    assert frame is not None
    cursor, stream, seen, session = exchange.cursor, exchange.stream, exchange.seen, exchange.session
    if cursor is None or stream is None or frame.event is None or session is None:
        return
    related = (exchange.request.seq,)
    if seen is not None and exchange.replayed:
        if seen.stream is not stream:
            said = f"server replayed event {_quoted(frame.event.id)} of another stream"
            yield Violation("SSE-003", "R-082", said, pointer=None, related=related)
        elif seen.position <= cursor.position and seen.exchange != exchange.number:
            said = f"server replayed event {_quoted(frame.event.id)}, which the client has received"
            yield Violation("SSE-003", "R-082", said, pointer=None, related=related, at_most="warning")
        return
    for message in singles(frame)[0]:
        if not isinstance(message, Response | ErrorResponse) or not isinstance(message.id, int | str):
            continue
        if message.id not in stream.asked and session.asked_for(message.id):
            said = f"server sent the response to {spelled(message.id)} on a stream that does not owe it"
            yield Violation("SSE-003", "R-082", said, pointer="/id", related=related)


def missing_priming(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """SSE-004"""
    assert frame is not None
    event, session = frame.event, exchange.session
    if event is None or session is None or exchange.events != 1 or exchange.method != "POST":
        return
    if exchange.initialize is None and VERSION not in exchange.fields:
        return  # Without its version it may be taken for a request of 2025-03-26.
    if session.revision == "2025-11-25" and (event.id or session.events) and (frame.raw or not event.id):
        said = "server began a stream without an empty event that has an id, though its events have ids"
        yield Violation("SSE-004", "R-083", said, pointer=None, related=(exchange.request.seq,))


def hasty_reconnect(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """SSE-006"""
    cursor, stream = exchange.cursor, exchange.stream
    if cursor is None or stream is None or stream.retry_ms is None or stream.closed_ns is None or stream.left:
        return
    waited_ns = exchange.request.observed_at_ns - stream.closed_ns
    if waited_ns < stream.retry_ms * 1_000_000 - EARLY_NS:
        waited = f"{max(waited_ns, 0) // 1_000_000} ms"
        said = f"client came back after {waited}; the server asked for {stream.retry_ms}"
        yield Violation("SSE-006", "R-085", said)


def event_name(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """SSE-007"""
    assert frame is not None
    event = frame.event
    if event is None or event.name in (None, "", "message"):
        return
    if any("jsonrpc" in m.value for m in singles(frame)[0]):
        said = (
            f"server sent a message in an event named {shortened(event.name)}; many clients only read message"
        )
        yield Violation("SSE-007", "R-086", said, pointer=None, related=(exchange.request.seq,))


def buffered_stream(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """SSE-008"""
    if exchange.streams and exchange.server in history.modern_servers:
        given = [value.lower() for value in exchange.response_fields.all("x-accel-buffering")]
        if given != ["no"]:
            said = "server began a stream without X-Accel-Buffering: no"
            yield Violation("SSE-008", "R-242", said, pointer=None, related=(exchange.request.seq,))


def _quoted(id: str | None) -> str:
    return f'"{shortened(id or "")}"'


FAMILY: Final = RuleFamily(
    http=(
        HttpCheck(
            ("HTTP-012", "SSE-005"), unanswered_stream, ("end",), STREAMABLE, ("POST",), given=UNANSWERED
        ),
        HttpCheck(("HTTP-013", "HTTP-017"), unrelated_message, ("event",), STREAMABLE, given=RELATED),
        HttpCheck(("HTTP-014",), message_after_response, ("event",), STREAMABLE, ("POST",), given=LATE),
        HttpCheck(("HTTP-014",), lingering_stream, ("end", "close"), STREAMABLE, ("POST",), given=STREAMING),
        HttpCheck(("HTTP-018",), broadcast, ("event",), STATEFUL, given=TWICE),
        HttpCheck(("SSE-001",), event_id_reused, ("event",), STATEFUL, given=TWICE),
        HttpCheck(("SSE-002",), unknown_cursor, ("request",), STATEFUL, ("GET",)),
        HttpCheck(("SSE-003",), foreign_replay, ("event",), STATEFUL, ("GET",)),
        HttpCheck(("SSE-004",), missing_priming, ("event",), STATEFUL, ("POST",), given=FIRST),
        HttpCheck(("SSE-006",), hasty_reconnect, ("request",), STATEFUL, ("GET",)),
        HttpCheck(("SSE-007",), event_name, ("event",), STREAMABLE, given=NAMED),
        HttpCheck(("SSE-008",), buffered_stream, ("success",), STATELESS, ("POST",), given=STREAMING),
    ),
)
