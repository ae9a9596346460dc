"""A client that a person leads to a URL, with the standard library only, and the command that waits."""

import http.client
import json
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

DEADLINE_S: Final = 120
HELLO: Final = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "visitor", "version": "1"},
}


class Visitor:
    """One session of the client after another; ``status`` is that of the last response."""

    def __init__(self, url: str) -> None:
        self._url: Final = urlsplit(url)
        self._session = ""
        self._last_id = 0
        self.status = 0

    def connects(self) -> None:
        """Begin a session."""
        self._session = ""
        self.asks("initialize", HELLO)
        self._send("POST", {"method": "notifications/initialized"})

    def asks(self, method: str, params: object = None) -> Any:
        """Send a request, and return the result; ``None`` if it is refused."""
        self._last_id += 1
        given = {} if params is None else {"params": params}
        body = self._send("POST", {"id": self._last_id, "method": method, **given})
        # One answer, as a body or in a stream.
        found = re.search(rb"\{.*\}", body)
        return json.loads(found[0]).get("result") if found else None

    def leaves(self) -> None:
        """End the session."""
        self._send("DELETE", None)

    def _send(self, method: str, message: Mapping[str, object] | None) -> bytes:
        assert self._url.hostname is not None
        connection = http.client.HTTPConnection(self._url.hostname, self._url.port, timeout=DEADLINE_S)
        headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        if self._session:
            headers |= {"Mcp-Session-Id": self._session, "MCP-Protocol-Version": "2025-11-25"}
        content = None if message is None else json.dumps({"jsonrpc": "2.0", **message}).encode()
        connection.request(method, self._url.path, content, headers)
        response = connection.getresponse()
        self.status = response.status
        self._session = response.getheader("Mcp-Session-Id") or self._session
        body = response.read()
        connection.close()
        return body


class Waiting:
    """``validate client --listen`` without a command. ``said`` are its lines on stderr so far."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [sys.executable, "-m", "mcpproxy", "validate", "client", "--listen=127.0.0.1:0", "--json"]
        self._process: Final = subprocess.Popen(
            [*command, f"--trace-dir={folder / 'recordings'}", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said: Final[list[str]] = []

    def __enter__(self) -> "Waiting":
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._process.send_signal(signal.SIGTERM)
        self._process.communicate(timeout=DEADLINE_S)

    def url(self) -> str:
        """Return the URL that a person is told."""
        return self._expect(r"connect your client to (http://\S+),")

    def due(self) -> str:
        """Wait for the next server, and return the name of its scenario."""
        return self._expect(r"\d+ of \d+  (\S+):")

    def presses_enter(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def presses_ctrl_c(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def report(self) -> tuple[int, Any]:
        """Return the exit code and the report; ``None`` if there is none."""
        out, err = self._process.communicate(timeout=DEADLINE_S)
        self.said.extend(err.splitlines())
        return self._process.returncode, json.loads(out) if out else None

    def _expect(self, pattern: str) -> str:
        assert self._process.stderr is not None
        while line := self._process.stderr.readline():
            self.said.append(line.rstrip("\n"))
            if found := re.search(pattern, line):
                return found[1]
        raise AssertionError("\n".join(self.said))
