"""Recordings of logins, written exchange by exchange."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from mcpproxy.read.opening import open_trace
from mcpproxy.read.view.login.login import Login, read_login

OWN: Final = "http://mcp.example"
SECRET: Final = "hush0Q7x9vK2"
ISSUER: Final = "https://auth.example"
CALLBACK: Final = "http://localhost:3000/callback"

Said = tuple[int, dict[str, str], Any]


class Recorded:
    """A recording of a forward proxy, written exchange by exchange."""

    def __init__(self, path: Path, **header: str) -> None:
        self.path, self._seq, self._exchange = path, 0, 0
        about: dict[str, Any] = {
            "type": "header", "format": 1, "mcpproxy": "0.1.0", "transport": "http", "command": [],
            "label": "files", "cwd": "/srv", "pid": 7,
            "started_at": "2026-11-21T10:20:30.123456Z", "started_ns": 5,
            "redaction": "none", "mode": "forward", "listen": "http://127.0.0.1:9000", "endpoint": "/mcp",
            "upstream": "", **header,
        }  # fmt: skip
        self._lines = [json.dumps(about)]

    def ask(
        self,
        method: str,
        url: str,
        answer: Said | None,
        *,
        body: Any = None,
        fields: dict[str, str] | None = None,
        endpoint: bool = False,
    ) -> "Recorded":
        """Add a request and its answer; a text is a body as it stands, anything else is JSON."""
        self._exchange += 1
        sent = _pairs({"Host": urlsplit(url).netloc, **(fields or {})})
        self._add("request", method=method, target=url, version="1.1", headers=sent, endpoint=endpoint)
        if body is not None:
            self._add_body("client", body)
        if answer is not None:
            status, headers, content = answer
            self._add("response", status=status, reason="", version="1.1", headers=_pairs(headers))
            if content is not None:
                self._add_body("server", content)
            self._add("end", cut=False)
        return self

    def login(self) -> Login:
        self.path.write_text("\n".join(self._lines) + "\n", encoding="utf-8")
        return read_login(open_trace(self.path))

    def _add_body(self, sender: str, content: Any) -> None:
        carried = {"text": content} if isinstance(content, str) else {"message": content}
        self._add("frame", **{"from": sender}, **carried)

    def _add(self, kind: str, **members: Any) -> None:
        self._seq += kind != "end"
        place = {"t": self._exchange * 1_000_000, "exchange": self._exchange, "connection": 1}
        numbered = {"seq": self._seq} if kind != "end" else {}
        self._lines.append(json.dumps({"type": kind, **numbered, **place, **members}))


def _pairs(fields: dict[str, str]) -> list[list[str]]:
    return [[name, value] for name, value in fields.items()]


OPENING: Final = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"},
    },
}  # fmt: skip
RESOURCE_URL: Final = f"{OWN}/.well-known/oauth-protected-resource/mcp"
SERVER_URL: Final = f"{ISSUER}/.well-known/oauth-authorization-server"
METADATA: Final = {
    "issuer": ISSUER, "authorization_endpoint": f"{ISSUER}/a", "token_endpoint": f"{ISSUER}/t",
    "registration_endpoint": f"{ISSUER}/r", "code_challenge_methods_supported": ["S256"],
}  # fmt: skip
REFUSED: Final[Said] = (401, {"WWW-Authenticate": f'Bearer resource_metadata="{RESOURCE_URL}"'}, None)


REGISTERED: Final[Said] = (201, {}, {"client_id": "k", "client_secret": SECRET})


class Conversation(Recorded):
    """The requests of a login, each lawful if nothing else is said."""

    def challenge(self, answer: Said = REFUSED) -> "Conversation":
        self.ask("POST", f"{OWN}/mcp", answer, body=OPENING, endpoint=True)
        return self

    def metadata(
        self, *, server: dict[str, Any] | None = None, resource: str = f"{OWN}/mcp"
    ) -> "Conversation":
        found = {"resource": resource, "authorization_servers": [ISSUER]}
        self.ask("GET", RESOURCE_URL, (200, {}, found))
        self.ask("GET", SERVER_URL, (200, {}, METADATA if server is None else server))
        return self

    def registers(
        self, answer: Said = (201, {}, {"client_id": "k", "client_secret": SECRET})
    ) -> "Conversation":
        about = {"client_name": "desk", "redirect_uris": [CALLBACK]}
        self.ask("POST", f"{ISSUER}/r", answer, body=about)
        return self

    def asks_the_user(self, given: dict[str, str] | None = None, **asked: str) -> "Conversation":
        query = {
            "response_type": "code", "client_id": "k", "redirect_uri": CALLBACK, "state": "s",
            "resource": f"{OWN}/mcp", "code_challenge": "c", "code_challenge_method": "S256", **asked,
        }  # fmt: skip
        location = f"{CALLBACK}?{urlencode({'code': 'hush', 'state': 's'} if given is None else given)}"
        self.ask("GET", f"{ISSUER}/a?{urlencode(query)}", (302, {"Location": location}, None))
        return self

    def gets_a_token(self, answer: Said | None = None) -> "Conversation":
        grant = {
            "grant_type": "authorization_code", "code": SECRET, "code_verifier": SECRET, "client_id": "k",
            "redirect_uri": CALLBACK, "resource": f"{OWN}/mcp",
        }  # fmt: skip
        given: Said = (200, {}, {"access_token": SECRET, "token_type": "Bearer", "expires_in": 60})
        self.ask("POST", f"{ISSUER}/t", given if answer is None else answer, body=urlencode(grant))
        return self

    def uses_it(self, answer: Said = (200, {}, None), token: str = SECRET) -> "Conversation":
        fields = {"Authorization": f"Bearer {token}"}
        self.ask("POST", f"{OWN}/mcp", answer, body=OPENING, fields=fields, endpoint=True)
        return self


REFUSALS: Final[Mapping[str, Callable[[Conversation], Conversation]]] = {
    "registration": lambda said: said.registers((400, {}, {"error": "invalid_redirect_uri"})),
    "authorization": lambda said: said.registers().asks_the_user({"error": "access_denied", "state": "s"}),
    "token": lambda said: said.registers().asks_the_user().gets_a_token(
        (400, {}, {"error": "invalid_grant", "error_description": "PKCE verification failed"})
    ),
    "request with the token": lambda said: said.registers().asks_the_user().gets_a_token().uses_it(
        (401, {"WWW-Authenticate": 'Bearer error="invalid_token", error_description="wrong audience"'}, None)
    ),
}  # fmt: skip
