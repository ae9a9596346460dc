"""Credentials of one authorization server that a client uses for another, as a forward proxy sees it.

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration
"""

from typing import Final

from mcpproxy.judge.checks.engine.context import Violation, Violations
from mcpproxy.judge.checks.engine.http_facts import WITH_TOKEN
from mcpproxy.judge.checks.engine.rows import MCP, OTHER, HttpCheck, RuleFamily
from mcpproxy.judge.checks.transports.authorization import AUTHORIZED
from mcpproxy.judge.session.exchanges import HttpExchange, HttpHistory
from mcpproxy.judge.session.frame import Frame
from mcpproxy.judge.session.issuers import Issued, Issuers
from mcpproxy.judge.session.masked_values import credential
from mcpproxy.protocol.jsonrpc import JSON, Batch
from mcpproxy.protocol.message_parts import as_object, member
from mcpproxy.protocol.oauth import RESOURCE_METADATA, SERVER_METADATA
from mcpproxy.protocol.wording import shown

_ENDPOINTS: Final = ("token_endpoint", "registration_endpoint")
"""Members of a server's metadata: the URLs at which it gives tokens and client secrets."""
_FORM_BYTES: Final = 1 << 16
"""A longer body is not read as a form."""


def foreign_token(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a token of an authorization server other than those of the MCP server (AUTH-011)."""
    issuers = history.issuers
    issued = issuers.tokens.get(credential(exchange.fields.get("authorization") or "")[1])
    if issued is None:
        return
    servers = issuers.wanted_at(_place(exchange.request.target))
    if issuers.others_gave(issued, servers):
        listed = ", ".join(map(shown, sorted(servers)[:3]))
        problem = (
            f"client sent a token of {_giver(issued, issuers)} to an MCP server that takes those of {listed}"
        )
        yield Violation("AUTH-011", "R-332", problem, related=(issued.seq,))


def foreign_secret(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a client secret sent to an authorization server other than the one that gave it (AUTH-012)."""
    issuers, body = history.issuers, exchange.body
    if not issuers.secrets or body is None or len(body.raw) > _FORM_BYTES:
        return
    if b"client_secret" not in body.raw:
        return
    from urllib.parse import parse_qs  # imported here: it takes 3 ms, and few sessions need it

    issued = issuers.secrets.get(parse_qs(body.raw.decode("latin-1")).get("client_secret", [""])[0])
    servers = issuers.named.get(_place(exchange.request.target), frozenset())
    if issued is not None and issuers.others_gave(issued, servers):
        problem = f"client sent the client_secret that {_giver(issued, issuers)} gave it to another server"
        yield Violation("AUTH-012", "R-333", problem, related=(issued.seq,), candidates=AUTHORIZED)


def _giver(issued: Issued, issuers: Issuers) -> str:
    """Return one of the names of a server that gave a credential, always the same."""
    return shown(min(min(issuers.named[place]) for place in issued.places))


def remember_issuer(exchange: HttpExchange, frame: Frame, history: HttpHistory) -> None:
    """Record the metadata of authorization servers in an answer, or the credentials that they give."""
    document = None if isinstance(frame.message, Batch) else as_object(frame.message.value)
    place, issuers = _place(exchange.request.target), history.issuers
    if document is None or "://" not in place or not exchange.succeeded:
        return
    if exchange.method == "GET":
        if RESOURCE_METADATA in place:
            if isinstance(resource := document.get("resource"), str):
                issuers.add_resource(
                    _without_slash(resource), _plain_urls(document.get("authorization_servers"))
                )
        elif well_known := next((name for name in SERVER_METADATA if name in place), None):
            names = _plain_urls([document.get("issuer"), place.replace(well_known, "")])
            issuers.add_server(names, _plain_urls([document.get(name) for name in _ENDPOINTS]))
    elif exchange.method == "POST":
        if isinstance(token := document.get("access_token"), str):
            issuers.add_credential(issuers.tokens, token, place, frame.seq)
        if "client_id" in document and isinstance(secret := member(document, "client_secret"), str):
            issuers.add_credential(issuers.secrets, secret, place, frame.seq)


def _plain_urls(values: JSON) -> frozenset[str]:
    """Return the strings in an array, without slashes at their ends; empty if it is not an array."""
    listed = values if isinstance(values, list) else []
    return frozenset([_without_slash(value) for value in listed if isinstance(value, str)])


def _place(target: str) -> str:
    """Return a request target as a place (see ``session.issuers``): without query and slashes at its end."""
    return _without_slash(target.partition("?")[0])


def _without_slash(url: str) -> str:
    return url.rstrip("/")


FAMILY: Final = RuleFamily(
    http=(
        HttpCheck(("AUTH-011",), foreign_token, ("request",), MCP, given=WITH_TOKEN),
        HttpCheck(("AUTH-012",), foreign_secret, ("request",), OTHER, ("POST",)),
    )
)
