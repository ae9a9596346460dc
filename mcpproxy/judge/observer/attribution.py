"""Attribution: find the session that an HTTP request belongs to."""

from collections.abc import Callable
from typing import Final, TypeAlias

from mcpproxy.judge.session.exchanges import (
    HttpExchange,
    HttpHistory,
    HttpSession,
    SessionJudge,
    looks_stateless,
)
from mcpproxy.protocol.header_names import PROTOCOL_VERSION, SESSION_ID
from mcpproxy.protocol.jsonrpc import Notification
from mcpproxy.protocol.lifecycle import State
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.meta_keys import VERSION_KEY
from mcpproxy.protocol.revisions import STATEFUL

NewJudge: TypeAlias = Callable[[str | None, bool], SessionJudge]
"""Makes the judge of a session, given its revision (if known) and whether its start was missed."""

_BEFORE_INITIALIZED: Final = (State.NEGOTIATED, State.EAGER)
"""The states in which notifications/initialized is due."""


def session_of(exchange: HttpExchange, history: HttpHistory, new_judge: NewJudge) -> HttpSession:
    """Return the session that a request to the MCP endpoint belongs to; a new one if none is known.

    ``history`` records a new session with an unknown id, and what the request shows about other sessions.
    """
    session_id, version = exchange.fields.get(SESSION_ID), exchange.fields.get(PROTOCOL_VERSION)
    known_session = history.sessions.get(session_id) if session_id else None
    if exchange.initialize is not None:
        # An initialize opens a session, except within an open session, where it is a mistake of the client.
        is_open = known_session is not None and known_session.ended_seq is None
        return known_session if known_session and is_open else HttpSession(new_judge(None, False))
    if is_stateless(exchange):
        return HttpSession(new_judge(None, False), stateless=True)
    if known_session is not None:
        return known_session
    connection = exchange.request.connection
    if session_id is None and connection not in history.shared_connections:
        session = history.by_connection.get(connection)
        if session is not None and not _note_shared_connections(exchange, session, history):
            return session
    session = HttpSession(
        new_judge(version if version in STATEFUL else None, True), joined_late=True, id=session_id
    )
    if session_id:
        history.sessions[session_id] = session
    elif not history.has_unattributed:
        history.has_unattributed = True
        for candidate in history.by_connection.values():
            # The request may belong to any session without an id.
            candidate.judge.history.may_lack_messages = candidate.id is None
    return session


def _note_shared_connections(exchange: HttpExchange, session: HttpSession, history: HttpHistory) -> bool:
    """Whether the request shows that its connection carries messages of sessions other than ``session``.

    A client may send the messages of all its sessions over any of its connections. This client probably does
    so if notifications/initialized arrives on the connection of a session that is already initialized, while
    sessions of other connections to the same server wait for it. Then none of these connections identifies a
    session any more, and they are added to ``history.shared_connections``.
    """
    is_repeated = (
        session.id is None
        and session.judge.history.initialized
        and any(
            isinstance(message, Notification) and message.method == "notifications/initialized"
            for message in exchange.messages
        )
    )
    if not is_repeated:
        return False
    waiting = [
        connection
        for connection, other in history.by_connection.items()
        if other.id is None
        and other.judge.history.state in _BEFORE_INITIALIZED
        and other.last_exchange is not None
        and other.last_exchange.server == exchange.server
    ]
    if waiting:
        history.shared_connections.update((exchange.request.connection, *waiting))
    return bool(waiting)


def is_stateless(exchange: HttpExchange) -> bool:
    """Whether a request belongs to a stateless revision, by its headers or by its body."""
    if looks_stateless(exchange.fields):
        return True
    return any(
        request.method == "server/discover" or member(request.params, "_meta", VERSION_KEY) is not None
        for request in exchange.requests
    )
