"""Capabilities: a peer may use only what was declared, and must declare what it serves.

``protocol/methods.py`` lists which capability a method needs in which revision. The checks report nothing
until both declarations were seen.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#capability-negotiation
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from mcpproxy.checks.engine.context import MessageContext, Violation, as_object, member
from mcpproxy.checks.engine.rows import UNDECLARED, Check, RuleFamily
from mcpproxy.protocol import methods
from mcpproxy.protocol.jsonrpc import JSON, Absent, ErrorResponse, Notification, Request, Response
from mcpproxy.protocol.methods import Need, declares, first_need, needs
from mcpproxy.session.frame import CLIENT, SERVER, Sender, other
from mcpproxy.session.history import History, SentRequest

LISTS: Final = ("tools/list", "resources/list", "prompts/list")


def undeclared_request(context: MessageContext[Request], history: History) -> Iterable[Violation]:
    """Report a request for a feature that the other side did not declare (PROTO-009)."""
    message = context.message
    unmet = _unmet(message.method, message.params, context.sender, context, history)
    return _undeclared_request(unmet, message, context, history) if unmet else ()


def _undeclared_request(
    unmet: tuple[Need, ...], message: Request, context: MessageContext, history: History
) -> Iterator[Violation]:
    for need in unmet:
        declarer = _declarer(need, context.sender)
        problem = f"{context.sender} sent {message.method}, but the {declarer} never declared {need.path}"
        yield Violation(
            "PROTO-009",
            _requirement(message.method, need, context.sender),
            problem,
            pointer=context.at + "/method",
            related=_handshake(history),
            # Only for tools/call does the specification say MUST NOT; for the others it says SHOULD.
            at_most="warning" if need.condition == "task" and message.method != "tools/call" else None,
        )


def _requirement(method: str, need: Need, sender: Sender) -> str:
    """The requirement that a request without its capability breaks."""
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
    """Report a notification that needs a feature which was not declared (PROTO-009)."""
    message = context.message
    unmet = _unmet(message.method, message.params, context.sender, context, history)
    return _undeclared_notification(unmet, message, context, history) if unmet else ()


def _undeclared_notification(
    unmet: tuple[Need, ...], message: Notification, context: MessageContext, history: History
) -> Iterator[Violation]:
    for need in unmet:
        declarer = _declarer(need, context.sender)
        who = "it" if declarer == context.sender else f"the {declarer}"
        problem = f"{context.sender} sent {message.method}, but {who} never declared {need.path}"
        yield Violation(
            "PROTO-009",
            _notification_requirement(need),
            problem,
            pointer=context.at + "/method",
            related=_handshake(history),
            # Undeclared logging is very common in practice, but the specification says MUST.
            at_most="warning" if need.path == "logging" else None,
        )


def _notification_requirement(need: Need) -> str:
    """The requirement that a notification without its capability breaks."""
    if need.path == "logging":
        return "R-050"
    if need.path.endswith("listChanged"):
        return "R-048"
    return "R-049" if need.path == "resources.subscribe" else "R-045"


def undeclared_service(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a server that answers a request for a feature it did not declare (PROTO-009)."""
    asked = context.answers
    if asked is None or asked.sender != CLIENT or asked.stateless:
        return ()
    unmet = _unmet(asked.method, asked.params, asked.sender, context, history)
    return _undeclared_service(unmet, asked, context, history) if unmet else ()


def _undeclared_service(
    unmet: tuple[Need, ...], asked: SentRequest, context: MessageContext, history: History
) -> Iterator[Violation]:
    for need in unmet:
        if _is_for_service(need):
            problem = f"server answered {asked.method} with a result, but never declared {need.path}"
            yield Violation(
                "PROTO-009",
                "R-045",
                problem,
                pointer=context.at + "/result",
                related=(*_handshake(history), asked.seq),
                # Some libraries answer every list request; who lists nothing offers nothing.
                at_most="info" if _is_empty_list(asked, context) else None,
            )


def _is_empty_list(asked: SentRequest, context: MessageContext) -> bool:
    message = context.message
    result = message.result if isinstance(message, Response) else None
    if not asked.method.endswith("/list") or not isinstance(result, dict):
        return False
    return [] in result.values() and not any(isinstance(value, list) and value for value in result.values())


def unserved_capability(context: MessageContext[ErrorResponse], history: History) -> Iterator[Violation]:
    """Report a server that refuses the list method of a feature it declared (PROTO-009)."""
    asked, message = context.answers, context.message
    if asked is None or asked.method not in LISTS or asked.stateless or history.server_capabilities is None:
        return
    path = asked.method.partition("/")[0]
    if member(as_object(message.error), "code") == -32601 and declares(history.server_capabilities, path):
        problem = f"server declared {path}, but does not know {asked.method}"
        yield Violation(
            "PROTO-009",
            "R-046",
            problem,
            pointer=context.at + "/error/code",
            related=(*_handshake(history), asked.seq),
        )


def elicitation_modes(context: MessageContext[Request], history: History) -> Iterator[Violation]:
    """Report a client that declares elicitation with members, but without a mode (PROTO-009)."""
    message = context.message
    if context.sender != CLIENT or member(message.params, "protocolVersion") != "2025-11-25":
        return
    declared = as_object(member(message.params, "capabilities", "elicitation"))
    if declared and "form" not in declared and "url" not in declared:
        problem = "client declared elicitation with members, but neither the form nor the url mode"
        yield Violation(
            "PROTO-009",
            "R-052",
            problem,
            pointer=context.at + "/params/capabilities/elicitation",
            candidates=("2025-11-25",),
        )


def _unmet(
    method: str, params: "JSON | Absent", sender: Sender, context: MessageContext, history: History
) -> tuple[Need, ...]:
    """Return the first capability that a message needs and that was not declared; empty while that is
    unknown.
    """
    lacking = history.unmet.get((sender, method))
    if not lacking or history.blind or context.candidates != (history.negotiated,):
        return ()
    # One missing declaration is reported once, not again for its parts.
    need = first_need(lacking, params)
    return () if need is None else (need,)


def unmet_needs(history: History, revision: str) -> dict[tuple[Sender, str], tuple[Need, ...]]:
    """Return, by sender and method, the capabilities that are needed and were not declared."""
    found: dict[tuple[Sender, str], tuple[Need, ...]] = {}
    for method in methods.names(revision):
        defined = methods.defined(method, revision)
        for sender in (CLIENT, SERVER):
            if defined is None or defined.sender not in (sender, "both"):
                continue  # This peer may not send it at all: RPC-019 and PROTO-006 report that.
            lacking = tuple(
                need
                for need in needs(method, revision)
                if (declared := history.capabilities(_declarer(need, sender))) is not None
                and not declares(declared, need.path)
            )
            if lacking:
                found[sender, method] = lacking
    return found


def unserved(unmet: Mapping[tuple[Sender, str], tuple[Need, ...]]) -> frozenset[str]:
    """Return the client's methods that need a feature which the server did not declare."""
    return frozenset(
        method
        for (sender, method), needs in unmet.items()
        if sender == CLIENT and any(map(_is_for_service, needs))
    )


def _is_for_service(need: Need) -> bool:
    return need.declared_by == "server" and need.condition == "always" and "." not in need.path


def _declarer(need: Need, sender: Sender) -> Sender:
    if need.declared_by == "receiver":
        return other(sender)
    return sender if need.declared_by == "sender" else need.declared_by


def _handshake(history: History) -> tuple[int, ...]:
    return (history.initialize.seq,) if history.initialize else ()


FAMILY: Final = RuleFamily(
    checks=(
        Check(("PROTO-009",), undeclared_request, (Request,), given=UNDECLARED),
        Check(("PROTO-009",), undeclared_notification, (Notification,), given=UNDECLARED),
        Check(("PROTO-009",), undeclared_service, (Response,), given=UNDECLARED),
        Check(("PROTO-009",), unserved_capability, (ErrorResponse,), LISTS),
        Check(("PROTO-009",), elicitation_modes, (Request,), ("initialize",)),
    ),
)
