"""Attribution: find the session that an HTTP request belongs to."""

from collections.abc import Callable
from typing import TypeAlias

from mcpproxy.checks.engine.context import member
from mcpproxy.protocol.revisions import STATEFUL, VERSION_KEY
from mcpproxy.session.exchanges import (
    SESSION,
    VERSION,
    HttpExchange,
    HttpHistory,
    HttpSession,
    SessionJudge,
    looks_stateless,
)

NewJudge: TypeAlias = Callable[[str | None, bool], SessionJudge]
"""Makes the judge of a session, from its revision (if known) and whether its start was not seen."""


def session_of(exchange: HttpExchange, history: HttpHistory, new_judge: NewJudge) -> HttpSession:
    """Return the session of a request to the MCP endpoint; a new one if it belongs to none that is known."""
    named, version = exchange.fields.get(SESSION), exchange.fields.get(VERSION)
    known = history.sessions.get(named) if named else None
    if exchange.initialize is not None:
        # With the id of an open session it is that session's second initialize; otherwise it opens a session.
        return known if known and known.ended_seq is None else HttpSession(new_judge(None, False))
    if is_stateless(exchange):
        return HttpSession(new_judge(None, False), stateless=True)
    if known is not None:
        return known
    connection = exchange.request.connection
    if named is None and connection not in history.shared_connections:
        session = history.by_connection.get(connection)
        if session is not None:
            return session
    session = HttpSession(
        new_judge(version if version in STATEFUL else None, True), joined_late=True, id=named
    )
    if named:
        history.sessions[named] = session
    elif not history.has_unattributed:
        history.has_unattributed = True
        for other in history.by_connection.values():
            # The request may have been meant for that session.
            other.judge.history.may_lack_messages = other.id is None
    return session


def is_stateless(exchange: HttpExchange) -> bool:
    """Whether a request is one of a stateless revision, by its headers or by its body."""
    if looks_stateless(exchange.fields):
        return True
    return any(
        request.method == "server/discover" or member(request.params, "_meta", VERSION_KEY) is not None
        for request in exchange.requests
    )


def posting_target(uri: str, base: str = "/") -> str:
    """Return path and query of ``uri``, which may be relative to the request target ``base``."""
    from urllib.parse import urljoin, urlsplit  # takes 3 ms, and most sessions do not need it

    try:
        path = urlsplit(urljoin(urljoin("http://server/", base), uri))
    except ValueError:  # such as an unclosed bracket: no client can send a request there
        return uri
    return path.path + ("?" + path.query if path.query else "")
