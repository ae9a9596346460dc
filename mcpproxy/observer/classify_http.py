"""What can be told of an exchange before any check looks at it: see ``checks.engine.http_facts``.

Each fact is a condition without which the checks that ask for it have nothing to say, and is told wherever
it may be so. The history stays as it is.
"""

from typing import Final

from mcpproxy.checks.engine.context import member
from mcpproxy.checks.engine.http_facts import (
    ASTRAY,
    CHALLENGED,
    CONTRADICTED,
    DIVERTED,
    FAILING,
    FIRST,
    FOREIGN,
    ISSUING,
    LATE,
    MISPLACED,
    NAMED,
    NOTIFIES,
    OVER,
    QUERIED,
    RELATED,
    STRANGE,
    STREAMING,
    TWICE,
    UNANSWERED,
    UNFIT,
    UNUSUAL,
    WITH_TOKEN,
    HttpFact,
)
from mcpproxy.checks.transports.http import COMMON_ACCEPT, JSON_TYPE, SSE_TYPE
from mcpproxy.checks.utilities.progress import ProgressTokens
from mcpproxy.protocol.jsonrpc import ErrorResponse, Message, Notification, Response
from mcpproxy.protocol.revisions import VERSION_KEY
from mcpproxy.session.exchanges import SESSION, VERSION, Fields, HttpExchange, HttpHistory, Proper
from mcpproxy.session.frame import CLIENT, Frame

PROGRESS: Final = "notifications/progress"

_TOKEN: Final = ("params", "progressToken")

_NO_CONTENT: Final = (202, 204, 205)


def of_request(exchange: HttpExchange, history: HttpHistory) -> HttpFact:
    """What is known once a request is all there and its session found."""
    fields, session = exchange.fields, exchange.session
    known = fields.told
    if known is None:
        known = fields.told = _of_fields(fields)
    if (
        session is None
        or session.ended_seq is not None
        or session.id != fields.get(SESSION)
        or session.judge.history.negotiated != fields.get(VERSION)
    ):
        known |= ASTRAY
        if session is not None and session.stateless and _is_contradicted(exchange):
            known |= CONTRADICTED
    if "?" in exchange.request.target:
        known |= QUERIED
    if exchange.messages:
        if not exchange.requests:
            known |= NOTIFIES
        if exchange.method != "POST":
            known |= MISPLACED
    elif exchange.several:
        known |= MISPLACED
    if history.posting:
        known |= DIVERTED
    if history.challenged:
        known |= CHALLENGED
    return known


def _of_fields(fields: Fields) -> HttpFact:
    known = 0
    if fields.all("accept") not in COMMON_ACCEPT or fields.media_type != JSON_TYPE:
        known |= UNUSUAL
    if "authorization" in fields:
        known |= WITH_TOKEN
    if "origin" in fields:
        known |= FOREIGN
    return known


def _is_contradicted(exchange: HttpExchange) -> bool:
    version = exchange.fields.get(VERSION)
    return any(member(request.params, "_meta", VERSION_KEY) != version for request in exchange.requests[:1])


def of_head(exchange: HttpExchange) -> HttpFact:
    """What the head of the response adds to that."""
    known, media_type = 0, exchange.response_fields.media_type
    if SESSION in exchange.response_fields:
        known = ISSUING
    if media_type == SSE_TYPE:
        known |= STREAMING
    elif media_type != JSON_TYPE and exchange.requests:
        known |= UNFIT
    if exchange.status in _NO_CONTENT:
        known |= UNFIT
    if exchange.session is not None and exchange.session.ended_seq is not None:
        known |= OVER
    return known


def of_content(exchange: HttpExchange, frame: Frame, messages: tuple[Proper, ...]) -> HttpFact:
    """What is to be added while a body or an event of the server is looked at, for it alone."""
    known = FAILING if exchange.reported else 0
    if frame.event is None:
        if not _is_awaited(exchange, frame.message):
            known |= STRANGE
    else:
        if exchange.answered_ns is not None:
            known |= LATE
        if exchange.seen is not None or exchange.elsewhere:
            known |= TWICE
        if exchange.events == 1:
            known |= FIRST
        if frame.event.name not in (None, "", "message"):
            known |= NAMED
    for message in messages:
        kind = type(message)
        if kind is ErrorResponse:
            known |= FAILING | RELATED
        elif kind is Response or (kind is Notification and not _belongs(exchange, message)):
            known |= RELATED
    return known


def _belongs(exchange: HttpExchange, message: Proper) -> bool:
    """Whether a notification is no progress, or that of the one request in flight that gave the token."""
    if message.value["method"] != PROGRESS:
        return True
    stream, session, token = exchange.stream, exchange.session, member(message.value, *_TOKEN)
    if stream is None or session is None or session.stateless or not isinstance(token, int | str):
        return False
    known = session.judge.history.of(ProgressTokens).tracked[CLIENT].get(token)
    return known is not None and known.in_flight and not known.shared and known.asked.id in stream.asked


def _is_awaited(exchange: HttpExchange, message: Message) -> bool:
    """Whether it is the result that a request of this exchange awaits, not in an array."""
    if type(message) is not Response:
        return False
    return message.id in [request.id for request in exchange.requests]


def of_end(exchange: HttpExchange) -> HttpFact:
    """What the end adds: whether something is missing."""
    session = exchange.session
    if session is None or not exchange.requests:
        return 0
    # Where an id was used twice, the other request may wait still.
    waiting = [request for request in exchange.requests if session.pending(request.id)]
    return UNANSWERED if waiting or exchange.answered_ns is None else 0
