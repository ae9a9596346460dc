"""A correct client over stdio, with the standard library only.

The client talks to its server as usual; nothing in the client depends on a proxy between them.
"""

import json
import subprocess
from typing import IO, Final, cast

Object = dict[str, object]

REVISION: Final = "2025-11-25"


def converse(server: subprocess.Popen[bytes]) -> None:
    """Initialize, list the tools, call them, ping, close stdin and wait for the server to exit.

    Raises:
        EOFError, OSError: the server exited early.
    """
    assert server.stdin
    assert server.stdout
    session = DemoClient(server.stdin, server.stdout)
    about = {"name": "demo-client", "version": "1.0.0"}
    session.request("initialize", {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": about})
    session.notify("notifications/initialized")
    session.request("tools/list")
    session.request("tools/call", {"name": "forecast", "arguments": {"city": "Oslo"}})
    session.request("tools/call", {"name": "forecast", "arguments": {"city": "Atlantis"}})
    session.request("tools/call", {"name": "stations", "arguments": {}})
    session.request("ping")
    server.stdin.close()
    server.stdout.read()
    server.wait()


class DemoClient:
    """Sends one request at a time to a server, over a pair of pipes."""

    def __init__(self, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        self._stdin: Final = stdin
        self._stdout: Final = stdout
        self._last_id = 0

    def request(self, method: str, params: Object | None = None) -> Object | None:
        """Send a request and return the response.

        If the response has another id, cancel the request and return ``None``.

        Raises:
            EOFError, OSError: the server exited before it answered.
        """
        self._last_id += 1
        self._send({"jsonrpc": "2.0", "id": self._last_id, "method": method}, params)
        for line in self._stdout:
            answer = _response_in(line)
            if answer and answer["id"] == self._last_id:
                return answer
            if answer:
                reason = "the answer has an id that nobody asked with"
                self.notify("notifications/cancelled", {"requestId": self._last_id, "reason": reason})
                return None
        raise EOFError(f"the server left before it answered {method}")

    def notify(self, method: str, params: Object | None = None) -> None:
        """Send a notification."""
        self._send({"jsonrpc": "2.0", "method": method}, params)

    def _send(self, message: Object, params: Object | None) -> None:
        if params is not None:
            message = message | {"params": params}
        self._stdin.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        self._stdin.flush()


def _response_in(line: bytes) -> Object | None:
    """Return the response in ``line``: a JSON object with an id. Return ``None`` if it is something else.

    A request of the server would be taken for a response, too.
    """
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return cast("Object", message) if isinstance(message, dict) and "id" in message else None
