"""A client over stdio that keeps to the protocol. Standard library only.

It starts its server as any host does, by a command, and does not know that the command is a proxy.
"""

import json
import subprocess
from typing import IO, Final, cast

Object = dict[str, object]

REVISION: Final = "2025-11-25"


def converse(server: subprocess.Popen[bytes]) -> None:
    """Shake hands, look at the tools, call two of them, say good-bye and wait for the server to leave."""
    assert server.stdin
    assert server.stdout
    session = DemoClient(server.stdin, server.stdout)
    about = {"name": "demo-client", "version": "1.0.0"}
    session.request("initialize", {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": about})
    session.notify("notifications/initialized")
    session.request("tools/list")
    session.request("tools/call", {"name": "forecast", "arguments": {"city": "Oslo"}})
    session.request("tools/call", {"name": "stations", "arguments": {}})
    session.request("ping")
    server.stdin.close()
    server.stdout.read()
    server.wait()


class DemoClient:
    """One request at a time over a pair of pipes."""

    def __init__(self, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        self._stdin: Final = stdin
        self._stdout: Final = stdout
        self._last_id = 0

    def request(self, method: str, params: Object | None = None) -> Object | None:
        """The answer to a request; ``None`` if the server answered something that was not asked.

        Raises:
            EOFError: the server left without an answer.
        """
        self._last_id += 1
        self._send({"jsonrpc": "2.0", "id": self._last_id, "method": method}, params)
        for line in self._stdout:
            answer = _answer(line)
            if answer and answer["id"] == self._last_id:
                return answer
            if answer:
                reason = "the answer has an id that nobody asked with"
                self.notify("notifications/cancelled", {"requestId": self._last_id, "reason": reason})
                return None
        raise EOFError(f"the server left before it answered {method}")

    def notify(self, method: str, params: Object | None = None) -> None:
        """Tell the server something; there is no answer."""
        self._send({"jsonrpc": "2.0", "method": method}, params)

    def _send(self, message: Object, params: Object | None) -> None:
        whole = message | {"params": params} if params is not None else message
        self._stdin.write(json.dumps(whole, separators=(",", ":")).encode() + b"\n")
        self._stdin.flush()


def _answer(line: bytes) -> Object | None:
    """``line`` if it is a response; notifications and what is no message at all are not for us."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return cast("Object", message) if isinstance(message, dict) and "id" in message else None
