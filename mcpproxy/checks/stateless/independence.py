"""Independence: a stateless request needs no earlier request, no session and no earlier id.

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
"""How servers of the other era ask for a handshake or a session."""


def wanted_session(context: MessageContext, history: History) -> Iterable[Violation]:
    """STAT-009: on a pipe"""
    message, asked = context.message, context.answers
    assert isinstance(message, ErrorResponse)
    if asked is None or not context.stateless or history.over_http or missing_meta(asked.params):
        return ()
    if not server(history).modern or not (wanted := _wanted_session(message)):
        return ()
    return (_wants_session(asked.method, wanted, context.at + "/error/message", asked.seq),)


def wanted_http_session(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """STAT-009: over HTTP, whatever the id of the error says"""
    assert frame is not None
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
    said = f'server refused {shortened(method)} for want of a session: "{shortened(wanted)}"'
    return Violation("STAT-009", "R-228", said, pointer=at, related=(request,), at_most="warning")


@slotted()
class Counted:
    """The request ids of one caller. If they always increase, the caller is a single client."""

    first: int
    last: int
    upwards: bool = True


@slotted()
class Ids:
    """The numbers of each caller's requests."""

    by_caller: dict[str, Counted] = field(default_factory=dict[str, Counted])


def repeated_lost(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """STAT-010: only where it is certain that no other client uses the same ids"""
    session = exchange.session
    if session is None or not history.lost:
        return
    told = session.judge.history
    for request in exchange.requests[:1]:
        found = None if request.id is None else history.lost.get((told.caller, request.id))
        if found is None or found.asked.method != request.method:
            continue
        lost = found.asked
        if found.connection != exchange.request.connection and not _distinct(lost.id, told):
            continue
        if _bare(lost.params) == _bare(request.params):
            what = f"{shortened(request.method)} again as {spelled(lost.id)}"
            said = f"client sent {what} after its stream was lost"
            yield Violation("STAT-010", "R-229", said, pointer="/id", related=(lost.seq,), at_most="warning")


def _distinct(id: str | int, told: History) -> bool:
    """Whether an id is distinctive. A second client would start counting from the beginning."""
    if isinstance(id, str):
        return len(id) >= 16
    counted = told.beyond(Ids).by_caller.get(told.caller)
    return counted is not None and counted.upwards and id > counted.first


def _bare(params: object) -> "JSON":
    found = as_object(params) or {}
    return {name: value for name, value in found.items() if name != "_meta"}


def remember_number(message: Request, history: History) -> None:
    """Record the request ids of a caller over HTTP."""
    by_caller, id = history.beyond(Ids).by_caller, message.id
    if not isinstance(id, int):
        return
    if (known := by_caller.get(history.caller)) is not None:
        known.upwards = known.upwards and id > known.last
        known.last = id
    elif len(by_caller) < MAX_REMEMBERED:
        by_caller[history.caller] = Counted(id, id)
