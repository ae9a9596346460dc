"""Sessions over HTTP: where their ids come from, which requests carry them, and when they end.

A server without session ids has no sessions, so these rules do not apply to it.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.checks.engine.context import Violation, shortened
from mcpproxy.checks.engine.http_facts import ASTRAY, ISSUING, OVER
from mcpproxy.checks.engine.rows import CONTENT, HEAD, STATEFUL, STATELESS, HttpCheck, RuleFamily
from mcpproxy.checks.stateless.era import shows_modern
from mcpproxy.protocol import revisions
from mcpproxy.protocol.jsonrpc import ErrorResponse
from mcpproxy.protocol.revisions import REVISIONS, is_later, span
from mcpproxy.protocol.wording import with_article
from mcpproxy.session.exchanges import SESSION, VERSION, HttpExchange, HttpHistory, HttpSession, singles
from mcpproxy.session.frame import Frame
from mcpproxy.session.masked_values import facts

GUESSABLE: Final = 8
"""A session id with fewer bytes than this can be guessed by brute force."""

IN_FLIGHT_NS: Final = 1_000_000_000
"""A message sent this soon after a 404 may have been under way already."""

ABANDONED_NS: Final = 600_000_000_000
"""A client that was silent for this long no longer needs its session."""

OTHER_REASONS: Final = (400, 401, 403, 405, 406, 413, 415, 429)
"""The status that a missing session id should get, and those that have another cause."""

NAMING: Final = span("2025-06-18", "2026-07-28")
"""The revisions with sessions whose requests name their version in a header."""

_DATE: Final = pattern(r"\d{4}-\d{2}-\d{2}")

Checked = Iterator[Violation]


# The session id


def issued_elsewhere(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """PROTO-010: where a session id comes from"""
    issued, session, head = exchange.response_fields.get(SESSION), exchange.session, exchange.response
    if issued is None or session is None or head is None:
        return
    if session.id is not None:
        # A request without an id may be outside this session, whatever its connection was used for before.
        if issued != session.id and exchange.initialize is None and SESSION in exchange.fields:
            yield Violation("PROTO-010", "R-088", "server changed the session id in the middle of a session")
    elif exchange.initialize is None:
        if not session.late:
            yield Violation("PROTO-010", "R-088", "server issued a session id after initialize was answered")
    elif head.status >= 300:
        said = f"server issued a session id although it refused initialize with {head.status}"
        yield Violation("PROTO-010", "R-088", said)


def issued_with_error(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """PROTO-010: a session id for an initialize that failed in its body"""
    assert frame is not None
    initialize = exchange.initialize
    if initialize is None or SESSION not in exchange.response_fields or not exchange.succeeded:
        return
    if any(isinstance(m, ErrorResponse) and m.id == initialize.id for m in singles(frame)[0]):
        yield Violation("PROTO-010", "R-088", "server issued a session id, but refused initialize")


def unfit_id(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """PROTO-010: what a session id is made of"""
    issued, session = exchange.response_fields.get(SESSION), exchange.session
    if issued is None or session is None or exchange.initialize is None or not exchange.succeeded:
        return
    known = facts(issued)
    if known.length == 0:
        yield Violation("PROTO-010", "R-089", "server issued an empty session id")
        return
    if not known.visible:
        said = "server issued a session id with characters other than visible ASCII"
        yield Violation("PROTO-010", "R-089", said)
    before = history.sessions.get(issued)
    if before is not None and before is not session:
        yield Violation("PROTO-010", "R-090", "server issued a session id that it has issued before")
    elif known.length < GUESSABLE:
        said = f"server issued a session id of {known.length} bytes, which is easy to guess"
        yield Violation("PROTO-010", "R-090", said)


def missing_id(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """PROTO-010: a request without the session id"""
    if _lacks_id(exchange):
        said = (
            f"client sent {with_article(shortened(exchange.method))} without the session id that it was given"
        )
        yield Violation("PROTO-010", "R-091", said)


def missing_id_refused(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """PROTO-010: with what status a server asks for the session id"""
    if _lacks_id(exchange) and 400 <= exchange.status < 500 and exchange.status not in OTHER_REASONS:
        said = f"server refused a request without session id with {exchange.status} instead of 400"
        yield Violation("PROTO-010", "R-092", said, pointer=None, related=(exchange.request.seq,))


def _lacks_id(exchange: HttpExchange) -> bool:
    """Whether a request has no session id, although its connection belongs to a session with one."""
    session = exchange.session
    if session is None or session.id is None or session.late or session.ended_seq is not None:
        return False
    return exchange.initialize is None and SESSION not in exchange.fields and exchange.method != "OPTIONS"


def invented_id(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """PROTO-010: a session id that was never issued

    An id from before the recording looks the same until the server does not know it either.
    """
    session = exchange.session
    if session is None or not session.late or session.id is None or history.blind:
        return
    if exchange.status not in (400, 404):
        return
    own = history.by_connection.get(exchange.request.connection)
    if own is not None and own.id is not None and own.ended_seq is None and session.ended_seq is None:
        said = "client sent a session id that is not the one it was given"
        yield Violation(
            "PROTO-010", "R-091", said, pointer=None, related=(), blame="client", frame=exchange.request.seq
        )


def outlived_session(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """PROTO-010: the server goes on with a session that is over"""
    session = exchange.session
    if session is None or session.ended_seq is None or exchange.initialize is not None:
        return
    named = exchange.fields.get(SESSION) == session.id
    if named and exchange.succeeded and exchange.request.seq > session.ended_seq:
        said = f"server served a session that is over since frame {session.ended_seq}"
        weak = session.ended_by == "404"  # An intermediary may have answered.
        related = (session.ended_seq, exchange.request.seq)
        yield Violation(
            "PROTO-010", "R-093", said, pointer=None, related=related, at_most="warning" if weak else None
        )


def dead_id(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """PROTO-010: the client goes on with a session that a 404 has ended"""
    session = history.sessions.get(exchange.fields.get(SESSION) or "")
    if session is None or session.ended_seq is None or session.ended_by != "404":
        return
    if exchange.initialize is not None:
        said = f"client opens a session with the id of one that is over since frame {session.ended_seq}"
    elif exchange.request.observed_at_ns - session.ended_ns >= IN_FLIGHT_NS:
        said = f"client goes on with a session that is over since frame {session.ended_seq}"
    else:
        return
    yield Violation("PROTO-010", "R-094", said, pointer=None, related=(session.ended_seq,))


def abandoned_session(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """PROTO-010: a session that is left lying"""
    session = exchange.session
    if session is None or session.id is None or session.ended_seq is not None or session.refused_deletion:
        return
    idle_ns = (exchange.ended_ns or 0) - session.last_ns
    if idle_ns >= ABANDONED_NS and session.last_ns:
        said = f"client left its session {idle_ns // 60_000_000_000} min before the end and did not delete it"
        yield Violation("PROTO-010", "R-095", said, at_most="info")


def stateless_id(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """PROTO-010: a revision without sessions"""
    assert frame is not None
    head = exchange.response
    if head is None or SESSION not in exchange.response_fields or "PROTO-010" in exchange.reported:
        return
    if exchange.fields.get(VERSION) not in revisions.STATELESS:
        return  # Its headers belong to the other era.
    if exchange.server in history.modern_servers or shows_modern(exchange, frame):
        said = "server sent a session id with the answer to a request that belongs to no session"
        yield Violation(
            "PROTO-010", "R-241", said, pointer=None, related=(exchange.request.seq,), frame=head.seq
        )


# The protocol version


def version_header(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """PROTO-008: MCP-Protocol-Version on the requests of a session"""
    session = exchange.session
    if session is None or session.late or exchange.initialize is not None or exchange.method == "OPTIONS":
        return
    negotiated = _negotiated(session)
    if negotiated is None or _lacks_id(exchange):
        return  # Without its session id the request may not belong to this session.
    named = exchange.fields.get(VERSION)
    if named is None:
        said = f"client sent {with_article(exchange.method)} without MCP-Protocol-Version: {negotiated}"
        yield Violation("PROTO-008", "R-096", said)
    elif named != negotiated:
        said = f"client sent MCP-Protocol-Version: {shortened(named)} in a session that speaks {negotiated}"
        yield Violation("PROTO-008", "R-097", said)


def _negotiated(session: HttpSession) -> str | None:
    return session.judge.history.negotiated


def unfit_version(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """PROTO-008: a version that nobody has published, and still success"""
    named, session = exchange.fields.get(VERSION), exchange.session
    if named is None or named in REVISIONS or session is None or not exchange.succeeded:
        return
    if named.lower().startswith("draft"):
        return
    said = (
        f"server took MCP-Protocol-Version: {shortened(named)}, which is no revision, instead of sending 400"
    )
    # A value that looks like a date may be a revision that is not known here.
    dated = _DATE.fullmatch(named) is not None
    candidates = None if session.revision else NAMING
    yield Violation(
        "PROTO-008",
        "R-098",
        said,
        pointer=None,
        related=(exchange.request.seq,),
        at_most="info" if is_later(named) else "warning" if dated else None,
        candidates=candidates,
    )


FAMILY: Final = RuleFamily(
    http=(
        HttpCheck(("PROTO-010",), issued_elsewhere, HEAD, STATEFUL, given=ISSUING),
        HttpCheck(("PROTO-010",), issued_with_error, CONTENT, STATEFUL, ("POST",), given=ISSUING),
        HttpCheck(("PROTO-010",), unfit_id, ("success",), STATEFUL, ("POST",), given=ISSUING),
        HttpCheck(("PROTO-010",), missing_id, ("request",), STATEFUL, given=ASTRAY),
        HttpCheck(("PROTO-010",), missing_id_refused, ("refusal",), STATEFUL),
        HttpCheck(("PROTO-010",), invented_id, ("refusal",), STATEFUL),
        HttpCheck(("PROTO-010",), outlived_session, ("success",), STATEFUL, given=OVER),
        HttpCheck(("PROTO-010",), dead_id, ("request",), STATEFUL, given=ASTRAY),
        HttpCheck(("PROTO-010",), abandoned_session, ("over",), STATEFUL),
        HttpCheck(("PROTO-010",), stateless_id, CONTENT, STATELESS, given=ISSUING),
        HttpCheck(("PROTO-008",), version_header, ("request",), STATEFUL, given=ASTRAY),
        HttpCheck(("PROTO-008",), unfit_version, ("success",), STATEFUL, given=ASTRAY),
    ),
)
