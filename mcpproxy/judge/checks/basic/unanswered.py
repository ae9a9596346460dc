"""Requests that are never answered, although the peer could have answered them.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic#responses
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.judge.checks.engine.context import Violation, shortened, spelled
from mcpproxy.judge.checks.engine.rows import ACP_ONLY, EventCheck, RuleFamily
from mcpproxy.judge.session.frame import CLIENT, SERVER, Close, Severity, Signal, other
from mcpproxy.judge.session.history import History, SentRequest
from mcpproxy.protocol.methods import LISTEN

_PROBE: Final = "server/discover"
"""The request with which a client finds out (*probes*) whether a server has a stateless revision."""

MAY_STAY_UNANSWERED: Final = ("initialize", _PROBE, LISTEN)
"""Methods whose missing answer RPC-008 does not report: other rules do, or nothing is wrong.

If a server ends by itself, RPC-008 does report an unanswered probe, and in ACP an unanswered initialize.
"""

ASKS_A_PERSON: Final = ("elicitation/create", "sampling/createMessage", "tasks/result")
"""Requests for which a client may wait for its user, who may never decide."""

PIPE_BYTES: Final = 1 << 16
"""How many bytes a pipe of Linux holds. A server that exits too early often cuts a line after so many."""

ANSWER_TIMEOUT_NS: Final = 30_000_000_000
"""A missing answer is reported if its request was sent at least this long before the end."""


def unanswered(event: Signal | Close, history: History) -> Iterator[Violation]:
    """Report a request on stdio that was never answered although later ones were (RPC-008, LIFE-004).

    A client may answer none of the server's requests. Then the answers to its own requests show that the
    session went on. What a server left unanswered when it ended by itself is reported too.
    """
    if not isinstance(event, Close) or event.ending == "cut" or history.has_gap or history.over_http:
        return
    for asker in (CLIENT, SERVER):
        side, responder = history.side(asker), other(asker)
        went_on_seq = max(side.last_answered_seq, history.client.last_answered_seq)
        reported: list[SentRequest] = []
        if not history.side(responder).fully_read:
            continue
        for request in side.pending.values():
            answered_later = request.seq < side.last_answered_seq
            # An error without an id (``refused_seq``) may have answered any request before it.
            if side.refused_seq < request.seq < went_on_seq and _is_overdue(request, event, history):
                rule = ("LIFE-004", "R-040") if request.method == "ping" else ("RPC-008", "R-010")
                if request.cancelled or request.method in MAY_STAY_UNANSWERED:
                    continue
                if request.stateless and history.stateful_seq is not None:
                    continue  # A server with a handshake may ignore the stateless request that probed it.
                reported.append(request)
                what = f"{shortened(request.method)} ({spelled(request.id)})"
                problem = f"{responder} never answered {what}, but "
                problem += "answered later requests" if answered_later else "went on with the session"
                yield Violation(
                    *rule,
                    problem,
                    blame=responder,
                    frame=request.seq,
                    at_most=_highest_severity(request, answered_later=answered_later),
                    candidates=request.candidates,
                )
        if asker == CLIENT:
            yield from _unanswered_at_exit(event, history, reported)


def unanswered_by_agent(event: Signal | Close, history: History) -> Iterator[Violation]:
    """Report the requests, initialize included, that an agent had not answered when it ended by itself
    (RPC-008).

    A late answer is not reported: ACP sets no time limit, because a turn may wait for the user.
    """
    if isinstance(event, Close) and event.ending != "cut" and not history.has_gap:
        yield from _unanswered_at_exit(event, history, [], who="agent", exempt=())


def _unanswered_at_exit(
    event: Close,
    history: History,
    reported: list[SentRequest],
    *,
    who: str = "server",
    exempt: tuple[str, ...] = MAY_STAY_UNANSWERED,
) -> Iterator[Violation]:
    """Report the requests that the server had not answered when it ended by itself (RPC-008).

    Left out are the requests in ``reported``, those for methods in ``exempt`` except a probe, those that were
    cancelled, may have been refused or came after the end, and stateless ones if there was a handshake.
    ``who`` is the word for the server in the finding.
    """
    ending, ended_ns = history.unprovoked_end(event), history.server.closed_ns
    if not ending or ended_ns is None:
        return
    unanswered_requests = [
        request
        for request in history.client.pending.values()
        if not request.cancelled
        and (request.method == _PROBE or request.method not in exempt)
        and request.sent_ns < ended_ns
        and request.seq > history.client.refused_seq
        and not (request.stateless and history.stateful_seq is not None)
        and not any(request is reported_request for reported_request in reported)
    ]
    if unanswered_requests:
        first, *others = unanswered_requests
        more = f" and {len(others)} more" if others else ""
        problem = f"{who} {ending} and left {shortened(first.method)} ({spelled(first.id)}){more} unanswered"
        if cut_bytes := history.server.cut_bytes:
            pipe = ", which is what a pipe holds" if cut_bytes == PIPE_BYTES else ""
            problem += f"; its last line is cut off after {cut_bytes:,} bytes{pipe}"
        yield Violation(
            "RPC-008",
            "R-010",
            problem,
            related=tuple(request.seq for request in others),
            blame="server",
            frame=first.seq,
            # A server that only knows revisions with a handshake need not answer a probe. If it exits
            # instead, that is worth an info.
            at_most="info" if all(request.method == _PROBE for request in unanswered_requests) else None,
            candidates=first.candidates,
        )


def _highest_severity(request: SentRequest, *, answered_later: bool) -> Severity | None:
    """Return the highest severity of a missing answer; ``None`` if nothing lowers it.

    No requirement limits the time of an answer, except for ping.
    """
    if request.method == "ping":
        return None
    return "info" if request.method in ASKS_A_PERSON and not answered_later else "warning"


def _is_overdue(request: SentRequest, event: Close, history: History) -> bool:
    """Whether there was time for an answer before the end.

    A client must have had the time before either stream was closed, too.
    """
    ends_ns = [event.observed_at_ns]
    if request.sender == SERVER:
        ends_ns += [side.closed_ns for side in (history.client, history.server) if side.closed_ns is not None]
    return min(ends_ns) - request.sent_ns >= ANSWER_TIMEOUT_NS


FAMILY: Final = RuleFamily(
    events=(
        EventCheck(("RPC-008", "LIFE-004"), unanswered),
        EventCheck(("RPC-008",), unanswered_by_agent, ACP_ONLY),
    )
)
