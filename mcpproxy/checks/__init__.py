"""Checks: the functions that decide whether a message breaks a requirement.

``CHECKS`` is the whole map: which rules a function decides, and on what it looks. The dispatch below
is derived from it, so that a message meets only the checks that can concern it. A rule without a
line here is a permission or cannot be seen on the wire; its table in ``rules/`` says so.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from mcpproxy.checks import capabilities, era, lifecycle, rpc, shapes, stdio, tools
from mcpproxy.checks.breach import Check, EventCheck, HttpCheck

Kind = Literal["request", "notification", "response", "error", "malformed"]

ASKS: Final[tuple[Kind, ...]] = ("request", "notification")
ANSWERS: Final[tuple[Kind, ...]] = ("response", "error")
MESSAGES: Final[tuple[Kind, ...]] = (*ASKS, *ANSWERS)


@dataclass(frozen=True, slots=True)
class Decider:
    """One check and where it applies.

    ``methods`` narrows it to messages of these methods (for an answer: of the request answered);
    empty means all.
    """

    rules: tuple[str, ...]
    check: Check
    kinds: tuple[Kind, ...]
    methods: tuple[str, ...] = ()


CHECKS: Final = (
    # A. JSON-RPC framing
    Decider(("RPC-001",), rpc.not_a_message, ("malformed",)),
    Decider(("RPC-002",), rpc.message_kind, ("malformed",)),
    Decider(("STDIO-002", "STDIO-003"), stdio.stray_output, ("malformed",)),
    Decider(("PROTO-002",), rpc.jsonrpc_version, MESSAGES),
    Decider(("RPC-003", "RPC-004"), rpc.request_id_type, ("request",)),
    Decider(("RPC-005", "RPC-006"), rpc.request_id_reused, ("request",)),
    Decider(("RPC-016",), rpc.params_type, ASKS),
    Decider(("RPC-019",), rpc.method_side, ("request",)),
    Decider(("RPC-013",), rpc.notification_id, ("notification",)),
    Decider(("RPC-014",), rpc.request_without_id, ("notification",)),
    Decider(("PROTO-006",), rpc.unknown_notification, ("notification",)),
    Decider(("PROTO-007", "RPC-007", "RPC-012", "RPC-015"), rpc.response_id, ANSWERS),
    Decider(("RPC-009",), rpc.result_or_error, ("error",)),
    Decider(("RPC-010",), rpc.result_type, ("response",)),
    Decider(("RPC-011",), rpc.error_shape, ("error",)),
    Decider(("RPC-020",), rpc.unknown_method_code, ("error",)),
    Decider(("ERR-001",), rpc.reserved_error_code, ("error",)),
    Decider(("RPC-022",), rpc.repeated_member_names, MESSAGES),
    Decider(("RPC-023",), shapes.message_shape, (*ASKS, "response")),
    # B. Lifecycle
    Decider(("PROTO-005", "SEQ-003", "LIFE-002", "LIFE-003"), lifecycle.handshake_order, MESSAGES),
    Decider(("PROTO-001",), lifecycle.initialize_params, ("request",), ("initialize",)),
    Decider(("PROTO-001",), lifecycle.initialize_result, ("response",), ("initialize",)),
    Decider(("PROTO-008",), lifecycle.requested_version, ("request",), ("initialize",)),
    Decider(("PROTO-008",), lifecycle.answered_version, ("response",), ("initialize",)),
    Decider(("PROTO-008",), lifecycle.foreign_method, ("request",)),
    Decider(("LIFE-004",), lifecycle.ping_answer, ANSWERS, ("ping",)),
    # C. Capabilities
    Decider(("PROTO-009",), capabilities.undeclared_request, ("request",)),
    Decider(("PROTO-009",), capabilities.undeclared_notification, ("notification",)),
    Decider(("PROTO-009",), capabilities.undeclared_service, ("response",)),
    Decider(("PROTO-009",), capabilities.unserved_capability, ("error",), capabilities.LISTS),
    Decider(("PROTO-009",), capabilities.elicitation_modes, ("request",), ("initialize",)),
    # J. Tools and their schemas
    Decider(("PROTO-003",), tools.tool_name, ("response",), ("tools/list",)),
    Decider(("PROTO-003",), tools.tool_name, ("request",), ("sampling/createMessage",)),
    Decider(
        ("PROTO-004", "SCHEMA-001", "SCHEMA-002", "SCHEMA-003", "SCHEMA-004", "SCHEMA-005"),
        tools.tool_schemas,
        ("response",),
        ("tools/list",),
    ),
    # W. Two eras on one connection
    Decider(("ERA-002",), era.fallback_after_modern_answer, ("request",), ("initialize",)),
    Decider(("ERA-003",), era.refusal_without_versions, ("error",), ("initialize",)),
)

FRAME_CHECKS: Final[tuple[tuple[tuple[str, ...], Check], ...]] = (
    (("RPC-021",), rpc.utf8),
    (("RPC-001",), rpc.lenient_json),
)
"""Checks of bytes that are no proper JSON text, told once per frame."""

BATCH_CHECKS: Final = (
    (("RPC-017", "RPC-018"), rpc.batch),
    (("LIFE-001",), lifecycle.batched_initialize),
)
"""Checks of an array as a whole."""

SPLIT_CHECKS: Final = ((("STDIO-001",), stdio.split_message),)
"""Checks of a message that was spread over lines."""

EVENT_CHECKS: Final[tuple[tuple[tuple[str, ...], EventCheck], ...]] = (
    (("RPC-008", "LIFE-004"), rpc.unanswered),
    (("SEQ-001",), lifecycle.initialize_unanswered),
    (("SEQ-002",), lifecycle.initialized_missing),
    (("STDIO-004",), stdio.signalled_first),
    (("STDIO-005",), stdio.late_exit),
)
"""Checks of what is no frame: signals, and the end, when what is missing can be told."""


Moment = Literal["request", "response", "frame", "end", "close"]
"""When an HTTP check looks: the request is all there; the response's head has come; a body or an SSE
event has come from the server; the exchange is over; the recording ends while it is under way."""


@dataclass(frozen=True, slots=True)
class HttpDecider:
    """One check of an exchange and the moment at which it looks."""

    rules: tuple[str, ...]
    check: HttpCheck
    moment: Moment


HTTP_CHECKS: Final[tuple[HttpDecider, ...]] = ()


@lru_cache(maxsize=1024)  # peers choose the method names
def checks_for(kind: Kind, method: str) -> tuple[Check, ...]:
    """The checks that a message of this kind and method meets, in the table's order."""
    return tuple(
        decider.check
        for decider in CHECKS
        if kind in decider.kinds and (not decider.methods or method in decider.methods)
    )


def decided_rules() -> frozenset[str]:
    """The codes of all rules that some check decides."""
    rows: Iterable[tuple[tuple[str, ...], Callable[..., object]]] = (
        *((decider.rules, decider.check) for decider in CHECKS),
        *FRAME_CHECKS,
        *BATCH_CHECKS,
        *SPLIT_CHECKS,
        *EVENT_CHECKS,
        *((decider.rules, decider.check) for decider in HTTP_CHECKS),
    )
    return frozenset(code for rules, _ in rows for code in rules)
