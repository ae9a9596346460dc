"""Journals of HTTP connections, and conversations to fill them with."""

import gzip
import json
from typing import Final

from mcpproxy.record.relay import journal
from tests.recorder.journals import EXIT, STARTED_NS, Entry

SALT: Final = bytes(range(32))


def start(**members: object) -> Entry:
    """The START record of a reverse proxy."""
    payload: dict[str, object] = {
        "transport": "http",
        "mode": "reverse",
        "listen": "http://127.0.0.1:8765",
        "endpoint": "/mcp",
        "upstream": "http://127.0.0.1:3001/mcp",
        "keep_credentials": False,
        "salt": SALT.hex(),
        "command": [],
        "label": "srv",
        "cwd": "/",
        "pid": 0,
        "started_at": "2026-11-21T10:20:30.123456Z",
        "started_ns": STARTED_NS,
        "mcpproxy": "0.1.0",
        **members,
    }
    return journal.START, json.dumps(payload).encode(), STARTED_NS, 0


def connect(number: int = 1) -> Entry:
    return journal.CONNECT, b'{"client":"127.0.0.1:5","upstream":"127.0.0.1:3001"}', STARTED_NS, number


def client(data: bytes, at: int = 1, number: int = 1) -> Entry:
    return journal.CLIENT, data, STARTED_NS + at, number


def server(data: bytes, at: int = 2, number: int = 1) -> Entry:
    return journal.SERVER, data, STARTED_NS + at, number


def own(data: bytes, at: int = 3, number: int = 1) -> Entry:
    return journal.OWN, data, STARTED_NS + at, number


def client_eof(how: bytes = b"", at: int = 8, number: int = 1) -> Entry:
    return journal.CLIENT_EOF, how, STARTED_NS + at, number


def server_eof(how: bytes = b"", at: int = 9, number: int = 1) -> Entry:
    return journal.SERVER_EOF, how, STARTED_NS + at, number


def post(body: bytes, *fields: str, target: str = "/mcp") -> bytes:
    """A POST with a body of known length."""
    lines = [f"POST {target} HTTP/1.1", "Host: h", *fields, f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def get(target: str, *fields: str) -> bytes:
    return "\r\n".join([f"GET {target} HTTP/1.1", "Host: h", *fields, "", ""]).encode("latin-1")


def answer(body: bytes, *fields: str, status: str = "200 OK", kind: str = "application/json") -> bytes:
    """A response with a body of known length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", *fields, f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def stream(*fields: str) -> bytes:
    """The head of an event stream in chunks."""
    lines = ["HTTP/1.1 200 OK", "Content-Type: text/event-stream", *fields, "Transfer-Encoding: chunked"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK: Final = b"0\r\n\r\n"

INITIALIZE: Final = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}'
)
INITIALIZED: Final = (
    b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},'
    b'"serverInfo":{"name":"s","version":"1"}}}'
)
READY: Final = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
LIST: Final = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
TOOLS: Final = b'{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}'
SESSION_ID: Final = "3f7b1e0a-0000-4000-8000-c0ffee000001"

EVENTS: Final = (
    b": hello\n\n"
    b"id: 1\nretry: 500\ndata:\n\n"
    b"event: message\r\nid: 2\r\ndata: " + TOOLS + b"\r\n\r\n"
    b'data: {"jsonrpc":"2.0",\ndata: "method":"notifications/x"}\n\n'
    b"data: cut sho"
)
_ENCODED: Final = gzip.compress(TOOLS, mtime=0)

CONVERSATION: Final = [
    start(),
    connect(1),
    client(post(INITIALIZE, "Accept: */*", "Authorization: Bearer s3cret"), 10),
    server(answer(INITIALIZED, f"Mcp-Session-Id: {SESSION_ID}"), 20),
    client(post(READY, f"Mcp-Session-Id: {SESSION_ID}"), 30),
    server(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", 40),
    connect(2),
    client(post(LIST, f"Mcp-Session-Id: {SESSION_ID}"), 50, 2),
    server(stream() + chunk(EVENTS[:30]) + chunk(EVENTS[30:]), 60, 2),
    client(post(LIST, f"Mcp-Session-Id: {SESSION_ID}"), 70),
    server(answer(_ENCODED, "Content-Encoding: gzip"), 80),
    server_eof(b"reset", 90, 2),
    client_eof(b"closed", 91, 2),
    client(post(b"grant_type=code&code=abc&client_secret=x", target="/token?code=q"), 100),
    server(answer(b'{"access_token": "top", "expires_in": 3600}'), 110),
    client(get("/mcp", "Accept: text/event-stream"), 120),
    (journal.NOTE, b'{"what":"upstream-failed","why":"refused"}', STARTED_NS + 130, 1),
    own(answer(b'{"jsonrpc":"2.0","error":{"code":-32000,"message":"m"}}', status="502 Bad Gateway"), 130),
    client_eof(b"", 140),
    server_eof(b"closed", 141),
    EXIT,
]
"""Two connections of one session, with one of nearly everything."""
