"""HTTP recordings written by hand: exchanges of a POST, GET or DELETE, record by record."""

import json
from pathlib import Path
from typing import Any, Final

HEADER: Final[dict[str, Any]] = {
    "type": "header",
    "format": 1,
    "mcpproxy": "0.1.0",
    "transport": "http",
    "command": [],
    "label": "weather",
    "cwd": "/srv",
    "pid": 77,
    "started_at": "2026-11-21T10:20:30.123456Z",
    "started_ns": 5,
    "redaction": "credentials",
    "mode": "reverse",
    "listen": "http://127.0.0.1:1",
    "endpoint": "/mcp",
    "upstream": "http://127.0.0.1:2/mcp",
}
MASKED: Final = "masked(len=36,visible=yes,hash=478a5783229b)"
"""The session id in the recordings."""
STREAM: Final = ["Content-Type", "text/event-stream"]
JSON: Final = ["Content-Type", "application/json"]


class Tape:
    """A recording that is being written: each call adds records.

    ``session_id`` is what requests bear from now on.
    """

    def __init__(self) -> None:
        self.session_id = MASKED
        self._records: list[dict[str, Any]] = [HEADER]
        self._exchanges = 0
        self._seq = 0
        self._count = {"client": 0, "server": 0}

    def request(
        self, method: str = "POST", said: Any = None, *headers: list[str], target: str = "/mcp"
    ) -> int:
        """A request, in the session unless it opens one; the number of its exchange."""
        self._exchanges += 1
        opens = isinstance(said, dict) and said.get("method") in ("initialize", "server/discover")  # pyright: ignore[reportUnknownMemberType]
        own = [] if opens or target != "/mcp" else [["Mcp-Session-Id", self.session_id]]
        self._add(
            "request",
            self._exchanges,
            method=method,
            target=target,
            version="1.1",
            headers=[["Host", "127.0.0.1:1"], *own, *headers],
            endpoint=target == "/mcp",
        )
        if said is not None:
            self._frame(self._exchanges, "client", said)
        return self._exchanges

    def head(self, exchange: int, status: int, *headers: list[str]) -> None:
        self._add("response", exchange, status=status, reason="", version="1.1", headers=list(headers))

    def body(self, exchange: int, said: Any) -> None:
        self._frame(exchange, "server", said)

    def event(self, exchange: int, said: Any, id: str | None = None, retry: int | None = None) -> None:
        before = (f"id: {id}\n" if id else "") + (f"retry: {retry}\n" if retry else "") + "data: "
        event = {"id": id, "name": None, "retry": retry, "before": before, "after": "\n\n"}
        self._frame(exchange, "server", said, event=event)

    def end(self, exchange: int, *, cut: bool = False) -> None:
        self._records.append(
            {"type": "end", "t": self._now(), "exchange": exchange, "connection": exchange, "cut": cut}
        )

    def give(self, exchange: int, status: int, said: Any = None, *headers: list[str]) -> None:
        """A whole answer with one body."""
        self.head(exchange, status, *headers)
        if said is not None:
            self.body(exchange, said)
        self.end(exchange)

    def write(self, path: Path) -> Path:
        close = {
            "type": "close",
            "t": self._now(),
            "ending": "exited",
            "exit_code": 0,
            "signal": None,
            "frames": self._count,
            "findings": {"error": 0, "warning": 0, "info": 0},
            "judge_error": None,
        }
        text = "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in (*self._records, close))
        path.write_text(text)
        return path

    def _now(self) -> int:
        return len(self._records) * 1_000_000

    def _add(self, type: str, exchange: int, **members: Any) -> None:
        self._seq += 1
        where = {"seq": self._seq, "t": self._now(), "exchange": exchange, "connection": exchange}
        self._records.append({"type": type} | where | members)

    def _frame(self, exchange: int, sender: str, said: Any, **members: Any) -> None:
        self._count[sender] += 1
        what = {"text": said} if isinstance(said, str) else {"message": said}
        self._add("frame", exchange, **({"from": sender} | members | what))
