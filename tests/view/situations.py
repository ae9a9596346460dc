"""Twelve situations that a reader of a recording must see at a glance, as small recordings.

Each is a conversation: who says what, and when, in milliseconds since the start. ``SITUATIONS`` maps a name
to the records of a trace. On stdio every one begins with the handshake of frames 1 to 3 and a listing of the
tools ``forecast`` and ``archive`` in frames 4 and 5 (rows 1 to 3), so the situation itself begins with frame
6 and row 4.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

MS: Final = 1_000_000

C: Final = "client"
S: Final = "server"


class Conversation:
    """Writes the records of a session in the order in which its methods are called."""

    def __init__(self, *, http: bool = False, **header: Any) -> None:
        self._seq = 0
        self._frames = {C: 0, S: 0}
        self._found = {"error": 0, "warning": 0, "info": 0}
        about = {
            "transport": "http" if http else "stdio",
            "command": [] if http else ["python", "weather.py"],
        }
        place = {"label": "weather", "cwd": "/srv", "pid": 77}
        time = {"started_at": "2026-11-21T10:20:30.123456Z", "started_ns": 5, "redaction": "none"}
        over_http = {"mode": "reverse", "listen": "http://127.0.0.1:3001", "endpoint": "/mcp"}
        members = (
            about | place | time | (over_http | {"upstream": "http://127.0.0.1:3000/mcp"} if http else {})
        )
        self.records = [_line({"type": "header", "format": 1, "mcpproxy": "0.1.0", **members, **header})]

    def says(self, sender: str, message: Any, ms: float, **members: Any) -> int:
        """Write a frame with ``message``, a JSON value or the text of a line; return its number."""
        self._frames[sender] += 1
        held = {"text": message} if isinstance(message, str) else {"message": message}
        return self._numbered("frame", ms, {"from": sender, **members, **held})

    def asks(
        self, id: Any, method: str, params: Any = None, *, ms: float, by: str = C, **members: Any
    ) -> int:
        """Write a request."""
        said = {"jsonrpc": "2.0", "id": id, "method": method}
        return self.says(by, said | ({} if params is None else {"params": params}), ms, **members)

    def answers(self, id: Any, result: Any, *, ms: float, by: str = S, **members: Any) -> int:
        """Write a result."""
        return self.says(by, {"jsonrpc": "2.0", "id": id, "result": result}, ms, **members)

    def fails(self, id: Any, code: int, text: str, *, ms: float, by: str = S, **members: Any) -> int:
        """Write an error."""
        error = {"code": code, "message": text}
        return self.says(by, {"jsonrpc": "2.0", "id": id, "error": error}, ms, **members)

    def notifies(self, method: str, params: Any = None, *, ms: float, by: str = S, **members: Any) -> int:
        """Write a notification."""
        said = {"jsonrpc": "2.0", "method": method}
        return self.says(by, said | ({} if params is None else {"params": params}), ms, **members)

    def posts(
        self, exchange: int, *, ms: float, method: str = "POST", session: str = "", **members: Any
    ) -> int:
        """Write the head of an HTTP request to the endpoint."""
        head = {"exchange": exchange, "connection": exchange, **({"session": session} if session else {})}
        fields = [["accept", "application/json, text/event-stream"], ["content-type", "application/json"]]
        told = {"method": method, "target": "/mcp", "version": "1.1", "headers": fields, "endpoint": True}
        return self._numbered("request", ms, head | told | members)

    def responds(
        self,
        exchange: int,
        status: int,
        *,
        ms: float,
        sse: bool = False,
        session: str = "",
        by_proxy: bool = False,
        **fields: str,
    ) -> int:
        """Write the head of an HTTP response, with more ``fields`` (``content_encoding="br"``)."""
        head = {"exchange": exchange, "connection": exchange, **({"session": session} if session else {})}
        media = {"content_type": "text/event-stream" if sse else "application/json"}
        headers = [[name.replace("_", "-"), value] for name, value in (media | fields).items()]
        told = {"status": status, "reason": "", "version": "1.1", "headers": headers}
        return self._numbered("response", ms, head | told | ({"by": "proxy"} if by_proxy else {}))

    def ends(self, exchange: int, *, ms: float, cut_by: str = "") -> None:
        """Write the end of an HTTP exchange."""
        cut = {"cut": bool(cut_by)} | ({"by": cut_by} if cut_by else {})
        self.record("end", ms, {"exchange": exchange, "connection": exchange, **cut})

    def finds(
        self, rule: str, frame: int, message: str, severity: str = "error", *, related: Sequence[int] = ()
    ) -> None:
        """Write a finding about a frame."""
        self._found[severity] += 1
        found = {"rule": rule, "severity": severity, "blame": S, "message": message, "frame": frame}
        more: dict[str, Any] = {"related": list(related), "pointer": None, "revision": "2025-11-25"}
        source = {
            "source": "https://modelcontextprotocol.io/specification/2025-11-25/basic",
            "requirement": "R-008",
        }
        self.records.append(_line({"type": "finding", **found, **more, **source}))

    def record(self, kind: str, ms: float, members: Mapping[str, Any]) -> None:
        """Write any other record."""
        self.records.append(_line({"type": kind, "t": int(ms * MS), **members}))

    def skip(self) -> None:
        """Leave out a number, for a record that is appended by hand."""
        self._seq += 1

    def closes(self, *, ms: float, code: int = 0) -> tuple[str, ...]:
        """Write the last record, and return all of them."""
        counts = {"frames": self._frames, "findings": self._found}
        ended = {"ending": "exited", "exit_code": code, "signal": None}
        self.record("close", ms, ended | counts | {"judge_error": None})
        return tuple(self.records)

    def _numbered(self, kind: str, ms: float, members: Mapping[str, Any]) -> int:
        self._seq += 1
        self.records.append(_line({"type": kind, "seq": self._seq, "t": int(ms * MS), **members}))
        return self._seq


def _line(members: Mapping[str, Any]) -> str:
    return json.dumps(members, separators=(",", ":"), ensure_ascii=False)


def schema(*names: str) -> dict[str, Any]:
    """Return the schema of an object with these texts."""
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}}


TOOLS: Final[list[dict[str, Any]]] = [
    {"name": "forecast", "description": "Tomorrow's weather in a city", "inputSchema": schema("city")},
    {"name": "archive", "description": "The weather of a day in the past", "inputSchema": schema("day")},
]
INITIALIZE: Final[dict[str, Any]] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "desk", "version": "2.1"},
}
INITIALIZED: Final[dict[str, Any]] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}, "logging": {}},
    "serverInfo": {"name": "weather", "version": "1.4"},
}


def text(said: str, **members: Any) -> dict[str, Any]:
    """Return the result of a tool: one text."""
    return {"content": [{"type": "text", "text": said}], **members}


def forecast(city: str, **meta: Any) -> dict[str, Any]:
    """Return the params of a call of ``forecast``."""
    return {"name": "forecast", "arguments": {"city": city}, **({"_meta": meta} if meta else {})}


def begun() -> Conversation:
    """Return a session on stdio after the handshake and a listing of the tools."""
    session = Conversation()
    session.asks(0, "initialize", INITIALIZE, ms=1)
    session.answers(0, INITIALIZED, ms=50)
    session.notifies("notifications/initialized", ms=51, by=C)
    session.asks(1, "tools/list", ms=52)
    session.answers(1, {"tools": TOOLS}, ms=54)
    return session


def failed_tool() -> tuple[str, ...]:
    session = begun()
    session.asks(2, "tools/call", forecast("Atlantis"), ms=100)
    session.answers(2, text("no such city: Atlantis", isError=True), ms=112)
    return session.closes(ms=200)


def hanging_call() -> tuple[str, ...]:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    session.record("eof", 5100, {"from": C})
    return session.closes(ms=5200)


def cancelled_call() -> tuple[str, ...]:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    session.notifies("notifications/cancelled", {"requestId": 2, "reason": "too slow"}, ms=900, by=C)
    session.asks(3, "ping", ms=950)
    session.answers(3, {}, ms=951)
    return session.closes(ms=1000)


def slow_call() -> tuple[str, ...]:
    session = begun()
    session.asks(2, "tools/call", {"name": "archive", "arguments": {"day": "1969-07-20"}}, ms=100)
    session.answers(2, text("clear"), ms=4300)
    session.asks(3, "tools/call", forecast("Oslo"), ms=4400)
    session.answers(3, text("Oslo: sunny"), ms=4412)
    return session.closes(ms=4500)


def wrong_id() -> tuple[str, ...]:
    session = begun()
    asked = session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    answer = session.answers("2", text("Oslo: sunny"), ms=112)
    message = f'server answered with string "2"; the request in frame {asked} used number 2'
    session.finds("PROTO-007", answer, message, related=(asked,))
    return session.closes(ms=5000)


def server_request_in_a_call() -> tuple[str, ...]:
    session = begun()
    session.asks(2, "tools/call", forecast("Springfield"), ms=100)
    wanted = {"message": "Which Springfield?", "requestedSchema": schema("state")}
    session.asks(0, "elicitation/create", wanted, ms=110, by=S)
    session.answers(0, {"action": "accept", "content": {"state": "Ohio"}}, ms=2110, by=C)
    session.answers(2, text("Springfield, Ohio: rain"), ms=2150)
    return session.closes(ms=2200)


def progress() -> tuple[str, ...]:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo", progressToken="p2"), ms=100)
    session.asks(3, "tools/call", forecast("Lima"), ms=105)
    for step in (1, 2):
        done = {"progressToken": "p2", "progress": step, "total": 2, "message": f"model {step} of 2"}
        session.notifies("notifications/progress", done, ms=100 + 100 * step)
    session.answers(3, text("Lima: fog"), ms=320)
    session.notifies("notifications/message", {"level": "info", "data": "almost done"}, ms=330)
    session.answers(2, text("Oslo: sunny"), ms=350)
    return session.closes(ms=400)


def large_result() -> tuple[str, ...]:
    session = begun()
    session.asks(2, "tools/call", {"name": "archive", "arguments": {"day": "2026-11-20"}}, ms=100)
    hours = "\n".join(
        f"{hour:02d}:00 wind {hour * 3 % 17} m/s, cloud cover {hour * 4}%" for hour in range(24)
    )
    days = "\n\n".join(f"station {number}\n{hours}" for number in range(8))
    session.answers(2, text(days), ms=130)
    return session.closes(ms=200)


def two_sessions() -> tuple[str, ...]:
    """Two clients over HTTP, whose requests have the same ids and overlap."""
    session = Conversation(http=True)
    for exchange, (name, client) in enumerate((("1a2b3c4d", "desk"), ("5e6f7a8b", "phone")), start=1):
        hello = INITIALIZE | {"clientInfo": {"name": client, "version": "1"}}
        session.posts(exchange, ms=exchange)
        session.asks(0, "initialize", hello, ms=exchange, exchange=exchange, connection=exchange)
        session.responds(exchange, 200, ms=10 + exchange, session=name)
        session.answers(
            0, INITIALIZED, ms=10 + exchange, exchange=exchange, connection=exchange, session=name
        )
        session.ends(exchange, ms=12 + exchange)
    for exchange, name, city in ((3, "1a2b3c4d", "Oslo"), (4, "5e6f7a8b", "Lima")):
        place: dict[str, Any] = {"exchange": exchange, "connection": exchange, "session": name}
        session.posts(exchange, ms=20 + exchange, session=name)
        session.asks(1, "tools/call", forecast(city), ms=20 + exchange, **place)
    for exchange, name, city in ((4, "5e6f7a8b", "Lima"), (3, "1a2b3c4d", "Oslo")):
        place: dict[str, Any] = {"exchange": exchange, "connection": exchange, "session": name}
        session.responds(exchange, 200, ms=60 - exchange, session=name)
        session.answers(1, text(f"{city}: fog"), ms=60 - exchange, **place)
        session.ends(exchange, ms=61 - exchange)
    return session.closes(ms=100)


def http_with_sse() -> tuple[str, ...]:
    """A call whose answer comes in a stream after progress, then a GET that is not allowed."""
    session = Conversation(http=True)
    name = "1a2b3c4d"
    session.posts(1, ms=1)
    session.asks(0, "initialize", INITIALIZE, ms=1, exchange=1, connection=1)
    session.responds(1, 200, ms=10, session=name)
    session.answers(0, INITIALIZED, ms=10, exchange=1, connection=1, session=name)
    session.ends(1, ms=11)
    place: dict[str, Any] = {"exchange": 2, "connection": 2, "session": name}
    session.posts(2, ms=20, session=name)
    session.asks(1, "tools/call", forecast("Oslo", progressToken=1), ms=20, **place)
    session.responds(2, 200, ms=25, sse=True, session=name)
    for step in (1, 2):
        done = {"progressToken": 1, "progress": step, "total": 2}
        session.notifies("notifications/progress", done, ms=25 + 10 * step, **place, event=_event(step))
    session.answers(1, text("Oslo: sunny"), ms=60, **place, event=_event(3))
    session.ends(2, ms=61)
    session.posts(3, ms=70, method="GET", session=name)
    session.responds(3, 405, ms=72, session=name)
    session.ends(3, ms=72)
    return session.closes(ms=100)


def _event(id: int) -> dict[str, Any]:
    return {"id": str(id), "name": "message", "retry": None, "before": f"id: {id}\ndata: ", "after": "\n\n"}


def server_crash() -> tuple[str, ...]:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    session.record("stderr", 105, {"text": "Traceback (most recent call last):"})
    session.record("stderr", 105, {"text": "ZeroDivisionError: division by zero"})
    session.record("eof", 106, {"from": S})
    return session.closes(ms=110, code=1)


def finding() -> tuple[str, ...]:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    noise = session.says(S, "looking up Oslo ...", 105)
    session.finds(
        "STDIO-002", noise, "server wrote something to stdout that is not a message: 'looking up Oslo ...'"
    )
    answer = session.answers(2, text("Oslo: sunny"), ms=112)
    session.finds("RES-004", answer, "a warning about the answer", "warning")
    return session.closes(ms=200)


SITUATIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "failed tool": failed_tool(),
    "hanging call": hanging_call(),
    "cancelled call": cancelled_call(),
    "slow call": slow_call(),
    "wrong id": wrong_id(),
    "server request in a call": server_request_in_a_call(),
    "progress": progress(),
    "7 kB result": large_result(),
    "two sessions": two_sessions(),
    "HTTP with SSE": http_with_sse(),
    "server crash": server_crash(),
    "finding": finding(),
}


def write(path: Path, records: tuple[str, ...]) -> str:
    """Write ``records`` to the file ``path``, one on each line; return its name."""
    path.write_text("".join(record + "\n" for record in records), encoding="utf-8")
    return str(path)
