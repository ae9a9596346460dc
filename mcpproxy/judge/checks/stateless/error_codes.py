"""Error codes in the stateless revisions: which codes are reserved, and what each code means.

A server that only knows revisions with a handshake may use any code. So nothing is reported before an answer
has shown that the server is modern, which means that it supports a stateless revision.

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/index#error-codes
"""

from collections.abc import Iterable
from typing import Final

from mcpproxy.judge.checks.engine.context import MessageContext, Violation, shortened
from mcpproxy.judge.checks.engine.rows import Check, RuleFamily
from mcpproxy.judge.checks.stateless.era import MODERN_CODES
from mcpproxy.judge.checks.stateless.self_contained import REMOVED
from mcpproxy.judge.checks.stateless.servers import missing_meta, server_of
from mcpproxy.judge.session.frame import SERVER, Severity
from mcpproxy.judge.session.history import History, SentRequest
from mcpproxy.protocol.error_message import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    JSON_RPC_CODES,
    RESOURCE_NOT_FOUND,
    URL_REQUIRED,
)
from mcpproxy.protocol.jsonrpc import ErrorResponse
from mcpproxy.protocol.message_parts import as_object, member
from mcpproxy.protocol.meta_keys import VERSION_KEY
from mcpproxy.protocol.revisions import STATELESS, stateless_of

RETIRED: Final = {RESOURCE_NOT_FOUND: "a resource that is not found", URL_REQUIRED: "an elicitation by URL"}
"""Codes of older revisions that the stateless ones do not use any more, and their meanings."""

WRONG_REFUSALS: Final = (INVALID_REQUEST, INVALID_PARAMS, INTERNAL_ERROR)
"""Codes that some servers use for an unknown method or version, although they mean something else."""


def _refusal_code(context: MessageContext, history: History) -> int | None:
    """Return the error code with which a modern server refuses a stateless request, otherwise ``None``."""
    message = context.message
    if not context.stateless or not isinstance(message, ErrorResponse) or not server_of(history).modern_seq:
        return None
    code = member(as_object(message.error), "code")
    return code if type(code) is int else None


def missing_method(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a code of ``WRONG_REFUSALS`` in the refusal of a method that the server does not have (ERR-002).

    ``transports.headers`` checks the HTTP status of the refusal.
    """
    code, request = _refusal_code(context, history), context.answers
    if code not in WRONG_REFUSALS or request is None or missing_meta(request.params):
        return ()
    if not (why := _why_not_implemented(request, history)):
        return ()
    problem = f"server refused {request.method}, which {why}, with {code} instead of -32601"
    requirement = "R-218" if history.over_http else "D-008"
    # Only a method that the revision lacks is certainly missing.
    at_most: Severity | None = None if request.method in REMOVED else "warning"
    return (
        Violation(
            "ERR-002",
            requirement,
            problem,
            pointer=context.at + "/error/code",
            related=(request.seq,),
            at_most=at_most,
        ),
    )


def _why_not_implemented(request: SentRequest, history: History) -> str:
    """Return why the server cannot have the requested method, as a clause; empty if it may have it."""
    if request.method in REMOVED:
        return f"{stateless_of(request.candidates)[0]} does not have"
    discovered = server_of(history).discovered
    if discovered is not None and request.method in discovered.lacks:
        return f"it does not declare in frame {discovered.seq}"
    return ""


def other_version_code(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a code of ``WRONG_REFUSALS`` in the refusal of a version that the server did not list in its
    result of server/discover (PROTO-008).
    """
    code, request = _refusal_code(context, history), context.answers
    if code not in WRONG_REFUSALS or request is None or missing_meta(request.params):
        return ()
    version, discovered = member(request.params, "_meta", VERSION_KEY), server_of(history).discovered
    if discovered is None or not isinstance(version, str) or version in discovered.versions:
        return ()
    problem = (
        f"server refused version {shortened(version)}, which it does not list, with {code} instead of -32022"
    )
    return (
        Violation(
            "PROTO-008",
            "R-219",
            problem,
            pointer=context.at + "/error/code",
            related=(request.seq, discovered.seq),
        ),
    )


def reserved_code(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report an error code that is reserved but not defined, that only older software or revisions use, or
    that is about HTTP headers, on stdio (ERR-003, ERR-004, ERR-005).
    """
    code = _refusal_code(context, history)
    if code is None or not -32768 <= code <= -32000 or code in JSON_RPC_CODES:
        return ()
    pointer = context.at + "/error/code"
    if code in RETIRED:
        problem = f"server used error code {code}, which stood for {RETIRED[code]} in older revisions"
        return (Violation("ERR-004", "R-226", problem, pointer=pointer),)
    if code in MODERN_CODES:
        if code != HEADER_MISMATCH or history.over_http:
            return ()  # ``transports.headers`` checks these errors.
        problem = "server used error code -32020, which is about HTTP headers, on stdio"
        # A warning only: the stdio server may be a gateway that passes on the error of an HTTP server.
        return (Violation("ERR-003", "R-225", problem, pointer=pointer, at_most="warning"),)
    if -32099 <= code <= -32020:
        problem = f"server used error code {code}, which is reserved for the specification and not defined"
        return (Violation("ERR-003", "R-225", problem, pointer=pointer),)
    if code >= -32019:
        problem = f"server used error code {code}, from a range that only older software may use"
        return (Violation("ERR-005", "R-227", problem, pointer=pointer, at_most="info"),)
    problem = f"server used error code {code}, which JSON-RPC reserves and does not define"
    return (Violation("ERR-005", "R-227", problem, pointer=pointer),)


FAMILY: Final = RuleFamily(
    checks=(
        Check(("ERR-002",), missing_method, (ErrorResponse,), sender=SERVER, within=STATELESS),
        Check(("PROTO-008",), other_version_code, (ErrorResponse,), sender=SERVER, within=STATELESS),
        Check(
            ("ERR-003", "ERR-004", "ERR-005"),
            reserved_code,
            (ErrorResponse,),
            sender=SERVER,
            within=STATELESS,
        ),
    ),
)
