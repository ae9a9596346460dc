"""Whole sessions, as tables of conversations: who said what, and what was found there.

Most of them are near misses: what looks like a fault and is none.
"""

import inspect
import json
import sys
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpproxy.judge.observer import Observer
from mcpproxy.judge.observer.memory_limit import MOST_BYTES, measure
from mcpproxy.judge.ruleset import catalogue
from mcpproxy.judge.session.frame import Close, Eof, Event, Finding, Frame, Gap, Sender, Signal, Stderr
from mcpproxy.protocol.lifecycle import TRANSITIONS, Input, State
from mcpproxy.protocol.meta_keys import VERSION_KEY
from mcpproxy.protocol.revisions import STATEFUL
from tests.every import every
from tests.rules.runner import described, shown

C: Final = "client"
S: Final = "server"

REVISION: Final = "2025-11-25"

Message: TypeAlias = "Mapping[str, Any] | list[Any] | bytes"
Line: TypeAlias = "tuple[Sender, Message, list[str]] | tuple[Event, list[str]]"
Script: TypeAlias = "tuple[Line, ...]"


def request(id: object, method: str, **params: object) -> dict[str, object]:
    message: dict[str, object] = {"jsonrpc": "2.0", "id": id, "method": method}
    return {**message, "params": params} if params else message


def notification(method: str, **params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})}


def result(id: object, **members: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": id, "result": members}


def error(id: object, code: int = -32603, **more: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "failed", **more}}


def refusal(id: object, message: str) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": message}}


def initialize(id: object = 0, version: str = REVISION, **capabilities: object) -> dict[str, object]:
    info = {"name": "client", "version": "1.0"}
    opening = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": info}
    return request(id, "initialize", **opening)


def initialized(id: object = 0, version: str = REVISION, **capabilities: object) -> dict[str, object]:
    info = {"name": "server", "version": "1.0"}
    return result(id, protocolVersion=version, capabilities=capabilities, serverInfo=info)


def modern(id: object, method: str, *, version: str = "2026-07-28", **params: object) -> dict[str, object]:
    capabilities = "io.modelcontextprotocol/clientCapabilities"
    return request(id, method, _meta={VERSION_KEY: version, capabilities: {}}, **params)


def complete(id: object, **members: object) -> dict[str, object]:
    """The result of a stateless request."""
    return result(id, resultType="complete", ttlMs=0, cacheScope="private", **members)


def acknowledged(id: object) -> dict[str, object]:
    meta = {"io.modelcontextprotocol/subscriptionId": id}
    return notification("notifications/subscriptions/acknowledged", _meta=meta, notifications={})


def discovered(id: object, *versions: str) -> dict[str, object]:
    return complete(id, supportedVersions=list(versions), capabilities={"tools": {}})


def unsupported(id: object, *versions: str, requested: str = "2026-07-28") -> dict[str, object]:
    return error(id, -32022, data={"supported": list(versions), "requested": requested})


ADD: Final = {
    "name": "add",
    "inputSchema": {"type": "object", "properties": {"a": {"type": "number"}}},
}
READY: Final = notification("notifications/initialized")
TOOLS: Final[dict[str, Any]] = {"tools": {}}

HANDSHAKE: Final[Script] = (
    (C, initialize(roots={}), []),
    (S, initialized(**TOOLS), []),
    (C, READY, []),
)

LIFECYCLE: Final[dict[str, Script]] = {
    "a ping may overtake the initialize response": (
        (C, initialize(1), []),
        (C, request(2, "ping"), []),
        (S, result(2), []),
        (S, initialized(1), []),
        (C, READY, []),
    ),
    "any other request may not": (
        (C, initialize(1), []),
        (C, request(2, "tools/list"), ["SEQ-003"]),
    ),
    "the server may ping before the client has confirmed, and log": (
        (C, initialize(1), []),
        (S, request(1, "ping"), []),
        (C, result(1), []),
        (S, initialized(1, logging={}), []),
        (S, notification("notifications/message", level="info", data="up"), []),
        (S, request(2, "ping"), []),
        (C, result(2), []),
        (C, READY, []),
    ),
    "a server that never enforces the handshake: the client is told once": (
        (C, request(1, "tools/list"), ["PROTO-005"]),
        (S, result(1, tools=[ADD]), []),
        (C, request(2, "tools/call", name="add", arguments={}), []),
        (S, result(2, content=[]), []),
        (S, request(1, "roots/list"), []),
        (C, result(1, roots=[]), []),
        (Close("exited", 0), []),
    ),
    "what could not be read has no id that does not stand there": (
        *HANDSHAKE,
        (C, b'{"jsonrpc":"2.0","id":4711,"method":}', ["RPC-001"]),
        (S, result(4711), []),
        (S, error("server-error", -32700), []),
        (C, request(7, "ping") | {"method": 42}, ["RPC-002"]),
        (S, result(7), []),
        (C, request("0815", "ping"), []),
        (S, result(815), ["PROTO-007"]),
    ),
    "an unclosed line as well, once it is certain that it is no part of a message": (
        *HANDSHAKE,
        (C, b'{"jsonrpc":"2.0","id":4711,"method":"ping"', []),
        (C, request("0815", "ping"), ["RPC-001"]),
        (S, result(815), ["PROTO-007"]),
    ),
    "an error without an id answers what it names, else the open request": (
        *HANDSHAKE,
        (C, notification("notifications/cancelled", requestId=5), ["CANC-001"]),
        (C, request(6, "tools/list"), []),
        (S, refusal(None, "not found: notifications/cancelled"), ["RPC-015"]),
        (S, refusal("", "Unknown method: notifications/cancelled"), ["RPC-015"]),
        (S, refusal(None, "only after notifications/cancelled"), ["RPC-012"]),
        (S, refusal("", "not found"), ["PROTO-007"]),
    ),
    "an error may refuse an array, or what is no request, under the id null": (
        *HANDSHAKE,
        (S, error(None, -32600), ["RPC-015"]),
        (C, [], ["RPC-017"]),
        (S, error(None, -32600), []),
        (C, notification("notifications/cancelled", requestId=5), ["CANC-001"]),
        (C, request(6, "tools/list"), []),
        (S, error(None, -32600), []),
        (S, result(6, tools=[]), []),
        (C, READY, ["LIFE-002"]),
        (S, error(None, -32601), ["RPC-015"]),
    ),
    **{
        f"an invalid notification may be refused as a request without an id: {invalid}": (
            *HANDSHAKE,
            (C, invalid, broken),
            (S, error(None, -32600), []),
            (C, READY, ["LIFE-002"]),
            (S, error(None, -32601), ["RPC-015"]),
        )
        for invalid, broken in (
            (b'{"jsonrpc":"2.0","method":"x/y","params":"z"}', ["RPC-016", "PROTO-006"]),
            (b'{"jsonrpc":"1.0","method":"x/y"}', ["PROTO-002", "PROTO-006"]),
            (b'{"method":"tools/list"}', ["PROTO-002", "RPC-014"]),
        )
    },
    "two notifications in an array may be refused together": (
        *HANDSHAKE,
        (C, [READY, READY], ["RPC-017", "LIFE-002", "LIFE-002"]),
        (S, error(None, -32600), []),
    ),
    "an error names the method that it does not know, and not one to be sent first": (
        *HANDSHAKE,
        (C, notification("x/foo"), ["PROTO-006"]),
        (C, notification("x/bar"), ["PROTO-006"]),
        (C, request(1, "x/foo_bar"), ["RPC-019"]),
        (S, refusal(None, "Method not found: x/foo_bar"), ["RPC-012"]),
        (S, error(None, -32600, message="unknown session, send x/foo and x/bar first"), ["RPC-012"]),
        (S, error(None, -32600, message="Session not found: x/foo first"), ["RPC-012"]),
        (S, refusal(None, "Method 'x/foo' not found"), ["RPC-015"]),
        (S, refusal(None, "x/bar is not supported"), ["RPC-015"]),
    ),
    "an escape may be of any letter of an id": (
        *HANDSHAKE,
        (C, b'{"jsonrpc":"2.0","id":"\\u0061","method":}', ["RPC-001"]),
        (S, result("a"), []),
    ),
    "an id that a recording has masked may be any": (
        *HANDSHAKE,
        (C, b'{"jsonrpc":"2.0","id":"masked(len=5,visible=yes,hash=0123456789ab)-1",}', ["RPC-001"]),
        (S, result("anna-1"), []),
    ),
    "a number may stand for true": (
        *HANDSHAKE,
        (C, b'{"jsonrpc":"2.0","id":true,"method":"ping",,}', ["RPC-001"]),
        (S, result(1), []),
    ),
    "a number in another form may be read as any id": (
        *HANDSHAKE,
        (C, b'{"jsonrpc":"2.0","id":81.5e1,"method":}', ["RPC-001"]),
        (S, result(815), []),
    ),
    "a late initialize makes up for it": (
        (C, request(1, "tools/list"), ["PROTO-005"]),
        (S, error(1, -32600), []),
        (C, initialize(2), []),
        (S, initialized(2, **TOOLS), []),
        (C, READY, []),
        (C, request(3, "tools/list"), []),
        (S, result(3, tools=[]), []),
    ),
    "a refused client may open again, and then work": (
        (C, initialize(1), []),
        (S, error(1, -32602), []),
        (C, initialize(2), []),
        (S, initialized(2, **TOOLS), []),
        (C, READY, []),
        (C, request(3, "tools/list"), []),
        (S, result(3, tools=[]), []),
    ),
    "a refused client that goes on is told once": (
        (C, initialize(1), []),
        (S, error(1, -32602), []),
        (C, request(2, "tools/list"), ["SEQ-003"]),
        (S, error(2), []),
        (C, request(3, "tools/list"), []),
        (S, error(3), []),
    ),
    "a client that works before it confirms is told once": (
        (C, initialize(1), []),
        (S, initialized(1, **TOOLS), []),
        (C, request(2, "tools/list"), ["SEQ-003"]),
        (C, request(3, "tools/list"), []),
        (C, READY, []),
        (S, result(2, tools=[]), []),
        (S, result(3, tools=[]), []),
        (Close("exited", 0), []),
    ),
    "a repeated initialize changes nothing of what was agreed": (
        *HANDSHAKE,
        (C, initialize(1, version="2024-11-05"), ["LIFE-003"]),
        (S, initialized(1, version="2024-11-05"), []),
        (C, request(2, "tools/list"), []),
        (S, result(2, tools=[]), []),
    ),
    "a server may offer another version, and its rules hold from then on": (
        (C, initialize(1, version="2025-11-25"), []),
        (S, initialized(1, version="2025-03-26"), []),
        (C, READY, []),
        (C, [request(2, "ping"), request(3, "ping")], []),
        (S, [result(2), result(3)], []),
    ),
    "capabilities of this revision are unknown members of the next": (
        (C, initialize(1, version="2024-11-05"), []),
        (S, initialized(1, version="2024-11-05", prompts={}), []),
        (C, READY, []),
        (
            C,
            request(
                2,
                "completion/complete",
                ref={"type": "ref/prompt", "name": "p"},
                argument={"name": "a", "value": ""},
            ),
            [],
        ),
        (S, result(2, completion={"values": []}), []),
    ),
    "a method from the wrong side is told once, not as a missing declaration too": (
        *HANDSHAKE,
        (S, request(1, "prompts/list"), ["RPC-019"]),
    ),
    "a server that sends initialize opens nothing": (
        (S, initialize(1), ["RPC-019", "PROTO-005"]),
        (C, initialize(1), []),
        (S, initialized(1), []),
        (C, READY, []),
    ),
    "an answer to initialize that is no object agrees on nothing": (
        (C, initialize(1), []),
        (S, {"jsonrpc": "2.0", "id": 1, "result": []}, ["RPC-010"]),
    ),
    "the answer to initialize without its id is still that answer": (
        (C, initialize(1), []),
        (S, initialized("1"), ["PROTO-007"]),
        (C, READY, []),
        (C, request(2, "ping"), []),
        (S, result(2), []),
    ),
}

IDS: Final[dict[str, Script]] = {
    "client and server number their requests independently": (
        *HANDSHAKE,
        (C, request(1, "ping"), []),
        (S, request(1, "ping"), []),
        (S, result(1), []),
        (C, result(1), []),
        (S, request(0, "ping"), []),
        (C, result(0), []),
    ),
    "1 and the text 1 are two ids": (
        *HANDSHAKE,
        (C, request(1, "ping"), []),
        (C, request("1", "ping"), []),
        (S, result("1"), []),
        (S, result(1), []),
    ),
    "an id of the wrong type is a mismatch, told once": (
        *HANDSHAKE,
        (C, request(1, "ping"), []),
        (S, result("1"), ["PROTO-007"]),
        (S, result(1), ["RPC-007"]),
    ),
    "1.0 answers 1": (
        *HANDSHAKE,
        (C, request(1, "ping"), []),
        (S, b'{"jsonrpc": "2.0", "id": 1.0, "result": {}}', []),
        (C, b'{"jsonrpc": "2.0", "id": 1e2, "method": "ping"}', ["RPC-003"]),
        (S, result(100), []),
    ),
    "ids beyond 2^53 are told apart": (
        *HANDSHAKE,
        (C, request(2**53, "ping"), []),
        (C, request(2**53 + 1, "ping"), []),
        (S, result(2**53 + 1), []),
        (S, result(2**53), []),
    ),
    "ids beyond 2^64 are told apart": (
        *HANDSHAKE,
        (C, request(2**64, "ping"), []),
        (C, request(2**64 + 1, "ping"), []),
        (C, request(-(2**64) - 1, "ping"), []),
        (S, result(2**64 + 1), []),
        (S, result(2**64), []),
        (S, result(-(2**64) - 1), []),
    ),
    "a number in the params is not the id that it rounds to": (
        *HANDSHAKE,
        (
            C,
            b'{"params": {"n": 18446744073709551616}, "jsonrpc": "2.0", "method": "ping",'
            b' "id": 18446744073709551617}',
            [],
        ),
        (
            C,
            b'{"params": {"n": 18446744073709551616}, "jsonrpc": "2.0", "method": "ping",'
            b' "id": 18446744073709551618}',
            [],
        ),
        (S, result(2**64 + 1), []),
        (S, result(2**64 + 2), []),
    ),
    "ids in one batch that round alike are told apart": (
        (C, initialize(version="2025-03-26"), []),
        (S, initialized(version="2025-03-26"), []),
        (C, READY, []),
        (C, [request(2**64 + 1, "ping"), request(2**64 + 2, "ping")], []),
        (S, result(2**64 + 2), []),
        (S, result(2**64 + 1), []),
    ),
    "an id that would take hours to write out": (
        *HANDSHAKE,
        (C, b'{"jsonrpc": "2.0", "id": 1e999999999, "method": "ping"}', ["RPC-003"]),
    ),
    "requests in flight are answered in any order": (
        *HANDSHAKE,
        *((C, request(id, "ping"), []) for id in range(1, 6)),
        *((S, result(id), []) for id in (3, 1, 5, 2, 4)),
    ),
    "a cancelled request may be answered late": (
        *HANDSHAKE,
        (C, request(1, "tools/call", name="add", arguments={}), []),
        (C, notification("notifications/cancelled", requestId=1), []),
        (C, request(2, "ping"), []),
        (S, result(2), []),
        (S, result(1, content=[]), []),
    ),
    "or never": (
        *HANDSHAKE,
        (C, request(1, "tools/call", name="add", arguments={}), []),
        (C, notification("notifications/cancelled", requestId=1), []),
        (C, request(2, "ping"), []),
        (S, result(2), []),
        (Close("exited", 0, observed_at_ns=10**12), []),
    ),
    "who reuses an id in flight is at fault, not who answers both": (
        *HANDSHAKE,
        (C, request(1, "tools/list"), []),
        (C, request(1, "tools/call", name="add", arguments={}), ["RPC-005"]),
        (S, result(1, tools=[]), []),
        (S, result(1, content=[]), []),
    ),
    "an answer is late, not unknown, however many requests came after it": (
        *HANDSHAKE,
        (C, request("slow", "tools/call", name="add", arguments={}), []),
        *((C, request(id, "ping"), []) for id in range(1, 40)),
        *((S, result(id), []) for id in range(1, 40)),
        (S, result("slow", content=[]), []),
    ),
}

ERAS: Final[dict[str, Script]] = {
    **{
        f"a probe refused with {code} is no violation": (
            (C, modern("p", "server/discover"), []),
            (S, error("p", code), []),
            (C, initialize(1), []),
            (S, initialized(1, **TOOLS), []),
            (C, READY, []),
            (C, request(2, "tools/list"), []),
            (S, result(2, tools=[]), []),
        )
        for code in (-32700, -32600, -32601, -32602, -32603, -32000, -1, 0)
    },
    "a probe may meet silence": (
        (C, modern("p", "server/discover"), []),
        (C, initialize(1), []),
        (S, initialized(1), []),
        (C, READY, []),
        (C, request(2, "ping"), []),
        (S, result(2), []),
        (Close("exited", 0, observed_at_ns=10**12), []),
    ),
    "so may any other request of the other era": (
        (C, modern(1, "tools/list"), []),
        (C, initialize(2), []),
        (S, initialized(2), []),
        (C, READY, []),
        (C, request(3, "ping"), []),
        (S, result(3), []),
        (Close("exited", 0, observed_at_ns=10**12), []),
    ),
    "the probe's answer may come after initialize": (
        (C, modern("p", "server/discover"), []),
        (C, initialize(1), []),
        (S, error("p", -32601), []),
        (S, initialized(1), []),
        (C, READY, []),
    ),
    "-32022 that lists only versions with a handshake leads to initialize": (
        (C, modern("p", "server/discover"), []),
        (S, unsupported("p", "2025-11-25", "2025-06-18"), []),
        (C, initialize(1), []),
        (S, initialized(1), []),
        (C, READY, []),
    ),
    "-32022 that lists a stateless version does not": (
        (C, modern("p", "server/discover", version="2099-01-01"), []),
        (S, unsupported("p", "2026-07-28", requested="2099-01-01"), []),
        (C, initialize(1), ["ERA-002"]),
    ),
    "a slow server answers the probe and refuses initialize: a second probe is right": (
        (C, modern("p", "server/discover"), []),
        (C, initialize(1), []),
        (S, discovered("p", "2026-07-28"), []),
        (S, unsupported(1, "2026-07-28"), []),
        (C, modern("q", "server/discover"), []),
        (S, discovered("q", "2026-07-28"), []),
        (C, modern(2, "tools/list"), []),
        (S, complete(2, tools=[]), []),
        (Close("exited", 0), []),
    ),
    "one process serves both eras side by side": (
        *HANDSHAKE,
        (C, modern(1, "tools/list"), []),
        (C, request(2, "tools/list"), []),
        (S, result(2, tools=[]), []),
        (S, complete(1, tools=[]), []),
        (C, modern(1, "tools/list"), []),
        (S, complete(1, tools=[]), []),
        (S, request(1, "roots/list"), []),
        (C, result(1, roots=[]), []),
    ),
    "a modern request before the handshake moves nothing": (
        (C, modern(1, "tools/list"), []),
        (S, error(1, -32602), []),
        (C, initialize(2), []),
        (C, modern(3, "tools/list"), []),
        (S, error(3, -32602), []),
        (S, initialized(2), []),
        (C, READY, []),
    ),
    "a request without marks after stateless ones may be meant for either era": (
        (C, modern(1, "tools/list"), []),
        (S, complete(1, tools=[]), []),
        (C, request(2, "tools/list"), []),
        (S, result(2, tools=[]), []),
    ),
    "a stateless session has no order to keep": (
        (C, modern(1, "tools/list"), []),
        (S, complete(1, tools=[ADD]), []),
        (C, modern(1, "tools/call", name="add", arguments={}), []),
        (S, result(1, resultType="complete", content=[]), []),
        (C, modern(2, "subscriptions/listen", notifications={}), []),
        (S, acknowledged(2), []),
        (C, modern(3, "tools/list"), []),
        (S, complete(3, tools=[ADD]), []),
        (Eof(C), []),
        (Close("exited", 0, observed_at_ns=10**12), ["STDIO-005"]),
    ),
}

UNSEEN: Final[dict[str, Script]] = {
    "after a gap nothing is concluded from what is missing": (
        *HANDSHAKE,
        (C, request(1, "ping"), []),
        (Gap("the disk was full", 10, 10), []),
        (S, result(7), []),
        (S, result(7), []),
        (C, result(4), []),
        (C, notification("notifications/initialized"), []),
        (S, notification("notifications/message", level="info", data="up"), []),
        (Close("exited", 0, observed_at_ns=10**12), []),
    ),
    "a gap may hide the end of a line that had begun": (
        *HANDSHAKE,
        (C, b"{", []),
        (Gap("the disk was full"), []),
        (C, request(1, "ping"), []),
        (S, result(1), []),
    ),
    "a handshake after a gap is judged again": (
        (Gap("the disk was full"), []),
        (C, initialize(1), []),
        (C, request(2, "tools/list"), ["SEQ-003"]),
    ),
    "a line too long to hold is not judged, nor is what may answer it": (
        *HANDSHAKE,
        (Frame(4, C, b'{"jsonrpc": "2.0", "id": 1, "me', terminated=False, continues=True), []),
        (Frame(5, C, b'thod": "pi', terminated=False, continues=True), []),
        (Frame(6, C, b'ng"}'), []),
        (S, result(1), []),
        (C, request(2, "ping"), []),
        (S, result(2), []),
    ),
    "a message that nests too deep is not judged, nor is what may answer it": (
        *HANDSHAKE,
        (
            C,
            b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": '
            + b"[" * 200_000
            + b"]" * 200_000
            + b"}",
            [],
        ),
        (S, result(1), []),
    ),
    "an error nests deeper than Python recurses": (
        (C, modern("p", "server/discover"), []),
        (C, initialize(1), []),
        (S, discovered("p", "2026-07-28"), []),
        (
            S,
            b'{"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "no", "data": '
            + b"[" * 900
            + b"]" * 900
            + b"}}",
            ["ERA-003"],
        ),
    ),
    "broken JSON whose answer comes all the same": (
        *HANDSHAKE,
        (C, b'{"jsonrpc": "2.0", "id": 1, "method": ping}', ["RPC-001"]),
        (S, error(1, -32700), []),
        (C, request(2, "ping"), []),
        (S, result(2), []),
    ),
    "broken JSON answered by an error without an id": (
        *HANDSHAKE,
        (C, b'{"jsonrpc": "2.0", "id": 1, "method": ping}', ["RPC-001"]),
        (S, {"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error"}}, []),
        (S, error(None, -32700), []),
    ),
    "a null id answered by an error without an id": (
        *HANDSHAKE,
        (C, request(None, "ping"), ["RPC-004"]),
        (S, error(None, -32600), []),
    ),
}

LINES: Final[dict[str, Script]] = {
    "pretty-printed JSON is told once": (
        *HANDSHAKE,
        (C, b"{", []),
        (C, b'  "jsonrpc": "2.0",', []),
        (C, b'  "id": 1,', []),
        (C, b'  "method": "ping"', []),
        (C, b"}", ["STDIO-001"]),
        (S, result(1), []),
    ),
    "with braces of its own inside": (
        *HANDSHAKE,
        (C, b"{", []),
        (C, b'  "jsonrpc": "2.0", "id": 1, "method": "tools/call",', []),
        (C, b'  "params": {', []),
        (C, b'    "arguments": {}, "name": "add"', []),
        (C, b"  }", []),
        (C, b"}", ["STDIO-001"]),
        (S, result(1, content=[]), []),
    ),
    "an answer to it that comes before it is recognised is no unknown id": (
        *HANDSHAKE,
        (C, b'{"jsonrpc": "2.0", "id": 1, "method": "ping"', []),
        (S, result(1), []),
        (C, b"}", ["STDIO-001"]),
    ),
    "what only looks like it is told line by line": (
        *HANDSHAKE,
        (S, b"{ starting", ["STDIO-002"]),
        (S, b"{", []),
        (S, b"ready", []),
        (S, notification("notifications/tools/list_changed"), ["RPC-001", "STDIO-002", "PROTO-009"]),
    ),
    "an object that Node.js prints is told once": (
        *HANDSHAKE,
        (S, b"{", []),
        (S, b"  level: 'info',", []),
        (S, b"  request: {", []),
        (S, b"    url: '/'", []),
        (S, b"  }", []),
        (S, b"}", ["STDIO-002"]),
        (S, notification("notifications/tools/list_changed"), ["PROTO-009"]),
    ),
    "a message that is laid out and no JSON is told line by line": (
        *HANDSHAKE,
        (S, b"{", []),
        (S, b'  "jsonrpc": "2.0", "id": 1,', []),
        (S, b'  "result": {},', []),
        (S, b"}", []),
        (S, notification("notifications/tools/list_changed"), ["RPC-001", *["STDIO-002"] * 3, "PROTO-009"]),
    ),
    "a laid out message is judged by its own bytes": (
        *HANDSHAKE,
        (C, b'{"jsonrpc": "2.0", "id": 1,', []),
        (C, b' "method": "ping", "method": "ping"}', ["STDIO-001", "RPC-022"]),
        (S, result(1), []),
        (C, b'{"jsonrpc": "2.0", "id": 77,', []),
        (C, b' "method": "notifications/progress"}', ["STDIO-001", "RPC-013", "RPC-023"]),
        (S, error(77, -32600), []),
    ),
    "an array of no messages is output": (
        *HANDSHAKE,
        (S, b'[{"level": "info"}]', ["STDIO-002"]),
        (S, b"[1, 2, 3]", ["STDIO-002"]),
        (S, b'[{"id": 1, "name": "a row"}]', ["STDIO-002"]),
        (C, b'[{"id": 1, "name": "a row"}]', ["STDIO-003"]),
        (S, error(1, -32600), []),
        (S, b'[{"level": "info"}, {"jsonrpc": "2.0"}]', ["RPC-017", "RPC-002", "RPC-002"]),
        (S, b"[]", ["RPC-017"]),
    ),
    "a log line in brackets is no array": (
        *HANDSHAKE,
        (S, b"[INFO] up", ["STDIO-002"]),
        (S, b"[2026-01-01T10:00:00] up", ["STDIO-002"]),
        (S, b"[1] up", ["STDIO-002"]),
    ),
    "a carriage return before the line feed is white space": (
        *HANDSHAKE,
        (C, b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\r', []),
        (S, b'  {"jsonrpc": "2.0", "id": 1, "result": {}}\t\r', []),
    ),
    "a blank line is told, and nothing else": (
        *HANDSHAKE,
        (S, b"\r", ["STDIO-002"]),
        (C, b" ", ["STDIO-003"]),
        (S, Frame(0, S, b"", terminated=False).raw, ["STDIO-002"]),
    ),
    "a batch where batches are": (
        (C, initialize(1, version="2025-03-26"), []),
        (S, initialized(1, version="2025-03-26"), []),
        (C, READY, []),
        (
            C,
            [
                request(2, "ping"),
                request(3, "ping"),
                notification("notifications/cancelled", requestId=3),
            ],
            [],
        ),
        (S, [result(3)], []),
        (S, result(2), []),
        (C, [], ["RPC-018"]),
        (C, [request(4, "ping"), 7, {"id": 5}], ["RPC-001", "RPC-002"]),
    ),
    "stderr is free": (
        *HANDSHAKE,
        (Stderr(b"ERROR \xff something"), []),
        (C, request(1, "ping"), []),
        (S, result(1), []),
    ),
}

ENDINGS: Final[dict[str, Script]] = {
    "a health check: initialize, then the end": (
        (C, initialize(1), []),
        (S, initialized(1), []),
        (Eof(C), []),
        (Close("exited", 0, observed_at_ns=10**12), []),
    ),
    "a client that leaves at once": ((Eof(C), []), (Close("exited", 0), [])),
    "a client that leaves before the answer": (
        (C, initialize(1), []),
        (Eof(C, 10**9), []),
        (Close("exited", 0, observed_at_ns=10**12), []),
    ),
    "a server that dies on initialize": (
        (C, initialize(1), []),
        (Eof(S, 10**9), []),
        (Close("exited", 1, observed_at_ns=10**12), ["SEQ-001"]),
    ),
    "a server that is killed while it thinks": (
        (C, initialize(1), []),
        (Close("signalled", None, 9, 10**12), []),
    ),
    "a command that cannot be run": ((Close("not started"), []),),
    "a recording that is cut": (
        (C, initialize(1), []),
        (Close("cut", observed_at_ns=10**12), []),
    ),
    "the end of input in the middle of a session asks for nothing more": (
        *HANDSHAKE,
        (C, request(1, "ping"), []),
        (C, request(2, "ping"), []),
        (S, result(2), []),
        (Eof(C, 10**9), []),
        (Close("exited", 0, observed_at_ns=2 * 10**9), []),
    ),
    "an interrupt from the terminal is the user's": (
        *HANDSHAKE,
        (Signal("SIGINT"), []),
        (Signal("SIGHUP"), []),
        (Close("signalled", None, 2), []),
    ),
    "a signal before the end of input is not the way": (
        *HANDSHAKE,
        (Signal("SIGTERM"), ["STDIO-004"]),
        (Close("signalled", None, 15), []),
    ),
    "a last line without its line feed is read": (
        *HANDSHAKE,
        (C, request(1, "ping"), []),
        (Frame(5, S, b'{"jsonrpc": "2.0", "id": 1, "result": {}}', terminated=False), []),
        (Eof(S), []),
    ),
    "nor is white space at the end": (
        *HANDSHAKE,
        (Frame(4, S, b" ", terminated=False), []),
        (Eof(S), []),
    ),
    "half a line at the end is no garbage": (
        *HANDSHAKE,
        (Frame(4, S, b'{"jsonrpc": "2.0", "id": 1, "resu', terminated=False), []),
        (Eof(S), ["STDIO-002"]),
        (Close("exited", 0), []),
    ),
    "lines that are held are told at the end": (
        *HANDSHAKE,
        (S, b"{", []),
        (S, b"oops", []),
        (Close("exited", 0), ["RPC-001", "STDIO-002"]),
    ),
}

SESSIONS: Final[dict[str, Script]] = {**LIFECYCLE, **IDS, **ERAS, **UNSEEN, **LINES, **ENDINGS}


def events(script: Script) -> list[tuple[Event, list[str]]]:
    """The script as events, a millisecond apart, frames numbered as they come."""
    found: list[tuple[Event, list[str]]] = []
    seq = 0
    for at, line in enumerate(script):
        seq += len(line) == 3 or isinstance(line[0], Frame)
        if len(line) == 2:
            found.append(line)
            continue
        sender, message, expected = line
        raw = message if isinstance(message, bytes) else json.dumps(message).encode()
        found.append((Frame(seq, sender, raw, at * 1_000_000), expected))
    return found


def transcript(script: Script, up_to: int, found: list[Finding]) -> str:
    told = [shown(event)[:300] for event, _ in events(script)[: up_to + 1]]
    return "\n".join(["", *told, f"    expected {events(script)[up_to][1]}", *map(described, found)])


@every("script", [pytest.param(script, id=title) for title, script in SESSIONS.items()])
def test_session(script: Script) -> None:
    observer = Observer(catalogue.load())
    for index, (event, expected) in enumerate(events(script)):
        found = observer.observe(event)
        assert [finding.rule for finding in found] == expected, transcript(script, index, found)


@every("script", [pytest.param(script, id=title) for title, script in SESSIONS.items()])
def test_a_session_joined_late_breaks_no_rule_of_order(script: Script) -> None:
    observer = Observer(catalogue.load(), joined_late=True)
    opened = False
    for event, _ in events(script):
        opened = opened or (isinstance(event, Frame) and b'"initialize"' in event.raw)
        found = {finding.rule for finding in observer.observe(event)}
        assert found.isdisjoint(("PROTO-005", "PROTO-007", "RPC-007", "RPC-008", "SEQ-001", "SEQ-002")) or (
            # These name an answer that no request can ever have.
            found == {"PROTO-007"} and opened
        )


# The revision


@pytest.mark.parametrize("revision", STATEFUL)
def test_the_revision_is_that_of_the_answer(revision: str) -> None:
    observer = Observer(catalogue.load())
    assert observer.revision is None
    feed(observer, C, initialize(1, version="2025-06-18"))
    assert observer.revision is None
    feed(observer, S, initialized(1, version=revision))
    assert observer.revision == revision


def test_a_stateless_request_names_its_own_revision() -> None:
    observer = Observer(catalogue.load())
    feed(observer, C, modern(2, "tools/list"))
    assert observer.revision == "2026-07-28"
    feed(observer, C, initialize(3))
    assert observer.revision is None


def test_a_revision_may_be_settled_beforehand() -> None:
    observer = Observer(catalogue.load(), revision="2025-03-26")
    assert observer.revision == "2025-03-26"
    assert feed(observer, C, [request(1, "tools/list")]) == []
    assert feed(observer, S, result(1, tools=[])) == []


@pytest.mark.parametrize("revision", [None, "2026-07-28", "3000-01-01"])
def test_only_a_revision_with_a_handshake_can_be_settled_beforehand(revision: str | None) -> None:
    assert Observer(catalogue.load(), revision=revision).revision is None


def test_a_frame_may_nest_deeper_than_the_stack_has_room_for() -> None:
    observer = Observer(catalogue.load())
    frame = Frame(1, C, b'{"a": ' + b"[" * 400 + b" oops")
    assert type(frame.message).__name__ == "Malformed"  # parsed while there was room

    def observe(depth: int) -> list[Finding]:
        return observe(depth - 1) if depth else observer.observe(frame)

    used = len(inspect.stack())
    (finding,) = observe(sys.getrecursionlimit() - used - 250)
    assert finding.rule == "RPC-001"


def feed(observer: Observer, sender: Sender, message: Message) -> list[Finding]:
    raw = message if isinstance(message, bytes) else json.dumps(message).encode()
    return observer.observe(Frame(1, sender, raw))


# A finding


def test_a_finding_names_cause_frame_and_source() -> None:
    observer = Observer(catalogue.load())
    (finding,) = [
        finding
        for event, _ in events(((C, initialize(), []), (S, initialized("0"), [])))
        for finding in observer.observe(event)
    ]
    assert finding == Finding(
        rule="PROTO-007",
        severity="error",
        blame="server",
        message='server answered with string "0"; the request in frame 1 (initialize) used number 0',
        frame=2,
        related=(1,),
        pointer="/id",
        revision=REVISION,
        source=catalogue.load().requirements["PROTO-007/R-008"].sources[REVISION],
        requirement="R-008",
    )


def test_every_state_answers_every_input() -> None:
    assert set(TRANSITIONS) == set(State)
    for steps in TRANSITIONS.values():
        assert set(steps) == set(Input)


# Any input at all

METHODS: Final = (
    "initialize",
    "notifications/initialized",
    "ping",
    "server/discover",
    "tools/list",
    "tools/call",
    "roots/list",
    "sampling/createMessage",
    "elicitation/create",
    "tasks/list",
    "subscriptions/listen",
    "resources/subscribe",
    "logging/setLevel",
    "notifications/cancelled",
    "notifications/message",
    "notifications/tools/list_changed",
    "weather/get",
    "",
)

NAMES: Final = (
    "protocolVersion", "capabilities", "clientInfo", "serverInfo", "name", "version", "tools",
    "listChanged", "inputSchema", "outputSchema", "type", "properties", "required", "code", "message",
    "data", "supported", "supportedVersions", "_meta", "requestId", "task", "mode", "elicitation",
    "roots", "sampling", "logging", "experimental", "content", "$schema",
)  # fmt: skip

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([2**53, 2**64, 2**64 + 1, 1.0, 1.5, 1e300, "", "1", "a", "--5", "2.0", "object"]),
    st.sampled_from(["2025-11-25", "2025-03-26", "2026-07-28", "\ud800"]),
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*NAMES, VERSION_KEY]), inner, max_size=5)
    ),
    max_leaves=12,
)
messages = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | scalars,
        "id": scalars,
        "method": st.sampled_from(METHODS) | scalars,
        "params": values,
        "result": values,
        "error": values,
    },
)
plausible = st.sampled_from(
    [
        initialize(),
        initialized(**TOOLS),
        unsupported(0, "2026-07-28"),
        READY,
        request(1, "ping"),
        request(1, "tools/list"),
        result(1, tools=[{"name": "add"}]),
        result(1),
        error(1),
        error(None),
        modern(1, "server/discover"),
        discovered(1, "2026-07-28"),
        modern(1, "tools/list"),
        notification("notifications/cancelled", requestId=1),
        [],
        [request(2, "ping"), result(2)],
    ]
)
texts = (messages | st.lists(messages, max_size=3) | values | plausible).map(lambda m: json.dumps(m).encode())
lines = st.one_of(
    texts,
    texts,
    texts.map(lambda text: text[:-1]),
    texts.map(lambda text: b"\xef\xbb\xbf" + text),
    st.binary(max_size=30),
    st.sampled_from(
        [b"{", b"}", b"[", b"]", b"", b"[INFO] up", b'"id": 1,', b'{"a": NaN}', b"\xff", b'{"a": "\xff"}']
    ),
)


@st.composite
def sessions(draw: st.DrawFn) -> list[Event]:
    found: list[Event] = []
    for seq in range(1, draw(st.integers(1, 14))):
        at_ns = seq * draw(st.sampled_from([10**6, 10**10]))
        sender: Sender = draw(st.sampled_from(["client", "server"]))
        kind = draw(st.integers(0, 15))
        if kind < 10:
            ended = draw(st.sampled_from([(True, False), (True, False), (False, False), (False, True)]))
            found.append(Frame(seq, sender, draw(lines), at_ns, *ended))
        else:
            found.append(
                (
                    Eof(sender, at_ns),
                    Signal("SIGTERM", at_ns),
                    Gap("the disk was full", observed_at_ns=at_ns),
                    Stderr(b"\xff", at_ns),
                    Close("exited", 0, None, at_ns),
                    Close("signalled", None, 9, at_ns),
                )[kind - 10]
            )
    return found


@settings(max_examples=150, deadline=None)
@given(sessions(), st.sampled_from([None, *STATEFUL]), st.booleans())
def test_any_session_is_judged_and_twice_alike(
    session: list[Event], revision: str | None, late: bool
) -> None:
    def judge() -> list[list[Finding]]:
        observer = Observer(catalogue.load(), revision=revision, joined_late=late)
        found = [observer.observe(event) for event in session]
        assert observer.revision in (None, *STATEFUL, "2026-07-28")
        return found

    assert judge() == judge()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["client", "server"]), st.binary(max_size=40)), max_size=8))
def test_any_bytes_are_judged(chunks: list[tuple[Sender, bytes]]) -> None:
    observer = Observer(catalogue.load())
    frames = [Frame(seq, sender, raw) for seq, (sender, raw) in enumerate(chunks, 1)]
    for finding in (finding for frame in frames for finding in observer.observe(frame)):
        assert 1 <= finding.frame <= len(frames)


def test_requests_with_long_ids_that_nobody_answers_are_forgotten_as_well() -> None:
    """Not only the ids that were used: what waits for an answer holds them, too."""
    observer = Observer(catalogue.load())
    for number in range(4000):
        raw = b'{"jsonrpc":"2.0","id":"%d%b","method":"ping"}' % (number, b"i" * 20_000)
        observer.observe(Frame(number + 1, "client", raw, number + 1))
    history = observer._messages.history  # pyright: ignore[reportPrivateUsage] # what it has kept
    assert measure(history, 1 << 40) <= 2 * MOST_BYTES
    assert observer.forgot


@pytest.mark.parametrize("size", [200, 1_800, 20_000, 60_000])
@pytest.mark.parametrize("token", [False, True], ids=["plain", "with a progress token"])
def test_a_long_session_with_long_arguments_is_remembered(size: int, token: bool) -> None:
    """What is finished is forgotten first: an agent that writes files all day is judged to the end."""
    observer = Observer(catalogue.load())
    info = {"name": "p", "version": "1"}
    offer: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {}}
    said: list[tuple[Sender, dict[str, Any]]] = [
        ("client", {"id": "a", "method": "initialize", "params": {**offer, "clientInfo": info}}),
        ("server", {"id": "a", "result": {**offer, "capabilities": {"tools": {}}, "serverInfo": info}}),
        ("client", {"method": "notifications/initialized"}),
    ]
    for number in range(1, 2_500):
        params = {"name": "write", "arguments": {"text": "x" * size}}
        meta = {"_meta": {"progressToken": number}} if token else {}
        said.append(("client", {"id": number, "method": "tools/call", "params": params | meta}))
        said.append(("server", {"id": number, "result": {"content": []}}))
    said.append(("server", {"id": 2_500, "result": {"content": []}}))
    found: list[Finding] = []
    for seq, (sender, message) in enumerate(said, start=1):
        found += observer.observe(Frame(seq, sender, json.dumps({"jsonrpc": "2.0", **message}).encode(), seq))
        if seq == 10:
            found.clear()  # about a tool that no list told
    assert observer.forgot == ""
    assert [finding.rule for finding in found] == ["PROTO-007"]
