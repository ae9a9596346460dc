"""Subscriptions: the streams of notifications that a client opens with the stateless request
subscriptions/listen.

The request has a *filter*, the member ``notifications``, which says which notifications the client wants. A
subscription has the id of the request that opened it. Each of its messages repeats that id in ``_meta``. On
stdio all subscriptions share one pipe, so only the id shows to which of them a message belongs. Over HTTP
each subscription has a stream of its own, and the history of an exchange contains only that subscription.

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from mcpproxy.judge.checks.basic.unanswered import ANSWER_TIMEOUT_NS
from mcpproxy.judge.checks.engine.context import GRACE_NS, MessageContext, Violation, shortened, spelled
from mcpproxy.judge.checks.engine.rows import STATELESS, Check, EventCheck, HttpCheck, RuleFamily, StateUpdate
from mcpproxy.judge.session.exchanges import HttpExchange, HttpHistory
from mcpproxy.judge.session.frame import SERVER, Close, Frame, Severity, Signal
from mcpproxy.judge.session.history import History
from mcpproxy.judge.session.subscriptions import Subscription, Subscriptions
from mcpproxy.protocol import revisions
from mcpproxy.protocol.jsonrpc import (
    JSON,
    Notification,
    Request,
    RequestId,
    Response,
    request_id,
)
from mcpproxy.protocol.message_parts import as_object, member, well_formed
from mcpproxy.protocol.meta_keys import SUBSCRIPTION_ID_KEY
from mcpproxy.protocol.methods import ACKNOWLEDGED, LISTEN
from mcpproxy.protocol.wording import shown, token

WANTED_BY: Final[Mapping[str, str]] = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
    "notifications/resources/updated": "resourceSubscriptions",
}
"""Notifications that are sent only on subscriptions, and the filter member that requests each."""

LIST_MEMBERS: Final = ("resourceSubscriptions", "taskIds")
"""The filter members that are lists; the others are booleans."""

REQUEST_SCOPED: Final = ("notifications/progress", "notifications/message")
"""Notifications about one request, which are not allowed on a subscription."""


# State updates


def remember_listen(context: MessageContext[Request], history: History) -> None:
    """Record the subscription that a request opens."""
    subscriptions, message = history.of(Subscriptions), context.message
    if context.asked is None:
        subscriptions.forgot_some = True
    else:
        subscriptions.add(Subscription(context.asked, as_object(member(message.params, "notifications"))))


def remember_delivery(context: MessageContext[Notification], history: History) -> None:
    """Record a notification on a subscription."""
    subscription = subscription_of(context, history)
    if subscription is None:
        return
    subscription.begun = True
    message = context.message
    if message.method == ACKNOWLEDGED:
        subscription.acknowledged = as_object(member(message.params, "notifications"))
        history.of(Subscriptions).modern = True


def remember_cancellation(context: MessageContext, history: History) -> None:
    """Record that either side has cancelled a subscription."""
    id = request_id(_param(context, "requestId"))
    subscription = history.of(Subscriptions).by_id.get(id) if id is not None else None
    if subscription is None:
        return
    if context.sender == SERVER:
        subscription.closed_seq = subscription.closed_seq or context.seq  # also sets ``ended_seq``
    elif subscription.cancelled_ns is None:
        subscription.cancelled_ns = context.frame.observed_at_ns


def remember_modern_server(context: MessageContext[Response], history: History) -> None:
    """Record that the server supports a stateless revision, as a result with a type shows."""
    if context.stateless and member(context.message.result, "resultType") is not None:
        history.of(Subscriptions).modern = True


def subscription_of(context: MessageContext, history: History) -> Subscription | None:
    """Return the subscription of a notification: its subscription id shows it or, over HTTP, its stream.

    The result is ``None`` if the client sent the notification, or if no subscription is known for it.
    """
    if context.sender != SERVER:
        return None
    by_id = history.of(Subscriptions).by_id
    if history.over_http and len(by_id) == 1:
        return next(iter(by_id.values()))
    id = request_id(_subscription_id(context))
    return by_id.get(id) if id is not None else None


def _subscription_id(context: MessageContext) -> JSON:
    return _param(context, "_meta", SUBSCRIPTION_ID_KEY)


def _param(context: MessageContext, *names: str) -> JSON:
    message = context.message
    return member(message.params, *names) if isinstance(message, Notification) else None


# The beginning and the end of a subscription


def json_answer(exchange: HttpExchange, history: HttpHistory, frame: Frame) -> Iterator[Violation]:
    """Report a result of subscriptions/listen that is a body instead of an event (SUB-002)."""
    if (
        exchange.response_is_sse
        or not exchange.succeeded
        or [r.method for r in exchange.requests] != [LISTEN]
    ):
        return
    if any(isinstance(message, Response) for message in well_formed(frame.message)):
        problem = "server answered subscriptions/listen with a JSON body instead of an event stream"
        yield Violation("SUB-002", "R-244", problem, related=(exchange.request.seq,))


def unacknowledged(context: MessageContext[Notification], history: History) -> Iterable[Violation]:
    """Report a notification on a subscription that was not acknowledged yet (SUB-003)."""
    subscription = subscription_of(context, history)
    if subscription is None or subscription.begun or subscription.ended_seq:
        return ()
    message = context.message
    problem = f"server sent {message.method} on {_name(subscription)} before acknowledging it"
    return (_violation(subscription, ("SUB-003", "R-245"), problem, context.at + "/method"),)


def closing_response(context: MessageContext[Response], history: History) -> Iterator[Violation]:
    """Report the end of a subscription that was never acknowledged, or with a wrong id (SUB-003, SUB-006)."""
    request, message = context.answers, context.message
    subscription = history.of(Subscriptions).by_id.get(request.id) if request is not None else None
    if (
        subscription is None
        or subscription.asked is not request
        or (context.frame.exchange and not context.frame.event)
    ):
        return  # Over HTTP, an answer that is not an SSE stream opens no subscription: SUB-002 reports it.
    if not subscription.begun:
        problem = f"server closed {_name(subscription)} without having acknowledged it"
        yield _violation(subscription, ("SUB-003", "R-245"), problem, context.at)
    sent_id = member(message.result, "_meta", SUBSCRIPTION_ID_KEY)
    if request_id(sent_id) is not None and not _is_same_id(sent_id, subscription.asked.id):
        problem = f"server closed {_name(subscription)} under the id {_spelled(sent_id)}"
        yield _violation(
            subscription,
            ("SUB-006", "R-248"),
            problem,
            context.at + "/result/_meta" + token(SUBSCRIPTION_ID_KEY),
        )


def never_acknowledged(event: Signal | Close, history: History) -> Iterator[Violation]:
    """Report a subscription on stdio that was neither acknowledged nor refused in time, although later
    requests were answered (SUB-003).
    """
    if not isinstance(event, Close) or event.ending == "cut" or history.has_gap or history.over_http:
        return
    if history.stateful_seq is not None or not history.server.fully_read:
        return  # A server that knows revisions with a handshake may ignore the request.
    for subscription in history.of(Subscriptions).by_id.values():
        request = subscription.asked
        # ``answers_due`` is 0 after the answer, and above 1 if another request has the same id.
        if subscription.begun or subscription.ended_seq or request.cancelled or request.answers_due != 1:
            continue
        is_overdue = event.observed_at_ns - request.sent_ns >= ANSWER_TIMEOUT_NS
        if is_overdue and request.seq < history.client.last_answered_seq:
            problem = f"server never acknowledged {_name(subscription)}, but answered later requests"
            yield Violation(
                "SUB-003",
                "R-245",
                problem,
                blame=SERVER,
                frame=request.seq,
                candidates=request.candidates,
            )


def filter_beyond_request(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report an acknowledgement of notifications that the subscription did not ask for (SUB-004)."""
    subscription = subscription_of(context, history)
    acknowledged = as_object(_param(context, "notifications"))
    if subscription is None or acknowledged is None or subscription.wanted is None:
        return
    requested_filter = subscription.wanted
    pointer = context.at + "/params/notifications/"
    for name in WANTED_BY.values():
        if (
            name not in LIST_MEMBERS
            and acknowledged.get(name) is True
            and requested_filter.get(name) in (None, False)
        ):
            problem = f"server acknowledged {name}, which {_name(subscription)} did not ask for"
            yield _violation(subscription, ("SUB-004", "R-246"), problem, pointer + name)
    for name in LIST_MEMBERS:
        asked_for = {normalized_uri(item) for item in _texts(requested_filter.get(name))}
        for item in _texts(acknowledged.get(name)):
            if normalized_uri(item) not in asked_for:
                problem = (
                    f"server acknowledged {shortened(item)}, which {_name(subscription)} did not ask for"
                )
                yield _violation(subscription, ("SUB-004", "R-246"), problem, pointer + name)
                break


# Notifications


def unrequested_type(context: MessageContext[Notification], history: History) -> Iterator[Violation]:
    """Report a notification of a type that its subscription did not ask for, or that the server did not
    acknowledge (SUB-005).
    """
    subscription, message = subscription_of(context, history), context.message
    if subscription is None or subscription.wanted is None or subscription.ended_seq:
        return
    name = WANTED_BY[message.method]
    if subscription.wanted.get(name) in (None, False, []):
        problem = f"server sent {message.method} on {_name(subscription)}, which did not ask for it"
        yield _violation(subscription, ("SUB-005", "R-247"), problem, context.at + "/method")
    elif subscription.acknowledged is not None and subscription.acknowledged.get(name) in (None, False, []):
        problem = f"server sent {message.method} on {_name(subscription)}, whose acknowledgement lacks it"
        yield _violation(
            subscription, ("SUB-005", "R-247"), problem, context.at + "/method", at_most="warning"
        )


def wrong_subscription_id(context: MessageContext[Notification], history: History) -> Iterable[Violation]:
    """Report a notification whose subscription id is missing or wrong (SUB-006)."""
    if context.sender != SERVER or history.has_gap:
        return ()
    subscriptions, sent_id = history.of(Subscriptions), _subscription_id(context)
    message, subscription = context.message, subscription_of(context, history)
    if subscription is not None and _is_same_id(sent_id, subscription.asked.id):
        return ()
    if subscriptions.forgot_some or not history.client.fully_read or _is_imprecise(sent_id):
        return ()
    if subscription is None and (history.over_http or (sent_id is None and message.method != ACKNOWLEDGED)):
        return ()  # The notification is not on a subscription: SUB-007 reports it.
    pointer = context.at + "/params/_meta" + token(SUBSCRIPTION_ID_KEY)
    sent = f"server sent {message.method}"
    meant_subscription = subscription or subscriptions.retyped(sent_id)
    if sent_id is None:
        problem = f"{sent} without the id of its subscription"
    elif meant_subscription is not None:
        expected_id = spelled(meant_subscription.asked.id)
        problem = f"{sent} under the id {_spelled(sent_id)}; the subscription has {expected_id}"
    else:
        problem = f"{sent} under the id {_spelled(sent_id)}, which no subscription has"
    return (_violation(meant_subscription, ("SUB-006", "R-248"), problem, pointer),)


def without_subscription(context: MessageContext[Notification], history: History) -> Iterable[Violation]:
    """Report a notification outside of any subscription, on stdio (SUB-007)."""
    if context.sender != SERVER or history.over_http or _subscription_id(context) is not None:
        return ()
    answer = history.modern_answer
    if not history.of(Subscriptions).modern and not (answer and answer.stateless_versions):
        return ()  # The server may only know revisions with a handshake, which need no subscription.
    message = context.message
    problem = f"server sent {message.method} outside of any subscription"
    return (Violation("SUB-007", "R-249", problem, pointer=context.at + "/method"),)


def on_other_stream(exchange: HttpExchange, history: HttpHistory, frame: Frame) -> Iterator[Violation]:
    """Report a notification on the stream of another request, over HTTP (SUB-007).

    Only servers that have shown that they support a stateless revision are judged.
    """
    if exchange.server not in history.modern_servers or not exchange.requests:
        return
    method = exchange.requests[0].method
    if method == LISTEN:
        return
    for message in well_formed(frame.message):
        if isinstance(message, Notification) and message.method in WANTED_BY:
            problem = f"server sent {message.method} on the stream of {shortened(method)}"
            yield Violation("SUB-007", "R-249", problem, pointer="/method", related=(exchange.request.seq,))


def message_of_request(context: MessageContext[Notification], history: History) -> Iterable[Violation]:
    """Report progress or a log message on a subscription, because both belong to other requests (SUB-008)."""
    message = context.message
    meta = member(message.params, "_meta")
    has_id = isinstance(meta, dict) and SUBSCRIPTION_ID_KEY in meta
    if not has_id and history.stateless_memories is None:  # On stdio only the id shows the subscription.
        return ()
    subscription = subscription_of(context, history)
    if subscription is None and not has_id:
        return ()
    if context.sender != SERVER:
        return ()
    is_answered = subscription is not None and bool(subscription.asked.answered_seq)
    if message.method == "notifications/message" and is_answered and not has_id:
        return ()  # LOG-006 reports it: the log message comes after the response to its request.
    progress_token = member(message.params, "progressToken")
    if (
        subscription is not None
        and progress_token is not None
        and progress_token == member(subscription.asked.params, "_meta", "progressToken")
    ):
        return ()  # This is the progress of the subscription itself, which nothing forbids.
    where = _name(subscription) if subscription is not None else "a subscription"
    problem = f"server sent {message.method} on {where}"
    return (_violation(subscription, ("SUB-008", "R-250"), problem, context.at + "/method"),)


def after_the_end(context: MessageContext[Notification], history: History) -> Iterable[Violation]:
    """Report a notification on a subscription that is over, on stdio (SUB-010)."""
    subscription = None if history.over_http else subscription_of(context, history)
    if subscription is None:
        return ()
    message = context.message
    now_ns = context.frame.observed_at_ns
    since_ns = now_ns - subscription.cancelled_ns if subscription.cancelled_ns is not None else 0
    if subscription.ended_seq:
        end_seq, when = subscription.ended_seq, "after its end"
    elif since_ns >= GRACE_NS:
        end_seq, when = subscription.asked.seq, f"{since_ns / 1e9:.0f} s after the client had cancelled it"
    else:
        return ()
    problem = f"server sent {message.method} on {_name(subscription)} {when}"
    return (
        Violation(
            "SUB-010",
            "R-252",
            problem,
            pointer=context.at,
            related=(end_seq,),
            candidates=subscription.asked.candidates,
        ),
    )


# Helpers


def _violation(
    subscription: Subscription | None,
    rule: tuple[str, str],
    problem: str,
    pointer: str,
    at_most: Severity | None = None,
) -> Violation:
    """Return a violation in a message of ``subscription``, judged by the revision that its request names."""
    if subscription is None:
        return Violation(*rule, problem, pointer=pointer, at_most=at_most)
    return Violation(
        *rule,
        problem,
        pointer=pointer,
        related=(subscription.asked.seq,),
        at_most=at_most,
        candidates=subscription.asked.candidates,
    )


def _name(subscription: Subscription) -> str:
    return f"subscription {spelled(subscription.asked.id)}"


def _is_same_id(sent_id: JSON, id: RequestId) -> bool:
    """Whether ``sent_id`` may be this id, with the same JSON type."""
    parsed_id = request_id(sent_id)
    is_equal = parsed_id == id and type(parsed_id) is type(id)
    return is_equal or (_is_imprecise(sent_id) and isinstance(id, int))


def _is_imprecise(sent_id: JSON) -> bool:
    """Whether an id is a float so large that the integer which the sender wrote is unknown."""
    return isinstance(sent_id, float) and abs(sent_id) >= 2**53


def _spelled(sent_id: JSON) -> str:
    return shown(sent_id) if request_id(sent_id) is None else spelled(request_id(sent_id))


def _texts(value: JSON) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def normalized_uri(uri: str) -> str:
    """Return a URI in a normal form, because a server may repeat it in another spelling."""
    from urllib.parse import unquote  # imported here: it takes 3 ms, and few sessions need it

    return unquote(uri).rstrip("/").lower()


DELIVERED: Final = (*WANTED_BY, ACKNOWLEDGED, "notifications/tasks")
"""Notifications that may belong to a subscription."""

TYPED_RESULTS: Final = ("server/discover", "tools/list", "prompts/list", "resources/list")
"""Frequent requests whose results show by their type that the server supports a stateless revision."""

FAMILY: Final = RuleFamily(
    checks=(
        Check(("SUB-006",), wrong_subscription_id, (Notification,), DELIVERED),
        Check(
            ("SUB-003",),
            unacknowledged,
            (Notification,),
            (*WANTED_BY, "notifications/tasks"),
            within=revisions.STATELESS,
        ),
        Check(("SUB-003", "SUB-006"), closing_response, (Response,), (LISTEN,)),
        Check(("SUB-004",), filter_beyond_request, (Notification,), (ACKNOWLEDGED,)),
        Check(("SUB-005",), unrequested_type, (Notification,), tuple(WANTED_BY), within=revisions.STATELESS),
        Check(
            ("SUB-007",), without_subscription, (Notification,), tuple(WANTED_BY), within=revisions.STATELESS
        ),
        Check(("SUB-008",), message_of_request, (Notification,), REQUEST_SCOPED, within=revisions.STATELESS),
        Check(("SUB-010",), after_the_end, (Notification,), DELIVERED),
    ),
    http=(
        HttpCheck(("SUB-002",), json_answer, ("body",), STATELESS, ("POST",)),
        HttpCheck(("SUB-007",), on_other_stream, ("event",), STATELESS, ("POST",)),
    ),
    events=(EventCheck(("SUB-003",), never_acknowledged),),
    updates=(
        StateUpdate(remember_listen, (Request,), (LISTEN,)),
        StateUpdate(remember_delivery, (Notification,), DELIVERED),
        StateUpdate(remember_cancellation, (Notification,), ("notifications/cancelled",)),
        StateUpdate(remember_modern_server, (Response,), TYPED_RESULTS),
    ),
)
