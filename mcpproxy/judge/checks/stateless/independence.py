"""Independent stateless requests: servers must not require a session, and a client that repeats a lost
request must give it a new id.

``self_contained.FAMILY`` has the rows.

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/index#statelessness
"""

import re
from collections.abc import Iterable
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.checks.engine.context import MessageContext, Violation, Violations, shortened, spelled
from mcpproxy.judge.checks.stateless.servers import missing_meta, server_of
from mcpproxy.judge.session.exchanges import HttpExchange, HttpHistory
from mcpproxy.judge.session.frame import Frame
from mcpproxy.judge.session.history import History
from mcpproxy.protocol.header_names import PROTOCOL_VERSION
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, Request
from mcpproxy.protocol.message_parts import as_object, member, well_formed
from mcpproxy.protocol.revisions import STATELESS

MAX_REMEMBERED: Final = 100
"""The number of callers whose request ids are tracked.

The requests to one server with the same credentials have the same caller.
"""


_SESSION_REQUIRED: Final = pattern(
    r"server (is )?not (yet )?initiali[sz]ed|before initiali[sz]ation|(call|send) initialize\b"
    r"|mcp-session-id|(missing|no valid|invalid or expired) session id",
    re.IGNORECASE,
)
"""Error messages of servers that require a handshake or a session."""


def wanted_session(context: MessageContext[ErrorResponse], history: History) -> Iterable[Violation]:
    """Report a server that refuses a stateless request because it wants a session, on stdio (STAT-009).

    Here and over HTTP, only a *modern* server is judged: an answer has shown that it supports a stateless
    revision.
    """
    message, request = context.message, context.answers
    if request is None or not context.stateless or history.over_http or missing_meta(request.params):
        return ()
    if not server_of(history).modern_seq or not (text := _session_demand(message)):
        return ()
    return (_session_violation(request.method, text, context.at + "/error/message", request.seq),)


def wanted_http_session(exchange: HttpExchange, history: HttpHistory, frame: Frame) -> Violations:
    """Report a server that refuses a stateless request because it wants a session, over HTTP (STAT-009).

    The error may have any id, because such a server may refuse the POST without reading the message.
    """
    if exchange.succeeded or len(exchange.requests) != 1 or exchange.server not in history.modern_servers:
        return
    if exchange.fields.get(PROTOCOL_VERSION) not in STATELESS:
        return  # The version header names no stateless revision, so the server may ask for a session.
    request = exchange.requests[0]
    for message in well_formed(frame.message):
        text = _session_demand(message) if isinstance(message, ErrorResponse) else ""
        if text and not missing_meta(request.params):
            yield _session_violation(request.method, text, "/error/message", exchange.request.seq)


def _session_demand(error: ErrorResponse) -> str:
    """Return the text of an error that says that a session is required; empty if it says something else."""
    text = member(as_object(error.error), "message")
    return text if isinstance(text, str) and _SESSION_REQUIRED.search(text) else ""


def _session_violation(method: str, error_text: str, pointer: str, request_seq: int) -> Violation:
    problem = f'server refused {shortened(method)} because it wants a session: "{shortened(error_text)}"'
    return Violation("STAT-009", "R-228", problem, pointer=pointer, related=(request_seq,), at_most="warning")


@slotted()
class NumericIds:
    """The first and the latest numeric request id of one caller, and whether the ids have always increased.

    Ids that always increase come from a single client: a second client would begin with a small number again.
    """

    first: int
    latest: int
    are_increasing: bool = True


@slotted()
class NumericIdsByCaller:
    """The numeric request ids of each caller."""

    by_caller: dict[str, NumericIds] = field(default_factory=dict[str, NumericIds])


def repeated_lost(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a request that is sent again under the same id after its stream broke (STAT-010).

    Nothing is reported if the repeated request may come from another client that uses the same ids.
    """
    session = exchange.session
    if session is None or not history.lost_requests:
        return
    session_history = session.judge.history
    for request in exchange.requests[:1]:
        lost = None if request.id is None else history.lost_requests.get((session_history.caller, request.id))
        if lost is None or lost.asked.method != request.method:
            continue
        lost_request = lost.asked
        is_same_connection = lost.connection == exchange.request.connection
        if not is_same_connection and not _is_unique(lost_request.id, session_history):
            continue
        if _without_meta(lost_request.params) == _without_meta(request.params):
            what = f"{shortened(request.method)} again as {spelled(lost_request.id)}"
            problem = f"client sent {what} after its stream was lost"
            yield Violation(
                "STAT-010", "R-229", problem, pointer="/id", related=(lost_request.seq,), at_most="warning"
            )


def _is_unique(id: str | int, history: History) -> bool:
    """Whether only one client can have used an id.

    Such an id is a long text, or a number above the caller's first one if the caller's numbers have always
    increased.
    """
    if isinstance(id, str):
        return len(id) >= 16
    ids = history.across_requests(NumericIdsByCaller).by_caller.get(history.caller)
    return ids is not None and ids.are_increasing and id > ids.first


def _without_meta(params: object) -> "JSON":
    members = as_object(params) or {}
    return {name: value for name, value in members.items() if name != "_meta"}


def remember_numeric_id(message: Request, history: History) -> None:
    """Record the id of a request over HTTP, if the id is a number."""
    by_caller, id = history.across_requests(NumericIdsByCaller).by_caller, message.id
    if not isinstance(id, int):
        return
    if (ids := by_caller.get(history.caller)) is not None:
        ids.are_increasing = ids.are_increasing and id > ids.latest
        ids.latest = id
    elif len(by_caller) < MAX_REMEMBERED:
        by_caller[history.caller] = NumericIds(id, id)
