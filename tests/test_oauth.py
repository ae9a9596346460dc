"""OAuth passes through the proxy as it is, and no credential that passes is left in the trace.

The server here is both, the MCP server and its authorization server, and small: it knows one client, one
code, one token. Every secret is random, so that looking for it in a trace finds it and nothing else.
"""

import base64
import hashlib
import http.client
import json
import secrets
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from mcpproxy.read.opening import open_trace
from mcpproxy.read.view.login.login import read_login
from mcpproxy.read.view.login.meanings import Stage
from tests.peers.fixtures import HERE, Peers
from tests.peers.processes import DEADLINE_S, Proxy, run
from tests.peers.web_server import WebServer

CALLBACK: Final = "http://localhost:3000/callback"

Json = dict[str, Any]


@dataclass
class Secrets:
    """What nobody else may learn."""

    client_secret: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    registration_token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    code: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    access_token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    refresh_token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    session: str = field(default_factory=lambda: secrets.token_hex(16))
    code_verifier: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    cookie: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    def left_in(self, trace: Path) -> set[str]:
        """Which of them stand in the trace, as they are or within Basic credentials."""
        recorded = trace.read_bytes()
        return {name for name, value in vars(self).items() if value.encode() in recorded} | {
            f"basic {name}"
            for name, value in {"client": f"known:{self.client_secret}"}.items()
            if base64.b64encode(value.encode()) in recorded
        }


class Server(WebServer):
    """An MCP server that wants a token, and the authorization server that issues it.

    With an ``issuer`` it leaves that to another one of the same secrets.
    """

    daemon_threads = True

    def __init__(self, issuer: "Server | None" = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self.server_address[1]}"
        self.issuer = issuer.origin if issuer else self.origin
        self.secrets = issuer.secrets if issuer else Secrets()
        self.challenge = ""


class Handler(BaseHTTPRequestHandler):
    """The paths of both."""

    protocol_version = "HTTP/1.1"

    @property
    def guarded(self) -> Server:
        assert isinstance(self.server, Server)
        return self.server

    def do_GET(self) -> None:
        origin, path = self.guarded.origin, urlsplit(self.path)
        match path.path:
            case "/.well-known/oauth-protected-resource/mcp":
                self.say(200, {"resource": f"{origin}/mcp", "authorization_servers": [self.guarded.issuer]})
            case "/.well-known/oauth-authorization-server":
                endpoints = {
                    f"{name}_endpoint": f"{origin}/{path}"
                    for name, path in (
                        ("authorization", "authorize"),
                        ("token", "token"),
                        ("registration", "register"),
                    )
                }
                abilities: Json = {
                    "response_types_supported": ["code"],
                    "grant_types_supported": ["authorization_code", "refresh_token"],
                    "code_challenge_methods_supported": ["S256"],
                    "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"],
                }
                self.say(200, {"issuer": origin, **endpoints, **abilities})
            case "/authorize":
                asked = parse_qs(path.query)
                self.guarded.challenge = asked["code_challenge"][0]
                given = {"code": self.guarded.secrets.code, "state": asked["state"][0]}
                location = f"{asked['redirect_uri'][0]}?{urlencode(given)}"
                cookie = f"login={self.guarded.secrets.cookie}; HttpOnly"
                self.say(302, None, {"Location": location, "Set-Cookie": cookie})
            case _:
                self.say(404, {"error": "not_found"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        match self.path:
            case "/register":
                self.register(json.loads(body))
            case "/token":
                self.give_token({name: values[0] for name, values in parse_qs(body).items()})
            case "/mcp":
                self.serve(json.loads(body))
            case _:
                self.say(404, {"error": "not_found"})

    def do_DELETE(self) -> None:
        self.say(204, None)

    def register(self, about: Json) -> None:
        own = self.guarded.secrets
        self.say(
            201,
            {
                **about,
                "token_endpoint_auth_method": "client_secret_post",
                "client_id": "known",
                "client_secret": own.client_secret,
                "client_secret_expires_at": 0,
                "registration_access_token": own.registration_token,
            },
        )

    def give_token(self, asked: dict[str, str]) -> None:
        own = self.guarded.secrets
        identity, secret = asked.get("client_id"), asked.get("client_secret")
        if (basic := self.headers["Authorization"]) is not None:
            identity, _, secret = base64.b64decode(basic.removeprefix("Basic ")).decode().partition(":")
        proof = base64.urlsafe_b64encode(hashlib.sha256(asked["code_verifier"].encode()).digest())
        is_right = (identity, secret, asked["code"]) == ("known", own.client_secret, own.code)
        if is_right and proof.decode().rstrip("=") == self.guarded.challenge:
            tokens = {"access_token": own.access_token, "refresh_token": own.refresh_token}
            self.say(200, {**tokens, "token_type": "Bearer", "expires_in": 3600})
        else:
            self.say(400, {"error": "invalid_grant"})

    def serve(self, message: Json) -> None:
        own = self.guarded.secrets
        if self.headers["Authorization"] != f"Bearer {own.access_token}":
            metadata = f"{self.guarded.origin}/.well-known/oauth-protected-resource/mcp"
            challenge = f'Bearer resource_metadata="{metadata}"'
            self.say(401, {"error": "invalid_token"}, {"WWW-Authenticate": challenge})
            return
        session = {"Mcp-Session-Id": own.session}
        match message:
            case {"method": "initialize", "id": id}:
                opening: Json = {
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "guarded", "version": "1.0.0"},
                }
                self.say(200, {"jsonrpc": "2.0", "id": id, "result": opening}, session)
            case {"method": "tools/list", "id": id}:
                assert self.headers["Mcp-Session-Id"] == own.session
                self.say(200, {"jsonrpc": "2.0", "id": id, "result": {"tools": []}})
            case {"id": id}:
                error = {"code": -32601, "message": "no such method"}
                self.say(200, {"jsonrpc": "2.0", "id": id, "error": error})
            case _:
                self.say(202, None)

    def say(self, status: int, content: Json | None, headers: dict[str, str] | None = None) -> None:
        body = b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if body:
            self.send_header("Content-Type", "application/json")
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: pytest has enough to show."""


@contextmanager
def serving(server: Server) -> Generator[Server]:
    """The server, while it serves."""
    with server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(DEADLINE_S)


@pytest.fixture
def guarded() -> Generator[Server]:
    """An MCP server that is its own authorization server."""
    with serving(Server()) as server:
        yield server


@dataclass(frozen=True)
class Answer:
    """What a response says, without the date."""

    status: int
    headers: list[tuple[str, str]]
    body: str


class Browser:
    """Sends requests the one way or the other, and keeps the answers.

    Args:
        address: ``host:port`` to connect to.
        origin: put before every path, as clients of a forward proxy do.
    """

    def __init__(self, address: str, origin: str = "") -> None:
        self._connection = http.client.HTTPConnection(address, timeout=DEADLINE_S)
        self._origin = origin
        self.answers: list[Answer] = []
        self.accepts_streams = False  # on every request, as no careful client does

    def get(self, path: str) -> Answer:
        return self._ask("GET", path, "", {})

    def post(self, path: str, content: str | Json, headers: dict[str, str]) -> Answer:
        """A form when ``content`` is text, else JSON."""
        is_form = isinstance(content, str)
        kind = "application/x-www-form-urlencoded" if is_form else "application/json"
        accepted = "application/json, text/event-stream" if path == "/mcp" else "application/json"
        body = content if is_form else json.dumps(content)
        return self._ask("POST", path, body, {"Content-Type": kind, "Accept": accepted, **headers})

    def close(self) -> None:
        self._connection.close()

    def _ask(self, method: str, path: str, body: str, headers: dict[str, str]) -> Answer:
        if self.accepts_streams:
            headers = {**headers, "Accept": "application/json, text/event-stream"}
        self._connection.request(method, self._origin + path, body or None, headers)
        response = self._connection.getresponse()
        fields = [(name, value) for name, value in response.getheaders() if name != "Date"]
        self.answers.append(Answer(response.status, fields, response.read().decode()))
        return self.answers[-1]


def walk(browser: Browser, own: Secrets, is_basic: bool) -> list[Answer]:
    """From a first refusal over registration, login and token to a session; every answer on the way."""
    opening: Json = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "walker", "version": "1"},
        },
    }
    browser.post("/mcp", opening, {})
    browser.get("/.well-known/oauth-protected-resource/mcp")
    browser.get("/.well-known/oauth-authorization-server")
    browser.get("/.well-known/openid-configuration")
    browser.post("/register", {"client_name": "walker", "redirect_uris": [CALLBACK]}, {})
    proof = base64.urlsafe_b64encode(hashlib.sha256(own.code_verifier.encode()).digest()).decode().rstrip("=")
    login = {"client_id": "known", "redirect_uri": CALLBACK, "state": "there", "code_challenge": proof}
    browser.get(f"/authorize?{urlencode(login)}")
    grant = {"grant_type": "authorization_code", "code": own.code, "code_verifier": own.code_verifier}
    if is_basic:
        known = base64.b64encode(f"known:{own.client_secret}".encode()).decode()
        browser.post("/token", urlencode(grant), {"Authorization": f"Basic {known}"})
    else:
        grant |= {"client_id": "known", "client_secret": own.client_secret}
        browser.post("/token", urlencode(grant), {"Cookie": f"login={own.cookie}"})
    bearer = {"Authorization": f"Bearer {own.access_token}"}
    browser.post("/mcp", opening, bearer)
    session = {**bearer, "Mcp-Session-Id": own.session, "MCP-Protocol-Version": "2025-11-25"}
    browser.post("/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}, session)
    browser.post("/mcp", {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}, session)
    browser.close()
    return browser.answers


def reverse(guarded: Server, folder: Path, *options: str) -> tuple[Proxy, Callable[[Proxy], Browser]]:
    return Proxy(folder, f"{guarded.origin}/mcp", *options), lambda proxy: Browser(
        urlsplit(proxy.origin).netloc
    )


def forward(guarded: Server, folder: Path, *options: str) -> tuple[Proxy, Callable[[Proxy], Browser]]:
    return Proxy(folder, "--forward", *options), lambda proxy: Browser(
        urlsplit(proxy.origin).netloc, guarded.origin
    )


WAYS: Final = {"reverse": reverse, "forward": forward}


@pytest.mark.parametrize("is_basic", [False, True], ids=["secret in the form", "secret in the header"])
@pytest.mark.parametrize("way", WAYS)
def test_every_step_is_the_same_and_leaves_no_secret(
    guarded: Server, way: str, is_basic: bool, tmp_path: Path
) -> None:
    own = guarded.secrets
    directly = walk(Browser(urlsplit(guarded.origin).netloc), own, is_basic)
    assert [answer.status for answer in directly] == [401, 200, 200, 404, 201, 302, 200, 200, 202, 200]

    proxy, browser = WAYS[way](guarded, tmp_path)
    with proxy:
        through = walk(browser(proxy), own, is_basic)
        proxy.stop()

    assert through == directly
    assert own.left_in(proxy.trace) == set()
    assert json.loads(proxy.trace.read_bytes().splitlines()[0])["redaction"] == "credentials"
    login = read_login(open_trace(proxy.trace))
    assert list(dict.fromkeys(step.stage for step in login.steps)) == list(Stage)
    assert login.conclusion == f"the server takes the token (step {len(login.steps)})"


@pytest.mark.parametrize("way", WAYS)
def test_secrets_are_kept_only_on_request(guarded: Server, way: str, tmp_path: Path) -> None:
    own = guarded.secrets
    proxy, browser = WAYS[way](guarded, tmp_path, "--keep-credentials")
    with proxy:
        walk(browser(proxy), own, is_basic=False)
        proxy.stop()

    assert own.left_in(proxy.trace) == vars(own).keys()


@pytest.mark.parametrize("way", WAYS)
def test_a_client_that_takes_event_streams_everywhere_leaves_no_secret(
    guarded: Server, way: str, tmp_path: Path
) -> None:
    proxy, browser = WAYS[way](guarded, tmp_path)
    with proxy:
        undiscerning = browser(proxy)
        undiscerning.accepts_streams = True
        walk(undiscerning, guarded.secrets, is_basic=False)
        proxy.stop()

    assert guarded.secrets.left_in(proxy.trace) == set()


def test_the_sdk_gets_its_token_through_a_forward_proxy(
    guarded: Server, peers: Peers, tmp_path: Path
) -> None:
    with Proxy(tmp_path, "--forward") as proxy:
        run([*sdk(peers), f"{guarded.origin}/mcp"], {**AS_OAUTH_CLIENT, "HTTP_PROXY": proxy.address})
        proxy.stop()

    assert guarded.challenge, "the client did not log in"
    assert paths(proxy.trace) >= {"/mcp", "/register", "/authorize", "/token"}
    assert guarded.secrets.left_in(proxy.trace) == set()


def test_the_sdk_gets_its_token_behind_a_reverse_proxy_that_says_it_is_the_server(
    guarded: Server, peers: Peers, tmp_path: Path
) -> None:
    with (
        serving(Server(issuer=guarded)) as server,
        Proxy(tmp_path, f"{server.origin}/mcp", "--rewrite-origin") as proxy,
    ):
        run([*sdk(peers), proxy.address], AS_OAUTH_CLIENT)
        proxy.stop()

    assert guarded.challenge, "the client did not log in"
    assert paths(proxy.trace) >= {"/mcp", "/.well-known/oauth-protected-resource/mcp"}
    assert guarded.secrets.left_in(proxy.trace) == set()


def test_the_sdk_gets_its_token_from_a_server_that_is_its_own_authorization_server(
    guarded: Server, peers: Peers, tmp_path: Path
) -> None:
    with Proxy(tmp_path, f"{guarded.origin}/mcp", "--rewrite-origin") as proxy:
        run([*sdk(peers), proxy.address], AS_OAUTH_CLIENT)
        proxy.stop()

    assert guarded.challenge, "the client did not log in"
    assert paths(proxy.trace) >= {"/mcp", "/register", "/authorize", "/token"}
    assert guarded.secrets.left_in(proxy.trace) == set()
    assert guarded.origin in proxy.trace.read_text(), "the record keeps what the server said"


AS_OAUTH_CLIENT: Final = {"MCP_CONFORMANCE_SCENARIO": "auth/walk", "NO_PROXY": ""}


def sdk(peers: Peers) -> list[str]:
    """The command of a client of the SDK that logs in by itself."""
    return [peers.server("python 2")[0], str(HERE / "conformance_client.py")]


def paths(trace: Path) -> set[str]:
    """The paths of all requests in a trace."""
    records: list[Json] = [json.loads(line) for line in trace.read_bytes().splitlines()]
    return {urlsplit(str(record["target"])).path for record in records if record["type"] == "request"}
