"""What a server asks of a client, and what it gets, whatever carried them.

In the stateful revisions these are messages of their own. From 2026-07-28 on the requests are entries of a
result's ``inputRequests``, and the results entries of ``inputResponses`` in the request made anew. A
``Ask`` or a ``Reply`` is the same in both eras, so that one judgement serves them; the rows of a family
say on which messages it looks (``ASK_CARRIERS``, ``REPLY_CARRIERS``).

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
"""Requests whose result may ask for input; the last by extension."""

REPLY_CARRIERS: Final = ("tools/call", "prompts/get", "resources/read", "tasks/update")
"""Requests that may bring the input asked for."""

POLLED_BY: Final[Mapping[str, str]] = {"tasks/update": "tasks/get"}
"""A request that brings input although another than itself was answered with the wish for it."""

ASKING: Final = ("inputRequests",)
BRINGING: Final = ("inputResponses",)
"""The member of a message that carries any."""

TELLING: Final[Mapping[str, str]] = {
    "action": "elicitation/create",
    "roots": "roots/list",
    "model": "sampling/createMessage",
}
"""The member by which a bare result shows which method it answers."""

MAX_ROUNDS: Final = 128
"""So many results that asked for input are remembered."""


@slotted(frozen=True)
class Ask:
    """A request of the server: method, params, the JSON Pointer of what holds both, and its frame.

    ``key`` is its name among several in one result, empty for a message of its own.
    """

    method: str
    params: "JSON | Absent"
    at: str
    seq: int
    key: str = ""


@slotted(frozen=True)
class Reply:
    """The client's result for one, with the JSON Pointer of the result.

    ``ask`` is ``None`` where it is not known what exactly was asked; ``method`` is what the result shows
    then. A result that shows nothing is no reply.
    """

    method: str
    result: JSONObject
    at: str
    ask: Ask | None


@slotted(frozen=True)
class InputResult:
    """A result that asked for input: the request it answered, what it asked by key, and its state.

    ``caller`` tells apart who asked over HTTP.
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
    """Whether a message may ask the client for anything: a request, or a result with input requests."""
    message = context.message
    if isinstance(message, Response):
        return context.stateless and isinstance(message.result, dict) and "inputRequests" in message.result
    return isinstance(message, Request)


def asks(context: MessageContext) -> Iterator[Ask]:
    """What the server asks of the client with this message."""
    message = context.message
    if isinstance(message, Request):
        if context.sender == SERVER:
            yield Ask(message.method, message.params, context.at, context.seq)
    elif isinstance(message, Response) and context.stateless:
        for key, entry in (as_object(member(message.result, "inputRequests")) or {}).items():
            method = member(entry, "method")
            if isinstance(entry, dict) and isinstance(method, str):
                at = f"{context.at}/result/inputRequests{token(key)}"
                yield Ask(method, entry.get("params", ABSENT), at, context.seq, key)


def replies(context: MessageContext, history: History) -> Iterator[Reply]:
    """What the client gives the server with this message."""
    message, asked = context.message, context.answers
    if isinstance(message, Response):
        if asked is not None and asked.sender == SERVER and isinstance(message.result, dict):
            if "task" in message.result and member(asked.params, "task") is not None:
                return  # A receipt; the result itself is fetched later.
            ask = Ask(asked.method, asked.params, "", asked.seq)
            yield Reply(asked.method, message.result, context.at + "/result", ask)
    elif isinstance(message, Request) and context.stateless:
        given = as_object(member(message.params, "inputResponses")) or {}
        for key, result in given.items():
            if isinstance(result, dict) and (method := _shown_method(result)):
                ask = _ask_of(message, key, history)
                if ask is None or ask.method == method:
                    yield Reply(method, result, f"{context.at}/params/inputResponses{token(key)}", ask)


def _shown_method(result: JSONObject) -> str:
    """The method that a bare result answers, by its members; empty if they do not agree on one."""
    shows = [method for name, method in TELLING.items() if name in result]
    return shows[0] if len(shows) == 1 else ""


def rounds_before(request: Request, history: History) -> tuple[InputResult, ...]:
    """The results that ``request`` may take up, oldest first.

    They asked back for the same method and the same tool, prompt or resource, and gave the state that the
    request repeats, or none if it has none.
    """
    state, about = member(request.params, "requestState"), _about(request.params)
    return tuple(
        earlier
        for earlier in history.beyond(InputResults).latest
        if earlier.caller == history.caller
        and earlier.first.method == (POLLED_BY.get(request.method) or request.method)
        and _about(earlier.first.params) == about
        and earlier.state == state
    )


def _about(params: "JSON | Absent") -> tuple[JSON, ...]:
    return tuple(member(params, name) for name in ("name", "uri", "taskId"))


def _ask_of(request: Request, key: str, history: History) -> Ask | None:
    """What ``key`` was asked for; ``None`` if several earlier results asked differently."""
    found = [earlier.asks[key] for earlier in rounds_before(request, history) if key in earlier.asks]
    same = all((ask.method, ask.params) == (found[0].method, found[0].params) for ask in found)
    return found[-1] if found and same else None


def _remember_round(context: MessageContext, history: History) -> None:
    message, asked = context.message, context.answers
    if asked is not None and isinstance(message, Response) and may_ask(context):
        by_key = {ask.key: ask for ask in asks(context)}
        state = member(message.result, "requestState")
        history.beyond(InputResults).latest.append(
            InputResult(asked, history.caller, by_key, state, context.seq)
        )


NOTES: Final = (StateUpdate(_remember_round, ("response",), ASK_CARRIERS, within=STATELESS, members=ASKING),)

JudgeAsk: TypeAlias = Callable[[Ask, MessageContext, History], Iterable[Violation]]
JudgeReply: TypeAlias = Callable[[Reply, MessageContext, History], Iterable[Violation]]


def judge_asks(
    context: MessageContext, history: History, method: str, judges: Iterable[JudgeAsk]
) -> Iterable[Violation]:
    """What ``judges`` say of each request for ``method`` that a message carries."""
    if not may_ask(context):
        return ()
    return (
        violation
        for ask in asks(context)
        if ask.method == method
        for judge in judges
        for violation in judge(ask, context, history)
    )


def either_way(
    methods: tuple[str, ...],
    asked: tuple[tuple[str, ...], CheckFunction],
    answered: tuple[tuple[str, ...], CheckFunction],
) -> tuple[Check, ...]:
    """The rows of checks of what is asked for and of what comes back, each with its rules, in both eras."""
    return (
        Check(*asked, ("request",), methods),
        Check(*asked, ("response",), ASK_CARRIERS, within=STATELESS, members=ASKING),
        Check(*answered, ("response",), methods),
        Check(*answered, ("request",), REPLY_CARRIERS, within=STATELESS, members=BRINGING),
    )


def judge_replies(
    context: MessageContext, history: History, method: str, judges: Iterable[JudgeReply]
) -> Iterable[Violation]:
    """What ``judges`` say of each result for ``method`` that a message carries."""
    if isinstance(context.message, Request) and not context.stateless:
        return ()
    return (
        violation
        for reply in replies(context, history)
        if reply.method == method
        for judge in judges
        for violation in judge(reply, context, history)
    )
