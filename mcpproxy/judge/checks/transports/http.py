"""How messages are sent over HTTP: methods, media types, statuses, and bodies.

A server may refuse any request with an HTTP status (no authorization, no such session, overload). So most of
these checks judge a server only by its successful answers, which have a 2xx status. ``exchange.body`` is the
body that the client sent; ``body_count`` counts the bodies of the server.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server
"""

import re
from typing import Final

from mcpproxy.judge.checks.basic.unclear_requests import UnclearRequests, may_be_refused
from mcpproxy.judge.checks.engine.context import Violation, Violations, shortened, spelled
from mcpproxy.judge.checks.engine.http_facts import (
    CANNOT_ANSWER,
    LEGACY_ENDPOINT_KNOWN,
    NAMED_EVENT,
    UNANSWERED,
    UNAWAITED,
    UNEXPECTED_BODY,
    UNUSUAL_HEADERS,
    WITH_ORIGIN,
    WITHOUT_REQUEST,
)
from mcpproxy.judge.checks.engine.rows import (
    CONTENT,
    HEAD,
    LEGACY,
    MCP,
    OTHER,
    STATEFUL,
    STREAMABLE,
    HttpCheck,
    RuleFamily,
)
from mcpproxy.judge.checks.transports.initialize_answer import awaited_initialize, unanswered_initialize
from mcpproxy.judge.session.exchanges import Fields, HttpExchange, HttpHistory, HttpSession, is_answer
from mcpproxy.judge.session.frame import CLIENT, Frame
from mcpproxy.protocol.jsonrpc import (
    ABSENT,
    Batch,
    ErrorResponse,
    Malformed,
    Notification,
    Request,
    RequestId,
    Response,
)
from mcpproxy.protocol.message_parts import as_object, well_formed

JSON_TYPE: Final = "application/json"
SSE_TYPE: Final = "text/event-stream"
_THIS_MACHINE: Final = re.compile(
    r"(?:(?:.+\.)?localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d*)?", re.ASCII | re.IGNORECASE
)
"""An authority that means this machine (RFC 6761, section 6.3; RFC 1122, section 3.2.1.3).

``base.authority`` is stricter, and needs the module of sockets, which the judge must not import.
"""


# The client's request


def message_without_post(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a message that was not sent in a POST of its own (HTTP-004)."""
    if exchange.method != "POST":
        if any("jsonrpc" in message.value for message in exchange.messages):
            problem = f"client sent a message with {shortened(exchange.method)} instead of POST"
            yield Violation("HTTP-004", "R-065", problem)
    elif exchange.has_several_texts:
        yield Violation("HTTP-004", "R-065", "client put several messages into one POST, one after the other")


def post_accept(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a POST whose Accept header lacks a required media type (HTTP-005)."""
    values = exchange.fields.all("accept")
    if values in COMMON_ACCEPT:
        return
    accepted_ranges = media_ranges_of(exchange.fields)
    missing_types = [type_ for type_ in (JSON_TYPE, SSE_TYPE) if type_ not in accepted_ranges]
    if missing_types:
        fault = f'has Accept "{shortened(", ".join(values))}"' if values else "has no Accept"
        problem = f"client sent a POST that {fault}; it must list {' and '.join(missing_types)}"
        # A warning only, if wildcards such as */* accept the missing types.
        is_accepted = all(_wildcards(type_) & accepted_ranges for type_ in missing_types)
        yield Violation("HTTP-005", "R-066", problem, at_most="warning" if is_accepted else None)


COMMON_ACCEPT: Final = frozenset(
    {
        ("application/json, text/event-stream",),
        ("application/json,text/event-stream",),
        ("text/event-stream, application/json",),
    }
)
"""The correct Accept values that most clients send. They need not be parsed."""


def get_accept(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a GET whose Accept header does not list text/event-stream (HTTP-006)."""
    session = exchange.session
    if session is None or (session.joined_late and session.id is None):
        return  # The client may be one of HTTP+SSE, or not an MCP client.
    accepted_ranges = media_ranges_of(exchange.fields)
    if SSE_TYPE not in accepted_ranges:
        problem = "client sent a GET whose Accept does not list text/event-stream"
        yield Violation(
            "HTTP-006",
            "R-067",
            problem,
            at_most="warning" if _wildcards(SSE_TYPE) & accepted_ranges else None,
        )


def media_ranges_of(fields: Fields) -> set[str]:
    """Return the media ranges that Accept lists and does not exclude with ``q=0``."""
    accepted_ranges: set[str] = set()
    for value in fields.all("accept"):
        for item in value.split(","):
            range_, *parameters = (part.strip().lower() for part in item.split(";"))
            if not any(p.startswith("q=") and not p[2:].strip("0.") for p in parameters):
                accepted_ranges.add(range_)
    return accepted_ranges


def _wildcards(type_: str) -> set[str]:
    """Return the media ranges with wildcards that include ``type_``."""
    return {"*/*", type_.partition("/")[0] + "/*"}


def post_content_type(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a POST whose Content-Type is not application/json (HTTP-007)."""
    if exchange.body is not None and (media_type := exchange.fields.media_type) != JSON_TYPE:
        type_name = f"as {shortened(media_type)}" if media_type else "without a Content-Type"
        yield Violation(
            "HTTP-007", "R-068", f"client sent a message {type_name}; servers expect application/json"
        )


# The server's answer


def answer_type(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a successful answer to a request whose type or status cannot contain a response (HTTP-010)."""
    if not exchange.succeeded or not exchange.requests:
        return
    media_type = exchange.response_fields.media_type
    if exchange.status in (202, 204, 205):
        problem = f"server answered a request with {exchange.status}, a status without an answer"
    elif media_type not in (JSON_TYPE, SSE_TYPE):
        type_name = shortened(media_type) if media_type else "no Content-Type"
        problem = (
            f"server answered a request with {type_name}; it must be application/json or text/event-stream"
        )
    else:
        return
    yield Violation("HTTP-010", "R-071", problem, related=(exchange.request.seq,))


def notification_answer(exchange: HttpExchange, history: HttpHistory, frame: Frame) -> Violations:
    """Report a body in answer to a POST that contains no request (HTTP-008, HTTP-009, RPC-015)."""
    if not exchange.only_notifies or exchange.body_count + exchange.event_count > 1:
        return
    what, related = _posted_message(exchange), (exchange.request.seq,)
    messages = well_formed(frame.message)
    error = next((m for m in messages if isinstance(m, ErrorResponse) and "jsonrpc" in m.value), None)
    if error is not None and error.id is not ABSENT and error.id is not None:
        problem = f"server refused {what} with an error that has an id ({spelled(error.id)})"
        yield Violation("HTTP-009", "R-070", problem, pointer="/id", related=related)
    elif error is not None and exchange.succeeded:
        problem = f"server refused {what}, but with the success status {exchange.status}"
        yield Violation("HTTP-009", "R-070", problem, pointer="/error", related=related)
    elif not exchange.succeeded:
        return
    elif any(isinstance(m, Response) for m in messages) and isinstance(exchange.messages[0], Notification):
        yield Violation("RPC-015", "R-017", f"server answered {what}", pointer="", related=related)
    elif frame.raw:
        problem = f"server sent a body in answer to {what}; the answer is 202 without a body"
        yield Violation("HTTP-008", "R-069", problem, related=related)


def notification_status(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a POST without requests that was answered with a 2xx status other than 202 (HTTP-008).

    Nothing is reported if the body of the answer was reported before.
    """
    head = exchange.response
    if head is None or not exchange.only_notifies or not exchange.succeeded or head.status == 202:
        return
    if exchange.broken_rules.isdisjoint(("HTTP-008", "HTTP-009", "RPC-015")):
        problem = f"server answered {_posted_message(exchange)} with {head.status} instead of 202"
        yield Violation("HTTP-008", "R-069", problem, related=(exchange.request.seq,), frame=head.seq)


def _posted_message(exchange: HttpExchange) -> str:
    """Return what a POST without requests contains, in words."""
    message = exchange.messages[0]
    return shortened(message.method) if isinstance(message, Notification) else "a response"


def json_answer(exchange: HttpExchange, history: HttpHistory, frame: Frame) -> Violations:
    """Report a JSON body that is not the response to the request of its POST (HTTP-011, RPC-012)."""
    if frame.event is not None or not exchange.requests or not exchange.succeeded:
        return
    message = frame.message
    if isinstance(message, Malformed) or exchange.response_fields.media_type != JSON_TYPE:
        return  # RPC-001 or HTTP-010 reports it.
    request_ids, related = [request.id for request in exchange.requests], (exchange.request.seq,)
    if isinstance(message, Batch):
        if not isinstance(exchange.body.message if exchange.body else None, Batch):
            yield Violation(
                "HTTP-011", "R-072", "server answered one request with an array", pointer="", related=related
            )
        return
    if isinstance(message, Request | Notification):
        what = "a request of its own" if isinstance(message, Request) else "a notification"
        problem = f"server answered a request with {what} ({shortened(message.method)}) as application/json"
        yield Violation("HTTP-011", "R-072", problem, pointer="/method", related=related)
    elif isinstance(message, ErrorResponse) and (message.id is ABSENT or message.id is None):
        no_id_given = "id" not in message.value or message.value["id"] is None
        if no_id_given and not _is_id_uncertain(exchange):
            has_null_id = "id" in message.value
            fault = "a null id" if has_null_id else "no id"
            problem = f"server answered a request with an error that has {fault}"
            yield Violation(
                "RPC-012",
                "R-014",
                problem,
                pointer="",
                related=related,
                at_most="info" if has_null_id else None,
            )
    elif isinstance(message.id, int | str) and message.id not in request_ids:
        session = exchange.session
        if session and _is_of_another(message.id, request_ids, session) and not _repeats_names(session):
            request = exchange.requests[0]
            asked = (
                f"{shortened(request.method)} ({spelled(request.id)})" if len(request_ids) == 1 else "this"
            )
            problem = f"server answered {asked} with the response to another, {spelled(message.id)}"
            yield Violation("HTTP-011", "R-072", problem, pointer="/id", related=related)


def _is_of_another(id: RequestId, request_ids: list[RequestId | None], session: HttpSession) -> bool:
    """Whether ``id`` is that of a request in another exchange.

    If messages may be missing, an id that differs from all in ``request_ids``, also as text, counts as one.
    PROTO-007 reports an id that no request had, if all requests were seen, and an id of the wrong type.
    """
    history = session.judge.history
    if not (history.has_gap or history.may_lack_messages):
        return session.asked_for(id)
    return None not in request_ids and str(id) not in map(str, request_ids)


def _is_id_uncertain(exchange: HttpExchange) -> bool:
    """Whether a server may be unable to tell the id of a request in this exchange."""
    session = exchange.session
    has_unusable_id = any(request.id is None for request in exchange.requests)
    return has_unusable_id or (session is not None and may_be_refused(CLIENT, session.judge.history))


def _repeats_names(session: HttpSession) -> bool:
    """Whether the client repeated the name of a member, so that the server may have read another id."""
    return session.judge.history.of(UnclearRequests).is_sent_by(CLIENT)


def missing_json_answer(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report an empty JSON answer to a request other than initialize (HTTP-011)."""
    head = exchange.response
    if head is None or not exchange.succeeded or exchange.body_count or exchange.cut or not exchange.requests:
        return
    reported_elsewhere = "HTTP-010" in exchange.broken_rules or exchange.initialize is not None
    is_unread = "content-encoding" in exchange.response_fields  # perhaps in a coding that was not decoded
    if exchange.response_fields.media_type == JSON_TYPE and not reported_elsewhere and not is_unread:
        problem = "server answered a request with an empty body"
        yield Violation("HTTP-011", "R-072", problem, related=(exchange.request.seq,), frame=head.seq)


def get_answer(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a GET for a stream whose successful answer is not a stream (HTTP-016)."""
    if exchange.succeeded and not exchange.response_is_sse and SSE_TYPE in media_ranges_of(exchange.fields):
        media_type = exchange.response_fields.media_type
        type_name = shortened(media_type) if media_type else "no Content-Type"
        status = exchange.status
        problem = (
            f"server answered a GET for an event stream with {status} and {type_name}, "
            "instead of a stream or 405"
        )
        yield Violation("HTTP-016", "R-077", problem, related=(exchange.request.seq,))


def stream_method_accepted(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a server that does not refuse GET or DELETE, although all revisions that it supports only have
    POST (HTTP-020).
    """
    proof_seq = history.modern_only.get(exchange.server)
    # 400: the server may have stateful revisions that it does not list, and require a session id.
    if proof_seq is None or history.has_gap or exchange.status in (400, 401, 403, 404, 405, 429):
        return
    if exchange.status < 500:
        problem = f"server answered {exchange.method} with {exchange.status}; its revisions only have POST"
        yield Violation(
            "HTTP-020",
            "R-240",
            problem,
            related=(proof_seq, exchange.request.seq),
            candidates=("2026-07-28",),
        )


def foreign_origin(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a server on this machine that serves a request from a web page of another site (HTTP-019).

    This is a warning only, because each server decides which origins it trusts. An origin that is not http or
    https is that of a program, such as a browser extension, and is not reported.
    """
    origin = exchange.fields.get("origin")
    if origin is None or not exchange.succeeded or exchange.method == "OPTIONS":
        return
    scheme, _, host = origin.lower().partition("://")
    if (
        scheme in ("http", "https")
        and not _THIS_MACHINE.fullmatch(host)
        and _THIS_MACHINE.fullmatch(exchange.fields.get("host") or "")
    ):
        problem = f"server on this machine served a request from a page of another site ({shortened(origin)})"
        seq = exchange.response.seq if exchange.response else None
        yield Violation(
            "HTTP-019",
            "R-087",
            problem,
            related=(exchange.request.seq,),
            at_most="warning",
            frame=seq,
        )


def foreign_stream(exchange: HttpExchange, history: HttpHistory, frame: Frame) -> Violations:
    """Report a server on this machine that opens an HTTP+SSE stream for a page of another site (HTTP-019).

    The endpoint event is the first sign that a GET is one of HTTP+SSE.
    """
    if frame.event is not None and frame.event.name == "endpoint" and "HTTP-019" not in exchange.broken_rules:
        yield from foreign_origin(exchange, history, None)


# HTTP+SSE, the transport of 2024-11-05


def endpoint_first(exchange: HttpExchange, history: HttpHistory, frame: Frame) -> Violations:
    """Report an endpoint event that has no URI, or is not the first event of its stream (HTTP-001)."""
    if frame.event is None or frame.event.name != "endpoint":
        return
    if not frame.raw.strip():
        yield Violation("HTTP-001", "R-062", "server sent an endpoint event without a URI")
    elif exchange.event_count > 1 and "HTTP-001" not in exchange.broken_rules:
        yield Violation(
            "HTTP-001", "R-062", f"server sent the endpoint event as number {exchange.event_count}"
        )


def posted_to_other_uri(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a POST to a URI other than that of the endpoint event (HTTP-002).

    The POST is reported only if it cannot belong to Streamable HTTP or to another HTTP+SSE stream.
    """
    if (
        not history.http_sse_sessions
        or history.saw_streamable_http
        or history.has_gap
        or exchange.initialize is not None
    ):
        return
    if exchange.traffic == "http+sse" or not any("jsonrpc" in m.value for m in exchange.messages):
        return
    streams = {id(session) for session in history.http_sse_sessions.values()}
    if len(streams) == 1:
        uri = next(reversed(history.http_sse_sessions))
        problem = (
            f"client posted to {shortened(exchange.request.target)}; the server asked for {shortened(uri)}"
        )
        yield Violation("HTTP-002", "R-063", problem, blame="client", candidates=("2024-11-05",))


def legacy_message(exchange: HttpExchange, history: HttpHistory, frame: Frame) -> Violations:
    """Report a message of an HTTP+SSE server that is not in a message event (HTTP-003)."""
    if frame.event is None:
        if any(
            is_answer(m) and as_object(m.value) and "jsonrpc" in m.value for m in well_formed(frame.message)
        ):
            yield Violation(
                "HTTP-003", "R-064", "server answered in the body of a POST instead of the stream"
            )
    elif not frame.event.is_named_message and any("jsonrpc" in m.value for m in well_formed(frame.message)):
        yield Violation(
            "HTTP-003",
            "R-064",
            f"server sent a message in an event named {shortened(frame.event.name or '')}",
        )


FAMILY: Final = RuleFamily(
    http=(
        HttpCheck(("HTTP-001",), endpoint_first, ("event",), LEGACY, ("GET",), given=NAMED_EVENT),
        HttpCheck(
            ("HTTP-002",),
            posted_to_other_uri,
            ("request",),
            (*STATEFUL, *OTHER),
            ("POST",),
            given=LEGACY_ENDPOINT_KNOWN,
        ),
        HttpCheck(("HTTP-003",), legacy_message, CONTENT, LEGACY),
        HttpCheck(("HTTP-004",), message_without_post, ("request",), STREAMABLE, given=UNEXPECTED_BODY),
        HttpCheck(("HTTP-005",), post_accept, ("request",), STREAMABLE, ("POST",), given=UNUSUAL_HEADERS),
        HttpCheck(("HTTP-006",), get_accept, ("request",), STATEFUL, ("GET",)),
        HttpCheck(
            ("HTTP-007",), post_content_type, ("request",), STREAMABLE, ("POST",), given=UNUSUAL_HEADERS
        ),
        HttpCheck(
            ("HTTP-008", "HTTP-009", "RPC-015"),
            notification_answer,
            CONTENT,
            STREAMABLE,
            ("POST",),
            given=WITHOUT_REQUEST,
        ),
        HttpCheck(("HTTP-008",), notification_status, ("end",), STREAMABLE, ("POST",), given=WITHOUT_REQUEST),
        HttpCheck(("HTTP-010",), answer_type, ("success",), STREAMABLE, ("POST",), given=CANNOT_ANSWER),
        HttpCheck(("HTTP-011", "RPC-012"), json_answer, ("body",), STREAMABLE, ("POST",), given=UNAWAITED),
        HttpCheck(("HTTP-011",), missing_json_answer, ("end",), STREAMABLE, ("POST",), given=UNANSWERED),
        HttpCheck(("HTTP-016",), get_answer, ("success",), STATEFUL, ("GET",)),
        HttpCheck(("HTTP-019",), foreign_origin, ("success",), MCP, given=WITH_ORIGIN),
        HttpCheck(("HTTP-019",), foreign_stream, ("event",), LEGACY, ("GET",), given=NAMED_EVENT),
        HttpCheck(("HTTP-020",), stream_method_accepted, HEAD, STATEFUL, ("GET", "DELETE")),
        HttpCheck(("SEQ-001",), unanswered_initialize, ("end",), STATEFUL, ("POST",), given=UNANSWERED),
        HttpCheck(("SEQ-001",), awaited_initialize, ("end",), STATEFUL, ("POST",), given=UNANSWERED),
    ),
)
