"""The two eras on one connection: revisions with a handshake, and stateless ones.

A client that supports both may try a stateless request first and fall back to initialize. It must not fall
back after a *modern answer*: an answer that shows that the server supports a stateless revision.

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#backward-compatibility-with-initialization-based-versions
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.rows import Check, RuleFamily, StateUpdate
from mcpproxy.judge.checks.stateless.servers import strings_in
from mcpproxy.judge.session.exchanges import HttpExchange
from mcpproxy.judge.session.frame import CLIENT, Frame
from mcpproxy.judge.session.history import History, ModernAnswer
from mcpproxy.protocol.error_message import (
    HEADER_MISMATCH,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    UNSUPPORTED_VERSION,
)
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, Request, Response
from mcpproxy.protocol.message_parts import as_object, member, well_formed
from mcpproxy.protocol.revisions import REVISIONS, STATEFUL, STATELESS

MODERN_CODES: Final = (HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION)
"""Error codes that only the stateless revisions define."""


def modern_answer(context: MessageContext) -> ModernAnswer | None:
    """Return the proof in this answer that the server supports a stateless revision; ``None`` without one.

    Only a DiscoverResult (the result of server/discover), whatever versions it lists, and the errors of
    ``MODERN_CODES`` count here.
    ``servers.is_modern_answer`` decides by other criteria.
    """
    message, request = context.message, context.answers
    if request is None or not request.stateless:
        return None
    if isinstance(message, Response) and request.method == "server/discover":
        return ModernAnswer(
            context.seq,
            strings_in(member(message.result, "supportedVersions")),
            request_candidates=context.candidates,
        )
    if isinstance(message, ErrorResponse):
        error = as_object(message.error)
        if member(error, "code") in MODERN_CODES:
            versions = strings_in(member(error, "data", "supported"))
            return ModernAnswer(context.seq, versions, refused=True, request_candidates=context.candidates)
    return None


def remember_support(context: MessageContext, history: History) -> None:
    """Record which versions the server lists, and a proof that it supports a stateless revision."""
    for version in listed_versions(context):
        history.supported_versions.setdefault(version, context.seq)
    history.modern_answer = modern_answer(context) or history.modern_answer


def shows_modern(exchange: HttpExchange, frame: Frame) -> bool:
    """Whether this answer to a stateless request over HTTP shows that the server is modern.

    A *modern* server supports a stateless revision. A server that only knows revisions with a handshake may
    answer too: with an error, or as if the request belonged to such a revision.
    """
    for message in well_formed(frame.message):
        if isinstance(message, Response) and exchange.requests:
            if exchange.requests[0].method != "server/discover":
                return member(message.result, "resultType") is not None
            versions = strings_in(member(message.result, "supportedVersions"))
            return any(version in STATELESS for version in versions)
        if isinstance(message, ErrorResponse):
            code = member(message.value, "error", "code")
            if code == METHOD_NOT_FOUND and exchange.status == 404:
                # Every modern server has server/discover, so a server that refuses it is not modern.
                return not any(asked.method == "server/discover" for asked in exchange.requests)
            return code in MODERN_CODES
    return False


def listed_versions(context: MessageContext) -> tuple[str, ...]:
    """Return the versions that a server names as supported, in a DiscoverResult or an error's data."""
    message = context.message
    if isinstance(message, Response) and context.answers and context.answers.method == "server/discover":
        return strings_in(member(message.result, "supportedVersions"))
    if isinstance(message, ErrorResponse):
        return strings_in(member(as_object(message.error), "data", "supported"))
    return ()


def fallback_after_modern_answer(context: MessageContext[Request], history: History) -> Iterator[Violation]:
    """Report an initialize after a modern answer has shown that the server needs none (ERA-002)."""
    answer = history.modern_answer
    if context.sender != CLIENT or answer is None or history.stateful_seq is not None:
        return
    if answer.versions and not answer.stateless_versions:
        return  # The server listed only revisions that need the handshake.
    problem = (
        f"client fell back to initialize, although frame {answer.seq} showed a {answer.candidates[0]} server"
    )
    yield Violation(
        "ERA-002",
        "R-275",
        problem,
        pointer=context.at + "/method",
        related=(answer.seq,),
        candidates=answer.candidates,
    )


def refusal_without_versions(context: MessageContext[ErrorResponse], history: History) -> Iterator[Violation]:
    """Report a modern server that refuses initialize without naming a supported version (ERA-003)."""
    message, answer = context.message, history.modern_answer
    if answer is None or any(version in STATEFUL for version in answer.versions):
        return  # ERA-003 is only about servers without a handshake.
    if not _names_a_version(message.error if isinstance(message.error, dict) else None):
        problem = "server refused initialize without naming the versions it speaks"
        yield Violation(
            "ERA-003",
            "R-276",
            problem,
            pointer=context.at + "/error",
            related=(answer.seq,),
            candidates=answer.candidates,
        )


def _names_a_version(error: JSON) -> bool:
    """Whether some string in ``error``, at any depth, contains the name of a revision."""
    stack = [error]  # A stack, because the error may be nested deeper than Python can recurse.
    while stack:
        value = stack.pop()
        if isinstance(value, str) and any(revision in value for revision in REVISIONS):
            return True
        if isinstance(value, dict):
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)
    return False


FAMILY: Final = RuleFamily(
    checks=(
        Check(("ERA-002",), fallback_after_modern_answer, (Request,), ("initialize",)),
        Check(("ERA-003",), refusal_without_versions, (ErrorResponse,), ("initialize",)),
    ),
    updates=(
        StateUpdate(remember_support, (Response,), ("server/discover",)),
        StateUpdate(remember_support, (ErrorResponse,)),
    ),
)
