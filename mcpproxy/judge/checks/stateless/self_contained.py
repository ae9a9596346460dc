"""Stateless requests and their answers: the required members of ``_meta``, the type of each result, and
methods that the stateless revisions do not have.

A stateless request belongs to a revision without a handshake. So its ``_meta`` has to contain what a
handshake would have told the server: the protocol version, the client's capabilities and, optionally, its
name.

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/index#statelessness
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.judge.checks.basic.capabilities import without_mode
from mcpproxy.judge.checks.basic.meta import meta_of_params
from mcpproxy.judge.checks.engine import rows
from mcpproxy.judge.checks.engine.context import MessageContext, Violation, Violations, shortened
from mcpproxy.judge.checks.engine.rows import (
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
from mcpproxy.judge.checks.stateless import directions, independence
from mcpproxy.judge.checks.stateless.discovery import unlisted_version
from mcpproxy.judge.checks.stateless.servers import (
    RESULT_TYPES,
    has_meta_key,
    is_modern,
    missing_meta,
    remember_name,
    server_of,
)
from mcpproxy.judge.session.exchanges import HttpExchange, HttpHistory
from mcpproxy.judge.session.frame import CLIENT, SERVER, Frame, Severity
from mcpproxy.judge.session.history import History, SentRequest
from mcpproxy.protocol.error_message import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    MISSING_CAPABILITY,
)
from mcpproxy.protocol.jsonrpc import ErrorResponse, JSONObject, Request, Response
from mcpproxy.protocol.jsontext import compact_json
from mcpproxy.protocol.message_parts import as_object, error_of, member, well_formed
from mcpproxy.protocol.meta_keys import CAPABILITIES_KEY, CLIENT_INFO_KEY, SERVER_INFO_KEY, VERSION_KEY
from mcpproxy.protocol.revisions import STATELESS
from mcpproxy.protocol.wording import kind, token

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


# Requests: what their ``_meta`` must contain


def request_meta(context: MessageContext[Request], history: History) -> Iterable[Violation]:
    """Report faults in the ``_meta`` of a stateless request (STAT-001, STAT-003, PROTO-008, PROTO-009)."""
    message = context.message
    if not context.stateless:
        return ()
    meta = as_object(member(message.params, "_meta")) or {}
    capabilities = meta.get(CAPABILITIES_KEY)
    if meta.get(VERSION_KEY) in STATELESS and CLIENT_INFO_KEY in meta and isinstance(capabilities, dict):
        # Nearly all requests are complete: the checks that cannot find anything are not called.
        unlisted = unlisted_version(message, context, history)
        return (
            (*unlisted, *_elicitation_modes(capabilities, context))
            if "elicitation" in capabilities
            else unlisted
        )
    return (
        *_incomplete_request(message, context),
        *_anonymous_client(message, context, history),
        *unlisted_version(message, context, history),
        *_elicitation_modes(as_object(capabilities) or {}, context),
    )


def _incomplete_request(message: Request, context: MessageContext) -> Iterator[Violation]:
    """Report a request without its protocol version or the client's capabilities (STAT-001)."""
    if missing_member := missing_meta(message.params):
        problem = f"client sent {shortened(message.method)} without {missing_member} in _meta"
        yield Violation("STAT-001", "R-210", problem, pointer=context.at + "/params/_meta")


def _anonymous_client(message: Request, context: MessageContext, history: History) -> Iterator[Violation]:
    """Report the first request in which a client omits its name after it has sent it before (STAT-003).

    A client that never names itself may be configured so. Over HTTP nothing is remembered and so nothing is
    reported: several clients may use the same server, and their requests cannot be told apart.
    """
    client = server_of(history).client
    if client.first_seq and not client.has_omitted and not has_meta_key(message.params, CLIENT_INFO_KEY):
        problem = f"client left out {CLIENT_INFO_KEY}, which it sent in frame {client.first_seq}"
        pointer = context.at + "/params/_meta"
        related = (client.first_seq,)
        yield Violation("STAT-003", "R-212", problem, pointer=pointer, related=related, at_most="info")


def _elicitation_modes(capabilities: JSONObject, context: MessageContext) -> Iterator[Violation]:
    """Report an elicitation capability that has members, but neither form nor url (PROTO-009)."""
    pointer = f"{context.at}/params/_meta{token(CAPABILITIES_KEY)}/elicitation"
    return without_mode(capabilities.get("elicitation"), pointer)


def remember_request(context: MessageContext[Request], history: History) -> None:
    """Record, over HTTP, the request's id if it is a number; on stdio, whether the request names its client.

    On stdio, also record a correct ``_meta``, so that later requests with an equal one need fewer checks.
    """
    message = context.message
    if context.stateless and history.over_http:
        independence.remember_numeric_id(message, history)
    elif context.stateless:
        remember_name(server_of(history).client, has_meta_key(message.params, CLIENT_INFO_KEY), context.seq)
        if (meta_text := _correct_meta(context, history)) is not None:
            history.familiar_meta, history.familiar_candidates = meta_text, context.candidates


def _correct_meta(context: MessageContext[Request], history: History) -> bytes | None:
    """Return a request's ``_meta`` as JSON; ``None`` if it has a fault or must be checked in each request."""
    meta = as_object(member(context.contents, "_meta")) or {}
    capabilities = meta.get(CAPABILITIES_KEY)
    is_complete = meta.get(VERSION_KEY) in STATELESS and CLIENT_INFO_KEY in meta
    if not is_complete or not isinstance(capabilities, dict) or context.known & MISSHAPEN:
        return None
    text = compact_json(meta)
    if not text or any(name in text for name in _CHECKED_EACH_TIME):
        return None
    violations = (
        *unlisted_version(context.message, context, history),
        *_elicitation_modes(capabilities, context),
        *meta_of_params(context, history),
    )
    return None if violations else text


_CHECKED_EACH_TIME: Final = (b"progressToken", b"logLevel", b"icons")
"""Members that some check looks at in every request. So a ``_meta`` with one of them is never skipped."""


# Answers


def answer_to_incomplete(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a request with an incomplete ``_meta`` that the server serves, or refuses with a code of
    ``OTHER_REFUSALS`` instead of -32602 (STAT-002).
    """
    request = context.answers
    if not context.stateless or request is None or not missing_meta(request.params):
        return ()
    return _incomplete_accepted(context, request, history)


OTHER_REFUSALS: Final = (INVALID_REQUEST, INTERNAL_ERROR, MISSING_CAPABILITY)
"""Error codes with other meanings, with which some servers refuse a request that is incomplete."""


def _incomplete_accepted(
    context: MessageContext, request: SentRequest, history: History
) -> Iterator[Violation]:
    message, missing_member, method = context.message, missing_meta(request.params), shortened(request.method)
    if isinstance(message, Response):
        # A server of a revision with a handshake may serve the request too, but its result has no type.
        is_fault = isinstance(member(message.result, "resultType"), str)
        problem = f"server served {method}, although the request lacks {missing_member}"
        pointer = "/result"
    else:
        code = member(error_of(message), "code")
        is_fault = code in OTHER_REFUSALS and server_of(history).modern_seq > 0
        problem = f"server refused {method}, which lacks {missing_member}, with {code} instead of -32602"
        pointer = "/error/code"
    if is_fault:
        yield Violation("STAT-002", "R-211", problem, pointer=context.at + pointer, related=(request.seq,))


def incomplete_status(exchange: HttpExchange, history: HttpHistory, frame: Frame) -> Violations:
    """Report a refusal with -32602 of a request with an incomplete ``_meta`` if its HTTP status is not 400
    (STAT-002).

    Only a *modern* server is judged: an answer has shown that it supports a stateless revision.
    """
    if exchange.status == 400 or not exchange.requests or exchange.server not in history.modern_servers:
        return
    if not (missing_member := missing_meta(exchange.requests[0].params)):
        return
    for message in well_formed(frame.message):
        if member(error_of(message), "code") == INVALID_PARAMS:
            status = exchange.status
            problem = (
                f"server refused a request that lacks {missing_member} with status {status} instead of 400"
            )
            yield Violation(
                "STAT-002", "R-211", problem, pointer="/error/code", related=(exchange.request.seq,)
            )


def anonymous_server(context: MessageContext, history: History) -> tuple[Violation, ...]:
    """Report the first result in which a server omits its name after it has sent it before (STAT-003)."""
    result = context.contents
    if not context.stateless or context.answers is None or not isinstance(result, dict):
        return ()
    name = server_of(history).name
    if not name.first_seq or name.has_omitted or has_meta_key(result, SERVER_INFO_KEY):
        return ()
    problem = f"server left out {SERVER_INFO_KEY}, which it sent in frame {name.first_seq}"
    pointer, related = context.at + "/result/_meta", (name.first_seq,)
    return (Violation("STAT-003", "R-212", problem, pointer=pointer, related=related, at_most="info"),)


def result_type(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a result whose ``resultType`` is missing or not a string (STAT-004), or unknown to the client
    (STAT-005).
    """
    result, request = context.contents, context.answers
    if not context.stateless or request is None or not isinstance(result, dict):
        return ()
    return () if result.get("resultType") in RESULT_TYPES else _result_type(result, context, request, history)


def _result_type(
    result: JSONObject, context: MessageContext, request: SentRequest, history: History
) -> Iterator[Violation]:
    type_, pointer = result.get("resultType"), context.at + "/result/resultType"
    if not is_modern(context, history):
        return  # A server that only supports revisions with a handshake does not know resultType.
    method = shortened(request.method) or "a request"
    if not isinstance(type_, str):
        fault = f"a resultType that is {kind(type_)}" if "resultType" in result else "no resultType"
        problem = f"server answered {method} with {fault}"
        yield Violation("STAT-004", "R-213", problem, pointer=pointer, related=(request.seq,))
        return
    capabilities = member(request.params, "_meta", CAPABILITIES_KEY)
    if type_ == "task" or member(capabilities, "extensions") or member(capabilities, "experimental"):
        return  # An extension may define this type. ``tasks_extension`` checks tasks.
    problem = (
        f'server answered {method} with the resultType "{shortened(type_)}", which the client cannot know'
    )
    yield Violation("STAT-005", "R-214", problem, pointer=pointer, related=(request.seq,))


# Removed methods


def removed_method(context: MessageContext[Request], history: History) -> Iterable[Violation]:
    """Report a request whose method does not exist any more in the revision that it names (STAT-008)."""
    message = context.message
    revision = member(message.params, "_meta", VERSION_KEY)
    if not isinstance(revision, str) or revision not in STATELESS:
        return ()
    problem = f"client sent {message.method} in {revision}, which does not have it any more"
    # A client that also supports revisions with a handshake may send initialize with this version.
    at_most: Severity | None = "info" if message.method == "initialize" else None
    pointer = context.at + "/method"
    return (
        Violation("STAT-008", "R-217", problem, pointer=pointer, candidates=(revision,), at_most=at_most),
    )


FAMILY: Final = RuleFamily(
    checks=(
        Check(
            ("STAT-001", "STAT-003", "PROTO-008", "PROTO-009"),
            request_meta,
            (Request,),
            sender=CLIENT,
            within=STATELESS,
            given=UNFAMILIAR,
        ),
        Check(("STAT-006",), directions.server_request, (Request,), sender=SERVER, within=STATELESS),
        Check(
            ("STAT-002",), answer_to_incomplete, ANSWERS, sender=SERVER, within=STATELESS, given=UNFAMILIAR
        ),
        Check(
            ("STAT-003",), anonymous_server, (Response,), sender=SERVER, within=STATELESS, given=INTRODUCED
        ),
        Check(("STAT-004", "STAT-005"), result_type, (Response,), sender=SERVER, within=STATELESS),
        Check(("STAT-007",), directions.client_response, ANSWERS, sender=CLIENT, within=STATELESS),
        Check(("STAT-008",), removed_method, (Request,), REMOVED, sender=CLIENT),
        Check(("STAT-009",), independence.wanted_session, (ErrorResponse,), sender=SERVER, within=STATELESS),
    ),
    http=(
        HttpCheck(("STAT-002",), incomplete_status, CONTENT, rows.STATELESS, ("POST",)),
        HttpCheck(("STAT-007",), directions.posted_response, ("request",), rows.STATELESS, ("POST",)),
        HttpCheck(("STAT-009",), independence.wanted_http_session, ("body",), rows.STATELESS, ("POST",)),
        HttpCheck(("STAT-010",), independence.repeated_lost, ("request",), rows.STATELESS, ("POST",)),
    ),
    updates=(
        StateUpdate(remember_request, (Request,), sender=CLIENT, within=STATELESS, given=UNFAMILIAR),
        StateUpdate(directions.remember_server_request, (Request,), sender=SERVER, within=STATELESS),
    ),
)
