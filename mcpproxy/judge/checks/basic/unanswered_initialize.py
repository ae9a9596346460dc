"""An initialize that the server never answers (SEQ-001): the check for stdio, the limits for any transport.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#initialization
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.judge.checks.engine.context import Violation, spelled
from mcpproxy.judge.checks.utilities.cancelled_requests import Cancellations
from mcpproxy.judge.session.frame import Close, Severity, Signal
from mcpproxy.judge.session.history import History, SentRequest
from mcpproxy.protocol.wording import seconds

INITIALIZE_TIMEOUT_NS: Final = 10_000_000_000
"""If initialize has waited at least this long when the wait ends (see ``kept_waiting``), that is an error."""

IMPATIENCE_NS: Final = 2_000_000_000
"""If initialize has waited at least this long, but less than ``INITIALIZE_TIMEOUT_NS``, that is an info."""


def initialize_unanswered(event: Signal | Close, history: History) -> Iterator[Violation]:
    """Report an initialize that the server never answered, on stdio (SEQ-001)."""
    request = history.initialize
    if not isinstance(event, Close) or request is None or history.initialize_answered:
        return
    if history.has_gap or not history.server.fully_read or event.ending in ("cut", "not started"):
        return
    if request.seq < history.client.refused_seq:
        return  # A later error without an id may be the answer to initialize.
    if history.over_http:
        return  # ``transports.initialize_answer`` judges the exchange of initialize.
    if ending := history.unprovoked_end(event):
        problem = f"server {ending} without answering initialize ({spelled(request.id)})"
        yield _never_answered(problem, request)
        return
    client_ns, server_ns = history.client.closed_ns, history.server.closed_ns  # when each closed its stream
    has_failed = event.ending == "signalled" or event.exit_code != 0
    if has_failed and (client_ns is None or (server_ns is not None and server_ns < client_ns)):
        return  # The server failed before the client closed the stream. The exit status says that already.
    server = history.server
    is_silent = not (server.latest_notifications or server.pending or history.has_stderr)
    hint = "; it sent nothing, as one does that waits for Content-Length headers (LSP)" if is_silent else ""
    if client_ns is None:
        yield from kept_waiting(request, history, event.observed_at_ns, "the end", hint)
    else:
        yield from kept_waiting(request, history, client_ns, "the client closed stdin", hint)


def kept_waiting(
    request: SentRequest,
    history: History,
    left_ns: int,
    left: str,
    hint: str = "",
    *,
    sent_ns: int = 0,
) -> Iterator[Violation]:
    """Report an initialize that waited at least ``IMPATIENCE_NS`` without an answer, on any transport
    (SEQ-001).

    The wait ends at ``left_ns``, when the client left or the recording ended, or earlier if the client
    cancelled the request. ``left`` says in words what happened at ``left_ns``, and ``hint`` is added to the
    text. ``sent_ns`` is the time when the server got the request, if that is known to be later than the
    client sent it. All times are in nanoseconds.
    """
    cancelled = history.of(Cancellations).by_request.get((request.sender, request.id))
    if cancelled is not None and cancelled.request is request and cancelled.cancelled_ns < left_ns:
        left_ns, left = cancelled.cancelled_ns, "the client cancelled it"
    waited_ns = left_ns - max(request.sent_ns, sent_ns)
    if waited_ns >= IMPATIENCE_NS:
        waited = seconds(waited_ns)
        problem = (
            f"server never answered initialize ({spelled(request.id)}), sent {waited} before {left}{hint}"
        )
        # Nothing says how long a start may take, so a client that soon gave up proves no fault.
        yield _never_answered(problem, request, None if waited_ns >= INITIALIZE_TIMEOUT_NS else "info")


def _never_answered(problem: str, request: SentRequest, at_most: Severity | None = None) -> Violation:
    return Violation(
        "SEQ-001",
        "R-032",
        problem,
        blame="server",
        frame=request.seq,
        at_most=at_most,
        candidates=request.candidates,
    )
