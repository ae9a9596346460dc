"""HTTP exchanges of ``bridge URL``: what a server may send, what ends them, and which bytes are recorded."""

import asyncio
import ssl
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from socket import SO_LINGER, SOL_SOCKET, socket
from typing import Final

import pytest

from mcpproxy.base.upstream.settings import UpstreamSettings
from mcpproxy.errors import McpProxyError
from mcpproxy.peers.bridge.leg import Leg, StderrLines
from mcpproxy.peers.client.remote_server import RemoteError, RemoteServer
from mcpproxy.record.relay import journal as journals
from tests.relay.http_peers import Upstream
from tests.relay.test_http_tls import accept_aside, server_context

CERTS: Final = Path(__file__).parents[1] / "relay" / "certs"

Peer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Copies(Leg):
    """The records of a leg, as kind, bytes and connection."""

    def __init__(self) -> None:
        super().__init__(None, None, StderrLines(is_quiet=True))
        self.all: list[tuple[int, bytes, int]] = []

    def record_bytes(self, kind: int, payload: bytes, connection: int) -> None:
        self.all.append((kind, payload, connection))

    def of(self, kind: int) -> list[bytes]:
        return [payload for each, payload, _ in self.all if each == kind]

    @property
    def connections(self) -> int:
        return len(self.of(journals.CONNECT))


def post(server: RemoteServer) -> Awaitable[tuple[int, bytes]]:
    async def exchange() -> tuple[int, bytes]:
        async with server.exchange("POST", [("Accept", "application/json")], b"{}") as response:
            return response.status, await response.body()

    return exchange()


def converse(
    peer: Peer,
    story: Callable[[RemoteServer], Awaitable[None]],
    copies: "Copies | None" = None,
    *,
    tls: bool = False,
    insecure: bool = True,
    follows_redirects: bool = True,
) -> Copies:
    """Run a client against a server; return what was recorded."""

    records = Copies() if copies is None else copies

    async def main() -> None:
        context = None
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTS / "localhost.pem", CERTS / "localhost.key")
        peers: list[asyncio.Task[None]] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            peers.append(task)
            try:
                await peer(reader, writer)
            finally:
                writer.close()
                with suppress(ConnectionError, ssl.SSLError):
                    await writer.wait_closed()

        listener = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        port = listener.sockets[0].getsockname()[1]
        scheme = "https" if tls else "http"
        server = RemoteServer(
            f"{scheme}://127.0.0.1:{port}/mcp",
            (),
            records,
            "test",
            upstream=UpstreamSettings(is_insecure=insecure),
            follows_redirects=follows_redirects,
        )
        async with listener:
            await asyncio.wait_for(story(server), 60)
            await server.close()
            await asyncio.gather(*peers)

    asyncio.run(main())
    return records


async def request(reader: asyncio.StreamReader) -> bytes:
    """Return the target of the next request."""
    head = await reader.readuntil(b"\r\n\r\n")
    if b"content-length: 2" in head.lower():
        assert await reader.readexactly(2) == b"{}"
    return head.split(b" ")[1]


def answering(*answers: bytes, then: Callable[[asyncio.StreamWriter], None] | None = None) -> Peer:
    """Return a server that answers the requests of each connection with these bytes, and then closes it."""

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for answer in answers:
                await request(reader)
                writer.write(answer)
            if then is None:
                await reader.read()
            else:
                await writer.drain()
                then(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass

    return peer


def reset(writer: asyncio.StreamWriter) -> None:
    sock: socket = writer.get_extra_info("socket")
    sock.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


OK: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
BODIES: Final = {
    "with its length": OK,
    "in chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nh\r\n1;x=y\r\ni\r\n0\r\n\r\n",
    "to the end of the connection": b"HTTP/1.0 200 OK\r\n\r\nhi",
    "after informational responses": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n"
    + OK,
}


@pytest.mark.parametrize("answer", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
def test_a_body_is_read_however_it_ends(answer: bytes, tls: bool) -> None:
    async def story(server: RemoteServer) -> None:
        assert await post(server) == (200, b"hi")

    then = asyncio.StreamWriter.close if b"1.0" in answer else None
    copies = converse(answering(answer, then=then), story, tls=tls)

    assert b"".join(copies.of(journals.SERVER)) == answer


@pytest.mark.parametrize("answer", BODIES.values(), ids=BODIES)
def test_a_response_may_come_byte_by_byte(answer: bytes) -> None:
    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        for index in range(len(answer)):
            writer.write(answer[index : index + 1])
            await asyncio.sleep(0)
        writer.close()

    async def story(server: RemoteServer) -> None:
        assert await post(server) == (200, b"hi")

    assert b"".join(converse(peer, story).of(journals.SERVER)) == answer


CUT: Final = {
    "nothing": b"",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-",
    "half a body": OK[:-1],
    "half a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhi",
    "not HTTP": b"220 mail.example ESMTP\r\n\r\n",
}


@pytest.mark.parametrize("answer", CUT.values(), ids=CUT)
@pytest.mark.parametrize("end", [asyncio.StreamWriter.close, reset], ids=["closed", "reset"])
def test_a_response_that_is_cut_is_said(answer: bytes, end: Callable[[asyncio.StreamWriter], None]) -> None:
    async def story(server: RemoteServer) -> None:
        with pytest.raises(RemoteError, match=r"^cut the exchange short \(.+\)$"):
            await post(server)

    copies = converse(answering(answer, then=end), story)

    assert len(copies.of(journals.SERVER_EOF)) == 1
    if end is reset and not answer:
        assert copies.of(journals.SERVER_EOF) == [journals.RESET]


def test_a_connection_is_used_again_and_a_request_is_one_piece() -> None:
    async def story(server: RemoteServer) -> None:
        for _ in range(3):
            assert await post(server) == (200, b"hi")

    copies = converse(answering(OK, OK, OK), story)

    assert copies.connections == 1
    sent = copies.of(journals.CLIENT)
    assert len(sent) == 3
    assert all(one.startswith(b"POST /mcp HTTP/1.1\r\n") and one.endswith(b"\r\n\r\n{}") for one in sent)
    assert [kind for kind, _, _ in copies.all[-2:]] == [journals.CLIENT_EOF, journals.SERVER_EOF]


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstale",
        OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
    ],
    ids=["bytes that nobody asked for", "Connection: close"],
)
def test_a_connection_that_cannot_be_used_again_is_not(answer: bytes) -> None:
    async def story(server: RemoteServer) -> None:
        for _ in range(2):
            assert await post(server) == (200, b"hi")

    assert converse(answering(answer), story).connections == 2


def test_a_connection_that_the_server_has_closed_is_not_used_again() -> None:
    async def story(server: RemoteServer) -> None:
        assert await post(server) == (200, b"hi")
        while len(copies.of(journals.SERVER_EOF)) < 1:
            await asyncio.sleep(0)
        assert await post(server) == (200, b"hi")

    copies = Copies()
    converse(answering(OK, then=asyncio.StreamWriter.close), story, copies)
    assert copies.connections == 2


def test_a_server_that_drops_kept_connections_gets_a_new_one_for_each_request() -> None:
    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(OK)
        with suppress(asyncio.IncompleteReadError):
            await request(reader)

    async def story(server: RemoteServer) -> None:
        assert await post(server) == (200, b"hi")
        with pytest.raises(RemoteError, match=r"without a response; it had been kept open\)$"):
            await post(server)
        for _ in range(2):
            assert await post(server) == (200, b"hi")

    assert converse(peer, story).connections == 3


def test_a_redirect_may_name_any_character() -> None:
    targets: list[bytes] = []

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        targets.append(await request(reader))
        writer.write(b"HTTP/1.1 307 Go\r\nContent-Length: 0\r\nLocation: /caf\xc3\xa9 x?a=%20\r\n\r\n")
        targets.append(await request(reader))
        writer.write(OK)
        await reader.read()

    async def story(server: RemoteServer) -> None:
        assert await post(server) == (200, b"hi")

    assert converse(peer, story).connections == 1
    assert targets == [b"/mcp", b"/caf%C3%A9%20x?a=%20"]


@pytest.mark.parametrize("redirects", [5, 6])
def test_five_redirects_are_followed(redirects: int) -> None:
    moved = b"HTTP/1.1 307 Go\r\nContent-Length: 0\r\nLocation: /on\r\n\r\n"

    async def story(server: RemoteServer) -> None:
        if redirects == 5:
            assert await post(server) == (200, b"hi")
        else:
            with pytest.raises(RemoteError, match=r"^redirects more than 5 times$"):
                await post(server)

    converse(answering(*[moved] * redirects, OK), story)


def test_a_certificate_that_is_not_trusted_is_said() -> None:
    async def story(server: RemoteServer) -> None:
        with pytest.raises(RemoteError, match=r"^cannot be reached \(its certificate is not trusted"):
            await post(server)

    assert converse(answering(OK), story, tls=True, insecure=False).connections == 0


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_server_that_demands_a_client_certificate_is_said(version: ssl.TLSVersion) -> None:
    context = server_context()
    context.minimum_version = context.maximum_version = version
    context.verify_mode = ssl.CERT_REQUIRED
    strict = Upstream(context)
    accepting = [accept_aside(strict)]

    async def main() -> None:
        insecure = UpstreamSettings(is_insecure=True)
        server = RemoteServer(f"{strict.origin}/mcp", (), Copies(), "test", upstream=insecure)
        if version == ssl.TLSVersion.TLSv1_3:  # where it asks again for the reason
            accepting.append(accept_aside(strict))
        with pytest.raises(RemoteError, match=r"^cannot be reached \(it .* client certificate"):
            await post(server)

    asyncio.run(main())
    for each in accepting:
        each.join()
    strict.close()


def test_no_listener_at_any_address_is_one_reason() -> None:
    async def main() -> None:
        with socket() as free:
            free.bind(("127.0.0.1", 0))
            url = f"http://localhost:{free.getsockname()[1]}/mcp"
            with pytest.raises(RemoteError, match=r"^cannot be reached \(connection refused\)$"):
                await post(RemoteServer(url, (), Copies(), "test"))

    asyncio.run(main())


def test_a_slow_reader_holds_the_server_back() -> None:
    size = 64 << 20
    chunk = b"data: " + b"x" * 65528 + b"\n\n"
    written = 0

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await request(reader)
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % size
        )
        while written < size:
            writer.write(chunk)
            await writer.drain()
            written += len(chunk)

    async def story(server: RemoteServer) -> None:
        async with server.exchange("GET", ()) as response:
            for _ in range(2_000):  # enough steps to write all of it, if nothing held the server back
                await asyncio.sleep(0)
            assert written < size
            assert len([1 async for _ in response.events()]) == size // len(chunk)

    copies = converse(peer, story)

    assert sum(map(len, copies.of(journals.SERVER))) > size


@pytest.mark.parametrize(
    "url", ["http://", "http://127.0.0.1:99999/mcp", "http://a..b/mcp", "http://[::1/mcp"]
)
def test_a_malformed_url_is_said_before_anything_is_sent(url: str) -> None:
    with pytest.raises(McpProxyError, match="give the URL of an MCP endpoint"):
        RemoteServer(url, (), Copies(), "test")


def test_a_redirect_is_a_response_where_it_is_not_followed() -> None:
    async def story(server: RemoteServer) -> None:
        assert (await post(server))[0] == 307

    moved = b"HTTP/1.1 307 Moved\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n"
    converse(answering(moved), story, follows_redirects=False)
