"""server/discover: that it is answered, what its result lists, and whether both sides keep to it.

Source: https://modelcontextprotocol.io/specification/2026-07-28/server/discover
"""

from collections.abc import Iterable
from typing import Final

from mcpproxy.checks.breach import Breach, Passing, as_object, member, shortened
from mcpproxy.checks.capabilities import LISTS
from mcpproxy.checks.servers import (
    Listed,
    Server,
    note_discovery,
    note_refusal,
    note_server,
    server,
    shows_itself,
    texts,
)
from mcpproxy.checks.table import ANSWERS, Decider, Family, Note
from mcpproxy.protocol.jsonrpc import ErrorResponse, Notification, Request, Response
from mcpproxy.protocol.methods import declares, needs
from mcpproxy.protocol.revisions import CAPABILITIES_KEY, STATELESS, VERSION_KEY
from mcpproxy.session.frame import SERVER
from mcpproxy.session.history import History

# What it answers to server/discover


def undiscoverable(passing: Passing, history: History) -> Iterable[Breach]:
    """DISC-001: told once it is certain that the server speaks the revision, whichever came first"""
    if not passing.stateless or passing.answers is None:
        return ()
    known, message = server(history), passing.message
    if passing.answers.method == "server/discover":
        refused = isinstance(message, ErrorResponse) and member(as_object(message.error), "code") == -32601
        if refused and known.served and not known.unknown:
            return (_undiscoverable(passing, passing.seq, known.served),)
    elif known.unknown and not known.served and shows_itself(passing):
        return (_undiscoverable(passing, known.unknown, passing.seq),)
    return ()


def _undiscoverable(passing: Passing, refused: int, served: int) -> Breach:
    said = f"server does not know server/discover, although frame {served} shows a {STATELESS[0]} server"
    return Breach("DISC-001", "R-221", said, None, (served,), frame=refused, candidates=STATELESS)


def listed_versions(passing: Passing, history: History) -> Iterable[Breach]:
    """DISC-002: whether the list makes sense; its shape is seen with all others"""
    message, asked = passing.message, passing.answers
    assert isinstance(message, Response)
    assert asked is not None
    listed, used = member(message.result, "supportedVersions"), member(asked.params, "_meta", VERSION_KEY)
    versions = texts(listed)
    if listed == []:
        said = "server listed no supported version at all"
    elif isinstance(used, str) and used not in versions and any(v in STATELESS for v in versions):
        said = f"server answered a request in version {shortened(used)}, which it does not list as supported"
    else:
        return ()  # One that lists none but older revisions speaks none of this era.
    at = passing.at + "/result/supportedVersions"
    return (Breach("DISC-002", "R-222", said, at, (asked.seq,), at_most="warning"),)


# What a client makes of it


def unlisted_version(passing: Passing, history: History) -> Iterable[Breach]:
    """PROTO-008: over HTTP this is seen with the exchange, since only a connection tells clients apart"""
    message = passing.message
    if not passing.stateless or history.over_http or not isinstance(message, Request):
        return ()
    known = server(history)
    if (known.listed is None and known.refused is None) or message.method == "server/discover":
        return ()
    named = member(message.params, "_meta", VERSION_KEY)
    broken, seq, versions = _latest_list(known)
    if not isinstance(named, str) or named in versions or not any(v in STATELESS for v in versions):
        return ()
    listed = shortened(", ".join(versions))
    said = f"client asks for {shortened(named)}; frame {seq} lists {listed}"
    at = passing.at + "/params/_meta/io.modelcontextprotocol~1protocolVersion"
    return (Breach(*broken, said, at, (seq,), candidates=STATELESS[:1]),)


def _latest_list(known: Server) -> tuple[tuple[str, str], int, tuple[str, ...]]:
    """Which versions the server named last, where, and what it means to go on with another."""
    if known.refused is not None and (known.listed is None or known.refused[0] > known.listed.seq):
        return ("PROTO-008", "R-220"), *known.refused
    assert known.listed is not None
    return ("PROTO-008", "R-223"), known.listed.seq, known.listed.versions


def elicitation_modes(passing: Passing, history: History) -> Iterable[Breach]:
    """PROTO-009: a client that declares elicitation names at least one mode, or none at all"""
    message = passing.message
    if not passing.stateless or not isinstance(message, Request):
        return ()
    declared = as_object(member(message.params, "_meta", CAPABILITIES_KEY, "elicitation"))
    if not declared or "form" in declared or "url" in declared:
        return ()
    at = passing.at + "/params/_meta/io.modelcontextprotocol~1clientCapabilities/elicitation"
    said = "client declared elicitation with members, but neither the form nor the url mode"
    return (Breach("PROTO-009", "R-052", said, at),)


# What a server declares, and what it serves


def undeclared_service(passing: Passing, history: History) -> Iterable[Breach]:
    """PROTO-009: the server answers a feature request although its DiscoverResult lacks the feature"""
    asked = passing.answers
    if asked is None or not passing.stateless or (listed := server(history).listed) is None:
        return ()
    for need in needs(asked.method, STATELESS[0]):
        plain = need.declared_by == "server" and need.condition == "always" and "." not in need.path
        if plain and not declares(listed.capabilities, need.path):
            said = f"server answered {asked.method} with a result, but frame {listed.seq} does not declare "
            return (_undeclared(("PROTO-009", "R-045"), said + need.path, "/result", passing, listed),)
    return ()


def undeclared_log(passing: Passing, history: History) -> Iterable[Breach]:
    """PROTO-009: a log message of a server whose DiscoverResult lacks logging"""
    message = passing.message
    assert isinstance(message, Notification)
    if history.stateless_seq is None or history.stateful_seq is not None or passing.sender != SERVER:
        return ()
    listed = server(history).listed
    if listed is None or declares(listed.capabilities, "logging"):
        return ()
    said = f"server sent {message.method}, but frame {listed.seq} does not declare logging"
    return (Breach("PROTO-009", "R-050", said, passing.at + "/method", (listed.seq,), at_most="warning"),)


def unserved_list(passing: Passing, history: History) -> Iterable[Breach]:
    """PROTO-009: the server does not know the list method that its DiscoverResult promises"""
    asked, message = passing.answers, passing.message
    assert isinstance(message, ErrorResponse)
    if asked is None or not passing.stateless or (listed := server(history).listed) is None:
        return ()
    path = asked.method.partition("/")[0]
    if member(as_object(message.error), "code") != -32601 or not declares(listed.capabilities, path):
        return ()
    said = f"server declared {path} in frame {listed.seq}, but does not know {asked.method}"
    return (_undeclared(("PROTO-009", "R-046"), said, "/error/code", passing, listed),)


def _undeclared(broken: tuple[str, str], said: str, at: str, passing: Passing, listed: Listed) -> Breach:
    """A breach of what a DiscoverResult declares, no more than a warning once that may have changed."""
    assert passing.answers is not None
    stale = passing.frame.observed_at_ns > listed.fresh_until_ns
    related = (listed.seq, passing.answers.seq)
    return Breach(*broken, said, passing.at + at, related, at_most="warning" if stale else None)


FAMILY: Final = Family(
    checks=(
        Decider(("DISC-001",), undiscoverable, ANSWERS),
        Decider(("DISC-002",), listed_versions, ("response",), ("server/discover",)),
        Decider(("PROTO-008",), unlisted_version, ("request",)),
        Decider(("PROTO-009",), elicitation_modes, ("request",)),
        Decider(("PROTO-009",), undeclared_service, ("response",)),
        Decider(("PROTO-009",), undeclared_log, ("notification",), ("notifications/message",)),
        Decider(("PROTO-009",), unserved_list, ("error",), LISTS),
    ),
    notes=(
        Note(note_server, ANSWERS),
        Note(note_refusal, ("error",)),
        Note(note_discovery, ("response",), ("server/discover",)),
    ),
)
