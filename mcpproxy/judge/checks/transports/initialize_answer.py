"""An initialize over HTTP whose response does not come (SEQ-001).

``basic.unanswered_initialize`` judges the same on stdio.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#initialization
"""

from mcpproxy.judge.checks.basic.unanswered_initialize import kept_waiting
from mcpproxy.judge.checks.engine.context import Violation, Violations, spelled
from mcpproxy.judge.checks.transports.streams import unfinished
from mcpproxy.judge.session.exchanges import HttpExchange, HttpHistory
from mcpproxy.judge.session.frame import CLIENT, Frame


def unanswered_initialize(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a complete HTTP answer to initialize that does not contain its response (SEQ-001)."""
    initialize = exchange.initialize
    if initialize is None or not exchange.succeeded or exchange.cut or "HTTP-010" in exchange.broken_rules:
        return
    if exchange.unanswered and not exchange.event_id_count and not _has_unreadable_message(exchange):
        # After an event with an id, the client may resume the stream and get the response there.
        problem = (
            f"server ended its answer without the response to initialize ({spelled(initialize.id)})"
            f"{unfinished(exchange)}"
        )
        yield Violation(
            "SEQ-001",
            "R-032",
            problem,
            frame=exchange.body.seq if exchange.body else None,
        )


def awaited_initialize(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report an initialize without an answer when its client closed the connection (SEQ-001).

    ``kept_waiting`` decides whether the client waited long enough.
    """
    session, initialize = exchange.session, exchange.initialize
    # The exchange itself ends when the server, too, closes its side, which may be much later.
    if session is None or initialize is None or exchange.ended_by != CLIENT or exchange.left_ns is None:
        return
    if (exchange.response and not exchange.succeeded) or exchange.event_id_count or exchange.unfinished_seq:
        return  # It was refused, or its response may come later, or HTTP-012 reports that it was cut.
    if exchange.body_count or "HTTP-010" in exchange.broken_rules:
        return  # The client left before the whole body had come, or HTTP-010 reports the answer.
    request = session.pending(initialize.id)
    if request is not None and not history.has_gap and not _has_unreadable_message(exchange):
        judged, sent_ns = session.judge.history, exchange.forwarded_ns
        yield from kept_waiting(request, judged, exchange.left_ns, "the client left", sent_ns=sent_ns)


def _has_unreadable_message(exchange: HttpExchange) -> bool:
    """Whether the server has sent something in this session that could not be read, perhaps the response."""
    return exchange.session is not None and exchange.session.judge.history.server.sent_unreadable
