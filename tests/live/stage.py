"""Plays conversations through a running ``mcpproxy http``, both peers at once.

One thread plays client and server in turn. A step is over when the other peer has read exactly the bytes
that were sent, so what is recorded comes in the order in which it is written down, and that the proxy
changes nothing is seen on the way. Nothing is waited for but bytes, ends of streams and exits.
"""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import NAMESPACE_URL, uuid5

from mcpproxy.judge.session.frame import CLIENT, SERVER, Sender
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.revisions import STATELESS, since
from tests.live.conversation import (
    Body,
    Break,
    Conversation,
    End,
    Event,
    Fields,
    Handshake,
    Leave,
    Pause,
    Request,
    Response,
    Step,
    Stream,
    Text,
    answer,
    post,
    status,
)
from tests.live.messages import INITIALIZE, INITIALIZED, WELCOME, filled, spelled
from tests.relay.hosts import DEADLINE_S, HOME
from tests.relay.http_peers import Peer, Upstream

MCPPROXY: Final = (sys.executable, "-m", "mcpproxy", "http")

FOREIGN: Final = "https://attacker.example"
"""A site whose pages the proxy is told to let through, so that it is the server that has to refuse them."""


class Recording:
    """A running proxy and the server behind it; what is played is recorded until ``stop``."""

    def __init__(self, folder: Path) -> None:
        self.trace = folder / "trace.jsonl"
        self.upstream = Upstream()
        where = [self.upstream.origin, "--listen", "127.0.0.1:0"]
        self._process = subprocess.Popen(
            [*MCPPROXY, *where, "--trace", str(self.trace), "--live", "off", "--allow-origin", FOREIGN],
            stderr=subprocess.PIPE,
            env=HOME,
        )
        assert self._process.stderr is not None
        greeting = self._process.stderr.readline().decode()
        self.port = int(greeting.partition("http://127.0.0.1:")[2].partition(" ")[0].partition("/")[0])

    def play(self, title: str, conversation: Conversation, revision: str) -> None:
        """One conversation from beginning to end; its ``title`` is what its requests can be told by.

        Raises:
            AssertionError: the proxy passed something else on than what was sent, or nothing.
        """
        play = Play(self, title, revision)
        try:
            for number, step in enumerate(conversation, start=1):
                try:
                    play.take(step)
                except (AssertionError, OSError) as error:
                    error.add_note(f"{title}: step {number}, {step}")
                    raise
        finally:
            play.close()

    def stop(self) -> None:
        """Stop the proxy; its recorder may take a moment more."""
        self._process.send_signal(signal.SIGTERM)
        _, said = self._process.communicate(timeout=DEADLINE_S)
        self.upstream.close()
        assert self._process.returncode == 0, said.decode()

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()
        self.upstream.close()


@dataclass(slots=True)
class Line:
    """One connection of the client, and the one of the proxy that goes with it."""

    client: Peer
    server: Peer
    busy: bool = True

    def tell(self, data: bytes) -> None:
        """From the server to the client, byte for byte the same."""
        self.server.send(data)
        assert self.client.read(len(data)) == data


@dataclass(slots=True)
class Exchange:
    """One request, the connection it is on, and how its answer is delimited."""

    line: Line
    opens: bool  # a session, if it is answered so
    chunked: bool = False


@dataclass(slots=True)
class Play:
    """How far a conversation has come."""

    recording: Recording
    title: str
    revision: str
    issued: str | None = None  # the session id that the client was given
    opened: bool = False
    latest: str = ""
    lines: list[Line] = field(default_factory=list[Line])
    exchanges: dict[str, Exchange] = field(default_factory=dict[str, Exchange])

    def take(self, step: Step) -> None:
        """What one step says, said and heard."""
        match step:
            case Request():
                self._ask(step)
            case Response():
                self._answer(step, self._exchange(step.on))
            case Stream():
                self._stream(step, self._exchange(step.on))
            case Event():
                self._say(self._event(step), self._exchange(step.on))
            case Text():
                self._say(step.text.encode(), self._exchange(step.on))
            case End():
                self._end(self._exchange(step.on))
            case Leave():
                line = self._exchange(step.on).line
                self._hang_up(line, line.client, line.server)
            case Break():
                line = self._exchange(step.on).line
                self._hang_up(line, line.server, line.client)
            case Pause():
                time.sleep(step.ms / 1000)
            case Handshake():
                self._shake_hands(step)

    def close(self) -> None:
        """The client closes what is still open, then the server."""
        for line in self.lines:
            line.client.close()
            line.server.close()

    def _exchange(self, on: str) -> Exchange:
        return self.exchanges[on or self.latest]

    def _shake_hands(self, step: Handshake) -> None:
        if self.revision in STATELESS:
            return
        welcome = answer(WELCOME, Mcp_Session_Id=step.session)
        for said in (post(INITIALIZE), welcome, post(INITIALIZED), status(202)):
            self.take(said)

    def _hang_up(self, line: Line, first: Peer, second: Peer) -> None:
        """``first`` closes, ``second`` sees it and closes as well."""
        self.lines.remove(line)
        first.end()
        assert second.rest() == b""
        second.close()
        assert first.rest() == b""
        first.close()

    # The client

    def _ask(self, step: Request) -> None:
        message = step.body if isinstance(step.body, dict) else {}
        opens = message.get("method") == "initialize"
        if opens:
            self.issued, self.opened = None, False
        usual = {"Host": f"127.0.0.1:{self.recording.port}", "User-Agent": self.title}
        usual |= {"Accept": "text/event-stream"} if step.method == "GET" else {}
        body = b"" if step.body is None else self._spelled(step.body, CLIENT)
        if body:
            usual |= {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
            usual["Content-Length"] = str(len(body))
        usual |= self._mirrored(message)
        head = self._head(f"{step.method} {step.to} HTTP/1.1", usual, step.fields)
        line = next((line for line in self.lines if not line.busy), None)
        if line is None:
            client = Peer(socket.create_connection(("127.0.0.1", self.recording.port), DEADLINE_S))
            client.send(head + body)
            line = Line(client, self.recording.upstream.accept())
            for peer in (line.client, line.server):
                peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.lines.append(line)
        else:
            line.client.send(head + body)
        passed = line.server.read_head() + line.server.read(len(body))
        # Host names the server now, wherever it stood.
        assert set(passed.split(b"\r\n")) - set((head + body).split(b"\r\n")) == {self._host()}
        line.busy = True
        self.latest = step.on
        self.exchanges[step.on] = Exchange(line, opens)

    def _host(self) -> bytes:
        return f"Host: 127.0.0.1:{self.recording.upstream.port}".encode()

    def _mirrored(self, message: JSONObject) -> dict[str, str]:
        """The header fields that tell which session, revision or message it is."""
        if self.revision in STATELESS:
            name = member(message, "params", "name")
            mirrored = {"MCP-Protocol-Version": self.revision, "Mcp-Method": str(message.get("method"))}
            return mirrored | ({"Mcp-Name": name} if isinstance(name, str) else {})
        mirrored = {} if self.issued is None else {"Mcp-Session-Id": self.issued}
        if self.opened and self.revision in since("2025-06-18"):
            mirrored["MCP-Protocol-Version"] = self.revision
        return mirrored

    # The server

    def _answer(self, step: Response, exchange: Exchange) -> None:
        body = b"" if step.body is None else self._spelled(step.body, SERVER)
        usual = {} if step.status == 204 else {"Content-Length": str(len(body))}
        head = self._head(f"HTTP/1.1 {step.status} So", usual, step.fields)
        exchange.line.tell(head + body)
        exchange.line.busy = False
        if exchange.opens and isinstance(step.body, dict) and "result" in step.body:
            self.opened = True
            issued = step.fields.get("Mcp-Session-Id")
            self.issued = issued and self._filled(issued)

    def _stream(self, step: Stream, exchange: Exchange) -> None:
        usual = {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        usual |= {"Transfer-Encoding": "chunked"} if step.chunked else {"Connection": "close"}
        exchange.chunked = step.chunked
        exchange.line.tell(self._head("HTTP/1.1 200 So", usual, step.fields))

    def _event(self, step: Event) -> bytes:
        fields = {"event": step.name, "id": step.id, "retry": step.retry}
        lines = [f"{name}: {value}".encode() for name, value in fields.items() if value is not None]
        lines += [b"data: " + part for part in self._spelled(step.data, SERVER).split(b"\n")]
        return b"".join(line + b"\n" for line in [*lines, b""])

    def _say(self, text: bytes, exchange: Exchange) -> None:
        exchange.line.tell(b"%x\r\n%b\r\n" % (len(text), text) if exchange.chunked else text)

    def _end(self, exchange: Exchange) -> None:
        line = exchange.line
        if exchange.chunked:
            line.tell(b"0\r\n\r\n")
            line.busy = False
        else:
            self._hang_up(line, line.server, line.client)

    # What goes over the wire

    def _head(self, first: str, usual: Mapping[str, str], given: Fields) -> bytes:
        named = {name.lower() for name in given}
        fields = [(name, value) for name, value in usual.items() if name.lower() not in named]
        fields += [(name, value) for name, value in given.items() if value is not None]
        lines = [first, *(f"{name}: {value}" for name, value in fields), "", ""]
        return self._filled("\r\n".join(lines)).encode("latin-1")

    def _spelled(self, body: Body, sender: Sender) -> bytes:
        return spelled(body, sender, self.revision, self._session)

    def _filled(self, text: str) -> str:
        return filled(text, self.revision, self._session)

    @property
    def _session(self) -> str:
        """The session id that this conversation has to itself."""
        return str(uuid5(NAMESPACE_URL, self.title))
