"""Misses go to a real server: it is started when the first one comes, and told how the session began.

``Passthrough`` is the bookkeeping: which lines to write to that server, and what of its lines is for the client.
The ids stay the client's own, for that server sees nobody else's. Its requests to the client get ids that
no recorded server uses. ``PassthroughProcess`` is the process.
"""

import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from mcpproxy.errors import McpProxyError
from mcpproxy.framing.lines import LineFramer
from mcpproxy.protocol import raw_json
from mcpproxy.protocol.jsonrpc import ErrorResponse, Notification, Request, RequestId, Response, parse
from mcpproxy.protocol.raw_json import spliced
from mcpproxy.replay.message_paths import ID
from mcpproxy.replay.server.live_messages import MISS_CODE, LiveMessage, OutgoingMessage, error

_CHUNK_BYTES: Final = 1 << 16
_GRACE_S: Final = 2.0


class Passthrough:
    """What a server behind the recording is to hear, and what it says."""

    def __init__(self) -> None:
        self._opening: LiveMessage | None = None
        self._later: list[bytes] = []
        self._is_begun = False
        self._is_ready = False
        self._lives: Final[dict[tuple[type, RequestId], LiveMessage]] = {}
        self._asked: Final[dict[str, bytes]] = {}

    @property
    def owes(self) -> bool:
        """Whether the server has something to answer."""
        return bool(self._lives)

    def on_client_message(self, live: LiveMessage) -> list[bytes]:
        """Any message of the client; the lines that this makes for the server."""
        match live.message:
            case Request(method="initialize"):
                self._opening = live
            case Notification():
                if self._is_begun:
                    return self._lines([live.raw])
                if live.message.method == "notifications/initialized":
                    self._later.append(live.raw)
            case Response(id=id) | ErrorResponse(id=id) if isinstance(id, str) and id in self._asked:
                return [spliced(live.raw, {ID: self._asked.pop(id)})]
            case _:
                pass
        return []

    def pass_on(self, live: LiveMessage) -> list[bytes]:
        """A request that the recording does not answer."""
        assert isinstance(live.message, Request)
        if live.message.id is not None:
            self._lives[type(live.message.id), live.message.id] = live
        if self._is_begun:
            return self._lines([live.raw])
        self._is_begun = True
        if self._opening is None or self._opening is live:
            self._opening = None
            self._is_ready = True
            return [live.raw]
        self._later.append(live.raw)
        return [self._opening.raw]

    def on_server_line(self, raw: bytes) -> tuple[list[OutgoingMessage], list[bytes]]:
        """A line of the server: what of it is for the client, and what the server is to hear now."""
        message = parse(raw)
        match message:
            case Response(id=id) | ErrorResponse(id=id) if isinstance(id, int | str):
                opening = self._opening
                if opening and isinstance(opening.message, Request) and opening.message.id == id:
                    self._opening, self._is_ready = None, True
                    later, self._later = self._later, []
                    return [], later
                live = self._lives.pop((type(id), id), None)
                return ([OutgoingMessage(raw, live=live, answers=True)] if live else []), []
            case Request():
                own = f"passed-{len(self._asked)}"
                self._asked[own] = raw_json.taken(raw, ID) or b"null"
                return [OutgoingMessage(spliced(raw, {ID: raw_json.written(own)}))], []
            case Notification():
                return [OutgoingMessage(raw)], []
            case _:
                return [], []

    def on_exit(self) -> list[OutgoingMessage]:
        """The server has ended: what it owes is answered with an error."""
        owed = list(self._lives.values())
        self._lives.clear()
        return [error(live, MISS_CODE, "the server behind the recording has ended") for live in owed]

    def _lines(self, lines: list[bytes]) -> list[bytes]:
        if self._is_ready:
            return lines
        self._later += lines
        return []


class PassthroughProcess:
    """A command that speaks on stdio; ``receive`` gets each of its lines, and ``None`` at the end, in a thread.

    Raises:
        McpProxyError: it cannot be started.
    """

    def __init__(self, command: Sequence[str], receive: Callable[[bytes | None], None]) -> None:
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as fault:
            reason = fault.strerror or str(fault)
            raise McpProxyError(
                f"{command[0]}: cannot be run ({reason}); see the command behind --"
            ) from None
        self._receive = receive
        threading.Thread(target=self._read, name="passing", daemon=True).start()

    def write(self, lines: Sequence[bytes]) -> None:
        """Send it lines; nothing happens if it has gone."""
        assert self._process.stdin is not None
        with suppress(OSError):
            for line in lines:
                self._process.stdin.write(line + b"\n")
            self._process.stdin.flush()

    def end(self) -> None:
        """Close its stdin, and end it if it does not end by itself."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        framer = LineFramer()
        with self._process.stdout as stdout:
            while chunk := os.read(stdout.fileno(), _CHUNK_BYTES):
                for raw, _, _, continues in framer.feed(chunk, 0):
                    if not continues:
                        self._receive(raw)
        self._receive(None)
