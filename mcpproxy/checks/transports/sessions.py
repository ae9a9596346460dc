"""Sessions over HTTP: which responses issue their ids, which requests carry them, and when they end.

These rules do not apply to a server that issues no session ids.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.checks.engine.context import Violation, shortened
from mcpproxy.checks.engine.http_facts import ISSUES_SESSION_ID, SESSION_ENDED, SESSION_MAY_DIFFER
from mcpproxy.checks.engine.rows import CONTENT, HEAD, STATEFUL, STATELESS, HttpCheck, RuleFamily
from mcpproxy.checks.stateless.era import shows_modern
from mcpproxy.protocol import revisions
from mcpproxy.protocol.jsonrpc import ErrorResponse
from mcpproxy.protocol.revisions import REVISIONS, is_later, span
from mcpproxy.protocol.wording import with_article
from mcpproxy.session.exchanges import SESSION, VERSION, HttpExchange, HttpHistory, HttpSession, singles
from mcpproxy.session.frame import Frame
from mcpproxy.session.masked_values import as_mask

GUESSABLE: Final = 8
"""A session id with fewer bytes than this is easy to guess."""

IN_FLIGHT_NS: Final = 1_000_000_000
"""A message sent this soon after a 404 may have been under way already."""

ABANDONED_NS: Final = 600_000_000_000
"""A client that was silent for this long no longer needs its session."""

OTHER_REASONS: Final = (400, 401, 403, 405, 406, 413, 415, 429)
"""The right status for a missing session id, 400, and statuses that have another cause."""

WITH_VERSION_HEADER: Final = span("2025-06-18", "2026-07-28")
"""The revisions with sessions whose requests name their version in a header."""

_DATE: Final = pattern(r"\d{4}-\d{2}-\d{2}")

Checked = Iterator[Violation]


# The session id


def issued_elsewhere(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """Report a session id that a response other than that to initialize issues (PROTO-010)."""
    issued, session, head = exchange.response_fields.get(SESSION), exchange.session, exchange.response
    if issued is None or session is None or head is None:
        return
    if session.id is not None:
        # A request without an id may be outside this session, whatever its connection was used for before.
        if issued != session.id and exchange.initialize is None and SESSION in exchange.fields:
            yield Violation("PROTO-010", "R-088", "server changed the session id in the middle of a session")
    elif exchange.initialize is None:
        if not session.joined_late:
            yield Violation("PROTO-010", "R-088", "server issued a session id after initialize was answered")
    elif head.status >= 300:
        problem = f"server issued a session id although it refused initialize with {head.status}"
        yield Violation("PROTO-010", "R-088", problem)


def issued_with_error(exchange: HttpExchange, history: HttpHistory, frame: Frame) -> Checked:
    """Report a session id issued with a refused initialize (PROTO-010)."""
    initialize = exchange.initialize
    if initialize is None or SESSION not in exchange.response_fields or not exchange.succeeded:
        return
    if any(isinstance(m, ErrorResponse) and m.id == initialize.id for m in singles(frame)[0]):
        yield Violation("PROTO-010", "R-088", "server issued a session id, but refused initialize")


def unfit_id(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """Report a session id that is empty, not visible ASCII, not unique or easy to guess (PROTO-010)."""
    issued, session = exchange.response_fields.get(SESSION), exchange.session
    if issued is None or session is None or exchange.initialize is None or not exchange.succeeded:
        return
    known = as_mask(issued)
    if known.length == 0:
        yield Violation("PROTO-010", "R-089", "server issued an empty session id")
        return
    if not known.visible:
        problem = "server issued a session id with characters other than visible ASCII"
        yield Violation("PROTO-010", "R-089", problem)
    before = history.sessions.get(issued)
    if before is not None and before is not session:
        yield Violation("PROTO-010", "R-090", "server issued a session id that it has issued before")
    elif known.length < GUESSABLE:
        problem = f"server issued a session id of {known.length} bytes, which is easy to guess"
        yield Violation("PROTO-010", "R-090", problem)


def missing_id(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """Report a request without the session id (PROTO-010)."""
    if _lacks_id(exchange):
        problem = (
            f"client sent {with_article(shortened(exchange.method))} without the session id that it was given"
        )
        yield Violation("PROTO-010", "R-091", problem)


def missing_id_refused(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """Report a missing session id that was refused with a status other than 400 (PROTO-010)."""
    if _lacks_id(exchange) and 400 <= exchange.status < 500 and exchange.status not in OTHER_REASONS:
        problem = f"server refused a request without session id with {exchange.status} instead of 400"
        yield Violation("PROTO-010", "R-092", problem, pointer=None, related=(exchange.request.seq,))


def _lacks_id(exchange: HttpExchange) -> bool:
    """Whether a request has no session id, although its connection belongs to a session with one."""
    session = exchange.session
    if session is None or session.id is None or session.joined_late or session.ended_seq is not None:
        return False
    return exchange.initialize is None and SESSION not in exchange.fields and exchange.method != "OPTIONS"


def invented_id(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """Report a session id that was never issued (PROTO-010).

    It may have been issued before the recording, so this waits until the server refuses it.
    """
    session = exchange.session
    if session is None or not session.joined_late or session.id is None or history.has_gap:
        return
    if exchange.status not in (400, 404):
        return
    own = history.by_connection.get(exchange.request.connection)
    if own is not None and own.id is not None and own.ended_seq is None and session.ended_seq is None:
        problem = "client sent a session id that is not the one it was given"
        yield Violation(
            "PROTO-010",
            "R-091",
            problem,
            pointer=None,
            related=(),
            blame="client",
            frame=exchange.request.seq,
        )


def outlived_session(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """Report a server that serves a request of a session that is over (PROTO-010)."""
    session = exchange.session
    if session is None or session.ended_seq is None or exchange.initialize is not None:
        return
    named = exchange.fields.get(SESSION) == session.id
    if named and exchange.succeeded and exchange.request.seq > session.ended_seq:
        problem = f"server served a session that ended in frame {session.ended_seq}"
        uncertain = session.ended_by == "404"  # An intermediary may have sent it.
        related = (session.ended_seq, exchange.request.seq)
        yield Violation(
            "PROTO-010",
            "R-093",
            problem,
            pointer=None,
            related=related,
            at_most="warning" if uncertain else None,
        )


def dead_id(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """Report a client that continues a session after a 404 has ended it (PROTO-010)."""
    session = history.sessions.get(exchange.fields.get(SESSION) or "")
    if session is None or session.ended_seq is None or session.ended_by != "404":
        return
    if exchange.initialize is not None:
        problem = f"client opened a session with the id of one that ended in frame {session.ended_seq}"
    elif exchange.request.observed_at_ns - session.ended_ns >= IN_FLIGHT_NS:
        problem = f"client continued a session that ended in frame {session.ended_seq}"
    else:
        return
    yield Violation("PROTO-010", "R-094", problem, pointer=None, related=(session.ended_seq,))


def abandoned_session(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """Report a session that its client left without deleting it (PROTO-010)."""
    session = exchange.session
    if session is None or session.id is None or session.ended_seq is not None or session.refused_deletion:
        return
    idle_ns = (exchange.ended_ns or 0) - session.last_ended_ns
    if idle_ns >= ABANDONED_NS and session.last_ended_ns:
        problem = (
            f"client left its session {idle_ns // 60_000_000_000} min before the end and did not delete it"
        )
        yield Violation("PROTO-010", "R-095", problem, at_most="info")


def stateless_id(exchange: HttpExchange, history: HttpHistory, frame: Frame) -> Checked:
    """Report a session id in a revision without sessions (PROTO-010)."""
    head = exchange.response
    if head is None or SESSION not in exchange.response_fields or "PROTO-010" in exchange.broken_rules:
        return
    if exchange.fields.get(VERSION) not in revisions.STATELESS:
        return  # Its headers belong to the other era.
    if exchange.server in history.modern_servers or shows_modern(exchange, frame):
        problem = "server sent a session id in answer to a stateless request"
        yield Violation(
            "PROTO-010", "R-241", problem, pointer=None, related=(exchange.request.seq,), frame=head.seq
        )


# The protocol version


def version_header(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
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
        return  # Without its session id the request may not belong to this session.
    named = exchange.fields.get(VERSION)
    if named is None:
        problem = f"client sent {with_article(exchange.method)} without MCP-Protocol-Version: {negotiated}"
        yield Violation("PROTO-008", "R-096", problem)
    elif named != negotiated:
        problem = (
            f"client sent MCP-Protocol-Version: {shortened(named)} in a session that speaks {negotiated}"
        )
        yield Violation("PROTO-008", "R-097", problem)


def _negotiated(session: HttpSession) -> str | None:
    return session.judge.history.negotiated


def unfit_version(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """Report a server that accepts a protocol version which was never published (PROTO-008)."""
    named, session = exchange.fields.get(VERSION), exchange.session
    if named is None or named in REVISIONS or session is None or not exchange.succeeded:
        return
    if named.lower().startswith("draft"):
        return
    problem = (
        f"server accepted MCP-Protocol-Version: {shortened(named)}, which is not a revision; 400 refuses it"
    )
    # A value that looks like a date may be a revision newer than this program.
    dated = _DATE.fullmatch(named) is not None
    candidates = None if session.revision else WITH_VERSION_HEADER
    yield Violation(
        "PROTO-008",
        "R-098",
        problem,
        pointer=None,
        related=(exchange.request.seq,),
        at_most="info" if is_later(named) else "warning" if dated else None,
        candidates=candidates,
    )


FAMILY: Final = RuleFamily(
    http=(
        HttpCheck(("PROTO-010",), issued_elsewhere, HEAD, STATEFUL, given=ISSUES_SESSION_ID),
        HttpCheck(("PROTO-010",), issued_with_error, CONTENT, STATEFUL, ("POST",), given=ISSUES_SESSION_ID),
        HttpCheck(("PROTO-010",), unfit_id, ("success",), STATEFUL, ("POST",), given=ISSUES_SESSION_ID),
        HttpCheck(("PROTO-010",), missing_id, ("request",), STATEFUL, given=SESSION_MAY_DIFFER),
        HttpCheck(("PROTO-010",), missing_id_refused, ("refusal",), STATEFUL),
        HttpCheck(("PROTO-010",), invented_id, ("refusal",), STATEFUL),
        HttpCheck(("PROTO-010",), outlived_session, ("success",), STATEFUL, given=SESSION_ENDED),
        HttpCheck(("PROTO-010",), dead_id, ("request",), STATEFUL, given=SESSION_MAY_DIFFER),
        HttpCheck(("PROTO-010",), abandoned_session, ("over",), STATEFUL),
        HttpCheck(("PROTO-010",), stateless_id, CONTENT, STATELESS, given=ISSUES_SESSION_ID),
        HttpCheck(("PROTO-008",), version_header, ("request",), STATEFUL, given=SESSION_MAY_DIFFER),
        HttpCheck(("PROTO-008",), unfit_version, ("success",), STATEFUL, given=SESSION_MAY_DIFFER),
    ),
)
