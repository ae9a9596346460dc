"""An HTTP server of MCP that costs next to nothing, and clients that call it at a constant rate."""

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Final

_RESULT: Final = {
    "content": [{"type": "text", "text": "Sunny, 21 degrees, a light wind from the west. " * 4}]
}
_INITIALIZE: Final[dict[str, object]] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "soak", "version": "1"},
}
_TOOL: Final = {
    "name": "forecast",
    "description": "The weather of a city.",
    "inputSchema": {"type": "object"},
}
_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
_SESSION_CALLS: Final = 600


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection."""
    try:
        while not reader.at_eof() and (request := await _read(reader)):
            message = json.loads(request)
            match message.get("method"):
                case "initialize":
                    result: object = {
                        "protocolVersion": "2025-11-25",
                        "capabilities": {"tools": {}},
                        "serverInfo": {"name": "weather", "version": "1"},
                    }
                case "tools/list":
                    result = {"tools": [_TOOL]}
                case _:
                    result = _RESULT
            if "id" not in message:
                writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
            else:
                body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
                writer.write(_HEAD % len(body) + body)
            await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


@dataclass(eq=False)
class Client:
    """A client of one sidecar, which listens on ``port``. ``ids`` are those of calls with an answer."""

    name: str
    port: int
    ids: list[str] = field(default_factory=list[str])
    took_s: list[float] = field(default_factory=list[float])
    """How long each call took since the last time that somebody has emptied this list."""

    async def call(self, rate: float, seconds: float) -> None:
        """Call ``rate`` times a second; after a delay, the calls that are late follow at once."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        started = time.monotonic()
        for number in range(round(rate * seconds)):
            await asyncio.sleep(started + number / rate - time.monotonic())
            if number % _SESSION_CALLS == 0:
                await self._request(reader, writer, "initialize", f"{self.name}-i{number}", _INITIALIZE)
                await self._request(reader, writer, "notifications/initialized", None, {})
                await self._request(reader, writer, "tools/list", f"{self.name}-l{number}", {})
            id = f"{self.name}-c{number}"
            before = time.monotonic()
            answer = await self._request(
                reader, writer, "tools/call", id, {"name": "forecast", "arguments": {"city": "Bern"}}
            )
            assert json.loads(answer)["id"] == id
            self.took_s.append(time.monotonic() - before)
            self.ids.append(id)
        writer.close()

    async def _request(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        method: str,
        id: str | None,
        params: dict[str, object],
    ) -> bytes:
        message: dict[str, object] = {"jsonrpc": "2.0", "method": method, "params": params}
        body = json.dumps(message if id is None else {**message, "id": id}).encode()
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nContent-Type: application/json\r\n"
            "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()
        return await _read(reader)


async def _read(reader: asyncio.StreamReader) -> bytes:
    """Return the body of the next message of HTTP; empty at the end of the connection."""
    length = 0
    while (line := await reader.readline()) not in (b"\r\n", b""):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return await reader.readexactly(length) if length else b""
