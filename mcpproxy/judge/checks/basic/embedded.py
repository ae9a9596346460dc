"""Requests of a server to a client, and their results, in all revisions.

In the revisions with a handshake, each is a message of its own. From 2026-07-28 on, the requests are entries
of ``inputRequests`` in a result of the server, and the results are entries of ``inputResponses`` when the
client retries its request. An ``Ask`` is such a request and a ``Reply`` such a result in either form, so that
one check is enough for both. The rows of a check name the messages that may contain them (``ASK_CARRIERS``,
``REPLY_CARRIERS``).

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.rows import Check, CheckFunction, StateUpdate
from mcpproxy.judge.session.frame import SERVER
from mcpproxy.judge.session.history import History, SentRequest
from mcpproxy.protocol.jsonrpc import ABSENT, JSON, Absent, JSONObject, Request, Response
from mcpproxy.protocol.message_parts import as_object, member, target_of
from mcpproxy.protocol.revisions import STATELESS
from mcpproxy.protocol.wording import token

ASK_CARRIERS: Final = ("tools/call", "prompts/get", "resources/read", "tasks/get")
"""Requests whose result may contain input requests. The tasks extension defines the last one."""

REPLY_CARRIERS: Final = ("tools/call", "prompts/get", "resources/read", "tasks/update")
"""Requests that may contain input responses."""

ASKED_BY: Final[Mapping[str, str]] = {"tasks/update": "tasks/get"}
"""For a method with input responses: the method whose result asked for the input, if the two differ."""

INPUT_REQUESTS: Final = ("inputRequests",)
"""The member of a result that contains input requests."""

INPUT_RESPONSES: Final = ("inputResponses",)
"""The member of a request's params that contains input responses."""

METHOD_BY_MEMBER: Final[Mapping[str, str]] = {
    "action": "elicitation/create",
    "roots": "roots/list",
    "model": "sampling/createMessage",
}
"""The member of a client's result that shows which method the result answers."""

MAX_ROUNDS: Final = 128
"""The number of results with input requests that are remembered."""


@slotted(frozen=True)
class Ask:
    """A request of the server to the client.

    ``at`` is the JSON Pointer of the object with the method and the params, ``seq`` the number of its frame.
    ``key`` is the name of an entry of ``inputRequests``, and empty for a request that is a message of its
    own. If such a message is the ``ask`` of a ``Reply``, ``at`` is empty even if the message is in a batch.
    """

    method: str
    params: "JSON | Absent"
    at: str
    seq: int
    key: str = ""


@slotted(frozen=True)
class Reply:
    """The client's result for one request of the server. ``at`` is the JSON Pointer of the result.

    ``ask`` is the request, ``None`` if it is not known. The ``method`` of an entry of ``inputResponses`` is
    derived from the members of the entry.
    """

    method: str
    result: JSONObject
    at: str
    ask: Ask | None


@slotted(frozen=True)
class InputResult:
    """A result of the server with input requests.

    ``request`` is the request that the result answered, and ``asks`` are the input requests by key. ``state``
    is the ``requestState`` of the result, which the retried request repeats. ``caller`` is ``History.caller``
    of the client. ``seq`` is the frame of the result.
    """

    request: SentRequest
    caller: str
    asks: Mapping[str, Ask]
    state: JSON
    seq: int


@slotted()
class InputResults:
    """The latest results with input requests."""

    latest: deque[InputResult] = field(default_factory=lambda: deque[InputResult](maxlen=MAX_ROUNDS))


def may_ask(context: MessageContext) -> bool:
    """Whether a message may contain an ``Ask``: a request, or a stateless result with ``inputRequests``."""
    message = context.message
    if isinstance(message, Response):
        return context.stateless and isinstance(message.result, dict) and "inputRequests" in message.result
    return isinstance(message, Request)


def asks(context: MessageContext) -> Iterator[Ask]:
    """Yield the requests to the client in this message of the server."""
    message = context.message
    if isinstance(message, Request):
        if context.sender == SERVER:
            yield Ask(message.method, message.params, context.at, context.seq)
    elif isinstance(message, Response) and context.stateless:
        for key, entry in (as_object(member(message.result, "inputRequests")) or {}).items():
            method = member(entry, "method")
            if isinstance(entry, dict) and isinstance(method, str):
                pointer = f"{context.at}/result/inputRequests{token(key)}"
                yield Ask(method, entry.get("params", ABSENT), pointer, context.seq, key)


def replies(context: MessageContext, history: History) -> Iterator[Reply]:
    """Yield the results for the server in this message of the client.

    An input response is left out if its members do not show its method, or show another than was requested.
    """
    message, request = context.message, context.answers
    if isinstance(message, Response):
        if request is not None and request.sender == SERVER and isinstance(message.result, dict):
            if "task" in message.result and member(request.params, "task") is not None:
                return  # This only creates a task; the result itself is fetched later.
            ask = Ask(request.method, request.params, "", request.seq)
            yield Reply(request.method, message.result, context.at + "/result", ask)
    elif isinstance(message, Request) and context.stateless:
        responses = as_object(member(message.params, "inputResponses")) or {}
        for key, result in responses.items():
            if isinstance(result, dict) and (method := method_shown_by(result)):
                ask = _input_request(message, key, history)
                if ask is None or ask.method == method:
                    yield Reply(method, result, f"{context.at}/params/inputResponses{token(key)}", ask)


def method_shown_by(result: JSON) -> str:
    """Return the method that a result answers, as its members show; empty if they do not show one method."""
    methods = [
        method for name, method in METHOD_BY_MEMBER.items() if isinstance(result, dict) and name in result
    ]
    return methods[0] if len(methods) == 1 else ""


def results_continued_by(request: Request, history: History) -> tuple[InputResult, ...]:
    """Return the earlier results that ``request`` may continue, oldest first.

    Such a result answered a request of the same caller for the same method (see ``ASKED_BY``) and the same
    tool, prompt, resource or task, and has the ``requestState`` that ``request`` repeats; or neither has one.
    """
    state, target = member(request.params, "requestState"), _target(request)
    return tuple(
        earlier
        for earlier in history.across_requests(InputResults).latest
        if earlier.caller == history.caller
        and earlier.request.method == (ASKED_BY.get(request.method) or request.method)
        and _target(earlier.request) == target
        and earlier.state == state
    )


def _target(request: Request | SentRequest) -> tuple[str | None, JSON]:
    """Return what a request is about: the tool, prompt or resource, and the task."""
    return target_of(request.method, request.params), member(request.params, "taskId")


def _input_request(request: Request, key: str, history: History) -> Ask | None:
    """Return the input request with this key; ``None`` if there is none, or if several of them differ."""
    asks = [earlier.asks[key] for earlier in results_continued_by(request, history) if key in earlier.asks]
    are_same = all((ask.method, ask.params) == (asks[0].method, asks[0].params) for ask in asks)
    return asks[-1] if asks and are_same else None


def _remember_input_requests(context: MessageContext, history: History) -> None:
    """Record a result with input requests."""
    message, request = context.message, context.answers
    if request is not None and isinstance(message, Response) and may_ask(context):
        by_key = {ask.key: ask for ask in asks(context)}
        state = member(message.result, "requestState")
        history.across_requests(InputResults).latest.append(
            InputResult(request, history.caller, by_key, state, context.seq)
        )


UPDATES: Final = (
    StateUpdate(
        _remember_input_requests, (Response,), ASK_CARRIERS, within=STATELESS, members=INPUT_REQUESTS
    ),
)
"""The state update that ``results_continued_by`` and ``replies`` need; one family has it in its rows."""

AskCheck: TypeAlias = Callable[[Ask, MessageContext, History], Iterable[Violation]]
ReplyCheck: TypeAlias = Callable[[Reply, MessageContext, History], Iterable[Violation]]
"""Checks of one ``Ask`` or ``Reply``, with the context of the message that contains it."""


def check_asks(
    context: MessageContext, history: History, method: str, checks: Iterable[AskCheck]
) -> Iterable[Violation]:
    """Yield the violations that ``checks`` find in each request for ``method`` in a message."""
    if not may_ask(context):
        return ()
    return (
        violation
        for ask in asks(context)
        if ask.method == method
        for check in checks
        for violation in check(ask, context, history)
    )


def rows_for_both_eras(
    methods: tuple[str, ...],
    request_check: tuple[tuple[str, ...], CheckFunction],
    result_check: tuple[tuple[str, ...], CheckFunction],
) -> tuple[Check, ...]:
    """Return the rows that call a check for each ``Ask`` and another for each ``Reply``, in all revisions.

    ``methods`` are the methods that servers request. ``request_check`` and ``result_check`` each have the
    codes of the rules, and the check function.
    """
    return (
        Check(*request_check, ("request",), methods),
        Check(*request_check, ("response",), ASK_CARRIERS, within=STATELESS, members=INPUT_REQUESTS),
        Check(*result_check, ("response",), methods),
        Check(*result_check, ("request",), REPLY_CARRIERS, within=STATELESS, members=INPUT_RESPONSES),
    )


def check_replies(
    context: MessageContext, history: History, method: str, checks: Iterable[ReplyCheck]
) -> Iterable[Violation]:
    """Yield the violations that ``checks`` find in each result for ``method`` in a message."""
    if isinstance(context.message, Request) and not context.stateless:
        return ()
    return (
        violation
        for reply in replies(context, history)
        if reply.method == method
        for check in checks
        for violation in check(reply, context, history)
    )
