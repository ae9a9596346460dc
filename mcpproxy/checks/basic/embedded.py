"""Requests of a server to a client and their results, in both eras.

In the stateful revisions they are separate messages. From 2026-07-28 on the requests are entries of a
result's ``inputRequests``, and the results are entries of ``inputResponses`` in the retried request. An
``Ask`` or a ``Reply`` is the same in both eras, so one check serves both. The rows of a family name the
messages that may contain them (``ASK_CARRIERS``, ``REPLY_CARRIERS``).

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from mcpproxy.base.slotted import field, slotted
from mcpproxy.checks.engine.context import MessageContext, Violation, as_object, member
from mcpproxy.checks.engine.rows import Check, CheckFunction, StateUpdate
from mcpproxy.protocol.jsonrpc import ABSENT, JSON, Absent, JSONObject, Request, Response
from mcpproxy.protocol.revisions import STATELESS
from mcpproxy.protocol.wording import token
from mcpproxy.session.frame import SERVER
from mcpproxy.session.history import History, SentRequest

ASK_CARRIERS: Final = ("tools/call", "prompts/get", "resources/read", "tasks/get")
"""Requests whose result may ask for input; an extension defines the last one."""

REPLY_CARRIERS: Final = ("tools/call", "prompts/get", "resources/read", "tasks/update")
"""Requests that may carry the requested input."""

POLLED_BY: Final[Mapping[str, str]] = {"tasks/update": "tasks/get"}
"""For a request that carries input: the method whose result asked for that input, where it is another."""

INPUT_REQUESTS: Final = ("inputRequests",)
INPUT_RESPONSES: Final = ("inputResponses",)
"""The member of a message that carries input requests or responses."""

METHOD_BY_MEMBER: Final[Mapping[str, str]] = {
    "action": "elicitation/create",
    "roots": "roots/list",
    "model": "sampling/createMessage",
}
"""The member of a result that shows which method it answers."""

MAX_ROUNDS: Final = 128
"""The number of results asking for input that are remembered."""


@slotted(frozen=True)
class Ask:
    """A request of the server: method, params, the JSON Pointer of the object that holds both, and its frame.

    ``key`` is its name among the requests of one result, or empty if the request is a message of its own.
    """

    method: str
    params: "JSON | Absent"
    at: str
    seq: int
    key: str = ""


@slotted(frozen=True)
class Reply:
    """The client's result for one request, with the JSON Pointer of the result.

    ``ask`` is the request, ``None`` if it is not known; ``method`` is then derived from the result. A result
    whose method cannot be derived is not a reply.
    """

    method: str
    result: JSONObject
    at: str
    ask: Ask | None


@slotted(frozen=True)
class InputResult:
    """A result that asked for input: the request it answered, its input requests by key, and its state.

    ``caller`` identifies the client over HTTP.
    """

    first: SentRequest
    caller: str
    asks: Mapping[str, Ask]
    state: JSON
    seq: int


@slotted()
class InputResults:
    """The latest results that asked for input."""

    latest: deque[InputResult] = field(default_factory=lambda: deque[InputResult](maxlen=MAX_ROUNDS))


def may_ask(context: MessageContext) -> bool:
    """Whether a message may ask the client for input: any request, or a result with input requests."""
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
    """Yield the results for the server in this message of the client."""
    message, request = context.message, context.answers
    if isinstance(message, Response):
        if request is not None and request.sender == SERVER and isinstance(message.result, dict):
            if "task" in message.result and member(request.params, "task") is not None:
                return  # This only creates a task; the result itself is fetched later.
            ask = Ask(request.method, request.params, "", request.seq)
            yield Reply(request.method, message.result, context.at + "/result", ask)
    elif isinstance(message, Request) and context.stateless:
        given = as_object(member(message.params, "inputResponses")) or {}
        for key, result in given.items():
            if isinstance(result, dict) and (method := method_shown_by(result)):
                ask = _ask_of(message, key, history)
                if ask is None or ask.method == method:
                    yield Reply(method, result, f"{context.at}/params/inputResponses{token(key)}", ask)


def method_shown_by(result: JSON) -> str:
    """Return the method that a result answers, as its members show; empty if they do not agree on one."""
    shown = [
        method for name, method in METHOD_BY_MEMBER.items() if isinstance(result, dict) and name in result
    ]
    return shown[0] if len(shown) == 1 else ""


def rounds_before(request: Request, history: History) -> tuple[InputResult, ...]:
    """Return the earlier results that ``request`` may continue, oldest first.

    They answered the same method with the same tool, prompt or resource, and gave the state that the request
    repeats; or both have no state.
    """
    state, about = member(request.params, "requestState"), _about(request.params)
    return tuple(
        earlier
        for earlier in history.across_requests(InputResults).latest
        if earlier.caller == history.caller
        and earlier.first.method == (POLLED_BY.get(request.method) or request.method)
        and _about(earlier.first.params) == about
        and earlier.state == state
    )


def _about(params: "JSON | Absent") -> tuple[JSON, ...]:
    return tuple(member(params, name) for name in ("name", "uri", "taskId"))


def _ask_of(request: Request, key: str, history: History) -> Ask | None:
    """Return what was requested under ``key``; ``None`` if earlier results requested different things."""
    found = [earlier.asks[key] for earlier in rounds_before(request, history) if key in earlier.asks]
    same = all((ask.method, ask.params) == (found[0].method, found[0].params) for ask in found)
    return found[-1] if found and same else None


def _remember_round(context: MessageContext, history: History) -> None:
    """Record a result that asked for input."""
    message, request = context.message, context.answers
    if request is not None and isinstance(message, Response) and may_ask(context):
        by_key = {ask.key: ask for ask in asks(context)}
        state = member(message.result, "requestState")
        history.across_requests(InputResults).latest.append(
            InputResult(request, history.caller, by_key, state, context.seq)
        )


UPDATES: Final = (
    StateUpdate(_remember_round, (Response,), ASK_CARRIERS, within=STATELESS, members=INPUT_REQUESTS),
)

AskCheck: TypeAlias = Callable[[Ask, MessageContext, History], Iterable[Violation]]
ReplyCheck: TypeAlias = Callable[[Reply, MessageContext, History], Iterable[Violation]]


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
    of_requests: tuple[tuple[str, ...], CheckFunction],
    of_results: tuple[tuple[str, ...], CheckFunction],
) -> tuple[Check, ...]:
    """Return the rows for a check of requests and a check of results, for both eras.

    ``of_requests`` and ``of_results`` are each the rules that a check decides, and the check.
    """
    return (
        Check(*of_requests, ("request",), methods),
        Check(*of_requests, ("response",), ASK_CARRIERS, within=STATELESS, members=INPUT_REQUESTS),
        Check(*of_results, ("response",), methods),
        Check(*of_results, ("request",), REPLY_CARRIERS, within=STATELESS, members=INPUT_RESPONSES),
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
