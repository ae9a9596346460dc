"""Cancellation: which requests a peer may cancel, and how.

The answer to a request and the cancellation of the request may cross on the way, which neither side can
prevent. So a cancellation soon after the answer is not reported (``GRACE_NS``). ``after_cancellation`` checks
the messages that follow a cancellation.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.judge.checks.engine.context import GRACE_NS, MessageContext, Violation, spelled
from mcpproxy.judge.checks.engine.http_facts import WITHOUT_REQUEST
from mcpproxy.judge.checks.engine.rows import (
    ANSWERS,
    AUGMENTED,
    CANCELLED,
    STATEFUL,
    STATELESS,
    Check,
    EventCheck,
    HttpCheck,
    RuleFamily,
    StateUpdate,
)
from mcpproxy.judge.checks.utilities.after_cancellation import (
    given_up,
    late_answer,
    late_progress,
    silent_end,
)
from mcpproxy.judge.checks.utilities.cancelled_requests import (
    METHOD,
    Cancellations,
    cancelled_initialize,
    is_task,
    name_of,
    remember_answer,
    remember_cancellation,
)
from mcpproxy.judge.session.exchanges import HttpExchange, HttpHistory
from mcpproxy.judge.session.frame import CLIENT, SERVER, Close, Frame, Sender, Severity, Signal
from mcpproxy.judge.session.history import History
from mcpproxy.protocol.jsonrpc import ABSENT, Notification, RequestId, request_id, with_other_type
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.methods import LISTEN
from mcpproxy.protocol.revisions import is_stateless
from mcpproxy.protocol.wording import kind, seconds

OPTIONAL_ID: Final = "2025-11-25"
"""The revision whose schema allows a cancellation without an id; the text of the specification does not."""

UNKNOWN_REQUEST: Final = ("CANC-001", "R-106")
ANSWERED_REQUEST: Final = ("CANC-002", "R-107")
INITIALIZE: Final = ("CANC-003", "R-108")
SHAPE: Final = ("CANC-004", "R-109")
TASK: Final = ("CANC-006", "R-111")
TASK_WITHOUT_ID: Final = ("CANC-006", "D-006")
FOREIGN_REQUEST: Final = ("CANC-007", "R-112")
"""The rule and requirement for each kind of fault.

``TASK_WITHOUT_ID`` is for a request for a task that was not answered yet, so that the task's id is not known.
``FOREIGN_REQUEST`` is for the stateless revisions.
"""


def cancellation(context: MessageContext[Notification], history: History) -> Iterator[Violation]:
    """Report a cancellation of a request that cannot be cancelled this way (CANC-001, CANC-002, CANC-003,
    CANC-004, CANC-006, CANC-007).
    """
    message = context.message
    if message.params is not ABSENT and not isinstance(message.params, dict):
        return  # RPC-016 reports params that are not an object.
    id = request_id(member(message.params, "requestId"))
    if id is None:
        yield from _no_id(context, message)
    elif context.sender == SERVER and is_stateless(context.candidates):
        yield from _by_stateless_server(context, history, id)
    else:
        yield from _by_requestor(context, history, id)


def _no_id(context: MessageContext, message: Notification) -> Iterator[Violation]:
    """Report a cancellation without a usable request id (CANC-004)."""
    if not isinstance(message.params, dict) or "requestId" not in message.params:
        fault = "without a requestId"
        is_lenient = message.params is not ABSENT and OPTIONAL_ID in context.candidates
    else:
        value = message.params["requestId"]
        type_name = "a fraction" if isinstance(value, float) else kind(value)
        fault, is_lenient = f"whose requestId is {type_name}, not a string or an integer", False
    problem = f"{context.sender} sent a cancellation {fault}"
    yield _violation(context, SHAPE, problem, at_most="warning" if is_lenient else None)


def _by_stateless_server(context: MessageContext, history: History, id: RequestId) -> Iterator[Violation]:
    """Report a server that cancels a request other than a subscription (CANC-007)."""
    request = history.of(Cancellations).request(history, CLIENT, id)
    if request is None and (history.over_http or _may_have_used(history, CLIENT, id)):
        return
    if request is None:
        problem = f"server cancelled request {spelled(id)}, an id that the client never used"
        yield _violation(context, FOREIGN_REQUEST, problem)
    elif request.method and request.method != LISTEN:
        problem = f"server cancelled {name_of(request)} of the client; it may only end a {LISTEN}"
        yield _violation(context, FOREIGN_REQUEST, problem, request.seq)


def _by_requestor(context: MessageContext, history: History, id: RequestId) -> Iterator[Violation]:
    """Report a peer that cancels initialize, a task, an answered request, or a request that it never sent
    (CANC-001, CANC-002, CANC-003, CANC-006, CANC-007).
    """
    sender, cancellations = context.sender, history.of(Cancellations)
    request, initialize = cancellations.request(history, sender, id), history.initialize
    if request is not None and request is initialize:
        problem = f"client cancelled its initialize request ({spelled(id)})"
        yield _violation(context, INITIALIZE, problem, request.seq)
    elif request is not None and is_task(request, history):
        problem = (
            f"{sender} cancelled {name_of(request)}, which it had asked for as a task, without tasks/cancel"
        )
        yield _violation(context, TASK if request.answered_seq else TASK_WITHOUT_ID, problem, request.seq)
    elif request is not None and request.answered_seq and request.answers_due <= 0:
        # If an answer were still due, another request with the same id could be meant.
        waited_ns = context.frame.observed_at_ns - request.answered_ns
        if waited_ns >= GRACE_NS:
            problem = f"{sender} cancelled {name_of(request)} {seconds(waited_ns)} after its answer"
            # The requirement is about what the sender believes, and that cannot be observed.
            at_most = "info" if history.over_http else "warning"
            yield _violation(
                context, ANSWERED_REQUEST, problem, request.seq, request.answered_seq, at_most=at_most
            )
    elif request is None and not history.over_http and not _may_have_used(history, sender, id):
        yield _never_used(context, history, id)


def initialize_cancelled(
    exchange: HttpExchange, history: HttpHistory, frame: Frame | None
) -> Iterator[Violation]:
    """Report the cancellation of initialize in a POST without a session of its own (CANC-003)."""
    if (cancelled := cancelled_initialize(exchange, history)) is not None:
        initialize, _ = cancelled
        yield Violation(
            *INITIALIZE,
            f"client cancelled its initialize request ({spelled(initialize.id)})",
            pointer="/params/requestId",
            related=(initialize.seq,),
            candidates=initialize.candidates,
            frame=exchange.body.seq if exchange.body else None,
        )


def _may_have_used(history: History, requestor: Sender, id: RequestId) -> bool:
    """Whether ``requestor`` has used the id, or may have used it in a message that was not seen or read."""
    side = history.side(requestor)
    if history.has_gap or history.may_lack_messages or not side.fully_read:
        return True
    return side.used_ids.first_use(id) is not None or side.refused_ids.first_use(id) is not None


def _never_used(context: MessageContext, history: History, id: RequestId) -> Violation:
    """Return the violation of a cancellation with an id that its sender never used."""
    problem = f"{context.sender} cancelled request {spelled(id)}, an id that it never used"
    retyped_id = with_other_type(id)
    if retyped_id is not None and history.side(context.sender).used_ids.first_use(retyped_id) is not None:
        problem = f"{problem}: it used {spelled(retyped_id)}"
    requirement = FOREIGN_REQUEST if is_stateless(context.candidates) else UNKNOWN_REQUEST
    return _violation(context, requirement, problem)


def _violation(
    context: MessageContext,
    requirement: tuple[str, str],
    problem: str,
    *related: int,
    at_most: Severity | None = None,
) -> Violation:
    return Violation(
        *requirement, problem, pointer=context.at + "/params/requestId", related=related, at_most=at_most
    )


def unmatched(event: Signal | Close, history: History) -> Iterator[Violation]:
    """Report the cancellation of a request that was never sent, over HTTP (CANC-001).

    Over HTTP a cancellation may overtake its request, so this is judged at the end of the session.
    """
    # ``stateless_memories`` is set in a stateless session over HTTP: CANC-009 reports its cancellations.
    if not isinstance(event, Close) or not history.over_http or history.stateless_memories is not None:
        return
    for cancelled in history.of(Cancellations).by_request.values():
        if cancelled.request is None and not _may_have_used(history, cancelled.sender, cancelled.id):
            problem = (
                f"{cancelled.sender} cancelled request {spelled(cancelled.id)}, an id that it never used"
            )
            yield Violation(
                *UNKNOWN_REQUEST,
                problem,
                pointer="/params/requestId",
                blame=cancelled.sender,
                frame=cancelled.seq,
            )


def cancelled_over_http(
    exchange: HttpExchange, history: HttpHistory, frame: Frame | None
) -> Iterator[Violation]:
    """Report a notification of cancellation over HTTP in a stateless revision (CANC-009).

    There a client cancels by closing the stream of the response.
    """
    body = exchange.body
    if body is not None and any(message.value.get("method") == METHOD for message in exchange.messages):
        problem = f"client sent {METHOD} over HTTP, where it cancels by closing the response stream"
        yield Violation("CANC-009", "R-114", problem, pointer="/method", frame=body.seq)


FAMILY: Final = RuleFamily(
    checks=(
        Check(
            ("CANC-001", "CANC-002", "CANC-003", "CANC-004", "CANC-006", "CANC-007"),
            cancellation,
            (Notification,),
            (METHOD,),
        ),
        Check(("CANC-005",), late_answer, ANSWERS, given=CANCELLED),
        Check(("CANC-010",), late_progress, (Notification,), ("notifications/progress",), given=CANCELLED),
    ),
    http=(
        HttpCheck(("CANC-009",), cancelled_over_http, ("request",), STATELESS, ("POST",)),
        HttpCheck(
            ("CANC-003",), initialize_cancelled, ("request",), STATEFUL, ("POST",), given=WITHOUT_REQUEST
        ),
    ),
    events=(
        EventCheck(("CANC-001",), unmatched),
        EventCheck(("CANC-008",), silent_end),
        EventCheck(("RPC-008",), given_up),
    ),
    updates=(
        StateUpdate(remember_answer, ANSWERS, given=AUGMENTED),
        StateUpdate(remember_cancellation, (Notification,), (METHOD,)),
    ),
)
