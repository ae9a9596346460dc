"""Pass the requests that a recording does not answer (the misses) on to a real server.

``PassthroughProcess`` is that server, started at the first miss. ``Passthrough`` decides which lines are
written to the server, starting with the client's handshake, and which lines of the server are sent to the
client. Requests of the client keep their ids. Requests of the server get new ids, so that these differ from
the recorded ids.
"""

import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Final

from mcpproxy.base.system_words import start_failure
from mcpproxy.errors import McpProxyError
from mcpproxy.judge.session.frame import CLIENT, SERVER
from mcpproxy.judge.session.unanswered_requests import UnansweredRequests
from mcpproxy.peers.replay.message_paths import ID
from mcpproxy.peers.replay.server.live_messages import LiveMessage, OutgoingMessage, error
from mcpproxy.peers.replay.whole_lines import WholeLines
from mcpproxy.protocol import raw_json
from mcpproxy.protocol.error_message import IN_PLACE_OF_PEER
from mcpproxy.protocol.jsonrpc import ErrorResponse, Notification, Request, Response, parse
from mcpproxy.protocol.raw_json import spliced

_CHUNK_BYTES: Final = 1 << 16
_GRACE_S: Final = 2.0
"""How long the server may take to exit after its stdin was closed."""


class Passthrough:
    """The messages to and from the server behind the recording."""

    def __init__(self) -> None:
        # The client's ``initialize``, until the server has answered it; it is sent before the first miss.
        self._initialize: LiveMessage | None = None
        # Lines for the server that wait until it has answered ``initialize``.
        self._lines_after_handshake: list[bytes] = []
        # Whether a miss was passed on, so that the server runs.
        self._has_begun = False
        # Why the server answers nothing more; empty while it may.
        self._why_ended = ""
        # Whether the server has answered ``initialize``, or needs none.
        self._is_ready = False
        self._passed_requests: Final[UnansweredRequests[LiveMessage]] = UnansweredRequests()
        # The requests of the server by their new ids: the bytes of the ids that the server gave them.
        self._own_ids: Final[UnansweredRequests[bytes]] = UnansweredRequests()
        self._numbers: Final = count()

    @property
    def has_unanswered(self) -> bool:
        """Whether a request that was passed on is unanswered."""
        return any(self._passed_requests)

    def on_client_message(self, live: LiveMessage) -> list[bytes]:
        """Process a message of the client; return the lines to write to the server.

        The line of a miss is not among them: ``pass_on`` returns it.
        """
        match live.message:
            case Request(method="initialize"):
                self._initialize = live
            case Notification():
                if self._has_begun:
                    return self._lines_for_server(live.raw)
                if live.message.method == "notifications/initialized":
                    self._lines_after_handshake.append(live.raw)
            case Response(id=id) | ErrorResponse(id=id) if own_id := self._own_ids.take(SERVER, id):
                return [spliced(live.raw, {ID: own_id})]
            case _:
                pass
        return []

    def pass_on(self, live: LiveMessage) -> list[bytes]:
        """Pass on a request that the recording does not answer; return the lines to write to the server."""
        assert isinstance(live.message, Request)
        self._passed_requests.add(CLIENT, live.message.id, live)
        if self._has_begun:
            return self._lines_for_server(live.raw)
        self._has_begun = True
        if self._initialize is None or self._initialize is live:  # no handshake comes before this request
            self._initialize = None
            self._is_ready = True
            return [live.raw]
        self._lines_after_handshake.append(live.raw)
        return [self._initialize.raw]

    def on_server_line(self, raw: bytes) -> tuple[list[OutgoingMessage], list[bytes]]:
        """Process a line of the server; return the messages for the client and the lines for the server."""
        message = parse(raw)
        match message:
            case Response(id=id) | ErrorResponse(id=id) if isinstance(id, int | str):
                initialize = self._initialize
                if initialize and isinstance(initialize.message, Request) and initialize.message.id == id:
                    self._initialize, self._is_ready = None, True
                    waiting_lines, self._lines_after_handshake = self._lines_after_handshake, []
                    return [], waiting_lines  # the recording has answered the client's ``initialize``
                live = self._passed_requests.take(CLIENT, id)
                return ([OutgoingMessage(raw, live=live, answers=True)] if live else []), []
            case Request():
                new_id = f"passed-{next(self._numbers)}"
                self._own_ids.add(SERVER, new_id, raw_json.value_bytes(raw, ID) or b"null")
                return [OutgoingMessage(spliced(raw, {ID: raw_json.written(new_id)}))], []
            case Notification():
                return [OutgoingMessage(raw)], []
            case _:
                return [], []

    def on_exit(self, why: str = "the server behind the recording has ended") -> list[OutgoingMessage]:
        """Return an error for each unanswered request; to be called when the server has ended.

        ``why`` is the text of these errors and of those that ``errors_after_exit`` returns.
        """
        self._why_ended = why
        return self.errors_after_exit()

    def errors_after_exit(self) -> list[OutgoingMessage]:
        """Return an error for each unanswered request, if the server has ended."""
        why = self._why_ended
        unanswered = self._passed_requests.take_if(lambda _: bool(why))
        return [error(live, IN_PLACE_OF_PEER, why) for live in unanswered]

    def _lines_for_server(self, line: bytes) -> list[bytes]:
        """Return the line if it can be written now, else keep it until the handshake is over.

        If the server has ended, the line is dropped.
        """
        if self._why_ended:
            return []
        if self._is_ready:
            return [line]
        self._lines_after_handshake.append(line)
        return []


class PassthroughProcess:
    """A server command on stdio; a thread calls ``receive`` with each line, and with ``None`` at the end.

    Raises:
        McpProxyError: the command cannot be started.
    """

    def __init__(self, command: Sequence[str], receive: Callable[[bytes | None], None]) -> None:
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as fault:
            raise McpProxyError(start_failure(command[0], fault)) from None
        self._receive = receive
        threading.Thread(target=self._read_lines, name="passthrough", daemon=True).start()

    def write(self, lines: Sequence[bytes]) -> None:
        """Write lines to stdin of the server; do nothing if the server has ended."""
        assert self._process.stdin is not None
        with suppress(OSError):
            for line in lines:
                self._process.stdin.write(line + b"\n")
            self._process.stdin.flush()

    def end(self) -> None:
        """Close stdin of the server, and kill the server if it does not exit in time."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _read_lines(self) -> None:
        assert self._process.stdout is not None
        lines = WholeLines()
        with self._process.stdout as stdout:
            while chunk := os.read(stdout.fileno(), _CHUNK_BYTES):
                for line in lines.feed(chunk):
                    self._receive(line)
        for line in lines.end():
            self._receive(line)
        self._receive(None)
