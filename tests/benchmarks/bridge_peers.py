"""Servers for the benchmark of the bridge: ``bridge_peers.py stdio``, and ``bridge_peers.py http``.

The latter prints its port. Other bridges speak MCP themselves before they pass anything on, so these servers
read JSON. They answer every call with the text of its argument.
"""

import asyncio
import json
import os
import sys
from typing import Any

RESULTS: dict[str, Any] = {
    "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
    "ping": {},
}


def answer(line: bytes) -> bytes:
    """Return the answer to a message; empty if it needs none."""
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        return b""
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        version = params["protocolVersion"]
        info = {"name": "echo", "version": "1"}
        result: dict[str, Any] = {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": info,
        }
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": params["arguments"]["text"]}], "isError": False}
    elif method in RESULTS:
        result = RESULTS[method]
    else:
        error = {"code": -32601, "message": method}
        return json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode()
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()


def serve_stdio() -> None:
    """Answer lines until stdin ends."""
    held = b""
    while chunk := os.read(0, 1 << 16):
        *lines, held = (held + chunk).split(b"\n")
        for line in lines:
            if text := answer(line):
                os.write(1, text + b"\n")


async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection with JSON."""
    while head := await reader.readuntil(b"\r\n\r\n"):
        method = head.split(b" ", 1)[0]
        fields = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(b":") for line in head.split(b"\r\n")[1:])
        }
        body = await reader.readexactly(int(fields.get(b"content-length", 0)))
        if method != b"POST":
            status = b"405 Method Not Allowed" if method == b"GET" else b"200 OK"
            writer.write(b"HTTP/1.1 %b\r\nContent-Length: 0\r\n\r\n" % status)
            continue
        text = answer(body)
        if not text:
            writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
            continue
        session = b"Mcp-Session-Id: session\r\n" if b'"initialize"' in body else b""
        kind = b"Content-Type: application/json\r\n"
        writer.write(
            b"HTTP/1.1 200 OK\r\n%b%bContent-Length: %d\r\n\r\n%b" % (kind, session, len(text), text)
        )


async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve a connection to its end."""
    try:
        await converse(reader, writer)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def serve_http() -> None:
    """Serve on a free port until ended."""
    server = await asyncio.start_server(on_connection, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    if sys.argv[1:] == ["http"]:
        asyncio.run(serve_http())
    else:
        serve_stdio()
