"""Authorization: where the token is sent, and what a refusal must contain.

By default a recording masks tokens, so most checks use only whether a token is present.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization
"""

import binascii
import json
from base64 import urlsafe_b64decode
from datetime import UTC, datetime
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.judge.checks.engine.context import Violation, Violations
from mcpproxy.judge.checks.engine.http_facts import CHALLENGED, WITH_QUERY, WITH_TOKEN
from mcpproxy.judge.checks.engine.rows import MCP, OTHER, STREAMABLE, HttpCheck, RuleFamily
from mcpproxy.judge.session.exchanges import Fields, HttpExchange, HttpHistory
from mcpproxy.judge.session.frame import Frame
from mcpproxy.judge.session.masked_values import as_mask, credential, is_masked
from mcpproxy.protocol.header_names import PROTOCOL_VERSION
from mcpproxy.protocol.jsonrpc import JSON, Batch
from mcpproxy.protocol.message_parts import as_object, member
from mcpproxy.protocol.oauth import RESOURCE_METADATA, challenge_parameters
from mcpproxy.protocol.revisions import since

AUTHORIZED: Final = since("2025-03-26")
"""The revisions that have authorization."""

OFFLINE_ACCESS_BY_CLIENT: Final = frozenset(since("2026-07-28"))
"""The revisions in which only the client decides whether to ask for ``offline_access``."""

TOKEN_SCHEMES: Final = ("bearer", "dpop")
"""The schemes with which a token is sent: RFC 6750, and RFC 9449 for tokens that are bound to a key."""

_MONTHS: Final = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_DATE: Final = pattern(r"\w{3}, (\d\d) (\w{3}) (\d{4}) (\d\d):(\d\d):(\d\d) GMT")  # RFC 9110, 5.6.7


def expired_token(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a server that accepts an expired token (AUTH-001).

    Only a JSON Web Token shows when it expires, and only if the recording does not mask it.
    """
    authorization = exchange.fields.get("authorization")
    if authorization is None or not exchange.succeeded:
        return
    scheme, token = credential(authorization)
    if scheme not in TOKEN_SCHEMES or is_masked(token):
        return
    expires_s, answered_s = _expiry(token), _date(exchange.response_fields.get("date") or "")
    if expires_s is not None and answered_s is not None and expires_s < answered_s:
        problem = f"server accepted a token that had expired {answered_s - expires_s:.0f} s before"
        yield Violation("AUTH-001", "R-099", problem, related=(exchange.request.seq,), at_most="warning")


def invalid_token_status(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a server that refuses a token as invalid with a status other than 401 (AUTH-001)."""
    if exchange.status == 401 or "authorization" not in exchange.fields:
        return
    if (
        _wants_token(exchange.response_fields)
        and _parameters(exchange.response_fields).get("error") == "invalid_token"
    ):
        problem = f"server refused a token as invalid with status {exchange.status} instead of 401"
        yield Violation("AUTH-001", "R-099", problem, related=(exchange.request.seq,))


def _expiry(token: str) -> float | None:
    """Return when a JSON Web Token expires, in seconds since 1970; ``None`` if unknown (RFC 7519, 4.1.4)."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims: JSON = json.loads(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        return None
    expires_s = member(claims, "exp")
    return float(expires_s) if isinstance(expires_s, int | float) and abs(expires_s) < 1e15 else None


def _date(value: str) -> float | None:
    """Return the time in a Date header, in seconds since 1970; ``None`` if it is invalid."""
    match = _DATE.fullmatch(value)
    if match is None or match[2] not in _MONTHS:
        return None
    month = _MONTHS.index(match[2]) + 1
    day, year, hour, minute, second = (int(match[group]) for group in (1, 3, 4, 5, 6))
    try:
        return datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC).timestamp()
    except ValueError:
        return None


def unguided_challenge(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a 401 that does not say where the resource metadata is, in 2025-06-18 (AUTH-002).

    From 2025-11-25 on the metadata may be at a well-known address instead: see ``metadata_nowhere``.
    """
    candidates, are_certain = _possible_revisions(exchange)
    if exchange.status == 401 and candidates == ("2025-06-18",) and (fault := _challenge_fault(exchange)):
        yield Violation(
            "AUTH-002",
            "R-100",
            f"server refused with 401 {fault}",
            related=(exchange.request.seq,),
            at_most=None if are_certain else "warning",
            candidates=candidates,
        )


def metadata_nowhere(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a 401 that names no resource metadata, if the well-known address has none (AUTH-002).

    The refusal of a request for that address shows it.
    """
    if RESOURCE_METADATA not in exchange.request.target or exchange.status not in (404, 405, 410):
        return
    if history.metadata or exchange.request.target.partition("?")[0] != RESOURCE_METADATA:
        # A client tries the address at the root last. Only a refusal there proves that there is no metadata.
        return
    for head in history.challenges:
        if resource_metadata(Fields(head.headers)) is None:
            problem = "server refused with 401 without resource_metadata, and has no well-known metadata"
            yield Violation(
                "AUTH-002",
                "R-100",
                problem,
                related=(head.seq,),
                at_most="warning",
                candidates=since("2025-11-25"),
            )
            return


def _possible_revisions(exchange: HttpExchange) -> tuple[tuple[str, ...], bool]:
    """Return the revisions that may apply to an exchange, and whether that is certain.

    It is not certain before a revision is negotiated, and a 401 often comes before that.
    """
    session = exchange.session
    if session is not None and session.revision is not None:
        return (session.revision,), True
    initialize = exchange.initialize
    version = (
        member(initialize.params, "protocolVersion") if initialize else exchange.fields.get(PROTOCOL_VERSION)
    )
    return ((version,) if isinstance(version, str) and version in AUTHORIZED else AUTHORIZED), False


def _challenge_fault(exchange: HttpExchange) -> str:
    """Return what the challenge of a 401 lacks, as a phrase; empty if it names the resource metadata."""
    if "www-authenticate" not in exchange.response_fields:
        return "without WWW-Authenticate"
    if resource_metadata(exchange.response_fields) is None:
        return "whose WWW-Authenticate has no resource_metadata"
    return ""


def resource_metadata(fields: Fields) -> str | None:
    """Return the URL of the resource metadata that a challenge names; ``None`` if it names none."""
    return _parameters(fields).get("resource_metadata")


def _parameters(fields: Fields) -> dict[str, str]:
    return challenge_parameters(fields.all("www-authenticate"))


def _wants_token(fields: Fields) -> bool:
    """Whether a challenge asks for a token."""
    values = [value.lower() for value in fields.all("www-authenticate")]
    return any(scheme in value for value in values for scheme in TOKEN_SCHEMES)


def dropped_token(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a request without the token that earlier requests had (AUTH-003).

    A server may leave some methods open, so this is reported only after a 401.
    """
    session = exchange.session
    if session is None or not history.challenged or "authorization" in exchange.fields:
        return
    token_seq = session.authorized_seq
    if session.stateless:  # Stateless requests share no session, so the connection identifies the client.
        token_seq = history.authorized.get(exchange.request.connection)
    if token_seq is not None and exchange.method != "OPTIONS":
        problem = "client left the token out of a request, after sending it with an earlier one"
        yield Violation("AUTH-003", "R-101", problem, related=(token_seq,), at_most="warning")


def token_in_query(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a token in the query of a URI (AUTH-004)."""
    _, mark, query = exchange.request.target.partition("?")
    if not mark or (exchange.session is None and not exchange.request.endpoint):
        return
    from urllib.parse import parse_qsl  # imported here: it takes 3 ms, and few sessions need it

    _, token = credential(exchange.fields.get("authorization") or "")
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name.lower() == "access_token" or (token and as_mask(value) == as_mask(token)):
            problem = f"client put a token into the query of its request, as parameter {name[:40]}"
            yield Violation("AUTH-004", "R-102", problem)
            return


def unexplained_refusal(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a 403 for a token without a challenge that names the missing scope and the resource metadata
    (AUTH-005).

    A 403 for a request with an Origin header is not reported: it may refuse the origin.
    """
    if exchange.status != 403 or "authorization" not in exchange.fields or "origin" in exchange.fields:
        return
    parameters = _parameters(exchange.response_fields)
    if parameters.get("error") == "invalid_token":
        return  # The scope is not the reason: AUTH-001 reports this.
    if not _wants_token(exchange.response_fields) or parameters.get("error") != "insufficient_scope":
        missing_parameter = 'error="insufficient_scope"'
    elif missing_names := [name for name in ("scope", "resource_metadata") if name not in parameters]:
        missing_parameter = missing_names[0]
    else:
        return
    problem = f"server refused a token with 403, but without {missing_parameter} in WWW-Authenticate"
    yield Violation(
        "AUTH-005",
        "R-103",
        problem,
        related=(exchange.request.seq,),
        candidates=_possible_revisions(exchange)[0],
    )


def unscoped_challenge(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a 401 that asks for a token without naming a scope or, from 2026-07-28 on, with the scope
    offline_access (AUTH-006).
    """
    if exchange.status != 401 or not _wants_token(exchange.response_fields):
        return
    candidates, _ = _possible_revisions(exchange)
    scope = _parameters(exchange.response_fields).get("scope")
    if scope is None:
        problem = "server named no scope in its challenge"
    elif "offline_access" in scope.split() and set(candidates) <= OFFLINE_ACCESS_BY_CLIENT:
        problem = "server asked for offline_access, which only the client may choose"
    else:
        return
    related = (exchange.request.seq,)
    yield Violation("AUTH-006", "R-104", problem, related=related, at_most="info", candidates=candidates)


def empty_metadata(exchange: HttpExchange, history: HttpHistory, frame: Frame) -> Violations:
    """Report resource metadata that lists no authorization server (AUTH-007)."""
    if exchange.method != "GET" or RESOURCE_METADATA not in exchange.request.target or not exchange.succeeded:
        return
    message = frame.message
    document = None if isinstance(message, Batch) else as_object(message.value)
    if document is None:
        return
    servers = document.get("authorization_servers")
    if not isinstance(servers, list) or not servers:
        problem = "server published resource metadata that names no authorization server"
        yield Violation(
            "AUTH-007", "R-105", problem, pointer="/authorization_servers", candidates=since("2025-06-18")
        )


FAMILY: Final = RuleFamily(
    http=(
        HttpCheck(("AUTH-001",), expired_token, ("success",), MCP, given=WITH_TOKEN),
        HttpCheck(("AUTH-001",), invalid_token_status, ("refusal",), MCP, given=WITH_TOKEN),
        HttpCheck(("AUTH-002",), unguided_challenge, ("refusal",), STREAMABLE),
        HttpCheck(("AUTH-002",), metadata_nowhere, ("refusal",), OTHER, ("GET",)),
        HttpCheck(("AUTH-003",), dropped_token, ("request",), STREAMABLE, given=CHALLENGED),
        HttpCheck(("AUTH-004",), token_in_query, ("request",), MCP, given=WITH_QUERY),
        HttpCheck(("AUTH-005",), unexplained_refusal, ("refusal",), STREAMABLE, given=WITH_TOKEN),
        HttpCheck(("AUTH-006",), unscoped_challenge, ("refusal",), STREAMABLE),
        HttpCheck(("AUTH-007",), empty_metadata, ("body",), OTHER, ("GET",)),
    ),
)
