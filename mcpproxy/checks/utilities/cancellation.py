"""Cancellation: which requests a peer may cancel, and which messages may still follow.

The answer to a request and the cancellation of the request may cross on the way, which neither side can
prevent. So an answer soon after the cancellation is not reported, and a cancellation soon after the answer is
not reported either (``GRACE_NS``).

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import field, slotted
from mcpproxy.checks.engine.context import MessageContext, Violation, shortened, spelled
from mcpproxy.checks.engine.http_facts import WITHOUT_REQUEST
from mcpproxy.checks.engine.rows import (
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
from mcpproxy.checks.utilities.progress import ProgressTokens, with_other_type
from mcpproxy.protocol.jsonrpc import ABSENT, ErrorResponse, Notification, RequestId, Single, request_id
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.methods import declares
from mcpproxy.protocol.revisions import is_stateless
from mcpproxy.protocol.wording import kind, seconds
from mcpproxy.session.exchanges import HttpExchange, HttpHistory
from mcpproxy.session.frame import CLIENT, SERVER, Close, Frame, Sender, Severity, Signal, other
from mcpproxy.session.history import History, SentRequest, keep_latest

GRACE_NS: Final = 5_000_000_000
"""After this long a peer has certainly read a message, even if it is busy or the message waited in a pipe."""

GIVEN_UP_NS: Final = 30_000_000_000
"""If a request is cancelled after this long, its sender had waited for the answer in vain."""

REQUEST_CANCELLED: Final = -32800
"""The code for a cancelled request in the Language Server Protocol, which servers of MCP use, too."""

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

MAX_REMEMBERED: Final = 1024
"""The number of tasks, and the number of cancellations, that are remembered."""

METHOD: Final = "notifications/cancelled"
LISTEN: Final = "subscriptions/listen"

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


@slotted(frozen=True)
class Cancelled:
    """A cancellation: the request (``None`` if unknown), who cancelled it, its id, the frame and the time."""

    request: SentRequest | None
    sender: Sender
    id: RequestId
    seq: int
    cancelled_ns: int


@slotted()
class Cancellations:
    """The latest requests that became tasks, and the latest cancellations.

    ``by_request`` has the cancellations by the sender and the id of the request.
    """

    tasks: deque[SentRequest] = field(default_factory=lambda: deque[SentRequest](maxlen=MAX_REMEMBERED))
    by_request: dict[tuple[Sender, RequestId], Cancelled] = field(
        default_factory=dict[tuple[Sender, RequestId], Cancelled]
    )

    def request(self, history: History, requestor: Sender, id: RequestId) -> SentRequest | None:
        """Return the latest request of ``requestor`` with this id; ``None`` if it is unknown or forgotten."""
        if (pending := history.pending(requestor, id)) is not None:
            return pending
        for request in reversed(history.answered_requests):
            if request.id == id and request.sender == requestor:
                return request
        return None


# The cancellation itself


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
        problem = f"server cancelled {_named(request)} of the client; it may only end a {LISTEN}"
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
    elif request is not None and _is_task(request, history):
        problem = (
            f"{sender} cancelled {_named(request)}, which it had asked for as a task, without tasks/cancel"
        )
        yield _violation(context, TASK if request.answered_seq else TASK_WITHOUT_ID, problem, request.seq)
    elif request is not None and request.answered_seq and request.answers_due <= 0:
        # If an answer were still due, another request with the same id could be meant.
        waited_ns = context.frame.observed_at_ns - request.answered_ns
        if waited_ns >= GRACE_NS:
            problem = f"{sender} cancelled {_named(request)} {seconds(waited_ns)} after its answer"
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
    """Report the cancellation of initialize on another connection than its own (CANC-003).

    There is no session id yet, so it is certain only if the recording has no other session.
    """
    session = exchange.session
    if session is None or not session.joined_late or session.id is not None:
        return
    if history.has_gap or history.by_connection or len(history.initializing) != 1:
        return
    (opening,) = history.initializing.values()
    if (initialize := opening.judge.history.initialize) is None:
        return
    for message in exchange.messages:
        id_given = member(message.value, "params", "requestId")
        if message.value.get("method") == METHOD and request_id(id_given) == initialize.id:
            yield Violation(
                *INITIALIZE,
                f"client cancelled its initialize request ({spelled(initialize.id)})",
                pointer="/params/requestId",
                related=(initialize.seq,),
                candidates=initialize.candidates,
                frame=exchange.body.seq if exchange.body else None,
            )


def _never_used(context: MessageContext, history: History, id: RequestId) -> Violation:
    """Return the violation of a cancellation with an id that its sender never used."""
    problem = f"{context.sender} cancelled request {spelled(id)}, an id that it never used"
    retyped_id = with_other_type(id)
    if retyped_id is not None and history.side(context.sender).used_ids.first_use(retyped_id) is not None:
        problem = f"{problem}: it used {spelled(retyped_id)}"
    requirement = FOREIGN_REQUEST if is_stateless(context.candidates) else UNKNOWN_REQUEST
    return _violation(context, requirement, problem)


def _may_have_used(history: History, requestor: Sender, id: RequestId) -> bool:
    """Whether ``requestor`` has used the id, or may have used it in a message that was not seen or read."""
    side = history.side(requestor)
    if history.has_gap or history.may_lack_messages or not side.fully_read:
        return True
    return side.used_ids.first_use(id) is not None or side.refused_ids.first_use(id) is not None


def _is_task(request: SentRequest, history: History) -> bool:
    """Whether a request became a task.

    Before its answer: whether it asks for a task and the receiver declared tasks for this method.
    """
    if request.stateless or not isinstance(member(request.params, "task"), dict):
        return False
    if request.answered_seq:
        return any(task is request for task in history.of(Cancellations).tasks)
    capabilities = history.capabilities(other(request.sender))
    return capabilities is not None and declares(
        capabilities, f"tasks.requests.{request.method.replace('/', '.')}"
    )


def _named(request: SentRequest) -> str:
    """Return the method and the id of a request for a message to people.

    The method is empty if two requests with the same id have different methods.
    """
    return f"{shortened(request.method) or 'request'} ({spelled(request.id)})"


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
    """Report a notification of cancellation over HTTP, where closing the stream cancels (CANC-009)."""
    body = exchange.body
    if body is not None and any(message.value.get("method") == METHOD for message in exchange.messages):
        problem = f"client sent {METHOD} over HTTP, where it cancels by closing the response stream"
        yield Violation("CANC-009", "R-114", problem, pointer="/method", frame=body.seq)


# Messages after the cancellation


def late_answer(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report an answer long after the cancellation, or one to the cancellation itself (CANC-005)."""
    request = context.answers
    if request is None or not request.cancelled:
        return ()
    return _late(context, history, request, ("CANC-005", "R-110"), "answered", context.at + "/id")


def _answers_cancellation(message: Single) -> bool:
    """Whether an error says that its request was cancelled: by its code, or by words that libraries use."""
    error = message.error if isinstance(message, ErrorResponse) else None
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
    requirement, pointer = ("CANC-010", "R-115"), context.at + "/params/progressToken"
    return _late(context, history, tracked.request, requirement, "reported progress of", pointer)


def _late(
    context: MessageContext,
    history: History,
    request: SentRequest,
    requirement: tuple[str, str],
    verb: str,
    pointer: str,
) -> Iterator[Violation]:
    """Report a message about a cancelled request, if its sender had certainly read the cancellation.

    An error that answers the cancellation itself shows that it was read.
    """
    cancelled = history.of(Cancellations).by_request.get((request.sender, request.id))
    if cancelled is None or cancelled.request is not request:
        return
    waited_ns = context.frame.observed_at_ns - cancelled.cancelled_ns
    cancellation_was_read = (
        not history.over_http and history.side(request.sender).last_answered_seq > cancelled.seq
    )
    if _answers_cancellation(context.message):
        problem = f"{context.sender} answered the cancellation of {_named(request)} with an error"
        yield Violation(*requirement, problem, pointer=pointer, related=(request.seq, cancelled.seq))
    elif waited_ns >= (READ_NS if cancellation_was_read else GRACE_NS):
        problem = f"{context.sender} {verb} {_named(request)} {seconds(waited_ns)} after it was cancelled"
        # Up to 2025-11-25 the receiver may continue if its work cannot be cancelled.
        at_most = None if is_stateless(context.candidates) else "info"
        yield Violation(
            *requirement, problem, pointer=pointer, related=(request.seq, cancelled.seq), at_most=at_most
        )


def given_up(event: Signal | Close, history: History) -> Iterator[Violation]:
    """Report a request that was cancelled because it stayed unanswered for long (RPC-008)."""
    if not isinstance(event, Close) or history.has_gap or history.over_http:
        return
    for cancelled in history.of(Cancellations).by_request.values():
        request = cancelled.request
        if request is None or request.answered_seq or not request.method or request.method == LISTEN:
            continue
        responder = other(request.sender)
        waited_ns = cancelled.cancelled_ns - request.sent_ns
        if (
            waited_ns < GIVEN_UP_NS
            or cancelled.sender != request.sender
            or not history.side(responder).fully_read
        ):
            continue
        if _is_task(request, history) or (request.stateless and history.stateful_seq is not None):
            continue  # A stateful server need not answer a request that tests if it is stateless.
        tokens = history.of(ProgressTokens).tracked[request.sender].values()
        if any(token.request is request and token.latest is not None for token in tokens):
            continue  # The receiver reported progress, so it had not ignored the request.
        problem = (
            f"{responder} did not answer {_named(request)}, "
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
    """Report a server that exits and leaves a subscription open (CANC-008)."""
    if not isinstance(event, Close) or event.exit_code != 0 or history.has_gap or history.over_http:
        return
    server_closed_ns, client_closed_ns = history.server.closed_ns, history.client.closed_ns
    if server_closed_ns is None or (client_closed_ns is not None and client_closed_ns <= server_closed_ns):
        return  # The client disconnected first, which ended its subscriptions.
    cancellations = history.of(Cancellations).by_request
    for request in history.client.pending.values():
        if request.method == LISTEN and request.stateless and (CLIENT, request.id) not in cancellations:
            problem = f"server exited without ending {_named(request)}, a subscription that was still open"
            yield Violation(
                "CANC-008",
                "R-113",
                problem,
                blame="server",
                at_most="info",
                frame=request.seq,
                candidates=request.candidates,
            )


# The state


def remember_answer(context: MessageContext, history: History) -> None:
    """Record a request that was answered with a task."""
    request = context.answers
    if request is None or not isinstance(request.params, dict) or "task" not in request.params:
        return
    if isinstance(member(context.message.value, "result", "task"), dict):
        history.of(Cancellations).tasks.append(request)


def remember_cancellation(context: MessageContext, history: History) -> None:
    """Record a cancellation. The sender cancels its own request, or a server ends a subscription."""
    id, sender = request_id(member(context.message.value, "params", "requestId")), context.sender
    if id is None:
        return
    request = history.pending(sender, id)
    if request is None and sender == SERVER:
        subscription = history.pending(CLIENT, id)
        request = subscription if subscription is not None and subscription.method == LISTEN else None
    cancelled = Cancelled(request, sender, id, context.seq, context.frame.observed_at_ns)
    requestor = sender if request is None else request.sender
    keep_latest(history.of(Cancellations).by_request, (requestor, id), cancelled, MAX_REMEMBERED)


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
