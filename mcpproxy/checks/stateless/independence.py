"""Stateless requests stand alone: servers must not require a session, and clients must not reuse an id.

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/index#statelessness
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import field, slotted
from mcpproxy.checks.engine.context import MessageContext, Violation, as_object, member, shortened, spelled
from mcpproxy.checks.stateless.servers import missing_meta, server
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, Request
from mcpproxy.protocol.revisions import STATELESS
from mcpproxy.session.exchanges import VERSION, HttpExchange, HttpHistory, singles
from mcpproxy.session.frame import Frame
from mcpproxy.session.history import History

MAX_REMEMBERED: Final = 100
"""The number of callers whose request ids are tracked."""

Checked = Iterator[Violation]

_WANTS_A_SESSION: Final = pattern(
    r"server (is )?not (yet )?initiali[sz]ed|before initiali[sz]ation|(call|send) initialize\b"
    r"|mcp-session-id|(missing|no valid|invalid or expired) session id",
    re.IGNORECASE,
)
"""Error messages of servers that require a handshake or a session."""


def wanted_session(context: MessageContext[ErrorResponse], history: History) -> Iterable[Violation]:
    """Report a server that refuses a stateless request because it wants a session, on stdio (STAT-009)."""
    message, asked = context.message, context.answers
    if asked is None or not context.stateless or history.over_http or missing_meta(asked.params):
        return ()
    if not server(history).modern or not (wanted := _wanted_session(message)):
        return ()
    return (_wants_session(asked.method, wanted, context.at + "/error/message", asked.seq),)


def wanted_http_session(exchange: HttpExchange, history: HttpHistory, frame: Frame) -> Checked:
    """Report the same over HTTP, whatever id the error has (STAT-009)."""
    if exchange.succeeded or len(exchange.requests) != 1 or exchange.server not in history.modern_servers:
        return
    if exchange.fields.get(VERSION) not in STATELESS:
        return  # Its headers belong to the other era.
    request = exchange.requests[0]
    for message in singles(frame)[0]:
        wanted = _wanted_session(message) if isinstance(message, ErrorResponse) else ""
        if wanted and not missing_meta(request.params):
            yield _wants_session(request.method, wanted, "/error/message", exchange.request.seq)


def _wanted_session(error: ErrorResponse) -> str:
    text = member(as_object(error.error), "message")
    return text if isinstance(text, str) and _WANTS_A_SESSION.search(text) else ""


def _wants_session(method: str, wanted: str, at: str, request: int) -> Violation:
    problem = f'server refused {shortened(method)} because it wants a session: "{shortened(wanted)}"'
    return Violation("STAT-009", "R-228", problem, pointer=at, related=(request,), at_most="warning")


@slotted()
class RequestNumbers:
    """The first and latest number of one caller's requests, and whether the numbers always increased.

    If they did, the caller is a single client.
    """

    first: int
    last: int
    increasing: bool = True


@slotted()
class NumbersByCaller:
    """The numbers of each caller's requests."""

    by_caller: dict[str, RequestNumbers] = field(default_factory=dict[str, RequestNumbers])


def repeated_lost(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """Report a request that was repeated under the same id after its stream broke (STAT-010).

    Nothing is reported if another client may use the same ids.
    """
    session = exchange.session
    if session is None or not history.lost_requests:
        return
    own_history = session.judge.history
    for request in exchange.requests[:1]:
        found = None if request.id is None else history.lost_requests.get((own_history.caller, request.id))
        if found is None or found.asked.method != request.method:
            continue
        lost = found.asked
        if found.connection != exchange.request.connection and not _distinct(lost.id, own_history):
            continue
        if _bare(lost.params) == _bare(request.params):
            what = f"{shortened(request.method)} again as {spelled(lost.id)}"
            problem = f"client sent {what} after its stream was lost"
            yield Violation(
                "STAT-010", "R-229", problem, pointer="/id", related=(lost.seq,), at_most="warning"
            )


def _distinct(id: str | int, history: History) -> bool:
    """Whether only one client can have used an id, because a second one would start counting anew."""
    if isinstance(id, str):
        return len(id) >= 16
    numbers = history.across_requests(NumbersByCaller).by_caller.get(history.caller)
    return numbers is not None and numbers.increasing and id > numbers.first


def _bare(params: object) -> "JSON":
    found = as_object(params) or {}
    return {name: value for name, value in found.items() if name != "_meta"}


def remember_number(message: Request, history: History) -> None:
    """Record the id of a request over HTTP, if it is a number."""
    by_caller, id = history.across_requests(NumbersByCaller).by_caller, message.id
    if not isinstance(id, int):
        return
    if (known := by_caller.get(history.caller)) is not None:
        known.increasing = known.increasing and id > known.last
        known.last = id
    elif len(by_caller) < MAX_REMEMBERED:
        by_caller[history.caller] = RequestNumbers(id, id)
