"""The request server/discover: whether the server answers it, and whether both sides keep to the result.

The result, a DiscoverResult, lists the versions that the server supports and declares its capabilities. A
server is called modern here once an answer has shown that it supports a stateless revision. The first such
answer is ``modern_seq``; the first one to a request other than server/discover is ``served_seq``.

Source: https://modelcontextprotocol.io/specification/2026-07-28/server/discover
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.judge.checks.basic.capabilities import LISTS
from mcpproxy.judge.checks.engine.context import MessageContext, Violation, shortened
from mcpproxy.judge.checks.engine.rows import (
    ANSWERS,
    DISCOVERED,
    INTRODUCED,
    UNPROVEN,
    Check,
    RuleFamily,
    StateUpdate,
)
from mcpproxy.judge.checks.stateless.directions import earlier_server_requests
from mcpproxy.judge.checks.stateless.servers import (
    Discovered,
    KnownServer,
    is_certainly_stateless,
    is_modern_answer,
    remember_discovery,
    remember_refusal,
    remember_server,
    server_of,
    strings_in,
)
from mcpproxy.judge.session.frame import SERVER
from mcpproxy.judge.session.history import History
from mcpproxy.protocol.error_message import METHOD_NOT_FOUND
from mcpproxy.protocol.jsonrpc import ErrorResponse, Notification, Request, Response
from mcpproxy.protocol.message_parts import as_object, member
from mcpproxy.protocol.meta_keys import VERSION_KEY
from mcpproxy.protocol.methods import declares
from mcpproxy.protocol.revisions import STATELESS, stateless_of

# The answer to server/discover


def undiscoverable(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report the first answer with which a modern server refuses server/discover as unknown (DISC-001)."""
    known_server, message, request = server_of(history), context.message, context.answers
    is_unknown = (
        isinstance(message, ErrorResponse) and member(as_object(message.error), "code") == METHOD_NOT_FOUND
    )
    if request is None or not is_certainly_stateless(request.params):
        return ()  # A server that also has a handshake may have expected one before this request.
    if context.stateless and is_unknown and known_server.served_seq and not known_server.no_discovery_seq:
        return (_undiscoverable(context.seq, known_server.served_seq, context),)
    return ()


def faults_before_proof(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report earlier faults once an answer proves that the server is modern (DISC-001, STAT-006).

    Before that proof, the same messages could have been correct in a revision with a handshake.
    """
    if not context.stateless or context.answers is None:
        return ()
    known_server = server_of(history)
    if (known_server.served_seq and known_server.modern_seq) or not is_modern_answer(context):
        return ()
    violations = () if known_server.modern_seq else earlier_server_requests(history)
    is_service = context.answers.method != "server/discover"
    if known_server.no_discovery_seq and not known_server.served_seq and is_service:
        violations = (*violations, _undiscoverable(known_server.no_discovery_seq, context.seq, context))
    return violations


def _undiscoverable(refused_seq: int, proof_seq: int, context: MessageContext) -> Violation:
    """Return the violation in frame ``refused_seq``, given that ``proof_seq`` shows a modern server."""
    candidates = stateless_of(context.candidates)
    problem = (
        f"server does not know server/discover, although frame {proof_seq} shows a {candidates[0]} server"
    )
    return Violation(
        "DISC-001",
        "R-221",
        problem,
        related=(proof_seq,),
        frame=refused_seq,
        candidates=candidates,
    )


def listed_versions(context: MessageContext[Response], history: History) -> Iterable[Violation]:
    """Report a list of versions that is empty or lacks the version of the request (DISC-002)."""
    message, request = context.message, context.answers
    assert request is not None
    version_list, version = (
        member(message.result, "supportedVersions"),
        member(request.params, "_meta", VERSION_KEY),
    )
    versions = strings_in(version_list)
    if version_list == []:
        problem = "server listed no supported version at all"
    elif isinstance(version, str) and version not in versions and any(v in STATELESS for v in versions):
        problem = (
            f"server answered a request in version {shortened(version)}, which it does not list as supported"
        )
    else:
        return ()  # A server that lists only revisions with a handshake may answer like this.
    pointer = context.at + "/result/supportedVersions"
    return (
        Violation("DISC-002", "R-222", problem, pointer=pointer, related=(request.seq,), at_most="warning"),
    )


# The client's version


def unlisted_version(message: Request, context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a request with a version that the server did not list as supported, on stdio (PROTO-008).

    Over HTTP several clients may use the server, so ``transports.headers`` compares per connection.
    """
    known_server = server_of(history)
    if history.over_http or (known_server.discovered is None and known_server.version_refusal is None):
        return
    version = member(message.params, "_meta", VERSION_KEY)
    requirement, seq, versions = _latest_list(known_server)
    if message.method == "server/discover" or not isinstance(version, str) or version in versions:
        return
    if any(listed in STATELESS for listed in versions):
        version_list = shortened(", ".join(versions))
        problem = f"client requested version {shortened(version)}; frame {seq} lists {version_list}"
        pointer = context.at + "/params/_meta/io.modelcontextprotocol~1protocolVersion"
        yield Violation(
            *requirement, problem, pointer=pointer, related=(seq,), candidates=stateless_of(versions)
        )


def _latest_list(known_server: KnownServer) -> tuple[tuple[str, str], int, tuple[str, ...]]:
    """Return the requirement to use a listed version, and the latest list: its frame and its versions."""
    discovered, refusal = known_server.discovered, known_server.version_refusal
    if refusal is not None and (discovered is None or refusal[0] > discovered.seq):
        return ("PROTO-008", "R-220"), *refusal
    assert discovered is not None
    return ("PROTO-008", "R-223"), discovered.seq, discovered.versions


# The server's declarations


def undeclared_service(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a result for a request that needs a capability missing in the DiscoverResult (PROTO-009)."""
    request = context.answers
    if request is None or not context.stateless:
        return ()
    discovered = server_of(history).discovered
    if discovered is None or (capability := discovered.lacks.get(request.method)) is None:
        return ()
    problem = (
        f"server answered {request.method} with a result, "
        f"but frame {discovered.seq} does not declare {capability}"
    )
    return (unlike_discovered(("PROTO-009", "R-045"), problem, "/result", context, discovered),)


def undeclared_log(context: MessageContext[Notification], history: History) -> Iterable[Violation]:
    """Report a log message of a server whose DiscoverResult does not declare logging (PROTO-009)."""
    message = context.message
    if history.stateless_seq is None or history.stateful_seq is not None or context.sender != SERVER:
        return ()
    discovered = server_of(history).discovered
    if discovered is None or declares(discovered.capabilities, "logging"):
        return ()
    problem = f"server sent {message.method}, but frame {discovered.seq} does not declare logging"
    return (
        Violation(
            "PROTO-009",
            "R-050",
            problem,
            pointer=context.at + "/method",
            related=(discovered.seq,),
            at_most="warning",
        ),
    )


def unserved_list(context: MessageContext[ErrorResponse], history: History) -> Iterable[Violation]:
    """Report a server that declares a feature and refuses its list method as unknown (PROTO-009)."""
    request, message = context.answers, context.message
    if request is None or not context.stateless or (discovered := server_of(history).discovered) is None:
        return ()
    capability = request.method.partition("/")[0]
    if member(as_object(message.error), "code") != METHOD_NOT_FOUND:
        return ()
    if not declares(discovered.capabilities, capability):
        return ()
    problem = f"server declared {capability} in frame {discovered.seq}, but does not know {request.method}"
    return (unlike_discovered(("PROTO-009", "R-046"), problem, "/error/code", context, discovered),)


def unlike_discovered(
    requirement: tuple[str, str],
    problem: str,
    pointer: str,
    context: MessageContext,
    discovered: Discovered,
) -> Violation:
    """Return the violation of an answer that does not fit the DiscoverResult.

    ``requirement`` is the rule with its requirement, and ``pointer`` begins at the message. The violation is
    only a warning after the DiscoverResult has expired.
    """
    assert context.answers is not None
    has_expired = context.frame.observed_at_ns > discovered.fresh_until_ns
    return Violation(
        *requirement,
        problem,
        pointer=context.at + pointer,
        related=(discovered.seq, context.answers.seq),
        at_most="warning" if has_expired else None,
    )


FAMILY: Final = RuleFamily(
    checks=(
        Check(("DISC-001",), undiscoverable, (ErrorResponse,), ("server/discover",), sender=SERVER),
        Check(
            ("DISC-001", "STAT-006"),
            faults_before_proof,
            ANSWERS,
            sender=SERVER,
            within=STATELESS,
            given=UNPROVEN,
        ),
        Check(("DISC-002",), listed_versions, (Response,), ("server/discover",), sender=SERVER),
        Check(
            ("PROTO-009",),
            undeclared_service,
            (Response,),
            sender=SERVER,
            within=STATELESS,
            given=DISCOVERED,
        ),
        Check(("PROTO-009",), undeclared_log, (Notification,), ("notifications/message",), sender=SERVER),
        Check(("PROTO-009",), unserved_list, (ErrorResponse,), LISTS, sender=SERVER, within=STATELESS),
    ),
    updates=(
        StateUpdate(
            remember_server,
            ANSWERS,
            sender=SERVER,
            within=STATELESS,
            mentions=(b'"_meta"',),
            given=UNPROVEN | INTRODUCED,
        ),
        StateUpdate(remember_refusal, (ErrorResponse,), sender=SERVER, within=STATELESS),
        StateUpdate(remember_discovery, (Response,), ("server/discover",), sender=SERVER),
    ),
)
