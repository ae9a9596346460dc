"""State of multi round-trip requests: what each result asked for, and which request continued it.

A server may answer a request with a result that asks the client for input. Such a result is called a *round*
here. The client then retries the request with the input, and the answer may be another round.
``input_required.FAMILY`` has the rows that call the ``remember_*`` functions.

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from collections import deque
from collections.abc import Mapping
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.checks.engine.context import MessageContext
from mcpproxy.judge.session.history import History, SentRequest, get_or_make, keep_latest
from mcpproxy.protocol.jsonrpc import JSON, Absent, JSONObject, Request, Response
from mcpproxy.protocol.message_parts import as_object, member, target_of
from mcpproxy.protocol.meta_keys import CAPABILITIES_KEY

MAY_ASK_FOR_INPUT: Final = ("tools/call", "prompts/get", "resources/read")
"""The requests whose result may ask for input."""

MAX_ROUNDS: Final = 256
"""The number of rounds that are remembered for each caller."""

MAX_DECLARATIONS: Final = 8
"""The number of capability declarations that are remembered for each caller."""

MAX_CALLERS: Final = 256
"""The number of callers that are remembered.

Over HTTP, the requests to one server with the same credentials have the same caller.
"""

RETRY_MEMBERS: Final = ("inputResponses", "requestState")
"""The params with which a client answers a result that asked for input."""


Subject = tuple[str, str | None]
"""A method, and the tool, prompt or resource that its request is for."""


def subject(request: Request | SentRequest) -> Subject:
    """Return the subject of a request."""
    return request.method, target_of(request.method, request.params)


@slotted(eq=False)
class Round:
    """A result that asked for input.

    ``seq`` is the frame of the result, ``observed_ns`` the time when it was seen, and ``connection`` the
    number of its connection. ``request`` is the request that the result answered. ``method_by_key`` has the
    method of each entry of the result's ``inputRequests``, ``None`` if the method is not a string. ``state``
    is the result's ``requestState``, ``None`` if that is not a string. ``earlier_keys`` are the keys of all
    rounds that led to this one. If the server answered the retry with another round, that is ``next``.
    """

    seq: int
    observed_ns: int
    connection: int
    request: SentRequest
    method_by_key: Mapping[str, str | None]
    state: str | None
    earlier_keys: frozenset[str]
    next: "Round | None" = None

    def concerns(self, request: Request) -> bool:
        """Whether ``request`` is for the same tool, prompt or resource."""
        return subject(self.request) == subject(request)


@slotted()
class Rounds:
    """The latest rounds of one caller, and what its requests continued and declared.

    ``continued`` maps the frame of a request to the round that the request continues. ``left`` has the latest
    round of each subject that the client has not requested again. A declaration is a connection, the
    first frame that made the declaration, and the capabilities.
    """

    latest: deque[Round] = field(default_factory=lambda: deque[Round](maxlen=MAX_ROUNDS))
    continued: dict[int, Round] = field(default_factory=dict[int, Round])
    left: dict[Subject, Round] = field(default_factory=dict[Subject, Round])
    declarations: deque[tuple[int, int, JSONObject]] = field(
        default_factory=lambda: deque[tuple[int, int, JSONObject]](maxlen=MAX_DECLARATIONS)
    )

    def of_same_request(self, request: Request, connection: int) -> list[Round]:
        """Return the rounds on this connection whose request had the same method and params as ``request``.

        Params that a retry changes are not compared.
        """
        return [
            round_
            for round_ in self.latest
            if round_.connection == connection
            and round_.request.method == request.method
            and without_retry_members(round_.request.params) == without_retry_members(request.params)
        ]


@slotted()
class AllRounds:
    """The rounds of each caller."""

    by_caller: dict[str, Rounds] = field(default_factory=dict[str, Rounds])


def rounds(history: History) -> Rounds:
    """Return the rounds of the caller that sent the current message; on stdio there is one caller."""
    return get_or_make(history.across_requests(AllRounds).by_caller, history.caller, Rounds, MAX_CALLERS)


def without_retry_members(params: "JSON | Absent") -> JSONObject:
    """Return the params of a request without those that a retry changes: ``_meta`` and ``RETRY_MEMBERS``."""
    members = params if isinstance(params, dict) else {}
    return {name: value for name, value in members.items() if name not in ("_meta", *RETRY_MEMBERS)}


def remember_declared(context: MessageContext[Request], history: History) -> None:
    """Record the capabilities that a request declares."""
    message = context.message
    capabilities = as_object(member(message.params, "_meta", CAPABILITIES_KEY))
    if context.stateless and capabilities:
        declarations, connection = rounds(history).declarations, context.frame.connection
        known_capabilities = [
            earlier_capabilities
            for known_connection, _, earlier_capabilities in declarations
            if known_connection == connection
        ]
        if capabilities not in known_capabilities:
            declarations.append((connection, context.seq, capabilities))


def remember_followed(context: MessageContext[Request], history: History) -> None:
    """Record that the client has requested the same tool, prompt or resource again."""
    known_rounds = history.across_requests(AllRounds).by_caller.get(history.caller)
    if known_rounds is not None:
        known_rounds.left.pop(subject(context.message), None)


def remember_retry(context: MessageContext[Request], history: History) -> None:
    """Record which round a request continues, and take the rounds that it may answer out of ``left``."""
    message = context.message
    if not context.stateless or not isinstance(message.params, dict):
        return
    known_rounds, state = rounds(history), message.params.get("requestState")
    keys = (as_object(message.params.get("inputResponses")) or {}).keys()
    # A retry with the wrong request (MRTR-009) is a retry, too.
    for left_subject, round_ in tuple(known_rounds.left.items()):
        if round_.state == state if state is not None else keys & round_.method_by_key.keys():
            del known_rounds.left[left_subject]
    if state is not None:
        matching = [
            round_ for round_ in known_rounds.latest if round_.state == state and round_.concerns(message)
        ]
    else:
        of_same_request = known_rounds.of_same_request(message, context.frame.connection)
        matching = [round_ for round_ in of_same_request if round_.state is None]
    if matching:
        keep_latest(known_rounds.continued, context.seq, matching[-1], MAX_ROUNDS)


def remember_round(context: MessageContext[Response], history: History) -> None:
    """Record a result that asks for input."""
    message, request = context.message, context.answers
    result = message.result
    if not context.stateless or request is None or not isinstance(result, dict):
        return
    if result.get("resultType") != "input_required":
        return
    entries = as_object(result.get("inputRequests")) or {}
    methods = {key: member(entry, "method") for key, entry in entries.items()}
    state, known_rounds = result.get("requestState"), rounds(history)
    previous = known_rounds.continued.get(request.seq)
    earlier_keys = (
        frozenset[str]() if previous is None else previous.earlier_keys | previous.method_by_key.keys()
    )
    new_round = Round(
        seq=context.seq,
        observed_ns=context.frame.observed_at_ns,
        connection=context.frame.connection,
        request=request,
        method_by_key={key: method if isinstance(method, str) else None for key, method in methods.items()},
        state=state if isinstance(state, str) else None,
        earlier_keys=earlier_keys,
    )
    if previous is not None:
        previous.next = new_round
    known_rounds.latest.append(new_round)
    keep_latest(known_rounds.left, subject(request), new_round, MAX_ROUNDS)
