"""The server of a scenario (one test of a client), on stdio: an ordinary one, unless a script does otherwise.

A script gets the ``ScriptedServer`` and a request, and may send anything. A thread reads the stream of the
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

from mcpproxy.protocol.error_message import METHOD_NOT_FOUND, UNSUPPORTED_VERSION
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.message_parts import as_object, object_in, target_of, text_member
from mcpproxy.protocol.meta_keys import CAPABILITIES_KEY, VERSION_KEY
from mcpproxy.protocol.revisions import STATEFUL, STATELESS, Era

ANSWER_S: Final = 4.0
"""How long a script waits for the client's answer to a request of the server.

The time starts again with every other message that comes meanwhile."""

_LINE_BYTES: Final = 16 << 20
"""The longest line of the client. A longer one ends the stream."""

TOOL: Final[JSONObject] = {
    "name": "echo",
    "description": "Returns its arguments",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
    "annotations": {"readOnlyHint": True},
}
"""The tool of an ordinary server. Any arguments are right."""

MOST_REQUESTS: Final = 5_000
"""A client that sends more requests goes in a circle. The server exits, so that the recording does not fill
the disk."""

_CACHED: Final = ("server/discover", "tools/list", "resources/list", "resources/read")
"""The methods whose results say, in a stateless revision, how long they may be cached."""

_ABOUT: Final[JSONObject] = {"name": "mcpproxy-client-test", "version": "1.0"}


@dataclass(frozen=True, slots=True)
class PeerRequest:
    """A request of the client."""

    id: JSON
    method: str
    params: JSONObject

    @property
    def target(self) -> str | None:
        """The name or URI of what the request is about, such as a tool; ``None`` if it names none."""
        return target_of(self.method, self.params)

    @property
    def version(self) -> str:
        """The revision that a stateless request names; empty for one of a session."""
        return text_member(self.params, "_meta", VERSION_KEY) or ""

    @property
    def capabilities(self) -> JSONObject:
        """The capabilities that a stateless request declares; empty for one of a session."""
        meta = as_object(self.params.get("_meta")) or {}
        return as_object(meta.get(CAPABILITIES_KEY)) or {}


Script = Callable[["ScriptedServer", PeerRequest], None]
"""Answers one request of the client, or leaves it unanswered."""


class ScriptedServer:
    """One session of a scenario.

    ``seen`` counts the client's requests by method, including the current one.
    """

    def __init__(
        self,
        scripts: Mapping[str, Script],
        capabilities: JSONObject,
        eras: Collection[Era],
        source: BinaryIO | None,
    ) -> None:
        """Read the client's lines from ``source``; if it is ``None``, ``receive`` gets them.

        ``scripts`` answer requests, by method. ``capabilities`` are those of the server, and ``eras`` the
        kinds of requests that it accepts: those of sessions, stateless ones, or both.
        """
        self.seen: Final[Counter[str]] = Counter()
        self.client_capabilities: JSONObject = {}
        self.revision = ""
        """The revision that the server has offered, or that a stateless request named."""
        self.kept: Final[list[PeerRequest]] = []
        """Requests that a script answers later."""
        self._scripts: Final = scripts
        self._capabilities: Final = capabilities
        self._eras: Final = eras
        self._lines: Final[Queue[bytes]] = Queue(maxsize=1024)
        self._waiting: Final[deque[JSONObject]] = deque()
        self._last_id = 0
        if source is not None:
            threading.Thread(target=self._read_lines, args=(source,), daemon=True).start()

    def serve(self, needs: str = "", stays_s: float = 0) -> None:
        """Answer requests until the client closes the stream.

        With ``stays_s``, the server exits that many seconds after the last message, once the client has sent
        a request of the method ``needs``.
        """
        while True:
            limit_s = stays_s if stays_s and self.seen[needs] and not self._waiting else None
            message = self._next_message(limit_s)
            if message is not None:
                self.answer_message(message)
            elif limit_s is None:
                return
            else:
                self.exit(0)

    def answer_message(self, message: JSONObject) -> None:
        """Answer a message, if it is a request."""
        method = message.get("method")
        if not isinstance(method, str) or "id" not in message:
            return
        request = PeerRequest(message["id"], method, as_object(message.get("params")) or {})
        self.seen[method] += 1
        if self.seen.total() > MOST_REQUESTS:
            self.exit(0)
        self.revision = request.version or self.revision
        if method == "initialize" or request.version:
            self.client_capabilities = (
                request.capabilities
                if request.version
                else as_object(request.params.get("capabilities")) or {}
            )
        self._scripts.get(method, ScriptedServer.answer_normally)(self, request)

    def receive(self, line: bytes) -> None:
        """Queue a message of the client, for which a script may wait; an empty ``line`` ends the stream."""
        self._lines.put(line)

    def send_result(self, request: PeerRequest, result: JSONObject) -> None:
        """Answer with a result. If the request is stateless, add the members that its result must have."""
        if request.version:
            hints: JSONObject = {"ttlMs": 0, "cacheScope": "private"} if request.method in _CACHED else {}
            result = {"resultType": "complete", **hints, **result}
        self.send({"jsonrpc": "2.0", "id": request.id, "result": result})

    def send_text(self, request: PeerRequest, text: str) -> None:
        """Answer a call of a tool with a text."""
        self.send_result(request, {"content": [{"type": "text", "text": text}]})

    def notify(self, method: str, params: JSONObject | None = None) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})})

    def ask(self, method: str, params: JSONObject | None = None) -> JSONObject | None:
        """Send a request; return the client's answer, ``None`` if none came in time or the client has left.

        Other messages that come meanwhile are answered later.
        """
        self._last_id += 1
        request_id = f"ours-{self._last_id}"
        given: JSONObject = {} if params is None else {"params": params}
        self.send({"jsonrpc": "2.0", "id": request_id, "method": method, **given})
        others: list[JSONObject] = []
        answer = None
        while answer is None and (message := self._next_message(ANSWER_S)) is not None:
            if message.get("id") == request_id and "method" not in message:
                answer = message
            else:
                others.append(message)
        self._waiting.extend(others)
        return answer

    def serve_until(self, method: str) -> bool:
        """Answer requests until a message of this method comes; return ``False`` if the stream ends first."""
        while (message := self._next_message(None)) is not None:
            if message.get("method") == method:
                return True
            self.answer_message(message)
        return False

    def wait_for_message(self, limit_s: float) -> None:
        """Wait at most ``limit_s`` seconds until the client sends another message or leaves.

        The message is answered later. If messages are put off already, return at once.
        """
        if not self._waiting and (message := self._next_message(limit_s)) is not None:
            self._waiting.append(message)

    def answer_waiting(self, method: str) -> bool:
        """Answer the next request of this method that came during ``ask``; return whether there is one."""
        for message in self._waiting:
            if message.get("method") == method:
                self._waiting.remove(message)
                self.answer_message(message)
                return True
        return False

    def send(self, message: JSONObject) -> None:
        """Send one message."""
        self.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    def write(self, raw: bytes) -> None:
        """Write any bytes to stdout; exit if the client has gone."""
        try:
            sys.stdout.buffer.write(raw)
            sys.stdout.buffer.flush()
        except OSError:  # the client has gone
            self.exit(0)

    def answer_normally(self, request: PeerRequest) -> None:
        """Answer as an ordinary server."""
        if request.version and "stateless" in self._eras and request.version not in STATELESS:
            self.refuse_version(request, request.version, STATELESS)
            return
        match request.method:
            case "initialize":
                wanted = request.params.get("protocolVersion")
                if "stateful" in self._eras:
                    known = isinstance(wanted, str) and wanted in STATEFUL
                    self.accept_initialize(request, str(wanted) if known else STATEFUL[-1])
                else:
                    self.refuse_version(request, wanted, STATELESS)
            case "ping":
                self.send_result(request, {})
            case "server/discover" if request.version and "stateless" in self._eras:
                self.answer_discover(request, STATELESS)
            case "tools/list":
                self.send_result(request, {"tools": [TOOL]})
            case "tools/call":
                self.send_text(request, json.dumps(request.params.get("arguments", {})))
            case _:
                self.refuse(request, METHOD_NOT_FOUND, "Method not found")

    def accept_initialize(self, request: PeerRequest, revision: str) -> None:
        """Answer ``initialize`` with this revision."""
        self.revision = revision
        offer: JSONObject = {"protocolVersion": revision, "capabilities": self._capabilities}
        self.send_result(request, {**offer, "serverInfo": _ABOUT})

    def answer_discover(self, request: PeerRequest, revisions: Sequence[str]) -> None:
        """Answer ``server/discover`` with these revisions."""
        offer: JSONObject = {"supportedVersions": list(revisions), "capabilities": self._capabilities}
        self.send_result(request, {**offer, "serverInfo": _ABOUT})

    def refuse(self, request: PeerRequest, code: int, text: str, data: JSON = None) -> None:
        """Answer with an error; it has no ``data`` if that is ``None``."""
        error: JSONObject = {"code": code, "message": text, **({} if data is None else {"data": data})}
        self.send({"jsonrpc": "2.0", "id": request.id, "error": error})

    def refuse_version(self, request: PeerRequest, wanted: JSON, supported: Sequence[str]) -> None:
        """Refuse the revision ``wanted``, and name the supported ones."""
        data: JSONObject = {"supported": list(supported), "requested": wanted}
        self.refuse(request, UNSUPPORTED_VERSION, "Unsupported protocol version", data)

    def exit(self, code: int) -> NoReturn:
        """End the server at once."""
        os._exit(code)

    def _next_message(self, limit_s: float | None) -> JSONObject | None:
        """Return the next message; ``None`` at the end of the stream, or after ``limit_s`` seconds.

        Without a limit, the messages that were put off come first. A line that is no JSON object is skipped.
        """
        if limit_s is None and self._waiting:
            return self._waiting.popleft()
        while True:
            try:
                line = self._lines.get(timeout=limit_s)
            except Empty:
                return None
            if not line:
                self._lines.put(b"")  # so that later calls find the end, too
                return None
            if (message := object_in(line)) is not None:  # else the judge says what is wrong with it
                return message

    def _read_lines(self, source: BinaryIO) -> None:
        while (line := source.readline(_LINE_BYTES)).endswith(b"\n"):
            self._lines.put(line)
        self._lines.put(b"")
