"""A service of language models and its client, which say what they got as a hash.

``python -m tests.benchmarks.model_peers serve``: prints its port; says ``got COUNT HASH`` for each line, of
the requests since the last one.
``python -m tests.benchmarks.model_peers ask PORT CONNECTIONS COUNT SIZE``: says ``ready``, and after a line
``done SECONDS P50_US P99_US FINISHED_NS HASH``. The hash is of all bytes of all answers, in the order of the
requests: heads, and the sizes of chunks.

Each request is another one, in one of the four dialects, and asks for a stream or not.
"""

import asyncio
import hashlib
import json
import sys
import time
from collections.abc import Mapping
from itertools import count as counting
from typing import Any, Final

from tests.model.conversations import ANSWERS, PATHS, REQUESTS, STREAMS

KEYS: Final = (
    "sk-planted-0123456789abcdef",
    "sk-of-the-query-0123456789abcd",
    "sk-of-the-body-0123456789abcdef",
)
"""Credentials: in the head and again in the body, in the target, in a member of the body alone."""

DIALECTS: Final = tuple(REQUESTS)
KINDS: Final = tuple((name, streams) for name in DIALECTS for streams in (False, True))
_CREDENTIALS: Final = (
    f"x-api-key: {KEYS[0]}",
    f"Authorization: Bearer {KEYS[0]}",
    f"x-goog-api-key: {KEYS[0]}",
    f"api-key: {KEYS[0]}",
)


def written(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def target_of(name: str) -> str:
    return f"{PATHS[name]}{'&' if '?' in PATHS[name] else '?'}key={KEYS[1]}"


def _body(name: str, streams: bool) -> bytes:
    body: Mapping[str, Any] = {**REQUESTS[name], "stream": streams, "api_key": KEYS[2], "user": KEYS[0]}
    return written(body)[:-1] + b', "suffix": "%d %b"}'


BODIES: Final = {kind: _body(*kind) for kind in KINDS}


def request(index: int, size: int, port: int) -> bytes:
    """Request number ``index``, with ``size`` bytes of text besides the conversation."""
    name, streams = KINDS[index % len(KINDS)]
    body = BODIES[name, streams] % (index, b"x" * size)
    lines = [
        f"POST {target_of(name)} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        *_CREDENTIALS,
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + body


def pieces_of(name: str, *, streams: bool) -> list[bytes]:
    """An answer as it is written; a stream in chunks that end in the middle of events and of characters."""
    if not streams:
        body = written(ANSWERS[name])
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        return [head.encode() + body]
    body = b"".join(b"data: " + written(event) + b"\n\n" for event in STREAMS[name]) + "data: æ\n\n".encode()
    chunks = [body[at : at + 61] for at in range(0, len(body), 61)]
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return [head, *(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks), b"0\r\n\r\n"]


ANSWERED: Final = {kind: pieces_of(kind[0], streams=kind[1]) for kind in KINDS}


class ServiceConnection(asyncio.Protocol):
    """One connection of the service. ``got`` are the hashes of what all of them were sent."""

    got: Final[list[bytes]] = []

    def __init__(self) -> None:
        self._left = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._left += data
        while (end := self._left.find(b"\r\n\r\n") + 4) > 3:
            head = bytes(self._left[:end])
            size = int(head.lower().partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0])
            if len(self._left) < end + size:
                return
            body = bytes(self._left[end : end + size])
            del self._left[: end + size]
            lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"host:")]
            self.got.append(hashlib.sha256(b"\n".join((*lines, body))).digest())
            path = head.split(b" ", 2)[1].partition(b"?")[0].decode()
            name = next(name for name in DIALECTS if PATHS[name].partition("?")[0] == path)
            for piece in ANSWERED[name, b'"stream": true' in body]:
                self._transport.write(piece)


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(ServiceConnection, "127.0.0.1", 0, backlog=4096)
    say(str(server.sockets[0].getsockname()[1]))
    got = ServiceConnection.got
    while await line():
        say(f"got {len(got)} {hashlib.sha256(b''.join(sorted(got))).hexdigest()}")
        got.clear()


class Asking(asyncio.Protocol):
    """One connection of the client, on which one request at a time is made."""

    def __init__(self) -> None:
        self._got = bytearray()
        self._wanted = 0
        self._end: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    async def ask(self, asked: bytes, wanted: int) -> bytes:
        """Send a request; as many bytes as its answer should have, or all before the connection ends."""
        self._wanted = wanted
        self._end = asyncio.get_running_loop().create_future()
        self._transport.write(asked)
        return await self._end

    def data_received(self, data: bytes) -> None:
        self._got += data
        if len(self._got) >= self._wanted:
            self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish()

    def _finish(self) -> None:
        if self._end is not None and not self._end.done():
            self._end.set_result(bytes(self._got))
        self._got.clear()


async def ask(port: int, connections: int, count: int, size: int) -> None:
    loop = asyncio.get_running_loop()
    opened = [(await loop.create_connection(Asking, "127.0.0.1", port))[1] for _ in range(connections)]
    say("ready")
    await line()
    took: list[int] = []
    got = [b""] * count
    lengths = [len(b"".join(ANSWERED[kind])) for kind in KINDS]
    indices = counting()

    async def requests(connection: Asking) -> None:
        while (index := next(indices)) < count:
            asked = request(index, size, port)
            began = time.monotonic_ns()
            answer = await connection.ask(asked, lengths[index % len(KINDS)])
            took.append(time.monotonic_ns() - began)
            got[index] = hashlib.sha256(answer).digest()

    first = time.monotonic_ns()
    await asyncio.gather(*(requests(connection) for connection in opened))
    last = time.monotonic_ns()
    took.sort()
    p50, p99 = (took[count * share // 100] / 1000 for share in (50, 99))
    digest = hashlib.sha256(b"".join(got)).hexdigest()
    say(f"done {(last - first) / 1e9:.6f} {p50:.2f} {p99:.2f} {last} {digest}")


async def line() -> str:
    return await asyncio.to_thread(sys.stdin.readline)


def say(what: str) -> None:
    sys.stdout.write(what + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve"]:
            asyncio.run(serve())
        case ["ask", *numbers]:
            asyncio.run(ask(*map(int, numbers)))
        case _:
            sys.exit("usage: model_peers serve | ask PORT CONNECTIONS COUNT SIZE")
