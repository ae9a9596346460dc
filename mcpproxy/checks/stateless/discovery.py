"""server/discover: whether it is answered, what its result lists, and whether both sides follow it.

Source: https://modelcontextprotocol.io/specification/2026-07-28/server/discover
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.checks.basic.capabilities import LISTS
from mcpproxy.checks.engine.context import MessageContext, Violation, as_object, member, shortened
from mcpproxy.checks.engine.rows import (
    ANSWERS,
    DISCOVERED,
    INTRODUCED,
    UNPROVEN,
    Check,
    RuleFamily,
    StateUpdate,
)
from mcpproxy.checks.stateless.directions import earlier_server_requests
from mcpproxy.checks.stateless.servers import (
    Discovered,
    KnownServer,
    names_this_era,
    remember_discovery,
    remember_refusal,
    remember_server,
    server,
    shows_itself,
    texts,
)
from mcpproxy.protocol.jsonrpc import ErrorResponse, Notification, Request, Response
from mcpproxy.protocol.methods import declares
from mcpproxy.protocol.revisions import STATELESS, VERSION_KEY, stateless_of
from mcpproxy.session.frame import SERVER
from mcpproxy.session.history import History

# The answer to server/discover


def undiscoverable(context: MessageContext, history: History) -> Iterable[Violation]:
    """DISC-001"""
    known, message, asked = server(history), context.message, context.answers
    refused = isinstance(message, ErrorResponse) and member(as_object(message.error), "code") == -32601
    if asked is None or not names_this_era(asked.params):
        return ()  # A server of both eras may have taken it for a request of the other one.
    if context.stateless and refused and known.served and not known.unknown:
        return (_undiscoverable(context.seq, known.served, context),)
    return ()


def shown_at_last(context: MessageContext, history: History) -> Iterable[Violation]:
    """DISC-001, STAT-006: what was not to be told before the server had shown which era it speaks"""
    if not context.stateless or context.answers is None:
        return ()
    known = server(history)
    if (known.served and known.modern) or not shows_itself(context):
        return ()
    found = () if known.modern else earlier_server_requests(history)
    if known.unknown and not known.served and context.answers.method != "server/discover":
        found = (*found, _undiscoverable(known.unknown, context.seq, context))
    return found


def _undiscoverable(refused: int, served: int, context: MessageContext) -> Violation:
    candidates = stateless_of(context.candidates)
    said = f"server does not know server/discover, although frame {served} shows a {candidates[0]} server"
    return Violation(
        "DISC-001", "R-221", said, pointer=None, related=(served,), frame=refused, candidates=candidates
    )


def listed_versions(context: MessageContext, history: History) -> Iterable[Violation]:
    """DISC-002: whether the list makes sense; its shape is seen with all others"""
    message, asked = context.message, context.answers
    assert isinstance(message, Response)
    assert asked is not None
    listed, used = member(message.result, "supportedVersions"), member(asked.params, "_meta", VERSION_KEY)
    versions = texts(listed)
    if listed == []:
        said = "server listed no supported version at all"
    elif isinstance(used, str) and used not in versions and any(v in STATELESS for v in versions):
        said = f"server answered a request in version {shortened(used)}, which it does not list as supported"
    else:
        return ()  # A server that lists only older revisions does not speak this era.
    at = context.at + "/result/supportedVersions"
    return (Violation("DISC-002", "R-222", said, pointer=at, related=(asked.seq,), at_most="warning"),)


# How a client uses it


def unlisted_version(message: Request, context: MessageContext, history: History) -> Iterator[Violation]:
    """PROTO-008: over HTTP this is seen with the exchange, since only a connection tells clients apart"""
    known = server(history)
    if history.over_http or (known.listed is None and known.refused is None):
        return
    named = member(message.params, "_meta", VERSION_KEY)
    broken, seq, versions = _latest_list(known)
    if message.method == "server/discover" or not isinstance(named, str) or named in versions:
        return
    if any(version in STATELESS for version in versions):
        said = f"client asks for {shortened(named)}; frame {seq} lists {shortened(', '.join(versions))}"
        at = context.at + "/params/_meta/io.modelcontextprotocol~1protocolVersion"
        yield Violation(*broken, said, pointer=at, related=(seq,), candidates=stateless_of(versions))


def _latest_list(known: KnownServer) -> tuple[tuple[str, str], int, tuple[str, ...]]:
    """The versions that the server named last, where, and what it means to use another."""
    if known.refused is not None and (known.listed is None or known.refused[0] > known.listed.seq):
        return ("PROTO-008", "R-220"), *known.refused
    assert known.listed is not None
    return ("PROTO-008", "R-223"), known.listed.seq, known.listed.versions


# What a server declares, and what it serves


def undeclared_service(context: MessageContext, history: History) -> Iterable[Violation]:
    """PROTO-009: the server answers a feature request although its DiscoverResult lacks the feature"""
    asked = context.answers
    if asked is None or not context.stateless:
        return ()
    listed = server(history).listed
    if listed is None or (lacks := listed.lacks.get(asked.method)) is None:
        return ()
    said = f"server answered {asked.method} with a result, but frame {listed.seq} does not declare {lacks}"
    return (_undeclared(("PROTO-009", "R-045"), said, "/result", context, listed),)


def undeclared_log(context: MessageContext, history: History) -> Iterable[Violation]:
    """PROTO-009: a log message of a server whose DiscoverResult lacks logging"""
    message = context.message
    assert isinstance(message, Notification)
    if history.stateless_seq is None or history.stateful_seq is not None or context.sender != SERVER:
        return ()
    listed = server(history).listed
    if listed is None or declares(listed.capabilities, "logging"):
        return ()
    said = f"server sent {message.method}, but frame {listed.seq} does not declare logging"
    return (
        Violation(
            "PROTO-009",
            "R-050",
            said,
            pointer=context.at + "/method",
            related=(listed.seq,),
            at_most="warning",
        ),
    )


def unserved_list(context: MessageContext, history: History) -> Iterable[Violation]:
    """PROTO-009: the server does not know the list method that its DiscoverResult promises"""
    asked, message = context.answers, context.message
    assert isinstance(message, ErrorResponse)
    if asked is None or not context.stateless or (listed := server(history).listed) is None:
        return ()
    path = asked.method.partition("/")[0]
    if member(as_object(message.error), "code") != -32601 or not declares(listed.capabilities, path):
        return ()
    said = f"server declared {path} in frame {listed.seq}, but does not know {asked.method}"
    return (_undeclared(("PROTO-009", "R-046"), said, "/error/code", context, listed),)


def _undeclared(
    broken: tuple[str, str], said: str, at: str, context: MessageContext, listed: Discovered
) -> Violation:
    """A breach of what a DiscoverResult declares; only a warning once the declaration may have changed."""
    assert context.answers is not None
    stale = context.frame.observed_at_ns > listed.fresh_until_ns
    related = (listed.seq, context.answers.seq)
    return Violation(
        *broken, said, pointer=context.at + at, related=related, at_most="warning" if stale else None
    )


FAMILY: Final = RuleFamily(
    checks=(
        Check(("DISC-001",), undiscoverable, ("error",), ("server/discover",), sender=SERVER),
        Check(
            ("DISC-001", "STAT-006"), shown_at_last, ANSWERS, sender=SERVER, within=STATELESS, given=UNPROVEN
        ),
        Check(("DISC-002",), listed_versions, ("response",), ("server/discover",), sender=SERVER),
        Check(
            ("PROTO-009",),
            undeclared_service,
            ("response",),
            sender=SERVER,
            within=STATELESS,
            given=DISCOVERED,
        ),
        Check(("PROTO-009",), undeclared_log, ("notification",), ("notifications/message",), sender=SERVER),
        Check(("PROTO-009",), unserved_list, ("error",), LISTS, sender=SERVER, within=STATELESS),
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
        StateUpdate(remember_refusal, ("error",), sender=SERVER, within=STATELESS),
        StateUpdate(remember_discovery, ("response",), ("server/discover",), sender=SERVER),
    ),
)
