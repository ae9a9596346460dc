"""server/discover: whether it is answered, what its result lists, and whether both sides keep to it.

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


def undiscoverable(context: MessageContext[ErrorResponse], history: History) -> Iterable[Violation]:
    """Report a server of a stateless revision that does not know server/discover (DISC-001)."""
    known, message, asked = server(history), context.message, context.answers
    refused = member(as_object(message.error), "code") == -32601
    if asked is None or not names_this_era(asked.params):
        return ()  # A server of both eras may have taken it for a request of the other one.
    if context.stateless and refused and known.served and not known.unknown:
        return (_undiscoverable(context.seq, known.served, context),)
    return ()


def held_back(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report earlier faults once the server shows that it is of a stateless revision (DISC-001, STAT-006)."""
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
    problem = f"server does not know server/discover, although frame {served} shows a {candidates[0]} server"
    return Violation(
        "DISC-001", "R-221", problem, pointer=None, related=(served,), frame=refused, candidates=candidates
    )


def listed_versions(context: MessageContext[Response], history: History) -> Iterable[Violation]:
    """Report a list of versions that is empty or lacks the version of the request (DISC-002)."""
    message, asked = context.message, context.answers
    assert asked is not None
    listed, used = member(message.result, "supportedVersions"), member(asked.params, "_meta", VERSION_KEY)
    versions = texts(listed)
    if listed == []:
        problem = "server listed no supported version at all"
    elif isinstance(used, str) and used not in versions and any(v in STATELESS for v in versions):
        problem = (
            f"server answered a request in version {shortened(used)}, which it does not list as supported"
        )
    else:
        return ()  # A server that lists only older revisions does not speak this era.
    at = context.at + "/result/supportedVersions"
    return (Violation("DISC-002", "R-222", problem, pointer=at, related=(asked.seq,), at_most="warning"),)


# The client's version


def unlisted_version(message: Request, context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a request with a version that the server did not list (PROTO-008).

    Over HTTP, where only connections tell clients apart, ``transports.headers`` reports it.
    """
    known = server(history)
    if history.over_http or (known.listed is None and known.refused is None):
        return
    named = member(message.params, "_meta", VERSION_KEY)
    broken, seq, versions = _latest_list(known)
    if message.method == "server/discover" or not isinstance(named, str) or named in versions:
        return
    if any(version in STATELESS for version in versions):
        listed = shortened(", ".join(versions))
        problem = f"client requested version {shortened(named)}; frame {seq} lists {listed}"
        at = context.at + "/params/_meta/io.modelcontextprotocol~1protocolVersion"
        yield Violation(*broken, problem, pointer=at, related=(seq,), candidates=stateless_of(versions))


def _latest_list(known: KnownServer) -> tuple[tuple[str, str], int, tuple[str, ...]]:
    """Return the requirement that an unlisted version breaks, the frame of the latest list, and the list."""
    if known.refused is not None and (known.listed is None or known.refused[0] > known.listed.seq):
        return ("PROTO-008", "R-220"), *known.refused
    assert known.listed is not None
    return ("PROTO-008", "R-223"), known.listed.seq, known.listed.versions


# The server's declarations


def undeclared_service(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a server that answers a request for a feature its DiscoverResult lacks (PROTO-009)."""
    asked = context.answers
    if asked is None or not context.stateless:
        return ()
    listed = server(history).listed
    if listed is None or (lacks := listed.lacks.get(asked.method)) is None:
        return ()
    problem = f"server answered {asked.method} with a result, but frame {listed.seq} does not declare {lacks}"
    return (_undeclared(("PROTO-009", "R-045"), problem, "/result", context, listed),)


def undeclared_log(context: MessageContext[Notification], history: History) -> Iterable[Violation]:
    """Report a log message of a server whose DiscoverResult lacks logging (PROTO-009)."""
    message = context.message
    if history.stateless_seq is None or history.stateful_seq is not None or context.sender != SERVER:
        return ()
    listed = server(history).listed
    if listed is None or declares(listed.capabilities, "logging"):
        return ()
    problem = f"server sent {message.method}, but frame {listed.seq} does not declare logging"
    return (
        Violation(
            "PROTO-009",
            "R-050",
            problem,
            pointer=context.at + "/method",
            related=(listed.seq,),
            at_most="warning",
        ),
    )


def unserved_list(context: MessageContext[ErrorResponse], history: History) -> Iterable[Violation]:
    """Report a server that does not know the list method of a feature it declares (PROTO-009)."""
    asked, message = context.answers, context.message
    if asked is None or not context.stateless or (listed := server(history).listed) is None:
        return ()
    path = asked.method.partition("/")[0]
    if member(as_object(message.error), "code") != -32601 or not declares(listed.capabilities, path):
        return ()
    problem = f"server declared {path} in frame {listed.seq}, but does not know {asked.method}"
    return (_undeclared(("PROTO-009", "R-046"), problem, "/error/code", context, listed),)


def _undeclared(
    broken: tuple[str, str], problem: str, at: str, context: MessageContext, listed: Discovered
) -> Violation:
    """A violation of what a DiscoverResult declares; only a warning once it may have expired."""
    assert context.answers is not None
    stale = context.frame.observed_at_ns > listed.fresh_until_ns
    related = (listed.seq, context.answers.seq)
    return Violation(
        *broken, problem, pointer=context.at + at, related=related, at_most="warning" if stale else None
    )


FAMILY: Final = RuleFamily(
    checks=(
        Check(("DISC-001",), undiscoverable, (ErrorResponse,), ("server/discover",), sender=SERVER),
        Check(("DISC-001", "STAT-006"), held_back, ANSWERS, sender=SERVER, within=STATELESS, given=UNPROVEN),
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
