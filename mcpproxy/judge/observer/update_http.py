"""Add an exchange, or a part of it, to the history of HTTP.

The judge calls ``remember_request``, ``remember_caller`` and ``remember_event`` before it runs the checks of
the part that they add. It calls the other ``remember_*`` functions after them.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from mcpproxy.base.patterns import pattern
from mcpproxy.judge.checks.engine.rows import DISCOVERED, INTRODUCED
from mcpproxy.judge.checks.stateless.era import shows_modern
from mcpproxy.judge.checks.transports.cors import hides_session_id, is_allowed_preflight, refused_to_page
from mcpproxy.judge.observer.memory_limit import MemoryUse
from mcpproxy.judge.session.exchanges import (
    MAX_REMEMBERED,
    HeaderMismatch,
    HttpExchange,
    HttpHistory,
    HttpSession,
    HttpStream,
    LostRequest,
    SentEvent,
    is_answer,
)
from mcpproxy.judge.session.frame import Frame, ResponseHead, SseEvent
from mcpproxy.judge.session.history import ModernAnswer, get_or_make, keep_latest
from mcpproxy.protocol.error_message import HEADER_MISMATCH, METHOD_NOT_FOUND
from mcpproxy.protocol.header_names import PARAM_PREFIX, PROTOCOL_VERSION, SESSION_ID
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, Notification, Request, RequestId, Response
from mcpproxy.protocol.message_parts import WellFormed, member, target_of
from mcpproxy.protocol.mirrors import read_mirrors
from mcpproxy.protocol.oauth import RESOURCE_METADATA
from mcpproxy.protocol.revisions import STATEFUL

_EVENT_ID_BYTES: Final = 200
"""The approximate size, in bytes, of the memory for an event id, without its characters."""

_NOT_FOR_ROUTING: Final = (
    r"accept(-.*)?|baggage|cache-control|connection|content-.*|expect|keep-alive|last-event-id|mcp-.*|origin|"
    r"pragma|priority|referer|sec-.*|te|trace(parent|state)|trailer|transfer-encoding|user-agent"
)
_IGNORED: Final = pattern(_NOT_FOR_ROUTING)
_IGNORED_IF_STATELESS: Final = pattern(f"{_NOT_FOR_ROUTING}|authorization")
"""Names of header fields that do not make a gateway choose another server. In the stateless revisions
Authorization is one of them, because server/discover may be sent without credentials."""

MessageKey: TypeAlias = tuple[str, RequestId]
"""Identifies a request or response of the server: its kind and its id."""


def remember_caller(exchange: HttpExchange, session: HttpSession, history: HttpHistory) -> None:
    """Set the members of a session's history that depend on its caller and route.

    - A stateless session gets the name of the caller, and the memories that all stateless sessions share.
      (Memories are the state that families of checks keep, see ``History.of``.)
    - A session without an id so far gets the memories that such sessions of its route share; not after a gap,
      because the route may then lead to a server whose handshake was not recorded.
    - ``may_lack_messages`` is set if messages of the session may be missing because of a gap, or may have
      been attributed to another session.
    """
    message_history = session.judge.history
    # With HTTP+SSE, messages go to a URL of their own.
    if session.id is None and not session.is_http_sse and not history.has_gap:
        ignored = _IGNORED_IF_STATELESS if session.stateless else _IGNORED
        route = exchange.request.target, exchange.fields.besides(ignored)
        message_history.endpoint_memories = get_or_make(
            history.endpoint_memories, route, dict[type, object], MAX_REMEMBERED
        )
    if session.stateless:
        message_history.only_stateless = True
        message_history.stateless_memories = history.memories
        message_history.facts |= DISCOVERED | INTRODUCED
        message_history.caller = f"{exchange.server} {exchange.fields.get('authorization') or ''}"
        message_history.may_lack_messages = history.has_gap
    else:
        message_history.may_lack_messages = session.id is None and history.has_unattributed


def remember_request(exchange: HttpExchange, session: HttpSession, history: HttpHistory) -> None:
    """Remember the stream that the request opens or resumes.

    Copy known facts about its server to the history of a new session.
    """
    connection = exchange.request.connection
    if exchange.initialize is not None and not session.is_http_sse:
        message_history = session.judge.history
        keep_latest(history.initializing, exchange.number, session, MAX_REMEMBERED)
        message_history.modern_answer = history.modern_answers.get(connection)
        message_history.supported_versions = dict(history.supported_versions.get(exchange.server, {}))
    if session.is_http_sse:
        return
    if session.id is not None or session.stateless or PROTOCOL_VERSION in exchange.fields:
        history.saw_streamable_http = True
    if exchange.method == "POST":
        request_ids = tuple(request.id for request in exchange.requests)
        exchange.stream = HttpStream(exchange.number, posted=True, request_ids=request_ids)
        return
    last_event_id = exchange.last_event_id
    if not last_event_id:
        exchange.stream = HttpStream(exchange.number, posted=False)
    elif (cursor := session.events.get(last_event_id)) is not None:
        exchange.cursor, exchange.stream = cursor, cursor.stream


def remember_opening(exchange: HttpExchange, session: HttpSession, history: HttpHistory) -> None:
    """Remember a session whose initialize was accepted, by its connection, and by its id if it has one."""
    connection = exchange.request.connection
    earlier = history.by_connection.get(connection)
    issued_id = exchange.response_fields.get(SESSION_ID)
    if issued_id and session.id is None:
        session.id = issued_id
        keep_latest(history.sessions, issued_id, session, MAX_REMEMBERED)
    elif earlier is not None and earlier is not session and earlier.id is None and session.id is None:
        history.shared_connections.add(connection)
    keep_latest(history.by_connection, connection, session, MAX_REMEMBERED)


def remember_metadata(exchange: HttpExchange, history: HttpHistory) -> None:
    """Remember whether the server serves metadata of its protected resource (RFC 9728)."""
    path = exchange.request.target.partition("?")[0]
    if exchange.succeeded and path.startswith(RESOURCE_METADATA):
        history.metadata = "served"
    elif exchange.status in (404, 405, 410) and path == RESOURCE_METADATA and not history.metadata:
        # A client tries this path last, so the server has no metadata at the other paths either.
        history.metadata = "refused"


def remember_page_access(exchange: HttpExchange, history: HttpHistory) -> None:
    """Remember the methods and header fields that the server does not let web pages use.

    Remember, too, whether it hides the id of a session from them.
    """
    if is_allowed_preflight(exchange):
        origin, known = exchange.fields.get("origin") or "", history.refused_to_pages
        refused = known.get(origin, frozenset()) | refused_to_page(exchange)
        keep_latest(known, origin, refused, MAX_REMEMBERED)
    history.hid_session_id = history.hid_session_id or hides_session_id(exchange, history)


def remember_messages(
    exchange: HttpExchange,
    session: HttpSession,
    frame: Frame,
    messages: tuple[WellFormed, ...],
    history: HttpHistory,
) -> None:
    """Remember which requests the server's messages answer, and the facts that they show about the server."""
    if exchange.answered_ns is not None:
        exchange.late_messages += 1
    request_ids = [request.id for request in exchange.requests]
    for message in messages:
        id = message.id if isinstance(message, Response | ErrorResponse) else None
        if isinstance(id, int | str) and id in request_ids:
            exchange.answered |= {id}
    if request_ids and exchange.answered_ns is None and exchange.answered.issuperset(request_ids):
        exchange.answered_ns = frame.observed_at_ns
    if session.stateless:
        _remember_server(exchange, session, frame, messages, history)
    elif exchange.initialize is not None:
        if any(isinstance(message, Response) for message in messages):
            # The server accepts initialize, even if server/discover listed no stateful version.
            history.stateful_servers.add(exchange.server)
            history.modern_only.pop(exchange.server, None)
        for version, seq in session.judge.history.supported_versions.items():
            history.supported_versions.setdefault(exchange.server, {}).setdefault(version, seq)


def remember_delivery(exchange: HttpExchange, session: HttpSession, keys: Sequence[MessageKey]) -> None:
    """Remember the messages with ``keys`` on this stream: while it is open, no other may carry the same
    messages.
    """
    for key in keys:
        session.delivered.setdefault(key, exchange.number)
    if exchange.delivered is None:
        exchange.delivered = []
    exchange.delivered += keys


def _remember_server(
    exchange: HttpExchange,
    session: HttpSession,
    frame: Frame,
    messages: tuple[WellFormed, ...],
    history: HttpHistory,
) -> None:
    """Remember what a stateless answer shows about the server: versions, tools, refused calls.

    Remember, too, whether it shows that the server is *modern*: that it supports a stateless revision.
    """
    connection, message_history = exchange.request.connection, session.judge.history
    answer = message_history.modern_answer
    if shows_modern(exchange, frame):
        history.modern_servers.add(exchange.server)
        if answer is None and exchange.status == 404 and METHOD_NOT_FOUND in exchange.error_codes:
            answer = ModernAnswer(frame.seq, (), request_candidates=message_history.candidates)
    if answer is not None:
        keep_latest(history.modern_answers, connection, answer, MAX_REMEMBERED)
        is_stateful = exchange.server in history.stateful_servers
        if (
            answer.versions
            and not is_stateful
            and not any(version in STATEFUL for version in answer.versions)
        ):
            history.modern_only[exchange.server] = frame.seq
    for version, seq in message_history.supported_versions.items():
        history.supported_versions.setdefault(exchange.server, {}).setdefault(version, seq)
    for request in exchange.requests:
        if request.method == "tools/list":
            key = (exchange.server, exchange.fields.get("authorization") or "")
            listed = {name: read_mirrors(schema) for message in messages for name, schema in _tools(message)}
            history.mirrors.setdefault(key, {}).update(listed)
            for call in [call for call in history.header_mismatches if call[0] == connection]:
                del history.header_mismatches[call]
        elif request.method == "tools/call" and HEADER_MISMATCH in exchange.error_codes:  # wrong headers
            _remember_mismatch(exchange, target_of(request.method, request.params) or "", frame, history)


def _remember_mismatch(exchange: HttpExchange, tool: str, frame: Frame, history: HttpHistory) -> None:
    """Remember a call that was refused for its Mcp-Param headers, if no other header was wrong."""
    if exchange.broken_rules.isdisjoint(("HDR-001", "HDR-002", "HDR-003", "HDR-004", "PROTO-008")):
        mismatch = HeaderMismatch(frame.seq, exchange.fields.starting(PARAM_PREFIX))
        keep_latest(history.header_mismatches, (exchange.request.connection, tool), mismatch, MAX_REMEMBERED)


def remember_event(
    exchange: HttpExchange,
    frame: Frame,
    event: SseEvent,
    keys: Sequence[MessageKey],
    history: HttpHistory,
    memory_use: MemoryUse,
) -> None:
    """Remember the event of ``frame``, and whether it or its messages were on another stream before.

    ``keys`` identify the requests and responses in the event. What is remembered is added to ``memory_use``.
    """
    session = exchange.session
    exchange.event_count += 1
    exchange.repeats_earlier_event, exchange.earlier_event, exchange.also_carried_by = False, None, 0
    if session is None or session.is_http_sse:
        return
    if event.id:
        memory_use.added += _EVENT_ID_BYTES + len(event.id)
        exchange.event_id_count += 1
        earlier = exchange.earlier_event = session.events.get(event.id)
        exchange.repeats_earlier_event = earlier is not None and earlier.data_hash == hash(frame.raw)
    if not exchange.repeats_earlier_event:
        # Find another open stream that has carried the same message.
        for key in keys:
            carrier_number = session.delivered.get(key, exchange.number)
            carrier = history.exchanges.get(carrier_number)
            if carrier_number != exchange.number and carrier and carrier.stream is not exchange.stream:
                exchange.also_carried_by = carrier_number
    elif exchange.earlier_event and exchange.earlier_event.stream is not exchange.stream:
        # The event was first sent on another stream, which may still be open.
        is_open = exchange.earlier_event.exchange in history.exchanges
        exchange.also_carried_by = exchange.earlier_event.exchange if is_open else 0


def remember_event_id(exchange: HttpExchange, session: HttpSession, frame: Frame, id: str) -> None:
    """Remember the stream on which an event id was sent first."""
    stream = exchange.stream
    if stream is None or id in session.events:
        return
    stream.event_count += 1
    session.forgot_some = session.forgot_some or len(session.events) >= MAX_REMEMBERED
    keep_latest(
        session.events,
        id,
        SentEvent(stream, exchange.number, stream.event_count, hash(frame.raw)),
        MAX_REMEMBERED,
    )


def remember_lost(exchange: HttpExchange, session: HttpSession, history: HttpHistory) -> None:
    """Remember the unanswered requests of a stateless session, whose stream has ended."""
    connection = exchange.request.connection
    for request in session.judge.history.client.pending.values():
        lost = LostRequest(request, connection)
        keep_latest(history.lost_requests, (session.judge.history.caller, request.id), lost, MAX_REMEMBERED)


def remember_404(exchange: HttpExchange, session: HttpSession, head: ResponseHead) -> None:
    """Remember that a 404 to a POST with the id of the session ended the session.

    A 404 with the error -32601 is about the method of the request, and so does not end the session. A 404 to
    a GET or DELETE may mean no more than that the server does not support this HTTP method.
    """
    names_session = session.id is not None and exchange.fields.get(SESSION_ID) == session.id
    if names_session and session.ended_seq is None and METHOD_NOT_FOUND not in exchange.error_codes:
        ended_ns = exchange.ended_ns or head.observed_at_ns
        session.ended_seq, session.ended_by, session.ended_ns = head.seq, "404", ended_ns


def _tools(message: WellFormed) -> list[tuple[str, JSON]]:
    """Return the name and the input schema of each tool in a tools/list result."""
    tools = member(message.value, "result", "tools")
    return [
        (str(member(tool, "name")), member(tool, "inputSchema"))
        for tool in (tools if isinstance(tools, list) else [])
    ]


def keys_of(messages: tuple[WellFormed, ...]) -> Sequence[MessageKey]:
    """Return the keys of the requests and responses among ``messages`` that have a usable id."""
    if len(messages) == 1 and type(messages[0]) is Notification:
        return ()  # the most common event, handled first for speed
    return [
        ("response" if is_answer(message) else "request", message.id)
        for message in messages
        if isinstance(message, Request | Response | ErrorResponse) and isinstance(message.id, int | str)
    ]
