"""``python -m tests.fuzz.planted_http [FAULT...]``: the planted server over Streamable HTTP, on a free port.

It prints ``port N``. Without faults it is correct. Its sessions share the tools; what a session said last is
its own, unless ``leak-of-other-session`` is planted.
"""

import json
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from tests.fuzz.planted import Planted

HTTP_FAULTS: Final = {
    "status-500": "greet takes the first letter of a name, and the framework says 500",
    "hang-on-batch": "a batch takes the only lock and keeps it",
    "leak-of-other-session": "echo without a text shows what any session said last",
}

LOCK: Final = threading.Lock()
SESSIONS: Final[dict[str, Planted]] = {}
LAST: Final = {"text": ""}
"""What any session said last."""


def faults() -> frozenset[str]:
    """Return the planted faults."""
    same = {"status-500": "crash-on-empty-text", "leak-of-other-session": "leak-of-last-call"}
    return frozenset(same.get(name, name) for name in sys.argv[1:])


class Handler(BaseHTTPRequestHandler):
    """Answers each POST with one JSON message, or with 202 if there is none to send."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_POST(self) -> None:
        """Process a message."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not (self.headers.get("Content-Type") or "").startswith("application/json"):
            self.reply(415)
            return
        accepted = self.headers.get("Accept") or ""
        if "application/json" not in accepted or "text/event-stream" not in accepted:
            self.reply(406)
            return
        if (self.headers.get("MCP-Protocol-Version") or "2025-11-25") != "2025-11-25":
            self.reply(400)
            return
        with LOCK:
            self.process(body)

    def process(self, body: bytes) -> None:
        """Process a body; only one at a time."""
        id = self.headers.get("Mcp-Session-Id")
        opens = id is None and b'"initialize"' in body
        if id is None and not opens:
            self.reply(400)
            return
        if id is not None and id not in SESSIONS:
            self.reply(404)
            return
        server = SESSIONS.setdefault(id or uuid.uuid4().hex, Planted(faults()))
        own, server.last_text = server.last_text, LAST["text"]
        try:
            server.take(body)
        except (IndexError, UnicodeError) as error:
            self.reply(500, f"<h1>{type(error).__name__}</h1>".encode(), "text/html")
            return
        if server.last_text != LAST["text"]:
            LAST["text"] = server.last_text
        elif "leak-of-other-session" not in sys.argv:
            server.last_text = own
        said, server.out = server.out, []
        headers = {"Mcp-Session-Id": next(key for key, one in SESSIONS.items() if one is server)}
        if not said:
            self.reply(202, headers=headers)
            return
        message = json.loads(said[0])
        is_refused = "error" in message and message.get("id") is None
        self.reply(400 if is_refused else 200, said[0], headers=headers)

    def do_GET(self) -> None:
        """Offer no stream."""
        self.reply(405)

    def do_DELETE(self) -> None:
        """End a session."""
        known = SESSIONS.pop(self.headers.get("Mcp-Session-Id") or "", None)
        self.reply(200 if known else 404)

    def reply(
        self,
        status: int,
        body: bytes = b"",
        media_type: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> None:
        """Send a response."""
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if body:
            self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    sys.stdout.write(f"port {server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
