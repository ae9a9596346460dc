"""Directions in the stateless revisions: only clients send requests, and only servers send responses.

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/index
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.checks.engine.context import MessageContext, Violation, shortened
from mcpproxy.checks.stateless.servers import server
from mcpproxy.protocol import methods
from mcpproxy.protocol.jsonrpc import Request
from mcpproxy.protocol.revisions import stateless_of
from mcpproxy.session.exchanges import SESSION, HttpExchange, HttpHistory, is_answer
from mcpproxy.session.frame import SERVER, Frame
from mcpproxy.session.history import History, SentRequest

MAX_REMEMBERED: Final = 100
"""The number of requests kept until the era of their sender is known."""


@slotted()
class EarlyServerRequests:
    """The server's requests from before it showed which era it speaks."""

    requests: list[SentRequest] = field(default_factory=list[SentRequest])


def _only_stateless(history: History) -> bool:
    """Whether no handshake has opened, or can still open, a session on the same pipe."""
    opening = history.initialize is not None and not history.initialize_answered
    return (
        history.stateless_seq is not None and history.negotiated is None and not (opening or history.has_gap)
    )


def server_request(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a request of a server that speaks a stateless revision (STAT-006)."""
    message = context.message
    if not isinstance(message, Request) or not _only_stateless(history) or not server(history).modern:
        return ()
    if _clients_alone(message.method):
        return ()
    return (_reversed(message.method, context.at, None, context.candidates),)


def earlier_server_requests(history: History) -> tuple[Violation, ...]:
    """Report the requests that a server sent before it showed that it speaks a stateless revision."""
    waiting = history.of(EarlyServerRequests).requests if _only_stateless(history) else []
    return tuple(_reversed(asked.method, "", asked.seq, asked.candidates) for asked in waiting)


def _reversed(method: str, at: str, frame: int | None, candidates: tuple[str, ...]) -> Violation:
    problem = f"server sent the request {shortened(method)}; in this revision it sends none"
    at += "/method"
    return Violation(
        "STAT-006", "R-215", problem, pointer=at, frame=frame, candidates=stateless_of(candidates)
    )


def _clients_alone(method: str) -> bool:
    """Whether only clients send this request, in all revisions; RPC-019 reports that."""
    known = methods.revisions_with(method)
    return bool(known) and not any(methods.sends(SERVER, method, "request", revision) for revision in known)


def remember_server_request(context: MessageContext[Request], history: History) -> None:
    """Record a request of the server until its era is known."""
    message = context.message
    if context.asked is None or not _only_stateless(history) or server(history).modern:
        return
    waiting = history.of(EarlyServerRequests).requests
    if len(waiting) < MAX_REMEMBERED and not _clients_alone(message.method):
        waiting.append(context.asked)


def client_response(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a response of a client, on stdio (STAT-007)."""
    if history.over_http or not _only_stateless(history) or not server(history).modern:
        return ()
    problem = "client sent a response; in this revision it sends none"
    related = (context.answers.seq,) if context.answers else ()
    candidates = stateless_of(context.candidates)
    return (
        Violation("STAT-007", "R-216", problem, pointer=context.at, related=related, candidates=candidates),
    )


def posted_response(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Iterator[Violation]:
    """Report a response of a client over HTTP, where the headers show the revision (STAT-007)."""
    if exchange.fields.get(SESSION) in history.sessions:
        return  # It continues a session of the other era, with the wrong header.
    for message in exchange.messages:
        if is_answer(message):
            yield Violation(
                "STAT-007", "R-216", "client sent a response; in this revision it sends none", pointer=""
            )
