"""Revisions with and without a handshake (the two eras) on one connection: probes, fallbacks, refusals.

A client may try a stateless request first and fall back to initialize. It must not fall back after the server
has shown that it speaks a stateless revision.

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#backward-compatibility-with-initialization-based-versions
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.checks.engine.context import MessageContext, Violation, as_object, member
from mcpproxy.checks.engine.rows import Check, RuleFamily, StateUpdate
from mcpproxy.checks.stateless.servers import texts
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, Request, Response
from mcpproxy.protocol.revisions import REVISIONS, STATEFUL, STATELESS
from mcpproxy.session.exchanges import HttpExchange, singles
from mcpproxy.session.frame import Frame
from mcpproxy.session.history import History, ModernAnswer

MODERN_CODES: Final = (-32020, -32021, -32022)
"""Error codes that only the stateless revisions define."""


def modern_answer(context: MessageContext) -> ModernAnswer | None:
    """Return what this answer shows of a server of the stateless era, ``None`` if nothing."""
    message, asked = context.message, context.answers
    if asked is None or not asked.stateless:
        return None
    if isinstance(message, Response) and asked.method == "server/discover":
        return ModernAnswer(
            context.seq,
            texts(member(message.result, "supportedVersions")),
            request_candidates=context.candidates,
        )
    if isinstance(message, ErrorResponse):
        error = as_object(message.error)
        if member(error, "code") in MODERN_CODES:
            listed = texts(member(error, "data", "supported"))
            return ModernAnswer(context.seq, listed, refused=True, request_candidates=context.candidates)
    return None


def remember_support(context: MessageContext, history: History) -> None:
    """Record which versions the server named, and that it speaks a stateless revision."""
    for version in listed_versions(context):
        history.supported.setdefault(version, context.seq)
    history.modern_answer = modern_answer(context) or history.modern_answer


def shows_modern(exchange: HttpExchange, frame: Frame) -> bool:
    """Whether this answer to a stateless request comes from a server that speaks such a revision.

    A server of the other era may answer too: with an error, or as if the request were one of its own era.
    That is not reported.
    """
    for message in singles(frame)[0]:
        if isinstance(message, Response) and exchange.requests:
            if exchange.requests[0].method != "server/discover":
                return member(message.result, "resultType") is not None
            listed = texts(member(message.result, "supportedVersions"))
            return any(version in STATELESS for version in listed)
        if isinstance(message, ErrorResponse):
            code = member(message.value, "error", "code")
            if code == -32601 and exchange.status == 404:
                # Every server of such a revision has server/discover, so who refuses that is not one.
                return not any(asked.method == "server/discover" for asked in exchange.requests)
            return code in MODERN_CODES
    return False


def listed_versions(context: MessageContext) -> tuple[str, ...]:
    """Return the versions that a server names as supported, in a DiscoverResult or an error's data."""
    message = context.message
    if isinstance(message, Response) and context.answers and context.answers.method == "server/discover":
        return texts(member(message.result, "supportedVersions"))
    if isinstance(message, ErrorResponse):
        return texts(member(as_object(message.error), "data", "supported"))
    return ()


def fallback_after_modern_answer(context: MessageContext[Request], history: History) -> Iterator[Violation]:
    """Report an initialize after the server has shown that it needs none (ERA-002)."""
    answer = history.modern_answer
    if context.sender != "client" or answer is None or history.stateful_seq is not None:
        return
    if answer.versions and not answer.stateless_versions:
        return  # It listed only revisions that need the handshake.
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
    """Report a refusal of initialize that names no supported version (ERA-003)."""
    message, answer = context.message, history.modern_answer
    if answer is None or any(version in STATEFUL for version in answer.versions):
        return
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


def _names_a_version(error: "JSON") -> bool:
    stack = [error]  # It may be nested deeper than Python can recurse.
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
