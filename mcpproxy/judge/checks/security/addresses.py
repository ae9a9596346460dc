"""Addresses to which a server sends people or their credentials, if they are deceptive or without TLS.

Source: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#safe-url-handling
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from mcpproxy.judge.checks.basic.embedded import ASK_CARRIERS, INPUT_REQUESTS, Ask, check_asks
from mcpproxy.judge.checks.client.elicitation import CREATE, is_local, parse_url
from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.rows import MCP, OTHER, Check, HttpCheck, RuleFamily
from mcpproxy.judge.checks.transports.authorization import resource_metadata
from mcpproxy.judge.session.exchanges import HttpExchange, HttpHistory
from mcpproxy.judge.session.frame import Frame
from mcpproxy.judge.session.history import History
from mcpproxy.judge.session.masked_values import holds_mask
from mcpproxy.protocol.jsonrpc import Batch
from mcpproxy.protocol.message_parts import as_object, member
from mcpproxy.protocol.oauth import RESOURCE_METADATA
from mcpproxy.protocol.revisions import STATELESS, since
from mcpproxy.protocol.wording import shown

if TYPE_CHECKING:
    from urllib.parse import SplitResult

_WITH_METADATA: Final = since("2025-06-18")
"""The revisions in which a server names its authorization servers in resource metadata."""


def url_with_user_info(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report an elicitation whose URL has user information before its host (SEC-005)."""
    return check_asks(context, history, "elicitation/create", (_user_info,))


def _user_info(ask: Ask, context: MessageContext, history: History) -> Iterator[Violation]:
    url = member(ask.params, "url")
    if member(ask.params, "mode") != "url" or not isinstance(url, str):
        return
    parts = parse_url(url)
    if parts is not None and _has_user_info(parts):
        # The text before the host may be a password, so it is not shown.
        problem = (
            f"server sent the user to {shown(parts.hostname)} by a URL with text before that host and an @"
        )
        yield Violation("SEC-005", "X-017", problem, pointer=ask.at + "/params/url")


def _has_user_info(parts: "SplitResult") -> bool:
    return parts.scheme in ("http", "https") and "@" in parts.netloc


def open_challenge(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Iterator[Violation]:
    """Report a 401 or 403 that names resource metadata at a deceptive address or without TLS (SEC-006)."""
    url = resource_metadata(exchange.response_fields)
    if exchange.status in (401, 403) and url is not None and (fault := _address_fault(url)):
        problem = f"server named resource metadata {fault} in its challenge"
        yield Violation(
            "SEC-006", "X-018", problem, related=(exchange.request.seq,), candidates=_WITH_METADATA
        )


def open_authorization_server(
    exchange: HttpExchange, history: HttpHistory, frame: Frame
) -> Iterator[Violation]:
    """Report resource metadata that names a deceptive authorization server or one without TLS (SEC-006)."""
    if RESOURCE_METADATA not in exchange.request.target or not exchange.succeeded:
        return
    message = frame.message
    document = None if isinstance(message, Batch) else as_object(message.value)
    servers = member(document, "authorization_servers")
    for index, url in enumerate(servers if isinstance(servers, list) else ()):
        if isinstance(url, str) and (fault := _address_fault(url)):
            problem = f"server named an authorization server {fault}"
            yield Violation(
                "SEC-006",
                "X-018",
                problem,
                pointer=f"/authorization_servers/{index}",
                candidates=_WITH_METADATA,
            )


def _address_fault(url: str) -> str:
    """Return what is wrong with the address of resource metadata or of an authorization server.

    It is the end of a phrase; empty if nothing is wrong, or if the address is masked or not an absolute URL.
    """
    parts = None if holds_mask(url) else parse_url(url)
    if parts is None:
        return ""
    if _has_user_info(parts):
        return f"on {shown(parts.hostname)} by a URL with text before that host and an @"
    if parts.scheme == "http" and not is_local(parts.hostname or ""):
        return f"on {shown(parts.hostname)} without TLS"
    return ""


FAMILY: Final = RuleFamily(
    checks=(
        Check(("SEC-005",), url_with_user_info, ("request",), CREATE),
        Check(
            ("SEC-005",),
            url_with_user_info,
            ("response",),
            ASK_CARRIERS,
            within=STATELESS,
            members=INPUT_REQUESTS,
        ),
    ),
    http=(
        HttpCheck(("SEC-006",), open_challenge, ("refusal",), MCP),
        HttpCheck(("SEC-006",), open_authorization_server, ("body",), OTHER, ("GET",)),
    ),
)
