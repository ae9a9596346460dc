"""Checks: the functions that decide whether a message breaks a requirement.

``CHECKS`` is the whole map: which rules a function decides, and on what it looks. The dispatch below
is derived from it, so that a message meets only the checks that can concern it. A rule without a
line here is a permission or cannot be seen on the wire; its table in ``rules/`` says so.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from mcpproxy.checks import (
    authorization,
    capabilities,
    era,
    headers,
    http,
    lifecycle,
    rpc,
    sessions,
    shapes,
    stdio,
    streams,
    tools,
)
from mcpproxy.checks.breach import Check, EventCheck, HttpCheck
from mcpproxy.session.http import Traffic

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
    # Q, R. Stateless requests and what refuses them
    Decider(("STAT-001",), headers.incomplete_request, ("request",)),
    Decider(("STAT-002",), headers.incomplete_accepted, ANSWERS),
    Decider(("PROTO-008",), headers.unsupported_version, ("error",)),
    Decider(("PROTO-009",), headers.missing_capability, ("error",)),
    Decider(("HDR-008",), headers.header_annotations, ("response",), ("tools/list",)),
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


Moment = Literal["request", "success", "refusal", "body", "event", "end", "close", "over"]
"""When an HTTP check looks: the request is all there; a response's head has come with a 2xx status, or
with another; a body or an SSE event has come from the server; the exchange is over; the recording ends
while it is under way; the recording ends and this was the last exchange of its session."""

HEAD: Final[tuple[Moment, ...]] = ("success", "refusal")
CONTENT: Final[tuple[Moment, ...]] = ("body", "event")

STATEFUL: Final[tuple[Traffic, ...]] = ("stateful",)
STATELESS: Final[tuple[Traffic, ...]] = ("stateless",)
STREAMABLE: Final[tuple[Traffic, ...]] = ("stateful", "stateless")
LEGACY: Final[tuple[Traffic, ...]] = ("http+sse",)
OTHER: Final[tuple[Traffic, ...]] = ("other",)
MCP: Final[tuple[Traffic, ...]] = (*STREAMABLE, *LEGACY)


@dataclass(frozen=True, slots=True)
class HttpDecider:
    """One check of an exchange, the moments at which it looks, and where it applies.

    ``methods`` narrows it to requests with these HTTP methods; empty means all.
    """

    rules: tuple[str, ...]
    check: HttpCheck
    moments: tuple[Moment, ...]
    traffic: tuple[Traffic, ...]
    methods: tuple[str, ...] = ()


HTTP_CHECKS: Final = (
    # E. Methods, media types, statuses
    HttpDecider(("HTTP-001",), http.endpoint_first, ("event",), LEGACY, ("GET",)),
    HttpDecider(("HTTP-002",), http.posted_elsewhere, ("request",), (*STATEFUL, *OTHER), ("POST",)),
    HttpDecider(("HTTP-003",), http.legacy_message, CONTENT, LEGACY),
    HttpDecider(("HTTP-004",), http.other_method, ("request",), STREAMABLE),
    HttpDecider(("HTTP-005",), http.post_accept, ("request",), STREAMABLE, ("POST",)),
    HttpDecider(("HTTP-006",), http.get_accept, ("request",), STATEFUL, ("GET",)),
    HttpDecider(("HTTP-007",), http.post_content_type, ("request",), STREAMABLE, ("POST",)),
    HttpDecider(
        ("HTTP-008", "HTTP-009", "RPC-015"), http.notification_answer, CONTENT, STREAMABLE, ("POST",)
    ),
    HttpDecider(("HTTP-008",), http.notification_status, ("end",), STREAMABLE, ("POST",)),
    HttpDecider(("HTTP-010",), http.answer_type, ("success",), STREAMABLE, ("POST",)),
    HttpDecider(("HTTP-011", "RPC-012"), http.json_answer, ("body",), STREAMABLE, ("POST",)),
    HttpDecider(("HTTP-011",), http.missing_json_answer, ("end",), STREAMABLE, ("POST",)),
    HttpDecider(("HTTP-016",), http.get_answer, ("success",), STATEFUL, ("GET",)),
    HttpDecider(("HTTP-019",), http.foreign_origin, ("success",), MCP),
    HttpDecider(("HTTP-020",), http.retired_method, HEAD, STATEFUL, ("GET", "DELETE")),
    HttpDecider(("SEQ-001",), http.unanswered_initialize, ("end",), STATEFUL, ("POST",)),
    # E. Streams
    HttpDecider(("HTTP-012", "SSE-005"), streams.unanswered_stream, ("end",), STATEFUL, ("POST",)),
    HttpDecider(("HTTP-013", "HTTP-017"), streams.unrelated_message, ("event",), STREAMABLE),
    HttpDecider(("HTTP-014",), streams.message_after_response, ("event",), STREAMABLE, ("POST",)),
    HttpDecider(("HTTP-014",), streams.lingering_stream, ("end", "close"), STREAMABLE, ("POST",)),
    HttpDecider(("HTTP-018",), streams.broadcast, ("event",), STATEFUL),
    HttpDecider(("SSE-001",), streams.event_id_reused, ("event",), STATEFUL),
    HttpDecider(("SSE-002",), streams.unknown_cursor, ("request",), STATEFUL, ("GET",)),
    HttpDecider(("SSE-003",), streams.foreign_replay, ("event",), STATEFUL, ("GET",)),
    HttpDecider(("SSE-004",), streams.missing_priming, ("event",), STATEFUL, ("POST",)),
    HttpDecider(("SSE-006",), streams.hasty_reconnect, ("request",), STATEFUL, ("GET",)),
    HttpDecider(("SSE-007",), streams.event_name, ("event",), STREAMABLE),
    HttpDecider(("SSE-008",), streams.buffered_stream, ("success",), STATELESS, ("POST",)),
    # E. Sessions
    HttpDecider(("PROTO-010",), sessions.issued_elsewhere, HEAD, STATEFUL),
    HttpDecider(("PROTO-010",), sessions.issued_with_error, CONTENT, STATEFUL, ("POST",)),
    HttpDecider(("PROTO-010",), sessions.unfit_id, ("success",), STATEFUL, ("POST",)),
    HttpDecider(("PROTO-010",), sessions.missing_id, ("request",), STATEFUL),
    HttpDecider(("PROTO-010",), sessions.missing_id_refused, ("refusal",), STATEFUL),
    HttpDecider(("PROTO-010",), sessions.invented_id, ("refusal",), STATEFUL),
    HttpDecider(("PROTO-010",), sessions.outlived_session, ("success",), STATEFUL),
    HttpDecider(("PROTO-010",), sessions.dead_id, ("request",), STATEFUL),
    HttpDecider(("PROTO-010",), sessions.abandoned_session, ("over",), STATEFUL),
    HttpDecider(("PROTO-010",), sessions.stateless_id, CONTENT, STATELESS),
    HttpDecider(("PROTO-008",), sessions.version_header, ("request",), STATEFUL),
    HttpDecider(("PROTO-008",), sessions.unfit_version, ("success",), STATEFUL),
    # F. Authorization
    HttpDecider(("AUTH-001",), authorization.expired_token, ("success",), MCP),
    HttpDecider(("AUTH-002",), authorization.unguided_challenge, ("refusal",), STREAMABLE),
    HttpDecider(("AUTH-002",), authorization.undiscoverable, ("refusal",), OTHER, ("GET",)),
    HttpDecider(("AUTH-003",), authorization.dropped_token, ("request",), STREAMABLE),
    HttpDecider(("AUTH-004",), authorization.token_in_query, ("request",), MCP),
    HttpDecider(("AUTH-005",), authorization.unexplained_refusal, ("refusal",), STREAMABLE),
    HttpDecider(("AUTH-006",), authorization.unscoped_challenge, ("refusal",), STREAMABLE),
    HttpDecider(("AUTH-007",), authorization.empty_metadata, ("body",), OTHER, ("GET",)),
    # R. Headers of stateless requests
    HttpDecider(
        ("HDR-001", "HDR-002", "PROTO-008"), headers.protocol_version, ("request",), STATELESS, ("POST",)
    ),
    HttpDecider(("HDR-003",), headers.method_header, ("request",), STATELESS, ("POST",)),
    HttpDecider(("HDR-004", "HDR-006"), headers.name_header, ("request",), STATELESS, ("POST",)),
    HttpDecider(
        ("HDR-005", "HDR-006", "HDR-009", "HDR-010"),
        headers.param_headers,
        ("request",),
        STATELESS,
        ("POST",),
    ),
    HttpDecider(("PROTO-008",), headers.unlisted_version, ("request",), STATELESS, ("POST",)),
    HttpDecider(("HDR-007",), headers.accepted_mismatch, CONTENT, STATELESS, ("POST",)),
    HttpDecider(
        ("ERR-002", "PROTO-008", "PROTO-009", "HDR-007"), headers.error_status, CONTENT, STATELESS, ("POST",)
    ),
)


@lru_cache(maxsize=1024)  # clients choose the methods
def http_checks_for(moment: Moment, traffic: Traffic, method: str) -> tuple[HttpCheck, ...]:
    """The checks that an exchange of this kind meets at this moment, in the table's order."""
    return tuple(
        decider.check
        for decider in HTTP_CHECKS
        if moment in decider.moments
        and traffic in decider.traffic
        and (not decider.methods or method in decider.methods)
    )


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
