"""Stateless requests: the members of ``_meta`` that each must have, and the type that each result must have.

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/index#statelessness
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.checks.basic.meta import asked_meta
from mcpproxy.checks.engine import rows
from mcpproxy.checks.engine.context import MessageContext, Violation, as_object, member, shortened
from mcpproxy.checks.engine.rows import (
    ANSWERS,
    CONTENT,
    INTRODUCED,
    MISSHAPEN,
    UNFAMILIAR,
    Check,
    HttpCheck,
    RuleFamily,
    StateUpdate,
)
from mcpproxy.checks.stateless import directions, independence
from mcpproxy.checks.stateless.discovery import unlisted_version
from mcpproxy.checks.stateless.servers import (
    RESULT_TYPES,
    SERVER_INFO_KEY,
    is_modern,
    missing_meta,
    remember_name,
    says,
    server,
)
from mcpproxy.protocol.jsonrpc import JSON, ErrorResponse, JSONObject, Request, Response
from mcpproxy.protocol.jsontext import compact_json
from mcpproxy.protocol.revisions import CAPABILITIES_KEY, STATELESS, VERSION_KEY
from mcpproxy.protocol.wording import kind
from mcpproxy.session.exchanges import HttpExchange, HttpHistory, singles
from mcpproxy.session.frame import CLIENT, SERVER, Frame, Severity
from mcpproxy.session.history import History, SentRequest

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
"""Requests of older revisions that the stateless revisions do not have."""

Checked = Iterator[Violation]


# Requests


def request(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report faults in the ``_meta`` of a stateless request (STAT-001, STAT-003, PROTO-008, PROTO-009)."""
    message = context.message
    assert isinstance(message, Request)
    if not context.stateless:
        return ()
    meta = as_object(message.params.get("_meta") if isinstance(message.params, dict) else None) or {}
    declared = meta.get(CAPABILITIES_KEY)
    if meta.get(VERSION_KEY) in STATELESS and CLIENT_INFO_KEY in meta and isinstance(declared, dict):
        unlisted = unlisted_version(message, context, history)
        return (*unlisted, *elicitation_modes(declared, context)) if "elicitation" in declared else unlisted
    return (
        *incomplete_request(message, context),
        *anonymous_client(message, context, history),
        *unlisted_version(message, context, history),
        *elicitation_modes(as_object(declared) or {}, context),
    )


def incomplete_request(message: Request, context: MessageContext) -> Iterator[Violation]:
    """Report a request without its protocol version or the client's capabilities (STAT-001)."""
    if lacks := missing_meta(message.params):
        problem = f"client sent {shortened(message.method)} without {lacks} in _meta"
        yield Violation("STAT-001", "R-210", problem, pointer=context.at + "/params/_meta")


def anonymous_client(message: Request, context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a client that names itself in some requests but not in others (STAT-003).

    A client may be configured not to name itself. Over HTTP nothing is reported, because other clients cannot
    be told apart.
    """
    known = server(history).client
    if known.first and not known.left_out and not says(message.params, CLIENT_INFO_KEY):
        problem = f"client left out {CLIENT_INFO_KEY}, which it sent in frame {known.first}"
        at = context.at + "/params/_meta"
        yield Violation("STAT-003", "R-212", problem, pointer=at, related=(known.first,), at_most="info")


def elicitation_modes(declared: JSONObject, context: MessageContext) -> Iterator[Violation]:
    """Report a client that declares elicitation with members, but without a mode (PROTO-009)."""
    modes = as_object(declared.get("elicitation"))
    if modes and "form" not in modes and "url" not in modes:
        at = context.at + "/params/_meta/io.modelcontextprotocol~1clientCapabilities/elicitation"
        problem = "client declared elicitation with members, but neither the form nor the url mode"
        yield Violation("PROTO-009", "R-052", problem, pointer=at)


def remember_request(context: MessageContext, history: History) -> None:
    """Record whether the request names its client, and over HTTP its id if it is a number."""
    message = context.message
    assert isinstance(message, Request)
    if context.stateless and history.over_http:
        independence.remember_number(message, history)
    elif context.stateless:
        remember_name(server(history).client, says(message.params, CLIENT_INFO_KEY), context.seq)
        if (found := _usual(context, history)) is not None:
            history.familiar_meta, history.familiar_candidates = found, context.candidates


def _usual(context: MessageContext, history: History) -> bytes | None:
    """Return the ``_meta`` of a request, as JSON, if an equal one need not be checked again."""
    found = as_object(member(context.contents, "_meta")) or {}
    declared = found.get(CAPABILITIES_KEY)
    is_whole = found.get(VERSION_KEY) in STATELESS and CLIENT_INFO_KEY in found
    if not is_whole or not isinstance(declared, dict) or context.known & MISSHAPEN:
        return None
    text = compact_json(found)
    if not text or any(name in text for name in _EACH_TIME):
        return None
    assert isinstance(context.message, Request)
    breaks = (
        *unlisted_version(context.message, context, history),
        *elicitation_modes(declared, context),
        *asked_meta(context, history),
    )
    return None if breaks else text


_EACH_TIME: Final = (b"progressToken", b"logLevel", b"icons")
"""Keys that must be checked in every request that has them."""


# Answers


def answer(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report an incomplete request that was served, or refused with another code than -32602 (STAT-002)."""
    asked = context.answers
    if not context.stateless or asked is None or not missing_meta(asked.params):
        return ()
    return incomplete_accepted(context, asked, history)


OTHER_REFUSALS: Final = (-32600, -32603, -32021)
"""Codes with another meaning than that the request is incomplete."""


def incomplete_accepted(context: MessageContext, asked: SentRequest, history: History) -> Iterator[Violation]:
    """Report how a server answered a request that lacks a member (STAT-002)."""
    message, lacks = context.message, missing_meta(asked.params)
    if isinstance(message, Response):
        # A result with a type shows that the request was not served as one of the other era.
        served = isinstance(member(message.result, "resultType"), str)
        problem, at = (
            f"server served {shortened(asked.method)}, although the request lacks {lacks}",
            "/result",
        )
    else:
        code = _code(message)
        served = code in OTHER_REFUSALS and server(history).modern > 0
        problem = (
            f"server refused {shortened(asked.method)}, which lacks {lacks}, with {code} instead of -32602"
        )
        at = "/error/code"
    if served:
        yield Violation("STAT-002", "R-211", problem, pointer=context.at + at, related=(asked.seq,))


def incomplete_status(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Checked:
    """Report an incomplete request that was refused with another status than 400 (STAT-002)."""
    assert frame is not None
    if exchange.status == 400 or not exchange.requests or exchange.server not in history.modern_servers:
        return
    if not (lacks := missing_meta(exchange.requests[0].params)):
        return
    for message in singles(frame)[0]:
        if isinstance(message, ErrorResponse) and _code(message) == -32602:
            problem = (
                f"server refused a request that lacks {lacks} with status {exchange.status} instead of 400"
            )
            yield Violation(
                "STAT-002", "R-211", problem, pointer="/error/code", related=(exchange.request.seq,)
            )


def anonymous_server(context: MessageContext, history: History) -> tuple[Violation, ...]:
    """Report a server that names itself in some results but not in others (STAT-003)."""
    result = context.contents
    if not context.stateless or context.answers is None or not isinstance(result, dict):
        return ()
    known = server(history).name
    if not known.first or known.left_out or says(result, SERVER_INFO_KEY):
        return ()
    problem = f"server left out {SERVER_INFO_KEY}, which it sent in frame {known.first}"
    at = context.at + "/result/_meta"
    return (Violation("STAT-003", "R-212", problem, pointer=at, related=(known.first,), at_most="info"),)


def result_type(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a result without a type, or with one that the client cannot know (STAT-004, STAT-005)."""
    result, asked = context.contents, context.answers
    if not context.stateless or asked is None or not isinstance(result, dict):
        return ()
    return () if result.get("resultType") in RESULT_TYPES else _result_type(result, context, asked, history)


def _result_type(
    result: JSONObject, context: MessageContext, asked: SentRequest, history: History
) -> Iterator[Violation]:
    given, at = result.get("resultType"), context.at + "/result/resultType"
    if not is_modern(context, history):
        return  # A server of the other era does not know the member.
    if not isinstance(given, str):
        fault = f"a resultType that is {kind(given)}" if "resultType" in result else "no resultType"
        problem = f"server answered {shortened(asked.method)} with {fault}"
        yield Violation("STAT-004", "R-213", problem, pointer=at, related=(asked.seq,))
        return
    declared = member(asked.params, "_meta", CAPABILITIES_KEY)
    if given == "task" or member(declared, "extensions") or member(declared, "experimental"):
        return  # An extension may define it. `tasks_extension` checks tasks.
    problem = (
        f'server answered {shortened(asked.method)} with the resultType "{shortened(given)}", which the '
    )
    yield Violation("STAT-005", "R-214", problem + "client cannot know", pointer=at, related=(asked.seq,))


# Removed methods


def removed_method(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a request that the revision it names does not have any more (STAT-008)."""
    message = context.message
    assert isinstance(message, Request)
    named = member(message.params, "_meta", VERSION_KEY)
    if not isinstance(named, str) or named not in STATELESS:
        return ()
    problem = f"client sent {message.method} in {named}, which does not have it any more"
    # An initialize with this version may come from a client that speaks both eras.
    at_most: Severity | None = "info" if message.method == "initialize" else None
    at = context.at + "/method"
    return (Violation("STAT-008", "R-217", problem, pointer=at, candidates=(named,), at_most=at_most),)


def _code(error: object) -> "JSON":
    return member(as_object(error.error), "code") if isinstance(error, ErrorResponse) else None


FAMILY: Final = RuleFamily(
    checks=(
        Check(
            ("STAT-001", "STAT-003", "PROTO-008", "PROTO-009"),
            request,
            ("request",),
            sender=CLIENT,
            within=STATELESS,
            given=UNFAMILIAR,
        ),
        Check(("STAT-006",), directions.server_request, ("request",), sender=SERVER, within=STATELESS),
        Check(("STAT-002",), answer, ANSWERS, sender=SERVER, within=STATELESS, given=UNFAMILIAR),
        Check(
            ("STAT-003",), anonymous_server, ("response",), sender=SERVER, within=STATELESS, given=INTRODUCED
        ),
        Check(("STAT-004", "STAT-005"), result_type, ("response",), sender=SERVER, within=STATELESS),
        Check(("STAT-007",), directions.client_response, ANSWERS, sender=CLIENT, within=STATELESS),
        Check(("STAT-008",), removed_method, ("request",), REMOVED, sender=CLIENT),
        Check(("STAT-009",), independence.wanted_session, ("error",), sender=SERVER, within=STATELESS),
    ),
    http=(
        HttpCheck(("STAT-002",), incomplete_status, CONTENT, rows.STATELESS, ("POST",)),
        HttpCheck(("STAT-007",), directions.posted_response, ("request",), rows.STATELESS, ("POST",)),
        HttpCheck(("STAT-009",), independence.wanted_http_session, ("body",), rows.STATELESS, ("POST",)),
        HttpCheck(("STAT-010",), independence.repeated_lost, ("request",), rows.STATELESS, ("POST",)),
    ),
    updates=(
        StateUpdate(remember_request, ("request",), sender=CLIENT, within=STATELESS, given=UNFAMILIAR),
        StateUpdate(directions.remember_server_request, ("request",), sender=SERVER, within=STATELESS),
    ),
)
