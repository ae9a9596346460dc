"""Capabilities: peers may use only features that were declared, and must declare the features they have.

``protocol/methods.py`` lists which capability a method needs in which revision. The checks report nothing
before the handshake has negotiated a revision, except ``elicitation_modes``, which judges the declaration
itself.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#capability-negotiation
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.rows import UNDECLARED, Check, RuleFamily
from mcpproxy.judge.session.frame import CLIENT, SERVER, Sender, other
from mcpproxy.judge.session.history import History, SentRequest
from mcpproxy.protocol import methods
from mcpproxy.protocol.error_message import METHOD_NOT_FOUND
from mcpproxy.protocol.jsonrpc import JSON, Absent, ErrorResponse, Notification, Request, Response
from mcpproxy.protocol.message_parts import as_object, member, or_none
from mcpproxy.protocol.methods import Need, applies, declares, first_need, needs

LISTS: Final = ("tools/list", "resources/list", "prompts/list")
"""The list methods of the features that a server declares (R-046)."""

DECLARED_METHODS: Final = (
    *LISTS, "resources/subscribe", "completion/complete", "logging/setLevel",
    "elicitation/create", "sampling/createMessage", "roots/list",
)  # fmt: skip
"""The methods that a peer knows if it declared their capabilities.

``tools/call``, ``prompts/get`` and ``resources/read`` are missing: -32601 may mean an unknown name.
"""


def undeclared_request(context: MessageContext[Request], history: History) -> Iterable[Violation]:
    """Report a request that needs a capability which was not declared (PROTO-009)."""
    message = context.message
    need = _first_unmet(message.method, message.params, context.sender, context, history)
    return () if need is None else (_undeclared_request(need, message, context, history),)


def _undeclared_request(need: Need, message: Request, context: MessageContext, history: History) -> Violation:
    declarer = _declarer(need, context.sender)
    problem = f"{context.sender} sent {message.method}, but the {declarer} never declared {need.path}"
    return Violation(
        "PROTO-009",
        _requirement(message.method, need, context.sender),
        problem,
        pointer=context.at + "/method",
        related=initialize_seq(history),
        # The specification says MUST NOT for tools/call only; for the other requests it says SHOULD.
        at_most="warning" if need.condition == "task" and message.method != "tools/call" else None,
    )


def _requirement(method: str, need: Need, sender: Sender) -> str:
    """Return the requirement that a request breaks if the capability ``need`` was not declared."""
    if need.condition == "task":
        return "R-190"
    if need.condition in ("form", "url"):
        return "R-052"
    if need.condition == "tools":
        return "R-053"
    if need.condition == "context":
        return "R-054"
    if method in ("tasks/list", "tasks/cancel"):
        return "R-055"
    if need.path == "resources.subscribe":
        return "R-049"
    return "R-044" if sender == CLIENT else "R-047"


def undeclared_notification(context: MessageContext[Notification], history: History) -> Iterable[Violation]:
    """Report a notification that needs a capability which was not declared (PROTO-009)."""
    message = context.message
    need = _first_unmet(message.method, message.params, context.sender, context, history)
    return () if need is None else (_undeclared_notification(need, message, context, history),)


def _undeclared_notification(
    need: Need, message: Notification, context: MessageContext, history: History
) -> Violation:
    declarer = _declarer(need, context.sender)
    declarer_name = "it" if declarer == context.sender else f"the {declarer}"
    problem = f"{context.sender} sent {message.method}, but {declarer_name} never declared {need.path}"
    return Violation(
        "PROTO-009",
        _notification_requirement(need),
        problem,
        pointer=context.at + "/method",
        related=initialize_seq(history),
        # A warning only, although the specification says MUST: undeclared logging is very common.
        at_most="warning" if need.path == "logging" else None,
    )


def _notification_requirement(need: Need) -> str:
    """Return the requirement that a notification breaks if the capability ``need`` was not declared."""
    if need.path == "logging":
        return "R-050"
    if need.path.endswith("listChanged"):
        return "R-048"
    return "R-049" if need.path == "resources.subscribe" else "R-045"


def undeclared_service(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a server that serves a method of a feature that its handshake did not declare (PROTO-009)."""
    request = context.answers
    if request is None or request.sender != CLIENT or request.stateless:
        return ()
    need = _first_unmet(request.method, request.params, request.sender, context, history)
    if need is None or not _is_for_service(need):
        return ()
    problem = f"server answered {request.method} with a result, but never declared {need.path}"
    return (
        Violation(
            "PROTO-009",
            "R-045",
            problem,
            pointer=context.at + "/result",
            related=(*initialize_seq(history), request.seq),
            # Some libraries answer every list request. A server that lists nothing offers nothing.
            at_most="info" if _is_empty_list(request, context) else None,
        ),
    )


def _is_empty_list(request: SentRequest, context: MessageContext) -> bool:
    message = context.message
    result = message.result if isinstance(message, Response) else None
    if not request.method.endswith("/list") or not isinstance(result, dict):
        return False
    return [] in result.values() and not any(isinstance(value, list) and value for value in result.values())


def unserved_capability(context: MessageContext[ErrorResponse], history: History) -> Iterator[Violation]:
    """Report a peer that declares a feature and refuses its method as unknown (PROTO-009)."""
    request, declared = context.answers, history.capabilities(context.sender)
    if request is None or request.stateless or declared is None or history.negotiated is None:
        return
    if member(as_object(context.message.error), "code") != METHOD_NOT_FOUND:
        return
    params = or_none(request.params)
    needed = [need for need in needs(request.method, history.negotiated) if applies(need, params)]
    # A request that asks for a task may be refused with this code because of the task.
    if needed and all(need.condition != "task" and declares(declared, need.path) for need in needed):
        problem = f"{context.sender} declared {needed[0].path}, but does not know {request.method}"
        yield Violation(
            "PROTO-009",
            "R-046" if request.method in LISTS else "D-009",
            problem,
            pointer=context.at + "/error/code",
            related=(*initialize_seq(history), request.seq),
        )


def elicitation_modes(context: MessageContext[Request], history: History) -> Iterator[Violation]:
    """Report an elicitation capability that has members, but neither form nor url (PROTO-009).

    Only an initialize for 2025-11-25 is judged, the one revision with a handshake that has these modes.
    """
    message = context.message
    if context.sender != CLIENT or member(message.params, "protocolVersion") != "2025-11-25":
        return
    declared = member(message.params, "capabilities", "elicitation")
    yield from without_mode(declared, context.at + "/params/capabilities/elicitation", ("2025-11-25",))


def without_mode(declared: JSON, pointer: str, within: tuple[str, ...] | None = None) -> Iterator[Violation]:
    """Report an elicitation capability that has members, but neither form nor url (PROTO-009)."""
    modes = as_object(declared)
    if modes and "form" not in modes and "url" not in modes:
        problem = "client declared elicitation with members, but neither the form nor the url mode"
        yield Violation("PROTO-009", "R-052", problem, pointer=pointer, candidates=within)


def _first_unmet(
    method: str, params: "JSON | Absent", sender: Sender, context: MessageContext, history: History
) -> Need | None:
    """Return the first undeclared capability that a message needs.

    Only the first is reported, because the others are mostly parts of it (``resources.subscribe`` of
    ``resources``). The result is ``None`` if nothing is undeclared, or if that is uncertain: before a
    revision is negotiated, after a gap, or for a message that may belong to another revision.
    """
    unmet = history.unmet_needs.get((sender, method))
    if not unmet or history.has_gap or context.candidates != (history.negotiated,):
        return None
    return first_need(unmet, params)


def unmet_needs(history: History, revision: str) -> dict[tuple[Sender, str], tuple[Need, ...]]:
    """Return, by sender and method, the capabilities that are needed and were not declared.

    Capabilities of a peer whose declaration was not seen are left out.
    """
    unmet: dict[tuple[Sender, str], tuple[Need, ...]] = {}
    for method in methods.method_names(revision):
        defined = methods.defined(method, revision)
        for sender in (CLIENT, SERVER):
            if defined is None or defined.sender not in (sender, "both"):
                continue  # This peer may not send the method at all: RPC-019 and PROTO-006 report that.
            undeclared = tuple(
                need
                for need in needs(method, revision)
                if (capabilities := history.capabilities(_declarer(need, sender))) is not None
                and not declares(capabilities, need.path)
            )
            if undeclared:
                unmet[sender, method] = undeclared
    return unmet


def unserved_methods(unmet_needs: Mapping[tuple[Sender, str], tuple[Need, ...]]) -> frozenset[str]:
    """Return the client's methods that need a feature which the server did not declare."""
    return frozenset(
        method
        for (sender, method), needs in unmet_needs.items()
        if sender == CLIENT and any(map(_is_for_service, needs))
    )


def _is_for_service(need: Need) -> bool:
    """Whether only a server with this capability should serve the method."""
    return need.declared_by == "server" and need.condition == "always" and "." not in need.path


def _declarer(need: Need, sender: Sender) -> Sender:
    """Return the peer that has to declare a capability which a message of ``sender`` needs."""
    if need.declared_by == "receiver":
        return other(sender)
    return sender if need.declared_by == "sender" else need.declared_by


def initialize_seq(history: History) -> tuple[int, ...]:
    """Return the number of initialize's frame, as evidence for a finding; empty if it was not seen."""
    return (history.initialize.seq,) if history.initialize else ()


FAMILY: Final = RuleFamily(
    checks=(
        Check(("PROTO-009",), undeclared_request, (Request,), given=UNDECLARED),
        Check(("PROTO-009",), undeclared_notification, (Notification,), given=UNDECLARED),
        Check(("PROTO-009",), undeclared_service, (Response,), given=UNDECLARED),
        Check(("PROTO-009",), unserved_capability, (ErrorResponse,), DECLARED_METHODS),
        Check(("PROTO-009",), elicitation_modes, (Request,), ("initialize",)),
    ),
)
