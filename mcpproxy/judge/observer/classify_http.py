"""Classify an HTTP exchange before any check sees it: its facts, its content and its revisions.

A fact (see ``checks.engine.http_facts``) is a condition without which certain checks cannot find anything. A
fact is set wherever its condition may hold. Nothing here changes the history.
"""

from typing import Final

from mcpproxy.judge.checks.engine.http_facts import (
    AFTER_ANSWERS,
    CANNOT_ANSWER,
    CHALLENGED,
    FIRST_EVENT,
    FOR_ONE_REQUEST,
    ISSUES_SESSION_ID,
    LEGACY_ENDPOINT_KNOWN,
    NAMED_EVENT,
    SEEN_BEFORE,
    SESSION_ENDED,
    SESSION_MAY_DIFFER,
    STREAMING,
    UNANSWERED,
    UNAWAITED,
    UNEXPECTED_BODY,
    UNUSUAL_HEADERS,
    VERSIONS_DIFFER,
    WITH_FAULT,
    WITH_ORIGIN,
    WITH_PROOF,
    WITH_QUERY,
    WITH_TOKEN,
    WITHOUT_REQUEST,
    HttpFact,
)
from mcpproxy.judge.checks.transports.http import COMMON_ACCEPT, JSON_TYPE, SSE_TYPE
from mcpproxy.judge.checks.utilities.progress import ProgressTokens
from mcpproxy.judge.session.exchanges import Fields, HttpExchange, HttpHistory
from mcpproxy.judge.session.frame import CLIENT, Frame, RequestHead
from mcpproxy.protocol.header_names import PROTOCOL_VERSION, SESSION_ID
from mcpproxy.protocol.jsonrpc import ErrorResponse, Message, Notification, Response
from mcpproxy.protocol.message_parts import WellFormed, member
from mcpproxy.protocol.meta_keys import VERSION_KEY
from mcpproxy.protocol.revisions import STATELESS, since, span, stateless_of, until

_PROGRESS: Final = "notifications/progress"

_TOKEN_PATH: Final = ("params", "progressToken")

_WITHOUT_CONTENT: Final = (202, 204, 205)
"""Statuses of responses without a body."""


def facts_of_request(exchange: HttpExchange, history: HttpHistory) -> HttpFact:
    """Return the facts of the complete request. The caller has already set its session, if it has one."""
    fields, session = exchange.fields, exchange.session
    facts = fields.facts
    if facts is None:
        facts = fields.facts = _facts_of_fields(fields)
    if (
        session is None
        or session.ended_seq is not None
        or session.id != fields.get(SESSION_ID)
        or session.judge.history.negotiated != fields.get(PROTOCOL_VERSION)
    ):
        facts |= SESSION_MAY_DIFFER
        if session is not None and session.stateless and _is_contradicted(exchange):
            facts |= VERSIONS_DIFFER
    if "?" in exchange.request.target:
        facts |= WITH_QUERY
    if exchange.messages:
        if not exchange.requests:
            facts |= WITHOUT_REQUEST
        if exchange.method != "POST":
            facts |= UNEXPECTED_BODY
    elif exchange.has_several_texts:
        facts |= UNEXPECTED_BODY
    if history.http_sse_sessions:
        facts |= LEGACY_ENDPOINT_KNOWN
    if history.challenged:
        facts |= CHALLENGED
    return facts


def _facts_of_fields(fields: Fields) -> HttpFact:
    """Return the facts that follow from the header fields of a request alone."""
    facts = 0
    if fields.all("accept") not in COMMON_ACCEPT or fields.media_type != JSON_TYPE:
        facts |= UNUSUAL_HEADERS
    if "authorization" in fields:
        facts |= WITH_TOKEN
    if "dpop" in fields:
        facts |= WITH_PROOF
    if "origin" in fields:
        facts |= WITH_ORIGIN
    return facts


def _is_contradicted(exchange: HttpExchange) -> bool:
    """Whether the header and the body of a stateless request differ in the protocol version that they name.

    They differ, too, if only one of them names a version. Of several requests the first one counts.
    """
    if not exchange.requests:
        return False
    return member(exchange.requests[0].params, "_meta", VERSION_KEY) != exchange.fields.get(PROTOCOL_VERSION)


def facts_of_head(exchange: HttpExchange) -> HttpFact:
    """Return the facts that the head of the response adds."""
    facts, media_type = 0, exchange.response_fields.media_type
    if SESSION_ID in exchange.response_fields:
        facts = ISSUES_SESSION_ID
    if media_type == SSE_TYPE:
        facts |= STREAMING
    elif media_type != JSON_TYPE and exchange.requests:
        facts |= CANNOT_ANSWER
    if exchange.status in _WITHOUT_CONTENT:
        facts |= CANNOT_ANSWER
    if exchange.session is not None and exchange.session.ended_seq is not None:
        facts |= SESSION_ENDED
    return facts


def facts_of_content(exchange: HttpExchange, frame: Frame, messages: tuple[WellFormed, ...]) -> HttpFact:
    """Return the facts of one body or event from the server."""
    facts = WITH_FAULT if exchange.broken_rules else 0
    if frame.event is None:
        if not _is_awaited_result(exchange, frame.message):
            facts |= UNAWAITED
    else:
        if exchange.answered_ns is not None:
            facts |= AFTER_ANSWERS
        if exchange.earlier_event is not None or exchange.also_carried_by:
            facts |= SEEN_BEFORE
        if exchange.event_count == 1:
            facts |= FIRST_EVENT
        if not frame.event.is_named_message:
            facts |= NAMED_EVENT
    for message in messages:
        kind = type(message)
        if kind is ErrorResponse:
            facts |= WITH_FAULT | FOR_ONE_REQUEST
        elif kind is Response or (kind is Notification and not _certainly_belongs(exchange, message)):
            facts |= FOR_ONE_REQUEST
    return facts


def _certainly_belongs(exchange: HttpExchange, message: WellFormed) -> bool:
    """Whether a notification certainly belongs to this exchange; if not, the checks judge it.

    Only progress can belong elsewhere: to the stream of the request that asked for it.
    """
    if message.value["method"] != _PROGRESS:
        return True
    stream, session, token = exchange.stream, exchange.session, member(message.value, *_TOKEN_PATH)
    if stream is None or session is None or session.stateless or not isinstance(token, int | str):
        return False
    tracked = session.judge.history.of(ProgressTokens).tracked[CLIENT].get(token)
    return (
        tracked is not None
        and tracked.in_flight
        and not tracked.shared
        and tracked.request.id in stream.request_ids
    )


def _is_awaited_result(exchange: HttpExchange, message: Message) -> bool:
    """Whether ``message`` is the result of a request of this exchange; false for a batch."""
    if type(message) is not Response:
        return False
    return message.id in [request.id for request in exchange.requests]


def facts_of_end(exchange: HttpExchange) -> HttpFact:
    """Return the fact that the end of the exchange adds: ``UNANSWERED`` if a response is missing, or 0."""
    session = exchange.session
    if session is None or not exchange.requests:
        return 0
    # If two requests have the same id, one of them may still be pending.
    pending = [request for request in exchange.requests if session.pending(request.id)]
    return UNANSWERED if pending or exchange.answered_ns is None else 0


# Content


def has_body(request: RequestHead, fields: Fields) -> bool:
    """Whether a body may follow the head of a request.

    Every POST without a Content-Length is assumed to have a body, because the archives of browsers do not
    have all fields. In HTTP/2 and later, every POST is assumed to have one.
    """
    length = fields.get("content-length")
    if request.method == "POST" and (length is None or request.version not in ("1.0", "1.1")):
        return True
    return "transfer-encoding" in fields or (length is not None and length.strip() not in ("", "0"))


def has_content(frame: Frame) -> bool:
    """Whether a frame of the server contains a body or an event that a client would process.

    A comment or a ``retry`` field alone does not count, nor does an event that the end of the stream cut off
    before its blank line.
    """
    if (event := frame.event) is None:
        return bool(frame.raw)
    return not frame.is_unfinished_event and bool(frame.raw or event.id or event.name)


def is_message(exchange: HttpExchange, frame: Frame, messages: tuple[WellFormed, ...]) -> bool:
    """Whether a frame from the server is judged as a message of the session, and not only by checks of HTTP.

    An event counts if it has data, was not sent before or on another open stream, and is not ``endpoint``;
    one with another name than ``message`` must contain a message. A body counts only as the answer to a POST
    over Streamable HTTP whose messages, if any were read, include a request. With a status of success it must
    be JSON. With any other status it counts only if it has nothing but errors with ids of requests of this
    exchange. In a stateful session it does not even then, except as the answer to initialize, because a
    refused request counts as never sent.
    """
    if frame.event is not None:
        if (
            not frame.raw
            or exchange.repeats_earlier_event
            or exchange.also_carried_by
            or frame.event.name == "endpoint"
        ):
            return False
        return frame.event.is_named_message or bool(messages)
    if exchange.traffic == "http+sse" or exchange.only_notifies or exchange.method != "POST":
        return False
    if exchange.succeeded:
        return exchange.response_fields.media_type == JSON_TYPE
    if exchange.traffic == "stateful" and exchange.initialize is None:
        return False
    request_ids = [request.id for request in exchange.requests]
    return bool(messages) and all(
        isinstance(message, ErrorResponse) and message.id in request_ids for message in messages
    )


# Revisions

_WITH_STREAMABLE_HTTP: Final = since("2025-03-26")

_WITH_SESSION_IDS: Final = span("2025-03-26", "2026-07-28")
"""The revisions in which Streamable HTTP has sessions."""

_WITH_HTTP_SSE: Final = until("2025-03-26")


def revisions_for(exchange: HttpExchange) -> tuple[str, ...]:
    """Return the revisions by which the HTTP part of an exchange may be judged."""
    session = exchange.session
    if session is None:
        return _WITH_STREAMABLE_HTTP
    if session.is_http_sse:
        return _WITH_HTTP_SSE
    if session.stateless:
        # The first request decides; the header only if that request names no stateless revision.
        body_version = (
            member(exchange.requests[0].params, "_meta", VERSION_KEY) if exchange.requests else None
        )
        version = body_version if body_version in STATELESS else exchange.fields.get(PROTOCOL_VERSION)
        return stateless_of([str(version)] if version in STATELESS else [])
    if session.revision is not None:
        return (session.revision,)
    if exchange.method != "POST" or exchange.initialize is not None or session.id is not None:
        return _WITH_SESSION_IDS
    return _WITH_STREAMABLE_HTTP
