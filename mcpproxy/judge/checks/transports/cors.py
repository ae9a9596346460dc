"""Requests of web pages to another origin (CORS): what a server's answers let a browser send and read.

Before most such requests a browser sends a *preflight*, which asks whether the page may send them. Only the
permissions that a preflight asks for are judged, and whether a page can read its session id. Both are judged
only if the answer allows the origin: each server decides which pages it serves. A ``*`` counts as everything,
although for requests with credentials it does not.

Source: https://fetch.spec.whatwg.org/#http-cors-protocol
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.judge.checks.engine.context import Violation, shortened
from mcpproxy.judge.checks.engine.http_facts import ISSUES_SESSION_ID, WITH_ORIGIN
from mcpproxy.judge.checks.engine.rows import MCP, STATEFUL, HttpCheck, RuleFamily
from mcpproxy.judge.session.exchanges import Fields, HttpExchange, HttpHistory
from mcpproxy.judge.session.frame import Frame
from mcpproxy.protocol.header_names import METHOD, NAME, PARAM_PREFIX, PROTOCOL_VERSION, SESSION_ID

ALLOWED_ORIGIN: Final = "access-control-allow-origin"
ASKED_METHOD: Final = "access-control-request-method"
ASKED_HEADERS: Final = "access-control-request-headers"

NEEDED: Final = (
    "authorization",
    "content-type",
    "last-event-id",
    PROTOCOL_VERSION,
    SESSION_ID,
    METHOD,
    NAME,
    "DELETE",
)
"""Header fields that MCP clients send, and DELETE, the one method of theirs that needs permission."""


def refused_preflight(
    exchange: HttpExchange, history: HttpHistory, frame: Frame | None
) -> Iterator[Violation]:
    """Report header fields and methods that a preflight asks for and its answer does not allow, each once for
    each origin (HTTP-021).
    """
    origin = exchange.fields.get("origin") or ""
    refused = refused_to_page(exchange) - history.refused_to_pages.get(origin, frozenset())
    if refused:
        names = shortened(", ".join(sorted(refused)))
        problem = (
            f"server does not allow {names} to a page of {shortened(origin)}, "
            "so a browser does not send the request"
        )
        yield Violation("HTTP-021", "R-283", problem, related=(exchange.request.seq,))


def refused_to_page(exchange: HttpExchange) -> frozenset[str]:
    """Return which of ``NEEDED`` and of the Mcp-Param headers a preflight asks for and is not allowed.

    It is empty unless ``is_allowed_preflight``.
    """
    if not is_allowed_preflight(exchange):
        return frozenset()
    fields, answer = exchange.fields, exchange.response_fields
    allowed_headers = {name.lower() for name in _listed(answer, "access-control-allow-headers")}
    allowed_methods = {name.upper() for name in _listed(answer, "access-control-allow-methods")}
    asked_headers = {name.lower() for name in _listed(fields, ASKED_HEADERS)}
    refused_headers = frozenset[str]() if "*" in allowed_headers else asked_headers - allowed_headers
    refused_methods = (
        frozenset[str]() if "*" in allowed_methods else {fields.get(ASKED_METHOD)} - allowed_methods
    )
    return frozenset(
        name
        for name in (*refused_headers, *refused_methods)
        if name in NEEDED or (name is not None and name.startswith(PARAM_PREFIX))
    )


def is_allowed_preflight(exchange: HttpExchange) -> bool:
    """Whether this is a preflight whose answer allows the origin of the page; false if values are masked."""
    is_preflight = exchange.method == "OPTIONS" and ASKED_METHOD in exchange.fields
    return is_preflight and exchange.succeeded and not exchange.masked and _allows_origin(exchange)


def hidden_session_id(
    exchange: HttpExchange, history: HttpHistory, frame: Frame | None
) -> Iterator[Violation]:
    """Report a session id that the page that opens the session cannot read, once (HTTP-021).

    Only an origin with an earlier allowed preflight is judged: it shows that a browser sends the requests of
    this origin, and that they are CORS requests.
    """
    if not history.hid_session_id and hides_session_id(exchange, history):
        problem = (
            "server does not expose Mcp-Session-Id to a page of "
            f"{shortened(exchange.fields.get('origin') or '')}, so the page cannot go on with the session"
        )
        yield Violation("HTTP-021", "R-283", problem, related=(exchange.request.seq,))


def hides_session_id(exchange: HttpExchange, history: HttpHistory) -> bool:
    """Whether a page gets a session id in a header that its browser does not show to it."""
    answer = exchange.response_fields
    if SESSION_ID not in answer or exchange.fields.get("origin") not in history.refused_to_pages:
        return False
    exposed = {name.lower() for name in _listed(answer, "access-control-expose-headers")}
    return not exchange.masked and _allows_origin(exchange) and exposed.isdisjoint((SESSION_ID, "*"))


def _allows_origin(exchange: HttpExchange) -> bool:
    """Whether the answer allows the origin of the request."""
    origin = exchange.fields.get("origin")
    allowed = exchange.response_fields.all(ALLOWED_ORIGIN)
    return origin is not None and allowed in (("*",), (origin,))


def _listed(fields: Fields, name: str) -> list[str]:
    """Return the elements of a field that is a list separated by commas."""
    return [item.strip() for value in fields.all(name) for item in value.split(",") if item.strip()]


FAMILY: Final = RuleFamily(
    http=(
        HttpCheck(("HTTP-021",), refused_preflight, ("success",), MCP, ("OPTIONS",), given=WITH_ORIGIN),
        HttpCheck(
            ("HTTP-021",), hidden_session_id, ("success",), STATEFUL, ("POST",), given=ISSUES_SESSION_ID
        ),
    ),
)
