"""A session over HTTP: what is resumed and what is not, when it has an id, and where HTTP+SSE posts to.

Each story is a list of responses, one for each request of the client.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from mcpproxy.peers.client.http_session import ClientSession, SessionExchange
from mcpproxy.peers.client.remote_server import (
    ForeignTargetError,
    RemoteServer,
    TooLongError,
    UnreachableError,
)
from mcpproxy.protocol.jsonrpc import Message
from mcpproxy.protocol.meta_keys import VERSION_KEY
from mcpproxy.record.framing.sse import SseBlock
from tests.client.test_remote_server import converse

CALL: Final = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
ANSWER: Final = b'{"jsonrpc":"2.0","id":1,"result":{}}'
INITIALIZE: Final = b'{"jsonrpc":"2.0","id":1,"method":"initialize"}'
WELCOME: Final = b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}'

REFUSED: Final = b"HTTP/1.1 405 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
CLOSED: Final = b""
"""The server closes the connection without a response."""

Asked = tuple[str, str, dict[str, str]]
"""Method, target and header fields of a request."""


def json_body(body: bytes, status: int = 200, *fields: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Ok", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, *fields, "Connection: close", "", ""]).encode() + body


def stream(*events: bytes, fields: str = "") -> bytes:
    head = f"HTTP/1.1 200 Ok\r\nContent-Type: Text/Event-Stream; charset=utf-8\r\n{fields}\r\n"
    return head.encode() + b"".join(event + b"\n\n" for event in events)


class Heard(SessionExchange):
    """An exchange that keeps its messages."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[bytes] = []

    async def on_message(self, raw: bytes, message: Message, block: SseBlock | None) -> None:
        self.messages.append(raw)


def play(*responses: bytes, story: Callable[[ClientSession[Heard]], Awaitable[None]]) -> list[Asked]:
    """Play ``story`` with a server that gives these responses, each on a connection of its own."""
    asked: list[Asked] = []
    left = list(responses)

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        fields = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        await reader.readexactly(int(fields.get("content-length", 0)))
        asked.append((first.split(" ")[0], first.split(" ")[1], fields))
        port: int = writer.get_extra_info("sockname")[1]
        writer.write(left.pop(0).replace(b"PORT", b"%d" % port))
        await writer.drain()

    async def told(server: RemoteServer) -> None:
        session: ClientSession[Heard] = ClientSession(server)
        await story(session)
        await session.tasks.cancel()

    converse(peer, told)
    assert not left
    return asked


def posted(*responses: bytes, message: bytes = CALL) -> tuple[Heard, list[Asked]]:
    """Post one message; return what was heard, and what the server was asked."""
    exchange = Heard()
    return exchange, play(*responses, story=lambda session: session.run_post(exchange, message))


BEGUN: Final = stream(b"id: a\nretry: 1\ndata: ")


@pytest.mark.parametrize("missed", [CLOSED, BEGUN], ids=["no response", "another end"])
def test_a_stream_is_resumed_until_the_answer_comes(missed: bytes) -> None:
    heard, asked = posted(BEGUN, missed, stream(b"data: " + ANSWER))
    assert (heard.messages, heard.unanswered, heard.resumptions) == ([ANSWER], set(), 2)
    assert [(method, fields.get("last-event-id")) for method, _, fields in asked] == [
        ("POST", None),
        ("GET", "a"),
        ("GET", "a"),
    ]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (BEGUN, [REFUSED]),
        (BEGUN, [json_body(b"{}", 404)]),
        (stream(b"data: x"), []),
        (stream(b"id: a\nretry: 1\ndata: " + ANSWER), []),
        (stream(b'id: a\nretry: 1\ndata: {"jsonrpc":"2.0","error":{"code":-32600,"message":"No"}}'), []),
        (json_body(ANSWER), []),
        (CLOSED, []),
    ],
    ids=["refused", "not found", "no id", "answered", "refused as a whole", "body", "no response"],
)
def test_a_stream_is_not_resumed_for_nothing(first: bytes, then: list[bytes]) -> None:
    _, asked = posted(first, *then)
    assert [method for method, *_ in asked] == ["POST", *["GET"] * len(then)]


def test_a_stateless_request_is_not_resumed() -> None:
    call: dict[str, Any] = json.loads(CALL)
    call["params"] = {"_meta": {VERSION_KEY: "2026-07-28"}}
    _, asked = posted(BEGUN, message=json.dumps(call).encode())
    assert [method for method, *_ in asked] == ["POST"]


def test_the_resumption_of_the_handshake_names_the_session() -> None:
    async def story(session: ClientSession[Heard]) -> None:
        await session.run_post(Heard(), INITIALIZE)
        assert (session.session_id, session.version) == ("s-1", "2025-11-25")

    begun = stream(b"id: a\nretry: 1\ndata: ", fields="Mcp-Session-Id: s-1\r\n")
    asked = play(begun, stream(b"data: " + WELCOME), story=story)
    assert asked[1][2]["mcp-session-id"] == "s-1"


@pytest.mark.parametrize(
    ("message", "status", "id"), [(INITIALIZE, 200, "s-1"), (INITIALIZE, 401, ""), (CALL, 200, "")]
)
def test_a_session_begins_with_the_answer_to_initialize(message: bytes, status: int, id: str) -> None:
    async def story(session: ClientSession[Heard]) -> None:
        await session.run_post(Heard(), message)
        assert session.session_id == id
        await session.end(Heard(), 60)

    asked = play(json_body(WELCOME, status, "Mcp-Session-Id: s-1"), *[REFUSED] * bool(id), story=story)
    assert [method for method, *_ in asked] == ["POST", *["DELETE"] * bool(id)]


def test_the_chosen_revision_is_that_of_the_handshake_alone() -> None:
    async def story(session: ClientSession[Heard]) -> None:
        await session.run_post(Heard(), INITIALIZE)
        await session.run_post(Heard(), CALL)
        assert session.version == "2025-11-25"

    other = WELCOME.replace(b"2025-11-25", b"1999-01-01")
    play(json_body(WELCOME), json_body(other), story=story)


def test_the_stream_of_the_session_is_opened_again_until_it_is_refused() -> None:
    heard = Heard()
    told = stream(b'id: a\nretry: 1\ndata: {"jsonrpc":"2.0","method":"notifications/x"}')
    asked = play(told, CLOSED, told, REFUSED, story=lambda session: session.listen(heard))
    assert len(heard.messages) == 2
    assert [fields.get("last-event-id") for *_, fields in asked] == [None, "a", "a", "a"]


def endpoint(url: bytes) -> bytes:
    return stream(b"event: endpoint\ndata: " + url, b'data: {"jsonrpc":"2.0","method":"notifications/x"}')


@pytest.mark.parametrize("url", [b"/m?s=1", b"http://localhost:PORT/m?s=1"])
def test_http_sse_posts_to_the_server_that_the_user_named(url: bytes) -> None:
    ends: list[str] = []
    heard = Heard()

    async def story(session: ClientSession[Heard]) -> None:
        assert await session.switch_to_http_sse(heard, 60, ends.append)
        await session.run_post(Heard(), CALL)

    _, (method, target, fields) = play(endpoint(url), json_body(ANSWER, 202), story=story)
    assert (method, target, fields["host"].split(":")[0]) == ("POST", "/m?s=1", "127.0.0.1")
    assert heard.messages == [b'{"jsonrpc":"2.0","method":"notifications/x"}']
    assert ends == ["has ended the stream of the session"]


def test_http_sse_posts_to_no_other_server() -> None:
    heard = Heard()

    async def story(session: ClientSession[Heard]) -> None:
        assert not await session.switch_to_http_sse(heard, 60, print)
        assert session.endpoint == ""

    assert len(play(endpoint(b"http://127.0.0.2:1/m"), story=story)) == 1
    assert isinstance(heard.failure, ForeignTargetError)
    assert heard.messages == []


def test_a_response_that_is_too_long_is_not_asked_for_again() -> None:
    exchange = Heard()
    exchange.unanswered.add((int, 1))
    exchange.cursor.note_event("a", None)
    exchange.failure = UnreachableError("cannot be reached")
    assert exchange.can_resume
    exchange.failure = TooLongError("sent too much")
    assert not exchange.can_resume
