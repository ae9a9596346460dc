"""Messages after a cancellation: late answers and late progress. Also requests that were never answered.

The answer to a request and its cancellation may cross on the way, which neither side can prevent. So an
answer soon after the cancellation is not reported (``GRACE_NS``).

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.judge.checks.engine.context import GRACE_NS, MessageContext, Violation
from mcpproxy.judge.checks.utilities.cancelled_requests import Cancellations, is_task, name_of
from mcpproxy.judge.checks.utilities.progress import ProgressTokens
from mcpproxy.judge.session.frame import CLIENT, Close, Signal, other
from mcpproxy.judge.session.history import History, SentRequest
from mcpproxy.protocol.error_message import REQUEST_CANCELLED
from mcpproxy.protocol.jsonrpc import Single, request_id
from mcpproxy.protocol.message_parts import error_of, member
from mcpproxy.protocol.methods import LISTEN
from mcpproxy.protocol.revisions import is_stateless
from mcpproxy.protocol.wording import seconds

GIVEN_UP_NS: Final = 30_000_000_000
"""If a request is cancelled after this long, its sender had waited for the answer in vain."""

_REQUEST_CANCELLED: Final = pattern(r"(?i)(?:the )?request (?:was |has been )?cancell?ed\b")

QUICK: Final = frozenset(
    {
        "ping",
        "tools/list",
        "resources/list",
        "resources/templates/list",
        "prompts/list",
        "roots/list",
        "logging/setLevel",
    }
)
"""Requests that can be answered at once: they need neither long work nor a person."""

READ_NS: Final = 100_000_000
"""How long a peer may take to act on a cancellation that it has certainly read.

A peer has read a cancellation if it has answered a request that was sent after the cancellation.
"""


def late_answer(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report an answer long after the cancellation, or one to the cancellation itself (CANC-005)."""
    request = context.answers
    if request is None or not request.cancelled:
        return ()
    return _late_message(context, history, request, ("CANC-005", "R-110"), "answered", context.at + "/id")


def _answers_cancellation(message: Single) -> bool:
    """Whether an error says that its request was cancelled: by its code, or by words that libraries use."""
    error = error_of(message)
    text = member(error, "message")
    return member(error, "code") == REQUEST_CANCELLED or (
        isinstance(text, str) and _REQUEST_CANCELLED.match(text) is not None
    )


def late_progress(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report progress long after the cancellation (CANC-010).

    Other notifications do not show which request they belong to, so they are not checked.
    """
    token = request_id(member(context.message.value, "params", "progressToken"))
    tracked = None if token is None else history.of(ProgressTokens).tracked[other(context.sender)].get(token)
    if tracked is None or tracked.shared or not tracked.request.cancelled or tracked.request.answered_seq:
        return ()
    codes, pointer = ("CANC-010", "R-115"), context.at + "/params/progressToken"
    return _late_message(context, history, tracked.request, codes, "reported progress of", pointer)


def _late_message(
    context: MessageContext,
    history: History,
    request: SentRequest,
    codes: tuple[str, str],
    verb: str,
    pointer: str,
) -> Iterator[Violation]:
    """Report a message that came ``GRACE_NS`` or more after its request was cancelled.

    ``READ_NS`` is enough if its sender had certainly read the cancellation. An error that answers the
    cancellation itself is always reported. ``codes`` are those of the rule and of the requirement.
    """
    cancelled = history.of(Cancellations).by_request.get((request.sender, request.id))
    if cancelled is None or cancelled.request is not request:
        return
    waited_ns = context.frame.observed_at_ns - cancelled.cancelled_ns
    cancellation_was_read = (
        not history.over_http and history.side(request.sender).last_answered_seq > cancelled.seq
    )
    if _answers_cancellation(context.message):
        problem = f"{context.sender} answered the cancellation of {name_of(request)} with an error"
        yield Violation(*codes, problem, pointer=pointer, related=(request.seq, cancelled.seq))
    elif waited_ns >= (READ_NS if cancellation_was_read else GRACE_NS):
        problem = f"{context.sender} {verb} {name_of(request)} {seconds(waited_ns)} after it was cancelled"
        # Up to 2025-11-25 the receiver may continue if its work cannot be cancelled.
        at_most = None if is_stateless(context.candidates) else "info"
        yield Violation(
            *codes, problem, pointer=pointer, related=(request.seq, cancelled.seq), at_most=at_most
        )


def given_up(event: Signal | Close, history: History) -> Iterator[Violation]:
    """Report a request on stdio that was cancelled because it stayed unanswered for long (RPC-008)."""
    if not isinstance(event, Close) or history.has_gap or history.over_http:
        return
    for cancelled in history.of(Cancellations).by_request.values():
        request = cancelled.request
        if request is None or request.answered_seq or request.method in ("", "initialize", LISTEN):
            continue  # SEQ-001 reports initialize.
        responder = other(request.sender)
        waited_ns = cancelled.cancelled_ns - request.sent_ns
        if (
            waited_ns < GIVEN_UP_NS
            or cancelled.sender != request.sender
            or not history.side(responder).fully_read
        ):
            continue
        if is_task(request, history) or (request.stateless and history.stateful_seq is not None):
            continue  # A server with a handshake need not answer a stateless request that probed it.
        tokens = history.of(ProgressTokens).tracked[request.sender].values()
        if any(token.request is request and token.latest is not None for token in tokens):
            continue  # The receiver reported progress, so it had not ignored the request.
        problem = (
            f"{responder} did not answer {name_of(request)}, "
            f"which the {request.sender} cancelled after {seconds(waited_ns)}"
        )
        yield Violation(
            "RPC-008",
            "R-010",
            problem,
            related=(cancelled.seq,),
            blame=responder,
            at_most="warning" if request.method in QUICK else "info",
            frame=request.seq,
            candidates=request.candidates,
        )


def silent_end(event: Signal | Close, history: History) -> Iterator[Violation]:
    """Report a server that exits with code 0, on stdio, and leaves a subscription open (CANC-008)."""
    if not isinstance(event, Close) or event.exit_code != 0 or history.has_gap or history.over_http:
        return
    server_closed_ns, client_closed_ns = history.server.closed_ns, history.client.closed_ns
    if server_closed_ns is None or (client_closed_ns is not None and client_closed_ns <= server_closed_ns):
        return  # The client disconnected first, which ended its subscriptions.
    cancellations = history.of(Cancellations).by_request
    for request in history.client.pending.values():
        if request.method == LISTEN and request.stateless and (CLIENT, request.id) not in cancellations:
            problem = f"server exited without ending {name_of(request)}, a subscription that was still open"
            yield Violation(
                "CANC-008",
                "R-113",
                problem,
                blame="server",
                at_most="info",
                frame=request.seq,
                candidates=request.candidates,
            )
