"""What every endpoint of ours refuses, and how: an error of JSON-RPC that names mcpproxy."""

import asyncio
import json
from typing import Any, Final

import pytest

from mcpproxy.peers.session_server.http_messages import HttpRequest, HttpResponder
from mcpproxy.peers.session_server.refused_request import no_session
from mcpproxy.peers.session_server.session_endpoint import SessionEndpoint
from mcpproxy.record.relay.http.guard import Guard

ASKED: Final = b'{"jsonrpc":"2.0","id":18446744073709551616,"method":"x"}'
TOLD: Final = b'{"jsonrpc":"2.0","method":"notifications/x"}'


class Endpoint(SessionEndpoint):
    """Knows no session, and no revision but ours."""

    def __init__(self, token: str = "", origin: str = "https://app.example") -> None:
        self.said: Final[list[str]] = []
        guard = Guard(True, ["127.0.0.1"], [origin])
        origins = [origin]
        super().__init__(["/mcp"], guard, self.said.append, origins=origins, token=token)

    async def answer_post(self, request: HttpRequest, respond: HttpResponder) -> None:
        request.check_accepts("application/json", "text/event-stream")
        request.check_version(("2099-01-01",))
        await respond.send(202)

    async def answer_get(self, request: HttpRequest, respond: HttpResponder) -> None:
        raise ZeroDivisionError

    async def answer_delete(self, request: HttpRequest, respond: HttpResponder) -> None:
        raise no_session()


def asked(
    endpoint: Endpoint, method: str = "POST", body: bytes = TOLD, path: str = "/mcp", **fields: str
) -> tuple[int, dict[bytes, bytes], Any]:
    """Return status, header and JSON of the response."""
    headers = {"host": "127.0.0.1:1"} | {name.replace("_", "-"): value for name, value in fields.items()}
    scope: dict[str, Any] = {
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(endpoint(scope, receive, send))
    head, *pieces = sent
    text = b"".join(piece["body"] for piece in pieces)
    return head["status"], dict(head["headers"]), json.loads(text) if text else None


@pytest.mark.parametrize(
    ("request_", "status", "why"),
    [
        ({"origin": "https://evil.example"}, 403, "is a foreign site"),
        ({"origin": "null"}, 403, "is a foreign site"),
        ({"host": "evil.example"}, 403, "is not a name of this machine"),
        ({"host": "["}, 400, "the Host field is not a host"),
        ({"path": "/other"}, 404, "the endpoint is /mcp"),
        ({"accept": "text/html"}, 406, "Accept does not name application/json or text/event-stream"),
        ({"mcp_protocol_version": "1999"}, 400, "MCP-Protocol-Version 1999 is not known"),
        ({"method": "DELETE"}, 404, "there is no such session"),
        ({"method": "PUT"}, 405, "only POST, GET and DELETE are possible"),
        ({"content_length": str(1 << 40)}, 413, "the body has more than 64 MiB"),
    ],
)
def test_what_is_refused(request_: dict[str, str], status: int, why: str) -> None:
    got, _, error = asked(Endpoint(), **request_)  # pyright: ignore[reportArgumentType] # no body is given
    assert got == status
    assert error["error"]["message"].startswith("mcpproxy: ")
    assert why in error["error"]["message"]
    assert "id" not in error


@pytest.mark.parametrize(
    "fields",
    [
        {"accept": "application/json, text/event-stream"},
        {"accept": "*/*"},
        {"accept": "text/*;q=0.5"},
        {"origin": "http://localhost:6274"},
        {"mcp_protocol_version": "2025-11-25"},
        {"mcp_protocol_version": "2099-01-01"},
    ],
)
def test_what_is_taken(fields: dict[str, str]) -> None:
    assert asked(Endpoint(), **fields)[0] == 202  # pyright: ignore[reportArgumentType] # no body is given


def test_a_refusal_has_the_id_of_the_request_as_it_was_written() -> None:
    _, _, error = asked(Endpoint(), body=ASKED, mcp_protocol_version="1999")
    assert error["id"] == 18446744073709551616
    _, _, error = asked(Endpoint(), body=b"[%b,%b]" % (ASKED, ASKED), mcp_protocol_version="1999")
    assert "id" not in error


def test_a_token_is_asked_for_before_anything_is_said_about_sessions() -> None:
    endpoint = Endpoint("secret")
    status, header, _ = asked(endpoint, "DELETE", authorization="Bearer wrong")
    assert (status, header[b"www-authenticate"]) == (401, b"Bearer")
    assert asked(endpoint, "DELETE", authorization="bearer secret")[0] == 404


def test_an_allowed_page_learns_what_it_may_ask() -> None:
    status, header, _ = asked(Endpoint("secret"), "OPTIONS", origin="https://app.example")
    assert status == 204
    assert b"POST" in header[b"access-control-allow-methods"]
    assert b"content-length" not in header


def test_where_all_pages_are_allowed_each_learns_so_before_it_asks() -> None:
    endpoint = Endpoint(origin="*")
    for method, status in (("OPTIONS", 204), ("POST", 202)):
        got, header, _ = asked(endpoint, method, origin="https://any.example")
        assert (got, header[b"access-control-allow-origin"]) == (status, b"https://any.example")


def test_a_fault_of_ours_ends_one_request_and_is_said() -> None:
    endpoint = Endpoint()
    assert asked(endpoint, "GET")[0] == 500
    assert "ZeroDivisionError" in endpoint.said[0]
    assert asked(endpoint)[0] == 202
