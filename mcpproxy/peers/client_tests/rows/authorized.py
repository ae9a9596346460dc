"""Servers over HTTP that require an access token, and say in different ways where to get one.

Each, except ``NOWHERE``, is its own authorization server and approves every client: one that follows its
redirect is logged in.
"""

import base64
import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from secrets import token_hex
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from mcpproxy.peers.client_tests.http_peer import ENDPOINT, ScriptedEndpoint, ScriptedExchange
from mcpproxy.peers.client_tests.scenario import Scenario, Transport
from mcpproxy.protocol.jsonrpc import JSONObject

REFUSALS: Final = 30
"""How often a client may be refused. Fewer requests are enough to log in, or to learn that it cannot."""

STAYS_S: Final = 1.0
"""Not 0, so that ``Scenario.is_silent`` is false: a client that sends nothing more is ended soon."""

_HTTP: Final[tuple[Transport, ...]] = ("http",)
_SLOW_S: Final = 1.0
"""How long each refusal beyond ``REFUSALS`` takes, so that a client that never stops does not fill the
disk."""

_RESOURCE: Final = "/.well-known/oauth-protected-resource"
_FAR: Final = f"/about{_RESOURCE}"
"""A path of the resource metadata that a client can learn only from a challenge."""

_TENANT: Final = "/tenant"
"""The path of an authorization server that is not at the root of its host."""
_KEPT: Final = 64
"""How many authorization codes are kept at most, counting the token."""


@dataclass(frozen=True, slots=True)
class Discovery:
    """How a client finds the authorization server.

    ``resource`` is the path of the resource metadata, empty if there are none, and ``is_in_challenge`` says
    whether a challenge names it. ``server`` is the path of the metadata of the authorization server, whose
    issuer has the path ``issuer``.
    """

    resource: str
    is_in_challenge: bool = False
    server: str = "/.well-known/oauth-authorization-server"
    issuer: str = ""

    def __call__(self, peer: ScriptedEndpoint, exchange: ScriptedExchange) -> bool:
        """Answer requests that need no token, and refuse requests to the endpoint without a token.

        Return whether the exchange has its response.
        """
        if exchange.path == ENDPOINT:
            return self._refuse_without_token(peer, exchange)
        route = f"{exchange.method} {exchange.path}"
        if self.resource and route == f"GET {self.resource}":
            about: JSONObject = {"resource": peer.url, "authorization_servers": [peer.origin + self.issuer]}
            exchange.respond_json(
                {**about, "scopes_supported": ["mcp"], "bearer_methods_supported": ["header"]}
            )
        elif self.resource and route == f"GET {self.server}":
            exchange.respond_json(self._metadata(peer.origin))
        elif self.resource and route == "POST /register":
            _register(exchange)
        elif self.resource and route == "GET /authorize":
            _approve(peer, exchange)
        elif self.resource and route == "POST /token":
            _give_token(peer, exchange)
        else:
            exchange.respond(404)
        return True

    def _refuse_without_token(self, peer: ScriptedEndpoint, exchange: ScriptedExchange) -> bool:
        """Refuse a request without the token that was issued last; return whether it was refused."""
        kind, _, token = exchange.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and token and peer.kept.get("token") == {"is": token}:
            return False
        peer.seen["refused"] += 1
        if peer.seen["refused"] > REFUSALS:
            time.sleep(_SLOW_S)
        place = f'resource_metadata="{peer.origin}{self.resource}", ' if self.is_in_challenge else ""
        exchange.respond(401, headers={"WWW-Authenticate": f'Bearer {place}scope="mcp"'})
        return True

    def _metadata(self, origin: str) -> JSONObject:
        metadata: JSONObject = {
            "issuer": origin + self.issuer,
            "authorization_endpoint": f"{origin}/authorize",
            "token_endpoint": f"{origin}/token",
            "registration_endpoint": f"{origin}/register",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "scopes_supported": ["mcp"],
        }
        if "openid" in self.server:
            signed: JSONObject = {"id_token_signing_alg_values_supported": ["RS256"]}
            metadata |= {"jwks_uri": f"{origin}/keys", "subject_types_supported": ["public"], **signed}
        return metadata


def _register(exchange: ScriptedExchange) -> None:
    """Register any client, without a secret."""
    wanted = exchange.message or {}
    accepted = {name: wanted[name] for name in ("redirect_uris", "client_name", "scope") if name in wanted}
    fixed: JSONObject = {"grant_types": ["authorization_code"], "token_endpoint_auth_method": "none"}
    exchange.respond_json({**accepted, **fixed, "client_id": token_hex(8)}, 201)


def _approve(peer: ScriptedEndpoint, exchange: ScriptedExchange) -> None:
    """Redirect the browser to the client with an authorization code, if the client has named a URL."""
    params = dict(parse_qsl(exchange.query))
    try:
        target = urlsplit(params.get("redirect_uri", ""))
    except ValueError:  # no URL
        target = urlsplit("")
    if not target.scheme or not target.geturl().isprintable() or " " in target.geturl():
        exchange.respond(400)
        return
    code = token_hex(16)
    while len(peer.kept) >= _KEPT:
        peer.kept.pop(next(iter(peer.kept)))
    peer.kept[f"code {code}"] = {"challenge": params.get("code_challenge", "")}
    state = [("state", params["state"])] if "state" in params else []
    query = urlencode([*parse_qsl(target.query), ("code", code), *state])
    exchange.respond(302, headers={"Location": urlunsplit(target._replace(query=query))})


def _give_token(peer: ScriptedEndpoint, exchange: ScriptedExchange) -> None:
    """Respond with a token for an authorization code, which can be used once."""
    params = dict(parse_qsl(exchange.body.decode(errors="replace")))
    code = peer.kept.pop(f"code {params.get('code', '')}", None)
    digest = hashlib.sha256(params.get("code_verifier", "").encode()).digest()
    if code != {"challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode()}:
        exchange.respond_json({"error": "invalid_grant"}, 400, _NO_STORE)
        return
    token = token_hex(16)
    peer.kept["token"] = {"is": token}
    answer: JSONObject = {"access_token": token, "token_type": "Bearer", "expires_in": 3600, "scope": "mcp"}
    exchange.respond_json(answer, 200, _NO_STORE)


_NO_STORE: Final[Mapping[str, str]] = {"Cache-Control": "no-store"}


def _scenario(name: str, what: str, discovery: Discovery) -> Scenario:
    return Scenario(
        name,
        "transport",
        what,
        # A client may wait for a person to log in, unless it can know that nobody can.
        reaction="may wait" if discovery.resource else "may give up",
        transports=_HTTP,
        http=discovery,
        stays_s=STAYS_S if discovery.resource else 0,
    )


AUTHORIZED: Final = (
    _scenario(
        "login-by-challenge",
        "a 401 names the resource metadata",
        Discovery(_FAR, is_in_challenge=True),
    ),
    _scenario(
        "login-at-path",
        "a 401 names nothing; the resource metadata are at the well-known address of the endpoint",
        Discovery(f"{_RESOURCE}{ENDPOINT}"),
    ),
    _scenario(
        "login-at-root",
        "a 401 names nothing; the resource metadata are at the well-known address of the host",
        Discovery(_RESOURCE),
    ),
    _scenario(
        "login-by-openid",
        "the authorization server has a path, and describes itself by OpenID Connect below it",
        Discovery(
            _FAR, is_in_challenge=True, server=f"{_TENANT}/.well-known/openid-configuration", issuer=_TENANT
        ),
    ),
)
"""Servers that keep the protocol."""

NOWHERE: Final = _scenario("login-nowhere", "a 401, and nothing says where to log in", Discovery(""))
"""The server that breaks the protocol."""
