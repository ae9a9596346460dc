"""Directions in the stateless revisions: only clients send requests, and only servers send responses.

In the revisions with a handshake both sides send requests and responses. So on stdio these checks report
nothing before an answer has shown that the server is *modern*: that it supports a stateless revision.
``self_contained.FAMILY`` has the rows; ``discovery`` calls ``earlier_server_requests``.

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/index
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.checks.engine.context import MessageContext, Violation, shortened
from mcpproxy.judge.checks.stateless.servers import server_of
from mcpproxy.judge.session.exchanges import HttpExchange, HttpHistory, is_answer
from mcpproxy.judge.session.frame import SERVER, Frame
from mcpproxy.judge.session.history import History, SentRequest
from mcpproxy.protocol import methods
from mcpproxy.protocol.header_names import SESSION_ID
from mcpproxy.protocol.jsonrpc import Request
from mcpproxy.protocol.revisions import stateless_of

MAX_REMEMBERED: Final = 100
"""The maximum number of server requests remembered until it is known whether the server is modern."""


@slotted()
class EarlyServerRequests:
    """The requests that the server sent before an answer showed that it is modern."""

    requests: list[SentRequest] = field(default_factory=list[SentRequest])


def _only_stateless(history: History) -> bool:
    """Whether the connection has stateless requests and certainly no handshake, complete or under way."""
    is_opening = history.initialize is not None and not history.initialize_answered
    return (
        history.stateless_seq is not None
        and history.negotiated is None
        and not (is_opening or history.has_gap)
    )


def server_request(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a request of a modern server, unless only clients send this request (STAT-006)."""
    message = context.message
    if not isinstance(message, Request) or not _only_stateless(history) or not server_of(history).modern_seq:
        return ()
    if _is_for_clients_only(message.method):
        return ()
    return (_server_request_violation(message.method, context.at, None, context.candidates),)


def earlier_server_requests(history: History) -> tuple[Violation, ...]:
    """Report the requests that a server sent before it showed that it is modern (STAT-006)."""
    requests = history.of(EarlyServerRequests).requests if _only_stateless(history) else []
    return tuple(
        _server_request_violation(request.method, "", request.seq, request.candidates) for request in requests
    )


def _server_request_violation(
    method: str, pointer: str, frame: int | None, candidates: tuple[str, ...]
) -> Violation:
    """Return the violation of a modern server that sent a request; ``frame`` is ``None`` for this frame."""
    problem = f"server sent the request {shortened(method)}; in this revision it sends none"
    pointer += "/method"
    return Violation(
        "STAT-006", "R-215", problem, pointer=pointer, frame=frame, candidates=stateless_of(candidates)
    )


def _is_for_clients_only(method: str) -> bool:
    """Whether only clients send this request, in all revisions. RPC-019 reports a server that sends it."""
    revisions = methods.revisions_with(method)
    return bool(revisions) and not any(
        methods.sends(SERVER, method, "request", revision) for revision in revisions
    )


def remember_server_request(context: MessageContext[Request], history: History) -> None:
    """Record a request of the server until it is known whether the server is modern."""
    message = context.message
    if context.asked is None or not _only_stateless(history) or server_of(history).modern_seq:
        return
    early_requests = history.of(EarlyServerRequests).requests
    if len(early_requests) < MAX_REMEMBERED and not _is_for_clients_only(message.method):
        early_requests.append(context.asked)


def client_response(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a response that a client sends to a modern server, on stdio (STAT-007)."""
    if history.over_http or not _only_stateless(history) or not server_of(history).modern_seq:
        return ()
    problem = "client sent a response; in this revision it sends none"
    related = (context.answers.seq,) if context.answers else ()
    candidates = stateless_of(context.candidates)
    return (
        Violation("STAT-007", "R-216", problem, pointer=context.at, related=related, candidates=candidates),
    )


def posted_response(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Iterator[Violation]:
    """Report a POST of a response whose headers name a stateless revision (STAT-007)."""
    if exchange.fields.get(SESSION_ID) in history.sessions:
        return  # The POST continues a session with a handshake; only its version header is wrong.
    for message in exchange.messages:
        if is_answer(message):
            yield Violation(
                "STAT-007", "R-216", "client sent a response; in this revision it sends none", pointer=""
            )
