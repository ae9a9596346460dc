"""Servers over HTTP that want an access token, and say in different ways who gives one.

Each is its own authorization server, which approves whoever asks: who follows its redirect is logged in.
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
"""How often a client may be refused: to log in, or to learn that it cannot, fewer requests are enough."""

STAYS_S: Final = 1.0

_HTTP: Final[tuple[Transport, ...]] = ("http",)
_SLOW_S: Final = 1.0
"""How long each further refusal takes, so that a client that never stops does not fill the disk."""

_RESOURCE: Final = "/.well-known/oauth-protected-resource"
_FAR: Final = f"/about{_RESOURCE}"
"""A place of the resource metadata that only a challenge tells."""

_TENANT: Final = "/tenant"
_KEPT: Final = 64
"""How many codes are kept."""


@dataclass(frozen=True, slots=True)
class Discovery:
    """How a client finds the authorization server.

    ``resource`` is the path of the resource metadata, empty if there are none, and ``is_told`` whether a
    challenge names it. ``server`` is the path of the metadata of the authorization server, whose issuer has
    the path ``issuer``.
    """

    resource: str
    is_told: bool = False
    server: str = "/.well-known/oauth-authorization-server"
    issuer: str = ""

    def __call__(self, peer: ScriptedEndpoint, exchange: ScriptedExchange) -> bool:
        """Answer what needs no token, and refuse what has none."""
        if exchange.path == ENDPOINT:
            return self._is_refused(peer, exchange)
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

    def _is_refused(self, peer: ScriptedEndpoint, exchange: ScriptedExchange) -> bool:
        kind, _, token = exchange.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and token and peer.kept.get("token") == {"is": token}:
            return False
        peer.seen["refused"] += 1
        if peer.seen["refused"] > REFUSALS:
            time.sleep(_SLOW_S)
        place = f'resource_metadata="{peer.origin}{self.resource}", ' if self.is_told else ""
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
    kept = {name: wanted[name] for name in ("redirect_uris", "client_name", "scope") if name in wanted}
    fixed: JSONObject = {"grant_types": ["authorization_code"], "token_endpoint_auth_method": "none"}
    exchange.respond_json({**kept, **fixed, "client_id": token_hex(8)}, 201)


def _approve(peer: ScriptedEndpoint, exchange: ScriptedExchange) -> None:
    """Send the browser back with a code."""
    asked = dict(parse_qsl(exchange.query))
    try:
        target = urlsplit(asked.get("redirect_uri", ""))
    except ValueError:  # no URL
        target = urlsplit("")
    if not target.scheme or not target.geturl().isprintable() or " " in target.geturl():
        exchange.respond(400)
        return
    code = token_hex(16)
    while len(peer.kept) >= _KEPT:
        peer.kept.pop(next(iter(peer.kept)))
    peer.kept[f"code {code}"] = {"challenge": asked.get("code_challenge", "")}
    back = urlencode([*parse_qsl(target.query), ("code", code), *_given(asked, "state")])
    exchange.respond(302, headers={"Location": urlunsplit(target._replace(query=back))})


def _give_token(peer: ScriptedEndpoint, exchange: ScriptedExchange) -> None:
    """Give a token for a code, once."""
    asked = dict(parse_qsl(exchange.body.decode(errors="replace")))
    code = peer.kept.pop(f"code {asked.get('code', '')}", None)
    digest = hashlib.sha256(asked.get("code_verifier", "").encode()).digest()
    if code != {"challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode()}:
        exchange.respond_json({"error": "invalid_grant"}, 400, _NO_STORE)
        return
    token = token_hex(16)
    peer.kept["token"] = {"is": token}
    answer: JSONObject = {"access_token": token, "token_type": "Bearer", "expires_in": 3600, "scope": "mcp"}
    exchange.respond_json(answer, 200, _NO_STORE)


_NO_STORE: Final[Mapping[str, str]] = {"Cache-Control": "no-store"}


def _given(asked: Mapping[str, str], name: str) -> list[tuple[str, str]]:
    return [(name, asked[name])] if name in asked else []


def _scenario(name: str, what: str, discovery: Discovery) -> Scenario:
    return Scenario(
        name,
        "transport",
        what,
        # A client may wait for a person to log in, unless it can know that there is nowhere to.
        reaction="may wait" if discovery.resource else "may give up",
        transports=_HTTP,
        http=discovery,
        stays_s=STAYS_S if discovery.resource else 0,
    )


AUTHORIZED: Final = (
    _scenario(
        "login-by-challenge",
        "a 401 names the resource metadata",
        Discovery(_FAR, is_told=True),
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
        Discovery(_FAR, is_told=True, server=f"{_TENANT}/.well-known/openid-configuration", issuer=_TENANT),
    ),
)
"""Servers that keep the protocol."""

NOWHERE: Final = _scenario("login-nowhere", "a 401, and nothing says where to log in", Discovery(""))
"""The server that does not."""
