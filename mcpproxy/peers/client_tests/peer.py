"""The server that a scenario plays, on stdin and stdout: an ordinary server, unless a script does otherwise.

A script gets the ``ScriptedServer`` and a request, and sends what it likes. A thread reads the stream of the
client, so that a script can wait for an answer of the client, for a limited time.
"""

import json
import os
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, Queue
from typing import BinaryIO, Final, NoReturn

from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.message_parts import as_object, target_of, text_member
from mcpproxy.protocol.revisions import CAPABILITIES_KEY, STATEFUL, STATELESS, VERSION_KEY, Era

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

MOST_REQUESTS: Final = 5_000
"""A client that asks for more goes in a circle, and what is recorded of it would fill the disk."""

_UNSUPPORTED: Final = -32022
"""The code of the error that a revision is not supported."""

_CACHED: Final = ("server/discover", "tools/list", "resources/list", "resources/read")
"""The methods whose results say in a stateless revision how long they may be kept."""

_ABOUT: Final[JSONObject] = {"name": "mcpproxy-client-test", "version": "1.0"}


@dataclass(frozen=True, slots=True)
class PeerRequest:
    """A request of the client."""

    id: JSON
    method: str
    params: JSONObject

    @property
    def target(self) -> str | None:
        """The tool, prompt or resource that the request is about."""
        return target_of(self.method, self.params)

    @property
    def version(self) -> str:
        """The revision that a stateless request names; empty for one of a session."""
        return text_member(self.params, "_meta", VERSION_KEY) or ""

    @property
    def capabilities(self) -> JSONObject:
        """The capabilities that a stateless request declares."""
        meta = as_object(self.params.get("_meta")) or {}
        return as_object(meta.get(CAPABILITIES_KEY)) or {}


Script = Callable[["ScriptedServer", PeerRequest], None]
"""Answers one request of the client, or does not."""


class ScriptedServer:
    """One session of a scenario. ``seen`` counts the client's requests by method, with the current one."""

    def __init__(
        self,
        scripts: Mapping[str, Script],
        capabilities: JSONObject,
        eras: Collection[Era],
        source: BinaryIO | None,
    ) -> None:
        """Without a ``source`` the lines of the client come by ``receive``."""
        self.seen: Final[Counter[str]] = Counter()
        self.client_capabilities: JSONObject = {}
        self.revision = ""
        """The revision that it has offered, or that a stateless request named."""
        self.kept: Final[list[PeerRequest]] = []
        """Requests that a script has put off."""
        self._scripts: Final = scripts
        self._capabilities: Final = capabilities
        self._eras: Final = eras
        self._lines: Final[Queue[bytes]] = Queue(maxsize=1024)
        self._waiting: Final[deque[JSONObject]] = deque()
        self._last_id = 0
        if source is not None:
            threading.Thread(target=self._read, args=(source,), daemon=True).start()

    def serve(self, needs: str = "", stays_s: float = 0) -> None:
        """Answer requests until the client closes the stream.

        With ``stays_s`` the server ends so many seconds after the last message, once ``needs`` was asked for.
        """
        while True:
            limit_s = stays_s if stays_s and self.seen[needs] and not self._waiting else None
            message = self._next(limit_s)
            if message is not None:
                self.take(message)
            elif limit_s is None:
                return
            else:
                self.leave(0)

    def take(self, message: JSONObject) -> None:
        """Answer a message, if it is a request."""
        method = message.get("method")
        if not isinstance(method, str) or "id" not in message:
            return
        asked = PeerRequest(message["id"], method, as_object(message.get("params")) or {})
        self.seen[method] += 1
        if self.seen.total() > MOST_REQUESTS:
            self.leave(0)
        self.revision = asked.version or self.revision
        if method == "initialize" or asked.version:
            self.client_capabilities = (
                asked.capabilities if asked.version else as_object(asked.params.get("capabilities")) or {}
            )
        self._scripts.get(method, ScriptedServer.ordinary)(self, asked)

    def receive(self, line: bytes) -> None:
        """Take up a message of the client that a script may wait for."""
        self._lines.put(line)

    def result(self, asked: PeerRequest, result: JSONObject) -> None:
        """Answer with a result, and what a stateless one needs besides, unless it has that."""
        if asked.version:
            kept: JSONObject = {"ttlMs": 0, "cacheScope": "private"} if asked.method in _CACHED else {}
            result = {"resultType": "complete", **kept, **result}
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
            self.take(message)
        return False

    def lets_go_on(self, limit_s: float) -> None:
        """Wait until the client sends another message or leaves; what it sends is answered later."""
        if not self._waiting and (message := self._next(limit_s)) is not None:
            self._waiting.append(message)

    def takes_up(self, method: str) -> bool:
        """Answer the next request of this method that came meanwhile; return whether there is one."""
        for message in self._waiting:
            if message.get("method") == method:
                self._waiting.remove(message)
                self.take(message)
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
        if asked.version and "stateless" in self._eras and asked.version not in STATELESS:
            self.refuse_version(asked, asked.version, STATELESS)
            return
        match asked.method:
            case "initialize":
                wanted = asked.params.get("protocolVersion")
                if "stateful" in self._eras:
                    known = isinstance(wanted, str) and wanted in STATEFUL
                    self.welcome(asked, str(wanted) if known else STATEFUL[-1])
                else:
                    self.refuse_version(asked, wanted, STATELESS)
            case "ping":
                self.result(asked, {})
            case "server/discover" if asked.version and "stateless" in self._eras:
                self.discovered(asked, STATELESS)
            case "tools/list":
                self.result(asked, {"tools": [TOOL]})
            case "tools/call":
                self.text(asked, json.dumps(asked.params.get("arguments", {})))
            case _:
                self.refuse(asked, -32601, "Method not found")

    def welcome(self, asked: PeerRequest, revision: str) -> None:
        """Answer ``initialize`` with this revision."""
        self.revision = revision
        offer: JSONObject = {"protocolVersion": revision, "capabilities": self._capabilities}
        self.result(asked, {**offer, "serverInfo": _ABOUT})

    def discovered(self, asked: PeerRequest, revisions: Sequence[str]) -> None:
        """Answer ``server/discover`` with these revisions."""
        offer: JSONObject = {"supportedVersions": list(revisions), "capabilities": self._capabilities}
        self.result(asked, {**offer, "serverInfo": _ABOUT})

    def refuse(self, asked: PeerRequest, code: int, text: str, data: JSON = None) -> None:
        """Answer with an error, that has ``data`` unless it is ``None``."""
        error: JSONObject = {"code": code, "message": text, **({} if data is None else {"data": data})}
        self.send({"jsonrpc": "2.0", "id": asked.id, "error": error})

    def refuse_version(self, asked: PeerRequest, wanted: JSON, supported: Sequence[str]) -> None:
        """Answer that the revision is none of those that are supported."""
        data: JSONObject = {"supported": list(supported), "requested": wanted}
        self.refuse(asked, _UNSUPPORTED, "Unsupported protocol version", data)

    def leave(self, code: int) -> NoReturn:
        """End the server at once."""
        os._exit(code)

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
