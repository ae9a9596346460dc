"""Requests that carry all that they need, and results that say what they are.

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/index#statelessness
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from mcpproxy.checks import directions, independence
from mcpproxy.checks.breach import Breach, Passing, as_object, member, shortened
from mcpproxy.checks.servers import RESULT_TYPES, SERVER_INFO_KEY, is_modern, missing_meta, server
from mcpproxy.checks.table import ANSWERS, CONTENT, STATELESS, Decider, Family, HttpDecider, Note
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, Request, Response
from mcpproxy.protocol.revisions import CAPABILITIES_KEY, VERSION_KEY
from mcpproxy.protocol.revisions import STATELESS as REVISIONS
from mcpproxy.protocol.wording import kind
from mcpproxy.session.frame import CLIENT, Frame
from mcpproxy.session.history import History
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

MAX_REMEMBERED: Final = 100
"""So many servers are remembered by their name."""

Checked = Iterator[Breach]


# What a request carries


def incomplete_request(passing: Passing, history: History) -> Iterable[Breach]:
    """STAT-001: what every stateless request must carry"""
    message = passing.message
    if not passing.stateless or not isinstance(message, Request) or passing.sender != CLIENT:
        return ()
    lacks = missing_meta(message.params)
    if not lacks:
        return ()
    said = f"client sent {shortened(message.method)} without {lacks} in _meta"
    return (Breach("STAT-001", "R-210", said, passing.at + "/params/_meta"),)


OTHER_REFUSALS: Final = (-32600, -32603, -32021)
"""Codes that say something else of a request that is merely incomplete."""


def incomplete_accepted(passing: Passing, history: History) -> Iterable[Breach]:
    """STAT-002: how a server refuses a request that lacks them"""
    message, asked = passing.message, passing.answers
    if asked is None or not passing.stateless or not (lacks := missing_meta(asked.params)):
        return ()
    if isinstance(message, Response):
        # It may have been served as a request of the other era, but not with such a result.
        served = isinstance(member(message.result, "resultType"), str)
        said, at = f"server served {shortened(asked.method)}, although the request lacks {lacks}", "/result"
    else:
        code = _code(message)
        served = code in OTHER_REFUSALS and server(history).modern > 0
        said = f"server refused {shortened(asked.method)}, which lacks {lacks}, with {code} instead of -32602"
        at = "/error/code"
    return (Breach("STAT-002", "R-211", said, passing.at + at, (asked.seq,)),) if served else ()


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


# Who introduces itself


@dataclass(slots=True)
class Introductions:
    """The first frame in which each introduced itself, and who has left it out since.

    Callers are listed by server and credentials, since over HTTP nothing else tells servers apart; the
    client of a pipe stands under ``PIPE``.
    """

    first: dict[str, int] = field(default_factory=dict[str, int])
    told: set[str] = field(default_factory=set[str])


PIPE: Final = "client"


def _introduction(passing: Passing, history: History) -> tuple[str, bool] | None:
    """Who speaks, and whether it says its name; ``None`` where that tells nothing."""
    message = passing.message
    if not passing.stateless:
        return None
    if isinstance(message, Response) and isinstance(message.result, dict):
        return history.caller, member(message.result, "_meta", SERVER_INFO_KEY) is not None
    if isinstance(message, Request) and not history.over_http:
        return PIPE, member(message.params, "_meta", CLIENT_INFO_KEY) is not None
    return None


def anonymous(passing: Passing, history: History) -> Iterable[Breach]:
    """STAT-003: to say nothing may be configured; to say it now and then is not"""
    found = _introduction(passing, history)
    if found is None or found[1]:
        return ()
    known = history.beyond(Introductions)
    first = known.first.get(found[0], 0)
    if not first or found[0] in known.told:
        return ()
    key, part = (CLIENT_INFO_KEY, "params") if passing.sender == CLIENT else (SERVER_INFO_KEY, "result")
    said = f"{passing.sender} left out {key}, which it sent in frame {first}"
    return (Breach("STAT-003", "R-212", said, f"{passing.at}/{part}/_meta", (first,), at_most="info"),)


def note_introduction(passing: Passing, history: History) -> None:
    """Who has said its name, and who left it out afterwards."""
    if (found := _introduction(passing, history)) is None:
        return
    known, (who, named) = history.beyond(Introductions), found
    if not named:
        known.told.update([who] if who in known.first else [])
    elif who not in known.first and len(known.first) < MAX_REMEMBERED:
        known.first[who] = passing.seq


# What a result says of itself


def result_type(passing: Passing, history: History) -> Iterable[Breach]:
    """STAT-004, STAT-005"""
    message, asked = passing.message, passing.answers
    if not passing.stateless or not isinstance(message, Response) or asked is None:
        return ()
    result = message.result
    if not isinstance(result, dict):
        return ()  # RPC-010 says so.
    given = result.get("resultType")
    if given in RESULT_TYPES:
        return ()
    if not is_modern(passing, history):
        return ()  # A server of the other era does not know the member.
    at = passing.at + "/result/resultType"
    if not isinstance(given, str):
        fault = f"a resultType that is {kind(given)}" if "resultType" in result else "no resultType"
        said = f"server answered {shortened(asked.method)} with {fault}"
        return (Breach("STAT-004", "R-213", said, at, (asked.seq,)),)
    declared = member(asked.params, "_meta", CAPABILITIES_KEY)
    if given == "task" or member(declared, "extensions") or member(declared, "experimental"):
        return ()  # An extension may define it. That of the tasks has rules of its own.
    said = f'server answered {shortened(asked.method)} with the resultType "{shortened(given)}", which the '
    return (Breach("STAT-005", "R-214", said + "client cannot know", at, (asked.seq,)),)


def removed_method(passing: Passing, history: History) -> Iterable[Breach]:
    """STAT-008"""
    message = passing.message
    assert isinstance(message, Request)
    if passing.sender != CLIENT or member(message.params, "_meta", VERSION_KEY) not in REVISIONS:
        return ()
    said = f"client sent {message.method} in {REVISIONS[0]}, which does not have it any more"
    opens = message.method == "initialize"  # There it may mean that the client speaks both eras.
    at = passing.at + "/method"
    return (Breach("STAT-008", "R-217", said, at, candidates=REVISIONS, at_most="info" if opens else None),)


def _code(error: object) -> "JSON":
    return member(as_object(error.error), "code") if isinstance(error, ErrorResponse) else None


FAMILY: Final = Family(
    checks=(
        Decider(("STAT-001",), incomplete_request, ("request",)),
        Decider(("STAT-002",), incomplete_accepted, ANSWERS),
        Decider(("STAT-003",), anonymous, ("request", "response")),
        Decider(("STAT-004", "STAT-005"), result_type, ("response",)),
        *directions.CHECKS,
        Decider(("STAT-008",), removed_method, ("request",), REMOVED),
        *independence.CHECKS,
    ),
    http=(
        HttpDecider(("STAT-002",), incomplete_status, CONTENT, STATELESS, ("POST",)),
        *directions.HTTP,
        *independence.HTTP,
    ),
    notes=(
        Note(note_introduction, ("request", "response")),
        *directions.NOTES,
        *independence.NOTES,
    ),
)
