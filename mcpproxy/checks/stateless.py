"""Requests that carry all that they need, and results that say what they are.

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/index#statelessness
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.checks import directions, independence, table
from mcpproxy.checks.breach import Breach, Passing, as_object, member, shortened
from mcpproxy.checks.discovery import unlisted_version
from mcpproxy.checks.meta import asked_meta
from mcpproxy.checks.servers import (
    RESULT_TYPES,
    SERVER_INFO_KEY,
    is_modern,
    missing_meta,
    note_name,
    says,
    server,
)
from mcpproxy.checks.table import (
    ANSWERS,
    CONTENT,
    INTRODUCED,
    MISSHAPEN,
    UNFAMILIAR,
    Decider,
    Family,
    HttpDecider,
    Note,
)
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, JSONObject, Request, Response
from mcpproxy.protocol.jsontext import written
from mcpproxy.protocol.revisions import CAPABILITIES_KEY, STATELESS, VERSION_KEY
from mcpproxy.protocol.wording import kind
from mcpproxy.session.frame import CLIENT, SERVER, Frame
from mcpproxy.session.history import Asked, History
from mcpproxy.session.http import HttpExchange, HttpHistory, singles

CLIENT_INFO_KEY: Final = "io.modelcontextprotocol/clientInfo"

REMOVED: Final = (
    "initialize",
    "ping",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
    "tasks/list",
    "tasks/result",
)
"""Requests of the older revisions that nothing has taken over under the same name."""

Checked = Iterator[Breach]


# What a request carries


def request(passing: Passing, history: History) -> Iterable[Breach]:
    """STAT-001, STAT-003, PROTO-008, PROTO-009"""
    message = passing.message
    assert isinstance(message, Request)
    if not passing.stateless:
        return ()
    meta = as_object(message.params.get("_meta") if isinstance(message.params, dict) else None) or {}
    declared = meta.get(CAPABILITIES_KEY)
    if meta.get(VERSION_KEY) in STATELESS and CLIENT_INFO_KEY in meta and isinstance(declared, dict):
        unlisted = unlisted_version(message, passing, history)
        return (*unlisted, *elicitation_modes(declared, passing)) if "elicitation" in declared else unlisted
    return (
        *incomplete_request(message, passing),
        *anonymous_client(message, passing, history),
        *unlisted_version(message, passing, history),
        *elicitation_modes(as_object(declared) or {}, passing),
    )


def incomplete_request(message: Request, passing: Passing) -> Iterator[Breach]:
    """STAT-001: what every stateless request must carry"""
    if lacks := missing_meta(message.params):
        said = f"client sent {shortened(message.method)} without {lacks} in _meta"
        yield Breach("STAT-001", "R-210", said, passing.at + "/params/_meta")


def anonymous_client(message: Request, passing: Passing, history: History) -> Iterator[Breach]:
    """STAT-003: to say nothing may be configured; to say it now and then is not

    Over HTTP nothing tells this client from others that are configured otherwise.
    """
    known = server(history).client
    if known.first and not known.left_out and not says(message.params, CLIENT_INFO_KEY):
        said = f"client left out {CLIENT_INFO_KEY}, which it sent in frame {known.first}"
        at = passing.at + "/params/_meta"
        yield Breach("STAT-003", "R-212", said, at, (known.first,), at_most="info")


def elicitation_modes(declared: JSONObject, passing: Passing) -> Iterator[Breach]:
    """PROTO-009: a client that declares elicitation names at least one mode, or none at all"""
    modes = as_object(declared.get("elicitation"))
    if modes and "form" not in modes and "url" not in modes:
        at = passing.at + "/params/_meta/io.modelcontextprotocol~1clientCapabilities/elicitation"
        said = "client declared elicitation with members, but neither the form nor the url mode"
        yield Breach("PROTO-009", "R-052", said, at)


def note_request(passing: Passing, history: History) -> None:
    """Who asks, and how it counts."""
    message = passing.message
    assert isinstance(message, Request)
    if passing.stateless and history.over_http:
        independence.note_number(message, history)
    elif passing.stateless:
        note_name(server(history).client, says(message.params, CLIENT_INFO_KEY), passing.seq)
        if (found := _usual(passing, history)) is not None:
            history.familiar_meta, history.familiar_candidates = found, passing.candidates


def _usual(passing: Passing, history: History) -> bytes | None:
    """The ``_meta`` of a request, as JSON, if nothing can be wrong with another that has the same."""
    found = as_object(member(passing.contents, "_meta")) or {}
    declared = found.get(CAPABILITIES_KEY)
    is_whole = found.get(VERSION_KEY) in STATELESS and CLIENT_INFO_KEY in found
    if not is_whole or not isinstance(declared, dict) or passing.known & MISSHAPEN:
        return None
    text = written(found)
    if not text or any(name in text for name in _EACH_TIME):
        return None
    assert isinstance(passing.message, Request)
    breaks = (
        *unlisted_version(passing.message, passing, history),
        *elicitation_modes(declared, passing),
        *asked_meta(passing, history),
    )
    return None if breaks else text


_EACH_TIME: Final = (b"progressToken", b"logLevel", b"icons")
"""What counts anew in every request that says it."""


# How it is answered


def answer(passing: Passing, history: History) -> Iterable[Breach]:
    """STAT-002"""
    asked = passing.answers
    if not passing.stateless or asked is None or not missing_meta(asked.params):
        return ()
    return incomplete_accepted(passing, asked, history)


OTHER_REFUSALS: Final = (-32600, -32603, -32021)
"""Codes that say something else of a request that is merely incomplete."""


def incomplete_accepted(passing: Passing, asked: Asked, history: History) -> Iterator[Breach]:
    """STAT-002: how a server refuses a request that lacks something"""
    message, lacks = passing.message, missing_meta(asked.params)
    if isinstance(message, Response):
        # It may have been served as a request of the other era, but not with such a result.
        served = isinstance(member(message.result, "resultType"), str)
        said, at = f"server served {shortened(asked.method)}, although the request lacks {lacks}", "/result"
    else:
        code = _code(message)
        served = code in OTHER_REFUSALS and server(history).modern > 0
        said = f"server refused {shortened(asked.method)}, which lacks {lacks}, with {code} instead of -32602"
        at = "/error/code"
    if served:
        yield Breach("STAT-002", "R-211", said, passing.at + at, (asked.seq,))


def incomplete_status(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """STAT-002: with what status"""
    assert frame is not None
    if exchange.status == 400 or not exchange.requests or exchange.server not in history.modern_servers:
        return
    if not (lacks := missing_meta(exchange.requests[0].params)):
        return
    for message in singles(frame)[0]:
        if isinstance(message, ErrorResponse) and _code(message) == -32602:
            said = f"server refused a request that lacks {lacks} with status {exchange.status} instead of 400"
            yield Breach("STAT-002", "R-211", said, "/error/code", (exchange.request.seq,))


def anonymous_server(passing: Passing, history: History) -> tuple[Breach, ...]:
    """STAT-003: to say nothing may be configured; to say it now and then is not"""
    result = passing.contents
    if not passing.stateless or passing.answers is None or not isinstance(result, dict):
        return ()
    known = server(history).name
    if not known.first or known.left_out or says(result, SERVER_INFO_KEY):
        return ()
    said = f"server left out {SERVER_INFO_KEY}, which it sent in frame {known.first}"
    at = passing.at + "/result/_meta"
    return (Breach("STAT-003", "R-212", said, at, (known.first,), at_most="info"),)


def result_type(passing: Passing, history: History) -> Iterable[Breach]:
    """STAT-004, STAT-005"""
    result, asked = passing.contents, passing.answers
    if not passing.stateless or asked is None or not isinstance(result, dict):
        return ()
    return () if result.get("resultType") in RESULT_TYPES else _result_type(result, passing, asked, history)


def _result_type(result: JSONObject, passing: Passing, asked: Asked, history: History) -> Iterator[Breach]:
    given, at = result.get("resultType"), passing.at + "/result/resultType"
    if not is_modern(passing, history):
        return  # A server of the other era does not know the member.
    if not isinstance(given, str):
        fault = f"a resultType that is {kind(given)}" if "resultType" in result else "no resultType"
        said = f"server answered {shortened(asked.method)} with {fault}"
        yield Breach("STAT-004", "R-213", said, at, (asked.seq,))
        return
    declared = member(asked.params, "_meta", CAPABILITIES_KEY)
    if given == "task" or member(declared, "extensions") or member(declared, "experimental"):
        return  # An extension may define it. That of the tasks has rules of its own.
    said = f'server answered {shortened(asked.method)} with the resultType "{shortened(given)}", which the '
    yield Breach("STAT-005", "R-214", said + "client cannot know", at, (asked.seq,))


# What is gone


def removed_method(passing: Passing, history: History) -> Iterable[Breach]:
    """STAT-008"""
    message = passing.message
    assert isinstance(message, Request)
    named = member(message.params, "_meta", VERSION_KEY)
    if not isinstance(named, str) or named not in STATELESS:
        return ()
    said = f"client sent {message.method} in {named}, which does not have it any more"
    opens = message.method == "initialize"  # There it may mean that the client speaks both eras.
    at = passing.at + "/method"
    return (Breach("STAT-008", "R-217", said, at, candidates=(named,), at_most="info" if opens else None),)


def _code(error: object) -> "JSON":
    return member(as_object(error.error), "code") if isinstance(error, ErrorResponse) else None


FAMILY: Final = Family(
    checks=(
        Decider(
            ("STAT-001", "STAT-003", "PROTO-008", "PROTO-009"),
            request,
            ("request",),
            sender=CLIENT,
            within=STATELESS,
            given=UNFAMILIAR,
        ),
        Decider(("STAT-006",), directions.server_request, ("request",), sender=SERVER, within=STATELESS),
        Decider(("STAT-002",), answer, ANSWERS, sender=SERVER, within=STATELESS, given=UNFAMILIAR),
        Decider(
            ("STAT-003",), anonymous_server, ("response",), sender=SERVER, within=STATELESS, given=INTRODUCED
        ),
        Decider(("STAT-004", "STAT-005"), result_type, ("response",), sender=SERVER, within=STATELESS),
        Decider(("STAT-007",), directions.client_response, ANSWERS, sender=CLIENT, within=STATELESS),
        Decider(("STAT-008",), removed_method, ("request",), REMOVED, sender=CLIENT),
        Decider(("STAT-009",), independence.wanted_session, ("error",), sender=SERVER, within=STATELESS),
    ),
    http=(
        HttpDecider(("STAT-002",), incomplete_status, CONTENT, table.STATELESS, ("POST",)),
        HttpDecider(("STAT-007",), directions.posted_response, ("request",), table.STATELESS, ("POST",)),
        HttpDecider(("STAT-009",), independence.wanted_http_session, ("body",), table.STATELESS, ("POST",)),
        HttpDecider(("STAT-010",), independence.repeated_lost, ("request",), table.STATELESS, ("POST",)),
    ),
    notes=(
        Note(note_request, ("request",), sender=CLIENT, within=STATELESS, given=UNFAMILIAR),
        Note(directions.note_server_request, ("request",), sender=SERVER, within=STATELESS),
    ),
)
