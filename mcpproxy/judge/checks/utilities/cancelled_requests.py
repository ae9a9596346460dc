"""The latest requests that were cancelled, and those that became tasks.

A request is identified by its sender and its id. In the stateless revisions a server sends no requests, but
it may end a subscription of the client by a cancellation.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation
"""

from collections import deque
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.checks.engine.context import MessageContext, shortened, spelled
from mcpproxy.judge.session.exchanges import HttpExchange, HttpHistory
from mcpproxy.judge.session.frame import CLIENT, SERVER, Sender
from mcpproxy.judge.session.history import History, SentRequest, keep_latest
from mcpproxy.judge.session.task_table import declares_tasks
from mcpproxy.protocol.jsonrpc import RequestId, request_id
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.methods import LISTEN

METHOD: Final = "notifications/cancelled"

_MOST_REMEMBERED: Final = 1024
"""The number of tasks, and the number of cancellations, that are remembered."""


@slotted(frozen=True)
class Cancelled:
    """A cancellation.

    ``request`` is the request that was cancelled, ``None`` if it is unknown, and ``id`` its id. ``sender``,
    ``seq`` and ``cancelled_ns`` are the sender, the frame and the time of the cancellation.
    """

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

    tasks: deque[SentRequest] = field(default_factory=lambda: deque[SentRequest](maxlen=_MOST_REMEMBERED))
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


def is_task(request: SentRequest, history: History) -> bool:
    """Whether a request became a task.

    While a request is unanswered, that is taken to be so if it asks for a task and the receiver declared
    tasks for its method.
    """
    if request.stateless or not isinstance(member(request.params, "task"), dict):
        return False
    if request.answered_seq:
        return any(task is request for task in history.of(Cancellations).tasks)
    return declares_tasks(request.sender, request.method, history)


def name_of(request: SentRequest) -> str:
    """Return the method and the id of a request, for the text of a finding.

    If the method is not certain (see ``SentRequest``), the text has the word ``request`` instead.
    """
    return f"{shortened(request.method) or 'request'} ({spelled(request.id)})"


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
    keep_latest(history.of(Cancellations).by_request, (requestor, id), cancelled, _MOST_REMEMBERED)


def cancelled_initialize(exchange: HttpExchange, history: HttpHistory) -> tuple[SentRequest, History] | None:
    """Return the initialize that this exchange, without a known session, cancels; ``None`` if there is none.

    With it comes the history of the session that the initialize opens. There is no session id yet, so it is
    certain which initialize is meant only if no other one is under way.
    """
    session = exchange.session
    if session is None or not session.joined_late or session.id is not None:
        return None
    if history.has_gap or history.by_connection or len(history.initializing) != 1:
        return None
    (opening,) = history.initializing.values()
    if (initialize := opening.judge.history.initialize) is None:
        return None
    for message in exchange.messages:
        id = request_id(member(message.value, "params", "requestId"))
        if message.value.get("method") == METHOD and id == initialize.id:
            return initialize, opening.judge.history
    return None


def remember_cancelled_initialize(exchange: HttpExchange, history: HttpHistory) -> None:
    """If this exchange cancels an initialize, record that in the session that the initialize opens."""
    if (cancelled := cancelled_initialize(exchange, history)) is not None:
        (initialize, opening), by = cancelled, exchange.request
        opening.of(Cancellations).by_request[CLIENT, initialize.id] = Cancelled(
            initialize, CLIENT, initialize.id, by.seq, by.observed_at_ns
        )
