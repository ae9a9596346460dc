"""State of multi round-trip requests: what each result asked for, and which request continued it.

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from collections import deque
from collections.abc import Mapping
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.checks.engine.context import MessageContext, as_object, member
from mcpproxy.protocol.jsonrpc import JSON, Absent, JSONObject, Request, Response
from mcpproxy.protocol.revisions import CAPABILITIES_KEY
from mcpproxy.session.history import History, SentRequest, get_or_make, keep_latest

SUPPORTED: Final = ("tools/call", "prompts/get", "resources/read")
"""The requests whose answer may ask for input."""

MAX_ROUNDS: Final = 256
MAX_DECLARED: Final = 8
MAX_CALLERS: Final = 256
"""The number of results asking for input, of declarations, and of callers that are remembered."""

_ADDED: Final = ("_meta", "inputResponses", "requestState")


@slotted(eq=False)
class Round:
    """A result that asked for input.

    ``asked`` is the request that it answered. ``wanted`` are the requested methods by key, ``None`` if
    unreadable. ``wanted_before`` are the keys of the rounds that led to this one. ``next`` is the round that
    answered the retry of this one.
    """

    seq: int
    connection: int
    asked: SentRequest
    wanted: Mapping[str, str | None]
    state: str | None
    wanted_before: frozenset[str]
    next: "Round | None" = None

    def concerns(self, request: Request) -> bool:
        """Whether ``request`` is for the same tool, prompt or resource."""
        return self.asked.method == request.method and _about(self.asked.params) == _about(request.params)


@slotted()
class Rounds:
    """The latest rounds of one caller, the requests that continued them, and what its requests declared.

    ``continued`` maps the frame of a request to the round that it continues. A declaration has its
    connection, the first frame that made it, and the capabilities.
    """

    latest: deque[Round] = field(default_factory=lambda: deque[Round](maxlen=MAX_ROUNDS))
    continued: dict[int, Round] = field(default_factory=dict[int, Round])
    declared: deque[tuple[int, int, JSONObject]] = field(
        default_factory=lambda: deque[tuple[int, int, JSONObject]](maxlen=MAX_DECLARED)
    )

    def repeated(self, request: Request, connection: int) -> list[Round]:
        """Return the rounds on the same connection whose request had the same parameters as ``request``."""
        return [
            known
            for known in self.latest
            if known.connection == connection
            and known.asked.method == request.method
            and bare(known.asked.params) == bare(request.params)
        ]


@slotted()
class AllRounds:
    """The rounds of each caller."""

    by_caller: dict[str, Rounds] = field(default_factory=dict[str, Rounds])


def rounds(history: History) -> Rounds:
    """Return the rounds that a request of this session may continue."""
    return get_or_make(history.across_requests(AllRounds).by_caller, history.caller, Rounds, MAX_CALLERS)


def bare(params: "JSON | Absent") -> JSONObject:
    """Return the parameters of a request without those that a retry changes."""
    found = params if isinstance(params, dict) else {}
    return {name: value for name, value in found.items() if name not in _ADDED}


def _about(params: "JSON | Absent") -> tuple["JSON", "JSON"]:
    return member(params, "name"), member(params, "uri")


def remember_declared(context: MessageContext[Request], history: History) -> None:
    """Record the capabilities that a request declares."""
    message = context.message
    declared = as_object(member(message.params, "_meta", CAPABILITIES_KEY))
    if context.stateless and declared:
        known, connection = rounds(history).declared, context.frame.connection
        if not any(one[0] == connection and one[2] == declared for one in known):
            known.append((connection, context.seq, declared))


def remember_retry(context: MessageContext[Request], history: History) -> None:
    """Record which round a request continues."""
    message = context.message
    if not context.stateless or not isinstance(message.params, dict):
        return
    found, state = rounds(history), message.params.get("requestState")
    if state is not None:
        meant = [known for known in found.latest if known.state == state and known.concerns(message)]
    else:
        repeated = found.repeated(message, context.frame.connection)
        meant = [known for known in repeated if known.state is None]
    for known in meant[-1:]:
        keep_latest(found.continued, context.seq, known, MAX_ROUNDS)


def remember_round(context: MessageContext[Response], history: History) -> None:
    """Record a result that asks for input."""
    message, asked = context.message, context.answers
    result = message.result
    if not context.stateless or asked is None or not isinstance(result, dict):
        return
    if result.get("resultType") != "input_required":
        return
    entries = as_object(result.get("inputRequests")) or {}
    methods = {key: member(entry, "method") for key, entry in entries.items()}
    wanted = {key: method if isinstance(method, str) else None for key, method in methods.items()}
    state, found = result.get("requestState"), rounds(history)
    before = found.continued.get(asked.seq)
    keys = frozenset[str]() if before is None else before.wanted_before | before.wanted.keys()
    known = Round(
        seq=context.seq,
        connection=context.frame.connection,
        asked=asked,
        wanted=wanted,
        state=state if isinstance(state, str) else None,
        wanted_before=keys,
    )
    if before is not None:
        before.next = known
    found.latest.append(known)
