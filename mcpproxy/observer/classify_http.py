"""Classify an HTTP exchange before any check sees it: its facts, what it carries, its revisions.

A fact (see ``checks.engine.http_facts``) is a condition without which the checks that name it cannot find
anything. It is set wherever the condition may hold. Nothing here changes the history.
"""

from typing import Final

from mcpproxy.checks.engine.context import member
from mcpproxy.checks.engine.http_facts import (
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
    WITH_QUERY,
    WITH_TOKEN,
    WITHOUT_REQUEST,
    HttpFact,
)
from mcpproxy.checks.transports.http import COMMON_ACCEPT, JSON_TYPE, SSE_TYPE
from mcpproxy.checks.utilities.progress import ProgressTokens
from mcpproxy.protocol.jsonrpc import ErrorResponse, Message, Notification, Response
from mcpproxy.protocol.revisions import STATELESS, VERSION_KEY, since, span, stateless_of, until
from mcpproxy.session.exchanges import SESSION, VERSION, Fields, HttpExchange, HttpHistory, WellFormed
from mcpproxy.session.frame import CLIENT, Frame, RequestHead

PROGRESS: Final = "notifications/progress"

_TOKEN: Final = ("params", "progressToken")

_NO_CONTENT: Final = (202, 204, 205)


def of_request(exchange: HttpExchange, history: HttpHistory) -> HttpFact:
    """Return the facts known once the whole request was seen and its session is found."""
    fields, session = exchange.fields, exchange.session
    known = fields.facts
    if known is None:
        known = fields.facts = _of_fields(fields)
    if (
        session is None
        or session.ended_seq is not None
        or session.id != fields.get(SESSION)
        or session.judge.history.negotiated != fields.get(VERSION)
    ):
        known |= SESSION_MAY_DIFFER
        if session is not None and session.stateless and _is_contradicted(exchange):
            known |= VERSIONS_DIFFER
    if "?" in exchange.request.target:
        known |= WITH_QUERY
    if exchange.messages:
        if not exchange.requests:
            known |= WITHOUT_REQUEST
        if exchange.method != "POST":
            known |= UNEXPECTED_BODY
    elif exchange.has_several_texts:
        known |= UNEXPECTED_BODY
    if history.http_sse_sessions:
        known |= LEGACY_ENDPOINT_KNOWN
    if history.challenged:
        known |= CHALLENGED
    return known


def _of_fields(fields: Fields) -> HttpFact:
    known = 0
    if fields.all("accept") not in COMMON_ACCEPT or fields.media_type != JSON_TYPE:
        known |= UNUSUAL_HEADERS
    if "authorization" in fields:
        known |= WITH_TOKEN
    if "origin" in fields:
        known |= WITH_ORIGIN
    return known


def _is_contradicted(exchange: HttpExchange) -> bool:
    version = exchange.fields.get(VERSION)
    return any(member(request.params, "_meta", VERSION_KEY) != version for request in exchange.requests[:1])


def of_head(exchange: HttpExchange) -> HttpFact:
    """Return the facts that the head of the response adds."""
    known, media_type = 0, exchange.response_fields.media_type
    if SESSION in exchange.response_fields:
        known = ISSUES_SESSION_ID
    if media_type == SSE_TYPE:
        known |= STREAMING
    elif media_type != JSON_TYPE and exchange.requests:
        known |= CANNOT_ANSWER
    if exchange.status in _NO_CONTENT:
        known |= CANNOT_ANSWER
    if exchange.session is not None and exchange.session.ended_seq is not None:
        known |= SESSION_ENDED
    return known


def of_content(exchange: HttpExchange, frame: Frame, messages: tuple[WellFormed, ...]) -> HttpFact:
    """Return the facts to add for one body or event of the server, while that is judged."""
    known = WITH_FAULT if exchange.broken_rules else 0
    if frame.event is None:
        if not _is_awaited(exchange, frame.message):
            known |= UNAWAITED
    else:
        if exchange.answered_ns is not None:
            known |= AFTER_ANSWERS
        if exchange.earlier_event is not None or exchange.also_carried_by:
            known |= SEEN_BEFORE
        if exchange.event_count == 1:
            known |= FIRST_EVENT
        if frame.event.name not in (None, "", "message"):
            known |= NAMED_EVENT
    for message in messages:
        kind = type(message)
        if kind is ErrorResponse:
            known |= WITH_FAULT | FOR_ONE_REQUEST
        elif kind is Response or (kind is Notification and not _belongs(exchange, message)):
            known |= FOR_ONE_REQUEST
    return known


def _belongs(exchange: HttpExchange, message: WellFormed) -> bool:
    """Whether a notification is progress of this exchange's request, or no progress notification at all."""
    if message.value["method"] != PROGRESS:
        return True
    stream, session, token = exchange.stream, exchange.session, member(message.value, *_TOKEN)
    if stream is None or session is None or session.stateless or not isinstance(token, int | str):
        return False
    known = session.judge.history.of(ProgressTokens).tracked[CLIENT].get(token)
    return (
        known is not None and known.in_flight and not known.shared and known.request.id in stream.request_ids
    )


def _is_awaited(exchange: HttpExchange, message: Message) -> bool:
    """Whether the message is a single result that a request of this exchange awaits."""
    if type(message) is not Response:
        return False
    return message.id in [request.id for request in exchange.requests]


def of_end(exchange: HttpExchange) -> HttpFact:
    """Return the fact that the end adds: whether an answer is missing."""
    session = exchange.session
    if session is None or not exchange.requests:
        return 0
    # If an id was used twice, the other request may still be pending.
    waiting = [request for request in exchange.requests if session.pending(request.id)]
    return UNANSWERED if waiting or exchange.answered_ns is None else 0


# What an exchange carries


def has_body(request: RequestHead, fields: Fields) -> bool:
    """Whether a body follows the head. This is assumed for a POST, except in HTTP 1.0 and 1.1."""
    if request.version not in ("1.0", "1.1") and request.method == "POST":
        return True
    length = fields.get("content-length")
    return "transfer-encoding" in fields or (length is not None and length.strip() not in ("", "0"))


def has_content(frame: Frame) -> bool:
    """Whether a frame of the server contains a body or an event that a client would process.

    A comment is not an event, and neither is an event that the stream's end cut off before its blank line.
    """
    if (event := frame.event) is None:
        return bool(frame.raw)
    return frame.terminated and bool(frame.raw or event.id or event.name)


def is_message(exchange: HttpExchange, frame: Frame, messages: tuple[WellFormed, ...]) -> bool:
    """Whether a frame from the server is to be judged as a message of its session.

    The body of an error status is a message only if its id is that of a request of this exchange. In an open
    stateful session it never is, because the refused request counts as never sent. The body of an answer to
    a notification is judged as a part of the exchange.
    """
    if frame.event is not None:
        if (
            not frame.raw
            or exchange.repeats_earlier_event
            or exchange.also_carried_by
            or frame.event.name == "endpoint"
        ):
            return False
        return frame.event.name in (None, "", "message") or bool(messages)
    if exchange.traffic == "http+sse" or exchange.only_notifies or exchange.method != "POST":
        return False
    if exchange.succeeded:
        return exchange.response_fields.media_type == "application/json"
    if exchange.traffic == "stateful" and exchange.initialize is None:
        return False
    request_ids = [request.id for request in exchange.requests]
    return bool(messages) and all(isinstance(m, ErrorResponse) and m.id in request_ids for m in messages)


# Revisions

STREAMABLE: Final = since("2025-03-26")
"""The revisions that have Streamable HTTP."""

WITH_SESSIONS: Final = span("2025-03-26", "2026-07-28")
"""Those of them that have sessions."""

WITH_SSE: Final = until("2025-03-26")
"""The revisions that have HTTP+SSE."""


def revisions_for(exchange: HttpExchange) -> tuple[str, ...]:
    """Return the revisions by which the HTTP part of an exchange may be judged."""
    session = exchange.session
    if session is None:
        return STREAMABLE
    if session.is_http_sse:
        return WITH_SSE
    if session.stateless:
        named = [member(request.params, "_meta", VERSION_KEY) for request in exchange.requests[:1]]
        said = (version for version in (*named, exchange.fields.get(VERSION)) if version in STATELESS)
        return stateless_of([str(version) for version in said][:1])
    if session.revision is not None:
        return (session.revision,)
    if exchange.method != "POST" or exchange.initialize is not None or session.id is not None:
        return WITH_SESSIONS
    return STREAMABLE
