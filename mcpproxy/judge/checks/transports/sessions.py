"""Sessions over HTTP: which responses issue session ids, which requests contain them, and when sessions end.

These rules do not apply to a server that issues no session ids. If the start of a session was not seen
(``joined_late``), most of them report nothing.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
"""

import re
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.judge.checks.engine.context import Violation, Violations, shortened
from mcpproxy.judge.checks.engine.http_facts import (
    ISSUES_SESSION_ID,
    SESSION_ENDED,
    SESSION_MAY_DIFFER,
    UNAWAITED,
)
from mcpproxy.judge.checks.engine.rows import CONTENT, HEAD, STATEFUL, STATELESS, HttpCheck, RuleFamily
from mcpproxy.judge.checks.stateless.era import shows_modern
from mcpproxy.judge.session.exchanges import HttpExchange, HttpHistory, HttpSession
from mcpproxy.judge.session.frame import Frame
from mcpproxy.judge.session.masked_values import as_mask
from mcpproxy.protocol import revisions
from mcpproxy.protocol.header_names import PROTOCOL_VERSION, SESSION_ID
from mcpproxy.protocol.jsonrpc import ErrorResponse
from mcpproxy.protocol.message_parts import well_formed
from mcpproxy.protocol.revisions import REVISIONS, is_later, span
from mcpproxy.protocol.wording import shown, with_article

MIN_ID_BYTES: Final = 8
"""A session id with fewer bytes than this is easy to guess."""

IN_FLIGHT_NS: Final = 1_000_000_000
"""A message sent this soon after a 404 may have been under way already."""

ABANDONED_NS: Final = 600_000_000_000
"""A client that was silent for this long no longer needs its session."""

ALLOWED_REFUSALS: Final = (400, 401, 403, 405, 406, 413, 415, 429)
"""Statuses for a request without session id: 400 is the correct one, the others have other reasons."""

WITH_VERSION_HEADER: Final = span("2025-06-18", "2026-07-28")
"""The revisions with sessions in which each request names its version in a header."""

_CREDENTIALS: Final = ("authorization", "proxy-authorization", "cookie")

_MOST_SEARCHED: Final = 1 << 10
"""How many bytes of a refusal are searched for a text about the session."""

_SAYS_IT_IS_OVER: Final = pattern(
    r"\b(?:no (?:valid|such|active)|(?:unknown|invalid|expired)(?: or \w+)?) (?:mcp )?session\b(?: id\b)?"
    r"|(?<!user )(?<!login )\bsession\b(?: [^\s,.;:]+){0,3}"
    r" (?:not found|not exist|not valid|invalid|expired|terminated)\b",
    re.IGNORECASE,
)
"""Matches the usual texts about a session that a server does not know, or does not know any more."""

_DATE: Final = pattern(r"\d{4}-\d{2}-\d{2}")


# The session id


def issued_elsewhere(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a session id in a response to anything but a successful initialize, unless it is the session's
    own (PROTO-010).
    """
    issued_id, session, head = exchange.response_fields.get(SESSION_ID), exchange.session, exchange.response
    if issued_id is None or session is None or head is None:
        return
    if session.id is not None:
        # A request without a session id may belong to another session, even on the same connection.
        if issued_id != session.id and exchange.initialize is None and SESSION_ID in exchange.fields:
            yield Violation("PROTO-010", "R-088", "server changed the session id in the middle of a session")
    elif exchange.initialize is None:
        if not session.joined_late:
            yield Violation("PROTO-010", "R-088", "server issued a session id after initialize was answered")
    elif head.status >= 300:
        problem = f"server issued a session id although it refused initialize with {head.status}"
        yield Violation("PROTO-010", "R-088", problem)


def issued_with_error(exchange: HttpExchange, history: HttpHistory, frame: Frame) -> Violations:
    """Report a session id in a response that refuses initialize with a JSON-RPC error (PROTO-010)."""
    initialize = exchange.initialize
    if initialize is None or SESSION_ID not in exchange.response_fields or not exchange.succeeded:
        return
    if any(isinstance(m, ErrorResponse) and m.id == initialize.id for m in well_formed(frame.message)):
        yield Violation("PROTO-010", "R-088", "server issued a session id, but refused initialize")


def invalid_id(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a session id that is empty, not visible ASCII, not unique or easy to guess (PROTO-010)."""
    issued_id, session = exchange.response_fields.get(SESSION_ID), exchange.session
    if issued_id is None or session is None or exchange.initialize is None or not exchange.succeeded:
        return
    mask = as_mask(issued_id)  # A recording may have only the mask, which keeps what is judged here.
    if mask.length == 0:
        yield Violation("PROTO-010", "R-089", "server issued an empty session id")
        return
    if not mask.visible:
        problem = "server issued a session id with characters other than visible ASCII"
        yield Violation("PROTO-010", "R-089", problem)
    earlier_session = history.sessions.get(issued_id)
    if earlier_session is not None and earlier_session is not session:
        yield Violation("PROTO-010", "R-090", "server issued a session id that it has issued before")
    elif mask.length < MIN_ID_BYTES:
        problem = f"server issued a session id of {mask.length} bytes, which is easy to guess"
        yield Violation("PROTO-010", "R-090", problem)


def missing_id(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a request without the session id that the server has issued (PROTO-010)."""
    if _lacks_id(exchange):
        problem = (
            f"client sent {with_article(shortened(exchange.method))} without the session id that it was given"
        )
        yield Violation("PROTO-010", "R-091", problem)


def missing_id_refused(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a missing session id that is refused with a 4xx outside ``ALLOWED_REFUSALS`` (PROTO-010)."""
    if _lacks_id(exchange) and 400 <= exchange.status < 500 and exchange.status not in ALLOWED_REFUSALS:
        problem = f"server refused a request without session id with {exchange.status} instead of 400"
        yield Violation("PROTO-010", "R-092", problem, related=(exchange.request.seq,))


def _lacks_id(exchange: HttpExchange) -> bool:
    """Whether a request has no session id, although its connection belongs to a session with one."""
    session = exchange.session
    if session is None or session.id is None or session.joined_late or session.ended_seq is not None:
        return False
    return exchange.initialize is None and SESSION_ID not in exchange.fields and exchange.method != "OPTIONS"


def foreign_id(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a session id that is not the one that the server has issued to this connection (PROTO-010).

    The id may have been issued before the recording began, so it is reported only if the server refuses it.
    """
    session = exchange.session
    if session is None or not session.joined_late or session.id is None or history.has_gap:
        return
    if exchange.status not in (400, 404):
        return
    connection_session = history.by_connection.get(exchange.request.connection)
    if (
        connection_session is not None
        and connection_session.id is not None
        and connection_session.ended_seq is None
        and session.ended_seq is None
    ):
        problem = "client sent a session id that is not the one it was given"
        yield Violation(
            "PROTO-010",
            "R-091",
            problem,
            blame="client",
            frame=exchange.request.seq,
        )


def outlived_session(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a server that serves a request of a session that is over (PROTO-010)."""
    session = exchange.session
    if session is None or session.ended_seq is None or exchange.initialize is not None:
        return
    is_named = exchange.fields.get(SESSION_ID) == session.id
    if is_named and exchange.succeeded and exchange.request.seq > session.ended_seq:
        problem = f"server served a session that ended in frame {session.ended_seq}"
        is_uncertain = session.ended_by == "404"  # An intermediary may have sent the 404.
        related = (session.ended_seq, exchange.request.seq)
        yield Violation(
            "PROTO-010",
            "R-093",
            problem,
            related=related,
            at_most="warning" if is_uncertain else None,
        )


def forgotten_session(exchange: HttpExchange, history: HttpHistory, frame: Frame) -> Violations:
    """Report a server that says that a session is over with an error status other than 404 (PROTO-010).

    Only the text of the refusal shows this, because a request may be refused for other reasons. The server
    must have issued the id, and have accepted it before. A 401 or 403 with a challenge, or for a request with
    credentials, is not reported: it is about those. Neither is the refusal of a message that contains the
    word session, because the text may be about that session.
    """
    session, fields = exchange.session, exchange.fields
    if exchange.status < 400 or exchange.status == 404 or session is None or session.joined_late:
        return
    if session.id is None or fields.get(SESSION_ID) != session.id or exchange.initialize is not None:
        return
    is_about_login = exchange.status in (401, 403)
    if is_about_login and (
        "www-authenticate" in exchange.response_fields or any(name in fields for name in _CREDENTIALS)
    ):
        return
    names_another = exchange.body is not None and b"session" in exchange.body.raw.lower()
    if names_another or not session.judge.history.initialized:
        return
    if text := _SAYS_IT_IS_OVER.search(frame.raw[:_MOST_SEARCHED].decode("utf-8", "replace")):
        problem = (
            f"server says that the session is over ({shown(text[0])}) with {exchange.status} instead of 404"
        )
        yield Violation(
            "PROTO-010",
            "R-093",
            problem,
            related=(exchange.request.seq,),
            at_most="warning" if is_about_login else None,
        )


def id_of_ended_session(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a client that continues a session after a 404 has ended it (PROTO-010)."""
    session = history.sessions.get(exchange.fields.get(SESSION_ID) or "")
    if session is None or session.ended_seq is None or session.ended_by != "404":
        return
    if exchange.initialize is not None:
        problem = f"client opened a session with the id of one that ended in frame {session.ended_seq}"
    elif exchange.request.observed_at_ns - session.ended_ns >= IN_FLIGHT_NS:
        problem = f"client continued a session that ended in frame {session.ended_seq}"
    else:
        return
    yield Violation("PROTO-010", "R-094", problem, related=(session.ended_seq,))


def abandoned_session(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a session that its client left ``ABANDONED_NS`` or more before the end, without deleting it
    (PROTO-010).
    """
    session = exchange.session
    if session is None or session.id is None or session.ended_seq is not None or session.refused_deletion:
        return
    # This runs when the recording ends. ``exchange`` is the session's last one, and has that time as its end.
    idle_ns = (exchange.ended_ns or 0) - session.last_ended_ns
    if idle_ns >= ABANDONED_NS and session.last_ended_ns:
        problem = (
            f"client left its session {idle_ns // 60_000_000_000} min before the end and did not delete it"
        )
        yield Violation("PROTO-010", "R-095", problem, at_most="info")


def stateless_id(exchange: HttpExchange, history: HttpHistory, frame: Frame) -> Violations:
    """Report a session id in a revision without sessions (PROTO-010).

    Only a *modern* server is judged: an answer has shown that it supports a stateless revision.
    """
    head = exchange.response
    if head is None or SESSION_ID not in exchange.response_fields or "PROTO-010" in exchange.broken_rules:
        return
    if exchange.fields.get(PROTOCOL_VERSION) not in revisions.STATELESS:
        return  # The version header names no stateless revision.
    if exchange.server in history.modern_servers or shows_modern(exchange, frame):
        problem = "server sent a session id in answer to a stateless request"
        yield Violation("PROTO-010", "R-241", problem, related=(exchange.request.seq,), frame=head.seq)


# The protocol version


def version_header(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a missing or wrong MCP-Protocol-Version in a session (PROTO-008)."""
    session = exchange.session
    if (
        session is None
        or session.joined_late
        or exchange.initialize is not None
        or exchange.method == "OPTIONS"
    ):
        return
    negotiated = _negotiated(session)
    if negotiated is None or _lacks_id(exchange):
        return  # A request without the session id may belong to another session.
    version = exchange.fields.get(PROTOCOL_VERSION)
    if version is None:
        problem = f"client sent {with_article(exchange.method)} without MCP-Protocol-Version: {negotiated}"
        yield Violation("PROTO-008", "R-096", problem)
    elif version != negotiated:
        problem = (
            f"client sent MCP-Protocol-Version: {shortened(version)} in a session that speaks {negotiated}"
        )
        yield Violation("PROTO-008", "R-097", problem)


def _negotiated(session: HttpSession) -> str | None:
    return session.judge.history.negotiated


def unpublished_version(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a server that accepts a protocol version that was never published (PROTO-008).

    Names that begin with ``draft`` are not reported.
    """
    version, session = exchange.fields.get(PROTOCOL_VERSION), exchange.session
    if version is None or version in REVISIONS or session is None or not exchange.succeeded:
        return
    if version.lower().startswith("draft"):
        return
    problem = (
        f"server accepted MCP-Protocol-Version: {shortened(version)}, which is not a revision, "
        "instead of refusing it with 400"
    )
    # A version with the form of a date may be a revision that this program does not know.
    is_date = _DATE.fullmatch(version) is not None
    candidates = None if session.revision else WITH_VERSION_HEADER
    yield Violation(
        "PROTO-008",
        "R-098",
        problem,
        related=(exchange.request.seq,),
        at_most="info" if is_later(version) else "warning" if is_date else None,
        candidates=candidates,
    )


FAMILY: Final = RuleFamily(
    http=(
        HttpCheck(("PROTO-010",), issued_elsewhere, HEAD, STATEFUL, given=ISSUES_SESSION_ID),
        HttpCheck(("PROTO-010",), issued_with_error, CONTENT, STATEFUL, ("POST",), given=ISSUES_SESSION_ID),
        HttpCheck(("PROTO-010",), invalid_id, ("success",), STATEFUL, ("POST",), given=ISSUES_SESSION_ID),
        HttpCheck(("PROTO-010",), missing_id, ("request",), STATEFUL, given=SESSION_MAY_DIFFER),
        HttpCheck(("PROTO-010",), missing_id_refused, ("refusal",), STATEFUL),
        HttpCheck(("PROTO-010",), foreign_id, ("refusal",), STATEFUL),
        HttpCheck(("PROTO-010",), outlived_session, ("success",), STATEFUL, given=SESSION_ENDED),
        HttpCheck(("PROTO-010",), forgotten_session, ("body",), STATEFUL, given=UNAWAITED),
        HttpCheck(("PROTO-010",), id_of_ended_session, ("request",), STATEFUL, given=SESSION_MAY_DIFFER),
        HttpCheck(("PROTO-010",), abandoned_session, ("over",), STATEFUL),
        HttpCheck(("PROTO-010",), stateless_id, CONTENT, STATELESS, given=ISSUES_SESSION_ID),
        HttpCheck(("PROTO-008",), version_header, ("request",), STATEFUL, given=SESSION_MAY_DIFFER),
        HttpCheck(("PROTO-008",), unpublished_version, ("success",), STATEFUL, given=SESSION_MAY_DIFFER),
    ),
)
