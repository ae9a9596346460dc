"""The peers of ``http_peers.c`` in Python, for machines without a C compiler: same arguments, same lines.

Slower than what they measure, so the figures they give say little about the cost of what is between;
that no byte is lost or changed they show as well.
"""

import asyncio
import sys
import time
from collections.abc import Iterator
from itertools import count as counting
from typing import Final

from tests.benchmarks import peers

FIRST_ID: Final = peers.FIRST_ID

INITIALIZE: Final = peers.INITIALIZE[:-1]
INITIALIZE_RESULT: Final = peers.INITIALIZE_RESULT[:-1]
INITIALIZED: Final = peers.INITIALIZED[:-1]
CALL: Final = peers.CALL[:-1]
ANSWER: Final = peers.ANSWER[:-1]
COUNT: Final = (
    b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":'
    b'{"_meta":{"progressToken":%d},"name":"count","arguments":{"to":%d}}}'
)
PROGRESS: Final = (
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":%d}}'
)
OPEN: Final = b": open\n\n"

SESSION: Final = b"5f0c3a1e9b7d4c26"
STREAM_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
JSON_TYPE: Final = b"Content-Type: application/json\r\n"

IN_HEAD: Final = CALL.index(b"%d")
"""Where the id stands in a call and in an answer."""

TEXT: Final = peers.TEXT_AT
CALL_END: Final = peers.CALL_END[:-1]


def text(index: int, size: int) -> bytes:
    """What call number ``index`` says, if calls of ``size`` bytes are wanted; the answer says it again."""
    return bytes([ord("a") + index % 26]) * max(0, size - len(CALL % (FIRST_ID, b"")))


def events(id: int, last: int) -> Iterator[bytes]:
    """The messages of the stream that answers a call of "count"."""
    for event in range(1, last + 1):
        yield PROGRESS % (id, event)
    yield ANSWER % (id, b"")


# The server.


async def serve() -> None:
    server = await asyncio.start_server(answer_all, "127.0.0.1", 0, backlog=4096)
    say(str(server.sockets[0].getsockname()[1]))
    await asyncio.to_thread(sys.stdin.read)


async def answer_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.readexactly(length_of(head))
            await answer(head, body, writer)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def answer(head: bytes, body: bytes, writer: asyncio.StreamWriter) -> None:
    if head.startswith(b"GET "):
        writer.write(STREAM_HEAD + chunk(OPEN))
    elif body == INITIALIZE:
        respond(writer, b"200 OK", JSON_TYPE + b"Mcp-Session-Id: %b\r\n" % SESSION, INITIALIZE_RESULT)
    elif body == INITIALIZED:
        respond(writer, b"202 Accepted", b"", b"")
    elif b'"name":"echo"' in body[:TEXT]:
        said = body[TEXT : -len(CALL_END)]
        respond(writer, b"200 OK", JSON_TYPE, ANSWER % (int(body[IN_HEAD : IN_HEAD + 7]), said))
    else:
        last = int(body[body.rindex(b":") + 1 : -3])
        writer.write(STREAM_HEAD)
        for message in events(int(body[IN_HEAD : IN_HEAD + 7]), last):
            writer.write(chunk(b"data: %b\n\n" % message))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
    await writer.drain()


def respond(writer: asyncio.StreamWriter, status: bytes, fields: bytes, body: bytes) -> None:
    writer.write(b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n%b" % (status, fields, len(body), body))


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def length_of(head: bytes) -> int:
    return int(head.lower().partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0] or 0)


# The client.


class Connection:
    """One connection of the client, on which one request at a time is made."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def open(self) -> "Connection":
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def greet(self) -> "Connection":
        """Connect and shake hands."""
        await self.open()
        await self.ask(INITIALIZE, [INITIALIZE_RESULT], is_greeting=True)
        await self.ask(INITIALIZED, [])
        return self

    async def hold(self) -> None:
        """Open an event stream, on which nothing will happen."""
        self._send(b"GET", b"Accept: text/event-stream\r\n")
        await self._reader.readuntil(b"\r\n\r\n")
        assert await self._reader.readexactly(len(chunk(OPEN))) == chunk(OPEN), "a byte was changed or lost"

    async def ask(self, body: bytes, wanted: list[bytes], is_greeting: bool = False) -> int:
        """Make a request and compare its answer; nanoseconds until the first piece of that was there."""
        began = time.monotonic_ns()
        accepted = b"Accept: application/json, text/event-stream\r\n"
        length = b"Content-Length: %d\r\n" % len(body)
        self._send(b"POST", accepted + JSON_TYPE + length, body, is_greeting=is_greeting)
        head = await self._reader.readuntil(b"\r\n\r\n")
        assert int(head[9:12]) == (200 if wanted else 202), head
        first = 0
        if b"transfer-encoding: chunked" not in head.lower():
            assert await self._reader.readexactly(length_of(head)) == b"".join(wanted), "a byte was changed"
            return time.monotonic_ns() - began
        content = bytearray()
        expected = b"".join(wanted)
        while size := int(await self._reader.readline(), 16):
            content += (await self._reader.readexactly(size + 2))[:-2]
            if not first and len(content) >= len(wanted[0]):
                first = time.monotonic_ns() - began
        await self._reader.readline()
        assert content == expected, "a byte was changed, lost or out of order"
        return first

    def close(self) -> None:
        self._writer.close()

    def _send(self, method: bytes, fields: bytes, body: bytes = b"", *, is_greeting: bool = False) -> None:
        session = b"Mcp-Session-Id: %b\r\nMcp-Protocol-Version: 2025-11-25\r\n" % SESSION
        self._writer.write(
            b"%b /mcp HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUser-Agent: load/1\r\n%b%b\r\n%b"
            % (method, self._port, b"" if is_greeting else session, fields, body)
        )


async def drive(kind: str, port: int, connections: int, count: int, size: int) -> None:
    opened = [await Connection(port).greet()]
    opened += [await Connection(port).open() for _ in range(connections - 1)]
    say("ready")
    await line()
    took: list[int] = []
    indices = counting()

    async def calls(connection: Connection) -> None:
        while (index := next(indices)) < count:
            id = FIRST_ID + index
            if kind == "stream":
                wanted = [b"data: %b\n\n" % message for message in events(id, size)]
                took.append(await connection.ask(COUNT % (id, id, size), wanted))
            else:
                said = text(index, size)
                took.append(await connection.ask(CALL % (id, said), [ANSWER % (id, said)]))

    first = time.monotonic_ns()
    await asyncio.gather(*(calls(connection) for connection in opened))
    last = time.monotonic_ns()
    await opened[0].ask(CALL % (FIRST_ID + count, b""), [ANSWER % (FIRST_ID + count, b"")])
    finished = time.monotonic_ns()
    took.sort()
    p50, p99 = (took[count * share // 100] / 1000 for share in (50, 99))
    say(f"done {(last - first) / 1e9:.6f} {p50:.2f} {p99:.2f} {finished}")
    await line()
    for connection in opened:
        connection.close()


async def hold(port: int) -> None:
    opened = [await Connection(port).greet()]
    say("ready")
    while wanted := await line():
        while len(opened) <= int(wanted):
            connection = await Connection(port).open()
            await connection.hold()
            opened.append(connection)
        say("done")
    for connection in opened:
        connection.close()


async def line() -> str:
    return await asyncio.to_thread(sys.stdin.readline)


def say(what: str) -> None:
    sys.stdout.write(what + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve"]:
            asyncio.run(serve())
        case ["open", port]:
            asyncio.run(hold(int(port)))
        case [("call" | "stream") as kind, port, *numbers]:
            asyncio.run(drive(kind, int(port), *map(int, numbers)))
        case _:
            sys.exit(
                "usage: http_peers.py serve | {call|stream} PORT CONNECTIONS COUNT SIZE_OR_EVENTS | open PORT"
            )
