"""The server that a scenario plays, on stdin and stdout: an ordinary server, unless a script does otherwise.

A script gets the ``ScriptedServer`` and a request, and sends what it likes. A thread reads the stream of the
client, so that a script can wait for an answer of the client, for a limited time.
"""

import json
import os
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from queue import Empty, Queue
from typing import BinaryIO, Final, NoReturn

from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.message_parts import as_object
from mcpproxy.protocol.revisions import STATEFUL

ANSWER_S: Final = 4.0
"""How long a script waits for the client's answer to a request of ours before it goes on."""

_LINE_BYTES: Final = 16 << 20
"""A longer line of the client ends the server."""

TOOL: Final[JSONObject] = {
    "name": "echo",
    "description": "Returns its arguments",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
    "annotations": {"readOnlyHint": True},
}
"""The tool that every server of ours has. Any arguments are right."""


@dataclass(frozen=True, slots=True)
class PeerRequest:
    """A request of the client."""

    id: JSON
    method: str
    params: JSONObject


Script = Callable[["ScriptedServer", PeerRequest], None]
"""Answers one request of the client, or does not."""


class ScriptedServer:
    """One session of a scenario. ``seen`` counts the client's requests by method, with the current one."""

    def __init__(self, scripts: Mapping[str, Script], capabilities: JSONObject, source: BinaryIO) -> None:
        self.seen: Final[Counter[str]] = Counter()
        self.client_capabilities: JSONObject = {}
        self.kept: Final[list[PeerRequest]] = []
        """Requests that a script has put off."""
        self._scripts: Final = scripts
        self._capabilities: Final = capabilities
        self._lines: Final[Queue[bytes]] = Queue(maxsize=1024)
        self._waiting: Final[deque[JSONObject]] = deque()
        self._last_id = 0
        threading.Thread(target=self._read, args=(source,), daemon=True).start()

    def serve(self, needs: str = "", stays_s: float = 0) -> None:
        """Answer requests until the client closes the stream.

        With ``stays_s`` the server ends so many seconds after the last message, once ``needs`` was asked for.
        """
        while True:
            limit_s = stays_s if stays_s and self.seen[needs] and not self._waiting else None
            message = self._next(limit_s)
            if message is not None:
                self._take(message)
            elif limit_s is None:
                return
            else:
                self.leave(0)

    def result(self, asked: PeerRequest, result: JSONObject) -> None:
        """Answer with a result."""
        self.send({"jsonrpc": "2.0", "id": asked.id, "result": result})

    def text(self, asked: PeerRequest, text: str) -> None:
        """Answer a call of a tool with a text."""
        self.result(asked, {"content": [{"type": "text", "text": text}]})

    def notify(self, method: str, params: JSONObject | None = None) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})})

    def ask(self, method: str, params: JSONObject | None = None) -> JSONObject | None:
        """Send a request; return the client's answer, or ``None`` if none came in time.

        What else the client sends meanwhile is answered later.
        """
        self._last_id += 1
        request_id = f"ours-{self._last_id}"
        given: JSONObject = {} if params is None else {"params": params}
        self.send({"jsonrpc": "2.0", "id": request_id, "method": method, **given})
        others: list[JSONObject] = []
        answer = None
        while answer is None and (message := self._next(ANSWER_S)) is not None:
            if message.get("id") == request_id and "method" not in message:
                answer = message
            else:
                others.append(message)
        self._waiting.extend(others)
        return answer

    def waits_for(self, method: str) -> bool:
        """Answer requests until a message of this method comes; return ``False`` if the stream ends first."""
        while (message := self._next(None)) is not None:
            if message.get("method") == method:
                return True
            self._take(message)
        return False

    def takes_up(self, method: str) -> bool:
        """Answer the next request of this method that came meanwhile; return whether there is one."""
        for message in self._waiting:
            if message.get("method") == method:
                self._waiting.remove(message)
                self._take(message)
                return True
        return False

    def send(self, message: JSONObject) -> None:
        """Send one message."""
        self.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    def write(self, raw: bytes) -> None:
        """Write any bytes to stdout."""
        try:
            sys.stdout.buffer.write(raw)
            sys.stdout.buffer.flush()
        except OSError:  # the client has gone
            self.leave(0)

    def ordinary(self, asked: PeerRequest) -> None:
        """Answer as an ordinary server does."""
        match asked.method:
            case "initialize":
                wanted = asked.params.get("protocolVersion")
                self.welcome(
                    asked, wanted if isinstance(wanted, str) and wanted in STATEFUL else STATEFUL[-1]
                )
            case "ping":
                self.result(asked, {})
            case "tools/list":
                self.result(asked, {"tools": [TOOL]})
            case "tools/call":
                self.text(asked, json.dumps(asked.params.get("arguments", {})))
            case _:
                self.refuse(asked, -32601, "Method not found")

    def welcome(self, asked: PeerRequest, revision: str) -> None:
        """Answer ``initialize`` with this revision."""
        about: JSONObject = {"name": "mcpproxy-client-test", "version": "1.0"}
        offer: JSONObject = {"protocolVersion": revision, "capabilities": self._capabilities}
        self.result(asked, {**offer, "serverInfo": about})

    def refuse(self, asked: PeerRequest, code: int, text: str) -> None:
        """Answer with an error."""
        self.send({"jsonrpc": "2.0", "id": asked.id, "error": {"code": code, "message": text}})

    def leave(self, code: int) -> NoReturn:
        """End the server at once."""
        os._exit(code)

    def _take(self, message: JSONObject) -> None:
        method = message.get("method")
        if not isinstance(method, str) or "id" not in message:
            return
        asked = PeerRequest(message["id"], method, as_object(message.get("params")) or {})
        self.seen[method] += 1
        if method == "initialize":
            self.client_capabilities = as_object(asked.params.get("capabilities")) or {}
        self._scripts.get(method, ScriptedServer.ordinary)(self, asked)

    def _next(self, limit_s: float | None) -> JSONObject | None:
        """Return the next message; ``None`` at the end of the stream, or after ``limit_s`` seconds."""
        if limit_s is None and self._waiting:
            return self._waiting.popleft()
        while True:
            try:
                line = self._lines.get(timeout=limit_s)
            except Empty:
                return None
            if not line:
                self._lines.put(b"")  # the end stays the end
                return None
            try:
                message = as_object(json.loads(line))
            except (ValueError, RecursionError):
                continue  # the judge says what is wrong with it
            if message is not None:
                return message

    def _read(self, source: BinaryIO) -> None:
        while (line := source.readline(_LINE_BYTES)).endswith(b"\n"):
            self._lines.put(line)
        self._lines.put(b"")
