"""Cancellation: which requests a peer may cancel, and what it may still get afterwards.

The answer to a request and its cancellation may cross on the way, and neither side can prevent that. So
nothing that happens within ``GRACE_NS`` is reported.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.checks.engine.context import MessageContext, Violation, member, shortened, spelled
from mcpproxy.checks.engine.rows import (
    ANSWERS,
    AUGMENTED,
    CANCELLED,
    STATELESS,
    Check,
    EventCheck,
    HttpCheck,
    RuleFamily,
    StateUpdate,
)
from mcpproxy.checks.utilities.progress import ProgressTokens, twin_of
from mcpproxy.protocol.jsonrpc import ABSENT, Notification, RequestId, request_id
from mcpproxy.protocol.methods import declares
from mcpproxy.protocol.revisions import is_stateless
from mcpproxy.protocol.wording import kind, seconds
from mcpproxy.session.exchanges import HttpExchange, HttpHistory
from mcpproxy.session.frame import CLIENT, SERVER, Close, Frame, Sender, Severity, Signal, other
from mcpproxy.session.history import History, SentRequest, keep_latest

GRACE_NS: Final = 5_000_000_000
"""A peer has read a message after this long, even if it is busy or the message waited in a pipe."""

GIVEN_UP_NS: Final = 30_000_000_000
"""A request that was cancelled after this long was given up."""

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
"""Requests that need neither work nor a person."""

READ_NS: Final = 100_000_000
"""After this long, a peer that has answered a later request has read a cancellation and acted on it."""

MAX_REMEMBERED: Final = 1024
"""The number of the latest tasks and cancellations that are remembered."""

METHOD: Final = "notifications/cancelled"
LISTEN: Final = "subscriptions/listen"

OPTIONAL_ID: Final = "2025-11-25"
"""The revision whose schema allows a cancellation without an id, although its text does not."""

UNKNOWN_REQUEST: Final = ("CANC-001", "R-106")
ANSWERED_REQUEST: Final = ("CANC-002", "R-107")
INITIALIZE: Final = ("CANC-003", "R-108")
SHAPE: Final = ("CANC-004", "R-109")
TASK: Final = ("CANC-006", "R-111")
TASK_WITHOUT_ID: Final = ("CANC-006", "D-006")
FOREIGN_REQUEST: Final = ("CANC-007", "R-112")
"""The rule and requirement for each kind of fault; ``FOREIGN_REQUEST`` is for the stateless revisions."""


@slotted(frozen=True)
class Cancelled:
    """A cancellation: the request, if known, the sender, the id it names, its frame and its time."""

    asked: SentRequest | None
    sender: Sender
    id: RequestId
    seq: int
    at_ns: int


@slotted()
class Cancellations:
    """The latest requests that became tasks, and the cancellations by the requester and id they name."""

    tasks: deque[SentRequest] = field(default_factory=lambda: deque[SentRequest](maxlen=MAX_REMEMBERED))
    seen: dict[tuple[Sender, RequestId], Cancelled] = field(
        default_factory=dict[tuple[Sender, RequestId], Cancelled]
    )

    def request(self, history: History, asker: Sender, id: RequestId) -> SentRequest | None:
        """The latest request of ``asker`` with this id, answered or not, if it is remembered."""
        if (pending := history.pending(asker, id)) is not None:
            return pending
        return next(
            (a for a in reversed(history.answered_requests) if a.id == id and a.sender == asker), None
        )


# The cancellation itself


def cancellation(context: MessageContext[Notification], history: History) -> Iterator[Violation]:
    """Report a cancellation of a request that cannot be cancelled this way (CANC-001, CANC-002, CANC-003,
    CANC-004, CANC-006, CANC-007).
    """
    message = context.message
    if message.params is not ABSENT and not isinstance(message.params, dict):
        return  # RPC-016 reports it.
    id = request_id(member(message.params, "requestId"))
    if id is None:
        yield from _no_id(context, message)
    elif context.sender == SERVER and is_stateless(context.candidates):
        yield from _by_server(context, history, id)
    else:
        yield from _of_own(context, history, id)


def _no_id(context: MessageContext, message: Notification) -> Iterator[Violation]:
    """Report a cancellation without a usable id."""
    if not isinstance(message.params, dict) or "requestId" not in message.params:
        fault = "without a requestId"
        lenient = message.params is not ABSENT and OPTIONAL_ID in context.candidates
    else:
        value = message.params["requestId"]
        found = "a fraction" if isinstance(value, float) else kind(value)
        fault, lenient = f"whose requestId is {found}, not a string or an integer", False
    problem = f"{context.sender} sent a cancellation {fault}"
    yield _violation(context, SHAPE, problem, at_most="warning" if lenient else None)


def _by_server(context: MessageContext, history: History, id: RequestId) -> Iterator[Violation]:
    """Report what a server may not cancel: from 2026-07-28 on anything but a subscription."""
    asked = history.of(Cancellations).request(history, CLIENT, id)
    if asked is None and (history.over_http or _may_be_known(history, CLIENT, id)):
        return
    if asked is None:
        problem = f"server cancelled request {spelled(id)}, an id that the client never used"
        yield _violation(context, FOREIGN_REQUEST, problem)
    elif asked.method and asked.method != LISTEN:
        problem = f"server cancelled {_named(asked)} of the client; it may only end a {LISTEN}"
        yield _violation(context, FOREIGN_REQUEST, problem, asked.seq)


def _of_own(context: MessageContext, history: History, id: RequestId) -> Iterator[Violation]:
    """Report a cancellation of a request of the sender's own that it may not cancel, or not any more."""
    sender, memory = context.sender, history.of(Cancellations)
    asked, first = memory.request(history, sender, id), history.initialize
    if asked is not None and asked is first:
        problem = f"client cancelled its initialize request ({spelled(id)})"
        yield _violation(context, INITIALIZE, problem, asked.seq)
    elif asked is not None and _is_task(asked, history):
        problem = (
            f"{sender} cancelled {_named(asked)}, which it had asked for as a task, without tasks/cancel"
        )
        yield _violation(context, TASK if asked.answered_seq else TASK_WITHOUT_ID, problem, asked.seq)
    elif asked is not None and asked.answered_seq and asked.answers_due <= 0:
        waited_ns = context.frame.observed_at_ns - asked.answered_ns
        if waited_ns >= GRACE_NS:
            problem = f"{sender} cancelled {_named(asked)} {seconds(waited_ns)} after its answer"
            # The requirement is about what the sender believes, which cannot be observed.
            level = "info" if history.over_http else "warning"
            yield _violation(context, ANSWERED_REQUEST, problem, asked.seq, asked.answered_seq, at_most=level)
    elif asked is None and not history.over_http and not _may_be_known(history, sender, id):
        yield _never_used(context, history, id)


def _never_used(context: MessageContext, history: History, id: RequestId) -> Violation:
    problem = f"{context.sender} cancelled request {spelled(id)}, an id that it never used"
    twin = twin_of(id)
    if twin is not None and history.side(context.sender).used_ids.first_use(twin) is not None:
        problem = f"{problem}: it used {spelled(twin)}"
    broken = FOREIGN_REQUEST if is_stateless(context.candidates) else UNKNOWN_REQUEST
    return _violation(context, broken, problem)


def _may_be_known(history: History, asker: Sender, id: RequestId) -> bool:
    """Whether ``asker`` has used the id, or may have used it before the recording."""
    side = history.side(asker)
    if history.has_gap or history.may_lack_messages or not side.fully_read:
        return True
    return side.used_ids.first_use(id) is not None or side.refused_ids.first_use(id) is not None


def _is_task(asked: SentRequest, history: History) -> bool:
    """Whether a request is task-augmented: its answer was a task or, before that, the receiver declared tasks
    for it.
    """
    if asked.stateless or not isinstance(member(asked.params, "task"), dict):
        return False
    if asked.answered_seq:
        return any(task is asked for task in history.of(Cancellations).tasks)
    declared = history.capabilities(other(asked.sender))
    return declared is not None and declares(declared, f"tasks.requests.{asked.method.replace('/', '.')}")


def _named(asked: SentRequest) -> str:
    return f"{shortened(asked.method) or 'request'} ({spelled(asked.id)})"


def _violation(
    context: MessageContext,
    broken: tuple[str, str],
    problem: str,
    *related: int,
    at_most: Severity | None = None,
) -> Violation:
    return Violation(
        *broken, problem, pointer=context.at + "/params/requestId", related=related, at_most=at_most
    )


def unmatched(event: Signal | Close, history: History) -> Iterator[Violation]:
    """Report the cancellation of a request that was never sent (CANC-001), over HTTP.

    There the cancellation may overtake its request, so this is judged at the end.
    """
    if not isinstance(event, Close) or not history.over_http or history.stateless_memories is not None:
        return
    for found in history.of(Cancellations).seen.values():
        if found.asked is None and not _may_be_known(history, found.sender, found.id):
            problem = f"{found.sender} cancelled request {spelled(found.id)}, an id that it never used"
            yield Violation(
                *UNKNOWN_REQUEST, problem, pointer="/params/requestId", blame=found.sender, frame=found.seq
            )


def cancelled_over_http(
    exchange: HttpExchange, history: HttpHistory, frame: Frame | None
) -> Iterator[Violation]:
    """Report a cancellation sent over HTTP, where closing the stream cancels (CANC-009)."""
    body = exchange.body
    if body is not None and any(m.value.get("method") == METHOD for m in exchange.messages):
        problem = f"client sent {METHOD} over HTTP, where it cancels by closing the response stream"
        yield Violation("CANC-009", "R-114", problem, pointer="/method", frame=body.seq)


# Messages after the cancellation


def late_answer(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report an answer long after the cancellation (CANC-005)."""
    asked = context.answers
    if asked is None or not asked.cancelled:
        return ()
    return _late(context, history, asked, ("CANC-005", "R-110"), "answered", context.at + "/id")


def late_progress(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report progress long after the cancellation (CANC-010).

    Of the other messages none shows which request it belongs to.
    """
    token = request_id(member(context.message.value, "params", "progressToken"))
    known = None if token is None else history.of(ProgressTokens).tracked[other(context.sender)].get(token)
    if known is None or known.shared or not known.asked.cancelled or known.asked.answered_seq:
        return ()
    broken, pointer = ("CANC-010", "R-115"), context.at + "/params/progressToken"
    return _late(context, history, known.asked, broken, "reported progress of", pointer)


def _late(
    context: MessageContext,
    history: History,
    asked: SentRequest,
    broken: tuple[str, str],
    verb: str,
    pointer: str,
) -> Iterator[Violation]:
    found = history.of(Cancellations).seen.get((asked.sender, asked.id))
    if found is None or found.asked is not asked:
        return
    waited_ns = context.frame.observed_at_ns - found.at_ns
    cancellation_was_read = not history.over_http and history.side(asked.sender).last_answered_seq > found.seq
    if waited_ns >= (READ_NS if cancellation_was_read else GRACE_NS):
        problem = f"{context.sender} {verb} {_named(asked)} {seconds(waited_ns)} after it was cancelled"
        # Until 2025-11-25 the receiver may continue if its work cannot be cancelled.
        level = None if is_stateless(context.candidates) else "info"
        yield Violation(*broken, problem, pointer=pointer, related=(asked.seq, found.seq), at_most=level)


def given_up(event: Signal | Close, history: History) -> Iterator[Violation]:
    """RPC-008: the asker waited long, and then cancelled"""
    if not isinstance(event, Close) or history.has_gap or history.over_http:
        return
    for found in history.of(Cancellations).seen.values():
        asked = found.asked
        if asked is None or asked.answered_seq or not asked.method or asked.method == LISTEN:
            continue
        responder = other(asked.sender)
        waited_ns = found.at_ns - asked.sent_ns
        if waited_ns < GIVEN_UP_NS or found.sender != asked.sender or not history.side(responder).fully_read:
            continue
        if _is_task(asked, history) or (asked.stateless and history.stateful_seq is not None):
            continue  # A probe of the other era may stay unanswered.
        tokens = history.of(ProgressTokens).tracked[asked.sender].values()
        if any(token.asked is asked and token.latest is not None for token in tokens):
            continue  # It was at work.
        said = (
            f"{responder} did not answer {_named(asked)}, "
            f"which the {asked.sender} cancelled after {seconds(waited_ns)}"
        )
        yield Violation(
            "RPC-008",
            "R-010",
            said,
            related=(found.seq,),
            blame=responder,
            at_most="warning" if asked.method in QUICK else "info",
            frame=asked.seq,
            candidates=asked.candidates,
        )


def silent_end(event: Signal | Close, history: History) -> Iterator[Violation]:
    """Report a server that exits without ending an open subscription (CANC-008)."""
    if not isinstance(event, Close) or event.exit_code != 0 or history.has_gap or history.over_http:
        return
    ended_ns, left_ns = history.server.closed_ns, history.client.closed_ns
    if ended_ns is None or (left_ns is not None and left_ns <= ended_ns):
        return  # The client disconnected first, which ended its subscriptions.
    ended = history.of(Cancellations).seen
    for asked in history.client.pending.values():
        if asked.method == LISTEN and asked.stateless and (CLIENT, asked.id) not in ended:
            problem = f"server exited without ending {_named(asked)}, a subscription that was still open"
            yield Violation(
                "CANC-008",
                "R-113",
                problem,
                pointer=None,
                blame="server",
                at_most="info",
                frame=asked.seq,
                candidates=asked.candidates,
            )


# What is recorded


def remember_answer(context: MessageContext, history: History) -> None:
    """Record a request that was answered with a task."""
    asked = context.answers
    if asked is None or not isinstance(asked.params, dict) or "task" not in asked.params:
        return
    if isinstance(member(context.message.value, "result", "task"), dict):
        history.of(Cancellations).tasks.append(asked)


def remember_cancellation(context: MessageContext, history: History) -> None:
    """Record a cancellation and its time. A server may cancel a subscription of the client."""
    id, sender = request_id(member(context.message.value, "params", "requestId")), context.sender
    if id is None:
        return
    asked = history.pending(sender, id)
    if asked is None and sender == SERVER:
        subscription = history.pending(CLIENT, id)
        asked = subscription if subscription is not None and subscription.method == LISTEN else None
    found = Cancelled(asked, sender, id, context.seq, context.frame.observed_at_ns)
    asker = sender if asked is None else asked.sender
    keep_latest(history.of(Cancellations).seen, (asker, id), found, MAX_REMEMBERED)


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
    http=(HttpCheck(("CANC-009",), cancelled_over_http, ("request",), STATELESS, ("POST",)),),
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
