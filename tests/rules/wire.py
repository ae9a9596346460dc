"""The fixture lines for HTTP, and the events that they stand for.

``x`` is the number of the exchange and ``c`` that of its connection, by default the same:

    {"http-handshake": {"client": {}, "server": {}, "session": "s-1234567"}, "c": 1}   three POSTs, 901 to 903
    {"post": {...}, "x": 1, "headers": {...}}     head and body of the client
    {"get": "/mcp", "x": 2}   {"delete": "/mcp", "x": 3}   {"request": {"method": "PUT", "target": "/", ...}}
    {"response": 200, "x": 1, "headers": {...}}   a head alone
    {"answer": {...}, "x": 1, "status": 200}      head, JSON body and end
    {"accepted": 202, "x": 1}                     head and end
    {"event": {"id": "1", "name": "message", "retry": 100, "data": {...}}, "x": 1}     an SSE event;
        a comment if it is empty; with "terminated": false without its blank line
    {"body": "text", "x": 1}   {"end": 1, "cut": true, "by": "client", "left": 2.5}
    {"sent-late": 1}              the server gets the request only now

A POST has the usual headers: Content-Type, Accept, and those that a client of this session or revision adds.
A header with the value null is left out. ``"by_proxy": true`` marks a response or body that mcpproxy sent
itself.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from mcpproxy.judge.session.frame import (
    SENT_LATE,
    Event,
    ExchangeEnd,
    Frame,
    Note,
    RequestHead,
    ResponseHead,
    SseEvent,
)
from mcpproxy.protocol.message_parts import as_object
from mcpproxy.protocol.meta_keys import VERSION_KEY
from mcpproxy.protocol.revisions import REVISIONS

Line = Mapping[str, Any]

JSON_TYPE: Final = "application/json"

FORMS: Final = (
    "http-handshake", "post", "get", "delete", "request",
    "response", "answer", "accepted", "event", "body", "end", "sent-late",
)  # fmt: skip


class Wire:
    """The state after the lines so far: the session id, the revision, the connection of each exchange."""

    def __init__(self, revision: str) -> None:
        self.revision = revision
        self.session: str | None = None
        self.opened = False
        self.seq = 0
        self._connections: dict[int, int] = {}
        self._opening: set[int] = set()

    def next(self) -> int:
        self.seq += 1
        return self.seq

    def events(self, line: Line, at_ns: int) -> list[Event]:
        """Return the events that one line stands for."""
        match line:
            case {"http-handshake": handshake}:
                return self._handshake(handshake, line.get("c", 901), at_ns)
            case {"sent-late": x}:
                late: Event = Note(
                    self._connections.get(x) or int(x), SENT_LATE, "connecting took long", at_ns
                )
                return [late]
            case {"end": x}:
                return [self._end(x, at_ns, line.get("cut", False), line.get("by"), line.get("left"))]
            case {"post": message, "x": x}:
                return self._post(message, line, x, at_ns)
            case {"get": target, "x": x}:
                return [self._head("GET", target, line, x, at_ns)]
            case {"delete": target, "x": x}:
                return [self._head("DELETE", target, line, x, at_ns)]
            case {"request": request, "x": x}:
                return self._request(request, line, x, at_ns)
            case {"response": status, "x": x}:
                return [self._response(status, line, x, at_ns)]
            case {"accepted": status, "x": x}:
                return [self._response(status, line, x, at_ns), self._end(x, at_ns)]
            case {"answer": message, "x": x}:
                headers = {"Content-Type": JSON_TYPE, **line.get("headers", {})}
                head = self._response(line.get("status", 200), {**line, "headers": headers}, x, at_ns)
                return [head, self._body(_raw(message), line, x, at_ns), self._end(x, at_ns)]
            case {"event": event, "x": x}:
                return [self._event(event, x, at_ns)]
            case {"body": text, "x": x}:
                return [self._body(text.encode(), line, x, at_ns)]
            case _:
                raise ValueError(f"no event: {line}")

    def _handshake(self, handshake: Line, connection: int, at_ns: int) -> list[Event]:
        opening = {"protocolVersion": self.revision, "capabilities": handshake["client"]}
        answer = {"protocolVersion": self.revision, "capabilities": handshake["server"]}
        session = {"Mcp-Session-Id": handshake["session"]} if handshake.get("session") else {}
        params = {**opening, "clientInfo": {"name": "client", "version": "1.0"}}
        result = {**answer, "serverInfo": {"name": "server", "version": "1.0"}}
        lines: list[Line] = [
            {"post": {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}, "x": 901},
            {"answer": {"jsonrpc": "2.0", "id": 0, "result": result}, "x": 901, "headers": session},
            {"post": {"jsonrpc": "2.0", "method": "notifications/initialized"}, "x": 902},
            {"accepted": 202, "x": 902},
        ]
        return [event for line in lines for event in self.events({**line, "c": connection}, at_ns)]

    def _post(self, message: object, line: Line, x: int, at_ns: int) -> list[Event]:
        raw = _raw(message)
        body = as_object(message)
        method = body.get("method") if body else ""
        usual: dict[str, str] = {
            "Content-Type": JSON_TYPE,
            "Accept": f"{JSON_TYPE}, text/event-stream",
            "Content-Length": str(len(raw)),
        }
        if (mirrored := _mirrored(message)) is not None:
            usual |= mirrored
        elif method == "initialize":
            self._opening.add(x)
        else:
            usual |= self._session_headers()
        head = self._head("POST", line.get("target", "/mcp"), line, x, at_ns, usual)
        return [head, Frame(self.next(), "client", raw, at_ns, exchange=x, connection=self._connections[x])]

    def _session_headers(self) -> dict[str, str]:
        usual = {"Mcp-Session-Id": self.session} if self.session else {}
        if self.opened and REVISIONS[2] <= self.revision < REVISIONS[4]:
            usual["MCP-Protocol-Version"] = self.revision
        return usual

    def _request(self, request: Line, line: Line, x: int, at_ns: int) -> list[Event]:
        body = _raw(request["body"]) if "body" in request else b""
        usual = {"Content-Length": str(len(body))} if body else {}
        target, headers = request.get("target", "/mcp"), request.get("headers", {})
        known = {**line, "headers": headers, "endpoint": request.get("endpoint", True)}
        events: list[Event] = [self._head(request["method"], target, known, x, at_ns, usual)]
        if body:
            connection = self._connections[x]
            events.append(Frame(self.next(), "client", body, at_ns, exchange=x, connection=connection))
        return events

    def _head(
        self, method: str, target: str, line: Line, x: int, at_ns: int, usual: Mapping[str, str] | None = None
    ) -> RequestHead:
        if usual is None:
            accept = {"Accept": "text/event-stream"} if method == "GET" else {}
            usual = {**accept, **self._session_headers()}
        self._connections[x] = line.get("c", x)
        headers = _merged(usual, line.get("headers", {}))
        endpoint = line.get("endpoint", True)
        return RequestHead(
            self.next(), x, self._connections[x], method, target, headers, endpoint, observed_at_ns=at_ns
        )

    def _response(self, status: int, line: Line, x: int, at_ns: int) -> ResponseHead:
        headers = _merged({}, line.get("headers", {}))
        if x in self._opening and 200 <= status < 300:
            self.opened = True
            self.session = dict(headers).get("Mcp-Session-Id", self.session)
        return ResponseHead(
            self.next(),
            x,
            self._connections.get(x, x),
            status,
            headers,
            by_proxy=line.get("by_proxy", False),
            observed_at_ns=at_ns,
        )

    def _body(self, raw: bytes, line: Line, x: int, at_ns: int) -> Frame:
        by_proxy = line.get("by_proxy", False)
        connection = self._connections.get(x, x)
        ended, seq = line.get("terminated", True), self.next()
        return Frame(seq, "server", raw, at_ns, ended, exchange=x, connection=connection, by_proxy=by_proxy)

    def _event(self, event: Line, x: int, at_ns: int) -> Frame:
        data = event.get("data")
        raw = b"" if data is None else data.encode() if isinstance(data, str) else _raw(data)
        carried = SseEvent(b"data: ", b"\n\n", event.get("id"), event.get("name"), event.get("retry"))
        connection, ended = self._connections.get(x, x), event.get("terminated", True)
        seq = self.next()
        return Frame(seq, "server", raw, at_ns, ended, exchange=x, connection=connection, event=carried)

    def _end(
        self, x: int, at_ns: int, cut: bool = False, by: Any = None, left_s: float | None = None
    ) -> ExchangeEnd:
        left_ns = at_ns if by == "client" else None
        if left_s is not None:
            left_ns = round(left_s * 1e9)
        return ExchangeEnd(x, self._connections.get(x, x), cut, by, at_ns, left_ns)


def _mirrored(message: object) -> dict[str, str] | None:
    """Return the headers that repeat a stateless message; ``None`` for a message of the other era."""
    body = as_object(message) or {}
    params = as_object(body.get("params")) or {}
    version = (as_object(params.get("_meta")) or {}).get(VERSION_KEY)
    if version is None:
        return None
    named = next((params[key] for key in ("name", "uri", "taskId") if key in params), None)
    headers = {"MCP-Protocol-Version": str(version), "Mcp-Method": str(body["method"])}
    return headers | ({"Mcp-Name": named} if isinstance(named, str) else {})


def _merged(usual: Mapping[str, str], given: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    lower = {name.lower() for name in given}
    kept = [(name, value) for name, value in usual.items() if name.lower() not in lower]
    for name, value in given.items():
        items = cast("list[str | None]", value if isinstance(value, list) else [value])
        kept += [(name, item) for item in items if item is not None]
    return tuple(kept)


def _raw(value: object) -> bytes:
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()
